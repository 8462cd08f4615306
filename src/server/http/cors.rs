//! What browsers ask before they let a page of another origin talk to this server, and read what it
//! says.
//!
//! Only pages of origins that the program named get an answer; a page of any other is kept away by
//! its browser, those of this machine included. No cookies are involved, so credentials are not
//! allowed; a token is a field like others.
//!
//! Source: the Fetch standard, HTTP-CORS protocol.

use crate::era::http::Sessions;
use crate::transport::http_server::Head;

use super::rejection::Rejection;

/// What a page may send. Those of sessions fail where there are none, as they do without a browser.
const METHODS: &str = "GET, POST, DELETE";
/// Seconds for which a browser need not ask again; none remembers it for longer.
const MAX_AGE: &str = "7200";

/// Whether this is the question of a browser, before it sends what a page wants to.
pub(super) fn is_preflight(head: &Head<'_>) -> bool {
    head.method() == "OPTIONS" && head.field("access-control-request-method").is_some()
}

/// What goes along with every answer to a page of an allowed origin.
pub(super) fn fields(origin: &str, sessions: Option<&Sessions>) -> Vec<(&'static str, String)> {
    let mut exposed = "WWW-Authenticate, Retry-After".to_owned();
    if let Some(sessions) = sessions {
        exposed = format!("{}, {exposed}", sessions.id);
    }
    vec![
        ("access-control-allow-origin", origin.to_owned()),
        ("access-control-expose-headers", exposed),
        ("vary", "Origin".to_owned()),
    ]
}

/// The answer to a preflight, beside [`fields`]. Every field may be sent that the browser names:
/// those of tools' arguments have names of their own, and none is trusted for being there.
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

/// A byte of a list of fields' names.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~, ".contains(&byte)
}
