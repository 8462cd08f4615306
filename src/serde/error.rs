//! Errors of serde's traits as [`Violation`]s.
//!
//! serde passes what is expected and what was found. The words follow those of `record!`.

use std::fmt;

use serde_core::de::{self, Expected, Unexpected};
use serde_core::ser;

use crate::json::Value;
use crate::record::{Violation, nearest, push_got, push_short};

/// Largest number of names in a message.
const MAX_NAMES: usize = 24;

/// The first mismatch of a value and a type.
#[derive(Debug)]
pub(super) struct Error(Box<Violation>);

impl Error {
    #[cold]
    pub(super) fn new(keyword: &'static str, message: impl Into<String>) -> Error {
        Error(Violation::new(keyword, message))
    }

    /// "expected …, got …".
    #[cold]
    pub(super) fn unexpected(keyword: &'static str, expected: &str, value: Value<'_>) -> Error {
        let mut message = format!("expected {expected}, got ");
        push_got(&mut message, value);
        Error::new(keyword, message)
    }

    #[cold]
    pub(super) fn too_deep() -> Error {
        Error::new("limit", format!("nested deeper than {} levels", super::DEPTH))
    }

    pub(super) fn into_violation(self) -> Box<Violation> {
        self.0
    }

    #[cold]
    pub(super) fn within(self, name: &str) -> Error {
        Error(self.0.within(name))
    }

    #[cold]
    pub(super) fn within_item(self, index: usize) -> Error {
        Error(self.0.within_item(index))
    }
}

impl From<Box<Violation>> for Error {
    fn from(violation: Box<Violation>) -> Error {
        Error(violation)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {}

impl ser::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Error {
        Error::new("type", message.to_string())
    }
}

impl de::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Error {
        Error::new("type", message.to_string())
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Error {
        Error::new("type", format!("expected {}, got {}", plain(&expected.to_string()), Found(found)))
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Error {
        <Error as de::Error>::invalid_type(found, expected)
    }

    #[cold]
    fn invalid_length(count: usize, expected: &dyn Expected) -> Error {
        let s = if count == 1 { "" } else { "s" };
        Error::new("minItems", format!("expected {}, got {count} item{s}", plain(&expected.to_string())))
    }

    #[cold]
    fn unknown_variant(variant: &str, words: &'static [&'static str]) -> Error {
        let mut message = format!("expected {}, got the string \"", words_of(words));
        push_short(&mut message, &variant.escape_debug().to_string());
        message.push('"');
        if let Some(near) = nearest(variant, &mut words.iter().copied()) {
            message.push_str(&format!(", did you mean {near:?}?"));
        }
        Error::new("enum", message)
    }

    #[cold]
    fn unknown_field(field: &str, names: &'static [&'static str]) -> Error {
        let mut message = String::from("unknown member `");
        push_short(&mut message, &field.escape_debug().to_string());
        message.push('`');
        match nearest(field, &mut names.iter().copied()) {
            Some(near) => message.push_str(&format!(", did you mean `{near}`? ")),
            None => message.push_str(". "),
        }
        match names {
            [] => message.push_str("No members are allowed"),
            names => message.push_str(&format!("Allowed are {}", members(names))),
        }
        Error::new("additionalProperties", message)
    }

    #[cold]
    fn missing_field(field: &'static str) -> Error {
        Error::new("required", format!("missing `{field}`"))
    }

    #[cold]
    fn duplicate_field(field: &'static str) -> Error {
        Error::new("type", format!("the member `{field}` occurs twice"))
    }
}

/// "`a`, `b`".
pub(super) fn members(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    listed(&quoted, names.len())
}

/// "one of "a", "b"".
pub(super) fn words_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().take(MAX_NAMES).map(|word| format!("{word:?}")).collect();
    format!("{}{}", if words.len() == 1 { "" } else { "one of " }, listed(&quoted, words.len()))
}

fn listed(quoted: &[String], count: usize) -> String {
    let mut text = quoted.join(", ");
    if count > quoted.len() {
        text.push_str(&format!(" and {} more", count - quoted.len()));
    }
    text
}

/// The words of JSON for the Rust words of serde's own visitors.
fn plain(expected: &str) -> &str {
    match expected {
        "a boolean" => "true or false",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "an integer",
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "an integer of at least 0",
        "f32" | "f64" => "a number",
        "a borrowed string" => "a string",
        "a borrowed byte array" => "bytes",
        "a sequence" => "an array",
        "a map" => "an object",
        "unit" => "null",
        "a character" => "a string of 1 character",
        // A Rust name means nothing to a caller.
        name if name.starts_with("struct ") => "an object",
        name => name,
    }
}

/// A value that serde found, in the words of JSON.
struct Found<'a>(Unexpected<'a>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Unexpected::Bool(b) => b.fmt(f),
            Unexpected::Unsigned(n) => n.fmt(f),
            Unexpected::Signed(n) => n.fmt(f),
            Unexpected::Float(n) => n.fmt(f),
            Unexpected::Char(c) => write!(f, "the string {c:?}"),
            Unexpected::Str(text) => {
                let mut quoted = String::new();
                push_short(&mut quoted, &text.escape_debug().to_string());
                write!(f, "the string \"{quoted}\"")
            }
            Unexpected::Unit | Unexpected::Option => f.write_str("null"),
            Unexpected::Seq | Unexpected::TupleVariant => f.write_str("an array"),
            Unexpected::Map | Unexpected::StructVariant => f.write_str("an object"),
            other => other.fmt(f),
        }
    }
}
