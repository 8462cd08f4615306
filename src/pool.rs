//! A fixed number of named worker threads behind one bounded queue.
//!
//! What it does: runs jobs on at most [`PoolSize::workers`] threads, starts them when work comes
//! and lets them end when none does, makes submitters wait (or tells them) when the queue is
//! full, gives queued jobs back, survives panics. What it does not: know what a job is, answer for
//! a job that panicked, stop a running job, or join a thread.
//!
//! # Life of a job
//!
//! Accepted (`Ok` from a submit) → queued → taken by a worker, or given back by
//! [`Pool::withdraw`] → run once. Order of taking is order of acceptance. A refused job never
//! was in the queue and comes back to whoever brought it.
//!
//! # Life of a worker
//!
//! Started by a submit that finds nobody parked and fewer threads than allowed. It takes one job
//! after another while there are any, looks once more after everybody else had a turn, then
//! parks. A parked worker that nobody needed for [`PoolSize::idle`] ends, except the last one,
//! which stays until the pool is closed: a quiet server keeps one thread, its next call does not
//! pay for starting one, and from the first job on no submit can fail for want of a thread.
//!
//! # Closing
//!
//! [`Pool::close`], or dropping the last handle, refuses new jobs; queued ones still run and each
//! worker ends when it finds the queue empty. Nothing joins: a job that never returns keeps its
//! own thread and the pool's memory, but holds up nobody. A process that wants its jobs finished
//! before it exits calls [`Pool::wait_idle`] with a deadline; threads still busy then die with
//! the process.
//!
//! # Invariants (hold whenever the lock is free)
//!
//! 1. `queue.len() <= capacity`.
//! 2. `live` has one bit per thread that was started and has not decided to end; never more than
//!    `workers` bits. A worker clears its bit in the same critical section in which it saw the
//!    queue empty.
//! 3. The queue is empty or `live` is not: jobs are pushed only after a worker was found or
//!    started, and by 2 a worker leaves only an empty queue.
//! 4. `parked ⊆ live`. A bit is set by its worker, in the critical section in which it saw the
//!    queue empty, right before it parks. Whoever clears it, if not the worker itself, unparks that
//!    worker afterwards; the token of `unpark` makes it no matter whether the worker sleeps yet.
//! 5. No lost wake-up: each push clears one parked bit if there is one. So when a job is queued
//!    either nobody is parked and every live worker will look at the queue before it parks (4),
//!    or a worker that was chosen for this job or an earlier one is on its way to look.
//! 6. No submitter sleeps for ever beside free room. `waiting` counts those in `wait_for_room`,
//!    `eager` those of them that no longer sleep with a timeout, `called` says that one was woken
//!    and did not get the lock yet. A job that leaves the queue calls one, unless one is called
//!    already or all are patient and the queue is more than half full: then the called one calls
//!    the next if there is room for two, and patience ends by itself. `called` is set only while
//!    `waiting` is not zero, and each of those clears it on its way.
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
const MOST_WORKERS: usize = u64::BITS as usize;

/// How long a submitter that met a full queue waits for it to drain by half before it takes any
/// room there is.
///
/// Waking it for every job taken costs a system call and two context switches per job. On two
/// idle cores a full pool ran jobs of 2 to 20 microseconds a fifth faster without; the gain
/// shrinks on a busy machine, and empty jobs, a million a second and more, run slower. A reader
/// held up by slow jobs loses at most this long.
const PATIENCE: Duration = Duration::from_millis(1);

/// How large a pool may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSize {
    /// Most threads at one time; brought into 1..=64.
    pub workers: usize,
    /// Most jobs accepted and not yet taken by a worker; at least 1.
    pub queue: usize,
    /// Stack of each worker, in bytes.
    pub stack: usize,
    /// A worker that found no job for so long ends, unless it is the last.
    pub idle: Duration,
}

/// Why a job was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue has no room.
    Full,
    /// The pool takes no more jobs.
    Closed,
    /// There is no worker and the system starts no thread. Only possible before the first job.
    NoThread,
}

/// A job that was not accepted, with the reason.
pub(crate) struct Refused<J> {
    /// The job, untouched.
    pub job: J,
    /// Why it came back.
    pub why: Refusal,
}

impl<J> fmt::Debug for Refused<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("why", &self.why).finish_non_exhaustive()
    }
}

/// A call of [`guard`] ended by a panic. Its text is gone: it may quote what no peer should read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs `f`; a panic becomes an `Err`. Built with `panic = "abort"`, a panic ends the process.
pub(crate) fn guard<R>(f: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|payload| {
        // A payload may be any value, so its destructor may panic as well. What that panic
        // carries is leaked: this ends somewhere.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
        Panicked
    })
}

/// A handle to the pool; clones are cheap and lead to the same pool.
pub(crate) struct Pool<J: Send + 'static> {
    door: Arc<Door<J>>,
}

#[cfg(test)]
impl<J: Send + 'static> Clone for Pool<J> {
    fn clone(&self) -> Self {
        Pool { door: Arc::clone(&self.door) }
    }
}

/// What all handles share and no worker holds, so that its end is the end of the last handle.
struct Door<J: Send + 'static> {
    shared: Arc<Shared<J>>,
}

impl<J: Send + 'static> Drop for Door<J> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

struct Shared<J> {
    size: PoolSize,
    run: Box<dyn Fn(J) + Send + Sync>,
    state: Mutex<State<J>>,
    /// Submitters sleep here while the queue is full.
    room: Condvar,
    /// Callers of `wait_idle` sleep here.
    quiet: Condvar,
}

struct State<J> {
    queue: VecDeque<J>,
    closed: bool,
    /// Bit n: worker n has a thread.
    live: u64,
    /// Bit n: worker n sleeps, or is about to, and nobody has chosen it for a job yet.
    parked: u64,
    /// Thread of worker n, to unpark it.
    threads: Vec<Option<Thread>>,
    running: usize,
    /// Submitters waiting for room.
    waiting: usize,
    /// Those of them to whom any room will do.
    eager: usize,
    /// One of them has been woken and is on its way.
    called: bool,
    /// Threads in `wait_idle`.
    watching: usize,
}

impl<J: Send + 'static> Pool<J> {
    /// A pool that hands every job to `run`. Starts no thread yet.
    ///
    /// A panic of `run` ends that job and nothing else; who wants to know of it calls [`guard`]
    /// inside `run`. Inside `run`, only `try_submit` may be used to add jobs: a worker that waits
    /// for room may be the one that would have to make it.
    pub(crate) fn new(size: PoolSize, run: impl Fn(J) + Send + Sync + 'static) -> Pool<J> {
        let size =
            PoolSize { workers: size.workers.clamp(1, MOST_WORKERS), queue: size.queue.max(1), ..size };
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
        Pool { door: Arc::new(Door { shared: Arc::new(shared) }) }
    }

    /// Hands one job over, or gives it back at once.
    ///
    /// # Errors
    ///
    /// The job comes back when the queue is full, the pool closed, or no thread can be started.
    pub(crate) fn try_submit(&self, job: J) -> Result<(), Refused<J>> {
        self.try_submit_before(job, usize::MAX)
    }

    /// The same where at most `before` jobs are queued already: some room is left for others.
    ///
    /// # Errors
    ///
    /// As [`Pool::try_submit`].
    pub(crate) fn try_submit_before(&self, job: J, before: usize) -> Result<(), Refused<J>> {
        let shared = &self.door.shared;
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

    /// Hands one job over, waiting for room as long as it takes.
    ///
    /// # Errors
    ///
    /// The job comes back when the pool is closed (also while waiting), or no thread can be
    /// started; never because the queue is full.
    pub(crate) fn submit(&self, job: J) -> Result<(), Refused<J>> {
        let shared = &self.door.shared;
        let state = shared.wait_for_room(shared.lock());
        if state.closed {
            let why = Refusal::Closed;
            return Err(Refused { job, why });
        }
        shared.push(state, job)
    }

    /// Hands over all of `jobs` in order, waiting for room whenever the queue is full.
    ///
    /// As many as there is room for go in together. `jobs` keeps its allocation. After a wait, jobs
    /// that are no longer `wanted` are dropped: they would take the room of others.
    ///
    /// # Errors
    ///
    /// As [`Pool::submit`]; the jobs not accepted stay in `jobs`, in order.
    pub(crate) fn submit_all(&self, jobs: &mut Vec<J>, wanted: impl Fn(&J) -> bool) -> Result<(), Refusal> {
        // Both conversions keep the buffer; a deque loses its front without moving the rest.
        let mut rest = VecDeque::from(std::mem::take(jobs));
        let result = self.door.shared.push_all(&mut rest, &wanted);
        *jobs = Vec::from(rest);
        result
    }

    /// Takes the queued jobs for which `wanted` says true, in order, and makes their room free.
    ///
    /// `wanted` sees each queued job once, with the pool locked: it must be quick and must not
    /// call the pool.
    pub(crate) fn withdraw(&self, wanted: &mut dyn FnMut(&J) -> bool) -> Vec<J> {
        let shared = &self.door.shared;
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
            state.tell_if_quiet(&shared.quiet);
        }
        taken
    }

    /// Takes no more jobs; queued ones still run, waiting submitters get theirs back.
    pub(crate) fn close(&self) {
        self.door.shared.close();
    }

    /// Waits until nothing is queued or running; false if the deadline came first.
    pub(crate) fn wait_idle(&self, deadline: Instant) -> bool {
        let shared = &self.door.shared;
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
        self.door.shared.lock().queue.len()
    }

    /// Jobs being run now.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.door.shared.lock().running
    }

    /// Threads started that have not ended.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        self.door.shared.lock().live.count_ones() as usize
    }
}

impl<J> State<J> {
    fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.running == 0
    }

    fn tell_if_quiet(&self, quiet: &Condvar) {
        if self.watching > 0 && self.is_quiet() {
            quiet.notify_all();
        }
    }

    /// Whether a submitter is to be woken now; who asks must do it.
    fn call_submitter(&mut self, capacity: usize) -> bool {
        let call = self.waiting > 0 && !self.called && (self.eager > 0 || self.queue.len() <= capacity / 2);
        self.called |= call;
        call
    }

    /// The parked worker with the lowest number, now chosen: the caller must unpark it.
    ///
    /// Always the lowest, so that light traffic keeps the same few threads warm and the others
    /// reach the end of their idle time.
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

    /// Comes back when there is room, or the pool is closed.
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

    /// Queues one job, for which there is room, and sees to it that a worker comes.
    fn push(self: &Arc<Self>, mut state: MutexGuard<'_, State<J>>, job: J) -> Result<(), Refused<J>> {
        let chosen = state.choose();
        if chosen.is_none() && self.start_worker(&mut state).is_err() && state.live == 0 {
            let why = Refusal::NoThread;
            return Err(Refused { job, why });
        }
        state.queue.push_back(job);
        drop(state);
        // Only now, or the worker would wake up just to wait for the lock.
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

    /// Starts one more worker if the size allows; tells whether it did.
    ///
    /// The lock is held meanwhile. That costs others some tens of microseconds, seldom, and
    /// lets a first worker that cannot start be known before its job is queued.
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

    /// What the thread of one worker does, from start to end.
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
                state.tell_if_quiet(&self.quiet);
                continue;
            }
            if !yielded {
                // On one processor the next job mostly comes from a thread that could not run till now;
                // to sleep and be woken for it takes a tenth of a short call.
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
            // Not chosen: the time is over, or the wake-up was nobody's. Either way awake.
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
