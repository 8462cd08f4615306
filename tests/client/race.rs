//! Many threads on one connection, with deadlines and cancellation at random: every call completes
//! exactly once, and nothing is left.
//!
//! Short by default; `TEST_LONG=1` makes it two hundred thousand calls, `TEST_CALLS` any number.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tinymcp::{Client, Error, ErrorKind, Limits, Protocol, Server, Tool, ToolOutput, json, memory_links};

use super::scripted::plain;

tinymcp::record! {
    struct Echo { text: String }
}

/// Server whose `echo` returns its text, and that exits at the first line that is not JSON-RPC.
pub(crate) fn strict_server() -> Command {
    let tests = std::env::current_exe().unwrap();
    let program = tests
        .parent()
        .unwrap()
        .with_file_name("examples")
        .join(format!("strict_server{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "run `cargo build --examples` first");
    let mut command = Command::new(program);
    command.arg("--text");
    command
}

/// A small random generator with a fixed seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Outcomes of the calls.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) answered: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) cancelled: AtomicU64,
}

impl Tally {
    pub(crate) fn count(&self, outcome: Result<ToolOutput, Error>, text: &str) {
        let counter = match outcome {
            Ok(output) => {
                assert_eq!(output.texts(), text, "an answer that belongs to another call");
                &self.answered
            }
            Err(error) if error.kind() == ErrorKind::Timeout => &self.late,
            Err(error) if error.kind() == ErrorKind::Cancelled => &self.cancelled,
            Err(error) => panic!("{error:?}"),
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Numbers of calls with a response, late ones and cancelled ones.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.answered, &self.late, &self.cancelled].map(|n| n.load(Ordering::Relaxed))
    }
}

pub(crate) fn calls() -> u64 {
    if let Some(calls) = std::env::var("TEST_CALLS").ok().and_then(|n| n.parse().ok()) {
        return calls;
    }
    if std::env::var_os("TEST_LONG").is_some() { 200_000 } else { 8_000 }
}

pub(crate) const THREADS: u64 = 16;

/// Lets each thread make this many calls with its own random generator. `one` makes a call with a unique text.
pub(crate) fn at_once<T: Send + Sync + 'static>(
    client: &Client,
    tally: &Arc<T>,
    each: u64,
    one: fn(&Client, &mut Random, &str, &T),
) {
    let threads = (0..THREADS).map(|thread| {
        let (client, tally) = (client.clone(), Arc::clone(tally));
        std::thread::spawn(move || {
            let mut random = Random(thread + 1);
            (0..each).for_each(|n| one(&client, &mut random, &format!("{thread}:{n}"), &tally));
        })
    });
    let threads: Vec<_> = threads.collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn one_call(client: &Client, random: &mut Random, text: &str, tally: &Tally) {
    let request = client.request_tool("echo", json!({"text": text}));
    let outcome = match random.below(10) {
        // Too short for most, long enough for some.
        0 => request.timeout(Duration::from_micros(random.below(400))).wait(),
        1 => {
            let call = request.start().unwrap();
            let canceller = call.canceller();
            let spins = random.below(3_000);
            let other = std::thread::spawn(move || {
                (0..spins).for_each(|_| std::hint::spin_loop());
                canceller.cancel();
                canceller.cancel();
            });
            let outcome = call.wait();
            other.join().unwrap();
            outcome
        }
        2 => {
            // Two calls in flight, waited for in the opposite order.
            let first = request.start().unwrap();
            let second = client.request_tool("echo", json!({"text": "second"})).start().unwrap();
            assert_eq!(second.wait().unwrap().texts(), "second");
            first.wait()
        }
        3 => {
            drop(request.start().unwrap());
            tally.cancelled.fetch_add(1, Ordering::Relaxed);
            return;
        }
        _ => request.wait(),
    };
    tally.count(outcome, text);
}

fn check(client: &Client) {
    let tally = Arc::new(Tally::default());
    at_once(client, &tally, calls() / THREADS, one_call);
    let [answered, late, cancelled] = tally.counts();
    assert_eq!(answered + late + cancelled, calls() / THREADS * THREADS, "every call completed once");
    assert!(answered > calls() / 2 && late > 0 && cancelled > 0, "{answered} {late} {cancelled}");
    assert_eq!(client.in_flight(), 0);
    assert_eq!(client.stats().stray_output, 0);
}

#[test]
fn sixteen_threads_in_memory_in_both_eras() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let mut server = Server::new("echo", "1");
        server.tool(Tool::new("echo"), |_, echo: Echo| Ok(echo.text)).unwrap();
        let (ours, theirs) = memory_links();
        let serving = std::thread::spawn(move || server.serve(theirs));
        let client = plain().protocol(era).over(ours).unwrap();
        check(&client);
        drop(client);
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn sixteen_threads_with_a_child() {
    for era in [Protocol::Stateless, Protocol::Session] {
        let client = plain().limits(Limits::default()).protocol(era).spawn(strict_server()).unwrap();
        check(&client);
    }
}
