//! Lists of a server, and failures of requests with the nearest names.

use tinymcp::json::{Json, Writer};
use tinymcp::{Client, Error, Tool};

use super::args::Args;
use super::connect;
use super::failure::{FAILED, Failure, Result};
use crate::serve::nearest;

/// A list of a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl List {
    pub(crate) fn parse(kind: &str) -> Result<List> {
        Ok(match kind {
            "tools" => List::Tools,
            "resources" => List::Resources,
            "templates" => List::Templates,
            "prompts" => List::Prompts,
            _ => {
                return Err(
                    format!("unknown list {kind:?}; expected tools, resources, templates, prompts").into()
                );
            }
        })
    }
}

/// Requests lists and returns them as members of one object, with the names of the protocol.
pub(crate) fn list(client: &Client, kinds: &[List]) -> Result<Json, Error> {
    let offer = client.server().offer;
    let wanted = |kind: List, offered: bool| if kinds.is_empty() { offered } else { kinds.contains(&kind) };
    let mut w = Writer::new();
    w.begin_object();
    if wanted(List::Tools, offer.tools) {
        sources(&mut w, "tools", client.tools()?.into_iter().map(|t| t.source));
    }
    if wanted(List::Resources, offer.resources) {
        sources(&mut w, "resources", client.resources()?.into_iter().map(|r| r.source));
    }
    if wanted(List::Templates, offer.resources) {
        sources(&mut w, "resourceTemplates", client.templates()?.into_iter().map(|t| t.source));
    }
    if wanted(List::Prompts, offer.prompts) {
        sources(&mut w, "prompts", client.prompts()?.into_iter().map(|p| p.source));
    }
    w.end_object();
    Ok(w.into_json())
}

fn sources(w: &mut Writer, name: &str, entries: impl Iterator<Item = Option<Json>>) {
    w.key(name).begin_array();
    for entry in entries.flatten() {
        w.json(&entry);
    }
    w.end_array();
}

/// Returns the failure of a request, with a hint if the server returned an error. Its data is
/// printed at once.
pub(crate) fn request_failure(args: &Args, error: &Error, hint: impl FnOnce() -> String) -> Failure {
    let mut failure = Failure::of_request(&connect::name(args), error);
    if failure.status == FAILED {
        failure.message.push_str(&hint());
    }
    if let Some(data) = error.data() {
        if data.to_doc().root().pointer("/requiredCapabilities/elicitation").is_some() {
            failure.message.push_str("; the tool asks the user: run it at a terminal, or give --answer");
        }
        failure.data = Some(data.as_str().to_owned());
    }
    failure
}

/// Returns a suggestion if no entry has this name.
pub(crate) fn suggestion<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let known: Vec<&str> = known.collect();
    if known.is_empty() || known.contains(&name) {
        return String::new();
    }
    // Every short name is near to every other one.
    match nearest(name, &mut known.iter().copied()).filter(|near| near.len() > 2) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => format!("; it has {}", shown(&known)),
    }
}

/// Joins the first names.
fn shown(names: &[&str]) -> String {
    const MOST: usize = 12;
    let mut text = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text.push_str(&format!(" and {} more", names.len() - MOST));
    }
    text
}

/// Returns the tool with this name.
pub(crate) fn find(args: &Args, client: &Client, name: &str) -> Result<Tool> {
    let tools = client.tools().map_err(|error| request_failure(args, &error, String::new))?;
    let hint = suggestion(name, tools.iter().map(|tool| tool.name.as_str()));
    tools
        .into_iter()
        .find(|tool| tool.name == name)
        .ok_or_else(|| Failure::new(FAILED, format!("{}: no tool {name:?}{hint}", connect::name(args))))
}
