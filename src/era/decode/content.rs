//! Decoding of results: content blocks, tools, resources, prompts, completion.

use base64ct::{Base64, Encoding};

use crate::json::{Kind, Value};
use crate::model::content::{
    Completion, Content, PromptOutput, ReadOutput, ResourceContents, Role, ToolOutput,
};

use super::catalog::{annotations, resource, text};

/// Reads a block. A block of an unknown kind, or with a malformed member, is kept as received.
pub(in crate::era) fn content(value: Value<'_>) -> Content {
    let read = || {
        Some(match value.get("type")?.as_str()? {
            "text" => Content::Text(text(value, "text")?),
            "image" => Content::Image { data: bytes(value, "data")?, mime_type: text(value, "mimeType")? },
            "audio" => Content::Audio { data: bytes(value, "data")?, mime_type: text(value, "mimeType")? },
            "resource_link" => Content::ResourceLink(Box::new(resource(value)?)),
            "resource" => Content::Embedded(resource_contents(value.get("resource")?)?),
            _ => return None,
        })
    };
    let Some(block) = read() else { return Content::Other(value.to_json()) };
    let notes = annotations(value);
    let meta = value.get("_meta").filter(|m| m.kind() == Kind::Object).map(Value::to_json);
    // A link's annotations are the resource's.
    if matches!(block, Content::ResourceLink(_)) || (notes.is_none() && meta.is_none()) {
        return block;
    }
    Content::Annotated { content: Box::new(block), annotations: notes, meta }
}

fn bytes(value: Value<'_>, name: &str) -> Option<Vec<u8>> {
    Base64::decode_vec(value.get(name)?.as_str()?).ok()
}

fn resource_contents(value: Value<'_>) -> Option<ResourceContents> {
    let uri = text(value, "uri")?;
    let mut contents = match (text(value, "text"), bytes(value, "blob")) {
        (Some(text), _) => ResourceContents::text(uri, text),
        (None, Some(bytes)) => ResourceContents::bytes(uri, bytes),
        (None, None) => return None,
    };
    contents.mime_type = text(value, "mimeType");
    contents.meta = value.get("_meta").filter(|m| m.kind() == Kind::Object).map(Value::to_json);
    Some(contents)
}

/// Reads a tool's result; `None` if it has neither content nor a structured value.
pub(crate) fn tool_output(result: Value<'_>) -> Option<ToolOutput> {
    let structured = result.get("structuredContent");
    let blocks = result.get("content").filter(|c| c.kind() == Kind::Array);
    if blocks.is_none() && structured.is_none() {
        return None;
    }
    let mut output = ToolOutput::new();
    output.content = blocks.into_iter().flat_map(Value::items).map(content).collect();
    // `null` is a value.
    output.structured = structured.map(Value::to_json);
    output.is_error = result.get("isError").and_then(Value::as_bool) == Some(true);
    output.meta = result.get("_meta").filter(|m| m.kind() == Kind::Object).map(Value::to_json);
    Some(output)
}

/// Reads the contents of a resource; `None` if a part has neither text nor bytes.
pub(crate) fn read_output(result: Value<'_>) -> Option<ReadOutput> {
    let contents = result.get("contents").filter(|c| c.kind() == Kind::Array)?;
    let pieces: Option<Vec<ResourceContents>> = contents.items().map(resource_contents).collect();
    Some(pieces?.into())
}

/// Reads the messages of a prompt; `None` if a message has no role.
pub(crate) fn prompt_output(result: Value<'_>) -> Option<PromptOutput> {
    let messages = result.get("messages").filter(|m| m.kind() == Kind::Array)?;
    let mut output = PromptOutput::new();
    output.description = text(result, "description");
    for message in messages.items() {
        output.messages.push((role(message)?, content(message.get("content")?)));
    }
    Some(output)
}

pub(super) fn role(message: Value<'_>) -> Option<Role> {
    match message.get("role")?.as_str()? {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        _ => None,
    }
}

/// Reads completion values.
pub(crate) fn completion(result: Value<'_>) -> Option<Completion> {
    let completion = result.get("completion")?;
    let values = completion.get("values").filter(|v| v.kind() == Kind::Array)?;
    let mut read = Completion::none();
    read.values = values.items().filter_map(Value::as_str).map(str::to_owned).collect();
    read.total = completion.get("total").and_then(Value::as_u64);
    read.more = completion.get("hasMore").and_then(Value::as_bool) == Some(true);
    Some(read)
}
