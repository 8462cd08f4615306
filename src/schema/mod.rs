//! JSON Schema: compiled once, then values are checked against it in bounded time.
//!
//! Draft 2020-12 with all its vocabularies; draft-07 where `$schema` says so, and draft-07's
//! spellings in 2020-12 schemas. References reach the schema's own places, the
//! documents handed in by [`Options::document`] and the metaschemas; nothing is ever fetched. A
//! schema that is none is refused when it is compiled, with a pointer to the fault.
//!
//! ```
//! use tinymcp::schema::Schema;
//! let schema = Schema::parse(r#"{"type": "object", "properties": {"pin": {"type": "integer", "maximum": 27}}}"#)?;
//! let doc = tinymcp::json!({"pin": 99}).to_doc();
//! let violation = schema.check(doc.root()).err().unwrap();
//! assert_eq!((violation.path.as_str(), violation.keyword), ("/pin", "maximum"));
//! # Ok::<(), tinymcp::schema::SchemaError>(())
//! ```
//!
//! # How it works
//!
//! `survey.rs` looks at every subschema, `resolve.rs` finds what references lead to,
//! `compile.rs` writes the tables of `program.rs`, and `walk.rs` runs them over a
//! [`Value`]. Numbers are compared as they are written (`number.rs`), arrays and objects by
//! canonical form (`canon.rs`).
//!
//! # Invariants
//!
//! - A validation ends within the steps and the depth of [`SchemaLimits`]; one that would not is
//!   a violation of the keyword `limit`, also under `not`.
//! - Verdicts of subschemas that are reached on many paths are kept once a validation takes longer
//!   than the value's size explains, so the cost is at most about the size of the schema times
//!   that of the value.
//! - A value that fits allocates nothing, unless it needs kept verdicts, holds long or nested
//!   arrays under `uniqueItems`, arrays or objects under `enum`, or more than 64 required or
//!   evaluated members.

mod canon;
mod compile;
mod decimal;
mod error;
mod format;
mod key_map;
pub(crate) mod keyword;
mod messages;
mod metaschema;
mod output;
#[cfg(feature = "pattern")]
mod pattern;
#[cfg(not(feature = "pattern"))]
#[path = "without_pattern.rs"]
mod pattern;
mod program;
mod resolve;
mod resources;
pub(crate) mod subschemas;
pub(crate) mod uri;
mod validate;

use std::sync::Arc;

use crate::json::{Doc, Json, Value};
use crate::record::Violation;

pub use crate::limits::SchemaLimits;
pub use error::SchemaError;
pub use output::Output;

use program::Program;
use validate::Run;

/// A compiled schema. Cloning is cheap; threads may share one.
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    program: Program,
    limits: SchemaLimits,
}

/// What a schema is read by when it has no `$schema`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// `http://json-schema.org/draft-07/schema#`
    Draft07,
    /// `https://json-schema.org/draft/2019-09/schema`
    Draft201909,
    /// `https://json-schema.org/draft/2020-12/schema`, which MCP prescribes.
    #[default]
    Draft202012,
}

/// What the keyword `format` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Formats {
    /// Strings must have the formats known here; unknown formats accept everything.
    Assert,
    /// Formats are notes to the reader, which the standard makes the default.
    #[default]
    Annotate,
}

/// How schemas are compiled.
#[derive(Clone, Default)]
pub struct Options {
    dialect: Dialect,
    formats: Formats,
    limits: SchemaLimits,
    documents: Vec<(String, Arc<Doc>)>,
}

impl Options {
    /// Draft 2020-12, formats as annotations, the default limits, no documents.
    pub fn new() -> Options {
        Options::default()
    }

    /// The dialect of schemas that do not say theirs.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Options {
        self.dialect = dialect;
        self
    }

    /// Whether formats are checked.
    #[must_use]
    pub fn formats(mut self, formats: Formats) -> Options {
        self.formats = formats;
        self
    }

    /// Other limits.
    #[must_use]
    pub fn limits(mut self, limits: SchemaLimits) -> Options {
        self.limits = limits;
        self
    }

    /// A document that references may reach under this absolute URI and under those it gives
    /// itself with `$id`.
    #[must_use]
    pub fn document(mut self, uri: &str, document: &Json) -> Options {
        self.documents.push((uri.to_owned(), Arc::new(document.to_doc())));
        self
    }

    /// Compiles a schema.
    ///
    /// # Errors
    /// What makes it no schema, or one that cannot be run here, and where.
    pub fn compile(&self, schema: Value<'_>) -> Result<Schema, SchemaError> {
        self.parse(schema.raw())
    }

    /// Compiles a schema from its text.
    ///
    /// # Errors
    /// What makes it no JSON, no schema, or one that cannot be run here, and where.
    pub fn parse(&self, schema: &str) -> Result<Schema, SchemaError> {
        let mut doc = Doc::default();
        doc.parse_again(schema.as_bytes(), &resolve::parse_limits(&self.limits))
            .map_err(|e| SchemaError::new("", e.to_string()))?;
        let program = compile::compile(doc, self)?;
        Ok(Schema(Arc::new(Compiled { program, limits: self.limits.clone() })))
    }
}

impl Schema {
    /// Compiles a schema with [`Options::new`].
    ///
    /// # Errors
    /// What makes it no schema, or one that cannot be run here, and where.
    pub fn compile(schema: Value<'_>) -> Result<Schema, SchemaError> {
        Options::new().compile(schema)
    }

    /// Compiles a schema from its text with [`Options::new`].
    ///
    /// # Errors
    /// What makes it no JSON, no schema, or one that cannot be run here, and where.
    pub fn parse(schema: &str) -> Result<Schema, SchemaError> {
        Options::new().parse(schema)
    }

    /// Other ways to compile; the same as [`Options::new`].
    pub fn options() -> Options {
        Options::new()
    }

    /// Whether the value fits; the cheapest question.
    pub fn is_valid(&self, value: Value<'_>) -> bool {
        self.run(value).verdict()
    }

    /// Checks the value up to its first failure.
    ///
    /// # Errors
    /// Where and why it does not fit.
    pub fn check(&self, value: Value<'_>) -> Result<(), Box<Violation>> {
        self.run(value).first()
    }

    /// All failures, at most `most` of them. `anyOf`, `oneOf` and `not` report themselves, not
    /// what failed within.
    pub fn check_all(&self, value: Value<'_>, most: usize) -> Vec<Violation> {
        self.run(value).all(most)
    }

    /// The result in a form of the standard (draft 2020-12 core, section 12.4).
    pub fn output(&self, value: Value<'_>, form: Output) -> Json {
        output::write(self.run(value), form)
    }

    fn run<'p, 'd>(&'p self, value: Value<'d>) -> Run<'p, 'd> {
        Run::new(&self.0.program, &self.0.limits, value)
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("nodes", &self.0.program.nodes.len()).finish_non_exhaustive()
    }
}
