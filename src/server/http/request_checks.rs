//! Checks of an HTTP request by its head, before its body is read.
//!
//! Checks host, origin, path, HTTP method, token and media types, in this order (requirement
//! H26-28). Responds to CORS preflights and requests for pages and the resource metadata, and
//! reports rejections to the operator. Sessions and messages are checked by the endpoint.
//!
//! # Invariants
//! - The token is checked before the body is read. With the body it is checked again, unless the
//!   last checked token is the same.

use std::sync::Arc;
use std::time::Instant;

use crate::era::http::{Fields, SessionRules};
use crate::server::serve::diagnostics::Notices;
use crate::server::serve::state::Shared;
use crate::transport::http_server::{Admission, Head};
use crate::transport::tap::Tap;

use super::Options;
use super::auth::{Principal, WELL_KNOWN};
use super::cors;
use super::rejection::{HttpRejection, Reason, Rejection};
use super::response::JSON;
use super::status_page::StatusPage;

/// Returns whether a request for `path` is for the endpoint or page at `own`. Clients write its URL
/// with and without a slash at the end, whichever `own` has.
pub(super) fn is_at(own: &str, path: &str) -> bool {
    own.strip_suffix('/').unwrap_or(own) == path.strip_suffix('/').unwrap_or(path)
}

/// Checks of requests by their heads.
pub(super) struct RequestChecks {
    options: Arc<Options>,
    /// Header fields of sessions, if this server has sessions.
    pub(super) sessions: Option<&'static SessionRules>,
    /// Paths of further servers.
    pub(super) mounted: Vec<String>,
    /// Hash and principal of the last checked token. The body of its request is expected next.
    last_token: Option<([u8; 32], Arc<Principal>)>,
    /// Entries of the first server, whose scopes the resource metadata lists.
    entries: Arc<Shared>,
    notices: Notices<{ Reason::NOTICES }>,
}

/// Properties of a request that its handling depends on.
pub(super) struct RequestInfo<'h> {
    pub(super) head: &'h Head<'h>,
    pub(super) principal: Option<Arc<Principal>>,
    /// The program's observer of frames.
    pub(super) tap: Option<Tap>,
}

impl RequestInfo<'_> {
    /// Returns the name of the principal.
    pub(super) fn caller(&self) -> Option<&Arc<str>> {
        self.principal.as_ref().map(|principal| &principal.name)
    }
}

impl Fields for Head<'_> {
    fn field(&self, name: &str) -> Option<&[u8]> {
        self.field(name)
    }
}

/// Returns the value of a field that must be text. A value that is not UTF-8 becomes a control
/// character, which no check accepts.
fn text(field: Option<&[u8]>) -> Option<&str> {
    field.map(|value| std::str::from_utf8(value).unwrap_or("\0"))
}

impl RequestChecks {
    pub(super) fn new(
        options: &Arc<Options>,
        sessions: Option<&'static SessionRules>,
        entries: Arc<Shared>,
    ) -> RequestChecks {
        let notices = Notices::new(Arc::clone(&options.diagnostics));
        RequestChecks {
            options: Arc::clone(options),
            sessions,
            mounted: Vec::new(),
            last_token: None,
            entries,
            notices,
        }
    }

    /// Decides whether a request's body is read, and reports a rejection to the operator.
    pub(super) fn admit(&mut self, head: &Head<'_>) -> Admission {
        let Err(Rejection { mut response, reason, .. }) = self.check(head) else {
            return Admission::ReadBody;
        };
        if reason == Some(Reason::TokenPending) {
            return Admission::Wait;
        }
        if let Some(reason) = reason {
            let field = if reason == Reason::Host { head.known.host } else { head.known.origin };
            if let Some((kind, line)) = reason.notice(text(field), &self.options.path) {
                self.notices.report(kind, Instant::now(), || line);
            }
        }
        self.report(head, response.status, reason);
        // A server card already allows every origin.
        if !response.fields.iter().any(|(name, _)| *name == cors::ALLOW_ORIGIN) {
            response.fields.extend(self.cors_fields(head));
        }
        Admission::Respond(response)
    }

    /// Reports a rejection to the program. Pages and preflights are not rejected.
    pub(super) fn report(&self, head: &Head<'_>, status: u16, reason: Option<Reason>) {
        if let Some(report) = self.options.on_rejection.as_ref().filter(|_| status >= 400) {
            let (path, why) = (head.path(), reason.map(Reason::message));
            report(&HttpRejection { method: head.method, path, status, reason: why, message: None });
        }
    }

    fn check(&mut self, head: &Head<'_>) -> Result<(), Rejection> {
        let path = head.path();
        if let Some(page) = self.page(path).filter(|page| page.is_public) {
            return Err(page.response(head));
        }
        let allowed = &self.options.allowed_hosts;
        if !allowed.admits_host(head.known.host) {
            return Err(Reason::Host.into());
        }
        let origin = text(head.known.origin);
        if !allowed.admits_origin(origin) {
            return Err(Reason::Origin.into());
        }
        let is_preflight = cors::is_preflight(head) && origin.is_some_and(|origin| allowed.lists(origin));
        let document = self.metadata(path);
        if document.is_none() && !self.is_endpoint(path) && self.page(path).is_none() {
            self.check_unknown_path(head, is_preflight)?;
        }
        if is_preflight {
            return Err(cors::preflight(head));
        }
        if let Some(document) = document {
            return Err(match head.method {
                "GET" | "HEAD" => Rejection::document(200, document),
                _ => Rejection::new(405).with("allow", "GET, HEAD"),
            });
        }
        self.principal(head, false)?;
        if let Some(page) = self.page(path) {
            return Err(page.response(head));
        }
        let accepts = head.accepts();
        let sessions = self.sessions;
        match head.method {
            "POST" => {
                if !is_json(head.known.content_type) {
                    return Err(Reason::Media.into());
                }
                if head.known.is_encoded {
                    return Err(Rejection::from(Reason::Encoding).with("accept-encoding", "identity"));
                }
                if !accepts.json && !accepts.events {
                    return Err(Reason::Accept.into());
                }
            }
            "GET" | "DELETE" if sessions.is_some_and(|s| head.field(s.id).is_some()) => {
                if head.method == "GET" && !accepts.events {
                    return Err(Reason::AcceptEvents.into());
                }
            }
            _ => return Err(Rejection::method(sessions)),
        }
        Ok(())
    }

    /// Checks the token of a request for a path that has no server. Without a token, no response
    /// shows which servers exist, so a preflight passes as for any path. Clients look for documents
    /// of authorization servers without a token.
    #[cold]
    fn check_unknown_path(&mut self, head: &Head<'_>, is_preflight: bool) -> Result<(), Rejection> {
        if self.options.auth.check.is_some() && !head.path().starts_with("/.well-known/") {
            if is_preflight {
                return Ok(());
            }
            self.principal(head, false)?;
        }
        Err(Reason::Path.into())
    }

    /// Returns the CORS fields of every response to this request.
    pub(super) fn cors_fields(&self, head: &Head<'_>) -> Vec<(&'static str, String)> {
        match text(head.known.origin).filter(|origin| self.options.allowed_hosts.lists(origin)) {
            Some(origin) => cors::fields(origin, self.sessions),
            None => Vec::new(),
        }
    }

    /// Forgets the last checked token, so that the next body has its token checked again.
    pub(super) fn forget_token(&mut self) {
        self.last_token = None;
    }

    /// Returns the properties of a request whose body has been read.
    pub(super) fn info<'h>(&mut self, head: &'h Head<'h>) -> Result<RequestInfo<'h>, Rejection> {
        let principal = self.principal(head, true).inspect_err(|rejection| {
            self.report(head, rejection.response.status, rejection.reason);
        })?;
        Ok(RequestInfo { head, principal, tap: None })
    }

    fn is_endpoint(&self, path: &str) -> bool {
        self.mounted.iter().chain([&self.options.path]).any(|own| is_at(own, path))
    }

    fn page(&self, path: &str) -> Option<&StatusPage> {
        let is_other = path != self.options.path;
        let pages = &self.options.pages;
        let exact = pages.iter().find(|page| is_other && page.path == path);
        exact.or_else(|| pages.iter().find(|page| is_at(&page.path, path) && !self.is_endpoint(path)))
    }

    /// Returns the protected resource metadata, if it is at this path. It needs no token.
    fn metadata(&self, path: &str) -> Option<Vec<u8>> {
        let metadata = self.options.auth.metadata.as_ref()?;
        let rest = path.strip_prefix(WELL_KNOWN)?;
        (rest.is_empty() || rest == self.options.path)
            .then(|| metadata.document(&self.entries.catalog.registry()))
    }

    fn principal(&mut self, head: &Head<'_>, with_body: bool) -> Result<Option<Arc<Principal>>, Rejection> {
        if self.options.auth.check.is_none() {
            return Ok(None);
        }
        let field = text(head.field("authorization"));
        let hash = hmac_sha256::Hash::hash(field.unwrap_or_default().as_bytes());
        if let Some((known, principal)) = self.last_token.take() {
            if with_body && field.is_some() && known == hash {
                return Ok(Some(principal));
            }
        }
        let principal = self.options.auth.admit(field)?;
        self.last_token = principal.clone().map(|principal| (hash, principal));
        Ok(principal)
    }
}

/// Returns whether a media type is JSON, with any parameters.
fn is_json(field: Option<&[u8]>) -> bool {
    let parts = field.and_then(|field| field.split_at_checked(JSON.1.len()));
    parts.is_some_and(|(kind, rest)| {
        kind.eq_ignore_ascii_case(JSON.1.as_bytes()) && matches!(rest.trim_ascii_start(), [] | [b';', ..])
    })
}
