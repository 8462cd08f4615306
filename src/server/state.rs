//! What every connection of a server shares: the catalog that may change while it runs, the
//! settings that may not, the pool, the spare parts.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::era::{Eras, ServerIdentity};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Value, Writer};
use crate::limits::Limits;
use crate::model::{CacheHint, Change, Fault, Operation, Query, ServerCapabilities};
use crate::pool::Pool;
use crate::sync::lock;

use super::call::Job;
use super::connection::Connection;
use super::delegate::Delegate;
use super::registry::{Registry, SchemaCompiler};
use super::request_state::{self, Answers, Sealer};
use super::watchdog::Watchdog;

/// Spare documents kept for reuse: as many as are read in one go, see `dispatch.rs`.
const SPARE_DOCS: usize = 64;
/// Bytes of memory that all of them take at most: enough for a large message that others follow.
const SPARE_TOTAL: usize = 2 << 20;
/// A spare document's buffer, or a writer, keeps at most this many bytes of memory.
const SPARE_BYTES: usize = 64 << 10;

/// Documents for the next messages.
#[derive(Default)]
pub(crate) struct Spare {
    // Boxed, because a document is moved a dozen times on its way.
    #[allow(clippy::vec_box)]
    docs: Vec<Box<Doc>>,
    /// What they take.
    bytes: usize,
}

/// What is registered, who must be told when it changes, and whether to stop.
pub(crate) struct Catalog {
    registry: Mutex<Arc<Registry>>,
    /// Counts the changes of `registry`, so that readers notice one without a lock.
    version: AtomicUsize,
    promised: Mutex<ServerCapabilities>,
    connections: Mutex<Vec<Weak<Connection>>>,
    compiler: Mutex<Option<Arc<dyn SchemaCompiler>>>,
    stop: AtomicBool,
    /// Calls that were left to somebody else: the end waits for them as for those that run.
    pub(super) handed: AtomicUsize,
    /// What the entries belong to, if that is not this server.
    pub(super) delegate: OnceLock<Box<dyn Delegate>>,
    watchdogs: Mutex<Vec<Weak<Watchdog>>>,
}

impl Catalog {
    pub(crate) fn new() -> Catalog {
        Catalog {
            registry: Mutex::default(),
            version: AtomicUsize::new(0),
            promised: Mutex::default(),
            connections: Mutex::default(),
            #[cfg(feature = "schema")]
            // A variable that is wrong is told when serving starts.
            compiler: Mutex::new(Some(super::validation::standard(&Limits::from_env().unwrap_or_default()))),
            #[cfg(not(feature = "schema"))]
            compiler: Mutex::default(),
            stop: AtomicBool::new(false),
            handed: AtomicUsize::new(0),
            delegate: OnceLock::new(),
            watchdogs: Mutex::default(),
        }
    }

    /// The registry as it is now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&lock(&self.registry))
    }

    pub(crate) fn version(&self) -> usize {
        self.version.load(Ordering::Acquire)
    }

    /// Changes the registry; readers keep the old one until they look again.
    pub(crate) fn change<R>(&self, edit: impl FnOnce(&mut Registry) -> R) -> R {
        let mut registry = lock(&self.registry);
        let result = edit(Arc::make_mut(&mut registry));
        self.version.fetch_add(1, Ordering::Release);
        result
    }

    pub(crate) fn promised(&self) -> ServerCapabilities {
        *lock(&self.promised)
    }

    pub(crate) fn promise(&self, edit: impl FnOnce(&mut ServerCapabilities)) {
        edit(&mut lock(&self.promised));
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn compiler(&self) -> Option<Arc<dyn SchemaCompiler>> {
        lock(&self.compiler).clone()
    }

    pub(crate) fn set_compiler(&self, compiler: Arc<dyn SchemaCompiler>) {
        *lock(&self.compiler) = Some(compiler);
    }

    /// Whether clients were told that this can change.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`]: they were not.
    pub(crate) fn announced(&self, change: &Change) -> Result<(), Error> {
        let promised = self.promised();
        let (announced, how) = match change {
            Change::Tools => (promised.tools_changed, "tools_may_change"),
            Change::Prompts => (promised.prompts_changed, "prompts_may_change"),
            Change::Resources => (promised.resources_changed, "resources_may_change"),
            Change::Updated(_) => (promised.subscribe, "resource_updates"),
        };
        if !announced {
            return Err(Error::new(
                ErrorKind::Misuse,
                format!("clients were not told that this can change: call Server::{how} first"),
            ));
        }
        Ok(())
    }

    /// Whether nobody else works on a call of this server.
    pub(super) fn at_rest(&self) -> bool {
        self.handed.load(Ordering::SeqCst) == 0
    }

    /// What the entries belong to, if that is not this server.
    pub(super) fn delegate(&self) -> Option<&dyn Delegate> {
        self.delegate.get().map(|delegate| &**delegate)
    }

    /// Tells a change to every connection.
    ///
    /// # Errors
    /// As with [`Catalog::announced`].
    pub(crate) fn tell(&self, change: &Change) -> Result<(), Error> {
        self.announced(change)?;
        // Collected first: a connection is not told anything while the list is locked.
        for connection in self.connections() {
            connection.tell(change);
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

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Stops every serving loop that belongs to this catalog.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for watchdog in lock(&self.watchdogs).iter().filter_map(Weak::upgrade) {
            watchdog.ring();
        }
    }

    pub(crate) fn add_watchdog(&self, watchdog: &Arc<Watchdog>) {
        let mut watchdogs = lock(&self.watchdogs);
        watchdogs.retain(|a| a.strong_count() > 0);
        watchdogs.push(Arc::downgrade(watchdog));
    }
}

/// What a serving loop and its workers share.
pub(crate) struct Core {
    pub catalog: Arc<Catalog>,
    pub card: ServerIdentity,
    /// Whether handlers may log; settled when serving starts.
    pub logging: bool,
    pub limits: Limits,
    pub eras: Eras,
    pub list_cache: CacheHint,
    pub read_cache: CacheHint,
    pub pool: Pool<Job>,
    pub watchdog: Arc<Watchdog>,
    /// Seals what a call needs for its next round; not there before the first question unless the
    /// key was given.
    pub sealer: OnceLock<Sealer>,
    pub spare: Mutex<Spare>,
    /// Calls of all connections that wait for their clients' answers.
    pub parked: AtomicUsize,
}

/// A place among the calls that wait for their clients' answers.
pub(crate) struct ParkPermit(Arc<Core>);

impl ParkPermit {
    /// Nothing if all are taken. Each connection has a bound of its own; this one is for many.
    pub(crate) fn take(core: &Arc<Core>) -> Option<ParkPermit> {
        #[cfg(feature = "http-server")]
        let most = core.limits.parked.max(core.limits.http.sessions);
        #[cfg(not(feature = "http-server"))]
        let most = core.limits.parked;
        let one_more = |n| (n < most).then_some(n + 1);
        core.parked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(ParkPermit(Arc::clone(core)))
    }
}

impl Drop for ParkPermit {
    fn drop(&mut self) {
        self.0.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    /// Each thread writes its answers into one buffer, over and over.
    static WRITER: Cell<Writer> = Cell::new(Writer::new());
}

impl Core {
    /// Lends this thread's writer, empty.
    pub(crate) fn with_writer(&self, write: impl FnOnce(&mut Writer)) {
        let mut w = WRITER.take();
        w.clear();
        write(&mut w);
        if w.as_bytes().len() <= SPARE_BYTES {
            WRITER.set(w);
        }
    }

    /// A document to parse into.
    pub(crate) fn spare_doc(&self) -> Box<Doc> {
        let mut spare = lock(&self.spare);
        let doc = spare.docs.pop().unwrap_or_default();
        spare.bytes -= doc.memory();
        doc
    }

    /// Keeps a document for the next message.
    pub(crate) fn recycle(&self, mut doc: Box<Doc>) {
        doc.shrink_to(SPARE_BYTES);
        let memory = doc.memory();
        let mut spare = lock(&self.spare);
        if spare.docs.len() < SPARE_DOCS && spare.bytes + memory <= SPARE_TOTAL {
            spare.bytes += memory;
            spare.docs.push(doc);
        }
    }

    /// When a call that starts now must be done.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline_from(None)
    }

    /// When a call that started then, or else starts now, must be done.
    pub(crate) fn deadline_from(&self, start: Option<Instant>) -> Option<Instant> {
        let time = self.limits.handler_deadline;
        (time > Duration::ZERO).then(|| start.unwrap_or_else(Instant::now) + time)
    }

    /// Makes the sealer unless there is one.
    ///
    /// # Errors
    /// The system gave no key.
    pub(crate) fn need_sealer(&self) -> Result<(), Fault> {
        if self.sealer.get().is_none() {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|_| Fault::Internal("The system gave no random numbers"))?;
            self.sealer.get_or_init(|| Sealer::own(key));
        }
        Ok(())
    }

    /// The state a client comes back with: the answers so far, bound to this request and
    /// to who sent it.
    pub(crate) fn seal(
        &self,
        principal: Option<&str>,
        query: &Query,
        doc: &Doc,
        answers: &Answers,
    ) -> Result<String, Fault> {
        // A question was asked, so there is one.
        let sealer = self.sealer.get().ok_or(Fault::Internal("Nothing was asked"))?;
        let time = self.limits.ask_timeout;
        let state = sealer.seal(principal.unwrap_or_default(), request(query, doc), time, answers);
        if state.len() > self.limits.state_bytes {
            return Err(Fault::Internal(
                "The answers to this call's questions are too large to be carried along",
            ));
        }
        Ok(state)
    }

    /// The answers that came with a request, mostly none: those of earlier rounds out of its state,
    /// then the new ones. An answer that was given before is not given again.
    ///
    /// # Errors
    /// A state that does not verify.
    pub(crate) fn answers(
        &self,
        principal: Option<&str>,
        query: &Query,
        doc: &Doc,
    ) -> Result<Answers, Fault> {
        if query.state.is_none() && query.answers.is_none() {
            return Ok(Answers::new());
        }
        self.rounds(principal, query, doc)
    }

    /// The answers of a request that goes on with a call.
    #[cold]
    #[inline(never)]
    fn rounds(&self, principal: Option<&str>, query: &Query, doc: &Doc) -> Result<Answers, Fault> {
        let mut answers = match query.state.and_then(|node| doc.at(node).as_str()) {
            None => Answers::new(),
            Some(state) => {
                let principal = principal.unwrap_or_default();
                // Who never sealed gave no state out.
                let sealer = self.sealer.get().ok_or(Fault::ForeignState)?;
                sealer.open(principal, request(query, doc), state).ok_or(Fault::ForeignState)?
            }
        };
        for (key, value) in query.answers.map(|node| doc.at(node)).into_iter().flat_map(Value::members) {
            // What a call notes for itself comes sealed or not at all.
            if key == super::deferred::NOTE {
                continue;
            }
            if !answers.iter().any(|(known, _)| known == key) {
                answers.push((key.to_owned(), super::context::answer_of(Ok(value))));
            }
        }
        Ok(answers)
    }
}

/// What a state is bound to: a method and its parameters.
fn request<'d>(query: &Query, doc: &'d Doc) -> request_state::Request<'d> {
    let method = match query.operation {
        Operation::CallTool { .. } => "tool",
        Operation::ReadResource { .. } => "resource",
        Operation::GetPrompt { .. } => "prompt",
        _ => "",
    };
    (method, query.params.map(|node| doc.at(node)))
}
