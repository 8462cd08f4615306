//! First pass over a schema document: checks the shapes of keywords and indexes resources and
//! anchors.
//!
//! Every subschema is visited once. The value of each keyword must have its shape, as in the
//! metaschema. Resources (`$id`), anchors and dynamic anchors are indexed for
//! [`resolve`](super::resolve). References are collected but not followed.
//!
//! Invariants: a list of places to visit replaces recursion; the number of places is limited.

use std::collections::BTreeMap;

use crate::json::{Kind, NodeId, Value};
use crate::record::push_number;

use super::keyword::{Keyword, Rules, Shape};
use super::{SchemaLimits, subschemas, uri};

/// A value of one of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) document: u32,
    pub(super) node: NodeId,
}

/// Map from a place to its resource.
#[derive(Default)]
pub(super) struct Places {
    documents: Vec<Vec<u32>>,
    count: usize,
}

impl Places {
    pub(super) fn get(&self, place: Place) -> Option<u32> {
        let numbers = self.documents.get(place.document as usize)?;
        numbers.get(place.node.index() as usize).copied().filter(|n| *n != u32::MAX)
    }

    pub(super) fn insert(&mut self, place: Place, number: u32) {
        let (document, node) = (place.document as usize, place.node.index() as usize);
        if self.documents.len() <= document {
            self.documents.resize_with(document + 1, Vec::new);
        }
        let Some(numbers) = self.documents.get_mut(document) else { return };
        if numbers.len() <= node {
            numbers.resize(node + 1, u32::MAX);
        }
        if let Some(slot) = numbers.get_mut(node) {
            self.count += usize::from(*slot == u32::MAX);
            *slot = number;
        }
    }
}

/// Map from keys to numbers. A key consists of numbers and a text; see [`key`].
#[derive(Default)]
pub(super) struct KeyMap(BTreeMap<Vec<u8>, u64>);

/// Encodes a key. Keys with equally many numbers differ if any number or the text differs.
pub(super) fn key(numbers: &[u32], text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 * numbers.len() + text.len());
    for number in numbers {
        key.extend_from_slice(&number.to_le_bytes());
    }
    key.extend_from_slice(text.as_bytes());
    key
}

impl KeyMap {
    /// The names of an object's members.
    pub(super) fn of_members(object: Value<'_>) -> KeyMap {
        let mut names = KeyMap::default();
        for (name, _) in object.members() {
            names.enter(name.as_bytes(), 0);
        }
        names
    }

    #[inline(never)]
    pub(super) fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).copied()
    }

    /// Inserts a key with this number. Returns the number of the key, which is the old one if it
    /// had one.
    #[inline(never)]
    pub(super) fn enter(&mut self, key: &[u8], number: u64) -> u64 {
        *self.0.entry(key.to_vec()).or_insert(number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A schema resource: a document, or a subschema with `$id`.
pub(super) struct Resource {
    pub(super) base: String,
    pub(super) root: Place,
    pub(super) rules: Rules,
    /// The dynamic anchors of the resource.
    pub(super) dynamic: Vec<(String, Place)>,
}

/// Key of `$recursiveAnchor` in the dynamic anchors. Anchors are never empty, so it is unique.
pub(super) const RECURSIVE: &str = "";

/// An error in a schema, with its place. It is boxed, so that results with it fit in registers.
#[derive(Clone)]
pub(super) struct Invalid {
    pub(super) at: Place,
    pub(super) message: String,
}

impl Invalid {
    #[cold]
    #[inline(never)]
    pub(super) fn new(at: Place, message: &str) -> Box<Invalid> {
        Invalid::from_message(at, message.to_owned())
    }

    /// Like `new`, with an owned message.
    #[cold]
    #[inline(never)]
    pub(super) fn from_message(at: Place, message: String) -> Box<Invalid> {
        Box::new(Invalid { at, message })
    }

    /// Error for too many subschemas.
    #[cold]
    #[inline(never)]
    pub(super) fn too_many(at: Place, limits: &SchemaLimits) -> Box<Invalid> {
        let mut message = "more than ".to_owned();
        push_number(&mut message, limits.nodes);
        message.push_str(" subschemas");
        Invalid::from_message(at, message)
    }
}

/// The index of all documents so far.
#[derive(Default)]
pub(super) struct ResourceIndex {
    pub(super) resources: Vec<Resource>,
    /// Resources by absolute URI.
    pub(super) by_uri: KeyMap,
    /// The resource of every subschema.
    pub(super) places: Places,
    anchors: KeyMap,
    /// The dynamic anchors by resource.
    dynamic: KeyMap,
    anchored: Vec<Place>,
    /// References, to be resolved after the pass.
    pub(super) references: Vec<Place>,
    /// True if there is a dynamic or recursive reference.
    pub(super) has_dynamic: bool,
}

/// Parent of a value to visit.
pub(super) enum Parent<'a> {
    Resource(u32),
    /// The value is a document with this base URI and these rules.
    Document(&'a str, Rules),
}

/// Returns the rules of a `$schema`.
pub(super) type RulesFor<'a> = dyn Fn(&str) -> Result<Rules, String> + 'a;

impl ResourceIndex {
    /// Visits `value` and all subschemas in it.
    pub(super) fn visit(
        &mut self,
        document: u32,
        value: Value<'_>,
        parent: Parent<'_>,
        rules_for: &RulesFor<'_>,
        limits: &SchemaLimits,
    ) -> Result<(), Box<Invalid>> {
        let start = Place { document, node: value.id() };
        let first = match parent {
            Parent::Resource(resource) => resource,
            Parent::Document(base, mut rules) => {
                if let Some(named) = value.get("$schema").and_then(Value::as_str) {
                    rules = rules_for(named).map_err(|message| Invalid::from_message(start, message))?;
                }
                self.resource(base.to_owned(), start, rules)
            }
        };
        let mut open = vec![(value, first)];
        while let Some((value, resource)) = open.pop() {
            let at = Place { document, node: value.id() };
            if self.places.count >= limits.nodes {
                return Err(Invalid::too_many(at, limits));
            }
            let mut visit = Indexer { index: self, document, resource, open: &mut open };
            match value.kind() {
                Kind::Bool => {
                    self.places.insert(at, resource);
                }
                Kind::Object => visit.object(value, at, rules_for)?,
                _ => return Err(Invalid::new(at, "expected a schema: an object, true or false")),
            }
        }
        Ok(())
    }

    /// The place of an anchor in a resource.
    pub(super) fn anchor(&self, resource: u32, name: &str) -> Option<Place> {
        self.anchored.get(self.anchors.get(&key(&[resource], name))? as usize).copied()
    }

    /// Returns `true` if a place in a resource has this dynamic anchor.
    pub(super) fn is_dynamic(&self, resource: u32, name: &str, at: Place) -> bool {
        self.dynamic.get(&key(&[resource, at.document, at.node.index()], name)).is_some()
    }

    fn resource(&mut self, base: String, root: Place, rules: Rules) -> u32 {
        let id = self.resources.len() as u32;
        self.by_uri.enter(base.as_bytes(), id.into());
        self.resources.push(Resource { base, root, rules, dynamic: Vec::new() });
        id
    }

    pub(super) fn rules(&self, resource: u32) -> Rules {
        let found = self.resources.get(resource as usize).map(|r| r.rules);
        // OK because resources are never removed: `resource` has returned every id.
        found.unwrap_or(Rules::of(super::Dialect::Draft202012))
    }

    pub(super) fn base(&self, resource: u32) -> &str {
        self.resources.get(resource as usize).map_or("", |r| &r.base)
    }
}

/// Indexer of one subschema.
struct Indexer<'s, 'd> {
    index: &'s mut ResourceIndex,
    document: u32,
    resource: u32,
    open: &'s mut Vec<(Value<'d>, u32)>,
}

impl<'d> Indexer<'_, 'd> {
    fn object(&mut self, schema: Value<'d>, at: Place, rules_for: &RulesFor<'_>) -> Result<(), Box<Invalid>> {
        let mut rules = self.index.rules(self.resource);
        let ref_only = rules.ref_stands_alone() && schema.get("$ref").is_some();
        if let Some(id) = schema.get("$id").filter(|_| !ref_only) {
            let Some(text) = id.as_str() else { return self.fault(id, "expected a string") };
            let (uri, fragment) = uri::split_fragment(text);
            if !uri.is_empty() {
                if let Some(named) = schema.get("$schema").and_then(Value::as_str) {
                    rules = rules_for(named).map_err(|message| Invalid::from_message(at, message))?;
                }
                let base = uri::join(self.index.base(self.resource), uri);
                self.begin(base, at, rules);
            }
            match fragment {
                None | Some("") => {}
                Some(name) if rules.ref_stands_alone() => self.anchor(name, at),
                Some(_) => return self.fault(id, "expected a URI without fragment"),
            }
        }
        self.index.places.insert(at, self.resource);
        let start = self.open.len();
        for (name, value) in schema.members() {
            let Some(keyword) = Keyword::find(name, rules) else { continue };
            // Other keywords beside `$ref` are ignored in draft-07, except containers of reference
            // targets.
            if ref_only && !matches!(keyword, Keyword::Ref | Keyword::Definitions | Keyword::Defs) {
                continue;
            }
            self.check(keyword.shape(), value)?;
            match keyword {
                Keyword::Anchor => self.anchor(value.as_str().unwrap_or_default(), at),
                Keyword::DynamicAnchor => {
                    let name = value.as_str().unwrap_or_default();
                    self.anchor(name, at);
                    self.dynamic(name, at);
                }
                Keyword::RecursiveAnchor if value.as_bool() == Some(true) => self.dynamic(RECURSIVE, at),
                Keyword::Ref => self.index.references.push(at),
                Keyword::DynamicRef | Keyword::RecursiveRef => {
                    self.index.references.push(at);
                    self.index.has_dynamic = true;
                }
                _ => {}
            }
        }
        // The list is processed from its end, so this keeps the order of the text.
        if let Some(added) = self.open.get_mut(start..) {
            added.reverse();
        }
        Ok(())
    }

    /// Starts a resource at a subschema with `$id`.
    fn begin(&mut self, base: String, at: Place, rules: Rules) {
        let index = &mut *self.index;
        match index.resources.get_mut(self.resource as usize) {
            // The root of a document has its retrieval URI and its own `$id`.
            Some(document) if document.root == at => {
                index.by_uri.enter(base.as_bytes(), self.resource.into());
                document.base = base;
                document.rules = rules;
            }
            _ => self.resource = index.resource(base, at, rules),
        }
    }

    #[cold]
    fn anchor(&mut self, name: &str, at: Place) {
        let index = &mut *self.index;
        let next = index.anchored.len() as u64;
        if index.anchors.enter(&key(&[self.resource], name), next) == next {
            index.anchored.push(at);
        }
    }

    #[cold]
    fn dynamic(&mut self, name: &str, at: Place) {
        self.index.dynamic.enter(&key(&[self.resource, at.document, at.node.index()], name), 0);
        if let Some(resource) = self.index.resources.get_mut(self.resource as usize) {
            resource.dynamic.push((name.to_owned(), at));
        }
    }

    #[cold]
    fn fault(&self, value: Value<'_>, message: &str) -> Result<(), Box<Invalid>> {
        Err(Invalid::new(Place { document: self.document, node: value.id() }, message))
    }

    /// Checks the shape of a keyword's value and queues its subschemas.
    fn check(&mut self, shape: Shape, value: Value<'d>) -> Result<(), Box<Invalid>> {
        let expected = match shape {
            Shape::Any => return Ok(()),
            Shape::Text if value.kind() == Kind::String => return Ok(()),
            Shape::Bool if value.kind() == Kind::Bool => return Ok(()),
            Shape::Number if value.kind() == Kind::Number => return Ok(()),
            Shape::Array if value.kind() == Kind::Array => return Ok(()),
            Shape::Text => "a string",
            Shape::Bool => "true or false",
            Shape::Number => "a number",
            Shape::Array => "an array",
            Shape::Count | Shape::Positive => return self.check_number(shape, value),
            Shape::Types => return self.check_types(value),
            Shape::Names => return self.check_names(value),
            Shape::Anchor => match value.as_str() {
                Some(name) if is_anchor(name) => return Ok(()),
                _ => "a letter or `_`, then letters, digits, `-`, `_` and `.`",
            },
            Shape::Schema => return self.push_nested(shape, value),
            Shape::Items if value.kind() != Kind::Array => return self.push_nested(shape, value),
            Shape::Schemas | Shape::Items => {
                if value.kind() == Kind::Array && (shape == Shape::Items || !value.is_empty()) {
                    return self.push_nested(shape, value);
                }
                "an array with at least one schema"
            }
            Shape::SchemaMap | Shape::Dependencies | Shape::NamesMap | Shape::Vocabulary => {
                if value.kind() == Kind::Object {
                    for (_, inner) in value.members() {
                        match shape {
                            Shape::Vocabulary => self.check(Shape::Bool, inner)?,
                            Shape::NamesMap => self.check_names(inner)?,
                            Shape::Dependencies if inner.kind() == Kind::Array => self.check_names(inner)?,
                            _ => {}
                        }
                    }
                    return self.push_nested(shape, value);
                }
                "an object"
            }
        };
        self.fault(value, &["expected ", expected].concat())
    }

    /// Queues the subschemas in a keyword's value.
    fn push_nested(&mut self, shape: Shape, value: Value<'d>) -> Result<(), Box<Invalid>> {
        let resource = self.resource;
        subschemas::nested(shape, value, |_, inner| self.open.push((inner, resource)));
        Ok(())
    }

    fn check_number(&self, shape: Shape, value: Value<'_>) -> Result<(), Box<Invalid>> {
        let number = value.as_number().map(super::decimal::Decimal::new);
        match (shape, number) {
            (Shape::Count, Some(n)) if n.is_whole() && !n.is_negative() => Ok(()),
            (Shape::Count, _) => self.fault(value, "expected a non-negative integer"),
            (_, Some(n)) if !n.is_negative() && !n.is_zero() => Ok(()),
            _ => self.fault(value, "expected a positive number"),
        }
    }

    fn check_types(&self, value: Value<'_>) -> Result<(), Box<Invalid>> {
        if value.kind() == Kind::Array {
            let mut seen = 0;
            for item in value.items() {
                let bit = super::program::type_named(item.as_str().unwrap_or_default()).unwrap_or(0);
                if bit == 0 {
                    return self.check_types(item);
                }
                // `number` includes the bit of `integer`, so types are compared by position.
                let position = 1 << bit.trailing_zeros() << (u32::from(bit.count_ones() > 1) * 8);
                if seen & position != 0 {
                    return self.fault(item, "duplicate type");
                }
                seen |= position;
            }
            return match seen {
                0 => self.fault(value, "expected at least one type"),
                _ => Ok(()),
            };
        }
        match value.as_str() {
            Some(name) if super::program::type_named(name).is_some() => Ok(()),
            _ => self.fault(
                value,
                "expected one of \"null\", \"boolean\", \"integer\", \"number\", \"string\", \"array\", \"object\"",
            ),
        }
    }

    fn check_names(&self, value: Value<'_>) -> Result<(), Box<Invalid>> {
        if value.kind() != Kind::Array {
            return self.fault(value, "expected an array of strings");
        }
        let mut names = KeyMap::default();
        for (i, item) in (0..).zip(value.items()) {
            let Some(name) = item.as_str() else { return self.fault(item, "expected a string") };
            if names.enter(name.as_bytes(), i) != i {
                return self.fault(item, "duplicate name");
            }
        }
        Ok(())
    }
}

fn is_anchor(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
