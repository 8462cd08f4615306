//! A value with its node, for code that reads several properties of every value.
//!
//! A [`Value`] looks up its node for each property; a [`NodeRef`] holds it. It offers what
//! the schema validator needs.
//!
//! Invariant: the node is the one at the index.

use super::parse::{NUMBER, Node, STRING};
use super::{Doc, Value};

/// A value and its node.
#[derive(Clone, Copy)]
pub(crate) struct NodeRef<'d> {
    doc: &'d Doc,
    at: u32,
    node: Node,
}

impl<'d> NodeRef<'d> {
    #[inline(always)]
    pub(super) fn new(doc: &'d Doc, at: u32, node: Node) -> NodeRef<'d> {
        NodeRef { doc, at, node }
    }

    /// The value.
    #[inline(always)]
    pub(crate) fn value(self) -> Value<'d> {
        Value::new(self.doc, self.at)
    }

    /// Kind of the value as a number below 8: null, false, true, number, string, string with
    /// escapes, array, object.
    #[inline(always)]
    pub(crate) fn tag(self) -> u32 {
        self.node.tag()
    }

    /// Length of its text in bytes.
    #[inline(always)]
    pub(crate) fn width(self) -> usize {
        self.node.end.wrapping_sub(self.node.start) as usize
    }

    /// Number of elements or members; 0 for other values.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        if self.node.is_container() { self.node.count() as usize } else { 0 }
    }

    /// The eight bytes after the opening quote of a string, within the string or not; `None` near
    /// the end of the text.
    #[inline(always)]
    pub(crate) fn ahead(self) -> Option<u64> {
        let start = self.node.start as usize + 1;
        let word = self.doc.text.as_bytes().get(start..start + 8)?;
        word.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// The first byte of the string (0 if empty) and its length; zeros for other values.
    #[inline(always)]
    pub(crate) fn brief(self) -> (u8, usize) {
        match self.doc.text.as_bytes().get(self.node.start as usize + 1) {
            Some(first) if self.node.tag() == STRING && self.width() > 2 => (*first, self.width() - 2),
            _ => decoded_brief(self.value()),
        }
    }

    /// The last eight of the first `len` bytes of a string as written. From its start, one bounds
    /// check suffices instead of two.
    #[inline(always)]
    pub(crate) fn tail(self, len: usize) -> Option<&'d [u8; 8]> {
        let start = self.node.start as usize + 1 + len.saturating_sub(8);
        self.doc.text.as_bytes().get(start..start + 8)?.first_chunk()
    }

    /// The number of bytes between the quotes of a string without escapes.
    #[inline(always)]
    pub(crate) fn written(self) -> Option<usize> {
        (self.node.tag() == STRING).then(|| self.width().wrapping_sub(2))
    }

    /// The decoded bytes of the string; `None` for other values.
    #[inline(always)]
    pub(crate) fn string(self) -> Option<&'d [u8]> {
        if self.node.tag() != STRING {
            return decoded(self.value());
        }
        self.bytes(1, 2)
    }

    /// The bytes of the number as written; `None` for other values.
    #[inline(always)]
    pub(crate) fn number(self) -> Option<&'d [u8]> {
        match self.node.tag() {
            NUMBER => self.bytes(0, 0),
            _ => None,
        }
    }

    /// Its text from a byte on, `less` bytes shorter. A start and a length need one bounds check,
    /// two ends need two.
    #[inline(always)]
    fn bytes(self, from: usize, less: u32) -> Option<&'d [u8]> {
        let start = self.node.start as usize + from;
        let len = self.node.end.wrapping_sub(self.node.start).wrapping_sub(less) as usize;
        self.doc.text.as_bytes().get(start..start.saturating_add(len))
    }

    /// The children of an array or object; for an object, names and values in turn.
    #[inline(always)]
    pub(crate) fn inside(self) -> NodeRefs<'d> {
        let first = self.at as usize + 1;
        let len = if self.node.is_container() { self.node.link.wrapping_sub(self.at + 1) } else { 0 };
        let rest = self.doc.nodes.get(first..first.saturating_add(len as usize)).unwrap_or_default();
        NodeRefs { doc: self.doc, rest, at: self.at + 1 }
    }
}

#[inline(never)]
fn decoded(value: Value<'_>) -> Option<&[u8]> {
    value.as_str().map(str::as_bytes)
}

#[inline(never)]
fn decoded_brief(value: Value<'_>) -> (u8, usize) {
    let text = value.as_str().unwrap_or_default().as_bytes();
    (text.first().copied().unwrap_or(0), text.len())
}

/// The children of a value, from [`NodeRef::inside`].
pub(crate) struct NodeRefs<'d> {
    doc: &'d Doc,
    /// The remaining nodes of the value.
    rest: &'d [Node],
    /// Index of the first remaining node.
    at: u32,
}

impl<'d> NodeRefs<'d> {
    /// The next member of an object: name and value.
    #[inline(always)]
    pub(crate) fn next_member(&mut self) -> Option<(NodeRef<'d>, NodeRef<'d>)> {
        let [name, value, rest @ ..] = self.rest else { return None };
        let name = NodeRef::new(self.doc, self.at, *name);
        let value = NodeRef::new(self.doc, self.at + 1, *value);
        self.rest = rest;
        self.at += 2;
        self.skip_inside(value);
        Some((name, value))
    }

    /// Skips the content of a container.
    #[inline(always)]
    fn skip_inside(&mut self, node_ref: NodeRef<'d>) {
        if node_ref.node.is_container() {
            let nodes = node_ref.node.link.wrapping_sub(self.at);
            self.rest = self.rest.get(nodes as usize..).unwrap_or_default();
            self.at += nodes;
        }
    }
}

impl<'d> Iterator for NodeRefs<'d> {
    type Item = NodeRef<'d>;

    #[inline(always)]
    fn next(&mut self) -> Option<NodeRef<'d>> {
        let [first, rest @ ..] = self.rest else { return None };
        let node_ref = NodeRef::new(self.doc, self.at, *first);
        self.rest = rest;
        self.at += 1;
        self.skip_inside(node_ref);
        Some(node_ref)
    }
}
