//! Encoding shared by both eras. A member that a revision lacks is omitted or down-converted
//! (requirements, section AE).

mod catalog;
mod client_request;
pub(super) mod content;

pub(super) use catalog::{implementation, prompt, resource, template, tool};
#[cfg(feature = "client")]
pub(super) use client_request::ask_reply;
pub(crate) use client_request::question;

use super::version::{Features, features};
use super::{List, Reply, ServerCapabilities, Signal};
use crate::json::{Json, Writer};
use crate::model::{Change, Revision};
use content::{completion, prompt_messages, resource_contents, tool_result};

/// The members of an object's text, without its braces.
fn members(object: &Json) -> &str {
    let text = object.as_str().trim();
    text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or_default().trim()
}

/// One object, built by `fill`.
pub(super) fn object(fill: impl FnOnce(&mut Writer)) -> Json {
    let mut w = Writer::new();
    w.begin_object();
    fill(&mut w);
    w.end_object();
    w.into_json()
}

/// The start of a response, up to its open result object.
pub(super) fn begin_result(w: &mut Writer, id: &str) {
    w.solid_open("{\"jsonrpc\":\"2.0\",\"id\":").solid(id).solid_open("\"result\":{");
}

/// The start of a notification, up to its open params object.
pub(super) fn begin_notification(w: &mut Writer, method: &str) {
    w.begin_object().solid("\"jsonrpc\":\"2.0\"");
    w.key("method").string(method);
    w.key("params").begin_object();
}

/// A number, without a fraction if it has none: most readers expect counts as integers.
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

/// The members of a result that are the same in both eras.
///
/// Returns the members of the result's own `_meta` as text, for the envelope. Replies of a single
/// era (greetings, requests to the client, the end of a listen request) have no common members.
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
        Reply::Proxied(result, _) => result.write(w, revision),
        Reply::Empty
        | Reply::Greeting { .. }
        | Reply::Asked { .. }
        | Reply::ListenEnded
        | Reply::Fault(_) => "",
    }
}

/// The server's capabilities, as `capabilities` names them in both eras.
pub(super) fn offer(w: &mut Writer, features: &Features, offer: ServerCapabilities) {
    let flag = |w: &mut Writer, name: &str, on: bool| {
        if on {
            w.key(name).bool(true);
        }
    };
    w.begin_object();
    if offer.tools {
        w.key("tools").begin_object();
        flag(w, "listChanged", offer.tools_changed);
        w.end_object();
    }
    if offer.resources {
        w.key("resources").begin_object();
        flag(w, "subscribe", offer.subscribe);
        flag(w, "listChanged", offer.resources_changed);
        w.end_object();
    }
    if offer.prompts {
        w.key("prompts").begin_object();
        flag(w, "listChanged", offer.prompts_changed);
        w.end_object();
    }
    // The method exists in 2024-11-05, the capability since 2025-03-26.
    if offer.completions && features.annotations {
        w.key("completions").begin_object().end_object();
    }
    if offer.logging {
        w.key("logging").begin_object().end_object();
    }
    w.end_object();
}

/// A client's capabilities that this revision has, and extensions without settings.
#[cfg(feature = "client")]
pub(super) fn client_capabilities(
    w: &mut Writer,
    features: &Features,
    declared: crate::model::ClientCapabilities,
    extensions: &[&str],
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
        // `{}` means forms; older revisions have nothing else.
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
    if !extensions.is_empty() {
        w.key("extensions").begin_object();
        for name in extensions {
            w.key(name).begin_object().end_object();
        }
        w.end_object();
    }
    w.end_object();
}

/// Method and members of a signal that both eras have, into an open notification.
pub(super) fn signal_members(w: &mut Writer, revision: Revision, signal: &Signal<'_>) {
    match signal {
        Signal::Progress { token, done, total, message } => {
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
        Signal::Log { level, logger, data } => {
            begin_notification(w, "notifications/message");
            w.key("level").string(level.as_str());
            if let Some(logger) = logger {
                w.key("logger").string(logger);
            }
            w.key("data").json(data);
        }
        Signal::Change { change, .. } => match change {
            Change::Tools => begin_notification(w, "notifications/tools/list_changed"),
            Change::Prompts => begin_notification(w, "notifications/prompts/list_changed"),
            Change::Resources => begin_notification(w, "notifications/resources/list_changed"),
            Change::Updated(uri) => {
                begin_notification(w, "notifications/resources/updated");
                w.key("uri").string(uri);
            }
        },
        // Only the modern era has these; it writes them itself.
        Signal::Acknowledged { .. } | Signal::ListenCancelled { .. } => {
            begin_notification(w, "notifications/cancelled")
        }
    }
}
