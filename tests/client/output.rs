//! Structured results and the output schemas of their tools: checked if the schema is known.

use std::sync::mpsc;

use serde_json::{Value, json};
use tinymcp::{Change, Client, ClientBuilder, Error, ErrorKind, Protocol, ToolOutput, json as ours};

use super::scripted::{ScriptedPeer, TIMEOUT, connected, plain};

fn tool(name: &str, schema: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema})
}

fn number() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
}

/// Lets the client read this list of tools.
fn list(client: &Client, scripted: &ScriptedPeer, tools: Value) {
    let listing = std::thread::spawn({
        let client = client.clone();
        move || client.tools().unwrap()
    });
    let id = scripted.asked("tools/list");
    scripted.answer(&id, json!({"resultType": "complete", "tools": tools}));
    listing.join().unwrap();
}

fn call(client: &Client, scripted: &ScriptedPeer, result: Value) -> Result<ToolOutput, Error> {
    let calling = std::thread::spawn({
        let client = client.clone();
        move || client.call_tool("t", ours!({}))
    });
    let id = scripted.asked("tools/call");
    scripted.answer(&id, result);
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

fn both(builder: impl Fn() -> ClientBuilder, test: impl Fn(&Client, &ScriptedPeer)) {
    for era in [Protocol::Stateless, Protocol::Session] {
        let (client, scripted) = connected(builder(), era);
        test(&client, &scripted);
    }
}

#[test]
fn a_result_that_violates_its_output_schema_is_an_error() {
    both(plain, |client, scripted| {
        // No schema is known yet.
        assert!(call(client, scripted, structured(json!({"n": "x"}))).is_ok());
        list(client, scripted, json!([tool("t", number()), tool("u", json!(false))]));
        assert!(call(client, scripted, structured(json!({"n": 1}))).is_ok());
        refused(call(client, scripted, structured(json!({"n": "x"}))), "\"/n\"");
        refused(call(client, scripted, structured(json!({}))), "n");
        refused(
            call(client, scripted, json!({"resultType": "complete", "content": []})),
            "no structuredContent",
        );
        // The result of a failed tool need not match it.
        assert!(
            call(client, scripted, json!({"resultType": "complete", "content": [], "isError": true})).is_ok()
        );
    });
}

#[test]
fn the_newest_list_counts_and_a_change_of_the_tools_ends_it() {
    let (sender, received) = mpsc::channel();
    let builder = plain().on_change(move |change: &Change| sender.send(change.clone()).unwrap());
    let (client, scripted) = connected(builder, Protocol::Session);
    list(&client, &scripted, json!([tool("t", number())]));
    refused(call(&client, &scripted, structured(json!({"n": "x"}))), "\"/n\"");
    list(&client, &scripted, json!([tool("t", json!({"type": "object"}))]));
    assert!(call(&client, &scripted, structured(json!({"n": "x"}))).is_ok());
    list(&client, &scripted, json!([{"name": "t", "inputSchema": {"type": "object"}}]));
    assert!(call(&client, &scripted, json!({"content": []})).is_ok());
    list(&client, &scripted, json!([tool("t", number())]));
    scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    assert_eq!(received.recv_timeout(TIMEOUT).unwrap(), Change::Tools);
    assert!(call(&client, &scripted, structured(json!({"n": "x"}))).is_ok());
}

#[test]
fn a_result_without_a_usable_schema_is_accepted() {
    let unusable = [
        json!({"type": 7}),
        json!({"$ref": "https://example.org/elsewhere"}),
        json!({"$schema": "https://example.org/dialect"}),
    ];
    both(plain, |client, scripted| {
        for schema in &unusable {
            list(client, scripted, json!([tool("t", schema.clone())]));
            for _ in 0..2 {
                assert!(call(client, scripted, structured(json!({"n": "x"}))).is_ok());
            }
        }
    });
    let mut limits = tinymcp::Limits::default();
    limits.client.cache_bytes = 200;
    let (client, scripted) = connected(plain().limits(limits), Protocol::Session);
    let mut long = number();
    long["description"] = json!("x".repeat(200));
    list(&client, &scripted, json!([tool("t", long)]));
    assert!(call(&client, &scripted, structured(json!({"n": "x"}))).is_ok());
}

#[test]
fn a_check_costs_no_more_than_its_limits() {
    let mut limits = tinymcp::Limits::default();
    limits.schema.steps = 100;
    limits.schema.steps_per_byte = 0;
    let (client, scripted) = connected(plain().limits(limits), Protocol::Stateless);
    list(&client, &scripted, json!([tool("t", json!({"items": {"type": "integer"}}))]));
    assert!(call(&client, &scripted, structured(json!([1, 2, 3]))).is_ok());
    let many: Vec<u32> = (0..1000).collect();
    refused(call(&client, &scripted, structured(json!(many))), "steps");
}

#[test]
fn checks_of_results_can_be_turned_off() {
    both(
        || plain().unchecked_results(),
        |client, scripted| {
            list(client, scripted, json!([tool("t", number())]));
            assert!(call(client, scripted, structured(json!({"n": "x"}))).is_ok());
        },
    );
}
