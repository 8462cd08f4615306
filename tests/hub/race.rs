//! Race test of a served hub: calls and cancellations of many threads while its servers restart.
//!
//! `TEST_CALLS` sets the number of calls per era. `conformance/threads.sh` runs this under race detectors.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tinymcp::{Client, ErrorKind, Hub, Limits, Link, Protocol, Server, json};

use super::many::strict_echo;
use super::socket_pair::socket_pair;

const THREADS: u64 = 8;
const TIMEOUT: Duration = Duration::from_secs(300);

fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.hub.list_timeout, limits.client.probe_timeout, limits.client.call_timeout) =
        (TIMEOUT, TIMEOUT, TIMEOUT);
    limits.workers = 4;
    limits
}

/// Makes one call, which some threads cancel. Returns false if its server ended meanwhile.
fn one(client: &Client, n: u64, text: &str) -> bool {
    let name = format!("{}__echo", if n % 2 == 0 { "stable" } else { "restarted" });
    let call = client.request_tool(&name, json!({"text": text})).start().unwrap();
    let canceller = call.canceller();
    let cancelled = n % 5 == 0;
    let cancelling = cancelled.then(|| thread::spawn(move || canceller.cancel()));
    let outcome = call.wait();
    if let Some(cancelling) = cancelling {
        cancelling.join().unwrap();
    }
    match outcome {
        Ok(output) if output.is_error && n % 2 == 1 => return false,
        Ok(output) => assert_eq!(output.texts(), text),
        Err(error) if cancelled && error.kind() == ErrorKind::Cancelled => {}
        // A call to a server that restarts fails.
        Err(error) => {
            assert!(n % 2 == 1 && error.kind() == ErrorKind::Remote, "{name}: {error:?}");
            return false;
        }
    }
    true
}

#[test]
fn calls_and_cancellations_while_a_server_restarts() {
    let count = std::env::var("TEST_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(800_u64);
    for era in [Protocol::Stateless, Protocol::Session] {
        let hub = Hub::builder("race", "1").limits(limits()).build().unwrap();
        let mut server = Server::new("race", "1");
        server.limits(limits());
        hub.export(&mut server).unwrap();
        for key in ["stable", "restarted"] {
            hub.add(key, strict_echo()).unwrap();
        }
        let (ours, theirs) = socket_pair();
        let theirs = Link::lines(theirs.try_clone().unwrap(), theirs, &limits());
        let handle = server.handle();
        let serving = thread::spawn(move || server.serve(theirs).unwrap());
        let link = Link::lines(ours.try_clone().unwrap(), ours, &limits());
        let client = Client::builder("c", "1").limits(limits()).protocol(era).over(link).unwrap();
        let (over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let restarting = scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    hub.restart("restarted").unwrap();
                    assert!(!hub.tools().entries.is_empty());
                    thread::sleep(Duration::from_millis(20));
                }
            });
            let calling = (0..THREADS).map(|thread| {
                let (client, answered) = (&client, &answered);
                scope.spawn(move || {
                    for n in 0..count.div_ceil(THREADS) {
                        let answer = one(client, n + thread, &format!("{thread}:{n}"));
                        answered.fetch_add(answer.into(), Ordering::Relaxed);
                    }
                })
            });
            let calling: Vec<_> = calling.collect();
            calling.into_iter().for_each(|calling| calling.join().unwrap());
            over.store(true, Ordering::Relaxed);
            restarting.join().unwrap();
        });
        assert!(answered.into_inner() > count / 4);
        assert_eq!(client.in_flight(), 0);
        handle.stop();
        serving.join().unwrap();
        hub.close();
    }
}
