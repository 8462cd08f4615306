//! Decoding of messages from servers: descriptors, results, notifications and requests, in any
//! revision.
//!
//! The decoder accepts the members of all revisions, regardless of the negotiated one. A missing
//! required member makes a value unreadable; other missing members are skipped.
//!
//! # Invariants
//! - Schemas, `_meta`, structured results and unknown blocks keep their text.

mod catalog;
mod client_request;
pub(super) mod content;
#[cfg(feature = "skills")]
mod skill;

use std::time::Duration;

use crate::json::{Json, Value, Writer};
use crate::model::task::{Task, TaskStatus};
use crate::model::{Change, Identity, Level, Revision, ServerCapabilities};
use crate::rpc::{Notification, is_id};

use super::client::{ServerDescription, ServerEvent};
use super::modern::read_filter;
use super::version::{self, V2026_07_28};

pub(crate) use catalog::{prompt, resource, template, tool};
pub(crate) use client_request::read_request;
pub(crate) use content::{completion, prompt_output, read_output, tool_output};
#[cfg(feature = "skills")]
pub(crate) use skill::{one_skill, skill, skills_capability};

/// Maximum number of subscriptions in an acknowledgment: that of the largest filter.
const MAX_ACKNOWLEDGED: usize = 1 << 16;

/// Reads a notification; a malformed one is ignored.
pub(super) fn notification<'d>(notification: &Notification<'d>) -> ServerEvent<'d> {
    let Some(params) = notification.params else {
        return match notification.method {
            "notifications/tools/list_changed" => ServerEvent::Change { change: Change::Tools, listen: None },
            "notifications/prompts/list_changed" => {
                ServerEvent::Change { change: Change::Prompts, listen: None }
            }
            "notifications/resources/list_changed" => {
                ServerEvent::Change { change: Change::Resources, listen: None }
            }
            method => ServerEvent::Extension { method, params: None },
        };
    };
    let listen = || params.get("_meta")?.get("io.modelcontextprotocol/subscriptionId")?.as_u64();
    let changed = |change| ServerEvent::Change { change, listen: listen() };
    match notification.method {
        "notifications/progress" => progress(params).unwrap_or(ServerEvent::Ignored),
        "notifications/message" => log(params).unwrap_or(ServerEvent::Ignored),
        "notifications/tools/list_changed" => changed(Change::Tools),
        "notifications/prompts/list_changed" => changed(Change::Prompts),
        "notifications/resources/list_changed" => changed(Change::Resources),
        "notifications/resources/updated" => match params.get("uri").and_then(Value::as_str) {
            Some(uri) => changed(Change::ResourceUpdated(uri.to_owned())),
            None => ServerEvent::Ignored,
        },
        "notifications/cancelled" => match params.get("requestId").filter(|id| is_id(*id)) {
            Some(id) => ServerEvent::Cancelled(id),
            None => ServerEvent::Ignored,
        },
        "notifications/subscriptions/acknowledged" => {
            let filter = params.get("notifications").and_then(|f| read_filter(f, MAX_ACKNOWLEDGED).ok());
            match (listen(), filter) {
                (Some(listen), Some(filter)) => ServerEvent::Acknowledged { listen, filter },
                _ => ServerEvent::Ignored,
            }
        }
        method => ServerEvent::Extension { method, params: Some(params) },
    }
}

fn progress<'d>(params: Value<'d>) -> Option<ServerEvent<'d>> {
    Some(ServerEvent::Progress {
        id: params.get("progressToken")?.as_u64()?,
        done: params.get("progress")?.as_f64()?,
        total: params.get("total").and_then(Value::as_f64),
        message: params.get("message").and_then(Value::as_str),
    })
}

fn log<'d>(params: Value<'d>) -> Option<ServerEvent<'d>> {
    Some(ServerEvent::Log {
        level: Level::parse(params.get("level")?.as_str()?)?,
        logger: params.get("logger").and_then(Value::as_str),
        data: params.get("data")?,
    })
}

/// Reads the response to `server/discover`.
pub(super) fn discover_result(result: Value<'_>) -> ServerDescription {
    // Servers of draft revisions name themselves in the body.
    let info = result.get("_meta").and_then(|m| m.get("io.modelcontextprotocol/serverInfo"));
    server_description(V2026_07_28, result, info.or_else(|| result.get("serverInfo")))
}

/// Reads the response to `initialize`.
///
/// # Errors
/// The revision is unknown or has no sessions (basic/lifecycle, version negotiation).
pub(super) fn initialize_result(result: Value<'_>) -> Result<ServerDescription, String> {
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    match version::parse(version) {
        Some(revision) if revision != V2026_07_28 => {
            Ok(server_description(revision, result, result.get("serverInfo")))
        }
        _ => {
            let version: String = version.chars().take(40).collect();
            Err(format!("the server opened a session in the unknown revision {version:?}"))
        }
    }
}

fn server_description(revision: Revision, result: Value<'_>, info: Option<Value<'_>>) -> ServerDescription {
    let text = |name: &str| info.and_then(|i| i.get(name)).and_then(Value::as_str).map(str::to_owned);
    let capabilities = result.get("capabilities");
    ServerDescription {
        revision,
        identity: Identity {
            name: text("name").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            title: text("title"),
            description: text("description"),
            website: text("websiteUrl"),
            icons: info.map(catalog::icons).unwrap_or_default(),
            instructions: result.get("instructions").and_then(Value::as_str).map(str::to_owned),
        },
        capabilities: capabilities.map(|c| server_capabilities(revision, c)).unwrap_or_default(),
        capabilities_json: capabilities.map_or_else(empty, Value::to_json),
        description: None,
    }
}

fn empty() -> Json {
    let mut w = Writer::new();
    w.begin_object().end_object();
    w.into_json()
}

/// Reads the capabilities of a server: presence means support (requirement CAP-06).
fn server_capabilities(revision: Revision, capabilities: Value<'_>) -> ServerCapabilities {
    let has = |name: &str| capabilities.get(name).is_some_and(|v| !v.is_null());
    let flag = |name: &str, member: &str| {
        capabilities.get(name).and_then(|v| v.get(member)).and_then(Value::as_bool) == Some(true)
    };
    ServerCapabilities {
        tools: has("tools"),
        tools_changed: flag("tools", "listChanged"),
        resources: has("resources"),
        resources_changed: flag("resources", "listChanged"),
        subscribe: flag("resources", "subscribe"),
        prompts: has("prompts"),
        prompts_changed: flag("prompts", "listChanged"),
        // The oldest revision has the method and no capability for it.
        completions: has("completions") || !version::features(revision).annotations,
        logging: has("logging"),
    }
}

/// Reads a task of MCP 2025-11-25 basic/utilities/tasks (times are `ttl` and `pollInterval`) or of
/// the extension `io.modelcontextprotocol/tasks` (`ttlMs` and `pollIntervalMs`). All times are
/// milliseconds.
///
/// `None` without an id or a known status.
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

/// Contents of a task's state in the stateless protocol.
pub(crate) enum TaskContents {
    /// The result of the call.
    Result(Json),
    /// The JSON-RPC error of the call.
    Error(Json),
    /// Requests to the client, an object by key.
    Requests(Json),
    /// No contents.
    None,
}

/// Reads the contents of a task's state.
pub(crate) fn task_contents(state: &Json) -> TaskContents {
    let doc = state.to_doc();
    let member = |name: &str| {
        doc.root().get(name).filter(|v| v.kind() == crate::json::Kind::Object).map(Value::to_json)
    };
    let result = member("result").map(TaskContents::Result);
    let error = || member("error").map(TaskContents::Error);
    let requests = || member("inputRequests").map(TaskContents::Requests);
    result.or_else(error).or_else(requests).unwrap_or(TaskContents::None)
}

/// Returns `true` if a server with these session capabilities creates tasks for tool calls.
/// Otherwise a client must not request one (2025-11-25 basic/utilities/tasks, capability
/// negotiation).
pub(crate) fn supports_tasks(capabilities: &Json) -> bool {
    let doc = capabilities.to_doc();
    let tools = doc.root().get("tasks").and_then(|t| t.get("requests")?.get("tools"));
    tools.and_then(|tools| tools.get("call")).is_some()
}
