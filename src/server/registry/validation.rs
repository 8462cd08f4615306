//! Schema validation of arguments, structured results and client responses with this crate's
//! validator (feature `schema`).
//!
//! Every server uses it, with formats, unless
//! [`Server::schema_compiler`](crate::Server::schema_compiler) sets another compiler. Types made by
//! `record!` are checked while they are decoded, which also accepts `null` for an optional member.

use std::sync::Arc;

use super::{SchemaCheck, SchemaCompiler};
use crate::json::Value;
use crate::limits::Limits;
use crate::model::client_request::{FieldKind, InputRequest};
use crate::record::Violation;
use crate::schema::{Formats, Options, Schema};

/// Returns the default compiler of a server. Checks run on workers, so their limits fit the
/// workers' stacks.
pub(crate) fn standard(limits: &Limits) -> Arc<dyn SchemaCompiler> {
    let fitting = limits.schema.clone().fitting(limits.worker_stack);
    Arc::new(Options::new().formats(Formats::Assert).limits(fitting))
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

/// Checks the parts of a response that decoding does not check: the formats of a form's fields, and
/// the tool uses of a sampled message against the schemas of the offered tools.
///
/// # Errors
/// The fault, with a JSON Pointer into the response.
pub(crate) fn check_input_response(request: &InputRequest, response: Value<'_>) -> Result<(), String> {
    let options = Options::new().formats(Formats::Assert);
    match request {
        InputRequest::Form(form) => {
            let content = response.get("content");
            for field in &form.fields {
                let FieldKind::Text { format: Some(format) } = &field.kind else { continue };
                let Some(value) = content.and_then(|c| c.get(&field.name)) else { continue };
                let schema =
                    options.parse(&format!("{{\"format\":\"{format}\"}}")).map_err(|e| e.to_string())?;
                Schema::check(&schema, value)
                    .map_err(|v| format!("/content/{}: {}", field.name, v.message))?;
            }
            Ok(())
        }
        InputRequest::Sample(sampling) => {
            let content = response.get("content");
            let blocks = content.into_iter().chain(content.into_iter().flat_map(Value::items));
            for block in blocks.filter(|b| b.get("type").and_then(Value::as_str) == Some("tool_use")) {
                let name = block.get("name").and_then(Value::as_str).unwrap_or_default();
                let Some(tool) = sampling.tools.iter().find(|t| t.name == name) else {
                    return Err(format!("the tool {name:?} is not among the tools of the request"));
                };
                if let (Some(schema), Some(input)) = (&tool.input_schema, block.get("input")) {
                    let schema = options.parse(schema.as_str()).map_err(|e| e.to_string())?;
                    Schema::check(&schema, input)
                        .map_err(|v| format!("input of {name:?} at {:?}: {}", v.path, v.message))?;
                }
            }
            Ok(())
        }
        InputRequest::Url { .. } | InputRequest::Roots => Ok(()),
    }
}
