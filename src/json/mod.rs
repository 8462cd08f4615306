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

