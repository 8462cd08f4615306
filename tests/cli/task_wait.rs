//! `tinymcp task wait` in both protocols: questions, failures, and the ends of the wait.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::questions::Asking;
use super::remote::send_signal;
use super::terminal::{Terminal, tinymcp};
use super::{TIMEOUT, run};

const PROTOCOLS: [&str; 2] = ["session", "stateless"];

/// The id of a new task.
fn create(server: &Asking, protocol: &str, call: &[&str]) -> String {
    // Only a client with elicitation may create a task that elicits.
    let words = ["--task", "--answer", "yes", "--protocol", protocol, "--url", server.url()];
    let (code, out, err) = run(&[&["call"], call, &words].concat(), "");
    assert_eq!(code, 0, "{err}");
    let task: Value = serde_json::from_str(&out).unwrap();
    task["taskId"].as_str().unwrap().to_owned()
}

fn task(server: &Asking, protocol: &str, words: &[&str]) -> (i32, String, String) {
    run(&[&["task"], words, &["--protocol", protocol, "--url", server.url()]].concat(), "")
}

/// Waits until the task has this status.
fn until(server: &Asking, protocol: &str, id: &str, status: &str) {
    let deadline = Instant::now() + TIMEOUT;
    while !task(server, protocol, &["get", id]).1.contains(status) {
        assert!(Instant::now() < deadline, "{id} is not {status}");
    }
}

#[test]
fn questions_of_a_task_are_answered() {
    let server = Asking::start();
    for protocol in PROTOCOLS {
        for (tool, expected) in [("multi_input", "Accept and Accept"), ("two_rounds", "Accept then Accept")] {
            let id = create(&server, protocol, &[tool]);
            let (code, out, err) = task(&server, protocol, &["wait", &id, "--answer", "confirm=true"]);
            let result: Value = serde_json::from_str(&out).unwrap();
            assert_eq!((code, &result["content"][0]["text"]), (0, &expected.into()), "{protocol}: {err}");
            // The result is that of a call.
            assert_eq!(
                result["resultType"],
                if protocol == "session" { Value::Null } else { "complete".into() }
            );
            let (code, out, err) = task(&server, protocol, &["wait", &id, "--text"]);
            assert_eq!((code, out, err.as_str()), (0, format!("{expected}\n"), ""));
        }
        let id = create(&server, protocol, &["confirm_delete", "filename=a"]);
        until(&server, protocol, &id, "input_required");
        let (code, out, err) = task(&server, protocol, &["wait", &id, "--text", "--answer", "confirm=false"]);
        assert_eq!((code, out.as_str()), (0, "Kept a\n"), "{err}");
        assert!(err.starts_with(&format!("{id} requires input\n")), "{err}");
    }
}

#[test]
fn a_question_is_answered_at_a_terminal() {
    let server = Asking::start();
    for protocol in PROTOCOLS {
        let id = create(&server, protocol, &["two_rounds"]);
        let words = ["task", "wait", &id, "--protocol", protocol, "--url", server.url()];
        let mut terminal = Terminal::start(tinymcp(&words));
        for question in ["The first?", "And the second?"] {
            terminal.wait_for(question);
            terminal.wait_for(": ");
            terminal.type_keys("yes\n");
        }
        let (code, text) = terminal.end();
        assert!(code == 0 && text.contains("Accept then Accept"), "{protocol}: {text}");
    }
}

#[test]
fn a_question_without_an_answer_stays_open() {
    let server = Asking::start();
    for protocol in PROTOCOLS {
        let id = create(&server, protocol, &["two_rounds"]);
        let (code, out, err) = task(&server, protocol, &["wait", &id]);
        assert_eq!((code, out.as_str()), (1, ""), "{protocol}: {err}");
        assert!(err.contains("--answer"), "{protocol}: {err}");
        // So does a form that the user closes.
        let words = ["task", "wait", &id, "--protocol", protocol, "--url", server.url()];
        let mut terminal = Terminal::start(tinymcp(&words));
        terminal.wait_for("The first?");
        terminal.wait_for(": ");
        send_signal("-INT", &terminal.child);
        assert_eq!(terminal.end().0, 5);
        until(&server, protocol, &id, "input_required");
        let (code, out, err) = task(&server, protocol, &["wait", &id, "--text", "--answer", "confirm=yes"]);
        assert_eq!((code, out.as_str()), (0, "Accept then Accept\n"), "{protocol}: {err}");
    }
}

#[test]
fn failures_and_the_end_of_the_wait_have_statuses() {
    let server = Asking::start();
    for protocol in PROTOCOLS {
        let id = create(&server, protocol, &["failing_job"]);
        let (code, out, err) = task(&server, protocol, &["wait", &id, "--text"]);
        assert_eq!((code, out.as_str()), (1, "The job failed\n"));
        assert!(err.ends_with("tinymcp: the tool failed\n"), "{err}");
        let id = create(&server, protocol, &["protocol_error_job"]);
        let (code, out, err) = task(&server, protocol, &["wait", &id]);
        assert!(code == 1 && out.is_empty() && err.contains("The job crashed"), "{err}");
        let (code, _, err) = task(&server, protocol, &["wait", "unknown"]);
        assert!(code == 1 && err.contains("Unknown task"), "{err}");

        let id = create(&server, protocol, &["slow_compute", "seconds=600"]);
        let (code, _, err) = task(&server, protocol, &["wait", &id, "--timeout", "1"]);
        assert!(code == 5 && err.contains("did not end within 1s; it continues"), "{err}");
        assert!(err.starts_with(&format!("{id} working\n")), "{err}");
        let (_, _, err) = task(&server, protocol, &["wait", &id, "--timeout", "1", "--quiet"]);
        assert!(err.starts_with("tinymcp: "), "{err}");
        let mut terminal =
            Terminal::start(tinymcp(&["task", "wait", &id, "--protocol", protocol, "--url", server.url()]));
        terminal.wait_for("working");
        send_signal("-INT", &terminal.child);
        assert_eq!(terminal.end().0, 5);
        assert!(task(&server, protocol, &["get", &id]).1.contains("working"));
        let waiting = Command::new(env!("CARGO_BIN_EXE_tinymcp"))
            .args(["task", "wait", &id, "--protocol", protocol, "--url", server.url()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(task(&server, protocol, &["cancel", &id]).0, 0);
        let ended = waiting.wait_with_output().unwrap();
        let err = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(1) && err.contains("the task was cancelled"), "{err}");
    }
}

/// A refused answer cancels the task, because it would wait forever.
#[test]
fn an_unusable_answer_cancels_the_task() {
    let server = Asking::start();
    let id = create(&server, "stateless", &["two_rounds"]);
    let (code, _, err) = task(&server, "stateless", &["wait", &id, "--answer", "other=1"]);
    assert!(code == 1 && err.contains("use --answer confirm=VALUE"), "{err}");
    until(&server, "stateless", &id, "cancelled");
}
