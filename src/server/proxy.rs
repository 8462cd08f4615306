//! Server functions for hubs: requests and errors of upstream servers, and access to sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::era::{self, decode};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, Value, Writer};
use crate::model::client_request::AskRequest;
use crate::model::{Fault, Level};
use crate::rpc::{RpcError, code};

use super::call::request_state::NOTE;
use super::connection::{Connection, OnAnswer};
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
    pub(crate) fn relay(&mut self, questions: &Json) -> Result<Json, ToolError> {
        let mut answers = Writer::new();
        answers.begin_object();
        let mut open = None;
        for (key, request) in self::questions(questions)? {
            match self.ask(&key, request) {
                Ok(answer) => _ = answers.key(&key).raw(answer.root().raw()),
                Err(failure) if failure.is_question() => open = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        answers.end_object();
        open.map_or_else(|| Ok(answers.into_json()), Err)
    }

    /// Returns whether the client requested progress of this call.
    pub(crate) fn wants_progress(&self) -> bool {
        self.query.progress.is_some()
    }
}

impl Context<'_> {
    /// The note of the previous run of this call; `None` in the first run.
    pub(crate) fn note(&self) -> Option<&Doc> {
        let noted = self.answers.iter().find(|(key, _)| key == NOTE)?;
        noted.1.as_ref().ok()
    }

    /// The client's response or error with this key, once it has arrived.
    pub(crate) fn answered(&self, key: &str) -> Option<&Result<Doc, RpcError>> {
        self.answers.iter().find(|(name, _)| name == key).map(|(_, answer)| answer)
    }

    /// Waits until the client reads again, or the call is over.
    pub(crate) fn wait_for_reader(&self) {
        const INTERVAL: Duration = Duration::from_millis(20);
        while self.host.busy() && self.wait(INTERVAL).is_ok() {}
    }

    /// The lowest level of log entries that the client requested for this call.
    pub(crate) fn log_level(&self) -> Option<Level> {
        self.query.peer.log_level
    }
}

impl Handle {
    /// Sets the owner of the catalog's entries. Later calls have no effect.
    pub(crate) fn delegate_to(&self, delegate: impl Delegate + 'static) {
        if let Ok(shared) = self.shared() {
            shared.delegate.get_or_init(|| Box::new(delegate));
        }
    }

    /// The lowest log level of all sessions, if one has a level.
    pub(crate) fn log_level(&self) -> Option<Level> {
        let shared = self.shared().ok()?;
        let level =
            |conn: Arc<Connection>| conn.session().as_ref().and_then(|session| session.peer.log_level);
        shared.connections().into_iter().filter_map(level).min()
    }

    /// The resources with at least one subscription.
    pub(crate) fn listened(&self) -> BTreeSet<String> {
        let mut uris = BTreeSet::new();
        for connection in self.shared().iter().flat_map(|shared| shared.connections()) {
            connection.wanted(&mut uris);
        }
        uris
    }
}

/// All connections of these servers.
fn connections<'h>(handles: impl Iterator<Item = &'h Handle>) -> Vec<Arc<Connection>> {
    handles.filter_map(|handle| handle.shared().ok()).flat_map(|shared| shared.connections()).collect()
}

/// Logs an entry to the session if these servers have exactly one connection. Does not mask
/// credentials, because the entry comes from an upstream.
pub(crate) fn log_to_only<'h>(
    handles: impl Iterator<Item = &'h Handle>,
    level: Level,
    logger: &str,
    data: &Json,
) {
    if let [connection] = &*connections(handles) {
        connection.log(level, Some(logger), data);
    }
}

/// Sends a request to the client of the only session of these servers, outside of a call. Returns
/// `on_answer` if the client lacks the capability. `on_answer` is dropped if the connection ends
/// first.
pub(crate) fn ask_only<'h>(
    handles: impl Iterator<Item = &'h Handle>,
    request: AskRequest,
    on_answer: OnAnswer,
) -> Result<(), OnAnswer> {
    let connections = connections(handles);
    let mut sessions = connections.iter().filter(|conn| conn.session().is_some());
    match (sessions.next(), sessions.next()) {
        (Some(conn), None) => conn.ask(request, on_answer),
        _ => Err(on_answer),
    }
}

/// Reads the input requests of an upstream's result.
///
/// # Errors
/// One of them is not a valid request.
pub(crate) fn questions(asked: &Json) -> Result<Vec<(String, AskRequest)>, ToolError> {
    let read = |(key, question): (&str, Value<'_>)| {
        let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
        let request = decode::inquiry(method, question.get("params"))
            .map_err(|why| ToolError::new(format!("The server asks {key:?}: {}", why.message)))?;
        Ok((key.to_owned(), request))
    };
    asked.to_doc().root().members().map(read).collect()
}

impl ToolError {
    /// The error of an upstream. Keeps its message, and its code if it has the same meaning for
    /// this server's client. `uri` is that of a resource request.
    pub(crate) fn relayed(error: &Error, uri: Option<&str>) -> ToolError {
        let data = error.data().map(Json::to_doc);
        let missing = |code| era::says_missing(code, data.as_ref().map(Doc::root));
        if let Some(needed) = error.code().and_then(missing) {
            return ToolError::fault(Fault::MissingCapability(needed));
        }
        match (error.kind(), error.code(), uri) {
            (ErrorKind::Remote, Some(NO_RESOURCE), Some(uri)) => ToolError::not_found(uri),
            // Without a session the code is ambiguous, and the data names the URI.
            (ErrorKind::Remote, Some(code::INVALID_PARAMS), Some(uri)) if names(error.data(), uri) => {
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

fn names(data: Option<&Json>, uri: &str) -> bool {
    data.is_some_and(|data| data.to_doc().root().get("uri").and_then(Value::as_str) == Some(uri))
}
