//! Further servers at other paths of an HTTP server, which may change while it runs.
//!
//! All servers of one HTTP server share its address, thread of the event loop, workers, limits,
//! allowed hosts and tokens. A further server has no thread.
//!
//! # Invariants
//! - Only the event loop changes the endpoint. Other threads add to `changes` and wake the event
//!   loop.
//! - A change is a function, so that a program contains only the code of the changes that it uses.
//! - Code of the program runs without the lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::pool::guard;
use crate::server::Server;
use crate::server::serve::state::{Core, Shared};
use crate::server::serve::{self, Hooks, Parts};
use crate::sync::lock;
use crate::transport::http_server::EngineHandle;

use super::endpoint::Endpoint;
use super::request_checks::is_at;
use super::session_servers::{MakeServer, SessionServers, Table};

/// The further servers of an HTTP server; see [`HttpServer::mounts`](super::HttpServer::mounts).
///
/// A further server is an endpoint at its own path, with its own sessions. It shares everything
/// else with the first server: address, threads, limits, allowed hosts, tokens. Clones share the
/// servers.
///
/// ```no_run
/// use tinymcp::{Server, Tool};
///
/// let http = Server::new("all", "1.0.0").http();
/// let mounts = http.mounts();
/// let mut camera = Server::new("camera", "1.0.0");
/// camera.tool(Tool::new("photo"), |_, ()| Ok("a photo"))?;
/// mounts.add("/servers/camera/mcp", camera)?;
/// http.serve("127.0.0.1:8080")?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct Mounts {
    pub(super) table: Arc<MountTable>,
}

impl Mounts {
    /// Serves a server at this path, such as `/servers/board/mcp`. May be called while the HTTP
    /// server runs. [`Server::limits`] and [`Handle::stop`](crate::Handle::stop) of this server
    /// have no effect. Its [`Server::on_shutdown`] functions run when it is removed, or after those
    /// of the first server.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the path is invalid, or another server or page has it.
    /// [`ErrorKind::Closed`]: the HTTP server has ended.
    pub fn add(&self, path: impl Into<String>, server: Server) -> Result<(), Error> {
        self.insert(path.into(), server, None)
    }

    /// As [`Mounts::add`], with a server for each session as
    /// [`HttpServer::per_session`](super::HttpServer::per_session).
    ///
    /// # Errors
    /// As with [`Mounts::add`].
    pub fn add_per_session(
        &self,
        path: impl Into<String>,
        server: Server,
        make: impl Fn() -> Result<Server, Error> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let own = self.table.per_session(Arc::new(make));
        self.insert(path.into(), server, Some(own))
    }

    fn insert(&self, path: String, mut server: Server, own: Option<PerSession>) -> Result<(), Error> {
        check_path(&path)?;
        {
            let mut state = lock(&self.table.state);
            if state.closed {
                return Err(Error::new(ErrorKind::Closed, "the HTTP server has ended"));
            }
            if state.reserved.contains(&path) || state.mounted.iter().any(|mounted| mounted.path == path) {
                return Err(duplicate(&path));
            }
            let (shared, hooks) = (Arc::clone(&server.shared), std::mem::take(&mut server.on_shutdown));
            state.mounted.push(Mounted { path: path.clone(), shared, hooks });
            state.changes.push(Box::new(move |endpoint| endpoint.mount(path, server, own)));
        }
        self.table.notify();
        Ok(())
    }

    /// Ends the event streams that clients with this principal keep open, at all paths. Their
    /// sessions and calls continue. Call it after a token was revoked: the clients connect again,
    /// and only a valid token opens a stream.
    pub fn end_streams(&self, principal: &str) {
        let principal = principal.to_owned();
        lock(&self.table.state).changes.push(Box::new(move |endpoint| endpoint.end_streams(&principal)));
        self.table.notify();
    }

    /// Ends the sessions and the event streams of this principal, at all paths, for a principal
    /// that has no valid token any more. Calls without a session continue.
    pub fn end_sessions(&self, principal: &str) {
        let principal = principal.to_owned();
        lock(&self.table.state).changes.push(Box::new(move |endpoint| endpoint.end_sessions(&principal)));
        self.table.notify();
    }

    /// Removes the server at this path: its sessions end, and its calls get an error. Later
    /// requests get 404. Returns `false` if no server was added at this path.
    pub fn remove(&self, path: &str) -> bool {
        let removed = {
            let mut state = lock(&self.table.state);
            let Some(at) = state.mounted.iter().position(|mounted| mounted.path == path) else {
                return false;
            };
            let path = path.to_owned();
            state.changes.push(Box::new(move |endpoint| endpoint.unmount(&path)));
            state.mounted.remove(at)
        };
        self.table.notify();
        run_hooks(removed.hooks);
        true
    }
}

/// Prepares a server that shares the threads and limits of another one.
pub(super) fn assemble_beside(core: &Core, server: Server) -> Parts {
    let (pool, watchdog) = (core.pool.clone(), Arc::clone(&core.watchdog));
    serve::assemble(server, core.limits.clone(), pool, watchdog, Arc::clone(&core.parked))
}

/// Runs hooks; one that panics does not prevent the others.
pub(super) fn run_hooks(hooks: Hooks) {
    for hook in hooks {
        // OK to ignore: the panic was reported.
        let _ = guard(hook);
    }
}

/// State of [`Mounts`].
#[derive(Default)]
pub(super) struct MountTable {
    state: Mutex<State>,
    /// Set if there are changes that the event loop has not made yet.
    changed: AtomicBool,
    engine: OnceLock<Arc<dyn EngineHandle>>,
    session_servers: OnceLock<Arc<dyn SessionServers>>,
}

#[derive(Default)]
struct State {
    mounted: Vec<Mounted>,
    changes: Vec<Change>,
    /// Paths of the first server and of the pages.
    reserved: Vec<String>,
    closed: bool,
}

struct Mounted {
    path: String,
    shared: Arc<Shared>,
    hooks: Hooks,
}

/// A change of the endpoint, which the event loop makes.
pub(super) type Change = Box<dyn FnOnce(&mut Endpoint) + Send>;

/// Source of the server of each session of an endpoint.
#[derive(Clone)]
pub(super) struct PerSession {
    pub(super) make: Arc<MakeServer>,
    pub(super) servers: Arc<dyn SessionServers>,
}

impl MountTable {
    /// Reserves the paths of the first server and of the pages.
    ///
    /// # Errors
    /// A further server has one of them.
    pub(super) fn reserve(&self, paths: Vec<String>) -> Result<(), Error> {
        let mut state = lock(&self.state);
        match state.mounted.iter().find(|mounted| paths.contains(&mounted.path)) {
            Some(mounted) => Err(duplicate(&mounted.path)),
            None => {
                state.reserved = paths;
                Ok(())
            }
        }
    }

    pub(super) fn per_session(&self, make: Arc<MakeServer>) -> PerSession {
        let servers = self.session_servers.get_or_init(|| Arc::new(Table::default()));
        PerSession { make, servers: Arc::clone(servers) }
    }

    pub(super) fn set_engine(&self, engine: &Arc<dyn EngineHandle>) {
        self.engine.get_or_init(|| Arc::clone(engine));
    }

    /// Returns whether a server or a page has this path.
    pub(super) fn has(&self, path: &str) -> bool {
        let state = lock(&self.state);
        state
            .reserved
            .iter()
            .chain(state.mounted.iter().map(|mounted| &mounted.path))
            .any(|own| is_at(own, path))
    }

    fn notify(&self) {
        self.changed.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes the event loop, which then makes changes and checks waiting requests.
    pub(super) fn wake(&self) {
        if let Some(engine) = self.engine.get() {
            engine.wake();
        }
    }

    /// Takes the changes since the last call, in order.
    pub(super) fn changes(&self) -> Vec<Change> {
        match self.changed.load(Ordering::Acquire) {
            true => self.take_changes(),
            false => Vec::new(),
        }
    }

    #[cold]
    #[inline(never)]
    fn take_changes(&self) -> Vec<Change> {
        self.changed.store(false, Ordering::Relaxed);
        std::mem::take(&mut lock(&self.state).changes)
    }

    /// Runs [`Shared::check`] on every further server. Returns whether one must be checked again.
    pub(super) fn check(&self, now: Instant) -> bool {
        let servers: Vec<Arc<Shared>> =
            lock(&self.state).mounted.iter().map(|mounted| Arc::clone(&mounted.shared)).collect();
        let own = self.session_servers.get().is_some_and(|own| own.check(now));
        servers.iter().fold(own, |more, shared| shared.check(now) | more)
    }

    /// Rejects further servers from now on. Returns the servers that are mounted or belong to a
    /// session, and the hooks of the mounted ones.
    pub(super) fn close(&self) -> (Vec<Arc<Shared>>, Hooks) {
        let mut state = lock(&self.state);
        state.closed = true;
        let (mut servers, mut hooks) = (Vec::new(), Hooks::new());
        for mounted in std::mem::take(&mut state.mounted) {
            servers.push(mounted.shared);
            hooks.extend(mounted.hooks);
        }
        servers.extend(self.session_servers.get().into_iter().flat_map(|own| own.stop()));
        (servers, hooks)
    }

    /// Ends the servers of sessions; see [`SessionServers::close`].
    pub(super) fn close_session_servers(&self, deadline: Instant) {
        if let Some(own) = self.session_servers.get() {
            Arc::clone(own).close(deadline);
        }
    }
}

pub(super) fn check_path(path: &str) -> Result<(), Error> {
    if path.starts_with('/') && !path.contains(['?', '#', ' ']) {
        return Ok(());
    }
    let message = format!("invalid path {path:?}: must begin with / and have no query");
    Err(Error::new(ErrorKind::Invalid, message))
}

pub(super) fn duplicate(path: &str) -> Error {
    let message = format!("duplicate path {path:?}: each server and each page requires its own");
    Error::new(ErrorKind::Invalid, message)
}
