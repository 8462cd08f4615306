//! Subscriptions, and the listen requests that carry them.
//!
//! In a session the server sends changes of its lists, and updates of subscribed resources. In the
//! stateless protocol one listen request names everything that is wanted. When that changes, a new
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

use crate::era::outgoing::{OutgoingRequest, RequestKind};
use crate::error::{Error, ErrorKind};
use crate::model::{Change, Filter};
use crate::rpc::RpcError;
use crate::transport::client::Failure;

use super::connection::{Core, lock, remote};
use super::pending_call::PendingCall;
use super::send::{Sending, send};

/// Attempts in a row to reopen a listen request that the server ended.
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
    /// Open requests: usually one, two while one takes the other's place.
    live: Vec<Live>,
    tries: u32,
}

struct Live {
    id: u64,
    version: u64,
    /// Knows what the server said it will tell.
    slot: Arc<PendingCall>,
}

impl Subscriptions {
    /// Returns whether a listen request with this id is open.
    pub(super) fn listens(&self, id: u64) -> bool {
        lock(&self.state).live.iter().any(|l| l.id == id)
    }

    /// Returns the number of open listen requests.
    pub(super) fn open(&self) -> usize {
        lock(&self.state).live.len()
    }

    /// Something was told: the connection works.
    pub(super) fn heard(&self) {
        lock(&self.state).tries = 0;
    }

    /// The server said what it will tell.
    pub(super) fn acknowledged(&self, id: u64, filter: Filter) {
        let live = lock(&self.state).live.iter().find(|l| l.id == id).map(|l| Arc::clone(&l.slot));
        if let Some(slot) = live {
            slot.acknowledge(filter);
        }
    }

    /// A request is over; whether it was one that listens and should be sent again.
    pub(super) fn ended(&self, id: u64) -> bool {
        let mut state = lock(&self.state);
        let Some(at) = state.live.iter().position(|l| l.id == id) else { return false };
        let ended = state.live.swap_remove(at);
        // Only what was acknowledged and not yet replaced is missed.
        let newest = ended.version == state.version;
        drop(state);
        newest && ended.slot.acknowledged().is_some_and(|told| told != Filter::default())
    }

    /// Returns whether updates of this URI are wanted.
    pub(super) fn wants(&self, uri: &str) -> bool {
        lock(&self.state).wanted.uris.iter().any(|wanted| wanted == uri)
    }

    /// The URIs of which updates are wanted.
    pub(super) fn uris(&self) -> Vec<String> {
        lock(&self.state).wanted.uris.clone()
    }

    /// Changes what is wanted; whether that is a change.
    pub(super) fn want(&self, change: impl FnOnce(&mut Filter)) -> bool {
        let mut state = lock(&self.state);
        let before = state.wanted.clone();
        change(&mut state.wanted);
        state.wanted != before
    }
}

impl Core {
    /// Opens a listen request for everything that is wanted now, waits until the server says what
    /// of that it will tell, and ends the one before.
    pub(super) fn listen(self: &Arc<Self>) -> Result<Filter, Error> {
        let (wanted, version) = {
            let mut state = lock(&self.listening.state);
            state.version += 1;
            (state.wanted.clone(), state.version)
        };
        if wanted == Filter::default() {
            self.end_listening(version);
            return Ok(wanted);
        }
        let order = OutgoingRequest::new(&RequestKind::Listen(&wanted))
            .map_err(|e| Error::new(ErrorKind::Invalid, e))?;
        let slot = Arc::new(PendingCall::new(None, false, &self.clock, &self.waiters));
        let id = self.register(Arc::clone(&slot)).map_err(|f| f.to_error())?;
        lock(&self.listening.state).live.push(Live { id, version, slot: Arc::clone(&slot) });
        let deadline = Instant::now() + self.limits.call_timeout;
        let sent = send(self, &Sending { stream: true, ..Sending::new(id, &order, deadline) }, None);
        let told = match sent {
            Ok(()) => self.acknowledged(&slot, deadline),
            Err(failure) => Err(failure.to_error()),
        };
        if told.is_err() {
            lock(&self.listening.state).live.retain(|l| l.id != id);
            self.give_up(id, Failure::Cancelled);
        } else {
            self.end_listening(version);
        }
        told
    }

    fn acknowledged(&self, slot: &PendingCall, deadline: Instant) -> Result<Filter, Error> {
        let awaited = slot.awaited();
        self.carrier.attend();
        let acknowledged = slot.wait_acknowledged(deadline);
        drop(awaited);
        acknowledged.ok_or_else(|| match slot.take() {
            None => Failure::Timeout.to_error(),
            Some(Err(failure)) => failure.to_error(),
            Some(Ok(reply)) if reply.ok => Error::new(
                ErrorKind::PeerMisbehaved,
                "the server ended the listen request before it acknowledged it",
            ),
            Some(Ok(reply)) => RpcError::read(reply.value())
                .map_or_else(|| Error::new(ErrorKind::PeerMisbehaved, "a malformed error"), remote),
        })
    }

    /// Ends the listen requests that a newer one has replaced.
    fn end_listening(&self, version: u64) {
        let mut old = Vec::new();
        lock(&self.listening.state).live.retain(|l| {
            if l.version < version {
                old.push(l.id);
            }
            l.version >= version
        });
        for id in old {
            self.give_up(id, Failure::Cancelled);
        }
    }

    /// Opens the listen request again that ended by itself. Runs at the desk.
    pub(super) fn listen_again(self: &Arc<Self>) {
        loop {
            let tries = {
                let mut state = lock(&self.listening.state);
                state.tries += 1;
                state.tries
            };
            if tries > TRIES {
                let what = "the server ends every listen request: changes are no longer received";
                return self.desk.tell_noise(what.to_owned());
            }
            if !self.rest(PAUSE * (1 << tries.min(5))) {
                return;
            }
            if self.listen().is_ok() {
                return self.missed();
            }
        }
    }

    /// Something is not what it was.
    pub(super) fn changed(self: &Arc<Self>, change: Change) {
        self.cache.forget(&change);
        #[cfg(feature = "schema")]
        if change == Change::Tools {
            self.outputs.forget();
        }
        self.desk.tell_change(change);
    }

    /// For a while the server could not tell of anything, perhaps because it was started anew: all
    /// of which it would have told counts as changed.
    pub(super) fn missed(self: &Arc<Self>) {
        let offer = self.greeting().offer;
        // A server that was started anew may have other tools even if it never tells of them.
        #[cfg(feature = "schema")]
        self.outputs.forget();
        let lists = [
            (offer.tools_changed, Change::Tools),
            (offer.prompts_changed, Change::Prompts),
            (offer.resources_changed, Change::Resources),
        ];
        let lists = lists.into_iter().filter(|(told, _)| *told).map(|(_, change)| change);
        for change in lists.chain(self.listening.uris().into_iter().map(Change::Updated)) {
            self.changed(change);
        }
    }
}
