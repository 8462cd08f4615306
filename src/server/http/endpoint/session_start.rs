//! Opening of sessions.
//!
//! The request is checked first, then there must be room, and then the session may get a server of
//! its own. So a request that opens no session neither ends another one nor starts a server.

use std::sync::Arc;
use std::time::Instant;

use crate::era::Encoded;
use crate::json::{Doc, Value};
use crate::server::connection::Connection;
use crate::server::dispatch::Effect;
use crate::server::dispatch::classify::Classified;
use crate::server::http::event_streams::EventStreams;
use crate::server::http::request_checks::RequestInfo;
use crate::server::http::response::PostResponse;
use crate::server::http::session::HttpSession;
use crate::server::http::session_name;
use crate::server::serve::state::Core;
use crate::transport::ReplySink;
use crate::transport::http_server::Responder;

use super::Endpoint;

/// A request that opens a session.
struct SessionRequest<'a> {
    info: &'a RequestInfo<'a>,
    doc: &'a Doc,
    message: &'a Classified<'a>,
    number: u64,
    streams: &'a Arc<EventStreams>,
    reply: &'a Arc<PostResponse>,
}

impl SessionRequest<'_> {
    /// Returns the id of the request.
    fn id(&self) -> Value<'_> {
        self.doc.root().get("id").unwrap_or_else(|| self.doc.root())
    }
}

impl Endpoint {
    /// Opens a session if the request is valid.
    pub(super) fn open(
        &mut self,
        info: &RequestInfo<'_>,
        doc: &Doc,
        message: &Classified<'_>,
        responder: Responder,
    ) {
        let number = responder.id();
        let streams = Arc::new(EventStreams::new(number, &self.budget));
        let reply = self.reply(info, doc, responder, self.core.eras.legacy, Some(Arc::clone(&streams)));
        let request = SessionRequest { info, doc, message, number, streams: &streams, reply: &reply };
        let (connection, encoded) = self.initialize(&Arc::clone(&self.core), &request);
        let revision = connection.session().as_ref().map(|session| session.peer.revision);
        match (revision, self.checks.sessions) {
            (Some(revision), Some(rules)) => {
                if (rules.resumes)(revision) {
                    streams.set_resumes();
                }
                self.add_session(&request, connection, encoded, rules.id);
                self.engine.wake();
            }
            _ => self.send_response(&reply, encoded, &[]),
        }
        self.dispatcher.as_dyn().set_connection(&self.shared, None);
        self.dispatcher.out.clear();
    }

    /// Handles the first request of a session. Writes its response to the dispatcher's buffer.
    fn initialize(&mut self, core: &Arc<Core>, request: &SessionRequest<'_>) -> (Arc<Connection>, Encoded) {
        let sink: Arc<dyn ReplySink> = Arc::<EventStreams>::clone(request.streams);
        let sink = match self.tap(&session_name(request.number), request.info) {
            Some(tap) => tap.sink(sink),
            None => sink,
        };
        let connection = Arc::new(Connection::new(Arc::clone(core), sink));
        let sink: Arc<dyn ReplySink> = Arc::<PostResponse>::clone(request.reply);
        self.dispatcher.out.clear();
        let dispatcher = self.dispatcher.as_dyn();
        dispatcher.set_connection(&connection, None);
        match dispatcher.dispatch(request.doc, request.message, &sink) {
            Effect::Reply(encoded) => (connection, encoded),
            _ => (connection, Encoded::RESULT),
        }
    }

    /// Adds a session whose first request is valid. Another session may be ended to make room, and
    /// the session's own server is created, only here.
    fn add_session(
        &mut self,
        request: &SessionRequest<'_>,
        mut connection: Arc<Connection>,
        mut encoded: Encoded,
        name: &'static str,
    ) {
        let (now, reply) = (Instant::now(), request.reply);
        if !self.has_room_for_own() || !self.sessions.make_room(now) {
            return self.refuse(reply, request.id());
        }
        let Some((core, server)) = self.session_core() else {
            return self.refuse(reply, request.id());
        };
        let has_own = server.is_some();
        if has_own {
            (connection, encoded) = self.initialize(&core, request);
        }
        core.shared.connect(&connection);
        let session = HttpSession {
            connection,
            endpoint: Arc::clone(&self.shared),
            _server: server,
            streams: Arc::clone(request.streams),
            principal: request.info.caller().cloned(),
            used: now,
            number: request.number,
        };
        match (self.sessions.add(session), core.shared.delegate().filter(|_| has_own)) {
            (Ok(id), Some(delegate)) => {
                let (frame, reply) = (self.dispatcher.out.as_bytes().to_vec(), Arc::clone(reply));
                delegate.instructions(Box::new(move |_| reply.respond_with(&frame, encoded, &[(name, &id)])));
            }
            (Ok(id), None) => self.send_response(reply, encoded, &[(name, &id)]),
            (Err(_), _) => self.refuse(reply, request.id()),
        }
    }
}
