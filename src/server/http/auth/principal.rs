//! Result of a token check: the principal with its scopes, or the reason to reject the token.

use std::sync::Arc;
use std::time::SystemTime;

/// Authenticated caller of an HTTP request: its name, and the scopes of its token.
///
/// ```
/// use tinymcp::{Principal, TokenRefusal};
///
/// let check = |token: &str| match token {
///     "s3cret" => Ok(Principal::new("alice").scopes("files:read files:write")),
///     _ => Err(TokenRefusal::Invalid),
/// };
/// # let _ = check("s3cret").unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub(in crate::server::http) name: Arc<str>,
    pub(in crate::server::http) scopes: Vec<String>,
    pub(super) expiry: Option<SystemTime>,
}

impl Principal {
    /// Creates a principal without scopes. The name must be unique among all users, because
    /// sessions and request states belong to it.
    pub fn new(name: impl Into<Arc<str>>) -> Principal {
        Principal { name: name.into(), scopes: Vec::new(), expiry: None }
    }

    /// Adds scopes, separated by spaces as in a token (RFC 6749 §3.3). If a scope implies others,
    /// add those too: the library compares scopes for equality (requirement AUTHS-08).
    #[must_use]
    pub fn scopes(mut self, scopes: &str) -> Principal {
        self.scopes.extend(scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned));
        self
    }

    /// Sets the expiry of the token. After it, a [`TokenVerifier`](crate::TokenVerifier) checks the
    /// token again. Other checks must reject an expired token themselves.
    #[must_use]
    pub fn expires_at(mut self, time: SystemTime) -> Principal {
        self.expiry = Some(time);
        self
    }
}

impl From<String> for Principal {
    fn from(name: String) -> Principal {
        Principal::new(name)
    }
}

impl From<&str> for Principal {
    fn from(name: &str) -> Principal {
        Principal::new(name)
    }
}

/// Reason to reject a token.
///
/// See [`Principal`], and [`TokenVerifier`](crate::TokenVerifier) for checks that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// The token is unknown, expired or issued for another server. The response is 401.
    Invalid,
    /// The token is valid but lacks scopes. The response is 403 with the required scopes, separated
    /// by spaces. For the scopes of single tools, use
    /// [`Tool::requires_scope`](crate::Tool::requires_scope).
    Scope(String),
    /// The token cannot be checked now. The response is 503, and the client may try again.
    Unavailable,
}
