//! A schema as a host without combinators would have to be told: its own keywords and those of
//! the schemas beside it, folded into one.
//!
//! Folding tells less than the original: alternatives become one object with the members of all.
//! It is for a copy that a model reads, never for checking.
//!
//! Invariant: the first to say a keyword wins; no member is listed twice.

use std::collections::{HashMap, HashSet};

use crate::json::Value;
use crate::lint::composition::Group;
use crate::lint::tree::{Role, SchemaTree};

/// The keywords of a schema, where they come from, and its members.
pub(super) struct View<'d> {
    /// Keyword, value and the site that says it; without `properties` and `required`.
    pub keywords: Vec<(&'d str, Value<'d>, usize)>,
    /// Name as written and the sites that describe it.
    pub properties: Vec<(Value<'d>, Vec<usize>)>,
    /// Names as written.
    pub required: Vec<Value<'d>>,
    /// The same to be looked up.
    pub needed: HashSet<&'d str>,
    /// The names of `keywords`.
    said: HashSet<&'d str>,
    /// Whether `properties` was there at all.
    pub declares: bool,
    /// The combinators that were folded.
    pub folded: Vec<&'static str>,
}

impl<'d> View<'d> {
    /// A schema as it is.
    pub(super) fn plain(tree: &SchemaTree<'d>, at: usize) -> View<'d> {
        let mut view = View::empty();
        view.add(tree, at, &mut HashMap::new(), &[]);
        view.require(tree.site(at).value);
        view
    }

    /// A schema and what stands beside it, without these combinators. `None`: too much of it.
    pub(super) fn folded(tree: &SchemaTree<'d>, at: usize, without: &[&'static str]) -> Option<View<'d>> {
        let group = Group::of(tree, at)?;
        let mut view = View::empty();
        let mut names = HashMap::new();
        view.require(tree.site(at).value);
        for site in group.sites.iter().copied() {
            let asked = tree.site(site).role == Role::Condition && site != at;
            if !asked {
                view.add(tree, site, &mut names, without);
            }
        }
        let value = tree.site(at).value;
        view.folded = without.iter().copied().filter(|k| value.get(k).is_some()).collect();
        for part in value.get("allOf").map(Value::items).into_iter().flatten() {
            view.require(part);
        }
        // Of alternatives, only what each of them requires is required.
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
            said: HashSet::new(),
            declares: false,
            folded: Vec::new(),
        }
    }

    fn add(
        &mut self,
        tree: &SchemaTree<'d>,
        at: usize,
        names: &mut HashMap<&'d str, usize>,
        without: &[&'static str],
    ) {
        let value = tree.site(at).value;
        for (keyword, inner) in value.members() {
            match keyword {
                "required" => {}
                "properties" => self.declares = true,
                _ if without.contains(&keyword) => {}
                "$ref" if !without.is_empty() => {}
                _ if !self.said.insert(keyword) => {}
                _ => self.keywords.push((keyword, inner, at)),
            }
        }
        let written = value.get("properties").map(Value::member_values).into_iter().flatten();
        let by_name: HashMap<&str, Value<'d>> =
            written.filter_map(|(name, _)| Some((name.as_str()?, name))).collect();
        for child in tree.children(at) {
            let site = tree.site(child);
            let Some(name) = site.name().filter(|_| site.role == Role::Member) else { continue };
            match names.get(name) {
                Some(place) => {
                    if let Some((_, sites)) = self.properties.get_mut(*place) {
                        sites.push(child);
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
