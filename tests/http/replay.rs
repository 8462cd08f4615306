//! Streams that end early, and clients that reconnect for the rest.

use serde_json::json;

use crate::client::{serve, serve_with, server, stage};

const GET: (&str, &str) = ("Accept", "text/event-stream");

// shows: H11-10 H11-11 H11-24
#[test]
fn only_clients_of_the_newest_sessions_get_an_event_without_data() {
    let served = serve(server(stage()));
    for (date, primed) in
        [("2025-11-25", true), ("2025-06-18", false), ("2025-03-26", false), ("2024-11-05", false)]
    {
        let id = served.open(date, json!({}));
        let events = served.ask(&id, 1, "tools/call", json!({"name": "report"})).rest();
        let empty = events.iter().filter(|event| event.data.is_empty()).count();
        assert_eq!(empty > 0, primed, "{date}: {events:?}");
        let mut ids: Vec<&str> = events.iter().filter_map(|event| event.id.as_deref()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "ids are unique");
        assert!(events.iter().filter(|e| !e.data.is_empty()).all(|e| e.id.is_some()));
    }
}

// shows: H11-12 H11-25 H11-26
#[test]
fn a_call_outlives_its_connection_and_its_result_waits() {
    let stage = stage();
    let served = serve(server(stage));
    let id = served.open("2025-11-25", json!({}));
    let session = ("Mcp-Session-Id", id.as_str());
    let mut call = served.ask(&id, 1, "tools/call", json!({"name": "leave"}));
    // The server disconnects its client.
    let primed = call.event().unwrap();
    assert!(primed.data.is_empty() && primed.id.is_some());
    let report = call.event().unwrap();
    assert_eq!(report.message()["method"], "notifications/message");
    let last = call.rest();
    assert_eq!(last.last().unwrap().retry, Some(10));
    let (first, seen) = (primed.id.unwrap(), report.id.unwrap());
    // A reconnect before the end: it gets the rest, and no event twice.
    let mut back = served.send("GET", "/mcp", &[session, GET, ("Last-Event-ID", &seen)], "");
    stage.mark("go");
    assert_eq!(back.message()["result"]["content"][0]["text"], "went");
    assert_eq!(back.event(), None);
    // A reconnect from the start, after the end: it gets nothing of another stream.
    assert!(served.ask(&id, 2, "tools/call", json!({"name": "report"})).rest().len() > 3);
    let again = served.send("GET", "/mcp", &[session, GET, ("Last-Event-ID", &first)], "").rest();
    let methods: Vec<_> = again.iter().map(|event| event.message()).collect();
    assert_eq!(methods.len(), 2);
    assert_eq!(methods[0]["method"], "notifications/message");
    assert_eq!(methods[1]["result"]["content"][0]["text"], "went");
    // An id of another session, of no stream, and an invalid id.
    let other = served.open("2025-11-25", json!({}));
    for (session, last, status) in
        [(&other, first.as_str(), 410), (&id, "99-1", 410), (&id, "x", 400), (&id, "", 400)]
    {
        let fields = [("Mcp-Session-Id", session.as_str()), GET, ("Last-Event-ID", last)];
        assert_eq!(served.send("GET", "/mcp", &fields, "").status, status, "{last:?}");
    }
}

#[test]
fn a_broken_connection_cancels_nothing() {
    let stage = stage();
    let served = serve(server(stage));
    let id = served.open("2025-11-25", json!({}));
    let mut call = served.ask(&id, 1, "tools/call", json!({"name": "leave"}));
    let first = call.event().unwrap().id.unwrap();
    call.hang_up();
    stage.await_mark("waits");
    stage.mark("go");
    let mut back = served.send("GET", "/mcp", &[("Mcp-Session-Id", &id), GET, ("Last-Event-ID", &first)], "");
    assert_eq!(back.message()["method"], "notifications/message");
    assert_eq!(back.message()["result"]["content"][0]["text"], "went");
}

#[test]
fn changes_are_stored_for_a_listener_and_sent_once() {
    let served = serve(server(stage()));
    let id = served.open("2025-11-25", json!({}));
    let fields = [("Mcp-Session-Id", id.as_str()), GET];
    for name in ["one", "two"] {
        served.handle.add_tool(tinymcp::Tool::new(name), |_, _: tinymcp::json::Json| Ok("")).unwrap();
    }
    let mut first = served.send("GET", "/mcp", &fields, "");
    let event = first.event().unwrap();
    assert_eq!(event.message()["method"], "notifications/tools/list_changed");
    first.hang_up();
    // Without an id the client has received everything that was sent; with an id only the events up to it.
    served.handle.remove_tool("one").unwrap();
    let seen = event.id.unwrap();
    let mut second = served.send("GET", "/mcp", &[fields[0], GET, ("Last-Event-ID", &seen)], "");
    assert_eq!(second.message()["method"], "notifications/tools/list_changed");
}

#[test]
fn stored_events_are_bounded() {
    let mut limits = tinymcp::Limits::default();
    limits.http.replay = 2;
    let mut server = server(stage());
    server.limits(limits);
    let served = serve_with(server, |http| http);
    let id = served.open("2025-11-25", json!({}));
    let events = served.ask(&id, 1, "tools/call", json!({"name": "report"})).rest();
    let first = events[0].id.clone().unwrap();
    let fields = [("Mcp-Session-Id", id.as_str()), GET, ("Last-Event-ID", &first)];
    let kept = served.send("GET", "/mcp", &fields, "").rest();
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[1].id, events[4].id);
}
