//! Character classes of RFC 3986 and RFC 6570, and percent-encoding.
//!
//! # Invariants
//! - Each function reads its input once, in one direction.
//! - [`decode`] turns text that [`character`] accepts into UTF-8.

/// Returns whether a literal may contain a character (RFC 6570 section 2.1). For `%`, the caller
/// checks that two digits follow.
pub(super) fn is_literal(c: char) -> bool {
    match u32::from(c) {
        0..=0x20 | 0x7f..=0x9f => false,
        0x21..=0x7e => !"\"<>\\^`{|}".contains(c),
        0xfdd0..=0xfdef | 0xfff0..=0xffff | 0xe_0000..=0xe_0fff => false,
        code => code & 0xfffe != 0xfffe,
    }
}

pub(super) fn is_unreserved(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._~".contains(&b)
}

fn is_reserved(b: u8) -> bool {
    b":/?#[]@!$&'()*+,;=".contains(&b)
}

/// Returns `true` if two hexadecimal digits follow the `%` at this position.
pub(super) fn is_triplet(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Returns whether a URI begins with a scheme: a letter, then letters, digits, `+`, `-`, `.`, then
/// a colon (RFC 3986 §3.1).
pub(crate) fn has_scheme(uri: &str) -> bool {
    let Some((scheme, _)) = uri.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

/// Returns the first character that a URI must encode, and its position (RFC 3986 section 2).
pub(crate) fn unencoded(uri: &str) -> Option<(usize, char)> {
    let stands = |at, c: char| match u8::try_from(c) {
        Ok(b'%') => is_triplet(uri.as_bytes(), at),
        Ok(b) => is_unreserved(b) || is_reserved(b),
        Err(_) => false,
    };
    uri.char_indices().find(|&(at, c)| !stands(at, c))
}

/// Appends a value as RFC 6570 section 3.2.1 encodes it.
pub(super) fn encode(value: &str, reserved: bool, out: &mut String) {
    let bytes = value.as_bytes();
    for (i, &b) in bytes.iter().enumerate() {
        let copied = is_unreserved(b) || reserved && (is_reserved(b) || b == b'%' && is_triplet(bytes, i));
        if copied {
            out.push(char::from(b));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(DIGITS[usize::from(b >> 4)]));
            out.push(char::from(DIGITS[usize::from(b & 15)]));
        }
    }
}

/// Returns the length of a literal if the URI starts with it. The digits of a triplet are compared
/// without regard to case (RFC 3986 section 6.2.2.1).
pub(super) fn literal_at(literal: &[u8], uri: &[u8]) -> Option<usize> {
    let head = uri.get(..literal.len())?;
    let mut digits = 0;
    for (a, b) in literal.iter().zip(head) {
        let same = a == b || digits > 0 && a.eq_ignore_ascii_case(b);
        if !same {
            return None;
        }
        digits = if *a == b'%' { 2 } else { digits.max(1) - 1 };
    }
    Some(literal.len())
}

/// Returns the length in the URI of the character of a value at this position: one byte, or the
/// triplets of one whole UTF-8 character.
pub(super) fn character(uri: &[u8], at: usize, reserved: bool) -> Option<usize> {
    let &first = uri.get(at)?;
    if is_unreserved(first) || reserved && is_reserved(first) {
        return Some(1);
    }
    if first != b'%' || !is_triplet(uri, at) {
        return None;
    }
    let mut bytes = [triplet(uri, at), 0, 0, 0];
    let length = match bytes[0] {
        0..=0x7f => 1,
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    for (i, byte) in bytes.iter_mut().enumerate().take(length).skip(1) {
        let next = at + 3 * i;
        if uri.get(next) != Some(&b'%') || !is_triplet(uri, next) {
            return None;
        }
        *byte = triplet(uri, next);
    }
    std::str::from_utf8(&bytes[..length]).ok()?;
    Some(3 * length)
}

/// Returns the start of the character that ends at this position, in text that [`character`]
/// accepts.
pub(super) fn before(uri: &[u8], mut at: usize) -> usize {
    while at >= 3 && uri[at - 3] == b'%' {
        at -= 3;
        if triplet(uri, at) & 0xc0 != 0x80 {
            return at;
        }
    }
    at - 1
}

/// Returns the byte that a triplet encodes. The caller has checked that the text is a triplet.
fn triplet(uri: &[u8], at: usize) -> u8 {
    let digit = |i: usize| char::from(uri[i]).to_digit(16).unwrap_or(0) as u8;
    digit(at + 1) << 4 | digit(at + 2)
}

/// Returns the text of a value that consists of whole characters.
pub(super) fn decode(value: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    while at < value.len() {
        let encoded = value[at] == b'%' && is_triplet(value, at);
        out.push(if encoded { triplet(value, at) } else { value[at] });
        at += if encoded { 3 } else { 1 };
    }
    String::from_utf8(out).ok()
}

/// Appends a part of a path, with every character percent-encoded that is not unreserved.
#[cfg(feature = "skills")]
pub(crate) fn percent_encoded(part: &str, out: &mut String) {
    encode(part, false, out);
}

/// Decodes percent-encoded UTF-8. `None` for a `%` without two digits, and for other encodings.
#[cfg(feature = "skills")]
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let complete = bytes.iter().enumerate().all(|(at, b)| *b != b'%' || is_triplet(bytes, at));
    if complete { decode(bytes) } else { None }
}
