//! Bytes that come or go little by little, kept in pieces.
//!
//! Growing one long buffer would copy it again and again, and an allocator that has once given out
//! a large block is slow to hand memory back to the system. Pieces are small, are filled before
//! another one is added, and go one by one.
//!
//! # Invariants
//! - No piece is empty but for the bytes taken from the first; `len` counts what is left of all.

use std::collections::VecDeque;
use std::io::IoSlice;

/// The largest piece, below what allocators treat as large.
const LARGEST: usize = 32 << 10;
/// The smallest piece.
const SMALLEST: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Pieces {
    queue: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that have been taken.
    taken: usize,
    len: usize,
    kept: usize,
}

impl Pieces {
    /// Bytes that are there.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.queue.back().map_or(0, |last| last.capacity() - last.len());
            if room == 0 {
                // Each as long as all before it: a short message takes little, a long one few.
                let piece = Vec::with_capacity(bytes.len().max(self.len).clamp(SMALLEST, LARGEST));
                self.kept += piece.capacity();
                self.queue.push_back(piece);
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

    /// The first of what is there, for one write.
    pub(super) fn front(&self) -> [IoSlice<'_>; 4] {
        let mut slices = [IoSlice::new(&[]); 4];
        for (n, (slice, piece)) in slices.iter_mut().zip(&self.queue).enumerate() {
            let from = if n == 0 { self.taken } else { 0 };
            *slice = IoSlice::new(piece.get(from..).unwrap_or_default());
        }
        slices
    }

    /// Takes bytes from the front.
    pub(super) fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        self.len -= bytes;
        while let Some(first) = self.queue.front().filter(|first| first.len() <= self.taken) {
            self.taken -= first.len();
            self.kept -= first.capacity();
            self.queue.pop_front();
        }
    }

    /// Everything in one buffer.
    pub(super) fn into_vec(mut self) -> Vec<u8> {
        if self.queue.len() == 1 && self.taken == 0 {
            return self.queue.pop_front().unwrap_or_default();
        }
        let mut whole = Vec::with_capacity(self.len);
        for piece in &self.queue {
            whole.extend_from_slice(piece.get(std::mem::take(&mut self.taken)..).unwrap_or_default());
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_comes_out_in_order_whatever_the_sizes() {
        let all: Vec<u8> = (0..200_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        for step in [1, 100, 511, 512, 5000, 70_000, 200_000] {
            let mut pieces = Pieces::default();
            all.chunks(step).for_each(|piece| pieces.push(piece));
            assert_eq!(pieces.len(), all.len());
            assert!(pieces.kept() >= all.len() && pieces.kept() <= all.len() + LARGEST, "{}", pieces.kept());
            assert!(pieces.queue.iter().all(|p| p.capacity() <= LARGEST));
            let mut out = Vec::new();
            while pieces.len() > 199_000 {
                let front = pieces.front()[0].to_vec();
                let n = front.len().min(step);
                out.extend_from_slice(&front[..n]);
                pieces.take(n);
            }
            out.extend(pieces.into_vec());
            assert!(out == all, "steps of {step}");
        }
    }

    #[test]
    fn an_emptied_queue_keeps_nothing() {
        let mut pieces = Pieces::default();
        pieces.push(&[1; 40_000]);
        pieces.take(40_000);
        assert_eq!((pieces.len(), pieces.kept()), (0, 0));
        pieces.push(b"x");
        assert_eq!((pieces.kept(), pieces.into_vec()), (SMALLEST, b"x".to_vec()));
    }
}
