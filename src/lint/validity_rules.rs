//! Rules about invalid and contradictory schemas: references, dialects, names, duplicates.
//!
//! All findings are certain, except those about misspelled keywords. Two checks run the schema
//! compiler; without the feature `pattern` it cannot check patterns.
//!
//! Invariant: each check is linear in what it reads, up to sorting.

use std::collections::HashSet;

use super::SchemaAnalysis;
use super::composition::is_annotation;
use super::rules::Found;
use super::tree::{ROOT, Role, Target, has_type};
use crate::json::{Kind, Value};
use crate::schema::keyword::{self, Keyword};
use crate::schema::{Formats, Schema, SchemaError};
use crate::tool_name::{TOOL_NAMES, is_tool_name};

pub(super) fn no_object_root(tools: &[Value<'_>], index: usize, found: &mut Found) {
    let Some(tool) = tools.get(index) else { return };
    match tool.get("inputSchema") {
        None => found.push((String::new(), "the tool has no inputSchema".to_owned())),
        Some(schema) if schema.get("type").and_then(Value::as_str) == Some("object") => {}
        Some(_) => {
            found.push(("/inputSchema".to_owned(), "the root must have \"type\": \"object\"".to_owned()));
        }
    }
}

/// Hosts reject a request that names a tool invalidly (MCP server/tools, tool names).
pub(super) fn tool_name(tools: &[Value<'_>], index: usize, found: &mut Found) {
    let name = tools.get(index).and_then(|t| t.get("name")).and_then(Value::as_str).unwrap_or_default();
    if !is_tool_name(name) {
        found.push(("/name".to_owned(), format!("invalid tool name {:?}: {TOOL_NAMES}", short(name))));
    }
}

pub(super) fn duplicate_tool(tools: &[Value<'_>], index: usize, found: &mut Found) {
    let name = |tool: &Value<'_>| tool.get("name").and_then(|n| n.as_str()).map(short);
    // One pass over the whole catalog, when the first tool is checked.
    if index > 0 {
        return;
    }
    let mut seen = HashSet::new();
    for (i, tool) in tools.iter().enumerate() {
        if let Some(own) = tool.get("name").and_then(|n| n.as_str()) {
            if !seen.insert(own) {
                let shown = name(tool).unwrap_or_default();
                let message = format!("tool {i} has the name {shown:?} of an earlier tool");
                found.push(("/name".to_owned(), message));
            }
        }
    }
}

pub(super) fn tool_undescribed(tools: &[Value<'_>], index: usize, found: &mut Found) {
    let text = tools.get(index).and_then(|t| t.get("description")).and_then(Value::as_str);
    if text.is_none_or(|t| t.trim().is_empty()) {
        found.push((String::new(), "the tool has no description".to_owned()));
    }
}

fn compile(analysis: &SchemaAnalysis<'_>) -> Option<SchemaError> {
    let schema = analysis.tree.node(ROOT).value;
    Schema::options().formats(Formats::Assert).compile(schema).err()
}

/// Returns `true` if the pointer of a compile error leads to a pattern.
fn is_about_pattern(pointer: &str) -> bool {
    let mut tokens = pointer.rsplit('/');
    tokens.next() == Some("pattern") || tokens.next() == Some("patternProperties")
}

pub(super) fn not_a_schema(analysis: &SchemaAnalysis<'_>, found: &mut Found) {
    let known = |at| lost_reference(analysis, at).is_some() || foreign_dialect(analysis, at).is_some();
    // SCH-012 and SCH-015 describe these errors better.
    if (0..analysis.tree.nodes.len()).any(known) {
        return;
    }
    if let Some(error) = compile(analysis).filter(|e| !is_about_pattern(&e.pointer)) {
        found.push((error.pointer, error.message));
    }
}

pub(super) fn wild_pattern(analysis: &SchemaAnalysis<'_>, found: &mut Found) {
    // Without the feature, the compiler rejects every pattern.
    if !cfg!(feature = "pattern") {
        return;
    }
    if let Some(error) = compile(analysis).filter(|e| is_about_pattern(&e.pointer)) {
        found.push((error.pointer, error.message));
    }
}

pub(super) fn lost_reference(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let schema = analysis.tree.node(at).value;
    let reference = schema.get("$ref")?;
    let Some(text) = reference.as_str() else { return Some("$ref must be a string".to_owned()) };
    // Every validator knows the metaschemas. Relative base URIs would need a resolver.
    let known = text.contains("//json-schema.org/draft");
    if known || analysis.tree.rebased || analysis.tree.target(at) != Target::Unknown {
        return None;
    }
    let what =
        if text.starts_with('#') { "has no target in this schema" } else { "leads outside of this schema" };
    Some(format!("$ref {:?} {what}", short(text)))
}

/// Finds a schema that applies itself to the same value.
pub(super) fn endless_reference(analysis: &SchemaAnalysis<'_>, found: &mut Found) {
    let count = analysis.tree.nodes.len();
    let next = |at: usize| {
        let mut beside: Vec<usize> = analysis
            .tree
            .children(at)
            .filter(|c| {
                let node = analysis.tree.node(*c);
                node.role == Role::Branch || matches!(node.keyword, "if" | "not")
            })
            .collect();
        // A schema that extends this one changes the target of a dynamic reference.
        if analysis.tree.node(at).value.get("$ref").is_some() {
            if let Target::Node(target) = analysis.tree.target(at) {
                beside.push(target);
            }
        }
        beside
    };
    // 0: new, 1: on the current path, 2: done.
    let mut state = vec![0_u8; count];
    for start in 0..count {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        let mut path = vec![(start, next(start))];
        while let Some((at, todo)) = path.last_mut() {
            let Some(to) = todo.pop() else {
                state[*at] = 2;
                path.pop();
                continue;
            };
            match state[to] {
                0 => {
                    state[to] = 1;
                    path.push((to, next(to)));
                }
                1 => {
                    let pointer = analysis.tree.pointer(to);
                    found.push((
                        pointer,
                        "the schema applies itself to the same value without end".to_owned(),
                    ));
                    return;
                }
                _ => {}
            }
        }
    }
}

/// Supported dialects.
const DIALECTS: &[&str] =
    &["json-schema.org/draft/2020-12/", "json-schema.org/draft/2019-09/", "json-schema.org/draft-07/"];

pub(super) fn foreign_dialect(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let uri = analysis.tree.node(at).value.get("$schema")?.as_str()?;
    let known = DIALECTS.iter().any(|d| uri.contains(d));
    (!known).then(|| format!("$schema {:?} is not supported", short(uri)))
}

/// Pairs of keywords for a lower and an upper bound, and the type they apply to.
const PAIRS: &[(&str, &str, &str)] = &[
    ("minLength", "maxLength", "string"),
    ("minItems", "maxItems", "array"),
    ("minProperties", "maxProperties", "object"),
    ("minimum", "maximum", "number"),
];

pub(super) fn contradiction(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let schema = analysis.tree.node(at).value;
    if analysis.marks.conditional[at] {
        return None;
    }
    if let Some(message) = no_choice(schema) {
        return Some(message);
    }
    let only = |name: &str| {
        let t = schema.get("type");
        let single = t.and_then(Value::as_str).or_else(|| t.filter(|t| t.len() == 1)?.index(0)?.as_str());
        single == Some(name) || name == "number" && single == Some("integer")
    };
    for (least, most, kind) in PAIRS {
        let number = |keyword| schema.get(keyword).and_then(Value::as_f64);
        if let (Some(low), Some(high)) = (number(least), number(most)) {
            if low > high && only(kind) {
                return Some(format!("{least} is greater than {most}"));
            }
            if only("integer") && *kind == "number" && low.ceil() > high.floor() {
                return Some(format!("no integer lies between {least} and {most}"));
            }
        }
    }
    // A required name that is also rejected.
    let closed = schema.get("additionalProperties").and_then(Value::as_bool) == Some(false);
    let patterns = schema.get("patternProperties").is_some_and(|p| !p.is_empty());
    if closed && !patterns && has_type(schema, "object") && only("object") {
        if let Some(name) = undeclared(schema) {
            return Some(format!("{name:?} is required, but rejected because it is not declared"));
        }
    }
    None
}

/// Describes an `enum` or `const` without a value of an accepted type.
fn no_choice(schema: Value<'_>) -> Option<String> {
    let fits = |choice: Value<'_>| {
        let kind = match choice.kind() {
            Kind::Null => "null",
            Kind::Bool => "boolean",
            Kind::Number => "number",
            Kind::String => "string",
            Kind::Array => "array",
            Kind::Object => "object",
        };
        let whole = choice.as_f64().is_some_and(|n| n.fract() == 0.0);
        has_type(schema, kind) || whole && has_type(schema, "integer")
    };
    let typed = schema.get("type").is_some();
    let choices = schema.get("enum").filter(|e| e.kind() == Kind::Array);
    match (choices, schema.get("const")) {
        (Some(choices), _) if choices.is_empty() => Some("the enum is empty".to_owned()),
        (Some(choices), _) if typed && !choices.items().any(fits) => {
            Some("no value of the enum has the declared type".to_owned())
        }
        (_, Some(only)) if typed && !fits(only) => {
            Some("the const does not have the declared type".to_owned())
        }
        _ => None,
    }
}

fn undeclared<'d>(schema: Value<'d>) -> Option<&'d str> {
    let properties = schema.get("properties").map(Value::members);
    let declared: HashSet<&str> = properties.into_iter().flatten().map(|(n, _)| n).collect();
    schema.get("required")?.items().filter_map(Value::as_str).find(|n| !declared.contains(n))
}

pub(super) fn required_unknown(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let schema = analysis.tree.node(at).value;
    if analysis.marks.conditional[at]
        || schema.get("properties").is_none()
        || schema.get("patternProperties").is_some()
    {
        return None;
    }
    undeclared(schema).map(|name| format!("required names the undeclared property {:?}", short(name)))
}

pub(super) fn duplicate(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let schema = analysis.tree.node(at).value;
    ["enum", "required", "anyOf", "oneOf", "allOf", "type"].iter().find_map(|keyword| {
        let mut seen = HashSet::new();
        let duplicate = schema.get(keyword)?.items().find(|item| !seen.insert(item.raw()))?;
        Some(format!("{keyword} lists {} twice", short(duplicate.raw())))
    })
}

pub(super) fn misspelled(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    analysis.tree.node(at).value.members().find_map(|(name, _)| {
        if Keyword::named(name).is_some() || is_annotation(name) || name.len() < 4 || name.len() > 30 {
            return None;
        }
        let near = keyword::NAMES.iter().find(|k| k.len() >= 4 && distance_at_most_two(name, k))?;
        Some(format!("unknown keyword {name:?}; did you mean {near:?}?"))
    })
}

/// Returns `true` if two words differ by at most two changed, added or removed letters.
fn distance_at_most_two(a: &str, b: &str) -> bool {
    if a.len().abs_diff(b.len()) > 2 {
        return false;
    }
    let b: Vec<u8> = b.to_ascii_lowercase().into_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_ascii_lowercase().bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(x != *y)).min(*cell + 1).min(left + 1);
            diagonal = *cell;
            *cell = best;
            left = best;
        }
    }
    row.last().is_some_and(|d| *d <= 2)
}

pub(super) fn old_spelling(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    if analysis.tree.old {
        return None;
    }
    let schema = analysis.tree.node(at).value;
    let by_position = schema.get("items").is_some_and(|i| i.kind() == Kind::Array);
    if by_position {
        return Some("items is an array, which is draft-07; use prefixItems".to_owned());
    }
    let old = ["definitions", "dependencies", "additionalItems"].iter().find(|k| schema.get(k).is_some());
    old.map(|keyword| format!("{keyword} is a draft-07 keyword"))
}

/// Reports an old dialect in an output schema: some clients reject the tool because of it.
pub(super) fn old_output(analysis: &SchemaAnalysis<'_>, found: &mut Found) {
    if analysis.which == "outputSchema" && analysis.tree.old {
        found.push((
            String::new(),
            "some hosts refuse tools whose outputSchema names an old draft".to_owned(),
        ));
    }
}

/// Finds definitions without a reference to them or into them.
pub(super) fn unused_definitions(analysis: &SchemaAnalysis<'_>, found: &mut Found) {
    const MAX_LISTED: usize = 5;
    let count = analysis.tree.nodes.len();
    // Parents precede their children, so one backward pass finds the used ones.
    let mut used = analysis.marks.reachable.clone();
    for at in (1..count).rev() {
        if used[at] {
            used[analysis.tree.parent(at)] = true;
        }
    }
    let unused: Vec<String> = (1..count)
        .filter(|at| analysis.tree.node(*at).role == Role::Definition)
        .filter(|at| !used[*at] && used[analysis.tree.parent(*at)])
        .map(|at| short(analysis.tree.node(at).name().unwrap_or_default()))
        .collect();
    let listed = unused.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if unused.len() > MAX_LISTED { ", …" } else { "" };
    match unused.len() {
        0 => {}
        1 => found.push((String::new(), format!("the definition {listed} is never referenced"))),
        n => found.push((String::new(), format!("{n} definitions are never referenced: {listed}{more}"))),
    }
}

/// Truncates a text for messages.
pub(super) fn short(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text.to_owned(),
    }
}
