//! Worker pool: named threads behind one bounded queue.
//!
//! The pool starts workers on demand and ends idle ones. A submitter blocks while the queue is
//! full, or gets its job back. Panics of jobs are caught. The pool never stops a running job and
//! never joins a thread.
//!
//! # Life of a job
//!
//! Accepted (`Ok` from a submit) → queued → taken by a worker, or returned by [`Pool::withdraw`] →
//! run once. Workers take jobs in order of acceptance. A refused job is returned to its submitter
//! and was never in the queue.
//!
//! # Life of a worker
//!
//! A submit starts a worker if no worker is parked and fewer threads run than allowed. The worker
//! takes jobs until the queue is empty, yields once, checks again, then parks. A worker that stays
//! parked for [`PoolSize::idle`] ends, except the last one, which stays until the pool is closed.
//! So the next call of an idle server need not start a thread, and after the first job no submit
//! can fail because the system has no thread.
//!
//! # Closing
//!
//! [`Pool::close`], or dropping the last handle, refuses new jobs. Queued jobs still run, and each
//! worker ends when the queue is empty. Nothing is joined: a job that never returns keeps its
//! thread and the pool's memory, but blocks no other job. A process that waits for its jobs before
//! it exits calls [`Pool::wait_idle`] with a deadline.
//!
//! # Invariants (hold whenever the lock is free)
//!
//! 1. `queue.len() <= capacity`.
//! 2. `live` has one bit per thread that was started and has not decided to end; never more than
//!    `workers` bits. A worker clears its bit in the same critical section in which it saw the
//!    queue empty.
//! 3. The queue is empty or `live` is not: jobs are pushed only after a worker was found or
//!    started, and by 2 a worker leaves only an empty queue.
//! 4. `parked ⊆ live`. A worker sets its bit in the critical section in which it saw the queue
//!    empty, right before it parks. Another thread that clears the bit unparks that worker
//!    afterwards; because of the token of `unpark` the worker need not be parked yet.
//! 5. No lost wake-up: each push clears one parked bit if there is one. So when a job is queued,
//!    either no worker is parked and every live worker checks the queue before it parks (4), or a
//!    worker that was chosen for this job or an earlier one will check it.
//! 6. No submitter blocks forever while there is room. `waiting` counts the threads in
//!    `wait_for_room`, `eager` those of them that wait without a timeout; `called` is set while a
//!    notified one has not taken the lock yet. A job that leaves the queue notifies one, unless one
//!    is called already, or none is eager and the queue is more than half full. A called submitter
//!    notifies the next one if there is room for two. A wait with a timeout ends by itself. `called`
//!    is set only while `waiting` is not zero, and each waiter clears it when it wakes.
//! 7. `running` counts the workers between taking a job and the end of that job.
//! 8. Jobs, and the destructors of jobs, run with the lock free. Nothing in a critical section can
//!    panic except the caller's closure in `withdraw`, which runs before anything is changed; so a
//!    poisoned lock guards a sound state, and poison is ignored.

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

/// Workers are numbered by the bits of one word.
const MAX_WORKERS: usize = u64::BITS as usize;

/// Time for which a submitter with a full queue waits until the queue is half empty. After it, any
/// room will do.
///
/// A wake-up for every job costs a system call and two context switches per job. Without it, a full
/// pool on two idle cores ran jobs of 2 to 20 µs a fifth faster; the gain is smaller on a busy
/// machine. A submitter behind slow jobs loses at most this time.
const PATIENCE: Duration = Duration::from_millis(1);

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
pub(crate) enum Refusal {
    /// The queue has no room.
    Full,
    /// The pool takes no more jobs.
    Closed,
    /// There is no worker and the system cannot start a thread. Only possible before the first job.
    NoThread,
}

/// A job that was not accepted, with the reason.
pub(crate) struct Refused<J> {
    /// The job, untouched.
    pub job: J,
    /// The reason.
    pub why: Refusal,
}

impl<J> fmt::Debug for Refused<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("why", &self.why).finish_non_exhaustive()
    }
}

/// A call of [`guard`] ended by a panic. The panic text is dropped, because it may contain data
/// that peers must not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `f`; a panic becomes an `Err`. Built with `panic = "abort"`, a panic ends the process.
pub(crate) fn guard<R>(f: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        // A payload may be any value, so its destructor may panic as well. The payload of that
        // panic is leaked.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        Panicked
    })
}

/// A handle to the pool; clones are cheap and lead to the same pool.
pub(crate) struct Pool<J: Send + 'static> {
    handle: Arc<Handle<J>>,
}

#[cfg(test)]
impl<J: Send + 'static> Clone for Pool<J> {
    fn clone(&self) -> Self {
        Pool { handle: Arc::clone(&self.handle) }
    }
}

/// Shared by all handles and by no worker, so that it is dropped with the last handle.
struct Handle<J: Send + 'static> {
    shared: Arc<Shared<J>>,
}

impl<J: Send + 'static> Drop for Handle<J> {
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
    /// Bit n: worker n has a thread.
    live: u64,
    /// Bit n: worker n is parked, or about to park, and not chosen for a job.
    parked: u64,
    /// Thread of worker n, to unpark it.
    threads: Vec<Option<Thread>>,
    running: usize,
    /// Submitters waiting for room.
    waiting: usize,
    /// Number of them that wait without a timeout.
    eager: usize,
    /// One of them was notified and has not taken the lock yet.
    called: bool,
    /// Threads in `wait_idle`.
    watching: usize,
}

impl<J: Send + 'static> Pool<J> {
    /// A pool that calls `run` for every job. Starts no thread yet.
    ///
    /// A panic of `run` ends only that job; to observe it, call [`guard`] inside `run`. Inside
    /// `run` only `try_submit` may add jobs, because a worker that waits for room could wait for
    /// itself.
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
                eager: 0,
                called: false,
                watching: 0,
            }),
            room: Condvar::new(),
            quiet: Condvar::new(),
        };
        Pool { handle: Arc::new(Handle { shared: Arc::new(shared) }) }
    }

    /// Queues one job, or returns it at once.
    ///
    /// # Errors
    ///
    /// The queue is full, the pool is closed, or no thread can be started.
    pub(crate) fn try_submit(&self, job: J) -> Result<(), Refused<J>> {
        self.try_submit_before(job, usize::MAX)
    }

    /// The same if fewer than `before` jobs are queued, so that some room is left for other jobs.
    ///
    /// # Errors
    ///
    /// As [`Pool::try_submit`].
    pub(crate) fn try_submit_before(&self, job: J, before: usize) -> Result<(), Refused<J>> {
        let shared = &self.handle.shared;
        let state = shared.lock();
        if state.closed {
            let why = Refusal::Closed;
            return Err(Refused { job, why });
        }
        if state.queue.len() >= shared.size.queue.min(before) {
            let why = Refusal::Full;
            return Err(Refused { job, why });
        }
        shared.push(state, job)
    }

    /// Queues one job; blocks while the queue is full.
    ///
    /// # Errors
    ///
    /// The pool is closed, also while this waits, or no thread can be started.
    pub(crate) fn submit(&self, job: J) -> Result<(), Refused<J>> {
        let shared = &self.handle.shared;
        let state = shared.wait_for_room(shared.lock());
        if state.closed {
            let why = Refusal::Closed;
            return Err(Refused { job, why });
        }
        shared.push(state, job)
    }

    /// Queues all `jobs` in order; blocks while the queue is full.
    ///
    /// Jobs are queued in groups as large as the room. `jobs` keeps its allocation. After a wait,
    /// jobs that are no longer `wanted` are dropped.
    ///
    /// # Errors
    ///
    /// As [`Pool::submit`]; the jobs not accepted stay in `jobs`, in order.
    pub(crate) fn submit_all(&self, jobs: &mut Vec<J>, wanted: impl Fn(&J) -> bool) -> Result<(), Refusal> {
        // Both conversions keep the buffer; a deque loses its front without moving the rest.
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
            if state.call_submitter(shared.size.queue) {
                shared.room.notify_one();
            }
            state.notify_if_quiet(&shared.quiet);
        }
        taken
    }

    /// Refuses new jobs. Queued jobs still run; blocked submitters get their jobs back.
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

    /// Jobs accepted and not yet taken by a worker.
    #[cfg(test)]
    pub(crate) fn queued(&self) -> usize {
        self.handle.shared.lock().queue.len()
    }

    /// Jobs being run now.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.handle.shared.lock().running
    }

    /// Threads started that have not ended.
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

    /// Returns whether the caller must notify a submitter.
    fn call_submitter(&mut self, capacity: usize) -> bool {
        let call = self.waiting > 0 && !self.called && (self.eager > 0 || self.queue.len() <= capacity / 2);
        self.called |= call;
        call
    }

    /// Chooses the parked worker with the lowest number. The caller must unpark it.
    ///
    /// The lowest, so that light traffic uses the same few threads and the others become idle.
    fn choose(&mut self) -> Option<Thread> {
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
        state = wait_for(&self.room, state, PATIENCE);
        state.called = false;
        while !state.closed && state.queue.len() >= capacity {
            state.eager += 1;
            state = wait(&self.room, state);
            state.eager -= 1;
            state.called = false;
        }
        state.waiting -= 1;
        if state.queue.len() + 1 < capacity && state.call_submitter(capacity) {
            self.room.notify_one();
        }
        state
    }

    /// Queues one job, for which there is room, and wakes or starts a worker.
    fn push(self: &Arc<Self>, mut state: MutexGuard<'_, State<J>>, job: J) -> Result<(), Refused<J>> {
        let chosen = state.choose();
        if chosen.is_none() && self.start_worker(&mut state).is_err() && state.live == 0 {
            let why = Refusal::NoThread;
            return Err(Refused { job, why });
        }
        state.queue.push_back(job);
        drop(state);
        // After the unlock, or the worker would wake up and wait for the lock.
        if let Some(thread) = chosen {
            thread.unpark();
        }
        Ok(())
    }

    fn push_all(
        self: &Arc<Self>,
        jobs: &mut VecDeque<J>,
        wanted: &dyn Fn(&J) -> bool,
    ) -> Result<(), Refusal> {
        let mut chosen = Vec::new();
        while !jobs.is_empty() {
            let mut state = self.lock();
            if state.closed {
                return Err(Refusal::Closed);
            }
            if state.queue.len() >= self.size.queue {
                drop(self.wait_for_room(state));
                jobs.retain(wanted);
                continue;
            }
            let count = jobs.len().min(self.size.queue - state.queue.len());
            let mut summoned = 0;
            while summoned < count {
                match state.choose() {
                    Some(thread) => chosen.push(thread),
                    None => match self.start_worker(&mut state) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(_) if state.live == 0 => return Err(Refusal::NoThread),
                        Err(_) => break,
                    },
                }
                summoned += 1;
            }
            state.queue.extend(jobs.drain(..count));
            drop(state);
            chosen.drain(..).for_each(|thread| thread.unpark());
        }
        Ok(())
    }

    /// Starts one more worker if the size allows. Returns whether it did.
    ///
    /// The lock is held meanwhile, for some tens of microseconds, so that a failure to start the
    /// first worker is known before its job is queued.
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
                let call = state.call_submitter(self.size.queue);
                drop(state);
                if call {
                    self.room.notify_one();
                }
                // The panic has been reported by the hook, and the job's owner guards inside.
                let _ = guard(|| (self.run)(job));
                idle_since = None;
                yielded = false;
                state = self.lock();
                state.running -= 1;
                state.notify_if_quiet(&self.quiet);
                continue;
            }
            if !yielded {
                // On one processor the next job usually comes from a thread that could not run yet.
                // To park and be woken for it would take a tenth of a short call.
                yielded = true;
                drop(state);
                thread::yield_now();
                state = self.lock();
                continue;
            }
            let alone = state.live == bit;
            let since = *idle_since.get_or_insert_with(Instant::now);
            let left = self.size.idle.saturating_sub(since.elapsed());
            if state.closed || (left.is_zero() && !alone) {
                state.live &= !bit;
                state.threads[worker] = None;
                return;
            }
            state.parked |= bit;
            drop(state);
            if alone {
                thread::park();
            } else {
                thread::park_timeout(left);
            }
            state = self.lock();
            // After a timeout or a spurious wake-up the bit is still set.
            state.parked &= !bit;
        }
    }

    #[cold]
    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let mut parked = Vec::new();
        while let Some(thread) = state.choose() {
            parked.push(thread);
        }
        drop(state);
        self.room.notify_all();
        parked.iter().for_each(Thread::unpark);
    }
}
