//! Server process whose parent ends while the input stays open, and idle server process.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::in_time::in_time;
use super::process::{MIDDLE, Process, command};
use super::wire::{MODERN, Peer, call, handshake, is_success, request, text_of};
use crate::tests;

tests! {
    the_end_of_the_parent_ends_the_server,
    calls_finish_after_the_end_of_the_parent,
    a_stuck_call_gets_an_error_after_the_end_of_the_parent,
    input_of_an_ended_parent_is_answered,
    input_of_a_script_that_ends_is_answered,
    a_blocked_standard_error_does_not_keep_the_server,
    the_watch_of_the_parent_can_be_turned_off,
    an_idle_server_ends_with_the_limit_idle_exit,
    messages_and_calls_keep_an_idle_server,
    an_idle_server_does_not_wake_up,
}

const ROLES: [&str; 2] = ["serve", "local"];
const ENDED: &str = "the parent process has ended";
const IDLE: &str = "the server was idle for too long";

/// A call of the stateless protocol.
fn modern(id: u32, tool: &str) -> String {
    call(id, tool, "{}").replace("\"arguments\"", &format!("{MODERN},\"arguments\""))
}

/// Starts a server whose parent is not the test. The test holds the ends of its pipes.
fn with_parent(role: &str, variables: &[(&str, &str)]) -> Process {
    let mut parent = command(MIDDLE, variables);
    let mut process = Process::spawn(parent.env(MIDDLE, role));
    process.read();
    process
}

/// Kills the parent.
fn orphan(process: &mut Process) {
    process.signal(Signal::KILL);
    assert!(!process.wait().success());
}

fn the_end_of_the_parent_ends_the_server() {
    for role in ROLES {
        for session in [true, false] {
            let mut process = with_parent(role, &[]);
            match session {
                true => process.open_session("2025-11-25"),
                false => {
                    process.send(modern(1, "echo"));
                    assert!(is_success(&process.receive()), "{role}");
                }
            }
            orphan(&mut process);
            // Ends with the server.
            assert!(process.rest().is_empty(), "{role}");
            let errors = process.errors();
            assert_eq!(errors.matches(ENDED).count(), 1, "{role}: {errors}");
            assert!(errors.contains("hook") && !errors.contains("server:"), "{role}: {errors}");
        }
    }
}

fn calls_finish_after_the_end_of_the_parent() {
    for role in ROLES {
        let mut process = with_parent(role, &[]);
        process.open_session("2025-11-25");
        process.send(call(1, "pause", "{}") + &modern(2, "pause"));
        orphan(&mut process);
        let rest = process.rest();
        assert_eq!(rest.len(), 2, "{role}: {rest:?}");
        assert!(rest.iter().all(is_success), "{role}: {rest:?}");
    }
}

fn a_stuck_call_gets_an_error_after_the_end_of_the_parent() {
    for role in ROLES {
        // The reader waits for room in the queue.
        let one = [("TINYMCP_WORKERS", "1"), ("TINYMCP_QUEUE", "1"), ("TINYMCP_GRACE_MS", "50")];
        let mut process = with_parent(role, &one);
        process.open_session("2025-11-25");
        process.send((0..4).map(|id| call(id, "never", "{}")).collect::<String>());
        orphan(&mut process);
        let rest = process.rest();
        assert!(!rest.is_empty() && !rest.iter().any(is_success), "{role}: {rest:?}");
        assert!(process.errors().contains(ENDED), "{role}");
    }
}

fn input_of_an_ended_parent_is_answered() {
    for role in ROLES {
        let mut process = with_parent(role, &[("TINYMCP_WORKERS", "1"), ("TINYMCP_QUEUE", "1")]);
        process.open_session("2025-11-25");
        // All later calls wait for the first one, most of them in the pipe.
        let calls: String = (1..400).map(|id| call(id, "echo", "{}")).collect();
        process.send(call(0, "pause", "{}") + &calls);
        orphan(&mut process);
        let rest = process.rest();
        assert_eq!(rest.len(), 400, "{role}");
        assert!(rest.iter().all(is_success), "{role}");
    }
}

fn input_of_a_script_that_ends_is_answered() {
    for role in ROLES {
        let server = command(role, &[]);
        let mut script = Command::new("sh");
        let text = handshake("2025-11-25") + &call(1, "pause", "{}") + &call(2, "echo", "{}");
        script.args(["-c", "printf %s \"$1\" | \"$0\" &"]).arg(server.get_program()).arg(text);
        for (name, value) in server.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let output = script.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.lines().count() == 3, "{role}: {text}");
    }
}

fn a_blocked_standard_error_does_not_keep_the_server() {
    let (read, write) = UnixStream::pair().unwrap();
    write.set_nonblocking(true).unwrap();
    while (&write).write(&[b'x'; 4096]).is_ok() {}
    write.set_nonblocking(false).unwrap();
    let mut parent = command(MIDDLE, &[]);
    let mut process = Process::spawn(parent.env(MIDDLE, "quiet").stderr(OwnedFd::from(write)));
    process.read();
    process.open_session("2025-11-25");
    orphan(&mut process);
    assert!(process.rest().is_empty());
    drop(read);
}

fn the_watch_of_the_parent_can_be_turned_off() {
    for role in ROLES {
        let mut process = with_parent(role, &[("TINYMCP_PARENT_CHECK_MS", "0")]);
        process.open_session("2025-11-25");
        orphan(&mut process);
        for id in 0..2 {
            process.send(call(id, "pause", "{}"));
            assert!(is_success(&process.receive()), "{role}");
        }
        process.input = None;
        assert!(process.rest().is_empty(), "{role}");
        assert!(!process.errors().contains(ENDED), "{role}");
    }
}

fn an_idle_server_ends_with_the_limit_idle_exit() {
    for role in ROLES {
        for session in [true, false] {
            let mut process = Process::start(role, &[("TINYMCP_IDLE_EXIT_MS", "100")]);
            process.send(if session { handshake("2025-11-25") } else { modern(1, "echo") });
            assert!(is_success(&process.receive()), "{role}");
            assert_eq!(process.wait().code(), Some(0), "{role}");
            let errors = process.errors();
            assert!(errors.contains(IDLE) && errors.contains("hook"), "{role}: {errors}");
        }
    }
}

fn messages_and_calls_keep_an_idle_server() {
    for role in ROLES {
        in_time(Duration::from_millis(100), |idle| {
            let time = idle.as_millis().to_string();
            let limits = [("TINYMCP_IDLE_EXIT_MS", &*time), ("TINYMCP_DEADLINE_MS", "0")];
            let mut process = Process::start(role, &limits);
            process.open_session("2025-11-25");
            // Takes 500 ms.
            process.send(call(1, "pause", "{}"));
            assert_eq!(text_of(&process.receive()), "2", "{role}");
            let end = Instant::now() + idle * 3;
            let mut last = Instant::now();
            while last < end {
                process.send(request(2, "ping"));
                process.line(Duration::from_secs(20))?;
                if last.elapsed() > idle / 4 {
                    return None;
                }
                last = Instant::now();
            }
            assert_eq!(process.wait().code(), Some(0), "{role}");
            Some(())
        });
    }
}

fn an_idle_server_does_not_wake_up() {
    let process = Process::open("serve", &[]);
    process.send(call(1, "echo", "{}"));
    assert!(is_success(&process.receive()));
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let before = process.switches();
        assert_eq!(process.line(Duration::from_secs(1)), None);
        let wakes = process.switches() - before;
        if wakes == 0 {
            break;
        }
        assert!(Instant::now() < end, "{wakes} wake-ups in a second");
    }
    assert!(process.end().is_empty());
}
