//! Requests that need an undeclared capability are never sent; the error names the capability.

use serde_json::{Value, json};
use tinymcp::{Client, CompletionTarget, Error, ErrorKind, Protocol, json as ours};

use super::scripted::{ScriptedPeer, call, connected, ok, plain};

/// A client of a server with these capabilities.
fn declaring(era: Protocol, capabilities: Value) -> (Client, ScriptedPeer) {
    let (link, scripted) = ScriptedPeer::new();
    let greeting = std::thread::spawn(move || {
        let message = scripted.receive();
        let mut result = match era {
            Protocol::Session => {
                json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "p", "version": "1"}})
            }
            Protocol::Stateless => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"]}),
        };
        result["capabilities"] = capabilities;
        scripted.answer(&message["id"], result);
        if era == Protocol::Session {
            assert_eq!(scripted.receive()["method"], "notifications/initialized");
        }
        scripted
    });
    let client = plain().protocol(era).over(link).unwrap();
    (client, greeting.join().unwrap())
}

#[test]
fn undeclared_capabilities_are_not_requested() {
    type Ask = fn(&Client) -> Result<(), Error>;
    let table: [(&str, Ask); 14] = [
        ("tools", |c| c.tools().map(drop)),
        ("tools", |c| c.call_tool("t", ours!({})).map(drop)),
        ("resources", |c| c.resources().map(drop)),
        ("resources", |c| c.templates().map(drop)),
        ("resources", |c| c.read_resource("a:b").map(drop)),
        ("resources.subscribe", |c| c.subscribe("a:b")),
        ("prompts", |c| c.prompts().map(drop)),
        ("prompts", |c| c.prompt("p", &[]).map(drop)),
        ("completions", |c| c.complete(CompletionTarget::Prompt("p"), "a", "", &[]).map(drop)),
        ("prompts", |c| c.request("prompts/list", ours!({})).map(drop)),
        ("tools", |c| c.request("tools/call", ours!({"name": "t"})).map(drop)),
        ("logging", |c| c.request("logging/setLevel", ours!({"level": "info"})).map(drop)),
        ("resources.subscribe", |c| c.request("resources/subscribe", ours!({"uri": "a:b"})).map(drop)),
        ("completions", |c| c.request("completion/complete", ours!({})).map(drop)),
    ];
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, scripted) = declaring(era, json!({}));
        for (capability, ask) in table {
            let error = ask(&client).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PeerIncompatible, "{capability}: {error}");
            assert!(error.to_string().contains(&format!("`{capability}`")), "{capability}: {error}");
        }
        // The request was not sent: this is the next message.
        let asking = {
            let client = client.clone();
            std::thread::spawn(move || client.request("vendor/anything", ours!({})))
        };
        let id = scripted.asked("vendor/anything");
        scripted.answer(&id, json!({}));
        asking.join().unwrap().unwrap();
    }
}

#[test]
fn a_declared_list_that_the_server_does_not_have_is_empty() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, scripted) = declaring(era, json!({"resources": {}, "tools": {}}));
        let listing = {
            let client = client.clone();
            std::thread::spawn(move || client.templates())
        };
        let id = scripted.asked("resources/templates/list");
        scripted.refuse(&id, -32601, "Method not found");
        assert_eq!(listing.join().unwrap().unwrap().len(), 0, "{era:?}");
    }
}

#[test]
fn a_server_without_a_description_gets_every_request() {
    let (link, scripted) = ScriptedPeer::new();
    let greeting = std::thread::spawn(move || {
        let id = scripted.asked("server/discover");
        let data = json!({"supported": ["2026-07-28"], "requested": "x"});
        scripted.say(json!({"jsonrpc": "2.0", "id": id,
            "error": {"code": -32022, "message": "no", "data": data}}));
        scripted
    });
    let client = plain().over(link).unwrap();
    let scripted = greeting.join().unwrap();
    let calling = call(&client, "t");
    let id = scripted.asked("tools/call");
    scripted.answer(&id, ok());
    calling.join().unwrap().unwrap();
}

#[test]
fn a_rejection_names_the_request() {
    let (_client, scripted) = connected(plain(), Protocol::Session);
    for (method, params, named) in [
        ("roots/list", json!({}), "roots/list"),
        ("sampling/createMessage", json!({"messages": [], "maxTokens": 1}), "sampling/createMessage"),
        ("no/such", json!({}), "no/such"),
    ] {
        scripted.say(json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params}));
        let received = scripted.receive();
        assert_eq!(received["error"]["code"], -32601, "{received}");
        assert_eq!(received["error"]["message"], format!("Method not found: {named}"));
    }
    let (client, scripted) = connected(plain().on_elicit(|_| Err("no".into())), Protocol::Stateless);
    let calling = call(&client, "t");
    let id = scripted.asked("tools/call");
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a.b/", "elicitationId": "e"}});
    scripted.answer(
        &id,
        json!({"resultType": "input_required", "inputRequests": {"q": url}, "requestState": "s"}),
    );
    let error = calling.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("`elicitation.url`"), "{error}");
}

#[test]
fn updates_of_foreign_subscriptions_are_not_delivered() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let builder = plain().on_change(move |change| sender.send(change.clone()).unwrap());
    let (link, scripted) = ScriptedPeer::new();
    let serving = std::thread::spawn(move || {
        scripted.greet_modern();
        for _ in 0..2 {
            let message = scripted.receive();
            assert_eq!(message["method"], "subscriptions/listen");
            let id = message["id"].clone();
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
            scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": message["params"]["notifications"], "_meta": meta}}));
            if message["params"]["notifications"]["resourceSubscriptions"][0] == "test://a" {
                return (scripted, id);
            }
        }
        panic!("the resource is never subscribed to");
    });
    let client = builder.protocol(Protocol::Stateless).over(link).unwrap();
    client.subscribe("test://a").unwrap();
    let (scripted, id) = serving.join().unwrap();
    let update = |meta: Value, uri: &str| {
        scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
            "params": {"uri": uri, "_meta": meta}}));
    };
    let subscription = |id: Value| json!({"io.modelcontextprotocol/subscriptionId": id});
    update(json!({}), "test://a");
    update(subscription(json!(9999)), "test://a");
    update(subscription(json!(id.to_string())), "test://a");
    update(subscription(json!(null)), "test://a");
    update(subscription(id.clone()), "test://foreign");
    scripted.say(
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "test://a"}}),
    );
    scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    update(subscription(id), "test://a");
    let first = receiver.recv_timeout(super::scripted::TIMEOUT).unwrap();
    assert_eq!(first, tinymcp::Change::ResourceUpdated("test://a".into()));
    assert!(receiver.try_recv().is_err(), "delivered once");
    assert_eq!(client.stats().late, 7);
}
