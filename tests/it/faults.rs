//! Invalid transcripts fail with an error that names the line and the place.

use crate::{play, script, wire_memory};

/// Plays a transcript against a fixture in one revision and returns the error.
fn play_error(text: &str, revision: usize) -> String {
    let script = match script::parse("faulty.txt", text) {
        Ok(script) => script,
        Err(why) => return why,
    };
    match play::play(&script, revision, 1, wire_memory::connect) {
        Ok(()) => format!("passed: {text}"),
        Err(why) => why,
    }
}

const HEADER: &str = "# shows: NONE\nserver: full\n\n. open\n";

#[test]
fn differences_are_reported_with_line_and_pointer() {
    let call = r#">> 1 tools/call {"name":"inline_echo","arguments":{"text":"a"}}"#;
    for (expected, expected_error) in [
        (
            r#"<< 1 {"content":[{"type":"text","text":"b"}]}"#,
            r#"at "/result/content/0/text": expected "b", got "a""#,
        ),
        (r#"<< 1 {"content":[{"type":"text"}]}"#, r#"at "/result/content/0": unexpected member "text""#),
        (r#"<< 1 {"content":[{"type":"text","text":"a","more":1}]}"#, r#"missing member "more""#),
        (r#"<< 1 {"content":[]}"#, "expected 0 items, got 1"),
        (r#"<< "1" {"content":"${_}"}"#, r#"at "/id": expected the string "1", got 1"#),
        (r#"<< 1 {"content":"~a"}"#, "expected the string"),
        (
            r#"<< 1 {"content":[{"type":"text","text":"~z"}]}"#,
            r#"expected a string that contains "z", got "a""#,
        ),
        (r#"<! 1 -32602 "~""#, r#"unexpected member "result""#),
        ("<-* notifications/x\n<-* notifications/y", "or: line 7"),
        (". silence", "expected silence"),
        ("", "unexpected message"),
    ] {
        for revision in [3, 4] {
            let why = play_error(&format!("{HEADER}{call}\n{expected}\n"), revision);
            assert!(why.contains(expected_error), "{expected}: {why}");
            assert!(
                why.starts_with(if expected.is_empty() { "faulty.txt: at the end" } else { "faulty.txt:6" }),
                "{why}"
            );
        }
    }
}

#[test]
fn numbers_compare_by_text_and_names_by_value() {
    let text = format!(
        "{HEADER}>> 1 tools/call {{\"name\":\"value\",\"arguments\":{{\"value\":{{\"a\":1.0,\"b\":\"x\",\"c\":\"y\"}}}}}}\n"
    );
    for (expected, expected_error) in [
        (r#"{"a":1,"b":"x","c":"y"}"#, "expected 1, got 1.0"),
        (r#"{"a":1.0,"b":"${n}","c":"${n}"}"#, r#"expected the captured "x", got "y""#),
    ] {
        let line = format!("<< 1 {{\"content\":\"${{_}}\",\"structuredContent\":{expected}}}\n");
        let why = play_error(&format!("{text}{line}"), 4);
        assert!(why.contains(expected_error), "{why}");
    }
}

#[test]
fn invalid_lines_of_a_transcript_are_rejected() {
    for (text, expected_error) in [
        ("# shows: A\nserver: full\n\n<<< 1 {}\n", "faulty.txt:4: \"<<<\" is not a step"),
        ("# shows: A\nserver: full\n\nhello\n", "faulty.txt:4"),
        ("# shows: A\nserver: full\n\n. close\n", "unknown directive \"close\""),
        ("# shows: A\nserver: full\n\n[27] . open\n", "\"27\" is not a revision"),
        ("# shows: A\nserver: full\nlimits: page\n", "page is not of the form name=number"),
        ("# shows: A\nserver: full\nsever: full\n", "unknown header \"sever\""),
        ("# shows: A\n\n. open\n", "missing header \"server\""),
        ("server: full\n\n. open\n", "missing comment \"# shows: ID…\""),
        ("# shows:\nserver: full\n\n. open\n", "missing comment \"# shows: ID…\""),
        ("# shows: A\nserver: full\n\n>bytes \\q\n", "unknown escape \\q"),
        ("# shows: A\nserver: none\n\n. open\n", "unknown server \"none\""),
        ("# shows: A\nserver: full\nlimits: speed=9\n\n. open\n", "unknown limit \"speed\""),
        ("# shows: A\nserver: full\n\n> ${unknown}\n", "\"unknown\" is not captured yet"),
        ("# shows: A\nserver: full\n\n!dance\n", "unknown command \"dance\""),
        ("# shows: A\nserver: full\n\n!refused Invalid add-tool echo\n", "expected an error of kind Invalid"),
        ("# shows: A\nserver: full\n\n!refused Misuse add-tool late\n", "expected an error of kind Misuse"),
        ("# shows: A\nserver: full\n\nanswer 1 {}\n", "no request 1 was sent"),
    ] {
        let why = play_error(text, 3);
        assert!(why.contains(expected_error), "{text:?}: {why}");
    }
}
