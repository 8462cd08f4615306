//! Limits on the calls of a caller and of a tool, in both protocols, over HTTP and in memory.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tinymcp::{CallLimit, Client, ErrorKind, Protocol, Resource, Server, Tool, memory_links};

use crate::client::{Answer, Nothing, Served, initialize, serve_with, stage};

const DATES: [&str; 3] = ["2025-03-26", "2025-11-25", "2026-07-28"];
/// No call is allowed again while a test runs.
const HOUR: Duration = Duration::from_secs(3600);

fn server() -> Server {
    let mut server = Server::new("limited", "1");
    server
        .tool(Tool::new("ok"), |_, _: Nothing| Ok("called"))
        .unwrap()
        .inline_tool(Tool::new("inline"), |_, _: Nothing| Ok("called"))
        .unwrap()
        .resource(Resource::new("text://note", "note"), |_, _| Ok("note"))
        .unwrap();
    server
}

fn tokens(server: Server) -> Served {
    serve_with(server, |http| http.tokens([("a", "alice"), ("b", "bob")]))
}

/// Asks in a revision, with a session of its own if the revision has sessions.
fn ask(served: &Served, date: &str, token: &str, method: &str, params: Value) -> Answer {
    let authorization = format!("Bearer {token}");
    let field = ("Authorization", authorization.as_str());
    if date == "2026-07-28" {
        return served.modern(&[field], method, params);
    }
    let answer = served.post(&[field], &initialize(date, json!({})));
    let session = answer.field("mcp-session-id").unwrap().to_owned();
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    served.post(&[field, ("Mcp-Session-Id", &session)], &message)
}

fn call(served: &Served, date: &str, token: &str, tool: &str) -> Answer {
    ask(served, date, token, "tools/call", json!({"name": tool, "arguments": {}}))
}

fn assert_refused(answer: Answer, most: u64) {
    assert_eq!(answer.status, 429);
    let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=most).contains(&seconds), "{seconds}");
    let message = answer.json();
    assert_eq!(message["error"]["code"], 429);
    assert_eq!(message["error"]["data"], json!({"retryAfter": seconds}));
    assert!(!message["id"].is_null(), "{message}");
}

#[test]
fn a_principal_has_its_own_rate_in_every_revision() {
    for date in DATES {
        let mut server = server();
        server.limit_calls(CallLimit::new().rate(3, HOUR));
        let served = tokens(server);
        assert_eq!(call(&served, date, "a", "ok").status, 200);
        assert_eq!(call(&served, date, "a", "inline").status, 200);
        assert_eq!(ask(&served, date, "a", "resources/read", json!({"uri": "text://note"})).status, 200);
        for tool in ["ok", "inline"] {
            assert_refused(call(&served, date, "a", tool), 1200);
        }
        assert_refused(ask(&served, date, "a", "resources/read", json!({"uri": "text://note"})), 1200);
        // Lists are not limited.
        assert_eq!(ask(&served, date, "a", "tools/list", json!({})).status, 200);
        assert_eq!(call(&served, date, "b", "ok").status, 200);
    }
}

#[test]
fn without_a_principal_the_address_is_the_caller() {
    let mut server = server();
    server.limit_calls(CallLimit::new().rate(1, HOUR));
    let served = serve_with(server, |http| http);
    assert_eq!(served.call("ok", json!({})).status, 200);
    // Another connection, and a session, are the same caller.
    assert_refused(served.call("ok", json!({})), 3600);
    let session = served.open("2025-11-25", json!({}));
    let params = json!({"name": "ok", "arguments": {}});
    assert_refused(served.ask(&session, 5, "tools/call", params), 3600);
}

#[test]
fn a_tool_has_a_limit_of_its_own() {
    let mut server = server();
    server.limit_tool("ok", CallLimit::new().rate(1, HOUR).for_all_callers());
    let served = tokens(server);
    assert_eq!(call(&served, "2026-07-28", "a", "ok").status, 200);
    assert_refused(call(&served, "2026-07-28", "b", "ok"), 3600);
    for _ in 0..3 {
        assert_eq!(call(&served, "2026-07-28", "a", "inline").status, 200);
    }
}

#[test]
fn calls_of_a_batch_beyond_the_limit_are_errors_in_its_response() {
    let mut server = server();
    server.limit_calls(CallLimit::new().rate(1, HOUR));
    let served = serve_with(server, |http| http);
    let session = served.open("2025-03-26", json!({}));
    let call =
        |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "ok"}});
    let answer = served.post(&[("Mcp-Session-Id", &session)], &json!([call(1), call(2)]));
    assert_eq!(answer.status, 200);
    let answers = answer.json();
    let mut codes: Vec<i64> =
        answers.as_array().unwrap().iter().map(|one| one["error"]["code"].as_i64().unwrap_or(0)).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 429]);
    // The next request is not affected.
    assert_eq!(served.ask(&session, 9, "tools/list", json!({})).status, 200);
}

#[test]
fn in_memory_a_call_beyond_the_limit_gets_an_error_with_the_time_to_wait() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let stage = stage();
        let (near, far) = memory_links();
        let mut server = server();
        server
            .tool(Tool::new("waits"), move |_, _: Nothing| {
                stage.mark("runs");
                stage.await_mark("go");
                Ok("")
            })
            .unwrap()
            .limit_tool("waits", CallLimit::new().concurrent(1))
            .limit_tool("inline", CallLimit::new().rate(1, HOUR));
        let serving = thread::spawn(move || server.serve(far));
        let client = Client::builder("t", "1").protocol(protocol).over(near).unwrap();
        let none = || tinymcp::json!({});
        let running = client.request_tool("waits", none()).start().unwrap();
        stage.await_mark("runs");
        let error = client.call_tool("waits", none()).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Remote, Some(429)));
        assert_eq!(error.data().unwrap().as_str(), r#"{"retryAfter":1}"#);
        stage.mark("go");
        running.wait().unwrap();
        // A call does not count any more when its client has the response.
        for _ in 0..100 {
            client.call_tool("waits", none()).unwrap();
        }
        client.call_tool("inline", none()).unwrap();
        assert_eq!(client.call_tool("inline", none()).unwrap_err().code(), Some(429));
        client.close();
        serving.join().unwrap().unwrap();
    }
}

#[test]
fn a_client_over_http_sees_the_error_of_the_server() {
    let mut server = server();
    server.limit_calls(CallLimit::new().rate(1, HOUR));
    let served = serve_with(server, |http| http);
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let url = format!("http://{}/mcp", served.address);
        let client = Client::builder("t", "1").protocol(protocol).connect(url).unwrap();
        let _ = client.call_tool("ok", tinymcp::json!({}));
        let error = client.call_tool("ok", tinymcp::json!({})).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Remote, Some(429)), "{error}");
        client.close();
    }
}
