//! Commands `shell` and `run`: lines of commands on one connection.
//!
//! A line is a command with its arguments, or a tool with its arguments, quoted as in a shell. A
//! line that begins with `#` is a comment. `run` reads the lines of a file and stops at the first
//! one that fails. `shell` reads them at a terminal with an editor, otherwise as `run` does.

#[cfg(unix)]
mod editor;
#[cfg(unix)]
mod history;

use std::ffi::OsString;
use std::io::{self, BufRead, Read};

use tinymcp::Client;

use super::args::Args;
use super::commands::{OUTPUT_FLAGS, Request};
use super::failure::{Failure, Result};
use super::output::Output;
use super::{MAX_BYTES, connect, help};
use crate::escape::one_line;
use crate::out;
use crate::shell_words::{Dialect, split};

/// Commands of a line, besides the names of tools.
pub(crate) const COMMANDS: [&str; 9] =
    ["list", "info", "call", "read", "get", "complete", "ping", "help", "quit"];

const HELP: &str = "  list [tools|resources|templates|prompts]...
  info [TOOL]
  [call] TOOL [ARGUMENT]...
  read URI
  get PROMPT [NAME=TEXT]...
  complete prompt NAME|template TEMPLATE ARGUMENT=TYPED [NAME=TEXT]...
  ping
  help [COMMAND]
  quit
Options of a line: --json --raw --text --pretty --field POINTER --structured -o FILE
";

/// Runs one of the commands. Returns the exit status.
pub(crate) fn run(command: &str, args: &Args, output: &Output, words: &[&str]) -> Result<u8> {
    match (command, words) {
        #[cfg(unix)]
        ("shell", []) if editor::is_interactive() => editor::run(args, output),
        ("shell", []) => script(args, output, "standard input", &mut io::stdin().lock()),
        ("run", ["-"]) => script(args, output, "standard input", &mut io::stdin().lock()),
        ("run", [file]) => script(args, output, file, &mut &*super::read(file.as_ref())?),
        ("run", _) => Err("expected one file of lines; see `tinymcp help run`".into()),
        _ => Err("shell has no arguments; see `tinymcp help shell`".into()),
    }
}

/// Runs lines until one fails, or all with `--keep-going`.
fn script(args: &Args, output: &Output, label: &str, lines: &mut dyn BufRead) -> Result<u8> {
    let session = Session { args, client: connect::connect(connect::builder(args)?, args)?, output };
    let mut status = 0;
    let mut text = Vec::new();
    for number in 1_u64.. {
        text.clear();
        let place = format!("{label}:{number}");
        let read = lines.take(MAX_BYTES + 1).read_until(b'\n', &mut text);
        if read.map_err(|e| format!("{place}: {e}"))? == 0 {
            break;
        }
        if text.len() as u64 > MAX_BYTES {
            return Err(format!("{place}: longer than {MAX_BYTES} bytes").into());
        }
        let line = std::str::from_utf8(&text).map_err(|_| format!("{place}: not UTF-8"))?;
        let failure = match session.line(line) {
            Ok(LineEnd::Status(0)) => continue,
            Ok(LineEnd::Quit) => break,
            Ok(LineEnd::Status(status)) => Failure::new(status, format!("exit status {status}")),
            Err(failure) => failure,
        };
        let failure = Failure { message: format!("{place}: {}", failure.message), ..failure };
        if !args.has("keep-going") || failure.ends_all() {
            return Err(failure);
        }
        failure.print();
        status = status.max(failure.status);
    }
    Ok(status)
}

/// End of a line.
enum LineEnd {
    Status(u8),
    /// The line ends the session.
    Quit,
}

/// A connection with the options of the command line.
struct Session<'a> {
    args: &'a Args,
    client: Client,
    /// Output of lines without output options.
    output: &'a Output,
}

impl Session<'_> {
    /// Runs one line.
    fn line(&self, line: &str) -> Result<LineEnd> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(LineEnd::Status(0));
        }
        let words = split(line, Dialect::Shlex)?;
        let (command, rest) = match words.split_first() {
            Some((first, rest)) if COMMANDS.contains(&first.as_str()) => (first.as_str(), rest),
            Some((first, _)) if first == "exit" => return Ok(LineEnd::Quit),
            _ => ("call", &*words),
        };
        match command {
            "quit" => return Ok(LineEnd::Quit),
            "help" => return print_help(rest).map(|()| LineEnd::Status(0)),
            _ => {}
        }
        let further: &[&str] = if command == "call" { &["structured"] } else { &[] };
        let flags = [&OUTPUT_FLAGS[..], further].concat();
        let own = Args::parse(command, rest.iter().map(OsString::from).collect(), &flags)?;
        let mut args = own.within(self.args);
        let words = args.words()?;
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let ("call" | "get" | "info", Some(name)) = (command, words.first_mut()) {
            *name = args.take_name(name);
        }
        if command == "call" && words.last() == Some(&"-") {
            return Err("a line cannot read standard input; use @FILE".into());
        }
        let request = Request::parse(command, &words)?;
        let own = args.has_output().then(|| Output::new(&args)).transpose()?;
        let output = own.as_ref().unwrap_or(self.output);
        request.run(&args, &self.client, output).map(LineEnd::Status)
    }
}

fn print_help(words: &[String]) -> Result<()> {
    match words {
        [] => Ok(out(HELP.as_bytes())?),
        [command, ..] => match help::of(command).filter(|_| COMMANDS.contains(&command.as_str())) {
            Some(text) => Ok(out(text.as_bytes())?),
            None => {
                Err(format!("no command {:?}; expected one of: {}", one_line(command), COMMANDS.join(", "))
                    .into())
            }
        },
    }
}
