//! Protocol detection and the handshake.
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

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::client::{self as codec, Greeting, NEWEST_SESSION, Verdict};
use crate::era::outgoing::{OutgoingRequest, RequestKind};
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::model::{Identity, Level, Revision};
use crate::pool::guard;
use crate::rpc::RpcError;
use crate::sync::{lock, wait_for};
use crate::transport::client::{Connector, Failure};

use super::abort::Abort;
use super::connection::{Core, misbehaved, remote_error};
use super::handlers::{HandlerPool, Relay};
use super::incoming::Incoming;
use super::pending_call::{PendingCall, RawReply};

/// Group of protocol revisions: with sessions, or stateless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The handshake `initialize` opens a session: revisions 2024-11-05 to 2025-11-25.
    Session,
    /// Each request carries its revision and capabilities: revision 2026-07-28.
    Stateless,
}

/// Settings of a connection.
pub(super) struct Plan {
    pub limits: Limits,
    pub identity: Identity,
    /// `None`: to be detected.
    pub protocol: Option<Protocol>,
    pub abort: Abort,
    pub handlers: Arc<HandlerPool>,
    /// Validate structured results against the output schemas of their tools.
    #[cfg(feature = "schema")]
    pub checks: bool,
    pub log_level: Option<Level>,
}

impl Plan {
    /// Connects, detects the era, and opens a session if the era has sessions.
    ///
    /// All requests of the detection share one deadline, [`Limits::call_timeout`] from now.
    pub(super) fn connect(self, dial: &mut dyn Connector) -> Result<Arc<Core>, Error> {
        let deadline = Instant::now() + self.limits.call_timeout;
        let core = self.open(dial)?;
        match self.greet(&core, deadline) {
            Ok(()) => Ok(core),
            // An older server may exit on the modern probe (requirement NEG-11).
            Err(unmet)
                if unmet.ended && self.protocol.is_none() && dial.again() && core.transport.heard() =>
            {
                core.close_transport();
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
        let handled = self.handlers.capabilities();
        let handled = self.handlers.relay().map_or(handled, Relay::capabilities);
        let card = codec::ClientIdentity::new(self.identity.clone(), handled);
        let core = Core::new(
            dial.dial()?,
            self.limits.clone(),
            card,
            Arc::clone(&self.handlers),
            #[cfg(feature = "schema")]
            self.checks,
        );
        // If no reader thread starts, or on abort, a child process must not be left behind.
        let started = core.transport.start(Arc::new(Incoming(Arc::clone(&core))));
        started.and_then(|()| self.abort.covers(&core)).map_err(|e| closed(&core, e))?;
        Ok(core)
    }

    fn greet(&self, core: &Arc<Core>, deadline: Instant) -> Result<(), Unmet> {
        match self.protocol {
            Some(Protocol::Session) => self.session(core, NEWEST_SESSION, deadline, None)?,
            _ => self.probe(core, deadline)?,
        }
        Ok(self.agreed(core)?)
    }

    fn probe(&self, core: &Arc<Core>, deadline: Instant) -> Result<(), Unmet> {
        let request = request(&RequestKind::Describe)?;
        // If the era was chosen there is nothing else to try: wait for a slow start.
        let silence_is_legacy = core.transport.traits().silence_is_legacy && self.protocol.is_none();
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = match silence_is_legacy {
            // The older handshake needs time as well.
            true => self.limits.probe_timeout.min(left / 2),
            false => left,
        };
        let probe = match core.send_once(&request, timeout) {
            Ok(probe) => probe,
            Err(failure) if says_legacy(&failure) => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, None)?);
            }
            Err(failure) => return Err(unmet(core, &failure)),
        };
        let reply = match core.outcome_of(&probe) {
            Ok(reply) => reply,
            Err(Failure::Timeout) if silence_is_legacy => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, Some(&probe))?);
            }
            Err(failure) if says_legacy(&failure) => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, None)?);
            }
            Err(failure) => {
                core.take(probe.id());
                return Err(unmet(core, &failure));
            }
        };
        match judged(&reply) {
            Verdict::Modern(greeting) => {
                core.settle(*greeting.unwrap_or_else(undescribed));
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
        probe: Option<&PendingCall>,
    ) -> Result<(), Error> {
        if self.protocol == Some(Protocol::Stateless) {
            return Err(Error::new(
                ErrorKind::PeerIncompatible,
                "the server supports only the session protocol, but this client is set to the stateless protocol",
            ));
        }
        self.session(core, revision, deadline, probe)
    }

    /// Opens a session. If that fails and the probe got a late response, the server is not an older
    /// one but started slowly.
    fn session(
        &self,
        core: &Arc<Core>,
        revision: Revision,
        deadline: Instant,
        probe: Option<&PendingCall>,
    ) -> Result<(), Error> {
        let opened = core.open_session(revision, deadline.saturating_duration_since(Instant::now()));
        let late = probe.and_then(|probe| {
            core.take(probe.id());
            probe.take()?.ok()
        });
        match (opened, late.as_ref().map(judged)) {
            (Err(_), Some(Verdict::Modern(Some(greeting)))) => {
                core.use_sessions(false);
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
                // A server may declare log entries and not support levels.
                Err(error) if error.kind() == ErrorKind::Remote => {}
                set => set?,
            }
        }
        let offer = core.greeting().offer;
        if self.handlers.wants_changes() && !core.era().sessions() {
            let changed = core.subscriptions.want(|wanted| {
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

/// Reason why the negotiation failed.
struct Unmet {
    /// The connection ended on the probe.
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

fn judged(reply: &RawReply) -> Verdict {
    if reply.ok {
        return codec::verdict(Ok(reply.value()));
    }
    match RpcError::read(reply.value()) {
        Some(error) => codec::verdict(Err(&error)),
        None => Verdict::Legacy(NEWEST_SESSION),
    }
}

/// A modern server without a description. It may have any capability.
fn undescribed() -> Box<Greeting> {
    Box::new(Greeting { revision: codec::MODERN, ..Greeting::default() })
}

pub(super) fn request(want: &RequestKind<'_>) -> Result<OutgoingRequest, Error> {
    OutgoingRequest::new(want).map_err(|e| Error::new(ErrorKind::Invalid, e))
}

/// Adds to the error that the server was started twice.
fn twice(error: Error) -> Error {
    let why = "the server exited on the first request and was started again; then";
    let twice = Error::new(error.kind(), format!("{why}: {error}"));
    match error.code() {
        Some(code) => twice.with_code(code, error.data().cloned()),
        None => twice,
    }
}

fn closed(core: &Core, error: Error) -> Error {
    core.close_transport();
    error
}

/// Stack of the thread that opens a session again: it calls the program's header function and
/// begins TLS.
const RENEWING_STACK: usize = 256 << 10;

impl Core {
    /// Opens a session: the handshake.
    fn open_session(self: &Arc<Self>, revision: Revision, timeout: Duration) -> Result<(), Error> {
        self.use_sessions(true);
        let open = request(&RequestKind::Open(revision, &self.card))?;
        let pending = self.send_once(&open, timeout).map_err(|failure| self.explained(&failure))?;
        let reply = self.outcome_of(&pending).map_err(|failure| {
            self.take(pending.id());
            self.explained(&failure)
        })?;
        if !reply.ok {
            let error = RpcError::read(reply.value())
                .ok_or_else(|| misbehaved("malformed error object in a response"))?;
            let message = format!("the server rejected the session: {}", error.message);
            return Err(Error::new(ErrorKind::PeerIncompatible, message).with_code(error.code, error.data));
        }
        let greeting =
            codec::opened(reply.value()).map_err(|why| Error::new(ErrorKind::PeerIncompatible, why))?;
        self.recycle(reply.doc);
        self.settle(greeting);
        Ok(())
    }

    /// Waits for the outcome of a request. At its deadline it stays in the table.
    fn outcome_of(self: &Arc<Self>, pending: &PendingCall) -> Result<RawReply, Failure> {
        self.wait(pending, None, None).unwrap_or(Err(Failure::Timeout))
    }

    /// Returns the number of times a session was opened again.
    pub(super) fn epoch(&self) -> u64 {
        lock(&self.session.renewal).epoch
    }

    /// Opens the session again, unless that was done since `epoch`. Waits for it until `deadline`.
    ///
    /// A thread of its own opens it, because each call that waits for it has a deadline of its own.
    pub(super) fn renew(self: &Arc<Self>, epoch: u64, deadline: Instant) -> Result<(), Error> {
        let lost = |why: Arc<Error>| {
            let what = "the session was lost and could not be opened again";
            Err(Error::new(ErrorKind::SessionLost, what).with_source(why))
        };
        let mut state = lock(&self.session.renewal);
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
            state = wait_for(&self.session.renewed, state, left);
        }
        match state.last_error.clone() {
            Some(why) if state.epoch == epoch => lost(why),
            _ => Ok(()),
        }
    }

    /// Opens the session again and stores the outcome.
    fn reopen(self: &Arc<Self>) {
        // This calls the program's header function.
        let opened = guard(|| {
            self.open_session(NEWEST_SESSION, self.limits.call_timeout).and_then(|()| self.restore())
        });
        let opened = opened.unwrap_or_else(|_| Err(Error::new(ErrorKind::Misuse, "the program panicked")));
        if opened.is_ok() {
            self.assume_changed();
        }
        let mut state = lock(&self.session.renewal);
        state.running = false;
        match opened {
            Ok(()) => state.epoch += 1,
            Err(error) => {
                state.failures += 1;
                state.last_error = Some(Arc::new(error));
            }
        }
        drop(state);
        self.session.renewed.notify_all();
    }

    /// Sends again the settings that belong to the session.
    fn restore(self: &Arc<Self>) -> Result<(), Error> {
        let level = *lock(&self.session.log_level);
        if let Some(level) = level {
            self.ask_once(&request(&RequestKind::SetLevel(level))?)?;
        }
        for uri in self.subscriptions.uris() {
            self.ask_once(&request(&RequestKind::Subscribe(&uri))?)?;
        }
        Ok(())
    }

    /// Sends a request whose result has no content, and waits for it.
    pub(super) fn ask_once(self: &Arc<Self>, request: &OutgoingRequest) -> Result<(), Error> {
        let timeout = self.limits.call_timeout;
        let pending = self.send_once(request, timeout).map_err(|failure| self.explained(&failure))?;
        match self.outcome_of(&pending) {
            Ok(reply) if reply.ok => {
                self.recycle(reply.doc);
                Ok(())
            }
            Ok(reply) => Err(remote_error(&reply)),
            Err(failure) => {
                self.give_up(&pending, failure.clone());
                Err(self.explained(&failure))
            }
        }
    }

    /// Requests log entries from this level on: once in a session, otherwise with every request.
    pub(super) fn set_level(self: &Arc<Self>, level: Level) -> Result<(), Error> {
        if self.era().sessions() && self.greeting().offer.logging {
            self.ask_once(&request(&RequestKind::SetLevel(level))?)?;
        }
        *lock(&self.session.log_level) = Some(level);
        Ok(())
    }
}
