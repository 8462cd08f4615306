//! The json module as its users see it: reading, writing, finished text.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use tinymcp::json::{self, Doc, ErrorKind, Json, Kind, NodeId, ParseLimits, Writer};

fn fails(text: &str) -> (ErrorKind, usize) {
    let e = Doc::parse(text).expect_err(text);
    (e.kind(), e.offset())
}

#[test]
fn a_document_reads_back_as_written() {
    let text = r#" {"a":1, "b":[true,null,{"c":"x\ny"}],"":-1.5e3 ,"d":{}} "#;
    let doc = Doc::parse(text).unwrap();
    let root = doc.root();
    assert_eq!(doc.text(), text);
    assert_eq!(root.raw(), text.trim());
    assert_eq!((root.kind(), root.len(), root.offset()), (Kind::Object, 4, 1));
    assert_eq!(root.get("a").unwrap().as_i64(), Some(1));
    let b = root.get("b").unwrap();
    assert_eq!(b.raw(), r#"[true,null,{"c":"x\ny"}]"#);
    assert_eq!(b.index(0).unwrap().as_bool(), Some(true));
    assert!(b.index(1).unwrap().is_null());
    assert_eq!(b.index(2).unwrap().get("c").unwrap().as_str(), Some("x\ny"));
    assert!(b.index(3).is_none());
    assert_eq!(root.get("").unwrap().as_f64(), Some(-1500.0));
    assert!(root.get("d").unwrap().is_empty());
    let names: Vec<&str> = root.members().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b", "", "d"]);
    assert_eq!(root.pointer("/b/2/c").unwrap().as_str(), Some("x\ny"));
    assert_eq!(doc.at(b.id()).raw(), b.raw());
}

#[test]
fn the_empty_document_is_null() {
    let doc = Doc::default();
    assert!(doc.root().is_null());
    assert_eq!((doc.text(), doc.root().raw()), ("null", "null"));
    assert!(doc.at(NodeId::ROOT).is_null());
}

#[test]
fn errors_say_what_and_where() {
    assert_eq!(fails(""), (ErrorKind::Empty, 0));
    assert_eq!(fails("[1"), (ErrorKind::UnexpectedEnd, 2));
    assert_eq!(fails(r#"{"a" 1}"#), (ErrorKind::ExpectedColon, 5));
    assert_eq!(fails("[1 2]"), (ErrorKind::ExpectedComma, 3));
    assert_eq!(fails("{1}"), (ErrorKind::ExpectedName, 1));
    assert_eq!(fails("1 2"), (ErrorKind::Trailing, 2));
    assert_eq!(fails(r#"["\ud800"]"#), (ErrorKind::LoneSurrogate, 2));
}

#[test]
fn duplicate_names_follow_the_limits() {
    let text = br#"{"a":1,"b":2,"\u0061":3}"#;
    let mut doc = Doc::parse(text).unwrap();
    assert_eq!(doc.root().get("a").unwrap().as_i64(), Some(3));
    let unique = ParseLimits { unique_names: true, ..ParseLimits::default() };
    let e = doc.parse_again(text, &unique).unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::DuplicateName, 13));
    assert!(doc.root().is_null());
}

#[test]
fn taking_swaps_the_buffers() {
    let mut doc = Doc::parse("[1,2,3,4]").unwrap();
    let mut frame = b"{\"a\":1}".to_vec();
    doc.parse_taking(&mut frame, &ParseLimits::default()).unwrap();
    assert_eq!(doc.text(), "{\"a\":1}");
    assert!(frame.is_empty() && frame.capacity() >= 9);
}

#[test]
fn the_macro_writes_what_it_shows() {
    let map = BTreeMap::from([("k".to_owned(), 1.5)]);
    let text = String::from("q\"");
    let made = tinymcp::json!({
        "a": 1, "b": [true, null, (1 + 1), -2], "c": text, "d": {}, "e": map,
        "f": Some(3u8), "g": None::<bool>, (format!("h{}", 1)): [[], [1,],],
    });
    assert_eq!(
        made.as_str(),
        r#"{"a":1,"b":[true,null,2,-2],"c":"q\"","d":{},"e":{"k":1.5},"f":3,"g":null,"h1":[[],[1]]}"#
    );
    assert_eq!(tinymcp::json!(null), Json::NULL);
}

#[test]
fn the_writer_places_commas_and_escapes() {
    let mut w = Writer::new();
    w.begin_object().key("a\u{1}").string("\"\\\u{8}é").key("n");
    w.begin_array().i64(i64::MIN).u64(u64::MAX).f64(f64::NAN);
    w.string_fmt(format_args!("{}\n", 1))
        .end_array()
        .raw_members("")
        .raw_members(r#""x":1"#)
        .end_object()
        .newline()
        .null();
    assert_eq!(
        w.as_str(),
        "{\"a\\u0001\":\"\\\"\\\\\\bé\",\"n\":[-9223372036854775808,18446744073709551615,null,\"1\\n\"],\"x\":1}\nnull"
    );
}

#[test]
fn constants_are_checked() {
    const OK: Json = Json::constant(r#"{"a":[1,-0.5e+1,"\ud83d\ude00",{}],"b":null}"#);
    assert_eq!(OK.to_doc().root().pointer("/a/2").unwrap().as_str(), Some("😀"));
    for wrong in ["", "[1,]", "{\"a\"}", "01", "\"\\ud800\"", "1 2"] {
        let wrong: &'static str = wrong;
        assert!(std::panic::catch_unwind(|| json::Json::constant(wrong)).is_err());
    }
}
