//! Sending half of a connection, shared by the event loop and the threads that respond.
//!
//! A sender writes to the non-blocking socket at once. Bytes that the socket does not accept are
//! queued, and the event loop writes them when the socket accepts more.
//!
//! # Invariants
//! - While bytes are queued, further bytes are queued after them, so bytes stay in order.
//! - `Shared::unsent` is the sum of the queued bytes of all connections. It exceeds its limit only
//!   by one response that is larger by itself.
//! - A connection is in the list of notified slots at most once, so the list has a bound.
//! - The state is locked across non-blocking system calls only.
//! - The thread of the event loop never waits for a peer: it writes the queued bytes of all peers.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::EngineHandle;
use super::chunk_buffer::ChunkBuffer;
use super::event_budget::EventBudget;
use super::listener::Socket;
use super::peer::Peer;
use super::responder::ResponseWriter;
use super::response_head::{
    DATE_BYTES, Date, Field, ResponseOptions, chunk_size, is_bodiless, response_head,
};
use crate::limits::{HttpLimits, Limits};
use crate::sync::{lock, wait_for};

/// Most parts of one send: head, size of a chunk, its bytes, its end, end of the body.
const MAX_PARTS: usize = 5;

/// State that the event loop and all writers share.
pub(super) struct Shared {
    pub limits: HttpLimits,
    /// Bounds of the event streams.
    pub events: EventBudget,
    waker: mio::Waker,
    /// Slots of connections that the loop must advance.
    notified: Mutex<Vec<usize>>,
    /// The waker was used and the loop has not run since.
    wake_pending: AtomicBool,
    commands: Mutex<Commands>,
    /// Bytes queued on all connections.
    unsent: AtomicUsize,
    date: Mutex<Date>,
}

/// Commands of other threads to the event loop.
#[derive(Clone, Copy, Default)]
pub(super) struct Commands {
    pub tick: bool,
    /// Deadline of the shutdown.
    pub stop: Option<Instant>,
}

/// Handle to a running event loop, for any thread.
#[derive(Clone)]
pub(crate) struct LoopHandle(pub(super) Arc<Shared>);

impl EngineHandle for LoopHandle {
    fn wake(&self) {
        lock(&self.0.commands).tick = true;
        self.0.wake();
    }

    /// Closes the listeners at once, and every connection after its exchange or at `deadline`.
    fn stop(&self, deadline: Instant) {
        {
            let mut commands = lock(&self.0.commands);
            commands.stop = earliest(commands.stop, deadline);
        }
        self.0.wake();
    }
}

/// Returns the earlier of two times, the first of which may be absent.
pub(super) fn earliest(at: Option<Instant>, other: Instant) -> Option<Instant> {
    Some(at.map_or(other, |at| at.min(other)))
}

impl Shared {
    /// `max_streams` bounds the limit of event streams further.
    pub(super) fn new(limits: &Limits, max_streams: usize, waker: mio::Waker) -> Shared {
        Shared {
            limits: limits.http.clone(),
            events: EventBudget::new(limits, max_streams),
            waker,
            notified: Mutex::default(),
            wake_pending: AtomicBool::new(false),
            commands: Mutex::default(),
            unsent: AtomicUsize::new(0),
            date: Mutex::new(Date::new()),
        }
    }

    fn wake(&self) {
        // This fails only when the system has no memory left. The next caller tries again.
        if !self.wake_pending.swap(true, Ordering::AcqRel) && self.waker.wake().is_err() {
            self.wake_pending.store(false, Ordering::Release);
        }
    }

    /// Replaces `notified` by the notified slots and returns the commands.
    pub(super) fn take(&self, notified: &mut Vec<usize>) -> Commands {
        notified.clear();
        // Cleared first: a later wake-up must reach the loop.
        self.wake_pending.store(false, Ordering::Release);
        std::mem::swap(notified, &mut lock(&self.notified));
        std::mem::take(&mut lock(&self.commands))
    }

    pub(super) fn date(&self) -> [u8; DATE_BYTES] {
        lock(&self.date).now()
    }

    /// Returns whether so many bytes are unsent that peers that do not read should be evicted.
    pub(super) fn is_over_half_full(&self) -> bool {
        self.unsent.load(Ordering::Relaxed) > self.limits.unsent_bytes / 2
    }

    #[cfg(test)]
    pub(super) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> usize {
        self.events.streams()
    }
}

/// Exchange of a connection, with its id. An exchange is a request that the service has not
/// finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    None,
    /// Nothing has been sent, or the connection was aborted.
    Pending(u64),
    /// An event stream is open.
    Streaming(u64),
}

impl Exchange {
    pub(super) fn id(self) -> Option<u64> {
        match self {
            Exchange::None => None,
            Exchange::Pending(id) | Exchange::Streaming(id) => Some(id),
        }
    }
}

/// Sending half of one connection.
pub(super) struct SocketWriter {
    pub shared: Arc<Shared>,
    slot: usize,
    state: Mutex<State>,
    /// Threads wait here for space in the backlog of an event stream.
    space: Condvar,
}

pub(super) struct State {
    /// `None` once the connection is closed.
    pub socket: Option<Socket>,
    pub exchange: Exchange,
    pub options: ResponseOptions,
    /// The peer has closed its side, and the service was notified.
    pub peer_closed: bool,
    /// The loop must advance this connection when the exchange is finished.
    pub notify_when_done: bool,
    /// Time of the last send or of the end of the last exchange.
    pub last_activity: Instant,
    /// The connection is in the list of notified slots.
    pub notified: bool,
    waiters: u32,
    queue: Option<Box<ChunkBuffer>>,
}

impl SocketWriter {
    pub(super) fn new(shared: &Arc<Shared>, slot: usize, socket: Socket, now: Instant) -> SocketWriter {
        let state = State {
            socket: Some(socket),
            exchange: Exchange::None,
            options: ResponseOptions { keep_alive: true, ..ResponseOptions::CLOSE },
            peer_closed: false,
            notify_when_done: false,
            last_activity: now,
            notified: false,
            waiters: 0,
            queue: None,
        };
        SocketWriter { shared: Arc::clone(shared), slot, state: Mutex::new(state), space: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Makes the loop advance this connection.
    fn notify_loop(&self, state: &mut State) {
        if !std::mem::replace(&mut state.notified, true) {
            lock(&self.shared.notified).push(self.slot);
            self.shared.wake();
        }
    }

    /// Sends these parts in order, without waiting. Returns `false` if the connection is closed, or
    /// was aborted because too many bytes are queued.
    pub(super) fn send(&self, state: &mut State, parts: &[&[u8]]) -> bool {
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        let mut written = 0;
        if state.queue.is_none() && whole > 0 {
            let mut slices = [IoSlice::new(&[]); MAX_PARTS];
            for (slice, part) in slices.iter_mut().zip(parts) {
                *slice = IoSlice::new(part);
            }
            match write(state, &slices[..parts.len().min(MAX_PARTS)]) {
                Ok(n) => written = n,
                Err(_) => {
                    self.disconnect(state);
                    return false;
                }
            }
        }
        let rest = whole - written;
        if rest == 0 {
            return true;
        }
        let before = self.shared.unsent.fetch_add(rest, Ordering::Relaxed);
        // An event stream with a slow reader gets an eighth: events are many and unrequested.
        let behind = matches!(state.exchange, Exchange::Streaming(_)) && state.queue.is_some();
        let limit = self.shared.limits.unsent_bytes / if behind { 8 } else { 1 };
        if before > 0 && before + rest > limit {
            self.shared.unsent.fetch_sub(rest, Ordering::Relaxed);
            self.disconnect(state);
            return false;
        }
        let queue = state.queue.get_or_insert_default();
        for part in parts {
            let skipped = written.min(part.len());
            written -= skipped;
            queue.push(&part[skipped..]);
        }
        self.notify_loop(state);
        true
    }

    /// Writes queued bytes, as many as the socket accepts. Returns whether none are left.
    pub(super) fn flush(&self, state: &mut State) -> bool {
        while let Some(mut queue) = state.queue.take() {
            let result = write(state, &queue.front());
            if let Ok(n) = result {
                queue.consume(n);
                self.shared.unsent.fetch_sub(n, Ordering::Relaxed);
            }
            state.queue = (queue.len() > 0).then_some(queue);
            match result {
                Ok(0) => return false,
                Ok(_) => self.notify_waiters(state),
                Err(_) => self.disconnect(state),
            }
        }
        true
    }

    /// Waits until the backlog of an event stream has space for `bytes` more. Returns `false` if
    /// the connection closes first, the deadline passes, or enough threads are blocked already. On
    /// the thread of the event loop this does not wait, but writes as much as the socket accepts.
    pub(super) fn wait_for_space<'w>(
        &self,
        mut state: MutexGuard<'w, State>,
        bytes: usize,
        deadline: Instant,
    ) -> (MutexGuard<'w, State>, bool) {
        let mut has_space = self.has_space(&state, bytes);
        if has_space {
            return (state, true);
        }
        if self.shared.events.is_service_thread() {
            self.flush(&mut state);
            has_space = self.has_space(&state, bytes);
            return (state, has_space);
        }
        let may_block = self.shared.events.block();
        while may_block && !has_space && state.socket.is_some() && !state.peer_closed {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state.waiters += 1;
            state = wait_for(&self.space, state, left);
            state.waiters -= 1;
            has_space = self.has_space(&state, bytes);
        }
        self.shared.events.unblock();
        (state, has_space)
    }

    /// Returns whether the backlog of an event stream has space for `bytes` more.
    pub(super) fn has_space(&self, state: &State, bytes: usize) -> bool {
        self.shared.events.has_space(state.queued_bytes(), bytes)
    }

    /// Closes the connection at once. The loop removes it, and reports an open exchange to the
    /// service.
    pub(super) fn disconnect(&self, state: &mut State) {
        if let Some(socket) = state.socket.take() {
            let queued = state.queued_bytes();
            if queued > 0 {
                socket.abort();
            }
            self.shared.unsent.fetch_sub(queued, Ordering::Relaxed);
            state.queue = None;
            self.end_events(state);
            self.notify_waiters(state);
            self.notify_loop(state);
        }
    }

    /// Begins an exchange. Returns `false` if the connection is closed.
    pub(super) fn open_exchange(&self, id: u64, options: ResponseOptions) -> bool {
        let mut state = self.state();
        if state.socket.is_none() {
            return false;
        }
        state.exchange = Exchange::Pending(id);
        state.notify_when_done = false;
        state.options = options;
        true
    }

    /// Turns the exchange into an event stream, unless too many are open.
    pub(super) fn begin_events(&self, state: &mut State) -> bool {
        let Exchange::Pending(id) = state.exchange else { return false };
        if !self.shared.events.begin() {
            return false;
        }
        state.exchange = Exchange::Streaming(id);
        true
    }

    fn end_events(&self, state: &mut State) {
        if let Exchange::Streaming(id) = state.exchange {
            self.shared.events.end();
            state.exchange = Exchange::Pending(id);
        }
    }

    /// Closes the connection on behalf of the loop. Returns the id of the open exchange, unless the
    /// service was already notified that its peer disconnected.
    pub(super) fn close(&self) -> Option<u64> {
        let mut state = self.state();
        state.notified = true;
        self.disconnect(&mut state);
        let open = state.exchange.id();
        state.exchange = Exchange::None;
        open.filter(|_| !state.peer_closed)
    }

    /// Ends the exchange. Its last byte was sent or queued.
    fn finish_exchange(&self, state: &mut State, now: Instant) {
        self.end_events(state);
        state.exchange = Exchange::None;
        state.last_activity = now;
        if state.queued_bytes() > 0 || state.notify_when_done || state.peer_closed {
            self.notify_loop(state);
        } else if !state.options.keep_alive {
            // The peer closes the connection when it reads the end, which causes an event.
            state.shut_down();
        }
    }

    fn notify_waiters(&self, state: &State) {
        if state.waiters > 0 {
            self.space.notify_all();
        }
    }
}

/// The responses of the open exchange.
impl ResponseWriter for SocketWriter {
    fn peer(&self) -> Option<Peer> {
        self.state().socket.as_ref()?.peer()
    }

    fn is_open(&self, id: u64) -> bool {
        self.state().exchange.id() == Some(id)
    }

    fn respond(
        &self,
        id: u64,
        status: u16,
        fields: &mut dyn Iterator<Item = Field<'_>>,
        body: &[u8],
    ) -> bool {
        let Some(mut state) = self.lock_if(Exchange::Pending(id)) else { return false };
        let head = response_head(status, &self.shared.date(), fields, Some(body.len()), state.options);
        let body = if state.options.head_only || is_bodiless(status) { &[] } else { body };
        let sent = self.send(&mut state, &[&head, body]);
        if sent {
            self.finish_exchange(&mut state, Instant::now());
        }
        sent
    }

    fn start_events(&self, id: u64, fields: &mut dyn Iterator<Item = Field<'_>>, first: &[u8]) -> bool {
        let Some(mut state) = self.lock_if(Exchange::Pending(id)) else { return false };
        if state.peer_closed || !self.begin_events(&mut state) {
            return false;
        }
        state.options.keep_alive &= !state.options.http_10;
        let head = response_head(200, &self.shared.date(), fields, None, state.options);
        self.send_chunk(&mut state, &head, first, b"")
    }

    fn send_event(&self, id: u64, bytes: &[u8], waits: bool) -> bool {
        let Some(mut state) = self.lock_if(Exchange::Streaming(id)) else { return false };
        let has_space = if waits {
            let deadline = Instant::now() + self.shared.events.stall_timeout;
            let (locked, has_space) = self.wait_for_space(state, bytes.len(), deadline);
            state = locked;
            has_space
        } else {
            self.has_space(&state, bytes.len())
        };
        if state.exchange != Exchange::Streaming(id) {
            return false;
        }
        if !has_space {
            self.disconnect(&mut state);
            return false;
        }
        self.send_chunk(&mut state, b"", bytes, b"")
    }

    fn finish(&self, id: u64, last: &[u8]) -> bool {
        let Some(mut state) = self.lock_if(Exchange::Streaming(id)) else { return false };
        let sent = self.send_chunk(&mut state, b"", last, b"0\r\n\r\n");
        if sent {
            self.finish_exchange(&mut state, Instant::now());
        }
        sent
    }

    fn abort(&self, id: u64) {
        let mut state = self.state();
        if state.exchange.id() == Some(id) {
            self.disconnect(&mut state);
            state.exchange = Exchange::None;
        }
    }

    fn is_closed(&self, id: u64) -> bool {
        let state = self.state();
        state.exchange.id() != Some(id) || state.peer_closed || state.socket.is_none()
    }

    fn is_congested(&self, id: u64) -> bool {
        let state = self.state();
        state.exchange.id() == Some(id) && self.shared.events.is_congested(state.queued_bytes())
    }
}

impl SocketWriter {
    /// Locks the state if the connection is open and its exchange is this one.
    fn lock_if(&self, exchange: Exchange) -> Option<MutexGuard<'_, State>> {
        let state = self.state();
        (state.exchange == exchange && state.socket.is_some()).then_some(state)
    }

    /// Sends a head, `bytes` as a chunk, and the end of the stream. Each may be empty.
    fn send_chunk(&self, state: &mut State, head: &[u8], bytes: &[u8], end: &[u8]) -> bool {
        state.last_activity = Instant::now();
        match state.options {
            options if options.head_only => self.send(state, &[head]),
            options if options.http_10 => self.send(state, &[head, bytes]),
            _ if bytes.is_empty() => self.send(state, &[head, end]),
            _ => {
                let (size, len) = chunk_size(bytes.len());
                self.send(state, &[head, &size[..len], bytes, b"\r\n", end])
            }
        }
    }
}

impl State {
    pub(super) fn queued_bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.len())
    }

    /// Closes the sending side of the socket.
    pub(super) fn shut_down(&self) {
        if let Some(socket) = &self.socket {
            // This fails if the peer has disconnected, which needs no action.
            let _ = socket.shutdown(Shutdown::Write);
        }
    }
}

/// Writes once. Returns zero if the socket accepts nothing now.
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
