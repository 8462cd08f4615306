//! Server process over standard input and output, and the events that parents cause.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;

use rustix::process::Signal;

use super::process::{Process, command, send_signal};
use super::wire::{Peer, call, handshake, is_success, request, text_of};
use crate::tests;

tests! {
    empty_input_produces_no_output,
    running_calls_finish_after_the_end_of_input,
    the_last_line_needs_no_newline,
    a_stuck_call_gets_an_error_after_the_grace_period,
    prints_of_handlers_and_children_go_to_standard_error,
    an_orphaned_child_holds_no_protocol_descriptor,
    a_closed_output_ends_the_server_without_an_error,
    closed_descriptors_at_the_start_end_the_server,
    a_full_disk_ends_the_server,
    unread_responses_at_the_end_are_an_error,
    a_disconnected_socket_ends_the_server,
    signals_end_the_server,
    a_signal_ends_a_server_with_a_stuck_call,
    a_signal_ends_the_grace_period,
    a_signal_ends_a_server_whose_peer_does_not_read,
    a_later_signal_ends_the_process_at_once,
    a_signal_ends_the_wait_for_a_peer_that_does_not_read,
    a_call_that_stops_the_server_gets_its_response,
    limits_come_from_the_environment,
    a_bad_limit_is_an_error,
    the_address_space_limit_is_applied,
    a_line_beyond_the_limit_is_not_buffered,
    invalid_lines_cost_no_memory,
    non_blocking_descriptors_are_polled,
    responses_written_during_a_stop_are_complete,
}

/// A call that reports its start and never ends.
const STUCK: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"never\",\"_meta\":{\"progressToken\":1}}}\n";

const ROLES: [&str; 2] = ["serve", "local"];

fn empty_input_produces_no_output() {
    for role in ROLES {
        let process = Process::start(role, &[]);
        assert!(process.end().is_empty());
    }
}

fn running_calls_finish_after_the_end_of_input() {
    for role in ROLES {
        for (workers, queue) in [("1", "1"), ("2", "4"), ("64", "256")] {
            let mut process = Process::start(role, &[("TINYMCP_WORKERS", workers), ("TINYMCP_QUEUE", queue)]);
            let mut text = handshake("2025-11-25");
            text.extend((0..200).map(|id| call(id, if id % 3 == 0 { "echo_inline" } else { "echo" }, "{}")));
            process.send(text);
            process.input = None;
            assert_eq!(process.receive()["id"], "open");
            assert!(process.responses(0..200).iter().all(is_success));
            assert!(process.end().is_empty());
        }
    }
}

fn the_last_line_needs_no_newline() {
    let mut process = Process::start("serve", &[]);
    process.send(handshake("2025-11-25") + call(1, "echo", "{}").trim_end());
    process.input = None;
    assert_eq!(process.receive()["id"], "open");
    assert_eq!(text_of(&process.receive()), "{}");
    assert!(process.end().is_empty());
}

fn a_stuck_call_gets_an_error_after_the_grace_period() {
    for role in ROLES {
        let process = Process::open(role, &[("TINYMCP_GRACE_MS", "50"), ("TINYMCP_WORKERS", "1")]);
        process.send((0..3).map(|id| call(id, "never", "{}")).collect::<String>());
        let rest = process.end();
        assert_eq!(rest.len(), 3, "{rest:?}");
        assert!(rest.iter().all(|a| text_of(a).contains("shutting down")), "{rest:?}");
    }
}

fn prints_of_handlers_and_children_go_to_standard_error() {
    for role in ROLES {
        let mut process = Process::open(role, &[]);
        for id in 0..3 {
            process.send(call(id, "print", "{}"));
            assert!(text_of(&process.receive()).starts_with("printed"));
        }
        process.assert_no_more();
        process.input = None;
        assert!(process.wait().success());
        assert!(process.rest().is_empty());
        let errors = process.errors();
        for line in ["a stray line", "and a partial one", "a line of a child", "hook"] {
            assert!(errors.contains(line), "{errors}");
        }
    }
}

fn an_orphaned_child_holds_no_protocol_descriptor() {
    for role in ROLES {
        let mut process = Process::open(role, &[]);
        process.send(call(1, "orphan", "{}"));
        let orphan: u32 = text_of(&process.receive()).parse().unwrap();
        process.input = None;
        assert!(process.wait().success());
        // The output closes when the server ends, not when its child does.
        assert!(process.rest().is_empty());
        send_signal(orphan, Signal::KILL);
    }
}

fn a_closed_output_ends_the_server_without_an_error() {
    for role in ROLES {
        let mut process = Process::spawn(&mut command(role, &[]));
        process.output = None;
        // The input stays open and is silent from now on.
        process.send(handshake("2025-11-25"));
        process.send(call(1, "echo", "{}"));
        assert_eq!(process.wait().code(), Some(0));
        let errors = process.errors();
        assert!(!errors.contains("panicked"), "{errors}");
    }
    // The output is closed between two messages, with a response in flight.
    let mut process = Process::spawn(&mut command("serve", &[]));
    process.send(handshake("2025-11-25"));
    let mut output = process.output.take().unwrap();
    let mut start = [0; 10];
    output.read_exact(&mut start).unwrap();
    process.send(call(1, "fill", "{\"bytes\":1000000}"));
    output.read_exact(&mut [0; 1000]).unwrap();
    drop(output);
    assert_eq!(process.wait().code(), Some(0));
}

fn closed_descriptors_at_the_start_end_the_server() {
    let null = || File::open("/dev/null").unwrap();
    let mut process = Process::spawn(command("serve", &[]).stdin(null()));
    assert_eq!(process.wait().code(), Some(0));
    // An output that is not writable is an error, unlike a disconnected peer.
    let mut process = Process::spawn(command("serve", &[]).stdout(null()));
    process.send(handshake("2025-11-25"));
    assert_eq!(process.wait().code(), Some(1));
    assert!(process.errors().contains("cannot be written"));
    let mut process = Process::spawn(command("serve", &[]).stderr(Stdio::null()));
    process.read();
    process.open_session("2025-11-25");
    process.send(call(1, "print", "{}"));
    assert!(is_success(&process.receive()));
    // A directory is not readable. The server reports that as an error.
    let mut process = Process::spawn(command("serve", &[]).stdin(File::open("/").unwrap()));
    assert_eq!(process.wait().code(), Some(1));
    assert!(process.errors().contains("failed"));
}

fn a_full_disk_ends_the_server() {
    for role in ROLES {
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        let mut process = Process::spawn(command(role, &[]).stdout(full));
        process.send(handshake("2025-11-25"));
        // The response is lost although the peer is connected. The server reports that.
        assert_eq!(process.wait().code(), Some(1), "{role}");
        let errors = process.errors();
        assert!(errors.contains("cannot be written"), "{role}: {errors}");
    }
}

fn unread_responses_at_the_end_are_an_error() {
    for role in ROLES {
        let mut process = Process::spawn(&mut command(role, &[("TINYMCP_GRACE_MS", "50")]));
        // The reader of a pipeline is slow: the pipe stays open and nothing is read.
        let mut output = process.output.take().unwrap();
        process.send(handshake("2025-11-25") + &call(1, "fill", "{\"bytes\":1000000}"));
        // Up to the middle of the large response.
        output.read_exact(&mut [0; 1000]).unwrap();
        process.input = None;
        assert_eq!(process.wait().code(), Some(1), "{role}");
        let errors = process.errors();
        assert!(errors.contains("did not read"), "{role}: {errors}");
        drop(output);
    }
}

fn a_disconnected_socket_ends_the_server() {
    for role in ROLES {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (input, output) = (theirs.try_clone().unwrap(), theirs);
        let mut process = Process::spawn(
            command(role, &[])
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(input)))
                .stdout(Stdio::from(std::os::fd::OwnedFd::from(output))),
        );
        (&ours).write_all(handshake("2025-11-25").as_bytes()).unwrap();
        (&ours).read_exact(&mut [0; 10]).unwrap();
        // The system reports a reset connection if a response is unread.
        drop(ours);
        assert_eq!(process.wait().code(), Some(0), "{role}: {}", process.errors());
    }
}

fn signals_end_the_server() {
    for role in ROLES {
        for signal in [Signal::TERM, Signal::INT] {
            let mut process = Process::open(role, &[]);
            process.send(call(1, "echo", "{}"));
            assert!(is_success(&process.receive()));
            process.signal(signal);
            assert_eq!(process.wait().code(), Some(0), "{role}");
            assert!(process.rest().is_empty());
            assert!(process.errors().contains("hook"), "{role}");
        }
    }
}

fn a_signal_ends_a_server_with_a_stuck_call() {
    for role in ROLES {
        for (tool, name) in [("never", "pooled"), ("never_inline", "inline")] {
            let mut process = Process::open(role, &[("TINYMCP_GRACE_MS", "50"), ("TINYMCP_WORKERS", "1")]);
            process.send(request(0, "ping") + &call(1, tool, "{}") + &call(2, "echo", "{}"));
            // An inline handler delays the writing of responses to earlier requests of the same
            // read.
            if name == "pooled" {
                assert_eq!(process.receive()["id"], 0);
            }
            process.signal(Signal::TERM);
            assert_eq!(process.wait().code(), Some(0), "{role} {name}");
            if name == "pooled" {
                let mut ids: Vec<_> = process.rest().iter().map(|a| a["id"].as_u64()).collect();
                ids.sort_unstable();
                assert_eq!(ids, [Some(1), Some(2)], "{role}");
            }
        }
    }
}

fn a_signal_ends_the_grace_period() {
    for role in ROLES {
        let mut process = Process::open(role, &[("TINYMCP_GRACE_MS", "3600000")]);
        process.send(call(1, "never", "{}") + &call(2, "ask", "{}"));
        assert_eq!(process.receive()["method"], "elicitation/create");
        process.input = None;
        // The cancelled elicitation shows that the server saw the end of the input.
        assert_eq!(process.response()["id"], 2);
        process.signal(Signal::TERM);
        assert_eq!(process.wait().code(), Some(0), "{role}");
        let rest: Vec<_> = process.rest().into_iter().filter(|m| m.get("method").is_none()).collect();
        assert!(text_of(&rest[0]).contains("shutting down"), "{rest:?}");
        assert_eq!(rest.len(), 1);
    }
}

fn a_signal_ends_a_server_whose_peer_does_not_read() {
    for role in ROLES {
        let mut process = Process::spawn(&mut command(
            role,
            &[("TINYMCP_GRACE_MS", "50"), ("TINYMCP_DEADLINE_MS", "100"), ("TINYMCP_WORKERS", "2")],
        ));
        let mut output = process.output.take().unwrap();
        process.send(handshake("2025-11-25"));
        output.read_exact(&mut [0; 10]).unwrap();
        for id in 0..4 {
            process.send(call(id, "fill", "{\"bytes\":100000}") + &call(id + 10, "never", "{}"));
        }
        process.send(request(100, "ping"));
        process.signal(Signal::TERM);
        assert_eq!(process.wait().code(), Some(0), "{role}");
        drop(output);
    }
}

fn a_later_signal_ends_the_process_at_once() {
    for role in ROLES {
        let mut process = Process::open(role, &[("TINYMCP_GRACE_MS", "3600000")]);
        process.send(STUCK);
        assert_eq!(process.receive()["method"], "notifications/progress");
        // The system may merge the first signals, and signals within one second count as one. A
        // later signal kills the process.
        while process.is_running() {
            process.signal(Signal::TERM);
            thread::yield_now();
        }
        assert_eq!(process.wait().code(), None, "{role}");
    }
}

fn a_signal_ends_the_wait_for_a_peer_that_does_not_read() {
    for role in ROLES {
        let mut process = Process::spawn(&mut command(role, &[("TINYMCP_GRACE_MS", "3600000")]));
        let mut output = process.output.take().unwrap();
        process
            .send(handshake("2025-11-25") + &call(1, "fill", "{\"bytes\":1000000}") + &call(2, "term", "{}"));
        output.read_exact(&mut [0; 1000]).unwrap();
        process.input = None;
        // The server sends itself a signal in the grace period, which is longer than any timeout.
        assert_eq!(process.wait().code(), Some(1), "{role}");
        drop(output);
    }
}

fn a_call_that_stops_the_server_gets_its_response() {
    for role in ROLES {
        for tool in ["stop", "stop_inline"] {
            let mut process = Process::open(role, &[]);
            process.send(call(1, tool, "{}"));
            assert_eq!(text_of(&process.receive()), "stopping", "{role} {tool}");
            assert_eq!(process.wait().code(), Some(0));
            assert!(process.rest().is_empty());
        }
    }
}

fn limits_come_from_the_environment() {
    let process = Process::open("serve", &[("TINYMCP_FRAME_BYTES", "2048"), ("TINYMCP_JSON_DEPTH", "8")]);
    process.send("x".repeat(2049) + "\n");
    assert!(process.receive()["error"]["message"].as_str().unwrap().contains("2048"));
    process.send("[[[[[[[[[1]]]]]]]]]\n");
    assert!(process.receive()["error"]["message"].as_str().unwrap().contains("deep"));
    let mut process = Process::open("serve", &[("TINYMCP_DEADLINE_MS", "50"), ("TINYMCP_GRACE_MS", "50")]);
    process.send(call(1, "never", "{}"));
    assert!(text_of(&process.receive()).contains("deadline"));
    process.input = None;
    process.wait();
    assert!(process.errors().contains("a call reached its deadline (TINYMCP_DEADLINE_MS;"));
}

fn a_bad_limit_is_an_error() {
    for (name, value) in [
        ("TINYMCP_WORKERS", "0"),
        ("TINYMCP_WORKERS", "65"),
        ("TINYMCP_WORKERS", "four"),
        ("TINYMCP_QUEUE", ""),
        ("TINYMCP_FRAME_BYTES", "-1"),
        ("TINYMCP_FRAME_BYTES", "4 MiB"),
        ("TINYMCP_DEADLINE_MS", "99999999999999999999"),
    ] {
        for role in ROLES {
            let mut process = Process::start(role, &[(name, value)]);
            assert_eq!(process.wait().code(), Some(1), "{name}={value}");
            assert!(process.rest().is_empty());
            assert!(process.errors().contains(name));
        }
    }
}

fn the_address_space_limit_is_applied() {
    let bytes = (4_u64 << 30).to_string();
    let process = Process::open("serve", &[("TINYMCP_ADDRESS_SPACE", &bytes)]);
    process.send(call(1, "status", r#"{"file":"limits","line":"Max address space"}"#));
    let response = process.receive();
    // An emulator (see `cross/emulated`) does not apply this limit to its programs.
    if std::env::var_os("TEST_EMULATED").is_none() {
        assert!(text_of(&response).contains(&bytes), "{response}");
    }
    process.send(call(2, "fill", "{\"bytes\":4000000}"));
    assert_eq!(text_of(&process.receive()).len(), 4_000_000);
    assert!(process.end().is_empty());
    // Values above the limit of the system are ignored.
    let process = Process::open("serve", &[("TINYMCP_ADDRESS_SPACE", "18446744073709551615")]);
    assert!(process.end().is_empty());
}

fn a_line_beyond_the_limit_is_not_buffered() {
    let limit = 64 << 10;
    let process = Process::open("serve", &[("TINYMCP_FRAME_BYTES", &limit.to_string())]);
    let before = process.peak();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        process.send(&piece);
    }
    process.send("\n");
    assert_eq!(process.receive()["error"]["code"], -32600);
    process.assert_no_more();
    let grown = process.peak() - before;
    // The line up to the limit and one read; the buffer doubles while it grows.
    assert!(grown < 4 * (limit + (64 << 10)) / 1024, "{grown} KiB for a line of 64 MiB");
    // A line that never ends.
    process.send(&piece);
    let rest = process.end();
    assert_eq!(rest.len(), 1);
}

fn invalid_lines_cost_no_memory() {
    let count = if super::long() { 1_000_000 } else { 20_000 };
    let process = Process::open("serve", &[]);
    process.send("no json\n".repeat(1000));
    (0..1000).for_each(|_| assert_eq!(process.receive()["error"]["code"], -32700));
    let before = process.resident();
    std::thread::scope(|scope| {
        let process = &process;
        let input = process.input.as_ref().unwrap();
        scope.spawn(move || {
            for _ in 0..count / 1000 {
                let _ = std::io::Write::write_all(&mut { input }, "no json\n".repeat(1000).as_bytes());
            }
        });
        (0..count).for_each(|_| assert_eq!(process.receive()["error"]["code"], -32700));
    });
    process.assert_no_more();
    let grown = process.resident().saturating_sub(before);
    // Input and output buffers may have grown to their limits.
    assert!(grown < 2048, "{grown} KiB for {count} lines of garbage");
    assert!(process.end().is_empty());
}

fn non_blocking_descriptors_are_polled() {
    // A socket pair, as some hosts use: both processes share the flags of a descriptor.
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let (input, output) = (theirs.try_clone().unwrap(), theirs);
    let mut process = Process::spawn(
        command("serve", &[])
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(input)))
            .stdout(Stdio::from(std::os::fd::OwnedFd::from(output))),
    );
    process.adopt(ours);
    process.open_session("2025-11-25");
    for id in 0..3 {
        // Far more than a socket buffers.
        process.send(call(id, "fill", "{\"bytes\":3000000}"));
        assert_eq!(text_of(&process.receive()).len(), 3_000_000);
    }
    process.assert_no_more();
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0));
}

fn responses_written_during_a_stop_are_complete() {
    let rounds = if super::long() { 500 } else { 20 };
    for round in 0..rounds {
        let mut process = Process::start("serve", &[("TINYMCP_WORKERS", "2")]);
        process.open_session("2025-11-25");
        let calls: String = (0..40)
            .map(|id| match id % 4 {
                0 => request(id, "ping"),
                1 => call(id, "echo_inline", "{}"),
                2 => call(id, "fill", "{\"bytes\":20000}"),
                _ => call(id, "echo", "{}"),
            })
            .collect();
        process.send(calls);
        // Any of the lines.
        for _ in 0..round % 10 {
            process.receive();
        }
        process.signal(Signal::TERM);
        assert_eq!(process.wait().code(), Some(0));
        // `rest` asserts that every line is a complete message.
        let rest = process.rest();
        let mut ids: Vec<_> = rest.iter().map(|a| a["id"].to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), rest.len(), "a call has two responses");
    }
}
