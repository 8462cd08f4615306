//! Decoding of tasks, and of the capability to create them.
//!
//! Source: MCP 2025-11-25 basic/utilities/tasks (times are `ttl` and `pollInterval`); the extension
//! `io.modelcontextprotocol/tasks` of 2026-07-28 (`ttlMs` and `pollIntervalMs`). All are
//! milliseconds.

use std::time::Duration;

use crate::json::{Json, Value};
use crate::model::task::{Task, TaskStatus};

/// Reads a task; `None` without an id or a known status.
pub(crate) fn task(value: Value<'_>) -> Option<Task> {
    let time = |names: [&str; 2]| {
        let ms = names.into_iter().find_map(|name| value.get(name)?.as_u64());
        ms.map(Duration::from_millis)
    };
    Some(Task {
        id: value.get("taskId")?.as_str().filter(|id| !id.is_empty())?.to_owned(),
        status: TaskStatus::parse(value.get("status")?.as_str()?)?,
        message: value.get("statusMessage").and_then(Value::as_str).map(str::to_owned),
        poll_interval: time(["pollIntervalMs", "pollInterval"]),
        ttl: time(["ttlMs", "ttl"]),
        source: value.to_json(),
    })
}

/// Returns `true` if a server with these session capabilities creates tasks for tool calls.
/// Otherwise a client must not request one (2025-11-25 basic/utilities/tasks, capability
/// negotiation).
pub(crate) fn makes_tasks(capabilities: &Json) -> bool {
    let doc = capabilities.to_doc();
    let tools = doc.root().get("tasks").and_then(|t| t.get("requests")?.get("tools"));
    tools.and_then(|tools| tools.get("call")).is_some()
}
