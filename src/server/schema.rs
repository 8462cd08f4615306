//! The library's own schema validator behind the server's seam for checks.
//!
//! Built with the feature `schema`, every server checks arguments and structured results with it,
//! formats included, unless [`Server::schema_compiler`](crate::Server::schema_compiler) says
//! otherwise. Types made by `record!` are checked by their own decoding, which also takes `null`
//! for an optional member that is not there.
//!
//! Invariant: a schema that is refused stays refused; there is no check in its place.

use std::sync::Arc;

use super::registry::{SchemaCheck, SchemaCompiler};
use crate::json::Value;
use crate::record::Violation;
use crate::schema::{Formats, Options, Schema};

/// What a server checks with unless it is told otherwise.
pub(super) fn standard() -> Arc<dyn SchemaCompiler> {
    Arc::new(Options::new().formats(Formats::Assert))
}

impl SchemaCheck for Schema {
    fn check(&self, value: Value<'_>) -> Result<(), Violation> {
        Schema::check(self, value).map_err(|violation| *violation)
    }
}

impl SchemaCompiler for Options {
    fn compile(&self, schema: Value<'_>) -> Result<Arc<dyn SchemaCheck>, String> {
        match Options::compile(self, schema) {
            Ok(schema) => Ok(Arc::new(schema)),
            Err(error) => Err(error.to_string()),
        }
    }
}
