//! Requests of a server to the client: in a session, during a call, and with responses by the program.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{
    Content, ElicitAction, ElicitResponse, ErrorKind, Outcome, Protocol, Root, SampleResponse, SamplingBlock,
    json as ours,
};

use super::in_time::in_time;
use super::scripted::{ScriptedPeer, call, connected, holding, meta, ok, plain};

#[test]
fn the_handlers_of_a_client_determine_its_capabilities() {
    let builder = || {
        plain()
            .on_elicit(|_| Ok(ElicitResponse::cancel()))
            .on_elicit_url(|_| Ok(ElicitAction::Decline))
            .on_sample_with_tools(|_| Ok(SampleResponse::new("m").text("t")))
            .roots([Root { uri: "file:///x".into(), name: None }])
    };
    let (client, scripted) = connected(builder(), Protocol::Stateless);
    let calling = call(&client, "t");
    let message = scripted.receive();
    let all = json!({"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}});
    assert_eq!(message["params"]["_meta"], meta(all));
    scripted.answer(&message["id"], ok());
    calling.join().unwrap().unwrap();
    let (link, scripted) = ScriptedPeer::new();
    let connecting = std::thread::spawn(move || builder().protocol(Protocol::Session).over(link));
    let message = scripted.receive();
    assert_eq!(
        message["params"]["capabilities"],
        json!({"roots": {"listChanged": true}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}})
    );
    drop(scripted);
    assert!(connecting.join().unwrap().is_err());
}

#[test]
fn a_session_sends_requests_and_gets_responses() {
    let builder = plain()
        .on_elicit(|form| {
            assert_eq!((form.message.as_str(), form.fields.len()), ("Who?", 2));
            Ok(ElicitResponse::accept(ours!({"name": "Ada"})))
        })
        .roots([Root { uri: "file:///x".into(), name: Some("x".into()) }])
        .on_sample(|sampling| match sampling.max_tokens {
            9 => Ok(SampleResponse::new("m1").text("Teal").stop_reason("endTurn")),
            _ => Err("not today".into()),
        });
    let (_client, scripted) = connected(builder, Protocol::Session);
    let form = json!({"message": "Who?", "requestedSchema": {"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 7}}}});
    let model = |tokens| json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": tokens});
    for (method, params, answer) in [
        (
            "elicitation/create",
            form.clone(),
            json!({"result": {"action": "accept", "content": {"name": "Ada", "n": 7}}}),
        ),
        ("roots/list", Value::Null, json!({"result": {"roots": [{"uri": "file:///x", "name": "x"}]}})),
        (
            "sampling/createMessage",
            model(9),
            json!({"result": {"role": "assistant", "content": {"type": "text", "text": "Teal"}, "model": "m1", "stopReason": "endTurn"}}),
        ),
        ("sampling/createMessage", model(8), json!({"error": {"code": -1, "message": "not today"}})),
        (
            "elicitation/create",
            json!({"mode": "url", "message": "m", "url": "https://x"}),
            json!({"error": {"code": -32602, "message": "The client does not declare the capability elicitation.url"}}),
        ),
        (
            "elicitation/create",
            json!({"message": "m"}),
            json!({"error": {"code": -32602, "message": "requestedSchema is not a valid form"}}),
        ),
        ("no/such", json!({}), json!({"error": {"code": -32601, "message": "Method not found: no/such"}})),
        ("ping", Value::Null, json!({"result": {}})),
    ] {
        let mut message = json!({"jsonrpc": "2.0", "id": "s-1", "method": method, "params": params});
        if params.is_null() {
            message.as_object_mut().unwrap().remove("params");
        }
        scripted.say(message);
        let mut expected = answer;
        expected["jsonrpc"] = json!("2.0");
        expected["id"] = json!("s-1");
        assert_eq!(scripted.receive(), expected, "{method}");
    }
}

#[test]
fn a_response_with_reserved_metadata_is_not_sent() {
    let builder = || {
        plain().on_sample(|_| {
            let content = Box::new(Content::text("Teal"));
            let block =
                Content::Annotated { content, annotations: None, meta: Some(ours!({"dev.mcp/x": 1})) };
            Ok(SampleResponse::new("m").block(SamplingBlock::ToolResult {
                id: "u".into(),
                content: vec![Content::text("x"), block],
                is_error: false,
            }))
        })
    };
    let question =
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 9});
    let (_client, scripted) = connected(builder(), Protocol::Session);
    scripted.say(json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": question}));
    let error = json!({"code": -32603, "message": "The handler of the client returned an invalid result"});
    assert_eq!(scripted.receive(), json!({"jsonrpc": "2.0", "id": 1, "error": error}));

    let (client, scripted) = connected(builder(), Protocol::Stateless);
    let calling = call(&client, "t");
    let questions = json!({"q": {"method": "sampling/createMessage", "params": question}});
    let id = scripted.asked("tools/call");
    scripted.answer(&id, json!({"resultType": "input_required", "inputRequests": questions}));
    let error = calling.join().unwrap().unwrap_err();
    let why = "invalid result of the handler: \
        the _meta of a block has a member \"dev.mcp/x\", whose prefix is reserved for the protocol";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, why));
}

#[test]
fn requests_without_a_handler_are_rejected() {
    let (_client, scripted) = connected(plain(), Protocol::Session);
    for method in ["roots/list", "sampling/createMessage", "elicitation/create"] {
        scripted.say(json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": {"message": "m", "maxTokens": 1, "messages": [],
            "requestedSchema": {"type": "object", "properties": {}}}}));
        let answer = scripted.receive();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32601)), "{method}");
    }
}

#[test]
fn a_cancelled_request_of_the_server_gets_no_response() {
    let (hold, held) = holding();
    let builder = plain().on_elicit(move |_| {
        hold(());
        Ok(ElicitResponse::decline())
    });
    let (_client, scripted) = connected(builder, Protocol::Session);
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    scripted.say(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form}));
    held.begun();
    scripted.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    // Messages are read in order: when this has a response, the cancellation was processed.
    scripted.say(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(scripted.receive()["id"], 2);
    held.go_on();
    scripted.say(json!({"jsonrpc": "2.0", "id": 3, "method": "elicitation/create", "params": form}));
    held.begun();
    held.go_on();
    assert_eq!(scripted.receive(), json!({"jsonrpc": "2.0", "id": 3, "result": {"action": "decline"}}));
}

#[test]
fn the_time_of_the_user_does_not_count_against_the_deadline() {
    in_time(Duration::from_millis(100), user_takes_twice_the_timeout);
}

/// The request must arrive before the deadline of the call; the handler then takes twice that time.
fn user_takes_twice_the_timeout(timeout: Duration) -> Option<()> {
    let (hold, held) = holding();
    let builder = plain().on_elicit(move |_| {
        hold(());
        Ok(ElicitResponse::decline())
    });
    let (client, scripted) = connected(builder, Protocol::Session);
    let started = Instant::now();
    let mut call = client.request_tool("t", ours!({})).timeout(timeout).start().unwrap();
    let id = scripted.asked("tools/call");
    scripted.say(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}));
    held.begun();
    let in_time = started.elapsed() < timeout;
    let early = call.wait_until(Instant::now() + timeout * 2);
    held.go_on();
    if !in_time {
        return None;
    }
    assert!(early.is_none(), "the call is still under way: {early:?}");
    scripted.receive();
    scripted.answer(&id, ok());
    // The rest of its time may be short.
    call.wait().ok().map(|output| assert_eq!(output.texts(), "ok"))
}

#[test]
fn input_required_is_answered_and_the_call_repeated() {
    let builder = plain()
        .on_elicit(|_| Ok(ElicitResponse::accept(ours!({"zone": "a"}))))
        .roots([Root { uri: "file:///x".into(), name: None }]);
    let (client, scripted) = connected(builder, Protocol::Stateless);
    let calling = call(&client, "t");
    let first = scripted.receive();
    scripted.answer(
        &first["id"],
        json!({"resultType": "input_required", "requestState": "b\"3\u{e9}", "inputRequests": {
            "zone": {"method": "elicitation/create", "params": {"mode": "form", "message": "?",
                "requestedSchema": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}}},
            "r": {"method": "roots/list"}}}),
    );
    let second = scripted.receive();
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["params"]["requestState"], "b\"3\u{e9}");
    assert_eq!(second["params"]["name"], "t");
    assert_eq!(
        second["params"]["inputResponses"],
        json!({"zone": {"action": "accept", "content": {"zone": "a"}}, "r": {"roots": [{"uri": "file:///x"}]}})
    );
    // A round without a state sends none. A round without input requests sends no responses.
    scripted.answer(
        &second["id"],
        json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}),
    );
    let third = scripted.receive();
    assert_eq!(third["params"].get("requestState"), None);
    scripted.answer(&third["id"], json!({"resultType": "input_required", "requestState": "s"}));
    let fourth = scripted.receive();
    assert_eq!(
        (fourth["params"].get("inputResponses"), &fourth["params"]["requestState"]),
        (None, &json!("s"))
    );
    scripted.answer(&fourth["id"], ok());
    assert_eq!(calling.join().unwrap().unwrap(), "ok");
}

#[test]
fn endless_rounds_and_forbidden_requests_of_a_server_are_errors() {
    let builder = || plain().roots([Root { uri: "file:///x".into(), name: None }]);
    let roots = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
    let (client, scripted) = connected(builder(), Protocol::Stateless);
    let calling = call(&client, "t");
    for _ in 0..=10 {
        let id = scripted.asked("tools/call");
        scripted.answer(&id, roots.clone());
    }
    assert_eq!(calling.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved);
    for result in [
        json!({"resultType": "input_required", "inputRequests": {"r": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}}}),
        json!({"resultType": "input_required", "inputRequests": {"r": {"method": "tools/list"}}}),
        json!({"resultType": "input_required"}),
        json!({"resultType": "input_required", "inputRequests": []}),
        json!({"resultType": "task", "taskId": "t"}),
        json!({"resultType": 1}),
        json!({"resultType": "complete"}),
    ] {
        let calling = call(&client, "t");
        let id = scripted.asked("tools/call");
        scripted.answer(&id, result.clone());
        assert_eq!(calling.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved, "{result}");
    }
    let listing = std::thread::spawn(move || client.tools().map(|t| t.len()));
    let id = scripted.asked("tools/list");
    scripted.answer(&id, roots);
    assert_eq!(listing.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved);
}

#[test]
fn input_requests_can_be_answered_by_the_caller() {
    let (client, scripted) = connected(plain(), Protocol::Stateless);
    let call = client.request_tool("t", ours!({})).start().unwrap();
    let id = scripted.asked("tools/call");
    scripted.answer(&id, json!({"resultType": "input_required", "requestState": "s", "inputRequests": {"k": {"method": "roots/list"}}}));
    let Outcome::InputRequired(asked) = call.wait_outcome().unwrap() else { panic!("not an answer yet") };
    assert_eq!(asked.requests.as_str(), r#"{"k":{"method":"roots/list"}}"#);
    let request = client.request_tool("t", ours!({})).resume(&ours!({"k": {"roots": []}}), &asked).unwrap();
    let call = request.start().unwrap();
    let message = scripted.receive();
    assert_eq!(message["params"]["inputResponses"], json!({"k": {"roots": []}}));
    assert_eq!(message["params"]["requestState"], "s");
    scripted.answer(&message["id"], ok());
    assert!(matches!(call.wait_outcome().unwrap(), Outcome::Complete(_)));
}
