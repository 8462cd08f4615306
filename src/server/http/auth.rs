//! Bearer tokens and the metadata that tells clients where to get one.
//!
//! The program checks the tokens, whose format is opaque here.
//!
//! Source: MCP 2026-07-28 basic/authorization (the server as resource server), RFC 6750 (bearer
//! tokens), RFC 9728 (protected resource metadata).
//!
//! # Invariants
//! - Every request needs a token, and only in the `Authorization` field.
//! - No token is stored or part of a message.

use std::sync::Arc;

use hmac_sha256::Hash;

use crate::json::Writer;

use super::rejection::{Reason, Rejection};

/// Reason to reject a token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// The token is unknown, expired or issued for another server. The response is 401.
    Invalid,
    /// The token is valid but lacks scopes. The response is 403 with the required scopes, separated
    /// by spaces.
    Scope(String),
}

/// Check of a token, which returns its principal.
pub(super) type TokenCheck = dyn Fn(&str) -> Result<String, TokenRefusal> + Send + Sync;

/// Metadata that tells clients where to get a token (RFC 9728).
#[derive(Clone, Debug)]
pub struct ResourceMetadata {
    resource: String,
    servers: Vec<String>,
    scopes: Vec<String>,
}

impl ResourceMetadata {
    /// Describes the server at this URL, with tokens of this authorization server. The token check
    /// must accept tokens issued for exactly this URL only.
    pub fn new(resource: impl Into<String>, authorization_server: impl Into<String>) -> ResourceMetadata {
        ResourceMetadata {
            resource: resource.into(),
            servers: vec![authorization_server.into()],
            scopes: Vec::new(),
        }
    }

    /// Adds an authorization server.
    #[must_use]
    pub fn authorization_server(mut self, issuer: impl Into<String>) -> ResourceMetadata {
        self.servers.push(issuer.into());
        self
    }

    /// Adds a scope for clients to request.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> ResourceMetadata {
        self.scopes.push(scope.into());
        self
    }

    /// Returns the metadata document.
    pub(super) fn document(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.begin_object();
        w.key("resource").string(&self.resource);
        list(&mut w, "authorization_servers", &self.servers);
        if !self.scopes.is_empty() {
            list(&mut w, "scopes_supported", &self.scopes);
        }
        list(&mut w, "bearer_methods_supported", &["header".to_owned()]);
        w.end_object();
        w.into_bytes()
    }

    /// Returns the URL of the document, whose well-known part is between host and path (RFC 9728
    /// §3.1).
    fn url(&self) -> String {
        let start = self.resource.find("://").map_or(0, |at| at + 3);
        let rest = self.resource.get(start..).unwrap_or_default();
        let host = start + rest.find('/').unwrap_or(rest.len());
        let (origin, path) = self.resource.split_at(host);
        format!("{origin}{WELL_KNOWN}{}", path.trim_end_matches('/'))
    }
}

/// Path of the document, without the path of the endpoint.
pub(super) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

fn list(w: &mut Writer, name: &str, items: &[String]) {
    w.key(name).begin_array();
    for item in items {
        w.string(item);
    }
    w.end_array();
}

/// Authorization settings of a server.
#[derive(Default)]
pub(super) struct Auth {
    pub(super) check: Option<Box<TokenCheck>>,
    /// Principal of a known token that no request can carry.
    pub(super) unusable: Option<String>,
    pub(super) metadata: Option<ResourceMetadata>,
}

/// Rejection of a request for its token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) reason: Reason,
    /// `WWW-Authenticate`.
    pub(super) challenge: String,
}

impl From<Denial> for Rejection {
    fn from(denial: Denial) -> Rejection {
        Rejection::from(denial.reason).with("www-authenticate", denial.challenge)
    }
}

impl Auth {
    /// Returns the principal of a request with this `Authorization`; `None` without a token check.
    ///
    /// # Errors
    /// The request must be rejected.
    pub(super) fn admit(&self, authorization: Option<&str>) -> Result<Option<Arc<str>>, Denial> {
        let Some(check) = &self.check else { return Ok(None) };
        let Some(token) = authorization.and_then(bearer) else {
            return Err(self.denial(Reason::NoToken, None, self.scopes()));
        };
        if !is_token(token) {
            return Err(self.denial(Reason::MalformedToken, Some("invalid_request"), String::new()));
        }
        match check(token) {
            Ok(principal) => Ok(Some(principal.into())),
            Err(TokenRefusal::Invalid) => {
                Err(self.denial(Reason::UnknownToken, Some("invalid_token"), self.scopes()))
            }
            Err(TokenRefusal::Scope(scope)) => {
                Err(self.denial(Reason::Scope, Some("insufficient_scope"), scope))
            }
        }
    }

    fn scopes(&self) -> String {
        self.metadata.as_ref().map(|m| m.scopes.join(" ")).unwrap_or_default()
    }

    fn denial(&self, reason: Reason, error: Option<&str>, scope: String) -> Denial {
        let mut parts = Vec::new();
        if let Some(error) = error {
            parts.push(format!("error=\"{error}\""));
        }
        if !scope.is_empty() {
            parts.push(format!("scope=\"{}\"", quotable(&scope)));
        }
        if let Some(metadata) = &self.metadata {
            parts.push(format!("resource_metadata=\"{}\"", quotable(&metadata.url())));
        }
        let challenge = match parts.is_empty() {
            true => "Bearer".to_owned(),
            false => format!("Bearer {}", parts.join(", ")),
        };
        Denial { reason, challenge }
    }
}

/// Removes the characters that a quoted string must not contain.
fn quotable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\')).collect()
}

/// Returns the token of an `Authorization` field (RFC 6750 §2.1).
fn bearer(field: &str) -> Option<&str> {
    let (scheme, token) = field.split_once(' ').unwrap_or((field, ""));
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}

/// Returns whether this is a `b64token` (RFC 6750 §2.1).
pub(super) fn is_token(token: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    !token.is_empty() && token.bytes().all(valid)
}

/// Returns a check for known tokens with their principals. It stores only hashes and compares all
/// of them in constant time.
pub(super) fn known_tokens(tokens: Vec<(String, String)>) -> Box<TokenCheck> {
    let known: Vec<([u8; 32], String)> =
        tokens.into_iter().map(|(token, owner)| (Hash::hash(token.as_bytes()), owner)).collect();
    Box::new(move |token| {
        let given = Hash::hash(token.as_bytes());
        let mut owner = None;
        for (hash, name) in &known {
            let difference = hash.iter().zip(&given).fold(0, |all, (a, b)| all | (a ^ b));
            if std::hint::black_box(difference) == 0 {
                owner = Some(name);
            }
        }
        owner.cloned().ok_or(TokenRefusal::Invalid)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn auth() -> Auth {
        let metadata =
            ResourceMetadata::new("https://board.example/mcp", "https://login.example").scope("read");
        let known =
            known_tokens(vec![("s3cret".to_owned(), "alice".to_owned()), ("t".to_owned(), "bob".to_owned())]);
        let check = move |token: &str| match token {
            "weak" => Err(TokenRefusal::Scope("read write".to_owned())),
            token => known(token),
        };
        Auth { check: Some(Box::new(check)), metadata: Some(metadata), ..Auth::default() }
    }

    #[test]
    fn valid_tokens_have_a_principal_and_others_a_challenge() {
        let at = "resource_metadata=\"https://board.example/.well-known/oauth-protected-resource/mcp\"";
        let admit = |field: Option<&str>| auth().admit(field).map(|p| p.unwrap().to_string());
        let denied = |reason, challenge: String| Err(Denial { reason, challenge });
        assert_eq!(admit(Some("Bearer s3cret")), Ok("alice".to_owned()));
        assert_eq!(admit(Some("bEARER  t")), Ok("bob".to_owned()));
        let without = format!("Bearer scope=\"read\", {at}");
        assert_eq!(admit(None), denied(Reason::NoToken, without.clone()));
        assert_eq!(admit(Some("Basic s3cret")), denied(Reason::NoToken, without.clone()));
        assert_eq!(admit(Some("s3cret")), denied(Reason::NoToken, without));
        let invalid = format!("Bearer error=\"invalid_token\", scope=\"read\", {at}");
        assert_eq!(admit(Some("Bearer s3cre")), denied(Reason::UnknownToken, invalid.clone()));
        assert_eq!(admit(Some("Bearer s3cretx")), denied(Reason::UnknownToken, invalid));
        let malformed = format!("Bearer error=\"invalid_request\", {at}");
        assert_eq!(admit(Some("Bearer")), denied(Reason::MalformedToken, malformed.clone()));
        assert_eq!(admit(Some("Bearer a b")), denied(Reason::MalformedToken, malformed));
        let scope = format!("Bearer error=\"insufficient_scope\", scope=\"read write\", {at}");
        assert_eq!(admit(Some("Bearer weak")), denied(Reason::Scope, scope));
        assert_eq!(Auth::default().admit(None), Ok(None));
    }

    #[test]
    fn the_document_names_the_authorization_servers() {
        let text = String::from_utf8(auth().metadata.unwrap().document()).unwrap();
        assert_eq!(
            text,
            "{\"resource\":\"https://board.example/mcp\",\"authorization_servers\":[\"https://login.example\"],\
             \"scopes_supported\":[\"read\"],\"bearer_methods_supported\":[\"header\"]}"
        );
        assert_eq!(
            ResourceMetadata::new("http://h:1", "x").url(),
            "http://h:1/.well-known/oauth-protected-resource"
        );
    }
}
