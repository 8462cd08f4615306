//! Map from keys to numbers, used for all tables of the compiler and the validator.
//!
//! A key consists of numbers and a text, encoded as bytes by [`key`]. The map is a crit-bit tree:
//! the keys are leaves, and a fork tests the first bit in which the keys below it differ. It needs
//! no hash, so no key can be chosen to cause collisions.
//!
//! Invariant: a look-up passes at most nine forks for each byte of its key, whatever the other keys
//! are.

use crate::json::Value;

/// Marks a reference to a leaf instead of a fork.
const LEAF: u32 = 1 << 31;

#[derive(Default)]
pub(super) struct KeyMap {
    /// The keys, concatenated.
    keys: Vec<u8>,
    entries: Vec<Entry>,
    forks: Vec<Fork>,
    root: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    start: usize,
    len: usize,
    number: u64,
}

/// A fork: the keys below are equal in all earlier bits. Forks further down test later bits.
#[derive(Clone, Copy)]
struct Fork {
    byte: usize,
    bit: u32,
    /// One of the entries below the fork.
    any: u32,
    next: [u32; 2],
}

/// The byte of a key at a position, or the marker for its end.
fn symbol(key: &[u8], at: usize) -> u32 {
    key.get(at).map_or(0, |b| 256 | u32::from(*b))
}

impl Fork {
    fn side(&self, key: &[u8]) -> usize {
        usize::from(symbol(key, self.byte) & self.bit != 0)
    }

    /// The next reference on the path of a key.
    fn toward(&self, key: &[u8]) -> u32 {
        let [clear, set] = self.next;
        if self.side(key) == 0 { clear } else { set }
    }
}

/// Encodes a key. Keys with equally many numbers differ if any number or the text differs.
pub(super) fn key(numbers: &[u32], text: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(4 * numbers.len() + text.len());
    for number in numbers {
        key.extend_from_slice(&number.to_le_bytes());
    }
    key.extend_from_slice(text.as_bytes());
    key
}

impl KeyMap {
    /// The names of an object's members, with their positions.
    #[inline(never)]
    pub(super) fn of_members(object: Value<'_>) -> KeyMap {
        let mut names = KeyMap::default();
        for (name, _) in object.members() {
            names.enter(name.as_bytes(), 0);
        }
        names
    }

    /// The entry with the longest common prefix: the key's own entry if there is one.
    fn closest(&self, key: &[u8]) -> Option<&Entry> {
        let mut at = self.root;
        while at & LEAF == 0 {
            let fork = self.forks.get(at as usize)?;
            // At the end of the key, the keys below differ from it in earlier bits.
            at = if fork.byte > key.len() { LEAF | fork.any } else { fork.toward(key) };
        }
        self.entries.get((at & !LEAF) as usize)
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        self.keys.get(entry.start..entry.start + entry.len).unwrap_or_default()
    }

    #[inline(never)]
    pub(super) fn get(&self, key: &[u8]) -> Option<u64> {
        self.closest(key).filter(|entry| self.key(entry) == key).map(|entry| entry.number)
    }

    /// Inserts a key with this number. Returns the number of the key, which is the old one if it
    /// had one.
    #[inline(never)]
    pub(super) fn enter(&mut self, key: &[u8], number: u64) -> u64 {
        let new = LEAF | self.entries.len() as u32;
        if let Some(entry) = self.closest(key) {
            let known = self.key(entry);
            let Some(byte) =
                (0..=key.len().max(known.len())).find(|at| symbol(key, *at) != symbol(known, *at))
            else {
                return entry.number;
            };
            let differ = symbol(key, byte) ^ symbol(known, byte);
            let bit = 1 << differ.ilog2();
            self.fork(key, Fork { byte, bit, any: new & !LEAF, next: [new; 2] });
        } else {
            self.root = new;
        }
        self.entries.push(Entry { start: self.keys.len(), len: key.len(), number });
        self.keys.extend_from_slice(key);
        number
    }

    /// Inserts a fork on the path of a new key.
    fn fork(&mut self, key: &[u8], mut new: Fork) {
        let number = self.forks.len() as u32;
        let (mut at, mut parent) = (self.root, None);
        while let Some(fork) = self.forks.get(at as usize) {
            if fork.byte > new.byte || fork.byte == new.byte && fork.bit < new.bit {
                break;
            }
            parent = Some((at as usize, fork.side(key)));
            at = fork.toward(key);
        }
        let side = new.side(key);
        if let Some(other) = new.next.get_mut(1 - side) {
            *other = at;
        }
        let forks = &mut self.forks;
        let above = parent.and_then(|(fork, side)| forks.get_mut(fork)?.next.get_mut(side));
        *above.unwrap_or(&mut self.root) = number;
        self.forks.push(new);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn as_the_map_of_the_standard_library() {
        let mut seed = 1_u32;
        let mut random = move |most: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % most
        };
        // Few and many letters: keys that are prefixes of others, and keys with trailing zeros.
        for letters in [1, 2, 3, 256] {
            let (mut ours, mut theirs) = (KeyMap::default(), HashMap::new());
            assert!(ours.is_empty());
            for number in 0..2000 {
                let key: Vec<u8> = (0..random(12)).map(|_| random(letters) as u8).collect();
                assert_eq!(ours.get(&key), theirs.get(&key).copied(), "{key:?}");
                let entered = *theirs.entry(key.clone()).or_insert(number);
                assert_eq!(ours.enter(&key, number), entered, "{key:?}");
            }
            assert!(theirs.iter().all(|(key, number)| ours.get(key) == Some(*number)));
        }
    }

    #[test]
    fn the_way_to_a_short_key_is_short_among_long_ones() {
        let mut index = KeyMap::default();
        // Each key differs from the earlier ones in a later bit, always on the same side.
        for number in 0..800 {
            let mut key = [0; 100];
            key[99 - number / 8] = 1 << (number % 8);
            index.enter(&key, number as u64);
        }
        let mut passed = 0;
        let mut at = index.root;
        while at & LEAF == 0 && index.forks[at as usize].byte <= 1 {
            at = index.forks[at as usize].toward(&[0]);
            passed += 1;
        }
        assert!(passed <= 18, "{passed}");
        assert_eq!(index.get(&[0]), None);
        assert_eq!(index.enter(&[0], 9), 9);
        assert_eq!(index.get(&[0]), Some(9));
    }
}
