//! Requests of the bench, in fixed shapes.
//!
//! Appends prepared lines to a buffer.
//!
//! # Invariants
//! - `floor` finds id and text by these positions, so a change here needs a change there.

/// Start of every request and every response.
pub const HEAD: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
/// Bytes between the id and the text of a call.
pub const CALL: &[u8] =
    b",\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"";
const CALL_END: &[u8] = b"\"}";
const SWAPPED: &[u8] = b",\"method\":\"tools/call\",\"params\":{\"arguments\":{\"text\":\"";
const SWAPPED_END: &[u8] = b"\"},\"name\":\"echo\"";
const ADD: &[u8] =
    b",\"method\":\"tools/call\",\"params\":{\"name\":\"add\",\"arguments\":{\"a\":20,\"b\":22}";
const LIST: &[u8] = b",\"method\":\"tools/list\",\"params\":{";
/// Metadata in the parameters of each modern request.
pub const META: &[u8] = b"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
\"io.modelcontextprotocol/clientInfo\":{\"name\":\"bench\",\"version\":\"1\"},\
\"io.modelcontextprotocol/clientCapabilities\":{}}";
const INITIALIZE: &[u8] = b",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
\"capabilities\":{},\"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}}\n";
const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
const DISCOVER: &[u8] = b",\"method\":\"server/discover\",\"params\":{";

/// Text of a short call.
pub const SHORT: &str = "hello from the other end of the pipe";

/// Protocol era of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// `initialize` opens a session.
    Legacy,
    /// Each request carries its own metadata.
    Modern,
}

/// Writer for the requests of one client.
pub struct Script {
    framing: Framing,
    text: String,
    kinds: u64,
}

impl Script {
    /// Calls with `text`, which must need no escapes.
    pub fn new(framing: Framing, text: &str) -> Self {
        Self { framing, text: text.to_owned(), kinds: 1 }
    }

    /// Alternating calls, so that no call is like the one before it: `echo`, `add`, `echo` with
    /// swapped members, `add`, and again.
    pub fn in_turns(self) -> Self {
        Self { kinds: 4, ..self }
    }

    /// Returns the text of each call.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Appends the first request of the connection.
    pub fn push_open(&self, out: &mut Vec<u8>, id: u64) {
        push_head(out, id);
        match self.framing {
            Framing::Legacy => out.extend_from_slice(INITIALIZE),
            Framing::Modern => {
                out.extend_from_slice(DISCOVER);
                out.extend_from_slice(META);
                out.extend_from_slice(b"}}\n");
            }
        }
    }

    /// Appends the notification after the response to [`Self::push_open`]; nothing in the modern
    /// era.
    pub fn push_opened(&self, out: &mut Vec<u8>) {
        if self.framing == Framing::Legacy {
            out.extend_from_slice(INITIALIZED);
        }
    }

    /// Appends one call: `echo`, or the next tool of the alternation.
    pub fn push_call(&self, out: &mut Vec<u8>, id: u64) {
        push_head(out, id);
        let call: [&[u8]; 3] = match id % self.kinds {
            0 => [CALL, self.text.as_bytes(), CALL_END],
            2 => [SWAPPED, self.text.as_bytes(), SWAPPED_END],
            _ => [ADD, b"", b""],
        };
        for part in call {
            out.extend_from_slice(part);
        }
        if self.framing == Framing::Modern {
            out.push(b',');
            out.extend_from_slice(META);
        }
        out.extend_from_slice(b"}}\n");
    }

    /// Appends a request for one page of the tool list; `cursor` is still escaped, as in the last
    /// page.
    pub fn push_list(&self, out: &mut Vec<u8>, id: u64, cursor: Option<&[u8]>) {
        push_head(out, id);
        out.extend_from_slice(LIST);
        if let Some(cursor) = cursor {
            out.extend_from_slice(b"\"cursor\":\"");
            out.extend_from_slice(cursor);
            out.push(b'"');
        }
        if self.framing == Framing::Modern {
            if cursor.is_some() {
                out.push(b',');
            }
            out.extend_from_slice(META);
        }
        out.extend_from_slice(b"}}\n");
    }
}

fn push_head(out: &mut Vec<u8>, id: u64) {
    out.extend_from_slice(HEAD);
    push_number(out, id);
}

/// Appends the decimal digits of `number`.
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Number of digits that [`push_number`] appends.
pub fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Returns the number after the first `"id":` of a response.
pub fn id_of(line: &[u8]) -> Option<u64> {
    let rest = match line.strip_prefix(HEAD) {
        Some(rest) => rest,
        None => {
            let at = memchr::memmem::find(line, b"\"id\":")?;
            &line[at + 5..]
        }
    };
    let mut id = None;
    for byte in rest.iter().take(19).take_while(|byte| byte.is_ascii_digit()) {
        id = Some(id.unwrap_or(0) * 10 + u64::from(byte - b'0'));
    }
    id
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ids_survive_the_way_there_and_back() {
        for id in [0, 1, 9, 10, 99, 100, 65_535, 1_000_000_007] {
            let mut line = Vec::new();
            Script::new(Framing::Modern, "x").push_call(&mut line, id);
            assert_eq!(id_of(&line), Some(id));
            let reordered = format!("{{\"result\":{{}},\"id\":{id},\"jsonrpc\":\"2.0\"}}");
            assert_eq!(id_of(reordered.as_bytes()), Some(id));
            assert_eq!(digits(id), id.to_string().len());
        }
        assert_eq!(id_of(b"{\"jsonrpc\":\"2.0\",\"id\":null}"), None);
    }
}
