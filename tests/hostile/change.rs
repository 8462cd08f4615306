//! Servers that are changed, stopped or dropped, or that panic, while a client is connected.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tinymcp::json::Json;
use tinymcp::{Limits, Link, Resource, ResourceContents, memory};

use super::call::gated;
use super::process::{any, ask, echo, never, plain};
use super::wire::{Feed, MODERN, Peer, Sink, TIMEOUT, Wire, call, is_success, limits, request};
use crate::tests;

tests! {
    tools_are_added_and_removed_during_calls_and_lists,
    changes_from_many_threads_are_all_notified,
    a_removed_tool_finishes_its_calls,
    stop_from_any_thread_ends_serving,
    stop_is_idempotent_before_and_after_serving,
    requests_after_a_stop_get_one_response_or_none,
    a_reader_that_fails_or_panics_ends_serving,
    a_panic_in_a_shutdown_hook_does_not_skip_other_hooks,
    handlers_are_dropped_when_the_server_ends,
    a_handle_outlives_its_server,
}

fn tools_are_added_and_removed_during_calls_and_lists() {
    for workers in [1, 4] {
        let mut server = plain();
        server.tools_may_change();
        let handle = server.handle();
        let wire = Wire::open(server, limits(|l| (l.workers, l.page) = (workers, 5)));
        let over = AtomicBool::new(false);
        let rounds = if super::long() { 20_000 } else { 150 };
        thread::scope(|scope| {
            let over = &over;
            for half in 0..2 {
                let handle = handle.clone();
                scope.spawn(move || {
                    let mut n = 0;
                    while !over.load(Ordering::Relaxed) {
                        let name = format!("t{}", half * 10 + n % 10);
                        if !handle.remove_tool(&name).unwrap() {
                            handle.add_tool(any(&name), echo).unwrap();
                        }
                        n += 1;
                    }
                });
            }
            for id in 0..rounds {
                let cursor = |list: &Value| list["result"]["nextCursor"].as_str().map(str::to_owned);
                wire.send(call(id, &format!("t{}", id % 20), "{}"));
                let response = wire.response();
                assert!(is_success(&response) || response["error"]["code"] == -32602, "{response}");
                let (mut names, mut at) = (HashSet::new(), None);
                loop {
                    wire.send(match &at {
                        None => request(id, "tools/list"),
                        Some(at) => format!(
                            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\",\"params\":{{\"cursor\":\"{at}\"}}}}\n"
                        ),
                    });
                    let list = wire.response();
                    for tool in list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}")) {
                        // A tool that was removed and added again is last in the list, so it may
                        // occur twice.
                        names.insert(tool["name"].as_str().unwrap().to_owned());
                    }
                    at = cursor(&list);
                    if at.is_none() || names.len() > 60 {
                        break;
                    }
                }
                assert!(names.contains("echo"), "a list lacks a tool that was never removed");
            }
            over.store(true, Ordering::Relaxed);
        });
        wire.end();
    }
}

fn changes_from_many_threads_are_all_notified() {
    let mut server = plain();
    server.tools_may_change().resource_updates();
    server.resource(Resource::new("res:r", "r"), |_, uri| Ok(ResourceContents::text(uri, "t"))).unwrap();
    let handle = server.handle();
    let wire = Wire::start(server, Limits::default());
    wire.send(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{{{MODERN},\"notifications\":{{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"res:r\"]}}}}}}\n"
    ));
    assert_eq!(wire.receive()["method"], "notifications/subscriptions/acknowledged");
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for n in 0..4 {
            let (handle, start) = (handle.clone(), &start);
            scope.spawn(move || {
                start.wait();
                for k in 0..25 {
                    handle.add_tool(any(&format!("t{n}.{k}")), echo).unwrap();
                    handle.resource_updated("res:r").unwrap();
                }
            });
        }
    });
    // A client that reads receives every notification.
    let mut counts = [0, 0];
    for _ in 0..200 {
        match wire.receive()["method"].as_str() {
            Some("notifications/tools/list_changed") => counts[0] += 1,
            Some("notifications/resources/updated") => counts[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts, [100, 100]);
    let rest = wire.end();
    assert_eq!(rest.len(), 2, "{rest:?}");
}

fn a_removed_tool_finishes_its_calls() {
    let (mut server, gate, runs) = gated();
    server.tools_may_change();
    let handle = server.handle();
    let wire = Wire::open(server, Limits::default());
    wire.send(call(1, "wait", "{}"));
    runs.recv_timeout(TIMEOUT).unwrap();
    assert!(handle.remove_tool("wait").unwrap());
    wire.send(call(2, "wait", "{}"));
    assert_eq!(wire.response()["error"]["code"], -32602);
    gate.open(1);
    assert!(is_success(&wire.response()));
    wire.end();
}

fn stop_from_any_thread_ends_serving() {
    // From another thread, while nothing at all happens.
    for local in [false, true] {
        let server = plain();
        let handle = server.handle();
        let mut wire = if local {
            Wire::open_local(server, Limits::default())
        } else {
            Wire::open(server, Limits::default())
        };
        handle.stop();
        if local {
            // This server reads on the thread that serves, which sees the stop with the next
            // message.
            wire.send(request(1, "ping"));
        }
        wire.join().unwrap();
        assert!(wire.sink.is_empty());
    }
    // Stop from a pooled and an inline handler: the response of the handler is the last message.
    for inline in [false, true] {
        for local in [false, true] {
            let mut server = plain();
            let handle = server.handle();
            let (entered, wait) = mpsc::channel::<()>();
            let stop = move |_: &mut tinymcp::Context<'_>, _: Json| {
                handle.stop();
                let _ = wait.recv_timeout(Duration::from_millis(50));
                Ok("stopping")
            };
            if inline {
                server.inline_tool(any("stop"), stop).unwrap();
            } else {
                let stop = std::sync::Mutex::new(stop);
                server.tool(any("stop"), move |ctx, a: Json| stop.lock().unwrap()(ctx, a)).unwrap();
            }
            let mut wire = if local {
                Wire::open_local(server, Limits::default())
            } else {
                Wire::open(server, Limits::default())
            };
            wire.send(request(1, "ping") + &call(2, "stop", "{}"));
            if local && !inline {
                assert!(wire.responses([1, 2]).iter().all(is_success));
                wire.send(request(3, "ping"));
            }
            wire.join().unwrap();
            if inline || !local {
                assert!(wire.responses([1, 2]).iter().all(is_success));
            }
            assert!(wire.sink.is_empty(), "{inline} {local}");
            drop(entered);
        }
    }
}

fn stop_is_idempotent_before_and_after_serving() {
    let server = plain();
    let handle = server.handle();
    handle.stop();
    handle.stop();
    let mut wire = Wire::start(server, Limits::default());
    wire.join().unwrap();
    handle.stop();
    assert!(wire.sink.is_empty());
}

fn requests_after_a_stop_get_one_response_or_none() {
    let rounds = if super::long() { 2_000 } else { 60 };
    for round in 0..rounds {
        let mut server = plain();
        server.inline_tool(any("inline"), echo).unwrap();
        let handle = server.handle();
        let mut wire = Wire::open(server, limits(|l| l.workers = 1 + round % 3));
        thread::scope(|scope| {
            let wire = &wire;
            let sent = scope.spawn(move || {
                for id in 0..200 {
                    wire.send(call(id, if id % 2 == 0 { "echo" } else { "inline" }, "{}"));
                }
            });
            if round % 2 == 0 {
                wire.receive();
            }
            handle.stop();
            sent.join().unwrap();
        });
        wire.join().unwrap();
        // Each accepted call has exactly one complete response; other calls have none.
        let mut seen = HashSet::new();
        while let Some(line) = wire.sink.line(Duration::ZERO) {
            let response: Value = serde_json::from_str(&line).unwrap();
            assert!(seen.insert(response["id"].as_u64()), "{response} occurs twice");
        }
        assert!(wire.sink.is_empty(), "the output ends in the middle of a line");
    }
}

/// Reads the feed, then returns an error or panics.
struct FailingReader(Feed, bool);

impl std::io::Read for FailingReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match std::io::Read::read(&mut self.0, buf)? {
            0 if self.1 => panic!("a reader that panics"),
            0 => Err(std::io::Error::other("a reader that fails")),
            n => Ok(n),
        }
    }
}

fn a_reader_that_fails_or_panics_ends_serving() {
    for panics in [false, true] {
        let (feed, chunks) = mpsc::channel();
        let sink = Arc::new(Sink::default());
        let limits = Limits::default();
        let link = Link::lines(FailingReader(Feed::new(chunks, usize::MAX), panics), sink.writer(), &limits);
        let serving = thread::spawn(move || {
            let mut server = plain();
            server.limits(limits);
            server.serve(link)
        });
        feed.send(request(1, "ping").into_bytes()).unwrap();
        assert!(sink.line(TIMEOUT).is_some());
        feed.send(call(2, "echo", "{}").into_bytes()).unwrap();
        drop(feed);
        let error =
            serving.join().expect("the server panicked").expect_err("the server ended without an error");
        assert!(!error.to_string().is_empty());
    }
}

fn a_panic_in_a_shutdown_hook_does_not_skip_other_hooks() {
    let mut server = plain();
    let (tx, ran) = mpsc::channel();
    server.on_shutdown(|| panic!("a hook that panics"));
    server.on_shutdown(move || tx.send(()).unwrap());
    let (link, end) = memory();
    let serving =
        thread::Builder::new().name("mcp-quiet".to_owned()).spawn(move || server.serve(link)).unwrap();
    drop(end);
    serving.join().unwrap().unwrap();
    ran.recv_timeout(TIMEOUT).unwrap();
}

/// Reports when it is dropped.
struct ReportsDrop(mpsc::Sender<&'static str>, &'static str);

impl ReportsDrop {
    fn name(&self) -> &'static str {
        self.1
    }
}

impl Drop for ReportsDrop {
    fn drop(&mut self) {
        // The test may have failed and dropped the receiver.
        let _ = self.0.send(self.1);
    }
}

fn handlers_are_dropped_when_the_server_ends() {
    for local in [false, true] {
        let (tx, dropped) = mpsc::channel();
        let (mut server, gate, runs) = gated();
        server.tools_may_change();
        let reporter = |what| ReportsDrop(tx.clone(), what);
        let (pooled, inline, resource, hook) =
            (reporter("pooled"), reporter("inline"), reporter("resource"), reporter("hook"));
        server
            .tool(any("pooled"), move |_, _: Json| Ok(pooled.name()))
            .and_then(|s| s.inline_tool(any("inline"), move |_, _: Json| Ok(inline.name())))
            .and_then(|s| {
                s.resource(Resource::new("res:r", "r"), move |_, uri| {
                    Ok(ResourceContents::text(uri, resource.name()))
                })
            })
            .and_then(|s| s.tool(any("ask"), ask))
            .unwrap();
        server.on_shutdown(move || drop(hook));
        drop(tx);
        let mut wire = if local {
            Wire::open_local(server, Limits::default())
        } else {
            Wire::open(server, Limits::default())
        };
        // Everything that may hold a handler: a queued call, an elicitation, a subscription, a
        // batch.
        wire.send(call(1, "ask", "{}") + &call(2, "wait", "{}") + &call(3, "pooled", "{}"));
        wire.send(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"subscriptions/listen\",\"params\":{{{MODERN},\"notifications\":{{\"toolsListChanged\":true}}}}}}\n"
        ));
        runs.recv_timeout(TIMEOUT).unwrap();
        gate.open(1);
        wire.finish();
        wire.join().unwrap();
        let mut names: Vec<&str> = (0..4).map_while(|_| dropped.recv_timeout(TIMEOUT).ok()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["hook", "inline", "pooled", "resource"],
            "not all handlers are dropped, local: {local}"
        );
    }
}

fn a_handle_outlives_its_server() {
    let mut server = plain();
    server.tools_may_change().resource_updates();
    let handle = server.handle();
    drop(server);
    assert!(handle.add_tool(any("t"), echo).is_err());
    assert!(handle.resource_updated("res:r").is_err());
    handle.stop();
    // A server that has ended while one of its handlers runs.
    let mut server = plain();
    server.tools_may_change();
    server.tool(any("never"), never).unwrap();
    let handle = server.handle();
    let wire = Wire::open(server, limits(|l| l.grace = Duration::from_millis(20)));
    wire.send(call(1, "never", "{}"));
    assert_eq!(wire.end().len(), 1);
    // No client is connected; both results are unspecified.
    let _ = handle.add_tool(any("t"), echo);
    let _ = handle.remove_tool("never");
    handle.stop();
}
