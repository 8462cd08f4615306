//! HTTP proxies: settings of an endpoint and of the environment, and the hosts without a proxy.
//!
//! Every request through a proxy uses a tunnel (CONNECT), also one to an `http` URL. The proxy
//! resolves the name of the server.
//!
//! Source: RFC 9110, section 9.3.6. The variables are those that curl and Go agree on.
//!
//! # Invariants
//! - This machine is reached directly: a proxy is usually another machine.
//! - No error message contains the URL of a proxy, which may have a password.
//! - An unusable proxy is an error. The client never falls back to a direct connection.

use std::net::IpAddr;

use ureq::http::Uri;
use ureq::http::uri::Authority;
use ureq::{Proxy, ProxyProtocol};

use crate::error::{Error, ErrorKind};

/// Source of the proxy of an endpoint.
#[derive(Clone, Default)]
pub(super) enum ProxySetting {
    #[default]
    Direct,
    Url(String),
    Environment,
}

impl ProxySetting {
    /// Returns the proxy for requests to a URL and to the URLs that its server sends.
    ///
    /// # Errors
    /// The URL of the proxy is invalid, or this build cannot use it.
    pub(super) fn of(&self, server: &Uri) -> Result<Option<Proxy>, Error> {
        match self {
            ProxySetting::Direct => Ok(None),
            ProxySetting::Url(_) if is_this_machine(bare_host(server)) => Ok(None),
            ProxySetting::Url(url) => parse(url, "proxy", &[]).map(Some),
            ProxySetting::Environment => of_variables(server, |name| std::env::var(name).ok()),
        }
    }
}

/// Returns the proxy that environment variables set for a URL.
fn of_variables(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Proxy>, Error> {
    let host = bare_host(server).to_ascii_lowercase();
    if is_this_machine(&host) {
        return Ok(None);
    }
    let names: &[&str] = match server.scheme_str() {
        Some("https") => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        // A web server that starts a CGI program sets HTTP_PROXY to the `Proxy` header of a
        // request.
        _ if variable("REQUEST_METHOD").is_some() => &["http_proxy", "all_proxy", "ALL_PROXY"],
        _ => &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let Some((name, url)) = names.iter().find_map(|name| Some((name, set(name)?))) else { return Ok(None) };
    let exempt = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
    let exempt: Vec<&str> = exempt.split([',', ' ']).filter(|entry| !entry.is_empty()).collect();
    if exempt.iter().any(|entry| covers(entry, &host)) {
        return Ok(None);
    }
    parse(&url, name, &exempt).map(Some)
}

/// Parses the URL of a proxy. `place` names the setting or variable in errors.
fn parse(url: &str, place: &str, exempt: &[&str]) -> Result<Proxy, Error> {
    let bad = |why: &str| Error::new(ErrorKind::Invalid, format!("invalid {place}: {why}"));
    let expected = "expected http://[USER:PASSWORD@]HOST:PORT";
    let given = Proxy::new(url).ok().filter(has_host_and_port).ok_or_else(|| bad(expected))?;
    match given.protocol() {
        ProxyProtocol::Http => {}
        ProxyProtocol::Https if cfg!(feature = "tls") => {}
        ProxyProtocol::Https => return Err(bad("https requires the feature `tls`, which this build lacks")),
        _ => return Err(bad("SOCKS is not supported; expected http:// or https://")),
    }
    let mut proxy = Proxy::builder(given.protocol()).host(given.host()).port(given.port());
    if let Some(user) = given.username() {
        proxy = proxy.username(user).password(given.password().unwrap_or_default());
    }
    for entry in exempt.iter().chain(&["localhost", "127.0.0.1", "[::1]"]) {
        let name = entry.trim_start_matches("*.").trim_start_matches('.');
        // Each entry covers its subdomains as well; ureq has a separate form for those.
        proxy = proxy.no_proxy(name).no_proxy(&format!(".{name}"));
    }
    proxy.build().map_err(|_| bad(expected))
}

/// Checks host and port: ureq accepts an empty host and ignores a port that is not a number.
fn has_host_and_port(proxy: &Proxy) -> bool {
    let authority = proxy.uri().authority();
    let is_port = |a: &Authority| a.port_u16().is_some() || a.as_str().ends_with(a.host());
    authority.is_some_and(is_port) && !proxy.host().is_empty()
}

/// Returns whether an entry of `NO_PROXY` covers a host. An entry is `*`, a name, which covers its
/// subdomains, an address, or a network such as `10.0.0.0/8`.
fn covers(entry: &str, host: &str) -> bool {
    if entry == "*" {
        return true;
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        let (network, length) = entry.split_once('/').unwrap_or((entry, ""));
        let network = network.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        return network.is_ok_and(|network| contains(network, length, address));
    }
    let name = entry.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
    let above = host.strip_suffix(&name);
    !name.is_empty() && above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// Returns whether a network contains an address. An empty `length` means all bits.
fn contains(network: IpAddr, length: &str, address: IpAddr) -> bool {
    let (network, address, bits) = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u128::from(u32::from(network)), u128::from(u32::from(address)), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (u128::from(network), u128::from(address), 128),
        _ => return false,
    };
    let length = if length.is_empty() { Some(bits) } else { length.parse::<u32>().ok() };
    let rest = length.and_then(|length| bits.checked_sub(length));
    // `checked_shr`, because the shift is by all bits for a network of length 0.
    rest.is_some_and(|rest| (network ^ address).checked_shr(rest).unwrap_or_default() == 0)
}

/// Returns the host of a URL, without the brackets of an IPv6 address.
pub(super) fn bare_host(uri: &Uri) -> &str {
    let host = uri.host().unwrap_or_default();
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

/// Returns whether a host is this machine by its name or address.
pub(super) fn is_this_machine(host: &str) -> bool {
    let is_name = |name: &str| {
        let above = host.len().checked_sub(name.len()).and_then(|at| host.split_at_checked(at));
        above.is_some_and(|(above, end)| {
            end.eq_ignore_ascii_case(name) && (above.is_empty() || above.ends_with('.'))
        })
    };
    host.parse::<IpAddr>().map_or_else(|_| is_name("localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns the proxy of a URL with these variables, as `HOST:PORT`, or the error.
    fn chosen(url: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let proxy = of_variables(&url.parse().unwrap(), variable).map_err(|error| error.to_string())?;
        Ok(proxy.map(|proxy| format!("{}:{}", proxy.host(), proxy.port())))
    }

    #[test]
    fn variables_are_chosen_by_the_scheme() {
        let all = [
            ("HTTPS_PROXY", "http://secure:1"),
            ("HTTP_PROXY", "plain:2"),
            ("http_proxy", ""),
            ("ALL_PROXY", "http://all:3"),
        ];
        assert_eq!(chosen("https://h/", &all), Ok(Some("secure:1".to_owned())));
        assert_eq!(chosen("http://h/", &all), Ok(Some("plain:2".to_owned())));
        assert_eq!(chosen("https://h/", &all[1..]), Ok(Some("all:3".to_owned())));
        assert_eq!(chosen("https://h/", &all[1..3]), Ok(None));
        assert_eq!(chosen("https://h/", &[("https_proxy", "a:1"), all[0]]), Ok(Some("a:1".to_owned())));
        // A header of a CGI request.
        assert_eq!(chosen("http://h/", &[all[1], ("REQUEST_METHOD", "GET")]), Ok(None));
        for here in ["http://localhost:8080/", "http://a.localhost/", "http://127.1.2.3/", "http://[::1]:80/"]
        {
            assert_eq!(chosen(here, &all), Ok(None), "{here}");
        }
    }

    #[test]
    fn exempt_hosts_are_reached_directly() {
        for (list, url, direct) in [
            ("*", "https://h/", true),
            ("example.com", "https://example.com/", true),
            ("example.com", "https://MCP.Example.com:8443/", true),
            (".example.com", "https://mcp.example.com/", true),
            ("*.example.com", "https://mcp.example.com/", true),
            ("x, example.com", "https://example.com/", true),
            ("example.com", "https://notexample.com/", false),
            ("example.com", "https://example.com.evil/", false),
            ("", "https://h/", false),
            (",", "https://h/", false),
            (".", "https://h/", false),
            ("10.0.0.0/8", "https://10.1.2.3/", true),
            ("10.0.0.0/8", "https://11.1.2.3/", false),
            ("0.0.0.0/0", "https://11.1.2.3/", true),
            ("10.0.0.0/33", "https://10.0.0.0/", false),
            ("10.0.0.0/-1", "https://10.0.0.0/", false),
            ("10.1.2.3", "https://10.1.2.3/", true),
            ("0.1.2.3", "https://10.1.2.3/", false),
            ("fd00::/8", "https://[fd12::1]/", true),
            ("[fd12::1]", "https://[fd12::1]/", true),
            ("fd00::/8", "https://[fe12::1]/", false),
            ("::/0", "https://[fe12::1]/", true),
        ] {
            let proxy = chosen(url, &[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", list)]).unwrap();
            assert_eq!(proxy.is_none(), direct, "{list} {url}");
        }
    }

    #[test]
    fn exempt_hosts_apply_to_urls_of_the_server() {
        let proxy = parse("http://u%40x:p%3Aw@p:1", "proxy", &["corp.example", "10.0.0.1"]).unwrap();
        assert_eq!((proxy.username(), proxy.password()), (Some("u@x"), Some("p:w")));
        let direct = |url: &str| proxy.is_no_proxy(&url.parse().unwrap());
        for url in
            ["https://corp.example/", "https://as.corp.example/", "https://10.0.0.1/", "http://[::1]:5/"]
        {
            assert!(direct(url), "{url}");
        }
        assert!(!direct("https://other.example/"));
    }

    #[test]
    fn an_unusable_proxy_is_an_error_without_its_url() {
        for url in ["socks5://secret:1", "http://", "ftp://secret/", "http://secret:x/", "http://secret@"] {
            let error = chosen("https://h/", &[("HTTPS_PROXY", url)]).unwrap_err();
            assert!(error.contains("HTTPS_PROXY") && !error.contains("secret"), "{url}: {error}");
        }
        let https = chosen("https://h/", &[("HTTPS_PROXY", "https://p:1")]);
        assert_eq!(https.is_ok(), cfg!(feature = "tls"));
    }
}
