//! Recordings of connections: the file format, and what is compared.
//!
//! A recording has one JSON object for each frame: `t`, milliseconds since the start; `dir`, `c2s`
//! (client to server), `s2c`, or `err` for a line of the server's standard error; `frame`, the
//! message, or `text` if it is not JSON. Credentials are masked.

pub(crate) mod record;
pub(crate) mod replay;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use tinymcp::json::{Doc, Json, Kind, Value, Writer};
use tinymcp::stderr;

use super::failure::Result;
use super::{json_error, read};
use crate::mask::Mask;
use crate::serve::lock;

/// Parameters that do not count: metadata, and what clients say of themselves.
const IGNORED: [&str; 4] = ["_meta", "protocolVersion", "capabilities", "clientInfo"];
/// Access of the file: its owner only.
const MODE: u32 = 0o600;

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
    /// `None` after a failure, which was reported.
    file: Mutex<Option<File>>,
}

impl Recorder {
    /// Creates the file, or replaces it.
    pub(crate) fn create(path: &Path, mask: Mask) -> Result<Recorder> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path);
        let file = file.map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Recorder { began: Instant::now(), mask, file: Mutex::new(Some(file)) })
    }

    /// Writes one line of a connection. Without space on the disk the connection goes on.
    pub(crate) fn write(&self, direction: Direction, line: &[u8]) {
        let line = line.trim_ascii_end();
        let name = NAMES.iter().find(|(_, known)| *known == direction).map_or("", |(name, _)| name);
        let mut w = Writer::new();
        w.begin_object();
        w.key("t").u64(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        w.key("dir").string(name);
        match self.mask.frame(line, usize::MAX) {
            Ok((frame, _)) if direction != Direction::Diagnostics => w.key("frame").raw(&frame),
            _ => w.key("text").string(&self.mask.text(&String::from_utf8_lossy(line))),
        };
        w.end_object().newline();
        let mut file = lock(&self.file);
        if let Some(Err(error)) = file.as_mut().map(|file| file.write_all(w.as_bytes())) {
            stderr::write(format!("tinymcp: the recording ends here: {error}\n"));
            *file = None;
        }
    }
}

/// Reads a recording: the frames with their directions. Lines that are not JSON are left out.
pub(crate) fn load(path: &Path) -> Result<Vec<(Direction, Doc)>> {
    let text = read(path)?;
    let mut frames = Vec::new();
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
        match entry.root().get("frame") {
            Some(frame) if frame.kind() == Kind::Object => {
                frames.push((*direction, frame.to_json().to_doc()))
            }
            Some(_) => return Err(wrong("the frame is not a JSON object").into()),
            None => {}
        }
    }
    if frames.is_empty() {
        return Err(format!("{}: the recording has no frames", path.display()).into());
    }
    Ok(frames)
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
        Some(params) => sorted(&mut w, params, true),
        None => _ = w.begin_object().end_object(),
    }
    format!("{method} {}", w.as_str())
}

/// Writes a value with sorted members. Recurses as deep as the parser permits.
fn sorted(w: &mut Writer, value: Value<'_>, is_root: bool) {
    match value.kind() {
        Kind::Object => {
            let mut members: Vec<(&str, Value<'_>)> =
                value.members().filter(|(name, _)| !is_root || !IGNORED.contains(name)).collect();
            members.sort_by_key(|(name, _)| *name);
            w.begin_object();
            for (name, member) in members {
                w.key(name);
                sorted(w, member, false);
            }
            w.end_object();
        }
        Kind::Array => {
            w.begin_array();
            value.items().for_each(|item| sorted(w, item, false));
            w.end_array();
        }
        Kind::String => {
            w.string(value.as_str().unwrap_or_default());
        }
        _ => {
            w.value(value);
        }
    }
}

/// Returns the frame with other strings, for tokens that each run of a server makes anew.
pub(crate) fn substituted(frame: Value<'_>, tokens: &HashMap<String, String>) -> Json {
    let mut w = Writer::new();
    substitute(&mut w, frame, tokens);
    w.into_json()
}

fn substitute(w: &mut Writer, value: Value<'_>, tokens: &HashMap<String, String>) {
    match value.kind() {
        Kind::Object => {
            w.begin_object();
            for (name, member) in value.members() {
                w.key(name);
                substitute(w, member, tokens);
            }
            w.end_object();
        }
        Kind::Array => {
            w.begin_array();
            value.items().for_each(|item| substitute(w, item, tokens));
            w.end_array();
        }
        Kind::String => {
            let text = value.as_str().unwrap_or_default();
            w.string(tokens.get(text).map_or(text, String::as_str));
        }
        _ => {
            w.value(value);
        }
    }
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
