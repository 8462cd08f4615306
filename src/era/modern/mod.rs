//! The modern era, 2026-07-28: every request says what it needs, and nothing is kept.

#[cfg(any(test, feature = "http-server", feature = "http-client"))]
#[allow(dead_code)] // Until both ends that use it are here.
pub(crate) mod header;
#[cfg(feature = "http-server")]
mod http;
mod server;

pub(crate) use server::SERVER;
pub(super) use server::{MISSING_CAPABILITY, UNSUPPORTED_VERSION, server_info, supported, unversioned};
