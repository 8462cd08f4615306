//! Errors of handlers, as a model and a client read them.

use std::fmt;
use std::thread;
use std::time::Duration;

use tinymcp::{ErrorContext, Server, Tool, ToolError, json, memory};

const HANG: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct Broken(Option<std::num::ParseIntError>);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sensor is broken")
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_ref().map(|cause| cause as _)
    }
}

#[test]
fn context_precedes_the_message_and_leaves_protocol_errors_and_questions() {
    let mut server = Server::new("board", "1.0.0");
    server
        .tool(Tool::new("cause"), |_, ()| {
            let broken = Err::<(), _>(Broken("x".parse::<u8>().err()));
            broken.context(format_args!("cannot read {}", "temp1"))
        })
        .unwrap()
        .tool(Tool::new("twice"), |_, ()| {
            Err::<(), _>(Broken(None)).context("cannot read it").context("cannot calibrate")
        })
        .unwrap()
        .tool(Tool::new("none"), |_, ()| Ok::<_, Broken>("fine").context("cannot happen"))
        .unwrap()
        .tool(Tool::new("protocol"), |_, ()| {
            Err::<(), _>(ToolError::protocol(7, "out of paper", None)).context("cannot print")
        })
        .unwrap()
        .tool(Tool::new("question"), |ctx, ()| {
            let roots = ctx.roots("roots").context("cannot ask")?;
            Ok(format!("{} roots", roots.len()))
        })
        .unwrap();
    let (link, mut client) = memory();
    let serving = thread::spawn(move || server.serve(link));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    });
    for (name, place, expected) in [
        (
            "cause",
            "/result/content/0/text",
            "cannot read temp1: the sensor is broken: invalid digit found in string",
        ),
        ("twice", "/result/content/0/text", "cannot calibrate: cannot read it: the sensor is broken"),
        ("none", "/result/content/0/text", "fine"),
        ("protocol", "/error/message", "out of paper"),
        ("question", "/result/inputRequests/roots/method", "roots/list"),
    ] {
        let response = client.request("tools/call", json!({"name": name, "_meta": meta}), HANG).unwrap();
        let response = response.to_doc();
        let text = response.root().pointer(place).and_then(|text| text.as_str());
        assert_eq!(text, Some(expected), "{name}: {response:?}");
    }
    client.finish();
    serving.join().unwrap().unwrap();
}
