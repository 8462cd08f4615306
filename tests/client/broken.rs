//! Servers that break the protocol: calls end, and the connection continues where possible.

use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{ErrorKind, Limits, Link, Protocol, json as ours};

use super::scripted::{ScriptedPeer, TIMEOUT, call, connected, holding, ok, plain};
use super::socket_pair::socket_pair;

#[test]
fn garbage_is_counted_and_never_answered() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, scripted) = connected(plain(), era);
        let garbage = [
            "Listening on port 80",
            "{",
            "[]",
            "[1]",
            "null",
            "\"x\"",
            "{}",
            "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\"}",
            "{\"jsonrpc\":\"2.0\",\"method\":7}",
            "{\"jsonrpc\":\"2.0\",\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"Parse error\"}}",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":[]}",
            "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"result\":{}}",
            "\u{1}\u{2}",
        ];
        for line in garbage {
            assert!(scripted.end.send(line));
        }
        // Notifications without effect.
        for (method, params) in [
            ("notifications/nothing", json!({})),
            ("notifications/progress", json!({"progressToken": 99, "progress": 1})),
            ("notifications/progress", json!({"progressToken": "x", "progress": "y"})),
            ("notifications/message", json!({"level": "loud", "data": 1})),
            ("notifications/cancelled", json!({"requestId": {}})),
            ("notifications/cancelled", json!({"requestId": 77})),
            ("notifications/resources/updated", json!({"uri": 1})),
            ("notifications/subscriptions/acknowledged", json!({"notifications": {}})),
        ] {
            scripted.say(json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        let calling = call(&client, "t");
        let delivered = scripted.receive();
        assert_eq!(delivered["method"], "tools/call", "a response was sent: {delivered}");
        scripted.answer(&delivered["id"], ok());
        assert_eq!(calling.join().unwrap().unwrap(), "ok");
        let stray = client.stats().stray_output;
        // An array is a batch in a session; this one contains nothing that is counted.
        assert_eq!(stray, if era == Protocol::Session { 15 } else { 17 }, "{era:?}");
    }
}

#[test]
fn requests_of_a_server_without_a_session_are_not_answered() {
    let (client, scripted) = connected(plain().on_elicit(|_| panic!("never")), Protocol::Stateless);
    for method in ["ping", "elicitation/create", "roots/list"] {
        scripted.say(json!({"jsonrpc": "2.0", "id": 1, "method": method}));
    }
    let calling = call(&client, "t");
    let delivered = scripted.receive();
    assert_eq!(delivered["method"], "tools/call");
    scripted.answer(&delivered["id"], ok());
    calling.join().unwrap().unwrap();
    assert_eq!(client.stats().stray_output, 3);
}

#[test]
fn a_malformed_answer_ends_the_call_it_answers() {
    let (client, scripted) = connected(plain(), Protocol::Stateless);
    for answer in [
        json!({"result": []}),
        json!({"result": {}, "error": {"code": 1, "message": "m"}}),
        json!({"error": {"code": "1", "message": "m"}}),
        json!({"error": []}),
        json!({}),
        json!({"result": {"content": 7}}),
        json!({"result": {"resultType": "new", "content": []}}),
    ] {
        let calling = call(&client, "t");
        let mut message = answer;
        message["jsonrpc"] = json!("2.0");
        message["id"] = scripted.asked("tools/call");
        scripted.say(message.clone());
        assert_eq!(calling.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved, "{message}");
    }
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn answers_in_any_order_and_twice_reach_the_right_calls() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let calls: Vec<_> = (0..50).map(|n| client.request_tool("t", ours!({"n": n})).start().unwrap()).collect();
    let mut delivered: Vec<Value> = (0..50).map(|_| scripted.receive()).collect();
    delivered.reverse();
    delivered.rotate_left(17);
    for message in &delivered {
        let text = message["params"]["arguments"]["n"].to_string();
        for _ in 0..2 {
            scripted.answer(&message["id"], json!({"content": [{"type": "text", "text": text}]}));
        }
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait().unwrap().texts(), n.to_string());
    }
    // Everything was read: the second responses precede this one.
    let calling = call(&client, "t");
    let id = scripted.asked("tools/call");
    scripted.answer(&id, ok());
    calling.join().unwrap().unwrap();
    assert_eq!(client.stats().late, 50);
}

#[test]
fn a_batch_is_read_where_a_revision_has_batches() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let calls: Vec<_> = (0..2).map(|_| client.request_tool("t", ours!({})).start().unwrap()).collect();
    let ids: Vec<Value> = (0..2).map(|_| scripted.asked("tools/call")).collect();
    let answers = ids.iter().map(|id| json!({"jsonrpc": "2.0", "id": id, "result": ok()}));
    scripted.say(Value::Array(answers.collect()));
    for call in calls {
        assert_eq!(call.wait().unwrap().texts(), "ok");
    }
}

#[test]
fn calls_to_a_silent_server_end_at_their_deadline() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || {
                client
                    .request_tool("t", ours!({}))
                    .timeout(Duration::from_millis(40))
                    .wait()
                    .unwrap_err()
                    .kind()
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.join().unwrap(), ErrorKind::Timeout);
    }
    assert_eq!(client.in_flight(), 0);
    drop(scripted);
}

#[test]
fn more_calls_than_allowed_are_refused_as_busy() {
    let mut limits = Limits::default();
    limits.client.calls = 3;
    let (client, _played) = connected(plain().limits(limits), Protocol::Session);
    let calls: Vec<_> = (0..3).map(|_| client.request_tool("t", ours!({})).start().unwrap()).collect();
    let error = client.call_tool("t", ours!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    drop(calls);
    assert!(client.request_tool("t", ours!({})).start().is_ok());
}

#[test]
fn requests_beyond_the_limit_are_rejected_and_pings_get_responses() {
    let (hold, held) = holding();
    let mut limits = Limits::default();
    limits.client.handlers = 1;
    limits.client.events = 2;
    let builder = plain().limits(limits).on_elicit(move |_| {
        hold(());
        Ok(tinymcp::ElicitResponse::decline())
    });
    let (_client, scripted) = connected(builder, Protocol::Session);
    let ask = |id: u64| {
        scripted.say(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
            "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}));
    };
    ask(1);
    held.begun();
    (2..=5).for_each(ask);
    scripted.say(json!({"jsonrpc": "2.0", "id": 6, "method": "ping"}));
    for id in [4, 5] {
        let delivered = scripted.receive();
        assert_eq!((&delivered["id"], &delivered["error"]["code"]), (&json!(id), &json!(-32603)));
    }
    assert_eq!(scripted.receive()["id"], 6);
    let _begun = held.let_all_go();
    for id in [1, 2, 3] {
        assert_eq!(scripted.receive()["id"], id);
    }
}

#[test]
fn a_flood_of_notifications_is_dropped_if_the_handlers_are_too_slow() {
    let (hold, held) = holding();
    let mut limits = Limits::default();
    limits.client.events = 10;
    let builder = plain()
        .limits(limits)
        .on_log(tinymcp::Level::Debug, move |entry| hold(entry.data.as_str().to_owned()));
    let (client, scripted) = connected(builder, Protocol::Stateless);
    let log = |n: u64| {
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": n}}));
    };
    log(0);
    held.begun();
    (1..=100).for_each(log);
    let calling = call(&client, "t");
    let id = scripted.asked("tools/call");
    scripted.answer(&id, ok());
    assert_eq!(calling.join().unwrap().unwrap(), "ok", "answers pass the flood");
    assert_eq!(client.stats().dropped, 90);
    let begun = held.let_all_go();
    let received: Vec<String> = (0..10).map(|_| begun.recv_timeout(TIMEOUT).unwrap()).collect();
    assert_eq!(received, (1..=10).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_line_beyond_the_limit_is_skipped() {
    use std::io::{BufRead, BufReader, Write};
    // One stream for each direction: the reader ends with the stream, not with the client.
    let ((read, mut out), (delivered, write)) = (socket_pair(), socket_pair());
    let mut limits = Limits::default();
    limits.frame_bytes = 2000;
    let link = Link::lines(read, write, &limits);
    let serving = std::thread::spawn(move || {
        let mut lines = BufReader::new(delivered).lines();
        let opening: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let opened = json!({"jsonrpc": "2.0", "id": opening["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}});
        writeln!(out, "{opened}").unwrap();
        lines.next().unwrap().unwrap();
        let call: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        writeln!(out, "{}", "x".repeat(100_000)).unwrap();
        let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": ok()});
        writeln!(out, "{answer}").unwrap();
        lines.count()
    });
    let client = plain().limits(limits).protocol(Protocol::Session).over(link).unwrap();
    assert_eq!(client.call_tool("t", ours!({})).unwrap().texts(), "ok");
    assert_eq!(client.stats().stray_output, 1);
    drop(client);
    assert_eq!(serving.join().unwrap(), 0, "the stream ended");
}

#[test]
fn an_unread_stream_blocks_no_caller_past_its_deadline() {
    let (ours, theirs) = socket_pair();
    let (opening, mut answers) = (ours.try_clone().unwrap(), theirs.try_clone().unwrap());
    let link = Link::lines(opening, ours, &Limits::default());
    let serving = std::thread::spawn(move || {
        use std::io::{BufRead, BufReader, Write};
        let mut line = String::new();
        BufReader::new(theirs.try_clone().unwrap()).read_line(&mut line).unwrap();
        let opening: Value = serde_json::from_str(&line).unwrap();
        let opened = json!({"jsonrpc": "2.0", "id": opening["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}});
        writeln!(answers, "{opened}").unwrap();
        theirs
    });
    let client = plain().protocol(Protocol::Session).over(link).unwrap();
    let unread = serving.join().unwrap();
    let large = "x".repeat(1 << 20);
    for _ in 0..4 {
        let request =
            client.request_tool("t", ours!({"x": large.as_str()})).timeout(Duration::from_millis(30));
        assert_eq!(request.wait().unwrap_err().kind(), ErrorKind::Timeout);
    }
    drop(unread);
    let error = client.call_tool("t", ours!({})).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Io), "{error:?}");
}

#[test]
fn a_closed_scripted_server_ends_all_waits() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let calls: Vec<_> = (0..5).map(|_| call(&client, "t")).collect();
    for _ in 0..5 {
        scripted.asked("tools/call");
    }
    drop(scripted);
    for call in calls {
        assert_eq!(call.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
    let (link, gone) = ScriptedPeer::new();
    drop(gone);
    assert_eq!(plain().over(link).unwrap_err().kind(), ErrorKind::Closed);
}
