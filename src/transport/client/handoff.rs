//! Leader/follower hand-off of the frame source between the reader thread and callers.
//!
//! A response that one thread reads for another costs a context switch, as much as the rest of a
//! short call. With one call in flight, the calling thread therefore reads its own response.
//!
//! # Protocol
//! - The reader thread owns the source at first, and always if its reads cannot be interrupted.
//! - After it has read a response and no other caller waits, it lends the source. The next caller
//!   that waits takes the source, reads until its response is there, and returns it.
//! - If others wait by then, or the input has ended, the reader thread is woken; so it is by a
//!   caller that waits without reading. Otherwise the reader thread takes over after no caller has
//!   read for
//!   [`PAUSE`]. A notification right after a call is therefore read up to twice that time later.
//!
//! # Invariants
//! - The source is in one place: with the reader thread, with a caller, or in [`Handoff`].
//! - Returning the source and checking for waiters happen under one lock, so a thread that starts
//!   waiting later finds it.
//! - No other lock is taken inside this one, and nothing is read while it is held.
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
/// As good as for ever: who reads for so long calls when it is done.
const LONG: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub(super) struct Handoff {
    state: Mutex<State>,
    /// The reading thread sleeps here while it is not its turn.
    called: Condvar,
}

#[derive(Default)]
struct State {
    /// While nobody reads.
    inlet: Option<Box<dyn FrameSource>>,
    /// The caller that reads.
    caller: Option<ThreadId>,
    /// It is the reading thread's turn as soon as the inlet is here.
    wanted: bool,
    /// The reading thread does not look by itself.
    asleep: bool,
    /// How often a caller has read and put the inlet back. One that only looked whether there is
    /// something to wait for keeps nobody from reading.
    turns: u64,
}

impl Handoff {
    /// Lends the source to callers and returns it when the reader thread must read again. The
    /// waiter is woken in between and finds the source here.
    pub(super) fn lend(
        &self,
        inlet: Box<dyn FrameSource>,
        sink: &dyn MessageHandler,
        answered: WakeUp,
    ) -> Box<dyn FrameSource> {
        let mut state = lock(&self.state);
        state.inlet = Some(inlet);
        state.wanted |= sink.waiting();
        drop(state);
        drop(answered);
        let mut state = lock(&self.state);
        let mut untouched = false;
        loop {
            if state.wanted || untouched {
                if let Some(inlet) = state.inlet.take() {
                    (state.wanted, state.asleep) = (false, false);
                    return inlet;
                }
            }
            state.asleep = untouched;
            let (seen, pause) = (state.turns, if untouched { LONG } else { PAUSE });
            let (now, slept) = self.called.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            state = now;
            untouched = slept.timed_out() && state.turns == seen;
        }
    }

    /// Reads for a caller while `turn` says until when, if nobody else does.
    pub(super) fn read(&self, sink: &dyn MessageHandler, turn: &mut dyn FnMut() -> Option<Instant>) {
        let mut state = lock(&self.state);
        let lent = if state.wanted { None } else { state.inlet.take() };
        let Some(inlet) = lent else { return };
        state.caller = Some(std::thread::current().id());
        drop(state);
        let mut loan = Loan { turns: self, sink, inlet: Some(inlet), read: false, ended: false };
        while let Some(by) = turn() {
            let Some(inlet) = &mut loan.inlet else { return };
            loan.read = true;
            match inlet.next_by(by) {
                Some(Input::Frame(frame)) => drop(sink.frame(frame)),
                Some(Input::Large(frame)) => drop(sink.large(frame)),
                Some(Input::TooLong { head, tail }) => sink.oversized(head, tail),
                Some(Input::End | Input::Failed(_)) => {
                    // The next reader meets the same end.
                    loan.ended = true;
                    return;
                }
                None => {}
            }
        }
    }

    /// Somebody waits who does not read.
    pub(super) fn attend(&self) {
        let mut state = lock(&self.state);
        if state.inlet.is_some() && !state.wanted {
            state.wanted = true;
            self.called.notify_one();
        }
    }

    /// No caller reads any more, as soon as the one that does has come back.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.wanted = true;
        self.called.notify_one();
    }

    /// The caller that reads just now.
    pub(super) fn caller(&self) -> Option<ThreadId> {
        lock(&self.state).caller
    }
}

/// The inlet in the hands of a caller, who puts it back whatever happens.
struct Loan<'t> {
    turns: &'t Handoff,
    sink: &'t dyn MessageHandler,
    inlet: Option<Box<dyn FrameSource>>,
    /// There was something to wait for.
    read: bool,
    ended: bool,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.turns.state);
        (state.inlet, state.caller) = (self.inlet.take(), None);
        state.turns += u64::from(self.read);
        state.wanted |= self.ended || self.sink.waiting();
        if state.wanted || state.asleep {
            self.turns.called.notify_one();
        }
    }
}
