//! Tests of results, for outputs that arrive at once and in pieces.

#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt;

use tinymcp::Body;

use super::super::memory::Memory;
use super::super::process::tests::Recorder;
use super::*;

fn rules<'r>(output: &'r Output, limit: usize, rests: Option<&'r Rests>) -> Rules<'r> {
    Rules { tool: "a/b", output, limit, rests }
}

/// Returns the result of this output, written in pieces.
fn result(rules: &Rules<'_>, stdout: &[u8], piece: usize) -> ToolOutput {
    let mut capture = rules.capture();
    let mut recorder = Recorder::default();
    stdout.chunks(piece).for_each(|piece| capture.push(piece, &mut recorder));
    capture.finish(&mut recorder);
    let status = Some(ExitStatus::from_raw(0));
    rules.result(Finished { status, timed_out: None, stdout: capture, stderr: Ends::default() })
}

fn texts(output: &Output, limit: usize, stdout: &[u8]) -> Vec<String> {
    let whole = result(&rules(output, limit, None), stdout, usize::MAX);
    let texts = |result: &ToolOutput| -> Vec<String> {
        result.content.iter().map(|block| block.as_text().unwrap().to_owned()).collect()
    };
    let pieces = result(&rules(output, limit, None), stdout, 1);
    assert_eq!(texts(&whole), texts(&pieces));
    texts(&whole)
}

#[test]
fn texts_are_cut_at_a_character() {
    let table: [(&[u8], usize, &[&str]); 8] = [
        (b"", 10, &[""]),
        (b"abc\n", 10, &["abc\n"]),
        (b"abcdef", 6, &["abcdef"]),
        (b"abcdef", 5, &["abcde", "[cut: 1 more bytes]"]),
        ("aé€".as_bytes(), 5, &["aé", "[cut: 3 more bytes]"]),
        ("aé€😀".as_bytes(), 9, &["aé€", "[cut: 4 more bytes]"]),
        (b"a\xffb", 5, &["a\u{fffd}b", "[bytes that are not UTF-8 were replaced]"]),
        (
            &[0x80; 9],
            5,
            &[
                "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
                "[bytes that are not UTF-8 were replaced]",
                "[cut: 4 more bytes]",
            ],
        ),
    ];
    for (stdout, limit, expected) in table {
        assert_eq!(texts(&Output::Text, limit, stdout), expected, "{stdout:?} {limit}");
    }
}

#[test]
fn lines_are_progress_and_the_last_block_is_the_result() {
    let table: [(&str, &[&str]); 7] = [
        ("", &[""]),
        ("a\nb\n", &["a\nb\n"]),
        ("a\n\nb\nc", &["b\nc"]),
        ("a\n\n\nb\n\n \n", &["b\n"]),
        ("\n\r\na\r\n\r\n", &["a\r\n"]),
        ("long long line\n\nb\n", &["b\n"]),
        ("b\n\nlong long line\n", &["long long ", "[cut: 5 more bytes]"]),
    ];
    for (stdout, expected) in table {
        assert_eq!(texts(&Output::Lines, 10, stdout.as_bytes()), expected, "{stdout:?}");
    }
    let mut recorder = Recorder::default();
    let mut capture = Capture::new(&Output::Lines, 100);
    capture.push(b"one\n\n two \nthr", &mut recorder);
    capture.push(b"ee", &mut recorder);
    assert_eq!(recorder.messages, [(1.0, "one".to_owned()), (2.0, " two".to_owned())]);
    capture.finish(&mut recorder);
    assert_eq!(recorder.messages.last().unwrap(), &(3.0, "three".to_owned()));
    // Many lines cause few messages.
    let mut recorder = Recorder::default();
    capture.push(&b"x\n".repeat(100_000), &mut recorder);
    assert!(recorder.messages.len() < 50_000);
}

#[test]
fn json_is_structured() {
    let json = |stdout: &str| result(&rules(&Output::Json, 300, None), stdout.as_bytes(), usize::MAX);
    assert_eq!(json(" {\"a\": [1]}\n").structured.unwrap().as_str(), r#"{"a": [1]}"#);
    assert_eq!(json("[1]").structured.unwrap().as_str(), "[1]");
    let bad = json("{\"a\": oops}");
    assert!(bad.is_error && bad.structured.is_none());
    assert!(bad.texts().starts_with("the output is not valid JSON: ") && bad.texts().contains("at byte 6"));
    assert!(bad.texts().ends_with(":\n{\"a\": oops}"), "{}", bad.texts());
    assert!(json("").is_error);
    let long = json(&format!("[{}1]", "1,".repeat(200)));
    assert_eq!(long.texts(), "the output has 403 bytes, which is more than `outputLimit` (300) allows");
    assert!(json(&"x".repeat(300)).texts().ends_with("xxx…"));
}

#[test]
fn media_types() {
    let media = |media: &str, stdout: &[u8]| {
        result(&rules(&Output::Media(media.to_owned()), 8, None), stdout, usize::MAX)
    };
    match media("image/png", b"\x89PNG").content.as_slice() {
        [Content::Image { data, mime_type }] => {
            assert_eq!((data.as_slice(), mime_type.as_str()), (&b"\x89PNG"[..], "image/png"))
        }
        other => assert!(other.is_empty(), "{other:?}"),
    }
    assert!(matches!(media("audio/wav", b"R").content.as_slice(), [Content::Audio { .. }]));
    match media("application/pdf", b"%PDF").content.as_slice() {
        [Content::Embedded(contents)] => {
            assert_eq!(contents.mime_type.as_deref(), Some("application/pdf"));
            assert_eq!(contents.body, Body::Bytes(b"%PDF".to_vec()));
        }
        other => assert!(other.is_empty(), "{other:?}"),
    }
    assert!(media("image/png", b"").is_error);
    assert!(media("image/png", b"123456789").is_error);
}

#[test]
fn rests_are_linked_and_bounded() {
    let rests = Rests::default();
    let rules = rules(&Output::Text, 4, Some(&rests));
    assert_eq!(result(&rules, b"fits", 1).content.len(), 1);
    let link = |stdout: &[u8]| {
        let result = result(&rules, stdout, usize::MAX);
        match result.content.into_iter().next_back() {
            Some(Content::ResourceLink(resource)) => *resource,
            _ => Resource::new("", ""),
        }
    };
    let first = link("abc€def".as_bytes());
    assert!(first.uri.starts_with("output://a%2Fb/"), "{}", first.uri);
    assert_eq!(first.description.as_deref(), Some("the 6 bytes that were cut"));
    assert_eq!(rests.read(&first.uri).unwrap().body, Body::Text("€def".to_owned()));
    let long = link(&vec![b'x'; 2 << 20]);
    assert_eq!(long.description.as_deref(), Some("the first 1048576 of 2097148 bytes that were cut"));
    for _ in 0..RESTS {
        link(b"12345");
    }
    assert!(rests.read(&first.uri).is_none() && rests.read(&long.uri).is_none());
    assert_eq!(lock(&rests.kept).len(), RESTS);
}

/// Returns the result of an output that is written in these pieces while another call has written
/// `other`, with 10 bytes of memory for both. The other call ends before the last piece.
fn crowded(output: &Output, other: &str, pieces: &[&str]) -> String {
    let memory: &'static Memory = Box::leak(Box::new(Memory::new(10, 0)));
    let rules = rules(output, 100, None);
    let capture = || {
        let mut capture = rules.capture();
        capture.reserved = memory.reservation();
        capture
    };
    let (mut stdout, mut first) = (capture(), capture());
    first.push(other.as_bytes(), &mut Recorder::default());
    let (last, pieces) = pieces.split_last().unwrap();
    pieces.iter().for_each(|piece| stdout.push(piece.as_bytes(), &mut Recorder::default()));
    drop(first);
    stdout.push(last.as_bytes(), &mut Recorder::default());
    stdout.finish(&mut Recorder::default());
    let status = Some(ExitStatus::from_raw(0));
    let result = rules.result(Finished { status, timed_out: None, stdout, stderr: Ends::default() });
    assert_eq!(memory.free(), 10, "memory is free again");
    result.structured.as_ref().map_or_else(|| result.texts(), |json| json.as_str().to_owned())
}

#[test]
fn outputs_of_all_calls_share_their_memory() {
    let cut = |text: &str, bytes: usize| {
        let note = format!("[cut: {bytes} more bytes, the memory for outputs is full]");
        if text.is_empty() { note } else { format!("{text}\n{note}") }
    };
    for output in [Output::Text, Output::Lines] {
        assert_eq!(crowded(&output, "1234", &["abcdef", ""]), "abcdef");
        assert_eq!(crowded(&output, "123456", &["abcdef", ""]), cut("abcd", 2));
        // Later output is dropped, although there is memory again: the result has no gap.
        assert_eq!(crowded(&output, "123456", &["abcdef", "gh"]), cut("abcd", 4));
        assert_eq!(crowded(&output, "1234567890", &["abc", "d"]), cut("", 4));
        // Four bytes hold one of two characters of three bytes.
        assert_eq!(crowded(&output, "123456", &["€€", ""]), cut("€", 3));
    }
    // A line without memory is not a blank line.
    assert_eq!(crowded(&Output::Lines, "1234567890", &["a\n", "b\n"]), cut("", 4));
    assert_eq!(crowded(&Output::Lines, "1234567890", &["a\n\n", "b\n"]), "b\n");
    // A block is dropped when the next one begins.
    assert_eq!(crowded(&Output::Lines, "1", &["a\nbcdef\n\nabcdefghi", ""]), "abcdefghi");
    assert_eq!(crowded(&Output::Json, "1234", &["[1, 2]", ""]), "[1, 2]");
    let error = crowded(&Output::Json, "12345", &["[1, 2]", ""]);
    assert!(error.starts_with("there is no memory for this output of 6 bytes"), "{error}");
    let media = Output::Media("image/png".to_owned());
    assert!(crowded(&media, "12345", &["abcdef", ""]).contains("call again later"));
}

#[test]
fn the_default_output_limit_needs_no_memory() {
    let memory: &'static Memory = Box::leak(Box::new(Memory::new(10, 4)));
    let (mut one, mut two) = (memory.reservation(), memory.reservation());
    assert_eq!((one.grow(0, 4), memory.free()), (4, 10));
    assert_eq!((one.grow(4, 20), memory.free()), (10, 0));
    assert_eq!((two.grow(0, 3), two.grow(3, 3)), (3, 1));
    one.shrink(5);
    assert_eq!((two.grow(4, 2), memory.free()), (2, 7));
    drop((one, two));
    assert_eq!(memory.free(), 10);
}

#[test]
fn failures_show_both_ends_of_both_streams() {
    let failed = |stdout: &[u8], stderr: &[u8]| {
        let rules = rules(&Output::Text, 10, None);
        let mut capture = rules.capture();
        capture.push(stdout, &mut Recorder::default());
        let mut ends = Ends::default();
        stderr.chunks(7).for_each(|piece| ends.push(piece));
        let status = Some(ExitStatus::from_raw(2 << 8));
        let result = rules.result(Finished { status, timed_out: None, stdout: capture, stderr: ends });
        assert!(result.is_error);
        result.texts()
    };
    let text = |output: &str| format!("the program exited with status 2{output}");
    assert_eq!(failed(b"", b""), text(""));
    assert_eq!(failed(b"", b"err\n"), text(":\nerr"));
    assert_eq!(failed(b"a\nb\nc\n", b" \n"), text(":\na\nb\nc"));
    assert_eq!(
        failed(b"1 failed\n", b"warning\n"),
        text(":\nstandard output:\n1 failed\nstandard error:\nwarning")
    );
    let (head, tail) = (HEAD_BYTES, TAIL_BYTES);
    for stream in [0, 1] {
        let failed = |bytes: &[u8]| if stream == 0 { failed(bytes, b"") } else { failed(b"", bytes) };
        let whole = "x".repeat(head + tail);
        assert_eq!(failed(whole.as_bytes()), text(&format!(":\n{whole}")));
        let long = format!("{}{}", "a".repeat(50_000), "z".repeat(50_000));
        let shown = format!(
            "{}\n[{} bytes left out]\n{}",
            &long[..head],
            100_000 - head - tail,
            &long[100_000 - tail..]
        );
        assert_eq!(failed(long.as_bytes()), text(&format!(":\n{shown}")));
        // No character is cut: one byte before the characters, so that both ends are inside of one.
        let wide = format!("a{}", "é".repeat(50_000));
        let shown = failed(wide.as_bytes());
        assert!(!shown.contains('\u{fffd}') && shown.ends_with('é'), "{shown}");
    }
}
