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

// `\p{…}`. The tables of regex-syntax are larger than the rest of the pattern engine, so the feature
// `unicode-pattern` enables them. After the first letter, names are case-insensitive; ECMA-262
// requires the exact spelling.

/// The set of a property, given the text between the braces, or the error.
#[cfg(feature = "unicode-pattern")]
pub(super) fn property(name: &str) -> Result<CharSet, String> {
    let unknown = || format!("`{name}` is not a supported Unicode property");
    let plain = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if let Some((key, value)) = name.split_once('=') {
        let key = match key {
            "General_Category" | "gc" => "gc",
            "Script" | "sc" => "sc",
            "Script_Extensions" | "scx" => "scx",
            _ => return Err(unknown()),
        };
        return Some(value)
            .filter(|v| plain(v))
            .and_then(|v| look_up(&format!("{key}={v}")))
            .ok_or_else(unknown);
    }
    let spelt =
        name.starts_with(|c: char| c.is_ascii_uppercase()) || ["punct", "digit", "cntrl"].contains(&name);
    if !plain(name) || !spelt {
        return Err(unknown());
    }
    if let Some(set) = look_up(&format!("gc={name}")) {
        return Ok(set);
    }
    // The tables accept a script without its key; ECMA-262 does not.
    if look_up(&format!("sc={name}")).is_some() {
        return Err(format!("`{name}` is a script; write \\p{{Script={name}}}"));
    }
    look_up(name).ok_or_else(unknown)
}

/// Looks a property up in the tables.
#[cfg(feature = "unicode-pattern")]
fn look_up(query: &str) -> Option<CharSet> {
    use regex_syntax::hir::{Class, HirKind};
    let hir = regex_syntax::Parser::new().parse(&format!("\\p{{{query}}}")).ok()?;
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let ranges: Vec<_> = class.iter().map(|r| (u32::from(r.start()), u32::from(r.end()))).collect();
            Some(CharSet::of(&ranges))
        }
        // A property with one character is returned as a literal.
        HirKind::Literal(literal) => {
            let c = u32::from(std::str::from_utf8(&literal.0).ok()?.chars().next()?);
            Some(CharSet::of(&[(c, c)]))
        }
        _ => None,
    }
}

/// Rejects every property.
#[cfg(not(feature = "unicode-pattern"))]
pub(super) fn property(_name: &str) -> Result<CharSet, String> {
    Err("Unicode properties need the Cargo feature `unicode-pattern`; enable it or write ranges, \
         as in [\\u00C0-\\u024F]"
        .to_owned())
}
