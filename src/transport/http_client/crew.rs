//! Threads for exchanges that no caller drives: started when there is work, gone when there is not.
//!
//! What it does: runs jobs on at most so many threads; lets at most so many wait. What it does
//! not: order jobs, or catch what they do wrong; they are this module's neighbours.
//!
//! # Invariants
//! - A job that was taken runs exactly once, unless the crew is dismissed first; then it is
//!   dropped.
//! - The lock is never held while a job runs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread waits for the next job before it ends.
const IDLE: Duration = Duration::from_secs(5);
/// TLS, JSON and HTTP heads fit with room to spare; untouched pages cost nothing.
const STACK: usize = 256 << 10;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Why a job was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// As many as may be are running and waiting.
    Full,
    /// The crew was dismissed.
    Dismissed,
    /// The system gives no thread.
    NoThread,
}

/// A bounded set of threads.
pub(super) struct Crew(Arc<Shared>);

struct Shared {
    name: &'static str,
    most: usize,
    queue: usize,
    state: Mutex<State>,
    /// For idle threads: a job, or the dismissal.
    work: Condvar,
    /// For everybody else: a job ended or found a thread, a thread ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Who waits for `changed`; waking nobody would still cost a system call.
    waiting: usize,
    dismissed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, mut state: MutexGuard<'s, State>, time: Duration) -> MutexGuard<'s, State> {
        state.waiting += 1;
        let mut state = self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
        state
    }

    fn tell(&self, state: &State) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }
}

impl Crew {
    /// At most `most` threads; beyond them at most `queue` jobs wait.
    pub(super) fn new(name: &'static str, most: usize, queue: usize) -> Crew {
        let (work, changed) = (Condvar::new(), Condvar::new());
        Crew(Arc::new(Shared { name, most, queue, state: Mutex::default(), work, changed }))
    }

    /// Takes a job. Where there is no place for it, waits for one until `deadline`.
    ///
    /// # Errors
    /// It will not run; the reason.
    pub(super) fn run(&self, job: Job, deadline: Instant) -> Result<(), Refused> {
        let mut state = self.0.state();
        loop {
            if state.dismissed {
                return Err(Refused::Dismissed);
            }
            if state.idle > state.jobs.len() {
                state.jobs.push_back(job);
                self.0.work.notify_one();
                return Ok(());
            }
            if state.threads < self.0.most {
                state.threads += 1;
                drop(state);
                return self.start(job);
            }
            if state.jobs.len() < self.0.queue {
                state.jobs.push_back(job);
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Refused::Full);
            }
            state = self.0.wait(state, left);
        }
    }

    fn start(&self, job: Job) -> Result<(), Refused> {
        let shared = Arc::clone(&self.0);
        let built = std::thread::Builder::new().name(self.0.name.into()).stack_size(STACK);
        built.spawn(move || work(&shared, job)).map(drop).map_err(|_| {
            let mut state = self.0.state();
            state.threads -= 1;
            self.0.tell(&state);
            Refused::NoThread
        })
    }

    /// Waits until nothing runs or waits any longer, or until `deadline`.
    pub(super) fn settle(&self, deadline: Instant) {
        let mut state = self.0.state();
        while state.threads > state.idle || !state.jobs.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.0.wait(state, left);
        }
    }

    /// Drops what waits and takes nothing more.
    pub(super) fn dismiss(&self) {
        let mut state = self.0.state();
        state.dismissed = true;
        let dropped = std::mem::take(&mut state.jobs);
        self.0.tell(&state);
        drop(state);
        self.0.work.notify_all();
        // What a job owns may want locks of its own.
        drop(dropped);
    }

    /// Threads that live now.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.0.state().threads
    }

    /// Waits until every thread has ended, or until `deadline`.
    pub(super) fn gone(&self, deadline: Instant) {
        let mut state = self.0.state();
        while state.threads > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.0.wait(state, left);
        }
    }
}

/// Dropped when its thread ends, by a panic too: nobody may wait for it then.
struct Place<'s>(&'s Shared);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.threads -= 1;
        self.0.tell(&state);
    }
}

fn work(shared: &Shared, first: Job) {
    let _place = Place(shared);
    let mut job = Some(first);
    loop {
        if let Some(job) = job.take() {
            job();
        }
        let mut state = shared.state();
        state.idle += 1;
        shared.tell(&state);
        let end = Instant::now() + IDLE;
        job = loop {
            if let Some(next) = state.jobs.pop_front() {
                break Some(next);
            }
            let left = end.saturating_duration_since(Instant::now());
            if state.dismissed || left.is_zero() {
                break None;
            }
            state = shared.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.idle -= 1;
        shared.tell(&state);
        if job.is_none() {
            return;
        }
    }
}
