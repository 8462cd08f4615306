//! Many threads on one connection, with deadlines and cancellation at random: every call completes
//! exactly once, and nothing is left.
//!
//! Short by default; `TEST_LONG=1` makes it two hundred thousand calls, `TEST_CALLS` any number.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tinymcp::{Client, Era, ErrorKind, Limits, Server, Tool, json, memory_links};

use super::played::plain;

tinymcp::record! {
    struct Echo { text: String }
}

/// A small generator: the same calls every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    late: AtomicU64,
    cancelled: AtomicU64,
}

pub(crate) fn calls() -> u64 {
    if let Some(calls) = std::env::var("TEST_CALLS").ok().and_then(|n| n.parse().ok()) {
        return calls;
    }
    if std::env::var_os("TEST_LONG").is_some() { 200_000 } else { 8_000 }
}

pub(crate) const THREADS: u64 = 16;

fn storm(client: &Client) -> Arc<Tally> {
    let tally = Arc::new(Tally::default());
    let each = calls() / THREADS;
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (client, tally) = (client.clone(), Arc::clone(&tally));
            std::thread::spawn(move || {
                let mut dice = Dice(thread + 1);
                for n in 0..each {
                    let text = format!("{thread}:{n}");
                    let arguments = json!({"text": text.as_str()});
                    let request = client.prepare_tool("echo", arguments);
                    let outcome = match dice.roll(10) {
                        // Too short for most, long enough for some.
                        0 => request.timeout(Duration::from_micros(dice.roll(400))).wait(),
                        1 => {
                            let call = request.start().unwrap();
                            let canceller = call.canceller();
                            let spins = dice.roll(3_000);
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
                            // Two under way, waited for in the other order.
                            let first = request.start().unwrap();
                            let second =
                                client.prepare_tool("echo", json!({"text": "second"})).start().unwrap();
                            assert_eq!(second.wait().unwrap().texts(), "second");
                            first.wait()
                        }
                        3 => {
                            drop(request.start().unwrap());
                            tally.cancelled.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        _ => request.wait(),
                    };
                    match outcome {
                        Ok(output) => {
                            assert_eq!(output.texts(), text, "an answer that belongs to another call");
                            tally.answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) if error.kind() == ErrorKind::Timeout => {
                            tally.late.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) if error.kind() == ErrorKind::Cancelled => {
                            tally.cancelled.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    tally
}

fn check(client: &Client) {
    let tally = storm(client);
    let [answered, late, cancelled] =
        [&tally.answered, &tally.late, &tally.cancelled].map(|n| n.load(Ordering::Relaxed));
    assert_eq!(answered + late + cancelled, calls() / THREADS * THREADS, "every call completed once");
    assert!(answered > calls() / 2 && late > 0 && cancelled > 0, "{answered} {late} {cancelled}");
    assert_eq!(client.in_flight(), 0);
    assert_eq!(client.counts().noise, 0);
}

#[test]
fn sixteen_threads_in_memory_in_both_eras() {
    for era in [Era::Modern, Era::Legacy] {
        let mut server = Server::new("echo", "1");
        server.tool(Tool::new("echo"), |_, echo: Echo| Ok(echo.text)).unwrap();
        let (ours, theirs) = memory_links();
        let serving = std::thread::spawn(move || server.serve(theirs));
        let client = plain().era(era).over(ours).unwrap();
        check(&client);
        drop(client);
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn sixteen_threads_with_a_child() {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join("echo_server");
    assert!(program.exists(), "run `cargo build --examples` first");
    for era in [Era::Modern, Era::Legacy] {
        let client = plain().limits(Limits::default()).era(era).spawn(Command::new(&program)).unwrap();
        check(&client);
    }
}
