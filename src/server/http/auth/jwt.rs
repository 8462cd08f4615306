//! Token check of signed tokens (JWT) by the keys of their issuer.
//!
//! Source: RFC 7515 (JWS), RFC 7519 (JWT), RFC 8725 (best practices), RFC 9068 (access tokens).
//!
//! # Invariants
//! - The signature is checked before a claim is read.
//! - A key is used with its own algorithm only: the header of a token cannot choose another one.
//! - `none`, keys inside the token (`jwk`, `jku`, `x5u`) and critical extensions are not supported.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64ct::{Base64UrlUnpadded, Encoding};

use crate::error::Error;
use crate::json::{Doc, Kind, Value};
use crate::transport::http_client::Endpoint;

use super::claims::{DEFAULT_LEEWAY, MAX_LEEWAY, Requirements};
use super::jwks::{Algorithm, KeySet};
use super::{Principal, TokenRefusal, TokenVerifier};

/// Checks signed tokens (RFC 9068) by the keys that their issuer publishes, for
/// [`HttpServer::token_verifier`](crate::HttpServer::token_verifier).
///
/// Accepts a token that is signed with ES256, EdDSA or RS256, comes from this issuer, is issued for
/// this server, and has not expired. Its type must be `at+jwt`; see [`JwtVerifier::any_type`].
/// `sub`, or else the client's id, becomes the principal, and `scope` its scopes. The keys are
/// fetched when a token needs them. If they cannot be fetched, requests get 503.
///
/// ```no_run
/// use tinymcp::{JwtVerifier, Server};
///
/// let tokens = JwtVerifier::new(
///     "https://login.example",
///     "https://login.example/jwks.json",
///     "https://board.example/mcp",
/// )?;
/// let http = Server::new("board", "1.0.0").http().token_verifier(tokens);
/// # let _ = http;
/// # Ok::<(), tinymcp::Error>(())
/// ```
pub struct JwtVerifier {
    keys: KeySet,
    requirements: Requirements,
    any_type: bool,
}

impl JwtVerifier {
    /// Accepts tokens with this `iss`, signed with a key of the document at `keys` (`jwks_uri`),
    /// whose `aud` is `resource`, the URL of this server.
    ///
    /// # Errors
    /// The endpoint of the keys is invalid, or its URL is neither `https` nor on this machine.
    pub fn new(
        issuer: impl Into<String>,
        keys: impl Into<Endpoint>,
        resource: impl Into<String>,
    ) -> Result<JwtVerifier, Error> {
        Ok(JwtVerifier {
            keys: KeySet::new(keys.into())?,
            requirements: Requirements {
                issuer: Some(issuer.into()),
                audience: resource.into(),
                leeway: DEFAULT_LEEWAY,
                needs_expiry: true,
            },
            any_type: false,
        })
    }

    /// Accepts tokens of any type, for issuers that do not follow RFC 9068. Then only the audience
    /// distinguishes an access token from other tokens of the issuer.
    #[must_use]
    pub fn any_type(mut self) -> JwtVerifier {
        self.any_type = true;
        self
    }

    /// Sets the accepted difference of the clocks, at most 300 s. The default is 30 s.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> JwtVerifier {
        self.requirements.leeway = leeway.min(MAX_LEEWAY);
        self
    }

    /// Sets the time after which keys are fetched again. A removed key is accepted for this time.
    /// The default is 10 min, the minimum 1 s. An unknown key causes a request at once, but at most
    /// one per 10 s, or per this time if it is shorter.
    #[must_use]
    pub fn key_age(mut self, time: Duration) -> JwtVerifier {
        self.keys.set_age(time);
        self
    }
}

impl TokenVerifier for JwtVerifier {
    fn verify(&self, token: &str) -> Result<Principal, TokenRefusal> {
        let parts = Parts::split(token).ok_or(TokenRefusal::Invalid)?;
        let (algorithm, key) = self.header(parts.header).ok_or(TokenRefusal::Invalid)?;
        let is_signed =
            self.keys.verify(algorithm, key.as_deref(), parts.signed.as_bytes(), &parts.signature)?;
        let payload = is_signed.then(|| document(parts.payload)).flatten().ok_or(TokenRefusal::Invalid)?;
        self.requirements.check(payload.root(), SystemTime::now())
    }
}

impl JwtVerifier {
    /// Returns the algorithm of a token and the id of its key.
    fn header(&self, part: &str) -> Option<(Algorithm, Option<String>)> {
        let doc = document(part)?;
        let text = |name: &str| doc.root().get(name).and_then(Value::as_str);
        let kind = text("typ").unwrap_or_default();
        let is_access_token =
            kind.eq_ignore_ascii_case("at+jwt") || kind.eq_ignore_ascii_case("application/at+jwt");
        if !(is_access_token || self.any_type) || doc.root().get("crit").is_some() {
            return None;
        }
        Some((Algorithm::parse(text("alg")?)?, text("kid").map(str::to_owned)))
    }
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier").field("requirements", &self.requirements).finish_non_exhaustive()
    }
}

/// Parts of a token in the compact form.
struct Parts<'t> {
    header: &'t str,
    payload: &'t str,
    /// The signed text: header and payload.
    signed: &'t str,
    signature: Vec<u8>,
}

impl<'t> Parts<'t> {
    fn split(token: &'t str) -> Option<Parts<'t>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let signature = Base64UrlUnpadded::decode_vec(signature).ok()?;
        // An encrypted token has more dots. The payload then contains one and is not valid base64.
        (!signature.is_empty()).then_some(Parts { header, payload, signed, signature })
    }
}

/// Parses a part of a token, which must be an object.
fn document(part: &str) -> Option<Doc> {
    let doc = Doc::parse(Base64UrlUnpadded::decode_vec(part).ok()?).ok()?;
    (doc.root().kind() == Kind::Object).then_some(doc)
}
