//! Tool arguments that are mirrored in headers.
//!
//! Finds and checks the `x-mcp-header` annotations of a tool's input schema, returns the headers
//! for a call's arguments, and compares headers with arguments.
//!
//! Source: MCP 2026-07-28 basic/transports/streamable-http (schema extension, server behavior for
//! custom headers) and server/tools (x-mcp-header).
//!
//! # Invariant
//! - A schema is traversed once, with a list instead of recursion. Each of its values is visited
//!   once.

#[cfg(feature = "http-client")]
use std::borrow::Cow;
use std::fmt;

use crate::json::sort::sort;
use crate::json::{Kind, Value};

use super::PARAM;
#[cfg(feature = "http-server")]
use super::decode;
#[cfg(feature = "http-client")]
use super::encode;

const ANNOTATION: &str = "x-mcp-header";
/// Maximum number of mirrored arguments of one tool. Servers and proxies reject requests with more
/// than about a hundred headers.
pub(super) const MAX_MIRRORED: usize = 64;

/// One mirrored argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MirroredArgument {
    /// The header's whole name.
    pub header: Box<str>,
    /// Path of the argument: property names from the root of the arguments.
    pub(super) path: Vec<Box<str>>,
}

/// Fault of an annotation, which prevents offering the tool over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadAnnotation {
    /// The annotation's text, as JSON, shortened.
    annotation: String,
    pub(super) reason: &'static str,
}

impl fmt::Display for BadAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ANNOTATION} {}: {}", self.annotation, self.reason)
    }
}

/// A part of a schema to visit.
enum Part<'d> {
    /// A schema whose value has a fixed place in the arguments, with the last step of its path.
    Placed(Value<'d>, Option<usize>),
    /// A schema, or a value that may contain schemas, without a fixed place.
    Loose(Value<'d>),
    /// An object of schemas without a fixed place.
    LooseMap(Value<'d>),
}

/// A property on the path to others.
struct Step<'d> {
    name: &'d str,
    parent: Option<usize>,
}

/// Returns the mirrored arguments of an input schema, in the order of the schema.
///
/// An annotation is valid on a property of type string, integer or boolean that is reached from the
/// root through `properties` alone. Any other annotation, one that is not a token, and a duplicate
/// without regard to case make the whole tool invalid (streamable-http, schema extension).
///
/// # Errors
/// The first bad annotation found.
pub(crate) fn mirrors(schema: Value<'_>) -> Result<Vec<MirroredArgument>, BadAnnotation> {
    let mut found: Vec<(usize, MirroredArgument)> = Vec::new();
    // Most schemas have no annotation and are not traversed. A text with escapes is, because they
    // could hide an annotation.
    if !schema.raw().contains(ANNOTATION) && !schema.raw().contains('\\') {
        return Ok(Vec::new());
    }
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut open = vec![Part::Placed(schema, None)];
    while let Some(part) = open.pop() {
        match part {
            Part::LooseMap(map) => open.extend(map.members().map(|(_, schema)| Part::Loose(schema))),
            Part::Loose(schema) => {
                // An array belongs to `allOf`, `prefixItems` or similar, or to an unknown keyword.
                open.extend(schema.items().map(Part::Loose));
                walk(schema, &mut open);
                if let Some(annotation) = schema.get(ANNOTATION) {
                    return Err(bad(annotation, "only properties reached through `properties` may have it"));
                }
                if let Some(map) = schema.get("properties") {
                    open.push(Part::LooseMap(map));
                }
            }
            Part::Placed(schema, place) => {
                walk(schema, &mut open);
                if let Some(annotation) = schema.get(ANNOTATION) {
                    let header = header(schema, annotation, place)?;
                    if found.len() == MAX_MIRRORED {
                        return Err(bad(annotation, "the tool has more than 64 annotations"));
                    }
                    if found.iter().any(|(_, m)| m.header.eq_ignore_ascii_case(&header)) {
                        return Err(bad(annotation, "used twice"));
                    }
                    found.push((schema.offset(), MirroredArgument { header, path: path(&steps, place) }));
                }
                for (name, property) in schema.get("properties").into_iter().flat_map(Value::members) {
                    steps.push(Step { name, parent: place });
                    open.push(Part::Placed(property, Some(steps.len() - 1)));
                }
            }
        }
    }
    sort(&mut found, |a, b| a.0.cmp(&b.0));
    Ok(found.into_iter().map(|(_, mirror)| mirror).collect())
}

/// Adds all parts of a schema to `open`, except its `properties`. Values of unknown keywords are
/// included, because they may be targets of references.
fn walk<'d>(schema: Value<'d>, open: &mut Vec<Part<'d>>) {
    for (keyword, value) in schema.members() {
        match keyword {
            // Data, not schemas.
            "const" | "enum" | "default" | "examples" | "required" | ANNOTATION | "properties" => {}
            "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                open.push(Part::LooseMap(value));
            }
            _ if matches!(value.kind(), Kind::Object | Kind::Array) => open.push(Part::Loose(value)),
            _ => {}
        }
    }
}

/// Returns the header of an annotated property.
fn header(schema: Value<'_>, annotation: Value<'_>, place: Option<usize>) -> Result<Box<str>, BadAnnotation> {
    if place.is_none() {
        return Err(bad(annotation, "the root of the input schema must not have it"));
    }
    let Some(name) = annotation.as_str() else { return Err(bad(annotation, "not a string")) };
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(bad(annotation, "must be a token of RFC 9110, as part of a header name"));
    }
    if !matches!(schema.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err(bad(annotation, "only strings, integers and booleans may have it"));
    }
    Ok(format!("{PARAM}{name}").into())
}

/// RFC 9110 §5.6.2.
fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

fn path(steps: &[Step<'_>], place: Option<usize>) -> Vec<Box<str>> {
    let mut path = Vec::new();
    let mut at = place;
    while let Some(step) = at.and_then(|i| steps.get(i)) {
        path.push(step.name.into());
        at = step.parent;
    }
    path.reverse();
    path
}

#[cold]
fn bad(annotation: Value<'_>, reason: &'static str) -> BadAnnotation {
    BadAnnotation { annotation: format!("{annotation:?}").chars().take(100).collect(), reason }
}

impl MirroredArgument {
    /// Returns the mirrored argument; `None` if it is absent, null, or of a type that the check of
    /// the arguments rejects.
    pub(crate) fn argument<'d>(&self, arguments: Option<Value<'d>>) -> Option<Value<'d>> {
        let mut at = arguments?;
        for name in &self.path {
            at = at.get(name)?;
        }
        matches!(at.kind(), Kind::String | Kind::Number | Kind::Bool).then_some(at)
    }

    /// Returns the header's value for these arguments, not yet encoded; `None` if no header is
    /// sent.
    #[cfg(feature = "http-client")]
    pub(crate) fn text<'d>(&self, arguments: Option<Value<'d>>) -> Option<Cow<'d, str>> {
        let argument = self.argument(arguments)?;
        if let Some(text) = argument.as_str() {
            return Some(Cow::Borrowed(text));
        }
        // `42.0` and `4.2e1` are integers to a schema, and decimal in a header.
        let whole = argument.as_f64().filter(|number| number.abs() <= EXACT && number.fract() == 0.0);
        if let Some(number) = whole {
            return Some(Cow::Owned((number as i64).to_string()));
        }
        Some(Cow::Borrowed(argument.raw()))
    }

    /// Compares the header, as received, with the arguments (streamable-http, server behavior for
    /// custom headers).
    ///
    /// # Errors
    /// Description of the fault; the response is [`MISMATCH`](super::MISMATCH).
    #[cfg(feature = "http-server")]
    pub(crate) fn check(
        &self,
        header: Option<&[u8]>,
        arguments: Option<Value<'_>>,
    ) -> Result<(), &'static str> {
        match (header, self.argument(arguments)) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err("is missing"),
            (Some(_), None) => Err("must be absent, because the call omits the argument"),
            (Some(header), Some(argument)) => {
                let text = decode(header).ok_or("is malformed")?;
                if agrees(&text, argument) { Ok(()) } else { Err("does not match the argument") }
            }
        }
    }
}

/// Appends the headers that a call with these arguments carries, encoded.
#[cfg(feature = "http-client")]
pub(crate) fn params(
    mirrors: &[MirroredArgument],
    arguments: Option<Value<'_>>,
    out: &mut Vec<(String, String)>,
) {
    for mirror in mirrors {
        if let Some(text) = mirror.text(arguments) {
            out.push((mirror.header.to_string(), encode(&text).into_owned()));
        }
    }
}

/// Largest integer that is exact in `f64`, and the limit of integers in headers.
#[cfg(feature = "http-client")]
const EXACT: f64 = 9_007_199_254_740_991.0;

/// Returns `true` if a decoded header equals a value of the body: numbers by value, everything else
/// by text.
#[cfg(feature = "http-server")]
fn agrees(text: &str, value: Value<'_>) -> bool {
    match value.kind() {
        Kind::String => value.as_str() == Some(text),
        Kind::Number => {
            let raw = value.raw();
            if let (Ok(a), Ok(b)) = (text.parse::<i128>(), raw.parse::<i128>()) {
                return a == b && is_decimal(text);
            }
            is_decimal(text) && crate::json::float::read(text) == value.as_f64() && value.as_f64().is_some()
        }
        Kind::Bool => value.raw() == text,
        _ => false,
    }
}

/// Returns `true` if a text is a number roughly as in JSON: no `inf`, no `+1`, no `.5`.
#[cfg(feature = "http-server")]
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
}
