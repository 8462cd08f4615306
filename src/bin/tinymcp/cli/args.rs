//! Arguments of a command: operands, options, and the server.
//!
//! Parses every option of every command and rejects those that a command does not have.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;
use tinymcp::Protocol;
use tinymcp::lint::{PROFILES, Profile};

use crate::Result;
use crate::options::{self, unknown};

/// Short options and their long names.
const SHORT: [(char, &str); 4] = [('H', "header"), ('e', "env"), ('o', "output"), ('q', "quiet")];
/// Options with a value.
const WITH_VALUE: [&str; 20] = [
    "ignore",
    "format",
    "max-warnings",
    "answer",
    "root",
    "rules",
    "header",
    "bearer",
    "env",
    "cwd",
    "protocol",
    "timeout",
    "count",
    "server",
    "config",
    "url",
    "profile",
    "batch",
    "field",
    "output",
];

/// Parsed arguments.
#[derive(Default)]
pub(crate) struct Args {
    pub(crate) files: Vec<PathBuf>,
    flags: HashSet<&'static str>,
    pub(crate) lint: LintOptions,
    pub(crate) batch: Option<PathBuf>,
    pub(crate) server: Server,
    /// Protocol of the server; detected if not given.
    pub(crate) protocol: Option<Protocol>,
    /// Timeout of each response.
    pub(crate) timeout: Option<Duration>,
    /// Number of events to wait for.
    pub(crate) count: Option<u64>,
    /// Answers to questions of the server; a consent has no name.
    pub(crate) answers: Vec<(String, String)>,
    /// Pointers to differences that do not count.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(crate) ignore: Vec<String>,
    /// Folders that the server may work in.
    pub(crate) roots: Vec<PathBuf>,
    /// JSON Pointer to the part of the result to print.
    pub(crate) field: Option<String>,
    /// File to write the result to.
    pub(crate) output: Option<PathBuf>,
}

/// Options of the lint.
#[derive(Default)]
pub(crate) struct LintOptions {
    pub(crate) rules: Option<String>,
    pub(crate) profile: Option<&'static Profile>,
    /// Format of findings.
    pub(crate) format: Option<Format>,
    /// Number of warnings that are accepted.
    pub(crate) max_warnings: Option<u64>,
}

/// Format of findings for another program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Github,
    Sarif,
}

/// The server to connect to.
#[derive(Default)]
pub(crate) struct Server {
    /// Program and arguments of a server to start.
    pub(crate) command: Option<Vec<OsString>>,
    /// Variables of the program.
    pub(crate) env: Vec<(String, String)>,
    /// Folder of the program.
    pub(crate) cwd: Option<PathBuf>,
    /// URL of a running server.
    pub(crate) url: Option<String>,
    /// Headers of each request to it.
    pub(crate) headers: Vec<(String, String)>,
    /// Key of a server in a configuration file.
    pub(crate) key: Option<String>,
    /// The configuration file; discovered if not given.
    pub(crate) config: Option<PathBuf>,
}

impl Server {
    /// Returns whether the command line names a server.
    pub(crate) fn is_given(&self) -> bool {
        self.command.is_some() || self.url.is_some() || self.key.is_some()
    }
}

impl Args {
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    /// Parses the arguments of `command`, which has the options `flags`.
    pub(crate) fn parse(command: &str, mut args: Vec<OsString>, flags: &[&'static str]) -> Result<Args> {
        let mut parsed = Args::default();
        if let (true, Some(at)) = (flags.contains(&"url"), args.iter().position(|arg| arg == "--")) {
            parsed.server.command = Some(args.split_off(at).split_off(1));
        }
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next().map_err(|e| e.to_string())? {
            let given = match arg {
                Value(file) => {
                    parsed.files.push(file.into());
                    continue;
                }
                Long(name) => name.to_owned(),
                Short(letter) => match SHORT.iter().find(|(known, _)| *known == letter) {
                    Some((_, name)) => (*name).to_owned(),
                    None => return Err(format!("unknown option -{letter}; see `tinymcp help {command}`")),
                },
            };
            let Some(flag) = flags.iter().find(|flag| **flag == given) else {
                return Err(unknown(&format!("--{given}"), command, &flags.join(" ")));
            };
            if !WITH_VALUE.contains(flag) {
                parsed.flags.insert(flag);
                continue;
            }
            let value = options::value(&mut parser)?;
            match *flag {
                "config" => parsed.server.config = Some(value.into()),
                "batch" => parsed.batch = Some(value.into()),
                "root" => parsed.roots.push(value.into()),
                "cwd" => parsed.server.cwd = Some(value.into()),
                "output" => parsed.output = Some(value.into()),
                flag => parsed.set(flag, value.string().map_err(|e| e.to_string())?)?,
            }
        }
        Ok(parsed)
    }

    /// Takes the server's key from `KEY:NAME`, unless the options name a server.
    pub(crate) fn take_server(&mut self, name: &mut &str) {
        if self.server.is_given() {
            return;
        }
        if let Some((key, rest)) = name.split_once(':') {
            self.server.key = Some(key.to_owned());
            *name = rest;
        }
    }

    fn set(&mut self, option: &str, text: String) -> Result<()> {
        match option {
            "rules" => self.lint.rules = Some(text),
            "header" => self.server.headers.push(header(&text)?),
            "bearer" => {
                self.server.headers.push(("Authorization".to_owned(), format!("Bearer {}", token(&text)?)))
            }
            "env" => self.server.env.push(variable(&text)?),
            "answer" => self.answers.push(answer(&text)?),
            "protocol" => self.protocol = Some(protocol(&text)?),
            "timeout" => self.timeout = Some(seconds(&text)?),
            "count" => self.count = Some(count(&text)?),
            "ignore" => self.ignore.push(pointer(text)),
            "format" => self.lint.format = Some(format(&text)?),
            "max-warnings" => {
                let error = |_| format!("--max-warnings requires a number, got {text:?}");
                self.lint.max_warnings = Some(text.parse().map_err(error)?);
            }
            "server" => self.server.key = Some(text),
            "url" => self.server.url = Some(text),
            "field" => self.field = Some(pointer(text)),
            "profile" => self.lint.profile = Some(profile(&text)?),
            _ => {}
        }
        Ok(())
    }
}

/// Moves the command in front of the options that precede it.
pub(crate) fn command_first(args: &mut Vec<OsString>) {
    let words: Vec<&str> = args.iter().map(|arg| arg.to_str().unwrap_or_default()).collect();
    if let Some(at) = command_at(&words) {
        let command = args.remove(at);
        args.insert(0, command);
    }
}

/// Returns the place of the command, which options may precede.
pub(crate) fn command_at(words: &[&str]) -> Option<usize> {
    let mut at = 0;
    loop {
        let Some(option) = words.get(at)?.strip_prefix('-') else { return Some(at) };
        if option == "-" {
            return None;
        }
        let is_short = |letter: char| SHORT.iter().find(|(known, _)| *known == letter).map(|(_, name)| *name);
        // Of short options in one word, the last may have its value in the next word.
        let name = option.strip_prefix('-').or_else(|| option.chars().last().and_then(is_short));
        at += if name.is_some_and(|name| WITH_VALUE.contains(&name)) { 2 } else { 1 };
    }
}

fn profile(id: &str) -> Result<&'static Profile> {
    let known = || PROFILES.iter().map(|p| p.id).collect::<Vec<_>>().join(", ");
    Profile::find(id).ok_or_else(|| format!("unknown profile {id:?}; expected one of: {}", known()))
}

fn header(line: &str) -> Result<(String, String)> {
    match line.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err("--header requires NAME:VALUE".to_owned()),
    }
}

/// Returns a bearer token, from a file after `@`.
fn token(text: &str) -> Result<String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let read = std::fs::read_to_string(file).map_err(|e| format!("--bearer: {file}: {e}"))?;
    match read.trim() {
        "" => Err(format!("--bearer: {file}: the file has no token")),
        token => Ok(token.to_owned()),
    }
}

fn variable(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("--env requires NAME=VALUE".to_owned()),
    }
}

fn answer(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        None if matches!(text, "yes" | "no") => Ok((String::new(), text.to_owned())),
        _ => Err("--answer requires NAME=VALUE, yes or no".to_owned()),
    }
}

/// Returns a JSON Pointer; the first `/` may be left out.
fn pointer(text: String) -> String {
    if text.is_empty() || text.starts_with('/') { text } else { format!("/{text}") }
}

fn format(name: &str) -> Result<Format> {
    match name {
        "github" => Ok(Format::Github),
        "sarif" => Ok(Format::Sarif),
        _ => Err(format!("unknown format {name:?}; expected github or sarif")),
    }
}

fn protocol(name: &str) -> Result<Protocol> {
    match name {
        "session" => Ok(Protocol::Session),
        "stateless" => Ok(Protocol::Stateless),
        _ => Err(format!("unknown protocol {name:?}; expected session or stateless")),
    }
}

fn seconds(number: &str) -> Result<Duration> {
    let seconds = number.parse().ok().filter(|s| *s > 0.0);
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.ok_or_else(|| format!("--timeout requires a positive number of seconds, got {number:?}"))
}

fn count(number: &str) -> Result<u64> {
    let count = number.parse().ok().filter(|n| *n > 0);
    count.ok_or_else(|| format!("--count requires a positive integer, got {number:?}"))
}
