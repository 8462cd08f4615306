//! Worker pool: named threads behind one bounded queue.
//!
//! Runs jobs on at most [`PoolSize::workers`] threads. Threads start on demand and end when idle. A
//! full queue blocks `submit` and fails `try_submit`. A panic ends only its job. The pool never
//! stops a running job and never joins a thread.
//!
//! # Life of a job
//!
//! Accepted (`Ok` from a submit) → queued → taken by a worker, or returned by [`Pool::withdraw`] →
//! run once. Workers take jobs in the order of acceptance. A refused job was never queued and is
//! returned to its submitter.
//!
//! # Life of a worker
//!
//! A submit starts a worker if no worker is parked and the limit is not reached. A worker runs jobs
//! until the queue is empty, yields once, checks the queue again, then parks. A worker that stays
//! parked for [`PoolSize::idle`] ends, except the last one, which stays until the pool is closed.
//! So the next call does not have to start a thread, and after the first job no submit fails
//! because a thread cannot start.
//!
//! # Closing
//!
//! [`Pool::close`], or dropping the last handle, refuses new jobs. Queued jobs still run, and each
//! worker ends when the queue is empty. Threads are not joined: a job that never returns keeps its
//! thread and the pool's memory, and blocks no other job. Before the process exits, call
//! [`Pool::wait_idle`] with a deadline; threads that are still busy end with the process.
//!
//! # Invariants (hold whenever the lock is free)
//!
//! 1. `queue.len() <= capacity`.
//! 2. `live` has one bit for each thread that was started and has not decided to end, so at most
//!    `workers` bits. A worker clears its bit in the critical section in which it saw the queue
//!    empty.
//! 3. If the queue is not empty, `live` is not zero: jobs are pushed only after a worker was found
//!    or started, and by 2 a worker ends only when the queue is empty.
//! 4. `parked ⊆ live`. A worker sets its bit in the critical section in which it saw the queue
//!    empty, right before it parks. Another thread that clears the bit unparks the worker
//!    afterwards. An `unpark` before `park` is not lost, because it leaves a token.
//! 5. No wake-up is lost: each push clears one parked bit if there is one. So when a job is queued,
//!    either no worker is parked and every live worker checks the queue before it parks (4), or a
//!    worker has been chosen for this job or an earlier one and checks the queue when it wakes.
//! 6. No submitter blocks forever while the queue has room. `waiting` counts the submitters in
//!    `wait_for_room`, `impatient` those of them that wait without a timeout. `wake_pending` is set
//!    while a notified submitter does not hold the lock yet. A job that leaves the queue notifies
//!    one submitter, unless `wake_pending` is set, or none is impatient and the queue is more than
//!    half full. A notified submitter notifies the next one if there is room for two. A wait with a
//!    timeout ends by itself. `wake_pending` is set only while `waiting` is not zero, and each
//!    submitter clears it when it wakes.
//! 7. `running` counts the workers between taking a job and the end of that job.
//! 8. Jobs and their destructors run without the lock. In a critical section only the caller's
//!    closure of `withdraw` can panic, and it runs before the state changes. So the state behind a
//!    poisoned lock is valid, and [`lock`] ignores the poison.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::sync::{lock, wait, wait_for};

#[cfg(test)]
mod tests;

/// Upper bound of [`PoolSize::workers`]: each worker has one bit of a word.
const MAX_WORKERS: usize = u64::BITS as usize;

/// Time for which a submitter waits until a full queue is half empty. After it, the submitter takes
/// the first free place.
///
/// A wake-up for each job costs a system call and two context switches. Without it, a full pool on
/// two idle cores ran jobs of 2 to 20 µs a fifth faster. The gain is smaller on a busy machine, and
/// empty jobs run slower. A submitter behind slow jobs loses at most this time.
const SUBMIT_DELAY: Duration = Duration::from_millis(1);

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSize {
    /// Maximum number of threads; clamped to 1..=64.
    pub workers: usize,
    /// Maximum number of queued jobs; at least 1.
    pub queue: usize,
    /// Stack of each worker, in bytes.
    pub stack: usize,
    /// Idle time after which a worker ends, unless it is the last.
    pub idle: Duration,
}

/// Reason why a job was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolError {
    /// The queue has no room.
    Full,
    /// The pool is closed.
    Closed,
    /// There is no worker and a thread cannot start. Only possible before the first job.
    NoThread,
}

/// A job that was not accepted, with the reason.
pub(crate) struct RejectedJob<J> {
    /// The job, untouched.
    pub job: J,
    /// The reason.
    pub reason: PoolError,
}

impl<J> fmt::Debug for RejectedJob<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedJob").field("reason", &self.reason).finish_non_exhaustive()
    }
}

/// A call of [`guard`] panicked. The panic message is dropped, because it may contain data that no
/// peer may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `f` and converts a panic to an `Err`. With `panic = "abort"` a panic ends the process.
pub(crate) fn guard<R>(f: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        // A payload may be any value, so its destructor may panic. The payload of the second panic
        // is leaked, because its destructor could panic again.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        Panicked
    })
}

/// A handle to the pool. Clones share the pool.
pub(crate) struct Pool<J: Send + 'static> {
    handle: Arc<CloseOnDrop<J>>,
}

impl<J: Send + 'static> Clone for Pool<J> {
    fn clone(&self) -> Self {
        Pool { handle: Arc::clone(&self.handle) }
    }
}

/// Shared by all handles and by no worker: it is dropped with the last handle, and closes the pool.
struct CloseOnDrop<J: Send + 'static> {
    shared: Arc<Shared<J>>,
}

impl<J: Send + 'static> Drop for CloseOnDrop<J> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

struct Shared<J> {
    size: PoolSize,
    run: Box<dyn Fn(J) + Send + Sync>,
    state: Mutex<State<J>>,
    /// Submitters wait here while the queue is full.
    room: Condvar,
    /// Callers of `wait_idle` wait here.
    quiet: Condvar,
}

struct State<J> {
    queue: VecDeque<J>,
    closed: bool,
    /// Bit n is set while worker n has a thread.
    live: u64,
    /// Bit n is set while worker n is parked or about to park, and not chosen for a job.
    parked: u64,
    /// Threads by number of worker, to unpark them.
    threads: Vec<Option<Thread>>,
    /// Number of workers that run a job.
    running: usize,
    /// Number of submitters that wait for room.
    waiting: usize,
    /// Number of them that wait without a timeout, because their [`SUBMIT_DELAY`] has passed.
    impatient: usize,
    /// One of them was notified and does not hold the lock yet.
    wake_pending: bool,
    /// Number of threads in `wait_idle`.
    watching: usize,
}

impl<J: Send + 'static> Pool<J> {
    /// Creates a pool that calls `run` for each job. Starts no thread yet.
    ///
    /// A panic of `run` ends only that job; to observe it, call [`guard`] inside `run`. Inside
    /// `run`, add jobs only with `try_submit`: a worker that blocks for room could deadlock the
    /// pool.
    pub(crate) fn new(size: PoolSize, run: impl Fn(J) + Send + Sync + 'static) -> Pool<J> {
        let size = PoolSize { workers: size.workers.clamp(1, MAX_WORKERS), queue: size.queue.max(1), ..size };
        let shared = Shared {
            size,
            run: Box::new(run),
            state: Mutex::new(State {
                queue: VecDeque::new(),
                closed: false,
                live: 0,
                parked: 0,
                threads: vec![None; size.workers],
                running: 0,
                waiting: 0,
                impatient: 0,
                wake_pending: false,
                watching: 0,
            }),
            room: Condvar::new(),
            quiet: Condvar::new(),
        };
        Pool { handle: Arc::new(CloseOnDrop { shared: Arc::new(shared) }) }
    }

    /// Queues one job, or returns it without blocking.
    ///
    /// # Errors
    ///
    /// The queue is full, the pool is closed, or a thread cannot start.
    pub(crate) fn try_submit(&self, job: J) -> Result<(), RejectedJob<J>> {
        self.try_submit_before(job, usize::MAX)
    }

    /// Like [`Pool::try_submit`], but the queue counts as full from `before` jobs on, so that some
    /// room is left for other jobs.
    ///
    /// # Errors
    ///
    /// As [`Pool::try_submit`].
    pub(crate) fn try_submit_before(&self, job: J, before: usize) -> Result<(), RejectedJob<J>> {
        let shared = &self.handle.shared;
        let state = shared.lock();
        if state.closed {
            return Err(RejectedJob { job, reason: PoolError::Closed });
        }
        if state.queue.len() >= shared.size.queue.min(before) {
            return Err(RejectedJob { job, reason: PoolError::Full });
        }
        shared.push(state, job)
    }

    /// Queues one job; blocks while the queue is full.
    ///
    /// # Errors
    ///
    /// The pool is closed, also while this blocks, or a thread cannot start.
    pub(crate) fn submit(&self, job: J) -> Result<(), RejectedJob<J>> {
        let shared = &self.handle.shared;
        let state = shared.wait_for_room(shared.lock());
        if state.closed {
            return Err(RejectedJob { job, reason: PoolError::Closed });
        }
        shared.push(state, job)
    }

    /// Queues all `jobs` in order; blocks while the queue is full.
    ///
    /// Queues as many jobs at once as the queue has room for. `jobs` keeps its allocation. After a
    /// wait, drops the jobs for which `wanted` returns false.
    ///
    /// # Errors
    ///
    /// As [`Pool::submit`]. The jobs that were not accepted stay in `jobs`, in order.
    pub(crate) fn submit_all(&self, jobs: &mut Vec<J>, wanted: impl Fn(&J) -> bool) -> Result<(), PoolError> {
        // Both conversions keep the buffer. `VecDeque` removes from the front without moving the
        // remaining jobs.
        let mut rest = VecDeque::from(std::mem::take(jobs));
        let result = self.handle.shared.push_all(&mut rest, &wanted);
        *jobs = Vec::from(rest);
        result
    }

    /// Removes the queued jobs for which `wanted` returns true, and returns them in order.
    ///
    /// `wanted` is called once for each queued job while the pool is locked, so it must be quick
    /// and must not use the pool.
    pub(crate) fn withdraw(&self, wanted: &mut dyn FnMut(&J) -> bool) -> Vec<J> {
        let shared = &self.handle.shared;
        let mut state = shared.lock();
        let picks: Vec<bool> = state.queue.iter().map(wanted).collect();
        let mut taken = Vec::new();
        for pick in picks {
            let Some(job) = state.queue.pop_front() else {
                break;
            };
            if pick {
                taken.push(job);
            } else {
                state.queue.push_back(job);
            }
        }
        if !taken.is_empty() {
            if state.must_wake_submitter(shared.size.queue) {
                shared.room.notify_one();
            }
            state.notify_if_quiet(&shared.quiet);
        }
        taken
    }

    /// Closes the pool: refuses new jobs, and returns the jobs of blocked submitters. Queued jobs
    /// still run.
    pub(crate) fn close(&self) {
        self.handle.shared.close();
    }

    /// Blocks until no job is queued or running. Returns `false` if the deadline passed first.
    pub(crate) fn wait_idle(&self, deadline: Instant) -> bool {
        let shared = &self.handle.shared;
        let mut state = shared.lock();
        state.watching += 1;
        while !state.is_quiet() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = wait_for(&shared.quiet, state, left);
        }
        state.watching -= 1;
        state.is_quiet()
    }

    /// Returns the number of queued jobs.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.handle.shared.lock().queue.len()
    }

    /// Returns the number of running jobs.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.handle.shared.lock().running
    }

    /// Returns the number of threads.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        self.handle.shared.lock().live.count_ones() as usize
    }
}

impl<J> State<J> {
    fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.running == 0
    }

    fn notify_if_quiet(&self, quiet: &Condvar) {
        if self.watching > 0 && self.is_quiet() {
            quiet.notify_all();
        }
    }

    /// Returns whether to notify a submitter; the caller must then do so.
    fn must_wake_submitter(&mut self, capacity: usize) -> bool {
        let has_room = self.impatient > 0 || self.queue.len() <= capacity / 2;
        let wake = self.waiting > 0 && !self.wake_pending && has_room;
        self.wake_pending |= wake;
        wake
    }

    /// Clears the parked bit with the lowest number and returns its thread, which the caller must
    /// unpark. With the lowest number, light traffic uses the same few threads and the others end.
    fn choose_parked(&mut self) -> Option<Thread> {
        if self.parked == 0 {
            return None;
        }
        let worker = self.parked.trailing_zeros() as usize;
        self.parked &= self.parked - 1;
        self.threads[worker].clone()
    }
}

impl<J: Send + 'static> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        lock(&self.state)
    }

    /// Blocks until there is room or the pool is closed.
    #[cold]
    fn wait_for_room<'a>(&self, mut state: MutexGuard<'a, State<J>>) -> MutexGuard<'a, State<J>> {
        let capacity = self.size.queue;
        if state.closed || state.queue.len() < capacity {
            return state;
        }
        state.waiting += 1;
        state = wait_for(&self.room, state, SUBMIT_DELAY);
        state.wake_pending = false;
        while !state.closed && state.queue.len() >= capacity {
            state.impatient += 1;
            state = wait(&self.room, state);
            state.impatient -= 1;
            state.wake_pending = false;
        }
        state.waiting -= 1;
        if state.queue.len() + 1 < capacity && state.must_wake_submitter(capacity) {
            self.room.notify_one();
        }
        state
    }

    /// Queues one job and unparks or starts a worker. The queue must have room.
    fn push(self: &Arc<Self>, mut state: MutexGuard<'_, State<J>>, job: J) -> Result<(), RejectedJob<J>> {
        let chosen = state.choose_parked();
        if chosen.is_none() && self.start_worker(&mut state).is_err() && state.live == 0 {
            return Err(RejectedJob { job, reason: PoolError::NoThread });
        }
        state.queue.push_back(job);
        drop(state);
        // Unpark after unlocking: otherwise the worker wakes up and blocks on the lock.
        if let Some(thread) = chosen {
            thread.unpark();
        }
        Ok(())
    }

    fn push_all(
        self: &Arc<Self>,
        jobs: &mut VecDeque<J>,
        wanted: &dyn Fn(&J) -> bool,
    ) -> Result<(), PoolError> {
        let mut chosen = Vec::new();
        while !jobs.is_empty() {
            let mut state = self.lock();
            if state.closed {
                return Err(PoolError::Closed);
            }
            if state.queue.len() >= self.size.queue {
                drop(self.wait_for_room(state));
                jobs.retain(wanted);
                continue;
            }
            let count = jobs.len().min(self.size.queue - state.queue.len());
            let mut woken = 0;
            while woken < count {
                match state.choose_parked() {
                    Some(thread) => chosen.push(thread),
                    None => match self.start_worker(&mut state) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(_) if state.live == 0 => return Err(PoolError::NoThread),
                        Err(_) => break,
                    },
                }
                woken += 1;
            }
            state.queue.extend(jobs.drain(..count));
            drop(state);
            chosen.drain(..).for_each(|thread| thread.unpark());
        }
        Ok(())
    }

    /// Starts a worker if the limit is not reached. Returns whether a worker was started.
    ///
    /// The lock stays held, for some tens of microseconds, so that a failure to start the first
    /// worker is known before its job is queued.
    fn start_worker(self: &Arc<Self>, state: &mut State<J>) -> io::Result<bool> {
        let worker = state.live.trailing_ones() as usize;
        if worker >= self.size.workers {
            return Ok(false);
        }
        let shared = Arc::clone(self);
        let handle = thread::Builder::new()
            .name(format!("mcp-worker-{}", worker + 1))
            .stack_size(self.size.stack)
            .spawn(move || shared.work(worker))?;
        state.live |= 1 << worker;
        state.threads[worker] = Some(handle.thread().clone());
        Ok(true)
    }

    /// The main function of a worker thread.
    fn work(&self, worker: usize) {
        let bit = 1_u64 << worker;
        let mut idle_since = None;
        let mut yielded = false;
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                state.running += 1;
                let wake = state.must_wake_submitter(self.size.queue);
                drop(state);
                if wake {
                    self.room.notify_one();
                }
                // OK to drop: the panic hook has reported it. `run` may call `guard` itself.
                let _ = guard(|| (self.run)(job));
                idle_since = None;
                yielded = false;
                state = self.lock();
                state.running -= 1;
                state.notify_if_quiet(&self.quiet);
                continue;
            }
            if !yielded {
                // With one processor the next job usually comes from a thread that is runnable but
                // could not run yet. Parking and unparking costs 10 % of a short call.
                yielded = true;
                drop(state);
                thread::yield_now();
                state = self.lock();
                continue;
            }
            let last = state.live == bit;
            let since = *idle_since.get_or_insert_with(Instant::now);
            let left = self.size.idle.saturating_sub(since.elapsed());
            if state.closed || (left.is_zero() && !last) {
                state.live &= !bit;
                state.threads[worker] = None;
                return;
            }
            state.parked |= bit;
            drop(state);
            if last {
                thread::park();
            } else {
                thread::park_timeout(left);
            }
            state = self.lock();
            // The bit is still set after a timeout or a spurious wake-up.
            state.parked &= !bit;
        }
    }

    #[cold]
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let mut parked = Vec::new();
        while let Some(thread) = state.choose_parked() {
            parked.push(thread);
        }
        drop(state);
        self.room.notify_all();
        parked.iter().for_each(Thread::unpark);
    }
}
