//! HTTP requests as bytes, and readers of their responses.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout that only a hang reaches, even on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(120);

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"witness","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}"#;

/// Request line and common header fields of a POST.
pub fn head(address: SocketAddr, more: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{more}"
    )
}

/// A `tools/call` without a session.
pub fn call(address: SocketAddr, id: u64, tool: &str) -> String {
    call_with(address, id, tool, "", "")
}

/// A `tools/call` with more arguments and metadata; both start with a comma.
pub fn call_with(address: SocketAddr, id: u64, tool: &str, arguments: &str, meta: &str) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"n":{id}{arguments}}},{META}{meta}}}}}}}"#
    );
    let fields = format!(
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    head(address, &fields) + &body
}

/// An `initialize` request of a client with this name.
pub fn initialize(address: SocketAddr, name: &str) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"{name}","version":"1"}}}}}}"#
    );
    head(address, &format!("Content-Length: {}\r\n\r\n{body}", body.len()))
}

/// A `subscriptions/listen` request without a session.
pub fn listen(address: SocketAddr, uri: &str) -> String {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{{"notifications":{{"resourceSubscriptions":["{uri}"]}},{META}}}}}}}"#
    );
    let fields = format!(
        "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    head(address, &fields) + &body
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Opens a session, subscribes to a resource and returns the session id.
pub fn session(stream: &mut TcpStream, address: SocketAddr, uri: &str) -> Option<String> {
    let (whole, _) = exchange_raw(stream, &initialize(address, "client"))?;
    let named = |line: &str| line.to_ascii_lowercase().strip_prefix("mcp-session-id: ").map(str::to_owned);
    let id = whole.lines().find_map(named)?;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
    let subscribe =
        format!(r#"{{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{{"uri":"{uri}"}}}}"#);
    for (body, expected) in [(ready, 202), (subscribe, 200)] {
        let length = body.len();
        let fields = format!(
            "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {id}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let (status, body) = exchange(stream, &head(address, &fields))?;
        assert_eq!(status, expected, "{body}");
    }
    Some(id)
}

/// Sends a request and returns status and body of the response. Returns `None` if the connection
/// was closed before the first byte of a response; the caller then retries on another one.
pub fn exchange(stream: &mut TcpStream, request: &str) -> Option<(u16, String)> {
    exchange_raw(stream, request).map(|(head, body)| (head[9..12].parse().unwrap(), body))
}

fn exchange_raw(stream: &mut TcpStream, request: &str) -> Option<(String, String)> {
    let is_closed = |kind| {
        matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
    };
    match stream.write_all(request.as_bytes()) {
        Err(error) if is_closed(error.kind()) => return None,
        sent => sent.unwrap(),
    }
    let (mut all, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        let n = match stream.read(&mut piece) {
            Err(error) if is_closed(error.kind()) && all.is_empty() => return None,
            read => read.unwrap(),
        };
        if n == 0 {
            assert!(all.is_empty(), "incomplete response: {}", String::from_utf8_lossy(&all));
            return None;
        }
        all.extend_from_slice(&piece[..n]);
        let text = std::str::from_utf8(&all).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap_or("0");
        if body.len() == length.parse::<usize>().unwrap() {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}

/// Reads until the peer closes the connection, and returns the bytes.
pub fn drain(stream: &mut TcpStream) -> String {
    let (mut all, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => break,
            Err(error) => panic!("the server did not close: {error}"),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// True if the server has closed this connection or sent bytes on it.
pub fn touched(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let untouched = matches!(stream.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock);
    stream.set_nonblocking(false).unwrap();
    !untouched
}
