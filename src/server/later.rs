//! Calls that are answered later: a handler that has given its work to somebody else lets go of its
//! thread, and whoever has the work answers.
//!
//! A handler ends with [`Failure::later`]; what it gives gets the call itself, as a [`Later`]. Until
//! that is used up the call is in flight like any other: the client may cancel it, the watchdog ends
//! it when the time is over that [`Later::allow`] gave, and both are told by [`Later::on_cancel`].
//! What it does not: know who works, or start anything.
//!
//! # Invariants
//! - Nothing here waits for the client: whatever is said goes through [`Post`](super::post::Post), so
//!   it can be said by a thread that reads for somebody else.
//! - A call is answered once, also when its `Later` is dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::era::{self, Questions, Signal};
use crate::json::{Doc, Json, Writer};
use crate::model::ask::{Ask, AskRequest};
use crate::model::{ClientCapabilities, Fault, Level};
use crate::rpc::RpcError;

use super::connection::Connection;
use super::context::Context;
use super::core::Catalog;
use super::failure::{Failure, Reason};
use super::flight::Call;
use super::job::{Conclusion, Job, Outcome, failed};

/// Takes a call over.
pub(crate) type Begin = Box<dyn FnOnce(Later) + Send>;

/// Where a handler that runs again finds what it noted. No client can send an answer under this key:
/// see `Core::answers`.
pub(crate) const NOTE: &str = "\0";

/// A call that nobody works on in this server.
pub(crate) struct Later {
    job: Option<Job>,
    catalog: Arc<Catalog>,
}

impl Failure {
    /// The call will be answered by whoever `begin` gives it to.
    pub(crate) fn later(begin: impl FnOnce(Later) + Send + 'static) -> Failure {
        Failure::because(Reason::Later(Box::new(begin)))
    }
}

/// Who a call came from, as far as that can be told.
#[derive(Clone)]
pub(crate) struct Caller {
    conn: Arc<Connection>,
    call: Arc<Call>,
}

impl Caller {
    /// Whether both calls are certain to be of one client.
    pub(crate) fn is(&self, other: &Caller) -> bool {
        Arc::ptr_eq(&self.call, &other.call)
            || (Arc::ptr_eq(&self.conn, &other.conn) && !self.conn.is_shared())
    }

    /// Logs an entry to the session that the call belongs to, if there is one that wants it.
    pub(crate) fn log(&self, level: Level, logger: &str, data: &Json) {
        self.conn.log(level, Some(logger), data);
    }
}

impl Later {
    /// What a handler has left behind: the call, from here on.
    pub(crate) fn of(mut job: Job) -> Later {
        job.posts = true;
        let catalog = Arc::clone(&job.conn.core.catalog);
        catalog.handed.fetch_add(1, Ordering::SeqCst);
        Later { job: Some(job), catalog }
    }

    /// Who called.
    pub(crate) fn caller(&self) -> Option<Caller> {
        let job = self.job.as_ref()?;
        Some(Caller { conn: Arc::clone(&job.conn), call: Arc::clone(&job.call) })
    }

    /// What the client can be asked.
    pub(crate) fn client_can(&self) -> ClientCapabilities {
        self.job.as_ref().map(|job| job.query.peer.capabilities).unwrap_or_default()
    }

    /// Runs `hook` when the result is no longer wanted, at once if that is so already. It must not
    /// wait; another hook takes its place.
    pub(crate) fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        if let Some(job) = &self.job {
            job.call.on_cancel(Box::new(hook));
        }
    }

    /// Gives the call this much time from now.
    pub(crate) fn allow(&self, time: Duration) {
        if let Some(job) = &self.job {
            job.conn.change(&job.call, time, job.weight());
        }
    }

    /// Reports a step, if the client asked for that. One that does not read misses it.
    pub(crate) fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(job) = &self.job else { return };
        if let Some(token) = job.query.progress {
            self.signal(job, Signal::Progress { token: job.doc.at(token).raw(), done, total, message });
        }
    }

    /// Logs an entry for this call, if the client wants entries of this level.
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
        job.conn.post().send(&job.outlet, w.into_bytes());
    }

    /// Answers the call.
    pub(crate) fn finish(mut self, result: Result<Outcome, Failure>) {
        let Some(job) = self.job.take() else { return };
        let conclusion = match result {
            Ok(outcome) => Conclusion::Done(outcome),
            Err(failure) => failed(&job.exchange(), failure, Vec::new()),
        };
        job.settle(conclusion);
    }

    /// Asks the client. The handler runs again when the answers are there, and finds them and `note`.
    pub(crate) fn ask(mut self, questions: &[(String, AskRequest)], note: &Json) {
        let Some(mut job) = self.job.take() else { return };
        // Those of earlier rounds have gone where they belong.
        job.answers = vec![(NOTE.to_owned(), Ok(note.to_doc()))];
        if let Questions::InResult = job.era.questions() {
            if let Err(fault) = job.conn.core.need_sealer() {
                return job.settle(Conclusion::Fault(fault));
            }
        }
        for (_, request) in questions {
            let needed = request.needs();
            if !job.query.peer.capabilities.cover(needed) {
                let failure = Failure::fault(Fault::MissingCapability(needed));
                let conclusion = failed(&job.exchange(), failure, Vec::new());
                return job.settle(conclusion);
            }
        }
        let ask = |(key, request): &(String, AskRequest)| Ask {
            key: key.clone(),
            request: request.clone(),
            write: era::question,
        };
        job.settle(Conclusion::Asked(questions.iter().map(ask).collect()));
    }

    /// Runs the handler again, which finds `note`.
    pub(crate) fn again(mut self, note: &Json) {
        let Some(mut job) = self.job.take() else { return };
        job.answers = vec![(NOTE.to_owned(), Ok(note.to_doc()))];
        let core = Arc::clone(&job.conn.core);
        if let Err(refused) = core.pool.try_submit(job) {
            refused.job.settle(Conclusion::Fault(Fault::Internal("The server takes no more calls")));
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.settle(Conclusion::Fault(Fault::Internal("The call was given up")));
        }
        // Only now: what was said is on its way.
        self.catalog.handed.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Context<'_> {
    /// What this call noted when it last ended; nothing when it runs for the first time.
    pub(crate) fn note(&self) -> Option<&Doc> {
        let noted = self.answers.iter().find(|(key, _)| key == NOTE)?;
        noted.1.as_ref().ok()
    }

    /// The answer of the client under this key, once it is there: what it said or how it refused.
    pub(crate) fn answered(&self, key: &str) -> Option<&Result<Doc, RpcError>> {
        self.answers.iter().find(|(name, _)| name == key).map(|(_, answer)| answer)
    }

    /// Waits until the client reads what it was sent, or the call is over.
    pub(crate) fn wait_for_reader(&self) {
        const LOOK: Duration = Duration::from_millis(20);
        while self.conn.post().busy() && self.wait(LOOK).is_ok() {}
    }

    /// From which level on the client wants log entries of this call.
    pub(crate) fn log_level(&self) -> Option<Level> {
        self.query.peer.log_level
    }
}
