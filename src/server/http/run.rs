//! Binding, threads, and the order in which things end.
//!
//! # Shutdown
//! The port is closed at once and nothing new is read; event streams that wait for changes end;
//! running calls finish within [`Limits::grace`](crate::Limits::grace) and are answered; what still
//! runs then is answered with an error; then every connection is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};
use crate::pool;
use crate::server::connection::Connection;
use crate::server::serve::diagnostics;
use crate::server::serve::state::Core;
use crate::server::serve::{self, AtWork, Hooks, LAST_WRITES, Parts};
use crate::transport::http_server::{Engine, Listener, Remote};
use crate::transport::{FrameSink, ReplySink};

use super::HttpServer;
use super::gate::Gate;
use super::service::Endpoint;

/// A server whose address is open; see [`HttpServer::bind`].
#[must_use = "nothing is served until `serve` is called"]
pub struct BoundServer {
    parts: Parts,
    shared: Arc<Connection>,
    engine: Engine<Endpoint>,
    address: String,
    leave_signals: bool,
}

/// Requests without a session have nobody to tell anything to.
struct Nobody;

impl ReplySink for Nobody {}

impl FrameSink for Nobody {
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
    if !options.path.starts_with('/') || options.path.contains(['?', '#', ' ']) {
        let message = format!("invalid path {:?}: must begin with / and have no query", options.path);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    options.gate.check().map_err(|message| Error::new(ErrorKind::Invalid, message))?;
    if let Some(principal) = &options.auth.unusable {
        let message = format!(
            "invalid token of {principal:?}: must not be empty; allowed are A-Z a-z 0-9 - . _ ~ + / ="
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let mut parts = serve::take_apart(server, true)?;
    let listeners = Listener::bind(address)?;
    let address = listeners.first().map(Listener::address).unwrap_or_default();
    if let Some(warning) = out_of_reach(&options.gate, &address, listeners.iter().all(Listener::is_local)) {
        diagnostics::say(&warning);
    }
    let core = &parts.core;
    let shared = Arc::new(Connection::shared(Arc::clone(core), Arc::new(Nobody)));
    core.shared.connect(&shared);
    let inline = std::mem::take(&mut parts.inline);
    let leave_signals = options.leave_signals;
    let endpoint = Endpoint::new(core, &Arc::new(options), &shared, inline);
    let mut engine = Engine::new(listeners, endpoint, &core.limits)?;
    let remote = engine.remote();
    engine.service().wake_with(remote);
    Ok(BoundServer { parts, shared, engine, address, leave_signals })
}

/// What to say of an address that others reach, only to be told 403.
fn out_of_reach(gate: &Gate, address: &str, local: bool) -> Option<String> {
    (gate.is_local() && !local).then(|| {
        format!(
            "{address} can be reached from other machines, but only requests to localhost are served: \
             name the server's host with allow_host"
        )
    })
}

/// Says that the engine's thread is done, also when it ended in a panic.
struct Served {
    over: Arc<AtomicBool>,
    core: Arc<Core>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.core.watchdog.wake();
    }
}

impl BoundServer {
    /// Where the server is reached: `127.0.0.1:8080`, with the port that the system chose.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Serves until SIGTERM or SIGINT comes, or [`Handle::stop`](crate::Handle::stop) is called.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Io`]: the sockets failed. [`crate::ErrorKind::Limit`]: the system starts
    /// no thread.
    pub fn serve(self) -> Result<(), Error> {
        let BoundServer { parts, shared, mut engine, leave_signals, .. } = self;
        let core = Arc::clone(&parts.core);
        let _signals = if leave_signals { None } else { Some(core.watchdog.catch_signals()?) };
        let remote = engine.remote();
        let over = Arc::new(AtomicBool::new(false));
        let served = Served { over: Arc::clone(&over), core: Arc::clone(&core) };
        let result = Arc::new(Mutex::new(None));
        let told = Arc::clone(&result);
        serve::spawn("mcp-http", core.limits.worker_stack, move || {
            let _served = served;
            let ended = engine.run();
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        })?;
        core.watchdog.watch(
            |now| core.shared.check(now),
            || {
                let told =
                    core.watchdog.terminated() || core.shared.stopping() || over.load(Ordering::Acquire);
                told.then_some(())
            },
        );
        end(&core, &shared, &remote, &over, parts.hooks);
        let ended = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        ended.unwrap_or(Ok(()))
    }
}

/// Lets running calls finish within the grace period, then ends everything.
fn end(core: &Arc<Core>, shared: &Arc<Connection>, remote: &Remote, over: &AtomicBool, hooks: Hooks) {
    let since = Instant::now();
    let deadline = since + core.limits.grace;
    let last = deadline.max(since + LAST_WRITES);
    core.shared.stop();
    remote.stop(last + LAST_WRITES);
    let connections = core.shared.connections();
    let at_work = AtWork { conn: shared, since, deadline, heard: core.watchdog.terminated() };
    // Answers of clients are read no more, so what waits for them has to end.
    for conn in &connections {
        conn.input_ended();
    }
    core.pool.close();
    let look = || {
        for conn in &connections {
            conn.check(Instant::now());
        }
    };
    while !core.pool.wait_idle(at_work.next_look()) && at_work.goes_on() {
        look();
    }
    while !core.shared.at_rest() && at_work.goes_on() {
        look();
        core.watchdog.pause();
    }
    let last = Instant::now() + LAST_WRITES;
    for conn in &connections {
        conn.close(last);
    }
    remote.stop(last);
    // Not joined: a thread that is stuck in an inline handler would keep the process.
    while !over.load(Ordering::Acquire) && Instant::now() < last + Duration::from_millis(100) {
        core.watchdog.pause();
    }
    for hook in hooks {
        // One that panics must not keep the others from switching their pumps off.
        let _ = pool::guard(hook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_serves_nobody_who_reaches_it_is_told() {
        let mut gate = Gate::default();
        assert_eq!(out_of_reach(&gate, "127.0.0.1:80", true), None);
        let warning = out_of_reach(&gate, "0.0.0.0:80", false);
        assert!(warning.is_some_and(|w| w.contains("0.0.0.0:80") && w.contains("allow_host")));
        gate.allow_host("board.example".to_owned());
        assert_eq!(out_of_reach(&gate, "0.0.0.0:80", false), None);
        let mut gate = Gate::default();
        gate.allow_any_host();
        assert_eq!(out_of_reach(&gate, "0.0.0.0:80", false), None);
    }
}
