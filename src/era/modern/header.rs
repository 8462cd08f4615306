//! Headers of a modern POST that mirror its body, for proxies that do not parse JSON.
//!
//! Names, encoding and decoding of the headers. `header_params.rs` has those of tool arguments.
//!
//! Source: MCP 2026-07-28 basic/transports/streamable-http (request headers, value encoding).
//! Header names are compared without regard to case, values with it.
//!
//! # Invariant
//! - The output of [`encode`] has only visible ASCII and inner spaces, and [`decode`] restores the
//!   value.

use std::borrow::Cow;

#[cfg(any(feature = "client", feature = "http-server"))]
use base64ct::{Base64, Encoding};

#[cfg(any(feature = "http-server", feature = "http-client"))]
mod header_params;

#[cfg(feature = "http-client")]
pub(crate) use header_params::{BadAnnotation, params};
#[cfg(any(feature = "http-server", feature = "http-client"))]
pub(crate) use header_params::{MirroredArgument, mirrors};

/// The revision of a request; sessions from 2025-06-18 on send it too.
pub(crate) const VERSION: &str = "MCP-Protocol-Version";
/// The method of a request or notification.
pub(crate) const METHOD: &str = "Mcp-Method";
/// Target of the method; see [`name_member`].
pub(crate) const NAME: &str = "Mcp-Name";
/// Prefix of the name of an argument's header.
#[cfg(any(feature = "http-server", feature = "http-client"))]
pub(crate) const PARAM: &str = "Mcp-Param-";

/// A header is missing, malformed, or differs from the body; HTTP status 400.
pub(crate) const MISMATCH: i32 = -32020;

/// Returns the parameter that [`NAME`] mirrors; `None` for methods without that header. The last
/// three are those of the tasks extension.
#[cfg(feature = "http-server")]
pub(crate) fn name_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// Returns the text between the markers of an encoded value; both are required, in lower case.
#[cfg(feature = "http-server")]
fn encoded(value: &str) -> Option<&str> {
    value.strip_prefix(SENTINEL.0)?.strip_suffix(SENTINEL.1)
}

/// Encodes a header value: unchanged if it is plain ASCII, otherwise as `=?base64?…?=` of its UTF-8
/// bytes.
#[cfg(feature = "client")]
pub(crate) fn encode(value: &str) -> Cow<'_, str> {
    let edge = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    let bytes = value.as_bytes();
    let looks_encoded = value.starts_with(SENTINEL.0) && value.ends_with(SENTINEL.1);
    let plain = bytes.iter().all(|b| (0x20..0x7F).contains(b));
    if plain && !looks_encoded && !edge(bytes.first()) && !edge(bytes.last()) {
        return Cow::Borrowed(value);
    }
    let mut out = SENTINEL.0.to_owned();
    out.push_str(&Base64::encode_string(bytes));
    out.push_str(SENTINEL.1);
    Cow::Owned(out)
}

/// Decodes a header value, without the spaces and tabs around it (RFC 9110 §5.5). `None` if it has
/// bytes that are not allowed, or invalid base64 between the markers. Without both markers it is
/// taken as it is.
#[cfg(feature = "http-server")]
pub(crate) fn decode(header: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(header).ok()?.trim_matches([' ', '\t']);
    if !text.bytes().all(|b| (0x20..0x7F).contains(&b) || b == b'\t') {
        return None;
    }
    match encoded(text) {
        None => Some(Cow::Borrowed(text)),
        Some(coded) => {
            let bytes = Base64::decode_vec(coded).ok()?;
            String::from_utf8(bytes).ok().map(Cow::Owned)
        }
    }
}

#[cfg(all(test, feature = "http-server", feature = "http-client"))]
mod tests;
