//! Deferred calls: a handler returns [`Outcome::Deferred`] and its thread goes on, and whoever has
//! the work answers through a [`Deferred`]. A served hub is built on this.
//!
//! Until a `Deferred` is used up its call is in flight like any other: the client may cancel it,
//! and the watchdog ends it when the time of [`Deferred::allow`] is over. [`Deferred::on_cancel`]
//! reports both. This file also has what else the owner of deferred calls needs of a server's
//! [`Handle`].
//!
//! # Invariants
//! - Nothing here waits for the client: all output goes through [`Outbox`](super::outbox::Outbox),
//!   so a thread that reads for another connection may send it.
//! - A call is answered once, also when its `Deferred` is dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::era::{self, Questions, Signal};
use crate::error::Error;
use crate::json::{Doc, Json, Writer};
use crate::model::client_request::{Ask, AskRequest};
use crate::model::{Change, ClientCapabilities, Fault, Level};
use crate::rpc::RpcError;

use super::call::{CallResult, Job, Outcome, failed};
use super::connection::{Connection, Then};
use super::context::Context;
use super::delegate::Delegate;
use super::handle::Handle;
use super::in_flight::Call;
use super::registry::Registry;
use super::state::Catalog;
use super::tool_error::ToolError;

/// Takes a call over.
pub(crate) type Begin = Box<dyn FnOnce(Deferred) + Send>;

/// Key under which a handler that runs again finds what it noted. No client can send an answer
/// under this key: see `Core::answers`.
pub(crate) const NOTE: &str = "\0";

/// A call that no handler of this server works on.
pub(crate) struct Deferred {
    job: Option<Job>,
    catalog: Arc<Catalog>,
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

impl Deferred {
    /// The call of a handler that deferred it.
    pub(crate) fn of(mut job: Job) -> Deferred {
        job.posts = true;
        let catalog = Arc::clone(&job.conn.core.catalog);
        catalog.handed.fetch_add(1, Ordering::SeqCst);
        Deferred { job: Some(job), catalog }
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
        job.conn.outbox().send(&job.sink, w.into_bytes());
    }

    /// Answers a request for updates of this resource when the server's delegate knows if they will
    /// come.
    pub(super) fn subscribe(self, uri: String) {
        let Some(job) = &self.job else { return };
        let (conn, catalog, left) = (Arc::clone(&job.conn), Arc::clone(&self.catalog), uri.clone());
        self.on_cancel(move || {
            conn.unsubscribe(&left);
            if let Some(delegate) = catalog.delegate() {
                delegate.listeners_changed();
            }
        });
        let catalog = Arc::clone(&self.catalog);
        let Some(delegate) = catalog.delegate() else { return self.finish(Ok(Outcome::Empty)) };
        delegate.watch(
            vec![uri],
            Box::new(move |watched| {
                let lost = || Err(ToolError::new("the subscription was given up"));
                let result = watched.into_iter().next().map_or_else(lost, |(_, result)| result);
                self.finish(result.map(|()| Outcome::Empty));
            }),
        );
    }

    /// Answers the call.
    pub(crate) fn finish(mut self, result: Result<Outcome, ToolError>) {
        let Some(job) = self.job.take() else { return };
        let conclusion = match result {
            Ok(outcome) => CallResult::Done(outcome),
            Err(failure) => failed(&job.exchange(), failure, Vec::new()),
        };
        job.settle(conclusion);
    }

    /// Asks the client. The handler runs again when the answers are there, and finds them and
    /// `note`.
    pub(crate) fn ask(mut self, questions: &[(String, AskRequest)], note: &Json) {
        let Some(mut job) = self.job.take() else { return };
        // Those of earlier rounds have gone where they belong.
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
                let conclusion = failed(&job.exchange(), failure, Vec::new());
                return job.settle(conclusion);
            }
        }
        let ask = |(key, request): &(String, AskRequest)| Ask {
            key: key.clone(),
            request: request.clone(),
            write: era::question,
        };
        job.settle(CallResult::Asked(questions.iter().map(ask).collect()));
    }

    /// Runs the handler again, which finds `note`.
    pub(crate) fn again(mut self, note: &Json) {
        let Some(mut job) = self.job.take() else { return };
        job.answers = vec![(NOTE.to_owned(), Ok(note.to_doc()))];
        let core = Arc::clone(&job.conn.core);
        if let Err(refused) = core.pool.try_submit(job) {
            refused.job.settle(CallResult::Fault(Fault::Internal("The server takes no more calls")));
        }
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            job.settle(CallResult::Fault(Fault::Internal("The call was given up")));
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
        while self.conn.outbox().busy() && self.wait(LOOK).is_ok() {}
    }

    /// From which level on the client wants log entries of this call.
    pub(crate) fn log_level(&self) -> Option<Level> {
        self.query.peer.log_level
    }
}

impl Handle {
    /// Changes many entries at once, and tells the clients once if `edit` says that it did.
    ///
    /// # Errors
    /// As with [`Handle::remove_tool`].
    pub(crate) fn edit(
        &self,
        change: &Change,
        edit: impl FnOnce(&mut Registry) -> bool,
    ) -> Result<(), Error> {
        let catalog = self.catalog()?;
        catalog.announced(change)?;
        if catalog.change(edit) { catalog.tell(change) } else { Ok(()) }
    }
}

impl Handle {
    /// Logs an entry to the session, if there is but one connection; not masked, since it is
    /// somebody else's.
    pub(crate) fn log_to_only(&self, level: Level, logger: &str, data: &Json) {
        if let Ok(catalog) = self.catalog() {
            if let [connection] = &*catalog.connections() {
                connection.log(level, Some(logger), data);
            }
        }
    }
}

impl Handle {
    /// Names the owner of what is offered; the first one stays.
    pub(crate) fn delegate_to(&self, delegate: impl Delegate + 'static) {
        if let Ok(catalog) = self.catalog() {
            catalog.delegate.get_or_init(|| Box::new(delegate));
        }
    }

    /// The lowest log level of all sessions, if one has a level.
    pub(crate) fn log_level(&self) -> Option<Level> {
        let catalog = self.catalog().ok()?;
        let level =
            |conn: Arc<Connection>| conn.session().as_ref().and_then(|session| session.peer.log_level);
        catalog.connections().into_iter().filter_map(level).min()
    }

    /// Asks the client of the only session outside of a call, if that client can be asked this.
    /// `then` gets the answer; it is dropped when the connection ends without one.
    pub(crate) fn ask_only(&self, request: AskRequest, then: Then) -> Result<(), Then> {
        let Ok(catalog) = self.catalog() else { return Err(then) };
        let connections = catalog.connections();
        let mut sessions = connections.iter().filter(|conn| conn.session().is_some());
        match (sessions.next(), sessions.next()) {
            (Some(conn), None) => conn.ask(request, then),
            _ => Err(then),
        }
    }

    /// The resources whose updates somebody listens to.
    pub(crate) fn listened(&self) -> BTreeSet<String> {
        let mut uris = BTreeSet::new();
        for connection in self.catalog().iter().flat_map(|catalog| catalog.connections()) {
            connection.wanted(&mut uris);
        }
        uris
    }
}
