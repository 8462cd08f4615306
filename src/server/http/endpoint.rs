//! Handling of each HTTP request at the endpoints, for both protocols.
//!
//! Everything here runs on the thread of the event loop, inline tools included. Other handlers run
//! on the pool and respond through their [`PostResponse`]. Nothing here waits: a call for which the
//! pool has no room is rejected with 503.
//!
//! Order of checks (requirement H26-28): those of `request_checks.rs`; then JSON, shape of the
//! message, era, header fields against the body, and the needs of the method.
//!
//! # Invariants
//! - A request gets its response here, or a call or a subscription holds its [`PostResponse`].
//! - Requests without a session share one connection without ids. Every session has its own.
//! - With several servers, the fields of [`Endpoint`] are those of the server at the request's path
//!   (`mounted_servers.rs`).

mod call_checks;
mod mounted_servers;
mod session_start;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::era::http::PostKind;
use crate::era::{Encoded, ServerEra};
use crate::json::{Doc, Value, Writer};
use crate::model::{ClientCapabilities, Fault};
use crate::pool::RejectedJob;
use crate::server::call::batch::Batch;
use crate::server::call::{InlineFn, Job};
use crate::server::connection::Connection;
use crate::server::dispatch::admission::{BUSY, Started};
use crate::server::dispatch::classify::shape_fault;
use crate::server::dispatch::classify::{Classified, MessageKind, classify};
use crate::server::dispatch::{Dispatcher, Effect, MessageBytes};
use crate::server::serve::state::Core;
use crate::transport::ReplySink;
use crate::transport::http_server::{Admission, EngineHandle, Field, Head, Responder, Response, Service};
use crate::transport::tap::Tap;

use self::mounted_servers::{MountedServer, sessions_of};
use super::event_streams::{Attach, EventId, EventStreams, ReplayBudget};
use super::headers::Headers;
use super::mounts::PerSession;
use super::rejection::{self, HttpRejection, Reason, RejectedMessage, Rejection};
use super::request_checks::{RequestChecks, RequestInfo};
use super::response::{InFlightBytes, PostResponse, Progress};
use super::session::SessionTable;
use super::{Options, session_name};

/// Shortest interval between two searches for idle sessions.
const SWEEP: Duration = Duration::from_secs(1);
/// Largest output buffer that is reused.
const SPARE_BYTES: usize = 64 << 10;

/// Service that the HTTP server calls.
pub(super) struct Endpoint {
    path: String,
    core: Arc<Core>,
    checks: RequestChecks,
    dispatcher: Dispatcher<Vec<Box<InlineFn>>>,
    /// Connection for the requests without a session.
    shared: Arc<Connection>,
    sessions: SessionTable,
    budget: Arc<ReplayBudget>,
    /// Total bytes of the messages that have no response yet.
    in_flight: Arc<AtomicUsize>,
    engine: Arc<dyn EngineHandle>,
    options: Arc<Options>,
    /// Creates the server of each session.
    per_session: Option<PerSession>,
    others: Vec<MountedServer>,
}

/// Route of a posted message.
enum Route {
    /// A request without a session.
    Stateless,
    /// A request that opens a session.
    OpenSession,
    /// A request or a batch in a session.
    SessionCall(Arc<Connection>, Arc<EventStreams>),
    /// A notification or a response in a session.
    SessionMessage(Arc<Connection>),
}

impl Endpoint {
    pub(super) fn new(
        core: &Arc<Core>,
        options: &Arc<Options>,
        shared: &Arc<Connection>,
        inline: Vec<Box<InlineFn>>,
        engine: Arc<dyn EngineHandle>,
    ) -> Endpoint {
        let limits = &core.limits.http;
        options.mounts.table.set_engine(&engine);
        Endpoint {
            path: options.path.clone(),
            core: Arc::clone(core),
            checks: RequestChecks::new(options, sessions_of(core), Arc::clone(&core.shared)),
            dispatcher: Dispatcher::new(Arc::clone(shared), inline, false),
            shared: Arc::clone(shared),
            sessions: SessionTable::new(limits.sessions, limits.session_timeout),
            budget: Arc::new(ReplayBudget::new(limits)),
            in_flight: Arc::default(),
            engine,
            options: Arc::clone(options),
            per_session: options.per_session.clone(),
            others: Vec::new(),
        }
    }

    fn post(&mut self, info: &RequestInfo<'_>, body: &[u8], responder: Responder) {
        self.dispatcher.as_dyn().refresh();
        let (doc, parsed) = self.dispatcher.as_dyn().parse(MessageBytes::Borrowed(body));
        self.dispatcher.doc = match parsed {
            Ok(()) => self.document(info, doc, responder),
            Err(failure) => {
                let rejection = self.malformed(info, failure.id.as_deref(), &failure.fault);
                reject(info, rejection, &responder);
                Some(doc)
            }
        };
    }

    /// Handles a posted message. Returns the document unless a call keeps it.
    fn document(&mut self, info: &RequestInfo<'_>, doc: Box<Doc>, responder: Responder) -> Option<Box<Doc>> {
        let message = classify(doc.root());
        let route = match self.route(info, &message) {
            Ok(route) => route,
            Err(rejection) => {
                reject(info, rejection, &responder);
                return Some(doc);
            }
        };
        match route {
            Route::Stateless => {
                let reply = self.reply(info, &doc, responder, self.core.eras.modern, None);
                let sink: Arc<dyn ReplySink> = Arc::<PostResponse>::clone(&reply);
                self.dispatcher.as_dyn().set_connection(&self.shared, None);
                let effect = self.dispatcher.as_dyn().dispatch(&doc, &message, &sink);
                match self.check_call(info, &message, &effect) {
                    Ok(()) => self.execute(effect, doc, &reply),
                    Err(rejection) => {
                        call_checks::observe_rejection(&effect, &rejection, &sink);
                        reject(info, rejection, &reply.responder);
                        Some(doc)
                    }
                }
            }
            Route::OpenSession => {
                self.open(info, &doc, &message, responder);
                Some(doc)
            }
            Route::SessionCall(connection, streams) => {
                let reply = self.reply(info, &doc, responder, self.core.eras.legacy, Some(streams));
                let sink: Arc<dyn ReplySink> = Arc::<PostResponse>::clone(&reply);
                self.switch_to_session(&connection, info);
                let effect = self.dispatcher.as_dyn().dispatch(&doc, &message, &sink);
                match self.check_scopes(info, &message, &effect) {
                    Ok(()) => self.execute(effect, doc, &reply),
                    Err(rejection) => {
                        call_checks::observe_rejection(&effect, &rejection, &sink);
                        reject(info, rejection, &reply.responder);
                        Some(doc)
                    }
                }
            }
            Route::SessionMessage(connection) => {
                self.switch_to_session(&connection, info);
                let effect = self.dispatcher.as_dyn().dispatch(&doc, &message, &connection.sink);
                if let Effect::Resume(job) = effect {
                    // The pool reserves room for parked calls.
                    if let Err(RejectedJob { job, .. }) = self.core.pool.try_submit(*job) {
                        connection.refuse(&job.call, "The server is shutting down");
                    }
                }
                Rejection::new(202).send(&responder);
                Some(doc)
            }
        }
    }

    /// Returns the error for a malformed message, in the version of its session if it has one.
    fn malformed(&mut self, info: &RequestInfo<'_>, id: Option<&str>, fault: &Fault) -> Rejection {
        let name = self.checks.sessions.and_then(|rules| info.head.field(rules.id));
        let session =
            name.and_then(|name| self.sessions.find(name, &self.shared, info.caller().map(AsRef::as_ref)));
        Rejection::session_fault(session.map(|session| &*session.connection), 400, id, fault)
    }

    /// Determines the route of a message, or rejects it.
    fn route(&mut self, info: &RequestInfo<'_>, message: &Classified<'_>) -> Result<Route, Rejection> {
        let posted = self.core.eras.of_post(info.head, &message.params, message.method());
        match (posted, message.kind) {
            (_, MessageKind::Malformed(shape)) if shape.needs_response => {
                Err(self.malformed(info, shape.id.map(Value::raw), &shape_fault(&shape)))
            }
            (PostKind::InSession, MessageKind::Batch(_)) => {
                self.session(info, None).map(|(connection, streams)| Route::SessionCall(connection, streams))
            }
            (_, MessageKind::Batch(_)) => Err(Rejection::fault(
                400,
                None,
                &Fault::InvalidRequest("batches are not supported in this version".into()),
            )),
            (PostKind::Stateless, MessageKind::Request(request)) => {
                self.check_fields(info, &request, &message.params)?;
                Ok(Route::Stateless)
            }
            // A client cancels by closing the stream, and sends no other notification but those of
            // extensions (2026-07-28 basic/patterns/cancellation).
            (PostKind::Stateless, MessageKind::Notification(notification)) => {
                if let Some(extensions) = &self.core.extensions {
                    let principal = info.principal.as_ref().map(|principal| &*principal.name);
                    extensions.notified(&notification, principal);
                }
                Err(Rejection::new(202))
            }
            // A response gets no JSON-RPC error.
            (PostKind::Stateless, MessageKind::Response(_)) => Err(Rejection::new(400)),
            (PostKind::Initialize, MessageKind::Request(_)) if !self.names_session(info) => {
                Ok(Route::OpenSession)
            }
            (_, MessageKind::Request(request)) => {
                let (connection, streams) = self.session(info, Some(request.id))?;
                Ok(Route::SessionCall(connection, streams))
            }
            (_, MessageKind::Notification(_) | MessageKind::Response(_)) => {
                self.session(info, None).map(|(connection, _)| Route::SessionMessage(connection))
            }
            // A malformed response in a session ends the request that it names.
            (PostKind::InSession, MessageKind::Malformed(_)) => {
                self.session(info, None).map(|(connection, _)| Route::SessionMessage(connection))
            }
            (_, MessageKind::Malformed(_)) => Err(Rejection::new(400)),
        }
    }

    fn names_session(&self, info: &RequestInfo<'_>) -> bool {
        self.checks.sessions.is_some_and(|rules| info.head.field(rules.id).is_some())
    }

    /// Returns the session that a request names.
    fn session(
        &mut self,
        info: &RequestInfo<'_>,
        id: Option<Value<'_>>,
    ) -> Result<(Arc<Connection>, Arc<EventStreams>), Rejection> {
        let Some(rules) = self.checks.sessions else { return Err(Rejection::method(None)) };
        let Some(name) = info.head.field(rules.id) else {
            return Err(Rejection::fault(400, id, &(rules.missing)()));
        };
        let Some(session) = self.sessions.find(name, &self.shared, info.caller().map(AsRef::as_ref)) else {
            return Err(Rejection::fault(404, id, &(rules.lost)()));
        };
        session.used = Instant::now();
        let found = (Arc::clone(&session.connection), Arc::clone(&session.streams));
        (rules.check)(info.head).map_err(|fault| Rejection::fault(400, id, &fault))?;
        Ok(found)
    }

    /// Passes a frame to the program's observer, which also gets the response.
    #[cold]
    fn observe(&mut self, info: &mut RequestInfo<'_>, body: &[u8], exchange: u64) {
        let name = self.checks.sessions.and_then(|rules| info.head.field(rules.id));
        let session =
            name.and_then(|name| self.sessions.find(name, &self.shared, info.caller().map(AsRef::as_ref)));
        let connection = match session {
            Some(session) => session_name(session.number),
            None => format!("request-{exchange}"),
        };
        info.tap = self.tap(&connection, info);
        if let Some(tap) = &info.tap {
            tap.received(body);
        }
    }

    fn tap(&self, connection: &str, info: &RequestInfo<'_>) -> Option<Tap> {
        self.core.observer.as_ref().map(|observer| Tap::new(observer, connection, info.caller().cloned()))
    }

    fn switch_to_session(&mut self, connection: &Arc<Connection>, info: &RequestInfo<'_>) {
        let mut peer = connection.session().as_ref().map(|session| session.peer);
        if let Some(peer) = peer.as_mut().filter(|_| !info.head.accepts().events) {
            // Requests to the client are sent as events, which this client does not accept.
            peer.capabilities = ClientCapabilities::default();
        }
        self.dispatcher.as_dyn().set_connection(connection, peer);
    }

    fn reply(
        &self,
        info: &RequestInfo<'_>,
        doc: &Doc,
        responder: Responder,
        era: Option<&'static dyn ServerEra>,
        streams: Option<Arc<EventStreams>>,
    ) -> Arc<PostResponse> {
        Arc::new(PostResponse {
            responder: Arc::new(responder),
            era: era.map(ServerEra::http),
            accepts: info.head.accepts(),
            principal: info.principal.clone(),
            tap: info.tap.clone(),
            headers: Headers::of(info.head, &self.options.passed_headers),
            streams,
            progress: Mutex::new(Progress::Unsent),
            in_flight: InFlightBytes::add(
                &self.in_flight,
                doc.memory(),
                2 * self.core.limits.in_flight_bytes,
            ),
        })
    }

    /// Executes the effect of a request whose response goes to `reply`. Returns the document
    /// unless a call keeps it.
    fn execute(&mut self, effect: Effect, doc: Box<Doc>, reply: &Arc<PostResponse>) -> Option<Box<Doc>> {
        let sink: Arc<dyn ReplySink> = Arc::<PostResponse>::clone(reply);
        if let Some(retry_after) = self.dispatcher.retry_after.take() {
            reply.refuse_for(self.dispatcher.out.as_bytes(), retry_after.seconds());
            self.dispatcher.out.clear();
            return Some(doc);
        }
        let (doc, encoded) = match effect {
            Effect::Reply(encoded) => (doc, encoded),
            Effect::Call(call) => match self.dispatcher.as_dyn().start(call, doc, &sink) {
                Started::Done(done) => done,
                Started::Parked => return None,
                Started::Admitted(job) => {
                    self.submit(job, reply);
                    return None;
                }
                Started::NoRoom(job) => {
                    self.refuse(reply, job.doc.at(job.query.id));
                    return Some(job.doc);
                }
            },
            Effect::Batch => {
                self.batch(&doc, reply);
                return Some(doc);
            }
            Effect::Resume(_) | Effect::Ignore => return Some(doc),
        };
        self.send_response(reply, encoded, &[]);
        Some(doc)
    }

    /// Sends the response that was written.
    fn send_response(&mut self, reply: &PostResponse, encoded: Encoded, fields: &[Field<'_>]) {
        let out = &mut self.dispatcher.out;
        reply.respond_with(out.as_bytes(), encoded, fields);
        if out.len() > SPARE_BYTES {
            *out = Writer::new();
        }
        out.clear();
    }

    /// Submits a call to the pool, or rejects it. One more call than the limit may be queued.
    fn submit(&self, job: Job, reply: &PostResponse) {
        let before = if reply.in_flight.fits() { self.core.limits.queue + 1 } else { 0 };
        if let Err(RejectedJob { job, .. }) = self.core.pool.try_submit_before(job, before) {
            if job.conn.take_call(&job.call) {
                self.refuse(reply, job.doc.at(job.query.id));
            }
        }
    }

    /// Sends the rejection of a request without a message, and reports it to the program.
    fn reject_head(&self, head: &Head<'_>, rejection: Rejection, responder: &Responder) {
        self.checks.report(head, rejection.response.status, rejection.reason);
        rejection.send(responder);
    }

    /// Responds with status 503 to the request with this id, and reports this to the program.
    #[cold]
    #[inline(never)]
    fn refuse(&self, reply: &PostResponse, id: Value<'_>) {
        reply.refuse();
        if let Some(report) = &self.options.on_rejection {
            let tap = reply.tap.as_ref();
            let message = tap.map(|tap| RejectedMessage { connection: &tap.connection, id: id.raw() });
            report(&HttpRejection { method: "POST", path: &self.path, status: 503, reason: None, message });
        }
    }

    /// Handles a batch. Its responses are sent together.
    fn batch(&mut self, doc: &Doc, reply: &Arc<PostResponse>) {
        let batch = Batch::new(Arc::<PostResponse>::clone(reply));
        let sink: Arc<dyn ReplySink> = batch.clone();
        let mut jobs = Vec::new();
        for message in doc.root().items() {
            let dispatcher = self.dispatcher.as_dyn();
            let (doc, effect) = dispatcher.batch_item(message, &sink);
            let doc = match effect {
                Effect::Call(call) if call_checks::missing(&call, reply.principal.as_deref()).is_some() => {
                    Some(dispatcher.reject_call(call, doc, &sink, &call_checks::fault()))
                }
                Effect::Call(call) => match dispatcher.start(call, doc, &sink) {
                    Started::Done((doc, _)) => Some(doc),
                    Started::Parked => None,
                    Started::Admitted(job) => {
                        jobs.push(job);
                        None
                    }
                    Started::NoRoom(job) => Some(dispatcher.refuse(job, &BUSY).0),
                },
                Effect::Resume(job) => {
                    jobs.push(*job);
                    Some(doc)
                }
                Effect::Reply(_) | Effect::Batch | Effect::Ignore => Some(doc),
            };
            if let Some(doc) = doc {
                self.core.recycle(doc);
            }
            batch.collect(&mut self.dispatcher.out);
        }
        self.dispatcher.retry_after = None;
        let has_response = batch.complete();
        for job in jobs {
            let before = if reply.in_flight.fits() { self.core.limits.queue + 1 } else { 0 };
            if let Err(RejectedJob { job, .. }) = self.core.pool.try_submit_before(job, before) {
                job.conn.refuse(&job.call, "The server is busy");
            }
        }
        if !has_response {
            reply.responder.respond(202, &[], b"");
        }
    }

    /// Opens an event stream of a session, or resumes one.
    fn get(&mut self, info: &RequestInfo<'_>, responder: Responder) -> Result<(), (Rejection, Responder)> {
        let found = self.session(info, None).and_then(|(_, streams)| {
            let last = self.checks.sessions.and_then(|rules| info.head.field(rules.last_event));
            match last.map(EventId::parse) {
                Some(None) => {
                    Err(Rejection::fault(400, None, &Fault::InvalidRequest("invalid event id".into())))
                }
                place => Ok((streams, place.flatten())),
            }
        });
        match found {
            Err(rejection) => Err((rejection, responder)),
            Ok((streams, place)) => {
                let responder = Arc::new(responder);
                match streams.attach(&responder, place) {
                    Attach::Attached => {}
                    Attach::Expired => self.reject_head(info.head, Reason::EventExpired.into(), &responder),
                    Attach::TooManyStreams => self.reject_head(info.head, Rejection::busy(), &responder),
                }
                Ok(())
            }
        }
    }

    fn delete(&mut self, info: &RequestInfo<'_>) -> Rejection {
        match self.session(info, None) {
            Err(rejection) => rejection,
            Ok(_) => {
                let rules = self.checks.sessions;
                let name = rules.and_then(|rules| info.head.field(rules.id)).unwrap_or_default();
                if let Some(session) = self.sessions.remove(name) {
                    session.end();
                }
                Rejection::new(204)
            }
        }
    }
}

/// Sends a rejection, whose body is a frame.
fn reject(info: &RequestInfo<'_>, rejection: Rejection, responder: &Responder) {
    if let Some(tap) = &info.tap {
        tap.sent(&rejection.response.body);
    }
    rejection.send(responder);
}

impl Service for Endpoint {
    fn check(&mut self, head: &Head<'_>) -> Admission {
        self.change_mounts();
        self.select(head.path());
        self.checks.admit(head)
    }

    fn error_response(&mut self, status: u16) -> Response {
        let report = self.options.on_rejection.as_deref();
        rejection::error_response(status, self.core.limits.frame_bytes, report)
    }

    fn handle(&mut self, head: &Head<'_>, body: &[u8], mut responder: Responder) {
        responder.add_fields(self.checks.cors_fields(head));
        // The server may have been removed while the body was read.
        if !self.select(head.path()) {
            return self.reject_head(head, Reason::Path.into(), &responder);
        }
        match self.checks.info(head) {
            Err(rejection) => rejection.send(&responder),
            Ok(mut info) => match head.method {
                "POST" => {
                    if self.core.observer.is_some() {
                        self.observe(&mut info, body, responder.id());
                    }
                    self.post(&info, body, responder);
                }
                "GET" => {
                    if let Err((rejection, responder)) = self.get(&info, responder) {
                        self.reject_head(head, rejection, &responder);
                    }
                }
                _ => {
                    let rejection = self.delete(&info);
                    self.reject_head(head, rejection, &responder);
                }
            },
        }
    }

    fn disconnected(&mut self, exchange: u64) {
        self.shared.drop_exchange(exchange);
        for other in &self.others {
            other.shared.drop_exchange(exchange);
        }
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.change_mounts();
        self.sessions.expire(now);
        for session in self.sessions.iter() {
            session.connection.drop_closed();
        }
        let next = (self.core.limits.http.session_timeout / 4).clamp(SWEEP, 30 * SWEEP);
        (!self.sessions.is_empty()).then(|| now + next)
    }

    fn stop(&mut self) {
        self.shared.end_listens();
        for other in &self.others {
            other.shared.end_listens();
        }
        for session in self.sessions.iter() {
            session.streams.end_general();
        }
    }
}
