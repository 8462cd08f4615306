//! Set of evaluated elements or members of one value.
//!
//! The set contains positions instead of names. Up to 64 positions need no allocation.
//!
//! Invariant: `all` means every position, whatever the bits.

/// Evaluated positions of one array or object.
#[derive(Clone, Default)]
pub(in crate::schema) struct Evaluated {
    all: bool,
    first: u64,
    more: Vec<u64>,
}

impl Evaluated {
    pub(super) fn set(&mut self, position: usize) {
        if position < 64 {
            self.first |= 1 << position;
            return;
        }
        let word = position / 64 - 1;
        if self.more.len() <= word {
            self.more.resize(word + 1, 0);
        }
        if let Some(bits) = self.more.get_mut(word) {
            *bits |= 1 << (position % 64);
        }
    }

    pub(super) fn set_all(&mut self) {
        self.all = true;
    }

    pub(super) fn has(&self, position: usize) -> bool {
        if self.all {
            return true;
        }
        let bits = match position.checked_sub(64) {
            None => self.first,
            Some(behind) => self.more.get(behind / 64).copied().unwrap_or(0),
        };
        bits >> (position % 64) & 1 == 1
    }

    pub(super) fn merge(&mut self, other: &Evaluated) {
        self.all |= other.all;
        if self.all {
            return;
        }
        self.first |= other.first;
        if self.more.len() < other.more.len() {
            self.more.resize(other.more.len(), 0);
        }
        for (mine, theirs) in self.more.iter_mut().zip(&other.more) {
            *mine |= theirs;
        }
    }

    /// Number of words a merge reads.
    pub(super) fn words(&self) -> usize {
        self.more.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_kept_across_words_and_merges() {
        let mut a = Evaluated::default();
        let mut b = Evaluated::default();
        for position in [0, 63, 64, 127, 128, 1000] {
            a.set(position);
        }
        b.set(5);
        b.merge(&a);
        let held: Vec<_> = (0..1100).filter(|i| b.has(*i)).collect();
        assert_eq!(held, [0, 5, 63, 64, 127, 128, 1000]);
        b.set_all();
        a.merge(&b);
        assert!(a.has(99_999));
    }
}
