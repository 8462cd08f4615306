//! Token checks that wait for another machine.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde_json::json;
use tinymcp::{Principal, TokenRefusal};

use crate::client::{Served, TIMEOUT, serve_with, server, stage};

/// A server whose verifier reports each token that begins with `slow`, then waits for `go`.
fn guarded() -> (Served, Receiver<String>, Sender<()>) {
    let (started, starts) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let verifier = move |token: &str| {
        if token.starts_with("slow") {
            started.send(token.to_owned()).unwrap();
            let _ = gate.lock().unwrap_or_else(PoisonError::into_inner).recv();
        }
        match token {
            "slow-bad" => Err(TokenRefusal::Invalid),
            "weak" => Err(TokenRefusal::Scope("all".into())),
            "broken" => panic!("the verifier panics"),
            token => Ok(Principal::new(token)),
        }
    };
    (serve_with(server(stage()), |http| http.token_verifier(verifier)), starts, go)
}

fn who(served: &Served, token: &str) -> (u16, serde_json::Value) {
    let authorization = format!("Bearer {token}");
    let answer = served.modern(&[("Authorization", &authorization)], "tools/call", json!({"name": "who"}));
    (answer.status, answer.json()["result"]["content"][0]["text"].clone())
}

#[test]
fn a_slow_check_delays_only_its_own_requests() {
    let (served, starts, go) = guarded();
    thread::scope(|scope| {
        let slow = scope.spawn(|| who(&served, "slow-alice"));
        let again = scope.spawn(|| who(&served, "slow-alice"));
        assert_eq!(starts.recv_timeout(TIMEOUT).unwrap(), "slow-alice");
        assert_eq!(who(&served, "bob"), (200, json!("bob")));
        assert_eq!(who(&served, "weak").0, 403);
        assert_eq!(served.call("who", json!({})).status, 401);
        go.send(()).unwrap();
        assert_eq!(slow.join().unwrap(), (200, json!("slow-alice")));
        assert_eq!(again.join().unwrap(), (200, json!("slow-alice")));
    });
    assert_eq!(who(&served, "slow-alice"), (200, json!("slow-alice")));
    assert!(starts.try_recv().is_err(), "the token was checked twice");
    drop(go);
    assert_eq!(who(&served, "slow-bad").0, 401);
    assert_eq!(who(&served, "broken").0, 503);
}

#[test]
fn sessions_work_with_a_verifier() {
    let (served, _starts, go) = guarded();
    drop(go);
    let field = ("Authorization", "Bearer slow-alice");
    let opened = served.post(&[field], &crate::client::initialize("2025-11-25", json!({})));
    let session = opened.field("mcp-session-id").unwrap().to_owned();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "who"}});
    let as_whom =
        |token: &str| served.post(&[("Authorization", token), ("Mcp-Session-Id", &session)], &message);
    assert_eq!(as_whom("Bearer slow-alice").json()["result"]["content"][0]["text"], "slow-alice");
    assert_eq!(as_whom("Bearer bob").status, 404);
}
