//! Watchdog: the thread that waits for deadlines, signals and the request to stop.
//!
//! It blocks without a timeout while nothing is in flight, so an idle server does not wake up. The
//! first call arms it. Then it checks deadlines every [`TICK`] until nothing has been in flight for
//! [`QUIET`] ticks. Arming an armed watchdog costs one atomic load.

use std::io;
#[cfg(unix)]
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::exit_watch::{Descriptor, ExitWatch};

/// Interval of deadline checks: a quarter of the 200 ms within which a call must be cancelled.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Ticks without deadlines after which the thread blocks without a timeout.
const QUIET: u32 = 40;

/// Shared part of the watchdog, which wakes its thread.
pub(crate) struct Watchdog {
    armed: AtomicBool,
    terminated: Arc<AtomicBool>,
    /// Set while a signal has its default effect.
    default: Arc<AtomicBool>,
    waker: Waker,
}

impl Watchdog {
    /// # Errors
    /// The operating system has no socket pair left.
    pub(crate) fn new() -> io::Result<Watchdog> {
        let (armed, terminated, default) = (AtomicBool::new(false), Arc::default(), Arc::default());
        Ok(Watchdog { armed, terminated, default, waker: Waker::new()? })
    }

    /// Starts the periodic checks.
    pub(crate) fn arm(&self) {
        if !self.armed.load(Ordering::Relaxed) && !self.armed.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Wakes the thread now.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Installs handlers for SIGTERM and SIGINT.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(crate) fn catch_signals(&self) -> io::Result<Signals> {
        self.waker.catch_signals(&self.terminated, &self.default)
    }

    /// Restores the default effect of signals: the next one ends the process at once. Not called at
    /// the first signal, because a signal to a process group can arrive twice, directly and through
    /// a wrapper.
    pub(crate) fn restore_default_signals(&self) {
        self.default.store(true, Ordering::Release);
    }

    /// Returns whether SIGTERM or SIGINT arrived.
    pub(crate) fn terminated(&self) -> bool {
        self.terminated.load(Ordering::Acquire)
    }

    /// Blocks until a wake-up, one tick at most.
    pub(crate) fn pause(&self) {
        self.waker.wait(Some(TICK), None);
    }

    /// Runs the watchdog until `reason` returns a reason to end, and returns that. `check` looks
    /// for overdue calls and returns whether there are deadlines left. `exits` may stop the server.
    pub(crate) fn watch<R>(
        &self,
        mut exits: Option<ExitWatch>,
        check: impl Fn(Instant) -> bool,
        reason: impl Fn() -> Option<R>,
    ) -> R {
        let mut quiet = 0;
        loop {
            let sleeping = quiet >= QUIET;
            if sleeping {
                self.armed.store(false, Ordering::Release);
            }
            // One more wait with a timeout after disarming, for a call that armed the watchdog in
            // between.
            let time = (!sleeping || quiet == QUIET).then_some(TICK);
            match &mut exits {
                None => _ = self.waker.wait(time, None),
                Some(exits) => {
                    let event = self.waker.wait(exits.pause(time), exits.event());
                    exits.check(event);
                }
            }
            if let Some(reason) = reason() {
                return reason;
            }
            let busy = check(Instant::now());
            quiet = if busy || self.armed.load(Ordering::Acquire) && sleeping {
                0
            } else {
                quiet.saturating_add(1)
            };
        }
    }
}

/// Installed signal handlers. Dropping this restores the default effect of the signals.
pub(crate) struct Signals {
    default: Arc<AtomicBool>,
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.default.store(true, Ordering::Release);
    }
}

/// Wake-up channel that a signal handler can use: on Unix a socket pair.
#[cfg(unix)]
struct Waker {
    write: std::os::unix::net::UnixStream,
    read: std::os::unix::net::UnixStream,
}

#[cfg(unix)]
impl Waker {
    fn new() -> io::Result<Waker> {
        let (write, read) = std::os::unix::net::UnixStream::pair()?;
        write.set_nonblocking(true)?;
        Ok(Waker { write, read })
    }

    /// A full socket wakes the reader anyway, so a failed write loses nothing.
    fn wake(&self) {
        let _ = io::Write::write(&mut &self.write, b"!");
    }

    /// Waits for a wake-up or until `event` is readable, and returns whether it is.
    fn wait(&self, time: Option<Duration>, event: Option<&Descriptor>) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let woken = self.read.as_fd();
        // Without an event the socket is polled twice.
        let mut ready = [woken, event.map_or(woken, AsFd::as_fd)]
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        // A signal that interrupts the wait is a wake-up.
        if poll(&mut ready, time.as_ref()).is_err() {
            return false;
        }
        let [woken, ended] = ready.map(|polled| !polled.revents().is_empty());
        if woken {
            let _ = io::Read::read(&mut &self.read, &mut [0; 64]);
        }
        ended && event.is_some()
    }

    fn catch_signals(&self, terminated: &Arc<AtomicBool>, default: &Arc<AtomicBool>) -> io::Result<Signals> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(default))?;
            signal_hook::flag::register(signal, Arc::clone(terminated))?;
            signal_hook::low_level::pipe::register(signal, self.write.try_clone()?)?;
        }
        Ok(Signals { default: Arc::clone(default) })
    }
}

#[cfg(not(unix))]
#[derive(Default)]
struct Waker {
    woken: std::sync::Mutex<bool>,
    changed: std::sync::Condvar,
}

#[cfg(not(unix))]
impl Waker {
    fn new() -> io::Result<Waker> {
        Ok(Waker::default())
    }

    fn wake(&self) {
        *crate::sync::lock(&self.woken) = true;
        self.changed.notify_all();
    }

    fn wait(&self, time: Option<Duration>, _event: Option<&Descriptor>) -> bool {
        let mut woken = crate::sync::lock(&self.woken);
        if !*woken {
            // Without a timeout it waits for a day: a spurious wake-up is harmless.
            let time = time.unwrap_or(Duration::from_secs(86_400));
            woken = crate::sync::wait_for(&self.changed, woken, time);
        }
        *woken = false;
        false
    }

    fn catch_signals(&self, _: &Arc<AtomicBool>, default: &Arc<AtomicBool>) -> io::Result<Signals> {
        Ok(Signals { default: Arc::clone(default) })
    }
}
