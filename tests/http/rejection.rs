//! Messages and statuses of rejected requests.

use std::io::Write;

use serde_json::{Value, json};
use tinymcp::Limits;

use crate::client::{Answer, BOTH, initialize, serve, serve_with, server, stage};

const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The message of an error that belongs to no request.
fn words(answer: Answer, status: u16) -> String {
    assert_eq!(answer.status, status);
    let body = answer.json();
    assert_eq!(body["error"]["code"], -32600, "{body}");
    assert_eq!(body.as_object().unwrap().len(), 2, "the error has an id: {body}");
    body["error"]["message"].as_str().unwrap().to_owned()
}

// shows: H11-02 H26-02 H26-21
#[test]
fn every_rejection_has_a_status_and_a_message() {
    let served = serve_with(server(stage()), |http| http.tokens([("s3cret", "alice")]));
    let token = ("Authorization", "Bearer s3cret");
    let post = |fields: &[(&str, &str)]| served.send("POST", "/mcp", fields, "{}");
    for (answer, status, said) in [
        (post(&[("Host", "evil.example")]), 403, "Host"),
        (post(&[("Origin", "http://evil.example")]), 403, "Origin"),
        (served.send("POST", "/", &[JSON], "{}"), 401, "token"),
        (served.send("POST", "/", &[JSON, token], "{}"), 404, "path"),
        (post(&[JSON]), 401, "token"),
        (post(&[JSON, ("Authorization", "Bearer guess")]), 401, "token"),
        (post(&[JSON, ("Authorization", "Bearer a b")]), 400, "token"),
        (post(&[token]), 415, "Content-Type: application/json"),
        (post(&[token, ("Content-Type", "text/plain")]), 415, "Content-Type: application/json"),
        // A repeated Content-Type counts as missing.
        (post(&[token, JSON, JSON]), 415, "Content-Type: application/json"),
        (post(&[token, JSON, ("Content-Encoding", "gzip")]), 415, "Content-Encoding"),
        (post(&[token, JSON, ("Content-Encoding", "identity, br")]), 415, "Content-Encoding"),
        (
            post(&[token, JSON, ("Content-Encoding", "identity"), ("Content-Encoding", "zstd")]),
            415,
            "Content-Encoding",
        ),
        (post(&[token, JSON, ("Accept", "text/html")]), 406, "Accept: application/json, text/event-stream"),
        (served.send("GET", "/mcp", &[token], ""), 405, "Mcp-Session-Id"),
        (served.send("PUT", "/mcp", &[token], ""), 405, "POST"),
    ] {
        let words = words(answer, status);
        assert!(words.contains(said) && !words.contains("guess"), "{status}: {words}");
    }
    // The response to HEAD has no body.
    let head = served.send("HEAD", "/mcp", &[token], "");
    assert_eq!(head.status, 405);
    assert!(head.raw_rest().is_empty());
}

#[test]
fn a_content_encoding_is_rejected_with_the_accepted_encodings() {
    let served = serve(server(stage()));
    let ping = |encoding| served.modern(&[("Content-Encoding", encoding)], "tools/list", json!({}));
    assert_eq!((ping("identity").status, ping("Identity").status, ping("").status), (200, 200, 200));
    let refused = ping("gzip");
    // RFC 9110, 15.5.16.
    assert_eq!((refused.status, refused.field("accept-encoding")), (415, Some("identity")));
}

/// A client that sends its whole body before it reads must get the response, not a reset connection.
// shows: H26-21
#[test]
fn a_client_that_is_still_sending_reads_its_413() {
    let mut limits = Limits::default();
    limits.frame_bytes = 1024;
    let mut server = server(stage());
    server.limits(limits);
    let served = serve_with(server, |http| http);
    let post = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let body = vec![b' '; 4 << 20];
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    let chunk = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    for framing in [length, chunk] {
        let mut stream = std::net::TcpStream::connect(&served.address).unwrap();
        stream.set_read_timeout(Some(crate::client::TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(crate::client::TIMEOUT)).unwrap();
        stream.write_all(format!("{post}{framing}").as_bytes()).unwrap();
        for piece in body.chunks(64 << 10) {
            stream.write_all(piece).unwrap();
        }
        let words = words(Answer::read(stream), 413);
        assert!(words.contains("1024 bytes"), "{words}");
    }
}

// shows: H26-21
#[test]
fn unreadable_requests_have_a_status_and_a_message() {
    if crate::client::is_mounted() {
        return;
    }
    let with_head_timeout = |head_timeout| {
        let mut limits = Limits::default();
        (limits.frame_bytes, limits.http.head_timeout) = (1024, head_timeout);
        let mut server = server(stage());
        server.limits(limits);
        serve_with(server, |http| http)
    };
    let served = with_head_timeout(crate::client::TIMEOUT);
    let hasty = with_head_timeout(std::time::Duration::from_millis(100));
    let raw = |text: &str, status| {
        let server = if status == 408 { &hasty } else { &served };
        let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
        stream.set_read_timeout(Some(crate::client::TIMEOUT)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        Answer::read(stream)
    };
    let post = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for (text, status, said) in [
        ("\x16\x03\x01\r\n".to_owned(), 400, "TLS"),
        (post.to_owned(), 408, "in time"),
        (format!("{post}Content-Length: 1025\r\n\r\n"), 413, "1024 bytes"),
        (format!("{post}X: {}\r\n\r\n", "x".repeat(20_000)), 431, "head"),
        (format!("{post}Transfer-Encoding: gzip\r\n\r\n"), 501, "coding"),
        ("GET /mcp HTTP/2.0\r\nHost: localhost\r\n\r\n".to_owned(), 505, "HTTP/1.1"),
    ] {
        let words = words(raw(&text, status), status);
        assert!(words.contains(said), "{status}: {words}");
    }
}

// shows: H11-37 H26-20
#[test]
fn an_unsupported_version_is_an_error_of_its_era() {
    let served = serve(server(stage()));
    let id = served.open("2025-11-25", json!({}));
    let strange = ("MCP-Protocol-Version", "1999-01-01");
    let legacy = |answer: Answer| {
        assert_eq!(answer.status, 400);
        let error = answer.json()["error"].take();
        assert_eq!(error["code"], -32602);
        let dates = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
        assert_eq!(error["data"], json!({"supported": dates, "requested": "1999-01-01"}), "{error}");
    };
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    let session = ("Mcp-Session-Id", id.as_str());
    let answer = served.post(&[session, strange], &list);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    legacy(answer);
    legacy(served.send("GET", "/mcp", &[session, strange, ("Accept", BOTH)], ""));
    legacy(served.send("DELETE", "/mcp", &[session, strange], ""));
    // The session still exists, and the request that opens one may have a wrong field.
    assert_eq!(served.post(&[session], &list).status, 200);
    assert_eq!(served.post(&[strange], &initialize("2025-11-25", json!({}))).status, 200);
    // A repeated field counts as missing.
    assert_eq!(served.post(&[session, strange, strange], &list).status, 400);
    // A request with a version in its body has no session, also if it names one.
    let meta = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "1999-01-01",
        "io.modelcontextprotocol/clientCapabilities": {}
    }});
    let modern = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": meta});
    for fields in [&[strange, ("Mcp-Method", "tools/list")][..], &[strange, session][..]] {
        let answer = served.post(fields, &modern).json();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32022)), "{answer}");
        let supported: Value = json!({"supported": ["2026-07-28"], "requested": "1999-01-01"});
        assert_eq!(answer["error"]["data"], supported);
    }
}
