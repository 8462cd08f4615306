//! The client that the official conformance suite drives: `conformance/client.sh` runs it.
//!
//! The suite starts it with the URL of a server of its own, names the scenario in an environment
//! variable and watches what arrives. Each scenario is what an ordinary program would do.
//!
//! ```text
//! MCP_CONFORMANCE_SCENARIO=tools_call conformance_client http://127.0.0.1:8080/mcp
//! ```

use std::env;
use std::process::ExitCode;

use tinymcp::json::{Doc, Json, Value};
use tinymcp::{Action, Client, Era, Error, ErrorKind, FormResponse, Root, SampleResponse, Tool, json};

fn main() -> ExitCode {
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let url = env::args().next_back().unwrap_or_default();
    match connect(&url).and_then(|client| run(&client, &scenario)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn connect(url: &str) -> Result<Client, Error> {
    let client = Client::builder("tinymcp-conformance", "1.0.0")
        // Accepts what the form proposes.
        .on_form(|_| Ok(FormResponse::accept(json!({}))))
        .on_url(|_| Ok(Action::Decline))
        .on_sample(|_| Ok(SampleResponse::new("none").text("an answer")))
        .roots([Root { uri: "file:///tmp".into(), name: None }])
        .on_log(tinymcp::Level::Info, |_| {});
    // The suite says which revision it tests; the mock servers of one do not bear the other.
    let client = match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").as_deref() {
        Ok("2026-07-28") => client.era(Era::Modern),
        Ok(_) => client.era(Era::Legacy),
        Err(_) => client,
    };
    client.connect(url)
}

fn run(client: &Client, scenario: &str) -> Result<(), Error> {
    // The server of this scenario has no tools.
    let tools = if scenario == "initialize" { Vec::new() } else { client.tools()? };
    let nothing = || json!({});
    match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {}
        "tools_call" => {
            client.call_tool("add_numbers", json!({"a": 5, "b": 3}))?;
        }
        "elicitation-sep1034-client-defaults" => {
            client.call_tool("test_client_elicitation_defaults", nothing())?;
        }
        "sse-retry" => {
            client.call_tool("test_reconnection", nothing())?;
        }
        "http-standard-headers" => {
            call_all(client, &tools)?;
            for resource in client.resources()? {
                client.read_resource(&resource.uri)?;
            }
            for prompt in client.prompts()? {
                client.prompt(&prompt.name, &[])?;
            }
        }
        "http-custom-headers" => {
            for call in context()?.root().get("toolCalls").into_iter().flat_map(Value::items) {
                let name = call.get("name").and_then(Value::as_str).unwrap_or_default();
                client.call_tool(name, call.get("arguments").map_or_else(nothing, Value::to_json))?;
            }
        }
        // Calls what the library kept.
        "http-invalid-tool-headers" => call_all(client, &tools)?,
        "sep-2322-client-request-state" => {
            // One call asks back while another comes and goes.
            let asking = client.request_tool("test_mrtr_echo_state", nothing()).start()?;
            client.call_tool("test_mrtr_unrelated", nothing())?;
            asking.wait()?;
            client.call_tool("test_mrtr_no_state", nothing())?;
            client.call_tool("test_mrtr_no_result_type", nothing())?;
        }
        "json-schema-2020-12-preservation" => {
            let schema = tools.iter().find(|tool| tool.name != "json_schema_echo");
            let schema = schema.and_then(|tool| tool.input_schema.clone()).unwrap_or_else(nothing);
            client.call_tool("json_schema_echo", json!({"schema": (schema)}))?;
        }
        other => return Err(Error::new(ErrorKind::Misuse, format!("no scenario {other:?}"))),
    }
    client.close();
    Ok(())
}

fn call_all(client: &Client, tools: &[Tool]) -> Result<(), Error> {
    for tool in tools {
        client.call_tool(&tool.name, arguments(tool))?;
    }
    Ok(())
}

/// Something for every string that a tool requires.
fn arguments(tool: &Tool) -> Json {
    let Some(schema) = &tool.input_schema else { return json!({}) };
    let schema = schema.to_doc();
    let mut w = tinymcp::json::Writer::new();
    w.begin_object();
    for name in schema.root().get("required").into_iter().flat_map(Value::items).filter_map(Value::as_str) {
        w.key(name).string("x");
    }
    w.end_object();
    w.into_json()
}

/// What the suite has to say about the scenario.
fn context() -> Result<Doc, Error> {
    let text = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    Doc::parse(text).map_err(|e| Error::new(ErrorKind::Invalid, format!("MCP_CONFORMANCE_CONTEXT: {e}")))
}
