//! Promises of README and manual without another test.

use std::cell::Cell;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use tinymcp::json::Json;
use tinymcp::{Limits, MemoryEnd, Server, Tool, memory};

/// Timeout of one response; only a server that hangs reaches it.
const TIMEOUT: Duration = Duration::from_secs(20);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

fn call(tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

/// Sends one message and returns the response.
fn exchange(client: &MemoryEnd, message: &str) -> String {
    assert!(client.send(message), "the server has ended");
    client.receive(TIMEOUT).expect("no response")
}

#[test]
fn inline_tools_run_on_the_reader_thread_and_pooled_tools_do_not() {
    fn name() -> String {
        format!("{:?} {:?}", thread::current().name(), thread::current().id())
    }
    let (link, mut client) = memory();
    let mut server = Server::new("threads", "1");
    server.inline_tool(Tool::new("inline"), |_, (): ()| Ok(name())).unwrap();
    server.tool(Tool::new("pooled"), |_, (): ()| Ok(name())).unwrap();
    let serving = thread::spawn(move || server.serve(link));
    exchange(&client, INITIALIZE);
    let first = exchange(&client, &call("inline", "{}"));
    let pooled = exchange(&client, &call("pooled", "{}"));
    assert_ne!(first, pooled);
    for _ in 0..50 {
        assert_eq!(exchange(&client, &call("inline", "{}")), first);
    }
    client.finish();
    serving.join().unwrap().unwrap();
}

#[test]
fn a_local_server_accepts_handlers_that_are_not_send() {
    let (link, mut client) = memory();
    let serving = thread::spawn(move || {
        let mut server = Server::new("local", "1").into_local();
        let count = Rc::new(Cell::new(0));
        let shared = Rc::clone(&count);
        server
            .inline_tool(Tool::new("count"), move |_, (): ()| {
                shared.set(shared.get() + 1);
                Ok(shared.get().to_string())
            })
            .unwrap();
        server.serve(link).unwrap();
        count.get()
    });
    exchange(&client, INITIALIZE);
    for n in 1..=3 {
        let answer = exchange(&client, &call("count", "{}"));
        assert!(answer.contains(&format!(r#""text":"{n}""#)), "{answer}");
    }
    client.finish();
    assert_eq!(serving.join().unwrap(), 3);
}

#[test]
fn one_worker_produces_the_same_bytes_for_the_same_input() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let stateless = [
        format!(r#"{{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{{{meta}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":"l","method":"tools/list","params":{{{meta}}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{{"name":"pooled","arguments":{{"b":1,"a":2}},{meta}}}}}"#
        ),
    ];
    let conversation = || -> Vec<String> {
        let (link, mut client) = memory();
        let mut server = Server::new("bytes", "1");
        let mut limits = Limits::default();
        limits.workers = 1;
        server.limits(limits);
        server.tool(Tool::new("pooled").read_only(), |_, arguments: Json| Ok(arguments)).unwrap();
        server.tool(Tool::new("second"), |_, (): ()| Ok("")).unwrap();
        let serving = thread::spawn(move || server.serve(link));
        let session = [
            INITIALIZE.to_owned(),
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#.to_owned(),
            call("pooled", r#"{"b":[1.0,2],"a":"\u0041","c":null}"#),
            call("none", "{}"),
            "not JSON".to_owned(),
        ];
        let answers = session.iter().chain(&stateless).map(|message| exchange(&client, message)).collect();
        client.finish();
        serving.join().unwrap().unwrap();
        answers
    };
    let first = conversation();
    assert_eq!(first.len(), 8);
    for _ in 0..10 {
        assert_eq!(conversation(), first);
    }
}

#[cfg(feature = "pattern")]
#[test]
fn a_nul_character_does_not_bypass_a_schema() {
    let schema = r#"{"type":"object","properties":{"word":{"type":"string","pattern":"^[a-z]+$"},
        "mail":{"type":"string","format":"email"}},"additionalProperties":false}"#;
    let (link, mut client) = memory();
    let mut server = Server::new("nul", "1");
    let tool = Tool::new("t").input_schema(Json::parse(schema).unwrap());
    server.tool(tool, |_, arguments: Json| Ok(arguments.as_str().to_owned())).unwrap();
    let serving = thread::spawn(move || server.serve(link));
    exchange(&client, INITIALIZE);
    for (arguments, keyword) in [
        (r#"{"word":"abc\u0000DEF"}"#, "pattern"),
        (r#"{"mail":"a@example.org\u0000"}"#, "format"),
        (r#"{"word\u0000":"abc"}"#, "additionalProperties"),
    ] {
        let answer = exchange(&client, &call("t", arguments));
        assert!(answer.contains(r#""isError":true"#) && answer.contains(keyword), "{answer}");
    }
    let good = exchange(&client, &call("t", r#"{"word":"abc","mail":"a@example.org"}"#));
    assert!(!good.contains("isError"), "{good}");
    client.finish();
    serving.join().unwrap().unwrap();
}

#[cfg(feature = "schema")]
#[test]
fn keywords_next_to_a_reference_apply_and_pointers_are_decoded() {
    let schema = r##"{"type":"object","properties":{"n":{"$ref":"#/$defs/a~1b~0c%25","maximum":9}},
        "$defs":{"a/b~c%":{"type":"integer"}}}"##;
    let (link, mut client) = memory();
    let mut server = Server::new("refs", "1");
    let tool = Tool::new("t").input_schema(Json::parse(schema).unwrap());
    server.tool(tool, |_, arguments: Json| Ok(arguments.as_str().to_owned())).unwrap();
    let serving = thread::spawn(move || server.serve(link));
    exchange(&client, INITIALIZE);
    for (arguments, keyword) in [(r#"{"n":10}"#, "maximum"), (r#"{"n":"9"}"#, "type")] {
        let answer = exchange(&client, &call("t", arguments));
        assert!(answer.contains(r#""isError":true"#) && answer.contains(keyword), "{answer}");
    }
    assert!(!exchange(&client, &call("t", r#"{"n":9}"#)).contains("isError"));
    client.finish();
    serving.join().unwrap().unwrap();
}

#[cfg(feature = "http-server")]
#[test]
fn an_address_without_a_host_is_rejected() {
    for address in [":0", "0", ""] {
        let error = Server::new("http", "1").http().bind(address).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), tinymcp::ErrorKind::Invalid, "{address:?}: {error}");
    }
}
