//! URL of a server, and the headers of every request to it.
//!
//! Values are checked once, before the first connection.
//!
//! # Invariants
//! - No secret is shown by `Debug`, in an error or in a log: values are marked as sensitive.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::connector::Reach;
use super::proxy::ProxySetting;
use super::sign_in::CredentialSource;
use super::tls::{TlsConfig, TlsSettings};
use crate::error::{Error, ErrorKind};
use ureq::Proxy;
use ureq::http::{HeaderMap, HeaderName, HeaderValue, Uri};

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
    socket: Option<PathBuf>,
    proxy: ProxySetting,
    pub(super) tls: TlsSettings,
    pub(super) credentials: CredentialSource,
}

/// Prefix of the address of a Unix socket, as servers write it.
const UNIX: &str = "unix:";

/// Returns headers for one request.
type Source = Arc<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

impl Endpoint {
    /// Creates an endpoint with this URL: `http`, or `https` with the feature `tls`. The URL is
    /// checked when a client connects. Connections are direct, unless [`Endpoint::proxy`] or
    /// [`Endpoint::proxy_from_env`] sets a proxy.
    ///
    /// `unix:/run/mcp.sock` means the server at this Unix socket, with the path `/mcp`. For another
    /// path see [`Endpoint::unix_socket`].
    pub fn new(url: impl Into<String>) -> Endpoint {
        Endpoint {
            url: url.into(),
            headers: Vec::new(),
            source: None,
            reach: Reach::Everywhere,
            socket: None,
            proxy: ProxySetting::Direct,
            tls: TlsSettings::none(),
            credentials: CredentialSource::none(),
        }
    }

    /// Sends `Authorization: Bearer …` with every request. The token is sent only to the origin of
    /// this URL (2026-07-28 basic/authorization).
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
    /// when it is connected to, so a change of the DNS record cannot bypass the check. A proxy
    /// resolves names itself, so an endpoint that also uses one is an error when a client connects.
    #[must_use]
    pub fn public_addresses_only(mut self) -> Endpoint {
        self.reach = Reach::Public;
        self
    }

    /// Connects to a server of this machine at a Unix socket, regardless of the host in the URL.
    /// The URL sets the path, the field `Host` and, with `https`, the name in the certificate. No
    /// name is resolved and no proxy is used. Supported on Unix only.
    ///
    /// ```
    /// use tinymcp::Endpoint;
    ///
    /// let endpoint = Endpoint::new("http://localhost/board/mcp").unix_socket("/run/board.sock");
    /// // The same for the path /mcp.
    /// let endpoint = Endpoint::new("unix:/run/board.sock");
    /// ```
    #[must_use]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Endpoint {
        self.socket = Some(path.into());
        self
    }

    /// Connects through an HTTP proxy, `http://[USER:PASSWORD@]HOST:PORT`, or `https` with the
    /// feature `tls`. Every request uses a tunnel (CONNECT). A server on this machine is reached
    /// directly.
    ///
    /// Addresses behind the proxy are unknown to the client: sign-in then rejects URLs with an
    /// address that is not public, and leaves names to the proxy.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Endpoint {
        self.proxy = ProxySetting::Url(url.into());
        self
    }

    /// Connects through the HTTP proxy that the environment sets, as [`Endpoint::proxy`] does. The
    /// variables are read when a client connects:
    ///
    /// - `HTTPS_PROXY` or `HTTP_PROXY`, by the scheme of the URL, otherwise `ALL_PROXY`.
    /// - `NO_PROXY`: hosts without a proxy. Entries are names, which include their subdomains,
    ///   addresses, and networks such as `10.0.0.0/8`.
    ///
    /// The lower-case form of a variable has precedence.
    #[must_use]
    pub fn proxy_from_env(mut self) -> Endpoint {
        self.proxy = ProxySetting::Environment;
        self
    }

    /// Returns the URL that [`Endpoint::new`] received.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the values of the fixed headers.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn header_values(&self) -> Vec<String> {
        self.headers.iter().map(|(_, value)| value.clone()).collect()
    }

    pub(super) fn checked(mut self) -> Result<Target, Error> {
        let bad = |why: &str| Error::new(ErrorKind::Invalid, format!("invalid server URL: {why}"));
        if let Some(path) = self.url.strip_prefix(UNIX) {
            if path.is_empty() {
                return Err(bad("missing path after unix:"));
            }
            self.socket = Some(path.into());
            self.url = "http://localhost/mcp".to_owned();
        }
        if self.socket.is_some() && cfg!(not(unix)) {
            return Err(bad("Unix sockets are not supported on this system"));
        }
        let uri: Uri = self.url.parse().map_err(|_| bad("not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => return Err(bad("https requires the feature `tls`, which this build lacks")),
            _ => return Err(bad("it must begin with http://, https:// or unix:")),
        }
        let Some(authority) = uri.authority().filter(|a| !a.host().is_empty()) else {
            return Err(bad("missing host"));
        };
        if authority.as_str().contains('@') {
            return Err(bad("credentials in a URL would be logged; use a header"));
        }
        if self.socket.is_some() && matches!(self.reach, Reach::Public) {
            let why = "`public_addresses_only` excludes a Unix socket: it is on this machine";
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        let proxy = if self.socket.is_some() { None } else { self.proxy.of(&uri)? };
        if proxy.is_some() && matches!(self.reach, Reach::Public) {
            let why =
                "`public_addresses_only` excludes a proxy: it hides the addresses that are connected to";
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        let mut headers = HeaderMap::new();
        add(&mut headers, &self.headers)?;
        Ok(Target {
            uri,
            credentials: self.credentials.unless_fixed(&headers),
            headers,
            source: self.source,
            reach: self.socket.map_or(self.reach, |path| Reach::Socket(path.into())),
            proxy,
            tls: self.tls.checked()?,
        })
    }
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

/// Returns whether HTTP or the protocol sets this header. The name is in lower case.
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

/// Checked endpoint.
pub(super) struct Target {
    pub uri: Uri,
    pub reach: Reach,
    /// Proxy, unless the server is reached directly.
    pub proxy: Option<Proxy>,
    pub tls: TlsConfig,
    pub credentials: CredentialSource,
    headers: HeaderMap,
    source: Option<Source>,
}

impl Target {
    /// Returns the program's headers.
    ///
    /// # Errors
    /// The function of [`Endpoint::header_source`] returned a header that is invalid or reserved.
    pub(super) fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = self.headers.clone();
        if let Some(source) = &self.source {
            add(&mut headers, &source())?;
        }
        Ok(headers)
    }

    /// Returns the URL of a redirect, if it has the same origin.
    pub(super) fn redirected(&self, location: &str) -> Option<Uri> {
        // A path of this server. Two slashes would precede the name of another host.
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
    fn an_invalid_url_is_rejected() {
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

    #[cfg(unix)]
    #[test]
    fn a_unix_socket_needs_neither_a_proxy_nor_a_public_address() {
        let short = Endpoint::new("unix:/run/x.sock").proxy("http://p:1").checked().unwrap();
        assert_eq!((short.uri.to_string().as_str(), short.proxy), ("http://localhost/mcp", None));
        let is_socket = |reach: &Reach| matches!(reach, Reach::Socket(path) if path.ends_with("run/x.sock"));
        assert!(is_socket(&short.reach));
        let long = Endpoint::new("http://h/a").unix_socket("/run/x.sock").checked().unwrap();
        assert!(long.uri.path() == "/a" && is_socket(&long.reach));
        for bad in [Endpoint::new("unix:"), Endpoint::new("unix:/run/x.sock").public_addresses_only()] {
            assert_eq!(bad.checked().err().unwrap().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn public_addresses_are_not_checked_through_a_proxy() {
        let proxied = |url: &str| Endpoint::new(url).proxy("http://p:1");
        assert_eq!(
            proxied("http://h/").public_addresses_only().checked().err().unwrap().kind(),
            ErrorKind::Invalid
        );
        assert!(proxied("http://h/").checked().unwrap().proxy.is_some());
        assert!(proxied("http://localhost/").checked().unwrap().proxy.is_none());
        let direct = Endpoint::new("http://h/").public_addresses_only().checked().unwrap();
        assert!(direct.proxy.is_none());
    }

    #[test]
    fn headers_with_line_ends_are_rejected_and_secrets_are_not_shown() {
        for (name, value) in [("A", "x\r\nB: y"), ("A\r\nB", "x"), ("", "x"), ("A", "\0"), ("A b", "x")] {
            assert!(Endpoint::new("http://h/").header(name, value).checked().is_err(), "{name:?} {value:?}");
        }
        let endpoint =
            Endpoint::new("http://h/mcp?key=hidden").bearer_token("hidden").header("X-A", "hidden");
        let shown = format!("{endpoint:?} {:?}", endpoint.clone().checked().unwrap().headers().unwrap());
        assert!(!shown.contains("hidden") && shown.contains("X-A"), "{shown}");
    }

    #[test]
    fn the_error_for_a_reserved_header_names_it() {
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
    fn redirects_are_limited_to_the_origin() {
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
