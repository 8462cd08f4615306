//! Check of `_meta` values from the program: each must be an object without duplicate and reserved
//! names.
//!
//! The check runs before the value is written. Messages of peers and results that a hub forwards
//! are not checked.
//!
//! Source: MCP 2026-07-28 basic/index, `_meta` (requirements META-01, META-03, AMB-19).

#[cfg(feature = "client")]
use crate::json::Value;
use crate::json::{Doc, ErrorKind, Json, Kind, ParseLimits, Writer};
use crate::model::content::{Content, ResourceContents, ToolOutput};

use super::modern::SERVER_INFO;

/// Describes the first fault of a `_meta`: a predicate, such as "is not an object".
pub(crate) fn first_error(meta: &Json) -> Option<String> {
    match unique(meta) {
        Ok(doc) if doc.root().kind() != Kind::Object => Some("is not an object".to_owned()),
        Ok(doc) => doc.root().members().find_map(|(name, _)| reserved(name)),
        Err(why) => Some(why),
    }
}

fn reserved(name: &str) -> Option<String> {
    is_reserved(name).then(|| format!("has a member {name:?}, whose prefix is reserved for the protocol"))
}

/// Parses the value and rejects duplicate names at any depth, because peers reject a whole message
/// for one.
///
/// # Errors
/// Describes the first fault, as [`first_error`] does.
fn unique(json: &Json) -> Result<Doc, String> {
    let (mut doc, text) = (Doc::default(), json.as_str());
    let limits = ParseLimits { unique_names: true, ..ParseLimits::UNBOUNDED };
    match doc.parse_again(text.as_bytes(), &limits) {
        Ok(()) => Ok(doc),
        Err(error) if error.kind() == ErrorKind::DuplicateName => {
            Err(format!("has the member {} twice", name_at(text, error.offset())))
        }
        // The text is not JSON.
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

/// Returns the name at this offset, with its quotes.
fn name_at(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    let mut escaped = false;
    let end = rest.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.and_then(|end| rest.get(..end + 2)).unwrap_or(rest)
}

/// Parses the parameters that a caller gave for a request.
///
/// # Errors
/// Describes the first fault of the parameters or their `_meta`. The name `progressToken` is
/// rejected too, because the library writes it.
#[cfg(feature = "client")]
pub(super) fn params(params: &Json) -> Result<Doc, String> {
    let doc = unique(params).map_err(|why| format!("the object of parameters {why}"))?;
    let flaw = doc.root().get("_meta").and_then(of_request);
    flaw.map_or(Ok(doc), |flaw| Err(format!("the request's _meta {flaw}")))
}

#[cfg(feature = "client")]
fn of_request(meta: Value<'_>) -> Option<String> {
    if meta.kind() != Kind::Object {
        return Some("is not an object".to_owned());
    }
    meta.members().find_map(|(name, _)| match name {
        "progressToken" => {
            Some(format!("has the member {name:?}, which only `Request::on_progress` may set"))
        }
        name => reserved(name),
    })
}

/// Removes the name of another server from a tool's result, because the library adds its own.
/// Returns the first fault in the remaining `_meta` and in those of the blocks.
pub(crate) fn clean_and_check(output: &mut ToolOutput) -> Option<String> {
    if let Some(meta) = &mut output.meta {
        let doc = meta.to_doc();
        if doc.root().get(SERVER_INFO).is_some() {
            let mut w = Writer::new();
            w.begin_object();
            for (name, value) in doc.root().members().filter(|(name, _)| *name != SERVER_INFO) {
                w.key(name).value(value);
            }
            w.end_object();
            *meta = w.into_json();
        }
    }
    output.meta.as_ref().and_then(first_error).or_else(|| output.content.iter().find_map(block_error))
}

/// Describes the first fault of a block's `_meta`.
pub(crate) fn block_error(mut block: &Content) -> Option<String> {
    loop {
        match block {
            Content::Annotated { content, meta, .. } => {
                if let Some(flaw) = meta.as_ref().and_then(first_error) {
                    return Some(flaw);
                }
                block = content;
            }
            Content::ResourceLink(resource) => return resource.meta.as_ref().and_then(first_error),
            Content::Embedded(contents) => return contents_error(contents),
            _ => return None,
        }
    }
}

/// Describes the first fault of the `_meta` of a resource's contents.
pub(crate) fn contents_error(contents: &ResourceContents) -> Option<String> {
    contents.meta.as_ref().and_then(first_error)
}

/// Returns whether the prefix of a name is reserved: its second label is one of these. 2025-06-18
/// reserved other prefixes (requirement META-04), which later revisions dropped.
fn is_reserved(name: &str) -> bool {
    let prefix = name.split_once('/').map(|(prefix, _)| prefix);
    matches!(prefix.and_then(|p| p.split('.').nth(1)), Some("modelcontextprotocol" | "mcp"))
}

#[cfg(test)]
mod tests {
    use super::is_reserved;

    #[test]
    fn names_are_reserved_by_the_second_label_of_their_prefix() {
        for name in
            ["io.modelcontextprotocol/x", "dev.mcp/", "com.mcp.tools/a", "io.modelcontextprotocol.ui/a"]
        {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["com.example.mcp/a", "mcp.dev/a", "mcp/a", "x", "", "/", "io.mcp", "ui/a", "io.mcpx/a"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
