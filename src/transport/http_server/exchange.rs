//! One request's way back to its peer, usable from any thread.
//!
//! An exchange is answered once: whole, or as an event stream of any length. It is over when that
//! is done; whatever is called afterwards does nothing. What it does not do: encode messages or
//! events, which come as bytes.
//!
//! # Invariants
//! - An exchange that is dropped open is ended: with status 500, or by cutting its stream.
//! - Nothing here waits for the peer but [`Exchange::event`], and that no longer than
//!   `HttpLimits::stall_timeout`.

use std::sync::Arc;
use std::sync::MutexGuard;
use std::time::Instant;

use super::answer::{Field, HEAD, Length, Persistence, chunk_size, length_of, write_head};
use super::wire::{Phase, Sent, State, Wire};

/// One request's way back.
pub(crate) struct Exchange {
    pub(super) wire: Arc<Wire>,
    pub(super) id: u64,
    /// Fields of whatever is answered.
    pub(super) along: Vec<(&'static str, String)>,
}

impl Exchange {
    /// Sends these fields along with whatever will be answered.
    pub(crate) fn say_along(&mut self, fields: Vec<(&'static str, String)>) {
        self.along = fields;
    }

    /// Tells it from every other exchange of this engine. Never zero.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Answers with a whole body, which may be empty. Returns without waiting; false if the peer is
    /// gone or the exchange was over.
    ///
    /// The length, the date and whether the connection stays open are said by the engine.
    pub(crate) fn respond(&self, status: u16, fields: &[Field<'_>], body: &[u8]) -> bool {
        let Some(mut state) = self.open(Phase::Asked) else { return false };
        let length = length_of(status, body.len());
        let body = if length == Length::None || state.manner.bodiless { &[] } else { body };
        let head = self.head(&state, status, fields, length);
        let sent = self.wire.send(&mut state, &[&head, body]);
        if sent == Sent::Broken {
            return false;
        }
        self.wire.finish(&mut state, Instant::now());
        true
    }

    /// Answers with status 200 and an event stream that starts with `first`, which may be empty;
    /// head and first event leave together. False if the peer is gone, the exchange was over or
    /// answered already, or as many streams are open as may be: then it can still be answered
    /// otherwise.
    pub(crate) fn open_events(&self, fields: &[Field<'_>], first: &[u8]) -> bool {
        let Some(mut state) = self.open(Phase::Asked) else { return false };
        if state.peer_gone || !self.wire.enter_events(&mut state) {
            return false;
        }
        let chunked = !state.manner.http_10;
        state.manner.keep &= chunked;
        let length = if chunked { Length::Chunked } else { Length::UntilClose };
        let head = self.head(&state, 200, fields, length);
        state.at = Instant::now();
        // Behind a head that stands for a body there must be none.
        let first = if state.manner.bodiless { &[] } else { first };
        let sent = match first {
            [] => self.wire.send(&mut state, &[&head]),
            _ if !chunked => self.wire.send(&mut state, &[&head, first]),
            _ => {
                let (size, len) = chunk_size(first.len());
                self.wire.send(&mut state, &[&head, &size[..len], first, b"\r\n"])
            }
        };
        sent != Sent::Broken
    }

    /// Sends an event, which leaves at once. Waits while too much waits for the peer already, for
    /// `HttpLimits::stall_timeout` at most; then the stream is cut. So it is at once while half as
    /// many threads as there are workers wait already. False once the stream is over.
    ///
    /// For the thread of a handler; others take [`event_now`](Self::event_now).
    pub(crate) fn event(&self, bytes: &[u8]) -> bool {
        let Some(state) = self.open(Phase::Events) else { return false };
        let deadline = Instant::now() + self.wire.shared.limits.stall_timeout;
        let (mut state, room) = self.wire.wait_for_room(state, bytes.len(), deadline);
        if state.exchange != self.id || state.phase != Phase::Events {
            return false;
        }
        if !room {
            self.wire.cut(&mut state);
            return false;
        }
        self.send_chunk(&mut state, bytes, b"\r\n")
    }

    /// Sends an event and never waits: if too much waits for the peer already, the stream is cut.
    pub(crate) fn event_now(&self, bytes: &[u8]) -> bool {
        let Some(mut state) = self.open(Phase::Events) else { return false };
        if !self.wire.fits(&state, bytes.len()) {
            self.wire.cut(&mut state);
            return false;
        }
        self.send_chunk(&mut state, bytes, b"\r\n")
    }

    /// Ends the event stream with one more event, which may be empty. Never waits. False if the
    /// peer did not get it.
    pub(crate) fn end(&self, last: &[u8]) -> bool {
        let Some(mut state) = self.open(Phase::Events) else { return false };
        let sent = if state.manner.http_10 || !last.is_empty() {
            self.send_chunk(&mut state, last, b"\r\n0\r\n\r\n")
        } else {
            state.manner.bodiless || self.wire.send(&mut state, &[b"0\r\n\r\n"]) != Sent::Broken
        };
        if sent {
            self.wire.finish(&mut state, Instant::now());
        }
        sent
    }

    /// Cuts the connection. The service is not told that its peer is gone.
    pub(crate) fn abort(&self) {
        let mut state = self.wire.state();
        if state.exchange == self.id {
            state.exchange = 0;
            self.wire.cut(&mut state);
        }
    }

    /// Whether the peer closed its side or the exchange is over.
    pub(crate) fn closed(&self) -> bool {
        let state = self.wire.state();
        state.exchange != self.id || state.peer_gone || state.socket.is_none()
    }

    /// Whether the peer reads more slowly than it is sent to.
    pub(crate) fn congested(&self) -> bool {
        let state = self.wire.state();
        state.exchange == self.id && state.waits() > self.wire.shared.backlog_bytes / 2
    }

    /// The state, if the exchange stands at this phase.
    fn open(&self, phase: Phase) -> Option<MutexGuard<'_, State>> {
        let state = self.wire.state();
        (state.exchange == self.id && state.phase == phase && state.socket.is_some()).then_some(state)
    }

    fn send_chunk(&self, state: &mut State, bytes: &[u8], end: &[u8]) -> bool {
        state.at = Instant::now();
        let sent = if state.manner.bodiless || bytes.is_empty() {
            Sent::All
        } else if state.manner.http_10 {
            self.wire.send(state, &[bytes])
        } else {
            let (size, len) = chunk_size(bytes.len());
            self.wire.send(state, &[&size[..len], bytes, end])
        };
        sent != Sent::Broken
    }

    fn head(&self, state: &State, status: u16, fields: &[Field<'_>], length: Length) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD);
        let persistence = match state.manner {
            _ if !state.manner.keep => Persistence::Close,
            manner if manner.http_10 => Persistence::KeepAndSay,
            _ => Persistence::Keep,
        };
        let along = self.along.iter().map(|(name, value)| (*name, value.as_str()));
        let fields = fields.iter().copied().chain(along);
        write_head(&mut head, status, &self.wire.shared.date(), fields, length, persistence);
        head
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let phase = {
            let state = self.wire.state();
            if state.exchange != self.id {
                return;
            }
            state.phase
        };
        if phase != Phase::Asked || !self.respond(500, &[], &[]) {
            self.abort();
        }
    }
}
