//! The program `tinymcp`.
//!
//! | module | commands |
//! |---|---|
//! | `serve` | `serve`: programs, files and prompts as a server |
//! | `proxy` | `proxy`: servers over another transport, many as one |
//! | `discovery` | the configuration file when the command line names no server |
//! | `http` | settings of the HTTP server, file of tokens |
//! | `mask` | masking of credentials in frames |
//! | `cli` | requests to servers, lint and fix of tool schemas, validation of values |
//!
//! The feature `serve` builds the program with that command only; the feature `proxy` adds that
//! command, the feature `cli` the others.
//!
//! Results go to standard output; notes, progress and errors to standard error. The exit status is
//! 0 for success; 1 for an error of the server or tool, for findings or an invalid value; 2 for a
//! usage error or unusable input. `cli/failure.rs` lists those for connections.
//!
//! Invariant: input is bounded.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "proxy")]
mod discovery;
mod escape;
#[cfg(all(unix, feature = "http-server"))]
mod http;
#[cfg(all(unix, feature = "proxy"))]
mod mask;
#[cfg_attr(not(unix), allow(dead_code))]
mod options;
#[cfg(all(unix, feature = "proxy"))]
mod proxy;
#[cfg_attr(not(unix), path = "unsupported.rs")]
mod serve;

use escape::plain;

/// An error is one line for standard error; the exit status is 2.
type Result<T, E = String> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let result = run(std::env::args_os().skip(1).collect());
    #[cfg(all(unix, feature = "cli"))]
    cli::park_if_signalled();
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
        "--version" | "-V" => out(format!("tinymcp {}\n", env!("CARGO_PKG_VERSION")).as_bytes()).map(|()| 0),
        "" if cfg!(not(feature = "cli")) => Err("expected a command; see `tinymcp help`".to_owned()),
        "serve" => serve::run(args.split_off(1)),
        #[cfg(all(unix, feature = "proxy"))]
        "proxy" => proxy::run(args.split_off(1)),
        // Starts a program inside a sandbox; run by `serve` only.
        serve::SANDBOX_COMMAND => serve::enter_sandbox(args.split_off(1)),
        #[cfg(feature = "cli")]
        _ => cli::run(args),
        #[cfg(not(feature = "cli"))]
        "help" | "--help" | "-h" => out(serve::HELP.as_bytes()).map(|()| 0),
        #[cfg(not(feature = "cli"))]
        other => Err(meant_serve(other).unwrap_or_else(|| {
            format!(
                "unknown command {other:?}: this program was built without the feature cli; reinstall with \
                 --features cli"
            )
        })),
    }
}

/// Error for a file or folder in place of a command.
fn meant_serve(command: &str) -> Option<String> {
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
