//! URLs and forms: checks, canonical form, percent-encoding.
//!
//! Source: RFC 3986; RFC 8707, section 2 (resource identifiers); the form encoding of the URL
//! standard.

use ureq::http::Uri;

use super::misbehaved;
use crate::error::Error;

/// Maximum length of a URL in bytes.
const MAX_URL: usize = 4096;

/// Parses the URL of a document or an endpoint: `https`, or `http` on this machine.
///
/// # Errors
/// The URL has another scheme, or it contains credentials or a fragment.
pub(super) fn parse(text: &str, what: &str) -> Result<Uri, Error> {
    let bad = |why: &str| Err(misbehaved(format!("invalid {what}: {why}")));
    if text.len() > MAX_URL || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return bad("not a URL");
    }
    if text.contains('#') {
        return bad("the URL has a fragment");
    }
    let Ok(uri) = text.parse::<Uri>() else { return bad("not a URL") };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return bad("not an absolute URL");
    };
    if authority.as_str().contains('@') || authority.host().is_empty() {
        return bad("the URL has credentials or no host");
    }
    match scheme {
        "https" => Ok(uri),
        "http" if is_loopback(authority.host()) => Ok(uri),
        "http" => bad("http is allowed on this machine only, elsewhere https is required"),
        _ => bad("the URL must begin with https://"),
    }
}

/// Returns whether the host of a URL is `localhost` or a loopback address.
pub(super) fn is_local(uri: &Uri) -> bool {
    uri.host().is_some_and(is_loopback)
}

/// Returns whether a host is `localhost` or a loopback address.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Returns scheme, host and port, in lower case and without the default port.
pub(super) fn origin(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or_default();
    let mut origin = format!("{scheme}://{}", uri.host().unwrap_or_default().to_ascii_lowercase());
    let default = if scheme == "https" { 443 } else { 80 };
    if let Some(port) = uri.port_u16().filter(|port| *port != default) {
        origin.push_str(&format!(":{port}"));
    }
    origin
}

/// Returns the identifier of a server: its URL without query, and without the path `/`.
pub(super) fn canonical(uri: &Uri) -> String {
    format!("{}{}", origin(uri), path(uri))
}

/// Returns a URL without its query.
pub(super) fn without_query(uri: &Uri) -> String {
    format!("{}{}", origin(uri), uri.path())
}

/// Returns the path, empty for `/`.
pub(super) fn path(uri: &Uri) -> &str {
    if uri.path() == "/" { "" } else { uri.path() }
}

/// Returns whether a resource identifier covers a URL: same origin, same path or a path above it,
/// and the same query if the identifier has one.
pub(super) fn covers(resource: &Uri, url: &Uri) -> bool {
    let (above, below) = (resource.path().trim_end_matches('/'), url.path());
    let rest = below.strip_prefix(above);
    origin(resource) == origin(url)
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && resource.query().is_none_or(|query| url.query() == Some(query))
}

/// Names and values in the form encoding.
#[derive(Clone, Default)]
pub(super) struct Form(String);

impl Form {
    pub(super) fn add(&mut self, name: &str, value: &str) -> &mut Form {
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        encode(&mut self.0, value);
        self
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Appends a text, percent-encoded except for unreserved characters.
pub(super) fn encode(to: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(char::from(byte));
        } else {
            to.push('%');
            for digit in [byte >> 4, byte & 15] {
                to.push(char::from(HEX[usize::from(digit)]));
            }
        }
    }
}

/// Decodes the query of an address. Returns `None` if it is malformed or has a name twice.
pub(super) fn query(text: &str) -> Option<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in text.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        if found.iter().any(|(known, _)| *known == name) {
            return None;
        }
        found.push((name, value));
    }
    Some(found)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high << 4 | low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn urls_are_https_or_on_this_machine() {
        for good in
            ["https://as.example/x?y=1", "http://localhost:80/", "http://127.9.9.9/", "http://[::1]:1/a"]
        {
            assert!(parse(good, "URL").is_ok(), "{good}");
        }
        let long = format!("https://h/{}", "a".repeat(MAX_URL));
        for bad in [
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "vbscript:x",
            "http://as.example/",
            "http://10.0.0.1/",
            "http://localhost.evil.example/",
            "http://127.0.0.1.evil.example/",
            "https://u:p@as.example/",
            "https://as.example/#f",
            "https://as.example/ x",
            "https:///x",
            "//as.example/x",
            "/x",
            "",
            "https://as.ex\u{e4}mple/",
            &long,
        ] {
            assert!(parse(bad, "URL").is_err(), "{bad}");
        }
    }

    #[test]
    fn identifiers_are_canonical_and_cover_the_paths_below() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        assert_eq!(canonical(&uri("HTTPS://H.Example:443/")), "https://h.example");
        assert_eq!(canonical(&uri("https://h:8443/MCP/?x=1")), "https://h:8443/MCP/");
        for (resource, url, covered) in [
            ("https://h/mcp", "https://h/mcp", true),
            ("https://h", "https://h/mcp", true),
            ("https://h/", "https://h/mcp", true),
            ("https://h/a", "https://h/a/mcp", true),
            ("https://h/mcp", "https://h/mcp2", false),
            ("https://h/mcp/x", "https://h/mcp", false),
            ("https://h:444/mcp", "https://h/mcp", false),
            ("https://g/mcp", "https://h/mcp", false),
            ("https://h/mcp?t=1", "https://h/mcp?t=2", false),
        ] {
            assert_eq!(covers(&uri(resource), &uri(url)), covered, "{resource} {url}");
        }
    }

    #[test]
    fn forms_and_queries_are_inverse_and_names_occur_once() {
        let mut form = Form::default();
        form.add("a", "x y&z=ä/+").add("b", "");
        assert_eq!(form.as_str(), "a=x%20y%26z%3D%C3%A4%2F%2B&b=");
        let pairs = query(form.as_str()).unwrap();
        assert_eq!(pairs, [("a".into(), "x y&z=ä/+".into()), ("b".into(), String::new())]);
        assert_eq!(query("code=a+b").unwrap()[0].1, "a b");
        for bad in ["a=1&a=2", "a=%", "a=%4", "a=%zz", "a=%ff", "co%64e=1&code=2"] {
            assert_eq!(query(bad), None, "{bad}");
        }
    }
}
