//! Connection state of the event loop: the next step of a connection and its deadline.
//!
//! [`Connection::advance`] does everything that is possible without waiting: it writes queued
//! bytes, detects a finished exchange or a closed peer, and reads the next request.
//! [`Connection::on_deadline`] runs when the deadline has passed. Both return what the loop must do
//! next.
//!
//! # Invariants
//! - Nothing is read while an exchange is open or its response has not been written.
//! - Between two calls, a connection waits for an event of its socket, for a notification by its
//!   writer, or for its deadline.

use std::io;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use mio::{Interest, Poll, Token};

use super::head::{Head, StatusError};
use super::request_reader::{Bounds, RequestReader, RequestSink, Step};
use super::responder::{Responder, ResponseWriter};
use super::response_head::{ResponseOptions, response_head};
use super::socket_writer::{Exchange, Shared, SocketWriter, State};
use super::{Admission, Response, Service};

/// Size of one read, in bytes.
const READ_BYTES: usize = 16 << 10;
/// Maximum number of requests or reads of one connection in one iteration of the loop.
const MAX_ROUNDS: usize = 8;
/// Bytes of a rejected request that are read and dropped before the connection is closed. Most
/// clients read the response only after they have sent the whole body, and lose it if the
/// connection is reset before.
const MAX_DRAINED: usize = 64 << 20;
/// A comment of the event stream format, as a chunk and without one.
const COMMENT_CHUNK: &[u8] = b"3\r\n:\n\n\r\n";
pub(super) const COMMENT: &[u8] = b":\n\n";

/// Shared context of all connections.
pub(super) struct Context {
    pub service: Box<dyn Service>,
    pub poll: Poll,
    pub shared: Arc<Shared>,
    pub bounds: Bounds,
    pub read_buffer: Vec<u8>,
    /// Id of the last exchange.
    pub last_exchange: u64,
    /// Time of the current iteration of the loop.
    pub now: Instant,
    /// A connection has a request that waits for the service.
    pub has_waiting: bool,
    /// Deadline of the shutdown, once it has begun.
    pub stop_at: Option<Instant>,
}

impl Context {
    pub(super) fn stopping(&self) -> bool {
        self.stop_at.is_some()
    }
}

/// Next action of the event loop for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Wait,
    /// Advance it again after the other connections.
    Continue,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    Reading,
    /// The service checks the request again later.
    Waiting,
    /// A request was passed to the service. Its exchange may have finished since.
    Handling,
    /// The response ends the connection. Input is dropped; the number counts its bytes.
    Draining(usize),
}

pub(super) struct Connection {
    pub writer: Arc<SocketWriter>,
    pub reader: RequestReader,
    pub deadline: Instant,
    /// Token of its socket.
    pub token: Token,
    state: ReadState,
    /// Start of the idle time, of the current request or of its body.
    since: Instant,
    /// Time of the last successful write while bytes stay queued, or of the first failed one.
    stalled_since: Option<Instant>,
    readable: bool,
    /// The peer has closed its side. Earlier input may still be unread.
    peer_ended: bool,
    /// The socket is registered for writing.
    write_interest: bool,
}

/// Order of eviction, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EvictionRank {
    Rejected(Instant),
    Idle(Instant),
    Unread(Instant),
}

impl Connection {
    pub(super) fn new(
        writer: Arc<SocketWriter>,
        token: Token,
        deadline: Instant,
        now: Instant,
    ) -> Connection {
        Connection {
            writer,
            reader: RequestReader::new(),
            deadline,
            token,
            state: ReadState::Reading,
            since: now,
            stalled_since: None,
            readable: false,
            peer_ended: false,
            write_interest: false,
        }
    }

    /// Processes an event of the socket.
    pub(super) fn on_ready(
        &mut self,
        readable: bool,
        ended: bool,
        broken: bool,
        context: &mut Context,
    ) -> Next {
        self.readable |= readable;
        self.peer_ended |= ended || broken;
        if broken && self.writer.state().exchange != Exchange::None {
            return Next::Close;
        }
        self.advance(context)
    }

    /// Does everything that is possible without waiting.
    pub(super) fn advance(&mut self, context: &mut Context) -> Next {
        let writer = Arc::clone(&self.writer);
        for _ in 0..MAX_ROUNDS {
            let mut state = writer.state();
            state.notified = false;
            if !self.flush(&mut state, context) {
                return Next::Close;
            }
            if let Some(exchange) = state.exchange.id() {
                if !self.peer_ended || state.peer_closed {
                    state.notify_when_done = self.readable || !self.reader.is_empty() || context.stopping();
                    return Next::Wait;
                }
                if matches!(state.exchange, Exchange::Streaming(_)) {
                    return Next::Close;
                }
                state.peer_closed = true;
                drop(state);
                context.service.disconnected(exchange);
                continue;
            }
            if state.queued_bytes() > 0 {
                return Next::Wait;
            }
            if self.state == ReadState::Handling {
                self.state = ReadState::Reading;
                self.since = state.last_activity;
                self.deadline = self.since + context.shared.limits.idle_timeout;
                if !state.options.keep_alive || state.peer_closed || context.stopping() {
                    self.begin_drain(&state, context);
                }
            }
            if let ReadState::Draining(drained) = self.state {
                return self.drain(&state, drained, context);
            }
            if self.state == ReadState::Waiting {
                return Next::Wait;
            }
            let next = match self.reader.take_pipelined() {
                Some(bytes) => {
                    drop(state);
                    self.push(&bytes, context);
                    None
                }
                None => self.read_request(state, context),
            };
            if let Some(next) = next {
                return next;
            }
        }
        Next::Continue
    }

    /// Passes a waiting request to the service again.
    pub(super) fn check_again(&mut self, context: &mut Context) -> Next {
        if self.state != ReadState::Waiting {
            return Next::Wait;
        }
        let deadline = self.deadline;
        self.state = ReadState::Reading;
        let next = self.advance(context);
        if self.state == ReadState::Waiting {
            self.deadline = deadline;
        }
        next
    }

    /// Reads once. Returns `None` if bytes were read.
    fn read_request(&mut self, state: MutexGuard<'_, State>, context: &mut Context) -> Option<Next> {
        if !self.readable && !self.peer_ended {
            return Some(Next::Wait);
        }
        let mut buffer = std::mem::take(&mut context.read_buffer);
        buffer.resize(READ_BYTES, 0);
        let read = self.read(&state, &mut buffer);
        drop(state);
        if let Ok(n @ 1..) = read {
            self.push(&buffer[..n], context);
        }
        context.read_buffer = buffer;
        match read {
            Ok(1..) => None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.peer_ended => Some(Next::Wait),
            _ => Some(Next::Close),
        }
    }

    /// Handles the expired deadline.
    pub(super) fn on_deadline(&mut self, context: &mut Context) -> Next {
        let limits = &context.shared.limits;
        let now = context.now;
        let writer = Arc::clone(&self.writer);
        let mut state = writer.state();
        if state.queued_bytes() > 0 && self.stalled_since.is_some_and(|s| s + limits.stall_timeout <= now) {
            return Next::Close;
        }
        if state.exchange != Exchange::None {
            let streaming = matches!(state.exchange, Exchange::Streaming(_));
            if streaming && state.queued_bytes() == 0 && !state.options.head_only {
                if state.last_activity + limits.comment_interval <= now {
                    state.last_activity = now;
                    let comment = if state.options.http_10 { COMMENT } else { COMMENT_CHUNK };
                    writer.send(&mut state, &[comment]);
                }
                self.deadline = state.last_activity + limits.comment_interval;
            } else {
                self.deadline = now + limits.comment_interval;
            }
            drop(state);
            return self.advance(context);
        }
        match self.state {
            _ if state.queued_bytes() > 0 => Next::Wait,
            ReadState::Handling => {
                drop(state);
                self.advance(context)
            }
            ReadState::Draining(_) => Next::Close,
            ReadState::Waiting => {
                self.reject(&mut state, StatusError(503), context);
                Next::Wait
            }
            ReadState::Reading if self.reader.is_empty() => Next::Close,
            ReadState::Reading => {
                self.reject(&mut state, StatusError(408), context);
                Next::Wait
            }
        }
    }

    /// Rejects the request that is being read or was read ahead, for lack of memory or connections.
    pub(super) fn reject_busy(&mut self, context: &mut Context) -> Next {
        if self.state == ReadState::Handling {
            return Next::Close;
        }
        let writer = Arc::clone(&self.writer);
        self.reject(&mut writer.state(), StatusError(503), context);
        Next::Wait
    }

    /// Closes an idle connection. Other connections close after their exchange.
    pub(super) fn begin_stop(&mut self, context: &mut Context) -> Next {
        let mut state = self.writer.state();
        state.options.keep_alive = false;
        let idle = state.exchange == Exchange::None && state.queued_bytes() == 0;
        drop(state);
        if idle { Next::Close } else { self.advance(context) }
    }

    /// Returns the rank for eviction, or `None` while an exchange is open.
    pub(super) fn eviction_rank(&self) -> Option<EvictionRank> {
        let state = self.writer.state();
        Some(match self.state {
            _ if state.exchange != Exchange::None => return None,
            _ if state.queued_bytes() > 0 => {
                EvictionRank::Unread(self.stalled_since.unwrap_or(state.last_activity))
            }
            ReadState::Draining(_) => EvictionRank::Rejected(self.since),
            ReadState::Waiting => EvictionRank::Unread(self.since),
            ReadState::Handling => EvictionRank::Idle(state.last_activity),
            ReadState::Reading => EvictionRank::Idle(self.since),
        })
    }

    /// Returns the time of the last write that the socket accepted, while bytes are queued.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        self.stalled_since
    }

    /// Returns the time since which the reader has held memory.
    pub(super) fn buffering_since(&self) -> Option<Instant> {
        (self.reader.memory() > 0).then_some(self.since)
    }

    /// Writes queued bytes and registers for writability if some remain. Returns `false` if the
    /// connection is broken.
    fn flush(&mut self, state: &mut State, context: &Context) -> bool {
        let limits = &context.shared.limits;
        let before = state.queued_bytes();
        let blocked = before > 0 && !self.writer.flush(state);
        let progress = state.queued_bytes() < before;
        let Some(socket) = &mut state.socket else { return false };
        if blocked != self.write_interest {
            let interest = if blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            if context.poll.registry().reregister(socket.source(), self.token, interest).is_err() {
                return false;
            }
            self.write_interest = blocked;
        }
        if blocked {
            if self.stalled_since.is_none() || progress {
                self.stalled_since = Some(context.now);
            }
            self.deadline = self.stalled_since.unwrap_or(context.now) + limits.stall_timeout;
        } else if self.stalled_since.take().is_some() {
            let draining = matches!(self.state, ReadState::Draining(_));
            self.deadline = context.now + if draining { limits.linger } else { limits.comment_interval };
        }
        true
    }

    fn read(&mut self, state: &State, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(socket) = &state.socket else { return Ok(0) };
        let read = loop {
            match socket.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        // A short read has emptied the socket (epoll(7)), and later input causes an event. On Windows,
        // mio reports an event only after a read has failed because there is no input.
        self.readable = read.as_ref().is_ok_and(|n| cfg!(windows) || *n == buffer.len());
        read
    }

    /// Passes bytes to the request reader and acts on the result. `bytes` is not empty.
    fn push(&mut self, bytes: &[u8], context: &mut Context) {
        let (was_empty, was_body) = (self.reader.is_empty(), self.reader.body_received().is_some());
        let bounds = context.bounds;
        let mut sink = ServiceSink { writer: &self.writer, context };
        let pushed = self.reader.push(bytes, &bounds, &mut sink);
        match pushed {
            Ok((_, Step::Incomplete)) => self.set_read_deadline(was_empty, was_body, context),
            Ok((n, Step::Handled)) => {
                self.state = ReadState::Handling;
                self.deadline = context.now + context.shared.limits.comment_interval;
                self.reader.store_pipelined(&bytes[n..]);
            }
            Ok((_, Step::Waiting)) => {
                self.state = ReadState::Waiting;
                self.since = context.now;
                self.deadline = context.now + context.shared.limits.body_timeout;
                context.has_waiting = true;
            }
            Ok((n, Step::Rejected { response, mut options, whole })) => {
                let writer = Arc::clone(&self.writer);
                let mut state = writer.state();
                options.keep_alive &= whole && !context.stopping();
                self.send_response(&mut state, &response, options, context);
                self.since = context.now;
                self.deadline = context.now + context.shared.limits.idle_timeout;
                if options.keep_alive {
                    self.reader.store_pipelined(&bytes[n..]);
                } else {
                    self.begin_drain(&state, context);
                }
            }
            Err(error) => {
                let writer = Arc::clone(&self.writer);
                self.reject(&mut writer.state(), error, context);
            }
        }
    }

    /// Sets the deadline for the rest of a request that is being read.
    fn set_read_deadline(&mut self, was_empty: bool, was_body: bool, context: &Context) {
        let limits = &context.shared.limits;
        if was_empty && !self.reader.is_empty() || !was_body && self.reader.body_received().is_some() {
            self.since = context.now;
        }
        let time = match self.reader.body_received() {
            Some(bytes) => {
                limits.body_timeout
                    + Duration::from_millis(bytes as u64 * 1000 / limits.body_rate.max(1) as u64)
            }
            None if self.reader.is_empty() => limits.idle_timeout,
            None => limits.head_timeout,
        };
        self.deadline = self.since + time;
    }

    /// Sends the service's response for an error status, then drops further input.
    fn reject(&mut self, state: &mut State, StatusError(status): StatusError, context: &mut Context) {
        let mut response = Response { status, ..context.service.error_response(status) };
        if status == 503 {
            response.fields.push(("retry-after", "1".to_owned()));
        }
        self.send_response(state, &response, ResponseOptions::CLOSE, context);
        self.begin_drain(state, context);
    }

    fn send_response(
        &self,
        state: &mut State,
        response: &Response,
        options: ResponseOptions,
        context: &Context,
    ) {
        let date = context.shared.date();
        let body = &response.body;
        let head = response_head(response.status, &date, response.fields(), Some(body.len()), options);
        self.writer.send(state, &[&head, if options.head_only { &[] } else { body }]);
    }

    /// Closes the sending side once nothing is queued, and drops further input. Closing a socket
    /// with unread input resets the connection, and the peer loses a response that it has not read
    /// (RFC 9112, 9.6).
    fn begin_drain(&mut self, state: &State, context: &Context) {
        if state.queued_bytes() == 0 {
            state.shut_down();
        }
        self.reader = RequestReader::new();
        self.since = context.now;
        self.deadline = context.now + context.shared.limits.linger;
        self.state = ReadState::Draining(0);
    }

    fn drain(&mut self, state: &State, mut drained: usize, context: &mut Context) -> Next {
        // Has no effect unless bytes were queued when the drain began.
        state.shut_down();
        context.read_buffer.resize(READ_BYTES, 0);
        let limits = &context.shared.limits;
        for _ in 0..MAX_ROUNDS {
            if !self.readable && !self.peer_ended {
                self.state = ReadState::Draining(drained);
                return Next::Wait;
            }
            match self.read(state, &mut context.read_buffer) {
                Ok(n @ 1..) if drained + n < MAX_DRAINED => {
                    drained += n;
                    let last = self.since + limits.body_timeout.max(limits.linger);
                    self.deadline = last.min(context.now + limits.linger);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.peer_ended => {}
                _ => return Next::Close,
            }
        }
        self.state = ReadState::Draining(drained);
        Next::Continue
    }
}

/// Passes the requests of one connection to the service.
struct ServiceSink<'c> {
    writer: &'c Arc<SocketWriter>,
    context: &'c mut Context,
}

impl RequestSink for ServiceSink<'_> {
    fn check(&mut self, head: &Head<'_>) -> Admission {
        self.context.service.check(head)
    }

    fn send_continue(&mut self) {
        self.writer.send(&mut self.writer.state(), &[b"HTTP/1.1 100 Continue\r\n\r\n"]);
    }

    fn handle(&mut self, head: &Head<'_>, mut options: ResponseOptions, body: &[u8]) {
        self.context.last_exchange += 1;
        let id = self.context.last_exchange;
        options.keep_alive &= !self.context.stopping();
        if self.writer.open_exchange(id, options) {
            let writer: Arc<dyn ResponseWriter> = Arc::<SocketWriter>::clone(self.writer);
            let responder = Responder { writer, id, common_fields: Vec::new() };
            self.context.service.handle(head, body, responder);
        }
    }
}
