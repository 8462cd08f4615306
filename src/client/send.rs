//! Sending of one request, and requests without rounds such as the handshake.
//!
//! The era writes the frame and the transport sends it. The caller that registered the request
//! removes it from the table after its deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::client::Envelope;
use crate::era::outgoing::OutgoingRequest;
use crate::json::Writer;
use crate::model::Level;
use crate::transport::client::{Failure, Kind, Outgoing, Session, Wait};

use super::connection::Core;
use super::pending_call::{CallTimeout, PendingCall, Reply, WaitOutcome};

/// One request to send.
pub(super) struct Sending<'a> {
    pub id: u64,
    pub order: &'a OutgoingRequest,
    pub deadline: Instant,
    pub progress: bool,
    pub log: Option<Level>,
    pub answers: Option<&'a str>,
    pub state: Option<&'a str>,
    pub opens: bool,
    pub stream: bool,
    pub able: Option<crate::model::ClientCapabilities>,
}

impl<'a> Sending<'a> {
    pub(super) fn new(id: u64, order: &'a OutgoingRequest, deadline: Instant) -> Sending<'a> {
        Sending {
            id,
            order,
            deadline,
            progress: false,
            log: None,
            answers: None,
            state: None,
            opens: false,
            stream: false,
            able: None,
        }
    }
}

/// Sends a request that is in the table.
pub(super) fn send(
    core: &Core,
    sending: &Sending<'_>,
    here: Option<&mut dyn FnMut() -> bool>,
) -> Result<(), Failure> {
    let era = core.era();
    let mut w = Writer::with_capacity(384 + sending.order.params.len());
    let envelope = Envelope {
        id: sending.id,
        card: &core.card,
        progress: sending.progress,
        log: sending.log,
        answers: sending.answers,
        state: sending.state,
        able: sending.able,
    };
    era.request(&mut w, &envelope, sending.order);
    #[cfg_attr(not(feature = "http-client"), allow(unused_mut))]
    let mut headers = if core.traits.headers {
        era.headers(core.greeting().revision, Some(sending.order))
    } else {
        Vec::new()
    };
    #[cfg(feature = "http-client")]
    if core.mirrors_arguments() {
        core.mirrors.headers(sending.order, &mut headers);
    }
    let message = Outgoing {
        frame: w.as_bytes(),
        kind: if sending.stream { Kind::Stream(sending.id) } else { Kind::Request(sending.id) },
        session: match (sending.opens, era.sessions()) {
            (true, _) => Session::Opens,
            (false, true) => Session::Within,
            (false, false) => Session::None,
        },
        headers: &headers,
        deadline: sending.deadline,
    };
    core.carrier.send(&message, here.map_or(Wait::Queued, Wait::Blocking))
}

/// One request outside the rounds of a call, as the opening of a session needs.
pub(super) struct Once {
    pub id: u64,
    slot: Arc<PendingCall>,
}

impl Once {
    pub(super) fn send(
        core: &Core,
        order: &OutgoingRequest,
        timeout: Duration,
        opens: bool,
    ) -> Result<Once, Failure> {
        let patience = CallTimeout { timeout, longest: timeout, extend: false };
        let slot = Arc::new(PendingCall::new(Some(patience), false, &core.clock, &core.waiters));
        let id = core.register(Arc::clone(&slot))?;
        let sending = Sending { opens, ..Sending::new(id, order, Instant::now() + timeout) };
        if let Err(failure) = send(core, &sending, Some(&mut || !slot.over())) {
            core.take(id);
            return Err(failure);
        }
        Ok(Once { id, slot })
    }

    /// Waits; the request stays in the table when its time is over.
    pub(super) fn wait(&self, core: &Arc<Core>) -> Result<Reply, Failure> {
        match core.wait(&self.slot, None, None) {
            WaitOutcome::Over(outcome) => outcome,
            WaitOutcome::NotYet | WaitOutcome::Expired => Err(Failure::Timeout),
        }
    }

    /// The answer, if it has come by now.
    pub(super) fn late(&self) -> Option<Reply> {
        self.slot.take()?.ok()
    }
}
