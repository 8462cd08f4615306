//! Error of a value that violates its definition.
//!
//! A [`Violation`] has a path, a keyword, and a sentence for a model: what is expected and what was
//! found. The checks are in other modules.
//!
//! Invariants:
//! - All functions are cold and shared by all types.
//! - Quotes of the value are truncated, so the message stays short whatever the peer sent.

use std::fmt::{self, Write as _};

use crate::json::{Kind, Value};

use super::field::Field;

/// The first violation of a definition by a value.
///
/// ```
/// tinymcp::record! {
///     struct Switch { pin: u8 [0..=27] }
/// }
/// let doc = tinymcp::json!({"pin": 99}).to_doc();
/// let violation = tinymcp::record::decode::<Switch>(doc.root()).err().unwrap();
/// assert_eq!(
///     violation.to_string(),
///     "/pin: expected an integer from 0 to 27, got 99 (maximum)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) into the value, empty for the value itself. A missing or unknown
    /// member is reported for its object.
    pub path: String,
    /// The JSON Schema keyword that failed.
    pub keyword: &'static str,
    /// The expected and the actual value. For an unknown name, the allowed names.
    pub message: String,
}

impl Violation {
    /// A violation of the current value. Callers that read the enclosing values add the path.
    pub fn new(keyword: &'static str, message: impl Into<String>) -> Box<Violation> {
        Box::new(Violation { path: String::new(), keyword, message: message.into() })
    }

    /// Adds a member of an object in front of the path.
    #[cold]
    #[must_use]
    pub fn within(mut self: Box<Violation>, name: &str) -> Box<Violation> {
        let mut path = String::with_capacity(1 + name.len() + self.path.len());
        path.push('/');
        for c in name.chars() {
            match c {
                '~' => path.push_str("~0"),
                '/' => path.push_str("~1"),
                other => path.push(other),
            }
        }
        path.push_str(&self.path);
        self.path = path;
        self
    }

    /// Adds an element of an array in front of the path.
    #[cold]
    #[must_use]
    pub fn within_item(mut self: Box<Violation>, index: usize) -> Box<Violation> {
        self.path = format!("/{index}{}", self.path);
        self
    }
}

impl fmt::Display for Violation {
    /// Path, message and keyword in one line, without the path for the whole value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} ({})", self.message, self.keyword)
    }
}

impl std::error::Error for Violation {}

/// "expected …, got …".
#[cold]
pub(super) fn unexpected(keyword: &'static str, expected: &str, value: Value<'_>) -> Box<Violation> {
    let mut message = String::from("expected ");
    message.push_str(expected);
    message.push_str(", got ");
    push_got(&mut message, value);
    Violation::new(keyword, message)
}

/// An unknown member, with the most similar allowed name.
#[cold]
pub(super) fn unknown_member(name: &str, fields: &'static [Field]) -> Box<Violation> {
    let mut message = String::from("unknown member `");
    push_short(&mut message, name);
    message.push('`');
    match nearest(name, &mut fields.iter().map(|field| field.name)) {
        Some(near) => push(&mut message, format_args!(", did you mean `{near}`? ")),
        None => message.push_str(". "),
    }
    if fields.is_empty() {
        message.push_str("No members are allowed");
    } else {
        push(&mut message, format_args!("Allowed are {}", Members(fields)));
    }
    Violation::new("additionalProperties", message)
}

/// Missing members: required `fields` without an entry in `found`.
#[cold]
pub(super) fn missing_members(fields: &'static [Field], found: &[Option<Value<'_>>]) -> Box<Violation> {
    let mut message = String::from("missing ");
    let missing = fields.iter().zip(found).filter(|(field, value)| field.required && value.is_none());
    for (i, (field, _)) in missing.enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        push(&mut message, format_args!("{comma}`{}`", field.name));
    }
    if found.iter().all(Option::is_none) {
        push(&mut message, format_args!(". Allowed are {}", Members(fields)));
    }
    Violation::new("required", message)
}

/// A value other than an object in place of a record.
#[cold]
pub(super) fn not_an_object(value: Value<'_>, fields: &'static [Field]) -> Box<Violation> {
    if fields.is_empty() {
        return unexpected("type", "an object without members", value);
    }
    let expected = format!("an object with the members {}", Members(fields));
    unexpected("type", &expected, value)
}

/// A value other than an object in place of an enum with data.
#[cold]
pub(super) fn untagged(value: Value<'_>, tag: &str) -> Box<Violation> {
    unexpected("type", &format!("an object with the member `{tag}`"), value)
}

/// A value other than one of the words of a choice.
#[cold]
#[doc(hidden)]
pub fn not_a_word(value: Value<'_>, words: &[&'static str]) -> Box<Violation> {
    let text = value.as_str();
    let keyword = if text.is_some() { "enum" } else { "type" };
    let mut expected = String::from(if words.len() == 1 { "" } else { "one of " });
    for (i, word) in words.iter().take(MAX_NAMES).enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        push(&mut expected, format_args!("{comma}{word:?}"));
    }
    if words.len() > MAX_NAMES {
        push(&mut expected, format_args!(" and {} more", words.len() - MAX_NAMES));
    }
    let mut violation = unexpected(keyword, &expected, value);
    if let Some(near) = text.and_then(|text| nearest(text, &mut words.iter().copied())) {
        push(&mut violation.message, format_args!(", did you mean {near:?}?"));
    }
    violation
}

fn push(text: &mut String, what: fmt::Arguments<'_>) {
    // OK to drop: writing to a String cannot fail.
    let _ = text.write_fmt(what);
}

/// Largest number of names in a message.
const MAX_NAMES: usize = 24;

/// The names of a record, required ones first.
struct Members(&'static [Field]);

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut listed = 0;
        for required in [true, false] {
            let group = self.0.iter().filter(|field| field.required == required);
            for (i, field) in group.enumerate() {
                if listed == MAX_NAMES {
                    return write!(f, " and {} more", self.0.len() - listed);
                }
                match (i, listed) {
                    (0, 0) => {}
                    (0, _) => f.write_str("; optional ")?,
                    _ => f.write_str(", ")?,
                }
                write!(f, "`{}`", field.name)?;
                listed += 1;
            }
        }
        Ok(())
    }
}

/// Largest number of characters quoted from the peer.
const MAX_QUOTED: usize = 40;

/// Appends a quote from the peer, truncated if it is long.
pub(crate) fn push_short(out: &mut String, text: &str) {
    push_start(out, text, MAX_QUOTED);
}

/// Appends this many characters of a text, and a mark if there are more.
pub(crate) fn push_start(out: &mut String, text: &str, most: usize) {
    // A text has at least as many bytes as characters.
    let cut = if text.len() > most { text.char_indices().nth(most) } else { None };
    match cut {
        None => out.push_str(text),
        Some((end, _)) => {
            out.push_str(text.get(..end).unwrap_or_default());
            out.push('…');
        }
    }
}

/// Appends what was found: scalars quoted, containers with their size.
pub(crate) fn push_got(out: &mut String, value: Value<'_>) {
    match value.kind() {
        Kind::Null | Kind::Bool | Kind::Number => push_short(out, value.raw()),
        // The raw text has its control characters escaped.
        Kind::String => {
            out.push_str("the string ");
            push_short(out, value.raw());
        }
        Kind::Array => {
            out.push_str("an array of ");
            push_count(out, value.len(), "item");
        }
        Kind::Object => {
            out.push_str("an object of ");
            push_count(out, value.len(), "member");
        }
    }
}

/// Appends "1 item", "2 items".
pub(crate) fn push_count(out: &mut String, n: usize, unit: &str) {
    push_number(out, n);
    out.push(' ');
    out.push_str(unit);
    if n != 1 {
        out.push('s');
    }
}

/// Appends a number's decimal digits.
pub(crate) fn push_number(out: &mut String, n: usize) {
    let mut power = 1;
    while n / power >= 10 {
        power *= 10;
    }
    while power > 0 {
        out.push(char::from(b'0' + (n / power % 10) as u8));
        power /= 10;
    }
}

/// The longest name, in bytes, for which a similar one is searched.
const MAX_COMPARED: usize = 48;

/// The most similar name to `wanted`, if it is similar enough. Case, `_` and `-` are ignored, and
/// about every third character may differ.
#[cold]
pub(crate) fn nearest<'n>(wanted: &str, names: &mut dyn Iterator<Item = &'n str>) -> Option<&'n str> {
    let wanted = Folded::new(wanted)?;
    let mut best = None;
    for name in names {
        let Some(folded) = Folded::new(name) else {
            continue;
        };
        let longer = wanted.bytes().len().max(folded.bytes().len());
        let mut most = (longer + 1) / 3;
        if let Some((distance, _)) = best {
            most = most.min(distance - 1);
        }
        let shorter = wanted.bytes().len().min(folded.bytes().len());
        // The difference in length is the least number of edits.
        if longer - shorter > most {
            continue;
        }
        let distance = distance(wanted.bytes(), folded.bytes());
        if distance <= most {
            best = Some((distance, name));
            if distance == 0 {
                break;
            }
        }
    }
    best.map(|(_, name)| name)
}

/// A name without case, `_` and `-`.
struct Folded {
    buf: [u8; MAX_COMPARED],
    len: usize,
}

impl Folded {
    /// `None` if the name is too long to be compared.
    fn new(name: &str) -> Option<Folded> {
        let mut folded = Folded { buf: [0; MAX_COMPARED], len: 0 };
        for b in name.bytes().filter(|b| !matches!(b, b'_' | b'-' | b' ')) {
            *folded.buf.get_mut(folded.len)? = b.to_ascii_lowercase();
            folded.len += 1;
        }
        Some(folded)
    }

    fn bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

/// The edit distance: bytes to insert, delete or replace.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row = [0; MAX_COMPARED + 1];
    for (i, cell) in row.iter_mut().enumerate() {
        *cell = i;
    }
    let row = row.get_mut(..=b.len()).unwrap_or_default();
    for (i, x) in a.iter().enumerate() {
        let mut left = i + 1;
        let mut corner = i;
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let replaced = corner + usize::from(x != y);
            corner = *cell;
            left = replaced.min(corner + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_byte_edits() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("pin", "pin", 0),
            ("pin", "pen", 1),
            ("pins", "pin", 1),
            ("level", "levle", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn numbers_and_counts_are_written_out() {
        for (n, expected) in
            [(0, "0 items"), (1, "1 item"), (9, "9 items"), (10, "10 items"), (907, "907 items")]
        {
            let mut out = String::new();
            push_count(&mut out, n, "item");
            assert_eq!(out, expected);
        }
        let mut out = String::new();
        push_number(&mut out, usize::MAX);
        assert_eq!(out, usize::MAX.to_string());
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, expected) in [("", ""), ("abc", "abc"), ("abcd", "abc…"), ("äöü", "äöü"), ("äöüß", "äöü…")]
        {
            let mut out = String::new();
            push_start(&mut out, text, 3);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn nearest_name_ignores_spelling_fashion_and_refuses_far_ones() {
        let names = ["pin", "level", "hold_ms", "maxResults"];
        for (wanted, expected) in [
            ("Pin", Some("pin")),
            ("pins", Some("pin")),
            ("levle", Some("level")),
            ("holdMs", Some("hold_ms")),
            ("hold-ms", Some("hold_ms")),
            ("max_results", Some("maxResults")),
            ("max_result", Some("maxResults")),
            ("note", None),
            ("", None),
            ("p", None),
        ] {
            assert_eq!(nearest(wanted, &mut names.into_iter()), expected, "{wanted}");
        }
        let long = "x".repeat(MAX_COMPARED + 1);
        assert_eq!(nearest(&long, &mut names.into_iter()), None);
        let longest = "x".repeat(MAX_COMPARED);
        assert_eq!(nearest(&longest, &mut [longest.as_str()].into_iter()), Some(longest.as_str()));
    }
}
