//! Lines for the operator, on standard error.
//!
//! What it does: writes them, each in one piece, and not more often than anybody can read. What it
//! does not: decide what is worth a line, or write to standard output, which may be the protocol's
//! (MCP basic/transports/stdio: a server MAY log to standard error).
//!
//! # Invariants
//! - A standard error that is closed, or that nobody reads, harms no caller: those that must not
//!   wait have [`Notices`] write for them.

use std::io::Write;
use std::sync::Once;

use crate::limits::Limits;

/// Writes a line. May wait for whoever reads: for threads that serve nobody yet.
pub(crate) fn say(line: &str) {
    // Where to complain that there is nobody to complain to?
    let _ = std::io::stderr().write_all(format!("tinymcp: {line}\n").as_bytes());
}

/// Names the variables that were meant for limits and are none: a slip of the pen leaves a limit as
/// it was. Once in a process, which may hold several servers.
pub(crate) fn say_once_what_is_unknown() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        for name in Limits::unknown_variables() {
            say(&format!("{name} is none of this program's limits and is ignored"));
        }
    });
}

#[cfg(feature = "http-server")]
pub(crate) use throttled::{Notices, Sink};

#[cfg(feature = "http-server")]
mod throttled {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// Between two lines of one kind.
    const QUIET: Duration = Duration::from_secs(60);
    /// The thread formats nothing.
    const STACK: usize = 64 << 10;

    /// Lines of a few kinds, from a thread that must not wait. One of each kind is written in
    /// [`QUIET`]; the next one tells how many were not.
    pub(crate) struct Notices<const KINDS: usize> {
        kinds: [Kind; KINDS],
        /// A line is being written.
        writing: Arc<AtomicBool>,
        sink: Arc<Sink>,
    }

    /// Receiver of lines.
    pub(crate) type Sink = dyn Fn(&str) + Send + Sync;

    #[derive(Clone, Copy, Default)]
    struct Kind {
        said: Option<Instant>,
        /// Not said since then.
        missed: u64,
    }

    impl<const KINDS: usize> Notices<KINDS> {
        pub(crate) fn new(sink: Arc<Sink>) -> Notices<KINDS> {
            Notices { kinds: [Kind::default(); KINDS], writing: Arc::default(), sink }
        }

        /// Writes a line of this kind, unless there was one lately.
        pub(crate) fn say(&mut self, kind: usize, now: Instant, line: impl FnOnce() -> String) {
            let Some(missed) = self.due(kind, now) else { return };
            let mut text = line();
            if missed > 0 {
                text += &format!(" ({missed} more like this since the last such line)");
            }
            let (writing, sink) = (Arc::clone(&self.writing), Arc::clone(&self.sink));
            writing.store(true, Ordering::Release);
            let thread = thread::Builder::new().name("mcp-notice".to_owned()).stack_size(STACK);
            let started = thread.spawn(move || {
                sink(&text);
                writing.store(false, Ordering::Release);
            });
            if started.is_err() {
                self.writing.store(false, Ordering::Release);
            }
        }

        /// Whether a line of this kind may be written, and how many were not since the last one.
        fn due(&mut self, kind: usize, now: Instant) -> Option<u64> {
            let kind = self.kinds.get_mut(kind)?;
            let early = kind.said.is_some_and(|said| now.saturating_duration_since(said) < QUIET);
            if early || self.writing.load(Ordering::Acquire) {
                kind.missed += 1;
                return None;
            }
            kind.said = Some(now);
            Some(std::mem::take(&mut kind.missed))
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn each_kind_is_said_once_in_a_while_and_counts_the_rest() {
            let mut notices = Notices::<2>::new(Arc::new(|_| ()));
            let start = Instant::now();
            assert_eq!(notices.due(0, start), Some(0));
            assert_eq!(notices.due(0, start), None);
            assert_eq!(notices.due(0, start + QUIET / 2), None);
            assert_eq!(notices.due(1, start), Some(0));
            assert_eq!(notices.due(0, start + QUIET), Some(2));
            assert_eq!(notices.due(2, start), None);
            notices.writing.store(true, Ordering::Release);
            assert_eq!(notices.due(1, start + QUIET), None);
            notices.writing.store(false, Ordering::Release);
            assert_eq!(notices.due(1, start + QUIET), Some(1));
        }
    }
}
