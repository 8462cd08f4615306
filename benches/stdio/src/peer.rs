//! A server process and the pipes to it.
//!
//! # Invariants
//! - Every process has a deadline. After it the process is killed through its process descriptor,
//!   so a read always returns.
//! - A dropped `Peer` leaves no process running.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::Result;
use crate::wire::Script;

const BUFFER: usize = 256 * 1024;
const LONGEST_ANSWER: usize = 16 * 1024 * 1024;

/// The next process to kill, and its deadline.
type Armed = Option<(Instant, OwnedFd)>;

/// Kills the current process at its deadline.
pub struct Watch {
    armed: Arc<(Mutex<Armed>, Condvar)>,
}

impl Watch {
    /// Starts the thread, which sleeps until a deadline.
    pub fn start() -> Result<Self> {
        let armed: Arc<(Mutex<Armed>, Condvar)> = Arc::default();
        let shared = Arc::clone(&armed);
        std::thread::Builder::new()
            .name("watch".into())
            .stack_size(64 * 1024)
            .spawn(move || watch(&shared))?;
        Ok(Self { armed })
    }

    /// Kills `child` after `limit`; replaces the process watched before.
    ///
    /// # Errors
    /// Returns an error if the kernel returns no process descriptor.
    pub fn arm(&self, child: &Child, limit: Duration) -> Result<()> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let process = pidfd_open(pid.ok_or("no process number")?, PidfdFlags::empty())?;
        self.set(Some((Instant::now() + limit, process)));
        Ok(())
    }

    /// Stops watching.
    pub fn disarm(&self) {
        self.set(None);
    }

    fn set(&self, armed: Armed) {
        let (slot, changed) = &*self.armed;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = armed;
        changed.notify_one();
    }
}

fn watch(shared: &(Mutex<Armed>, Condvar)) {
    let (slot, changed) = shared;
    let mut armed = slot.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let left = armed.as_ref().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        armed = match left {
            None => changed.wait(armed).unwrap_or_else(PoisonError::into_inner),
            Some(Duration::ZERO) => {
                if let Some((_, process)) = armed.take() {
                    // Fails only if the process has already ended.
                    let _ = pidfd_send_signal(process, Signal::KILL);
                }
                armed
            }
            Some(left) => changed.wait_timeout(armed, left).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

/// A running server.
pub struct Peer<'w> {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    watch: &'w Watch,
    buffer: Vec<u8>,
    filled: usize,
    /// Reused for every line sent.
    pub outgoing: Vec<u8>,
    next_id: u64,
}

impl<'w> Peer<'w> {
    /// Starts `command`; it is killed after `limit`.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn spawn(command: &[String], limit: Duration, watch: &'w Watch) -> Result<Self> {
        let (program, args) = command.split_first().ok_or("an empty command")?;
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        watch.arm(&child, limit)?;
        Ok(Self {
            child,
            stdin: Some(stdin),
            stdout,
            watch,
            buffer: vec![0; BUFFER],
            filled: 0,
            outgoing: Vec::new(),
            next_id: 0,
        })
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next request id. Ids start at 1 and never repeat.
    pub fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Opens the connection and waits for the first response.
    ///
    /// # Errors
    /// Returns an error if the server ends or responds with an error.
    pub fn open(&mut self, script: &Script) -> Result<()> {
        let id = self.take_id();
        self.outgoing.clear();
        script.push_open(&mut self.outgoing, id);
        self.flush()?;
        let answer = self.read_line()?;
        if memchr::memmem::find(answer, b"\"result\"").is_none() {
            return Err(format!("refused: {}", String::from_utf8_lossy(answer)).into());
        }
        script.push_opened(&mut self.outgoing);
        self.flush()
    }

    /// Makes one call and checks the text of the response.
    ///
    /// # Errors
    /// Returns an error if the server ends or the response has another text.
    pub fn checked_call(&mut self, script: &Script) -> Result<()> {
        let id = self.take_id();
        script.push_call(&mut self.outgoing, id);
        self.flush()?;
        let answer = self.read_line()?;
        let wanted = format!("\"text\":\"{}\"", script.text());
        if crate::wire::id_of(answer) != Some(id) || memchr::memmem::find(answer, wanted.as_bytes()).is_none()
        {
            let shown = &answer[..answer.len().min(300)];
            return Err(format!("not an echo: {}", String::from_utf8_lossy(shown)).into());
        }
        Ok(())
    }

    /// Writes the buffer `outgoing` and clears it.
    ///
    /// # Errors
    /// Returns an error if the server closed its input.
    pub fn flush(&mut self) -> Result<()> {
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(&self.outgoing)?;
        }
        self.outgoing.clear();
        Ok(())
    }

    /// Reads until the pipe ends with a line end, for one call in flight. Returns the line without
    /// its end.
    ///
    /// # Errors
    /// Returns an error if the server ends, was killed, or sends more than 16 MiB.
    pub fn read_line(&mut self) -> Result<&[u8]> {
        let mut filled = 0;
        loop {
            filled += self.read_at(filled)?;
            if self.buffer[filled - 1] == b'\n' {
                return Ok(&self.buffer[..filled - 1]);
            }
        }
    }

    /// Reads the available bytes and calls `each` with each complete line. An incomplete line waits
    /// for the next call.
    ///
    /// # Errors
    /// Returns an error if the server ends, was killed, sends a line beyond 16 MiB, or `each`
    /// rejects a line.
    pub fn read_lines(&mut self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let old = self.filled;
        self.filled += self.read_at(old)?;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &self.buffer[old..self.filled]) {
            each(&self.buffer[start..old + end])?;
            start = old + end + 1;
        }
        self.buffer.copy_within(start..self.filled, 0);
        self.filled -= start;
        Ok(())
    }

    fn read_at(&mut self, filled: usize) -> Result<usize> {
        if filled == self.buffer.len() {
            if filled >= LONGEST_ANSWER {
                return Err("an answer without end".into());
            }
            self.buffer.resize(filled * 2, 0);
        }
        match self.stdout.read(&mut self.buffer[filled..])? {
            0 => Err("the server ended or was killed at its deadline".into()),
            got => Ok(got),
        }
    }

    /// Closes the server's input and waits until it has ended.
    ///
    /// # Errors
    /// Returns an error if it was killed or exited with a failure.
    pub fn finish(mut self) -> Result<()> {
        self.stdin = None;
        let status = self.child.wait()?;
        self.watch.disarm();
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        self.stdin = None;
        // Both have no effect after `finish`.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.watch.disarm();
    }
}
