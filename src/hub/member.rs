//! One server of a hub: its connection, its state and its restarts.
//!
//! # Invariants
//! - A connection belongs to a round. After a restart or a removal the connection of an earlier
//!   round is closed when it arrives.
//! - No lock is held while connecting, closing or calling the host.
//! - A server that ends by itself is restarted after a pause that doubles, at most
//!   [`Limits::restarts`] times in a row; each [`RECOVERED`] of uptime makes up for one of them. A
//!   server that never ran is not restarted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::client::{Abort, Client, Protocol, ServerInfo};
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::pool::guard;
use crate::sync::{Condition, lock, wait_for};
use crate::transport::tap::clients::observing;

use super::builder::Handlers;
use super::spawn;
use super::upstream::Upstream;

/// Stack of a thread that connects or closes, in bytes.
pub(super) const STACK: usize = 128 << 10;
/// Pause before the first restart; it doubles.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest wait of a call while other calls to the same server are being written.
const ROOM: Duration = Duration::from_millis(200);
/// Uptime that makes up for one restart.
const RECOVERED: Duration = Duration::from_secs(2);

/// A server of a hub and its state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The server's key.
    pub server: String,
    /// The state.
    pub state: ServerState,
    /// Start of this state.
    pub since: Instant,
    /// Number of connections that the hub started, beyond the first.
    pub restarts: u64,
    /// Number of calls that the exported hub ([`super::Hub::export`]) sent to the server: of tools
    /// and prompts, reads and completions.
    pub calls: u64,
    /// Reason of the last failure, also after the server has recovered.
    pub last_error: Option<String>,
}

/// State of a server of a hub.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerState {
    /// The connection is being made.
    Connecting,
    /// The server can be called.
    Running(Box<ServerInfo>),
    /// The server has no connection.
    Down {
        /// Kind of the failure.
        kind: ErrorKind,
        /// Reason for the failure.
        why: String,
        /// True if the hub will try again without [`super::Hub::restart`].
        again: bool,
    },
    /// The server was removed.
    Removed,
}

/// Waits for a connection without a thread.
pub(super) trait ConnectWaiter: Send + Sync {
    /// Called with the connection or the error, on the thread that connected.
    fn settled(self: Arc<Self>, connection: Result<Client, Error>);
}

pub(super) struct Member {
    pub key: String,
    pub upstream: Upstream,
    handlers: Arc<Handlers>,
    restarts: u32,
    /// Number of calls of the exported hub.
    pub calls: AtomicU64,
    /// Number of threads that write a call to the server.
    writers: Mutex<usize>,
    written: Condition,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    since: Instant,
    /// Number of the current round.
    round: u64,
    /// Number of connections that were started.
    connections: u64,
    /// Failed starts in a row.
    tries: u32,
    last_error: Option<String>,
    /// The server has run, so a failure may be temporary.
    ran: bool,
    /// Protocol of the last connection; a new connection needs no probe.
    protocol: Option<Protocol>,
    subscriptions: Vec<String>,
    /// The server's last list was late.
    slow: bool,
    /// Cancels the connection that is being made.
    abort: Abort,
    /// Waiters for the connection. Dead entries are removed when one is added.
    waiters: Vec<Weak<dyn ConnectWaiter>>,
}

enum Phase {
    Connecting,
    Running(Client),
    Down { error: Error, again: bool },
    Removed,
}

impl Member {
    pub(super) fn new(
        key: String,
        upstream: Upstream,
        handlers: Arc<Handlers>,
        limits: &Limits,
    ) -> Arc<Member> {
        let state = State {
            phase: Phase::Connecting,
            since: Instant::now(),
            round: 0,
            connections: 0,
            tries: 0,
            last_error: None,
            ran: false,
            protocol: None,
            subscriptions: Vec::new(),
            slow: false,
            abort: Abort::new(),
            waiters: Vec::new(),
        };
        Arc::new(Member {
            key,
            upstream,
            handlers,
            restarts: limits.restarts,
            calls: AtomicU64::new(0),
            writers: Mutex::new(0),
            written: Condition::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    /// Starts the first connection, without waiting.
    pub(super) fn start(self: &Arc<Self>) {
        self.begin(Duration::ZERO, 0);
    }

    /// Starts a round after a pause, unless another round has started since `after`.
    fn begin(self: &Arc<Self>, pause: Duration, after: u64) {
        let round = {
            let mut state = lock(&self.state);
            if state.round != after || matches!(state.phase, Phase::Removed) {
                return;
            }
            state.round += 1;
            state.round
        };
        let member = Arc::clone(self);
        if let Err(error) = spawn("mcp-hub", move || member.connect(round, pause)) {
            self.settle(round, Err(Error::from(error)));
        }
    }

    /// Makes a connection. Runs on its own thread.
    fn connect(self: &Arc<Self>, round: u64, pause: Duration) {
        if !self.rest(round, pause) {
            return;
        }
        self.handlers.wait_for_client();
        let (protocol, abort) = {
            let mut state = lock(&self.state);
            if state.round != round || matches!(state.phase, Phase::Removed) {
                return;
            }
            state.set(Phase::Connecting);
            state.connections += 1;
            state.abort = Abort::new();
            (state.protocol, state.abort.clone())
        };
        let member = Arc::downgrade(self);
        let mut client =
            self.handlers.client(&self.key, self.upstream.call_timeout).abort(&abort).on_end(move |why| {
                if let Some(member) = member.upgrade() {
                    member.lost(round, why);
                }
            });
        if let Some(protocol) = protocol {
            client = client.protocol(protocol);
        }
        let connect = || observing(self.handlers.tap(&self.key), || self.upstream.connect(client));
        let result = guard(connect).unwrap_or_else(|_| {
            let why = "the closure that connects panicked";
            Err(Error::new(ErrorKind::Misuse, why))
        });
        self.settle(round, result);
    }

    /// Sleeps for the pause; returns false if the round ended meanwhile.
    fn rest(&self, round: u64, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut state = lock(&self.state);
        loop {
            if state.round != round || matches!(state.phase, Phase::Removed) {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            state = wait_for(&self.changed, state, left);
        }
    }

    /// Stores the result of a round.
    fn settle(self: &Arc<Self>, round: u64, result: Result<Client, Error>) {
        let mut again = None;
        let connected = {
            let mut state = lock(&self.state);
            if state.round != round || matches!(state.phase, Phase::Removed) {
                // A late connection is closed outside of the lock.
                drop(state);
                return drop(result);
            }
            let connected = match result {
                Ok(client) => {
                    (state.ran, state.protocol, state.slow) = (true, Some(client.protocol()), false);
                    state.set(Phase::Running(client.clone()));
                    Some((client, state.subscriptions.clone()))
                }
                Err(error) => {
                    // The server may use another protocol after an update: probe again.
                    state.protocol = None;
                    state.last_error = Some(error.to_string());
                    again = if state.ran { state.next_try(self.restarts) } else { None };
                    state.set(Phase::Down { error, again: again.is_some() });
                    None
                }
            };
            self.changed.notify_all();
            connected
        };
        self.notify_waiters();
        // The connection may have ended before it was stored.
        if let Some(why) = connected.as_ref().and_then(|(client, _)| client.ended()) {
            drop(connected);
            return self.lost(round, &why);
        }
        // A new connection has no subscriptions.
        for (client, uris) in connected.iter() {
            for uri in uris {
                // OK to drop: a later read gets the error.
                let _ = client.subscribe(uri);
            }
        }
        drop(connected);
        self.handlers.notify_status(&self.status());
        if let Some(pause) = again {
            self.begin(pause, round);
        }
    }

    /// The connection of a round ended by itself.
    fn lost(self: &Arc<Self>, round: u64, why: &Error) {
        let again;
        let ended;
        {
            let mut state = lock(&self.state);
            if state.round != round || !matches!(state.phase, Phase::Running(_)) {
                return;
            }
            state.tries = tries_after(state.tries, state.since.elapsed());
            again = state.next_try(self.restarts);
            state.last_error = Some(why.to_string());
            let error = Error::new(why.kind(), why.to_string());
            let down = Phase::Down { error, again: again.is_some() };
            ended = state.set(down);
            self.changed.notify_all();
        }
        // On another thread and without the lock: this thread is the connection's, and closing waits for it.
        if let Phase::Running(client) = ended {
            self.reap(client);
        }
        self.handlers.notify_status(&self.status());
        if let Some(pause) = again {
            self.begin(pause, round);
        }
    }

    /// Closes a connection that ended, on its own thread.
    fn reap(&self, client: Client) {
        let kept = Arc::new(Mutex::new(Some(client)));
        let taken = Arc::clone(&kept);
        if spawn("mcp-hub-close", move || drop(lock(&taken).take())).is_err() {
            // No thread can be started: close on this thread, within the limits.
            drop(lock(&kept).take());
        }
    }

    /// Closes the connection and makes a new one.
    pub(super) fn restart(self: &Arc<Self>) {
        let (ended, abort, round) = {
            let mut state = lock(&self.state);
            if matches!(state.phase, Phase::Removed) {
                return;
            }
            state.round += 1;
            state.tries = 0;
            self.changed.notify_all();
            (state.set(Phase::Connecting), state.abort.clone(), state.round)
        };
        end(ended, &abort);
        self.begin(Duration::ZERO, round);
    }

    /// Closes the connection for good.
    pub(super) fn close(&self) {
        let (ended, abort) = {
            let mut state = lock(&self.state);
            state.round += 1;
            self.changed.notify_all();
            (state.set(Phase::Removed), state.abort.clone())
        };
        self.notify_waiters();
        end(ended, &abort);
    }

    /// The connection, or the reason why there is no connection; `None` while connecting.
    fn connection(&self, state: &State) -> Option<Result<Client, Error>> {
        match &state.phase {
            Phase::Running(client) => Some(Ok(client.clone())),
            Phase::Down { error, .. } => {
                let why = format!("the server {:?} is down: {error}", self.key);
                Some(Err(Error::new(error.kind(), why)))
            }
            Phase::Removed => {
                let why = format!("the server {:?} was removed", self.key);
                Some(Err(Error::new(ErrorKind::Closed, why)))
            }
            Phase::Connecting => None,
        }
    }

    /// The connection. Waits while connecting, at most until `deadline`.
    pub(super) fn client(&self, deadline: Instant) -> Result<Client, Error> {
        let mut state = lock(&self.state);
        loop {
            if let Some(connection) = self.connection(&state) {
                return connection;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = format!("the server {:?} is still connecting", self.key);
                return Err(Error::new(ErrorKind::Timeout, why));
            }
            state = wait_for(&self.changed, state, left);
        }
    }

    /// The connection, without waiting: while connecting, the waiter is stored (weakly) and called
    /// when the round is over.
    pub(super) fn connected(&self, waiters: &Arc<dyn ConnectWaiter>) -> Option<Result<Client, Error>> {
        let mut state = lock(&self.state);
        if let Some(connection) = self.connection(&state) {
            return Some(connection);
        }
        state.waiters.retain(|other| other.strong_count() > 0);
        state.waiters.push(Arc::downgrade(waiters));
        None
    }

    /// Waits for a permit to write a call to the server. A server that does not read its input
    /// blocks at most `most` threads.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if so many threads write for longer than [`ROOM`].
    pub(super) fn write_permit(&self, most: usize) -> Result<WritePermit<'_>, Error> {
        let until = Instant::now() + ROOM;
        let mut writers = lock(&self.writers);
        while *writers >= most {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = format!("the server {:?} does not read its input", self.key);
                return Err(Error::new(ErrorKind::Busy, why));
            }
            writers = self.written.wait_for(writers, left);
        }
        *writers += 1;
        Ok(WritePermit(self))
    }

    fn notify_waiters(&self) {
        let waiters = std::mem::take(&mut lock(&self.state).waiters);
        for waits in waiters.iter().filter_map(Weak::upgrade) {
            // After a restart in the meantime the waiter waits for the new round.
            if let Some(connection) = self.connected(&waits) {
                waits.settled(connection);
            }
        }
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(lock(&self.state).phase, Phase::Connecting)
    }

    /// Deadline of a list that is requested now: `time` from now. For a server that is connecting,
    /// the time counts from its start, and a server whose last list was late gets a tenth, so that
    /// neither delays every list.
    pub(super) fn list_deadline(&self, now: Instant, time: Duration) -> Instant {
        let state = lock(&self.state);
        match state.phase {
            Phase::Connecting => (state.since + time).min(now + time),
            _ if state.slow => now + time / 10,
            _ => now + time,
        }
    }

    /// Stores whether the server sent its list in time.
    pub(super) fn note_list(&self, in_time: bool) {
        lock(&self.state).slow = !in_time;
    }

    pub(super) fn status(&self) -> Status {
        let member = lock(&self.state);
        let (client, state) = match &member.phase {
            Phase::Connecting => (None, ServerState::Connecting),
            Phase::Running(client) => (Some(client.clone()), ServerState::Connecting),
            Phase::Down { error, again } => {
                (None, ServerState::Down { kind: error.kind(), why: error.to_string(), again: *again })
            }
            Phase::Removed => (None, ServerState::Removed),
        };
        let (since, restarts) = (member.since, member.connections.saturating_sub(1));
        let last_error = member.last_error.clone();
        drop(member);
        let state = client.map_or(state, |c| ServerState::Running(Box::new(c.server())));
        let calls = self.calls.load(Ordering::Relaxed);
        Status { server: self.key.clone(), state, since, restarts, calls, last_error }
    }

    /// Stores a subscription, to make it again after a restart.
    pub(super) fn keep_subscription(&self, uri: &str, wanted: bool) {
        let mut state = lock(&self.state);
        state.subscriptions.retain(|u| u != uri);
        if wanted {
            state.subscriptions.push(uri.to_owned());
        }
    }
}

/// Permit to write a call to a server.
pub(super) struct WritePermit<'m>(&'m Member);

impl Drop for WritePermit<'_> {
    fn drop(&mut self) {
        let mut writers = lock(&self.0.writers);
        *writers -= 1;
        self.0.written.release(writers);
    }
}

impl State {
    fn set(&mut self, phase: Phase) -> Phase {
        self.since = Instant::now();
        std::mem::replace(&mut self.phase, phase)
    }

    /// The pause before the next start, if the limit of restarts allows one.
    fn next_try(&mut self, most: u32) -> Option<Duration> {
        if self.tries >= most {
            return None;
        }
        let pause = PAUSE * (1 << self.tries.min(7));
        self.tries += 1;
        Some(pause)
    }
}

/// The number of restarts in a row after this uptime.
fn tries_after(tries: u32, uptime: Duration) -> u32 {
    let recovered = uptime.as_secs() / RECOVERED.as_secs();
    tries.saturating_sub(u32::try_from(recovered).unwrap_or(u32::MAX))
}

/// Ends the connection or the attempt of a round.
fn end(ended: Phase, abort: &Abort) {
    match ended {
        Phase::Running(client) => client.close(),
        _ => abort.abort(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_makes_up_for_restarts() {
        for (tries, millis, left) in [(1, 0, 1), (1, 1999, 1), (1, 2000, 0), (5, 4100, 3), (0, 9000, 0)] {
            assert_eq!(tries_after(tries, Duration::from_millis(millis)), left, "{tries} {millis}");
        }
        assert_eq!(tries_after(5, Duration::MAX), 0);
    }
}
