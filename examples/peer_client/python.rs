//! `conformance/peers/server.py`, which speaks both eras.

use std::sync::mpsc;

use tinymcp::{Body, Change, CompletionTarget, Era, ErrorKind, Progress, ServerCapabilities, json};

use super::{Session, fails, folder_uri, holds, names, same, steps};

const TOOLS: [&str; 10] =
    ["add", "colour", "count", "fail", "log", "roots", "stopped_waiting", "touch", "wait", "zone"];

pub(crate) fn check(s: &mut Session) {
    let modern = s.client.era() == Era::Modern;
    let mut offer = ServerCapabilities::default();
    (offer.tools, offer.resources, offer.prompts, offer.completions) = (true, true, true, true);
    // Its subscriptions, and its news, are those of the newer era alone.
    (offer.tools_changed, offer.resources_changed, offer.prompts_changed) = (modern, modern, modern);
    offer.subscribe = modern;
    s.check_offer(offer);
    s.check("ping", |s| Ok(s.client.ping()?));
    s.check("tools", |s| {
        let tools = s.client.tools()?;
        same(names(tools.iter().map(|t| t.name.as_str())).as_slice(), &TOOLS, "tools")
    });
    s.check("call", |s| same(s.texts("add", json!({"a": 40, "b": 2}))?.as_str(), "42", "sum"));
    s.check("call, wrong arguments", |s| {
        let output = s.client.call_tool("add", json!({"a": "forty"}))?;
        same(&output.is_error, &true, "whether it failed")
    });
    s.check("call, failing", |s| {
        let output = s.client.call_tool("fail", json!({}))?;
        same(&output.is_error, &true, "whether it failed")
    });
    s.check("call, no such tool", |s| {
        // An error of the protocol in the specification; of the tool with this server.
        let output = s.client.call_tool("none", ())?;
        same(&output.is_error, &true, "whether it failed")
    });
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
        same(s.texts("stopped_waiting", json!({}))?.as_str(), "true", "whether the tool was stopped")
    });
    resources(s);
    s.check("elicitation", |s| same(s.texts("zone", json!({}))?.as_str(), "north 3", "answer"));
    s.check("sampling", |s| {
        same(s.texts("colour", json!({}))?.as_str(), "toy says blue, 10 tokens, Be short.", "answer")
    });
    s.check("roots", |s| same(s.texts("roots", json!({}))?.as_str(), &folder_uri("first"), "roots"));
    s.check("log", |s| {
        s.texts("log", json!({}))?;
        s.logged("something was done")
    });
}

fn resources(s: &mut Session) {
    s.check("resources", |s| {
        let resources = s.client.resources()?;
        let found = names(resources.iter().map(|r| r.uri.as_str()));
        same(found.as_slice(), &["board://picture", "board://status"], "resources")
    });
    s.check("templates", |s| {
        let templates = s.client.templates()?;
        let found: Vec<String> = templates.iter().map(|t| t.uri_template().to_string()).collect();
        same(found.as_slice(), &["note://{name}".to_owned()], "templates")
    });
    s.check("read", |s| {
        let body = s.client.read_resource("note://anna")?.contents.into_iter().map(|c| c.body).next();
        same(&body, &Some(Body::Text("about anna".into())), "contents")
    });
    s.check("read, bytes", |s| {
        let body = s.client.read_resource("board://picture")?.contents.into_iter().map(|c| c.body).next();
        same(&body, &Some(Body::Bytes(vec![0, 1, 254, 255])), "contents")
    });
    s.check("read, nothing there", |s| {
        // In both eras, although the older one has a code of its own for it.
        fails(s.client.read_resource("board://nowhere"), ErrorKind::Remote, Some(-32602))
    });
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
    if s.client.era() == Era::Modern {
        s.check("subscribe", |s| {
            s.client.subscribe("board://status")?;
            s.texts("touch", json!({}))?;
            s.changed(&Change::Updated("board://status".into()))?;
            Ok(s.client.unsubscribe("board://status")?)
        });
    } else {
        s.check("subscribe, not offered", |s| {
            fails(s.client.subscribe("board://status"), ErrorKind::PeerIncompatible, None)
        });
    }
}
