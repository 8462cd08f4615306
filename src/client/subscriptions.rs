//! Subscriptions and the listen requests that carry them.
//!
//! In a session the server sends changes of its lists, and updates of subscribed resources. In the
//! stateless protocol one listen request names all wanted changes. When that changes, a new
//! request is acknowledged before the old one is cancelled, so that no notification is lost.
//!
//! Source: MCP 2026-07-28 basic/patterns/subscriptions; 2025-11-25 server/resources.
//!
//! # Invariants
//! - Notifications count only if their listen request is in `live`.
//! - A listen request that the server ended is sent again, at most [`TRIES`] times in a row without
//!   a notification, after growing pauses. Then the noise handler is called.

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

/// Consecutive attempts to reopen a listen request that the server ended.
const TRIES: u32 = 6;
/// The first pause before that; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Subscriptions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    wanted: Filter,
    version: u64,
    /// Open requests: usually one, two while one replaces the other.
    live: Vec<Live>,
    tries: u32,
}

struct Live {
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

    /// A notification arrived: resets the number of attempts.
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

    /// Removes a request that is over. Returns whether it was a listen request to send again.
    pub(super) fn ended(&self, id: u64) -> bool {
        let mut state = lock(&self.state);
        let Some(at) = state.live.iter().position(|l| l.pending.id() == id) else { return false };
        let ended = state.live.swap_remove(at);
        // Notifications are missed only if it was acknowledged and not replaced.
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

    /// Changes the wanted filter. Returns whether it is different now.
    pub(super) fn want(&self, change: impl FnOnce(&mut Filter)) -> bool {
        let mut state = lock(&self.state);
        let before = state.wanted.clone();
        change(&mut state.wanted);
        state.wanted != before
    }
}

impl Core {
    /// Opens a listen request for the wanted filter, waits until the server acknowledges it, and
    /// ends the one before. Returns the acknowledged filter.
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
        lock(&self.subscriptions.state).live.push(Live { version, pending: Arc::clone(&pending) });
        let deadline = Instant::now() + self.limits.call_timeout;
        let envelope = Envelope::new(pending.id(), &self.card);
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
        let awaited = pending.awaited();
        self.transport.attend();
        let acknowledged = pending.wait_acknowledged(deadline);
        drop(awaited);
        acknowledged.ok_or_else(|| match pending.take() {
            None => Failure::Timeout.to_error(),
            Some(Err(failure)) => failure.to_error(),
            Some(Ok(reply)) if reply.ok => {
                misbehaved("the server ended the listen request before it acknowledged it")
            }
            Some(Ok(reply)) => remote_error(&reply),
        })
    }

    /// Ends the listen requests that a newer one has replaced.
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

    /// Opens a listen request again that the server ended. Runs on a handler thread.
    pub(super) fn listen_again(self: &Arc<Self>) {
        loop {
            let tries = {
                let mut state = lock(&self.subscriptions.state);
                state.tries += 1;
                state.tries
            };
            if tries > TRIES {
                let what = "the server ends every listen request: changes are no longer received";
                return self.handlers.report_noise(what.to_owned());
            }
            if !self.rest(PAUSE * (1 << tries.min(5))) {
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
        let offer = self.greeting().offer;
        // A restarted server may have other tools even if it does not report changes.
        #[cfg(feature = "schema")]
        self.output_schemas.forget();
        let lists = [
            (offer.tools_changed, Change::Tools),
            (offer.prompts_changed, Change::Prompts),
            (offer.resources_changed, Change::Resources),
        ];
        let lists = lists.into_iter().filter(|(reported, _)| *reported).map(|(_, change)| change);
        for change in lists.chain(self.subscriptions.uris().into_iter().map(Change::Updated)) {
            self.changed(change);
        }
    }
}
