//! One walk over a schema: every subschema once, with its place, its role and what it refers to.
//!
//! It finds subschemas by the keywords of draft 2020-12 and the spellings of draft-07, resolves
//! references within the schema, and gives pointers. It judges nothing. Values under `const`,
//! `enum`, `default` and `examples` are data and not walked.
//!
//! # Invariants
//! - Nothing recurses; sites stand in breadth-first order, so the children of one are neighbours.
//! - There are at most as many sites as values in the document.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::json::{Kind, NodeId, Value};
use crate::schema::keyword::Keyword;
use crate::schema::subschemas::{self, Step, push_token};
use crate::schema::uri::percent_decoded;

/// How a subschema is applied, seen from the schema it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The schema itself.
    Root,
    /// A value of `properties`.
    Member,
    /// A value of `patternProperties`.
    PatternMember,
    /// Members that nothing else names: `additionalProperties`, `unevaluatedProperties`.
    Extra,
    /// Elements: `items`, `prefixItems`, `additionalItems`, `unevaluatedItems`.
    Item,
    /// Applied to the same value: `allOf`, `anyOf`, `oneOf`, `then`, `else`, `dependentSchemas`.
    Branch,
    /// Asks rather than demands: `if`, `not`, `contains`, `propertyNames`.
    Condition,
    /// Kept for references: `$defs`, `definitions`; also `contentSchema`.
    Definition,
}

/// One subschema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'d> {
    pub value: Value<'d>,
    pub role: Role,
    /// The keyword it stands under, `""` for the root.
    pub keyword: &'static str,
    parent: u32,
    step: Step<'d>,
    first_child: u32,
    children: u32,
}

impl<'d> Site<'d> {
    /// The name of a member of `properties`, `patternProperties` and the like.
    pub(super) fn name(&self) -> Option<&'d str> {
        match self.step {
            Step::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// How the compiler applies the subschemas of a keyword; `None` for keywords without subschemas.
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

/// Every subschema of one schema.
pub(super) struct SchemaTree<'d> {
    pub sites: Vec<Site<'d>>,
    by_node: HashMap<NodeId, u32>,
    anchors: HashMap<&'d str, u32>,
    /// Sites by the site they stand in, keyword and name: most references go this way.
    named: HashMap<(u32, &'static str, &'d str), u32>,
    /// Where the reference of each site leads.
    targets: Vec<Target>,
    /// A subschema has an `$id` of its own, so local references need not be what they seem.
    pub rebased: bool,
    /// `$schema` names a draft before 2019-09.
    pub old: bool,
}

/// The site of the schema itself.
pub(super) const ROOT: usize = 0;

impl<'d> SchemaTree<'d> {
    /// Walks a schema.
    pub(super) fn new(root: Value<'d>) -> SchemaTree<'d> {
        let site = Site {
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
            sites: vec![site],
            by_node: HashMap::new(),
            anchors: HashMap::new(),
            named: HashMap::new(),
            targets: Vec::new(),
            rebased: false,
            old,
        };
        let mut next = 0;
        while next < tree.sites.len() {
            tree.enter(next);
            next += 1;
        }
        tree.targets = (0..tree.sites.len()).map(|at| tree.find_target(at)).collect();
        tree
    }

    fn enter(&mut self, at: usize) {
        let value = self.sites[at].value;
        self.by_node.insert(value.id(), at as u32);
        let first = self.sites.len();
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
                    self.named.insert((at as u32, keyword.name(), name), self.sites.len() as u32);
                }
                self.sites.push(Site {
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
        let count = self.sites.len() - first;
        let site = &mut self.sites[at];
        site.first_child = first as u32;
        site.children = count as u32;
    }

    pub(super) fn site(&self, at: usize) -> &Site<'d> {
        &self.sites[at]
    }

    /// The sites directly within one.
    pub(super) fn children(&self, at: usize) -> std::ops::Range<usize> {
        let site = &self.sites[at];
        site.first_child as usize..(site.first_child + site.children) as usize
    }

    /// The site one stands in; the root is its own.
    pub(super) fn parent(&self, at: usize) -> usize {
        self.sites[at].parent as usize
    }

    /// Where a `$ref` of this schema leads. `None`: outside, or nowhere.
    pub(super) fn resolve(&self, reference: &str) -> Option<usize> {
        let fragment = reference.strip_prefix('#')?;
        let fragment = percent_decoded(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            if let Some(at) = self.by_name(&fragment) {
                return Some(at);
            }
            let target = self.sites[ROOT].value.pointer(&fragment)?;
            return self.by_node.get(&target.id()).map(|at| *at as usize);
        }
        self.anchors.get(fragment.as_str()).map(|at| *at as usize)
    }

    /// The site of a pointer all of whose steps go by keyword and name.
    fn by_name(&self, pointer: &str) -> Option<usize> {
        let mut here = ROOT as u32;
        let mut tokens = pointer.strip_prefix('/')?.split('/');
        while let Some(keyword) = tokens.next() {
            let name = tokens.next().filter(|name| !name.contains('~'))?;
            here = *self.named.get(&(here, Keyword::named(keyword)?.name(), name))?;
        }
        Some(here as usize)
    }

    /// The site of a value that is a subschema.
    pub(super) fn site_of(&self, value: Value<'d>) -> Option<usize> {
        self.by_node.get(&value.id()).map(|at| *at as usize)
    }

    /// Where the `$ref` or `$dynamicRef` of a site leads.
    pub(super) fn target(&self, at: usize) -> Target {
        self.targets.get(at).copied().unwrap_or(Target::None)
    }

    fn find_target(&self, at: usize) -> Target {
        let value = self.sites[at].value;
        let reference = ["$ref", "$dynamicRef", "$recursiveRef"].iter().find_map(|k| value.get(k));
        match reference {
            None => Target::None,
            Some(reference) => match reference.as_str().and_then(|r| self.resolve(r)) {
                Some(target) if !self.rebased => Target::Site(target),
                _ => Target::Unknown,
            },
        }
    }

    /// The pointer of a site within its schema.
    pub(super) fn pointer(&self, at: usize) -> String {
        let mut chain = Vec::new();
        let mut here = at;
        while here != ROOT {
            chain.push(here);
            here = self.parent(here);
        }
        let mut pointer = String::new();
        for at in chain.into_iter().rev() {
            let site = &self.sites[at];
            push_token(&mut pointer, site.keyword);
            match site.step {
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

/// What a reference leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// There is no reference.
    None,
    Site(usize),
    /// Elsewhere, or nowhere.
    Unknown,
}

/// Whether a schema says, directly, that values of this type are meant.
pub(super) fn has_type(schema: Value<'_>, name: &str) -> bool {
    match schema.get("type") {
        Some(t) => t.as_str() == Some(name) || t.items().any(|t| t.as_str() == Some(name)),
        None => false,
    }
}

/// Whether a schema describes objects: by its type, or by properties without a type.
pub(super) fn is_object(schema: Value<'_>) -> bool {
    match schema.get("type") {
        Some(_) => has_type(schema, "object"),
        None => schema.get("properties").is_some() || schema.get("patternProperties").is_some(),
    }
}
