//! Autofix: closes objects and requires their declared members.
//!
//! Adds `additionalProperties: false` and completes `required` where one schema alone describes an
//! object. Adds `unevaluatedProperties: false` beside combinators that only require members. The
//! text is spliced, so the order of members and the spelling of numbers stay. All other objects are
//! left as they are and reported.
//!
//! # Invariants
//! - A schema that shares its value with another schema never changes; see `composition.rs`.
//! - A valid value that has each declared member and no other stays valid. An alternative that
//!   declares members is closed against the members that the other alternatives declare.
//! - A second run changes nothing.

use std::collections::HashSet;

use super::composition::{Group, Layout, is_annotation, is_closed};
use super::tree::{Role, SchemaTree, Target, is_object};
use super::{SchemaAnalysis, validity_rules};
use crate::json::{Kind, Value};

/// Treatment of optional members by the autofix. See [`Fixed`](super::Fixed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptionalProperties {
    /// Declared members become required.
    #[default]
    Require,
    /// Optional members stay optional.
    Keep,
}

/// Keyword that closes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClosingKeyword {
    Additional,
    Unevaluated,
}

/// The changes to one schema.
pub(super) struct Plan {
    close: Vec<Option<ClosingKeyword>>,
    /// Members that become required.
    require: Vec<bool>,
    /// Subschemas left as they are, with the reason.
    pub left: Vec<(usize, String)>,
}

/// Number of references followed to find out whether a member accepts a value.
const MAX_REFERENCES: usize = 16;

impl Plan {
    pub(super) fn new(analysis: &SchemaAnalysis<'_>, optional: OptionalProperties) -> Plan {
        let count = analysis.tree.nodes.len();
        let mut plan = Plan { close: vec![None; count], require: vec![false; count], left: Vec::new() };
        for at in 0..count {
            let schema = analysis.tree.node(at).value;
            if analysis.marks.conditional[at] || schema.kind() != Kind::Object {
                continue;
            }
            if analysis.marks.shared[at] {
                let role = analysis.tree.node(at).role;
                let applied = matches!(role, Role::Member | Role::Item | Role::Extra);
                if applied && schema.get("properties").is_some() && !is_closed(schema) {
                    plan.skip(at, "left open: other schemas apply to the same value");
                }
                continue;
            }
            match closable(analysis, at) {
                Ok(close) => plan.close[at] = close,
                Err(reason) => plan.skip(at, reason),
            }
            if optional == OptionalProperties::Require
                && analysis.marks.forms[at] == Layout::Plain
                && is_object(schema)
            {
                match requirable(schema) {
                    Ok(true) => plan.require_members(analysis, at),
                    Ok(false) => {}
                    Err(reason) => plan.skip(at, reason),
                }
            }
        }
        plan
    }

    fn skip(&mut self, at: usize, reason: impl Into<String>) {
        self.left.push((at, reason.into()));
    }

    /// Returns `true` if the fix closes this object.
    pub(super) fn closes(&self, at: usize) -> bool {
        self.close[at].is_some()
    }

    /// Returns `true` if the fix makes a member of this object required.
    pub(super) fn requires(&self, tree: &SchemaTree<'_>, at: usize) -> bool {
        tree.children(at).any(|child| self.require[child])
    }

    /// Requires the optional members of an object that certainly accept a value.
    fn require_members(&mut self, analysis: &SchemaAnalysis<'_>, at: usize) {
        let required = analysis.tree.node(at).value.get("required").map(Value::items);
        let given: HashSet<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        for child in analysis.tree.children(at) {
            let node = analysis.tree.node(child);
            let Some(name) = node.name().filter(|_| node.role == Role::Member) else { continue };
            if given.contains(name) {
                continue;
            }
            if analysis.cycles()[child] == analysis.cycles()[at] {
                self.skip(at, format!("{name:?} left optional: its schema is recursive"));
            } else if !accepts_something(analysis, child) {
                self.skip(at, format!("{name:?} left optional: it is not certain that a value exists"));
            } else {
                self.require[child] = true;
            }
        }
    }

    /// Returns the changes to the text of the document that contains the schema.
    pub(super) fn edits(&self, tree: &SchemaTree<'_>, edits: &mut Vec<Edit>) {
        for at in 0..tree.nodes.len() {
            let schema = tree.node(at).value;
            let names: Vec<&str> = self.required_names(tree, at);
            let mut added = Vec::new();
            if !names.is_empty() {
                match schema.get("required") {
                    Some(list) => edits.push(append(list, &names)),
                    None => added.push(Added::Required(&names)),
                }
            }
            let additional = member(schema, "additionalProperties");
            match self.close[at] {
                None => {}
                Some(ClosingKeyword::Additional) => match additional {
                    Some((_, old)) => edits.push(Edit::replace(old, "false")),
                    None => added.push(Added::False("additionalProperties")),
                },
                Some(ClosingKeyword::Unevaluated) => {
                    match (member(schema, "unevaluatedProperties"), additional) {
                        (Some((_, old)), _) => edits.push(Edit::replace(old, "false")),
                        (None, Some((name, old))) => {
                            edits.push(Edit::replace(name, "\"unevaluatedProperties\""));
                            edits.push(Edit::replace(old, "false"));
                        }
                        (None, None) => added.push(Added::False("unevaluatedProperties")),
                    }
                }
            }
            if !added.is_empty() {
                edits.push(insert(schema, &added));
            }
        }
    }

    /// Returns the names to add to the `required` of an object, with the spelling of the text.
    fn required_names<'d>(&self, tree: &SchemaTree<'d>, at: usize) -> Vec<&'d str> {
        if !self.requires(tree, at) {
            return Vec::new();
        }
        let members = tree.children(at).filter(|c| self.require[*c]);
        let wanted: HashSet<&str> = members.filter_map(|c| tree.node(c).name()).collect();
        let mut given = HashSet::new();
        let properties = tree.node(at).value.get("properties").map(Value::member_values);
        let named = properties.into_iter().flatten().filter(|(name, _)| {
            name.as_str().is_some_and(|text| wanted.contains(text) && given.insert(text))
        });
        named.map(|(name, _)| name.raw()).collect()
    }
}

/// Returns the keyword with which the fix closes an object, or the reason not to close it.
fn closable(analysis: &SchemaAnalysis<'_>, at: usize) -> Result<Option<ClosingKeyword>, String> {
    let schema = analysis.tree.node(at).value;
    let close = match analysis.marks.forms[at] {
        Layout::Plain => ClosingKeyword::Additional,
        Layout::Composed => ClosingKeyword::Unevaluated,
        Layout::Wrapper | Layout::Union => return Ok(None),
    };
    if !is_object(schema) || !open(schema)? {
        return Ok(None);
    }
    if close == ClosingKeyword::Unevaluated {
        if analysis.tree.old {
            return Err("left open: draft-07 has no unevaluatedProperties for use beside combinators".into());
        }
        if !only_requires_beside(analysis, at) {
            return Err("left open: combinators or a reference beside it may declare more members".into());
        }
        if ["additionalProperties", "unevaluatedProperties"].iter().all(|k| schema.get(k).is_some()) {
            return Err("left open: both additionalProperties and unevaluatedProperties are true".into());
        }
    }
    let properties = schema.get("properties");
    let patterns = schema.get("patternProperties");
    if properties.or(patterns).is_none() {
        return Err("left open: it declares no properties, so closing it would reject every member".into());
    }
    if schema.get("const").is_some() || schema.get("enum").is_some() {
        return Err("left open: const or enum lists the accepted objects".into());
    }
    let declared: HashSet<&str> =
        properties.map(Value::members).into_iter().flatten().map(|(n, _)| n).collect();
    let group = if close == ClosingKeyword::Unevaluated { Group::of(&analysis.tree, at) } else { None };
    let nodes = group.map_or(vec![at], |group| group.nodes);
    let mut names = nodes.iter().flat_map(|node| required_anywhere(analysis.tree.node(*node).value));
    if let Some(missing) = names.find(|n| !declared.contains(n)) {
        return Err(format!("left open: {missing:?} can be required but is not declared"));
    }
    let least = schema.get("minProperties").and_then(Value::as_f64);
    if patterns.is_none_or(|p| p.is_empty()) && least.is_some_and(|n| n > declared.len() as f64) {
        return Err("left open: minProperties is larger than the number of declared members".into());
    }
    Ok(Some(close))
}

/// Returns `true` if the schemas beside an object only require members of it.
fn only_requires_beside(analysis: &SchemaAnalysis<'_>, at: usize) -> bool {
    Group::of(&analysis.tree, at).is_some_and(|group| {
        group.nodes.iter().skip(1).all(|other| {
            let keywords = analysis.tree.node(*other).value.members().map(|(keyword, _)| keyword);
            let mut other_keywords = keywords.filter(|keyword| !is_annotation(keyword));
            other_keywords.all(|k| matches!(k, "required" | "type" | "allOf" | "anyOf" | "oneOf" | "not"))
        }) && group.nodes.iter().all(|node| analysis.tree.target(*node) == Target::None)
    })
}

/// Returns the names that a schema itself requires, always or beside another member.
fn required_anywhere<'d>(schema: Value<'d>) -> Vec<&'d str> {
    let mut names = Vec::new();
    if let Some(required) = schema.get("required") {
        names.extend(required.items().filter_map(Value::as_str));
    }
    for keyword in ["dependentRequired", "dependencies"] {
        for (_, needs) in schema.get(keyword).map(Value::members).into_iter().flatten() {
            names.extend(needs.items().filter_map(Value::as_str));
        }
    }
    names
}

/// Returns `true` if an object accepts undeclared members.
fn open(schema: Value<'_>) -> Result<bool, String> {
    let kind = |keyword| schema.get(keyword).map(|v| (v.kind(), v.as_bool()));
    match (kind("additionalProperties"), kind("unevaluatedProperties")) {
        (Some((_, Some(false))), _) | (_, Some((_, Some(false)))) => Ok(false),
        (Some((Kind::Object, _)), _) => Err("left open: additionalProperties is a schema".into()),
        (_, Some((Kind::Object, _))) => Err("left open: unevaluatedProperties is a schema".into()),
        (Some((Kind::Bool, _)) | None, _) => Ok(true),
        _ => Err("left as it is: additionalProperties is not a schema".into()),
    }
}

/// Returns `true` if all declared members of an object may be required together. Otherwise `false`,
/// or the reason as an error.
fn requirable(schema: Value<'_>) -> Result<bool, &'static str> {
    let Some(properties) = schema.get("properties").filter(|p| !p.is_empty()) else { return Ok(false) };
    let required = schema.get("required");
    if required.is_some_and(|r| r.kind() != Kind::Array || r.items().any(|n| n.as_str().is_none())) {
        return Err("required left as it is: it is not a list of names");
    }
    let mut names: HashSet<&str> = properties.members().map(|(n, _)| n).collect();
    let given: HashSet<&str> =
        required.map(Value::items).into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_subset(&given) {
        return Ok(false);
    }
    names.extend(given);
    if schema.get("maxProperties").and_then(Value::as_f64).is_some_and(|n| n < names.len() as f64) {
        return Err("required left as it is: maxProperties is smaller than the number of declared members");
    }
    if schema.get("const").is_some() || schema.get("enum").is_some() {
        return Err("required left as it is: const or enum lists the accepted objects");
    }
    let ruled =
        ["propertyNames", "patternProperties"].iter().any(|k| schema.get(k).is_some_and(|v| !v.is_empty()));
    if ruled || schema.get("propertyNames").and_then(Value::as_bool) == Some(false) {
        return Err("required left as it is: rules for names may reject a declared one");
    }
    if schema.get("dependentRequired").or(schema.get("dependencies")).is_some() {
        return Err("required left as it is: its members depend on each other");
    }
    Ok(true)
}

/// Returns `true` if a subschema certainly accepts a value. Follows references and the alternatives
/// of one `anyOf`.
fn accepts_something(analysis: &SchemaAnalysis<'_>, at: usize) -> bool {
    let Some(at) = follow(analysis, at) else { return false };
    let schema = analysis.tree.node(at).value;
    let mut alternatives =
        analysis.tree.children(at).filter(|c| analysis.tree.node(*c).keyword == "anyOf").peekable();
    if alternatives.peek().is_none() {
        return is_satisfiable(analysis, at);
    }
    schema.members().all(|(k, _)| k == "anyOf" || is_annotation(k))
        && alternatives.any(|c| follow(analysis, c).is_some_and(|c| is_satisfiable(analysis, c)))
}

/// Follows a chain of references without other keywords.
fn follow(analysis: &SchemaAnalysis<'_>, mut at: usize) -> Option<usize> {
    for _ in 0..MAX_REFERENCES {
        match analysis.tree.target(at) {
            Target::None => return Some(at),
            Target::Node(target) if analysis.marks.forms[at] == Layout::Wrapper => {
                // A type beside the reference may contradict the target.
                if !analysis.tree.old && analysis.tree.node(at).value.get("type").is_some() {
                    return None;
                }
                at = target;
            }
            _ => return None,
        }
    }
    None
}

/// Returns `true` if a schema without combinators accepts a value, as far as its keywords show.
fn is_satisfiable(analysis: &SchemaAnalysis<'_>, at: usize) -> bool {
    const UNCERTAIN: &[&str] = &[
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "contains",
        "propertyNames",
        "dependentSchemas",
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
    ];
    let schema = analysis.tree.node(at).value;
    match schema.as_bool() {
        Some(verdict) => verdict,
        None => {
            !UNCERTAIN.iter().any(|k| schema.get(k).is_some())
                && validity_rules::contradiction(analysis, at).is_none()
        }
    }
}

/// A change to a text.
#[derive(Debug)]
pub(super) struct Edit {
    start: usize,
    end: usize,
    text: String,
}

impl Edit {
    pub(super) fn replace(old: Value<'_>, text: &str) -> Edit {
        Edit { start: old.offset(), end: end(old), text: text.to_owned() }
    }
}

/// Applies changes, which must not overlap, to a text.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|e| e.start);
    let added: usize = edits.iter().map(|e| e.text.len()).sum();
    let mut out = String::with_capacity(text.len() + added);
    let mut from = 0;
    for edit in &edits {
        out.push_str(text.get(from..edit.start).unwrap_or_default());
        out.push_str(&edit.text);
        from = edit.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

fn end(value: Value<'_>) -> usize {
    value.offset() + value.raw().len()
}

/// Returns the last member of this name, the one that counts, with its name as a value.
fn member<'d>(object: Value<'d>, name: &str) -> Option<(Value<'d>, Value<'d>)> {
    object.member_values().filter(|(n, _)| n.as_str() == Some(name)).last()
}

enum Added<'a> {
    Required(&'a [&'a str]),
    False(&'static str),
}

/// Adds members after the last one of an object, with the layout of its members.
fn insert(object: Value<'_>, added: &[Added<'_>]) -> Edit {
    let raw = object.raw();
    let start = object.offset();
    let mut members = object.member_values();
    let first = members.next();
    let second = members.next();
    let last = object.member_values().last();
    let cut = |from: usize, to: usize| raw.get(from - start..to - start).unwrap_or_default();
    // Whitespace before each member, around its colon, and before the closing brace.
    let (lead, colon, close) = match (first, last) {
        (Some((name, value)), Some((_, last))) => (
            cut(start + 1, name.offset()),
            cut(end(name), value.offset()),
            cut(end(last), start + raw.len() - 1),
        ),
        _ => ("", ":", ""),
    };
    let comma = match (first, second) {
        (Some((_, value)), Some((name, _))) => cut(end(value), name.offset()).to_owned(),
        _ if lead.contains('\n') => format!(",{lead}"),
        _ if colon.ends_with(' ') => ", ".to_owned(),
        _ => ",".to_owned(),
    };
    let mut text = String::new();
    for member in added {
        text.push_str(&comma);
        match member {
            Added::False(name) => {
                text.push_str(&format!("\"{name}\"{colon}false"));
            }
            Added::Required(names) => {
                text.push_str(&format!("\"required\"{colon}["));
                let unit = lead.strip_prefix(close).filter(|_| lead.contains('\n'));
                match unit {
                    Some(unit) => {
                        let between = format!(",{lead}{unit}");
                        text.push_str(&format!("{lead}{unit}{}{lead}]", names.join(&between)));
                    }
                    None => {
                        let between = if comma.ends_with(' ') { ", " } else { "," };
                        text.push_str(&format!("{}]", names.join(between)));
                    }
                }
            }
        }
    }
    let at = last.map_or(start + 1, |(_, value)| end(value));
    Edit { start: at, end: at, text }
}

/// Adds names after the last one of a list.
fn append(list: Value<'_>, names: &[&str]) -> Edit {
    let raw = list.raw();
    let start = list.offset();
    let first = list.index(0);
    let last = list.items().last();
    let (Some(first), Some(last)) = (first, last) else {
        return Edit { start, end: start + raw.len(), text: format!("[{}]", names.join(", ")) };
    };
    let lead = raw.get(1..first.offset() - start).unwrap_or_default();
    let comma = match list.index(1) {
        Some(second) => raw.get(end(first) - start..second.offset() - start).unwrap_or(",").to_owned(),
        None if lead.contains('\n') => format!(",{lead}"),
        None => ", ".to_owned(),
    };
    let text = names.iter().map(|name| format!("{comma}{name}")).collect();
    Edit { start: end(last), end: end(last), text }
}
