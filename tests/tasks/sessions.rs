//! Tasks of sessions (2025-11-25 basic/utilities/tasks).

use serde_json::{Value, json};
use tinymcp::{Level, Limits, TaskSupport, Tool};

use crate::wire::{Gate, Nothing, Wire, server, text, tool};

fn serve(gate: &Gate) -> Wire {
    let mut wire = Wire::serve(server(gate), Limits::default());
    wire.open("2025-11-25");
    wire
}

fn task(name: &str) -> Value {
    let mut params = tool(name);
    params["task"] = json!({"ttl": 60_000});
    params
}

fn id(created: &Value) -> Value {
    json!({"taskId": created["task"]["taskId"]})
}

fn related(created: &Value) -> Value {
    json!({"io.modelcontextprotocol/related-task": id(created)})
}

/// T11-01, TOOL-32, T26-20: the capability belongs to one revision, the extension to none.
#[test]
fn the_capability_is_declared() {
    for (revision, has) in [("2025-11-25", true), ("2025-06-18", false), ("2024-11-05", false)] {
        let mut wire = Wire::serve(server(&Gate::default()), Limits::default());
        let greeting = wire.open(revision);
        let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        let expected = if has { json!({"tools": {}, "tasks": tasks}) } else { json!({"tools": {}}) };
        assert_eq!(greeting["capabilities"], expected, "{revision}");
        let tools = wire.session("tools/list", json!({}));
        let support = |name: &str| {
            let tool = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
            tool.get("execution").cloned()
        };
        let says = |support: &str| has.then(|| json!({"taskSupport": support}));
        assert_eq!(support("gated"), says("optional"));
        assert_eq!(support("required"), says("required"));
        assert_eq!(support("plain"), None);
        let code = if has { -32602 } else { -32601 };
        assert_eq!(wire.session("tasks/get", json!({"taskId": "x"}))["code"], code, "{revision}");
    }
}

/// T11-04, T11-06, T11-07, T11-08, T11-11, T11-14, META-16.
#[test]
fn the_result_of_a_task_is_fetched_by_a_request_that_waits() {
    let gate = Gate::default();
    let mut wire = serve(&gate);
    let created = wire.session("tools/call", task("gated"));
    assert_eq!(created.as_object().unwrap().len(), 1);
    assert_eq!((&created["task"]["status"], &created["task"]["ttl"]), (&json!("working"), &json!(60_000)));
    gate.await_arrivals(1);
    let waiting = wire.request("tasks/result", id(&created));
    let state = wire.session("tasks/get", id(&created));
    assert_eq!(state["status"], "working");
    gate.open();
    let response = wire.response(waiting);
    assert_eq!(text(&response["result"]), "None true");
    assert_eq!(response["result"]["_meta"], related(&created));
    // Again, from the stored result.
    assert_eq!(wire.session("tasks/result", id(&created)), response["result"]);
    assert_eq!(wire.session("tasks/get", id(&created))["status"], "completed");
    let last = std::iter::repeat_with(|| wire.other()).find(|message| {
        assert_eq!(message["method"], "notifications/tasks/status");
        message["params"]["status"] == "completed"
    });
    assert_eq!(last.unwrap()["params"]["taskId"], created["task"]["taskId"]);
}

/// T11-05, T11-03, T11-16.
#[test]
fn tools_say_whether_they_run_as_tasks() {
    let mut wire = serve(&Gate::default());
    assert_eq!(wire.session("tools/call", tool("required"))["code"], -32601);
    assert_eq!(wire.session("tools/call", task("plain"))["code"], -32601);
    assert_eq!(wire.session("tools/call", tool("fails"))["isError"], true);
    let created = wire.session("tools/call", task("fails"));
    assert_eq!(wire.session("tasks/result", id(&created))["isError"], true);
    assert_eq!(wire.session("tasks/get", id(&created))["status"], "failed");
    let created = wire.session("tools/call", task("faults"));
    let error = wire.session("tasks/result", id(&created));
    assert_eq!((&error["code"], &error["data"]), (&json!(7), &json!({"lamp": 1})));
    // Revisions without tasks ignore the parameter.
    let mut wire = Wire::serve(server(&Gate::default()), Limits::default());
    wire.open("2025-06-18");
    assert_eq!(text(&wire.session("tools/call", task("plain"))), "plain");
}

/// T11-10, CAN-04.
#[test]
fn a_cancelled_task_has_no_result() {
    let mut wire = serve(&Gate::default());
    let created = wire.session("tools/call", task("sleeps"));
    let waiting = wire.request("tasks/result", id(&created));
    let state = wire.session("tasks/cancel", id(&created));
    assert_eq!((&state["status"], &state["taskId"]), (&json!("cancelled"), &created["task"]["taskId"]));
    assert_eq!(wire.response(waiting)["error"]["code"], -32602);
    assert_eq!(wire.session("tasks/cancel", id(&created))["code"], -32602);
}

/// T11-12, T11-13.
#[test]
fn requests_of_a_task_arrive_while_its_result_is_awaited() {
    let mut wire = serve(&Gate::default());
    let created = wire.session("tools/call", task("asks"));
    let waiting = wire.request("tasks/result", id(&created));
    let answer = |wire: &mut Wire, x: &str| {
        let request = loop {
            let message = wire.other();
            if message.get("id").is_some() {
                break message;
            }
        };
        assert_eq!(request["method"], "elicitation/create");
        assert_eq!(request["params"]["_meta"], related(&created));
        let result = json!({"action": "accept", "content": {"x": x}});
        wire.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    };
    for x in ["1", "2", "3"] {
        answer(&mut wire, x);
    }
    assert_eq!(text(&wire.response(waiting)["result"]), "1 2 3");
}

/// T11-09, T11-15.
#[test]
fn tasks_are_listed_in_pages() {
    let mut limits = Limits::default();
    limits.page = 2;
    let mut wire = Wire::serve(server(&Gate::default()), limits);
    wire.open("2025-11-25");
    let created: Vec<Value> =
        (0..5).map(|_| wire.session("tools/call", task("fails"))["task"]["taskId"].clone()).collect();
    let (mut listed, mut cursor) = (Vec::new(), json!({}));
    loop {
        let page = wire.session("tasks/list", cursor);
        let tasks = page["tasks"].as_array().unwrap();
        assert!(tasks.len() <= 2);
        listed.extend(tasks.iter().map(|task| task["taskId"].clone()));
        match page.get("nextCursor") {
            Some(next) => cursor = json!({"cursor": next}),
            None => break,
        }
    }
    assert_eq!(listed, created);
    assert_eq!(wire.session("tasks/list", json!({"cursor": "x"}))["code"], -32602);
    // Tasks of the stateless protocol do not exist in a session, and vice versa.
    let other = wire.stateless("tasks/get", json!({"taskId": created[0]}));
    assert_eq!(other["code"], -32602);
}

/// LOG-02: entries go to the session, at the level that it has when the handler starts.
#[test]
fn log_entries_of_a_task_are_sent_to_its_session() {
    let mut server = server(&Gate::default());
    server.logging();
    let logs = Tool::new("logs").task(TaskSupport::Required);
    server
        .tool(logs, |ctx, _: Nothing| {
            ctx.log(Level::Info, Some("lamp"), "not wanted")?;
            ctx.log(Level::Error, Some("lamp"), tinymcp::json!({"token": "secret", "lamp": 1}))?;
            Ok("logged")
        })
        .unwrap();
    let mut wire = Wire::serve(server, Limits::default());
    wire.open("2025-11-25");
    wire.session("logging/setLevel", json!({"level": "warning"}));
    let created = wire.session("tools/call", task("logs"));
    assert_eq!(text(&wire.session("tasks/result", id(&created))), "logged");
    let entry =
        std::iter::repeat_with(|| wire.other()).find(|other| other["method"] == "notifications/message");
    let data = json!({"token": "[masked]", "lamp": 1});
    assert_eq!(entry.unwrap()["params"], json!({"level": "error", "logger": "lamp", "data": data}));
}
