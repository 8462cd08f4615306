//! Event streams of one session, with replay for clients that reconnect.
//!
//! Stream 0 is opened with GET and carries the messages that belong to no call. Every other stream
//! is the response to a POST. An event id consists of the number of its stream and its own number
//! in the session, such as `3-17`. Sent events are stored within the limits of the session and of
//! all sessions.
//!
//! Source: MCP 2025-11-25 basic/transports (listening, multiple connections, resumability).
//!
//! # Invariants
//! - A message belongs to one stream, and a stream to at most one exchange at a time.
//! - Event numbers grow over all streams of the session.
//! - The lock is not held while a thread waits for a peer.
//! - `ReplayBudget::bytes` is the sum of the stored frames of all sessions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::era::Encoded;
use crate::limits::HttpLimits;
use crate::sync::lock;
use crate::transport::http_server::{Field, Responder};
use crate::transport::{FrameSink, ReplySink, sse};

/// Fields of every event stream. `X-Accel-Buffering` makes reverse proxies forward events at once
/// (MCP 2026-07-28 basic/transports/streamable-http).
pub(super) const EVENTS: [Field<'static>; 3] =
    [("content-type", sse::MEDIA_TYPE), ("cache-control", "no-cache"), ("x-accel-buffering", "no")];

/// The stream that belongs to no call.
const GENERAL: u32 = 0;

/// Limits on stored events, and the bytes stored by all sessions.
pub(super) struct ReplayBudget {
    bytes: AtomicUsize,
    max_bytes: usize,
    max_events: usize,
    retry: Duration,
}

impl ReplayBudget {
    pub(super) fn new(limits: &HttpLimits) -> ReplayBudget {
        ReplayBudget {
            bytes: AtomicUsize::new(0),
            max_bytes: limits.replay_bytes,
            max_events: limits.replay,
            retry: limits.retry,
        }
    }
}

/// The event streams of one session.
pub(super) struct EventStreams {
    /// Number of the session: that of the exchange that opened it.
    pub(super) number: u64,
    budget: Arc<ReplayBudget>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Set if the client's revision allows events without data and retry times.
    resumes: bool,
    ended: bool,
    last_stream: u32,
    last_event: u64,
    stored: VecDeque<StoredEvent>,
    stored_bytes: usize,
    /// Streams of unfinished responses.
    open: Vec<(u32, Option<Arc<Responder>>)>,
    general: Option<Arc<Responder>>,
    /// Number of the last event sent on the general stream.
    last_sent: u64,
}

/// An event that was sent, or will be when the client opens the general stream.
struct StoredEvent {
    stream: u32,
    number: u64,
    /// Set if the stream ends with this event.
    last: bool,
    frame: Box<[u8]>,
}

/// Mode of sending a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendMode {
    /// Waits for a slow peer.
    Blocking,
    NonBlocking,
    /// Does not wait, and ends the stream.
    Final,
}

/// Id of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    stream: u32,
    number: u64,
}

impl EventId {
    pub(super) fn parse(id: &[u8]) -> Option<EventId> {
        let (stream, number) = std::str::from_utf8(id).ok()?.split_once('-')?;
        Some(EventId { stream: stream.parse().ok()?, number: number.parse().ok()? })
    }
}

/// Result of [`EventStreams::attach`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attach {
    Attached,
    /// The events are no longer stored.
    Expired,
    TooManyStreams,
}

impl EventStreams {
    pub(super) fn new(number: u64, budget: &Arc<ReplayBudget>) -> EventStreams {
        EventStreams { number, budget: Arc::clone(budget), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Allows events without data and retry times.
    pub(super) fn set_resumes(&self) {
        self.state().resumes = true;
    }

    pub(super) fn resumes(&self) -> bool {
        self.state().resumes
    }

    /// Responds to a POST with a stream that begins with these frames. Returns its number; `None`
    /// if the client has disconnected or too many streams are open.
    pub(super) fn open(&self, responder: &Arc<Responder>, frames: &[u8]) -> Option<u32> {
        let mut state = self.state();
        state.last_stream += 1;
        let stream = state.last_stream;
        let mut out = Vec::with_capacity(frames.len() + 64);
        self.prime(&mut state, stream, &mut out);
        for frame in frames_in(frames) {
            self.store(&mut state, stream, frame, false, &mut out);
        }
        if !responder.start_events(&EVENTS, &out) {
            return None;
        }
        state.open.push((stream, Some(Arc::clone(responder))));
        Some(stream)
    }

    /// Writes an event with an id and without data, if the client supports it (2025-11-25).
    fn prime(&self, state: &mut State, stream: u32, out: &mut Vec<u8>) {
        if state.resumes {
            state.last_event += 1;
            sse::retry(out, self.budget.retry.as_millis() as u64);
            // Removes the empty line: both fields belong to one event.
            out.pop();
            sse::event(out, Some(&format!("{stream}-{}", state.last_event)), b"");
        }
    }

    /// Writes a frame as an event with a number, and stores it.
    fn store(&self, state: &mut State, stream: u32, frame: &[u8], last: bool, out: &mut Vec<u8>) {
        state.last_event += 1;
        let number = state.last_event;
        sse::event(out, Some(&format!("{stream}-{number}")), frame);
        let budget = &self.budget;
        let max_bytes = budget.max_bytes / 4;
        let total = || budget.bytes.load(Ordering::Relaxed) + frame.len();
        while !state.stored.is_empty()
            && (state.stored.len() >= budget.max_events
                || state.stored_bytes + frame.len() > max_bytes
                || total() > budget.max_bytes)
        {
            self.drop_oldest(state);
        }
        if frame.len() <= max_bytes && total() <= budget.max_bytes && budget.max_events > 0 {
            budget.bytes.fetch_add(frame.len(), Ordering::Relaxed);
            state.stored_bytes += frame.len();
            state.stored.push_back(StoredEvent { stream, number, last, frame: frame.into() });
        }
    }

    fn drop_oldest(&self, state: &mut State) {
        if let Some(event) = state.stored.pop_front() {
            state.stored_bytes -= event.frame.len();
            self.budget.bytes.fetch_sub(event.frame.len(), Ordering::Relaxed);
        }
    }

    /// Sends frames on a stream that [`EventStreams::open`] opened.
    pub(super) fn send(&self, stream: u32, frames: &[u8], mode: SendMode) {
        let mut out = Vec::with_capacity(frames.len() + 32);
        let responder = {
            let mut state = self.state();
            let Some(at) = state.open.iter().position(|(open, _)| *open == stream) else { return };
            for frame in frames_in(frames) {
                self.store(&mut state, stream, frame, mode == SendMode::Final, &mut out);
            }
            match mode {
                SendMode::Final => state.open.swap_remove(at).1,
                _ => state.open.get(at).and_then(|(_, responder)| responder.clone()),
            }
        };
        if let Some(responder) = responder {
            match mode {
                SendMode::Blocking => responder.send_event(&out),
                SendMode::NonBlocking => responder.try_send_event(&out),
                SendMode::Final => responder.finish(&out),
            };
        }
    }

    /// Ends a stream without another event.
    pub(super) fn abandon(&self, stream: u32) {
        self.send(stream, b"", SendMode::Final);
    }

    /// Disconnects the peer of a stream, which reconnects after this time.
    pub(super) fn pause(&self, stream: u32, time: Duration) {
        let responder = {
            let mut state = self.state();
            if !state.resumes {
                return;
            }
            let open = state.open.iter_mut().find(|(open, _)| *open == stream);
            open.and_then(|(_, responder)| responder.take())
        };
        if let Some(responder) = responder {
            let mut out = Vec::new();
            sse::retry(&mut out, time.as_millis() as u64);
            responder.finish(&out);
        }
    }

    /// Attaches a client that sent GET to a stream: sends the events after `last_event`, and
    /// everything that follows. An older exchange of the same stream ends: its client reconnected.
    pub(super) fn attach(&self, responder: &Arc<Responder>, last_event: Option<EventId>) -> Attach {
        let mut state = self.state();
        let last_event = last_event.unwrap_or(EventId { stream: GENERAL, number: state.last_sent });
        let stream = last_event.stream;
        let missed = |event: &&StoredEvent| event.stream == stream && event.number > last_event.number;
        let over = state.stored.iter().any(|event| event.stream == stream && event.last);
        let at = state.open.iter().position(|(open, _)| *open == stream);
        if stream != GENERAL && at.is_none() && !over {
            return Attach::Expired;
        }
        let mut out = Vec::new();
        for event in state.stored.iter().filter(missed) {
            sse::event(&mut out, Some(&format!("{stream}-{}", event.number)), &event.frame);
        }
        // Without a replayed event, the client needs an id to reconnect with.
        if out.is_empty() && !over {
            self.prime(&mut state, stream, &mut out);
        }
        if !responder.start_events(&EVENTS, &out) {
            return Attach::TooManyStreams;
        }
        let replaced = match at {
            _ if stream == GENERAL => {
                state.last_sent = state.last_event;
                state.general.replace(Arc::clone(responder))
            }
            Some(at) => state.open.get_mut(at).and_then(|(_, open)| open.replace(Arc::clone(responder))),
            None => Some(Arc::clone(responder)),
        };
        drop(state);
        if let Some(replaced) = replaced {
            replaced.finish(b"");
        }
        Attach::Attached
    }

    /// Returns whether a stream or a response is open.
    pub(super) fn busy(&self) -> bool {
        let state = self.state();
        !state.open.is_empty() || state.general.as_ref().is_some_and(|general| !general.is_closed())
    }

    /// Returns whether a client is connected to any stream.
    pub(super) fn has_reader(&self) -> bool {
        let state = self.state();
        let responses = state.open.iter().filter_map(|(_, responder)| responder.as_ref());
        responses.chain(&state.general).any(|responder| !responder.is_closed())
    }

    /// Ends the general stream.
    pub(super) fn end_general(&self) {
        let general = self.state().general.take();
        if let Some(general) = general {
            general.finish(b"");
        }
    }

    /// Ends all streams. Later messages are dropped.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        while !state.stored.is_empty() {
            self.drop_oldest(&mut state);
        }
        let open = std::mem::take(&mut state.open);
        drop(state);
        for responder in open.into_iter().filter_map(|(_, responder)| responder) {
            responder.finish(b"");
        }
        self.end_general();
    }
}

impl Drop for EventStreams {
    fn drop(&mut self) {
        let bytes = self.state().stored_bytes;
        self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Sink for the messages that belong to no call: sends them on the general stream, or stores them
/// until it is opened.
impl FrameSink for EventStreams {
    fn send(&self, frames: &[u8]) {
        self.try_send(frames, None);
    }

    fn closed(&self) -> bool {
        self.state().ended
    }

    fn congested(&self) -> bool {
        let general = self.state().general.clone();
        general.is_some_and(|general| general.is_congested())
    }

    fn close(&self, _deadline: Instant) {
        self.end();
    }
}

impl ReplySink for EventStreams {
    fn try_send(&self, frames: &[u8], _response: Option<Encoded>) -> bool {
        let mut out = Vec::new();
        let mut state = self.state();
        if state.ended {
            return true;
        }
        let general = state.general.clone().filter(|general| !general.is_closed());
        for frame in frames_in(frames) {
            // A notification that waits to be sent is not stored twice.
            let unsent = |e: &StoredEvent| e.stream == GENERAL && e.number > state.last_sent;
            if !state.stored.iter().any(|event| unsent(event) && *event.frame == *frame) {
                self.store(&mut state, GENERAL, frame, false, &mut out);
            }
        }
        if let Some(general) = general {
            state.last_sent = state.last_event;
            drop(state);
            general.try_send_event(&out);
        }
        true
    }
}

/// Splits frames at their newlines.
pub(super) fn frames_in(frames: &[u8]) -> impl Iterator<Item = &[u8]> {
    frames.split(|byte| *byte == b'\n').filter(|frame| !frame.is_empty())
}
