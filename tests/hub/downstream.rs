//! A served hub follows its clients: subscriptions, log levels, capabilities, and calls to servers that are
//! not connected yet.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tinymcp::{
    Change, Client, ClientBuilder, ElicitResponse, ErrorKind, Handle, Hub, Level, Limits, MemoryEnd, Prompt,
    PromptOutput, Protocol, Resource, ResourceContents, Root, Server, Tool, Upstream, json, memory,
    memory_links,
};

use super::proxy::in_all_eras;

tinymcp::record! {
    struct Nothing {}
}

const TIMEOUT: Duration = Duration::from_secs(20);

fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.client.probe_timeout, limits.client.call_timeout) = (TIMEOUT, TIMEOUT);
    limits
}

fn of(era: Protocol) -> Server {
    match era {
        Protocol::Session => Server::session_only("one", "1.0.0"),
        Protocol::Stateless => Server::stateless_only("one", "1.0.0"),
    }
}

/// A hub to be served, and its server.
fn exported() -> (Hub, Server) {
    let hub = Hub::builder("proxy", "1.0.0").limits(limits()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(limits());
    hub.export(&mut server).unwrap();
    (hub, server)
}

/// A client of that server.
fn connect(server: Server, client: ClientBuilder, era: Protocol) -> Client {
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    client.protocol(era).limits(limits()).over(ours).unwrap()
}

fn client() -> ClientBuilder {
    Client::builder("test", "1.0.0")
}

/// A server in this process, a new one for each connection.
pub(super) fn inside(make: impl Fn() -> Server + Send + Sync + 'static) -> Upstream {
    Upstream::from_fn(move |client| {
        let (theirs, ours) = memory_links();
        let server = make();
        std::thread::spawn(move || server.serve(theirs));
        client.over(ours)
    })
}

fn watched(era: Protocol, updates: bool, handles: &mpsc::Sender<Handle>) -> Server {
    let mut server = of(era);
    if updates {
        server.resource_updates();
    }
    server.resource(Resource::new("test://a", "a"), |_, uri| Ok(ResourceContents::text(uri, "a"))).unwrap();
    handles.send(server.handle()).unwrap();
    server
}

/// A client of that server over HTTP.
#[cfg(all(feature = "http-server", feature = "http-client"))]
fn connect_over_http(server: Server, client: ClientBuilder, era: Protocol) -> Client {
    let bound = server.http().no_signal_handlers().bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", bound.address());
    std::thread::spawn(move || bound.serve());
    client.protocol(era).limits(limits()).connect(&*url).unwrap()
}

type Connect = fn(Server, ClientBuilder, Protocol) -> Client;

/// Runs a check for every pair of eras, over a link and over HTTP.
fn over_all(check: impl Fn(Connect, Protocol, Protocol)) {
    let ways: &[Connect] = &[
        connect,
        #[cfg(all(feature = "http-server", feature = "http-client"))]
        connect_over_http,
    ];
    for way in ways {
        in_all_eras(|below, above| check(*way, below, above));
    }
}

#[test]
fn the_first_update_after_an_answered_subscription_arrives() {
    over_all(|connect, below, above| {
        let (hub, server) = exported();
        let (handles, handle) = mpsc::channel();
        let handles = Mutex::new(handles);
        hub.add("one", inside(move || watched(above, true, &handles.lock().unwrap()))).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        let stop = server.handle();
        let (received, changes) = mpsc::channel();
        let received = Mutex::new(received);
        let listening = client().on_change(move |change| {
            // The test may be over.
            let _ = received.lock().unwrap().send(change.clone());
        });
        let client = connect(server, listening, below);
        client.subscribe("test://a").unwrap();
        // The subscription must exist immediately, and once.
        handle.recv_timeout(TIMEOUT).unwrap().resource_updated("test://a").unwrap();
        let updated = Change::ResourceUpdated("test://a".to_owned());
        while changes.recv_timeout(TIMEOUT).expect("the update arrives") != updated {}
        stop.stop();
    });
}

#[test]
fn a_subscription_that_the_server_refuses_is_refused() {
    over_all(|connect, below, above| {
        let (hub, server) = exported();
        let (handles, _handle) = mpsc::channel();
        let handles = Mutex::new(handles);
        hub.add("one", inside(move || watched(above, false, &handles.lock().unwrap()))).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        let stop = server.handle();
        let client = connect(server, client(), below);
        assert!(client.subscribe("test://a").is_err());
        assert!(client.subscribe("test://nowhere").is_err());
        assert!(client.read_resource("test://a").is_ok());
        stop.stop();
    });
}

#[test]
fn servers_log_from_the_level_on_that_the_client_wants() {
    in_all_eras(|below, above| {
        let (hub, server) = exported();
        let upstream = move || {
            let mut server = of(above);
            server.logging();
            server
                .tool(Tool::new("logs"), |ctx, _: Nothing| {
                    ctx.log(Level::Debug, None, "detail")?;
                    ctx.log(Level::Error, None, "failure")?;
                    Ok("logged")
                })
                .unwrap();
            server
        };
        hub.add("one", inside(upstream)).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        let (received, logs) = mpsc::channel();
        let received = Mutex::new(received);
        let listening = client().on_log(Level::Debug, move |entry| {
            // The test may be over.
            let _ = received.lock().unwrap().send(entry.level);
        });
        let client = connect(server, listening, below);
        client.call_tool("one__logs", json!({})).unwrap();
        assert_eq!(logs.recv_timeout(TIMEOUT).ok(), Some(Level::Debug));
        assert_eq!(logs.recv_timeout(TIMEOUT).ok(), Some(Level::Error));
        // And back: entries that no client requested are not logged.
        client.set_log_level(Level::Error).unwrap();
        client.call_tool("one__logs", json!({})).unwrap();
        assert_eq!(logs.recv_timeout(TIMEOUT).ok(), Some(Level::Error));
    });
}

#[test]
fn a_call_to_a_server_that_connects_for_the_first_time_waits_for_it() {
    in_all_eras(|below, above| {
        let (hub, server) = exported();
        let (go, gone) = mpsc::channel::<()>();
        let gone = Mutex::new(gone);
        let slow = Upstream::from_fn(move |client: ClientBuilder| {
            // The end of the test releases it.
            let _ = gone.lock().unwrap().recv();
            let (theirs, ours) = memory_links();
            let mut server = of(above);
            server.tool(Tool::new("t"), |_, _: Nothing| Ok("here"))?;
            server.prompt(Prompt::new("p"), |_, _| Ok(PromptOutput::new().user("here")))?;
            server.resource(Resource::new("test://a", "a"), |_, uri| Ok(ResourceContents::text(uri, "a")))?;
            std::thread::spawn(move || server.serve(theirs));
            client.over(ours)
        });
        hub.add("slow", slow).unwrap();
        hub.add("down", Upstream::from_fn(|_| Client::spawn(std::process::Command::new("/nonexistent"))))
            .unwrap();
        let client = connect(server, client(), below);
        let output = client.call_tool("down__t", json!({})).unwrap();
        assert!(output.is_error && output.texts().contains("\"down\" is down"), "{output:?}");
        let call = client.request_tool("slow__t", json!({})).start().unwrap();
        let prompt = client.request_prompt("slow__p", &[]).start().unwrap();
        let read = client.request_read("test://a").start().unwrap();
        let missing = client.request_read("test://b").start().unwrap();
        // A name without a prefix, and one of an unknown server.
        assert!(client.call_tool("slow", json!({})).is_err());
        assert!(client.call_tool("other__t", json!({})).is_err());
        go.send(()).unwrap();
        assert_eq!(call.wait().unwrap().texts(), "here");
        assert_eq!(prompt.wait().unwrap().messages.len(), 1);
        assert_eq!(read.wait().unwrap().contents.len(), 1);
        assert_eq!(missing.wait().unwrap_err().kind(), ErrorKind::Remote);
        hub.wait_settled(Instant::now() + TIMEOUT);
        assert!(client.prompt("slow__missing", &[]).is_err());
        assert!(client.call_tool("slow__missing", json!({})).is_err());
    });
}

/// A scripted server with sessions: passes what it receives to the test.
pub(super) fn scripted(seen: mpsc::Sender<(MemoryEndHandle, String)>) -> Upstream {
    let seen = Mutex::new(seen);
    Upstream::from_fn(move |client: ClientBuilder| {
        let (link, end) = memory();
        let end = Arc::new(end);
        let seen = seen.lock().unwrap().clone();
        let kept = Arc::clone(&end);
        std::thread::spawn(move || {
            while let Some(line) = kept.receive(TIMEOUT) {
                let message: serde_json::Value = serde_json::from_str(&line).unwrap();
                let result = match message["method"].as_str() {
                    Some("initialize") => serde_json::json!({"protocolVersion": "2025-11-25",
                        "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}),
                    _ => serde_json::json!({}),
                };
                if message.get("method").is_some() && message.get("id").is_some() {
                    let id = &message["id"];
                    kept.send(&serde_json::json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
                }
                if seen.send((Arc::clone(&kept), line)).is_err() {
                    return;
                }
            }
        });
        client.protocol(Protocol::Session).over(link)
    })
}

pub(super) type MemoryEndHandle = Arc<MemoryEnd>;

#[test]
fn a_request_outside_of_calls_that_the_client_never_answers_fails_in_time() {
    let mut short = limits();
    short.client_input_timeout = Duration::from_millis(200);
    let hub = Hub::builder("proxy", "1.0.0").limits(limits()).wait_for_client(TIMEOUT).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(short);
    hub.export(&mut server).unwrap();
    let (seen, messages) = mpsc::channel();
    hub.add("one", scripted(seen)).unwrap();
    let (link, client) = memory();
    std::thread::spawn(move || server.serve(link));
    let receive = |what: &str| loop {
        let line = client.receive(TIMEOUT).expect(what);
        if line.contains(what) {
            break serde_json::from_str::<serde_json::Value>(&line).unwrap();
        }
    };
    client.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
    );
    receive("\"result\"");
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let next = |what: &str| loop {
        let (end, line) = messages.recv_timeout(TIMEOUT).expect(what);
        if line.contains(what) {
            break (end, serde_json::from_str::<serde_json::Value>(&line).unwrap());
        }
    };
    let (end, _) = next("notifications/initialized");
    end.send(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
    let asked = receive("roots/list");
    let (_, answer) = next("\"error\"");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&"r".into(), &(-32603).into()), "{answer}");
    assert_eq!(receive("notifications/cancelled")["params"]["requestId"], asked["id"]);
}

#[test]
fn a_server_with_sessions_gets_the_capabilities_and_roots_of_the_first_client() {
    for below in [Protocol::Session, Protocol::Stateless] {
        let builder = Hub::builder("proxy", "1.0.0").limits(limits()).wait_for_client(TIMEOUT);
        let hub = builder.build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        server.limits(limits());
        hub.export(&mut server).unwrap();
        let (seen, messages) = mpsc::channel();
        hub.add("one", scripted(seen)).unwrap();
        let asking = client()
            .on_elicit(|_| Ok(ElicitResponse::decline()))
            .roots([Root { uri: "file:///srv/data".into(), name: None }]);
        let client = connect(server, asking, below);
        let next = |what: &str| loop {
            let (end, line) = messages.recv_timeout(TIMEOUT).expect(what);
            if line.contains(what) {
                break (end, serde_json::from_str::<serde_json::Value>(&line).unwrap());
            }
        };
        let (end, opening) = next("initialize");
        let declared = opening["params"]["capabilities"].as_object().unwrap();
        assert!(declared.contains_key("elicitation") && declared.contains_key("roots"), "{opening}");
        assert!(!declared.contains_key("sampling"), "{opening}");
        next("notifications/initialized");
        end.send(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
        let (_, answer) = next("\"result\"");
        // Without sessions a client gets requests only in its calls.
        let want = match below {
            Protocol::Session => serde_json::json!([{"uri": "file:///srv/data"}]),
            Protocol::Stateless => serde_json::json!([]),
        };
        assert_eq!(answer["result"]["roots"], want, "{below:?}");
        drop(client);
    }
}

#[test]
fn a_client_that_connects_before_the_servers_may_ask_for_completions() {
    for protocol in [Protocol::Session, Protocol::Stateless] {
        let (_hub, server) = exported();
        let client = connect(server, client(), protocol);
        assert!(client.server().capabilities.completions, "{protocol:?}");
    }
}

/// The response with this id, and the lines before it.
fn response(client: &MemoryEnd, id: u32) -> (serde_json::Value, Vec<String>) {
    let mut before = Vec::new();
    loop {
        let line = client.receive(TIMEOUT).unwrap_or_else(|| panic!("no response {id} after {before:?}"));
        let message: serde_json::Value = serde_json::from_str(&line).unwrap();
        if message["id"] == id {
            return (message, before);
        }
        before.push(line);
    }
}

#[test]
fn the_response_to_a_greeting_waits_for_the_instructions_of_servers_and_blocks_nothing() {
    for below in [Protocol::Session, Protocol::Stateless] {
        let builder = Hub::builder("proxy", "1.0.0").limits(limits()).wait_for_client(TIMEOUT);
        let hub = builder
            .instructions(|servers| match &servers[0].state {
                tinymcp::ServerState::Running(info) => info.instructions.clone(),
                state => Some(format!("{state:?}")),
            })
            .build()
            .unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        server.limits(limits()).instructions("of the proxy");
        hub.export(&mut server).unwrap();
        let (go, gone) = mpsc::channel();
        let gone = Mutex::new(gone);
        hub.add(
            "one",
            Upstream::from_fn(move |client| {
                gone.lock().unwrap().recv_timeout(TIMEOUT).unwrap();
                let (theirs, ours) = memory_links();
                let mut server = Server::new("one", "1.0.0");
                server.instructions("of the server");
                server.tool(Tool::new("t"), |_, _: Nothing| Ok("")).unwrap();
                std::thread::spawn(move || server.serve(theirs));
                client.over(ours)
            }),
        )
        .unwrap();
        let (link, client) = memory();
        std::thread::spawn(move || server.serve(link));
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        let send = |id: u32, method: &str, session: &str| {
            let params = if below == Protocol::Session { session } else { meta };
            assert!(client.send(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#
            )));
        };
        match below {
            Protocol::Session => send(
                1,
                "initialize",
                r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}"#,
            ),
            Protocol::Stateless => send(1, "server/discover", ""),
        }
        // Answered while the server has not connected; the stateless protocol has no ping.
        send(2, "ping", "");
        let (pong, before) = response(&client, 2);
        assert_eq!(pong.get("result").is_some(), below == Protocol::Session);
        assert!(before.is_empty(), "{before:?}");
        // A client need not wait for the response to its greeting.
        send(3, "tools/list", "");
        go.send(()).unwrap();
        let (mut greeting, mut tools) = (None, None);
        while greeting.is_none() || tools.is_none() {
            let line = client.receive(TIMEOUT).expect("two responses");
            let message: serde_json::Value = serde_json::from_str(&line).unwrap();
            match message["id"].as_u64() {
                Some(1) => greeting = Some(message),
                Some(3) => tools = Some(message),
                _ => {}
            }
        }
        assert_eq!(greeting.unwrap()["result"]["instructions"], "of the server");
        assert_eq!(tools.unwrap()["result"]["tools"][0]["name"], "one__t");
        hub.close();
    }
}

#[test]
fn without_instructions_of_servers_a_client_gets_those_of_the_server() {
    for below in [Protocol::Session, Protocol::Stateless] {
        let builder = Hub::builder("proxy", "1.0.0").limits(limits()).instructions(|_| None);
        let hub = builder.build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        server.limits(limits()).instructions("of the proxy");
        hub.export(&mut server).unwrap();
        let client = connect(server, client(), below);
        assert_eq!(client.server().instructions.as_deref(), Some("of the proxy"));
    }
}

/// A server in this process whose tool `t` returns this text.
fn saying(client: ClientBuilder, text: &'static str) -> Result<Client, tinymcp::Error> {
    let (theirs, ours) = memory_links();
    let mut server = Server::new("one", "1.0.0");
    server.tool(Tool::new("t"), move |_, _: Nothing| Ok(text))?;
    std::thread::spawn(move || server.serve(theirs));
    client.over(ours)
}

#[test]
fn a_server_that_is_replaced_serves_until_the_new_one_is_connected() {
    for below in [Protocol::Session, Protocol::Stateless] {
        let (hub, server) = exported();
        hub.add("one", Upstream::from_fn(|client| saying(client, "old"))).unwrap();
        hub.add("two", Upstream::from_fn(|client| saying(client, "other"))).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        let client = connect(server, client(), below);
        let call = || client.call_tool("one__t", json!({})).map(|output| output.texts());
        let names = || -> Vec<String> {
            let listed = client.request_tools(None).bypass_cache().wait().unwrap();
            listed.entries.into_iter().map(|tool| tool.name).collect()
        };
        let ((begun, begins), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
        let gone = Mutex::new(gone);
        let new = Upstream::from_fn(move |client| {
            // The test may be over.
            let _ = begun.send(());
            let _ = gone.lock().unwrap().recv_timeout(TIMEOUT);
            saying(client, "new")
        });
        std::thread::scope(|scope| {
            let replacing = scope.spawn(|| hub.replace("one", new, Instant::now() + TIMEOUT));
            begins.recv_timeout(TIMEOUT).unwrap();
            assert_eq!(call().unwrap(), "old");
            assert_eq!(names(), ["one__t", "two__t"]);
            go.send(()).unwrap();
            replacing.join().unwrap().unwrap();
        });
        assert_eq!(call().unwrap(), "new");
        hub.wait_settled(Instant::now() + TIMEOUT);
        assert_eq!(names(), ["one__t", "two__t"]);
        // Like a server that needs the port of the old one.
        let first = std::sync::atomic::AtomicBool::new(true);
        let late = Upstream::from_fn(move |client| {
            if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
                return Err(tinymcp::Error::new(tinymcp::ErrorKind::Io, "the port is in use"));
            }
            saying(client, "late")
        });
        hub.replace("one", late, Instant::now() + TIMEOUT).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        assert_eq!(call().unwrap(), "late");
        let unknown = hub.replace("other", Upstream::from_fn(|client| saying(client, "")), Instant::now());
        assert_eq!(unknown.unwrap_err().kind(), tinymcp::ErrorKind::Invalid);
        hub.close();
    }
}
