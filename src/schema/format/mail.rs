//! E-mail addresses: RFC 5321 §4.1.2, and RFC 6531 for characters beyond ASCII.
//!
//! Invariant: an accepted address has exactly one `@` outside of a quoted local part.

use super::host;

/// Returns `true` if a text is a mailbox; `wide` allows characters beyond ASCII.
pub(super) fn is_email(text: &str, wide: bool) -> bool {
    let Some(at) = text.bytes().rposition(|b| b == b'@') else { return false };
    let (Some(local), Some(domain)) = (text.get(..at), text.get(at + 1..)) else { return false };
    (is_dotted(local, wide) || is_quoted(local, wide)) && is_domain(domain, wide)
}

/// dot-atom: words separated by dots.
fn is_dotted(local: &str, wide: bool) -> bool {
    let mut in_word = false;
    for c in local.chars() {
        let dot = c == '.';
        let good = match c {
            '.' => in_word,
            'a'..='z' | 'A'..='Z' | '0'..='9' | '!' | '#'..='\'' | '*' | '+' | '-' | '/' => true,
            '=' | '?' | '^'..='`' | '{'..='~' => true,
            _ => wide && !c.is_ascii() && !c.is_control(),
        };
        if !good {
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

fn is_domain(domain: &str, wide: bool) -> bool {
    match domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => match address.strip_prefix("IPv6:") {
            Some(address) => host::is_ipv6(address),
            None => host::is_ipv4(address),
        },
        None if wide => super::is_wide_hostname(domain),
        None => domain.is_ascii() && host::is_hostname(domain),
    }
}
