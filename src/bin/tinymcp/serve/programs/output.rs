//! Output of a program to a tool result.
//!
//! | `output` | result of exit status 0 |
//! |---|---|
//! | `text` | one text block; bytes that are not UTF-8 are replaced, and a note says so |
//! | `json` | structured content, and the same as text; other output is an error |
//! | `lines` | each line is a progress message; the lines after the last blank one are the result |
//! | `image/…`, `audio/…` | a block of this media type |
//! | other media types | an embedded resource with the bytes |
//!
//! Another exit status, a signal or a timeout is a result with `isError`: the status and the end of
//! standard error, or of standard output if there is no standard error.
//!
//! Text beyond `outputLimit` is cut at a character and counted in a separate block. JSON and
//! media are not cut: longer output is an error. With `"rest": "link"` the rest of a text, up to
//! [`REST`] bytes, can be read as a resource; the last [`RESTS`] of them are kept.
//!
//! The outputs of all calls share [`OUTPUT_BYTES`] beyond the default limit of each. A call
//! treats bytes that do not fit like output beyond its limit.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tinymcp::json::{Doc, Value};
use tinymcp::{Content, Resource, ResourceContents, ToolOutput};

use super::memory::{OUTPUT_BYTES, OUTPUTS, Reservation};
use super::process::{Caller, Finished};
use crate::mutex::lock;
use crate::serve::definition::Output;

/// Maximum number of bytes of a linked rest.
pub(crate) const REST: usize = 1 << 20;
/// Maximum number of linked rests of all tools.
pub(crate) const RESTS: usize = 16;
/// Maximum number of bytes of the start and of the end of a stream that an error shows.
const HEAD_BYTES: usize = 1 << 10;
const TAIL_BYTES: usize = 4 << 10;
/// Maximum number of bytes of invalid JSON that an error shows.
const SHOWN_BYTES: usize = 200;
/// Maximum number of bytes of a line in a progress message.
const MESSAGE: usize = 4 << 10;
/// Maximum number of progress messages of a call in one second. Further lines are only counted.
const MESSAGES: u32 = 1000;

/// The first and last bytes of a stream.
#[derive(Default)]
pub(crate) struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Number of bytes of the stream.
    total: u64,
}

impl Ends {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = HEAD_BYTES.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(bytes.get(..room).unwrap_or_default());
        let new = bytes.len().saturating_sub(TAIL_BYTES);
        self.tail.extend_from_slice(bytes.get(new..).unwrap_or_default());
        // Cut rarely: each cut moves the whole tail.
        if self.tail.len() > 4 * TAIL_BYTES {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
    }

    /// Returns the text without surrounding white space. A note replaces the part between the ends.
    pub(crate) fn text(mut self) -> String {
        self.shorten();
        let before_tail = usize::try_from(self.total - self.tail.len() as u64).unwrap_or(usize::MAX);
        let head = self.head.get(..before_tail.min(self.head.len())).unwrap_or_default();
        let mut text = head.to_vec();
        if before_tail > head.len() {
            text.truncate(whole_characters(&text));
            let start = self.tail.iter().take_while(|byte| **byte & 0xC0 == 0x80).count();
            let left_out = before_tail - text.len() + start;
            text.extend_from_slice(format!("\n[{left_out} bytes left out]\n").as_bytes());
            self.tail.drain(..start);
        }
        text.append(&mut self.tail);
        String::from_utf8_lossy(&text).trim().to_owned()
    }
}

/// Standard output while a program runs.
pub(crate) struct Capture {
    /// The beginning of the output, or of its last block of lines.
    bytes: Vec<u8>,
    /// Largest number of bytes to keep. If memory runs out, it falls to the number of bytes kept so
    /// far, so that the output has no gap.
    most: usize,
    /// Value of `most` while there is memory.
    limit: usize,
    reserved: Reservation,
    /// Bytes that were read and not kept.
    dropped: u64,
    /// Ends of the dropped bytes.
    rest: Ends,
    lines: Option<Lines>,
}

/// State of the mode `lines`.
struct Lines {
    /// The line that has not ended.
    line: Vec<u8>,
    /// Bytes of that line that were not kept.
    dropped: u64,
    /// It has a character other than white space.
    has_text: bool,
    count: u64,
    /// A blank line came after the last block.
    ended: bool,
    /// Start of the current second, and the messages since.
    since: Instant,
    sent: u32,
}

impl Capture {
    /// Creates a capture for this kind of output, of up to `most` bytes.
    pub(crate) fn new(output: &Output, most: usize) -> Capture {
        let lines = || Lines {
            line: Vec::new(),
            dropped: 0,
            has_text: false,
            count: 0,
            ended: false,
            since: Instant::now(),
            sent: 0,
        };
        let lines = (*output == Output::Lines).then(lines);
        let reserved = OUTPUTS.reservation();
        Capture { bytes: Vec::new(), most, limit: most, reserved, dropped: 0, rest: Ends::default(), lines }
    }

    /// Returns whether there was no memory for bytes below the limit.
    fn is_crowded(&self) -> bool {
        self.most < self.limit
    }

    /// Reserves memory for bytes of the block or of the line, which has `held` bytes. Returns the
    /// number that can be kept.
    fn room(&mut self, held: usize, bytes: &[u8]) -> usize {
        let wanted = self.most.saturating_sub(held).min(bytes.len());
        let line = self.lines.as_ref().map_or(0, |lines| lines.line.len());
        let room = self.reserved.grow(self.bytes.len() + line, wanted);
        if room < wanted {
            self.most = held + room;
        }
        room
    }

    pub(crate) fn push(&mut self, bytes: &[u8], caller: &mut dyn Caller) {
        if self.lines.is_none() {
            let room = self.room(self.bytes.len(), bytes);
            return self.keep(bytes, room);
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(lines) = &mut self.lines else { return };
            let held = lines.line.len();
            lines.has_text |= !piece.trim_ascii().is_empty();
            if lines.ended && lines.has_text {
                // The last block is not the result, so its memory is free.
                lines.ended = false;
                (self.bytes, self.dropped, self.most) = (Vec::new(), 0, self.limit);
                self.reserved.shrink(held);
            }
            let room = self.room(held, piece);
            let Some(lines) = &mut self.lines else { return };
            lines.line.extend_from_slice(piece.get(..room).unwrap_or_default());
            lines.dropped += (piece.len() - room) as u64;
            if piece.ends_with(b"\n") {
                self.end_line(caller);
            }
        }
    }

    /// Handles the end of the output.
    pub(crate) fn finish(&mut self, caller: &mut dyn Caller) {
        if self.lines.as_ref().is_some_and(|lines| !lines.line.is_empty() || lines.dropped > 0) {
            self.end_line(caller);
        }
    }

    /// Keeps this number of bytes and counts the others.
    fn keep(&mut self, bytes: &[u8], room: usize) {
        let (kept, dropped) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(kept);
        if !dropped.is_empty() {
            self.dropped += dropped.len() as u64;
            self.rest.push(dropped);
        }
    }

    fn end_line(&mut self, caller: &mut dyn Caller) {
        let Some(lines) = &mut self.lines else { return };
        let line = std::mem::take(&mut lines.line);
        let dropped = std::mem::take(&mut lines.dropped);
        if !std::mem::take(&mut lines.has_text) {
            lines.ended = true;
            self.reserved.shrink(self.bytes.len());
            return;
        }
        lines.count += 1;
        if lines.since.elapsed() >= Duration::from_secs(1) {
            (lines.since, lines.sent) = (Instant::now(), 0);
        }
        if lines.sent < MESSAGES {
            lines.sent += 1;
            let message = line.trim_ascii_end();
            let message = message.get(..boundary(message, MESSAGE)).unwrap_or_default();
            caller.progress(lines.count as f64, None, Some(&String::from_utf8_lossy(message)));
        }
        // The memory of the line is now that of the block.
        self.keep(&line, self.most.saturating_sub(self.bytes.len()));
        self.dropped += dropped;
        self.reserved.shrink(self.bytes.len());
    }

    /// Returns the start and the end of the output, for an error.
    fn ends(self) -> String {
        let mut ends = Ends::default();
        ends.push(&self.bytes);
        let room = HEAD_BYTES.saturating_sub(ends.head.len());
        ends.head.extend(self.rest.head.iter().take(room));
        if self.rest.tail.len() as u64 != self.dropped {
            ends.tail.clear();
        }
        ends.tail.extend(self.rest.tail);
        ends.total += self.dropped;
        ends.text()
    }
}

/// Returns the largest length up to `most` that does not split a character.
fn boundary(bytes: &[u8], most: usize) -> usize {
    if bytes.len() <= most {
        return bytes.len();
    }
    // A character has up to three continuation bytes. Other bytes are not UTF-8 and cut anywhere.
    let continues = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (most.saturating_sub(3)..=most).rev().find(|at| !continues(*at)).unwrap_or(most)
}

/// Returns the length without an incomplete character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let is_start = |byte: &u8| byte & 0xC0 != 0x80;
    let Some(back) = bytes.iter().rev().take(4).position(is_start) else { return bytes.len() };
    let start = bytes.len() - back - 1;
    let length = match bytes.get(start) {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF7) => 4,
        _ => 1,
    };
    if back + 1 < length { start } else { bytes.len() }
}

/// Rests of outputs that a client can read.
#[derive(Default)]
pub(crate) struct Rests {
    kept: Mutex<VecDeque<ResourceContents>>,
}

impl Rests {
    /// Returns the rest with this URI.
    pub(crate) fn read(&self, uri: &str) -> Option<ResourceContents> {
        lock(&self.kept).iter().find(|rest| rest.uri == uri).cloned()
    }

    /// Keeps a rest and drops the oldest one.
    fn keep(&self, uri: String, text: &str) {
        let mut kept = lock(&self.kept);
        if kept.len() >= RESTS {
            kept.pop_front();
        }
        kept.push_back(ResourceContents::text(uri, text).mime_type("text/plain"));
    }
}

/// Rules for the output of one tool.
pub(crate) struct Rules<'r> {
    pub(crate) tool: &'r str,
    pub(crate) output: &'r Output,
    pub(crate) limit: usize,
    /// Store for the rest of the output, if it is linked.
    pub(crate) rests: Option<&'r Rests>,
}

impl Rules<'_> {
    /// Returns a capture for [`Rules::result`].
    pub(crate) fn capture(&self) -> Capture {
        let rest = if self.rests.is_some() { REST } else { 0 };
        // One character may cross the limit.
        Capture::new(self.output, self.limit.saturating_add(rest).saturating_add(3))
    }

    /// Converts the output of a program that has ended.
    pub(crate) fn result(&self, finished: Finished) -> ToolOutput {
        let success = finished.succeeded();
        let Finished { status, timed_out, stdout, stderr } = finished;
        if !success {
            let mut text = match timed_out {
                Some(time) => format!("the program did not end within {} and was killed", seconds(time)),
                None => describe(status),
            };
            let errors = stderr.text();
            let output = if matches!(self.output, Output::Media(_)) { String::new() } else { stdout.ends() };
            match (output.is_empty(), errors.is_empty()) {
                (true, true) => {}
                (false, false) => {
                    text.push_str(&format!(":\nstandard output:\n{output}\nstandard error:\n{errors}"));
                }
                _ => text.push_str(&format!(":\n{output}{errors}")),
            }
            return ToolOutput::failed(text);
        }
        match self.output {
            Output::Text | Output::Lines => self.text(&stdout),
            Output::Json => self.whole(&stdout).map_or_else(ToolOutput::failed, json),
            Output::Media(media) => match self.whole(&stdout) {
                Ok([]) => ToolOutput::failed(format!("the program printed nothing; expected {media}")),
                Ok(bytes) => ToolOutput::from(self.media(bytes, media)),
                Err(message) => ToolOutput::failed(message),
            },
        }
    }

    fn text(&self, stdout: &Capture) -> ToolOutput {
        // Without memory for all, the last character may be incomplete.
        let kept = if stdout.dropped > 0 { whole_characters(&stdout.bytes) } else { stdout.bytes.len() };
        let kept_bytes = stdout.bytes.get(..kept).unwrap_or_default();
        let (shown, rest) = kept_bytes.split_at(boundary(kept_bytes, self.limit));
        let text = String::from_utf8_lossy(shown);
        let mut output = ToolOutput::text(text.as_ref());
        if matches!(text, std::borrow::Cow::Owned(_)) {
            output = output.content(Content::text("[bytes that are not UTF-8 were replaced]"));
        }
        let cut = (stdout.bytes.len() - shown.len()) as u64 + stdout.dropped;
        if cut == 0 {
            return output;
        }
        let reason = if stdout.is_crowded() { ", the memory for outputs is full" } else { "" };
        output = output.content(Content::text(format!("[cut: {cut} more bytes{reason}]")));
        let Some((rests, uri)) = self.rests.and_then(|rests| Some((rests, self.uri()?))) else {
            return output;
        };
        let kept = rest.get(..boundary(rest, REST)).unwrap_or_default();
        rests.keep(uri.clone(), &String::from_utf8_lossy(kept));
        let description = match cut - kept.len() as u64 {
            0 => format!("the {cut} bytes that were cut"),
            _ => format!("the first {} of {cut} bytes that were cut", kept.len()),
        };
        let link = Resource::new(uri, "rest of the output").description(description).mime_type("text/plain");
        output.content(Content::resource_link(link))
    }

    /// Returns the result of a co-process that is a text.
    pub(crate) fn given_text(&self, text: &str) -> ToolOutput {
        let mut capture = self.capture();
        capture.keep(text.as_bytes(), capture.limit);
        self.text(&capture)
    }

    /// Returns the result of a co-process that is another value.
    pub(crate) fn given_json(&self, value: Value<'_>) -> ToolOutput {
        let length = value.raw().len();
        match self.check_length(length as u64) {
            Ok(()) => ToolOutput::structured(value.to_json()),
            Err(message) => ToolOutput::failed(message),
        }
    }

    /// Returns the error of a co-process.
    pub(crate) fn failed(&self, text: &str) -> ToolOutput {
        let mut output = self.given_text(text);
        output.is_error = true;
        output
    }

    /// Returns output that must not be cut.
    fn whole<'c>(&self, stdout: &'c Capture) -> Result<&'c [u8], String> {
        self.check_length(stdout.bytes.len() as u64 + stdout.dropped)?;
        if stdout.is_crowded() {
            let length = stdout.bytes.len() as u64 + stdout.dropped;
            return Err(format!(
                "there is no memory for this output of {length} bytes: the outputs of all calls may have \
                 {OUTPUT_BYTES} bytes together; call again later"
            ));
        }
        Ok(&stdout.bytes)
    }

    fn check_length(&self, length: u64) -> Result<(), String> {
        if length <= self.limit as u64 {
            return Ok(());
        }
        let limit = self.limit;
        Err(format!("the output has {length} bytes, which is more than `outputLimit` ({limit}) allows"))
    }

    fn media(&self, bytes: &[u8], media: &str) -> Content {
        match media.split_once('/') {
            Some(("image", _)) => Content::image(bytes, media),
            Some(("audio", _)) => Content::audio(bytes, media),
            _ => {
                let uri = self.uri().unwrap_or_else(|| "output://".to_owned());
                Content::embedded(ResourceContents::bytes(uri, bytes).mime_type(media))
            }
        }
    }

    /// Returns a new URI that cannot be guessed; `None` if the system provides no random numbers.
    fn uri(&self) -> Option<String> {
        let number = getrandom::u64().ok()?;
        Some(format!("output://{}/{number}", self.tool.replace('/', "%2F")))
    }
}

fn json(bytes: &[u8]) -> ToolOutput {
    match Doc::parse(bytes) {
        Ok(doc) => ToolOutput::structured(doc.root().to_json()),
        Err(error) => {
            let shown = bytes.get(..boundary(bytes, SHOWN_BYTES)).unwrap_or_default();
            let more = if shown.len() < bytes.len() { "…" } else { "" };
            let shown = String::from_utf8_lossy(shown);
            let (kind, at) = (error.kind(), error.offset());
            ToolOutput::failed(format!("the output is not valid JSON: {kind} at byte {at}:\n{shown}{more}"))
        }
    }
}

/// Describes the exit of a program.
pub(crate) fn describe(status: Option<ExitStatus>) -> String {
    let Some(status) = status else { return "the program did not end after SIGKILL".to_owned() };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the program exited with status {code}"),
        (None, Some(signal)) => format!("the program was killed by signal {signal}"),
        (None, None) => "the program ended".to_owned(),
    }
}

/// Formats a time: `10 s`, `0.5 s`.
pub(crate) fn seconds(time: Duration) -> String {
    // Smaller than a floating-point number, whose formatter takes 20 kB.
    let text = format!("{}.{:06}", time.as_secs(), time.subsec_micros());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests;
