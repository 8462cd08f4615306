//! Requests to the token endpoint and the other endpoints of an authorization server.
//!
//! Source: RFC 6749, sections 2.3, 4.1.3, 5 and 6; RFC 8707; RFC 9449, sections 5 and 8.
//!
//! # Invariants
//! - Secrets are sent only to the endpoints of the issuer that they belong to.
//! - No error contains a value of the request.

use base64ct::{Base64, Encoding};
use ureq::http::{HeaderValue, Request, Uri, header};

use super::metadata::{AuthServer, parse};
use super::registration::Registration;
use super::url::{self, Form};
use super::{Prover, misbehaved, now};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Value};
use crate::transport::http_client::sign_in::{Document, WebClient};

/// Grant type of the device flow (RFC 8628).
pub(super) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Maximum length of a quoted error text in characters.
const MAX_QUOTED: usize = 200;

/// Tokens of a response.
pub(super) struct Tokens {
    pub access_token: String,
    /// The access token is bound to the key of the client.
    pub dpop: bool,
    pub refresh_token: Option<String>,
    pub expires_at: Option<u64>,
    pub scope: Option<String>,
}

/// Client for the endpoints of an authorization server, with one registration.
pub(super) struct TokenClient<'a> {
    pub web: &'a WebClient,
    pub server: &'a AuthServer,
    pub client: &'a Registration,
    /// Signs assertions that authenticate the client.
    pub signer: Option<&'a dyn Signer>,
    pub prover: Option<&'a dyn Prover>,
}

/// Key of a client that signs assertions (RFC 7523, section 2.2).
pub(super) trait Signer: Send + Sync {
    fn assertion(&self, client: &str, audience: &str) -> Result<String, Error>;
}

impl TokenClient<'_> {
    /// Requests tokens.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the server rejects the request; the error code is its `data`.
    pub(super) fn tokens(&self, form: Form) -> Result<Tokens, Error> {
        let what = "the token request";
        let document = self.post(&self.server.token, form, what)?;
        Tokens::read(document.root(), self.prover.is_some())
    }

    /// Posts a form as this client.
    pub(super) fn post(&self, to: &Uri, form: Form, what: &str) -> Result<Doc, Error> {
        let mut nonce: Option<String> = None;
        loop {
            // Each request has its own assertion, because an assertion is valid once.
            let mut form = form.clone();
            let authorization = self.authenticate(&mut form)?;
            let mut request = form_request(to, &form);
            if let Some(value) = authorization {
                request.headers_mut().insert(header::AUTHORIZATION, value);
            }
            if let Some(prover) = self.prover {
                let proof = prover.proof("POST", &url::without_query(to), None, nonce.as_deref())?;
                request.headers_mut().insert("dpop", sensitive(&proof)?);
            }
            let document = send(self.web, request, what)?;
            let given = document.headers.get("dpop-nonce").and_then(|n| n.to_str().ok()).map(str::to_owned);
            match response(&document, &self.secrets(&form), what) {
                // Only one retry: a server that rejects its own nonces must not cause a loop.
                Err(error) if is_error(&error, "use_dpop_nonce") && nonce.is_none() && given.is_some() => {
                    nonce = given;
                }
                done => return done,
            }
        }
    }

    /// Returns the values that no error may contain.
    fn secrets(&self, form: &Form) -> Vec<String> {
        const SECRETS: [&str; 8] = [
            "assertion",
            "client_assertion",
            "client_secret",
            "code",
            "code_verifier",
            "device_code",
            "refresh_token",
            "subject_token",
        ];
        let sent = url::query(form.as_str()).unwrap_or_default().into_iter();
        let sent = sent.filter(|(name, _)| SECRETS.contains(&name.as_str())).map(|(_, value)| value);
        sent.chain(self.client.secret.clone()).filter(|value| !value.is_empty()).collect()
    }

    /// Adds the authentication of the client to a form, or returns a header with it.
    fn authenticate(&self, form: &mut Form) -> Result<Option<HeaderValue>, Error> {
        let (id, secret) = (&self.client.id, self.client.secret.as_deref());
        if let Some(signer) = self.signer {
            let assertion = signer.assertion(id, &self.server.issuer)?;
            form.add("client_id", id);
            form.add("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
            form.add("client_assertion", &assertion);
            return Ok(None);
        }
        let listed = |method: &str| match &self.server.auth_methods {
            Some(methods) => methods.iter().any(|m| m == method),
            // The default (RFC 8414, section 2).
            None => method == "client_secret_basic",
        };
        let method = match (&self.client.method, secret) {
            (Some(method), _) => method.as_str(),
            (None, None) => "none",
            (None, Some(_)) if listed("client_secret_basic") => "client_secret_basic",
            (None, Some(_)) if listed("client_secret_post") => "client_secret_post",
            (None, Some(_)) => "none",
        };
        match (method, secret) {
            ("client_secret_basic", Some(secret)) => {
                let mut pair = String::new();
                url::encode(&mut pair, id);
                pair.push(':');
                url::encode(&mut pair, secret);
                let value = format!("Basic {}", Base64::encode_string(pair.as_bytes()));
                sensitive(&value).map(Some)
            }
            ("client_secret_post", Some(secret)) => {
                form.add("client_id", id).add("client_secret", secret);
                Ok(None)
            }
            ("none", _) => {
                form.add("client_id", id);
                Ok(None)
            }
            _ => Err(misbehaved(
                "the authorization server requires a client authentication that is not supported",
            )),
        }
    }
}

impl Tokens {
    fn read(from: Value<'_>, proves: bool) -> Result<Tokens, Error> {
        let text = |name: &str| from.get(name).and_then(Value::as_str);
        let bad = |why: &str| misbehaved(format!("invalid token response: {why}"));
        let access_token = text("access_token").ok_or_else(|| bad("missing `access_token`"))?;
        if access_token.is_empty() || !access_token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(bad("`access_token` has characters that a header cannot have"));
        }
        let kind = text("token_type").ok_or_else(|| bad("missing `token_type`"))?;
        match (proves, kind.to_ascii_lowercase().as_str()) {
            (true, "dpop") | (false, "bearer") => {}
            (true, "bearer") => return Err(bad("the token is not bound to the key of the client")),
            _ => return Err(bad("`token_type` is not supported")),
        }
        // Some servers send the number as a string.
        let lifetime = from.get("expires_in").and_then(|v| v.as_u64().or_else(|| v.as_str()?.parse().ok()));
        Ok(Tokens {
            access_token: access_token.to_owned(),
            dpop: proves,
            refresh_token: text("refresh_token").filter(|token| !token.is_empty()).map(str::to_owned),
            expires_at: lifetime.map(|seconds| now().saturating_add(seconds)),
            scope: text("scope").map(str::to_owned),
        })
    }
}

/// Returns a POST request of a form.
fn form_request(to: &Uri, form: &Form) -> Request<Vec<u8>> {
    let mut request = Request::post(to.clone()).body(form.as_str().as_bytes().to_vec()).unwrap_or_default();
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(header::CONTENT_TYPE, form);
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    request
}

/// Sends a request to an authorization server.
pub(super) fn send(web: &WebClient, request: Request<Vec<u8>>, what: &str) -> Result<Document, Error> {
    let failed = |error: Error| Error::new(error.kind(), format!("{what} failed")).with_source(error);
    web.send(request).map_err(failed)
}

/// Returns a header value that is marked as sensitive, so that it is not logged.
pub(super) fn sensitive(value: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        Error::new(ErrorKind::Invalid, "a credential has characters that a header cannot have")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads the response to a form.
pub(super) fn response(document: &Document, secrets: &[String], what: &str) -> Result<Doc, Error> {
    let parsed = parse(document);
    if let (200..=299, Some(doc)) = (document.status, parsed.as_ref()) {
        if doc.root().get("error").is_none() {
            return parsed.ok_or_else(|| misbehaved(what));
        }
    }
    let doc = parsed.unwrap_or_default();
    let text = |name: &str| doc.root().get(name).and_then(Value::as_str);
    match (document.status, text("error")) {
        (200..=499, Some(code)) => Err(refusal(code, text("error_description"), what, secrets)),
        (status @ (400..=599), _) => {
            let message = format!("the authorization server returned status {status} to {what}");
            Err(Error::new(ErrorKind::Refused, message).with_code(i32::from(status), None))
        }
        (300..=399, _) => {
            Err(misbehaved(format!("the authorization server redirects {what}; redirects are not followed")))
        }
        _ => Err(misbehaved(format!("the authorization server's response to {what} is not JSON"))),
    }
}

/// Returns an error of the authorization server, with its error code as `data`.
pub(super) fn refusal(code: &str, description: Option<&str>, what: &str, secrets: &[String]) -> Error {
    let shown = |text: &str| -> Option<String> {
        let plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
        let text: String = text.chars().filter(plain).take(MAX_QUOTED).collect();
        let safe = !text.is_empty() && !secrets.iter().any(|secret| text.contains(secret.as_str()));
        safe.then_some(text)
    };
    let code = shown(code).unwrap_or_else(|| "unknown error".into());
    let mut message = format!("the authorization server rejected {what}: {code}");
    if let Some(text) = description.and_then(shown) {
        message.push_str(": ");
        message.push_str(&text);
    }
    Error::new(ErrorKind::Refused, message).with_code(400, Some(code.into()))
}

/// Returns whether the authorization server returned this error code.
pub(super) fn is_error(error: &Error, code: &str) -> bool {
    error.data().is_some_and(|data| data.to_doc().root().as_str() == Some(code))
}
