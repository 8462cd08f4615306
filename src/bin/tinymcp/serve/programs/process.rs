//! One process per call: pipes, timeout and cancellation.
//!
//! [`run`] starts a program and polls its pipes and its exit on the thread of the call; it needs no
//! other thread. Standard output is captured up to a limit; the rest is read and counted. The end
//! of standard error is stored: for the result of a failed program, otherwise for the standard
//! error of the server.
//!
//! # End of a call
//! | event | effect |
//! |---|---|
//! | the program exits | its output so far is read; the rest of its group is killed |
//! | timeout, cancellation | SIGTERM to the group; SIGKILL after [`TERM`] |
//! | [`Processes::stop`] | SIGKILL to the group |
//!
//! When the grace period of a shutdown ends, the calls are cancelled. A program that closes its
//! output still runs until it exits. Children that hold the output open do not prolong a call.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::Signal;
use tinymcp::{Context, ToolError};

use super::group::{Group, Pipes, Processes, timespec};
use super::output::{Capture, Ends};
use super::sandbox;
use crate::serve::definition::Grants;
use crate::serve::words;

/// Variables of this process that a program gets, besides those that begin with `LC_`.
pub(crate) const INHERITED: &str = "PATH HOME USER LOGNAME SHELL LANG TZ TERM TMPDIR";

/// Time between SIGTERM and SIGKILL.
pub(crate) const TERM: Duration = Duration::from_secs(2);
/// Longest time between two checks for cancellation.
pub(crate) const CHECK: Duration = Duration::from_millis(50);
/// Longest time between two checks for the exit, without a descriptor for it.
const CHECK_EXIT: Duration = Duration::from_millis(5);
/// Number of bytes of one read. They are on the stack of each thread that handles calls, and stay
/// resident.
const CHUNK: usize = 4 << 10;
/// Maximum number of bytes of an argument that an error shows.
const SHOWN_BYTES: usize = 40;
/// Maximum number of reads of one pipe between two checks of the other pipes, the exit and the
/// call.
const READS: usize = 16;

/// The call that a program runs for.
pub(crate) trait Caller {
    /// Returns whether the call is cancelled.
    fn cancelled(&self) -> bool;

    /// Reports progress to the client.
    fn progress(&mut self, done: f64, total: Option<f64>, message: Option<&str>);
}

impl Caller for Context<'_> {
    fn cancelled(&self) -> bool {
        Context::cancelled(self)
    }

    fn progress(&mut self, done: f64, total: Option<f64>, message: Option<&str>) {
        Context::progress(self, done, total, message);
    }
}

/// A program with its surroundings, ready to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Absolute path. For a program that was not found, its name; it is never started.
    pub(crate) program: OsString,
    /// Arguments without placeholders: all arguments of a worker.
    pub(crate) literals: Vec<OsString>,
    /// The whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    pub(crate) grants: Option<Grants>,
}

impl Launch {
    /// Returns a note for the error of a program that may have failed because of its sandbox.
    pub(crate) fn sandbox_note(&self, status: Option<ExitStatus>) -> Option<&'static str> {
        let failed = status.and_then(|status| status.code()).is_some_and(|code| code != 0);
        let applies = cfg!(target_os = "linux") && self.grants.is_some();
        (failed && applies).then_some("(this tool runs in a sandbox)")
    }

    /// Returns the command for this command line, in its sandbox.
    pub(crate) fn command(&self, argv: &[OsString]) -> io::Result<Command> {
        let mut command = sandbox::command(argv, &self.env, self.grants.as_ref())?;
        command.current_dir(&self.cwd);
        Ok(command)
    }
}

/// A program to run.
pub(crate) struct Invocation {
    /// Program, arguments, folder and environment.
    pub(crate) command: Command,
    /// Standard input; `None` for an empty one.
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) capture: Capture,
    pub(crate) timeout: Duration,
}

/// Reason for the error ENOEXEC.
const NO_FORMAT: &str =
    "not a program for this system, and it has no `#!` line; a script needs a first line such as #!/bin/sh";

/// A program that has ended.
pub(crate) struct Finished {
    /// `None` if the program did not end after SIGKILL.
    pub(crate) status: Option<ExitStatus>,
    /// The program was killed after this time.
    pub(crate) timed_out: Option<Duration>,
    pub(crate) stdout: Capture,
    pub(crate) stderr: Ends,
}

impl Finished {
    /// Returns whether the program ended by itself with status 0.
    pub(crate) fn succeeded(&self) -> bool {
        self.timed_out.is_none() && self.status.is_some_and(|status| status.success())
    }
}

/// Returns the variables of this process that a program gets.
pub(crate) fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    let known = |name: &OsStr| {
        name.to_str().is_some_and(|name| words::has(INHERITED, name) || name.starts_with("LC_"))
    };
    std::env::vars_os().filter(move |(name, _)| known(name))
}

/// Runs a program until it ends.
///
/// # Errors
/// The program cannot be started, or the call was cancelled.
pub(crate) fn run(
    caller: &mut dyn Caller,
    processes: &Arc<Processes>,
    invocation: Invocation,
) -> Result<Finished, ToolError> {
    let Invocation { mut command, stdin, capture, timeout } = invocation;
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Group::start(&mut command, processes);
    let (group, pipes) = started.map_err(|error| ToolError::new(start_error(&command, &error)))?;
    drop(command);
    let mut running = Running {
        group,
        pipes,
        input: stdin.unwrap_or_default(),
        written: 0,
        capture,
        stderr: Ends::default(),
    };
    let end = running.until_end(caller, timeout)?;
    running.drain(caller);
    let status = running.group.end();
    let Running { capture: mut stdout, stderr, .. } = running;
    stdout.finish(caller);
    match end {
        End::Cancelled => Err(ToolError::new("the call was cancelled")),
        End::Exited => Ok(Finished { status, timed_out: None, stdout, stderr }),
        End::TimedOut => Ok(Finished { status, timed_out: Some(timeout), stdout, stderr }),
    }
}

/// The reason why a program ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Exited,
    TimedOut,
    Cancelled,
}

struct Running {
    group: Group,
    pipes: Pipes,
    input: Vec<u8>,
    /// Number of bytes of the input that have been written.
    written: usize,
    capture: Capture,
    stderr: Ends,
}

impl Running {
    /// Serves the pipes until the program has exited or must be killed.
    fn until_end(&mut self, caller: &mut dyn Caller, timeout: Duration) -> io::Result<End> {
        let deadline = Instant::now() + timeout;
        let mut end = End::Exited;
        let mut kill_at = None;
        loop {
            let now = Instant::now();
            if let Some(kill_at) = kill_at {
                if now >= kill_at {
                    return Ok(end);
                }
            } else if caller.cancelled() || now >= deadline {
                end = if now >= deadline { End::TimedOut } else { End::Cancelled };
                kill_at = Some(now + TERM);
                self.group.signal(Signal::TERM);
            }
            let until = kill_at.unwrap_or(deadline).saturating_duration_since(now);
            if self.step(caller, until.min(CHECK))? {
                return Ok(end);
            }
        }
    }

    /// Waits for a pipe or the exit, then reads and writes what is ready. Returns whether the
    /// program has exited.
    fn step(&mut self, caller: &mut dyn Caller, pause: Duration) -> io::Result<bool> {
        if self.written == self.input.len() {
            self.pipes.stdin = None;
        }
        let Pipes { stdin, stdout, stderr } = &self.pipes;
        let exit = self.group.exit();
        let pause = if exit.is_some() { pause } else { pause.min(CHECK_EXIT) };
        let mut fds = Vec::with_capacity(4);
        fds.extend(exit.map(|exit| PollFd::new(exit, PollFlags::IN)));
        let pipes = [(stdin, PollFlags::OUT), (stdout, PollFlags::IN), (stderr, PollFlags::IN)];
        fds.extend(pipes.iter().filter_map(|(pipe, flags)| Some(PollFd::new(pipe.as_ref()?, *flags))));
        match poll(&mut fds, Some(&timespec(pause))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let watched = exit.is_some();
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let exited = if watched { ready.next() == Some(true) } else { self.group.exited() };
        let ready = pipes.map(|(pipe, _)| pipe.is_some() && ready.next() == Some(true));
        let [stdin, stdout, stderr] = ready;
        if exited {
            return Ok(true);
        }
        if stdin {
            self.write();
        }
        if stdout {
            let capture = &mut self.capture;
            read(&mut self.pipes.stdout, u64::MAX, &mut |bytes| capture.push(bytes, caller));
        }
        if stderr {
            let tail = &mut self.stderr;
            read(&mut self.pipes.stderr, u64::MAX, &mut |bytes| tail.push(bytes));
        }
        Ok(false)
    }

    fn write(&mut self) {
        let Some(stdin) = &mut self.pipes.stdin else { return };
        match stdin.write(self.input.get(self.written..).unwrap_or_default()) {
            Ok(count) => self.written += count,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // A program may end or close its input before it has read all.
            Err(_) => self.pipes.stdin = None,
        }
    }

    /// Reads the bytes that are in the pipes now. Bytes that arrive later are from other processes.
    fn drain(&mut self, caller: &mut dyn Caller) {
        let Pipes { stdout, stderr, .. } = &mut self.pipes;
        let capture = &mut self.capture;
        let left = available(stdout);
        read(stdout, left, &mut |bytes| capture.push(bytes, caller));
        let left = available(stderr);
        let tail = &mut self.stderr;
        read(stderr, left, &mut |bytes| tail.push(bytes));
    }
}

/// Returns the number of bytes in a pipe.
fn available(pipe: &Option<File>) -> u64 {
    pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe.as_fd()).ok()).unwrap_or(0)
}

/// Reads at most this many bytes of a pipe, and at most [`READS`] times. Closes it at its end.
fn read(pipe: &mut Option<File>, mut left: u64, push: &mut dyn FnMut(&[u8])) {
    let mut chunk = [0; CHUNK];
    // Pipes of other systems and enlarged pipes may hold more than `READS` chunks.
    let reads = if left == u64::MAX { READS } else { usize::MAX };
    for _ in 0..reads {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let (Some(file), Some(chunk)) = (pipe.as_mut().filter(|_| most > 0), chunk.get_mut(..most)) else {
            return;
        };
        match file.read(chunk) {
            Ok(0) => *pipe = None,
            Ok(count) => {
                push(chunk.get(..count).unwrap_or_default());
                left = left.saturating_sub(count as u64);
                if count < most {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => *pipe = None,
        }
    }
}

/// Describes the reason why a program did not start.
pub(crate) fn start_error(command: &Command, error: &io::Error) -> String {
    let program = command.get_program().to_string_lossy();
    let folder = command.get_current_dir().filter(|folder| !folder.is_dir());
    let reason = match error.kind() {
        _ if error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error()) => too_long(command),
        _ if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => NO_FORMAT.to_owned(),
        _ if folder.is_some() => "the folder `cwd` does not exist or is not accessible".to_owned(),
        io::ErrorKind::NotFound => "not found, or its interpreter is not found".to_owned(),
        io::ErrorKind::PermissionDenied => "not executable, or permission denied".to_owned(),
        io::ErrorKind::InvalidInput => "an argument has a NUL character".to_owned(),
        _ => error.to_string(),
    };
    format!("cannot start the program {program:?}: {reason}")
}

/// Returns the message for E2BIG: the system limits each argument, and all arguments and variables
/// together.
fn too_long(command: &Command) -> String {
    let arguments = || command.get_args().map(|argument| argument.as_encoded_bytes());
    let longest = arguments().max_by_key(|argument| argument.len()).unwrap_or_default();
    let all: usize = arguments().map(|argument| argument.len() + 1).sum();
    // Linux has a fixed limit of 32 pages for one argument. Other systems only limit the sum.
    let one = 32 * rustix::param::page_size() - 1;
    if cfg!(target_os = "linux") && longest.len() > one {
        let start = String::from_utf8_lossy(longest.get(..SHOWN_BYTES).unwrap_or(longest));
        return format!(
            "the argument \"{start}…\" has {} bytes, the system accepts {one} in one argument; \
             `stdin` has no such limit",
            longest.len()
        );
    }
    format!(
        "the arguments have {all} bytes, the largest {}, which is more than the system accepts; \
         `stdin` has no such limit",
        longest.len()
    )
}

#[cfg(test)]
pub(in crate::serve) mod tests;
