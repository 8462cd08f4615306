//! Tests of POST requests: all kinds of responses, and servers that violate the protocol.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::stage::{EVENTS, JSON, Next, Stage, answer, result, stream, write_text};
use super::*;

#[test]
fn answers_in_json_come_over_one_connection() {
    let stage = Stage::new(|seen, to| answer(to, "200 OK", JSON, &result(seen)));
    let line = Line::new(&stage.url());
    for id in 1..=3 {
        line.call(id, Session::None).unwrap();
        let seen = stage.next();
        assert_eq!((seen.line.as_str(), seen.connection), ("POST /mcp?key=hidden HTTP/1.1", 0));
        assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(seen.header("content-type"), Some("application/json"));
        assert_eq!(seen.header("mcp-protocol-version"), Some("x"));
        assert!(seen.header("mcp-session-id").is_none());
        assert!(seen.body.starts_with('{') && seen.body.ends_with('}'), "{:?}", seen.body);
    }
    assert_eq!(line.frames().len(), 3);
    line.close();
}

#[test]
fn answers_in_events_come_with_what_precedes_them() {
    let stage = Stage::new(|seen, to| {
        write_text(
            to,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        let events = format!(
            ": hello\n\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"n\"}}\n\nevent: other\ndata: x\n\ndata: {}\n\n",
            result(seen)
        );
        write_text(to, &format!("{:x}\r\n{events}\r\n0\r\n\r\n", events.len()));
        Next::Keep
    });
    let line = Line::new(&stage.url());
    let mut turns = 0;
    for id in 1..=2 {
        let frame = format!("{{\"id\":{id}}}");
        let mut turn = || {
            turns += 1;
            true
        };
        line.send(&frame, Kind::Request(id), Session::None, SendMode::Blocking(&mut turn)).unwrap();
        assert_eq!(stage.next().connection, 0, "the connection is used again");
    }
    assert_eq!(line.frames().len(), 4);
    assert!(turns >= 2);
    line.close();
}

/// Result of a request whose response has these bytes.
fn outcome(bytes: &'static str) -> String {
    let stage = Stage::new(move |_, to| {
        write_text(to, bytes);
        Next::Close
    });
    let limits = Limits { frame_bytes: 2000, ..Limits::default() };
    let line = Line::to(Endpoint::new(stage.url()).bearer_token("hidden"), &limits);
    let done = format!("{:?}", line.call(1, Session::None));
    assert!(!done.contains("hidden"), "{done}");
    line.close();
    done
}

#[test]
fn every_answer_is_an_answer_or_a_typed_error() {
    let good = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}"#;
    let json = |status: &str| {
        leak(format!("HTTP/1.1 {status}\r\n{JSON}Content-Length: {}\r\n\r\n{good}", good.len()))
    };
    let head = |status: &str, rest: &str| leak(format!("HTTP/1.1 {status}\r\n{rest}"));
    let table: Vec<(&'static str, &str)> = vec![
        (json("200 OK"), "Ok(())"),
        (json("400 Bad Request"), "Ok(())"),
        (json("404 Not Found"), "Ok(())"),
        (json("500 Internal Server Error"), "Ok(())"),
        (
            head("200 OK", &format!("{JSON}\r\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{}}}}")),
            "Misbehaved",
        ),
        (head("200 OK", &format!("{JSON}\r\nnonsense")), "Misbehaved"),
        (head("200 OK", "Content-Type: text/html\r\n\r\n<html>"), "Misbehaved"),
        (head("202 Accepted", "Content-Length: 0\r\n\r\n"), "Misbehaved"),
        (head("204 No Content", "\r\n"), "Misbehaved"),
        (
            head("400 Bad Request", "Content-Length: 3\r\n\r\nbad"),
            "Refused { status: 400, message: \"the server returned status 400: bad\"",
        ),
        (
            head("401 Unauthorized", "WWW-Authenticate: Bearer scope=\"a\"\r\nContent-Length: 0\r\n\r\n"),
            "Refused { status: 401, message: \"the server returned status 401: Bearer scope",
        ),
        (head("403 Forbidden", "Content-Length: 0\r\n\r\n"), "Refused { status: 403"),
        (json("403 Forbidden"), "Ok(())"),
        (
            head("403 Forbidden", &format!("WWW-Authenticate: Bearer scope=\"a\"\r\n{JSON}\r\n{good}")),
            "Refused { status: 403, message: \"the server returned status 403: Bearer scope",
        ),
        (head("404 Not Found", "Content-Length: 0\r\n\r\n"), "Refused { status: 404"),
        (head("405 Method Not Allowed", "Content-Length: 0\r\n\r\n"), "Refused { status: 405"),
        (head("413 Content Too Large", "Content-Length: 0\r\n\r\n"), "Refused { status: 413"),
        (head("431 Request Header Fields Too Large", "\r\n"), "Refused { status: 431"),
        (head("503 Service Unavailable", "Content-Length: 0\r\n\r\n"), "Refused { status: 503"),
        (
            head("302 Found", "Location: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
            "Refused { status: 302",
        ),
        (
            head(
                "307 Temporary Redirect",
                "Location: http://127.0.0.1:1/hidden\r\nContent-Length: 0\r\n\r\n",
            ),
            "Refused { status: 307",
        ),
        // Garbage, and truncated responses.
        ("", "Interrupted"),
        ("garbage\r\n\r\n", "Misbehaved"),
        ("HTTP/9.9 200 OK\r\n\r\n", "Misbehaved"),
        ("HTTP/1.1 200 OK\r\nContent-", "Interrupted"),
        (head("200 OK", &format!("{JSON}Content-Length: 100\r\n\r\n{{")), "Interrupted"),
        (head("200 OK", &format!("{JSON}Transfer-Encoding: chunked\r\n\r\nzz\r\n")), "Interrupted"),
        (head("200 OK", &format!("{EVENTS}\r\n")), "Interrupted"),
        (head("200 OK", &format!("{EVENTS}\r\ndata: {good}")), "Interrupted"),
        (head("200 OK", &format!("{EVENTS}\r\ndata: {good}\n\n")), "Ok(())"),
        // More than the limit.
        (head("200 OK", &format!("{JSON}Content-Length: 99999999999\r\n\r\n{{")), "TooLarge"),
        (head("200 OK", &format!("{JSON}\r\n{}", "x".repeat(3000))), "TooLarge"),
        (head("200 OK", &format!("{EVENTS}\r\ndata: {}\n\n", "x".repeat(3000))), "TooLarge"),
        (head("200 OK", &format!("X: {}\r\n{JSON}\r\n{good}", "x".repeat(40_000))), "Misbehaved"),
        (
            head("401 Unauthorized", &format!("Content-Length: 9000000\r\n\r\n{}", "y".repeat(100_000))),
            "Refused { status: 401",
        ),
    ];
    for (bytes, want) in table {
        let done = outcome(bytes);
        let start = bytes.chars().take(120).collect::<String>();
        assert!(done.starts_with(want) || done.starts_with(&format!("Err({want}")), "{start:?}: {done}");
    }
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

#[test]
fn an_unreachable_server_is_an_error_with_the_reason() {
    // The system gives no privileged port to another test.
    let line = Line::new("http://127.0.0.1:1/");
    assert!(matches!(line.call(1, Session::None), Err(Failure::Io(_))));
    line.close();
}

#[test]
fn a_silent_or_slow_server_meets_the_deadline() {
    let slow = [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: nothing yet\n\n",
    ];
    for begin in slow {
        let stage = Stage::new(move |_, to| {
            write_text(to, begin);
            // Blocks until the client closes.
            let _ = to.read(&mut [0]);
            Next::Close
        });
        let line = Line::new(&stage.url());
        line.deadline(Duration::from_millis(150));
        assert!(matches!(line.call(1, Session::None), Err(Failure::Timeout)), "{begin:?}");
        line.close();
    }
}

#[test]
fn redirects_are_followed_within_the_origin_only() {
    let elsewhere = Stage::new(|seen, to| answer(to, "200 OK", JSON, &result(seen)));
    let away = elsewhere.url();
    let stage = Stage::new(move |seen, to| {
        let location = match seen.line.split(' ').nth(1).unwrap() {
            "/mcp?key=hidden" => "/second",
            "/second" if seen.body.contains("\"id\":1") => return answer(to, "200 OK", JSON, &result(seen)),
            "/second" => &away,
            other => panic!("{other}"),
        };
        answer(to, "307 Temporary Redirect", &format!("Location: {location}\r\n"), "")
    });
    let line = Line::to(Endpoint::new(stage.url()).bearer_token("token"), &Limits::default());
    line.call(1, Session::None).unwrap();
    assert!(matches!(line.call(2, Session::None), Err(Failure::Refused { status: 307, .. })));
    assert!(stage.rest().iter().all(|seen| seen.header("authorization") == Some("Bearer token")));
    assert!(elsewhere.rest().is_empty());
    line.close();
    let circle = Stage::new(|_, to| answer(to, "308 Permanent Redirect", "Location: /mcp\r\n", ""));
    let line = Line::new(&circle.url());
    assert!(matches!(line.call(1, Session::None), Err(Failure::Misbehaved(_))));
    line.close();
}

#[test]
fn addresses_that_are_not_public_are_not_connected_to() {
    let stage = Stage::new(|seen, to| answer(to, "200 OK", JSON, &result(seen)));
    let port = stage.url();
    let port = port.trim_start_matches("http://127.0.0.1:");
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]"] {
        let endpoint = Endpoint::new(format!("http://{host}:{port}")).public_addresses_only();
        let line = Line::to(endpoint, &Limits::default());
        let done = line.call(1, Session::None);
        assert!(matches!(&done, Err(Failure::Io(why)) if why.contains("not public")), "{host}: {done:?}");
        line.close();
    }
    assert!(stage.rest().is_empty());
}

#[test]
fn a_session_is_latched_sent_and_lost() {
    let stage = Stage::new(|seen, to| {
        if seen.body.contains("\"id\":1") || seen.body.contains("\"id\":4") {
            let id = if seen.body.contains("\"id\":1") { "first" } else { "second" };
            return answer(to, "200 OK", &format!("{JSON}mcp-session-id: {id}\r\n"), &result(seen));
        }
        if seen.body.contains("\"id\":3") {
            return answer(
                to,
                "404 Not Found",
                JSON,
                r#"{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no session"}}"#,
            );
        }
        answer(to, "200 OK", JSON, &result(seen))
    });
    let line = Line::new(&stage.url());
    line.call(1, Session::Opens).unwrap();
    assert_eq!(stage.next().header("mcp-session-id"), None);
    line.call(2, Session::Within).unwrap();
    assert_eq!(stage.next().header("mcp-session-id"), Some("first"));
    assert!(matches!(line.call(3, Session::Within), Err(Failure::SessionLost)));
    assert_eq!(stage.next().header("mcp-session-id"), Some("first"));
    line.call(4, Session::Opens).unwrap();
    assert_eq!(stage.next().header("mcp-session-id"), None);
    line.call(5, Session::Within).unwrap();
    assert_eq!(stage.next().header("mcp-session-id"), Some("second"));
    line.close();
    let end = stage.next();
    assert_eq!((end.line.split(' ').next(), end.header("mcp-session-id")), (Some("DELETE"), Some("second")));
}

#[test]
fn a_message_of_a_replaced_session_is_sent_again_in_the_new_one() {
    let (opened, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let opens = AtomicUsize::new(0);
    let stage = Stage::new(move |seen, to| {
        if seen.body.contains("\"id\":1}") || seen.body.contains("\"id\":1,") {
            let id = opens.fetch_add(1, Ordering::Relaxed);
            return answer(to, "200 OK", &format!("{JSON}Mcp-Session-Id: s{id}\r\n"), &result(seen));
        }
        if seen.header("mcp-session-id") == Some("s0") {
            wait.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
            return answer(to, "404 Not Found", "", "");
        }
        answer(to, "200 OK", JSON, &result(seen))
    });
    let line = Line::new(&stage.url());
    line.call(1, Session::Opens).unwrap();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| line.call(7, Session::Within));
        line.call(1, Session::Opens).unwrap();
        opened.send(()).unwrap();
        late.join().unwrap().unwrap();
    });
    line.close();
}

#[test]
fn a_session_id_that_could_not_travel_is_a_fault_of_the_server() {
    let stage =
        Stage::new(|seen, to| answer(to, "200 OK", &format!("{JSON}Mcp-Session-Id: a b\r\n"), &result(seen)));
    let line = Line::new(&stage.url());
    assert!(matches!(line.call(1, Session::Opens), Err(Failure::Misbehaved(_))));
    line.close();
}

#[test]
fn what_needs_no_answer_is_sent_in_order_by_one_thread() {
    let stage = Stage::new(|seen, to| match seen.body.as_str() {
        "1" => answer(to, "202 Accepted", "", ""),
        // Unusual responses of real servers.
        "2" => answer(to, "200 OK", JSON, r#"{"jsonrpc":"2.0","result":{}}"#),
        _ => answer(to, "400 Bad Request", "", ""),
    });
    let line = Line::new(&stage.url());
    for body in ["1", "2", "3"] {
        // With a past deadline, the result is taken without waiting.
        let (kind, session, deadline) = (Kind::Notification, Session::Within, Instant::now());
        let message = Outgoing { frame: body.as_bytes(), kind, session, headers: &[], deadline };
        line.transport.send(&message, SendMode::Queued).unwrap();
    }
    for body in ["1", "2", "3"] {
        let seen = stage.next();
        assert_eq!((seen.body.as_str(), seen.connection), (body, 0));
    }
    let here = |body| line.send(body, Kind::Response, Session::Within, SendMode::Blocking(&mut || true));
    here("1").unwrap();
    assert!(matches!(here("3"), Err(Failure::Refused { status: 400, .. })));
    line.close();
}

#[test]
fn started_calls_run_beside_each_other_and_are_bounded() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let stage = Stage::new(move |seen, to| {
        wait.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
        answer(to, "200 OK", JSON, &result(seen))
    });
    let mut limits = Limits::default();
    limits.http_client.threads = 2;
    let line = Line::to(Endpoint::new(stage.url()), &limits);
    line.begin(1).unwrap();
    line.begin(2).unwrap();
    let frame = "{\"id\":3}";
    let headers = [];
    let (kind, session, deadline) = (Kind::Request(3), Session::None, Instant::now());
    let late = Outgoing { frame: frame.as_bytes(), kind, session, headers: &headers, deadline };
    // Two run, and two may wait for a thread.
    stage.next();
    stage.next();
    for _ in 0..2 {
        line.transport.send(&late, SendMode::Queued).unwrap();
    }
    assert!(matches!(line.transport.send(&late, SendMode::Queued), Err(Failure::Busy(_))));
    // The sender has the reason; another one must not be reported before it.
    assert!(line.recorder.records.lock().unwrap().failures.is_empty());
    for _ in 0..4 {
        go.send(()).unwrap();
    }
    line.recorder.wait(|records| (records.frames.len() == 4).then_some(()));
    line.close();
}

#[test]
fn a_failure_of_a_started_call_is_reported() {
    let stage = Stage::new(|_, to| answer(to, "503 Service Unavailable", "", ""));
    let line = Line::new(&stage.url());
    line.begin(1).unwrap();
    let failure = line.recorder.wait(|records| records.failures.first().cloned());
    assert!(failure.0 == 1 && failure.1.starts_with("Refused { status: 503"), "{failure:?}");
    line.close();
}

/// A server that never responds, and reports when the client has disconnected.
fn silent(head: &'static str) -> (Stage, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    let stage = Stage::new(move |_, to| {
        write_text(to, head);
        sender.send(()).unwrap();
        // The client has closed its side.
        if matches!(to.read(&mut [0]), Ok(0) | Err(_)) {
            let _ = sender.send(());
        }
        Next::Close
    });
    (stage, receiver)
}

#[test]
fn abandoning_a_call_closes_its_stream_at_once() {
    for head in ["", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"] {
        let (stage, receiver) = silent(head);
        let line = Line::new(&stage.url());
        std::thread::scope(|scope| {
            let call = scope.spawn(|| line.call(1, Session::None));
            receiver.recv_timeout(TIMEOUT).unwrap();
            line.transport.abandon(2);
            line.recorder.note(|records| records.gone.push(1));
            line.transport.abandon(1);
            receiver.recv_timeout(TIMEOUT).expect("the server sees the end");
            assert!(matches!(call.join().unwrap(), Ok(())));
        });
        line.close();
    }
}

#[test]
fn the_stream_is_closed_without_a_waiter() {
    let (stage, receiver) = silent("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n");
    let line = Line::new(&stage.url());
    let frame = "{\"id\":1}";
    line.send(frame, Kind::Request(1), Session::None, SendMode::Blocking(&mut || false)).unwrap();
    receiver.recv_timeout(TIMEOUT).unwrap();
    receiver.recv_timeout(TIMEOUT).expect("the server sees the end");
    line.close();
}

#[test]
fn closing_wakes_every_call() {
    let (stage, receiver) = silent("");
    let line = Line::new(&stage.url());
    std::thread::scope(|scope| {
        let calls: Vec<_> = (1..=4)
            .map(|id| {
                scope.spawn({
                    let line = &line;
                    move || line.call(id, Session::None)
                })
            })
            .collect();
        line.begin(5).unwrap();
        for _ in 0..5 {
            receiver.recv_timeout(TIMEOUT).unwrap();
        }
        line.transport.close(Instant::now() + TIMEOUT);
        for call in calls {
            assert!(matches!(call.join().unwrap(), Err(Failure::Closed(_))));
        }
    });
    let records = line.recorder.records.lock().unwrap();
    assert!(
        records.failures.iter().any(|(id, why)| *id == 5 && why.starts_with("Closed")),
        "{:?}",
        records.failures
    );
    drop(records);
    line.transport.wait_without_threads();
}

#[test]
fn a_listen_stream_outlives_its_deadline() {
    // The head of the stream must arrive before it, so a busy machine gets more time.
    let outlived = [100, 1000, 5000].map(Duration::from_millis).into_iter().any(outlives);
    assert!(outlived);
}

fn outlives(deadline: Duration) -> bool {
    let (_never, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let stage = Stage::new(move |seen, to| {
        stream(to);
        let _ = wait.lock().unwrap().recv_timeout(deadline * 2);
        write_text(to, &format!("data: {{}}\n\ndata: {}\n\n", result(seen)));
        Next::Close
    });
    let line = Line::new(&stage.url());
    let (frame, headers) = ("{\"id\":1}", []);
    let deadline = Instant::now() + deadline;
    let (kind, session) = (Kind::Stream(1), Session::None);
    let message = Outgoing { frame: frame.as_bytes(), kind, session, headers: &headers, deadline };
    line.transport.send(&message, SendMode::Queued).unwrap();
    let outlived = line.recorder.wait(|records| match (records.frames.len(), records.failures.len()) {
        (2, 0) => Some(true),
        (_, 1) => Some(false),
        _ => None,
    });
    line.close();
    outlived
}

#[test]
fn a_connection_that_the_server_closed_while_idle_is_not_used_again() {
    let (sender, closed) = mpsc::channel();
    let stage = Stage::new(move |seen, to| {
        answer(to, "200 OK", JSON, &result(seen));
        let _ = to.shutdown(std::net::Shutdown::Both);
        sender.send(()).unwrap();
        Next::Close
    });
    let line = Line::new(&stage.url());
    for id in 1..=5 {
        line.call(id, Session::None).unwrap();
        assert_eq!(stage.next().connection, id as usize - 1);
        closed.recv_timeout(TIMEOUT).unwrap();
    }
    line.close();
}
