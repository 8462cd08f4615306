//! Opening of sessions.
//!
//! The request is checked first, then there must be room, and then the session may get a server of
//! its own. So a request that opens no session ends no other one and starts nothing.

use std::sync::Arc;
use std::time::Instant;

use crate::era::Encoded;
use crate::json::Doc;
use crate::server::connection::Connection;
use crate::server::dispatch::Effect;
use crate::server::dispatch::classify::Classified;
use crate::server::http::event_streams::EventStreams;
use crate::server::http::request_checks::RequestInfo;
use crate::server::http::response::PostResponse;
use crate::server::http::session::HttpSession;
use crate::server::serve::state::Core;
use crate::transport::ReplySink;
use crate::transport::http_server::Responder;

use super::{Endpoint, session_name};

/// A request that opens a session.
struct Opening<'a> {
    info: &'a RequestInfo<'a>,
    doc: &'a Doc,
    message: &'a Classified<'a>,
    number: u64,
    streams: &'a Arc<EventStreams>,
    reply: &'a Arc<PostResponse>,
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
        let streams = Arc::new(EventStreams::new(&self.budget));
        let number = responder.id();
        let reply = self.reply(info, doc, responder, self.core.eras.legacy, Some(Arc::clone(&streams)));
        let opening = Opening { info, doc, message, number, streams: &streams, reply: &reply };
        let (connection, encoded) = self.initialize(&Arc::clone(&self.core), &opening);
        let revision = connection.session().as_ref().map(|session| session.peer.revision);
        match (revision, self.checks.sessions) {
            (Some(revision), Some(words)) => {
                if (words.resumes)(revision) {
                    streams.set_resumes();
                }
                self.add_session(&opening, connection, encoded, words.id);
                self.loop_handle.wake();
            }
            _ => self.answer(&reply, encoded, &[]),
        }
        self.dispatcher.as_dyn().set_connection(&self.shared, None);
        self.dispatcher.out.clear();
    }

    /// Handles the first request of a session, whose response is written to the buffer.
    fn initialize(&mut self, core: &Arc<Core>, opening: &Opening<'_>) -> (Arc<Connection>, Encoded) {
        let sink: Arc<dyn ReplySink> = Arc::<EventStreams>::clone(opening.streams);
        let sink = match self.tap(&session_name(opening.number), opening.info) {
            Some(tap) => tap.sink(sink),
            None => sink,
        };
        let connection = Arc::new(Connection::new(Arc::clone(core), sink));
        let sink: Arc<dyn ReplySink> = Arc::<PostResponse>::clone(opening.reply);
        self.dispatcher.out.clear();
        let dispatcher = self.dispatcher.as_dyn();
        dispatcher.set_connection(&connection, None);
        match dispatcher.dispatch(opening.doc, opening.message, &sink) {
            Effect::Reply(encoded) => (connection, encoded),
            _ => (connection, Encoded::RESULT),
        }
    }

    /// Adds a session whose first request is valid. Only now another session may have to end for
    /// it, and a server of its own is created.
    fn add_session(
        &mut self,
        opening: &Opening<'_>,
        mut connection: Arc<Connection>,
        mut encoded: Encoded,
        name: &'static str,
    ) {
        let (now, reply) = (Instant::now(), opening.reply);
        if !self.has_room_for_own() || !self.sessions.make_room(now) {
            return reply.refuse();
        }
        let Some((core, server)) = self.session_core() else { return reply.refuse() };
        let has_own = server.is_some();
        if has_own {
            (connection, encoded) = self.initialize(&core, opening);
        }
        core.shared.connect(&connection);
        let session = HttpSession {
            connection,
            endpoint: Arc::clone(&self.shared),
            _server: server,
            streams: Arc::clone(opening.streams),
            principal: opening.info.principal.clone(),
            used: now,
            number: opening.number,
        };
        match (self.sessions.add(session), core.shared.delegate().filter(|_| has_own)) {
            (Ok(id), Some(delegate)) => {
                let (frame, reply) = (self.dispatcher.out.as_bytes().to_vec(), Arc::clone(reply));
                delegate.greet(Box::new(move |_| reply.answer_with(&frame, encoded, &[(name, &id)])));
            }
            (Ok(id), None) => self.answer(reply, encoded, &[(name, &id)]),
            (Err(_), _) => reply.refuse(),
        }
    }
}
