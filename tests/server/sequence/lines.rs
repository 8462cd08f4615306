//! Sequences over lines, as stdio sends them, with handlers on the reader thread and on the pool.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tinymcp::{Limits, Link};

use super::frames::{Protocol, Random, sequence};
use super::rig::{opening, server};
use super::{LENGTH, compare, fresh, seeds};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(30);

/// A client of a server on the other end of a socket pair.
struct Client {
    to: UnixStream,
    from: BufReader<UnixStream>,
    serving: JoinHandle<()>,
}

impl Client {
    fn new(pooled: bool, protocol: Protocol) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(HANG)).unwrap();
        let link = Link::lines(theirs.try_clone().unwrap(), theirs, &Limits::default());
        let serving = thread::spawn(move || server(pooled).serve(link).unwrap());
        let mut client = Client { from: BufReader::new(ours.try_clone().unwrap()), to: ours, serving };
        if let Protocol::Session(revision) = protocol {
            client.send(&opening(revision));
            client.receive().expect("a greeting");
        }
        client
    }

    fn send(&mut self, frame: &str) {
        self.to.write_all(format!("{frame}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Option<String> {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("an answer in time");
        (!line.is_empty()).then(|| line.trim_end().to_owned())
    }

    /// Closes the input and returns the remaining messages.
    fn end(mut self) -> Vec<String> {
        self.to.shutdown(std::net::Shutdown::Write).unwrap();
        let rest = std::iter::from_fn(|| self.receive()).collect();
        self.serving.join().unwrap();
        rest
    }
}

/// Responses of pooled calls may be reordered, so a frame is sent only after the response to the
/// previous one.
fn run(pooled: bool) {
    for seed in seeds(40, 200) {
        let mut r = Random(seed);
        let protocol = Protocol::random(&mut r);
        // The calls of a batch run in parallel on the pool, in any order.
        let frames = sequence(&mut r, protocol, LENGTH, !pooled);
        let (mut lasting, mut all) = (Vec::new(), Vec::new());
        let mut client = Client::new(pooled, protocol);
        for frame in frames.iter().filter(|frame| !frame.text.trim().is_empty()) {
            let answers = fresh(pooled, protocol, &frame.text);
            client.send(&frame.text);
            lasting.extend(answers.iter().map_while(|_| client.receive()));
            all.extend(answers);
        }
        lasting.extend(client.end());
        compare(seed, if pooled { "lines, pooled" } else { "lines, inline" }, &frames, &lasting, &all);
    }
}

#[test]
fn over_lines_and_inline_a_long_lived_server_answers_as_a_fresh_one() {
    run(false);
}

#[test]
fn over_lines_and_pooled_a_long_lived_server_answers_as_a_fresh_one() {
    run(true);
}
