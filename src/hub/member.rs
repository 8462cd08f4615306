//! One server of a hub: its connection, its state and its restarts.
//!
//! # Invariants
//! - A connection belongs to a round. After a restart or a removal the connection of an earlier
//!   round is closed when it arrives.
//! - No lock is held while connecting, closing or calling the host, except `closing`, which is
//!   locked only by threads that close for good.
//! - A server that ends by itself is restarted after a pause that doubles, at most
//!   [`HubLimits::restarts`](crate::HubLimits::restarts) times in a row. Each [`RECOVERY_TIME`] of
//!   uptime reduces the count by one. A server that never ran is not restarted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::client::{Abort, Client, Protocol, ServerInfo};
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::pool::guard;
use crate::sync::{Condition, lock, wait_for};

use super::builder::Handlers;
use super::names::ListedNames;
use super::spawn;
use super::upstream::Upstream;

/// Stack size of a thread that connects or closes, in bytes. A connection to a URL may perform TLS
/// handshakes and renew a token.
pub(super) const STACK: usize = 256 << 10;
/// Pause before the first restart. It doubles with each further restart, up to 128 times its value.
const PAUSE: Duration = Duration::from_millis(500);
/// Timeout of a call while other threads write calls to the same server.
const WRITE_WAIT: Duration = Duration::from_millis(200);
/// The same timeout in a hub with one server, where no other server is delayed.
const WRITE_WAIT_SINGLE: Duration = Duration::from_secs(5);
/// Interval at which a retired server's calls in flight are counted.
const POLL: Duration = Duration::from_millis(20);
/// Uptime that reduces the count of restarts by one.
const RECOVERY_TIME: Duration = Duration::from_secs(2);

/// A server of a hub and its state.
///
/// ```no_run
/// use std::process::Command;
/// use std::time::{Duration, Instant};
/// use tinymcp::{Hub, ServerState, Upstream};
///
/// let hub = Hub::builder("host", "1.0.0").build()?;
/// hub.add("board", Upstream::command(|| Command::new("board_server")))?;
/// for status in hub.wait_settled(Instant::now() + Duration::from_secs(10)) {
///     match status.state {
///         ServerState::Running(info) => println!("{}: {}", status.server, info.version),
///         ServerState::Down { why, .. } => println!("{}: {why}", status.server),
///         _ => println!("{}: not ready", status.server),
///     }
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerStatus {
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

/// State of a server of a hub. It is a field of [`ServerStatus`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerState {
    /// The hub is connecting.
    Connecting,
    /// The server can be called.
    Running(Box<ServerInfo>),
    /// The server has no connection.
    Down {
        /// Kind of the failure.
        kind: ErrorKind,
        /// Code of the failure, see [`Error::code`]: 401 if the server requires a sign-in.
        code: Option<i32>,
        /// Reason for the failure.
        why: String,
        /// True if the hub will try again without [`super::Hub::restart`].
        again: bool,
    },
    /// The server was removed.
    Removed,
}

/// Callback for a connection, so that no thread needs to wait.
pub(super) trait ConnectWaiter: Send + Sync {
    /// Handles the connection or the error, on the thread that connected.
    fn on_connected(self: Arc<Self>, connection: Result<Client, Error>);
}

pub(super) struct Member {
    pub key: String,
    pub upstream: Upstream,
    handlers: Arc<Handlers>,
    restarts: u32,
    /// Number of calls of the exported hub.
    pub calls: AtomicU64,
    /// Number of threads that are writing a call to the server.
    writers: Mutex<usize>,
    written: Condition,
    state: Mutex<State>,
    changed: Condvar,
    /// Locked while the connection is closed permanently: a second `close` waits for the first.
    closing: Mutex<()>,
    pub listed: Mutex<ListedNames>,
}

struct State {
    phase: Phase,
    since: Instant,
    /// Number of the current round.
    round: u64,
    /// Number of connections that were started.
    connections: u64,
    /// Number of consecutive restarts, see [`tries_after`].
    tries: u32,
    last_error: Option<String>,
    /// The server has run before, so a failure may be temporary.
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
    Removed(Removal),
}

/// Reason why a server is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    Removed,
    Replaced,
    HubClosed,
}

impl Removal {
    /// Returns the error of calls to the server with this key.
    pub(super) fn error(self, key: &str) -> Error {
        Error::new(ErrorKind::Closed, self.reason(key))
    }

    fn reason(self, key: &str) -> String {
        match self {
            Removal::Removed => format!("the server {key:?} was removed"),
            Removal::Replaced => format!("the server {key:?} was replaced"),
            Removal::HubClosed => "the hub is closed".to_owned(),
        }
    }
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
            restarts: limits.hub.restarts,
            calls: AtomicU64::new(0),
            writers: Mutex::new(0),
            written: Condition::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            closing: Mutex::default(),
            listed: Mutex::default(),
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
            if state.round != after || matches!(state.phase, Phase::Removed(_)) {
                return;
            }
            state.round += 1;
            state.round
        };
        let member = Arc::clone(self);
        if let Err(error) = spawn("mcp-hub", move || member.connect(round, pause)) {
            self.finish_round(round, Err(Error::from(error)));
        }
    }

    /// Connects to the server. Runs on its own thread.
    fn connect(self: &Arc<Self>, round: u64, pause: Duration) {
        if !self.sleep(round, pause) {
            return;
        }
        self.handlers.wait_for_client();
        let (protocol, abort) = {
            let mut state = lock(&self.state);
            if state.round != round || matches!(state.phase, Phase::Removed(_)) {
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
                    member.connection_lost(round, why);
                }
            });
        if let Some(protocol) = protocol {
            client = client.protocol(protocol);
        }
        let result = guard(|| self.upstream.connect(client)).unwrap_or_else(|_| {
            let why = "the closure that connects panicked";
            Err(Error::new(ErrorKind::Misuse, why))
        });
        self.finish_round(round, result);
    }

    /// Sleeps for the pause. Returns `false` if the round ended meanwhile.
    fn sleep(&self, round: u64, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut state = lock(&self.state);
        loop {
            if state.round != round || matches!(state.phase, Phase::Removed(_)) {
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
    fn finish_round(self: &Arc<Self>, round: u64, result: Result<Client, Error>) {
        let mut again = None;
        let connected = {
            let mut state = lock(&self.state);
            if state.round != round || matches!(state.phase, Phase::Removed(_)) {
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
            return self.connection_lost(round, &why);
        }
        // A new connection has no subscriptions.
        for (client, uris) in connected.iter() {
            for uri in uris {
                // OK to drop: a later read fails with the error.
                let _ = client.subscribe(uri);
            }
        }
        drop(connected);
        self.handlers.notify_status(&self.status());
        if let Some(pause) = again {
            self.begin(pause, round);
        }
    }

    /// Handles the unexpected end of a round's connection.
    fn connection_lost(self: &Arc<Self>, round: u64, why: &Error) {
        let again;
        let ended;
        {
            let mut state = lock(&self.state);
            if state.round != round || !matches!(state.phase, Phase::Running(_)) {
                return;
            }
            state.tries = restarts_after(state.tries, state.since.elapsed());
            again = state.next_try(self.restarts);
            state.last_error = Some(why.to_string());
            let error = Error::new(why.kind(), why.to_string());
            let down = Phase::Down { error, again: again.is_some() };
            ended = state.set(down);
            self.changed.notify_all();
        }
        // Without the lock and on another thread: closing waits for the connection's thread, which
        // is this one.
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

    /// Makes new calls wait until [`Member::restart`], which must follow.
    pub(super) fn hold_calls(&self) {
        let mut state = lock(&self.state);
        state.round += 1;
        state.set(Phase::Connecting);
    }

    /// Closes the connection and connects again.
    pub(super) fn restart(self: &Arc<Self>) {
        let (ended, abort, round) = {
            let mut state = lock(&self.state);
            if matches!(state.phase, Phase::Removed(_)) {
                return;
            }
            state.round += 1;
            state.tries = 0;
            self.changed.notify_all();
            (state.set(Phase::Connecting), state.abort.clone(), state.round)
        };
        match ended {
            Phase::Running(client) => client.close(),
            _ => abort.abort(),
        }
        self.begin(Duration::ZERO, round);
    }

    /// Waits for the calls in flight, at most for `time`, then closes the connection permanently.
    /// The caller sends no further calls.
    pub(super) fn retire(&self, time: Duration, why: Removal) {
        let until = Instant::now() + time;
        let mut state = lock(&self.state);
        state.round += 1;
        while let Phase::Running(client) = &state.phase {
            let client = client.clone();
            drop(state);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || client.in_flight() == 0 {
                return self.close(why);
            }
            // Without the lock, because the last clone closes the connection.
            drop(client);
            state = wait_for(&self.changed, lock(&self.state), left.min(POLL));
        }
        drop(state);
        self.close(why);
    }

    /// Closes the connection permanently. The calls in flight fail with the reason. Waits for
    /// another thread that closes it.
    pub(super) fn close(&self, why: Removal) {
        let _closing = lock(&self.closing);
        let (ended, abort) = {
            let mut state = lock(&self.state);
            state.round += 1;
            self.changed.notify_all();
            (state.set(Phase::Removed(why)), state.abort.clone())
        };
        self.notify_waiters();
        match ended {
            Phase::Running(client) => client.close_with(&why.reason(&self.key)),
            _ => abort.abort(),
        }
    }

    /// Returns the connection, or the reason why there is no connection; `None` while connecting.
    fn connection(&self, state: &State) -> Option<Result<Client, Error>> {
        match &state.phase {
            Phase::Running(client) => Some(Ok(client.clone())),
            Phase::Down { error, .. } => {
                let why = format!("the server {:?} is down: {error}", self.key);
                Some(Err(Error::new(error.kind(), why)))
            }
            Phase::Removed(why) => Some(Err(why.error(&self.key))),
            Phase::Connecting => None,
        }
    }

    /// Returns the connection. Waits while connecting, at most until `deadline`.
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

    /// Returns the connection. While connecting, stores the waiter for the end of the round.
    pub(super) fn connected(&self, waiters: &Arc<dyn ConnectWaiter>) -> Option<Result<Client, Error>> {
        let mut state = lock(&self.state);
        if let Some(connection) = self.connection(&state) {
            return Some(connection);
        }
        state.waiters.retain(|other| other.strong_count() > 0);
        state.waiters.push(Arc::downgrade(waiters));
        None
    }

    /// Waits for a permit to write a call, so that an unread input blocks at most `most` threads.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if so many threads write for longer than [`WRITE_WAIT`] or
    /// [`WRITE_WAIT_SINGLE`].
    pub(super) fn write_permit(
        &self,
        most: usize,
        is_only: impl FnOnce() -> bool,
    ) -> Result<WritePermit<'_>, Error> {
        let mut writers = lock(&self.writers);
        if *writers >= most {
            drop(writers); // The function takes a lock.
            let until = Instant::now() + if is_only() { WRITE_WAIT_SINGLE } else { WRITE_WAIT };
            writers = lock(&self.writers);
            while *writers >= most {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let why = format!("the server {:?} does not read its input", self.key);
                    return Err(Error::new(ErrorKind::Busy, why));
                }
                writers = self.written.wait_for(writers, left);
            }
        }
        *writers += 1;
        Ok(WritePermit(self))
    }

    fn notify_waiters(&self) {
        let waiters = std::mem::take(&mut lock(&self.state).waiters);
        for waits in waiters.iter().filter_map(Weak::upgrade) {
            // After a restart in the meantime the waiter waits for the new round.
            if let Some(connection) = self.connected(&waits) {
                waits.on_connected(connection);
            }
        }
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(lock(&self.state).phase, Phase::Connecting)
    }

    /// Returns the deadline of a list that is requested now: after `time`, for a server that is
    /// connecting after `time` from its start. A server whose last list was late gets a tenth.
    pub(super) fn list_deadline(&self, now: Instant, time: Duration) -> Instant {
        let state = lock(&self.state);
        match state.phase {
            Phase::Connecting => (state.since + time).min(now + time),
            _ if state.slow => now + time / 10,
            _ => now + time,
        }
    }

    pub(super) fn note_list(&self, in_time: bool) {
        lock(&self.state).slow = !in_time;
    }

    pub(super) fn status(&self) -> ServerStatus {
        let member = lock(&self.state);
        let down = |error: &Error, again| {
            let (kind, code, why) = (error.kind(), error.code(), error.to_string());
            ServerState::Down { kind, code, why, again }
        };
        let (client, state) = match &member.phase {
            Phase::Connecting => (None, ServerState::Connecting),
            Phase::Running(client) => (Some(client.clone()), ServerState::Connecting),
            Phase::Down { error, again } => (None, down(error, *again)),
            Phase::Removed(_) => (None, ServerState::Removed),
        };
        let (since, restarts) = (member.since, member.connections.saturating_sub(1));
        let again = restarts_after(member.tries, since.elapsed()) < self.restarts;
        let last_error = member.last_error.clone();
        drop(member);
        // Calls fail before [`Member::connection_lost`] is called.
        let ended = client.as_ref().and_then(Client::ended);
        let last_error = ended.as_ref().map(Error::to_string).or(last_error);
        let state = match (client, ended) {
            (_, Some(error)) => down(&error, again),
            (Some(client), None) => ServerState::Running(Box::new(client.server())),
            (None, None) => state,
        };
        let calls = self.calls.load(Ordering::Relaxed);
        ServerStatus { server: self.key.clone(), state, since, restarts, calls, last_error }
    }

    /// Stores a subscription, to subscribe again after a restart.
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

    /// Returns the pause before the next start, if the limit of restarts allows one.
    fn next_try(&mut self, most: u32) -> Option<Duration> {
        (self.tries < most).then(|| {
            self.tries += 1;
            PAUSE * (1 << (self.tries - 1).min(7))
        })
    }
}

/// Returns the number of consecutive restarts that still counts after this uptime.
fn restarts_after(tries: u32, uptime: Duration) -> u32 {
    let recovered = uptime.as_secs() / RECOVERY_TIME.as_secs();
    tries.saturating_sub(u32::try_from(recovered).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
