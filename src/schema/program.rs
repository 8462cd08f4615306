//! Compiled form of a schema: flat tables that refer to each other by index.
//!
//! A node is a set of types and a range of operations. A subschema with only types is not a node:
//! its types are stored in place of the node index ([`Child`]). All texts are in one pool.
//! [`compile`](super::compile) fills the tables, [`validate`](super::validate) runs them.
//!
//! Invariants:
//! - Indices refer to tables of the same program.
//! - Every cycle of nodes contains an operation that descends into the value.

use crate::json::{NodeRef, Value};

use super::format::Format;
use super::pattern::Pattern;
use super::{canon, decimal};

/// The types of JSON values, as bits. `number` has a second bit for numbers that are not integers,
/// which is never used alone.
pub(super) mod types {
    pub(in crate::schema) const NULL: u8 = 1;
    pub(in crate::schema) const BOOL: u8 = 2;
    pub(in crate::schema) const INTEGER: u8 = 4;
    pub(in crate::schema) const NUMBER: u8 = 12;
    pub(in crate::schema) const STRING: u8 = 16;
    pub(in crate::schema) const ARRAY: u8 = 32;
    pub(in crate::schema) const OBJECT: u8 = 64;
    pub(in crate::schema) const ALL: u8 = 127;
}

/// The bits of a type name.
pub(super) fn type_named(name: &str) -> Option<u8> {
    Some(match name {
        "null" => types::NULL,
        "boolean" => types::BOOL,
        "integer" => types::INTEGER,
        "number" => types::NUMBER,
        "string" => types::STRING,
        "array" => types::ARRAY,
        "object" => types::OBJECT,
        _ => return None,
    })
}

/// The bits of the eight tags of [`NodeRef::tag`], one byte each.
const BITS: u64 = u64::from_le_bytes([
    types::NULL,
    types::BOOL,
    types::BOOL,
    types::NUMBER,
    types::STRING,
    types::STRING,
    types::ARRAY,
    types::OBJECT,
]);

/// The types that match by tag alone; of `integer` alone the number must be read.
#[inline(always)]
pub(super) fn types_in(node_ref: NodeRef<'_>, mask: u8) -> u8 {
    mask & (BITS >> (node_ref.tag() * 8)) as u8
}

/// Returns `true` if a value has one of these types.
#[inline(always)]
pub(super) fn is_of(node_ref: NodeRef<'_>, mask: u8) -> bool {
    match types_in(node_ref, mask) {
        0 => false,
        types::INTEGER => decimal::is_integer(node_ref.number().unwrap_or_default()),
        _ => true,
    }
}

/// A subschema: a node, or only types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Child(u32);

const TYPES_ONLY: u32 = 1 << 31;

impl Child {
    /// `true`.
    pub(super) const ANY: Child = Child(TYPES_ONLY | types::ALL as u32);
    /// `false`.
    pub(super) const NONE: Child = Child(TYPES_ONLY);
    /// An absent subschema.
    pub(super) const UNDECLARED: Child = Child(u32::MAX);

    pub(super) fn node(index: u32) -> Child {
        Child(index)
    }

    pub(super) fn types(mask: u8) -> Child {
        Child(TYPES_ONLY | u32::from(mask))
    }

    /// The types, if there is nothing else to check.
    #[inline]
    pub(super) fn as_types(self) -> Option<u8> {
        (self.0 & TYPES_ONLY != 0).then_some(self.0 as u8)
    }

    /// The node; meaningless if [`Child::as_types`] returns a value.
    #[inline]
    pub(super) fn index(self) -> u32 {
        self.0
    }
}

/// A range of entries of a table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Span {
    #[inline]
    pub(super) fn of<T>(self, table: &[T]) -> &[T] {
        let start = self.start as usize;
        table.get(start..start + self.len as usize).unwrap_or_default()
    }

    #[inline]
    pub(super) fn bytes(self, pool: &[u8]) -> &[u8] {
        let start = self.start as usize;
        pool.get(start..start + self.len as usize).unwrap_or_default()
    }

    /// Returns `true` if the range is this string.
    #[inline(never)]
    pub(super) fn is(self, program: &Program, text: Value<'_>) -> bool {
        let bytes = self.bytes(program.pool.as_bytes());
        text.node_ref().string().is_some_and(|text| canon::same(bytes, text))
    }

    /// The text between the quotes.
    #[inline]
    pub(super) fn within(self) -> Span {
        Span { start: self.start + 1, len: self.len.saturating_sub(2) }
    }

    /// Out of line: the bounds checks are many instructions, and valid values rarely need it.
    #[inline(never)]
    pub(super) fn text(self, pool: &str) -> &str {
        let start = self.start as usize;
        pool.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// The types and operations of one subschema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The first operation.
    pub(super) ops: u32,
    pub(super) count: u16,
    pub(super) types: u8,
    pub(super) flags: u8,
}

/// The node has several paths to it, so its verdicts are cached.
pub(super) const SHARED: u8 = 1;
/// The node has `unevaluatedItems` or `unevaluatedProperties`.
pub(super) const TRACKS: u8 = 2;
/// The node is only a reference to a shared node; [`Node::ops`] is the index of that node.
pub(super) const FORWARDS: u8 = 4;
/// The node has no subschemas: its operations read the value alone.
pub(super) const LEAF: u8 = 8;
/// The node is an object with one operation on its members; [`Node::ops`] is an index into the
/// objects.
pub(super) const MEMBERS: u8 = 16;
/// The node is an array with one operation on its elements; [`Node::ops`] is an index into the
/// arrays.
pub(super) const ELEMENTS: u8 = 32;

/// One check. Checks for strings, numbers, arrays and objects accept all other types.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// minLength, maxLength; `u32::MAX` without maxLength.
    Length {
        min: u32,
        max: u32,
    },
    /// minItems, maxItems, without schemas for the elements.
    Items {
        min: u32,
        max: u32,
    },
    /// minProperties, maxProperties.
    Members {
        min: u32,
        max: u32,
    },
    /// Index into the bounds.
    Bounds(u32),
    /// The text of the divisor.
    Multiple(Span),
    /// Index into the patterns.
    Pattern(u32),
    Format(Format),
    /// A range of words: an enum of strings, sorted if long.
    Words(Span),
    /// A const string, in quotes.
    Word(Span),
    /// Index into the enums.
    Enum(u32),
    /// uniqueItems
    Unique,
    /// Index into the objects.
    Object(u32),
    /// Index into the arrays.
    Array(u32),
    /// Index into the contains.
    Contains(u32),
    /// propertyNames
    Names(Child),
    /// A range of the dependents.
    Dependents(Span),
    /// $ref, $dynamicRef: the target and an index into the references.
    Ref(Child, u32),
    /// Ranges of the children.
    AllOf(Span),
    AnyOf(Span),
    OneOf(Span),
    Not(Child),
    /// A range of three children: if, then, else.
    If(Span),
    UnevaluatedItems(Child),
    UnevaluatedProperties(Child),
}

/// minimum, exclusiveMinimum, maximum, exclusiveMaximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The integers between the bounds, if they fit 64 bits.
    pub(super) low: i64,
    pub(super) high: i64,
    /// The bounds as written, in the order of [`BOUND_KEYWORDS`]; empty if absent.
    pub(super) texts: [Span; 4],
}

pub(super) const BOUND_KEYWORDS: [&str; 4] = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];

/// properties, required, additionalProperties, patternProperties.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object {
    /// A range of the properties; sorted by name if there are more than [`MAX_LINEAR_TABLE`].
    pub(super) properties: Span,
    /// A range of the children; each belongs to the pattern at the same position after
    /// `first_pattern`.
    pub(super) patterned: Span,
    pub(super) first_pattern: u32,
    /// Number of properties with a slot among the required ones.
    pub(super) required: u32,
    /// Schema for members that neither `properties` nor `patternProperties` name.
    pub(super) additional: Child,
    /// True if `additionalProperties` is present, for `unevaluatedProperties`.
    pub(super) has_additional: bool,
    /// The marks of all names, and of the required ones; see [`mark()`].
    pub(super) known: u64,
    pub(super) needed: u64,
    /// The bits of the required names with a bit; see [`bits()`].
    pub(super) wanted: u64,
}

/// One of 64 bits for a name, from its first byte and its length. Different names may share a bit,
/// so only an absent mark is conclusive.
#[inline(always)]
pub(super) fn mark((first, len): (u8, usize)) -> u64 {
    1 << ((usize::from(first) + len.wrapping_mul(9)) & 63)
}

/// Longer tables are sorted and searched by bisection.
pub(super) const MAX_LINEAR_TABLE: usize = 12;

/// A name in an object's table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Property {
    /// The first eight bytes after the opening quote of this name in a text: the name and its
    /// closing quote. [`NOWHERE`] for a name with escapes.
    head: u64,
    pub(super) name: Span,
    /// [`Child::UNDECLARED`] for a required name without declaration.
    pub(super) child: Child,
    /// Its slot among the required names, or [`BEYOND`] or [`OPTIONAL`].
    pub(super) required: u8,
    /// Number of bits of the head after name and quote.
    unused: u8,
}

/// Occurs in no text, because it is not UTF-8.
const NOWHERE: u64 = u64::MAX;

/// The slot of optional names.
pub(super) const OPTIONAL: u8 = 63;
/// The slot of required names without a bit.
pub(super) const BEYOND: u8 = 62;

/// The slot of the required name with this number.
pub(super) fn place(number: usize) -> u8 {
    number.min(BEYOND.into()) as u8
}

/// The bits of this many required names; all of them up to [`BEYOND`].
pub(super) fn bits(required: u32) -> u64 {
    (1 << required.min(BEYOND.into())) - 1
}

impl Object {
    /// Returns `true` if every object with names of these marks is invalid.
    pub(super) fn refuses(&self, marks: u64) -> bool {
        let closed = self.additional == Child::NONE && self.patterned.len == 0;
        self.needed & !marks != 0 || closed && marks & !self.known != 0
    }
}

impl Property {
    /// The entry of `text`, which is at `name` in the pool.
    pub(super) fn new(text: &str, name: Span, child: Child, required: u8) -> Property {
        let mut word = [0; 8];
        let quoted = text.bytes().chain([b'"']);
        word.iter_mut().zip(quoted).for_each(|(to, from)| *to = from);
        let written = !text.contains(['"', '\\']);
        let head = if written { u64::from_le_bytes(word) } else { NOWHERE };
        let unused = word.len().saturating_sub(text.len() + 1) * 8;
        Property { head, name, child, required, unused: unused as u8 }
    }

    /// Returns `true` if the text continues with this name, given its next eight bytes.
    #[inline(always)]
    pub(super) fn is_ahead(&self, program: &Program, name: NodeRef<'_>, ahead: u64) -> bool {
        (ahead ^ self.head) << (self.unused & 63) == 0
            && match self.name.len as usize {
                0..8 => true,
                len @ 8..=16 if name.width() == len + 2 => {
                    // The rest of the name; it overlaps with the first bytes.
                    let end = self.name.start as usize + len;
                    program.pool.as_bytes().get(end - 8..end).and_then(<[u8]>::first_chunk) == name.tail(len)
                }
                _ => self.name.is(program, name.value()),
            }
    }

    /// Its bit among the required names.
    #[inline]
    pub(super) fn bit(&self) -> u64 {
        1 << (self.required & 63)
    }

    pub(super) fn is_declared(&self) -> bool {
        self.child != Child::UNDECLARED
    }
}

/// prefixItems and items, minItems and maxItems.
#[derive(Clone, Copy, Debug)]
pub(super) struct Array {
    pub(super) min: u32,
    pub(super) max: u32,
    /// A range of the children.
    pub(super) prefix: Span,
    pub(super) rest: Option<Child>,
    /// True if the keywords are `items` and `additionalItems` of draft-07.
    pub(super) is_old: bool,
}

impl Array {
    /// The keyword of `rest`.
    pub(super) fn rest_keyword(&self) -> &'static str {
        if self.is_old { "additionalItems" } else { "items" }
    }

    /// The keyword of `prefix`.
    pub(super) fn prefix_keyword(&self) -> &'static str {
        if self.is_old { "items" } else { "prefixItems" }
    }
}

/// contains, minContains, maxContains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contains {
    pub(super) child: Child,
    pub(super) min: u32,
    pub(super) max: u32,
    /// True if matching elements count as evaluated.
    pub(super) evaluates: bool,
    pub(super) has_min: bool,
}

/// A name whose presence has requirements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dependent {
    pub(super) name: Span,
    pub(super) keyword: &'static str,
    /// A range of the words.
    pub(super) required: Span,
    pub(super) schema: Option<Child>,
}

/// An enum or a const with values other than strings.
#[derive(Debug)]
pub(super) struct Enum {
    /// A range of the words: the strings, sorted if long.
    pub(super) words: Span,
    pub(super) null: bool,
    /// `false`, `true`.
    pub(super) booleans: [bool; 2],
    /// A range of the words: the numbers, sorted by value.
    pub(super) numbers: Span,
    /// Arrays and objects in canonical form, sorted.
    pub(super) forms: Box<[Box<[u8]>]>,
    /// The values as written.
    pub(super) text: Span,
    pub(super) keyword: &'static str,
}

/// Target of a reference, for output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) keyword: &'static str,
    /// The target's canonical URI.
    pub(super) target: Span,
}

/// A node that is only a reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forward {
    /// The node.
    pub(super) node: u32,
    /// The reference, as an index into the operations.
    pub(super) op: u32,
}

/// A compiled schema.
#[derive(Default)]
pub(super) struct Program {
    pub(super) root: Option<Child>,
    /// The base URI of the schema, for output.
    pub(super) base: Span,
    pub(super) nodes: Box<[Node]>,
    pub(super) ops: Box<[Op]>,
    pub(super) children: Box<[Child]>,
    pub(super) properties: Box<[Property]>,
    pub(super) objects: Box<[Object]>,
    pub(super) arrays: Box<[Array]>,
    pub(super) contains: Box<[Contains]>,
    pub(super) bounds: Box<[Bounds]>,
    pub(super) dependents: Box<[Dependent]>,
    pub(super) enums: Box<[Enum]>,
    pub(super) words: Box<[Span]>,
    pub(super) references: Box<[Reference]>,
    /// By node.
    pub(super) forwards: Box<[Forward]>,
    /// Each with its source text.
    pub(super) patterns: Box<[(Pattern, Span)]>,
    pub(super) pool: Box<str>,
}

impl Program {
    #[inline]
    pub(super) fn text(&self, span: Span) -> &str {
        span.text(&self.pool)
    }

    /// Returns the source text of a pattern.
    pub(super) fn pattern_text(&self, index: u32) -> &str {
        self.patterns.get(index as usize).map_or("", |(_, text)| self.text(*text))
    }
}

const _: () = {
    assert!(size_of::<Node>() == 8);
    assert!(size_of::<Op>() == 12);
    assert!(size_of::<Property>() == 24);
};
