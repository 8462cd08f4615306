//! A connection to a server.
//!
//! # Invariants
//! - At most one request is in flight.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use memchr::memmem;
use stdio_bench::wire::id_of;

use crate::Result;
use crate::answer::Answer;
use crate::wire::{After, Requests};

const BUFFER: usize = 8 * 1024;
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;

/// An open connection.
pub struct Link {
    /// The socket.
    pub stream: TcpStream,
    buffer: Vec<u8>,
    filled: usize,
    /// Reused for every request.
    pub outgoing: Vec<u8>,
}

impl Link {
    /// Connects; a read or write that takes longer than `patience` fails.
    ///
    /// # Errors
    /// Returns the errors of the socket.
    pub fn connect(address: SocketAddr, patience: Duration) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, buffer: vec![0; BUFFER], filled: 0, outgoing: Vec::new() })
    }

    /// Writes the buffer `outgoing` and clears it.
    ///
    /// # Errors
    /// Returns an error if the server closed the connection.
    pub fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }

    /// Reads once and returns true if the response is complete. Returns false too if a non-blocking
    /// socket has no bytes.
    ///
    /// # Errors
    /// Returns an error if the server closed the connection or sent an invalid response.
    pub fn read(&mut self) -> Result<bool> {
        if self.filled == self.buffer.len() {
            if self.filled >= LONGEST_ANSWER {
                return Err("an answer without end".into());
            }
            self.buffer.resize(self.filled * 2, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => Err("the server closed the connection".into()),
            Ok(got) => {
                self.filled += got;
                Ok(Answer::find(&self.buffer[..self.filled])?.is_some())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the complete response from the buffer and passes it to `look`.
    ///
    /// # Errors
    /// Returns an error if it is incomplete, if bytes follow it, or if `look` rejects it.
    pub fn take<T>(&mut self, look: impl FnOnce(&Answer<'_>) -> Result<T>) -> Result<T> {
        let answer = Answer::find(&self.buffer[..self.filled])?.ok_or("half an answer")?;
        if answer.length() != self.filled {
            return Err("bytes after the answer".into());
        }
        let seen = look(&answer);
        self.filled = 0;
        seen
    }

    /// Writes the buffer `outgoing` and waits for the response.
    ///
    /// # Errors
    /// Returns the errors of [`Self::send`], [`Self::read`] and [`Self::take`], and an error after
    /// the timeout.
    pub fn exchange<T>(&mut self, look: impl FnOnce(&Answer<'_>) -> Result<T>) -> Result<T> {
        self.send()?;
        loop {
            let before = self.filled;
            if self.read()? {
                return self.take(look);
            }
            // A timeout looks like a non-blocking socket without bytes.
            if self.filled == before {
                return Err("no answer in time".into());
            }
        }
    }

    /// Opens the connection to the protocol; stores the session id of the server in `requests`.
    ///
    /// # Errors
    /// Returns an error if the server rejects the request.
    pub fn open(&mut self, requests: &mut Requests) -> Result<()> {
        requests.push_open(&mut self.outgoing, 1);
        let session = self.exchange(|answer| {
            if answer.status != 200 || memmem::find(answer.body, b"\"result\"").is_none() {
                return Err(refused(answer));
            }
            let session = answer.header("mcp-session-id").map(<[u8]>::to_vec);
            Ok(session.map(String::from_utf8).transpose()?)
        })?;
        if let Some(session) = session {
            requests.set_session(&session);
        }
        if requests.framing() == stdio_bench::wire::Framing::Legacy {
            requests.push_opened(&mut self.outgoing);
            self.exchange(|answer| if answer.status == 202 { Ok(()) } else { Err(refused(answer)) })?;
        }
        Ok(())
    }

    /// Makes one call and checks its response.
    ///
    /// # Errors
    /// Returns an error if the response is not the echo of this call.
    pub fn call(&mut self, requests: &mut Requests, id: u64, after: After) -> Result<()> {
        requests.push_call(&mut self.outgoing, id, after);
        self.exchange(|answer| check(answer, id, requests.text()))
    }
}

/// Checks that `answer` is the echo of call `id`.
///
/// # Errors
/// Returns an error if it is not.
pub fn check(answer: &Answer<'_>, id: u64, text: &str) -> Result<()> {
    let echo = answer.status == 200
        && id_of(id_part(answer.body)) == Some(id)
        && memmem::find(answer.body, text.as_bytes()).is_some();
    if echo { Ok(()) } else { Err(refused(answer)) }
}

/// Start of the message, which in an event stream follows the field name.
fn id_part(body: &[u8]) -> &[u8] {
    &body[memchr::memchr(b'{', body).unwrap_or(0)..]
}

fn refused(answer: &Answer<'_>) -> Box<dyn std::error::Error> {
    let shown = &answer.body[..answer.body.len().min(300)];
    format!("not the answer expected: {} {}", answer.status, String::from_utf8_lossy(shown)).into()
}
