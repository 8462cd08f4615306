//! Classification of IP addresses as public or not.
//!
//! The check applies to the address that is connected to, so a name that changes its address later
//! cannot bypass it.
//!
//! Source: IANA's registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890 and its
//! successors); MCP 2026-07-28 security best practices (server-side request forgery).
//!
//! # Invariants
//! - An address that embeds an IPv4 address is public only if the embedded address is public.
//! - An address that is not known to be public counts as not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an address is on the public internet. This machine, its local network and the
/// metadata services of clouds are not public.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// Networks that are not public, as address and length of the prefix.
const NOT_PUBLIC: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),        // this host
    ([10, 0, 0, 0], 8),       // private
    ([100, 64, 0, 0], 10),    // behind a carrier's NAT; one cloud's metadata
    ([127, 0, 0, 0], 8),      // loopback
    ([168, 63, 129, 16], 32), // one cloud's host, with credentials
    ([169, 254, 0, 0], 16),   // link-local; most clouds' metadata
    ([172, 16, 0, 0], 12),    // private
    ([192, 0, 0, 0], 24),     // protocol assignments; one cloud's metadata
    ([192, 0, 2, 0], 24),     // documentation
    ([192, 88, 99, 0], 24),   // relays of 6to4
    ([192, 168, 0, 0], 16),   // private
    ([198, 18, 0, 0], 15),    // benchmarks
    ([198, 51, 100, 0], 24),  // documentation
    ([203, 0, 113, 0], 24),   // documentation
    ([224, 0, 0, 0], 3),      // multicast, reserved, broadcast
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    !NOT_PUBLIC.iter().any(|(network, length)| {
        let network = u32::from(Ipv4Addr::from(*network));
        (bits ^ network) >> (32 - length) == 0
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // IPv4-mapped, and translated by NAT64.
        [0, 0, 0, 0, 0, 0xFFFF, high, low] | [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => embedded(high, low),
        // 6to4.
        [0x2002, high, low, ..] => embedded(high, low),
        // Protocol assignments, Teredo among them.
        [0x2001, 0..=0x01FF, ..] => false,
        // Documentation.
        [0x2001, 0x0DB8, ..] | [0x3FFF, 0..=0x0FFF, ..] => false,
        // ISATAP has an IPv4 address in the lower half.
        [0x2000..=0x3FFF, _, _, _, 0 | 0x0200, 0x5EFE, high, low] => embedded(high, low),
        // Global unicast. All other addresses are local, multicast or unassigned.
        [first, ..] => (0x2000..=0x3FFF).contains(&first),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses_are_classified_with_their_embedded_address() {
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "168.63.129.16",
            "169.254.169.254",
            "169.254.0.0",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.1.2.3",
            "64:ff9b:1::8.8.8.8",
            "100::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:a9fe:a9fe::",
            "2606:4700::5efe:10.0.0.1",
            "2606:4700::200:5efe:192.168.1.1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address} is not public");
        }
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "128.0.0.1",
            "168.63.129.17",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address} is public");
        }
    }
}
