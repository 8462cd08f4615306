//! Commands that send requests to a server: `list`, `call`, `read`, `get`, `complete`, `watch`.
//!
//! Each command makes one connection and one request (`list`: all pages), and prints the result on
//! standard output: JSON as the server sent it, or text if that is a terminal. Progress goes to
//! standard error. Requests of the server are rejected.
//!
//! Invariant: the exit status is 1 if the server returns an error or a tool fails, and 2 for
//! invalid usage or without a response.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::mpsc;

use tinymcp::json::{Doc, Json, Kind, Value, Writer};
use tinymcp::{Change, Client, ClientBuilder, CompletionTarget, Error, ErrorKind, Level, stderr};

use super::args::Args;
use super::{connect, print};
use crate::escape::plain;
use crate::{Result, out};

const FLAGS: &[&str] = &["url", "server", "config", "header", "protocol", "timeout", "json", "text"];
const WATCH_FLAGS: &[&str] =
    &["url", "server", "config", "header", "protocol", "timeout", "json", "text", "count"];

/// Capacity of the queue of `watch`. A full queue blocks the event handlers of the client.
const QUEUED_EVENTS: usize = 1024;

/// Returns whether this module implements the command.
pub(crate) fn has_command(command: &str) -> bool {
    ["list", "call", "read", "get", "complete", "watch"].contains(&command)
}

/// Runs one of these commands.
pub(crate) fn run(command: &str, args: Vec<OsString>) -> Result<u8> {
    let args = Args::parse(command, args, if command == "watch" { WATCH_FLAGS } else { FLAGS })?;
    if args.has("json") && args.has("text") {
        return Err("--json and --text exclude each other".to_owned());
    }
    let words = args.files.iter().map(|word| word.to_str().ok_or("an argument is not UTF-8"));
    let words = words.collect::<Result<Vec<&str>, _>>()?;
    if command == "watch" {
        return watch(&args, &words);
    }
    // Arguments are checked before a server is started.
    let request = match (command, words.as_slice()) {
        ("list", kinds) => {
            Request::List(kinds.iter().map(|kind| List::parse(kind)).collect::<Result<_, _>>()?)
        }
        ("call", [name]) => Request::call(name, "{}")?,
        ("call", [name, "-"]) => Request::call(name, &standard_input()?)?,
        ("call", [name, arguments]) => Request::call(name, arguments)?,
        ("read", [uri]) => {
            let mut w = Writer::new();
            w.begin_object().key("uri").string(uri).end_object();
            Request::Other("resources/read", w.into_json())
        }
        ("get", [name, arguments @ ..]) => {
            let mut w = Writer::new();
            w.begin_object().key("name").string(name).key("arguments").begin_object();
            for word in arguments {
                let (name, value) = pair(word)?;
                w.key(name).string(value);
            }
            w.end_object().end_object();
            Request::Other("prompts/get", w.into_json())
        }
        ("complete", [kind, subject, argument, resolved @ ..]) => {
            Request::Complete(CompletionRequest::read(kind, subject, argument, resolved)?)
        }
        _ => return Err(format!("wrong number of arguments for {command}; see `tinymcp help {command}`")),
    };
    let client = connect::connect(connect::builder(&args)?, &args)?;
    let result = match request {
        Request::List(kinds) => list(&client, &kinds),
        Request::Complete(words) => complete(&client, &words),
        Request::Other(method, params) => {
            client.request_method(method, params).on_progress(print::progress).wait()
        }
    };
    print::progress_done();
    match result {
        Ok(result) => {
            let failed = result.to_doc().root().get("isError").and_then(Value::as_bool) == Some(true);
            print(&args, &result)?;
            Ok(u8::from(failed))
        }
        Err(error) => report(&args, &error),
    }
}

/// Request of a command.
enum Request<'a> {
    /// These lists; if empty, all that the server declares.
    List(Vec<List>),
    /// Completion of an argument.
    Complete(CompletionRequest<'a>),
    /// A method with its parameters.
    Other(&'static str, Json),
}

impl Request<'_> {
    fn call(name: &str, arguments: &str) -> Result<Self> {
        let doc = Doc::parse(arguments).map_err(|e| {
            format!(r#"the arguments are not JSON: {e}; expected an object such as {{"text": "hi"}}"#)
        })?;
        if doc.root().kind() != Kind::Object {
            return Err(r#"the arguments are not a JSON object such as {"text": "hi"}"#.to_owned());
        }
        let mut w = Writer::new();
        w.begin_object().key("name").string(name).key("arguments").value(doc.root()).end_object();
        Ok(Request::Other("tools/call", w.into_json()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl List {
    fn parse(kind: &str) -> Result<List> {
        Ok(match kind {
            "tools" => List::Tools,
            "resources" => List::Resources,
            "templates" => List::Templates,
            "prompts" => List::Prompts,
            _ => {
                return Err(format!("unknown list {kind:?}; expected tools, resources, templates, prompts"));
            }
        })
    }
}

/// Requests lists and returns them as members of one object, with the names of the protocol.
fn list(client: &Client, kinds: &[List]) -> Result<Json, Error> {
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

/// Requests a completion and writes the result in the form of the protocol.
fn complete(client: &Client, words: &CompletionRequest<'_>) -> Result<Json, Error> {
    let (argument, typed) = words.argument;
    let found = client.complete(words.target, argument, typed, &words.resolved)?;
    let mut w = Writer::new();
    w.begin_object().key("completion").begin_object().key("values").begin_array();
    found.values.iter().for_each(|value| {
        w.string(value);
    });
    w.end_array();
    if let Some(total) = found.total {
        w.key("total").u64(total);
    }
    w.key("hasMore").bool(found.more).end_object().end_object();
    Ok(w.into_json())
}

struct CompletionRequest<'a> {
    target: CompletionTarget<'a>,
    argument: (&'a str, &'a str),
    resolved: Vec<(&'a str, &'a str)>,
}

impl<'a> CompletionRequest<'a> {
    fn read(kind: &str, subject: &'a str, argument: &'a str, resolved: &[&'a str]) -> Result<Self> {
        let target = match kind {
            "prompt" => CompletionTarget::Prompt(subject),
            "template" => CompletionTarget::Template(subject),
            _ => return Err(format!("unknown completion target {kind:?}; expected prompt or template")),
        };
        let resolved = resolved.iter().map(|word| pair(word)).collect::<Result<_, _>>()?;
        Ok(CompletionRequest { target, argument: pair(argument)?, resolved })
    }
}

fn pair(word: &str) -> Result<(&str, &str)> {
    word.split_once('=').ok_or_else(|| format!("invalid argument {word:?}; expected NAME=VALUE"))
}

fn standard_input() -> Result<String> {
    String::from_utf8(super::read(Path::new("-"))?).map_err(|e| format!("standard input: {e}"))
}

/// Returns whether the output format is text instead of JSON.
fn prints_text(args: &Args) -> bool {
    args.has("text") || !args.has("json") && io::stdout().is_terminal()
}

fn print(args: &Args, result: &Json) -> Result<()> {
    if prints_text(args) {
        return out(print::result(result.to_doc().root()).as_bytes());
    }
    out(format!("{}\n", result.as_str()).as_bytes())
}

/// Prints an error of the server and returns exit status 1. Returns any other error.
fn report(args: &Args, error: &Error) -> Result<u8> {
    let message = format!("{}: {error}", connect::name(args));
    if !matches!(error.kind(), ErrorKind::Remote | ErrorKind::PeerIncompatible) {
        return Err(message);
    }
    stderr::write(format!("tinymcp: {}\n", plain(&message)));
    if let Some(data) = error.data() {
        stderr::write(format!("{}\n", plain(data.as_str())));
    }
    Ok(1)
}

/// Event of `watch`.
enum Event {
    Notification(Json),
    End(String),
}

/// Prints notifications, one line each, until the connection ends or `--count` is reached.
fn watch(args: &Args, uris: &[&str]) -> Result<u8> {
    let (sender, events) = mpsc::sync_channel(QUEUED_EVENTS);
    let client = connect::connect(with_handlers(connect::builder(args)?, &sender), args)?;
    for uri in uris {
        if let Err(error) = client.subscribe(uri) {
            return report(args, &error);
        }
    }
    stderr::write(format!("tinymcp: watching {}\n", plain(&connect::name(args))));
    print_events(args, events)
}

/// Prints events. Drops the receiver at the end, so that no handler blocks on the channel.
fn print_events(args: &Args, events: mpsc::Receiver<Event>) -> Result<u8> {
    let most = args.count.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    for event in events.into_iter().take(most) {
        match event {
            Event::Notification(event) => print(args, &event)?,
            Event::End(why) => return Err(format!("{}: {why}", connect::name(args))),
        }
    }
    Ok(0)
}

fn with_handlers(client: ClientBuilder, sender: &mpsc::SyncSender<Event>) -> ClientBuilder {
    // OK to drop errors: a send fails only after the receiver was dropped.
    let (log, change, end) = (sender.clone(), sender.clone(), sender.clone());
    client
        .on_log(Level::Debug, move |entry| {
            let mut w = Writer::new();
            w.begin_object().key("event").string("log").key("level").string(entry.level.as_str());
            if let Some(logger) = &entry.logger {
                w.key("logger").string(logger);
            }
            w.key("data").json(&entry.data).end_object();
            let _ = log.send(Event::Notification(w.into_json()));
        })
        .on_change(move |what| {
            let mut w = Writer::new();
            w.begin_object().key("event");
            match what {
                Change::Tools => w.string("tools"),
                Change::Prompts => w.string("prompts"),
                Change::Resources => w.string("resources"),
                Change::Updated(uri) => w.string("updated").key("uri").string(uri),
            };
            w.end_object();
            let _ = change.send(Event::Notification(w.into_json()));
        })
        .on_end(move |why| {
            let _ = end.send(Event::End(why.to_string()));
        })
}
