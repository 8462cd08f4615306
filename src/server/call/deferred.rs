//! Deferred calls: a handler returns [`Handled::Deferred`], which frees its worker, and another
//! thread ends the call through a [`Deferred`]. A served hub uses this.
//!
//! Until a `Deferred` is consumed its call is in flight like any other: the client may cancel it,
//! and the watchdog ends it after the time of [`Deferred::allow`]. [`Deferred::on_cancel`] reports
//! both.
//!
//! # Invariants
//! - No function blocks on the client: all output goes through the connection's outbox, so a
//!   thread that reads for another connection may send it.
//! - A call gets one response, also when its `Deferred` is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::era::{self, Questions, Signal};
use crate::json::{Json, Writer};
use crate::model::client_request::{Ask, AskRequest};
use crate::model::{ClientCapabilities, Fault, Level};

use super::in_flight::Call;
use super::request_state::NOTE;
use super::{CallResult, Handled, Job, failed};
use crate::server::connection::Connection;
use crate::server::serve::state::Shared;
use crate::server::tool_error::ToolError;

/// Callback that takes over a call.
pub(crate) type Begin = Box<dyn FnOnce(Deferred) + Send>;

/// A call in flight whose handler has returned.
pub(crate) struct Deferred {
    job: Option<Job>,
    shared: Arc<Shared>,
}

/// Sender of a call, as far as it is known.
#[derive(Clone)]
pub(crate) struct Caller {
    conn: Arc<Connection>,
    call: Arc<Call>,
}

impl Caller {
    /// Returns whether both calls certainly come from one client.
    pub(crate) fn is(&self, other: &Caller) -> bool {
        Arc::ptr_eq(&self.call, &other.call) || (Arc::ptr_eq(&self.conn, &other.conn) && !self.conn.shared)
    }

    /// Logs an entry to the session of the call, if one is open and requested it.
    pub(crate) fn log(&self, level: Level, logger: &str, data: &Json) {
        self.conn.log(level, Some(logger), data);
    }
}

impl Deferred {
    /// The call of a handler that deferred it.
    pub(crate) fn of(mut job: Job) -> Deferred {
        job.posts = true;
        let shared = Arc::clone(&job.conn.core.shared);
        shared.deferred.fetch_add(1, Ordering::SeqCst);
        Deferred { job: Some(job), shared }
    }

    /// The sender of the call.
    pub(crate) fn caller(&self) -> Option<Caller> {
        let job = self.job.as_ref()?;
        Some(Caller { conn: Arc::clone(&job.conn), call: Arc::clone(&job.call) })
    }

    /// The client's capabilities.
    pub(crate) fn client_can(&self) -> ClientCapabilities {
        self.job.as_ref().map(|job| job.query.peer.capabilities).unwrap_or_default()
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

    /// Reports progress if the client requested it. Dropped while the client does not read.
    pub(crate) fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(job) = &self.job else { return };
        if let Some(token) = job.query.progress {
            self.signal(job, Signal::Progress { token: job.doc.at(token).raw(), done, total, message });
        }
    }

    /// Logs an entry for this call, if the client requested entries of this level.
    pub(crate) fn log(&self, level: Level, logger: &str, data: &Json) {
        let Some(job) = &self.job else { return };
        if job.query.peer.log_level.is_some_and(|floor| level >= floor) {
            self.signal(job, Signal::Log { level, logger: Some(logger), data });
        }
    }

    fn signal(&self, job: &Job, signal: Signal<'_>) {
        if job.call.is_settled() || job.conn.congested() {
            return;
        }
        let mut w = Writer::new();
        job.era.signal(&mut w, job.query.peer.revision, signal);
        w.newline();
        job.conn.outbox.send(&job.sink, w.into_bytes());
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
        let Some(delegate) = shared.delegate() else { return self.finish(Ok(Handled::Empty)) };
        delegate.watch(
            vec![uri],
            Box::new(move |watched| {
                let lost = || Err(ToolError::new("the handler dropped the subscription"));
                let result = watched.into_iter().next().map_or_else(lost, |(_, result)| result);
                self.finish(result.map(|()| Handled::Empty));
            }),
        );
    }

    /// Ends a greeting once the delegate has reported its instructions, within a time that it
    /// bounds.
    pub(crate) fn greet(self) {
        self.allow(Duration::ZERO);
        let shared = Arc::clone(&self.shared);
        let Some(delegate) = shared.delegate() else { return self.finish(Ok(Handled::Greeting(None))) };
        delegate.greet(Box::new(move |instructions| self.finish(Ok(Handled::Greeting(instructions)))));
    }

    /// Ends the call with this result.
    pub(crate) fn finish(mut self, result: Result<Handled, ToolError>) {
        let Some(job) = self.job.take() else { return };
        let result = match result {
            Ok(outcome) => CallResult::Done(outcome),
            Err(failure) => failed(&job.scope(), failure, Vec::new()),
        };
        job.settle(result);
    }

    /// Sends requests to the client. The handler runs again with the responses and `note`.
    pub(crate) fn ask(mut self, questions: &[(String, AskRequest)], note: &Json) {
        let Some(mut job) = self.job.take() else { return };
        // The responses of earlier rounds were forwarded.
        job.answers = vec![(NOTE.to_owned(), Ok(note.to_doc()))];
        if let Questions::InResult = job.era.questions() {
            if let Err(fault) = job.conn.core.need_sealer() {
                return job.settle(CallResult::Fault(fault));
            }
        }
        for (_, request) in questions {
            let needed = request.needs();
            if !job.query.peer.capabilities.cover(needed) {
                let failure = ToolError::fault(Fault::MissingCapability(needed));
                let result = failed(&job.scope(), failure, Vec::new());
                return job.settle(result);
            }
        }
        let ask = |(key, request): &(String, AskRequest)| Ask {
            key: key.clone(),
            request: request.clone(),
            write: era::question,
        };
        job.settle(CallResult::Asked(questions.iter().map(ask).collect()));
    }

    /// Runs the handler again with `note`.
    pub(crate) fn again(mut self, note: &Json) {
        let Some(mut job) = self.job.take() else { return };
        job.answers = vec![(NOTE.to_owned(), Ok(note.to_doc()))];
        let core = Arc::clone(&job.conn.core);
        if let Err(refused) = core.pool.try_submit(job) {
            refused.job.settle(CallResult::Fault(Fault::Internal("The server is shutting down")));
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.settle(CallResult::Fault(Fault::Internal("The handler dropped the deferred call")));
        }
        // Last, so that shutdown waits for the response.
        self.shared.deferred.fetch_sub(1, Ordering::SeqCst);
    }
}
