//! Server on a thread of this process, with both streams controlled by the test.
//!
//! The test decides how many bytes each read of the server returns, and how many bytes each write
//! accepts. The output of the server is buffered until the test reads it, line by line.

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tinymcp::{Error, Limits, Link, Server};

/// Timeout that only a hang reaches.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The default limits with changes.
pub fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// The `_meta` of a request of the stateless protocol.
pub const MODERN: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;

/// Handshake of a session of this revision by a client that supports elicitation.
pub fn handshake(revision: &str) -> String {
    let open = format!(
        r#"{{"jsonrpc":"2.0","id":"open","method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{"elicitation":{{}}}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    );
    format!("{open}\n{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n")
}

/// `tools/call` request as one line.
pub fn call(id: impl std::fmt::Display, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    ) + "\n"
}

/// Request without parameters as one line.
pub fn request(id: impl std::fmt::Display, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#) + "\n"
}

/// Cancellation of a request as one line.
pub fn cancel(id: impl std::fmt::Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#) + "\n"
}

/// Text of a tool result.
pub fn text_of(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {response}"))
}

/// True if this is the response to a successful tool call.
pub fn is_success(response: &Value) -> bool {
    response["result"].is_object() && response["result"]["isError"] != true
}

/// The client's end of a connection.
pub trait Peer {
    /// Sends the bytes unchanged.
    fn send(&self, bytes: impl AsRef<[u8]>);

    /// Returns the next line of the server.
    fn line(&self, timeout: Duration) -> Option<String>;

    /// Opens a session and receives the response.
    fn open_session(&self, revision: &str) {
        self.send(handshake(revision));
        let response = self.receive();
        assert_eq!(response["id"], "open", "{response}");
    }

    /// Receives the next message.
    fn receive(&self) -> Value {
        let line = self.line(TIMEOUT).expect("no message before the timeout");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Receives the next response and skips all other messages.
    fn response(&self) -> Value {
        loop {
            let message = self.receive();
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Receives the responses to these requests, in any order, and sorts them by id.
    fn responses(&self, ids: impl IntoIterator<Item = u64>) -> Vec<Value> {
        let mut ids: Vec<u64> = ids.into_iter().collect();
        let mut responses: Vec<Value> = ids.iter().map(|_| self.response()).collect();
        responses.sort_by_key(|a| a["id"].as_u64());
        ids.sort_unstable();
        let got: Vec<_> =
            responses.iter().map(|a| a["id"].as_u64().unwrap_or_else(|| panic!("{a}"))).collect();
        assert_eq!(got, ids);
        responses
    }

    /// Asserts that no message of the server is unread: the next message is the response to a ping.
    fn assert_no_more(&self) {
        self.send(request("\"quiet\"", "ping"));
        let response = self.receive();
        assert_eq!(response["id"], "quiet", "unexpected message: {response}");
    }
}

/// A running server and its peer.
pub struct Wire {
    feed: Option<Sender<Vec<u8>>>,
    pub sink: Arc<Sink>,
    server: Option<thread::JoinHandle<Result<(), Error>>>,
}

impl Wire {
    /// Serves with these limits. Each chunk sent is one read of the server.
    pub fn start(server: Server, limits: Limits) -> Wire {
        Wire::start_with(server, limits, usize::MAX, Sink::default())
    }

    /// Serves with these limits. No read returns more than `max` bytes.
    pub fn start_with(mut server: Server, limits: Limits, max: usize, sink: Sink) -> Wire {
        let (feed, chunks) = mpsc::channel();
        let sink = Arc::new(sink);
        let link = Link::lines(Feed::new(chunks, max), sink.writer(), &limits);
        server.limits(limits);
        let server = thread::Builder::new().name("serve".to_owned()).spawn(move || server.serve(link));
        Wire { feed: Some(feed), sink, server: Some(server.unwrap()) }
    }

    /// Serves on the reader thread and opens a session.
    pub fn open_local(mut server: Server, limits: Limits) -> Wire {
        let (feed, chunks) = mpsc::channel();
        let sink = Arc::new(Sink::default());
        let link = Link::lines(Feed::new(chunks, usize::MAX), sink.writer(), &limits);
        server.limits(limits);
        let serve = move || server.into_local().serve(link);
        let server = thread::Builder::new().name("serve".to_owned()).spawn(serve);
        let wire = Wire { feed: Some(feed), sink, server: Some(server.unwrap()) };
        wire.open_session("2025-11-25");
        wire
    }

    /// Serves, opens a session of the newest session revision and receives its response.
    pub fn open(server: Server, limits: Limits) -> Wire {
        let wire = Wire::start(server, limits);
        wire.open_session("2025-11-25");
        wire
    }

    /// Closes the input.
    pub fn finish(&mut self) {
        self.feed = None;
    }

    /// Waits until the server has ended.
    pub fn join(&mut self) -> Result<(), Error> {
        let server = self.server.take().unwrap();
        let (done, wait) = mpsc::channel();
        thread::spawn(move || done.send(server.join()));
        match wait.recv_timeout(TIMEOUT) {
            Ok(result) => result.expect("the server panicked"),
            Err(_) => panic!("the server does not end"),
        }
    }

    /// Closes the input, waits until the server has ended and returns the unread messages.
    pub fn end(mut self) -> Vec<Value> {
        self.finish();
        self.join().expect("the server ended with an error");
        let mut rest = Vec::new();
        while let Some(line) = self.sink.line(Duration::ZERO) {
            rest.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")));
        }
        assert!(self.sink.is_empty(), "the output ends in the middle of a line");
        rest
    }
}

impl Peer for Wire {
    fn send(&self, bytes: impl AsRef<[u8]>) {
        // The server may have ended already; the test checks the result.
        let _ = self.feed.as_ref().unwrap().send(bytes.as_ref().to_vec());
    }

    fn line(&self, timeout: Duration) -> Option<String> {
        self.sink.line(timeout)
    }
}

/// Input of the server: the chunks that the test sends.
pub struct Feed {
    chunks: Receiver<Vec<u8>>,
    current: Vec<u8>,
    at: usize,
    max: usize,
}

impl Feed {
    /// No read returns more than `max` bytes.
    pub fn new(chunks: Receiver<Vec<u8>>, max: usize) -> Feed {
        Feed { chunks, current: Vec::new(), at: 0, max }
    }
}

impl Read for Feed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            match self.chunks.recv() {
                Ok(chunk) => (self.current, self.at) = (chunk, 0),
                Err(_) => return Ok(0),
            }
        }
        let n = buf.len().min(self.max).min(self.current.len() - self.at);
        buf[..n].copy_from_slice(&self.current[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Output of the server.
pub struct Sink {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Bytes that the server wrote and the test did not take, as in a pipe.
    bytes: Vec<u8>,
    /// Bytes that the test took and did not parse.
    read: Vec<u8>,
    /// Number of bytes of `read` that were parsed, and of bytes known to hold no newline.
    start: usize,
    searched: usize,
    /// A write blocks while this many bytes are unread.
    room: usize,
    /// Maximum number of bytes that one write accepts.
    max: usize,
    broken: bool,
    /// True while a write is blocked.
    waiting: bool,
}

impl Default for Sink {
    fn default() -> Sink {
        Sink::new(usize::MAX, usize::MAX)
    }
}

impl Sink {
    /// Sink that holds `room` bytes and accepts at max `max` bytes per write.
    pub fn new(room: usize, max: usize) -> Sink {
        let state = State { room, max, ..State::default() };
        Sink { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Returns the writer that the server uses.
    pub fn writer(self: &Arc<Sink>) -> impl Write + Send + 'static {
        SinkWriter(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Changes the room and wakes a blocked write.
    pub fn set_room(&self, room: usize) {
        self.state().room = room;
        self.changed.notify_all();
    }

    /// Disconnects the peer: every later write fails.
    pub fn disconnect(&self) {
        self.state().broken = true;
        self.changed.notify_all();
    }

    /// Waits until a write of the server is blocked.
    pub fn wait_until_full(&self) {
        let state = self.state();
        let (state, timeout) =
            self.changed.wait_timeout_while(state, TIMEOUT, |state| !state.waiting).unwrap();
        assert!(!timeout.timed_out() || state.waiting, "no write of the server is blocked");
    }

    /// True if the test took all bytes.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.bytes.is_empty() && state.start == state.read.len()
    }

    /// Returns the next line without its line end.
    pub fn line(&self, timeout: Duration) -> Option<String> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state();
        loop {
            let rest = &state.read[state.searched..];
            if let Some(len) = rest.iter().position(|b| *b == b'\n') {
                let end = state.searched + len;
                let line = state.read[state.start..end].to_vec();
                (state.start, state.searched) = (end + 1, end + 1);
                return Some(String::from_utf8(line).expect("the server wrote invalid UTF-8"));
            }
            if !state.bytes.is_empty() {
                let start = std::mem::take(&mut state.start);
                state.read.drain(..start);
                state.searched = state.read.len();
                let bytes = std::mem::take(&mut state.bytes);
                state.read.extend(bytes);
                self.changed.notify_all();
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

struct SinkWriter(Arc<Sink>);

impl Write for SinkWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let sink = &*self.0;
        let mut state = sink.state();
        assert!(!state.waiting, "two concurrent writes");
        while !state.broken && state.bytes.len() >= state.room {
            state.waiting = true;
            sink.changed.notify_all();
            state = sink.changed.wait(state).unwrap();
        }
        state.waiting = false;
        if state.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let n = buf.len().min(state.max).min(state.room - state.bytes.len());
        state.bytes.extend_from_slice(&buf[..n]);
        sink.changed.notify_all();
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
