//! Allocations of a document: none after a message of the same size.

use allocation_counter::measure;
use tinymcp::json::{Doc, ParseLimits, Writer};

const CALL: &[u8] = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read_sensor","arguments":{"bus":"i2c-1","label":"a \"b\"\n\u00e9","count":3}}}"#;

const STRICT: ParseLimits = ParseLimits { unique_names: true, ..ParseLimits::UNBOUNDED };

/// An object with many names, each with an escape, to fill the buffers that a call does not use.
fn large() -> Vec<u8> {
    let mut w = Writer::new();
    w.begin_object();
    for n in 0..1000 {
        w.key(&format!("\n{n}")).string("\"\\").key(&n.to_string());
        w.begin_array().u64(n).f64(0.5).end_array();
    }
    w.end_object();
    w.into_bytes()
}

#[test]
fn a_recycled_document_allocates_nothing() {
    for text in [CALL, &large()] {
        let mut doc = Doc::default();
        doc.parse_again(text, &STRICT).unwrap();
        let info = measure(|| {
            for _ in 0..100 {
                doc.parse_again(text, &STRICT).unwrap();
                doc.parse_again(b"[1,2", &STRICT).unwrap_err();
                doc.parse_again(CALL, &STRICT).unwrap();
            }
        });
        assert_eq!(info.count_total, 0, "{info:?}");
    }
}

#[test]
fn taking_a_frame_allocates_nothing() {
    let mut doc = Doc::default();
    let mut frame = Vec::with_capacity(CALL.len());
    let mut round = |frame: &mut Vec<u8>| {
        frame.extend_from_slice(CALL);
        doc.parse_taking(frame, &STRICT).unwrap();
        assert!(frame.is_empty());
    };
    // Two rounds, so that both buffers have held the message.
    round(&mut frame);
    round(&mut frame);
    let info = measure(|| {
        for _ in 0..100 {
            round(&mut frame);
        }
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}

#[test]
fn reading_allocates_nothing() {
    let doc = Doc::parse(CALL).unwrap();
    let info = measure(|| {
        let root = doc.root();
        let label = root.pointer("/params/arguments/label").unwrap();
        assert_eq!(label.as_str(), Some("a \"b\"\né"));
        assert_eq!(root.get("id").unwrap().as_f64(), Some(7.0));
        assert_eq!(root.members().count(), 4);
        assert_eq!(doc.at(label.id()).raw(), r#""a \"b\"\n\u00e9""#);
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}

#[test]
fn an_empty_document_and_an_empty_writer_allocate_nothing() {
    let info = measure(|| {
        assert!(Doc::default().root().is_null());
        assert!(Writer::new().is_empty());
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}

#[test]
fn a_writer_in_used_memory_allocates_nothing() {
    let doc = Doc::parse(CALL).unwrap();
    let mut buf = Vec::with_capacity(4096);
    let info = measure(|| {
        for n in 0..100 {
            let mut w = Writer::reuse(std::mem::take(&mut buf));
            w.begin_object().key("id").i64(-n).key("f").f64(1.5e300);
            w.key("text").string("a\n\u{1}\"é").key("copy");
            w.value(doc.root()).string_fmt(format_args!("{n}\n"));
            w.end_object().newline();
            buf = w.into_bytes();
        }
    });
    assert_eq!(info.count_total, 0, "{info:?}");
}

#[test]
fn memory_of_a_large_message_is_given_back() {
    let mut doc = Doc::default();
    let text = large();
    doc.parse_again(&text, &STRICT).unwrap();
    doc.parse_again(CALL, &STRICT).unwrap();
    doc.shrink_to(4096);
    let info = measure(|| doc.parse_again(CALL, &STRICT).unwrap());
    assert_eq!(info.count_total, 0, "a call still fits");
    let info = measure(|| doc.parse_again(&text, &STRICT).unwrap());
    assert!(info.bytes_total > text.len() as u64, "{info:?}");
    let info = measure(|| doc.shrink_to(0));
    assert_eq!(doc.root().len(), 2000, "shrinking keeps the document");
    assert!(info.bytes_current <= 0);
}
