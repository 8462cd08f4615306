//! Servers in memory and over loopback: behaviour that the transcripts of `tests/it` cannot express.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checked;
mod complete;
mod meta;
mod notices;
mod profile;
mod questions;
#[cfg(unix)]
mod race;
mod sequence;
#[cfg(unix)]
mod unread;
mod wide;
