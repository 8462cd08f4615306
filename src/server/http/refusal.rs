//! Requests that are turned away: every status with its words, for the client and for the operator.
//!
//! A client gets a JSON-RPC error without an id, since its message has not been read; the transport
//! allows that (MCP 2025-11-25 basic/transports, 2026-07-28 basic/transports/streamable-http), and
//! libraries show it to their users. 503 stays without: `Retry-After` says all there is. The
//! operator gets a line about what looks like a wrong setting, or like somebody at the door.
//!
//! # Invariants
//! - Of what a client sent, only a host or an origin gets into a line, quoted and cut short. No
//!   token does.

use crate::era;
use crate::era::http::Sessions;
use crate::json::{Value, Writer};
use crate::model::Fault;
use crate::server::connection::Connection;
use crate::transport::http_server::{Exchange, Field, Refusal};

use super::reply::JSON;

/// Characters of a host or an origin that are shown.
const SHOWN: usize = 100;

/// Why a request got no further than its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Host,
    Origin,
    Path,
    UnknownToken,
    Scope,
    NoToken,
    MalformedToken,
    Media,
    Encoding,
    Accept,
    AcceptEvents,
    Forgotten,
}

impl Reason {
    pub(super) const fn status(self) -> u16 {
        match self {
            Reason::MalformedToken => 400,
            Reason::NoToken | Reason::UnknownToken => 401,
            Reason::Host | Reason::Origin | Reason::Scope => 403,
            Reason::Path => 404,
            Reason::Accept | Reason::AcceptEvents => 406,
            Reason::Forgotten => 410,
            Reason::Media | Reason::Encoding => 415,
        }
    }

    /// What the client is told: what is wrong, and what to do.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Reason::Host => "This server does not go by that Host: its operator has to allow the host first",
            Reason::Origin => {
                "Pages of that Origin are not served: the server's operator has to allow it first"
            }
            Reason::Path => "No MCP endpoint is at this path: check the URL of the server",
            Reason::UnknownToken => {
                "The bearer token is unknown, expired, or meant for another server: get another one"
            }
            Reason::Scope => "The bearer token is not good for this: get one with the scopes that are named",
            Reason::NoToken => "A bearer token is needed: send one in Authorization",
            Reason::MalformedToken => "Authorization holds no bearer token that can be read",
            Reason::Media => "A message is JSON: send it with Content-Type: application/json",
            Reason::Encoding => "unsupported Content-Encoding: send the body without one",
            Reason::Accept => {
                "Answers are JSON or event streams: send Accept: application/json, text/event-stream"
            }
            Reason::AcceptEvents => "The answer to this is an event stream: send Accept: text/event-stream",
            Reason::Forgotten => "What came behind that event is no longer kept: listen without naming one",
        }
    }

    /// Which kind of line the operator gets, fewer than [`Reason::LINES`]; none about what only a
    /// client can mend.
    pub(super) const fn line(self) -> Option<usize> {
        match self {
            Reason::Host => Some(0),
            Reason::Origin => Some(1),
            Reason::Path => Some(2),
            Reason::UnknownToken => Some(3),
            Reason::Scope => Some(4),
            _ => None,
        }
    }

    pub(super) const LINES: usize = 5;

    /// That line. `field` is the host or origin, `path` where the endpoint is.
    pub(super) fn told(self, field: Option<&str>, path: &str) -> String {
        let field: String = field.unwrap_or_default().chars().take(SHOWN).collect();
        match self {
            Reason::Host => format!("refused a request with the Host {field:?}; allow_host would let it in"),
            Reason::Origin => {
                format!("refused a request with the Origin {field:?}; allow_origin would let it in")
            }
            Reason::Path => format!("refused a request for another path than {path:?}"),
            Reason::Scope => "refused a request with a token of too few scopes".to_owned(),
            _ => "refused a request with an unknown token".to_owned(),
        }
    }
}

/// What is said along with a status of the engine's own: what came was no request, or too much.
pub(super) fn unread(status: u16, frame_bytes: usize) -> Refusal {
    let words = match status {
        400 => "This is no request of HTTP/1.1; TLS, if it was that, has to end at a proxy in front".into(),
        408 => "The request did not come in time: send it whole".into(),
        413 => format!("The message is longer than {frame_bytes} bytes"),
        414 => "The target of the request is too long".into(),
        417 => "Nothing but 100-continue can be expected here".into(),
        431 => "The head of the request is too long, or has too many fields".into(),
        501 => "The body has a transfer coding that is not known here: send chunks or a length".into(),
        505 => "HTTP/1.1 is spoken here".into(),
        _ => return Stop::new(status).into(),
    };
    Stop::fault(status, None, &Fault::InvalidRequest(words.into())).into()
}

/// Why a request got no further: its status, and what comes with it.
pub(super) struct Stop {
    pub(super) status: u16,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// For the operator.
    pub(super) reason: Option<Reason>,
}

impl Stop {
    /// With nothing to say.
    pub(super) fn new(status: u16) -> Stop {
        Stop { status, fields: Vec::new(), body: Vec::new(), reason: None }
    }

    /// With an error in the body that belongs to no request, or to one with this id.
    pub(super) fn fault(status: u16, id: Option<Value<'_>>, fault: &Fault) -> Stop {
        Stop::fault_to(None, status, id.map(Value::raw), fault)
    }

    /// The same in the form that a session's client knows.
    pub(super) fn fault_to(conn: Option<&Connection>, status: u16, id: Option<&str>, fault: &Fault) -> Stop {
        let mut w = Writer::new();
        let session = conn.map(Connection::session);
        let session = session.as_ref().and_then(|s| s.as_ref());
        era::fault_without_query(&mut w, id, session, fault);
        Stop::document(status, w.into_bytes())
    }

    /// With a body of JSON.
    pub(super) fn document(status: u16, body: Vec<u8>) -> Stop {
        Stop { body, ..Stop::new(status) }.with(JSON.0, JSON.1)
    }

    /// Another method would do, or a session.
    pub(super) fn method(sessions: Option<&Sessions>) -> Stop {
        let words = match sessions {
            Some(s) => format!("Only POST is served without {}, GET and DELETE with it", s.id).into(),
            None => "Only POST is served here".into(),
        };
        Stop::fault(405, None, &Fault::InvalidRequest(words)).with("allow", "POST")
    }

    pub(super) fn busy() -> Stop {
        Stop::new(503).with("retry-after", "1")
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Stop {
        self.fields.push((name, value.into()));
        self
    }

    pub(super) fn with_all(mut self, fields: Vec<(&'static str, String)>) -> Stop {
        self.fields.extend(fields);
        self
    }

    pub(super) fn say(self, exchange: &Exchange) {
        let fields: Vec<Field<'_>> =
            self.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        exchange.respond(self.status, &fields, &self.body);
    }
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        let fault = Fault::InvalidRequest(reason.words().into());
        Stop { reason: Some(reason), ..Stop::fault(reason.status(), None, &fault) }
    }
}

impl From<Stop> for Refusal {
    fn from(Stop { status, fields, body, .. }: Stop) -> Refusal {
        Refusal { status, fields, body }
    }
}
