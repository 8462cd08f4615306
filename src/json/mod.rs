//! JSON (RFC 8259) as text plus a flat table of nodes.
//!
//! A [`Doc`] owns the text of one JSON value and a table with one 16-byte node per value and
//! per member name. A [`Value`] is a `Copy` cursor into it: a reference to the document and an
//! index. There is no tree of boxes, and nothing here recurses: parsing, reading, writing and
//! dropping take constant stack whatever the input.
//!
//! What it does: parse bytes strictly, read values as borrows, give any subtree back as the exact
//! text it came from ([`Value::raw`]), write text ([`Writer`]), carry finished JSON around
//! ([`Json`]). What it does not: change documents in place, or guess. Protocol meaning lives
//! above.
//!
//! # Rules
//!
//! | input | rule |
//! |---|---|
//! | duplicate member names | RFC 8259 §4 lets them be: accepted, and [`Value::get`] gives the last one. With [`ParseLimits::unique_names`], which every protocol message is parsed with, refused as [`ErrorKind::DuplicateName`] at the second name: two readers of one message must not see two messages |
//! | escaped lone surrogate `\ud800` | refused, [`ErrorKind::LoneSurrogate`]: it has no UTF-8 form |
//! | `\u0000` in a string | accepted; Rust strings have no terminator |
//! | bytes that are not UTF-8 | refused, [`ErrorKind::Utf8`] at the first bad byte |
//! | byte order mark | refused by the parser, [`ErrorKind::ByteOrderMark`]; transports strip one first |
//! | integers in `i64` and `u64` | exact |
//! | every other number | text kept; read as the correctly rounded `f64`; `1e400` is a number whose `as_f64` is `None` |
//! | nesting deeper than [`ParseLimits::depth`] | refused, [`ErrorKind::Depth`] |
//! | more nodes than [`ParseLimits::nodes`] | refused, [`ErrorKind::Nodes`] |
//! | more bytes than [`ParseLimits::bytes`] | refused, [`ErrorKind::Bytes`] |
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

mod const_check;
mod duplicate_keys;
mod error;
mod float;
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

pub use error::{ErrorKind, ParseError};
pub use json::{Json, ToJson};
#[cfg(feature = "miniserde")]
pub use miniserde::{TypedError, from_value, to_writer};
#[cfg(feature = "schema")]
pub(crate) use node_ref::NodeRef;
pub use value::{Items, Kind, MemberValues, Members, NodeId, Value};
pub use writer::Writer;

use duplicate_keys::Name;
use parse::Node;

/// What a text may cost before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseLimits {
    /// Longest text, in bytes. Nothing beyond 512 MiB is accepted whatever this says.
    pub bytes: usize,
    /// Deepest nesting of arrays and objects; 0 allows scalars only.
    pub depth: u32,
    /// Most nodes: one for each value and one for each member name. Each costs 16 bytes.
    pub nodes: u32,
    /// Refuse an object that has two members of one name.
    pub unique_names: bool,
}

impl ParseLimits {
    /// Nothing refused but what the tables cannot address: 512 MiB.
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
    /// The text as it came.
    text: String,
    /// Empty means the document `null`, so that a new document needs no memory.
    nodes: Vec<Node>,
    /// Decoded forms of the strings that have escapes, one after another.
    decoded: String,
    /// Memory the check for duplicate names works in.
    names: Vec<Name>,
    /// What the text was held to. With unique names a search may stop at the first hit.
    limits: ParseLimits,
}

impl Doc {
    /// Parses one value with [`ParseLimits::default`].
    ///
    /// # Errors
    /// The first thing wrong with the text, and where.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Doc, ParseError> {
        let mut doc = Doc::default();
        doc.parse_again(text.as_ref(), &ParseLimits::default())?;
        Ok(doc)
    }

    /// Parses into this document, reusing its buffers.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where; the document is `null` then.
    pub fn parse_again(&mut self, text: &[u8], limits: &ParseLimits) -> Result<(), ParseError> {
        self.clear();
        parse::check_size(text, limits)?;
        if let Err(e) = parse::copy(text, &mut self.text) {
            self.text.clear();
            return Err(e);
        }
        self.build(limits)
    }

    /// Like [`Doc::parse_again`], but takes the bytes by swapping buffers with the caller, so that
    /// a large frame is not copied. `text` receives the document's old buffer, emptied, also when
    /// the text is refused.
    ///
    /// # Errors
    /// The first thing wrong with the text, and where; the document is `null` then.
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

    /// The value the document holds.
    pub fn root(&self) -> Value<'_> {
        Value::new(self, 0)
    }

    /// The value [`Value::id`] named on this very document; the root when there is no such node.
    pub fn at(&self, id: NodeId) -> Value<'_> {
        let node = id.index();
        Value::new(self, if (node as usize) < self.nodes.len() { node } else { 0 })
    }

    /// The text as it was parsed, whitespace around the value included.
    pub fn text(&self) -> &str {
        if self.nodes.is_empty() { "null" } else { &self.text }
    }

    /// Bytes of memory that its buffers take, used or not.
    pub fn memory(&self) -> usize {
        let tables = self.nodes.capacity() * size_of::<Node>() + self.names.capacity() * size_of::<Name>();
        self.text.capacity() + self.decoded.capacity() + tables
    }

    /// Gives memory back: every buffer larger than `bytes` is shrunk to its contents or to
    /// `bytes`, whichever is larger. For after an unusually large message.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.text.shrink_to(bytes);
        self.decoded.shrink_to(bytes);
        self.nodes.shrink_to(bytes / size_of::<Node>());
        self.names.clear();
        self.names.shrink_to(bytes / size_of::<Name>());
    }
}

impl std::fmt::Debug for Doc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Doc").field(&self.root()).finish()
    }
}
