//! The calls in flight of one connection: which ids are open, until when, and what they weigh.
//!
//! What it does: enters calls and takes them out again, finds those that are late, makes the thread
//! that reads wait while the documents of the calls take too much memory. What it does not: answer
//! calls, or know their jobs.
//!
//! # Invariants
//! - A call is here from its acceptance until just before its answer is sent, so that a client may
//!   use the id again as soon as it has the answer. Whoever takes it out settles it.
//! - `keys` has as many entries as `calls`, in the same order; the `place` of a call that is here is
//!   its place in both. Only the table, under its lock, changes them.
//! - `weight` is the sum of the weights of the calls that do not wait for the client. Those have a
//!   bound of their own, or else what they wait for could not be read.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::era::ServerEra;
use crate::model::{Operation, Revision};
use crate::rpc::Id;
use crate::transport::FrameSink;

/// What is run when a call is cancelled whose handler has left.
type Hook = Box<dyn FnOnce() + Send>;

/// A call's fate, shared between whoever may decide it.
#[derive(Default)]
pub(crate) struct Call {
    cancelled: AtomicBool,
    settled: AtomicBool,
    /// Its handler has been called.
    started: AtomicBool,
    /// Where it is among the calls in flight, if it is; kept by their table.
    place: AtomicUsize,
    /// Wakes a handler that waits for time to pass; who else is to be told.
    sleep: Mutex<Option<Hook>>,
    wake: Condvar,
}

impl Call {
    /// The result is no longer wanted: tells the handler, also one that waits. Claims the right to
    /// answer before that, so that a handler which sees the flag cannot answer any more, and says
    /// whether it was there to claim.
    pub(crate) fn cancel(&self) -> bool {
        let mine = self.settle();
        self.cancelled.store(true, Ordering::Release);
        // Taken and released, so that a handler is either before its look at the flag or asleep.
        let hook = self.sleep.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.wake.notify_all();
        if let Some(hook) = hook {
            hook();
        }
        mine
    }

    /// Runs `hook` when the call is cancelled, at once if it was.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn on_cancel(&self, hook: Hook) {
        {
            let mut sleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
            // Looked at under the lock, which who cancels takes after the flag is set.
            if !self.is_cancelled() {
                *sleep = Some(hook);
                return;
            }
        }
        hook();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Waits until then, or until the call is cancelled.
    pub(crate) fn wait_until(&self, then: Instant) {
        let mut sleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_cancelled() {
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep = match self.wake.wait_timeout(sleep, left) {
                Ok((sleep, _)) => sleep,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// Claims the right to answer; only the first who asks gets it.
    pub(crate) fn settle(&self) -> bool {
        !self.settled.swap(true, Ordering::AcqRel)
    }

    /// Takes note that the handler is called.
    pub(crate) fn start(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }
}

/// A call in flight, with what is needed to answer it without its job.
pub(crate) struct Running {
    pub id: Id,
    pub call: Arc<Call>,
    pub deadline: Option<Instant>,
    pub era: &'static dyn ServerEra,
    pub revision: Revision,
    pub operation: Operation,
    pub outlet: Arc<dyn FrameSink>,
    /// Bytes of memory its document takes; 0 while it waits for the client.
    pub weight: usize,
}

/// Why a call cannot be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Another request with this id is still open.
    Duplicate,
    /// The documents of the calls in flight take too much memory; see [`InFlight::wait_for_room`].
    NoRoom,
}

/// The calls in flight.
#[derive(Default)]
pub(crate) struct InFlight {
    table: Mutex<Table>,
    room: Condvar,
    /// How many calls there are, for a look without the lock by the thread that enters them: it may
    /// see too many, never too few.
    open: AtomicUsize,
}

#[derive(Default)]
struct Table {
    calls: Vec<Running>,
    /// A number for the id of each, to look at before the id itself: many calls are looked through
    /// at once.
    keys: Vec<u32>,
    weight: usize,
    /// The thread that reads sleeps on `room`; waking nobody would still cost a system call.
    waiting: bool,
    /// Nobody waits for room any more: serving ends.
    over: bool,
}

impl Table {
    fn has_room(&self, weight: usize, most: usize) -> bool {
        // A call that weighs too much by itself goes alone.
        self.over || self.weight == 0 || self.weight + weight <= most
    }

    fn admits(&self, running: &Running, most: usize, unique: bool) -> Result<(), Refusal> {
        if unique && self.find_id(&running.id).is_some() {
            return Err(Refusal::Duplicate);
        }
        if self.has_room(running.weight, most) { Ok(()) } else { Err(Refusal::NoRoom) }
    }

    fn push(&mut self, running: Running) {
        self.weight += running.weight;
        running.call.place.store(self.calls.len(), Ordering::Relaxed);
        self.keys.push(key(&running.id));
        self.calls.push(running);
    }

    fn take(&mut self, at: usize) -> Running {
        let running = self.calls.swap_remove(at);
        self.keys.swap_remove(at);
        if let Some(moved) = self.calls.get(at) {
            moved.call.place.store(at, Ordering::Relaxed);
        }
        self.weight -= running.weight;
        running
    }

    fn find(&self, call: &Arc<Call>) -> Option<usize> {
        let at = call.place.load(Ordering::Relaxed);
        self.calls.get(at).filter(|running| Arc::ptr_eq(&running.call, call)).map(|_| at)
    }

    fn find_id(&self, id: &Id) -> Option<usize> {
        let key = key(id);
        // Without a branch for each, as there mostly is none.
        if !self.keys.iter().fold(false, |any, other| any | (*other == key)) {
            return None;
        }
        self.calls.iter().position(|running| running.id == *id)
    }
}

/// Equal for equal ids.
fn key(id: &Id) -> u32 {
    match id {
        Id::Number(number) => *number as u32,
        Id::String(text) => text
            .bytes()
            .rev()
            .take(8)
            .fold(text.len() as u32, |key, byte| key.rotate_left(5) ^ u32::from(byte)),
    }
}

impl InFlight {
    /// A panic while the lock is held leaves complete values behind, so poisoning is ignored.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_of_room(&self, table: &Table) {
        self.open.store(table.calls.len(), Ordering::Relaxed);
        if table.waiting {
            self.room.notify_all();
        }
    }

    /// Enters a call, if with it all of them weigh no more than `most` bytes. Ids that must be
    /// `unique` are those of one client.
    pub(crate) fn enter(&self, running: Running, most: usize, unique: bool) -> Result<(), Refusal> {
        let mut table = self.table();
        table.admits(&running, most, unique)?;
        self.push(&mut table, running);
        Ok(())
    }

    fn push(&self, table: &mut Table, running: Running) {
        table.push(running);
        self.open.store(table.calls.len(), Ordering::Relaxed);
    }

    /// Waits until there is room for a call of this weight, or serving ends.
    pub(crate) fn wait_for_room(&self, weight: usize, most: usize) {
        let mut table = self.table();
        table.waiting = true;
        while !table.has_room(weight, most) {
            table = self.room.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        table.waiting = false;
    }

    /// From now on nobody waits for room.
    pub(crate) fn end(&self) {
        self.table().over = true;
        self.room.notify_all();
    }

    /// Whether there may be calls at all; for the thread that enters them.
    pub(crate) fn any(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn is_open(&self, id: &Id) -> bool {
        self.table().find_id(id).is_some()
    }

    /// Takes a call out, if it is in.
    pub(crate) fn take(&self, call: &Arc<Call>) -> Option<Running> {
        let mut table = self.table();
        let at = table.find(call)?;
        let running = table.take(at);
        self.tell_of_room(&table);
        Some(running)
    }

    /// Takes the call with this id out.
    pub(crate) fn take_id(&self, id: &Id) -> Option<Running> {
        let mut table = self.table();
        let at = table.find_id(id)?;
        let running = table.take(at);
        self.tell_of_room(&table);
        Some(running)
    }

    /// Takes out the call that is answered to this HTTP exchange: a look at as many addresses as
    /// there are calls, no more than the workers and their queue take.
    #[cfg(feature = "http-server")]
    pub(crate) fn take_exchange(&self, exchange: u64) -> Option<Running> {
        let mut table = self.table();
        let at = table.calls.iter().position(|running| running.outlet.ends_with(exchange))?;
        let running = table.take(at);
        self.tell_of_room(&table);
        Some(running)
    }

    /// Takes out the calls whose peer is gone.
    #[cfg(feature = "http-server")]
    pub(crate) fn take_closed(&self) -> Vec<Running> {
        let (mut gone, mut at) = (Vec::new(), 0);
        let mut table = self.table();
        while let Some(running) = table.calls.get(at) {
            match running.outlet.closed() {
                true => gone.push(table.take(at)),
                false => at += 1,
            }
        }
        self.tell_of_room(&table);
        gone
    }

    /// How many calls there are.
    #[cfg(feature = "http-server")]
    pub(crate) fn len(&self) -> usize {
        self.table().calls.len()
    }

    /// Takes out the calls whose deadline has come, and tells whether others have one.
    pub(crate) fn take_late(&self, now: Instant) -> (Vec<Running>, bool) {
        let (mut late, mut more, mut at) = (Vec::new(), false, 0);
        let mut table = self.table();
        while let Some(running) = table.calls.get(at) {
            if running.deadline.is_some_and(|deadline| deadline <= now) {
                late.push(table.take(at));
            } else {
                more |= running.deadline.is_some();
                at += 1;
            }
        }
        self.tell_of_room(&table);
        (late, more)
    }

    /// Takes all calls out.
    pub(crate) fn take_all(&self) -> Vec<Running> {
        let mut table = self.table();
        table.weight = 0;
        let calls = std::mem::take(&mut table.calls);
        table.keys.clear();
        self.tell_of_room(&table);
        calls
    }

    /// Gives a call another deadline and another weight.
    pub(crate) fn change(&self, call: &Arc<Call>, deadline: Option<Instant>, weight: usize) {
        let mut table = self.table();
        let Some(at) = table.find(call) else { return };
        let mut before = 0;
        if let Some(running) = table.calls.get_mut(at) {
            running.deadline = deadline;
            before = std::mem::replace(&mut running.weight, weight);
        }
        table.weight = table.weight + weight - before;
        self.tell_of_room(&table);
    }
}
