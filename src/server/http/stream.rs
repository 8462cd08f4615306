//! The event streams of one session: which are open, what was sent on them, and where a client that
//! comes back goes on.
//!
//! Stream 0 is the one that clients open with GET and that carries what belongs to no call; every
//! other one is the answer to a POST. An event's id names its stream and its number in the session:
//! `3-17`. What was sent is kept for a while, within the limits of the session and of all of them.
//!
//! Source: MCP 2025-11-25 basic/transports (listening, multiple connections, resumability).
//!
//! # Invariants
//! - Each message belongs to one stream, and a stream to at most one exchange at a time.
//! - Numbers grow, over all streams of the session.
//! - The lock is not held while anything waits for a peer.
//! - `Budget::bytes` is the sum of the kept frames of all sessions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::era::Encoded;
use crate::limits::HttpLimits;
use crate::transport::http_server::{Exchange, Field};
use crate::transport::{FrameSink, ReplySink, sse};

/// What every event stream's head says; `X-Accel-Buffering` asks proxies to pass events on at once
/// (MCP 2026-07-28 basic/transports/streamable-http).
pub(super) const EVENTS: [Field<'static>; 3] =
    [("content-type", sse::MEDIA_TYPE), ("cache-control", "no-cache"), ("x-accel-buffering", "no")];

/// The stream that belongs to no call.
const GENERAL: u32 = 0;

/// What all sessions may keep.
pub(super) struct Budget {
    bytes: AtomicUsize,
    most_bytes: usize,
    most_events: usize,
    retry: Duration,
}

impl Budget {
    pub(super) fn new(limits: &HttpLimits) -> Budget {
        Budget {
            bytes: AtomicUsize::new(0),
            most_bytes: limits.replay_bytes,
            most_events: limits.replay,
            retry: limits.retry,
        }
    }
}

/// The event streams of one session.
pub(super) struct Streams {
    budget: Arc<Budget>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the client understands an event that is only an id, and a wish when to come back.
    resumes: bool,
    ended: bool,
    last_stream: u32,
    last_event: u64,
    kept: VecDeque<Event>,
    kept_bytes: usize,
    /// Streams that something may still be sent on, except the general one.
    open: Vec<(u32, Option<Arc<Exchange>>)>,
    general: Option<Arc<Exchange>>,
    /// The last event that went out on the general stream.
    told: u64,
}

/// Something sent, or to be sent when the client comes.
struct Event {
    stream: u32,
    number: u64,
    /// Its stream ends with it.
    last: bool,
    frame: Box<[u8]>,
}

/// How a frame leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// After waiting for a peer that reads slowly.
    Patient,
    /// At once, or not at all.
    Now,
    /// At once, and nothing follows on this stream.
    Last,
}

/// Where a client wants to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    stream: u32,
    number: u64,
}

impl Place {
    /// Reads an event's id.
    pub(super) fn parse(id: &[u8]) -> Option<Place> {
        let (stream, number) = std::str::from_utf8(id).ok()?.split_once('-')?;
        Some(Place { stream: stream.parse().ok()?, number: number.parse().ok()? })
    }
}

/// What became of a client that came for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It gets them.
    Served,
    /// What it asks for is no longer kept.
    Forgotten,
    /// Too many streams are open.
    Crowded,
}

impl Streams {
    pub(super) fn new(budget: &Arc<Budget>) -> Streams {
        Streams { budget: Arc::clone(budget), state: Mutex::default() }
    }

    /// A panic while the lock is held leaves complete values behind, so poisoning is ignored.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client understands an event that is only an id.
    pub(super) fn set_resumes(&self) {
        self.state().resumes = true;
    }

    pub(super) fn resumes(&self) -> bool {
        self.state().resumes
    }

    /// Answers a POST with a stream that starts with these frames; gives its number.
    pub(super) fn open(&self, exchange: &Arc<Exchange>, frames: &[u8]) -> Option<u32> {
        let mut state = self.state();
        state.last_stream += 1;
        let stream = state.last_stream;
        let mut out = Vec::with_capacity(frames.len() + 64);
        self.prime(&mut state, stream, &mut out);
        for frame in lines(frames) {
            self.keep(&mut state, stream, frame, false, &mut out);
        }
        if !exchange.open_events(&EVENTS, &out) {
            return None;
        }
        state.open.push((stream, Some(Arc::clone(exchange))));
        Some(stream)
    }

    /// The event that only announces its id, for clients that understand it (2025-11-25).
    fn prime(&self, state: &mut State, stream: u32, out: &mut Vec<u8>) {
        if state.resumes {
            state.last_event += 1;
            sse::retry(out, self.budget.retry.as_millis() as u64);
            // Without the empty line: both are one event.
            out.pop();
            sse::event(out, Some(&format!("{stream}-{}", state.last_event)), b"");
        }
    }

    /// Numbers a frame, keeps it, and renders it as an event.
    fn keep(&self, state: &mut State, stream: u32, frame: &[u8], last: bool, out: &mut Vec<u8>) {
        state.last_event += 1;
        let number = state.last_event;
        sse::event(out, Some(&format!("{stream}-{number}")), frame);
        let budget = &self.budget;
        let most = budget.most_bytes / 4;
        while !state.kept.is_empty()
            && (state.kept.len() >= budget.most_events
                || state.kept_bytes + frame.len() > most
                || budget.bytes.load(Ordering::Relaxed) + frame.len() > budget.most_bytes)
        {
            self.forget(state);
        }
        let total = budget.bytes.load(Ordering::Relaxed) + frame.len();
        if frame.len() <= most && total <= budget.most_bytes && budget.most_events > 0 {
            budget.bytes.fetch_add(frame.len(), Ordering::Relaxed);
            state.kept_bytes += frame.len();
            state.kept.push_back(Event { stream, number, last, frame: frame.into() });
        }
    }

    fn forget(&self, state: &mut State) {
        if let Some(event) = state.kept.pop_front() {
            state.kept_bytes -= event.frame.len();
            self.budget.bytes.fetch_sub(event.frame.len(), Ordering::Relaxed);
        }
    }

    /// Sends frames on a stream that [`Streams::open`] gave.
    pub(super) fn send(&self, stream: u32, frames: &[u8], pace: Pace) {
        let mut out = Vec::with_capacity(frames.len() + 32);
        let exchange = {
            let mut state = self.state();
            let Some(at) = state.open.iter().position(|(open, _)| *open == stream) else { return };
            for frame in lines(frames) {
                self.keep(&mut state, stream, frame, pace == Pace::Last, &mut out);
            }
            match pace {
                Pace::Last => state.open.swap_remove(at).1,
                _ => state.open.get(at).and_then(|(_, exchange)| exchange.clone()),
            }
        };
        if let Some(exchange) = exchange {
            match pace {
                Pace::Patient => exchange.event(&out),
                Pace::Now => exchange.event_now(&out),
                Pace::Last => exchange.end(&out),
            };
        }
    }

    /// Ends a stream without another word.
    pub(super) fn abandon(&self, stream: u32) {
        self.send(stream, b"", Pace::Last);
    }

    /// Lets go of a stream's peer, who comes back after this time.
    pub(super) fn pause(&self, stream: u32, time: Duration) {
        let exchange = {
            let mut state = self.state();
            if !state.resumes {
                return;
            }
            let open = state.open.iter_mut().find(|(open, _)| *open == stream);
            open.and_then(|(_, exchange)| exchange.take())
        };
        if let Some(exchange) = exchange {
            let mut out = Vec::new();
            sse::retry(&mut out, time.as_millis() as u64);
            exchange.end(&out);
        }
    }

    /// Gives a client that came with GET what it missed, and everything that follows. An older
    /// exchange of the same stream is ended: its client came again.
    pub(super) fn come(&self, exchange: &Arc<Exchange>, place: Option<Place>) -> Came {
        let mut state = self.state();
        let place = place.unwrap_or(Place { stream: GENERAL, number: state.told });
        let stream = place.stream;
        let missed = |event: &&Event| event.stream == stream && event.number > place.number;
        let over = state.kept.iter().any(|event| event.stream == stream && event.last);
        let at = state.open.iter().position(|(open, _)| *open == stream);
        if stream != GENERAL && at.is_none() && !over {
            return Came::Forgotten;
        }
        let mut out = Vec::new();
        for event in state.kept.iter().filter(missed) {
            sse::event(&mut out, Some(&format!("{stream}-{}", event.number)), &event.frame);
        }
        // Else the client has an id to come back with.
        if out.is_empty() && !over {
            self.prime(&mut state, stream, &mut out);
        }
        if !exchange.open_events(&EVENTS, &out) {
            return Came::Crowded;
        }
        let before = match at {
            _ if stream == GENERAL => {
                state.told = state.last_event;
                state.general.replace(Arc::clone(exchange))
            }
            Some(at) => state.open.get_mut(at).and_then(|(_, open)| open.replace(Arc::clone(exchange))),
            None => {
                exchange.end(b"");
                None
            }
        };
        drop(state);
        if let Some(before) = before {
            before.end(b"");
        }
        Came::Served
    }

    /// Whether a client listens, or waits for an answer.
    pub(super) fn busy(&self) -> bool {
        let state = self.state();
        !state.open.is_empty() || state.general.as_ref().is_some_and(|general| !general.closed())
    }

    /// Whether a client reads any of them now.
    pub(super) fn heard(&self) -> bool {
        let state = self.state();
        let calls = state.open.iter().filter_map(|(_, exchange)| exchange.as_ref());
        calls.chain(&state.general).any(|exchange| !exchange.closed())
    }

    /// Ends the general stream: nothing more will be told.
    pub(super) fn end_general(&self) {
        let general = self.state().general.take();
        if let Some(general) = general {
            general.end(b"");
        }
    }

    /// Ends everything; from now on nothing is sent or kept.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        while !state.kept.is_empty() {
            self.forget(&mut state);
        }
        let open = std::mem::take(&mut state.open);
        drop(state);
        for exchange in open.into_iter().filter_map(|(_, exchange)| exchange) {
            exchange.end(b"");
        }
        self.end_general();
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let bytes = self.state().kept_bytes;
        self.budget.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What belongs to no call goes out on the general stream, or waits for it.
impl FrameSink for Streams {
    fn send(&self, frames: &[u8]) {
        self.post(frames, None);
    }

    fn closed(&self) -> bool {
        self.state().ended
    }

    fn congested(&self) -> bool {
        let general = self.state().general.clone();
        general.is_some_and(|general| general.congested())
    }

    fn close(&self, _deadline: Instant) {
        self.end();
    }
}

impl ReplySink for Streams {
    fn post(&self, frames: &[u8], _answer: Option<Encoded>) -> bool {
        let mut out = Vec::new();
        let mut state = self.state();
        if state.ended {
            return true;
        }
        let general = state.general.clone().filter(|general| !general.closed());
        for frame in lines(frames) {
            // A change that nobody has been told of yet is told once.
            let known = |e: &Event| e.stream == GENERAL && e.number > state.told && *e.frame == *frame;
            if !state.kept.iter().any(known) {
                self.keep(&mut state, GENERAL, frame, false, &mut out);
            }
        }
        if let Some(general) = general {
            state.told = state.last_event;
            drop(state);
            general.event_now(&out);
        }
        true
    }
}

/// The frames of what is sent together.
fn lines(frames: &[u8]) -> impl Iterator<Item = &[u8]> {
    frames.split(|byte| *byte == b'\n').filter(|frame| !frame.is_empty())
}
