//! Results through a served hub, byte for byte: a scripted client and scripted servers in every pair of eras;
//! and calls to a server that is connecting.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use super::socket_pair::socket_pair;
use tinymcp::{
    Call, Client, ClientBuilder, ErrorKind, Hub, HubBuilder, Limits, Link, MemoryEnd, Protocol, Server, Tool,
    ToolOutput, Upstream, json, memory, memory_links,
};

use super::in_time::in_time;
use super::proxy::in_all_eras;

tinymcp::record! {
    struct Nothing {}
}
tinymcp::record! {
    struct Filled { text: String }
}

const TIMEOUT: Duration = Duration::from_secs(20);

const CARD: &str = r#""capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}}"#;
const LISTS: [(&str, &str); 4] = [
    ("tools/list", r#""tools":[{"name":"t","inputSchema":{"type":"object"}}]"#),
    ("resources/list", r#""resources":[{"uri":"test://r","name":"r"}]"#),
    ("resources/templates/list", r#""resourceTemplates":[]"#),
    ("prompts/list", r#""prompts":[{"name":"p","arguments":[{"name":"a"}]}]"#),
];

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.client.probe_timeout = TIMEOUT;
    limits.client.call_timeout = TIMEOUT;
    limits
}

/// The members of a message that a test checks.
fn read(line: &str) -> (String, String) {
    let doc = tinymcp::json::Doc::parse(line).unwrap();
    let text = |name: &str| doc.root().get(name).map(|v| v.raw().to_owned()).unwrap_or_default();
    (text("id"), text("method").trim_matches('"').to_owned())
}

/// A scripted server: returns this result to every request but those for lists, and reports the requests.
fn play(end: &MemoryEnd, era: Protocol, result: &str, asked: &mpsc::Sender<String>) {
    while let Some(line) = end.receive(TIMEOUT) {
        let (id, method) = read(&line);
        let complete = if era == Protocol::Stateless { r#""resultType":"complete","# } else { "" };
        let result = match &*method {
            "server/discover" => format!(r#"{{{complete}"supportedVersions":["2026-07-28"],{CARD}}}"#),
            "initialize" => {
                format!(
                    r#"{{"protocolVersion":"2025-11-25","serverInfo":{{"name":"x","version":"1"}},{CARD}}}"#
                )
            }
            method => match LISTS.iter().find(|(name, _)| *name == method) {
                Some((_, list)) => format!("{{{complete}{list}}}"),
                None if id.is_empty() || method == "subscriptions/listen" => continue,
                None => {
                    // The test may be over.
                    let _ = asked.send(line);
                    result.to_owned()
                }
            },
        };
        if !end.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)) {
            return;
        }
    }
}

/// A served hub between a client and one server, `x`.
struct Between {
    client: MemoryEnd,
    asked: mpsc::Receiver<String>,
    _hub: Hub,
}

impl Between {
    fn of(builder: HubBuilder, above: Protocol, result: &'static str) -> Between {
        let hub = builder.limits(limits()).build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        server.limits(limits());
        hub.export(&mut server).unwrap();
        let (received, asked) = mpsc::channel();
        let connect = move |client: ClientBuilder| {
            let (link, end) = memory();
            let received = received.clone();
            std::thread::spawn(move || play(&end, above, result, &received));
            client.protocol(above).over(link)
        };
        hub.add("x", Upstream::from_fn(connect)).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        let (link, client) = memory();
        std::thread::spawn(move || server.serve(link));
        Between { client, asked, _hub: hub }
    }

    /// Opens a session, in a revision that has sessions.
    fn open(&self, revision: &str) {
        if revision != MODERN {
            self.client.send(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
            ));
            assert!(self.client.receive(TIMEOUT).unwrap().contains(revision));
            self.client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        }
    }

    /// The response to a request, after its id.
    fn ask(&self, revision: &str, method: &str, params: &str, meta: &str) -> String {
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
        let version = if revision == MODERN { version } else { r#""x":1"# };
        self.client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params},"_meta":{{{version}{meta}}}}}}}"#
        ));
        let line = self.client.receive(TIMEOUT).unwrap();
        let result =
            line.strip_prefix(r#"{"jsonrpc":"2.0","id":7,"result":"#).unwrap_or_else(|| panic!("{line}"));
        result.strip_suffix('}').unwrap().to_owned()
    }
}

const MODERN: &str = "2026-07-28";
const METHODS: [(&str, &str); 4] = [
    ("tools/call", r#""name":"x__t","arguments":{}"#),
    ("resources/read", r#""uri":"test://r""#),
    ("prompts/get", r#""name":"x__p""#),
    (
        "completion/complete",
        r#""ref":{"type":"ref/prompt","name":"x__p"},"argument":{"name":"a","value":""}"#,
    ),
];

/// Results with members that no revision has, and with unusual spaces, numbers and escapes.
const RESULTS: [&str; 4] = [
    r#""cost":{ "cents":7.0 },"content":[ {"type":"text","text":"\u00e9","vendor":[1.50]},{"type":"hologram","z":1e2}, {"type":"resource_link","uri":"a:b","name":"n","odd":{}} ],"structuredContent":{"n":1.0},"isError":false"#,
    r#""contents":[ {"uri":"test://other","text":"t","vendor":1.0},{"uri":"test://odd","hologram":[]}],"more":null"#,
    r#""messages":[{"role":"user","content":{"type":"text","text":"hi","x":-0.0},"weight":1.0 }],"description":"d","z":[ ]"#,
    r#""completion":{"values":["a"],"hasMore":false,"score":[0.50]},"took":3.0"#,
];

/// A result as a server of this era writes it, with the members of its own hop.
fn written(era: Protocol, n: usize) -> &'static str {
    let members = RESULTS[n];
    Box::leak(match era {
        Protocol::Session => format!(r#"{{{members},"_meta":{{"v/y":2.50}}}}"#).into_boxed_str(),
        Protocol::Stateless => {
            let cache = if n == 1 { r#","ttlMs":5000,"cacheScope":"public""# } else { "" };
            format!(
                r#"{{"resultType":"complete",{members}{cache},"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"x","version":"1"}},"v/y":2.50}}}}"#
            )
            .into_boxed_str()
        }
    })
}

#[test]
fn results_are_passed_on_byte_for_byte() {
    for above in [Protocol::Session, Protocol::Stateless] {
        for (n, (method, params)) in METHODS.into_iter().enumerate() {
            for below in ["2025-11-25", MODERN] {
                let between = Between::of(Hub::builder("proxy", "1.0.0"), above, written(above, n));
                between.open(below);
                let members = RESULTS[n];
                let cache = match (n, above) {
                    (1, Protocol::Stateless) => r#","ttlMs":5000,"cacheScope":"public""#,
                    (1, Protocol::Session) => r#","ttlMs":0,"cacheScope":"private""#,
                    _ => "",
                };
                let want = if below == MODERN {
                    let own = r#""io.modelcontextprotocol/serverInfo":{"name":"proxy","version":"1.0.0"}"#;
                    format!(r#"{{"resultType":"complete",{members}{cache},"_meta":{{"v/y":2.50,{own}}}}}"#)
                } else {
                    format!(r#"{{{members},"_meta":{{"v/y":2.50}}}}"#)
                };
                assert_eq!(between.ask(below, method, params, ""), want, "{above:?} {below} {method}");
                // The hub caches nothing: both requests reach the server.
                between.ask(below, method, params, "");
                assert_eq!(between.asked.try_iter().count(), 2);
            }
        }
    }
}

#[test]
fn content_is_converted_for_an_older_client_and_the_rest_is_unchanged() {
    const RESULT: &str = r#"{"resultType":"complete","content":[{"type":"audio","data":"AAAA","mimeType":"audio/x"},{"type":"text","text":"t","odd":1.0}],"structuredContent":[1.0],"odd":2.0}"#;
    const ALONE: &str = r#"{"resultType":"complete","structuredContent":[1.0],"content":[],"odd":2.0}"#;
    const SAID: &str = r#"{"resultType":"complete","messages":[{"role":"user","content":{"type":"resource_link","uri":"a:b","name":"n"},"odd":1.0}]}"#;
    let (tool, prompt) = (METHODS[0], METHODS[2]);
    let audio =
        r#"{"type":"text","text":"[audio, audio/x, 3 bytes: this protocol revision cannot carry it]"}"#;
    let text = r#"{"type":"text","text":"t","odd":1.0}"#;
    let whole = r#"{"type":"audio","data":"AAAA","mimeType":"audio/x"}"#;
    let link = r#"{"type":"text","text":"a:b"}"#;
    for (below, result, (method, params), want) in [
        ("2024-11-05", RESULT, tool, format!(r#"{{"content":[{audio},{text}],"odd":2.0}}"#)),
        ("2025-06-18", RESULT, tool, format!(r#"{{"content":[{whole},{text}],"odd":2.0}}"#)),
        ("2025-11-25", ALONE, tool, r#"{"odd":2.0,"content":[{"type":"text","text":"[1.0]"}]}"#.to_owned()),
        (
            "2025-03-26",
            SAID,
            prompt,
            format!(r#"{{"messages":[{{"role":"user","content":{link},"odd":1.0}}]}}"#),
        ),
    ] {
        let between = Between::of(Hub::builder("proxy", "1.0.0"), Protocol::Stateless, result);
        between.open(below);
        assert_eq!(between.ask(below, method, params, ""), want, "{below}");
    }
}

#[test]
fn a_result_without_its_required_member_is_an_error() {
    for above in [Protocol::Session, Protocol::Stateless] {
        let between = Between::of(Hub::builder("proxy", "1.0.0"), above, r#"{"odd":1,"content":"text"}"#);
        between.open("2025-11-25");
        let answer = between.ask("2025-11-25", METHODS[0].0, METHODS[0].1, "");
        assert!(answer.contains(r#""isError":true"#), "{answer}");
    }
}

#[test]
fn a_trace_is_forwarded_only_if_the_host_enables_it() {
    const TRACE: &str = r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=\u0031","baggage":"user=7""#;
    for above in [Protocol::Session, Protocol::Stateless] {
        for below in ["2025-11-25", MODERN] {
            for (method, params) in METHODS {
                for passes in [true, false] {
                    let builder = Hub::builder("proxy", "1.0.0");
                    let builder = if passes { builder.forward_trace() } else { builder };
                    let n = METHODS.iter().position(|(name, _)| *name == method).unwrap();
                    let between = Between::of(builder, above, written(above, n));
                    between.open(below);
                    between.ask(below, method, params, &format!(r#","own":1,{TRACE}"#));
                    let asked = between.asked.recv_timeout(TIMEOUT).unwrap();
                    assert_eq!(asked.contains(TRACE), passes, "{asked}");
                    assert!(passes || !asked.contains("baggage"), "{asked}");
                    // Other members of `_meta` stay between client and hub.
                    assert!(!asked.contains("\"own\""), "{asked}");
                }
            }
        }
    }
}

/// A hub with one worker, a server `slow` that was restarted and connects on a signal, and a server
/// `quick`.
struct Waiting {
    hub: Hub,
    client: Client,
    /// Each message lets one connection be made.
    go: mpsc::Sender<()>,
}

fn waiting(below: Protocol, above: Protocol, set: impl FnOnce(&mut Limits)) -> Waiting {
    let mut own = limits();
    set(&mut own);
    let hub = Hub::builder("proxy", "1.0.0").limits(own.clone()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    (own.workers, own.queue) = (1, 64);
    server.limits(own);
    hub.export(&mut server).unwrap();
    let (go, gone) = mpsc::channel::<()>();
    let gone = Arc::new(Mutex::new(gone));
    for name in ["slow", "quick"] {
        let gone = Arc::clone(&gone);
        let connect = move |client: ClientBuilder| {
            if name == "slow" {
                // An error means that the test is over.
                let _ = gone.lock().unwrap().recv();
            }
            let (theirs, ours) = memory_links();
            let mut server = Server::new(name, "1.0.0");
            server.tool(Tool::new("t"), move |_, _: Nothing| Ok(name))?;
            std::thread::spawn(move || server.serve(theirs));
            client.protocol(above).over(ours)
        };
        hub.add(name, Upstream::from_fn(connect)).unwrap();
    }
    go.send(()).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = Client::builder("test", "1.0.0").protocol(below).limits(limits()).over(ours).unwrap();
    // Its entries stay on the lists during the restart.
    hub.restart("slow").unwrap();
    Waiting { hub, client, go }
}

#[test]
fn calls_to_a_server_that_connects_hold_no_worker_and_are_answered_when_it_does() {
    in_all_eras(|below, above| {
        let it = waiting(below, above, |_| {});
        let calls: Vec<_> =
            (0..5).map(|_| it.client.request_tool("slow__t", json!({})).start().unwrap()).collect();
        // Queued after them for the only worker.
        assert_eq!(it.client.call_tool("quick__t", json!({})).unwrap().texts(), "quick");
        it.go.send(()).unwrap();
        for call in calls {
            let output = call.wait().unwrap();
            assert_eq!((output.is_error, &*output.texts()), (false, "slow"));
        }
    });
}

#[test]
fn calls_to_a_server_that_never_connects_end_at_their_deadline_with_the_reason() {
    in_all_eras(|below, above| {
        in_time(Duration::from_millis(300), |timeout| {
            let it = waiting(below, above, |limits| limits.client.call_timeout = timeout);
            let calls: Vec<_> =
                (0..3).map(|_| it.client.request_tool("slow__t", json!({})).start().unwrap()).collect();
            for call in calls {
                let output = call.wait().unwrap();
                assert!(output.is_error && output.texts().contains("still connecting"), "{output:?}");
            }
            // Ended calls do not count.
            it.go.send(()).unwrap();
            it.hub.wait_settled(Instant::now() + TIMEOUT);
            let output = it.client.call_tool("slow__t", json!({})).unwrap();
            (output.texts() == "slow").then_some(())
        });
    });
}

#[test]
fn a_call_that_waits_for_a_connection_can_be_cancelled_and_ends_with_its_server() {
    in_all_eras(|below, above| {
        let it = waiting(below, above, |limits| limits.client.calls = 4);
        for _ in 0..8 {
            let call = it.client.request_tool("slow__t", json!({})).start().unwrap();
            let canceller = call.canceller();
            canceller.cancel();
            assert_eq!(call.wait().unwrap_err().kind(), ErrorKind::Cancelled);
        }
        // Half of the limit: the cancelled calls do not count.
        let calls: Vec<_> =
            (0..2).map(|_| it.client.request_tool("slow__t", json!({})).start().unwrap()).collect();
        let refused = it.client.call_tool("slow__t", json!({})).unwrap();
        assert!(refused.is_error && refused.texts().contains("too many calls wait"), "{refused:?}");
        assert_eq!(it.client.call_tool("quick__t", json!({})).unwrap().texts(), "quick");
        it.hub.remove("slow").unwrap();
        for call in calls {
            let output = call.wait().unwrap();
            assert!(output.is_error && output.texts().contains("removed"), "{output:?}");
        }
    });
}

/// A hub of these servers, and a client of it. A call of `stuck` blocks the reader thread until the
/// sender is dropped.
fn blocked_hub(names: &[&'static str], below: Protocol, above: Protocol) -> (Hub, Client, mpsc::Sender<()>) {
    let mut own = limits();
    own.client.call_timeout = Duration::from_secs(300);
    let hub = Hub::builder("proxy", "1.0.0").limits(own.clone()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(own.clone());
    hub.export(&mut server).unwrap();
    let (release, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    for &name in names {
        let (blocked, own) = (Arc::clone(&blocked), own.clone());
        let connect = move |client: ClientBuilder| {
            let (theirs, ours) = socket_pair();
            let theirs = Link::lines(theirs.try_clone().unwrap(), theirs, &own);
            let mut server = Server::new(name, "1.0.0");
            let blocked = Arc::clone(&blocked);
            server.inline_tool(Tool::new("t"), move |_, _: Filled| {
                if name == "stuck" {
                    // An error means that the sender is gone.
                    let _ = blocked.lock().unwrap().recv();
                }
                Ok(name)
            })?;
            std::thread::spawn(move || server.serve(theirs));
            client.protocol(above).over(Link::lines(ours.try_clone().unwrap(), ours, &own))
        };
        hub.add(name, Upstream::from_fn(connect)).unwrap();
    }
    hub.wait_settled(Instant::now() + TIMEOUT);
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = Client::builder("test", "1.0.0").protocol(below).limits(limits()).over(ours).unwrap();
    (hub, client, release)
}

/// Starts more calls of the stuck server than its input has room for.
fn fill_stuck(client: &Client) -> Vec<Call<ToolOutput>> {
    let filled = "x".repeat(280_000);
    (0..8).map(|_| client.request_tool("stuck__t", json!({"text": (&*filled)})).start().unwrap()).collect()
}

#[cfg(unix)] // The buffers of TCP sockets hold all calls.
#[test]
fn a_server_that_does_not_read_leaves_workers_for_the_others() {
    in_all_eras(|below, above| {
        let (hub, client, release) = blocked_hub(&["stuck", "quick"], below, above);
        let calls = fill_stuck(&client);
        assert_eq!(client.call_tool("quick__t", json!({"text": ""})).unwrap().texts(), "quick");
        drop(release);
        let busy = calls.into_iter().map(|call| call.wait());
        let refused = busy.filter(|outcome| match outcome {
            Ok(output) if !output.is_error => false,
            Ok(output) => output.texts().contains("does not read its input"),
            Err(error) => panic!("{error}"),
        });
        assert!(refused.count() > 0, "the server did not stop reading");
        hub.close();
    });
}

#[test]
fn calls_of_the_only_server_wait_while_it_does_not_read() {
    in_all_eras(|below, above| {
        let (hub, client, release) = blocked_hub(&["stuck"], below, above);
        let calls = fill_stuck(&client);
        // Longer than calls wait for one of several servers.
        std::thread::sleep(Duration::from_millis(600));
        drop(release);
        for call in calls {
            assert_eq!(call.wait().unwrap().texts(), "stuck");
        }
        hub.close();
    });
}

#[test]
fn the_pause_of_a_call_that_its_server_has_repeated_holds_no_worker() {
    let mut limits = limits();
    (limits.workers, limits.client.rounds) = (1, 1000);
    let hub = Hub::builder("proxy", "1.0.0").limits(limits.clone()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.limits(limits.clone());
    hub.export(&mut server).unwrap();
    let rounds = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&rounds);
    hub.add(
        "x",
        Upstream::from_fn(move |client| {
            let (link, end) = memory();
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                while let Some(line) = end.receive(TIMEOUT) {
                    let (id, method) = read(&line);
                    let result = match &*method {
                        "server/discover" => format!(r#""supportedVersions":["2026-07-28"],{CARD}"#),
                        method if method.ends_with("/list") => {
                            LISTS.iter().find(|(name, _)| *name == method).unwrap().1.to_owned()
                        }
                        // The tool is repeated, the prompt is not.
                        "tools/call" => {
                            *counted.lock().unwrap() += 1;
                            let again =
                                r#""resultType":"input_required","inputRequests":{},"requestState":"s""#;
                            end.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{again}}}}}"#));
                            continue;
                        }
                        "prompts/get" => r#""messages":[]"#.to_owned(),
                        _ => continue,
                    };
                    let result = format!(r#"{{"resultType":"complete",{result}}}"#);
                    end.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
                }
            });
            client.protocol(Protocol::Stateless).over(link)
        }),
    )
    .unwrap();
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client =
        Client::builder("test", "1").protocol(Protocol::Stateless).limits(limits).over(ours).unwrap();
    let count = || *rounds.lock().unwrap();
    let call = client.request_tool("x__t", json!({})).start().unwrap();
    // A pause of the later rounds is long, and another call need not wait for its end. With a slow
    // machine the first attempts may fail.
    let until = Instant::now() + TIMEOUT;
    loop {
        let before = count();
        std::thread::sleep(Duration::from_millis(100));
        if before >= 7 && count() == before {
            client.prompt("x__p", &[]).unwrap();
            if count() == before {
                break;
            }
        }
        assert!(Instant::now() < until, "{} rounds", count());
    }
    call.cancel();
    hub.close();
}
