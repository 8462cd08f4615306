//! Numbers by key: the one kind of map that compiling and walking need, so that its code is there once.
//!
//! A key is numbers and a text, spelled as bytes by [`key`]; a map that is keyed by something else
//! would be compiled again for it.

use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Index(HashMap<Box<[u8]>, u64>);

/// Keys of as many numbers and any text differ when any of them differs.
pub(super) fn key(numbers: &[u32], text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 * numbers.len() + text.len());
    for number in numbers {
        key.extend_from_slice(&number.to_le_bytes());
    }
    key.extend_from_slice(text.as_bytes());
    key
}

impl Index {
    pub(super) fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key).copied()
    }

    /// The number of the key, which is `number` unless it had one.
    pub(super) fn enter(&mut self, key: &[u8], number: u64) -> u64 {
        match self.0.get(key) {
            Some(known) => *known,
            None => {
                self.0.insert(key.into(), number);
                number
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
