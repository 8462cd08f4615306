//! Event loop of the HTTP server: one thread waits for every listener and every connection.
//!
//! An iteration of the loop waits for events, advances each ready connection, runs the commands of
//! other threads and handles expired deadlines. When all connections are in use, the loop closes
//! the one with the lowest [`EvictionRank`].
//!
//! # Invariants
//! - `sweep_at` is never later than the earliest deadline of a connection.
//! - Connections are accepted after all events of the iteration, so a slot is not reused before the
//!   events of its old connection are processed. The generation in a token detects later events.
//! - `buffered_bytes` is the sum of the memory of all request readers.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};

use super::Service;
use super::connection::{Connection, Context, EvictionRank, Next};
use super::listener::{Listener, Socket};
use super::request_reader::Bounds;
use super::socket_writer::{LoopHandle, Shared, SocketWriter, earliest};
use crate::error::Error;
use crate::limits::Limits;

/// Maximum number of connections beyond the limit that are open to receive 503.
const MAX_REJECTED: usize = 16;
/// File descriptors reserved for the rest of the process.
#[cfg(unix)]
const OTHER_FILES: u64 = 64;
/// Maximum number of connections accepted from one listener in one iteration.
const MAX_ACCEPTS: usize = 64;
/// Maximum number of events processed in one iteration.
const MAX_EVENTS: usize = 256;
/// Minimum time between two sweeps over all deadlines, and pause after the system could not accept
/// a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// Time without a read after which a peer may be evicted when too many bytes are unsent.
const STALLED: Duration = Duration::from_secs(1);
/// Token of the waker. Listeners have the tokens from 1 on.
const WAKER: Token = Token(0);
/// Low bits of a connection's token: its slot. The high bits are its generation, at least 1, which
/// distinguishes it from earlier connections in the same slot: while the process forks, a closed
/// socket stays open in the child and still causes events.
const SLOT_BITS: u32 = 18;

/// Listeners and connections, and the thread's state to serve them.
pub(crate) struct EventLoop {
    context: Context,
    events: Events,
    listeners: Vec<Listener>,
    connections: ConnectionTable,
    max_connections: usize,
    /// Slots of connections that have more to do.
    runnable: Vec<usize>,
    /// Buffer for the slots that other threads reported.
    notified: Vec<usize>,
    woken: bool,
    buffered_bytes: usize,
    sweep_at: Option<Instant>,
    tick_at: Option<Instant>,
    /// Time of the next accept without an event of a listener.
    accept_at: Option<Instant>,
    finished: bool,
}

/// Open connections by slot.
#[derive(Default)]
struct ConnectionTable {
    slots: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Generation of the last connection.
    generation: usize,
}

impl ConnectionTable {
    fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &Connection)> {
        self.slots.iter().enumerate().filter_map(|(slot, connection)| Some((slot, connection.as_ref()?)))
    }

    fn get_mut(&mut self, slot: usize) -> Option<&mut Connection> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Returns slot and token of the next connection.
    fn next(&mut self) -> (usize, Token) {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        self.generation = self.generation % (usize::MAX >> SLOT_BITS) + 1;
        (slot, Token(self.generation << SLOT_BITS | slot))
    }

    fn insert(&mut self, connection: Connection) {
        match self.free.pop() {
            Some(slot) => self.slots[slot] = Some(connection),
            None => self.slots.push(Some(connection)),
        }
    }

    fn remove(&mut self, slot: usize) -> Option<Connection> {
        let connection = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(connection)
    }
}

impl EventLoop {
    /// Creates an event loop for the service that `service` creates.
    ///
    /// # Errors
    /// The system has no file descriptors left.
    pub(crate) fn new<S: Service + 'static>(
        mut listeners: Vec<Listener>,
        limits: &Limits,
        service: impl FnOnce(LoopHandle) -> S,
    ) -> Result<EventLoop, Error> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        for (n, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(listener.source(), Token(1 + n), Interest::READABLE)?;
        }
        let max_connections = max_connections(limits.http.connections);
        let shared = Arc::new(Shared::new(limits, max_connections / 2, waker));
        let now = Instant::now();
        let context = Context {
            service: Box::new(service(LoopHandle(Arc::clone(&shared)))),
            poll,
            shared,
            bounds: Bounds {
                head_bytes: limits.http.head_bytes,
                head_fields: limits.http.head_fields,
                body_bytes: limits.frame_bytes,
            },
            read_buffer: Vec::new(),
            last_exchange: 0,
            now,
            has_waiting: false,
            stop_at: None,
        };
        Ok(EventLoop {
            context,
            events: Events::with_capacity(MAX_EVENTS),
            listeners,
            connections: ConnectionTable::default(),
            max_connections,
            runnable: Vec::new(),
            notified: Vec::new(),
            woken: false,
            buffered_bytes: 0,
            sweep_at: None,
            tick_at: Some(now),
            accept_at: None,
            finished: false,
        })
    }

    /// Returns a handle for other threads.
    pub(crate) fn handle(&self) -> LoopHandle {
        LoopHandle(Arc::clone(&self.context.shared))
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// Waiting failed; every connection has been closed.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        self.context.shared.events.serve_here();
        while !self.finished {
            self.poll_once()?;
        }
        Ok(())
    }

    /// Waits until something is ready and processes it.
    fn poll_once(&mut self) -> Result<(), Error> {
        let timeout = self.timeout();
        if let Err(error) = self.context.poll.poll(&mut self.events, timeout) {
            if error.kind() != io::ErrorKind::Interrupted {
                self.close_all();
                return Err(error.into());
            }
        }
        self.context.now = Instant::now();
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            let broken = event.is_error() || event.is_write_closed();
            self.process_event(event.token(), event.is_readable(), event.is_read_closed(), broken);
        }
        self.events = events;
        self.process_pending();
        Ok(())
    }

    fn process_event(&mut self, token: Token, readable: bool, read_closed: bool, broken: bool) {
        if token == WAKER {
            self.woken = true;
        } else if token.0 >> SLOT_BITS == 0 {
            self.accept_at = Some(self.context.now);
        } else {
            let slot = token.0 & ((1 << SLOT_BITS) - 1);
            self.with_connection(slot, |connection, context| match connection.token == token {
                true => connection.on_ready(readable, read_closed, broken, context),
                false => Next::Wait,
            });
        }
    }

    /// Processes deadlines and other work that no event triggers.
    fn process_pending(&mut self) {
        let now = self.context.now;
        if self.woken || !self.runnable.is_empty() {
            self.process_notified();
        }
        self.process_timers();
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept_at = None;
            for n in 0..self.listeners.len() {
                self.accept(n);
            }
        }
        if self.context.stopping() && self.connections.len() == 0 {
            self.close_all();
        }
    }

    /// Returns how long to wait for events.
    fn timeout(&self) -> Option<Duration> {
        if !self.runnable.is_empty() {
            return Some(Duration::ZERO);
        }
        let times = [self.sweep_at, self.tick_at, self.accept_at, self.context.stop_at];
        let next = times.into_iter().flatten().min()?;
        // The system rounds this up to milliseconds. An iteration that starts too early does
        // nothing.
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Advances the connections that other threads reported or that had more to do, and runs the
    /// commands of other threads.
    fn process_notified(&mut self) {
        let mut runnable = std::mem::take(&mut self.runnable);
        let mut notified = std::mem::take(&mut self.notified);
        self.woken = false;
        let commands = self.context.shared.take(&mut notified);
        // A slot may hold another connection by now. Advancing that one is harmless.
        for slot in runnable.drain(..).chain(notified.drain(..)) {
            self.with_connection(slot, Connection::advance);
        }
        self.notified = notified;
        if self.runnable.is_empty() {
            self.runnable = runnable;
        }
        if commands.tick {
            self.tick_at = Some(self.context.now);
        }
        if let Some(deadline) = commands.stop {
            self.begin_stop(deadline);
        }
        self.evict_stalled_readers();
    }

    /// Runs `run` on a connection and performs the action that it returns.
    fn with_connection(&mut self, slot: usize, run: impl FnOnce(&mut Connection, &mut Context) -> Next) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let before = connection.reader.memory();
        let next = run(connection, &mut self.context);
        let after = connection.reader.memory();
        self.buffered_bytes = self.buffered_bytes + after - before;
        match next {
            Next::Close => self.close(slot),
            Next::Wait | Next::Continue => {
                if next == Next::Continue {
                    self.runnable.push(slot);
                }
                self.sweep_at = earliest(self.sweep_at, connection.deadline);
                if after > before && self.buffered_bytes > self.context.shared.limits.arriving_bytes {
                    self.evict_uploads(slot);
                }
            }
        }
    }

    /// Rejects the oldest uploads until the rest fits into the limit. The upload in `growing` is
    /// exempt: a single one may have the size of the largest message.
    fn evict_uploads(&mut self, growing: usize) {
        while self.buffered_bytes > self.context.shared.limits.arriving_bytes {
            let others = self.connections.iter().filter(|(slot, _)| *slot != growing);
            let oldest = others.filter_map(|(slot, other)| Some((other.buffering_since()?, slot))).min();
            let Some((_, slot)) = oldest else { return };
            self.with_connection(slot, Connection::reject_busy);
        }
    }

    /// While too many bytes are unsent, closes the connections whose sockets have accepted no bytes
    /// for the longest time.
    fn evict_stalled_readers(&mut self) {
        while self.context.shared.is_over_half_full() {
            let connections = self.connections.iter();
            let longest = connections.filter_map(|(slot, other)| Some((other.stalled_since()?, slot))).min();
            let Some((since, slot)) = longest else { return };
            if since + STALLED > self.context.now {
                self.sweep_at = earliest(self.sweep_at, since + STALLED);
                return;
            }
            self.close(slot);
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(connection) = self.connections.remove(slot) {
            self.buffered_bytes -= connection.reader.memory();
            if let Some(exchange) = connection.writer.close() {
                self.context.service.disconnected(exchange);
            }
        }
    }

    /// Handles expired deadlines of connections, of the service and of the loop.
    fn process_timers(&mut self) {
        let now = self.context.now;
        if self.sweep_at.is_some_and(|at| at <= now) {
            self.sweep_at = None;
            let mut next = None;
            for slot in 0..self.connections.slots.len() {
                if self.connections.get_mut(slot).is_some_and(|connection| connection.deadline <= now) {
                    self.with_connection(slot, Connection::on_deadline);
                }
                if let Some(connection) = self.connections.get_mut(slot) {
                    next = earliest(next, connection.deadline);
                }
            }
            self.sweep_at = next.map(|at| at.max(now + PAUSE));
            self.evict_stalled_readers();
        }
        if self.tick_at.is_some_and(|at| at <= now) {
            self.tick_at = self.context.service.tick(now);
            if std::mem::take(&mut self.context.has_waiting) {
                for slot in 0..self.connections.slots.len() {
                    self.with_connection(slot, Connection::check_again);
                }
            }
        }
        if self.context.stop_at.is_some_and(|at| at <= now) {
            self.close_all();
        }
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..MAX_ACCEPTS {
            let Some(accepted) = self.listeners.get(listener).map(Listener::accept) else { return };
            match accepted {
                Ok(socket) => self.add_connection(socket),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::NotConnected => {}
                    // No descriptor or no memory left.
                    _ => {
                        let lowest = self.ranked().min();
                        let Some((_, slot)) = lowest else {
                            self.accept_at = Some(self.context.now + PAUSE);
                            return;
                        };
                        self.close(slot);
                    }
                },
            }
        }
        self.accept_at = Some(self.context.now);
    }

    fn add_connection(&mut self, mut socket: Socket) {
        let admitted = self.connections.len() < self.max_connections || self.make_room();
        let (slot, token) = self.connections.next();
        let registry = self.context.poll.registry();
        if registry.register(socket.source(), token, Interest::READABLE).is_err() {
            return;
        }
        let (shared, now) = (&self.context.shared, self.context.now);
        let writer = Arc::new(SocketWriter::new(shared, slot, socket, now));
        self.connections.insert(Connection::new(writer, token, now + shared.limits.idle_timeout, now));
        self.with_connection(slot, |connection, context| match admitted {
            true => Next::Wait,
            false => connection.reject_busy(context),
        });
    }

    /// Closes a connection to make room for a new one. Returns `false` if all connections have an
    /// open exchange; then the new connection must be rejected.
    fn make_room(&mut self) -> bool {
        let is_rejected = |(rank, _): &(EvictionRank, usize)| matches!(rank, EvictionRank::Rejected(_));
        let (rejected, others): (Vec<_>, Vec<_>) = self.ranked().partition(is_rejected);
        let full = self.connections.len() - rejected.len() >= self.max_connections;
        let evicted = match others.iter().min() {
            Some(idle) if full => Some(idle),
            _ if rejected.len() >= MAX_REJECTED => rejected.iter().min(),
            _ => None,
        };
        if let Some((_, slot)) = evicted {
            self.close(*slot);
        }
        !full || !others.is_empty()
    }

    /// Returns the connections without an open exchange, with their slots. The lowest rank is to be
    /// evicted first.
    fn ranked(&self) -> impl Iterator<Item = (EvictionRank, usize)> {
        self.connections.iter().filter_map(|(slot, other)| Some((other.eviction_rank()?, slot)))
    }

    /// Stops accepting connections. Closes idle connections at once and the others after their
    /// exchange.
    fn begin_stop(&mut self, deadline: Instant) {
        let first = !self.context.stopping();
        self.context.stop_at = earliest(self.context.stop_at, deadline);
        if !first {
            return;
        }
        self.listeners.clear();
        self.accept_at = None;
        for slot in 0..self.connections.slots.len() {
            self.with_connection(slot, Connection::begin_stop);
        }
        self.context.service.stop();
    }

    fn close_all(&mut self) {
        self.finished = true;
        self.listeners.clear();
        for slot in 0..self.connections.slots.len() {
            self.close(slot);
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.close_all();
    }
}

/// Returns the limit, lowered if the process may open fewer files.
fn max_connections(limit: usize) -> usize {
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::{Admission, Head, Responder, Response};
    use super::*;

    /// Service that stores its responders, and counts requests and disconnected peers.
    struct SilentService(Vec<Responder>, Arc<[AtomicUsize; 2]>);

    impl Service for SilentService {
        fn check(&mut self, _: &Head<'_>) -> Admission {
            Admission::ReadBody
        }

        fn handle(&mut self, _: &Head<'_>, _: &[u8], responder: Responder) {
            self.0.push(responder);
            self.1[0].fetch_add(1, Ordering::Relaxed);
        }

        fn error_response(&mut self, status: u16) -> Response {
            Response::new(status)
        }

        fn disconnected(&mut self, _: u64) {
            self.1[1].fetch_add(1, Ordering::Relaxed);
        }

        fn tick(&mut self, _: Instant) -> Option<Instant> {
            None
        }

        fn stop(&mut self) {}
    }

    #[test]
    fn an_event_of_a_closed_connection_is_not_delivered_to_the_next_one_in_its_slot() {
        let listeners = Listener::bind("127.0.0.1:0").unwrap();
        let address = listeners[0].address().to_owned();
        let counts = Arc::<[AtomicUsize; 2]>::default();
        let count = |n: usize| counts[n].load(Ordering::Relaxed);
        let service = SilentService(Vec::new(), Arc::clone(&counts));
        let mut event_loop = EventLoop::new(listeners, &Limits::default(), |_| service).unwrap();
        let closed = TcpStream::connect(&address).unwrap();
        while event_loop.connections.len() == 0 {
            event_loop.poll_once().unwrap();
        }
        let token = event_loop.connections.get_mut(0).unwrap().token;
        drop(closed);
        while event_loop.connections.len() > 0 {
            event_loop.poll_once().unwrap();
        }
        let mut open = TcpStream::connect(&address).unwrap();
        open.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        while count(0) == 0 {
            event_loop.poll_once().unwrap();
        }
        event_loop.process_event(token, true, true, false);
        assert_eq!(count(1), 0);
        drop(open);
        while count(1) == 0 {
            event_loop.poll_once().unwrap();
        }
    }
}
