//! The `_meta` of handlers: valid members are sent, and others are rejected with a message.

use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Json, ParseLimits};
use tinymcp::{
    Content, MemoryEnd, Prompt, PromptOutput, Resource, ResourceContents, Role, Sampling, SamplingBlock,
    Server, Tool, ToolOutput, json, memory,
};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(20);

const NAME: &str = "io.modelcontextprotocol/serverInfo";

/// Members of `_meta` of a request, for each era.
const ERAS: [&str; 2] = [
    "{}",
    r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#,
];

/// Responses of a server in both eras.
fn answers(server: Server, method: &str, params: &str) -> [Doc; 2] {
    let (link, mut client) = memory();
    let serving = thread::spawn(move || server.serve(link));
    client.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"t","version":"1"}}}"#);
    client.receive(HANG).expect("a greeting");
    let ask = |client: &mut MemoryEnd, meta: &str| {
        client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params},"_meta":{meta}}}}}"#
        ));
        let answer = client.receive(HANG).expect("an answer");
        // A duplicate member is rejected here.
        let (mut doc, limits) =
            (Doc::default(), ParseLimits { unique_names: true, ..ParseLimits::default() });
        doc.parse_again(answer.as_bytes(), &limits).unwrap_or_else(|error| panic!("{error}: {answer}"));
        doc
    };
    let answers = ERAS.map(|meta| ask(&mut client, meta));
    client.finish();
    serving.join().unwrap().unwrap();
    answers
}

/// Result of a call of a tool that returns this.
fn called(output: ToolOutput) -> [Doc; 2] {
    let mut server = Server::new("this", "1");
    server.tool(Tool::new("t"), move |_, (): ()| Ok(output.clone())).unwrap();
    answers(server, "tools/call", r#""name":"t""#)
}

fn read(contents: ResourceContents) -> [Doc; 2] {
    let mut server = Server::new("this", "1");
    server.resource(Resource::new("r://r", "r"), move |_, _| Ok(contents.clone())).unwrap();
    answers(server, "resources/read", r#""uri":"r://r""#)
}

fn filled(block: Content) -> [Doc; 2] {
    let mut server = Server::new("this", "1");
    let fill = move |_: &mut tinymcp::Context<'_>, _: &tinymcp::Arguments<'_>| {
        Ok(PromptOutput::new().message(Role::User, block.clone()))
    };
    server.prompt(Prompt::new("p"), fill).unwrap();
    answers(server, "prompts/get", r#""name":"p""#)
}

/// A block with this `_meta`, in another that has none.
fn block(meta: &Json) -> Content {
    let content = Box::new(Content::text("x"));
    let inner = Content::Annotated { content, annotations: None, meta: Some(meta.clone()) };
    Content::Annotated { content: Box::new(inner), annotations: None, meta: None }
}

/// All ways to return a `_meta`, with their results.
fn given(meta: &Json) -> Vec<[Doc; 2]> {
    let contents = || ResourceContents::text("r://r", "x").meta(meta.clone());
    let linked = Content::resource_link(Resource::new("r://r", "r").meta(meta.clone()));
    vec![
        called(ToolOutput::text("x").meta(meta.clone())),
        called(ToolOutput::text("x").content(block(meta))),
        called(ToolOutput::failed("x").content(linked.clone())),
        called(Content::embedded(contents()).into()),
        read(contents()),
        filled(block(meta)),
        filled(linked),
        filled(Content::embedded(contents())),
    ]
}

#[test]
fn the_name_of_another_server_is_not_passed_on_with_its_result() {
    let foreign = json!({"a.b/c": [1, 2], (NAME): {"name": "other", "version": "2"}, "d": null});
    let [legacy, modern] = called(ToolOutput::text("x").meta(foreign));
    let meta = |doc: &Doc| doc.root().pointer("/result/_meta").expect("a _meta").to_json();
    assert_eq!(meta(&legacy).as_str(), r#"{"a.b/c":[1,2],"d":null}"#);
    let own = format!(r#"{{"a.b/c":[1,2],"d":null,"{NAME}":{{"name":"this","version":"1"}}}}"#);
    assert_eq!(meta(&modern).as_str(), own);

    let [legacy, modern] = called(ToolOutput::text("x").meta(json!({(NAME): 1})));
    assert!(legacy.root().pointer("/result/_meta").is_none(), "{legacy:?}");
    assert_eq!(meta(&modern).as_str(), format!(r#"{{"{NAME}":{{"name":"this","version":"1"}}}}"#));
}

/// JSON texts that RFC 8259 allows.
fn twice(text: &'static str) -> Json {
    Json::parse(text).expect("JSON")
}

#[test]
fn an_invalid_or_reserved_meta_is_an_internal_error_with_a_message() {
    for (meta, why) in [
        (json!([1]), "is not an object"),
        (json!(null), "is not an object"),
        (
            json!({"a.b/c": 1, "dev.mcp/x": 2}),
            r#"has a member "dev.mcp/x", whose prefix is reserved for the protocol"#,
        ),
        (twice(r#"{"b": 1, "a\"": 1, "a\u0022": 2}"#), r#"has the member "a\u0022" twice"#),
        (twice(r#"{"a": {"b": [{"c": 1, "c": 1}]}}"#), r#"has the member "c" twice"#),
        (twice(r#"{"dev.mcp/x": 1, "dev.mcp/x": 1}"#), r#"has the member "dev.mcp/x" twice"#),
    ] {
        for answers in given(&meta) {
            for answer in answers {
                let error = |name: &str| answer.root().get("error").and_then(|e| e.get(name));
                assert_eq!(error("code").and_then(|c| c.as_i64()), Some(-32603), "{meta}: {answer:?}");
                let words = error("message").and_then(|m| m.as_str()).expect("words");
                assert_eq!(words, format!("The result's _meta {why}"));
            }
        }
    }
}

#[test]
fn unreserved_names_are_sent_in_every_meta_of_a_handler() {
    for answers in given(&json!({"com.example.mcp/a": 1})) {
        for answer in answers {
            let text = answer.root().raw();
            assert!(text.contains(r#""com.example.mcp/a":1"#) && !text.contains("error"), "{text}");
        }
    }
}

#[test]
fn the_meta_of_sampling_requests_is_checked_too() {
    let mut server = Server::new("this", "1");
    server
        .tool(Tool::new("t"), |ctx, (): ()| {
            let used = tinymcp::ToolUse { id: "u".into(), name: "u".into(), input: json!({}) };
            let gave = SamplingBlock::ToolResult {
                id: "u".into(),
                content: vec![block(&json!({"dev.mcp/x": 1}))],
                is_error: false,
            };
            let asked = Sampling::new(9)
                .message(Role::Assistant, vec![SamplingBlock::ToolUse(used)])
                .message(Role::User, vec![gave]);
            ctx.sample("q", asked)?;
            Ok("asked")
        })
        .unwrap();
    for answer in answers(server, "tools/call", r#""name":"t""#) {
        let text = answer.root().pointer("/result/content/0/text").and_then(|t| t.as_str());
        let why = r#"Invalid request "q": the _meta of a block has a member "dev.mcp/x", whose prefix is reserved for the protocol"#;
        assert_eq!(text, Some(why), "{}", answer.root().raw());
    }
}
