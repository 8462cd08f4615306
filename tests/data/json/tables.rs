//! Every production of RFC 8259 and its near misses, in the parser, the check of constants, and
//! serde_json.

use super::accepted::ACCEPTED;
use super::refused::REFUSED;
use tinymcp::json::{Doc, Json, Kind, ParseLimits, Value, Writer};

/// Writes the value without whitespace. The values of these tables are not deep.
fn compact(v: Value<'_>, w: &mut Writer) {
    match v.kind() {
        Kind::String => {
            w.string(v.as_str().unwrap());
        }
        Kind::Array => {
            w.begin_array();
            v.items().for_each(|item| compact(item, w));
            w.end_array();
        }
        Kind::Object => {
            w.begin_object();
            for (name, value) in v.members() {
                w.key(name);
                compact(value, w);
            }
            w.end_object();
        }
        Kind::Null | Kind::Bool | Kind::Number => {
            w.value(v);
        }
    }
}

#[test]
fn the_tables_are_complete_and_without_repetition() {
    assert!(ACCEPTED.len() + REFUSED.len() >= 400);
    let mut texts: Vec<&[u8]> = ACCEPTED.iter().map(|(text, _)| text.as_bytes()).collect();
    texts.extend(REFUSED.iter().map(|(text, ..)| text));
    texts.sort_unstable();
    for pair in texts.windows(2) {
        assert_ne!(pair[0], pair[1], "twice in the tables");
    }
}

#[test]
fn valid_texts_are_accepted() {
    let mut doc = Doc::default();
    for (text, form) in ACCEPTED {
        doc.parse_again(text.as_bytes(), &ParseLimits::default()).unwrap_or_else(|e| panic!("{text:?}: {e}"));
        let mut w = Writer::new();
        compact(doc.root(), &mut w);
        let form = if form.is_empty() { text } else { form };
        assert_eq!(w.as_str(), *form, "{text:?}");
        assert_eq!(doc.root().raw(), text.trim_matches([' ', '\t', '\r', '\n']));
        assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
    }
}

#[test]
fn invalid_texts_are_rejected_at_the_right_byte() {
    let mut doc = Doc::default();
    for (text, kind, offset) in REFUSED {
        let shown = text.escape_ascii();
        let e = doc.parse_again(text, &ParseLimits::default()).expect_err(&shown.to_string());
        assert_eq!((e.kind(), e.offset()), (*kind, *offset), "{shown}");
        assert!(doc.root().is_null() && doc.text() == "null");
        assert!(serde_json::from_slice::<serde_json::Value>(text).is_err());
    }
}

#[test]
fn taking_and_copying_agree() {
    let (mut taking, mut copying) = (Doc::default(), Doc::default());
    let texts = ACCEPTED.iter().map(|(text, _)| text.as_bytes());
    for text in texts.chain(REFUSED.iter().map(|(text, ..)| *text)) {
        let mut frame = text.to_vec();
        let taken = taking.parse_taking(&mut frame, &ParseLimits::default());
        let copied = copying.parse_again(text, &ParseLimits::default());
        assert_eq!(taken, copied, "{}", text.escape_ascii());
        assert_eq!(taking.text(), copying.text());
        assert!(frame.is_empty());
    }
}

#[test]
fn constants_follow_the_same_tables() {
    for (text, _) in ACCEPTED {
        assert_eq!(Json::constant(text).as_str(), *text);
    }
    // A rejected constant panics; the tables cause a few hundred panics, so their output is off.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut passed = Vec::new();
    for text in REFUSED.iter().filter_map(|(text, ..)| std::str::from_utf8(text).ok()) {
        if std::panic::catch_unwind(|| Json::constant(text)).is_ok() {
            passed.push(text);
        }
    }
    std::panic::set_hook(hook);
    assert_eq!(passed, Vec::<&str>::new());
}

/// Messages of real peers.
const MESSAGES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"caf\u00e9","version":"1.0"}}}"#,
    r#"{"jsonrpc":"2.0","id":"a-7","method":"tools/call","params":{"name":"read","arguments":{"bus":"i2c-1","offset":-0.5e3,"deep":[[],{"x":[null,true]}]}}}"#,
    r#"{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"\"日本\"\n\ud83d\ude00 C:\\temp"}],"isError":false}}"#,
    "{\n  \"jsonrpc\": \"2.0\",\r\n\t\"method\": \"notifications/initialized\"\n}",
];

#[test]
fn every_text_and_message_cut_short_or_changed_in_one_byte_is_taken_calmly() {
    let mut doc = Doc::default();
    let limits = ParseLimits { unique_names: true, ..ParseLimits::default() };
    for text in ACCEPTED.iter().map(|(text, _)| text).chain(MESSAGES) {
        assert!(doc.parse_again(text.as_bytes(), &ParseLimits::default()).is_ok(), "{text}");
        for cut in 0..text.len() {
            let _ = doc.parse_again(&text.as_bytes()[..cut], &limits);
        }
        let mut bytes = text.as_bytes().to_vec();
        for at in 0..bytes.len() {
            for to in 0..=u8::MAX {
                let was = std::mem::replace(&mut bytes[at], to);
                let strict = doc.parse_again(&bytes, &limits).is_ok();
                let ours = doc.parse_again(&bytes, &ParseLimits::default()).is_ok();
                let theirs = serde_json::from_slice::<serde_json::Value>(&bytes).is_ok();
                assert_eq!(ours, theirs, "{}", bytes.escape_ascii());
                assert!(ours || !strict);
                bytes[at] = was;
            }
        }
    }
}
