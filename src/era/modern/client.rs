//! The client side of the modern era: every request carries its version, its sender and what the
//! sender can do.
//!
//! Source: MCP 2026-07-28 basic/index (`_meta`, result types), basic/patterns (mrtr,
//! subscriptions), basic/transports/streamable-http (request headers).
//!
//! # Invariants
//! - Every request has `params._meta` with the version and the capabilities.
//! - `requestState` leaves byte for byte as it came, and only when it came.
//! - A result of a kind that was not negotiated is no result.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::json::{Kind, Value, Writer};
use crate::model::{CacheHint, ClientCapabilities, Identity, Revision};
use crate::rpc::Notification;

use super::super::client::{self, ClientEra, Envelope, Notice, Outcome, Told};
use super::super::order::Order;
use super::super::revision::{self, V2026_07_28, features};
use super::super::{decode, write};

/// A header does not say what the message says (basic/transports/streamable-http).
pub(in crate::era) const HEADER_MISMATCH: i32 = -32020;

/// The modern era, to be named by clients that speak it.
pub(crate) static CLIENT: ModernClient = ModernClient;

pub(crate) struct ModernClient;

/// The `_meta` members that every request carries (basic/index, request metadata).
pub(in crate::era) fn client_meta(identity: &Identity, capabilities: ClientCapabilities) -> String {
    let features = features(V2026_07_28);
    let meta = write::object(|w| {
        w.key("io.modelcontextprotocol/protocolVersion").string(revision::name(V2026_07_28));
        w.key("io.modelcontextprotocol/clientInfo");
        write::implementation(w, features, identity);
        w.key("io.modelcontextprotocol/clientCapabilities");
        write::client_capabilities(w, features, capabilities);
    });
    meta.as_str().strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or_default().to_owned()
}

impl ClientEra for ModernClient {
    fn sessions(&self) -> bool {
        false
    }

    fn request(&self, w: &mut Writer, to: &Envelope<'_>, order: &Order) {
        client::begin_request(w, to.id, &order.method);
        w.key("params").begin_object();
        w.raw_members(&order.params);
        if let Some(answers) = to.answers {
            w.key("inputResponses").begin_object().raw_members(answers).end_object();
        }
        if let Some(state) = to.state {
            w.key("requestState").raw(state);
        }
        w.key("_meta").begin_object();
        w.raw_members(&to.card.meta).raw_members(&order.meta);
        if let Some(level) = to.log {
            w.key("io.modelcontextprotocol/logLevel").string(level.as_str());
        }
        if to.progress {
            w.key("progressToken").u64(to.id);
        }
        w.end_object().end_object().end_object();
        w.newline();
    }

    fn notice(&self, w: &mut Writer, notice: Notice) {
        match notice {
            Notice::Cancelled(id) => client::cancelled(w, id),
            Notice::Ready | Notice::Roots => {}
        }
    }

    fn told<'d>(&self, notification: &Notification<'d>) -> Told<'d> {
        decode::told(notification)
    }

    fn outcome<'d>(&self, result: Value<'d>) -> Result<Outcome<'d>, Cow<'static, str>> {
        // Without the member a result is complete (basic/index, result types).
        let Some(kind) = result.get("resultType") else { return Ok(Outcome::Complete(hint(result))) };
        match kind.as_str() {
            Some("complete") => Ok(Outcome::Complete(hint(result))),
            Some("input_required") => {
                let questions = result.get("inputRequests");
                let state = result.get("requestState");
                if questions.is_some_and(|q| q.kind() != Kind::Object)
                    || state.is_some_and(|s| s.kind() != Kind::String)
                    || (questions.is_none() && state.is_none())
                {
                    return Err("the server asks back without saying what".into());
                }
                Ok(Outcome::InputRequired { questions, state })
            }
            Some(other) => {
                let short: String = other.chars().take(40).collect();
                Err(format!("a result of the unknown type {short:?}").into())
            }
            None => Err("a result's type is not a string".into()),
        }
    }

    fn headers(&self, revision: Revision, order: Option<&Order>) -> Vec<(String, String)> {
        let mut headers = vec![("MCP-Protocol-Version".to_owned(), revision::name(revision).to_owned())];
        if let Some(order) = order {
            headers.push(("Mcp-Method".to_owned(), order.method.clone().into_owned()));
            if let Some(subject) = &order.subject {
                headers.push(("Mcp-Name".to_owned(), header_value(subject).into_owned()));
            }
        }
        headers
    }
}

/// How long an answer stays fresh. What is missing or wrong is stale at once and nobody else's
/// (server/utilities/caching).
fn hint(result: Value<'_>) -> CacheHint {
    let ttl = result.get("ttlMs").and_then(Value::as_u64).unwrap_or_default();
    CacheHint {
        ttl_ms: u32::try_from(ttl).unwrap_or(u32::MAX),
        public: result.get("cacheScope").and_then(Value::as_str) == Some("public"),
    }
}

/// A text as the value of a mirrored header: as it stands where a header can hold it, in base64
/// between two marks otherwise (basic/transports/streamable-http, value encoding).
pub(in crate::era) fn header_value(text: &str) -> Cow<'_, str> {
    let edge = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    let bytes = text.as_bytes();
    let plain = bytes.iter().all(|b| (0x20..0x7f).contains(b)) && !edge(bytes.first()) && !edge(bytes.last());
    if plain && !(text.starts_with("=?base64?") && text.ends_with("?=")) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_cannot_hold_is_encoded() {
        for plain in ["", "led_set", "us west 1", "a,b;c=d", "=?base64?", "?=", "=?BASE64?eA==?="] {
            assert_eq!(header_value(plain), plain);
        }
        for (text, encoded) in [
            (" a", "=?base64?IGE=?="),
            ("a\t", "=?base64?YQk=?="),
            ("a\tb", "=?base64?YQli?="),
            ("é", "=?base64?w6k=?="),
            ("a\r\nb", "=?base64?YQ0KYg==?="),
            ("\u{7f}", "=?base64?fw==?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(header_value(text), encoded);
        }
    }
}
