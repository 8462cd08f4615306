//! Lists of a server, and failures of requests with the nearest names.

use std::path::{Path, PathBuf};

use tinymcp::json::{Json, Writer};
use tinymcp::{Client, Config, Error, Tool};

use super::args::Args;
use super::connect;
use super::failure::{FAILED, Failure, Result};
use super::output::Output;
use crate::escape::one_line;
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
        const KINDS: [(&str, List); 4] = [
            ("tools", List::Tools),
            ("resources", List::Resources),
            ("templates", List::Templates),
            ("prompts", List::Prompts),
        ];
        let found = KINDS.iter().find(|(name, _)| !kind.is_empty() && name.starts_with(kind));
        found.map(|(_, list)| *list).ok_or_else(|| {
            format!("unknown list {kind:?}; expected tools, resources, templates, prompts").into()
        })
    }
}

/// Returns the configuration file, if there is one.
pub(crate) fn configuration(given: Option<PathBuf>) -> Option<PathBuf> {
    given.or_else(crate::discovery::find)
}

/// Returns the keys of the servers in a configuration file.
pub(crate) fn keys(file: &Path) -> Result<Vec<String>> {
    let refusal = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let text = connect::read_configuration(file).map_err(|error| refusal(&error))?;
    let config = Config::parse(&text).map_err(|error| refusal(&error))?;
    Ok(config.keys().map(str::to_owned).collect())
}

/// Prints the keys of the servers in a configuration file.
pub(crate) fn servers(file: &Path, output: &Output) -> Result<u8> {
    let keys = keys(file)?;
    if output.is_text() {
        let keys: String = keys.iter().map(|key| format!("  {}:\n", one_line(key))).collect();
        let file = one_line(&file.display().to_string());
        output.write(&format!("servers of {file}\n{keys}"))?;
        return Ok(0);
    }
    let mut w = Writer::new();
    w.begin_object().key("servers").begin_array();
    keys.iter().for_each(|key| _ = w.string(key));
    w.end_array().end_object();
    output.print(w.into_json().to_doc().root())?;
    Ok(0)
}

/// Requests lists and returns them as members of one object, with the names of the protocol.
pub(crate) fn list(client: &Client, kinds: &[List]) -> Result<Json, Error> {
    let declared = client.server().capabilities;
    let wanted = |kind: List, offered: bool| if kinds.is_empty() { offered } else { kinds.contains(&kind) };
    let mut w = Writer::new();
    w.begin_object();
    if wanted(List::Tools, declared.tools) {
        sources(&mut w, "tools", client.tools()?.into_iter().map(|t| t.source));
    }
    if wanted(List::Resources, declared.resources) {
        sources(&mut w, "resources", client.resources()?.into_iter().map(|r| r.source));
    }
    if wanted(List::Templates, declared.resources) {
        sources(&mut w, "resourceTemplates", client.templates()?.into_iter().map(|t| t.source));
    }
    if wanted(List::Prompts, declared.prompts) {
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

/// Returns the failure of a request with the data of the error, and with a hint if the server
/// returned an error.
pub(crate) fn request_failure(args: &Args, error: &Error, hint: impl FnOnce() -> String) -> Failure {
    let mut failure = Failure::of_request(&connect::name(args), error);
    // Some servers suggest a name themselves.
    if failure.status == FAILED && !failure.message.contains("did you mean") {
        failure.message.push_str(&hint());
    }
    if let Some(data) = error.data() {
        let doc = data.to_doc();
        let required =
            |name| doc.root().pointer("/requiredCapabilities").is_some_and(|c| c.get(name).is_some());
        let cures = [
            ("elicitation", "the tool asks the user: run it at a terminal, or give --answer or --answers"),
            ("sampling", "the tool asks a model: give --sampler COMMAND"),
            ("roots", "the tool works in folders: give --root FOLDER"),
        ];
        for (_, cure) in cures.iter().filter(|(name, _)| required(name)) {
            failure.message.push_str(&format!("; {cure}"));
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
    // All short names are similar to each other.
    match nearest(name, &mut known.iter().copied()).filter(|near| near.len() > 2) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => format!("; it has {}", shown(&known)),
    }
}

/// Joins the first names.
pub(crate) fn shown(names: &[&str]) -> String {
    const MAX_SHOWN: usize = 12;
    let mut text = names.iter().take(MAX_SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MAX_SHOWN {
        text.push_str(&format!(" and {} more", names.len() - MAX_SHOWN));
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
