//! Lazy mode of a served hub: three tools instead of those of the servers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use tinymcp::json::Json;
use tinymcp::{
    Client, ClientBuilder, ErrorKind, Hub, HubBuilder, Level, Protocol, Root, SampleResponse, Server, Tool,
    ToolOutput, Upstream, json, memory, memory_links,
};

use super::proxy::{Proxy, TIMEOUT, answering, client, in_all_eras, limits};

tinymcp::record! {
    struct Nothing {}
}

fn builder() -> HubBuilder {
    Hub::builder("proxy", "1.0.0").lazy_tools()
}

/// A lazy proxy of the server `one`.
fn lazy(era: Protocol) -> Proxy {
    Proxy::build(builder(), &["one"], era, limits())
}

fn invoke(client: &Client, name: &str, arguments: Json) -> ToolOutput {
    client.call_tool("tool_invoke", json!({"name": name, "arguments": (arguments)})).unwrap()
}

fn text(client: &Client, tool: &str, arguments: Json) -> String {
    let output = client.call_tool(tool, arguments).unwrap();
    assert!(!output.is_error, "{output:?}");
    output.texts()
}

fn error(client: &Client, tool: &str, arguments: Json) -> String {
    let output = client.call_tool(tool, arguments).unwrap();
    assert!(output.is_error, "{output:?}");
    output.texts()
}

/// A client of a lazy hub with one server that has these tools, each with a name and a description.
fn described(tools: Vec<(String, String)>) -> (Hub, Client) {
    let hub = builder().limits(limits()).build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    hub.export(&mut server).unwrap();
    let connect = move |client: ClientBuilder| {
        let (theirs, ours) = memory_links();
        let mut server = Server::new("many", "1.0.0");
        for (name, description) in &tools {
            let said = name.clone();
            let tool = Tool::new(name).description(description);
            server.tool(tool, move |_, _: Nothing| Ok(said.clone())).unwrap();
        }
        std::thread::spawn(move || server.serve(theirs));
        client.over(ours)
    };
    hub.add("many", Upstream::from_fn(connect).prefix("")).unwrap();
    hub.wait_settled(Instant::now() + TIMEOUT);
    let (theirs, ours) = memory_links();
    std::thread::spawn(move || server.serve(theirs));
    let client = client().limits(limits()).over(ours).unwrap();
    (hub, client)
}

#[test]
fn three_tools_stand_for_all_and_the_other_lists_stay() {
    in_all_eras(|below, above| {
        let mut proxy = lazy(above);
        let client = proxy.connect(client(), below);
        let tools = client.tools().unwrap();
        let hints: Vec<_> = tools.iter().map(|t| (&*t.name, t.hints.read_only, t.hints.open_world)).collect();
        let reads = (Some(true), Some(false));
        assert_eq!(
            hints,
            [("tool_list", reads.0, reads.1), ("tool_schema", reads.0, reads.1), ("tool_invoke", None, None)]
        );
        assert_eq!(client.prompts().unwrap()[0].name, "one__greet");
        assert_eq!(client.resources().unwrap().len(), 1);
        let list = text(&client, "tool_list", json!({}));
        assert!(list.starts_with("one__echo: Says it again\none__fails\none__refuses\n"), "{list}");
        assert!(list.ends_with("one__logs\n\nTools 1 to 8 of 8."), "{list}");
        assert_eq!(
            text(&client, "tool_schema", json!({"names": ["one__echo"]})),
            r#"{"name":"one__echo","title":"Echo","description":"Says it again","inputSchema":{ "type":"object", "x-odd":[1.50,"é"], "properties":{"n":{"type":"integer"}} },"annotations":{"readOnlyHint":true}}"#
        );
        // The tools of the server cannot be called in another way.
        let hidden = client.call_tool("one__echo", json!({})).unwrap_err();
        assert_eq!((hidden.kind(), hidden.code()), (ErrorKind::Remote, Some(-32602)));
        assert!(proxy.hub.skipped().is_empty(), "{:?}", proxy.hub.skipped());
    });
}

#[test]
fn an_invoked_tool_behaves_as_a_called_one() {
    in_all_eras(|below, above| {
        let asked = Arc::new(AtomicUsize::new(0));
        let (received, logs) = mpsc::channel();
        let received = Mutex::new(received);
        let mut proxy = lazy(above);
        let client = answering(Arc::clone(&asked))
            .on_sample(|sampling| Ok(SampleResponse::new("m").text(sampling.max_tokens.to_string())))
            .roots([Root { uri: "file:///srv".into(), name: None }])
            .on_log(Level::Info, move |entry| drop(received.lock().unwrap().send(entry.logger.clone())));
        let client = proxy.connect(client, below);

        let output = invoke(&client, "one__echo", json!({"n": 5, "more": [1]}));
        assert_eq!(output.texts(), "one");
        assert_eq!(output.structured.unwrap().as_str(), r#"{"n":5,"more":[1]}"#);
        assert!(output.meta.unwrap().as_str().contains(r#""vendor/y":7"#));
        let broken = invoke(&client, "one__fails", json!({}));
        assert_eq!((broken.is_error, &*broken.texts()), (true, "it is broken"));
        let refused = client.call_tool("tool_invoke", json!({"name": "one__refuses"})).unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (ErrorKind::Remote, Some(77)));
        assert_eq!(refused.data().unwrap().as_str(), r#"{"why":"tuesday"}"#);

        assert_eq!(invoke(&client, "one__asks", json!({})).texts(), "Ada true");
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(invoke(&client, "one__knows", json!({})).texts(), "9 file:///srv");
        assert_eq!(invoke(&client, "one__logs", json!({})).texts(), "logged");
        assert_eq!(logs.recv_timeout(TIMEOUT).unwrap().as_deref(), Some("one/db"));

        let steps = Arc::new(Mutex::new(Vec::new()));
        let delivered = Arc::clone(&steps);
        let request = client.request_tool("tool_invoke", json!({"name": "one__steps"}));
        let output =
            request.on_progress(move |step| delivered.lock().unwrap().push(step.done)).wait().unwrap();
        assert_eq!(output.texts(), "stepped");
        assert_eq!(*steps.lock().unwrap(), [1.0, 2.0]);
        let call = client.request_tool("tool_invoke", json!({"name": "one__waits"})).start().unwrap();
        assert_eq!(proxy.ends.recv_timeout(TIMEOUT), Ok("begun"));
        call.cancel();
        assert_eq!(proxy.ends.recv_timeout(TIMEOUT), Ok("cancelled"));
    });
}

#[test]
fn errors_of_wrong_calls_contain_the_correction() {
    in_all_eras(|below, above| {
        let mut proxy = lazy(above);
        let client = proxy.connect(client(), below);
        for (tool, arguments, expected) in [
            (
                "tool_invoke",
                json!({"name": "ehco"}),
                "unknown tool \"ehco\"; nearest names: one__echo; tool_list lists all names",
            ),
            ("tool_invoke", json!({"name": "xyz"}), "unknown tool \"xyz\"; tool_list lists all names"),
            ("tool_invoke", json!({"arguments": {}}), "`name` must be the name of a tool"),
            ("tool_invoke", json!({"name": "one__echo", "arguments": []}), "`arguments` must be an object"),
            ("tool_invoke", json!({"name": "one__echo", "arguments": "n"}), "`arguments` must be an object"),
            (
                "tool_invoke",
                json!({"name": "one__echo", "n": 1}),
                "unknown argument \"n\"; expected `name`, `arguments`, which contains the arguments of the tool",
            ),
            ("tool_schema", json!({}), "`names` must be an array of 1 to 16 tool names"),
            ("tool_schema", json!({"names": []}), "`names` must be an array of 1 to 16 tool names"),
            ("tool_schema", json!({"names": [1]}), "`names` must be an array of 1 to 16 tool names"),
            ("tool_schema", json!({"name": "x"}), "unknown argument \"name\"; expected `names`"),
            (
                "tool_schema",
                json!({"names": ["one__wait", "y"]}),
                "unknown tool \"one__wait\"; nearest names: one__waits, one__fails; \
                 tool_list lists all names\nunknown tool \"y\"; tool_list lists all names",
            ),
            ("tool_list", json!({"page": 2}), "page 2 does not exist; the last page is 1"),
            ("tool_list", json!({"page": 0}), "`page` must be an integer from 1"),
            ("tool_list", json!({"query": 1}), "`query` must be a string"),
        ] {
            assert_eq!(error(&client, tool, arguments), expected);
        }
        // An object as text, and a single name, are unambiguous.
        let echo = invoke(&client, "one__echo", json!(r#"{"n": 7}"#));
        assert_eq!(echo.structured.unwrap().as_str(), r#"{"n": 7}"#);
        let schemas = text(&client, "tool_schema", json!({"names": "one__echo"}));
        assert!(schemas.starts_with(r#"{"name":"one__echo","#), "{schemas}");
        let output = client.call_tool("tool_schema", json!({"names": ["one__echo", "ecko"]})).unwrap();
        assert!(!output.is_error && output.content.len() == 2, "{output:?}");
        assert!(output.texts().contains("nearest names: one__echo"), "{output:?}");
    });
}

#[test]
fn a_list_has_pages_and_finds_words() {
    let mut tools: Vec<_> = (0..120).map(|n| (format!("tool_{n:03}"), format!("Number {n}"))).collect();
    tools.push(("mail_send".into(), "Sends a message".into()));
    tools.push(("mail_read".into(), "Reads messages, does not send".into()));
    tools.push(("post".into(), "Does SEND mail".into()));
    let (_hub, client) = described(tools);
    let first = text(&client, "tool_list", json!({}));
    assert!(first.starts_with("tool_000: Number 0\n"), "{first}");
    assert!(
        first.ends_with("tool_049: Number 49\n\nTools 1 to 50 of 123. The next ones are on page 2."),
        "{first}"
    );
    let last = text(&client, "tool_list", json!({"page": 3, "query": null}));
    assert!(last.ends_with("\n\nTools 101 to 123 of 123."), "{last}");
    // All words before some words, and names before descriptions.
    let found = text(&client, "tool_list", json!({"query": "send mail!"}));
    let names: Vec<_> = found.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    assert_eq!(names, ["mail_send", "mail_read", "post"]);
    let found = text(&client, "tool_list", json!({"query": "Tool", "page": 3}));
    assert!(found.ends_with("Tools 101 to 120 of 120."), "{found}");
    assert_eq!(
        text(&client, "tool_list", json!({"query": "psot"})),
        "No tool matches \"psot\"; nearest names: post."
    );
}

#[test]
fn texts_of_servers_are_bounded_and_have_no_control_characters() {
    let hidden = "Reads\u{1b}[31m a file\r\n\n\tand\u{7}more.\u{202e}\u{61c}\u{e0041}\u{e0101}".to_owned();
    let long = "word ".repeat(4000);
    let (_hub, client) =
        described(vec![("odd".into(), hidden), ("long".into(), long), ("bare".into(), String::new())]);
    let list = text(&client, "tool_list", json!({}));
    let cut = format!("long: {}…", "word ".repeat(24).get(..119).unwrap());
    assert_eq!(
        list.lines().collect::<Vec<_>>(),
        ["odd: Reads[31m a file andmore.", &cut, "bare", "", "Tools 1 to 3 of 3."]
    );
    let schemas = client.call_tool("tool_schema", json!({"names": ["odd", "long"]})).unwrap();
    let texts: Vec<&str> = schemas.content.iter().filter_map(|content| content.as_text()).collect();
    assert!(texts[0].contains(r#""description":"Reads[31m a file\n\n\tandmore.""#), "{texts:?}");
    assert!(texts[1].contains("…\"") && texts[1].len() < 9000, "{}", texts[1].len());
    // All schemas have at most 64 KiB.
    let many: Vec<_> = (0..16).map(|n| (format!("t{n}"), "x".repeat(9000))).collect();
    let names: Vec<String> = many.iter().map(|(name, _)| name.clone()).collect();
    let (_hub, client) = described(many);
    let schemas = text(&client, "tool_schema", json!({"names": (names)}));
    assert!(schemas.len() < (64 << 10) + 200, "{}", schemas.len());
    let omitted = "omitted because of the size, request them alone: t7, t8, t9, t10, t11, t12, t13, t14, t15";
    assert!(schemas.ends_with(omitted), "{}", &schemas[schemas.len() - 100..]);
}

#[test]
fn the_list_follows_the_servers() {
    in_all_eras(|below, above| {
        let mut proxy = lazy(above);
        let client = proxy.connect(client(), below);
        for handle in proxy.handles.lock().unwrap().iter() {
            handle.add_tool(Tool::new("late"), |_, _: Nothing| Ok("late")).unwrap();
        }
        let end = Instant::now() + TIMEOUT;
        while invoke(&client, "one__late", json!({})).is_error {
            assert!(Instant::now() < end, "not listed");
        }
        assert_eq!(invoke(&client, "one__late", json!({})).texts(), "late");
        proxy.hub.remove("one").unwrap();
        assert_eq!(text(&client, "tool_list", json!({})), "No tools are available.");
    });
}

#[test]
fn a_server_that_connects_is_reported_and_its_call_waits() {
    in_all_eras(|below, above| {
        let hub = builder().limits(limits()).build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        hub.export(&mut server).unwrap();
        let (open, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let connect = move |client: ClientBuilder| {
            // An error means that the test is over.
            let _ = gate.lock().unwrap().recv();
            let (theirs, ours) = memory_links();
            let mut server = Server::new("slow", "1.0.0");
            server.tool(Tool::new("t"), |_, _: Nothing| Ok("slow"))?;
            std::thread::spawn(move || server.serve(theirs));
            client.protocol(above).over(ours)
        };
        hub.add("slow", Upstream::from_fn(connect)).unwrap();
        let (theirs, ours) = memory_links();
        std::thread::spawn(move || server.serve(theirs));
        let client = client().protocol(below).limits(limits()).over(ours).unwrap();
        assert_eq!(
            text(&client, "tool_list", json!({})),
            "No tools are available.\nTools of these servers are missing:\nslow: connecting"
        );
        assert_eq!(
            error(&client, "tool_schema", json!({"names": ["slow__t"]})),
            "\"slow__t\" is not listed: the server \"slow\" is connecting, being listed or down; try again later"
        );
        assert_eq!(client.call_tool("slow__t", json!({})).unwrap_err().code(), Some(-32602));
        let call = client.request_tool("tool_invoke", json!({"name": "slow__t"})).start().unwrap();
        open.send(()).unwrap();
        assert_eq!(call.wait().unwrap().texts(), "slow");
    });
}

/// A scripted server whose list of tools fails.
fn without_list(era: Protocol) -> Upstream {
    Upstream::from_fn(move |client| {
        let (link, end) = memory();
        std::thread::spawn(move || {
            while let Some(line) = end.receive(TIMEOUT) {
                let message: serde_json::Value = serde_json::from_str(&line).unwrap();
                let (id, offer) = (&message["id"], r#""capabilities":{"tools":{}}"#);
                let outcome = match message["method"].as_str() {
                    Some("initialize") => format!(
                        r#""result":{{"protocolVersion":"2025-11-25","serverInfo":{{"name":"x","version":"1"}},{offer}}}"#
                    ),
                    Some("server/discover") => format!(
                        r#""result":{{"resultType":"complete","supportedVersions":["2026-07-28"],{offer}}}"#
                    ),
                    Some("tools/list") => r#""error":{"code":-32603,"message":"disk\nfull"}"#.to_owned(),
                    _ => continue,
                };
                end.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
            }
        });
        client.protocol(era).over(link)
    })
}

#[test]
fn the_list_names_servers_whose_lists_failed_or_that_are_down_with_the_reason() {
    in_all_eras(|below, above| {
        let hub = builder().limits(limits()).build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        hub.export(&mut server).unwrap();
        hub.add("broken", without_list(above)).unwrap();
        hub.add("gone", Upstream::from_fn(|_| Err(tinymcp::Error::new(ErrorKind::Io, "no such program"))))
            .unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        let (theirs, ours) = memory_links();
        std::thread::spawn(move || server.serve(theirs));
        let client = client().protocol(below).limits(limits()).over(ours).unwrap();
        let list = text(&client, "tool_list", json!({}));
        let lines: Vec<&str> = list.lines().skip(1).collect();
        assert_eq!(lines[0], "Tools of these servers are missing:", "{list}");
        assert!(
            lines[1].starts_with("broken: the list failed: ") && lines[1].contains("disk full"),
            "{list}"
        );
        assert_eq!(&lines[2..], ["gone: down: no such program"], "{list}");
    });
}

#[test]
fn a_tool_of_the_server_with_one_of_the_names_is_an_error() {
    let hub = builder().build().unwrap();
    let mut server = Server::new("proxy", "1.0.0");
    server.tool(Tool::new("tool_schema"), |_, _: Nothing| Ok("mine")).unwrap();
    let error = hub.export(&mut server).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("\"tool_schema\""), "{error}");
}
