//! Leader/follower hand-off of the frame source between the reader thread and callers.
//!
//! A response that one thread reads for another costs a context switch, as much as the rest of a
//! short call. With one call in flight, the calling thread therefore reads its own response.
//!
//! # Protocol
//! - The reader thread owns the source at first, and always if its reads cannot be interrupted.
//! - After it has read a response and no other caller waits, it lends the source. The next caller
//!   that waits takes the source, reads until its response is there, and returns it.
//! - The reader thread is woken if others wait by then, if the input has ended, and by a caller
//!   that waits without reading. Otherwise it takes over after no caller has read for [`PAUSE`].
//!   So a notification right after a call is read with a delay of up to twice that time.
//!
//! # Invariants
//! - The source has one owner: the reader thread, a caller, or [`Handoff`].
//! - Returning the source and checking for waiters happen under one lock, so a thread that starts
//!   waiting later finds it.
//! - While the lock is held, no other lock is taken and no frame is read.
//! - Callers do not report the end of the input: finding its reason may take longer than their
//!   deadline.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::{MessageHandler, WakeUp};
use crate::sync::lock;
use crate::transport::framing::{FrameSource, Input};

/// Time that the source is left to callers before the reader thread takes over.
const PAUSE: Duration = Duration::from_millis(5);
/// Upper bound of a wait that a notification ends.
const LONG: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(super) struct Handoff {
    state: Mutex<State>,
    /// The reader thread waits here while a caller reads.
    called: Condvar,
}

#[derive(Default)]
struct State {
    /// Set while no thread reads.
    source: Option<Box<dyn FrameSource>>,
    /// The caller that reads.
    caller: Option<ThreadId>,
    /// The reader thread takes the source next.
    wanted: bool,
    /// The reader thread waits for a notification instead of [`PAUSE`].
    asleep: bool,
    /// Number of times that a caller has read and returned the source. Callers that found their
    /// outcome without reading do not count.
    turns: u64,
}

impl Handoff {
    /// Lends the source to callers and returns it when the reader thread must read again. The
    /// waiter is woken in between and finds the source here.
    pub(super) fn lend(
        &self,
        source: Box<dyn FrameSource>,
        sink: &dyn MessageHandler,
        answered: WakeUp,
    ) -> Box<dyn FrameSource> {
        let mut state = lock(&self.state);
        state.source = Some(source);
        state.wanted |= sink.waiting();
        drop(state);
        drop(answered);
        let mut state = lock(&self.state);
        let mut untouched = false;
        loop {
            if state.wanted || untouched {
                if let Some(source) = state.source.take() {
                    (state.wanted, state.asleep) = (false, false);
                    return source;
                }
            }
            state.asleep = untouched;
            let (seen, pause) = (state.turns, if untouched { LONG } else { PAUSE });
            let (now, slept) = self.called.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            state = now;
            untouched = slept.timed_out() && state.turns == seen;
        }
    }

    /// Reads on a calling thread as long as `turn` returns a time, if no other thread reads.
    pub(super) fn read(&self, sink: &dyn MessageHandler, turn: &mut dyn FnMut() -> Option<Instant>) {
        let mut state = lock(&self.state);
        let lent = if state.wanted { None } else { state.source.take() };
        let Some(source) = lent else { return };
        state.caller = Some(std::thread::current().id());
        drop(state);
        let mut loan = Loan { turns: self, sink, source: Some(source), read: false, ended: false };
        while let Some(by) = turn() {
            let Some(source) = &mut loan.source else { return };
            loan.read = true;
            match source.next_by(by) {
                Some(Input::Frame(frame)) => drop(sink.frame(frame)),
                Some(Input::Large(frame)) => drop(sink.large(frame)),
                Some(Input::TooLong { head, tail }) => sink.oversized(head, tail),
                Some(Input::End | Input::Failed(_)) => {
                    // The reader thread reads the same end.
                    loan.ended = true;
                    return;
                }
                None => {}
            }
        }
    }

    /// A thread waits without reading: the reader thread must read.
    pub(super) fn attend(&self) {
        let mut state = lock(&self.state);
        if state.source.is_some() && !state.wanted {
            state.wanted = true;
            self.called.notify_one();
        }
    }

    /// Gives the source to the reader thread for good.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.wanted = true;
        self.called.notify_one();
    }

    /// Returns the caller that reads.
    pub(super) fn caller(&self) -> Option<ThreadId> {
        lock(&self.state).caller
    }
}

/// The source while a caller reads. Returns it when dropped.
struct Loan<'t> {
    turns: &'t Handoff,
    sink: &'t dyn MessageHandler,
    source: Option<Box<dyn FrameSource>>,
    /// The caller has read.
    read: bool,
    ended: bool,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.turns.state);
        (state.source, state.caller) = (self.source.take(), None);
        state.turns += u64::from(self.read);
        state.wanted |= self.ended || self.sink.waiting();
        if state.wanted || state.asleep {
            self.turns.called.notify_one();
        }
    }
}
