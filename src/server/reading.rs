//! The thread that reads, and how another one takes its place.
//!
//! Handing a call to a worker costs more than many a handler takes. So a tool whose handler has
//! been quick lately (see [`Pace`]) is run by the thread that reads, right away. Before it does,
//! that thread lays down everything reading needs, the baton; afterwards it picks the baton up and
//! reads on. A handler that is not quick this time does not hold anybody up: the watching thread
//! finds the baton lying at two looks in a row, gives it to a new thread that reads on, and the
//! old one ends when its handler does. Such a tool goes back to the workers.
//!
//! Only what may move between threads can be laid down, so a [`LocalServer`](super::LocalServer)
//! always uses its workers.
//!
//! # Invariants
//! - There is one [`Reading`]: a thread holds it, or it lies in its [`Baton`].
//! - While it lies there, nobody can ask for the call it was laid down for, which therefore is not
//!   among those in flight until another thread reads on.
//! - At most as many threads are stuck in handlers here as there are workers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::transport::{Inlet, Input};

use super::InlineSend;
use super::dispatch::Reader;
use super::flight::Running;
use super::serve::{Served, spawn};
use super::start::Quick;

/// A handler that took no longer than this was quick: about what handing over costs.
const QUICK: Duration = Duration::from_micros(10);
/// Quick runs in a row after which a tool is trusted.
const TRUSTED: u32 = 16;

/// How a tool's handler has been doing lately.
#[derive(Default)]
pub(crate) struct Pace(AtomicU32);

impl Pace {
    /// Whether its last runs were all quick.
    pub(crate) fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= TRUSTED
    }

    /// Takes note of a run. Races between runs lose a count at most.
    pub(crate) fn note(&self, took: Duration) {
        let runs = self.0.load(Ordering::Relaxed);
        if took > QUICK {
            self.0.store(0, Ordering::Relaxed);
        } else if runs < TRUSTED {
            self.0.store(runs + 1, Ordering::Relaxed);
        }
    }

    /// Trusts the tool no more while a run goes on that may be stuck.
    pub(crate) fn suspend(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Trusts the tool again if the run that [`Pace::suspend`] was for has been noted as quick.
    pub(crate) fn resume(&self) {
        if self.0.load(Ordering::Relaxed) > 0 {
            self.0.store(TRUSTED, Ordering::Relaxed);
        }
    }
}

/// Everything that reading needs, and what is done when it ends.
pub(crate) struct Reading {
    pub inlet: Box<dyn Inlet>,
    pub reader: Reader<Vec<Box<InlineSend>>>,
    pub served: Served,
}

/// Where a reading thread lays down what it holds while it runs a handler.
pub(crate) struct Baton {
    slot: Mutex<Slot>,
    back: Condvar,
    /// Threads that may be stuck in handlers at once.
    most: usize,
}

#[derive(Default)]
struct Slot {
    reading: Option<Box<Reading>>,
    /// The call for which it was laid down, while it is not among those in flight.
    running: Option<Running>,
    /// How often it was laid down, and what that number was at the last look.
    laid: u64,
    seen: u64,
    /// Threads that lost the baton and are still in their handlers.
    stuck: usize,
}

impl Baton {
    pub(super) fn new(most: usize) -> Baton {
        Baton { slot: Mutex::default(), back: Condvar::new(), most }
    }

    /// A panic while this is locked leaves complete values behind.
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lays reading down for a call, unless as many threads are stuck as may be. Its tool is trusted no
    /// more from here on: whoever takes the baton, and be it before the handler runs, must not trust it.
    fn lay(&self, reading: Box<Reading>, quick: &mut Quick) -> Option<Box<Reading>> {
        let mut slot = self.slot();
        if slot.stuck >= self.most {
            return Some(reading);
        }
        quick.job.suspend_trust();
        slot.reading = Some(reading);
        slot.running = quick.running.take();
        slot.laid += 1;
        None
    }

    /// Picks reading up, and the call as it was laid down if nobody has entered it since.
    fn pick_up(&self, running: &mut Option<Running>) -> Option<Box<Reading>> {
        let mut slot = self.slot();
        *running = slot.running.take();
        slot.reading.take()
    }

    /// Looks whether a handler holds reading up, and lets another thread read on if so. Tells
    /// whether there is reason to look again.
    pub(super) fn look(self: &Arc<Self>) -> bool {
        let mut slot = self.slot();
        if slot.reading.is_none() {
            return slot.stuck > 0;
        }
        if slot.seen != slot.laid {
            slot.seen = slot.laid;
            return true;
        }
        self.pass_on(slot);
        true
    }

    /// Lets another thread read on in the place of one that is held up.
    #[cold]
    #[inline(never)]
    fn pass_on(self: &Arc<Self>, mut slot: MutexGuard<'_, Slot>) {
        let reading = slot.reading.take();
        // Before the lock is free, or its handler could end without finding it.
        if let (Some(reading), Some(running)) = (&reading, slot.running.take()) {
            reading.reader.connection().adopt(running);
        }
        slot.stuck += 1;
        drop(slot);
        // Kept in common with the new thread until it runs, so that nothing is lost if it cannot.
        let handed = Arc::new(Mutex::new(reading));
        let (baton, taken) = (Arc::clone(self), Arc::clone(&handed));
        let stack = taken.lock().ok().and_then(|h| h.as_ref().map(|r| r.reader.stack())).unwrap_or(1 << 19);
        let started = spawn("mcp-reader", stack, move || {
            let reading = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut reading) = reading {
                reading.reader.whole().flush();
                run(reading, &baton);
            }
        });
        if started.is_err() {
            let mut slot = self.slot();
            slot.reading = handed.lock().unwrap_or_else(PoisonError::into_inner).take();
            slot.stuck -= 1;
        }
    }

    /// Waits until no handler is left that lost the baton; false if the deadline came first.
    pub(super) fn wait(&self, deadline: Instant) -> bool {
        let mut slot = self.slot();
        while slot.stuck > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            slot = match self.back.wait_timeout(slot, left) {
                Ok((slot, _)) => slot,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }

    fn freed(&self) {
        self.slot().stuck -= 1;
        self.back.notify_all();
    }
}

/// Reads until the input ends, the peer is gone, the program asks to stop, or another thread has
/// taken over.
pub(super) fn run(mut reading: Box<Reading>, baton: &Arc<Baton>) {
    let conn = Arc::clone(reading.reader.connection());
    let result = loop {
        let input = reading.inlet.next();
        conn.set_reading(true);
        if reading.reader.whole().over() {
            break Ok(());
        }
        let here = match input {
            Input::Frame(bytes) => reading.reader.whole().frame(bytes),
            Input::Large(text) => reading.reader.whole().large(text),
            Input::TooLong => {
                reading.reader.whole().too_long();
                None
            }
            Input::End => break Ok(()),
            Input::Failed(error) => break super::serve::broken(error),
        };
        if let Some(quick) = here {
            reading.reader.whole().submit();
            match run_here(reading, quick, baton) {
                Some(back) => reading = back,
                None => return baton.freed(),
            }
        }
        if reading.reader.whole().over() {
            break Ok(());
        }
        if !reading.inlet.ready() {
            reading.reader.whole().flush();
            conn.set_reading(false);
        }
    };
    reading.reader.whole().flush();
    reading.served.with(result);
}

/// Runs a quick tool's handler on this thread. Gives reading back, unless another thread took it.
fn run_here(reading: Box<Reading>, mut quick: Quick, baton: &Baton) -> Option<Box<Reading>> {
    if let Some(mut reading) = baton.lay(reading, &mut quick) {
        reading.reader.whole().put(quick);
        return Some(reading);
    }
    let conclusion = quick.job.conclude_here();
    let mut back = baton.pick_up(&mut quick.running);
    match &mut back {
        Some(reading) if quick.running.is_some() => reading.reader.whole().conclude(quick, conclusion),
        // It is among the calls in flight by now, where others may have settled it.
        _ => quick.job.settle(conclusion),
    }
    back
}
