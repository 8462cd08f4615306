//! Protected resource metadata (RFC 9728).

use crate::json::Writer;
use crate::server::registry::Registry;

/// Path of the document, without the path of the endpoint.
pub(in crate::server::http) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Metadata with which clients find out where to get a token (RFC 9728).
///
/// ```no_run
/// use tinymcp::{ResourceMetadata, Server, TokenRefusal};
///
/// let metadata = ResourceMetadata::new("https://board.example/mcp", "https://login.example.com");
/// Server::new("board", "1.0.0")
///     .http()
///     .allow_host("board.example")
///     .resource_metadata(metadata.scope("pins:read"))
///     .bearer(|token| if token == "s3cret" { Ok("alice") } else { Err(TokenRefusal::Invalid) })
///     .serve("127.0.0.1:8080")?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
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

    /// Adds a scope for clients to request. The document also lists the scopes of
    /// [`Tool::requires_scope`](crate::Tool::requires_scope); the challenge for a missing token
    /// names only the scopes that are added here.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> ResourceMetadata {
        self.scopes.push(scope.into());
        self
    }

    /// Returns the metadata document of a server with these tools.
    pub(in crate::server::http) fn document(&self, registry: &Registry) -> Vec<u8> {
        let mut scopes: Vec<&str> = Vec::new();
        let of_tools = registry.tools.iter().flat_map(|listed| &listed.entry.tool.scopes);
        for scope in self.scopes.iter().chain(of_tools) {
            if !scopes.contains(&scope.as_str()) {
                scopes.push(scope);
            }
        }
        let mut w = Writer::new();
        w.begin_object();
        w.key("resource").string(&self.resource);
        list(&mut w, "authorization_servers", self.servers.iter().map(String::as_str));
        if !scopes.is_empty() {
            list(&mut w, "scopes_supported", scopes.into_iter());
        }
        list(&mut w, "bearer_methods_supported", ["header"].into_iter());
        w.end_object();
        w.into_bytes()
    }

    /// Returns the scopes of the challenge for a missing or invalid token.
    pub(super) fn initial_scopes(&self) -> String {
        self.scopes.join(" ")
    }

    /// Returns the URL of the document, whose well-known part is between host and path (RFC 9728
    /// §3.1).
    pub(super) fn url(&self) -> String {
        let start = self.resource.find("://").map_or(0, |at| at + 3);
        let rest = self.resource.get(start..).unwrap_or_default();
        let host = start + rest.find('/').unwrap_or(rest.len());
        let (origin, path) = self.resource.split_at(host);
        format!("{origin}{WELL_KNOWN}{}", path.trim_end_matches('/'))
    }
}

fn list<'s>(w: &mut Writer, name: &str, items: impl Iterator<Item = &'s str>) {
    w.key(name).begin_array();
    for item in items {
        w.string(item);
    }
    w.end_array();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_document_names_the_authorization_servers() {
        let metadata =
            ResourceMetadata::new("https://board.example/mcp", "https://login.example").scope("read");
        let text = String::from_utf8(metadata.document(&Registry::default())).unwrap();
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
