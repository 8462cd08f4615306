//! The program `tinymcp`.
//!
//! | module | commands |
//! |---|---|
//! | `serve` | `serve`: programs, files and prompts as a server |
//! | `proxy` | `proxy`: servers over another transport, many as one |
//! | `credentials` | stored tokens and tokens in variables |
//! | `registered_client` | clients that are registered at an authorization server |
//! | `discovery` | the configuration file when the command line names no server |
//! | `http` | settings of the HTTP server, file of tokens |
//! | `network` | proxies and certificates of URLs |
//! | `mask` | masking of credentials in frames |
//! | `mutex` | locking of a mutex |
//! | `shell_words` | words of a command line, without a shell |
//! | `terminal` | characters that control a terminal |
//! | `timestamp` | points of time as text |
//! | `walk` | walk over the values of a document |
//! | `cli` | requests to servers, lint and fix of tool schemas, validation of values |
//!
//! The feature `serve` builds the program with the command `serve` only; the feature `proxy` adds
//! `proxy`, the feature `cli` the other commands.
//!
//! Results go to standard output; notes, progress and errors to standard error. The exit status is
//! 0 for success; 1 for an error of the server or tool, for findings or an invalid value; 2 for a
//! usage error or unusable input. `cli/failure.rs` lists the statuses of connections.
//!
//! Invariant: input is bounded.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "proxy")]
mod credentials;
#[cfg(feature = "proxy")]
mod discovery;
mod escape;
#[cfg(all(unix, feature = "http-server"))]
mod http;
#[cfg(any(all(unix, feature = "proxy"), feature = "cli"))]
mod mask;
#[cfg(any(unix, feature = "cli"))]
mod mutex;
#[cfg(feature = "proxy")]
mod network;
#[cfg_attr(not(unix), allow(dead_code))]
mod options;
#[cfg(all(unix, feature = "proxy"))]
mod proxy;
#[cfg(all(unix, feature = "proxy"))]
#[cfg_attr(not(feature = "cli"), allow(dead_code))] // Only `login` writes clients.
mod registered_client;
#[cfg_attr(not(unix), path = "unsupported.rs")]
mod serve;
#[cfg(any(all(unix, feature = "proxy"), feature = "cli"))]
mod shell_words;
#[path = "../../terminal.rs"]
mod terminal;
#[cfg(all(unix, feature = "proxy"))]
#[path = "../../model/timestamp.rs"]
mod timestamp;
#[cfg(any(all(unix, feature = "proxy"), feature = "cli"))]
mod walk;

use escape::plain;

/// An error is one line for standard error; the exit status is 2.
type Result<T, E = String> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let result = run(std::env::args_os().skip(1).collect());
    #[cfg(all(unix, feature = "cli"))]
    cli::park_if_ending();
    let code = match result {
        Ok(code) => ExitCode::from(code),
        // A closed pipe is not an error.
        Err(error) if error == BROKEN_PIPE => ExitCode::SUCCESS,
        Err(error) => {
            tinymcp::stderr::write(format!("tinymcp: {}\n", plain(&error)));
            ExitCode::from(2)
        }
    };
    tinymcp::stderr::flush();
    code
}

fn run(mut args: Vec<OsString>) -> Result<u8> {
    let command = args.first().cloned().unwrap_or_default();
    match command.to_str().unwrap_or_default() {
        "--version" | "-V" => out(version().as_bytes()).map(|()| 0),
        "" if cfg!(not(feature = "cli")) => Err("expected a command; see `tinymcp help`".to_owned()),
        #[cfg(feature = "cli")]
        "serve" | "proxy" if cli::asks_for_help(&args) => cli::run(args),
        "serve" => serve::run(args.split_off(1)),
        #[cfg(all(unix, feature = "proxy"))]
        "proxy" => proxy::run(args.split_off(1)),
        #[cfg(not(unix))]
        "proxy" => Err(serve::requires_unix("proxy")),
        // Starts a program inside a sandbox; run by `serve` only.
        serve::SANDBOX_COMMAND => serve::enter_sandbox(args.split_off(1)),
        #[cfg(feature = "cli")]
        _ => cli::run(args),
        #[cfg(not(feature = "cli"))]
        "help" | "--help" | "-h" => out(serve::HELP.as_bytes()).map(|()| 0),
        #[cfg(not(feature = "cli"))]
        other => Err(suggest_serve(other).unwrap_or_else(|| {
            format!(
                "unknown command {other:?}: this program was built without the feature cli; reinstall with \
                 --features cli"
            )
        })),
    }
}

/// Returns the version, and the features that differ between builds.
fn version() -> String {
    let features = [
        ("serve", true),
        ("http-server", cfg!(feature = "http-server")),
        ("proxy", cfg!(feature = "proxy")),
        ("cli", cfg!(feature = "cli")),
        ("skills", cfg!(feature = "skills")),
        ("tls", cfg!(feature = "tls")),
        ("unicode-pattern", cfg!(feature = "unicode-pattern")),
        ("idn", cfg!(feature = "idn")),
    ];
    let names: Vec<&str> = features.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    format!("tinymcp {}\nfeatures: {}\n", env!("CARGO_PKG_VERSION"), names.join(", "))
}

/// Error for a file or folder in place of a command.
fn suggest_serve(command: &str) -> Option<String> {
    (command.ends_with(".json") || Path::new(command).exists())
        .then(|| format!("unknown command {command:?}; did you mean `tinymcp serve {command}`?"))
}

const BROKEN_PIPE: &str = "the output was closed";

fn out(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => BROKEN_PIPE.to_owned(),
        _ => format!("standard output: {e}"),
    })
}
