//! Standard error of the program, without waiting for its reader.
//!
//! Hosts often start a program with a pipe as its standard error and never read it. Once the pipe
//! is full, `eprintln!` blocks for ever, and with it all threads that wait for its caller.
//! [`write()`] queues its text for another thread instead, and never blocks. The library writes its
//! reports and the lines of child processes in this way; programs can write theirs.
//!
//! # Limits
//! At most 64 KiB wait for the reader. Later texts are dropped until the queue is empty again; then
//! one line reports the number of dropped lines.
//!
//! # End of the program
//! [`flush`] waits for the reader, 1 s at most. Call it before the program ends, because the queue
//! ends with the program.
//!
//! # Threads
//! The thread `mcp-stderr` starts with a text and ends when the queue is empty. Nothing joins it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::{lock, wait_for};

/// Most bytes in the queue: the capacity of a Linux pipe. A longer text is accepted if it is the
/// only one.
const QUEUE: usize = 64 << 10;
/// Longest wait of [`flush`]. A reader that is only slow reads a line much sooner.
const FLUSH: Duration = Duration::from_secs(1);
/// Stack of the thread, which only copies bytes.
const STACK: usize = 64 << 10;

// OK to drop: a closed standard error cannot be reported.
static STDERR: LazyLock<Queue> = LazyLock::new(|| Queue::new(|text| drop(io::stderr().write_all(text))));

/// Queues text for standard error. Never blocks. The text should be whole lines with line ends, so
/// that lines of several threads do not mix.
pub fn write(text: impl Into<Vec<u8>>) {
    STDERR.push(text.into());
}

/// Waits until the queued text is written, 1 s at most, and only once for a reader that has stopped
/// reading.
pub fn flush() {
    STDERR.flush(FLUSH);
}

/// Texts for a function that may block.
struct Queue {
    write: fn(&[u8]),
    state: Mutex<State>,
    written: Condvar,
}

#[derive(Default)]
struct State {
    texts: VecDeque<Vec<u8>>,
    /// Bytes of `texts` and of the text that is being written.
    bytes: usize,
    /// Lines dropped after the last of `texts`.
    dropped: usize,
    /// The thread runs, and takes every text before it ends.
    writing: bool,
    /// A flush ran out of time, and nothing has been written since.
    stalled: bool,
}

impl Queue {
    fn new(write: fn(&[u8])) -> Queue {
        Queue { write, state: Mutex::default(), written: Condvar::new() }
    }

    fn push(&'static self, text: Vec<u8>) {
        let mut state = lock(&self.state);
        // Nothing is accepted before the report of dropped lines, so that it is at their place.
        if state.dropped > 0 || (state.bytes > 0 && state.bytes + text.len() > QUEUE) {
            state.dropped += text.iter().filter(|byte| **byte == b'\n').count().max(1);
            return;
        }
        state.bytes += text.len();
        state.texts.push_back(text);
        drop(state);
        self.start();
    }

    /// Starts the thread if texts wait for one. If the system has no room for it, they stay queued
    /// for the next call.
    fn start(&'static self) {
        let mut state = lock(&self.state);
        if state.texts.is_empty() || std::mem::replace(&mut state.writing, true) {
            return;
        }
        drop(state);
        let thread = thread::Builder::new().name("mcp-stderr".to_owned()).stack_size(STACK);
        if thread.spawn(|| self.run()).is_err() {
            lock(&self.state).writing = false;
            self.written.notify_all();
        }
    }

    /// Writes until the queue is empty.
    fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            let text = match state.texts.pop_front() {
                Some(text) => text,
                None if state.dropped > 0 => {
                    let dropped = std::mem::take(&mut state.dropped);
                    let text = format!("tinymcp: standard error was not read: {dropped} lines dropped\n");
                    state.bytes += text.len();
                    text.into_bytes()
                }
                None => break,
            };
            drop(state);
            (self.write)(&text);
            state = lock(&self.state);
            state.bytes -= text.len();
            state.stalled = false;
        }
        state.writing = false;
        drop(state);
        self.written.notify_all();
    }

    fn flush(&'static self, most: Duration) {
        self.start();
        let deadline = Instant::now() + most;
        let mut state = lock(&self.state);
        while state.writing && !state.stalled {
            let left = deadline.saturating_duration_since(Instant::now());
            state.stalled = left.is_zero();
            state = wait_for(&self.written, state, left);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::sync::mpsc::{self, Receiver, SyncSender};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// A reader that takes a text when the test receives it.
    struct Reader {
        sender: SyncSender<Vec<u8>>,
        texts: Mutex<Receiver<Vec<u8>>>,
    }

    impl Reader {
        fn new() -> Reader {
            let (sender, texts) = mpsc::sync_channel(0);
            Reader { sender, texts: Mutex::new(texts) }
        }

        fn take(&self, text: &[u8]) {
            self.sender.send(text.to_vec()).unwrap();
        }

        fn read(&self) -> String {
            String::from_utf8(lock(&self.texts).recv_timeout(SOON).expect("a text")).unwrap()
        }
    }

    #[test]
    fn a_full_queue_drops_lines_and_reports_their_number() {
        static READER: LazyLock<Reader> = LazyLock::new(Reader::new);
        static QUEUED: LazyLock<Queue> = LazyLock::new(|| Queue::new(|text| READER.take(text)));
        QUEUED.push(b"first\n".to_vec());
        QUEUED.push(vec![b'.'; QUEUE - 6]);
        QUEUED.push(b"a\nb\n".to_vec());
        QUEUED.push(b"c".to_vec());
        assert_eq!(READER.read(), "first\n");
        // There is room, but this line would be before the report.
        QUEUED.push(b"d\n".to_vec());
        assert_eq!(READER.read().len(), QUEUE - 6);
        assert_eq!(READER.read(), "tinymcp: standard error was not read: 4 lines dropped\n");
        QUEUED.flush(SOON);
        QUEUED.push(b"e\n".to_vec());
        assert_eq!(READER.read(), "e\n");
    }

    #[test]
    fn a_text_beyond_the_limit_is_accepted_alone() {
        static READER: LazyLock<Reader> = LazyLock::new(Reader::new);
        static QUEUED: LazyLock<Queue> = LazyLock::new(|| Queue::new(|text| READER.take(text)));
        QUEUED.push(vec![b'.'; 2 * QUEUE]);
        assert_eq!(READER.read().len(), 2 * QUEUE);
    }

    #[test]
    fn a_flush_waits_for_the_text_but_only_once_for_a_reader_that_stopped() {
        static READER: LazyLock<Reader> = LazyLock::new(Reader::new);
        static QUEUED: LazyLock<Queue> = LazyLock::new(|| Queue::new(|text| READER.take(text)));
        QUEUED.push(b"first\n".to_vec());
        QUEUED.flush(Duration::from_millis(1));
        assert!(lock(&QUEUED.state).writing);
        // Longer than the test may take.
        QUEUED.flush(Duration::from_secs(3600));
        assert_eq!(READER.read(), "first\n");
        // A wake-up that is lost would hold the test for an hour.
        while lock(&QUEUED.state).stalled {
            thread::yield_now();
        }
        QUEUED.flush(Duration::from_secs(3600));
        assert!(!lock(&QUEUED.state).writing);
    }
}
