//! Echo server of both binaries of this package: tools `echo` and `add`, and optionally many more.
//!
//! # Invariants
//! - One route table for the lifetime of the process.
//! - The generated tools have the names and the schema of our own example, so that lists are
//!   comparable.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ServerHandler,
    handler::server::{
        tool::{ToolRoute, ToolRouter},
        wrapper::Parameters,
    },
    model::{CallToolResult, ContentBlock, JsonObject, Tool},
    schemars, tool, tool_handler, tool_router,
};

/// Arguments of `echo`.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub struct EchoArgs {
    /// What to say back.
    pub text: String,
}

/// Arguments of `add`.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
pub struct AddArgs {
    /// First number.
    pub a: i64,
    /// Second number.
    pub b: i64,
}

/// A server that builds its route table once, with any number of tools.
#[derive(Clone)]
pub struct Kept {
    routes: Arc<ToolRouter<Self>>,
}

#[tool_router]
impl Kept {
    #[tool(description = "Say the text back")]
    fn echo(&self, Parameters(args): Parameters<EchoArgs>) -> String {
        args.text
    }

    #[tool(description = "Add two numbers")]
    fn add(&self, Parameters(args): Parameters<AddArgs>) -> String {
        args.a.saturating_add(args.b).to_string()
    }

    /// Creates `extra` generated tools in addition to `echo` and `add`.
    pub fn new(extra: usize) -> Self {
        let mut routes = Self::tool_router();
        for number in 0..extra {
            routes.add_route(generated(number));
        }
        Self {
            routes: Arc::new(routes),
        }
    }
}

#[tool_handler(router = self.routes, name = "rmcp-echo", version = "0.0.0")]
impl ServerHandler for Kept {}

/// Creates a tool with a text and a number as arguments and a fixed text as result.
fn generated(number: usize) -> ToolRoute<Kept> {
    let tool = Tool::new(
        Cow::Owned(format!("tool_{number:04}")),
        Cow::Owned(format!("Generated tool number {number}")),
        Arc::new(schema()),
    );
    ToolRoute::new_dyn(tool, |_call| {
        Box::pin(async { Ok(CallToolResult::success(vec![ContentBlock::text("ok")]).into()) })
    })
}

/// Input schema of the generated tools.
fn schema() -> JsonObject {
    let text = r#"{"type":"object","properties":{"text":{"type":"string","maxLength":1000},"count":{"type":"integer","minimum":0}},"required":["text"],"additionalProperties":false}"#;
    serde_json::from_str(text).expect("OK because the text is a literal of this file")
}

/// Returns the number after `--many` on the command line, else 0.
pub fn many_from_args() -> usize {
    let mut args = std::env::args().skip_while(|arg| arg != "--many");
    args.nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}
