//! One endpoint for both eras: what becomes of each HTTP request.
//!
//! Everything here runs on the engine's thread, inline tools included; other handlers run on the
//! pool and answer through their [`Reply`]. Nothing here waits: a call for which the pool has no
//! room is told to come again.
//!
//! Order of checks (requirement H26-28): those of `door.rs`, which need no body; then JSON, shape
//! of the message, era, fields against body, and whatever the operation needs.
//!
//! # Invariants
//! - A request is answered here, or its [`Reply`] is with a job or a subscription that will.
//! - Requests of clients without sessions share one connection and no ids; every session has its
//!   own.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use crate::era::http::{Fields, Posted};
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
use crate::server::dispatch::{Action, Dispatcher, PlannedCall, Text};
use crate::server::serve::state::Core;
use crate::transport::ReplySink;
use crate::transport::http_server::{Admission, Exchange, Field, Head, Refusal, Remote, Service};

use super::Options;
use super::door::{Door, Visit};
use super::refusal::{self, Reason, Stop};
use super::reply::{Load, Mode, Reply};
use super::session::{Session, Table};
use super::stream::{Budget, Came, Place, Streams};

/// How often sessions are looked at for idle ones, at most.
const SWEEP: Duration = Duration::from_secs(1);
/// Memory of a large message that the next one may use again.
const SPARE_BYTES: usize = 64 << 10;

/// The endpoint.
pub(super) struct Endpoint {
    core: Arc<Core>,
    door: Door,
    dispatcher: Dispatcher<Vec<Box<InlineSend>>>,
    /// For requests without a session.
    shared: Arc<Connection>,
    sessions: Table,
    budget: Arc<Budget>,
    /// Bytes of the messages that are being worked on.
    load: Arc<AtomicUsize>,
    remote: Option<Remote>,
}

/// What is to be done with a document.
enum Plan {
    /// A request that belongs to no session.
    Alone,
    /// A request that opens one.
    Opening,
    /// A request, or several, in a session.
    Call(Arc<Connection>, Arc<Streams>),
    /// A notification or an answer in a session.
    Word(Arc<Connection>),
}

impl Endpoint {
    pub(super) fn new(
        core: &Arc<Core>,
        options: &Arc<Options>,
        shared: &Arc<Connection>,
        inline: Vec<Box<InlineSend>>,
    ) -> Endpoint {
        let limits = &core.limits.http;
        Endpoint {
            core: Arc::clone(core),
            door: Door::new(options, core.eras.legacy.and_then(|era| era.http().sessions())),
            dispatcher: Dispatcher::new(Arc::clone(shared), inline, false),
            shared: Arc::clone(shared),
            sessions: Table::new(limits.sessions, limits.session_timeout),
            budget: Arc::new(Budget::new(limits)),
            load: Arc::default(),
            remote: None,
        }
    }

    /// How to have the engine call [`Service::tick`].
    pub(super) fn wake_with(&mut self, remote: Remote) {
        self.remote = Some(remote);
    }

    fn post(&mut self, visit: &Visit<'_>, body: &[u8], exchange: Exchange) {
        self.dispatcher.whole().refresh();
        let (doc, parsed) = self.dispatcher.whole().parse(Text::Read(body));
        self.dispatcher.doc = match parsed {
            Ok(()) => self.document(visit, doc, exchange),
            Err(unread) => {
                self.stray(visit, unread.id.as_deref(), &unread.fault).say(&exchange);
                Some(doc)
            }
        };
    }

    /// Handles a posted document; gives it back unless a job keeps it.
    fn document(&mut self, visit: &Visit<'_>, doc: Box<Doc>, exchange: Exchange) -> Option<Box<Doc>> {
        let message = classify(doc.root());
        let plan = match self.plan(visit, &message) {
            Ok(plan) => plan,
            Err(stop) => {
                stop.say(&exchange);
                return Some(doc);
            }
        };
        match plan {
            Plan::Alone => {
                let reply = self.reply(visit, &doc, exchange, self.core.eras.modern, None);
                let sink: Arc<dyn ReplySink> = Arc::<Reply>::clone(&reply);
                let shared = Arc::clone(&self.shared);
                let dispatcher = self.dispatcher.whole();
                dispatcher.turn_to(&shared, None);
                let action = dispatcher.dispatch(&doc, &message, &sink);
                match self.check_arguments(visit, &message, &action) {
                    Ok(()) => self.carry_out(action, doc, &reply),
                    Err(stop) => {
                        stop.say(&reply.exchange);
                        Some(doc)
                    }
                }
            }
            Plan::Opening => {
                self.open(visit, &doc, &message, exchange);
                Some(doc)
            }
            Plan::Call(conn, streams) => {
                let reply = self.reply(visit, &doc, exchange, self.core.eras.legacy, Some(streams));
                let sink: Arc<dyn ReplySink> = Arc::<Reply>::clone(&reply);
                self.turn_to(&conn, visit);
                let action = self.dispatcher.whole().dispatch(&doc, &message, &sink);
                self.carry_out(action, doc, &reply)
            }
            Plan::Word(conn) => {
                self.turn_to(&conn, visit);
                let action = self.dispatcher.whole().dispatch(&doc, &message, &conn.sink);
                if let Action::Resume(job) = action {
                    // The pool keeps room for calls that have the client's answers.
                    if let Err(Refused { job, .. }) = self.core.pool.try_submit(*job) {
                        conn.refuse(&job.call, "The server takes no more calls");
                    }
                }
                Stop::new(202).say(&exchange);
                Some(doc)
            }
        }
    }

    /// What is said of bytes that are no message, in the form that the client of a session knows.
    fn stray(&mut self, visit: &Visit<'_>, id: Option<&str>, fault: &Fault) -> Stop {
        let name = self.door.words().and_then(|words| Fields::field(visit.head, words.id));
        let session = name.and_then(|name| self.sessions.find(name, visit.principal.as_deref()));
        Stop::fault_to(session.map(|session| &*session.conn), 400, id, fault)
    }

    /// What a message belongs to, and whether it may go on.
    fn plan(&mut self, visit: &Visit<'_>, message: &Classified<'_>) -> Result<Plan, Stop> {
        let posted = self.core.eras.of_post(visit.head, &message.params, message.method());
        match (posted, message.kind) {
            (_, MessageKind::Malformed(shape)) if shape.answer => {
                Err(self.stray(visit, shape.id.map(Value::raw), &shape_fault(&shape)))
            }
            (Posted::InSession, MessageKind::Batch(_)) => {
                self.session(visit, None).map(|(conn, streams)| Plan::Call(conn, streams))
            }
            (_, MessageKind::Batch(_)) => {
                Err(Stop::fault(400, None, &Fault::InvalidRequest("One message at a time".into())))
            }
            (Posted::Alone, MessageKind::Request(request)) => {
                self.check(visit, &request, &message.params)?;
                Ok(Plan::Alone)
            }
            // Closing the stream is how a client cancels; nothing else is notified (2026-07-28
            // basic/patterns/cancellation).
            (Posted::Alone, MessageKind::Notification(_)) => Err(Stop::new(202)),
            // Not even an error answers a response.
            (Posted::Alone, MessageKind::Response(_)) => Err(Stop::new(400)),
            (Posted::Opening, MessageKind::Request(_)) if !self.names_session(visit) => Ok(Plan::Opening),
            (_, MessageKind::Request(request)) => {
                let (conn, streams) = self.session(visit, Some(request.id))?;
                Ok(Plan::Call(conn, streams))
            }
            (_, MessageKind::Notification(_) | MessageKind::Response(_)) => {
                self.session(visit, None).map(|(conn, _)| Plan::Word(conn))
            }
            // In a session a malformed response ends the request that it names.
            (Posted::InSession, MessageKind::Malformed(_)) => {
                self.session(visit, None).map(|(conn, _)| Plan::Word(conn))
            }
            (_, MessageKind::Malformed(_)) => Err(Stop::new(400)),
        }
    }

    /// Checks the fields of a request without a session against its body.
    fn check(&self, visit: &Visit<'_>, request: &Request<'_>, params: &Params<'_>) -> Result<(), Stop> {
        let Some(era) = self.core.eras.modern.map(ServerEra::http) else { return Ok(()) };
        if !visit.accepts.events && era.streams(request.method) {
            let fault = Fault::InvalidRequest(Reason::AcceptEvents.words().into());
            return Err(Stop::fault(Reason::AcceptEvents.status(), Some(request.id), &fault));
        }
        era.check(visit.head, request, params).map_err(|fault| Stop::fault(400, Some(request.id), &fault))
    }

    /// Checks the fields that repeat arguments of a tool against the arguments.
    fn check_arguments(
        &self,
        visit: &Visit<'_>,
        message: &Classified<'_>,
        action: &Action,
    ) -> Result<(), Stop> {
        let Some(era) = self.core.eras.modern.map(ServerEra::http) else { return Ok(()) };
        let Action::Call(PlannedCall { target: Target::Tool(tool), .. }) = action else { return Ok(()) };
        era.check_arguments(visit.head, &tool.entry.mirrors, message.params.arguments())
            .map_err(|fault| Stop::fault(400, message.id(), &fault))
    }

    fn names_session(&self, visit: &Visit<'_>) -> bool {
        self.door.words().is_some_and(|words| Fields::field(visit.head, words.id).is_some())
    }

    /// The session that a request names.
    fn session(
        &mut self,
        visit: &Visit<'_>,
        id: Option<Value<'_>>,
    ) -> Result<(Arc<Connection>, Arc<Streams>), Stop> {
        let Some(words) = self.door.words() else { return Err(Stop::method(None)) };
        let Some(name) = Fields::field(visit.head, words.id) else {
            return Err(Stop::fault(400, id, &(words.missing)()));
        };
        let Some(session) = self.sessions.find(name, visit.principal.as_deref()) else {
            return Err(Stop::fault(404, id, &(words.lost)()));
        };
        session.used = Instant::now();
        let found = (Arc::clone(&session.conn), Arc::clone(&session.streams));
        (words.check)(visit.head).map_err(|fault| Stop::fault(400, id, &fault))?;
        Ok(found)
    }

    fn turn_to(&mut self, conn: &Arc<Connection>, visit: &Visit<'_>) {
        let mut peer = conn.session().as_ref().map(|session| session.peer);
        if let Some(peer) = peer.as_mut().filter(|_| !visit.accepts.events) {
            // Questions travel as events: who reads none cannot be asked.
            peer.capabilities = ClientCapabilities::default();
        }
        self.dispatcher.whole().turn_to(conn, peer);
    }

    fn reply(
        &self,
        visit: &Visit<'_>,
        doc: &Doc,
        exchange: Exchange,
        era: Option<&'static dyn ServerEra>,
        streams: Option<Arc<Streams>>,
    ) -> Arc<Reply> {
        Arc::new(Reply {
            exchange: Arc::new(exchange),
            era: era.map(ServerEra::http),
            accepts: visit.accepts,
            principal: visit.principal.clone(),
            streams,
            mode: Mutex::new(Mode::Nothing),
            load: Load::take(&self.load, doc.memory(), 2 * self.core.limits.in_flight_bytes),
        })
    }

    /// Carries out the action for a request whose response goes to `reply`. Returns the document
    /// unless a call keeps it.
    fn carry_out(&mut self, action: Action, doc: Box<Doc>, reply: &Arc<Reply>) -> Option<Box<Doc>> {
        let sink: Arc<dyn ReplySink> = Arc::<Reply>::clone(reply);
        let (doc, encoded) = match action {
            Action::Reply(encoded) => (doc, encoded),
            Action::Call(call) => match self.dispatcher.whole().start(call, doc, &sink) {
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
            Action::Batch => {
                self.batch(&doc, reply);
                return Some(doc);
            }
            Action::Resume(_) | Action::Ignore => return Some(doc),
        };
        self.answer(reply, encoded, &[]);
        Some(doc)
    }

    /// Sends the response that was written.
    fn answer(&mut self, reply: &Reply, encoded: Encoded, fields: &[Field<'_>]) {
        let out = &mut self.dispatcher.out;
        reply.answer_with(out.as_bytes(), encoded, fields);
        if out.len() > SPARE_BYTES {
            *out = Writer::new();
        }
        out.clear();
    }

    /// Hands a call over, or says that there is no room for it. One may wait beside those that the
    /// pool has room for.
    fn submit(&self, job: Job, reply: &Reply) {
        let before = if reply.load.fits() { self.core.limits.queue + 1 } else { 0 };
        if let Err(Refused { job, .. }) = self.core.pool.try_submit_before(job, before) {
            if job.conn.forget(&job.call) {
                reply.refuse();
            }
        }
    }

    /// Handles several messages, whose responses are sent together.
    fn batch(&mut self, doc: &Doc, reply: &Arc<Reply>) {
        let batch = Batch::new(Arc::<Reply>::clone(reply));
        let sink: Arc<dyn ReplySink> = batch.clone();
        let mut jobs = Vec::new();
        for message in doc.root().items() {
            let dispatcher = self.dispatcher.whole();
            let (doc, action) = dispatcher.batch_item(message, &sink);
            let doc = match action {
                Action::Call(call) => match dispatcher.start(call, doc, &sink) {
                    Started::Done((doc, _)) => Some(doc),
                    Started::Parked => None,
                    Started::Admitted(job) => {
                        jobs.push(job);
                        None
                    }
                    Started::NoRoom(job) => Some(dispatcher.refuse(job, &BUSY).0),
                },
                Action::Resume(job) => {
                    jobs.push(*job);
                    Some(doc)
                }
                Action::Reply(_) | Action::Batch | Action::Ignore => Some(doc),
            };
            if let Some(doc) = doc {
                self.core.recycle(doc);
            }
            batch.collect(&mut self.dispatcher.out);
        }
        let answers = batch.complete();
        for job in jobs {
            let before = if reply.load.fits() { self.core.limits.queue + 1 } else { 0 };
            if let Err(Refused { job, .. }) = self.core.pool.try_submit_before(job, before) {
                job.conn.refuse(&job.call, "The server is busy");
            }
        }
        if !answers {
            reply.exchange.respond(202, &[], b"");
        }
    }

    /// Opens a session, if the request is one that can.
    fn open(&mut self, visit: &Visit<'_>, doc: &Doc, message: &Classified<'_>, exchange: Exchange) {
        let now = Instant::now();
        if !self.sessions.make_room(now) {
            return Stop::busy().say(&exchange);
        }
        let streams = Arc::new(Streams::new(&self.budget));
        let sink: Arc<dyn ReplySink> = Arc::<Streams>::clone(&streams);
        let conn = Arc::new(Connection::new(Arc::clone(&self.core), sink));
        let reply = self.reply(visit, doc, exchange, self.core.eras.legacy, Some(Arc::clone(&streams)));
        let sink: Arc<dyn ReplySink> = Arc::<Reply>::clone(&reply);
        let dispatcher = self.dispatcher.whole();
        dispatcher.turn_to(&conn, None);
        let action = dispatcher.dispatch(doc, message, &sink);
        let encoded = match action {
            Action::Reply(encoded) => encoded,
            _ => Encoded::RESULT,
        };
        let revision = conn.session().as_ref().map(|session| session.peer.revision);
        match (revision, self.door.words()) {
            (Some(revision), Some(words)) => {
                if (words.resumes)(revision) {
                    streams.set_resumes();
                }
                self.core.shared.connect(&conn);
                let principal = visit.principal.clone();
                match self.sessions.add(Session { conn, streams, principal, used: now }) {
                    Ok(id) => self.answer(&reply, encoded, &[(words.id, &id)]),
                    Err(_) => reply.refuse(),
                }
                self.remote.iter().for_each(Remote::wake);
            }
            _ => self.answer(&reply, encoded, &[]),
        }
        let shared = Arc::clone(&self.shared);
        self.dispatcher.whole().turn_to(&shared, None);
        self.dispatcher.out.clear();
    }

    /// A client of a session comes to listen, or for what it missed.
    fn get(&mut self, visit: &Visit<'_>, exchange: Exchange) -> Result<(), (Stop, Exchange)> {
        let found = self.session(visit, None).and_then(|(_, streams)| {
            let last = self.door.words().and_then(|words| Fields::field(visit.head, words.last_event));
            match last.map(Place::parse) {
                Some(None) => Err(Stop::fault(400, None, &Fault::InvalidRequest("No such event".into()))),
                place => Ok((streams, place.flatten())),
            }
        });
        match found {
            Err(stop) => Err((stop, exchange)),
            Ok((streams, place)) => {
                let exchange = Arc::new(exchange);
                match streams.come(&exchange, place) {
                    Came::Served => {}
                    Came::Forgotten => Stop::from(Reason::Forgotten).say(&exchange),
                    Came::Crowded => Stop::busy().say(&exchange),
                }
                Ok(())
            }
        }
    }

    fn delete(&mut self, visit: &Visit<'_>) -> Stop {
        match self.session(visit, None) {
            Err(stop) => stop,
            Ok(_) => {
                let words = self.door.words();
                let name = words.and_then(|words| Fields::field(visit.head, words.id)).unwrap_or_default();
                if let Some(session) = self.sessions.remove(name) {
                    session.end();
                }
                Stop::new(204)
            }
        }
    }
}

impl Service for Endpoint {
    fn head(&mut self, head: &Head<'_>) -> Admission {
        match self.door.admit(head) {
            Ok(()) => Admission::Read,
            Err(stop) => Admission::Refuse(stop.with_all(self.door.along(head)).into()),
        }
    }

    fn unread(&mut self, status: u16) -> Refusal {
        refusal::unread(status, self.core.limits.frame_bytes)
    }

    fn request(&mut self, head: &Head<'_>, body: &[u8], mut exchange: Exchange) {
        exchange.say_along(self.door.along(head));
        match self.door.visit(head) {
            Err(stop) => stop.say(&exchange),
            Ok(visit) => match head.method() {
                "POST" => self.post(&visit, body, exchange),
                "GET" => {
                    if let Err((stop, exchange)) = self.get(&visit, exchange) {
                        stop.say(&exchange);
                    }
                }
                _ => self.delete(&visit).say(&exchange),
            },
        }
    }

    fn gone(&mut self, exchange: u64) {
        self.shared.drop_exchange(exchange);
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.sessions.expire(now);
        for session in self.sessions.iter() {
            session.conn.drop_closed();
        }
        let next = (self.core.limits.http.session_timeout / 4).clamp(SWEEP, 30 * SWEEP);
        (!self.sessions.is_empty()).then(|| now + next)
    }

    fn stop(&mut self) {
        self.shared.end_listens();
        for session in self.sessions.iter() {
            session.streams.end_general();
        }
    }
}
