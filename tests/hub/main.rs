//! Hubs: many servers as one; a slow, dead or noisy server stalls no other.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod downstream;
mod exports;
mod frames;
mod lazy;
mod many;
#[cfg(all(target_os = "linux", feature = "http-server"))]
mod memory;
mod names;
mod pages;
mod passed;
mod proxy;
mod race;
mod relay;
mod rules;
mod strict;
mod templates;
mod together;
