//! Sessions, up to 2025-11-25: opening, end, and the stream of each message.

use serde_json::json;

use crate::client::{BOTH, initialize, serve, serve_with, server, stage};

const GET: (&str, &str) = ("Accept", "text/event-stream");

// shows: H11-01 H11-07 H11-20 H11-27 H11-28 H11-30 H11-31 H11-34 H11-36 H11-37
#[test]
fn a_session_lives_from_initialize_to_delete() {
    let served = serve(server(stage()));
    let refused = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}});
    let answer = served.post(&[], &refused);
    assert!(answer.field("mcp-session-id").is_none());
    assert_eq!(answer.refusal().1, -32602);
    let id = served.open("2025-11-25", json!({}));
    assert!(id.len() >= 32 && id.bytes().all(|b| (0x21..=0x7e).contains(&b)));
    assert_ne!(id, served.open("2025-11-25", json!({})));
    assert_eq!(served.ask(&id, 1, "tools/list", json!({})).status, 200);
    // Without an id, and with an invalid one.
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(served.post(&[], &list).status, 400);
    assert_eq!(served.post(&[("Mcp-Session-Id", "x")], &list).status, 404);
    let upper = id.to_uppercase();
    assert_eq!(served.post(&[("Mcp-Session-Id", &upper)], &list).status, if upper == id { 200 } else { 404 });
    assert_eq!(served.post(&[("Mcp-Session-Id", &id), ("Mcp-Session-Id", &id)], &list).status, 404);
    // A second `initialize`, an invalid version, and another valid version.
    assert_eq!(served.post(&[("Mcp-Session-Id", &id)], &initialize("2025-11-25", json!({}))).status, 400);
    let with =
        |version| served.post(&[("Mcp-Session-Id", &id), ("MCP-Protocol-Version", version)], &list).status;
    assert_eq!(with("2025-06-18"), 200);
    assert_eq!(
        served
            .send("DELETE", "/mcp", &[("Mcp-Session-Id", &id), ("MCP-Protocol-Version", "1999-01-01")], "")
            .status,
        400
    );
    let session = [("Mcp-Session-Id", id.as_str())];
    assert_eq!(served.send("DELETE", "/mcp", &session, "").status, 204);
    assert_eq!(served.post(&session, &list).status, 404);
    assert_eq!(served.send("GET", "/mcp", &[session[0], GET], "").status, 404);
    assert_eq!(served.send("DELETE", "/mcp", &session, "").status, 404);
}

// shows: H11-08 H11-15 H11-16 H11-21 H11-22 H11-23
#[test]
fn requests_and_notifications_use_the_stream_of_their_call() {
    let served = serve(server(stage()));
    let id = served.open("2025-11-25", json!({"elicitation": {}}));
    let mut general = served.send("GET", "/mcp", &[("Mcp-Session-Id", &id), GET], "");
    let mut call = served.ask(&id, 1, "tools/call", json!({"name": "ask"}));
    let question = call.message();
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    assert_eq!(served.post(&[("Mcp-Session-Id", &id)], &answer).status, 202);
    assert_eq!(call.message()["result"]["content"][0]["text"], "Decline");
    assert_eq!(call.event(), None);
    let mut report = served.ask(&id, 2, "tools/call", json!({"name": "report"}));
    assert_eq!(report.message()["method"], "notifications/message");
    // The general stream carries exactly the messages that belong to no call.
    served.handle.add_tool(tinymcp::Tool::new("new"), |_, _: tinymcp::json::Json| Ok("")).unwrap();
    assert_eq!(general.message()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_newer_listener_replaces_the_older() {
    let served = serve(server(stage()));
    let id = served.open("2025-11-25", json!({}));
    let fields = [("Mcp-Session-Id", id.as_str()), GET];
    let older = served.send("GET", "/mcp", &fields, "");
    let mut newer = served.send("GET", "/mcp", &fields, "");
    assert_eq!((older.status, newer.status), (200, 200));
    assert!(older.rest().iter().all(|event| event.data.is_empty()));
    served.handle.add_tool(tinymcp::Tool::new("new"), |_, _: tinymcp::json::Json| Ok("")).unwrap();
    assert_eq!(newer.message()["method"], "notifications/tools/list_changed");
    assert_eq!(served.send("GET", "/mcp", &[fields[0], ("Accept", "application/json")], "").status, 406);
}

#[test]
fn a_client_without_event_streams_gets_no_requests() {
    let served = serve(server(stage()));
    let id = served.open("2025-11-25", json!({"elicitation": {}}));
    let call = |tool: &str| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}});
        served.post(&[("Mcp-Session-Id", &id), ("Accept", "application/json")], &message).json()
    };
    assert_eq!(call("ask")["result"]["isError"], true);
    assert_eq!(call("report")["result"]["content"][0]["text"], "reported");
}

// shows: H11-18
#[test]
fn a_cancelled_call_ends_without_an_answer() {
    let stage = stage();
    let served = serve(server(stage));
    let id = served.open("2025-11-25", json!({}));
    std::thread::scope(|scope| {
        let call = scope.spawn(|| served.ask(&id, 5, "tools/call", json!({"name": "wait"})));
        stage.await_mark("waits");
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
        assert_eq!(served.post(&[("Mcp-Session-Id", &id)], &cancel).status, 202);
        stage.await_mark("cancelled");
        assert_eq!(call.join().unwrap().rest(), []);
    });
}

#[test]
fn sessions_are_bounded_and_the_longest_idle_is_evicted() {
    let mut limits = tinymcp::Limits::default();
    limits.http.sessions = 2;
    let mut server = server(stage());
    server.limits(limits);
    let served = serve_with(server, |http| http);
    let ids: Vec<String> = (0..2).map(|_| served.open("2025-11-25", json!({}))).collect();
    // The older session has an open stream, so the other one is evicted.
    let listener = served.send("GET", "/mcp", &[("Mcp-Session-Id", &ids[0]), GET], "");
    let third = served.open("2025-11-25", json!({}));
    let status = |id: &str| served.ask(id, 1, "ping", json!({})).status;
    assert_eq!((status(&ids[0]), status(&ids[1]), status(&third)), (200, 404, 200));
    let other = served.send("GET", "/mcp", &[("Mcp-Session-Id", &third), GET], "");
    let answer = served.post(&[("Accept", BOTH)], &initialize("2025-11-25", json!({})));
    assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
    drop((listener, other));
}

#[test]
fn an_idle_session_ends() {
    let mut limits = tinymcp::Limits::default();
    limits.http.session_timeout = std::time::Duration::from_millis(100);
    let mut server = server(stage());
    server.limits(limits);
    let served = serve_with(server, |http| http);
    // One request, so that the session cannot end between this and the next.
    let answer = served.post(&[], &initialize("2025-11-25", json!({})));
    let id = answer.field("mcp-session-id").unwrap();
    // Each request renews the session, so the pauses between them grow.
    let gone = (0..8).any(|n| {
        std::thread::park_timeout(std::time::Duration::from_millis(100 << n));
        served.ask(id, 1, "ping", json!({})).status == 404
    });
    assert!(gone, "the session did not end");
}

/// Sends an elicitation in each of these sessions. Returns the streams that wait for the responses.
fn asking(served: &crate::client::Served, ids: &[String]) -> Vec<crate::client::Answer> {
    let ask = |id: &String| {
        let mut call = served.ask(id, 1, "tools/call", json!({"name": "ask"}));
        assert_eq!(call.message()["method"], "elicitation/create");
        call
    };
    ids.iter().map(ask).collect()
}

#[test]
fn a_disconnected_client_with_an_open_request_is_evicted() {
    if crate::client::is_mounted() {
        return;
    }
    let mut limits = tinymcp::Limits::default();
    limits.http.sessions = 2;
    let mut server = server(stage());
    server.limits(limits);
    let served = serve_with(server, |http| http);
    let asked = json!({"elicitation": {}});
    let ids: Vec<String> = (0..2).map(|_| served.open("2025-11-25", asked.clone())).collect();
    let mut calls = asking(&served, &ids);
    // Both wait for their users, so no session is evicted.
    let opening = initialize("2025-11-25", json!({}));
    assert_eq!(served.post(&[], &opening).status, 503);
    // The first client disconnects, which the server detects.
    calls.remove(0).hang_up();
    let began = std::time::Instant::now();
    let third = loop {
        let answer = served.post(&[], &opening);
        if answer.status == 200 {
            break answer.field("mcp-session-id").unwrap().to_owned();
        }
        assert!(answer.status == 503 && began.elapsed() < crate::client::TIMEOUT, "{}", answer.status);
    };
    let status = |id: &str| served.ask(id, 2, "ping", json!({})).status;
    assert_eq!((status(&ids[0]), status(&ids[1]), status(&third)), (404, 200, 200));
}

#[test]
fn parked_calls_of_all_sessions_are_bounded_together() {
    let mut limits = tinymcp::Limits::default();
    (limits.http.sessions, limits.parked) = (3, 3);
    let mut server = server(stage());
    server.limits(limits);
    let served = serve_with(server, |http| http);
    let asked = json!({"elicitation": {}});
    let ids: Vec<String> = (0..3).map(|_| served.open("2025-11-25", asked.clone())).collect();
    let mut calls = asking(&served, &[ids[0].clone(), ids[1].clone()]);
    let second = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "ask"}});
    let mut third = served.post(&[("Mcp-Session-Id", &ids[1])], &second);
    let question = third.message();
    assert_eq!(question["method"], "elicitation/create");
    let refused = served.ask(&ids[2], 1, "tools/call", json!({"name": "ask"})).json();
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    // After one response another call can be parked.
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    assert_eq!(served.post(&[("Mcp-Session-Id", &ids[1])], &answer).status, 202);
    assert_eq!(third.message()["result"]["content"][0]["text"], "Decline");
    calls.extend(asking(&served, &ids[2..]));
}
