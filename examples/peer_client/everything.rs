//! The reference server that has one of everything, in the older era.

use std::sync::mpsc;
use std::time::Duration;

use tinymcp::json::{Json, Value};
use tinymcp::{Body, Change, CompletionTarget, ErrorKind, Progress, ServerCapabilities, json};

use super::{Session, fails, first_is_image, folder_uri, holds, names, same, steps, structured};

/// "URL elicitation required".
const URL_FIRST: i32 = -32042;

const TOOLS: [&str; 17] = [
    "echo",
    "get-annotated-message",
    "get-env",
    "get-resource-links",
    "get-resource-reference",
    "get-roots-list",
    "get-structured-content",
    "get-sum",
    "get-tiny-image",
    "gzip-file-as-resource",
    "simulate-research-query",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    "trigger-elicitation-request",
    "trigger-long-running-operation",
    "trigger-sampling-request",
    "trigger-url-elicitation",
];

pub(crate) fn check(s: &mut Session) {
    let mut offer = ServerCapabilities::default();
    (offer.tools, offer.tools_changed) = (true, true);
    (offer.resources, offer.resources_changed, offer.subscribe) = (true, true, true);
    (offer.prompts, offer.prompts_changed) = (true, true);
    (offer.completions, offer.logging) = (true, true);
    s.check_offer(offer);
    s.check("server", |s| {
        let server = s.client.server();
        same(server.name.as_str(), "mcp-servers/everything", "name")?;
        holds(&server.instructions.unwrap_or_default(), "Everything")
    });
    s.check("ping", |s| Ok(s.client.ping()?));
    lists(s);
    calls(s);
    resources(s);
    questions(s);
}

fn lists(s: &mut Session) {
    s.check("tools", |s| {
        let tools = s.client.tools()?;
        let expected = TOOLS.to_vec();
        same(&names(tools.iter().map(|t| t.name.as_str())), &expected, "tools")
    });
    s.check("prompts", |s| {
        let prompts = s.client.prompts()?;
        let expected = ["args-prompt", "completable-prompt", "resource-prompt", "simple-prompt"];
        same(names(prompts.iter().map(|p| p.name.as_str())).as_slice(), &expected, "prompts")
    });
    s.check("resources", |s| {
        let resources = s.client.resources()?;
        let expected = "demo://resource/static/document/architecture.md";
        same(&resources.iter().any(|r| r.uri == expected), &true, "whether the document is there")
    });
    s.check("templates", |s| {
        let templates = s.client.templates()?;
        let expected =
            ["demo://resource/dynamic/blob/{resourceId}", "demo://resource/dynamic/text/{resourceId}"];
        let found: Vec<String> = templates.iter().map(|t| t.uri_template().to_string()).collect();
        same(names(found.iter().map(String::as_str)).as_slice(), &expected, "templates")
    });
}

fn calls(s: &mut Session) {
    s.check("call", |s| same(s.texts("echo", json!({"message": "ähm ☃"}))?.as_str(), "Echo: ähm ☃", "echo"));
    s.check("call, numbers", |s| holds(&s.texts("get-sum", json!({"a": 2, "b": 40.5}))?, "is 42.5"));
    s.check("call, wrong arguments", |s| {
        let output = s.client.call_tool("get-sum", json!({"a": "two"}))?;
        same(&output.is_error, &true, "whether it failed")
    });
    s.check("call, no such tool", |s| {
        let output = s.client.call_tool("no-such-tool", json!({}))?;
        same(&output.is_error, &true, "whether it failed")
    });
    s.check("call, picture", |s| {
        let output = s.client.call_tool("get-tiny-image", json!({}))?;
        same(&first_is_image(&output), &true, "whether there is a picture")
    });
    s.check("call, structured", |s| {
        let output = s.client.call_tool("get-structured-content", json!({"location": "Chicago"}))?;
        let doc = structured(&output)?;
        let humidity = doc.root().get("humidity").and_then(Value::as_f64);
        same(&humidity, &Some(82.0), "humidity")
    });
    s.check("progress", |s| {
        let (step, told) = mpsc::channel();
        let request =
            s.client.request_tool("trigger-long-running-operation", json!({"duration": 0.3, "steps": 3}));
        let output = request.on_progress(move |p: Progress| drop(step.send(p))).wait()?;
        holds(&output.texts(), "Steps: 3")?;
        let expected = [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))];
        same(steps(&told).as_slice(), &expected, "progress")
    });
    let endless = || json!({"duration": 60, "steps": 600});
    s.check("cancel", |s| {
        s.cancel(s.client.request_tool("trigger-long-running-operation", endless()))?;
        holds(&s.texts("echo", json!({"message": "afterwards"}))?, "afterwards")
    });
    s.check("deadline", |s| {
        let request = s.client.request_tool("trigger-long-running-operation", endless());
        fails(request.timeout(Duration::from_millis(200)).wait(), ErrorKind::Timeout, None)?;
        holds(&s.texts("echo", json!({"message": "afterwards"}))?, "afterwards")
    });
    s.check("many at once", |s| {
        let calls: Result<Vec<_>, _> = (0..50)
            .map(|n| s.client.request_tool("echo", json!({"message": (n.to_string())})).start())
            .collect();
        for (n, call) in calls?.into_iter().enumerate().rev() {
            same(call.wait()?.texts().as_str(), &format!("Echo: {n}"), "echo")?;
        }
        Ok(())
    });
}

fn resources(s: &mut Session) {
    s.check("read", |s| {
        let read = s.client.read_resource("demo://resource/dynamic/text/7")?;
        match read.contents.first().map(|c| &c.body) {
            Some(Body::Text(text)) => holds(text, "Resource 7"),
            other => Err(format!("{other:?} is no text").into()),
        }
    });
    s.check("read, bytes", |s| {
        let read = s.client.read_resource("demo://resource/dynamic/blob/7")?;
        match read.contents.first().map(|c| &c.body) {
            Some(Body::Bytes(bytes)) => {
                same(&bytes.starts_with(b"Resource 7"), &true, "whether the bytes fit")
            }
            other => Err(format!("{other:?} are no bytes").into()),
        }
    });
    s.check("read, nothing there", |s| {
        fails(s.client.read_resource("demo://nowhere"), ErrorKind::Remote, Some(-32602))
    });
    s.check("prompt", |s| {
        let prompt = s.client.prompt("args-prompt", &[("city", "Paris"), ("state", "Texas")])?;
        holds(&format!("{:?}", prompt.messages), "Paris, Texas")
    });
    s.check("prompt, resource inside", |s| {
        let prompt = s.client.prompt("resource-prompt", &[("resourceType", "Text"), ("resourceId", "3")])?;
        holds(&format!("{:?}", prompt.messages), "demo://resource/dynamic/text/3")
    });
    s.check("prompt, argument missing", |s| {
        fails(s.client.prompt("args-prompt", &[]), ErrorKind::Remote, Some(-32602))
    });
    s.check("complete", |s| {
        let found =
            s.client.complete(CompletionTarget::Prompt("completable-prompt"), "department", "S", &[])?;
        same(names(found.values.iter().map(String::as_str)).as_slice(), &["Sales", "Support"], "values")
    });
    s.check("complete, argument settled", |s| {
        let settled = [("department", "Sales")];
        let found =
            s.client.complete(CompletionTarget::Prompt("completable-prompt"), "name", "D", &settled)?;
        same(names(found.values.iter().map(String::as_str)).as_slice(), &["David"], "values")
    });
    s.check("complete, template", |s| {
        let about = CompletionTarget::Template("demo://resource/dynamic/text/{resourceId}");
        same(
            s.client.complete(about, "resourceId", "12", &[])?.values.as_slice(),
            &["12".to_owned()],
            "values",
        )
    });
    s.check("subscribe", |s| {
        let uri = "demo://resource/dynamic/text/1";
        s.client.subscribe(uri)?;
        s.texts("toggle-subscriber-updates", json!({}))?;
        s.changed(&Change::Updated(uri.into()))?;
        s.texts("toggle-subscriber-updates", json!({}))?;
        Ok(s.client.unsubscribe(uri)?)
    });
    s.check("log", |s| s.logged("Received Subscribe Resource request"));
}

fn questions(s: &mut Session) {
    s.check("sampling", |s| {
        let said = s.texts("trigger-sampling-request", json!({"prompt": "a colour", "maxTokens": 17}))?;
        holds(&said, "blue, 17 tokens, You are a helpful test server.")
    });
    s.check("elicitation", |s| {
        let said = s.texts("trigger-elicitation-request", json!({}))?;
        holds(&said, "Name: Anna")?;
        // Not filled in: the form's own defaults.
        holds(&said, "Favorite Integer: 42")
    });
    s.check("elicitation, URL", |s| {
        let arguments = json!({"url": "https://example.org/", "message": "Look", "errorPath": false});
        holds(&s.texts("trigger-url-elicitation", arguments)?, "completed the URL elicitation")
    });
    s.check("elicitation, URL first", |s| {
        // The server wants a page visited before the call: an error that says which, then the call again.
        let arguments = || json!({"url": "https://example.org/", "message": "Look", "errorPath": true});
        let error = match s.client.call_tool("trigger-url-elicitation", arguments()) {
            Err(error) if error.code() == Some(URL_FIRST) => error,
            other => return Err(format!("{other:?} instead of error {URL_FIRST}").into()),
        };
        let pages = error.data().map(Json::to_doc).ok_or_else(|| "no data".to_owned())?;
        let page = pages.root().get("elicitations").and_then(|e| e.items().next());
        let page = page.and_then(|p| p.get("url")).and_then(Value::as_str);
        same(&page, &Some("https://modelcontextprotocol.io"), "page")?;
        holds(&s.texts("trigger-url-elicitation", arguments())?, "completed the URL elicitation")
    });
    s.check("roots", |s| holds(&s.texts("get-roots-list", json!({}))?, &folder_uri("first")));
}
