//! Servers that belong to one session each; see
//! [`HttpServer::per_session`](super::HttpServer::per_session).
//!
//! # Invariants
//! - The functions of [`Server::on_shutdown`] of such a server run once: on a separate thread
//!   when the session has ended, or at the end of the HTTP server.
//! - There are at most as many servers as allowed sessions, and as many again whose functions run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::error::Error;
use crate::pool::guard;
use crate::server::Server;
use crate::server::serve::state::{Core, Shared};
use crate::server::serve::{self, Hooks};
use crate::sync::{lock, wait_for};

use super::mounts::{assemble_beside, run_hooks};

/// Creates the server of a session.
pub(super) type MakeServer = dyn Fn() -> Result<Server, Error> + Send + Sync;

/// Stack of a thread that runs the functions at the end of a session.
const STACK: usize = 128 << 10;
/// Maximum number of threads that run the functions at the end of the HTTP server.
const THREADS: usize = 64;

/// The servers of all sessions. A trait, so that a program without such servers does not contain
/// their code.
pub(super) trait SessionServers: Send + Sync {
    /// Returns whether a server can be added after a session has ended. Up to `max` servers may
    /// still be ending, because an end takes time and must not delay the next session.
    fn has_room(&self, max: usize) -> bool;

    /// Creates the server of a session that is being opened, and prepares it for serving beside the
    /// first one. `None` if `make` failed, or if there are as many servers as allowed sessions.
    fn open(self: Arc<Self>, make: &MakeServer, first: &Core) -> Option<(Arc<Core>, SessionServer)>;

    /// Runs [`Shared::check`] on every server. Returns whether one must be checked again.
    fn check(&self, now: Instant) -> bool;

    /// Returns the servers. From now on only [`SessionServers::close`] ends them.
    fn stop(&self) -> Vec<Arc<Shared>>;

    /// Ends all servers at the same time on at most [`THREADS`] threads, because each may take some
    /// time, and waits for those that end already, at most until `deadline`.
    fn close(self: Arc<Self>, deadline: Instant);
}

/// The server of a session. Dropping this ends it.
pub(super) type SessionServer = Box<dyn Send + Sync>;

#[derive(Default)]
pub(super) struct Table {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    last: u64,
    open: BTreeMap<u64, (Arc<Shared>, Hooks)>,
    /// Number of servers whose functions run.
    ending: usize,
    /// The HTTP server stops, and [`SessionServers::close`] ends the servers.
    closing: bool,
}

impl State {
    fn servers(&self) -> Vec<Arc<Shared>> {
        self.open.values().map(|(shared, _)| Arc::clone(shared)).collect()
    }
}

/// A server in the table.
struct Entry {
    all: Arc<Table>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let all = Arc::clone(&self.all);
        let hooks = {
            let mut state = lock(&all.state);
            if state.closing {
                return;
            }
            let Some((_, hooks)) = state.open.remove(&self.number) else { return };
            state.ending += 1;
            hooks
        };
        let hooks = Arc::new(Mutex::new(hooks));
        let taken = Arc::clone(&hooks);
        let (ends, ended) = (Arc::clone(&all), Arc::clone(&all));
        if serve::spawn("mcp-session-end", STACK, move || ends.end(&taken)).is_err() {
            // No thread could be started, so the event loop runs the functions itself.
            ended.end(&hooks);
        }
    }
}

/// Runs the functions of servers until none is left.
fn run_all(left: &Mutex<VecDeque<Hooks>>) {
    loop {
        let next = lock(left).pop_front();
        let Some(hooks) = next else { return };
        run_hooks(hooks);
    }
}

impl Table {
    fn add(self: &Arc<Self>, server: &mut Server, max: usize) -> Option<Entry> {
        let mut state = lock(&self.state);
        if state.closing || state.open.len() >= max {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.open.insert(number, (Arc::clone(&server.shared), std::mem::take(&mut server.on_shutdown)));
        Some(Entry { all: Arc::clone(self), number })
    }

    fn end(&self, hooks: &Mutex<Hooks>) {
        let hooks = std::mem::take(&mut *lock(hooks));
        run_hooks(hooks);
        self.count_end();
    }

    fn count_end(&self) {
        lock(&self.state).ending -= 1;
        self.ended.notify_all();
    }
}

impl SessionServers for Table {
    fn has_room(&self, max: usize) -> bool {
        let state = lock(&self.state);
        !state.closing && state.ending < max
    }

    fn open(self: Arc<Self>, make: &MakeServer, first: &Core) -> Option<(Arc<Core>, SessionServer)> {
        // Inline tools belong to an endpoint, so a server with inline tools is rejected, as is a
        // panic.
        let mut server = guard(make).ok()?.ok().filter(|server| server.inline.is_empty())?;
        let entry = self.add(&mut server, first.limits.http.sessions)?;
        Some((assemble_beside(first, server).core, Box::new(entry)))
    }

    fn check(&self, now: Instant) -> bool {
        let servers = lock(&self.state).servers();
        servers.iter().fold(false, |more, shared| shared.check(now) | more)
    }

    fn stop(&self) -> Vec<Arc<Shared>> {
        let mut state = lock(&self.state);
        state.closing = true;
        state.servers()
    }

    fn close(self: Arc<Self>, deadline: Instant) {
        let open = std::mem::take(&mut lock(&self.state).open);
        let left: VecDeque<Hooks> = open.into_values().map(|(_, hooks)| hooks).collect();
        let threads = left.len().min(THREADS);
        let left = Arc::new(Mutex::new(left));
        for _ in 1..threads {
            let (all, left) = (Arc::clone(&self), Arc::clone(&left));
            lock(&self.state).ending += 1;
            let ends = move || {
                run_all(&left);
                all.count_end();
            };
            // Without a new thread, this thread runs the rest.
            if serve::spawn("mcp-session-end", STACK, ends).is_err() {
                self.count_end();
            }
        }
        run_all(&left);
        let mut state = lock(&self.state);
        while state.ending > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = wait_for(&self.ended, state, left);
        }
    }
}
