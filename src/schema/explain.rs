//! Sentences for what does not fit, written to help a model repair its call.
//!
//! One failure becomes one message: what was expected, what came instead, the names and words that
//! would have been allowed. What is quoted of the value is shortened. It decides nothing.
//!
//! Invariants: everything here is cold; a message stays short whatever schema and value hold;
//! alternatives are looked into one level deep, so no message takes long to find.

use std::fmt::{self, Write as _};

use crate::json::Value;
use crate::record::{Counted, Got, Short, nearest};

use super::format::Format;
use super::index::Index;
use super::program::{
    BOUND_KEYWORDS, Bounds, Child, Contains, Dependent, Enum, FORWARDS, Object, Op, Program, Property, Span,
    is_of, types,
};
use super::walk::Run;

/// The keyword of a failure whose schema is `false`.
pub(super) const FALSE: &str = "false schema";

/// How many names or words a message lists at most.
const MOST_LISTED: usize = 24;
/// How many comparisons of names are cheaper than a table of them.
const MOST_COMPARED: usize = 256;
/// How many alternatives are looked into for the nearest one.
const MOST_TRIED: usize = 8;

/// What was wrong with a value.
pub(super) enum Why<'a, 'd> {
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

impl Why<'_, '_> {
    /// The keyword that failed. Where two share a check, [`message`] is about the same one.
    pub(super) fn keyword(&self, value: Value<'_>) -> &'static str {
        match self {
            Why::Type(0) => FALSE,
            Why::Type(_) => "type",
            Why::Length { min, .. } if value.as_str().is_some_and(|s| s.chars().count() < *min as usize) => {
                "minLength"
            }
            Why::Length { .. } => "maxLength",
            Why::Items { min, .. } if value.len() < *min as usize => "minItems",
            Why::Items { .. } => "maxItems",
            Why::Members { min, .. } if value.len() < *min as usize => "minProperties",
            Why::Members { .. } => "maxProperties",
            Why::Bound(_, which) => BOUND_KEYWORDS.get(*which).copied().unwrap_or("minimum"),
            Why::Multiple(_) => "multipleOf",
            Why::Pattern(_) => "pattern",
            Why::Format(_) => "format",
            Why::Words(_) => "enum",
            Why::Word(_) => "const",
            Why::Enum(list) => list.keyword,
            Why::Twins(..) => "uniqueItems",
            Why::Missing(_) => "required",
            Why::Unknown(..) => "additionalProperties",
            Why::TooFew(contains, _) if contains.has_min => "minContains",
            Why::TooFew(..) => "contains",
            Why::TooMany(_) => "maxContains",
            Why::Name(..) => "propertyNames",
            Why::Dependent(dependent, _) => dependent.keyword,
            Why::AnyOf(_) => "anyOf",
            Why::OneOf(_) | Why::Several(..) => "oneOf",
            Why::Not => "not",
            Why::Unevaluated(_) => "unevaluatedProperties",
            Why::UnevaluatedItem(_) => "unevaluatedItems",
        }
    }
}

/// The sentence about a failure.
pub(super) fn message<'d>(run: &Run<'_, 'd>, value: Value<'d>, why: &Why<'_, 'd>) -> String {
    let mut out = String::with_capacity(128);
    // OK to drop: writing to a String cannot fail.
    let _ = write_message(&mut out, run, value, why);
    out
}

fn write_message<'d>(
    out: &mut String,
    run: &Run<'_, 'd>,
    value: Value<'d>,
    why: &Why<'_, 'd>,
) -> fmt::Result {
    let p = run.program;
    let got = Got(value);
    match why {
        Why::Type(0) => write!(out, "no value is allowed here, got {got}"),
        Why::Type(mask) => write!(out, "expected {}, got {got}", Types(*mask)),
        Why::Length { min, max } => {
            let text = value.as_str().unwrap_or_default();
            let count = text.chars().count();
            let limits = Limits(*min, *max, count < *min as usize, "character");
            write!(out, "expected {limits}, got {}: {got}", Counted(count, "character"))
        }
        Why::Items { min, max } => {
            let limits = Limits(*min, *max, value.len() < *min as usize, "item");
            write!(out, "expected {limits}, got {}", value.len())
        }
        Why::Members { min, max } => {
            let limits = Limits(*min, *max, value.len() < *min as usize, "member");
            write!(out, "expected {limits}, got {}", value.len())
        }
        Why::Bound(bounds, _) => {
            out.push_str("expected a number");
            let phrases = ["of at least", "greater than", "of at most", "less than"];
            let mut and = "";
            for (phrase, span) in phrases.iter().zip(&bounds.texts).filter(|(_, span)| span.len > 0) {
                write!(out, "{and} {phrase} {}", Short(p.text(*span)))?;
                and = " and";
            }
            write!(out, ", got {got}")
        }
        Why::Multiple(divisor) => {
            write!(out, "expected a multiple of {}, got {got}", Short(p.text(*divisor)))
        }
        Why::Pattern(index) => {
            let source = p.pattern_texts.get(*index as usize).map_or("", |span| p.text(*span));
            write!(out, "expected a string that matches `{}`, got {got}", Clipped(source))
        }
        Why::Format(format) => {
            write!(out, "expected {}, got {got}", format.expectation())
        }
        Why::Words(run) => words(out, p, *run, value),
        Why::Word(text) => write!(out, "expected {}, got {got}", Clipped(p.text(*text))),
        Why::Enum(list) if list.keyword == "const" => {
            write!(out, "expected {}, got {got}", Clipped(p.text(list.text)))
        }
        Why::Enum(list) => write!(out, "expected one of {}, got {got}", Clipped(p.text(list.text))),
        Why::Twins(i, j) => write!(out, "expected items that differ, but those at {i} and {j} are equal"),
        Why::Missing(object) => missing(out, p, object, value),
        Why::Unknown(object, name) => unknown(out, p, object, name),
        Why::TooFew(contains, count) => {
            let wanted = Counted(contains.min as usize, "item");
            write!(out, "expected at least {wanted} of the kind `contains` describes, got {count}")
        }
        Why::TooMany(contains) => {
            let wanted = Counted(contains.max as usize, "item");
            write!(out, "expected at most {wanted} of the kind `contains` describes, got more")
        }
        Why::Name(child, name) => {
            write!(out, "the member name `{}` is not allowed", Short(name.as_str().unwrap_or_default()))?;
            match run.reason(*child, *name) {
                Some(inner) => write!(out, ": {}", inner.message),
                None => Ok(()),
            }
        }
        Why::Dependent(dependent, wanted) => {
            let (wanted, name) = (Short(p.text(*wanted)), Short(p.text(dependent.name)));
            write!(out, "missing `{wanted}`, which must be there when `{name}` is")
        }
        Why::AnyOf(children) | Why::OneOf(children) => alternatives(out, run, value, *children),
        Why::Several(i, j) => {
            write!(
                out,
                "expected a value that fits exactly one alternative, but it fits those at {i} and {j}"
            )
        }
        Why::Not => write!(out, "expected a value that does not fit the schema under `not`, got {got}"),
        Why::Unevaluated(name) => write!(out, "unknown member `{}`", Short(name)),
        Why::UnevaluatedItem(i) => write!(out, "the item at {i} is one too many"),
    }
}

/// A list of names or words in the middle of a sentence.
fn list<'t>(out: &mut String, names: impl ExactSizeIterator<Item = &'t str>, quote: char) -> fmt::Result {
    let count = names.len();
    for (i, name) in names.take(MOST_LISTED).enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        write!(out, "{comma}{quote}{}{quote}", Short(name))?;
    }
    match count.checked_sub(MOST_LISTED) {
        Some(more) if more > 0 => write!(out, " and {more} more"),
        _ => Ok(()),
    }
}

fn words(out: &mut String, p: &Program, run: Span, value: Value<'_>) -> fmt::Result {
    let words = run.of(&p.words).iter().map(|span| p.text(*span));
    out.push_str(if run.len == 1 { "expected " } else { "expected one of " });
    list(out, words.clone(), '"')?;
    write!(out, ", got {}", Got(value))?;
    match value.as_str().and_then(|text| nearest(text, words)) {
        Some(near) => write!(out, ", did you mean \"{}\"?", Short(near)),
        None => Ok(()),
    }
}

fn missing(out: &mut String, p: &Program, object: &Object, value: Value<'_>) -> fmt::Result {
    let required = object.properties.of(&p.properties).iter();
    let required = required.filter(|property| property.required != super::program::OPTIONAL);
    // Few names are looked for one by one, many in a table.
    let many = value.len().saturating_mul(object.required as usize) > MOST_COMPARED;
    let mut there = Index::default();
    for (name, _) in value.members().filter(|_| many) {
        there.enter(name.as_bytes(), 0);
    }
    let is_there =
        |name: &&str| if many { there.get(name.as_bytes()).is_some() } else { value.get(name).is_some() };
    let absent = required.map(|property| p.text(property.name)).filter(|name| !is_there(name));
    let absent: Vec<_> = absent.take(MOST_LISTED + 1).collect();
    out.push_str("missing ");
    list(out, absent.into_iter(), '`')
}

fn unknown(out: &mut String, p: &Program, object: &Object, name: &str) -> fmt::Result {
    let declared = object.properties.of(&p.properties).iter();
    let declared: Vec<&Property> = declared.filter(|property| property.is_declared()).collect();
    let names = declared.iter().map(|property| p.text(property.name));
    write!(out, "unknown member `{}`", Short(name))?;
    match nearest(name, names.clone()) {
        Some(near) => write!(out, ", did you mean `{}`? ", Short(near))?,
        None => out.push_str(". "),
    }
    if declared.is_empty() && object.patterned.len == 0 {
        out.push_str("No members are allowed");
        return Ok(());
    }
    out.push_str("Allowed are ");
    list(out, names, '`')?;
    if object.patterned.len > 0 {
        out.push_str(" and names that match a pattern");
    }
    Ok(())
}

/// Why a value fits none of several alternatives: the types they ask for, or what is wrong with
/// the alternative the value comes nearest to.
fn alternatives<'d>(out: &mut String, run: &Run<'_, 'd>, value: Value<'d>, children: Span) -> fmt::Result {
    let p = run.program;
    let children = children.of(&p.children);
    let mask = children.iter().fold(0, |mask, child| mask | types_of(p, *child));
    let spot = value.spot();
    if !is_of(spot, mask) {
        return match mask {
            0 => write!(out, "no alternative allows any value, got {}", Got(value)),
            _ => write!(out, "expected {}, got {}", Types(mask), Got(value)),
        };
    }
    write!(out, "fits none of {}", Counted(children.len(), "alternative"))?;
    if run.is_nested() {
        return Ok(());
    }
    let here = run.path(value).len();
    let possible = children.iter().enumerate().filter(|(_, child)| is_of(spot, types_of(p, **child)));
    let mut nearest = None;
    for (i, child) in possible.take(MOST_TRIED) {
        let Some(reason) = run.reason(*child, value) else { continue };
        // What fails further in has come further; another tag or kind has not come far.
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
    let Some((_, i, reason)) = nearest else { return Ok(()) };
    let path = reason.path.get(here..).unwrap_or_default();
    let colon = if path.is_empty() { "" } else { ": " };
    write!(out, "; nearest is the one at {i}: {path}{colon}{}", reason.message)
}

/// The types a subschema allows as far as it says so itself or by references.
fn types_of(p: &Program, child: Child) -> u8 {
    let mut child = child;
    for _ in 0..MOST_LISTED {
        if let Some(mask) = child.as_types() {
            return mask;
        }
        let Some(node) = p.nodes.get(child.index() as usize) else { break };
        match p.ops.get(node.ops as usize) {
            Some(Op::Ref(target, _)) if node.flags & FORWARDS != 0 => child = *target,
            _ => return node.types,
        }
    }
    types::ALL
}

/// "a string or null".
struct Types(u8);

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (types::OBJECT, "an object"),
            (types::ARRAY, "an array"),
            (types::STRING, "a string"),
            (types::NUMBER, "a number"),
            (types::INTEGER, "an integer"),
            (types::BOOL, "true or false"),
            (types::NULL, "null"),
        ];
        let mut left = self.0;
        let mut first = true;
        for (bits, name) in names {
            if left & bits == bits {
                left &= !bits;
                let or = match (first, left) {
                    (true, _) => "",
                    (false, 0) => " or ",
                    (false, _) => ", ",
                };
                write!(f, "{or}{name}")?;
                first = false;
            }
        }
        Ok(())
    }
}

/// "3 to 5 items", or the one bound that was broken.
struct Limits(u32, u32, bool, &'static str);

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits(min, max, too_few, unit) = *self;
        if min == max && min > 0 {
            return write!(f, "exactly {}", Counted(min as usize, unit));
        }
        if min > 0 && max < u32::MAX && min <= max {
            return write!(f, "{min} to {}", Counted(max as usize, unit));
        }
        let (phrase, n) = if too_few { ("at least", min) } else { ("at most", max) };
        write!(f, "{phrase} {}", Counted(n as usize, unit))
    }
}

/// A text of the schema's, which may be longer than what is quoted of a value.
struct Clipped<'a>(&'a str);

const MOST_CLIPPED: usize = 200;

impl fmt::Display for Clipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(MOST_CLIPPED) {
            None => f.write_str(self.0),
            Some((end, _)) => write!(f, "{}…", self.0.get(..end).unwrap_or_default()),
        }
    }
}
