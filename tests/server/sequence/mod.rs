//! Sequences of frames: a server's response to a frame equals that of a fresh server, regardless of earlier
//! frames.
//!
//! The frames change as messages of clients do, and in invalid ways: lists grow and shrink, members appear and
//! disappear, types change, texts get errors. `TEST_SEQUENCES=1000000 cargo test --release --test server sequence` runs that many
//! sequences in memory and one in 200 of them over each of the other ways; `TEST_SEQUENCES_FROM` sets the first seed,
//! which a failure prints.

mod changes;
mod frames;
#[cfg(feature = "http-server")]
mod http;
#[cfg(unix)]
mod lines;
mod rig;

use frames::{Frame, Protocol, Random, sequence};
use rig::{answers, opening, server};

/// Frames in a sequence.
const LENGTH: usize = 10;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The seeds of a test: those of the environment, or `few`. A test over a slower way runs one in `share` of them.
fn seeds(few: u64, share: u64) -> impl Iterator<Item = u64> {
    let from = setting("TEST_SEQUENCES_FROM").unwrap_or(0);
    let count = setting("TEST_SEQUENCES").map_or(few, |count| (count / share).max(1));
    from..from + count
}

/// Responses of a fresh server to one frame, without the response to the opening.
fn fresh(pooled: bool, protocol: Protocol, frame: &str) -> Vec<String> {
    match protocol {
        Protocol::Session(revision) => {
            let mut all = answers(server(pooled), &[&opening(revision), frame]);
            all.remove(0);
            all
        }
        Protocol::Stateless => answers(server(pooled), &[frame]),
    }
}

/// Readable form of a difference: every frame, and the responses of both servers.
fn compare(seed: u64, way: &str, frames: &[Frame], lasting: &[String], fresh: &[String]) {
    if lasting == fresh {
        return;
    }
    let sent: Vec<&str> = frames.iter().map(|frame| &*frame.text).collect();
    let at = lasting.iter().zip(fresh).take_while(|(a, b)| a == b).count();
    panic!(
        "seed {seed}, {way}: answer {at} differs\nlong-lived: {:?}\nfresh:      {:?}\nframes:\n{}",
        lasting.get(at),
        fresh.get(at),
        sent.join("\n")
    );
}

#[test]
fn in_memory_and_inline_a_long_lived_server_answers_as_a_fresh_one() {
    let mut calls = 0;
    for seed in seeds(400, 1) {
        let mut r = Random(seed);
        let protocol = Protocol::random(&mut r);
        let frames = sequence(&mut r, protocol, LENGTH, true);
        let open = match protocol {
            Protocol::Session(revision) => Some(opening(revision)),
            Protocol::Stateless => None,
        };
        let sent: Vec<&str> = open.as_deref().into_iter().chain(frames.iter().map(|f| &*f.text)).collect();
        let mut lasting = answers(server(false), &sent);
        drop(lasting.drain(..usize::from(open.is_some())));
        let fresh: Vec<String> =
            frames.iter().flat_map(|frame| fresh(false, protocol, &frame.text)).collect();
        compare(seed, "in memory", &frames, &lasting, &fresh);
        calls += fresh.iter().filter(|answer| answer.contains("\"content\"")).count();
    }
    assert!(calls > 500, "only {calls} calls were answered");
}
