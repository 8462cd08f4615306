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
use crate::server::call::request_state::{self, Responses, Sealer, client_response};
use crate::server::callers::CallerRules;
use crate::server::connection::Connection;
use crate::server::extension::Extensions;
use crate::server::provided::Provided;
use crate::server::registry::catalog::Catalog;
use crate::server::registry::catalog::Delegate;
use crate::server::tasks::ServerTasks;
use crate::transport::tap::Observer;

/// Number of documents kept for reuse: the number of jobs that the reader collects (`reader.rs`).
const SPARE_DOCS: usize = 64;
/// Bytes of memory of all recycled documents: enough for a large message.
const SPARE_TOTAL: usize = 2 << 20;
/// Bytes of memory that a recycled document's buffer, or a writer, may keep.
const SPARE_BYTES: usize = 64 << 10;

/// Recycled documents for later messages.
#[derive(Default)]
pub(crate) struct SpareDocs {
    // Boxed, because a document is moved often.
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
    /// Provider of entries that belong to other servers, if there is one.
    pub delegate: OnceLock<Box<dyn Delegate>>,
    watchdog: OnceLock<Weak<Watchdog>>,
    pub tasks: ServerTasks,
}

impl Shared {
    /// Returns whether no deferred call is in flight, and no task runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_idle() && self.deferred.load(Ordering::SeqCst) == 0
    }

    /// Returns the provider of entries that belong to other servers, if there is one.
    pub(crate) fn delegate(&self) -> Option<&dyn Delegate> {
        self.delegate.get().map(|delegate| &**delegate)
    }

    /// Notifies every connection of a change.
    ///
    /// # Errors
    /// As with [`Catalog::check_announced`].
    pub(crate) fn notify(&self, change: &Change) -> Result<(), Error> {
        self.catalog.check_announced(change)?;
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
        let more = self.connections().iter().fold(false, |more, connection| connection.check(now) | more);
        self.tasks.check(now) | more
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Requests the serving loop to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.tasks.close();
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
    pub info: ServerIdentity,
    pub extensions: Option<Extensions>,
    /// Set if handlers may log. Does not change after serving starts.
    pub logging: bool,
    pub limits: Limits,
    pub eras: Eras,
    pub list_cache: CacheHint,
    pub read_cache: CacheHint,
    pub pool: Pool<Job>,
    pub watchdog: Arc<Watchdog>,
    pub observer: Option<Arc<dyn Observer>>,
    pub provided: Provided,
    #[allow(dead_code)] // Empty without the features for callers.
    pub callers: CallerRules,
    /// Seals `requestState`. Set by the first request to a client, unless the program set a key.
    pub sealer: OnceLock<Sealer>,
    pub spare: Mutex<SpareDocs>,
    /// Number of parked calls of all connections.
    pub parked: Arc<AtomicUsize>,
}

/// Permit to park one call.
pub(crate) struct ParkPermit(Arc<AtomicUsize>);

impl ParkPermit {
    /// Takes a permit. `None` if all are taken. Each connection has its own bound, too.
    pub(crate) fn take(core: &Core) -> Option<ParkPermit> {
        #[cfg(feature = "http-server")]
        let max = core.limits.parked.max(core.limits.http.sessions);
        #[cfg(not(feature = "http-server"))]
        let max = core.limits.parked;
        let one_more = |n| (n < max).then_some(n + 1);
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

    /// Returns the capabilities that the server announces now.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        self.shared.catalog.registry().capabilities(self.shared.catalog.capabilities())
    }

    /// Returns a recycled or new document to parse into.
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

    /// Returns the deadline of a call that starts now.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline_from(None)
    }

    /// Returns the deadline of a call that started at `start`, or now.
    pub(crate) fn deadline_from(&self, start: Option<Instant>) -> Option<Instant> {
        let time = self.limits.handler_deadline;
        (time > Duration::ZERO).then(|| start.unwrap_or_else(Instant::now) + time)
    }

    /// Creates the sealer if it does not exist.
    ///
    /// # Errors
    /// The system provided no random numbers.
    pub(crate) fn ensure_sealer(&self) -> Result<(), Fault> {
        if self.sealer.get().is_none() {
            let mut key = [0; 32];
            getrandom::fill(&mut key)
                .map_err(|_| Fault::Internal("The system provided no random numbers"))?;
            self.sealer.get_or_init(|| Sealer::for_this_process(key));
        }
        Ok(())
    }

    /// Returns the `requestState` of a call: its responses so far, bound to the request and its
    /// sender.
    pub(crate) fn seal(
        &self,
        principal: Option<&str>,
        query: &Query,
        doc: &Doc,
        responses: &Responses,
    ) -> Result<String, Fault> {
        // [`Core::ensure_sealer`] was called when the request to the client was recorded.
        let sealer = self.sealer.get().ok_or(Fault::Internal("The call has no request to the client"))?;
        let time = self.limits.client_input_timeout;
        let state = sealer.seal(principal.unwrap_or_default(), request(query, doc), time, responses);
        if state.len() > self.limits.state_bytes {
            return Err(Fault::Internal("The client's responses are too large for the state of the call"));
        }
        Ok(state)
    }

    /// Returns the client's responses in a request, usually an empty list: those in its
    /// `requestState`, then the new ones. Of several responses with one key, the first one is used.
    ///
    /// # Errors
    /// The `requestState` is invalid.
    pub(crate) fn input_responses(
        &self,
        principal: Option<&str>,
        query: &Query,
        doc: &Doc,
    ) -> Result<Responses, Fault> {
        if query.state.is_none() && query.responses.is_none() {
            return Ok(Responses::new());
        }
        self.responses_of_rounds(principal, query, doc)
    }

    /// Returns the client's responses in a request that continues a call.
    #[cold]
    #[inline(never)]
    fn responses_of_rounds(
        &self,
        principal: Option<&str>,
        query: &Query,
        doc: &Doc,
    ) -> Result<Responses, Fault> {
        let mut responses = match query.state.and_then(|node| doc.at(node).as_str()) {
            None => Responses::new(),
            Some(state) => {
                let principal = principal.unwrap_or_default();
                // Without a sealer this process has issued no state.
                let sealer = self.sealer.get().ok_or(Fault::ForeignState)?;
                sealer.open(principal, request(query, doc), state).ok_or(Fault::ForeignState)?
            }
        };
        for (key, value) in query.responses.map(|node| doc.at(node)).into_iter().flat_map(Value::members) {
            // Only a sealed state may contain a note.
            if key == request_state::NOTE {
                continue;
            }
            if !responses.iter().any(|(known, _)| known == key) {
                responses.push((key.to_owned(), client_response(Ok(value))));
            }
        }
        Ok(responses)
    }
}

/// Returns the request that a state is bound to.
fn request<'d>(query: &Query, doc: &'d Doc) -> request_state::BoundRequest<'d> {
    let method = match query.operation {
        Operation::CallTool { .. } => "tool",
        Operation::ReadResource { .. } => "resource",
        Operation::GetPrompt { .. } => "prompt",
        _ => doc.root().get("method").and_then(Value::as_str).unwrap_or_default(),
    };
    (method, query.params.map(|node| doc.at(node)))
}
