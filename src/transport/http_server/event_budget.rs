//! Bounds of event streams: their number, their backlogs, and the threads that wait for slow peers.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::limits::Limits;

/// Bounds that all event streams of a server share.
pub(crate) struct EventBudget {
    /// Maximum number of bytes queued on one event stream.
    pub(super) backlog_bytes: usize,
    /// Timeout of a wait for a peer that does not read.
    pub(super) stall_timeout: Duration,
    max_streams: usize,
    streams: AtomicUsize,
    /// Maximum number of threads blocked on slow peers: half of the workers, so that peers that do
    /// not read cannot occupy all workers.
    max_blocked: usize,
    blocked: AtomicUsize,
    /// Thread of the service, which never waits for a peer.
    service_thread: OnceLock<ThreadId>,
}

impl EventBudget {
    /// `max_streams` is a further bound on the number of event streams.
    pub(super) fn new(limits: &Limits, max_streams: usize) -> EventBudget {
        EventBudget {
            backlog_bytes: limits.backlog_bytes,
            stall_timeout: limits.http.stall_timeout,
            max_streams: limits.http.streams.min(max_streams.max(1)),
            streams: AtomicUsize::new(0),
            max_blocked: limits.workers / 2,
            blocked: AtomicUsize::new(0),
            service_thread: OnceLock::new(),
        }
    }

    /// Marks the calling thread as the thread of the service.
    pub(super) fn serve_here(&self) {
        self.service_thread.get_or_init(|| thread::current().id());
    }

    pub(super) fn is_service_thread(&self) -> bool {
        self.service_thread.get() == Some(&thread::current().id())
    }

    /// Counts a stream. Returns `false` if too many are open.
    pub(super) fn begin(&self) -> bool {
        let admit = |open| (open < self.max_streams).then_some(open + 1);
        self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit).is_ok()
    }

    pub(super) fn end(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a thread that would wait, and returns whether it may. The thread must call
    /// [`EventBudget::unblock`] in both cases.
    pub(super) fn block(&self) -> bool {
        self.blocked.fetch_add(1, Ordering::Relaxed) < self.max_blocked
    }

    pub(super) fn unblock(&self) {
        self.blocked.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether a backlog of `queued` bytes has space for `bytes` more.
    pub(super) fn has_space(&self, queued: usize, bytes: usize) -> bool {
        queued == 0 || queued + bytes <= self.backlog_bytes
    }

    /// Returns whether a backlog is more than half full.
    pub(super) fn is_congested(&self, queued: usize) -> bool {
        queued > self.backlog_bytes / 2
    }

    #[cfg(test)]
    pub(super) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }
}
