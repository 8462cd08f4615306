//! Keywords of a simplified schema: kept, rewritten or dropped.
//!
//! Turns the view of a schema into the members of its copy. The order of work and the bounds are in
//! `mod.rs`.
//!
//! Invariant: a dropped keyword that is not an annotation is reported.

use std::borrow::Cow;
use std::collections::HashSet;

use super::flatten::View;
use super::{Copy, Emit};
use crate::json::{Kind, Value};
use crate::lint::composition::is_annotation;
use crate::lint::profile::References;
use crate::lint::tree::{ROOT, has_type};
use crate::lint::validity_rules::short;

/// Members of an object under construction.
pub(super) type Parts<'d> = Vec<(Cow<'d, str>, Vec<Emit<'d>>)>;

pub(super) fn raw<'d>(value: Value<'d>) -> Vec<Emit<'d>> {
    vec![Emit::Text(Cow::Borrowed(value.raw()))]
}

pub(super) fn word<'d>(text: &'static str) -> Vec<Emit<'d>> {
    vec![Emit::Text(Cow::Borrowed(text))]
}

/// Annotations that models do not need.
const DROPPED_NOTES: &[&str] =
    &["$schema", "$comment", "$vocabulary", "examples", "deprecated", "readOnly", "writeOnly"];

impl<'d> Copy<'_, 'd> {
    pub(super) fn parts(
        &mut self,
        at: usize,
        here: usize,
        chain: usize,
        view: &View<'d>,
        own: &[(&'d str, Value<'d>)],
        null: bool,
    ) -> Parts<'d> {
        let mut parts: Parts<'d> = Vec::new();
        let node = *self.analysis.tree.node(at);
        let root = here == ROOT && !self.wrapped;
        if root && view.get("type").is_none_or(|t| t.kind() != Kind::String) {
            parts.push(("type".into(), word("\"object\"")));
        } else if !root && self.profile.needs_type && view.declares && view.get("type").is_none() {
            // A schema with declared members describes an object.
            parts.push(("type".into(), word("\"object\"")));
        }
        let reference_alone = self.profile.references == References::Alone && view.get("$ref").is_some();
        for (keyword, inner) in own {
            if !self.profile.refuses(keyword) && !self.is_redundant(keyword, *inner, root, node.name()) {
                parts.push((Cow::Borrowed(keyword), raw(*inner)));
            }
        }
        let mut described = false;
        for (keyword, inner, from) in view.keywords.iter().copied() {
            // `properties` is written where the first keyword about objects was.
            if !described && matches!(keyword, "additionalProperties" | "$defs" | "definitions") {
                described = true;
                self.members(here, chain, view, &mut parts);
            }
            if root && keyword == "type" && inner.kind() != Kind::String {
                // The type is written first.
                self.report_loss(at, "kept only object of the types of the root".to_owned());
                continue;
            }
            let overridden = own.iter().any(|(k, _)| *k == keyword);
            if overridden
                || DROPPED_NOTES.contains(&keyword)
                || self.is_redundant(keyword, inner, root, node.name())
            {
                continue;
            }
            if reference_alone
                && keyword != "$ref"
                && !(root && matches!(keyword, "$defs" | "definitions" | "type"))
            {
                if !is_annotation(keyword) {
                    self.report_loss(at, format!("dropped {keyword} beside a reference"));
                }
                continue;
            }
            self.keyword(at, from, chain, view, (keyword, inner), null, &mut parts);
        }
        if !described {
            self.members(here, chain, view, &mut parts);
        }
        let array = view.get("type").is_some_and(|t| t.as_str() == Some("array"));
        if self.profile.needs_items && array && view.get("items").is_none() {
            let tuple = view.keywords.iter().find(|(k, ..)| *k == "prefixItems");
            let tuple = tuple.filter(|_| self.profile.refuses("prefixItems"));
            let elements: Vec<usize> = tuple.map_or(Vec::new(), |(keyword, _, from)| {
                let tree = &self.analysis.tree;
                tree.children(*from).filter(|c| tree.node(*c).keyword == *keyword).collect()
            });
            let items =
                if elements.is_empty() { word("{}") } else { self.alternatives(&elements, chain, false) };
            parts.push(("items".into(), items));
        }
        let asked = self.analysis.marks.conditional[at];
        let closes = self.profile.closed && !asked && view.get("$ref").is_none();
        if closes && (view.declares || types_of(view).contains(&"object")) {
            parts.push(("additionalProperties".into(), word("false")));
        }
        parts
    }

    /// Returns `true` if a title or a description repeats the name, title or description of its
    /// owner.
    fn is_redundant(&self, keyword: &str, inner: Value<'_>, root: bool, name: Option<&str>) -> bool {
        let Some(text) = inner.as_str() else { return false };
        match keyword {
            "title" if root => self.titles.iter().flatten().any(|t| same_words(t, text)),
            "title" => name.is_some_and(|name| same_words(name, text)),
            "description" if root => self.description.is_some_and(|d| d.contains(text.trim())),
            _ => false,
        }
    }

    /// Writes `properties` and `required`.
    fn members(&mut self, here: usize, chain: usize, view: &View<'d>, parts: &mut Parts<'d>) {
        let alone = types_of(view).contains(&"object") && view.get("$ref").is_none();
        let object = alone || here == ROOT && !self.wrapped;
        let mut kept: Vec<Value<'d>> = Vec::new();
        let mut optional: Vec<bool> = Vec::new();
        let mut inner: Parts<'d> = Vec::new();
        let mut dropped = HashSet::new();
        for (name, nodes) in &view.properties {
            let forbidden = nodes.iter().any(|s| self.analysis.tree.node(*s).value.as_bool() == Some(false));
            if forbidden && !self.profile.boolean_schemas {
                self.report_loss(here, format!("dropped the forbidden property {}", short(name.raw())));
                dropped.insert(name.as_str());
                continue;
            }
            let required = name.as_str().is_some_and(|name| view.needed.contains(name));
            let null = self.profile.all_required && !required;
            kept.push(*name);
            optional.push(null);
            inner.push((Cow::Borrowed(""), self.alternatives(nodes, chain, null)));
        }
        let empty = object && self.profile.needs_properties;
        if view.declares || empty {
            let mut tasks = vec![Emit::Text(Cow::Borrowed("{"))];
            for (i, ((_, value), name)) in inner.into_iter().zip(&kept).enumerate() {
                let comma = if i == 0 { "" } else { "," };
                tasks.push(Emit::Text(Cow::Owned(format!("{comma}{}:", name.raw()))));
                tasks.extend(value);
            }
            tasks.push(Emit::Text(Cow::Borrowed("}")));
            parts.push(("properties".into(), tasks));
        }
        let list: Vec<&str> = if self.profile.all_required {
            kept.iter().map(|n| n.raw()).collect()
        } else {
            view.required.iter().filter(|n| !dropped.contains(&n.as_str())).map(|n| n.raw()).collect()
        };
        let strict = self.profile.all_required && (view.declares || empty);
        if !list.is_empty() || strict {
            parts.push(("required".into(), vec![Emit::Text(Cow::Owned(format!("[{}]", list.join(","))))]));
        }
    }

    /// One member that several schemas describe.
    fn alternatives(&self, nodes: &[usize], chain: usize, null: bool) -> Vec<Emit<'d>> {
        let tree = &self.analysis.tree;
        let mut distinct: Vec<usize> = Vec::new();
        for node in nodes {
            if !distinct.iter().any(|d| tree.node(*d).value.raw() == tree.node(*node).value.raw()) {
                distinct.push(*node);
            }
        }
        if let [at] = distinct.as_slice() {
            return vec![Emit::Schema { at: *at, chain, null }];
        }
        // Constants distinguish the alternatives; together they are an enum.
        let constants: Option<Vec<&str>> = distinct
            .iter()
            .map(|at| tree.node(*at).value.get("const").filter(|c| c.kind() == Kind::String).map(Value::raw))
            .collect();
        if let Some(constants) = constants {
            let null = if null { ",null" } else { "" };
            let kind = if null.is_empty() { "\"string\"" } else { "[\"string\",\"null\"]" };
            let text = format!("{{\"type\":{kind},\"enum\":[{}{null}]}}", constants.join(","));
            return vec![Emit::Text(Cow::Owned(text))];
        }
        let mut tasks = vec![Emit::Text(Cow::Borrowed("{\"anyOf\":["))];
        for (i, at) in distinct.iter().enumerate() {
            if i > 0 {
                tasks.push(Emit::Text(Cow::Borrowed(",")));
            }
            tasks.push(Emit::Schema { at: *at, chain, null: false });
        }
        tasks.push(Emit::Text(Cow::Borrowed(if null { ",{\"type\":\"null\"}]}" } else { "]}" })));
        tasks
    }

    #[allow(clippy::too_many_arguments)] // OK because they are the state of one loop.
    fn keyword(
        &mut self,
        at: usize,
        from: usize,
        chain: usize,
        view: &View<'d>,
        (keyword, inner): (&'d str, Value<'d>),
        null: bool,
        parts: &mut Parts<'d>,
    ) {
        let profile = self.profile;
        let inlined = profile.references == References::Inline;
        match keyword {
            "$defs" | "definitions" | "$ref" | "$dynamicRef" | "$anchor" | "$dynamicAnchor" if inlined => {
                return;
            }
            "$ref" if self.wrapped => {
                let moved = inner.as_str().and_then(|r| r.strip_prefix('#')).map(|rest| match rest {
                    "" => "\"#/properties/value\"".to_owned(),
                    _ if rest.starts_with('/') => inner.raw().replacen('#', "#/properties/value", 1),
                    _ => inner.raw().to_owned(),
                });
                let text = moved.map_or(Cow::Borrowed(inner.raw()), Cow::Owned);
                parts.push((Cow::Borrowed(keyword), vec![Emit::Text(text)]));
                return;
            }
            "type" if profile.single_type && inner.kind() == Kind::Array => {
                return self.one_type(at, view, inner, parts);
            }
            "type" if null => {
                let text = format!("[{},\"null\"]", inner.raw());
                parts.push((Cow::Borrowed(keyword), vec![Emit::Text(Cow::Owned(text))]));
                return;
            }
            "enum" if profile.string_enum && inner.items().any(|i| i.kind() != Kind::String) => {
                return self.report_loss(at, "dropped an enum with values that are not strings".to_owned());
            }
            "enum" if null => {
                let mut choices: Vec<&str> = inner.items().map(Value::raw).collect();
                choices.push("null");
                let text = format!("[{}]", choices.join(","));
                parts.push((Cow::Borrowed(keyword), vec![Emit::Text(Cow::Owned(text))]));
                return;
            }
            "const" if profile.refuses("const") && !(profile.string_enum && inner.kind() != Kind::String) => {
                parts.push(("enum".into(), vec![Emit::Text(Cow::Owned(format!("[{}]", inner.raw())))]));
                return;
            }
            "anyOf" | "oneOf" if profile.needs_type && self.untyped(from, keyword) => {
                return self.report_loss(at, format!("dropped {keyword}: its branches have no types"));
            }
            "oneOf" if profile.refuses("oneOf") && view.get("anyOf").is_none() => {
                self.report_loss(at, "oneOf became anyOf".to_owned());
                parts.push(("anyOf".into(), self.value_of(from, keyword, inner, chain)));
                return;
            }
            "additionalProperties" if profile.closed => {
                if inner.kind() == Kind::Object {
                    self.report_loss(
                        at,
                        "maps are not supported: additionalProperties became false".to_owned(),
                    );
                }
                return;
            }
            _ => {}
        }
        if profile.refuses(keyword) {
            if !is_annotation(keyword) {
                self.report_loss(at, format!("dropped {keyword}"));
            }
            return;
        }
        let value = self.value_of(from, keyword, inner, chain);
        parts.push((Cow::Borrowed(keyword), value));
    }

    /// Returns `true` if no branch under a keyword has a type, so that the branches only add
    /// constraints.
    fn untyped(&self, from: usize, keyword: &str) -> bool {
        let tree = &self.analysis.tree;
        let mut branches = tree.children(from).filter(|c| tree.node(*c).keyword == keyword);
        branches.all(|c| {
            let value = tree.node(c).value;
            let typed = ["type", "properties", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"];
            typed.iter().all(|k| value.get(k).is_none())
        })
    }

    /// A list of types, for a host that accepts one type and `nullable`.
    fn one_type(&mut self, at: usize, view: &View<'d>, types: Value<'d>, parts: &mut Parts<'d>) {
        let named: Vec<Value<'d>> = types.items().filter(|t| t.as_str() != Some("null")).collect();
        let Some(first) = named.first() else { return parts.push(("type".into(), word("\"null\""))) };
        if named.len() == 1 || view.get("anyOf").is_some() {
            if named.len() > 1 {
                self.report_loss(at, "kept only the first of several types".to_owned());
            }
            parts.push(("type".into(), raw(*first)));
        } else {
            let each: Vec<String> = named.iter().map(|t| format!("{{\"type\":{}}}", t.raw())).collect();
            parts.push(("anyOf".into(), vec![Emit::Text(Cow::Owned(format!("[{}]", each.join(","))))]));
        }
        if named.len() < types.len() {
            parts.push(("nullable".into(), word("true")));
        }
    }

    /// The value of a keyword. Subschemas in it are simplified, other values are spliced.
    fn value_of(&self, from: usize, keyword: &str, inner: Value<'d>, chain: usize) -> Vec<Emit<'d>> {
        let tree = &self.analysis.tree;
        let nodes: Vec<usize> = tree.children(from).filter(|c| tree.node(*c).keyword == keyword).collect();
        let schema = |at: usize| Emit::Schema { at, chain, null: false };
        if nodes.is_empty() {
            return raw(inner);
        }
        if nodes.len() == 1 && nodes.first().is_some_and(|s| tree.node(*s).value.id() == inner.id()) {
            return nodes.into_iter().map(schema).collect();
        }
        let (open, close) = if inner.kind() == Kind::Array { ("[", "]") } else { ("{", "}") };
        let mut tasks = vec![Emit::Text(Cow::Borrowed(open))];
        let names: Vec<Value<'d>> = inner.member_values().map(|(n, _)| n).collect();
        let values: Vec<Value<'d>> = match inner.kind() {
            Kind::Array => inner.items().collect(),
            _ => inner.member_values().map(|(_, v)| v).collect(),
        };
        for (i, value) in values.into_iter().enumerate() {
            if i > 0 {
                tasks.push(Emit::Text(Cow::Borrowed(",")));
            }
            if let Some(name) = names.get(i) {
                tasks.push(Emit::Text(Cow::Owned(format!("{}:", name.raw()))));
            }
            match tree.node_of(value) {
                Some(at) => tasks.push(schema(at)),
                None => tasks.push(Emit::Text(Cow::Borrowed(value.raw()))),
            }
        }
        tasks.push(Emit::Text(Cow::Borrowed(close)));
        tasks
    }
}

pub(super) fn object<'d>(tasks: &mut Vec<Emit<'d>>, parts: Parts<'d>) {
    tasks.push(Emit::Text(Cow::Borrowed("{")));
    for (i, (key, value)) in parts.into_iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let mut text = crate::json::Writer::new();
        text.string(&key);
        tasks.push(Emit::Text(Cow::Owned(format!("{comma}{}:", text.as_str()))));
        tasks.extend(value);
    }
    tasks.push(Emit::Text(Cow::Borrowed("}")));
}

pub(super) fn types_of<'d>(view: &View<'d>) -> Vec<&'d str> {
    match view.get("type") {
        Some(t) => t.as_str().into_iter().chain(t.items().filter_map(Value::as_str)).collect(),
        None => Vec::new(),
    }
}

pub(super) fn allows_null(view: &View<'_>) -> bool {
    let branch =
        |keyword| view.get(keyword).is_some_and(|list: Value<'_>| list.items().any(|b| has_type(b, "null")));
    types_of(view).contains(&"null") || branch("anyOf") || branch("oneOf")
}

/// Returns `true` if two texts differ only in case, spaces and punctuation.
fn same_words(a: &str, b: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    plain(a) == plain(b)
}
