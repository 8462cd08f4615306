//! Validation of structured results against `outputSchema`.
//!
//! Stores the schemas of the last lists of tools and compiles a schema on the first result of its
//! tool. The result of a tool that was never listed is not validated.
//!
//! Source: MCP 2026-07-28 and 2025-11-25 server/tools, output schema: clients SHOULD validate
//! structured results (requirement TOOL-19).
//!
//! # Invariants
//! - The schemas take at most [`ClientLimits::cache_bytes`](crate::ClientLimits::cache_bytes);
//!   validation is bounded by [`Limits::schema`].
//! - All schemas are dropped when the server reports that its tools changed.

use std::sync::{Arc, Mutex};

use crate::era::outgoing::OutgoingRequest;
use crate::json::{Json, Kind, Value};
use crate::limits::Limits;
use crate::schema::{Formats, Options, Schema};
use crate::sync::lock;

/// Bytes of an entry besides its texts.
const OVERHEAD: usize = 96;

/// Output schemas of the tools that were listed.
pub(super) struct OutputSchemas {
    /// `false` if results are not validated.
    on: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Vec<Known>,
    bytes: usize,
}

struct Known {
    tool: Box<str>,
    schema: Json,
    compiled: Compiled,
}

#[derive(Clone)]
enum Compiled {
    NotYet,
    Ready(Arc<Schema>),
    /// The text is not a schema, or not a schema that this library supports.
    Unusable,
}

impl Known {
    fn size(&self) -> usize {
        OVERHEAD + self.tool.len() + self.schema.as_str().len()
    }
}

impl State {
    fn forget(&mut self, tool: &str) {
        if let Some(at) = self.known.iter().position(|known| *known.tool == *tool) {
            let removed = self.known.swap_remove(at);
            self.bytes -= removed.size();
        }
    }
}

impl OutputSchemas {
    pub(super) fn new(on: bool) -> OutputSchemas {
        OutputSchemas { on, state: Mutex::default() }
    }

    /// Stores the schemas of a list result.
    pub(super) fn update(&self, result: Value<'_>, limits: &Limits) {
        if !self.on {
            return;
        }
        for tool in result.get("tools").into_iter().flat_map(Value::items) {
            let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
            let schema = tool.get("outputSchema").filter(|s| s.kind() == Kind::Object);
            let mut state = lock(&self.state);
            let Some(schema) = schema else {
                state.forget(name);
                continue;
            };
            if state.known.iter().any(|k| *k.tool == *name && k.schema.as_str() == schema.raw()) {
                continue;
            }
            state.forget(name);
            let known = Known { tool: name.into(), schema: schema.to_json(), compiled: Compiled::NotYet };
            if state.bytes + known.size() <= limits.client.cache_bytes {
                state.bytes += known.size();
                state.known.push(known);
            }
        }
    }

    /// Drops all schemas, because the tools changed.
    pub(super) fn forget(&self) {
        *lock(&self.state) = State::default();
    }

    /// Validates the result of a call.
    ///
    /// # Errors
    /// A description of the first mismatch.
    pub(super) fn check(
        &self,
        request: &OutgoingRequest,
        result: Value<'_>,
        limits: &Limits,
    ) -> Result<(), String> {
        let Some(tool) = request.subject.as_deref().filter(|_| request.is_tool_call()) else { return Ok(()) };
        let found =
            lock(&self.state).known.iter().find(|k| *k.tool == *tool).map(|known| match &known.compiled {
                Compiled::NotYet => Err(known.schema.clone()),
                compiled => Ok(compiled.clone()),
            });
        if found.is_some() && result.get("isError").and_then(Value::as_bool) == Some(true) {
            return Ok(());
        }
        let schema = match found {
            None | Some(Ok(Compiled::Unusable | Compiled::NotYet)) => return Ok(()),
            Some(Ok(Compiled::Ready(schema))) => schema,
            // The lock is not held, because compiling may take long. Two threads may both compile.
            Some(Err(text)) => match self.compile(tool, &text, limits) {
                Some(schema) => schema,
                None => return Ok(()),
            },
        };
        // With an output schema a result MUST have a structured value (server/tools).
        let Some(value) = result.get("structuredContent") else {
            return Err(format!(
                "the tool {tool:?} has an output schema, but its result has no structuredContent"
            ));
        };
        schema.check(value).map_err(|violation| {
            let (path, message) = (&violation.path, &violation.message);
            format!("the result of {tool:?} does not match its output schema at {path:?}: {message}")
        })
    }

    fn compile(&self, tool: &str, text: &Json, limits: &Limits) -> Option<Arc<Schema>> {
        // Validation runs on the caller's thread, whose stack size is unknown.
        let fitting = limits.schema.clone().fitting(limits.worker_stack);
        let doc = text.to_doc();
        let schema = Options::new().formats(Formats::Annotate).limits(fitting).compile(doc.root()).ok();
        let schema = schema.map(Arc::new);
        let mut state = lock(&self.state);
        let same = |k: &&mut Known| *k.tool == *tool && k.schema.as_str() == text.as_str();
        if let Some(known) = state.known.iter_mut().find(same) {
            known.compiled = schema.clone().map_or(Compiled::Unusable, Compiled::Ready);
        }
        schema
    }
}
