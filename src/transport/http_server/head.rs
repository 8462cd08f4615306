//! Request heads: parsing, strict checks, framing of the body.
//!
//! `httparse` splits the lines. The checks here reject every head that two HTTP implementations
//! could read differently. The service checks hosts, paths and tokens.
//!
//! # Invariants
//! - The bytes of a [`Head`] end with an empty line and contain no bare line feed.
//! - Its framing is unambiguous: no length, one length, or chunked.

use std::mem::MaybeUninit;

use memchr::memchr;

use super::response_head::ResponseOptions;

/// Upper bound of `HttpLimits::head_fields`.
const MAX_FIELDS: usize = 128;

/// LoopContext for the fields of a head that is being parsed.
pub(super) type Fields<'b> = [MaybeUninit<httparse::Header<'b>>; MAX_FIELDS];

pub(super) const fn field_buffer<'b>() -> Fields<'b> {
    [const { MaybeUninit::uninit() }; MAX_FIELDS]
}

/// Status that a request is rejected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatusError(pub u16);

/// Head of a request.
pub(crate) struct Head<'a> {
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    /// The digit after `HTTP/1.`.
    pub(super) minor: u8,
    pub(super) fields: &'a [httparse::Header<'a>],
}

impl<'a> Head<'a> {
    pub(crate) fn method(&self) -> &'a str {
        self.method
    }

    /// Returns the path without the query. It is `*` for a request about the server itself.
    pub(crate) fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// Returns the first value of a field without surrounding white space. Names are
    /// case-insensitive.
    pub(crate) fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// Returns every value of a field in order.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |f| f.name.eq_ignore_ascii_case(name)).map(|f| f.value.trim_ascii())
    }
}

/// Framing of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Bytes of the body; zero without one. Saturates: every such length is too large.
    Length(u64),
    Chunked,
}

/// Properties of a request that the transport needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestOptions {
    pub framing: Framing,
    /// The peer waits for 100 before it sends the body.
    pub expects_continue: bool,
    pub response: ResponseOptions,
}

/// Finds the end of a head. `searched` is the start of the first line that was incomplete, where
/// the next search continues.
pub(super) fn find_end(bytes: &[u8], searched: &mut usize) -> Result<Option<usize>, StatusError> {
    // A peer with another protocol, such as TLS, gets an error at once.
    if bytes.first().is_some_and(|b| !is_token(*b)) {
        return Err(StatusError(400));
    }
    while let Some(length) = bytes.get(*searched..).and_then(|line| memchr(b'\n', line)) {
        let (start, end) = (*searched, *searched + length);
        // A bare line feed MAY be accepted (RFC 9112, 2.2). It is rejected here, because two
        // implementations that differ could see two different requests.
        if end == start || bytes[end - 1] != b'\r' {
            return Err(StatusError(400));
        }
        *searched = end + 1;
        if end - start == 1 {
            return Ok(Some(end + 1));
        }
    }
    Ok(None)
}

/// Returns whether this byte may occur in a method or a field name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Parses a whole head, including its empty line.
pub(super) fn parse<'a>(
    bytes: &'a [u8],
    space: &'a mut Fields<'a>,
    max_fields: usize,
) -> Result<(Head<'a>, RequestOptions), StatusError> {
    let mut request = httparse::Request::new(&mut []);
    let room = space.get_mut(..max_fields.min(MAX_FIELDS)).unwrap_or_default();
    match request.parse_with_uninit_headers(bytes, room) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Ok(_) => return Err(StatusError(400)),
        Err(httparse::Error::TooManyHeaders) => return Err(StatusError(431)),
        Err(httparse::Error::Version) if names_a_version(bytes) => return Err(StatusError(505)),
        Err(_) => return Err(StatusError(400)),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(StatusError(400));
    };
    let fields: &'a [httparse::Header<'a>] = request.headers;
    let mut head = Head { method, target, minor, fields };
    head.check_target()?;
    let options = head.options()?;
    Ok((head, options))
}

/// Returns whether the request line has three parts and the last is a version of HTTP.
fn names_a_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut parts = line.split(|b| *b == b' ').skip(2);
    let version = parts.next().unwrap_or_default();
    let shaped = matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit());
    shaped && parts.next().is_none()
}

impl<'a> Head<'a> {
    /// Checks host and target, and reduces `target` to path and query.
    fn check_target(&mut self) -> Result<(), StatusError> {
        let mut hosts = self.all("host");
        let host = hosts.next();
        // The response MUST be 400 (RFC 9112, 3.2).
        if hosts.next().is_some() || host.is_none() && self.minor > 0 {
            return Err(StatusError(400));
        }
        drop(hosts);
        if !self.target.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            return Err(StatusError(400));
        }
        if self.target.starts_with('/') || self.target == "*" && self.method == "OPTIONS" {
            return Ok(());
        }
        // The absolute form MUST be accepted (RFC 9112, 3.2.2). Its host must match the field.
        let Some((scheme, rest)) = self.target.split_once("://") else { return Err(StatusError(400)) };
        let known = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if !known || host.is_some_and(|h| !h.eq_ignore_ascii_case(authority.as_bytes())) {
            return Err(StatusError(400));
        }
        self.target = if path.is_empty() { "/" } else { path };
        if self.target.starts_with('/') { Ok(()) } else { Err(StatusError(400)) }
    }

    fn options(&self) -> Result<RequestOptions, StatusError> {
        let framing = self.framing()?;
        let mut keep_alive = self.minor > 0;
        let values = self.all("connection").flat_map(|value| value.split(|b| *b == b','));
        for option in values.map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                keep_alive = false;
                break;
            }
            keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
        let mut expects_continue = false;
        for value in self.all("expect") {
            // The response MAY be 417; HTTP/1.0 requests MUST be served (RFC 9110, 10.1.1).
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(StatusError(417));
            }
            expects_continue = self.minor > 0;
        }
        let response =
            ResponseOptions { http_10: self.minor == 0, head_only: self.method == "HEAD", keep_alive };
        Ok(RequestOptions { framing, expects_continue, response })
    }

    /// Determines the framing. Two lengths, or a length beside chunks, can smuggle a request past a
    /// proxy. They are rejected even where RFC 9112, 6.3 prescribes an interpretation.
    fn framing(&self) -> Result<Framing, StatusError> {
        let mut codings = self.all("transfer-encoding");
        let mut lengths = self.all("content-length");
        match (codings.next(), lengths.next()) {
            (None, None) => Ok(Framing::Length(0)),
            (Some(coding), None) => {
                if self.minor == 0 || codings.next().is_some() {
                    return Err(StatusError(400));
                }
                if coding.eq_ignore_ascii_case(b"chunked") {
                    return Ok(Framing::Chunked);
                }
                // The response to an unknown coding SHOULD be 501 (RFC 9112, 6.1).
                let named = !coding.is_empty() && coding.iter().all(|b| is_token(*b));
                Err(StatusError(if named { 501 } else { 400 }))
            }
            (None, Some(length)) if lengths.next().is_none() => {
                if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
                    return Err(StatusError(400));
                }
                let add = |n: u64, digit: &u8| n.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
                Ok(Framing::Length(length.iter().fold(0, add)))
            }
            _ => Err(StatusError(400)),
        }
    }
}
