//! Memory of the outputs that programs write, shared by all calls.
//!
//! Counts the bytes of standard output that a call holds beyond [`UNCOUNTED`]. Lines of workers are
//! not counted, and neither are results, which take up to eight times their size until they are
//! sent.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of counted bytes of all running calls: the largest `outputLimit` with its rest,
/// and a reserve.
pub(super) const OUTPUT_BYTES: usize = 20 << 20;
/// Number of bytes of each output that are not counted: the default `outputLimit`, so that no call
/// can leave the others without any output.
const UNCOUNTED: usize = 64 << 10;

pub(super) static OUTPUTS: Memory = Memory::new(OUTPUT_BYTES, UNCOUNTED);

/// Memory for outputs.
pub(super) struct Memory {
    free: AtomicUsize,
    /// Number of bytes of each output that are not counted.
    uncounted: usize,
}

impl Memory {
    pub(super) const fn new(bytes: usize, uncounted: usize) -> Memory {
        Memory { free: AtomicUsize::new(bytes), uncounted }
    }

    /// Returns a reservation for an empty output.
    pub(super) fn reservation(&'static self) -> Reservation {
        Reservation { memory: self, bytes: 0 }
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }
}

/// Memory that the output of one call occupies. Dropping it frees the memory.
pub(super) struct Reservation {
    memory: &'static Memory,
    bytes: usize,
}

impl Reservation {
    /// Reserves memory for an output of `held` bytes that grows by `wanted` bytes. Returns the
    /// number of new bytes that have memory.
    pub(super) fn grow(&mut self, held: usize, wanted: usize) -> usize {
        let counted = (held + wanted).saturating_sub(self.memory.uncounted);
        let missing = counted.saturating_sub(self.bytes);
        let take = |free: usize| Some(free - free.min(missing));
        let free = self.memory.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let taken = free.unwrap_or_else(|free| free).min(missing);
        self.bytes += taken;
        wanted - (missing - taken).min(wanted)
    }

    /// Frees what an output of `held` bytes does not need.
    pub(super) fn shrink(&mut self, held: usize) {
        let unused = self.bytes.saturating_sub(held.saturating_sub(self.memory.uncounted));
        self.bytes -= unused;
        self.memory.free.fetch_add(unused, Ordering::Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}
