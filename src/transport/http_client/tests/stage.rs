//! Scripted server on loopback: a closure writes the bytes of each response.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use super::TIMEOUT;

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Number of its connection, from 0.
    pub connection: usize,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }
}

/// Responds to a request. Returns whether the connection stays open.
pub(super) type Script = dyn Fn(&Seen, &mut TcpStream) -> Next + Send + Sync;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Keep,
    Close,
}

pub(super) struct Stage {
    address: SocketAddr,
    seen: mpsc::Receiver<Seen>,
    over: Arc<AtomicBool>,
    /// Open connections with their numbers.
    sockets: Arc<Mutex<Vec<(usize, TcpStream)>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Stage {
    pub(super) fn new(script: impl Fn(&Seen, &mut TcpStream) -> Next + Send + Sync + 'static) -> Stage {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = mpsc::channel();
        let over = Arc::new(AtomicBool::new(false));
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let (ending, known) = (Arc::clone(&over), Arc::clone(&sockets));
        let script: Arc<Script> = Arc::new(script);
        let acceptor = std::thread::spawn(move || {
            let count = AtomicUsize::new(0);
            let mut threads = Vec::new();
            for socket in listener.incoming() {
                if ending.load(Ordering::Acquire) {
                    break;
                }
                let socket = socket.unwrap();
                socket.set_nodelay(true).unwrap();
                let (script, sender) = (Arc::clone(&script), sender.clone());
                let connection = count.fetch_add(1, Ordering::Relaxed);
                known.lock().unwrap().push((connection, socket.try_clone().unwrap()));
                let open = Arc::clone(&known);
                threads.push(std::thread::spawn(move || {
                    let mut answers = socket.try_clone().unwrap();
                    let mut requests = BufReader::new(socket);
                    while let Some(seen) = read(&mut requests, connection) {
                        let _ = sender.send(seen.clone());
                        if script(&seen, &mut answers) == Next::Close {
                            break;
                        }
                    }
                    let _ = answers.shutdown(Shutdown::Both);
                    open.lock().unwrap().retain(|(number, _)| *number != connection);
                }));
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
        Stage { address, seen, over, sockets, acceptor: Some(acceptor) }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp?key=hidden", self.address)
    }

    /// Waits for the next request.
    pub(super) fn next(&self) -> Seen {
        self.seen.recv_timeout(TIMEOUT).expect("a request")
    }

    /// Returns the requests that have arrived since the last call.
    pub(super) fn rest(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        for (_, socket) in self.sockets.lock().unwrap().iter() {
            let _ = socket.shutdown(Shutdown::Both);
        }
        let ended = self.acceptor.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

fn read(requests: &mut BufReader<TcpStream>, connection: usize) -> Option<Seen> {
    let mut line = String::new();
    if requests.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        requests.read_line(&mut header).ok()?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    let mut seen = Seen { line: line.trim().to_owned(), headers, body: String::new(), connection };
    let length = seen.header("content-length").map_or(0, |l| l.parse().unwrap());
    let mut body = vec![0; length];
    requests.read_exact(&mut body).ok()?;
    seen.body = String::from_utf8(body).unwrap();
    Some(seen)
}

/// Writes. Ignores errors, because the client may have disconnected.
pub(super) fn write_text(socket: &mut TcpStream, text: &str) {
    let _ = socket.write_all(text.as_bytes());
}

/// A complete response with this status, these header lines and this body.
pub(super) fn answer(socket: &mut TcpStream, status: &str, headers: &str, body: &str) -> Next {
    let length = body.len();
    write_text(socket, &format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"));
    Next::Keep
}

pub(super) const JSON: &str = "Content-Type: application/json\r\n";
pub(super) const EVENTS: &str = "Content-Type: text/event-stream\r\n";

/// A result for the request.
pub(super) fn result(seen: &Seen) -> String {
    let Ok(doc) = crate::json::Doc::parse(&seen.body) else { return String::new() };
    let id = doc.root().get("id").map_or("null", |id| id.raw());
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

/// Head of an event stream that ends when the connection is closed.
pub(super) fn stream(socket: &mut TcpStream) {
    write_text(socket, &format!("HTTP/1.1 200 OK\r\n{EVENTS}Connection: close\r\n\r\n"));
}
