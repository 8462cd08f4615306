//! The server that reads the sequences of frames, and its responses in memory. The fuzz target of the whole server
//! includes this file.

use std::time::Duration;

use tinymcp::json::Json;
use tinymcp::{
    Completion, Context, Level, Prompt, PromptOutput, Resource, Server, Template, Tool, ToolError, choice,
    json, memory, record,
};

/// The frame that opens a session of this revision.
pub(crate) fn opening(revision: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"open","method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    )
}

choice! {
    #[derive(Clone, Copy, Debug)]
    enum Kind { Low, High, Off }
}

record! {
    #[derive(Debug)]
    struct List {
        /// Numbers
        l: Vec<f64>,
        whole: Option<Vec<i64>>,
    }
}

record! {
    #[derive(Debug)]
    struct Mixed {
        text: String,
        kind: Option<Kind>,
        n: Option<i64>,
        list: Option<Vec<String>>,
        inner: Option<List>,
    }
}

/// Two tools of each kind: with typed arguments, with any, and with a checked schema.
pub(crate) const TOOLS: [&str; 6] = ["list", "mixed", "any", "checked", "noisy", "fails"];

fn noisy(ctx: &mut Context<'_>, arguments: Json) -> Result<String, ToolError> {
    ctx.log(Level::Error, Some("rig"), "called")?;
    ctx.progress(1.0, Some(2.0), Some("half"));
    Ok(arguments.as_str().to_owned())
}

/// A server whose handlers run on the reader thread, or on the pool. Every response depends on the request alone.
///
/// Resources, prompts and completions always run on the pool, so only a pooled server has them.
pub(crate) fn server(pooled: bool) -> Server {
    let mut server = Server::new("rig", "1");
    server.logging().request_state_key([7; 32]);
    macro_rules! tool {
        ($tool:expr, $handler:expr) => {
            if pooled {
                server.tool($tool, $handler).expect("a tool");
            } else {
                server.inline_tool($tool, $handler).expect("a tool");
            }
        };
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "l": {"type": "array", "items": {"type": "integer", "maximum": 100_000}, "maxItems": 6},
            "text": {"type": "string", "pattern": "^[a-z]*$"},
            "n": {"enum": [1, 2.5, "x", null]}
        },
        "required": ["l"]
    });
    tool!(Tool::new("list"), |_, arguments: List| Ok(format!("{arguments:?}")));
    tool!(Tool::new("mixed"), |_, arguments: Mixed| Ok(format!("{arguments:?}")));
    tool!(Tool::new("any"), |_, arguments: Json| Ok(arguments.as_str().to_owned()));
    tool!(Tool::new("checked").input_schema(schema), |_, arguments: Json| Ok(arguments.as_str().to_owned()));
    tool!(Tool::new("noisy"), noisy);
    tool!(Tool::new("fails"), |_, arguments: Json| Err::<&str, _>(ToolError::new(
        arguments.as_str().to_owned()
    )));
    if pooled {
        add_pooled(&mut server);
    }
    server
}

fn add_pooled(server: &mut Server) {
    server.resource(Resource::new("rig:note", "note"), |_, uri| Ok(uri.to_owned())).expect("a resource");
    let template = Template::new("rig:{a}{/b}", "pair").expect("a template");
    server.template(template, |_, _, found| Ok(format!("{found:?}"))).expect("a template");
    let prompt = Prompt::new("greet").argument(tinymcp::Argument::optional("who"));
    server
        .prompt(prompt, |_, arguments| Ok(PromptOutput::new().user(arguments.get("who").unwrap_or("nobody"))))
        .expect("a prompt");
    server.complete_prompt("greet", "who", |asked| Completion::new([asked.value])).expect("a completion");
}

/// Everything that a server sends when it reads these frames, served on this thread.
///
/// The link is bounded: at most 256 frames in, and as many messages out.
pub(crate) fn answers(server: Server, frames: &[&str]) -> Vec<String> {
    let (link, mut end) = memory();
    for frame in frames {
        assert!(end.send(frame));
    }
    end.finish();
    server.into_local().serve(link).expect("the input ends");
    std::iter::from_fn(|| end.receive(Duration::ZERO)).collect()
}
