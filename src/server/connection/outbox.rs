//! Outgoing messages of threads that must not block: the watchdog and senders of notifications.
//!
//! A sender thread, started with the first message and ended when idle, sends queued messages in
//! order. Sinks that never block get them at once. Callers bound the queue: the watchdog posts at
//! most one response for each call in flight, and changes are not posted while [`Outbox::busy`].
//!
//! # Invariants
//! - `thread` is true while a sender thread will check the queue again before it ends.
//! - The lock is never held across a send.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::era::Encoded;
use crate::sync::{Condition, lock};
use crate::transport::ReplySink;

/// Idle time after which the sender thread ends.
const IDLE: Duration = Duration::from_secs(10);
/// Stack of the sender thread, which only copies bytes.
const STACK: usize = 64 << 10;
/// Queued bytes from which the client counts as not reading.
const BUSY_BYTES: usize = 64 << 10;

/// Queue of outgoing messages.
#[derive(Default)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condition,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Message>,
    /// Bytes of `messages` and of the one being sent.
    bytes: usize,
    thread: bool,
    sending: bool,
    closed: bool,
}

struct Message {
    to: Arc<dyn ReplySink>,
    frames: Vec<u8>,
    /// Set for an expected response, as [`FrameSink::answer`] takes it.
    answer: Option<Encoded>,
}

impl Outbox {
    /// Queues whole frames.
    pub(crate) fn send(&self, to: &Arc<dyn ReplySink>, frames: Vec<u8>) {
        self.put(Message { to: Arc::clone(to), frames, answer: None });
    }

    /// Queues an expected response.
    pub(crate) fn answer(&self, to: &Arc<dyn ReplySink>, frame: Vec<u8>, encoded: Encoded) {
        self.put(Message { to: Arc::clone(to), frames: frame, answer: Some(encoded) });
    }

    /// Returns whether messages that can wait should be sent later.
    pub(crate) fn busy(&self) -> bool {
        self.shared.state().bytes >= BUSY_BYTES
    }

    /// Blocks until all queued messages are sent, at most until `deadline`; later ones are dropped.
    #[cold]
    #[inline(never)]
    pub(crate) fn close(&self, deadline: Instant) {
        let mut state = self.shared.state();
        while state.sending || !state.messages.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.changed.wait_for(state, left);
        }
        state.closed = true;
        state.messages.clear();
        self.shared.changed.release(state);
    }

    #[cold]
    #[inline(never)]
    fn put(&self, message: Message) {
        if message.to.post(&message.frames, message.answer) {
            return;
        }
        let mut state = self.shared.state();
        if state.closed {
            return;
        }
        state.bytes += message.frames.len();
        state.messages.push_back(message);
        if std::mem::replace(&mut state.thread, true) {
            return self.shared.changed.release(state);
        }
        drop(state);
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("mcp-post".to_owned()).stack_size(STACK);
        if thread.spawn(move || shared.deliver(IDLE)).is_err() {
            // The system has no room for a thread: this thread sends, although it may block.
            self.shared.deliver(Duration::ZERO);
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.closed = true;
        self.shared.changed.release(state);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Sends queued messages until the queue was empty for `idle`.
    #[cold]
    fn deliver(&self, idle: Duration) {
        let mut last = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(message) = state.messages.pop_front() {
                state.sending = true;
                drop(state);
                match message.answer {
                    Some(encoded) => message.to.answer(&message.frames, encoded),
                    None => message.to.send(&message.frames),
                }
                last = Instant::now();
                state = self.state();
                state.sending = false;
                state.bytes -= message.frames.len();
                // Wakes `close`, which waits for the last message.
                self.changed.release(state);
                state = self.state();
                continue;
            }
            let left = idle.saturating_sub(last.elapsed());
            if state.closed || left.is_zero() {
                state.thread = false;
                return;
            }
            state = self.changed.wait_for(state, left);
        }
    }
}
