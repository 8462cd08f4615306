//! One endpoint for both eras: what becomes of each HTTP request.
//!
//! Everything here runs on the engine's thread, inline tools included; other handlers run on the
//! pool and answer through their [`Reply`]. Nothing here waits: a call for which the pool has no
//! room is told to come again.
//!
//! Order of checks (requirement H26-28): host and origin, path, method, token, media types; then, with the body,
//! JSON, shape of the message, era, fields against body, and whatever the operation needs.
//!
//! # Invariants
//! - A request is answered here, or its [`Reply`] is with a job or a subscription that will.
//! - Requests of clients without sessions share one connection and no ids; every session has its own.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use crate::era::http::{Fields, Posted, Sessions};
use crate::era::{Params, ServerEra};
use crate::json::{Doc, Free, Kind, Value, Writer};
use crate::model::{ClientCapabilities, Fault};
use crate::pool::Refused;
use crate::rpc::{Message, Request};
use crate::server::InlineSend;
use crate::server::connection::Connection;
use crate::server::core::Core;
use crate::server::dispatch::Reader;
use crate::server::job::Job;
use crate::server::notice::Notices;
use crate::server::operation::{parse_fault, shape_fault};
use crate::transport::Outlet;
use crate::transport::http_server::{Admission, Exchange, Head, Refusal, Remote, Service};

use super::Options;
use super::auth::WELL_KNOWN;
use super::cors;
use super::refusal::{self, Reason, Stop};
use super::reply::{Accepts, Load, Mode, Reply};
use super::session::{Session, Table};
use super::stream::{Budget, Came, Place, Streams};

/// How often sessions are looked at for idle ones, at most.
const SWEEP: Duration = Duration::from_secs(1);
/// Memory of a large message that the next one may use again.
const SPARE_BYTES: usize = 64 << 10;

/// The endpoint.
pub(super) struct Endpoint {
    core: Arc<Core>,
    options: Arc<Options>,
    reader: Reader<Vec<Box<InlineSend>>>,
    /// For requests without a session.
    shared: Arc<Connection>,
    sessions: Table,
    budget: Arc<Budget>,
    /// Bytes of the messages that are being worked on.
    load: Arc<AtomicUsize>,
    /// Whose token was looked at last: its hash and its owner. The body of that request comes next.
    admitted: Option<([u8; 32], Arc<str>)>,
    remote: Option<Remote>,
    notices: Notices<{ Reason::LINES }>,
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

/// What the rest of a request's way depends on.
struct Visit<'h> {
    head: &'h Head<'h>,
    accepts: Accepts,
    principal: Option<Arc<str>>,
}

impl Fields for Head<'_> {
    fn field(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.all(name);
        let first = all.next();
        // Twice is no value at all: no check takes a control character for what it looks for.
        if all.next().is_some() { Some(b"\0") } else { first }
    }
}

/// A field that must be text.
fn text<'h>(head: &'h Head<'_>, name: &str) -> Option<&'h str> {
    Fields::field(head, name).map(|value| std::str::from_utf8(value).unwrap_or("\0"))
}

impl Endpoint {
    pub(super) fn new(
        core: &Arc<Core>,
        options: &Arc<Options>,
        shared: &Arc<Connection>,
        inline: Vec<Box<InlineSend>>,
    ) -> Endpoint {
        let limits = &core.limits.http;
        let mut reader = Reader::new(Arc::clone(shared), inline, false);
        reader.waits = false;
        Endpoint {
            core: Arc::clone(core),
            options: Arc::clone(options),
            reader,
            shared: Arc::clone(shared),
            sessions: Table::new(limits.sessions, limits.session_timeout),
            budget: Arc::new(Budget::new(limits)),
            load: Arc::default(),
            admitted: None,
            remote: None,
            notices: Notices::new(),
        }
    }

    /// How to have the engine call [`Service::tick`].
    pub(super) fn wake_with(&mut self, remote: Remote) {
        self.remote = Some(remote);
    }

    fn legacy(&self) -> Option<(&'static dyn ServerEra, &'static Sessions)> {
        let era = self.core.eras.legacy?;
        Some((era, era.http().sessions()?))
    }

    /// Everything that can be said before the body is there.
    fn admit(&mut self, head: &Head<'_>) -> Result<(), Stop> {
        let gate = &self.options.gate;
        if !gate.admits_host(text(head, "host")) {
            return Err(Reason::Host.into());
        }
        let origin = text(head, "origin");
        if !gate.admits_origin(origin) {
            return Err(Reason::Origin.into());
        }
        let document = self.metadata(head.path());
        if document.is_none() && head.path() != self.options.path {
            return Err(Reason::Path.into());
        }
        if cors::is_preflight(head) && origin.is_some_and(|origin| gate.names(origin)) {
            return Err(cors::preflight(head));
        }
        if let Some(document) = document {
            return Err(match head.method() {
                "GET" | "HEAD" => Stop::document(200, document),
                _ => Stop::new(405).with("allow", "GET, HEAD"),
            });
        }
        self.principal(head, false)?;
        let accepts = Accepts::read(head.all("accept"));
        let sessions = self.legacy().map(|(_, sessions)| sessions);
        match head.method() {
            "POST" => {
                if !is_json(Fields::field(head, "content-type")) {
                    return Err(Reason::Media.into());
                }
                if !accepts.json && !accepts.events {
                    return Err(Reason::Accept.into());
                }
            }
            "GET" | "DELETE" if sessions.is_some_and(|s| Fields::field(head, s.id).is_some()) => {
                if head.method() == "GET" && !accepts.events {
                    return Err(Reason::AcceptEvents.into());
                }
            }
            _ => return Err(Stop::method(sessions)),
        }
        Ok(())
    }

    /// What goes along with every answer to this request: what a browser wants to see before it
    /// shows the answer to a page of an origin that is allowed.
    fn along(&self, head: &Head<'_>) -> Vec<(&'static str, String)> {
        match text(head, "origin").filter(|origin| self.options.gate.names(origin)) {
            Some(origin) => cors::fields(origin, self.legacy().map(|(_, sessions)| sessions)),
            None => Vec::new(),
        }
    }

    /// Tells the operator of a refusal that is worth it.
    fn report(&mut self, reason: Reason, head: &Head<'_>) {
        let Some(kind) = reason.line() else { return };
        let field = if reason == Reason::Host { "host" } else { "origin" };
        let path = &self.options.path;
        self.notices.say(kind, Instant::now(), || reason.told(text(head, field), path));
    }

    /// What of a request that was admitted is needed with its body.
    fn visit<'h>(&mut self, head: &'h Head<'h>) -> Result<Visit<'h>, Stop> {
        let principal = self.principal(head, true)?;
        Ok(Visit { head, accepts: Accepts::read(head.all("accept")), principal })
    }

    /// The protected resource's metadata, which anybody may read, if it is at this path.
    fn metadata(&self, path: &str) -> Option<Vec<u8>> {
        let metadata = self.options.auth.metadata.as_ref()?;
        let rest = path.strip_prefix(WELL_KNOWN)?;
        (rest.is_empty() || rest == self.options.path).then(|| metadata.document())
    }

    fn principal(&mut self, head: &Head<'_>, again: bool) -> Result<Option<Arc<str>>, Stop> {
        if self.options.auth.check.is_none() {
            return Ok(None);
        }
        let field = text(head, "authorization");
        let hash = hmac_sha256::Hash::hash(field.unwrap_or_default().as_bytes());
        if let Some((known, owner)) = self.admitted.take() {
            if again && field.is_some() && known == hash {
                return Ok(Some(owner));
            }
        }
        let owner = self.options.auth.admit(field)?;
        self.admitted = owner.clone().map(|owner| (hash, owner));
        Ok(owner)
    }

    fn post(&mut self, visit: &Visit<'_>, body: &[u8], exchange: Exchange) {
        self.reader.whole().refresh();
        let mut doc = self.reader.doc.take().unwrap_or_else(|| self.core.spare_doc());
        let parsed = doc.parse_next(body, &self.core.limits.parse(), &Free::default());
        let left = match parsed {
            Ok(_) => self.document(visit, doc, exchange),
            Err(error) => {
                self.stray(visit, None, &parse_fault(error)).say(&exchange);
                Some(doc)
            }
        };
        self.reader.doc = left.map(|mut doc| {
            doc.shrink_to(SPARE_BYTES);
            doc
        });
    }

    /// Handles a posted document; gives it back unless a job keeps it.
    fn document(&mut self, visit: &Visit<'_>, doc: Box<Doc>, exchange: Exchange) -> Option<Box<Doc>> {
        let plan = match self.plan(visit, &doc) {
            Ok(plan) => plan,
            Err(stop) => {
                stop.say(&exchange);
                return Some(doc);
            }
        };
        match plan {
            Plan::Alone => {
                let reply = self.reply(visit, &doc, exchange, self.core.eras.modern, None);
                let shared = Arc::clone(&self.shared);
                self.reader.whole().turn_to(&shared, None);
                self.run(doc, &reply)
            }
            Plan::Opening => self.open(visit, doc, exchange),
            Plan::Call(conn, streams) => {
                let reply = self.reply(visit, &doc, exchange, self.core.eras.legacy, Some(streams));
                self.turn_to(&conn, visit);
                if doc.root().kind() == Kind::Array {
                    self.batch(&doc, &reply);
                    return Some(doc);
                }
                self.run(doc, &reply)
            }
            Plan::Word(conn) => {
                self.turn_to(&conn, visit);
                let doc = self.reader.whole().message(doc, &conn.outlet);
                self.reader.out.clear();
                // Calls that go on with the client's answer: the pool keeps room for them.
                for job in std::mem::take(&mut self.reader.jobs) {
                    if let Err(Refused { job, .. }) = self.core.pool.try_submit(job) {
                        conn.refuse(&job.call, "The server takes no more calls");
                    }
                }
                Stop::new(202).say(&exchange);
                doc
            }
        }
    }

    /// What is said of bytes that are no message, in the form that the client of a session knows.
    fn stray(&mut self, visit: &Visit<'_>, id: Option<Value<'_>>, fault: &Fault) -> Stop {
        let name = self.legacy().and_then(|(_, words)| Fields::field(visit.head, words.id));
        let session = name.and_then(|name| self.sessions.find(name, visit.principal.as_deref()));
        Stop::fault_to(session.map(|session| &*session.conn), 400, id, fault)
    }

    /// What a document is, and whether it may go on.
    fn plan(&mut self, visit: &Visit<'_>, doc: &Doc) -> Result<Plan, Stop> {
        if doc.root().kind() == Kind::Array {
            return match self.core.eras.of_post(visit.head, &Params::default(), None) {
                Posted::InSession => {
                    self.session(visit, None).map(|(conn, streams)| Plan::Call(conn, streams))
                }
                _ => Err(Stop::fault(400, None, &Fault::InvalidRequest("One message at a time".into()))),
            };
        }
        let message = match Message::read(doc.root()) {
            Ok(message) => message,
            Err(shape) if shape.answer => return Err(self.stray(visit, shape.id, &shape_fault(&shape))),
            // In a session it ends the question that it names.
            Err(_) => {
                return match self.core.eras.of_post(visit.head, &Params::default(), None) {
                    Posted::InSession => self.session(visit, None).map(|(conn, _)| Plan::Word(conn)),
                    _ => Err(Stop::new(400)),
                };
            }
        };
        let (method, params, id) = match &message {
            Message::Request(request) => {
                (Some(request.method), Params::read(request.params), Some(request.id))
            }
            Message::Notification(note) => (Some(note.method), Params::read(note.params), None),
            Message::Response(_) => (None, Params::default(), None),
        };
        match (self.core.eras.of_post(visit.head, &params, method), message) {
            (Posted::Alone, Message::Request(request)) => {
                self.check(visit, &request, &params)?;
                Ok(Plan::Alone)
            }
            // Closing the stream is how a client cancels; nothing else is notified (2026-07-28
            // basic/patterns/cancellation).
            (Posted::Alone, Message::Notification(_)) => Err(Stop::new(202)),
            // Not even an error answers an answer.
            (Posted::Alone, Message::Response(_)) => Err(Stop::new(400)),
            (Posted::Opening, Message::Request(_)) if !self.names_session(visit) => Ok(Plan::Opening),
            (_, Message::Request(_)) => {
                let (conn, streams) = self.session(visit, id)?;
                Ok(Plan::Call(conn, streams))
            }
            (_, Message::Notification(_) | Message::Response(_)) => {
                self.session(visit, None).map(|(conn, _)| Plan::Word(conn))
            }
        }
    }

    /// Checks the fields of a request without a session against its body.
    fn check(&self, visit: &Visit<'_>, request: &Request<'_>, params: &Params<'_>) -> Result<(), Stop> {
        let Some(era) = self.core.eras.modern.map(ServerEra::http) else { return Ok(()) };
        if !visit.accepts.events && era.streams(request.method) {
            let fault = Fault::InvalidRequest(Reason::AcceptEvents.words().into());
            return Err(Stop::fault(Reason::AcceptEvents.status(), Some(request.id), &fault));
        }
        let name = params.called(request.method);
        let mirrors = name.and_then(|name| self.reader.registry.tools.find(name));
        era.check(visit.head, request, params)
            .and_then(|()| match mirrors {
                Some(tool) => era.check_arguments(visit.head, &tool.entry.mirrors, params.arguments()),
                None => Ok(()),
            })
            .map_err(|fault| Stop::fault(400, Some(request.id), &fault))
    }

    fn names_session(&self, visit: &Visit<'_>) -> bool {
        self.legacy().is_some_and(|(_, sessions)| Fields::field(visit.head, sessions.id).is_some())
    }

    /// The session that a request names.
    fn session(
        &mut self,
        visit: &Visit<'_>,
        id: Option<Value<'_>>,
    ) -> Result<(Arc<Connection>, Arc<Streams>), Stop> {
        let Some((_, words)) = self.legacy() else { return Err(Stop::method(None)) };
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
        self.reader.whole().turn_to(conn, peer);
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

    /// Handles a message whose answer goes to `reply`.
    fn run(&mut self, doc: Box<Doc>, reply: &Arc<Reply>) -> Option<Box<Doc>> {
        let outlet: Arc<dyn Outlet> = Arc::<Reply>::clone(reply);
        let doc = self.reader.whole().message(doc, &outlet);
        if std::mem::take(&mut self.reader.crowded) {
            self.reader.out.clear();
            reply.refuse();
        } else if !self.reader.out.is_empty() {
            reply.answer_with(self.reader.out.as_bytes(), &[]);
            self.clear_out();
        } else if let Some(job) = self.reader.jobs.pop() {
            self.submit(job, reply);
        }
        doc
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

    fn clear_out(&mut self) {
        if self.reader.out.len() > SPARE_BYTES {
            self.reader.out = Writer::new();
        }
        self.reader.out.clear();
    }

    /// Handles several messages, whose answers leave together.
    fn batch(&mut self, doc: &Doc, reply: &Arc<Reply>) {
        let outlet: Arc<dyn Outlet> = Arc::<Reply>::clone(reply);
        let answers = self.reader.whole().array(doc.root(), &outlet);
        if !self.reader.out.is_empty() {
            reply.answer_with(self.reader.out.as_bytes(), &[]);
            self.clear_out();
        }
        for job in std::mem::take(&mut self.reader.jobs) {
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
    fn open(&mut self, visit: &Visit<'_>, doc: Box<Doc>, exchange: Exchange) -> Option<Box<Doc>> {
        let now = Instant::now();
        if !self.sessions.make_room(now) {
            Stop::busy().say(&exchange);
            return Some(doc);
        }
        let streams = Arc::new(Streams::new(&self.budget));
        let outlet: Arc<dyn Outlet> = Arc::<Streams>::clone(&streams);
        let conn = Arc::new(Connection::new(Arc::clone(&self.core), outlet));
        let reply = self.reply(visit, &doc, exchange, self.core.eras.legacy, Some(Arc::clone(&streams)));
        self.reader.whole().turn_to(&conn, None);
        let outlet: Arc<dyn Outlet> = Arc::<Reply>::clone(&reply);
        let doc = self.reader.whole().message(doc, &outlet);
        let revision = conn.session().as_ref().map(|session| session.peer.revision);
        let words = self.legacy().map(|(_, words)| words);
        match (revision, words) {
            (Some(revision), Some(words)) => {
                if (words.resumes)(revision) {
                    streams.set_resumes();
                }
                self.core.catalog.connect(&conn);
                let principal = visit.principal.clone();
                match self.sessions.add(Session { conn, streams, principal, used: now }) {
                    Ok(id) => reply.answer_with(self.reader.out.as_bytes(), &[(words.id, &id)]),
                    Err(_) => reply.refuse(),
                }
                self.remote.iter().for_each(Remote::wake);
            }
            _ => reply.answer_with(self.reader.out.as_bytes(), &[]),
        }
        let shared = Arc::clone(&self.shared);
        self.reader.whole().turn_to(&shared, None);
        self.clear_out();
        doc
    }

    /// A client of a session comes to listen, or for what it missed.
    fn get(&mut self, visit: &Visit<'_>, exchange: Exchange) -> Result<(), (Stop, Exchange)> {
        let found = self.session(visit, None).and_then(|(_, streams)| {
            let last = self.legacy().and_then(|(_, words)| Fields::field(visit.head, words.last_event));
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
                let words = self.legacy().map(|(_, words)| words.id);
                let name = words.and_then(|name| Fields::field(visit.head, name)).unwrap_or_default();
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
        match self.admit(head) {
            Ok(()) => Admission::Read,
            Err(stop) => {
                if let Some(reason) = stop.reason {
                    self.report(reason, head);
                }
                Admission::Refuse(stop.with_all(self.along(head)).into())
            }
        }
    }

    fn unread(&mut self, status: u16) -> Refusal {
        refusal::unread(status, self.core.limits.frame_bytes)
    }

    fn request(&mut self, head: &Head<'_>, body: &[u8], mut exchange: Exchange) {
        exchange.say_along(self.along(head));
        match self.visit(head) {
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

/// Whether a body is said to be JSON, whatever parameters stand behind.
fn is_json(field: Option<&[u8]>) -> bool {
    let kind = field.and_then(|field| field.split(|byte| *byte == b';').next()).unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}
