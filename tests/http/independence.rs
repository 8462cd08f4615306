//! Requests of one client do not affect those of another.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{Level, Limits, Server, Tool, json::Json};

use crate::client::{Answer, Served, TIMEOUT, request, serve, serve_with, server, stage};

/// Posts a modern call of `echo` with this text in the place of its id.
fn call_with_id(served: &Served, id: &str) -> Answer {
    let call = request(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hello"}}));
    let body = call.to_string().replace("\"id\":1,", &format!("\"id\":{id},"));
    assert!(body.contains(&format!("\"id\":{id},")), "the id was not replaced: {body}");
    let fields = [
        ("Content-Type", "application/json"),
        ("Accept", crate::client::BOTH),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "echo"),
    ];
    served.send("POST", "/mcp", &fields, &body)
}

#[test]
fn a_malformed_id_does_not_affect_other_calls() {
    let served = serve(server(stage()));
    for bad in ["4.099002.000", "1.5.2", "1-2", "12e3e4", "01"] {
        for good in ["4.0", "7", "123456"] {
            let before = call_with_id(&served, good);
            let (status, before) = (before.status, before.body());
            assert_eq!(call_with_id(&served, bad).refusal(), (400, -32700), "{bad}");
            let after = call_with_id(&served, good);
            assert_eq!((after.status, after.body()), (status, before), "{good} after {bad}");
        }
    }
}

/// A server whose calls in flight may hold 8 KiB.
fn small() -> Served {
    let mut limits = Limits::default();
    limits.in_flight_bytes = 8 << 10;
    let mut server = Server::new("small", "1");
    server.limits(limits);
    server.tool(Tool::new("length"), |_, a: Json| Ok(a.as_str().len().to_string())).unwrap();
    serve_with(server, |http| http)
}

fn length_call(id: u64, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": "length", "arguments": {"text": text}}})
}

#[test]
fn a_batch_beyond_the_memory_for_calls_does_not_block_the_server() {
    let served = small();
    let batching = served.open("2025-03-26", json!({}));
    let other = served.open("2025-11-25", json!({}));
    let text = "x".repeat(2000);
    for round in 0..3 {
        let calls: Vec<Value> = (0..20).map(|id| length_call(id, &text)).collect();
        let batch = served.post(&[("Mcp-Session-Id", &batching)], &json!(calls));
        assert_eq!(batch.status, 200);
        let answers = batch.json();
        let mut ids: Vec<u64> =
            answers.as_array().unwrap().iter().map(|a| a["id"].as_u64().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..20).collect::<Vec<u64>>(), "one answer for each call");
        let busy: Vec<&Value> =
            answers.as_array().unwrap().iter().filter(|a| a["error"].is_object()).collect();
        assert!((1..20).contains(&busy.len()), "{} of 20 calls refused", busy.len());
        for answer in busy {
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            assert!(answer["error"]["message"].as_str().unwrap().contains("busy"), "{answer}");
        }
        // Every other client is served, as soon as the batch has left the memory.
        let hello = json!({"name": "length", "arguments": {}});
        let answer = when_served(|| served.ask(&other, 100 + round, "tools/call", hello.clone()));
        assert_eq!(answer.json()["result"]["content"][0]["text"], "2");
        when_served(|| served.modern(&[], "tools/call", hello.clone()));
        when_served(|| served.ask(&batching, 200 + round, "ping", json!({})));
    }
}

/// Retries while the server is busy, as `Retry-After` asks for.
fn when_served(ask: impl Fn() -> Answer) -> Answer {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let answer = ask();
        if answer.status == 200 {
            return answer;
        }
        assert_eq!(answer.status, 503);
        assert!(Instant::now() < deadline, "the server stays busy");
    }
}

#[test]
fn a_call_beyond_the_memory_for_calls_is_refused_alone() {
    let stage = stage();
    let mut limits = Limits::default();
    limits.in_flight_bytes = 480_000;
    let mut server = server(stage);
    server.limits(limits);
    let served = serve_with(server, |http| http);
    let large = || json!({"name": "echo", "arguments": {"text": "x".repeat(500_000)}});
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| served.call("wait", json!({})).status);
        stage.await_mark("waits");
        assert_eq!(served.modern(&[], "tools/call", large()).status, 503);
        assert_eq!(
            served.modern(&[], "tools/call", json!({"name": "echo", "arguments": {"text": "a"}})).status,
            200
        );
        stage.mark("go");
        assert_eq!(waiting.join().unwrap(), 200);
    });
    when_served(|| served.modern(&[], "tools/call", large()));
}

#[test]
fn a_batch_whose_calls_are_all_cancelled_ends() {
    let (sender, received) = mpsc::channel();
    let mut server = Server::new("waits", "1");
    server
        .tool(Tool::new("waits"), move |ctx, _: Json| {
            ctx.progress(1.0, None, None);
            let _ = sender.send(());
            while !ctx.cancelled() {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok("")
        })
        .unwrap();
    let served = serve_with(server, |http| http);
    let session = served.open("2025-03-26", json!({}));
    let fields = [("Mcp-Session-Id", &*session)];
    // Progress begins an event stream.
    for meta in [json!({}), json!({"progressToken": "p"})] {
        let calls: Vec<Value> = (1..=2)
            .map(|id| {
                json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                       "params": {"name": "waits", "arguments": {}, "_meta": meta}})
            })
            .collect();
        std::thread::scope(|scope| {
            let batch = scope.spawn(|| served.post(&fields, &json!(calls)));
            (1..=2).for_each(|_| received.recv_timeout(TIMEOUT).unwrap());
            for id in 1..=2 {
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                    "params": {"requestId": id}});
                assert_eq!(served.post(&fields, &cancel).status, 202);
            }
            let ended = batch.join().unwrap();
            assert_eq!(ended.status, 200);
            assert!(!ended.raw_rest().windows(6).any(|bytes| bytes == b"result"));
        });
    }
}

/// A server with an inline tool that logs more than sockets and backlog hold.
fn flooding() -> Served {
    let mut limits = Limits::default();
    limits.http.stall_timeout = 100 * TIMEOUT;
    limits.backlog_bytes = 64 << 10;
    let mut server = Server::new("flooding", "1");
    server.limits(limits).logging();
    server
        .inline_tool(Tool::new("flood"), |ctx, ()| {
            let line = "x".repeat(512 << 10);
            for _ in 0..16 {
                ctx.log(Level::Error, None, line.as_str())?;
            }
            Ok("logged")
        })
        .unwrap()
        .inline_tool(Tool::new("hello"), |_, ()| Ok("hello"))
        .unwrap();
    serve_with(server, |http| http)
}

#[test]
fn a_client_that_does_not_read_an_inline_tool_stops_no_other() {
    let served = flooding();
    let session = served.open("2025-11-25", json!({}));
    // Both return when the head has arrived; nothing else is read.
    let mut in_session = served.ask(&session, 1, "tools/call", json!({"name": "flood"}));
    assert_eq!(served.call("hello", json!({})).status, 200);
    let alone = served.call("flood", json!({}));
    assert_eq!(served.ask(&session, 2, "ping", json!({})).status, 200);

    // Both streams are closed before the result.
    assert!(alone.rest().iter().all(|event| event.message()["method"] == "notifications/message"));
    let mut last = in_session.event().unwrap();
    while let Some(event) = in_session.event() {
        assert!(event.data.is_empty() || event.message()["method"] == "notifications/message");
        last = event;
    }
    // In a session the client reconnects and gets the rest.
    let last = last.id.unwrap();
    let fields = [("Mcp-Session-Id", &*session), ("Accept", "text/event-stream"), ("Last-Event-ID", &*last)];
    let rest = served.send("GET", "/mcp", &fields, "").rest();
    assert_eq!(rest.last().unwrap().message()["result"]["content"][0]["text"], "logged");
}
