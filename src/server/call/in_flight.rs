//! Table of the calls in flight of one connection: ids, deadlines, and the memory of their
//! messages.
//!
//! The table admits calls, removes them, finds overdue ones, and lets the reader thread wait while
//! the messages in flight take too much memory. It sends no responses.
//!
//! # Invariants
//! - A call is in the table from admission until just before its response is sent, so that a client
//!   can reuse the id as soon as it has the response. The party that removes a call settles it.
//! - `keys` has as many entries as `calls`, in the same order. The `place` of a call in the table
//!   is its index in both. Only the table changes them, under its lock.
//! - `weight` is the sum of the weights of all calls that are not parked. Parked calls have a bound
//!   of their own; otherwise the reader could not read the input they wait for.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crate::era::ServerEra;
use crate::model::{Operation, Revision};
use crate::rpc::Id;
use crate::sync::{Condition, lock};
use crate::transport::ReplySink;

/// Callback for the cancellation of a deferred call.
type Hook = Box<dyn FnOnce() + Send>;

/// Phase of a call. The initial phase, 0, is a queued call. The order matters: from
/// [`Phase::Settled`] on, a call gets no other response and does not change its phase.
#[derive(Clone, Copy)]
enum Phase {
    /// The handler was called.
    Started = 1,
    /// A party has claimed the right to respond.
    Settled,
    /// As [`Phase::Settled`], and the handler's result is dropped.
    Cancelled,
}

/// State of a call, shared by the parties that may settle it.
#[derive(Default)]
pub(crate) struct Call {
    /// 0 or a [`Phase`].
    phase: AtomicU8,
    /// Index in the table of calls in flight; only the table changes it.
    place: AtomicUsize,
    on_cancel: Mutex<Option<Hook>>,
    /// Wakes a handler in [`Call::wait_until`]; used with the lock of `on_cancel`.
    wake: Condition,
}

impl Call {
    /// Advances to `next`, unless the call is settled or already in that phase. Returns whether it
    /// advanced.
    fn advance(&self, next: Phase) -> bool {
        let limit = (next as u8).min(Phase::Settled as u8);
        let to = |phase| (phase < limit).then_some(next as u8);
        self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, to).is_ok()
    }

    /// Cancels the call and wakes its handler. Claims the right to respond at the same moment, so a
    /// handler that sees the cancellation cannot respond. Returns whether this claimed that right.
    pub(crate) fn cancel(&self) -> bool {
        let mine = self.advance(Phase::Cancelled);
        // With the lock held no handler is between its check of the phase and its wait.
        let mut hook = lock(&self.on_cancel);
        let run = hook.take();
        self.wake.release(hook);
        if let Some(run) = run {
            run();
        }
        mine
    }

    /// Runs `hook` when the call is cancelled, at once if it already is.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn on_cancel(&self, hook: Hook) {
        {
            let mut slot = lock(&self.on_cancel);
            // `cancel` changes the phase before it takes this lock, so it finds the hook.
            if !self.is_cancelled() {
                *slot = Some(hook);
                return;
            }
        }
        hook();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Cancelled as u8
    }

    /// Blocks until `then` or until the call is cancelled.
    pub(crate) fn wait_until(&self, then: Instant) {
        let mut guard = lock(&self.on_cancel);
        while !self.is_cancelled() {
            let left = then.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            guard = self.wake.wait_for(guard, left);
        }
    }

    /// Claims the right to respond. Returns true for the first caller only.
    pub(crate) fn settle(&self) -> bool {
        self.advance(Phase::Settled)
    }

    /// Records that the handler was called.
    pub(crate) fn start(&self) {
        self.advance(Phase::Started);
    }

    pub(crate) fn has_started(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Started as u8
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= Phase::Settled as u8
    }
}

/// A call in flight, with everything needed to respond without its job.
pub(crate) struct Running {
    pub id: Id,
    pub call: Arc<Call>,
    pub deadline: Option<Instant>,
    pub era: &'static dyn ServerEra,
    pub revision: Revision,
    pub operation: Operation,
    pub sink: Arc<dyn ReplySink>,
    /// Bytes of its document; 0 while the call is parked.
    pub weight: usize,
}

/// Reason why a call is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnterError {
    /// Another request with this id is in flight.
    Duplicate,
    /// The documents of the calls in flight take too much memory; see [`InFlight::wait_for_room`].
    NoRoom,
}

/// The calls in flight.
#[derive(Default)]
pub(crate) struct InFlight {
    table: Mutex<Table>,
    room: Condition,
    /// Number of calls, readable without the lock. The reader thread may see too many, never too
    /// few.
    open: AtomicUsize,
}

#[derive(Default)]
struct Table {
    calls: Vec<Running>,
    /// Hash of each id, compared before the id itself.
    keys: Vec<u32>,
    weight: usize,
    /// Set when serving ends. Every call fits from then on.
    over: bool,
}

impl Table {
    fn has_room(&self, weight: usize, max: usize) -> bool {
        // A call beyond the limit is admitted alone.
        self.over || self.weight == 0 || self.weight + weight <= max
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
        // Without branches, because usually there is no match.
        if !self.keys.iter().fold(false, |any, other| any | (*other == key)) {
            return None;
        }
        self.calls.iter().position(|running| running.id == *id)
    }
}

/// Hash of an id.
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
    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Publishes the number of calls and wakes the thread in [`InFlight::wait_for_room`].
    fn release(&self, table: MutexGuard<'_, Table>) {
        self.open.store(table.calls.len(), Ordering::Relaxed);
        self.room.release(table);
    }

    /// Adds a call if all calls then weigh at most `max` bytes. With `unique`, which is set if all
    /// ids are those of one client, an id that is in flight is rejected.
    pub(crate) fn enter(&self, running: Running, max: usize, unique: bool) -> Result<(), EnterError> {
        let mut table = self.table();
        if unique && table.find_id(&running.id).is_some() {
            return Err(EnterError::Duplicate);
        }
        if !table.has_room(running.weight, max) {
            return Err(EnterError::NoRoom);
        }
        table.push(running);
        self.open.store(table.calls.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Blocks until a call of this weight fits, or serving ends.
    pub(crate) fn wait_for_room(&self, weight: usize, max: usize) {
        let mut table = self.table();
        while !table.has_room(weight, max) {
            table = self.room.wait(table);
        }
    }

    /// Ends all waits for room, now and later.
    pub(crate) fn end(&self) {
        let mut table = self.table();
        table.over = true;
        self.room.release(table);
    }

    /// Returns whether calls may be in flight; for the reader thread.
    pub(crate) fn any(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn is_open(&self, id: &Id) -> bool {
        self.table().find_id(id).is_some()
    }

    /// Removes a call.
    pub(crate) fn take(&self, call: &Arc<Call>) -> Option<Running> {
        self.take_at(|table| table.find(call))
    }

    /// Removes the call with this id.
    pub(crate) fn take_id(&self, id: &Id) -> Option<Running> {
        self.take_at(|table| table.find_id(id))
    }

    /// Removes the call whose response uses this HTTP exchange. Linear in the number of calls,
    /// which the pool's queue bounds.
    #[cfg(feature = "http-server")]
    pub(crate) fn take_exchange(&self, exchange: u64) -> Option<Running> {
        self.take_at(|table| table.calls.iter().position(|running| running.sink.exchange() == Some(exchange)))
    }

    fn take_at(&self, find: impl FnOnce(&Table) -> Option<usize>) -> Option<Running> {
        let mut table = self.table();
        let at = find(&table)?;
        let running = table.take(at);
        self.release(table);
        Some(running)
    }

    /// Removes the calls whose peer has disconnected.
    #[cfg(feature = "http-server")]
    pub(crate) fn take_closed(&self) -> Vec<Running> {
        let (mut gone, mut at) = (Vec::new(), 0);
        let mut table = self.table();
        while let Some(running) = table.calls.get(at) {
            match running.sink.closed() {
                true => gone.push(table.take(at)),
                false => at += 1,
            }
        }
        self.release(table);
        gone
    }

    /// Returns the number of calls in flight.
    pub(crate) fn len(&self) -> usize {
        self.table().calls.len()
    }

    /// Removes overdue calls. Returns them, and whether other calls have a deadline.
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
        self.release(table);
        (late, more)
    }

    /// Removes all calls.
    pub(crate) fn take_all(&self) -> Vec<Running> {
        let mut table = self.table();
        table.weight = 0;
        let calls = std::mem::take(&mut table.calls);
        table.keys.clear();
        self.release(table);
        calls
    }

    /// Sets the deadline and the weight of a call.
    pub(crate) fn reschedule(&self, call: &Arc<Call>, deadline: Option<Instant>, weight: usize) {
        let mut table = self.table();
        let Some(at) = table.find(call) else { return };
        let mut before = 0;
        if let Some(running) = table.calls.get_mut(at) {
            running.deadline = deadline;
            before = std::mem::replace(&mut running.weight, weight);
        }
        table.weight = table.weight + weight - before;
        self.release(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Step = (&'static str, fn(&Call) -> bool);

    #[test]
    fn a_call_is_settled_once_and_then_keeps_its_phase() {
        let steps: [Step; 3] = [
            ("start", |call| {
                call.start();
                false
            }),
            ("settle", Call::settle),
            ("cancel", Call::cancel),
        ];
        for (first, a) in steps {
            for (second, b) in steps {
                for (third, c) in steps {
                    let call = Call::default();
                    let claims = [a(&call), b(&call), c(&call)];
                    let names = [first, second, third];
                    let ends = names.iter().position(|name| *name != "start");
                    let expected: [bool; 3] = std::array::from_fn(|n| Some(n) == ends);
                    assert_eq!(claims, expected, "{names:?}");
                    assert_eq!(call.is_settled(), ends.is_some(), "{names:?}");
                    assert_eq!(call.is_cancelled(), ends.is_some_and(|n| names[n] == "cancel"), "{names:?}");
                    assert_eq!(call.has_started(), ends.is_none(), "{names:?}");
                }
            }
        }
    }
}
