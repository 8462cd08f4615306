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

#[cfg(feature = "observe")]
use crate::era::client::revision_name;
use crate::era::client::{ClientEra, ClientIdentity, Envelope, OutgoingNotification, ServerDescription};
use crate::era::legacy; // legacy
use crate::era::modern;
use crate::era::outgoing::OutgoingRequest;
use crate::error::{Error, ErrorKind};
#[cfg(feature = "observe")]
use crate::json::Value;
use crate::json::{Doc, Writer};
use crate::limits::Limits;
use crate::model::Level;
#[cfg(feature = "observe")]
use crate::model::trace::TraceParent;
#[cfg(feature = "observe")]
use crate::observe::{Observation, RequestFacts, RequestOutcome, RequestSide};
use crate::rpc::RpcError;
use crate::rpc::pending::Pending;
use crate::sync::{lock, wait_for};
use crate::transport::client::{Failure, Kind, NegotiatedEra, Outgoing, SendMode, Session, Transport};

use super::ClientStats;
use super::cache::Cache;
use super::handlers::HandlerPool;
use super::pending_call::{CallTimeout, PendingCall, RawReply, Waiters};
use super::server_requests::OpenRequest;
use super::subscriptions::Subscriptions;

/// Number of documents that are stored for reuse by later responses.
const SPARE: usize = 8;
/// Memory limit of a stored document, in bytes.
const SPARE_BYTES: usize = 64 << 10;
/// Error of the calls in flight when the program closes the connection.
const CLOSED: &str = "the connection was closed by this client";
/// Bytes of a stray line that are passed to the handler of stray output.
const STRAY_SHOWN: usize = 200;

/// Guard that ends a call when dropped, also if `on_frame` of the program panics while the
/// cancellation is sent.
struct WithdrawGuard<'w> {
    core: &'w Core,
    pending: &'w Arc<PendingCall>,
    /// Id of the request, if it was in the table.
    taken: Option<u64>,
    why: &'w Failure,
}

impl Drop for WithdrawGuard<'_> {
    fn drop(&mut self) {
        Arc::clone(self.pending).give_up(self.why.clone());
        if let Some(id) = self.taken {
            self.core.transport.abandon(id);
        }
        self.core.transport.interrupt_caller();
    }
}

/// State of a connection.
pub(super) struct Core {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) limits: Limits,
    pub(super) identity: ClientIdentity,
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
    /// Reason why the connection has ended; then no message can be sent.
    ended: Option<Failure>,
}

/// Result of the negotiation.
#[derive(Default)]
struct Negotiated {
    /// A session is open or being opened. Otherwise the modern era is used or assumed.
    sessions: AtomicBool,
    /// The era is known.
    done: AtomicBool,
    /// The era is assumed from a remembered description, and no response has proven it.
    unproven: AtomicBool,
    server: Mutex<Arc<ServerDescription>>,
}

/// State of a session, or the equivalent state in the stateless protocol.
#[derive(Default)]
pub(super) struct SessionState {
    /// Lowest level of log entries, in the era whose requests contain it.
    pub log_level: Mutex<Option<Level>>,
    /// The server's requests that are being handled and not cancelled.
    pub server_requests: Mutex<Vec<OpenRequest>>,
    /// One attempt to open a lost session again serves all threads.
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
    stray_output: AtomicU64,
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
        identity: ClientIdentity,
        handlers: Arc<HandlerPool>,
        #[cfg(feature = "schema")] checks: bool,
    ) -> Arc<Core> {
        Arc::new(Core {
            transport,
            identity,
            handlers,
            waiters: Waiters::new(limits.client_input_timeout),
            requests: Mutex::new(Requests { table: Pending::new(limits.client.calls), ended: None }),
            spare: Mutex::default(),
            negotiated: Negotiated::default(),
            session: SessionState::default(),
            cache: Cache::new(limits.client.cache_bytes),
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

    pub(super) fn server(&self) -> Arc<ServerDescription> {
        Arc::clone(&lock(&self.negotiated.server))
    }

    /// Stores the result of the negotiation, and begins the session if there is one.
    pub(super) fn set_server(&self, server: ServerDescription) {
        *lock(&self.negotiated.server) = Arc::new(server);
        self.negotiated.done.store(true, Ordering::Release);
        let session = self.era().sessions();
        if session {
            let mut w = Writer::new();
            self.era().notification(&mut w, OutgoingNotification::Initialized);
            let by = Instant::now() + self.limits.client.call_timeout;
            // OK to drop: the next request fails with the reason.
            let _ = self.send_frame(w.as_bytes(), Kind::Notification, by, SendMode::Blocking(&mut || true));
        }
        self.transport.on_negotiated(&NegotiatedEra { session, headers: self.headers(None) });
    }

    /// Marks the era as assumed: the first response may show that the server uses the other one.
    pub(super) fn mark_unproven(&self) {
        self.negotiated.unproven.store(true, Ordering::Release);
    }

    pub(super) fn is_unproven(&self) -> bool {
        self.negotiated.unproven.load(Ordering::Acquire)
    }

    /// Marks the era as proven. Returns whether it was only assumed before.
    pub(super) fn mark_proven(&self) -> bool {
        self.negotiated.unproven.swap(false, Ordering::AcqRel)
    }

    pub(super) fn is_negotiated(&self) -> bool {
        self.negotiated.done.load(Ordering::Acquire)
    }

    pub(super) fn stats(&self) -> ClientStats {
        ClientStats {
            stray_output: self.counters.stray_output.load(Ordering::Relaxed),
            late: self.counters.late.load(Ordering::Relaxed),
            dropped: self.handlers.dropped.load(Ordering::Relaxed),
        }
    }

    /// Checks that the server declares the capability of a method.
    ///
    /// # Errors
    /// [`ErrorKind::PeerIncompatible`] names the capability.
    pub(super) fn declared(&self, method: &str) -> Result<(), Error> {
        match lock(&self.negotiated.server).lacks(method) {
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

    /// Registers a request and sets its id.
    pub(super) fn register(&self, pending: &Arc<PendingCall>) -> Result<(), Failure> {
        let mut requests = lock(&self.requests);
        if let Some(ended) = &requests.ended {
            return Err(ended.clone());
        }
        let id = requests.table.insert(Arc::clone(pending)).map_err(|_| {
            Failure::Busy(format!(
                "{} calls are in flight, see `ClientLimits::calls`",
                self.limits.client.calls
            ))
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
    pub(super) fn single_request_id(&self) -> Option<u64> {
        lock(&self.requests).table.only()
    }

    /// Sends a request that is in the table. With `here` the transport may perform the exchange on
    /// the calling thread.
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
        #[cfg(feature = "observe")]
        self.observe(request, envelope.id, w.as_bytes().len());
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
        self.transport.send(&message, here.map_or(SendMode::Queued, SendMode::Blocking))
    }

    /// Starts the observation of a request that is about to be sent.
    #[cfg(feature = "observe")]
    fn observe(&self, request: &OutgoingRequest, id: u64, bytes: usize) {
        let observers = self.handlers.observers();
        let Some(pending) = (if observers.is_empty() { None } else { self.find(id) }) else { return };
        let meta = Doc::parse(format!("{{{}}}", request.meta).as_bytes()).unwrap_or_default();
        let trace = meta.root().get("traceparent").and_then(Value::as_str);
        pending.observation.get_or_init(|| {
            let described = RequestFacts {
                side: RequestSide::Client,
                method: request.method.to_string(),
                name: request.subject.clone(),
                id: id.to_string(),
                protocol: self.is_negotiated().then(|| revision_name(self.server().revision)),
                principal: None,
                session: None,
                over_http: self.transport.properties().headers,
                #[cfg(feature = "http-server")]
                peer: None,
                trace: trace.and_then(TraceParent::parse),
                bytes_in: 0,
                bytes_out: bytes,
            };
            Observation::new(observers, described)
        });
    }

    /// Returns the headers of a message; empty if the transport has no headers.
    fn headers(&self, request: Option<&OutgoingRequest>) -> Vec<(String, String)> {
        if !self.transport.properties().headers {
            return Vec::new();
        }
        #[cfg_attr(not(feature = "http-client"), allow(unused_mut))]
        let mut headers = self.era().headers(self.server().revision, request);
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
        let envelope = Envelope::new(pending.id(), &self.identity);
        let deadline = Instant::now() + timeout;
        match self.send(request, &envelope, deadline, Some(&mut || !pending.is_finished())) {
            Ok(()) => Ok(pending),
            Err(failure) => {
                self.take(pending.id());
                Err(failure)
            }
        }
    }

    /// Ends a call whose request could not be sent. `waited` is true if the transport performed the
    /// exchange on this thread.
    pub(super) fn after_sending(&self, pending: &Arc<PendingCall>, sent: Result<(), Failure>, waited: bool) {
        match sent {
            // The message may have been sent, so the server is notified.
            Err(Failure::Timeout) => self.give_up(pending, Failure::Timeout),
            Err(failure) => {
                if self.take(pending.id()).is_some() {
                    Arc::clone(pending).finish(Err(failure));
                }
            }
            // If the request is not in the table, another thread is about to set its outcome.
            Ok(()) if waited && self.find(pending.id()).is_some() => self.give_up(pending, Failure::Timeout),
            Ok(()) => {}
        }
    }

    /// Ends a request that is still in flight: removes it from the table, then notifies the server
    /// (basic/utilities/cancellation). Never use this for `initialize`, which a client must not
    /// cancel.
    pub(super) fn give_up(&self, pending: &Arc<PendingCall>, why: Failure) {
        let id = pending.id();
        self.withdraw(pending, id, &why);
        // A handler thread may have registered it again meanwhile, under another id.
        let later = pending.id();
        if later != id {
            self.withdraw(pending, later, &why);
        }
    }

    /// Takes a request with this id from the table, notifies the server, and ends the call.
    fn withdraw(&self, pending: &Arc<PendingCall>, id: u64, why: &Failure) {
        let taken = self.take(id).map(|_| id);
        let closing_cancels = self.transport.properties().closing_cancels && !self.era().sessions();
        let withdrawn = WithdrawGuard { core: self, pending, taken, why };
        // Before the call ends, because its waiter may close the connection.
        if taken.is_some() && !closing_cancels {
            self.notify(OutgoingNotification::Cancelled(id));
        }
        drop(withdrawn);
    }

    /// Sends a notification of this client.
    pub(super) fn notify(&self, notification: OutgoingNotification) {
        let mut w = Writer::new();
        self.era().notification(&mut w, notification);
        self.send_now(w.as_bytes(), Kind::Notification);
    }

    /// Sends a message without waiting: it is sent at once or dropped.
    pub(super) fn send_now(&self, frame: &[u8], kind: Kind) {
        if !frame.is_empty() {
            // OK to drop: a peer that does not read misses its responses.
            let _ = self.send_frame(frame, kind, Instant::now(), SendMode::Queued);
        }
    }

    /// Sends a message that is not a request.
    fn send_frame(&self, frame: &[u8], kind: Kind, by: Instant, mode: SendMode<'_>) -> Result<(), Failure> {
        let session = if self.era().sessions() { Session::Within } else { Session::None };
        let message = Outgoing { frame, kind, session, headers: &self.headers(None), deadline: by };
        self.transport.send(&message, mode)
    }

    /// Closes the connection. Returns after its threads and its process have ended, or after the
    /// timeouts of [`Limits`].
    pub(super) fn close(&self) {
        self.close_with(CLOSED);
    }

    /// Like [`Core::close`], with another reason for the calls in flight.
    pub(super) fn close_with(&self, why: &str) {
        if std::mem::replace(&mut *lock(&self.closing.begun), true) {
            return;
        }
        self.closing.changed.notify_all();
        self.handlers.close();
        self.end(Failure::Closed(why.to_owned()));
        self.close_transport();
    }

    /// Closes the connection but not the handler pool, which another connection may use.
    pub(super) fn close_transport(&self) {
        self.end(Failure::Closed(CLOSED.to_owned()));
        self.transport.close(Instant::now() + self.limits.client.child_exit);
    }

    /// Kills the child process and does not wait.
    pub(super) fn kill(&self) {
        self.transport.kill();
    }

    /// Converts a failure to an error. If the connection was closed, the error quotes the end of
    /// the server's stderr.
    pub(super) fn error_of(&self, failure: &Failure) -> Error {
        let output = match failure {
            Failure::Closed(_) | Failure::Io(_) | Failure::Interrupted(_) => self.transport.stderr_tail(),
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
        ended.map(|failure| self.error_of(&failure))
    }

    /// Fails all requests in flight and all later ones. Returns `false` if the connection had ended
    /// before.
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
        self.cancel_requests();
        self.transport.interrupt_caller();
        true
    }

    /// Sleeps for this time, or until the connection is closed. Returns whether it is still open.
    pub(super) fn sleep(&self, time: Duration) -> bool {
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

    /// Returns an empty document for a message, a recycled one if there is one.
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
        self.transport.properties().headers && !self.era().sessions()
    }

    /// Counts a line that is not a valid message, and reports its beginning.
    pub(super) fn count_stray_output(&self, line: &[u8]) {
        self.counters.stray_output.fetch_add(1, Ordering::Relaxed);
        let shown = line.get(..STRAY_SHOWN).unwrap_or(line);
        self.handlers.report_stray_output(String::from_utf8_lossy(shown).into_owned());
    }

    /// Counts a message that matches no request.
    pub(super) fn count_late(&self) {
        self.counters.late.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(feature = "observe")]
impl PendingCall {
    /// Returns the outcome for the program's observers; `None` if the request is not observed.
    pub(super) fn observed_outcome(&self, outcome: &Result<RawReply, Failure>) -> Option<RequestOutcome> {
        let reply = outcome.as_ref().map(|reply| (reply.doc.root().raw().len(), reply.value(), reply.ok));
        self.observation.get()?.outcome_of(reply)
    }

    /// Reports the request to the program's observers.
    pub(super) fn report(&self, ended: Option<RequestOutcome>) {
        if let (Some(ended), Some(observation)) = (ended, self.observation.get()) {
            observation.end(ended);
        }
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

/// Returns the error for a server that violates the protocol.
pub(super) fn misbehaved(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::PeerMisbehaved, what.into())
}
