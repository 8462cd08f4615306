//! Results in the output formats of the standard (draft 2020-12 core, section 12.4).
//!
//! "Flag" is the verdict alone. "Basic" is a flat list of violations, each with the keyword's path
//! through references, its own location, and the path of the value.
//!
//! Invariants: annotations are not collected; at most [`MAX_VIOLATIONS`] violations are listed.

use crate::json::{Json, Writer};

use super::program::Program;
use super::subschemas::push_token;
use super::validate::{Found, Run, Token};

/// An output format.
///
/// ```
/// use tinymcp::json;
/// use tinymcp::schema::{Output, Schema};
///
/// let schema = Schema::parse(r#"{"type": "integer"}"#)?;
/// let report = schema.output(json!("x").to_doc().root(), Output::Flag);
/// assert_eq!(report.as_str(), r#"{"valid":false}"#);
/// # Ok::<(), tinymcp::schema::SchemaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// `{"valid":false}`
    Flag,
    /// The verdict and a flat list of violations.
    Basic,
}

/// Largest number of listed violations.
const MAX_VIOLATIONS: usize = 1000;

pub(super) fn write(mut run: Run<'_, '_>, form: Output) -> Json {
    let mut w = Writer::new();
    w.begin_object();
    w.key("valid");
    match form {
        Output::Flag => {
            w.bool(run.verdict());
        }
        Output::Basic => {
            let program = run.program;
            let found = run.violations(MAX_VIOLATIONS);
            w.bool(found.is_empty());
            if !found.is_empty() {
                w.key("errors").begin_array();
                for failure in &found {
                    unit(&mut w, program, failure);
                }
                w.end_array();
            }
        }
    }
    w.end_object();
    w.into_json()
}

fn unit(w: &mut Writer, program: &Program, found: &Found) {
    let mut relative = String::new();
    let mut absolute = program.text(program.base).to_owned();
    absolute.push('#');
    let mut referred = false;
    for token in found.trail.iter().rev() {
        match token {
            Token::Keyword(keyword) => {
                push_token(&mut relative, keyword);
                push_token(&mut absolute, keyword);
            }
            Token::Name(name) => {
                push_token(&mut relative, name);
                push_token(&mut absolute, name);
            }
            Token::Index(index) => {
                let index = index.to_string();
                push_token(&mut relative, &index);
                push_token(&mut absolute, &index);
            }
            Token::Reference(index) => {
                if let Some(reference) = program.references.get(*index as usize) {
                    push_token(&mut relative, reference.keyword);
                    absolute = program.text(reference.target).to_owned();
                    referred = true;
                }
            }
        }
    }
    w.begin_object();
    w.key("keywordLocation").string(&relative);
    if referred || program.base.len > 0 {
        w.key("absoluteKeywordLocation").string(&absolute);
    }
    w.key("instanceLocation").string(&found.violation.path);
    w.key("error").string(&found.violation.message);
    w.end_object();
}
