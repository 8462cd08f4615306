//! Exact frames, against a scripted server.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{Change, CompletionTarget, ErrorKind, Level, Protocol, json as ours};

use super::in_time::in_time;
use super::scripted::{ScriptedPeer, TIMEOUT, call, connected, meta, ok, plain};

#[test]
fn requests_of_both_eras_word_by_word() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let calling = call(&client, "t");
    let message = scripted.receive();
    let id = message["id"].clone();
    assert_eq!(
        message,
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "arguments": {"a": 1}}})
    );
    assert!(id.is_u64());
    scripted.answer(&id, ok());
    assert_eq!(calling.join().unwrap().unwrap(), "ok");

    let (client, scripted) = connected(plain(), Protocol::Stateless);
    let calling = call(&client, "t");
    let message = scripted.receive();
    let id = message["id"].clone();
    assert_eq!(
        message,
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "t", "arguments": {"a": 1}, "_meta": meta(json!({}))}})
    );
    scripted.answer(&id, ok());
    assert_eq!(calling.join().unwrap().unwrap(), "ok");
}

#[test]
fn requests_without_parameters_have_no_params_in_a_session() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let listing = std::thread::spawn({
        let client = client.clone();
        move || (client.tools().map(|t| t.len()), client.ping())
    });
    let message = scripted.receive();
    assert_eq!(message, json!({"jsonrpc": "2.0", "id": message["id"], "method": "tools/list"}));
    scripted.answer(&message["id"], json!({"tools": []}));
    let message = scripted.receive();
    assert_eq!(message, json!({"jsonrpc": "2.0", "id": message["id"], "method": "ping"}));
    scripted.answer(&message["id"], json!({}));
    let (tools, ping) = listing.join().unwrap();
    assert_eq!((tools.unwrap(), ping.is_ok()), (0, true));
}

#[test]
fn a_callers_metadata_and_the_eras_are_both_sent() {
    for (era, mut expected) in [(Protocol::Stateless, meta(json!({}))), (Protocol::Session, json!({}))] {
        let (client, scripted) = connected(plain(), era);
        let asking = std::thread::spawn({
            let client = client.clone();
            move || {
                let request =
                    client.request_method("x/y", ours!({"uri": "u", "_meta": {"traceparent": "00-1"}}));
                request.on_progress(|_| {}).wait()
            }
        });
        let message = scripted.receive();
        expected["traceparent"] = json!("00-1");
        expected["progressToken"] = message["id"].clone();
        assert_eq!(message["params"], json!({"uri": "u", "_meta": expected}));
        scripted.answer(&message["id"], json!({"resultType": "complete", "x": 1}));
        assert_eq!(asking.join().unwrap().unwrap().as_str(), r#"{"resultType":"complete","x":1}"#);
    }
}

#[test]
fn reserved_metadata_of_a_caller_is_rejected_and_not_sent() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let (client, scripted) = connected(plain(), era);
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
        assert!(scripted.end.receive(TIMEOUT).is_none(), "nothing was sent");
    }
}

#[test]
fn progress_is_reported_on_the_waiting_thread_and_not_after_the_result() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, scripted) = connected(plain(), era);
        let (sender, receiver) = mpsc::channel();
        let here = std::thread::current().id();
        let request = client.request_tool("t", ours!({})).on_progress(move |step| {
            assert_eq!(std::thread::current().id(), here);
            sender.send((step.done, step.total, step.message)).unwrap();
        });
        let call = request.start().unwrap();
        let message = scripted.receive();
        let token = message["params"]["_meta"]["progressToken"].clone();
        let step = |n: f64| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n, "total": 4, "message": "m"}});
        for n in [1.0, 2.5, 2.5, 2.0, 3.0] {
            scripted.say(step(n));
        }
        scripted.answer(&message["id"], ok());
        scripted.say(step(4.0));
        call.wait().unwrap();
        let steps: Vec<f64> = receiver.try_iter().map(|(n, ..)| n).collect();
        assert_eq!(steps, [1.0, 2.5, 3.0], "increasing, and none after the result");
        assert!(receiver.recv().is_err(), "the listener is dropped with the call");
    }
}

#[test]
fn a_timeout_cancels_the_call_and_the_late_response_is_dropped() {
    let (client, scripted) = connected(plain(), Protocol::Stateless);
    let error = client.request_tool("t", ours!({})).timeout(Duration::from_millis(10)).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let id = scripted.asked("tools/call");
    assert_eq!(
        scripted.receive(),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    );
    scripted.answer(&id, ok());
    scripted.answer(&id, ok());
    scripted.answer(&json!(999), ok());
    scripted.answer(&json!(id.to_string()), ok());
    let calling = call(&client, "t");
    let id = scripted.asked("tools/call");
    scripted.answer(&id, ok());
    calling.join().unwrap().unwrap();
    assert_eq!((client.stats().late, client.in_flight()), (4, 0));
}

#[test]
fn a_cancelled_call_ends_at_once_and_the_server_is_notified() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let call = client.request_tool("t", ours!({})).start().unwrap();
    let id = scripted.asked("tools/call");
    let canceller = call.canceller();
    let waiting = std::thread::spawn(move || call.wait());
    canceller.cancel();
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    let cancelled = scripted.receive();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &id)
    );
    canceller.cancel();
    // Dropping a call cancels it.
    drop(client.request_tool("t", ours!({})).start().unwrap());
    let id = scripted.asked("tools/call");
    assert_eq!(scripted.receive()["params"]["requestId"], id);
    assert_eq!(client.in_flight(), 0);
}

#[test]
fn a_deadline_can_be_extended_by_progress() {
    in_time(Duration::from_millis(100), progress_goes_on);
}

/// Each progress notification must arrive before the timeout.
fn progress_goes_on(timeout: Duration) -> Option<()> {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let request = client
        .request_tool("t", ours!({}))
        .timeout(timeout)
        .reset_timeout_on_progress(Duration::from_secs(3600));
    let mut call = request.start().unwrap();
    let id = scripted.asked("tools/call");
    let started = Instant::now();
    let mut n = 0;
    while started.elapsed() < timeout * 2 {
        n += 1;
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": n}}));
        if let Some(over) = call.wait_until(Instant::now() + timeout / 10) {
            assert_eq!(over.unwrap_err().kind(), ErrorKind::Timeout);
            return None;
        }
    }
    scripted.answer(&id, ok());
    call.wait().ok().map(drop)
}

#[test]
fn progress_extends_a_deadline_only_up_to_the_limit() {
    let (client, _played) = connected(plain(), Protocol::Session);
    let end = Duration::from_millis(20);
    let request = client.request_tool("t", ours!({})).timeout(TIMEOUT).reset_timeout_on_progress(end);
    assert_eq!(request.wait().unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn lists_are_followed_and_bounded() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}, "x-more": [1]});
    let listing = std::thread::spawn({
        let client = client.clone();
        move || client.tools()
    });
    let id = scripted.asked("tools/list");
    scripted.answer(&id, json!({"tools": [tool("a"), {"no": "name"}], "nextCursor": ""}));
    let message = scripted.receive();
    assert_eq!(message["params"], json!({"cursor": ""}), "an empty cursor is sent");
    scripted.answer(&message["id"], json!({"tools": [tool("b")], "nextCursor": null}));
    let tools = listing.join().unwrap().unwrap();
    assert_eq!(tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(tools[0].source.as_ref().unwrap().as_str(), tool("a").to_string(), "byte for byte");
    let listing = std::thread::spawn({
        let client = client.clone();
        move || client.tools().map(|t| t.len())
    });
    for _ in 0..2 {
        let id = scripted.asked("tools/list");
        scripted.answer(&id, json!({"tools": [], "nextCursor": "again"}));
    }
    assert_eq!(listing.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved, "a circle");
    // A cursor that is no longer valid: the list starts again, once.
    let listing = std::thread::spawn(move || client.tools().map(|t| t.len()));
    let id = scripted.asked("tools/list");
    scripted.answer(&id, json!({"tools": [tool("a")], "nextCursor": "old"}));
    let id = scripted.asked("tools/list");
    scripted.refuse(&id, -32602, "Invalid cursor");
    let message = scripted.receive();
    assert_eq!(message.get("params"), None);
    scripted.answer(&message["id"], json!({"tools": [tool("c"), tool("d")]}));
    assert_eq!(listing.join().unwrap().unwrap(), 2);
}

#[test]
fn fresh_results_are_cached_until_a_change() {
    let (client, scripted) = connected(plain(), Protocol::Stateless);
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
    let id = scripted.asked("tools/list");
    scripted.answer(&id, kept(1_000_000, 1));
    assert_eq!(listing.join().unwrap().unwrap(), 1);
    assert_eq!(client.tools().unwrap().len(), 1, "without asking");
    let fresh = std::thread::spawn({
        let client = client.clone();
        move || client.request_tools(None).bypass_cache().wait().map(|page| page.entries.len())
    });
    let id = scripted.asked("tools/list");
    scripted.answer(&id, kept(0, 5));
    assert_eq!(fresh.join().unwrap().unwrap(), 5);
    // A newer result that must not be cached removes the older one.
    let listing = list(&client);
    let id = scripted.asked("tools/list");
    scripted.answer(&id, kept(1_000_000, 1));
    assert_eq!(listing.join().unwrap().unwrap(), 1);
    // A change has arrived when the response sent after it has.
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let prompts = std::thread::spawn({
        let client = client.clone();
        move || client.prompts().map(|p| p.len())
    });
    let id = scripted.asked("prompts/list");
    scripted.say(changed.clone());
    scripted
        .answer(&id, json!({"resultType": "complete", "prompts": [], "ttlMs": 0, "cacheScope": "private"}));
    assert_eq!(prompts.join().unwrap().unwrap(), 0);
    // A result is not cached if the change was reported between its request and its response.
    let listing = list(&client);
    let id = scripted.asked("tools/list");
    scripted.say(changed);
    scripted.answer(&id, kept(1_000_000, 2));
    assert_eq!(listing.join().unwrap().unwrap(), 2);
    let listing = list(&client);
    let id = scripted.asked("tools/list");
    scripted.answer(&id, kept(0, 3));
    assert_eq!(listing.join().unwrap().unwrap(), 3);
    let listing = list(&client);
    let id = scripted.asked("tools/list");
    scripted.answer(&id, kept(0, 4));
    assert_eq!(listing.join().unwrap().unwrap(), 4, "a result with a lifetime of 0 was cached");
}

#[test]
fn subscriptions_of_both_eras() {
    let (sender, receiver) = mpsc::channel();
    let listening = move |sender: mpsc::Sender<Change>| {
        plain().on_change(move |change| sender.send(change.clone()).unwrap())
    };
    let (client, scripted) = connected(listening(sender.clone()), Protocol::Session);
    let subscribing = std::thread::spawn({
        let client = client.clone();
        move || (client.subscribe("u:1"), client.unsubscribe("u:1"))
    });
    let message = scripted.receive();
    assert_eq!(
        (&message["method"], &message["params"]),
        (&json!("resources/subscribe"), &json!({"uri": "u:1"}))
    );
    scripted.answer(&message["id"], json!({}));
    scripted.say(
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "u:1"}}),
    );
    let message = scripted.receive();
    assert_eq!(message["method"], "resources/unsubscribe");
    scripted.answer(&message["id"], json!({}));
    let (on, off) = subscribing.join().unwrap();
    assert!(on.is_ok() && off.is_ok());
    assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), Change::ResourceUpdated("u:1".into()));

    let (link, scripted) = ScriptedPeer::new();
    let connecting = std::thread::spawn(move || listening(sender).protocol(Protocol::Stateless).over(link));
    scripted.greet_modern();
    // A listener for changes opens a listen request for what the server announced.
    let first = scripted.receive();
    assert_eq!(
        (&first["method"], &first["params"]["notifications"]),
        (&json!("subscriptions/listen"), &json!({"toolsListChanged": true}))
    );
    let acknowledge = |id: &Value, filter: Value| {
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": filter, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
    };
    acknowledge(&first["id"], json!({"toolsListChanged": true}));
    let client = connecting.join().unwrap().unwrap();
    let subscribing = std::thread::spawn({
        let client = client.clone();
        move || client.subscribe("u:1")
    });
    let second = scripted.receive();
    let both = json!({"toolsListChanged": true, "resourceSubscriptions": ["u:1"]});
    assert_eq!(second["params"]["notifications"], both);
    acknowledge(&second["id"], both);
    // The first listen request is cancelled only after the acknowledgement of the second.
    let cancelled = scripted.receive();
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &first["id"])
    );
    subscribing.join().unwrap().unwrap();
    let updated = |id: &Value, uri: &str| {
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
            "params": {"uri": uri, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
    };
    updated(&first["id"], "u:old");
    updated(&second["id"], "u:1");
    assert_eq!(
        receiver.recv_timeout(TIMEOUT).unwrap(),
        Change::ResourceUpdated("u:1".into()),
        "only the open one counts"
    );
    // A stream that the server ends is opened again.
    scripted.answer(&second["id"], json!({"resultType": "complete"}));
    let third = scripted.receive();
    assert_eq!(third["method"], "subscriptions/listen");
    acknowledge(&third["id"], json!({"toolsListChanged": true}));
    // Changes between the two streams reached no listener.
    assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), Change::Tools);
    assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), Change::ResourceUpdated("u:1".into()));
    // A server that does not report updates of a resource acknowledges a filter without it.
    let subscribing = std::thread::spawn({
        let client = client.clone();
        move || client.subscribe("u:2")
    });
    let fourth = loop {
        let message = scripted.receive();
        if message["method"] == "subscriptions/listen" {
            break message;
        }
    };
    acknowledge(&fourth["id"], json!({"toolsListChanged": true}));
    assert_eq!(subscribing.join().unwrap().unwrap_err().kind(), ErrorKind::PeerIncompatible);
}

#[test]
fn a_listen_request_that_ends_repeatedly_is_given_up_and_reported() {
    let (sender, receiver) = mpsc::channel();
    let (link, scripted) = ScriptedPeer::new();
    let builder = plain()
        .on_change(|_| {})
        .on_stray_output(move |stray| sender.send(stray.to_owned()).unwrap())
        .protocol(Protocol::Stateless);
    let connecting = std::thread::spawn(move || builder.over(link));
    scripted.greet_modern();
    let ends = |scripted: &ScriptedPeer| {
        let id = scripted.asked("subscriptions/listen");
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": {"toolsListChanged": true},
                "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
        scripted.answer(&id, json!({"resultType": "complete"}));
    };
    // The request of the connection, and six more, each after a longer pause.
    for _ in 0..7 {
        ends(&scripted);
    }
    let line = receiver.recv_timeout(TIMEOUT).unwrap();
    assert!(line.contains("changes are no longer received"), "{line}");
    let client = connecting.join().unwrap().unwrap();
    assert_eq!(client.stats().stray_output, 0, "no unexpected message arrived");
}

#[test]
fn log_entries_are_requested_as_the_era_defines() {
    let (sender, receiver) = mpsc::channel();
    let listening = |sender: mpsc::Sender<String>| {
        plain().on_log(Level::Warning, move |entry| sender.send(entry.data.as_str().to_owned()).unwrap())
    };
    let (link, scripted) = ScriptedPeer::new();
    let builder = listening(sender.clone());
    let connecting = std::thread::spawn(move || builder.protocol(Protocol::Session).over(link));
    scripted.greet_legacy();
    let message = scripted.receive();
    assert_eq!(
        (&message["method"], &message["params"]),
        (&json!("logging/setLevel"), &json!({"level": "warning"}))
    );
    scripted.answer(&message["id"], json!({}));
    let _client = connecting.join().unwrap().unwrap();
    for n in 0..50 {
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "logger": "l", "data": n}}));
    }
    let entries: Vec<String> = (0..50).map(|_| receiver.recv_timeout(TIMEOUT).unwrap()).collect();
    assert_eq!(entries, (0..50).map(|n| n.to_string()).collect::<Vec<_>>(), "in order");
    let (client, scripted) = connected(listening(sender), Protocol::Stateless);
    let calling = call(&client, "t");
    let message = scripted.receive();
    assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
    scripted.answer(&message["id"], ok());
    calling.join().unwrap().unwrap();
}

#[test]
fn a_completion_sends_the_other_arguments_if_the_revision_allows_it() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let completing = std::thread::spawn(move || {
        client.complete(CompletionTarget::Template("t://{a}/{b}"), "b", "x", &[("a", "1")])
    });
    let message = scripted.receive();
    assert_eq!(
        message["params"],
        json!({"ref": {"type": "ref/resource", "uri": "t://{a}/{b}"}, "argument": {"name": "b", "value": "x"},
            "context": {"arguments": {"a": "1"}}})
    );
    scripted
        .answer(&message["id"], json!({"completion": {"values": ["xa", "xb"], "hasMore": true, "total": 9}}));
    let completion = completing.join().unwrap().unwrap();
    assert_eq!(
        (completion.values.as_slice(), completion.total, completion.more),
        (["xa".to_owned(), "xb".to_owned()].as_slice(), Some(9), true)
    );
}
