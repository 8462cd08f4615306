//! Recordings of connections: the file format, and the comparison.
//!
//! A recording has one JSON object for each frame: `t`, milliseconds since the start; `dir`, `c2s`
//! (client to server), `s2c`, or `err` for a line of the server's standard error; `frame`, the
//! message or the batch of messages, or `text` if it is not JSON. Credentials are masked. With
//! several clients, over HTTP, `conn` is the number of the connection: a session, or a request of
//! the stateless protocol.

pub(crate) mod record;
pub(crate) mod replay;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use tinymcp::json::{Doc, Json, Kind, ParseLimits, Value, Writer};
use tinymcp::stderr;

use super::catalog::canonical;
use super::failure::Result;
use super::frames::Frames;
use super::{json_error, read};
use crate::mask::Mask;
use crate::mutex::lock;
use crate::walk::{Step, Walk};

/// Parameters that are not compared: metadata, and the description of the client.
const IGNORED: [&str; 4] = ["_meta", "protocolVersion", "capabilities", "clientInfo"];
/// Access of the file: its owner only.
const MODE: u32 = 0o600;
/// Length of a line, in bytes, beyond which its buffer is not kept.
const LARGE: usize = 1 << 20;

/// Direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ClientToServer,
    ServerToClient,
    /// Standard error of the server.
    Diagnostics,
}

const NAMES: [(&str, Direction); 3] =
    [("c2s", Direction::ClientToServer), ("s2c", Direction::ServerToClient), ("err", Direction::Diagnostics)];

/// A recording that is written.
pub(crate) struct Recorder {
    began: Instant,
    mask: Mask,
    /// Shows the frames on standard error, too.
    shown: Option<Frames>,
    output: Mutex<Output>,
}

/// The file, and the buffers of a line, which the next one reuses.
#[derive(Default)]
struct Output {
    /// `None` after a failure, which was reported.
    file: Option<File>,
    /// The file may have an earlier recording, which the first line replaces.
    is_old: bool,
    frame: Doc,
    line: Writer,
}

impl Recorder {
    /// Creates the file, or opens it. The first line replaces the content, so that a server that
    /// cannot be started, or an invalid option, loses no earlier recording.
    pub(crate) fn create(path: &Path, mask: Mask, shown: Option<Frames>) -> Result<Recorder> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(MODE).open(path);
        let opened = file.and_then(|file| Ok((file.metadata()?.is_file(), file)));
        let (is_old, file) = opened.map_err(|e| format!("{}: {e}", path.display()))?;
        let output = Mutex::new(Output { file: Some(file), is_old, ..Output::default() });
        Ok(Recorder { began: Instant::now(), mask, shown, output })
    }

    /// Writes one line of a connection. A full disk does not end the connection.
    ///
    /// The line is in the file when this returns, so a killed program loses no frame that it has
    /// forwarded.
    pub(crate) fn write(&self, direction: Direction, connection: Option<u64>, line: &[u8]) {
        let line = line.trim_ascii_end();
        match (&self.shown, direction) {
            (Some(shown), Direction::ClientToServer) => shown.show(tinymcp::Direction::Sent, line),
            (Some(shown), Direction::ServerToClient) => shown.show(tinymcp::Direction::Received, line),
            _ => {}
        }
        let name = NAMES.iter().find(|(_, known)| *known == direction).map_or("", |(name, _)| name);
        let mut output = lock(&self.output);
        let Output { file: Some(file), is_old, frame, line: w } = &mut *output else { return };
        w.clear();
        w.begin_object();
        w.key("t").u64(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        w.key("dir").string(name);
        if let Some(connection) = connection {
            w.key("conn").u64(connection);
        }
        match direction {
            Direction::Diagnostics => _ = w.key("text").string(&self.mask.line(line)),
            _ => match frame.parse_again(line, &ParseLimits::default()) {
                Ok(()) => self.mask.write(w.key("frame"), frame.root()),
                Err(error) => _ = w.key("text").string(&self.mask.invalid(line, &error)),
            },
        }
        w.end_object().newline();
        let emptied = if std::mem::take(is_old) { file.set_len(0) } else { Ok(()) };
        if let Err(error) = emptied.and_then(|()| file.write_all(w.as_bytes())) {
            stderr::write(format!("tinymcp: the recording ends here: {error}\n"));
            *output = Output::default();
        } else if w.len() > LARGE {
            (*frame, *w) = Default::default();
        }
    }
}

/// A frame of a recording.
pub(crate) struct Entry {
    pub(crate) direction: Direction,
    /// Number of the connection; 0 if there is only one.
    pub(crate) connection: u64,
    pub(crate) frame: Doc,
}

/// Reads a recording. The messages of a batch (revision 2025-03-26) are entries of their own. Lines
/// that are not messages are left out.
pub(crate) fn load(path: &Path) -> Result<Vec<Entry>> {
    let text = read(path)?;
    let mut entries = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let wrong = |what: &str| format!("{}:{}: {what}", path.display(), number + 1);
        let entry = Doc::parse(line).map_err(|error| json_error(path, line, error))?;
        let name = entry.root().get("dir").and_then(Value::as_str).unwrap_or_default();
        let Some((_, direction)) = NAMES.iter().find(|(known, _)| *known == name) else {
            return Err(wrong("not a line of a recording: `dir` is not c2s, s2c or err").into());
        };
        let connection = entry.root().get("conn").and_then(|conn| conn.as_u64()).unwrap_or_default();
        let mut add = |message: Value<'_>| {
            entries.push(Entry { direction: *direction, connection, frame: message.to_json().to_doc() });
        };
        let is_message = |value: &Value<'_>| value.kind() == Kind::Object;
        match entry.root().get("frame") {
            Some(batch) if batch.kind() == Kind::Array => batch.items().filter(is_message).for_each(add),
            Some(frame) if is_message(&frame) => add(frame),
            _ => {}
        }
    }
    if entries.is_empty() {
        return Err(format!("{}: the recording has no frames", path.display()).into());
    }
    Ok(entries)
}

/// Returns the method of a request or a notification.
pub(crate) fn method(frame: Value<'_>) -> Option<&str> {
    frame.get("method").and_then(Value::as_str)
}

/// Returns the id of a request or a response.
pub(crate) fn id(frame: Value<'_>) -> Option<&str> {
    frame.get("id").map(Value::raw)
}

/// Returns what two requests must share to be equal: method and parameters, without those that
/// [`IGNORED`] names. The order of members does not count.
pub(crate) fn key(frame: Value<'_>) -> String {
    let method = method(frame).unwrap_or_default();
    let mut w = Writer::new();
    match frame.get("params") {
        Some(params) => canonical(&mut w, params, &IGNORED),
        None => _ = w.begin_object().end_object(),
    }
    format!("{method} {}", w.as_str())
}

/// Returns the frame with some strings replaced, for tokens that each run of a server creates.
pub(crate) fn substituted(frame: Value<'_>, tokens: &HashMap<String, String>) -> Json {
    let mut w = Writer::new();
    for step in Walk::new(frame) {
        let token = match &step {
            Step::Scalar(value) => value.as_str().and_then(|text| tokens.get(text)),
            _ => None,
        };
        match token {
            Some(token) => _ = w.string(token),
            None => step.write(&mut w),
        }
    }
    w.into_json()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn key_of(text: &str) -> String {
        key(Doc::parse(text).unwrap().root())
    }

    #[test]
    fn ids_metadata_and_order_do_not_count() {
        let one = r#"{"id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1,"y":"\u0041"},"_meta":{"progressToken":1}}}"#;
        let two = r#"{"id":"z","method":"tools/call","params":{"arguments":{"y":"A","x":1},"name":"a"}}"#;
        assert_eq!(key_of(one), key_of(two));
        assert_ne!(key_of(one), key_of(&two.replace(":1", ":2")));
        assert_eq!(
            key_of(r#"{"method":"m","params":{"clientInfo":{"name":"a"}}}"#),
            key_of(r#"{"method":"m"}"#)
        );
    }

    #[test]
    fn strings_that_are_tokens_are_replaced() {
        let doc = Doc::parse(r#"{"a":["old","older"],"old":1}"#).unwrap();
        let tokens = HashMap::from([("old".to_owned(), "new".to_owned())]);
        assert_eq!(substituted(doc.root(), &tokens).as_str(), r#"{"a":["new","older"],"old":1}"#);
    }
}
