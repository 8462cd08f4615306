//! rmcp in the form of its README: macros, the multi-threaded runtime, blocking standard streams.
//!
//! Serves until standard input ends. With `--many N` it uses the stored route table, because the
//! macro form of the README can only contain tools that are written out.

use rmcp::{ServiceExt, handler::server::wrapper::Parameters, tool, tool_router, transport::stdio};
use rmcp_echo::{AddArgs, EchoArgs, Kept, many_from_args};

#[derive(Clone)]
struct Echo;

#[tool_router(server_handler)]
impl Echo {
    #[tool(description = "Say the text back")]
    fn echo(&self, Parameters(args): Parameters<EchoArgs>) -> String {
        args.text
    }

    #[tool(description = "Add two numbers")]
    fn add(&self, Parameters(args): Parameters<AddArgs>) -> String {
        args.a.saturating_add(args.b).to_string()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    match many_from_args() {
        0 => Echo.serve(stdio()).await?.waiting().await?,
        extra => Kept::new(extra).serve(stdio()).await?.waiting().await?,
    };
    Ok(())
}
