//! Subschemas in the value of a keyword, and JSON Pointers to them.
//!
//! The schema compiler and the lint both walk schemas with [`nested`]. It follows the shape of a
//! keyword's value and skips anything that does not fit, so the caller decides what is an error.
//! Values under `const`, `enum`, `default` and `examples` are data, not schemas.

use super::keyword::Shape;
use crate::json::{Kind, NodeId, Value};
use crate::record::push_number;

/// Position of a subschema in the value of its keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'d> {
    /// The value itself.
    Value,
    /// A member of the value.
    Name(&'d str),
    /// An element of the value.
    Index(usize),
}

/// Calls `found` with each subschema in the value of a keyword, in the order of the text.
pub(crate) fn nested<'d>(shape: Shape, value: Value<'d>, mut found: impl FnMut(Step<'d>, Value<'d>)) {
    match (shape, value.kind()) {
        (Shape::Schemas | Shape::Items, Kind::Array) => {
            value.items().enumerate().for_each(|(i, item)| found(Step::Index(i), item));
        }
        (Shape::Schema | Shape::Items, _) => found(Step::Value, value),
        (Shape::SchemaMap | Shape::Dependencies, Kind::Object) => {
            for (name, inner) in value.members() {
                // In `dependencies` an array lists names.
                if shape == Shape::SchemaMap || inner.kind() != Kind::Array {
                    found(Step::Name(name), inner);
                }
            }
        }
        _ => {}
    }
}

/// The JSON Pointer from `root` to a value, or to the innermost value around it.
#[cold]
pub(crate) fn pointer_to(root: Value<'_>, target: NodeId) -> String {
    let mut pointer = String::with_capacity(if root.id() == target { 0 } else { 48 });
    let mut at = root;
    while at.id() != target {
        // Only the last child that starts at or before the target can contain it.
        let child = match at.kind() {
            Kind::Array => {
                let items = at.items().enumerate().take_while(|(_, value)| value.id() <= target);
                items.last().map(|(i, value)| (Token::Index(i), value))
            }
            _ => {
                let members = at.member_values().take_while(|(_, value)| value.id() <= target);
                members.last().map(|(name, value)| (Token::Name(name), value))
            }
        };
        let Some((token, value)) = child else { break };
        match token {
            Token::Index(i) => {
                pointer.push('/');
                push_number(&mut pointer, i);
            }
            Token::Name(name) => push_token(&mut pointer, name.as_str().unwrap_or_default()),
        }
        at = value;
    }
    pointer
}

/// One step of a JSON Pointer.
enum Token<'d> {
    Index(usize),
    Name(Value<'d>),
}

/// Appends one token to a JSON Pointer (RFC 6901 §3).
pub(crate) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    let mut rest = token;
    while let Some(at) = rest.bytes().position(|b| matches!(b, b'~' | b'/')) {
        let (plain, special) = rest.split_at(at);
        pointer.push_str(plain);
        pointer.push_str(if special.starts_with('~') { "~0" } else { "~1" });
        rest = special.get(1..).unwrap_or_default();
    }
    pointer.push_str(rest);
}
