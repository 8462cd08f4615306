//! Checks for what is broken: contradictions, lost references, names that cannot be.
//!
//! Certain breakage only, or what is chosen by hand; nothing here guesses what was meant, but for
//! misspelled keywords. Two checks ask the validator's compiler and find nothing without it.
//!
//! Invariant: each check is linear in what it looks at, up to sorting.

use std::collections::HashSet;

use super::Look;
use super::compose::is_note;
use super::rules::Told;
use super::walk::{ROOT, Role, Target, has_type};
use crate::json::{Kind, Value};

pub(super) fn no_object_root(tools: &[Value<'_>], index: usize, found: &mut Told) {
    let Some(tool) = tools.get(index) else { return };
    match tool.get("inputSchema") {
        None => found.push((String::new(), "the tool has no inputSchema".to_owned())),
        Some(schema) if schema.get("type").and_then(Value::as_str) == Some("object") => {}
        Some(_) => {
            found.push(("/inputSchema".to_owned(), "the root does not say \"type\": \"object\"".to_owned()));
        }
    }
}

/// MCP server/tools: 1 to 128 of these characters; hosts refuse the request for others.
pub(super) fn tool_name(tools: &[Value<'_>], index: usize, found: &mut Told) {
    let name = tools.get(index).and_then(|t| t.get("name")).and_then(Value::as_str).unwrap_or_default();
    let good = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
    if !good || !(1..=128).contains(&name.len()) {
        found.push(("/name".to_owned(), format!("{:?} is no tool name", short(name))));
    }
}

pub(super) fn tool_twice(tools: &[Value<'_>], index: usize, found: &mut Told) {
    let name = |tool: &Value<'_>| tool.get("name").and_then(|n| n.as_str()).map(short);
    // The whole catalog is looked at once, for its first tool.
    if index > 0 {
        return;
    }
    let mut seen = HashSet::new();
    for (i, tool) in tools.iter().enumerate() {
        if let Some(own) = tool.get("name").and_then(|n| n.as_str()) {
            if !seen.insert(own) {
                let shown = name(tool).unwrap_or_default();
                found
                    .push(("/name".to_owned(), format!("tool {i} is called {shown:?} as an earlier one is")));
            }
        }
    }
}

pub(super) fn tool_undescribed(tools: &[Value<'_>], index: usize, found: &mut Told) {
    let text = tools.get(index).and_then(|t| t.get("description")).and_then(Value::as_str);
    if text.is_none_or(|t| t.trim().is_empty()) {
        found.push((String::new(), "the tool has no description".to_owned()));
    }
}

#[cfg(feature = "schema")]
fn compile(look: &Look<'_>) -> Option<crate::schema::SchemaError> {
    let schema = look.survey.site(ROOT).value;
    crate::schema::Schema::options().formats(crate::schema::Formats::Assert).compile(schema).err()
}

/// Whether a compiler's complaint is about a pattern.
#[cfg(feature = "schema")]
fn is_about_pattern(pointer: &str) -> bool {
    let mut tokens = pointer.rsplit('/');
    tokens.next() == Some("pattern") || tokens.next() == Some("patternProperties")
}

#[cfg(feature = "schema")]
pub(super) fn not_a_schema(look: &Look<'_>, found: &mut Told) {
    let known = |at| lost_reference(look, at).is_some() || foreign_dialect(look, at).is_some();
    // What other rules say better is not said twice.
    if (0..look.survey.sites.len()).any(known) {
        return;
    }
    if let Some(error) = compile(look).filter(|e| !is_about_pattern(&e.pointer)) {
        found.push((error.pointer, error.message));
    }
}

#[cfg(feature = "schema")]
pub(super) fn wild_pattern(look: &Look<'_>, found: &mut Told) {
    if let Some(error) = compile(look).filter(|e| is_about_pattern(&e.pointer)) {
        found.push((error.pointer, error.message));
    }
}

#[cfg(not(feature = "schema"))]
pub(super) fn not_a_schema(look: &Look<'_>, found: &mut Told) {
    let root = look.survey.site(ROOT).value;
    if !matches!(root.kind(), Kind::Object | Kind::Bool) {
        found.push((String::new(), "a schema is an object or a boolean".to_owned()));
    }
}

#[cfg(not(feature = "schema"))]
pub(super) fn wild_pattern(_: &Look<'_>, _: &mut Told) {}

pub(super) fn lost_reference(look: &Look<'_>, at: usize) -> Option<String> {
    let schema = look.survey.site(at).value;
    let reference = schema.get("$ref")?;
    let Some(text) = reference.as_str() else { return Some("$ref is no string".to_owned()) };
    // The metaschemas are known everywhere; with bases of their own, references need a resolver.
    let known = text.contains("//json-schema.org/draft");
    if known || look.survey.rebased || look.survey.target(at) != Target::Unknown {
        return None;
    }
    let what = if text.starts_with('#') { "leads to no schema" } else { "leads outside of this schema" };
    Some(format!("$ref {:?} {what}", short(text)))
}

/// Schemas that are applied to a value because they are applied to it already.
pub(super) fn endless_reference(look: &Look<'_>, found: &mut Told) {
    let count = look.survey.sites.len();
    let next = |at: usize| {
        let mut beside: Vec<usize> = look
            .survey
            .children(at)
            .filter(|c| {
                let site = look.survey.site(*c);
                site.role == Role::Branch || matches!(site.keyword, "if" | "not")
            })
            .collect();
        // A dynamic reference leads elsewhere where another schema extends this one.
        if look.survey.site(at).value.get("$ref").is_some() {
            if let Target::Site(target) = look.survey.target(at) {
                beside.push(target);
            }
        }
        beside
    };
    // 0: new, 1: on the way, 2: done.
    let mut state = vec![0_u8; count];
    for start in 0..count {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        let mut way = vec![(start, next(start))];
        while let Some((at, todo)) = way.last_mut() {
            let Some(to) = todo.pop() else {
                state[*at] = 2;
                way.pop();
                continue;
            };
            match state[to] {
                0 => {
                    state[to] = 1;
                    way.push((to, next(to)));
                }
                1 => {
                    let pointer = look.survey.pointer(to);
                    found.push((
                        pointer,
                        "to know whether a value fits, one has to know it already".to_owned(),
                    ));
                    return;
                }
                _ => {}
            }
        }
    }
}

/// Dialects that are supported here.
const DIALECTS: &[&str] =
    &["json-schema.org/draft/2020-12/", "json-schema.org/draft/2019-09/", "json-schema.org/draft-07/"];

pub(super) fn foreign_dialect(look: &Look<'_>, at: usize) -> Option<String> {
    let uri = look.survey.site(at).value.get("$schema")?.as_str()?;
    let known = DIALECTS.iter().any(|d| uri.contains(d));
    (!known).then(|| format!("$schema {:?} is not supported", short(uri)))
}

/// Pairs of keywords the first of which must not be greater, and the type they speak of.
const PAIRS: &[(&str, &str, &str)] = &[
    ("minLength", "maxLength", "string"),
    ("minItems", "maxItems", "array"),
    ("minProperties", "maxProperties", "object"),
    ("minimum", "maximum", "number"),
];

pub(super) fn contradiction(look: &Look<'_>, at: usize) -> Option<String> {
    let schema = look.survey.site(at).value;
    if look.marks.asked[at] {
        return None;
    }
    if schema.get("enum").is_some_and(|e| e.kind() == Kind::Array && e.is_empty()) {
        return Some("the enum is empty".to_owned());
    }
    let only = |name: &str| {
        let t = schema.get("type");
        let single = t.and_then(Value::as_str).or_else(|| t.filter(|t| t.len() == 1)?.index(0)?.as_str());
        single == Some(name) || name == "number" && single == Some("integer")
    };
    for (least, most, kind) in PAIRS {
        let figure = |keyword| schema.get(keyword).and_then(Value::as_f64);
        if let (Some(low), Some(high)) = (figure(least), figure(most)) {
            if low > high && only(kind) {
                return Some(format!("{least} is greater than {most}"));
            }
        }
    }
    // A name that must be there and must not.
    let closed = schema.get("additionalProperties").and_then(Value::as_bool) == Some(false);
    let patterns = schema.get("patternProperties").is_some_and(|p| !p.is_empty());
    if closed && !patterns && has_type(schema, "object") && only("object") {
        if let Some(name) = undeclared(schema) {
            return Some(format!("{name:?} is required, and refused as not declared"));
        }
    }
    None
}

fn undeclared<'d>(schema: Value<'d>) -> Option<&'d str> {
    let properties = schema.get("properties").map(Value::members);
    let declared: HashSet<&str> = properties.into_iter().flatten().map(|(n, _)| n).collect();
    schema.get("required")?.items().filter_map(Value::as_str).find(|n| !declared.contains(n))
}

pub(super) fn required_unknown(look: &Look<'_>, at: usize) -> Option<String> {
    let schema = look.survey.site(at).value;
    if look.marks.asked[at] || schema.get("properties").is_none() || schema.get("patternProperties").is_some()
    {
        return None;
    }
    undeclared(schema).map(|name| format!("required names {:?}, which is not declared", short(name)))
}

pub(super) fn said_twice(look: &Look<'_>, at: usize) -> Option<String> {
    let schema = look.survey.site(at).value;
    ["enum", "required", "anyOf", "oneOf", "allOf", "type"].iter().find_map(|keyword| {
        let mut seen = HashSet::new();
        let again = schema.get(keyword)?.items().find(|item| !seen.insert(item.raw()))?;
        Some(format!("{keyword} says {} twice", short(again.raw())))
    })
}

/// The keywords of draft 2020-12, and of draft-07 where they differ.
const KEYWORDS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

pub(super) fn misspelled(look: &Look<'_>, at: usize) -> Option<String> {
    look.survey.site(at).value.members().find_map(|(name, _)| {
        if KEYWORDS.contains(&name) || is_note(name) || name.len() < 4 || name.len() > 30 {
            return None;
        }
        let near = KEYWORDS.iter().find(|k| k.len() >= 4 && distance_at_most_two(name, k))?;
        Some(format!("{name:?} is no keyword; is {near:?} meant?"))
    })
}

/// Whether at most two letters have to be changed, added or taken away.
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

pub(super) fn old_spelling(look: &Look<'_>, at: usize) -> Option<String> {
    if look.survey.old {
        return None;
    }
    let schema = look.survey.site(at).value;
    let by_position = schema.get("items").is_some_and(|i| i.kind() == Kind::Array);
    if by_position {
        return Some("items is an array, which draft-07 took for prefixItems".to_owned());
    }
    let old = ["definitions", "dependencies", "additionalItems"].iter().find(|k| schema.get(k).is_some());
    old.map(|keyword| format!("{keyword} is a keyword of draft-07"))
}

/// The start of a long text, for messages.
pub(super) fn short(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text.to_owned(),
    }
}
