//! Commands for servers, tool schemas and values.
//!
//! `tinymcp help` lists them. A command connects only to the given server and, for its tokens, to
//! its authorization server. `schema-lint` changes its file only with `--fix --write`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use tinymcp::json::ParseError;

mod args;
mod arguments;
mod ask;
mod bench;
mod call;
mod catalog;
mod commands;
mod completion;
mod connect;
mod failure;
mod frames;
mod help;
mod info;
mod lint;
mod lists;
// The command `shell`, which uses all of it, requires Unix.
#[cfg_attr(not(unix), allow(dead_code))]
mod names;
mod new;
mod output;
mod print;
#[cfg(unix)]
mod recording;
mod schema;
mod shell;
#[cfg(unix)]
mod sign_in;
#[cfg(unix)]
mod signals;
mod skills;
mod validate;

use args::Args;

use super::{BROKEN_PIPE, Result, suggest_serve};

#[cfg(unix)]
pub(crate) use signals::park_if_ending;

/// Largest file or line, in bytes. 64 MiB: the limit of the lint.
const MAX_BYTES: u64 = 64 << 20;

/// Options that name a server.
const SERVER_FLAGS: [&str; 15] = [
    "cacert",
    "cert",
    "key",
    "url",
    "header",
    "bearer",
    "bearer-file",
    "server",
    "config",
    "env",
    "cwd",
    "protocol",
    "timeout",
    "quiet",
    "verbose",
];
const LINT_FLAGS: [&str; 10] =
    ["json", "fix", "write", "keep-optional", "matrix", "list", "rules", "profile", "format", "max-warnings"];
const VALIDATE_FLAGS: &[&str] = &["json", "all", "format-assert", "batch"];

/// Runs a command. Options may precede it.
pub(crate) fn run(mut args: Vec<OsString>) -> Result<u8> {
    if args.is_empty() {
        return help::short().map(|()| 0);
    }
    args::command_first(&mut args);
    let first = args.remove(0);
    let word = match first.to_str().unwrap_or_default() {
        "ls" => "list",
        "sh" => "shell",
        word => match args::implied_command(word) {
            Some(command) => {
                args.insert(0, first.clone());
                command
            }
            None if is_server(word) => {
                args.insert(0, format!("{word}:").into());
                "info"
            }
            None => word,
        },
    };
    if word != "__complete" && asks_for_help(&args) {
        return help::print(Some(word)).map(|()| 0);
    }
    let status = match word {
        "help" | "--help" | "-h" => {
            return help::print(args.first().and_then(|arg| arg.to_str())).map(|()| 0);
        }
        "man" => help::man(&Args::parse(word, args, &[])?).map(|()| 0),
        "schema-lint" => lint::schema_lint(&Args::parse(word, args, &commands::flags(word))?),
        "schema-simplify" => lint::schema_simplify(&Args::parse(word, args, &commands::flags(word))?),
        "completions" => return completion::script(&texts(&args)).map(|()| 0),
        // Run by the scripts that `completions` prints.
        "__complete" => return completion::complete(&texts(&args)).map(|()| 0),
        "new" => new::run(&Args::parse(word, args, &commands::flags(word))?),
        "explain" => lint::explain(&Args::parse(word, args, &[])?),
        "validate" => return validate::validate(&Args::parse(word, args, &commands::flags(word))?),
        #[cfg(unix)]
        "login" | "logout" | "auth" => sign_in::run(word, &Args::parse(word, args, &commands::flags(word))?),
        #[cfg(not(unix))]
        "login" | "logout" | "auth" | "record" | "replay" => Err(crate::serve::requires_unix(word).into()),
        word if commands::has_command(word) => commands::run(word, args),
        "serve" | "proxy" => {
            return Err(format!("the options of {word} must follow the command: tinymcp {word} ..."));
        }
        other => return Err(help::unknown(other, args::names_server(&args))),
    };
    #[cfg(unix)]
    ask::sampler::end();
    status.or_else(|failure| {
        #[cfg(unix)]
        park_if_ending();
        if failure.message == BROKEN_PIPE {
            return Err(failure.message);
        }
        failure.print();
        Ok(failure.status)
    })
}

/// Returns whether a word is not a command, but a key of the configuration file.
fn is_server(word: &str) -> bool {
    !help::commands().contains(&word)
        && !word.starts_with(['-', '_'])
        && lists::configuration(None)
            .and_then(|file| lists::keys(&file).ok())
            .is_some_and(|keys| keys.iter().any(|key| key == word))
}

/// Returns whether the arguments have the option for help. Those after `--` belong to the server.
pub(crate) fn asks_for_help(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--help" || arg == "-h")
}

/// Returns the arguments that are UTF-8.
fn texts(args: &[OsString]) -> Vec<&str> {
    args.iter().filter_map(|arg| arg.to_str()).collect()
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
