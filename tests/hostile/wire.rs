//! A server on a thread of this process, with both its streams in the test's hands.
//!
//! The test decides what each read of the server gives, and whether and how much it can write. What
//! the server writes is kept until the test asks for it, line by line.

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tinymcp::{Error, Limits, Link, Server};

/// Only a hang takes longer than this.
pub const SOON: Duration = Duration::from_secs(30);

/// Plays a scene that has to be set within a time which the scene itself waits to be over. A machine
/// that is too slow for it makes the scene give nothing; then it is played again with ten times the time.
pub fn in_time(shortest: Duration, scene: impl Fn(Duration) -> Option<()>) {
    let set = [1, 10, 100].into_iter().any(|times| scene(shortest * times).is_some());
    assert!(set, "the scene was not set in time, however much there was");
}

/// The default limits, changed.
pub fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// What a modern request carries.
pub const MODERN: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;

/// The first messages of a session of this revision, whose client can be asked.
pub fn greeting(revision: &str) -> String {
    let open = format!(
        r#"{{"jsonrpc":"2.0","id":"open","method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{"elicitation":{{}}}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    );
    format!("{open}\n{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}\n")
}

/// A call of a tool, as one line.
pub fn call(id: impl std::fmt::Display, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    ) + "\n"
}

/// A request without parameters, as one line.
pub fn request(id: impl std::fmt::Display, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#) + "\n"
}

/// The cancellation of a request, as one line.
pub fn cancel(id: impl std::fmt::Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#) + "\n"
}

/// The text of a tool's result.
pub fn text_of(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {answer}"))
}

/// Whether this is the answer to a tool call that went well.
pub fn is_good(answer: &Value) -> bool {
    answer["result"].is_object() && answer["result"]["isError"] != true
}

/// The client's end of a connection.
pub trait Peer {
    /// Sends bytes as they are.
    fn send(&self, bytes: impl AsRef<[u8]>);

    /// The next line the server wrote.
    fn line(&self, timeout: Duration) -> Option<String>;

    /// Opens a session and takes the answer.
    fn greet(&self, revision: &str) {
        self.send(greeting(revision));
        let answer = self.receive();
        assert_eq!(answer["id"], "open", "{answer}");
    }

    /// The next message.
    fn receive(&self) -> Value {
        let line = self.line(SOON).expect("a message within the time that only a hang takes");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// The next message that is an answer; all others are passed over.
    fn answer(&self) -> Value {
        loop {
            let message = self.receive();
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The answers to these numbered requests, in any order, sorted by id.
    fn answers(&self, ids: impl IntoIterator<Item = u64>) -> Vec<Value> {
        let mut ids: Vec<u64> = ids.into_iter().collect();
        let mut answers: Vec<Value> = ids.iter().map(|_| self.answer()).collect();
        answers.sort_by_key(|a| a["id"].as_u64());
        ids.sort_unstable();
        let got: Vec<_> = answers.iter().map(|a| a["id"].as_u64().unwrap_or_else(|| panic!("{a}"))).collect();
        assert_eq!(got, ids);
        answers
    }

    /// Asserts that everything the server wrote was taken: the answer to a ping comes next.
    fn quiet(&self) {
        self.send(request("\"quiet\"", "ping"));
        let answer = self.receive();
        assert_eq!(answer["id"], "quiet", "something came that should not: {answer}");
    }
}

/// A server that is being served, and its peer.
pub struct Wire {
    feed: Option<Sender<Vec<u8>>>,
    pub sink: Arc<Sink>,
    server: Option<thread::JoinHandle<Result<(), Error>>>,
}

impl Wire {
    /// Serves with these limits; each piece that is sent is one read of the server.
    pub fn start(server: Server, limits: Limits) -> Wire {
        Wire::start_with(server, limits, usize::MAX, Sink::default())
    }

    /// Serves; no read gives more than `most` bytes.
    pub fn start_with(mut server: Server, limits: Limits, most: usize, sink: Sink) -> Wire {
        let (feed, chunks) = mpsc::channel();
        let sink = Arc::new(sink);
        let link = Link::lines(Feed::new(chunks, most), sink.writer(), &limits);
        server.limits(limits);
        let server = thread::Builder::new().name("serve".to_owned()).spawn(move || server.serve(link));
        Wire { feed: Some(feed), sink, server: Some(server.unwrap()) }
    }

    /// Serves on the thread that reads, and opens a session.
    pub fn open_local(mut server: Server, limits: Limits) -> Wire {
        let (feed, chunks) = mpsc::channel();
        let sink = Arc::new(Sink::default());
        let link = Link::lines(Feed::new(chunks, usize::MAX), sink.writer(), &limits);
        server.limits(limits);
        let serve = move || server.into_local().serve(link);
        let server = thread::Builder::new().name("serve".to_owned()).spawn(serve);
        let wire = Wire { feed: Some(feed), sink, server: Some(server.unwrap()) };
        wire.greet("2025-11-25");
        wire
    }

    /// Serves, opens a session of the newest revision that has sessions, and takes its answer.
    pub fn open(server: Server, limits: Limits) -> Wire {
        let wire = Wire::start(server, limits);
        wire.greet("2025-11-25");
        wire
    }

    /// Ends the input.
    pub fn finish(&mut self) {
        self.feed = None;
    }

    /// Waits for the end of serving.
    pub fn join(&mut self) -> Result<(), Error> {
        let server = self.server.take().unwrap();
        let (done, wait) = mpsc::channel();
        thread::spawn(move || done.send(server.join()));
        match wait.recv_timeout(SOON) {
            Ok(result) => result.expect("serving does not panic"),
            Err(_) => panic!("serving does not end"),
        }
    }

    /// Ends the input, waits for the end of serving and gives what had not been received.
    pub fn end(mut self) -> Vec<Value> {
        self.finish();
        self.join().expect("serving ends well");
        let mut rest = Vec::new();
        while let Some(line) = self.sink.line(Duration::ZERO) {
            rest.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")));
        }
        assert!(self.sink.is_empty(), "the output ends inside a line");
        rest
    }
}

impl Peer for Wire {
    fn send(&self, bytes: impl AsRef<[u8]>) {
        // The server may have ended; what it did is for the test to judge.
        let _ = self.feed.as_ref().unwrap().send(bytes.as_ref().to_vec());
    }

    fn line(&self, timeout: Duration) -> Option<String> {
        self.sink.line(timeout)
    }
}

/// What the server reads: pieces that the test sends, each one read or more.
pub struct Feed {
    chunks: Receiver<Vec<u8>>,
    current: Vec<u8>,
    at: usize,
    most: usize,
}

impl Feed {
    /// No read gives more than `most` bytes.
    pub fn new(chunks: Receiver<Vec<u8>>, most: usize) -> Feed {
        Feed { chunks, current: Vec::new(), at: 0, most }
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
        let n = buf.len().min(self.most).min(self.current.len() - self.at);
        buf[..n].copy_from_slice(&self.current[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// What the server writes to.
pub struct Sink {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What the server wrote and the test did not read: what a pipe would hold.
    bytes: Vec<u8>,
    /// What the test read and has not looked at.
    read: Vec<u8>,
    /// Bytes of `read` that were looked at, and bytes known to be no newline.
    start: usize,
    searched: usize,
    /// A write waits while there are so many bytes.
    room: usize,
    /// A write takes no more than this.
    most: usize,
    broken: bool,
    /// A write that waits for room.
    waiting: bool,
}

impl Default for Sink {
    fn default() -> Sink {
        Sink::new(usize::MAX, usize::MAX)
    }
}

impl Sink {
    /// A sink that holds `room` bytes and takes at most `most` in one write.
    pub fn new(room: usize, most: usize) -> Sink {
        let state = State { room, most, ..State::default() };
        Sink { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// What the server writes to it with.
    pub fn writer(self: &Arc<Sink>) -> impl Write + Send + 'static {
        SinkWriter(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Changes the room; the server goes on writing if it waits.
    pub fn set_room(&self, room: usize) {
        self.state().room = room;
        self.changed.notify_all();
    }

    /// The peer is gone: every write fails from now on.
    pub fn break_off(&self) {
        self.state().broken = true;
        self.changed.notify_all();
    }

    /// Waits until a write of the server waits for room.
    pub fn wait_until_full(&self) {
        let state = self.state();
        let (state, timeout) = self.changed.wait_timeout_while(state, SOON, |state| !state.waiting).unwrap();
        assert!(!timeout.timed_out() || state.waiting, "the server does not wait to write");
    }

    /// Whether the test took all that was written.
    pub fn is_empty(&self) -> bool {
        let state = self.state();
        state.bytes.is_empty() && state.start == state.read.len()
    }

    /// The next line, without its end.
    pub fn line(&self, timeout: Duration) -> Option<String> {
        let deadline = Instant::now() + timeout;
        let mut state = self.state();
        loop {
            let rest = &state.read[state.searched..];
            if let Some(len) = rest.iter().position(|b| *b == b'\n') {
                let end = state.searched + len;
                let line = state.read[state.start..end].to_vec();
                (state.start, state.searched) = (end + 1, end + 1);
                return Some(String::from_utf8(line).expect("the server writes UTF-8"));
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
        assert!(!state.waiting, "two writes at once");
        while !state.broken && state.bytes.len() >= state.room {
            state.waiting = true;
            sink.changed.notify_all();
            state = sink.changed.wait(state).unwrap();
        }
        state.waiting = false;
        if state.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let n = buf.len().min(state.most).min(state.room - state.bytes.len());
        state.bytes.extend_from_slice(&buf[..n]);
        sink.changed.notify_all();
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
