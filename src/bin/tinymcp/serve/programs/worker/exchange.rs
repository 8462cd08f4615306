//! One co-process: the lines of a call and of its response.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tinymcp::ToolOutput;
use tinymcp::json::{Doc, Kind, ParseLimits, Value};

use super::super::group::{Group, timespec};
use super::super::output::Rules;
use super::super::process::{CHECK, Caller, TERM};
use crate::serve::run::log;

/// Maximum length of a line of a program in bytes.
pub(super) const LINE: usize = 4 << 20;
/// Maximum number of bytes of an invalid line that an error shows.
const SHOWN_BYTES: usize = 200;
/// Number of bytes of one read. They are on the stack of each thread that handles calls, and stay
/// resident.
const CHUNK: usize = 4 << 10;

/// Returns the line of a call.
pub(super) fn request(id: u32, tool: &str, arguments: &str) -> Vec<u8> {
    let mut line = Vec::with_capacity(tool.len() + arguments.len() + 48);
    // Names of tools have no character that JSON escapes.
    line.extend_from_slice(format!("{{\"id\":{id},\"tool\":\"").as_bytes());
    line.extend_from_slice(tool.as_bytes());
    line.extend_from_slice(b"\",\"arguments\":");
    // A line end in JSON text is white space between values.
    line.extend(arguments.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
    line.extend_from_slice(b"}\n");
    line
}

/// Reason why a process did not respond.
pub(super) enum Failure {
    Cancelled,
    TimedOut,
    /// An invalid line, with a message, or the end of the process.
    Broken(Option<String>),
}

pub(super) enum Reply {
    Result(Doc),
    Error(String),
}

impl Reply {
    pub(super) fn output(self, rules: &Rules<'_>, structured: bool) -> ToolOutput {
        match &self {
            Reply::Error(text) => rules.failed(text),
            Reply::Result(doc) => match doc.root().get("result") {
                Some(value) => match value.as_str() {
                    Some(text) if !structured => rules.given_text(text),
                    _ => rules.given_json(value),
                },
                None => ToolOutput::new(),
            },
        }
    }
}

/// One process.
pub(super) struct Worker {
    pub(super) group: Group,
    pub(super) stdin: Option<File>,
    stdout: File,
    /// Output that has not been processed.
    buffer: Vec<u8>,
    /// Number of bytes at the start of the buffer that contain no line end.
    searched: usize,
    /// Number of the last call.
    id: u32,
    /// Age of the pool when the process was started.
    pub(super) age: u32,
    /// Document of the last line, for its buffers.
    doc: Option<Doc>,
}

impl Worker {
    pub(super) fn new(group: Group, stdin: Option<File>, stdout: File, age: u32) -> Worker {
        Worker { group, stdin, stdout, buffer: Vec::new(), searched: 0, id: 0, age, doc: None }
    }

    /// Returns whether the process runs and has written nothing since its last response.
    pub(super) fn is_ready(&mut self, tool: &str) -> bool {
        let silent = match self.stdout.read(&mut [0]) {
            Ok(0) => return false,
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock && self.buffer.is_empty(),
        };
        if !silent {
            log(&format!("{tool}: its worker wrote something after a response and is replaced"));
        }
        silent && !self.group.exited()
    }

    /// Sends SIGTERM to the process, and kills it after [`TERM`] if it has not ended.
    pub(super) fn terminate(&mut self) {
        self.stdin = None;
        self.group.signal(Signal::TERM);
        self.group.wait(TERM);
        self.group.end();
    }

    /// Sends a request and waits for its result.
    pub(super) fn exchange(
        &mut self,
        caller: &mut dyn Caller,
        (tool, arguments): (&str, &str),
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        self.id = self.id.wrapping_add(1);
        let request = request(self.id, tool, arguments);
        let mut rest = request.as_slice();
        loop {
            if !rest.is_empty() {
                rest = self.write(rest)?;
            }
            while let Some(length) = self.line()? {
                if let Some(reply) = self.reply(length, caller)? {
                    return Ok(reply);
                }
            }
            let now = Instant::now();
            if caller.cancelled() {
                return Err(Failure::Cancelled);
            }
            if now >= deadline {
                return Err(Failure::TimedOut);
            }
            self.wait(!rest.is_empty(), CHECK.min(deadline - now))?;
        }
    }

    /// Writes what fits into the pipe and returns the rest.
    fn write<'r>(&mut self, rest: &'r [u8]) -> Result<&'r [u8], Failure> {
        let written = self.stdin.as_mut().map(|stdin| stdin.write(rest));
        match written {
            Some(Ok(count)) => Ok(rest.get(count..).unwrap_or_default()),
            Some(Err(error))
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
            {
                Ok(rest)
            }
            _ => Err(Failure::Broken(None)),
        }
    }

    /// Waits for output, the end of the process, or room in its input; then reads.
    fn wait(&mut self, writing: bool, pause: Duration) -> Result<(), Failure> {
        let mut fds = Vec::with_capacity(3);
        fds.push(PollFd::new(&self.stdout, PollFlags::IN));
        fds.extend(self.group.exit().map(|exit| PollFd::new(exit, PollFlags::IN)));
        fds.extend(self.stdin.as_ref().filter(|_| writing).map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
        match poll(&mut fds, Some(&timespec(pause))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::Broken(Some(io::Error::from(error).to_string()))),
        }
        let mut chunk = [0; CHUNK];
        match self.stdout.read(&mut chunk) {
            Ok(0) => Err(Failure::Broken(None)),
            Ok(count) => {
                self.buffer.extend_from_slice(chunk.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            // Nothing is in the pipe. A child of an ended process may hold it open.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.group.exited() => Ok(()),
            Err(_) => Err(Failure::Broken(None)),
        }
    }

    /// Returns the length of the first line with its end, if the buffer has a whole line.
    fn line(&mut self) -> Result<Option<usize>, Failure> {
        let new = self.buffer.get(self.searched..).unwrap_or_default();
        match memchr::memchr(b'\n', new) {
            Some(at) => Ok(Some(self.searched + at + 1)),
            None if self.buffer.len() > LINE => {
                Err(Failure::Broken(Some(format!("the program wrote a line of more than {LINE} bytes"))))
            }
            None => {
                self.searched = self.buffer.len();
                Ok(None)
            }
        }
    }

    /// Processes the first line. Returns the reply if the line is a reply.
    fn reply(&mut self, length: usize, caller: &mut dyn Caller) -> Result<Option<Reply>, Failure> {
        let line: Vec<u8> = self.buffer.drain(..length).collect();
        self.searched = 0;
        let mut doc = self.doc.take().unwrap_or_default();
        let limits = ParseLimits { bytes: LINE, ..ParseLimits::default() };
        if let Err(error) = doc.parse_again(&line, &limits) {
            return Err(invalid(&line, &error.kind().to_string()));
        }
        let root = doc.root();
        if root.kind() != Kind::Object {
            return Err(invalid(&line, "not an object"));
        }
        let Some(id) = root.get("id") else {
            return Err(invalid(&line, "no `id`; repeat that of the call"));
        };
        if id.as_f64() != Some(self.id.into()) {
            log("a worker wrote a line with the `id` of another call; it is dropped");
            self.doc = Some(doc);
            return Ok(None);
        }
        if root.get("result").is_some() {
            return Ok(Some(Reply::Result(doc)));
        }
        if let Some(error) = root.get("error") {
            let error = error.as_str().unwrap_or_else(|| error.raw()).to_owned();
            self.doc = Some(doc);
            return Ok(Some(Reply::Error(error)));
        }
        let Some(done) = root.get("progress").and_then(Value::as_f64) else {
            return Err(invalid(&line, "expected `result`, `error` or a number `progress`"));
        };
        let total = root.get("total").and_then(Value::as_f64);
        caller.progress(done, total, root.get("message").and_then(Value::as_str));
        self.doc = Some(doc);
        Ok(None)
    }
}

/// Returns the error of an invalid line.
fn invalid(line: &[u8], reason: &str) -> Failure {
    let shown = String::from_utf8_lossy(line.get(..SHOWN_BYTES).unwrap_or(line));
    Failure::Broken(Some(format!("the program wrote an invalid line: {reason}: {}", shown.trim_end())))
}
