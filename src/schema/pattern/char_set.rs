//! Character sets, and the predefined classes of ECMA-262.
//!
//! A set is a sorted list of ranges. `syntax.rs` parses the notation of classes and escapes.
//!
//! Invariants:
//! - Ranges are sorted and not adjacent, and start and end at scalar values.
//! - Surrogates within a range are ignored, because a `str` has none. So equal sets have equal
//!   ranges.

/// Sorted, disjoint ranges of scalar values, inclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CharSet(Vec<(u32, u32)>);

/// The last scalar value.
pub(super) const LAST: u32 = 0x10_FFFF;

/// `\d`.
pub(super) const DIGIT: &[(u32, u32)] = &[(0x30, 0x39)];
/// `\w`.
pub(super) const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
/// `\s`: ECMA's WhiteSpace and LineTerminator.
pub(super) const SPACE: &[(u32, u32)] = &[
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
];
/// Line terminators of ECMA-262, which `.` does not match.
pub(super) const LINE_END: &[(u32, u32)] = &[(0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029)];

impl CharSet {
    /// The set of these ranges, in any order, possibly overlapping.
    pub(super) fn of(ranges: &[(u32, u32)]) -> CharSet {
        let mut sorted: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for &(low, high) in ranges {
            // Surrogates are removed, which may leave two ranges, one, or none.
            for (low, high) in [(low, high.min(0xD7FF)), (low.max(0xE000), high.min(LAST))] {
                if low <= high {
                    sorted.push((low, high));
                }
            }
        }
        sorted.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(sorted.len());
        for (low, high) in sorted {
            match merged.last_mut() {
                Some(last) if low <= after(last.1) => last.1 = last.1.max(high),
                _ => merged.push((low, high)),
            }
        }
        CharSet(merged)
    }

    /// The complement of the set.
    pub(super) fn negated(&self) -> CharSet {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(low, high) in &self.0 {
            if next < low {
                gaps.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= LAST {
            gaps.push((next, LAST));
        }
        CharSet::of(&gaps)
    }

    /// The ranges, sorted.
    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }
}

/// The next scalar value.
fn after(c: u32) -> u32 {
    if c == 0xD7FF { 0xE000 } else { c + 1 }
}
