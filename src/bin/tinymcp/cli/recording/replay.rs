//! Command `replay`: serves a recording, or sends its requests to a server and compares the
//! responses.
//!
//! As a server, it answers each request with the recorded response to an equal request: the first
//! unused one, or the last one if all are used. Before the response it sends the notifications and
//! requests of the recorded server. As a client, it sends the requests one after the other and
//! compares each response with the recorded one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tinymcp::json::{Doc, Value, Writer};
use tinymcp::stderr;

use super::super::args::Args;
use super::super::catalog::{differences, shown};
use super::super::failure::{FAILED, Failure, Result, TIMED_OUT, UNREACHABLE};
use super::super::frames::Frames;
use super::super::output::Output;
use super::super::{MAX_BYTES, connect};
use super::{Direction, Entry, id, key, load, method, record, substituted};
use crate::escape::{one_line, plain};

/// Time for a response by default.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time to print the rest of the standard error of a server that ended.
const STDERR_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of responses of the server that wait to be read.
const QUEUED: usize = 64;
/// Parameters that do not count as sent back: the client chooses their values itself.
const NAMES: [&str; 2] = ["name", "uri"];
/// Code of the error for a request that was not recorded.
const NOT_RECORDED: i64 = -32603;

/// Runs the command. Returns the exit status.
pub(crate) fn run(args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    let [file] = words else {
        return Err("expected one recording; see `tinymcp help replay`".into());
    };
    let entries = load(Path::new(file))?;
    match (args.has("client"), args.server.is_given()) {
        (true, _) => drive(args, output, entries),
        (false, false) => serve(&entries),
        (false, true) => Err("--client is required to drive a server".into()),
    }
}

/// A request of the recorded client, with the messages that the server sent until the next request.
struct Exchange<'d> {
    key: String,
    /// Notifications and requests of the server before the response.
    before: Vec<Value<'d>>,
    response: Option<Value<'d>>,
    /// Notifications after the response.
    after: Vec<Value<'d>>,
}

/// Returns the progress token of a request.
fn token(request: Value<'_>) -> Option<&str> {
    request.pointer("/params/_meta/progressToken").map(Value::raw)
}

/// The exchanges of one connection, by their places in the list of all.
#[derive(Default)]
struct Places<'d> {
    /// Exchanges without a response.
    open: BTreeSet<usize>,
    open_of_id: HashMap<&'d str, Vec<usize>>,
    of_token: HashMap<&'d str, usize>,
    last: Option<usize>,
}

fn exchanges(entries: &[Entry]) -> Vec<Exchange<'_>> {
    let mut found: Vec<Exchange<'_>> = Vec::new();
    // An id or a progress token belongs to one client only.
    let mut connections: HashMap<u64, Places<'_>> = HashMap::new();
    for entry in entries {
        let frame = entry.frame.root();
        let places = connections.entry(entry.connection).or_default();
        match (entry.direction, method(frame), id(frame)) {
            (Direction::ClientToServer, Some(_), Some(id)) => {
                let (at, token) = (found.len(), token(frame));
                places.open.insert(at);
                places.open_of_id.entry(id).or_default().push(at);
                places.of_token.extend(token.map(|token| (token, at)));
                places.last = Some(at);
                let (before, after) = (Vec::new(), Vec::new());
                found.push(Exchange { key: key(frame), before, response: None, after });
            }
            (Direction::ServerToClient, None, Some(id)) => {
                let at = places.open_of_id.get_mut(id).and_then(Vec::pop);
                if let Some((at, open)) = at.and_then(|at| Some((at, found.get_mut(at)?))) {
                    places.open.remove(&at);
                    open.response = Some(frame);
                }
            }
            (Direction::ServerToClient, Some(_), _) => {
                let progress = frame.pointer("/params/progressToken").map(Value::raw);
                let at = progress.and_then(|token| places.of_token.get(token));
                let at = at.or(places.open.last()).copied().or(places.last);
                if let Some(open) = at.and_then(|at| found.get_mut(at)) {
                    if open.response.is_none() { &mut open.before } else { &mut open.after }.push(frame);
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the entries of each client with a session, and the entries of all other clients
/// together. A client with a session sends several frames on its connection.
fn sessions(entries: Vec<Entry>) -> Vec<Vec<Entry>> {
    let mut sent: HashMap<u64, usize> = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.direction == Direction::ClientToServer) {
        *sent.entry(entry.connection).or_default() += 1;
    }
    let mut sessions: BTreeMap<Option<u64>, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        let has_session = sent.get(&entry.connection).is_some_and(|count| *count > 1);
        sessions.entry(has_session.then_some(entry.connection)).or_default().push(entry);
    }
    sessions.into_values().collect()
}

/// Answers a client on standard input and output.
fn serve(entries: &[Entry]) -> Result<u8> {
    let exchanges = exchanges(entries);
    // The exchanges with each key, and the number of those that were used.
    let mut of_key: HashMap<&str, (Vec<&Exchange<'_>>, usize)> = HashMap::new();
    for exchange in &exchanges {
        of_key.entry(&exchange.key).or_default().0.push(exchange);
    }
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
        let exchange = of_key.get_mut(&*wanted).and_then(|(equal, used)| {
            *used += 1;
            equal.get(*used - 1).or(equal.last()).copied()
        });
        let Some(exchange) = exchange else {
            send(&mut output, not_recorded(&exchanges, method, &wanted, id).as_bytes())?;
            continue;
        };
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

/// Waits until the client has answered a request of the server; other messages are queued. A
/// notification has no answer, so this does not wait. Returns false at the end of the input.
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

/// Sends the recorded requests to a server, and prints what differs. Each recorded session has its
/// own connection.
fn drive(args: &Args, output: &Output, entries: Vec<Entry>) -> Result<u8> {
    let (mut number, mut differing) = (0, false);
    for session in sessions(entries) {
        differing |= drive_session(args, output, &session, &mut number)?;
    }
    Ok(if differing { FAILED } else { 0 })
}

/// Returns whether anything differs. `number` counts the frames of the clients.
fn drive_session(args: &Args, output: &Output, entries: &[Entry], number: &mut usize) -> Result<bool> {
    let mut server = ReplayedServer::start(args, entries)?;
    let sent_back = sent_back(entries);
    let exchanges = exchanges(entries);
    let mut recorded = exchanges.iter();
    let mut tokens = HashMap::new();
    let mut differing = false;
    for frame in of_client(entries) {
        *number += 1;
        if method(frame).is_none() {
            continue;
        }
        server.send(frame, &tokens)?;
        let Some(expected) = id(frame) else { continue };
        let Some(response) = recorded.next().and_then(|exchange| exchange.response) else { continue };
        let message = server.response(frame, expected)?;
        let label = format!("{number} {}", request_name(frame));
        differences(response, message.root(), &mut |pointer, before, after| {
            let texts = (before.and_then(Value::as_str), after.and_then(Value::as_str));
            match texts {
                (Some(old), Some(new)) if sent_back.contains(old) => {
                    tokens.insert(old.to_owned(), new.to_owned());
                }
                _ if args.recording.ignore.iter().any(|ignored| is_below(&pointer, ignored)) => {}
                _ => {
                    differing = true;
                    let line = format!("~ {label} {pointer}: {} is now {}", shown(before), shown(after));
                    // OK to drop: the exit status reports the difference, too.
                    let _ = output.write(&format!("{}\n", one_line(&line)));
                }
            }
        });
    }
    Ok(differing)
}

/// Returns the frames that the client sent.
fn of_client(entries: &[Entry]) -> impl Iterator<Item = Value<'_>> {
    entries
        .iter()
        .filter(|entry| entry.direction == Direction::ClientToServer)
        .map(|entry| entry.frame.root())
}

/// Returns the strings that the recorded client sent as whole parameters, such as a cursor. If a
/// response contained such a string, the server chose it, so it may differ in each run of a server.
fn sent_back(entries: &[Entry]) -> HashSet<&str> {
    let params = of_client(entries).filter_map(|frame| frame.get("params")).flat_map(Value::members);
    let own = params.filter(|(name, _)| !NAMES.contains(name));
    own.filter_map(|(_, value)| value.as_str()).collect()
}

/// A server that gets the recorded requests. It is killed at the end.
struct ReplayedServer<'d> {
    label: String,
    child: Child,
    input: ChildStdin,
    messages: mpsc::Receiver<Doc>,
    /// Disconnected once the standard error of the server is printed.
    diagnostics: mpsc::Receiver<()>,
    timeout: Duration,
    frames: Option<Frames>,
    /// Answers of the recorded client to requests of the server.
    answers: VecDeque<Value<'d>>,
}

impl<'d> ReplayedServer<'d> {
    fn start(args: &Args, entries: &'d [Entry]) -> Result<ReplayedServer<'d>> {
        let label = connect::name(args);
        let failure = |why: &str| Failure::new(UNREACHABLE, format!("{label}: {why}"));
        let mut command = record::command(args)?;
        if io::stderr().is_terminal() {
            command.stderr(Stdio::piped());
        }
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| failure(&format!("cannot start the program: {error}")))?;
        let (printing, diagnostics) = mpsc::channel();
        if let Some(mut from) = child.stderr.take() {
            thread::spawn(move || {
                let _printing: mpsc::Sender<()> = printing;
                // OK to drop: a closed terminal cannot be reported.
                let _ = io::copy(&mut from, &mut record::Diagnostics);
            });
        }
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
        let answers = of_client(entries).filter(|frame| method(*frame).is_none());
        let timeout = args.timeout.unwrap_or(TIMEOUT);
        let shown = Frames::new(args, &[]);
        Ok(ReplayedServer {
            frames: shown,
            answers: answers.collect(),
            label,
            child,
            input,
            messages,
            diagnostics,
            timeout,
        })
    }

    fn send(&mut self, frame: Value<'_>, tokens: &HashMap<String, String>) -> Result<()> {
        let line = format!("{}\n", substituted(frame, tokens).as_str());
        self.write(line.as_bytes())
    }

    fn write(&mut self, line: &[u8]) -> Result<()> {
        if let Some(frames) = &self.frames {
            frames.show(tinymcp::Direction::Sent, line);
        }
        self.input.write_all(line).map_err(|error| {
            Failure::new(UNREACHABLE, format!("{}: the server reads no more: {error}", self.label))
        })
    }

    /// Waits for the response with this id. Answers requests of the server on the way.
    fn response(&mut self, request: Value<'_>, expected: &str) -> Result<Doc> {
        loop {
            let message = self.messages.recv_timeout(self.timeout).map_err(|error| {
                let what = request_name(request);
                let (status, why) = match error {
                    mpsc::RecvTimeoutError::Timeout => (TIMED_OUT, format!("no response to {what} in time")),
                    mpsc::RecvTimeoutError::Disconnected => {
                        (UNREACHABLE, format!("ended without a response to {what}"))
                    }
                };
                Failure::new(status, format!("{}: {why}", self.label))
            })?;
            if let Some(frames) = &self.frames {
                frames.show(tinymcp::Direction::Received, message.root().raw().as_bytes());
            }
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

impl Drop for ReplayedServer<'_> {
    fn drop(&mut self) {
        // OK to drop: it may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A process that the server started may keep its standard error open.
        let _ = self.diagnostics.recv_timeout(STDERR_TIMEOUT);
    }
}

/// Returns the method of a request with the name that it is about.
fn request_name(frame: Value<'_>) -> String {
    let method = method(frame).unwrap_or_default();
    let name = ["/params/name", "/params/uri"].into_iter().find_map(|p| frame.pointer(p)?.as_str());
    plain(&name.map_or_else(|| method.to_owned(), |name| format!("{method} {name}")))
}

/// Returns whether a pointer equals another one, or points below it.
fn is_below(pointer: &str, above: &str) -> bool {
    pointer.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn entry(connection: u64, direction: &str, frame: &str) -> Entry {
        let direction =
            if direction == "c2s" { Direction::ClientToServer } else { Direction::ServerToClient };
        Entry { direction, connection, frame: Doc::parse(frame).unwrap() }
    }

    #[test]
    fn events_belong_to_their_request() {
        let entries = [
            ("c2s", r#"{"id":1,"method":"a","params":{"_meta":{"progressToken":"p"}}}"#),
            ("c2s", r#"{"id":2,"method":"b"}"#),
            ("s2c", r#"{"method":"notifications/progress","params":{"progressToken":"p"}}"#),
            ("s2c", r#"{"id":7,"method":"elicitation/create"}"#),
            ("c2s", r#"{"id":7,"result":{}}"#),
            ("s2c", r#"{"id":2,"result":{}}"#),
            ("s2c", r#"{"id":1,"result":{}}"#),
            ("s2c", r#"{"method":"notifications/tools/list_changed"}"#),
        ]
        .map(|(direction, frame)| entry(0, direction, frame));
        let found = exchanges(&entries);
        let counts: Vec<_> =
            found.iter().map(|e| (e.before.len(), e.response.is_some(), e.after.len())).collect();
        assert_eq!(counts, [(1, true, 0), (1, true, 1)]);
    }

    #[test]
    fn the_ids_of_two_clients_may_be_equal() {
        let entries = [
            (1, "c2s", r#"{"id":1,"method":"a"}"#),
            (1, "c2s", r#"{"method":"notifications/a"}"#),
            (2, "c2s", r#"{"id":1,"method":"b"}"#),
            (3, "c2s", r#"{"id":1,"method":"c"}"#),
            (2, "s2c", r#"{"method":"notifications/b"}"#),
            (1, "s2c", r#"{"id":1,"result":{"of":"a"}}"#),
            (3, "s2c", r#"{"id":1,"result":{"of":"c"}}"#),
            (2, "s2c", r#"{"id":1,"result":{"of":"b"}}"#),
        ]
        .map(|(connection, direction, frame)| entry(connection, direction, frame));
        let found = exchanges(&entries);
        let answered: Vec<_> = found.iter().map(|e| (e.response.unwrap().raw(), e.before.len())).collect();
        let response = |of: &str| format!(r#"{{"id":1,"result":{{"of":"{of}"}}}}"#);
        assert_eq!(answered, [(&*response("a"), 0), (&*response("b"), 1), (&*response("c"), 0)]);
        // Requests without a session share a connection.
        let sizes: Vec<_> = sessions(entries.into()).iter().map(Vec::len).collect();
        assert_eq!(sizes, [5, 3]);
    }

    #[test]
    fn an_ignored_pointer_covers_what_is_below_it() {
        assert!(is_below("/result/a/b", "/result/a") && is_below("/a", "/a"));
        assert!(!is_below("/result/ab", "/result/a"));
    }
}
