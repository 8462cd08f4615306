//! CORS: preflights and response fields for pages of allowed origins.
//!
//! Only origins of [`HttpServer::allow_origin`](super::HttpServer::allow_origin) get CORS fields.
//! Browsers withhold responses from all other pages, also from pages of this machine. Credentials
//! are not allowed, because the server uses no cookies. A token is an ordinary header field.
//!
//! Source: the Fetch standard, HTTP-CORS protocol.

use crate::era::http::SessionRules;
use crate::transport::http_server::Head;

use super::rejection::Rejection;

/// Field that allows an origin to read a response.
pub(super) const ALLOW_ORIGIN: &str = "access-control-allow-origin";
/// HTTP methods that a page may use.
const METHODS: &str = "GET, POST, DELETE";
/// Seconds for which a browser may cache a preflight: the maximum of common browsers.
const MAX_AGE: &str = "7200";

/// Returns whether this is a preflight: a browser's request for permission.
pub(super) fn is_preflight(head: &Head<'_>) -> bool {
    head.method == "OPTIONS" && head.field("access-control-request-method").is_some()
}

/// Returns the fields of every response to a page of an allowed origin.
pub(super) fn fields(origin: &str, sessions: Option<&SessionRules>) -> Vec<(&'static str, String)> {
    let mut exposed = "WWW-Authenticate, Retry-After".to_owned();
    if let Some(sessions) = sessions {
        exposed = format!("{}, {exposed}", sessions.id);
    }
    vec![
        (ALLOW_ORIGIN, origin.to_owned()),
        ("access-control-expose-headers", exposed),
        ("vary", "Origin".to_owned()),
    ]
}

/// Returns the response to a preflight without [`fields`]. Every field that the browser names is
/// allowed: fields for tool arguments have arbitrary names.
pub(super) fn preflight(head: &Head<'_>) -> Rejection {
    let rejection = Rejection::new(204)
        .with("access-control-allow-methods", METHODS)
        .with("access-control-max-age", MAX_AGE);
    match head.field("access-control-request-headers") {
        Some(names) if names.iter().all(|b| is_name(*b)) => {
            rejection.with("access-control-allow-headers", String::from_utf8_lossy(names))
        }
        _ => rejection,
    }
}

/// Returns whether this byte may occur in a list of field names.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~, ".contains(&byte)
}
