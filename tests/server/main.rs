//! Servers in memory and over loopback: tests that the transcripts of `tests/it` cannot express.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod beyond_32_bits;
mod complete;
mod errors;
mod meta;
mod notifications;
mod profile;
mod questions;
#[cfg(unix)]
mod race;
mod sequence;
mod typed;
#[cfg(unix)]
mod unparsable;
mod validation;
