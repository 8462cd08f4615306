//! Option `--park` and command `answer`: a call whose question another process answers.
//!
//! In the stateless protocol the server ends a call that needs an answer, with its questions and
//! its state. `--park` writes them to a file, with the call and the server. `answer` reads the
//! file, sends the call again with the answers, and removes the file after the result. Values of
//! `--env`, `--header` and `--bearer` are not written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Json, Kind, Value, Writer};
use tinymcp::{Client, InputRequired, Outcome, Protocol, Request, json};

use super::super::args::{Args, Server, answer as parse_answer};
use super::super::failure::{Failure, PARKED, Result};
use super::super::output::Output;
use super::super::{call, commands, connect, json_error, lists, read};

/// Largest number of rounds without a question, in which the server only requests another call.
const MAX_ROUNDS: u32 = 20;
/// Pause before such a round.
const PAUSE: Duration = Duration::from_millis(100);

/// Sends a call. A question of the server is written to the file, and the call fails as parked.
pub(crate) fn call(args: &Args, client: &Client, file: &Path, params: &Json) -> Result<Json> {
    if client.protocol() == Protocol::Session {
        return Err("--park requires the stateless protocol, and this connection is a session".into());
    }
    rounds(args, client, file, params, commands::tool_call(args, client, params.clone()))
}

fn rounds(args: &Args, client: &Client, file: &Path, params: &Json, first: Request<Json>) -> Result<Json> {
    let failure = |error| lists::request_failure(args, &error, String::new);
    let mut request = first;
    for _ in 0..MAX_ROUNDS {
        match commands::wait_outcome(request).map_err(failure)? {
            Outcome::Complete(result) => return Ok(result),
            Outcome::InputRequired(input) if input.requests.as_str() == "{}" => {
                thread::sleep(PAUSE);
                let again = commands::tool_call(args, client, params.clone());
                request = again.resume(&json!({}), &input).map_err(failure)?;
            }
            Outcome::InputRequired(input) => {
                write(args, file, params, &input).map_err(|e| format!("{}: {e}", file.display()))?;
                return Err(Failure::new(PARKED, notice(file, &input)));
            }
            _ => return Err("the server made a task, which cannot be parked".into()),
        }
    }
    Err(format!("the server asked for {MAX_ROUNDS} more calls without a question").into())
}

/// Runs the command `answer`. Returns the exit status.
pub(crate) fn answer(mut args: Args, output: &Output, words: &[&str]) -> Result<u8> {
    let [name, answers @ ..] = words else {
        return Err("expected the file of a parked call; see `tinymcp help answer`".into());
    };
    let file = Path::new(name);
    for word in answers {
        args.questions.answers.push(parse_answer(word)?);
    }
    let text = read(file)?;
    let doc = Doc::parse(&text).map_err(|error| json_error(file, &text, error))?;
    let parked = doc.root();
    let input = parked.get("input").and_then(|input| InputRequired::from_json(&input.to_json()));
    let params = parked.get("params").filter(|params| params.kind() == Kind::Object);
    let (Some(input), Some(params)) = (input, params.map(Value::to_json)) else {
        return Err(format!("{name}: not a call that --park wrote").into());
    };
    if !args.server.is_given() {
        name_server(&mut args.server, parked.get("server").unwrap_or(parked));
    }
    args.protocol = Some(Protocol::Stateless);
    let client = connect::connect(connect::builder(&args)?, &args)?;
    let failure = |error| lists::request_failure(&args, &error, String::new);
    let responses = client.input_responses(&input).map_err(failure)?;
    let request = commands::tool_call(&args, &client, params.clone());
    let request = request.resume(&responses, &input).map_err(failure)?;
    let result = match &args.questions.park {
        Some(next) => rounds(&args, &client, next, &params, request)?,
        None => commands::wait(request).map_err(failure)?,
    };
    // The state cannot be used again. OK to ignore: the call has a result.
    let _ = fs::remove_file(file);
    call::print_result(output, &result)
}

/// Returns the message for a parked call: the questions, and the command that answers them.
fn notice(file: &Path, input: &InputRequired) -> String {
    let doc = input.requests.to_doc();
    let mut text = "the call waits for an answer".to_owned();
    let mut names = Vec::new();
    for (_, question) in doc.root().members() {
        if let Some(message) = question.pointer("/params/message").and_then(Value::as_str) {
            text.push_str(&format!("; the server asks: {message}"));
        }
        let fields = question.pointer("/params/requestedSchema/properties");
        names.extend(fields.into_iter().flat_map(Value::members).map(|(name, _)| format!(" {name}=VALUE")));
    }
    let names = if names.is_empty() { " yes".to_owned() } else { names.concat() };
    text.push_str(&format!("; answer it by `tinymcp answer {}{names}`", file.display()));
    text
}

/// Writes the file, for its owner only.
fn write(args: &Args, file: &Path, params: &Json, input: &InputRequired) -> io::Result<()> {
    let mut w = Writer::new();
    w.begin_object().key("server").begin_object();
    if let Some(words) = &args.server.command {
        w.key("command").begin_array();
        words.iter().for_each(|word| _ = w.string(&word.to_string_lossy()));
        w.end_array();
    }
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
    for (name, value) in [
        ("cwd", path(&args.server.cwd)),
        ("url", args.server.url.clone()),
        ("key", args.server.key.clone()),
        ("config", path(&args.server.config)),
    ] {
        if let Some(value) = value {
            w.key(name).string(&value);
        }
    }
    w.end_object().key("params").json(params).key("input").json(&input.to_json()).end_object().newline();
    // A file that exists could be readable by others.
    let _ = fs::remove_file(file);
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(file)?.write_all(w.as_bytes())
}

/// Reads the server of a parked call.
fn name_server(server: &mut Server, parked: Value<'_>) {
    let text = |name: &str| parked.get(name).and_then(Value::as_str).map(str::to_owned);
    let words = parked.get("command").into_iter().flat_map(Value::items).filter_map(Value::as_str);
    let words: Vec<_> = words.map(Into::into).collect();
    server.command = (!words.is_empty()).then_some(words);
    (server.url, server.key) = (text("url"), text("key"));
    server.cwd = server.cwd.take().or_else(|| text("cwd").map(Into::into));
    server.config = server.config.take().or_else(|| text("config").map(Into::into));
}
