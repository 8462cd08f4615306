//! Command `replay`: a recording as a server, or as a client that compares a server's answers.
//!
//! As a server, each request gets the recorded response to an equal request: the first that was not
//! used yet, else the last. Notifications and requests of the recorded server come before it. As a
//! client, requests are sent one after the other, and each response is compared with the recorded one.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Value, Writer};
use tinymcp::stderr;

use super::args::Args;
use super::diff::{differences, shown};
use super::failure::{FAILED, Failure, Result};
use super::output::Output;
use super::recording::{self, Direction, id, key, method, substituted};
use super::{MAX_BYTES, connect, record};
use crate::escape::{one_line, plain};

/// Time for a response by default.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Responses of the server that may wait to be read.
const QUEUED: usize = 64;
/// Code of the error for a request that was not recorded.
const NOT_RECORDED: i64 = -32603;
/// Members whose values each run of a server makes anew.
const TOKENS: [&str; 2] = ["requestState", "nextCursor"];
const UNREACHABLE: u8 = 4;
const TIMED_OUT: u8 = 5;

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let [file] = words else {
        return Err("expected one recording; see `tinymcp help replay`".into());
    };
    let frames = recording::load(Path::new(file))?;
    match (args.has("client"), args.server.is_given()) {
        (true, _) => drive(args, output, &frames),
        (false, false) => serve(&frames),
        (false, true) => Err("--client is required to drive a server".into()),
    }
}

/// A request of the recorded client, with what the server sent until the next one.
struct Exchange<'d> {
    key: String,
    id: &'d str,
    token: Option<&'d str>,
    /// Notifications and requests of the server before the response.
    before: Vec<Value<'d>>,
    response: Option<Value<'d>>,
    /// Notifications after the response.
    after: Vec<Value<'d>>,
    used: bool,
}

/// Returns the progress token of a request.
fn token(request: Value<'_>) -> Option<&str> {
    request.pointer("/params/_meta/progressToken").map(Value::raw)
}

fn exchanges(frames: &[(Direction, Doc)]) -> Vec<Exchange<'_>> {
    let mut found: Vec<Exchange<'_>> = Vec::new();
    for (direction, doc) in frames {
        let frame = doc.root();
        match (direction, method(frame), id(frame)) {
            (Direction::ClientToServer, Some(_), Some(id)) => found.push(Exchange {
                key: key(frame),
                id,
                token: token(frame),
                before: Vec::new(),
                response: None,
                after: Vec::new(),
                used: false,
            }),
            (Direction::ServerToClient, None, Some(id)) => {
                if let Some(open) = found.iter_mut().rev().find(|e| e.id == id && e.response.is_none()) {
                    open.response = Some(frame);
                }
            }
            (Direction::ServerToClient, Some(_), _) => {
                let progress = frame.pointer("/params/progressToken").map(Value::raw);
                let of_token = |e: &Exchange<'_>| progress.is_some() && e.token == progress;
                let place = found.iter().rposition(of_token);
                let place = place.or_else(|| found.iter().rposition(|e| e.response.is_none()));
                if let Some(open) =
                    place.or_else(|| found.len().checked_sub(1)).and_then(|at| found.get_mut(at))
                {
                    if open.response.is_none() { &mut open.before } else { &mut open.after }.push(frame);
                }
            }
            _ => {}
        }
    }
    found
}

/// Answers a client on standard input and output.
fn serve(frames: &[(Direction, Doc)]) -> Result<u8> {
    let mut exchanges = exchanges(frames);
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut waiting: VecDeque<Doc> = VecDeque::new();
    loop {
        let message = match waiting.pop_front() {
            Some(message) => message,
            None => match next(&mut input)? {
                Some(message) => message,
                None => return Ok(0),
            },
        };
        let request = message.root();
        let (Some(method), Some(id)) = (method(request), id(request)) else { continue };
        let mut w = Writer::new();
        let wanted = key(request);
        let place = exchanges.iter().position(|e| e.key == wanted && !e.used);
        let place = place.or_else(|| exchanges.iter().rposition(|e| e.key == wanted));
        let Some(exchange) = place.and_then(|at| exchanges.get_mut(at)) else {
            w.begin_object().key("jsonrpc").string("2.0").key("id").raw(id);
            if method == "ping" {
                w.key("result").begin_object().end_object();
            } else {
                w.key("error").begin_object().key("code").i64(NOT_RECORDED);
                w.key("message").string(&not_recorded(&exchanges, &wanted)).end_object();
            }
            w.end_object().newline();
            send(&mut output, w.as_bytes())?;
            continue;
        };
        exchange.used = true;
        let own = token(request);
        for event in &exchange.before {
            send(&mut output, with_token(*event, own).as_bytes())?;
            let (Some(_), Some(asked)) = (recording::method(*event), recording::id(*event)) else { continue };
            // The client answers the server's request before it gets the response.
            loop {
                match next(&mut input)? {
                    Some(m)
                        if recording::method(m.root()).is_none()
                            && recording::id(m.root()) == Some(asked) =>
                    {
                        break;
                    }
                    Some(m) => waiting.push_back(m),
                    None => return Ok(0),
                }
            }
        }
        // A request without a recorded response gets none: it was cancelled, or the server ended.
        if let Some(response) = exchange.response {
            w.begin_object();
            for (name, value) in response.members() {
                w.key(name);
                if name == "id" {
                    w.raw(id)
                } else {
                    w.value(value)
                };
            }
            w.end_object().newline();
            send(&mut output, w.as_bytes())?;
        }
        for event in &exchange.after {
            send(&mut output, with_token(*event, own).as_bytes())?;
        }
    }
}

/// Reads the next message; `None` at the end.
fn next(input: &mut dyn BufRead) -> Result<Option<Doc>> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.take(MAX_BYTES + 1).read_until(b'\n', &mut line);
        if read.map_err(|e| format!("standard input: {e}"))? == 0 {
            return Ok(None);
        }
        if line.len() as u64 > MAX_BYTES {
            return Err(format!("standard input: a line is longer than {MAX_BYTES} bytes").into());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match Doc::parse(&line) {
            Ok(message) => return Ok(Some(message)),
            Err(error) => stderr::write(format!("tinymcp: a message is not JSON: {error}\n")),
        }
    }
}

fn send(output: &mut dyn Write, line: &[u8]) -> Result<()> {
    Ok(output.write_all(line).and_then(|()| output.flush()).map_err(|e| format!("standard output: {e}"))?)
}

/// Returns a message of the server as a line, with the progress token of this client.
fn with_token(event: Value<'_>, token: Option<&str>) -> Writer {
    let mut w = Writer::new();
    w.begin_object();
    for (name, value) in event.members() {
        w.key(name);
        match (name, token) {
            ("params", Some(token)) if value.get("progressToken").is_some() => {
                w.begin_object();
                for (name, value) in value.members() {
                    w.key(name);
                    if name == "progressToken" {
                        w.raw(token)
                    } else {
                        w.value(value)
                    };
                }
                w.end_object();
            }
            _ => {
                w.value(value);
            }
        }
    }
    w.end_object().newline();
    w
}

/// Returns the message for a request that was not recorded.
fn not_recorded(exchanges: &[Exchange<'_>], wanted: &str) -> String {
    let shared = |key: &str| key.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
    let method = wanted.split(' ').next().unwrap_or_default();
    let same = exchanges.iter().filter(|e| e.key.split(' ').next() == Some(method));
    match same.max_by_key(|e| shared(&e.key)) {
        Some(nearest) => format!("not in the recording: {wanted}; the nearest request is {}", nearest.key),
        None => format!("not in the recording: {method}"),
    }
}

/// Sends the recorded requests to a server, and prints what differs.
fn drive(args: &Args, output: &Output, frames: &[(Direction, Doc)]) -> Result<u8> {
    let label = connect::name(args);
    let ended = |message: String| Failure { status: UNREACHABLE, message: format!("{label}: {message}") };
    let mut command = record::command(args)?;
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| ended(format!("cannot start the program: {error}")))?;
    let (Some(mut input), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(ended("the program has no standard input and output".to_owned()));
    };
    let (sender, messages) = mpsc::sync_channel(QUEUED);
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        while let Ok(Some(message)) = next(&mut from) {
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    let mut answers = frames.iter().filter_map(|(direction, doc)| {
        let is_answer = *direction == Direction::ClientToServer && method(doc.root()).is_none();
        is_answer.then(|| doc.root())
    });
    let exchanges = exchanges(frames);
    let mut recorded = exchanges.iter();
    let mut tokens = HashMap::new();
    let mut differing = false;
    let timeout = args.timeout.unwrap_or(TIMEOUT);
    for (number, (_, doc)) in
        frames.iter().filter(|(direction, _)| *direction == Direction::ClientToServer).enumerate()
    {
        let frame = doc.root();
        let Some(method) = method(frame) else { continue };
        let line = format!("{}\n", substituted(frame, &tokens).as_str());
        input.write_all(line.as_bytes()).map_err(|e| ended(format!("the server reads no more: {e}")))?;
        let Some(expected) = id(frame) else { continue };
        let Some(response) = recorded.next().and_then(|exchange| exchange.response) else { continue };
        let message = loop {
            let message = messages.recv_timeout(timeout).map_err(|error| match error {
                mpsc::RecvTimeoutError::Timeout => Failure {
                    status: TIMED_OUT,
                    message: format!("{label}: no response to {} in {timeout:?}", one_line(method)),
                },
                mpsc::RecvTimeoutError::Disconnected => {
                    ended(format!("the server ended before it responded to {method}"))
                }
            })?;
            match (recording::method(message.root()), id(message.root())) {
                (None, Some(id)) if id == expected => break message,
                (Some(_), Some(id)) => {
                    answer(&mut input, id, answers.next()).map_err(|e| ended(e.to_string()))?
                }
                _ => {}
            }
        };
        let label = format!("{} {}", number + 1, what(frame));
        differences(response, message.root(), String::new(), &mut |pointer, before, after| {
            if let (Some(old), Some(new)) = (before.and_then(Value::as_str), after.and_then(Value::as_str)) {
                if TOKENS.iter().any(|name| pointer.ends_with(&format!("/{name}"))) {
                    tokens.insert(old.to_owned(), new.to_owned());
                    return;
                }
            }
            if args.ignore.iter().any(|ignored| is_below(&pointer, ignored)) {
                return;
            }
            differing = true;
            let line = format!("~ {label} {pointer}: {} is now {}", shown(before), shown(after));
            // A closed output is reported when the next line is written.
            let _ = output.write(&format!("{}\n", one_line(&line)));
        });
    }
    drop(input);
    let _ = child.kill();
    let _ = child.wait();
    Ok(if differing { FAILED } else { 0 })
}

/// Returns the method of a request with the name that it is about.
fn what(frame: Value<'_>) -> String {
    let method = method(frame).unwrap_or_default();
    let name = ["/params/name", "/params/uri"].into_iter().find_map(|p| frame.pointer(p)?.as_str());
    plain(&name.map_or_else(|| method.to_owned(), |name| format!("{method} {name}")))
}

/// Returns whether a pointer is another one, or points below it.
fn is_below(pointer: &str, above: &str) -> bool {
    pointer.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request of the server as the recorded client did.
fn answer(input: &mut ChildStdin, id: &str, answer: Option<Value<'_>>) -> io::Result<()> {
    let mut w = Writer::new();
    w.begin_object();
    match answer {
        Some(answer) => {
            for (name, value) in answer.members() {
                w.key(name);
                if name == "id" {
                    w.raw(id)
                } else {
                    w.value(value)
                };
            }
        }
        None => {
            w.key("jsonrpc").string("2.0").key("id").raw(id).key("error").begin_object();
            w.key("code").i64(NOT_RECORDED).key("message").string("not in the recording").end_object();
        }
    }
    w.end_object().newline();
    input.write_all(w.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn events_belong_to_their_request() {
        let frames: Vec<(Direction, Doc)> = [
            ("c2s", r#"{"id":1,"method":"a","params":{"_meta":{"progressToken":"p"}}}"#),
            ("c2s", r#"{"id":2,"method":"b"}"#),
            ("s2c", r#"{"method":"notifications/progress","params":{"progressToken":"p"}}"#),
            ("s2c", r#"{"id":7,"method":"elicitation/create"}"#),
            ("c2s", r#"{"id":7,"result":{}}"#),
            ("s2c", r#"{"id":2,"result":{}}"#),
            ("s2c", r#"{"id":1,"result":{}}"#),
            ("s2c", r#"{"method":"notifications/tools/list_changed"}"#),
        ]
        .map(|(direction, frame)| {
            let direction =
                if direction == "c2s" { Direction::ClientToServer } else { Direction::ServerToClient };
            (direction, Doc::parse(frame).unwrap())
        })
        .into();
        let found = exchanges(&frames);
        let counts: Vec<_> =
            found.iter().map(|e| (e.before.len(), e.response.is_some(), e.after.len())).collect();
        assert_eq!(counts, [(1, true, 0), (1, true, 1)]);
    }

    #[test]
    fn an_ignored_pointer_covers_what_is_below_it() {
        assert!(is_below("/result/a/b", "/result/a") && is_below("/a", "/a"));
        assert!(!is_below("/result/ab", "/result/a"));
    }
}
