//! Reason a schema was refused.
//!
//! One error with the pointer into the schema; made by the compiler and nobody else.
//!
//! Invariant: the message is for the one who wrote the schema, and short.

use std::fmt;

/// A schema that is none, or that cannot be run here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaError {
    /// Where: a JSON Pointer (RFC 6901) into the schema, empty for the whole. A fault in another
    /// document is written with that document's URI and `#` before the pointer.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl SchemaError {
    pub(super) fn new(pointer: impl Into<String>, message: impl Into<String>) -> SchemaError {
        SchemaError { pointer: pointer.into(), message: message.into() }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.pointer, self.message)
        }
    }
}

impl std::error::Error for SchemaError {}
