//! What a server asks back: in a session, on the way of a call, and answered by hand.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tinymcp::{
    Action, Block, Content, ErrorKind, FormResponse, Outcome, Protocol, Root, SampleResponse, json as ours,
};

use super::played::{Played, call, connected, holding, in_time, meta, ok, plain};

#[test]
fn what_a_client_can_answer_is_declared() {
    let builder = || {
        plain()
            .on_form(|_| Ok(FormResponse::cancel()))
            .on_url(|_| Ok(Action::Decline))
            .on_sample_with_tools(|_| Ok(SampleResponse::new("m").text("t")))
            .roots([Root { uri: "file:///x".into(), name: None }])
    };
    let (client, played) = connected(builder(), Protocol::Stateless);
    let calling = call(&client, "t");
    let message = played.hear();
    let all = json!({"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}});
    assert_eq!(message["params"]["_meta"], meta(all));
    played.answer(&message["id"], ok());
    calling.join().unwrap().unwrap();
    let (link, played) = Played::new();
    let connecting = std::thread::spawn(move || builder().protocol(Protocol::Session).over(link));
    let message = played.hear();
    assert_eq!(
        message["params"]["capabilities"],
        json!({"roots": {"listChanged": true}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}})
    );
    drop(played);
    assert!(connecting.join().unwrap().is_err());
}

#[test]
fn a_session_asks_and_is_answered() {
    let builder = plain()
        .on_form(|form| {
            assert_eq!((form.message.as_str(), form.fields.len()), ("Who?", 2));
            Ok(FormResponse::accept(ours!({"name": "Ada"})))
        })
        .roots([Root { uri: "file:///x".into(), name: Some("x".into()) }])
        .on_sample(|sampling| match sampling.max_tokens {
            9 => Ok(SampleResponse::new("m1").text("Teal").stop_reason("endTurn")),
            _ => Err("not today".into()),
        });
    let (_client, played) = connected(builder, Protocol::Session);
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
        played.say(message);
        let mut expected = answer;
        expected["jsonrpc"] = json!("2.0");
        expected["id"] = json!("s-1");
        assert_eq!(played.hear(), expected, "{method}");
    }
}

#[test]
fn an_answer_with_metadata_that_may_not_be_is_not_sent() {
    let builder = || {
        plain().on_sample(|_| {
            let content = Box::new(Content::text("Teal"));
            let block =
                Content::Annotated { content, annotations: None, meta: Some(ours!({"dev.mcp/x": 1})) };
            Ok(SampleResponse::new("m").block(Block::ToolResult {
                id: "u".into(),
                content: vec![Content::text("x"), block],
                is_error: false,
            }))
        })
    };
    let question =
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 9});
    let (_client, played) = connected(builder(), Protocol::Session);
    played.say(json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": question}));
    let error = json!({"code": -32603, "message": "The handler of the client returned an invalid result"});
    assert_eq!(played.hear(), json!({"jsonrpc": "2.0", "id": 1, "error": error}));

    let (client, played) = connected(builder(), Protocol::Stateless);
    let calling = call(&client, "t");
    let questions = json!({"q": {"method": "sampling/createMessage", "params": question}});
    let id = played.asked("tools/call");
    played.answer(&id, json!({"resultType": "input_required", "inputRequests": questions}));
    let error = calling.join().unwrap().unwrap_err();
    let why = "invalid result of the handler: \
        the _meta of a block has a member \"dev.mcp/x\", whose prefix is reserved for the protocol";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, why));
}

#[test]
fn nothing_is_answered_by_default() {
    let (_client, played) = connected(plain(), Protocol::Session);
    for method in ["roots/list", "sampling/createMessage", "elicitation/create"] {
        played.say(json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": {"message": "m", "maxTokens": 1, "messages": [],
            "requestedSchema": {"type": "object", "properties": {}}}}));
        let answer = played.hear();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32601)), "{method}");
    }
}

#[test]
fn a_question_that_is_called_off_gets_no_answer() {
    let (hold, held) = holding();
    let builder = plain().on_form(move |_| {
        hold(());
        Ok(FormResponse::decline())
    });
    let (_client, played) = connected(builder, Protocol::Session);
    let form = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}});
    played.say(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form}));
    held.begun();
    played.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    // Read in order: when this is answered, the cancellation was seen.
    played.say(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
    assert_eq!(played.hear()["id"], 2);
    held.go_on();
    played.say(json!({"jsonrpc": "2.0", "id": 3, "method": "elicitation/create", "params": form}));
    held.begun();
    held.go_on();
    assert_eq!(played.hear(), json!({"jsonrpc": "2.0", "id": 3, "result": {"action": "decline"}}));
}

#[test]
fn time_that_a_person_thinks_is_not_the_servers() {
    in_time(Duration::from_millis(100), a_person_thinks);
}

/// The question has to be asked while the call has time left; then twice that time passes.
fn a_person_thinks(timeout: Duration) -> Option<()> {
    let (hold, held) = holding();
    let builder = plain().on_form(move |_| {
        hold(());
        Ok(FormResponse::decline())
    });
    let (client, played) = connected(builder, Protocol::Session);
    let started = Instant::now();
    let mut call = client.request_tool("t", ours!({})).timeout(timeout).start().unwrap();
    let id = played.asked("tools/call");
    played.say(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}}));
    held.begun();
    let in_time = started.elapsed() < timeout;
    let early = call.wait_until(Instant::now() + timeout * 2);
    held.go_on();
    if !in_time {
        return None;
    }
    assert!(early.is_none(), "the call is still under way: {early:?}");
    played.hear();
    played.answer(&id, ok());
    // What is left of its time may be little.
    call.wait().ok().map(|output| assert_eq!(output.texts(), "ok"))
}

#[test]
fn input_required_is_answered_and_the_call_repeated() {
    let builder = plain()
        .on_form(|_| Ok(FormResponse::accept(ours!({"zone": "a"}))))
        .roots([Root { uri: "file:///x".into(), name: None }]);
    let (client, played) = connected(builder, Protocol::Stateless);
    let calling = call(&client, "t");
    let first = played.hear();
    played.answer(
        &first["id"],
        json!({"resultType": "input_required", "requestState": "b\"3\u{e9}", "inputRequests": {
            "zone": {"method": "elicitation/create", "params": {"mode": "form", "message": "?",
                "requestedSchema": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}}},
            "r": {"method": "roots/list"}}}),
    );
    let second = played.hear();
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["params"]["requestState"], "b\"3\u{e9}");
    assert_eq!(second["params"]["name"], "t");
    assert_eq!(
        second["params"]["inputResponses"],
        json!({"zone": {"action": "accept", "content": {"zone": "a"}}, "r": {"roots": [{"uri": "file:///x"}]}})
    );
    // A round without a state: none is sent. A round without questions: no answers are.
    played.answer(
        &second["id"],
        json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}),
    );
    let third = played.hear();
    assert_eq!(third["params"].get("requestState"), None);
    played.answer(&third["id"], json!({"resultType": "input_required", "requestState": "s"}));
    let fourth = played.hear();
    assert_eq!(
        (fourth["params"].get("inputResponses"), &fourth["params"]["requestState"]),
        (None, &json!("s"))
    );
    played.answer(&fourth["id"], ok());
    assert_eq!(calling.join().unwrap().unwrap(), "ok");
}

#[test]
fn a_server_that_asks_back_for_ever_or_what_it_must_not_is_an_error() {
    let builder = || plain().roots([Root { uri: "file:///x".into(), name: None }]);
    let roots = json!({"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}});
    let (client, played) = connected(builder(), Protocol::Stateless);
    let calling = call(&client, "t");
    for _ in 0..=10 {
        let id = played.asked("tools/call");
        played.answer(&id, roots.clone());
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
        let id = played.asked("tools/call");
        played.answer(&id, result.clone());
        assert_eq!(calling.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved, "{result}");
    }
    let listing = std::thread::spawn(move || client.tools().map(|t| t.len()));
    let id = played.asked("tools/list");
    played.answer(&id, roots);
    assert_eq!(listing.join().unwrap().unwrap_err().kind(), ErrorKind::PeerMisbehaved);
}

#[test]
fn questions_can_be_answered_by_hand() {
    let (client, played) = connected(plain(), Protocol::Stateless);
    let call = client.request_tool("t", ours!({})).start().unwrap();
    let id = played.asked("tools/call");
    played.answer(&id, json!({"resultType": "input_required", "requestState": "s", "inputRequests": {"k": {"method": "roots/list"}}}));
    let Outcome::InputRequired(asked) = call.wait_outcome().unwrap() else { panic!("not an answer yet") };
    assert_eq!(asked.questions.as_str(), r#"{"k":{"method":"roots/list"}}"#);
    let request = client.request_tool("t", ours!({})).resume(&ours!({"k": {"roots": []}}), &asked).unwrap();
    let call = request.start().unwrap();
    let message = played.hear();
    assert_eq!(message["params"]["inputResponses"], json!({"k": {"roots": []}}));
    assert_eq!(message["params"]["requestState"], "s");
    played.answer(&message["id"], ok());
    assert!(matches!(call.wait_outcome().unwrap(), Outcome::Complete(_)));
}
