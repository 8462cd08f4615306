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
#[cfg(all(unix, feature = "proxy"))]
mod proxy;
#[cfg(all(unix, feature = "proxy"))]
mod proxy_aliases;
#[cfg(all(unix, feature = "proxy"))]
mod proxy_endpoints;
#[cfg(all(target_os = "linux", feature = "proxy"))]
mod proxy_issues;
#[cfg(all(unix, feature = "proxy"))]
mod proxy_log;
#[cfg(all(unix, feature = "proxy"))]
mod proxy_per_client;
#[cfg(all(unix, feature = "proxy"))]
mod proxy_reload;
mod readme;
#[cfg(feature = "serve")]
mod serve_check;
#[cfg(all(unix, feature = "serve", feature = "client"))]
mod serve_command_line;
#[cfg(all(unix, feature = "serve", feature = "client"))]
mod serve_files;
#[cfg(all(target_os = "linux", feature = "serve", feature = "client"))]
mod serve_host;
#[cfg(all(unix, feature = "serve", feature = "http-server", feature = "http-client"))]
mod serve_http;
#[cfg(all(unix, feature = "serve", feature = "client"))]
mod serve_reload;
#[cfg(feature = "serve")]
mod serve_sandbox;
#[cfg(all(unix, feature = "serve", feature = "client"))]
mod serve_session;
#[cfg(all(unix, feature = "cli"))]
mod serve_skills;
#[cfg(all(unix, feature = "serve", feature = "client"))]
mod serve_tools;

/// Returns whether an emulator runs the programs. It has no Landlock, and a sandbox would have to
/// grant its files, too, because the kernel starts it in place of the programs.
#[cfg(all(target_os = "linux", feature = "serve"))]
fn emulated() -> bool {
    std::env::var_os("TEST_EMULATED").is_some()
}

/// What the scripted servers parse requests with.
#[cfg(all(unix, feature = "cli"))]
mod json {
    pub(crate) use tinymcp::json::Doc;
}
