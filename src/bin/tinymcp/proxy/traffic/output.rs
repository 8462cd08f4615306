//! Lines of the frame log, and the file of a log.
//!
//! # Invariants
//! - A file that is created is accessible to its owner only. A file that exists keeps its mode, and
//!   must be a regular file, so that opening and writing do not wait for a reader.
//! - A file that cannot be opened again stays in use under its old name.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use tinymcp::json::Writer;
use tinymcp::{Direction, stderr};

use super::{CopiedFrame, Side};
use crate::Result;
use crate::escape;
use crate::mask::{Mask, shortened};
use crate::serve::log;
use crate::timestamp::timestamp;

/// Maximum number of bytes of a frame that is written whole.
pub(super) const LINE: usize = 64 << 10;
/// Maximum number of bytes of text that is not JSON.
const TEXT: usize = 200;
/// Number of bytes that are collected for one write.
const BUFFER: usize = 64 << 10;

/// Destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    File(PathBuf),
    Stderr,
}

impl Target {
    /// Reads the value of an option: a path, or `-` for standard error.
    pub(crate) fn parse(value: OsString) -> Target {
        if value == "-" { Target::Stderr } else { Target::File(value.into()) }
    }
}

/// An open log.
pub(super) struct Output {
    target: Target,
    /// `None` for standard error.
    file: Option<File>,
    buffer: Vec<u8>,
    /// The last write failed, which was reported.
    failed: bool,
}

impl Output {
    pub(super) fn open(target: Target) -> Result<Output> {
        let file = open(&target)?;
        Ok(Output { target, file, buffer: Vec::new(), failed: false })
    }

    /// Opens the file again, because it was renamed.
    pub(super) fn reopen(&mut self) {
        match open(&self.target) {
            Ok(file) => (self.file, self.failed) = (file, false),
            Err(error) => log(&format!("{error}; the log goes to the file that was open")),
        }
    }

    /// Adds a line.
    pub(super) fn write(&mut self, line: &[u8]) {
        self.buffer.extend_from_slice(line);
        if self.buffer.len() >= BUFFER {
            self.flush();
        }
    }

    /// Writes the lines. An error is reported once.
    pub(super) fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let lines = std::mem::take(&mut self.buffer);
        let Some(file) = &mut self.file else {
            return stderr::write(escape::json(&String::from_utf8_lossy(&lines)));
        };
        match (file.write_all(&lines), &self.target) {
            (Ok(()), _) => self.failed = false,
            (Err(error), Target::File(path)) if !self.failed => {
                self.failed = true;
                log(&format!("{}: {error}; lines of the log are lost", path.display()));
            }
            (Err(_), _) => {}
        }
        self.buffer = lines;
        self.buffer.clear();
    }
}

fn open(target: &Target) -> Result<Option<File>> {
    let Target::File(path) = target else { return Ok(None) };
    let refusal = |error: io::Error| format!("{}: {error}", path.display());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags | OFlags::NOCTTY, Mode::RUSR | Mode::WUSR);
    let file = File::from(opened.map_err(|error| refusal(error.into()))?);
    match file.metadata().map_err(refusal)?.is_file() {
        true => Ok(Some(file)),
        false => Err(format!("{}: not a regular file", path.display())),
    }
}

/// Returns a frame as a line.
pub(super) fn frame_line(at: SystemTime, frame: &CopiedFrame, mask: &Mask) -> Writer {
    let mut w = Writer::new();
    w.begin_object().key("time").string(&time(at));
    let (side, connection) = match frame.side {
        Side::Client => ("client", "connection"),
        Side::Server => ("server", "server"),
    };
    w.key("side").string(side);
    w.key(connection).string(&frame.connection);
    if let Some(principal) = &frame.principal {
        w.key("principal").string(principal);
    }
    w.key("direction").string(match frame.direction {
        Direction::Received => "received",
        Direction::Sent => "sent",
    });
    match (frame.cut, mask.frame(&frame.bytes, LINE)) {
        (Some(bytes), _) => {
            w.key("bytes").u64(bytes as u64).key("cut").bool(true);
        }
        (None, Ok((text, is_cut))) => {
            if is_cut {
                w.key("bytes").u64(frame.bytes.len() as u64).key("cut").bool(true);
            }
            w.key("frame").raw(&text);
        }
        (None, Err(error)) => {
            w.key("bytes").u64(frame.bytes.len() as u64).key("invalid").string(&error.to_string());
            if let Some(text) = mask.message(&frame.bytes, &error) {
                w.key("text").string(&shortened(&text, TEXT));
            }
        }
    }
    w.end_object().newline();
    w
}

/// Returns a point in time in the format of RFC 3339, in UTC with milliseconds.
pub(super) fn time(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_log_must_be_a_regular_file() {
        let error = Output::open(Target::File("/dev/null".into())).err().unwrap();
        assert_eq!(error, "/dev/null: not a regular file");
        assert!(Output::open(Target::File("/nowhere/log".into())).is_err());
    }

    #[test]
    fn text_that_is_not_json_is_shortened_and_broken_json_is_not_written() {
        let line = |bytes: &[u8], cut| {
            let connection = "one".to_owned();
            let (side, direction) = (Side::Server, Direction::Received);
            let frame = CopiedFrame {
                side,
                connection,
                server: None,
                principal: None,
                direction,
                bytes: bytes.to_vec(),
                cut,
            };
            let line = frame_line(UNIX_EPOCH, &frame, &Mask::new(vec!["12345678".to_owned()]));
            let (_, line) = line.as_str().split_once("\"received\",").unwrap();
            line.to_owned()
        };
        let shown = line(b"Listening, 12345678", None);
        assert!(shown.contains(r#""bytes":19,"invalid":""#), "{shown}");
        assert!(shown.ends_with("\"text\":\"Listening, [masked]\"}\n"), "{shown}");
        let broken = line(br#" {"password":"x"#, None);
        assert!(!broken.contains("password") && broken.contains("\"invalid\""), "{broken}");
        assert_eq!(line(b"{\"id\"", Some(99)), "\"bytes\":99,\"cut\":true}\n");
        assert_eq!(line(b"{}\n", None), "\"frame\":{}}\n");
    }
}
