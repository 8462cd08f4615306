//! JSON Schema validator: a schema is compiled once, then values are checked in bounded time.
//!
//! Supports draft 2020-12 with all vocabularies, draft 2019-09, draft-07 if `$schema` names it, and
//! draft-07's spellings in 2020-12 schemas. References reach the schema itself, the documents of
//! [`Options::document`] and the metaschemas; nothing is fetched. An invalid schema is rejected at
//! compile time, with a pointer to the error.
//!
//! ```
//! use tinymcp::schema::Schema;
//! let schema = Schema::parse(
//!     r#"{"type": "object", "properties": {"pin": {"type": "integer", "maximum": 27}}}"#,
//! )?;
//! let doc = tinymcp::json!({"pin": 99}).to_doc();
//! let violation = schema.check(doc.root()).err().unwrap();
//! assert_eq!((violation.path.as_str(), violation.keyword), ("/pin", "maximum"));
//! # Ok::<(), tinymcp::schema::SchemaError>(())
//! ```
//!
//! # Modules
//!
//! `resources.rs` checks the shape of every subschema, `resolve.rs` resolves references,
//! `compile.rs` fills the tables of `program.rs`, and `validate.rs` runs them on a [`Value`].
//! `decimal.rs` compares numbers exactly, `canon.rs` compares arrays and objects by canonical form.
//!
//! # Invariants
//!
//! - A validation ends within the steps and the depth of [`SchemaLimits`]. Exceeding them is a
//!   violation of the keyword `limit`, also under `not`.
//! - If a validation takes longer than the size of the value explains, it caches the verdicts of
//!   subschemas with several paths to them. So the cost is at most about the size of the schema
//!   times the size of the value.
//! - A valid value allocates nothing, with these exceptions: cached verdicts; long or nested arrays
//!   under `uniqueItems`; arrays or objects under `enum`; more than 64 required or evaluated
//!   members.

mod canon;
mod compile;
mod decimal;
mod format;
pub(crate) mod keyword;
mod messages;
mod metaschema;
mod output;
#[cfg(feature = "pattern")]
mod pattern;
mod program;
mod resolve;
mod resources;
pub(crate) mod subschemas;
pub(crate) mod uri;
mod validate;

use std::fmt;
use std::sync::Arc;

use crate::json::{Doc, Json, Value};
use crate::record::Violation;

pub use crate::limits::SchemaLimits;
pub use output::Output;

use program::Program;
use validate::Run;

/// A compiled schema. Cloning is cheap; threads may share one.
///
/// ```
/// use tinymcp::json;
/// use tinymcp::schema::Schema;
///
/// let schema = Schema::parse(r#"{"type": "array", "items": {"minimum": 0, "type": "integer"}}"#)?;
/// assert!(schema.is_valid(json!([1, 2]).to_doc().root()));
/// for violation in schema.check_all(json!([1, -2, "x"]).to_doc().root(), 10) {
///     println!("{violation}");
/// }
/// # Ok::<(), tinymcp::schema::SchemaError>(())
/// ```
#[derive(Clone)]
pub struct Schema(Arc<Compiled>);

struct Compiled {
    program: Program,
    limits: SchemaLimits,
}

/// Dialect of a schema without `$schema`. See [`Options`].
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

/// Effect of the keyword `format`. See [`Options`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Formats {
    /// Strings must have the known formats; unknown formats accept everything.
    Assert,
    /// Formats are annotations, as the standard prescribes by default.
    #[default]
    Annotate,
}

/// Options of the compiler.
///
/// ```
/// use tinymcp::json;
/// use tinymcp::schema::{Dialect, Formats, Schema};
///
/// let pin = json!({"type": "integer", "maximum": 27});
/// let schema = Schema::options()
///     .dialect(Dialect::Draft07)
///     .formats(Formats::Assert)
///     .document("https://board.example/pin.json", &pin)
///     .parse(
///         r#"{"properties": {
///             "pin": {"$ref": "https://board.example/pin.json"}, "since": {"format": "date"}
///         }}"#,
///     )?;
/// assert!(schema.is_valid(json!({"pin": 4, "since": "2026-11-25"}).to_doc().root()));
/// assert!(!schema.is_valid(json!({"pin": 4, "since": "today"}).to_doc().root()));
/// # Ok::<(), tinymcp::schema::SchemaError>(())
/// ```
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

    /// Sets the dialect of schemas without `$schema`.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Options {
        self.dialect = dialect;
        self
    }

    /// Sets whether formats are checked.
    #[must_use]
    pub fn formats(mut self, formats: Formats) -> Options {
        self.formats = formats;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: SchemaLimits) -> Options {
        self.limits = limits;
        self
    }

    /// Adds a document. References reach it by this absolute URI and by its own `$id`s.
    #[must_use]
    pub fn document(mut self, uri: &str, document: &Json) -> Options {
        self.documents.push((uri.to_owned(), Arc::new(document.to_doc())));
        self
    }

    /// Compiles a schema.
    ///
    /// # Errors
    /// The schema is invalid, or exceeds the limits.
    pub fn compile(&self, schema: Value<'_>) -> Result<Schema, SchemaError> {
        self.parse(schema.raw())
    }

    /// Compiles a schema from its text.
    ///
    /// # Errors
    /// The text is not JSON, or the schema is invalid or exceeds the limits.
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
    /// The schema is invalid, or exceeds the limits.
    pub fn compile(schema: Value<'_>) -> Result<Schema, SchemaError> {
        Options::new().compile(schema)
    }

    /// Compiles a schema from its text with [`Options::new`].
    ///
    /// # Errors
    /// The text is not JSON, or the schema is invalid or exceeds the limits.
    pub fn parse(schema: &str) -> Result<Schema, SchemaError> {
        Options::new().parse(schema)
    }

    /// Options for compiling; the same as [`Options::new`].
    pub fn options() -> Options {
        Options::new()
    }

    /// Returns `true` if the value is valid. The cheapest check.
    pub fn is_valid(&self, value: Value<'_>) -> bool {
        self.run(value).verdict()
    }

    /// Checks a value up to the first violation.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self, value: Value<'_>) -> Result<(), Box<Violation>> {
        self.run(value).first()
    }

    /// Returns all violations, at most `most`. `anyOf`, `oneOf` and `not` are reported themselves,
    /// not the violations of their branches.
    pub fn check_all(&self, value: Value<'_>, most: usize) -> Vec<Violation> {
        self.run(value).all(most)
    }

    /// The result in an output format of the standard (draft 2020-12 core, section 12.4).
    pub fn output(&self, value: Value<'_>, form: Output) -> Json {
        output::write(self.run(value), form)
    }

    fn run<'p, 'd>(&'p self, value: Value<'d>) -> Run<'p, 'd> {
        Run::new(&self.0.program, &self.0.limits, value)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("nodes", &self.0.program.nodes.len()).finish_non_exhaustive()
    }
}

/// A schema that is invalid or unsupported.
///
/// ```
/// use tinymcp::schema::Schema;
///
/// let error = Schema::parse(r#"{"properties": {"pin": {"type": "int"}}}"#).unwrap_err();
/// assert_eq!(error.pointer, "/properties/pin/type");
/// println!("{}", error.message);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaError {
    /// JSON Pointer (RFC 6901) into the schema, empty for the whole. For another document, its URI
    /// and `#` precede the pointer.
    pub pointer: String,
    /// The error and what is accepted instead.
    pub message: String,
}

impl SchemaError {
    pub(super) fn new(pointer: impl Into<String>, message: impl Into<String>) -> SchemaError {
        SchemaError { pointer: pointer.into(), message: message.into() }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.pointer, self.message)
        }
    }
}

impl std::error::Error for SchemaError {}

/// Replacement without the feature: a schema with a pattern is rejected at compile time.
#[cfg(not(feature = "pattern"))]
mod pattern {
    /// A compiled pattern; without the feature there are none.
    pub(crate) enum Pattern {}

    impl Pattern {
        /// Rejects the pattern.
        pub(crate) fn compile(_: &str) -> Result<Pattern, &'static str> {
            Err("patterns need the feature `pattern` of this library")
        }

        pub(crate) fn cost(&self) -> usize {
            match *self {}
        }

        pub(crate) fn is_match(&self, _: &str) -> bool {
            match *self {}
        }

        pub(crate) fn steps(&self, _: usize) -> usize {
            match *self {}
        }
    }

    /// Accepts every text as a pattern, because nothing can check it.
    pub(crate) fn is_pattern(_: &str) -> bool {
        true
    }
}
