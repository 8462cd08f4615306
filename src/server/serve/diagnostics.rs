//! Lines for the operator, on standard error (MCP basic/transports/stdio: a server MAY log to
//! standard error). Each line is one write, and repeated lines are rate-limited.
//!
//! # Invariants
//! - A standard error that is closed or not read never blocks serving: see [`stderr`]. Threads that
//!   must not wait at all use [`Notices`].

use std::sync::Once;

use crate::limits::Limits;
use crate::stderr;

/// Writes a line, and waits for the reader as [`stderr::flush`] does: the program may end next.
#[cold]
pub(crate) fn report(line: &str) {
    stderr::write(format!("tinymcp: {line}\n"));
    stderr::flush();
}

/// Reports unknown `TINYMCP_*` variables, once per process.
pub(crate) fn report_unknown_variables() {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        for name in Limits::unknown_variables() {
            report(&format!("{name} is not a limit of this program and is ignored"));
        }
    });
}

#[cfg(feature = "http-server")]
pub(crate) use throttled::{DiagnosticSink, Notices};

#[cfg(feature = "http-server")]
mod throttled {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    /// Minimum time between two lines of one kind.
    const INTERVAL: Duration = Duration::from_secs(60);
    /// Stack of the writing thread, which formats nothing.
    const STACK: usize = 64 << 10;

    /// Rate-limited lines of a few kinds, for a thread that must not block. At most one line of
    /// each kind is written per [`INTERVAL`]; the next one reports the number of suppressed
    /// lines.
    pub(crate) struct Notices<const KINDS: usize> {
        kinds: [Kind; KINDS],
        /// A line is being written.
        writing: Arc<AtomicBool>,
        sink: Arc<DiagnosticSink>,
    }

    /// Receiver of lines.
    pub(crate) type DiagnosticSink = dyn Fn(&str) + Send + Sync;

    #[derive(Clone, Copy, Default)]
    struct Kind {
        written: Option<Instant>,
        /// Lines suppressed since then.
        missed: u64,
    }

    impl<const KINDS: usize> Notices<KINDS> {
        pub(crate) fn new(sink: Arc<DiagnosticSink>) -> Notices<KINDS> {
            Notices { kinds: [Kind::default(); KINDS], writing: Arc::default(), sink }
        }

        /// Writes a line of this kind, unless there was one within [`INTERVAL`].
        pub(crate) fn report(&mut self, kind: usize, now: Instant, line: impl FnOnce() -> String) {
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

        /// Returns the number of suppressed lines if a line of this kind may be written now.
        fn due(&mut self, kind: usize, now: Instant) -> Option<u64> {
            let kind = self.kinds.get_mut(kind)?;
            let early = kind.written.is_some_and(|at| now.saturating_duration_since(at) < INTERVAL);
            if early || self.writing.load(Ordering::Acquire) {
                kind.missed += 1;
                return None;
            }
            kind.written = Some(now);
            Some(std::mem::take(&mut kind.missed))
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_kind_is_written_once_per_interval_and_counts_suppressed_lines() {
            let mut notices = Notices::<2>::new(Arc::new(|_| ()));
            let start = Instant::now();
            assert_eq!(notices.due(0, start), Some(0));
            assert_eq!(notices.due(0, start), None);
            assert_eq!(notices.due(0, start + INTERVAL / 2), None);
            assert_eq!(notices.due(1, start), Some(0));
            assert_eq!(notices.due(0, start + INTERVAL), Some(2));
            assert_eq!(notices.due(2, start), None);
            notices.writing.store(true, Ordering::Release);
            assert_eq!(notices.due(1, start + INTERVAL), None);
            notices.writing.store(false, Ordering::Release);
            assert_eq!(notices.due(1, start + INTERVAL), Some(1));
        }
    }
}
