//! Servers that never stop saying something: no call outlasts its deadline for it, and no news is forgotten.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use tinymcp::{ErrorKind, FormResponse, Limits, Protocol, Root, Stderr, json as ours};

use super::children::{legacy, session};
use super::played::{Played, SOON, connected, holding, plain};

#[test]
fn progress_that_comes_faster_than_it_is_heard_ends_with_the_deadline() {
    let (client, played) = connected(plain(), Protocol::Session);
    let (tell, told) = mpsc::channel();
    let (give, given) = mpsc::channel();
    let endless = Arc::new(AtomicBool::new(false));
    let since = Instant::now();
    let waited = Arc::clone(&endless);
    let request = client.request_tool("t", ours!({})).timeout(Duration::from_millis(50));
    let calling = std::thread::spawn(move || {
        let mut done = 1;
        let mut played: Option<(Played, serde_json::Value)> = None;
        let call = request.on_progress(move |_| {
            if since.elapsed() > SOON {
                return waited.store(true, Ordering::Relaxed);
            }
            let (played, token) = played.get_or_insert_with(|| given.recv().unwrap());
            // Two more for each that is heard; when the ping is answered they are there.
            for _ in 0..2 {
                done += 1;
                let params = json!({"progressToken": token, "progress": done});
                played.say(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
            }
            played.say(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
            while played.hear()["id"] != "p" {}
        });
        tell.send(call.wait()).unwrap();
    });
    let message = played.hear();
    let token = message["params"]["_meta"]["progressToken"].clone();
    played.say(json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1}}));
    give.send((played, token)).unwrap();
    let outcome = told.recv_timeout(2 * SOON).unwrap();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(!endless.load(Ordering::Relaxed), "it went on until the server stopped");
    calling.join().unwrap();
}

#[test]
fn a_server_that_reads_no_more_delays_nothing_that_it_says() {
    // It asks forty times and hears no answer; whoever waited a second for each would be late.
    let script = r#"read -r call
id=${call#*'"id":'}; id=${id%%,*}
exec 0<&-
n=0
while [ $n -lt 40 ]; do n=$((n + 1)); printf '%s\n' '{"jsonrpc":"2.0","id":'$n',"method":"ping"}'; done
printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[]}}'
exec sleep 60"#;
    let mut limits = Limits::default();
    limits.child_exit = Duration::ZERO;
    let client = legacy().limits(limits).stderr(Stderr::Null).spawn(session(script)).unwrap();
    client.request_tool("t", ours!({})).timeout(SOON).wait().unwrap();
}

#[test]
fn roots_are_no_time_to_think() {
    let (hold, held) = holding();
    let mut limits = Limits::default();
    limits.handlers = 1;
    let root = Root { uri: "file:///x".into(), name: None };
    let builder = plain().limits(limits).roots([root]).on_noise(move |_| hold(()));
    let (client, played) = connected(builder, Protocol::Session);
    assert!(played.end.send("noise"));
    held.begun();
    // Nobody is there to answer.
    played.say(json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}));
    let (tell, told) = mpsc::channel();
    let request = client.request_tool("t", ours!({})).timeout(Duration::from_millis(50));
    std::thread::spawn(move || tell.send(request.wait()));
    let outcome = told.recv_timeout(SOON).expect("the call ends although the roots were asked for");
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn a_server_that_wants_to_be_called_again_is_so_within_the_deadline() {
    let (client, played) = connected(plain(), Protocol::Stateless);
    let serving = std::thread::spawn(move || {
        while let Some(text) = played.end.receive(SOON) {
            let message: serde_json::Value = serde_json::from_str(&text).unwrap();
            if message["method"] == "tools/call" {
                let result = json!({"resultType": "input_required", "requestState": "x"});
                // The client may be closed by now.
                played
                    .end
                    .send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string());
            }
        }
    });
    // The pauses between the ten calls there may be take longer.
    let outcome = client.request_tool("t", ours!({})).timeout(Duration::from_millis(300)).wait();
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
    client.close();
    serving.join().unwrap();
}

#[test]
fn news_that_come_while_all_handlers_are_busy_are_told_afterwards() {
    let (hold, held) = holding();
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let mut limits = Limits::default();
    (limits.handlers, limits.events) = (1, 1);
    let builder = plain()
        .limits(limits)
        .on_form(move |_| {
            hold(());
            Ok(FormResponse::decline())
        })
        .on_noise(move |noise| tell.lock().unwrap().send(noise.to_owned()).unwrap());
    let (_client, played) = connected(builder, Protocol::Session);
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    let ask = |id| {
        played
            .say(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": form.clone()}))
    };
    ask(1);
    held.begun();
    // One waits; the next is turned away, so there is no room.
    ask(2);
    ask(3);
    assert_eq!(played.hear()["id"], 3);
    assert!(played.end.send("noise"));
    played.say(json!({"jsonrpc": "2.0", "id": 4, "method": "ping"}));
    assert_eq!(played.hear()["id"], 4);
    held.go_on();
    held.begun();
    held.go_on();
    assert_eq!(told.recv_timeout(SOON).unwrap(), "noise");
}
