//! A client that calls and does not read, and a server that does not respond: the hub stores a bounded
//! number of bytes for the one, and a bounded number of calls for the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::json as value;
use tinymcp::{Hub, Limits, Server};

use super::questions::{Asking, Lower};

/// Calls in flight at the server.
const CALLS: usize = 700;
/// Messages that each link of the test stores.
const LINK: usize = 256;
/// Bytes of a result.
const BYTES: usize = 32 << 10;
/// Bytes that the hub may store for the client.
const STORED: usize = 2 << 20;
const SHORT_WAIT: Duration = Duration::from_secs(3);

#[test]
fn results_wait_at_their_server_until_the_client_reads() {
    let mut limits = Limits::default();
    limits.in_flight_bytes = STORED;
    let hub = Hub::builder("proxy", "1.0.0").limits(limits.clone()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(limits);
    hub.export(&mut server).unwrap();
    let asking = Asking::of(hub);
    let client = Lower::open(server);
    let ids: Vec<_> = (0..CALLS)
        .map(|n| {
            client.call(u32::try_from(n + 1).unwrap());
            asking.call()
        })
        .collect();
    let (finished, finishes) = mpsc::channel();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    std::thread::spawn(move || {
        for (end, id) in ids {
            let content = value!([{"type": "text", "text": "x".repeat(BYTES)}]);
            end.send(value!({"id": id, "result": {"content": content}}));
            counter.fetch_add(1, Ordering::SeqCst);
        }
        finished.send(()).unwrap();
    });
    assert!(finishes.recv_timeout(SHORT_WAIT).is_err(), "all results were stored");
    // Both links, the hub's queue, and one result at each thread between them.
    let most = 2 * LINK + STORED / BYTES + 4;
    for n in 0..CALLS {
        let before = sent.load(Ordering::SeqCst);
        assert!(before <= n + most, "{before} results were sent before the client had read {n}");
        client.next(|message| message["result"]["content"].is_array());
    }
    finishes.recv_timeout(Duration::from_secs(20)).unwrap();
}

#[test]
fn calls_to_a_silent_server_leave_places_for_the_others() {
    let mut limits = Limits::default();
    limits.client.calls = 16;
    let hub = Hub::builder("proxy", "1.0.0").limits(limits.clone()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(limits);
    hub.export(&mut server).unwrap();
    let silent = Asking::of(hub);
    let other = silent.beside("two");
    let client = Lower::open(server);
    for id in 1..=100 {
        client.call(id);
    }
    // Its share: the next calls are rejected while it has more of them than there are free places.
    for _ in 0..8 {
        silent.call();
    }
    for id in 101..=120 {
        let params = value!({"name": "two__t", "arguments": {}});
        client.send(value!({"id": id, "method": "tools/call", "params": params}));
        let (end, call) = other.call();
        end.send(value!({"id": call, "result": {"content": []}}));
        client.next(|message| message["id"] == id);
    }
}
