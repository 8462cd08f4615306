//! One request in flight: outcome, progress and deadline.
//!
//! The reader thread stores the response and the progress here. The waiting thread takes them. The
//! clock of the deadlines stops while the handlers wait for the user.
//!
//! # Invariants
//! - The outcome is set once; a second one is dropped. Exception: [`Failure::SessionLost`] can be
//!   replaced until a thread has taken it.
//! - Progress is delivered on the waiting thread, and therefore never after the wait has ended.
//! - At most [`QUEUED`] progress notifications with [`QUEUED_BYTES`] of messages are queued; the
//!   oldest are dropped first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::era::outgoing::OutgoingRequest;
use crate::json::{Doc, NodeId, Value};
use crate::model::{Filter, Level};
use crate::sync::{Condition, lock};
use crate::transport::client::{Failure, Wake, WakeUp};

/// Maximum number of progress notifications that are queued for the waiting thread.
const QUEUED: usize = 32;
/// Maximum number of bytes of their messages. The newest notification is always queued.
const QUEUED_BYTES: usize = 64 << 10;
/// Poll interval of a waiting thread while the clock is stopped.
const POLL: Duration = Duration::from_millis(50);
/// Maximum duration of one read for a request without a deadline.
const UNBOUNDED: Duration = Duration::from_secs(3600);

/// A progress notification of a call.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, json};
///
/// let client = Client::spawn(Command::new("board_server"))?;
/// let flash = client.request_tool("flash", json!({"image": "v2.bin"})).on_progress(|step| {
///     let total = step.total.map(|total| format!(" of {total}")).unwrap_or_default();
///     eprintln!("{}{total} {}", step.done, step.message.unwrap_or_default());
/// });
/// println!("{}", flash.wait()?.texts());
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Amount done. It increases with each notification.
    pub done: f64,
    /// Total amount, if known.
    pub total: Option<f64>,
    /// Description of the current step.
    pub message: Option<String>,
}

impl Progress {
    fn size(&self) -> usize {
        self.message.as_ref().map_or(0, String::len)
    }
}

/// A response, in its document.
pub(super) struct RawReply {
    pub doc: Doc,
    pub node: NodeId,
    /// `true` if `node` is the result, `false` if it is the error.
    pub ok: bool,
}

impl RawReply {
    pub(super) fn value(&self) -> Value<'_> {
        self.doc.at(self.node)
    }
}

/// Timeout of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallTimeout {
    /// Time from sending, or from the last progress with `extend`.
    pub timeout: Duration,
    /// Time from sending, regardless of progress.
    pub max_total: Duration,
    /// Progress restarts `timeout`.
    pub extend: bool,
}

impl CallTimeout {
    /// A timeout that progress does not extend.
    pub(super) fn fixed(timeout: Duration) -> CallTimeout {
        CallTimeout { timeout, max_total: timeout, extend: false }
    }
}

/// Callback for a call without a waiting thread. It runs on the thread that stores an outcome or
/// progress, and must not block.
pub(crate) type OnReady = Arc<dyn Fn() + Send + Sync>;

/// One request in flight.
pub(super) struct PendingCall {
    /// Id of the request. It changes when the request is sent again after a lost session.
    id: AtomicU64,
    state: Mutex<State>,
    ready: Condition,
    sent: Instant,
    timeout: Option<CallTimeout>,
    wants_progress: bool,
    /// Stopped time of the clock when the request was sent.
    stopped: Duration,
    waiters: Arc<Waiters>,
    on_ready: OnceLock<OnReady>,
    /// Reports the request to the program's observers.
    #[cfg(feature = "observe")]
    pub(super) observation: OnceLock<crate::observe::Observation>,
}

#[derive(Default)]
struct State {
    outcome: Slot,
    /// A waiting thread is counted in [`Waiters`].
    counted: bool,
    /// Filter that the server acknowledged, for a listen request.
    acknowledged: Option<Filter>,
    progress: VecDeque<Progress>,
    /// Amount and time of the last progress.
    last_step: Option<(f64, Instant)>,
    attempt: Attempt,
}

#[derive(Default)]
enum Slot {
    #[default]
    InFlight,
    Ready(Result<RawReply, Failure>),
    Taken,
}

/// Attempt to send a request. A started call is sent again by a handler thread after its session
/// was lost.
#[cfg_attr(not(feature = "http-client"), allow(dead_code, reason = "only HTTP loses sessions"))]
enum Attempt {
    /// The first attempt, with the data for a second one if it is allowed.
    First(Option<Box<Resend>>),
    Second,
}

impl Default for Attempt {
    fn default() -> Attempt {
        Attempt::First(None)
    }
}

/// Data for sending a request again.
#[cfg_attr(not(feature = "http-client"), allow(dead_code, reason = "only HTTP loses sessions"))]
pub(super) struct Resend {
    pub request: Arc<OutgoingRequest>,
    /// Session epoch in which the request was sent.
    pub epoch: u64,
    pub progress: bool,
    pub log_level: Option<Level>,
}

impl PendingCall {
    /// Creates a request that is sent next. Without a timeout it stays in flight until the
    /// connection ends, as a listen request does.
    pub(super) fn new(
        timeout: Option<CallTimeout>,
        wants_progress: bool,
        waiters: &Arc<Waiters>,
    ) -> Arc<PendingCall> {
        Arc::new(PendingCall {
            id: AtomicU64::new(0),
            state: Mutex::default(),
            ready: Condition::default(),
            sent: Instant::now(),
            timeout,
            wants_progress,
            stopped: waiters.clock.stopped(),
            waiters: Arc::clone(waiters),
            on_ready: OnceLock::new(),
            #[cfg(feature = "observe")]
            observation: OnceLock::new(),
        })
    }

    /// Returns the id of the request that was registered last.
    pub(super) fn id(&self) -> u64 {
        self.id.load(Ordering::SeqCst)
    }

    /// Sets the id. Called when the request is registered.
    pub(super) fn set_id(&self, id: u64) {
        self.id.store(id, Ordering::SeqCst);
    }

    /// Sets the outcome, unless there is one. Dropping the returned value wakes the waiting
    /// threads.
    pub(super) fn finish(self: Arc<Self>, outcome: Result<RawReply, Failure>) -> Option<WakeUp> {
        let mut state = lock(&self.state);
        if !matches!(state.outcome, Slot::InFlight) {
            return None;
        }
        #[cfg(feature = "observe")]
        let ended = self.observed_outcome(&outcome);
        state.outcome = Slot::Ready(outcome);
        self.remove_waiter(&mut state);
        let wakes = self.ready.has_waiters(&state) || self.on_ready.get().is_some();
        drop(state);
        #[cfg(feature = "observe")]
        self.report(ended);
        wakes.then(|| WakeUp { waiter: self })
    }

    /// Sets an outcome that this client caused, such as a cancellation. The request is not sent
    /// again after that.
    pub(super) fn give_up(self: Arc<Self>, why: Failure) {
        let mut state = lock(&self.state);
        if matches!(state.outcome, Slot::Ready(Err(Failure::SessionLost))) {
            state.outcome = Slot::InFlight;
        }
        drop(state);
        self.finish(Err(why));
    }

    /// Registers a callback for outcome and progress, and counts it as a waiter until the outcome
    /// is set. Calls it at once if an outcome or progress is available.
    pub(super) fn on_ready(&self, callback: &OnReady) {
        let state = lock(&self.state);
        // OK to drop: a call has one callback for all its requests.
        let _ = self.on_ready.set(Arc::clone(callback));
        let ready = matches!(state.outcome, Slot::Ready(_)) || !state.progress.is_empty();
        drop(state);
        self.count_waiter();
        if ready {
            callback();
        }
    }

    fn notify_callback(&self) {
        if let Some(callback) = self.on_ready.get() {
            callback();
        }
    }

    /// Counts a waiter until the outcome is set.
    pub(super) fn count_waiter(&self) {
        let mut state = lock(&self.state);
        if matches!(state.outcome, Slot::InFlight) && !std::mem::replace(&mut state.counted, true) {
            self.waiters.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// RAII form of [`PendingCall::count_waiter`]. A callback stays counted after the guard is
    /// dropped.
    pub(super) fn waiter_guard(&self) -> WaiterGuard<'_> {
        self.count_waiter();
        WaiterGuard(self)
    }

    fn remove_waiter(&self, state: &mut State) {
        if std::mem::take(&mut state.counted) {
            self.waiters.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Stores a progress notification for the waiting thread. Drops it if the amount has not
    /// increased (basic/patterns/progress).
    pub(super) fn push_progress(&self, progress: Progress) {
        let mut state = lock(&self.state);
        let stale = state.last_step.is_some_and(|(done, _)| progress.done <= done);
        if stale || !matches!(state.outcome, Slot::InFlight) {
            return;
        }
        state.last_step = Some((progress.done, Instant::now()));
        if self.wants_progress {
            let mut bytes = progress.size() + state.progress.iter().map(Progress::size).sum::<usize>();
            while state.progress.len() >= QUEUED || bytes > QUEUED_BYTES {
                let Some(oldest) = state.progress.pop_front() else { break };
                bytes -= oldest.size();
            }
            state.progress.push_back(progress);
        }
        self.ready.release(state);
        self.notify_callback();
    }

    /// Stores the filter that the server acknowledged.
    pub(super) fn acknowledge(&self, filter: Filter) {
        let mut state = lock(&self.state);
        state.acknowledged = Some(filter);
        self.ready.release(state);
    }

    /// Returns the current deadline. Progress and a stopped clock extend it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline_of(&lock(&self.state))
    }

    fn deadline_of(&self, state: &State) -> Option<Instant> {
        let CallTimeout { timeout, max_total, extend } = self.timeout?;
        let from = state.last_step.filter(|_| extend).map_or(self.sent, |(_, at)| at);
        let ends = (from + timeout).min(self.sent + max_total);
        let clock = &self.waiters.clock;
        Some(ends + clock.stopped().saturating_sub(self.stopped).min(clock.max_stop))
    }

    /// Returns whether the request has an outcome.
    pub(super) fn is_finished(&self) -> bool {
        !matches!(lock(&self.state).outcome, Slot::InFlight)
    }

    /// Passes the queued progress to the listener. Progress that arrives meanwhile stays queued, so
    /// that this function returns.
    pub(super) fn drain_progress(&self, listener: &mut dyn FnMut(Progress)) {
        let count = lock(&self.state).progress.len();
        for _ in 0..count {
            let step = lock(&self.state).progress.pop_front();
            match step {
                Some(step) => listener(step),
                None => return,
            }
        }
    }

    /// Returns the deadline of the calling thread's next read. `None` if an outcome or progress is
    /// available, or if a deadline has passed.
    pub(super) fn read_deadline(&self, until: Option<Instant>) -> Option<Instant> {
        let state = lock(&self.state);
        if !matches!(state.outcome, Slot::InFlight) || !state.progress.is_empty() {
            return None;
        }
        let now = Instant::now();
        let by = self.deadline_of(&state).into_iter().chain(until).min().unwrap_or(now + UNBOUNDED);
        (by > now).then(|| if self.waiters.clock.is_stopped() { by.max(now + POLL) } else { by })
    }

    /// Waits for the outcome, and passes progress to the listener. Returns `None` at `until`.
    /// Returns [`Failure::Timeout`] at the deadline of the request; the request stays in flight.
    pub(super) fn wait(
        &self,
        until: Option<Instant>,
        listener: &mut dyn FnMut(Progress),
    ) -> Option<Result<RawReply, Failure>> {
        let mut state = lock(&self.state);
        // Progress that is queued now is delivered even after the deadline. Later progress is not,
        // because it could arrive faster than the listener handles it, without an end.
        let mut due = state.progress.len();
        loop {
            if !matches!(state.outcome, Slot::Ready(_)) && due == 0 {
                let now = Instant::now();
                if self.deadline_of(&state).is_some_and(|deadline| deadline <= now) {
                    return Some(Err(Failure::Timeout));
                }
                if until.is_some_and(|until| until <= now) {
                    return None;
                }
            }
            due = due.saturating_sub(1);
            if let Some(step) = state.progress.pop_front() {
                drop(state);
                listener(step);
                state = lock(&self.state);
                continue;
            }
            if let Some(outcome) = state.take() {
                return Some(outcome);
            }
            state = match self.deadline_of(&state).into_iter().chain(until).min() {
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let left = if self.waiters.clock.is_stopped() { left.max(POLL) } else { left };
                    self.ready.wait_for(state, left)
                }
                None => self.ready.wait(state),
            };
        }
    }

    /// Returns the acknowledged filter of a listen request.
    pub(super) fn acknowledged(&self) -> Option<Filter> {
        lock(&self.state).acknowledged.clone()
    }

    /// Waits until a listen request is acknowledged. Returns `None` if the request has ended, or at
    /// the deadline.
    pub(super) fn wait_acknowledged(&self, deadline: Instant) -> Option<Filter> {
        let mut state = lock(&self.state);
        while state.acknowledged.is_none() && matches!(state.outcome, Slot::InFlight) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.ready.wait_for(state, left);
        }
        state.acknowledged.clone()
    }

    /// Takes the outcome, if there is one.
    pub(super) fn take(&self) -> Option<Result<RawReply, Failure>> {
        lock(&self.state).take()
    }

    /// Returns whether the request was sent again.
    pub(super) fn was_resent(&self) -> bool {
        matches!(lock(&self.state).attempt, Attempt::Second)
    }
}

/// Second attempt after a lost session.
#[cfg(feature = "http-client")]
impl PendingCall {
    /// Allows a second attempt.
    pub(super) fn set_resend(&self, resend: Resend) {
        lock(&self.state).attempt = Attempt::First(Some(Box::new(resend)));
    }

    /// Takes the data for the second attempt.
    pub(super) fn take_resend(&self) -> Option<Box<Resend>> {
        match &mut lock(&self.state).attempt {
            Attempt::First(resend) => resend.take(),
            Attempt::Second => None,
        }
    }

    /// Removes the outcome [`Failure::SessionLost`] if no thread has taken it. Returns whether it
    /// did; the caller must then set another outcome.
    pub(super) fn reopen(&self) -> bool {
        let mut state = lock(&self.state);
        let lost = matches!(state.outcome, Slot::Ready(Err(Failure::SessionLost)));
        if lost {
            state.outcome = Slot::InFlight;
        }
        lost
    }

    /// Marks the second attempt.
    pub(super) fn set_resent(&self) {
        lock(&self.state).attempt = Attempt::Second;
    }
}

impl State {
    fn take(&mut self) -> Option<Result<RawReply, Failure>> {
        match std::mem::replace(&mut self.outcome, Slot::Taken) {
            Slot::Ready(outcome) => Some(outcome),
            other => {
                self.outcome = other;
                None
            }
        }
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.remove_waiter(&mut lock(&self.state));
    }
}

/// Guard of a counted waiter.
pub(super) struct WaiterGuard<'s>(&'s PendingCall);

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        if self.0.on_ready.get().is_none() {
            self.0.remove_waiter(&mut lock(&self.0.state));
        }
    }
}

impl Wake for PendingCall {
    fn wake(&self) {
        self.ready.release(lock(&self.state));
        self.notify_callback();
    }

    fn is_blocked(&self) -> bool {
        self.ready.has_waiters(&lock(&self.state))
    }
}

/// Number of waiters of a connection, and the clock of their deadlines.
pub(super) struct Waiters {
    count: AtomicUsize,
    pub(super) clock: Clock,
}

impl Waiters {
    /// `max_stop` is the maximum time that a stopped clock adds to one deadline.
    pub(super) fn new(max_stop: Duration) -> Arc<Waiters> {
        Arc::new(Waiters { count: AtomicUsize::new(0), clock: Clock { state: Mutex::default(), max_stop } })
    }

    /// Returns whether any request has a waiter. Takes no lock.
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }
}

/// Clock that stops while requests of the server wait for the user, because this time does not
/// count against the server's deadline (basic/utilities, timeouts; requirement TMO-03).
pub(super) struct Clock {
    state: Mutex<PauseState>,
    max_stop: Duration,
}

#[derive(Default)]
struct PauseState {
    /// Number of open requests of the server.
    open: usize,
    /// Start of the current pause.
    since: Option<Instant>,
    /// Sum of the earlier pauses.
    total: Duration,
}

impl Clock {
    /// Stops the clock for one more request of the server.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        state.open += 1;
        state.since.get_or_insert_with(Instant::now);
    }

    /// Resumes the clock for one request of the server. It runs again after the last one.
    pub(super) fn resume(&self) {
        let mut state = lock(&self.state);
        state.open = state.open.saturating_sub(1);
        if state.open == 0 {
            if let Some(since) = state.since.take() {
                state.total += since.elapsed();
            }
        }
    }

    fn is_stopped(&self) -> bool {
        lock(&self.state).open > 0
    }

    /// Returns the total stopped time.
    pub(super) fn stopped(&self) -> Duration {
        let state = lock(&self.state);
        state.total + state.since.map(|s| s.elapsed()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    #[test]
    fn an_outcome_wakes_only_blocked_threads() {
        let waiters = Waiters::new(Duration::ZERO);
        let cancelled = |outcome| matches!(outcome, Some(Err(Failure::Cancelled)));
        let awake = PendingCall::new(None, false, &waiters);
        awake.count_waiter();
        assert!(Arc::clone(&awake).finish(Err(Failure::Cancelled)).is_none(), "no thread has to be woken");
        assert!(cancelled(awake.wait(None, &mut |_| {})));
        let slept = PendingCall::new(None, false, &waiters);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| slept.wait(None, &mut |_| {}));
            while !Wake::is_blocked(&*slept) {
                std::thread::yield_now();
            }
            let waking =
                Arc::clone(&slept).finish(Err(Failure::Cancelled)).expect("a thread has to be woken");
            assert!(waking.waiter.is_blocked(), "no thread is woken before this is dropped");
            drop(waking);
            assert!(cancelled(waits.join().unwrap()));
        });
        assert!(!Wake::is_blocked(&*slept));
    }

    #[test]
    fn a_callback_runs_for_each_event_and_counts_as_a_waiter() {
        let waiters = Waiters::new(Duration::ZERO);
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        let callback: OnReady = Arc::new(move || _ = counter.fetch_add(1, Ordering::SeqCst));
        let step = |done| Progress { done, total: None, message: None };
        let early = PendingCall::new(None, true, &waiters);
        early.on_ready(&callback);
        assert!(waiters.any());
        early.push_progress(step(1.0));
        drop(early.waiter_guard());
        assert!(waiters.any(), "a callback stays counted");
        drop(Arc::clone(&early).finish(Err(Failure::Cancelled)));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        assert!(!waiters.any());
        // Registered after the outcome, so only the registration can call it.
        let late = PendingCall::new(None, true, &waiters);
        drop(Arc::clone(&late).finish(Err(Failure::Cancelled)));
        late.on_ready(&callback);
        assert_eq!(calls.load(Ordering::SeqCst), 3);
        assert!(!waiters.any());
    }
}
