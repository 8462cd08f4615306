//! Arguments of a command: operands, options, and the server.
//!
//! Parses every option of every command and rejects those that a command does not have.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::prelude::*;
use tinymcp::Protocol;
use tinymcp::json::Doc;
use tinymcp::lint::{PROFILES, Profile};

use super::bench;
#[cfg(unix)]
use super::sign_in;
use crate::Result;
use crate::credentials::secret;
use crate::network::Network;
use crate::options::{self, unknown};
#[cfg(unix)]
use crate::serve::HttpOptions;
use crate::shell_words::{Dialect, split};

/// Short options and their long names.
const SHORT: [(char, &str); 5] =
    [('H', "header"), ('e', "env"), ('o', "output"), ('q', "quiet"), ('v', "verbose")];
/// Options with a value.
const WITH_VALUE: [&str; 41] = [
    "http",
    "token-file",
    "allow-host",
    "allow-origin",
    "clients",
    "duration",
    "rate",
    "path",
    "cacert",
    "cert",
    "key",
    "port",
    "scope",
    "client-id",
    "client-secret-file",
    "client-key",
    "issuer",
    "bearer-file",
    "answers",
    "sampler",
    "park",
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
    pub(crate) questions: Questions,
    pub(crate) bench: bench::Options,
    #[cfg(unix)]
    pub(crate) sign_in: sign_in::Options,
    #[cfg(unix)]
    pub(crate) recording: Recording,
    /// Folder of the library for a new project.
    pub(crate) path: Option<PathBuf>,
    /// JSON Pointer to the part of the result to print.
    pub(crate) field: Option<String>,
    /// File to write the result to.
    pub(crate) output: Option<PathBuf>,
}

/// Answers to questions of the server.
#[derive(Default)]
pub(crate) struct Questions {
    /// Names and values of fields; a consent has no name.
    pub(crate) answers: Vec<(String, String)>,
    /// File of further answers.
    file: Option<PathBuf>,
    /// Program that answers sampling requests.
    pub(crate) sampler: Option<Vec<String>>,
    /// Folders that the server may work in.
    pub(crate) roots: Vec<PathBuf>,
    /// File for a call that waits for an answer.
    pub(crate) park: Option<PathBuf>,
}

/// Options of `record` and `replay`.
#[cfg(unix)]
#[derive(Default)]
pub(crate) struct Recording {
    /// Address for clients over HTTP.
    pub(crate) http: Option<String>,
    pub(crate) settings: HttpOptions,
    /// Pointers to differences that do not count.
    pub(crate) ignore: Vec<String>,
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
#[derive(Clone, Default)]
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
    /// Certificates of a URL.
    pub(crate) network: Network,
}

impl Server {
    /// Values that may be credentials: of headers, of variables, and of the query of the URL.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let given = self.headers.iter().chain(&self.env).map(|(_, value)| value.as_str());
        given.chain(self.url.iter().flat_map(|url| crate::credentials::query_values(url)))
    }

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
                "root" => parsed.questions.roots.push(value.into()),
                "path" => parsed.path = Some(value.into()),
                "cwd" => parsed.server.cwd = Some(value.into()),
                "output" => parsed.output = Some(value.into()),
                "cacert" | "cert" | "key" => parsed.server.network.set(flag, Path::new(&value))?,
                "park" => parsed.questions.park = Some(value.into()),
                #[cfg(unix)]
                "client-secret-file" => parsed.sign_in.client.secret = Some(value.into()),
                #[cfg(unix)]
                "client-key" => parsed.sign_in.client.key = Some(value.into()),
                #[cfg(unix)]
                "token-file" => parsed.recording.settings.token_file = Some(value.into()),
                "bearer-file" => {
                    parsed.server.headers.push(bearer(&secret("--bearer-file", Path::new(&value))?))
                }
                "answers" => parsed.questions.file = Some(value.into()),
                flag => parsed.set(flag, value.string().map_err(|e| e.to_string())?)?,
            }
        }
        parsed.take_url(command, flags);
        if let Some(file) = parsed.questions.file.take() {
            parsed.questions.answers.extend(answers(&file)?);
        }
        Ok(parsed)
    }

    /// Returns the operands, which must be UTF-8.
    pub(crate) fn words(&self) -> Result<Vec<String>> {
        let words = self.files.iter();
        words
            .map(|word| word.to_str().map(str::to_owned).ok_or("an argument is not UTF-8".to_owned()))
            .collect()
    }

    /// Returns the arguments of a line of the command `shell`, which uses the server of that
    /// command.
    pub(crate) fn within(mut self, command: &Args) -> Args {
        self.flags.extend(command.flags.get("quiet"));
        self.server = command.server.clone();
        self
    }

    /// Returns whether an option says how results are printed.
    pub(crate) fn has_output(&self) -> bool {
        let flags = ["json", "raw", "text", "pretty", "structured"];
        self.field.is_some() || self.output.is_some() || flags.iter().any(|flag| self.has(flag))
    }

    /// Takes the last operand as the server if it is a URL. Those of `read` and `watch` may be
    /// resources.
    fn take_url(&mut self, command: &str, flags: &[&str]) {
        let fewest = match command {
            "watch" => usize::MAX,
            "read" => 2,
            _ => 1,
        };
        if !flags.contains(&"url") || self.server.is_given() || self.files.len() < fewest {
            return;
        }
        if let Some(word) = self.files.last().and_then(|word| word.to_str()).filter(|word| is_url(word)) {
            self.server.url = Some(word.to_owned());
            self.files.pop();
        }
    }

    /// Returns the name of a tool or prompt without its colon, which marks a name that begins like
    /// an option, or without the server's key as in `KEY:NAME`, unless the options name a server.
    pub(crate) fn take_name<'w>(&mut self, word: &'w str) -> &'w str {
        match word.split_once(':') {
            Some(("", name)) => name,
            Some((key, name)) if !self.server.is_given() => {
                self.server.key = Some(key.to_owned());
                name
            }
            _ => word,
        }
    }

    fn set(&mut self, option: &str, text: String) -> Result<()> {
        match option {
            "rules" => self.lint.rules = Some(text),
            "header" => self.server.headers.push(header(&text)?),
            "bearer" => self.server.headers.push(bearer(&token(&text)?)),
            #[cfg(unix)]
            "port" => {
                let error = |_| format!("--port requires a number up to 65535, got {text:?}");
                self.sign_in.port = Some(text.parse().map_err(error)?);
            }
            #[cfg(unix)]
            "scope" => self.sign_in.scope = Some(text),
            #[cfg(unix)]
            "client-id" => self.sign_in.client.id = text,
            #[cfg(unix)]
            "issuer" => self.sign_in.client.issuer = Some(url(&text)),
            #[cfg(unix)]
            "http" => self.recording.http = Some(text),
            #[cfg(unix)]
            "allow-host" => self.recording.settings.allow_host.push(text),
            #[cfg(unix)]
            "allow-origin" => self.recording.settings.allow_origin.push(text),
            "env" => self.server.env.push(variable(&text)?),
            "answer" => self.questions.answers.push(answer(&text)?),
            "sampler" => {
                let words = split(&text, Dialect::Shell).map_err(|why| format!("--sampler: {why}"))?;
                self.questions.sampler = Some(words);
            }
            "protocol" => self.protocol = Some(protocol(&text)?),
            "timeout" => self.timeout = Some(seconds(option, &text)?),
            "duration" => self.bench.duration = Some(seconds(option, &text)?),
            "rate" => self.bench.rate = Some(rate(&text)?),
            "clients" => self.bench.clients = Some(clients(&text)?),
            "count" => self.count = Some(count(&text)?),
            #[cfg(unix)]
            "ignore" => self.recording.ignore.push(pointer(text)),
            "format" => self.lint.format = Some(format(&text)?),
            "max-warnings" => {
                let error = |_| format!("--max-warnings requires a number, got {text:?}");
                self.lint.max_warnings = Some(text.parse().map_err(error)?);
            }
            "server" => self.server.key = Some(text),
            "url" => self.server.url = Some(url(&text)),
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

/// Returns the command for a first word that names a server: `KEY:TOOL` calls a tool, `KEY:` and a
/// URL describe the server.
pub(crate) fn implied_command(word: &str) -> Option<&'static str> {
    match word.split_once(':') {
        _ if is_url(word) => Some("info"),
        None | Some(("", _)) => None,
        Some((_, "")) => Some("info"),
        Some(_) => Some("call"),
    }
}

/// Returns whether the arguments of an unknown command name a server, so that its first word may be
/// a tool.
pub(crate) fn names_server(args: &[OsString]) -> bool {
    let is_server = |word: &str| is_url(word) || matches!(word.split('=').next(), Some("--url" | "--server"));
    args.iter().filter_map(|arg| arg.to_str()).any(is_server)
}

fn is_url(word: &str) -> bool {
    ["http://", "https://", "unix:/"].iter().any(|scheme| word.starts_with(scheme))
}

/// Returns a URL with its scheme: if it has none, `http` for this machine, otherwise `https`.
pub(crate) fn url(text: &str) -> String {
    let host = text.split(['/', ':']).next().unwrap_or_default();
    let is_local = host == "localhost"
        || host.ends_with(".localhost")
        || host.starts_with("127.")
        || text.starts_with("[::1]");
    match text {
        _ if text.contains("://") || text.starts_with("unix:") => text.to_owned(),
        _ if is_local => format!("http://{text}"),
        _ => format!("https://{text}"),
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
        at += if needs_value(words.get(at)?).is_some() { 2 } else { 1 };
    }
}

/// Returns the option whose value is in the next word. Of several short options in one word, only
/// the last one can have a value.
pub(crate) fn needs_value(word: &str) -> Option<&'static str> {
    let option = word.strip_prefix('-')?;
    let short = |letter: char| SHORT.iter().find(|(known, _)| *known == letter).map(|(_, name)| *name);
    let name = option.strip_prefix('-').or_else(|| option.chars().last().and_then(short))?;
    WITH_VALUE.into_iter().find(|known| *known == name)
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
    secret("--bearer", Path::new(file))
}

fn bearer(token: &str) -> (String, String) {
    ("Authorization".to_owned(), format!("Bearer {token}"))
}

fn variable(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("--env requires NAME=VALUE".to_owned()),
    }
}

/// Parses one answer.
pub(crate) fn answer(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        None if matches!(text, "yes" | "no") => Ok((String::new(), text.to_owned())),
        _ => Err("--answer requires NAME=VALUE, yes or no".to_owned()),
    }
}

/// Reads answers: a JSON object, or lines NAME=VALUE, `yes` or `no`.
fn answers(file: &Path) -> Result<Vec<(String, String)>> {
    let bytes = super::read(file)?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8", file.display()))?;
    if text.trim_start().starts_with('{') {
        let doc = Doc::parse(&text).map_err(|error| super::json_error(file, text.as_bytes(), error))?;
        let value = |value: tinymcp::json::Value<'_>| value.as_str().unwrap_or(value.raw()).to_owned();
        return Ok(doc.root().members().map(|(name, answer)| (name.to_owned(), value(answer))).collect());
    }
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| answer(line).map_err(|_| place(file, at))).collect()
}

fn place(file: &Path, line: usize) -> String {
    format!("{}:{line}: expected NAME=VALUE, yes or no", file.display())
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

fn seconds(option: &str, number: &str) -> Result<Duration> {
    let seconds = number.parse().ok().filter(|s| *s > 0.0);
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.ok_or_else(|| format!("--{option} requires a positive number of seconds, got {number:?}"))
}

fn count(number: &str) -> Result<u64> {
    let count = number.parse().ok().filter(|n| *n > 0);
    count.ok_or_else(|| format!("--count requires a positive integer, got {number:?}"))
}

fn clients(number: &str) -> Result<u32> {
    let most = bench::MAX_CLIENTS;
    let clients = number.parse().ok().filter(|n| (1..=most).contains(n));
    clients.ok_or_else(|| format!("--clients requires a number from 1 to {most}, got {number:?}"))
}

fn rate(number: &str) -> Result<f64> {
    let (least, most) = (bench::MIN_RATE, bench::MAX_RATE);
    let rate = number.parse().ok().filter(|rate| (least..=most).contains(rate));
    rate.ok_or_else(|| format!("--rate requires a number from {least} to {most}, got {number:?}"))
}
