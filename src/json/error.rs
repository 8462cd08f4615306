//! Error of parsing: a kind and a byte offset, without allocation.
//!
//! Describes the first error and its position. It does not quote the text, so a peer may see it.
//!
//! Invariant: an error has 8 bytes, so a parse result fits in registers.

use std::fmt;

/// Kind of a parse error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing but whitespace.
    Empty,
    /// The text stops inside a value.
    UnexpectedEnd,
    /// No value starts with this byte.
    UnexpectedByte,
    /// An object needs a member name (or `}` if it is empty) here.
    ExpectedName,
    /// A member name is not followed by `:`.
    ExpectedColon,
    /// An element or member is followed neither by `,` nor by the closing bracket.
    ExpectedComma,
    /// Text follows the value.
    Trailing,
    /// A number violates the grammar, such as a leading zero or a missing digit.
    Number,
    /// A backslash before a character that RFC 8259 does not list.
    Escape,
    /// A `\u` escape is half of a surrogate pair without the other half.
    LoneSurrogate,
    /// A byte below 0x20 inside a string.
    ControlCharacter,
    /// The bytes are not UTF-8.
    Utf8,
    /// The text starts with a byte order mark.
    ByteOrderMark,
    /// An object has two members with the same name, and the limits forbid it.
    DuplicateName,
    /// Nesting deeper than the limits allow.
    Depth,
    /// More values and names than the limits allow.
    Nodes,
    /// More bytes than the limits allow.
    Bytes,
}

/// Kind and byte offset of a parse error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    kind: ErrorKind,
    offset: u32,
}

impl ParseError {
    pub(super) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        // Saturates: offsets exceed u32 only in texts that are rejected for their size.
        let offset = if offset > u32::MAX as usize { u32::MAX } else { offset as u32 };
        ParseError { kind, offset }
    }

    /// The kind of error.
    pub const fn kind(self) -> ErrorKind {
        self.kind
    }

    /// The position, in bytes from the start of the text.
    pub const fn offset(self) -> usize {
        self.offset as usize
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Empty => "expected a value, found nothing",
            ErrorKind::UnexpectedEnd => "the text ends inside a value",
            ErrorKind::UnexpectedByte => "expected a value",
            ErrorKind::ExpectedName => "expected a member name",
            ErrorKind::ExpectedColon => "expected `:`",
            ErrorKind::ExpectedComma => "expected `,` or the closing bracket",
            ErrorKind::Trailing => "unexpected text after the value",
            ErrorKind::Number => "malformed number",
            ErrorKind::Escape => "malformed escape",
            ErrorKind::LoneSurrogate => "lone surrogate escape",
            ErrorKind::ControlCharacter => "unescaped control character in a string",
            ErrorKind::Utf8 => "not UTF-8",
            ErrorKind::ByteOrderMark => "unexpected byte order mark",
            ErrorKind::DuplicateName => "duplicate member name",
            ErrorKind::Depth => "nested too deep",
            ErrorKind::Nodes => "too many values",
            ErrorKind::Bytes => "text too long",
        })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl std::error::Error for ParseError {}
