//! Where the answer to one POST goes: plain JSON, or an event stream as soon as something has to be
//! said before the answer.
//!
//! # Invariants
//! - Nothing is committed before the first frame: only an answer that leaves alone has a status of
//!   its own (MCP 2026-07-28 basic/index, error codes).
//! - A client that does not read event streams gets its answer and nothing else.
//! - The peer of a call without a session is gone when its connection is; that of a call in a
//!   session may come back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::era::Encoded;
use crate::era::http::HttpEra;
use crate::transport::http_server::{Exchange, Field};
use crate::transport::{FrameSink, ReplySink, sse};

use super::stream::{EVENTS, Pace, Streams};

pub(super) const JSON: Field<'static> = ("content-type", "application/json");

/// Which answers a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    /// Reads `Accept` (RFC 9110 §12.5.1); a client that does not say reads everything.
    pub(super) fn read<'f>(fields: impl Iterator<Item = &'f [u8]>) -> Accepts {
        let mut fields = fields.peekable();
        let all = fields.peek().is_none();
        let mut accepts = Accepts { json: all, events: all };
        for range in fields.flat_map(|field| field.split(|byte| *byte == b',')) {
            let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let kind = parts.next().unwrap_or_default();
            if parts.any(|p| matches!(p, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000")) {
                continue;
            }
            let is = |name: &str| kind.eq_ignore_ascii_case(name.as_bytes());
            accepts.json |= is("application/json") || is("application/*") || is("*/*");
            accepts.events |= is(sse::MEDIA_TYPE) || is("text/*") || is("*/*");
        }
        accepts
    }
}

/// Bytes of the messages whose answers are outstanding, counted while this lives.
pub(super) struct Load {
    total: Arc<AtomicUsize>,
    bytes: usize,
    fits: bool,
}

impl Load {
    /// Counts `bytes` in.
    pub(super) fn take(total: &Arc<AtomicUsize>, bytes: usize, most: usize) -> Load {
        let before = total.fetch_add(bytes, Ordering::Relaxed);
        Load { total: Arc::clone(total), bytes, fits: before == 0 || before + bytes <= most }
    }

    /// Whether all of them were no more than they may be, or nothing else was counted.
    pub(super) fn fits(&self) -> bool {
        self.fits
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The way back of one POST.
pub(super) struct Reply {
    pub(super) exchange: Arc<Exchange>,
    pub(super) era: Option<&'static dyn HttpEra>,
    pub(super) accepts: Accepts,
    pub(super) principal: Option<Arc<str>>,
    /// The streams of its session.
    pub(super) streams: Option<Arc<Streams>>,
    pub(super) mode: Mutex<Mode>,
    pub(super) load: Load,
}

/// What has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Nothing,
    /// The head of an event stream; its number in the session.
    Stream(u32),
    /// Everything, or as much as can be.
    Over,
}

impl Reply {
    fn mode(&self) -> MutexGuard<'_, Mode> {
        self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers with this frame and these fields beside the usual ones.
    pub(super) fn answer_with(&self, frame: &[u8], encoded: Encoded, fields: &[Field<'_>]) {
        let mut mode = self.mode();
        let before = std::mem::replace(&mut *mode, Mode::Over);
        drop(mode);
        let frame = frame.strip_suffix(b"\n").unwrap_or(frame);
        match (before, &self.streams) {
            (Mode::Stream(stream), Some(streams)) => streams.send(stream, frame, Pace::Last),
            (Mode::Stream(_), None) => {
                self.exchange.end(&event(frame));
            }
            (Mode::Nothing, _) => {
                let status = self.era.map_or(200, |era| era.status(encoded));
                if self.accepts.json || status != 200 {
                    let mut all = Vec::with_capacity(fields.len() + 1);
                    all.push(JSON);
                    all.extend_from_slice(fields);
                    self.exchange.respond(status, &all, frame);
                } else {
                    let all: Vec<Field<'_>> = EVENTS.iter().chain(fields).copied().collect();
                    if self.exchange.open_events(&all, &event(frame)) {
                        self.exchange.end(b"");
                    } else {
                        self.refuse();
                    }
                }
            }
            (Mode::Over, _) => {}
        }
    }

    /// Says that there is no room now.
    pub(super) fn refuse(&self) {
        *self.mode() = Mode::Over;
        self.exchange.respond(503, &[("retry-after", "1")], b"");
    }

    /// Sends frames as events, on a stream that is opened for them if need be. False: that cannot
    /// be done.
    fn events(&self, frames: &[u8], pace: Pace) -> bool {
        let mut mode = self.mode();
        match (*mode, &self.streams) {
            (Mode::Over, _) => true,
            (Mode::Nothing, _) if !self.accepts.events => false,
            (Mode::Nothing, Some(streams)) => match streams.open(&self.exchange, frames) {
                Some(stream) => {
                    *mode = Mode::Stream(stream);
                    true
                }
                None => false,
            },
            (Mode::Nothing, None) => {
                let opened = self.exchange.open_events(&EVENTS, &all_events(frames));
                if opened {
                    *mode = Mode::Stream(0);
                }
                opened
            }
            (Mode::Stream(stream), Some(streams)) => {
                drop(mode);
                streams.send(stream, frames, pace);
                true
            }
            (Mode::Stream(_), None) => {
                drop(mode);
                let events = all_events(frames);
                match pace {
                    Pace::Patient => self.exchange.event(&events),
                    _ => self.exchange.event_now(&events),
                };
                true
            }
        }
    }
}

impl FrameSink for Reply {
    /// What a handler reports is dropped for a client that cannot be told; its call goes on.
    fn send(&self, frames: &[u8]) {
        self.events(frames, Pace::Patient);
    }

    fn closed(&self) -> bool {
        match &self.streams {
            Some(streams) => *self.mode() == Mode::Over || streams.closed(),
            None => self.exchange.closed(),
        }
    }

    fn congested(&self) -> bool {
        self.exchange.congested()
    }

    fn close(&self, _deadline: Instant) {}
}

impl ReplySink for Reply {
    fn answer(&self, frame: &[u8], encoded: Encoded) {
        self.answer_with(frame, encoded, &[]);
    }

    /// A call that cannot go on without what is posted here ends where it cannot be told.
    fn post(&self, frames: &[u8], answer: Option<Encoded>) -> bool {
        if let Some(encoded) = answer {
            self.answer(frames, encoded);
        } else if !frames.is_empty() && !self.events(frames, Pace::Now) {
            self.refuse();
        }
        true
    }

    /// A client that cancelled waits for nothing, but its request has to come to an end.
    fn abandon(&self) {
        let before = std::mem::replace(&mut *self.mode(), Mode::Over);
        match (before, &self.streams) {
            (Mode::Stream(stream), Some(streams)) => streams.abandon(stream),
            (Mode::Stream(_), None) => drop(self.exchange.end(b"")),
            (Mode::Nothing, _) if self.accepts.events && self.exchange.open_events(&EVENTS, b"") => {
                self.exchange.end(b"");
            }
            (Mode::Nothing, _) => drop(self.exchange.respond(202, &[], b"")),
            (Mode::Over, _) => {}
        }
    }

    /// The client of a session may reconnect.
    fn exchange(&self) -> Option<u64> {
        self.streams.is_none().then(|| self.exchange.id())
    }

    fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    fn pause(&self, time: Duration) {
        let Some(streams) = &self.streams else { return };
        if !streams.resumes() || !self.events(b"", Pace::Now) {
            return;
        }
        let mode = *self.mode();
        if let Mode::Stream(stream) = mode {
            streams.pause(stream, time);
        }
    }
}

fn event(frame: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(frame.len() + 16);
    sse::event(&mut out, None, frame);
    out
}

fn all_events(frames: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(frames.len() + 32);
    for frame in frames.split(|byte| *byte == b'\n').filter(|frame| !frame.is_empty()) {
        sse::event(&mut out, None, frame);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_reads_is_read() {
        for (field, json, events) in [
            ("application/json, text/event-stream", true, true),
            ("text/event-stream,application/json;q=0.5", true, true),
            ("application/json", true, false),
            ("TEXT/Event-Stream", false, true),
            ("*/*", true, true),
            ("text/*", false, true),
            ("application/*;q=0", false, false),
            ("text/html", false, false),
            ("", false, false),
            ("application/json; q=0, */*", true, true),
        ] {
            assert_eq!(Accepts::read([field.as_bytes()].into_iter()), Accepts { json, events }, "{field}");
        }
        let none: [&[u8]; 0] = [];
        assert_eq!(Accepts::read(none.into_iter()), Accepts { json: true, events: true });
        let two: [&[u8]; 2] = [b"application/json", b"text/event-stream"];
        assert_eq!(Accepts::read(two.into_iter()), Accepts { json: true, events: true });
    }
}
