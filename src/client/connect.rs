//! Protocol detection and the handshake.
//!
//! The first request is `server/discover` of the stateless protocol. Only a response that this
//! protocol defines proves it. Every other error response, a 4xx status or, on streams, a timeout
//! means the session protocol (MCP 2026-07-28 basic/versioning, basic/transports). If a child exits
//! after it has read a part of the first request, the client starts it again and sends
//! `initialize`. It does not start a child again that has read nothing.
//!
//! # Invariants
//! - One detection opens at most one session, and never cancels `initialize` (basic/lifecycle).
//! - Authorisation failures, overload and network failures do not prove an era: connecting fails
//!   with their error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::client::{self as codec, DetectedEra, NEWEST_SESSION, ServerDescription};
use crate::era::outgoing::{OutgoingRequest, RequestKind};
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::limits::Limits;
use crate::model::{Identity, Level, Revision};
use crate::pool::guard;
use crate::rpc::RpcError;
use crate::sync::{lock, wait_for};
use crate::transport::client::{Connector, Failure};
use crate::transport::tap::Tap;

use super::abort::Abort;
use super::connection::{Core, misbehaved, remote_error};
use super::handlers::{HandlerPool, Relay};
use super::incoming::Incoming;
use super::pending_call::{PendingCall, RawReply};

/// Group of protocol revisions: with sessions, or stateless.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, Protocol};
///
/// // Without `protocol` the client detects it, which costs one request.
/// let client = Client::builder("host", "1.0.0")
///     .protocol(Protocol::Session)
///     .spawn(Command::new("board_server"))?;
/// assert_eq!(client.protocol(), Protocol::Session);
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The handshake `initialize` opens a session: revisions 2024-11-05 to 2025-11-25.
    Session,
    /// Each request carries its revision and capabilities: revision 2026-07-28.
    Stateless,
}

/// Settings of a new connection.
pub(super) struct ConnectOptions {
    pub limits: Limits,
    /// Timeout of connecting, including the handshake.
    pub connect_timeout: Duration,
    pub identity: Identity,
    /// `None` if the client detects the protocol.
    pub protocol: Option<Protocol>,
    pub abort: Abort,
    pub handlers: Arc<HandlerPool>,
    /// Validate structured results against the output schemas of their tools.
    #[cfg(feature = "schema")]
    pub checks: bool,
    pub log_level: Option<Level>,
    /// Description of the server from an earlier connection.
    pub remembered: Option<Json>,
    /// Observer of the frames.
    pub tap: Option<Tap>,
}

impl ConnectOptions {
    /// Connects, detects the era, and opens a session if the era has sessions.
    ///
    /// All requests of the detection share one deadline, `connect_timeout` from now.
    pub(super) fn connect(self, dial: &mut dyn Connector) -> Result<Arc<Core>, Error> {
        let deadline = Instant::now() + self.connect_timeout;
        let core = self.open(dial)?;
        match self.negotiate(&core, deadline) {
            Ok(()) => Ok(core),
            // An older server may exit on the modern probe (requirement NEG-11).
            Err(e)
                if e.ended
                    && self.protocol.is_none()
                    && dial.can_reconnect()
                    && core.transport.peer_has_read() =>
            {
                core.close_transport();
                let core = self.open(dial)?;
                let session = self.session(&core, NEWEST_SESSION, deadline, None);
                let greeted = session.and_then(|()| self.after_negotiation(&core));
                greeted.map_err(|e| closed(&core, restarted(e)))?;
                Ok(core)
            }
            Err(e) => Err(closed(&core, e.error)),
        }
    }

    fn open(&self, dial: &mut dyn Connector) -> Result<Arc<Core>, Error> {
        let _opening = self.abort.opening()?;
        let handled = self.handlers.capabilities();
        let handled = self.handlers.relay().map_or(handled, Relay::capabilities);
        let identity =
            codec::ClientIdentity::new(self.identity.clone(), handled, self.handlers.extensions().members());
        let transport = dial.dial()?;
        let transport = self.tap.as_ref().map_or(Arc::clone(&transport), |tap| tap.transport(transport));
        let core = Core::new(
            transport,
            self.limits.clone(),
            identity,
            Arc::clone(&self.handlers),
            #[cfg(feature = "schema")]
            self.checks,
        );
        // If no reader thread starts, or on abort, the child process must end.
        let started = core.transport.start(Arc::new(Incoming(Arc::clone(&core))));
        started.and_then(|()| self.abort.register(&core)).map_err(|e| closed(&core, e))?;
        Ok(core)
    }

    fn negotiate(&self, core: &Arc<Core>, deadline: Instant) -> Result<(), OpenError> {
        match self.protocol {
            Some(Protocol::Session) => self.session(core, NEWEST_SESSION, deadline, None)?,
            _ if self.use_remembered(core) => {}
            _ => self.probe(core, deadline)?,
        }
        Ok(self.after_negotiation(core)?)
    }

    /// Uses the remembered description of the server. Returns `false` if there is no valid one.
    fn use_remembered(&self, core: &Arc<Core>) -> bool {
        let Some(known) = self.remembered.as_ref().map(Json::to_doc) else { return false };
        match codec::detect_era(Ok(known.root())) {
            DetectedEra::Modern(Some(server)) => {
                // An era that the program selected needs no proof.
                if self.protocol.is_none() {
                    core.mark_unproven();
                }
                core.set_server(*server);
                true
            }
            _ => false,
        }
    }

    fn probe(&self, core: &Arc<Core>, deadline: Instant) -> Result<(), OpenError> {
        let request = request(&RequestKind::Describe)?;
        // With a selected era there is no fallback, so wait for a server that starts slowly.
        let timeout_is_legacy = core.transport.properties().timeout_is_legacy && self.protocol.is_none();
        let left = time_left(core, deadline);
        let timeout = match timeout_is_legacy {
            // Leave time for the older handshake.
            true => self.limits.client.probe_timeout.min(left / 2),
            false => left,
        };
        let probe = match core.send_once(&request, timeout) {
            Ok(probe) => probe,
            Err(failure) if means_legacy(&failure) => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, None)?);
            }
            Err(failure) => return Err(connect_error(core, &failure)),
        };
        let reply = match core.outcome_of(&probe) {
            Ok(reply) => reply,
            Err(Failure::Timeout) if timeout_is_legacy => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, Some(&probe))?);
            }
            Err(failure) if means_legacy(&failure) => {
                return Ok(self.legacy(core, NEWEST_SESSION, deadline, None)?);
            }
            Err(failure) => {
                core.take(probe.id());
                return Err(connect_error(core, &failure));
            }
        };
        match era_of(&reply) {
            DetectedEra::Modern(server) => {
                core.set_server(*server.unwrap_or_else(undescribed_server));
                Ok(())
            }
            DetectedEra::Legacy(revision) => Ok(self.legacy(core, revision, deadline, None)?),
            DetectedEra::Unsupported(versions) => Err(OpenError::from(no_common_revision(&versions))),
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

    /// Opens a session. If that fails and the probe has received a late response, the server uses
    /// the modern era and started slowly.
    fn session(
        &self,
        core: &Arc<Core>,
        revision: Revision,
        deadline: Instant,
        probe: Option<&PendingCall>,
    ) -> Result<(), Error> {
        let opened = core.open_session(revision, time_left(core, deadline));
        let late = probe.and_then(|probe| {
            core.take(probe.id());
            probe.take()?.ok()
        });
        match (opened, late.as_ref().map(era_of)) {
            (Err(_), Some(DetectedEra::Modern(Some(server)))) => {
                core.use_sessions(false);
                core.set_server(*server);
                Ok(())
            }
            (opened, _) => opened,
        }
    }

    /// Sends the requests that require a known era: log level and subscriptions.
    fn after_negotiation(&self, core: &Arc<Core>) -> Result<(), Error> {
        if let Some(level) = self.log_level {
            match core.set_level(level) {
                // A server may declare log entries and not support levels.
                Err(error) if error.kind() == ErrorKind::Remote => {}
                set => set?,
            }
        }
        let declared = core.server().capabilities;
        if self.handlers.wants_changes() && !core.era().sessions() {
            let changed = core.subscriptions.set_filter(|wanted| {
                wanted.tools = declared.tools_changed;
                wanted.prompts = declared.prompts_changed;
                wanted.resources = declared.resources_changed;
            });
            if changed {
                core.listen()?;
            }
        }
        Ok(())
    }
}

/// Returns the time until the deadline of the negotiation. A sign-in of the user extends it.
fn time_left(core: &Core, deadline: Instant) -> Duration {
    #[cfg(feature = "oauth")]
    let deadline = deadline + core.waiters.clock.stopped();
    #[cfg(not(feature = "oauth"))]
    let _ = core;
    deadline.saturating_duration_since(Instant::now())
}

/// Reason why the negotiation failed.
struct OpenError {
    /// The connection ended on the probe.
    ended: bool,
    error: Error,
}

impl From<Error> for OpenError {
    fn from(error: Error) -> OpenError {
        OpenError { ended: false, error }
    }
}

fn connect_error(core: &Core, failure: &Failure) -> OpenError {
    OpenError { ended: matches!(failure, Failure::Closed(_) | Failure::Io(_)), error: core.error_of(failure) }
}

/// Returns whether this failure of the probe means an older server. Statuses about authorisation,
/// overload and message size do not (requirements NEG-13, NEG-16).
fn means_legacy(failure: &Failure) -> bool {
    match failure {
        Failure::Refused { status, .. } => {
            (400..500).contains(status)
                && ![401, 403, 407, 408, 413, 421, 425, 429, 431, 451].contains(status)
        }
        _ => false,
    }
}

fn era_of(reply: &RawReply) -> DetectedEra {
    if reply.ok {
        return codec::detect_era(Ok(reply.value()));
    }
    match RpcError::read(reply.value()) {
        Some(error) => codec::detect_era(Err(&error)),
        None => DetectedEra::Legacy(NEWEST_SESSION),
    }
}

/// Description of a modern server that sent none. Such a server may have any capability.
fn undescribed_server() -> Box<ServerDescription> {
    Box::new(ServerDescription { revision: codec::MODERN, ..ServerDescription::default() })
}

pub(super) fn request(want: &RequestKind<'_>) -> Result<OutgoingRequest, Error> {
    OutgoingRequest::new(want).map_err(|e| Error::new(ErrorKind::Invalid, e))
}

fn no_common_revision(versions: &str) -> Error {
    let message = format!("no common revision; the server supports: {versions}");
    Error::new(ErrorKind::PeerIncompatible, message)
}

/// Adds to the error that the client started the server again.
fn restarted(error: Error) -> Error {
    let why = "the server exited on the first request and was started again; then";
    let twice = Error::new(error.kind(), format!("{why}: {error}"));
    match error.code() {
        Some(code) => twice.with_code(code, error.data().cloned()),
        None => twice,
    }
}

/// Closes the connection and returns the error.
fn closed(core: &Core, error: Error) -> Error {
    core.close_transport();
    error
}

/// Stack size of the thread that opens a session again. It calls the program's header function and
/// performs TLS handshakes.
const RENEWING_STACK: usize = 256 << 10;

impl Core {
    /// Requests the description of the server, because it rejected the first request after a
    /// remembered description was used. Returns whether the client now uses the session protocol.
    pub(super) fn verify(self: &Arc<Self>, deadline: Instant) -> Result<bool, Error> {
        let probe = self.send_once(&request(&RequestKind::Describe)?, time_left(self, deadline));
        let reply =
            probe.and_then(|probe| self.outcome_of(&probe).inspect_err(|_| _ = self.take(probe.id())));
        let era = match reply {
            Ok(reply) => era_of(&reply),
            Err(failure) if means_legacy(&failure) => DetectedEra::Legacy(NEWEST_SESSION),
            Err(failure) => return Err(self.error_of(&failure)),
        };
        match era {
            DetectedEra::Modern(server) => {
                self.set_server(*server.unwrap_or_else(undescribed_server));
                Ok(false)
            }
            DetectedEra::Legacy(revision) => {
                self.open_session(revision, time_left(self, deadline))?;
                self.restore()?;
                self.assume_changed();
                Ok(true)
            }
            DetectedEra::Unsupported(versions) => Err(no_common_revision(&versions)),
        }
    }

    /// Performs the `initialize` handshake.
    fn open_session(self: &Arc<Self>, revision: Revision, timeout: Duration) -> Result<(), Error> {
        self.use_sessions(true);
        let open = request(&RequestKind::Open(revision, &self.identity))?;
        let pending = self.send_once(&open, timeout).map_err(|failure| self.error_of(&failure))?;
        let reply = self.outcome_of(&pending).map_err(|failure| {
            self.take(pending.id());
            self.error_of(&failure)
        })?;
        if !reply.ok {
            let error = RpcError::read(reply.value())
                .ok_or_else(|| misbehaved("malformed error object in a response"))?;
            let message = format!("the server rejected the session: {}", error.message);
            return Err(Error::new(ErrorKind::PeerIncompatible, message).with_code(error.code, error.data));
        }
        let server = codec::initialize_result(reply.value())
            .map_err(|why| Error::new(ErrorKind::PeerIncompatible, why))?;
        self.recycle(reply.doc);
        self.set_server(server);
        Ok(())
    }

    /// Waits for the outcome of a request. The request stays in the table after its deadline.
    fn outcome_of(self: &Arc<Self>, pending: &PendingCall) -> Result<RawReply, Failure> {
        self.wait(pending, None, None).unwrap_or(Err(Failure::Timeout))
    }

    /// Returns the number of times a session was opened again.
    pub(super) fn epoch(&self) -> u64 {
        lock(&self.session.renewal).epoch
    }

    /// Opens the session again, unless a thread has done so since `epoch`. Waits until `deadline`.
    ///
    /// A separate thread opens the session, because each call that waits has its own deadline.
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
        // `guard`, because this calls the program's header function.
        let opened = guard(|| {
            self.open_session(NEWEST_SESSION, self.limits.client.call_timeout).and_then(|()| self.restore())
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

    /// Sends the log level and the subscriptions in the new session.
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
        let timeout = self.limits.client.call_timeout;
        let pending = self.send_once(request, timeout).map_err(|failure| self.error_of(&failure))?;
        match self.outcome_of(&pending) {
            Ok(reply) if reply.ok => {
                self.recycle(reply.doc);
                Ok(())
            }
            Ok(reply) => Err(remote_error(&reply)),
            Err(failure) => {
                self.give_up(&pending, failure.clone());
                Err(self.error_of(&failure))
            }
        }
    }

    /// Requests log entries of this level and above: once in a session, otherwise with each
    /// request.
    pub(super) fn set_level(self: &Arc<Self>, level: Level) -> Result<(), Error> {
        if self.era().sessions() && self.server().capabilities.logging {
            self.ask_once(&request(&RequestKind::SetLevel(level))?)?;
        }
        *lock(&self.session.log_level) = Some(level);
        Ok(())
    }
}
