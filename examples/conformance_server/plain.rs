//! Tools that answer by themselves: every kind of content, progress, log entries, errors.

use std::time::Duration;

use tinymcp::json::Json;
use tinymcp::{Content, Context, Error, Level, ResourceContents, Server, Tool, ToolError, ToolOutput, json};

use crate::Nothing;

/// One transparent pixel.
pub(crate) const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\rIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";
/// A wave file without a sample.
const WAV: &[u8] = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0";

/// Between two steps of a call that reports.
const STEP: Duration = Duration::from_millis(50);

tinymcp::record! {
    struct Where {
        region: Option<String>,
    }
}

pub(crate) fn add(server: &mut Server) -> Result<(), Error> {
    server
        .tool(Tool::new("test_simple_text").description("Gives a text").read_only(), |_, _: Nothing| {
            Ok("This is a simple text response for testing.")
        })?
        .tool(Tool::new("test_image_content").description("Gives an image").read_only(), |_, _: Nothing| {
            Ok(Content::image(PNG, "image/png"))
        })?
        .tool(Tool::new("test_audio_content").description("Gives a sound").read_only(), |_, _: Nothing| {
            Ok(Content::audio(WAV, "audio/wav"))
        })?
        .tool(
            Tool::new("test_embedded_resource").description("Gives a resource").read_only(),
            |_, _: Nothing| {
                let text = "This is an embedded resource content.";
                let contents =
                    ResourceContents::text("test://embedded-resource", text).mime_type("text/plain");
                Ok(Content::embedded(contents))
            },
        )?
        .tool(Tool::new("test_multiple_content_types").description("Gives three things"), |_, _: Nothing| {
            let text = r#"{"test":"data","value":123}"#;
            let contents = ResourceContents::text("test://mixed-content-resource", text);
            Ok(ToolOutput::text("Multiple content types test:")
                .content(Content::image(PNG, "image/png"))
                .content(Content::embedded(contents.mime_type("application/json"))))
        })?
        .tool(Tool::new("test_error_handling").description("Fails"), |_, _: Nothing| {
            Err::<(), _>(ToolError::new("This tool intentionally returns an error for testing"))
        })?
        .tool(Tool::new("test_tool_with_progress").description("Reports its progress"), |ctx, _: Nothing| {
            for done in [0.0, 50.0, 100.0] {
                ctx.progress(done, Some(100.0), Some("Working"));
                ctx.wait(STEP)?;
            }
            Ok("Done")
        })?
        .tool(Tool::new("test_tool_with_logging").description("Logs what it does"), log)?
        .tool(Tool::new("test_logging_tool").description("Logs what it does"), log)?
        .tool(
            Tool::new("test_reconnection").description("Lets its client go, and come back"),
            |ctx, _: Nothing| {
                ctx.detach(Duration::from_millis(500));
                ctx.wait(2 * STEP)?;
                Ok("Reconnection test completed successfully")
            },
        )?
        .tool(headers(), |_, arguments: Where| {
            Ok(format!("region: {}", arguments.region.as_deref().unwrap_or("none")))
        })?
        .tool(json_schema(), |_, arguments: Json| {
            Ok(format!("JSON Schema 2020-12 tool called with: {}", arguments.as_str()))
        })?;
    Ok(())
}

fn log(ctx: &mut Context<'_>, _: Nothing) -> Result<&'static str, ToolError> {
    for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        ctx.log(Level::Info, Some("conformance"), json!(text))?;
        ctx.wait(STEP)?;
    }
    Ok("Logged")
}

/// A tool with an argument that travels in a header too.
fn headers() -> Tool {
    Tool::new("test_x_mcp_header").description("Takes a region").input_schema(json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}
    }))
}

/// A tool whose schema must come back as it is, keyword by keyword.
fn json_schema() -> Tool {
    Tool::new("json_schema_2020_12_tool")
        .description("Tool with JSON Schema 2020-12 features for conformance testing (SEP-1613, SEP-2106)")
        .input_schema(json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
                }
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"}
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false
        }))
}
