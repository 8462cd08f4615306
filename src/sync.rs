//! Locks and condition variables without poisoning.
//!
//! [`Condition`] counts its waiters. `Condvar::notify_all` makes a system call even if no thread
//! waits; a [`Condition`] skips it then.
//!
//! # Invariants
//! - Always use a [`Condition`] with the same mutex. The waiter count is only accessed while that
//!   mutex is held, so a notifier that sees zero waiters can skip the system call: any later waiter
//!   observes the new state.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks a mutex and ignores poisoning. The state behind every lock of this crate is complete
/// whenever a panic can happen, so a poisoned lock still guards valid state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on a condition variable and ignores poisoning.
pub(crate) fn wait<'m, T>(condvar: &Condvar, state: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
    condvar.wait(state).unwrap_or_else(PoisonError::into_inner)
}

/// Waits on a condition variable for at most `time` and ignores poisoning.
pub(crate) fn wait_for<'m, T>(
    condvar: &Condvar,
    state: MutexGuard<'m, T>,
    time: Duration,
) -> MutexGuard<'m, T> {
    condvar.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
}

/// Condition variable that skips the system call of a notification without waiters.
#[derive(Default)]
pub(crate) struct Condition {
    changed: Condvar,
    /// Number of waiters. The mutex orders all accesses; the type is atomic because the count is
    /// stored beside the mutex.
    waiters: AtomicUsize,
}

impl Condition {
    /// Blocks until a notification or a spurious wake-up.
    pub(crate) fn wait<'m, T>(&self, state: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        self.count(1);
        let state = wait(&self.changed, state);
        self.count(-1);
        state
    }

    /// Blocks for at most `time`.
    pub(crate) fn wait_for<'m, T>(&self, state: MutexGuard<'m, T>, time: Duration) -> MutexGuard<'m, T> {
        self.count(1);
        let state = wait_for(&self.changed, state, time);
        self.count(-1);
        state
    }

    fn count(&self, by: isize) {
        let waiters = self.waiters.load(Ordering::Relaxed).wrapping_add_signed(by);
        self.waiters.store(waiters, Ordering::Relaxed);
    }

    /// Returns whether a thread waits.
    pub(crate) fn has_waiters<T>(&self, _state: &MutexGuard<'_, T>) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }

    /// Unlocks the mutex and wakes all waiters.
    pub(crate) fn release<T>(&self, state: MutexGuard<'_, T>) {
        let notify = self.has_waiters(&state);
        drop(state);
        if notify {
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::sync::{Arc, mpsc};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn no_wake_up_is_lost_between_three_threads() {
        let table = Arc::new((Mutex::new(0), Condition::default()));
        let (sender, finished) = mpsc::channel();
        for me in 0..3 {
            let (table, sender) = (Arc::clone(&table), sender.clone());
            std::thread::spawn(move || {
                let (turn, condition) = &*table;
                for round in 0..5_000 {
                    let mut turn = turn.lock().unwrap();
                    while *turn != 3 * round + me {
                        // One thread waits with a timeout.
                        turn = if me == 0 { condition.wait_for(turn, SOON) } else { condition.wait(turn) };
                    }
                    *turn += 1;
                    condition.release(turn);
                }
                sender.send(me)
            });
        }
        for _ in 0..3 {
            finished.recv_timeout(SOON).expect("every thread finishes");
        }
        assert_eq!(*table.0.lock().unwrap(), 15_000);
        assert!(!table.1.has_waiters(&table.0.lock().unwrap()), "no thread waits any more");
    }

    #[test]
    fn waiters_are_counted_until_they_wake() {
        let table = (Mutex::new(false), Condition::default());
        let (woken, condition) = &table;
        assert!(!condition.has_waiters(&woken.lock().unwrap()));
        drop(condition.wait_for(woken.lock().unwrap(), Duration::ZERO));
        assert!(!condition.has_waiters(&woken.lock().unwrap()), "the timeout ended the wait");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut woken = woken.lock().unwrap();
                while !*woken {
                    woken = condition.wait(woken);
                }
                // No other thread waits.
                assert!(!condition.has_waiters(&woken));
            });
            loop {
                let mut woken = woken.lock().unwrap();
                if condition.has_waiters(&woken) {
                    *woken = true;
                    return condition.release(woken);
                }
                drop(woken);
                std::thread::yield_now();
            }
        });
    }
}
