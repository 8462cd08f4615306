//! Command `replay`: a recording as a server, or as a client that compares a server's answers.
//!
//! As a server, each request gets the recorded response to an equal request: the first that was not
//! used yet, else the last. Notifications and requests of the recorded server come before it. As a
//! client, requests are sent one after the other, and each response is compared with the recorded
//! one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Value, Writer};
use tinymcp::stderr;

use super::super::args::Args;
use super::super::diff::{differences, shown};
use super::super::failure::{FAILED, Failure, Result, TIMED_OUT, UNREACHABLE};
use super::super::output::Output;
use super::super::{MAX_BYTES, connect};
use super::{Direction, id, key, load, method, record, substituted};
use crate::escape::{one_line, plain};

/// Time for a response by default.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Responses of the server that may wait to be read.
const QUEUED: usize = 64;
/// Parameters that a client chooses itself.
const NAMES: [&str; 2] = ["name", "uri"];
/// Code of the error for a request that was not recorded.
const NOT_RECORDED: i64 = -32603;

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let [file] = words else {
        return Err("expected one recording; see `tinymcp help replay`".into());
    };
    let frames = load(Path::new(file))?;
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
        let wanted = key(request);
        let place = exchanges.iter().position(|e| e.key == wanted && !e.used);
        let place = place.or_else(|| exchanges.iter().rposition(|e| e.key == wanted));
        let Some(exchange) = place.and_then(|at| exchanges.get_mut(at)) else {
            send(&mut output, not_recorded(&exchanges, method, &wanted, id).as_bytes())?;
            continue;
        };
        exchange.used = true;
        let token = token(request);
        for event in &exchange.before {
            send(&mut output, with_token(*event, token).as_bytes())?;
            if super::method(*event).is_some() && !wait_for_answer(*event, &mut input, &mut waiting)? {
                return Ok(0);
            }
        }
        // A request without a recorded response gets none: it was cancelled, or the server ended.
        if let Some(response) = exchange.response {
            send(&mut output, with_id(response, id).as_bytes())?;
        }
        for event in &exchange.after {
            send(&mut output, with_token(*event, token).as_bytes())?;
        }
    }
}

/// Waits until the client has answered a request of the server; other messages wait for their turn.
/// A notification has no answer. Returns false at the end of the input.
fn wait_for_answer(event: Value<'_>, input: &mut dyn BufRead, waiting: &mut VecDeque<Doc>) -> Result<bool> {
    let Some(asked) = id(event) else { return Ok(true) };
    while let Some(message) = next(input)? {
        if method(message.root()).is_none() && id(message.root()) == Some(asked) {
            return Ok(true);
        }
        waiting.push_back(message);
    }
    Ok(false)
}

/// Returns a response as a line, with another id.
fn with_id(response: Value<'_>, id: &str) -> Writer {
    let mut w = Writer::new();
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
    w
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

/// Returns the response to a request that was not recorded: an error, except for a ping.
fn not_recorded(exchanges: &[Exchange<'_>], method: &str, wanted: &str, id: &str) -> Writer {
    let mut w = Writer::new();
    w.begin_object().key("jsonrpc").string("2.0").key("id").raw(id);
    if method == "ping" {
        w.key("result").begin_object().end_object();
    } else {
        let shared = |key: &str| key.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
        let same = exchanges.iter().filter(|e| e.key.split(' ').next() == Some(method));
        let message = match same.max_by_key(|e| shared(&e.key)) {
            Some(nearest) => {
                format!("not in the recording: {wanted}; the nearest request is {}", nearest.key)
            }
            None => format!("not in the recording: {method}"),
        };
        w.key("error").begin_object().key("code").i64(NOT_RECORDED);
        w.key("message").string(&message).end_object();
    }
    w.end_object().newline();
    w
}

/// Sends the recorded requests to a server, and prints what differs.
fn drive(args: &Args, output: &Output, frames: &[(Direction, Doc)]) -> Result<u8> {
    let mut server = Driven::start(args, frames)?;
    let sent_back = sent_back(frames);
    let exchanges = exchanges(frames);
    let mut recorded = exchanges.iter();
    let mut tokens = HashMap::new();
    let mut differing = false;
    let requests = frames.iter().filter(|(direction, _)| *direction == Direction::ClientToServer);
    for (number, (_, doc)) in requests.enumerate() {
        let frame = doc.root();
        if method(frame).is_none() {
            continue;
        }
        server.send(frame, &tokens)?;
        let Some(expected) = id(frame) else { continue };
        let Some(response) = recorded.next().and_then(|exchange| exchange.response) else { continue };
        let message = server.response(frame, expected)?;
        let label = format!("{} {}", number + 1, what(frame));
        differences(response, message.root(), String::new(), &mut |pointer, before, after| {
            let texts = (before.and_then(Value::as_str), after.and_then(Value::as_str));
            match texts {
                (Some(old), Some(new)) if sent_back.contains(old) => {
                    tokens.insert(old.to_owned(), new.to_owned());
                }
                _ if args.ignore.iter().any(|ignored| is_below(&pointer, ignored)) => {}
                _ => {
                    differing = true;
                    let line = format!("~ {label} {pointer}: {} is now {}", shown(before), shown(after));
                    // OK to drop: the exit status tells of the difference, too.
                    let _ = output.write(&format!("{}\n", one_line(&line)));
                }
            }
        });
    }
    Ok(if differing { FAILED } else { 0 })
}

/// Returns the strings that the recorded client sent as parameters of their own, such as a cursor.
/// If they come from a response, each run of a server makes them anew.
fn sent_back(frames: &[(Direction, Doc)]) -> HashSet<&str> {
    let sent = frames.iter().filter(|(direction, _)| *direction == Direction::ClientToServer);
    let params = sent.filter_map(|(_, doc)| doc.root().get("params")).flat_map(Value::members);
    let own = params.filter(|(name, _)| !NAMES.contains(name));
    own.filter_map(|(_, value)| value.as_str()).collect()
}

/// A server that gets the recorded requests. It is killed at the end.
struct Driven<'d> {
    label: String,
    child: Child,
    input: ChildStdin,
    messages: mpsc::Receiver<Doc>,
    timeout: Duration,
    /// Answers of the recorded client to requests of the server.
    answers: VecDeque<Value<'d>>,
}

impl<'d> Driven<'d> {
    fn start(args: &Args, frames: &'d [(Direction, Doc)]) -> Result<Driven<'d>> {
        let label = connect::name(args);
        let failure = |why: &str| Failure::new(UNREACHABLE, format!("{label}: {why}"));
        let mut command = record::command(args)?;
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| failure(&format!("cannot start the program: {error}")))?;
        let (Some(input), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failure("the program has no standard input and output"));
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
        let of_client = frames.iter().filter(|(direction, _)| *direction == Direction::ClientToServer);
        let answers = of_client.map(|(_, doc)| doc.root()).filter(|frame| method(*frame).is_none());
        let timeout = args.timeout.unwrap_or(TIMEOUT);
        Ok(Driven { answers: answers.collect(), label, child, input, messages, timeout })
    }

    fn send(&mut self, frame: Value<'_>, tokens: &HashMap<String, String>) -> Result<()> {
        let line = format!("{}\n", substituted(frame, tokens).as_str());
        self.write(line.as_bytes())
    }

    fn write(&mut self, line: &[u8]) -> Result<()> {
        self.input.write_all(line).map_err(|error| {
            Failure::new(UNREACHABLE, format!("{}: the server reads no more: {error}", self.label))
        })
    }

    /// Waits for the response with this id. Answers requests of the server on the way.
    fn response(&mut self, request: Value<'_>, expected: &str) -> Result<Doc> {
        loop {
            let message = self.messages.recv_timeout(self.timeout).map_err(|error| {
                let what = what(request);
                let (status, why) = match error {
                    mpsc::RecvTimeoutError::Timeout => (TIMED_OUT, format!("no response to {what} in time")),
                    mpsc::RecvTimeoutError::Disconnected => {
                        (UNREACHABLE, format!("ended without a response to {what}"))
                    }
                };
                Failure::new(status, format!("{}: {why}", self.label))
            })?;
            match (method(message.root()), id(message.root())) {
                (None, Some(id)) if id == expected => return Ok(message),
                (Some(_), Some(id)) => {
                    let answer = match self.answers.pop_front() {
                        Some(answer) => with_id(answer, id),
                        None => not_recorded(&[], "", "", id),
                    };
                    self.write(answer.as_bytes())?;
                }
                _ => {}
            }
        }
    }
}

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        // OK to drop: it may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
