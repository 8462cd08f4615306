//! State that the connections of a server share: the catalog and the connections, the settings, the
//! worker pool, and recycled documents.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::era::{Eras, ServerIdentity};
use crate::error::Error;
use crate::json::{Doc, Value, Writer};
use crate::limits::Limits;
use crate::model::{CacheHint, Change, Fault, Operation, Query, ServerCapabilities};
use crate::pool::Pool;
use crate::sync::lock;

use super::watchdog::Watchdog;
use crate::server::call::Job;
use crate::server::call::request_state::{self, Answers, Sealer, answer_of};
use crate::server::connection::Connection;
use crate::server::registry::catalog::Catalog;
use crate::server::registry::catalog::Delegate;
use crate::transport::tap::Observer;

/// Number of documents kept for reuse: as many as the reader collects jobs (`reader.rs`).
const SPARE_DOCS: usize = 64;
/// Bytes of memory of all recycled documents: enough for a large message.
const SPARE_TOTAL: usize = 2 << 20;
/// Bytes of memory that a recycled document's buffer, or a writer, may keep.
const SPARE_BYTES: usize = 64 << 10;

/// Documents for the next messages.
#[derive(Default)]
pub(crate) struct Spare {
    // Boxed, because a document is moved a dozen times.
    #[allow(clippy::vec_box)]
    docs: Vec<Box<Doc>>,
    /// Bytes of memory of all documents.
    bytes: usize,
}

/// State that the server's handles and its serving loop share.
#[derive(Default)]
pub(crate) struct Shared {
    pub catalog: Catalog,
    connections: Mutex<Vec<Weak<Connection>>>,
    stop: AtomicBool,
    /// Number of deferred calls in flight. Shutdown waits for them as for running calls.
    pub deferred: AtomicUsize,
    /// Owner of the catalog's entries, if that is not this server.
    pub delegate: OnceLock<Box<dyn Delegate>>,
    watchdog: OnceLock<Weak<Watchdog>>,
}

impl Shared {
    /// Returns whether no deferred call is in flight.
    pub(crate) fn at_rest(&self) -> bool {
        self.deferred.load(Ordering::SeqCst) == 0
    }

    /// The owner of the catalog's entries, if that is not this server.
    pub(crate) fn delegate(&self) -> Option<&dyn Delegate> {
        self.delegate.get().map(|delegate| &**delegate)
    }

    /// Notifies every connection of a change.
    ///
    /// # Errors
    /// As with [`Catalog::announced`].
    pub(crate) fn notify(&self, change: &Change) -> Result<(), Error> {
        self.catalog.announced(change)?;
        // The list is not locked while a connection is notified.
        for connection in self.connections() {
            connection.notify(change);
        }
        Ok(())
    }

    pub(crate) fn connect(&self, connection: &Arc<Connection>) {
        let mut connections = lock(&self.connections);
        connections.retain(|c| c.strong_count() > 0);
        connections.push(Arc::downgrade(connection));
    }

    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        lock(&self.connections).iter().filter_map(Weak::upgrade).collect()
    }

    /// Runs [`Connection::check`] on every connection. Returns whether one must be checked again.
    pub(crate) fn check(&self, now: Instant) -> bool {
        self.connections().iter().fold(false, |more, connection| connection.check(now) | more)
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Requests the serving loop to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(watchdog) = self.watchdog.get().and_then(Weak::upgrade) {
            watchdog.wake();
        }
    }

    /// Sets the watchdog that [`Shared::stop`] wakes. A server is served once.
    pub(crate) fn set_watchdog(&self, watchdog: &Arc<Watchdog>) {
        let _ = self.watchdog.set(Arc::downgrade(watchdog));
    }
}

/// State of one serving loop and its workers.
pub(crate) struct Core {
    pub shared: Arc<Shared>,
    pub card: ServerIdentity,
    /// Handlers may log. Does not change after serving starts.
    pub logging: bool,
    pub limits: Limits,
    pub eras: Eras,
    pub list_cache: CacheHint,
    pub read_cache: CacheHint,
    pub pool: Pool<Job>,
    pub watchdog: Arc<Watchdog>,
    pub observer: Option<Arc<dyn Observer>>,
    /// Seals `requestState`. Set by the first request to a client, unless the program set a key.
    pub sealer: OnceLock<Sealer>,
    pub spare: Mutex<Spare>,
    /// Number of parked calls of all connections.
    pub parked: Arc<AtomicUsize>,
}

/// Permit to park one call.
pub(crate) struct ParkPermit(Arc<AtomicUsize>);

impl ParkPermit {
    /// Takes a permit. `None` if all are taken. Each connection has a bound of its own, too.
    pub(crate) fn take(core: &Core) -> Option<ParkPermit> {
        #[cfg(feature = "http-server")]
        let most = core.limits.parked.max(core.limits.http.sessions);
        #[cfg(not(feature = "http-server"))]
        let most = core.limits.parked;
        let one_more = |n| (n < most).then_some(n + 1);
        core.parked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(ParkPermit(Arc::clone(&core.parked)))
    }
}

impl Drop for ParkPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    /// Reused buffer for the responses of each thread.
    static WRITER: Cell<Writer> = Cell::new(Writer::new());
}

impl Core {
    /// Calls `write` with this thread's writer, which is empty.
    pub(crate) fn with_writer(&self, write: impl FnOnce(&mut Writer)) {
        let mut w = WRITER.take();
        w.clear();
        write(&mut w);
        if w.as_bytes().len() <= SPARE_BYTES {
            WRITER.set(w);
        }
    }

    /// The capabilities that the server announces now.
    pub(crate) fn offer(&self) -> ServerCapabilities {
        self.shared.catalog.registry().offer(self.shared.catalog.capabilities())
    }

    /// A document to parse into.
    pub(crate) fn spare_doc(&self) -> Box<Doc> {
        let mut spare = lock(&self.spare);
        let doc = spare.docs.pop().unwrap_or_default();
        spare.bytes -= doc.memory();
        doc
    }

    /// Recycles a document.
    pub(crate) fn recycle(&self, mut doc: Box<Doc>) {
        doc.shrink_to(SPARE_BYTES);
        let memory = doc.memory();
        let mut spare = lock(&self.spare);
        if spare.docs.len() < SPARE_DOCS && spare.bytes + memory <= SPARE_TOTAL {
            spare.bytes += memory;
            spare.docs.push(doc);
        }
    }

    /// Deadline of a call that starts now.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline_from(None)
    }

    /// Deadline of a call that started at `start`, or now.
    pub(crate) fn deadline_from(&self, start: Option<Instant>) -> Option<Instant> {
        let time = self.limits.handler_deadline;
        (time > Duration::ZERO).then(|| start.unwrap_or_else(Instant::now) + time)
    }

    /// Creates the sealer if there is none.
    ///
    /// # Errors
    /// The system provided no random numbers.
    pub(crate) fn need_sealer(&self) -> Result<(), Fault> {
        if self.sealer.get().is_none() {
            let mut key = [0; 32];
            getrandom::fill(&mut key)
                .map_err(|_| Fault::Internal("The system provided no random numbers"))?;
            self.sealer.get_or_init(|| Sealer::own(key));
        }
        Ok(())
    }

    /// The `requestState` of a call: its responses so far, bound to the request and its sender.
    pub(crate) fn seal(
        &self,
        principal: Option<&str>,
        query: &Query,
        doc: &Doc,
        answers: &Answers,
    ) -> Result<String, Fault> {
        // The request to the client has set it.
        let sealer = self.sealer.get().ok_or(Fault::Internal("The call has no request to the client"))?;
        let time = self.limits.ask_timeout;
        let state = sealer.seal(principal.unwrap_or_default(), request(query, doc), time, answers);
        if state.len() > self.limits.state_bytes {
            return Err(Fault::Internal("The client's responses are too large for the state of the call"));
        }
        Ok(state)
    }

    /// The client's responses in a request, usually none: those in its `requestState`, then the new
    /// ones. The first response with a key counts.
    ///
    /// # Errors
    /// The `requestState` is invalid.
    pub(crate) fn answers(
        &self,
        principal: Option<&str>,
        query: &Query,
        doc: &Doc,
    ) -> Result<Answers, Fault> {
        if query.state.is_none() && query.answers.is_none() {
            return Ok(Answers::new());
        }
        self.answers_of_rounds(principal, query, doc)
    }

    /// The client's responses in a request that continues a call.
    #[cold]
    #[inline(never)]
    fn answers_of_rounds(&self, principal: Option<&str>, query: &Query, doc: &Doc) -> Result<Answers, Fault> {
        let mut answers = match query.state.and_then(|node| doc.at(node).as_str()) {
            None => Answers::new(),
            Some(state) => {
                let principal = principal.unwrap_or_default();
                // Without a sealer this process has issued no state.
                let sealer = self.sealer.get().ok_or(Fault::ForeignState)?;
                sealer.open(principal, request(query, doc), state).ok_or(Fault::ForeignState)?
            }
        };
        for (key, value) in query.answers.map(|node| doc.at(node)).into_iter().flat_map(Value::members) {
            // Only a sealed state may contain a note.
            if key == request_state::NOTE {
                continue;
            }
            if !answers.iter().any(|(known, _)| known == key) {
                answers.push((key.to_owned(), answer_of(Ok(value))));
            }
        }
        Ok(answers)
    }
}

/// The request that a state is bound to.
fn request<'d>(query: &Query, doc: &'d Doc) -> request_state::BoundRequest<'d> {
    let method = match query.operation {
        Operation::CallTool { .. } => "tool",
        Operation::ReadResource { .. } => "resource",
        Operation::GetPrompt { .. } => "prompt",
        _ => "",
    };
    (method, query.params.map(|node| doc.at(node)))
}
