//! Requests for what a server did not declare: never sent, refused with an error that names the capability.

use serde_json::{Value, json};
use tinymcp::{Client, CompletionTarget, Error, ErrorKind, Protocol, json as ours};

use super::played::{Played, call, connected, ok, plain};

/// A client of a server with these capabilities.
fn declaring(era: Protocol, capabilities: Value) -> (Client, Played) {
    let (link, played) = Played::new();
    let greeting = std::thread::spawn(move || {
        let message = played.hear();
        let mut result = match era {
            Protocol::Session => {
                json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "p", "version": "1"}})
            }
            Protocol::Stateless => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"]}),
        };
        result["capabilities"] = capabilities;
        played.answer(&message["id"], result);
        if era == Protocol::Session {
            assert_eq!(played.hear()["method"], "notifications/initialized");
        }
        played
    });
    let client = plain().protocol(era).over(link).unwrap();
    (client, greeting.join().unwrap())
}

#[test]
fn what_a_server_did_not_declare_is_not_asked_for() {
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
        let (client, played) = declaring(era, json!({}));
        for (capability, ask) in table {
            let error = ask(&client).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PeerIncompatible, "{capability}: {error}");
            assert!(error.to_string().contains(&format!("`{capability}`")), "{capability}: {error}");
        }
        // Nothing of it was sent: this is the next message.
        let asking = {
            let client = client.clone();
            std::thread::spawn(move || client.request("vendor/anything", ours!({})))
        };
        let id = played.asked("vendor/anything");
        played.answer(&id, json!({}));
        asking.join().unwrap().unwrap();
    }
}

#[test]
fn a_declared_list_that_the_server_does_not_have_is_empty() {
    for era in [Protocol::Session, Protocol::Stateless] {
        let (client, played) = declaring(era, json!({"resources": {}, "tools": {}}));
        let listing = {
            let client = client.clone();
            std::thread::spawn(move || client.templates())
        };
        let id = played.asked("resources/templates/list");
        played.refuse(&id, -32601, "Method not found");
        assert_eq!(listing.join().unwrap().unwrap().len(), 0, "{era:?}");
    }
}

#[test]
fn a_server_that_did_not_describe_itself_may_be_asked_anything() {
    let (link, played) = Played::new();
    let greeting = std::thread::spawn(move || {
        let id = played.asked("server/discover");
        let data = json!({"supported": ["2026-07-28"], "requested": "x"});
        played.say(json!({"jsonrpc": "2.0", "id": id,
            "error": {"code": -32022, "message": "no", "data": data}}));
        played
    });
    let client = plain().over(link).unwrap();
    let played = greeting.join().unwrap();
    let calling = call(&client, "t");
    let id = played.asked("tools/call");
    played.answer(&id, ok());
    calling.join().unwrap().unwrap();
}

#[test]
fn what_the_server_asks_for_is_named_in_the_refusal() {
    let (_client, played) = connected(plain(), Protocol::Session);
    for (method, params, named) in [
        ("roots/list", json!({}), "roots/list"),
        ("sampling/createMessage", json!({"messages": [], "maxTokens": 1}), "sampling/createMessage"),
        ("no/such", json!({}), "no/such"),
    ] {
        played.say(json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params}));
        let heard = played.hear();
        assert_eq!(heard["error"]["code"], -32601, "{heard}");
        assert_eq!(heard["error"]["message"], format!("Method not found: {named}"));
    }
    let (client, played) = connected(plain().on_form(|_| Err("no".into())), Protocol::Stateless);
    let calling = call(&client, "t");
    let id = played.asked("tools/call");
    let url = json!({"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a.b/", "elicitationId": "e"}});
    played.answer(
        &id,
        json!({"resultType": "input_required", "inputRequests": {"q": url}, "requestState": "s"}),
    );
    let error = calling.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("`elicitation.url`"), "{error}");
}

#[test]
fn updates_of_foreign_subscriptions_are_not_delivered() {
    let (tell, told) = std::sync::mpsc::channel();
    let builder = plain().on_change(move |change| tell.send(change.clone()).unwrap());
    let (link, played) = Played::new();
    let serving = std::thread::spawn(move || {
        played.greet_modern();
        for _ in 0..2 {
            let message = played.hear();
            assert_eq!(message["method"], "subscriptions/listen");
            let id = message["id"].clone();
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
            played.say(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"notifications": message["params"]["notifications"], "_meta": meta}}));
            if message["params"]["notifications"]["resourceSubscriptions"][0] == "test://a" {
                return (played, id);
            }
        }
        panic!("the resource is never subscribed to");
    });
    let client = builder.protocol(Protocol::Stateless).over(link).unwrap();
    client.subscribe("test://a").unwrap();
    let (played, id) = serving.join().unwrap();
    let update = |meta: Value, uri: &str| {
        played.say(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
            "params": {"uri": uri, "_meta": meta}}));
    };
    let subscription = |id: Value| json!({"io.modelcontextprotocol/subscriptionId": id});
    update(json!({}), "test://a");
    update(subscription(json!(9999)), "test://a");
    update(subscription(json!(id.to_string())), "test://a");
    update(subscription(json!(null)), "test://a");
    update(subscription(id.clone()), "test://foreign");
    played.say(
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "test://a"}}),
    );
    played.say(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    update(subscription(id), "test://a");
    let first = told.recv_timeout(super::played::SOON).unwrap();
    assert_eq!(first, tinymcp::Change::Updated("test://a".into()));
    assert!(told.try_recv().is_err(), "delivered once");
    assert_eq!(client.stats().late, 7);
}
