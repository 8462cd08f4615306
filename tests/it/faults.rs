//! Transcripts that are wrong must fail, and say where: the player is tried on faulty ones.

use crate::{play, script, wire_memory};

/// Plays a text against a fixture in one revision and gives what is said of it.
fn fault(text: &str, revision: usize) -> String {
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
fn what_differs_is_told_with_its_line_and_place() {
    let call = r#">> 1 tools/call {"name":"inline_echo","arguments":{"text":"a"}}"#;
    for (expected, told) in [
        (
            r#"<< 1 {"content":[{"type":"text","text":"b"}]}"#,
            r#"at "/result/content/0/text": expected "b", came "a""#,
        ),
        (
            r#"<< 1 {"content":[{"type":"text"}]}"#,
            r#"at "/result/content/0": member "text" was not expected"#,
        ),
        (r#"<< 1 {"content":[{"type":"text","text":"a","more":1}]}"#, r#"member "more" is missing"#),
        (r#"<< 1 {"content":[]}"#, "expected 0 items, came 1"),
        (r#"<< "1" {"content":"${_}"}"#, r#"at "/id": expected the string "1", came 1"#),
        (r#"<< 1 {"content":"~a"}"#, "expected the string"),
        (r#"<< 1 {"content":[{"type":"text","text":"~z"}]}"#, r#"expected a text with "z" in it, came "a""#),
        (r#"<! 1 -32602 "~""#, r#"member "result" was not expected"#),
        ("<-* notifications/x\n<-* notifications/y", "or: line 7"),
        (". silence", "expected silence"),
        ("", "one message more came"),
    ] {
        for revision in [3, 4] {
            let why = fault(&format!("{HEADER}{call}\n{expected}\n"), revision);
            assert!(why.contains(told), "{expected}: {why}");
            assert!(
                why.starts_with(if expected.is_empty() { "faulty.txt: at the end" } else { "faulty.txt:6" }),
                "{why}"
            );
        }
    }
}

#[test]
fn numbers_keep_their_text_and_names_their_value() {
    let text = format!(
        "{HEADER}>> 1 tools/call {{\"name\":\"value\",\"arguments\":{{\"value\":{{\"a\":1.0,\"b\":\"x\",\"c\":\"y\"}}}}}}\n"
    );
    for (expected, told) in [
        (r#"{"a":1,"b":"x","c":"y"}"#, "expected 1, came 1.0"),
        (r#"{"a":1.0,"b":"${n}","c":"${n}"}"#, r#"expected "x" as before, came "y""#),
    ] {
        let line = format!("<< 1 {{\"content\":\"${{_}}\",\"structuredContent\":{expected}}}\n");
        let why = fault(&format!("{text}{line}"), 4);
        assert!(why.contains(told), "{why}");
    }
}

#[test]
fn lines_that_mean_nothing_are_refused() {
    for (text, told) in [
        ("# shows: A\nserver: full\n\n<<< 1 {}\n", "faulty.txt:4: \"<<<\" begins no step"),
        ("# shows: A\nserver: full\n\nhello\n", "faulty.txt:4"),
        ("# shows: A\nserver: full\n\n. close\n", "there is no directive \"close\""),
        ("# shows: A\nserver: full\n\n[27] . open\n", "\"27\" is no revision"),
        ("# shows: A\nserver: full\nlimits: page\n", "page is no name=number"),
        ("# shows: A\nserver: full\nsever: full\n", "there is no header \"sever\""),
        ("# shows: A\n\n. open\n", "names no server"),
        ("server: full\n\n. open\n", "shows nothing"),
        ("# shows: A\nserver: full\n\n>bytes \\q\n", "there is no escape \\q"),
        ("# shows: A\nserver: none\n\n. open\n", "there is no server \"none\""),
        ("# shows: A\nserver: full\nlimits: speed=9\n\n. open\n", "there is no limit \"speed\""),
        ("# shows: A\nserver: full\n\n> ${unknown}\n", "\"unknown\" was not captured yet"),
        ("# shows: A\nserver: full\n\n!dance\n", "cannot \"dance\""),
        ("# shows: A\nserver: full\n\n!refused Invalid add-tool echo\n", "expected a refusal as Invalid"),
        ("# shows: A\nserver: full\n\n!refused Misuse add-tool late\n", "expected a refusal as Misuse"),
        ("# shows: A\nserver: full\n\nanswer 1 {}\n", "1 was not sent"),
    ] {
        let why = fault(text, 3);
        assert!(why.contains(told), "{text:?}: {why}");
    }
}
