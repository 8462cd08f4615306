//! Structured results and what their tools promise of them: checked where the schema is known.

use std::sync::mpsc;

use serde_json::{Value, json};
use tinymcp::{Change, Client, ClientBuilder, Error, ErrorKind, Protocol, ToolOutput, json as ours};

use super::played::{Played, SOON, connected, plain};

fn tool(name: &str, schema: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema})
}

fn number() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

/// Has the client read this list of tools.
fn list(client: &Client, played: &Played, tools: Value) {
    let listing = std::thread::spawn({
        let client = client.clone();
        move || client.tools().unwrap()
    });
    let id = played.asked("tools/list");
    played.answer(&id, json!({"resultType": "complete", "tools": tools}));
    listing.join().unwrap();
}

fn call(client: &Client, played: &Played, result: Value) -> Result<ToolOutput, Error> {
    let calling = std::thread::spawn({
        let client = client.clone();
        move || client.call_tool("t", ours!({}))
    });
    let id = played.asked("tools/call");
    played.answer(&id, result);
    calling.join().unwrap()
}

fn structured(value: Value) -> Value {
    json!({"resultType": "complete", "content": [], "structuredContent": value})
}

fn refused(outcome: Result<ToolOutput, Error>, part: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PeerMisbehaved);
    assert!(error.to_string().contains(part), "{error}");
}

fn both(builder: impl Fn() -> ClientBuilder, test: impl Fn(&Client, &Played)) {
    for era in [Protocol::Stateless, Protocol::Session] {
        let (client, played) = connected(builder(), era);
        test(&client, &played);
    }
}

#[test]
fn a_result_that_breaks_its_tools_promise_is_an_error() {
    both(plain, |client, played| {
        // Nothing is known yet.
        assert!(call(client, played, structured(json!({"n": "x"}))).is_ok());
        list(client, played, json!([tool("t", number()), tool("u", json!(false))]));
        assert!(call(client, played, structured(json!({"n": 1}))).is_ok());
        refused(call(client, played, structured(json!({"n": "x"}))), "\"/n\"");
        refused(call(client, played, structured(json!({}))), "n");
        refused(
            call(client, played, json!({"resultType": "complete", "content": []})),
            "no structuredContent",
        );
        // A tool that failed need not keep it.
        assert!(
            call(client, played, json!({"resultType": "complete", "content": [], "isError": true})).is_ok()
        );
    });
}

#[test]
fn the_newest_list_counts_and_a_change_of_the_tools_ends_it() {
    let (tell, told) = mpsc::channel();
    let builder = plain().on_change(move |change: &Change| tell.send(change.clone()).unwrap());
    let (client, played) = connected(builder, Protocol::Session);
    list(&client, &played, json!([tool("t", number())]));
    refused(call(&client, &played, structured(json!({"n": "x"}))), "\"/n\"");
    list(&client, &played, json!([tool("t", json!({"type": "object"}))]));
    assert!(call(&client, &played, structured(json!({"n": "x"}))).is_ok());
    list(&client, &played, json!([{"name": "t", "inputSchema": {"type": "object"}}]));
    assert!(call(&client, &played, json!({"content": []})).is_ok());
    list(&client, &played, json!([tool("t", number())]));
    played.say(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    assert_eq!(told.recv_timeout(SOON).unwrap(), Change::Tools);
    assert!(call(&client, &played, structured(json!({"n": "x"}))).is_ok());
}

#[test]
fn what_cannot_be_checked_is_believed() {
    let unusable = [
        json!({"type": 7}),
        json!({"$ref": "https://example.org/elsewhere"}),
        json!({"$schema": "https://example.org/dialect"}),
    ];
    both(plain, |client, played| {
        for schema in &unusable {
            list(client, played, json!([tool("t", schema.clone())]));
            for _ in 0..2 {
                assert!(call(client, played, structured(json!({"n": "x"}))).is_ok());
            }
        }
    });
    let mut limits = tinymcp::Limits::default();
    limits.cache_bytes = 200;
    let (client, played) = connected(plain().limits(limits), Protocol::Session);
    let mut long = number();
    long["description"] = json!("x".repeat(200));
    list(&client, &played, json!([tool("t", long)]));
    assert!(call(&client, &played, structured(json!({"n": "x"}))).is_ok());
}

#[test]
fn a_check_costs_no_more_than_its_limits() {
    let mut limits = tinymcp::Limits::default();
    limits.schema.steps = 100;
    limits.schema.steps_per_byte = 0;
    let (client, played) = connected(plain().limits(limits), Protocol::Stateless);
    list(&client, &played, json!([tool("t", json!({"items": {"type": "integer"}}))]));
    assert!(call(&client, &played, structured(json!([1, 2, 3]))).is_ok());
    let many: Vec<u32> = (0..1000).collect();
    refused(call(&client, &played, structured(json!(many))), "steps");
}

#[test]
fn who_wants_no_checks_has_none() {
    both(
        || plain().unchecked_results(),
        |client, played| {
            list(client, played, json!([tool("t", number())]));
            assert!(call(client, played, structured(json!({"n": "x"}))).is_ok());
        },
    );
}
