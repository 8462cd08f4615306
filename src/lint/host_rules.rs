//! The HOST rules: what one host refuses (critical) or deletes before its model sees it (warning).
//!
//! Everything is read from the host's row in `profile.rs`; ids are common to all hosts. The hints
//! point to the simplified form where that settles the matter.
//!
//! Invariant: one look at each site, counts aside.

use std::collections::HashSet;

use super::profile::{Names, Profile, References};
use super::rules::Hits;
use super::tree::{ROOT, Role, Target, has_type, is_object};
use super::{Look, Severity, validity_rules};
use crate::json::{Kind, Value};

const SIMPLIFY: &str = "the simplified form for this host settles it";

/// Keywords that hosts do not want at the root.
pub(super) const ROOT_COMBINATORS: &[&str] =
    &["oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else"];

struct Teller<'a> {
    profile: &'static Profile,
    hits: &'a mut Hits,
    look: &'a Look<'a>,
}

impl Teller<'_> {
    fn say(
        &mut self,
        rule: &'static str,
        severity: Severity,
        hint: &'static str,
        at: usize,
        message: String,
    ) {
        let offset = self.look.tree.site(at).value.offset();
        let pointer = self.look.pointer(at);
        self.hits.add(rule, severity, hint, Some(self.profile.id), false, offset, pointer, message);
    }

    fn refuses(&mut self, rule: &'static str, at: usize, message: impl Into<String>) {
        self.say(rule, Severity::Critical, SIMPLIFY, at, message.into());
    }
}

/// What concerns a tool as a whole.
pub(super) fn tool(profile: &'static Profile, tool: Value<'_>, index: usize, hits: &mut Hits) {
    if index >= profile.tools {
        hits.add(
            "HOST-017",
            Severity::Warning,
            "offer fewer tools at once",
            Some(profile.id),
            false,
            tool.offset(),
            String::new(),
            format!("{} takes {} tools, this is one more", profile.id, profile.tools),
        );
    }
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.len() > profile.tool_name {
        hits.add(
            "HOST-014",
            Severity::Critical,
            "choose a shorter name",
            Some(profile.id),
            false,
            tool.offset(),
            "/name".to_owned(),
            format!("the name has {} bytes, {} takes {}", name.len(), profile.id, profile.tool_name),
        );
    }
    let length = tool.get("description").and_then(Value::as_str).map_or(0, |d| d.chars().count());
    if length > profile.description {
        hits.add(
            "HOST-012",
            Severity::Warning,
            "say the important things first",
            Some(profile.id),
            false,
            tool.offset(),
            "/description".to_owned(),
            format!("{} cuts the description after {} characters", profile.id, profile.description),
        );
    }
}

/// What concerns one schema. Output schemas reach clients, not models: only their dialect matters.
pub(super) fn schema(profile: &'static Profile, look: &Look<'_>, tool: Value<'_>, hits: &mut Hits) {
    let mut tell = Teller { profile, hits, look };
    let root = look.tree.site(ROOT).value;
    if look.which == "outputSchema" {
        if profile.modern_output && look.tree.old {
            tell.say(
                "HOST-005",
                Severity::Critical,
                "leave $schema out, or name draft 2020-12",
                ROOT,
                format!("{} refuses tools whose outputSchema names an old draft", profile.id),
            );
        }
        return;
    }
    if profile.plain_root {
        for keyword in ROOT_COMBINATORS.iter().filter(|k| root.get(k).is_some()) {
            tell.refuses("HOST-001", ROOT, format!("{keyword} stands at the root"));
        }
    }
    for (keyword, text) in
        [("title", tool.get("title").or(tool.get("name"))), ("description", tool.get("description"))]
    {
        let said = root.get(keyword).and_then(Value::as_str);
        if said.is_some() && said == text.and_then(Value::as_str) {
            tell.say(
                "HOST-013",
                Severity::Note,
                SIMPLIFY,
                ROOT,
                format!("the root's {keyword} repeats the tool's"),
            );
        }
    }
    let (mut properties, mut optional) = (0_usize, 0_usize);
    for at in 0..look.tree.sites.len() {
        site(&mut tell, at);
        let value = look.tree.site(at).value;
        let members = value.get("properties").map_or(0, Value::len);
        properties += members;
        optional += members.saturating_sub(value.get("required").map_or(0, Value::len));
    }
    budget(&mut tell, properties, optional);
}

fn budget(tell: &mut Teller<'_>, properties: usize, optional: usize) {
    let profile = tell.profile;
    let tree = &tell.look.tree;
    let mut depths = vec![0_usize; tree.sites.len()];
    for at in 1..depths.len() {
        let deeper =
            matches!(tree.site(at).role, Role::Member | Role::Item | Role::Extra | Role::PatternMember);
        depths[at] = depths[tree.parent(at)] + usize::from(deeper);
    }
    let deepest = depths.into_iter().max().unwrap_or(0);
    let over = [
        ("properties", properties, profile.properties),
        ("optional properties", optional, profile.optional),
        ("levels", deepest, profile.depth),
    ];
    for (what, count, most) in over {
        if count > most {
            tell.say(
                "HOST-011",
                Severity::Critical,
                "split the tool",
                ROOT,
                format!("{count} {what}, {} takes {most}", profile.id),
            );
        }
    }
}

fn site(tell: &mut Teller<'_>, at: usize) {
    let (profile, tree) = (tell.profile, &tell.look.tree);
    let site = *tree.site(at);
    let schema = site.value;
    if schema.kind() == Kind::Bool {
        // `additionalProperties: false` is how hosts want objects closed.
        if !profile.boolean_schemas && site.role != Role::Extra {
            tell.refuses("HOST-007", at, "a boolean stands for a schema");
        }
        return;
    }
    if at == ROOT && !has_type(schema, "object") {
        tell.refuses("HOST-001", at, "the root does not say \"type\": \"object\"");
    }
    if profile.needs_properties && has_type(schema, "object") && schema.get("properties").is_none() {
        tell.refuses("HOST-002", at, "the object has no properties member");
    }
    if profile.needs_items && has_type(schema, "array") && schema.get("items").is_none() {
        tell.refuses("HOST-003", at, "the array has no items");
    }
    if let (Some(names), Role::Member, Some(name)) = (profile.names, site.role, site.name()) {
        if !names.allow(name) {
            let charset = match names {
                Names::Token => "1 to 64 of letters, digits, _ . -",
                Names::Identifier => "an identifier of at most 64 bytes",
            };
            let message = format!("the property name {:?} is not {charset}", validity_rules::short(name));
            tell.say("HOST-004", Severity::Critical, "rename the property", at, message);
        }
    }
    let says =
        ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"].iter().any(|k| schema.get(k).is_some());
    if profile.needs_type && !says && site.role != Role::Definition {
        let message = "the schema says no type".to_owned();
        tell.say("HOST-006", Severity::Critical, "give it a type", at, message);
    }
    if profile.single_type && schema.get("type").is_some_and(|t| t.kind() == Kind::Array) {
        tell.refuses("HOST-008", at, "type is a list");
    }
    reference(tell, at, schema);
    if profile.string_enum && schema.get("enum").is_some_and(|e| e.items().any(|i| i.kind() != Kind::String))
    {
        tell.refuses("HOST-010", at, "the enum has members that are no strings");
    }
    if profile.closed
        && !tell.look.marks.conditional[at]
        && is_object(schema)
        && schema.get("additionalProperties").and_then(Value::as_bool) != Some(false)
    {
        tell.refuses("HOST-015", at, "the object does not say \"additionalProperties\": false");
    }
    if profile.all_required {
        let required = schema.get("required").map(Value::items).into_iter().flatten();
        let listed: HashSet<&str> = required.filter_map(Value::as_str).collect();
        let mut properties = schema.get("properties").map(Value::members).into_iter().flatten();
        if let Some((name, _)) = properties.find(|(name, _)| !listed.contains(name)) {
            tell.refuses(
                "HOST-016",
                at,
                format!("property {:?} is not required", validity_rules::short(name)),
            );
        }
    }
    let refused: Vec<&str> = schema.members().map(|(k, _)| k).filter(|k| profile.refuses(k)).collect();
    if !refused.is_empty() {
        tell.refuses("HOST-010", at, format!("{} refuses {}", profile.id, refused.join(", ")));
    }
    let ignored: Vec<&str> = schema.members().map(|(k, _)| k).filter(|k| profile.ignores(k)).collect();
    if !ignored.is_empty() {
        let message = format!("{} deletes {}", profile.id, ignored.join(", "));
        tell.say("HOST-020", Severity::Warning, "say it in the description as well", at, message);
    }
}

fn reference(tell: &mut Teller<'_>, at: usize, schema: Value<'_>) {
    if tell.look.tree.target(at) == Target::None {
        return;
    }
    match tell.profile.references {
        References::Keep => {}
        References::Alone if schema.len() == 1 => {}
        References::Alone => tell.refuses("HOST-009", at, "other keywords stand beside $ref"),
        References::Inline => tell.refuses("HOST-009", at, "references are not understood"),
        References::Finite => {
            if leads_back(tell.look, at) {
                let message = "the reference leads back to itself".to_owned();
                tell.say("HOST-009", Severity::Critical, SIMPLIFY, at, message);
            }
        }
    }
}

/// Whether following a site's reference leads to the site again.
pub(super) fn leads_back(look: &Look<'_>, at: usize) -> bool {
    let Target::Site(target) = look.tree.target(at) else { return false };
    look.cycles()[at] == look.cycles()[target]
}
