//! URL of a server, and the headers of every request to it.
//!
//! Values are checked once, before anything is connected.
//!
//! # Invariants
//! - No secret is shown by `Debug`, in an error or in a log: values are marked as sensitive.

use std::fmt;
use std::sync::Arc;

use ureq::http::{HeaderMap, HeaderName, HeaderValue, Uri};
#[cfg(feature = "tls")]
use ureq::tls::{PemItem, RootCerts, parse_pem};

use super::connector::Reach;
use crate::error::{Error, ErrorKind};

/// URL of a server, and the headers of every request to it.
///
/// ```
/// use tinymcp::Endpoint;
///
/// let endpoint = Endpoint::new("http://127.0.0.1:8080/mcp")
///     .bearer_token("…")
///     .header("X-Team", "kitchen");
/// ```
#[derive(Clone)]
pub struct Endpoint {
    url: String,
    headers: Vec<(String, String)>,
    source: Option<Source>,
    reach: Reach,
    #[cfg(feature = "tls")]
    roots: Option<Vec<u8>>,
}

/// Returns headers for one request.
type Source = Arc<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

impl Endpoint {
    /// An endpoint with this URL; `http`, or `https` with the feature `tls`. The URL is checked when a
    /// client connects. Connections are direct: proxy variables of the environment are ignored.
    pub fn new(url: impl Into<String>) -> Endpoint {
        Endpoint {
            url: url.into(),
            headers: Vec::new(),
            source: None,
            reach: Reach::Everywhere,
            #[cfg(feature = "tls")]
            roots: None,
        }
    }

    /// Sends `Authorization: Bearer …` with every request. The token is sent to this URL's origin
    /// and nowhere else (2026-07-28 basic/authorization).
    #[must_use]
    pub fn bearer_token(self, token: impl fmt::Display) -> Endpoint {
        self.header("Authorization", format!("Bearer {token}"))
    }

    /// Sends a header with every request. Headers that HTTP or the protocol sets, such as `Host`,
    /// `Content-Length` or `Mcp-Session-Id`, are rejected when a client connects.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Endpoint {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets a function that returns more headers before every request: renewed tokens, traces. The
    /// function is called on the thread that sends the request and must not block. Its headers
    /// replace those of the same name from [`Endpoint::header`].
    #[must_use]
    pub fn header_source(
        mut self,
        source: impl Fn() -> Vec<(String, String)> + Send + Sync + 'static,
    ) -> Endpoint {
        self.source = Some(Arc::new(source));
        self
    }

    /// Connects only to addresses of the public internet, for URLs from untrusted sources. Rejects
    /// this machine, its local network, and metadata services of clouds. Each address is checked
    /// when it is connected to, so a change of the DNS record cannot bypass the check.
    #[must_use]
    pub fn public_addresses_only(mut self) -> Endpoint {
        self.reach = Reach::Public;
        self
    }

    /// Sets the trusted root certificates, in PEM, for devices and companies with their own
    /// certification authority. By default the root certificates of Mozilla are trusted.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Endpoint {
        self.roots = Some(pem.into());
        self
    }

    /// The values of the headers.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn header_values(&self) -> Vec<String> {
        self.headers.iter().map(|(_, value)| value.clone()).collect()
    }

    pub(super) fn checked(self) -> Result<Target, Error> {
        let bad = |why: &str| Error::new(ErrorKind::Invalid, format!("invalid server URL: {why}"));
        let uri: Uri = self.url.parse().map_err(|_| bad("not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => return Err(bad("https requires the feature `tls`, which this build lacks")),
            _ => return Err(bad("it must begin with http:// or https://")),
        }
        let Some(authority) = uri.authority().filter(|a| !a.host().is_empty()) else {
            return Err(bad("missing host"));
        };
        if authority.as_str().contains('@') {
            return Err(bad("credentials in a URL would be logged; use a header"));
        }
        let mut headers = HeaderMap::new();
        add(&mut headers, &self.headers)?;
        Ok(Target {
            uri,
            headers,
            source: self.source,
            reach: self.reach,
            #[cfg(feature = "tls")]
            roots: self.roots.map(|pem| certificates(&pem)).transpose()?,
        })
    }
}

/// The certificates of a PEM text.
#[cfg(feature = "tls")]
fn certificates(pem: &[u8]) -> Result<RootCerts, Error> {
    let bad = || Error::new(ErrorKind::Invalid, "invalid root certificates: expected PEM");
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|_| bad())? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(bad()) } else { Ok(RootCerts::new_with_certs(&found)) }
}

impl From<&str> for Endpoint {
    fn from(url: &str) -> Endpoint {
        Endpoint::new(url)
    }
}

impl From<String> for Endpoint {
    fn from(url: String) -> Endpoint {
        Endpoint::new(url)
    }
}

impl fmt::Debug for Endpoint {
    /// Omits the query and the values of headers, because both may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split(['?', '#']).next().unwrap_or_default();
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint").field("url", &url).field("headers", &names).finish_non_exhaustive()
    }
}

/// Adds headers, replacing those of the same name.
fn add(map: &mut HeaderMap, headers: &[(String, String)]) -> Result<(), Error> {
    for (name, value) in headers {
        let bad =
            || Error::new(ErrorKind::Invalid, "invalid header: its name or value cannot be sent over HTTP");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        if is_reserved(name.as_str()) {
            let why = format!("the header `{name}` is reserved: HTTP and the protocol set it");
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        // Rejects line ends and NUL: otherwise a value could add more headers.
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        map.insert(name, value);
    }
    Ok(())
}

/// Returns whether HTTP or the protocol sets this header; a second one would contradict it. The
/// name is in lower case.
fn is_reserved(name: &str) -> bool {
    const RESERVED: [&str; 12] = [
        "accept",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    RESERVED.contains(&name) || name == "trailer" || name.starts_with("mcp-") || name.starts_with("proxy-")
}

/// An endpoint that was checked.
pub(super) struct Target {
    pub uri: Uri,
    pub reach: Reach,
    #[cfg(feature = "tls")]
    pub roots: Option<RootCerts>,
    headers: HeaderMap,
    source: Option<Source>,
}

impl Target {
    /// Adds the program's headers. The headers of the protocol are added after them.
    ///
    /// # Errors
    /// The function returned a header that is not valid in HTTP.
    pub(super) fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = self.headers.clone();
        if let Some(source) = &self.source {
            add(&mut headers, &source())?;
        }
        Ok(headers)
    }

    /// The URL of a redirect, if it has the same origin.
    pub(super) fn redirected(&self, location: &str) -> Option<Uri> {
        // A path of this server; two slashes would start the name of another host.
        if location.starts_with('/') && !location.starts_with("//") {
            let mut parts = self.uri.clone().into_parts();
            parts.path_and_query = Some(location.parse().ok()?);
            return Uri::from_parts(parts).ok();
        }
        let uri: Uri = location.parse().ok()?;
        let port =
            |uri: &Uri| uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let same_host = uri.host()?.eq_ignore_ascii_case(self.uri.host()?);
        let same = same_host && uri.scheme_str() == self.uri.scheme_str() && port(&uri) == port(&self.uri);
        let plain = !uri.authority()?.as_str().contains('@');
        (same && plain).then_some(uri)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_url_is_checked_before_anything_is_connected() {
        for good in ["http://localhost:1", "http://[::1]:80/mcp?x=1", "HTTP://example.com/"] {
            assert!(Endpoint::new(good).checked().is_ok(), "{good}");
        }
        for bad in ["", "/mcp", "localhost:80", "ftp://a/", "http://", "http://u:secret@h/", "http://a b/"] {
            let error = Endpoint::new(bad).checked().err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert_eq!(Endpoint::new("https://a/").checked().is_ok(), cfg!(feature = "tls"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn root_certificates_are_read_before_anything_is_connected() {
        for bad in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"] {
            let endpoint = Endpoint::new("https://h/").root_certificates(bad);
            assert_eq!(endpoint.checked().err().unwrap().kind(), ErrorKind::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn headers_that_would_smuggle_are_refused_and_secrets_are_not_shown() {
        for (name, value) in [("A", "x\r\nB: y"), ("A\r\nB", "x"), ("", "x"), ("A", "\0"), ("A b", "x")] {
            assert!(Endpoint::new("http://h/").header(name, value).checked().is_err(), "{name:?} {value:?}");
        }
        let endpoint =
            Endpoint::new("http://h/mcp?key=hidden").bearer_token("hidden").header("X-A", "hidden");
        let shown = format!("{endpoint:?} {:?}", endpoint.clone().checked().unwrap().headers().unwrap());
        assert!(!shown.contains("hidden") && shown.contains("X-A"), "{shown}");
    }

    #[test]
    fn headers_of_http_and_of_the_protocol_are_refused_in_words() {
        for name in [
            "Content-Length",
            "host",
            "Transfer-Encoding",
            "Connection",
            "TE",
            "Trailer",
            "Accept",
            "Content-Type",
            "Mcp-Session-Id",
            "MCP-Protocol-Version",
            "Mcp-Param-x",
            "Last-Event-ID",
            "Proxy-Authorization",
        ] {
            let endpoint = Endpoint::new("http://h/").header(name, "1");
            let error = endpoint.checked().err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
            assert!(error.to_string().contains(&name.to_ascii_lowercase()), "{error}");
            let source = Endpoint::new("http://h/").header_source(move || vec![(name.into(), "1".into())]);
            assert!(source.checked().unwrap().headers().is_err(), "{name}");
        }
    }

    #[test]
    fn the_source_replaces_fixed_headers() {
        let endpoint = Endpoint::new("http://h/").header("X-A", "1").header("X-B", "2");
        let endpoint = endpoint.header_source(|| vec![("x-a".into(), "3".into())]);
        let headers = endpoint.checked().unwrap().headers().unwrap();
        assert_eq!(headers.get("X-A").unwrap(), "3");
        assert_eq!(headers.get("X-B").unwrap(), "2");
        let endpoint = Endpoint::new("http://h/").header_source(|| vec![("x".into(), "\n".into())]);
        assert!(endpoint.checked().unwrap().headers().is_err());
    }

    #[test]
    fn redirects_stay_at_the_origin() {
        let target = Endpoint::new("http://h:80/mcp").checked().unwrap();
        let table = [
            ("/other?x=1", Some("http://h:80/other?x=1")),
            ("http://h/other", Some("http://h/other")),
            ("http://H:80/other", Some("http://H:80/other")),
            ("http://h:81/other", None),
            ("https://h:80/other", None),
            ("http://evil/other", None),
            ("//evil/other", None),
            ("http://u:p@h/other", None),
            ("other", None),
            ("", None),
        ];
        for (location, uri) in table {
            assert_eq!(target.redirected(location).map(|u| u.to_string()).as_deref(), uri, "{location}");
        }
    }
}
