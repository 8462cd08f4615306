//! Tree of the subschemas of one schema: position, role and reference target of each.
//!
//! Subschemas are found by the keywords of all supported drafts. References are resolved within the
//! schema.
//!
//! # Invariants
//! - No function recurses. Nodes are in breadth-first order, so the children of a node are
//!   adjacent.
//! - There are at most as many nodes as values in the document.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::json::{Kind, NodeId, Value};
use crate::schema::keyword::Keyword;
use crate::schema::subschemas::{self, Step, push_token};
use crate::schema::uri::percent_decoded;

/// Relation of a subschema to the schema that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The root schema.
    Root,
    /// A value of `properties`.
    Member,
    /// A value of `patternProperties`.
    PatternMember,
    /// Remaining members: `additionalProperties`, `unevaluatedProperties`.
    Extra,
    /// Elements: `items`, `prefixItems`, `additionalItems`, `unevaluatedItems`.
    Item,
    /// Applied to the same value: `allOf`, `anyOf`, `oneOf`, `then`, `else`, `dependentSchemas`.
    Branch,
    /// A condition: `if`, `not`, `contains`, `propertyNames`.
    Condition,
    /// Applied by references only: `$defs`, `definitions`; also `contentSchema`.
    Definition,
}

/// A subschema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'d> {
    pub value: Value<'d>,
    pub role: Role,
    /// The keyword that contains it; `""` for the root.
    pub keyword: &'static str,
    parent: u32,
    step: Step<'d>,
    first_child: u32,
    children: u32,
}

impl<'d> Node<'d> {
    /// The name of a member of `properties`, `patternProperties` and other keywords with named
    /// subschemas.
    pub(super) fn name(&self) -> Option<&'d str> {
        match self.step {
            Step::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// The role of the subschemas of a keyword; `None` if it has none.
fn role(keyword: Keyword) -> Option<Role> {
    use Keyword as K;
    Some(match keyword {
        K::Properties => Role::Member,
        K::PatternProperties => Role::PatternMember,
        K::AdditionalProperties | K::UnevaluatedProperties => Role::Extra,
        K::Items | K::PrefixItems | K::AdditionalItems | K::UnevaluatedItems => Role::Item,
        K::AllOf | K::AnyOf | K::OneOf | K::Then | K::Else => Role::Branch,
        K::DependentSchemas | K::Dependencies => Role::Branch,
        K::If | K::Not | K::Contains | K::PropertyNames => Role::Condition,
        K::Defs | K::Definitions | K::ContentSchema => Role::Definition,
        _ => return None,
    })
}

/// All subschemas of one schema.
pub(super) struct SchemaTree<'d> {
    pub nodes: Vec<Node<'d>>,
    by_node: HashMap<NodeId, u32>,
    anchors: HashMap<&'d str, u32>,
    /// Nodes by parent, keyword and name. Most references resolve with this map.
    named: HashMap<(u32, &'static str, &'d str), u32>,
    /// The target of the reference of each node.
    targets: Vec<Target>,
    /// A subschema has its own `$id`, so local references may have other targets.
    pub rebased: bool,
    /// `$schema` names a draft before 2019-09.
    pub old: bool,
}

/// Index of the root.
pub(super) const ROOT: usize = 0;

impl<'d> SchemaTree<'d> {
    /// Walks a schema.
    pub(super) fn new(root: Value<'d>) -> SchemaTree<'d> {
        let node = Node {
            value: root,
            role: Role::Root,
            keyword: "",
            parent: 0,
            step: Step::Value,
            first_child: 0,
            children: 0,
        };
        let old = root
            .get("$schema")
            .and_then(Value::as_str)
            .is_some_and(|s| ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|d| s.contains(d)));
        let mut tree = SchemaTree {
            nodes: vec![node],
            by_node: HashMap::new(),
            anchors: HashMap::new(),
            named: HashMap::new(),
            targets: Vec::new(),
            rebased: false,
            old,
        };
        let mut next = 0;
        while next < tree.nodes.len() {
            tree.enter(next);
            next += 1;
        }
        tree.targets = (0..tree.nodes.len()).map(|at| tree.find_target(at)).collect();
        tree
    }

    fn enter(&mut self, at: usize) {
        let value = self.nodes[at].value;
        self.by_node.insert(value.id(), at as u32);
        let first = self.nodes.len();
        for (keyword, inner) in value.members() {
            match keyword {
                "$anchor" | "$dynamicAnchor" => {
                    if let Some(name) = inner.as_str() {
                        self.anchors.insert(name, at as u32);
                    }
                }
                "$id" if at != ROOT => match inner.as_str().map(|id| id.strip_prefix('#')) {
                    Some(Some(name)) => {
                        self.anchors.insert(name, at as u32);
                    }
                    _ => self.rebased = true,
                },
                _ => {}
            }
            let Some(keyword) = Keyword::named(keyword) else { continue };
            let Some(role) = role(keyword) else { continue };
            subschemas::nested(keyword.shape(), inner, |step, value| {
                if !matches!(value.kind(), Kind::Object | Kind::Bool) {
                    return;
                }
                if let Step::Name(name) = step {
                    self.named.insert((at as u32, keyword.name(), name), self.nodes.len() as u32);
                }
                self.nodes.push(Node {
                    value,
                    role,
                    keyword: keyword.name(),
                    parent: at as u32,
                    step,
                    first_child: 0,
                    children: 0,
                });
            });
        }
        let count = self.nodes.len() - first;
        let node = &mut self.nodes[at];
        node.first_child = first as u32;
        node.children = count as u32;
    }

    pub(super) fn node(&self, at: usize) -> &Node<'d> {
        &self.nodes[at]
    }

    /// Children of a node.
    pub(super) fn children(&self, at: usize) -> std::ops::Range<usize> {
        let node = &self.nodes[at];
        node.first_child as usize..(node.first_child + node.children) as usize
    }

    /// Parent of a node; the root is its own parent.
    pub(super) fn parent(&self, at: usize) -> usize {
        self.nodes[at].parent as usize
    }

    /// Resolves a `$ref` of this schema. `None` if the target is not in it.
    pub(super) fn resolve(&self, reference: &str) -> Option<usize> {
        let fragment = reference.strip_prefix('#')?;
        let fragment = percent_decoded(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            if let Some(at) = self.by_name(&fragment) {
                return Some(at);
            }
            let target = self.nodes[ROOT].value.pointer(&fragment)?;
            return self.by_node.get(&target.id()).map(|at| *at as usize);
        }
        self.anchors.get(fragment.as_str()).map(|at| *at as usize)
    }

    /// Resolves a pointer whose steps are pairs of keyword and name.
    fn by_name(&self, pointer: &str) -> Option<usize> {
        let mut here = ROOT as u32;
        let mut tokens = pointer.strip_prefix('/')?.split('/');
        while let Some(keyword) = tokens.next() {
            let name = tokens.next().filter(|name| !name.contains('~'))?;
            here = *self.named.get(&(here, Keyword::named(keyword)?.name(), name))?;
        }
        Some(here as usize)
    }

    /// The node of a value, if the value is a subschema.
    pub(super) fn node_of(&self, value: Value<'d>) -> Option<usize> {
        self.by_node.get(&value.id()).map(|at| *at as usize)
    }

    /// Target of the `$ref` or `$dynamicRef` of a node.
    pub(super) fn target(&self, at: usize) -> Target {
        self.targets.get(at).copied().unwrap_or(Target::None)
    }

    fn find_target(&self, at: usize) -> Target {
        let value = self.nodes[at].value;
        let reference = ["$ref", "$dynamicRef", "$recursiveRef"].iter().find_map(|k| value.get(k));
        match reference {
            None => Target::None,
            Some(reference) => match reference.as_str().and_then(|r| self.resolve(r)) {
                Some(target) if !self.rebased => Target::Node(target),
                _ => Target::Unknown,
            },
        }
    }

    /// The JSON Pointer of a node within its schema.
    pub(super) fn pointer(&self, at: usize) -> String {
        let mut chain = Vec::new();
        let mut here = at;
        while here != ROOT {
            chain.push(here);
            here = self.parent(here);
        }
        let mut pointer = String::new();
        for at in chain.into_iter().rev() {
            let node = &self.nodes[at];
            push_token(&mut pointer, node.keyword);
            match node.step {
                Step::Name(name) => push_token(&mut pointer, name),
                Step::Index(i) => {
                    // OK to drop: writing to a String cannot fail.
                    let _ = write!(pointer, "/{i}");
                }
                Step::Value => {}
            }
        }
        pointer
    }
}

/// Target of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The node has no reference.
    None,
    Node(usize),
    /// The target is not in this schema.
    Unknown,
}

/// Returns `true` if the `type` of a schema includes this type.
pub(super) fn has_type(schema: Value<'_>, name: &str) -> bool {
    match schema.get("type") {
        Some(t) => t.as_str() == Some(name) || t.items().any(|t| t.as_str() == Some(name)),
        None => false,
    }
}

/// Returns `true` if a schema describes objects: by its type, or by properties without a type.
pub(super) fn is_object(schema: Value<'_>) -> bool {
    match schema.get("type") {
        Some(_) => has_type(schema, "object"),
        None => schema.get("properties").is_some() || schema.get("patternProperties").is_some(),
    }
}
