//! Response to a request that another HTTP server received. Threads of the service write it, a
//! thread of that server reads it.
//!
//! # Invariants
//! - A mailbox has one slot: a whole response, or the events that were not taken yet, within
//!   [`EventBudget`].
//! - The reading thread waits until [`Mailbox::end`] at the latest. Writing threads wait as they do
//!   for a connection.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::sync::{lock, wait_for};

use super::connection::COMMENT;
use super::event_budget::EventBudget;
use super::peer::Peer;
use super::responder::ResponseWriter;
use super::response_head::Field;

/// Response to one request.
pub(crate) struct Mailbox {
    pub(super) id: u64,
    peer: Option<Peer>,
    budget: Arc<EventBudget>,
    /// Callback that runs when the response ends.
    on_end: Box<dyn Fn() + Send + Sync>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Status and fields, until they are taken.
    head: Option<(u16, Vec<(String, String)>)>,
    bytes: Vec<u8>,
    /// The response is an event stream, or was one.
    streams: bool,
    /// The reading thread does not read the rest of the response.
    left: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Pending,
    Streaming,
    /// The response ended, or was aborted.
    Over,
}

/// Beginning of a response.
pub(crate) struct MailboxHead {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    /// The whole body, or `None` if events follow.
    pub(crate) body: Option<Vec<u8>>,
}

impl Mailbox {
    pub(super) fn new(
        id: u64,
        peer: Option<Peer>,
        budget: &Arc<EventBudget>,
        on_end: Box<dyn Fn() + Send + Sync>,
    ) -> Mailbox {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Mailbox { id, peer, budget: Arc::clone(budget), on_end, state, changed }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for the response. `None` if the server ended without one.
    pub(crate) fn take_head(&self) -> Option<MailboxHead> {
        let mut state = self.state();
        loop {
            if let Some((status, fields)) = state.head.take() {
                let body = (!state.streams).then(|| std::mem::take(&mut state.bytes));
                return Some(MailboxHead { status, fields, body });
            }
            if state.phase == Phase::Over {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Waits for events. Returns a comment if none arrives within `interval`, so that the write of
    /// the comment detects a disconnected peer. Returns `None` at the end of the stream.
    pub(crate) fn take_events(&self, interval: Duration) -> Option<Vec<u8>> {
        let until = Instant::now() + interval;
        let mut state = self.state();
        loop {
            if !state.bytes.is_empty() {
                self.changed.notify_all();
                return Some(std::mem::take(&mut state.bytes));
            }
            if state.phase == Phase::Over {
                return None;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(COMMENT.to_vec());
            }
            state = wait_for(&self.changed, state, left);
        }
    }

    /// Records that the reading thread does not read the rest of the response. Returns whether the
    /// response was still open.
    pub(crate) fn abandon(&self) -> bool {
        let mut state = self.state();
        state.left = true;
        let was_open = state.phase != Phase::Over;
        self.finish_with(state);
        was_open
    }

    /// Ends the response without further bytes.
    pub(super) fn end(&self) {
        let mut state = self.state();
        if state.phase == Phase::Streaming {
            state.bytes.clear();
        }
        self.finish_with(state);
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().phase == Phase::Over
    }

    fn finish_with(&self, mut state: MutexGuard<'_, State>) {
        let before = std::mem::replace(&mut state.phase, Phase::Over);
        drop(state);
        self.changed.notify_all();
        if before == Phase::Streaming {
            self.budget.end();
        }
        if before != Phase::Over {
            (self.on_end)();
        }
    }

    /// Waits until there is space for `bytes` more events.
    fn wait_for_space<'m>(&'m self, mut state: MutexGuard<'m, State>, bytes: usize) -> MutexGuard<'m, State> {
        let deadline = Instant::now() + self.budget.stall_timeout;
        if self.budget.block() {
            while state.phase == Phase::Streaming && !self.budget.has_space(state.bytes.len(), bytes) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = wait_for(&self.changed, state, left);
            }
        }
        self.budget.unblock();
        state
    }
}

impl ResponseWriter for Mailbox {
    fn peer(&self) -> Option<Peer> {
        self.peer
    }

    fn is_open(&self, _id: u64) -> bool {
        !self.is_over()
    }

    fn respond(
        &self,
        _id: u64,
        status: u16,
        fields: &mut dyn Iterator<Item = Field<'_>>,
        body: &[u8],
    ) -> bool {
        let mut state = self.state();
        if state.phase != Phase::Pending {
            return false;
        }
        state.head = Some((status, owned(fields)));
        state.bytes = body.to_vec();
        self.finish_with(state);
        true
    }

    fn start_events(&self, _id: u64, fields: &mut dyn Iterator<Item = Field<'_>>, first: &[u8]) -> bool {
        let mut state = self.state();
        if state.phase != Phase::Pending || !self.budget.begin() {
            return false;
        }
        (state.phase, state.streams) = (Phase::Streaming, true);
        state.head = Some((200, owned(fields)));
        state.bytes = first.to_vec();
        self.changed.notify_all();
        true
    }

    fn send_event(&self, _id: u64, bytes: &[u8], waits: bool) -> bool {
        let mut state = self.state();
        if waits && !self.budget.has_space(state.bytes.len(), bytes.len()) && !self.budget.is_service_thread()
        {
            state = self.wait_for_space(state, bytes.len());
        }
        if state.phase != Phase::Streaming {
            return false;
        }
        if !self.budget.has_space(state.bytes.len(), bytes.len()) {
            drop(state);
            self.end();
            return false;
        }
        state.bytes.extend_from_slice(bytes);
        self.changed.notify_all();
        true
    }

    fn finish(&self, _id: u64, last: &[u8]) -> bool {
        let mut state = self.state();
        if state.phase != Phase::Streaming {
            return false;
        }
        state.bytes.extend_from_slice(last);
        self.finish_with(state);
        true
    }

    fn abort(&self, _id: u64) {
        self.end();
    }

    fn is_closed(&self, _id: u64) -> bool {
        let state = self.state();
        state.left || state.phase == Phase::Over
    }

    fn is_congested(&self, _id: u64) -> bool {
        self.budget.is_congested(self.state().bytes.len())
    }
}

fn owned(fields: &mut dyn Iterator<Item = Field<'_>>) -> Vec<(String, String)> {
    fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect()
}
