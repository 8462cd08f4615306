//! Sessions: kept, lost, opened again once for all threads, and requests of the server in them.

use std::collections::HashSet;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use tinymcp::{Call, Change, ElicitResponse, ErrorKind, Protocol, json};

use crate::detection::initialized;
use crate::stage::{JSON, Next, Seen, Stage, answer, stream, write_text};
use crate::{TIMEOUT, client, member};

fn done(seen: &Seen, to: &mut TcpStream) -> Next {
    let id = member(&seen.body, "/id");
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"done"}}]}}}}"#);
    answer(to, "200 OK", JSON, &body)
}

/// A server whose sessions the test can end.
struct Sessions {
    opened: AtomicUsize,
    alive: Mutex<HashSet<String>>,
}

impl Sessions {
    fn new() -> Arc<Sessions> {
        Arc::new(Sessions { opened: AtomicUsize::new(0), alive: Mutex::default() })
    }

    fn forget(&self) {
        self.alive.lock().unwrap().clear();
    }

    /// Returns whether a message belongs to an open session.
    fn knows(&self, seen: &Seen) -> bool {
        self.alive.lock().unwrap().contains(seen.header("mcp-session-id").unwrap_or_default())
    }

    fn serve(&self, seen: &Seen, to: &mut TcpStream) -> Next {
        let session = seen.header("mcp-session-id").unwrap_or_default();
        if member_or_empty(seen, "/method") == "initialize" {
            let id = format!("s{}", self.opened.fetch_add(1, Ordering::Relaxed));
            self.alive.lock().unwrap().insert(id.clone());
            let body = initialized(&member(&seen.body, "/id"));
            let body = body.replace(r#""tools":{}"#, r#""tools":{"listChanged":true}"#);
            return answer(to, "200 OK", &format!("{JSON}Mcp-Session-Id: {id}\r\n"), &body);
        }
        if !self.alive.lock().unwrap().contains(session) {
            return answer(to, "404 Not Found", "", "");
        }
        if !seen.line.starts_with("POST") {
            return answer(to, "405 Method Not Allowed", "", "");
        }
        if member(&seen.body, "/id").is_empty() { answer(to, "202 Accepted", "", "") } else { done(seen, to) }
    }
}

fn member_or_empty(seen: &Seen, pointer: &str) -> String {
    if seen.body.is_empty() { String::new() } else { member(&seen.body, pointer) }
}

#[test]
fn a_lost_session_is_opened_once_for_all_threads_and_every_call_continues() {
    let sessions = Sessions::new();
    let serving = Arc::clone(&sessions);
    let stage = Stage::new(move |seen, to| serving.serve(seen, to));
    let (sender, received) = mpsc::channel();
    let client =
        client().protocol(Protocol::Session).on_change(move |change| sender.send(change.clone()).unwrap());
    let client = client.connect(stage.url()).unwrap();
    for round in 1..=5 {
        sessions.forget();
        let barrier = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    assert_eq!(client.call_tool("t", json!({})).unwrap().texts(), "done");
                });
            }
        });
        assert_eq!(sessions.opened.load(Ordering::Relaxed), round + 1);
        // Changes between the two streams reached no listener.
        assert_eq!(received.recv_timeout(TIMEOUT).unwrap(), Change::Tools);
    }
    client.close();
    drop(client);
    assert_eq!(
        received.recv_timeout(TIMEOUT),
        Err(mpsc::RecvTimeoutError::Disconnected),
        "once for each session"
    );
}

/// A server that opens sessions and rejects every request in them.
fn forgetful() -> Stage {
    Stage::new(|seen, to| {
        if member_or_empty(seen, "/method") == "initialize" {
            let body = initialized(&member(&seen.body, "/id"));
            return answer(to, "200 OK", &format!("{JSON}Mcp-Session-Id: s\r\n"), &body);
        }
        answer(to, "404 Not Found", "", "")
    })
}

#[test]
fn a_storm_of_lost_sessions_ends_in_a_typed_error() {
    let stage = forgetful();
    let client = client().protocol(Protocol::Session).connect(stage.url()).unwrap();
    for _ in 0..3 {
        assert_eq!(client.call_tool("t", json!({})).unwrap_err().kind(), ErrorKind::SessionLost);
    }
    client.close();
    let opens = stage.rest().iter().filter(|s| member_or_empty(s, "/method") == "initialize").count();
    assert!(opens <= 4, "{opens}");
}

#[test]
fn a_slow_new_session_delays_no_call_beyond_its_deadline() {
    let sessions = Sessions::new();
    let serving = Arc::clone(&sessions);
    let (open, opens) = mpsc::channel::<()>();
    let opens = Mutex::new(opens);
    let stage = Stage::new(move |seen, to| {
        let again = serving.opened.load(Ordering::Relaxed) == 1;
        if again && member_or_empty(seen, "/method") == "initialize" {
            opens.lock().unwrap().recv_timeout(TIMEOUT).expect("the call ends first");
        }
        serving.serve(seen, to)
    });
    let client = client().protocol(Protocol::Session).connect(stage.url()).unwrap();
    sessions.forget();
    let short = |started: bool| {
        let request = client.request_tool("t", json!({})).timeout(Duration::from_millis(50));
        if started { request.start().and_then(Call::wait) } else { request.wait() }
    };
    for started in [false, true] {
        assert_eq!(short(started).unwrap_err().kind(), ErrorKind::Timeout);
    }
    // The opening continues, and a caller with a longer timeout gets its result.
    open.send(()).unwrap();
    assert_eq!(client.call_tool("t", json!({})).unwrap().texts(), "done");
    assert_eq!(sessions.opened.load(Ordering::Relaxed), 2);
    client.close();
}

#[test]
fn a_started_call_whose_session_is_lost_runs_before_anybody_waits_for_it() {
    let sessions = Sessions::new();
    let serving = Arc::clone(&sessions);
    let (sender, received) = mpsc::channel::<()>();
    let stage = Stage::new(move |seen, to| {
        let next = serving.serve(seen, to);
        if member_or_empty(seen, "/method") == "tools/call" && serving.knows(seen) {
            sender.send(()).unwrap();
        }
        next
    });
    let client = client().protocol(Protocol::Session).connect(stage.url()).unwrap();
    for round in 1..=3 {
        sessions.forget();
        let calls: Vec<_> = (0..4).map(|_| client.request_tool("t", json!({})).start().unwrap()).collect();
        for _ in 0..4 {
            received.recv_timeout(TIMEOUT).expect("the call runs without a waiting caller");
        }
        assert_eq!(sessions.opened.load(Ordering::Relaxed), round + 1);
        for call in calls {
            assert_eq!(call.wait().unwrap().texts(), "done");
        }
        assert!(received.try_recv().is_err(), "each ran once");
    }
    assert_eq!(client.in_flight(), 0);
    client.close();
}

#[test]
fn a_started_call_in_a_storm_of_lost_sessions_ends_in_a_typed_error() {
    let stage = forgetful();
    let client = client().protocol(Protocol::Session).connect(stage.url()).unwrap();
    for waits in [true, false] {
        let call = client.request_tool("t", json!({})).start().unwrap();
        match waits {
            true => assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::SessionLost),
            false => call.cancel(),
        }
    }
    client.close();
    assert_eq!(client.in_flight(), 0);
    let opens = stage.rest().iter().filter(|s| member_or_empty(s, "/method") == "initialize").count();
    assert!(opens <= 4, "{opens}");
}

#[test]
fn questions_on_the_stream_of_a_call_are_answered_by_posts() {
    let (reply, replied) = mpsc::channel::<String>();
    let replied = Mutex::new(replied);
    let reply = Mutex::new(reply);
    let stage = Stage::new(move |seen, to| {
        if !seen.line.starts_with("POST") {
            return answer(to, "405 Method Not Allowed", "", "");
        }
        let id = member(&seen.body, "/id");
        match member(&seen.body, "/method").as_str() {
            "initialize" => answer(to, "200 OK", &format!("{JSON}Mcp-Session-Id: s\r\n"), &initialized(&id)),
            "tools/call" => {
                stream(to);
                write_text(
                    to,
                    "data: {\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"default\":3}}}}}\n\n",
                );
                let n = replied.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
                write_text(
                    to,
                    &format!(
                        "data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{n}\"}}]}}}}\n\n"
                    ),
                );
                Next::Close
            }
            "" => {
                assert_eq!(seen.header("mcp-session-id"), Some("s"));
                reply.lock().unwrap().send(member(&seen.body, "/result/content/n")).unwrap();
                answer(to, "202 Accepted", "", "")
            }
            _ => answer(to, "202 Accepted", "", ""),
        }
    });
    let client = client().protocol(Protocol::Session).on_elicit(|_| Ok(ElicitResponse::accept(json!({}))));
    let client = client.connect(stage.url()).unwrap();
    assert_eq!(client.call_tool("ask", json!({})).unwrap().texts(), "3");
    client.close();
}

#[test]
fn the_server_is_notified_of_a_cancelled_call() {
    let (sender, received) = mpsc::channel::<String>();
    let stage = Stage::new(move |seen, to| {
        use std::io::Read;
        if !seen.line.starts_with("POST") {
            return answer(to, "405 Method Not Allowed", "", "");
        }
        let id = member(&seen.body, "/id");
        match member(&seen.body, "/method").as_str() {
            "initialize" => answer(to, "200 OK", JSON, &initialized(&id)),
            "tools/call" => {
                stream(to);
                sender.send(id).unwrap();
                let _ = to.read(&mut [0]);
                Next::Close
            }
            "notifications/cancelled" => {
                sender.send(member(&seen.body, "/params/requestId")).unwrap();
                answer(to, "202 Accepted", "", "")
            }
            _ => answer(to, "202 Accepted", "", ""),
        }
    });
    let client = client().protocol(Protocol::Session).connect(stage.url()).unwrap();
    let call = client.request_tool("slow", json!({})).start().unwrap();
    let id = received.recv_timeout(TIMEOUT).unwrap();
    call.cancel();
    assert_eq!(received.recv_timeout(TIMEOUT).unwrap(), id);
    client.close();
}

#[test]
fn a_server_that_restarts_under_load_loses_no_call() {
    let sessions = Sessions::new();
    let serving = Arc::clone(&sessions);
    let count = AtomicUsize::new(0);
    let stage = Stage::new(move |seen, to| {
        // Every seventh request reaches a server that has just restarted: it has no sessions, and its
        // connections end after their response.
        let restart = count.fetch_add(1, Ordering::Relaxed) % 7 == 6;
        if restart {
            serving.forget();
        }
        let next = serving.serve(seen, to);
        if restart { Next::Close } else { next }
    });
    let client = client().protocol(Protocol::Session).connect(stage.url()).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    match client.call_tool("t", json!({})) {
                        Ok(output) => assert_eq!(output.texts(), "done"),
                        // Two restarts in a row, or its connection was closed.
                        Err(error) => assert!(
                            matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::Io),
                            "{error:?}"
                        ),
                    }
                }
            });
        }
    });
    client.close();
}
