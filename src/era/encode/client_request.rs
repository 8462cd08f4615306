//! Encoding of requests to the client: elicitation, sampling, roots.

#[cfg(feature = "client")]
use crate::json::Json;
use crate::json::Writer;
use crate::model::Revision;
#[cfg(feature = "client")]
use crate::model::client_request::{AskReply, SampleResponse};
use crate::model::client_request::{AskRequest, Block, Field, FieldKind, Form, Naming, Sampling};
use crate::model::content::Content;

use super::super::version::{Features, features};
use super::catalog::{optional, tool};
use super::content::content;
use super::number;

/// `"method":…,"params":…` into an open object.
///
/// `elicitation_id` is the id of a URL elicitation in revisions that need one (2025-11-25).
#[cold]
pub(crate) fn question(
    w: &mut Writer,
    revision: Revision,
    request: &AskRequest,
    elicitation_id: Option<u64>,
) {
    let features = features(revision);
    match request {
        AskRequest::Form(form) => {
            w.key("method").string("elicitation/create");
            w.key("params").begin_object();
            if features.rich_forms {
                w.key("mode").string("form");
            }
            self::form(w, features, form);
            w.end_object();
        }
        AskRequest::Url { message, url } => {
            w.key("method").string("elicitation/create");
            w.key("params").begin_object();
            w.key("mode").string("url");
            w.key("message").string(message);
            w.key("url").string(url);
            if let Some(id) = elicitation_id {
                w.key("elicitationId").string_fmt(format_args!("e{id}"));
            }
            w.end_object();
        }
        AskRequest::Sample(sampling) => {
            w.key("method").string("sampling/createMessage");
            w.key("params").begin_object();
            sample(w, features, sampling);
            w.end_object();
        }
        AskRequest::Roots => {
            w.key("method").string("roots/list");
        }
    }
}

fn form(w: &mut Writer, features: &Features, form: &Form) {
    w.key("message").string(&form.message);
    w.key("requestedSchema").begin_object();
    w.key("type").string("object");
    w.key("properties").begin_object();
    for field in &form.fields {
        w.key(&field.name);
        self::field(w, features, field);
    }
    w.end_object();
    if form.fields.iter().any(|f| f.required) {
        w.key("required").begin_array();
        for field in form.fields.iter().filter(|f| f.required) {
            w.string(&field.name);
        }
        w.end_array();
    }
    w.end_object();
}

fn field(w: &mut Writer, features: &Features, field: &Field) {
    w.begin_object();
    let (kind, least, most) = match &field.kind {
        FieldKind::Text { .. } => ("string", "minLength", "maxLength"),
        FieldKind::Number => ("number", "minimum", "maximum"),
        FieldKind::Integer => ("integer", "minimum", "maximum"),
        FieldKind::Bool => ("boolean", "", ""),
        FieldKind::One { .. } => ("string", "", ""),
        // 2025-06-18 has no multiple choice, so a single one replaces it.
        FieldKind::Many { .. } if !features.rich_forms => ("string", "", ""),
        FieldKind::Many { .. } => ("array", "minItems", "maxItems"),
    };
    w.key("type").string(kind);
    optional(w, "title", &field.title);
    optional(w, "description", &field.description);
    match &field.kind {
        FieldKind::Text { format: Some(format) } => {
            w.key("format").string(format);
        }
        FieldKind::One { options, naming } => {
            choices(w, options, features.rich_forms && *naming == Naming::OneOf, "oneOf");
        }
        FieldKind::Many { options } if features.rich_forms => {
            w.key("items").begin_object();
            if options.iter().all(|(_, title)| title.is_none()) {
                w.key("type").string("string");
            }
            choices(w, options, true, "anyOf");
            w.end_object();
        }
        FieldKind::Many { options } => choices(w, options, false, ""),
        FieldKind::Text { format: None } | FieldKind::Number | FieldKind::Integer | FieldKind::Bool => {}
    }
    for (name, bound) in [(least, field.least), (most, field.most)] {
        if let Some(bound) = bound.filter(|_| !name.is_empty()) {
            number(w.key(name), bound);
        }
    }
    if let Some(default) = field.default.as_ref() {
        let plain = matches!(field.kind, FieldKind::Bool);
        if features.rich_forms || plain {
            w.key("default").json(default);
        }
    }
    w.end_object();
}

fn choices(w: &mut Writer, options: &[(String, Option<String>)], titled: bool, keyword: &str) {
    if titled && options.iter().any(|(_, title)| title.is_some()) {
        w.key(keyword).begin_array();
        for (value, title) in options {
            w.begin_object();
            w.key("const").string(value);
            w.key("title").string(title.as_ref().unwrap_or(value));
            w.end_object();
        }
        w.end_array();
        return;
    }
    w.key("enum").begin_array();
    for (value, _) in options {
        w.string(value);
    }
    w.end_array();
    if options.iter().any(|(_, title)| title.is_some()) {
        w.key("enumNames").begin_array();
        for (value, title) in options {
            w.string(title.as_ref().unwrap_or(value));
        }
        w.end_array();
    }
}

fn sample(w: &mut Writer, features: &Features, sampling: &Sampling) {
    w.key("messages").begin_array();
    for (role, blocks) in &sampling.messages {
        if features.sampling_tools && blocks.len() != 1 {
            w.begin_object();
            w.key("role").string(role.as_str());
            w.key("content").begin_array();
            for block in blocks {
                self::block(w, features, block);
            }
            w.end_array().end_object();
        } else {
            // Older revisions have one block per message, so several blocks become several
            // messages.
            for block in blocks {
                w.begin_object();
                w.key("role").string(role.as_str());
                w.key("content");
                self::block(w, features, block);
                w.end_object();
            }
        }
    }
    w.end_array();
    w.key("maxTokens").u64(u64::from(sampling.max_tokens));
    optional(w, "systemPrompt", &sampling.system);
    if let Some(temperature) = sampling.temperature {
        w.key("temperature").f64(temperature);
    }
    if !sampling.stop.is_empty() {
        w.key("stopSequences").begin_array();
        for stop in &sampling.stop {
            w.string(stop);
        }
        w.end_array();
    }
    preferences(w, sampling);
    if let Some(metadata) = &sampling.metadata {
        w.key("metadata").json(metadata);
    }
    if !sampling.tools.is_empty() {
        w.key("tools").begin_array();
        for t in &sampling.tools {
            tool(w, features, t);
        }
        w.end_array();
    }
    if let Some(choice) = sampling.tool_choice {
        w.key("toolChoice").begin_object();
        w.key("mode").string(choice.as_str()).end_object();
    }
}

fn preferences(w: &mut Writer, sampling: &Sampling) {
    if sampling.hints.is_empty() && sampling.priorities.iter().all(Option::is_none) {
        return;
    }
    w.key("modelPreferences").begin_object();
    if !sampling.hints.is_empty() {
        w.key("hints").begin_array();
        for hint in &sampling.hints {
            w.begin_object().key("name").string(hint).end_object();
        }
        w.end_array();
    }
    let names = ["costPriority", "speedPriority", "intelligencePriority"];
    for (name, priority) in names.into_iter().zip(sampling.priorities) {
        if let Some(priority) = priority {
            w.key(name).f64(priority);
        }
    }
    w.end_object();
}

fn block(w: &mut Writer, features: &Features, block: &Block) {
    match block {
        Block::Content(c) => content(w, features, c),
        Block::ToolUse(use_) => {
            w.begin_object();
            w.key("type").string("tool_use");
            w.key("id").string(&use_.id);
            w.key("name").string(&use_.name);
            w.key("input").json(&use_.input);
            w.end_object();
        }
        Block::ToolResult { id, content: blocks, is_error } => {
            w.begin_object();
            w.key("type").string("tool_result");
            w.key("toolUseId").string(id);
            w.key("content").begin_array();
            for b in blocks {
                content(w, features, b as &Content);
            }
            w.end_array();
            if *is_error {
                w.key("isError").bool(true);
            }
            w.end_object();
        }
    }
}

/// The client's response to a request.
#[cfg(feature = "client")]
pub(in crate::era) fn ask_reply(features: &Features, reply: &AskReply) -> Json {
    super::object(|w| match reply {
        AskReply::Form(reply) => {
            w.key("action").string(reply.action.as_str());
            if let Some(content) = &reply.content {
                w.key("content").json(content);
            }
        }
        AskReply::Url(action) => {
            w.key("action").string(action.as_str());
        }
        AskReply::Sample(reply) => sampled(w, features, reply),
        AskReply::Roots(roots) => {
            w.key("roots").begin_array();
            for root in roots {
                w.begin_object();
                w.key("uri").string(&root.uri);
                optional(w, "name", &root.name);
                w.end_object();
            }
            w.end_array();
        }
    })
}

#[cfg(feature = "client")]
fn sampled(w: &mut Writer, features: &Features, reply: &SampleResponse) {
    w.key("role").string("assistant");
    w.key("content");
    match reply.blocks.as_slice() {
        [only] => block(w, features, only),
        blocks if features.sampling_tools => {
            w.begin_array();
            for b in blocks {
                block(w, features, b);
            }
            w.end_array();
        }
        // Older revisions have one block, so the texts are joined.
        blocks => {
            let texts = blocks.iter().filter_map(|b| match b {
                Block::Content(content) => content.as_text(),
                Block::ToolUse(_) | Block::ToolResult { .. } => None,
            });
            let text: String = texts.collect();
            block(w, features, &Block::Content(Content::Text(text)));
        }
    }
    w.key("model").string(&reply.model);
    optional(w, "stopReason", &reply.stop_reason);
}
