//! Results of upstream servers that a hub forwards.
//!
//! The decoder removes the members that concern one connection only, and keeps the rest byte for
//! byte. The encoder down-converts audio, links and structured results for revisions that lack
//! them, as it does for results of a handler. Unknown members are forwarded in every revision.

use super::modern::client::hint;
use super::modern::{MISSING_CAPABILITY, SERVER_INFO};
use super::version::{Features, V2026_07_28, features};
use super::{RawResult, decode, encode, params};
use crate::json::{Kind, Value, Writer};
use crate::model::proxied_result::{ProxiedKind, ProxiedResult};
use crate::model::{CacheHint, ClientCapabilities, Revision};

/// Returns the missing capabilities that an error of another server names.
pub(crate) fn missing_capabilities(code: i32, data: Option<Value<'_>>) -> Option<ClientCapabilities> {
    let required = data.and_then(|data| data.get("requiredCapabilities"));
    required.filter(|_| code == MISSING_CAPABILITY).map(params::capabilities)
}

/// Decoder for results of this kind from a server of this revision. It returns `None` for a result
/// without its required member.
pub(crate) fn relayed(kind: ProxiedKind, revision: Revision) -> fn(Value<'_>) -> Option<ProxiedResult> {
    match (kind, revision == V2026_07_28) {
        (ProxiedKind::Tool, false) => |result| read(result, ProxiedKind::Tool, false),
        (ProxiedKind::Tool, true) => |result| read(result, ProxiedKind::Tool, true),
        (ProxiedKind::Contents, false) => |result| read(result, ProxiedKind::Contents, false),
        (ProxiedKind::Contents, true) => |result| read(result, ProxiedKind::Contents, true),
        (ProxiedKind::Prompt, false) => |result| read(result, ProxiedKind::Prompt, false),
        (ProxiedKind::Prompt, true) => |result| read(result, ProxiedKind::Prompt, true),
        (ProxiedKind::Completion, false) => |result| read(result, ProxiedKind::Completion, false),
        (ProxiedKind::Completion, true) => |result| read(result, ProxiedKind::Completion, true),
    }
}

fn read(result: Value<'_>, kind: ProxiedKind, modern: bool) -> Option<ProxiedResult> {
    let list = |value: Option<Value<'_>>| value.is_some_and(|v| v.kind() == Kind::Array);
    let whole = match kind {
        ProxiedKind::Tool => list(result.get("content")) || result.get("structuredContent").is_some(),
        ProxiedKind::Contents => list(result.get("contents")),
        ProxiedKind::Prompt => list(result.get("messages")),
        ProxiedKind::Completion => list(result.get("completion").and_then(|c| c.get("values"))),
    };
    if !whole {
        return None;
    }
    let cached = modern && kind == ProxiedKind::Contents;
    let mut members = Writer::new();
    let mut meta = Writer::new();
    members.begin_object();
    for (name, value) in result.members() {
        match name {
            "_meta" => {
                // Each server names itself (2026-07-28 basic/index).
                for (name, value) in value.members().filter(|(name, _)| *name != SERVER_INFO) {
                    meta.key(name).value(value);
                }
            }
            "resultType" if modern => {}
            "ttlMs" | "cacheScope" if cached => {}
            _ => _ = members.key(name).value(value),
        }
    }
    members.end_object();
    Some(ProxiedResult {
        kind,
        members: members.into_json(),
        // OK to default: only UTF-8 is ever written.
        meta: String::from_utf8(meta.into_bytes()).unwrap_or_default(),
        cache: cached.then(|| hint(result)),
    })
}

impl RawResult for ProxiedResult {
    fn write(&self, w: &mut Writer, revision: Revision) -> &str {
        members(w, revision, self);
        &self.meta
    }

    fn cache(&self, own: CacheHint) -> Option<CacheHint> {
        (self.kind == ProxiedKind::Contents).then(|| self.cache.unwrap_or(own))
    }

    #[cfg(feature = "visibility")]
    fn make_private(&mut self) {
        if let Some(hint) = &mut self.cache {
            hint.public = false;
        }
    }
}

/// Writes the members of a result of another server.
fn members(w: &mut Writer, revision: Revision, result: &ProxiedResult) {
    let modern = revision == V2026_07_28;
    let features = features(revision);
    let doc = result.members.to_doc();
    let root = doc.root();
    let mut structured = root.get("structuredContent").filter(|_| result.kind == ProxiedKind::Tool);
    if structured.is_some_and(|s| supports_structured(features, s)) {
        structured = None;
    }
    for (name, value) in root.members() {
        match (name, result.kind) {
            // The envelope writes members of these names; those of a session have another meaning.
            ("resultType", _) | ("ttlMs" | "cacheScope", ProxiedKind::Contents) if modern => {}
            ("structuredContent", ProxiedKind::Tool) if structured.is_some() => {}
            // Replaced by the text below.
            ("content", ProxiedKind::Tool) if structured.is_some() && value.is_empty() => {}
            ("content", ProxiedKind::Tool) => blocks(w.key(name), features, value),
            ("messages", ProxiedKind::Prompt) => messages(w.key(name), features, value),
            _ => _ = w.key(name).value(value),
        }
    }
    // A structured value alone is also sent as text, and so is one that the revision lacks
    // (server/tools, structured content).
    let alone = root.get("content").is_none_or(|c| structured.is_some() && c.is_empty());
    if let Some(value) = root.get("structuredContent").filter(|_| result.kind == ProxiedKind::Tool && alone) {
        w.key("content").begin_array();
        w.begin_object().key("type").string("text");
        w.key("text").string(value.raw()).end_object();
        w.end_array();
    }
}

fn supports_structured(features: &Features, structured: Value<'_>) -> bool {
    features.structured && (features.any_structured || structured.kind() == Kind::Object)
}

/// Returns `true` if the revision lacks this kind of block, so that it is down-converted.
fn lacks(features: &Features, block: Value<'_>) -> bool {
    match block.get("type").and_then(Value::as_str) {
        Some("audio") => !features.audio,
        Some("resource_link") => !features.links,
        _ => false,
    }
}

fn blocks(w: &mut Writer, features: &Features, value: Value<'_>) {
    if value.kind() != Kind::Array || !value.items().any(|block| lacks(features, block)) {
        w.value(value);
        return;
    }
    w.begin_array();
    value.items().for_each(|block| self::block(w, features, block));
    w.end_array();
}

fn block(w: &mut Writer, features: &Features, block: Value<'_>) {
    match lacks(features, block) {
        true => encode::content::content(w, features, &decode::content::content(block)),
        false => _ = w.value(block),
    }
}

fn messages(w: &mut Writer, features: &Features, value: Value<'_>) {
    let new = |message: Value<'_>| message.get("content").is_some_and(|block| lacks(features, block));
    if value.kind() != Kind::Array || !value.items().any(new) {
        w.value(value);
        return;
    }
    w.begin_array();
    for message in value.items() {
        if !new(message) {
            w.value(message);
            continue;
        }
        w.begin_object();
        for (name, value) in message.members() {
            match name {
                "content" => block(w.key(name), features, value),
                _ => _ = w.key(name).value(value),
            }
        }
        w.end_object();
    }
    w.end_array();
}
