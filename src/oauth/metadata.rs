//! Discovery: protected-resource metadata and authorization-server metadata.
//!
//! Source: MCP 2026-07-28 basic/authorization/authorization-server-discovery; RFC 9728; RFC 8414;
//! OpenID Connect Discovery 1.0; MCP 2025-03-26 basic/authorization (servers without either).
//!
//! # Invariants
//! - A document is used only if it names the server or the issuer that it was requested for.
//! - Every URL from a document has passed [`url::parse`].

use ureq::http::Uri;

use super::{misbehaved, url};
use crate::error::Error;
use crate::error::challenge::Challenge;
use crate::json::{Doc, ParseLimits, Value};
use crate::transport::http_client::sign_in::{Document, WebClient};

/// Maximum number of authorization servers that are read from the metadata of one resource.
const SERVERS: usize = 8;
/// Maximum number of items that are read from any other list.
const SCOPES: usize = 256;

/// Protected-resource metadata.
pub(super) struct Resource {
    /// Identifier of the resource, as published.
    pub resource: String,
    /// Issuers, never empty.
    pub servers: Vec<String>,
    pub scopes: Option<Vec<String>>,
    /// URL of the document that the server named in a challenge.
    pub named: Option<String>,
}

/// Authorization-server metadata.
pub(super) struct AuthServer {
    pub issuer: String,
    pub authorization: Option<Uri>,
    pub token: Uri,
    pub registration: Option<Uri>,
    pub device: Option<Uri>,
    pub revocation: Option<Uri>,
    pub scopes: Vec<String>,
    /// Methods of client authentication; `None` if the document does not list them.
    pub auth_methods: Option<Vec<String>>,
    /// Every authorization response has `iss` (RFC 9207).
    pub sends_issuer: bool,
    /// PKCE with S256 is supported.
    pub pkce: bool,
    pub client_id_documents: bool,
    /// Algorithms of DPoP proofs.
    pub dpop: Vec<String>,
}

/// Reads the metadata of the server: at the URL of its challenge, otherwise at the well-known URLs.
/// Returns `None` if the server has no metadata.
pub(super) fn resource(web: &WebClient, named: Option<&str>) -> Result<Option<Resource>, Error> {
    let server = &web.server;
    if let Some(named) = named {
        let document = fetch(web, &url::parse(named, "URL of the resource metadata")?)?;
        let Some(doc) = document else {
            return Err(misbehaved("the server names resource metadata that does not exist"));
        };
        return Resource::read(doc.root(), server, Some(named)).map(Some);
    }
    for path in [url::path(server), ""] {
        let at = format!("{}/.well-known/oauth-protected-resource{path}", url::origin(server));
        if let Some(doc) = fetch(web, &url::parse(&at, "URL of the server")?)? {
            return Resource::read(doc.root(), server, None).map(Some);
        }
        if path.is_empty() {
            break;
        }
    }
    Ok(None)
}

impl Resource {
    fn read(document: Value<'_>, server: &Uri, named: Option<&str>) -> Result<Resource, Error> {
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        let resource =
            text("resource").ok_or_else(|| misbehaved("the resource metadata has no `resource`"))?;
        let identifier = resource.parse::<Uri>().ok().filter(|uri| url::covers(uri, server));
        if identifier.is_none() || resource.contains('#') {
            let why = format!("the resource metadata is that of another server: {}", resource.escape_debug());
            return Err(misbehaved(why));
        }
        let servers = list(document.get("authorization_servers"), SERVERS).unwrap_or_default();
        if servers.is_empty() {
            return Err(misbehaved("the resource metadata names no authorization server"));
        }
        Ok(Resource {
            resource: resource.to_owned(),
            servers,
            scopes: list(document.get("scopes_supported"), SCOPES).map(only_scopes),
            named: named.map(str::to_owned),
        })
    }

    /// Returns the resource for a server of 2025-03-26, which has no metadata and is its own
    /// authorization server.
    pub(super) fn without_metadata(server: &Uri) -> Resource {
        let resource = url::canonical(server);
        Resource { resource, servers: vec![url::origin(server)], scopes: None, named: None }
    }
}

/// Returns the scopes of a challenge.
pub(super) fn challenged_scopes(challenge: Option<&Challenge>) -> Option<Vec<String>> {
    let scope = challenge?.scope()?;
    let scopes = only_scopes(scope.split_ascii_whitespace().take(SCOPES).map(str::to_owned).collect());
    (!scopes.is_empty()).then_some(scopes)
}

impl AuthServer {
    /// Reads the metadata of an issuer.
    pub(super) fn discover(web: &WebClient, issuer: &str) -> Result<AuthServer, Error> {
        match AuthServer::find(web, issuer, |found| found == issuer)? {
            Some(server) => Ok(server),
            None => Err(misbehaved("the authorization server has no metadata")),
        }
    }

    /// Returns the authorization server of a server without resource metadata. It is at the origin
    /// of the server, with metadata or with the default paths.
    pub(super) fn at_origin(web: &WebClient) -> Result<AuthServer, Error> {
        let origin = url::origin(&web.server);
        let found =
            AuthServer::find(web, &origin, |issuer| issuer.strip_suffix('/').unwrap_or(issuer) == origin)?;
        if let Some(server) = found {
            return Ok(server);
        }
        let at = |path: &str| url::parse(&format!("{origin}{path}"), "URL of the server");
        Ok(AuthServer {
            authorization: Some(at("/authorize")?),
            token: at("/token")?,
            registration: Some(at("/register")?),
            device: None,
            revocation: None,
            scopes: Vec::new(),
            // The revision 2025-03-26 requires PKCE; clients of these servers are public.
            auth_methods: Some(vec!["none".into()]),
            sends_issuer: false,
            pkce: true,
            client_id_documents: false,
            dpop: Vec::new(),
            issuer: origin,
        })
    }

    fn find(web: &WebClient, issuer: &str, is: impl Fn(&str) -> bool) -> Result<Option<AuthServer>, Error> {
        let uri = url::parse(issuer, "issuer of the authorization server")?;
        if uri.query().is_some() {
            return Err(misbehaved("invalid issuer of the authorization server: it has a query"));
        }
        let (origin, path) = (url::origin(&uri), uri.path().trim_end_matches('/'));
        let mut places = vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            places.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        for place in places {
            if let Some(doc) = fetch(web, &url::parse(&place, "issuer of the authorization server")?)? {
                if !doc.root().get("issuer").and_then(Value::as_str).is_some_and(&is) {
                    return Err(misbehaved("the authorization server's metadata is that of another issuer"));
                }
                return AuthServer::read(doc.root()).map(Some);
            }
        }
        Ok(None)
    }

    fn read(document: Value<'_>) -> Result<AuthServer, Error> {
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        let endpoint = |name: &str| text(name).map(|at| url::parse(at, name)).transpose();
        let lists = |name: &str| list(document.get(name), SCOPES);
        let holds = |name: &str| document.get(name).and_then(Value::as_bool).unwrap_or(false);
        let missing = || misbehaved("the authorization server's metadata has no `token_endpoint`");
        let pkce = lists("code_challenge_methods_supported").unwrap_or_default();
        Ok(AuthServer {
            issuer: text("issuer").unwrap_or_default().to_owned(),
            authorization: endpoint("authorization_endpoint")?,
            token: endpoint("token_endpoint")?.ok_or_else(missing)?,
            registration: endpoint("registration_endpoint")?,
            device: endpoint("device_authorization_endpoint")?,
            revocation: endpoint("revocation_endpoint")?,
            scopes: lists("scopes_supported").unwrap_or_default(),
            auth_methods: lists("token_endpoint_auth_methods_supported"),
            sends_issuer: holds("authorization_response_iss_parameter_supported"),
            pkce: pkce.iter().any(|method| method == "S256"),
            client_id_documents: holds("client_id_metadata_document_supported"),
            dpop: lists("dpop_signing_alg_values_supported").unwrap_or_default(),
        })
    }
}

/// Fetches a document. `None` if no document exists at this address.
fn fetch(web: &WebClient, at: &Uri) -> Result<Option<Doc>, Error> {
    let failed = |error: Error| {
        let kind = error.kind();
        Error::new(kind, format!("cannot read {}{}", url::origin(at), at.path())).with_source(error)
    };
    let document = web.metadata(at).map_err(failed)?;
    match document.status {
        200 => Ok(parse(&document)),
        300..500 if ![408, 425, 429].contains(&document.status) => Ok(None),
        status => Err(failed(misbehaved(format!("the server returned status {status}")))),
    }
}

/// Parses a document. `None` for a text that is not a JSON object, because some servers respond to
/// every address with a page.
pub(super) fn parse(document: &Document) -> Option<Doc> {
    parse_object(&document.body)
}

/// Parses a JSON object in which no name occurs twice.
pub(super) fn parse_object(text: &[u8]) -> Option<Doc> {
    let mut doc = Doc::default();
    let limits = ParseLimits { depth: 32, nodes: 20_000, unique_names: true, ..ParseLimits::default() };
    doc.parse_again(text, &limits).ok()?;
    (doc.root().kind() == crate::json::Kind::Object).then_some(doc)
}

fn list(value: Option<Value<'_>>, most: usize) -> Option<Vec<String>> {
    let items = value.filter(|value| value.kind() == crate::json::Kind::Array)?.items();
    Some(items.take(most).filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Keeps the valid scopes (RFC 6749, section 3.3).
fn only_scopes(mut scopes: Vec<String>) -> Vec<String> {
    scopes.retain(|s| !s.is_empty() && s.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\'));
    scopes
}
