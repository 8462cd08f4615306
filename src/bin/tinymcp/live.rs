//! The tools of a server that runs: a program started for it, or one at a URL.
//!
//! It asks for the list, all pages of it, and ends the connection; no tool is called. What the
//! program says on standard error is shown.
//!
//! Invariant: the catalog holds the descriptions as the server sent them, byte for byte.

use std::ffi::OsString;

use tinymcp::json::Writer;
use tinymcp::{Client, Error};

/// The catalog of a program.
pub(crate) fn of_program(words: &[OsString]) -> Result<String, String> {
    let Some((program, args)) = words.split_first() else {
        return Err("a command is expected behind --".to_owned());
    };
    let mut command = std::process::Command::new(program);
    command.args(args);
    catalog(Client::spawn(command)).map_err(|e| format!("{}: {e}", program.to_string_lossy()))
}

/// The catalog at a URL.
#[cfg(feature = "http-client")]
pub(crate) fn of_url(url: &str) -> Result<String, String> {
    catalog(Client::connect(url)).map_err(|e| format!("{url}: {e}"))
}

fn catalog(client: Result<Client, Error>) -> Result<String, Error> {
    let client = client?;
    let tools = client.tools()?;
    let mut w = Writer::new();
    w.begin_object().key("tools").begin_array();
    for tool in &tools {
        if let Some(source) = &tool.source {
            w.json(source);
        }
    }
    w.end_array().end_object().newline();
    Ok(w.as_str().to_owned())
}
