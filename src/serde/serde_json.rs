//! Conversions between our JSON and `serde_json::Value` (feature `serde_json`).
//!
//! A `serde_json::Value` is a tree, which its own code frees by recursion. So conversion to one
//! stops at 128 levels, and conversion from one uses a stack on the heap.

use std::sync::LazyLock;

use serde_core::Deserialize as _;
use serde_json::map;
use serde_json::{Number, Value as Tree};

use crate::json::{Json, ToJson, Value, Writer};
use crate::record::Violation;

use super::deserialize::Deserializer;
use super::error::Error;

/// True if serde_json's feature `arbitrary_precision` is on, so that a number is a text there.
static NUMBERS_ARE_TEXT: LazyLock<bool> = LazyLock::new(|| "1e400".parse::<Number>().is_ok());

/// Returns `true` for a number that only a text represents: an integer beyond 64 bits, or a number
/// beyond the range of `f64`, if serde_json accepts numbers as text.
pub(super) fn keeps_text(number: Value<'_>) -> bool {
    let integer = !number.raw().contains(['.', 'e', 'E']);
    (integer || number.as_f64().is_none()) && *NUMBERS_ARE_TEXT
}

impl TryFrom<Value<'_>> for Tree {
    type Error = Box<Violation>;

    /// Converts a value. Fails at more than 128 levels, and at a number that serde_json cannot
    /// hold.
    fn try_from(value: Value<'_>) -> Result<Tree, Box<Violation>> {
        Tree::deserialize(Deserializer::new(value)).map_err(Error::into_violation)
    }
}

impl TryFrom<&Json> for Tree {
    type Error = Box<Violation>;

    /// As from a value of a document.
    fn try_from(json: &Json) -> Result<Tree, Box<Violation>> {
        json.to_doc().root().try_into()
    }
}

impl From<&Tree> for Json {
    fn from(tree: &Tree) -> Json {
        tree.to_json()
    }
}

impl From<Tree> for Json {
    fn from(tree: Tree) -> Json {
        tree.to_json()
    }
}

/// An array or object of which some values are written.
enum Open<'t> {
    Array(std::slice::Iter<'t, Tree>),
    Object(map::Iter<'t>),
}

impl ToJson for Tree {
    fn write_json(&self, w: &mut Writer) {
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut next = Some(self);
        loop {
            if let Some(tree) = next {
                open.extend(begin(w, tree));
            }
            next = match open.last_mut() {
                None => return,
                Some(Open::Array(items)) => items.next(),
                Some(Open::Object(members)) => members.next().map(|(name, value)| {
                    w.key(name);
                    value
                }),
            };
            if next.is_none() {
                match open.pop() {
                    Some(Open::Object(_)) => w.end_object(),
                    _ => w.end_array(),
                };
            }
        }
    }
}

/// Writes a scalar, or opens an array or object.
fn begin<'t>(w: &mut Writer, tree: &'t Tree) -> Option<Open<'t>> {
    match tree {
        Tree::Null => w.null(),
        Tree::Bool(b) => w.bool(*b),
        // Its text is a JSON number, with and without `arbitrary_precision`.
        Tree::Number(number) => w.raw(&number.to_string()),
        Tree::String(text) => w.string(text),
        Tree::Array(items) => {
            w.begin_array();
            return Some(Open::Array(items.iter()));
        }
        Tree::Object(members) => {
            w.begin_object();
            return Some(Open::Object(members.iter()));
        }
    };
    None
}
