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
mod arguments;
mod call;
mod commands;
mod completion;
mod connect;
mod diff;
mod failure;
mod forms;
mod info;
mod lint;
mod lists;
mod output;
mod print;
#[cfg(unix)]
mod recording;
mod schema;
#[cfg(unix)]
mod signals;
mod validate;

use args::Args;

use super::{BROKEN_PIPE, Result, meant_serve, out, serve};
use crate::serve::nearest;

#[cfg(unix)]
pub(crate) use signals::park_if_signalled;

/// Largest file or line, in bytes. 64 MiB: the limit of the lint.
const MAX_BYTES: u64 = 64 << 20;

const HELP: &str = include_str!("help.txt");

/// Options that name a server.
const SERVER_FLAGS: [&str; 10] =
    ["url", "header", "bearer", "server", "config", "env", "cwd", "protocol", "timeout", "quiet"];
const LINT_FLAGS: [&str; 10] =
    ["json", "fix", "write", "keep-optional", "matrix", "list", "rules", "profile", "format", "max-warnings"];
const VALIDATE_FLAGS: &[&str] = &["json", "all", "format-assert", "batch"];

/// Runs a command. Options may precede it.
pub(crate) fn run(mut args: Vec<OsString>) -> Result<u8> {
    if args.is_empty() {
        return short_help().map(|()| 0);
    }
    args::command_first(&mut args);
    let command = args.remove(0);
    let word = command.to_str().unwrap_or_default();
    // Arguments after `--` belong to the server.
    let mut own = args.iter().take_while(|arg| *arg != "--");
    if word != "__complete" && own.any(|arg| arg == "--help" || arg == "-h") {
        return help(word).map(|()| 0);
    }
    let status = match word {
        "help" | "--help" | "-h" => match args.first().and_then(|arg| arg.to_str()) {
            Some(command) => return help(command).map(|()| 0),
            None => return out(HELP.as_bytes()).map(|()| 0),
        },
        "schema-lint" => {
            lint::schema_lint(&Args::parse(word, args, &[&SERVER_FLAGS[..], &LINT_FLAGS].concat())?)
        }
        "schema-simplify" => {
            lint::schema_simplify(&Args::parse(word, args, &[&SERVER_FLAGS[..], &["profile"]].concat())?)
        }
        "completions" => return completion::script(&texts(&args)).map(|()| 0),
        // Run by the scripts that `completions` prints.
        "__complete" => return completion::complete(&texts(&args)).map(|()| 0),
        "explain" => lint::explain(&Args::parse(word, args, &[])?),
        "validate" => return validate::validate(&Args::parse(word, args, VALIDATE_FLAGS)?),
        word if commands::has_command(word) => commands::run(word, args),
        "serve" | "proxy" => {
            return Err(format!("the options of {word} must follow the command: tinymcp {word} …"));
        }
        other => return Err(meant_serve(other).unwrap_or_else(|| unknown(other))),
    };
    status.or_else(|failure| {
        #[cfg(unix)]
        park_if_signalled();
        if failure.message == BROKEN_PIPE {
            return Err(failure.message);
        }
        failure.print();
        Ok(failure.status)
    })
}

/// Prints the start of the help, for a program without arguments.
fn short_help() -> Result<()> {
    let mut text = HELP.split("\n\n").take(2).collect::<Vec<_>>().join("\n\n");
    text.push_str("\n\nCommands:\n");
    for command in commands() {
        let help = HELP.split("\n\n").find(|part| part.starts_with(&format!("  tinymcp {command} ")));
        // The description follows the lines of usage, and its first sentence says what it does.
        let lines = help.into_iter().flat_map(str::lines).filter(|line| line.starts_with("      "));
        let words = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        let sentence = words.split_once(". ").map_or(&*words, |(first, _)| first).trim_end_matches('.');
        text.push_str(&format!("  {command:16} {sentence}\n"));
    }
    text.push_str("\n`tinymcp help COMMAND` describes a command, `tinymcp help` all of them.\n");
    out(text.as_bytes())
}

/// Returns the arguments that are UTF-8.
fn texts(args: &[OsString]) -> Vec<&str> {
    args.iter().filter_map(|arg| arg.to_str()).collect()
}

/// Returns the commands that the help describes.
fn commands() -> Vec<&'static str> {
    let known = HELP.lines().filter_map(|line| line.strip_prefix("  tinymcp ")?.split(' ').next());
    let mut known: Vec<&str> = known.collect();
    known.dedup();
    known
}

fn unknown(command: &str) -> String {
    let known = commands();
    let list = ["tools", "resources", "templates", "prompts"].contains(&command);
    let cure = match nearest(command, &mut known.iter().copied()) {
        _ if list => format!("did you mean `tinymcp list {command}`?"),
        Some(near) => format!("did you mean `tinymcp {near}`?"),
        None => format!("expected one of: {}", known.join(", ")),
    };
    format!("unknown command {command:?}; {cure}")
}

/// Prints the help of one command.
pub(crate) fn help(command: &str) -> Result<()> {
    out(help_of(command).ok_or_else(|| unknown(command))?.as_bytes())
}

/// Returns the part of the help that belongs to one command, with the paragraphs about servers if
/// the command has them.
fn help_of(command: &str) -> Option<String> {
    if command == "serve" {
        return Some(serve::HELP.to_owned());
    }
    #[cfg(all(unix, feature = "proxy"))]
    if command == "proxy" {
        return Some(crate::proxy::HELP.to_owned());
    }
    let parts: Vec<&str> = HELP.split("\n\n").collect();
    let usage = format!("  tinymcp {command} ");
    let part = parts.iter().find(|part| part.starts_with(&usage))?;
    let mut text = vec![*part];
    text.extend(parts.iter().filter(|other| {
        other.starts_with("SERVER is") && part.contains("SERVER")
            || other.starts_with("Options of these") && commands::has_command(command)
            || other.starts_with("Exit status")
    }));
    Some(format!("{}\n", text.join("\n\n")))
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
