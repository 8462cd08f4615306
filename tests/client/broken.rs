//! Servers that break the rules: whatever they do, calls end and the connection goes on while it can.

use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{ErrorKind, Limits, Link, Protocol, json as ours};

use super::played::{Played, SOON, call, connected, holding, ok, plain};

#[test]
fn garbage_is_counted_and_never_answered() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, played) = connected(plain(), era);
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
            assert!(played.end.send(line));
        }
        // Notifications that mean nothing.
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
            played.say(json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        let calling = call(&client, "t");
        let heard = played.hear();
        assert_eq!(heard["method"], "tools/call", "nothing was answered: {heard}");
        played.answer(&heard["id"], ok());
        assert_eq!(calling.join().unwrap().unwrap(), "ok");
        let noise = client.stats().noise;
        // An array is a batch in a session, and holds nothing that counts.
        assert_eq!(noise, if era == Protocol::Session { 15 } else { 17 }, "{era:?}");
    }
}

#[test]
fn requests_of_a_server_without_a_session_are_not_answered() {
    let (client, played) = connected(plain().on_form(|_| panic!("never")), Protocol::Stateless);
    for method in ["ping", "elicitation/create", "roots/list"] {
        played.say(json!({"jsonrpc": "2.0", "id": 1, "method": method}));
    }
    let calling = call(&client, "t");
    let heard = played.hear();
    assert_eq!(heard["method"], "tools/call");
    played.answer(&heard["id"], ok());
    calling.join().unwrap().unwrap();
    assert_eq!(client.stats().noise, 3);
}

#[test]
fn a_malformed_answer_ends_the_call_it_answers() {
    let (client, played) = connected(plain(), Protocol::Stateless);
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
        message["id"] = played.asked("tools/call");
        played.say(message.clone());
        assert_eq!(calling.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved, "{message}");
    }
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn answers_in_any_order_and_twice_reach_the_right_calls() {
    let (client, played) = connected(plain(), Protocol::Session);
    let calls: Vec<_> = (0..50).map(|n| client.request_tool("t", ours!({"n": n})).start().unwrap()).collect();
    let mut heard: Vec<Value> = (0..50).map(|_| played.hear()).collect();
    heard.reverse();
    heard.rotate_left(17);
    for message in &heard {
        let text = message["params"]["arguments"]["n"].to_string();
        for _ in 0..2 {
            played.answer(&message["id"], json!({"content": [{"type": "text", "text": text}]}));
        }
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.wait().unwrap().texts(), n.to_string());
    }
    // Everything was read: the second answers stand before this one.
    let calling = call(&client, "t");
    let id = played.asked("tools/call");
    played.answer(&id, ok());
    calling.join().unwrap().unwrap();
    assert_eq!(client.stats().late, 50);
}

#[test]
fn a_batch_is_read_where_a_revision_has_batches() {
    let (client, played) = connected(plain(), Protocol::Session);
    let calls: Vec<_> = (0..2).map(|_| client.request_tool("t", ours!({})).start().unwrap()).collect();
    let ids: Vec<Value> = (0..2).map(|_| played.asked("tools/call")).collect();
    let answers = ids.iter().map(|id| json!({"jsonrpc": "2.0", "id": id, "result": ok()}));
    played.say(Value::Array(answers.collect()));
    for call in calls {
        assert_eq!(call.wait().unwrap().texts(), "ok");
    }
}

#[test]
fn a_silent_server_costs_each_call_its_time_and_no_more() {
    let (client, played) = connected(plain(), Protocol::Session);
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
    drop(played);
}

#[test]
fn more_calls_than_allowed_are_refused_as_busy() {
    let mut limits = Limits::default();
    limits.calls = 3;
    let (client, _played) = connected(plain().limits(limits), Protocol::Session);
    let calls: Vec<_> = (0..3).map(|_| client.request_tool("t", ours!({})).start().unwrap()).collect();
    let error = client.call_tool("t", ours!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    drop(calls);
    assert!(client.request_tool("t", ours!({})).start().is_ok());
}

#[test]
fn more_questions_than_allowed_are_refused_and_pings_are_answered_all_the_same() {
    let (hold, held) = holding();
    let mut limits = Limits::default();
    limits.handlers = 1;
    limits.events = 2;
    let builder = plain().limits(limits).on_form(move |_| {
        hold(());
        Ok(tinymcp::FormResponse::decline())
    });
    let (_client, played) = connected(builder, Protocol::Session);
    let ask = |id: u64| {
        played.say(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
            "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}));
    };
    ask(1);
    held.begun();
    (2..=5).for_each(ask);
    played.say(json!({"jsonrpc": "2.0", "id": 6, "method": "ping"}));
    for id in [4, 5] {
        let heard = played.hear();
        assert_eq!((&heard["id"], &heard["error"]["code"]), (&json!(id), &json!(-32603)));
    }
    assert_eq!(played.hear()["id"], 6);
    let _begun = held.let_all_go();
    for id in [1, 2, 3] {
        assert_eq!(played.hear()["id"], id);
    }
}

#[test]
fn a_flood_of_news_is_dropped_where_nobody_keeps_up() {
    let (hold, held) = holding();
    let mut limits = Limits::default();
    limits.events = 10;
    let builder = plain()
        .limits(limits)
        .on_log(tinymcp::Level::Debug, move |entry| hold(entry.data.as_str().to_owned()));
    let (client, played) = connected(builder, Protocol::Stateless);
    let log = |n: u64| {
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": n}}));
    };
    log(0);
    held.begun();
    (1..=100).for_each(log);
    let calling = call(&client, "t");
    let id = played.asked("tools/call");
    played.answer(&id, ok());
    assert_eq!(calling.join().unwrap().unwrap(), "ok", "answers pass the flood");
    assert_eq!(client.stats().dropped, 90);
    let begun = held.let_all_go();
    let told: Vec<String> = (0..10).map(|_| begun.recv_timeout(SOON).unwrap()).collect();
    assert_eq!(told, (1..=10).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_line_beyond_the_limit_is_skipped() {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    // One stream each way: what reads ends with the stream, not with the client.
    let ((read, mut out), (heard, write)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let mut limits = Limits::default();
    limits.frame_bytes = 2000;
    let link = Link::lines(read, write, &limits);
    let serving = std::thread::spawn(move || {
        let mut lines = BufReader::new(heard).lines();
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
    assert_eq!(client.stats().noise, 1);
    drop(client);
    assert_eq!(serving.join().unwrap(), 0, "the stream ended");
}

#[test]
fn a_stream_that_nobody_reads_holds_nobody_past_the_deadline() {
    use std::os::unix::net::UnixStream;
    let (ours, theirs) = UnixStream::pair().unwrap();
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
fn nobody_waits_for_a_played_server_that_is_gone() {
    let (client, played) = connected(plain(), Protocol::Session);
    let calls: Vec<_> = (0..5).map(|_| call(&client, "t")).collect();
    for _ in 0..5 {
        played.asked("tools/call");
    }
    drop(played);
    for call in calls {
        assert_eq!(call.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    }
    let (link, gone) = Played::new();
    drop(gone);
    assert_eq!(plain().over(link).unwrap_err().kind(), ErrorKind::Closed);
}
