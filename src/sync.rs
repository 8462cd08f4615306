//! A condition variable that costs nothing while nobody sleeps on it.
//!
//! What it does: counts who sleeps, and wakes nobody where nobody does; with the library's own,
//! waking is a system call in any case. It does not know the state that is waited for.
//!
//! # Invariants
//! - One lock goes with one condition, and its count changes and is looked at under that lock
//!   alone. A thread that changes the state reads the count before it unlocks. A waiter that does
//!   not sleep yet sees the change.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Condition {
    moved: Condvar,
    /// How many sleep. The lock orders everything; an atomic, because it stands beside it.
    asleep: AtomicUsize,
}

impl Condition {
    /// Sleeps until somebody wakes, or for no reason.
    pub(crate) fn wait<'m, T>(&self, state: MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        self.count(1);
        let state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        self.count(-1);
        state
    }

    /// The same, for so long at most.
    pub(crate) fn wait_for<'m, T>(&self, state: MutexGuard<'m, T>, time: Duration) -> MutexGuard<'m, T> {
        self.count(1);
        let state = self.moved.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0;
        self.count(-1);
        state
    }

    fn count(&self, by: isize) {
        let asleep = self.asleep.load(Ordering::Relaxed).wrapping_add_signed(by);
        self.asleep.store(asleep, Ordering::Relaxed);
    }

    /// Whether anybody sleeps.
    pub(crate) fn sleeps<T>(&self, _state: &MutexGuard<'_, T>) -> bool {
        self.asleep.load(Ordering::Relaxed) > 0
    }

    /// Lets go of the lock, and wakes everybody who sleeps.
    pub(crate) fn release<T>(&self, state: MutexGuard<'_, T>) {
        let sleeps = self.sleeps(&state);
        drop(state);
        if sleeps {
            self.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::sync::{Arc, Mutex, mpsc};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn no_wake_up_is_lost_between_three_that_take_turns() {
        let table = Arc::new((Mutex::new(0), Condition::default()));
        let (tell, told) = mpsc::channel();
        for me in 0..3 {
            let (table, tell) = (Arc::clone(&table), tell.clone());
            std::thread::spawn(move || {
                let (turn, condition) = &*table;
                for round in 0..5_000 {
                    let mut turn = turn.lock().unwrap();
                    while *turn != 3 * round + me {
                        // One of them would wake up by itself.
                        turn = if me == 0 { condition.wait_for(turn, SOON) } else { condition.wait(turn) };
                    }
                    *turn += 1;
                    condition.release(turn);
                }
                tell.send(me)
            });
        }
        for _ in 0..3 {
            told.recv_timeout(SOON).expect("everybody is woken");
        }
        assert_eq!(*table.0.lock().unwrap(), 15_000);
        assert!(!table.1.sleeps(&table.0.lock().unwrap()), "nobody is counted who is awake");
    }

    #[test]
    fn who_sleeps_is_counted_until_awake() {
        let table = (Mutex::new(false), Condition::default());
        let (woken, condition) = &table;
        assert!(!condition.sleeps(&woken.lock().unwrap()));
        drop(condition.wait_for(woken.lock().unwrap(), Duration::ZERO));
        assert!(!condition.sleeps(&woken.lock().unwrap()), "it was over in time");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut woken = woken.lock().unwrap();
                while !*woken {
                    woken = condition.wait(woken);
                }
                // Nobody else sleeps.
                assert!(!condition.sleeps(&woken));
            });
            loop {
                let mut woken = woken.lock().unwrap();
                if condition.sleeps(&woken) {
                    *woken = true;
                    return condition.release(woken);
                }
                drop(woken);
                std::thread::yield_now();
            }
        });
    }
}
