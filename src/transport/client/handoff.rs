//! Leader/follower hand-off of the frame source between the reader thread and callers.
//!
//! If one thread reads a response for another thread, a context switch follows, which takes as long
//! as the rest of a short call. With one call in flight, the calling thread therefore reads its own
//! response.
//!
//! # Protocol
//! - The reader thread owns the source at first, and always if its reads cannot be interrupted.
//! - When the reader thread has read a response and no other caller waits, it lends the source. The
//!   next caller that waits takes the source, reads until its response has arrived, and returns it.
//! - On return, the caller wakes the reader thread if other callers wait or if the input has ended.
//!   A caller that waits without reading wakes it as well. Otherwise the reader thread reads again
//!   after no caller has read for [`PAUSE`], so a notification right after a call is read with a
//!   delay of up to twice that time.
//!
//! # Invariants
//! - The source has one owner: the reader thread, a caller, or [`Handoff`].
//! - Returning the source and checking for waiters happen under one lock, so a thread that starts
//!   waiting later finds it.
//! - While the lock is held, no other lock is taken and no frame is read.
//! - Only the reader thread reports the end of the input: finding the reason may take longer than
//!   the deadline of a caller.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::{MessageHandler, WakeUp};
use crate::sync::lock;
use crate::transport::framing::{FrameSource, Input};

/// Time without a read by callers after which the reader thread reads again.
const PAUSE: Duration = Duration::from_millis(5);
/// Timeout of a wait that normally ends with a wake-up.
const LONG: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(super) struct Handoff {
    state: Mutex<State>,
    /// Wakes the reader thread, which waits while the source is lent.
    reader: Condvar,
}

#[derive(Default)]
struct State {
    /// The source, while it is lent and no caller reads.
    source: Option<Box<dyn FrameSource>>,
    /// The caller that reads.
    caller: Option<ThreadId>,
    /// The next owner of the source must be the reader thread.
    reader_wanted: bool,
    /// The reader thread waits for a wake-up instead of for [`PAUSE`].
    needs_wake_up: bool,
    /// Number of times that a caller has read and returned the source. Callers that found their
    /// outcome without reading do not count.
    loans: u64,
}

impl Handoff {
    /// Lends the source to callers, wakes `waiter`, and returns the source when the
    /// reader thread must read again.
    pub(super) fn lend(
        &self,
        source: Box<dyn FrameSource>,
        handler: &dyn MessageHandler,
        waiter: WakeUp,
    ) -> Box<dyn FrameSource> {
        let mut state = lock(&self.state);
        state.source = Some(source);
        state.reader_wanted |= handler.waiting();
        drop(state);
        drop(waiter);
        let mut state = lock(&self.state);
        let mut idle = false;
        loop {
            if state.reader_wanted || idle {
                if let Some(source) = state.source.take() {
                    (state.reader_wanted, state.needs_wake_up) = (false, false);
                    return source;
                }
            }
            // If `idle` is set here, a caller reads and has not returned the source for a while.
            state.needs_wake_up = idle;
            let (loans, pause) = (state.loans, if idle { LONG } else { PAUSE });
            let (after, wait) =
                self.reader.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            state = after;
            idle = wait.timed_out() && state.loans == loans;
        }
    }

    /// Implements [`super::Transport::read_on_caller`].
    pub(super) fn read(&self, handler: &dyn MessageHandler, next: &mut dyn FnMut() -> Option<Instant>) {
        let mut state = lock(&self.state);
        let Some(source) = (if state.reader_wanted { None } else { state.source.take() }) else { return };
        state.caller = Some(std::thread::current().id());
        drop(state);
        let mut loan =
            SourceGuard { handoff: self, handler, source: Some(source), has_read: false, ended: false };
        while let Some(deadline) = next() {
            let Some(source) = &mut loan.source else { return };
            loan.has_read = true;
            match source.next_by(deadline) {
                Some(Input::Frame(frame)) => drop(handler.frame(frame)),
                Some(Input::Large(frame)) => drop(handler.large(frame)),
                Some(Input::TooLong { head, tail }) => handler.oversized(head, tail),
                Some(Input::End | Input::Failed(_)) => {
                    // The reader thread reads the end again and reports it.
                    loan.ended = true;
                    return;
                }
                None => {}
            }
        }
    }

    /// Implements [`super::Transport::resume_reader`].
    pub(super) fn resume_reader(&self) {
        let mut state = lock(&self.state);
        if state.source.is_some() && !state.reader_wanted {
            state.reader_wanted = true;
            self.reader.notify_one();
        }
    }

    /// Returns the source to the reader thread, which then reads until the end of the input.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.reader_wanted = true;
        self.reader.notify_one();
    }

    /// Returns the caller that reads.
    pub(super) fn caller(&self) -> Option<ThreadId> {
        lock(&self.state).caller
    }
}

/// Source that a caller reads. The drop returns the source to the hand-off.
struct SourceGuard<'h> {
    handoff: &'h Handoff,
    handler: &'h dyn MessageHandler,
    source: Option<Box<dyn FrameSource>>,
    /// The caller has called [`FrameSource::next_by`].
    has_read: bool,
    /// The input has ended.
    ended: bool,
}

impl Drop for SourceGuard<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.handoff.state);
        (state.source, state.caller) = (self.source.take(), None);
        state.loans += u64::from(self.has_read);
        state.reader_wanted |= self.ended || self.handler.waiting();
        if state.reader_wanted || state.needs_wake_up {
            self.handoff.reader.notify_one();
        }
    }
}
