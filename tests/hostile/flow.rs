//! A peer that reads slowly, late or never, and one that is gone.

use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use tinymcp::json::Json;
use tinymcp::{Limits, Resource, ResourceContents, Server, memory};

use super::call::gated;
use super::process::{any, echo, never, plain};
use super::wire::{Feed, MODERN, Peer, SOON, Sink, Wire, call, greeting, in_time, limits, request, text_of};
use crate::tests;

tests! {
    answers_leave_although_a_blank_line_follows,
    a_peer_that_stops_reading_costs_bounded_memory_and_no_answer,
    frames_of_many_workers_never_interleave,
    an_update_is_told_without_waiting_and_late_ones_once,
    a_subscription_to_a_peer_that_does_not_read_stops_nobody,
    deadlines_pass_although_the_peer_does_not_read,
    stopping_does_not_wait_for_a_peer_that_does_not_read,
    finished_answers_are_written_before_the_end,
    answers_that_are_being_written_get_a_last_moment,
    an_answer_is_not_held_back_by_a_full_queue,
    the_answer_that_opens_a_session_comes_first,
    a_broken_output_ends_serving,
    a_handler_learns_that_the_peer_is_gone,
    a_writer_that_panics_stops_nobody,
    closing_frees_a_sender_of_a_full_memory_link,
}

/// Limits that are reached soon, changed further.
fn small(change: impl FnOnce(&mut Limits)) -> Limits {
    limits(|l| {
        (l.backlog_bytes, l.workers, l.queue, l.grace) = (4096, 2, 4, Duration::from_millis(200));
        change(l);
    })
}

fn answers_leave_although_a_blank_line_follows() {
    for blank in ["\n", "\r\n", "\n\n \t\r\n", " \n"] {
        let wire = Wire::start(plain(), Limits::default());
        wire.send(request(1, "ping") + blank);
        assert_eq!(wire.receive()["id"], 1);
        wire.send(blank.to_owned() + &request(2, "ping") + &request(3, "ping") + blank);
        wire.answers([2, 3]);
    }
}

fn a_peer_that_stops_reading_costs_bounded_memory_and_no_answer() {
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
        wire.answers(0..=500);
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
    wire.greet("2025-11-25");
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
                    assert_eq!(steps[id as usize], 5, "progress comes before the answer");
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
    wire.answers(0..3);
}

fn an_update_is_told_without_waiting_and_late_ones_once() {
    let server = updating();
    let handle = server.handle();
    let wire = Wire::start_with(server, small(|_| ()), usize::MAX, Sink::new(100, usize::MAX));
    wire.greet("2025-11-25");
    subscribe(&wire);
    // Many more than room and backlog hold; none of them may wait.
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
    // As many as were told before nothing went any more, then each once.
    let mut told = vec![uri()];
    while told.last().unwrap() != "res:1" {
        told.push(uri());
    }
    assert!(told.len() < 2000, "{} updates were told to a backlog of 64 KiB", told.len());
    assert_eq!(uri(), "res:2");
    handle.resource_updated("res:0").unwrap();
    assert_eq!(uri(), "res:0");
}

fn a_subscription_to_a_peer_that_does_not_read_stops_nobody() {
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

/// A server with a tool `patient` that waits to be cancelled, and what it tells when it begins and ends.
fn patient() -> (Server, mpsc::Receiver<()>, mpsc::Receiver<()>) {
    let (told, flagged) = mpsc::channel();
    let (started, running) = mpsc::channel();
    let mut server = plain();
    server
        .tool(any("patient"), move |ctx, _: Json| {
            started.send(()).unwrap();
            while !ctx.cancelled() {
                thread::yield_now();
            }
            told.send(()).unwrap();
            Ok("nobody waits for this")
        })
        .unwrap();
    (server, running, flagged)
}

fn deadlines_pass_although_the_peer_does_not_read() {
    in_time(Duration::from_millis(100), deadlines_pass);
}

fn deadlines_pass(deadline: Duration) -> Option<()> {
    let (server, running, flagged) = patient();
    let limits = small(|l| (l.handler_deadline, l.workers) = (deadline, 2));
    let mut wire = Wire::start_with(server, limits, usize::MAX, Sink::new(usize::MAX, usize::MAX));
    wire.greet("2025-11-25");
    wire.sink.set_room(0);
    for round in 0..3 {
        wire.send(call(round, "patient", "{}"));
        // One that has not begun long after its deadline never will.
        if running.recv_timeout(deadline * 5).is_err() {
            wire.sink.set_room(usize::MAX);
            return None;
        }
        flagged.recv_timeout(SOON).expect("a handler past its deadline is flagged");
    }
    wire.sink.set_room(usize::MAX);
    for answer in wire.answers(0..3) {
        assert!(text_of(&answer).contains("deadline"), "{answer}");
    }
    wire.finish();
    wire.join().unwrap();
    Some(())
}

fn stopping_does_not_wait_for_a_peer_that_does_not_read() {
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

fn finished_answers_are_written_before_the_end() {
    for round in 0..40 {
        let (server, gate, runs) = gated();
        let handle = server.handle();
        let limits = limits(|l| (l.grace, l.workers) = (Duration::from_secs(20), 2));
        let mut wire = Wire::open(server, limits);
        wire.send(call(1, "wait", "{}"));
        runs.recv_timeout(SOON).unwrap();
        // The thread that reads is the one that writes, and the worker leaves its answer to it.
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
        wire.answers([1, 2]);
    }
}

fn answers_that_are_being_written_get_a_last_moment() {
    for _ in 0..40 {
        let (server, gate, runs) = gated();
        let handle = server.handle();
        let limits = limits(|l| (l.grace, l.workers) = (Duration::ZERO, 2));
        let mut wire = Wire::open(server, limits);
        wire.send(call(1, "wait", "{}") + &call(2, "wait", "{}"));
        (0..2).for_each(|_| drop(runs.recv_timeout(SOON).unwrap()));
        // One worker writes, the other leaves its answer to it; or is told that the time is over.
        wire.sink.set_room(0);
        gate.open(2);
        wire.sink.wait_until_full();
        let told = Instant::now();
        handle.stop();
        wire.sink.set_room(10);
        wire.sink.set_room(usize::MAX);
        wire.join().unwrap();
        let took = told.elapsed();
        let answers = std::iter::from_fn(|| wire.sink.line(Duration::ZERO)).count();
        // A machine may be too busy to write anything in that moment; then the server has waited for all of it.
        assert!(answers == 2 || took >= Duration::from_millis(500), "{answers} answers after {took:?}");
    }
}

fn an_answer_is_not_held_back_by_a_full_queue() {
    let mut server = plain();
    server.tool(any("never"), never).unwrap();
    let limits = small(|l| (l.workers, l.queue, l.handler_deadline) = (1, 1, Duration::ZERO));
    let wire = Wire::open(server, limits);
    // In one read: the answer to the ping is ready before the calls find no room.
    wire.send(request(0, "ping") + &(1..10).map(|id| call(id, "never", "{}")).collect::<String>());
    assert_eq!(wire.receive()["id"], 0);
}

fn the_answer_that_opens_a_session_comes_first() {
    for round in 0..100 {
        let wire = Wire::start(plain(), limits(|l| l.workers = 2));
        let calls = 1 + round % 3;
        wire.send(greeting("2025-11-25") + &(0..calls).map(|id| call(id, "echo", "{}")).collect::<String>());
        assert_eq!(wire.receive()["id"], "open");
        wire.answers(0..calls);
    }
}

fn a_broken_output_ends_serving() {
    let mut wire = Wire::open(plain(), small(|_| ()));
    wire.sink.break_off();
    wire.send(call(1, "echo", "{}"));
    // The input stays open and silent.
    wire.join().unwrap();
}

fn a_handler_learns_that_the_peer_is_gone() {
    let (server, running, gone) = patient();
    let mut wire = Wire::open(server, small(|l| l.workers = 1));
    wire.send(call(1, "patient", "{}"));
    running.recv_timeout(SOON).unwrap();
    wire.sink.break_off();
    wire.send(request(2, "ping"));
    gone.recv_timeout(SOON).expect("the handler is told");
    wire.join().unwrap();
    assert!(wire.sink.is_empty());
}

fn a_writer_that_panics_stops_nobody() {
    /// Panics from the second write on.
    struct Panics(bool);
    impl std::io::Write for Panics {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            assert!(!std::mem::replace(&mut self.0, true), "a writer that panics");
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
        feed.send(greeting("2025-11-25").into_bytes()).unwrap();
        for id in 0..100 {
            let text = "x".repeat(1000);
            let _ = feed.send(call(id, "echo", &format!("{{\"t\":\"{text}\"}}")).into_bytes());
        }
        // The input stays open: it is the output that tells.
        wait.recv_timeout(SOON).expect("serving ends").unwrap();
        drop(feed);
    }
}

fn closing_frees_a_sender_of_a_full_memory_link() {
    let (link, end) = memory();
    let mut server = plain();
    server.limits(small(|l| l.grace = Duration::from_millis(100)));
    let handle = server.handle();
    let (done, wait) = mpsc::channel();
    let full = Arc::new(Barrier::new(2));
    let (came_out, out) = mpsc::channel();
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
                came_out.send(())?;
                Ok("flooded")
            }
        })
        .unwrap();
    thread::spawn(move || done.send(server.serve(link)));
    end.send(&request(1, "ping"));
    assert!(end.receive(SOON).is_some());
    end.send(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{{\"name\":\"flood\",\"_meta\":{{\"progressToken\":1,{}}}}}}}",
        MODERN.trim_start_matches("\"_meta\":{").trim_end_matches('}').to_owned() + "}}"
    ));
    full.wait();
    handle.stop();
    wait.recv_timeout(SOON).expect("serving ends").unwrap();
    out.recv_timeout(SOON).expect("the handler does not wait for room that never comes");
    drop(end);
}
