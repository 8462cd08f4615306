//! Binding, threads and shutdown of the HTTP server.
//!
//! # Shutdown
//! 1. The listeners close and no more requests are read. General event streams end.
//! 2. Running calls may finish within [`Limits::grace`](crate::Limits::grace).
//! 3. The calls that still run get an error, and every connection is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};
use crate::server::call::InlineFn;
use crate::server::connection::Connection;
use crate::server::serve::state::Core;
use crate::server::serve::{self, Hooks, LAST_WRITES, Parts, ShutdownWait};
use crate::server::{InlineSend, Server};
use crate::stderr;
use crate::sync::lock;
use crate::transport::http_server::{EngineHandle, EventLoop, Listener};
use crate::transport::{FrameSink, ReplySink};

use super::allowed_hosts::AllowedHosts;
use super::endpoint::Endpoint;
use super::mounts::{self, MountTable};
use super::{HttpServer, Options};

/// Longest wait for servers of sessions that ended before the shutdown, beyond the grace period.
const SESSION_ENDS: Duration = Duration::from_secs(5);

/// A server with an open address; see [`HttpServer::bind`].
///
/// ```no_run
/// use tinymcp::Server;
///
/// let server = Server::new("board", "1.0.0").http().bind("127.0.0.1:0")?;
/// println!("http://{}/mcp", server.address());
/// server.serve()?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[must_use = "nothing is served until `serve` is called"]
pub struct BoundServer {
    server: Server,
    options: Options,
    listeners: Vec<Listener>,
    address: String,
}

/// Sink for messages outside of any request, which a client without a session cannot receive.
struct NullSink;

impl ReplySink for NullSink {}

impl FrameSink for NullSink {
    fn send(&self, _frames: &[u8]) {}

    fn closed(&self) -> bool {
        false
    }

    fn congested(&self) -> bool {
        false
    }

    fn close(&self, _deadline: Instant) {}
}

/// Checks the settings of a server, and completes them.
pub(super) fn check_settings(http: HttpServer) -> Result<(Server, Options), Error> {
    let HttpServer { mut server, mut options } = http;
    if let Some(pages) = options.card.take() {
        options.pages.extend(pages(&server.identity, server.eras, &options.path)?);
    }
    check_paths(&options)?;
    options.allowed_hosts.check().map_err(|message| Error::new(ErrorKind::Invalid, message))?;
    if let Some(principal) = &options.auth.unusable {
        let message = format!(
            "invalid token of {principal:?}: must not be empty; allowed are A-Z a-z 0-9 - . _ ~ + / ="
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    serve::resolve_limits(&mut server)?;
    if options.auth.check.is_some() {
        server.shared.tasks.allow_lists();
    }
    Ok((server, options))
}

pub(super) fn bind(http: HttpServer, address: &str) -> Result<BoundServer, Error> {
    let (server, options) = check_settings(http)?;
    let listeners = Listener::bind(address)?;
    let address = listeners.first().map(Listener::address).unwrap_or_default();
    if let Some(warning) =
        reachability_warning(&options.allowed_hosts, &address, listeners.iter().all(Listener::is_local))
    {
        (options.diagnostics)(&warning);
    }
    Ok(BoundServer { server, options, listeners, address })
}

/// Creates the connection for a server's requests without a session.
pub(super) fn shared_connection(core: &Arc<Core>) -> Arc<Connection> {
    let shared = Arc::new(Connection::shared(Arc::clone(core), Arc::new(NullSink)));
    core.shared.connect(&shared);
    shared
}

/// Checks the paths of the endpoint and the pages.
fn check_paths(options: &Options) -> Result<(), Error> {
    let mut known = Vec::new();
    for path in std::iter::once(&options.path).chain(options.pages.iter().map(|page| &page.path)) {
        mounts::check_path(path)?;
        if known.contains(path) {
            return Err(mounts::duplicate(path));
        }
        known.push(path.clone());
    }
    options.mounts.table.reserve(known)
}

/// Returns a warning if other machines can connect, but every request of theirs would be rejected.
fn reachability_warning(allowed: &AllowedHosts, address: &str, local: bool) -> Option<String> {
    (allowed.is_local() && !local).then(|| {
        format!(
            "{address} is reachable from other machines, but only requests to localhost are served; see \
             `HttpServer::allow_host`"
        )
    })
}

/// Reports the end of the service's thread, also after a panic.
pub(super) struct ExitGuard {
    over: Arc<AtomicBool>,
    core: Arc<Core>,
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.core.watchdog.wake();
    }
}

impl BoundServer {
    /// Returns the address with the actual port, such as `127.0.0.1:8080`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the server, whose title, description and instructions can be changed until it
    /// serves. Clients that connect meanwhile wait.
    pub fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Serves until SIGTERM, SIGINT or [`Handle::stop`](crate::Handle::stop).
    ///
    /// # Errors
    /// [`crate::ErrorKind::Io`]: the sockets failed. [`crate::ErrorKind::Limit`]: a thread could
    /// not be started.
    pub fn serve(self) -> Result<(), Error> {
        let BoundServer { server, options, listeners, .. } = self;
        let no_signal_handlers = options.no_signal_handlers;
        let (service, watch) = prepare(server, options)?;
        let core = Arc::clone(&watch.core);
        let _signals = if no_signal_handlers { None } else { Some(core.watchdog.catch_signals()?) };
        let (served, result) = (watch.exit_guard(), Arc::new(Mutex::new(None)));
        let handle = Arc::new(Mutex::new(None));
        let (outcome, created, waiting) = (Arc::clone(&result), Arc::clone(&handle), Arc::clone(&core));
        serve::spawn("mcp-http", core.limits.worker_stack, move || {
            let _served = served;
            let run = |mut event_loop: EventLoop| {
                *lock(&created) = Some(event_loop.handle());
                waiting.watchdog.wake();
                event_loop.run()
            };
            *lock(&outcome) = Some(service.event_loop(listeners, Vec::new()).and_then(run));
        })?;
        let engine = loop {
            // The flag is read first: an event loop that has ended has already stored its handle.
            let is_over = watch.over.load(Ordering::Acquire);
            if let Some(engine) = lock(&handle).take() {
                break engine;
            }
            if is_over {
                let panicked = || Err(Error::new(ErrorKind::Misuse, "the event loop panicked"));
                return lock(&result).take().unwrap_or_else(panicked);
            }
            core.watchdog.pause();
        };
        watch.run(&engine);
        lock(&result).take().unwrap_or(Ok(()))
    }
}

/// Serves on the calling thread, for handlers that are not `Send`. The watchdog runs on another
/// thread.
pub(in crate::server) fn serve_here(
    http: HttpServer,
    inline: Vec<Box<InlineFn>>,
    address: &str,
) -> Result<(), Error> {
    let BoundServer { server, options, listeners, .. } = bind_and_report(http, address)?;
    let no_signal_handlers = options.no_signal_handlers;
    let (service, watch) = prepare(server, options)?;
    let core = Arc::clone(&watch.core);
    let _signals = if no_signal_handlers { None } else { Some(core.watchdog.catch_signals()?) };
    let mut event_loop = service.event_loop(listeners, inline)?;
    let (served, engine) = (watch.exit_guard(), event_loop.handle());
    let watcher = serve::spawn("mcp-watch", serve::WATCH_STACK, move || watch.run(&engine))?;
    let result = event_loop.run();
    drop(served);
    // OK to ignore: a panic was reported.
    let _ = watcher.join();
    result
}

/// Opens the address and reports it to the diagnostics.
pub(super) fn bind_and_report(http: HttpServer, address: &str) -> Result<BoundServer, Error> {
    let (path, sink) = (http.options.path.clone(), Arc::clone(&http.options.diagnostics));
    let bound = bind(http, address)?;
    match bound.address().strip_prefix("unix:") {
        Some(socket) => (sink)(&format!("serving {path} on the Unix socket {socket}")),
        None => (sink)(&format!("serving http://{}{path}", bound.address())),
    }
    Ok(bound)
}

/// Parts of the service, for the thread that creates it.
pub(super) struct ServiceParts {
    core: Arc<Core>,
    options: Arc<Options>,
    shared: Arc<Connection>,
    inline: Vec<Box<InlineSend>>,
}

impl ServiceParts {
    /// Creates the service, with these inline handlers after those of the server.
    pub(super) fn endpoint(self, inline: Vec<Box<InlineFn>>, engine: Arc<dyn EngineHandle>) -> Endpoint {
        let inline = serve::all_inline(self.inline, inline);
        Endpoint::new(&self.core, &self.options, &self.shared, inline, engine)
    }

    fn event_loop(self, listeners: Vec<Listener>, inline: Vec<Box<InlineFn>>) -> Result<EventLoop, Error> {
        let limits = self.core.limits.clone();
        EventLoop::new(listeners, &limits, |handle| self.endpoint(inline, Arc::new(handle)))
    }
}

/// Parts of the thread that watches deadlines and shuts down.
pub(super) struct Watch {
    pub(super) core: Arc<Core>,
    shared: Arc<Connection>,
    mounts: Arc<MountTable>,
    hooks: Hooks,
    over: Arc<AtomicBool>,
}

/// Prepares a server for serving.
pub(super) fn prepare(server: Server, options: Options) -> Result<(ServiceParts, Watch), Error> {
    let Parts { core, inline, hooks } = serve::into_parts(server, true)?;
    let shared = shared_connection(&core);
    let watch = Watch {
        core: Arc::clone(&core),
        shared: Arc::clone(&shared),
        mounts: Arc::clone(&options.mounts.table),
        hooks,
        over: Arc::default(),
    };
    Ok((ServiceParts { core, options: Arc::new(options), shared, inline }, watch))
}

impl Watch {
    pub(super) fn mounts(&self) -> Arc<MountTable> {
        Arc::clone(&self.mounts)
    }

    pub(super) fn exit_guard(&self) -> ExitGuard {
        ExitGuard { over: Arc::clone(&self.over), core: Arc::clone(&self.core) }
    }

    /// Watches until serving ends or must end, and shuts down.
    pub(super) fn run(self, engine: &dyn EngineHandle) {
        let Watch { core, shared, mounts, hooks, over } = self;
        core.watchdog.watch(
            None,
            |now| core.shared.check(now) | mounts.check(now),
            || {
                let end =
                    core.watchdog.terminated() || core.shared.stopping() || over.load(Ordering::Acquire);
                end.then_some(())
            },
        );
        shut_down(&core, &shared, &mounts, engine, &over, hooks);
    }
}

/// Shuts down; see the module documentation.
fn shut_down(
    core: &Arc<Core>,
    shared: &Arc<Connection>,
    mounts: &MountTable,
    engine: &dyn EngineHandle,
    over: &AtomicBool,
    mut hooks: Hooks,
) {
    let since = Instant::now();
    let deadline = since + core.limits.grace;
    let last = deadline.max(since + LAST_WRITES);
    let (mut servers, others) = mounts.close();
    servers.push(Arc::clone(&core.shared));
    hooks.extend(others);
    servers.iter().for_each(|server| server.stop());
    engine.stop(last + LAST_WRITES);
    let connections: Vec<_> = servers.iter().flat_map(|server| server.connections()).collect();
    let wait = ShutdownWait { conn: shared, since, deadline, signalled: core.watchdog.terminated() };
    // Responses of clients are no longer read, so the calls that wait for them end.
    for connection in &connections {
        connection.input_ended();
    }
    core.pool.close();
    let check = || {
        for connection in &connections {
            connection.check(Instant::now());
        }
    };
    while !core.pool.wait_idle(wait.next_check()) && wait.may_wait() {
        check();
    }
    while !servers.iter().all(|server| server.is_idle()) && wait.may_wait() {
        check();
        core.watchdog.pause();
    }
    servers.iter().for_each(|server| server.tasks.interrupt());
    let last = Instant::now() + LAST_WRITES;
    for connection in &connections {
        connection.close(last);
    }
    engine.stop(last);
    // The thread is not joined, because an inline handler that does not return would keep the
    // process alive.
    while !over.load(Ordering::Acquire) && Instant::now() < last + Duration::from_millis(100) {
        core.watchdog.pause();
    }
    mounts.close_session_servers(Instant::now() + core.limits.grace + SESSION_ENDS);
    mounts::run_hooks(hooks);
    // The program may end next.
    stderr::flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_address_without_allowed_hosts_causes_a_warning() {
        let mut allowed = AllowedHosts::default();
        assert_eq!(reachability_warning(&allowed, "127.0.0.1:80", true), None);
        let warning = reachability_warning(&allowed, "0.0.0.0:80", false);
        assert!(warning.is_some_and(|w| w.contains("0.0.0.0:80") && w.contains("allow_host")));
        allowed.allow_host("board.example".to_owned());
        assert_eq!(reachability_warning(&allowed, "0.0.0.0:80", false), None);
        let mut allowed = AllowedHosts::default();
        allowed.allow_any_host();
        assert_eq!(reachability_warning(&allowed, "0.0.0.0:80", false), None);
    }
}
