//! Requests of the bench, in fixed shapes.
//!
//! Appends heads, and the lines of `benches/stdio` as bodies.
//!
//! # Invariants
//! - `Content-Length` is the last header, so a bare loop finds the length directly before the empty
//!   line.

use stdio_bench::wire::{Framing, HEAD, META, Script, push_number};

/// Use of the connection after the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// The next request uses the same connection.
    Keep,
    /// One request per connection.
    Close,
}

/// Writer for the requests of one client.
pub struct Requests {
    script: Script,
    /// Bytes before the headers that depend on the method.
    common: String,
    framing: Framing,
    in_session: bool,
    body: Vec<u8>,
}

impl Requests {
    /// Calls with `text`, which must need no escapes, to the server on `port`.
    pub fn new(framing: Framing, text: &str, port: u16) -> Self {
        let common = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        Self { script: Script::new(framing, text), common, framing, in_session: false, body: Vec::new() }
    }

    /// Returns the framing of the client.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Returns the text of each call.
    pub fn text(&self) -> &str {
        self.script.text()
    }

    /// True if the server opened a session.
    pub fn has_session(&self) -> bool {
        self.in_session
    }

    /// Adds this session id to all requests after [`Self::push_open`].
    pub fn set_session(&mut self, session: &str) {
        self.in_session = true;
        self.common.push_str("Mcp-Session-Id: ");
        self.common.push_str(session);
        self.common.push_str("\r\n");
    }

    /// Appends the first request of the connection.
    pub fn push_open(&mut self, out: &mut Vec<u8>, id: u64) {
        self.body.clear();
        self.script.push_open(&mut self.body, id);
        self.push(out, "server/discover", None, After::Keep);
    }

    /// Appends the notification after the response, in the legacy era.
    pub fn push_opened(&mut self, out: &mut Vec<u8>) {
        self.body.clear();
        self.script.push_opened(&mut self.body);
        self.push(out, "", None, After::Keep);
    }

    /// Appends one call of `echo`.
    pub fn push_call(&mut self, out: &mut Vec<u8>, id: u64, after: After) {
        self.body.clear();
        self.script.push_call(&mut self.body, id);
        self.push(out, "tools/call", Some("echo"), after);
    }

    /// Appends one call of any tool. `arguments` is an object; `more` are further members with a
    /// leading comma.
    pub fn push_tool(&mut self, out: &mut Vec<u8>, id: u64, tool: &str, arguments: &str, more: &str) {
        self.body.clear();
        self.body.extend_from_slice(HEAD);
        push_number(&mut self.body, id);
        let call = format!(
            ",\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{arguments},\"_meta\":{{{more}"
        );
        self.body.extend_from_slice(call.as_bytes());
        if self.framing == Framing::Modern {
            // The members without the name and the outer brace.
            let meta = META.strip_prefix(b"\"_meta\":{").unwrap_or(META);
            if !more.is_empty() {
                self.body.push(b',');
            }
            self.body.extend_from_slice(meta);
        } else {
            self.body.push(b'}');
        }
        self.body.extend_from_slice(b"}}");
        self.push(out, "tools/call", Some(tool), After::Keep);
    }

    /// Appends a modern request for updates of one resource; its response has no end.
    pub fn push_listen(&mut self, out: &mut Vec<u8>, id: u64, uri: &str) {
        self.body.clear();
        self.body.extend_from_slice(HEAD);
        push_number(&mut self.body, id);
        let filter = format!(
            ",\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":{{\"resourceSubscriptions\":[\"{uri}\"]}},"
        );
        self.body.extend_from_slice(filter.as_bytes());
        self.body.extend_from_slice(META);
        self.body.extend_from_slice(b"}}");
        self.push(out, "subscriptions/listen", None, After::Keep);
    }

    /// Appends head and body; in the modern era the head repeats `method` and `name`.
    fn push(&mut self, out: &mut Vec<u8>, method: &str, name: Option<&str>, after: After) {
        let body = self.body.trim_ascii_end();
        out.extend_from_slice(self.common.as_bytes());
        match self.framing {
            Framing::Legacy => out.extend_from_slice(b"MCP-Protocol-Version: 2025-11-25\r\n"),
            Framing::Modern => {
                out.extend_from_slice(b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: ");
                out.extend_from_slice(method.as_bytes());
                out.extend_from_slice(b"\r\n");
                if let Some(name) = name {
                    out.extend_from_slice(b"Mcp-Name: ");
                    out.extend_from_slice(name.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        if after == After::Close {
            out.extend_from_slice(b"Connection: close\r\n");
        }
        out.extend_from_slice(b"Content-Length: ");
        push_number(out, body.len() as u64);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }
}
