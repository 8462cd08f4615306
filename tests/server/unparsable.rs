//! An error for a request that cannot be parsed contains its id, if the id can be read.

use std::thread;
use std::time::Duration;

use tinymcp::json::Json;
use tinymcp::{Limits, Link, Server, Tool};

const LIMIT: usize = 300_000;

/// Sends these lines over byte streams; returns the responses.
fn answers(lines: &[String]) -> Vec<serde_json::Value> {
    let mut limits = Limits::default();
    limits.frame_bytes = LIMIT;
    let mut server = Server::new("unread", "1");
    server.limits(limits.clone());
    server.tool(Tool::new("t"), |_, _: Json| Ok("called")).unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    theirs.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let link = Link::lines(ours.try_clone().unwrap(), ours, &limits);
    let serving = thread::spawn(move || server.serve(link));
    let (mut writer, input) = (theirs.try_clone().unwrap(), lines.join("\n") + "\n");
    let writing = thread::spawn(move || {
        std::io::Write::write_all(&mut writer, input.as_bytes()).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let text = std::io::read_to_string(theirs).unwrap();
    writing.join().unwrap();
    serving.join().unwrap().unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Two requests: the id before the parameters, and after them.
fn calls(text: &str) -> [String; 2] {
    let call =
        format!(r#""method":"tools/call","params":{{"name":"t","arguments":{{"text":{text}}},{META}}}"#);
    [format!(r#"{{"jsonrpc":"2.0","id":"a-5",{call}}}"#), format!(r#"{{"jsonrpc":"2.0",{call},"id":6}}"#)]
}

#[test]
fn a_lone_surrogate_is_answered_under_the_id() {
    let padding = "x".repeat(280_000);
    for text in [r#""\ud800""#.to_owned(), format!(r#""{padding}\ud83d""#)] {
        let answers = answers(&calls(&text));
        let found: Vec<_> = answers.iter().map(|a| (&a["id"], a["error"]["code"].as_i64())).collect();
        assert_eq!(found, [(&"a-5".into(), Some(-32700)), (&6.into(), Some(-32700))], "{answers:?}");
    }
}

#[test]
fn messages_beyond_a_limit_are_answered_under_the_id() {
    for (text, code) in [
        (format!("\"{}\"", "x".repeat(LIMIT)), -32600),
        (format!("\"{}\"", "x".repeat(3 * LIMIT)), -32600),
        ("[".repeat(1000) + &"]".repeat(1000), -32700),
    ] {
        let answers = answers(&calls(&text));
        let found: Vec<_> = answers.iter().map(|a| (&a["id"], a["error"]["code"].as_i64())).collect();
        assert_eq!(found, [(&"a-5".into(), Some(code)), (&6.into(), Some(code))]);
    }
}

#[test]
fn invalid_json_and_invalid_requests_get_an_error_without_an_id() {
    let answer = |line: String| answers(&[line]);
    for line in [r#"{"jsonrpc":"2.0","id":5,"method":"ping",}"#, r#"{"jsonrpc":"2.0","id":5,"method":"ping""#]
    {
        let answer = answer(line.to_owned());
        assert_eq!((answer.len(), answer[0].get("id")), (1, None), "{answer:?}");
    }
    // The id of a response is one of the server's.
    for end in [r#"\ud800"}}"#.to_owned(), format!(r#"{}"}}}}"#, "x".repeat(LIMIT))] {
        let answer = answer(format!(r#"{{"jsonrpc":"2.0","id":5,"result":{{"text":"{end}"#));
        assert!(answer.iter().all(|a| a.get("id").is_none()), "{answer:?}");
    }
}

#[test]
fn a_byte_order_mark_is_accepted_before_every_line() {
    let ping = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{META}}}}}"#);
    let lines =
        [format!("\u{feff}{ping}"), ping.clone(), format!("\u{feff}{ping}\r"), format!("\u{feff}{ping}")];
    let answers = answers(&lines);
    assert_eq!(answers.len(), 4);
    assert!(answers.iter().all(|a| a["result"].is_object()), "{answers:?}");
}
