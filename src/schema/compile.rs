//! Second pass over a schema: compiles subschemas to the tables of a program.
//!
//! Each reachable subschema becomes a node for every dynamic scope that reaches it. Its keywords
//! become operations, cheap ones first. [`link`] then removes nodes without operations and rejects
//! cycles. The first pass (`resources.rs`) has checked the shapes of all keywords.
//!
//! Invariants: a list of nodes to fill replaces recursion; the number of nodes is limited.

mod keywords;
mod link;

use std::sync::Arc;

use crate::json::sort::sort;
use crate::json::{Doc, Kind, NodeId, Value};

use super::keyword::{KEYWORDS, Keyword, Rules};
use super::program::{Child, Node, Object, Op, Program, Property, Reference, Span, TRACKS, types};
use super::resolve::Library;
use super::resources::{Invalid, Place, Places};
use super::resources::{KeyMap, key};
use super::subschemas::pointer_to;
use super::{Formats, Options, SchemaError, SchemaLimits, canon, program};

/// The schema itself.
const ROOT: Place = Place { document: 0, node: NodeId::ROOT };

/// Number of values after which the pointers to reference targets are replaced by their anchors.
const MAX_VISITED: usize = 4_000_000;

/// Compiles a schema.
pub(super) fn compile(schema: Doc, options: &Options) -> Result<Program, SchemaError> {
    let mut compiler = Compiler {
        library: Library::new(options),
        options,
        t: Tables::default(),
        plain: Places::default(),
        scoped: KeyMap::default(),
        open: Vec::new(),
        pattern_cost: 0,
        visited: 0,
    };
    compiler.run(schema).map_err(|fault| located(*fault, &compiler.library.docs))
}

#[cold]
#[inline(never)]
fn located(fault: Invalid, docs: &[Arc<Doc>]) -> SchemaError {
    let Some(doc) = docs.get(fault.at.document as usize) else {
        return SchemaError::new("", fault.message);
    };
    let pointer = pointer_to(doc.root(), fault.at.node);
    if fault.at.document == 0 {
        return SchemaError::new(pointer, fault.message);
    }
    let id = doc.root().get("$id").and_then(Value::as_str).unwrap_or_default();
    SchemaError::new(format!("{id}#{pointer}"), fault.message)
}

/// The tables of a program under construction.
#[derive(Default)]
struct Tables {
    nodes: Vec<Node>,
    /// The origin of each node.
    places: Vec<Place>,
    ops: Vec<Op>,
    children: Vec<Child>,
    properties: Vec<Property>,
    objects: Vec<Object>,
    arrays: Vec<program::Array>,
    contains: Vec<program::Contains>,
    bounds: Vec<program::Bounds>,
    dependents: Vec<program::Dependent>,
    enums: Vec<program::Enum>,
    words: Vec<Span>,
    references: Vec<Reference>,
    patterns: Vec<(super::pattern::Pattern, Span)>,
    pool: String,
}

/// Appends entries to a table and returns their range.
fn extend<T: Copy>(table: &mut Vec<T>, entries: &[T]) -> Span {
    let start = table.len() as u32;
    table.extend_from_slice(entries);
    Span { start, len: entries.len() as u32 }
}

impl Tables {
    fn keep(&mut self, text: &str) -> Span {
        let start = self.pool.len() as u32;
        self.pool.push_str(text);
        Span { start, len: text.len() as u32 }
    }

    /// Stores words and returns their range.
    fn words(&mut self, words: &[&str]) -> Span {
        let start = self.words.len() as u32;
        for word in words {
            let kept = self.keep(word);
            self.words.push(kept);
        }
        Span { start, len: words.len() as u32 }
    }

    fn property(&mut self, name: &str, child: Child, required: u8) -> Property {
        Property::new(name, self.keep(name), child, required)
    }
}

struct Compiler<'o> {
    library: Library<'o>,
    options: &'o Options,
    t: Tables,
    /// Nodes by place, in the outermost dynamic scope. Most schemas have no other scope.
    plain: Places,
    /// Nodes by place in any other scope.
    scoped: KeyMap,
    /// Work list of nodes, with the dynamic scope of their subschema.
    open: Vec<(u32, u32)>,
    /// Cost of the patterns so far, and number of values that pointers to targets have visited.
    pattern_cost: usize,
    visited: usize,
}

/// The keywords of one subschema by number, and its place.
struct Subschema<'d> {
    found: [Option<Value<'d>>; KEYWORDS],
    rules: Rules,
    place: Place,
    scope: u32,
}

impl<'d> Subschema<'d> {
    fn get(&self, keyword: Keyword) -> Option<Value<'d>> {
        self.found.get(keyword as usize).copied().flatten()
    }

    fn text(&self, keyword: Keyword) -> Option<&'d str> {
        self.get(keyword)?.as_str()
    }

    fn at(&self, value: Value<'_>) -> Place {
        Place { document: self.place.document, node: value.id() }
    }
}

/// Keywords with subschemas, except those for members and elements.
const COMBINED: &[Keyword] = &[
    Keyword::PropertyNames,
    Keyword::DependentRequired,
    Keyword::DependentSchemas,
    Keyword::Dependencies,
    Keyword::Ref,
    Keyword::DynamicRef,
    Keyword::RecursiveRef,
    Keyword::AllOf,
    Keyword::AnyOf,
    Keyword::OneOf,
    Keyword::Not,
    Keyword::If,
    Keyword::UnevaluatedItems,
    Keyword::UnevaluatedProperties,
];

impl Compiler<'_> {
    fn run(&mut self, schema: Doc) -> Result<Program, Box<Invalid>> {
        self.library.load(schema)?;
        let docs = self.library.docs.clone();
        let root = self.place(ROOT, &docs, 0)?;
        while let Some((index, scope)) = self.open.pop() {
            self.fill(index, scope, &docs)?;
        }
        let base = self.library.index.base(0).to_owned();
        let base = self.t.keep(&base);
        link::link(&mut self.t, root, base, &self.options.limits)
    }

    fn limits(&self) -> &SchemaLimits {
        &self.options.limits
    }

    /// The child for a subschema beside or within the current one.
    fn child(&mut self, schema: &Subschema<'_>, value: Value<'_>) -> Result<Child, Box<Invalid>> {
        match value.as_bool() {
            Some(true) => Ok(Child::ANY),
            Some(false) => Ok(Child::NONE),
            None => self.node(schema.at(value), schema.scope),
        }
    }

    /// The child for the subschema at a place of any document.
    fn place(&mut self, place: Place, docs: &[Arc<Doc>], scope: u32) -> Result<Child, Box<Invalid>> {
        let doc = docs.get(place.document as usize);
        match doc.and_then(|doc| doc.at(place.node).as_bool()) {
            Some(true) => Ok(Child::ANY),
            Some(false) => Ok(Child::NONE),
            None => self.node(place, scope),
        }
    }

    fn node(&mut self, place: Place, scope: u32) -> Result<Child, Box<Invalid>> {
        let resource = self.library.index.places.get(place).unwrap_or(0);
        let scope = self.library.enter(scope, resource);
        let scoped = key(&[place.document, place.node.index(), scope], "");
        let known = if scope == 0 {
            self.plain.get(place)
        } else {
            self.scoped.get(&scoped).map(|known| known as u32)
        };
        let index = known.unwrap_or(self.t.nodes.len() as u32);
        if known.is_none() {
            if scope == 0 {
                self.plain.insert(place, index);
            } else {
                self.scoped.enter(&scoped, index.into());
            }
            if self.t.nodes.len() >= self.limits().nodes {
                return Err(Invalid::too_many(place, self.limits()));
            }
            self.t.nodes.push(Node { ops: 0, count: 0, types: types::ALL, flags: 0 });
            self.t.places.push(place);
            self.open.push((index, scope));
        }
        Ok(Child::node(index))
    }

    fn fill(&mut self, index: u32, scope: u32, docs: &[Arc<Doc>]) -> Result<(), Box<Invalid>> {
        let Some(place) = self.t.places.get(index as usize).copied() else { return Ok(()) };
        let Some(doc) = docs.get(place.document as usize) else { return Ok(()) };
        let resource = self.library.index.places.get(place).unwrap_or(0);
        let rules = self.library.index.rules(resource);
        let mut schema = Subschema { found: [None; KEYWORDS], rules, place, scope };
        for (name, value) in doc.at(place.node).members() {
            let keyword = Keyword::find(name, rules);
            if let Some(slot) = keyword.and_then(|k| schema.found.get_mut(k as usize)) {
                *slot = Some(value);
            }
        }
        if rules.ref_stands_alone() && schema.get(Keyword::Ref).is_some() {
            let reference = schema.get(Keyword::Ref);
            schema.found = [None; KEYWORDS];
            schema.found[Keyword::Ref as usize] = reference;
        }
        let mut ops = Vec::new();
        self.asserted(&schema, &mut ops)?;
        self.applied(&schema, docs, &mut ops)?;
        let tracks =
            ops.iter().any(|op| matches!(op, Op::UnevaluatedItems(_) | Op::UnevaluatedProperties(_)));
        let run = extend(&mut self.t.ops, &ops);
        if let Some(node) = self.t.nodes.get_mut(index as usize) {
            node.ops = run.start;
            node.count = run.len as u16;
            node.types = allowed_types(schema.get(Keyword::Type));
            node.flags = if tracks { TRACKS } else { 0 };
        }
        Ok(())
    }

    /// Compiles the keywords with subschemas.
    fn applied(
        &mut self,
        schema: &Subschema<'_>,
        docs: &[Arc<Doc>],
        ops: &mut Vec<Op>,
    ) -> Result<(), Box<Invalid>> {
        self.object(schema, ops)?;
        self.array(schema, ops)?;
        if COMBINED.iter().any(|keyword| schema.get(*keyword).is_some()) {
            self.combined(schema, docs, ops)?;
        }
        Ok(())
    }

    /// Compiles the less common keywords with subschemas.
    #[cold]
    #[inline(never)]
    fn combined(
        &mut self,
        schema: &Subschema<'_>,
        docs: &[Arc<Doc>],
        ops: &mut Vec<Op>,
    ) -> Result<(), Box<Invalid>> {
        if let Some(names) = schema.get(Keyword::PropertyNames) {
            let child = self.child(schema, names)?;
            if child != Child::ANY {
                ops.push(Op::Names(child));
            }
        }
        self.dependents(schema, ops)?;
        for keyword in [Keyword::Ref, Keyword::DynamicRef, Keyword::RecursiveRef] {
            if schema.get(keyword).is_some() {
                self.reference(schema, keyword, docs, ops)?;
            }
        }
        for keyword in [Keyword::AllOf, Keyword::AnyOf, Keyword::OneOf] {
            let Some(branches) = schema.get(keyword) else { continue };
            let mut children = Vec::with_capacity(branches.len());
            for branch in branches.items() {
                children.push(self.child(schema, branch)?);
            }
            let run = extend(&mut self.t.children, &children);
            ops.push(match keyword {
                Keyword::AllOf => Op::AllOf(run),
                Keyword::AnyOf => Op::AnyOf(run),
                _ => Op::OneOf(run),
            });
        }
        if let Some(not) = schema.get(Keyword::Not) {
            let child = self.child(schema, not)?;
            ops.push(Op::Not(child));
        }
        if let Some(condition) = schema.get(Keyword::If) {
            let mut children = vec![self.child(schema, condition)?];
            for keyword in [Keyword::Then, Keyword::Else] {
                children.push(match schema.get(keyword) {
                    Some(branch) => self.child(schema, branch)?,
                    None => Child::ANY,
                });
            }
            let run = extend(&mut self.t.children, &children);
            ops.push(Op::If(run));
        }
        // These depend on the evaluation of all others.
        if let Some(rest) = schema.get(Keyword::UnevaluatedItems) {
            let child = self.child(schema, rest)?;
            ops.push(Op::UnevaluatedItems(child));
        }
        if let Some(rest) = schema.get(Keyword::UnevaluatedProperties) {
            let child = self.child(schema, rest)?;
            ops.push(Op::UnevaluatedProperties(child));
        }
        Ok(())
    }

    fn reference(
        &mut self,
        schema: &Subschema<'_>,
        keyword: Keyword,
        docs: &[Arc<Doc>],
        ops: &mut Vec<Op>,
    ) -> Result<(), Box<Invalid>> {
        let target = match self.library.target(schema.place, keyword) {
            Some(Ok(target)) => target,
            Some(Err(fault)) => return Err(fault.clone()),
            None => return Err(Invalid::new(schema.place, "unresolved reference")),
        };
        let dynamic = target.dynamic.as_ref().and_then(|name| self.library.bound(schema.scope, name));
        let place = dynamic.unwrap_or(target.place);
        let resource = self.library.index.places.get(place).unwrap_or(0);
        let fragment = match (&target.pointer, &target.anchor) {
            (Some(pointer), _) if place == target.place => pointer.clone(),
            // Finding a pointer visits every value before the target.
            (_, Some(anchor)) if self.visited > MAX_VISITED => anchor.clone(),
            _ => self.pointer(place, resource, docs),
        };
        let canonical = format!("{}#{fragment}", self.library.index.base(resource));
        let child = self.place(place, docs, schema.scope)?;
        let target = self.t.keep(&canonical);
        let index = self.t.references.len() as u32;
        let keyword = match keyword {
            Keyword::Ref => "$ref",
            Keyword::DynamicRef => "$dynamicRef",
            _ => "$recursiveRef",
        };
        self.t.references.push(Reference { keyword, target });
        ops.push(Op::Ref(child, index));
        Ok(())
    }

    /// The pointer to a place, from the root of its resource.
    fn pointer(&mut self, place: Place, resource: u32, docs: &[Arc<Doc>]) -> String {
        let root = self.library.index.resources.get(resource as usize).map_or(place, |r| r.root);
        let Some(doc) = docs.get(place.document as usize) else { return String::new() };
        self.visited += place.node.index().saturating_sub(root.node.index()) as usize;
        pointer_to(doc.at(root.node), place.node)
    }

    fn object(&mut self, schema: &Subschema<'_>, ops: &mut Vec<Op>) -> Result<(), Box<Invalid>> {
        let declared = schema.get(Keyword::Properties);
        let required = schema.get(Keyword::Required).filter(|r| !r.is_empty());
        let patterned = schema.get(Keyword::PatternProperties).filter(|p| !p.is_empty());
        let additional = schema.get(Keyword::AdditionalProperties);
        if declared.is_none() && required.is_none() && patterned.is_none() && additional.is_none() {
            return Ok(());
        }
        let mut properties = Vec::with_capacity(declared.map_or(0, Value::len));
        for (name, value) in declared.into_iter().flat_map(Value::members) {
            let child = self.child(schema, value)?;
            properties.push(self.t.property(name, child, program::OPTIONAL));
        }
        self.require(required, &mut properties);
        let mut patterns = Vec::new();
        let first_pattern = self.t.patterns.len() as u32;
        for (source, value) in patterned.into_iter().flat_map(Value::members) {
            self.pattern(source, schema.at(value))?;
            patterns.push(self.child(schema, value)?);
        }
        let (mut known, mut needed) = (0, 0);
        for property in &properties {
            let name = property.name.bytes(self.t.pool.as_bytes());
            let mark = program::mark((name.first().copied().unwrap_or(0), name.len()));
            known |= mark;
            if property.required != program::OPTIONAL {
                needed |= mark;
            }
        }
        let required_names = required.map_or(0, Value::len) as u32;
        let object = Object {
            known,
            needed,
            wanted: program::bits(required_names),
            properties: extend(&mut self.t.properties, &properties),
            patterned: extend(&mut self.t.children, &patterns),
            first_pattern,
            required: required_names,
            additional: match additional {
                Some(value) => self.child(schema, value)?,
                None => Child::ANY,
            },
            has_additional: additional.is_some(),
        };
        ops.push(Op::Object(self.t.objects.len() as u32));
        self.t.objects.push(object);
        Ok(())
    }

    /// Assigns required names to their slots and adds the undeclared ones.
    fn require(&mut self, required: Option<Value<'_>>, properties: &mut Vec<Property>) {
        let names = required.into_iter().flat_map(Value::items).filter_map(Value::as_str);
        let mut declared = KeyMap::default();
        if required.is_some_and(|r| r.len() > program::MAX_LINEAR_TABLE) {
            for (i, property) in properties.iter().enumerate() {
                declared.enter(property.name.bytes(self.t.pool.as_bytes()), i as u64);
            }
        }
        let mut added = Vec::new();
        for (place, name) in names.enumerate() {
            let known = if declared.is_empty() {
                properties.iter().position(|p| p.name.bytes(self.t.pool.as_bytes()) == name.as_bytes())
            } else {
                declared.get(name.as_bytes()).map(|at| at as usize)
            };
            match known.and_then(|at| properties.get_mut(at)) {
                Some(property) => property.required = program::place(place),
                None => added.push(self.t.property(name, Child::UNDECLARED, program::place(place))),
            }
        }
        properties.extend_from_slice(&added);
        if properties.len() > program::MAX_LINEAR_TABLE {
            let pool = self.t.pool.as_bytes();
            sort(properties, |a, b| canon::compare_names(a.name.bytes(pool), b.name.bytes(pool)));
        }
    }

    /// Compiles a pattern; its index is the previous length of the table.
    #[cold]
    #[inline(never)]
    fn pattern(&mut self, source: &str, at: Place) -> Result<u32, Box<Invalid>> {
        let index = self.t.patterns.len() as u32;
        let pattern = super::pattern::Pattern::compile(source)
            .map_err(|e| Invalid::from_message(at, format!("the pattern {source:?}: {e}")))?;
        self.pattern_cost += pattern.cost();
        if self.pattern_cost > self.limits().patterns {
            let message = format!("patterns that need more than {} cells in total", self.limits().patterns);
            return Err(Invalid::from_message(at, message));
        }
        let text = self.t.keep(source);
        self.t.patterns.push((pattern, text));
        Ok(index)
    }

    fn asserts_formats(&self, schema: &Subschema<'_>) -> bool {
        self.options.formats == Formats::Assert || schema.rules.format_assertion
    }
}

fn allowed_types(value: Option<Value<'_>>) -> u8 {
    let bits = |v: Value<'_>| v.as_str().and_then(program::type_named).unwrap_or(0);
    match value {
        None => types::ALL,
        Some(list) if list.kind() == Kind::Array => list.items().fold(0, |mask, v| mask | bits(v)),
        Some(name) => bits(name),
    }
}
