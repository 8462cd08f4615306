//! Race test of the HTTP server: calls, sessions, event streams and disconnects of many threads at random.
//!
//! `TEST_CALLS` sets the number of requests. `conformance/threads.sh` runs this under race detectors.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tinymcp::{Handle, Limits};

use super::client::{Answer, BOTH, META, Served, request, server, stage};

const THREADS: u64 = 8;

/// A small generator: the same requests every time.
struct Random(u64);

impl Random {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Sends a call that `ctx.wait`s, and disconnects at once or after the first bytes.
fn disconnect(served: &Served, random: &mut Random) {
    let tool = ["sleep", "wait", "leave"][random.below(3) as usize];
    let body = request(1, "tools/call", json!({"name": tool, "arguments": {}})).to_string();
    let mut stream = TcpStream::connect(&served.address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {BOTH}\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = if random.below(4) == 0 { random.below(head.len() as u64) as usize } else { head.len() };
    stream.write_all(&head.as_bytes()[..sent]).unwrap();
    thread::sleep(Duration::from_millis(random.below(3)));
    if tool == "leave" && sent == head.len() {
        // Its first event is sent before it waits.
        Answer::read(stream).hang_up();
    }
}

/// Opens a session, calls in it, listens to it and ends it.
fn use_session(served: &Served, text: &str, random: &mut Random) {
    let session = served.open("2025-11-25", json!({}));
    let id = ("Mcp-Session-Id", session.as_str());
    let listening = served.send("GET", "/mcp", &[id, ("Accept", "text/event-stream")], "");
    assert_eq!(listening.status, 200);
    let echo = json!({"name": "echo", "arguments": {"text": text}});
    let echoed = served.ask(&session, 1, "tools/call", echo).json();
    assert_eq!(echoed["result"]["content"][0]["text"], text);
    let events = served.ask(&session, 2, "tools/call", json!({"name": "report", "arguments": {}})).rest();
    assert!(events.last().unwrap().data.contains("reported"), "{events:?}");
    if random.below(2) == 0 {
        listening.hang_up();
    }
    if random.below(2) == 0 {
        assert!(served.send("DELETE", "/mcp", &[id], "").status < 300);
    }
}

fn one(served: &Served, text: &str, random: &mut Random) {
    match random.below(5) {
        0 => disconnect(served, random),
        1 => use_session(served, text, random),
        2 => {
            let level =
                json!({"name": "report", "arguments": {}, "_meta": {format!("{META}logLevel"): "debug"}});
            let events = served.modern(&[], "tools/call", level).rest();
            assert!(events.last().unwrap().data.contains("reported"), "{events:?}");
        }
        tool => {
            let tool = if tool == 3 { "inline" } else { "echo" };
            let answer = served.call(tool, json!({"text": text})).json();
            assert_eq!(answer["result"]["content"][0]["text"], text);
        }
    }
}

fn update(handle: &Handle) {
    handle.resource_updated("text://note").unwrap();
    handle.log(tinymcp::Level::Error, None, "news").unwrap();
}

#[test]
fn requests_sessions_streams_and_disconnects_at_random() {
    let count = std::env::var("TEST_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(800_u64);
    let mut server = server(stage());
    server.limits(Limits::default());
    let handle = server.handle();
    let bound = server.http().no_signal_handlers().bind("127.0.0.1:0").unwrap();
    let address = bound.address().to_owned();
    let serving = thread::spawn(move || bound.serve());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (address, handle) = (&address, &handle);
            scope.spawn(move || {
                let served = Served::elsewhere(address.clone());
                let mut random = Random(thread + 1);
                for n in 0..count.div_ceil(THREADS) {
                    one(&served, &format!("{thread}:{n}"), &mut random);
                    update(handle);
                }
            });
        }
    });
    handle.stop();
    serving.join().unwrap().unwrap();
}
