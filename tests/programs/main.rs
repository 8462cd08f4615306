//! Tests of the programs: the command line, the examples, and the statements of the README about
//! them.
//!
//! `cargo test` builds the examples; `cargo test --test programs` alone does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "client")]
mod ask_user;
mod board_server;
#[cfg(feature = "cli")]
#[path = "../cli/mod.rs"]
mod cli;
mod examples;
mod readme;
