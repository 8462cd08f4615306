//! Rules for single hosts: schemas that a host refuses (critical) or strips (warning).
//!
//! The limits of each host are in `profile.rs`; all hosts share the rule ids. The hints point to
//! the simplified copy if it solves the problem.
//!
//! Invariant: one pass over the nodes of a schema.

use std::collections::HashSet;

use super::profile::{Names, Profile, References};
use super::rules::ToolFindings;
use super::tree::{ROOT, Role, Target, has_type, is_object};
use super::{SchemaAnalysis, Severity, validity_rules};
use crate::json::{Kind, Value};

const SIMPLIFY: &str = "use the simplified copy for this host";

/// Keywords that hosts refuse at the root.
pub(super) const ROOT_COMBINATORS: &[&str] =
    &["oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else"];

struct Reporter<'a> {
    profile: &'static Profile,
    findings: &'a mut ToolFindings,
    analysis: &'a SchemaAnalysis<'a>,
}

impl Reporter<'_> {
    fn report(
        &mut self,
        rule: &'static str,
        severity: Severity,
        hint: &'static str,
        at: usize,
        message: String,
    ) {
        let offset = self.analysis.tree.node(at).value.offset();
        let pointer = self.analysis.pointer(at);
        self.findings.add(rule, severity, hint, Some(self.profile.id), false, offset, pointer, message);
    }

    fn refuses(&mut self, rule: &'static str, at: usize, message: impl Into<String>) {
        self.report(rule, Severity::Critical, SIMPLIFY, at, message.into());
    }
}

/// Checks a tool as a whole.
pub(super) fn tool(profile: &'static Profile, tool: Value<'_>, index: usize, findings: &mut ToolFindings) {
    if index >= profile.tools {
        findings.add(
            "HOST-017",
            Severity::Warning,
            "offer fewer tools",
            Some(profile.id),
            false,
            tool.offset(),
            String::new(),
            format!("{} accepts only {} tools", profile.id, profile.tools),
        );
    }
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.len() > profile.tool_name {
        findings.add(
            "HOST-014",
            Severity::Critical,
            "choose a shorter name",
            Some(profile.id),
            false,
            tool.offset(),
            "/name".to_owned(),
            format!("the name has {} bytes, {} accepts {}", name.len(), profile.id, profile.tool_name),
        );
    }
    let length = tool.get("description").and_then(Value::as_str).map_or(0, |d| d.chars().count());
    if length > profile.description {
        findings.add(
            "HOST-012",
            Severity::Warning,
            "put the important facts first",
            Some(profile.id),
            false,
            tool.offset(),
            "/description".to_owned(),
            format!("{} truncates the description after {} characters", profile.id, profile.description),
        );
    }
}

/// Checks one schema. Only clients read output schemas, so only their dialect is checked.
pub(super) fn schema(
    profile: &'static Profile,
    analysis: &SchemaAnalysis<'_>,
    tool: Value<'_>,
    findings: &mut ToolFindings,
) {
    let mut reporter = Reporter { profile, findings, analysis };
    let root = analysis.tree.node(ROOT).value;
    if analysis.which == "outputSchema" {
        if profile.modern_output && analysis.tree.old {
            reporter.report(
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
            reporter.refuses("HOST-001", ROOT, format!("{keyword} is used at the root"));
        }
    }
    for (keyword, text) in
        [("title", tool.get("title").or(tool.get("name"))), ("description", tool.get("description"))]
    {
        let given = root.get(keyword).and_then(Value::as_str);
        if given.is_some() && given == text.and_then(Value::as_str) {
            reporter.report(
                "HOST-013",
                Severity::Note,
                SIMPLIFY,
                ROOT,
                format!("the root's {keyword} repeats the tool's"),
            );
        }
    }
    let (mut properties, mut optional) = (0_usize, 0_usize);
    for at in 0..analysis.tree.nodes.len() {
        node(&mut reporter, at);
        let value = analysis.tree.node(at).value;
        let members = value.get("properties").map_or(0, Value::len);
        properties += members;
        optional += members.saturating_sub(value.get("required").map_or(0, Value::len));
    }
    budget(&mut reporter, properties, optional);
}

fn budget(reporter: &mut Reporter<'_>, properties: usize, optional: usize) {
    let profile = reporter.profile;
    let tree = &reporter.analysis.tree;
    let mut depths = vec![0_usize; tree.nodes.len()];
    for at in 1..depths.len() {
        let deeper =
            matches!(tree.node(at).role, Role::Member | Role::Item | Role::Extra | Role::PatternMember);
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
            reporter.report(
                "HOST-011",
                Severity::Critical,
                "split the tool",
                ROOT,
                format!("{count} {what}, {} accepts {most}", profile.id),
            );
        }
    }
}

fn node(reporter: &mut Reporter<'_>, at: usize) {
    let (profile, tree) = (reporter.profile, &reporter.analysis.tree);
    let node = *tree.node(at);
    let schema = node.value;
    if schema.kind() == Kind::Bool {
        // `additionalProperties: false` is accepted, because hosts require closed objects.
        if !profile.boolean_schemas && node.role != Role::Extra {
            reporter.refuses("HOST-007", at, "the schema is a boolean");
        }
        return;
    }
    if at == ROOT && !has_type(schema, "object") {
        reporter.refuses("HOST-001", at, "the root must have \"type\": \"object\"");
    }
    if profile.needs_properties && has_type(schema, "object") && schema.get("properties").is_none() {
        reporter.refuses("HOST-002", at, "the object has no properties member");
    }
    if profile.needs_items && has_type(schema, "array") && schema.get("items").is_none() {
        reporter.refuses("HOST-003", at, "the array has no items");
    }
    property_name(reporter, at);
    let typed =
        ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"].iter().any(|k| schema.get(k).is_some());
    if profile.needs_type && !typed && node.role != Role::Definition {
        let message = "the schema has no type".to_owned();
        reporter.report("HOST-006", Severity::Critical, "give it a type", at, message);
    }
    if profile.single_type && schema.get("type").is_some_and(|t| t.kind() == Kind::Array) {
        reporter.refuses("HOST-008", at, "type is a list");
    }
    reference(reporter, at, schema);
    if profile.string_enum && schema.get("enum").is_some_and(|e| e.items().any(|i| i.kind() != Kind::String))
    {
        reporter.refuses("HOST-010", at, "the enum has values that are not strings");
    }
    if profile.closed
        && !reporter.analysis.marks.conditional[at]
        && is_object(schema)
        && schema.get("additionalProperties").and_then(Value::as_bool) != Some(false)
    {
        reporter.refuses("HOST-015", at, "the object must have \"additionalProperties\": false");
    }
    members(reporter, at, schema);
}

fn property_name(reporter: &mut Reporter<'_>, at: usize) {
    let profile = reporter.profile;
    let node = *reporter.analysis.tree.node(at);
    if let (Some(names), Role::Member, Some(name)) = (profile.names, node.role, node.name()) {
        if !names.allow(name) {
            let charset = match names {
                Names::Token => "1 to 64 of letters, digits, _ . -",
                Names::Identifier => "an identifier of at most 64 bytes",
            };
            let message = format!("the property name {:?} is not {charset}", validity_rules::short(name));
            reporter.report("HOST-004", Severity::Critical, "rename the property", at, message);
        }
    }
}

/// Checks the required members, and the keywords that the host refuses or deletes.
fn members(reporter: &mut Reporter<'_>, at: usize, schema: Value<'_>) {
    let profile = reporter.profile;
    if profile.all_required {
        let required = schema.get("required").map(Value::items).into_iter().flatten();
        let listed: HashSet<&str> = required.filter_map(Value::as_str).collect();
        let mut properties = schema.get("properties").map(Value::members).into_iter().flatten();
        if let Some((name, _)) = properties.find(|(name, _)| !listed.contains(name)) {
            reporter.refuses(
                "HOST-016",
                at,
                format!("property {:?} is not required", validity_rules::short(name)),
            );
        }
    }
    let refused: Vec<&str> = schema.members().map(|(k, _)| k).filter(|k| profile.refuses(k)).collect();
    if !refused.is_empty() {
        reporter.refuses("HOST-010", at, format!("{} refuses {}", profile.id, refused.join(", ")));
    }
    let ignored: Vec<&str> = schema.members().map(|(k, _)| k).filter(|k| profile.ignores(k)).collect();
    if !ignored.is_empty() {
        let message = format!("{} deletes {}", profile.id, ignored.join(", "));
        reporter.report("HOST-020", Severity::Warning, "repeat it in the description", at, message);
    }
}

fn reference(reporter: &mut Reporter<'_>, at: usize, schema: Value<'_>) {
    if reporter.analysis.tree.target(at) == Target::None {
        return;
    }
    match reporter.profile.references {
        References::Keep => {}
        References::Alone if schema.len() == 1 => {}
        References::Alone => reporter.refuses("HOST-009", at, "$ref has other keywords beside it"),
        References::Inline => reporter.refuses("HOST-009", at, "references are not supported"),
        References::Finite => {
            if is_recursive(reporter.analysis, at) {
                let message = "the reference is recursive".to_owned();
                reporter.report("HOST-009", Severity::Critical, SIMPLIFY, at, message);
            }
        }
    }
}

/// Returns `true` if the reference of a node leads back to the node.
pub(super) fn is_recursive(analysis: &SchemaAnalysis<'_>, at: usize) -> bool {
    let Target::Node(target) = analysis.tree.target(at) else { return false };
    analysis.cycles()[at] == analysis.cycles()[target]
}
