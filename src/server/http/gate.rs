//! Who may come in: the hosts and origins that requests may name.
//!
//! A page of a foreign site can make a browser send requests to this server, under the site's own
//! name if its DNS says that the name is this machine (DNS rebinding). So the `Host` that a request
//! names must be one of ours, and its `Origin`, if it has one, too (MCP 2026-07-28 and 2025-11-25
//! basic/transports, security). What it does not: tell who a client is; see `auth.rs`.

/// The hosts that everybody may name: this machine's own names for itself.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Hosts and origins that requests may name.
#[derive(Debug, Default)]
pub(super) struct Gate {
    hosts: Vec<String>,
    origins: Vec<String>,
    any_host: bool,
}

impl Gate {
    /// Lets requests to this host in, with the port it names or any; also from pages of this host.
    pub(super) fn allow_host(&mut self, host: String) {
        self.hosts.push(host);
    }

    /// Lets requests from pages of this origin in.
    pub(super) fn allow_origin(&mut self, origin: String) {
        self.origins.push(origin);
    }

    /// Looks at hosts no more: somebody in front of this server does.
    pub(super) fn allow_any_host(&mut self) {
        self.any_host = true;
    }

    /// Whether nothing but this machine's own names are let in.
    pub(super) fn is_local(&self) -> bool {
        self.hosts.is_empty() && !self.any_host
    }

    /// Whether a request that names this host may come in.
    pub(super) fn admits_host(&self, host: Option<&str>) -> bool {
        self.any_host || host.is_some_and(|host| self.knows(host))
    }

    /// Whether a request from a page of this origin may come in, or one from no page.
    pub(super) fn admits_origin(&self, origin: Option<&str>) -> bool {
        origin.is_none_or(|origin| {
            self.names(origin) || origin.split_once("://").is_some_and(|(_, host)| self.knows(host))
        })
    }

    /// Whether the program has named this very origin, whose pages may then read the answers.
    pub(super) fn names(&self, origin: &str) -> bool {
        self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }

    fn knows(&self, host: &str) -> bool {
        let Some((name, _)) = split(host) else { return false };
        LOCAL.iter().any(|local| local.eq_ignore_ascii_case(name))
            || self.hosts.iter().any(|known| match split(known) {
                Some((_, Some(_))) => known.eq_ignore_ascii_case(host),
                Some((known, None)) => known.eq_ignore_ascii_case(name),
                None => false,
            })
    }
}

/// Name and port of a host as requests name it (RFC 9110 §7.2); `None` if it cannot be one.
fn split(host: &str) -> Option<(&str, Option<&str>)> {
    let end = match host.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => host.find(':').unwrap_or(host.len()),
    };
    let (name, rest) = host.split_at_checked(end)?;
    let port = match rest {
        "" => None,
        rest => Some(rest.strip_prefix(':')?),
    };
    let valid = !name.is_empty()
        && !name.contains(['/', '@', '?', '#', ' '])
        && port.is_none_or(|port| port.parse::<u16>().is_ok());
    valid.then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hosts_and_origins_come_in() {
        let mut gate = Gate::default();
        gate.allow_host("Board.example".to_owned());
        gate.allow_host("other.example:8443".to_owned());
        gate.allow_origin("https://app.example".to_owned());
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
            ("[::1", None, false),
            ("[::1]x", None, false),
            ("", None, false),
        ] {
            let comes_in = gate.admits_host(Some(host)) && gate.admits_origin(origin);
            assert_eq!(comes_in, admitted, "{host:?} {origin:?}");
        }
        assert!(gate.names("https://APP.example") && !gate.names("http://localhost"));
        assert!(!gate.admits_host(None));
        gate.allow_any_host();
        assert!(gate.admits_host(None) && gate.admits_host(Some("evil.example")));
        assert!(!gate.admits_origin(Some("http://evil.example")));
    }
}
