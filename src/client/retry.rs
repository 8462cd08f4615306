//! Repetition of started calls whose session was lost.
//!
//! A thread that waits for a call sends it again itself (`call.rs`). A program may wait for a
//! started call much later, so a handler thread opens the session and sends the call again. The
//! first of these two threads sends it, the other one does nothing.
//!
//! # Invariants
//! - A call is repeated once, and only if the server reported that it had not processed it.
//! - Every path ends with an outcome for the request.

use std::sync::Arc;
use std::time::Instant;

use crate::era::client::Envelope;
use crate::transport::client::Failure;

use super::connection::Core;
use super::pending_call::{PendingCall, Resend};

impl Core {
    /// Repeats a request whose session was lost, if its data are still stored.
    pub(super) fn resend(self: &Arc<Self>, pending: Arc<PendingCall>) {
        let Some(resend) = pending.take_resend() else { return };
        let core = Arc::clone(self);
        // OK to drop: then the thread that waits for the request repeats it.
        self.handlers.run_later(Box::new(move || {
            if !pending.reopen() {
                return;
            }
            if let Err(failure) = core.send_again(&resend, &pending) {
                pending.finish(Err(failure));
            }
        }));
    }

    fn send_again(self: &Arc<Self>, resend: &Resend, pending: &Arc<PendingCall>) -> Result<(), Failure> {
        let deadline = pending.deadline().unwrap_or_else(Instant::now);
        // The waiting thread receives this failure and tries once more.
        self.renew(resend.epoch, deadline).map_err(|_| Failure::SessionLost)?;
        self.register(pending)?;
        // Checked after `register` has set the id: a canceller sets the outcome, then reads the id
        // again.
        let sent = if pending.is_finished() {
            Err(Failure::Timeout)
        } else {
            pending.set_resent();
            let (progress, log) = (resend.progress, resend.log_level);
            let envelope = Envelope { progress, log, ..Envelope::new(pending.id(), &self.identity) };
            self.send(&resend.request, &envelope, deadline, None)
        };
        if sent.is_err() {
            self.take(pending.id());
        }
        sent
    }
}
