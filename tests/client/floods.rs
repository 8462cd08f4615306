//! Servers that send without end: no call outlasts its deadline, and no notification is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use tinymcp::{ElicitResponse, ErrorKind, Limits, Protocol, Root, Stderr, json as ours};

use super::children::{legacy, session};
use super::scripted::{ScriptedPeer, TIMEOUT, connected, holding, plain};

#[test]
fn progress_faster_than_its_listener_ends_with_the_deadline() {
    let (client, scripted) = connected(plain(), Protocol::Session);
    let (sender, receiver) = mpsc::channel();
    let (give, given) = mpsc::channel();
    let endless = Arc::new(AtomicBool::new(false));
    let since = Instant::now();
    let waited = Arc::clone(&endless);
    let request = client.request_tool("t", ours!({})).timeout(Duration::from_millis(50));
    let calling = std::thread::spawn(move || {
        let mut done = 1;
        let mut scripted: Option<(ScriptedPeer, serde_json::Value)> = None;
        let call = request.on_progress(move |_| {
            if since.elapsed() > TIMEOUT {
                return waited.store(true, Ordering::Relaxed);
            }
            let (scripted, token) = scripted.get_or_insert_with(|| given.recv().unwrap());
            // Two more for each one that was delivered; they have arrived when the ping has a response.
            for _ in 0..2 {
                done += 1;
                let params = json!({"progressToken": token, "progress": done});
                scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
            }
            scripted.say(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
            while scripted.receive()["id"] != "p" {}
        });
        sender.send(call.wait()).unwrap();
    });
    let message = scripted.receive();
    let token = message["params"]["_meta"]["progressToken"].clone();
    scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1}}));
    give.send((scripted, token)).unwrap();
    let outcome = receiver.recv_timeout(2 * TIMEOUT).unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(!endless.load(Ordering::Relaxed), "it went on until the server stopped");
    calling.join().unwrap();
}

#[test]
fn a_server_that_stops_reading_does_not_delay_its_own_messages() {
    // The server sends forty requests and reads no response. A caller that waits a second for each would be late.
    let script = r#"read -r call
id=${call#*'"id":'}; id=${id%%,*}
exec 0<&-
n=0
while [ $n -lt 40 ]; do n=$((n + 1)); printf '%s\n' '{"jsonrpc":"2.0","id":'$n',"method":"ping"}'; done
printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[]}}'
exec sleep 60"#;
    let mut limits = Limits::default();
    limits.client.child_exit = Duration::ZERO;
    let client = legacy().limits(limits).stderr(Stderr::Null).spawn(session(script)).unwrap();
    client.request_tool("t", ours!({})).timeout(TIMEOUT).wait().unwrap();
}

#[test]
fn a_request_for_roots_does_not_extend_the_deadline() {
    let (hold, held) = holding();
    let mut limits = Limits::default();
    limits.client.handlers = 1;
    let root = Root { uri: "file:///x".into(), name: None };
    let builder = plain().limits(limits).roots([root]).on_stray_output(move |_| hold(()));
    let (client, scripted) = connected(builder, Protocol::Session);
    assert!(scripted.end.send("stray"));
    held.begun();
    // The handler thread is held, so nothing responds to this.
    scripted.say(json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
    let (sender, receiver) = mpsc::channel();
    let request = client.request_tool("t", ours!({})).timeout(Duration::from_millis(50));
    std::thread::spawn(move || sender.send(request.wait()));
    let outcome = receiver.recv_timeout(TIMEOUT).expect("the call ends despite the request for roots");
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn endless_repetitions_of_a_call_end_at_the_deadline() {
    let (client, scripted) = connected(plain(), Protocol::Stateless);
    let serving = std::thread::spawn(move || {
        while let Some(text) = scripted.end.receive(TIMEOUT) {
            let message: serde_json::Value = serde_json::from_str(&text).unwrap();
            if message["method"] == "tools/call" {
                let result = json!({"resultType": "input_required", "requestState": "x"});
                // The client may be closed by now.
                scripted
                    .end
                    .send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string());
            }
        }
    });
    // The pauses between at most ten calls take longer.
    let outcome = client.request_tool("t", ours!({})).timeout(Duration::from_millis(300)).wait();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
    client.close();
    serving.join().unwrap();
}

#[test]
fn notifications_during_busy_handlers_are_delivered_afterwards() {
    let (hold, held) = holding();
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let mut limits = Limits::default();
    (limits.client.handlers, limits.client.events) = (1, 1);
    let builder = plain()
        .limits(limits)
        .on_elicit(move |_| {
            hold(());
            Ok(ElicitResponse::decline())
        })
        .on_stray_output(move |stray| sender.lock().unwrap().send(stray.to_owned()).unwrap());
    let (_client, scripted) = connected(builder, Protocol::Session);
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    let ask = |id| {
        scripted
            .say(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": form.clone()}))
    };
    ask(1);
    held.begun();
    // One waits and the next one is rejected, so the queue is full.
    ask(2);
    ask(3);
    assert_eq!(scripted.receive()["id"], 3);
    assert!(scripted.end.send("stray"));
    scripted.say(json!({"jsonrpc": "2.0", "id": 4, "method": "ping"}));
    assert_eq!(scripted.receive()["id"], 4);
    held.go_on();
    held.begun();
    held.go_on();
    assert_eq!(receiver.recv_timeout(TIMEOUT).unwrap(), "stray");
}
