//! Registration at an authorization server: an existing one, a metadata document, or a new one.
//!
//! Source: MCP 2026-07-28 basic/authorization/client-registration; RFC 7591; OAuth Client ID
//! Metadata Document.
//!
//! # Invariants
//! - A registration is used only with the issuer that it was made at.

use std::fmt;
use std::sync::Arc;

use ureq::http::{HeaderValue, Request, header};

use super::metadata::AuthServer;
use super::token::{self, Signer};
use super::{Settings, misbehaved, url};
use crate::error::{Error, ErrorKind};
use crate::json::{Value, Writer};
use crate::transport::http_client::sign_in::WebClient;

/// A client that is already registered at an authorization server.
///
/// ```no_run
/// use tinymcp::oauth::{FileStore, OAuth, OAuthClient};
///
/// let secret = std::fs::read_to_string("client-secret")?;
/// let client = OAuthClient::new("desktop").secret(secret.trim()).issuer("https://login.example.com");
/// let oauth = OAuth::new(FileStore::user()?).client(client);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct OAuthClient {
    pub(super) issuer: Option<String>,
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) signer: Option<Arc<dyn Signer>>,
}

impl OAuthClient {
    /// Creates a client with this id.
    pub fn new(id: impl Into<String>) -> OAuthClient {
        OAuthClient { issuer: None, id: id.into(), secret: None, signer: None }
    }

    /// Returns this client as a registration.
    pub(super) fn registration(&self) -> Registration {
        Registration::known(&self.id, self.secret.as_ref())
    }

    /// Sets the secret.
    pub fn secret(mut self, secret: impl Into<String>) -> OAuthClient {
        self.secret = Some(secret.into());
        self
    }

    /// Sets the authorization server that the client is registered at. A sign-in fails if the MCP
    /// server uses another authorization server. By default the client is bound to the first
    /// authorization server that it is used with.
    pub fn issuer(mut self, issuer: impl Into<String>) -> OAuthClient {
        self.issuer = Some(issuer.into());
        self
    }
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("OAuthClient");
        shown.field("id", &self.id).field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

/// Registration of a client at one authorization server.
#[derive(Clone, PartialEq)]
pub(super) struct Registration {
    pub id: String,
    pub secret: Option<String>,
    /// Method of authentication at the token endpoint, if the server set one.
    pub method: Option<String>,
    /// Registered redirect URI.
    pub redirect_uri: Option<String>,
    /// This library registered the client, and registers it again if the server rejects its id.
    pub registered: bool,
}

impl Registration {
    fn known(id: &str, secret: Option<&String>) -> Registration {
        Registration {
            id: id.to_owned(),
            secret: secret.cloned(),
            method: None,
            redirect_uri: None,
            registered: false,
        }
    }
}

/// Intended use of a registration.
#[derive(Clone, Copy)]
pub(super) struct Purpose<'a> {
    pub grant_type: &'a str,
    pub redirect_uri: Option<&'a str>,
}

/// Finds the registration at a server, or registers the client.
///
/// `known` is the registration of the stored grant, if that grant is of the same issuer.
pub(super) fn registration(
    settings: &Settings,
    web: &WebClient,
    server: &AuthServer,
    known: Option<&Registration>,
    purpose: Purpose<'_>,
) -> Result<Registration, Error> {
    if let Some(client) = &settings.client {
        return Ok(client.registration());
    }
    if let Some(document) = settings.client_id_document.as_ref().filter(|_| server.client_id_documents) {
        let uri = url::parse(document, "URL of the client-id metadata document");
        if !uri.is_ok_and(|uri| uri.scheme_str() == Some("https") && !url::path(&uri).is_empty()) {
            let why =
                "invalid URL of the client-id metadata document: it must begin with https:// and have a path";
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        return Ok(Registration::known(document, None));
    }
    if let Some(known) =
        known.filter(|known| known.registered && known.redirect_uri.as_deref() == purpose.redirect_uri)
    {
        return Ok(known.clone());
    }
    match &server.registration {
        Some(at) => register(settings, web, server, at, purpose),
        None => Err(Error::new(
            ErrorKind::Invalid,
            "the authorization server does not register clients: register one there, then set it with \
             `OAuth::client`",
        )),
    }
}

fn register(
    settings: &Settings,
    web: &WebClient,
    server: &AuthServer,
    at: &ureq::http::Uri,
    purpose: Purpose<'_>,
) -> Result<Registration, Error> {
    let offers = |method: &str| match &server.auth_methods {
        Some(methods) => methods.iter().any(|m| m == method),
        None => method == "client_secret_basic",
    };
    let methods = ["none", "client_secret_basic", "client_secret_post"];
    let method = methods.into_iter().find(|method| offers(method)).ok_or_else(|| {
        misbehaved("the authorization server supports no client authentication method of this library")
    })?;
    let mut request = Request::post(at.clone()).body(body(settings, method, purpose)).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json.clone());
    request.headers_mut().insert(header::ACCEPT, json);
    let what = "the registration of the client";
    let doc = token::response(&token::send(web, request, what)?, &[], what)?;
    let text = |name: &str| doc.root().get(name).and_then(Value::as_str).map(str::to_owned);
    let id = text("client_id").filter(|id| !id.is_empty());
    let id =
        id.ok_or_else(|| misbehaved("the authorization server registered a client without `client_id`"))?;
    Ok(Registration {
        id,
        secret: text("client_secret"),
        method: text("token_endpoint_auth_method").or_else(|| Some(method.to_owned())),
        redirect_uri: purpose.redirect_uri.map(str::to_owned),
        registered: true,
    })
}

/// Returns the metadata of the client (RFC 7591, section 2; OpenID Connect Dynamic Client
/// Registration).
fn body(settings: &Settings, method: &str, purpose: Purpose<'_>) -> Vec<u8> {
    let redirect_uri = purpose.redirect_uri;
    let mut w = Writer::new();
    w.begin_object().key("client_name").string(&settings.client_name);
    w.key("token_endpoint_auth_method").string(method);
    let native = redirect_uri.is_none_or(|uri| url::parse(uri, "").is_ok_and(|uri| url::is_local(&uri)));
    w.key("application_type").string(if native { "native" } else { "web" });
    w.key("grant_types").begin_array().string(purpose.grant_type).string("refresh_token").end_array();
    if let Some(uri) = redirect_uri {
        w.key("redirect_uris").begin_array().string(uri).end_array();
        w.key("response_types").begin_array().string("code").end_array();
    }
    w.end_object();
    w.into_bytes()
}
