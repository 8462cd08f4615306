//! Calls for which a server creates tasks, in both eras.

use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{Client, Error, ErrorKind, Outcome, Protocol, TaskStatus, ToolOutput, json as ours};

use super::scripted::{ScriptedPeer, connected, plain};

const EXTENSIONS: &str = "/params/_meta/io.modelcontextprotocol~1clientCapabilities/extensions";

/// A session with a server that makes tasks.
fn session(capabilities: Value) -> (Client, ScriptedPeer) {
    let (link, scripted) = ScriptedPeer::new();
    let greeting = std::thread::spawn(move || {
        let id = scripted.asked("initialize");
        scripted.answer(
            &id,
            json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "t", "version": "1"}, "capabilities": capabilities}),
        );
        scripted.receive();
        scripted
    });
    let client = plain().protocol(Protocol::Session).over(link).unwrap();
    (client, greeting.join().unwrap())
}

fn makes_tasks() -> Value {
    json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}})
}

fn call(client: &Client) -> JoinHandle<Result<Outcome<ToolOutput>, Error>> {
    let call = client.request_tool("t", ours!({})).as_task();
    std::thread::spawn(move || call.start().unwrap().wait_outcome())
}

#[test]
fn a_task_of_a_session_is_returned_as_a_task() {
    let (client, scripted) = session(makes_tasks());
    let calling = call(&client);
    let message = scripted.receive();
    assert_eq!(message["params"], json!({"name": "t", "arguments": {}, "task": {}}));
    scripted.answer(
        &message["id"],
        json!({"task": {"taskId": "7", "status": "working", "statusMessage": "on it", "ttl": null, "pollInterval": 1500,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}}),
    );
    let Outcome::Task(task) = calling.join().unwrap().unwrap() else { panic!("no task") };
    assert_eq!((task.id.as_str(), task.status, task.ttl), ("7", TaskStatus::Working, None));
    assert_eq!(task.message.as_deref(), Some("on it"));
    assert_eq!(task.poll_interval, Some(Duration::from_millis(1500)));
    assert!(task.source.as_str().contains("createdAt"));
    let asking = std::thread::spawn({
        let client = client.clone();
        move || client.task("7")
    });
    let message = scripted.receive();
    assert_eq!((&message["method"], &message["params"]), (&json!("tasks/get"), &json!({"taskId": "7"})));
    scripted.answer(&message["id"], json!({"taskId": "7", "status": "completed", "ttl": 60000}));
    let task = asking.join().unwrap().unwrap();
    assert!(task.status.is_terminal());
    assert_eq!(task.ttl, Some(Duration::from_secs(60)));
}

#[test]
fn a_session_without_tasks_gets_no_request_for_a_task() {
    for capabilities in [json!({"tools": {}}), json!({"tools": {}, "tasks": {"requests": {}}})] {
        let (client, scripted) = session(capabilities);
        let calling = call(&client);
        let message = scripted.receive();
        assert_eq!(message["params"], json!({"name": "t", "arguments": {}}));
        // A member with that name then belongs to the result of the tool.
        scripted.answer(&message["id"], json!({"content": [], "task": {"taskId": "7", "status": "working"}}));
        assert!(matches!(calling.join().unwrap().unwrap(), Outcome::Complete(_)));
    }
}

#[test]
fn a_server_may_return_the_result_instead_of_a_task() {
    let (client, scripted) = session(makes_tasks());
    let calling = call(&client);
    scripted.answer(&scripted.asked("tools/call"), json!({"content": [{"type": "text", "text": "done"}]}));
    match calling.join().unwrap().unwrap() {
        Outcome::Complete(output) => assert_eq!(output.texts(), "done"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_without_sessions_is_returned_as_a_task() {
    let (client, scripted) = connected(plain(), Protocol::Stateless);
    let calling = call(&client);
    let message = scripted.receive();
    assert_eq!(message.pointer(EXTENSIONS), Some(&json!({"io.modelcontextprotocol/tasks": {}})));
    assert_eq!(message["params"].get("task"), None);
    scripted.answer(
        &message["id"],
        json!({"resultType": "task", "taskId": "a", "status": "input_required", "ttlMs": 5, "pollIntervalMs": 10}),
    );
    let Outcome::Task(task) = calling.join().unwrap().unwrap() else { panic!("no task") };
    assert_eq!((task.id.as_str(), task.status), ("a", TaskStatus::InputRequired));
    assert_eq!(
        (task.ttl, task.poll_interval),
        (Some(Duration::from_millis(5)), Some(Duration::from_millis(10)))
    );
    // Requests about tasks declare the extension; some servers respond with the wrong type.
    for kind in ["complete", "task"] {
        let asking = std::thread::spawn({
            let client = client.clone();
            move || client.task("a")
        });
        let message = scripted.receive();
        assert!(message.pointer(EXTENSIONS).is_some(), "{message}");
        scripted.answer(
            &message["id"],
            json!({"resultType": kind, "taskId": "a", "status": "failed", "error": {"code": -1, "message": "no"}}),
        );
        let task = asking.join().unwrap().unwrap();
        assert_eq!(task.status, TaskStatus::Failed);
        assert!(task.source.as_str().contains("\"error\""));
    }
}

#[test]
fn an_unrequested_or_invalid_task_is_an_error() {
    let (client, scripted) = connected(plain(), Protocol::Stateless);
    let task = json!({"resultType": "task", "taskId": "a", "status": "working"});
    let calling = std::thread::spawn({
        let client = client.clone();
        move || client.call_tool("t", ()).unwrap_err()
    });
    let message = scripted.receive();
    assert_eq!(message.pointer(EXTENSIONS), None);
    scripted.answer(&message["id"], task.clone());
    assert_eq!(calling.join().unwrap().kind(), ErrorKind::PeerMisbehaved);
    for bad in [
        json!({"resultType": "task", "status": "working"}),
        json!({"resultType": "task", "taskId": "", "status": "working"}),
        json!({"resultType": "task", "taskId": "a", "status": "dreaming"}),
        json!({"resultType": "task", "taskId": 7, "status": "working"}),
    ] {
        let calling = call(&client);
        scripted.answer(&scripted.asked("tools/call"), bad);
        assert_eq!(calling.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved);
    }
    // A call that waits only until a point of time cannot follow a task.
    let request = client.request_tool("t", ()).as_task();
    let calling = std::thread::spawn(move || {
        let soon = std::time::Instant::now() + Duration::from_secs(20);
        request.start().unwrap().wait_until(soon).unwrap().unwrap_err()
    });
    scripted.answer(&scripted.asked("tools/call"), task);
    let error = calling.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("\"a\""), "{error}");
}
