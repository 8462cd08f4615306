//! Responder of one HTTP exchange, usable from any thread.
//!
//! An exchange gets one response: a whole one, or an event stream of any length. After its end
//! every call does nothing. Messages and events are bytes here.
//!
//! # Invariants
//! - A responder that is dropped without a response sends status 500, or aborts its stream.
//! - Only [`Responder::send_event`] waits for the peer, for `HttpLimits::stall_timeout` at most.

use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use super::Response;
use super::response_head::{Field, chunk_size, is_bodiless, response_head};
use super::socket_writer::{Exchange, SocketWriter, State};

/// Responder of one exchange.
pub(crate) struct Responder {
    pub(super) writer: Arc<SocketWriter>,
    pub(super) id: u64,
    /// Header fields of the response.
    pub(super) common_fields: Vec<(&'static str, String)>,
}

impl Responder {
    /// Adds these header fields to the response.
    pub(crate) fn add_fields(&mut self, fields: Vec<(&'static str, String)>) {
        self.common_fields = fields;
    }

    /// Returns the id of the exchange, unique in its event loop.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Sends a whole response.
    pub(crate) fn send(&self, response: &Response) -> bool {
        let fields: Vec<Field<'_>> = response.fields().collect();
        self.respond(response.status, &fields, &response.body)
    }

    /// Sends a whole response without waiting. Returns `false` if the peer has disconnected or
    /// the exchange is over.
    ///
    /// Length, date and connection fields are added.
    pub(crate) fn respond(&self, status: u16, fields: &[Field<'_>], body: &[u8]) -> bool {
        let Some(mut state) = self.lock_if(Exchange::Pending(self.id)) else { return false };
        let head = self.head(&state, status, fields, Some(body.len()));
        let body = if state.options.head_only || is_bodiless(status) { &[] } else { body };
        let sent = self.writer.send(&mut state, &[&head, body]);
        if sent {
            self.writer.finish(&mut state, Instant::now());
        }
        sent
    }

    /// Sends status 200 and an event stream that begins with `first`, which may be empty, in one
    /// write. Returns `false` if the peer has disconnected, the exchange is over or has a response,
    /// or too many streams are open. In the last case another response can be sent.
    pub(crate) fn start_events(&self, fields: &[Field<'_>], first: &[u8]) -> bool {
        let Some(mut state) = self.lock_if(Exchange::Pending(self.id)) else { return false };
        if state.peer_closed || !self.writer.begin_events(&mut state) {
            return false;
        }
        state.options.keep_alive &= !state.options.http_10;
        let head = self.head(&state, 200, fields, None);
        self.send_chunk(&mut state, &head, first, b"")
    }

    /// Sends an event. Waits while the peer's backlog is full, for `HttpLimits::stall_timeout` at
    /// most; then the stream is aborted. It is aborted at once while half as many threads as there
    /// are workers wait already, and on the thread of the event loop if the socket does not accept
    /// enough now. Returns `false` if the stream is over.
    ///
    /// For the thread of a handler; others use [`try_send_event`](Self::try_send_event).
    pub(crate) fn send_event(&self, bytes: &[u8]) -> bool {
        let Some(state) = self.lock_if(Exchange::Streaming(self.id)) else { return false };
        let deadline = Instant::now() + self.writer.shared.limits.stall_timeout;
        let (mut state, has_space) = self.writer.wait_for_space(state, bytes.len(), deadline);
        self.send_if(&mut state, has_space, bytes)
    }

    /// Sends an event without waiting. A full backlog aborts the stream.
    pub(crate) fn try_send_event(&self, bytes: &[u8]) -> bool {
        let Some(mut state) = self.lock_if(Exchange::Streaming(self.id)) else { return false };
        let has_space = self.writer.has_space(&state, bytes.len());
        self.send_if(&mut state, has_space, bytes)
    }

    fn send_if(&self, state: &mut State, has_space: bool, bytes: &[u8]) -> bool {
        if state.exchange != Exchange::Streaming(self.id) {
            return false;
        }
        if !has_space {
            self.writer.abort(state);
            return false;
        }
        self.send_chunk(state, b"", bytes, b"")
    }

    /// Ends the event stream with a last event, which may be empty, without waiting. Returns
    /// `false` if it could not be sent.
    pub(crate) fn finish(&self, last: &[u8]) -> bool {
        let Some(mut state) = self.lock_if(Exchange::Streaming(self.id)) else { return false };
        let sent = self.send_chunk(&mut state, b"", last, b"0\r\n\r\n");
        if sent {
            self.writer.finish(&mut state, Instant::now());
        }
        sent
    }

    /// Aborts the connection. [`Service::disconnected`](super::Service) is not called.
    pub(crate) fn abort(&self) {
        let mut state = self.writer.state();
        if state.exchange.id() == Some(self.id) {
            self.writer.abort(&mut state);
            state.exchange = Exchange::None;
        }
    }

    /// Returns whether the peer closed its side or the exchange is over.
    pub(crate) fn is_closed(&self) -> bool {
        let state = self.writer.state();
        state.exchange.id() != Some(self.id) || state.peer_closed || state.socket.is_none()
    }

    /// Returns whether the backlog is more than half full.
    pub(crate) fn is_congested(&self) -> bool {
        let state = self.writer.state();
        state.exchange.id() == Some(self.id) && state.queued_bytes() > self.writer.shared.backlog_bytes / 2
    }

    /// Locks the state if the connection is open and its exchange is this one.
    fn lock_if(&self, exchange: Exchange) -> Option<MutexGuard<'_, State>> {
        let state = self.writer.state();
        (state.exchange == exchange && state.socket.is_some()).then_some(state)
    }

    /// Sends a head, `bytes` as a chunk, and the end of the stream. Each may be empty.
    fn send_chunk(&self, state: &mut State, head: &[u8], bytes: &[u8], end: &[u8]) -> bool {
        state.last_activity = Instant::now();
        match state.options {
            options if options.head_only => self.writer.send(state, &[head]),
            options if options.http_10 => self.writer.send(state, &[head, bytes]),
            _ if bytes.is_empty() => self.writer.send(state, &[head, end]),
            _ => {
                let (size, len) = chunk_size(bytes.len());
                self.writer.send(state, &[head, &size[..len], bytes, b"\r\n", end])
            }
        }
    }

    fn head(&self, state: &State, status: u16, fields: &[Field<'_>], length: Option<usize>) -> Vec<u8> {
        let common = self.common_fields.iter().map(|(name, value)| (*name, value.as_str()));
        let fields = fields.iter().copied().chain(common);
        response_head(status, &self.writer.shared.date(), fields, length, state.options)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let exchange = self.writer.state().exchange;
        if exchange.id() == Some(self.id) && !self.respond(500, &[], &[]) {
            self.abort();
        }
    }
}
