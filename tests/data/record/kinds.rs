//! Kinds of fields beyond the common ones, and enums with data.

use std::collections::HashMap;
use std::num::{NonZeroU8, NonZeroU64};
use std::path::PathBuf;

use tinymcp::json::{Doc, ToJson};
use tinymcp::record::FromJson;
use tinymcp::{Structured, json, record};

record! {
    #[derive(Debug, PartialEq)]
    struct Rare {
        letter: char,
        file: PathBuf [len ..=8],
        rgb: [u8 ; 3] [0..=99],
        count: NonZeroU8,
        total: NonZeroU64 [..=10],
        sizes: HashMap<String, u8> [items ..=2],
        rows: [[bool; 1]; 2] = [[true], [false]],
    }
}

/// Reads a text, and returns what is written from the value, or the violation.
fn through<T: FromJson + ToJson>(text: &str) -> String {
    match record::decode::<T>(Doc::parse(text).unwrap().root()) {
        Ok(value) => value.to_json().as_str().to_owned(),
        Err(violation) => violation.to_string(),
    }
}

const RARE: &str = r#"{"letter":"ß","file":"/a/b","rgb":[1,2,3],"count":255,"total":1,"sizes":{"b":1,"a":2},"rows":[[false],[true]]}"#;

#[test]
fn rare_kinds_are_read_and_written() {
    assert_eq!(through::<Rare>(RARE), RARE.replace(r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#));
    for (from, to, expected) in [
        ("\"ß\"", "\"\"", "/letter: expected a string of 1 character, got one of 0 (minLength)"),
        ("\"ß\"", "\"ab\"", "/letter: expected a string of 1 character, got one of 2 (maxLength)"),
        (
            "\"/a/b\"",
            "\"123456789\"",
            "/file: expected a string of at most 8 characters, got one of 9 (maxLength)",
        ),
        ("[1,2,3]", "[1,2]", "/rgb: expected an array of 3 items, got one of 2 (minItems)"),
        ("[1,2,3]", "[1,2,3,4]", "/rgb: expected an array of 3 items, got one of 4 (maxItems)"),
        ("[1,2,3]", "[1,2,100]", "/rgb/2: expected an integer from 0 to 99, got 100 (maximum)"),
        ("255", "0", "/count: expected an integer from 1 to 255, got 0 (minimum)"),
        (r#""total":1"#, r#""total":11"#, "/total: expected an integer from 1 to 10, got 11 (maximum)"),
        (
            r#"{"b":1,"a":2}"#,
            r#"{"b":300}"#,
            "/sizes/b: expected an integer from 0 to 255, got 300 (maximum)",
        ),
        ("[[false],[true]]", "[[false],[]]", "/rows/1: expected an array of 1 item, got one of 0 (minItems)"),
    ] {
        let text = RARE.replace(from, to);
        assert_ne!(text, RARE, "{from}");
        assert_eq!(through::<Rare>(&text), expected, "{to}");
    }
}

#[test]
fn rare_kinds_have_schemas() {
    let schema = record::schema::<Rare>().to_doc();
    for (name, expected) in [
        ("letter", r#"{"type":"string","minLength":1,"maxLength":1}"#),
        ("file", r#"{"type":"string","maxLength":8}"#),
        (
            "rgb",
            r#"{"type":"array","items":{"type":"integer","minimum":0,"maximum":99},"minItems":3,"maxItems":3}"#,
        ),
        ("count", r#"{"type":"integer","minimum":1,"maximum":255}"#),
        ("total", r#"{"type":"integer","minimum":1,"maximum":10}"#),
        (
            "sizes",
            r#"{"type":"object","additionalProperties":{"type":"integer","minimum":0,"maximum":255},"maxProperties":2}"#,
        ),
    ] {
        assert_eq!(schema.root().get("properties").unwrap().get(name).unwrap().raw(), expected);
    }
}

record! {
    /// Action on a pin
    #[derive(Debug, PartialEq)]
    pub(crate) enum Action tagged "kind" {
        Stop,
        /// Keeps the level
        Hold as "hold" {
            /// Milliseconds
            millis as "forMs": u32 [1..=60],
            note: Option<String>,
            times: u8 = 3,
        },
        Group { actions: Vec<Inner> },
    }
}
record! {
    #[derive(Debug, PartialEq)]
    pub(crate) enum Inner tagged "type" { A { x: i8 }, B {} }
}
record! {
    #[derive(Debug, PartialEq)]
    struct Program { name: String, first: Action, by_name: HashMap<String, Action> = HashMap::new() }
}

#[test]
fn an_enum_with_data_is_read_and_written_by_its_tag() {
    for (text, expected) in [
        (r#"{"kind":"Stop"}"#, r#"{"kind":"Stop"}"#),
        (r#"{"forMs":5,"kind":"hold"}"#, r#"{"kind":"hold","forMs":5,"times":3}"#),
        (
            r#"{"kind":"hold","times":1,"note":"x","forMs":5}"#,
            r#"{"kind":"hold","forMs":5,"note":"x","times":1}"#,
        ),
        (
            r#"{"kind":"Group","actions":[{"type":"A","x":-1},{"type":"B"}]}"#,
            r#"{"kind":"Group","actions":[{"type":"A","x":-1},{"type":"B"}]}"#,
        ),
        ("\"Stop\"", "expected an object with the member `kind`, got the string \"Stop\" (type)"),
        ("{}", "missing `kind` (required)"),
        (
            r#"{"kind":"stop"}"#,
            "/kind: expected one of \"Stop\", \"hold\", \"Group\", got the string \"stop\", did you mean \"Stop\"? (enum)",
        ),
        (r#"{"kind":7}"#, "/kind: expected one of \"Stop\", \"hold\", \"Group\", got 7 (type)"),
        (r#"{"kind":"hold"}"#, "missing `forMs` (required)"),
        (r#"{"kind":"hold","forMs":61}"#, "/forMs: expected an integer from 1 to 60, got 61 (maximum)"),
        (r#"{"kind":"Stop","forMs":5}"#, "unknown member `forMs`. Allowed are `kind` (additionalProperties)"),
        (
            r#"{"kind":"Group","actions":[{"type":"A","x":200}]}"#,
            "/actions/0/x: expected an integer from -128 to 127, got 200 (maximum)",
        ),
    ] {
        assert_eq!(through::<Action>(text), expected, "{text}");
    }
    assert_eq!(
        through::<Program>(
            r#"{"name":"p","first":{"kind":"Stop"},"by_name":{"x":{"kind":"hold","forMs":0}}}"#
        ),
        "/by_name/x/forMs: expected an integer from 1 to 60, got 0 (minimum)"
    );
}

#[test]
fn an_enum_with_data_has_a_schema_for_each_variant() {
    assert_eq!(
        record::schema::<Action>().as_str(),
        concat!(
            r#"{"type":"object","description":"Action on a pin","anyOf":["#,
            r#"{"type":"object","properties":{"kind":{"const":"Stop"}},"required":["kind"],"additionalProperties":false},"#,
            r#"{"type":"object","description":"Keeps the level","properties":{"kind":{"const":"hold"},"#,
            r#""forMs":{"type":"integer","description":"Milliseconds","minimum":1,"maximum":60},"#,
            r#""note":{"type":"string"},"times":{"type":"integer","minimum":0,"maximum":255,"default":3}},"#,
            r#""required":["kind","forMs"],"additionalProperties":false},"#,
            r#"{"type":"object","properties":{"kind":{"const":"Group"},"actions":{"type":"array","items":{"type":"object","anyOf":["#,
            r#"{"type":"object","properties":{"type":{"const":"A"},"x":{"type":"integer","minimum":-128,"maximum":127}},"#,
            r#""required":["type","x"],"additionalProperties":false},"#,
            r#"{"type":"object","properties":{"type":{"const":"B"}},"required":["type"],"additionalProperties":false}]}}},"#,
            r#""required":["kind","actions"],"additionalProperties":false}]}"#,
        )
    );
}

#[test]
fn an_enum_with_data_is_the_arguments_and_the_result_of_a_tool() {
    let mut server = tinymcp::Server::new("test", "1");
    server.tool(tinymcp::Tool::new("act"), |_, action: Action| Ok(Structured(vec![action]))).unwrap();
    let (link, mut client) = tinymcp::memory();
    let serving = std::thread::spawn(move || server.serve(link));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "act", "arguments": {"kind": "hold", "forMs": 9}, "_meta": meta});
    let answer = client.request("tools/call", params, std::time::Duration::from_secs(20)).unwrap().to_doc();
    assert_eq!(
        answer.root().pointer("/result/structuredContent").unwrap().raw(),
        r#"[{"kind":"hold","forMs":9,"times":3}]"#
    );
    client.finish();
    serving.join().unwrap().unwrap();
}
