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
//!   (`several.rs`).

mod opening;
mod several;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::era::http::Posted;
use crate::era::{Encoded, Params, ServerEra};
use crate::json::{Doc, Value, Writer};
use crate::model::{ClientCapabilities, Fault};
use crate::pool::Refused;
use crate::rpc::Request;
use crate::server::InlineSend;
use crate::server::call::batch::Batch;
use crate::server::call::{Job, Target};
use crate::server::connection::Connection;
use crate::server::dispatch::admission::{BUSY, Started};
use crate::server::dispatch::classify::shape_fault;
use crate::server::dispatch::classify::{Classified, MessageKind, classify};
use crate::server::dispatch::{Dispatcher, Effect, PlannedCall, Text};
use crate::server::serve::state::Core;
use crate::transport::ReplySink;
use crate::transport::http_server::{Admission, Field, Head, LoopHandle, Responder, Response, Service};
use crate::transport::tap::Tap;

use self::several::{OtherServer, sessions_of};
use super::Options;
use super::event_streams::{Attach, EventId, EventStreams, ReplayBudget};
use super::rejection::{self, Reason, Rejection};
use super::request_checks::{RequestChecks, RequestInfo};
use super::response::{InFlightBytes, PostResponse, Progress};
use super::session::SessionTable;
use super::session_servers::MakeServer;

/// Shortest interval between two searches for idle sessions.
const SWEEP: Duration = Duration::from_secs(1);
/// Largest output buffer that is reused.
const SPARE_BYTES: usize = 64 << 10;

/// Service behind the HTTP server.
pub(super) struct Endpoint {
    path: String,
    core: Arc<Core>,
    checks: RequestChecks,
    dispatcher: Dispatcher<Vec<Box<InlineSend>>>,
    /// Connection of the requests without a session.
    shared: Arc<Connection>,
    sessions: SessionTable,
    budget: Arc<ReplayBudget>,
    /// Bytes of messages without a response.
    in_flight: Arc<AtomicUsize>,
    loop_handle: LoopHandle,
    options: Arc<Options>,
    /// Creates the server of each session.
    per_session: Option<Arc<MakeServer>>,
    others: Vec<OtherServer>,
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
        inline: Vec<Box<InlineSend>>,
        loop_handle: LoopHandle,
    ) -> Endpoint {
        let limits = &core.limits.http;
        options.mounts.table.set_loop(&loop_handle);
        Endpoint {
            path: options.path.clone(),
            core: Arc::clone(core),
            checks: RequestChecks::new(options, sessions_of(core)),
            dispatcher: Dispatcher::new(Arc::clone(shared), inline, false),
            shared: Arc::clone(shared),
            sessions: SessionTable::new(limits.sessions, limits.session_timeout),
            budget: Arc::new(ReplayBudget::new(limits)),
            in_flight: Arc::default(),
            loop_handle,
            options: Arc::clone(options),
            per_session: options.per_session.clone(),
            others: Vec::new(),
        }
    }

    fn post(&mut self, info: &RequestInfo<'_>, body: &[u8], responder: Responder) {
        self.dispatcher.as_dyn().refresh();
        let (doc, parsed) = self.dispatcher.as_dyn().parse(Text::Read(body));
        self.dispatcher.doc = match parsed {
            Ok(()) => self.document(info, doc, responder),
            Err(unread) => {
                let rejection = self.malformed(info, unread.id.as_deref(), &unread.fault);
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
                let action = self.dispatcher.as_dyn().dispatch(&doc, &message, &sink);
                match self.check_arguments(info, &message, &action) {
                    Ok(()) => self.carry_out(action, doc, &reply),
                    Err(rejection) => {
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
                self.turn_to_session(&connection, info);
                let action = self.dispatcher.as_dyn().dispatch(&doc, &message, &sink);
                self.carry_out(action, doc, &reply)
            }
            Route::SessionMessage(connection) => {
                self.turn_to_session(&connection, info);
                let action = self.dispatcher.as_dyn().dispatch(&doc, &message, &connection.sink);
                if let Effect::Resume(job) = action {
                    // The pool reserves room for parked calls.
                    if let Err(Refused { job, .. }) = self.core.pool.try_submit(*job) {
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
        let name = self.checks.sessions.and_then(|words| info.head.field(words.id));
        let session = name.and_then(|name| self.sessions.find(name, &self.shared, info.principal.as_deref()));
        Rejection::session_fault(session.map(|session| &*session.connection), 400, id, fault)
    }

    /// Determines the route of a message, or rejects it.
    fn route(&mut self, info: &RequestInfo<'_>, message: &Classified<'_>) -> Result<Route, Rejection> {
        let posted = self.core.eras.of_post(info.head, &message.params, message.method());
        match (posted, message.kind) {
            (_, MessageKind::Malformed(shape)) if shape.answer => {
                Err(self.malformed(info, shape.id.map(Value::raw), &shape_fault(&shape)))
            }
            (Posted::InSession, MessageKind::Batch(_)) => {
                self.session(info, None).map(|(connection, streams)| Route::SessionCall(connection, streams))
            }
            (_, MessageKind::Batch(_)) => Err(Rejection::fault(
                400,
                None,
                &Fault::InvalidRequest("batches are not supported in this version".into()),
            )),
            (Posted::Alone, MessageKind::Request(request)) => {
                self.check_fields(info, &request, &message.params)?;
                Ok(Route::Stateless)
            }
            // A client cancels by closing the stream, and sends no other notification (2026-07-28
            // basic/patterns/cancellation).
            (Posted::Alone, MessageKind::Notification(_)) => Err(Rejection::new(202)),
            // A response gets no JSON-RPC error.
            (Posted::Alone, MessageKind::Response(_)) => Err(Rejection::new(400)),
            (Posted::Opening, MessageKind::Request(_)) if !self.names_session(info) => Ok(Route::OpenSession),
            (_, MessageKind::Request(request)) => {
                let (connection, streams) = self.session(info, Some(request.id))?;
                Ok(Route::SessionCall(connection, streams))
            }
            (_, MessageKind::Notification(_) | MessageKind::Response(_)) => {
                self.session(info, None).map(|(connection, _)| Route::SessionMessage(connection))
            }
            // A malformed response in a session ends the request that it names.
            (Posted::InSession, MessageKind::Malformed(_)) => {
                self.session(info, None).map(|(connection, _)| Route::SessionMessage(connection))
            }
            (_, MessageKind::Malformed(_)) => Err(Rejection::new(400)),
        }
    }

    /// Checks the header fields of a request without a session against its body.
    fn check_fields(
        &self,
        info: &RequestInfo<'_>,
        request: &Request<'_>,
        params: &Params<'_>,
    ) -> Result<(), Rejection> {
        let Some(era) = self.core.eras.modern.map(ServerEra::http) else { return Ok(()) };
        if !info.head.accepts().events && era.streams(request.method) {
            let fault = Fault::InvalidRequest(Reason::AcceptEvents.message().into());
            return Err(Rejection::fault(Reason::AcceptEvents.status(), Some(request.id), &fault));
        }
        era.check(info.head, request, params).map_err(|fault| Rejection::fault(400, Some(request.id), &fault))
    }

    /// Checks the header fields that repeat arguments of a tool.
    fn check_arguments(
        &self,
        info: &RequestInfo<'_>,
        message: &Classified<'_>,
        action: &Effect,
    ) -> Result<(), Rejection> {
        let Some(era) = self.core.eras.modern.map(ServerEra::http) else { return Ok(()) };
        let Effect::Call(PlannedCall { target: Target::Tool(tool), .. }) = action else {
            return Ok(());
        };
        era.check_arguments(info.head, &tool.entry.mirrors, message.params.arguments())
            .map_err(|fault| Rejection::fault(400, message.id(), &fault))
    }

    fn names_session(&self, info: &RequestInfo<'_>) -> bool {
        self.checks.sessions.is_some_and(|words| info.head.field(words.id).is_some())
    }

    /// Returns the session that a request names.
    fn session(
        &mut self,
        info: &RequestInfo<'_>,
        id: Option<Value<'_>>,
    ) -> Result<(Arc<Connection>, Arc<EventStreams>), Rejection> {
        let Some(words) = self.checks.sessions else { return Err(Rejection::method(None)) };
        let Some(name) = info.head.field(words.id) else {
            return Err(Rejection::fault(400, id, &(words.missing)()));
        };
        let Some(session) = self.sessions.find(name, &self.shared, info.principal.as_deref()) else {
            return Err(Rejection::fault(404, id, &(words.lost)()));
        };
        session.used = Instant::now();
        let found = (Arc::clone(&session.connection), Arc::clone(&session.streams));
        (words.check)(info.head).map_err(|fault| Rejection::fault(400, id, &fault))?;
        Ok(found)
    }

    /// Passes a frame to the program's observer, which also gets the response.
    #[cold]
    fn observe(&mut self, info: &mut RequestInfo<'_>, body: &[u8], exchange: u64) {
        let name = self.checks.sessions.and_then(|words| info.head.field(words.id));
        let session = name.and_then(|name| self.sessions.find(name, &self.shared, info.principal.as_deref()));
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
        self.core.observer.as_ref().map(|observer| Tap::new(observer, connection, info.principal.clone()))
    }

    fn turn_to_session(&mut self, connection: &Arc<Connection>, info: &RequestInfo<'_>) {
        let mut peer = connection.session().as_ref().map(|session| session.peer);
        if let Some(peer) = peer.as_mut().filter(|_| !info.head.accepts().events) {
            // Requests to the client are sent as events, which this one does not accept.
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
    fn carry_out(&mut self, action: Effect, doc: Box<Doc>, reply: &Arc<PostResponse>) -> Option<Box<Doc>> {
        let sink: Arc<dyn ReplySink> = Arc::<PostResponse>::clone(reply);
        let (doc, encoded) = match action {
            Effect::Reply(encoded) => (doc, encoded),
            Effect::Call(call) => match self.dispatcher.as_dyn().start(call, doc, &sink) {
                Started::Done(done) => done,
                Started::Parked => return None,
                Started::Admitted(job) => {
                    self.submit(job, reply);
                    return None;
                }
                Started::NoRoom(job) => {
                    reply.refuse();
                    return Some(job.doc);
                }
            },
            Effect::Batch => {
                self.batch(&doc, reply);
                return Some(doc);
            }
            Effect::Resume(_) | Effect::Ignore => return Some(doc),
        };
        self.answer(reply, encoded, &[]);
        Some(doc)
    }

    /// Sends the response that was written.
    fn answer(&mut self, reply: &PostResponse, encoded: Encoded, fields: &[Field<'_>]) {
        let out = &mut self.dispatcher.out;
        reply.answer_with(out.as_bytes(), encoded, fields);
        if out.len() > SPARE_BYTES {
            *out = Writer::new();
        }
        out.clear();
    }

    /// Submits a call to the pool, or rejects it. One more call than the limit may be queued.
    fn submit(&self, job: Job, reply: &PostResponse) {
        let before = if reply.in_flight.fits() { self.core.limits.queue + 1 } else { 0 };
        if let Err(Refused { job, .. }) = self.core.pool.try_submit_before(job, before) {
            if job.conn.forget(&job.call) {
                reply.refuse();
            }
        }
    }

    /// Handles a batch. Its responses are sent together.
    fn batch(&mut self, doc: &Doc, reply: &Arc<PostResponse>) {
        let batch = Batch::new(Arc::<PostResponse>::clone(reply));
        let sink: Arc<dyn ReplySink> = batch.clone();
        let mut jobs = Vec::new();
        for message in doc.root().items() {
            let dispatcher = self.dispatcher.as_dyn();
            let (doc, action) = dispatcher.batch_item(message, &sink);
            let doc = match action {
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
        let answers = batch.complete();
        for job in jobs {
            let before = if reply.in_flight.fits() { self.core.limits.queue + 1 } else { 0 };
            if let Err(Refused { job, .. }) = self.core.pool.try_submit_before(job, before) {
                job.conn.refuse(&job.call, "The server is busy");
            }
        }
        if !answers {
            reply.responder.respond(202, &[], b"");
        }
    }

    /// Opens an event stream of a session, or resumes one.
    fn get(&mut self, info: &RequestInfo<'_>, responder: Responder) -> Result<(), (Rejection, Responder)> {
        let found = self.session(info, None).and_then(|(_, streams)| {
            let last = self.checks.sessions.and_then(|words| info.head.field(words.last_event));
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
                    Attach::Expired => Rejection::from(Reason::EventExpired).send(&responder),
                    Attach::TooManyStreams => Rejection::busy().send(&responder),
                }
                Ok(())
            }
        }
    }

    fn delete(&mut self, info: &RequestInfo<'_>) -> Rejection {
        match self.session(info, None) {
            Err(rejection) => rejection,
            Ok(_) => {
                let words = self.checks.sessions;
                let name = words.and_then(|words| info.head.field(words.id)).unwrap_or_default();
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

fn session_name(number: u64) -> String {
    format!("session-{number}")
}

impl Service for Endpoint {
    fn check(&mut self, head: &Head<'_>) -> Admission {
        self.change_mounts();
        self.select(head.path());
        self.checks.admit(head)
    }

    fn error_response(&mut self, status: u16) -> Response {
        rejection::error_response(status, self.core.limits.frame_bytes)
    }

    fn handle(&mut self, head: &Head<'_>, body: &[u8], mut responder: Responder) {
        responder.add_fields(self.checks.cors_fields(head));
        // The server may have been removed while the body was read.
        if !self.select(head.path()) {
            return Rejection::from(Reason::Path).send(&responder);
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
                        rejection.send(&responder);
                    }
                }
                _ => self.delete(&info).send(&responder),
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
