//! Help: the text of all commands, and parts of it.
//!
//! `help.txt` describes each command in a paragraph that starts with its usage. The names of the
//! commands, completion and the manual page come from the same text.

mod layout;
mod man;

use std::io::{self, IsTerminal};

use super::{commands, print, suggest_serve};
use crate::serve::{self, nearest};
use crate::{Result, out};

pub(crate) use man::run as man;

const HELP: &str = include_str!("help.txt");
/// Help of the command `proxy`, also where it is not available.
const PROXY_HELP: &str = include_str!("../../proxy/help.txt");
/// Exit status of commands that connect to no server.
const LOCAL_STATUS: &str =
    "Exit status: 0 success; 1 findings or an invalid value; 2 usage error or unusable input.";

/// Prints the help of all commands, or of one.
pub(crate) fn print(command: Option<&str>) -> Result<()> {
    match command {
        Some(command) => show(&of(command).ok_or_else(|| unknown(command, false))?),
        None => show(HELP),
    }
}

/// Prints the start of the help, for a program without arguments.
pub(crate) fn short() -> Result<()> {
    let mut text = HELP.split("\n\n").take(2).collect::<Vec<_>>().join("\n\n");
    text.push_str("\n\nCommands:\n");
    for command in commands() {
        text.push_str(&format!("  {command:16} {}\n", summary(command)));
    }
    text.push_str("\n`tinymcp help COMMAND` describes a command, `tinymcp help` all of them.\n");
    show(&text)
}

/// Prints a help text; at a terminal, lines have its width at most.
fn show(text: &str) -> Result<()> {
    let columns = io::stdout().is_terminal().then(|| print::columns(io::stdout()));
    match columns {
        Some(columns) => out(layout::wrapped(text, columns).as_bytes()),
        None => out(text.as_bytes()),
    }
}

/// Returns the first sentence of the description of a command.
fn summary(command: &str) -> String {
    let help = HELP.split("\n\n").find(|part| part.starts_with(&usage(command)));
    // The description follows the lines of usage.
    let lines = help.into_iter().flat_map(str::lines).filter(|line| line.starts_with("      "));
    let words = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    words.split_once(". ").map_or(&*words, |(first, _)| first).trim_end_matches('.').to_owned()
}

fn usage(command: &str) -> String {
    format!("  tinymcp {command} ")
}

/// Returns the commands that the help describes.
pub(crate) fn commands() -> Vec<&'static str> {
    let known = HELP.lines().filter_map(|line| line.strip_prefix("  tinymcp ")?.split(' ').next());
    let mut known: Vec<&str> = known.collect();
    known.dedup();
    known
}

/// Returns the error for a command that does not exist. It may be a tool if a server is named.
pub(crate) fn unknown(command: &str, has_server: bool) -> String {
    if let Some(message) = suggest_serve(command) {
        return message;
    }
    let known = commands();
    let list = ["tools", "resources", "templates", "prompts"].contains(&command);
    let cure = match nearest(command, &mut known.iter().copied()) {
        _ if list => format!("did you mean `tinymcp list {command}`?"),
        Some(near) => format!("did you mean `tinymcp {near}`?"),
        None if has_server => format!("did you mean `tinymcp call {command}`? See also `tinymcp help`"),
        None => format!("expected one of: {}", known.join(", ")),
    };
    format!("unknown command {command:?}; {cure}")
}

/// Returns the part of the help that belongs to one command, with the paragraphs about servers if
/// the command has them.
pub(crate) fn of(command: &str) -> Option<String> {
    if command == "serve" {
        return Some(serve::HELP.to_owned());
    }
    if command == "proxy" {
        return Some(PROXY_HELP.to_owned());
    }
    let parts: Vec<&str> = HELP.split("\n\n").collect();
    let mut text: Vec<&str> =
        parts.iter().copied().filter(|part| part.starts_with(&usage(command))).collect();
    if text.is_empty() {
        return None;
    }
    let has_server = text.iter().any(|part| part.contains("SERVER"));
    text.extend(parts.iter().filter(|other| {
        other.starts_with("SERVER is") && has_server
            || other.starts_with("Options of these") && commands::has_command(command)
            || other.starts_with("Exit status") && (has_server || matches!(command, "login" | "logout"))
    }));
    if !text.last().is_some_and(|last| last.starts_with("Exit status")) {
        text.push(LOCAL_STATUS);
    }
    Some(format!("{}\n", text.join("\n\n").trim_end()))
}

/// Returns the options that the help of a command names, or those of all commands.
pub(crate) fn options(command: &str) -> Vec<String> {
    let help = of(command).unwrap_or_else(|| HELP.to_owned());
    let words = help.split(|c: char| c.is_whitespace() || "[]|,;().".contains(c));
    let words = words.filter(|word| word.len() > 2 && word.starts_with("--"));
    let mut names: Vec<String> = words.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}
