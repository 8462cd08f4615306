//! Command line of `tinymcp proxy`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::prelude::*;

use super::aliases::{AliasSettings, Aliases};
use super::traffic::Target;
use crate::Result;
use crate::credentials;
use crate::network::Network;
use crate::options::{once, text, unknown, value};
use crate::serve::HttpOptions;

/// Long options.
const NAMES: &str = "http token-file allow-host allow-origin url config header bearer-file timeout allow deny rename \
                     prefix health status metrics monitor log access-log watch lazy per-client cacert cert key help";

/// Parsed options; one field for each option of `help.txt`.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// The program after `--`.
    pub(crate) command: Vec<OsString>,
    pub(crate) url: Option<String>,
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on; standard input and output if absent.
    pub(crate) http: Option<String>,
    pub(crate) settings: HttpOptions,
    pub(crate) to_url: ToUrl,
    pub(crate) timeout: Option<Duration>,
    pub(crate) tools: Tools,
    pub(crate) prefix: Option<String>,
    pub(crate) pages: Pages,
    pub(crate) logs: LogFiles,
    pub(crate) from_aliases: AliasSettings,
    /// Reload when a file changes.
    pub(crate) watch: bool,
    /// Each session over HTTP has its own processes.
    pub(crate) per_client: bool,
    pub(crate) help: bool,
}

/// Connections to URLs.
#[derive(Debug, Default)]
pub(crate) struct ToUrl {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) network: Network,
}

/// Selection and names of the tools.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) rename: Vec<(String, String)>,
    /// Three tools replace all others.
    pub(crate) lazy: bool,
}

/// Logs of the traffic.
#[derive(Debug, Default)]
pub(crate) struct LogFiles {
    pub(crate) frames: Option<Target>,
    pub(crate) access: Option<Target>,
}

/// Paths of the pages for monitoring.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Their own address, if they are not served beside the endpoint.
    pub(crate) address: Option<String>,
    pub(crate) health: Vec<String>,
    pub(crate) status: Option<String>,
    pub(crate) metrics: Option<String>,
}

impl Pages {
    /// Returns the name of an option that was given.
    fn set_option(&self) -> Option<&'static str> {
        let given = [
            ("--health", !self.health.is_empty()),
            ("--status", self.status.is_some()),
            ("--metrics", self.metrics.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

impl Options {
    /// Parses the arguments after `proxy`.
    ///
    /// # Errors
    /// An option is unknown or malformed, options exclude each other, or the number of sources of
    /// servers is not one. `find` returns the configuration file that is used if no source is
    /// given.
    pub(crate) fn parse(mut args: Vec<OsString>, find: fn() -> Option<PathBuf>) -> Result<Options> {
        let mut options = Options::default();
        let program = args.iter().position(|arg| arg == "--").map(|at| args.split_off(at).split_off(1));
        let has_program = program.is_some();
        options.command = program.unwrap_or_default();
        let mut aliases = Aliases::default();
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next().map_err(|e| e.to_string())? {
            match arg {
                Value(word) => aliases.words.push(word),
                Short('h') => options.help = true,
                Short(letter) => {
                    if !aliases.short(letter, &mut options, &mut parser)? {
                        return Err(unknown_option(&format!("-{letter}"), &aliases.words));
                    }
                }
                Long(name) => match NAMES.split(' ').find(|known| *known == name) {
                    Some(name) => options.set(name, &mut parser)?,
                    None => {
                        let name = name.to_owned();
                        if !aliases.long(&name, &mut options, &mut parser)? {
                            return Err(unknown_option(&format!("--{name}"), &aliases.words));
                        }
                    }
                },
            }
        }
        if !options.help {
            aliases.apply(&mut options)?;
            if options.sources(has_program) == 0 {
                options.discover(find);
            }
            options.validate(has_program)?;
            options.to_url.network = options.to_url.network.with_variables()?;
        }
        Ok(options)
    }

    /// Returns whether there may be several servers.
    pub(crate) fn has_multiple_servers(&self) -> bool {
        self.config.is_some() || !self.from_aliases.named.is_empty()
    }

    fn set(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<()> {
        match name {
            "http" => once(name, &mut self.http, text(parser)?),
            "url" => once(name, &mut self.url, with_variables("--url", &text(parser)?)?),
            "config" => once(name, &mut self.config, value(parser)?.into()),
            "prefix" => once(name, &mut self.prefix, text(parser)?),
            "status" => once(name, &mut self.pages.status, text(parser)?),
            "metrics" => once(name, &mut self.pages.metrics, text(parser)?),
            "monitor" => once(name, &mut self.pages.address, text(parser)?),
            "timeout" => once(name, &mut self.timeout, seconds(&text(parser)?)?),
            "token-file" => once(name, &mut self.settings.token_file, value(parser)?.into()),
            "log" => once(name, &mut self.logs.frames, Target::parse(value(parser)?)),
            "access-log" => once(name, &mut self.logs.access, Target::parse(value(parser)?)),
            "bearer-file" => {
                let token = credentials::secret("--bearer-file", Path::new(&value(parser)?))?;
                self.to_url.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
                Ok(())
            }
            "cacert" | "cert" | "key" => self.to_url.network.set(name, Path::new(&value(parser)?)),
            "watch" => {
                self.watch = true;
                Ok(())
            }
            "lazy" => {
                self.tools.lazy = true;
                Ok(())
            }
            "per-client" => {
                self.per_client = true;
                Ok(())
            }
            "help" => {
                self.help = true;
                Ok(())
            }
            repeated => {
                let value = text(parser)?;
                match repeated {
                    "health" => self.pages.health.push(value),
                    "allow-host" => self.settings.allow_host.push(value),
                    "allow-origin" => self.settings.allow_origin.push(one_origin(value, parser)?),
                    "header" => {
                        let (name, value) = pair(&value, ':', "--header requires NAME:VALUE")?;
                        self.to_url.headers.push((name, with_variables("--header", &value)?));
                    }
                    "allow" => self.tools.allow.push(value),
                    "deny" => self.tools.deny.push(value),
                    _ => self.tools.rename.push(pair(&value, '=', "--rename requires OLD=NEW")?),
                }
                Ok(())
            }
        }
    }

    /// Returns the number of sources of servers that are given.
    fn sources(&self, has_program: bool) -> usize {
        let has_program = has_program || !self.command.is_empty();
        let has_names = !self.from_aliases.named.is_empty();
        let sources = [has_program, self.url.is_some(), self.config.is_some(), has_names];
        sources.iter().filter(|given| **given).count()
    }

    fn discover(&mut self, find: fn() -> Option<PathBuf>) {
        self.config = find();
        if let Some(file) = &self.config {
            self.from_aliases.notes.push(format!("using the servers of {}", file.display()));
        }
    }

    fn validate(&self, has_program: bool) -> Result<()> {
        let has_names = !self.from_aliases.named.is_empty();
        match self.sources(has_program) {
            0 => {
                return Err(
                    "expected a server: --url URL, --config FILE or -- COMMAND [ARG...]; no configuration \
                            file was found either"
                        .to_owned(),
                );
            }
            1 => {}
            _ if has_names => {
                return Err(
                    "--named-server excludes other servers; name them, too, or use --config".to_owned()
                );
            }
            _ => return Err("--url, --config and -- COMMAND exclude each other".to_owned()),
        }
        if has_program && self.command.is_empty() {
            return Err("expected a command after --".to_owned());
        }
        if self.url.is_none() && !self.to_url.headers.is_empty() {
            return Err("--header and --bearer-file require --url".to_owned());
        }
        if self.watch && self.config.is_none() && self.settings.token_file.is_none() {
            return Err("--watch requires --config or --token-file".to_owned());
        }
        if self.logs.frames.is_some() && self.logs.frames == self.logs.access {
            return Err("--log and --access-log require different files".to_owned());
        }
        let pages = self.pages.set_option();
        if self.pages.address.is_some() && pages.is_none() {
            return Err("--monitor requires --health, --status or --metrics".to_owned());
        }
        if self.http.is_none() {
            let pages = pages.filter(|_| self.pages.address.is_none());
            if let Some(name) = self.settings.set_option().or(pages) {
                return Err(format!("{name} requires --http"));
            }
        }
        if self.has_multiple_servers() && self.prefix.as_ref().is_some_and(|prefix| prefix != "none") {
            return Err(
                "with --config, --prefix must be `none`; a server's prefix is its member `prefix`".to_owned()
            );
        }
        if self.has_multiple_servers()
            && !(self.tools.allow.is_empty() && self.tools.deny.is_empty() && self.tools.rename.is_empty())
        {
            return Err("with --config, tools are selected by the member `tools` of their server".to_owned());
        }
        Ok(())
    }
}

/// Returns the error for an option that may belong to the program before it.
fn unknown_option(option: &str, words: &[OsString]) -> String {
    match words.first() {
        Some(program) => format!("unknown option {option}; put -- before the program {program:?}"),
        None => unknown(option, "proxy", NAMES),
    }
}

/// Reads one origin. After one option of mcp-proxy several origins may follow; here the second one
/// would be read as the URL of a server.
fn one_origin(origin: String, parser: &mut lexopt::Parser) -> Result<String> {
    if origin == "*" {
        return Err("--allow-origin *: name each origin; with all of them, every page that a user of this \
                    network opens could call the tools"
            .to_owned());
    }
    let is_origin = |word: &OsStr| {
        word == "*" || (word.to_string_lossy().contains("://") && !word.as_encoded_bytes().starts_with(b"-"))
    };
    let mut rest = parser.try_raw_args();
    match rest.as_mut().and_then(|rest| rest.next_if(is_origin)) {
        None => Ok(origin),
        Some(word) => Err(format!(
            "--allow-origin {origin}: unexpected {word:?} after it; repeat --allow-origin for each origin, \
             and put the URL of a server first"
        )),
    }
}

fn pair(text: &str, separator: char, error: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once(separator).ok_or(error)?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Replaces `${NAME}` by the environment variable, so that other users do not read a token in the
/// list of processes.
fn with_variables(option: &str, value: &str) -> Result<String> {
    let (mut text, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or_else(|| format!("{option}: `${{` without `}}`"))?;
        let missing = |_| format!("{option}: the environment variable {name} is not set");
        text += before;
        text += &std::env::var(name).map_err(missing)?;
        rest = after;
    }
    Ok(text + rest)
}

fn seconds(number: &str) -> Result<Duration> {
    let seconds = number.parse().ok().filter(|s| *s > 0.0);
    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    time.ok_or_else(|| format!("--timeout requires a positive number of seconds, got {number:?}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(args.iter().map(OsString::from).collect(), || None)
    }

    #[test]
    fn the_token_of_a_file_is_a_header() {
        let file = std::env::temp_dir().join(format!("tinymcp-bearer-{}", std::process::id()));
        std::fs::write(&file, "s3cret\n").unwrap();
        let options = parse(&["--url", "x", "--bearer-file", file.to_str().unwrap()]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            options.unwrap().to_url.headers,
            [("Authorization".to_owned(), "Bearer s3cret".to_owned())]
        );
        std::fs::write(&file, "s3cret\nother\n").unwrap();
        let error = parse(&["--url", "x", "--bearer-file", file.to_str().unwrap()]).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert!(error.ends_with(": expected one line, got 2"), "{error}");
        let error = parse(&["--url", "x", "--bearer-file", "/no/such/file"]).unwrap_err();
        assert!(error.starts_with("--bearer-file: /no/such/file: "), "{error}");
    }

    #[test]
    fn invalid_options_are_errors_with_the_cure() {
        for (args, message) in [
            (
                &[][..],
                "expected a server: --url URL, --config FILE or -- COMMAND [ARG...]; no configuration file was \
                 found either",
            ),
            (&["--"], "expected a command after --"),
            (&["--url", "x", "--", "y"], "--url, --config and -- COMMAND exclude each other"),
            (
                &["npx", "--", "y"],
                "unexpected argument \"npx\"; put the program of a server after --, or add --port",
            ),
            (&["--htpp", "x"], "unknown option --htpp; did you mean --http?"),
            (&["-x"], "unknown option -x; see `tinymcp help proxy`"),
            (&["npx", "-y", "server"], "unknown option -y; put -- before the program \"npx\""),
            (&["--port", "1", "x", "--all"], "unknown option --all; put -- before the program \"x\""),
            (&["--url", "x", "--url", "y"], "--url must be given at most once"),
            (&["--header", "A:b", "--", "y"], "--header and --bearer-file require --url"),
            (&["--header", "A", "--url", "y"], "--header requires NAME:VALUE"),
            (
                &["--header", "A:${NO_SUCH}", "--url", "y"],
                "--header: the environment variable NO_SUCH is not set",
            ),
            (&["--header", "A:${B", "--url", "y"], "--header: `${` without `}`"),
            (&["--url", "h?key=${NO_SUCH}"], "--url: the environment variable NO_SUCH is not set"),
            (&["--rename", "A", "--url", "y"], "--rename requires OLD=NEW"),
            (&["--token-file", "t", "--", "y"], "--token-file requires --http"),
            (&["--allow-origin", "t", "--", "y"], "--allow-origin requires --http"),
            (&["--metrics", "/metrics", "--", "y"], "--metrics requires --http"),
            (
                &["--config", "f", "--prefix", "a"],
                "with --config, --prefix must be `none`; a server's prefix is its member `prefix`",
            ),
            (
                &["--config", "f", "--deny", "a"],
                "with --config, tools are selected by the member `tools` of their server",
            ),
            (
                &["--log", "f", "--access-log", "f", "--", "y"],
                "--log and --access-log require different files",
            ),
            (&["--watch", "--", "y"], "--watch requires --config or --token-file"),
            (&["--timeout", "0", "--", "y"], "--timeout requires a positive number of seconds, got \"0\""),
        ] {
            assert_eq!(parse(args).unwrap_err(), message, "{args:?}");
        }
    }

    #[test]
    fn options_precede_the_program() {
        let options = parse(&["--allow", "a*", "--rename", "a=b", "--", "run", "--http", "-h"]).unwrap();
        assert_eq!(options.command, ["run", "--http", "-h"]);
        assert_eq!(options.tools.rename, [("a".to_owned(), "b".to_owned())]);
        assert!(!options.help && options.http.is_none() && options.tools.allow == ["a*"]);
        assert!(parse(&["-h"]).unwrap().help);
        let origin = ["--http", "h:1", "--allow-origin", "http://a", "--url=http://b"];
        assert_eq!(parse(&origin).unwrap().settings.allow_origin, ["http://a"]);
    }

    #[test]
    fn help_names_every_option() {
        for name in NAMES.split(' ') {
            assert!(crate::proxy::HELP.contains(&format!("--{name}")), "{name}");
        }
    }
}
