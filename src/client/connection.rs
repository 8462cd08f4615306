//! One connection: its transport, its era, and the table of requests in flight.
//!
//! Registers and sends requests. Gives each exactly one outcome: a response, a failure, the end of
//! the connection or a cancellation.
//!
//! # Locks
//! Each lock is held for a few instructions and none is taken inside another. Frames that must not
//! wait are sent at once or dropped; handlers run on the threads of the [`HandlerPool`].
//!
//! # Invariants
//! - The response, the end of the connection, the deadline and the canceller race for the table
//!   entry. Only the thread that takes it sets the outcome, except for a request that is not in the
//!   table because its session was lost.
//! - A cancelled request leaves the table before the peer is notified.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::era::client::{ClientEra, ClientIdentity, Envelope, Greeting, Notice};
use crate::era::legacy; // legacy
use crate::era::modern;
use crate::era::outgoing::OutgoingRequest;
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Writer};
use crate::limits::Limits;
use crate::model::Level;
use crate::rpc::pending::Pending;
use crate::rpc::{Id, RpcError};
use crate::sync::{lock, wait_for};
use crate::transport::client::{Failure, Kind, Outgoing, Session, Settled, Transport, Wait};

use super::cache::Cache;
use super::handlers::HandlerPool;
use super::pending_call::{CallTimeout, PendingCall, RawReply, Waiters};
use super::subscriptions::Subscriptions;

/// Documents that are kept for the next responses.
const SPARE: usize = 8;
/// Largest memory of a kept document, in bytes.
const SPARE_BYTES: usize = 64 << 10;
/// Bytes of a stray line that are passed to the noise handler.
const NOISE_SHOWN: usize = 200;

/// Counters of messages that belong to no call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStats {
    /// Lines that are not valid messages: stray output, lines beyond the limit.
    pub noise: u64,
    /// Responses and notifications that match no request: late, duplicate, or with an unknown id.
    pub late: u64,
    /// Notifications dropped because the handlers are too slow.
    pub dropped: u64,
}

/// State of a connection.
pub(super) struct Core {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) limits: Limits,
    pub(super) card: ClientIdentity,
    pub(super) handlers: Arc<HandlerPool>,
    pub(super) waiters: Arc<Waiters>,
    requests: Mutex<Requests>,
    spare: Mutex<Vec<Doc>>,
    negotiated: Negotiated,
    pub(super) session: SessionState,
    pub(super) cache: Cache,
    pub(super) subscriptions: Subscriptions,
    pub(super) counters: Counters,
    closing: Closing,
    #[cfg(feature = "http-client")]
    pub(super) header_params: super::header_params::HeaderParams,
    #[cfg(feature = "schema")]
    pub(super) output_schemas: super::output_schema::OutputSchemas,
}

struct Requests {
    table: Pending<Arc<PendingCall>>,
    /// Reason why nothing more can be sent.
    ended: Option<Failure>,
}

/// Result of the negotiation.
#[derive(Default)]
struct Negotiated {
    /// A session is open or being opened. Otherwise the modern era is used or assumed.
    sessions: AtomicBool,
    /// The era is known.
    settled: AtomicBool,
    greeting: Mutex<Arc<Greeting>>,
}

/// State that belongs to a session, or takes its place in the stateless protocol.
#[derive(Default)]
pub(super) struct SessionState {
    /// Lowest level of log entries, in the era whose requests contain it.
    pub log_level: Mutex<Option<Level>>,
    /// Ids of the server's requests that are being handled and not cancelled.
    pub server_requests: Mutex<Vec<Id>>,
    /// Opening a lost session again: once for all threads.
    pub renewal: Mutex<Renewal>,
    pub renewed: Condvar,
}

/// Progress of opening a lost session again.
#[derive(Default)]
pub(super) struct Renewal {
    /// Number of times the session was opened again.
    pub epoch: u64,
    pub running: bool,
    /// Number of failures.
    pub failures: u64,
    pub last_error: Option<Arc<Error>>,
}

#[derive(Default)]
pub(super) struct Counters {
    noise: AtomicU64,
    late: AtomicU64,
}

#[derive(Default)]
struct Closing {
    begun: Mutex<bool>,
    changed: Condvar,
}

impl Core {
    pub(super) fn new(
        transport: Arc<dyn Transport>,
        limits: Limits,
        card: ClientIdentity,
        handlers: Arc<HandlerPool>,
        #[cfg(feature = "schema")] checks: bool,
    ) -> Arc<Core> {
        Arc::new(Core {
            transport,
            card,
            handlers,
            waiters: Waiters::new(limits.ask_timeout),
            requests: Mutex::new(Requests { table: Pending::new(limits.calls), ended: None }),
            spare: Mutex::default(),
            negotiated: Negotiated::default(),
            session: SessionState::default(),
            cache: Cache::new(limits.cache_bytes),
            subscriptions: Subscriptions::default(),
            counters: Counters::default(),
            closing: Closing::default(),
            #[cfg(feature = "http-client")]
            header_params: super::header_params::HeaderParams::default(),
            #[cfg(feature = "schema")]
            output_schemas: super::output_schema::OutputSchemas::new(checks),
            limits,
        })
    }

    pub(super) fn era(&self) -> &'static dyn ClientEra {
        match self.negotiated.sessions.load(Ordering::Acquire) {
            true => &legacy::CLIENT, // legacy
            false => &modern::CLIENT,
        }
    }

    /// Selects the era of the messages from now on.
    pub(super) fn use_sessions(&self, sessions: bool) {
        self.negotiated.sessions.store(sessions, Ordering::Release);
    }

    pub(super) fn greeting(&self) -> Arc<Greeting> {
        Arc::clone(&lock(&self.negotiated.greeting))
    }

    /// Stores the result of the negotiation, and begins the session if there is one.
    pub(super) fn settle(&self, greeting: Greeting) {
        *lock(&self.negotiated.greeting) = Arc::new(greeting);
        self.negotiated.settled.store(true, Ordering::Release);
        let session = self.era().sessions();
        if session {
            let mut w = Writer::new();
            self.era().notice(&mut w, Notice::Ready);
            let deadline = Instant::now() + self.limits.call_timeout;
            // OK to drop: the next request fails with the reason.
            let _ = self.send_frame(w.as_bytes(), Kind::Notification, deadline, Wait::Blocking(&mut || true));
        }
        self.transport.settled(&Settled { session, headers: self.headers(None) });
    }

    pub(super) fn is_settled(&self) -> bool {
        self.negotiated.settled.load(Ordering::Acquire)
    }

    pub(super) fn stats(&self) -> ClientStats {
        ClientStats {
            noise: self.counters.noise.load(Ordering::Relaxed),
            late: self.counters.late.load(Ordering::Relaxed),
            dropped: self.handlers.dropped.load(Ordering::Relaxed),
        }
    }

    /// Checks that the server declares the capability of a method.
    ///
    /// # Errors
    /// [`ErrorKind::PeerIncompatible`] names the capability.
    pub(super) fn declared(&self, method: &str) -> Result<(), Error> {
        match lock(&self.negotiated.greeting).lacks(method) {
            None => Ok(()),
            Some((capability, what)) => {
                let why =
                    format!("the server has no {what}: it does not declare the capability `{capability}`");
                Err(Error::new(ErrorKind::PeerIncompatible, why))
            }
        }
    }

    /// Returns the number of calls in flight, without listen requests.
    pub(super) fn in_flight(&self) -> usize {
        let listening = self.subscriptions.open();
        lock(&self.requests).table.len().saturating_sub(listening)
    }

    /// Registers a request and gives it its id.
    pub(super) fn register(&self, pending: &Arc<PendingCall>) -> Result<(), Failure> {
        let mut requests = lock(&self.requests);
        if let Some(ended) = &requests.ended {
            return Err(ended.clone());
        }
        let id = requests.table.insert(Arc::clone(pending)).map_err(|_| {
            Failure::Busy(format!("{} calls are in flight, see `Limits::calls`", self.limits.calls))
        })?;
        pending.set_id(id);
        Ok(())
    }

    /// Removes a request from the table, so that no response finds it.
    pub(super) fn take(&self, id: u64) -> Option<Arc<PendingCall>> {
        lock(&self.requests).table.take(id)
    }

    /// Returns the request in flight with this id.
    pub(super) fn find(&self, id: u64) -> Option<Arc<PendingCall>> {
        lock(&self.requests).table.find(id).cloned()
    }

    /// Returns the ids of all requests in flight.
    pub(super) fn ids(&self) -> Vec<u64> {
        lock(&self.requests).table.ids()
    }

    /// Returns the id of the request in flight, if there is only one.
    pub(super) fn only(&self) -> Option<u64> {
        lock(&self.requests).table.only()
    }

    /// Sends a request that is in the table. With `here` the transport may make the exchange on the
    /// calling thread.
    pub(super) fn send(
        &self,
        request: &OutgoingRequest,
        envelope: &Envelope<'_>,
        deadline: Instant,
        here: Option<&mut dyn FnMut() -> bool>,
    ) -> Result<(), Failure> {
        let era = self.era();
        let mut w = Writer::with_capacity(384 + request.params.len());
        era.request(&mut w, envelope, request);
        let message = Outgoing {
            frame: w.as_bytes(),
            kind: match request.is_listen() {
                true => Kind::Stream(envelope.id),
                false => Kind::Request(envelope.id),
            },
            session: match (request.opens_session(), era.sessions()) {
                (true, _) => Session::Opens,
                (false, true) => Session::Within,
                (false, false) => Session::None,
            },
            headers: &self.headers(Some(request)),
            deadline,
        };
        self.transport.send(&message, here.map_or(Wait::Queued, Wait::Blocking))
    }

    /// Headers of a message, for transports that have headers.
    fn headers(&self, request: Option<&OutgoingRequest>) -> Vec<(String, String)> {
        if !self.transport.traits().headers {
            return Vec::new();
        }
        #[cfg_attr(not(feature = "http-client"), allow(unused_mut))]
        let mut headers = self.era().headers(self.greeting().revision, request);
        #[cfg(feature = "http-client")]
        if let Some(request) = request.filter(|_| self.sends_header_params()) {
            self.header_params.headers(request, &mut headers);
        }
        headers
    }

    /// Sends a request outside the rounds of a call, such as the handshake. The request stays in
    /// the table after its timeout.
    pub(super) fn send_once(
        &self,
        request: &OutgoingRequest,
        timeout: Duration,
    ) -> Result<Arc<PendingCall>, Failure> {
        let pending = PendingCall::new(Some(CallTimeout::fixed(timeout)), false, &self.waiters);
        self.register(&pending)?;
        let envelope = Envelope::new(pending.id(), &self.card);
        let deadline = Instant::now() + timeout;
        match self.send(request, &envelope, deadline, Some(&mut || !pending.is_finished())) {
            Ok(()) => Ok(pending),
            Err(failure) => {
                self.take(pending.id());
                Err(failure)
            }
        }
    }

    /// Ends a request from this side, if it is not over: it leaves the table, then the server is
    /// notified (basic/utilities/cancellation). Not for the opening of a session, which cannot be
    /// cancelled.
    pub(super) fn give_up(&self, pending: &Arc<PendingCall>, why: Failure) {
        let mut id = pending.id();
        let mut taken = self.take(id).is_some();
        Arc::clone(pending).give_up(why);
        // A handler thread may have registered it again meanwhile, under another id.
        if pending.id() != id {
            id = pending.id();
            taken = self.take(id).is_some();
        }
        if !taken {
            return;
        }
        self.transport.look();
        let closing_cancels = self.transport.traits().closing_cancels && !self.era().sessions();
        if !closing_cancels {
            self.notice(Notice::Cancelled(id));
        }
        self.transport.abandon(id);
    }

    /// Sends a notification of this client.
    pub(super) fn notice(&self, notice: Notice) {
        let mut w = Writer::new();
        self.era().notice(&mut w, notice);
        self.send_now(w.as_bytes(), Kind::Notification);
    }

    /// Sends a message without waiting: it is sent at once or dropped.
    pub(super) fn send_now(&self, frame: &[u8], kind: Kind) {
        if !frame.is_empty() {
            // OK to drop: a peer that does not read does not get what it requested.
            let _ = self.send_frame(frame, kind, Instant::now(), Wait::Queued);
        }
    }

    /// Sends a message that is not a request.
    fn send_frame(&self, frame: &[u8], kind: Kind, deadline: Instant, wait: Wait<'_>) -> Result<(), Failure> {
        let session = if self.era().sessions() { Session::Within } else { Session::None };
        let message = Outgoing { frame, kind, session, headers: &self.headers(None), deadline };
        self.transport.send(&message, wait)
    }

    /// Ends the connection. Returns after everything that belongs to it has ended, by the times of
    /// [`Limits`].
    pub(super) fn close(&self) {
        if std::mem::replace(&mut *lock(&self.closing.begun), true) {
            return;
        }
        self.closing.changed.notify_all();
        self.handlers.close();
        self.close_transport();
    }

    /// Ends the connection but not the handlers, which another connection may use.
    pub(super) fn close_transport(&self) {
        self.end(Failure::Closed("the connection was closed by this client".to_owned()));
        self.transport.close(Instant::now() + self.limits.child_exit);
    }

    /// Converts a failure to an error. If the connection broke, the error quotes the server's last
    /// output.
    pub(super) fn explained(&self, failure: &Failure) -> Error {
        let output = match failure {
            Failure::Closed(_) | Failure::Io(_) | Failure::Interrupted(_) => self.transport.aside(),
            _ => None,
        };
        match (output, failure) {
            (Some(output), Failure::Closed(why)) if !output.is_empty() => {
                Failure::Closed(format!("{why}; its last output: {output}")).to_error()
            }
            _ => failure.to_error(),
        }
    }

    /// Returns the reason why the connection has ended.
    pub(super) fn ended(&self) -> Option<Error> {
        let ended = lock(&self.requests).ended.clone();
        ended.map(|failure| self.explained(&failure))
    }

    /// Fails all requests in flight, and all later ones. Returns `false` if that was done before.
    pub(super) fn end(&self, failure: Failure) -> bool {
        let mut requests = lock(&self.requests);
        if requests.ended.is_some() {
            return false;
        }
        requests.ended = Some(failure.clone());
        let waiting = requests.table.take_all();
        drop(requests);
        for (_, pending) in waiting {
            pending.finish(Err(failure.clone()));
        }
        self.transport.look();
        true
    }

    /// Waits for this time, or until the connection is closed. Returns whether it is still open.
    pub(super) fn rest(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut closing = lock(&self.closing.begun);
        while !*closing {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            closing = wait_for(&self.closing.changed, closing, left);
        }
        false
    }

    /// Returns a document for a message, a recycled one if there is one.
    pub(super) fn spare_doc(&self) -> Doc {
        lock(&self.spare).pop().unwrap_or_default()
    }

    /// Recycles a document.
    pub(super) fn recycle(&self, mut doc: Doc) {
        doc.shrink_to(SPARE_BYTES);
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE {
            spare.push(doc);
        }
    }

    /// Returns whether tool arguments are also sent as headers.
    #[cfg(feature = "http-client")]
    pub(super) fn sends_header_params(&self) -> bool {
        self.transport.traits().headers && !self.era().sessions()
    }

    /// Counts a line that is not a valid message, and reports its beginning.
    pub(super) fn count_noise(&self, line: &[u8]) {
        self.counters.noise.fetch_add(1, Ordering::Relaxed);
        let shown = line.get(..NOISE_SHOWN).unwrap_or(line);
        self.handlers.report_noise(String::from_utf8_lossy(shown).into_owned());
    }

    /// Counts a message that matches no request.
    pub(super) fn count_late(&self) {
        self.counters.late.fetch_add(1, Ordering::Relaxed);
    }
}

/// Converts an error response.
pub(super) fn remote(error: RpcError) -> Error {
    Error::new(ErrorKind::Remote, error.message.into_owned()).with_code(error.code, error.data)
}

/// Converts the error of a reply that is not a result.
pub(super) fn remote_error(reply: &RawReply) -> Error {
    RpcError::read(reply.value()).map_or_else(|| misbehaved("malformed error object in a response"), remote)
}

/// The server violated the protocol.
pub(super) fn misbehaved(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::PeerMisbehaved, what.into())
}
