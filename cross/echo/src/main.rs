//! An echo server over stdio whose arguments are checked by a JSON Schema: the program of the size budget.

use tinymcp::json::Json;
use tinymcp::{ToolError, Server, Tool};

const SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string","maxLength":1048576}},
    "required":["text"],"additionalProperties":false}"#;

fn main() -> Result<(), tinymcp::Error> {
    let mut server = Server::new("echo", "1");
    let schema = Json::parse(SCHEMA).unwrap_or(Json::NULL);
    let tool = Tool::new("echo").description("Gives the text back").input_schema(schema);
    server.tool(tool, |_, arguments: Json| -> Result<String, ToolError> {
        let doc = arguments.to_doc();
        drop(arguments);
        Ok(doc.root().get("text").and_then(|text| text.as_str()).unwrap_or_default().to_owned())
    })?;
    server.serve_stdio()
}
