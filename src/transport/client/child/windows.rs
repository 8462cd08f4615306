//! Child processes on Windows: job objects, and one thread for each pipe.
//!
//! A job object holds the child and all processes that it starts. It ends them when its last handle
//! is closed, so nothing is left even if this process is killed.
//!
//! # Shutdown
//! 1. Close the input.
//! 2. After [`ClientLimits::child_exit`](crate::ClientLimits::child_exit), end the job.
//!
//! # Differences from Unix
//! - Nothing corresponds to SIGTERM: CTRL_BREAK reaches only processes of the same console. A
//!   server has to end when its input ends.
//! - A process that the child starts before it is in the job, in its first microseconds, is not
//!   ended.
//! - The child has a console without a window, so that Ctrl-C in the terminal of this process does
//!   not reach it.
//! - Whether the child has read anything before its exit is unknown.
//!
//! # Threads
//! The reader thread of `stream.rs` blocks on the output, another one writes the input, a third one
//! reads a captured stderr, and a fourth one notices that the child has exited while a process that
//! it started keeps the pipes open.

use std::io::{self, Read};
use std::os::windows::io::AsRawHandle;
use std::os::windows::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use win32job::{ExtendedLimitInfo, Job};

use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::stderr;
use crate::sync::{lock, wait_for};

use super::stderr::StderrReader;
use crate::transport::client::stream::{ProcessGuard, StreamTransport, ThreadWriter};
use crate::transport::framing::Link;

/// Flag of `CreateProcess`: a console of its own, without a window.
const CREATE_NO_WINDOW: u32 = 0x0800_0000;
/// Time to wait for the exit of a child that closed its output, and for the end of its stderr.
const EXIT_STATUS: Duration = Duration::from_secs(1);
/// Time for an ended job to close its pipes; only the system can delay it.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of the checks whether the child has exited.
const POLL_EXIT: Duration = Duration::from_secs(1);
/// Longest such interval while a thread waits for the exit.
const POLL_END: Duration = Duration::from_millis(10);
/// Stack of the threads here, which run nothing but the function for lines of stderr.
const STACK: usize = 128 << 10;

/// Gives the process a console without a window.
pub(super) fn prepare(command: &mut Command) {
    command.creation_flags(CREATE_NO_WINDOW);
}

/// Connects to a process whose stdin and stdout are pipes. After an error the process has ended.
///
/// # Errors
/// The system has no more job objects or threads.
pub(super) fn connect(
    mut child: Child,
    stderr: Arc<StderrReader>,
    limits: &Limits,
) -> Result<StreamTransport, Error> {
    let job = match job_for(&mut child) {
        Ok(job) => job,
        Err(error) => {
            // OK to drop: the process may have exited.
            let _ = child.kill().and_then(|()| child.wait());
            let message = "cannot create a job object for the program";
            return Err(Error::new(ErrorKind::Io, message).with_source(error));
        }
    };
    let (output, input, errors) = (child.stdout.take(), child.stdin.take(), child.stderr.take());
    let state = State {
        child,
        job: Some(job),
        exit: None,
        output_ended: false,
        errors_ended: errors.is_none(),
        closing: false,
    };
    let process = Arc::new(Process { state: Mutex::new(state), changed: Condvar::new(), stderr });
    let missing = || Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
    let (output, input) = (output.ok_or_else(missing)?, input.ok_or_else(missing)?);
    if let Some(errors) = errors {
        process.start_thread("mcp-client-stderr", move |process| process.read_stderr(errors))?;
    }
    process.start_thread("mcp-client-exit", |process| process.watch_exit())?;
    let output = Output { pipe: output, process: Arc::clone(&process) };
    let link = Link::lines(output, input, limits);
    let guard = ChildGuard { process, exit: limits.client.child_exit };
    let writer = Arc::new(ThreadWriter::new(link.sink));
    Ok(StreamTransport::new(link.source, writer, Arc::new(guard)))
}

/// Creates a job that ends with its last handle, and puts the process into it.
fn job_for(child: &mut Child) -> io::Result<Job> {
    let mut limits = ExtendedLimitInfo::new();
    limits.limit_kill_on_job_close();
    let job = Job::create_with_limit_info(&limits)?;
    match job.assign_process(child.as_raw_handle() as isize) {
        // A process that has exited cannot be assigned.
        Err(error) if child.try_wait()?.is_none() => Err(error.into()),
        _ => Ok(job),
    }
}

/// The process, its job and its stderr.
struct Process {
    state: Mutex<State>,
    changed: Condvar,
    stderr: Arc<StderrReader>,
}

struct State {
    child: Child,
    /// `None` after the processes of the job were ended.
    job: Option<Job>,
    exit: Option<ExitStatus>,
    output_ended: bool,
    errors_ended: bool,
    /// The connection ends: the thread that checks for the exit ends too.
    closing: bool,
}

impl State {
    /// Returns whether the process has exited.
    fn has_exited(&mut self) -> bool {
        if self.exit.is_none() {
            self.exit = self.child.try_wait().ok().flatten();
        }
        self.exit.is_some()
    }
}

impl Process {
    /// Starts a thread. If it cannot start, the process is ended.
    fn start_thread(
        self: &Arc<Process>,
        name: &str,
        run: impl FnOnce(&Process) + Send + 'static,
    ) -> io::Result<()> {
        let process = Arc::clone(self);
        let thread = thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        match thread.spawn(move || run(&process)) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.kill();
                Err(error)
            }
        }
    }

    /// Changes the state and wakes the threads that wait for a change.
    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// Waits until the condition holds. Returns whether it does.
    fn wait_until(&self, within: Duration, mut condition: impl FnMut(&mut State) -> bool) -> bool {
        let deadline = Instant::now() + within;
        let mut pause = Duration::from_millis(1);
        let mut state = lock(&self.state);
        loop {
            if condition(&mut state) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = wait_for(&self.changed, state, pause.min(left));
            pause = (pause * 2).min(POLL_END);
        }
    }

    /// Ends all processes of the job.
    fn kill(&self) {
        self.update(|state| {
            state.job = None;
            if !state.has_exited() {
                // OK to drop: the end of the job has ended it already, unless it could not join.
                let _ = state.child.kill();
            }
        });
    }

    fn read_stderr(&self, mut errors: impl Read) {
        let mut output = [0; 4096];
        loop {
            match errors.read(&mut output) {
                Ok(n @ 1..) => self.stderr.push(output.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        self.stderr.end();
        self.update(|state| state.errors_ended = true);
    }

    /// Ends the job when the child has exited: its other processes may keep the pipes open.
    fn watch_exit(&self) {
        let mut state = lock(&self.state);
        while !state.closing && !state.has_exited() {
            state = wait_for(&self.changed, state, POLL_EXIT);
        }
        state.job = None;
    }
}

struct ChildGuard {
    process: Arc<Process>,
    exit: Duration,
}

impl ProcessGuard for ChildGuard {
    fn end_reason(&self) -> String {
        if !self.process.wait_until(EXIT_STATUS, State::has_exited) {
            return "the server closed its output".to_owned();
        }
        self.process.kill();
        // Programs often write the reason of their end to stderr.
        self.process.wait_until(EXIT_STATUS, |state| state.errors_ended);
        match lock(&self.process.state).exit.and_then(|exit| exit.code()) {
            Some(code) => format!("the server exited with status {code}"),
            None => "the server exited".to_owned(),
        }
    }

    fn stderr_tail(&self) -> Option<String> {
        self.process.stderr.tail()
    }

    fn kill(&self) {
        self.process.kill();
    }

    fn end(&self) -> bool {
        self.process.wait_until(self.exit, State::has_exited);
        self.process.kill();
        self.process.update(|state| state.closing = true);
        // A process that is not in the job may keep a pipe open.
        self.process.wait_until(KILL_TIMEOUT, |state| state.output_ended && state.errors_ended)
    }

    fn reader_ended(&self) {
        // The program may end next.
        if self.process.stderr.passes_lines() {
            stderr::flush();
        }
    }
}

/// The output of the child. Records its end.
struct Output {
    pipe: ChildStdout,
    process: Arc<Process>,
}

impl Read for Output {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.pipe.read(buf);
        if matches!(read, Ok(0) | Err(_)) && !buf.is_empty() {
            self.process.update(|state| state.output_ended = true);
        }
        read
    }
}
