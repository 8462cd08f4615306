//! Endpoints of programs that have an HTTP server of their own: without one, and in `tiny_http`.
//!
//! `TEST_MOUNTED=1 cargo test --all-features --test http` runs the other tests of this folder in `tiny_http` too.

use std::io::{self, Read};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{HttpBody, HttpEndpoint, HttpEvents, HttpRequest, HttpResponse, Limits, Server};

use crate::client::{BOTH, TIMEOUT, initialize, request, server, stage};

/// A body of which nothing may be read.
struct Unread;

impl Read for Unread {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("the body is read");
    }
}

/// A body that fails with this error.
struct Broken(io::ErrorKind);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
}

fn endpoint(mut server: Server) -> HttpEndpoint {
    let mut limits = Limits::default();
    limits.http.comment_interval = Duration::from_millis(100);
    limits.frame_bytes = 20_000;
    server.limits(limits);
    server.http().diagnostics(|_| ()).endpoint().unwrap()
}

fn post(fields: &[(&str, &str)]) -> HttpRequest {
    let request = HttpRequest::new("POST", "/mcp")
        .field("Host", "localhost")
        .field("Content-Type", "application/json")
        .field("Accept", BOTH);
    fields.iter().fold(request, |request, (name, value)| request.field(*name, *value))
}

fn modern(endpoint: &HttpEndpoint, tool: &str, arguments: Value) -> HttpResponse {
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
    let message = request(1, "tools/call", json!({"name": tool, "arguments": arguments})).to_string();
    endpoint.handle(post(&fields), message.as_bytes())
}

fn whole(response: HttpResponse) -> Value {
    match response.body {
        HttpBody::Whole(body) => serde_json::from_slice(&body).unwrap_or(Value::Null),
        _ => panic!("events came"),
    }
}

fn events(response: HttpResponse) -> HttpEvents {
    assert!(response.fields.contains(&("content-type".to_owned(), "text/event-stream".to_owned())));
    match response.body {
        HttpBody::Events(events) => events,
        _ => panic!("expected an event stream"),
    }
}

/// The messages of an event stream.
fn messages(events: impl Iterator<Item = Vec<u8>>) -> Vec<Value> {
    let text = String::from_utf8(events.flatten().collect()).unwrap();
    let data =
        text.lines().filter_map(|line| line.strip_prefix("data:")).filter(|data| !data.trim().is_empty());
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn both_protocols_are_served_without_a_socket() {
    let endpoint = endpoint(server(stage()));
    for tool in ["echo", "inline"] {
        let response = modern(&endpoint, tool, json!({"text": "hello"}));
        assert_eq!(response.status, 200);
        assert_eq!(whole(response)["result"]["content"][0]["text"], "hello");
    }
    let reported = messages(match modern(&endpoint, "report", json!({})).body {
        HttpBody::Whole(body) => vec![body].into_iter(),
        HttpBody::Events(events) => events.collect::<Vec<_>>().into_iter(),
    });
    assert_eq!(reported.len(), 4, "{reported:?}");
    assert_eq!(reported[3]["result"]["content"][0]["text"], "reported");

    let message = initialize("2025-11-25", json!({"elicitation": {}})).to_string();
    let response = endpoint.handle(post(&[]), message.as_bytes());
    let id = response.fields.iter().find(|(name, _)| name == "mcp-session-id").unwrap().1.clone();
    let session = [("Mcp-Session-Id", id.as_str())];
    let get =
        || HttpRequest::new("GET", "/mcp").field("Host", "localhost").field("Accept", "text/event-stream");
    let mut general = events(endpoint.handle(get().field("Mcp-Session-Id", &*id), &b""[..]));
    assert!(general.next().unwrap().starts_with(b"retry:"));

    // A request of the server on the stream of its call, whose answer is another request.
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask"}}).to_string();
    let mut asked = events(endpoint.handle(post(&session), call.as_bytes()));
    let question = std::iter::from_fn(|| asked.next()).find_map(|bytes| messages([bytes].into_iter()).pop());
    let answer = json!({"jsonrpc": "2.0", "id": question.unwrap()["id"], "result": {"action": "decline"}});
    assert_eq!(endpoint.handle(post(&session), answer.to_string().as_bytes()).status, 202);
    assert_eq!(messages(asked).pop().unwrap()["result"]["content"][0]["text"], "Decline");

    let delete = HttpRequest::new("DELETE", "/mcp").field("Host", "localhost").field("Mcp-Session-Id", &*id);
    assert_eq!(endpoint.handle(delete, &b""[..]).status, 204);
    assert!(general.all(|bytes| bytes.starts_with(b":")), "the general stream ends with the session");
    assert_eq!(endpoint.handle(post(&session), call.as_bytes()).status, 404);
}

#[test]
fn rejected_heads_leave_the_body_unread() {
    let http = server(stage()).http().tokens([("s3cret", "alice")]).diagnostics(|_| ());
    let endpoint = http.endpoint().unwrap();
    let head = |method: &str, target: &str| HttpRequest::new(method, target);
    let local = |method: &str, target: &str| head(method, target).field("Host", "localhost");
    let authorized = || local("POST", "/mcp").field("Authorization", "Bearer s3cret");
    for (request, status) in [
        (head("POST", "/mcp"), 400),
        (local("POST", "http://other/mcp"), 400),
        (local("P T", "/mcp"), 400),
        (local("POST", "/mcp").field("x y", "z"), 400),
        (local("POST", "/mcp").field("x", "a\r\nb"), 400),
        (local("POST", "/mcp").field("x", "\0"), 400),
        (local("POST", "mcp"), 400),
        (local("POST", "/mcp").field("Host", "localhost"), 400),
        (head("POST", "/mcp").field("Host", "evil.example"), 403),
        (local("POST", "/mcp").field("Origin", "https://evil.example"), 403),
        (local("POST", "/other"), 401),
        (local("POST", "/other").field("Authorization", "Bearer s3cret"), 404),
        (local("POST", "/mcp"), 401),
        (local("POST", "/mcp").field("Authorization", "Bearer wrong"), 401),
        (authorized().field("Content-Type", "text/plain"), 415),
        (authorized().field("Content-Type", "application/json").field("Accept", "text/html"), 406),
        (local("PUT", "/mcp").field("Authorization", "Bearer s3cret"), 405),
    ] {
        assert_eq!(endpoint.handle(request, Unread).status, status);
    }
}

#[test]
fn bodies_that_are_too_large_or_break_are_rejected() {
    let endpoint = endpoint(server(stage()));
    let response = endpoint.handle(post(&[]), io::repeat(b' '));
    assert_eq!(response.status, 413);
    assert!(whole(response)["error"]["message"].as_str().unwrap().contains("20000 bytes"));
    assert_eq!(endpoint.handle(post(&[]), Broken(io::ErrorKind::ConnectionReset)).status, 400);
    assert_eq!(endpoint.handle(post(&[]), Broken(io::ErrorKind::TimedOut)).status, 408);
}

#[test]
fn a_dropped_stream_cancels_its_call() {
    let stage = stage();
    let endpoint = endpoint(server(stage));
    let mut server = Server::new("other", "1");
    server.limits(Limits::default());
    let mut listening = events(listen(&endpoint));
    assert!(listening.next().is_some());
    // A comment comes while there are no events, so that the program's server writes.
    assert!(std::iter::from_fn(|| listening.next()).any(|bytes| bytes == b":\n\n"));
    drop(listening);
    endpoint.close();
}

/// A request whose response is a stream without end, of the stateless protocol.
fn listen(endpoint: &HttpEndpoint) -> HttpResponse {
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "subscriptions/listen")];
    let params = json!({"notifications": {"toolsListChanged": true}});
    endpoint.handle(post(&fields), request(1, "subscriptions/listen", params).to_string().as_bytes())
}

#[test]
fn the_end_of_an_endpoint_ends_streams_and_rejects_requests() {
    let endpoint = endpoint(server(stage()));
    let mut listening = events(listen(&endpoint));
    assert!(listening.next().is_some());
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(listening.count()));
    endpoint.close();
    end.recv_timeout(TIMEOUT).unwrap();
    let response = modern(&endpoint, "echo", json!({"text": "late"}));
    assert_eq!(response.status, 503);
    endpoint.close();
}

#[test]
fn a_call_in_progress_may_finish_at_the_end() {
    let stage = stage();
    let endpoint = endpoint(server(stage));
    let (other, (answered, answer)) = (endpoint.clone(), mpsc::channel());
    thread::spawn(move || answered.send(whole(modern(&other, "wait", json!({})))));
    stage.await_mark("waits");
    let closing = endpoint.clone();
    let (closed, close) = mpsc::channel();
    thread::spawn(move || {
        closing.close();
        closed.send(())
    });
    stage.mark("go");
    let answer = answer.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "went");
    close.recv_timeout(TIMEOUT).unwrap();
}

#[test]
fn the_last_clone_ends_the_endpoint() {
    let mut server = server(stage());
    let (ended, end) = mpsc::channel();
    server.on_shutdown(move || ended.send(()).unwrap());
    let endpoint = endpoint(server);
    drop(endpoint.clone());
    assert_eq!(modern(&endpoint, "echo", json!({"text": "hello"})).status, 200);
    assert!(end.try_recv().is_err());
    drop(endpoint);
    end.recv_timeout(TIMEOUT).unwrap();
}

#[test]
fn served_paths_are_those_of_endpoints_pages_and_documents() {
    let page = tinymcp::StatusPage::new("/healthz", "text/plain", || "ok".to_owned());
    let metadata = tinymcp::ResourceMetadata::new("https://board.example/mcp", "https://login.example");
    let http = server(stage()).http().page(page.public()).resource_metadata(metadata);
    let mounts = http.mounts();
    let endpoint = http.diagnostics(|_| ()).endpoint().unwrap();
    mounts.add("/other", server(stage())).unwrap();
    mounts.add("/slash/", server(stage())).unwrap();
    for (target, served) in [
        ("/mcp", true),
        ("/mcp?x=1", true),
        ("/mcp/", true),
        ("/mcp//", false),
        ("/other", true),
        ("/slash", true),
        ("/healthz", true),
        ("/healthz/", true),
        ("/.well-known/oauth-protected-resource/mcp", true),
        ("/.well-known/oauth-protected-resource/x", false),
        ("/", false),
        ("/mcp/x", false),
    ] {
        assert_eq!(endpoint.serves(target), served, "{target}");
    }
    for path in ["/healthz", "/healthz/"] {
        let health = endpoint.handle(HttpRequest::new("GET", path).field("Host", "10.0.0.1"), Unread);
        assert!(matches!(health.body, HttpBody::Whole(body) if body == b"ok"), "{path}");
    }
    let call = request(1, "tools/list", json!({})).to_string();
    let fields = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
    let other = HttpRequest::new("POST", "/other")
        .field("Host", "localhost")
        .field("Content-Type", "application/json")
        .field("Accept", BOTH);
    let other = fields.iter().fold(other, |request, (name, value)| request.field(*name, *value));
    assert_eq!(endpoint.handle(other, call.as_bytes()).status, 200);
}

#[cfg(feature = "tiny_http")]
mod in_tiny_http {
    use serde_json::json;

    use crate::client::{mounted_with, server, stage};

    #[test]
    fn pages_and_both_protocols_share_a_port() {
        let served = mounted_with(server(stage()), |http| http);
        assert_eq!(served.send("GET", "/page", &[], "").body(), "the page of the program");
        let answer = served.call("echo", json!({"text": "hello"}));
        assert_eq!(answer.json()["result"]["content"][0]["text"], "hello");
        let id = served.open("2025-11-25", json!({"elicitation": {}}));
        let mut call = served.ask(&id, 1, "tools/call", json!({"name": "ask"}));
        let question = call.message();
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
        assert_eq!(served.post(&[("Mcp-Session-Id", &id)], &answer).status, 202);
        assert_eq!(call.message()["result"]["content"][0]["text"], "Decline");
        assert_eq!(call.event(), None);
    }

    #[test]
    fn events_arrive_while_their_call_runs() {
        let stage = stage();
        let served = mounted_with(server(stage), |http| http);
        let mut call = served.call("leave", json!({}));
        assert_eq!(call.message()["method"], "notifications/message");
        stage.await_mark("left");
        stage.mark("go");
        assert_eq!(call.message()["result"]["content"][0]["text"], "went");
    }

    #[test]
    fn a_client_that_leaves_a_stream_cancels_its_call() {
        let stage = stage();
        let mut server = server(stage);
        let mut limits = tinymcp::Limits::default();
        limits.http.comment_interval = std::time::Duration::from_millis(100);
        server.limits(limits);
        let served = mounted_with(server, |http| http);
        let mut call = served.call("leave", json!({}));
        assert_eq!(call.message()["method"], "notifications/message");
        stage.await_mark("waits");
        call.hang_up();
        stage.await_mark("cancelled");
    }
}
