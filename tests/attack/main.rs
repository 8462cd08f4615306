//! Attacks on the HTTP server: what strangers on the network can do to those who mean well.
//!
//! One binary with a runner of its own (`harness = false` in Cargo.toml): the server under attack is
//! this program again, in a process of its own, so that its memory, threads and descriptors can be
//! counted. While an attack goes on, a witness calls a tool, on new connections and on one that
//! stays open, and every call must be answered.
//!
//! By default the server's timeouts are short, some numbers are small, and only failures are printed.
//! `TEST_LONG=1` attacks a server with default settings, requires each call to end within a second, and
//! prints the table of figures; use it with a release build (`conformance/attack.sh`).
//!
//! # Invariants
//! - Nothing waits for a fixed time: attackers act, and the runner waits for what must come of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
// One program, whose modules say to each other what they have.
#![allow(unreachable_pub)]

#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod victim;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    if std::env::var_os(server::ROLE).is_some() {
        server::serve();
        return std::process::ExitCode::SUCCESS;
    }
    attacks::main()
}

/// What a process needs is read from /proc.
#[cfg(not(target_os = "linux"))]
fn main() {}
