//! One connection as the engine's thread sees it: what is next, and until when.
//!
//! [`Conn::go_on`] does whatever can be done without waiting: flush, notice that the exchange is
//! over or the peer gone, read the next request. [`Conn::expire`] is for when the time is over.
//! Neither closes the connection; they tell the engine to.
//!
//! # Invariants
//! - While an exchange is open or its answer has not left, nothing is read.
//! - Outside of these functions, a connection that has nothing to do waits for readiness, for a
//!   call of its wire, or for its deadline.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Interest, Registry, Token};

use super::answer::{Persistence, write_answer};
use super::exchange::Exchange;
use super::head::{Head, Plan, Refused};
use super::inbox::{Bounds, Desk, Inbox, Step};
use super::wire::{Manner, Phase, Sent, Shared, State, Wire};
use super::{Admission, Refusal, Service};

/// What is read at once, and what a connection can have read ahead of its turn.
const READ: usize = 16 << 10;
/// Requests of one connection in one turn, and reads of a body; then others have theirs.
const ROUNDS: usize = 8;
/// Bytes of a refused request that are read and dropped; then the connection is closed. Most
/// clients read the answer only after they have sent their whole body, and lose it if the
/// connection is reset before.
const DROPPED: usize = 64 << 20;
/// A comment of the event stream format, in a chunk of its own.
const COMMENT: &[u8] = b"3\r\n:\n\n\r\n";
const COMMENT_10: &[u8] = b":\n\n";

/// What all connections use in turn.
pub(super) struct Room<'s> {
    pub service: &'s mut dyn Service,
    pub shared: &'s Arc<Shared>,
    pub registry: &'s Registry,
    pub bounds: Bounds,
    pub space: &'s mut Vec<u8>,
    /// The number of the last exchange.
    pub serial: &'s mut u64,
    pub now: Instant,
    pub stopping: bool,
}

/// What the engine has to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    /// There is more to do that should not keep others waiting.
    Again,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Reading,
    /// A request was handed over. Its exchange may be over without anybody having said so.
    Asked,
    /// The peer was told that no more will come; what it still sends is dropped.
    Lingering(usize),
}

pub(super) struct Conn {
    pub wire: Arc<Wire>,
    pub inbox: Inbox,
    /// When there is something to be done although nothing happened.
    pub deadline: Instant,
    /// That of its socket.
    pub token: Token,
    mode: Mode,
    /// Since when it has been idle, or the current request has been arriving.
    since: Instant,
    /// When the peer last took something of what waits for it.
    stuck: Option<Instant>,
    readable: bool,
    /// The peer has closed its side; what it sent before may still be there to be read.
    ended: bool,
    /// The engine is told when the socket takes more.
    wants_to_write: bool,
}

/// How little a connection would be missed; the least is the first to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Worth {
    Refused(Instant),
    Idle(Instant),
    Unread(Instant),
}

impl Conn {
    pub(super) fn new(wire: Arc<Wire>, token: Token, now: Instant, idle: Duration) -> Conn {
        Conn {
            wire,
            inbox: Inbox::new(),
            deadline: now + idle,
            token,
            mode: Mode::Reading,
            since: now,
            stuck: None,
            readable: false,
            ended: false,
            wants_to_write: false,
        }
    }

    /// The socket says that something can be done.
    pub(super) fn ready(&mut self, readable: bool, ended: bool, broken: bool, room: &mut Room<'_>) -> Fate {
        self.readable |= readable;
        self.ended |= ended || broken;
        if broken && self.wire.state().exchange != 0 {
            return Fate::Close;
        }
        self.go_on(room)
    }

    /// Does what can be done without waiting.
    pub(super) fn go_on(&mut self, room: &mut Room<'_>) -> Fate {
        let wire = Arc::clone(&self.wire);
        for _ in 0..ROUNDS {
            let mut state = wire.state();
            wire.heard(&mut state);
            if !self.flush(&mut state, room) {
                return Fate::Close;
            }
            if state.exchange != 0 {
                if self.ended && !state.peer_gone {
                    if state.phase == Phase::Events {
                        return Fate::Close;
                    }
                    state.peer_gone = true;
                    let exchange = state.exchange;
                    drop(state);
                    room.service.gone(exchange);
                    continue;
                }
                state.awaited = self.readable || !self.inbox.is_empty() || room.stopping;
                return Fate::Keep;
            }
            if state.waits() > 0 {
                return Fate::Keep;
            }
            if self.mode == Mode::Asked {
                self.mode = Mode::Reading;
                self.since = state.at;
                self.deadline = state.at + room.shared.limits.idle_timeout;
                if !state.manner.keep || state.peer_gone || room.stopping {
                    self.linger(&state, room);
                }
            }
            if let Mode::Lingering(dropped) = self.mode {
                return self.drop_input(&state, dropped, room);
            }
            if let Some(ahead) = self.inbox.take_ahead() {
                drop(state);
                self.take_in(&ahead, room);
            } else if !self.readable && !self.ended {
                return Fate::Keep;
            } else {
                let mut space = std::mem::take(room.space);
                space.resize(READ, 0);
                let read = self.read(&state, &mut space);
                drop(state);
                if let Ok(n @ 1..) = read {
                    self.take_in(&space[..n], room);
                }
                *room.space = space;
                match read {
                    Ok(0) => return Fate::Close,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.ended => {
                        return Fate::Keep;
                    }
                    Err(_) => return Fate::Close,
                }
            }
        }
        Fate::Again
    }

    /// The deadline has come.
    pub(super) fn expire(&mut self, room: &mut Room<'_>) -> Fate {
        let limits = &room.shared.limits;
        let wire = Arc::clone(&self.wire);
        let mut state = wire.state();
        if state.waits() > 0 && self.stuck.is_some_and(|s| s + limits.stall_timeout <= room.now) {
            return Fate::Close;
        }
        if state.exchange != 0 {
            if state.phase == Phase::Events && state.waits() == 0 && !state.manner.bodiless {
                if state.at + limits.comment_interval <= room.now {
                    state.at = room.now;
                    let comment = if state.manner.http_10 { COMMENT_10 } else { COMMENT };
                    wire.send(&mut state, &[comment]);
                }
                self.deadline = state.at + limits.comment_interval;
            } else {
                self.deadline = room.now + limits.comment_interval;
            }
            drop(state);
            return self.go_on(room);
        }
        match self.mode {
            _ if state.waits() > 0 => Fate::Keep,
            Mode::Asked => {
                drop(state);
                self.go_on(room)
            }
            Mode::Lingering(_) => Fate::Close,
            Mode::Reading if self.inbox.is_empty() => Fate::Close,
            Mode::Reading => {
                self.refuse(&mut state, Refused(408), room);
                Fate::Keep
            }
        }
    }

    /// There is no room for what is being read, or was read ahead of its turn.
    pub(super) fn turn_away(&mut self, room: &mut Room<'_>) -> Fate {
        if self.mode == Mode::Asked {
            return Fate::Close;
        }
        let wire = Arc::clone(&self.wire);
        self.refuse(&mut wire.state(), Refused(503), room);
        Fate::Keep
    }

    /// How little this connection would be missed; nothing if an exchange is open.
    pub(super) fn worth(&self) -> Option<Worth> {
        let state = self.wire.state();
        Some(match self.mode {
            _ if state.exchange != 0 => return None,
            _ if state.waits() > 0 => Worth::Unread(self.stuck.unwrap_or(state.at)),
            Mode::Lingering(_) => Worth::Refused(self.since),
            Mode::Asked => Worth::Idle(state.at),
            Mode::Reading => Worth::Idle(self.since),
        })
    }

    /// Since when the peer has taken nothing of what waits for it.
    pub(super) fn stuck(&self) -> Option<Instant> {
        self.stuck
    }

    /// Since when there has been something that keeps memory here.
    pub(super) fn arriving(&self) -> Option<Instant> {
        (self.inbox.kept() > 0).then_some(self.since)
    }

    /// Writes what waits, and sees to it that the engine hears when more can be written. False if
    /// the connection is broken.
    fn flush(&mut self, state: &mut State, room: &Room<'_>) -> bool {
        if state.socket.is_none() {
            return false;
        }
        let waited = state.waits();
        let waits = waited > 0 && self.wire.flush(state) != Sent::All;
        if state.socket.is_none() {
            return false;
        }
        if waits {
            if self.stuck.is_none() || state.waits() < waited {
                self.stuck = Some(room.now);
            }
            self.deadline = self.stuck.unwrap_or(room.now) + room.shared.limits.stall_timeout;
        } else if self.stuck.take().is_some() {
            let limits = &room.shared.limits;
            let lingering = matches!(self.mode, Mode::Lingering(_));
            self.deadline = room.now + if lingering { limits.linger } else { limits.comment_interval };
        }
        if waits != self.wants_to_write {
            let interest = if waits { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            let socket = state.socket.as_mut().map(|s| s.source());
            if socket.is_some_and(|s| room.registry.reregister(s, self.token, interest).is_err()) {
                return false;
            }
            self.wants_to_write = waits;
        }
        true
    }

    fn read(&mut self, state: &State, space: &mut [u8]) -> io::Result<usize> {
        let Some(socket) = &state.socket else { return Ok(0) };
        let read = loop {
            match socket.read(space) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        // A short read has emptied the socket (epoll(7)); what comes later is told.
        self.readable = read.as_ref().is_ok_and(|n| *n == space.len());
        read
    }

    /// Takes bytes in, which are more than none.
    fn take_in(&mut self, bytes: &[u8], room: &mut Room<'_>) {
        let (was_empty, was_body) = (self.inbox.is_empty(), self.inbox.body().is_some());
        let mut counter = Counter { wire: &self.wire, room };
        let bounds = counter.room.bounds;
        let pushed = self.inbox.push(bytes, &bounds, &mut counter);
        let limits = &room.shared.limits;
        match pushed {
            Ok((_, Step::More)) => {
                if was_empty && !self.inbox.is_empty() {
                    self.since = room.now;
                }
                self.deadline = match self.inbox.body() {
                    Some(come) => {
                        if !was_body {
                            self.since = room.now;
                        }
                        let granted =
                            Duration::from_millis((come as u64 * 1000) / limits.body_rate.max(1) as u64);
                        self.since + limits.body_timeout + granted
                    }
                    None if self.inbox.is_empty() => self.since + limits.idle_timeout,
                    None => self.since + limits.head_timeout,
                };
            }
            Ok((n, Step::Asked)) => {
                self.mode = Mode::Asked;
                self.deadline = room.now + limits.comment_interval;
                if n < bytes.len() {
                    self.inbox.keep_ahead(&bytes[n..]);
                }
            }
            Ok((n, Step::Refused { refusal, plan, whole })) => {
                let wire = Arc::clone(&self.wire);
                let mut state = wire.state();
                let persistence = match plan.keep && whole && !room.stopping {
                    false => Persistence::Close,
                    true if plan.http_10 => Persistence::KeepAndSay,
                    true => Persistence::Keep,
                };
                let body = if plan.bodiless { &[] } else { &*refusal.body };
                self.send_refusal(&mut state, &refusal, persistence, body, room);
                self.since = room.now;
                self.deadline = room.now + limits.idle_timeout;
                if persistence == Persistence::Close {
                    self.linger(&state, room);
                } else if n < bytes.len() {
                    self.inbox.keep_ahead(&bytes[n..]);
                }
            }
            Err(refused) => {
                let wire = Arc::clone(&self.wire);
                self.refuse(&mut wire.state(), refused, room);
            }
        }
    }

    /// Answers with a status and what the service says to that, and reads no more.
    fn refuse(&mut self, state: &mut State, Refused(status): Refused, room: &mut Room<'_>) {
        let mut refusal = Refusal { status, ..room.service.unread(status) };
        if status == 503 {
            refusal.fields.push(("retry-after", "1".to_owned()));
        }
        self.send_refusal(state, &refusal, Persistence::Close, &refusal.body, room);
        self.linger(state, room);
    }

    /// `body` is nothing for a peer that only wants to know about it.
    fn send_refusal(
        &self,
        state: &mut State,
        refusal: &Refusal,
        persistence: Persistence,
        body: &[u8],
        room: &Room<'_>,
    ) {
        let fields = refusal.fields.iter().map(|(n, v)| (*n, v.as_str()));
        let date = room.shared.date();
        let head = write_answer(refusal.status, &date, fields, refusal.body.len(), persistence);
        self.wire.send(state, &[&head, body]);
    }

    /// Closes our side, if nothing waits to be sent, and drops the rest of what the peer sends: to
    /// close a socket with unread input resets it, which takes back the answer that the peer has
    /// not read (RFC 9112, 9.6).
    fn linger(&mut self, state: &State, room: &Room<'_>) {
        if state.waits() == 0 {
            state.shut_down();
        }
        self.inbox.clear();
        self.since = room.now;
        self.deadline = room.now + room.shared.limits.linger;
        self.mode = Mode::Lingering(0);
    }

    fn drop_input(&mut self, state: &State, mut dropped: usize, room: &mut Room<'_>) -> Fate {
        // Said again if something waited the first time.
        state.shut_down();
        room.space.resize(READ, 0);
        for _ in 0..ROUNDS {
            if !self.readable && !self.ended {
                self.mode = Mode::Lingering(dropped);
                return Fate::Keep;
            }
            match self.read(state, room.space) {
                Ok(n @ 1..) if dropped + n < DROPPED => {
                    dropped += n;
                    let limits = &room.shared.limits;
                    let last = self.since + limits.body_timeout.max(limits.linger);
                    self.deadline = last.min(room.now + limits.linger);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.ended => {}
                _ => return Fate::Close,
            }
        }
        self.mode = Mode::Lingering(dropped);
        Fate::Again
    }
}

/// Where the inbox hands requests in.
struct Counter<'c, 's> {
    wire: &'c Arc<Wire>,
    room: &'c mut Room<'s>,
}

impl Desk for Counter<'_, '_> {
    fn admit(&mut self, head: &Head<'_>) -> Admission {
        self.room.service.head(head)
    }

    fn proceed(&mut self) {
        self.wire.send(&mut self.wire.state(), &[b"HTTP/1.1 100 Continue\r\n\r\n"]);
    }

    fn request(&mut self, head: &Head<'_>, plan: Plan, body: &[u8]) {
        *self.room.serial += 1;
        let id = *self.room.serial;
        {
            let mut state = self.wire.state();
            if state.socket.is_none() {
                return;
            }
            state.exchange = id;
            state.phase = Phase::Asked;
            state.awaited = false;
            state.manner = Manner {
                http_10: plan.http_10,
                bodiless: plan.bodiless,
                keep: plan.keep && !self.room.stopping,
            };
        }
        let exchange = Exchange { wire: Arc::clone(self.wire), id, along: Vec::new() };
        self.room.service.request(head, body, exchange);
    }
}
