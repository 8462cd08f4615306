//! Authorization by bearer tokens, and the metadata that names their authorization server.
//!
//! A check of the program or of a [`TokenVerifier`] decides about each token. The format of tokens
//! is opaque here.
//!
//! Source: MCP 2026-07-28 basic/authorization (the server as resource server), RFC 6750 (bearer
//! tokens), RFC 9728 (protected resource metadata).
//!
//! # Invariants
//! - Every request needs a token, and only in the `Authorization` field.
//! - No token is stored or part of a message.

#[cfg(feature = "token-introspection")]
mod claims;
#[cfg(feature = "token-introspection")]
mod introspection;
#[cfg(feature = "token-jwt")]
mod jwks;
#[cfg(feature = "token-jwt")]
mod jwt;
mod principal;
mod resource_metadata;
mod verifier;

use std::sync::Arc;

use hmac_sha256::Hash;

use super::rejection::{Reason, Rejection};

#[cfg(feature = "token-introspection")]
pub use introspection::Introspection;
#[cfg(feature = "token-jwt")]
pub use jwt::JwtVerifier;
pub use principal::{Principal, TokenRefusal};
pub use resource_metadata::ResourceMetadata;
pub(super) use resource_metadata::WELL_KNOWN;
pub use verifier::TokenVerifier;
pub(super) use verifier::check as verifier_check;

/// Check of a token, which returns its principal, or `None` while the check runs.
pub(super) type TokenCheck = dyn Fn(&str) -> Option<Result<Arc<Principal>, TokenRefusal>> + Send + Sync;

/// Authorization settings of a server.
#[derive(Default)]
pub(super) struct Auth {
    pub(super) check: Option<Box<TokenCheck>>,
    /// Principal of a configured token that is malformed, so no request can carry it.
    pub(super) unusable: Option<String>,
    pub(super) metadata: Option<ResourceMetadata>,
}

/// Rejection of a request because of its token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) reason: Reason,
    /// `WWW-Authenticate`.
    pub(super) challenge: String,
}

impl From<Denial> for Rejection {
    fn from(denial: Denial) -> Rejection {
        let rejection = Rejection::from(denial.reason);
        match denial.reason {
            Reason::TokenCheck | Reason::TokenPending => rejection.with("retry-after", "1"),
            _ => rejection.with("www-authenticate", denial.challenge),
        }
    }
}

impl Auth {
    /// Returns the principal of a request with this `Authorization`; `None` without a token check.
    ///
    /// # Errors
    /// The request must be rejected.
    pub(super) fn admit(&self, authorization: Option<&str>) -> Result<Option<Arc<Principal>>, Denial> {
        let Some(check) = &self.check else { return Ok(None) };
        let initial = || self.metadata.as_ref().map(ResourceMetadata::initial_scopes).unwrap_or_default();
        let denied =
            |reason, error, scope: &str| Err(Denial { reason, challenge: self.challenge(error, scope) });
        let Some(token) = authorization.and_then(bearer) else {
            return denied(Reason::NoToken, None, &initial());
        };
        if !is_token(token) {
            return denied(Reason::MalformedToken, Some("invalid_request"), "");
        }
        match check(token) {
            None => Err(Denial { reason: Reason::TokenPending, challenge: String::new() }),
            Some(Ok(principal)) => Ok(Some(principal)),
            Some(Err(TokenRefusal::Invalid)) => {
                denied(Reason::UnknownToken, Some("invalid_token"), &initial())
            }
            Some(Err(TokenRefusal::Scope(scope))) => denied(Reason::Scope, Some(INSUFFICIENT_SCOPE), &scope),
            Some(Err(TokenRefusal::Unavailable)) => {
                Err(Denial { reason: Reason::TokenCheck, challenge: String::new() })
            }
        }
    }

    /// Returns the value of `WWW-Authenticate` for an error that needs these scopes.
    pub(super) fn challenge(&self, error: Option<&str>, scope: &str) -> String {
        let mut parts = Vec::new();
        if let Some(error) = error {
            parts.push(format!("error=\"{error}\""));
        }
        if !scope.is_empty() {
            parts.push(format!("scope=\"{}\"", quotable(scope)));
        }
        if let Some(metadata) = &self.metadata {
            parts.push(format!("resource_metadata=\"{}\"", quotable(&metadata.url())));
        }
        match parts.is_empty() {
            true => "Bearer".to_owned(),
            false => format!("Bearer {}", parts.join(", ")),
        }
    }
}

/// Error of a challenge for a token that lacks scopes (RFC 6750 §3.1).
pub(super) const INSUFFICIENT_SCOPE: &str = "insufficient_scope";

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
        let principal = owner.map(|name| Arc::new(name.as_str().into()));
        Some(principal.ok_or(TokenRefusal::Invalid))
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
            "weak" => Some(Err(TokenRefusal::Scope("read write".to_owned()))),
            token => known(token),
        };
        Auth { check: Some(Box::new(check)), metadata: Some(metadata), ..Auth::default() }
    }

    #[test]
    fn valid_tokens_have_a_principal_and_others_a_challenge() {
        let at = "resource_metadata=\"https://board.example/.well-known/oauth-protected-resource/mcp\"";
        let admit = |field: Option<&str>| auth().admit(field).map(|p| p.unwrap().name.to_string());
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
}
