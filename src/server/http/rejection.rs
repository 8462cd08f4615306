//! Rejected HTTP requests: status, JSON-RPC error for the client, notice for the operator.
//!
//! The error has no id, because the message has not been read. The transport allows that (MCP
//! 2025-11-25 basic/transports, 2026-07-28 basic/transports/streamable-http), and client libraries
//! show the text to their users. 503 has no body: `Retry-After` is enough.
//!
//! # Invariants
//! - A notice quotes at most 100 characters of a host or an origin, and no other data of a client.
//!   It never contains a token.

use crate::era::http::SessionRules;
use crate::era::{self, Encoded};
use crate::json::{Value, Writer};
use crate::model::Fault;
use crate::server::connection::Connection;
use crate::transport::http_server::{Responder, Response};

use super::OnRejection;
use super::response::JSON;

/// Maximum number of characters of a host or an origin in a notice.
const MAX_SHOWN: usize = 100;

/// A request that an HTTP server rejected before its message was handled, as
/// [`HttpServer::on_rejection`](crate::HttpServer::on_rejection) reports it.
///
/// ```
/// use tinymcp::{Server, stderr};
///
/// let http = Server::new("board", "1.0.0").http().on_rejection(|rejected| {
///     let reason = rejected.reason.unwrap_or("unknown reason");
///     stderr::write(format!("{} {} {reason}\n", rejected.status, rejected.path));
/// });
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HttpRejection<'r> {
    /// The HTTP method. Empty if the head of the request was too large, too slow or malformed.
    pub method: &'r str,
    /// The path, without the query. Empty in the same cases as the method.
    pub path: &'r str,
    /// The status of the response, 400 or higher.
    pub status: u16,
    /// The reason, if it is known.
    pub reason: Option<&'r str>,
    /// The message, if it was read and there was no room for it. Known only to servers with
    /// [`Server::on_frame`](crate::Server::on_frame).
    pub message: Option<RejectedMessage<'r>>,
}

/// A message that was read, but not handled for lack of room: a field of [`HttpRejection`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RejectedMessage<'r> {
    /// The connection, as [`Frame::connection`](crate::Frame::connection).
    pub connection: &'r str,
    /// The id of the request, as JSON.
    pub id: &'r str,
}

/// Reason to reject a request by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Host,
    Origin,
    Path,
    UnknownToken,
    Scope,
    TokenCheck,
    TokenPending,
    NoToken,
    MalformedToken,
    Media,
    Encoding,
    Accept,
    AcceptEvents,
    EventExpired,
}

impl Reason {
    /// Number of kinds of notices.
    pub(super) const NOTICES: usize = 6;

    pub(super) const fn status(self) -> u16 {
        match self {
            Reason::MalformedToken => 400,
            Reason::NoToken | Reason::UnknownToken => 401,
            Reason::Host | Reason::Origin | Reason::Scope => 403,
            Reason::Path => 404,
            Reason::Accept | Reason::AcceptEvents => 406,
            Reason::EventExpired => 410,
            Reason::Media | Reason::Encoding => 415,
            Reason::TokenCheck | Reason::TokenPending => 503,
        }
    }

    /// Returns the error message for the client.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Reason::Host => "Host not allowed; see `HttpServer::allow_host`",
            Reason::Origin => "Origin not allowed; see `HttpServer::allow_origin`",
            Reason::Path => "no MCP endpoint at this path",
            Reason::UnknownToken => "invalid bearer token: unknown, expired or issued for another server",
            Reason::Scope => "insufficient scope of the bearer token; see WWW-Authenticate",
            Reason::TokenCheck | Reason::TokenPending => {
                "the bearer token cannot be checked now; try again later"
            }
            Reason::NoToken => "missing bearer token in Authorization",
            Reason::MalformedToken => "malformed bearer token in Authorization",
            Reason::Media => "unsupported media type: send Content-Type: application/json",
            Reason::Encoding => "unsupported Content-Encoding: send the body without one",
            Reason::Accept => "not acceptable: send Accept: application/json, text/event-stream",
            Reason::AcceptEvents => {
                "not acceptable: the response is an event stream, send Accept: text/event-stream"
            }
            Reason::EventExpired => "events after this id are no longer available; reconnect without one",
        }
    }

    /// Returns kind and text of the notice for the operator, if this reason suggests a wrong
    /// setting or an attack. `field` is the host or origin, `path` the path of the endpoint.
    pub(super) fn notice(self, field: Option<&str>, path: &str) -> Option<(usize, String)> {
        let field: String = field.unwrap_or_default().chars().take(MAX_SHOWN).collect();
        Some(match self {
            Reason::Host => (0, format!("rejected a request: Host {field:?} not allowed; see allow_host")),
            Reason::Origin => {
                (1, format!("rejected a request: Origin {field:?} not allowed; see allow_origin"))
            }
            Reason::Path => (2, format!("rejected a request: path is not {path:?}")),
            Reason::UnknownToken => (3, "rejected a request: unknown bearer token".to_owned()),
            Reason::Scope => (4, "rejected a request: insufficient scope of the bearer token".to_owned()),
            Reason::TokenCheck => {
                (5, "rejected a request: the bearer token cannot be checked now".to_owned())
            }
            _ => return None,
        })
    }
}

/// Returns the message for input that the engine rejects: not a request, or too large or too slow.
fn error_message(status: u16, frame_bytes: usize) -> Option<String> {
    Some(match status {
        400 => "invalid HTTP request; TLS must end at a reverse proxy".into(),
        408 => "the request did not arrive in time".into(),
        413 => format!("message too large: the limit is {frame_bytes} bytes"),
        414 => "request target too long".into(),
        417 => "unsupported Expect: must be 100-continue".into(),
        431 => "request head too large, or too many header fields".into(),
        501 => "unsupported transfer coding: must be chunked".into(),
        505 => "unsupported HTTP version: must be HTTP/1.1".into(),
        _ => return None,
    })
}

/// Returns the response to input that the engine rejects, after reporting it to the program.
pub(super) fn error_response(status: u16, frame_bytes: usize, report: Option<&OnRejection>) -> Response {
    let message = error_message(status, frame_bytes);
    if let Some(report) = report {
        let why = message.as_deref();
        report(&HttpRejection { method: "", path: "", status, reason: why, message: None });
    }
    match message {
        Some(message) => Rejection::fault(status, None, &Fault::InvalidRequest(message.into())).response,
        None => Response::new(status),
    }
}

/// Response to a request that is not handled further.
pub(super) struct Rejection {
    pub(super) response: Response,
    pub(super) reason: Option<Reason>,
    /// The error in its body.
    pub(super) encoded: Encoded,
}

impl Rejection {
    /// Creates a rejection without header fields and body.
    pub(super) fn new(status: u16) -> Rejection {
        Rejection { response: Response::new(status), reason: None, encoded: Encoded::default() }
    }

    /// Creates a rejection with an error as its body, for the request with this id if any.
    pub(super) fn fault(status: u16, id: Option<Value<'_>>, fault: &Fault) -> Rejection {
        Rejection::session_fault(None, status, id.map(Value::raw), fault)
    }

    /// Like [`Rejection::fault`], in the version of this session.
    pub(super) fn session_fault(
        connection: Option<&Connection>,
        status: u16,
        id: Option<&str>,
        fault: &Fault,
    ) -> Rejection {
        let mut w = Writer::new();
        let session = connection.map(Connection::session);
        let session = session.as_ref().and_then(|s| s.as_ref());
        let encoded = era::fault_without_query(&mut w, id, session, fault);
        Rejection { encoded, ..Rejection::document(status, w.into_bytes()) }
    }

    /// Creates a rejection with JSON as its body.
    pub(super) fn document(status: u16, body: Vec<u8>) -> Rejection {
        let mut rejection = Rejection::new(status).with(JSON.0, JSON.1);
        rejection.response.body = body;
        rejection
    }

    /// Creates the rejection of an HTTP method that is not allowed.
    pub(super) fn method(sessions: Option<&SessionRules>) -> Rejection {
        let message = match sessions {
            Some(s) => format!("method not allowed: must be POST, or GET or DELETE with {}", s.id).into(),
            None => "method not allowed: must be POST".into(),
        };
        Rejection::fault(405, None, &Fault::InvalidRequest(message)).with("allow", "POST")
    }

    /// Creates the rejection of a request for which there is no room now.
    pub(super) fn busy() -> Rejection {
        Rejection::new(503).with("retry-after", "1")
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Rejection {
        self.response.fields.push((name, value.into()));
        self
    }

    pub(super) fn send(self, responder: &Responder) {
        responder.send(&self.response);
    }
}

impl From<Reason> for Rejection {
    fn from(reason: Reason) -> Rejection {
        let fault = Fault::InvalidRequest(reason.message().into());
        Rejection { reason: Some(reason), ..Rejection::fault(reason.status(), None, &fault) }
    }
}
