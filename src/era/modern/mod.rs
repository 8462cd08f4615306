//! The modern era, 2026-07-28: stateless requests.

#[cfg(feature = "client")]
pub(super) mod client;
#[cfg(any(feature = "http-server", feature = "client"))]
pub(crate) mod header;
#[cfg(feature = "http-server")]
mod http;
mod server;

#[cfg(feature = "client")]
pub(crate) use client::CLIENT;
#[cfg(feature = "client")]
pub(super) use client::client_meta;
pub(crate) use server::SERVER;
#[cfg(feature = "tasks")]
pub(super) use server::SUBSCRIPTION;
#[cfg(feature = "skills")]
pub(super) use server::hint;
pub(super) use server::{
    MISSING_CAPABILITY, SERVER_INFO, UNSUPPORTED_VERSION, server_info, supported, unversioned,
};
#[cfg(feature = "client")]
pub(super) use server::{filter as write_filter, read_filter};
