//! Observers of requests and functions around tool calls, over HTTP and in memory, in both
//! protocols, on servers and on clients.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tinymcp::{
    Client, Limits, NextHandler, Prompt, PromptOutput, Protocol, RequestOutcome, RequestSide, RequestSummary,
    Resource, Server, Tool, ToolError, ToolOutput, memory, memory_links,
};

use crate::client::{META, Nothing, Served, TIMEOUT, serve_with, stage};

const PROTOCOLS: [Protocol; 2] = [Protocol::Session, Protocol::Stateless];

/// A copy of the parts of a summary.
#[derive(Clone, Debug)]
struct Seen {
    text: String,
    outcome: RequestOutcome,
    duration: Duration,
    queued: Duration,
    bytes: (usize, usize),
    protocol: Option<String>,
    session: Option<String>,
    peer: bool,
    principal: Option<String>,
    trace: Option<String>,
}

fn seen(request: &RequestSummary<'_>) -> Seen {
    Seen {
        text: format!("{} {} {:?}", request.method, request.name.unwrap_or("-"), request.outcome),
        outcome: request.outcome,
        duration: request.duration,
        queued: request.queued,
        bytes: (request.bytes_in, request.bytes_out),
        protocol: request.protocol.map(str::to_owned),
        session: request.session.map(str::to_owned),
        peer: request.peer.is_some(),
        principal: request.principal.map(str::to_owned),
        trace: request.trace.map(|trace| trace.to_string()),
    }
}

fn observed(mut server: Server) -> (Server, Receiver<Seen>) {
    let (send, summaries) = channel();
    let send = Mutex::new(send);
    server.observe(move |request| {
        assert_eq!(request.side, RequestSide::Server);
        send.lock().unwrap().send(seen(request)).unwrap();
    });
    (server, summaries)
}

fn server() -> Server {
    let mut server = Server::new("observed", "1");
    server
        .tool(Tool::new("ok"), |ctx, _: Nothing| Ok(ctx.principal().unwrap_or("nobody").to_owned()))
        .unwrap()
        .tool(Tool::new("fails"), |_, _: Nothing| Err::<(), _>(ToolError::new("no")))
        .unwrap()
        .inline_tool(Tool::new("inline"), |_, _: Nothing| Ok("in"))
        .unwrap()
        .inline_tool(Tool::new("inline_fails"), |_, _: Nothing| Err::<(), _>(ToolError::new("no")))
        .unwrap()
        .resource(Resource::new("text://note", "note"), |_, _| Ok("note"))
        .unwrap()
        .prompt(Prompt::new("greet"), |_, _| Ok(PromptOutput::new().user("Hello")))
        .unwrap();
    server
}

/// Runs `test` with clients of a server in both protocols, in memory and over HTTP.
fn with_clients(server: impl Fn() -> Server, test: impl Fn(&Client, &Receiver<Seen>, bool)) {
    for protocol in PROTOCOLS {
        let (near, far) = memory_links();
        let (server_in_memory, summaries) = observed(server());
        let serving = thread::spawn(move || server_in_memory.serve(far));
        let client = Client::builder("t", "1").protocol(protocol).over(near).unwrap();
        test(&client, &summaries, false);
        client.close();
        serving.join().unwrap().unwrap();
        let (server_over_http, summaries) = observed(server());
        let served = serve_with(server_over_http, |http| http);
        let client = Client::builder("t", "1").protocol(protocol).connect(url(&served)).unwrap();
        test(&client, &summaries, true);
        client.close();
    }
}

fn url(served: &Served) -> String {
    format!("http://{}/mcp", served.address)
}

fn next(summaries: &Receiver<Seen>) -> Seen {
    summaries.recv_timeout(TIMEOUT).expect("a summary")
}

/// The summaries that are there. A response follows its summary.
fn texts(summaries: &Receiver<Seen>) -> Vec<String> {
    summaries.try_iter().map(|seen| seen.text).collect()
}

fn none() -> tinymcp::json::Json {
    tinymcp::json!({})
}

#[test]
fn each_request_of_a_server_is_reported_once_with_its_outcome() {
    with_clients(server, |client, summaries, over_http| {
        let stateless = client.protocol() == Protocol::Stateless;
        let opening = if stateless { "server/discover" } else { "initialize" };
        assert_eq!(texts(summaries), [format!("{opening} - Ok")]);
        client.call_tool("ok", none()).unwrap();
        client.call_tool("inline", none()).unwrap();
        assert!(client.call_tool("fails", none()).unwrap().is_error);
        assert!(client.call_tool("inline_fails", none()).unwrap().is_error);
        client.call_tool("absent", none()).unwrap_err();
        assert!(client.call_tool("ok", tinymcp::json!({"more": 1})).unwrap().is_error);
        client.tools().unwrap();
        client.read_resource("text://note").unwrap();
        client.read_resource("text://absent").unwrap_err();
        client.prompt("greet", &[]).unwrap();
        let absent = if stateless { "-32602" } else { "-32002" };
        let expected = [
            "tools/call ok Ok",
            "tools/call inline Ok",
            "tools/call fails ToolError",
            "tools/call inline_fails ToolError",
            "tools/call absent Error(-32602)",
            "tools/call ok ToolError",
            "tools/list - Ok",
            "resources/read text://note Ok",
            &format!("resources/read text://absent Error({absent})"),
            "prompts/get greet Ok",
        ];
        assert_eq!(texts(summaries), expected, "{over_http} {stateless}");
    });
}

#[test]
fn a_summary_has_size_protocol_session_and_peer() {
    with_clients(server, |client, summaries, over_http| {
        summaries.try_iter().for_each(drop);
        client.call_tool("ok", none()).unwrap();
        let call = next(summaries);
        let session = client.protocol() == Protocol::Session;
        assert!(call.bytes.0 > 50 && call.bytes.1 > 50, "{call:?}");
        assert!(call.duration >= call.queued && call.duration < TIMEOUT, "{call:?}");
        assert_eq!(call.protocol.as_deref(), Some(if session { "2025-11-25" } else { "2026-07-28" }));
        assert_eq!(call.session.is_some(), session && over_http, "{call:?}");
        assert_eq!(call.peer, over_http);
        assert_eq!((call.principal, call.trace), (None, None));
    });
}

#[test]
fn a_summary_has_the_principal_and_the_trace_of_the_caller() {
    let (server, summaries) = observed(server());
    let served = serve_with(server, |http| http.tokens([("t", "alice")]));
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (given, expected) in [(parent, Some(parent)), ("00-none", None)] {
        let meta = json!({"traceparent": given, format!("{META}protocolVersion"): "2026-07-28",
            format!("{META}clientCapabilities"): {}});
        let params = json!({"name": "ok", "arguments": {}, "_meta": meta});
        let fields = [
            ("Authorization", "Bearer t"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "ok"),
        ];
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        assert_eq!(served.post(&fields, &message).json()["result"]["content"][0]["text"], "alice");
        let call = next(&summaries);
        assert_eq!(call.principal.as_deref(), Some("alice"));
        assert_eq!(call.trace.as_deref(), expected);
    }
}

#[test]
fn a_call_that_is_late_or_waits_for_a_worker_is_reported_as_such() {
    let server = || {
        let mut server = Server::new("late", "1");
        let time = Duration::from_millis(50);
        let mut limits = Limits::default();
        (limits.workers, limits.handler_deadline) = (1, time);
        server.limits(limits);
        server
            .tool(Tool::new("late"), |ctx, _: Nothing| {
                while ctx.wait(TIMEOUT).is_ok() {}
                Ok("")
            })
            .unwrap();
        server
    };
    with_clients(server, |client, summaries, _| {
        summaries.try_iter().for_each(drop);
        assert!(client.call_tool("late", none()).unwrap().is_error);
        let call = next(summaries);
        assert_eq!(call.outcome, RequestOutcome::TimedOut);
        assert!(call.duration >= Duration::from_millis(50), "{call:?}");
    });
}

#[test]
fn a_queued_call_is_reported_with_its_time_in_the_queue() {
    let stage = stage();
    let (near, far) = memory_links();
    let mut server = Server::new("queued", "1");
    let mut limits = Limits::default();
    limits.workers = 1;
    server.limits(limits);
    server
        .tool(Tool::new("blocks"), move |_, _: Nothing| {
            stage.mark("runs");
            stage.await_mark("go");
            Ok("")
        })
        .unwrap()
        .tool(Tool::new("ok"), |_, _: Nothing| Ok(""))
        .unwrap();
    let (server, summaries) = observed(server);
    let serving = thread::spawn(move || server.serve(far));
    let client = Client::over(near).unwrap();
    let first = client.request_tool("blocks", none()).start().unwrap();
    stage.await_mark("runs");
    let second = client.request_tool("ok", none()).start().unwrap();
    // The reader thread has queued the call when it answers this.
    client.tools().unwrap();
    thread::sleep(Duration::from_millis(20));
    stage.mark("go");
    first.wait().unwrap();
    second.wait().unwrap();
    let calls: Vec<Seen> = summaries.try_iter().filter(|seen| seen.text.starts_with("tools/call")).collect();
    assert!(calls[0].queued < calls[0].duration, "{calls:?}");
    assert!(calls[1].queued >= Duration::from_millis(20), "{calls:?}");
    client.close();
    serving.join().unwrap().unwrap();
}

#[test]
fn a_cancelled_call_is_reported_when_it_is_cancelled() {
    if crate::client::is_mounted() {
        return;
    }
    for protocol in PROTOCOLS {
        for over_http in [false, true] {
            let stage = stage();
            let mut server = Server::new("cancelled", "1");
            server
                .tool(Tool::new("waits"), move |_, _: Nothing| {
                    stage.mark("runs");
                    // The handler does not notice the cancellation.
                    stage.await_mark("go");
                    Ok("")
                })
                .unwrap();
            let (server, summaries) = observed(server);
            let builder = Client::builder("t", "1").protocol(protocol);
            let (client, served, serving) = if over_http {
                let served = serve_with(server, |http| http);
                (builder.connect(url(&served)).unwrap(), Some(served), None)
            } else {
                let (near, far) = memory_links();
                let serving = thread::spawn(move || server.serve(far));
                (builder.over(near).unwrap(), None, Some(serving))
            };
            let call = client.request_tool("waits", none()).start().unwrap();
            stage.await_mark("runs");
            call.cancel();
            let ended = loop {
                let seen = next(&summaries);
                if seen.text.starts_with("tools/call") {
                    break seen;
                }
            };
            assert_eq!(ended.outcome, RequestOutcome::Cancelled, "{protocol:?} {over_http}");
            stage.mark("go");
            client.close();
            drop(served);
            if let Some(serving) = serving {
                serving.join().unwrap().unwrap();
            }
        }
    }
}

#[test]
fn a_call_without_the_scopes_of_its_tool_ends_with_its_error() {
    let mut server = Server::new("scopes", "1");
    server.tool(Tool::new("write").requires_scope("write"), |_, _: Nothing| Ok("")).unwrap();
    let (server, summaries) = observed(server);
    let served = serve_with(server, |http| http.tokens([("t", "alice")]));
    let params = json!({"name": "write", "arguments": {}});
    let answer = served.modern(&[("Authorization", "Bearer t")], "tools/call", params);
    assert_eq!(answer.status, 403);
    let seen = next(&summaries);
    assert_eq!(seen.text, "tools/call write Error(-32600)");
    assert_eq!(seen.bytes.1, answer.body().len());
}

#[test]
fn an_observer_that_panics_ends_no_thread() {
    let (near, far) = memory_links();
    let mut server = server();
    server.observe(|_| panic!("observer"));
    let (server, summaries) = observed(server);
    let serving = thread::spawn(move || server.serve(far));
    let client = Client::over(near).unwrap();
    client.call_tool("inline", none()).unwrap();
    client.call_tool("ok", none()).unwrap();
    assert_eq!(texts(&summaries).len(), 3);
    client.close();
    serving.join().unwrap().unwrap();
}

#[test]
fn a_client_reports_its_requests() {
    for protocol in PROTOCOLS {
        let (near, far) = memory_links();
        let stage = stage();
        let mut server = server();
        server
            .tool(Tool::new("waits"), move |_, _: Nothing| {
                stage.await_mark("go");
                Ok("")
            })
            .unwrap();
        let serving = thread::spawn(move || server.serve(far));
        let all: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let kept = Arc::clone(&all);
        let client = Client::builder("t", "1")
            .protocol(protocol)
            .observe(move |request| {
                assert_eq!(request.side, RequestSide::Client);
                kept.lock().unwrap().push(seen(request));
            })
            .over(near)
            .unwrap();
        client.call_tool("ok", none()).unwrap();
        client.call_tool("fails", none()).unwrap();
        client.call_tool("absent", none()).unwrap_err();
        client.request_tool("waits", none()).timeout(Duration::from_millis(20)).wait().unwrap_err();
        stage.mark("go");
        client.close();
        serving.join().unwrap().unwrap();
        let all = all.lock().unwrap();
        let texts: Vec<&str> = all.iter().map(|seen| &*seen.text).collect();
        let opening = if protocol == Protocol::Session { "initialize" } else { "server/discover" };
        let expected = [
            &format!("{opening} - Ok"),
            "tools/call ok Ok",
            "tools/call fails ToolError",
            "tools/call absent Error(-32602)",
            "tools/call waits TimedOut",
        ];
        assert_eq!(texts, expected);
        assert!(all[1].bytes.0 > 50 && all[1].bytes.1 > 50, "{all:?}");
        assert!(all[1].protocol.is_some());
    }
}

#[test]
fn functions_around_tools_run_in_order_and_may_replace_the_handler() {
    let server = || {
        let mut server = server();
        server
            .around_tools(|ctx, call, next: NextHandler<'_>| {
                if call.tool().name == "fails" {
                    return Ok(ToolOutput::text("replaced").into());
                }
                let mut reply = next.run(ctx)?;
                let text = reply.output().unwrap().texts();
                *reply.output_mut().unwrap() = ToolOutput::text(format!("outer({text})"));
                Ok(reply)
            })
            .around_tools(|ctx, call, next| {
                let arguments = call.arguments().raw().to_owned();
                let text = next.run(ctx)?.output().unwrap().texts();
                Ok(ToolOutput::text(format!("inner({text} {arguments})")).into())
            });
        server
    };
    with_clients(server, |client, _, _| {
        let call = |tool| client.call_tool(tool, none()).unwrap();
        assert_eq!(call("ok").texts(), "outer(inner(nobody {}))");
        assert_eq!(call("inline").texts(), "outer(inner(in {}))");
        assert_eq!(call("fails").texts(), "replaced");
        let failed = call("inline_fails");
        assert!(failed.is_error && failed.texts() == "no", "{failed:?}");
    });
}

#[test]
fn a_panic_around_a_tool_is_an_error_of_the_call() {
    let (link, mut client) = memory();
    let mut server = server();
    server.around_tools(|_, _, _| panic!("around"));
    let serving = thread::spawn(move || server.serve(link));
    let params = tinymcp::json!({"name": "ok", "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}});
    let answer = client.request("tools/call", params, TIMEOUT).unwrap();
    assert!(answer.as_str().contains("The handler panicked"), "{answer:?}");
    client.finish();
    serving.join().unwrap().unwrap();
}

#[test]
fn a_subscription_is_reported_when_it_ends() {
    let mut server = server();
    server.tools_may_change();
    let (server, summaries) = observed(server);
    let (near, far) = memory_links();
    let serving = thread::spawn(move || server.serve(far));
    let client =
        Client::builder("t", "1").protocol(Protocol::Stateless).on_change(|_| {}).over(near).unwrap();
    client.tools().unwrap();
    client.close();
    serving.join().unwrap().unwrap();
    let listens: Vec<String> =
        texts(&summaries).into_iter().filter(|text| text.starts_with("subscriptions/listen")).collect();
    assert_eq!(listens.len(), 1, "{listens:?}");
}
