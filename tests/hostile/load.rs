//! High numbers of calls, and large calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tinymcp::json::Json;
use tinymcp::{Server, ToolError};

use super::call::gated;
use super::process::{Process, any, command, plain};
use super::wire::{Peer, TIMEOUT, Wire, call, cancel, handshake, is_success, limits, request, text_of};
use crate::tests;

tests! {
    every_pipelined_call_gets_one_response,
    every_call_of_good_and_bad_handlers_gets_a_response,
    memory_is_flat_under_load,
    large_calls_wait_for_room_in_flight,
    a_call_larger_than_the_byte_limit_runs_alone,
    a_parent_that_writes_and_does_not_read_costs_bounded_memory,
    large_parked_calls_do_not_block_other_calls,
    small_calls_do_not_hold_the_buffers_of_large_messages,
    an_idle_server_has_released_large_buffers,
    an_inline_call_does_not_delay_the_call_before_it,
}

fn every_pipelined_call_gets_one_response() {
    let calls: u64 = if super::long() { 100_000 } else { 4_000 };
    for workers in [1, 2, 64] {
        for queue in [1, 256] {
            let ran = Arc::new(AtomicUsize::new(0));
            let mut server = plain();
            let count = Arc::clone(&ran);
            server
                .tool(any("count"), move |_, arguments: Json| {
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(arguments.as_str().to_owned())
                })
                .unwrap();
            let wire = Wire::open(server, limits(|l| (l.workers, l.queue) = (workers, queue)));
            thread::scope(|scope| {
                let wire = &wire;
                scope.spawn(move || {
                    // Chunks of 37 calls.
                    let mut piece = String::new();
                    for id in 0..calls {
                        piece += &call(id, "count", &format!("{{\"n\":{id}}}"));
                        if id % 37 == 0 || id == calls - 1 {
                            wire.send(std::mem::take(&mut piece));
                        }
                    }
                });
                let mut seen = vec![false; calls as usize];
                for _ in 0..calls {
                    let response = wire.receive();
                    let id = response["id"].as_u64().unwrap_or_else(|| panic!("{response}"));
                    assert_eq!(text_of(&response), format!("{{\"n\":{id}}}"));
                    assert!(!std::mem::replace(&mut seen[id as usize], true), "{id} has two responses");
                }
            });
            assert!(wire.end().is_empty());
            assert_eq!(ran.load(Ordering::Relaxed), calls as usize);
        }
    }
}

/// Server with tools that return at once, late or never, that panic, and that send an elicitation.
fn mixed() -> Server {
    let mut server = plain();
    server
        .tool(any("slow"), |ctx, _: Json| {
            for _ in 0..200 {
                thread::yield_now();
                ctx.progress(1.0, None, None);
            }
            Ok("slow")
        })
        .and_then(|s| {
            s.tool(any("endless"), |ctx, _: Json| -> Result<String, _> {
                while !ctx.cancelled() {
                    thread::yield_now();
                }
                Err(ToolError::new("cancelled"))
            })
        })
        .and_then(|s| s.tool(any("panic"), |_, _: Json| -> Result<String, _> { panic!("a handler panics") }))
        .and_then(|s| s.tool(any("ask"), super::process::ask))
        .and_then(|s| s.inline_tool(any("inline"), super::process::echo))
        .unwrap();
    server
}

fn every_call_of_good_and_bad_handlers_gets_a_response() {
    let calls: u64 = if super::long() { 50_000 } else { 900 };
    for workers in [1, 2, 64] {
        let wire = Wire::open(
            mixed(),
            limits(|l| {
                (l.workers, l.queue, l.handler_deadline) = (workers, 8, Duration::from_millis(60));
                l.parked = 10_000;
                l.grace = Duration::from_millis(200);
            }),
        );
        let endless = if super::long() { 500 } else { 150 };
        let tool = |id: u64| match id % endless {
            0 => "endless",
            n if n % 11 == 0 => "panic",
            n if n % 13 == 0 => "ask",
            n if n % 7 == 0 => "slow",
            n if n % 5 == 0 => "inline",
            _ => "echo",
        };
        thread::scope(|scope| {
            let wire = &wire;
            scope.spawn(move || (0..calls).for_each(|id| wire.send(call(id, tool(id), "{}"))));
            let mut seen = vec![false; calls as usize];
            let mut open = calls;
            while open > 0 {
                let message = wire.receive();
                match message["method"].as_str() {
                    Some("elicitation/create") => wire.send(format!(
                        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"action\":\"decline\"}}}}\n",
                        message["id"]
                    )),
                    // The elicitation of a call past its deadline is cancelled.
                    Some(other) => assert_eq!(other, "notifications/cancelled"),
                    None => {
                        let id = message["id"].as_u64().unwrap_or_else(|| panic!("{message}"));
                        assert!(!std::mem::replace(&mut seen[id as usize], true), "{id} has two responses");
                        match tool(id) {
                            "panic" if message["error"].is_object() => {}
                            // Calls queued behind one that never returns may be late too.
                            _ => assert!(message["result"].is_object(), "{message}"),
                        }
                        open -= 1;
                    }
                }
            }
        });
        assert!(wire.end().iter().all(|m| m["method"] == "notifications/cancelled"));
    }
}

fn memory_is_flat_under_load() {
    let calls: u64 = if super::long() { 200_000 } else { 5_000 };
    for workers in ["1", "4"] {
        let process = Process::open("serve", &[("TINYMCP_WORKERS", workers)]);
        let load = |calls: u64| {
            thread::scope(|scope| {
                let process = &process;
                let input = process.input.as_ref().unwrap();
                scope.spawn(move || {
                    for id in 0..calls {
                        let tool = if id % 3 == 0 { "echo_inline" } else { "echo" };
                        let line =
                            call(id, tool, &format!("{{\"x\":\"{}\"}}", "x".repeat((id % 50) as usize)));
                        let _ = std::io::Write::write_all(&mut { input }, line.as_bytes());
                    }
                });
                (0..calls).for_each(|_| assert!(is_success(&process.receive())));
            });
        };
        load(2_000);
        let before = process.resident();
        load(calls);
        let grown = process.resident().saturating_sub(before);
        assert!(grown < 1024, "{grown} KiB after {calls} calls with {workers} workers");
        assert!(process.end().is_empty());
    }
}

/// A call with arguments of about this many bytes.
fn large(id: u64, tool: &str, bytes: usize) -> String {
    call(id, tool, &format!("{{\"text\":\"{}\"}}", "x".repeat(bytes)))
}

fn large_calls_wait_for_room_in_flight() {
    let process = Process::open(
        "serve",
        &[("TINYMCP_WORKERS", "1"), ("TINYMCP_DEADLINE_MS", "0"), ("TINYMCP_GRACE_MS", "50")],
    );
    process.send(request("\"warm\"", "ping"));
    process.receive();
    let before = process.peak();
    let input = process.input.as_ref().unwrap();
    thread::scope(|scope| {
        let calls = 40;
        scope.spawn(move || {
            for id in 0..calls {
                let line = large(id, if id == 0 { "pause" } else { "count" }, 2 << 20);
                let _ = std::io::Write::write_all(&mut { input }, line.as_bytes());
            }
        });
        // The first call occupies the worker until the server reads no more.
        assert!(process.responses(0..calls).iter().all(is_success));
    });
    let grown = process.peak() - before;
    // Calls in flight, and one message being read: as a line, as a document and as a response.
    assert!(grown < (16 << 10) + 4 * (4 << 10), "{grown} KiB for 80 MiB of calls");
}

fn a_parent_that_writes_and_does_not_read_costs_bounded_memory() {
    let mut process = Process::spawn(&mut command("serve", &[("TINYMCP_WORKERS", "4")]));
    process.send(handshake("2025-11-25"));
    let mut output = process.output.take().unwrap();
    std::io::Read::read_exact(&mut output, &mut [0; 10]).unwrap();
    let before = process.peak();
    let calls = 60;
    let input = &process.input.take().unwrap();
    thread::scope(|scope| {
        let writing = scope.spawn(move || {
            for id in 0..calls {
                let line = large(id, "echo", 1 << 20);
                let _ = std::io::Write::write_all(&mut { input }, line.as_bytes());
            }
        });
        // The pipe is full for the whole timeout: the server has stopped reading.
        let mut descriptors = [PollFd::new(input, PollFlags::OUT)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: 300_000_000 };
        while !writing.is_finished() && poll(&mut descriptors, Some(&timeout)).unwrap() > 0 {
            thread::yield_now();
        }
        assert!(!writing.is_finished(), "the server read everything");
        let grown = process.peak() - before;
        // Calls in flight, and the responses of four workers: as results and as written frames.
        assert!(grown < (16 + 4 * 6 + 8) << 10, "{grown} KiB for 60 MiB of calls");
        process.output = Some(output);
        process.read();
        // The rest of the response to `initialize`.
        assert!(process.line(TIMEOUT).is_some());
        assert!(process.responses(0..calls).iter().all(is_success));
    });
}

fn a_call_larger_than_the_byte_limit_runs_alone() {
    let (server, gate, runs) = gated();
    let wire = Wire::open(server, limits(|l| (l.in_flight_bytes, l.workers) = (100_000, 4)));
    wire.send(large(1, "wait", 1_000_000));
    runs.recv_timeout(TIMEOUT).unwrap();
    // Other messages are served until a call arrives that does not fit.
    wire.assert_no_more();
    wire.send(cancel(1));
    wire.assert_no_more();
    gate.open(1);
    gate.wait_until_used();
    wire.send(large(2, "wait", 60_000));
    runs.recv_timeout(TIMEOUT).unwrap();
    wire.send(large(3, "wait", 60_000));
    wire.send(request(4, "ping"));
    // The third call is blocked until the second ends, and the ping is queued behind it.
    assert!(runs.try_recv().is_err(), "two calls run, the limit allows one");
    gate.open(1);
    runs.recv_timeout(TIMEOUT).unwrap();
    gate.open(1);
    wire.responses([2, 3, 4]);
    assert!(wire.end().is_empty());
    // A call blocked by the byte limit ends at its deadline or with the server.
    for deadline in [true, false] {
        let (server, gate, runs) = gated();
        let handle = server.handle();
        let mut wire = Wire::open(
            server,
            limits(|l| {
                (l.in_flight_bytes, l.workers, l.grace) = (100_000, 1, Duration::from_millis(50));
                l.handler_deadline = if deadline { Duration::from_millis(50) } else { Duration::ZERO };
            }),
        );
        (0..3).for_each(|id| wire.send(large(id, "wait", 90_000)));
        if deadline {
            wire.responses(0..3);
        } else {
            runs.recv_timeout(TIMEOUT).unwrap();
            handle.stop();
            wire.join().unwrap();
            let ids: Vec<_> = std::iter::from_fn(|| wire.sink.line(Duration::ZERO))
                .filter(|l| l.contains("\"id\":0"))
                .collect();
            assert_eq!(ids.len(), 1);
        }
        gate.open(3);
    }
}

fn large_parked_calls_do_not_block_other_calls() {
    let wire = Wire::open(mixed(), limits(|l| (l.in_flight_bytes, l.workers) = (100_000, 1)));
    let mut elicitations = Vec::new();
    let mut refused = 0;
    for id in 0..6 {
        wire.send(large(id, "ask", 45_000));
        let message = wire.receive();
        match message.get("method") {
            Some(_) => elicitations.push(message["id"].clone()),
            None => {
                assert_eq!(message["error"]["code"], -32603, "{message}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && elicitations.len() > 1);
    wire.send(large(100, "echo", 45_000));
    assert!(is_success(&wire.receive()));
    // A response that is too large to keep fails the call.
    wire.send(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"action\":\"decline\",\"x\":\"{}\"}}}}\n",
        elicitations.pop().unwrap(),
        "x".repeat(90_000)
    ));
    assert_eq!(wire.receive()["result"]["isError"], true);
    for elicitation in elicitations {
        wire.send(format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{elicitation},\"result\":{{\"action\":\"decline\"}}}}\n"
        ));
        assert_eq!(text_of(&wire.receive()), "Decline");
    }
    assert!(wire.end().is_empty());
}

fn small_calls_do_not_hold_the_buffers_of_large_messages() {
    let process = Process::open(
        "serve",
        &[("TINYMCP_WORKERS", "1"), ("TINYMCP_GRACE_MS", "50"), ("TINYMCP_DEADLINE_MS", "0")],
    );
    let before = process.resident();
    let large = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"large\",\"method\":\"ping\",\"params\":{{\"x\":\"{}\"}}}}\n",
        "x".repeat(3 << 20)
    );
    for id in 0..30 {
        // The buffer of a large message must not stay with the small call after it.
        process.send(&large);
        assert_eq!(process.receive()["id"], "large");
        process.send(call(id, "never", "{}"));
        process.assert_no_more();
    }
    let grown = process.resident().saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB for thirty small calls");
}

fn an_idle_server_has_released_large_buffers() {
    // Without this bound, glibc keeps up to twice the largest freed block per thread. The test is
    // about memory that the server itself keeps.
    let bound = ("MALLOC_MMAP_THRESHOLD_", "131072");
    let process = Process::open("serve", &[("TINYMCP_WORKERS", "2"), bound]);
    process.assert_no_more();
    let before = process.resident();
    for id in 0..6 {
        process.send(large(id, if id < 3 { "echo" } else { "echo_inline" }, 4_000_000));
        assert!(is_success(&process.receive()));
    }
    // Small calls on the same paths.
    for id in 0..40 {
        process.send(call(id, if id % 2 == 0 { "echo" } else { "echo_inline" }, "{}"));
        assert!(is_success(&process.receive()));
    }
    let grown = process.resident().saturating_sub(before);
    // Less than one large message. An emulator (see `cross/emulated`) keeps translated code in the
    // same process.
    let max = if std::env::var_os("TEST_EMULATED").is_some() { 10 << 10 } else { 2 << 10 };
    assert!(grown < max, "{grown} KiB kept after messages of 4 MB");
}

fn an_inline_call_does_not_delay_the_call_before_it() {
    let (mut server, gate, runs) = gated();
    let pass = gate.clone();
    server
        .inline_tool(any("inline"), move |_, _: Json| {
            pass.pass();
            Ok("inline")
        })
        .unwrap();
    let wire = Wire::open(server, limits(|l| l.workers = 1));
    wire.send(call(1, "wait", "{}") + &call(2, "inline", "{}"));
    runs.recv_timeout(TIMEOUT).expect("the first call waits for the inline call");
    gate.open(2);
    wire.responses([1, 2]);
    assert!(wire.end().is_empty());
}
