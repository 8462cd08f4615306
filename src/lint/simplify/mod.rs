//! Simplified copies of input schemas, for hosts that refuse valid schemas.
//!
//! The model reads the copy; calls are validated against the original. Keywords that the host
//! refuses are rewritten to an equivalent or dropped. Each dropped constraint is reported.
//! Annotations that repeat the tool's own are dropped without a report. Other values are spliced
//! from the original.
//!
//! # Invariants
//! - No function recurses; at most [`CHAIN`] nested references are inlined.
//! - A copy has at most [`BYTES`] bytes; a schema with a longer copy is an error.

mod flatten;
mod keywords;

use std::borrow::Cow;
use std::fmt;

use super::composition::{Layout, is_annotation};
use super::fix::{Edit, apply};
use super::host_rules::{ROOT_COMBINATORS, is_recursive};
use super::profile::{Profile, References};
use super::tree::{ROOT, Role, Target, has_type, is_object};
use super::{Finding, SchemaAnalysis, Severity, Snapshot};
use crate::json::{Kind, Value};
use flatten::View;
use keywords::{Parts, allows_null, object, raw, word};

/// Largest number of nested references that are inlined.
const CHAIN: usize = 16;

/// Largest copy. 256 KiB: twice the limit of the most permissive host, and written in less than 100
/// ms.
const BYTES: usize = 1 << 18;

/// Result of a simplification.
///
/// ```
/// use tinymcp::lint::{self, Profile, Snapshot};
///
/// let catalog = Snapshot::parse(
///     r#"[{"name": "dim", "inputSchema": {
///         "type": "object", "properties": {"level": {"type": "integer", "exclusiveMinimum": 0}}
///     }}]"#,
/// )?;
/// let host = Profile::find("gemini").expect("a known host");
/// let simple = lint::simplify(&catalog, host)?;
/// for loss in &simple.losses {
///     println!("{loss}");
/// }
/// println!("{}", simple.text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Simplified {
    /// The text.
    pub text: String,
    /// One note for each constraint that the copy drops or changes.
    pub losses: Vec<Finding>,
}

/// Error of [`simplify`]: a copy would be too long. See [`Simplified`].
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

/// Simplifies the input schemas of a catalog for a host. Everything else stays as it is.
///
/// # Errors
/// A copy would be too long, because references multiply it.
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

/// Simplifies one input schema; `tool` is the tool object that contains it.
///
/// # Errors
/// The copy would be too long, because references multiply it.
pub fn simplify_schema(
    schema: Value<'_>,
    tool: Option<Value<'_>>,
    profile: &'static Profile,
) -> Result<Simplified, SimplifyError> {
    let analysis = SchemaAnalysis::new(schema, "inputSchema");
    let text = |name| tool.and_then(|t| t.get(name)).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    let mut copy = Copy {
        analysis: &analysis,
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

/// An item of the work list of a [`Copy`].
pub(super) enum Emit<'d> {
    Text(Cow<'d, str>),
    /// A subschema, the chain of references that leads to it, and whether to allow null.
    Schema {
        at: usize,
        chain: usize,
        null: bool,
    },
}

pub(super) struct Copy<'l, 'd> {
    pub(super) analysis: &'l SchemaAnalysis<'d>,
    pub(super) profile: &'static Profile,
    pub(super) titles: [Option<&'d str>; 2],
    pub(super) description: Option<&'d str>,
    /// The root schema became a property of an object.
    pub(super) wrapped: bool,
    /// References being inlined: the target, and the index of the previous one plus 1.
    chains: Vec<(usize, usize)>,
    out: String,
    work: Vec<Emit<'d>>,
    losses: Vec<Finding>,
    tool: &'d str,
}

const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

impl<'d> Copy<'_, 'd> {
    fn run(&mut self) {
        let root = self.analysis.tree.node(ROOT).value;
        let other = root.kind() != Kind::Object || root.get("type").is_some() && !has_type(root, "object");
        let schema = Emit::Schema { at: ROOT, chain: 0, null: false };
        if other {
            self.wrapped = true;
            self.report_loss(
                ROOT,
                "the root is not an object, so it became the property \"value\" of one".to_owned(),
            );
            let open = "{\"type\":\"object\",\"properties\":{\"value\":";
            let end = "},\"required\":[\"value\"],\"additionalProperties\":false}";
            let end = if self.profile.refuses("additionalProperties") {
                "},\"required\":[\"value\"]}"
            } else {
                end
            };
            self.work.push(Emit::Text(Cow::Borrowed(end)));
            self.work.push(schema);
            self.work.push(Emit::Text(Cow::Borrowed(open)));
        } else {
            self.work.push(schema);
        }
        while let Some(task) = self.work.pop() {
            if self.out.len() > BYTES || self.work.len() > BYTES {
                self.out.push_str(&" ".repeat(BYTES));
                return;
            }
            match task {
                Emit::Text(text) => self.out.push_str(&text),
                Emit::Schema { at, chain, null } => self.schema(at, chain, null),
            }
        }
    }

    /// Reports a constraint that the copy drops or changes.
    pub(super) fn report_loss(&mut self, at: usize, message: String) {
        self.losses.push(Finding {
            rule: "HOST-100",
            severity: Severity::Note,
            tool: self.tool.to_owned(),
            pointer: self.analysis.pointer(at),
            message,
            hint: "",
            fixable: false,
            profile: Some(self.profile.id),
        });
    }

    fn in_chain(&self, target: usize, mut chain: usize) -> (bool, usize) {
        let mut length = 0;
        let mut found = false;
        while let Some((node, before)) = chain.checked_sub(1).and_then(|c| self.chains.get(c)) {
            found |= *node == target;
            chain = *before;
            length += 1;
        }
        (found, length)
    }

    fn schema(&mut self, at: usize, mut chain: usize, null: bool) {
        let mut here = at;
        let mut own: Vec<(&'d str, Value<'d>)> = Vec::new();
        if self.profile.references == References::Inline {
            match self.inlined(at, &mut chain, &mut own) {
                Ok(target) => here = target,
                Err(recursive) => return self.stub(recursive, &own),
            }
        }
        if self.profile.references == References::Finite && is_recursive(self.analysis, here) {
            self.report_loss(at, "kept only the type of a recursive reference".to_owned());
            let Target::Node(target) = self.analysis.tree.target(here) else { return };
            return self.stub(target, &own);
        }
        let value = self.analysis.tree.node(here).value;
        match value.as_bool() {
            Some(_) if self.profile.boolean_schemas || self.analysis.tree.node(here).role == Role::Extra => {
                return self.out.push_str(value.raw());
            }
            Some(verdict) => {
                if !verdict {
                    self.report_loss(at, "dropped false, which rejects every value".to_owned());
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
            tasks.push(Emit::Text(Cow::Borrowed("{\"anyOf\":[")));
        }
        object(&mut tasks, parts);
        if nullable && !listed {
            tasks.push(Emit::Text(Cow::Borrowed(",{\"type\":\"null\"}]}")));
        }
        self.work.extend(tasks.into_iter().rev());
    }

    /// Follows the references of a schema and collects the annotations beside them. An error is a
    /// recursive schema.
    fn inlined(
        &mut self,
        at: usize,
        chain: &mut usize,
        own: &mut Vec<(&'d str, Value<'d>)>,
    ) -> Result<usize, usize> {
        let tree = &self.analysis.tree;
        let mut here = at;
        while tree.target(here) != Target::None {
            let value = tree.node(here).value;
            // A reference with other keywords beside it is merged with them.
            let merged =
                !tree.old && value.members().any(|(k, _)| !is_annotation(k) && !REFERENCES.contains(&k));
            let next = match tree.target(here) {
                _ if merged => here,
                Target::Node(target) => target,
                _ => {
                    Self::annotations(value, own);
                    self.report_loss(at, "dropped a reference without a target in the schema".to_owned());
                    break;
                }
            };
            if !merged {
                Self::annotations(value, own);
            }
            let (again, length) = self.in_chain(next, *chain);
            if again || length >= CHAIN {
                let what = if merged { "schema" } else { "reference" };
                self.report_loss(at, format!("kept only the type of a recursive {what}"));
                return Err(next);
            }
            self.chains.push((next, *chain));
            *chain = self.chains.len();
            if merged {
                break;
            }
            here = next;
        }
        Ok(here)
    }

    /// Collects the annotations beside a reference; the outermost win.
    fn annotations(value: Value<'d>, own: &mut Vec<(&'d str, Value<'d>)>) {
        for (keyword, inner) in value.members() {
            if matches!(keyword, "description" | "title" | "default")
                && !own.iter().any(|(k, _)| *k == keyword)
            {
                own.push((keyword, inner));
            }
        }
    }

    /// Writes only the type of a recursive schema.
    fn stub(&mut self, target: usize, own: &[(&'d str, Value<'d>)]) {
        let value = self.analysis.tree.node(target).value;
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

    /// The keywords of a schema, merged if the host refuses its combinators.
    fn view(&mut self, here: usize) -> View<'d> {
        let tree = &self.analysis.tree;
        let value = tree.node(here).value;
        let mut without: Vec<&'static str> = Vec::new();
        if here == ROOT && !self.wrapped && self.profile.plain_root {
            without.extend(ROOT_COMBINATORS.iter().filter(|k| value.get(k).is_some()));
        }
        if self.profile.refuses("allOf") && value.get("allOf").is_some() && !without.contains(&"allOf") {
            without.push("allOf");
        }
        if self.profile.references == References::Inline && tree.target(here) != Target::None {
            without.extend(REFERENCES.iter().filter(|k| value.get(k).is_some()));
        }
        // Closed objects need one schema with all members.
        let form = self.analysis.marks.forms[here];
        let composed = form == Layout::Composed || here == ROOT && form == Layout::Wrapper;
        if self.profile.closed && composed && is_object(value) {
            let beside = ["allOf", "$ref"].into_iter().filter(|k| value.get(k).is_some());
            without.extend(beside.filter(|k| !without.contains(k)).collect::<Vec<_>>());
        }
        if without.is_empty() {
            return View::plain(tree, here);
        }
        // Merged schemas must not bring back keywords that the root must not have.
        if here == ROOT && !self.wrapped && self.profile.plain_root {
            without.extend(ROOT_COMBINATORS);
        }
        match View::merged(tree, here, &without) {
            Some(view) => {
                self.report_loss(here, format!("merged into one schema: {}", view.merged.join(", ")));
                view
            }
            None => {
                self.report_loss(here, format!("too large to merge: {}", without.join(", ")));
                let mut view = View::plain(tree, here);
                view.keywords.retain(|(k, ..)| !without.contains(k));
                view
            }
        }
    }
}
