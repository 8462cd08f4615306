//! Command `serve` on systems other than Unix: not available.
//!
//! Process groups, signals and the safe opening of files have no equivalent there.

use std::ffi::OsString;

use crate::Result;

#[path = "serve/words.rs"]
#[allow(dead_code)] // The rest serves the command.
mod words;

#[allow(unused_imports)] // For the feature `cli`.
pub(crate) use words::nearest;

/// Hidden command that starts a program inside a sandbox.
pub(crate) const SANDBOX_COMMAND: &str = "__sandbox";

/// Help of the command.
pub(crate) const HELP: &str = include_str!("serve/help.txt");

/// Returns an error.
pub(crate) fn run(_: Vec<OsString>) -> Result<u8> {
    Err(requires_unix("serve"))
}

/// Returns the error for a command that is not available here.
pub(crate) fn requires_unix(command: &str) -> String {
    format!("`tinymcp {command}` requires Unix")
}

/// Returns an error.
pub(crate) fn enter_sandbox(args: Vec<OsString>) -> Result<u8> {
    run(args)
}
