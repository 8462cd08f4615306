//! Tests with tables of event streams: each stream is split at every point, and written events are
//! parsed again.

use super::{Parser, Step, event, parse::FIELD_BYTES, retry};

/// Result of parsing a stream: events as `kind|data` or `TOO LONG`, the last id, the retry time.
fn parse(pieces: &[&[u8]], limit: usize) -> (Vec<String>, String, Option<u64>) {
    let mut parser = Parser::new(limit);
    let mut found = Vec::new();
    for piece in pieces {
        let mut piece = *piece;
        loop {
            match parser.next(&mut piece) {
                Step::More => break,
                Step::TooLong { .. } => found.push("TOO LONG".to_owned()),
                Step::Event { kind, data } => {
                    let (kind, data) = (String::from_utf8_lossy(kind), String::from_utf8_lossy(data));
                    found.push(format!("{kind}|{data}"));
                }
            }
        }
        assert!(piece.is_empty());
    }
    (found, String::from_utf8_lossy(parser.last_id()).into_owned(), parser.retry())
}

type Row = (&'static str, &'static [&'static str], &'static str, Option<u64>);

const STREAMS: &[Row] = &[
    ("", &[], "", None),
    ("data: a\n\n", &["|a"], "", None),
    ("data:a\n\n", &["|a"], "", None),
    ("data:  a\n\n", &["| a"], "", None),
    ("data: a\r\n\r\n", &["|a"], "", None),
    ("data: a\r\rdata: b\r\r", &["|a", "|b"], "", None),
    ("data: a\r\n\rdata: b\n\r\n", &["|a", "|b"], "", None),
    ("data: a\ndata: b\n\n", &["|a\nb"], "", None),
    ("data: a\ndata\ndata:\ndata: b\n\n", &["|a\n\n\nb"], "", None),
    ("\u{feff}data: a\n\n", &["|a"], "", None),
    // Only one byte order mark, at the start, is skipped.
    ("\u{feff}\u{feff}data: a\n\ndata: b\n\n", &["|b"], "", None),
    ("data: a\n\n\u{feff}data: b\n\n", &["|a"], "", None),
    (": comment\n\n:\n\ndata: a\n:in between\n\n", &["|a"], "", None),
    ("event: endpoint\ndata: /x\n\ndata: y\n\n", &["endpoint|/x", "|y"], "", None),
    ("event: gone\n\ndata: y\n\n", &["|y"], "", None),
    ("id: 7\ndata: a\n\n", &["|a"], "7", None),
    ("id: 7\ndata: a\n\nid\ndata: b\n\n", &["|a", "|b"], "", None),
    // An event without data only sets the id.
    ("id: 8\ndata: \n\n", &[], "8", None),
    ("id: 8\n\n", &[], "8", None),
    ("id: 8\n\ndata: a\n\n", &["|a"], "8", None),
    // An incomplete event is ignored.
    ("id: 8\n\nid: 9\ndata: a\n", &[], "8", None),
    ("data: a\n\ndata: b", &["|a"], "", None),
    ("id: 8\n\nid: 9\0\n\n", &[], "8", None),
    ("retry: 500\n\n", &[], "", Some(500)),
    ("retry: 500\n", &[], "", Some(500)),
    ("retry: 500\nretry: 5a\nretry: -1\nretry:\nretry: +1\n\n", &[], "", Some(500)),
    ("retry: 99999999999999999999999\n\n", &[], "", Some(u64::MAX)),
    ("id: s3-17\nretry: 500\ndata: \n\n", &[], "s3-17", Some(500)),
    ("datas: a\nDATA: b\n data: c\ndat\n\n", &[], "", None),
    ("unknown\nlonger than any name: x\n\ndata: a\n\n", &["|a"], "", None),
    ("data: {\"a\":\"é€😀\"}\n\n", &["|{\"a\":\"é€😀\"}"], "", None),
    ("\n\n\r\n\r\rdata: a\n\n\n\n", &["|a"], "", None),
];

#[test]
fn streams_give_the_same_events_at_every_split() {
    for (stream, events, id, retry) in STREAMS {
        let want = (events.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>(), (*id).to_owned(), *retry);
        let bytes = stream.as_bytes();
        assert_eq!(parse(&[bytes], 100), want, "{stream:?}");
        for at in 0..=bytes.len() {
            let (a, b) = bytes.split_at(at);
            assert_eq!(parse(&[a, b], 100), want, "{stream:?} at {at}");
            assert_eq!(parse(&[a, b"", b], 100), want, "{stream:?} at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single, 100), want, "{stream:?} byte by byte");
    }
}

#[test]
fn long_events_are_skipped_and_reported() {
    let long = "x".repeat(11);
    let fits = "x".repeat(10);
    let table = [
        (format!("data: {fits}\n\n"), vec![format!("|{fits}")]),
        (format!("data: {long}\n\ndata: b\n\n"), vec!["TOO LONG".into(), "|b".into()]),
        (format!("id: 5\ndata: {long}\n\n"), vec!["TOO LONG".into()]),
        // Each line is short, but the event is too long.
        ("data: 12345\ndata: 67890\ndata: 1\n\ndata: b\n\n".into(), vec!["TOO LONG".into(), "|b".into()]),
        // A long comment or unknown field is not stored.
        (format!(": {long}{long}\nfoo: {long}{long}\ndata: a\n\n"), vec!["|a".into()]),
        // A line that never ends produces no event and is not stored.
        (format!("data: {}", long.repeat(1000)), vec![]),
    ];
    for (stream, want) in table {
        let bytes = stream.as_bytes();
        for at in 0..=bytes.len().min(200) {
            let (a, b) = bytes.split_at(at);
            assert_eq!(parse(&[a, b], 10).0, want, "{stream:?} at {at}");
        }
    }
}

#[test]
fn a_parser_keeps_no_more_than_its_limits() {
    let mut parser = Parser::new(1000);
    for field in ["data: ", "id: ", "event: ", "retry: ", ": ", "foo: ", ""] {
        for piece in [field.as_bytes(), &[b'9'; 100_000], &[b'9'; 100_000], b"\n"] {
            let mut piece = piece;
            assert_eq!(parser.next(&mut piece), Step::More);
        }
    }
    // Many short lines of one event.
    for _ in 0..100_000 {
        assert_eq!(parser.next(&mut b"data\n".as_slice()), Step::More);
    }
    let kept = parser.memory();
    assert!(kept <= 2 * (1000 + 2 * FIELD_BYTES), "{kept}");
    assert_eq!(parser.next(&mut b"\n".as_slice()), Step::TooLong { head: &[b'9'; 1000] });
}

#[test]
fn an_id_too_long_to_send_back_is_ignored() {
    let stream = format!("id: 1\n\nid: {}\ndata: a\n\n", "9".repeat(FIELD_BYTES + 1));
    assert_eq!(parse(&[stream.as_bytes()], 100), (vec!["|a".to_owned()], "1".to_owned(), None));
}

#[test]
fn written_events_are_read_back() {
    let mut out = Vec::new();
    retry(&mut out, 500);
    event(&mut out, Some("s1-1"), b"");
    assert_eq!(out, b"retry: 500\n\nid: s1-1\ndata: \n\n");
    out.extend_from_slice(b":\n\n");
    event(&mut out, Some("a\nb"), b"one");
    event(&mut out, None, b"two\nlines\r\nand\rmore");
    event(&mut out, Some("s1-2"), b" {\"a\":1}");
    let events = ["|one", "|two\nlines\nand\nmore", "| {\"a\":1}"].map(str::to_owned).to_vec();
    assert_eq!(parse(&[&out], 100), (events, "s1-2".to_owned(), Some(500)));
}
