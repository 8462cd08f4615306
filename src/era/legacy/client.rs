//! Client side of the legacy era: requests without metadata, in a session.
//!
//! Source: MCP 2025-11-25 basic/lifecycle, basic/utilities (cancellation, progress), server/*.
//!
//! # Invariants
//! - No member of `_meta` of the modern era is written, unless the caller gave it.
//! - Empty parameters are omitted.

use std::borrow::Cow;

use crate::json::{Value, Writer};
use crate::model::{CacheHint, Revision};
use crate::rpc::Notification;

use super::super::client::{self, ClientEra, Decoded, Envelope, OutgoingNotification, ServerEvent};
use super::super::modern::header;
use super::super::outgoing::OutgoingRequest;
use super::super::{decode, version};

/// The legacy era for clients.
pub(crate) static CLIENT: LegacyClient = LegacyClient;

pub(crate) struct LegacyClient;

impl ClientEra for LegacyClient {
    fn sessions(&self) -> bool {
        true
    }

    fn request(&self, w: &mut Writer, to: &Envelope<'_>, request: &OutgoingRequest) {
        client::begin_request(w, to.id, &request.method);
        let meta = to.progress || !request.meta.is_empty();
        if meta || !request.params.is_empty() {
            w.key("params").begin_object();
            w.raw_members(&request.params);
            if request.task && request.is_tool_call() {
                w.key("task").begin_object().end_object();
            }
            if meta {
                w.key("_meta").begin_object();
                w.raw_members(&request.meta);
                if to.progress {
                    w.key("progressToken").u64(to.id);
                }
                w.end_object();
            }
            w.end_object();
        }
        w.end_object();
        w.newline();
    }

    fn notification(&self, w: &mut Writer, notification: OutgoingNotification) {
        match notification {
            OutgoingNotification::Initialized => client::notification(w, "notifications/initialized", |_| {}),
            OutgoingNotification::Cancelled(id) => client::cancelled(w, id),
            OutgoingNotification::RootsListChanged => {
                client::notification(w, "notifications/roots/list_changed", |_| {})
            }
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
        // A server may respond at once to a request for a task (2025-11-25 basic/utilities/tasks).
        // Without such a request, a member of this name belongs to the tool.
        match result.get("task").filter(|_| request.task && request.is_tool_call()) {
            Some(task) => {
                decode::task(task).map(Decoded::Task).ok_or_else(|| "task without taskId or status".into())
            }
            None => Ok(Decoded::Complete(CacheHint::default())),
        }
    }

    fn headers(&self, revision: Revision, request: Option<&OutgoingRequest>) -> Vec<(String, String)> {
        // The opening request negotiates the revision.
        if request.is_some_and(OutgoingRequest::opens_session) {
            return Vec::new();
        }
        vec![(header::VERSION.to_owned(), version::name(revision).to_owned())]
    }
}
