//! URIs and IRIs (RFC 3986, RFC 3987) and URI templates (RFC 6570).
//!
//! Invariant: a percent sign is accepted only before two hexadecimal digits.

use super::host;

/// A URI or, with `wide`, an IRI: a reference with a scheme.
pub(super) fn is_uri(text: &str, wide: bool) -> bool {
    let (scheme, rest) = cut(text, b':');
    rest.is_some_and(|rest| is_scheme(scheme) && is_tail(rest, wide))
}

/// A URI reference: with or without a scheme.
pub(super) fn is_reference(text: &str, wide: bool) -> bool {
    if is_uri(text, wide) {
        return true;
    }
    // Without a scheme, the first segment has no colon.
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    !first.contains(':') && is_tail(text, wide)
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// The part after the scheme.
fn is_tail(text: &str, wide: bool) -> bool {
    let mut rest = text;
    if let Some(behind) = text.strip_prefix("//") {
        let end = behind.bytes().position(|b| matches!(b, b'/' | b'?' | b'#'));
        let (authority, path) = behind.split_at(end.unwrap_or(behind.len()));
        if !is_authority(authority, wide) {
            return false;
        }
        rest = path;
    }
    rest = behind(rest, COLON | AT | SLASH, wide, false);
    if let Some(query) = rest.strip_prefix('?') {
        rest = behind(query, COLON | AT | SLASH | MARK, wide, true);
    }
    if let Some(fragment) = rest.strip_prefix('#') {
        rest = behind(fragment, COLON | AT | SLASH | MARK, wide, false);
    }
    rest.is_empty()
}

fn cut(text: &str, mark: u8) -> (&str, Option<&str>) {
    match text.bytes().position(|b| b == mark).and_then(|at| text.split_at_checked(at)) {
        Some((before, behind)) => (before, behind.get(1..)),
        None => (text, None),
    }
}

fn is_authority(text: &str, wide: bool) -> bool {
    let (user, place) = match text.bytes().rposition(|b| b == b'@').and_then(|at| text.split_at_checked(at)) {
        Some((user, place)) => (user, place.get(1..).unwrap_or_default()),
        None => ("", text),
    };
    let (name, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let Some((literal, behind)) = rest.split_once(']') else { return false };
            if !is_literal(literal) {
                return false;
            }
            match behind.strip_prefix(':') {
                Some(port) => ("", port),
                None if behind.is_empty() => ("", ""),
                None => return false,
            }
        }
        None => {
            let (name, port) = cut(place, b':');
            (name, port.unwrap_or_default())
        }
    };
    is_made_of(user, COLON, wide, false)
        && is_made_of(name, 0, wide, false)
        && port.bytes().all(|b| b.is_ascii_digit())
}

/// The text in brackets: an IPv6 address or IPvFuture.
fn is_literal(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(['v', 'V']) else { return host::is_ipv6(text) };
    let Some((version, address)) = rest.split_once('.') else { return false };
    !version.is_empty()
        && version.bytes().all(|b| b.is_ascii_hexdigit())
        && !address.is_empty()
        && !address.contains('%')
        && is_made_of(address, COLON, false, false)
}

const COLON: u8 = 2;
const AT: u8 = 4;
const SLASH: u8 = 8;
const MARK: u8 = 16;

/// Class of each ASCII character: 1 for unreserved ones and sub-delimiters, or one of the above.
const CLASSES: [u8; 128] = {
    let mut classes = [0; 128];
    let mut c = 0;
    while c < 128 {
        classes[c] = match c as u8 {
            b':' => COLON,
            b'@' => AT,
            b'/' => SLASH,
            b'?' => MARK,
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'..=b',' | b';' | b'=' => 1,
            b if b.is_ascii_alphanumeric() => 1,
            _ => 0,
        };
        c += 1;
    }
    classes
};

/// Returns `true` if a text has only unreserved characters, sub-delimiters, percent escapes and
/// `more`.
fn is_made_of(text: &str, more: u8, wide: bool, private: bool) -> bool {
    behind(text, more, wide, private).is_empty()
}

/// The rest after such characters.
fn behind(text: &str, more: u8, wide: bool, private: bool) -> &str {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(b) = bytes.get(at) {
        at += match CLASSES.get(usize::from(*b)) {
            Some(class) if class & (more | 1) != 0 => 1,
            Some(_) => match bytes.get(at..) {
                Some([b'%', x, y, ..]) if x.is_ascii_hexdigit() && y.is_ascii_hexdigit() => 3,
                _ => break,
            },
            None => match text.get(at..).and_then(|rest| rest.chars().next()) {
                Some(c) if wide && (is_wide(c) || private && is_private(c)) => c.len_utf8(),
                _ => break,
            },
        };
    }
    text.get(at..).unwrap_or_default()
}

/// ucschar of RFC 3987 §2.2.
fn is_wide(c: char) -> bool {
    let c = c as u32;
    matches!(c, 0xa0..=0xd7ff | 0xf900..=0xfdcf | 0xfdf0..=0xffef)
        || (0x10000..=0xefffd).contains(&c) && c & 0xfffe != 0xfffe && !(0xe0000..0xe1000).contains(&c)
}

/// iprivate of RFC 3987 §2.2, allowed in queries.
fn is_private(c: char) -> bool {
    matches!(c as u32, 0xe000..=0xf8ff | 0xf0000..=0xffffd | 0x10_0000..=0x10_fffd)
}

/// RFC 6570 §2.
pub(super) fn is_template(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (literal, behind) = rest.split_at(at);
        let Some((expression, next)) = behind.strip_prefix('{').and_then(|b| b.split_once('}')) else {
            return false;
        };
        if !is_template_literal(literal) || !is_expression(expression) {
            return false;
        }
        rest = next;
    }
    is_template_literal(rest)
}

fn is_template_literal(text: &str) -> bool {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let good = match c {
            '%' => {
                [chars.next(), chars.next()].iter().flatten().filter(|c| c.is_ascii_hexdigit()).count() == 2
            }
            '\0'..=' ' | '"' | '\'' | '<' | '>' | '\\' | '^' | '`' | '|' | '\u{7f}' => false,
            c if c.is_ascii() => true,
            c => is_wide(c) || is_private(c),
        };
        if !good {
            return false;
        }
    }
    true
}

fn is_expression(text: &str) -> bool {
    let text =
        text.strip_prefix(['+', '#', '.', '/', ';', '?', '&', '=', ',', '!', '@', '|']).unwrap_or(text);
    text.split(',').all(|variable| {
        let name = match variable.strip_suffix('*') {
            Some(name) => name,
            None => match variable.split_once(':') {
                // A prefix length below 10,000 without a leading zero.
                Some((name, length)) => {
                    let digits = length.bytes().all(|b| b.is_ascii_digit());
                    if !digits || !(1..=4).contains(&length.len()) || length.starts_with('0') {
                        return false;
                    }
                    name
                }
                None => variable,
            },
        };
        name.split('.').all(|part| !part.is_empty() && is_name_part(part))
    })
}

fn is_name_part(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        let good = match b {
            b'%' => {
                [bytes.next(), bytes.next()].iter().flatten().filter(|b| b.is_ascii_hexdigit()).count() == 2
            }
            _ => b.is_ascii_alphanumeric() || b == b'_',
        };
        if !good {
            return false;
        }
    }
    true
}
