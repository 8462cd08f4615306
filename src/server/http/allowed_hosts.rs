//! Allowed hosts and origins of requests, against DNS rebinding.
//!
//! A foreign page can make a browser send requests to this server, even under the page's own host
//! name if DNS maps that name to this machine. So the `Host` of a request must be allowed, and its
//! `Origin` if it has one (MCP 2026-07-28 and 2025-11-25 basic/transports, security).

/// Hosts that are always allowed: the loopback names.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Hosts and origins that requests may name.
#[derive(Debug, Default)]
pub(super) struct AllowedHosts {
    hosts: Vec<String>,
    origins: Vec<String>,
    any_host: bool,
}

impl AllowedHosts {
    /// Allows requests to this host, with its port or, without one, any port. Also allows requests
    /// from pages of this host.
    pub(super) fn allow_host(&mut self, host: String) {
        self.hosts.push(host);
    }

    /// Allows requests from pages of this origin.
    pub(super) fn allow_origin(&mut self, origin: String) {
        self.origins.push(origin);
    }

    /// Allows every host, for a server behind a reverse proxy that checks it.
    pub(super) fn allow_any_host(&mut self) {
        self.any_host = true;
    }

    /// Returns whether only the loopback names are allowed.
    pub(super) fn is_local(&self) -> bool {
        self.hosts.is_empty() && !self.any_host
    }

    /// Returns whether requests to this host are allowed.
    pub(super) fn admits_host(&self, host: Option<&[u8]>) -> bool {
        self.any_host || host.is_some_and(|host| self.knows(host))
    }

    /// Returns whether requests from this origin are allowed. Without an origin they are.
    pub(super) fn admits_origin(&self, origin: Option<&str>) -> bool {
        origin.is_none_or(|origin| {
            self.lists(origin) || split_origin(origin).is_some_and(|(web, host)| web && self.knows(host))
        })
    }

    /// Returns whether this origin was allowed by name, so that its pages may read the responses.
    pub(super) fn lists(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    /// Checks the allowed hosts and origins. A malformed one would match no request.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(host) = self.hosts.iter().find(|host| !is_valid(host.as_bytes())) {
            return Err(format!("invalid host {host:?}: expected HOST or HOST:PORT"));
        }
        let valid = |origin: &str| origin == "null" || split_origin(origin).is_some();
        match self.origins.iter().find(|origin| !valid(origin)) {
            Some(origin) => {
                Err(format!("invalid origin {origin:?}: expected SCHEME://HOST or SCHEME://HOST:PORT"))
            }
            None => Ok(()),
        }
    }

    fn knows(&self, host: &[u8]) -> bool {
        let Some((name, port)) = split(host) else { return false };
        LOCAL.iter().any(|local| local.as_bytes().eq_ignore_ascii_case(name))
            || self.hosts.iter().filter_map(|known| split(known.as_bytes())).any(|(known, its_port)| {
                known.eq_ignore_ascii_case(name) && (its_port.is_none() || its_port == port)
            })
    }
}

/// Splits `Host` into name and port (RFC 9110, 7.2); `None` if the port is malformed. The dot that
/// ends an absolute DNS name is not part of the result.
fn split(host: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let end = match host {
        [b'[', ..] => host.iter().position(|byte| *byte == b']')? + 1,
        _ => host.iter().position(|byte| *byte == b':').unwrap_or(host.len()),
    };
    let (name, rest) = host.split_at_checked(end)?;
    let port = match rest {
        [] => None,
        [b':', digits @ ..] if !digits.is_empty() => Some(digits.iter().try_fold(0, add_digit)?),
        _ => return None,
    };
    Some((name.strip_suffix(b".").unwrap_or(name), port))
}

/// Appends a decimal digit to a port.
fn add_digit(port: u16, digit: &u8) -> Option<u16> {
    let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
    port.checked_mul(10)?.checked_add(u16::from(digit))
}

/// Returns whether this is a valid host, with or without a port.
fn is_valid(host: &[u8]) -> bool {
    split(host).is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.ends_with(b".")
            && name.iter().all(|b| b.is_ascii_graphic() && !b"/@?#".contains(b))
    })
}

/// Splits `Origin` (RFC 6454, 6.1). Returns whether its scheme is `http` or `https`, and its host;
/// `None` if it is malformed.
fn split_origin(origin: &str) -> Option<(bool, &[u8])> {
    let (scheme, host) = origin.split_once("://")?;
    let host = host.as_bytes();
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let web = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    (valid && is_valid(host)).then_some((web, host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_hosts_and_origins_are_admitted() {
        let mut allowed = AllowedHosts::default();
        allowed.allow_host("Board.example".to_owned());
        allowed.allow_host("other.example:8443".to_owned());
        allowed.allow_origin("https://app.example".to_owned());
        for (host, origin, admitted) in [
            ("localhost", None, true),
            ("LOCALHOST:80", None, true),
            ("127.0.0.1:8080", None, true),
            ("[::1]:8080", None, true),
            ("[::1]", Some("http://[::1]:3000"), true),
            ("board.example:1234", None, true),
            ("board.example", Some("https://BOARD.example"), true),
            ("other.example:8443", None, true),
            ("other.example:8444", None, false),
            ("other.example", None, false),
            ("localhost", Some("https://app.example"), true),
            ("localhost", Some("http://app.example"), false),
            ("localhost", Some("https://app.example.evil"), false),
            ("localhost", Some("null"), false),
            ("localhost", Some(""), false),
            ("localhost", Some("http://localhost:5173"), true),
            ("localhost", Some("http://evil.example"), false),
            ("localhost", Some("http://localhost@evil.example"), false),
            ("localhost", Some("http://localhost:80@evil.example"), false),
            ("evil.example", None, false),
            ("localhost.evil.example", None, false),
            ("localhost:x", None, false),
            ("localhost:", None, false),
            ("localhost:80:80", None, false),
            ("127.0.0.1.evil.example", None, false),
            ("localhost:+80", None, false),
            ("localhost:-0", None, false),
            ("localhost:65536", None, false),
            ("localhost.", None, true),
            ("localhost.:80", None, true),
            ("Board.Example.:80", None, true),
            ("other.example.:8443", None, true),
            ("localhost..", None, false),
            (".", None, false),
            (".:80", None, false),
            ("localhost\t", None, false),
            ("localhost", Some("http://localhost.:5173"), true),
            ("localhost", Some("https://LocalHost"), true),
            ("localhost", Some("HTTP://localhost"), true),
            ("localhost", Some("://localhost"), false),
            ("localhost", Some("javascript://localhost"), false),
            ("localhost", Some("file://localhost"), false),
            ("localhost", Some("x http://localhost"), false),
            ("localhost", Some("http://localhost:+80"), false),
            ("localhost", Some("http://localhost/"), false),
            ("localhost", Some("http://"), false),
            ("[::1", None, false),
            ("[::1]x", None, false),
            ("", None, false),
        ] {
            let admits = allowed.admits_host(Some(host.as_bytes())) && allowed.admits_origin(origin);
            assert_eq!(admits, admitted, "{host:?} {origin:?}");
        }
        assert!(allowed.lists("https://APP.example") && !allowed.lists("http://localhost"));
        assert!(!allowed.admits_host(None));
        allowed.allow_any_host();
        assert!(allowed.admits_host(None) && allowed.admits_host(Some(b"evil.example")));
        assert!(!allowed.admits_origin(Some("http://evil.example")));
    }

    #[test]
    fn malformed_allowed_hosts_and_origins_are_errors() {
        for (host, origin, valid) in [
            ("board.example", "https://app.example", true),
            ("[fd00::1]:8443", "chrome-extension://abcdef", true),
            ("board.example", "null", true),
            ("https://board.example", "null", false),
            ("board.example:http", "null", false),
            ("", "null", false),
            ("board.example", "app.example", false),
            ("board.example", "https://app.example/", false),
            ("board.example", "", false),
        ] {
            let mut allowed = AllowedHosts::default();
            allowed.allow_host(host.to_owned());
            allowed.allow_origin(origin.to_owned());
            assert_eq!(allowed.check().is_ok(), valid, "{host:?} {origin:?}");
        }
    }
}
