//! A server for each session: own state, end with the session, limits, and clients without a session.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use serde_json::json;
use tinymcp::{Error, ErrorKind, Handle, HttpServer, Limits, Server, Tool, ToolError};

use crate::client::{Answer, Served, TIMEOUT, initialize, serve_with};

/// Servers that were made, their handles, and the ends of their sessions.
#[derive(Clone, Default)]
struct Made {
    count: Arc<AtomicUsize>,
    handles: Arc<Mutex<Vec<Handle>>>,
    ended: Arc<(Mutex<Vec<usize>>, Condvar)>,
    sleeps: Arc<AtomicBool>,
}

impl Made {
    /// A server that returns its number, 0 for the shared one.
    fn server(&self, number: usize) -> Server {
        let mut server = Server::new("own", "1");
        let sleeps = Arc::clone(&self.sleeps);
        server.tools_may_change();
        server.tool(Tool::new("number"), move |_, (): ()| Ok(number.to_string())).unwrap();
        server
            .tool(Tool::new("sleep"), move |ctx, (): ()| {
                sleeps.store(true, Ordering::SeqCst);
                ctx.wait(10 * TIMEOUT).map_err(|_| ToolError::new("woken"))?;
                Ok("slept")
            })
            .unwrap();
        let ended = Arc::clone(&self.ended);
        server.on_shutdown(move || {
            ended.0.lock().unwrap().push(number);
            ended.1.notify_all();
        });
        self.handles.lock().unwrap().push(server.handle());
        server
    }

    fn next(&self) -> Server {
        self.server(self.count.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Waits until the servers with these numbers have ended.
    fn await_ended(&self, numbers: &[usize]) {
        let ended = self.ended.0.lock().unwrap();
        let missing = |ended: &mut Vec<usize>| !numbers.iter().all(|number| ended.contains(number));
        let (ended, _) = self.ended.1.wait_timeout_while(ended, TIMEOUT, missing).unwrap();
        assert!(numbers.iter().all(|number| ended.contains(number)), "{ended:?}");
    }

    /// Waits until a call sleeps.
    fn await_sleep(&self) {
        while !self.sleeps.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    fn ended(&self) -> Vec<usize> {
        self.ended.0.lock().unwrap().clone()
    }
}

fn serve(made: &Made, limits: Limits, options: impl FnOnce(HttpServer) -> HttpServer) -> Served {
    let mut shared = made.server(0);
    shared.limits(limits);
    let made = made.clone();
    serve_with(shared, move |http| options(http.per_session(move || Ok(made.next()))))
}

fn text(answer: Answer) -> String {
    answer.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

fn number(served: &Served, id: &str) -> String {
    text(served.ask(id, 1, "tools/call", json!({"name": "number", "arguments": {}})))
}

fn delete(served: &Served, id: &str) -> u16 {
    served.send("DELETE", "/mcp", &[("Mcp-Session-Id", id)], "").status
}

#[test]
fn each_session_has_its_server_and_other_clients_share_the_first() {
    let made = Made::default();
    let served = serve(&made, Limits::default(), |http| http);
    let ids: Vec<String> = (0..3).map(|_| served.open("2025-11-25", json!({}))).collect();
    for _ in 0..2 {
        for (at, id) in ids.iter().enumerate() {
            assert_eq!(number(&served, id), (at + 1).to_string());
            assert_eq!(text(served.call("number", json!({}))), "0");
        }
    }
    // A request that opens no session makes no server.
    let refused = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}});
    assert_eq!(served.post(&[], &refused).refusal().1, -32602);
    assert_eq!(made.count.load(Ordering::SeqCst), 3);
    // Changes of one server are those of its session.
    let mut events =
        served.send("GET", "/mcp", &[("Mcp-Session-Id", &ids[1]), ("Accept", "text/event-stream")], "");
    made.handles.lock().unwrap()[2].add_tool(Tool::new("new"), |_, (): ()| Ok("")).unwrap();
    assert_eq!(events.message()["method"], "notifications/tools/list_changed");
    let tools = |id: &String| {
        let list = served.ask(id, 2, "tools/list", json!({})).json();
        list["result"]["tools"].as_array().unwrap().len()
    };
    assert_eq!(ids.iter().map(tools).collect::<Vec<_>>(), [2, 3, 2]);
}

#[test]
fn a_server_ends_with_its_session_and_with_the_program() {
    let made = Made::default();
    let served = serve(&made, Limits::default(), |http| http);
    let (first, second) = (served.open("2025-11-25", json!({})), served.open("2025-11-25", json!({})));
    std::thread::scope(|scope| {
        let sleep = json!({"name": "sleep", "arguments": {}});
        let sleeping = scope.spawn(|| served.ask(&first, 1, "tools/call", sleep).json());
        made.await_sleep();
        assert_eq!(delete(&served, &first), 204);
        assert_eq!(sleeping.join().unwrap()["result"]["isError"], true);
    });
    made.await_ended(&[1]);
    assert_eq!(number(&served, &second), "2");
    assert_eq!(made.ended(), [1]);
    served.handle.stop();
    served.ended();
    assert_eq!(made.ended(), [1, 2, 0]);
}

#[test]
fn a_server_ends_when_its_session_expires() {
    let made = Made::default();
    let mut limits = Limits::default();
    limits.http.session_timeout = Duration::from_millis(100);
    let served = serve(&made, limits, |http| http);
    let opened = served.post(&[], &initialize("2025-11-25", json!({})));
    assert_eq!(opened.status, 200);
    made.await_ended(&[1]);
}

#[test]
fn calls_of_a_session_have_their_deadline() {
    let made = Made::default();
    let mut limits = Limits::default();
    limits.handler_deadline = Duration::from_millis(100);
    let served = serve(&made, limits, |http| http);
    let id = served.open("2025-11-25", json!({}));
    let late = served.ask(&id, 1, "tools/call", json!({"name": "sleep", "arguments": {}})).json();
    assert_eq!(late["result"]["isError"], true, "{late}");
}

#[test]
fn only_a_valid_request_ends_another_session() {
    for has_own in [false, true] {
        let made = Made::default();
        let mut limits = Limits::default();
        limits.http.sessions = 1;
        let served = if has_own {
            serve(&made, limits, |http| http)
        } else {
            let mut shared = made.server(0);
            shared.limits(limits);
            serve_with(shared, |http| http)
        };
        let first = served.open("2025-11-25", json!({}));
        let invalid = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}});
        assert_eq!(served.post(&[], &invalid).refusal().1, -32602);
        assert_eq!(number(&served, &first), if has_own { "1" } else { "0" });
        // A valid request does, and a session that ends slowly does not block a new client.
        let second = served.open("2025-11-25", json!({}));
        assert_eq!(number(&served, &second), if has_own { "2" } else { "0" });
        assert_eq!(served.ask(&first, 1, "ping", json!({})).status, 404);
    }
}

#[test]
fn servers_that_still_end_count_against_the_limit_of_sessions() {
    let made = Made::default();
    let mut limits = Limits::default();
    limits.http.sessions = 1;
    let mut shared = made.server(0);
    shared.limits(limits);
    let (go, gone) = mpsc::channel::<()>();
    let (gone, counted) = (Arc::new(Mutex::new(gone)), made.clone());
    let served = serve_with(shared, move |http| {
        http.per_session(move || {
            let (mut server, gone) = (counted.next(), Arc::clone(&gone));
            server.on_shutdown(move || _ = gone.lock().unwrap().recv_timeout(TIMEOUT));
            Ok(server)
        })
    });
    let id = served.open("2025-11-25", json!({}));
    assert_eq!(delete(&served, &id), 204);
    made.await_ended(&[1]);
    let busy = served.post(&[], &initialize("2025-11-25", json!({})));
    assert_eq!((busy.status, busy.field("retry-after")), (503, Some("1")));
    go.send(()).unwrap();
    let opened =
        (0..).map(|_| served.post(&[], &initialize("2025-11-25", json!({})))).find(|a| a.status != 503);
    assert_eq!(opened.unwrap().status, 200);
    drop(go);
}

#[test]
fn a_server_that_cannot_be_made_is_answered_with_503() {
    for case in 0..3 {
        let made = Made::default();
        let works = Arc::new(AtomicBool::new(false));
        let (own, may) = (made.clone(), Arc::clone(&works));
        let served = serve_with(made.server(0), move |http| {
            http.per_session(move || match case {
                _ if may.load(Ordering::SeqCst) => Ok(own.next()),
                0 => Err(Error::new(ErrorKind::Busy, "not now")),
                1 => panic!("on purpose"),
                _ => {
                    let mut server = own.next();
                    server.inline_tool(Tool::new("inline"), |_, (): ()| Ok(""))?;
                    Ok(server)
                }
            })
        });
        assert_eq!(served.post(&[], &initialize("2025-11-25", json!({}))).status, 503, "{case}");
        assert_eq!(text(served.call("number", json!({}))), "0");
        works.store(true, Ordering::SeqCst);
        served.open("2025-11-25", json!({}));
    }
}

#[test]
fn a_further_server_may_have_one_for_each_session() {
    let made = Made::default();
    let kept = Mutex::new(None);
    let served = serve_with(made.server(0), |http| {
        *kept.lock().unwrap() = Some(http.mounts());
        http
    });
    let mounts = kept.into_inner().unwrap().unwrap();
    let own = made.clone();
    mounts.add_per_session("/a", made.server(100), move || Ok(own.next())).unwrap();
    let other = served.at("/a");
    let (first, id) = (served.open("2025-11-25", json!({})), other.open("2025-11-25", json!({})));
    assert_eq!((number(&served, &first), number(&other, &id)), ("0".to_owned(), "1".to_owned()));
    assert_eq!(text(other.call("number", json!({}))), "100");
    assert!(mounts.remove("/a"));
    made.await_ended(&[1, 100]);
    assert_eq!(number(&served, &first), "0");
}
