//! `conformance/peers/rmcp`, which speaks both eras.

use std::sync::mpsc;
use std::time::Duration;

use tinymcp::{Body, Change, CompletionTarget, ErrorKind, Progress, ServerCapabilities, json};

use super::{Session, fails, folder_uri, holds, names, same, steps};

const TOOLS: [&str; 9] =
    ["add", "colour", "count", "fail", "roots", "stopped_waiting", "touch", "wait", "zone"];

pub(crate) fn check(s: &mut Session) {
    let mut offer = ServerCapabilities::default();
    (offer.tools, offer.resources, offer.prompts, offer.completions) = (true, true, true, true);
    offer.subscribe = true;
    s.check_offer(offer);
    s.check("ping", |s| Ok(s.client.ping()?));
    s.check("tools", |s| {
        let tools = s.client.tools()?;
        same(names(tools.iter().map(|t| t.name.as_str())).as_slice(), &TOOLS, "tools")
    });
    s.check("call", |s| same(s.texts("add", json!({"a": 40, "b": 2}))?.as_str(), "42", "sum"));
    s.check("call, failing", |s| {
        let output = s.client.call_tool("fail", json!({}))?;
        same(&output.is_error, &true, "whether it failed")
    });
    s.check("call, no such tool", |s| fails(s.client.call_tool("none", ()), ErrorKind::Remote, Some(-32602)));
    s.check("progress", |s| {
        let (step, told) = mpsc::channel();
        let request = s.client.request_tool("count", json!({"steps": 3}));
        let output = request.on_progress(move |p: Progress| drop(step.send(p))).wait()?;
        same(output.texts().as_str(), "counted to 3", "text")?;
        let expected = [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))];
        same(steps(&told).as_slice(), &expected, "progress")
    });
    s.check("cancel", |s| {
        s.cancel(s.client.request_tool("wait", json!({})))?;
        // It takes notice on a task of its own: asked until it has, each time in a call.
        for _ in 0..1000 {
            if s.texts("stopped_waiting", json!({}))? == "true" {
                return Ok(());
            }
        }
        Err("the tool was not stopped".to_owned().into())
    });
    s.check("resources", |s| {
        let resources = s.client.resources()?;
        same(names(resources.iter().map(|r| r.uri.as_str())).as_slice(), &["note://one"], "resources")
    });
    s.check("read", |s| {
        let body = s.client.read_resource("note://one")?.contents.into_iter().map(|c| c.body).next();
        same(&body, &Some(Body::Text("first".into())), "contents")
    });
    s.check("read, nothing there", |s| fails(s.client.read_resource("note://two"), ErrorKind::Remote, None));
    s.check("prompts", |s| {
        let prompts = s.client.prompts()?;
        same(names(prompts.iter().map(|p| p.name.as_str())).as_slice(), &["greet"], "prompts")
    });
    s.check("prompt", |s| {
        let prompt = s.client.prompt("greet", &[("name", "Anna")])?;
        holds(&format!("{:?}", prompt.messages), "Greet Anna")
    });
    s.check("complete", |s| {
        let found = s.client.complete(CompletionTarget::Prompt("greet"), "name", "an", &[])?;
        same(found.values.as_slice(), &["anna".to_owned(), "anton".to_owned()], "values")
    });
    s.check("subscribe", |s| {
        s.client.subscribe("note://one")?;
        // It says yes before the task that looks for changes has begun: touched until that has seen one.
        let updated = Change::Updated("note://one".into());
        for _ in 0..20 {
            s.texts("touch", json!({}))?;
            if s.changed_within(&updated, Duration::from_millis(500)).is_ok() {
                return Ok(s.client.unsubscribe("note://one")?);
            }
        }
        s.changed(&updated)
    });
    s.check("elicitation", |s| same(s.texts("zone", json!({}))?.as_str(), "north", "answer"));
    s.check("sampling", |s| {
        same(s.texts("colour", json!({}))?.as_str(), "toy says blue, 10 tokens, Be short.", "answer")
    });
    s.check("roots", |s| same(s.texts("roots", json!({}))?.as_str(), &folder_uri("first"), "roots"));
}
