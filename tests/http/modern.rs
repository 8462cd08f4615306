//! Requests without a session, 2026-07-28: header fields, statuses, streams.

use std::thread;

use serde_json::json;

use crate::client::{META, TIMEOUT, request, serve, server, stage};

const VERSION: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");

// shows: H26-20 H26-23 H26-28 HDR-02 HDR-03 HDR-07 HDR-08 HDR-09 HDR-12 HDR-13 ERR-10 NEG-05
#[test]
fn fields_are_checked_in_the_order_of_the_specification() {
    let served = serve(server(stage()));
    let call = || request(1, "tools/call", json!({"name": "echo", "arguments": {"text": "a"}}));
    let method = ("Mcp-Method", "tools/call");
    let name = ("Mcp-Name", "echo");
    let mut without_meta = call();
    without_meta["params"].as_object_mut().unwrap().remove("_meta");
    let mut without_capabilities = call();
    without_capabilities["params"]["_meta"]
        .as_object_mut()
        .unwrap()
        .remove(&format!("{META}clientCapabilities"));
    let mut other = call();
    other["params"]["_meta"][format!("{META}protocolVersion")] = json!("v999");
    let mut unknown = call();
    unknown["method"] = json!("no/such");
    let mut shape = call();
    shape["params"]["arguments"] = json!([]);
    for (what, fields, message, expected) in [
        ("no version field", vec![method, name], call(), (400, -32020)),
        ("no meta", vec![VERSION, method, name], without_meta, (400, -32602)),
        ("no capabilities", vec![VERSION], without_capabilities, (400, -32602)),
        ("other version in meta", vec![VERSION, method, name], other.clone(), (400, -32020)),
        ("unknown version", vec![("MCP-Protocol-Version", "v999")], other, (400, -32022)),
        ("version field twice", vec![VERSION, VERSION, method, name], call(), (400, -32020)),
        ("no method field", vec![VERSION, name], call(), (400, -32020)),
        (
            "method field in capitals",
            vec![VERSION, ("Mcp-Method", "TOOLS/CALL"), name],
            call(),
            (400, -32020),
        ),
        ("unknown method", vec![VERSION, ("Mcp-Method", "no/such")], unknown, (404, -32601)),
        ("no name field", vec![VERSION, method], call(), (400, -32020)),
        ("other name", vec![VERSION, method, ("Mcp-Name", "Echo")], call(), (400, -32020)),
        ("name twice", vec![VERSION, method, name, name], call(), (400, -32020)),
        ("bad padding", vec![VERSION, method, ("Mcp-Name", "=?base64?ZWNobw?=")], call(), (400, -32020)),
        (
            "marker in capitals",
            vec![VERSION, method, ("Mcp-Name", "=?BASE64?ZWNobw==?=")],
            call(),
            (400, -32020),
        ),
        ("shape of params", vec![VERSION, method, name], shape, (400, -32602)),
    ] {
        let mut answer = served.post(&fields, &message).json();
        let code = answer["error"]["code"].as_i64();
        assert_eq!(code, Some(expected.1), "{what}: {answer}");
        assert_eq!(answer["id"].take(), json!(1), "{what}");
        assert_eq!(served.post(&fields, &message).status, expected.0, "{what}");
    }
    for name in ["echo", "  echo\t", "=?base64?ZWNobw==?="] {
        let answer = served.post(&[VERSION, method, ("Mcp-Name", name)], &call());
        assert_eq!(answer.status, 200, "{name:?}");
        assert!(answer.field("mcp-session-id").is_none());
        assert_eq!(answer.json()["result"]["content"][0]["text"], "a");
    }
}

// shows: HDR-24 HDR-25 HDR-26
#[test]
fn argument_fields_must_match_the_body() {
    let served = serve(server(stage()));
    let call = |fields: &[(&str, &str)], arguments| {
        let answer = served.modern(fields, "tools/call", json!({"name": "region", "arguments": arguments}));
        answer.refusal()
    };
    let region = |value: &'static str| ("Mcp-Param-Region", value);
    assert_eq!(call(&[], json!({"region": "eu"})), (400, -32020));
    assert_eq!(call(&[region("us")], json!({"region": "eu"})), (400, -32020));
    assert_eq!(call(&[region("eu")], json!({})), (400, -32020));
    assert_eq!(call(&[region("=?base64?ZXU?=")], json!({"region": "eu"})), (400, -32020));
    assert_eq!(call(&[("Mcp-Param-Size", "43")], json!({"size": 42})), (400, -32020));
    assert_eq!(call(&[region("eu")], json!({"region": "eu"})), (200, 0));
    assert_eq!(call(&[region("=?base64?ZXU=?=")], json!({"region": "eu"})), (200, 0));
    assert_eq!(call(&[region("")], json!({"region": ""})), (200, 0));
    assert_eq!(call(&[("mcp-param-size", "42.0")], json!({"size": 42})), (200, 0));
    assert_eq!(call(&[("Mcp-Param-Other", "x")], json!({"region": null})), (200, 0));
    assert_eq!(call(&[], json!({})), (200, 0));
}

// shows: HDR-30
#[test]
fn a_tool_with_invalid_argument_fields_is_not_registered() {
    let tool = tinymcp::Tool::new("bad").input_schema(tinymcp::json!({
        "type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}
    }));
    let mut server = tinymcp::Server::new("s", "1");
    let refused = server.tool(tool, |_, _: tinymcp::json::Json| Ok("")).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), tinymcp::ErrorKind::Invalid);
}

// shows: H26-10 H26-11 H26-12 H26-21 H26-22
#[test]
fn the_status_is_known_before_anything_is_sent() {
    let served = serve(server(stage()));
    // An error as the first message has its own status; after a notification it is an event.
    let late = served.call("ask", json!({}));
    assert_eq!(late.refusal(), (400, -32021));
    let mut streamed = served.call("refuse_late", json!({}));
    assert_eq!(streamed.status, 200);
    assert!(streamed.is_events());
    assert_eq!(streamed.field("x-accel-buffering"), Some("no"));
    assert_eq!(streamed.message()["method"], "notifications/message");
    assert_eq!(streamed.message()["error"]["code"], -32021);
    assert_eq!(streamed.event(), None);
    // A failure of the tool, or of the server, is a response.
    assert_eq!(served.call("echo", json!({})).refusal(), (200, 0));
    let bad = served.send("POST", "/mcp", &[("Content-Type", "application/json"), VERSION], "{");
    assert_eq!(bad.refusal(), (400, -32700));
    assert_eq!(served.post(&[VERSION], &json!([])).refusal(), (400, -32600));
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        assert_eq!(served.modern(&[], method, json!({})).refusal(), (404, -32601), "{method}");
    }
}

// shows: H26-15 SSE-01 SSE-05
#[test]
fn events_have_neither_ids_nor_announcements() {
    let served = serve(server(stage()));
    let events = served.call("report", json!({})).rest();
    assert_eq!(events.len(), 4);
    assert!(events.iter().all(|event| event.id.is_none() && event.retry.is_none() && !event.data.is_empty()));
    assert_eq!(events[3].message()["result"]["content"][0]["text"], "reported");
}

// shows: H26-09
#[test]
fn responses_follow_the_accept_field() {
    let served = serve(server(stage()));
    let call = |accept, tool: &str| {
        let arguments = if tool == "report" { json!({}) } else { json!({"text": "a"}) };
        served.modern(&[("Accept", accept)], "tools/call", json!({"name": tool, "arguments": arguments}))
    };
    assert_eq!(call("application/json", "report").json()["result"]["content"][0]["text"], "reported");
    assert_eq!(call("*/*", "echo").json()["result"]["content"][0]["text"], "a");
    let mut events = call("text/event-stream", "inline");
    assert_eq!(events.message()["result"]["content"][0]["text"], "a");
    assert_eq!(call("text/event-stream", "no_such").refusal(), (400, -32602));
    assert_eq!(call("text/html", "echo").status, 406);
    let listen = json!({"notifications": {"toolsListChanged": true}});
    assert_eq!(served.modern(&[("Accept", "application/json")], "subscriptions/listen", listen).status, 406);
    let other = [("Content-Type", "text/plain"), VERSION];
    assert_eq!(served.send("POST", "/mcp", &other, "{}").status, 415);
    assert_eq!(served.send("POST", "/mcp", &[], "{}").status, 415);
}

// shows: H26-01 H26-08 H26-25
#[test]
fn only_post_is_allowed_without_a_session() {
    let served = serve(server(stage()));
    for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
        let answer = served.send(method, "/mcp", &[("Accept", "text/event-stream")], "");
        assert_eq!((answer.status, answer.field("allow")), (405, Some("POST")), "{method}");
    }
    assert_eq!(served.send("POST", "/other", &[("Content-Type", "application/json")], "{}").status, 404);
    // Notifications are accepted without effect; responses without a request are rejected.
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let answer = served.post(&[VERSION], &note);
    assert_eq!((answer.status, answer.body()), (202, String::new()));
    assert_eq!(served.post(&[VERSION], &json!({"jsonrpc": "2.0", "id": 1, "result": {}})).status, 400);
}

// shows: H26-17 H26-18
#[test]
fn a_disconnect_cancels_the_call() {
    if crate::client::is_mounted() {
        return;
    }
    let stage = stage();
    let served = serve(server(stage));
    let message = request(1, "tools/call", json!({"name": "sleep"})).to_string();
    let mut stream = std::net::TcpStream::connect(&served.address).unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: sleep\r\n";
    use std::io::Write;
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{message}", message.len()).as_bytes()).unwrap();
    stage.await_mark("sleeps");
    drop(stream);
    stage.await_mark("woken");
    assert_eq!(served.call("echo", json!({"text": "on"})).status, 200);
}

/// A client that closes its sending side counts as disconnected, except for immediate responses.
#[test]
fn a_client_that_stopped_sending_reads_an_immediate_response() {
    let served = serve(server(stage()));
    let message = request(1, "tools/call", json!({"name": "inline", "arguments": {"text": "a"}})).to_string();
    let mut stream = std::net::TcpStream::connect(&served.address).unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: inline\r\n";
    use std::io::{Read, Write};
    let text = format!("{head}Content-Length: {}\r\n\r\n{message}", message.len());
    stream.write_all(text.repeat(3).as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all.matches("HTTP/1.1 200 OK").count(), 3, "{all}");
}

// shows: H26-27
#[test]
fn clients_with_the_same_id_get_their_own_responses() {
    let stage = stage();
    let served = serve(server(stage));
    let served = &served;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| served.call("wait", json!({})).json());
        stage.await_mark("waits");
        let answers: Vec<_> = ["a", "b", "c"]
            .map(|text| (text, scope.spawn(move || served.call("echo", json!({"text": text})).json())))
            .into_iter()
            .map(|(text, answer)| (text, answer.join().unwrap()))
            .collect();
        for (text, answer) in answers {
            assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(1), &json!(text)));
        }
        stage.mark("go");
        assert_eq!(waiting.join().unwrap()["result"]["content"][0]["text"], "went");
    });
}

// shows: SUB-09
#[test]
fn listeners_are_acknowledged_first_and_get_the_requested_notifications() {
    let served = serve(server(stage()));
    let listen = |id: u64, wanted| {
        let message = request(id, "subscriptions/listen", json!({"notifications": wanted}));
        served.post(&[VERSION, ("Mcp-Method", "subscriptions/listen")], &message)
    };
    let mut tools = listen(7, json!({"toolsListChanged": true}));
    let mut notes = listen(7, json!({"resourceSubscriptions": ["text://note"]}));
    let id = format!("{META}subscriptionId");
    for stream in [&mut tools, &mut notes] {
        let first = stream.message();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"]["_meta"][&id], 7);
    }
    served.handle.resource_updated("text://note").unwrap();
    assert_eq!(notes.message()["method"], "notifications/resources/updated");
    notes.hang_up();
    served.handle.add_tool(tinymcp::Tool::new("new"), |_, _: tinymcp::json::Json| Ok("")).unwrap();
    assert_eq!(tools.message()["method"], "notifications/tools/list_changed");
    // The server reports the end of the call.
    served.handle.stop();
    assert_eq!(tools.message()["method"], "notifications/cancelled");
    assert_eq!(tools.message()["result"]["_meta"][&id], 7);
    assert_eq!(tools.event(), None);
    served.ended();
}

#[test]
fn a_full_pool_rejects_calls_and_handles_other_requests() {
    let stage = stage();
    let mut server = server(stage);
    let mut limits = tinymcp::Limits::default();
    (limits.workers, limits.queue) = (1, 1);
    server.limits(limits);
    let served = crate::client::serve_with(server, |http| http);
    let served = &served;
    thread::scope(|scope| {
        let running = scope.spawn(|| served.call("wait", json!({})).json());
        stage.await_mark("waits");
        // One call runs and one is queued; the others are rejected immediately with `Retry-After`.
        let (received, came) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let received = received.clone();
            scope.spawn(move || received.send(served.call("echo", json!({"text": "late"}))));
        }
        for _ in 0..2 {
            let busy = came.recv_timeout(TIMEOUT).unwrap();
            assert_eq!((busy.status, busy.field("retry-after")), (503, Some("1")));
        }
        assert_eq!(served.modern(&[], "tools/list", json!({})).status, 200);
        assert_eq!(served.call("inline", json!({"text": "at once"})).status, 200);
        let session = served.open("2025-11-25", json!({}));
        assert_eq!(served.ask(&session, 1, "ping", json!({})).status, 200);
        stage.mark("go");
        assert_eq!(running.join().unwrap()["result"]["content"][0]["text"], "went");
        for _ in 0..2 {
            assert_eq!(came.recv_timeout(TIMEOUT).unwrap().status, 200);
        }
    });
}
