//! The library's own schema validator behind the server's seam for checks.
//!
//! `server.schema_compiler(Arc::new(Options::new().formats(Formats::Assert)))` makes it check
//! arguments and results. It adds nothing to either side.
//!
//! Invariant: a schema that is refused stays refused; there is no check in its place.

use std::sync::Arc;

use super::registry::{SchemaCheck, SchemaCompiler};
use crate::json::Value;
use crate::record::Violation;
use crate::schema::{Options, Schema};

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
