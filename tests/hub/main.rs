//! Hubs: what many servers are as one, and that a slow, dead or noisy one stalls nobody.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod downstream;
mod many;
#[cfg(all(target_os = "linux", feature = "http-server"))]
mod memory;
mod pages;
mod passed;
mod proxy;
mod relay;
mod rules;
mod strict;
mod together;
