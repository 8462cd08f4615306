//! The rules: one unit each, in one list.
//!
//! A rule has an id that never changes its meaning, a severity, a sentence, a hint and a check.
//! Rules 001 to 004 ask how much a schema lets in; those that mark certain breakage run by default
//! as well; the rest run when they are chosen. Rules about hosts are in `host.rs`.
//!
//! # Invariants
//! - A check looks at one site, one schema or one tool and at nothing else.
//! - Within conditions (`if`, `not`, `contains`) nothing is declared, so rules 001 to 004 are
//!   silent there.

use std::collections::HashSet;

use super::compose::{Form, Group, is_closed_from_above};
use super::walk::{ROOT, Role, Target, has_type, is_object};
use super::{Choice, Finding, Look, Severity, defect, pattern};
use crate::json::{Kind, Value};

/// One rule.
#[non_exhaustive]
pub struct Rule {
    /// Such as `SCH-001`.
    pub id: &'static str,
    /// How much its findings matter.
    pub severity: Severity,
    /// Whether it runs unless told otherwise.
    pub standard: bool,
    /// What it finds.
    pub summary: &'static str,
    /// What to do about it.
    pub hint: &'static str,
    pub(super) check: Check,
}

/// Where, within what was looked at, and what is there.
pub(super) type Told = Vec<(String, String)>;

pub(super) enum Check {
    /// Looks at one subschema.
    Site(fn(&Look<'_>, usize) -> Option<String>),
    /// Looks at a schema: the pointers within it and what is there.
    Schema(fn(&Look<'_>, &mut Told)),
    /// Looks at a tool: its catalog and its place there.
    Tool(fn(&[Value<'_>], usize, &mut Told)),
}

/// Every rule that is not about one host.
pub const RULES: &[Rule] = &[
    Rule {
        id: "SCH-001",
        severity: Severity::Warning,
        standard: true,
        summary: "an object declares properties but no required list",
        hint: "list what must be there in `required`; an empty list says that nothing must",
        check: Check::Site(no_required),
    },
    Rule {
        id: "SCH-002",
        severity: Severity::Warning,
        standard: true,
        summary: "an object accepts members nobody declared",
        hint: "add \"additionalProperties\": false, or unevaluatedProperties beside combinators",
        check: Check::Site(open_object),
    },
    Rule {
        id: "SCH-003",
        severity: Severity::Critical,
        standard: true,
        summary: "a property has neither type nor enum, so anything goes",
        hint: "give it a type, an enum, a const or a reference",
        check: Check::Site(untyped_property),
    },
    Rule {
        id: "SCH-004",
        severity: Severity::Warning,
        standard: true,
        summary: "a string has no maxLength, or an array no maxItems",
        hint: "state the largest size the tool can take",
        check: Check::Site(unbounded_size),
    },
    Rule {
        id: "SCH-005",
        severity: Severity::Warning,
        standard: false,
        summary: "a number has no lower or no upper bound",
        hint: "state minimum and maximum",
        check: Check::Site(unbounded_number),
    },
    Rule {
        id: "SCH-006",
        severity: Severity::Warning,
        standard: false,
        summary: "a map has no maxProperties",
        hint: "state the most entries the tool can take",
        check: Check::Site(unbounded_map),
    },
    Rule {
        id: "SCH-007",
        severity: Severity::Warning,
        standard: false,
        summary: "additionalProperties: false stands beside combinators whose members it refuses",
        hint: "use unevaluatedProperties: false instead",
        check: Check::Site(closed_beside_branches),
    },
    Rule {
        id: "SCH-010",
        severity: Severity::Critical,
        standard: true,
        summary: "the schema is none, or cannot be run",
        hint: "",
        check: Check::Schema(defect::not_a_schema),
    },
    Rule {
        id: "SCH-011",
        severity: Severity::Critical,
        standard: true,
        summary: "a tool has no input schema, or one whose root is not an object",
        hint: "say \"type\": \"object\" at the root",
        check: Check::Tool(defect::no_object_root),
    },
    Rule {
        id: "SCH-012",
        severity: Severity::Critical,
        standard: true,
        summary: "a reference leads nowhere, or outside of the schema",
        hint: "keep what is referred to under $defs of the same schema; nothing is fetched",
        check: Check::Site(defect::lost_reference),
    },
    Rule {
        id: "SCH-013",
        severity: Severity::Critical,
        standard: true,
        summary: "a schema is defined by itself",
        hint: "let the reference pass through a property or an element",
        check: Check::Schema(defect::endless_reference),
    },
    Rule {
        id: "SCH-014",
        severity: Severity::Critical,
        standard: true,
        summary: "a pattern cannot be run in linear time",
        hint: "avoid backreferences and lookbehind",
        check: Check::Schema(defect::wild_pattern),
    },
    Rule {
        id: "SCH-015",
        severity: Severity::Critical,
        standard: true,
        summary: "$schema names a dialect that is not supported",
        hint: "leave $schema out, which means draft 2020-12",
        check: Check::Site(defect::foreign_dialect),
    },
    Rule {
        id: "SCH-021",
        severity: Severity::Critical,
        standard: true,
        summary: "a schema contradicts itself, so no value fits",
        hint: "",
        check: Check::Site(defect::contradiction),
    },
    Rule {
        id: "SCH-022",
        severity: Severity::Warning,
        standard: false,
        summary: "required names a property that is not declared",
        hint: "declare it or take it off the list",
        check: Check::Site(defect::required_unknown),
    },
    Rule {
        id: "SCH-023",
        severity: Severity::Warning,
        standard: false,
        summary: "an enum, a required list or alternatives say the same twice",
        hint: "say it once",
        check: Check::Site(defect::said_twice),
    },
    Rule {
        id: "SCH-024",
        severity: Severity::Warning,
        standard: false,
        summary: "a keyword is misspelled, so it means nothing",
        hint: "",
        check: Check::Site(defect::misspelled),
    },
    Rule {
        id: "SCH-025",
        severity: Severity::Warning,
        standard: false,
        summary: "a keyword of draft-07 stands in a 2020-12 schema",
        hint: "use $defs, prefixItems, items and dependentRequired or dependentSchemas",
        check: Check::Site(defect::old_spelling),
    },
    Rule {
        id: "SCH-026",
        severity: Severity::Warning,
        standard: false,
        summary: "a property has no description",
        hint: "tell the model what to put there, bounds included",
        check: Check::Site(undescribed),
    },
    Rule {
        id: "TOOL-001",
        severity: Severity::Critical,
        standard: true,
        summary: "a tool's name is not 1 to 128 characters of A-Z a-z 0-9 _ . -",
        hint: "",
        check: Check::Tool(defect::tool_name),
    },
    Rule {
        id: "TOOL-002",
        severity: Severity::Critical,
        standard: true,
        summary: "two tools have one name",
        hint: "",
        check: Check::Tool(defect::tool_twice),
    },
    Rule {
        id: "TOOL-003",
        severity: Severity::Warning,
        standard: false,
        summary: "a tool has no description",
        hint: "tell the model what it does and when to use it",
        check: Check::Tool(defect::tool_undescribed),
    },
];

/// Findings of one tool, in the order in which they are made.
pub(super) struct Hits {
    tool: String,
    findings: Vec<(usize, Finding)>,
}

impl Hits {
    pub(super) fn new(tool: &str) -> Hits {
        Hits { tool: tool.to_owned(), findings: Vec::new() }
    }

    /// Adds a finding; `offset` is where in the text it belongs.
    #[allow(clippy::too_many_arguments)] // OK because the parts of a finding have no smaller sum.
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

/// Runs the chosen rules for tools.
pub(super) fn tool(choice: &Choice, all: &[Value<'_>], index: usize, hits: &mut Hits) {
    let Some(tool) = all.get(index) else { return };
    for rule in RULES.iter().filter(|r| choice.runs(r)) {
        let Check::Tool(check) = rule.check else { continue };
        let mut found = Vec::new();
        check(all, index, &mut found);
        for (pointer, message) in found {
            hits.add(rule.id, rule.severity, rule.hint, None, false, tool.offset(), pointer, message);
        }
    }
}

/// Runs the chosen rules for schemas.
pub(super) fn schema(choice: &Choice, look: &Look<'_>, hits: &mut Hits) {
    for rule in RULES.iter().filter(|r| choice.runs(r)) {
        match rule.check {
            Check::Tool(_) => {}
            Check::Schema(check) => {
                let mut found = Vec::new();
                check(look, &mut found);
                let offset = look.survey.site(ROOT).value.offset();
                for (pointer, message) in found {
                    let pointer = format!("/{}{pointer}", look.which);
                    hits.add(rule.id, rule.severity, rule.hint, None, false, offset, pointer, message);
                }
            }
            Check::Site(check) => {
                for at in 0..look.survey.sites.len() {
                    let Some(message) = check(look, at) else { continue };
                    let fixable = match rule.id {
                        "SCH-001" => look.plan.requires(&look.survey, at),
                        "SCH-002" => look.plan.closes(at),
                        _ => false,
                    };
                    let offset = look.survey.site(at).value.offset();
                    let pointer = look.pointer(at);
                    hits.add(rule.id, rule.severity, rule.hint, None, fixable, offset, pointer, message);
                }
            }
        }
    }
}

/// Whether an object is one to judge by itself: not part of another's description, not asked for.
fn stands_alone(look: &Look<'_>, at: usize) -> bool {
    !look.marks.asked[at] && !look.marks.shared[at]
}

fn no_required(look: &Look<'_>, at: usize) -> Option<String> {
    if !stands_alone(look, at) || matches!(look.marks.forms[at], Form::Wrapper | Form::Union) {
        return None;
    }
    let schema = look.survey.site(at).value;
    if schema.get("type").is_some() && !has_type(schema, "object") {
        return None;
    }
    let declares = |schema: Value<'_>| schema.get("properties").is_some_and(|p| !p.is_empty());
    let listed = |schema: Value<'_>| schema.get("required").is_some_and(|r| r.kind() == Kind::Array);
    let (declared, required) = match look.marks.forms[at] {
        Form::Composed => {
            let group = Group::of(&look.survey, at)?;
            let some = |says: &dyn Fn(Value<'_>) -> bool| {
                group.sites.iter().any(|site| says(look.survey.site(*site).value))
            };
            (some(&declares), some(&listed))
        }
        _ => (declares(schema), listed(schema)),
    };
    (declared && !required).then(|| "the object declares properties but no required list".to_owned())
}

fn open_object(look: &Look<'_>, at: usize) -> Option<String> {
    if !stands_alone(look, at) || matches!(look.marks.forms[at], Form::Wrapper | Form::Union) {
        return None;
    }
    let object = match look.marks.forms[at] {
        Form::Composed => Group::of(&look.survey, at)?.is_object(&look.survey),
        _ => is_object(look.survey.site(at).value),
    };
    if !object || is_closed_from_above(&look.survey, at) {
        return None;
    }
    Some("additionalProperties is not false, so members nobody declared are accepted".to_owned())
}

fn untyped_property(look: &Look<'_>, at: usize) -> Option<String> {
    let site = look.survey.site(at);
    if site.role != Role::Member || look.marks.asked[at] || refines(look, at) || says_type(look, at) {
        return None;
    }
    Some(format!("property {:?} has neither type nor enum", site.name().unwrap_or_default()))
}

/// Whether a property of a branch adds to one that an enclosing schema declares.
fn refines(look: &Look<'_>, at: usize) -> bool {
    let Some(name) = look.survey.site(at).name() else { return false };
    let mut here = look.survey.parent(at);
    while here != ROOT && look.survey.site(here).role == Role::Branch {
        here = look.survey.parent(here);
        let properties = look.survey.site(here).value.get("properties");
        if properties.is_some_and(|p| p.get(name).is_some()) {
            return true;
        }
    }
    false
}

/// Schemas looked through for a type before the benefit of doubt is given.
const LOOKS: usize = 1000;

/// Whether a schema says what kind of value it wants, itself or by what it is combined of.
fn says_type(look: &Look<'_>, at: usize) -> bool {
    // Alternatives must all say it, so the first that does not decides; `allOf` needs one.
    let mut work = vec![at];
    let mut seen = HashSet::new();
    while let Some(at) = work.pop() {
        if !seen.insert(at) {
            continue;
        }
        let schema = look.survey.site(at).value;
        let said = schema.kind() != Kind::Object
            || ["type", "enum", "const"].iter().any(|k| schema.get(k).is_some())
            || seen.len() > LOOKS;
        if said {
            continue;
        }
        match look.survey.target(at) {
            Target::Site(target) => {
                work.push(target);
                continue;
            }
            Target::Unknown => continue,
            Target::None => {}
        }
        let branches = |keyword: &'static str| {
            look.survey.children(at).filter(move |c| look.survey.site(*c).keyword == keyword)
        };
        let all_of: Vec<usize> = branches("allOf").collect();
        let sure = all_of.iter().find(|c| {
            let part = look.survey.site(**c).value;
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

/// Formats whose strings cannot be long.
const SHORT_FORMATS: &[&str] =
    &["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "idn-email", "hostname", "idn-hostname"];

fn unbounded_size(look: &Look<'_>, at: usize) -> Option<String> {
    if look.marks.asked[at] {
        return None;
    }
    let schema = look.survey.site(at).value;
    let string = has_type(schema, "string") && !bounded(look, at, &string_bounded);
    let array = has_type(schema, "array") && !bounded(look, at, &array_bounded);
    match (string, array) {
        (true, true) => Some("neither maxLength for a string nor maxItems for an array is given".to_owned()),
        (true, false) => Some("the string has no maxLength".to_owned()),
        (false, true) => Some("the array has no maxItems".to_owned()),
        (false, false) => None,
    }
}

/// Whether a bound stands here, in a schema that is applied because of this one, or in one that
/// this is a branch of.
fn bounded(look: &Look<'_>, at: usize, says: &dyn Fn(Value<'_>) -> bool) -> bool {
    let mut here = at;
    loop {
        let schema = look.survey.site(here).value;
        if says(schema) || ["enum", "const"].iter().any(|k| schema.get(k).is_some()) {
            return true;
        }
        let beside =
            look.survey.children(here).filter(|c| look.survey.site(*c).keyword == "allOf").chain(match look
                .survey
                .target(here)
            {
                Target::Site(target) => Some(target),
                _ => None,
            });
        if beside.into_iter().any(|c| says(look.survey.site(c).value)) {
            return true;
        }
        if here == ROOT || look.survey.site(here).role != Role::Branch {
            return false;
        }
        here = look.survey.parent(here);
    }
}

fn string_bounded(schema: Value<'_>) -> bool {
    let text = |keyword| schema.get(keyword).and_then(Value::as_str);
    schema.get("maxLength").is_some()
        || text("format").is_some_and(|f| SHORT_FORMATS.contains(&f))
        || text("pattern").is_some_and(pattern::is_bounded)
}

fn array_bounded(schema: Value<'_>) -> bool {
    let refused = |keyword| schema.get(keyword).and_then(Value::as_bool) == Some(false);
    schema.get("maxItems").is_some()
        || refused("items")
        || refused("additionalItems")
        || refused("unevaluatedItems")
}

fn unbounded_number(look: &Look<'_>, at: usize) -> Option<String> {
    let schema = look.survey.site(at).value;
    let numeric = has_type(schema, "number") || has_type(schema, "integer");
    let either = |a, b| move |s: Value<'_>| s.get(a).is_some() || s.get(b).is_some();
    if look.marks.asked[at]
        || !numeric
        || bounded(look, at, &either("minimum", "exclusiveMinimum"))
            && bounded(look, at, &either("maximum", "exclusiveMaximum"))
    {
        return None;
    }
    Some("the number has no minimum or no maximum".to_owned())
}

fn unbounded_map(look: &Look<'_>, at: usize) -> Option<String> {
    let schema = look.survey.site(at).value;
    let mapped = schema.get("patternProperties").is_some()
        || ["additionalProperties", "unevaluatedProperties"]
            .iter()
            .any(|k| schema.get(k).is_some_and(|v| v.kind() == Kind::Object));
    (mapped && !look.marks.asked[at] && !bounded(look, at, &|s| s.get("maxProperties").is_some()))
        .then(|| "the map has no maxProperties".to_owned())
}

fn closed_beside_branches(look: &Look<'_>, at: usize) -> Option<String> {
    let schema = look.survey.site(at).value;
    let closed = schema.get("additionalProperties").and_then(Value::as_bool) == Some(false);
    if !closed || look.marks.forms[at] != Form::Composed {
        return None;
    }
    let own = schema.get("properties");
    let group = Group::of(&look.survey, at)?;
    let refused = group.sites.iter().skip(1).find_map(|other| {
        let properties = look.survey.site(*other).value.get("properties").map(Value::members);
        properties.into_iter().flatten().find(|(name, _)| own.is_none_or(|o| o.get(name).is_none()))
    });
    refused.map(|(name, _)| format!("additionalProperties: false refuses {name:?}, declared beside it"))
}

fn undescribed(look: &Look<'_>, at: usize) -> Option<String> {
    let site = look.survey.site(at);
    let described = |at: usize| look.survey.site(at).value.get("description").is_some();
    let told = described(at) || matches!(look.survey.target(at), Target::Site(t) if described(t));
    if site.role != Role::Member || look.marks.asked[at] || told || refines(look, at) {
        return None;
    }
    Some(format!("property {:?} has no description", site.name().unwrap_or_default()))
}
