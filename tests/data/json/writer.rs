//! Writing: the writer, finished text, the macro and the writable types.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tinymcp::json;
use tinymcp::json::{Doc, ErrorKind, Json, ToJson, Writer};

/// The text that these calls write; it must be valid.
fn written(calls: impl FnOnce(&mut Writer)) -> String {
    let mut w = Writer::new();
    calls(&mut w);
    let text = w.as_str().to_owned();
    assert!(Doc::parse(&text).is_ok(), "{text}");
    assert_eq!((w.as_bytes(), w.len()), (text.as_bytes(), text.len()));
    text
}

#[test]
fn commas_stand_between_items_and_nowhere_else() {
    let text = written(|w| {
        w.begin_object();
        w.key("a").begin_array().end_array();
        w.key("b").begin_array().null().bool(true).bool(false).end_array();
        w.key("c").begin_object().end_object();
        w.key("d").begin_array().begin_array().end_array().begin_object().end_object().i64(1);
        w.end_array().key("e").string("").end_object();
    });
    assert_eq!(text, r#"{"a":[],"b":[null,true,false],"c":{},"d":[[],{},1],"e":""}"#);
}

#[test]
fn spliced_text_takes_part_in_the_commas() {
    let doc = Doc::parse(r#"{"x":[1, 2],"y":1.50}"#).unwrap();
    let text = written(|w| {
        w.begin_object().raw_members("").raw_members(r#""p":1,"q":2"#).raw_members("");
        w.key("x").value(doc.root().get("x").unwrap());
        w.raw_members(r#""r":3"#).key("y").begin_array();
        w.json(&Json::constant("{ }")).raw("7").value(doc.root().get("y").unwrap());
        w.end_array().raw_open(r#""z":["#).i64(1).i64(2).end_array().end_object();
    });
    assert_eq!(text, r#"{"p":1,"q":2,"x":[1, 2],"r":3,"y":[{ },7,1.50],"z":[1,2]}"#);
}

#[test]
fn only_necessary_escapes_are_written() {
    for c in (0..0x300).chain([0x2028, 0xd7ff, 0xe000, 0xffff, 0x1f600, 0x10ffff]) {
        let c = char::from_u32(c).unwrap();
        // At all positions in a word of eight bytes.
        for before in 0..20 {
            let s = format!("{}{c}é{c}{}", "a".repeat(before), "b".repeat(20 - before));
            let text = written(|w| {
                w.begin_array().string(&s).string_fmt(format_args!("{s}")).end_array();
            });
            let doc = Doc::parse(&text).unwrap();
            assert_eq!(doc.root().index(0).unwrap().as_str(), Some(s.as_str()));
            assert_eq!(doc.root().index(1).unwrap().as_str(), Some(s.as_str()));
            let escaped = c < ' ' || c == '"' || c == '\\';
            assert_eq!(text.contains('\\'), escaped, "{text}");
        }
    }
    let text = written(|w| {
        w.string("\u{0}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/\u{7f}");
    });
    assert_eq!(text, "\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f\\\"\\\\/\u{7f}\"");
}

#[test]
fn integers_are_written_as_they_are() {
    let mut numbers: Vec<u64> = vec![0, u64::MAX, i64::MAX as u64, 1 << 63];
    for digits in 0..20 {
        let power = 10u64.pow(digits);
        numbers.extend([power - 1, power, power + 1, power.saturating_mul(9)]);
    }
    for n in numbers {
        assert_eq!(written(|w| n.write_json(w)), n.to_string());
        let signed = n as i64;
        assert_eq!(written(|w| signed.write_json(w)), signed.to_string());
        assert_eq!(written(|w| signed.wrapping_neg().write_json(w)), signed.wrapping_neg().to_string());
    }
}

#[test]
fn floats_read_back_the_same() {
    for f in [0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e21, 1e300, -1e-7, f64::MAX, f64::MIN_POSITIVE, 5e-324] {
        let text = written(|w| f.write_json(w));
        let back = Doc::parse(&text).unwrap().root().as_f64().unwrap();
        assert_eq!(back.to_bits(), f.to_bits(), "{text}");
        assert!(text.len() < 26, "{text}");
    }
    for f in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(written(|w| f.write_json(w)), "null");
    }
    assert_eq!(written(|w| 0.1f32.write_json(w)), "0.1");
    assert_eq!(written(|w| f32::NAN.write_json(w)), "null");
}

#[test]
fn a_line_is_one_frame_whatever_was_spliced_into_it() {
    let pretty = Json::constant("{\n  \"a\": \"x\\ny\",\r\n\t\"b\": [\n1]\n}");
    let mut w = Writer::new();
    w.begin_object().key("p").json(&pretty).end_object().newline();
    w.i64(2).newline();
    w.raw("[\n]").newline();
    let text = "{\"p\":{   \"a\": \"x\\ny\",  \t\"b\": [ 1] }}\n2\n[ ]\n";
    assert_eq!(w.as_str(), text);
    for line in text.lines() {
        assert!(Doc::parse(line).is_ok());
    }
    // Without a line end the text stays as it is.
    w.raw("[\n]");
    assert!(w.as_str().ends_with("[\n]"));
    // Truncating to before the start of the line starts another one.
    w.truncate(0);
    w.raw("[\n\n\n\n]").newline();
    assert_eq!(w.as_str(), "[    ]\n");
}

#[test]
fn going_back_forgets_the_comma_too() {
    let mut w = Writer::new();
    w.begin_array();
    let start = w.len();
    w.string("é");
    w.truncate(start);
    w.i64(1);
    let one = w.len();
    w.i64(2).truncate(one);
    w.i64(3).end_array();
    assert_eq!(w.as_str(), "[1,3]");
    w.truncate(100);
    assert_eq!(w.as_str(), "[1,3]");
    w.newline().string("é");
    let inside = w.len() - 2;
    w.truncate(inside);
    assert_eq!(w.as_str(), "[1,3]\n\"");
    w.clear();
    assert!(w.is_empty());
    w.null().newline();
    assert_eq!(w.into_bytes(), b"null\n");
}

#[test]
fn memory_is_reused() {
    let buf = b"something else".to_vec();
    let place = buf.as_ptr();
    let mut w = Writer::reuse(buf);
    assert!(w.is_empty());
    w.bool(true);
    let buf = w.into_bytes();
    assert_eq!((buf.as_slice(), buf.as_ptr()), (&b"true"[..], place));
    assert!(Writer::with_capacity(100).into_bytes().capacity() >= 100);
}

#[test]
fn the_macro_writes_its_literal_form() {
    let map = BTreeMap::from([("k".to_owned(), 1.5)]);
    let text = String::from("q\"");
    let made = json!({
        "a": 1, "b": [true, null, (1 + 1), -2, text.len() as u64], "c": text, "d": {}, "e": map,
        "f": Some(3u8), "g": None::<bool>, (format!("h{}", 1)): [[], [1,],],
        (text): {"nested": [{"deep": [null]}]},
    });
    assert_eq!(
        made.as_str(),
        r#"{"a":1,"b":[true,null,2,-2,2],"c":"q\"","d":{},"e":{"k":1.5},"f":3,"g":null,"h1":[[],[1]],"q\"":{"nested":[{"deep":[null]}]}}"#
    );
    assert_eq!(json!(null), Json::NULL);
    assert_eq!(json!([]).as_str(), "[]");
    assert_eq!(json!({}).as_str(), "{}");
    assert_eq!(json!("a\n").as_str(), r#""a\n""#);
    assert_eq!(json!([[1, 2][0], "abc".len()]).as_str(), "[1,3]");
    assert_eq!(
        json!({"j": json!([1]), "e": [{}, [], null, "x",]}).as_str(),
        r#"{"j":[1],"e":[{},[],null,"x"]}"#
    );
}

#[test]
fn everything_common_can_be_written() {
    let doc = Doc::parse("[1, 2]").unwrap();
    let rows: Vec<(Json, &str)> = vec![
        (true.to_json(), "true"),
        ((-1i8).to_json(), "-1"),
        (i16::MIN.to_json(), "-32768"),
        (1i32.to_json(), "1"),
        (i64::MIN.to_json(), "-9223372036854775808"),
        (255u8.to_json(), "255"),
        (65535u16.to_json(), "65535"),
        (1u32.to_json(), "1"),
        (u64::MAX.to_json(), "18446744073709551615"),
        (7usize.to_json(), "7"),
        ((-7isize).to_json(), "-7"),
        (1.5f32.to_json(), "1.5"),
        (2.0f64.to_json(), "2.0"),
        ("s".to_json(), "\"s\""),
        (String::from("s").to_json(), "\"s\""),
        ('é'.to_json(), "\"é\""),
        (().to_json(), "null"),
        (Json::NULL.to_json(), "null"),
        (doc.to_json(), "[1, 2]"),
        (doc.root().index(1).unwrap().to_json(), "2"),
        ((&&1).to_json(), "1"),
        (Box::<str>::from("b").to_json(), "\"b\""),
        (Cow::Borrowed("c").to_json(), "\"c\""),
        (Some(1).to_json(), "1"),
        (None::<i32>.to_json(), "null"),
        ([1, 2].to_json(), "[1,2]"),
        ([1, 2].as_slice().to_json(), "[1,2]"),
        (vec![Some("a"), None].to_json(), "[\"a\",null]"),
        (BTreeMap::from([("b", 1), ("a", 2)]).to_json(), "{\"a\":2,\"b\":1}"),
        (Json::from(true), "true"),
        (Json::from("a\n"), "\"a\\n\""),
        (Json::from(String::from("s")), "\"s\""),
        (Json::from(-1), "-1"),
        (Json::from(1.5), "1.5"),
        (Json::from(7usize), "7"),
        (Json::from(()), "null"),
        (Json::from(doc.root()), "[1, 2]"),
        (Json::default(), "null"),
        (Json::null(), "null"),
        (Writer::new().into_json(), "null"),
    ];
    for (made, text) in rows {
        assert_eq!(made.as_str(), text);
        assert_eq!(format!("{made} {made:?}"), format!("{text} {text}"));
        assert_eq!(made.to_doc().text(), text);
    }
}

#[test]
fn finished_text_is_checked() {
    const SCHEMA: Json = Json::constant(r#"{"type":"object","properties":{}}"#);
    assert_eq!(SCHEMA.to_doc().root().get("type").unwrap().as_str(), Some("object"));
    assert_eq!(Json::parse("[1, 2]").unwrap().as_str(), "[1, 2]");
    assert_eq!(Json::parse(String::from("1")).unwrap(), Json::from(1));
    let e = Json::parse("[1,]").unwrap_err();
    assert_eq!((e.kind(), e.offset()), (ErrorKind::UnexpectedByte, 3));
    let deep: &'static str = format!("{}{}", "[".repeat(128), "]".repeat(128)).leak();
    assert_eq!(Json::constant(deep).as_str(), deep);
    let deeper: &'static str = format!("[{deep}]").leak();
    assert!(std::panic::catch_unwind(|| Json::constant(deeper)).is_err());
    assert!(Json::parse(deeper).is_ok());
}
