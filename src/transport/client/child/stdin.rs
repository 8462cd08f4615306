//! Writer for a pipe that may be full, with a deadline for each sender.
//!
//! One sender at a time writes without blocking and polls while the pipe is full; other senders
//! queue their frames. A sender whose deadline passes leaves the rest to the reader thread, which
//! polls the pipes anyway. A frame is never dropped in part.
//!
//! # Invariants
//! - Bytes leave in the order in which frames were accepted; a frame is accepted whole or not at
//!   all.
//! - `writing` is set by at most one sender. If it is not set and bytes are pending, `adopted` is
//!   set and the reading thread was woken.
//! - The lock is never held across a write that could block.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionread;

use crate::sync::{Condition, lock};
use crate::transport::client::Failure;
use crate::transport::client::stream::FrameWriter;

/// Poll interval of a sender that waits for a full pipe, to notice that it was closed.
const POLL_CLOSED: Duration = Duration::from_millis(50);

pub(super) struct StdinWriter {
    state: Mutex<State>,
    /// Notified when the queue has room or is empty.
    moved: Condition,
    /// Write end of the socket pair that wakes the reading thread.
    wake_up: Mutex<Option<File>>,
    limit: usize,
}

struct State {
    pipe: Option<Arc<File>>,
    pending: Vec<u8>,
    writing: bool,
    adopted: bool,
    /// Number of accepted bytes.
    accepted: usize,
    /// The pipe broke after the child had read from it.
    was_read: bool,
}

impl State {
    /// Drops the pipe. `unwritten` is the part of `accepted` that was not written.
    fn abandon_pipe(&mut self, pipe: &File, unwritten: usize) {
        // Unread bytes are still in the pipe. If their number is unknown, all count as read.
        let unread = usize::try_from(ioctl_fionread(pipe).unwrap_or(0)).unwrap_or(usize::MAX);
        self.was_read = self.accepted.saturating_sub(unwritten) > unread;
        self.pipe = None;
        self.pending = Vec::new();
    }
}

impl StdinWriter {
    /// Creates a writer. Senders block while about `limit` bytes are queued. `pipe` must be
    /// non-blocking.
    pub(super) fn new(pipe: OwnedFd, wake_up: OwnedFd, limit: usize) -> StdinWriter {
        StdinWriter {
            state: Mutex::new(State {
                pipe: Some(Arc::new(pipe.into())),
                pending: Vec::new(),
                writing: false,
                adopted: false,
                accepted: 0,
                was_read: false,
            }),
            moved: Condition::default(),
            wake_up: Mutex::new(Some(wake_up.into())),
            limit,
        }
    }

    /// Returns the pipe if the reading thread must poll it.
    pub(super) fn adopted(&self) -> Option<Arc<File>> {
        let state = lock(&self.state);
        if state.adopted { state.pipe.clone() } else { None }
    }

    /// Writes queued bytes without blocking. Called by the reading thread.
    pub(super) fn write_adopted(&self) {
        let mut state = lock(&self.state);
        let Some(pipe) = state.pipe.clone().filter(|_| state.adopted) else { return };
        let mut rest = state.pending.as_slice();
        let broken = push(&pipe, &mut rest) == WriteOutcome::Broken;
        let written = state.pending.len() - rest.len();
        state.pending.drain(..written);
        state.adopted = !state.pending.is_empty() && !broken;
        if broken {
            let unwritten = state.pending.len();
            state.abandon_pipe(&pipe, unwritten);
        }
        self.moved.release(state);
    }

    /// The child has closed the pipe: drops the queued bytes.
    pub(super) fn broken(&self) {
        let mut state = lock(&self.state);
        let unwritten = state.pending.len();
        match state.pipe.take() {
            // Only the writing thread has the number of written bytes.
            Some(pipe) if !state.writing => state.abandon_pipe(&pipe, unwritten),
            _ => state.pending = Vec::new(),
        }
        self.moved.release(state);
    }

    /// Returns whether the child read any byte, after the pipe broke.
    pub(super) fn was_read(&self) -> bool {
        lock(&self.state).was_read
    }

    /// Closes the wake-up socket, which ends the reading thread.
    pub(super) fn close_wake_up(&self) {
        *lock(&self.wake_up) = None;
    }

    /// Wakes the reader thread.
    pub(super) fn wake_reader(&self) {
        let mut wake_up = lock(&self.wake_up);
        // OK to drop: a full socket wakes the reader as well.
        let _ = wake_up.as_mut().map(|wake_up| wake_up.write(&[0]));
    }

    /// Writes until everything is written or `deadline`.
    fn write(&self, pipe: &File, rest: &mut &[u8], deadline: Instant) -> WriteOutcome {
        loop {
            match push(pipe, rest) {
                WriteOutcome::Full => {}
                other => return other,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || lock(&self.state).pipe.is_none() {
                return WriteOutcome::Full;
            }
            wait_for(pipe.as_fd(), left.min(POLL_CLOSED));
        }
    }
}

#[derive(PartialEq, Eq)]
enum WriteOutcome {
    All,
    Full,
    Broken,
}

/// Writes without blocking.
fn push(mut pipe: &File, rest: &mut &[u8]) -> WriteOutcome {
    while !rest.is_empty() {
        match pipe.write(rest) {
            Ok(0) => return WriteOutcome::Broken,
            Ok(n) => *rest = rest.get(n..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return WriteOutcome::Full,
            Err(_) => return WriteOutcome::Broken,
        }
    }
    WriteOutcome::All
}

fn wait_for(pipe: BorrowedFd<'_>, time: Duration) {
    let time = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    // OK to drop: an interrupted wait is a short one.
    let _ = poll(&mut [PollFd::from_borrowed_fd(pipe, PollFlags::OUT)], Some(&time));
}

fn closed_error() -> Failure {
    Failure::Closed("the server has closed its input".to_owned())
}

impl FrameWriter for StdinWriter {
    fn send(&self, frame: &[u8], deadline: Instant) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        let pipe = loop {
            let Some(pipe) = &state.pipe else { return Err(closed_error()) };
            if !state.writing && !state.adopted {
                break Arc::clone(pipe);
            }
            if state.pending.is_empty() || state.pending.len() + frame.len() <= self.limit {
                state.pending.extend_from_slice(frame);
                state.accepted = state.accepted.saturating_add(frame.len());
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Timeout);
            }
            state = self.moved.wait_for(state, left);
        };
        state.writing = true;
        state.accepted = state.accepted.saturating_add(frame.len());
        drop(state);
        let mut rest = frame;
        let mut pushed = self.write(&pipe, &mut rest, deadline);
        let mut state = lock(&self.state);
        // Frames of other senders are written too, by the same deadline.
        while pushed == WriteOutcome::All && !state.pending.is_empty() {
            let batch = std::mem::take(&mut state.pending);
            self.moved.release(state);
            let mut left = batch.as_slice();
            pushed = self.write(&pipe, &mut left, deadline);
            state = lock(&self.state);
            if !left.is_empty() {
                state.pending.splice(..0, left.iter().copied());
            }
        }
        state.pending.splice(..0, rest.iter().copied());
        state.writing = false;
        if pushed == WriteOutcome::Broken || state.pipe.is_none() {
            let unwritten = state.pending.len();
            state.abandon_pipe(&pipe, unwritten);
        }
        let closed = state.pipe.is_none();
        state.adopted = !closed && !state.pending.is_empty();
        let wake = state.adopted;
        self.moved.release(state);
        if wake {
            self.wake_reader();
        }
        if closed { Err(closed_error()) } else { Ok(()) }
    }

    fn close(&self, deadline: Instant) {
        let mut state = lock(&self.state);
        while state.pipe.is_some() && (state.writing || state.adopted) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.moved.wait_for(state, left);
        }
        drop(state);
        self.broken();
    }
}
