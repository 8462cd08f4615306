//! Conversion of types that derive miniserde's traits.

use std::collections::BTreeMap;

use miniserde::{Deserialize, Serialize};
use tinymcp::json::{Doc, ParseLimits, TypedError, Writer, from_value, to_writer};

#[derive(Deserialize, Serialize, Debug, PartialEq)]
struct Reading {
    name: String,
    address: u8,
    offset: i64,
    scale: f64,
    tags: Vec<String>,
    note: Option<String>,
    limits: BTreeMap<String, Range>,
    #[serde(rename = "read/only~")]
    read_only: bool,
}

#[derive(Deserialize, Serialize, Debug, PartialEq)]
struct Range {
    low: i32,
    high: u64,
}

#[derive(Deserialize, Serialize, Debug)]
struct Chain {
    next: Option<Box<Chain>>,
}

const TEXT: &str = r#"{"name":"t\u00e9mp\n","address":118,"offset":-9223372036854775808,"scale":0.1,"tags":["a","\"b\""],"note":null,"limits":{"x":{"low":-1,"high":18446744073709551615}},"read/only~":true}"#;

fn read(text: &str) -> Result<Reading, TypedError> {
    from_value(Doc::parse(text).unwrap().root())
}

#[test]
fn a_type_survives_the_way_there_and_back() {
    let reading = read(TEXT).unwrap();
    assert_eq!(reading.name, "témp\n");
    assert_eq!((reading.address, reading.offset, reading.scale), (118, i64::MIN, 0.1));
    assert_eq!(reading.tags, ["a", "\"b\""]);
    assert_eq!(reading.limits["x"], Range { low: -1, high: u64::MAX });
    let mut w = Writer::new();
    w.begin_array();
    to_writer(&mut w, &reading);
    to_writer(&mut w, "s");
    w.end_array();
    assert_eq!(w.as_str(), format!("[{},\"s\"]", TEXT.replace("\\u00e9", "é")));
    // The result must equal miniserde's own.
    assert_eq!(miniserde::json::from_str::<Reading>(TEXT).unwrap(), reading);
}

#[test]
fn the_first_value_that_does_not_fit_is_named() {
    let rows = [
        ("\"name\":\"t\\u00e9mp\\n\"", "\"name\":1", "/name"),
        ("\"address\":118", "\"address\":256", "/address"),
        ("\"address\":118", "\"address\":-1", "/address"),
        ("\"address\":118", "\"address\":1.0", "/address"),
        ("\"address\":118", "\"address\":18446744073709551616", "/address"),
        ("\"scale\":0.1", "\"scale\":1e400", "/scale"),
        ("[\"a\",\"\\\"b\\\"\"]", "[\"a\",[]]", "/tags/1"),
        ("[\"a\",\"\\\"b\\\"\"]", "{}", "/tags"),
        ("\"low\":-1", "\"low\":null", "/limits/x/low"),
        ("\"low\":-1,", "", "/limits/x"),
        ("\"read/only~\":true", "\"read/only~\":[]", "/read~1only~0"),
        ("\"offset\":-9223372036854775808,", "", ""),
    ];
    for (was, is, pointer) in rows {
        let text = TEXT.replace(was, is);
        assert_ne!(text, TEXT);
        let e = read(&text).unwrap_err();
        assert_eq!(e.pointer(), pointer, "{text}");
    }
    let shown = |text: &str| read(text).unwrap_err().to_string();
    assert_eq!(shown("[]"), "the value does not match its type");
    assert_eq!(shown("{\"name\":1}"), "the value at /name does not match its type");
}

#[test]
fn numbers_keep_their_kind() {
    let floats: Vec<f64> = from_value(Doc::parse("[1,-1,0.5,1e2,-0.0]").unwrap().root()).unwrap();
    assert_eq!(floats, [1.0, -1.0, 0.5, 100.0, 0.0]);
    assert!(floats[4].is_sign_negative());
    let zero: i32 = from_value(Doc::parse("-0").unwrap().root()).unwrap();
    assert_eq!(zero, 0);
    let members = r#"{"unknown":{"a":[1,{}]},"low":1,"also":"\n","high":2}"#;
    let range: Range = from_value(Doc::parse(members).unwrap().root()).unwrap();
    assert_eq!(range, Range { low: 1, high: 2 });
}

fn chain(links: usize) -> String {
    format!("{}{{\"next\":null}}{}", "{\"next\":".repeat(links - 1), "}".repeat(links - 1))
}

#[test]
fn depth_is_bounded_when_reading() {
    // The bound must hold on a small stack. Dropping a short chain is up to the type.
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let bounded = thread.spawn(|| {
        let mut doc = Doc::default();
        doc.parse_again(chain(128).as_bytes(), &ParseLimits::default()).unwrap();
        assert!(from_value::<Chain>(doc.root()).is_ok());
        for links in [129, 100_000] {
            doc.parse_again(chain(links).as_bytes(), &ParseLimits::UNBOUNDED).unwrap();
            let e = from_value::<Chain>(doc.root()).unwrap_err();
            assert_eq!(e.pointer(), "/next".repeat(128));
        }
    });
    bounded.unwrap().join().unwrap();
}

#[test]
fn any_depth_is_written() {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let written = thread.spawn(|| {
        for links in [1, 127, 128, 129, 130, 1000] {
            let mut top = Chain { next: None };
            for _ in 1..links {
                top = Chain { next: Some(Box::new(top)) };
            }
            let mut w = Writer::new();
            w.begin_array();
            to_writer(&mut w, &top);
            to_writer(&mut w, &true);
            w.end_array();
            assert_eq!(w.as_str(), format!("[{},true]", chain(links)));
        }
    });
    written.unwrap().join().unwrap();
}
