//! Frames that a client receives: it returns the requested results or an error, and a valid call
//! after that succeeds.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tinymcp::json::Json;
use tinymcp::{Client, Protocol, Limits, Link};

use crate::input::Input;

/// Timeout that only a lost response reaches.
const HANG: Duration = Duration::from_secs(15);

/// A client, and the response of its server to the next request.
struct Pair {
    client: Client,
    script: Arc<Mutex<String>>,
}

thread_local! {
    /// Lives as long as the connection: a frame must not affect the next input.
    static PAIRS: RefCell<[Option<Pair>; 2]> = const { RefCell::new([None, None]) };
}

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let session = input.byte() % 2 == 0;
    let kind = input.below(6);
    let Some(text) = input.rest() else { return };
    PAIRS.with_borrow_mut(|pairs| {
        let slot = &mut pairs[usize::from(session)];
        let pair = slot.get_or_insert_with(|| Pair::new(session));
        pair.play(kind, text);
        if pair.client.ended().is_some() {
            *slot = None;
        }
    });
}

impl Pair {
    fn new(session: bool) -> Pair {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        let mut limits = Limits::default();
        (limits.client.call_timeout, limits.frame_bytes) = (HANG, 64 << 10);
        let link = Link::lines(ours.try_clone().expect("a socket"), ours, &limits);
        let script = Arc::new(Mutex::new(String::new()));
        let read = Arc::clone(&script);
        std::thread::spawn(move || serve(&theirs, &read));
        let era = if session { Protocol::Session } else { Protocol::Stateless };
        let client = Client::builder("fuzz", "1").protocol(era).limits(limits).over(link).expect("a greeting");
        Pair { client, script }
    }

    /// Makes a call whose responses are the frames of the input, then a valid call.
    fn play(&self, kind: usize, text: &str) {
        let client = &self.client;
        text.clone_into(&mut self.script.lock().expect("no panic"));
        let begun = Instant::now();
        let nothing = || Json::constant("{}");
        match kind {
            0 => drop(client.request_tools(None).wait()),
            1 => drop(client.call_tool("t", nothing())),
            2 => drop(client.read_resource("a:b")),
            3 => drop(client.prompt("p", &[])),
            4 => drop(client.request_resources(None).wait()),
            _ => drop(client.request("x/y", nothing())),
        }
        assert!(begun.elapsed() < HANG, "the call had no answer");
        // A frame of the input may contain the id of the valid call before its response arrives.
        let sound = (0..3).any(|_| client.request("fuzz/sound", nothing()).is_ok());
        assert!(sound || client.ended().is_some(), "a sound call fails on an open connection");
    }
}

/// Responds to a client until it disconnects: valid requests get valid responses, the first other
/// request gets the script, and finally all get an error.
fn serve(socket: &UnixStream, script: &Mutex<String>) {
    let mut to = socket;
    for line in BufReader::new(socket).lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str::<serde_json::Value>(&line) else { panic!("not JSON: {line}") };
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { continue };
        let result = |result: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
        let frames = match method {
            "initialize" => result(GREETING),
            "server/discover" => result(DISCOVERED),
            "fuzz/sound" => result(r#"{"resultType":"complete"}"#),
            _ => {
                let script = std::mem::take(&mut *script.lock().expect("no panic"));
                let mut frames: String = script.lines().map(|line| frame(line, id) + "\n").collect();
                frames.push_str(&frame("E{\"code\":-32000,\"message\":\"the script is over\"}", id));
                frames + "\n"
            }
        };
        if to.write_all(frames.as_bytes()).is_err() {
            return;
        }
    }
}

/// A line of the script: `R` and a result, `E` and an error, or a frame unchanged.
fn frame(line: &str, id: &serde_json::Value) -> String {
    match (line.strip_prefix('R'), line.strip_prefix('E')) {
        (Some(result), _) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
        (_, Some(error)) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}"),
        _ => line.to_owned(),
    }
}

pub const GREETING: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{}},"serverInfo":{"name":"s","version":"1"}}"#;
pub const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{},"logging":{},"completions":{}},"serverInfo":{"name":"s","version":"1"},"ttlMs":0,"cacheScope":"private"}"#;
