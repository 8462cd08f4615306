//! Started calls whose session was lost while nobody waits for them: sent again without waiting for
//! the wait.
//!
//! A call that somebody waits for is repeated by the thread that waits (`exchange.rs`). One that was
//! only started may be waited for much later, so a thread of the desk opens the session and sends it
//! again; whoever comes first, that thread or one that waits, does it, and the other leaves it.
//!
//! # Invariants
//! - A call is sent again once, and only when the server said that it had not acted on it.
//! - Whatever happens here, the request ends with an outcome: every way out fills the slot.

use std::sync::Arc;
use std::time::Instant;

use crate::era::order::Order;
use crate::model::Level;
use crate::transport::client::Failure;

use super::call::CallControl;
use super::connection::Core;
use super::pending_call::PendingCall;
use super::send::{Sending, send};

/// What it takes to send a request again.
pub(super) struct Resend {
    pub order: Arc<Order>,
    pub flag: Arc<CallControl>,
    /// How often the session had been opened again when the request was sent.
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
        // Who waits is told why: it tries once more.
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
