//! Tools that run as tasks: messages, stores, principals, load.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(all(feature = "observe", feature = "rate-limits"))]
mod callers;
mod follow;
mod http;
mod load;
mod reports;
mod restart;
mod sessions;
mod stateless;
mod wire;
