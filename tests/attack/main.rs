//! Attacks on the HTTP server by clients on the network.
//!
//! The binary has its own test runner (`harness = false` in Cargo.toml). The server is this program
//! in a separate process, so that its memory, threads and descriptors can be measured. During an
//! attack a witness calls a tool, on new connections and on one that stays open. Every call must
//! get a response.
//!
//! By default the timeouts of the server are short, some counts are low, and only failures are
//! printed. `TEST_LONG=1` uses default settings, requires each call to end within a second, and
//! prints the table of figures. Use it with a release build (`conformance/attack.sh`).
//!
//! # Invariants
//! - No test waits for a fixed time: the runner waits for the result of each attack.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
// One program: its modules share their items.
#![allow(unreachable_pub)]

#[cfg(target_os = "linux")]
mod attacks;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod server;
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

/// The figures of a process are read from /proc.
#[cfg(not(target_os = "linux"))]
fn main() {}
