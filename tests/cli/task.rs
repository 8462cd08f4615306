//! The option `--task` and the command `task`.

use serde_json::Value;

use super::{run, server};

/// A server of a session whose task `7` is over at the first request for its state.
fn making_tasks(status: &str) -> String {
    let respond =
        |result: &str| format!(r#"printf '%s\n' '{{"jsonrpc":"2.0","id":'"$id"',"result":{result}}}'"#);
    let task = |status: &str| {
        format!(
            r#"{{"taskId":"7","status":"{status}","statusMessage":"on\u001b[2J it","ttl":null,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"}}"#
        )
    };
    let made = respond(&format!(r#"{{"task":{}}}"#, task("working")));
    let (state, cancelled) = (respond(&task(status)), respond(&task("cancelled")));
    let result = respond(r#"{"content":[{"type":"text","text":"found"}],"structuredContent":{"n":1}}"#);
    server("{}")
        .replace(r#"{"tools":{}}"#, r#"{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}"#)
        .replace(
            "*'\"notifications/'*)",
            &format!(
                "*tools/call*'\"task\":{{}}'*) {made};;\n*tasks/get*) {state};;\n*tasks/result*) {result};;\n\
             *tasks/cancel*) {cancelled};;\n*'\"notifications/'*)"
            ),
        )
}

fn task(words: &[&str], script: &str) -> (i32, String, String) {
    run(&[words, &["--protocol", "session", "--", "/bin/sh", "-c", script]].concat(), "")
}

#[test]
fn a_task_is_made_and_followed() {
    let script = making_tasks("completed");
    let (code, out, err) = task(&["call", "t", "{}", "--task"], &script);
    let made: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &made["taskId"], &made["status"]), (0, &"7".into(), &"working".into()), "{err}");
    let (code, out, _) = task(&["call", "t", "{}", "--task", "--text"], &script);
    assert_eq!((code, out.as_str()), (0, "7 working: on\u{fffd}[2J it\n"));
    let (code, out, _) = task(&["task", "get", "7", "--text"], &script);
    assert_eq!((code, out.as_str()), (0, "7 completed: on\u{fffd}[2J it\n"));
    let (code, out, err) = task(&["task", "wait", "7", "--structured"], &script);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "{\"n\":1}\n", ""));
    assert_eq!(task(&["task", "cancel", "7"], &script), (0, String::new(), String::new()));
    let asked = script.replace("*tasks/get*", r#"*tasks/get*'"taskId":"-7"'*"#);
    let (code, out, err) = task(&["task", "get", ":-7", "--text"], &asked);
    assert_eq!((code, out.as_str()), (0, "7 completed: on\u{fffd}[2J it\n"), "{err}");
}

#[test]
fn a_task_without_a_result_is_an_error() {
    let (code, _, err) = task(&["task", "wait", "7"], &making_tasks("cancelled"));
    assert!(code == 1 && err.contains("the task was cancelled"), "{err}");
    let (code, _, err) = task(&["task", "wait", "7", "--timeout", "0.1"], &making_tasks("working"));
    assert!(code == 5 && err.contains("did not end within 100ms; it continues"), "{err}");
    let (code, _, err) = task(&["task", "get", "7"], &server("{}"));
    assert!(code == 1 && err.contains("unknown"), "{err}");
    for words in [&["task"][..], &["task", "get"], &["task", "got", "7"], &["task", "get", ""]] {
        let (code, _, err) = run(&[words, &["--", "/bin/false"]].concat(), "");
        assert!(code == 2 && err.contains("expected `task get ID`"), "{err}");
    }
}
