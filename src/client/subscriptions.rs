//! Subscriptions, and the listen requests of the stateless protocol.
//!
//! In a session the server sends changes of its lists and updates of subscribed resources without a
//! further request. In the stateless protocol one listen request contains the filter of all wanted
//! notifications. To change the filter, the client sends a new listen request and cancels the old
//! one after the new one is acknowledged, so that no notification is lost.
//!
//! Source: MCP 2026-07-28 basic/patterns/subscriptions; 2025-11-25 server/resources.
//!
//! # Invariants
//! - Notifications are delivered only if their listen request is in `live`.
//! - A listen request that the server ended is sent again, at most [`MAX_ATTEMPTS`] times in a row
//!   without a notification, after growing pauses. Then the handler of stray output is called.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::era::client::Envelope;
use crate::era::outgoing::{OutgoingRequest, RequestKind};
use crate::error::{Error, ErrorKind};
use crate::model::{Change, Filter};
use crate::sync::lock;
use crate::transport::client::Failure;

use super::connection::{Core, misbehaved, remote_error};
use super::pending_call::PendingCall;

/// Maximum number of consecutive attempts to send a listen request again that the server ended.
const MAX_ATTEMPTS: u32 = 6;
/// Base of the pause before an attempt: attempt n waits `PAUSE * 2^n`, with n at most 5.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Subscriptions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    wanted: Filter,
    version: u64,
    /// Open listen requests: usually one, two while one replaces the other.
    live: Vec<ListenRequest>,
    tries: u32,
}

struct ListenRequest {
    version: u64,
    /// Holds the acknowledged filter.
    pending: Arc<PendingCall>,
}

impl Subscriptions {
    /// Returns whether a listen request with this id is open.
    pub(super) fn listens(&self, id: u64) -> bool {
        lock(&self.state).live.iter().any(|l| l.pending.id() == id)
    }

    /// Returns the number of open listen requests.
    pub(super) fn open(&self) -> usize {
        lock(&self.state).live.len()
    }

    /// Resets the number of attempts, because a notification arrived.
    pub(super) fn received(&self) {
        lock(&self.state).tries = 0;
    }

    /// Stores the filter that the server acknowledged.
    pub(super) fn acknowledged(&self, id: u64, filter: Filter) {
        let live =
            lock(&self.state).live.iter().find(|l| l.pending.id() == id).map(|l| Arc::clone(&l.pending));
        if let Some(pending) = live {
            pending.acknowledge(filter);
        }
    }

    /// Removes a request that has ended. Returns whether it was a listen request that must be sent
    /// again.
    pub(super) fn ended(&self, id: u64) -> bool {
        let mut state = lock(&self.state);
        let Some(at) = state.live.iter().position(|l| l.pending.id() == id) else { return false };
        let ended = state.live.swap_remove(at);
        // Notifications are missed only if the request was acknowledged and not replaced.
        let newest = ended.version == state.version;
        drop(state);
        newest && ended.pending.acknowledged().is_some_and(|filter| filter != Filter::default())
    }

    /// Returns whether updates of this URI are wanted.
    pub(super) fn wants(&self, uri: &str) -> bool {
        lock(&self.state).wanted.uris.iter().any(|wanted| wanted == uri)
    }

    /// Returns the URIs of the subscribed resources.
    pub(super) fn uris(&self) -> Vec<String> {
        lock(&self.state).wanted.uris.clone()
    }

    /// Changes the wanted filter. Returns whether the filter is different now.
    pub(super) fn set_filter(&self, change: impl FnOnce(&mut Filter)) -> bool {
        let mut state = lock(&self.state);
        let before = state.wanted.clone();
        change(&mut state.wanted);
        state.wanted != before
    }
}

impl Core {
    /// Opens a listen request for the wanted filter, waits until the server acknowledges it, and
    /// cancels the previous one. Returns the acknowledged filter.
    pub(super) fn listen(self: &Arc<Self>) -> Result<Filter, Error> {
        let (wanted, version) = {
            let mut state = lock(&self.subscriptions.state);
            state.version += 1;
            (state.wanted.clone(), state.version)
        };
        if wanted == Filter::default() {
            self.end_listening(version);
            return Ok(wanted);
        }
        let request = OutgoingRequest::new(&RequestKind::Listen(&wanted))
            .map_err(|e| Error::new(ErrorKind::Invalid, e))?;
        let pending = PendingCall::new(None, false, &self.waiters);
        self.register(&pending).map_err(|f| f.to_error())?;
        lock(&self.subscriptions.state).live.push(ListenRequest { version, pending: Arc::clone(&pending) });
        let deadline = Instant::now() + self.limits.client.call_timeout;
        let envelope = Envelope::new(pending.id(), &self.identity);
        let acknowledged = match self.send(&request, &envelope, deadline, None) {
            Ok(()) => self.acknowledged(&pending, deadline),
            Err(failure) => Err(failure.to_error()),
        };
        if acknowledged.is_err() {
            lock(&self.subscriptions.state).live.retain(|l| !Arc::ptr_eq(&l.pending, &pending));
            self.give_up(&pending, Failure::Cancelled);
        } else {
            self.end_listening(version);
        }
        acknowledged
    }

    fn acknowledged(&self, pending: &PendingCall, deadline: Instant) -> Result<Filter, Error> {
        let guard = pending.waiter_guard();
        self.transport.resume_reader();
        let acknowledged = pending.wait_acknowledged(deadline);
        drop(guard);
        acknowledged.ok_or_else(|| match pending.take() {
            None => Failure::Timeout.to_error(),
            Some(Err(failure)) => failure.to_error(),
            Some(Ok(reply)) if reply.ok => {
                misbehaved("the server ended the listen request before it acknowledged it")
            }
            Some(Ok(reply)) => remote_error(&reply),
        })
    }

    /// Cancels the listen requests that are older than `version`.
    fn end_listening(&self, version: u64) {
        let mut old = Vec::new();
        lock(&self.subscriptions.state).live.retain(|l| {
            if l.version < version {
                old.push(Arc::clone(&l.pending));
            }
            l.version >= version
        });
        for pending in old {
            self.give_up(&pending, Failure::Cancelled);
        }
    }

    /// Sends a listen request again that the server ended. Runs on a handler thread.
    pub(super) fn listen_again(self: &Arc<Self>) {
        loop {
            let tries = {
                let mut state = lock(&self.subscriptions.state);
                state.tries += 1;
                state.tries
            };
            if tries > MAX_ATTEMPTS {
                let what = "the server ends every listen request: changes are no longer received";
                return self.handlers.report_stray_output(what.to_owned());
            }
            if !self.sleep(PAUSE * (1 << tries.min(5))) {
                return;
            }
            if self.listen().is_ok() {
                return self.assume_changed();
            }
        }
    }

    /// Handles a reported change.
    pub(super) fn changed(self: &Arc<Self>, change: Change) {
        self.cache.forget(&change);
        #[cfg(feature = "schema")]
        if change == Change::Tools {
            self.output_schemas.forget();
        }
        self.handlers.report_change(change);
    }

    /// Reports that everything may have changed, because notifications were missed.
    pub(super) fn assume_changed(self: &Arc<Self>) {
        let declared = self.server().capabilities;
        // A restarted server may have other tools even if it does not report changes.
        #[cfg(feature = "schema")]
        self.output_schemas.forget();
        let lists = [
            (declared.tools_changed, Change::Tools),
            (declared.prompts_changed, Change::Prompts),
            (declared.resources_changed, Change::Resources),
        ];
        let lists = lists.into_iter().filter(|(reported, _)| *reported).map(|(_, change)| change);
        for change in lists.chain(self.subscriptions.uris().into_iter().map(Change::ResourceUpdated)) {
            self.changed(change);
        }
    }
}
