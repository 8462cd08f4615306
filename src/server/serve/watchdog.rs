//! The one thread that waits for time and signals: deadlines, SIGTERM, a request to stop.
//!
//! It sleeps without a timeout while nothing is in flight, so an idle server does not wake up.
//! The first call arms it; then it looks every [`TICK`] until nothing has been in flight for a
//! while. Arming costs one atomic load per call in the ordinary case.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often deadlines are looked at: a quarter of the 200 ms within which a call must be flagged.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Ticks without anything to watch after which the thread sleeps for good.
const QUIET: u32 = 40;

/// Wakes the watching thread.
pub(crate) struct Watchdog {
    armed: AtomicBool,
    terminated: Arc<AtomicBool>,
    /// While this is set, a signal has its default effect.
    at_once: Arc<AtomicBool>,
    bell: Waker,
}

impl Watchdog {
    /// # Errors
    /// The operating system has no socket pair left.
    pub(crate) fn new() -> io::Result<Watchdog> {
        let (armed, terminated, at_once) = (AtomicBool::new(false), Arc::default(), Arc::default());
        Ok(Watchdog { armed, terminated, at_once, bell: Waker::new()? })
    }

    /// There is something to watch from now on.
    pub(crate) fn arm(&self) {
        if !self.armed.load(Ordering::Relaxed) && !self.armed.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }

    /// Wakes the thread now.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }

    /// Lets SIGTERM and SIGINT end the watching.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub(crate) fn catch_signals(&self) -> io::Result<Signals> {
        self.bell.catch_signals(&self.terminated, &self.at_once)
    }

    /// From now on another signal ends the process at once: somebody is impatient. Not before,
    /// since whoever ends a whole process group may have its signal passed on by a wrapper too.
    pub(crate) fn let_signals_kill(&self) {
        self.at_once.store(true, Ordering::Release);
    }

    /// Whether SIGTERM or SIGINT came.
    pub(crate) fn terminated(&self) -> bool {
        self.terminated.load(Ordering::Acquire)
    }

    /// Waits for a ring, one tick at most.
    pub(crate) fn pause(&self) {
        self.bell.wait(Some(TICK));
    }

    /// Watches until there is a reason to end, which it gives back. The reason is looked for
    /// whenever the bell rings.
    pub(crate) fn watch<R>(&self, check: impl Fn(Instant) -> bool, reason: impl Fn() -> Option<R>) -> R {
        let mut quiet = 0;
        loop {
            let sleeping = quiet >= QUIET;
            if sleeping {
                self.armed.store(false, Ordering::Release);
            }
            // After disarming one more look with a timeout, for a call that came in between.
            self.bell.wait((!sleeping || quiet == QUIET).then_some(TICK));
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

/// Signal handlers; when this is dropped, signals do again what they did before.
pub(crate) struct Signals {
    at_once: Arc<AtomicBool>,
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.at_once.store(true, Ordering::Release);
    }
}

/// Something to wait for that a signal handler can ring: on Unix a socket pair.
#[cfg(unix)]
struct Waker {
    rope: std::os::unix::net::UnixStream,
    ear: std::os::unix::net::UnixStream,
}

#[cfg(unix)]
impl Waker {
    fn new() -> io::Result<Waker> {
        let (rope, ear) = std::os::unix::net::UnixStream::pair()?;
        rope.set_nonblocking(true)?;
        Ok(Waker { rope, ear })
    }

    /// A full socket is a bell that rings already, so a refused write loses nothing.
    fn ring(&self) {
        let _ = io::Write::write(&mut &self.rope, b"!");
    }

    fn wait(&self, time: Option<Duration>) {
        let mut rings = [0; 64];
        if self.ear.set_read_timeout(time).is_ok() {
            let _ = io::Read::read(&mut &self.ear, &mut rings);
        }
    }

    fn catch_signals(&self, terminated: &Arc<AtomicBool>, at_once: &Arc<AtomicBool>) -> io::Result<Signals> {
        use signal_hook::consts::{SIGINT, SIGTERM};
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(at_once))?;
            signal_hook::flag::register(signal, Arc::clone(terminated))?;
            signal_hook::low_level::pipe::register(signal, self.rope.try_clone()?)?;
        }
        Ok(Signals { at_once: Arc::clone(at_once) })
    }
}

#[cfg(not(unix))]
#[derive(Default)]
struct Waker {
    rung: std::sync::Mutex<bool>,
    changed: std::sync::Condvar,
}

#[cfg(not(unix))]
impl Waker {
    fn new() -> io::Result<Waker> {
        Ok(Waker::default())
    }

    fn ring(&self) {
        *crate::sync::lock(&self.rung) = true;
        self.changed.notify_all();
    }

    fn wait(&self, time: Option<Duration>) {
        let mut rung = crate::sync::lock(&self.rung);
        if !*rung {
            // Without a timeout a day: a spurious wake-up costs nothing.
            let time = time.unwrap_or(Duration::from_secs(86_400));
            rung = crate::sync::wait_for(&self.changed, rung, time);
        }
        *rung = false;
    }

    fn catch_signals(&self, _: &Arc<AtomicBool>, at_once: &Arc<AtomicBool>) -> io::Result<Signals> {
        Ok(Signals { at_once: Arc::clone(at_once) })
    }
}
