//! Tasks of the stateless protocol (extension `io.modelcontextprotocol/tasks`).

use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{ErrorKind, Limits, MemoryTaskStore, Server, TaskSupport, Tool, memory};

use crate::wire::{Gate, Nothing, TASKS, Wire, server, text, tool};

fn serve(gate: &Gate) -> Wire {
    Wire::serve(server(gate), Limits::default())
}

fn id(task: &Value) -> Value {
    json!({"taskId": task["taskId"]})
}

/// T26-01, T26-16: the extension, not the capability of sessions.
#[test]
fn the_extension_is_declared() {
    let mut wire = serve(&Gate::default());
    let capabilities = wire.stateless("server/discover", json!({}))["capabilities"].clone();
    assert_eq!(capabilities, json!({"tools": {}, "extensions": {TASKS: {}}}));
    let tools = wire.stateless("tools/list", json!({}));
    assert!(tools["tools"].as_array().unwrap().iter().all(|tool| tool.get("execution").is_none()));
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(wire.stateless(method, json!({"taskId": "x"}))["code"], -32601, "{method}");
    }
}

/// T26-02, T26-05, T26-06, T26-07, T26-11.
#[test]
fn a_call_becomes_a_task_with_a_state_and_a_result() {
    let gate = Gate::default();
    let mut wire = serve(&gate);
    let created = wire.stateless("tools/call", tool("gated"));
    let names: Vec<&String> = created.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["createdAt", "lastUpdatedAt", "pollIntervalMs", "resultType", "status", "taskId", "ttlMs"],
        "{created}"
    );
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(3_600_000), &json!(1000)));
    assert_eq!(created["taskId"].as_str().unwrap().len(), 22);
    gate.await_arrivals(1);
    let state = wire.stateless("tasks/get", id(&created));
    assert_eq!((&state["resultType"], &state["status"]), (&json!("complete"), &json!("working")));
    assert_eq!(state["statusMessage"], "1/2 half");
    assert_eq!((state.get("result"), state.get("error")), (None, None));
    gate.open();
    let state = wire.over(&created);
    assert_eq!(state["status"], "completed");
    assert_eq!(text(&state["result"]), "None true");
    assert_eq!(state["createdAt"], created["createdAt"]);
}

/// T26-11: a tool's failure is a result, and only a protocol error fails the task.
#[test]
fn failures_of_tools_complete_a_task_and_protocol_errors_fail_it() {
    let mut wire = serve(&Gate::default());
    let task = wire.stateless("tools/call", tool("fails"));
    let state = wire.over(&task);
    assert_eq!((&state["status"], &state["result"]["isError"]), (&json!("completed"), &json!(true)));
    let task = wire.stateless("tools/call", tool("faults"));
    let state = wire.over(&task);
    assert_eq!(state["status"], "failed");
    assert_eq!(state["error"], json!({"code": 7, "message": "the lamp is broken", "data": {"lamp": 1}}));
    assert_eq!(state["statusMessage"], "the lamp is broken");
    let task = wire.stateless("tools/call", tool("panics"));
    let state = wire.over(&task);
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("failed"), &json!(-32603)));
}

/// T26-03, T26-13: a client without the extension gets no task, and its requests about tasks are
/// rejected.
#[test]
fn a_client_without_the_extension_gets_ordinary_results() {
    let gate = Gate::default();
    gate.open();
    let mut wire = serve(&gate);
    let without = json!({});
    let result = wire.stateless_as(&without, "tools/call", tool("gated"));
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "None false"));
    let task = wire.stateless("tools/call", tool("gated"));
    let needed = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
    for (method, params) in [
        ("tools/call", tool("required")),
        ("tools/call", tool("first_asks")),
        ("tasks/get", id(&task)),
        ("tasks/cancel", id(&task)),
        ("tasks/update", json!({"taskId": task["taskId"], "inputResponses": {}})),
        ("subscriptions/listen", json!({"notifications": {"taskIds": [task["taskId"]]}})),
    ] {
        let error = wire.stateless_as(&without, method, params);
        assert_eq!((&error["code"], &error["data"]), (&json!(-32021), &needed), "{method}");
    }
}

/// T26-14, T26-16.
#[test]
fn unknown_tasks_and_missing_parameters_are_invalid() {
    let mut wire = serve(&Gate::default());
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        for id in [json!("unknown"), json!(""), json!(7), json!(null)] {
            let params = json!({"taskId": id, "inputResponses": {}});
            assert_eq!(wire.stateless(method, params)["code"], -32602, "{method} {id}");
        }
        assert_eq!(wire.stateless(method, json!({}))["code"], -32602, "{method}");
    }
    let mut params = tool("plain");
    params["task"] = json!({"ttl": 1000});
    assert_eq!(text(&wire.stateless("tools/call", params)), "plain");
}

/// T26-10.
#[test]
fn a_cancelled_task_ends_at_once_and_stays_cancelled() {
    let mut wire = serve(&Gate::default());
    let task = wire.stateless("tools/call", tool("sleeps"));
    for _ in 0..2 {
        assert_eq!(wire.stateless("tasks/cancel", id(&task)), json!({"resultType": "complete"}));
        let state = wire.stateless("tasks/get", id(&task));
        assert_eq!((&state["status"], state.get("result")), (&json!("cancelled"), None));
    }
}

/// T26-08, T26-09.
#[test]
fn a_task_asks_its_client_and_runs_again_with_the_responses() {
    let mut wire = serve(&Gate::default());
    let task = wire.stateless("tools/call", tool("asks"));
    let waiting = |status: &str| status == "input_required";
    let state = wire.until(&task, waiting);
    let requests = state["inputRequests"].as_object().unwrap();
    assert_eq!(requests.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(requests["a"]["method"], "elicitation/create");
    let update = |wire: &mut Wire, responses: Value| {
        let params = json!({"taskId": task["taskId"], "inputResponses": responses});
        assert_eq!(wire.stateless("tasks/update", params), json!({"resultType": "complete"}));
    };
    let answer = |x: &str| json!({"action": "accept", "content": {"x": x}});
    update(&mut wire, json!({"b": answer("2"), "z": answer("0"), "\u{0}": {}}));
    // A key that has a response is no longer outstanding.
    update(&mut wire, json!({"b": answer("other")}));
    let state = wire.until(&task, waiting);
    assert_eq!(state["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a"]);
    update(&mut wire, json!({"a": answer("1")}));
    wire.until(&task, |status| status == "input_required");
    let state = loop {
        let state = wire.until(&task, waiting);
        if state["inputRequests"].get("c").is_some() {
            break state;
        }
    };
    assert_eq!(state["inputRequests"].as_object().unwrap().len(), 1);
    update(&mut wire, json!({"c": answer("3")}));
    assert_eq!(text(&wire.over(&task)["result"]), "1 2 3");
    let missing = wire.stateless("tasks/update", id(&task));
    assert_eq!(missing["code"], -32602);
}

/// T26-17: questions before the task are part of the call.
#[test]
fn a_handler_asks_before_it_becomes_a_task() {
    let mut wire = serve(&Gate::default());
    let round = wire.stateless("tools/call", tool("first_asks"));
    assert_eq!((&round["resultType"], round.get("taskId")), (&json!("input_required"), None));
    let mut again = tool("first_asks");
    again["requestState"] = round["requestState"].clone();
    again["inputResponses"] = json!({"name": {"action": "accept", "content": {"x": "Ada"}}});
    let task = wire.stateless("tools/call", again);
    assert_eq!((&task["resultType"], task.get("requestState")), (&json!("task"), None));
    assert_eq!(text(&wire.over(&task)["result"]), "Ada true");
}

/// T26-12.
#[test]
fn a_listener_gets_each_state_of_its_tasks() {
    let gate = Gate::default();
    let mut wire = serve(&gate);
    let task = wire.stateless("tools/call", tool("gated"));
    gate.await_arrivals(1);
    let params = json!({"notifications": {"taskIds": [task["taskId"], "foreign"]},
                        "_meta": crate::wire::meta(&json!({"extensions": {TASKS: {}}}))});
    let listen = wire.request("subscriptions/listen", params);
    let acknowledged = wire.other();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": [task["taskId"]]}));
    let mut seen = Vec::new();
    loop {
        let message = wire.other();
        assert_eq!(message["method"], "notifications/tasks");
        assert_eq!(message["params"]["taskId"], task["taskId"]);
        assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
        seen.push(message["params"]["status"].as_str().unwrap().to_owned());
        match message["params"]["status"].as_str() {
            Some("working") => gate.open(),
            _ => {
                assert_eq!(text(&message["params"]["result"]), "None true");
                break;
            }
        }
    }
    assert_eq!(seen.last().unwrap(), "completed");
    assert_eq!(seen.first().unwrap(), "working", "the state at the time of the subscription");
}

#[test]
fn without_room_a_tool_runs_as_an_ordinary_call_or_is_rejected() {
    let gate = Gate::default();
    let mut limits = Limits::default();
    limits.tasks.entries = 1;
    let mut wire = Wire::serve(server(&gate), limits);
    let task = wire.stateless("tools/call", tool("sleeps"));
    gate.open();
    let result = wire.stateless("tools/call", tool("gated"));
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "None false"));
    assert_eq!(wire.stateless("tools/call", tool("required"))["code"], -32603);
    wire.stateless("tasks/cancel", id(&task));
}

#[test]
fn a_result_is_kept_for_its_lifetime() {
    let mut limits = Limits::default();
    limits.tasks.ttl = Duration::from_millis(1);
    let mut wire = Wire::serve(server(&Gate::default()), limits);
    let task = wire.stateless("tools/call", tool("fails"));
    let end = std::time::Instant::now() + crate::wire::HANG;
    while wire.stateless("tasks/get", id(&task))["code"] != -32602 {
        assert!(std::time::Instant::now() < end, "the task is never removed");
    }
}

#[test]
fn a_task_fails_after_its_deadline() {
    let mut limits = Limits::default();
    limits.tasks.deadline = Duration::from_millis(1);
    let mut wire = Wire::serve(server(&Gate::default()), limits);
    let task = wire.stateless("tools/call", tool("sleeps"));
    let state = wire.over(&task);
    assert_eq!((&state["status"], &state["error"]["code"]), (&json!("failed"), &json!(-32603)));
    assert_eq!(state["statusMessage"], "The task did not finish before its deadline");
}

#[test]
fn a_task_without_responses_of_its_client_fails() {
    let mut limits = Limits::default();
    limits.client_input_timeout = Duration::from_millis(1);
    let mut wire = Wire::serve(server(&Gate::default()), limits);
    let task = wire.stateless("tools/call", tool("asks"));
    assert_eq!(wire.over(&task)["statusMessage"], "The client did not respond in time");
}

#[test]
fn a_result_beyond_the_memory_for_tasks_fails_the_task() {
    let mut limits = Limits::default();
    limits.tasks.bytes = 4096;
    let mut server = server(&Gate::default());
    server
        .tool(Tool::new("large").task(TaskSupport::Required), |_, _: Nothing| Ok("x".repeat(8192)))
        .unwrap();
    let mut wire = Wire::serve(server, limits);
    let task = wire.stateless("tools/call", tool("large"));
    assert_eq!(wire.over(&task)["status"], "failed");
}

/// Parked and queued tasks hold no thread: one thread serves any number of them.
#[test]
fn a_task_holds_a_thread_only_while_it_runs() {
    let mut limits = Limits::default();
    (limits.tasks.workers, limits.workers) = (1, 1);
    let mut wire = Wire::serve(server(&Gate::default()), limits);
    let parked: Vec<Value> = (0..20).map(|_| wire.stateless("tools/call", tool("asks"))).collect();
    let sleeping = wire.stateless("tools/call", tool("sleeps"));
    for task in &parked {
        wire.until(task, |status| status == "input_required");
    }
    // The thread for tasks is occupied, the worker is not.
    let queued = wire.stateless("tools/call", tool("fails"));
    assert_eq!(text(&wire.stateless("tools/call", tool("plain"))), "plain");
    assert_eq!(wire.stateless("tasks/get", id(&queued))["status"], "working");
    wire.stateless("tasks/cancel", id(&sleeping));
    assert_eq!(wire.over(&queued)["status"], "completed");
}

#[test]
fn misuse_is_an_error_before_serving() {
    let mut server = Server::new("s", "1");
    server.tasks(MemoryTaskStore).unwrap();
    assert_eq!(server.tasks(MemoryTaskStore).err().unwrap().kind(), ErrorKind::Misuse);
    let inline = Tool::new("t").task(TaskSupport::Optional);
    let error = server.inline_tool(inline, |_, _: Nothing| Ok("")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    let mut server = Server::new("s", "1");
    server.tool(Tool::new("t").task(TaskSupport::Optional), |_, _: Nothing| Ok("")).unwrap();
    let error = server.serve(memory().0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("\"t\""), "{error}");
}
