//! Deferred calls: a handler returns [`Output::Deferred`], which frees its worker, and another
//! thread ends the call through a [`Deferred`]. A served hub uses this.
//!
//! Until a `Deferred` is consumed, its call is in flight like any other: the client may cancel it,
//! and the watchdog ends it at the deadline of [`Deferred::allow`]. [`Deferred::on_cancel`] reports
//! both.
//!
//! # Invariants
//! - All output goes through the connection's outbox, so a thread that reads for another connection
//!   may send it. Only [`Deferred::finish`] with a result blocks, while a client on a stream does
//!   not read what is queued for it: the thread stops reading then, and the call stays in flight.
//! - A call gets one response, also when its `Deferred` is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::era::RequestMode;
use crate::json::Json;
use crate::model::Fault;
use crate::model::client_request::KeyedRequest;

use super::request_state::NOTE;
use super::{CallResult, Job, Output, failed};
use crate::server::serve::state::Shared;
use crate::server::tool_error::ToolError;

/// Callback that takes over a call.
pub(crate) type DeferFn = Box<dyn FnOnce(Deferred) + Send>;

/// A call in flight whose handler has returned.
pub(crate) struct Deferred {
    pub(in crate::server) job: Option<Job>,
    shared: Arc<Shared>,
}

impl Deferred {
    /// Wraps the job of a call whose handler deferred it.
    pub(crate) fn of(mut job: Job) -> Deferred {
        job.must_not_block = true;
        let shared = Arc::clone(&job.conn.core.shared);
        shared.deferred.fetch_add(1, Ordering::SeqCst);
        Deferred { job: Some(job), shared }
    }

    /// Runs `hook` when the call is cancelled, at once if it already is. The hook must not block. A
    /// later hook replaces it.
    pub(crate) fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        if let Some(job) = &self.job {
            job.call.on_cancel(Box::new(hook));
        }
    }

    /// Sets the deadline of the call to `time` from now.
    pub(crate) fn allow(&self, time: Duration) {
        if let Some(job) = &self.job {
            job.conn.reschedule(&job.call, time, job.weight());
        }
    }

    /// Ends a subscribe call once the delegate has reported whether updates are available.
    pub(crate) fn subscribe(self, uri: String) {
        let Some(job) = &self.job else { return };
        let (conn, shared, left) = (Arc::clone(&job.conn), Arc::clone(&self.shared), uri.clone());
        self.on_cancel(move || {
            conn.unsubscribe(&left);
            if let Some(delegate) = shared.delegate() {
                delegate.listeners_changed();
            }
        });
        let shared = Arc::clone(&self.shared);
        let Some(delegate) = shared.delegate() else { return self.finish(Ok(Output::Empty)) };
        delegate.watch(
            vec![uri],
            Box::new(move |watched| {
                let lost = || Err(ToolError::new("the handler dropped the subscription"));
                let result = watched.into_iter().next().map_or_else(lost, |(_, result)| result);
                self.finish(result.map(|()| Output::Empty));
            }),
        );
    }

    /// Ends a client's first request once the delegate has reported its instructions. The delegate
    /// bounds the time.
    pub(crate) fn describe_server(self) {
        self.allow(Duration::ZERO);
        let shared = Arc::clone(&self.shared);
        let Some(delegate) = shared.delegate() else {
            return self.finish(Ok(Output::ServerDescription(None)));
        };
        delegate.instructions(Box::new(move |instructions| {
            self.finish(Ok(Output::ServerDescription(instructions)))
        }));
    }

    /// Ends the call with this result.
    pub(crate) fn finish(mut self, result: Result<Output, ToolError>) {
        let Some(job) = self.job.take() else { return };
        if matches!(result, Ok(Output::Raw(_))) {
            let max = job.conn.core.limits.in_flight_bytes;
            job.conn.outbox.wait_for_room(max, &|| job.call.is_settled() || job.sink.closed());
        }
        let result = match result {
            Ok(outcome) => CallResult::Done(outcome),
            Err(failure) => failed(&job.query, job.era, failure, Vec::new()),
        };
        job.settle(result);
    }

    /// Sends requests to the client. The handler runs again with the responses and `note`.
    #[allow(dead_code)] // Used by tasks and by the hub.
    pub(crate) fn send_input_requests(mut self, requests: Vec<KeyedRequest>, note: &Json) {
        let Some(mut job) = self.job.take() else { return };
        // The responses of earlier rounds were already forwarded.
        job.responses = vec![(NOTE.to_owned(), Ok(note.to_doc()))];
        if let RequestMode::InResult = job.era.request_mode() {
            if let Err(fault) = job.conn.core.ensure_sealer() {
                return job.settle(CallResult::Fault(fault));
            }
        }
        for input in &requests {
            let needed = input.request.needs();
            if !job.query.peer.capabilities.contains(needed) {
                let failure = ToolError::fault(Fault::MissingCapability(needed));
                let result = failed(&job.query, job.era, failure, Vec::new());
                return job.settle(result);
            }
        }
        job.settle(CallResult::InputRequired(requests));
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.settle(CallResult::Fault(Fault::Internal("The handler dropped the deferred call")));
        }
        // After the response, because shutdown waits until this counter is zero.
        self.shared.deferred.fetch_sub(1, Ordering::SeqCst);
    }
}
