//! Notifications, requests, progress and lists of servers are bounded in bytes as well as in number.

use std::sync::{Mutex, mpsc};

use serde_json::json;
use tinymcp::{ElicitResponse, ErrorKind, Level, Limits, Protocol, json as ours};

use super::scripted::{TIMEOUT, connected, plain};

/// Limits with 10,000 bytes for queued messages.
fn small() -> Limits {
    let mut limits = Limits::default();
    limits.client.handlers = 1;
    limits.in_flight_bytes = 10_000;
    limits.client.list_bytes = 10_000;
    limits
}

#[test]
fn large_notifications_are_dropped_if_the_handlers_are_too_slow() {
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let left = Mutex::new(left);
    let builder = plain().limits(small()).on_log(Level::Debug, move |entry| {
        enter.send(entry.data.as_str().len()).unwrap();
        let _ = left.lock().unwrap().recv();
    });
    let (client, scripted) = connected(builder, Protocol::Stateless);
    let log = |text: String| {
        let params = json!({"level": "info", "data": text});
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
    };
    log("first".into());
    entered.recv_timeout(TIMEOUT).unwrap();
    // Three fit, with their quotes; one as large as all of them fits alone.
    (0..20).for_each(|_| log("x".repeat(3000)));
    let calling = std::thread::spawn({
        let client = client.clone();
        move || client.call_tool("t", ours!({})).unwrap()
    });
    let id = scripted.asked("tools/call");
    scripted.answer(&id, json!({"resultType": "complete", "content": []}));
    calling.join().unwrap();
    assert_eq!(client.stats().dropped, 17);
    drop(leave);
    for _ in 0..3 {
        assert_eq!(entered.recv_timeout(TIMEOUT).unwrap(), 3002);
    }
    log("y".repeat(20_000));
    assert_eq!(entered.recv_timeout(TIMEOUT).unwrap(), 20_002);
}

#[test]
fn large_questions_are_refused_while_others_are_open() {
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let left = Mutex::new(left);
    let builder = plain().limits(small()).on_elicit(move |_| {
        enter.send(()).unwrap();
        let _ = left.lock().unwrap().recv();
        Ok(ElicitResponse::decline())
    });
    let (_client, scripted) = connected(builder, Protocol::Session);
    let ask = |id: u64, bytes: usize| {
        let schema = json!({"type": "object", "properties": {}});
        scripted.say(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
            "params": {"message": "?".repeat(bytes), "requestedSchema": schema}}));
    };
    ask(1, 20_000);
    entered.recv_timeout(TIMEOUT).unwrap();
    ask(2, 10);
    let delivered = scripted.receive();
    assert_eq!((&delivered["id"], &delivered["error"]["code"]), (&json!(2), &json!(-32603)));
    leave.send(()).unwrap();
    assert_eq!(scripted.receive()["id"], 1);
    drop(leave);
    // Its bytes are released when the handler's thread drops it, and no message reports that.
    let mut id = 3;
    loop {
        ask(id, 10);
        let delivered = scripted.receive();
        assert_eq!(delivered["id"], id);
        if delivered.get("result").is_some() {
            break;
        }
        id += 1;
    }
}

#[test]
fn of_many_large_progress_messages_the_newest_are_reported() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let (sender, received) = mpsc::channel();
    let request = client.request_tool("t", ours!({}));
    let call = request.on_progress(move |step| sender.send(step.done as u64).unwrap()).start().unwrap();
    let id = scripted.asked("tools/call");
    for done in 1..=20 {
        let params = json!({"progressToken": id, "progress": done, "message": "x".repeat(30_000)});
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }
    scripted.answer(&id, json!({"content": []}));
    // Responses are in order, so all notifications have arrived.
    let pinging = std::thread::spawn({
        let client = client.clone();
        move || client.ping().unwrap()
    });
    let ping = scripted.asked("ping");
    scripted.answer(&ping, json!({}));
    pinging.join().unwrap();
    call.wait().unwrap();
    assert_eq!(received.try_iter().collect::<Vec<_>>(), [19, 20]);
}

#[test]
fn a_list_of_too_many_bytes_is_an_error() {
    let (client, scripted) = connected(plain().limits(small()), Protocol::Session);
    let listing = std::thread::spawn({
        let client = client.clone();
        move || client.tools().unwrap_err()
    });
    for page in 0..4 {
        let id = scripted.asked("tools/list");
        let tool = json!({"name": "t", "description": "x".repeat(3000), "inputSchema": {"type": "object"}});
        scripted.answer(&id, json!({"tools": [tool], "nextCursor": page.to_string()}));
    }
    let error = listing.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("bytes"), "{error}");
}
