//! The lint rules that apply to all hosts, one function each.
//!
//! A rule has a stable id, a severity, a set, a summary, a hint and a check. Rules SCH-001 to
//! SCH-004 report how much a schema accepts. Rules about single hosts are in `host_rules.rs`.
//!
//! # Invariants
//! - A check reads one subschema, one schema or one tool and nothing else.
//! - Rules SCH-001 to SCH-004 do not check conditions (`if`, `not`, `contains`), which declare no
//!   values.
//! - A definition that is never referenced is one finding (SCH-028). Within it, only errors that
//!   make the schema invalid are reported.

use std::collections::HashSet;

use super::composition::{Group, Layout, is_closed_from_above};
use super::tree::{ROOT, Role, Target, has_type, is_object};
use super::{Finding, Options, SchemaAnalysis, Severity, validity_rules};
use crate::json::{Kind, Value};

/// The smallest set of rules that contains a rule. It is a field of [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSet {
    /// Mistakes that can be corrected without a decision about limits. A gate for servers of all
    /// kinds.
    Recommended,
    /// The default selection: also the rules that require closed objects and size limits.
    Default,
    /// Only on if chosen by id or by `all`.
    Optional,
}

/// One rule.
///
/// ```
/// use tinymcp::lint::{RULES, RuleSet};
///
/// for rule in RULES.iter().filter(|rule| rule.set == RuleSet::Recommended) {
///     println!("{}: {}", rule.id, rule.summary);
/// }
/// ```
#[non_exhaustive]
pub struct Rule {
    /// The id, such as `SCH-001`.
    pub id: &'static str,
    /// The severity of its findings.
    pub severity: Severity,
    /// The smallest set that contains it.
    pub set: RuleSet,
    /// Description of its findings.
    pub summary: &'static str,
    /// The correction.
    pub hint: &'static str,
    pub(super) check: Check,
}

/// Findings of a check: the pointer, relative to the checked schema or tool, and the message.
pub(super) type Found = Vec<(String, String)>;

/// The subschemas that a check reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All, unreachable definitions included.
    Everywhere,
    /// Those that apply to some part of a value.
    Reachable,
    /// Those of input schemas.
    Inputs,
}

pub(super) enum Check {
    /// Checks one subschema.
    Node(Scope, fn(&SchemaAnalysis<'_>, usize) -> Option<String>),
    /// Checks a schema.
    Schema(fn(&SchemaAnalysis<'_>, &mut Found)),
    /// Checks a tool, given its catalog and its index there.
    Tool(fn(&[Value<'_>], usize, &mut Found)),
}

/// Rows of [`RULES`]: id, severity, set and check; summary; hint.
macro_rules! rules {
    ($($id:literal $severity:ident $set:ident $check:expr, $summary:literal, $hint:literal;)*) => {
        &[$(Rule {
            id: $id,
            severity: Severity::$severity,
            set: RuleSet::$set,
            summary: $summary,
            hint: $hint,
            check: $check,
        }),*]
    };
}

/// Every rule that applies to all hosts.
pub const RULES: &[Rule] = rules! {
    "SCH-001" Warning Default Check::Node(Scope::Reachable, no_required),
        "an object declares properties but has no required list",
        "list the required members in `required`; use an empty list if all are optional";
    "SCH-002" Warning Default Check::Node(Scope::Inputs, open_object),
        "an input object accepts undeclared members",
        "add \"additionalProperties\": false, or unevaluatedProperties beside combinators";
    "SCH-003" Critical Recommended Check::Node(Scope::Reachable, untyped_property),
        "a property has neither type nor enum, so it accepts any value",
        "add a type, an enum, a const or a reference";
    "SCH-004" Warning Default Check::Node(Scope::Inputs, unbounded_size),
        "an input string has no maxLength, or an input array no maxItems",
        "set the largest size the tool accepts";
    "SCH-005" Warning Optional Check::Node(Scope::Inputs, unbounded_number),
        "an input number has no lower or no upper bound",
        "set minimum and maximum";
    "SCH-006" Warning Optional Check::Node(Scope::Inputs, unbounded_map),
        "an input map has no maxProperties",
        "set the largest number of entries the tool accepts";
    "SCH-007" Warning Recommended Check::Node(Scope::Reachable, closed_beside_branches),
        "additionalProperties: false rejects members that a combinator of the same schema declares",
        "use unevaluatedProperties: false instead";
    "SCH-010" Critical Recommended Check::Schema(validity_rules::not_a_schema),
        "the schema is not valid",
        "";
    "SCH-011" Critical Recommended Check::Tool(validity_rules::no_object_root),
        "a tool has no input schema, or the root of the schema is not an object",
        "add \"type\": \"object\" at the root";
    "SCH-012" Critical Recommended Check::Node(Scope::Everywhere, validity_rules::lost_reference),
        "a reference has no target in the schema",
        "put the target under $defs of the same schema; external references are not loaded";
    "SCH-013" Critical Recommended Check::Schema(validity_rules::endless_reference),
        "a schema applies itself to the same value without end",
        "place the reference inside properties or items";
    "SCH-014" Critical Recommended Check::Schema(validity_rules::wild_pattern),
        "a pattern cannot be matched in linear time",
        "avoid backreferences and lookbehind";
    "SCH-015" Critical Recommended Check::Node(Scope::Everywhere, validity_rules::foreign_dialect),
        "$schema names an unsupported dialect",
        "remove $schema to use draft 2020-12";
    "SCH-021" Critical Recommended Check::Node(Scope::Reachable, validity_rules::contradiction),
        "a schema contradicts itself, so it rejects every value",
        "";
    "SCH-022" Warning Recommended Check::Node(Scope::Reachable, validity_rules::required_unknown),
        "required names an undeclared property",
        "declare the property or remove its name";
    "SCH-023" Warning Recommended Check::Node(Scope::Reachable, validity_rules::duplicate),
        "an enum, a required list or a list of alternatives has a duplicate",
        "remove the duplicate";
    "SCH-024" Warning Recommended Check::Node(Scope::Reachable, validity_rules::misspelled),
        "a keyword is misspelled, so it has no effect",
        "";
    "SCH-025" Warning Optional Check::Node(Scope::Reachable, validity_rules::old_spelling),
        "a draft-07 keyword is used in a 2020-12 schema",
        "use $defs, prefixItems, items and dependentRequired or dependentSchemas";
    "SCH-026" Warning Recommended Check::Node(Scope::Inputs, undescribed),
        "an input property has no description",
        "describe the value for the model, bounds included";
    "SCH-027" Critical Recommended Check::Schema(validity_rules::old_output),
        "outputSchema names draft-07 or older, which some hosts refuse",
        "remove $schema or name draft 2020-12";
    "SCH-028" Warning Recommended Check::Schema(validity_rules::unused_definitions),
        "a definition is never referenced",
        "remove the definition";
    "TOOL-001" Critical Recommended Check::Tool(validity_rules::tool_name),
        "a tool name is not 1 to 128 characters of A-Z a-z 0-9 _ . -",
        "";
    "TOOL-002" Critical Recommended Check::Tool(validity_rules::duplicate_tool),
        "two tools have the same name",
        "";
    "TOOL-003" Warning Recommended Check::Tool(validity_rules::tool_undescribed),
        "a tool has no description",
        "describe what the tool does and when to use it";
};

/// The findings of one tool.
pub(super) struct ToolFindings {
    tool: String,
    findings: Vec<(usize, Finding)>,
}

impl ToolFindings {
    pub(super) fn new(tool: &str) -> ToolFindings {
        ToolFindings { tool: tool.to_owned(), findings: Vec::new() }
    }

    /// Adds a finding; `offset` is its position in the text.
    #[allow(clippy::too_many_arguments)] // OK because these are the fields of a finding.
    pub(super) fn add(
        &mut self,
        rule: &'static str,
        severity: Severity,
        hint: &'static str,
        profile: Option<&'static str>,
        fixable: bool,
        offset: usize,
        pointer: String,
        message: String,
    ) {
        let tool = self.tool.clone();
        let finding = Finding { rule, severity, tool, pointer, message, hint, fixable, profile };
        self.findings.push((offset, finding));
    }

    pub(super) fn into_findings(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|(offset, _)| *offset);
        self.findings.into_iter().map(|(_, finding)| finding).collect()
    }
}

/// Runs the chosen rules on a tool.
pub(super) fn tool(options: &Options, all: &[Value<'_>], index: usize, findings: &mut ToolFindings) {
    let Some(tool) = all.get(index) else { return };
    for rule in RULES.iter().filter(|r| options.runs(r)) {
        let Check::Tool(check) = rule.check else { continue };
        let mut found = Vec::new();
        check(all, index, &mut found);
        for (pointer, message) in found {
            findings.add(rule.id, rule.severity, rule.hint, None, false, tool.offset(), pointer, message);
        }
    }
}

/// Runs the chosen rules on a schema.
pub(super) fn schema(options: &Options, analysis: &SchemaAnalysis<'_>, findings: &mut ToolFindings) {
    for rule in RULES.iter().filter(|r| options.runs(r)) {
        match rule.check {
            Check::Tool(_) => {}
            Check::Schema(check) => {
                // The profile of a host that refuses old drafts reports them itself, as HOST-005.
                if rule.id == "SCH-027" && options.profile.is_some_and(|p| p.modern_output) {
                    continue;
                }
                let mut found = Vec::new();
                check(analysis, &mut found);
                let offset = analysis.tree.node(ROOT).value.offset();
                for (pointer, message) in found {
                    let pointer = format!("/{}{pointer}", analysis.which);
                    findings.add(rule.id, rule.severity, rule.hint, None, false, offset, pointer, message);
                }
            }
            Check::Node(scope, check) => {
                if scope == Scope::Inputs && analysis.which != "inputSchema" {
                    continue;
                }
                for at in 0..analysis.tree.nodes.len() {
                    if scope != Scope::Everywhere && !analysis.marks.reachable[at] {
                        continue;
                    }
                    let Some(message) = check(analysis, at) else { continue };
                    let fixable = match rule.id {
                        "SCH-001" => analysis.plan().requires(&analysis.tree, at),
                        "SCH-002" => analysis.plan().closes(at),
                        _ => false,
                    };
                    let offset = analysis.tree.node(at).value.offset();
                    let pointer = analysis.pointer(at);
                    findings.add(rule.id, rule.severity, rule.hint, None, fixable, offset, pointer, message);
                }
            }
        }
    }
}

/// Returns `true` if a subschema alone describes its value, outside of conditions.
fn stands_alone(analysis: &SchemaAnalysis<'_>, at: usize) -> bool {
    !analysis.marks.conditional[at] && !analysis.marks.shared[at]
}

fn no_required(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    if !stands_alone(analysis, at) || matches!(analysis.marks.forms[at], Layout::Wrapper | Layout::Union) {
        return None;
    }
    let schema = analysis.tree.node(at).value;
    if schema.get("type").is_some() && !has_type(schema, "object") {
        return None;
    }
    let declares = |schema: Value<'_>| schema.get("properties").is_some_and(|p| !p.is_empty());
    let listed = |schema: Value<'_>| schema.get("required").is_some_and(|r| r.kind() == Kind::Array);
    let (declared, required) = match analysis.marks.forms[at] {
        Layout::Composed => {
            let group = Group::of(&analysis.tree, at)?;
            let some = |test: &dyn Fn(Value<'_>) -> bool| {
                group.nodes.iter().any(|node| test(analysis.tree.node(*node).value))
            };
            (some(&declares), some(&listed))
        }
        _ => (declares(schema), listed(schema)),
    };
    (declared && !required).then(|| "the object declares properties but has no required list".to_owned())
}

fn open_object(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    if !stands_alone(analysis, at) || matches!(analysis.marks.forms[at], Layout::Wrapper | Layout::Union) {
        return None;
    }
    let object = match analysis.marks.forms[at] {
        Layout::Composed => Group::of(&analysis.tree, at)?.is_object(&analysis.tree),
        _ => is_object(analysis.tree.node(at).value),
    };
    if !object || is_closed_from_above(&analysis.tree, at) {
        return None;
    }
    Some("additionalProperties is not false, so undeclared members are accepted".to_owned())
}

fn untyped_property(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let node = analysis.tree.node(at);
    if node.role != Role::Member
        || analysis.marks.conditional[at]
        || refines(analysis, at)
        || has_some_type(analysis, at)
    {
        return None;
    }
    Some(format!("property {:?} has neither type nor enum", node.name().unwrap_or_default()))
}

/// Returns `true` if a property of a branch refines one that an enclosing schema declares.
fn refines(analysis: &SchemaAnalysis<'_>, at: usize) -> bool {
    let Some(name) = analysis.tree.node(at).name() else { return false };
    let mut here = analysis.tree.parent(at);
    while here != ROOT && analysis.tree.node(here).role == Role::Branch {
        here = analysis.tree.parent(here);
        let properties = analysis.tree.node(here).value.get("properties");
        if properties.is_some_and(|p| p.get(name).is_some()) {
            return true;
        }
    }
    false
}

/// Largest number of schemas that are searched for a type. At the limit a type is assumed.
const SEARCHED: usize = 1000;

/// Returns `true` if a schema restricts the type of its value, by its own keywords or those it
/// combines.
fn has_some_type(analysis: &SchemaAnalysis<'_>, at: usize) -> bool {
    // Every alternative must restrict it; of `allOf` one element suffices.
    let mut work = vec![at];
    let mut seen = HashSet::new();
    while let Some(at) = work.pop() {
        if !seen.insert(at) {
            continue;
        }
        let schema = analysis.tree.node(at).value;
        let typed = schema.kind() != Kind::Object
            || ["type", "enum", "const"].iter().any(|k| schema.get(k).is_some())
            || seen.len() > SEARCHED;
        if typed {
            continue;
        }
        match analysis.tree.target(at) {
            Target::Node(target) => {
                work.push(target);
                continue;
            }
            Target::Unknown => continue,
            Target::None => {}
        }
        let branches = |keyword: &'static str| {
            analysis.tree.children(at).filter(move |c| analysis.tree.node(*c).keyword == keyword)
        };
        let all_of: Vec<usize> = branches("allOf").collect();
        let sure = all_of.iter().find(|c| {
            let part = analysis.tree.node(**c).value;
            ["type", "enum", "const", "$ref", "anyOf", "oneOf"].iter().any(|k| part.get(k).is_some())
        });
        let before = work.len();
        if let Some(part) = sure.or_else(|| all_of.last()) {
            work.push(*part);
        } else {
            work.extend(branches("anyOf"));
            if work.len() == before {
                work.extend(branches("oneOf"));
            }
        }
        if work.len() == before {
            return false;
        }
    }
    true
}

/// Formats that bound the length of a string.
const SHORT_FORMATS: &[&str] =
    &["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "idn-email", "hostname", "idn-hostname"];

fn unbounded_size(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    if analysis.marks.conditional[at] {
        return None;
    }
    let schema = analysis.tree.node(at).value;
    let string = has_type(schema, "string") && !bounded(analysis, at, &string_bounded);
    let array = has_type(schema, "array") && !bounded(analysis, at, &array_bounded);
    match (string, array) {
        (true, true) => Some("the string has no maxLength and the array has no maxItems".to_owned()),
        (true, false) => Some("the string has no maxLength".to_owned()),
        (false, true) => Some("the array has no maxItems".to_owned()),
        (false, false) => None,
    }
}

/// Returns `true` if a subschema is bounded: by itself, by a schema that it applies to the same
/// value, or by a schema that has it as a branch.
fn bounded(analysis: &SchemaAnalysis<'_>, at: usize, test: &dyn Fn(Value<'_>) -> bool) -> bool {
    let mut here = at;
    loop {
        let schema = analysis.tree.node(here).value;
        if test(schema) || ["enum", "const"].iter().any(|k| schema.get(k).is_some()) {
            return true;
        }
        let beside =
            analysis.tree.children(here).filter(|c| analysis.tree.node(*c).keyword == "allOf").chain(
                match analysis.tree.target(here) {
                    Target::Node(target) => Some(target),
                    _ => None,
                },
            );
        if beside.into_iter().any(|c| test(analysis.tree.node(c).value)) {
            return true;
        }
        if here == ROOT || analysis.tree.node(here).role != Role::Branch {
            return false;
        }
        here = analysis.tree.parent(here);
    }
}

fn string_bounded(schema: Value<'_>) -> bool {
    let text = |keyword| schema.get(keyword).and_then(Value::as_str);
    schema.get("maxLength").is_some()
        || text("format").is_some_and(|f| SHORT_FORMATS.contains(&f))
        || text("pattern").is_some_and(is_bounded)
}

fn array_bounded(schema: Value<'_>) -> bool {
    let forbidden = |keyword| schema.get(keyword).and_then(Value::as_bool) == Some(false);
    schema.get("maxItems").is_some()
        || forbidden("items")
        || forbidden("additionalItems")
        || forbidden("unevaluatedItems")
}

fn unbounded_number(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let schema = analysis.tree.node(at).value;
    let numeric = has_type(schema, "number") || has_type(schema, "integer");
    let either = |a, b| move |s: Value<'_>| s.get(a).is_some() || s.get(b).is_some();
    if analysis.marks.conditional[at]
        || !numeric
        || bounded(analysis, at, &either("minimum", "exclusiveMinimum"))
            && bounded(analysis, at, &either("maximum", "exclusiveMaximum"))
    {
        return None;
    }
    Some("the number has no minimum or no maximum".to_owned())
}

fn unbounded_map(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let schema = analysis.tree.node(at).value;
    let mapped = schema.get("patternProperties").is_some()
        || ["additionalProperties", "unevaluatedProperties"]
            .iter()
            .any(|k| schema.get(k).is_some_and(|v| v.kind() == Kind::Object));
    (mapped
        && !analysis.marks.conditional[at]
        && !bounded(analysis, at, &|s| s.get("maxProperties").is_some()))
    .then(|| "the map has no maxProperties".to_owned())
}

fn closed_beside_branches(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let schema = analysis.tree.node(at).value;
    let closed = schema.get("additionalProperties").and_then(Value::as_bool) == Some(false);
    if !closed || analysis.marks.forms[at] != Layout::Composed {
        return None;
    }
    let own = schema.get("properties");
    let group = Group::of(&analysis.tree, at)?;
    let rejected = group.nodes.iter().skip(1).find_map(|other| {
        let properties = analysis.tree.node(*other).value.get("properties").map(Value::members);
        properties.into_iter().flatten().find(|(name, _)| own.is_none_or(|o| o.get(name).is_none()))
    });
    rejected.map(|(name, _)| {
        format!("additionalProperties: false rejects {name:?}, which a schema beside it declares")
    })
}

fn undescribed(analysis: &SchemaAnalysis<'_>, at: usize) -> Option<String> {
    let node = analysis.tree.node(at);
    let described = |at: usize| analysis.tree.node(at).value.get("description").is_some();
    let described = described(at) || matches!(analysis.tree.target(at), Target::Node(t) if described(t));
    if node.role != Role::Member || analysis.marks.conditional[at] || described || refines(analysis, at) {
        return None;
    }
    Some(format!("property {:?} has no description", node.name().unwrap_or_default()))
}

/// Returns `true` if all strings that match the pattern have a bounded length.
/// Such a pattern is anchored at both ends and has no unbounded repetition. Unknown constructs
/// count as unbounded.
fn is_bounded(pattern: &str) -> bool {
    let Some(body) = pattern.strip_prefix('^') else { return false };
    let mut chars = body.chars().peekable();
    let (mut class, mut depth) = (false, 0_u32);
    let mut end = false;
    while let Some(c) = chars.next() {
        end = false;
        match c {
            '\\' => {
                chars.next();
            }
            ']' => class = false,
            _ if class => {}
            '[' => class = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '*' | '+' => return false,
            // An alternative outside of all groups may have no anchor.
            '|' if depth == 0 => return false,
            '{' => {
                let mut open = false;
                for c in chars.by_ref() {
                    if c == '}' {
                        break;
                    }
                    open = c == ',';
                }
                if open {
                    return false;
                }
            }
            '$' => end = depth == 0,
            _ => {}
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::is_bounded;

    #[test]
    fn length_is_bounded_where_anchors_and_counts_say_so() {
        for yes in ["^a$", "^[0-9a-f]{8}$", "^(a|b)?c{1,3}$", r"^\d{4}\+$", "^[*+]$", "^$", "^a{2}$"] {
            assert!(is_bounded(yes), "{yes}");
        }
        for no in ["a", "^a", "a$", "^a*$", "^a+$", "^a{2,}$", "^a|b$", r"^a\$", "^(a$)", "^[a$]", "^a$b"] {
            assert!(!is_bounded(no), "{no}");
        }
    }
}
