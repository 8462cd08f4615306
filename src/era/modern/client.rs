//! Client side of the modern era: every request carries version, identity and capabilities.
//!
//! Source: MCP 2026-07-28 basic/index (`_meta`, result types), basic/patterns (mrtr,
//! subscriptions), basic/transports/streamable-http (request headers).
//!
//! # Invariants
//! - Every request has `params._meta` with the version and the capabilities.
//! - `requestState` is echoed byte for byte.
//! - A result of a kind that was not negotiated is an error.

use std::borrow::Cow;

use crate::json::{Kind, Value, Writer};
use crate::model::{CacheHint, ClientCapabilities, Identity, Revision};
use crate::rpc::Notification;

use super::super::client::{self, ClientEra, Decoded, Envelope, OutgoingNotification, ServerEvent};
use super::super::outgoing::OutgoingRequest;
use super::super::version::{self, V2026_07_28, features};
use super::super::{decode, encode};
use super::header;

/// The modern era for clients.
pub(crate) static CLIENT: ModernClient = ModernClient;

pub(crate) struct ModernClient;

/// Returns the `_meta` members that every request carries (basic/index, request metadata).
pub(in crate::era) fn client_meta(
    identity: &Identity,
    capabilities: ClientCapabilities,
    extensions: &str,
) -> String {
    let features = features(V2026_07_28);
    let meta = encode::object(|w| {
        w.key("io.modelcontextprotocol/protocolVersion").string(version::name(V2026_07_28));
        w.key("io.modelcontextprotocol/clientInfo");
        encode::implementation(w, features, identity);
        w.key("io.modelcontextprotocol/clientCapabilities");
        encode::client_capabilities(w, features, capabilities, extensions);
    });
    meta.as_str().strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or_default().to_owned()
}

impl ClientEra for ModernClient {
    fn sessions(&self) -> bool {
        false
    }

    fn request(&self, w: &mut Writer, to: &Envelope<'_>, request: &OutgoingRequest) {
        client::begin_request(w, to.id, &request.method);
        w.key("params").begin_object();
        w.raw_members(&request.params);
        if let Some(responses) = to.responses {
            w.key("inputResponses").begin_object().raw_members(responses).end_object();
        }
        if let Some(state) = to.state {
            w.key("requestState").raw(state);
        }
        w.key("_meta").begin_object();
        let meta = if request.task { &to.client.meta_of_tasks } else { &to.client.meta };
        match to.capabilities {
            Some(capabilities) => {
                w.raw_members(&client_meta(&to.client.identity, capabilities, to.client.extensions.own()))
            }
            None => w.raw_members(meta),
        };
        w.raw_members(&request.meta);
        if let Some(level) = to.log {
            w.key("io.modelcontextprotocol/logLevel").string(level.as_str());
        }
        if to.progress {
            w.key("progressToken").u64(to.id);
        }
        w.end_object().end_object().end_object();
        w.newline();
    }

    fn notification(&self, w: &mut Writer, notification: OutgoingNotification) {
        match notification {
            OutgoingNotification::Cancelled(id) => client::cancelled(w, id),
            OutgoingNotification::Initialized | OutgoingNotification::RootsListChanged => {}
        }
    }

    fn decode_notification<'d>(&self, notification: &Notification<'d>) -> ServerEvent<'d> {
        decode::notification(notification)
    }

    fn outcome<'d>(
        &self,
        result: Value<'d>,
        request: &OutgoingRequest,
    ) -> Result<Decoded<'d>, Cow<'static, str>> {
        // Without the member a result is complete (basic/index, result types).
        let Some(kind) = result.get("resultType") else { return Ok(Decoded::Complete(hint(result))) };
        match kind.as_str() {
            Some("complete") => Ok(Decoded::Complete(hint(result))),
            Some("input_required") => {
                let requests = result.get("inputRequests");
                let state = result.get("requestState");
                if requests.is_some_and(|q| q.kind() != Kind::Object)
                    || state.is_some_and(|s| s.kind() != Kind::String)
                    || (requests.is_none() && state.is_none())
                {
                    return Err("input_required without inputRequests and state".into());
                }
                Ok(Decoded::InputRequired { requests, state })
            }
            // Only for a tool call, and only if declared (extension of tasks).
            Some("task") if request.task && request.is_tool_call() => {
                decode::task(result).map(Decoded::Task).ok_or_else(|| "task without taskId or status".into())
            }
            // Some examples of the specification use this `resultType` for a task's state, although
            // its text does not define it.
            Some("task") if request.task => Ok(Decoded::Complete(CacheHint::default())),
            Some(other) => {
                let short: String = other.chars().take(40).collect();
                Err(format!("unknown resultType {short:?}").into())
            }
            None => Err("resultType must be a string".into()),
        }
    }

    fn headers(&self, _: Revision, request: Option<&OutgoingRequest>) -> Vec<(String, String)> {
        // The era has one revision, so the header can be sent before the server has responded.
        let mut headers = vec![(header::VERSION.to_owned(), version::name(V2026_07_28).to_owned())];
        if let Some(request) = request {
            headers.push((header::METHOD.to_owned(), request.method.clone().into_owned()));
            if let Some(subject) = &request.subject {
                headers.push((header::NAME.to_owned(), header::encode(subject).into_owned()));
            }
        }
        headers
    }
}

/// Cache hint of a result. Without a valid hint it is stale at once and private
/// (server/utilities/caching).
pub(in crate::era) fn hint(result: Value<'_>) -> CacheHint {
    let ttl = result.get("ttlMs").and_then(Value::as_u64).unwrap_or_default();
    CacheHint {
        ttl_ms: u32::try_from(ttl).unwrap_or(u32::MAX),
        public: result.get("cacheScope").and_then(Value::as_str) == Some("public"),
    }
}
