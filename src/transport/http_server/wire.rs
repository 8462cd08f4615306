//! The sending half of a connection, shared between the engine and the threads that answer.
//!
//! Whoever has something to send writes it at once, non-blocking. What the socket does not take
//! waits in `out`; the engine is told, waits until the socket takes more, and keeps the time. What
//! it does not do: read, or know what a request looks like.
//!
//! # Invariants
//! - Once something waits in `out`, everything else goes behind it: bytes stay in order.
//! - `Shared::unsent` is the sum of what waits on all connections and never exceeds its limit but
//!   for one answer that is larger all by itself.
//! - A wire lies in the list of calls at most once, so that list is as short as the connections
//!   are few.
//! - The state's lock is held across system calls that do not block, never across one that does.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::answer::{DATE, Date};
use super::listen::Socket;
use super::pieces::Pieces;
use crate::limits::{HttpLimits, Limits};

/// Parts that are sent at once: head, start of a chunk, its bytes, its end.
const PARTS: usize = 4;

/// What the engine and all wires have in common.
pub(super) struct Shared {
    pub limits: HttpLimits,
    /// Bytes that may wait on one event stream.
    pub backlog_bytes: usize,
    /// Threads that may wait for peers at once: half of the workers, so that those whose peers do
    /// not read cannot take them all.
    patient: usize,
    /// Threads that do.
    waiting: AtomicUsize,
    waker: mio::Waker,
    /// Slots of connections that want to be looked at.
    calls: Mutex<Vec<usize>>,
    /// The waker was used and the engine has not looked since.
    awake: AtomicBool,
    orders: Mutex<Orders>,
    /// Bytes that wait on all connections.
    unsent: AtomicUsize,
    /// Event streams that are open.
    streams: AtomicUsize,
    date: Mutex<Date>,
}

/// What other threads want of the engine itself.
#[derive(Clone, Copy, Default)]
pub(super) struct Orders {
    pub tick: bool,
    /// Take nothing in any more, and be over at this time at the latest.
    pub stop: Option<Instant>,
}

/// A handle on a running engine, for any thread.
#[derive(Clone)]
pub(crate) struct Remote(pub(super) Arc<Shared>);

impl Remote {
    /// Has [`Service::tick`](super::Service::tick) called soon.
    pub(crate) fn wake(&self) {
        lock(&self.0.orders).tick = true;
        self.0.wake();
    }

    /// Closes the listeners at once and everything else when it is done, at `deadline` at the
    /// latest. A second call can make the deadline earlier.
    pub(crate) fn stop(&self, deadline: Instant) {
        let mut orders = lock(&self.0.orders);
        orders.stop = Some(orders.stop.map_or(deadline, |d| d.min(deadline)));
        drop(orders);
        self.0.wake();
    }
}

/// A panic while one of these is locked leaves plain values behind, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// `streams` is how many of the connections there can be may be event streams.
    pub(super) fn new(limits: &Limits, streams: usize, waker: mio::Waker) -> Shared {
        let mut http = limits.http.clone();
        http.streams = http.streams.min(streams.max(1));
        Shared {
            limits: http,
            backlog_bytes: limits.backlog_bytes,
            patient: limits.workers / 2,
            waiting: AtomicUsize::new(0),
            waker,
            calls: Mutex::default(),
            awake: AtomicBool::new(false),
            orders: Mutex::default(),
            unsent: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            date: Mutex::new(Date::new()),
        }
    }

    fn wake(&self) {
        // Fails only when the system has no memory left; then whoever is next tries again.
        if !self.awake.swap(true, Ordering::AcqRel) && self.waker.wake().is_err() {
            self.awake.store(false, Ordering::Release);
        }
    }

    /// Takes what was asked for; `calls` is emptied first and keeps its memory.
    pub(super) fn take(&self, calls: &mut Vec<usize>) -> Orders {
        calls.clear();
        // First, so that a wake from here on is a wake.
        self.awake.store(false, Ordering::Release);
        std::mem::swap(calls, &mut lock(&self.calls));
        std::mem::take(&mut lock(&self.orders))
    }

    pub(super) fn date(&self) -> [u8; DATE] {
        lock(&self.date).now()
    }

    /// Whether so much waits that those who read nothing should go.
    pub(super) fn is_crowded(&self) -> bool {
        self.unsent.load(Ordering::Relaxed) > self.limits.unsent_bytes / 2
    }

    #[cfg(test)]
    pub(super) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }
}

/// Where the exchange of a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none.
    Idle,
    /// The request was handed over and nothing has been answered.
    Asked,
    /// An event stream is open.
    Events,
}

/// How the request of an exchange wants to be answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub http_10: bool,
    /// Only the head of the answer (HEAD).
    pub bodiless: bool,
    /// The connection stays open behind the answer.
    pub keep: bool,
}

/// The sending half of one connection.
pub(super) struct Wire {
    pub shared: Arc<Shared>,
    slot: usize,
    state: Mutex<State>,
    /// Threads wait here until a stream's backlog is shorter.
    room: Condvar,
}

pub(super) struct State {
    /// None once the connection is closed.
    pub socket: Option<Socket>,
    /// The open exchange, zero if there is none.
    pub exchange: u64,
    pub phase: Phase,
    pub manner: Manner,
    /// The peer has closed its side.
    pub peer_gone: bool,
    /// The engine has something to do when the exchange is over.
    pub awaited: bool,
    /// When something was last sent or the exchange was over.
    pub at: Instant,
    called: bool,
    waiting: u32,
    /// What waits to be sent.
    out: Option<Box<Pieces>>,
}

/// What became of bytes that were to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    /// Some wait in `out`.
    Queued,
    /// The connection is broken, or was cut because too much waits.
    Broken,
}

impl Wire {
    pub(super) fn new(shared: &Arc<Shared>, slot: usize, socket: Socket, now: Instant) -> Wire {
        let state = State {
            socket: Some(socket),
            exchange: 0,
            phase: Phase::Idle,
            manner: Manner { http_10: false, bodiless: false, keep: true },
            peer_gone: false,
            awaited: false,
            at: now,
            called: false,
            waiting: 0,
            out: None,
        };
        Wire { shared: Arc::clone(shared), slot, state: Mutex::new(state), room: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Has the engine look at this connection.
    pub(super) fn call(&self, state: &mut State) {
        if !std::mem::replace(&mut state.called, true) {
            lock(&self.shared.calls).push(self.slot);
            self.shared.wake();
        }
    }

    /// The engine looks.
    pub(super) fn heard(&self, state: &mut State) {
        state.called = false;
    }

    /// Sends these parts, one behind the other, without waiting.
    pub(super) fn send(&self, state: &mut State, parts: &[&[u8]]) -> Sent {
        let mut written = 0;
        if state.out.is_none() {
            let mut slices = [IoSlice::new(&[]); PARTS];
            for (slice, part) in slices.iter_mut().zip(parts) {
                *slice = IoSlice::new(part);
            }
            match write(state, &slices[..parts.len().min(PARTS)]) {
                Ok(n) => written = n,
                Err(_) => {
                    self.cut(state);
                    return Sent::Broken;
                }
            }
        }
        let whole: usize = parts.iter().map(|p| p.len()).sum();
        if written == whole {
            return Sent::All;
        }
        let rest = whole - written;
        let before = self.shared.unsent.fetch_add(rest, Ordering::Relaxed);
        // A stream whose reader is behind already has an eighth of it: events are many and come
        // without being asked for.
        let behind = state.phase == Phase::Events && state.out.is_some();
        let most = self.shared.limits.unsent_bytes / if behind { 8 } else { 1 };
        if before > 0 && before + rest > most {
            self.shared.unsent.fetch_sub(rest, Ordering::Relaxed);
            self.cut(state);
            return Sent::Broken;
        }
        let out = state.out.get_or_insert_default();
        for part in parts {
            let skipped = written.min(part.len());
            written -= skipped;
            out.push(&part[skipped..]);
        }
        self.call(state);
        Sent::Queued
    }

    /// Writes what waits, as far as the socket takes it.
    pub(super) fn flush(&self, state: &mut State) -> Sent {
        while let Some(mut out) = state.out.take() {
            let result = write(state, &out.front());
            if let Ok(n) = result {
                out.take(n);
                self.shared.unsent.fetch_sub(n, Ordering::Relaxed);
            }
            state.out = (out.len() > 0).then_some(out);
            match result {
                Ok(0) => return Sent::Queued,
                Ok(_) => self.tell_room(state),
                Err(_) => {
                    self.cut(state);
                    return Sent::Broken;
                }
            }
        }
        Sent::All
    }

    /// Waits until `bytes` more fit into the backlog of an event stream. False if the connection
    /// breaks first, the deadline comes, or enough threads wait already.
    pub(super) fn wait_for_room<'w>(
        &self,
        state: MutexGuard<'w, State>,
        bytes: usize,
        deadline: Instant,
    ) -> (MutexGuard<'w, State>, bool) {
        if self.fits(&state, bytes) {
            return (state, true);
        }
        let waiting = &self.shared.waiting;
        let entered = waiting.fetch_add(1, Ordering::Relaxed) < self.shared.patient;
        let (state, room) =
            if entered { self.wait_patiently(state, bytes, deadline) } else { (state, false) };
        waiting.fetch_sub(1, Ordering::Relaxed);
        (state, room)
    }

    fn wait_patiently<'w>(
        &self,
        mut state: MutexGuard<'w, State>,
        bytes: usize,
        deadline: Instant,
    ) -> (MutexGuard<'w, State>, bool) {
        while state.socket.is_some() && !state.peer_gone {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state.waiting += 1;
            state = self.room.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
            if self.fits(&state, bytes) {
                return (state, true);
            }
        }
        (state, false)
    }

    /// Whether so many more bytes may wait on this event stream.
    pub(super) fn fits(&self, state: &State, bytes: usize) -> bool {
        state.waits() == 0 || state.waits() + bytes <= self.shared.backlog_bytes
    }

    /// Closes the connection at once. The engine is called to clear up; if an exchange is open, it
    /// tells the service.
    pub(super) fn cut(&self, state: &mut State) {
        if let Some(socket) = state.socket.take() {
            if state.waits() > 0 {
                socket.abort();
            }
            self.shared.unsent.fetch_sub(state.waits(), Ordering::Relaxed);
            state.out = None;
            self.leave_events(state);
            self.tell_room(state);
            self.call(state);
        }
    }

    /// Counts an event stream, if there may be one more.
    pub(super) fn enter_events(&self, state: &mut State) -> bool {
        let most = self.shared.limits.streams;
        let room = self
            .shared
            .streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < most).then_some(n + 1));
        if room.is_ok() {
            state.phase = Phase::Events;
        }
        room.is_ok()
    }

    fn leave_events(&self, state: &mut State) {
        if state.phase == Phase::Events {
            self.shared.streams.fetch_sub(1, Ordering::Relaxed);
        }
        state.phase = Phase::Idle;
    }

    /// The engine gives the connection up: it is cut, and nobody needs to be called. Gives the
    /// exchange that the service has not been told the end of.
    pub(super) fn give_up(&self) -> Option<u64> {
        let mut state = self.state();
        state.called = true;
        self.cut(&mut state);
        let open = std::mem::take(&mut state.exchange);
        (open != 0 && !state.peer_gone).then_some(open)
    }

    /// The exchange is over, its last byte sent or in `out`.
    pub(super) fn finish(&self, state: &mut State, now: Instant) {
        self.leave_events(state);
        state.exchange = 0;
        state.at = now;
        if state.waits() > 0 || state.awaited || state.peer_gone {
            self.call(state);
        } else if !state.manner.keep {
            // The peer closes when it reads the end, and the engine sees that.
            state.shut_down();
        }
    }

    fn tell_room(&self, state: &State) {
        if state.waiting > 0 {
            self.room.notify_all();
        }
    }
}

impl State {
    /// Bytes in `out` that have not been sent.
    pub(super) fn waits(&self) -> usize {
        self.out.as_ref().map_or(0, |out| out.len())
    }

    /// Tells the peer that no more will come.
    pub(super) fn shut_down(&self) {
        if let Some(socket) = &self.socket {
            // Fails if the peer is gone, which is what we want.
            let _ = socket.shutdown(Shutdown::Write);
        }
    }
}

/// Writes once; zero if the socket takes nothing now.
fn write(state: &State, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let Some(socket) = &state.socket else { return Err(io::ErrorKind::NotConnected.into()) };
    loop {
        match socket.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => return Ok(n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        }
    }
}
