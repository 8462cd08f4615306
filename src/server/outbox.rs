//! Sends for threads that must not wait: the one that watches the clock and the signals, and those
//! that tell of changes.
//!
//! Frames are queued and a thread of their own, started with the first one and ended when idle,
//! sends them in order. An outlet that never waits gets them at once. What it does not do: bound what is posted. The watching thread posts at
//! most one answer for each call in flight; changes are not posted while [`Outbox::busy`].
//!
//! # Invariants
//! - `thread` says whether a thread looks at the queue, or will before it ends.
//! - The lock is never held across a send.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::era::Encoded;
use crate::transport::FrameSink;

/// The thread ends when nothing was posted for so long.
const IDLE: Duration = Duration::from_secs(10);
/// It only copies bytes.
const STACK: usize = 64 << 10;
/// Bytes that wait before the client counts as one that does not read.
const BUSY_BYTES: usize = 64 << 10;

/// Where frames are posted.
#[derive(Default)]
pub(crate) struct Outbox {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
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
    to: Arc<dyn FrameSink>,
    frames: Vec<u8>,
    /// Set for an expected answer, as [`FrameSink::answer`] takes it.
    answer: Option<Encoded>,
}

impl Outbox {
    /// Sends whole frames when the client reads.
    pub(crate) fn send(&self, to: &Arc<dyn FrameSink>, frames: Vec<u8>) {
        self.put(Message { to: Arc::clone(to), frames, answer: None });
    }

    /// Sends an expected answer when the client reads.
    pub(crate) fn answer(&self, to: &Arc<dyn FrameSink>, frame: Vec<u8>, encoded: Encoded) {
        self.put(Message { to: Arc::clone(to), frames: frame, answer: Some(encoded) });
    }

    /// Whether more should not be posted that can also be said later.
    pub(crate) fn busy(&self) -> bool {
        self.shared.state().bytes >= BUSY_BYTES
    }

    /// Waits until everything that was posted is sent, and takes nothing more.
    #[cold]
    #[inline(never)]
    pub(crate) fn close(&self, deadline: Instant) {
        let mut state = self.shared.state();
        while state.sending || !state.messages.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.shared.wait(state, left);
        }
        state.closed = true;
        state.messages.clear();
        drop(state);
        self.shared.changed.notify_all();
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
            drop(state);
            return self.shared.changed.notify_all();
        }
        drop(state);
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("mcp-post".to_owned()).stack_size(STACK);
        if thread.spawn(move || shared.deliver(IDLE)).is_err() {
            // A system without room for a thread: late is better than never.
            self.shared.deliver(Duration::ZERO);
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    /// A panic while the lock is held leaves complete values behind, so poisoning is ignored.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>, time: Duration) -> MutexGuard<'s, State> {
        self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sends what is posted until nothing was for `idle`.
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
                // For close(), which waits for the last one.
                self.changed.notify_all();
                continue;
            }
            let left = idle.saturating_sub(last.elapsed());
            if state.closed || left.is_zero() {
                state.thread = false;
                return;
            }
            state = self.wait(state, left);
        }
    }
}
