//! The legacy era, 2024-11-05 to 2025-11-25: a handshake opens a session that keeps what was said.

#[cfg(feature = "http-server")]
mod http;
mod server;

pub(crate) use server::SERVER;
