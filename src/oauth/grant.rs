//! Stored result of a sign-in.
//!
//! # Invariants
//! - `Debug` output never contains a token or a secret.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::registration::Registration;
use super::{TokenStore, now};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, Value, Writer};

/// Number of seconds before its expiry at which a token is renewed, because clocks differ and
/// requests take time.
const CLOCK_SKEW: u64 = 30;

/// Result of a sign-in: the tokens for one server, and the client that they were issued to.
///
/// ```no_run
/// use tinymcp::oauth::{FileStore, OAuth, SignIn};
///
/// let oauth = OAuth::new(FileStore::user()?).on_sign_in(SignIn::device(|code| {
///     println!("Open {} and enter {}", code.verification_uri, code.user_code);
///     Ok(())
/// }));
/// let grant = oauth.sign_in("https://mcp.example.com/mcp")?;
/// println!("signed in at {}, scopes: {}", grant.issuer(), grant.scope().unwrap_or("unknown"));
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Grant {
    pub(super) issuer: String,
    /// Identifier of the server at the authorization server.
    pub(super) resource: String,
    /// URL of the resource metadata, if the server names one.
    pub(super) metadata: Option<String>,
    pub(super) client: Registration,
    pub(super) access_token: String,
    /// Thumbprint of the key that the token is bound to.
    pub(super) key: Option<String>,
    pub(super) refresh_token: Option<String>,
    /// Seconds since 1970.
    pub(super) issued_at: u64,
    pub(super) expires_at: Option<u64>,
    /// Scopes that were requested, separated by spaces.
    pub(super) requested: Option<String>,
    /// Scopes that were granted.
    pub(super) scope: Option<String>,
}

impl Grant {
    /// Reads the grant for a server from a store, by the canonical URL of the server.
    ///
    /// # Errors
    /// The store cannot be read, or its entry is not a grant.
    pub fn load(store: &dyn TokenStore, server: &str) -> Result<Option<Grant>, Error> {
        let Some(text) = store.load(server)? else { return Ok(None) };
        let bad = || {
            let why = "the entry of the token store is not a grant: sign out, then sign in again";
            Error::new(ErrorKind::Invalid, why)
        };
        let doc = Doc::parse(text.as_bytes()).map_err(|_| bad())?;
        Grant::read(doc.root()).ok_or_else(bad).map(Some)
    }

    /// Returns the issuer: the authorization server that issued the tokens.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the id of the client at the authorization server.
    pub fn client_id(&self) -> &str {
        &self.client.id
    }

    /// Returns the granted scopes, separated by spaces, if they are known.
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// Returns the expiry of the access token, if it is known.
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.expires_at.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at)))
    }

    /// Returns whether the access token can be renewed without the user.
    pub fn is_renewable(&self) -> bool {
        self.refresh_token.is_some()
    }

    /// Returns whether the access token has expired or is within [`CLOCK_SKEW`] of its expiry, by
    /// this machine's clock. `false` if the clock is behind the time of issue, as on a single-board
    /// computer without a real-time clock.
    pub(super) fn has_expired(&self) -> bool {
        let now = now();
        let lifetime = |at: u64| at.saturating_sub(self.issued_at);
        // A token that lives for less than 90 s is renewed in the last third of its lifetime.
        now >= self.issued_at
            && self.expires_at.is_some_and(|at| now.saturating_add(CLOCK_SKEW.min(lifetime(at) / 3)) >= at)
    }

    pub(super) fn write(&self) -> Json {
        let mut w = Writer::new();
        w.begin_object();
        let text = |w: &mut Writer, name: &str, value: Option<&str>| {
            if let Some(value) = value {
                w.key(name).string(value);
            }
        };
        text(&mut w, "issuer", Some(&self.issuer));
        text(&mut w, "resource", Some(&self.resource));
        text(&mut w, "resource_metadata", self.metadata.as_deref());
        w.key("client").begin_object();
        text(&mut w, "id", Some(&self.client.id));
        text(&mut w, "secret", self.client.secret.as_deref());
        text(&mut w, "method", self.client.method.as_deref());
        text(&mut w, "redirect_uri", self.client.redirect_uri.as_deref());
        w.key("registered").bool(self.client.registered).end_object();
        text(&mut w, "access_token", Some(&self.access_token));
        text(&mut w, "refresh_token", self.refresh_token.as_deref());
        text(&mut w, "requested", self.requested.as_deref());
        text(&mut w, "scope", self.scope.as_deref());
        text(&mut w, "key", self.key.as_deref());
        w.key("issued_at").u64(self.issued_at);
        if let Some(at) = self.expires_at {
            w.key("expires_at").u64(at);
        }
        w.end_object();
        w.into_json()
    }

    fn read(from: Value<'_>) -> Option<Grant> {
        let owned = |from: Value<'_>, name: &str| Some(from.get(name)?.as_str()?.to_owned());
        let number = |name: &str| from.get(name).and_then(Value::as_u64);
        let client = from.get("client")?;
        Some(Grant {
            issuer: owned(from, "issuer")?,
            resource: owned(from, "resource")?,
            metadata: owned(from, "resource_metadata"),
            client: Registration {
                id: owned(client, "id")?,
                secret: owned(client, "secret"),
                method: owned(client, "method"),
                redirect_uri: owned(client, "redirect_uri"),
                registered: client.get("registered")?.as_bool()?,
            },
            access_token: owned(from, "access_token")?,
            key: owned(from, "key"),
            refresh_token: owned(from, "refresh_token"),
            issued_at: number("issued_at")?,
            expires_at: number("expires_at"),
            requested: owned(from, "requested"),
            scope: owned(from, "scope"),
        })
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Grant");
        shown.field("issuer", &self.issuer).field("resource", &self.resource);
        shown.field("client_id", &self.client.id).field("scope", &self.scope);
        shown.field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::oauth::MemoryStore;

    fn grant() -> Grant {
        Grant {
            issuer: "https://as".into(),
            resource: "https://h/mcp".into(),
            metadata: Some("https://h/m".into()),
            client: Registration {
                id: "id".into(),
                secret: Some("hidden-1".into()),
                method: Some("client_secret_basic".into()),
                redirect_uri: None,
                registered: true,
            },
            access_token: "hidden-2".into(),
            key: Some("thumbprint".into()),
            refresh_token: Some("hidden-3".into()),
            issued_at: now(),
            expires_at: Some(now() + 3600),
            requested: Some("a b".into()),
            scope: Some("a".into()),
        }
    }

    #[test]
    fn a_stored_grant_is_the_same_and_shows_no_secret() {
        let (store, grant) = (MemoryStore::new(), grant());
        store.save("https://h/mcp", Some(grant.write().as_str())).unwrap();
        let read = Grant::load(&store, "https://h/mcp").unwrap().unwrap();
        assert!(read == grant);
        assert!(!format!("{read:?} {store:?}").contains("hidden"), "{read:?} {store:?}");
        assert_eq!(Grant::load(&store, "https://h/other").unwrap(), None);
        store.save("x", Some("[]")).unwrap();
        assert_eq!(Grant::load(&store, "x").unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn a_token_expires_early_but_not_if_the_clock_is_behind() {
        let expires = |issued_at: u64, expires_at: Option<u64>| Grant { issued_at, expires_at, ..grant() };
        let now = now();
        for (issued, at, expired) in [
            (now, Some(now + 3600), false),
            (now - 3590, Some(now + 10), true),
            (now - 1, Some(now), true),
            (now, Some(now + 3), false),
            (now + 3600, Some(now + 7200), false),
            (now + 3600, Some(now), false),
            (now, None, false),
        ] {
            assert_eq!(expires(issued, at).has_expired(), expired, "{issued} {at:?}");
        }
    }
}
