//! Simplified copies of input schemas for hosts that refuse more than they should.
//!
//! A copy is for the model to read; calls are still checked against the original. What the host
//! refuses is rewritten where a rewriting says the same or nearly so, and dropped otherwise; each
//! thing dropped that demanded something is reported. Words that only repeat the tool's own are
//! dropped without a report. Kept values are spliced from the original text.
//!
//! # Invariants
//! - An explicit stack, no recursion; references are inlined at most [`CHAIN`] deep.
//! - A copy is at most [`BYTES`] long; a schema whose copy would be longer is an error.

use std::borrow::Cow;
use std::fmt;

use super::compose::{Form, is_note};
use super::defect::short;
use super::host::{ROOT_COMBINATORS, leads_back};
use super::profile::{Profile, References};
use super::tighten::{Edit, apply};
use super::view::View;
use super::walk::{ROOT, Role, Target, has_type, is_object};
use super::{Finding, Look, Optional, Severity, Snapshot};
use crate::json::{Kind, Value};

/// References within references that are inlined.
const CHAIN: usize = 16;

/// Bytes of one copy. 1 MiB: ten times what the most patient host takes.
const BYTES: usize = 1 << 20;

/// A simplified text and what was lost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Simplified {
    /// The text.
    pub text: String,
    /// One note for each demand the copy no longer makes, or makes otherwise.
    pub losses: Vec<Finding>,
}

/// Why there is no simplified copy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimplifyError {
    /// The tool's name.
    pub tool: String,
}

impl fmt::Display for SimplifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the simplified input schema of {:?} would exceed {BYTES} bytes", self.tool)
    }
}

impl std::error::Error for SimplifyError {}

/// Simplifies the input schemas of a catalog for a host; everything else stays as it is.
///
/// # Errors
/// A copy would be too long, because references multiply.
pub fn simplify(snapshot: &Snapshot, profile: &'static Profile) -> Result<Simplified, SimplifyError> {
    let mut edits = Vec::new();
    let mut losses = Vec::new();
    for tool in snapshot.tools() {
        let Some(schema) = tool.get("inputSchema") else { continue };
        let mut simple = simplify_schema(schema, Some(tool), profile)?;
        if simple.text != schema.raw() {
            edits.push(Edit::replace(schema, &simple.text));
        }
        losses.append(&mut simple.losses);
    }
    Ok(Simplified { text: apply(snapshot.text(), edits), losses })
}

/// Simplifies one input schema; `tool` is the description it stands in.
///
/// # Errors
/// The copy would be too long, because references multiply.
pub fn simplify_schema(
    schema: Value<'_>,
    tool: Option<Value<'_>>,
    profile: &'static Profile,
) -> Result<Simplified, SimplifyError> {
    let look = Look::new(schema, "inputSchema", Optional::Keep);
    let text = |name| tool.and_then(|t| t.get(name)).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    let mut copy = Copy {
        look: &look,
        profile,
        titles: [text("title"), text("name")],
        description: text("description"),
        wrapped: false,
        chains: Vec::new(),
        out: String::new(),
        work: Vec::new(),
        losses: Vec::new(),
        tool: name,
    };
    copy.run();
    if copy.out.len() > BYTES {
        return Err(SimplifyError { tool: name.to_owned() });
    }
    Ok(Simplified { text: copy.out, losses: copy.losses })
}

/// What is still to be written.
enum Task<'d> {
    Text(Cow<'d, str>),
    /// A subschema, the chain of references that led to it, and whether null is to be allowed.
    Schema {
        at: usize,
        chain: usize,
        null: bool,
    },
}

struct Copy<'l, 'd> {
    look: &'l Look<'d>,
    profile: &'static Profile,
    titles: [Option<&'d str>; 2],
    description: Option<&'d str>,
    /// The root became a property of an object.
    wrapped: bool,
    /// References being inlined: the target, and the place of the one before plus one.
    chains: Vec<(usize, usize)>,
    out: String,
    work: Vec<Task<'d>>,
    losses: Vec<Finding>,
    tool: &'d str,
}

/// Members of an object in the making.
type Parts<'d> = Vec<(Cow<'d, str>, Vec<Task<'d>>)>;

fn raw<'d>(value: Value<'d>) -> Vec<Task<'d>> {
    vec![Task::Text(Cow::Borrowed(value.raw()))]
}

fn word<'d>(text: &'static str) -> Vec<Task<'d>> {
    vec![Task::Text(Cow::Borrowed(text))]
}

const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

/// Notes that no model needs.
const DROPPED_NOTES: &[&str] =
    &["$schema", "$comment", "$vocabulary", "examples", "deprecated", "readOnly", "writeOnly"];

impl<'d> Copy<'_, 'd> {
    fn run(&mut self) {
        let root = self.look.survey.site(ROOT).value;
        let other = root.kind() != Kind::Object || root.get("type").is_some() && !has_type(root, "object");
        let schema = Task::Schema { at: ROOT, chain: 0, null: false };
        if other {
            self.wrapped = true;
            self.lose(ROOT, "the root is no object, so it became the property \"value\" of one".to_owned());
            let open = "{\"type\":\"object\",\"properties\":{\"value\":";
            let end = "},\"required\":[\"value\"],\"additionalProperties\":false}";
            let end = if self.profile.refuses("additionalProperties") {
                "},\"required\":[\"value\"]}"
            } else {
                end
            };
            self.work.push(Task::Text(Cow::Borrowed(end)));
            self.work.push(schema);
            self.work.push(Task::Text(Cow::Borrowed(open)));
        } else {
            self.work.push(schema);
        }
        while let Some(task) = self.work.pop() {
            if self.out.len() > BYTES || self.work.len() > BYTES {
                self.out.push_str(&" ".repeat(BYTES));
                return;
            }
            match task {
                Task::Text(text) => self.out.push_str(&text),
                Task::Schema { at, chain, null } => self.schema(at, chain, null),
            }
        }
    }

    fn lose(&mut self, at: usize, message: String) {
        self.losses.push(Finding {
            rule: "HOST-100",
            severity: Severity::Note,
            tool: self.tool.to_owned(),
            pointer: self.look.pointer(at),
            message,
            hint: "",
            fixable: false,
            profile: Some(self.profile.id),
        });
    }

    fn in_chain(&self, target: usize, mut chain: usize) -> (bool, usize) {
        let mut length = 0;
        let mut found = false;
        while let Some((site, before)) = chain.checked_sub(1).and_then(|c| self.chains.get(c)) {
            found |= *site == target;
            chain = *before;
            length += 1;
        }
        (found, length)
    }

    fn schema(&mut self, at: usize, mut chain: usize, null: bool) {
        let survey = &self.look.survey;
        let mut here = at;
        let mut own: Vec<(&'d str, Value<'d>)> = Vec::new();
        if self.profile.references == References::Inline {
            while survey.target(here) != Target::None {
                let value = survey.site(here).value;
                // A reference beside other demands is folded with them, not followed.
                if !self.look.survey.old
                    && value.members().any(|(k, _)| !is_note(k) && !REFERENCES.contains(&k))
                {
                    let (again, length) = self.in_chain(here, chain);
                    if again || length >= CHAIN {
                        self.lose(at, "the schema contains itself; only its type was kept".to_owned());
                        return self.stub(here, &own);
                    }
                    self.chains.push((here, chain));
                    chain = self.chains.len();
                    break;
                }
                for (keyword, inner) in value.members() {
                    if matches!(keyword, "description" | "title" | "default")
                        && !own.iter().any(|(k, _)| *k == keyword)
                    {
                        own.push((keyword, inner));
                    }
                }
                let Target::Site(target) = survey.target(here) else {
                    self.lose(at, "the reference leads elsewhere and was dropped".to_owned());
                    break;
                };
                let (again, length) = self.in_chain(target, chain);
                if again || length >= CHAIN {
                    self.lose(at, "the reference leads back to itself; only its type was kept".to_owned());
                    return self.stub(target, &own);
                }
                self.chains.push((target, chain));
                chain = self.chains.len();
                here = target;
            }
        }
        if self.profile.references == References::Finite && leads_back(self.look, here) {
            self.lose(at, "the reference leads back to itself; only its type was kept".to_owned());
            let Target::Site(target) = self.look.survey.target(here) else { return };
            return self.stub(target, &own);
        }
        let value = self.look.survey.site(here).value;
        match value.as_bool() {
            Some(_) if self.profile.boolean_schemas || self.look.survey.site(here).role == Role::Extra => {
                return self.out.push_str(value.raw());
            }
            Some(verdict) => {
                if !verdict {
                    self.lose(at, "false, which forbids every value, was dropped".to_owned());
                }
                return self.out.push_str("{}");
            }
            None => {}
        }
        let view = self.view(here);
        let nullable = null && !allows_null(&view);
        let listed = nullable
            && view.get("type").is_some_and(|t| t.kind() == Kind::String)
            && view.get("const").is_none();
        let parts = self.parts(at, here, chain, &view, &own, listed);
        let mut tasks = Vec::new();
        if nullable && !listed {
            tasks.push(Task::Text(Cow::Borrowed("{\"anyOf\":[")));
        }
        object(&mut tasks, parts);
        if nullable && !listed {
            tasks.push(Task::Text(Cow::Borrowed(",{\"type\":\"null\"}]}")));
        }
        self.work.extend(tasks.into_iter().rev());
    }

    /// What is left of a schema that contains itself.
    fn stub(&mut self, target: usize, own: &[(&'d str, Value<'d>)]) {
        let value = self.look.survey.site(target).value;
        let mut parts: Parts<'d> = Vec::new();
        let kind = value.get("type").and_then(Value::as_str);
        let kind = kind.unwrap_or(if is_object(value) { "object" } else { "" });
        match kind {
            "object" => {
                parts.push(("type".into(), word("\"object\"")));
                if self.profile.needs_properties {
                    parts.push(("properties".into(), word("{}")));
                }
                if self.profile.closed {
                    parts.push(("additionalProperties".into(), word("false")));
                }
            }
            "array" => {
                parts.push(("type".into(), word("\"array\"")));
                parts.push(("items".into(), word("{}")));
            }
            _ => parts.extend(value.get("type").map(|t| ("type".into(), raw(t)))),
        }
        for (keyword, inner) in own.iter().filter(|(k, _)| *k == "description") {
            parts.push((Cow::Borrowed(keyword), raw(*inner)));
        }
        let mut tasks = Vec::new();
        object(&mut tasks, parts);
        self.work.extend(tasks.into_iter().rev());
    }

    /// The schema's keywords, folded where the host wants no combinators.
    fn view(&mut self, here: usize) -> View<'d> {
        let survey = &self.look.survey;
        let value = survey.site(here).value;
        let mut without: Vec<&'static str> = Vec::new();
        if here == ROOT && !self.wrapped && self.profile.plain_root {
            without.extend(ROOT_COMBINATORS.iter().filter(|k| value.get(k).is_some()));
        }
        if self.profile.refuses("allOf") && value.get("allOf").is_some() && !without.contains(&"allOf") {
            without.push("allOf");
        }
        if self.profile.references == References::Inline && survey.target(here) != Target::None {
            without.extend(REFERENCES.iter().filter(|k| value.get(k).is_some()));
        }
        // Where objects must be closed, what declares members of one must be one schema.
        if self.profile.closed && self.look.marks.forms[here] == Form::Composed && is_object(value) {
            let beside = ["allOf", "$ref"].into_iter().filter(|k| value.get(k).is_some());
            without.extend(beside.filter(|k| !without.contains(k)).collect::<Vec<_>>());
        }
        if without.is_empty() {
            return View::plain(survey, here);
        }
        // What is folded in must not bring back what the root has to do without.
        if here == ROOT && !self.wrapped && self.profile.plain_root {
            without.extend(ROOT_COMBINATORS);
        }
        match View::folded(survey, here, &without) {
            Some(view) => {
                self.lose(here, format!("folded into one schema: {}", view.folded.join(", ")));
                view
            }
            None => {
                self.lose(here, format!("too much to fold: {}", without.join(", ")));
                let mut view = View::plain(survey, here);
                view.keywords.retain(|(k, ..)| !without.contains(k));
                view
            }
        }
    }

    fn parts(
        &mut self,
        at: usize,
        here: usize,
        chain: usize,
        view: &View<'d>,
        own: &[(&'d str, Value<'d>)],
        null: bool,
    ) -> Parts<'d> {
        let mut parts: Parts<'d> = Vec::new();
        let site = *self.look.survey.site(at);
        let root = here == ROOT && !self.wrapped;
        if root && view.get("type").is_none_or(|t| t.kind() != Kind::String) {
            parts.push(("type".into(), word("\"object\"")));
        } else if !root && self.profile.needs_type && view.declares && view.get("type").is_none() {
            // Whoever declares members means an object.
            parts.push(("type".into(), word("\"object\"")));
        }
        let reference_alone = self.profile.references == References::Alone && view.get("$ref").is_some();
        for (keyword, inner) in own {
            if !self.profile.refuses(keyword) && !self.is_redundant(keyword, *inner, root, site.name()) {
                parts.push((Cow::Borrowed(keyword), raw(*inner)));
            }
        }
        let mut described = false;
        for (keyword, inner, from) in view.keywords.iter().copied() {
            // Members stand where the first keyword about objects stood.
            if !described && matches!(keyword, "additionalProperties" | "$defs" | "definitions") {
                described = true;
                self.members(here, chain, view, &mut parts);
            }
            let overridden = own.iter().any(|(k, _)| *k == keyword);
            if overridden
                || DROPPED_NOTES.contains(&keyword)
                || self.is_redundant(keyword, inner, root, site.name())
            {
                continue;
            }
            if reference_alone
                && keyword != "$ref"
                && !(root && matches!(keyword, "$defs" | "definitions" | "type"))
            {
                if !is_note(keyword) {
                    self.lose(at, format!("{keyword} stood beside a reference and was dropped"));
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
                let survey = &self.look.survey;
                survey.children(*from).filter(|c| survey.site(*c).keyword == *keyword).collect()
            });
            let items =
                if elements.is_empty() { word("{}") } else { self.alternatives(&elements, chain, false) };
            parts.push(("items".into(), items));
        }
        let asked = self.look.marks.asked[at];
        if self.profile.closed && !asked && (view.declares || types_of(view).contains(&"object")) {
            parts.push(("additionalProperties".into(), word("false")));
        }
        parts
    }

    /// Whether a title or a description says what is said already.
    fn is_redundant(&self, keyword: &str, inner: Value<'_>, root: bool, name: Option<&str>) -> bool {
        let Some(text) = inner.as_str() else { return false };
        match keyword {
            "title" if root => self.titles.iter().flatten().any(|t| same_words(t, text)),
            "title" => name.is_some_and(|name| same_words(name, text)),
            "description" if root => self.description.is_some_and(|d| d.contains(text.trim())),
            _ => false,
        }
    }

    /// `properties` and `required`.
    fn members(&mut self, here: usize, chain: usize, view: &View<'d>, parts: &mut Parts<'d>) {
        let object = types_of(view).contains(&"object") || here == ROOT && !self.wrapped;
        let mut kept: Vec<Value<'d>> = Vec::new();
        let mut optional: Vec<bool> = Vec::new();
        let mut inner: Parts<'d> = Vec::new();
        for (name, sites) in &view.properties {
            let forbidden = sites.iter().any(|s| self.look.survey.site(*s).value.as_bool() == Some(false));
            if forbidden && !self.profile.boolean_schemas {
                self.lose(here, format!("property {} is forbidden and was dropped", short(name.raw())));
                continue;
            }
            let required = view.required.iter().any(|n| n.as_str() == name.as_str());
            let null = self.profile.all_required && !required;
            kept.push(*name);
            optional.push(null);
            inner.push((Cow::Borrowed(""), self.alternatives(sites, chain, null)));
        }
        let empty = object && self.profile.needs_properties;
        if view.declares || empty {
            let mut tasks = vec![Task::Text(Cow::Borrowed("{"))];
            for (i, ((_, value), name)) in inner.into_iter().zip(&kept).enumerate() {
                let comma = if i == 0 { "" } else { "," };
                tasks.push(Task::Text(Cow::Owned(format!("{comma}{}:", name.raw()))));
                tasks.extend(value);
            }
            tasks.push(Task::Text(Cow::Borrowed("}")));
            parts.push(("properties".into(), tasks));
        }
        let list: Vec<&str> = if self.profile.all_required {
            kept.iter().map(|n| n.raw()).collect()
        } else {
            let dropped = |n: &Value<'d>| {
                view.properties.iter().any(|(p, _)| p.as_str() == n.as_str())
                    && !kept.iter().any(|k| k.as_str() == n.as_str())
            };
            view.required.iter().filter(|n| !dropped(n)).map(|n| n.raw()).collect()
        };
        let strict = self.profile.all_required && (view.declares || empty);
        if !list.is_empty() || strict {
            parts.push(("required".into(), vec![Task::Text(Cow::Owned(format!("[{}]", list.join(","))))]));
        }
    }

    /// One member, as several schemas may describe it.
    fn alternatives(&self, sites: &[usize], chain: usize, null: bool) -> Vec<Task<'d>> {
        let survey = &self.look.survey;
        let mut distinct: Vec<usize> = Vec::new();
        for site in sites {
            if !distinct.iter().any(|d| survey.site(*d).value.raw() == survey.site(*site).value.raw()) {
                distinct.push(*site);
            }
        }
        if let [at] = distinct.as_slice() {
            return vec![Task::Schema { at: *at, chain, null }];
        }
        // What tells alternatives apart is a constant in each: together, an enum.
        let constants: Option<Vec<&str>> = distinct
            .iter()
            .map(|at| {
                survey.site(*at).value.get("const").filter(|c| c.kind() == Kind::String).map(Value::raw)
            })
            .collect();
        if let Some(constants) = constants {
            let null = if null { ",null" } else { "" };
            let kind = if null.is_empty() { "\"string\"" } else { "[\"string\",\"null\"]" };
            let text = format!("{{\"type\":{kind},\"enum\":[{}{null}]}}", constants.join(","));
            return vec![Task::Text(Cow::Owned(text))];
        }
        let mut tasks = vec![Task::Text(Cow::Borrowed("{\"anyOf\":["))];
        for (i, at) in distinct.iter().enumerate() {
            if i > 0 {
                tasks.push(Task::Text(Cow::Borrowed(",")));
            }
            tasks.push(Task::Schema { at: *at, chain, null: false });
        }
        tasks.push(Task::Text(Cow::Borrowed(if null { ",{\"type\":\"null\"}]}" } else { "]}" })));
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
                parts.push((Cow::Borrowed(keyword), vec![Task::Text(text)]));
                return;
            }
            "type" if profile.single_type && inner.kind() == Kind::Array => {
                return self.one_type(at, view, inner, parts);
            }
            "type" if null => {
                let text = format!("[{},\"null\"]", inner.raw());
                parts.push((Cow::Borrowed(keyword), vec![Task::Text(Cow::Owned(text))]));
                return;
            }
            "enum" if profile.string_enum && inner.items().any(|i| i.kind() != Kind::String) => {
                return self.lose(at, "the enum has members that are no strings and was dropped".to_owned());
            }
            "enum" if null => {
                let mut choices: Vec<&str> = inner.items().map(Value::raw).collect();
                choices.push("null");
                let text = format!("[{}]", choices.join(","));
                parts.push((Cow::Borrowed(keyword), vec![Task::Text(Cow::Owned(text))]));
                return;
            }
            "const" if profile.refuses("const") && !(profile.string_enum && inner.kind() != Kind::String) => {
                parts.push(("enum".into(), vec![Task::Text(Cow::Owned(format!("[{}]", inner.raw())))]));
                return;
            }
            "anyOf" | "oneOf" if profile.needs_type && self.untyped(from, keyword) => {
                return self.lose(at, format!("{keyword} was dropped: its branches have no types"));
            }
            "oneOf" if profile.refuses("oneOf") && view.get("anyOf").is_none() => {
                self.lose(at, "oneOf became anyOf".to_owned());
                parts.push(("anyOf".into(), self.value_of(from, keyword, inner, chain)));
                return;
            }
            "additionalProperties" if profile.closed => {
                if inner.kind() == Kind::Object {
                    self.lose(at, "a map cannot be told: additionalProperties became false".to_owned());
                }
                return;
            }
            _ => {}
        }
        if profile.refuses(keyword) {
            if !is_note(keyword) {
                self.lose(at, format!("{keyword} was dropped"));
            }
            return;
        }
        let value = self.value_of(from, keyword, inner, chain);
        parts.push((Cow::Borrowed(keyword), value));
    }

    /// Whether no branch under a keyword says a type, so that it only adds demands.
    fn untyped(&self, from: usize, keyword: &str) -> bool {
        let survey = &self.look.survey;
        let mut branches = survey.children(from).filter(|c| survey.site(*c).keyword == keyword);
        branches.all(|c| {
            let value = survey.site(c).value;
            let says = ["type", "properties", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"];
            says.iter().all(|k| value.get(k).is_none())
        })
    }

    /// A list of types for a host that knows one type and `nullable`.
    fn one_type(&mut self, at: usize, view: &View<'d>, types: Value<'d>, parts: &mut Parts<'d>) {
        let named: Vec<Value<'d>> = types.items().filter(|t| t.as_str() != Some("null")).collect();
        let Some(first) = named.first() else { return parts.push(("type".into(), word("\"null\""))) };
        if named.len() == 1 || view.get("anyOf").is_some() {
            if named.len() > 1 {
                self.lose(at, "of several types only the first was kept".to_owned());
            }
            parts.push(("type".into(), raw(*first)));
        } else {
            let each: Vec<String> = named.iter().map(|t| format!("{{\"type\":{}}}", t.raw())).collect();
            parts.push(("anyOf".into(), vec![Task::Text(Cow::Owned(format!("[{}]", each.join(","))))]));
        }
        if named.len() < types.len() {
            parts.push(("nullable".into(), word("true")));
        }
    }

    /// The value of a keyword: schemas within it are simplified, anything else is spliced.
    fn value_of(&self, from: usize, keyword: &str, inner: Value<'d>, chain: usize) -> Vec<Task<'d>> {
        let survey = &self.look.survey;
        let sites: Vec<usize> =
            survey.children(from).filter(|c| survey.site(*c).keyword == keyword).collect();
        let schema = |at: usize| Task::Schema { at, chain, null: false };
        if sites.is_empty() {
            return raw(inner);
        }
        if sites.len() == 1 && sites.first().is_some_and(|s| survey.site(*s).value.id() == inner.id()) {
            return sites.into_iter().map(schema).collect();
        }
        let (open, close) = if inner.kind() == Kind::Array { ("[", "]") } else { ("{", "}") };
        let mut tasks = vec![Task::Text(Cow::Borrowed(open))];
        let names: Vec<Value<'d>> = inner.member_values().map(|(n, _)| n).collect();
        let values: Vec<Value<'d>> = match inner.kind() {
            Kind::Array => inner.items().collect(),
            _ => inner.member_values().map(|(_, v)| v).collect(),
        };
        for (i, value) in values.into_iter().enumerate() {
            if i > 0 {
                tasks.push(Task::Text(Cow::Borrowed(",")));
            }
            if let Some(name) = names.get(i) {
                tasks.push(Task::Text(Cow::Owned(format!("{}:", name.raw()))));
            }
            match sites.iter().find(|s| survey.site(**s).value.id() == value.id()) {
                Some(at) => tasks.push(schema(*at)),
                None => tasks.push(Task::Text(Cow::Borrowed(value.raw()))),
            }
        }
        tasks.push(Task::Text(Cow::Borrowed(close)));
        tasks
    }
}

fn object<'d>(tasks: &mut Vec<Task<'d>>, parts: Parts<'d>) {
    tasks.push(Task::Text(Cow::Borrowed("{")));
    for (i, (key, value)) in parts.into_iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let mut text = crate::json::Writer::new();
        text.string(&key);
        tasks.push(Task::Text(Cow::Owned(format!("{comma}{}:", text.as_str()))));
        tasks.extend(value);
    }
    tasks.push(Task::Text(Cow::Borrowed("}")));
}

fn types_of<'d>(view: &View<'d>) -> Vec<&'d str> {
    match view.get("type") {
        Some(t) => t.as_str().into_iter().chain(t.items().filter_map(Value::as_str)).collect(),
        None => Vec::new(),
    }
}

fn allows_null(view: &View<'_>) -> bool {
    let branch =
        |keyword| view.get(keyword).is_some_and(|list: Value<'_>| list.items().any(|b| has_type(b, "null")));
    types_of(view).contains(&"null") || branch("anyOf") || branch("oneOf")
}

/// Whether two texts differ in nothing but case, spaces and signs.
fn same_words(a: &str, b: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    plain(a) == plain(b)
}
