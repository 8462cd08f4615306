//! JSON (RFC 8259) as text plus a flat table of nodes.
//!
//! A [`Doc`] owns the text of one JSON value and a table with one 16-byte node per value and per
//! member name. A [`Value`] is a `Copy` cursor: a reference to the document and an index. Nothing
//! recurses: parsing, reading, writing and dropping take constant stack for any input.
//!
//! The module parses bytes strictly, reads values as borrows, returns the exact text of any subtree
//! ([`Value::raw`]), writes text ([`Writer`]) and carries finished JSON ([`Json`]). Documents are
//! immutable.
//!
//! # Rules
//!
//! | input | rule |
//! |---|---|
//! | duplicate member names | allowed by RFC 8259 §4: accepted, and [`Value::get`] returns the last one. With [`ParseLimits::unique_names`] (used for all protocol messages), rejected as [`ErrorKind::DuplicateName`] at the second name: two readers of a message must not see different content |
//! | escaped lone surrogate `\ud800` | rejected, [`ErrorKind::LoneSurrogate`]: it has no UTF-8 form |
//! | `\u0000` in a string | accepted; Rust strings have no terminator |
//! | bytes that are not UTF-8 | rejected, [`ErrorKind::Utf8`] at the first bad byte |
//! | byte order mark | rejected by the parser, [`ErrorKind::ByteOrderMark`]; transports strip one first |
//! | integers in `i64` and `u64` | exact |
//! | every other number | text kept; read as the correctly rounded `f64`; `1e400` is a number whose `as_f64` is `None` |
//! | nesting deeper than [`ParseLimits::depth`] | rejected, [`ErrorKind::Depth`] |
//! | more nodes than [`ParseLimits::nodes`] | rejected, [`ErrorKind::Nodes`] |
//! | more bytes than [`ParseLimits::bytes`] | rejected, [`ErrorKind::Bytes`] |
//!
//! # Invariants
//!
//! - Node 0 is the root; children follow their parent in document order, so a subtree is a
//!   contiguous run of nodes and a contiguous run of text.
//! - A member is two nodes: its name (a string) and its value.
//! - Strings with escapes are decoded at parse time into a second buffer, so reading any string
//!   is a borrow. The raw text is untouched.
//! - A document recycles its buffers: [`Doc::parse_again`] on a document that has seen a
//!   message of the same size allocates nothing.

mod comments;
mod const_check;
pub(crate) mod float;
#[allow(clippy::module_inception, reason = "the file is named after its type, `Json`")]
mod json;
#[cfg(feature = "miniserde")]
mod miniserde;
#[cfg(feature = "schema")]
mod node_ref;
mod parse;
mod scan;
pub(crate) mod sort;
mod unescape;
mod value;
mod writer;

use std::fmt;

pub use comments::without_comments;
pub use json::{Json, ToJson};
#[cfg(feature = "miniserde")]
pub use miniserde::{TypedError, from_value, to_writer};
#[cfg(feature = "schema")]
pub(crate) use node_ref::NodeRef;
pub use value::{Items, MemberValues, Members, NodeId, Value};
pub use writer::Writer;

use parse::{Name, Node};

/// Kind of a JSON value. [`Value::kind`] returns it; see [`Value`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// Any number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// Limits of the parser.
///
/// ```
/// use tinymcp::json::{Doc, ErrorKind, ParseLimits};
///
/// let limits = ParseLimits { bytes: 1024, depth: 4, ..ParseLimits::default() };
/// let mut doc = Doc::default();
/// doc.parse_again(b"[[[[]]]]", &limits)?;
/// let error = doc.parse_again(b"[[[[[]]]]]", &limits).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Depth);
/// # Ok::<(), tinymcp::json::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLimits {
    /// Longest text in bytes; never more than 512 MiB.
    pub bytes: usize,
    /// Deepest nesting of arrays and objects; 0 allows scalars only.
    pub depth: u32,
    /// Largest number of nodes: one for each value and each member name. Each takes 16 bytes.
    pub nodes: u32,
    /// Reject an object with two members of the same name.
    pub unique_names: bool,
}

impl ParseLimits {
    /// Only the limit of the tables: 512 MiB.
    pub const UNBOUNDED: ParseLimits =
        ParseLimits { bytes: MAX_BYTES, depth: u32::MAX, nodes: u32::MAX, unique_names: false };
}

impl Default for ParseLimits {
    /// 4 MiB, 128 levels, 1,000,000 nodes, duplicate names allowed.
    fn default() -> ParseLimits {
        ParseLimits { bytes: 4 << 20, depth: 128, nodes: 1_000_000, unique_names: false }
    }
}

/// Lengths and counts share a word with the kind and have 29 bits.
const MAX_BYTES: usize = (1 << 29) - 1;

/// One parsed JSON value: its text and its node table.
///
/// ```
/// use tinymcp::json::Doc;
/// let doc = Doc::parse(r#"{"id": 7, "tags": ["a", "\u00e9"]}"#)?;
/// assert_eq!(doc.root().get("id").and_then(|v| v.as_i64()), Some(7));
/// assert_eq!(doc.root().pointer("/tags/1").and_then(|v| v.as_str()), Some("é"));
/// # Ok::<(), tinymcp::json::ParseError>(())
/// ```
#[derive(Clone, Default)]
pub struct Doc {
    /// The text as received.
    text: String,
    /// Empty for the document `null`, so that a new document allocates nothing.
    nodes: Vec<Node>,
    /// Decoded forms of the strings with escapes, concatenated.
    decoded: String,
    /// Buffer of the check for duplicate names.
    names: Vec<Name>,
    /// The limits of the last parse. With unique names, a search may stop at the first match.
    limits: ParseLimits,
}

impl Doc {
    /// Parses one value with [`ParseLimits::default`].
    ///
    /// # Errors
    /// The first error in the text, with its position.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Doc, ParseError> {
        let mut doc = Doc::default();
        doc.parse_again(text.as_ref(), &ParseLimits::default())?;
        Ok(doc)
    }

    /// Parses into this document, reusing its buffers.
    ///
    /// # Errors
    /// The first error in the text, with its position. The document is `null` then.
    pub fn parse_again(&mut self, text: &[u8], limits: &ParseLimits) -> Result<(), ParseError> {
        self.clear();
        parse::check_size(text, limits)?;
        if let Err(e) = parse::copy(text, &mut self.text) {
            self.text.clear();
            return Err(e);
        }
        self.build(limits)
    }

    /// Like [`Doc::parse_again`], but swaps buffers with the caller instead of copying a large
    /// frame. `text` receives the old buffer of the document, empty, also after an error.
    ///
    /// # Errors
    /// The first error in the text, with its position. The document is `null` then.
    pub fn parse_taking(&mut self, text: &mut Vec<u8>, limits: &ParseLimits) -> Result<(), ParseError> {
        self.clear();
        let old = std::mem::take(&mut self.text).into_bytes();
        let taken = std::mem::replace(text, old);
        if let Err(e) = parse::check_size(&taken, limits) {
            self.text = parse::emptied(taken);
            return Err(e);
        }
        match String::from_utf8(taken) {
            Ok(taken) => self.text = taken,
            Err(e) => {
                let error = parse::utf8_error(e.utf8_error());
                self.text = parse::emptied(e.into_bytes());
                return Err(error);
            }
        }
        self.build(limits)
    }

    fn build(&mut self, limits: &ParseLimits) -> Result<(), ParseError> {
        let (nodes, decoded, names) = (&mut self.nodes, &mut self.decoded, &mut self.names);
        let built = parse::build(&self.text, nodes, decoded, names, limits);
        self.limits = *limits;
        if built.is_err() {
            self.clear();
        }
        built
    }

    fn clear(&mut self) {
        self.text.clear();
        self.nodes.clear();
        self.decoded.clear();
    }

    /// The root value.
    pub fn root(&self) -> Value<'_> {
        Value::new(self, 0)
    }

    /// The value of an id from [`Value::id`] of this document; the root if there is none.
    pub fn at(&self, id: NodeId) -> Value<'_> {
        let node = id.index();
        Value::new(self, if (node as usize) < self.nodes.len() { node } else { 0 })
    }

    /// The parsed text, including whitespace around the value.
    pub fn text(&self) -> &str {
        if self.nodes.is_empty() { "null" } else { &self.text }
    }

    /// Allocated bytes of its buffers.
    pub fn memory(&self) -> usize {
        let tables = self.nodes.capacity() * size_of::<Node>() + self.names.capacity() * size_of::<Name>();
        self.text.capacity() + self.decoded.capacity() + tables
    }

    /// Shrinks every buffer larger than `bytes` to its content or to `bytes`, whichever is larger.
    /// For use after an unusually large message.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.text.shrink_to(bytes);
        self.decoded.shrink_to(bytes);
        self.nodes.shrink_to(bytes / size_of::<Node>());
        self.names.clear();
        self.names.shrink_to(bytes / size_of::<Name>());
    }
}

impl fmt::Debug for Doc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Doc").field(&self.root()).finish()
    }
}

/// Kind of a parse error. [`ParseError::kind`] returns it; see [`ParseError`].
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
///
/// ```
/// use tinymcp::json::{Doc, ErrorKind};
///
/// let error = Doc::parse(r#"{"a": 1 "b": 2}"#).err().expect("a comma is missing");
/// assert_eq!((error.kind(), error.offset()), (ErrorKind::ExpectedComma, 8));
/// ```
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
