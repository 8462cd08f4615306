//! With the feature `schema`, a server checks arguments against schemas before a handler runs, and
//! results before they are sent.

#![cfg(feature = "schema")]

use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Json};
use tinymcp::{Server, Tool, ToolArguments, ToolOutput, ToolResult, memory, record};

const HANG: Duration = Duration::from_secs(20);

/// Calls a tool of `server` in both eras; returns the texts of the results.
fn call(server: Server, arguments: &str) -> Vec<String> {
    let (link, mut client) = memory();
    let serving = thread::spawn(move || server.serve(link));
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    client.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#);
    client.receive(HANG).expect("a greeting");
    let answers = ["".to_owned(), format!(",{meta}")].map(|meta| {
        client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}{meta}}}}}"#
        ));
        client.receive(HANG).expect("an answer")
    });
    client.finish();
    serving.join().unwrap().unwrap();
    answers.to_vec()
}

fn checked() -> Server {
    let mut server = Server::new("checked", "1");
    let schema = Json::parse(
        r#"{"type":"object","properties":{"pin":{"type":"integer","maximum":27},"mail":{"type":"string","format":"email"}},"required":["pin"],"if":{"properties":{"pin":{"const":4}}},"then":{"required":["mail"]}}"#,
    )
    .unwrap();
    server
        .tool(Tool::new("t").input_schema(schema), |_, arguments: Json| {
            Ok(arguments.to_doc().root().get("pin").unwrap().raw().to_owned())
        })
        .unwrap();
    server
}

#[test]
fn arguments_are_checked_before_the_handler_runs() {
    for (arguments, expected) in [
        (r#"{"pin":3}"#, &["\"text\":\"3\""][..]),
        (r#"{"pin":99}"#, &["isError", "/pin", "maximum"]),
        (r#"{"pin":"3"}"#, &["isError", "/pin", "type"]),
        ("{}", &["isError", "pin", "required"]),
        (r#"{"pin":4}"#, &["isError", "mail"]),
        (r#"{"pin":4,"mail":"nobody"}"#, &["isError", "/mail", "format"]),
        (r#"{"pin":4,"mail":"a@example.org"}"#, &["\"text\":\"4\""]),
    ] {
        for answer in call(checked(), arguments) {
            for word in expected {
                assert!(answer.contains(word), "{arguments}: no {word} in {answer}");
            }
        }
    }
}

#[test]
fn results_are_checked_before_they_leave() {
    for (result, good) in [("[1,2]", true), ("[1,\"2\"]", false), ("{}", false)] {
        let mut server = Server::new("checked", "1");
        let schema = Json::parse(r#"{"type":"array","items":{"type":"integer"}}"#).unwrap();
        let result_json = Json::parse(result).unwrap();
        server.tool(Tool::new("t").output_schema(schema), move |_, (): ()| Ok(result_json.clone())).unwrap();
        for answer in call(server, "{}") {
            let doc = Doc::parse(answer.as_bytes()).unwrap();
            let code = doc.root().pointer("/error/code").and_then(|c| c.as_i64());
            assert_eq!(code, if good { None } else { Some(-32603) }, "{result}: {answer}");
        }
    }
}

#[test]
fn an_invalid_schema_is_rejected_at_registration() {
    for schema in [
        r#"{"type":"object","properties":{"a":{"type":"strnig"}}}"#,
        r#"{"type":"object","properties":{"a":{"minimum":"1"}}}"#,
        r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/missing"}}}"##,
        r#"{"type":"object","$schema":"https://example.org/other-dialect"}"#,
    ] {
        let mut server = Server::new("checked", "1");
        let tool = Tool::new("t").input_schema(Json::parse(schema).unwrap());
        let refused =
            server.tool(tool, |_, _: Json| Ok(())).err().unwrap_or_else(|| panic!("{schema} was taken"));
        assert_eq!(refused.kind(), tinymcp::ErrorKind::Invalid, "{schema}");
    }
}

tinymcp::record! {
    /// A pin.
    struct Pin {
        pin: u8 [0..=27],
        note: Option<String>,
    }
}

#[test]
fn a_typed_tool_checks_its_arguments_and_treats_null_as_absent() {
    for (arguments, word) in [(r#"{"pin":1,"note":null}"#, "\"text\":\"1\""), (r#"{"pin":28}"#, "/pin")] {
        let mut server = Server::new("checked", "1");
        server
            .tool(Tool::new("t"), |_, pin: Pin| Ok(format!("{}{}", pin.pin, pin.note.unwrap_or_default())))
            .unwrap();
        for answer in call(server, arguments) {
            assert!(answer.contains(word), "{arguments}: {answer}");
        }
    }
}

#[test]
fn answers_of_the_user_are_checked_by_format() {
    for (mail, word) in [("a@example.org", "thanks a@example.org"), ("nobody", "/content/mail")] {
        let mut server = Server::new("checked", "1");
        server
            .tool(Tool::new("t"), |ctx, (): ()| {
                let form = tinymcp::Form::new("Where to?").field(tinymcp::Field::email("mail").required());
                Ok(format!("thanks {}", ctx.elicit("mail", form)?.text("mail").unwrap_or_default()))
            })
            .unwrap();
        let (link, mut client) = memory();
        let serving = thread::spawn(move || server.serve(link));
        client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","inputResponses":{{"mail":{{"action":"accept","content":{{"mail":"{mail}"}}}}}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}}}}}}}}}}"#
        ));
        let answer = client.receive(HANG).expect("an answer");
        assert!(answer.contains(word), "{mail}: {answer}");
        client.finish();
        serving.join().unwrap().unwrap();
    }
}

/// A type of the program with its own schema, which is stricter than its `read`.
struct Level(i64);

impl ToolArguments for Level {
    fn schema() -> Option<Json> {
        Some(Json::constant(
            r#"{"type":"object","properties":{"level":{"type":"integer","maximum":5}},"required":["level"]}"#,
        ))
    }

    fn read(arguments: tinymcp::json::Value<'_>) -> Result<Level, Box<record::Violation>> {
        Ok(Level(arguments.get("level").and_then(|level| level.as_i64()).unwrap_or(-1)))
    }
}

/// A result that does not match its own schema above 3.
struct Reached(i64);

impl ToolResult for Reached {
    fn schema() -> Option<Json> {
        Some(Json::constant(r#"{"type":"object","properties":{"reached":{"maximum":3}}}"#))
    }

    fn into_output(self) -> ToolOutput {
        ToolOutput::structured(Json::parse(format!("{{\"reached\":{}}}", self.0)).unwrap())
    }
}

#[test]
fn schemas_of_argument_and_result_types_are_enforced() {
    for (arguments, expected) in [
        (r#"{"level":3}"#, &["\"reached\":3"][..]),
        (r#"{"level":6}"#, &["isError", "/level", "maximum"]),
        (r#"{"level":"3"}"#, &["isError", "/level", "type"]),
        ("{}", &["isError", "level", "required"]),
        (r#"{"level":4}"#, &["-32603", "output schema"]),
    ] {
        let mut server = Server::new("checked", "1");
        server.tool(Tool::new("t"), |_, level: Level| Ok(Reached(level.0))).unwrap();
        for answer in call(server, arguments) {
            for word in expected {
                assert!(answer.contains(word), "{arguments}: no {word} in {answer}");
            }
        }
    }
}

#[test]
fn tool_names_have_1_to_128_characters() {
    for (name, good) in
        [("a".repeat(64), true), ("a".repeat(128), true), ("a".repeat(129), false), (String::new(), false)]
    {
        let added = Server::new("names", "1").tool(Tool::new(&*name), |_, (): ()| Ok(())).map(drop);
        assert_eq!(added.is_ok(), good, "{} characters", name.len());
    }
    let refused = Server::new("names", "1").tool(Tool::new("a b"), |_, (): ()| Ok(())).map(drop);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains(r#"invalid tool name "a b": "#), "{refused}");
}
