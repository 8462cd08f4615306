//! Shutdown with open streams and running calls.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::client::{serve, serve_with, server, stage};

#[test]
fn open_streams_and_running_calls_do_not_delay_the_shutdown() {
    if crate::client::is_mounted() {
        return;
    }
    let stage = stage();
    let served = serve(server(stage));
    let id = served.open("2025-11-25", json!({"elicitation": {}}));
    let general = served.send("GET", "/mcp", &[("Mcp-Session-Id", &id), ("Accept", "text/event-stream")], "");
    let mut asking = served.ask(&id, 1, "tools/call", json!({"name": "ask"}));
    let question = asking.message();
    let _idle = std::net::TcpStream::connect(&served.address).unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| served.call("wait", json!({})).json());
        stage.await_mark("waits");
        served.handle.stop();
        // Calls that wait for their client get an error; running calls finish.
        assert_eq!(
            asking.message(),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": question["id"]}})
        );
        assert_eq!(asking.message()["result"]["isError"], true);
        assert_eq!(asking.event(), None);
        assert!(general.rest().iter().all(|event| event.data.is_empty()));
        stage.mark("go");
        assert_eq!(running.join().unwrap()["result"]["content"][0]["text"], "went");
    });
    served.ended();
    // The port is free immediately.
    TcpListener::bind(&served.address).unwrap();
}

#[test]
fn a_call_that_does_not_end_is_answered_when_the_grace_period_is_over() {
    let stage = stage();
    let mut server = server(stage);
    let mut limits = tinymcp::Limits::default();
    limits.grace = Duration::from_millis(50);
    server.limits(limits);
    let served = serve_with(server, |http| http);
    thread::scope(|scope| {
        let running = scope.spawn(|| served.call("wait", json!({})).json());
        stage.await_mark("waits");
        served.handle.stop();
        assert_eq!(running.join().unwrap()["result"]["isError"], true);
    });
    served.ended();
    stage.await_mark("cancelled");
}
