//! Commands that send requests to a server: `list`, `call`, `read`, `get`, `complete`, `watch`.
//!
//! Each command makes one connection and one request (`list`: all pages), and prints the result on
//! standard output: JSON as the server sent it, or text if that is a terminal. Progress goes to
//! standard error. Requests of the server are refused.
//!
//! Invariant: the exit status is 1 if the server refuses, returns an error or a tool fails, and 2
//! if it cannot be asked.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc;

use tinymcp::json::{Doc, Json, Kind, Value, Writer};
use tinymcp::{Change, Client, ClientBuilder, CompletionTarget, Error, ErrorKind, Level};

use super::args::{Asked, asked};
use super::{BYTES, Fault, connect, out, print};

const FLAGS: &[&str] = &["url", "header", "era", "timeout", "json", "text"];
const WATCH_FLAGS: &[&str] = &["url", "header", "era", "timeout", "json", "text", "count"];

/// Events of `watch` that wait to be printed; beyond that the server waits.
const EVENTS: usize = 1024;

/// Returns whether this module has the command.
pub(crate) fn knows(command: &str) -> bool {
    ["list", "call", "read", "get", "complete", "watch"].contains(&command)
}

/// Runs one of these commands.
pub(crate) fn run(command: &str, args: Vec<OsString>) -> Result<u8, Fault> {
    let asked = asked(args, if command == "watch" { WATCH_FLAGS } else { FLAGS })?;
    if asked.has("json") && asked.has("text") {
        return Err("--json and --text exclude each other".to_owned());
    }
    let words = asked.files.iter().map(|word| word.to_str().ok_or("an argument is not UTF-8"));
    let words = words.collect::<Result<Vec<&str>, _>>()?;
    if command == "watch" {
        return watch(&asked, &words);
    }
    // Arguments are checked before a server is started.
    let question = match (command, words.as_slice()) {
        ("list", kinds) => {
            Question::List(kinds.iter().map(|kind| List::named(kind)).collect::<Result<_, _>>()?)
        }
        ("call", [name]) => Question::call(name, "{}")?,
        ("call", [name, "-"]) => Question::call(name, &standard_input()?)?,
        ("call", [name, arguments]) => Question::call(name, arguments)?,
        ("read", [uri]) => {
            let mut w = Writer::new();
            w.begin_object().key("uri").string(uri).end_object();
            Question::Other("resources/read", w.into_json())
        }
        ("get", [name, arguments @ ..]) => {
            let mut w = Writer::new();
            w.begin_object().key("name").string(name);
            pairs(&mut w, "arguments", arguments)?;
            w.end_object();
            Question::Other("prompts/get", w.into_json())
        }
        ("complete", [kind, subject, argument, settled @ ..]) => {
            Question::Complete(Completing::read(kind, subject, argument, settled)?)
        }
        _ => return Err(format!("wrong number of arguments for {command}; see `tinymcp help`")),
    };
    let client = connect::connect(connect::builder(&asked)?, &asked)?;
    let answered = match question {
        Question::List(kinds) => list(&client, &kinds),
        Question::Complete(words) => complete(&client, &words),
        Question::Other(method, params) => {
            client.request_method(method, params).on_progress(print::progress).wait()
        }
    };
    print::progress_done();
    match answered {
        Ok(answer) => {
            let failed = answer.to_doc().root().get("isError").and_then(Value::as_bool) == Some(true);
            print(&asked, &answer)?;
            Ok(u8::from(failed))
        }
        Err(error) => refused(&asked, &error),
    }
}

/// Request of a command.
enum Question<'a> {
    /// Lists; without any, those that the server has.
    List(Vec<List>),
    /// Values for an argument.
    Complete(Completing<'a>),
    /// A method with its parameters.
    Other(&'static str, Json),
}

impl Question<'_> {
    fn call(name: &str, arguments: &str) -> Result<Self, Fault> {
        let doc = Doc::parse(arguments).map_err(|e| {
            format!(r#"the arguments are not JSON: {e}; expected an object such as {{"text": "hi"}}"#)
        })?;
        if doc.root().kind() != Kind::Object {
            return Err(r#"the arguments are not a JSON object such as {"text": "hi"}"#.to_owned());
        }
        let mut w = Writer::new();
        w.begin_object().key("name").string(name).key("arguments").value(doc.root()).end_object();
        Ok(Question::Other("tools/call", w.into_json()))
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
    fn named(kind: &str) -> Result<List, Fault> {
        Ok(match kind {
            "tools" => List::Tools,
            "resources" => List::Resources,
            "templates" => List::Templates,
            "prompts" => List::Prompts,
            _ => {
                return Err(format!("unknown list {kind:?}; known are tools, resources, templates, prompts"));
            }
        })
    }
}

/// The lists in one object, under the names that the protocol gives them.
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
fn complete(client: &Client, words: &Completing<'_>) -> Result<Json, Error> {
    let (argument, typed) = words.argument;
    let found = client.complete(words.about, argument, typed, &words.settled)?;
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

struct Completing<'a> {
    about: CompletionTarget<'a>,
    argument: (&'a str, &'a str),
    settled: Vec<(&'a str, &'a str)>,
}

impl<'a> Completing<'a> {
    fn read(kind: &str, subject: &'a str, argument: &'a str, settled: &[&'a str]) -> Result<Self, Fault> {
        let about = match kind {
            "prompt" => CompletionTarget::Prompt(subject),
            "template" => CompletionTarget::Template(subject),
            _ => return Err(format!("complete takes prompt or template, not {kind:?}")),
        };
        let settled = settled.iter().map(|word| pair(word)).collect::<Result<_, _>>()?;
        Ok(Completing { about, argument: pair(argument)?, settled })
    }
}

fn pairs(w: &mut Writer, name: &str, words: &[&str]) -> Result<(), Fault> {
    w.key(name).begin_object();
    for word in words {
        let (name, value) = pair(word)?;
        w.key(name).string(value);
    }
    w.end_object();
    Ok(())
}

fn pair(word: &str) -> Result<(&str, &str), Fault> {
    word.split_once('=').ok_or_else(|| format!("{word:?} is not name=value"))
}

fn standard_input() -> Result<String, Fault> {
    let mut text = String::new();
    let read = io::stdin().lock().take(BYTES + 1).read_to_string(&mut text);
    read.map_err(|e| format!("standard input: {e}"))?;
    if text.len() as u64 > BYTES {
        return Err(format!("standard input: longer than {BYTES} bytes"));
    }
    Ok(text)
}

/// Returns whether to print text instead of JSON.
fn for_people(asked: &Asked) -> bool {
    asked.has("text") || !asked.has("json") && io::stdout().is_terminal()
}

fn print(asked: &Asked, answer: &Json) -> Result<(), Fault> {
    if for_people(asked) {
        return out(print::answer(answer.to_doc().root()).as_bytes());
    }
    out(format!("{}\n", answer.as_str()).as_bytes())
}

/// Reports an error. A refusal of the server is exit status 1, every other error is a fault.
fn refused(asked: &Asked, error: &Error) -> Result<u8, Fault> {
    let fault = format!("{}: {error}", connect::name(asked));
    if !matches!(error.kind(), ErrorKind::Remote | ErrorKind::PeerIncompatible) {
        return Err(fault);
    }
    eprintln!("tinymcp: {}", print::plain(&fault));
    if let Some(data) = error.data() {
        eprintln!("{}", print::plain(data.as_str()));
    }
    Ok(1)
}

/// Event of `watch`.
enum Event {
    News(Json),
    End(String),
}

/// Prints notifications, one line each, until the connection ends or `--count` is reached.
fn watch(asked: &Asked, uris: &[&str]) -> Result<u8, Fault> {
    let (tell, told) = mpsc::sync_channel(EVENTS);
    let client = connect::connect(listening(connect::builder(asked)?, &tell), asked)?;
    for uri in uris {
        if let Err(error) = client.subscribe(uri) {
            return refused(asked, &error);
        }
    }
    eprintln!("tinymcp: watching {}", print::plain(&connect::name(asked)));
    follow(asked, told)
}

/// Prints the queued events. No sender is blocked when it returns.
fn follow(asked: &Asked, told: mpsc::Receiver<Event>) -> Result<u8, Fault> {
    let most = asked.count.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    for event in told.into_iter().take(most) {
        match event {
            Event::News(news) => print(asked, &news)?,
            Event::End(why) => return Err(format!("{}: {why}", connect::name(asked))),
        }
    }
    Ok(0)
}

fn listening(client: ClientBuilder, tell: &mpsc::SyncSender<Event>) -> ClientBuilder {
    // OK to drop what cannot be sent: then nobody reads any more.
    let (log, change, end) = (tell.clone(), tell.clone(), tell.clone());
    client
        .on_log(Level::Debug, move |entry| {
            let mut w = Writer::new();
            w.begin_object().key("event").string("log").key("level").string(entry.level.as_str());
            if let Some(logger) = &entry.logger {
                w.key("logger").string(logger);
            }
            w.key("data").json(&entry.data).end_object();
            let _ = log.send(Event::News(w.into_json()));
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
            let _ = change.send(Event::News(w.into_json()));
        })
        .on_end(move |why| {
            let _ = end.send(Event::End(why.to_string()));
        })
}
