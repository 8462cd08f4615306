//! Command `serve`: programs, files and prompts as an MCP server, described by JSON files.
//!
//! ```text
//! files ─ read ─► Definition ─ catalog ─► Server ─ transport ─► client
//!                                            │ tools/call
//!                     arguments ─ template ─► argv ─ process | worker ─► result
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `definition.rs` | types of a definition: tools, resources, prompts |
//! | `options.rs` | command line |
//! | `words.rs` | lists of names, suggestions for misspelt names |
//! | `read.rs` | files to a definition, with every error at its line |
//! | `place.rs` | line and JSON pointer of a value |
//! | `check.rs` | `--check`: programs, files, lint; `--schema` |
//! | `host_config.rs` | `--print-config` |
//! | `template.rs` | argument templates: one element is one argument, never a shell |
//! | `tool.rs` | handler of a tool: confirmation, concurrency, run, result |
//! | `programs/` | processes, workers, their output, sandbox |
//! | `files.rs` | resources and prompts from files |
//! | `skills.rs` | skills from a folder |
//! | `watch.rs` | stamps of watched files |
//! | `hangup.rs` | SIGHUP as an event of a thread |
//! | `catalog.rs` | registration, and the changes of a reload |
//! | `run.rs` | serving over stdio or HTTP, reload by `--watch` and SIGHUP |
//!
//! # Invariants
//! - No argument of a call reaches a shell, the name of a program or the environment.
//! - Every process that a call starts is dead and reaped when the call ends.
//! - A file that cannot be read completely changes nothing in a running server.

use std::ffi::OsString;

use crate::{Result, out};

// Those with `pub(crate)` are used by the fuzz target `definition`, too.
pub(crate) mod catalog;
pub(crate) mod check;
pub(crate) mod definition;
mod files;
mod hangup;
mod host_config;
mod options;
pub(crate) mod place;
mod programs;
pub(crate) mod read;
mod run;
#[cfg_attr(not(feature = "skills"), path = "no_skills.rs")]
mod skills;
mod template;
pub(crate) mod tool;
mod watch;
mod words;

pub(crate) use words::nearest;
#[cfg(feature = "http-server")]
pub(crate) use {files::open, options::HttpOptions, run::log};
#[cfg(feature = "proxy")]
pub(crate) use {hangup::Hangups, hangup::Wake, run::spawn, watch::Stamps};

use options::Options;
use programs::{group, sandbox};

/// Hidden command that starts a program inside a sandbox.
pub(crate) const SANDBOX_COMMAND: &str = "__sandbox";

/// Help of the command.
pub(crate) const HELP: &str = include_str!("help.txt");

/// Runs `tinymcp serve` with these arguments.
pub(crate) fn run(args: Vec<OsString>) -> Result<u8> {
    // First, because no descriptor is in use yet.
    sandbox::close_inherited_at_exec();
    group::watch_exits().map_err(|error| format!("SIGCHLD: {error}"))?;
    let options = Options::parse(args)?;
    if options.help {
        return out(HELP.as_bytes()).map(|()| 0);
    }
    if options.schema {
        return out(format!("{}\n", check::FILE_SCHEMA).as_bytes()).map(|()| 0);
    }
    if options.check {
        return check::run(&options.files);
    }
    if let Some(host) = &options.print_config {
        let config = host_config::text(host, &options)?;
        eprintln!("{}", crate::escape::plain(&host_config::note(host, &options)));
        return out(config.as_bytes()).map(|()| 0);
    }
    run::serve(&options)
}

/// Applies the sandbox of the arguments to this process and executes the program after `--`.
/// Returns only if that fails, with the exit status.
pub(crate) fn enter_sandbox(args: Vec<OsString>) -> Result<u8> {
    Ok(sandbox::enter(args))
}
