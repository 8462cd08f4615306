//! One tool, typed by serde and schemars.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tinymcp::{Serde, Server, Tool};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("one", "1.0.0");
    server.inline_tool(Tool::new("add").description("Adds two numbers"), |_, Serde(args): Serde<Add>| {
        Ok(Serde(Sum { sum: args.a.saturating_add(args.b) }))
    })?;
    server.serve_stdio()
}
