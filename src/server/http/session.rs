//! The sessions that are open: found by id, bounded in number, ended when nobody needs them.
//!
//! Only the thread of the engine has this table. A session is its connection, its streams and a
//! time; it has no thread and no socket of its own.
//!
//! # Invariants
//! - An id is 128 random bits and says nothing about its session; it is looked for by comparing all
//!   of them whole, so that the time taken tells nothing about any.
//! - A session is found only by the principal that opened it (best practices, session hijacking).
//! - A session with a call or an event stream is not idle: it ends only when others need the room
//!   and nothing of it is left but a question that nobody hears.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::server::connection::Connection;

use super::event_streams::EventStreams;

/// One session.
pub(super) struct Session {
    pub(super) connection: Arc<Connection>,
    pub(super) streams: Arc<EventStreams>,
    pub(super) principal: Option<Arc<str>>,
    pub(super) used: Instant,
}

impl Session {
    fn idle(&self) -> bool {
        !self.connection.busy() && !self.streams.busy()
    }

    /// Whether all that is left of it are questions whose client has gone away. It may come back
    /// with the answers; so may others who are there now.
    fn only_unread_requests(&self) -> bool {
        self.connection.only_asks() && !self.streams.has_reader()
    }

    /// Ends everything that belongs to it.
    pub(super) fn end(&self) {
        self.connection.give_all_up("The session has ended");
        self.streams.end();
    }
}

/// All of them.
pub(super) struct SessionTable {
    /// Beside `sessions`, in the same order.
    ids: Vec<u128>,
    sessions: Vec<Session>,
    most: usize,
    timeout: Duration,
}

impl SessionTable {
    pub(super) fn new(most: usize, timeout: Duration) -> SessionTable {
        SessionTable { ids: Vec::new(), sessions: Vec::new(), most, timeout }
    }

    /// The session with this id, if it is this principal's.
    pub(super) fn find(&mut self, id: &[u8], principal: Option<&str>) -> Option<&mut Session> {
        let at = self.position(read_id(id)?)?;
        self.sessions.get_mut(at).filter(|session| session.principal.as_deref() == principal)
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

    /// Makes room for one more, at the cost of the session that has been idle for longest, or else
    /// was left alone with a question for longest. False: all are in use.
    pub(super) fn make_room(&mut self, now: Instant) -> bool {
        if self.sessions.len() < self.most {
            return true;
        }
        self.expire(now);
        if self.sessions.len() < self.most {
            return true;
        }
        match self
            .longest_unused(Session::idle)
            .or_else(|| self.longest_unused(Session::only_unread_requests))
        {
            Some(at) => {
                self.take(at).end();
                true
            }
            None => false,
        }
    }

    fn longest_unused(&self, which: fn(&Session) -> bool) -> Option<usize> {
        let sessions = self.sessions.iter().enumerate().filter(|(_, session)| which(session));
        sessions.min_by_key(|(_, session)| session.used).map(|(at, _)| at)
    }

    /// Adds a session under a new id, which it gives.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn add(&mut self, session: Session) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        let id = u128::from_ne_bytes(bytes);
        self.ids.push(id);
        self.sessions.push(session);
        Ok(format!("{id:032x}"))
    }

    /// Takes a session out.
    pub(super) fn remove(&mut self, id: &[u8]) -> Option<Session> {
        let at = self.position(read_id(id)?)?;
        Some(self.take(at))
    }

    fn take(&mut self, at: usize) -> Session {
        self.ids.swap_remove(at);
        self.sessions.swap_remove(at)
    }

    /// Ends the sessions that have been idle for too long.
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

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter()
    }
}

/// An id in the one way in which it is written.
fn read_id(id: &[u8]) -> Option<u128> {
    let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let text = std::str::from_utf8(id).ok().filter(|t| t.len() == 32 && t.as_bytes().iter().all(hex))?;
    u128::from_str_radix(text, 16).ok()
}
