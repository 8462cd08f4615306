//! The characters of a pattern by kind: two characters are of one kind if no set of the pattern
//! tells them apart.
//!
//! A pattern sees a text as a row of kinds. A dozen of them serve most patterns, so tables over
//! kinds stay small where tables over the bytes of UTF-8 grow. The engine works on bytes: each
//! kind has one, and where the pattern asks for word boundaries the kinds of word characters get
//! bytes that are word characters themselves.
//!
//! Invariant: every character has exactly one kind, below [`KINDS`].

use super::char_set::{CharSet, WORD};

/// Most kinds a pattern may have: below the 193 bytes that are no word characters.
const KINDS: usize = 180;

/// Some kinds, as bits.
pub(super) type Kinds = [u64; 4];

/// The kinds of one pattern.
#[derive(Debug)]
pub(super) struct CharClasses {
    ascii: [u8; 128],
    /// First character of each further stretch, above eight bits for its kind; sorted.
    rest: Box<[u32]>,
    /// The byte of each kind.
    bytes: Box<[u8]>,
}

impl CharClasses {
    /// The alphabet that tells these sets apart, and each set in its terms. `word` makes bytes fit
    /// for word boundaries. `None` if there are too many kinds.
    pub(super) fn of(sets: &[CharSet], word: bool) -> Option<(CharClasses, Vec<Kinds>)> {
        let boundary = CharSet::of(if word { WORD } else { &[] });
        let all = || std::iter::once(&boundary).chain(sets);
        // Stretches between two neighbouring ends of ranges are of one kind throughout.
        let mut starts = vec![0, 128];
        for &(low, high) in all().flat_map(CharSet::ranges) {
            starts.extend([low, high + 1]);
        }
        starts.sort_unstable();
        starts.dedup();
        let first_of = |c: u32| starts.partition_point(|s| *s < c);
        // All stretches are of one kind at first; each set splits the kinds it holds in part.
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
        let mut word_bytes = (0..=255u8).filter(|b| is_word(*b));
        let mut other_bytes = (0..=255u8).filter(|b| !is_word(*b));
        let bytes: Option<Box<[u8]>> = (0..sizes.len())
            .map(|kind| if has(&in_terms[0], kind) { word_bytes.next() } else { other_bytes.next() })
            .collect();
        let alphabet = CharClasses { ascii, rest: rest.into(), bytes: bytes? };
        Some((alphabet, in_terms.into_iter().skip(1).collect()))
    }

    /// The kind of the character that is this byte, if one is.
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

    /// The bytes of the kinds, by kind.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether a kind is among some kinds.
pub(super) fn has(kinds: &Kinds, kind: usize) -> bool {
    kinds[kind / 64] >> (kind % 64) & 1 == 1
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
