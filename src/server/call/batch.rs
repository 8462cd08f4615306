//! Responses to a batch of messages, collected into one array.
//!
//! Only sessions of revision 2025-03-26 may send batches (its basic/index). Notifications and
//! requests of the batch's calls are not part of the array and are sent at once.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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
    answers: Vec<u8>,
    /// Calls without a response that are not abandoned.
    open: usize,
    /// Every message of the batch was dispatched.
    complete: bool,
}

impl Batch {
    pub(crate) fn new(sink: Arc<dyn ReplySink>) -> Arc<Batch> {
        Arc::new(Batch { sink, state: Mutex::default() })
    }

    /// Moves responses that were ready at once into the batch.
    pub(crate) fn collect(&self, out: &mut Writer) {
        if !out.is_empty() {
            lock(&self.state).add(out.as_bytes());
            out.clear();
        }
    }

    /// Marks the batch as dispatched; the array is sent when the last call is settled. Returns
    /// whether there is anything to send.
    pub(crate) fn complete(&self) -> bool {
        let mut answers = false;
        self.change(|state| {
            state.complete = true;
            answers = state.open > 0 || !state.answers.is_empty();
        });
        answers
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        // A batch with only notifications gets no response.
        if state.complete && state.open == 0 && state.answers.pop().is_some() {
            let mut frame = Vec::with_capacity(state.answers.len() + 3);
            frame.push(b'[');
            frame.append(&mut state.answers);
            frame.extend_from_slice(b"]\n");
            drop(state);
            self.sink.answer(&frame, Encoded::default());
        }
    }
}

impl State {
    fn add(&mut self, frames: &[u8]) {
        for frame in frames.split(|b| *b == b'\n').filter(|f| !f.is_empty()) {
            self.answers.extend_from_slice(frame);
            self.answers.push(b',');
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
    #[cold]
    fn expect(&self) {
        lock(&self.state).open += 1;
    }

    #[cold]
    fn answer(&self, frame: &[u8], _: Encoded) {
        self.change(|state| {
            state.add(frame);
            state.open = state.open.saturating_sub(1);
        });
    }

    #[cold]
    fn abandon(&self) {
        let mut is_silent = false;
        self.change(|state| {
            state.open = state.open.saturating_sub(1);
            is_silent = state.complete && state.open == 0 && state.answers.is_empty();
        });
        // Every call was cancelled, so nothing is sent, but the response to the batch must end.
        if is_silent {
            self.sink.abandon();
        }
    }

    #[cold]
    fn post(&self, frames: &[u8], answer: Option<Encoded>) -> bool {
        let Some(encoded) = answer else { return self.sink.post(frames, None) };
        // An empty post reports whether the sink below supports posting.
        let can = self.sink.post(b"", None);
        if can {
            self.answer(frames, encoded);
        }
        can
    }

    fn principal(&self) -> Option<&str> {
        self.sink.principal()
    }

    fn pause(&self, time: Duration) {
        self.sink.pause(time);
    }
}
