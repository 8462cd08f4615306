//! Host names, IP addresses and e-mail addresses: RFC 1123 §2.1, RFC 2673 §3.2, RFC 4291 §2.2,
//! RFC 5321 §4.1.2, and RFC 6531 for mail beyond ASCII.
//!
//! Labels have letters, digits and inner hyphens, at most 63 bytes each and 253 bytes in all.
//!
//! Invariant: no check uses a resolver or a socket type of the system.

pub(super) fn is_ipv4(text: &str) -> bool {
    let mut count = 0;
    // Leading zeros are rejected, although some systems accept them.
    let valid = text.split('.').all(|part| {
        count += 1;
        let value = part.bytes().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')));
        matches!(part.len(), 1..=3)
            && value <= Some(255)
            && value.is_some()
            && (part.len() == 1 || !part.starts_with('0'))
    });
    valid && count == 4
}

pub(super) fn is_ipv6(text: &str) -> bool {
    match text.as_bytes().windows(2).position(|pair| pair == b"::") {
        None => groups(text, true) == Some(8),
        // The gap replaces one group or more, and occurs once.
        Some(at) => {
            let head = groups(text.get(..at).unwrap_or_default(), false);
            let tail = groups(text.get(at + 2..).unwrap_or_default(), true);
            head.zip(tail).is_some_and(|(head, tail)| head + tail < 8)
        }
    }
}

/// Counts the groups of 16 bits. With `is_tail` the last two may be an IPv4 address.
fn groups(text: &str, is_tail: bool) -> Option<usize> {
    if text.is_empty() {
        return Some(0);
    }
    let mut count = 0;
    let mut parts = text.split(':').peekable();
    while let Some(part) = parts.next() {
        let hexadecimal = part.bytes().all(|b| b.is_ascii_hexdigit());
        count += match part.len() {
            1..=4 if hexadecimal => 1,
            _ if is_tail && parts.peek().is_none() && is_ipv4(part) => 2,
            _ => return None,
        };
    }
    Some(count)
}

pub(super) fn is_hostname(text: &str) -> bool {
    let mut length = 0;
    let mut last = b'.';
    for b in text.bytes() {
        // Fast path: most bytes are alphanumeric.
        let inside = b.is_ascii_alphanumeric() || b == b'-' && length > 0 || !b.is_ascii();
        // A label must not be empty or end with a hyphen.
        if !inside && (b != b'.' || length == 0 || last == b'-') || length >= 63 && inside {
            return false;
        }
        length = if inside { length + 1 } else { 0 };
        last = b;
    }
    length > 0 && last != b'-' && text.len() <= 253
}

/// Returns `true` if a text is a mailbox; `wide` allows characters beyond ASCII.
pub(super) fn is_email(text: &str, wide: bool) -> bool {
    let Some(at) = text.bytes().rposition(|b| b == b'@') else { return false };
    let (Some(local), Some(domain)) = (text.get(..at), text.get(at + 1..)) else { return false };
    (is_dotted(local, wide) || is_quoted(local, wide)) && is_mail_domain(domain, wide)
}

/// dot-atom: words separated by dots.
fn is_dotted(local: &str, wide: bool) -> bool {
    let mut in_word = false;
    for c in local.chars() {
        let dot = c == '.';
        let valid = match c {
            '.' => in_word,
            'a'..='z' | 'A'..='Z' | '0'..='9' | '!' | '#'..='\'' | '*' | '+' | '-' | '/' => true,
            '=' | '?' | '^'..='`' | '{'..='~' => true,
            _ => wide && !c.is_ascii() && !c.is_control(),
        };
        if !valid {
            return false;
        }
        in_word = !dot;
    }
    in_word
}

/// A quoted text; a backslash escapes the next character.
fn is_quoted(local: &str, wide: bool) -> bool {
    let inside = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let Some(inside) = inside else { return false };
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        let c = if c == '\\' { chars.next() } else { Some(c).filter(|c| *c != '"') };
        match c {
            Some(' '..='~') => {}
            Some(c) if wide && !c.is_ascii() => {}
            _ => return false,
        }
    }
    true
}

fn is_mail_domain(domain: &str, wide: bool) -> bool {
    match domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => match address.strip_prefix("IPv6:") {
            Some(address) => is_ipv6(address),
            None => is_ipv4(address),
        },
        None if wide => super::is_wide_hostname(domain),
        None => domain.is_ascii() && is_hostname(domain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_standard_library() {
        let parts = [
            "", "0", "00", "1", "255", "256", "1.2.3.4", "1.2.3", "1.2.3.04", "+1", "abcd", "ABCDE", "g", ":",
        ];
        let mut seed = 1_u32;
        let mut matches = 0;
        for _ in 0..100_000 {
            let mut text = String::new();
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (mark, count) = if seed >> 31 == 0 { (".", 4) } else { (":", 8) };
            for i in 0..(seed >> 16) % 2 + count {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Mostly values that match.
                let among = if (seed >> 8) % 3 == 0 { parts.len() } else { 2 };
                if i > 0 && (seed >> 20) % 16 > 0 {
                    text.push_str(mark);
                }
                text.push_str(parts.get((seed >> 12) as usize % among).copied().unwrap_or("7"));
            }
            let (v4, v6) = (is_ipv4(&text), is_ipv6(&text));
            assert_eq!(v4, text.parse::<std::net::Ipv4Addr>().is_ok(), "{text}");
            assert_eq!(v6, text.parse::<std::net::Ipv6Addr>().is_ok(), "{text}");
            matches += usize::from(v4 || v6);
        }
        assert!(matches > 1000, "{matches}");
    }
}
