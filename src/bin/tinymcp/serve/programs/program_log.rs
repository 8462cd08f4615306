//! Standard error of programs, line by line on the standard error of the server.
//!
//! A program of one call is logged at its end, see [`write`]. For co-processes one thread reads the
//! standard error of all, also while they are idle, so that none of them blocks. It starts with the
//! first process and ends when the log is dropped.
//!
//! Invariant: a line has the name of its tool and no terminal control characters.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tinymcp::stderr;

use crate::escape::plain;
use crate::mutex::lock;
use crate::serve::run::spawn;

/// Longest line; a longer one is written in parts.
const LINE: usize = 8 << 10;
/// Stack of the thread.
const STACK: usize = 64 << 10;
/// Number of bytes of one read.
const CHUNK: usize = 4 << 10;

/// Writes the lines of a tool to standard error.
pub(crate) fn write(tool: &str, text: &[u8]) {
    let mut tagged = String::new();
    for line in text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        if !line.is_empty() {
            tagged.push_str(tool);
            tagged.push_str(": ");
            tagged.push_str(&plain(&String::from_utf8_lossy(line)));
            tagged.push('\n');
        }
    }
    if !tagged.is_empty() {
        stderr::write(tagged);
    }
}

/// Thread that reads standard error.
#[derive(Default)]
pub(crate) struct WorkerLog {
    /// Wakes the thread; `None` before it starts.
    wake: Mutex<Option<UnixStream>>,
    /// Pipes that the thread has not taken over yet.
    new: Arc<Mutex<Vec<Source>>>,
}

struct Source {
    tag: String,
    pipe: File,
    /// Called at the end of the pipe, which is usually the end of the process.
    ended: Box<dyn Fn() + Send>,
    /// The line that has not ended.
    line: Vec<u8>,
}

impl WorkerLog {
    /// Reads this pipe until its end, then calls `ended`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn add(&self, tag: &str, pipe: File, ended: Box<dyn Fn() + Send>) -> io::Result<()> {
        let mut wake = lock(&self.wake);
        lock(&self.new).push(Source { tag: tag.to_owned(), pipe, ended, line: Vec::new() });
        if let Some(wake) = &mut *wake {
            // A full socket wakes the thread anyway.
            let _ = wake.write(b"!");
            return Ok(());
        }
        let (write, read) = UnixStream::pair()?;
        write.set_nonblocking(true)?;
        let new = Arc::clone(&self.new);
        spawn("serve-log", STACK, Box::new(move || follow(read, &new)))?;
        *wake = Some(write);
        Ok(())
    }
}

/// Body of the thread. Ends when the other end of `wake` is closed.
fn follow(mut wake: UnixStream, new: &Mutex<Vec<Source>>) {
    let mut sources: Vec<Source> = Vec::new();
    loop {
        sources.append(&mut lock(new));
        let mut fds = vec![PollFd::new(&wake, PollFlags::IN)];
        fds.extend(sources.iter().map(|source| PollFd::new(&source.pipe, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut ready = ready.into_iter();
        if ready.next() == Some(true) && matches!(wake.read(&mut [0; 64]), Ok(0)) {
            return;
        }
        sources.retain_mut(|source| ready.next() != Some(true) || source.read());
    }
}

impl Source {
    /// Passes on the content of the pipe. Returns `false` at the end of the pipe.
    fn read(&mut self) -> bool {
        let mut chunk = [0; CHUNK];
        match self.pipe.read(&mut chunk) {
            Ok(0) => {
                self.write_lines(true);
                (self.ended)();
                false
            }
            Ok(count) => {
                self.line.extend_from_slice(chunk.get(..count).unwrap_or_default());
                self.write_lines(self.line.len() > LINE);
                true
            }
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    /// Writes the complete lines, or all of the text.
    fn write_lines(&mut self, everything: bool) {
        let whole = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let most = if everything { self.line.len() } else { whole };
        write(&self.tag, self.line.drain(..most).as_slice());
    }
}
