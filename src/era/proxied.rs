//! Results of upstream servers that a hub forwards.
//!
//! The decoder removes the members of one hop and keeps the rest byte for byte. The encoder
//! down-converts audio, links and structured results for revisions that lack them, as it does for
//! results of a handler. Unknown members are kept in every revision.

use super::modern::SERVER_INFO;
use super::modern::client::hint;
use super::version::{Features, V2026_07_28, features};
use super::{Proxied, decode, encode};
use crate::json::{Kind, Value, Writer};
use crate::model::proxied_result::{Passage, Relayed};
use crate::model::{CacheHint, Revision};

/// Decoder for results of this kind from a server of this revision. It returns `None` for a result
/// without its required member.
pub(crate) fn relayed(passage: Passage, revision: Revision) -> fn(Value<'_>) -> Option<Relayed> {
    match (passage, revision == V2026_07_28) {
        (Passage::Tool, false) => |result| read(result, Passage::Tool, false),
        (Passage::Tool, true) => |result| read(result, Passage::Tool, true),
        (Passage::Contents, false) => |result| read(result, Passage::Contents, false),
        (Passage::Contents, true) => |result| read(result, Passage::Contents, true),
        (Passage::Prompt, false) => |result| read(result, Passage::Prompt, false),
        (Passage::Prompt, true) => |result| read(result, Passage::Prompt, true),
        (Passage::Completion, false) => |result| read(result, Passage::Completion, false),
        (Passage::Completion, true) => |result| read(result, Passage::Completion, true),
    }
}

fn read(result: Value<'_>, passage: Passage, modern: bool) -> Option<Relayed> {
    let list = |value: Option<Value<'_>>| value.is_some_and(|v| v.kind() == Kind::Array);
    let whole = match passage {
        Passage::Tool => list(result.get("content")) || result.get("structuredContent").is_some(),
        Passage::Contents => list(result.get("contents")),
        Passage::Prompt => list(result.get("messages")),
        Passage::Completion => list(result.get("completion").and_then(|c| c.get("values"))),
    };
    if !whole {
        return None;
    }
    let cached = modern && passage == Passage::Contents;
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
    Some(Relayed {
        passage,
        members: members.into_json(),
        // OK to default: only UTF-8 is ever written.
        meta: String::from_utf8(meta.into_bytes()).unwrap_or_default(),
        cache: cached.then(|| hint(result)),
    })
}

impl Proxied for Relayed {
    fn write(&self, w: &mut Writer, revision: Revision) -> &str {
        members(w, revision, self);
        &self.meta
    }

    fn cache(&self, own: CacheHint) -> Option<CacheHint> {
        (self.passage == Passage::Contents).then(|| self.cache.unwrap_or(own))
    }
}

/// The members of a result of another server.
fn members(w: &mut Writer, revision: Revision, result: &Relayed) {
    let modern = revision == V2026_07_28;
    let features = features(revision);
    let doc = result.members.to_doc();
    let root = doc.root();
    let mut structured = root.get("structuredContent").filter(|_| result.passage == Passage::Tool);
    if structured.is_some_and(|s| carries(features, s)) {
        structured = None;
    }
    for (name, value) in root.members() {
        match (name, result.passage) {
            // The envelope writes members of these names; those of a session have another meaning.
            ("resultType", _) | ("ttlMs" | "cacheScope", Passage::Contents) if modern => {}
            ("structuredContent", Passage::Tool) if structured.is_some() => {}
            // Replaced by the text below.
            ("content", Passage::Tool) if structured.is_some() && value.is_empty() => {}
            ("content", Passage::Tool) => blocks(w.key(name), features, value),
            ("messages", Passage::Prompt) => messages(w.key(name), features, value),
            _ => _ = w.key(name).value(value),
        }
    }
    // A structured value alone is also sent as text, and so is one that the revision lacks
    // (server/tools, structured content).
    let alone = root.get("content").is_none_or(|c| structured.is_some() && c.is_empty());
    if let Some(value) = root.get("structuredContent").filter(|_| result.passage == Passage::Tool && alone) {
        w.key("content").begin_array();
        w.begin_object().key("type").string("text");
        w.key("text").string(value.raw()).end_object();
        w.end_array();
    }
}

fn carries(features: &Features, structured: Value<'_>) -> bool {
    features.structured && (features.any_structured || structured.kind() == Kind::Object)
}

/// Returns `true` if this block exists only in its older form.
fn is_new(features: &Features, block: Value<'_>) -> bool {
    match block.get("type").and_then(Value::as_str) {
        Some("audio") => !features.audio,
        Some("resource_link") => !features.links,
        _ => false,
    }
}

fn blocks(w: &mut Writer, features: &Features, value: Value<'_>) {
    if value.kind() != Kind::Array || !value.items().any(|block| is_new(features, block)) {
        w.value(value);
        return;
    }
    w.begin_array();
    value.items().for_each(|block| self::block(w, features, block));
    w.end_array();
}

fn block(w: &mut Writer, features: &Features, block: Value<'_>) {
    match is_new(features, block) {
        true => encode::content::content(w, features, &decode::content::content(block)),
        false => _ = w.value(block),
    }
}

fn messages(w: &mut Writer, features: &Features, value: Value<'_>) {
    let new = |message: Value<'_>| message.get("content").is_some_and(|block| is_new(features, block));
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
