//! Server functions for hubs: requests and errors of upstream servers, and access to sessions.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::era::{self, ServerNotification, decode};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, Value, Writer};
use crate::model::client_request::{InputRequest, KeyedRequest};
use crate::model::{ClientCapabilities, Fault, Level};
use crate::rpc::{RpcError, code};
use crate::sync::lock;
use crate::transport::ReplySink;

use super::call::deferred::Deferred;
use super::call::in_flight::Call;
use super::call::request_state::NOTE;
use super::call::{CallResult, Job};
use super::connection::{ClientRequest, Connection, OnResponse, ParkedCall};
use super::context::Context;
use super::handle::Handle;
use super::registry::catalog::Delegate;
use super::tool_error::ToolError;

/// The code for a missing resource in all session revisions.
const NO_RESOURCE: i32 = -32002;

impl Context<'_> {
    /// Sends the input requests of an upstream's result, an object by key, to the client. Returns
    /// the responses by the same keys.
    ///
    /// # Errors
    /// Not all responses have arrived; the handler must return this error with `?`.
    pub(crate) fn relay(&mut self, requests: &Json) -> Result<Json, ToolError> {
        let mut responses = Writer::new();
        responses.begin_object();
        let mut open = None;
        for (key, request) in input_requests(requests)? {
            match self.request_input(&key, request) {
                Ok(response) => _ = responses.key(&key).raw(response.root().raw()),
                Err(failure) if failure.is_input_required() => open = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        responses.end_object();
        open.map_or_else(|| Ok(responses.into_json()), Err)
    }

    /// Returns whether the client requested progress of this call.
    pub(crate) fn wants_progress(&self) -> bool {
        self.query.progress.is_some()
    }
}

impl Context<'_> {
    /// Returns the note of the previous run of this call; `None` in the first run.
    pub(crate) fn note(&self) -> Option<&Doc> {
        let noted = self.responses.iter().find(|(key, _)| key == NOTE)?;
        noted.1.as_ref().ok()
    }

    /// Returns the client's response or error with this key, once it has arrived.
    pub(crate) fn input_response(&self, key: &str) -> Option<&Result<Doc, RpcError>> {
        self.responses.iter().find(|(name, _)| name == key).map(|(_, response)| response)
    }

    /// Blocks until the client reads again, or the call is over.
    pub(crate) fn wait_for_reader(&self) {
        const INTERVAL: Duration = Duration::from_millis(20);
        while self.host.busy() && self.wait(INTERVAL).is_ok() {}
    }

    /// Returns the lowest level of log entries that the client requested for this call.
    pub(crate) fn log_level(&self) -> Option<Level> {
        self.query.peer.log_level
    }
}

/// Sender of a call, as far as it is known.
#[derive(Clone)]
pub(crate) struct CallSender {
    conn: Arc<Connection>,
    call: Arc<Call>,
    sink: Arc<dyn ReplySink>,
}

impl CallSender {
    /// Returns whether both calls are known to come from one client.
    pub(crate) fn is_same_client(&self, other: &CallSender) -> bool {
        Arc::ptr_eq(&self.call, &other.call) || (Arc::ptr_eq(&self.conn, &other.conn) && !self.conn.shared)
    }

    /// Returns the principal of the client, if the server requires tokens.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.sink.principal()
    }

    /// Logs an entry to the session of the call, if one is open and requested it.
    pub(crate) fn log(&self, level: Level, logger: &str, data: &Json) {
        self.conn.log(level, Some(logger), data);
    }

    /// Withdraws the requests with these keys that the client of the parked call has not answered.
    /// The handler runs again if no other is open. Does nothing if the call is not parked.
    pub(crate) fn withdraw_requests(&self, keys: &[String]) {
        let mut parked = lock(&self.conn.parked);
        let is_own = |parked: &ParkedCall| Arc::ptr_eq(&parked.job.call, &self.call);
        let Some(place) = parked.calls.iter().position(is_own) else { return };
        let Some(ParkedCall { job, open, .. }) = parked.calls.get_mut(place) else { return };
        let mut w = Writer::new();
        for (id, _) in open.iter().filter(|(_, key)| keys.contains(key)) {
            job.era.cancel_request(&mut w, *id);
            w.newline();
        }
        if w.is_empty() {
            return;
        }
        open.retain(|(_, key)| !keys.contains(key));
        // Under the lock, so that it precedes everything that the handler sends.
        self.conn.outbox.send(&job.sink, w.into_bytes());
        if !open.is_empty() {
            return;
        }
        let job = parked.calls.swap_remove(place).job;
        drop(parked);
        self.conn.reschedule(&job.call, self.conn.core.limits.handler_deadline, job.weight());
        // The pool reserves room for parked calls.
        if let Err(refused) = self.conn.core.pool.try_submit(job) {
            self.conn.refuse(&refused.job.call, "The server is shutting down");
        }
    }

    /// As [`Deferred::progress`], while the call is parked.
    pub(crate) fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let parked = lock(&self.conn.parked);
        if let Some(parked) = parked.calls.iter().find(|parked| Arc::ptr_eq(&parked.job.call, &self.call)) {
            send_progress(&parked.job, done, total, message);
        }
    }
}

/// Sends progress if the client requested it.
fn send_progress(job: &Job, done: f64, total: Option<f64>, message: Option<&str>) {
    if let Some(token) = job.query.progress {
        let token = job.doc.at(token).raw();
        send_notification(job, ServerNotification::Progress { token, done, total, message });
    }
}

/// Sends a notification for a call, unless the client does not read.
fn send_notification(job: &Job, notification: ServerNotification<'_>) {
    if job.call.is_settled() || job.conn.congested() {
        return;
    }
    let mut w = Writer::new();
    job.era.notify(&mut w, job.query.peer.revision, notification);
    w.newline();
    job.conn.outbox.send(&job.sink, w.into_bytes());
}

impl Deferred {
    /// Returns the sender of the call.
    pub(crate) fn caller(&self) -> Option<CallSender> {
        let job = self.job.as_ref()?;
        Some(CallSender {
            conn: Arc::clone(&job.conn),
            call: Arc::clone(&job.call),
            sink: Arc::clone(&job.sink),
        })
    }

    /// Returns the principal of the client, if the server requires tokens.
    pub(crate) fn principal(&self) -> Option<&str> {
        self.job.as_ref()?.sink.principal()
    }

    /// Returns the client's capabilities.
    pub(crate) fn client_capabilities(&self) -> ClientCapabilities {
        self.job.as_ref().map(|job| job.query.peer.capabilities).unwrap_or_default()
    }

    /// Reports progress if the client requested it. The notification is dropped while the client
    /// does not read.
    pub(crate) fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(job) = &self.job {
            send_progress(job, done, total, message);
        }
    }

    /// Logs an entry for this call, if the client requested entries of this level.
    pub(crate) fn log(&self, level: Level, logger: &str, data: &Json) {
        let Some(job) = &self.job else { return };
        if job.query.peer.log_level.is_some_and(|floor| level >= floor) {
            send_notification(job, ServerNotification::Log { level, logger: Some(logger), data });
        }
    }

    /// Sends requests to the client. The handler runs again with the responses and `note`.
    pub(crate) fn request_input(self, requests: &[(String, InputRequest)], note: &Json) {
        let keyed = requests
            .iter()
            .map(|(key, request)| KeyedRequest::new(key.clone(), request.clone(), era::write_request));
        self.send_input_requests(keyed.collect(), note);
    }

    /// Runs the handler again with `note`.
    pub(crate) fn again(mut self, note: &Json) {
        let Some(mut job) = self.job.take() else { return };
        job.responses = vec![(NOTE.to_owned(), Ok(note.to_doc()))];
        let core = Arc::clone(&job.conn.core);
        if let Err(refused) = core.pool.try_submit(job) {
            refused.job.settle(CallResult::Fault(Fault::Internal("The server is shutting down")));
        }
    }
}

impl Connection {
    /// Sends a request to the session's client outside of a call, as soon as the session is ready.
    /// It fails after the limit `client_input_timeout`. Returns its id, or `on_response` if no
    /// request can be sent.
    fn send_request(&self, request: InputRequest, on_response: OnResponse) -> Result<u64, OnResponse> {
        let (Some(era), Some((peer, ready))) =
            (self.core.eras.legacy, self.session().as_ref().map(|session| (session.peer, session.ready)))
        else {
            return Err(on_response);
        };
        let mut parked = lock(&self.parked);
        if !peer.capabilities.contains(request.needs()) || parked.requests.len() >= self.core.limits.parked {
            return Err(on_response);
        }
        parked.last_id += 1;
        let id = parked.last_id;
        let mut w = Writer::new();
        era.write_request(
            &mut w,
            peer.revision,
            id,
            &KeyedRequest::new(String::new(), request, era::write_request),
        );
        w.newline();
        let mut unsent = w.into_bytes();
        if ready {
            self.outbox.send(&self.sink, std::mem::take(&mut unsent));
        }
        let deadline = Instant::now() + self.core.limits.client_input_timeout;
        parked.requests.push(ClientRequest { id, on_response, deadline, unsent });
        drop(parked);
        self.core.watchdog.arm();
        // If the session became ready meanwhile, the reader thread has not seen this request.
        if !ready && self.session().as_ref().is_some_and(|session| session.ready) {
            self.ready();
        }
        Ok(id)
    }

    /// Withdraws a request outside of a call, unless it has ended.
    fn withdraw_request(&self, id: u64) {
        let mut parked = lock(&self.parked);
        let Some(place) = parked.requests.iter().position(|request| request.id == id) else { return };
        let request = parked.requests.swap_remove(place);
        if let Some(era) = self.core.eras.legacy.filter(|_| request.unsent.is_empty()) {
            let mut w = Writer::new();
            era.cancel_request(&mut w, id);
            w.newline();
            self.outbox.send(&self.sink, w.into_bytes());
        }
        // Its callback is dropped without the lock.
        drop(parked);
        drop(request);
    }

    /// Adds the URIs of all resources with a subscription.
    pub(crate) fn add_subscribed_uris(&self, uris: &mut BTreeSet<String>) {
        if let Some(session) = self.session().as_ref() {
            uris.extend(session.subscriptions.iter().cloned());
        }
        uris.extend(lock(&self.listens).iter().flat_map(|listen| listen.filter.uris.iter().cloned()));
    }
}

impl Handle {
    /// Sets the delegate of the server. Later calls have no effect.
    pub(crate) fn delegate_to(&self, delegate: impl Delegate + 'static) {
        if let Ok(shared) = self.shared() {
            shared.delegate.get_or_init(|| Box::new(delegate));
        }
    }

    /// Returns the lowest log level of all sessions; `None` if no session has a level.
    pub(crate) fn log_level(&self) -> Option<Level> {
        let shared = self.shared().ok()?;
        let level =
            |conn: Arc<Connection>| conn.session().as_ref().and_then(|session| session.peer.log_level);
        shared.connections().into_iter().filter_map(level).min()
    }

    /// Returns the resources with at least one subscription.
    pub(crate) fn subscribed_uris(&self) -> BTreeSet<String> {
        let mut uris = BTreeSet::new();
        for connection in self.shared().iter().flat_map(|shared| shared.connections()) {
            connection.add_subscribed_uris(&mut uris);
        }
        uris
    }
}

/// Returns all connections of these servers.
fn connections<'h>(handles: impl Iterator<Item = &'h Handle>) -> Vec<Arc<Connection>> {
    handles.filter_map(|handle| handle.shared().ok()).flat_map(|shared| shared.connections()).collect()
}

/// Logs an entry to the session if these servers have exactly one connection. Does not mask
/// credentials, because the entry comes from an upstream.
pub(crate) fn log_to_only_session<'h>(
    handles: impl Iterator<Item = &'h Handle>,
    level: Level,
    logger: &str,
    data: &Json,
) {
    if let [connection] = &*connections(handles) {
        connection.log(level, Some(logger), data);
    }
}

/// The only session of a hub's servers, for requests outside of calls.
pub(crate) struct OnlySession(Arc<Connection>);

/// A request outside of a call. The connection owns it.
pub(crate) struct SentRequest(Weak<Connection>, u64);

impl SentRequest {
    /// Withdraws the request, unless it has ended.
    pub(crate) fn withdraw(&self) {
        if let Some(connection) = self.0.upgrade() {
            connection.withdraw_request(self.1);
        }
    }
}

impl OnlySession {
    /// Returns the session, if these servers have exactly one.
    pub(crate) fn of<'h>(handles: impl Iterator<Item = &'h Handle>) -> Option<OnlySession> {
        let connections = connections(handles);
        let mut sessions = connections.into_iter().filter(|conn| conn.session().is_some());
        sessions.next().filter(|_| sessions.next().is_none()).map(OnlySession)
    }

    /// Sends a request to the client. `on_response` is dropped if the connection ends first.
    ///
    /// # Errors
    /// Returns `on_response` if the client lacks the capability.
    pub(crate) fn request(
        &self,
        request: InputRequest,
        on_response: OnResponse,
    ) -> Result<SentRequest, OnResponse> {
        let id = self.0.send_request(request, on_response)?;
        Ok(SentRequest(Arc::downgrade(&self.0), id))
    }

    /// Returns whether all these calls are known to come from the client of the session.
    pub(crate) fn is_client_of(&self, callers: &Callers) -> bool {
        match callers {
            Callers::Nobody => true,
            Callers::One(client) => client.is(&self.0),
            Callers::Several => false,
        }
    }
}

/// Identity of a client, as far as its connection shows it.
pub(crate) struct ClientId(Weak<Connection>);

impl ClientId {
    /// Returns whether this is known to be the client of this connection.
    fn is(&self, conn: &Arc<Connection>) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(conn)) && !conn.shared
    }
}

/// The clients of a server's calls.
#[derive(Default)]
pub(crate) enum Callers {
    #[default]
    Nobody,
    /// Clients with one connection.
    One(ClientId),
    Several,
}

impl Callers {
    /// Adds the client of a call.
    pub(crate) fn add(&mut self, caller: &CallSender) {
        match self {
            Callers::Nobody => *self = Callers::One(ClientId(Arc::downgrade(&caller.conn))),
            Callers::One(client) if !client.is(&caller.conn) => *self = Callers::Several,
            Callers::One(_) | Callers::Several => {}
        }
    }
}

/// Reads the input requests of an upstream's result.
///
/// # Errors
/// One of them is not a valid request.
pub(crate) fn input_requests(requests: &Json) -> Result<Vec<(String, InputRequest)>, ToolError> {
    let read = |(key, request): (&str, Value<'_>)| {
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let request = decode::read_request(method, request.get("params"))
            .map_err(|why| ToolError::new(format!("Invalid input request {key:?}: {}", why.message)))?;
        Ok((key.to_owned(), request))
    };
    requests.to_doc().root().members().map(read).collect()
}

impl ToolError {
    /// Converts the error of an upstream. Keeps its message, and its code if it has the same
    /// meaning for this server's client. `uri` is that of a resource request.
    pub(crate) fn relayed(error: &Error, uri: Option<&str>) -> ToolError {
        let data = error.data().map(Json::to_doc);
        let missing = |code| era::proxied::missing_capabilities(code, data.as_ref().map(Doc::root));
        if let Some(needed) = error.code().and_then(missing) {
            return ToolError::fault(Fault::MissingCapability(needed));
        }
        match (error.kind(), error.code(), uri) {
            (ErrorKind::Remote, Some(NO_RESOURCE), Some(uri)) => ToolError::not_found(uri),
            // In the stateless protocol the code is ambiguous, so the data must name the URI.
            (ErrorKind::Remote, Some(code::INVALID_PARAMS), Some(uri)) if names_uri(error.data(), uri) => {
                ToolError::not_found(uri)
            }
            (ErrorKind::Remote, Some(code), _) if !(-32099..=-32000).contains(&code) => {
                let (message, data) = (error.to_string(), error.data().cloned());
                ToolError::fault(Fault::Custom { code, message, data })
            }
            _ => ToolError::new(error.to_string()),
        }
    }
}

fn names_uri(data: Option<&Json>, uri: &str) -> bool {
    data.is_some_and(|data| data.to_doc().root().get("uri").and_then(Value::as_str) == Some(uri))
}
