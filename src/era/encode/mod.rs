//! Encoding shared by both eras. A member that a revision lacks is omitted or down-converted
//! (requirements, section AE).

pub(super) mod catalog;
mod client_request;
pub(super) mod content;

pub(super) use catalog::{implementation, prompt, resource, template, tool};
#[cfg(feature = "client")]
pub(super) use client_request::input_response;
pub(crate) use client_request::write_request;

use super::version::{Features, features};
use super::{List, Reply, ServerCapabilities, ServerNotification};
use crate::json::{Json, Writer};
use crate::model::{Change, Revision};
use content::{completion, prompt_messages, resource_contents, tool_result};

/// Returns the text of an object without its braces.
pub(super) fn members(object: &Json) -> &str {
    let text = object.as_str().trim();
    text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or_default().trim()
}

/// Returns an object whose members `fill` writes.
pub(super) fn object(fill: impl FnOnce(&mut Writer)) -> Json {
    let mut w = Writer::new();
    w.begin_object();
    fill(&mut w);
    w.end_object();
    w.into_json()
}

/// Writes the start of a response, up to its open result object.
#[inline]
pub(super) fn begin_result(w: &mut Writer, id: &str) {
    w.solid_open("{\"jsonrpc\":\"2.0\",\"id\":").solid(id).solid_open("\"result\":{");
}

/// Writes the start of a notification, up to its open params object.
pub(super) fn begin_notification(w: &mut Writer, method: &str) {
    w.begin_object().solid("\"jsonrpc\":\"2.0\"");
    w.key("method").string(method);
    w.key("params").begin_object();
}

/// Writes a number. A whole number has no fraction, because most readers expect counts as integers.
fn number(w: &mut Writer, n: f64) {
    if n.fract() == 0.0 && n.abs() < 9e15 {
        w.i64(n as i64);
    } else {
        w.f64(n);
    }
}

/// Ends a message of [`begin_result`] or [`begin_notification`].
pub(super) fn end(w: &mut Writer) {
    w.end_object().end_object();
}

/// Writes the members of a result that are the same in both eras.
///
/// Returns the members of the result's own `_meta` as text, for the envelope. Replies of a single
/// era (server descriptions, requests to the client, the end of a listen request) have no common
/// members.
pub(super) fn reply_members<'a>(w: &mut Writer, revision: Revision, reply: Reply<'a>) -> &'a str {
    let features = features(revision);
    match reply {
        Reply::Page { list, entries, next, .. } => {
            w.key(match list {
                List::Tools => "tools",
                List::Resources => "resources",
                List::Templates => "resourceTemplates",
                List::Prompts => "prompts",
            });
            w.begin_array();
            for entry in entries {
                w.solid(entry);
            }
            w.end_array();
            if let Some(next) = next {
                w.key("nextCursor").string(next);
            }
            ""
        }
        Reply::Tool(output) => {
            tool_result(w, features, output);
            output.meta.as_ref().map_or("", members)
        }
        Reply::Read(output, _) => {
            w.key("contents").begin_array();
            for contents in &output.contents {
                resource_contents(w, features, contents);
            }
            w.end_array();
            ""
        }
        Reply::Prompt(output) => {
            prompt_messages(w, features, output);
            ""
        }
        Reply::Completion(output) => {
            completion(w, output);
            ""
        }
        Reply::Raw(result, _) => result.write(w, revision),
        Reply::Empty
        | Reply::ServerDescription { .. }
        | Reply::InputRequired { .. }
        | Reply::ListenEnded
        | Reply::Fault(_) => "",
    }
}

/// Writes the server's capabilities, the member `capabilities` of both eras, and the members of
/// extensions.
pub(super) fn server_capabilities(
    w: &mut Writer,
    features: &Features,
    capabilities: ServerCapabilities,
    extensions: &str,
) {
    let flag = |w: &mut Writer, name: &str, on: bool| {
        if on {
            w.key(name).bool(true);
        }
    };
    w.begin_object();
    if capabilities.tools {
        w.key("tools").begin_object();
        flag(w, "listChanged", capabilities.tools_changed);
        w.end_object();
    }
    if capabilities.resources {
        w.key("resources").begin_object();
        flag(w, "subscribe", capabilities.subscribe);
        flag(w, "listChanged", capabilities.resources_changed);
        w.end_object();
    }
    if capabilities.prompts {
        w.key("prompts").begin_object();
        flag(w, "listChanged", capabilities.prompts_changed);
        w.end_object();
    }
    // The method exists in 2024-11-05, the capability since 2025-03-26.
    if capabilities.completions && features.annotations {
        w.key("completions").begin_object().end_object();
    }
    if capabilities.logging {
        w.key("logging").begin_object().end_object();
    }
    w.raw_members(extensions).end_object();
}

/// Writes those of a client's capabilities that this revision has, and the member of its
/// extensions.
#[cfg(feature = "client")]
pub(super) fn client_capabilities(
    w: &mut Writer,
    features: &Features,
    declared: crate::model::ClientCapabilities,
    extensions: &str,
) {
    w.begin_object();
    if declared.roots {
        w.key("roots").begin_object();
        // Only sessions have notifications about changed roots.
        if !features.any_structured {
            w.key("listChanged").bool(true);
        }
        w.end_object();
    }
    if declared.sampling {
        w.key("sampling").begin_object();
        if declared.sampling_tools && features.sampling_tools {
            w.key("tools").begin_object().end_object();
        }
        w.end_object();
    }
    if (declared.form && features.elicitation) || (declared.url && features.rich_forms) {
        w.key("elicitation").begin_object();
        // `{}` means forms, the only kind in older revisions.
        if features.rich_forms {
            if declared.form {
                w.key("form").begin_object().end_object();
            }
            if declared.url {
                w.key("url").begin_object().end_object();
            }
        }
        w.end_object();
    }
    w.raw_members(extensions).end_object();
}

/// Writes the beginning of a notification that both eras have: its method and the members of its
/// params, which stay open.
pub(super) fn notification_members(
    w: &mut Writer,
    revision: Revision,
    notification: &ServerNotification<'_>,
) {
    match notification {
        ServerNotification::Progress { token, done, total, message } => {
            begin_notification(w, "notifications/progress");
            w.key("progressToken").solid(token);
            number(w.key("progress"), *done);
            if let Some(total) = total {
                number(w.key("total"), *total);
            }
            if let Some(message) = message.filter(|_| features(revision).annotations) {
                w.key("message").string(message);
            }
        }
        ServerNotification::Log { level, logger, data } => {
            begin_notification(w, "notifications/message");
            w.key("level").string(level.as_str());
            if let Some(logger) = logger {
                w.key("logger").string(logger);
            }
            w.key("data").json(data);
        }
        ServerNotification::Change { change, .. } => match change {
            Change::Tools => begin_notification(w, "notifications/tools/list_changed"),
            Change::Prompts => begin_notification(w, "notifications/prompts/list_changed"),
            Change::Resources => begin_notification(w, "notifications/resources/list_changed"),
            Change::ResourceUpdated(uri) => {
                begin_notification(w, "notifications/resources/updated");
                w.key("uri").string(uri);
            }
        },
        // Only the modern era has these signals, and it writes them itself.
        ServerNotification::Acknowledged { .. } | ServerNotification::ListenCancelled { .. } => {
            begin_notification(w, "notifications/cancelled")
        }
    }
}
