//! Reading values: numbers, pointers, iterators, cursors.

use tinymcp::json::{Doc, Kind, NodeId, ParseLimits, Value};

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
    assert_eq!(root.get("").unwrap().as_f64(), Some(-1500.0));
    assert!(root.get("d").unwrap().is_empty());
    assert!(root.get("e").is_none() && b.get("a").is_none());
    let names: Vec<&str> = root.members().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b", "", "d"]);
    assert_eq!(doc.at(b.id()).raw(), b.raw());
}

#[test]
fn the_empty_document_is_null() {
    let doc = Doc::default();
    assert!(doc.root().is_null() && doc.root().is_empty());
    assert_eq!((doc.text(), doc.root().raw()), ("null", "null"));
    assert_eq!(doc.root().to_json().as_str(), "null");
    assert!(doc.root().index(0).is_none() && doc.root().as_str().is_none());
}

#[test]
fn taking_swaps_the_buffers() {
    let mut doc = Doc::parse("[1,2,3,4]").unwrap();
    let mut frame = b"{\"a\":1}".to_vec();
    let taken = frame.as_ptr();
    doc.parse_taking(&mut frame, &ParseLimits::default()).unwrap();
    assert_eq!(doc.text(), "{\"a\":1}");
    assert_eq!(doc.text().as_ptr(), taken);
    assert!(frame.is_empty() && frame.capacity() >= 9);
}

#[test]
fn errors_read_as_sentences() {
    let shown = |text: &str| Doc::parse(text).unwrap_err().to_string();
    assert_eq!(shown("{\"a\" 1}"), "expected `:` at byte 5");
    assert_eq!(shown("[1 2]"), "expected `,` or the closing bracket at byte 3");
    assert_eq!(shown("[\"\\ud800\"]"), "lone surrogate escape at byte 2");
    assert_eq!(shown(""), "expected a value, found nothing at byte 0");
}

#[test]
fn integers_are_exact_and_nothing_else_is_an_integer() {
    let rows: &[(&str, Option<i64>, Option<u64>)] = &[
        ("0", Some(0), Some(0)),
        ("-0", Some(0), None),
        ("7", Some(7), Some(7)),
        ("-7", Some(-7), None),
        ("9007199254740993", Some((1 << 53) + 1), Some((1 << 53) + 1)),
        ("9223372036854775807", Some(i64::MAX), Some(i64::MAX as u64)),
        ("9223372036854775808", None, Some(1 << 63)),
        ("-9223372036854775808", Some(i64::MIN), None),
        ("-9223372036854775809", None, None),
        ("18446744073709551615", None, Some(u64::MAX)),
        ("18446744073709551616", None, None),
        ("1.0", None, None),
        ("1e2", None, None),
        ("\"1\"", None, None),
        ("true", None, None),
        ("null", None, None),
        ("[1]", None, None),
    ];
    for (text, signed, unsigned) in rows {
        let doc = Doc::parse(text).unwrap();
        assert_eq!((doc.root().as_i64(), doc.root().as_u64()), (*signed, *unsigned), "{text}");
    }
}

#[test]
fn every_other_number_is_the_nearest_float_and_keeps_its_text() {
    let rows: &[(&str, Option<f64>)] = &[
        ("0.1", Some(0.1)),
        ("1.0", Some(1.0)),
        ("1e2", Some(100.0)),
        ("1E+2", Some(100.0)),
        ("-2.5e-3", Some(-0.0025)),
        ("9007199254740993", Some(9007199254740992.0)),
        ("18446744073709551616", Some(18446744073709551616.0)),
        ("1.7976931348623157e308", Some(f64::MAX)),
        ("1.7976931348623159e308", None),
        ("1e400", None),
        ("-1e400", None),
        ("1e-400", Some(0.0)),
        ("4.9e-324", Some(f64::from_bits(1))),
        ("2.2250738585072011e-308", Some(2.225_073_858_507_201e-308)),
        ("0.500000000000000166533453693773481063544750213623046875", Some(0.500_000_000_000_000_2)),
        ("\"1\"", None),
    ];
    for (text, float) in rows {
        let doc = Doc::parse(text).unwrap();
        assert_eq!(doc.root().as_f64(), *float, "{text}");
        let number = doc.root().as_number();
        assert_eq!(number.is_some(), doc.root().kind() == Kind::Number);
        assert!(number.is_none_or(|n| n == *text));
    }
    let zero = Doc::parse("-0").unwrap();
    assert!(zero.root().as_f64().unwrap().is_sign_negative());
}

#[test]
fn pointers_follow_rfc_6901() {
    let doc = Doc::parse(
        r#"{"a":[10,[20,30],{"b":40}],"":50,"a/b":60,"m~n":70,"~1":80," ":90,"0":100,
            "\u00e9\n":110,"x":{"":{"":120}},"-":130,"01":140}"#,
    )
    .unwrap();
    let rows: &[(&str, Option<i64>)] = &[
        ("/a/0", Some(10)),
        ("/a/1/0", Some(20)),
        ("/a/1/1", Some(30)),
        ("/a/2/b", Some(40)),
        ("/", Some(50)),
        ("/a~1b", Some(60)),
        ("/m~0n", Some(70)),
        ("/~01", Some(80)),
        ("/ ", Some(90)),
        ("/0", Some(100)),
        ("/é\n", Some(110)),
        ("/x//", Some(120)),
        ("/-", Some(130)),
        ("/01", Some(140)),
        ("a", None),
        ("/a/3", None),
        ("/a/-", None),
        ("/a/00", None),
        ("/a/01", None),
        ("/a/+1", None),
        ("/a/-1", None),
        ("/a/1 ", None),
        ("/a/", None),
        ("/a/b", None),
        ("/a/99999999999999999999999", None),
        ("/m~n", None),
        ("/m~2n", None),
        ("/m~", None),
        ("/a/0/0", None),
        ("/nope", None),
        ("//", None),
        ("/a~0b", None),
    ];
    for (pointer, value) in rows {
        let found = doc.root().pointer(pointer).and_then(Value::as_i64);
        assert_eq!(found, *value, "{pointer}");
    }
    assert_eq!(doc.root().pointer("").unwrap().id(), NodeId::ROOT);
    let inner = doc.root().pointer("/a/1").unwrap();
    assert_eq!(inner.pointer("/1").unwrap().as_i64(), Some(30));
    assert_eq!(inner.pointer("").unwrap().raw(), "[20,30]");
}

#[test]
fn the_last_of_several_members_counts() {
    let text = br#"{"a":1,"b":2,"\u0061":{"a":3}}"#;
    let doc = Doc::parse(text).unwrap();
    assert_eq!(doc.root().get("a").unwrap().raw(), r#"{"a":3}"#);
    assert_eq!(doc.root().pointer("/a/a").unwrap().as_i64(), Some(3));
    assert_eq!(doc.root().len(), 3);
    // A document that rejected duplicates follows the limits of its last parse.
    let mut doc = Doc::default();
    let unique = ParseLimits { unique_names: true, ..ParseLimits::default() };
    doc.parse_again(b"{}", &unique).unwrap();
    doc.parse_again(text, &ParseLimits::default()).unwrap();
    assert_eq!(doc.root().get("a").unwrap().raw(), r#"{"a":3}"#);
}

#[test]
fn elements_are_found_by_position() {
    // Scalars only, where the index follows from the position; then containers between them.
    for text in ["[0,1,2,3]", "[0,1,[],3]", "[0,1,{\"a\":[9]},3]", "[[],1,2,3]", "[0,[[8],9],2,3]"] {
        let doc = Doc::parse(text).unwrap();
        let root = doc.root();
        let all: Vec<&str> = root.items().map(Value::raw).collect();
        for (i, raw) in all.iter().enumerate() {
            assert_eq!(root.index(i).unwrap().raw(), *raw, "{text}");
        }
        assert!(root.index(4).is_none() && root.index(usize::MAX).is_none());
        assert_eq!((root.len(), all.len()), (4, 4));
    }
    for text in ["{\"a\":1}", "{}", "[]", "1", "\"a\\n\"", "\"\""] {
        let doc = Doc::parse(text).unwrap();
        assert!(doc.root().index(0).is_none(), "{text}");
    }
}

#[test]
fn iterators_know_their_length_and_can_be_cloned() {
    let doc = Doc::parse(r#"{"a":[1,[2],{}],"b\n":{}, "c":3}"#).unwrap();
    let mut members = doc.root().members();
    assert_eq!(members.len(), 3);
    members.next();
    assert_eq!((members.len(), members.clone().count()), (2, 2));
    let names: Vec<&str> = doc.root().member_values().map(|(name, _)| name.raw()).collect();
    assert_eq!(names, ["\"a\"", "\"b\\n\"", "\"c\""]);
    let offsets: Vec<usize> = doc.root().member_values().map(|(name, _)| name.offset()).collect();
    assert_eq!(offsets, [1, 16, 26]);
    let items = doc.root().get("a").unwrap().items();
    assert_eq!((items.len(), items.size_hint()), (3, (3, Some(3))));
    assert_eq!(items.map(Value::len).collect::<Vec<_>>(), [0, 1, 0]);
    for other in ["1", "\"a\"", "\"\\n\"", "null", "[1]"] {
        assert_eq!(Doc::parse(other).unwrap().root().members().count(), 0);
    }
    for other in ["1", "\"a\"", "\"\\n\"", "null", "{\"a\":1}"] {
        assert_eq!(Doc::parse(other).unwrap().root().items().count(), 0);
    }
}

#[test]
fn a_foreign_id_never_panics() {
    let large = Doc::parse("[1,2,[3,4],{\"a\":5}]").unwrap();
    let last = large.root().pointer("/3/a").unwrap().id();
    let small = Doc::parse("[1]").unwrap();
    assert_eq!(small.at(last).raw(), "[1]");
    assert!(Doc::default().at(last).is_null());
    assert_eq!(large.at(last).as_i64(), Some(5));
}

#[test]
fn raw_is_the_text_byte_for_byte() {
    let text = "{ \"a\" : [ 1.50 , \"\\u0041\\/\" ] , \"b\" : 1E+02 }";
    let doc = Doc::parse(text).unwrap();
    let a = doc.root().get("a").unwrap();
    assert_eq!(a.raw(), "[ 1.50 , \"\\u0041\\/\" ]");
    assert_eq!(a.index(1).unwrap().raw(), "\"\\u0041\\/\"");
    assert_eq!(a.index(1).unwrap().as_str(), Some("A/"));
    assert_eq!(doc.root().get("b").unwrap().as_number(), Some("1E+02"));
    assert_eq!(a.to_json().as_str(), a.raw());
    assert_eq!(format!("{a}"), a.raw());
    assert_eq!(&text[a.offset()..a.offset() + a.raw().len()], a.raw());
}

#[test]
fn debug_output_is_short() {
    let doc = Doc::parse(format!("[\"{}\"]", "é".repeat(1000))).unwrap();
    let shown = format!("{:?} {:?}", doc.root(), doc);
    assert!(shown.contains('…') && shown.len() < 600, "{shown}");
    assert_eq!(format!("{:?}", Doc::parse("[1, 2]").unwrap().root()), "[1, 2]");
}
