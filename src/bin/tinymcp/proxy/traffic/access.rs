//! Lines of the access log: one for each request of a client, at its end.
//!
//! A request ends with its response or its cancellation. Requests that never end are bounded in
//! number: the oldest one is then written without an outcome.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant, SystemTime};

use tinymcp::Direction;
use tinymcp::json::{Doc, Kind, Value, Writer};

use super::output::time;
use super::{CopiedFrame, Event, EventKind, FindServer, Rejected, Side};
use crate::mask::{Mask, shortened};

/// Maximum number of requests without a response that are stored.
const REQUESTS: usize = 4096;
/// Maximum number of bytes of a path, an id, and the name of a tool, prompt or resource.
const NAME: usize = 200;
/// Start of a response of this library.
const RESPONSE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";

/// Connection and id of a request.
type Key = (String, String);

/// Returns an id as a part of a key. A client chooses its length: a long one is replaced by its
/// digest.
pub(super) fn key_id(id: &str) -> String {
    if id.len() <= NAME {
        return id.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("{} bytes, {:x}", id.len(), hasher.finish())
}

/// Requests that have not ended.
pub(super) struct AccessLog {
    requests: BTreeMap<Key, Request>,
    /// Keys in the order of their arrival, also of requests that have ended.
    order: VecDeque<Key>,
    find_server: FindServer,
}

struct Request {
    at: SystemTime,
    since: Instant,
    connection: String,
    principal: Option<String>,
    method: String,
    name: Option<String>,
    server: Option<String>,
}

/// Outcome of a request that has ended.
struct Outcome {
    text: String,
    /// Bytes of the response.
    bytes: Option<usize>,
}

/// Writes a line.
type WriteLine<'w> = dyn FnMut(Writer) + 'w;

impl AccessLog {
    pub(super) fn new(find_server: FindServer) -> AccessLog {
        AccessLog { requests: BTreeMap::new(), order: VecDeque::new(), find_server }
    }

    /// Adds an event, and writes the lines of the requests that it ends.
    pub(super) fn add(&mut self, event: &Event, mask: &Mask, write: &mut WriteLine<'_>) {
        let frame = match &event.kind {
            EventKind::Frame(frame) if frame.side == Side::Client => frame,
            EventKind::Frame(_) => return,
            EventKind::Rejected(rejected) => return self.reject(event, rejected, mask, write),
        };
        let Ok(doc) = Doc::parse(&frame.bytes) else {
            return self.cut(event, frame, mask, write);
        };
        match doc.root().kind() {
            Kind::Array => {
                for message in doc.root().items() {
                    self.message(event, frame, message, mask, write);
                }
            }
            _ => self.message(event, frame, doc.root(), mask, write),
        }
    }

    /// Writes the line of a rejected request, or ends the request if its message was read.
    fn reject(&mut self, event: &Event, rejected: &Rejected, mask: &Mask, write: &mut WriteLine<'_>) {
        let outcome = Outcome { text: format!("rejected {}", rejected.status), bytes: None };
        match rejected.message.as_ref().and_then(|key| self.requests.remove(key)) {
            Some(request) => {
                self.drop_ended();
                write(request.line(Some(event.since.saturating_duration_since(request.since)), &outcome));
            }
            None => write(rejection_line(event.at, rejected, &outcome, mask)),
        }
    }

    fn message(
        &mut self,
        event: &Event,
        frame: &CopiedFrame,
        message: Value<'_>,
        mask: &Mask,
        write: &mut WriteLine<'_>,
    ) {
        let id = message.get("id").filter(|id| !id.is_null());
        let method = message.get("method").and_then(Value::as_str);
        match (frame.direction, id, method) {
            (Direction::Received, Some(id), Some(method)) => {
                self.begin(event, frame, id, method, message.get("params"), mask, write);
            }
            (Direction::Received, None, Some("notifications/cancelled")) => {
                if let Some(id) = message.pointer("/params/requestId") {
                    let outcome = Outcome { text: "cancelled".to_owned(), bytes: None };
                    self.end(event, frame, id.raw(), &outcome, write);
                }
            }
            (Direction::Sent, id, None) => {
                let outcome = Outcome { text: outcome(message), bytes: Some(message.raw().len()) };
                self.end(event, frame, id.map_or("null", Value::raw), &outcome, write);
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "parts of one message")]
    fn begin(
        &mut self,
        event: &Event,
        frame: &CopiedFrame,
        id: Value<'_>,
        method: &str,
        params: Option<Value<'_>>,
        mask: &Mask,
        write: &mut WriteLine<'_>,
    ) {
        let name = params.and_then(|params| name(method, params));
        let found = || name.as_deref().and_then(|name| (self.find_server)(method, name));
        let server = frame.server.clone().or_else(found);
        let request = Request {
            at: event.at,
            since: event.since,
            connection: frame.connection.clone(),
            principal: frame.principal.clone(),
            method: shortened(&mask.text(method), NAME),
            name: name.map(|name| shortened(&mask.text(&name), NAME)),
            server,
        };
        let key = (frame.connection.clone(), key_id(id.raw()));
        self.order.push_back(key.clone());
        self.requests.insert(key, request);
        while self.order.len() > REQUESTS {
            let oldest = self.order.pop_front();
            if let Some(request) = oldest.and_then(|key| self.requests.remove(&key)) {
                write(request.line(None, &Outcome { text: "no response".to_owned(), bytes: None }));
            }
        }
    }

    fn end(
        &mut self,
        event: &Event,
        frame: &CopiedFrame,
        id: &str,
        outcome: &Outcome,
        write: &mut WriteLine<'_>,
    ) {
        let key = (frame.connection.clone(), key_id(id));
        let request = self.requests.remove(&key);
        self.drop_ended();
        match request {
            Some(request) => {
                let time = event.since.saturating_duration_since(request.since);
                write(request.line(Some(time), outcome));
            }
            // A response to a frame that could not be read.
            None if id == "null" => write(unread_line(event, frame, outcome)),
            None => {}
        }
    }

    /// Drops the keys of requests that have ended, as soon as they are the oldest ones.
    fn drop_ended(&mut self) {
        while self.order.front().is_some_and(|key| !self.requests.contains_key(key)) {
            self.order.pop_front();
        }
    }

    /// Ends the request of a response that was too long to copy, or that this log cannot read.
    fn cut(&mut self, event: &Event, frame: &CopiedFrame, mask: &Mask, write: &mut WriteLine<'_>) {
        let Some(rest) = frame.bytes.strip_prefix(RESPONSE) else { return };
        let Some(end) = rest.windows(2).position(|pair| pair == b",\"") else { return };
        let (id, rest) = rest.split_at(end);
        if frame.direction == Direction::Sent {
            let text = if rest.starts_with(b",\"error\"") { "error" } else { "ok" };
            let outcome = Outcome { text: text.to_owned(), bytes: frame.cut };
            self.end(event, frame, &mask.text(&String::from_utf8_lossy(id)), &outcome, write);
        }
    }
}

/// Returns the name of the tool, prompt or resource of a request.
fn name(method: &str, params: Value<'_>) -> Option<String> {
    let text = |pointer: &str| params.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    match method {
        "tools/call" => match text("/name")? {
            // The tool of `--lazy` that calls another.
            name if name == "tool_invoke" => text("/arguments/name").or(Some(name)),
            name => Some(name),
        },
        "prompts/get" => text("/name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => text("/uri"),
        "completion/complete" => text("/ref/name").or_else(|| text("/ref/uri")),
        _ => None,
    }
}

fn outcome(message: Value<'_>) -> String {
    if let Some(error) = message.get("error") {
        return format!("error {}", error.get("code").and_then(Value::as_i64).unwrap_or_default());
    }
    let result = message.get("result");
    let is_error = result.and_then(|result| result.get("isError")).and_then(Value::as_bool);
    if is_error == Some(true) { "tool error".to_owned() } else { "ok".to_owned() }
}

impl Request {
    fn line(&self, took: Option<Duration>, outcome: &Outcome) -> Writer {
        let mut w = begin_line(self.at, &self.connection, self.principal.as_deref());
        w.key("method").string(&self.method);
        for (key, value) in [("name", &self.name), ("server", &self.server)] {
            if let Some(value) = value {
                w.key(key).string(value);
            }
        }
        w.key("outcome").string(&outcome.text);
        if let Some(took) = took {
            // Tenths of a millisecond.
            let tenths = took.as_micros() / 100;
            w.key("ms").raw(&format!("{}.{}", tenths / 10, tenths % 10));
        }
        end_line(w, outcome.bytes)
    }
}

fn begin_line(at: SystemTime, connection: &str, principal: Option<&str>) -> Writer {
    let mut w = Writer::new();
    w.begin_object().key("time").string(&time(at));
    w.key("connection").string(connection);
    if let Some(principal) = principal {
        w.key("principal").string(principal);
    }
    w
}

fn end_line(mut w: Writer, bytes: Option<usize>) -> Writer {
    if let Some(bytes) = bytes {
        w.key("bytes").u64(bytes as u64);
    }
    w.end_object().newline();
    w
}

/// Returns the line of a request that could not be read.
fn unread_line(event: &Event, frame: &CopiedFrame, outcome: &Outcome) -> Writer {
    let mut w = begin_line(event.at, &frame.connection, frame.principal.as_deref());
    w.key("outcome").string(&outcome.text);
    end_line(w, outcome.bytes)
}

/// Returns the line of a request that was rejected before its message was read.
fn rejection_line(at: SystemTime, rejected: &Rejected, outcome: &Outcome, mask: &Mask) -> Writer {
    let mut w = Writer::new();
    w.begin_object().key("time").string(&time(at));
    if !rejected.method.is_empty() {
        let path = shortened(&mask.text(&rejected.path), NAME);
        w.key("http").string(&format!("{} {path}", rejected.method));
    }
    w.key("outcome").string(&outcome.text);
    if let Some(reason) = &rejected.reason {
        w.key("why").string(reason);
    }
    end_line(w, None)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    /// Returns the log of these frames, each with its direction: `>` received, `<` sent. The id of
    /// the connection is the first word.
    fn logged(frames: &[(&str, &str)]) -> Vec<String> {
        let find: FindServer =
            Box::new(|method, name| (method == "tools/call").then(|| format!("of {name}")));
        let mut log = AccessLog::new(find);
        let (mut lines, since) = (Vec::new(), Instant::now());
        for (n, (place, text)) in frames.iter().enumerate() {
            let (direction, connection) = place.split_at(1);
            let frame = CopiedFrame {
                server: None,
                side: Side::Client,
                connection: connection.to_owned(),
                principal: (connection == "a").then(|| "alice".to_owned()),
                direction: if direction == ">" { Direction::Received } else { Direction::Sent },
                bytes: text.as_bytes().to_vec(),
                cut: text.ends_with('…').then_some(9999),
            };
            let at = SystemTime::UNIX_EPOCH;
            let since = since + Duration::from_micros(1250 * n as u64);
            let event = Event { at, since, kind: EventKind::Frame(frame) };
            log.add(&event, &Mask::new(vec!["hidden-value".to_owned()]), &mut |line| {
                let line = line.as_str().trim_end().to_owned();
                lines.push(line.replace(r#""time":"1970-01-01T00:00:00.000Z","connection":"#, ""));
            });
        }
        lines
    }

    #[test]
    fn a_line_has_the_request_and_its_outcome() {
        let call = |id: &str, name: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}"}}}}"#)
        };
        let result = |id: &str, rest: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#);
        let lines = logged(&[
            (">a", &call("1", "x")),
            // The same id on another connection.
            (">b", &call("1", "hidden-value")),
            ("<b", &result("1", r#""result":{"isError":true}"#)),
            ("<a", &result("1", r#""error":{"code":-32602,"message":"m"}"#)),
            // Requests of the server and their responses are not accesses.
            ("<a", r#"{"jsonrpc":"2.0","id":5,"method":"elicitation/create"}"#),
            (">a", r#"{"jsonrpc":"2.0","id":5,"result":{}}"#),
            (">a", r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#),
            ("<a", &result("\"p\"", r#""result":{}"#)),
            ("<b", &result("null", r#""error":{"code":-32700}"#)),
        ]);
        assert_eq!(
            lines,
            [
                r#"{"b","method":"tools/call","name":"[masked]","server":"of hidden-value","outcome":"tool error","ms":1.2,"bytes":50}"#,
                r#"{"a","principal":"alice","method":"tools/call","name":"x","server":"of x","outcome":"error -32602","ms":3.7,"bytes":62}"#,
                r#"{"a","principal":"alice","method":"ping","outcome":"ok","ms":1.2,"bytes":38}"#,
                r#"{"b","outcome":"error -32700","bytes":51}"#,
            ]
        );
    }

    #[test]
    fn cancelled_batched_and_long_requests_end() {
        let lines = logged(&[
            (
                ">b",
                r#"[{"id":1,"method":"ping"},{"id":2,"method":"tools/call","params":{"name":"tool_invoke","arguments":{"name":"y"}}}]"#,
            ),
            (">b", r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#),
            ("<b", r#"{"jsonrpc":"2.0","id":2,"result":{"content":[…"#),
        ]);
        assert_eq!(
            lines,
            [
                r#"{"b","method":"ping","outcome":"cancelled","ms":1.2}"#,
                r#"{"b","method":"tools/call","name":"y","server":"of y","outcome":"ok","ms":2.5,"bytes":9999}"#,
            ]
        );
    }

    #[test]
    fn a_request_whose_message_was_rejected_ends() {
        let mut log = AccessLog::new(Box::new(|_, _| None));
        let mut lines = Vec::new();
        let mut add = |kind| {
            let event = Event { at: SystemTime::UNIX_EPOCH, since: Instant::now(), kind };
            log.add(&event, &Mask::new(Vec::new()), &mut |line| lines.push(line.as_str().to_owned()));
        };
        add(EventKind::Frame(CopiedFrame {
            server: None,
            side: Side::Client,
            connection: "session-1".to_owned(),
            principal: None,
            direction: Direction::Received,
            bytes: br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#.to_vec(),
            cut: None,
        }));
        let rejected = || {
            EventKind::Rejected(Rejected {
                method: "POST".to_owned(),
                path: "/mcp".to_owned(),
                status: 503,
                reason: None,
                message: Some(("session-1".to_owned(), "\"a\"".to_owned())),
            })
        };
        add(rejected());
        // A second rejection of the same request has no message to end.
        add(rejected());
        let [ended, unknown] = &*lines else { panic!("{lines:?}") };
        assert!(ended.contains(r#""method":"ping","outcome":"rejected 503","ms":"#), "{ended}");
        assert!(unknown.contains(r#""http":"POST /mcp","outcome":"rejected 503"}"#), "{unknown}");
    }

    #[test]
    fn a_long_id_is_not_kept_and_its_request_ends() {
        let id = format!("\"{}\"", "x".repeat(900_000));
        let mut log = AccessLog::new(Box::new(|_, _| None));
        let mut lines = Vec::new();
        let mut add = |direction, text: String| {
            let frame = CopiedFrame {
                server: None,
                side: Side::Client,
                connection: "a".to_owned(),
                principal: None,
                direction,
                bytes: text.into_bytes(),
                cut: None,
            };
            let (at, since) = (SystemTime::UNIX_EPOCH, Instant::now());
            let event = Event { at, since, kind: EventKind::Frame(frame) };
            log.add(&event, &Mask::new(Vec::new()), &mut |line| lines.push(line.as_str().to_owned()));
            // A request that stays open keeps the keys of those behind it.
            log.order.iter().map(|(_, id)| id.len()).sum::<usize>()
        };
        add(Direction::Received, r#"{"id":0,"method":"ping"}"#.to_owned());
        let kept = add(Direction::Received, format!(r#"{{"id":{id},"method":"ping"}}"#));
        assert!(kept <= 2 * NAME, "{kept}");
        add(Direction::Sent, format!(r#"{{"id":{id},"result":{{}}}}"#));
        assert!(lines.len() == 1 && lines[0].contains(r#""outcome":"ok""#), "{lines:?}");
    }

    #[test]
    fn requests_without_a_response_are_bounded() {
        let request = |n: usize| format!(r#"{{"id":{n},"method":"ping"}}"#);
        let requests: Vec<String> = (0..=REQUESTS).map(request).collect();
        let frames: Vec<(&str, &str)> = requests.iter().map(|text| (">b", &**text)).collect();
        assert_eq!(logged(&frames), [r#"{"b","method":"ping","outcome":"no response"}"#]);
    }
}
