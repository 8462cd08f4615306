//! Tests of single mechanisms of the worker pool; `traffic` tests many threads at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

mod traffic;

/// Upper bound of a wait.
const TIMEOUT: Duration = Duration::from_secs(60);

type Task = Box<dyn FnOnce() + Send>;

fn size(workers: usize, queue: usize) -> PoolSize {
    PoolSize { workers, queue, stack: 128 << 10, idle: TIMEOUT }
}

/// A pool whose jobs are closures.
fn tasks(size: PoolSize) -> Pool<Task> {
    Pool::new(size, |task: Task| task())
}

fn deadline() -> Instant {
    Instant::now() + TIMEOUT
}

/// Yields until the condition holds.
fn until(claim: impl Fn() -> bool) {
    let end = deadline();
    while !claim() {
        assert!(Instant::now() < end, "the condition was not met in time");
        thread::yield_now();
    }
}

fn next<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(TIMEOUT).expect("nothing arrived")
}

/// Runs `f` on a new thread. The channel receives its result.
fn spawn<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Receiver<R> {
    let (sent, got) = mpsc::channel();
    thread::spawn(move || sent.send(f()).unwrap());
    got
}

/// Runs a test that may hang when it fails.
fn in_time(test: impl FnOnce() + Send + 'static) {
    next(&spawn(test));
}

/// Closed at first. Threads pass once it is open.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn pass(&self) {
        let shut = self.0.0.lock().unwrap();
        let waited = self.0.1.wait_timeout_while(shut, TIMEOUT, |open| !*open);
        assert!(*waited.unwrap().0, "the gate was never opened");
    }

    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Job 0 waits for the gate; the other jobs end at once.
    fn hold_back(&self, n: usize) {
        if n == 0 {
            self.pass();
        }
    }

    /// A job that ends when the gate is open.
    fn task(&self) -> Task {
        let gate = self.clone();
        Box::new(move || gate.pass())
    }
}

/// Both ends of one gate.
fn gates() -> (Gate, Gate) {
    let gate = Gate::default();
    (gate.clone(), gate)
}

/// Keeps this number of workers busy until the gate is open.
fn occupy(pool: &Pool<Task>, workers: usize) -> Gate {
    let gate = Gate::default();
    for busy in 1..=workers {
        pool.submit(gate.task()).unwrap();
        until(|| pool.running() == busy);
    }
    gate
}

fn noop() -> Task {
    Box::new(|| ())
}

/// Submitters that wait for any room.
fn blocked_submitters(pool: &Pool<Task>) -> usize {
    pool.handle.shared.lock().impatient
}

fn parked<J: Send + 'static>(pool: &Pool<J>) -> u32 {
    pool.handle.shared.lock().parked.count_ones()
}

#[test]
fn guard_returns_the_value_or_the_panic() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new(Bomb2));
        }
    }
    struct Bomb2;
    impl Drop for Bomb2 {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    assert_eq!(guard(|| 7), Ok(7));
    assert_eq!(guard(|| panic!("text")), Err::<(), _>(Panicked));
    assert_eq!(guard(|| resume_unwind(Box::new(Bomb))), Err::<(), _>(Panicked));
}

#[test]
fn threads_start_with_the_first_job_and_have_names() {
    let pool = tasks(size(3, 8));
    assert_eq!(pool.threads(), 0);
    let (sent, got) = mpsc::channel();
    let meet = Arc::new(Barrier::new(3));
    for started in 1..=3 {
        let (sent, meet) = (sent.clone(), Arc::clone(&meet));
        pool.try_submit(Box::new(move || {
            meet.wait();
            let name = thread::current().name().unwrap().to_owned();
            sent.send(name).unwrap();
        }))
        .unwrap();
        assert_eq!(pool.threads(), started);
    }
    let names: HashSet<String> = (0..3).map(|_| next(&got)).collect();
    let wanted = ["mcp-worker-1", "mcp-worker-2", "mcp-worker-3"];
    assert_eq!(names, wanted.map(String::from).into());
}

#[test]
fn an_idle_worker_is_used_before_a_new_one_starts() {
    in_time(|| {
        let pool = tasks(size(4, 8));
        for _ in 0..100 {
            pool.submit(noop()).unwrap();
            until(|| parked(&pool) == 1);
        }
        assert_eq!(pool.threads(), 1);
    });
}

#[test]
fn no_more_workers_are_started_or_woken_than_there_are_jobs() {
    let pool = tasks(size(4, 8));
    let gate = Gate::default();
    pool.submit_all(&mut vec![gate.task(), gate.task()], |_| true).unwrap();
    assert_eq!(pool.threads(), 2);
    gate.open();
    until(|| parked(&pool) == 2);
    occupy(&pool, 4).open();
    until(|| parked(&pool) == 4);
    let gate = Gate::default();
    pool.submit_all(&mut vec![gate.task(), gate.task()], |_| true).unwrap();
    assert_eq!(parked(&pool), 2);
    until(|| pool.running() == 2);
    assert_eq!((parked(&pool), pool.threads()), (2, 4));
    gate.open();
}

#[test]
fn as_many_jobs_run_at_once_as_there_are_workers() {
    // 1000 is clamped to 64, and 0 to 1.
    for (asked, workers) in [(0, 1), (1, 1), (2, 2), (64, 64), (1000, 64)] {
        let pool = tasks(size(asked, 4));
        let gate = occupy(&pool, workers);
        pool.submit(noop()).unwrap();
        assert_eq!(pool.threads(), workers);
        assert_eq!((pool.running(), pool.queued()), (workers, 1));
        gate.open();
        assert!(pool.wait_idle(deadline()));
        assert_eq!((pool.running(), pool.queued()), (0, 0));
    }
}

#[test]
fn full_queue_returns_the_job() {
    for (asked, room) in [(0, 1), (1, 1), (5, 5)] {
        let (gate, within) = gates();
        let pool = Pool::new(size(1, asked), move |n| within.hold_back(n));
        pool.submit(0).unwrap();
        until(|| pool.running() == 1);
        for n in 1..=room {
            pool.try_submit(n).unwrap();
        }
        let rejected = pool.try_submit(99).unwrap_err();
        assert_eq!((rejected.job, rejected.reason), (99, PoolError::Full));
        assert_eq!(pool.queued(), room);
        gate.open();
        assert!(pool.wait_idle(deadline()));
        pool.try_submit(100).unwrap();
    }
}

#[test]
fn one_worker_takes_jobs_in_the_order_they_came() {
    in_time(|| {
        let (sent, got) = mpsc::channel();
        let pool = Pool::new(size(1, 3), move |n: u32| sent.send(n).unwrap());
        let mut jobs: Vec<u32> = (0..1000).collect();
        pool.submit_all(&mut jobs, |_| true).unwrap();
        assert!(jobs.is_empty() && jobs.capacity() >= 1000);
        pool.submit(1000).unwrap();
        for n in 0..=1000 {
            assert_eq!(next(&got), n);
        }
    });
}

#[test]
fn a_panicking_job_ends_no_worker() {
    in_time(|| {
        for workers in [1, 2, 64] {
            let (sent, got) = mpsc::channel();
            let pool = Pool::new(size(workers, 16), move |n: u32| {
                if n % 3 != 0 {
                    resume_unwind(Box::new(n));
                }
                sent.send(n).unwrap();
            });
            let mut jobs: Vec<u32> = (0..3000).collect();
            pool.submit_all(&mut jobs, |_| true).unwrap();
            assert!(pool.wait_idle(deadline()));
            assert_eq!(got.try_iter().count(), 1000);
            assert!((1..=workers).contains(&pool.threads()));
        }
    });
}

#[test]
fn a_never_ending_job_blocks_only_its_own_worker() {
    in_time(|| {
        let pool = tasks(size(2, 4));
        let gate = occupy(&pool, 1);
        let (sent, got) = mpsc::channel();
        for n in 0..100 {
            let sent = sent.clone();
            pool.submit(Box::new(move || sent.send(n).unwrap())).unwrap();
        }
        for n in 0..100 {
            assert_eq!(next(&got), n);
        }
        assert!(!pool.wait_idle(Instant::now()));
        assert!(!pool.wait_idle(Instant::now() + Duration::from_millis(5)));
        // The last handle is dropped while the job still runs: no thread waits for it.
        drop(pool);
        gate.open();
    });
}

#[test]
fn withdrawn_jobs_come_back_in_order_and_never_run() {
    in_time(|| {
        let (sent, got) = mpsc::channel();
        let (gate, within) = gates();
        let pool = Pool::new(size(1, 8), move |n| {
            within.hold_back(n);
            sent.send(n).unwrap();
        });
        pool.submit(0).unwrap();
        until(|| pool.running() == 1);
        pool.submit_all(&mut (1..=8).collect(), |_| true).unwrap();
        assert_eq!(pool.withdraw(&mut |n| n % 2 == 0), [2, 4, 6, 8]);
        assert_eq!(pool.withdraw(&mut |n| *n == 0), [0; 0]);
        assert_eq!(pool.queued(), 4);
        gate.open();
        assert!(pool.wait_idle(deadline()));
        assert_eq!(got.try_iter().collect::<Vec<_>>(), [0, 1, 3, 5, 7]);
    });
}

#[test]
fn a_panic_in_the_closure_of_withdraw_changes_nothing() {
    let (sent, got) = mpsc::channel();
    let (gate, within) = gates();
    let pool = Pool::new(size(1, 8), move |n| {
        within.hold_back(n);
        sent.send(n).unwrap();
    });
    pool.submit_all(&mut vec![0, 1, 2, 3], |_| true).unwrap();
    until(|| pool.running() == 1);
    let withdrawn = guard(|| pool.withdraw(&mut |n| *n == 1 || resume_unwind(Box::new(*n))));
    assert_eq!(withdrawn, Err(Panicked));
    gate.open();
    for n in 0..=3 {
        assert_eq!(next(&got), n);
    }
}

#[test]
fn withdrawing_makes_room_for_waiting_submitters() {
    let pool = tasks(size(1, 2));
    let gate = occupy(&pool, 1);
    pool.submit_all(&mut vec![noop(), noop()], |_| true).unwrap();
    let submitters: Vec<_> = (0..2)
        .map(|_| {
            let pool = pool.clone();
            spawn(move || pool.submit(noop()).is_ok())
        })
        .collect();
    until(|| blocked_submitters(&pool) == 2);
    assert_eq!(pool.withdraw(&mut |_| true).len(), 2);
    for submitter in submitters {
        assert!(next(&submitter));
    }
    assert_eq!((pool.queued(), blocked_submitters(&pool)), (2, 0));
    gate.open();
}

#[test]
fn withdrawing_the_last_job_is_seen_by_wait_idle() {
    let pool = tasks(size(1, 2));
    pool.submit(noop()).unwrap();
    until(|| parked(&pool) == 1);
    // A chosen worker that is slow to wake up.
    let slow = pool.handle.shared.lock().choose_parked().unwrap();
    pool.submit(noop()).unwrap();
    let watcher = {
        let pool = pool.clone();
        spawn(move || pool.wait_idle(deadline()))
    };
    until(|| pool.handle.shared.lock().watching == 1);
    assert_eq!(pool.withdraw(&mut |_| true).len(), 1);
    assert!(next(&watcher));
    slow.unpark();
}

#[test]
fn a_submitter_waits_for_no_more_than_one_place() {
    let pool = tasks(size(1, 8));
    let (first, second) = (occupy(&pool, 1), Gate::default());
    pool.submit_all(&mut (0..8).map(|_| second.task()).collect(), |_| true).unwrap();
    let submitter = {
        let pool = pool.clone();
        spawn(move || pool.submit(noop()).is_ok())
    };
    until(|| blocked_submitters(&pool) == 1);
    first.open();
    assert!(next(&submitter));
    assert_eq!((pool.running(), pool.queued()), (1, 8));
    second.open();
}

#[test]
fn every_waiting_submitter_gets_free_room() {
    in_time(|| {
        // Two workers take a job each at nearly the same moment and block: only the first submitter
        // can wake the second one.
        for _ in 0..100 {
            let pool = tasks(size(2, 2));
            let first = occupy(&pool, 2);
            let last = Gate::default();
            pool.submit_all(&mut vec![last.task(), last.task()], |_| true).unwrap();
            let submitters: Vec<_> = (0..2)
                .map(|_| {
                    let pool = pool.clone();
                    spawn(move || pool.submit(noop()).is_ok())
                })
                .collect();
            until(|| blocked_submitters(&pool) == 2);
            first.open();
            for submitter in submitters {
                assert!(next(&submitter));
            }
            assert_eq!((pool.running(), pool.queued()), (2, 2));
            last.open();
        }
    });
}

#[test]
fn closing_wakes_submitters_and_runs_accepted_jobs() {
    let pool = tasks(size(2, 3));
    let gate = occupy(&pool, 2);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = |ran: &Arc<AtomicUsize>| -> Task {
        let ran = Arc::clone(ran);
        Box::new(move || {
            ran.fetch_add(1, Ordering::Relaxed);
        })
    };
    pool.submit_all(&mut (0..3).map(|_| count(&ran)).collect(), |_| true).unwrap();
    let one = {
        let (pool, job) = (pool.clone(), count(&ran));
        spawn(move || pool.submit(job).map_err(|rejected| rejected.reason))
    };
    let many = {
        let pool = pool.clone();
        let mut jobs: Vec<Task> = (0..5).map(|_| count(&ran)).collect();
        spawn(move || (pool.submit_all(&mut jobs, |_| true), jobs.len()))
    };
    until(|| blocked_submitters(&pool) == 2);
    pool.close();
    assert_eq!(next(&one), Err(PoolError::Closed));
    assert_eq!(next(&many), (Err(PoolError::Closed), 5));
    let rejected = pool.try_submit(noop()).unwrap_err();
    assert_eq!(rejected.reason, PoolError::Closed);
    gate.open();
    assert!(pool.wait_idle(deadline()));
    assert_eq!(ran.load(Ordering::Relaxed), 3);
    until(|| pool.threads() == 0);
}

#[test]
fn closing_ends_workers_that_are_parked() {
    for workers in [1, 2, 64] {
        let pool = tasks(size(workers, 4));
        occupy(&pool, workers).open();
        until(|| parked(&pool) as usize == workers);
        pool.close();
        until(|| pool.threads() == 0);
    }
}

#[test]
fn jobs_that_were_not_accepted_stay_in_order() {
    let (gate, within) = gates();
    let pool = Pool::new(size(1, 2), move |n: u32| {
        if n == 0 {
            within.pass()
        }
    });
    pool.submit(0).unwrap();
    until(|| pool.running() == 1);
    let rest = {
        let pool = pool.clone();
        let mut jobs: Vec<u32> = (1..=5).collect();
        spawn(move || {
            let result = pool.submit_all(&mut jobs, |_| true);
            (result, jobs)
        })
    };
    until(|| pool.handle.shared.lock().waiting == 1);
    pool.close();
    assert_eq!(next(&rest), (Err(PoolError::Closed), vec![3, 4, 5]));
    gate.open();
}

#[test]
fn idle_workers_end_except_one_and_new_ones_start() {
    in_time(|| {
        for idle in [Duration::ZERO, Duration::from_millis(2)] {
            let pool = tasks(PoolSize { idle, ..size(5, 8) });
            for _ in 0..3 {
                let gate = occupy(&pool, 5);
                assert_eq!(pool.threads(), 5);
                gate.open();
                until(|| pool.threads() == 1);
            }
            // The remaining worker wakes up at once.
            until(|| parked(&pool) == 1);
            let (sent, got) = mpsc::channel();
            pool.submit(Box::new(move || sent.send(()).unwrap())).unwrap();
            next(&got);
            assert_eq!(pool.threads(), 1);
        }
    });
}

#[test]
fn without_a_single_thread_jobs_come_back() {
    let pool = tasks(PoolSize { stack: usize::MAX / 16 * 15, ..size(2, 4) });
    let rejected = pool.try_submit(noop()).unwrap_err();
    assert_eq!(rejected.reason, PoolError::NoThread);
    let rejected = pool.submit(rejected.job).unwrap_err();
    assert_eq!(rejected.reason, PoolError::NoThread);
    let mut jobs = vec![rejected.job, noop()];
    assert_eq!(pool.submit_all(&mut jobs, |_| true), Err(PoolError::NoThread));
    assert_eq!((jobs.len(), pool.queued(), pool.threads()), (2, 0, 0));
}

#[test]
fn dropping_the_last_handle_runs_the_queue_then_ends_the_threads() {
    struct SendOnDrop(Sender<&'static str>, &'static str);
    impl Drop for SendOnDrop {
        fn drop(&mut self) {
            self.0.send(self.1).unwrap();
        }
    }
    let (sent, got) = mpsc::channel();
    let (gate, within) = gates();
    let of_run = SendOnDrop(sent.clone(), "run");
    let pool = Pool::new(size(1, 4), move |_job: SendOnDrop| {
        let _ = &of_run;
        within.pass()
    });
    for name in ["first", "second"] {
        pool.submit(SendOnDrop(sent.clone(), name)).unwrap();
    }
    drop(sent);
    let other = pool.clone();
    drop(pool);
    other.submit(SendOnDrop(other_sender(&other), "third")).unwrap();
    drop(other);
    gate.open();
    let order: Vec<&str> = (0..4).map(|_| next(&got)).collect();
    assert_eq!(order, ["first", "second", "third", "run"]);

    /// A sender taken from the queue, so that the test does not keep one.
    fn other_sender(pool: &Pool<SendOnDrop>) -> Sender<&'static str> {
        let state = pool.handle.shared.lock();
        state.queue.front().expect("the second job waits").0.clone()
    }
}

#[test]
fn the_last_handle_may_be_dropped_inside_a_job() {
    let pool = tasks(size(1, 4));
    let (sent, got) = mpsc::channel();
    let (gate, within) = gates();
    let inner = pool.clone();
    pool.submit(Box::new(move || {
        within.pass();
        inner.try_submit(Box::new(move || sent.send("after").unwrap())).unwrap();
        drop(inner);
    }))
    .unwrap();
    drop(pool);
    gate.open();
    assert_eq!(next(&got), "after");
    // The closure of the second job was dropped, so its worker has finished it.
    assert!(got.recv_timeout(TIMEOUT).is_err());
}
