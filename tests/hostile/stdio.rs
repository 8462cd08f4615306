//! Standard input and output as real life has them: a server process, and what parents do to it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;

use rustix::process::Signal;

use super::process::{Process, command, send_signal};
use super::wire::{Peer, call, greeting, is_good, request, text_of};
use crate::tests;

tests! {
    nothing_is_read_and_nothing_is_written,
    the_end_of_input_finishes_running_calls,
    the_last_line_needs_no_newline,
    a_call_that_never_ends_is_answered_after_the_grace_period,
    what_handlers_and_their_children_print_stays_out_of_the_stream,
    a_child_left_behind_holds_no_descriptor,
    a_closed_output_ends_the_server_quietly,
    closed_descriptors_at_the_start_end_the_server,
    a_full_disk_ends_the_server,
    answers_that_nobody_reads_are_an_error,
    a_socket_whose_peer_is_gone_has_ended,
    signals_end_the_server,
    a_signal_ends_a_server_with_a_stuck_call,
    a_signal_is_heard_during_the_grace_period,
    a_signal_ends_a_server_whose_peer_does_not_read,
    a_later_signal_ends_the_process_at_once,
    a_signal_hurries_a_peer_that_does_not_read_at_the_end_of_input,
    stopping_from_a_handler_answers_that_call,
    limits_come_from_the_environment,
    a_bad_limit_is_an_error,
    the_address_space_is_capped,
    a_line_beyond_the_limit_is_not_kept,
    garbage_costs_no_memory,
    descriptors_that_do_not_block_are_waited_for,
    answers_of_the_last_moment_are_whole,
}

/// A call that tells that it runs, and never ends.
const STUCK: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"never\",\"_meta\":{\"progressToken\":1}}}\n";

const ROLES: [&str; 2] = ["serve", "local"];

fn nothing_is_read_and_nothing_is_written() {
    for role in ROLES {
        let process = Process::start(role, &[]);
        assert!(process.end().is_empty());
    }
}

fn the_end_of_input_finishes_running_calls() {
    for role in ROLES {
        for (workers, queue) in [("1", "1"), ("2", "4"), ("64", "256")] {
            let mut process = Process::start(role, &[("TINYMCP_WORKERS", workers), ("TINYMCP_QUEUE", queue)]);
            let mut text = greeting("2025-11-25");
            text.extend((0..200).map(|id| call(id, if id % 3 == 0 { "echo_inline" } else { "echo" }, "{}")));
            process.send(text);
            process.input = None;
            assert_eq!(process.receive()["id"], "open");
            assert!(process.answers(0..200).iter().all(is_good));
            assert!(process.end().is_empty());
        }
    }
}

fn the_last_line_needs_no_newline() {
    let mut process = Process::start("serve", &[]);
    process.send(greeting("2025-11-25") + call(1, "echo", "{}").trim_end());
    process.input = None;
    assert_eq!(process.receive()["id"], "open");
    assert_eq!(text_of(&process.receive()), "{}");
    assert!(process.end().is_empty());
}

fn a_call_that_never_ends_is_answered_after_the_grace_period() {
    for role in ROLES {
        let process = Process::open(role, &[("TINYMCP_GRACE_MS", "50"), ("TINYMCP_WORKERS", "1")]);
        process.send((0..3).map(|id| call(id, "never", "{}")).collect::<String>());
        let rest = process.end();
        assert_eq!(rest.len(), 3, "{rest:?}");
        assert!(rest.iter().all(|a| text_of(a).contains("shutting down")), "{rest:?}");
    }
}

fn what_handlers_and_their_children_print_stays_out_of_the_stream() {
    for role in ROLES {
        let mut process = Process::open(role, &[]);
        for id in 0..3 {
            process.send(call(id, "print", "{}"));
            assert!(text_of(&process.receive()).starts_with("printed"));
        }
        process.quiet();
        process.input = None;
        assert!(process.wait().success());
        assert!(process.rest().is_empty());
        let errors = process.errors();
        for line in ["a stray line", "and half a one", "a line of a child", "hook"] {
            assert!(errors.contains(line), "{errors}");
        }
    }
}

fn a_child_left_behind_holds_no_descriptor() {
    for role in ROLES {
        let mut process = Process::open(role, &[]);
        process.send(call(1, "orphan", "{}"));
        let orphan: u32 = text_of(&process.receive()).parse().unwrap();
        process.input = None;
        assert!(process.wait().success());
        // The output ends with the server, not with its child.
        assert!(process.rest().is_empty());
        send_signal(orphan, Signal::KILL);
    }
}

fn a_closed_output_ends_the_server_quietly() {
    for role in ROLES {
        let mut process = Process::spawn(&mut command(role, &[]));
        process.output = None;
        // The input stays open and, after this, silent.
        process.send(greeting("2025-11-25"));
        process.send(call(1, "echo", "{}"));
        assert_eq!(process.wait().code(), Some(0));
        let errors = process.errors();
        assert!(!errors.contains("panicked"), "{errors}");
    }
    // Closed between two messages, with an answer on its way.
    let mut process = Process::spawn(&mut command("serve", &[]));
    process.send(greeting("2025-11-25"));
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
    // One that cannot be written to is no peer that is gone, but a mistake.
    let mut process = Process::spawn(command("serve", &[]).stdout(null()));
    process.send(greeting("2025-11-25"));
    assert_eq!(process.wait().code(), Some(1));
    assert!(process.errors().contains("cannot be written"));
    let mut process = Process::spawn(command("serve", &[]).stderr(Stdio::null()));
    process.read();
    process.greet("2025-11-25");
    process.send(call(1, "print", "{}"));
    assert!(is_good(&process.receive()));
    // A directory cannot be read: that is an error, and said.
    let mut process = Process::spawn(command("serve", &[]).stdin(File::open("/").unwrap()));
    assert_eq!(process.wait().code(), Some(1));
    assert!(process.errors().contains("failed"));
}

fn a_full_disk_ends_the_server() {
    for role in ROLES {
        let Ok(full) = File::options().write(true).open("/dev/full") else { return };
        let mut process = Process::spawn(command(role, &[]).stdout(full));
        process.send(greeting("2025-11-25"));
        // The answer is lost, and not for want of a reader: that is said.
        assert_eq!(process.wait().code(), Some(1), "{role}");
        let errors = process.errors();
        assert!(errors.contains("cannot be written"), "{role}: {errors}");
    }
}

fn answers_that_nobody_reads_are_an_error() {
    for role in ROLES {
        let mut process = Process::spawn(&mut command(role, &[("TINYMCP_GRACE_MS", "50")]));
        // A pipeline whose next program is slow: the pipe stays open, and nobody reads.
        let mut output = process.output.take().unwrap();
        process.send(greeting("2025-11-25") + &call(1, "fill", "{\"bytes\":1000000}"));
        // As far as into the large answer.
        output.read_exact(&mut [0; 1000]).unwrap();
        process.input = None;
        assert_eq!(process.wait().code(), Some(1), "{role}");
        let errors = process.errors();
        assert!(errors.contains("did not read"), "{role}: {errors}");
        drop(output);
    }
}

fn a_socket_whose_peer_is_gone_has_ended() {
    for role in ROLES {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (input, output) = (theirs.try_clone().unwrap(), theirs);
        let mut process = Process::spawn(
            command(role, &[])
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(input)))
                .stdout(Stdio::from(std::os::fd::OwnedFd::from(output))),
        );
        (&ours).write_all(greeting("2025-11-25").as_bytes()).unwrap();
        (&ours).read_exact(&mut [0; 10]).unwrap();
        // With some of an answer unread the system says that the connection was reset.
        drop(ours);
        assert_eq!(process.wait().code(), Some(0), "{role}: {}", process.errors());
    }
}

fn signals_end_the_server() {
    for role in ROLES {
        for signal in [Signal::TERM, Signal::INT] {
            let mut process = Process::open(role, &[]);
            process.send(call(1, "echo", "{}"));
            assert!(is_good(&process.receive()));
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
            // An inline handler holds back what was answered before it in the same breath.
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

fn a_signal_is_heard_during_the_grace_period() {
    for role in ROLES {
        let mut process = Process::open(role, &[("TINYMCP_GRACE_MS", "3600000")]);
        process.send(call(1, "never", "{}") + &call(2, "ask", "{}"));
        assert_eq!(process.receive()["method"], "elicitation/create");
        process.input = None;
        // The end of the input was seen when the question is taken back.
        assert_eq!(process.answer()["id"], 2);
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
        process.send(greeting("2025-11-25"));
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
        // The first ones may be one to the system, and count as one for a second; what kills comes
        // after that.
        while process.is_running() {
            process.signal(Signal::TERM);
            thread::yield_now();
        }
        assert_eq!(process.wait().code(), None, "{role}");
    }
}

fn a_signal_hurries_a_peer_that_does_not_read_at_the_end_of_input() {
    for role in ROLES {
        let mut process = Process::spawn(&mut command(role, &[("TINYMCP_GRACE_MS", "3600000")]));
        let mut output = process.output.take().unwrap();
        process
            .send(greeting("2025-11-25") + &call(1, "fill", "{\"bytes\":1000000}") + &call(2, "term", "{}"));
        output.read_exact(&mut [0; 1000]).unwrap();
        process.input = None;
        // Its own signal came in the grace period, which is longer than anybody waits.
        assert_eq!(process.wait().code(), Some(1), "{role}");
        drop(output);
    }
}

fn stopping_from_a_handler_answers_that_call() {
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
    let process = Process::open("serve", &[("TINYMCP_DEADLINE_MS", "50")]);
    process.send(call(1, "never", "{}"));
    assert!(text_of(&process.receive()).contains("deadline"));
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

fn the_address_space_is_capped() {
    let bytes = (4_u64 << 30).to_string();
    let process = Process::open("serve", &[("TINYMCP_ADDRESS_SPACE", &bytes)]);
    process.send(call(1, "status", r#"{"file":"limits","line":"Max address space"}"#));
    let answer = process.receive();
    // An emulator of programs (cross/emulated says so) keeps this limit to itself.
    if std::env::var_os("TEST_EMULATED").is_none() {
        assert!(text_of(&answer).contains(&bytes), "{answer}");
    }
    process.send(call(2, "fill", "{\"bytes\":4000000}"));
    assert_eq!(text_of(&process.receive()).len(), 4_000_000);
    assert!(process.end().is_empty());
    // More than the system allows at all is left alone.
    let process = Process::open("serve", &[("TINYMCP_ADDRESS_SPACE", "18446744073709551615")]);
    assert!(process.end().is_empty());
}

fn a_line_beyond_the_limit_is_not_kept() {
    let limit = 64 << 10;
    let process = Process::open("serve", &[("TINYMCP_FRAME_BYTES", &limit.to_string())]);
    let before = process.peak();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        process.send(&piece);
    }
    process.send("\n");
    assert_eq!(process.receive()["error"]["code"], -32600);
    process.quiet();
    let grown = process.peak() - before;
    // The line as far as it is looked at, and what is read at once, twice while the buffer grows.
    assert!(grown < 4 * (limit + (64 << 10)) / 1024, "{grown} KiB for a line of 64 MiB");
    // And one that never ends.
    process.send(&piece);
    let rest = process.end();
    assert_eq!(rest.len(), 1);
}

fn garbage_costs_no_memory() {
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
    process.quiet();
    let grown = process.resident().saturating_sub(before);
    // Input and output buffers may have been filled to their bounds meanwhile.
    assert!(grown < 2048, "{grown} KiB for {count} lines of garbage");
    assert!(process.end().is_empty());
}

fn descriptors_that_do_not_block_are_waited_for() {
    // A socket pair, as some hosts use: its flags are common to all who hold an end of it.
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let (input, output) = (theirs.try_clone().unwrap(), theirs);
    let mut process = Process::spawn(
        command("serve", &[])
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(input)))
            .stdout(Stdio::from(std::os::fd::OwnedFd::from(output))),
    );
    process.adopt(ours);
    process.greet("2025-11-25");
    for id in 0..3 {
        // Much more than a socket holds.
        process.send(call(id, "fill", "{\"bytes\":3000000}"));
        assert_eq!(text_of(&process.receive()).len(), 3_000_000);
    }
    process.quiet();
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0));
}

fn answers_of_the_last_moment_are_whole() {
    let rounds = if super::long() { 500 } else { 20 };
    for round in 0..rounds {
        let mut process = Process::start("serve", &[("TINYMCP_WORKERS", "2")]);
        process.greet("2025-11-25");
        let calls: String = (0..40)
            .map(|id| match id % 4 {
                0 => request(id, "ping"),
                1 => call(id, "echo_inline", "{}"),
                2 => call(id, "fill", "{\"bytes\":20000}"),
                _ => call(id, "echo", "{}"),
            })
            .collect();
        process.send(calls);
        // Somewhere among them.
        for _ in 0..round % 10 {
            process.receive();
        }
        process.signal(Signal::TERM);
        assert_eq!(process.wait().code(), Some(0));
        // Every line is a whole message; this asserts it.
        let rest = process.rest();
        let mut ids: Vec<_> = rest.iter().map(|a| a["id"].to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), rest.len(), "an answer came twice");
    }
}
