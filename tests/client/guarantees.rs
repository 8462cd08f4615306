//! Promises of the manual that no other test of clients covers.

use std::sync::mpsc;

use serde_json::json;
use tinymcp::{Call, Protocol, ToolOutput, json as ours};

use super::scripted::{TIMEOUT, connected, plain};

fn text(text: &str) -> serde_json::Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

#[test]
fn clients_with_equal_request_ids_get_their_own_responses() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let clients = [connected(plain(), era), connected(plain(), era)];
        let calls: Vec<Call<ToolOutput>> =
            clients.iter().map(|(client, _)| client.request_tool("t", ours!({})).start().unwrap()).collect();
        let ids: Vec<_> = clients.iter().map(|(_, server)| server.asked("tools/call")).collect();
        assert_eq!(ids[0], ids[1], "both clients count from the same number");
        // Answered in the opposite order.
        for (n, (_, server)) in clients.iter().enumerate().rev() {
            server.answer(&ids[n], text(&n.to_string()));
        }
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.wait().unwrap().texts(), n.to_string());
        }
    }
}

#[test]
fn a_progress_listener_may_use_its_own_client() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, server) = connected(plain(), era);
        let (started, second) = mpsc::channel();
        let inner = client.clone();
        let request = client.request_tool("first", ours!({})).on_progress(move |_| {
            assert_eq!(inner.in_flight(), 1);
            started.send(inner.request_tool("second", ours!({})).start().unwrap()).unwrap();
        });
        let call = request.start().unwrap();
        let message = server.receive();
        let token = &message["params"]["_meta"]["progressToken"];
        server.say(json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1}}));
        let waiting = std::thread::spawn(move || call.wait().unwrap().texts());
        let id = server.asked("tools/call");
        server.answer(&id, text("second"));
        assert_eq!(second.recv_timeout(TIMEOUT).unwrap().wait().unwrap().texts(), "second");
        server.answer(&message["id"], text("first"));
        assert_eq!(waiting.join().unwrap(), "first");
    }
}
