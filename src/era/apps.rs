//! Codec of the extension for apps (SEP-1865): its id, its media type, and the metadata of tools
//! and pages.

use crate::json::{Json, Kind, Value};
use crate::model::app::AppPage;

use super::encode;

/// Id of the extension.
pub(crate) const ID: &str = "io.modelcontextprotocol/ui";
/// Media type of a page.
pub(crate) const MEDIA_TYPE: &str = "text/html;profile=mcp-app";

/// Returns the metadata of a tool with a page. Replaces an earlier member `ui`.
pub(crate) fn tool_meta(before: Option<&Json>, uri: &str, visibility: &[&str]) -> Json {
    let before = before.map(Json::to_doc);
    encode::object(|w| {
        let others = before.iter().flat_map(|doc| doc.root().members());
        for (name, value) in others.filter(|(name, _)| *name != "ui") {
            w.key(name).value(value);
        }
        w.key("ui").begin_object().key("resourceUri").string(uri);
        if !visibility.is_empty() {
            w.key("visibility").begin_array();
            visibility.iter().for_each(|side| _ = w.string(side));
            w.end_array();
        }
        w.end_object();
    })
}

/// Returns the metadata of the contents of a page.
pub(crate) fn page_meta(page: &AppPage) -> Option<Json> {
    if page.domains.is_empty() && page.prefers_border.is_none() {
        return None;
    }
    Some(encode::object(|w| {
        w.key("ui").begin_object();
        if !page.domains.is_empty() {
            w.key("csp").begin_object();
            for kind in ["connectDomains", "resourceDomains"] {
                let mut domains = page.domains.iter().filter(|(of, _)| of.name() == kind).peekable();
                if domains.peek().is_some() {
                    w.key(kind).begin_array();
                    domains.for_each(|(_, domain)| _ = w.string(domain));
                    w.end_array();
                }
            }
            w.end_object();
        }
        if let Some(border) = page.prefers_border {
            w.key("prefersBorder").bool(border);
        }
        w.end_object();
    }))
}

/// Returns the settings of a host that shows pages.
#[cfg(feature = "client")]
pub(crate) fn host_settings() -> Json {
    encode::object(|w| {
        w.key("mimeTypes").begin_array().string(MEDIA_TYPE).end_array();
    })
}

/// Returns whether the settings of a host include the media type of pages.
pub(crate) fn shows_pages(settings: Value<'_>) -> bool {
    let types = settings.get("mimeTypes").filter(|types| types.kind() == Kind::Array);
    types.is_some_and(|types| types.items().any(|media| media.as_str() == Some(MEDIA_TYPE)))
}

/// Returns the page of a tool. Servers of older drafts name it in a separate member.
#[cfg(feature = "client")]
pub(crate) fn page_of(meta: Value<'_>) -> Option<&str> {
    let uri = meta.get("ui").and_then(|ui| ui.get("resourceUri")).or_else(|| meta.get("ui/resourceUri"));
    uri.and_then(Value::as_str).filter(|uri| uri.starts_with("ui://"))
}

/// Returns whether a tool is for this side, `model` or `app`; without visibility it is for both.
#[cfg(feature = "client")]
pub(crate) fn is_for(meta: Value<'_>, side: &str) -> bool {
    let visibility = meta.get("ui").and_then(|ui| ui.get("visibility"));
    visibility.is_none_or(|sides| sides.items().any(|known| known.as_str() == Some(side)))
}
