//! Table of open sessions. Their number is bounded, and idle sessions expire.
//!
//! Only the thread of the event loop uses the table. A session has no thread and no socket.
//!
//! # Invariants
//! - An id is 128 random bits. A search compares it with all ids in constant time, so that its
//!   duration reveals nothing.
//! - A session is found only by the principal that opened it (best practices, session hijacking),
//!   and only at its own endpoint.
//! - A session with a call or an event stream is not idle. It is evicted only if the table is full
//!   and only requests to a disconnected client are open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::server::connection::Connection;

use super::event_streams::EventStreams;
use super::session_servers::SessionServer;

/// One session.
pub(super) struct HttpSession {
    pub(super) connection: Arc<Connection>,
    /// Connection of its endpoint's requests without a session, which identifies the endpoint.
    pub(super) endpoint: Arc<Connection>,
    /// Ends the server of the session when this is dropped, if it has one of its own.
    pub(super) _server: Option<SessionServer>,
    pub(super) streams: Arc<EventStreams>,
    pub(super) principal: Option<Arc<str>>,
    pub(super) used: Instant,
    /// Number of the exchange that opened it.
    pub(super) number: u64,
}

impl HttpSession {
    fn idle(&self) -> bool {
        !self.connection.busy() && !self.streams.busy()
    }

    /// Returns whether only requests to the client are open and the client is disconnected.
    fn only_unread_requests(&self) -> bool {
        self.connection.all_parked() && !self.streams.has_reader()
    }

    /// Ends its calls and streams.
    pub(super) fn end(&self) {
        self.connection.fail_all_calls("The session has ended");
        self.streams.end();
    }
}

/// Table of open sessions.
pub(super) struct SessionTable {
    /// Ids of `sessions`, in the same order.
    ids: Vec<u128>,
    sessions: Vec<HttpSession>,
    max: usize,
    timeout: Duration,
}

impl SessionTable {
    pub(super) fn new(max: usize, timeout: Duration) -> SessionTable {
        SessionTable { ids: Vec::new(), sessions: Vec::new(), max, timeout }
    }

    /// Returns the session with this id if it belongs to this endpoint and principal.
    pub(super) fn find(
        &mut self,
        id: &[u8],
        endpoint: &Arc<Connection>,
        principal: Option<&str>,
    ) -> Option<&mut HttpSession> {
        let at = self.position(read_id(id)?)?;
        let is_own = |session: &&mut HttpSession| {
            Arc::ptr_eq(&session.endpoint, endpoint) && session.principal.as_deref() == principal
        };
        self.sessions.get_mut(at).filter(is_own)
    }

    fn position(&self, id: u128) -> Option<usize> {
        let mut found = None;
        for (at, known) in self.ids.iter().enumerate() {
            if *known == id {
                found = Some(at);
            }
        }
        found
    }

    /// Makes room for a session. Evicts the one that has been idle for longest, or else the one
    /// whose client has been disconnected for longest. Returns `false` if all are in use.
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
        if self.sessions.len() < self.max {
            return true;
        }
        self.expire(now);
        if self.sessions.len() < self.max {
            return true;
        }
        match self
            .longest_unused(HttpSession::idle)
            .or_else(|| self.longest_unused(HttpSession::only_unread_requests))
        {
            Some(at) => {
                self.take(at).end();
                true
            }
            None => false,
        }
    }

    fn longest_unused(&self, which: fn(&HttpSession) -> bool) -> Option<usize> {
        let sessions = self.sessions.iter().enumerate().filter(|(_, session)| which(session));
        sessions.min_by_key(|(_, session)| session.used).map(|(at, _)| at)
    }

    /// Adds a session and returns its id.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub(super) fn add(&mut self, session: HttpSession) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        let id = u128::from_ne_bytes(bytes);
        self.ids.push(id);
        self.sessions.push(session);
        Ok(format!("{id:032x}"))
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, id: &[u8]) -> Option<HttpSession> {
        let at = self.position(read_id(id)?)?;
        Some(self.take(at))
    }

    fn take(&mut self, at: usize) -> HttpSession {
        self.ids.swap_remove(at);
        self.sessions.swap_remove(at)
    }

    /// Ends the sessions whose idle time has passed the timeout.
    pub(super) fn expire(&mut self, now: Instant) {
        let mut at = 0;
        while let Some(session) = self.sessions.get_mut(at) {
            let idle = session.idle();
            if !idle && !session.only_unread_requests() {
                session.used = now;
            }
            if idle && now.saturating_duration_since(session.used) > self.timeout {
                self.take(at).end();
            } else {
                at += 1;
            }
        }
    }

    /// Ends these sessions.
    pub(super) fn end_where(&mut self, is_over: impl Fn(&HttpSession) -> bool) {
        while let Some(at) = self.sessions.iter().position(&is_over) {
            self.take(at).end();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HttpSession> {
        self.sessions.iter()
    }
}

/// Parses an id. Accepts lower-case digits only, the form in which ids are sent.
fn read_id(id: &[u8]) -> Option<u128> {
    let id: &[u8; 32] = id.try_into().ok()?;
    id.iter().try_fold(0, |id, digit| match digit {
        b'0'..=b'9' => Some(id << 4 | u128::from(digit - b'0')),
        b'a'..=b'f' => Some(id << 4 | u128::from(digit - b'a' + 10)),
        _ => None,
    })
}
