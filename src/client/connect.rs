//! Era detection and the handshake.
//!
//! The first request is `server/discover` of the stateless protocol. Only a response that this
//! protocol defines proves it. Every other error, an HTTP status of the 4xx kind or, on streams,
//! silence means a session (MCP 2026-07-28 basic/versioning, basic/transports). A child that exits
//! after it has read a part of the first request is started again and greeted with `initialize`; a
//! child that exits without reading anything is not.
//!
//! # Invariants
//! - A session is opened once per verdict, and its opening is never cancelled (basic/lifecycle).
//! - Authorisation failures, overload and network failures are no evidence of an era: they are
//!   reported.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::era::client::{self as codec, Greeting, NEWEST_SESSION, Verdict};
use crate::era::outgoing::{OutgoingRequest, RequestKind};
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::model::{Identity, Level, Revision};
use crate::pool::guard;
use crate::rpc::RpcError;
use crate::transport::client::{Connector, Failure};

use super::abort::Abort;
use super::call::misbehaved;
use super::connection::{Core, lock};
use super::handlers::HandlerPool;
use super::incoming::Incoming;
use super::pending_call::Reply;
use super::send::Once;

/// Era of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// Sessions, opened by a handshake: revisions 2024-11-05 to 2025-11-25.
    Legacy,
    /// Requests that stand alone: revision 2026-07-28.
    Modern,
}

/// Settings of a connection.
pub(super) struct Plan {
    pub limits: Limits,
    pub identity: Identity,
    /// Nothing: to be found out.
    pub era: Option<Era>,
    pub abort: Abort,
    pub desk: Arc<HandlerPool>,
    /// Structured results are checked against what their tools promise.
    #[cfg(feature = "schema")]
    pub checks: bool,
    pub log_level: Option<Level>,
}

impl Plan {
    /// Connects, finds out the era, and opens a session where there is one.
    ///
    /// All requests that find out the era share one deadline, [`Limits::call_timeout`] from now.
    pub(super) fn connect(self, dial: &mut dyn Connector) -> Result<Arc<Core>, Error> {
        let deadline = Instant::now() + self.limits.call_timeout;
        let core = self.open(dial)?;
        match self.greet(&core, deadline) {
            Ok(()) => Ok(core),
            // A server that cannot bear the modern question may end on it (requirement NEG-11).
            Err(unmet) if unmet.ended && self.era.is_none() && dial.again() && core.carrier.heard() => {
                core.close_carrier();
                let core = self.open(dial)?;
                let session = self.session(&core, NEWEST_SESSION, deadline, None);
                let greeted = session.and_then(|()| self.agreed(&core));
                greeted.map_err(|e| closed(&core, twice(e)))?;
                Ok(core)
            }
            Err(unmet) => Err(closed(&core, unmet.error)),
        }
    }

    fn open(&self, dial: &mut dyn Connector) -> Result<Arc<Core>, Error> {
        let _opening = self.abort.opening()?;
        let handled = self.desk.capabilities();
        let handled = self.desk.relay().map_or(handled, super::server_requests::Relay::capabilities);
        let card = codec::ClientIdentity::new(self.identity.clone(), handled);
        let core = Core::new(
            dial.dial()?,
            self.limits.clone(),
            card,
            Arc::clone(&self.desk),
            #[cfg(feature = "schema")]
            self.checks,
        );
        // Without a thread that reads, or called off: a program that was started must not be left behind.
        let started = core.carrier.start(Arc::new(Incoming(Arc::clone(&core))));
        started.and_then(|()| self.abort.covers(&core)).map_err(|e| closed(&core, e))?;
        Ok(core)
    }

    fn greet(&self, core: &Arc<Core>, deadline: Instant) -> Result<(), Unmet> {
        match self.era {
            Some(Era::Legacy) => self.session(core, NEWEST_SESSION, deadline, None)?,
            _ => self.probe(core, deadline)?,
        }
        Ok(self.agreed(core)?)
    }

    fn probe(&self, core: &Arc<Core>, deadline: Instant) -> Result<(), Unmet> {
        let order = order(&RequestKind::Describe)?;
        // If the era was chosen there is nothing else to try: wait for a slow start.
        let silence_is_legacy = core.traits.silence_is_legacy && self.era.is_none();
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = match silence_is_legacy {
            // The older handshake needs time as well.
            true => self.limits.probe_timeout.min(left / 2),
            false => left,
        };
        let probe = match Once::send(core, &order, timeout, false) {
            Ok(probe) => probe,
            Err(failure) if says_legacy(&failure) => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, None)?);
            }
            Err(failure) => return Err(unmet(core, &failure)),
        };
        let reply = match probe.wait(core) {
            Ok(reply) => reply,
            Err(Failure::Timeout) if silence_is_legacy => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, Some(&probe))?);
            }
            Err(failure) if says_legacy(&failure) => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, None)?);
            }
            Err(failure) => {
                core.take(probe.id);
                return Err(unmet(core, &failure));
            }
        };
        match judged(&reply) {
            Verdict::Modern(greeting) => {
                core.settle(*greeting.unwrap_or_else(unintroduced));
                Ok(())
            }
            Verdict::Legacy(revision) => Ok(self.legacy(core, revision, deadline, None)?),
            Verdict::Neither(versions) => Err(Unmet::from(Error::new(
                ErrorKind::PeerIncompatible,
                format!("no common revision; the server supports: {versions}"),
            ))),
        }
    }

    fn legacy(
        &self,
        core: &Arc<Core>,
        revision: Revision,
        deadline: Instant,
        probe: Option<&Once>,
    ) -> Result<(), Error> {
        if self.era == Some(Era::Modern) {
            return Err(Error::new(
                ErrorKind::PeerIncompatible,
                "the server supports only session revisions, and this client is set to the modern era",
            ));
        }
        self.session(core, revision, deadline, probe)
    }

    /// Opens a session; if that fails and the first question was answered after all, it was a slow
    /// start and not an old server.
    fn session(
        &self,
        core: &Arc<Core>,
        revision: Revision,
        deadline: Instant,
        probe: Option<&Once>,
    ) -> Result<(), Error> {
        let opened = core.open_session(revision, deadline.saturating_duration_since(Instant::now()));
        let late = probe.and_then(|probe| {
            core.take(probe.id);
            probe.late()
        });
        match (opened, late.as_ref().map(judged)) {
            (Err(_), Some(Verdict::Modern(Some(greeting)))) => {
                core.speak_sessions(false);
                core.settle(*greeting);
                Ok(())
            }
            (opened, _) => opened,
        }
    }

    /// Sends the requests that need a known era: log level and subscriptions.
    fn agreed(&self, core: &Arc<Core>) -> Result<(), Error> {
        if let Some(level) = self.log_level {
            match core.set_level(level) {
                // A server that announces log entries and takes no level sends those it likes.
                Err(error) if error.kind() == ErrorKind::Remote => {}
                set => set?,
            }
        }
        let offer = core.greeting().offer;
        if self.desk.hears_changes() && !core.era().sessions() {
            let changed = core.listening.want(|wanted| {
                wanted.tools = offer.tools_changed;
                wanted.prompts = offer.prompts_changed;
                wanted.resources = offer.resources_changed;
            });
            if changed {
                core.listen()?;
            }
        }
        Ok(())
    }
}

/// Why a server could not be greeted.
struct Unmet {
    /// The connection ended on the question.
    ended: bool,
    error: Error,
}

impl From<Error> for Unmet {
    fn from(error: Error) -> Unmet {
        Unmet { ended: false, error }
    }
}

fn unmet(core: &Core, failure: &Failure) -> Unmet {
    Unmet { ended: matches!(failure, Failure::Closed(_) | Failure::Io(_)), error: core.explained(failure) }
}

/// Returns whether the rejection of the probe is one of an older server. Authorisation, overload
/// and messages too large for the server are not about eras (requirements NEG-13, NEG-16).
fn says_legacy(failure: &Failure) -> bool {
    match failure {
        Failure::Refused { status, .. } => {
            (400..500).contains(status)
                && ![401, 403, 407, 408, 413, 421, 425, 429, 431, 451].contains(status)
        }
        _ => false,
    }
}

fn judged(reply: &Reply) -> Verdict {
    if reply.ok {
        return codec::verdict(Ok(reply.value()));
    }
    match RpcError::read(reply.value()) {
        Some(error) => codec::verdict(Err(&error)),
        None => Verdict::Legacy(NEWEST_SESSION),
    }
}

/// A modern server that did not describe itself may offer anything.
fn unintroduced() -> Box<Greeting> {
    Box::new(Greeting { revision: codec::MODERN, ..Greeting::default() })
}

fn order(want: &RequestKind<'_>) -> Result<OutgoingRequest, Error> {
    OutgoingRequest::new(want).map_err(|e| Error::new(ErrorKind::Invalid, e))
}

/// Adds to the error that the server was started twice.
fn twice(error: Error) -> Error {
    let why = "the server exited on the first request and was started again; then";
    let told = Error::new(error.kind(), format!("{why}: {error}"));
    match error.code() {
        Some(code) => told.with_code(code, error.data().cloned()),
        None => told,
    }
}

fn closed(core: &Core, error: Error) -> Error {
    core.close_carrier();
    error
}

/// Stack of the thread that opens a session again: headers of the program may be asked for there,
/// and TLS be begun.
const RENEWING_STACK: usize = 256 << 10;

/// Opening a session again after the server forgot it: once for all threads.
///
/// A thread of its own does it. It takes the time that opening a session takes, while each call
/// that waits for it has a deadline of its own.
#[derive(Default)]
pub(super) struct Renewal {
    state: Mutex<Renewing>,
    done: Condvar,
}

#[derive(Default)]
struct Renewing {
    epoch: u64,
    running: bool,
    /// Number of failures, and the last error.
    failures: u64,
    why: Option<Arc<Error>>,
}

impl Renewal {
    /// Number of times a session was opened again.
    pub(super) fn epoch(&self) -> u64 {
        lock(&self.state).epoch
    }
}

impl Core {
    /// Opens a session: the handshake.
    fn open_session(self: &Arc<Self>, revision: Revision, timeout: Duration) -> Result<(), Error> {
        self.speak_sessions(true);
        let open = order(&RequestKind::Open(revision, &self.card))?;
        let once = Once::send(self, &open, timeout, true).map_err(|f| self.explained(&f))?;
        let reply = once.wait(self).map_err(|failure| {
            self.take(once.id);
            self.explained(&failure)
        })?;
        if !reply.ok {
            let error = RpcError::read(reply.value()).ok_or_else(|| misbehaved("a malformed error"))?;
            let message = format!("the server refuses to open a session: {}", error.message);
            return Err(Error::new(ErrorKind::PeerIncompatible, message).with_code(error.code, error.data));
        }
        let greeting =
            codec::opened(reply.value()).map_err(|why| Error::new(ErrorKind::PeerIncompatible, why))?;
        self.recycle(reply.doc);
        self.settle(greeting);
        Ok(())
    }

    /// Has the session opened again, unless that was done since `epoch`, and waits for it until
    /// `deadline`.
    pub(super) fn renew(self: &Arc<Self>, epoch: u64, deadline: Instant) -> Result<(), Error> {
        let lost = |why: Arc<Error>| {
            let what = "the session was lost and could not be opened again";
            Err(Error::new(ErrorKind::SessionLost, what).with_source(why))
        };
        let mut state = lock(&self.renewal.state);
        if state.epoch == epoch && !state.running {
            let core = Arc::clone(self);
            let thread =
                std::thread::Builder::new().name("mcp-client-open".into()).stack_size(RENEWING_STACK);
            match thread.spawn(move || core.reopen()) {
                Ok(_) => state.running = true,
                Err(error) => return lost(Arc::new(error.into())),
            }
        }
        let failures = state.failures;
        while state.epoch == epoch && state.failures == failures {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Timeout.to_error());
            }
            state = self.renewal.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        match state.why.clone() {
            Some(why) if state.epoch == epoch => lost(why),
            _ => Ok(()),
        }
    }

    /// Opens the session again, and says how that went.
    fn reopen(self: &Arc<Self>) {
        // Headers of the program are made here.
        let opened = guard(|| {
            self.open_session(NEWEST_SESSION, self.limits.call_timeout).and_then(|()| self.restore())
        });
        let opened = opened.unwrap_or_else(|_| Err(Error::new(ErrorKind::Misuse, "the program panicked")));
        if opened.is_ok() {
            self.missed();
        }
        let mut state = lock(&self.renewal.state);
        state.running = false;
        match opened {
            Ok(()) => state.epoch += 1,
            Err(error) => {
                state.failures += 1;
                state.why = Some(Arc::new(error));
            }
        }
        drop(state);
        self.renewal.done.notify_all();
    }

    /// Says again what only the session knew.
    fn restore(self: &Arc<Self>) -> Result<(), Error> {
        let level = *lock(&self.log_level);
        if let Some(level) = level {
            self.ask_once(&order(&RequestKind::SetLevel(level))?)?;
        }
        for uri in self.listening.uris() {
            self.ask_once(&order(&RequestKind::Subscribe(&uri))?)?;
        }
        Ok(())
    }

    /// One request whose answer says nothing but whether it was done.
    pub(super) fn ask_once(self: &Arc<Self>, order: &OutgoingRequest) -> Result<(), Error> {
        let once =
            Once::send(self, order, self.limits.call_timeout, false).map_err(|f| self.explained(&f))?;
        match once.wait(self) {
            Ok(reply) if reply.ok => {
                self.recycle(reply.doc);
                Ok(())
            }
            Ok(reply) => Err(RpcError::read(reply.value())
                .map_or_else(|| misbehaved("a malformed error"), super::connection::remote)),
            Err(failure) => {
                self.give_up(once.id, failure.clone());
                Err(self.explained(&failure))
            }
        }
    }

    /// Log entries from this level on: for the session, or with every request from now on.
    pub(super) fn set_level(self: &Arc<Self>, level: Level) -> Result<(), Error> {
        if self.era().sessions() && self.greeting().offer.logging {
            self.ask_once(&order(&RequestKind::SetLevel(level))?)?;
        }
        *lock(&self.log_level) = Some(level);
        Ok(())
    }
}
