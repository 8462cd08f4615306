//! Credentials of URLs: a token in a variable, or the stored result of `tinymcp login`.
//!
//! The variable of a server is `TINYMCP_TOKEN_` and its name: its key in a configuration file, or
//! the host of its URL; in upper case, with `_` for every other character.

use std::path::Path;

use tinymcp::Endpoint;
#[cfg(unix)]
use tinymcp::oauth::{FileStore, OAuth};
#[cfg(unix)]
use tinymcp::stderr;

use crate::Result;
#[cfg(unix)]
use crate::escape::plain;
#[cfg(unix)]
use crate::registered_client::RegisteredClient;

/// Adds the credentials of the server with this name. A stored token is used only where the
/// endpoint has no `Authorization` header.
pub(crate) fn add(server: &str, endpoint: Endpoint) -> Endpoint {
    if let Some(token) = token(server) {
        return endpoint.bearer_token(token);
    }
    #[cfg(unix)]
    if let Ok(store) = FileStore::user() {
        let client = RegisteredClient::load(&store, endpoint.url());
        let oauth = OAuth::new(store);
        let with_client = client.and_then(|client| match client {
            Some(client) => client.apply(oauth.clone()),
            None => Ok(oauth.clone()),
        });
        return endpoint.oauth(with_client.unwrap_or_else(|why| {
            // The stored token may still be valid.
            stderr::write(format!("tinymcp: {}\n", plain(&why)));
            oauth
        }));
    }
    endpoint
}

/// Reads the secret in the file of an option: one line, without the white space around it.
pub(crate) fn secret(option: &str, file: &Path) -> Result<String> {
    let text = content(option, file)?;
    match text.lines().count() {
        1 => Ok(text),
        lines => Err(format!("{option}: {}: expected one line, got {lines}", file.display())),
    }
}

/// Reads the file of an option, without the white space around its content.
pub(crate) fn content(option: &str, file: &Path) -> Result<String> {
    let refusal = |why: &dyn std::fmt::Display| format!("{option}: {}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| refusal(&error))?;
    match text.trim() {
        "" => Err(refusal(&"the file is empty")),
        content => Ok(content.to_owned()),
    }
}

/// The token in the variable of the server with this name.
pub(crate) fn token(server: &str) -> Option<String> {
    std::env::var(variable(server)).ok().filter(|token| !token.is_empty())
}

/// Name of the variable with the token of the server with this name.
pub(crate) fn variable(server: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("TINYMCP_TOKEN_{}", server.chars().map(allowed).collect::<String>())
}

/// A URL for messages, without its user and the query, which may be credentials.
pub(crate) fn shown(url: &str) -> String {
    let (url, query) = url.split_once('?').map_or((url, ""), |(url, _)| (url, "?[masked]"));
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split('/').next().unwrap_or_default();
    let without_user = authority.rsplit('@').next().unwrap_or_default();
    let path = rest.get(authority.len()..).unwrap_or_default();
    let separator = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{separator}{without_user}{path}{query}")
}

/// Values of the query of a URL.
#[cfg_attr(not(unix), allow(dead_code))]
pub(crate) fn query_values(url: &str) -> impl Iterator<Item = &str> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value)
}

/// Host of a URL.
pub(crate) fn host(url: &str) -> &str {
    let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
    let authority = behind.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_by_the_host_or_the_key() {
        for (url, name) in [
            ("https://mcp.example.com/mcp", "MCP_EXAMPLE_COM"),
            ("http://127.0.0.1:8080/mcp?x=1", "127_0_0_1"),
            ("http://[::1]:8080/", "___1_"),
            ("https://user@h", "H"),
        ] {
            assert_eq!(variable(host(url)), format!("TINYMCP_TOKEN_{name}"), "{url}");
        }
        assert_eq!(variable("git-hub"), "TINYMCP_TOKEN_GIT_HUB");
    }

    #[test]
    fn messages_have_neither_the_user_nor_the_query() {
        for (url, text) in [
            ("https://h:1/a?key=s3cret", "https://h:1/a?[masked]"),
            ("https://me:s3cret@h/@b/", "https://h/@b/"),
            ("unix:/run/x", "unix:/run/x"),
            ("h/mcp", "h/mcp"),
        ] {
            assert_eq!(shown(url), text);
        }
        assert_eq!(query_values("h?a=1&b&c=2=3").collect::<Vec<_>>(), ["1", "2=3"]);
    }
}
