//! Read access to a document: copyable cursors and iterators.
//!
//! The document never changes and is never copied. Reading a value as another type returns `None`;
//! nothing is converted.
//!
//! Invariants: a cursor refers to a node of its own document, or to the only value of an empty one;
//! no method recurses or panics.

use std::fmt;

use super::json::Json;
#[cfg(feature = "schema")]
use super::node_ref::NodeRef;
use super::parse::{DECODED, FALSE, NULL, NUMBER, Node, OBJECT, STRING, TRUE};
use super::{Doc, Kind};

/// Id of a value within its document, for use where a borrow is not possible.
///
/// ```
/// use tinymcp::json::{Doc, NodeId};
///
/// /// A document and one of its values, without a lifetime.
/// struct Config { doc: Doc, servers: NodeId }
///
/// let doc = Doc::parse(r#"{"servers": ["a", "b"]}"#)?;
/// let servers = doc.root().get("servers").expect("the member exists").id();
/// let config = Config { doc, servers };
/// assert_eq!(config.doc.at(config.servers).len(), 2);
/// # Ok::<(), tinymcp::json::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The root value.
    pub const ROOT: NodeId = NodeId(0);

    #[cfg(feature = "schema")]
    pub(crate) fn new(index: u32) -> NodeId {
        NodeId(index)
    }

    pub(crate) fn index(self) -> u32 {
        self.0
    }
}

/// A cursor on one value of a document.
///
/// ```
/// use tinymcp::json::{Doc, Kind};
///
/// let doc = Doc::parse(r#"{"pins": [4, 17], "name": "board", "note": null}"#)?;
/// let root = doc.root();
/// let pins = root.get("pins").expect("the member exists");
/// let pins: Vec<u64> = pins.items().filter_map(|pin| pin.as_u64()).collect();
/// assert_eq!(pins, [4, 17]);
/// let kinds: Vec<Kind> = root.members().map(|(_, value)| value.kind()).collect();
/// assert_eq!(kinds, [Kind::Array, Kind::String, Kind::Null]);
/// assert_eq!(root.pointer("/pins/1").map(|pin| pin.raw()), Some("17"));
/// # Ok::<(), tinymcp::json::ParseError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Value<'d> {
    doc: &'d Doc,
    node: u32,
}

impl<'d> Value<'d> {
    #[inline]
    pub(super) fn new(doc: &'d Doc, node: u32) -> Value<'d> {
        Value { doc, node }
    }

    #[inline]
    fn node(self) -> Node {
        self.doc.nodes.get(self.node as usize).copied().unwrap_or(Node::NULL)
    }

    /// The kind of the value.
    #[inline]
    pub fn kind(self) -> Kind {
        self.node().kind()
    }

    /// Returns `true` if this is `null`.
    pub fn is_null(self) -> bool {
        self.node().tag() == NULL
    }

    /// The boolean, if it is one.
    pub fn as_bool(self) -> Option<bool> {
        match self.node().tag() {
            TRUE => Some(true),
            FALSE => Some(false),
            _ => None,
        }
    }

    /// The decoded string, if it is one.
    #[inline]
    pub fn as_str(self) -> Option<&'d str> {
        let node = self.node();
        match node.tag() {
            STRING | DECODED => Some(node.string(&self.doc.text, &self.doc.decoded)),
            _ => None,
        }
    }

    /// The decoded bytes of a string; `None` for other values. Cheaper than [`Value::as_str`],
    /// which finds character boundaries.
    #[inline]
    pub(crate) fn string_bytes(self) -> &'d [u8] {
        self.node().string_bytes(self.doc)
    }

    /// The members of an object with the bytes of their names; empty for other values. Cheaper than
    /// [`Value::members`], like [`Value::string_bytes`].
    #[inline]
    pub(crate) fn named(self) -> Named<'d> {
        Named(self.member_values())
    }

    /// The value with its node, for code that reads several properties.
    #[cfg(feature = "schema")]
    #[inline]
    pub(crate) fn node_ref(self) -> NodeRef<'d> {
        NodeRef::new(self.doc, self.node, self.node())
    }

    /// Returns `true` if this is a number without fraction and exponent in the range of `i64` or
    /// `u64`.
    pub(crate) fn is_integer(self) -> bool {
        let node = self.node();
        // Up to 18 characters, every integer is in range.
        node.tag() == NUMBER
            && node.count() > 0
            && (node.end - node.start <= 18 || self.as_i64().is_some() || self.as_u64().is_some())
    }

    /// The integer, if the number has no fraction and exponent and is in range.
    pub fn as_i64(self) -> Option<i64> {
        self.as_number()?.parse().ok()
    }

    /// The integer, if the number has no sign, fraction and exponent and is in range.
    pub fn as_u64(self) -> Option<u64> {
        self.as_number()?.parse().ok()
    }

    /// The number, correctly rounded. `None` for other values, and beyond the range of `f64`.
    pub fn as_f64(self) -> Option<f64> {
        super::float::read(self.as_number()?)
    }

    /// The number as written.
    #[inline]
    pub fn as_number(self) -> Option<&'d str> {
        (self.node().tag() == NUMBER).then(|| self.raw())
    }

    /// The number of elements or members; 0 for other values.
    #[inline]
    pub fn len(self) -> usize {
        let node = self.node();
        if node.is_container() { node.count() as usize } else { 0 }
    }

    /// Returns `true` if [`Value::len`] is 0.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the member with this name, the last one if several have it. Names are compared with
    /// their escapes decoded.
    pub fn get(self, name: &str) -> Option<Value<'d>> {
        self.find(|arena, start, len| {
            // Most names differ in length.
            len == name.len() && arena.as_bytes().get(start..start + len) == Some(name.as_bytes())
        })
    }

    fn find(self, same: impl Fn(&str, usize, usize) -> bool) -> Option<Value<'d>> {
        let mut last = None;
        for (name, value) in self.member_values() {
            let (arena, start, len) = name.node().spelling(&self.doc.text, &self.doc.decoded);
            if same(arena, start, len) {
                if self.doc.limits.unique_names {
                    return Some(value);
                }
                last = Some(value);
            }
        }
        last
    }

    /// The element at this index.
    pub fn index(self, i: usize) -> Option<Value<'d>> {
        let node = self.node();
        let mut items = self.items();
        // Without containers among them, each element takes one node.
        if node.link == self.node + 1 + node.count() && i < items.len() {
            return Some(Value::new(self.doc, self.node + 1 + i as u32));
        }
        items.nth(i)
    }

    /// The elements of an array; empty for other values.
    pub fn items(self) -> Items<'d> {
        let node = self.node();
        Items {
            doc: self.doc,
            next: self.node + 1,
            left: if node.kind() == Kind::Array { node.count() } else { 0 },
        }
    }

    /// The members of an object in the order of the text; empty for other values.
    pub fn members(self) -> Members<'d> {
        Members(self.member_values())
    }

    /// Like [`Value::members`], with each name as a value, for its raw text and its offset.
    pub fn member_values(self) -> MemberValues<'d> {
        let node = self.node();
        MemberValues {
            doc: self.doc,
            next: self.node + 1,
            left: if node.tag() == OBJECT { node.count() } else { 0 },
        }
    }

    /// Resolves a JSON Pointer (RFC 6901) from this value; `""` is the value itself.
    pub fn pointer(self, pointer: &str) -> Option<Value<'d>> {
        let mut at = self;
        if pointer.is_empty() {
            return Some(at);
        }
        for token in pointer.strip_prefix('/')?.split('/') {
            at = match at.kind() {
                Kind::Object => at.find(|arena, start, len| {
                    token_names(token, arena.get(start..start + len).unwrap_or_default())
                })?,
                Kind::Array => at.index(array_index(token)?)?,
                _ => return None,
            };
        }
        Some(at)
    }

    /// The exact text of this value.
    pub fn raw(self) -> &'d str {
        let node = self.node();
        self.doc.text().get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    /// Offset of [`Value::raw`] in [`Doc::text`], in bytes.
    pub fn offset(self) -> usize {
        self.node().start as usize
    }

    /// The id of this value for [`Doc::at`] of the same document.
    pub fn id(self) -> NodeId {
        NodeId(self.node)
    }

    /// A copy of this value's text.
    pub fn to_json(self) -> Json {
        Json::trusted(self.raw().to_owned())
    }

    /// Index of the node after this value and its content.
    #[inline]
    fn behind(self) -> u32 {
        self.node().behind(self.node)
    }
}

/// Returns `true` if a pointer token, with `~0` for `~` and `~1` for `/`, equals this name.
fn token_names(token: &str, name: &str) -> bool {
    let mut token = token.bytes();
    let mut name = name.bytes();
    loop {
        let wanted = match token.next() {
            None => return name.next().is_none(),
            Some(b'~') => match token.next() {
                Some(b'0') => b'~',
                Some(b'1') => b'/',
                _ => return false,
            },
            Some(plain) => plain,
        };
        if name.next() != Some(wanted) {
            return false;
        }
    }
}

/// The array index of a pointer token: digits without a leading zero.
fn array_index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|b| b.is_ascii_digit());
    if !plain || token.len() > 1 && token.starts_with('0') {
        return None;
    }
    token.parse().ok()
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw())
    }
}

impl fmt::Debug for Value<'_> {
    /// The text; truncated if long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_BYTES: usize = 200;
        let raw = self.raw();
        if raw.len() <= MAX_BYTES {
            return f.write_str(raw);
        }
        let mut end = MAX_BYTES;
        while !raw.is_char_boundary(end) {
            end -= 1;
        }
        write!(f, "{}… ({} bytes)", &raw[..end], raw.len())
    }
}

/// The elements of an array, from [`Value::items`]. See [`Value`].
#[derive(Clone)]
pub struct Items<'d> {
    doc: &'d Doc,
    next: u32,
    left: u32,
}

impl<'d> Iterator for Items<'d> {
    type Item = Value<'d>;

    #[inline]
    fn next(&mut self) -> Option<Value<'d>> {
        self.left = self.left.checked_sub(1)?;
        let value = Value::new(self.doc, self.next);
        self.next = value.behind();
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The members of an object with their names as values, from [`Value::member_values`].
///
/// See [`Value`]; [`Value::members`] returns the names as text.
#[derive(Clone)]
pub struct MemberValues<'d> {
    doc: &'d Doc,
    next: u32,
    left: u32,
}

impl<'d> Iterator for MemberValues<'d> {
    type Item = (Value<'d>, Value<'d>);

    #[inline]
    fn next(&mut self) -> Option<(Value<'d>, Value<'d>)> {
        self.left = self.left.checked_sub(1)?;
        let name = Value::new(self.doc, self.next);
        let value = Value::new(self.doc, self.next + 1);
        self.next = value.behind();
        Some((name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for MemberValues<'_> {}

/// The members of an object with the bytes of their names, from [`Value::named`].
pub(crate) struct Named<'d>(MemberValues<'d>);

impl<'d> Iterator for Named<'d> {
    type Item = (&'d [u8], Value<'d>);

    #[inline]
    fn next(&mut self) -> Option<(&'d [u8], Value<'d>)> {
        let MemberValues { doc, next, left } = &mut self.0;
        *left = left.checked_sub(1)?;
        let [name, value] = doc.nodes.get(*next as usize..)?.first_chunk()?;
        let member = (name.string_bytes(doc), Value::new(doc, *next + 1));
        *next = value.behind(*next + 1);
        Some(member)
    }
}

/// The members of an object, from [`Value::members`]. See [`Value`].
#[derive(Clone)]
pub struct Members<'d>(MemberValues<'d>);

impl<'d> Iterator for Members<'d> {
    type Item = (&'d str, Value<'d>);

    #[inline]
    fn next(&mut self) -> Option<(&'d str, Value<'d>)> {
        let (name, value) = self.0.next()?;
        Some((name.as_str().unwrap_or_default(), value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Members<'_> {}

impl fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl fmt::Debug for MemberValues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}
