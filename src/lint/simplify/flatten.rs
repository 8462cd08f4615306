//! One schema merged from a schema and those applied to the same value.
//!
//! Used for hosts without combinators. The result is less strict than the original: alternatives
//! become one object with the members of all. It is for a model to read, not for validation.
//!
//! Invariant: the first occurrence of a keyword wins; each member is listed once.

use std::collections::{HashMap, HashSet};

use crate::json::Value;
use crate::lint::composition::Group;
use crate::lint::tree::{Role, SchemaTree};

/// Keywords and members of a schema, with their origin.
pub(super) struct View<'d> {
    /// Keyword, value and origin, without `properties` and `required`.
    pub keywords: Vec<(&'d str, Value<'d>, usize)>,
    /// Name as written, and the nodes that describe the member.
    pub properties: Vec<(Value<'d>, Vec<usize>)>,
    /// Names as written.
    pub required: Vec<Value<'d>>,
    /// The same names, for look-ups.
    pub needed: HashSet<&'d str>,
    /// The names of `keywords`.
    seen: HashSet<&'d str>,
    /// True if the schema has `properties`.
    pub declares: bool,
    /// The combinators that were merged.
    pub merged: Vec<&'static str>,
}

impl<'d> View<'d> {
    /// Views a single schema.
    pub(super) fn plain(tree: &SchemaTree<'d>, at: usize) -> View<'d> {
        let mut view = View::empty();
        view.add(tree, at, &mut HashMap::new(), &[]);
        view.require(tree.node(at).value);
        view
    }

    /// Merges a schema with those beside it, without these combinators. `None` if the group is too
    /// large.
    pub(super) fn merged(tree: &SchemaTree<'d>, at: usize, without: &[&'static str]) -> Option<View<'d>> {
        let group = Group::of(tree, at)?;
        let mut view = View::empty();
        let mut names = HashMap::new();
        view.require(tree.node(at).value);
        for node in group.nodes.iter().copied() {
            let asked = tree.node(node).role == Role::Condition && node != at;
            if !asked {
                view.add(tree, node, &mut names, without);
            }
        }
        let value = tree.node(at).value;
        view.merged = without.iter().copied().filter(|k| value.get(k).is_some()).collect();
        for part in value.get("allOf").map(Value::items).into_iter().flatten() {
            view.require(part);
        }
        // A member of alternatives is required if each alternative requires it.
        for keyword in ["anyOf", "oneOf"].iter().filter(|k| without.contains(k)) {
            let Some(branches) = value.get(keyword) else { continue };
            let mut left: Option<HashSet<&str>> = None;
            for branch in branches.items() {
                let own: HashSet<&str> = required(branch).filter_map(Value::as_str).collect();
                left = Some(match left {
                    Some(left) => left.intersection(&own).copied().collect(),
                    None => own,
                });
            }
            let left = left.unwrap_or_default();
            for name in branches.index(0).into_iter().flat_map(required) {
                if name.as_str().is_some_and(|n| left.contains(n)) {
                    view.require_name(name);
                }
            }
        }
        Some(view)
    }

    fn empty() -> View<'d> {
        View {
            keywords: Vec::new(),
            properties: Vec::new(),
            required: Vec::new(),
            needed: HashSet::new(),
            seen: HashSet::new(),
            declares: false,
            merged: Vec::new(),
        }
    }

    fn add(
        &mut self,
        tree: &SchemaTree<'d>,
        at: usize,
        names: &mut HashMap<&'d str, usize>,
        without: &[&'static str],
    ) {
        let value = tree.node(at).value;
        for (keyword, inner) in value.members() {
            match keyword {
                "required" => {}
                "properties" => self.declares = true,
                _ if without.contains(&keyword) => {}
                "$ref" if !without.is_empty() => {}
                _ if !self.seen.insert(keyword) => {}
                _ => self.keywords.push((keyword, inner, at)),
            }
        }
        let written = value.get("properties").map(Value::member_values).into_iter().flatten();
        let by_name: HashMap<&str, Value<'d>> =
            written.filter_map(|(name, _)| Some((name.as_str()?, name))).collect();
        for child in tree.children(at) {
            let node = tree.node(child);
            let Some(name) = node.name().filter(|_| node.role == Role::Member) else { continue };
            match names.get(name) {
                Some(place) => {
                    if let Some((_, nodes)) = self.properties.get_mut(*place) {
                        nodes.push(child);
                    }
                }
                None => {
                    let Some(written) = by_name.get(name) else { continue };
                    names.insert(name, self.properties.len());
                    self.properties.push((*written, vec![child]));
                }
            }
        }
    }

    fn require(&mut self, schema: Value<'d>) {
        for name in required(schema) {
            self.require_name(name);
        }
    }

    fn require_name(&mut self, name: Value<'d>) {
        if self.needed.insert(name.as_str().unwrap_or_default()) {
            self.required.push(name);
        }
    }

    pub(super) fn get(&self, keyword: &str) -> Option<Value<'d>> {
        self.keywords.iter().find(|(k, ..)| *k == keyword).map(|(_, v, _)| *v)
    }
}

fn required(schema: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    schema.get("required").map(Value::items).into_iter().flatten().filter(|n| n.as_str().is_some())
}
