//! Nothing is left of connections of any fate: no thread, no process, no descriptor.

use std::process::Command;
use std::time::{Duration, Instant};

use tinymcp::{Client, Limits, Protocol, Server, Stderr, memory_links};

use super::children::{descriptors, legacy, numbered, session, threads};
use super::played::{SOON, plain};

/// Set for the process that runs [`alone`] and nothing else.
const ALONE: &str = "TEST_ALONE";

#[test]
fn nothing_is_left_of_any_connection() {
    // Counting is for a process that does nothing else.
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "left::alone", "--test-threads=1"])
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
    // Once for what is made once, such as the descriptor of the random numbers.
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
    // The emulator keeps some memory of every thread that ever was, in a program that does nothing but start some, too:
    // 400 kB in each round with qemu 10.
    let most = if std::env::var_os("TEST_EMULATED").is_some() { 16 << 20 } else { 4 << 20 };
    assert!(grown < most, "{grown} bytes");
}

/// Waits for it, not for ever: the threads of a server's and of a client's pool end a moment after it, and with them
/// their descriptors.
fn wait_until(settled: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !settled() && Instant::now() < deadline {
        std::thread::yield_now();
    }
}

fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let lists = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    lists.map(|list| list.split_whitespace().count()).sum()
}

/// Bytes of memory that this process has.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn fates() {
    let mut limits = Limits::default();
    limits.child_exit = Duration::from_millis(50);
    let mut narrow = limits.clone();
    narrow.frame_bytes = 100_000;
    let mut short = limits.clone();
    short.call_timeout = Duration::from_millis(50);
    let impatient = || legacy().limits(limits.clone()).stderr(Stderr::Piped);
    // Closed with nothing under way; with a call under way; dead before; stubborn; silent from the
    // first question on; gone at once; not there at all.
    drop(impatient().spawn(numbered("cat >/dev/null")).unwrap());
    let client = impatient().spawn(numbered("cat >/dev/null")).unwrap();
    let waiting = client.request_tool("x", ()).start().unwrap();
    client.close();
    assert!(waiting.wait().is_err());
    drop(client);
    let client = impatient().spawn(session("exit 1")).unwrap();
    assert!(client.call_tool("x", ()).is_err());
    drop(client);
    // A line without an end: the memory is compared in the end.
    let client = impatient().limits(narrow).spawn(session("read -r call; yes | tr -d '\\n'")).unwrap();
    let request = client.request_tool("x", ()).timeout(Duration::from_millis(40));
    assert!(request.wait().is_err());
    drop(client);
    drop(impatient().spawn(session("trap '' TERM; while :; do sleep 10; done")).unwrap());
    assert!(impatient().limits(short).spawn(super::children::shell("sleep 1000")).is_err());
    assert!(impatient().spawn(super::children::shell("exit 0")).is_err());
    assert!(impatient().spawn(Command::new("/no/such/program")).is_err());
    // A server that asks, in memory.
    for era in [Protocol::Session, Protocol::Stateless] {
        let (ours, theirs) = memory_links();
        let serving = std::thread::spawn(move || Server::new("s", "1").serve(theirs));
        let client: Client = plain().protocol(era).on_change(|_| {}).over(ours).unwrap();
        client.ping().unwrap();
        drop(client);
        serving.join().unwrap().unwrap();
    }
}
