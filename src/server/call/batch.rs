//! Responses to a batch of messages, collected into one array.
//!
//! Only sessions of revision 2025-03-26 may send batches (its basic/index). Notifications and
//! requests to the client that its calls send are not part of the array; they are sent at once.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::era::Encoded;
use crate::json::Writer;
use crate::sync::lock;
use crate::transport::{FrameSink, ReplySink};

/// Sink that holds the responses of one batch until all of them are complete.
pub(crate) struct Batch {
    sink: Arc<dyn ReplySink>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The responses so far, each followed by a comma.
    responses: Vec<u8>,
    /// Calls without a response that are not abandoned.
    open: usize,
    /// Set when every message of the batch was dispatched.
    complete: bool,
}

impl Batch {
    pub(crate) fn new(sink: Arc<dyn ReplySink>) -> Arc<Batch> {
        Arc::new(Batch { sink, state: Mutex::default() })
    }

    /// Moves the responses in `out` into the batch.
    pub(crate) fn collect(&self, out: &mut Writer) {
        if !out.is_empty() {
            lock(&self.state).add(out.as_bytes());
            out.clear();
        }
    }

    /// Marks the batch as dispatched; the array is sent when the last call is settled. Returns
    /// whether the batch has a response.
    pub(crate) fn complete(&self) -> bool {
        let mut has_response = false;
        self.change(|state| {
            state.complete = true;
            has_response = state.open > 0 || !state.responses.is_empty();
        });
        has_response
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        // A batch with only notifications gets no response.
        if state.complete && state.open == 0 && state.responses.pop().is_some() {
            let mut frame = Vec::with_capacity(state.responses.len() + 3);
            frame.push(b'[');
            frame.append(&mut state.responses);
            frame.extend_from_slice(b"]\n");
            drop(state);
            self.sink.respond(&frame, Encoded::default());
        }
    }
}

impl State {
    fn add(&mut self, frames: &[u8]) {
        for frame in frames.split(|b| *b == b'\n').filter(|f| !f.is_empty()) {
            self.responses.extend_from_slice(frame);
            self.responses.push(b',');
        }
    }
}

impl FrameSink for Batch {
    fn send(&self, frames: &[u8]) {
        self.sink.send(frames);
    }

    fn closed(&self) -> bool {
        self.sink.closed()
    }

    fn congested(&self) -> bool {
        self.sink.congested()
    }

    fn close(&self, deadline: Instant) {
        self.sink.close(deadline);
    }
}

impl ReplySink for Batch {
    fn wrapped(&self) -> Option<&dyn ReplySink> {
        Some(&*self.sink)
    }

    #[cold]
    fn expect_response(&self) {
        lock(&self.state).open += 1;
    }

    #[cold]
    fn respond(&self, frame: &[u8], _: Encoded) {
        self.change(|state| {
            state.add(frame);
            state.open = state.open.saturating_sub(1);
        });
    }

    #[cold]
    fn cancel_response(&self) {
        let mut is_silent = false;
        self.change(|state| {
            state.open = state.open.saturating_sub(1);
            is_silent = state.complete && state.open == 0 && state.responses.is_empty();
        });
        // Every call was cancelled, so there is no response, but the HTTP exchange of the batch
        // must end.
        if is_silent {
            self.sink.cancel_response();
        }
    }

    #[cold]
    fn try_send(&self, frames: &[u8], response: Option<Encoded>) -> bool {
        let Some(encoded) = response else { return self.sink.try_send(frames, None) };
        // Without frames, this returns whether the wrapped sink can send without blocking.
        let can = self.sink.try_send(b"", None);
        if can {
            self.respond(frames, encoded);
        }
        can
    }
}
