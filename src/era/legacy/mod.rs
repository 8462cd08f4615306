//! The legacy era, 2024-11-05 to 2025-11-25: a handshake opens a session.

#[cfg(feature = "client")]
mod client;
#[cfg(any(feature = "http-server", feature = "http-client"))]
pub(crate) mod header;
#[cfg(feature = "http-server")]
mod http;
mod server;

#[cfg(feature = "client")]
pub(crate) use client::CLIENT;
pub(crate) use server::SERVER;
