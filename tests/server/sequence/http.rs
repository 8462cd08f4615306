//! Sequences over HTTP: several clients at once on one server, against a fresh server for each frame.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::frames::{Frame, Protocol, Random, sequence};
use super::rig::{opening, server};
use super::{LENGTH, compare, seeds};

/// Long enough that only a hang reaches it.
const HANG: Duration = Duration::from_secs(30);
const CLIENTS: usize = 4;

struct Server {
    address: String,
    handle: tinymcp::Handle,
    serving: JoinHandle<()>,
}

impl Server {
    fn new(pooled: bool) -> Server {
        let server = server(pooled);
        let handle = server.handle();
        let bound = server.http().no_signal_handlers().bind("127.0.0.1:0").unwrap();
        let address = bound.address().to_owned();
        Server { address, handle, serving: thread::spawn(move || bound.serve().unwrap()) }
    }

    fn end(self) {
        self.handle.stop();
        self.serving.join().unwrap();
    }
}

/// One client with one connection, and its session if it has one.
struct Client<'a> {
    address: &'a str,
    protocol: Protocol,
    session: Option<String>,
    socket: Option<BufReader<TcpStream>>,
}

impl<'a> Client<'a> {
    fn new(server: &'a Server, protocol: Protocol) -> Client<'a> {
        let mut client = Client { address: &server.address, protocol, session: None, socket: None };
        if let Protocol::Session(revision) = protocol {
            let (head, _) = client.post("", opening(revision).as_bytes());
            client.session = field(&head, "mcp-session-id").map(str::to_owned);
            assert!(client.session.is_some(), "no session: {head}");
        }
        client
    }

    /// The status and the body of the answer to a frame.
    fn answer(&mut self, frame: &Frame) -> String {
        let mut headers = match (&self.session, self.protocol) {
            (Some(session), Protocol::Session(revision)) => {
                format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {revision}\r\n")
            }
            _ => "MCP-Protocol-Version: 2026-07-28\r\n".to_owned(),
        };
        if self.protocol == Protocol::Stateless {
            let simple = |text: &&str| text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
            let method = frame.tree.text(&["method"]).filter(simple).unwrap_or("none");
            let member = if method == "resources/read" { "uri" } else { "name" };
            let name = frame.tree.text(&["params", member]).filter(simple).unwrap_or("none");
            headers.push_str(&format!("Mcp-Method: {method}\r\nMcp-Name: {name}\r\n"));
        }
        let (head, body) = self.post(&headers, frame.text.as_bytes());
        // Events of one server are numbered.
        let body: Vec<&str> = body.lines().filter(|line| !line.starts_with("id: ")).collect();
        format!("{} {}", head.lines().next().unwrap_or_default(), body.join("\n"))
    }

    fn post(&mut self, headers: &str, body: &[u8]) -> (String, String) {
        let socket = self.socket.get_or_insert_with(|| {
            let socket = TcpStream::connect(self.address).unwrap();
            socket.set_read_timeout(Some(HANG)).unwrap();
            socket.set_nodelay(true).unwrap();
            BufReader::new(socket)
        });
        let length = body.len();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n{headers}\r\n"
        )
        .into_bytes();
        request.extend_from_slice(body);
        socket.get_mut().write_all(&request).unwrap();
        let (head, body) = read(socket);
        if field(&head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            self.socket = None;
        }
        (head, body)
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// A whole answer: its head, and its body without the chunks.
fn read(socket: &mut BufReader<TcpStream>) -> (String, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(socket.read_line(&mut head).unwrap() > 0, "the connection ended: {head}");
    }
    let mut body = Vec::new();
    let mut take = |socket: &mut BufReader<TcpStream>, length: usize| {
        let start = body.len();
        body.resize(start + length, 0);
        socket.read_exact(&mut body[start..]).unwrap();
    };
    if let Some(length) = field(&head, "content-length") {
        take(socket, length.parse().unwrap());
    } else if field(&head, "transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            socket.read_line(&mut size).unwrap();
            let length = usize::from_str_radix(size.trim(), 16).unwrap();
            take(socket, length);
            socket.read_exact(&mut [0; 2]).unwrap();
            if length == 0 {
                break;
            }
        }
    }
    (head, String::from_utf8(body).unwrap())
}

/// Each client with sequences of its own, all of them on one server at the same time.
fn run(pooled: bool) {
    let lasting = Server::new(pooled);
    let mut seeds = seeds(20, 200);
    let (from, count) = (seeds.next().unwrap(), 1 + seeds.count() as u64);
    let next = AtomicU64::new(from);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        return;
                    }
                    one(seed, pooled, &lasting);
                }
            });
        }
    });
    lasting.end();
}

fn one(seed: u64, pooled: bool, lasting: &Server) {
    let mut r = Random(seed);
    let protocol = Protocol::random(&mut r);
    let frames = sequence(&mut r, protocol, LENGTH, !pooled);
    let mut client = Client::new(lasting, protocol);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for frame in &frames {
        ours.push(client.answer(frame));
        let other = Server::new(pooled);
        theirs.push(Client::new(&other, protocol).answer(frame));
        other.end();
    }
    compare(seed, if pooled { "HTTP, pooled" } else { "HTTP, inline" }, &frames, &ours, &theirs);
}

#[test]
fn over_http_and_inline_a_long_lived_server_answers_as_a_fresh_one() {
    run(false);
}

#[test]
fn over_http_and_pooled_a_long_lived_server_answers_as_a_fresh_one() {
    run(true);
}
