//! Random and mutated texts, compared with serde_json.
//!
//! Each text is generated from its number, which a failure prints. `TEST_FUZZ=10000000 cargo test
//! --release --test data json::random` sets the number of texts, `TEST_FUZZ_FROM` the first number.

use std::collections::HashSet;

use tinymcp::json::{Doc, ErrorKind, Json, Kind, ParseLimits, Value, Writer};

/// The default depth of serde_json.
const LIMITS: ParseLimits = ParseLimits { depth: 127, ..ParseLimits::UNBOUNDED };

/// SplitMix64 random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A valid text with about `size` values.
fn generate(r: &mut Random, text: &mut String, mut size: usize) {
    // Closing brackets of open containers.
    let mut open = String::new();
    space(r, text);
    loop {
        size = size.saturating_sub(1);
        if size > 0 && open.len() < 100 && r.one_in(3) {
            let object = r.one_in(2);
            text.push(if object { '{' } else { '[' });
            space(r, text);
            open.push(if object { '}' } else { ']' });
            if !r.one_in(8) {
                if object {
                    name(r, text);
                }
                continue;
            }
            text.push(open.pop().unwrap());
        } else {
            scalar(r, text);
        }
        loop {
            space(r, text);
            let Some(close) = open.chars().last() else {
                return;
            };
            if size > 0 && !r.one_in(4) {
                text.push(',');
                space(r, text);
                if close == '}' {
                    name(r, text);
                }
                break;
            }
            text.push(close);
            open.pop();
        }
    }
}

fn space(r: &mut Random, text: &mut String) {
    match r.below(12) {
        0 => text.push(' '),
        1 => text.push_str(r.pick(&["\n", "\t", "\r\n", "  ", " \n "])),
        2 => {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', r.below(20)));
        }
        _ => {}
    }
}

fn name(r: &mut Random, text: &mut String) {
    if r.one_in(2) {
        let often = ["id", "a", "b", "name", "arguments", "\\u0061", "a_longer_name_1", "a_longer_name_2"];
        let name = r.pick(&often);
        text.push_str(&format!("\"{name}\""));
    } else {
        string(r, text);
    }
    space(r, text);
    text.push(':');
    space(r, text);
}

fn scalar(r: &mut Random, text: &mut String) {
    match r.below(8) {
        0 => text.push_str(r.pick(&["null", "true", "false"])),
        1..=3 => number(r, text),
        _ => string(r, text),
    }
}

fn number(r: &mut Random, text: &mut String) {
    let edges = [
        "0",
        "-0",
        "1",
        "-1",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "1e308",
        "1.8e308",
        "5e-324",
        "2.4703282292062327e-324",
        "0.1",
        "1e23",
        "9007199254740993",
        "1E+2",
        "1e-7",
        "2.2250738585072011e-308",
        "123456789012345678901234567890",
        "0e0",
        "1.0",
        "-0.0",
    ];
    if r.one_in(3) {
        text.push_str(r.pick(&edges));
        return;
    }
    let digits = |r: &mut Random, text: &mut String, most: usize| {
        for _ in 0..1 + r.below(most) {
            text.push(char::from(b'0' + r.below(10) as u8));
        }
    };
    if r.one_in(3) {
        text.push('-');
    }
    if r.one_in(4) {
        text.push('0');
    } else {
        text.push(char::from(b'1' + r.below(9) as u8));
        if r.one_in(2) {
            digits(r, text, 20);
        }
    }
    if r.one_in(3) {
        text.push('.');
        digits(r, text, 25);
    }
    if r.one_in(4) {
        text.push_str(r.pick(&["e", "E", "e+", "e-", "E+", "E-"]));
        digits(r, text, 3);
    }
}

fn string(r: &mut Random, text: &mut String) {
    text.push('"');
    let most = r.pick(&[0, 3, 8, 12, 40, 100]);
    for _ in 0..r.below(most + 1) {
        match r.below(40) {
            0 => text.push_str(r.pick(&["\\\"", "\\\\", "\\/", "\\b", "\\f", "\\n", "\\r", "\\t"])),
            1 => text.push_str(r.pick(&["\\u0041", "\\u00E9", "\\u20ac", "\\u0000", "\\uFFFF"])),
            2 => text.push_str("\\ud83d\\ude00"),
            3 => text.push(r.pick(&['é', '日', '😀', '\u{7f}', '\u{2028}', '\u{10ffff}'])),
            4 => text.push(r.pick(&['{', '}', '[', ']', ',', ':', '/', '\'', ' '])),
            _ => text.push(char::from(b'a' + r.below(26) as u8)),
        }
    }
    text.push('"');
}

/// Mutates a text, mostly slightly.
fn mutate(r: &mut Random, text: &mut Vec<u8>) {
    let bytes = b"{}[]\",:\\/ \n\t\r019-+.eEtfnu\x00\x1f\x7f\x80\xc3\xed\xff";
    for _ in 0..1 + r.below(3) {
        if text.is_empty() {
            return;
        }
        let at = r.below(text.len());
        match r.below(7) {
            0 => text[at] ^= 1 << r.below(8),
            1 => text[at] = r.pick(bytes),
            2 => text.insert(at, r.pick(bytes)),
            3 => {
                text.remove(at);
            }
            4 => text.truncate(at),
            5 => {
                let to = text.len().min(at + r.below(8));
                let part = text[at..to].to_vec();
                let into = r.below(text.len());
                text.splice(into..into, part);
            }
            _ => {
                let to = text.len().min(at + r.below(8));
                text.drain(at..to);
            }
        }
    }
}

/// Compares a value with serde_json's; both are at most 127 deep.
fn same(ours: Value<'_>, theirs: &serde_json::Value) {
    use serde_json::Value as Theirs;
    match theirs {
        Theirs::Null => assert!(ours.is_null()),
        Theirs::Bool(b) => assert_eq!(ours.as_bool(), Some(*b)),
        Theirs::Number(n) => {
            assert_eq!(ours.as_i64(), n.as_i64());
            assert_eq!(ours.as_u64(), n.as_u64());
            let bits = |f: Option<f64>| f.map(f64::to_bits);
            assert_eq!(bits(ours.as_f64()), bits(n.as_f64()));
            assert_eq!(ours.as_number(), Some(ours.raw()));
        }
        Theirs::String(s) => assert_eq!(ours.as_str(), Some(s.as_str())),
        Theirs::Array(items) => {
            assert_eq!((ours.kind(), ours.len()), (Kind::Array, items.len()));
            assert_eq!(ours.items().len(), items.len());
            for (i, (ours_item, theirs_item)) in ours.items().zip(items).enumerate() {
                same(ours_item, theirs_item);
                assert_eq!(ours.index(i).map(Value::id), Some(ours_item.id()));
            }
        }
        Theirs::Object(members) => {
            assert_eq!(ours.kind(), Kind::Object);
            let names: HashSet<&str> = ours.members().map(|(name, _)| name).collect();
            assert_eq!(names.len(), members.len());
            for (name, value) in members {
                same(ours.get(name).expect("a member of this name"), value);
            }
        }
    }
}

/// Whether an object has two members with the same name.
fn repeats(v: Value<'_>) -> bool {
    let mut names = HashSet::new();
    v.members().any(|(name, _)| !names.insert(name))
        || v.members().any(|(_, value)| repeats(value))
        || v.items().any(repeats)
}

/// Writes the value again, member by member.
fn rewrite(v: Value<'_>, w: &mut Writer) {
    match v.kind() {
        Kind::Array => {
            w.begin_array();
            v.items().for_each(|item| rewrite(item, w));
            w.end_array();
        }
        Kind::Object => {
            w.begin_object();
            for (name, value) in v.members() {
                w.key(name);
                rewrite(value, w);
            }
            w.end_object();
        }
        Kind::String => {
            w.string(v.as_str().unwrap());
        }
        Kind::Null | Kind::Bool | Kind::Number => {
            w.value(v);
        }
    }
}

struct Checker {
    doc: Doc,
    other: Doc,
    text: String,
}

impl Checker {
    fn check(&mut self, number: u64) {
        let mut r = Random(number);
        self.text.clear();
        let size = 1 + r.below(24);
        generate(&mut r, &mut self.text, size);
        let mut bytes = self.text.clone().into_bytes();
        if r.one_in(2) {
            mutate(&mut r, &mut bytes);
        } else {
            self.doc.parse_again(&bytes, &LIMITS).expect("generated by the grammar");
        }
        let theirs = serde_json::from_slice::<serde_json::Value>(&bytes);
        let ours = self.doc.parse_again(&bytes, &LIMITS);
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{ours:?} {theirs:?}");
        match (ours, theirs) {
            (Ok(()), Ok(theirs)) => self.check_accepted(&bytes, &theirs, &mut r),
            (Err(e), _) => assert!(e.offset() <= bytes.len()),
            _ => {}
        }
    }

    fn check_accepted(&mut self, bytes: &[u8], theirs: &serde_json::Value, r: &mut Random) {
        let root = self.doc.root();
        same(root, theirs);
        assert_eq!(self.doc.text().as_bytes(), bytes);
        // The text of any node is a valid text, at its offset.
        let mut at = root;
        while !at.is_empty() && !r.one_in(4) {
            let n = r.below(at.len());
            at = at.index(n).or_else(|| at.members().nth(n).map(|(_, v)| v)).unwrap();
        }
        assert!(self.doc.text()[at.offset()..].starts_with(at.raw()));
        self.other.parse_again(at.raw().as_bytes(), &LIMITS).unwrap();
        assert_eq!(self.other.root().kind(), at.kind());
        // Writing and reading the values again gives the same values.
        let mut w = Writer::new();
        rewrite(root, &mut w);
        let mut frame = w.into_bytes();
        self.other.parse_taking(&mut frame, &LIMITS).unwrap();
        same(self.other.root(), theirs);
        let unique = ParseLimits { unique_names: true, ..LIMITS };
        let strict = self.other.parse_again(bytes, &unique).map_err(|e| e.kind());
        let expected = if repeats(root) { Err(ErrorKind::DuplicateName) } else { Ok(()) };
        assert_eq!(strict, expected);
        if strict.is_ok() {
            same(self.other.root(), theirs);
        }
        // A constant is never freed, so only some texts become one.
        if r.one_in(64) {
            let text: &'static str = self.doc.text().to_owned().leak();
            assert_eq!(Json::constant(text).as_str(), text);
        }
    }
}

#[test]
fn random_texts_are_read_as_serde_json_reads_them() {
    let variable = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let from = variable("TEST_FUZZ_FROM").unwrap_or(0);
    let count = variable("TEST_FUZZ").unwrap_or(100_000);
    let mut checker = Checker { doc: Doc::default(), other: Doc::default(), text: String::new() };
    for number in from..from + count {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            checker.check(number);
        }));
        assert!(caught.is_ok(), "text number {number}: {}", checker.text);
    }
}
