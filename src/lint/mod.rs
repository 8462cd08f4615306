//! Lint for tool schemas, with an autofix and simplified copies for strict hosts.
//!
//! The lint reads the raw schemas of a catalog. It reports invalid schemas, missing descriptions
//! and limits, and constructs that single hosts refuse. Only two rules need the validator (feature
//! `schema`). Fixed and simplified schemas are new texts; the input never changes.
//!
//! ```
//! use tinymcp::lint;
//! let tools = lint::Snapshot::parse(r#"{"tools": [{
//!     "name": "echo", "description": "Returns its text", "inputSchema": {
//!         "type": "object", "required": ["text"], "additionalProperties": false,
//!         "properties": {"text": {"type": "string", "description": "Any text", "maxLength": 80}}
//!     }}]}"#)?;
//! let report = lint::check(&tools);
//! assert_eq!((report.criticals, report.warnings), (0, 0));
//! # Ok::<(), lint::SnapshotError>(())
//! ```
//!
//! # Modules
//!
//! `tree.rs` lists the subschemas, `composition.rs` marks those that share their value with others.
//! `rules.rs`, `validity_rules.rs` and `host_rules.rs` check them, `fix.rs` is the autofix, and
//! `simplify/` writes the copies for the hosts in `profile.rs`.
//!
//! # Invariants
//! - The meaning of a rule id never changes.
//! - No function recurses, and the work is bounded by the size of the catalog.

mod catalog;
mod composition;
mod fix;
mod host_rules;
mod profile;
mod rules;
mod simplify;
mod tree;
mod validity_rules;

use std::cell::OnceCell;
use std::fmt;

use crate::json::{Value, Writer};

pub use catalog::{Snapshot, SnapshotError, Tools};
pub use fix::OptionalProperties;
pub use profile::{PROFILES, Profile};
pub use rules::{RULES, Rule, RuleSet};
pub use simplify::{Simplified, SimplifyError, simplify, simplify_schema};

use composition::Marks;
use fix::Plan;
use tree::SchemaTree;

/// Severity of a finding. It is a field of [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The fix or the simplification left or dropped something. Not counted.
    Note,
    /// The schema accepts too much, or gives the model too little information.
    Warning,
    /// The schema accepts anything, or breaks the tool.
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

/// A finding of one rule at one place.
///
/// ```
/// use tinymcp::lint::{self, Severity, Snapshot};
///
/// let catalog = Snapshot::parse(r#"[{"name": "erase", "inputSchema": {"type": "object"}}]"#)?;
/// let report = lint::check(&catalog);
/// let serious = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
/// for finding in serious {
///     println!("{} {}{}: {}", finding.rule, finding.tool, finding.pointer, finding.hint);
/// }
/// # Ok::<(), lint::SnapshotError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule's id, such as `SCH-003`.
    pub rule: &'static str,
    /// The severity.
    pub severity: Severity,
    /// The tool's name.
    pub tool: String,
    /// JSON Pointer (RFC 6901) into the tool object.
    pub pointer: String,
    /// Description of the problem.
    pub message: String,
    /// The correction; may be empty.
    pub hint: &'static str,
    /// True if the autofix corrects it.
    pub fixable: bool,
    /// The profile of the host that the finding is about.
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

/// Result of a lint run. [`check`] returns it; see [`Finding`] and [`Options`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// In catalog order, so those of one tool are neighbours; within a tool in text order.
    pub findings: Vec<Finding>,
    /// Number of critical findings; `schema_criticals` in JSON output.
    pub criticals: usize,
    /// Number of warnings; `schema_warnings` in JSON output.
    pub warnings: usize,
    /// Number of tools checked.
    pub tools: usize,
}

impl Report {
    fn of(findings: Vec<Finding>, tools: usize) -> Report {
        let count = |severity| findings.iter().filter(|f| f.severity == severity).count();
        let (criticals, warnings) = (count(Severity::Critical), count(Severity::Warning));
        Report { findings, criticals, warnings, tools }
    }
}

/// Selection of rules.
///
/// ```
/// use tinymcp::lint::{self, Options, Profile, Snapshot};
///
/// let catalog = Snapshot::parse(r#"[{"name": "erase", "inputSchema": {"type": "object"}}]"#)?;
/// let host = Profile::find("gemini").expect("a known host");
/// let options = Options::new().rules("recommended,SCH-003").expect("known rules").profile(host);
/// println!("{} warnings", lint::check_with(&catalog, &options).warnings);
/// # Ok::<(), lint::SnapshotError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    rules: Option<Vec<&'static str>>,
    profile: Option<&'static Profile>,
}

impl Options {
    /// The default rules.
    pub fn new() -> Options {
        Options::default()
    }

    /// Adds the rules for a host.
    #[must_use]
    pub fn profile(mut self, profile: &'static Profile) -> Options {
        self.profile = Some(profile);
        self
    }

    /// Selects rules by id, separated by commas. `recommended`, `default` and `all` name sets of
    /// rules; see [`RuleSet`].
    ///
    /// # Errors
    /// The first unknown id.
    pub fn rules(mut self, list: &str) -> Result<Options, String> {
        let ids = |test: fn(RuleSet) -> bool| RULES.iter().filter(move |r| test(r.set)).map(|r| r.id);
        let mut chosen: Vec<&'static str> = Vec::new();
        for id in list.split(',').map(str::trim) {
            match RULES.iter().find(|rule| rule.id.eq_ignore_ascii_case(id)) {
                Some(rule) => chosen.push(rule.id),
                None if id == "all" => chosen.extend(ids(|_| true)),
                None if id == "default" => chosen.extend(ids(|set| set != RuleSet::Optional)),
                None if id == "recommended" => chosen.extend(ids(|set| set == RuleSet::Recommended)),
                None => return Err(id.to_owned()),
            }
        }
        self.rules = Some(chosen);
        Ok(self)
    }

    fn runs(&self, rule: &Rule) -> bool {
        match &self.rules {
            Some(chosen) => chosen.contains(&rule.id),
            None => rule.set != RuleSet::Optional,
        }
    }
}

/// Checks tools with the default rules.
pub fn check<T: Tools + ?Sized>(tools: &T) -> Report {
    check_with(tools, &Options::new())
}

/// Checks tools with selected rules.
pub fn check_with<T: Tools + ?Sized>(tools: &T, options: &Options) -> Report {
    let snapshot = tools.snapshot();
    let mut findings = Vec::new();
    let all: Vec<Value<'_>> = snapshot.tools().collect();
    for (index, tool) in all.iter().enumerate() {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut found = rules::ToolFindings::new(name);
        rules::tool(options, &all, index, &mut found);
        if let Some(profile) = options.profile {
            host_rules::tool(profile, *tool, index, &mut found);
        }
        for which in ["inputSchema", "outputSchema"] {
            let Some(schema) = tool.get(which) else { continue };
            let analysis = SchemaAnalysis::new(schema, which);
            rules::schema(options, &analysis, &mut found);
            if let Some(profile) = options.profile {
                host_rules::schema(profile, &analysis, *tool, &mut found);
            }
        }
        findings.append(&mut found.into_findings());
    }
    Report::of(findings, all.len())
}

/// Result of the autofix.
///
/// ```
/// use tinymcp::lint::{self, OptionalProperties, Snapshot};
///
/// let catalog = Snapshot::parse(
///     r#"[{"name": "echo", "inputSchema": {
///         "type": "object", "properties": {"text": {"type": "string"}}
///     }}]"#,
/// )?;
/// let fixed = lint::fix(&catalog, OptionalProperties::Require);
/// assert!(fixed.text.contains(r#""additionalProperties": false"#));
/// # Ok::<(), lint::SnapshotError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fixed {
    /// The text of the catalog with the changes.
    pub text: String,
    /// Number of changes.
    pub changes: usize,
    /// Notes about objects left as they are, with the reason.
    pub unfixed: Vec<Finding>,
}

/// Closes objects and requires their declared members, in every schema of a catalog.
pub fn fix(snapshot: &Snapshot, optional: OptionalProperties) -> Fixed {
    let mut edits = Vec::new();
    let mut unfixed = Vec::new();
    for tool in snapshot.tools() {
        for which in ["inputSchema", "outputSchema"] {
            let Some(schema) = tool.get(which) else { continue };
            let analysis = SchemaAnalysis::new(schema, which);
            let plan = Plan::new(&analysis, optional);
            plan.edits(&analysis.tree, &mut edits);
            for (at, reason) in plan.left {
                unfixed.push(Finding {
                    rule: "FIX-001",
                    severity: Severity::Note,
                    tool: tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
                    pointer: analysis.pointer(at),
                    message: reason,
                    hint: "",
                    fixable: false,
                    profile: None,
                });
            }
        }
    }
    let changes = edits.len();
    Fixed { text: fix::apply(snapshot.text(), edits), changes, unfixed }
}

/// A schema with its analysis.
struct SchemaAnalysis<'d> {
    /// `inputSchema` or `outputSchema`.
    which: &'static str,
    tree: SchemaTree<'d>,
    marks: Marks,
    plan: OnceCell<Plan>,
    cycles: OnceCell<Vec<usize>>,
}

impl<'d> SchemaAnalysis<'d> {
    fn new(schema: Value<'d>, which: &'static str) -> SchemaAnalysis<'d> {
        let tree = SchemaTree::new(schema);
        let marks = Marks::new(&tree);
        SchemaAnalysis { which, tree, marks, plan: OnceCell::new(), cycles: OnceCell::new() }
    }

    /// The changes that the autofix would make.
    fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| Plan::new(self, OptionalProperties::Require))
    }

    /// A number for each subschema; recursive ones share a number with those they lead back to.
    fn cycles(&self) -> &[usize] {
        self.cycles.get_or_init(|| composition::cycles(&self.tree))
    }

    /// The pointer of a subschema within its tool.
    fn pointer(&self, at: usize) -> String {
        format!("/{}{}", self.which, self.tree.pointer(at))
    }
}
