//! Newline-delimited frames over byte streams.
//!
//! [`LineReader`] splits the bytes of a stream into lines. Of a line beyond the limit it keeps only
//! the beginning and the end. [`LineSink`] combines the writes of concurrent senders: while one
//! thread writes, the others append their frames to a buffer and return.
//!
//! Source: MCP basic/transports/stdio (one message per line, no embedded newline); blank lines
//! and `\r\n` are accepted.
//!
//! # Invariants
//! - `buf[start..end]` was read and not yet returned. `searched` is never before `start`, so no
//!   byte is searched twice.
//! - The lock of the sink is never held across a write: the writing thread takes the stream out of
//!   the state.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use memchr::memchr;

use super::{FrameSink, FrameSource, Input, ReplySink};
use crate::sync::{Condition, lock};

/// Bytes per read: the capacity of a Linux pipe.
const CHUNK: usize = 64 << 10;
/// Bytes of the first read: one page, because `resize` writes to all of it. Most calls have a few
/// hundred bytes.
const FIRST: usize = 4 << 10;
/// Some programs write a byte order mark before a line. JSON must not begin with one (RFC 8259
/// §8.1), so the reader drops it.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// A line longer than this is passed with its buffer instead of copied, to save memory.
pub(super) const LARGE: usize = 4 * CHUNK;
/// Number of last bytes that are stored of a line beyond the limit: enough for an id and a few
/// short members.
const TAIL: usize = 512;
/// Bytes of a line that do not count against the limit: byte order mark and carriage return.
const UNCOUNTED: usize = BYTE_ORDER_MARK.len() + 1;

/// Reader that splits a byte stream into lines.
pub(crate) struct LineReader<R> {
    read: R,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    searched: usize,
    /// Position of the first line end after `start`, if [`LineReader::ready`] has found it.
    found: Cell<Option<usize>>,
    limit: usize,
    /// The reader is inside a line beyond the limit and drops its bytes up to the newline.
    skipping: bool,
    /// First bytes of a line beyond the limit, up to the limit, and its last bytes.
    head: Vec<u8>,
    tail: Vec<u8>,
    /// A large line while the receiver uses it. Afterwards the buffer that the receiver has put in
    /// its place, which the next read uses.
    large: Vec<u8>,
    /// All lines since the buffer was last empty were at most [`CHUNK`] long.
    small: bool,
}

impl<R: Read> LineReader<R> {
    /// Creates a reader of lines of at most `limit` bytes.
    pub(crate) fn new(read: R, limit: usize) -> LineReader<R> {
        LineReader {
            read,
            buf: Vec::new(),
            start: 0,
            end: 0,
            searched: 0,
            found: Cell::new(None),
            limit,
            skipping: false,
            head: Vec::new(),
            tail: Vec::new(),
            small: true,
            large: Vec::new(),
        }
    }

    /// Returns the stream. Callers must not read from it.
    #[cfg(all(feature = "client", unix))]
    pub(in crate::transport) fn stream(&mut self) -> &mut R {
        &mut self.read
    }

    /// Takes the next whole line of the buffer, as a range without its newline.
    fn line(&mut self) -> Option<(usize, usize)> {
        let start = self.start;
        let stop = match self.found.take() {
            Some(stop) => stop,
            None => {
                let from = self.searched.max(start);
                let Some(at) = memchr(b'\n', self.buf.get(from..self.end)?) else {
                    self.searched = self.end;
                    return None;
                };
                from + at
            }
        };
        self.start = stop + 1;
        self.searched = self.start;
        Some((start, stop))
    }

    /// Reads once; `Ok(0)` is the end of input.
    fn fill(&mut self) -> std::io::Result<usize> {
        if self.large.capacity() > 0 {
            self.adopt_returned_buffer();
        }
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            self.searched = 0;
            // Frees a large buffer only after small lines. In a series of large messages, freeing
            // and allocating it again would cost more than parsing.
            if self.small && self.buf.capacity() > LARGE {
                self.buf = Vec::new();
            }
            self.small = true;
        }
        // The buffer needs at least one byte: a read into an empty one returns 0, as at the end of
        // the input.
        let least = (CHUNK.min(self.buf.len()) / 2).max(1);
        if self.buf.is_empty() {
            self.buf.resize(FIRST, 0);
        } else if self.buf.len() - self.end < least {
            if self.start > 0 {
                self.buf.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.searched -= self.start;
                self.start = 0;
            }
            if self.buf.len() - self.end < least {
                // Grow by 25 % only: `resize` writes zeros, so spare bytes take resident memory.
                // `reserve_exact`: the allocator retains up to twice the largest freed block.
                let grown = (self.buf.len() / 4 * 5).max(CHUNK).min(self.limit + CHUNK);
                let grown = grown.max(self.end + CHUNK / 2);
                self.buf.reserve_exact(grown - self.buf.len());
                self.buf.resize(grown, 0);
            }
        }
        loop {
            let Some(room) = self.buf.get_mut(self.end..) else { return Ok(0) };
            match self.read.read(room) {
                Ok(n) => {
                    self.end += n;
                    if self.end == self.buf.len() && self.end < CHUNK {
                        // More bytes may be available: the next read can take a whole pipe.
                        self.buf.resize(CHUNK, 0);
                    }
                    return Ok(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads until a line is complete, and returns it as a range of the buffer.
    fn next_line(&mut self) -> Line {
        loop {
            while let Some((start, stop)) = self.line() {
                if let Some(line) = self.checked(start, stop) {
                    return line;
                }
            }
            if self.end - self.start > self.limit + UNCOUNTED || self.skipping {
                self.skip();
            }
            match self.fill() {
                Ok(0) => return self.last_line(),
                Ok(_) => {}
                Err(error) => return Line::Failed(error),
            }
        }
    }

    /// Drops the bytes that were read of a line beyond the limit, except its beginning and its end.
    fn skip(&mut self) {
        let (start, end) = (self.start, self.end);
        self.start = end;
        self.keep_tail(start, end);
        if !std::mem::replace(&mut self.skipping, true) {
            self.keep_head(start, end);
        }
    }

    /// Keeps the beginning of a line beyond the limit, in its buffer instead of a copy, to save
    /// memory.
    fn keep_head(&mut self, start: usize, stop: usize) {
        self.take_with_buffer(start, stop);
        self.head = std::mem::take(&mut self.large);
        self.head.truncate(self.limit);
    }

    /// Keeps the last bytes of a line beyond the limit.
    fn keep_tail(&mut self, start: usize, stop: usize) {
        let part = self.buf.get(start..stop).unwrap_or_default();
        self.tail.extend_from_slice(part.get(part.len().saturating_sub(TAIL)..).unwrap_or_default());
        self.tail.drain(..self.tail.len().saturating_sub(TAIL));
    }

    /// Moves a line to `large` with its buffer, and copies the bytes after it to a new buffer.
    fn take_with_buffer(&mut self, start: usize, stop: usize) -> &mut Vec<u8> {
        let rest = self.buf.get(self.start..self.end).unwrap_or_default().to_vec();
        (self.start, self.end, self.searched) = (0, rest.len(), 0);
        self.large = std::mem::replace(&mut self.buf, rest);
        self.large.truncate(stop);
        self.large.drain(..start);
        &mut self.large
    }

    /// Continues in the buffer that the receiver of a large line has returned, to reuse its memory.
    fn adopt_returned_buffer(&mut self) {
        let mut next = std::mem::take(&mut self.large);
        next.clear();
        next.extend_from_slice(self.buf.get(self.start..self.end).unwrap_or_default());
        (self.start, self.end, self.searched) = (0, next.len(), 0);
        self.buf = next;
    }

    /// Returns the last line, which may have no newline: `printf '…' | server`.
    fn last_line(&mut self) -> Line {
        let (start, stop) = (self.start, self.end);
        self.start = self.end;
        self.searched = self.end;
        self.checked(start, stop).unwrap_or(Line::End)
    }

    /// Checks a line; `None` if it is blank.
    fn checked(&mut self, mut start: usize, mut stop: usize) -> Option<Line> {
        if std::mem::take(&mut self.skipping) {
            self.keep_tail(start, stop);
            return Some(Line::TooLong);
        }
        let line = self.buf.get(start..stop)?;
        if line.starts_with(BYTE_ORDER_MARK) {
            start += BYTE_ORDER_MARK.len();
        }
        if stop > start && line.ends_with(b"\r") {
            stop -= 1;
        }
        if stop - start > self.limit {
            self.keep_tail(start, stop);
            self.keep_head(start, stop);
            return Some(Line::TooLong);
        }
        self.small &= stop - start <= CHUNK;
        (!is_blank(self.buf.get(start..stop)?)).then_some(Line::At(start, stop))
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
}

enum Line {
    At(usize, usize),
    TooLong,
    End,
    Failed(std::io::Error),
}

impl<R: Read + Send> FrameSource for LineReader<R> {
    fn next(&mut self) -> Input<'_> {
        if self.head.capacity() > 0 && !self.skipping {
            (self.head, self.tail) = (Vec::new(), Vec::new());
        }
        match self.next_line() {
            Line::At(start, stop) if stop - start > LARGE => Input::Large(self.take_with_buffer(start, stop)),
            Line::At(start, stop) => Input::Frame(self.buf.get(start..stop).unwrap_or_default()),
            Line::TooLong => Input::TooLong { head: &self.head, tail: &self.tail },
            Line::End => Input::End,
            Line::Failed(error) => Input::Failed(error),
        }
    }

    fn ready(&self) -> bool {
        let mut from = self.start;
        while let Some(rest) = self.buf.get(from..self.end).filter(|rest| !rest.is_empty()) {
            let Some(at) = memchr(b'\n', rest) else { break };
            if from == self.start {
                self.found.set(Some(from + at));
            }
            // A blank line is not a frame: blocking after one would delay collected responses.
            if self.skipping || !is_blank(rest.get(..at).unwrap_or_default()) {
                return true;
            }
            from += at + 1;
        }
        false
    }
}

/// Sink that writes whole lines of any thread to one byte stream.
pub(crate) struct LineSink {
    state: Mutex<State>,
    /// Copy of `State::closed` that is read without the lock: the reader thread checks it before
    /// each frame.
    closed: AtomicBool,
    /// Notified after each write and when the sink is closed.
    drained: Condition,
    limit: usize,
}

struct State {
    /// `None` while a thread writes, and after the sink is closed.
    stream: Option<Box<dyn Write + Send>>,
    /// Frames that the writing thread will write next.
    pending: Vec<u8>,
    /// The second of two alternating buffers.
    spare: Vec<u8>,
    /// Total bytes of senders, and how many of them were written.
    accepted: u64,
    written: u64,
    /// The sink rejects frames and closes after `pending` is written.
    closing: bool,
    closed: bool,
    /// Error of a failed write, unless the peer has disconnected.
    failure: Option<std::io::Error>,
}

impl State {
    fn writing(&self) -> bool {
        self.stream.is_none() && !self.closed
    }
}

impl LineSink {
    /// Creates a sink. Senders block while about `limit` bytes are pending.
    pub(crate) fn new(stream: impl Write + Send + 'static, limit: usize) -> LineSink {
        LineSink {
            state: Mutex::new(State {
                stream: Some(Box::new(stream)),
                pending: Vec::new(),
                spare: Vec::new(),
                accepted: 0,
                written: 0,
                closing: false,
                closed: false,
                failure: None,
            }),
            closed: AtomicBool::new(false),
            drained: Condition::default(),
            limit,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Blocks until `done` returns true, no thread writes, or `until` has passed.
    fn wait_until(&self, until: Instant, done: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.writing() && !done(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.drained.wait_for(state, left);
        }
        state
    }
}

/// Guard that closes the sink if the stream panics, so that no sender waits for the panicked
/// writer. After a normal write it is forgotten and not dropped.
struct CloseOnPanic<'o>(&'o LineSink);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        self.0.closed.store(true, Ordering::Release);
        self.0.drained.release(state);
    }
}

impl ReplySink for LineSink {}

impl FrameSink for LineSink {
    fn send(&self, frames: &[u8]) {
        let mut state = self.state();
        if state.closing {
            return;
        }
        while state.writing() && state.pending.len() + frames.len() > self.limit.max(frames.len()) {
            state = self.drained.wait(state);
        }
        state.accepted += frames.len() as u64;
        let Some(mut stream) = state.stream.take() else {
            if !state.closed {
                state.pending.extend_from_slice(frames);
            }
            return;
        };
        drop(state);
        let guard = CloseOnPanic(self);
        let mut written = write(&mut *stream, frames);
        let mut state = self.state();
        state.written += frames.len() as u64;
        while written.is_ok() && !state.closed && !state.pending.is_empty() {
            let next = std::mem::take(&mut state.spare);
            let batch = std::mem::replace(&mut state.pending, next);
            self.drained.release(state);
            written = write(&mut *stream, &batch);
            state = self.state();
            state.written += batch.len() as u64;
            // Reuse the buffer unless it is large.
            if batch.capacity() <= LARGE {
                state.spare = batch;
                state.spare.clear();
            }
        }
        std::mem::forget(guard);
        let alive = written.is_ok();
        state.failure = written.err().filter(|error| !is_gone(error)).or(state.failure.take());
        if alive && !state.closed {
            state.stream = Some(stream);
        } else {
            state.closed = true;
            self.closed.store(true, Ordering::Release);
        }
        self.drained.release(state);
    }

    fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn failure(&self) -> Option<std::io::Error> {
        self.state().failure.take()
    }

    fn congested(&self) -> bool {
        let state = self.state();
        state.writing() && state.pending.len() > self.limit / 2
    }

    fn drain(&self, until: Instant) -> bool {
        // Later frames do not count: with a flood of notifications this would never end.
        let goal = self.state().accepted;
        let state = self.wait_until(until, |state| state.written >= goal);
        state.written >= goal || !state.writing()
    }

    fn close(&self, deadline: Instant) {
        self.state().closing = true;
        let mut state = self.wait_until(deadline, |_| false);
        if state.writing() {
            let unread = "the peer did not read all responses within the grace period";
            state.failure = Some(std::io::Error::new(ErrorKind::TimedOut, unread));
        }
        state.closed = true;
        self.closed.store(true, Ordering::Release);
        // Close the stream now, although other threads still hold this sink.
        let stream = state.stream.take();
        self.drained.release(state);
        drop(stream);
    }
}

fn write(stream: &mut dyn Write, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(bytes).and_then(|()| stream.flush())
}

/// Returns whether an I/O error only means that the peer has disconnected.
pub(crate) fn is_gone(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Stream whose writes take five milliseconds.
    struct Slow(Arc<Mutex<Vec<u8>>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            thread::sleep(Duration::from_millis(5));
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flood_of_frames_does_not_delay_closing() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = LineSink::new(Slow(Arc::clone(&written)), 1 << 10);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while !sink.closed() {
                        sink.send(b"flood\n");
                    }
                });
            }
            thread::sleep(Duration::from_millis(20));
            sink.send(b"last\n");
            let started = Instant::now();
            let deadline = started + Duration::from_secs(120);
            assert!(sink.drain(deadline));
            sink.close(deadline);
            assert!(started.elapsed() < Duration::from_secs(60));
        });
        assert!(sink.failure().is_none());
        let written = String::from_utf8(lock(&written).clone()).unwrap();
        assert!(written.ends_with('\n') && written.contains("last\n"), "whole frames only");
    }
}
