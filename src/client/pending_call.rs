//! One request in flight, and the clock that stops while the user is asked.
//!
//! Holds the outcome until it is fetched, keeps progress for the waiting thread, and computes the
//! deadline.
//!
//! # Invariants
//! - The outcome is set once; a second one is dropped. Only a lost session may be taken back,
//!   before anybody has seen it.
//! - Progress is delivered on the waiting thread, and therefore never after the wait has ended.
//! - At most [`KEPT`] progress notifications with [`KEPT_BYTES`] of messages are queued; the oldest
//!   are dropped first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::json::{Doc, NodeId, Value};
use crate::model::Filter;
use crate::sync::Condition;
use crate::transport::client::{Failure, Wake, WakeUp};

#[cfg(feature = "http-client")]
use super::retry::Resend;

/// Steps of progress that wait for the thread that waits for the answer.
const KEPT: usize = 32;
/// Bytes of their messages, beyond the newest one's.
const KEPT_BYTES: usize = 64 << 10;
/// Poll interval of a waiting thread while the clock is stopped.
const STANDSTILL: Duration = Duration::from_millis(50);
/// Longest single wait for a request without a deadline.
const UNBOUNDED: Duration = Duration::from_secs(3600);

/// A progress notification of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Amount done; it only rises.
    pub done: f64,
    /// Total amount, if known.
    pub total: Option<f64>,
    /// Description of the current step.
    pub message: Option<String>,
}

/// A response, in its document.
pub(super) struct Reply {
    pub doc: Doc,
    pub node: NodeId,
    /// `true` if `node` is the result, `false` if it is the error.
    pub ok: bool,
}

impl Reply {
    pub(super) fn value(&self) -> Value<'_> {
        self.doc.at(self.node)
    }
}

/// Timeout of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTimeout {
    /// From the sending, or from the last progress where `extend` says so.
    pub timeout: Duration,
    /// From the sending, whatever progress says.
    pub longest: Duration,
    pub extend: bool,
}

/// Told whenever there is something to look at, on the thread that brought it; it must not wait.
pub(crate) type Watch = Arc<dyn Fn() + Send + Sync>;

/// One request in flight.
pub(super) struct PendingCall {
    state: Mutex<State>,
    ready: Condition,
    sent: Instant,
    patience: Option<CallTimeout>,
    wants_progress: bool,
    /// Stopped time of the clock when this was sent.
    stood: Duration,
    waiters: Arc<Waiters>,
    watch: Option<Watch>,
}

/// Number of requests that a thread waits for.
#[derive(Default)]
pub(super) struct Waiters(AtomicUsize);

impl Waiters {
    pub(super) fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

#[derive(Default)]
struct State {
    outcome: Option<Result<Reply, Failure>>,
    over: bool,
    /// Somebody waits, and is counted.
    awaited: bool,
    /// Filter that the server acknowledged, for a listen request.
    acknowledged: Option<Filter>,
    progress: VecDeque<Progress>,
    /// The highest step so far.
    done: Option<f64>,
    /// When the last step came.
    moved: Option<Instant>,
    #[cfg(feature = "http-client")]
    again: Option<Box<Resend>>,
    /// An outcome was taken back.
    reopened: bool,
    resent: bool,
}

impl PendingCall {
    /// A request sent now. Without patience it waits for ever, as one that listens does.
    pub(super) fn new(
        patience: Option<CallTimeout>,
        wants_progress: bool,
        clock: &Clock,
        waiters: &Arc<Waiters>,
    ) -> PendingCall {
        PendingCall {
            state: Mutex::default(),
            ready: Condition::default(),
            sent: Instant::now(),
            patience,
            wants_progress,
            stood: clock.stood(),
            waiters: Arc::clone(waiters),
            watch: None,
        }
    }

    /// The same, for somebody who does not wait but is told.
    pub(super) fn watched(mut self, watch: Option<Watch>) -> PendingCall {
        self.watch = watch;
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the outcome in, unless there was one; who sleeps is woken when what this gives is
    /// dropped.
    pub(super) fn fill(self: Arc<Self>, outcome: Result<Reply, Failure>) -> Option<WakeUp> {
        let mut state = self.lock();
        if state.over {
            return None;
        }
        state.over = true;
        state.outcome = Some(outcome);
        self.no_longer(&mut state);
        let told = self.ready.has_waiters(&state);
        let told = told || self.watch.is_some();
        drop(state);
        told.then(|| WakeUp { who: self })
    }

    /// Somebody is going to wait: counts until it is over, unless it is by now.
    pub(super) fn expect(&self) {
        let mut state = self.lock();
        if !state.over && !std::mem::replace(&mut state.awaited, true) {
            self.waiters.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The same, until the guard is dropped. A callback stays registered.
    pub(super) fn awaited(&self) -> Awaited<'_> {
        self.expect();
        Awaited(self)
    }

    /// Ends the wait.
    fn no_longer(&self, state: &mut State) {
        if std::mem::take(&mut state.awaited) {
            self.waiters.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Lets this be sent again when its session is lost before anybody waits for it.
    #[cfg(feature = "http-client")]
    pub(super) fn again(&self, resend: Resend) {
        self.lock().again = Some(Box::new(resend));
    }

    /// Takes the data for a repetition.
    #[cfg(feature = "http-client")]
    pub(super) fn resend(&self) -> Option<Box<Resend>> {
        self.lock().again.take()
    }

    /// Takes the outcome back, if it is a lost session that nobody has been told of: whoever calls
    /// this sees to another.
    #[cfg(feature = "http-client")]
    pub(super) fn reopen(&self) -> bool {
        let mut state = self.lock();
        let lost = matches!(state.outcome, Some(Err(Failure::SessionLost)));
        if lost {
            (state.outcome, state.over, state.reopened) = (None, false, true);
        }
        lost
    }

    /// This is being sent for the second time.
    #[cfg(feature = "http-client")]
    pub(super) fn resent(&self) {
        self.lock().resent = true;
    }

    /// Returns whether an outcome was taken back. The request may not be in the table then.
    pub(super) fn was_reopened(&self) -> bool {
        self.lock().reopened
    }

    /// Returns whether it was sent again.
    pub(super) fn was_resent(&self) -> bool {
        self.lock().resent
    }

    /// Keeps a step for the thread that waits; steps that go back are none
    /// (basic/patterns/progress).
    pub(super) fn step(&self, progress: Progress) -> bool {
        let mut state = self.lock();
        if state.over || state.done.is_some_and(|done| progress.done <= done) {
            return false;
        }
        state.done = Some(progress.done);
        state.moved = Some(Instant::now());
        if self.wants_progress {
            let size = |step: &Progress| step.message.as_ref().map_or(0, String::len);
            let mut bytes = size(&progress) + state.progress.iter().map(size).sum::<usize>();
            while state.progress.len() >= KEPT || bytes > KEPT_BYTES {
                let Some(oldest) = state.progress.pop_front() else { break };
                bytes -= size(&oldest);
            }
            state.progress.push_back(progress);
        }
        self.ready.release(state);
        self.tell_watch();
        true
    }

    pub(super) fn acknowledge(&self, filter: Filter) {
        let mut state = self.lock();
        state.acknowledged = Some(filter);
        self.ready.release(state);
    }

    fn tell_watch(&self) {
        if let Some(watch) = &self.watch {
            watch();
        }
    }

    /// Until when this may wait, as things stand. For carriers that wait themselves.
    pub(super) fn deadline(&self, clock: &Clock) -> Option<Instant> {
        self.deadline_of(&self.lock(), clock)
    }

    fn deadline_of(&self, state: &State, clock: &Clock) -> Option<Instant> {
        let patience = self.patience?;
        let from = state.moved.filter(|_| patience.extend).unwrap_or(self.sent);
        let ends = (from + patience.timeout).min(self.sent + patience.longest);
        Some(ends + clock.stood().saturating_sub(self.stood).min(clock.most))
    }

    /// Returns whether the outcome was set.
    pub(super) fn over(&self) -> bool {
        self.lock().over
    }

    /// Tells the steps that have come so far, and not those that come meanwhile: it must end.
    pub(super) fn tell(&self, hear: &mut dyn FnMut(Progress)) {
        let count = self.lock().progress.len();
        for _ in 0..count {
            let step = self.lock().progress.pop_front();
            match step {
                Some(step) => hear(step),
                None => return,
            }
        }
    }

    /// Until when there is nothing to do here but to wait for messages, by the same times as
    /// [`PendingCall::wait`]; nothing once there is.
    pub(super) fn idle_until(&self, clock: &Clock, until: Option<Instant>) -> Option<Instant> {
        let state = self.lock();
        if state.over || !state.progress.is_empty() {
            return None;
        }
        let now = Instant::now();
        let by = self.deadline_of(&state, clock).into_iter().chain(until).min().unwrap_or(now + UNBOUNDED);
        (by > now).then(|| if clock.stands() { by.max(now + STANDSTILL) } else { by })
    }

    /// Waits for the outcome, telling progress meanwhile.
    pub(super) fn wait(
        &self,
        clock: &Clock,
        until: Option<Instant>,
        hear: &mut dyn FnMut(Progress),
    ) -> WaitOutcome {
        let mut state = self.lock();
        // These are told however late it is, for somebody who only looks. More may come faster than they are told.
        let mut due = state.progress.len();
        loop {
            if state.outcome.is_none() && due == 0 {
                let (now, own) = (Instant::now(), self.deadline_of(&state, clock));
                if own.is_some_and(|d| d <= now) {
                    return WaitOutcome::Expired;
                }
                if until.is_some_and(|d| d <= now) {
                    return WaitOutcome::NotYet;
                }
            }
            due = due.saturating_sub(1);
            if let Some(step) = state.progress.pop_front() {
                drop(state);
                hear(step);
                state = self.lock();
                continue;
            }
            if let Some(outcome) = state.outcome.take() {
                return WaitOutcome::Over(outcome);
            }
            state = match self.deadline_of(&state, clock).into_iter().chain(until).min() {
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let left = if clock.stands() { left.max(STANDSTILL) } else { left };
                    self.ready.wait_for(state, left)
                }
                None => self.ready.wait(state),
            };
        }
    }

    /// Returns the acknowledged filter of a listen request.
    pub(super) fn acknowledged(&self) -> Option<Filter> {
        self.lock().acknowledged.clone()
    }

    /// Waits until a request that listens is acknowledged: what it will hear, though it be over by
    /// now. Nothing when it was over before that, or was neither in time.
    pub(super) fn wait_acknowledged(&self, deadline: Instant) -> Option<Filter> {
        let mut state = self.lock();
        while state.acknowledged.is_none() && !state.over {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.ready.wait_for(state, left);
        }
        state.acknowledged.clone()
    }

    /// The outcome, if it is there and nobody took it.
    pub(super) fn take(&self) -> Option<Result<Reply, Failure>> {
        self.lock().outcome.take()
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.no_longer(&mut self.lock());
    }
}

/// A registered waiter.
pub(super) struct Awaited<'s>(&'s PendingCall);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        if self.0.watch.is_some() {
            return;
        }
        self.0.no_longer(&mut self.0.lock());
    }
}

impl Wake for PendingCall {
    fn wake(&self) {
        self.ready.release(self.lock());
        self.tell_watch();
    }

    fn sleeps(&self) -> bool {
        self.ready.has_waiters(&self.lock())
    }
}

/// Result of a wait.
pub(super) enum WaitOutcome {
    /// The outcome.
    Over(Result<Reply, Failure>),
    /// The caller's own deadline came first.
    NotYet,
    /// The request's deadline came.
    Expired,
}

/// A clock that stands still while the server waits for a person: the time that somebody thinks
/// about a question is not the server's (basic/utilities, timeouts; requirement TMO-03).
pub(super) struct Clock {
    state: Mutex<Standing>,
    /// The longest time that it can add to one request.
    most: Duration,
}

#[derive(Default)]
struct Standing {
    questions: usize,
    since: Option<Instant>,
    before: Duration,
}

impl Clock {
    pub(super) fn new(most: Duration) -> Clock {
        Clock { state: Mutex::default(), most }
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more question is open.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.questions += 1;
        state.since.get_or_insert_with(Instant::now);
    }

    /// One is answered.
    pub(super) fn go(&self) {
        let mut state = self.lock();
        state.questions = state.questions.saturating_sub(1);
        if state.questions == 0 {
            if let Some(since) = state.since.take() {
                state.before += since.elapsed();
            }
        }
    }

    fn stands(&self) -> bool {
        self.lock().questions > 0
    }

    /// Returns the total stopped time.
    fn stood(&self) -> Duration {
        let state = self.lock();
        state.before + state.since.map(|s| s.elapsed()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn an_answer_wakes_whoever_sleeps_and_nobody_else() {
        let clock = Clock::new(Duration::ZERO);
        let slot = || Arc::new(PendingCall::new(None, false, &clock, &Arc::default()));
        let awake = slot();
        awake.expect();
        assert!(Arc::clone(&awake).fill(Err(Failure::Cancelled)).is_none(), "nobody has to be told");
        assert!(matches!(awake.wait(&clock, None, &mut |_| {}), WaitOutcome::Over(Err(Failure::Cancelled))));
        let slept = slot();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| slept.wait(&clock, None, &mut |_| {}));
            while !Wake::sleeps(&*slept) {
                std::thread::yield_now();
            }
            let waking = Arc::clone(&slept).fill(Err(Failure::Cancelled)).expect("somebody has to be told");
            assert!(waking.who.sleeps(), "nobody is woken before this is dropped");
            drop(waking);
            assert!(matches!(waits.join().unwrap(), WaitOutcome::Over(Err(Failure::Cancelled))));
        });
        assert!(!Wake::sleeps(&*slept));
    }
}
