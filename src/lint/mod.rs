//! Lint of tool schemas: what leaves a tool open to surprises, what breaks it, and what hosts
//! refuse; with an autofix and simplified copies for strict hosts.
//!
//! It works on the raw schemas of a catalog and needs no validator, except for the rules that say
//! so. It never changes what it was given: fixes and simplified forms are new texts.
//!
//! ```
//! use tinymcp::lint;
//! let tools = lint::Snapshot::parse(r#"{"tools": [{"name": "echo", "inputSchema": {
//!     "type": "object", "properties": {"text": {"type": "string", "maxLength": 80}},
//!     "required": ["text"], "additionalProperties": false}}]}"#)?;
//! let report = lint::check(&tools);
//! assert_eq!((report.criticals, report.warnings), (0, 0));
//! # Ok::<(), lint::SnapshotError>(())
//! ```
//!
//! # How it works
//!
//! `walk.rs` lists the subschemas, `compose.rs` finds those that share their object with others,
//! `rules.rs` and `host.rs` judge them, `tighten.rs` plans the autofix, `simplify.rs` and `part.rs` write
//! the forms for the hosts of `profile.rs`.
//!
//! # Invariants
//! - Rule ids, once given, keep their meaning.
//! - Nothing recurses, and no text can make it loop: work is bounded by the size of the catalog.

mod compose;
mod defect;
mod host;
mod part;
mod pattern;
mod profile;
mod rules;
mod simplify;
mod snapshot;
mod tighten;
mod view;
mod walk;
mod witness;

use std::cell::OnceCell;
use std::fmt;

use crate::json::{Value, Writer};

pub use profile::{PROFILES, Profile};
pub use rules::{RULES, Rule};
pub use simplify::{Simplified, SimplifyError, simplify, simplify_schema};
pub use snapshot::{Snapshot, SnapshotError, Tools};
pub use tighten::Optional;

use compose::Composition;
use tighten::Plan;
use walk::Survey;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing: something was left or lost on purpose. Counts as nothing.
    Note,
    /// Lets in more than was meant.
    Warning,
    /// Accepts anything, or breaks the tool.
    Critical,
}

impl Severity {
    /// `note`, `warning` or `critical`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// One thing a rule has to say about one place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule's id, such as `SCH-003`.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The tool's name.
    pub tool: String,
    /// Where: a JSON Pointer (RFC 6901) into the tool's description.
    pub pointer: String,
    /// What is there.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
    /// Whether the autofix does it.
    pub fixable: bool,
    /// The profile of the host it concerns.
    pub profile: Option<&'static str>,
}

impl Finding {
    /// Writes the finding as one JSON object.
    pub fn write(&self, w: &mut Writer) {
        w.begin_object();
        w.key("tool").string(&self.tool);
        w.key("rule_id").string(self.rule);
        w.key("severity").string(self.severity.as_str());
        w.key("pointer").string(&self.pointer);
        w.key("message").string(&self.message);
        if !self.hint.is_empty() {
            w.key("hint").string(self.hint);
        }
        w.key("fixable").bool(self.fixable);
        if let Some(profile) = self.profile {
            w.key("profile").string(profile);
        }
        w.end_object();
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}{}: {}", self.severity.as_str(), self.rule, self.tool, self.pointer, self.message)
    }
}

/// What the rules found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// In the order of the catalog, and within a tool in the order of its text.
    pub findings: Vec<Finding>,
    /// How many are critical; `schema_criticals` in JSON output.
    pub criticals: usize,
    /// How many are warnings; `schema_warnings` in JSON output.
    pub warnings: usize,
    /// Tools looked at.
    pub tools: usize,
}

impl Report {
    fn of(findings: Vec<Finding>, tools: usize) -> Report {
        let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
        let (criticals, warnings) = (count(Severity::Critical), count(Severity::Warning));
        Report { findings, criticals, warnings, tools }
    }
}

/// Which rules run.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    rules: Option<Vec<&'static str>>,
    profile: Option<&'static Profile>,
}

impl Choice {
    /// The rules that run by default.
    pub fn new() -> Choice {
        Choice::default()
    }

    /// Also what this host refuses, deletes or ignores.
    #[must_use]
    pub fn profile(mut self, profile: &'static Profile) -> Choice {
        self.profile = Some(profile);
        self
    }

    /// Only these rules: ids separated by commas; `default` and `all` stand for several.
    ///
    /// # Errors
    /// The first id that is none.
    pub fn rules(mut self, list: &str) -> Result<Choice, String> {
        let mut chosen: Vec<&'static str> = Vec::new();
        for id in list.split(',').map(str::trim) {
            match RULES.iter().find(|rule| rule.id.eq_ignore_ascii_case(id)) {
                Some(rule) => chosen.push(rule.id),
                None if id == "all" => chosen.extend(RULES.iter().map(|r| r.id)),
                None if id == "default" => chosen.extend(RULES.iter().filter(|r| r.standard).map(|r| r.id)),
                None => return Err(id.to_owned()),
            }
        }
        self.rules = Some(chosen);
        Ok(self)
    }

    fn runs(&self, rule: &Rule) -> bool {
        match &self.rules {
            Some(chosen) => chosen.contains(&rule.id),
            None => rule.standard,
        }
    }
}

/// Checks tools with the default rules.
pub fn check<T: Tools + ?Sized>(tools: &T) -> Report {
    check_with(tools, &Choice::new())
}

/// Checks tools with the rules of a choice.
pub fn check_with<T: Tools + ?Sized>(tools: &T, choice: &Choice) -> Report {
    let snapshot = tools.snapshot();
    let mut findings = Vec::new();
    let all: Vec<Value<'_>> = snapshot.tools().collect();
    for (index, tool) in all.iter().enumerate() {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut hits = rules::Hits::new(name);
        rules::tool(choice, &all, index, &mut hits);
        if let Some(profile) = choice.profile {
            host::tool(profile, *tool, index, &mut hits);
        }
        for which in ["inputSchema", "outputSchema"] {
            let Some(schema) = tool.get(which) else { continue };
            let look = Look::new(schema, which, Optional::Require);
            rules::schema(choice, &look, &mut hits);
            if let Some(profile) = choice.profile {
                host::schema(profile, &look, *tool, &mut hits);
            }
        }
        findings.append(&mut hits.into_findings());
    }
    Report::of(findings, all.len())
}

/// What the autofix made of a catalog.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tightened {
    /// The whole text, changed only where it was tightened.
    pub text: String,
    /// How many places changed.
    pub changes: usize,
    /// What was left as it is, and why.
    pub left: Vec<Finding>,
}

/// Passes of the autofix over a catalog. What one pass requires of an object may be what the proof for
/// another member was missing, such as a member that `minProperties` counts; hardly ever more than once.
const PASSES: usize = 16;

/// Closes objects and requires their declared members, in every schema of a catalog.
pub fn tighten(snapshot: &Snapshot, optional: Optional) -> Tightened {
    let (mut done, mut may_go_on) = pass(snapshot, optional);
    for _ in 1..PASSES {
        if !may_go_on {
            break;
        }
        // OK because the fix writes what it has read: a text that parses.
        let Ok(next) = Snapshot::parse(done.text.as_str()) else { break };
        let more;
        (more, may_go_on) = pass(&next, optional);
        done = Tightened { changes: done.changes + more.changes, ..more };
    }
    done
}

/// What one pass over the catalog changes, and whether another one may find more.
fn pass(snapshot: &Snapshot, optional: Optional) -> (Tightened, bool) {
    let mut may_go_on = false;
    let mut edits = Vec::new();
    let mut left = Vec::new();
    for tool in snapshot.tools() {
        for which in ["inputSchema", "outputSchema"] {
            let Some(schema) = tool.get(which) else { continue };
            let look = Look::new(schema, which, optional);
            look.plan.edits(&look.survey, &mut edits);
            may_go_on |= look.plan.may_go_on();
            for (at, why) in &look.plan.left {
                left.push(Finding {
                    rule: "FIX-001",
                    severity: Severity::Note,
                    tool: tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
                    pointer: look.pointer(*at),
                    message: why.clone(),
                    hint: "",
                    fixable: false,
                    profile: None,
                });
            }
        }
    }
    let changes = edits.len();
    (Tightened { text: tighten::apply(snapshot.text(), edits), changes, left }, may_go_on)
}

/// One schema and what is known about it.
struct Look<'d> {
    which: &'static str,
    survey: Survey<'d>,
    marks: Composition,
    plan: Plan,
    /// Which sites lead to each other, once somebody asks.
    circles: OnceCell<Vec<usize>>,
}

impl<'d> Look<'d> {
    fn new(schema: Value<'d>, which: &'static str, optional: Optional) -> Look<'d> {
        let survey = Survey::new(schema);
        let marks = Composition::new(&survey);
        let plan = Plan::new(&survey, &marks, optional);
        Look { which, survey, marks, plan, circles: OnceCell::new() }
    }

    /// The pointer of a site within its tool.
    fn pointer(&self, at: usize) -> String {
        format!("/{}{}", self.which, self.survey.pointer(at))
    }
}
