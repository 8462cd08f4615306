//! A text that says the same as the one before, but for some numbers and strings.
//!
//! A peer sends few kinds of message, again and again: ids and arguments differ, names and nesting
//! do not. Then the table of the last text serves for the next one: it is enough to compare the two
//! and to look at the values that differ. That costs a fifth of parsing.
//!
//! What it does: turn the table of one text into that of another, and say whether a reader of the
//! first one may have decided anything by a value that differs. What it does not: report errors;
//! whatever is not plainly alike is left to the parser, strings with escapes that differ too.
//!
//! Invariant: the table is the one the parser would make. For behind every difference both texts go
//! on alike from the end of a number, or from the closing quotes of two strings that have the same
//! opening one. So they are the same sequence of tokens but for values, of which the grammar knows
//! only the kind; and no name differs.

use super::parse::{NUMBER, Node, STRING};
use super::scan::{self, byte};
use super::value::NodeId;

/// More values that differ are left to the parser: each may move everything behind it.
const MOST: usize = 8;

/// Values of a document by which its reader decided nothing but that they are a string or a number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Free {
    /// Single values.
    pub values: [Option<NodeId>; 2],
    /// An array or object, with all that is in it.
    pub inside: Option<NodeId>,
    /// Not free: an array or object that most likely is the same wherever it stands, see `kept.rs`.
    pub same: Option<NodeId>,
}

impl Free {
    fn holds(&self, at: usize, nodes: &[Node]) -> bool {
        self.values.iter().flatten().any(|id| id.index() as usize == at)
            || self.inside.is_some_and(|id| {
                let top = id.index() as usize;
                at > top && nodes.get(top).is_some_and(|node| at < node.behind(id.index()) as usize)
            })
    }
}

/// How a text compares with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alike {
    /// The table could not be kept.
    No,
    /// Some value that is not free differs.
    Shape,
    /// All values that differ are free.
    Sense,
}

/// Whether it is worth comparing: where calls go from tool to tool, looking in vain takes a tenth of the
/// time that parsing takes.
#[derive(Clone, Copy, Default)]
pub(super) struct Patience {
    /// How often in a row the texts were not alike, up to [`ENOUGH`].
    failed: u8,
    /// How many texts are not to be compared.
    rest: u8,
}

const ENOUGH: u8 = 3;

impl Patience {
    /// Whether this text is to be compared.
    #[inline(always)]
    pub(super) fn lasts(&mut self) -> bool {
        let lasts = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        lasts
    }

    /// Learns what came of it. After one failure the next text is passed over, too: it would most likely be
    /// compared with the exception.
    #[inline(always)]
    pub(super) fn learn(&mut self, alike: Alike) {
        self.failed = if alike == Alike::No { ENOUGH.min(self.failed + 1) } else { 0 };
        self.rest = (1 << self.failed) - 1;
    }
}

/// A value that differs.
#[derive(Clone, Copy, Default)]
struct Change {
    node: u32,
    /// Where it ended, and where it ends now.
    was: u32,
    is: u32,
    /// What a number is now, see [`NO_INTEGER`]; 0 for a string.
    number: u32,
}

const NO_INTEGER: u32 = 1;
const INTEGER: u32 = 2;

impl Change {
    /// How far it and those before it move what follows, modulo 2^32.
    fn moves(&self) -> u32 {
        self.is.wrapping_sub(self.was)
    }
}

/// Makes `nodes`, the table of `old`, that of `new`. Where that cannot be done it tells so, and the
/// table is as it was.
pub(super) fn adapt(nodes: &mut [Node], old: &[u8], new: &[u8], free: &Free) -> Alike {
    let mut alike = Alike::Sense;
    let (mut changes, mut changed) = ([Change::default(); MOST], 0);
    // Positions up to which all is settled, and the number of the last node that starts before.
    let (mut o, mut n, mut at) = (0, 0, 0);
    loop {
        let same = common(old.get(o..).unwrap_or_default(), new.get(n..).unwrap_or_default());
        (o, n) = (o + same, n + same);
        if o == old.len() && n == new.len() {
            break;
        }
        at = started(nodes, at, o);
        let Some(before) = at.checked_sub(1) else { return Alike::No };
        let (Some(node), Some(change)) = (nodes.get(before), changes.get_mut(changed)) else {
            return Alike::No;
        };
        let Some((end, number)) = value(*node, old, o, new, n) else { return Alike::No };
        *change = Change { node: before as u32, was: node.end, is: end as u32, number };
        changed += 1;
        (o, n) = (node.end as usize, end);
        if !free.holds(before, nodes) {
            alike = Alike::Shape;
        }
    }
    // A document without nodes has no table that could be kept.
    if nodes.is_empty() {
        return Alike::No;
    }
    apply(nodes, changes.get(..changed).unwrap_or_default());
    alike
}

/// Makes the table that of the text with these changes, which are in the order of the nodes.
fn apply(nodes: &mut [Node], changes: &[Change]) {
    if changes.iter().any(|change| change.moves() != 0) {
        let (mut next, mut moved) = (changes.iter().peekable(), 0u32);
        for (i, node) in nodes.iter_mut().enumerate() {
            if node.is_container() {
                let last = changes.iter().rfind(|change| change.was <= node.end);
                node.end = node.end.wrapping_add(last.map_or(0, Change::moves));
            } else {
                node.end = node.end.wrapping_add(moved);
            }
            node.start = node.start.wrapping_add(moved);
            if let Some(change) = next.next_if(|change| change.node as usize == i) {
                moved = change.moves();
            }
        }
    }
    for change in changes {
        if let Some(node) = nodes.get_mut(change.node as usize) {
            node.end = change.is;
            if change.number != 0 {
                node.set_integer(change.number == INTEGER);
            }
        }
    }
}

/// Reads the value of the same kind that the new text has in the place of `node`, within which the
/// texts differ from `o` and `n` on. Gives its end, and what is to be noted of a number.
#[inline(always)]
fn value(node: Node, old: &[u8], o: usize, new: &[u8], n: usize) -> Option<(usize, u32)> {
    let (start, was) = (node.start as usize, node.end as usize);
    let new_start = (start + n).checked_sub(o)?;
    match node.tag() {
        // Behind its last digit a number may go on.
        NUMBER if o <= was => {
            let (end, integer) = scan::number(new, new_start).ok()?;
            Some((end, if integer { INTEGER } else { NO_INTEGER }))
        }
        // Its opening quote is the same. A name is followed by a colon; what follows in the new text
        // is either the same or another difference, which no value holds.
        STRING if start < o && o < was && scan::solid(old, was).1 != b':' => {
            let quote = scan::plain(new, new_start + 1);
            (byte(new, quote) == b'"').then_some((quote + 1, 0))
        }
        _ => None,
    }
}

/// How many nodes start up to this position; `at` of them do.
#[inline(always)]
fn started(nodes: &[Node], mut at: usize, position: usize) -> usize {
    // Mostly it is one of the next.
    for _ in 0..NEAR {
        match nodes.get(at) {
            Some(node) if node.start as usize <= position => at += 1,
            _ => return at,
        }
    }
    at + nodes.get(at..).unwrap_or_default().partition_point(|node| node.start as usize <= position)
}

const NEAR: usize = 12;

/// How many bytes both begin with.
#[inline(always)]
fn common(a: &[u8], b: &[u8]) -> usize {
    let most = a.len().min(b.len());
    let (Some(a), Some(b)) = (a.get(..most), b.get(..most)) else { return 0 };
    let mut same = 0;
    while let (Some(x), Some(y)) = (a.get(same..same + 32), b.get(same..same + 32)) {
        if x != y {
            break;
        }
        same += 32;
    }
    while let (Some(a), Some(b)) = (scan::word(a, same), scan::word(b, same)) {
        if a != b {
            return same + scan::first(a ^ b);
        }
        same += 8;
    }
    while same < most && byte(a, same) == byte(b, same) {
        same += 1;
    }
    same
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Doc, ParseLimits};
    use super::{Alike, Free};

    #[test]
    fn what_is_looked_for_in_vain_is_looked_for_less_often() {
        let (mut doc, free) = (Doc::default(), Free::default());
        let mut next = |text: &str| doc.parse_next(text.as_bytes(), &LIMITS, &free).unwrap();
        next("[1]");
        let unlike: Vec<_> = (0..40).map(|i| format!("[{}]", "0,".repeat(i % 7 + 1) + "0")).collect();
        unlike.iter().for_each(|text| assert_eq!(next(text), Alike::No));
        // However long that went, a run of texts that are alike is found soon.
        let found = (0..100).position(|i| next(&format!("[\"{i}\"]")) != Alike::No);
        assert!(found.is_some_and(|at| at <= 9), "{found:?}");
        assert!((0..50).all(|i| next(&format!("[\"{i}\"]")) != Alike::No));
        // An exception costs two texts.
        assert_eq!(next("{}"), Alike::No);
        assert_eq!(next("[\"\"]"), Alike::No);
        assert_ne!(next("[\"a\"]"), Alike::No);
    }

    const LIMITS: ParseLimits = ParseLimits { bytes: 400, depth: 6, nodes: 60, unique_names: true };

    /// Parses both texts into one document and the second one into a new document as well; tells
    /// whether the table of the first one served.
    fn next(old: &[u8], new: &[u8]) -> bool {
        let (mut doc, mut fresh) = (Doc::default(), Doc::default());
        let _ = doc.parse_again(old, &LIMITS);
        let free = Free::default();
        let served = super::adapt(&mut doc.nodes.clone(), doc.text.as_bytes(), new, &free) != Alike::No;
        let shown = || format!("{} then {}", String::from_utf8_lossy(old), String::from_utf8_lossy(new));
        let expected = fresh.parse_again(new, &LIMITS);
        for same in ["", "params", "x", "a"] {
            let same = doc.root().get(same).map(|value| value.id());
            let mut doc = doc.clone();
            let result = doc.parse_next(new, &LIMITS, &Free { same, ..free }).map(drop);
            assert_eq!(result, expected, "{}", shown());
            assert_eq!(doc.text, fresh.text);
            assert_eq!(doc.nodes, fresh.nodes, "{}", shown());
            assert_eq!(doc.decoded, fresh.decoded, "{}", shown());
        }
        served
    }

    #[test]
    fn values_of_the_same_kind_may_differ() {
        for (old, new) in [
            (r#"{"id":7,"a":["x",{}]}"#, r#"{"id":7,"a":["x",{}]}"#),
            (r#"{"id":9,"a":["x",{}]}"#, r#"{"id":10,"a":["x",{}]}"#),
            (r#"{"id":10,"a":["x",{}]}"#, r#"{"id":-9.5e1,"a":["",{}]}"#),
            (r#"{"a":"","b":"longer than one word of eight"}"#, r#"{"a":"longer than one word","b":""}"#),
            (r#"["\n",1,"\t"]"#, r#"["\n",22,"\t"]"#),
            ("[1,2,3,4]", "[11,12,13,14]"),
            (" 1 ", " 12 "),
            ("\"\u{e9}\"", "\"\u{e8}\""),
        ] {
            assert!(next(old.as_bytes(), new.as_bytes()), "{old} then {new}");
            assert!(next(new.as_bytes(), old.as_bytes()), "{new} then {old}");
        }
    }

    #[test]
    fn whatever_else_differs_is_parsed() {
        for (old, new) in [
            ("", ""),
            ("[", "["),
            ("1", "01"),
            ("[1,2]", "[12]"),
            ("[1]", "[1 1]"),
            ("[1]", "[\"1\"]"),
            ("[1]", "[1]]"),
            ("[1]", "[1"),
            ("[true]", "[false]"),
            ("[\"a\"]", "[\"\\n\"]"),
            ("[\"\\n\"]", "[\"\\t\"]"),
            ("[\"a\"]", "[\"\u{1}\"]"),
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"a":2}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#"{"a" :1}"#, r#"{"ab" :1}"#),
            (r#"["a","b"]"#, r#"["a":"b"]"#),
        ] {
            assert!(!next(old.as_bytes(), new.as_bytes()), "{old} then {new}");
        }
        // Bytes that are no text are found before.
        next(b"[\"\xc3\xa9\"]", b"[\"\xc3\"]");
    }

    #[test]
    fn only_free_values_keep_the_sense() {
        let old = r#"{"id":1,"p":{"n":"echo","a":{"t":["x",2]},"z":3}}"#;
        for (new, expected) in [
            (r#"{"id":1,"p":{"n":"echo","a":{"t":["x",2]},"z":3}}"#, Alike::Sense),
            (r#"{"id":77,"p":{"n":"echo","a":{"t":["longer",-4]},"z":3}}"#, Alike::Sense),
            (r#"{"id":77,"p":{"n":"ecko","a":{"t":["x",2]},"z":3}}"#, Alike::Shape),
            (r#"{"id":1,"p":{"n":"echo","a":{"t":["x",2]},"z":4}}"#, Alike::Shape),
            (r#"{"id":1,"p":{"n":"echo","a":{"t":["x",2]},"y":3}}"#, Alike::No),
            (r#"{"id":"1","p":{"n":"echo","a":{"t":["x",2]},"z":3}}"#, Alike::No),
        ] {
            let mut doc = Doc::default();
            doc.parse_again(old.as_bytes(), &LIMITS).unwrap();
            let at = |pointer| doc.root().pointer(pointer).map(|value| value.id());
            let free = Free { values: [at("/id"), None], inside: at("/p/a"), same: at("/p") };
            assert_eq!(doc.parse_next(new.as_bytes(), &LIMITS, &free), Ok(expected), "{new}");
            assert_eq!(doc.text(), new);
        }
    }

    /// Whatever a text becomes, the table that served is the one a parser makes.
    #[test]
    fn the_table_is_that_of_the_parser() {
        let start = br#"{"jsonrpc":"2.0","id":1,"params":{"n":[-1.5,2e3,"\u00e9"],"t":"text"},"x":[[{}]]}"#;
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move |most: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 33) as usize % most
        };
        let (mut served, mut old) = (0, start.to_vec());
        for _ in 0..60_000 {
            let mut new = old.clone();
            for _ in 0..=random(3) {
                let at = random(new.len());
                let byte = b"0123456789e.-\"\\,:[]{} aZ\xc3\xa9\x01"[random(26)];
                match random(6) {
                    0 => new.insert(at, byte),
                    1 if new.len() > 1 => drop(new.remove(at)),
                    2 if new[at].is_ascii_digit() => new.splice(at..at, *b"17").for_each(drop),
                    3 => new[at] = byte,
                    _ if new[at].is_ascii_digit() => new[at] = b'0' + random(10) as u8,
                    _ => {}
                }
            }
            served += u32::from(next(&old, &new));
            // Mostly from a text that is JSON, sometimes from a longer chain of changes.
            old = if random(8) == 0 || Doc::parse(&new).is_err() { start.to_vec() } else { new };
        }
        assert!(served > 10_000, "{served}");
    }
}
