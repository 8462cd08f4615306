//! Request heads: parsing, strict checks, framing of the body.
//!
//! `httparse` splits the lines and trims the values. One pass over the fields finds those that are
//! read for every request. The checks here reject every head that two HTTP implementations could
//! interpret differently. The service checks hosts, paths and tokens.
//!
//! # Invariants
//! - The bytes of a [`Head`] end with an empty line and contain no bare line feed.
//! - Its framing is unambiguous: no length, one length, or chunked.

use std::mem::MaybeUninit;

use memchr::memchr;

use super::response_head::ResponseOptions;

/// Upper bound of `HttpLimits::head_fields`.
const MAX_FIELDS: usize = 128;

/// Buffer for the fields of a head that is being parsed.
pub(super) type Fields<'b> = [MaybeUninit<httparse::Header<'b>>; MAX_FIELDS];

pub(super) const fn field_buffer<'b>() -> Fields<'b> {
    [const { MaybeUninit::uninit() }; MAX_FIELDS]
}

/// Status that a request is rejected with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StatusError(pub u16);

/// Head of a request.
pub(crate) struct Head<'a> {
    pub(crate) method: &'a str,
    pub(super) target: &'a str,
    /// The digit after `HTTP/1.`.
    pub(super) minor: u8,
    pub(super) fields: &'a [httparse::Header<'a>],
    pub(crate) known: KnownFields<'a>,
}

/// Stored value of a field that occurs twice although it may occur once. No check accepts a control
/// character, and no received value contains NUL.
const REPEATED: &[u8] = b"\0";

/// Fields that are read for every request.
#[derive(Default)]
pub(crate) struct KnownFields<'a> {
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) origin: Option<&'a [u8]>,
    pub(crate) content_type: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
    transfer_encoding: Option<&'a [u8]>,
    accepts: Option<Accepts>,
    /// `Content-Encoding` names a coding other than `identity`.
    pub(crate) is_encoded: bool,
    /// Options of the field `Connection`.
    close: bool,
    keep_alive: bool,
    /// The field `Expect` is present.
    expects: bool,
    /// Its value is not `100-continue`.
    expects_other: bool,
}

/// Media types that a client accepts, of those that a server sends here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepts {
    pub(crate) json: bool,
    pub(crate) events: bool,
}

impl<'a> Head<'a> {
    /// Returns the path without the query. It is `*` for a request about the server itself.
    pub(crate) fn path(&self) -> &'a str {
        let end = self.target.bytes().position(|byte| byte == b'?').unwrap_or(self.target.len());
        &self.target[..end]
    }

    /// Returns the value of a field that may occur once, without surrounding white space. Names are
    /// case-insensitive. The value of a repeated field is one that no check accepts.
    pub(crate) fn field(&self, name: &str) -> Option<&'a [u8]> {
        let mut fields = self.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        let first = fields.next().map(|field| field.value);
        if fields.next().is_some() { Some(REPEATED) } else { first }
    }

    /// Returns the media types that the client accepts: all without `Accept` (RFC 9110 §12.5.1).
    pub(crate) fn accepts(&self) -> Accepts {
        self.known.accepts.unwrap_or(Accepts { json: true, events: true })
    }
}

impl<'a> Head<'a> {
    /// Returns the head of a request that another HTTP server received. That server has split the
    /// head into these parts and determines the framing.
    ///
    /// # Errors
    /// A part is invalid: a method or a name that is not a token, a target that is not a path, a
    /// value with a control character, or no host.
    pub(super) fn of_parts(
        method: &'a str,
        target: &'a str,
        fields: &'a [httparse::Header<'a>],
    ) -> Result<Head<'a>, StatusError> {
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_token);
        let is_value = |value: &[u8]| !value.iter().any(|b| *b < b' ' && *b != b'\t' || *b == 0x7f);
        if !is_name(method) || !fields.iter().all(|field| is_name(field.name) && is_value(field.value)) {
            return Err(StatusError(400));
        }
        let mut head = Head { method, target, minor: 1, fields, known: KnownFields::read(fields) };
        head.check_target()?;
        Ok(head)
    }
}

impl<'a> KnownFields<'a> {
    fn read(fields: &[httparse::Header<'a>]) -> KnownFields<'a> {
        let mut known = KnownFields::default();
        for &httparse::Header { name, value } in fields {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            // Matching by length first leaves few comparisons.
            match name.len() {
                4 if is("host") => once(&mut known.host, value),
                6 if is("accept") => known.accepts.get_or_insert_default().add(value),
                6 if is("origin") => once(&mut known.origin, value),
                6 if is("expect") => {
                    known.expects = true;
                    known.expects_other |= !value.eq_ignore_ascii_case(b"100-continue");
                }
                10 if is("connection") => {
                    for option in members(value) {
                        known.close |= option.eq_ignore_ascii_case(b"close");
                        known.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                12 if is("content-type") => once(&mut known.content_type, value),
                14 if is("content-length") => once(&mut known.content_length, value),
                16 if is("content-encoding") => {
                    let mut codings = members(value).filter(|coding| !coding.is_empty());
                    known.is_encoded |= codings.any(|coding| !coding.eq_ignore_ascii_case(b"identity"));
                }
                17 if is("transfer-encoding") => once(&mut known.transfer_encoding, value),
                _ => {}
            }
        }
        known
    }
}

/// Stores the value of a field that may occur once.
fn once<'a>(found: &mut Option<&'a [u8]>, value: &'a [u8]) {
    *found = Some(if found.is_some() { REPEATED } else { value });
}

/// Returns the members of a field that is a list.
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

impl Accepts {
    /// Adds the media ranges of an `Accept` field.
    fn add(&mut self, field: &[u8]) {
        for range in members(field) {
            let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let kind = parts.next().unwrap_or_default();
            if parts.any(|p| matches!(p, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000")) {
                continue;
            }
            let is = |name: &str| kind.eq_ignore_ascii_case(name.as_bytes());
            self.json |= is("application/json") || is("application/*") || is("*/*");
            self.events |= is("text/event-stream") || is("text/*") || is("*/*");
        }
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
    // Detects a peer with another protocol, such as TLS, before the whole head has arrived.
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
    let mut head = Head { method, target, minor, fields, known: KnownFields::read(fields) };
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
        let host = self.known.host;
        // The response MUST be 400 (RFC 9112, 3.2).
        if host == Some(REPEATED) || host.is_none() && self.minor > 0 {
            return Err(StatusError(400));
        }
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
        // The response MAY be 417; HTTP/1.0 requests MUST be served (RFC 9110, 10.1.1).
        if self.known.expects_other {
            return Err(StatusError(417));
        }
        let response = ResponseOptions {
            http_10: self.minor == 0,
            head_only: self.method == "HEAD",
            keep_alive: !self.known.close && (self.minor > 0 || self.known.keep_alive),
        };
        Ok(RequestOptions { framing, expects_continue: self.known.expects && self.minor > 0, response })
    }

    /// Determines the framing. Two lengths, or a length beside chunks, can smuggle a request past a
    /// proxy. They are rejected even where RFC 9112, 6.3 prescribes an interpretation.
    fn framing(&self) -> Result<Framing, StatusError> {
        match (self.known.transfer_encoding, self.known.content_length) {
            (None, None) => Ok(Framing::Length(0)),
            (Some(coding), None) => {
                if self.minor == 0 {
                    return Err(StatusError(400));
                }
                if coding.eq_ignore_ascii_case(b"chunked") {
                    return Ok(Framing::Chunked);
                }
                // The response to an unknown coding SHOULD be 501 (RFC 9112, 6.1).
                let named = !coding.is_empty() && coding.iter().all(|b| is_token(*b));
                Err(StatusError(if named { 501 } else { 400 }))
            }
            (None, Some(length)) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_parsed() {
        for (fields, json, events) in [
            ("accept: application/json, text/event-stream", true, true),
            ("accept: text/event-stream,application/json;q=0.5", true, true),
            ("accept: application/json", true, false),
            ("accept: TEXT/Event-Stream", false, true),
            ("accept: */*", true, true),
            ("accept: text/*", false, true),
            ("accept: application/*;q=0", false, false),
            ("accept: text/html", false, false),
            ("accept:", false, false),
            ("accept: application/json; q=0, */*", true, true),
            ("accept: application/json\r\nAccept: text/event-stream", true, true),
            ("x: y", true, true),
        ] {
            let bytes = format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n\r\n");
            let mut space = field_buffer();
            let head = parse(bytes.as_bytes(), &mut space, MAX_FIELDS).map(|(head, _)| head.accepts());
            assert_eq!(head, Ok(Accepts { json, events }), "{fields}");
        }
    }
}
