//! Repetition of started calls whose session was lost.
//!
//! The waiting thread repeats a call that it waits for (`call.rs`). A started call may be waited
//! for much later, so a handler thread opens the session and sends the call again. The first of
//! these two threads does it, the other one does nothing.
//!
//! # Invariants
//! - A call is repeated once, and only if the server said that it had not acted on it.
//! - Every path ends with an outcome for the request.

use std::sync::Arc;
use std::time::Instant;

use crate::era::outgoing::OutgoingRequest;
use crate::model::Level;
use crate::transport::client::Failure;

use super::call::CallControl;
use super::connection::Core;
use super::pending_call::PendingCall;
use super::send::{Sending, send};

/// Data for sending a request again.
pub(super) struct Resend {
    pub order: Arc<OutgoingRequest>,
    pub flag: Arc<CallControl>,
    /// Session epoch in which the request was sent.
    pub epoch: u64,
    pub progress: bool,
    pub log: Option<Level>,
}

impl Core {
    /// Has a request sent again, if it can be, that just ended with a lost session.
    pub(super) fn resend(self: &Arc<Self>, slot: Arc<PendingCall>) {
        if let Some(resend) = slot.resend() {
            let core = Arc::clone(self);
            // OK to lose: whoever waits for the request then does it.
            self.desk.chore(Box::new(move || resend.run(&core, &slot)));
        }
    }
}

impl Resend {
    fn run(self, core: &Arc<Core>, slot: &Arc<PendingCall>) {
        if !slot.reopen() {
            return;
        }
        if let Err(failure) = self.send(core, slot) {
            Arc::clone(slot).fill(Err(failure));
        }
    }

    fn send(&self, core: &Arc<Core>, slot: &Arc<PendingCall>) -> Result<(), Failure> {
        let deadline = slot.deadline(&core.clock).unwrap_or_else(Instant::now);
        // The waiting thread gets this and tries once more.
        core.renew(self.epoch, deadline).map_err(|_| Failure::SessionLost)?;
        let id = core.register(Arc::clone(slot))?;
        let sent = if !self.flag.sends(id) {
            Err(Failure::Cancelled)
        } else if slot.over() {
            // Its time ran out meanwhile.
            Err(Failure::Timeout)
        } else {
            slot.resent();
            let (progress, log) = (self.progress, self.log);
            send(core, &Sending { progress, log, ..Sending::new(id, &self.order, deadline) }, None)
        };
        if sent.is_err() {
            core.take(id);
        }
        sent
    }
}
