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
use crate::server::connection::Connection;
use crate::server::serve::state::Core;
use crate::server::serve::{self, AtWork, Hooks, LAST_WRITES, Parts};
use crate::sync::lock;
use crate::transport::http_server::{EventLoop, Listener, LoopHandle};
use crate::transport::{FrameSink, ReplySink};

use super::allowed_hosts::AllowedHosts;
use super::endpoint::Endpoint;
use super::mounts::{self, MountTable};
use super::session_servers::SessionServers;
use super::{HttpServer, Options};

/// Longest wait for servers of sessions that ended before the shutdown, beyond the grace period.
const SESSION_ENDS: Duration = Duration::from_secs(5);

/// A server with an open address; see [`HttpServer::bind`].
#[must_use = "nothing is served until `serve` is called"]
pub struct BoundServer {
    parts: Parts,
    shared: Arc<Connection>,
    mounts: Arc<MountTable>,
    session_servers: Arc<SessionServers>,
    event_loop: EventLoop,
    address: String,
    leave_signals: bool,
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

pub(super) fn bind(http: HttpServer, address: &str) -> Result<BoundServer, Error> {
    let HttpServer { server, options } = http;
    check_paths(&options)?;
    options.allowed_hosts.check().map_err(|message| Error::new(ErrorKind::Invalid, message))?;
    if let Some(principal) = &options.auth.unusable {
        let message = format!(
            "invalid token of {principal:?}: must not be empty; allowed are A-Z a-z 0-9 - . _ ~ + / ="
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let mut parts = serve::take_apart(server, true)?;
    let listeners = Listener::bind(address)?;
    let address = listeners.first().map(Listener::address).unwrap_or_default();
    if let Some(warning) =
        reachability_warning(&options.allowed_hosts, &address, listeners.iter().all(Listener::is_local))
    {
        (options.diagnostics)(&warning);
    }
    let core = &parts.core;
    let shared = shared_connection(core);
    let mounts = Arc::clone(&options.mounts.table);
    let session_servers = Arc::clone(&options.session_servers);
    let inline = std::mem::take(&mut parts.inline);
    let leave_signals = options.leave_signals;
    let event_loop = EventLoop::new(listeners, &core.limits, |loop_handle| {
        Endpoint::new(core, &Arc::new(options), &shared, inline, loop_handle)
    })?;
    Ok(BoundServer { parts, shared, mounts, session_servers, event_loop, address, leave_signals })
}

/// Connection of a server's requests without a session.
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

/// Reports the end of the event loop, also after a panic.
struct ExitGuard {
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

    /// Serves until SIGTERM, SIGINT or [`Handle::stop`](crate::Handle::stop).
    ///
    /// # Errors
    /// [`crate::ErrorKind::Io`]: the sockets failed. [`crate::ErrorKind::Limit`]: a thread could
    /// not be started.
    pub fn serve(self) -> Result<(), Error> {
        let BoundServer { parts, shared, mounts, session_servers, mut event_loop, leave_signals, .. } = self;
        let core = Arc::clone(&parts.core);
        let _signals = if leave_signals { None } else { Some(core.watchdog.catch_signals()?) };
        let loop_handle = event_loop.handle();
        let over = Arc::new(AtomicBool::new(false));
        let served = ExitGuard { over: Arc::clone(&over), core: Arc::clone(&core) };
        let result = Arc::new(Mutex::new(None));
        let outcome = Arc::clone(&result);
        serve::spawn("mcp-http", core.limits.worker_stack, move || {
            let _served = served;
            *lock(&outcome) = Some(event_loop.run());
        })?;
        core.watchdog.watch(
            None,
            |now| core.shared.check(now) | mounts.check(now) | session_servers.check(now),
            || {
                let end =
                    core.watchdog.terminated() || core.shared.stopping() || over.load(Ordering::Acquire);
                end.then_some(())
            },
        );
        end(&core, &shared, (&mounts, &session_servers), &loop_handle, &over, parts.hooks);
        lock(&result).take().unwrap_or(Ok(()))
    }
}

/// Shuts down; see the module documentation.
fn end(
    core: &Arc<Core>,
    shared: &Arc<Connection>,
    (mounts, session_servers): (&MountTable, &Arc<SessionServers>),
    loop_handle: &LoopHandle,
    over: &AtomicBool,
    mut hooks: Hooks,
) {
    let since = Instant::now();
    let deadline = since + core.limits.grace;
    let last = deadline.max(since + LAST_WRITES);
    let (mut servers, others) = mounts.close();
    servers.push(Arc::clone(&core.shared));
    servers.extend(session_servers.stop());
    hooks.extend(others);
    servers.iter().for_each(|server| server.stop());
    loop_handle.stop(last + LAST_WRITES);
    let connections: Vec<_> = servers.iter().flat_map(|server| server.connections()).collect();
    let at_work = AtWork { conn: shared, since, deadline, signalled: core.watchdog.terminated() };
    // Responses of clients are no longer read, so the calls that wait for them end.
    for connection in &connections {
        connection.input_ended();
    }
    core.pool.close();
    let look = || {
        for connection in &connections {
            connection.check(Instant::now());
        }
    };
    while !core.pool.wait_idle(at_work.next_check()) && at_work.may_wait() {
        look();
    }
    while !servers.iter().all(|server| server.at_rest()) && at_work.may_wait() {
        look();
        core.watchdog.pause();
    }
    let last = Instant::now() + LAST_WRITES;
    for connection in &connections {
        connection.close(last);
    }
    loop_handle.stop(last);
    // Not joined: an inline handler that does not return would keep the process alive.
    while !over.load(Ordering::Acquire) && Instant::now() < last + Duration::from_millis(100) {
        core.watchdog.pause();
    }
    session_servers.close(Instant::now() + core.limits.grace + SESSION_ENDS);
    mounts::run(hooks);
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
