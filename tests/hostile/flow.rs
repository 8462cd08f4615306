//! Back-pressure: peers that read slowly, late or never, and peers that disconnect.

use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tinymcp::json::Json;
use tinymcp::{Limits, Resource, ResourceContents, Server, memory};

use super::call::gated;
use super::in_time::in_time;
use super::process::{any, echo, never, plain};
use super::wire::{Feed, MODERN, Peer, Sink, TIMEOUT, Wire, call, handshake, limits, request, text_of};
use crate::tests;

tests! {
    responses_are_written_before_a_blank_line_is_read,
    a_peer_that_stops_reading_costs_bounded_memory_and_loses_no_response,
    frames_of_many_workers_never_interleave,
    resource_updates_do_not_block_and_queued_ones_are_merged,
    a_subscriber_that_does_not_read_blocks_no_other_thread,
    deadlines_expire_while_the_peer_does_not_read,
    stop_does_not_wait_for_a_peer_that_does_not_read,
    finished_responses_are_written_before_the_server_ends,
    responses_being_written_get_half_a_second_after_a_stop,
    a_full_queue_does_not_delay_a_finished_response,
    the_initialize_response_is_written_first,
    a_broken_output_ends_serving,
    a_handler_is_cancelled_when_the_peer_disconnects,
    a_writer_that_panics_ends_serving,
    stop_unblocks_a_handler_on_a_full_memory_link,
}

/// Low limits with changes.
fn small(change: impl FnOnce(&mut Limits)) -> Limits {
    limits(|l| {
        (l.backlog_bytes, l.workers, l.queue, l.grace) = (4096, 2, 4, Duration::from_millis(200));
        change(l);
    })
}

fn responses_are_written_before_a_blank_line_is_read() {
    for blank in ["\n", "\r\n", "\n\n \t\r\n", " \n"] {
        let wire = Wire::start(plain(), Limits::default());
        wire.send(request(1, "ping") + blank);
        assert_eq!(wire.receive()["id"], 1);
        wire.send(blank.to_owned() + &request(2, "ping") + &request(3, "ping") + blank);
        wire.responses([2, 3]);
    }
}

fn a_peer_that_stops_reading_costs_bounded_memory_and_loses_no_response() {
    for workers in [1, 2, 64] {
        let limits = small(|l| l.workers = workers);
        let sink = Sink::new(0, usize::MAX);
        let wire = Wire::start_with(plain(), limits, usize::MAX, sink);
        let text = "x".repeat(1000);
        wire.send(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"server/discover\",\"params\":{{{MODERN}}}}}\n"
        ));
        for id in 1..=500 {
            wire.send(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{{MODERN},\"name\":\"echo\",\"arguments\":{{\"t\":\"{text}\"}}}}}}\n"
            ));
        }
        wire.sink.wait_until_full();
        assert!(wire.sink.is_empty());
        wire.sink.set_room(usize::MAX);
        wire.responses(0..=500);
        assert!(wire.end().is_empty());
    }
}

fn frames_of_many_workers_never_interleave() {
    let mut server = plain();
    server
        .tool(any("talk"), |ctx, arguments: Json| {
            let doc = arguments.to_doc();
            let size = doc.root().get("size").and_then(|v| v.as_u64()).unwrap_or(0) as usize;
            for step in 1..=5 {
                ctx.progress(f64::from(step), None, Some(&"p".repeat(size / 2)));
            }
            Ok("r".repeat(size))
        })
        .unwrap();
    let limits = limits(|l| (l.workers, l.queue, l.backlog_bytes) = (64, 256, 64 << 10));
    let sink = Sink::new(8 << 10, 1000);
    let wire = Wire::start_with(server, limits, usize::MAX, sink);
    wire.open_session("2025-11-25");
    let calls = if super::long() { 20_000 } else { 600 };
    let size = |id: u64| (id as usize * 7919) % if id % 10 == 0 { 100_000 } else { 300 };
    thread::scope(|scope| {
        let wire = &wire;
        scope.spawn(move || {
            for id in 0..calls {
                wire.send(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"talk","arguments":{{"size":{}}},"_meta":{{"progressToken":{id}}}}}}}"#,
                    size(id)
                ) + "\n");
            }
        });
        let mut steps = vec![0; calls as usize];
        let mut open = calls;
        while open > 0 {
            let message = wire.receive();
            match message["params"]["progressToken"].as_u64() {
                Some(id) => {
                    steps[id as usize] += 1;
                    assert_eq!(message["params"]["progress"].as_f64(), Some(f64::from(steps[id as usize])));
                    assert_eq!(message["params"]["message"].as_str().map(str::len), Some(size(id) / 2));
                }
                None => {
                    let id = message["id"].as_u64().unwrap_or_else(|| panic!("{message}"));
                    assert_eq!(steps[id as usize], 5, "the response overtook progress");
                    assert_eq!(text_of(&message).len(), size(id));
                    open -= 1;
                }
            }
        }
    });
}

fn updating() -> Server {
    let mut server = plain();
    server.resource_updates();
    for n in 0..3 {
        server
            .resource(Resource::new(format!("res:{n}"), "r"), |_, uri| {
                Ok(ResourceContents::text(uri, "text"))
            })
            .unwrap();
    }
    server
}

fn subscribe(wire: &Wire) {
    for n in 0..3 {
        wire.send(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{n},\"method\":\"resources/subscribe\",\"params\":{{\"uri\":\"res:{n}\"}}}}\n"
        ));
    }
    wire.responses(0..3);
}

fn resource_updates_do_not_block_and_queued_ones_are_merged() {
    let server = updating();
    let handle = server.handle();
    let wire = Wire::start_with(server, small(|_| ()), usize::MAX, Sink::new(100, usize::MAX));
    wire.open_session("2025-11-25");
    subscribe(&wire);
    // Far more updates than room and backlog hold. None of the calls may block.
    handle.resource_updated("res:0").unwrap();
    handle.resource_updated("res:0").unwrap();
    wire.sink.wait_until_full();
    for uri in ["res:0", "res:1", "res:2"] {
        (0..3000).for_each(|_| handle.resource_updated(uri).unwrap());
    }
    wire.sink.set_room(usize::MAX);
    let uri = || {
        let message = wire.receive();
        assert_eq!(message["method"], "notifications/resources/updated");
        message["params"]["uri"].as_str().unwrap().to_owned()
    };
    // The updates sent before the output was full, then each URI once.
    let mut updates = vec![uri()];
    while updates.last().unwrap() != "res:1" {
        updates.push(uri());
    }
    assert!(updates.len() < 2000, "{} updates were queued with a backlog of 64 KiB", updates.len());
    assert_eq!(uri(), "res:2");
    handle.resource_updated("res:0").unwrap();
    assert_eq!(uri(), "res:0");
}

fn a_subscriber_that_does_not_read_blocks_no_other_thread() {
    let mut server = updating();
    server.tools_may_change();
    let handle = server.handle();
    let mut wire = Wire::start_with(server, small(|_| ()), usize::MAX, Sink::new(0, usize::MAX));
    for id in 0..100 {
        wire.send(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"subscriptions/listen\",\"params\":{{{MODERN},\"notifications\":{{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"res:0\"]}}}}}}\n"
        ));
    }
    wire.sink.wait_until_full();
    for n in 0..1000 {
        handle.resource_updated("res:0").unwrap();
        handle.add_tool(any(&format!("t{n}")), echo).unwrap();
    }
    handle.stop();
    wire.join().unwrap();
}

/// Server with a tool `until_cancelled` that waits for its cancellation, and receivers of its start and its
/// end.
fn until_cancelled() -> (Server, mpsc::Receiver<()>, mpsc::Receiver<()>) {
    let (ended, flagged) = mpsc::channel();
    let (started, running) = mpsc::channel();
    let mut server = plain();
    server
        .tool(any("until_cancelled"), move |ctx, _: Json| {
            started.send(()).unwrap();
            while !ctx.cancelled() {
                thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok("result after the cancellation")
        })
        .unwrap();
    (server, running, flagged)
}

fn deadlines_expire_while_the_peer_does_not_read() {
    in_time(Duration::from_millis(100), deadlines_expire);
}

fn deadlines_expire(deadline: Duration) -> Option<()> {
    let (server, running, flagged) = until_cancelled();
    let limits = small(|l| (l.handler_deadline, l.workers) = (deadline, 2));
    let mut wire = Wire::start_with(server, limits, usize::MAX, Sink::new(usize::MAX, usize::MAX));
    wire.open_session("2025-11-25");
    wire.sink.set_room(0);
    for round in 0..3 {
        wire.send(call(round, "until_cancelled", "{}"));
        // A handler that has not started long after the deadline will never start.
        if running.recv_timeout(deadline * 5).is_err() {
            wire.sink.set_room(usize::MAX);
            return None;
        }
        flagged.recv_timeout(TIMEOUT).expect("no cancellation after the deadline");
    }
    wire.sink.set_room(usize::MAX);
    for response in wire.responses(0..3) {
        assert!(text_of(&response).contains("deadline"), "{response}");
    }
    wire.finish();
    wire.join().unwrap();
    Some(())
}

fn stop_does_not_wait_for_a_peer_that_does_not_read() {
    for stuck in [0, 5] {
        let mut server = plain();
        server.tool(any("never"), never).unwrap();
        let handle = server.handle();
        let mut wire = Wire::start_with(server, small(|_| ()), usize::MAX, Sink::new(0, usize::MAX));
        for id in 0..stuck {
            wire.send(call(id, "never", "{}"));
        }
        wire.send(request(100, "ping"));
        wire.sink.wait_until_full();
        handle.stop();
        wire.join().unwrap();
    }
}

fn finished_responses_are_written_before_the_server_ends() {
    for round in 0..40 {
        let (server, gate, runs) = gated();
        let handle = server.handle();
        let limits = limits(|l| (l.grace, l.workers) = (Duration::from_secs(20), 2));
        let mut wire = Wire::open(server, limits);
        wire.send(call(1, "wait", "{}"));
        runs.recv_timeout(TIMEOUT).unwrap();
        // The reader thread writes, so the worker queues its response for that thread.
        wire.sink.set_room(0);
        wire.send(request(2, "ping"));
        wire.sink.wait_until_full();
        gate.open(1);
        if round % 2 == 0 {
            handle.stop();
        } else {
            wire.finish();
        }
        wire.sink.set_room(50);
        wire.sink.set_room(usize::MAX);
        wire.join().unwrap();
        wire.responses([1, 2]);
    }
}

fn responses_being_written_get_half_a_second_after_a_stop() {
    for _ in 0..40 {
        let (server, gate, runs) = gated();
        let handle = server.handle();
        let limits = limits(|l| (l.grace, l.workers) = (Duration::ZERO, 2));
        let mut wire = Wire::open(server, limits);
        wire.send(call(1, "wait", "{}") + &call(2, "wait", "{}"));
        (0..2).for_each(|_| drop(runs.recv_timeout(TIMEOUT).unwrap()));
        // One worker writes. The other one queues its response, or the stop discards it.
        wire.sink.set_room(0);
        gate.open(2);
        wire.sink.wait_until_full();
        let stopped = Instant::now();
        handle.stop();
        wire.sink.set_room(10);
        wire.sink.set_room(usize::MAX);
        wire.join().unwrap();
        let took = stopped.elapsed();
        let responses = std::iter::from_fn(|| wire.sink.line(Duration::ZERO)).count();
        // A busy machine may write nothing in the last 500 ms; the server then waited for all of
        // them.
        assert!(responses == 2 || took >= Duration::from_millis(500), "{responses} responses after {took:?}");
    }
}

fn a_full_queue_does_not_delay_a_finished_response() {
    let mut server = plain();
    server.tool(any("never"), never).unwrap();
    let limits = small(|l| (l.workers, l.queue, l.handler_deadline) = (1, 1, Duration::ZERO));
    let wire = Wire::open(server, limits);
    // One read: the response to the ping is ready before the queue is full.
    wire.send(request(0, "ping") + &(1..10).map(|id| call(id, "never", "{}")).collect::<String>());
    assert_eq!(wire.receive()["id"], 0);
}

fn the_initialize_response_is_written_first() {
    for round in 0..100 {
        let wire = Wire::start(plain(), limits(|l| l.workers = 2));
        let calls = 1 + round % 3;
        wire.send(handshake("2025-11-25") + &(0..calls).map(|id| call(id, "echo", "{}")).collect::<String>());
        assert_eq!(wire.receive()["id"], "open");
        wire.responses(0..calls);
    }
}

fn a_broken_output_ends_serving() {
    let mut wire = Wire::open(plain(), small(|_| ()));
    wire.sink.disconnect();
    wire.send(call(1, "echo", "{}"));
    // The input stays open, and nothing is sent.
    wire.join().unwrap();
}

fn a_handler_is_cancelled_when_the_peer_disconnects() {
    let (server, running, gone) = until_cancelled();
    let mut wire = Wire::open(server, small(|l| l.workers = 1));
    wire.send(call(1, "until_cancelled", "{}"));
    running.recv_timeout(TIMEOUT).unwrap();
    wire.sink.disconnect();
    wire.send(request(2, "ping"));
    gone.recv_timeout(TIMEOUT).expect("the handler is not cancelled");
    wire.join().unwrap();
    assert!(wire.sink.is_empty());
}

fn a_writer_that_panics_ends_serving() {
    /// Panics in every write but the first.
    struct Panics(bool);
    impl std::io::Write for Panics {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            assert!(!std::mem::replace(&mut self.0, true), "the writer panics");
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for workers in [1, 2] {
        let (feed, chunks) = mpsc::channel::<Vec<u8>>();
        let (done, wait) = mpsc::channel();
        let limits = small(|l| l.workers = workers);
        let link = tinymcp::Link::lines(Feed::new(chunks, usize::MAX), Panics(false), &limits);
        thread::spawn(move || {
            let mut server = plain();
            server.limits(limits);
            done.send(server.serve(link))
        });
        feed.send(handshake("2025-11-25").into_bytes()).unwrap();
        for id in 0..100 {
            let text = "x".repeat(1000);
            let _ = feed.send(call(id, "echo", &format!("{{\"t\":\"{text}\"}}")).into_bytes());
        }
        // The input stays open: only the output shows the failure.
        wait.recv_timeout(TIMEOUT).expect("the server does not end").unwrap();
        drop(feed);
    }
}

fn stop_unblocks_a_handler_on_a_full_memory_link() {
    let (link, end) = memory();
    let mut server = plain();
    server.limits(small(|l| l.grace = Duration::from_millis(100)));
    let handle = server.handle();
    let (done, wait) = mpsc::channel();
    let full = Arc::new(Barrier::new(2));
    let (finished_tx, finished) = mpsc::channel();
    server
        .tool(any("flood"), {
            let full = Arc::clone(&full);
            move |ctx, _: Json| {
                for n in 1..=255 {
                    ctx.progress(f64::from(n), None, None);
                }
                full.wait();
                for n in 256..=2000 {
                    ctx.progress(f64::from(n), None, None);
                }
                finished_tx.send(())?;
                Ok("flooded")
            }
        })
        .unwrap();
    thread::spawn(move || done.send(server.serve(link)));
    end.send(&request(1, "ping"));
    assert!(end.receive(TIMEOUT).is_some());
    end.send(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{{\"name\":\"flood\",\"_meta\":{{\"progressToken\":1,{}}}}}}}",
        MODERN.trim_start_matches("\"_meta\":{").trim_end_matches('}').to_owned() + "}}"
    ));
    full.wait();
    handle.stop();
    wait.recv_timeout(TIMEOUT).expect("the server does not end").unwrap();
    finished.recv_timeout(TIMEOUT).expect("the handler still waits for room");
    drop(end);
}
