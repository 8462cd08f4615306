//! Equivalence classes of the characters of a pattern.
//!
//! Two characters have the same class, called kind, if every set of the pattern contains both or
//! neither. Most patterns have about a dozen kinds, so tables over kinds are smaller than tables
//! over UTF-8 bytes. The engine works on bytes: each kind has a byte. If the pattern has word
//! boundaries, kinds of word characters have bytes that are word characters.
//!
//! Invariant: every character has exactly one kind, below [`KINDS`].

use super::char_set::{CharSet, WORD};

/// Largest number of kinds: less than the 193 bytes that are not word characters.
const KINDS: usize = 180;

/// A set of kinds, as bits.
pub(super) type Kinds = [u64; 4];

/// The kinds of one pattern.
#[derive(Debug)]
pub(super) struct CharClasses {
    ascii: [u8; 128],
    /// First character of each further range, above eight bits for its kind; sorted.
    rest: Box<[u32]>,
    /// The byte of each kind.
    bytes: Box<[u8]>,
}

impl CharClasses {
    /// Computes the kinds that distinguish these sets, and each set as kinds. `word` chooses bytes
    /// for word boundaries. `None` if there are too many kinds.
    pub(super) fn of(sets: &[CharSet], word: bool) -> Option<(CharClasses, Vec<Kinds>)> {
        let boundary = CharSet::of(if word { WORD } else { &[] });
        let all = || std::iter::once(&boundary).chain(sets);
        // A range between two adjacent boundaries has a single kind.
        let mut starts = vec![0, 128];
        for &(low, high) in all().flat_map(CharSet::ranges) {
            starts.extend([low, high + 1]);
        }
        starts.sort_unstable();
        starts.dedup();
        let first_of = |c: u32| starts.partition_point(|s| *s < c);
        // All ranges start with the same kind; each set splits the kinds it contains partly.
        let mut kind_of = vec![0usize; starts.len()];
        let mut sizes = vec![starts.len()];
        let mut inside: Vec<usize> = Vec::new();
        let mut renamed: Vec<usize> = Vec::new();
        for set in all() {
            inside.clear();
            inside.resize(sizes.len(), 0);
            let stretches = || set.ranges().iter().flat_map(|&(low, high)| first_of(low)..first_of(high + 1));
            stretches().for_each(|s| inside[kind_of[s]] += 1);
            renamed.clear();
            renamed.extend(0..sizes.len());
            for kind in 0..inside.len() {
                if inside[kind] > 0 && inside[kind] < sizes[kind] {
                    renamed[kind] = sizes.len();
                    sizes[kind] -= inside[kind];
                    sizes.push(inside[kind]);
                }
            }
            if sizes.len() > KINDS {
                return None;
            }
            stretches().for_each(|s| kind_of[s] = renamed[kind_of[s]]);
        }
        let in_terms = all()
            .map(|set| {
                let mut kinds = Kinds::default();
                for &(low, high) in set.ranges() {
                    for s in first_of(low)..first_of(high + 1) {
                        kinds[kind_of[s] / 64] |= 1 << (kind_of[s] % 64);
                    }
                }
                kinds
            })
            .collect::<Vec<_>>();
        let (ascii, rest) = tables(&starts, &kind_of);
        let mut word_bytes = (0..=255u8).filter(|b| is_word(*b));
        let mut other_bytes = (0..=255u8).filter(|b| !is_word(*b));
        let bytes: Option<Box<[u8]>> = (0..sizes.len())
            .map(|kind| if has(&in_terms[0], kind) { word_bytes.next() } else { other_bytes.next() })
            .collect();
        let alphabet = CharClasses { ascii, rest, bytes: bytes? };
        Some((alphabet, in_terms.into_iter().skip(1).collect()))
    }

    /// The kind of an ASCII byte.
    #[inline]
    pub(super) fn kind_of_ascii(&self, byte: u8) -> Option<usize> {
        self.ascii.get(usize::from(byte)).map(|kind| usize::from(*kind))
    }

    /// The kind of a character.
    #[inline]
    pub(super) fn kind(&self, c: char) -> usize {
        let c = u32::from(c);
        match self.ascii.get(c as usize) {
            Some(kind) => usize::from(*kind),
            None => {
                let next = self.rest.partition_point(|r| r >> 8 <= c);
                self.rest.get(next.wrapping_sub(1)).map_or(0, |r| (r & 0xFF) as usize)
            }
        }
    }

    /// The bytes of the kinds.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The kind of each ASCII character, and the further ranges with their kinds.
fn tables(starts: &[u32], kind_of: &[usize]) -> ([u8; 128], Box<[u32]>) {
    let mut ascii = [0; 128];
    let mut rest: Vec<u32> = Vec::new();
    for (index, &start) in starts.iter().enumerate() {
        let kind = kind_of[index];
        let end = starts.get(index + 1).map_or(128, |e| *e).min(128);
        for c in start..end {
            ascii[c as usize] = kind as u8;
        }
        if start >= 128 && rest.last().is_none_or(|r| r & 0xFF != kind as u32) {
            rest.push(start << 8 | kind as u32);
        }
    }
    (ascii, rest.into())
}

/// Returns `true` if a set contains a kind.
pub(super) fn has(kinds: &Kinds, kind: usize) -> bool {
    kinds[kind / 64] >> (kind % 64) & 1 == 1
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
