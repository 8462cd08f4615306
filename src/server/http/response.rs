//! Response to one POST: JSON, or an event stream if other frames are sent before the response.
//!
//! # Invariants
//! - Nothing is sent before the first frame: only a response without an event stream has a status
//!   of its own (MCP 2026-07-28 basic/index, error codes).
//! - A client that does not accept event streams gets the response only.
//! - A call without a session ends with its connection. In a session the client may reconnect.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::era::Encoded;
use crate::era::http::HttpEra;
use crate::sync::lock;
use crate::transport::http_server::{Accepts, Field, Peer, Responder};
use crate::transport::tap::Tap;
use crate::transport::{FrameSink, ReplySink, sse};

use super::auth::Principal;
use super::event_streams::{EVENTS, EventStreams, SendMode, frames_in};
use super::headers::Headers;

pub(super) const JSON: Field<'static> = ("content-type", "application/json");

/// Share of a message in the bytes of messages without a response, counted until this is dropped.
pub(super) struct InFlightBytes {
    total: Arc<AtomicUsize>,
    bytes: usize,
    fits: bool,
}

impl InFlightBytes {
    pub(super) fn add(total: &Arc<AtomicUsize>, bytes: usize, limit: usize) -> InFlightBytes {
        let before = total.fetch_add(bytes, Ordering::Relaxed);
        InFlightBytes { total: Arc::clone(total), bytes, fits: before == 0 || before + bytes <= limit }
    }

    /// Returns whether the total was within the limit, or these bytes were the only ones.
    pub(super) fn fits(&self) -> bool {
        self.fits
    }
}

impl Drop for InFlightBytes {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Response to one POST.
pub(super) struct PostResponse {
    pub(super) responder: Arc<Responder>,
    pub(super) era: Option<&'static dyn HttpEra>,
    pub(super) accepts: Accepts,
    pub(super) principal: Option<Arc<Principal>>,
    /// The program's observer of frames.
    pub(super) tap: Option<Tap>,
    /// Fields of the request's head for handlers.
    pub(super) headers: Headers,
    /// The event streams of its session.
    pub(super) streams: Option<Arc<EventStreams>>,
    pub(super) progress: Mutex<Progress>,
    pub(super) in_flight: InFlightBytes,
}

/// Progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Unsent,
    /// An event stream has begun; its number in the session.
    Streaming(u32),
    Done,
}

impl PostResponse {
    fn observe(&self, frames: &[u8]) {
        if let Some(tap) = self.tap.as_ref().filter(|_| *self.progress() != Progress::Done) {
            tap.sent(frames);
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// Ends the response, and returns its progress before.
    fn end(&self) -> Progress {
        std::mem::replace(&mut *self.progress(), Progress::Done)
    }

    /// Sends the final frame. `fields` are used unless an event stream has begun.
    pub(super) fn respond_with(&self, frame: &[u8], encoded: Encoded, fields: &[Field<'_>]) {
        let frame = frame.strip_suffix(b"\n").unwrap_or(frame);
        self.observe(frame);
        match (self.end(), &self.streams) {
            (Progress::Streaming(stream), Some(streams)) => streams.send(stream, frame, SendMode::Final),
            (Progress::Streaming(_), None) => {
                self.responder.finish(&events(frame));
            }
            (Progress::Unsent, _) => {
                let status = self.era.map_or(200, |era| era.status(encoded));
                let json = self.accepts.json || status != 200;
                let head = if json { &[JSON][..] } else { &EVENTS };
                // Only the response that opens a session has further fields.
                let all = if fields.is_empty() { head.into() } else { Cow::from([head, fields].concat()) };
                if json {
                    self.responder.respond(status, &all, frame);
                } else if self.responder.start_events(&all, &events(frame)) {
                    self.responder.finish(b"");
                } else {
                    self.refuse();
                }
            }
            (Progress::Done, _) => {}
        }
    }

    /// Responds with the error of a call that exceeds a limit of its caller.
    #[cold]
    pub(super) fn refuse_for(&self, frame: &[u8], seconds: u32) {
        let frame = frame.strip_suffix(b"\n").unwrap_or(frame);
        self.observe(frame);
        self.end();
        self.responder.respond(429, &[JSON, ("retry-after", &seconds.to_string())], frame);
    }

    /// Responds with status 503.
    pub(super) fn refuse(&self) {
        self.end();
        self.responder.respond(503, &[("retry-after", "1")], b"");
    }

    /// Sends frames as events, and begins an event stream if necessary. Returns `false` if that is
    /// impossible.
    fn send_events(&self, frames: &[u8], mode: SendMode) -> bool {
        if self.accepts.events {
            self.observe(frames);
        }
        let mut progress = self.progress();
        match (*progress, &self.streams) {
            (Progress::Done, _) => {}
            (Progress::Unsent, _) if !self.accepts.events => return false,
            (Progress::Unsent, streams) => {
                let stream = match streams {
                    Some(streams) => streams.open(&self.responder, frames),
                    None => self.responder.start_events(&EVENTS, &events(frames)).then_some(0),
                };
                let Some(stream) = stream else { return false };
                *progress = Progress::Streaming(stream);
            }
            (Progress::Streaming(stream), streams) => {
                drop(progress);
                match (streams, mode) {
                    (Some(streams), _) => streams.send(stream, frames, mode),
                    (None, SendMode::Blocking) => drop(self.responder.send_event(&events(frames))),
                    (None, _) => drop(self.responder.try_send_event(&events(frames))),
                }
            }
        }
        true
    }
}

impl FrameSink for PostResponse {
    /// Frames that the client does not accept are dropped. The call continues.
    fn send(&self, frames: &[u8]) {
        self.send_events(frames, SendMode::Blocking);
    }

    fn closed(&self) -> bool {
        match &self.streams {
            Some(streams) => *self.progress() == Progress::Done || streams.closed(),
            None => self.responder.is_closed(),
        }
    }

    fn congested(&self) -> bool {
        self.responder.is_congested()
    }

    fn close(&self, _deadline: Instant) {}
}

impl ReplySink for PostResponse {
    /// `None` in a session, whose client may reconnect.
    fn exchange(&self) -> Option<u64> {
        self.streams.is_none().then(|| self.responder.id())
    }

    fn respond(&self, frame: &[u8], encoded: Encoded) {
        self.respond_with(frame, encoded, &[]);
    }

    /// The call cannot continue without these frames. If the client does not accept them, the call
    /// is rejected.
    fn try_send(&self, frames: &[u8], response: Option<Encoded>) -> bool {
        if let Some(encoded) = response {
            self.respond(frames, encoded);
        } else if !frames.is_empty() && !self.send_events(frames, SendMode::NonBlocking) {
            self.refuse();
        }
        true
    }

    /// The client that cancelled expects no response, but its HTTP request must end.
    fn cancel_response(&self) {
        match (self.end(), &self.streams) {
            (Progress::Streaming(stream), Some(streams)) => streams.abandon(stream),
            (Progress::Streaming(_), None) => drop(self.responder.finish(b"")),
            (Progress::Unsent, _) if self.accepts.events && self.responder.start_events(&EVENTS, b"") => {
                self.responder.finish(b"");
            }
            (Progress::Unsent, _) => drop(self.responder.respond(202, &[], b"")),
            (Progress::Done, _) => {}
        }
    }

    fn principal(&self) -> Option<&str> {
        self.principal.as_ref().map(|principal| &*principal.name)
    }

    fn scopes(&self) -> &[String] {
        self.principal.as_ref().map_or(&[], |principal| &principal.scopes)
    }

    fn peer(&self) -> Option<Peer> {
        self.responder.peer()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    fn session(&self) -> Option<u64> {
        self.streams.as_ref().map(|streams| streams.number)
    }

    fn pause(&self, time: Duration) {
        let Some(streams) = &self.streams else { return };
        if !streams.resumes() || !self.send_events(b"", SendMode::NonBlocking) {
            return;
        }
        let progress = *self.progress();
        if let Progress::Streaming(stream) = progress {
            streams.pause(stream, time);
        }
    }
}

/// Formats frames as events without ids.
fn events(frames: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(frames.len() + 32);
    for frame in frames_in(frames) {
        sse::event(&mut out, None, frame);
    }
    out
}
