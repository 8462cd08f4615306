//! Format checks.
//!
//! The checks cover syntax only, by the specifications that the standard names (draft 2020-12
//! validation, section 7.3). Each check reads the string once. With the feature `idn`, host names
//! beyond ASCII are checked by `idn.rs`.
//!
//! Invariants: no check recurses; only `regex` and host names beyond ASCII allocate.

mod host;
#[cfg(feature = "idn")]
mod idn;
mod time;
mod uri;

use super::Dialect;

/// A supported format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Date,
    DateTime,
    Duration,
    Email,
    Hostname,
    IdnEmail,
    IdnHostname,
    Ipv4,
    Ipv6,
    Iri,
    IriReference,
    JsonPointer,
    Regex,
    RelativeJsonPointer,
    Time,
    Uri,
    UriReference,
    UriTemplate,
    Uuid,
}

impl Format {
    /// The format with this name. `None` for unknown formats, which accept everything.
    pub(super) fn named(name: &str, dialect: Dialect) -> Option<Format> {
        let (format, ..) = FORMATS.iter().find(|(_, known, _)| *known == name)?;
        let late = matches!(format, Format::Duration | Format::Uuid);
        (!late || dialect != Dialect::Draft07).then_some(*format)
    }

    /// Returns `true` if a string has the format.
    pub(super) fn accepts(self, text: &str) -> bool {
        match self {
            Format::Date => time::is_date(text),
            Format::DateTime => time::is_date_time(text),
            Format::Duration => time::is_duration(text),
            Format::Email => host::is_email(text, false),
            Format::Hostname => text.is_ascii() && host::is_hostname(text),
            Format::IdnEmail => host::is_email(text, true),
            Format::IdnHostname => is_wide_hostname(text),
            Format::Ipv4 => host::is_ipv4(text),
            Format::Ipv6 => host::is_ipv6(text),
            Format::Iri => uri::is_uri(text, true),
            Format::IriReference => uri::is_reference(text, true),
            Format::JsonPointer => is_pointer(text),
            Format::Regex => super::pattern::is_pattern(text),
            Format::RelativeJsonPointer => is_relative_pointer(text),
            Format::Time => time::is_time(text),
            Format::Uri => uri::is_uri(text, false),
            Format::UriReference => uri::is_reference(text, false),
            Format::UriTemplate => uri::is_template(text),
            Format::Uuid => is_uuid(text),
        }
    }

    /// The noun phrase for error messages.
    pub(super) fn expectation(self) -> &'static str {
        // OK because the table lists all formats in order; a test checks it.
        FORMATS.get(self as usize).map_or("", |(_, _, expectation)| expectation)
    }
}

/// The formats in order, with their names and noun phrases.
const FORMATS: [(Format, &str, &str); 19] = [
    (Format::Date, "date", "a date like \"2026-01-31\""),
    (Format::DateTime, "date-time", "a date and time like \"2026-01-31T12:00:00Z\""),
    (Format::Duration, "duration", "a duration like \"P1DT12H\""),
    (Format::Email, "email", "an e-mail address"),
    (Format::Hostname, "hostname", "a host name"),
    (Format::IdnEmail, "idn-email", "an internationalised e-mail address"),
    (Format::IdnHostname, "idn-hostname", "an internationalised host name"),
    (Format::Ipv4, "ipv4", "an IPv4 address"),
    (Format::Ipv6, "ipv6", "an IPv6 address"),
    (Format::Iri, "iri", "an IRI with its scheme"),
    (Format::IriReference, "iri-reference", "an IRI reference"),
    (Format::JsonPointer, "json-pointer", "a JSON Pointer like \"/a/0\""),
    (Format::Regex, "regex", "a regular expression"),
    (Format::RelativeJsonPointer, "relative-json-pointer", "a relative JSON Pointer like \"1/a\""),
    (Format::Time, "time", "a time with offset like \"12:00:00Z\""),
    (Format::Uri, "uri", "a URI with its scheme"),
    (Format::UriReference, "uri-reference", "a URI reference"),
    (Format::UriTemplate, "uri-template", "a URI template"),
    (Format::Uuid, "uuid", "a UUID"),
];

const _: () = {
    let mut i = 0;
    while i < FORMATS.len() {
        assert!(FORMATS[i].0 as usize == i);
        i += 1;
    }
};

/// A host name, possibly beyond ASCII.
#[cfg(feature = "idn")]
fn is_wide_hostname(text: &str) -> bool {
    idn::is_hostname(text)
}

/// Without the tables, only lengths and hyphens are checked.
#[cfg(not(feature = "idn"))]
fn is_wide_hostname(text: &str) -> bool {
    host::is_hostname(text)
}

/// RFC 6901 §3.
fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/'))
        && text.split('~').skip(1).all(|escaped| escaped.starts_with(['0', '1']))
}

/// draft-handrews-relative-json-pointer-01 §3.
fn is_relative_pointer(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (up, rest) = text.split_at(digits);
    let plain = up == "0" || !up.is_empty() && !up.starts_with('0');
    plain && (rest == "#" || is_pointer(rest))
}

/// RFC 9562 §4: the text form of all versions and variants.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}
