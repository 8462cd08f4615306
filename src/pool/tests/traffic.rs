//! Many submitters, workers and withdrawals at once: every job ends exactly once.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU8};

#[test]
fn a_hundred_thousand_jobs_run_once_each() {
    in_time(|| {
        for workers in [1, 2, 64] {
            let seen: Arc<Vec<AtomicU8>> = Arc::new((0..100_000).map(|_| AtomicU8::new(0)).collect());
            let marks = Arc::clone(&seen);
            let pool = Pool::new(size(workers, 64), move |n: usize| {
                marks[n].fetch_add(1, Ordering::Relaxed);
            });
            thread::scope(|scope| {
                for part in 0..4 {
                    let pool = &pool;
                    scope.spawn(move || {
                        for n in (part * 25_000..(part + 1) * 25_000).step_by(50) {
                            if n % 100 == 0 {
                                pool.submit_all(&mut (n..n + 50).collect(), |_| true).unwrap();
                            } else {
                                (n..n + 50).for_each(|n| pool.submit(n).unwrap());
                            }
                        }
                    });
                }
            });
            assert!(pool.wait_idle(deadline()));
            assert!(seen.iter().all(|mark| mark.load(Ordering::Relaxed) == 1));
        }
    });
}

/// Pseudo-random numbers (xorshift), equal on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % end
    }
}

/// Each job ends in exactly one way, whatever the submitters, the withdrawer, panics, ending
/// workers and the closing do at the same time.
fn random_traffic(seed: u64, workers: usize, queue: usize, idle: Duration) {
    const EACH: usize = 1_000;
    let ends: Arc<Vec<AtomicU8>> = Arc::new((0..4 * EACH).map(|_| AtomicU8::new(0)).collect());
    let end = |n: usize| _ = ends[n].fetch_add(1, Ordering::Relaxed);
    let marks = Arc::clone(&ends);
    let pool = Pool::new(PoolSize { idle, ..size(workers, queue) }, move |n: usize| {
        marks[n].fetch_add(1, Ordering::Relaxed);
        match n % 7 {
            0 => resume_unwind(Box::new(())),
            1 => thread::yield_now(),
            _ => (),
        }
    });
    let open = AtomicBool::new(true);
    thread::scope(|scope| {
        let submitters: Vec<_> = (0..4)
            .map(|part| {
                let (pool, end) = (&pool, &end);
                scope.spawn(move || {
                    let mut random = Random(seed ^ (0x9e37_79b9_7f4a_7c15 << part));
                    let mut jobs: Vec<usize> = (part * EACH..(part + 1) * EACH).collect();
                    while let Some(job) = jobs.pop() {
                        let rejected = match random.below(4) {
                            0 => pool.submit(job).err(),
                            1 => pool.try_submit(job).err(),
                            _ => {
                                let keep = jobs.len().saturating_sub(random.below(2 * queue));
                                let mut batch = jobs.split_off(keep);
                                batch.push(job);
                                if pool.submit_all(&mut batch, |_| true) == Err(PoolError::Closed) {
                                    batch.into_iter().for_each(&end);
                                }
                                None
                            }
                        };
                        if let Some(rejected) = rejected {
                            assert_ne!(rejected.reason, PoolError::NoThread);
                            end(rejected.job);
                        }
                        if part == 0 && jobs.len() < EACH / 10 && seed % 2 == 0 {
                            pool.close();
                        }
                    }
                })
            })
            .collect();
        let (pool, end, open) = (&pool, &end, &open);
        scope.spawn(move || {
            let mut random = Random(seed | 1);
            while open.load(Ordering::Relaxed) {
                let (of, rest) = (random.below(20) + 2, random.below(2));
                for n in pool.withdraw(&mut |n| n % of == rest) {
                    end(n);
                }
                thread::yield_now();
            }
        });
        for submitter in submitters {
            submitter.join().unwrap();
        }
        open.store(false, Ordering::Relaxed);
    });
    assert!(pool.wait_idle(deadline()), "seed {seed}");
    assert!(pool.threads() <= workers);
    for (n, end) in ends.iter().enumerate() {
        assert_eq!(end.load(Ordering::Relaxed), 1, "job {n}, seed {seed}");
    }
}

#[test]
fn random_traffic_ends_every_job_exactly_once() {
    let mut seed = 1;
    for workers in [1, 2, 64] {
        for queue in [1, 2, 33] {
            for idle in [Duration::ZERO, Duration::from_micros(50), TIMEOUT] {
                in_time(move || random_traffic(seed, workers, queue, idle));
                in_time(move || random_traffic(seed + 1, workers, queue, idle));
                seed += 2;
            }
        }
    }
}
