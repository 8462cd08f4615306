//! No thread, process or descriptor remains after a connection, however it ends.

use std::process::Command;
use std::time::{Duration, Instant};

use tinymcp::{Client, Limits, Protocol, Server, Stderr, memory_links};

use super::children::{descriptors, legacy, numbered, session, threads};
use super::scripted::{TIMEOUT, plain};

/// Set for the process that runs only [`alone`].
const ALONE: &str = "TEST_ALONE";

#[test]
fn no_connection_leaves_threads_processes_or_descriptors() {
    // The counts are valid only in a process without other tests.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leftovers::alone", "--test-threads=1"])
        .env(ALONE, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn alone() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    // A first round opens what stays open, such as the descriptor of the random numbers.
    fates();
    wait_until(|| threads() == 0);
    let (before, mapped) = (descriptors(), resident());
    for _ in 0..20 {
        fates();
        assert_eq!(children(), 0);
    }
    wait_until(|| threads() == 0 && descriptors() <= before);
    assert_eq!((threads(), descriptors()), (0, before));
    let grown = resident().saturating_sub(mapped);
    // The emulator keeps some memory of each ended thread, in any program: 400 kB in each round with qemu 10.
    let most = if std::env::var_os("TEST_EMULATED").is_some() { 16 << 20 } else { 4 << 20 };
    assert!(grown < most, "{grown} bytes");
}

/// Waits for this state with a timeout: the threads of the server's and the client's pool end shortly after the
/// connection, and their descriptors with them.
fn wait_until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !done() && Instant::now() < deadline {
        std::thread::yield_now();
    }
}

fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let lists = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    lists.map(|list| list.split_whitespace().count()).sum()
}

/// Memory of this process in bytes.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn fates() {
    let mut limits = Limits::default();
    limits.client.child_exit = Duration::from_millis(50);
    let mut narrow = limits.clone();
    narrow.frame_bytes = 100_000;
    let mut short = limits.clone();
    short.client.call_timeout = Duration::from_millis(50);
    let impatient = || legacy().limits(limits.clone()).stderr(Stderr::Piped);
    // Closed without a call; with a call in flight; server dead before; server that ignores signals; silent from the
    // probe on; exits immediately; does not exist.
    drop(impatient().spawn(numbered("cat >/dev/null")).unwrap());
    let client = impatient().spawn(numbered("cat >/dev/null")).unwrap();
    let waiting = client.request_tool("x", ()).start().unwrap();
    client.close();
    assert!(waiting.wait().is_err());
    drop(client);
    let client = impatient().spawn(session("exit 1")).unwrap();
    assert!(client.call_tool("x", ()).is_err());
    drop(client);
    // A line without an end: the memory is compared at the end.
    let client = impatient().limits(narrow).spawn(session("read -r call; yes | tr -d '\\n'")).unwrap();
    let request = client.request_tool("x", ()).timeout(Duration::from_millis(40));
    assert!(request.wait().is_err());
    drop(client);
    drop(impatient().spawn(session("trap '' TERM; while :; do sleep 10; done")).unwrap());
    assert!(impatient().limits(short).spawn(super::children::shell("sleep 1000")).is_err());
    assert!(impatient().spawn(super::children::shell("exit 0")).is_err());
    assert!(impatient().spawn(Command::new("/no/such/program")).is_err());
    // A server that sends requests, in memory.
    for era in [Protocol::Session, Protocol::Stateless] {
        let (ours, theirs) = memory_links();
        let serving = std::thread::spawn(move || Server::new("s", "1").serve(theirs));
        let client: Client = plain().protocol(era).on_change(|_| {}).over(ours).unwrap();
        client.ping().unwrap();
        drop(client);
        serving.join().unwrap().unwrap();
    }
}
