//! The head of a request: what it says, what is refused, and how long the body is.
//!
//! The lines are split by `httparse`; this file adds the strictness that keeps two readers of one
//! request from seeing two different requests. What it does not do: judge hosts, paths or tokens.
//!
//! # Invariants
//! - A [`Head`] only exists for bytes that end with an empty line and have no bare line feed.
//! - Its framing is unambiguous: no length, one length, or chunked.

use std::net::SocketAddr;

/// Most header fields a head can have, whatever the limits say.
pub(super) const MOST_FIELDS: usize = 128;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Ip(SocketAddr),
    /// A process on this machine, over a Unix socket.
    Local,
}

/// A request without its body.
pub(crate) struct Head<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    /// The digit after `HTTP/1.`.
    pub(super) minor: u8,
    pub(super) fields: &'a [httparse::Header<'a>],
    pub(super) peer: Peer,
}

impl<'a> Head<'a> {
    pub(crate) fn method(&self) -> &'a str {
        self.method
    }

    /// The path, without the query.
    pub(crate) fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// What follows the question mark.
    pub(crate) fn query(&self) -> Option<&'a str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// Whether the peer speaks HTTP/1.0, which has no event streams with a visible end.
    pub(crate) fn is_http_10(&self) -> bool {
        self.minor == 0
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// The first value of a field, without the white space around it; the name in any case.
    pub(crate) fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// Every value of a field, in order: to see that one came twice.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |f| f.name.eq_ignore_ascii_case(name)).map(|f| f.value.trim_ascii())
    }

    /// Every field, in order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.fields.iter().map(|f| (f.name, f.value.trim_ascii()))
    }
}
