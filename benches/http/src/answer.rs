//! Finds the end of an HTTP response and reads the parts that the bench checks.
//!
//! Finds head and body by `Content-Length` or by chunks. Does not decode chunks or header values.
//! Does not support responses that end with the connection; no server under test sends one.
//!
//! # Invariants
//! - Each search starts at the first byte. This is cheap because a response arrives in a few reads.

use memchr::memmem;

use crate::Result;

const LONGEST_HEAD: usize = 64 * 1024;

/// A complete response in a buffer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer<'b> {
    /// Status code.
    pub status: u16,
    /// Status line and headers.
    pub head: &'b [u8],
    /// The body as it was sent, including chunk sizes.
    pub body: &'b [u8],
}

impl<'b> Answer<'b> {
    /// Returns the response at the start of `bytes` if it is complete.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a response, or if its end is not declared.
    pub fn find(bytes: &'b [u8]) -> Result<Option<Self>> {
        let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
            return if bytes.len() > LONGEST_HEAD { Err("a head without end".into()) } else { Ok(None) };
        };
        let (head, rest) = (&bytes[..end], &bytes[end + 4..]);
        let status = head.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
        let status = status.ok_or("no status line")?;
        let length = match framed(head)? {
            Framed::Length(length) => (rest.len() >= length).then_some(length),
            Framed::Chunks => chunks(rest)?,
        };
        Ok(length.map(|length| Self { status, head, body: &rest[..length] }))
    }

    /// Number of bytes from the status line to the end of the body.
    pub fn length(&self) -> usize {
        self.head.len() + 4 + self.body.len()
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&'b [u8]> {
        value(self.head, name)
    }
}

enum Framed {
    Length(usize),
    Chunks,
}

fn framed(head: &[u8]) -> Result<Framed> {
    if let Some(length) = value(head, "content-length") {
        return Ok(Framed::Length(std::str::from_utf8(length)?.parse()?));
    }
    if value(head, "transfer-encoding").is_some() {
        return Ok(Framed::Chunks);
    }
    match head.get(9..12) {
        // The only response to a notification: empty unless a length is declared.
        Some(b"202" | b"204") => Ok(Framed::Length(0)),
        _ => Err("an answer that does not say where it ends".into()),
    }
}

fn value<'h>(head: &'h [u8], name: &str) -> Option<&'h [u8]> {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', head).chain([head.len()]) {
        let line = &head[start..end];
        if line.len() > name.len()
            && line[name.len()] == b':'
            && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        {
            return Some(line[name.len() + 1..].trim_ascii());
        }
        start = end + 1;
    }
    None
}

/// Returns the length of a chunked body if it is complete.
fn chunks(bytes: &[u8]) -> Result<Option<usize>> {
    let mut at = 0;
    loop {
        let Some(line) = memchr::memchr(b'\n', &bytes[at..]) else {
            return Ok(None);
        };
        let digits = bytes[at..at + line].trim_ascii_end();
        let size = usize::from_str_radix(std::str::from_utf8(digits)?, 16)?;
        // The chunk and its line end; there are no trailers after the last chunk.
        at += line + 1 + size + 2;
        if at > bytes.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_answer_is_found_when_its_last_byte_is_there() {
        let plain: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length:  3\r\nX: y\r\n\r\nabc";
        let chunked: &[u8] =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n11\r\n01234567890123456\r\n0\r\n\r\n";
        let empty: &[u8] = b"HTTP/1.1 202 Accepted\r\nMcp-Session-Id: s\r\n\r\n";
        for whole in [plain, chunked, empty] {
            for end in 0..whole.len() {
                assert_eq!(Answer::find(&whole[..end]).unwrap(), None, "at {end}");
            }
            let more = [whole, b"HTTP"].concat();
            assert_eq!(Answer::find(&more).unwrap().unwrap().length(), whole.len());
        }
        let answer = Answer::find(empty).unwrap().unwrap();
        assert_eq!((answer.status, answer.header("mcp-session-id")), (202, Some(&b"s"[..])));
        assert_eq!(Answer::find(plain).unwrap().unwrap().body, b"abc");
        assert!(Answer::find(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
