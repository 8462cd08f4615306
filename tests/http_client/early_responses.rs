//! Servers that respond before they have read the message, and servers that disconnect.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use tinymcp::{ErrorKind, Protocol, json};

use crate::client;
use crate::detection::initialized;
use crate::stage::{JSON, answer, write_text};
use crate::{TIMEOUT, member};

/// The head of a request.
fn head(from: &mut impl BufRead) -> String {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        assert!(from.read_line(&mut text).unwrap() > 0, "{text}");
    }
    text
}

/// The body of a request; empty if it has none.
fn body(from: &mut impl BufRead) -> String {
    let head = head(from).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |n| n.trim().parse().unwrap())];
    from.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// Outcome of a call of eight megabytes whose request gets 413 after its head.
fn refused(closes: bool) -> tinymcp::Error {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (release, released) = mpsc::channel::<()>();
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        head(&mut BufReader::with_capacity(64, socket.try_clone().unwrap()));
        write_text(&mut socket, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\n\r\ntoo large");
        if !closes {
            // Reads nothing more until the client has handled the response.
            released.recv_timeout(TIMEOUT).unwrap();
        }
    });
    let client = client().protocol(Protocol::Stateless);
    // The first message is the large one: the description of the client is part of every request.
    let error = client.title("x".repeat(8 << 20)).connect(url).unwrap_err();
    let _ = release.send(());
    serving.join().unwrap();
    error
}

#[test]
fn an_answer_that_comes_before_the_message_was_read_is_read() {
    for closes in [true, false] {
        let error = refused(closes);
        assert_eq!((error.kind(), error.code()), (ErrorKind::Refused, Some(413)), "{closes} {error:?}");
        assert!(error.to_string().contains("too large"), "{error}");
    }
}

#[test]
fn a_call_whose_server_is_gone_for_good_fails_before_its_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        loop {
            let (mut socket, _) = listener.accept().unwrap();
            let body = body(&mut BufReader::new(socket.try_clone().unwrap()));
            let method = if body.is_empty() { String::new() } else { member(&body, "/method") };
            // Each connection serves one message.
            let close = "Connection: close\r\n";
            match method.as_str() {
                "initialize" => {
                    let opened = initialized(&member(&body, "/id"));
                    answer(&mut socket, "200 OK", &format!("{JSON}{close}"), &opened);
                }
                "tools/call" => {
                    // An event to resume from, then the end of the connection and of the server.
                    drop(listener);
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
                    write_text(&mut socket, &format!("{head}id: 1\nretry: 1\ndata: \n\n"));
                    return;
                }
                "" => {
                    answer(&mut socket, "405 Method Not Allowed", close, "");
                }
                _ => {
                    answer(&mut socket, "202 Accepted", close, "");
                }
            }
        }
    });
    let mut limits = tinymcp::Limits::default();
    limits.http_client.refusals = 3;
    // Much longer than the test waits.
    limits.client.call_timeout = TIMEOUT * 100;
    let client = client().limits(limits).protocol(Protocol::Session).connect(url).unwrap();
    let error = client.call_tool("t", json!({})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    assert!(error.to_string().contains("the server refuses connections"), "{error}");
    serving.join().unwrap();
    // And the next one immediately.
    assert_eq!(client.call_tool("t", json!({})).unwrap_err().kind(), ErrorKind::Io);
    client.close();
}
