//! What servers send is bounded in bytes as well as in number: news, questions, progress, lists.

use std::sync::{Mutex, mpsc};

use serde_json::json;
use tinymcp::{ErrorKind, FormResponse, Level, Limits, Protocol, json as ours};

use super::played::{SOON, connected, plain};

/// Limits with 10,000 bytes for what waits.
fn small() -> Limits {
    let mut limits = Limits::default();
    limits.handlers = 1;
    limits.in_flight_bytes = 10_000;
    limits.list_bytes = 10_000;
    limits
}

#[test]
fn large_news_are_dropped_where_nobody_keeps_up() {
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let left = Mutex::new(left);
    let builder = plain().limits(small()).on_log(Level::Debug, move |entry| {
        enter.send(entry.data.as_str().len()).unwrap();
        let _ = left.lock().unwrap().recv();
    });
    let (client, played) = connected(builder, Protocol::Stateless);
    let log = |text: String| {
        let params = json!({"level": "info", "data": text});
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}));
    };
    log("first".into());
    entered.recv_timeout(SOON).unwrap();
    // Three fit, with their quotes; one as large as all of them fits alone.
    (0..20).for_each(|_| log("x".repeat(3000)));
    let calling = std::thread::spawn({
        let client = client.clone();
        move || client.call_tool("t", ours!({})).unwrap()
    });
    let id = played.asked("tools/call");
    played.answer(&id, json!({"resultType": "complete", "content": []}));
    calling.join().unwrap();
    assert_eq!(client.stats().dropped, 17);
    drop(leave);
    for _ in 0..3 {
        assert_eq!(entered.recv_timeout(SOON).unwrap(), 3002);
    }
    log("y".repeat(20_000));
    assert_eq!(entered.recv_timeout(SOON).unwrap(), 20_002);
}

#[test]
fn large_questions_are_refused_while_others_are_open() {
    let (enter, entered) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let left = Mutex::new(left);
    let builder = plain().limits(small()).on_form(move |_| {
        enter.send(()).unwrap();
        let _ = left.lock().unwrap().recv();
        Ok(FormResponse::decline())
    });
    let (_client, played) = connected(builder, Protocol::Session);
    let ask = |id: u64, bytes: usize| {
        let schema = json!({"type": "object", "properties": {}});
        played.say(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
            "params": {"message": "?".repeat(bytes), "requestedSchema": schema}}));
    };
    ask(1, 20_000);
    entered.recv_timeout(SOON).unwrap();
    ask(2, 10);
    let heard = played.hear();
    assert_eq!((&heard["id"], &heard["error"]["code"]), (&json!(2), &json!(-32603)));
    leave.send(()).unwrap();
    assert_eq!(played.hear()["id"], 1);
    drop(leave);
    // Its room is free once its handler's thread has let go; nothing on the wire tells when.
    let mut id = 3;
    loop {
        ask(id, 10);
        let heard = played.hear();
        assert_eq!(heard["id"], id);
        if heard.get("result").is_some() {
            break;
        }
        id += 1;
    }
}

#[test]
fn of_many_large_steps_the_newest_are_told() {
    let (client, played) = connected(plain(), Protocol::Session);
    let (tell, told) = mpsc::channel();
    let request = client.request_tool("t", ours!({}));
    let call = request.on_progress(move |step| tell.send(step.done as u64).unwrap()).start().unwrap();
    let id = played.asked("tools/call");
    for done in 1..=20 {
        let params = json!({"progressToken": id, "progress": done, "message": "x".repeat(30_000)});
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    }
    played.answer(&id, json!({"content": []}));
    // Answered in order: all of it is there.
    let pinging = std::thread::spawn({
        let client = client.clone();
        move || client.ping().unwrap()
    });
    let ping = played.asked("ping");
    played.answer(&ping, json!({}));
    pinging.join().unwrap();
    call.wait().unwrap();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [19, 20]);
}

#[test]
fn a_list_of_too_many_bytes_is_an_error() {
    let (client, played) = connected(plain().limits(small()), Protocol::Session);
    let listing = std::thread::spawn({
        let client = client.clone();
        move || client.tools().unwrap_err()
    });
    for page in 0..4 {
        let id = played.asked("tools/list");
        let tool = json!({"name": "t", "description": "x".repeat(3000), "inputSchema": {"type": "object"}});
        played.answer(&id, json!({"tools": [tool], "nextCursor": page.to_string()}));
    }
    let error = listing.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("bytes"), "{error}");
}
