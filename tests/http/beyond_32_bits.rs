//! Lengths, ids, events and times beyond 32 bits over HTTP. `cross/test armv7` runs these tests with pointers of
//! 32 bits.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::client::{Answer, BOTH, Served, TIMEOUT, request, serve, serve_with, server, stage};

/// A number that is 0 in its lower 32 bits.
const FAR: u64 = 1 << 32;

/// Posts a body of two bytes under these fields.
fn post_two_bytes(served: &Served, framing: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(&served.address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {BOTH}\r\n{framing}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    Answer::read(stream).status
}

#[test]
fn a_content_length_beyond_32_bits_is_too_large() {
    if crate::client::is_mounted() {
        return;
    }
    let served = serve(server(stage()));
    assert_eq!(post_two_bytes(&served, "Content-Length: 2", "{}"), 400);
    let lengths = [1 << 31, (1 << 31) + 2, FAR, FAR + 2, 1 << 53, i64::MAX as u64, u64::MAX];
    let mut lengths: Vec<String> = lengths.iter().map(u64::to_string).collect();
    // These lengths are 2 when cut to 64 bits or to 128 bits.
    lengths.extend([(1_u128 << 64) + 2].map(|n| n.to_string()));
    lengths.push("340282366920938463463374607431768211458".to_owned());
    for length in lengths {
        assert_eq!(post_two_bytes(&served, &format!("Content-Length: {length}"), "{}"), 413, "{length}");
    }
    for size in ["80000002", "100000002", "20000000000002"] {
        let body = format!("{size}\r\n{{}}\r\n0\r\n\r\n");
        assert_eq!(post_two_bytes(&served, "Transfer-Encoding: chunked", &body), 413, "{size}");
    }
}

#[test]
fn requests_are_answered_under_their_own_wide_ids() {
    let served = serve(server(stage()));
    let session = served.open("2025-11-25", json!({}));
    for id in [(1 << 31) - 1, 1 << 31, FAR - 1, FAR, FAR + 1, (1 << 53) + 1, i64::MAX as u64] {
        let name =
            [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
        let call = json!({"name": "echo", "arguments": {"text": "far"}});
        let modern = served.post(&name, &request(id, "tools/call", call)).json();
        assert_eq!((&modern["id"], &modern["result"]["content"][0]["text"]), (&json!(id), &json!("far")));
        let mut answers = served.ask(&session, id, "tools/call", json!({"name": "report"}));
        let answer = std::iter::from_fn(|| Some(answers.message())).find(|m| m.get("id").is_some());
        assert_eq!(answer.map(|answer| answer["id"].clone()), Some(json!(id)));
    }
}

#[test]
fn event_ids_beyond_32_bits_are_unknown() {
    let served = serve(server(stage()));
    let session = served.open("2025-11-25", json!({}));
    let events = served.ask(&session, 1, "tools/call", json!({"name": "report"})).rest();
    let first = events[0].id.clone().unwrap();
    let (stream, number) = first.split_once('-').unwrap();
    let (stream, number): (u64, u64) = (stream.parse().unwrap(), number.parse().unwrap());
    let come_back = |last: String| {
        let fields =
            [("Mcp-Session-Id", session.as_str()), ("Accept", "text/event-stream"), ("Last-Event-ID", &last)];
        served.send("GET", "/mcp", &fields, "")
    };
    assert_eq!(come_back(format!("{stream}-{number}")).rest().len(), events.len() - 1);
    for far in [FAR, 1 << 33, 1 << 53] {
        assert_eq!(come_back(format!("{stream}-{}", far + number)).rest(), [], "{far}: nothing was missed");
        assert_eq!(come_back(format!("{}-{number}", far + stream)).status, 400, "{far}: no such stream");
    }
    assert_eq!(come_back(format!("{stream}-{}", (1_u128 << 64) + u128::from(number))).status, 400);
}

#[test]
fn times_beyond_32_bits_do_not_wrap() {
    // The times are 0 when cut to 32 bits.
    let far = Duration::from_millis(FAR);
    let mut limits = tinymcp::Limits::default();
    (limits.handler_deadline, limits.grace, limits.client_input_timeout) = (far, far, far);
    let http = &mut limits.http;
    (http.head_timeout, http.idle_timeout, http.body_timeout) = (far, far, far);
    (http.stall_timeout, http.comment_interval, http.session_timeout) = (far, far, far);
    let stage = stage();
    let mut server = server(stage);
    server.limits(limits);
    let served = serve_with(server, |http| http);
    let session = served.open("2025-11-25", json!({}));
    thread::scope(|scope| {
        // No comment precedes the response: the interval of comments is also far beyond the test.
        let calling = scope.spawn(|| served.ask(&session, 1, "tools/call", json!({"name": "wait"})).json());
        stage.await_mark("waits");
        // A request's head and its body may arrive in pieces.
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: {BOTH}\r\nMcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n",
            message.len()
        );
        let mut stream = TcpStream::connect(&served.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        for piece in (head + &message).as_bytes().chunks(60) {
            stream.write_all(piece).unwrap();
            // The server has responded in between.
            assert_eq!(served.ask(&session, 3, "ping", json!({})).status, 200);
        }
        assert_eq!(Answer::read(stream).json()["result"], json!({}));
        stage.mark("go");
        assert_eq!(calling.join().unwrap()["result"]["content"][0]["text"], "went");
    });
}
