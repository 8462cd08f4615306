//! One tool, typed by miniserde, with a schema by hand.

use miniserde::{Deserialize, Serialize};
use tinymcp::json::Json;
use tinymcp::{Miniserde, Server, Tool};

const ADD: Json = Json::constant(
    r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}"#,
);

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("one", "1.0.0");
    let tool = Tool::new("add").description("Adds two numbers").input_schema(ADD);
    server.inline_tool(tool, |_, Miniserde(args): Miniserde<Add>| {
        Ok(Miniserde(Sum { sum: args.a.saturating_add(args.b) }))
    })?;
    server.serve_stdio()
}
