//! Reading with the node at hand, for code that asks several things of every value it passes.
//!
//! A [`Value`] looks its node up at each question; a [`NodeRef`] did so once. It reads and nothing
//! else, and only what the schema validator asks for.
//!
//! Invariant: a node_ref holds the node of its own place, so both always tell of the same value.

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

    /// The value itself.
    #[inline(always)]
    pub(crate) fn value(self) -> Value<'d> {
        Value::new(self.doc, self.at)
    }

    /// What it is, as a number below 8: null, false, true, number, string, string with escapes,
    /// array, object.
    #[inline(always)]
    pub(crate) fn tag(self) -> u32 {
        self.node.tag()
    }

    /// Bytes of its text.
    #[inline(always)]
    pub(crate) fn width(self) -> usize {
        self.node.end.wrapping_sub(self.node.start) as usize
    }

    /// How many elements or members; 0 for anything that is neither array nor object.
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        if self.node.is_container() { self.node.count() as usize } else { 0 }
    }

    /// The eight bytes behind the opening quote of a string as it is written, whatever they are
    /// part of; nothing near the end of the text.
    #[inline(always)]
    pub(crate) fn ahead(self) -> Option<u64> {
        let start = self.node.start as usize + 1;
        let word = self.doc.text.as_bytes().get(start..start + 8)?;
        word.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// The first byte of the string, 0 when it has none, and how many there are; nothing for
    /// anything else.
    #[inline(always)]
    pub(crate) fn brief(self) -> (u8, usize) {
        match self.doc.text.as_bytes().get(self.node.start as usize + 1) {
            Some(first) if self.node.tag() == STRING && self.width() > 2 => (*first, self.width() - 2),
            _ => decoded_brief(self.value()),
        }
    }

    /// The last eight of the first `len` bytes of a string as it is written; from its start, since
    /// that takes one check of bounds where counting from its end takes two.
    #[inline(always)]
    pub(crate) fn tail(self, len: usize) -> Option<&'d [u8; 8]> {
        let start = self.node.start as usize + 1 + len.saturating_sub(8);
        self.doc.text.as_bytes().get(start..start + 8)?.first_chunk()
    }

    /// How many bytes are between the quotes of a string that is written without escapes.
    #[inline(always)]
    pub(crate) fn written(self) -> Option<usize> {
        (self.node.tag() == STRING).then(|| self.width().wrapping_sub(2))
    }

    /// The bytes of the string with its escapes resolved; `None` for anything else.
    #[inline(always)]
    pub(crate) fn string(self) -> Option<&'d [u8]> {
        if self.node.tag() != STRING {
            return decoded(self.value());
        }
        self.bytes(1, 2)
    }

    /// The bytes of the number as it is written; `None` for anything else.
    #[inline(always)]
    pub(crate) fn number(self) -> Option<&'d [u8]> {
        match self.node.tag() {
            NUMBER => self.bytes(0, 0),
            _ => None,
        }
    }

    /// Its text from a byte on, so many bytes less. A start and a length take one check where two
    /// ends take two.
    #[inline(always)]
    fn bytes(self, from: usize, less: u32) -> Option<&'d [u8]> {
        let start = self.node.start as usize + from;
        let len = self.node.end.wrapping_sub(self.node.start).wrapping_sub(less) as usize;
        self.doc.text.as_bytes().get(start..start.saturating_add(len))
    }

    /// What an array or object holds, one after another; of an object, names and values in turn.
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

/// The children of a node_ref, from [`NodeRef::inside`].
pub(crate) struct NodeRefs<'d> {
    doc: &'d Doc,
    /// What is left of the nodes of all that is inside.
    rest: &'d [Node],
    /// The number of the first of them.
    at: u32,
}

impl<'d> NodeRefs<'d> {
    /// The next member of an object: its name and its value.
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

    /// Goes on behind all that is in a container whose children come next.
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
