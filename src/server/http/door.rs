//! What is said of a request before its body is there, by its head alone.
//!
//! What it does: looks at host and origin, path, method, token and media types, in this order
//! (requirement H26-28), answers browsers' questions and those for the metadata, tells the operator
//! of refusals. It knows no sessions and reads no messages.
//!
//! Invariant: a token is looked at before the body is read; with the body once more, unless it was
//! the last one.

use std::sync::Arc;
use std::time::Instant;

use crate::era::http::{Fields, Sessions};
use crate::server::serve::diagnostics::Notices;
use crate::transport::http_server::Head;

use super::Options;
use super::auth::WELL_KNOWN;
use super::cors;
use super::refusal::{Reason, Stop};
use super::reply::Accepts;

/// Where requests come in.
pub(super) struct Door {
    options: Arc<Options>,
    /// What sessions are called, where there are any.
    words: Option<&'static Sessions>,
    /// Whose token was looked at last: its hash and its owner. The body of that request comes next.
    admitted: Option<([u8; 32], Arc<str>)>,
    notices: Notices<{ Reason::LINES }>,
}

/// What the rest of a request's way depends on.
pub(super) struct Visit<'h> {
    pub(super) head: &'h Head<'h>,
    pub(super) accepts: Accepts,
    pub(super) principal: Option<Arc<str>>,
}

impl Fields for Head<'_> {
    fn field(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.all(name);
        let first = all.next();
        // Twice is no value at all: no check takes a control character for what it looks for.
        if all.next().is_some() { Some(b"\0") } else { first }
    }
}

/// A field that must be text.
fn text<'h>(head: &'h Head<'_>, name: &str) -> Option<&'h str> {
    Fields::field(head, name).map(|value| std::str::from_utf8(value).unwrap_or("\0"))
}

impl Door {
    pub(super) fn new(options: &Arc<Options>, words: Option<&'static Sessions>) -> Door {
        Door { options: Arc::clone(options), words, admitted: None, notices: Notices::new() }
    }

    /// What sessions are called, where there are any.
    pub(super) fn words(&self) -> Option<&'static Sessions> {
        self.words
    }

    /// Whether a request may come in with its body. Tells the operator of a refusal that is worth
    /// it.
    pub(super) fn admit(&mut self, head: &Head<'_>) -> Result<(), Stop> {
        let checked = self.check(head);
        if let Some(reason) = checked.as_ref().err().and_then(|stop| stop.reason) {
            self.report(reason, head);
        }
        checked
    }

    fn check(&mut self, head: &Head<'_>) -> Result<(), Stop> {
        let gate = &self.options.gate;
        if !gate.admits_host(text(head, "host")) {
            return Err(Reason::Host.into());
        }
        let origin = text(head, "origin");
        if !gate.admits_origin(origin) {
            return Err(Reason::Origin.into());
        }
        let document = self.metadata(head.path());
        if document.is_none() && head.path() != self.options.path {
            return Err(Reason::Path.into());
        }
        if cors::is_preflight(head) && origin.is_some_and(|origin| gate.names(origin)) {
            return Err(cors::preflight(head));
        }
        if let Some(document) = document {
            return Err(match head.method() {
                "GET" | "HEAD" => Stop::document(200, document),
                _ => Stop::new(405).with("allow", "GET, HEAD"),
            });
        }
        self.principal(head, false)?;
        let accepts = Accepts::read(head.all("accept"));
        let sessions = self.words;
        match head.method() {
            "POST" => {
                if !is_json(Fields::field(head, "content-type")) {
                    return Err(Reason::Media.into());
                }
                if !is_identity(head.all("content-encoding")) {
                    return Err(Stop::from(Reason::Encoding).with("accept-encoding", "identity"));
                }
                if !accepts.json && !accepts.events {
                    return Err(Reason::Accept.into());
                }
            }
            "GET" | "DELETE" if sessions.is_some_and(|s| Fields::field(head, s.id).is_some()) => {
                if head.method() == "GET" && !accepts.events {
                    return Err(Reason::AcceptEvents.into());
                }
            }
            _ => return Err(Stop::method(sessions)),
        }
        Ok(())
    }

    /// What goes along with every answer to this request: what a browser wants to see before it
    /// shows the answer to a page of an origin that is allowed.
    pub(super) fn along(&self, head: &Head<'_>) -> Vec<(&'static str, String)> {
        match text(head, "origin").filter(|origin| self.options.gate.names(origin)) {
            Some(origin) => cors::fields(origin, self.words),
            None => Vec::new(),
        }
    }

    /// Tells the operator of a refusal that is worth it.
    fn report(&mut self, reason: Reason, head: &Head<'_>) {
        let Some(kind) = reason.line() else { return };
        let field = if reason == Reason::Host { "host" } else { "origin" };
        let path = &self.options.path;
        self.notices.say(kind, Instant::now(), || reason.told(text(head, field), path));
    }

    /// What of a request that was admitted is needed with its body.
    pub(super) fn visit<'h>(&mut self, head: &'h Head<'h>) -> Result<Visit<'h>, Stop> {
        let principal = self.principal(head, true)?;
        Ok(Visit { head, accepts: Accepts::read(head.all("accept")), principal })
    }

    /// The protected resource's metadata, which anybody may read, if it is at this path.
    fn metadata(&self, path: &str) -> Option<Vec<u8>> {
        let metadata = self.options.auth.metadata.as_ref()?;
        let rest = path.strip_prefix(WELL_KNOWN)?;
        (rest.is_empty() || rest == self.options.path).then(|| metadata.document())
    }

    fn principal(&mut self, head: &Head<'_>, again: bool) -> Result<Option<Arc<str>>, Stop> {
        if self.options.auth.check.is_none() {
            return Ok(None);
        }
        let field = text(head, "authorization");
        let hash = hmac_sha256::Hash::hash(field.unwrap_or_default().as_bytes());
        if let Some((known, owner)) = self.admitted.take() {
            if again && field.is_some() && known == hash {
                return Ok(Some(owner));
            }
        }
        let owner = self.options.auth.admit(field)?;
        self.admitted = owner.clone().map(|owner| (hash, owner));
        Ok(owner)
    }
}

/// Whether a body is said to be JSON, whatever parameters stand behind.
fn is_json(field: Option<&[u8]>) -> bool {
    let kind = field.and_then(|field| field.split(|byte| *byte == b';').next()).unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Whether a body is sent as it is: no member of any `Content-Encoding` names another coding.
fn is_identity<'f>(fields: impl Iterator<Item = &'f [u8]>) -> bool {
    let mut codings = fields.flat_map(|field| field.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    codings.all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case(b"identity"))
}
