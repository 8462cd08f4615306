//! Marks for subschemas that describe their value together with other schemas.
//!
//! `additionalProperties: false` is right only where one schema declares all members of an object.
//! Combinators, references beside other keywords, and overlapping patterns apply several schemas to
//! one value. This module finds them; it changes nothing.
//!
//! # Invariants
//! - In doubt a subschema is marked as shared. The fix never changes a shared subschema.
//! - Marks are only ever added, so each subschema is queued at most once for each mark.
//! - A group holds at most [`MAX_GROUP`] subschemas, so the cost is bounded by the size of the
//!   schema.

use std::collections::HashSet;

use super::tree::{ROOT, Role, SchemaTree, Target, is_object};
use crate::json::{Kind, Value};

/// Largest number of subschemas in a [`Group`].
const MAX_GROUP: usize = 250;

/// Relation of a subschema to the schemas within it that apply to the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// No other schema applies to the value.
    Plain,
    /// Only a reference, or an `allOf` with one element.
    Wrapper,
    /// Only alternatives, each of which is a complete schema.
    Union,
    /// Has its own keywords, and other schemas apply as well.
    Composed,
}

/// The marks of all subschemas, by index.
pub(super) struct Marks {
    pub forms: Vec<Layout>,
    /// Another schema may constrain the same members or elements.
    pub shared: Vec<bool>,
    /// Within a condition (`if`, `not`, `contains`), where a stricter schema can make the whole
    /// laxer.
    pub conditional: Vec<bool>,
    /// Applied to some part of a value, directly or by a reference.
    pub reachable: Vec<bool>,
}

/// Returns `true` if a keyword is an annotation or a container of definitions.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "title"
            | "description"
            | "default"
            | "examples"
            | "example"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "$comment"
            | "$schema"
            | "$id"
            | "$anchor"
            | "$dynamicAnchor"
            | "$defs"
            | "definitions"
            | "$vocabulary"
    ) || keyword.starts_with("x-")
}

impl Marks {
    pub(super) fn new(tree: &SchemaTree<'_>) -> Marks {
        let count = tree.nodes.len();
        let mut marks = Marks {
            forms: (0..count).map(|at| form(tree, at)).collect(),
            shared: vec![tree.rebased; count],
            conditional: vec![false; count],
            reachable: reachable(tree),
        };
        let mut work: Vec<usize> = (0..count).rev().collect();
        while let Some(at) = work.pop() {
            marks.propagate(tree, at, &mut work);
        }
        marks
    }

    fn share(&mut self, at: usize, work: &mut Vec<usize>) {
        if !self.shared[at] {
            self.shared[at] = true;
            work.push(at);
        }
    }

    /// Marks the children and the target of one subschema.
    fn propagate(&mut self, tree: &SchemaTree<'_>, at: usize, work: &mut Vec<usize>) {
        let (shared, conditional) = (self.shared[at], self.conditional[at]);
        let composed = self.forms[at] == Layout::Composed;
        if let Target::Node(target) = tree.target(at) {
            if shared || conditional || composed {
                self.share(target, work);
            }
        }
        let overlap = !shared && composed && constrained_elsewhere(tree, at);
        let value = tree.node(at).value;
        let patterns = value.get("patternProperties").map_or(0, Value::len);
        let members = value.get("properties").map_or(0, Value::len);
        for child in tree.children(at) {
            let role = tree.node(child).role;
            // A definition applies where a reference names it, not where it is written.
            if role == Role::Definition {
                continue;
            }
            if (conditional || role == Role::Condition) && !self.conditional[child] {
                self.conditional[child] = true;
                work.push(child);
            }
            let together = match role {
                Role::Branch => composed,
                Role::Member => overlap || patterns > 0,
                Role::PatternMember => overlap || patterns > 1 || members > 0,
                _ => overlap,
            };
            if shared || together {
                self.share(child, work);
            }
        }
    }
}

/// Returns `true` if another schema of the group of a subschema has keywords for members or
/// elements.
fn constrained_elsewhere(tree: &SchemaTree<'_>, at: usize) -> bool {
    const KEYWORDS: &[&str] = &[
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
    ];
    Group::of(tree, at).is_none_or(|group| {
        let mut others = group.nodes.iter().skip(1).map(|other| tree.node(*other).value);
        others.any(|other| KEYWORDS.iter().any(|keyword| other.get(keyword).is_some()))
    })
}

fn form(tree: &SchemaTree<'_>, at: usize) -> Layout {
    let value = tree.node(at).value;
    let reference = tree.target(at) != Target::None;
    let mut branches = 0;
    let mut found = [false; 3];
    for child in tree.children(at) {
        match tree.node(child).keyword {
            "allOf" => found[0] = true,
            "anyOf" => found[1] = true,
            "oneOf" => found[2] = true,
            "then" | "else" | "dependentSchemas" | "dependencies" | "if" | "not" => return Layout::Composed,
            _ => continue,
        }
        branches += 1;
    }
    if reference && tree.old {
        return Layout::Wrapper;
    }
    if !reference && branches == 0 {
        return Layout::Plain;
    }
    let kinds = found.iter().filter(|f| **f).count() + usize::from(reference);
    let bare = value.members().all(|(keyword, _)| {
        is_annotation(keyword)
            || matches!(
                keyword,
                "type" | "allOf" | "anyOf" | "oneOf" | "$ref" | "$dynamicRef" | "$recursiveRef"
            )
    });
    if !bare || kinds != 1 {
        return Layout::Composed;
    }
    if reference || found[0] && branches == 1 {
        return if value.get("$ref").is_some() || found[0] { Layout::Wrapper } else { Layout::Composed };
    }
    let complete = |child: usize| {
        let value = tree.node(child).value;
        value.kind() == Kind::Bool
            || ["type", "properties", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"]
                .iter()
                .any(|k| value.get(k).is_some())
    };
    let mut branches = tree.children(at).filter(|c| tree.node(*c).role == Role::Branch);
    if !found[0] && branches.all(complete) { Layout::Union } else { Layout::Composed }
}

/// Marks the subschemas that apply to some part of a value. All of them, if a dynamic reference or
/// a base URI makes the targets uncertain.
fn reachable(tree: &SchemaTree<'_>) -> Vec<bool> {
    let count = tree.nodes.len();
    let dynamic = |at: usize| {
        let value = tree.node(at).value;
        value.get("$dynamicRef").is_some() || value.get("$recursiveRef").is_some()
    };
    if tree.rebased || (0..count).any(dynamic) {
        return vec![true; count];
    }
    let mut reached = vec![false; count];
    let mut work = vec![ROOT];
    while let Some(at) = work.pop() {
        if std::mem::replace(&mut reached[at], true) {
            continue;
        }
        if let Target::Node(target) = tree.target(at) {
            work.push(target);
        }
        work.extend(tree.children(at).filter(|child| {
            let node = tree.node(*child);
            node.role != Role::Definition || node.keyword == "contentSchema"
        }));
    }
    reached
}

/// A subschema and all schemas that apply to the same value because of it.
pub(super) struct Group {
    /// The first one is the subschema itself.
    pub nodes: Vec<usize>,
}

impl Group {
    /// Returns `None` if the group is larger than [`MAX_GROUP`].
    pub(super) fn of(tree: &SchemaTree<'_>, at: usize) -> Option<Group> {
        let mut nodes = vec![at];
        let mut seen = HashSet::from([at]);
        let mut next = 0;
        while next < nodes.len() {
            let here = nodes[next];
            if let Target::Node(target) = tree.target(here) {
                if seen.insert(target) {
                    nodes.push(target);
                }
            }
            for child in tree.children(here) {
                let node = tree.node(child);
                let applies = node.role == Role::Branch || matches!(node.keyword, "if" | "not");
                if applies && seen.insert(child) {
                    nodes.push(child);
                }
            }
            if nodes.len() > MAX_GROUP {
                return None;
            }
            next += 1;
        }
        Some(Group { nodes })
    }

    /// Returns `true` if the group as a whole describes objects.
    pub(super) fn is_object(&self, tree: &SchemaTree<'_>) -> bool {
        let first = self.nodes.first().is_some_and(|at| is_object(tree.node(*at).value));
        let typed = self.nodes.first().is_some_and(|at| tree.node(*at).value.get("type").is_some());
        first || !typed && self.nodes.iter().any(|at| is_object(tree.node(*at).value))
    }
}

/// Returns `true` if a schema rejects or constrains members that it does not declare.
pub(super) fn is_closed(schema: Value<'_>) -> bool {
    ["additionalProperties", "unevaluatedProperties"].iter().any(|keyword| match schema.get(keyword) {
        Some(extra) => extra.as_bool() == Some(false) || extra.members().any(|(k, _)| !is_annotation(k)),
        None => false,
    })
}

/// Returns `true` if a subschema, or one that applies it to the same value, is closed.
pub(super) fn is_closed_from_above(tree: &SchemaTree<'_>, at: usize) -> bool {
    let mut here = at;
    loop {
        if is_closed(tree.node(here).value) {
            return true;
        }
        if here == ROOT || tree.node(here).role != Role::Branch {
            return false;
        }
        here = tree.parent(here);
    }
}

/// A number for each subschema; two have the same number if each leads to the other by references
/// and as parts. These are the strongly connected components, found in one walk (R. Tarjan, 1972).
pub(super) fn cycles(tree: &SchemaTree<'_>) -> Vec<usize> {
    let next = |at: usize| -> Vec<usize> {
        let inner = tree.children(at).filter(|c| tree.node(*c).role != Role::Definition);
        let target = match tree.target(at) {
            Target::Node(target) => Some(target),
            _ => None,
        };
        inner.chain(target).collect()
    };
    let count = tree.nodes.len();
    // The order in which subschemas are first visited, and the earliest one that each leads to;
    // both start at 1.
    let (mut visited, mut low, mut cycle) = (vec![0; count], vec![0; count], vec![0; count]);
    let (mut last, mut open, mut path) = (0, Vec::new(), Vec::new());
    for start in 0..count {
        let mut enter = Some(start).filter(|start| visited[*start] == 0);
        loop {
            if let Some(at) = enter.take() {
                last += 1;
                (visited[at], low[at]) = (last, last);
                open.push(at);
                path.push((at, next(at)));
            }
            let Some((at, left)) = path.last_mut() else { break };
            let at = *at;
            match left.pop() {
                Some(to) if visited[to] == 0 => enter = Some(to),
                Some(to) if cycle[to] == 0 => low[at] = low[at].min(visited[to]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((before, _)) = path.last() {
                        low[*before] = low[*before].min(low[at]);
                    }
                    while low[at] == visited[at] && cycle[at] == 0 {
                        let Some(node) = open.pop() else { break };
                        cycle[node] = visited[at];
                    }
                }
            }
        }
    }
    cycle
}
