//! Host names and addresses: RFC 1123 §2.1, RFC 2673 §3.2, RFC 4291 §2.2.
//!
//! Labels are letters, digits and inner hyphens, 63 bytes at most, 253 bytes in all.
//!
//! Invariant: an address is read without a resolver or a socket type of some system.

pub(super) fn is_ipv4(text: &str) -> bool {
    // std is strict: four decimal numbers, no leading zeros.
    text.parse::<std::net::Ipv4Addr>().is_ok()
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<std::net::Ipv6Addr>().is_ok()
}

pub(super) fn is_hostname(text: &str) -> bool {
    !text.is_empty() && text.len() <= 253 && text.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let ends = |b: Option<&u8>| b.is_some_and(|b| *b != b'-');
    bytes.len() <= 63
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-' || !b.is_ascii())
}
