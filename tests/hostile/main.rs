//! Tests of the stdio server against broken, slow and malicious peers.
//!
//! The binary has its own test runner (`harness = false` in Cargo.toml). Some tests need a server
//! in a separate process. The binary runs as that server when the variable [`process::ROLE`] names
//! one. The standard harness prints to standard output before a test runs, so it cannot do this.
//!
//! The runner accepts filters, `--exact` and `--list`. It runs one test at a time and reports a
//! test that does not end as failed. `TEST_LONG=1` raises the iteration counts up to a million; use
//! a release build.
//!
//! # Invariants
//! - No test sleeps. Tests wait for messages with timeouts that only a hang reaches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
// One program: its modules share their items.
#![allow(unreachable_pub)]

/// All tests: they need signals, descriptors and /proc of Unix.
#[cfg(unix)]
#[path = "suite.rs"]
mod suite;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    suite::main()
}

#[cfg(not(unix))]
fn main() {}
