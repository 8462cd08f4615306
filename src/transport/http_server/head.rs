//! The head of a request: what it says, what is refused, and how long the body is.
//!
//! The lines are split by `httparse`; this file adds the strictness that keeps two readers of one
//! request from seeing two different requests. What it does not do: judge hosts, paths or tokens.
//!
//! # Invariants
//! - A [`Head`] only exists for bytes that end with an empty line and have no bare line feed.
//! - Its framing is unambiguous: no length, one length, or chunked.

use std::mem::MaybeUninit;

use memchr::memchr;

/// Most header fields a head can have, whatever the limits say.
const MOST_FIELDS: usize = 128;

/// Room for the fields of a head that is being parsed.
pub(super) type Fields<'b> = [MaybeUninit<httparse::Header<'b>>; MOST_FIELDS];

pub(super) const fn no_fields<'b>() -> Fields<'b> {
    [const { MaybeUninit::uninit() }; MOST_FIELDS]
}

/// The status a request is refused with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub u16);

/// A request without its body.
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

    /// The path, without the query; `*` if the request is about the server itself.
    pub(crate) fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// The first value of a field, without the white space around it; the name in any case.
    pub(crate) fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// Every value of a field, in order: to see that one came twice.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |f| f.name.eq_ignore_ascii_case(name)).map(|f| f.value.trim_ascii())
    }
}

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes; zero if there is no body. Saturated: a larger number is too large as well.
    Length(u64),
    Chunked,
}

/// What the engine itself takes from a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub framing: Framing,
    /// The peer waits for 100 before it sends the body.
    pub expects: bool,
    /// The connection stays open.
    pub keep: bool,
    pub http_10: bool,
    /// Only the head of the answer is wanted.
    pub bodiless: bool,
}

/// Looks for the end of a head and tells its length. `searched` is where to go on when more has
/// come: the start of the line that is not complete.
pub(super) fn find_end(bytes: &[u8], searched: &mut usize) -> Result<Option<usize>, Refused> {
    // A peer that speaks TLS, or anything else, is told so before it waits for an answer.
    if bytes.first().is_some_and(|b| !is_token(*b)) {
        return Err(Refused(400));
    }
    while let Some(length) = bytes.get(*searched..).and_then(|line| memchr(b'\n', line)) {
        let (start, end) = (*searched, *searched + length);
        // MAY accept a bare line feed (RFC 9112, 2.2); two readers that differ in it can be made
        // to see two different requests, so we do not.
        if end == start || bytes[end - 1] != b'\r' {
            return Err(Refused(400));
        }
        *searched = end + 1;
        if end - start == 1 {
            return Ok(Some(end + 1));
        }
    }
    Ok(None)
}

/// A byte of a method or a field's name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Parses a whole head, up to and with its empty line.
pub(super) fn parse<'a>(
    bytes: &'a [u8],
    space: &'a mut Fields<'a>,
    most_fields: usize,
) -> Result<(Head<'a>, Plan), Refused> {
    let mut request = httparse::Request::new(&mut []);
    let room = space.get_mut(..most_fields.min(MOST_FIELDS)).unwrap_or_default();
    match request.parse_with_uninit_headers(bytes, room) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Ok(_) => return Err(Refused(400)),
        Err(httparse::Error::TooManyHeaders) => return Err(Refused(431)),
        Err(httparse::Error::Version) if names_a_version(bytes) => return Err(Refused(505)),
        Err(_) => return Err(Refused(400)),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(Refused(400));
    };
    let fields: &'a [httparse::Header<'a>] = request.headers;
    let mut head = Head { method, target, minor, fields };
    head.check_target()?;
    let plan = head.plan()?;
    Ok((head, plan))
}

/// Whether the request line has three parts, the last of which is some version of HTTP.
fn names_a_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|b| *b == b'\r').next().unwrap_or_default();
    let mut parts = line.split(|b| *b == b' ').skip(2);
    let version = parts.next().unwrap_or_default();
    let shaped = matches!(version, [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit());
    shaped && parts.next().is_none()
}

impl<'a> Head<'a> {
    /// Leaves path and query in `target`, and sees to it that there is one host.
    fn check_target(&mut self) -> Result<(), Refused> {
        let mut hosts = self.all("host");
        let host = hosts.next();
        // MUST respond with 400 (RFC 9112, 3.2).
        if hosts.next().is_some() || host.is_none() && self.minor > 0 {
            return Err(Refused(400));
        }
        drop(hosts);
        if !self.target.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            return Err(Refused(400));
        }
        if self.target.starts_with('/') || self.target == "*" && self.method == "OPTIONS" {
            return Ok(());
        }
        // MUST accept the absolute form (RFC 9112, 3.2.2). A host that differs from the field's
        // is a request that says two things.
        let Some((scheme, rest)) = self.target.split_once("://") else { return Err(Refused(400)) };
        let known = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if !known || host.is_some_and(|h| !h.eq_ignore_ascii_case(authority.as_bytes())) {
            return Err(Refused(400));
        }
        self.target = if path.is_empty() { "/" } else { path };
        if self.target.starts_with('/') { Ok(()) } else { Err(Refused(400)) }
    }

    fn plan(&self) -> Result<Plan, Refused> {
        let framing = self.framing()?;
        let mut keep = self.minor > 0;
        let options = self.all("connection").flat_map(|value| value.split(|b| *b == b','));
        for option in options.map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                keep = false;
                break;
            }
            keep |= option.eq_ignore_ascii_case(b"keep-alive");
        }
        let mut expects = false;
        for value in self.all("expect") {
            // MAY respond with 417 (RFC 9110, 10.1.1); and MUST ignore it from HTTP/1.0.
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(Refused(417));
            }
            expects = self.minor > 0;
        }
        Ok(Plan { framing, expects, keep, http_10: self.minor == 0, bodiless: self.method == "HEAD" })
    }

    /// Two lengths, or a length beside chunks, are how requests are smuggled past a proxy: they are
    /// refused even where a reading is prescribed (RFC 9112, 6.3).
    fn framing(&self) -> Result<Framing, Refused> {
        let mut codings = self.all("transfer-encoding");
        let mut lengths = self.all("content-length");
        match (codings.next(), lengths.next()) {
            (None, None) => Ok(Framing::Length(0)),
            (Some(coding), None) => {
                if self.minor == 0 || codings.next().is_some() {
                    return Err(Refused(400));
                }
                if coding.eq_ignore_ascii_case(b"chunked") {
                    return Ok(Framing::Chunked);
                }
                // SHOULD respond with 501 to a coding it does not understand (RFC 9112, 6.1).
                let named = !coding.is_empty() && coding.iter().all(|b| is_token(*b));
                Err(Refused(if named { 501 } else { 400 }))
            }
            (None, Some(length)) if lengths.next().is_none() => {
                if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
                    return Err(Refused(400));
                }
                let add = |n: u64, digit: &u8| n.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
                Ok(Framing::Length(length.iter().fold(0, add)))
            }
            _ => Err(Refused(400)),
        }
    }
}
