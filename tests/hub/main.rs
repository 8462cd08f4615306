//! Hubs: many servers as one; a slow, dead or noisy server does not delay others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod configuration;
mod downstream;
mod exports;
mod frames;
mod guarantees;
mod in_process;
#[path = "../fixtures/in_time.rs"]
mod in_time;
mod lazy;
mod many;
#[cfg(all(target_os = "linux", feature = "http-server"))]
mod memory;
mod names;
mod owners;
mod pages;
mod passthrough;
mod proxy;
mod questions;
mod race;
mod relay;
mod replacement;
#[path = "../fixtures/socket_pair.rs"]
mod socket_pair;
mod strict;
mod templates;
mod unread;
