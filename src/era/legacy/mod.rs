//! The legacy era, 2024-11-05 to 2025-11-25: a handshake opens a session that keeps what was said.

#[cfg(any(feature = "http-server", feature = "http-client"))]
#[allow(dead_code)] // Until both ends that use it are here.
pub(crate) mod header;
#[cfg(feature = "http-server")]
mod http;
mod server;

pub(crate) use server::SERVER;
