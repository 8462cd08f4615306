//! Limits of the parser, each at its boundary, and expensive inputs.

use std::time::{Duration, Instant};

use tinymcp::json::{Doc, ErrorKind, Json, NodeId, ParseError, ParseLimits, Writer};

const UNBOUNDED: ParseLimits = ParseLimits::UNBOUNDED;
const UNIQUE: ParseLimits = ParseLimits { unique_names: true, ..UNBOUNDED };

fn refusal(text: &str, limits: &ParseLimits) -> Option<(ErrorKind, usize)> {
    let refused = Doc::default().parse_again(text.as_bytes(), limits).err();
    refused.map(|e| (e.kind(), e.offset()))
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let limits = ParseLimits::default();
    assert_eq!((limits.bytes, limits.depth, limits.nodes), (4 << 20, 128, 1_000_000));
    assert!(!limits.unique_names && !UNBOUNDED.unique_names);
}

#[test]
fn errors_are_small() {
    assert!(size_of::<ParseError>() <= 16);
    assert!(size_of::<Result<(), ParseError>>() <= 16);
    assert_eq!(size_of::<NodeId>(), 4);
}

#[test]
fn bytes_are_counted_with_whitespace() {
    let limits = ParseLimits { bytes: 6, ..UNBOUNDED };
    assert_eq!(refusal("[1,2] ", &limits), None);
    assert_eq!(refusal("[1,2]  ", &limits), Some((ErrorKind::Bytes, 6)));
    // The size is checked first.
    assert_eq!(refusal("nonsense", &limits), Some((ErrorKind::Bytes, 6)));
    let mut frame = b"[1,2]  ".to_vec();
    let e = Doc::default().parse_taking(&mut frame, &limits).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Bytes);
    assert!(frame.is_empty());
}

#[test]
fn depth_counts_open_arrays_and_objects() {
    for depth in [0, 1, 2, 128, 1000] {
        let limits = ParseLimits { depth: depth as u32, ..UNBOUNDED };
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let nested = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
            assert_eq!(refusal(&nested(depth), &limits), None);
            assert_eq!(refusal(&nested(depth + 1), &limits), Some((ErrorKind::Depth, depth * open.len())));
        }
    }
    // Wide documents are not deep.
    let limits = ParseLimits { depth: 2, ..UNBOUNDED };
    assert_eq!(refusal("[[],[],{},{\"a\":1},[]]", &limits), None);
}

#[test]
fn nodes_are_values_and_names() {
    for (text, nodes) in [("1", 1), ("[]", 1), ("[1,2,3]", 4), ("{\"a\":1,\"b\\n\":[2]}", 6)] {
        let exact = ParseLimits { nodes, ..UNBOUNDED };
        let short = ParseLimits { nodes: nodes - 1, ..UNBOUNDED };
        assert_eq!(refusal(text, &exact), None, "{text}");
        assert_eq!(refusal(text, &short).map(|(kind, _)| kind), Some(ErrorKind::Nodes));
    }
    let four = ParseLimits { nodes: 4, ..UNBOUNDED };
    assert_eq!(refusal("[1,2,3,4]", &four), Some((ErrorKind::Nodes, 7)));
}

#[test]
fn a_document_that_was_larger_keeps_to_the_smaller_limit() {
    let mut doc = Doc::default();
    let long = format!("[{}1]", "1,".repeat(5000));
    doc.parse_again(long.as_bytes(), &UNBOUNDED).unwrap();
    for nodes in [100, 99] {
        let limits = ParseLimits { nodes, ..UNBOUNDED };
        let text = format!("[{}1]", "1,".repeat(98));
        let parsed = doc.parse_again(text.as_bytes(), &limits);
        assert_eq!(parsed.is_ok(), nodes == 100);
    }
}

#[test]
fn nesting_costs_no_stack() {
    // A thread with less stack than one word for each of a million levels.
    let thread = std::thread::Builder::new().stack_size(128 << 10);
    let nested = thread.spawn(|| {
        let n = 1_000_000;
        let mut doc = Doc::default();
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{}0{}", open.repeat(n), close.repeat(n));
            doc.parse_again(text.as_bytes(), &UNIQUE).unwrap();
            let mut depth = 0;
            let mut at = doc.root();
            while let Some(inner) = at.index(0).or_else(|| at.get("a")) {
                at = inner;
                depth += 1;
            }
            assert_eq!((depth, at.raw()), (n, "0"));
            assert_eq!(doc.root().raw(), text);
            let mut w = Writer::new();
            w.value(doc.root());
            assert_eq!(w.len(), text.len());
            assert_eq!(Json::parse(text).unwrap().to_doc().root().len(), 1);
            assert!(format!("{:?}", doc.root()).len() < 300);
            for unclosed in [open.repeat(n), close.repeat(n), "[{\"a\":".repeat(n)] {
                assert!(doc.parse_again(unclosed.as_bytes(), &UNBOUNDED).is_err());
                assert!(doc.parse_again(unclosed.as_bytes(), &ParseLimits::default()).is_err());
            }
        }
        drop(doc);
    });
    nested.unwrap().join().unwrap();
}

fn duplicate(text: &str) -> Option<usize> {
    refusal(text, &UNIQUE).map(|(kind, offset)| {
        assert_eq!(kind, ErrorKind::DuplicateName, "{text}");
        offset
    })
}

#[test]
fn duplicate_names_are_refused_at_the_second_one() {
    for (text, offset) in [
        (r#"{"a":1,"a":2}"#, Some(7)),
        (r#"{"a":1,"b":2}"#, None),
        (r#"{"":1,"":2}"#, Some(6)),
        (r#"{"a":1,"b":2,"b":3,"a":4}"#, Some(13)),
        (r#"{"a":1,"\u0061":2}"#, Some(7)),
        (r#"{"\u0061":1,"a":2}"#, Some(12)),
        (r#"{"\n":1,"\u000a":2}"#, Some(8)),
        (r#"{"a":{"a":{"a":1}}}"#, None),
        (r#"[{"a":1},{"a":2}]"#, None),
        (r#"{"a":{"b":1,"c":2},"b":3,"c":4}"#, None),
        (r#"{"x":{"a":1,"a":2}}"#, Some(12)),
        (r#"{"a":[1,{"b":2}],"c":{},"a":3}"#, Some(24)),
        // Names that a hash of a few bytes could confuse.
        (r#"{"abcdefgh_1_ijklmnop":1,"abcdefgh_2_ijklmnop":2}"#, None),
        (r#"{"abcdefgh_1_ijklmnop":1,"abcdefgh_1_ijklmnop":2}"#, Some(25)),
        (r#"{"a":1,"a\u0000":2,"a\u0000\u0000":3}"#, None),
        (r#"{"abcdefgh":1,"abcdefg":2,"abcdefghi":3}"#, None),
    ] {
        assert_eq!(duplicate(text), offset, "{text}");
    }
}

/// An object of these names, each with a small value.
fn object(names: impl Iterator<Item = String>) -> String {
    let mut w = Writer::new();
    w.begin_object();
    for name in names {
        w.key(&name).u64(1);
    }
    w.end_object();
    w.into_json().as_str().to_owned()
}

#[test]
fn any_number_of_names_is_checked() {
    for n in [2, 3, 16, 63, 64, 65, 66, 100, 1000] {
        let names: Vec<String> = (0..n).map(|i| format!("name {i}")).collect();
        assert_eq!(duplicate(&object(names.iter().cloned())), None, "{n}");
        for (first, second) in [(0, n - 1), (n - 2, n - 1), (0, 1)] {
            let mut twice = names.clone();
            twice[second] = twice[first].clone();
            let text = object(twice.iter().cloned());
            let needle = format!("\"{}\"", twice[second]);
            assert_eq!(duplicate(&text), text.rfind(&needle), "{n} {first} {second}");
        }
    }
}

#[test]
fn hostile_names_cost_no_more_than_sorting() {
    // Plain numbers, and names with equal first and last bytes and lengths.
    let plain = |i: u32| i.to_string();
    let alike = |i: u32| format!("aaaaaaaa{i:06}bbbbbbbb");
    let start = Instant::now();
    for name in [&plain as &dyn Fn(u32) -> String, &alike] {
        assert_eq!(duplicate(&object((0..64_000).map(name))), None);
        let last = 64_000 - 1;
        let text = object((0..64_000).map(|i| name(if i == last { 7 } else { i })));
        assert_eq!(duplicate(&text), text.rfind(&format!("\"{}\"", name(7))));
    }
    // Comparing all pairs would take minutes in a test build. Under emulation, on a machine with
    // other work, this takes up to half a minute.
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn long_strings_are_cheap_whatever_is_in_them() {
    let start = Instant::now();
    let n = 1 << 17;
    for inside in ["a", "\\n", "\\u00e9", "é", "\\ud83d\\ude00", "a\\\"", "日本"] {
        let text = format!("\"{}\"", inside.repeat(n));
        let mut doc = Doc::default();
        doc.parse_again(text.as_bytes(), &UNBOUNDED).unwrap();
        let decoded = doc.root().as_str().unwrap();
        assert_eq!(decoded.chars().count() % n, 0);
        assert_eq!(refusal(&text[..text.len() - 1], &UNBOUNDED).map(|e| e.0), Some(ErrorKind::UnexpectedEnd));
    }
    assert!(start.elapsed() < Duration::from_secs(20));
}
