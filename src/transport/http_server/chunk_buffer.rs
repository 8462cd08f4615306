//! Byte queue in chunks of at most 32 KiB.
//!
//! Growing one large buffer would copy it repeatedly, and allocators are slow to return large
//! blocks to the system. A chunk is filled before another one is added, and freed when it is
//! consumed.
//!
//! # Invariants
//! - `len` is the sum of the chunks without the `consumed` bytes of the first one.
//! - `memory` is the sum of the capacities.

use std::collections::VecDeque;
use std::io::IoSlice;

/// Maximum size of a chunk, below the sizes that allocators treat as large.
const MAX_CHUNK: usize = 32 << 10;
/// Minimum size of a chunk.
const MIN_CHUNK: usize = 512;

#[derive(Debug, Default)]
pub(super) struct ChunkBuffer {
    queue: VecDeque<Vec<u8>>,
    /// Consumed bytes of the first chunk.
    consumed: usize,
    len: usize,
    memory: usize,
}

impl ChunkBuffer {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the allocated memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.queue.back().map_or(0, |last| last.capacity() - last.len());
            if room == 0 {
                // As long as all chunks before it, so a short message takes little memory and a
                // long message few chunks.
                let chunk = Vec::with_capacity(bytes.len().max(self.len).clamp(MIN_CHUNK, MAX_CHUNK));
                self.memory += chunk.capacity();
                self.queue.push_back(chunk);
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if let Some(last) = self.queue.back_mut() {
                last.extend_from_slice(now);
            }
            self.len += now.len();
            bytes = later;
        }
    }

    /// Returns the first chunks, for one write.
    pub(super) fn front(&self) -> [IoSlice<'_>; 4] {
        let mut slices = [IoSlice::new(&[]); 4];
        for (n, (slice, chunk)) in slices.iter_mut().zip(&self.queue).enumerate() {
            let from = if n == 0 { self.consumed } else { 0 };
            *slice = IoSlice::new(chunk.get(from..).unwrap_or_default());
        }
        slices
    }

    /// Removes bytes from the front.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.consumed += bytes;
        self.len -= bytes;
        while let Some(first) = self.queue.front().filter(|first| first.len() <= self.consumed) {
            self.consumed -= first.len();
            self.memory -= first.capacity();
            self.queue.pop_front();
        }
    }

    /// Returns all bytes in one buffer.
    pub(super) fn into_vec(mut self) -> Vec<u8> {
        if self.queue.len() == 1 && self.consumed == 0 {
            return self.queue.pop_front().unwrap_or_default();
        }
        let mut whole = Vec::with_capacity(self.len);
        for chunk in &self.queue {
            whole.extend_from_slice(chunk.get(std::mem::take(&mut self.consumed)..).unwrap_or_default());
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_for_all_sizes() {
        let all: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        for step in [1, 100, 511, 512, 5000, 70_000, 200_000] {
            let mut buffer = ChunkBuffer::default();
            all.chunks(step).for_each(|piece| buffer.push(piece));
            assert_eq!(buffer.len(), all.len());
            assert!(
                buffer.memory() >= all.len() && buffer.memory() <= all.len() + MAX_CHUNK,
                "{}",
                buffer.memory()
            );
            assert!(buffer.queue.iter().all(|p| p.capacity() <= MAX_CHUNK));
            let mut out = Vec::new();
            while buffer.len() > 199_000 {
                let front = buffer.front()[0].to_vec();
                let n = front.len().min(step);
                out.extend_from_slice(&front[..n]);
                buffer.consume(n);
            }
            out.extend(buffer.into_vec());
            assert!(out == all, "steps of {step}");
        }
    }

    #[test]
    fn an_empty_queue_holds_no_memory() {
        let mut buffer = ChunkBuffer::default();
        buffer.push(&[1; 40_000]);
        buffer.consume(40_000);
        assert_eq!((buffer.len(), buffer.memory()), (0, 0));
        buffer.push(b"x");
        assert_eq!((buffer.memory(), buffer.into_vec()), (MIN_CHUNK, b"x".to_vec()));
    }
}
