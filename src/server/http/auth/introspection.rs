//! Token check by introspection at the authorization server (RFC 7662).

use std::fmt;
use std::time::{Duration, SystemTime};

use base64ct::{Base64, Encoding};
use ureq::http::HeaderValue;

use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Value};
use crate::transport::http_client::{DocumentClient, Endpoint};

use super::claims::{DEFAULT_LEEWAY, MAX_LEEWAY, Requirements};
use super::{Principal, TokenRefusal, TokenVerifier};

/// Media type of a form.
const FORM: &str = "application/x-www-form-urlencoded";
/// Timeout of one introspection.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Checks each token by a request to its authorization server (RFC 7662), for
/// [`HttpServer::token_verifier`](crate::HttpServer::token_verifier).
///
/// Accepts an active token whose audience is this server. `sub`, or else the client's id, becomes
/// the principal, and `scope` its scopes. If the authorization server does not respond, requests
/// get 503.
///
/// ```no_run
/// use tinymcp::{Introspection, Server};
///
/// let resource = "https://board.example/mcp";
/// let tokens = Introspection::new("https://login.example/introspect", resource)?;
/// let tokens = tokens.client("board", "s3cret");
/// let http = Server::new("board", "1.0.0").http().token_verifier(tokens);
/// # let _ = http;
/// # Ok::<(), tinymcp::Error>(())
/// ```
pub struct Introspection {
    client: DocumentClient,
    authorization: Option<HeaderValue>,
    requirements: Requirements,
    cache_time: Duration,
}

impl Introspection {
    /// Accepts tokens that this endpoint reports as active and whose `aud` is `resource`, the URL
    /// of this server.
    ///
    /// # Errors
    /// The endpoint is invalid, or its URL is neither `https` nor on this machine.
    pub fn new(endpoint: impl Into<Endpoint>, resource: impl Into<String>) -> Result<Introspection, Error> {
        Ok(Introspection {
            client: DocumentClient::new(endpoint.into())?,
            authorization: None,
            requirements: Requirements {
                issuer: None,
                audience: resource.into(),
                leeway: DEFAULT_LEEWAY,
                needs_expiry: false,
            },
            cache_time: Duration::from_secs(10),
        })
    }

    /// Sets the id and the secret of this server at the authorization server
    /// (`client_secret_basic`).
    #[must_use]
    pub fn client(mut self, id: &str, secret: &str) -> Introspection {
        let (mut pair, mut form) = (String::new(), String::new());
        encode(&mut pair, id);
        pair.push(':');
        encode(&mut form, secret);
        let field = format!("Basic {}", Base64::encode_string((pair + &form).as_bytes()));
        let mut value = HeaderValue::from_str(&field).ok();
        value.iter_mut().for_each(|value| value.set_sensitive(true));
        self.authorization = value;
        self
    }

    /// Requires this `iss`.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Introspection {
        self.requirements.issuer = Some(issuer.into());
        self
    }

    /// Sets the accepted difference of the clocks, at most 300 s. The default is 30 s.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Introspection {
        self.requirements.leeway = leeway.min(MAX_LEEWAY);
        self
    }

    /// Sets the time for which a result is used again. A token that is revoked is accepted for this
    /// time. The default is 10 s.
    #[must_use]
    pub fn cache(mut self, time: Duration) -> Introspection {
        self.cache_time = time;
        self
    }

    fn introspect(&self, token: &str) -> Result<Doc, Error> {
        let mut form = "token_type_hint=access_token&token=".to_owned();
        encode(&mut form, token);
        let response = self.client.fetch(Some((FORM, &form)), self.authorization.as_ref(), TIMEOUT)?;
        let status = response.status;
        let doc = (status == 200).then(|| Doc::parse(&response.body).ok()).flatten();
        doc.filter(|doc| doc.root().get("active").and_then(Value::as_bool).is_some()).ok_or_else(|| {
            Error::new(ErrorKind::PeerMisbehaved, format!("no introspection response: status {status}"))
        })
    }
}

impl TokenVerifier for Introspection {
    fn verify(&self, token: &str) -> Result<Principal, TokenRefusal> {
        let doc = self.introspect(token).map_err(|_| TokenRefusal::Unavailable)?;
        match doc.root().get("active").and_then(Value::as_bool) {
            Some(true) => self.requirements.check(doc.root(), SystemTime::now()),
            _ => Err(TokenRefusal::Invalid),
        }
    }

    fn cache_time(&self) -> Duration {
        self.cache_time
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection").field("requirements", &self.requirements).finish_non_exhaustive()
    }
}

/// Appends a text in percent-encoding, as forms require it.
fn encode(to: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(char::from(byte));
        } else {
            to.push_str(&format!("%{byte:02X}"));
        }
    }
}
