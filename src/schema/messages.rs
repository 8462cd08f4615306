//! Messages for violations, with which a model can correct its call.
//!
//! A message states what is expected, what was found, and the allowed names or words. Quotes of the
//! value are truncated.
//!
//! Invariants:
//! - All functions are cold, and messages are short for any schema and value.
//! - Only one level of alternatives is inspected, so no message takes long to make.

use crate::json::Value;
use crate::record::{nearest, push_count, push_got, push_number, push_short, push_start};

use super::format::Format;
use super::program::{
    BOUND_KEYWORDS, Bounds, Child, Contains, Dependent, Enum, FORWARDS, OPTIONAL, Object, Program, Span,
    is_of, types,
};
use super::resources::KeyMap;
use super::validate::Run;

/// The keyword reported for the schema `false`.
pub(super) const FALSE: &str = "false schema";

/// Largest number of names or words in a message.
const MAX_LISTED: usize = 24;
/// Largest number of name comparisons before a table is used.
const MAX_COMPARED: usize = 256;
/// Largest number of alternatives that are inspected.
const MAX_TRIED: usize = 8;

/// Reason for a violation.
pub(super) enum Reason<'a, 'd> {
    Type(u8),
    Length { min: u32, max: u32 },
    Items { min: u32, max: u32 },
    Members { min: u32, max: u32 },
    Bound(&'a Bounds, usize),
    Multiple(Span),
    Pattern(u32),
    Format(Format),
    Words(Span),
    Word(Span),
    Enum(&'a Enum),
    Twins(usize, usize),
    Missing(&'a Object),
    Unknown(&'a Object, &'d str),
    TooFew(&'a Contains, u32),
    TooMany(&'a Contains),
    Name(Child, Value<'d>),
    Dependent(&'a Dependent, Span),
    AnyOf(Span),
    OneOf(Span),
    Several(usize, usize),
    Not,
    Unevaluated(&'d str),
    UnevaluatedItem(usize),
}

impl Reason<'_, '_> {
    /// The violated keyword. If two keywords share a check, [`message`] names the same one.
    pub(super) fn keyword(&self, value: Value<'_>) -> &'static str {
        match self {
            Reason::Type(0) => FALSE,
            Reason::Type(_) => "type",
            Reason::Length { min, .. }
                if value.as_str().is_some_and(|s| s.chars().count() < *min as usize) =>
            {
                "minLength"
            }
            Reason::Length { .. } => "maxLength",
            Reason::Items { min, .. } if value.len() < *min as usize => "minItems",
            Reason::Items { .. } => "maxItems",
            Reason::Members { min, .. } if value.len() < *min as usize => "minProperties",
            Reason::Members { .. } => "maxProperties",
            Reason::Bound(_, which) => BOUND_KEYWORDS.get(*which).copied().unwrap_or("minimum"),
            Reason::Multiple(_) => "multipleOf",
            Reason::Pattern(_) => "pattern",
            Reason::Format(_) => "format",
            Reason::Words(_) => "enum",
            Reason::Word(_) => "const",
            Reason::Enum(list) => list.keyword,
            Reason::Twins(..) => "uniqueItems",
            Reason::Missing(_) => "required",
            Reason::Unknown(..) => "additionalProperties",
            Reason::TooFew(contains, _) if contains.has_min => "minContains",
            Reason::TooFew(..) => "contains",
            Reason::TooMany(_) => "maxContains",
            Reason::Name(..) => "propertyNames",
            Reason::Dependent(dependent, _) => dependent.keyword,
            Reason::AnyOf(_) => "anyOf",
            Reason::OneOf(_) | Reason::Several(..) => "oneOf",
            Reason::Not => "not",
            Reason::Unevaluated(_) => "unevaluatedProperties",
            Reason::UnevaluatedItem(_) => "unevaluatedItems",
        }
    }
}

/// The message for a violation.
pub(super) fn message<'d>(run: &Run<'_, 'd>, value: Value<'d>, why: &Reason<'_, 'd>) -> String {
    let mut out = String::with_capacity(128);
    write_message(&mut out, run, value, why);
    out
}

/// Appends the parts of a message. Formatting them would cost more than the check.
fn push_parts(out: &mut String, pieces: &[&str]) {
    pieces.iter().for_each(|piece| out.push_str(piece));
}

fn write_message<'d>(out: &mut String, run: &Run<'_, 'd>, value: Value<'d>, why: &Reason<'_, 'd>) {
    let p = run.program;
    match why {
        Reason::Length { .. } | Reason::Items { .. } | Reason::Members { .. } => size(out, value, why),
        Reason::Words(run) => words(out, p, *run, value),
        Reason::Twins(i, j) => {
            out.push_str("expected items that differ, but those at ");
            push_pair(out, *i, *j);
            out.push_str(" are equal");
        }
        Reason::Missing(object) => missing(out, p, object, value),
        Reason::Unknown(object, name) => unknown(out, p, object, name),
        Reason::TooFew(contains, count) => {
            out.push_str("expected at least ");
            push_count(out, contains.min as usize, "item");
            out.push_str(" that match `contains`, got ");
            push_number(out, *count as usize);
        }
        Reason::TooMany(contains) => {
            out.push_str("expected at most ");
            push_count(out, contains.max as usize, "item");
            out.push_str(" that match `contains`, got more");
        }
        Reason::Name(child, name) => {
            out.push_str("the member name `");
            push_short(out, name.as_str().unwrap_or_default());
            out.push_str("` is not allowed");
            if let Some(inner) = run.reason(*child, *name) {
                push_parts(out, &[": ", &inner.message]);
            }
        }
        Reason::Dependent(dependent, wanted) => {
            out.push_str("missing `");
            push_short(out, p.text(*wanted));
            out.push_str("`, which is required beside `");
            push_short(out, p.text(dependent.name));
            out.push('`');
        }
        Reason::AnyOf(children) | Reason::OneOf(children) => alternatives(out, run, value, *children),
        Reason::Several(i, j) => {
            out.push_str("expected a value that matches exactly one alternative, but it matches those at ");
            push_pair(out, *i, *j);
        }
        Reason::Unevaluated(name) => {
            out.push_str("unknown member `");
            push_short(out, name);
            out.push('`');
        }
        Reason::UnevaluatedItem(i) => {
            out.push_str("the item at ");
            push_number(out, *i);
            out.push_str(" is one too many");
        }
        _ => {
            expected(out, p, why);
            out.push_str(", got ");
            push_got(out, value);
        }
    }
}

/// A length or a number of items or members that is out of range.
fn size(out: &mut String, value: Value<'_>, why: &Reason<'_, '_>) {
    match why {
        Reason::Length { min, max } => {
            let count = value.as_str().unwrap_or_default().chars().count();
            push_limits(out, (*min, *max), count, "character");
            out.push_str(", got ");
            push_count(out, count, "character");
            out.push_str(": ");
            push_got(out, value);
        }
        Reason::Items { min, max } | Reason::Members { min, max } => {
            let unit = if matches!(why, Reason::Items { .. }) { "item" } else { "member" };
            push_limits(out, (*min, *max), value.len(), unit);
            out.push_str(", got ");
            push_number(out, value.len());
        }
        _ => {}
    }
}

/// The expected value, for messages that end with the value found.
fn expected(out: &mut String, p: &Program, why: &Reason<'_, '_>) {
    match why {
        Reason::Type(0) => out.push_str("no value is allowed here"),
        Reason::Type(mask) => {
            out.push_str("expected ");
            push_types(out, *mask);
        }
        Reason::Bound(bounds, _) => {
            out.push_str("expected a number");
            let phrases = match bounds.texts.each_ref().map(|span| span.len > 0) {
                [true, false, true, false] => [" from ", "", " to ", ""],
                _ => [" of at least ", " greater than ", " of at most ", " less than "],
            };
            let mut and = "";
            for (phrase, span) in phrases.iter().zip(&bounds.texts).filter(|(_, span)| span.len > 0) {
                push_parts(out, &[and, phrase]);
                push_short(out, p.text(*span));
                and = if *phrase == " from " { "" } else { " and" };
            }
        }
        Reason::Multiple(divisor) => {
            out.push_str("expected a multiple of ");
            push_short(out, p.text(*divisor));
        }
        Reason::Pattern(index) => {
            out.push_str("expected a string that matches `");
            push_start(out, p.pattern_text(*index), MAX_QUOTED);
            out.push('`');
        }
        Reason::Format(format) => push_parts(out, &["expected ", format.expectation()]),
        Reason::Word(text) => {
            out.push_str("expected ");
            push_start(out, p.text(*text), MAX_QUOTED);
        }
        Reason::Enum(list) => {
            out.push_str(if list.keyword == "const" { "expected " } else { "expected one of " });
            push_start(out, p.text(list.text), MAX_QUOTED);
        }
        Reason::Not => out.push_str("expected a value that does not match the schema under `not`"),
        _ => debug_assert!(false, "this message does not end with the value"),
    }
}

/// "1 and 3".
fn push_pair(out: &mut String, i: usize, j: usize) {
    push_number(out, i);
    out.push_str(" and ");
    push_number(out, j);
}

/// A list of names or words within a sentence.
#[cold]
fn list(out: &mut String, names: &mut dyn Iterator<Item = &str>, quote: char) {
    let mut count = 0usize;
    for name in names {
        count += 1;
        if count > MAX_LISTED {
            continue;
        }
        if count > 1 {
            out.push_str(", ");
        }
        out.push(quote);
        push_short(out, name);
        out.push(quote);
    }
    if let Some(more) = count.checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        out.push_str(" and ");
        push_number(out, more);
        out.push_str(" more");
    }
}

fn words(out: &mut String, p: &Program, run: Span, value: Value<'_>) {
    let mut words = run.of(&p.words).iter().map(|span| p.text(*span));
    out.push_str(if run.len == 1 { "expected " } else { "expected one of " });
    list(out, &mut words.clone(), '"');
    out.push_str(", got ");
    push_got(out, value);
    if let Some(near) = value.as_str().and_then(|text| nearest(text, &mut words)) {
        out.push_str(", did you mean \"");
        push_short(out, near);
        out.push_str("\"?");
    }
}

fn missing(out: &mut String, p: &Program, object: &Object, value: Value<'_>) {
    let required = object.properties.of(&p.properties).iter();
    let required = required.filter(|property| property.required != OPTIONAL);
    // Few names are searched one by one, many in a table.
    let many = value.len().saturating_mul(object.required as usize) > MAX_COMPARED;
    let there = many.then(|| KeyMap::of_members(value));
    let is_there = |name: &&str| match &there {
        Some(there) => there.get(name.as_bytes()).is_some(),
        None => value.get(name).is_some(),
    };
    let absent = required.map(|property| p.text(property.name)).filter(|name| !is_there(name));
    out.push_str("missing ");
    // One more than is listed, to find out that the list is truncated.
    list(out, &mut absent.take(MAX_LISTED + 1), '`');
}

fn unknown(out: &mut String, p: &Program, object: &Object, name: &str) {
    let named = |is_optional: bool| {
        let declared = object.properties.of(&p.properties).iter().filter(|property| property.is_declared());
        let named = declared.filter(move |property| (property.required == OPTIONAL) == is_optional);
        named.map(|property| p.text(property.name)).peekable()
    };
    let (mut required, mut optional) = (named(false), named(true));
    out.push_str("unknown member `");
    push_short(out, name);
    match nearest(name, &mut required.clone().chain(optional.clone())) {
        Some(near) => {
            out.push_str("`, did you mean `");
            push_short(out, near);
            out.push_str("`? ");
        }
        None => out.push_str("`. "),
    }
    let (has_required, has_optional) = (required.peek().is_some(), optional.peek().is_some());
    if !has_required && !has_optional && object.patterned.len == 0 {
        return out.push_str("No members are allowed");
    }
    out.push_str("Allowed are ");
    list(out, &mut required, '`');
    if has_required && has_optional {
        out.push_str("; optional ");
    }
    list(out, &mut optional, '`');
    if object.patterned.len > 0 {
        out.push_str(" and names that match a pattern");
    }
}

/// The reason why a value matches none of several alternatives: the types they accept, or the
/// violation of the most similar alternative.
fn alternatives<'d>(out: &mut String, run: &Run<'_, 'd>, value: Value<'d>, children: Span) {
    let p = run.program;
    let children = children.of(&p.children);
    let mask = children.iter().fold(0, |mask, child| mask | types_of(p, *child));
    let node_ref = value.node_ref();
    if !is_of(node_ref, mask) {
        if mask == 0 {
            out.push_str("no alternative allows any value");
        } else {
            out.push_str("expected ");
            push_types(out, mask);
        }
        out.push_str(", got ");
        return push_got(out, value);
    }
    out.push_str("matches none of ");
    push_count(out, children.len(), "alternative");
    if run.is_nested() {
        return;
    }
    let here = run.path(value).len();
    let possible = children.iter().enumerate().filter(|(_, child)| is_of(node_ref, types_of(p, **child)));
    let mut nearest = None;
    for (i, child) in possible.take(MAX_TRIED) {
        let Some(reason) = run.reason(*child, value) else { continue };
        // A deeper violation means a more similar alternative; another tag or type means a
        // different one.
        let rank = match reason.keyword {
            "const" | "enum" => 0,
            "type" => 1,
            _ => 2,
        };
        let far = (reason.path.matches('/').count(), rank);
        if nearest.as_ref().is_none_or(|(best, _, _)| far > *best) {
            nearest = Some((far, i, reason));
        }
    }
    let Some((_, i, reason)) = nearest else { return };
    let path = reason.path.get(here..).unwrap_or_default();
    let colon = if path.is_empty() { "" } else { ": " };
    out.push_str("; the closest is at ");
    push_number(out, i);
    push_parts(out, &[": ", path, colon, &reason.message]);
}

/// The types that a subschema accepts, as far as it or its references state them.
fn types_of(p: &Program, child: Child) -> u8 {
    let mut child = child;
    loop {
        if let Some(mask) = child.as_types() {
            return mask;
        }
        let Some(node) = p.nodes.get(child.index() as usize) else { return types::ALL };
        if node.flags & FORWARDS == 0 {
            return node.types;
        }
        // The reference leads to a node that does not forward.
        child = Child::node(node.ops);
    }
}

/// Appends "a string or null".
#[cold]
fn push_types(out: &mut String, mask: u8) {
    let names = [
        (types::OBJECT, "an object"),
        (types::ARRAY, "an array"),
        (types::STRING, "a string"),
        (types::NUMBER, "a number"),
        (types::INTEGER, "an integer"),
        (types::BOOL, "true or false"),
        (types::NULL, "null"),
    ];
    let mut left = mask;
    for (bits, name) in names {
        if left & bits == bits {
            let first = left == mask;
            left &= !bits;
            let or = match (first, left) {
                (true, _) => "",
                (false, 0) => " or ",
                (false, _) => ", ",
            };
            push_parts(out, &[or, name]);
        }
    }
}

/// Appends "expected 3 to 5 items", or the violated bound alone.
#[cold]
fn push_limits(out: &mut String, (min, max): (u32, u32), count: usize, unit: &str) {
    let (low, high) = (min as usize, max as usize);
    out.push_str("expected ");
    if min == max && min > 0 {
        out.push_str("exactly ");
        return push_count(out, low, unit);
    }
    if min > 0 && max < u32::MAX && min <= max {
        push_number(out, low);
        out.push_str(" to ");
        return push_count(out, high, unit);
    }
    let (phrase, n) = if count < low { ("at least ", low) } else { ("at most ", high) };
    out.push_str(phrase);
    push_count(out, n, unit);
}

/// Largest number of characters quoted from the schema. The limit for values is lower.
const MAX_QUOTED: usize = 200;
