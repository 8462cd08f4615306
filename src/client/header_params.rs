//! Tool arguments that are sent as HTTP headers.
//!
//! Reads the header parameters from lists of tools and adds the headers to calls. The rules are in
//! `era`.
//!
//! Source: MCP 2026-07-28 basic/transports/streamable-http (custom headers, client behaviour):
//! headers come from the most recent schema, and a tool that was never listed is called without
//! them.
//!
//! # Invariants
//! - Only tools with header parameters are stored, within the limits of entries and bytes of a
//!   list.

use std::sync::{Arc, Mutex};

use crate::era::modern::header::{self, BadAnnotation, MirroredArgument};
use crate::era::outgoing::OutgoingRequest;
use crate::json::{Doc, Value};
use crate::limits::Limits;
use crate::sync::lock;

/// Header parameters of the tools that were listed.
#[derive(Default)]
pub(super) struct HeaderParams(Mutex<Vec<Known>>);

struct Known {
    tool: Box<str>,
    /// The arguments that are also sent as headers.
    params: Arc<[MirroredArgument]>,
    /// Bytes of the tool's description.
    bytes: usize,
}

impl HeaderParams {
    /// Stores the header parameters of a list result. Reports each tool that cannot be called.
    pub(super) fn update(&self, result: Value<'_>, limits: &Limits, mut report: impl FnMut(String)) {
        for tool in result.get("tools").into_iter().flat_map(Value::items) {
            let params = params_of(tool).inspect_err(|bad| {
                let name = tool.get("name").map_or("", Value::raw);
                report(format!("the tool {name} is omitted: {bad}"));
            });
            let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
            let params = params.ok().filter(|params| !params.is_empty());
            let mut known = lock(&self.0);
            known.retain(|known| *known.tool != *name);
            let Some(params) = params else { continue };
            let bytes = tool.raw().len();
            let kept: usize = known.iter().map(|known| known.bytes).sum();
            if known.len() < limits.client.list_entries && kept + bytes <= limits.client.list_bytes {
                known.push(Known { tool: name.into(), params: params.into(), bytes });
            }
        }
    }

    /// Adds the headers of a call.
    pub(super) fn headers(&self, request: &OutgoingRequest, out: &mut Vec<(String, String)>) {
        let name = request.subject.as_deref().filter(|_| request.is_tool_call());
        let Some(name) = name else { return };
        let known = lock(&self.0);
        let found = known.iter().find(|known| *known.tool == *name).map(|known| Arc::clone(&known.params));
        drop(known);
        // Most tools have no header parameters, so their arguments need not be parsed.
        let Some(found) = found else { return };
        // Parsing cannot fail: this client wrote the object.
        let Ok(params) = Doc::parse(format!("{{{}}}", request.params)) else { return };
        header::params(&found, params.root().get("arguments"), out);
    }
}

/// Returns the header parameters of a tool. A client must not offer a tool for which this fails
/// (streamable-http, schema extension).
pub(super) fn params_of(tool: Value<'_>) -> Result<Vec<MirroredArgument>, BadAnnotation> {
    tool.get("inputSchema").map_or(Ok(Vec::new()), header::mirrors)
}
