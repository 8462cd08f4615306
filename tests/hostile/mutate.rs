//! Mutated requests against an oracle.
//!
//! Messages of every kind are mutated at random and sent to a server process. A failure prints the
//! seed. An oracle that shares no code with the library computes the expected response: at most one
//! for each message, and exactly one with the same id where JSON-RPC requires it.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::thread;

use serde_json::Value;

use super::process::Process;
use super::wire::{MODERN, Peer, TIMEOUT, call, cancel, request};
use crate::tests;

tests! {
    each_mutated_request_gets_one_response,
    the_oracle_classifies_known_messages,
}

/// Xorshift generator: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 11) % end as u64) as usize
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Seed messages; `@` is replaced by a unique id.
fn corpus() -> Vec<String> {
    let modern = |method: &str, params: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":@,\"method\":\"{method}\",\"params\":{{{MODERN}{params}}}}}")
    };
    let legacy = |method: &str, params: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":@,\"method\":\"{method}\",\"params\":{params}}}")
    };
    let mut all = vec![
        request("@", "ping"),
        request("@", "tools/list"),
        legacy("tools/list", r#"{"cursor":"dAAAAAAAAAAB"}"#),
        call("@", "echo", r#"{"a":[1,2.5,-3e10,null,true,{"b":"\u00e9\ud83d\ude00"}]}"#),
        call("\"@\"", "echo_inline", r#"{"text":"x"}"#),
        call("@", "fill", r#"{"bytes":100}"#),
        call("@", "ask", "{}"),
        call("@", "count", r#"{"k":"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"}"#),
        legacy("resources/read", r#"{"uri":"res:text"}"#),
        legacy("resources/list", "{}"),
        legacy("resources/templates/list", "{}"),
        legacy("resources/subscribe", r#"{"uri":"res:text"}"#),
        legacy("resources/unsubscribe", r#"{"uri":"res:text"}"#),
        legacy("prompts/list", "{}"),
        legacy("prompts/get", r#"{"name":"p","arguments":{"a":"b"}}"#),
        legacy(
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"},"context":{"arguments":{"x":"y"}}}"#,
        ),
        legacy("logging/setLevel", r#"{"level":"info"}"#),
        legacy("initialize", r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#),
        legacy("tools/call", r#"{"name":"echo","_meta":{"progressToken":"t"},"arguments":{}}"#),
        modern("server/discover", ""),
        modern("tools/call", r#","name":"echo","arguments":{"x":1}"#),
        modern(
            "tools/call",
            r#","name":"ask","inputResponses":{"go":{"action":"accept","content":{"yes":true}}}"#,
        ),
        modern("tools/call", r#","name":"ask","requestState":"AAAA","inputResponses":{}"#),
        modern("subscriptions/listen", r#","notifications":{"resourceSubscriptions":["res:text"]}"#),
        cancel("@"),
        cancel("\"@\""),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}"#
            .to_owned(),
        r#"{"jsonrpc":"2.0","id":@,"result":{"action":"decline"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":@,"error":{"code":-1,"message":"no"}}"#.to_owned(),
        "[]".to_owned(),
    ];
    all.push(format!("[{}]", all[0].trim()));
    all.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// Fragments inserted into messages: tokens with a meaning to some parser.
const FRAGMENTS: &[&str] = &[
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "true",
    "0",
    "-",
    "1e999",
    "-0",
    "1.0",
    "18446744073709551616",
    "\\u0000",
    "\\ud800",
    "\\udc00\\ud800",
    "\u{feff}",
    "\u{0}",
    "\u{7f}",
    "\r",
    "\t",
    " ",
    "é",
    "\u{1F600}",
    "\"id\":1,",
    "\"id\":null,",
    "\"method\":\"ping\",",
    "\"params\":[],",
    "\"jsonrpc\":\"1.0\",",
    "{\"a\":",
    "[[[[[[[[",
    "]]]]]]]]",
    "\"_meta\":{},",
    "io.modelcontextprotocol/protocolVersion",
    "tools/call",
    "notifications/cancelled",
    "result",
    "error",
];

/// Mutates a message without adding a line break.
fn mutate(random: &mut Random, line: &mut Vec<u8>, others: &[String]) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(line.len() + 1);
        let to = (at + random.below(12)).min(line.len());
        match random.below(9) {
            0 => drop(line.drain(at..to)),
            1 => line.truncate(at),
            2 if at < line.len() => line[at] ^= 1 << random.below(8),
            3 if at < line.len() => line[at] = random.next() as u8,
            4 => drop(line.splice(at..at, random.pick(FRAGMENTS).bytes())),
            5 => drop(line.splice(at..to, random.pick(FRAGMENTS).bytes())),
            6 => {
                let piece = line[at..to].to_vec();
                line.splice(at..at, piece);
            }
            7 => {
                let other = others[random.below(others.len())].as_bytes();
                let from = random.below(other.len());
                let to = (from + random.below(40)).min(other.len());
                line.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let times = random.below(200);
                line.splice(at..at, random.pick(FRAGMENTS).repeat(times).bytes());
            }
        }
    }
    line.iter_mut().filter(|b| **b == b'\n').for_each(|b| *b = b' ');
}

/// Expected response to a line.
#[derive(Debug, PartialEq)]
enum Expected {
    Nothing,
    /// One error for an invalid message.
    InvalidMessage,
    /// One response with this id, as JSON text.
    Response(String),
}

/// Returns the expected response to a line and the parsed message.
fn oracle(line: &[u8]) -> (Expected, Value) {
    // One byte order mark is allowed at the start of a line.
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    if line.iter().all(|b| b" \t\r".contains(b)) {
        return (Expected::Nothing, Value::Null);
    }
    let message = match serde_json::from_slice::<Value>(line) {
        Ok(message) if !has_duplicate_names(line) => message,
        _ => return (Expected::InvalidMessage, Value::Null),
    };
    let Some(object) = message.as_object() else { return (Expected::InvalidMessage, message) };
    let id = object.get("id");
    let good = id.filter(|id| id.is_string() || id.is_i64() || id.is_u64());
    let response = || good.map_or(Expected::InvalidMessage, |id| Expected::Response(normalized(id)));
    let versioned = object.get("jsonrpc") == Some(&Value::from("2.0"));
    let responses = object.contains_key("result") || object.contains_key("error");
    let expected = match (object.get("method"), id) {
        // A response never gets a response, not even an error.
        (None, _) if responses => Expected::Nothing,
        (Some(method), None) if versioned && method.is_string() => Expected::Nothing,
        _ => response(),
    };
    (expected, message)
}

/// Normal form of an id.
fn normalized(id: &Value) -> String {
    match id.as_i64() {
        Some(number) => number.to_string(),
        None => id.to_string(),
    }
}

/// True if an object in this valid JSON text has a duplicate name.
fn has_duplicate_names(text: &[u8]) -> bool {
    // For each open container: is it an object, and its names so far.
    let mut open: Vec<(bool, HashSet<String>)> = Vec::new();
    let (mut at, mut names_next) = (0, false);
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' => {
                open.push((true, HashSet::new()));
                names_next = true;
            }
            b'[' => {
                open.push((false, HashSet::new()));
                names_next = false;
            }
            b'}' | b']' => drop(open.pop()),
            b',' => names_next = open.last().is_some_and(|(is_object, _)| *is_object),
            b':' => names_next = false,
            b'"' => {
                let start = at;
                at += 1;
                while text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                if std::mem::take(&mut names_next) {
                    let name: String = serde_json::from_slice(&text[start..=at]).expect("an invalid string");
                    if open.last_mut().is_some_and(|(_, names)| !names.insert(name)) {
                        return true;
                    }
                }
            }
            _ => {}
        }
        at += 1;
    }
    false
}

fn each_mutated_request_gets_one_response() {
    let lines = if super::long() { 1_000_000 } else { 40_000 };
    for (role, seed) in [("serve", 0x5eed_0001), ("local", 0x5eed_0002)] {
        run(role, seed, lines / 2);
    }
}

/// Number of lines between two pings.
const BLOCK: usize = 500;

fn run(role: &str, seed: u64, lines: usize) {
    let mut process = Process::open(role, &[("TINYMCP_WORKERS", "4")]);
    let corpus = corpus();
    let mut random = Random(seed);
    // Number of missing responses by id; responses to cancelled calls are optional.
    let mut due: HashMap<String, i64> = HashMap::new();
    let mut cancelled: HashSet<String> = HashSet::new();
    let peak = process.peak();
    for block in 0..lines / BLOCK {
        let (mut text, mut invalid) = (Vec::new(), 0);
        for n in 0..BLOCK {
            let id = (block * BLOCK + n).to_string();
            let mut line = corpus[random.below(corpus.len())].replace('@', &id).into_bytes();
            if random.below(20) > 0 {
                mutate(&mut random, &mut line, &corpus);
            }
            let (expected, message) = oracle(&line);
            match expected {
                Expected::Nothing => {}
                Expected::InvalidMessage => invalid += 1,
                Expected::Response(id) => *due.entry(id).or_default() += 1,
            }
            if message["method"] == "notifications/cancelled" {
                cancelled.insert(normalized(&message["params"]["requestId"]));
            }
            text.extend(line);
            text.push(b'\n');
        }
        let block_text = text.clone();
        text.extend(request("\"sync\"", "ping").bytes());
        thread::scope(|scope| {
            let input = process.input.as_ref().unwrap();
            scope.spawn(move || (&mut { input }).write_all(&text).expect("cannot write to the server"));
            loop {
                let message = process.receive();
                match (message.get("method"), message.get("id")) {
                    (Some(_), _) => {}
                    // A parse error may have the id of the message, if that was readable.
                    _ if message["error"]["code"] == -32700 => invalid -= 1,
                    (None, Some(id)) if id == "sync" => break,
                    (None, Some(id)) => *due.entry(normalized(id)).or_default() -= 1,
                    (None, None) => invalid -= 1,
                }
            }
        });
        if invalid != 0 {
            let block_text = String::from_utf8_lossy(&block_text).into_owned();
            panic!("{invalid} errors are missing, seed {seed:#x}, block {block}:\n{block_text}");
        }
    }
    // The limits together allow far more; these small messages must not need it.
    let grown = process.peak() - peak;
    assert!(grown < 24 << 10, "{grown} KiB, seed {seed:#x}");
    process.input = None;
    while let Some(line) = process.line(TIMEOUT) {
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if message.get("method").is_none() {
            *due.entry(normalized(&message["id"])).or_default() -= 1;
        }
    }
    let status = process.wait();
    assert!(status.success(), "{status}, seed {seed:#x}: {}", process.errors());
    for (id, count) in due {
        let optional = cancelled.contains(&id);
        assert!(
            count == 0 || (optional && count > 0),
            "{count} responses to {id} are missing, seed {seed:#x}"
        );
    }
}

fn the_oracle_classifies_known_messages() {
    let response = |id: &str| Expected::Response(id.to_owned());
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#, response("1")),
        (r#"{"jsonrpc":"2.0","id":-0,"method":"x"}"#, response("0")),
        (r#"{"jsonrpc":"2.0","id":"\u0061","method":"x","params":[]}"#, response("\"a\"")),
        (r#"{"jsonrpc":"2.0","id":1.0,"method":"x"}"#, Expected::InvalidMessage),
        (r#"{"jsonrpc":"2.0","id":1,"method":1}"#, response("1")),
        (r#"{"jsonrpc":"2.0","method":"x"}"#, Expected::Nothing),
        (r#"{"jsonrpc":"2.0","id":1,"result":1}"#, Expected::Nothing),
        (r#"{"jsonrpc":"2.0","id":1}"#, response("1")),
        (r#"{"jsonrpc":"2","id":1,"result":1}"#, Expected::Nothing),
        (r#"{"jsonrpc":"2","id":1,"method":"x","result":1}"#, response("1")),
        (r#"{"jsonrpc":"2","id":1}"#, response("1")),
        (r#"{"jsonrpc":"2","method":"x"}"#, Expected::InvalidMessage),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","a":{"b":1,"\u0062":2}}"#, Expected::InvalidMessage),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","a":[{"b":1},{"b":[":","b"]}]}"#, response("1")),
        ("[]", Expected::InvalidMessage),
        (" \t", Expected::Nothing),
        ("\u{feff}", Expected::Nothing),
        ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1}", response("1")),
        ("\u{feff}\u{feff}", Expected::InvalidMessage),
        ("{", Expected::InvalidMessage),
    ] {
        assert_eq!(oracle(line.as_bytes()).0, expected, "{line}");
    }
}
