//! A server whose tool `panic` panics, built so that this ends the process; cross/board.sh checks what the
//! client has by then.

use tinymcp::json::Json;
use tinymcp::{ToolError, Server, Tool};

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("panics", "1");
    server.inline_tool(Tool::new("echo"), |_, arguments: Json| -> Result<String, ToolError> {
        Ok(arguments.to_doc().root().get("text").and_then(|text| text.as_str()).unwrap_or_default().to_owned())
    })?;
    server.tool(Tool::new("panic"), |_, _: Json| -> Result<String, ToolError> { panic!("as asked") })?;
    server.serve_stdio()
}
