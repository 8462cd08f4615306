//! Child processes on Unix: process groups, signals and one thread that polls all pipes.
//!
//! # Shutdown
//! 1. Close the input.
//! 2. After [`ClientLimits::child_exit`](crate::ClientLimits::child_exit), send SIGTERM to the
//!    group.
//! 3. After the same time again, send SIGKILL.
//!
//! The child is reaped only after the group was killed: until then its process id is not reused.
//! The rest of the group is also killed if the child exits by itself.
//!
//! After the exit of the child, its output ends with the bytes that are then in the pipe, even if a
//! process that the child started keeps the pipe open.
//!
//! # Threads
//! The reader thread of `stream.rs`, or a caller in its place, polls the output, the captured
//! stderr, the exit of the process, and the input while that is full.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, ioctl_fionread};
#[cfg(target_os = "linux")]
use rustix::process::PidfdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::error::Error;
use crate::limits::Limits;
use crate::stderr;
use crate::sync::lock;

use super::stderr::StderrReader;
use super::stdin::StdinWriter;
use crate::transport::client::stream::{ProcessGuard, StreamTransport};
use crate::transport::framing::{FrameSource, Input, LineReader};

/// Time to wait for the exit status of a child that closed its output.
const EXIT_STATUS: Duration = Duration::from_secs(1);
/// Longest poll interval for a child that is about to exit.
const POLL_END: Duration = Duration::from_millis(10);
/// Time for a killed child to exit; only the kernel can delay it.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// Poll interval for the exit of the child, on systems without notification.
const POLL_EXIT: Duration = Duration::from_secs(1);

/// Puts the process into a group of its own.
pub(super) fn prepare(command: &mut Command) {
    command.process_group(0);
}

/// Connects to a process whose stdin and stdout are pipes. After an error the process has ended.
///
/// # Errors
/// A descriptor is missing, or this process may have no more.
pub(super) fn connect(
    mut child: Child,
    stderr: Arc<StderrReader>,
    limits: &Limits,
) -> Result<StreamTransport, Error> {
    let pipes = Pipes::of(&mut child);
    let process = Arc::new(Process { child: Mutex::new(Running { child, exit: None }), stderr });
    let Pipes { input, output, errors, wake_ups, wake_up } =
        pipes.inspect_err(|_| process.end(Duration::ZERO))?;
    let writer = Arc::new(StdinWriter::new(input, wake_up, limits.backlog_bytes));
    let reads = ChildOutput {
        output: output.into(),
        errors: errors.map(File::from),
        wake_ups: wake_ups.into(),
        exit: process.watched(),
        looked: Instant::now(),
        by: None,
        left: None,
        writer: Arc::clone(&writer),
        process: Arc::clone(&process),
    };
    let guard = ChildGuard { process, writer: Arc::clone(&writer), exit: limits.client.child_exit };
    let source = Box::new(ChildLines(LineReader::new(reads, limits.frame_bytes)));
    Ok(StreamTransport::new(source, writer, Arc::new(guard)))
}

/// The pipes to a child, in non-blocking mode.
struct Pipes {
    input: OwnedFd,
    output: OwnedFd,
    errors: Option<OwnedFd>,
    /// Socket pair that wakes the reader. The standard library closes sockets on exec.
    wake_ups: OwnedFd,
    wake_up: OwnedFd,
}

impl Pipes {
    fn of(child: &mut Child) -> io::Result<Pipes> {
        let (wake_ups, wake_up) = UnixStream::pair()?;
        wake_ups.set_nonblocking(true)?;
        wake_up.set_nonblocking(true)?;
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let input = child.stdin.take().map(OwnedFd::from).ok_or_else(missing)?;
        let output = child.stdout.take().map(OwnedFd::from).ok_or_else(missing)?;
        let errors = child.stderr.take().map(OwnedFd::from);
        // Non-blocking mode affects only this end of the pipe, which no other process has.
        for pipe in [Some(&input), Some(&output), errors.as_ref()].into_iter().flatten() {
            ioctl_fionbio(pipe, true)?;
        }
        Ok(Pipes { input, output, errors, wake_ups: wake_ups.into(), wake_up: wake_up.into() })
    }
}

/// The process and its stderr.
struct Process {
    child: Mutex<Running>,
    stderr: Arc<StderrReader>,
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
                // No such child: another part of the program reaped it.
                Ok(Some(_)) | Err(_) => return true,
            }
            drop(running);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(POLL_END);
        }
    }

    /// Returns a descriptor that is readable once the process has exited: Linux 5.3 and later.
    fn watched(&self) -> Option<OwnedFd> {
        #[cfg(target_os = "linux")]
        return rustix::process::pidfd_open(pid(&lock(&self.child).child)?, PidfdFlags::empty()).ok();
        #[cfg(not(target_os = "linux"))]
        None
    }

    fn signal(&self, signal: Signal) {
        let running = lock(&self.child);
        // The process id of a reaped child may be reused.
        if let Some(pid) = pid(&running.child).filter(|_| running.exit.is_none()) {
            // OK to drop: the process may have exited. A child may have changed its group.
            let _ = kill_process_group(pid, signal).or_else(|_| kill_process(pid, signal));
        }
    }

    /// Kills the rest of the group of an exited process, then reaps the process.
    fn reap(&self) -> Option<ExitStatus> {
        self.signal(Signal::KILL);
        let mut running = lock(&self.child);
        if running.exit.is_none() {
            running.exit = running.child.try_wait().ok().flatten();
        }
        running.exit
    }

    /// Waits `step` for the exit, then sends SIGTERM, waits `step` again, then sends SIGKILL.
    fn end(&self, step: Duration) {
        if !self.exited(step) {
            self.signal(Signal::TERM);
            if !self.exited(step) {
                self.signal(Signal::KILL);
                self.exited(KILL_TIMEOUT);
            }
        }
        self.reap();
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

struct ChildGuard {
    process: Arc<Process>,
    writer: Arc<StdinWriter>,
    exit: Duration,
}

impl ProcessGuard for ChildGuard {
    fn end_reason(&self) -> String {
        self.writer.broken();
        if !self.process.exited(EXIT_STATUS) {
            return "the server closed its output".to_owned();
        }
        match self.process.reap() {
            Some(exit) => match (exit.code(), exit.signal()) {
                (Some(code), _) => format!("the server exited with status {code}"),
                (None, Some(signal)) => format!("the server was killed by signal {signal}"),
                (None, None) => "the server exited".to_owned(),
            },
            None => "the server exited".to_owned(),
        }
    }

    fn stderr_tail(&self) -> Option<String> {
        self.process.stderr.tail()
    }

    fn peer_has_read(&self) -> bool {
        self.writer.was_read()
    }

    fn interrupt_caller(&self) {
        self.writer.wake_reader();
    }

    fn kill(&self) {
        self.process.signal(Signal::KILL);
    }

    fn end(&self) -> bool {
        self.process.end(self.exit);
        self.writer.close_wake_up();
        true
    }

    fn reader_ended(&self) {
        // The program may end next.
        if self.process.stderr.passes_lines() {
            stderr::flush();
        }
    }
}

/// Lines of a child, read with a deadline.
struct ChildLines(LineReader<ChildOutput>);

impl FrameSource for ChildLines {
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

    fn interruptible(&self) -> bool {
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
    /// Read end of the socket pair that wakes this thread: readable when this thread must write the
    /// input, closed at the end.
    wake_ups: File,
    /// Readable when the child has exited, on systems that have such a descriptor.
    exit: Option<OwnedFd>,
    /// Time of the last check for the exit, on other systems.
    looked: Instant,
    /// Deadline of a read. After it, and after a wake-up, a read returns `WouldBlock`.
    by: Option<Instant>,
    /// Bytes that are left in the output after the child has exited.
    left: Option<u64>,
    writer: Arc<StdinWriter>,
    process: Arc<Process>,
}

/// Descriptors that are ready.
struct Ready {
    output: bool,
    wake_up: bool,
    errors: bool,
    input: bool,
    exited: bool,
}

impl Read for ChildOutput {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(left) = self.left {
                return self.drain(buf, left);
            }
            // Checked before each read: a child may write forever without a message.
            let pause = self.by.map(|by| by.saturating_duration_since(Instant::now()));
            if pause.is_some_and(|pause| pause.is_zero()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let Ready { output, wake_up, errors, input, exited } = self.poll(pause)?;
            if exited {
                // Without a number from the system, nothing is assumed to be left.
                self.left = Some(ioctl_fionread(&self.output).unwrap_or(0));
                continue;
            }
            if errors {
                self.read_stderr();
            }
            if input {
                self.writer.write_adopted();
            }
            if wake_up {
                let mut bytes = [0; 64];
                match self.wake_ups.read(&mut bytes) {
                    // This side closed the connection.
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
                        // Programs often write the reason of their end to stderr.
                        if matches!(read, Ok(0) | Err(_)) {
                            self.read_stderr();
                        }
                        return read;
                    }
                }
            }
        }
    }
}

impl ChildOutput {
    /// Waits until any of the descriptors is ready, for `pause` at most.
    fn poll(&mut self, pause: Option<Duration>) -> io::Result<Ready> {
        let input = self.writer.adopted();
        // Placeholder for a descriptor that does not exist; its events are not requested.
        let none = self.output.as_fd();
        let errors = self.errors.as_ref().map(|file| (file.as_fd(), PollFlags::IN));
        let takes = input.as_deref().map(|file| (file.as_fd(), PollFlags::OUT));
        let exit = self.exit.as_ref().map(|exit| (exit.as_fd(), PollFlags::IN));
        let wake_up = Some((self.wake_ups.as_fd(), PollFlags::IN));
        let watched = [Some((none, PollFlags::IN)), wake_up, errors, takes, exit];
        let mut fds = watched.map(|fd| {
            let (fd, flags) = fd.unwrap_or((none, PollFlags::empty()));
            PollFd::from_borrowed_fd(fd, flags)
        });
        let look = if exit.is_some() { None } else { Some(POLL_EXIT) };
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
                self.looked.elapsed() >= POLL_EXIT && {
                    self.looked = Instant::now();
                    self.process.exited(Duration::ZERO)
                }
            }
        };
        Ok(Ready {
            output: ready[0],
            wake_up: ready[1],
            errors: ready[2] && errors.is_some(),
            input: ready[3] && takes.is_some(),
            exited,
        })
    }

    /// Reads the bytes that the child left in the pipe. Later bytes of other processes are ignored.
    fn drain(&mut self, buf: &mut [u8], left: u64) -> io::Result<usize> {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        let read = match self.output.read(buf.get_mut(..most).unwrap_or_default()) {
            // Another process read it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            read => read?,
        };
        self.left = Some(left - read as u64);
        if read == 0 {
            self.left = Some(0);
            self.read_stderr();
        }
        Ok(read)
    }

    fn read_stderr(&mut self) {
        let Some(errors) = &mut self.errors else { return };
        let mut output = [0; 4096];
        // At most one full pipe: a child that writes forever must not block this thread.
        for _ in 0..16 {
            match errors.read(&mut output) {
                Ok(0) => {
                    self.errors = None;
                    return self.process.stderr.end();
                }
                Ok(n) => self.process.stderr.push(output.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}
