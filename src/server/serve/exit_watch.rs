//! Watch of a stdio server for the end of its parent process and for an idle time.
//!
//! On Linux a process descriptor reports the end of the parent, so an idle server does not wake up.
//! Elsewhere the watchdog compares the parent's id every [`Limits::parent_check`].
//!
//! # Invariants
//! - The parent may end before its descriptor is open: its id is read before and after that.
//! - Input that was written before the parent ended is processed. Serving stops once nothing was
//!   readable for [`SETTLE`], or the reader made no progress for the grace period.
//! - A parent that is process 1, or outside of the process namespace, is not watched: its end also
//!   ends this process, or cannot be seen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::limits::Limits;
use crate::server::connection::Connection;
use crate::transport::StdinProbe;

use super::diagnostics::report;
use super::watchdog::TICK;

/// Time without input after the end of the parent, before serving stops. Covers the moment between
/// a read and its report, and other processes that still write to the pipe.
const SETTLE: Duration = Duration::from_millis(200);

/// State of the conditions that end a stdio server although its input stays open.
pub(crate) struct ExitWatch {
    conn: Arc<Connection>,
    stdin: StdinProbe,
    parent: Parent,
    /// Time of the last check that found the server in use, or a reader with input.
    active: Instant,
    /// Number of reads of the input at the last check, and the time of its last change.
    reads: u32,
    progress: Instant,
}

impl ExitWatch {
    /// Returns `None` if the limits turn both conditions off.
    pub(crate) fn new(conn: &Arc<Connection>, stdin: StdinProbe) -> Option<ExitWatch> {
        let limits = &conn.core.limits;
        let parent = if limits.parent_check.is_zero() { Parent::Ignored } else { Parent::of_this_process() };
        if matches!(parent, Parent::Ignored) && limits.idle_exit.is_zero() {
            return None;
        }
        let (now, reads) = (Instant::now(), stdin.reads());
        Some(ExitWatch { conn: Arc::clone(conn), stdin, parent, active: now, reads, progress: now })
    }

    /// Descriptor that becomes readable when the parent ends.
    pub(crate) fn event(&self) -> Option<&Descriptor> {
        match &self.parent {
            #[cfg(target_os = "linux")]
            Parent::Event(descriptor) => Some(descriptor),
            _ => None,
        }
    }

    /// Returns the wait before the next check, at most `max`.
    pub(crate) fn pause(&self, max: Option<Duration>) -> Option<Duration> {
        let limits = &self.conn.core.limits;
        let parent = match self.parent {
            Parent::Ended => Some(TICK),
            #[cfg(unix)]
            Parent::Polled(_) => Some(limits.parent_check),
            _ => None,
        };
        // Messages without a handler do not wake the watchdog, so it checks several times per idle
        // time.
        let idle = (!limits.idle_exit.is_zero()).then(|| limits.idle_exit / 4);
        let shortest = parent.into_iter().chain(idle).min().map(|time| time.max(TICK));
        shortest.into_iter().chain(max).min()
    }

    /// Checks the parent and the input, and stops the server if it must end. `event` is set if the
    /// descriptor is readable.
    pub(crate) fn check(&mut self, event: bool) {
        let now = Instant::now();
        let reads = self.stdin.reads();
        if reads != self.reads {
            (self.reads, self.progress) = (reads, now);
            self.active = now;
        }
        if self.parent.has_ended(event) {
            self.check_after_parent(now);
        } else {
            self.check_idle(now);
        }
    }

    #[cold]
    fn check_after_parent(&mut self, now: Instant) {
        if !matches!(self.parent, Parent::Ended) {
            self.parent = Parent::Ended;
            (self.active, self.progress) = (now, now);
        }
        if self.conn.is_reading() || self.stdin.ready() {
            self.active = now;
        }
        if now - self.active >= SETTLE || now - self.progress >= self.conn.core.limits.grace.max(SETTLE) {
            self.stop("the parent process has ended, so this server ends; limit: parent_check");
        }
    }

    fn check_idle(&mut self, now: Instant) {
        let limits: &Limits = &self.conn.core.limits;
        if limits.idle_exit.is_zero() {
            return;
        }
        if self.conn.is_reading() || self.conn.busy() {
            self.active = now;
        } else if now - self.active >= limits.idle_exit {
            self.stop("the server was idle for too long, so this server ends; limit: idle_exit");
        }
    }

    fn stop(&self, why: &str) {
        let shared = &self.conn.core.shared;
        if !shared.stopping() {
            report(why);
            shared.stop();
        }
    }
}

/// Descriptor of the parent process, which becomes readable when the parent ends.
#[cfg(unix)]
pub(crate) type Descriptor = std::os::fd::OwnedFd;
#[cfg(not(unix))]
pub(crate) type Descriptor = std::convert::Infallible;

/// The parent process.
enum Parent {
    /// The parent is not watched.
    Ignored,
    /// The descriptor becomes readable when the parent ends.
    #[cfg(target_os = "linux")]
    Event(Descriptor),
    /// Compared with the id of the current parent, which changes when the parent ends.
    #[cfg(unix)]
    Polled(rustix::process::Pid),
    Ended,
}

impl Parent {
    #[cfg(unix)]
    fn of_this_process() -> Parent {
        use rustix::process::getppid;
        let Some(parent) = getppid().filter(|parent| !parent.is_init()) else { return Parent::Ignored };
        #[cfg(target_os = "linux")]
        if let Ok(descriptor) = rustix::process::pidfd_open(parent, rustix::process::PidfdFlags::empty()) {
            // If the parent's id has changed, the parent has ended and the descriptor may belong to
            // another process.
            return if getppid() == Some(parent) { Parent::Event(descriptor) } else { Parent::Ended };
        }
        // Old kernels and some sandboxes have no process descriptors.
        Parent::Polled(parent)
    }

    #[cfg(not(unix))]
    fn of_this_process() -> Parent {
        Parent::Ignored
    }

    fn has_ended(&self, _event: bool) -> bool {
        match self {
            Parent::Ignored => false,
            #[cfg(target_os = "linux")]
            Parent::Event(_) => _event,
            #[cfg(unix)]
            Parent::Polled(parent) => rustix::process::getppid() != Some(*parent),
            Parent::Ended => true,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use rustix::process::{getpid, getppid};

    #[test]
    fn a_parent_is_compared_by_its_id() {
        assert!(!Parent::Ignored.has_ended(true));
        assert!(Parent::Ended.has_ended(false));
        // This process is not its own parent.
        assert!(Parent::Polled(getpid()).has_ended(false));
        assert!(getppid().is_none_or(|parent| !Parent::Polled(parent).has_ended(false)));
    }
}
