//! Child process as a server: pipes, stderr and shutdown.
//!
//! Starts a program in a process group of its own, reads and writes its pipes, keeps the end of its
//! stderr, and shuts it down step by step. The client decides whether to start it again.
//!
//! Source: MCP basic/transports/stdio (shutdown: close the input, then SIGTERM, then SIGKILL).
//!
//! # The end
//! The input is closed; [`Limits::child_exit`] later the group gets SIGTERM; after as long again
//! SIGKILL. The child is reaped only after the group was killed: until then nobody else can have
//! its number. What the group leaves behind when the child exited by itself is killed as well.
//!
//! A child that exited has said everything: what is in its output by then is read, and that is the
//! end, also when something that it started keeps the output open.
//!
//! # Environment
//! A child gets the variables of [`inherited`] and those that its `Command` sets. Other variables
//! of this process may hold secrets. `ClientBuilder::inherit_env` passes all of them on.
//!
//! # Threads
//! One, of `stream.rs`, or a caller in its place: it polls the output, the captured stderr, the
//! process itself, and the input while that is full.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
#[cfg(target_os = "linux")]
use rustix::process::PidfdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::sync::lock;

use super::child_settings::{ChildSettings, Stderr};
use super::child_stdin::StdinWriter;
use super::stream::{ProcessGuard, StreamTransport};
use super::{Connector, Transport};
use crate::transport::framing::LineReader;
use crate::transport::framing::{FrameSource, Input};

/// Time to wait for the exit status of a child that closed its output.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest pause between two looks at a child that is to exit.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes after which a line of stderr without an end is passed on.
const LONGEST_LINE: usize = 8 << 10;
/// Time for a killed child to exit; only the kernel can delay it.
const KILLED: Duration = Duration::from_secs(2);
/// Poll interval for the exit of the child, on systems without notification.
const UNTOLD: Duration = Duration::from_secs(1);

/// Variables of this process that a child gets, beside those that begin with `LC_`.
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR", "SHELL"];

/// Reports if a child gets this variable of this process by default.
fn inherited(name: &OsStr) -> bool {
    INHERITED.iter().any(|known| name == *known) || name.as_encoded_bytes().starts_with(b"LC_")
}

/// Starts the program, as often as it is asked to.
pub(crate) struct ChildConnector {
    command: Command,
    /// Variables that the command sets or removes itself. `None`: the child gets the whole
    /// environment.
    own: Option<HashSet<OsString>>,
    captured: bool,
    tag: Option<Arc<str>>,
    limits: Limits,
}

impl ChildConnector {
    pub(crate) fn new(mut command: Command, settings: ChildSettings, limits: Limits) -> ChildConnector {
        let ChildSettings { stderr, tag, inherit_env } = settings;
        let own = (!inherit_env).then(|| command.get_envs().map(|(name, _)| name.to_owned()).collect());
        let tag = tag.filter(|_| stderr == Stderr::Inherit);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        command.stderr(match stderr {
            Stderr::Inherit if tag.is_none() => Stdio::inherit(),
            Stderr::Inherit | Stderr::Piped => Stdio::piped(),
            Stderr::Null => Stdio::null(),
        });
        ChildConnector { command, own, captured: stderr == Stderr::Piped, tag, limits }
    }

    /// Removes the variables of this process that the child must not get. Runs before each start,
    /// because the environment may have changed.
    fn limit_environment(&mut self) {
        let Some(own) = &self.own else { return };
        for (name, _) in std::env::vars_os().filter(|(name, _)| !inherited(name) && !own.contains(name)) {
            // Removing the others keeps an `env_clear` of the caller, and the quick way of starting.
            self.command.env_remove(name);
        }
    }
}

impl Connector for ChildConnector {
    fn dial(&mut self) -> Result<Arc<dyn Transport>, Error> {
        // Sockets instead of a pipe: the standard library closes them on exec on every Unix.
        let (listen, bell) = UnixStream::pair()?;
        listen.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        self.limit_environment();
        // A program that is not there is an error here: the standard library reports it.
        let mut child = self.command.spawn().map_err(|error| {
            let program = self.command.get_program().to_string_lossy();
            Error::new(ErrorKind::Io, format!("the program {program:?} cannot be started")).with_source(error)
        })?;
        let input = child.stdin.take().map(OwnedFd::from);
        let output = child.stdout.take().map(OwnedFd::from);
        let errors = child.stderr.take().map(OwnedFd::from);
        let process = Arc::new(Process {
            child: Mutex::new(Running { child, exit: None }),
            tail: Mutex::default(),
            captured: self.captured,
            tag: self.tag.clone(),
            tail_bytes: self.limits.stderr_bytes,
        });
        let (Some(input), Some(output)) = (input, output) else {
            process.end(Duration::ZERO);
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        };
        // Flags belong to the pipe's end and not to the process: nobody else has these.
        for pipe in [Some(&input), Some(&output), errors.as_ref()].into_iter().flatten() {
            if let Err(error) = ioctl_fionbio(pipe, true) {
                process.end(Duration::ZERO);
                return Err(io::Error::from(error).into());
            }
        }
        let feed = Arc::new(StdinWriter::new(input, bell.into(), self.limits.backlog_bytes));
        let reads = ChildOutput {
            output: output.into(),
            errors: errors.map(File::from),
            listen: OwnedFd::from(listen).into(),
            exit: process.watched(),
            looked: Instant::now(),
            by: None,
            left: None,
            feed: Arc::clone(&feed),
            process: Arc::clone(&process),
        };
        let life = ChildGuard { process, feed: Arc::clone(&feed), exit: self.limits.child_exit };
        let inlet = Box::new(ChildInlet(LineReader::new(reads, self.limits.frame_bytes)));
        Ok(Arc::new(StreamTransport::new(inlet, feed, Arc::new(life))))
    }

    fn again(&self) -> bool {
        true
    }
}

/// The process and what it said on stderr.
struct Process {
    child: Mutex<Running>,
    tail: Mutex<Vec<u8>>,
    captured: bool,
    /// Stderr is not captured but passed on line by line, after this.
    tag: Option<Arc<str>>,
    tail_bytes: usize,
}

struct Running {
    child: Child,
    exit: Option<ExitStatus>,
}

impl Process {
    /// Waits until the process has exited, without reaping it.
    fn exited(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut pause = Duration::from_micros(200);
        loop {
            let running = lock(&self.child);
            let Some(pid) = pid(&running.child).filter(|_| running.exit.is_none()) else { return true };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match waitid(WaitId::Pid(pid), options) {
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                // No such child: somebody else reaped it.
                Ok(Some(_)) | Err(_) => return true,
            }
            drop(running);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(LOOK);
        }
    }

    /// Something to poll that is ready once the process has exited: Linux 5.3 and later.
    fn watched(&self) -> Option<OwnedFd> {
        #[cfg(target_os = "linux")]
        return rustix::process::pidfd_open(pid(&lock(&self.child).child)?, PidfdFlags::empty()).ok();
        #[cfg(not(target_os = "linux"))]
        None
    }

    fn signal(&self, signal: Signal) {
        let running = lock(&self.child);
        // Once it is reaped its number may be somebody else's.
        if let Some(pid) = pid(&running.child).filter(|_| running.exit.is_none()) {
            // OK to drop: what is gone needs no signal. A child that went to another group is still ours.
            let _ = kill_process_group(pid, signal).or_else(|_| kill_process(pid, signal));
        }
    }

    /// Reaps a process that has exited, after everything that is left of its group.
    fn reap(&self) -> Option<ExitStatus> {
        self.signal(Signal::KILL);
        let mut running = lock(&self.child);
        if running.exit.is_none() {
            running.exit = running.child.try_wait().ok().flatten();
        }
        running.exit
    }

    /// Ends the process if it does not end by itself, each step within `step`.
    fn end(&self, step: Duration) {
        if !self.exited(step) {
            self.signal(Signal::TERM);
            if !self.exited(step) {
                self.signal(Signal::KILL);
                self.exited(KILLED);
            }
        }
        self.reap();
    }

    fn said(&self) -> Option<String> {
        let tail = lock(&self.tail);
        self.captured.then(|| String::from_utf8_lossy(&tail).trim().to_owned())
    }

    fn keep(&self, said: &[u8]) {
        let mut tail = lock(&self.tail);
        tail.extend_from_slice(said);
        if self.tag.is_some() {
            let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            // A line that does not end is cut.
            let most = if tail.len() - whole > LONGEST_LINE { tail.len() } else { whole };
            let lines: Vec<u8> = tail.drain(..most).collect();
            drop(tail);
            return self.pass_on(&lines);
        }
        // Cut only now and then, or each line would move all of it.
        if tail.len() > self.tail_bytes.saturating_mul(2) {
            let cut = tail.len() - self.tail_bytes;
            tail.drain(..cut);
        }
    }
}

impl Process {
    /// Writes lines of the child's stderr to ours.
    fn pass_on(&self, lines: &[u8]) {
        let Some(tag) = &self.tag else { return };
        let mut tagged = Vec::with_capacity(lines.len() + 64);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            tagged.extend_from_slice(tag.as_bytes());
            tagged.extend_from_slice(b": ");
            tagged.extend_from_slice(line);
            tagged.push(b'\n');
        }
        // OK to drop: there is nowhere to report that stderr is closed.
        let _ = io::stderr().write_all(&tagged);
    }

    /// The child's stderr ended: what stands after the last line end is a line as well.
    fn errors_ended(&self) {
        if self.tag.is_some() {
            let rest = std::mem::take(&mut *lock(&self.tail));
            self.pass_on(&rest);
        }
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

struct ChildGuard {
    process: Arc<Process>,
    feed: Arc<StdinWriter>,
    exit: Duration,
}

impl ProcessGuard for ChildGuard {
    fn last_words(&self) -> String {
        self.feed.broken();
        if !self.process.exited(LAST_WORDS) {
            return "the server closed its output".to_owned();
        }
        match self.process.reap() {
            Some(exit) => match (exit.code(), exit.signal()) {
                (Some(code), _) => format!("the server exited with status {code}"),
                (None, Some(signal)) => format!("the server was ended by signal {signal}"),
                (None, None) => "the server exited".to_owned(),
            },
            None => "the server exited".to_owned(),
        }
    }

    fn aside(&self) -> Option<String> {
        self.process.said()
    }

    fn heard(&self) -> bool {
        self.feed.heard()
    }

    fn look(&self) {
        self.feed.ring();
    }

    fn end(&self) -> bool {
        self.process.end(self.exit);
        self.feed.hang_up();
        true
    }
}

/// Lines of a child, for which can be waited until a certain time.
struct ChildInlet(LineReader<ChildOutput>);

impl FrameSource for ChildInlet {
    fn next(&mut self) -> Input<'_> {
        self.0.stream().by = None;
        self.0.next()
    }

    fn next_by(&mut self, by: Instant) -> Option<Input<'_>> {
        self.0.stream().by = Some(by);
        match self.0.next() {
            Input::Failed(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            input => Some(input),
        }
    }

    fn patient(&self) -> bool {
        true
    }

    fn ready(&self) -> bool {
        self.0.ready()
    }
}

/// Reads the output of a child; also polls its stderr, its stdin and its exit.
struct ChildOutput {
    output: File,
    errors: Option<File>,
    /// The other end of the bell: rung when the input is left to this thread, closed at the end.
    listen: File,
    /// Ready when the child has exited, where the system has such a thing.
    exit: Option<OwnedFd>,
    /// When it was last looked whether it has, where it has not.
    looked: Instant,
    /// Until when this may wait; beyond that, and when the bell was rung, reading would block.
    by: Option<Instant>,
    /// What was in the output when the child had exited, as far as it is still there.
    left: Option<u64>,
    feed: Arc<StdinWriter>,
    process: Arc<Process>,
}

impl Read for ChildOutput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(left) = self.left {
                return self.drain(buf, left);
            }
            // Asked before reading: there may be something to read for ever, and nothing of it a message.
            let pause = self.by.map(|by| by.saturating_duration_since(Instant::now()));
            if pause.is_some_and(|pause| pause.is_zero()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let input = self.feed.adopted();
            let (output, bell, errors, takes, exited) = {
                // Without other descriptors the output is read directly.
                let none = self.output.as_fd();
                let errors = self.errors.as_ref().map(|file| (file.as_fd(), PollFlags::IN));
                let takes = input.as_deref().map(|file| (file.as_fd(), PollFlags::OUT));
                let exit = self.exit.as_ref().map(|exit| (exit.as_fd(), PollFlags::IN));
                let bell = Some((self.listen.as_fd(), PollFlags::IN));
                let watched = [Some((none, PollFlags::IN)), bell, errors, takes, exit];
                let mut fds = watched.map(|fd| {
                    let (fd, flags) = fd.unwrap_or((none, PollFlags::empty()));
                    PollFd::from_borrowed_fd(fd, flags)
                });
                let look = if exit.is_some() { None } else { Some(UNTOLD) };
                let pause = pause.into_iter().chain(look).min().map(|pause| Timespec {
                    tv_sec: i64::try_from(pause.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: i64::from(pause.subsec_nanos()),
                });
                match poll(&mut fds, pause.as_ref()) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                let ready = fds.map(|fd| !fd.revents().is_empty());
                let exited = match exit {
                    Some(_) => ready[4],
                    None => {
                        self.looked.elapsed() >= UNTOLD && {
                            self.looked = Instant::now();
                            self.process.exited(Duration::ZERO)
                        }
                    }
                };
                (ready[0], ready[1], ready[2] && errors.is_some(), ready[3] && takes.is_some(), exited)
            };
            if exited {
                // A system that does not tell has nothing there.
                self.left = Some(ioctl_fionread(&self.output).unwrap_or(0));
                continue;
            }
            if errors {
                self.listen_to_errors();
            }
            if takes {
                self.feed.carry_on();
            }
            if bell {
                let mut rung = [0; 64];
                match self.listen.read(&mut rung) {
                    // Everything was closed from this side.
                    Ok(0) => return Ok(0),
                    // Available bytes stay in the pipe until this thread checks its condition.
                    Ok(_) if self.by.is_some() => return Err(io::ErrorKind::WouldBlock.into()),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            if output {
                match self.output.read(buf) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => {
                        // The reason of an end often stands on stderr.
                        if matches!(read, Ok(0) | Err(_)) {
                            self.listen_to_errors();
                        }
                        return read;
                    }
                }
            }
        }
    }
}

impl ChildOutput {
    /// Reads what the child left behind, and not what others write since.
    fn drain(&mut self, buf: &mut [u8], left: u64) -> io::Result<usize> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let read = match self.output.read(buf.get_mut(..most).unwrap_or_default()) {
            // Others read it as well.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            read => read?,
        };
        self.left = Some(left - read as u64);
        if read == 0 {
            self.left = Some(0);
            self.listen_to_errors();
        }
        Ok(read)
    }

    fn listen_to_errors(&mut self) {
        let Some(errors) = &mut self.errors else { return };
        let mut said = [0; 4096];
        // As much as a pipe holds: a child that never stops must not keep this thread here.
        for _ in 0..16 {
            match errors.read(&mut said) {
                Ok(0) => {
                    self.errors = None;
                    return self.process.errors_ended();
                }
                Ok(n) => self.process.keep(said.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}
