//! Server card and catalog, beside the endpoint (SEP-2127).

use crate::era::Eras;
use crate::era::card as codec;
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::model::Identity;
use crate::transport::http_server::Head;

use super::cors;
use super::rejection::Rejection;
use super::status_page::StatusPage;

/// Path of the catalog of a site.
const CATALOG_PATH: &str = "/.well-known/ai-catalog.json";
/// Maximum number of characters of the description and of the title in a card.
const MAX_TEXT: usize = 100;

/// Description of a server for clients that have not connected, see
/// [`HttpServer::server_card`](super::HttpServer::server_card).
#[derive(Clone, Debug)]
pub struct ServerCard {
    name: String,
    url: String,
}

/// Creates the pages of a card when the server and the path of its endpoint are known.
pub(super) type CardPages = dyn FnOnce(&Identity, Eras, &str) -> Result<[StatusPage; 2], Error> + Send + Sync;

impl ServerCard {
    /// Creates a card with a name in reverse-DNS format, such as `com.example/board`, and the URL
    /// of the endpoint as clients reach it. The other members are those of the server: version,
    /// title, description, website, icons, revisions.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> ServerCard {
        ServerCard { name: name.into(), url: url.into() }
    }

    /// Returns the pages of the card and the catalog.
    pub(super) fn pages(self, identity: &Identity, eras: Eras, path: &str) -> Result<[StatusPage; 2], Error> {
        self.check(identity)?;
        let url = self.url.trim_end_matches('/');
        let card = codec::card(&self.name, url, identity, eras);
        let catalog = codec::catalog(&identifier(&self.name), &format!("{url}/server-card"));
        let at = format!("{}/server-card", path.trim_end_matches('/'));
        Ok([page(at, codec::CARD, &card), page(CATALOG_PATH.to_owned(), codec::CATALOG, &catalog)])
    }

    fn check(&self, identity: &Identity) -> Result<(), Error> {
        let invalid = |what: String| Err(Error::new(ErrorKind::Invalid, format!("server card: {what}")));
        let part = |text: &str, more: &[u8]| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
        };
        let named =
            self.name.split_once('/').is_some_and(|(space, name)| part(space, b".-") && part(name, b"._-"));
        if !named || self.name.len() > 200 {
            return invalid(format!("invalid name {:?}: must be like com.example/board", self.name));
        }
        let rest = self.url.strip_prefix("https://").or_else(|| self.url.strip_prefix("http://"));
        if !rest.is_some_and(|rest| {
            !rest.is_empty() && !rest.contains(|c: char| " ?#{}".contains(c) || c.is_control())
        }) {
            return invalid(format!("invalid URL {:?}: must be http or https, without query", self.url));
        }
        let fits = |text: &str| (1..=MAX_TEXT).contains(&text.chars().count());
        if !identity.description.as_deref().is_some_and(fits) {
            return invalid(format!("the server must have a description of 1 to {MAX_TEXT} characters"));
        }
        if !identity.title.as_deref().is_none_or(fits) {
            return invalid(format!("the title of the server must have 1 to {MAX_TEXT} characters"));
        }
        Ok(())
    }
}

/// Returns the identifier of a server in catalogs: `urn:air:example.com:mcp:board`.
fn identifier(name: &str) -> String {
    let (space, name) = name.split_once('/').unwrap_or((name, ""));
    let publisher: Vec<&str> = space.rsplit('.').collect();
    format!("urn:air:{}:mcp:{name}", publisher.join("."))
}

/// Creates the page of a public document that does not change. Pages of every origin can read it.
fn page(path: String, media_type: &'static str, document: &Json) -> StatusPage {
    let body = document.as_str().as_bytes().to_vec();
    let hash = hmac_sha256::Hash::hash(&body);
    let tag: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{tag}\"");
    StatusPage::responding(path, move |head| {
        let response = match head.method {
            "OPTIONS" => Rejection::new(204),
            "GET" | "HEAD" if matches(head, &tag) => Rejection::new(304),
            "GET" | "HEAD" => {
                let mut response = Rejection::new(200).with("content-type", media_type);
                response.response.body.clone_from(&body);
                response
            }
            _ => Rejection::new(405).with("allow", "GET, HEAD"),
        };
        response
            .with("cache-control", "public, max-age=3600")
            .with("etag", tag.as_str())
            .with(cors::ALLOW_ORIGIN, "*")
            .with("access-control-allow-methods", "GET")
            .with("access-control-allow-headers", "Content-Type, If-None-Match")
            .with("access-control-expose-headers", "ETag")
    })
    .public()
}

/// Returns whether the client has this version (RFC 9110 §13.1.2).
fn matches(head: &Head<'_>, tag: &str) -> bool {
    let Some(Ok(tags)) = head.field("if-none-match").map(std::str::from_utf8) else { return false };
    tags.split(',')
        .map(str::trim)
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
