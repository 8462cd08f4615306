//! Commands for servers, tool schemas and values.
//!
//! `tinymcp help` lists them. The program connects only to the given server. Only `--fix --write`
//! changes a file.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use tinymcp::json::ParseError;

mod args;
mod commands;
mod connect;
mod lint;
mod print;
#[cfg(unix)]
mod signals;
mod validate;

use args::Args;

use super::{Result, meant_serve, out, serve};

#[cfg(unix)]
pub(crate) use signals::park_if_signalled;

/// Largest file or line, in bytes. 64 MiB: the limit of the lint.
const MAX_BYTES: u64 = 64 << 20;

const HELP: &str = include_str!("help.txt");

const LINT_FLAGS: &[&str] =
    &["json", "fix", "write", "keep-optional", "matrix", "list", "rules", "profile", "url"];
const SIMPLIFY_FLAGS: &[&str] = &["profile", "url"];
const VALIDATE_FLAGS: &[&str] = &["json", "all", "format-assert", "batch"];

/// Runs a command.
pub(crate) fn run(mut args: Vec<OsString>) -> Result<u8> {
    let command = args.remove(0);
    let word = command.to_str().unwrap_or_default();
    // Arguments after `--` belong to the server.
    let mut own = args.iter().take_while(|arg| *arg != "--");
    if own.any(|arg| arg == "--help" || arg == "-h") {
        return help(word).map(|()| 0);
    }
    match word {
        "help" | "--help" | "-h" => match args.first().and_then(|arg| arg.to_str()) {
            Some(command) => help(command).map(|()| 0),
            None => out(HELP.as_bytes()).map(|()| 0),
        },
        "schema-lint" => lint::schema_lint(&Args::parse(word, args, LINT_FLAGS)?),
        "schema-simplify" => lint::schema_simplify(&Args::parse(word, args, SIMPLIFY_FLAGS)?),
        "validate" => validate::validate(&Args::parse(word, args, VALIDATE_FLAGS)?),
        word if commands::has_command(word) => commands::run(word, args),
        other => Err(meant_serve(other).unwrap_or_else(|| unknown(other))),
    }
}

fn unknown(command: &str) -> String {
    let known = HELP.lines().filter_map(|line| line.strip_prefix("  tinymcp ")?.split(' ').next());
    let mut known: Vec<&str> = known.collect();
    known.dedup();
    format!("unknown command {command:?}; expected one of: {}", known.join(", "))
}

/// Prints the part of the help that belongs to one command, and the paragraphs about servers if the
/// command has them.
pub(crate) fn help(command: &str) -> Result<()> {
    if command == "serve" {
        return out(serve::HELP.as_bytes());
    }
    #[cfg(all(unix, feature = "proxy"))]
    if command == "proxy" {
        return out(crate::proxy::HELP.as_bytes());
    }
    let parts: Vec<&str> = HELP.split("\n\n").collect();
    let usage = format!("  tinymcp {command} ");
    let Some(part) = parts.iter().find(|part| part.starts_with(&usage)) else { return Err(unknown(command)) };
    let mut text = vec![*part];
    text.extend(parts.iter().filter(|other| {
        other.starts_with("SERVER is") && part.contains("SERVER")
            || other.starts_with("Options of") && commands::has_command(command)
    }));
    out(format!("{}\n", text.join("\n\n")).as_bytes())
}

/// Reads a file; `-` is standard input.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    read.map_err(|e| format!("{}: {e}", path.display()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{}: longer than {MAX_BYTES} bytes", path.display()));
    }
    Ok(bytes)
}

/// Formats a JSON error with its position.
fn json_error(path: &Path, text: &[u8], error: ParseError) -> String {
    let before = text.get(..error.offset().min(text.len())).unwrap_or_default();
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
    format!("{}:{line}:{column}: {} (byte {})", path.display(), error.kind(), error.offset())
}
