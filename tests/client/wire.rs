//! Frames word by word, against a server played by hand.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{Change, CompletionTarget, ErrorKind, Level, Protocol, json as ours};

use super::played::{Played, SOON, call, connected, in_time, meta, ok, plain};

#[test]
fn requests_of_both_eras_word_by_word() {
    let (client, played) = connected(plain(), Protocol::Session);
    let calling = call(&client, "t");
    let message = played.hear();
    let id = message["id"].clone();
    assert_eq!(
        message,
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "arguments": {"a": 1}}})
    );
    assert!(id.is_u64());
    played.answer(&id, ok());
    assert_eq!(calling.join().unwrap().unwrap(), "ok");

    let (client, played) = connected(plain(), Protocol::Stateless);
    let calling = call(&client, "t");
    let message = played.hear();
    let id = message["id"].clone();
    assert_eq!(
        message,
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "t", "arguments": {"a": 1}, "_meta": meta(json!({}))}})
    );
    played.answer(&id, ok());
    assert_eq!(calling.join().unwrap().unwrap(), "ok");
}

#[test]
fn what_has_no_parameters_has_none_in_a_session() {
    let (client, played) = connected(plain(), Protocol::Session);
    let listing = std::thread::spawn({
        let client = client.clone();
        move || (client.tools().map(|t| t.len()), client.ping())
    });
    let message = played.hear();
    assert_eq!(message, json!({"jsonrpc": "2.0", "id": message["id"], "method": "tools/list"}));
    played.answer(&message["id"], json!({"tools": []}));
    let message = played.hear();
    assert_eq!(message, json!({"jsonrpc": "2.0", "id": message["id"], "method": "ping"}));
    played.answer(&message["id"], json!({}));
    let (tools, ping) = listing.join().unwrap();
    assert_eq!((tools.unwrap(), ping.is_ok()), (0, true));
}

#[test]
fn a_callers_metadata_and_the_eras_are_both_sent() {
    for (era, mut expected) in [(Protocol::Stateless, meta(json!({}))), (Protocol::Session, json!({}))] {
        let (client, played) = connected(plain(), era);
        let asking = std::thread::spawn({
            let client = client.clone();
            move || {
                let request =
                    client.request_method("x/y", ours!({"uri": "u", "_meta": {"traceparent": "00-1"}}));
                request.on_progress(|_| {}).wait()
            }
        });
        let message = played.hear();
        expected["traceparent"] = json!("00-1");
        expected["progressToken"] = message["id"].clone();
        assert_eq!(message["params"], json!({"uri": "u", "_meta": expected}));
        played.answer(&message["id"], json!({"resultType": "complete", "x": 1}));
        assert_eq!(asking.join().unwrap().unwrap().as_str(), r#"{"resultType":"complete","x":1}"#);
    }
}

#[test]
fn metadata_that_a_caller_may_not_write_is_refused_in_words_and_not_sent() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let (client, played) = connected(plain(), era);
        for (params, why) in [
            (r#"{"_meta": 1}"#, "the request's _meta is not an object"),
            (r#"{"_meta": null}"#, "the request's _meta is not an object"),
            (
                r#"{"_meta": {"a": 1, "io.modelcontextprotocol/clientInfo": {}}}"#,
                r#"the request's _meta has a member "io.modelcontextprotocol/clientInfo", whose prefix is reserved for the protocol"#,
            ),
            (
                r#"{"_meta": {"progressToken": 7}}"#,
                r#"the request's _meta has the member "progressToken", which only `Request::on_progress` may set"#,
            ),
            (r#"{"_meta": {"a": 1, "a": 1}}"#, r#"the object of parameters has the member "a" twice"#),
            (r#"{"_meta": {}, "_meta": {}}"#, r#"the object of parameters has the member "_meta" twice"#),
            ("[]", "params must be an object"),
        ] {
            let error = client.request("x/y", tinymcp::json::Json::constant(params)).unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, why));
        }
        client.close();
        assert!(played.end.receive(SOON).is_none(), "nothing was sent");
    }
}

#[test]
fn progress_is_told_on_the_waiting_thread_and_never_later() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, played) = connected(plain(), era);
        let (tell, told) = mpsc::channel();
        let here = std::thread::current().id();
        let request = client.request_tool("t", ours!({})).on_progress(move |step| {
            assert_eq!(std::thread::current().id(), here);
            tell.send((step.done, step.total, step.message)).unwrap();
        });
        let call = request.start().unwrap();
        let message = played.hear();
        let token = message["params"]["_meta"]["progressToken"].clone();
        let step = |n: f64| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n, "total": 4, "message": "m"}});
        for n in [1.0, 2.5, 2.5, 2.0, 3.0] {
            played.say(step(n));
        }
        played.answer(&message["id"], ok());
        played.say(step(4.0));
        call.wait().unwrap();
        let steps: Vec<f64> = told.try_iter().map(|(n, ..)| n).collect();
        assert_eq!(steps, [1.0, 2.5, 3.0], "rising, and nothing after the answer");
        assert!(told.recv().is_err(), "the listener is gone with the call");
    }
}

#[test]
fn a_timeout_tells_the_server_and_the_late_answer_is_dropped() {
    let (client, played) = connected(plain(), Protocol::Stateless);
    let error = client.request_tool("t", ours!({})).timeout(Duration::from_millis(10)).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let id = played.asked("tools/call");
    assert_eq!(
        played.hear(),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    );
    played.answer(&id, ok());
    played.answer(&id, ok());
    played.answer(&json!(999), ok());
    played.answer(&json!(id.to_string()), ok());
    let calling = call(&client, "t");
    let id = played.asked("tools/call");
    played.answer(&id, ok());
    calling.join().unwrap().unwrap();
    assert_eq!((client.stats().late, client.in_flight()), (4, 0));
}

#[test]
fn a_cancelled_call_ends_at_once_and_the_server_is_told() {
    let (client, played) = connected(plain(), Protocol::Session);
    let call = client.request_tool("t", ours!({})).start().unwrap();
    let id = played.asked("tools/call");
    let canceller = call.canceller();
    let waiting = std::thread::spawn(move || call.wait());
    canceller.cancel();
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    let cancelled = played.hear();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &id)
    );
    canceller.cancel();
    // Dropping a call is cancelling it.
    drop(client.request_tool("t", ours!({})).start().unwrap());
    let id = played.asked("tools/call");
    assert_eq!(played.hear()["params"]["requestId"], id);
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn a_deadline_can_be_extended_by_progress() {
    in_time(Duration::from_millis(100), progress_goes_on);
}

/// Progress has to come before the time is over, again and again.
fn progress_goes_on(timeout: Duration) -> Option<()> {
    let (client, played) = connected(plain(), Protocol::Session);
    let request =
        client.request_tool("t", ours!({})).timeout(timeout).extended_by_progress(Duration::from_secs(3600));
    let mut call = request.start().unwrap();
    let id = played.asked("tools/call");
    let started = Instant::now();
    let mut n = 0;
    while started.elapsed() < timeout * 2 {
        n += 1;
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": n}}));
        if let Some(over) = call.wait_until(Instant::now() + timeout / 10) {
            assert_eq!(over.unwrap_err().kind(), ErrorKind::Timeout);
            return None;
        }
    }
    played.answer(&id, ok());
    call.wait().ok().map(drop)
}

#[test]
fn a_deadline_has_an_end_whatever_progress_says() {
    let (client, _played) = connected(plain(), Protocol::Session);
    let end = Duration::from_millis(20);
    let request = client.request_tool("t", ours!({})).timeout(SOON).extended_by_progress(end);
    assert_eq!(request.wait().unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn lists_are_followed_and_bounded() {
    let (client, played) = connected(plain(), Protocol::Session);
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}, "x-more": [1]});
    let listing = std::thread::spawn({
        let client = client.clone();
        move || client.tools()
    });
    let id = played.asked("tools/list");
    played.answer(&id, json!({"tools": [tool("a"), {"no": "name"}], "nextCursor": ""}));
    let message = played.hear();
    assert_eq!(message["params"], json!({"cursor": ""}), "an empty cursor is one");
    played.answer(&message["id"], json!({"tools": [tool("b")], "nextCursor": null}));
    let tools = listing.join().unwrap().unwrap();
    assert_eq!(tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(tools[0].source.as_ref().unwrap().as_str(), tool("a").to_string(), "byte for byte");
    let listing = std::thread::spawn({
        let client = client.clone();
        move || client.tools().map(|t| t.len())
    });
    for _ in 0..2 {
        let id = played.asked("tools/list");
        played.answer(&id, json!({"tools": [], "nextCursor": "again"}));
    }
    assert_eq!(listing.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved, "a circle");
    // A cursor that is not valid any more: from the beginning, once.
    let listing = std::thread::spawn(move || client.tools().map(|t| t.len()));
    let id = played.asked("tools/list");
    played.answer(&id, json!({"tools": [tool("a")], "nextCursor": "old"}));
    let id = played.asked("tools/list");
    played.refuse(&id, -32602, "Invalid cursor");
    let message = played.hear();
    assert_eq!(message.get("params"), None);
    played.answer(&message["id"], json!({"tools": [tool("c"), tool("d")]}));
    assert_eq!(listing.join().unwrap().unwrap(), 2);
}

#[test]
fn fresh_answers_are_kept_until_a_change() {
    let (client, played) = connected(plain(), Protocol::Stateless);
    let list = |client: &tinymcp::Client| {
        let client = client.clone();
        std::thread::spawn(move || client.tools().map(|t| t.len()))
    };
    let kept = |ttl: u64, tools: usize| {
        let tools: Vec<Value> =
            (0..tools).map(|n| json!({"name": n.to_string(), "inputSchema": {"type": "object"}})).collect();
        json!({"resultType": "complete", "tools": tools, "ttlMs": ttl, "cacheScope": "private"})
    };
    let listing = list(&client);
    let id = played.asked("tools/list");
    played.answer(&id, kept(1_000_000, 1));
    assert_eq!(listing.join().unwrap().unwrap(), 1);
    assert_eq!(client.tools().unwrap().len(), 1, "without asking");
    let fresh = std::thread::spawn({
        let client = client.clone();
        move || client.request_tools(None).fresh().wait().map(|page| page.entries.len())
    });
    let id = played.asked("tools/list");
    played.answer(&id, kept(0, 5));
    assert_eq!(fresh.join().unwrap().unwrap(), 5);
    // A newer answer that may not be kept takes the older one with it.
    let listing = list(&client);
    let id = played.asked("tools/list");
    played.answer(&id, kept(1_000_000, 1));
    assert_eq!(listing.join().unwrap().unwrap(), 1);
    // A change is known to have arrived when the answer sent after it has.
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let prompts = std::thread::spawn({
        let client = client.clone();
        move || client.prompts().map(|p| p.len())
    });
    let id = played.asked("prompts/list");
    played.say(changed.clone());
    played.answer(&id, json!({"resultType": "complete", "prompts": [], "ttlMs": 0, "cacheScope": "private"}));
    assert_eq!(prompts.join().unwrap().unwrap(), 0);
    // An answer that was asked for before the change was told is not kept: asked, told, answered.
    let listing = list(&client);
    let id = played.asked("tools/list");
    played.say(changed);
    played.answer(&id, kept(1_000_000, 2));
    assert_eq!(listing.join().unwrap().unwrap(), 2);
    let listing = list(&client);
    let id = played.asked("tools/list");
    played.answer(&id, kept(0, 3));
    assert_eq!(listing.join().unwrap().unwrap(), 3);
    let listing = list(&client);
    let id = played.asked("tools/list");
    played.answer(&id, kept(0, 4));
    assert_eq!(listing.join().unwrap().unwrap(), 4, "a time of 0 is no time");
}

#[test]
fn subscriptions_of_both_eras() {
    let (tell, told) = mpsc::channel();
    let hear =
        move |tell: mpsc::Sender<Change>| plain().on_change(move |change| tell.send(change.clone()).unwrap());
    let (client, played) = connected(hear(tell.clone()), Protocol::Session);
    let subscribing = std::thread::spawn({
        let client = client.clone();
        move || (client.subscribe("u:1"), client.unsubscribe("u:1"))
    });
    let message = played.hear();
    assert_eq!(
        (&message["method"], &message["params"]),
        (&json!("resources/subscribe"), &json!({"uri": "u:1"}))
    );
    played.answer(&message["id"], json!({}));
    played.say(
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "u:1"}}),
    );
    let message = played.hear();
    assert_eq!(message["method"], "resources/unsubscribe");
    played.answer(&message["id"], json!({}));
    let (on, off) = subscribing.join().unwrap();
    assert!(on.is_ok() && off.is_ok());
    assert_eq!(told.recv_timeout(SOON).unwrap(), Change::Updated("u:1".into()));

    let (link, played) = Played::new();
    let connecting = std::thread::spawn(move || hear(tell).protocol(Protocol::Stateless).over(link));
    played.greet_modern();
    // A listener for changes opens a listen request for what the server announced.
    let first = played.hear();
    assert_eq!(
        (&first["method"], &first["params"]["notifications"]),
        (&json!("subscriptions/listen"), &json!({"toolsListChanged": true}))
    );
    let acknowledge = |id: &Value, filter: Value| {
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": filter, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
    };
    acknowledge(&first["id"], json!({"toolsListChanged": true}));
    let client = connecting.join().unwrap().unwrap();
    let subscribing = std::thread::spawn({
        let client = client.clone();
        move || client.subscribe("u:1")
    });
    let second = played.hear();
    let both = json!({"toolsListChanged": true, "resourceSubscriptions": ["u:1"]});
    assert_eq!(second["params"]["notifications"], both);
    acknowledge(&second["id"], both);
    // Only then the first one is cancelled.
    let cancelled = played.hear();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &first["id"])
    );
    subscribing.join().unwrap().unwrap();
    let updated = |id: &Value, uri: &str| {
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
            "params": {"uri": uri, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
    };
    updated(&first["id"], "u:old");
    updated(&second["id"], "u:1");
    assert_eq!(told.recv_timeout(SOON).unwrap(), Change::Updated("u:1".into()), "only the open one counts");
    // One that the server ends is opened again.
    played.answer(&second["id"], json!({"resultType": "complete"}));
    let third = played.hear();
    assert_eq!(third["method"], "subscriptions/listen");
    acknowledge(&third["id"], json!({"toolsListChanged": true}));
    // What was told between the two was told to nobody.
    assert_eq!(told.recv_timeout(SOON).unwrap(), Change::Tools);
    assert_eq!(told.recv_timeout(SOON).unwrap(), Change::Updated("u:1".into()));
    // A server that does not tell of a resource says so.
    let subscribing = std::thread::spawn({
        let client = client.clone();
        move || client.subscribe("u:2")
    });
    let fourth = loop {
        let message = played.hear();
        if message["method"] == "subscriptions/listen" {
            break message;
        }
    };
    acknowledge(&fourth["id"], json!({"toolsListChanged": true}));
    assert_eq!(subscribing.join().unwrap().unwrap_err().kind(), ErrorKind::PeerIncompatible);
}

#[test]
fn a_server_that_keeps_ending_the_request_that_listens_is_left_alone_and_that_is_told() {
    let (tell, told) = mpsc::channel();
    let (link, played) = Played::new();
    let builder = plain()
        .on_change(|_| {})
        .on_noise(move |noise| tell.send(noise.to_owned()).unwrap())
        .protocol(Protocol::Stateless);
    let connecting = std::thread::spawn(move || builder.over(link));
    played.greet_modern();
    let ends = |played: &Played| {
        let id = played.asked("subscriptions/listen");
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": {"toolsListChanged": true},
                "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
        played.answer(&id, json!({"resultType": "complete"}));
    };
    // The one of the connection, and six more, each after a longer pause.
    for _ in 0..7 {
        ends(&played);
    }
    let told = told.recv_timeout(SOON).unwrap();
    assert!(told.contains("changes are no longer received"), "{told}");
    let client = connecting.join().unwrap().unwrap();
    assert_eq!(client.stats().noise, 0, "nothing strange came");
}

#[test]
fn log_entries_are_wanted_in_the_way_of_the_era() {
    let (tell, told) = mpsc::channel();
    let hear = |tell: mpsc::Sender<String>| {
        plain().on_log(Level::Warning, move |entry| tell.send(entry.data.as_str().to_owned()).unwrap())
    };
    let (link, played) = Played::new();
    let builder = hear(tell.clone());
    let connecting = std::thread::spawn(move || builder.protocol(Protocol::Session).over(link));
    played.greet_legacy();
    let message = played.hear();
    assert_eq!(
        (&message["method"], &message["params"]),
        (&json!("logging/setLevel"), &json!({"level": "warning"}))
    );
    played.answer(&message["id"], json!({}));
    let _client = connecting.join().unwrap().unwrap();
    for n in 0..50 {
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "logger": "l", "data": n}}));
    }
    let heard: Vec<String> = (0..50).map(|_| told.recv_timeout(SOON).unwrap()).collect();
    assert_eq!(heard, (0..50).map(|n| n.to_string()).collect::<Vec<_>>(), "in order");
    let (client, played) = connected(hear(tell), Protocol::Stateless);
    let calling = call(&client, "t");
    let message = played.hear();
    assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
    played.answer(&message["id"], ok());
    calling.join().unwrap().unwrap();
}

#[test]
fn a_completion_names_what_is_settled_where_the_revision_can() {
    let (client, played) = connected(plain(), Protocol::Session);
    let completing = std::thread::spawn(move || {
        client.complete(CompletionTarget::Template("t://{a}/{b}"), "b", "x", &[("a", "1")])
    });
    let message = played.hear();
    assert_eq!(
        message["params"],
        json!({"ref": {"type": "ref/resource", "uri": "t://{a}/{b}"}, "argument": {"name": "b", "value": "x"},
            "context": {"arguments": {"a": "1"}}})
    );
    played
        .answer(&message["id"], json!({"completion": {"values": ["xa", "xb"], "hasMore": true, "total": 9}}));
    let completion = completing.join().unwrap().unwrap();
    assert_eq!(
        (completion.values.as_slice(), completion.total, completion.more),
        (["xa".to_owned(), "xb".to_owned()].as_slice(), Some(9), true)
    );
}
