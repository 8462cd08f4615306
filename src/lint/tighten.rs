//! The autofix: objects closed, and their declared members required.
//!
//! `additionalProperties: false` and a complete `required` on every object schema that says itself
//! what its members are; `unevaluatedProperties: false` where schemas beside it say more. The text
//! is spliced: nothing else changes, not the order of members nor how numbers are written. What
//! cannot be tightened without forbidding what the schema demands is left and named.
//!
//! # Invariants
//! - A schema that accepts something still does; see `witness.rs` for what is proven and what is
//!   not attempted.
//! - Every value that was valid, and had each declared member and no other, is valid still. Declared
//!   is what a schema that holds for the value declares: of two alternatives with members of their
//!   own each is closed against those of the other, unless one of them takes any object.
//! - A second run changes nothing: what one pass makes possible the next one does, see [`super::tighten()`].

use std::collections::HashSet;

use super::compose::{Composition, Form, Group, is_closed, wanted};
use super::walk::{Role, Survey, is_object};
use super::witness;
use crate::json::{Kind, Value};

/// Whether members that may be left out have to be given after the fix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optional {
    /// Every declared member becomes required.
    #[default]
    Require,
    /// What is optional stays optional.
    Keep,
}

/// How an object is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    Additional,
    Unevaluated,
}

/// What is done to one schema, and what is left.
pub(super) struct Plan {
    close: Vec<Option<Close>>,
    /// Member sites that become required.
    require: Vec<bool>,
    /// Sites left as they are, and why.
    pub left: Vec<(usize, String)>,
    /// Whether a member stays optional because nobody could prove a value for it.
    unproven: bool,
}

/// Members tried one by one for a proof times the sites looked at for each.
const TRIALS: usize = 2_000_000;

impl Plan {
    pub(super) fn new(survey: &Survey<'_>, marks: &Composition, optional: Optional) -> Plan {
        let count = survey.sites.len();
        let (close, require) = (vec![None; count], vec![false; count]);
        let mut plan = Plan { close, require, left: Vec::new(), unproven: false };
        let mut candidates = Vec::new();
        for at in 0..count {
            let schema = survey.site(at).value;
            if marks.asked[at] || schema.kind() != Kind::Object {
                continue;
            }
            if marks.shared[at] {
                let stands = matches!(survey.site(at).role, Role::Member | Role::Item | Role::Extra);
                if stands && schema.get("properties").is_some() && !is_closed(schema) {
                    plan.leave(at, "left open: other schemas are applied to the same value");
                }
                continue;
            }
            match plan.closing(survey, marks, at) {
                Ok(close) => plan.close[at] = close,
                Err(why) => plan.leave(at, why),
            }
            if optional == Optional::Require && marks.forms[at] == Form::Plain && is_object(schema) {
                match requirable(schema) {
                    Ok(()) => candidates.push(at),
                    Err("") => {}
                    Err(why) => plan.leave(at, why),
                }
            }
        }
        plan.require_proven(survey, marks, &candidates);
        plan
    }

    fn leave(&mut self, at: usize, why: impl Into<String>) {
        self.left.push((at, why.into()));
    }

    /// Whether what this plan requires may be what a proof was missing: then another one finds more.
    pub(super) fn may_go_on(&self) -> bool {
        self.unproven && self.require.contains(&true)
    }

    /// Whether the fix closes this object.
    pub(super) fn closes(&self, at: usize) -> bool {
        self.close[at].is_some()
    }

    /// Whether the fix makes a member of this object required.
    pub(super) fn requires(&self, survey: &Survey<'_>, at: usize) -> bool {
        survey.children(at).any(|child| self.require[child])
    }

    fn closing(&self, survey: &Survey<'_>, marks: &Composition, at: usize) -> Result<Option<Close>, String> {
        let schema = survey.site(at).value;
        match marks.forms[at] {
            Form::Wrapper | Form::Union => Ok(None),
            Form::Plain if !is_object(schema) => Ok(None),
            Form::Plain => {
                if !open(schema)? {
                    return Ok(None);
                }
                let patterns = schema.get("patternProperties").map_or(0, Value::len);
                let Some(properties) = schema.get("properties").or_else(|| schema.get("patternProperties"))
                else {
                    return Err("left open: it declares no properties, so closing it would refuse all".into());
                };
                let declared: HashSet<&str> = schema
                    .get("properties")
                    .map(Value::members)
                    .into_iter()
                    .flatten()
                    .map(|(n, _)| n)
                    .collect();
                if schema.get("const").is_some() || schema.get("enum").is_some() {
                    return Err("left open: it allows certain objects only".into());
                }
                if let Some(missing) = wanted(schema).into_iter().find(|n| !declared.contains(n)) {
                    return Err(format!("left open: {missing:?} can be required but is not declared"));
                }
                if patterns == 0 && minimum_exceeds(schema, properties.len()) {
                    return Err("left open: minProperties asks for more than is declared".into());
                }
                Ok(Some(Close::Additional))
            }
            Form::Composed => self.closing_composed(survey, marks, at),
        }
    }

    fn closing_composed(
        &self,
        survey: &Survey<'_>,
        marks: &Composition,
        at: usize,
    ) -> Result<Option<Close>, String> {
        let schema = survey.site(at).value;
        let Some(group) = Group::of(survey, at) else {
            return Err("left open: too many schemas are applied to the same value".into());
        };
        let declares = group.any_has(survey, "properties") || group.any_has(survey, "patternProperties");
        if !group.is_object(survey) || !open(schema)? {
            return Ok(None);
        }
        if !declares {
            return Err("left open: it declares no properties, so closing it would refuse all".into());
        }
        if survey.old {
            return Err(
                "left open: draft-07 has no unevaluatedProperties, and combinators stand beside".into()
            );
        }
        if group.unknown {
            return Err("left open: a reference beside it leads elsewhere".into());
        }
        if let Some(missing) = group.undeclared(survey) {
            return Err(format!("left open: {missing:?} can be demanded where it is not declared"));
        }
        if group.has_loophole(survey, marks) {
            return Err("left open: one of the alternatives takes any object".into());
        }
        if group.any_has(survey, "const")
            || group.any_has(survey, "enum")
            || group.any_has(survey, "minProperties")
        {
            return Err("left open: what stands beside it may need members that nobody declares".into());
        }
        Ok(Some(Close::Unevaluated))
    }

    /// Plans to require whatever can be required together.
    fn require_proven(&mut self, survey: &Survey<'_>, marks: &Composition, candidates: &[usize]) {
        let mut planned = vec![false; survey.sites.len()];
        for at in candidates {
            for child in optional_members(survey, *at) {
                planned[child] = true;
            }
        }
        let holds = witness::proven(survey, marks, &planned);
        let mut doubtful = Vec::new();
        for at in candidates {
            let schema = survey.site(*at).value;
            let chained = schema.get("dependentRequired").is_some() || schema.get("dependencies").is_some();
            let members: Vec<usize> = optional_members(survey, *at).collect();
            let unproven = members.iter().any(|c| !holds[*c]);
            for child in members {
                // One member may call for the next, so these come together or not at all.
                if !holds[child] || chained && unproven {
                    planned[child] = false;
                    if !chained {
                        doubtful.push((*at, child));
                    }
                }
            }
            if chained && unproven {
                self.unproven = true;
                self.leave(*at, "required left as it is: its members depend on one that may have no value");
            }
        }
        // Members that only failed because others were required too get a second chance, in the
        // order of the text. What they need of one another is found by the next pass.
        let objects = survey.sites.iter().filter(|s| s.value.kind() == Kind::Object).count();
        let affordable = doubtful.len().saturating_mul(objects) <= TRIALS;
        for (at, child) in doubtful {
            planned[child] = affordable;
            if affordable {
                let holds = witness::proven(survey, marks, &planned);
                if planned.iter().zip(&holds).all(|(planned, holds)| !planned || *holds) {
                    continue;
                }
                planned[child] = false;
            }
            self.unproven = true;
            let name = survey.site(child).name().unwrap_or_default();
            self.leave(at, format!("{name:?} left optional: it is not certain that a value for it exists"));
        }
        self.require = planned;
    }

    /// The changes to the text of the document the schema stands in.
    pub(super) fn edits(&self, survey: &Survey<'_>, edits: &mut Vec<Edit>) {
        for at in 0..survey.sites.len() {
            let schema = survey.site(at).value;
            let names: Vec<&str> = self.required_names(survey, at);
            let mut added = Vec::new();
            if !names.is_empty() {
                match schema.get("required") {
                    Some(list) => edits.push(append(list, &names)),
                    None => added.push(Added::Required(&names)),
                }
            }
            match (self.close[at], member(schema, "additionalProperties")) {
                (None, _) => {}
                (Some(Close::Additional), Some((_, old))) => edits.push(Edit::replace(old, "false")),
                (Some(Close::Unevaluated), Some((name, old))) => {
                    edits.push(Edit::replace(name, "\"unevaluatedProperties\""));
                    edits.push(Edit::replace(old, "false"));
                }
                (Some(Close::Additional), None) => added.push(Added::False("additionalProperties")),
                (Some(Close::Unevaluated), None) => added.push(Added::False("unevaluatedProperties")),
            }
            if !added.is_empty() {
                edits.push(insert(schema, &added));
            }
        }
    }

    /// The names to add to a site's `required`, as they are written.
    fn required_names<'d>(&self, survey: &Survey<'d>, at: usize) -> Vec<&'d str> {
        if !self.requires(survey, at) {
            return Vec::new();
        }
        let wanted: HashSet<&str> =
            survey.children(at).filter(|c| self.require[*c]).filter_map(|c| survey.site(c).name()).collect();
        let mut given = HashSet::new();
        let properties = survey.site(at).value.get("properties").map(Value::member_values);
        let named = properties.into_iter().flatten().filter(|(name, _)| {
            name.as_str().is_some_and(|text| wanted.contains(text) && given.insert(text))
        });
        named.map(|(name, _)| name.raw()).collect()
    }
}

/// Whether an object takes members nobody declared.
fn open(schema: Value<'_>) -> Result<bool, String> {
    let kind = |keyword| schema.get(keyword).map(|v| (v.kind(), v.as_bool()));
    match (kind("additionalProperties"), kind("unevaluatedProperties")) {
        (Some((_, Some(false))), _) | (_, Some((_, Some(false)))) => Ok(false),
        (Some((Kind::Object, _)), _) => Err("left open: additionalProperties is a schema".into()),
        (_, Some((Kind::Object, _))) => Err("left open: unevaluatedProperties is a schema".into()),
        (Some((Kind::Bool, _)) | None, _) => Ok(true),
        _ => Err("left as it is: additionalProperties is no schema".into()),
    }
}

fn minimum_exceeds(schema: Value<'_>, declared: usize) -> bool {
    schema.get("minProperties").and_then(Value::as_f64).is_some_and(|n| n > declared as f64)
}

/// Whether all declared members of an object can be demanded at once; why not, or `""` when there
/// is nothing to demand.
fn requirable(schema: Value<'_>) -> Result<(), &'static str> {
    let Some(properties) = schema.get("properties").filter(|p| !p.is_empty()) else { return Err("") };
    let required = schema.get("required");
    if required.is_some_and(|r| r.kind() != Kind::Array || r.items().any(|n| n.as_str().is_none())) {
        return Err("required left as it is: it is no list of names");
    }
    let mut names: HashSet<&str> = properties.members().map(|(n, _)| n).collect();
    let given: HashSet<&str> =
        required.map(Value::items).into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_subset(&given) {
        return Err("");
    }
    names.extend(given);
    if schema.get("maxProperties").and_then(Value::as_f64).is_some_and(|n| n < names.len() as f64) {
        return Err("required left as it is: maxProperties allows fewer than are declared");
    }
    if schema.get("const").is_some() || schema.get("enum").is_some() {
        return Err("required left as it is: it allows certain objects only");
    }
    let ruled =
        ["propertyNames", "patternProperties"].iter().any(|k| schema.get(k).is_some_and(|v| !v.is_empty()));
    if ruled || schema.get("propertyNames").and_then(Value::as_bool) == Some(false) {
        return Err("required left as it is: rules for names may forbid a declared one");
    }
    Ok(())
}

fn optional_members<'s>(survey: &'s Survey<'_>, at: usize) -> impl Iterator<Item = usize> + 's {
    let required = survey.site(at).value.get("required").map(Value::items);
    let given: HashSet<String> =
        required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    survey.children(at).filter(move |child| {
        let site = survey.site(*child);
        site.role == Role::Member && site.name().is_some_and(|n| !given.contains(n))
    })
}

/// One change of a text.
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

/// The text with its changes, which must not overlap.
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

/// The last member of this name, which is the one that counts, with its name as a value.
fn member<'d>(object: Value<'d>, name: &str) -> Option<(Value<'d>, Value<'d>)> {
    object.member_values().filter(|(n, _)| n.as_str() == Some(name)).last()
}

enum Added<'a> {
    Required(&'a [&'a str]),
    False(&'static str),
}

/// New members behind the last one of an object, laid out as its members are.
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

/// More names behind the last one of a list.
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
