//! Tools with arguments and results of types that derive the traits of serde, schemars and
//! miniserde, in both eras.

#![cfg(any(feature = "schemars", feature = "miniserde"))]

use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Json};
use tinymcp::{Server, memory};

const HANG: Duration = Duration::from_secs(20);

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Sends each of these requests in both eras and returns the results.
fn results(server: Server, requests: &[(&str, &str)]) -> Vec<[Doc; 2]> {
    let (link, mut client) = memory();
    let serving = thread::spawn(move || server.serve(link));
    client
        .request(
            "initialize",
            Json::parse(r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#).unwrap(),
            HANG,
        )
        .expect("a greeting");
    let results = requests
        .iter()
        .map(|(method, params)| {
            let comma = if params.is_empty() { "" } else { "," };
            [format!("{{{params}}}"), format!("{{{params}{comma}{META}}}")].map(|params| {
                let answer = client.request(method, Json::parse(params).unwrap(), HANG).expect("a response");
                answer.to_doc()
            })
        })
        .collect();
    client.finish();
    serving.join().unwrap().unwrap();
    results
}

/// Calls the tool `t` of a server in both eras: the text of a failed result, or its structured
/// content.
fn calls(server: Server, arguments: &[&str]) -> Vec<String> {
    let params: Vec<String> =
        arguments.iter().map(|arguments| format!(r#""name":"t","arguments":{arguments}"#)).collect();
    let requests: Vec<(&str, &str)> = params.iter().map(|params| ("tools/call", params.as_str())).collect();
    let outcome = |doc: &Doc| {
        let result = doc.root().get("result").unwrap_or_else(|| panic!("{doc:?}"));
        match result.get("isError").and_then(|error| error.as_bool()) {
            Some(true) => result.pointer("/content/0/text").unwrap().as_str().unwrap().to_owned(),
            _ => result.get("structuredContent").unwrap().raw().to_owned(),
        }
    };
    results(server, &requests)
        .iter()
        .map(|[session, stateless]| {
            assert_eq!(outcome(session), outcome(stateless));
            outcome(session)
        })
        .collect()
}

#[cfg(feature = "schemars")]
mod serde_types {
    use std::collections::BTreeMap;

    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use tinymcp::json::Json;
    use tinymcp::{Content, Serde, Server, Tool, ToolArguments, ToolResult};

    use super::{calls, results};

    /// Switches a pin.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Switch {
        /// Number of the pin
        #[schemars(range(max = 27))]
        pin: u8,
        #[serde(default)]
        action: Action,
    }

    #[derive(Deserialize, Serialize, JsonSchema, Default)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Action {
        #[default]
        Toggle,
        Hold {
            millis: u32,
        },
    }

    #[derive(Serialize, JsonSchema)]
    struct State {
        pin: u8,
        action: Action,
    }

    fn server() -> Server {
        let mut server = Server::new("typed", "1");
        server
            .tool(Tool::new("t"), |_, Serde(switch): Serde<Switch>| {
                Ok(Serde(State { pin: switch.pin, action: switch.action }))
            })
            .unwrap();
        server
    }

    #[test]
    fn a_serde_type_is_argument_and_result() {
        let outcomes = calls(
            server(),
            &[
                r#"{"pin":4}"#,
                r#"{"pin":4,"action":{"kind":"hold","millis":250}}"#,
                r#"{"pin":300}"#,
                r#"{"pins":3}"#,
                r#"{"pin":4,"action":{"kind":"wait"}}"#,
            ],
        );
        let expected: [&[&str]; 5] = [
            &[r#"{"pin":4,"action":{"kind":"toggle"}}"#],
            &[r#"{"pin":4,"action":{"kind":"hold","millis":250}}"#],
            &["Invalid arguments for tool t: expected", "got 300", "(path: \"/pin\", keyword: maximum)"],
            &["pins"],
            &["wait", "(path: \"/action"],
        ];
        for (outcome, words) in outcomes.iter().zip(expected) {
            for word in words {
                assert!(outcome.contains(word), "no {word} in {outcome}");
            }
        }
    }

    #[test]
    #[cfg(feature = "schema")]
    fn the_published_schema_is_enforced() {
        let outcomes = calls(server(), &[r#"{"pin":28}"#]);
        assert_eq!(
            outcomes,
            [
                "Invalid arguments for tool t: expected a number from 0 to 27, got 28 (path: \"/pin\", keyword: maximum)"
            ]
        );
    }

    #[test]
    fn the_list_has_both_schemas_without_references() {
        let lists = results(server(), &[("tools/list", "")]);
        for list in &lists[0] {
            let tool = list.root().pointer("/result/tools/0").unwrap();
            let input = tool.get("inputSchema").unwrap();
            assert_eq!(input.pointer("/properties/pin/maximum").unwrap().raw(), "27");
            assert_eq!(input.get("description").unwrap().as_str(), Some("Switches a pin."));
            assert_eq!(input.get("additionalProperties").unwrap().raw(), "false");
            assert_eq!(input.get("required").unwrap().raw(), r#"["pin"]"#);
            let output = tool.get("outputSchema").unwrap();
            assert_eq!(output.get("required").unwrap().raw(), r#"["pin","action"]"#);
            for absent in ["$schema", "$ref", "$defs", "\"title\":\"Switch\""] {
                assert!(!tool.raw().contains(absent), "{absent} in {}", tool.raw());
            }
        }
    }

    #[test]
    fn an_enum_of_arguments_has_an_object_as_root() {
        let schema = <Serde<Action> as ToolArguments>::schema().unwrap().to_doc();
        assert_eq!(schema.root().get("type").unwrap().as_str(), Some("object"));
        assert!(<Serde<Action> as ToolResult>::schema().unwrap().to_doc().root().get("oneOf").is_some());
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Optional {
        pin: u8,
        note: Option<String>,
        #[serde(default)]
        level: u8,
        nested: Option<Nested>,
    }

    #[derive(Deserialize, JsonSchema, Default)]
    #[serde(default, deny_unknown_fields)]
    #[allow(dead_code)]
    struct Nested {
        times: u8,
    }

    #[test]
    fn members_with_a_default_are_optional_in_the_schema_and_in_the_error() {
        let schema = <Serde<Optional> as ToolArguments>::schema().unwrap().to_doc();
        assert_eq!(schema.root().get("required").unwrap().raw(), r#"["pin"]"#);
        assert!(schema.root().pointer("/properties/nested/required").is_none());
        let mut server = Server::new("typed", "1");
        server
            .tool(Tool::new("t"), |_, Serde(given): Serde<Optional>| {
                Ok(Serde(State { pin: given.pin + given.level, action: Action::Toggle }))
            })
            .unwrap();
        let calls = calls(
            server,
            &[
                r#"{"pin":4}"#,
                r#"{"pin":4,"note":null,"nested":null}"#,
                r#"{"pin":4,"nested":{}}"#,
                r#"{"pin":4,"notes":""}"#,
            ],
        );
        let [outcomes @ .., unknown] = &calls[..] else { unreachable!() };
        for outcome in outcomes {
            assert_eq!(outcome, r#"{"pin":4,"action":{"kind":"toggle"}}"#);
        }
        // serde passes the names only.
        let allowed = match cfg!(feature = "schema") {
            true => "Allowed are `pin`; optional `level`, `nested`, `note`",
            false => "Allowed are `pin`, `note`, `level`, `nested`",
        };
        assert!(unknown.contains("did you mean `note`?") && unknown.contains(allowed), "{unknown}");
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Tree {
        children: Vec<Tree>,
    }

    #[test]
    fn a_type_that_contains_itself_has_a_definition() {
        let mut server = Server::new("typed", "1");
        server.tool(Tool::new("t"), |_, Serde(tree): Serde<Tree>| Ok(Serde(tree))).unwrap();
        let tree = r#"{"children":[{"children":[]}]}"#;
        assert_eq!(calls(server, &[tree]), [tree]);
    }

    #[derive(Serialize, JsonSchema)]
    struct Table {
        #[schemars(with = "BTreeMap<String, u8>")]
        cells: BTreeMap<(u8, u8), u8>,
    }

    #[test]
    fn a_result_without_a_json_form_is_a_failed_call() {
        let mut server = Server::new("typed", "1");
        server
            .tool(Tool::new("t"), |_, ()| Ok(Serde(Table { cells: BTreeMap::from([((1, 2), 3)]) })))
            .unwrap();
        assert_eq!(
            calls(server, &["{}"]),
            [
                "The result of the tool cannot be written as JSON: /cells: a map key must be a string, a number, \
              a boolean, a character or a unit variant (propertyNames)"
            ]
        );
    }

    #[test]
    fn a_result_may_have_a_content_block_and_a_tree_of_serde_json() {
        let mut server = Server::new("typed", "1");
        server
            .tool(Tool::new("t"), |_, Serde(tree): Serde<Tree>| Ok((Serde(tree), Content::text("a tree"))))
            .unwrap();
        let answers = results(server, &[("tools/call", r#""name":"t","arguments":{"children":[]}"#)]);
        for answer in &answers[0] {
            assert_eq!(answer.root().pointer("/result/content/0/text").unwrap().as_str(), Some("a tree"));
        }
        let json = Json::from(serde_json::json!({"children": []}));
        assert_eq!(json.as_str(), r#"{"children":[]}"#);
    }

    #[cfg(feature = "client")]
    #[test]
    fn a_client_sends_and_reads_serde_types() {
        use tinymcp::{Client, ErrorKind, memory_links, serde::to_json};

        let (ours, theirs) = memory_links();
        let serving = std::thread::spawn(move || server().serve(theirs));
        let client = Client::over(ours).unwrap();
        let arguments = serde_json::json!({"pin": 4, "action": Action::Hold { millis: 5 }});
        #[derive(Deserialize, Debug)]
        struct Read {
            pin: u8,
        }
        let output = client.call_tool("t", &arguments).unwrap();
        assert_eq!(output.deserialize::<Read>().unwrap().pin, 4);
        let error = output.deserialize::<Vec<u8>>().unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (
                ErrorKind::PeerMisbehaved,
                "the structured content does not match its type: expected an array, got an object of 2 members (type)"
            )
        );
        let failed = client.call_tool("t", to_json(&serde_json::json!({"pin": 99})).unwrap()).unwrap();
        if failed.is_error {
            assert_eq!(failed.deserialize::<Read>().unwrap_err().kind(), ErrorKind::Remote);
        }
        drop(client);
        serving.join().unwrap().unwrap();
    }
}

#[cfg(feature = "miniserde")]
mod miniserde_types {
    use miniserde::{Deserialize, Serialize};
    use tinymcp::json::Json;
    use tinymcp::{Miniserde, Server, Tool};

    use super::calls;

    #[derive(Deserialize, Serialize)]
    struct Switch {
        pin: u8,
        note: Option<String>,
    }

    #[test]
    fn a_miniserde_type_is_argument_and_result() {
        let mut server = Server::new("typed", "1");
        let schema = Json::constant(r#"{"type":"object","properties":{"pin":{}}}"#);
        server
            .tool(Tool::new("t").input_schema(schema), |_, Miniserde(switch): Miniserde<Switch>| {
                Ok(Miniserde(switch))
            })
            .unwrap();
        let outcomes = calls(server, &[r#"{"pin":4,"note":"x"}"#, r#"{"pin":300}"#, r#"{"note":"x"}"#]);
        assert_eq!(
            outcomes,
            [
                r#"{"pin":4,"note":"x"}"#,
                "Invalid arguments for tool t: expected a value of another type or range, got 300 \
                 (path: \"/pin\", keyword: type)",
                "Invalid arguments for tool t: a member is missing, or the object is in place of another value \
                 (path: \"\", keyword: type)",
            ]
        );
    }
}
