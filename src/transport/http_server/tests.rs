//! Tests of the event loop over loopback sockets. The services are closures.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod basic;
mod events;
mod listener;
mod request_reader;
mod time;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::*;
use crate::Limits;

/// Upper bound of a wait.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

type OnHead = Box<dyn FnMut(&Head<'_>) -> Admission + Send>;
type OnRequest = Box<dyn FnMut(&Head<'_>, &[u8], Responder) + Send>;

/// Service that calls closures.
pub(super) struct Closures {
    on_head: OnHead,
    on_request: OnRequest,
    gone: mpsc::Sender<u64>,
    stopped: mpsc::Sender<u64>,
}

impl Service for Closures {
    fn check(&mut self, head: &Head<'_>) -> Admission {
        (self.on_head)(head)
    }

    fn handle(&mut self, head: &Head<'_>, body: &[u8], exchange: Responder) {
        (self.on_request)(head, body, exchange)
    }

    fn error_response(&mut self, status: u16) -> Response {
        Response::new(status)
    }

    fn disconnected(&mut self, exchange: u64) {
        let _ = self.gone.send(exchange);
    }

    fn tick(&mut self, _now: Instant) -> Option<Instant> {
        None
    }

    fn stop(&mut self) {
        let _ = self.stopped.send(0);
    }
}

/// A running engine; stopped when dropped.
pub(super) struct Running {
    pub address: SocketAddr,
    pub handle: LoopHandle,
    pub gone: mpsc::Receiver<u64>,
    pub stopped: mpsc::Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

pub(super) fn limits() -> Limits {
    Limits::default()
}

/// Default limits with changed HTTP limits.
pub(super) fn limits_with(change: impl FnOnce(&mut crate::HttpLimits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits.http);
    limits
}

pub(super) fn serve(limits: Limits, on_request: OnRequest) -> Running {
    serve_with(limits, Box::new(|_| Admission::ReadBody), on_request)
}

pub(super) fn serve_with(limits: Limits, on_head: OnHead, on_request: OnRequest) -> Running {
    let listeners = Listener::bind("127.0.0.1:0").unwrap();
    let address = listeners[0].address().parse().unwrap();
    let ((gone, hear_gone), (stopped, hear_stopped)) = (mpsc::channel(), mpsc::channel());
    let service = Closures { on_head, on_request, gone, stopped };
    let (handle, thread) = run(listeners, limits, service);
    Running { address, handle, gone: hear_gone, stopped: hear_stopped, thread: Some(thread) }
}

/// Runs an event loop on a thread of its own.
pub(super) fn run(
    listeners: Vec<Listener>,
    limits: Limits,
    service: impl Service + Send + 'static,
) -> (LoopHandle, JoinHandle<()>) {
    let (started, starts) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut event_loop = EventLoop::new(listeners, &limits, |_| service).unwrap();
        started.send(event_loop.handle()).unwrap();
        event_loop.run().unwrap();
    });
    (starts.recv().unwrap(), thread)
}

impl Running {
    pub(super) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(super) fn shared(&self) -> &socket_writer::Shared {
        &self.handle.0
    }

    /// Waits until the thread of the engine has made a condition true.
    pub(super) fn wait_for(&self, holds: impl Fn(&socket_writer::Shared) -> bool) {
        let began = Instant::now();
        while !holds(self.shared()) {
            assert!(began.elapsed() < TIMEOUT, "the condition does not hold");
            std::thread::yield_now();
        }
    }

    /// Stops and waits for the engine's thread.
    pub(super) fn stop(&mut self, grace: Duration) {
        self.handle.stop(Instant::now() + grace);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop(Duration::ZERO);
        }
    }
}

/// Client side of a connection.
pub(super) struct Client {
    pub stream: TcpStream,
    read: Vec<u8>,
}

/// A received response.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, read: Vec::new() }
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Posts a body, on a connection that stays open.
    pub(super) fn post(&mut self, body: &str) -> &mut Self {
        self.send(format!("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    }

    fn more(&mut self) -> bool {
        let mut piece = [0; 4096];
        match self.stream.read(&mut piece) {
            Ok(n) => {
                self.read.extend_from_slice(&piece[..n]);
                n > 0
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads up to and including `end`.
    pub(super) fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|w| w == end.as_bytes()) {
                let rest = self.read.split_off(at + end.len());
                return String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap();
            }
            assert!(self.more(), "the connection ended after {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    /// Reads one response with a `Content-Length`.
    pub(super) fn answer(&mut self) -> Answer {
        let head = self.until("\r\n\r\n");
        let status = head[9..12].parse().unwrap();
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("content-length: "))
            .map_or(0, |l| l.parse::<usize>().unwrap());
        while self.read.len() < length {
            assert!(self.more(), "the connection ended in a body");
        }
        let rest = self.read.split_off(length);
        Answer { status, head, body: std::mem::replace(&mut self.read, rest) }
    }

    /// Reads the rest until the peer closes.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.read)
    }
}

/// Service that responds with method, path and body.
pub(super) fn echo() -> OnRequest {
    Box::new(|head, body, exchange| {
        let text = format!("{} {} {}", head.method, head.path(), String::from_utf8_lossy(body));
        exchange.respond(200, &[("content-type", "text/plain")], text.as_bytes());
    })
}
