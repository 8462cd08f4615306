//! Commands that send requests to a server: `list`, `info`, `call`, `read`, `get`, `complete`,
//! `ping`, `watch`, `diff`.
//!
//! Each command makes one connection and prints the result on standard output: JSON as the server
//! sent it, or text if that is a terminal. Progress goes to standard error.

use std::ffi::OsString;
use std::sync::mpsc;
use std::time::Instant;

use tinymcp::json::{Json, Writer};
use tinymcp::{Change, Client, ClientBuilder, CompletionTarget, Error, Level, stderr};

use super::args::Args;
use super::failure::{Failure, Result};
use super::lists::List;
use super::output::Output;
#[cfg(unix)]
use super::recording::{record, replay};
use super::{SERVER_FLAGS, call, connect, diff, info, lists, print};
use crate::escape::plain;

/// Options of every command of this module, beside those that name the server.
const FLAGS: [&str; 7] = ["json", "text", "pretty", "field", "output", "answer", "root"];

/// Capacity of the queue of `watch`. A full queue blocks the event handlers of the client.
const QUEUED_EVENTS: usize = 1024;

/// Returns whether this module implements the command.
pub(crate) fn has_command(command: &str) -> bool {
    ["list", "info", "call", "read", "get", "complete", "ping", "watch", "diff", "record", "replay"]
        .contains(&command)
}

/// Runs one of these commands. Returns the exit status.
pub(crate) fn run(command: &str, args: Vec<OsString>) -> Result<u8> {
    let further: &[&str] = match command {
        "watch" => &["count"],
        "call" => &["structured"],
        "replay" => &["client", "ignore"],
        _ => &[],
    };
    let mut args = Args::parse(command, args, &[&SERVER_FLAGS[..], &FLAGS, further].concat())?;
    let words =
        args.files.iter().map(|word| word.to_str().map(str::to_owned).ok_or("an argument is not UTF-8"));
    let words = words.collect::<Result<Vec<String>, _>>()?;
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ("call" | "get" | "info", Some(name)) = (command, words.first_mut()) {
        args.take_server(name);
    }
    let args = &args;
    let output = Output::new(args)?;
    match command {
        "watch" => return watch(args, &output, &words),
        "call" => return call::run(args, &output, &words),
        "info" => return info::run(args, &output, &words),
        "ping" => return ping(args, &output, &words),
        "diff" => return diff::run(args, &output, &words),
        #[cfg(unix)]
        "record" => return record::run(args, &words),
        #[cfg(not(unix))]
        "record" | "replay" => return Err(format!("`tinymcp {command}` requires Unix").into()),
        #[cfg(unix)]
        "replay" => return replay::run(args, &output, &words),
        _ => {}
    }
    // Arguments are checked before a server is started.
    let request = Request::parse(command, &words)?;
    let client = connect::connect(connect::builder(args)?, args)?;
    let result = match request {
        Request::List(kinds) => lists::list(&client, &kinds),
        Request::Complete(words) => complete(&client, &words),
        Request::Other(method, params) => {
            client.request_method(method, params).on_progress(print::progress(args)).wait()
        }
    };
    print::progress_done();
    let result = result.map_err(|error| {
        let known = || match words.as_slice() {
            [name, ..] if command == "get" => {
                let prompts = client.prompts().unwrap_or_default();
                lists::suggestion(name, prompts.iter().map(|prompt| prompt.name.as_str()))
            }
            _ => String::new(),
        };
        lists::request_failure(args, &error, known)
    })?;
    output.print(result.to_doc().root()).map(|()| 0)
}

/// Measures the time of a request without work.
fn ping(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    if !words.is_empty() {
        return Err("ping has no arguments; see `tinymcp help ping`".into());
    }
    let client = connect::connect(connect::builder(args)?, args)?;
    let began = Instant::now();
    client.ping().map_err(|error| lists::request_failure(args, &error, String::new))?;
    let milliseconds = began.elapsed().as_secs_f64() * 1e3;
    if output.is_text() {
        output.write(&format!("{milliseconds:.2} ms\n"))?;
    } else {
        let mut w = Writer::new();
        w.begin_object().key("milliseconds").f64(milliseconds).end_object();
        output.print(w.into_json().to_doc().root())?;
    }
    Ok(0)
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

impl<'a> Request<'a> {
    fn parse(command: &str, words: &[&'a str]) -> Result<Request<'a>> {
        Ok(match (command, words) {
            ("list", kinds) => {
                Request::List(kinds.iter().map(|kind| List::parse(kind)).collect::<Result<_>>()?)
            }
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
            _ => {
                let message =
                    format!("wrong number of arguments for {command}; see `tinymcp help {command}`");
                return Err(message.into());
            }
        })
    }
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
            _ => {
                return Err(format!("unknown completion target {kind:?}; expected prompt or template").into());
            }
        };
        let resolved = resolved.iter().map(|word| pair(word)).collect::<Result<_, _>>()?;
        Ok(CompletionRequest { target, argument: pair(argument)?, resolved })
    }
}

fn pair(word: &str) -> Result<(&str, &str)> {
    word.split_once('=').ok_or_else(|| format!("invalid argument {word:?}; expected NAME=VALUE").into())
}

/// Event of `watch`.
enum Event {
    Notification(Json),
    /// The end of the connection; the message has no label.
    End(Failure),
}

/// Prints notifications, one line each, until the connection ends or `--count` is reached.
fn watch(args: &Args, output: &Output, uris: &[&str]) -> Result<u8> {
    let (sender, events) = mpsc::sync_channel(QUEUED_EVENTS);
    let client = connect::connect(with_handlers(connect::builder(args)?, &sender), args)?;
    for uri in uris {
        client.subscribe(uri).map_err(|error| lists::request_failure(args, &error, String::new))?;
    }
    if !args.has("quiet") {
        stderr::write(format!("tinymcp: watching {}\n", plain(&connect::name(args))));
    }
    print_events(args, output, events)
}

/// Prints events. Drops the receiver at the end, so that no handler blocks on the channel.
fn print_events(args: &Args, output: &Output, events: mpsc::Receiver<Event>) -> Result<u8> {
    let most = args.count.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    for event in events.into_iter().take(most) {
        match event {
            Event::Notification(event) => output.print(event.to_doc().root())?,
            Event::End(mut end) => {
                end.message.insert_str(0, &format!("{}: ", connect::name(args)));
                return Err(end);
            }
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
            let _ = end.send(Event::End(Failure::of_connection("", why)));
        })
}
