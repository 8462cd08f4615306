//! Tests of the listening stream of a session, and of resumed streams.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::stage::{JSON, Next, Seen, Stage, answer, result, stream, write_text};
use super::*;
use crate::transport::client::NegotiatedEra;

fn is_get(seen: &Seen) -> bool {
    seen.line.starts_with("GET ")
}

/// Transport with a session whose listening stream is open.
fn session(stage: &Stage, limits: &Limits) -> Line {
    let line = Line::to(Endpoint::new(stage.url()), limits);
    line.call(1, Session::Opens).unwrap();
    let headers = vec![("MCP-Protocol-Version".to_owned(), "y".to_owned())];
    line.transport.on_negotiated(&NegotiatedEra { session: true, headers });
    line
}

/// Responds to the requests that open the session.
fn open(seen: &Seen, to: &mut std::net::TcpStream) -> Next {
    answer(to, "200 OK", &format!("{JSON}Mcp-Session-Id: s\r\n"), &result(seen))
}

#[test]
fn a_stream_that_ends_is_resumed_without_loss_or_repetition() {
    let gets = AtomicUsize::new(0);
    let stage = Stage::new(move |seen, to| {
        if !is_get(seen) {
            return open(seen, to);
        }
        stream(to);
        match gets.fetch_add(1, Ordering::Relaxed) {
            // The last event is incomplete and is ignored.
            0 => {
                write_text(to, "id: 1\ndata: {\"a\":1}\n\nid: 2\ndata: {\"a\":2}\n\nid: 3\ndata: {\"a\":3}\n")
            }
            1 => write_text(to, "id: 3\ndata: {\"a\":3}\n\n"),
            2 => write_text(to, ": nothing\n\n"),
            3 => write_text(to, "data: {\"a\":4}\n\n"),
            _ => {
                let _ = to.read(&mut [0]);
            }
        }
        Next::Close
    });
    let line = session(&stage, &Limits::default());
    line.recorder.wait(|records| (records.frames.len() == 5).then_some(()));
    let numbers: Vec<String> = line.frames().split_off(1);
    assert_eq!(numbers, (1..=4).map(|n| format!("{{\"a\":{n}}}")).collect::<Vec<_>>());
    let seen: Vec<Seen> = (0..5).map(|_| stage.next()).collect();
    let last: Vec<Option<&str>> = seen.iter().skip(1).map(|s| s.header("last-event-id")).collect();
    assert_eq!(last, [None, Some("2"), Some("3"), Some("3")]);
    for get in seen.iter().skip(1) {
        assert_eq!(get.header("accept"), Some("text/event-stream"));
        assert_eq!(get.header("mcp-session-id"), Some("s"));
        assert_eq!(get.header("mcp-protocol-version"), Some("y"));
    }
    line.close();
}

#[test]
fn a_server_without_a_stream_is_asked_once() {
    for status in
        ["405 Method Not Allowed", "404 Not Found", "410 Gone", "401 Unauthorized", "200 OK", "302 Found"]
    {
        let stage = Stage::new(move |seen, to| {
            if is_get(seen) { answer(to, status, "Location: /x\r\n", "") } else { open(seen, to) }
        });
        let line = session(&stage, &Limits::default());
        assert!(!is_get(&stage.next()));
        assert!(is_get(&stage.next()));
        line.transport.shared.listener.wait_idle(Instant::now() + TIMEOUT);
        assert!(stage.rest().is_empty(), "{status}");
        line.close();
    }
}

#[test]
fn a_stream_that_always_ends_at_once_is_abandoned() {
    for refuse in [true, false] {
        let stage = Stage::new(move |seen, to| {
            if !is_get(seen) {
                return open(seen, to);
            }
            if refuse {
                return answer(to, "503 Service Unavailable", "", "");
            }
            stream(to);
            write_text(to, "retry: 1\n\n");
            Next::Close
        });
        let line = session(&stage, &reconnecting(3));
        line.transport.shared.listener.wait_idle(Instant::now() + TIMEOUT);
        let gets = stage.rest().iter().filter(|seen| is_get(seen)).count();
        assert_eq!(gets, 4);
        line.close();
    }
}

#[test]
fn closing_wakes_a_silent_stream_and_a_long_pause() {
    for begin in ["", "retry: 3600000\n\ndata: {}\n\n"] {
        let stage = Stage::new(move |seen, to| {
            if !is_get(seen) {
                return if seen.line.starts_with("DELETE") {
                    answer(to, "405 No", "", "")
                } else {
                    open(seen, to)
                };
            }
            stream(to);
            write_text(to, begin);
            if begin.is_empty() {
                write_text(to, "data: {}\n\n");
                let _ = to.read(&mut [0]);
            }
            Next::Close
        });
        let line = session(&stage, &Limits::default());
        line.recorder.wait(|records| (records.frames.len() == 2).then_some(()));
        line.close();
        while !stage.next().line.starts_with("DELETE ") {}
    }
}

#[test]
fn a_new_session_has_a_stream_of_its_own() {
    let stage = Stage::new(move |seen, to| {
        if !is_get(seen) {
            return open(seen, to);
        }
        stream(to);
        write_text(to, "id: 7\ndata: {}\n\n");
        let _ = to.read(&mut [0]);
        Next::Close
    });
    let line = session(&stage, &Limits::default());
    line.recorder.wait(|records| (records.frames.len() == 2).then_some(()));
    line.transport.on_negotiated(&NegotiatedEra { session: true, headers: Vec::new() });
    line.recorder.wait(|records| (records.frames.len() == 3).then_some(()));
    line.close();
    let gets: Vec<Seen> = stage.rest().into_iter().filter(is_get).collect();
    assert_eq!(gets.len(), 2);
    assert!(gets.iter().all(|get| get.header("last-event-id").is_none()));
}

#[test]
fn a_posts_stream_that_ends_early_is_resumed_after_the_time_the_server_asked_for() {
    let gets = AtomicUsize::new(0);
    let times = Arc::new(Mutex::new(Vec::new()));
    let clock = Arc::clone(&times);
    let stage = Stage::new(move |seen, to| {
        if seen.line.starts_with("POST") {
            stream(to);
            write_text(to, "id: p1\nretry: 100\ndata: \n\n");
            clock.lock().unwrap().push(Instant::now());
            return Next::Close;
        }
        clock.lock().unwrap().push(Instant::now());
        match gets.fetch_add(1, Ordering::Relaxed) {
            0 => return answer(to, "503 Busy", "", ""),
            1 => {
                stream(to);
                // An incomplete event is ignored.
                write_text(to, "id: p2\ndata: {\"progress\":1}\n\nid: p9\ndata: {\"broken\":");
            }
            _ => {
                stream(to);
                write_text(to, "id: p3\ndata: {\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n\n");
            }
        }
        Next::Close
    });
    let line = Line::new(&stage.url());
    line.call(9, Session::Within).unwrap();
    let seen: Vec<Seen> = (0..4).map(|_| stage.next()).collect();
    let last: Vec<Option<&str>> = seen.iter().map(|s| s.header("last-event-id")).collect();
    assert_eq!(last, [None, Some("p1"), Some("p1"), Some("p2")]);
    let times = times.lock().unwrap();
    // The server measures from its last byte, so the measured first wait is not too long.
    assert!(times[1] - times[0] >= Duration::from_millis(50), "{times:?}");
    assert_eq!(line.frames().len(), 2);
    line.close();
}

#[test]
fn a_stream_that_cannot_be_resumed_ends_in_an_error() {
    // No event id; no session; no such stream on the server; no response from the server.
    let table = [
        ("data: {}\n\n", Session::Within, "200 OK"),
        ("id: 1\ndata: {}\n\n", Session::None, "200 OK"),
        ("id: 1\ndata: {}\n\n", Session::Within, "405 Not Allowed"),
        ("id: 1\ndata: {}\n\n", Session::Within, "503 Busy"),
    ];
    for (events, session, status) in table {
        let stage = Stage::new(move |seen, to| {
            if is_get(seen) {
                return answer(to, status, "", "");
            }
            stream(to);
            write_text(to, events);
            Next::Close
        });
        let line = Line::to(Endpoint::new(stage.url()), &reconnecting(2));
        let done = line.call(1, session);
        assert!(matches!(done, Err(Failure::Interrupted(_))), "{events:?} {status}: {done:?}");
        let gets = stage.rest().iter().filter(|seen| is_get(seen)).count();
        let asked = match status {
            "503 Busy" => 3,
            "405 Not Allowed" => 1,
            _ => 0,
        };
        assert_eq!(gets, asked, "{events:?} {status}");
        line.close();
    }
}

#[test]
fn a_server_of_2024_11_05_is_detected_and_called() {
    for refusal in ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"] {
        let (sender, receiver) = std::sync::mpsc::channel::<String>();
        let (sender, receiver) = (Mutex::new(sender), Mutex::new(receiver));
        let stage = Stage::new(move |seen, to| {
            if is_get(seen) {
                stream(to);
                write_text(to, "event: endpoint\ndata: /post?session=1\n\n");
                while let Ok(text) = receiver.lock().unwrap().recv_timeout(TIMEOUT) {
                    if text == "end" {
                        break;
                    }
                    write_text(to, &format!("event: message\ndata: {text}\n\n"));
                }
                return Next::Close;
            }
            if !seen.line.starts_with("POST /post?session=1 ") {
                return answer(to, refusal, "", "");
            }
            let text = if seen.body.contains("\"id\":3") { "end".to_owned() } else { result(seen) };
            sender.lock().unwrap().send(text).unwrap();
            answer(to, "202 Accepted", "", "")
        });
        let line = Line::new(&stage.url());
        line.call(1, Session::Opens).unwrap();
        line.transport.on_negotiated(&NegotiatedEra { session: true, headers: Vec::new() });
        line.call(2, Session::Within).unwrap();
        line.send("{}", Kind::Notification, Session::Within, SendMode::Blocking(&mut || true)).unwrap();
        line.recorder.wait(|records| (records.frames.len() == 3).then_some(()));
        // The end of the stream ends the connection.
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| line.call(3, Session::Within));
            let end = line.recorder.wait(|records| records.end.clone());
            assert!(end.starts_with("Closed"), "{end}");
            line.recorder.note(|records| records.gone.push(3));
            line.transport.abandon(3);
            assert!(matches!(waits.join().unwrap(), Ok(())));
        });
        line.close();
        let gets = stage.rest().iter().filter(|seen| is_get(seen)).count();
        assert_eq!(gets, 1);
    }
}

#[test]
fn the_oldest_kind_does_not_lead_to_another_origin() {
    for data in ["http://127.0.0.1:1/post", "//evil/post", "", "relative"] {
        let stage = Stage::new(move |seen, to| {
            if is_get(seen) {
                stream(to);
                write_text(to, &format!("event: endpoint\ndata: {data}\n\n"));
                let _ = to.read(&mut [0]);
                return Next::Close;
            }
            answer(to, "404 Not Found", "", "")
        });
        let line = Line::new(&stage.url());
        line.deadline(Duration::from_millis(300));
        let done = line.call(1, Session::Opens);
        assert!(
            matches!(done, Err(Failure::Refused { status: 404, .. } | Failure::Timeout)),
            "{data:?}: {done:?}"
        );
        line.close();
    }
}
