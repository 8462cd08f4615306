//! Invalid requests to the client: the handler gets an error with the reason, and nothing is sent
//! to the client.

use std::thread;
use std::time::Duration;

use tinymcp::json::Json;
use tinymcp::{
    Argument, ErrorKind, Field, Form, Prompt, PromptOutput, Sampling, Server, Tool, ToolError, json, memory,
};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(20);

/// A call of the tool `ask` by a client with all capabilities.
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}}}}"#;

/// Outcome for the client: the text of the failure, or a request to it.
fn outcome(
    ask: impl Fn(&mut tinymcp::Context<'_>) -> Result<(), ToolError> + Send + Sync + 'static,
) -> String {
    let mut server = Server::new("s", "1");
    server.tool(Tool::new("ask"), move |ctx, ()| ask(ctx)).expect("a tool");
    let (link, client) = memory();
    let serving = thread::spawn(move || server.serve(link));
    client.send(CALL);
    let answer = Json::parse(client.receive(HANG).expect("an answer")).expect("JSON").to_doc();
    drop(client);
    serving.join().expect("no panic").expect("served");
    let result = answer.root().get("result").expect("a result");
    if result.get("isError").is_none() {
        return result.get("resultType").and_then(|r| r.as_str()).expect("a type").to_owned();
    }
    result.pointer("/content/0/text").and_then(|t| t.as_str()).expect("words").to_owned()
}

#[test]
fn forms_that_cannot_be_filled_in_are_rejected() {
    for (field, why) in [
        (Field::choice("c", Vec::<String>::new()), "\"c\" has no choices"),
        (Field::integer("c").min(5).max(1), "\"c\" has a lower bound above its upper one"),
        (Field::number("c").min(f64::NAN), "\"c\" has an invalid bound"),
        (Field::number("c").max(f64::INFINITY), "\"c\" has an invalid bound"),
        (Field::text("c").min(-1), "\"c\" has an invalid bound"),
        (Field::choices("c", ["a"]).max(-1), "\"c\" has an invalid bound"),
        (Field::choice("c", ["a"]).default("b"), "the default of \"c\" does not match the field"),
        (Field::text("twice"), "duplicate field \"twice\""),
    ] {
        let form = Form::new("f").field(Field::boolean("twice")).field(field);
        let said = outcome(move |ctx| ctx.elicit("key", form.clone()).map(drop));
        assert_eq!(said, format!("Invalid form \"key\": {why}"));
    }
    for field in
        [Field::integer("c").min(-5).max(-1), Field::number("c").min(f64::MIN), Field::text("c").max(0)]
    {
        let form = Form::new("f").field(field);
        assert_eq!(outcome(move |ctx| ctx.elicit("key", form.clone()).map(drop)), "input_required");
    }
}

#[test]
fn pages_without_an_address_are_refused() {
    for url in
        ["", "example.org", "//example.org/", "1https://example.org", "https://example.org/a b", "a:\n"]
    {
        let said = outcome(move |ctx| ctx.elicit_url("key", "m", url).map(drop));
        assert_eq!(said, format!("Invalid URL of \"key\": {url:?}"));
    }
    let said = outcome(|ctx| ctx.elicit_url("key", "m", "https://example.org/?a=%20").map(drop));
    assert_eq!(said, "input_required");
}

#[test]
fn requests_for_messages_that_no_client_may_read_are_refused() {
    let tool = Tool::new("t").meta(json!({"dev.mcp/x": 1}));
    for (sampling, why) in [
        (Sampling::new(1).tool(tool), "Invalid request \"key\": the _meta of a tool has a member"),
        (Sampling::new(1).temperature(f64::NAN), "a number is not finite"),
        (Sampling::new(1).priorities(None, None, Some(f64::INFINITY)), "a number is not finite"),
    ] {
        let said = outcome(move |ctx| ctx.sample("key", sampling.clone().user("hello")).map(drop));
        assert!(said.contains(why), "{said}");
    }
    let fine = Sampling::new(1).temperature(0.5).priorities(Some(0.0), None, Some(1.0)).tool(Tool::new("t"));
    assert_eq!(outcome(move |ctx| ctx.sample("key", fine.clone().user("hello")).map(drop)), "input_required");
}

#[test]
fn a_prompt_has_no_two_arguments_of_one_name() {
    let mut server = Server::new("s", "1");
    let prompt = Prompt::new("p").argument(Argument::optional("a")).argument(Argument::required("a"));
    let error = server.prompt(prompt, |_, _| Ok(PromptOutput::new())).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert!(error.to_string().contains("the argument \"a\" twice"), "{error}");
}
