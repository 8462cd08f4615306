//! HTTP transport of the player. Each message is a POST on its own connection. Each JSON body and
//! each event of a response is a received message. `events` accepts events only.
//!
//! The transport maps messages to HTTP: header fields of a modern request, the session id, a closed
//! connection where a modern client cancels, and a stop of the server where the input ends. A
//! session has a GET stream as soon as the client is initialized.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::fixture::Order;
use crate::wire::{Received, TIMEOUT, ThreadServer, Wire};

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

struct Http {
    address: String,
    accept: &'static str,
    server: ThreadServer,
    messages: mpsc::Receiver<String>,
    /// `None` once the client sends no more: the channel then closes with the last reader thread.
    messages_tx: Option<mpsc::Sender<String>>,
    session: Arc<Mutex<Option<String>>>,
    /// Open requests without a session, by their ids as JSON.
    open: BTreeMap<String, TcpStream>,
}

pub(crate) fn connect(order: &Order) -> Result<Box<dyn Wire>, String> {
    serving(order, "application/json, text/event-stream")
}

pub(crate) fn connect_events(order: &Order) -> Result<Box<dyn Wire>, String> {
    serving(order, "text/event-stream")
}

fn serving(order: &Order, accept: &'static str) -> Result<Box<dyn Wire>, String> {
    let mut address = String::new();
    let server = ThreadServer::start(order, |server| {
        let bound =
            server.http().no_signal_handlers().bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        bound.address().clone_into(&mut address);
        Ok(move || bound.serve())
    })?;
    let (messages_tx, messages) = mpsc::channel();
    Ok(Box::new(Http {
        address,
        accept,
        server,
        messages,
        messages_tx: Some(messages_tx),
        session: Arc::default(),
        open: BTreeMap::new(),
    }))
}

impl Http {
    /// Sends a request and reads the response head on another thread, which also forwards the
    /// messages.
    fn request(&self, method: &str, fields: &[(String, String)], body: &[u8]) -> Result<Open, String> {
        let mut stream = TcpStream::connect(&self.address).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(|error| error.to_string())?;
        let mut head = format!("{method} /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        if let Some(session) = &*self.session.lock().unwrap() {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        // A server that has responded early may have closed the connection.
        let _ = stream.write_all(&bytes);
        let ours = stream.try_clone().map_err(|error| error.to_string())?;
        let messages_tx = self.messages_tx.clone().ok_or("the input is closed")?;
        let session = Arc::clone(&self.session);
        let (heads, head) = mpsc::channel();
        thread::spawn(move || read_response(stream, &messages_tx, &heads, &session));
        Ok(Open { stream: ours, head })
    }

    /// Opens the stream for messages that belong to no call.
    fn listen(&self) -> Result<(), String> {
        let fields = [("Accept".to_owned(), "text/event-stream".to_owned())];
        let open = self.request("GET", &fields, b"")?;
        match open.head.recv_timeout(TIMEOUT) {
            Ok(200) => Ok(()),
            other => Err(format!("the server rejected the GET stream: {other:?}")),
        }
    }
}

struct Open {
    stream: TcpStream,
    /// Receives the status.
    head: mpsc::Receiver<u16>,
}

/// Header fields of the POST of a message.
fn fields(message: &Value, accept: &str) -> Vec<(String, String)> {
    let mut fields = vec![
        ("Content-Type".to_owned(), "application/json".to_owned()),
        ("Accept".to_owned(), accept.to_owned()),
    ];
    let params = &message["params"];
    let Some(version) = params["_meta"][META_VERSION].as_str() else { return fields };
    fields.push(("MCP-Protocol-Version".to_owned(), version.to_owned()));
    let method = message["method"].as_str().unwrap_or_default();
    fields.push(("Mcp-Method".to_owned(), method.to_owned()));
    let name = match method {
        "tools/call" | "prompts/get" => &params["name"],
        "resources/read" => &params["uri"],
        "tasks/get" | "tasks/update" | "tasks/cancel" => &params["taskId"],
        _ => return fields,
    };
    let name = name.as_str().unwrap_or("missing");
    let plain = name.bytes().all(|b| (b' '..0x7f).contains(&b)) && name.trim() == name;
    let value = if plain { name.to_owned() } else { format!("=?base64?{}?=", base64(name.as_bytes())) };
    fields.push(("Mcp-Name".to_owned(), value));
    fields
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().chain([0; 2].iter()).take(3).fold(0_u32, |all, b| all << 8 | u32::from(*b));
        for place in 0..4 {
            match place <= chunk.len() {
                true => out.push(char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize])),
                false => out.push('='),
            }
        }
    }
    out
}

fn read_response(
    stream: TcpStream,
    messages_tx: &mpsc::Sender<String>,
    heads: &mpsc::Sender<u16>,
    session: &Mutex<Option<String>>,
) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    if !matches!(stream.read_line(&mut line), Ok(1..)) {
        return;
    }
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut head = BTreeMap::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).is_err() || line.trim_end().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            head.insert(name.to_lowercase(), value.trim().to_owned());
        }
    }
    if let Some(id) = head.get("mcp-session-id") {
        *session.lock().unwrap() = Some(id.clone());
    }
    let _ = heads.send(status);
    if head.get("content-type").is_some_and(|kind| kind == "text/event-stream") {
        return read_events(stream, messages_tx);
    }
    let length = head.get("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    if length > 0 && stream.read_exact(&mut body).is_ok() {
        let _ =
            messages_tx.send(String::from_utf8(body).unwrap_or_else(|error| format!("not UTF-8: {error}")));
    }
}

/// Reads chunks until the stream ends; each chunk is one event.
fn read_events(mut stream: impl BufRead, messages_tx: &mpsc::Sender<String>) {
    let mut text = String::new();
    loop {
        let mut size = String::new();
        let Ok(1..) = stream.read_line(&mut size) else { return };
        let Ok(size @ 1..) = usize::from_str_radix(size.trim_end(), 16) else { return };
        let mut chunk = vec![0; size + 2];
        if stream.read_exact(&mut chunk).is_err() {
            return;
        }
        text.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            for data in event.lines().filter_map(|line| line.strip_prefix("data: ")) {
                if !data.is_empty() {
                    let _ = messages_tx.send(data.to_owned());
                }
            }
            text = rest.to_owned();
        }
    }
}

impl Wire for Http {
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let message: Value = serde_json::from_slice(body).unwrap_or_default();
        let alone = self.session.lock().unwrap().is_none();
        if message["method"] == "notifications/cancelled" {
            // A modern client cancels by closing the stream.
            if let Some(stream) = self.open.remove(&message["params"]["requestId"].to_string()) {
                return match stream.shutdown(Shutdown::Both) {
                    // The response has arrived and the server has closed the connection.
                    Err(error) if error.kind() != std::io::ErrorKind::NotConnected => Err(error.to_string()),
                    _ => Ok(()),
                };
            }
        }
        let mut fields = fields(&message, self.accept);
        let asks = message.is_array() || message.get("method").is_some() && message.get("id").is_some();
        if alone && !asks && fields.len() == 2 {
            fields.push(("MCP-Protocol-Version".to_owned(), "2026-07-28".to_owned()));
        }
        let modern = fields.len() > 2;
        let open = self.request("POST", &fields, body)?;
        if asks {
            if modern {
                self.open.insert(message["id"].to_string(), open.stream);
            }
        } else {
            // The next message is sent after this one is accepted.
            let _ = open.head.recv_timeout(TIMEOUT);
        }
        if message["method"] == "notifications/initialized" && !alone {
            self.listen()?;
        }
        Ok(())
    }

    fn receive(&mut self, deadline: Instant) -> Received {
        match self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(message) => Received::Message(message),
            Err(mpsc::RecvTimeoutError::Disconnected) => Received::Closed,
            Err(mpsc::RecvTimeoutError::Timeout) => Received::TimedOut,
        }
    }

    fn finish(&mut self) {
        self.messages_tx = None;
        self.server.stop();
    }

    fn act(&mut self, command: &str) -> Result<(), String> {
        self.server.act(command)
    }

    fn ordered(&self) -> bool {
        false
    }

    fn end(self: Box<Self>) -> Result<(), String> {
        self.server.end()
    }
}
