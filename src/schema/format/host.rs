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
    let mut length = 0;
    let mut last = b'.';
    for b in text.bytes() {
        let inside = match b {
            b'.' => false,
            b'-' => length > 0,
            _ => b.is_ascii_alphanumeric() || !b.is_ascii(),
        };
        // What ends a label neither ends in a hyphen nor leaves it empty.
        if !inside && (b != b'.' || length == 0 || last == b'-') || length >= 63 && inside {
            return false;
        }
        length = if inside { length + 1 } else { 0 };
        last = b;
    }
    length > 0 && last != b'-' && text.len() <= 253
}
