//! Attacks on the server over byte streams: what a broken, slow or malicious peer can do to it.
//!
//! One binary with a runner of its own (`harness = false` in Cargo.toml): some tests need a server
//! in a process of its own, and this program is that server when [`process::ROLE`] names one. The
//! standard harness cannot be, because it prints to standard output before a test runs.
//!
//! The runner takes the usual filters, `--exact` and `--list`, runs one test at a time, and counts
//! a test that does not end as failed instead of hanging with it. `TEST_LONG=1` makes the tests
//! that count things count to a million and belongs to a release build.
//!
//! # Invariants
//! - No test sleeps. Tests wait for messages, with upper bounds so generous that only a hang
//!   reaches them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
// One program, whose modules say to each other what they have.
#![allow(unreachable_pub)]

/// Everything: signals, descriptors and /proc are Unix's.
#[cfg(unix)]
#[path = "suite.rs"]
mod suite;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    suite::main()
}

#[cfg(not(unix))]
fn main() {}
