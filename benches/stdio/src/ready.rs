//! Prepared responses to the requests of the bench, for a bare loop.
//!
//! Finds id and text by fixed positions and a plain scan over the bytes. Does not parse JSON. It
//! supports only the requests of the driver.
//!
//! # Invariants
//! - The positions are those of `wire`.

use crate::wire::{CALL, HEAD};

const OPENED: &[u8] = b",\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\
\"serverInfo\":{\"name\":\"floor\",\"version\":\"0\"}}}\n";
const DISCOVERED: &[u8] = b",\"result\":{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\
\"capabilities\":{\"tools\":{}},\"ttlMs\":0,\"cacheScope\":\"public\",\
\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"floor\",\"version\":\"0\"}}}}\n";
const LEGACY: (&[u8], &[u8]) = (b",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"", b"\"}]}}\n");
const MODERN: (&[u8], &[u8]) = (
    b",\"result\":{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"",
    b"\"}],\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"floor\",\"version\":\"0\"}}}}\n",
);

/// Scans byte by byte on purpose: the limits refer to this scan.
pub fn scan(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

/// Appends the response to one line; appends nothing for a notification. `list` is the text after
/// the id of a list.
pub fn answer(line: &[u8], list: &[u8], out: &mut Vec<u8>) {
    let Some(rest) = line.strip_prefix(HEAD) else {
        return;
    };
    let Some(id_end) = scan(rest, b',') else {
        return;
    };
    out.extend_from_slice(HEAD);
    out.extend_from_slice(&rest[..id_end]);
    let rest = &rest[id_end..];
    // `,"method":"` is eleven bytes; `tools/` six more.
    match (rest.get(11), rest.get(17)) {
        (Some(b't'), Some(b'c')) => {
            let text = rest.get(CALL.len()..).unwrap_or_default();
            let end = scan(text, b'"').unwrap_or(text.len());
            let (before, after) = if text.get(end + 2) == Some(&b',') { MODERN } else { LEGACY };
            out.extend_from_slice(before);
            out.extend_from_slice(&text[..end]);
            out.extend_from_slice(after);
        }
        (Some(b't'), _) => out.extend_from_slice(list),
        (Some(b's'), _) => out.extend_from_slice(DISCOVERED),
        _ => out.extend_from_slice(OPENED),
    }
}
