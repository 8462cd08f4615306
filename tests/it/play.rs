//! Player of one transcript over one connection, in one revision.
//!
//! The player adds the envelope of the revision to sent and expected messages: `_meta` of a modern
//! request, and `resultType`, server name and cache hints of a modern result. It implements the
//! rules of the specification itself and does not use the library for them.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Map, Value, json};
use tinymcp::json::{Doc, ParseLimits};

use crate::compare::{Captured, compare, substitute};
use crate::fixture::{self, Order};
use crate::script::{Action, MODERN, Pattern, REVISIONS, Script, Step};
use crate::wire::{Connect, Received, TIMEOUT, Wire};

const PREFIX: &str = "io.modelcontextprotocol/";

/// Methods whose complete results carry cache hints (2026-07-28 server/utilities/caching).
const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// Plays `script` in this revision with this many workers. If the script sets a time limit, some
/// steps must finish before it expires. After a failure on a busy machine, such a script is played
/// again with ten times the limit, then with a hundred times.
///
/// # Errors
/// File, line, configuration, the expected and the received message.
pub(crate) fn play(script: &Script, revision: usize, workers: u64, connect: Connect) -> Result<(), String> {
    let is_time = |(name, _): &(String, u64)| name.ends_with("_ms");
    let mut played = play_once(script, script.limits.clone(), revision, workers, connect);
    for times in [10, 100] {
        if played.is_ok() || !script.limits.iter().any(is_time) {
            break;
        }
        let mut limits = script.limits.clone();
        limits.iter_mut().filter(|limit| is_time(limit)).for_each(|(_, time)| *time *= times);
        played = play_once(script, limits, revision, workers, connect);
    }
    played
}

fn play_once(
    script: &Script,
    limits: Vec<(String, u64)>,
    revision: usize,
    workers: u64,
    connect: Connect,
) -> Result<(), String> {
    let mut order = Order { server: script.server.clone(), limits };
    if !order.limits.iter().any(|(name, _)| name == "workers") {
        order.limits.push(("workers".to_owned(), workers));
    }
    let wire = connect(&order).map_err(|why| format!("{}: {why}", script.path))?;
    let mut player = Player {
        wire,
        revision,
        client: script.client.clone(),
        info: fixture::info(&script.server).to_owned(),
        captured: Captured::new(),
        requests: BTreeMap::new(),
        open: false,
        silence_count: 0,
        retries: 0,
        held: Vec::new(),
    };
    let steps: Vec<&Step> = script.steps.iter().filter(|step| step.revisions.contains(&revision)).collect();
    let mut at = 0;
    while let Some(step) = steps.get(at) {
        // Neighbouring steps in any order are expected as a group.
        let many = steps[at..].iter().take_while(|s| any_order(s)).count().max(1);
        let group = &steps[at..at + many];
        player.steps(group).map_err(|why| format!("{}:{}: {why}", script.path, step.line))?;
        at += many;
    }
    player.end().map_err(|why| format!("{}: at the end: {why}", script.path))
}

fn any_order(step: &Step) -> bool {
    matches!(step.action, Action::Expect { any_order: true, .. })
}

struct Player {
    wire: Box<dyn Wire>,
    revision: usize,
    /// Capabilities of the client.
    client: String,
    /// `Implementation` of the server.
    info: String,
    captured: Captured,
    /// Sent requests by the id that the transcript uses.
    requests: BTreeMap<String, Sent>,
    /// True while a session is open.
    open: bool,
    silence_count: u32,
    retries: u32,
    /// Messages received before they were expected, on transports without order.
    held: Vec<Value>,
}

/// A sent request.
struct Sent {
    /// The id on the wire. A retried call gets a new one.
    id: Value,
    method: String,
    params: Value,
    /// Open requests of the server in a session: their ids by key.
    open: BTreeMap<String, Value>,
}

impl Player {
    fn steps(&mut self, group: &[&Step]) -> Result<(), String> {
        let [step] = group else { return self.expect(group) };
        match &step.action {
            Action::Open => self.open(),
            Action::Silence => self.silence(),
            Action::Eof => {
                self.wire.finish();
                Ok(())
            }
            Action::Tamper { from, to } => self.tamper(from, to),
            Action::Fire(command) => self.wire.act(command),
            Action::Refused { kind, command } => match self.wire.act(command) {
                Err(why) if why.starts_with(&format!("{kind}:")) => Ok(()),
                other => Err(format!("expected an error of kind {kind}, got {other:?}")),
            },
            Action::Send(text) => {
                let text = self.text(text)?;
                self.send(&text)
            }
            Action::SendBytes(bytes) => self.wire.send(bytes),
            Action::Request { id, method, params } => self.request(id, method, params),
            Action::Note { method, params } => {
                let mut message = json!({"jsonrpc": "2.0", "method": method});
                if !params.is_empty() {
                    message["params"] = self.value(params)?;
                }
                self.send(&message.to_string())
            }
            Action::Answer { call, answers } => self.answer(call, answers),
            Action::Refuse { call, errors } => self.refuse(call, errors),
            Action::Expect { .. } => self.expect(group),
        }
    }

    fn open(&mut self) -> Result<(), String> {
        if self.revision == MODERN {
            return Ok(());
        }
        let date = REVISIONS[self.revision].1;
        let message = json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
            "protocolVersion": date,
            "capabilities": self.value(&self.client.clone())?,
            "clientInfo": {"name": "player", "version": "1"},
        }});
        self.send(&message.to_string())?;
        let answer = self.receive()?;
        if answer["id"] != "open" || answer["result"]["protocolVersion"] != date {
            return Err(format!("cannot open the session: {answer}"));
        }
        self.open = true;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())
    }

    /// Sends a request that needs no handler: `ping` in a session, else an unknown method. Its
    /// response follows all responses to earlier requests.
    fn silence(&mut self) -> Result<(), String> {
        self.silence_count += 1;
        let id = format!("silence {}", self.silence_count);
        let (params, outcome) = if self.revision == MODERN {
            let error = json!({"code": -32601, "message": "Method not found: ping"});
            (json!({"_meta": self.meta()?}), ("error", error))
        } else {
            (json!({}), ("result", json!({})))
        };
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": params});
        self.send(&message.to_string())?;
        let mut expected = json!({"jsonrpc": "2.0", "id": id});
        expected[outcome.0] = outcome.1;
        let received = self.receive()?;
        if let Some(held) = self.held.first() {
            return Err(format!("expected silence\n  got:      {held}"));
        }
        if received == expected { Ok(()) } else { Err(format!("expected silence\n  got:      {received}")) }
    }

    fn tamper(&mut self, from: &str, to: &str) -> Result<(), String> {
        let Some(Value::String(text)) = self.captured.get(from) else {
            return Err(format!("{from:?} is not a captured string"));
        };
        let middle = text.len() / 2;
        let other = if text.as_bytes().get(middle) == Some(&b'A') { "B" } else { "A" };
        let mut changed = text.clone();
        changed.replace_range(middle..=middle, other);
        self.captured.insert(to.to_owned(), Value::String(changed));
        Ok(())
    }

    fn request(&mut self, id: &str, method: &str, params: &str) -> Result<(), String> {
        let id_value: Value = serde_json::from_str(id).map_err(|_| format!("{id:?} is not an id"))?;
        let mut params = if params.is_empty() { Value::Null } else { self.value(params)? };
        if self.revision == MODERN {
            if params.is_null() {
                params = json!({});
            }
            let mut meta = params["_meta"].take();
            if meta.is_null() {
                meta = json!({});
            }
            // `_meta` of the transcript overrides the default.
            for (name, value) in object(self.meta()?) {
                if meta.get(&name).is_none() {
                    meta[&name] = value;
                }
            }
            params["_meta"] = meta;
        }
        let mut message = json!({"jsonrpc": "2.0", "id": id_value, "method": method});
        if !params.is_null() {
            message["params"] = params.clone();
        }
        let sent = Sent { id: id_value, method: method.to_owned(), params, open: BTreeMap::new() };
        self.requests.insert(id.to_owned(), sent);
        self.send(&message.to_string())
    }

    fn answer(&mut self, call: &str, answers: &str) -> Result<(), String> {
        let answers = self.value(answers)?;
        if self.revision == MODERN {
            self.retries += 1;
            let state = self.captured.remove(&state_of(call));
            let retry = json!(format!("retry {}", self.retries));
            let sent = self.requests.get_mut(call).ok_or_else(|| format!("no request {call} was sent"))?;
            let mut params = sent.params.clone();
            params["inputResponses"] = answers;
            params["requestState"] = state.ok_or_else(|| format!("{call} has no requestState"))?;
            sent.id = retry.clone();
            let message = json!({"jsonrpc": "2.0", "id": retry, "method": sent.method, "params": params});
            return self.send(&message.to_string());
        }
        self.respond_to(call, answers, "result")
    }

    fn refuse(&mut self, call: &str, errors: &str) -> Result<(), String> {
        let errors = self.value(errors)?;
        self.respond_to(call, errors, "error")
    }

    /// Responds to the open requests of a call in a session, by their keys.
    fn respond_to(&mut self, call: &str, outcomes: Value, member: &str) -> Result<(), String> {
        let sent = self.requests.get_mut(call).ok_or_else(|| format!("no request {call} was sent"))?;
        let mut messages = Vec::new();
        for (key, outcome) in object(outcomes) {
            let id = sent.open.remove(&key).ok_or_else(|| format!("no request {key:?} is open"))?;
            let mut message = json!({"jsonrpc": "2.0", "id": id});
            message[member] = outcome;
            messages.push(message);
        }
        messages.iter().try_for_each(|message| self.send(&message.to_string()))
    }

    /// Receives the messages that these steps expect: several steps in any order.
    fn expect(&mut self, group: &[&Step]) -> Result<(), String> {
        let mut expected = Vec::new();
        for step in group {
            if let Action::Expect { pattern, .. } = &step.action {
                for message in self.expected(pattern)? {
                    expected.push((step.line, message));
                }
            }
        }
        // In an `input_required` result the requests are members of an object, without order.
        let ordered = expected.len() == 1;
        while !expected.is_empty() {
            let wanted = || {
                let all: Vec<String> = expected.iter().map(|(l, e)| format!("line {l}: {e}")).collect();
                format!("expected: {}", all.join("\n        or: "))
            };
            let received = self.next(&expected).map_err(|why| format!("{why}\n  {}", wanted()))?;
            let mut differences = Vec::new();
            let mut found = None;
            for (place, (line, message)) in expected.iter().enumerate() {
                let mut captured = self.captured.clone();
                match compare(message, &received, &mut captured) {
                    Ok(()) => {
                        found = Some(place);
                        self.captured = captured;
                        break;
                    }
                    Err(d) => differences.push(format!("line {line}, at {:?}: {}", d.path, d.what)),
                }
                if ordered {
                    break;
                }
            }
            match found {
                Some(place) => drop(expected.remove(place)),
                None => {
                    return Err(format!(
                        "unexpected message\n  {}\n  got:      {received}\n  {}",
                        wanted(),
                        differences.join("\n  ")
                    ));
                }
            }
        }
        for step in group {
            self.store_ids(&step.action);
        }
        Ok(())
    }

    /// Returns the next message. On a transport without order, returns the first one that matches.
    fn next(&mut self, expected: &[(usize, Value)]) -> Result<Value, String> {
        let fits = |received: &Value, captured: &Captured| {
            expected.iter().any(|(_, message)| compare(message, received, &mut captured.clone()).is_ok())
        };
        if let Some(at) = self.held.iter().position(|received| fits(received, &self.captured)) {
            return Ok(self.held.remove(at));
        }
        loop {
            let received = self.receive().map_err(|why| match self.held.as_slice() {
                [] => why,
                held => format!("{why}, but before that {}", held[0]),
            })?;
            if self.wire.ordered() || fits(&received, &self.captured) {
                return Ok(received);
            }
            self.held.push(received);
        }
    }

    /// Stores the ids of the server's requests in a session.
    fn store_ids(&mut self, action: &Action) {
        let Action::Expect { pattern: Pattern::Ask { call, .. }, .. } = action else { return };
        let prefix = format!("question {call} ");
        let ids: Vec<(String, Value)> = self
            .captured
            .iter()
            .filter_map(|(name, id)| Some((name.strip_prefix(&prefix)?.to_owned(), id.clone())))
            .collect();
        for (key, id) in ids {
            self.captured.remove(&format!("{prefix}{key}"));
            if let Some(sent) = self.requests.get_mut(call) {
                sent.open.insert(key, id);
            }
        }
    }

    /// Returns the messages that a pattern describes.
    fn expected(&self, pattern: &Pattern) -> Result<Vec<Value>, String> {
        Ok(vec![match pattern {
            Pattern::Message(text) => self.value(text)?,
            Pattern::Note { method, params } => {
                let params = if params.is_empty() { json!({}) } else { self.value(params)? };
                json!({"jsonrpc": "2.0", "method": method, "params": params})
            }
            Pattern::Error { id, error } => self.expected_error(id, error)?,
            Pattern::Result { id, body } => {
                let body = if body.is_empty() { json!({}) } else { self.value(body)? };
                json!({"jsonrpc": "2.0", "id": self.id(id)?, "result": self.result(id, body)?})
            }
            Pattern::Ask { call, asks } if self.revision == MODERN => {
                let body = json!({
                    "resultType": "input_required",
                    "inputRequests": self.value(asks)?,
                    "requestState": format!("${{{}}}", state_of(call)),
                });
                json!({"jsonrpc": "2.0", "id": self.id(call)?, "result": self.result(call, body)?})
            }
            Pattern::Ask { call, asks } => {
                let mut questions = Vec::new();
                for (key, mut question) in object(self.value(asks)?) {
                    question["jsonrpc"] = json!("2.0");
                    question["id"] = json!(format!("${{question {call} {key}}}"));
                    questions.push(question);
                }
                return Ok(questions);
            }
        }])
    }

    /// `CODE "message" DATA?`.
    fn expected_error(&self, id: &str, error: &str) -> Result<Value, String> {
        let parts: Vec<Value> = serde_json::Deserializer::from_str(&self.text(error)?)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|e| format!("{error:?}: {e}"))?;
        let [code, message, data @ ..] = parts.as_slice() else {
            return Err("expected: <! ID CODE \"MESSAGE\" DATA".to_owned());
        };
        let mut error = json!({"code": code, "message": message});
        if let [data] = data {
            error["data"] = data.clone();
        }
        let mut whole = json!({"jsonrpc": "2.0", "error": error});
        if id != "-" {
            whole["id"] = self.id(id)?;
        } else if self.open && self.revision < 3 {
            // The schemas before 2025-11-25 require an id on every error.
            whole["id"] = Value::Null;
        }
        Ok(whole)
    }

    /// Returns a result with the members that the revision adds.
    fn result(&self, id: &str, mut body: Value) -> Result<Value, String> {
        if self.revision == MODERN {
            if body.get("resultType").is_none() {
                body["resultType"] = json!("complete");
            }
            let method = self.requests.get(id).map_or("", |sent| sent.method.as_str());
            let complete = body["resultType"] == "complete";
            if complete && CACHEABLE.contains(&method) && body.get("ttlMs").is_none() {
                body["ttlMs"] = json!(0);
                body["cacheScope"] = json!("private");
            }
            let mut meta = body.get("_meta").cloned().unwrap_or_else(|| json!({}));
            meta[format!("{PREFIX}serverInfo")] = self.value(&self.info)?;
            body["_meta"] = meta;
        }
        Ok(body)
    }

    /// Returns the id on the wire of a request by its id in the transcript.
    fn id(&self, id: &str) -> Result<Value, String> {
        match self.requests.get(id) {
            Some(sent) => Ok(sent.id.clone()),
            None => serde_json::from_str(id).map_err(|_| format!("{id:?} is not an id")),
        }
    }

    /// Returns the `_meta` of a modern request.
    fn meta(&self) -> Result<Value, String> {
        let mut meta = Map::new();
        meta.insert(format!("{PREFIX}protocolVersion"), json!(REVISIONS[MODERN].1));
        let client = serde_json::from_str(&self.client).map_err(|e| format!("client: {e}"))?;
        meta.insert(format!("{PREFIX}clientCapabilities"), client);
        Ok(Value::Object(meta))
    }

    /// Replaces the `$` names of a text.
    fn text(&self, text: &str) -> Result<String, String> {
        let mut text =
            text.replace("\"K/", &format!("\"{PREFIX}")).replace("$DATE", REVISIONS[self.revision].1);
        if text.contains("$M") {
            // A session needs no `_meta`.
            let meta = if self.revision == MODERN { self.meta()? } else { json!({}) };
            text = text.replace("$M", &meta.to_string());
        }
        if text.contains("$INFO") {
            text = text.replace("$INFO", &self.info);
        }
        Ok(text)
    }

    /// Parses a JSON text of a transcript, with `$` names and captured values replaced.
    fn value(&self, text: &str) -> Result<Value, String> {
        // A name that is not captured yet stays in the text and captures.
        let text = self.text(text)?;
        let text = substitute(&text, &self.captured).unwrap_or(text);
        serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))
    }

    fn send(&mut self, line: &str) -> Result<(), String> {
        let line = substitute(line, &self.captured)?;
        self.wire.send(format!("{line}\n").as_bytes())
    }

    fn receive(&mut self) -> Result<Value, String> {
        match self.wire.receive(Instant::now() + TIMEOUT) {
            Received::Message(text) => message(&text),
            Received::Closed => Err("the server closed the connection".to_owned()),
            Received::TimedOut => Err("no message before the timeout".to_owned()),
        }
    }

    /// Closes the input and rejects any further message.
    fn end(mut self) -> Result<(), String> {
        self.wire.finish();
        if let Some(received) = self.held.first() {
            return Err(format!("unexpected message\n  got:      {received}"));
        }
        match self.wire.receive(Instant::now() + TIMEOUT) {
            Received::Closed => self.wire.end(),
            Received::Message(text) => Err(format!("unexpected message\n  got:      {text}")),
            Received::TimedOut => Err("the server did not close its output".to_owned()),
        }
    }
}

/// Name under which the `requestState` of a call is captured.
fn state_of(call: &str) -> String {
    format!("state {call}")
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Parses a message and rejects duplicate member names.
fn message(text: &str) -> Result<Value, String> {
    let strict = ParseLimits { unique_names: true, ..ParseLimits::default() };
    Doc::default().parse_again(text.as_bytes(), &strict).map_err(|error| format!("{error}: {text}"))?;
    serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))
}
