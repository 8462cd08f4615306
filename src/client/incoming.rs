//! Dispatch of received messages: responses to their calls, requests and notifications to the
//! handlers.
//!
//! This code runs on the thread that reads the transport. It takes one short lock at a time and
//! never waits.
//!
//! # Invariants
//! - Malformed messages are counted and get no response.
//! - A response that exceeds a limit ends its call. If its id cannot be read, it ends all calls.

use std::sync::Arc;
use std::time::Instant;

use crate::era::client::ServerEvent;
use crate::json::{Doc, ErrorKind as Unparsed, Kind as JsonKind, ParseError, Value};
use crate::model::Change;
use crate::rpc::excerpt::{Excerpt, Shape};
use crate::rpc::{Message, RpcError, ShapeError};
use crate::transport::client::{Completed, Failure, MessageHandler, WakeUp};

use super::connection::Core;
use super::handlers::LogEntry;
use super::pending_call::{PendingCall, Progress, RawReply};

/// Number of bytes at each end of a large message that are copied before it is parsed.
const EXCERPT: usize = 512;

impl Core {
    /// Handles a frame, which is copied.
    fn handle_frame(self: &Arc<Self>, frame: &[u8]) -> Option<Completed> {
        let mut doc = self.spare_doc();
        match doc.parse_again(frame, &self.limits.parse()) {
            Ok(()) => self.message(doc),
            Err(error) => self.invalid(frame, frame, error, doc),
        }
    }

    /// Handles a large frame, whose buffer is taken.
    fn handle_large(self: &Arc<Self>, text: &mut Vec<u8>) -> Option<Completed> {
        let mut doc = self.spare_doc();
        let head = text.get(..EXCERPT).unwrap_or(text).to_vec();
        let tail = text.get(text.len().saturating_sub(EXCERPT)..).unwrap_or_default().to_vec();
        match doc.parse_taking(text, &self.limits.parse()) {
            Ok(()) => self.message(doc),
            Err(error) => self.invalid(&head, &tail, error, doc),
        }
    }

    /// Handles a frame that cannot be parsed. `head` and `tail` are its first and last bytes.
    fn invalid(self: &Arc<Self>, head: &[u8], tail: &[u8], error: ParseError, doc: Doc) -> Option<Completed> {
        self.recycle(doc);
        self.count_stray_output(head);
        if matches!(error.kind(), Unparsed::Depth | Unparsed::Nodes | Unparsed::Bytes) {
            let why = format!("the response exceeds a limit of this client: {error}");
            self.fail_unparsed(head, tail, &Failure::TooLarge(why));
        }
        None
    }

    /// Fails the call of a response that cannot be parsed. If the id is unknown, fails all calls in
    /// flight, because the response may belong to any of them. Listen requests stay open.
    fn fail_unparsed(self: &Arc<Self>, head: &[u8], tail: &[u8], failure: &Failure) {
        let response = Excerpt::read(head, tail);
        if response.shape != Shape::Response {
            return;
        }
        let ids = match response.id {
            Some(id) => id.parse().into_iter().collect(),
            None => self.ids(),
        };
        for id in ids {
            if response.id.is_some() || !self.subscriptions.listens(id) {
                self.fail(id, failure.clone());
            }
        }
        self.transport.interrupt_caller();
    }

    /// Handles one message, or a batch in the revision that has batches.
    fn message(self: &Arc<Self>, doc: Doc) -> Option<Completed> {
        if doc.root().kind() == JsonKind::Array && self.era().sessions() {
            let objects = doc.root().items().filter(|item| item.kind() == JsonKind::Object);
            let answered = objects.filter_map(|item| self.handle_frame(item.raw().as_bytes())).last();
            self.recycle(doc);
            return answered;
        }
        let reply = match Message::read(doc.root()) {
            Ok(Message::Response(response)) => {
                // Ids of this client are numbers. The same digits in a string match no request.
                let node = response.outcome.map_or_else(Value::id, Value::id);
                Some((response.id.as_u64(), node, response.outcome.is_ok()))
            }
            Ok(Message::Notification(notification)) => {
                self.notification(self.era().decode_notification(&notification));
                None
            }
            Ok(Message::Request(request)) => {
                self.server_request(&request);
                None
            }
            Err(shape) => {
                self.malformed(doc.root(), &shape);
                None
            }
        };
        let Some((id, node, ok)) = reply else {
            self.recycle(doc);
            return None;
        };
        // No request has the id 0.
        let waking = self.complete(id.unwrap_or_default(), RawReply { doc, node, ok });
        Some(Completed { id: id?, waking })
    }

    /// Completes a request with its response. Dropping the returned value wakes the waiting
    /// threads.
    fn complete(self: &Arc<Self>, id: u64, reply: RawReply) -> Option<WakeUp> {
        let Some(pending) = self.take(id) else {
            self.count_late();
            self.recycle(reply.doc);
            return None;
        };
        self.finish(id, pending, Ok(reply))
    }

    /// Fails a request.
    pub(super) fn fail(self: &Arc<Self>, id: u64, failure: Failure) {
        if let Some(pending) = self.take(id) {
            self.finish(id, pending, Err(failure));
        }
    }

    fn finish(
        self: &Arc<Self>,
        id: u64,
        pending: Arc<PendingCall>,
        outcome: Result<RawReply, Failure>,
    ) -> Option<WakeUp> {
        let waking = pending.finish(outcome);
        if self.subscriptions.ended(id) {
            let core = Arc::clone(self);
            self.handlers.run_later(Box::new(move || core.listen_again()));
        }
        waking
    }

    /// Fails the call whose id a malformed response contains. Sends no error to the server.
    fn malformed(self: &Arc<Self>, root: Value<'_>, shape: &ShapeError<'_>) {
        let responds = root.get("method").is_none();
        let waits = |id: &u64| responds && self.find(*id).is_some();
        if let Some(id) = shape.id.and_then(Value::as_u64).filter(waits) {
            let what = format!("malformed response: {}", shape.message);
            self.fail(id, Failure::Misbehaved(what));
            return;
        }
        // An older server that cannot read a request responds without an id. During the negotiation
        // at most one request is in flight, so the error belongs to it.
        let error = root.get("error").filter(|_| responds).and_then(RpcError::read);
        if let (Some(_), Some(id), false) = (error, self.single_request_id(), self.is_negotiated()) {
            let mut doc = Doc::default();
            if doc.parse_again(root.raw().as_bytes(), &self.limits.parse()).is_ok() {
                if let Some(node) = doc.root().get("error").map(Value::id) {
                    self.complete(id, RawReply { doc, node, ok: false });
                    return;
                }
            }
        }
        self.count_stray_output(root.raw().as_bytes());
    }

    fn notification(self: &Arc<Self>, event: ServerEvent<'_>) {
        match event {
            ServerEvent::Progress { id, done, total, message } => match self.find(id) {
                Some(pending) => {
                    pending.push_progress(Progress { done, total, message: message.map(str::to_owned) });
                }
                None => self.count_late(),
            },
            ServerEvent::Log { level, logger, data } => {
                if self.handlers.wants_log() {
                    let logger = logger.map(str::to_owned);
                    self.handlers.report_log(LogEntry { level, logger, data: data.to_json() });
                }
            }
            ServerEvent::Change { change, listen } => {
                // In the modern era every notification contains the id of its listen request, and
                // an update names a resource of it (2026-07-28 basic/transports/stdio; STDIO-09).
                let requested = match listen {
                    Some(id) => self.subscriptions.listens(id),
                    None => self.era().sessions(),
                };
                let wanted = match &change {
                    Change::ResourceUpdated(uri) => self.era().sessions() || self.subscriptions.wants(uri),
                    _ => true,
                };
                if !requested || !wanted {
                    // The notification is not delivered, but a cached result may be stale.
                    self.cache.forget(&change);
                    return self.count_late();
                }
                self.subscriptions.received();
                self.changed(change);
            }
            ServerEvent::Acknowledged { listen, filter } => self.subscriptions.acknowledged(listen, filter),
            ServerEvent::Cancelled(id) => self.cancelled_by_server(id),
            ServerEvent::Extension { method, params } => self.handlers.report_notification(method, params),
            ServerEvent::Ignored => {}
        }
    }
}

impl Core {
    /// Waits for the outcome of a request, as [`PendingCall::wait`] does. Reads messages meanwhile
    /// if no other thread reads. A thread with a progress listener does not read, because the
    /// listener may block.
    pub(super) fn wait(
        self: &Arc<Self>,
        pending: &PendingCall,
        until: Option<Instant>,
        listener: Option<&mut dyn FnMut(Progress)>,
    ) -> Option<Result<RawReply, Failure>> {
        let _waiter = pending.waiter_guard();
        match listener {
            Some(listener) => {
                self.transport.resume_reader();
                pending.wait(until, listener)
            }
            None => {
                let handler = Incoming(Arc::clone(self));
                self.transport.read_on_caller(&handler, &mut || pending.read_deadline(until));
                pending.wait(until, &mut |_| {})
            }
        }
    }
}

/// Message handler of the transport.
pub(super) struct Incoming(pub(super) Arc<Core>);

impl MessageHandler for Incoming {
    fn frame(&self, frame: &[u8]) -> Option<Completed> {
        self.0.handle_frame(frame)
    }

    fn large(&self, frame: &mut Vec<u8>) -> Option<Completed> {
        self.0.handle_large(frame)
    }

    fn waiting(&self) -> bool {
        self.0.waiters.any()
    }

    fn oversized(&self, head: &[u8], tail: &[u8]) {
        self.0.count_stray_output(b"a message that is too long");
        self.0.fail_unparsed(head, tail, &Failure::too_long(self.0.limits.frame_bytes));
    }

    fn fail(&self, id: u64, failure: Failure) {
        #[cfg(feature = "http-client")]
        if matches!(failure, Failure::SessionLost) {
            let lost = self.0.find(id);
            self.0.fail(id, failure);
            return lost.into_iter().for_each(|pending| self.0.resend(pending));
        }
        self.0.fail(id, failure);
    }

    fn end(&self, failure: Failure) {
        let why = self.0.error_of(&failure);
        if self.0.end(failure) && self.0.is_negotiated() {
            self.0.handlers.report_end(why);
        }
    }

    fn deadline(&self, id: u64) -> Option<Instant> {
        let pending = self.0.find(id)?;
        // A listen request has no deadline.
        Some(pending.deadline().unwrap_or_else(|| Instant::now() + self.0.limits.client.call_total_timeout))
    }

    #[cfg(feature = "oauth")]
    fn ask_user(&self, begins: bool) {
        let clock = &self.0.waiters.clock;
        if begins { clock.stop() } else { clock.resume() }
    }
}
