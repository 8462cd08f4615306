//! Encoding of requests to the client: elicitation, sampling, roots.

use crate::json::{Json, Writer};
use crate::model::Revision;
use crate::model::client_request::{
    Field, FieldKind, Form, InputRequest, Sampling, SamplingBlock, TitleEncoding,
};
#[cfg(feature = "client")]
use crate::model::client_request::{InputResponse, SampleResponse};
use crate::model::content::Content;

use super::super::version::{Features, V2026_07_28, features};
use super::catalog::{optional, tool};
use super::content::content;
use super::number;

/// Writes `"method":…,"params":…` into an open object.
///
/// `elicitation_id` is the id of a URL elicitation in revisions that need one (2025-11-25).
#[cold]
pub(crate) fn write_request(
    w: &mut Writer,
    revision: Revision,
    request: &InputRequest,
    elicitation_id: Option<u64>,
) {
    let features = features(revision);
    match request {
        InputRequest::Form(form) => {
            w.key("method").string("elicitation/create");
            w.key("params").begin_object();
            if features.rich_forms {
                w.key("mode").string("form");
            }
            self::form(w, features, form);
            w.end_object();
        }
        InputRequest::Url { message, url } => {
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
        InputRequest::Sample(sampling) => {
            w.key("method").string("sampling/createMessage");
            w.key("params").begin_object();
            sample(w, features, sampling);
            w.end_object();
        }
        InputRequest::Roots => {
            w.key("method").string("roots/list");
        }
    }
}

impl Form {
    /// Returns the JSON Schema of the user's response, in the form of the newest revision.
    pub fn schema(&self) -> Json {
        super::object(|w| schema(w, features(V2026_07_28), self))
    }
}

fn form(w: &mut Writer, features: &Features, form: &Form) {
    w.key("message").string(&form.message);
    w.key("requestedSchema").begin_object();
    schema(w, features, form);
    w.end_object();
}

fn schema(w: &mut Writer, features: &Features, form: &Form) {
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
}

fn field(w: &mut Writer, features: &Features, field: &Field) {
    w.begin_object();
    let (kind, least, most) = match &field.kind {
        FieldKind::Text { .. } => ("string", "minLength", "maxLength"),
        FieldKind::Number => ("number", "minimum", "maximum"),
        FieldKind::Integer => ("integer", "minimum", "maximum"),
        FieldKind::Bool => ("boolean", "", ""),
        FieldKind::SingleSelect { .. } => ("string", "", ""),
        // 2025-06-18 has no multiple choice, so a single one replaces it.
        FieldKind::MultiSelect { .. } if !features.rich_forms => ("string", "", ""),
        FieldKind::MultiSelect { .. } => ("array", "minItems", "maxItems"),
    };
    w.key("type").string(kind);
    optional(w, "title", &field.title);
    optional(w, "description", &field.description);
    match &field.kind {
        FieldKind::Text { format: Some(format) } => {
            w.key("format").string(format);
        }
        FieldKind::SingleSelect { options, titles } => {
            choices(w, options, features.rich_forms && *titles == TitleEncoding::OneOf, "oneOf");
        }
        FieldKind::MultiSelect { options } if features.rich_forms => {
            w.key("items").begin_object();
            if options.iter().all(|(_, title)| title.is_none()) {
                w.key("type").string("string");
            }
            choices(w, options, true, "anyOf");
            w.end_object();
        }
        FieldKind::MultiSelect { options } => choices(w, options, false, ""),
        FieldKind::Text { format: None } | FieldKind::Number | FieldKind::Integer | FieldKind::Bool => {}
    }
    for (name, bound) in [(least, field.min), (most, field.max)] {
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

impl Sampling {
    /// Returns the request in the form of the newest revision.
    pub fn to_json(&self) -> Json {
        super::object(|w| sample(w, features(V2026_07_28), self))
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

fn block(w: &mut Writer, features: &Features, block: &SamplingBlock) {
    match block {
        SamplingBlock::Content(c) => content(w, features, c),
        SamplingBlock::ToolUse(use_) => {
            w.begin_object();
            w.key("type").string("tool_use");
            w.key("id").string(&use_.id);
            w.key("name").string(&use_.name);
            w.key("input").json(&use_.input);
            w.end_object();
        }
        SamplingBlock::ToolResult { id, content: blocks, is_error } => {
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

/// Encodes the client's response to a request.
#[cfg(feature = "client")]
pub(in crate::era) fn input_response(features: &Features, reply: &InputResponse) -> Json {
    super::object(|w| match reply {
        InputResponse::Form(reply) => {
            w.key("action").string(reply.action.as_str());
            if let Some(content) = &reply.content {
                w.key("content").json(content);
            }
        }
        InputResponse::Url(action) => {
            w.key("action").string(action.as_str());
        }
        InputResponse::Sample(reply) => sampled(w, features, reply),
        InputResponse::Roots(roots) => {
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
                SamplingBlock::Content(content) => content.as_text(),
                SamplingBlock::ToolUse(_) | SamplingBlock::ToolResult { .. } => None,
            });
            let text: String = texts.collect();
            block(w, features, &SamplingBlock::Content(Content::Text(text)));
        }
    }
    w.key("model").string(&reply.model);
    optional(w, "stopReason", &reply.stop_reason);
}
