//! Incoming messages: responses go to their calls, requests and notifications to the handlers.
//!
//! Runs on the thread that reads the transport. It takes one short lock at a time and never waits.
//!
//! # Invariants
//! - What cannot be read is counted and never answered.
//! - A response that exceeds a limit ends its call, if its id can be read or one call is meant
//!   anyway.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::era::client::ServerEvent;
use crate::json::{Doc, ErrorKind as Unparsed, Kind as JsonKind, ParseError, Value};
use crate::model::Change;
use crate::rpc::excerpt::{Excerpt, Shape};
use crate::rpc::{Message, RpcError, ShapeError};
use crate::transport::client::{Answered, Failure, MessageHandler, WakeUp};

use super::connection::{Core, lock};
use super::handlers::LogEntry;
use super::pending_call::{PendingCall, Progress, Reply};

/// Bytes of the beginning and of the end of a large message that are kept while it is parsed.
const EXCERPT: usize = 512;

impl Core {
    /// A frame that is copied.
    fn incoming(self: &Arc<Self>, frame: &[u8]) -> Option<Answered> {
        let mut doc = lock(&self.spare).pop().unwrap_or_default();
        match doc.parse_again(frame, &self.limits.parse()) {
            Ok(()) => self.message(doc),
            Err(error) => self.garbage(frame, frame, error, doc),
        }
    }

    /// A frame that is taken with its buffer.
    fn incoming_large(self: &Arc<Self>, text: &mut Vec<u8>) -> Option<Answered> {
        let mut doc = lock(&self.spare).pop().unwrap_or_default();
        let head = text.get(..EXCERPT).unwrap_or(text).to_vec();
        let tail = text.get(text.len().saturating_sub(EXCERPT)..).unwrap_or_default().to_vec();
        match doc.parse_taking(text, &self.limits.parse()) {
            Ok(()) => self.message(doc),
            Err(error) => self.garbage(&head, &tail, error, doc),
        }
    }

    /// A frame that cannot be parsed, by its beginning and its end.
    fn garbage(self: &Arc<Self>, head: &[u8], tail: &[u8], error: ParseError, doc: Doc) -> Option<Answered> {
        self.recycle(doc);
        self.count_noise(head);
        if matches!(error.kind(), Unparsed::Depth | Unparsed::Nodes | Unparsed::Bytes) {
            let why = format!("the answer exceeds a limit of this client: {error}");
            self.fail_unread(head, tail, &Failure::TooLarge(why));
        }
        None
    }

    /// Ends the call that a response belongs to which cannot be read: by its id, or if that is not
    /// known every call in flight, because any of them may be the one. Requests that listen stay
    /// open.
    fn fail_unread(self: &Arc<Self>, head: &[u8], tail: &[u8], failure: &Failure) {
        let response = Excerpt::read(head, tail);
        if response.shape != Shape::Response {
            return;
        }
        let ids = match response.id {
            Some(id) => id.parse().into_iter().collect(),
            None => lock(&self.flight).pending.ids(),
        };
        for id in ids {
            if response.id.is_some() || !self.listening.listens(id) {
                self.fail(id, failure.clone());
            }
        }
        self.carrier.look();
    }

    /// One message, or in the one revision that has them a batch of them.
    fn message(self: &Arc<Self>, doc: Doc) -> Option<Answered> {
        if doc.root().kind() == JsonKind::Array && self.era().sessions() {
            let objects = doc.root().items().filter(|item| item.kind() == JsonKind::Object);
            let answered = objects.filter_map(|item| self.incoming(item.raw().as_bytes())).last();
            self.recycle(doc);
            return answered;
        }
        let reply = match Message::read(doc.root()) {
            Ok(Message::Response(response)) => {
                // Every id of ours is a number; the same digits in a string are somebody else's.
                let node = response.outcome.map_or_else(Value::id, Value::id);
                Some((response.id.as_u64(), node, response.outcome.is_ok()))
            }
            Ok(Message::Notification(notification)) => {
                self.notification(self.era().told(&notification));
                None
            }
            Ok(Message::Request(request)) => {
                self.question(&request);
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
        let waking = self.answer_to(id.unwrap_or_default(), Reply { doc, node, ok });
        Some(Answered { id: id?, waking })
    }

    /// Gives a request its answer; who waits for it is woken when what this gives is dropped.
    fn answer_to(self: &Arc<Self>, id: u64, reply: Reply) -> Option<WakeUp> {
        let Some(slot) = self.take(id) else {
            self.late.fetch_add(1, Ordering::Relaxed);
            self.recycle(reply.doc);
            return None;
        };
        self.over(id, slot, Ok(reply))
    }

    /// Gives a request a failure in the place of an answer.
    pub(super) fn fail(self: &Arc<Self>, id: u64, failure: Failure) {
        if let Some(slot) = self.take(id) {
            self.over(id, slot, Err(failure));
        }
    }

    fn over(
        self: &Arc<Self>,
        id: u64,
        slot: Arc<PendingCall>,
        outcome: Result<Reply, Failure>,
    ) -> Option<WakeUp> {
        let waking = slot.fill(outcome);
        if self.listening.ended(id) {
            let core = Arc::clone(self);
            self.desk.chore(Box::new(move || core.listen_again()));
        }
        waking
    }

    /// Ends the call that a malformed response names. The server gets no error.
    fn malformed(self: &Arc<Self>, root: Value<'_>, shape: &ShapeError<'_>) {
        let answers = root.get("method").is_none();
        let waits = |id: &u64| answers && lock(&self.flight).pending.find(*id).is_some();
        if let Some(id) = shape.id.and_then(Value::as_u64).filter(waits) {
            let what = format!("a malformed answer: {}", shape.message);
            self.fail(id, Failure::Misbehaved(what));
            return;
        }
        // Older servers that could not make sense of a request name no id; before anything is
        // agreed on, one request at most is in flight, and this can only be about that.
        let error = root.get("error").filter(|_| answers).and_then(RpcError::read);
        let only = lock(&self.flight).pending.only();
        if let (Some(_), Some(id), false) = (error, only, self.is_settled()) {
            let mut doc = Doc::default();
            if doc.parse_again(root.raw().as_bytes(), &self.limits.parse()).is_ok() {
                if let Some(node) = doc.root().get("error").map(Value::id) {
                    self.answer_to(id, Reply { doc, node, ok: false });
                    return;
                }
            }
        }
        self.count_noise(root.raw().as_bytes());
    }

    fn notification(self: &Arc<Self>, told: ServerEvent<'_>) {
        match told {
            ServerEvent::Progress { id, done, total, message } => {
                let slot = lock(&self.flight).pending.find(id).cloned();
                match slot {
                    Some(slot) => {
                        slot.step(Progress { done, total, message: message.map(str::to_owned) });
                    }
                    None => {
                        self.late.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            ServerEvent::Log { level, logger, data } => {
                if self.desk.hears_log() {
                    self.desk.tell_log(LogEntry {
                        level,
                        logger: logger.map(str::to_owned),
                        data: data.to_json(),
                    });
                }
            }
            ServerEvent::Change { change, listen } => {
                // Without sessions every notification names its listen request (2026-07-28
                // basic/transports/stdio; requirement STDIO-09), and an update a resource of it.
                let asked_for = match listen {
                    Some(id) => self.listening.listens(id),
                    None => self.era().sessions(),
                };
                let wanted = match &change {
                    Change::Updated(uri) => self.era().sessions() || self.listening.wants(uri),
                    _ => true,
                };
                if !asked_for || !wanted {
                    // It is not delivered. To forget a kept answer does no harm, whoever says so.
                    self.cache.forget(&change);
                    self.late.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                self.listening.heard();
                self.changed(change);
            }
            ServerEvent::Acknowledged { listen, filter } => self.listening.acknowledged(listen, filter),
            ServerEvent::Cancelled(id) => self.called_off(id),
            ServerEvent::Ignored => {}
        }
    }
}

/// The message handler of the transport.
pub(super) struct Incoming(pub(super) Arc<Core>);

impl MessageHandler for Incoming {
    fn frame(&self, frame: &[u8]) -> Option<Answered> {
        self.0.incoming(frame)
    }

    fn large(&self, frame: &mut Vec<u8>) -> Option<Answered> {
        self.0.incoming_large(frame)
    }

    fn waiting(&self) -> bool {
        self.0.waiters.any()
    }

    fn oversized(&self, head: &[u8], tail: &[u8]) {
        self.0.count_noise(b"a message that is too long");
        self.0.fail_unread(head, tail, &Failure::too_long(self.0.limits.frame_bytes));
    }

    fn fail(&self, id: u64, failure: Failure) {
        #[cfg(feature = "http-client")]
        if matches!(failure, Failure::SessionLost) {
            let lost = lock(&self.0.flight).pending.find(id).cloned();
            self.0.fail(id, failure);
            return lost.into_iter().for_each(|slot| self.0.resend(slot));
        }
        self.0.fail(id, failure);
    }

    fn end(&self, failure: Failure) {
        let why = self.0.explained(&failure);
        if self.0.end(failure) && self.0.is_settled() {
            self.0.desk.tell_end(why);
        }
    }

    fn deadline(&self, id: u64) -> Option<Instant> {
        let slot = lock(&self.0.flight).pending.find(id).cloned()?;
        // A request that listens waits for as long as anybody can tell.
        Some(slot.deadline(&self.0.clock).unwrap_or_else(|| Instant::now() + self.0.limits.call_longest))
    }
}
