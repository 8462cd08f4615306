//! Which subschemas certainly accept something, so that demanding them is no trap.
//!
//! Making a member required is harmless only if a value for it exists: not under `false`, not in a
//! list that demands its own tail for ever, not between contradicting bounds. This proves values,
//! it does not search for contradictions: what it cannot prove counts as empty. Patterns and
//! formats alone are taken to match something.
//!
//! # Invariants
//! - A proof never rests on itself: the least fixed point is taken, so recursion without an end
//!   proves nothing.
//! - At most [`ROUNDS`] passes over the sites, no recursion.

use std::collections::HashSet;

use super::compose::{Composition, Form, is_note};
use super::walk::{Role, Survey, Target, has_type};
use crate::json::{Kind, Value};

/// Passes over a schema; each settles at least one more link of a chain of references.
const ROUNDS: usize = 256;

/// For each site whether it certainly accepts some value, when the members marked in `planned`
/// are required beside those that are anyway.
pub(super) fn proven(survey: &Survey<'_>, marks: &Composition, planned: &[bool]) -> Vec<bool> {
    let mut proof = Proof { survey, marks, planned, holds: vec![false; survey.sites.len()] };
    for _ in 0..ROUNDS {
        let mut grown = false;
        // Children stand behind their parents, so most chains settle in one pass.
        for at in (0..survey.sites.len()).rev() {
            if !proof.holds[at] && proof.accepts(at) {
                proof.holds[at] = true;
                grown = true;
            }
        }
        if !grown {
            break;
        }
    }
    proof.holds
}

struct Proof<'s, 'd> {
    survey: &'s Survey<'d>,
    marks: &'s Composition,
    planned: &'s [bool],
    holds: Vec<bool>,
}

impl<'d> Proof<'_, 'd> {
    fn value(&self, at: usize) -> Value<'d> {
        self.survey.site(at).value
    }

    fn accepts(&self, at: usize) -> bool {
        let schema = self.value(at);
        if let Some(verdict) = schema.as_bool() {
            return verdict;
        }
        match self.marks.forms[at] {
            Form::Plain => self.plain(at, schema),
            Form::Composed => false,
            Form::Wrapper => {
                let inner = match self.survey.target(at) {
                    Target::Site(target) => Some(target),
                    Target::Unknown => None,
                    Target::None => self.branches(at).next(),
                };
                inner.is_some_and(|inner| {
                    let beside = !self.survey.old && schema.get("type").is_some();
                    self.holds[inner] && (!beside || within(schema, self.value(inner)))
                })
            }
            Form::Union => {
                let exact = schema.get("oneOf").is_some();
                self.branches(at).any(|branch| {
                    self.holds[branch]
                        && (schema.get("type").is_none() || within(schema, self.value(branch)))
                        && (!exact || self.branches(at).all(|o| o == branch || self.disjoint(branch, o)))
                })
            }
        }
    }

    fn branches(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        self.survey.children(at).filter(|c| self.survey.site(*c).role == Role::Branch)
    }

    fn plain(&self, at: usize, schema: Value<'d>) -> bool {
        if let Some(only) = schema.get("const") {
            return choice_fits(schema, only);
        }
        if let Some(choices) = schema.get("enum") {
            return choices.items().any(|choice| choice_fits(schema, choice));
        }
        match schema.get("type") {
            // Keywords speak of single types, and null is a value none of them speaks of.
            None => true,
            Some(t) => match t.as_str() {
                Some(one) => self.of_type(at, schema, one),
                None => t.items().filter_map(Value::as_str).any(|one| self.of_type(at, schema, one)),
            },
        }
    }

    fn of_type(&self, at: usize, schema: Value<'d>, name: &str) -> bool {
        match name {
            "null" | "boolean" => true,
            "string" => ordered(schema, "minLength", "maxLength"),
            "number" => number(schema, false),
            "integer" => number(schema, true),
            "array" => self.array(at, schema),
            "object" => self.object(at, schema),
            _ => false,
        }
    }

    fn array(&self, at: usize, schema: Value<'d>) -> bool {
        let least = figure(schema, "minItems").unwrap_or(0.0);
        if schema.get("contains").is_some() || !ordered(schema, "minItems", "maxItems") {
            return false;
        }
        if least <= 0.0 {
            return true;
        }
        if least > 1.0 && schema.get("uniqueItems").and_then(Value::as_bool) == Some(true) {
            return false;
        }
        // Elements by position may end the array; only the plain case is proven.
        let items: Vec<usize> =
            self.survey.children(at).filter(|c| self.survey.site(*c).role == Role::Item).collect();
        items.iter().all(|c| self.holds[*c])
    }

    fn object(&self, at: usize, schema: Value<'d>) -> bool {
        let mut names: HashSet<&str> = schema
            .get("required")
            .map(Value::items)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut members = std::collections::HashMap::new();
        let mut extra = None;
        for child in self.survey.children(at) {
            let site = self.survey.site(child);
            match (site.role, site.name()) {
                (Role::Member, Some(name)) => {
                    members.insert(name, child);
                    if self.planned[child] {
                        names.insert(name);
                    }
                }
                (Role::Extra, _) => extra = Some(child),
                _ => {}
            }
        }
        let count = names.len() as f64;
        let fits = figure(schema, "minProperties").is_none_or(|n| n <= count)
            && figure(schema, "maxProperties").is_none_or(|n| n >= count);
        if !fits {
            return false;
        }
        if names.is_empty() {
            return true;
        }
        if schema.get("propertyNames").is_some()
            || schema.get("patternProperties").is_some_and(|p| !p.is_empty())
        {
            return false;
        }
        for keyword in ["dependentRequired", "dependencies"] {
            for (name, needs) in schema.get(keyword).map(Value::members).into_iter().flatten() {
                let met = needs.items().filter_map(Value::as_str).all(|n| names.contains(n));
                if names.contains(name) && !met {
                    return false;
                }
            }
        }
        names.iter().all(|name| match members.get(name) {
            Some(child) => self.holds[*child],
            None => extra.is_none_or(|extra| self.holds[extra]),
        })
    }

    /// Whether no value fits both, as far as types and constants show.
    fn disjoint(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.value(a), self.value(b));
        if types_apart(a, b) || choices_apart(a, b) {
            return true;
        }
        let wanted = |schema: Value<'d>, name: &str| {
            has_type(schema, "object")
                && schema.get("required").is_some_and(|r| r.items().any(|n| n.as_str() == Some(name)))
        };
        let properties = a.get("properties").map(Value::members);
        properties.into_iter().flatten().any(|(name, in_a)| {
            let in_b = b.get("properties").and_then(|p| p.get(name));
            in_b.is_some_and(|in_b| choices_apart(in_a, in_b)) && wanted(a, name) && wanted(b, name)
        })
    }
}

/// Whether every type the inner schema allows is one the outer allows.
fn within(outer: Value<'_>, inner: Value<'_>) -> bool {
    let names = types(inner);
    !names.is_empty()
        && names.iter().all(|n| has_type(outer, n) || *n == "integer" && has_type(outer, "number"))
}

fn types<'d>(schema: Value<'d>) -> Vec<&'d str> {
    match schema.get("type") {
        Some(t) => t.as_str().into_iter().chain(t.items().filter_map(Value::as_str)).collect(),
        None => Vec::new(),
    }
}

fn types_apart(a: Value<'_>, b: Value<'_>) -> bool {
    let (a, b) = (types(a), types(b));
    let numeric = |n: &str| matches!(n, "number" | "integer");
    !a.is_empty()
        && !b.is_empty()
        && a.iter().all(|x| b.iter().all(|y| x != y && !(numeric(x) && numeric(y))))
}

/// Whether both allow only certain strings and share none.
fn choices_apart(a: Value<'_>, b: Value<'_>) -> bool {
    match (strings(a), strings(b)) {
        (Some(a), Some(b)) => a.iter().all(|x| !b.contains(x)),
        _ => false,
    }
}

fn strings<'d>(schema: Value<'d>) -> Option<Vec<&'d str>> {
    match schema.get("const") {
        Some(only) => Some(vec![only.as_str()?]),
        None => schema.get("enum")?.items().map(Value::as_str).collect(),
    }
}

/// Whether one of the allowed values fits the other keywords, as far as these are simple.
fn choice_fits(schema: Value<'_>, choice: Value<'_>) -> bool {
    let simple = schema.members().all(|(keyword, _)| {
        is_note(keyword)
            || matches!(
                keyword,
                "const" | "enum" | "type" | "minLength" | "maxLength" | "minimum" | "maximum"
            )
    });
    let kind = match choice.kind() {
        Kind::Null => "null",
        Kind::Bool => "boolean",
        Kind::Number => "number",
        Kind::String => "string",
        Kind::Array => "array",
        Kind::Object => "object",
    };
    let whole = choice.as_f64().is_some_and(|n| n.fract() == 0.0);
    let typed = schema.get("type").is_none()
        || has_type(schema, kind)
        || kind == "number" && whole && has_type(schema, "integer");
    // Both at once would need a comparison of values.
    let single = schema.get("const").is_none() || schema.get("enum").is_none();
    let between = |n: f64, least: &str, most: &str| {
        figure(schema, least).is_none_or(|l| n >= l) && figure(schema, most).is_none_or(|m| n <= m)
    };
    let length = choice.as_str().is_none_or(|s| between(s.chars().count() as f64, "minLength", "maxLength"));
    let size = choice.as_f64().is_none_or(|n| between(n, "minimum", "maximum"));
    simple && typed && single && length && size
}

fn figure(schema: Value<'_>, keyword: &str) -> Option<f64> {
    schema.get(keyword)?.as_f64()
}

fn ordered(schema: Value<'_>, least: &str, most: &str) -> bool {
    let least = figure(schema, least).unwrap_or(0.0);
    figure(schema, most).is_none_or(|most| most >= least.max(0.0))
}

/// Whether a number lies within the bounds.
fn number(schema: Value<'_>, integer: bool) -> bool {
    let bound = |closed: &str, open: &str| {
        let open = figure(schema, open);
        let closed = figure(schema, closed);
        (closed, open)
    };
    let (least, above) = bound("minimum", "exclusiveMinimum");
    let (most, below) = bound("maximum", "exclusiveMaximum");
    // Draft-04 wrote `true` here; whoever still does gets no proof.
    let odd = ["exclusiveMinimum", "exclusiveMaximum"]
        .iter()
        .any(|k| schema.get(k).is_some_and(|v| v.kind() != Kind::Number));
    let step = match schema.get("multipleOf") {
        Some(step) => step.as_f64(),
        None if integer => Some(1.0),
        None => None,
    };
    if odd || step.is_some_and(|s| s <= 0.0) || integer && step.is_some_and(|s| s.fract() != 0.0) {
        return false;
    }
    let fits = |n: f64| {
        n.is_finite()
            && least.is_none_or(|l| n >= l)
            && above.is_none_or(|l| n > l)
            && most.is_none_or(|m| n <= m)
            && below.is_none_or(|m| n < m)
    };
    let low = [least, above].into_iter().flatten().fold(f64::NEG_INFINITY, f64::max);
    let high = [most, below].into_iter().flatten().fold(f64::INFINITY, f64::min);
    match step {
        Some(step) => {
            let from_low = (low / step).ceil() * step;
            let from_high = (high / step).floor() * step;
            [0.0, from_low, from_low + step, from_high, from_high - step].into_iter().any(fits)
        }
        None => [0.0, low, high, low + 1.0, high - 1.0, low / 2.0 + high / 2.0].into_iter().any(fits),
    }
}
