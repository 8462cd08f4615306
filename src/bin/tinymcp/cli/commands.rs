//! Commands that send requests to a server: `list`, `info`, `call`, `answer`, `read`, `get`,
//! `complete`, `ping`, `watch`, `bench`, `diff`, `lock`, `record`, `replay`, `shell`, `run`,
//! `task`, `skills`.
//!
//! Each command makes one connection and prints the result on standard output: JSON as the server
//! sent it, or text if that is a terminal. Progress goes to standard error.

use std::ffi::OsString;
use std::sync::mpsc;
use std::time::Instant;

use tinymcp::json::{Json, Writer};
use tinymcp::{Call, Change, Client, ClientBuilder, CompletionTarget, Error, Level, Outcome, stderr};

use super::args::Args;
use super::arguments::Arguments;
use super::ask::parked;
use super::catalog::{diff, lock};
use super::failure::{Failure, Result};
use super::lists::List;
use super::output::Output;
#[cfg(unix)]
use super::recording::{record, replay};
use super::{
    LINT_FLAGS, SERVER_FLAGS, VALIDATE_FLAGS, bench, call, connect, info, lists, print, shell, skills,
};
#[cfg(unix)]
use super::{sign_in, signals};
use crate::escape::plain;

/// Options for the output of requests.
pub(crate) const OUTPUT_FLAGS: [&str; 6] = ["json", "raw", "text", "pretty", "field", "output"];
/// Further options of every command of this module, beside those that name the server.
const FLAGS: [&str; 4] = ["answer", "answers", "sampler", "root"];

/// Capacity of the queue of `watch`. A full queue blocks the event handlers of the client.
const QUEUED_EVENTS: usize = 1024;

/// Returns whether this module implements the command.
pub(crate) fn has_command(command: &str) -> bool {
    const COMMANDS: [&str; 18] = [
        "list", "info", "call", "answer", "read", "get", "complete", "ping", "watch", "diff", "lock",
        "record", "replay", "shell", "run", "bench", "task", "skills",
    ];
    COMMANDS.contains(&command)
}

/// Returns whether the key of the server may precede the first operand, as in `KEY:TOOL`.
pub(crate) fn takes_key(command: &str) -> bool {
    matches!(command, "call" | "get" | "info" | "bench" | "list" | "ping" | "shell")
}

/// Returns the options of a command.
pub(crate) fn flags(command: &str) -> Vec<&'static str> {
    let further: &[&str] = match command {
        "watch" => &["count"],
        "call" => &["structured", "park", "task"],
        "task" => &["structured"],
        "answer" => &["structured", "park"],
        "lock" => &["check"],
        "skills" => &["verify"],
        "record" => &["http", "token-file", "allow-host", "allow-origin"],
        "replay" => &["client", "ignore"],
        "run" => &["keep-going"],
        "bench" => &bench::FLAGS,
        _ => &[],
    };
    match command {
        "schema-lint" => [&SERVER_FLAGS[..], &LINT_FLAGS].concat(),
        "schema-simplify" => [&SERVER_FLAGS[..], &["profile"]].concat(),
        "validate" => VALIDATE_FLAGS.to_vec(),
        #[cfg(unix)]
        "login" => sign_in::LOGIN_FLAGS.to_vec(),
        #[cfg(unix)]
        "logout" => sign_in::LOGOUT_FLAGS.to_vec(),
        "new" => vec!["path", "quiet"],
        "auth" => OUTPUT_FLAGS.to_vec(),
        command if has_command(command) => [&SERVER_FLAGS[..], &OUTPUT_FLAGS, &FLAGS, further].concat(),
        _ => Vec::new(),
    }
}

/// Runs one of these commands. Returns the exit status.
pub(crate) fn run(command: &str, args: Vec<OsString>) -> Result<u8> {
    let mut args = Args::parse(command, args, &flags(command))?;
    let words = args.words()?;
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let (true, Some(name)) = (takes_key(command), words.first_mut()) {
        *name = args.take_name(name);
    }
    if let ("list" | "ping" | "shell", [""]) = (command, &words[..]) {
        words.clear();
    }
    if let ("list", [], false, Some(file)) =
        (command, &words[..], args.server.is_given(), lists::configuration(args.server.config.clone()))
    {
        return lists::servers(&file, &Output::new(&args)?);
    }
    let output = Output::new(&args)?;
    if command == "answer" {
        return parked::answer(args, &output, &words);
    }
    let args = &args;
    match command {
        "watch" => return watch(args, &output, &words),
        "call" if words.last() == Some(&"-") => return call::batch(args, &output, &words),
        "task" => return call::task::run(args, &output, &words),
        "bench" => return bench::run(args, &output, &words),
        "diff" => return diff::run(args, &output, &words),
        "lock" => return lock::run(args, &output, &words),
        "skills" => return skills::run(args, &output, &words),
        "shell" | "run" => return shell::run(command, args, &output, &words),
        #[cfg(unix)]
        "record" => return record::run(args, &words),
        #[cfg(unix)]
        "replay" => return replay::run(args, &output, &words),
        _ => {}
    }
    // Arguments are checked before a server is started.
    let request = Request::parse(command, &words)?;
    let client = connect::connect(connect::builder(args)?, args)?;
    request.run(args, &client, &output)
}

/// Returns the request of a tool call. Progress is printed.
pub(crate) fn tool_call(args: &Args, client: &Client, params: Json) -> tinymcp::Request<Json> {
    client.request_method("tools/call", params).on_progress(print::progress(args))
}

/// Sends a request and waits for its result. A signal cancels it.
pub(crate) fn wait<T>(request: tinymcp::Request<T>) -> Result<T, Error> {
    send(request, Call::wait)
}

/// Sends a request and waits for the outcome of one round. A signal cancels it.
pub(crate) fn wait_outcome<T>(request: tinymcp::Request<T>) -> Result<Outcome<T>, Error> {
    send(request, Call::wait_outcome)
}

fn send<T, R>(
    request: tinymcp::Request<T>,
    wait: impl FnOnce(Call<T>) -> Result<R, Error>,
) -> Result<R, Error> {
    let call = request.start()?;
    #[cfg(unix)]
    let result = signals::wait(call, wait);
    #[cfg(not(unix))]
    let result = wait(call);
    print::progress_done();
    result
}

/// Measures the round-trip time of a ping request.
fn ping(args: &Args, client: &Client, output: &Output) -> Result<()> {
    let began = Instant::now();
    client.ping().map_err(|error| lists::request_failure(args, &error, String::new))?;
    let milliseconds = began.elapsed().as_secs_f64() * 1e3;
    if output.is_text() {
        return output.write(&format!("{milliseconds:.2} ms\n"));
    }
    let mut w = Writer::new();
    w.begin_object().key("milliseconds").f64(milliseconds).end_object();
    output.print(w.into_json().to_doc().root())
}

/// Request of a command on a connection.
pub(crate) enum Request<'a> {
    /// These lists; if empty, all lists that the server declares.
    List(Vec<List>),
    /// Description of the server or of a tool.
    Info(Option<&'a str>),
    /// Call of a tool.
    Call(&'a str, Arguments),
    Ping,
    /// Completion of an argument.
    Complete(CompletionRequest<'a>),
    /// A method with its parameters, and the prompt that it names.
    Other(&'static str, Json, Option<&'a str>),
}

impl<'a> Request<'a> {
    /// Parses the operands of a command.
    pub(crate) fn parse(command: &str, words: &[&'a str]) -> Result<Request<'a>> {
        Ok(match (command, words) {
            ("list", kinds) => {
                Request::List(kinds.iter().map(|kind| List::parse(kind)).collect::<Result<_>>()?)
            }
            ("info", [] | [""]) => Request::Info(None),
            ("info", [name]) => Request::Info(Some(name)),
            ("info", _) => return Err("expected at most one tool; see `tinymcp help info`".into()),
            ("call", []) => return Err("expected the name of a tool; see `tinymcp help call`".into()),
            ("call", [name, words @ ..]) => Request::Call(name, Arguments::parse(words)?),
            ("ping", []) => Request::Ping,
            ("ping", _) => return Err("ping has no arguments; see `tinymcp help ping`".into()),
            ("read", [uri]) => {
                let mut w = Writer::new();
                w.begin_object().key("uri").string(uri).end_object();
                Request::Other("resources/read", w.into_json(), None)
            }
            ("get", [name, arguments @ ..]) => {
                let mut w = Writer::new();
                w.begin_object().key("name").string(name).key("arguments").begin_object();
                for word in arguments {
                    let (name, value) = pair(word)?;
                    w.key(name).string(value);
                }
                w.end_object().end_object();
                Request::Other("prompts/get", w.into_json(), Some(name))
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

    /// Sends the request and prints the result. Returns the exit status.
    pub(crate) fn run(self, args: &Args, client: &Client, output: &Output) -> Result<u8> {
        let mut prompt = None;
        let result = match self {
            Request::Info(tool) => return info::run(args, client, output, tool).map(|()| 0),
            Request::Call(name, arguments) => return call::run(args, client, output, name, arguments),
            Request::Ping => return ping(args, client, output).map(|()| 0),
            Request::List(kinds) => lists::list(client, &kinds),
            Request::Complete(words) => complete(client, &words),
            Request::Other(method, params, name) => {
                prompt = name;
                wait(client.request_method(method, params).on_progress(print::progress(args)))
            }
        };
        let result = result.map_err(|error| {
            lists::request_failure(args, &error, || {
                let prompts = prompt.and_then(|_| client.prompts().ok()).unwrap_or_default();
                let known = prompts.iter().map(|prompt| prompt.name.as_str());
                prompt.map(|name| lists::suggestion(name, known)).unwrap_or_default()
            })
        })?;
        output.print(result.to_doc().root()).map(|()| 0)
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

pub(crate) struct CompletionRequest<'a> {
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
    let client = connect::builder(args)?;
    let (end, notification) = (sender.clone(), sender);
    // OK to drop errors: a send fails only after the receiver was dropped.
    let client = client.on_end(move |why| drop(end.send(Event::End(Failure::of_connection("", why)))));
    let client = on_notification(client, move |event| drop(notification.send(Event::Notification(event))));
    let client = connect::connect(client, args)?;
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

/// Calls a function with each log entry and each change, as an object.
pub(crate) fn on_notification(
    client: ClientBuilder,
    f: impl Fn(Json) + Clone + Send + Sync + 'static,
) -> ClientBuilder {
    let log = f.clone();
    client
        .on_log(Level::Debug, move |entry| {
            let mut w = Writer::new();
            w.begin_object().key("event").string("log").key("level").string(entry.level.as_str());
            if let Some(logger) = &entry.logger {
                w.key("logger").string(logger);
            }
            w.key("data").json(&entry.data).end_object();
            log(w.into_json());
        })
        .on_change(move |what| {
            let mut w = Writer::new();
            w.begin_object().key("event");
            match what {
                Change::Tools => w.string("tools"),
                Change::Prompts => w.string("prompts"),
                Change::Resources => w.string("resources"),
                Change::ResourceUpdated(uri) => w.string("updated").key("uri").string(uri),
            };
            w.end_object();
            f(w.into_json());
        })
}
