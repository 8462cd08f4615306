//! Tool arguments that are sent as HTTP headers.
//!
//! Learns them from lists of tools and adds the headers to calls. The rules are in `era`.
//!
//! Source: MCP 2026-07-28 basic/transports/streamable-http (custom headers, client behaviour):
//! headers come from the most recent schema, and a tool that was never listed is called without
//! them.
//!
//! # Invariants
//! - Only tools with such arguments are kept, within the limits of entries and bytes of a list.

use std::sync::{Arc, Mutex};

use crate::era::modern::header::{self, BadAnnotation, Mirror};
use crate::era::outgoing::OutgoingRequest;
use crate::json::{Doc, Value};
use crate::limits::Limits;
use crate::sync::lock;

/// Header parameters of the tools that were listed.
#[derive(Default)]
pub(super) struct HeaderParams(Mutex<Vec<Known>>);

struct Known {
    tool: Box<str>,
    /// Its arguments that travel in headers.
    found: Arc<[Mirror]>,
    /// Bytes of the tool's description.
    bytes: usize,
}

impl HeaderParams {
    /// Learns from the result of a list request. Reports each tool that cannot be called.
    pub(super) fn learn(&self, result: Value<'_>, limits: &Limits, mut report: impl FnMut(String)) {
        for tool in result.get("tools").into_iter().flat_map(Value::items) {
            let found = found(tool).inspect_err(|bad| {
                let name = tool.get("name").map_or("", Value::raw);
                report(format!("the tool {name} is omitted: {bad}"));
            });
            let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
            let found = found.ok().filter(|found| !found.is_empty());
            let mut known = lock(&self.0);
            known.retain(|known| *known.tool != *name);
            let Some(found) = found else { continue };
            let bytes = tool.raw().len();
            let kept: usize = known.iter().map(|known| known.bytes).sum();
            if known.len() < limits.list_entries && kept + bytes <= limits.list_bytes {
                known.push(Known { tool: name.into(), found: found.into(), bytes });
            }
        }
    }

    /// Adds the headers of a call.
    pub(super) fn headers(&self, order: &OutgoingRequest, out: &mut Vec<(String, String)>) {
        let name = order.subject.as_deref().filter(|_| order.is_tool_call());
        let Some(name) = name else { return };
        let known = lock(&self.0);
        let found = known.iter().find(|known| *known.tool == *name).map(|known| Arc::clone(&known.found));
        drop(known);
        // Most tools have none: skip parsing.
        let Some(found) = found else { return };
        // OK to ignore an error: this client wrote the object itself.
        let Ok(params) = Doc::parse(format!("{{{}}}", order.params)) else { return };
        header::params(&found, params.root().get("arguments"), out);
    }
}

/// Returns the header parameters of a tool. A client must not offer a tool for which this fails
/// (streamable-http, schema extension).
pub(super) fn found(tool: Value<'_>) -> Result<Vec<Mirror>, BadAnnotation> {
    tool.get("inputSchema").map_or(Ok(Vec::new()), header::mirrors)
}
