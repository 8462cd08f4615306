//! Error of a schema that cannot be compiled.
//!
//! Invariant: the message addresses the author of the schema, and is short.

use std::fmt;

/// A schema that is invalid or unsupported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaError {
    /// JSON Pointer (RFC 6901) into the schema, empty for the whole. For another document, its URI
    /// and `#` precede the pointer.
    pub pointer: String,
    /// The error and what is accepted instead.
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
