//! Encoding of results and content blocks, down-converted for revisions that lack a block or a
//! member.

use base64ct::{Base64, Encoding};

use crate::json::{Json, Writer};
use crate::model::catalog::Annotations;
use crate::model::content::{Body, Completion, Content, PromptOutput, ResourceContents, ToolOutput};

use super::super::version::Features;
use super::catalog::{annotations, meta, optional, resource_members};

/// Writes the members of a tool's result.
///
/// If the handler returned no content, a structured value is also sent as text (server/tools,
/// structured content). Revisions without structured values get only the text.
pub(in crate::era) fn tool_result(w: &mut Writer, features: &Features, output: &ToolOutput) {
    w.solid_open("\"content\":[");
    for block in &output.content {
        content(w, features, block);
    }
    if let Some(value) = output.structured.as_ref().filter(|_| output.content.is_empty()) {
        w.begin_object().solid("\"type\":\"text\"");
        w.key("text").string(value.as_str()).end_object();
    }
    w.end_array();
    if let Some(value) = output.structured.as_ref().filter(|_| features.structured) {
        if features.any_structured || value.as_str().trim_start().starts_with('{') {
            w.key("structuredContent").json(value);
        }
    }
    if output.is_error {
        w.key("isError").bool(true);
    }
}

/// Writes a content block.
pub(in crate::era) fn content(w: &mut Writer, features: &Features, block: &Content) {
    let (mut block, mut notes, mut more): (_, Option<&Annotations>, &Option<Json>) = (block, None, &None);
    // Nested wrappers: the innermost annotations win, as documented at `Content::Annotated`.
    while let Content::Annotated { content, annotations, meta } = block {
        block = content;
        notes = annotations.as_ref().or(notes);
        more = if meta.is_some() { meta } else { more };
    }
    if let Content::Other(json) = block {
        w.json(json);
        return;
    }
    w.begin_object();
    match block {
        Content::Text(text) => {
            w.solid_open("\"type\":\"text\",\"text\":").string(text);
        }
        Content::Image { data, mime_type } => binary(w, "image", data, mime_type),
        Content::Audio { data, mime_type } if features.audio => binary(w, "audio", data, mime_type),
        Content::Audio { data, mime_type } => {
            w.solid("\"type\":\"text\"");
            w.key("text").string_fmt(format_args!(
                "[audio, {mime_type}, {} bytes: this protocol revision cannot carry it]",
                data.len()
            ));
        }
        Content::ResourceLink(resource) if features.links => {
            w.solid("\"type\":\"resource_link\"");
            resource_members(w, features, resource);
            if resource.annotations.is_some() {
                notes = None;
            }
            if resource.meta.is_some() {
                more = &None;
            }
        }
        Content::ResourceLink(resource) => {
            w.solid("\"type\":\"text\"");
            w.key("text").string(&resource.uri);
        }
        Content::Embedded(contents) => {
            w.solid("\"type\":\"resource\"");
            w.key("resource");
            resource_contents(w, features, contents);
        }
        // The loop above removed every wrapper, and a block of an unknown kind is already written.
        Content::Annotated { .. } | Content::Other(_) => {}
    }
    annotations(w, features, notes);
    meta(w, features, more);
    w.end_object();
}

fn binary(w: &mut Writer, kind: &str, data: &[u8], mime_type: &str) {
    w.key("type").string(kind);
    w.key("data").string(&Base64::encode_string(data));
    w.key("mimeType").string(mime_type);
}

/// Writes `{uri, mimeType?, text or blob}`.
pub(super) fn resource_contents(w: &mut Writer, features: &Features, contents: &ResourceContents) {
    w.begin_object();
    w.key("uri").string(&contents.uri);
    optional(w, "mimeType", &contents.mime_type);
    match &contents.body {
        Body::Text(text) => w.key("text").string(text),
        Body::Bytes(bytes) => w.key("blob").string(&Base64::encode_string(bytes)),
    };
    meta(w, features, &contents.meta);
    w.end_object();
}

/// Writes the members of a filled-in prompt.
pub(super) fn prompt_messages(w: &mut Writer, features: &Features, output: &PromptOutput) {
    optional(w, "description", &output.description);
    w.key("messages").begin_array();
    for (role, block) in &output.messages {
        w.begin_object();
        w.key("role").string(role.as_str());
        w.key("content");
        content(w, features, block);
        w.end_object();
    }
    w.end_array();
}

/// Writes the members of a completion.
pub(super) fn completion(w: &mut Writer, output: &Completion) {
    w.key("completion").begin_object();
    w.key("values").begin_array();
    for value in output.values.iter().take(Completion::MAX_VALUES) {
        w.string(value);
    }
    w.end_array();
    if let Some(total) = output.total {
        w.key("total").u64(total);
    }
    w.key("hasMore").bool(output.more);
    w.end_object();
}
