//! Models of the HTTP server: threads that write to one socket, which blocks after a few bytes, and the event loop.
//!
//! The sockets are those of `schedules_net`. A response that is not flushed, or a handler that is not woken up, is a
//! deadlock. The client parses every chunk, so interleaved bytes fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::json::Json;
use crate::model_sync::thread;
use crate::schedules::TIMEOUT;
use crate::schedules_net::Peer;
use crate::{Context, Handle, Level, Limits, Server, Tool};

/// Limits with room for `backlog` unsent bytes of one event stream.
fn limits(backlog: usize) -> Limits {
    let mut limits = Limits::default();
    limits.workers = 4;
    limits.backlog_bytes = backlog;
    limits
}

/// A running server.
struct Running {
    handle: Handle,
    serving: thread::JoinHandle<()>,
}

impl Running {
    fn new(mut server: Server, backlog: usize) -> Running {
        server.limits(limits(backlog)).logging();
        let handle = server.handle();
        let bound = server.http().no_signal_handlers().bind("model").expect("a listener");
        let serving = thread::spawn(move || bound.serve().expect("served"));
        Running { handle, serving }
    }

    fn stop(self) {
        self.handle.stop();
        self.serving.join().expect("served");
    }
}

/// The client's end of a connection.
struct Connection {
    peer: Peer,
    read: Vec<u8>,
    /// Bytes of one read.
    step: usize,
}

impl Connection {
    fn new(step: usize) -> Connection {
        Connection { peer: Peer::connect(), read: Vec::new(), step }
    }

    fn request(&self, method: &str, fields: &str, body: &str) {
        let head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n{fields}"
        );
        let rest = if method == "POST" {
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        } else {
            "\r\n".to_owned()
        };
        self.peer.send(format!("{head}{rest}").as_bytes());
    }

    /// Sends a stateless call.
    fn call(&self, tool: &str, text: &str) {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/logLevel":"debug"}}}}}}"#
        );
        let fields =
            format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
        self.request("POST", &fields, &body);
    }

    fn more(&mut self) -> bool {
        let bytes = self.peer.receive(self.step);
        self.read.extend(&bytes);
        !bytes.is_empty()
    }

    /// Reads up to `end`, which it drops.
    fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|window| window == end.as_bytes()) {
                let rest = self.read.split_off(at + end.len());
                let mut text = std::mem::replace(&mut self.read, rest);
                text.truncate(at);
                return String::from_utf8(text).expect("UTF-8");
            }
            assert!(self.more(), "the stream ended after {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    fn exactly(&mut self, length: usize) -> String {
        while self.read.len() < length {
            assert!(self.more(), "the stream ended in a body");
        }
        let rest = self.read.split_off(length);
        String::from_utf8(std::mem::replace(&mut self.read, rest)).expect("UTF-8")
    }

    /// Reads the head of a response; returns it in lower case.
    fn head(&mut self) -> String {
        let head = self.until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 2"), "{head}");
        head.to_lowercase()
    }

    /// Reads a whole response; of an event stream the data of all events, one a line.
    fn response(&mut self) -> String {
        let head = self.head();
        match head.split("content-length: ").nth(1) {
            Some(rest) => {
                let length = rest.lines().next().and_then(|n| n.parse().ok()).expect("a length");
                self.exactly(length)
            }
            None => std::iter::from_fn(|| self.event()).collect::<Vec<_>>().join("\n"),
        }
    }

    /// Reads one chunk; returns the data of its event, `None` at the end of the stream.
    fn event(&mut self) -> Option<String> {
        let size = self.until("\r\n");
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("not a chunk size: {size:?}"));
        let chunk = self.exactly(size);
        assert_eq!(self.exactly(2), "\r\n", "after the chunk {chunk:?}");
        if size > 0 {
            assert!(chunk.ends_with("\n\n"), "not an event: {chunk:?}");
        }
        (size > 0).then(|| chunk.lines().filter_map(|line| line.strip_prefix("data:")).collect())
    }
}

/// Responses that the socket takes in pieces, from workers and from the event loop, on connections that are used again.
pub(crate) fn responses() {
    let mut server = Server::new("s", "1");
    let long = |_: &mut Context<'_>, arguments: Json| Ok(arguments.as_str().repeat(5));
    server.tool(Tool::new("pooled"), long).expect("a tool").inline_tool(Tool::new("inline"), long).expect("a tool");
    let running = Running::new(server, 1 << 20);
    let clients: Vec<_> = [("pooled", 7), ("inline", 60)]
        .into_iter()
        .map(|(tool, step)| {
            thread::spawn(move || {
                let mut connection = Connection::new(step);
                for n in 0..2 {
                    let text = format!("{tool}{n}").repeat(4);
                    connection.call(tool, &text);
                    let response = connection.response();
                    assert_eq!(response.matches(&text).count(), 5, "{response}");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    running.stop();
}

/// Two threads log to the listening stream of a session, whose client reads slowly.
pub(crate) fn stream_of_many() {
    const EACH: usize = 3;
    let running = Running::new(Server::new("s", "1"), 1 << 20);
    let mut posting = Connection::new(50);
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    posting.request("POST", "", hello);
    let head = posting.head();
    let session = head.split("mcp-session-id: ").nth(1).and_then(|rest| rest.lines().next()).expect("a session");
    let session = format!("Mcp-Session-Id: {session}\r\n");
    let mut ready = Connection::new(50);
    ready.request("POST", &session, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    ready.head();
    let mut listening = Connection::new(33);
    listening.request("GET", &session, "");
    listening.head();
    let loggers: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let handle = running.handle.clone();
            thread::spawn(move || {
                for n in 0..EACH {
                    handle.log(Level::Error, None, format!("<{name}{n}>").as_str()).expect("logged");
                }
            })
        })
        .collect();
    let (mut a, mut b) = (0, 0);
    while a + b < 2 * EACH {
        let event = listening.event().expect("an event");
        for (name, next) in [("a", &mut a), ("b", &mut b)] {
            if event.contains(&format!("<{name}")) {
                assert!(event.contains(&format!("<{name}{next}>")), "{event} instead of {next}");
                *next += 1;
            }
        }
    }
    loggers.into_iter().for_each(|logger| logger.join().expect("a logger"));
    drop(listening);
    running.stop();
}

/// A tool that logs four times, and counts the handlers that have returned.
fn logging(ended: &Arc<AtomicUsize>) -> Server {
    let mut server = Server::new("s", "1");
    let ended = Arc::clone(ended);
    let tool = move |ctx: &mut Context<'_>, arguments: Json| {
        let logged = (0..4).try_for_each(|n| ctx.log(Level::Error, None, format!("<{n}>").as_str()));
        // Wakes up when the client disconnects.
        let waited = if arguments.as_str().contains("wait") { ctx.wait(TIMEOUT) } else { Ok(()) };
        ended.fetch_add(1, Ordering::Relaxed);
        logged.and(waited).map(|()| "done")
    };
    server.tool(Tool::new("logs"), tool).expect("a tool");
    server
}

/// Handlers wait until their client has read enough of their events.
pub(crate) fn backlog() {
    let ended = Arc::default();
    let running = Running::new(logging(&ended), 150);
    let clients: Vec<_> = [11, 90]
        .into_iter()
        .map(|step| {
            thread::spawn(move || {
                let mut connection = Connection::new(step);
                connection.call("logs", "");
                let response = connection.response();
                let order: Vec<_> = (0..4).map(|n| response.find(&format!("<{n}>")).expect("an event")).collect();
                assert!(order.is_sorted() && response.contains("done"), "{response}");
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    assert_eq!(ended.load(Ordering::Relaxed), 2);
    running.stop();
}

/// A client disconnects while the handler sends events, waits for space, or waits for the cancellation.
pub(crate) fn peer_gone() {
    let ended = Arc::default();
    let running = Running::new(logging(&ended), 150);
    let clients: Vec<_> = [0, 150]
        .into_iter()
        .map(|most| {
            thread::spawn(move || {
                let mut connection = Connection::new(30);
                connection.call("logs", "wait");
                while connection.read.len() < most {
                    assert!(connection.more(), "the stream ended");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    let mut connection = Connection::new(90);
    connection.call("logs", "");
    assert!(connection.response().contains("done"));
    // Ends only when every handler has returned.
    running.stop();
}
