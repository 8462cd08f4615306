//! Servers that belong to one session each; see
//! [`HttpServer::per_session`](super::HttpServer::per_session).
//!
//! # Invariants
//! - The functions of [`Server::on_shutdown`] of such a server run once: on a thread of their own
//!   when the session has ended, or at the end of the HTTP server.
//! - There are at most as many servers as sessions are allowed, and as many again whose functions
//!   run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::error::Error;
use crate::server::Server;
use crate::server::serve::state::Shared;
use crate::server::serve::{self, Hooks};
use crate::sync::{lock, wait_for};

use super::mounts::run;

/// Creates the server of a session.
pub(super) type MakeServer = dyn Fn() -> Result<Server, Error> + Send + Sync;

/// Stack of a thread that runs the functions at the end of a session.
const STACK: usize = 128 << 10;
/// Most threads that run the functions at the end of the HTTP server.
const THREADS: usize = 64;

/// The servers of all sessions.
#[derive(Default)]
pub(super) struct SessionServers {
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

/// The server of a session. Dropping this ends it.
pub(super) struct SessionServer {
    all: Arc<SessionServers>,
    number: u64,
}

impl Drop for SessionServer {
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
            // No thread can be started: the event loop waits, within the limits of the functions.
            ended.end(&hooks);
        }
    }
}

/// Runs the functions of servers until none is left.
fn run_all(left: &Mutex<VecDeque<Hooks>>) {
    loop {
        let next = lock(left).pop_front();
        let Some(hooks) = next else { return };
        run(hooks);
    }
}

impl SessionServers {
    /// Returns whether another server may be added when a session has ended: an end takes time, and
    /// must not keep the next session out.
    pub(super) fn has_room(&self, most: usize) -> bool {
        let state = lock(&self.state);
        !state.closing && state.ending < most
    }

    /// Adds the server of a session that is being opened. `None` if there are `most` already.
    pub(super) fn add(self: &Arc<Self>, server: &mut Server, most: usize) -> Option<SessionServer> {
        let mut state = lock(&self.state);
        if state.closing || state.open.len() >= most {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.open.insert(number, (Arc::clone(&server.shared), std::mem::take(&mut server.on_shutdown)));
        Some(SessionServer { all: Arc::clone(self), number })
    }

    fn end(&self, hooks: &Mutex<Hooks>) {
        let hooks = std::mem::take(&mut *lock(hooks));
        run(hooks);
        self.has_ended();
    }

    fn has_ended(&self) {
        lock(&self.state).ending -= 1;
        self.ended.notify_all();
    }

    /// Runs [`Shared::check`] on every server. Returns whether one must be checked again.
    pub(super) fn check(&self, now: Instant) -> bool {
        let servers = lock(&self.state).servers();
        servers.iter().fold(false, |more, shared| shared.check(now) | more)
    }

    /// Leaves the servers to [`SessionServers::close`] from now on. Returns them.
    pub(super) fn stop(&self) -> Vec<Arc<Shared>> {
        let mut state = lock(&self.state);
        state.closing = true;
        state.servers()
    }

    /// Ends all servers at the same time on at most [`THREADS`] threads, because each may take some
    /// time, and waits for those that end already, at most until `deadline`.
    pub(super) fn close(self: &Arc<Self>, deadline: Instant) {
        let open = std::mem::take(&mut lock(&self.state).open);
        let left: VecDeque<Hooks> = open.into_values().map(|(_, hooks)| hooks).collect();
        let threads = left.len().min(THREADS);
        let left = Arc::new(Mutex::new(left));
        for _ in 1..threads {
            let (all, left) = (Arc::clone(self), Arc::clone(&left));
            lock(&self.state).ending += 1;
            let ends = move || {
                run_all(&left);
                all.has_ended();
            };
            // Without a thread, this one does what is left.
            if serve::spawn("mcp-session-end", STACK, ends).is_err() {
                self.has_ended();
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
