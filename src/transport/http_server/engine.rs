//! The loop: one thread waits for every listener and every connection.
//!
//! A turn waits until something is ready, does it connection by connection, and looks after what
//! other threads called for and what time has ended. When there is no room for a connection, the
//! one that would be missed least goes; see [`Worth`]. What it does not do:
//! know what a request says.
//!
//! # Invariants
//! - `sweep_at` is never later than the earliest deadline of a connection.
//! - A slot is not filled again in the turn it was emptied in before everything that was ready has
//!   been looked at, so no connection is taken for the one before it.
//! - `kept` is the sum of what the inboxes keep.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};

use super::Service;
use super::conn::{Conn, Fate, Room, Worth};
use super::inbox::Bounds;
use super::listen::{Listener, Socket};
use super::wire::{Remote, Shared, Wire};
use crate::error::Error;
use crate::limits::Limits;

/// Connections beyond the limit that may be there to be told 503.
const TURNED_AWAY: usize = 16;
/// Files the rest of the process has for itself.
const OTHER_FILES: u64 = 64;
/// Connections taken from one listener in one turn.
const ACCEPTS: usize = 64;
/// What is looked at in one turn.
const READY: usize = 256;
/// The least time between two looks at all deadlines, and to the next try when the system could
/// not give a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// A peer that has read nothing for so long has to go when too much waits.
const HELD_UP: Duration = Duration::from_secs(1);
/// The waker; the listeners come behind it, then the connections.
const WAKER: usize = 0;
/// The low bits of a token say which slot, as many as 65,536 connections, those beyond them and the
/// listeners need. The high ones tell a connection from those that had its slot before: a process
/// that is just being forked keeps a closed socket open, and the system goes on to tell of it.
const SLOT_BITS: u32 = 18;

/// Holds listeners and connections, and serves them while [`turn`](Engine::turn) is called.
pub(crate) struct Engine<S: Service> {
    service: S,
    poll: Poll,
    events: Events,
    /// What is ready, while it is being looked at; kept for its memory.
    ready: Vec<Ready>,
    listeners: Vec<Listener>,
    /// Token of the first connection.
    first: usize,
    slots: Vec<Option<Conn>>,
    /// The high bits of the next connection's token.
    turn: usize,
    free: Vec<usize>,
    /// Slots with more to do.
    again: Vec<usize>,
    calls: Vec<usize>,
    /// The waker was used.
    called: bool,
    shared: Arc<Shared>,
    bounds: Bounds,
    most: usize,
    space: Vec<u8>,
    serial: u64,
    kept: usize,
    sweep_at: Option<Instant>,
    tick_at: Option<Instant>,
    /// When listeners are looked at although none said anything.
    accept_at: Option<Instant>,
    stop: Option<Instant>,
    over: bool,
}

#[derive(Clone, Copy)]
struct Ready {
    token: usize,
    readable: bool,
    ended: bool,
    broken: bool,
}

impl From<&Event> for Ready {
    fn from(event: &Event) -> Ready {
        Ready {
            token: event.token().0,
            readable: event.is_readable(),
            ended: event.is_read_closed(),
            broken: event.is_error() || event.is_write_closed(),
        }
    }
}

impl<S: Service> Engine<S> {
    /// # Errors
    /// The system has no file descriptors left.
    pub(crate) fn new(mut listeners: Vec<Listener>, service: S, limits: &Limits) -> Result<Engine<S>, Error> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), Token(WAKER))?;
        for (n, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener.source(), Token(WAKER + 1 + n), Interest::READABLE)?;
        }
        let http = &limits.http;
        let most = most_connections(http.connections);
        let now = Instant::now();
        Ok(Engine {
            service,
            poll,
            events: Events::with_capacity(READY),
            ready: Vec::new(),
            first: WAKER + 1 + listeners.len(),
            listeners,
            slots: Vec::new(),
            turn: 0,
            free: Vec::new(),
            again: Vec::new(),
            calls: Vec::new(),
            called: false,
            bounds: Bounds {
                head_bytes: http.head_bytes,
                head_fields: http.head_fields,
                body_bytes: limits.frame_bytes,
            },
            most,
            shared: Arc::new(Shared::new(limits, most / 2, waker)),
            space: Vec::new(),
            serial: 0,
            kept: 0,
            sweep_at: None,
            tick_at: Some(now),
            accept_at: None,
            stop: None,
            over: false,
        })
    }

    /// A handle for other threads.
    pub(crate) fn remote(&self) -> Remote {
        Remote(Arc::clone(&self.shared))
    }

    /// What is served.
    pub(crate) fn service(&mut self) -> &mut S {
        &mut self.service
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// Waiting failed; every connection has been cut.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        while !self.over {
            self.turn()?;
        }
        Ok(())
    }

    /// Waits until something is ready and does it.
    fn turn(&mut self) -> Result<(), Error> {
        let timeout = self.timeout();
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.end();
                return Err(error.into());
            }
            _ => {}
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        ready.extend(self.events.iter().map(Ready::from));
        self.work(&ready);
        self.ready = ready;
        Ok(())
    }

    /// Does what is ready, and whatever the time has come for.
    fn work(&mut self, ready: &[Ready]) {
        let now = Instant::now();
        for ready in ready {
            if ready.token == WAKER {
                self.called = true;
            } else if ready.token < self.first {
                self.accept_at = Some(now);
            } else {
                let slot = (ready.token & ((1 << SLOT_BITS) - 1)) - self.first;
                self.look(slot, now, |conn, room| match conn.token.0 == ready.token {
                    true => conn.ready(ready.readable, ready.ended, ready.broken, room),
                    false => Fate::Keep,
                });
            }
        }
        if self.called || !self.again.is_empty() {
            self.more(now);
        }
        self.keep_time(now);
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept_at = None;
            for n in 0..self.listeners.len() {
                self.accept(n, now);
            }
        }
        if self.stop.is_some() && self.slots.len() == self.free.len() {
            self.end();
        }
    }

    /// How long to wait.
    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            return Some(Duration::ZERO);
        }
        let times = [self.sweep_at, self.tick_at, self.accept_at, self.stop];
        let next = times.into_iter().flatten().min()?;
        let left = next.saturating_duration_since(Instant::now());
        // Rounded up by the system to milliseconds; a look too early would only be repeated.
        Some(left)
    }

    /// Looks after those that called, and those that had more to do.
    fn more(&mut self, now: Instant) {
        let mut again = std::mem::take(&mut self.again);
        let mut calls = std::mem::take(&mut self.calls);
        self.called = false;
        let orders = self.shared.take(&mut calls);
        // A connection is looked at whole, so it does not matter why, nor that it may be another.
        for slot in again.drain(..).chain(calls.drain(..)) {
            self.look(slot, now, Conn::go_on);
        }
        self.calls = calls;
        if self.again.is_empty() {
            self.again = again;
        }
        if orders.tick {
            self.tick_at = Some(now);
        }
        if let Some(deadline) = orders.stop {
            self.begin_to_stop(deadline, now);
        }
        self.relieve_the_unsent(now);
    }

    /// Has one connection do something.
    fn look(&mut self, slot: usize, now: Instant, run: impl FnOnce(&mut Conn, &mut Room<'_>) -> Fate) {
        let Some(conn) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return };
        let mut room = Room {
            service: &mut self.service,
            shared: &self.shared,
            registry: self.poll.registry(),
            bounds: self.bounds,
            space: &mut self.space,
            serial: &mut self.serial,
            now,
            stopping: self.stop.is_some(),
        };
        let before = conn.inbox.kept();
        let fate = run(conn, &mut room);
        let after = conn.inbox.kept();
        self.kept = self.kept + after - before;
        match fate {
            Fate::Close => self.close(slot),
            Fate::Keep | Fate::Again => {
                if fate == Fate::Again {
                    self.again.push(slot);
                }
                self.sweep_at = Some(self.sweep_at.map_or(conn.deadline, |at| at.min(conn.deadline)));
                if after > before && self.kept > self.shared.limits.arriving_bytes {
                    self.relieve(slot, now);
                }
            }
        }
    }

    /// Too much is arriving at once: those that have been at it for longest go; if nobody else is
    /// there, a request may be as long as it likes up to its own limit.
    fn relieve(&mut self, grown: usize, now: Instant) {
        while self.kept > self.shared.limits.arriving_bytes {
            let others = self.slots.iter().enumerate().filter(|(slot, _)| *slot != grown);
            let oldest = others.filter_map(|(slot, conn)| Some((conn.as_ref()?.arriving()?, slot))).min();
            let Some((_, slot)) = oldest else { return };
            self.look(slot, now, Conn::turn_away);
        }
    }

    /// Too much waits to be read: those that have read nothing for longest go.
    fn relieve_the_unsent(&mut self, now: Instant) {
        while self.shared.is_crowded() {
            let stuck = self.slots.iter().enumerate();
            let longest = stuck.filter_map(|(slot, conn)| Some((conn.as_ref()?.stuck()?, slot))).min();
            let Some((since, slot)) = longest else { return };
            if since + HELD_UP > now {
                let look = since + HELD_UP;
                self.sweep_at = Some(self.sweep_at.map_or(look, |at| at.min(look)));
                return;
            }
            self.close(slot);
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(conn) = self.slots.get_mut(slot).and_then(Option::take) {
            self.free.push(slot);
            self.kept -= conn.inbox.kept();
            if let Some(exchange) = conn.wire.give_up() {
                self.service.gone(exchange);
            }
        }
    }

    /// Looks at deadlines, and lets the service do the same.
    fn keep_time(&mut self, now: Instant) {
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep_at = None;
            let mut next = None;
            for slot in 0..self.slots.len() {
                let deadline = |slots: &[Option<Conn>]| slots[slot].as_ref().map(|c| c.deadline);
                if deadline(&self.slots).is_some_and(|at| at <= now) {
                    self.look(slot, now, Conn::expire);
                }
                next = next.into_iter().chain(deadline(&self.slots)).min();
            }
            self.sweep_at = next.map(|at| at.max(now + PAUSE));
            self.relieve_the_unsent(now);
        }
        if self.tick_at.is_some_and(|at| at <= now) {
            self.tick_at = self.service.tick(now);
        }
        if self.stop.is_some_and(|at| at <= now) {
            self.end();
        }
    }

    fn accept(&mut self, listener: usize, now: Instant) {
        for _ in 0..ACCEPTS {
            let Some(accepted) = self.listeners.get(listener).map(Listener::accept) else { return };
            match accepted {
                Ok(socket) => self.take_in(socket, now),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::NotConnected => {}
                    // No descriptor or no memory left.
                    _ => {
                        if !self.close_the_least_missed() {
                            self.accept_at = Some(now + PAUSE);
                            return;
                        }
                    }
                },
            }
        }
        self.accept_at = Some(now);
    }

    fn take_in(&mut self, mut socket: Socket, now: Instant) {
        let admitted = self.slots.len() - self.free.len() < self.most || self.make_room();
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        self.turn = self.turn.wrapping_add(1);
        let token = Token(self.turn << SLOT_BITS | (self.first + slot));
        if self.poll.registry().register(socket.source(), token, Interest::READABLE).is_err() {
            return;
        }
        let wire = Arc::new(Wire::new(&self.shared, slot, socket, now));
        let conn = Conn::new(wire, token, now, self.shared.limits.idle_timeout);
        match self.free.pop() {
            Some(slot) => self.slots[slot] = Some(conn),
            None => self.slots.push(Some(conn)),
        }
        self.look(slot, now, |conn, room| if admitted { Fate::Keep } else { conn.turn_away(room) });
    }

    /// Makes room for a connection. False if an exchange is open on every other: then there is only
    /// room to tell the peer so.
    fn make_room(&mut self) -> bool {
        let (mut refused, mut oldest, mut idlest) = (0, None, None);
        for (slot, conn) in self.slots.iter().enumerate() {
            let entry = conn.as_ref().and_then(Conn::worth).map(|worth| (worth, slot));
            match entry {
                Some((Worth::Refused(_), _)) => {
                    refused += 1;
                    oldest = oldest.into_iter().chain(entry).min();
                }
                Some(_) => idlest = idlest.into_iter().chain(entry).min(),
                None => {}
            }
        }
        let full = self.slots.len() - self.free.len() - refused >= self.most;
        let goes = match idlest {
            Some(idlest) if full => Some(idlest),
            _ => oldest.filter(|_| refused >= TURNED_AWAY),
        };
        if let Some((_, slot)) = goes {
            self.close(slot);
        }
        !full || idlest.is_some()
    }

    /// Gives a file descriptor back. False if an exchange is open on every connection.
    fn close_the_least_missed(&mut self) -> bool {
        let all = self.slots.iter().enumerate();
        let least = all.filter_map(|(slot, conn)| Some((conn.as_ref()?.worth()?, slot))).min();
        least.is_some_and(|(_, slot)| {
            self.close(slot);
            true
        })
    }

    /// Takes nothing in any more. Those without an exchange go at once, the others behind it.
    fn begin_to_stop(&mut self, deadline: Instant, now: Instant) {
        let first = self.stop.is_none();
        self.stop = Some(self.stop.map_or(deadline, |at| at.min(deadline)));
        if !first {
            return;
        }
        self.listeners.clear();
        self.accept_at = None;
        for slot in 0..self.slots.len() {
            let Some(conn) = &self.slots[slot] else { continue };
            let mut state = conn.wire.state();
            state.manner.keep = false;
            let idle = state.exchange == 0 && state.waits() == 0;
            drop(state);
            if idle {
                self.close(slot);
            } else {
                self.look(slot, now, Conn::go_on);
            }
        }
        self.service.stop();
    }

    /// Cuts every connection.
    fn end(&mut self) {
        self.over = true;
        self.listeners.clear();
        for slot in 0..self.slots.len() {
            self.close(slot);
        }
    }
}

impl<S: Service> Drop for Engine<S> {
    fn drop(&mut self) {
        self.end();
    }
}

/// As many as the limit says and the process may have files open.
fn most_connections(limit: usize) -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit};
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let room = usize::try_from(files.saturating_sub(OTHER_FILES).max(8)).unwrap_or(usize::MAX);
        limit.clamp(1, room)
    }
    #[cfg(not(unix))]
    limit.max(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::net::TcpStream;

    use super::super::{Admission, Exchange, Head, Refusal};
    use super::*;

    /// Answers nothing.
    #[derive(Default)]
    struct Silent {
        asked: Vec<Exchange>,
        gone: usize,
    }

    impl Service for Silent {
        fn head(&mut self, _: &Head<'_>) -> Admission {
            Admission::Read
        }

        fn request(&mut self, _: &Head<'_>, _: &[u8], exchange: Exchange) {
            self.asked.push(exchange);
        }

        fn unread(&mut self, status: u16) -> Refusal {
            Refusal { status, fields: Vec::new(), body: Vec::new() }
        }

        fn gone(&mut self, _: u64) {
            self.gone += 1;
        }

        fn tick(&mut self, _: Instant) -> Option<Instant> {
            None
        }

        fn stop(&mut self) {}
    }

    #[test]
    fn news_of_a_closed_connection_is_not_that_of_the_one_in_its_place() {
        let listeners = Listener::bind("127.0.0.1:0").unwrap();
        let address = listeners[0].address().to_owned();
        let mut engine = Engine::new(listeners, Silent::default(), &Limits::default()).unwrap();
        let closed = TcpStream::connect(&address).unwrap();
        while engine.slots.is_empty() {
            engine.turn().unwrap();
        }
        let token = engine.slots[0].as_ref().unwrap().token.0;
        drop(closed);
        while engine.free.is_empty() {
            engine.turn().unwrap();
        }
        let mut open = TcpStream::connect(&address).unwrap();
        open.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        while engine.service.asked.is_empty() {
            engine.turn().unwrap();
        }
        engine.work(&[Ready { token, readable: true, ended: true, broken: false }]);
        assert_eq!(engine.service.gone, 0);
        drop(open);
        while engine.service.gone == 0 {
            engine.turn().unwrap();
        }
    }
}
