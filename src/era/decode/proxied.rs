//! Decoding of results that a hub passes on: removes the members of one hop and keeps the rest byte
//! for byte.

use crate::json::{Kind, Value, Writer};
use crate::model::Revision;
use crate::model::proxied_result::{Passage, Relayed};

use super::super::modern::SERVER_INFO;
use super::super::modern::client::hint;
use super::super::version::V2026_07_28;

pub(in crate::era) use super::content::content as block;

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
