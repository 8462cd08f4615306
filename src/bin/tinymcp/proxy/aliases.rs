//! Options of supergateway and of sparfenyuk/mcp-proxy, translated into those of this command.
//!
//! An option keeps its meaning, has no effect and is reported, or is an error that names the
//! replacement. The manual page has a table of all options.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::options::Options;
use crate::Result;
use crate::options::{once, text, value};
use crate::shell_words::{Dialect, split};

/// Port of supergateway.
const PORT: u16 = 8000;

/// Options without a value that have no effect, each with the reason.
const FLAGS_WITHOUT_EFFECT: [(&str, &str); 4] =
    [("stateless", BOTH), ("no-stateless", BOTH), ("debug", LOG), ("no-debug", LOG)];
/// Options with a value that have no effect, each with the reason.
const VALUES_WITHOUT_EFFECT: [(&str, &str); 4] = [
    ("logLevel", LOG),
    ("log-level", LOG),
    ("protocolVersion", "each side gets the revision that it asks for"),
    ("transport", "the transport of the server is detected"),
];
const BOTH: &str = "clients with and without a session are served, and all share one process";
const LOG: &str = "standard error always has the same reports";

/// Options whose meaning cannot be kept, each with the replacement.
const REJECTED: [(&str, &str); 10] = [
    (
        "expose-header",
        "pages of --allow-origin can always read the id of their session, and no other field is needed",
    ),
    ("verify-ssl", "certificates are always verified; omit it, or name their roots: --cacert FILE"),
    ("no-verify-ssl", "certificates are always verified; use a URL with http: in a trusted network"),
    ("client-id", CREDENTIALS),
    ("client-secret", CREDENTIALS),
    ("token-url", CREDENTIALS),
    ("username", BASIC),
    ("password", BASIC),
    ("digest", "digest authentication is not available; use a bearer token, or a proxy that adds it"),
    ("version", "use `tinymcp --version`"),
];
const BASIC: &str = "use --header 'Authorization: Basic CREDENTIALS', with USER:PASSWORD in Base64";
const CREDENTIALS: &str = "sign in once by `tinymcp login URL --client-credentials --client-id ID --client-secret-file FILE`; the proxy \
     then renews its tokens";

/// Options of HTTP+SSE, which this program does not serve.
const SSE_ONLY: [&str; 3] = ["baseUrl", "ssePath", "messagePath"];

/// Settings that have no option of their own.
#[derive(Debug, Default)]
pub(crate) struct AliasSettings {
    /// Path of the endpoint.
    pub(crate) path: Option<String>,
    /// Time after which an idle session ends.
    pub(crate) session_timeout: Option<Duration>,
    /// Variables of the program.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Working directory of the program.
    pub(crate) cwd: Option<PathBuf>,
    /// Passes all variables to the programs.
    pub(crate) inherit_env: Option<bool>,
    /// Keys and programs of several servers.
    pub(crate) named: Vec<(String, Vec<OsString>)>,
    /// Lines for the operator.
    pub(crate) notes: Vec<String>,
}

/// The options that were given.
#[derive(Default)]
pub(super) struct Aliases {
    stdio: Option<String>,
    /// `--outputTransport`.
    output: Option<String>,
    host: Option<String>,
    port: Option<u16>,
    /// An option of [`SSE_ONLY`].
    sse_only: Option<&'static str>,
    bearer: Option<String>,
    /// Words before `--`.
    pub(super) words: Vec<OsString>,
    settings: AliasSettings,
}

impl Aliases {
    /// Parses an option of one letter; returns false if it is unknown.
    pub(super) fn short(
        &mut self,
        letter: char,
        options: &mut Options,
        parser: &mut lexopt::Parser,
    ) -> Result<bool> {
        match letter {
            'H' => self.long("headers", options, parser),
            'e' => self.long("env", options, parser),
            _ => Ok(false),
        }
    }

    /// Parses an option; returns false if it is unknown.
    pub(super) fn long(
        &mut self,
        name: &str,
        options: &mut Options,
        parser: &mut lexopt::Parser,
    ) -> Result<bool> {
        let find =
            |list: &[(&'static str, &'static str)]| list.iter().find(|(known, _)| *known == name).copied();
        if let Some((name, why)) = find(&REJECTED) {
            return Err(format!("--{name}: {why}"));
        }
        if let Some((name, why)) = find(&FLAGS_WITHOUT_EFFECT) {
            self.note_no_effect(name, why);
            return Ok(true);
        }
        if let Some((name, why)) = find(&VALUES_WITHOUT_EFFECT) {
            value(parser)?;
            self.note_no_effect(name, why);
            return Ok(true);
        }
        if let Some(name) = SSE_ONLY.iter().find(|known| **known == name) {
            value(parser)?;
            self.sse_only = Some(name);
            return Ok(true);
        }
        match name {
            "stateful" => options.per_client = true,
            "stdio" => once(name, &mut self.stdio, text(parser)?)?,
            "sse" | "streamableHttp" => once(name, &mut options.url, text(parser)?)?,
            "outputTransport" => once(name, &mut self.output, text(parser)?)?,
            "host" | "sse-host" => once(name, &mut self.host, text(parser)?)?,
            "port" | "sse-port" => once(name, &mut self.port, port(name, &text(parser)?)?)?,
            "streamableHttpPath" => once(name, &mut self.settings.path, text(parser)?)?,
            "sessionTimeout" => {
                once(name, &mut self.settings.session_timeout, milliseconds(&text(parser)?)?)?
            }
            "oauth2Bearer" => once(name, &mut self.bearer, text(parser)?)?,
            "healthEndpoint" => health(options, parser)?,
            "cors" => cors(options, parser)?,
            "headers" => options.to_url.headers.push((text(parser)?, text(parser)?)),
            "env" => self.settings.env.push((value(parser)?, value(parser)?)),
            "cwd" => once(name, &mut self.settings.cwd, value(parser)?.into())?,
            "pass-environment" => self.settings.inherit_env = Some(true),
            "no-pass-environment" => self.settings.inherit_env = Some(false),
            "named-server" => {
                let (key, command) = (text(parser)?, text(parser)?);
                if self.settings.named.iter().any(|(other, _)| *other == key) {
                    return Err(format!("--named-server {key} must be given at most once; use another name"));
                }
                let words = split(&command, Dialect::Shlex);
                let words = words.map_err(|why| format!("--named-server {key}: {why}"))?;
                self.settings.named.push((key, words.into_iter().map(OsString::from).collect()));
            }
            "named-server-config" => once(name, &mut options.config, value(parser)?.into())?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn note_no_effect(&mut self, name: &str, why: &str) {
        self.settings.notes.push(format!("--{name} has no effect: {why}"));
    }

    /// Completes the options.
    ///
    /// # Errors
    /// Options contradict each other, or their combination cannot be kept.
    pub(super) fn apply(mut self, options: &mut Options) -> Result<()> {
        if let Some(name) = self.sse_only {
            if self.output.as_deref() != Some("streamableHttp") {
                return Err(format!("--{name}: {NO_SSE}; omit it and add --outputTransport streamableHttp"));
            }
            self.note_no_effect(name, "it belongs to HTTP+SSE");
        }
        let serves = match self.output.as_deref() {
            None => self.stdio.is_some() || self.port.is_some() || self.host.is_some(),
            Some("stdio") => false,
            Some("streamableHttp") => true,
            Some("sse") => return Err(format!("--outputTransport sse: {NO_SSE}; use streamableHttp")),
            Some(other) => {
                return Err(format!(
                    "--outputTransport {other}: expected streamableHttp or stdio; other transports are not served"
                ));
            }
        };
        self.take_words(options)?;
        if let Some(command) = &self.stdio {
            if !options.command.is_empty() || options.url.is_some() || options.config.is_some() {
                return Err("--stdio, COMMAND, a URL and --config exclude each other".to_owned());
            }
            let words = split(command, Dialect::Shell).map_err(|why| format!("--stdio: {why}"))?;
            options.command = words.into_iter().map(OsString::from).collect();
        }
        if serves {
            self.serve(options)?;
        } else if self.port.is_some() || self.host.is_some() {
            return Err("--port and --host require --outputTransport streamableHttp".to_owned());
        }
        if let Some(token) = &self.bearer {
            if options.url.is_none() {
                return Err("--oauth2Bearer requires a URL; to require a token of clients, use --token-file"
                    .to_owned());
            }
            options.to_url.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        self.check(options)?;
        options.from_aliases = self.settings;
        Ok(())
    }

    /// Returns an error for settings that the other options make unused.
    fn check(&mut self, options: &Options) -> Result<()> {
        let has_program = !options.command.is_empty();
        if !has_program && (!self.settings.env.is_empty() || self.settings.cwd.is_some()) {
            return Err(
                "--env and --cwd require COMMAND; the servers of a file have the members `env` and `cwd`"
                    .to_owned(),
            );
        }
        if options.url.is_some() && self.settings.inherit_env.is_some() {
            self.note_no_effect("pass-environment", "no program is started");
        }
        if options.http.is_none() {
            let given = [
                (self.settings.path.is_some(), "--streamableHttpPath"),
                (self.settings.session_timeout.is_some(), "--sessionTimeout"),
                (!self.settings.named.is_empty(), "--named-server"),
            ];
            if let Some((_, name)) = given.iter().find(|(given, _)| *given) {
                return Err(format!("{name} requires --port or --http"));
            }
        }
        Ok(())
    }

    /// Takes the words before `--`: a URL, or a program that precedes the words after `--`.
    fn take_words(&mut self, options: &mut Options) -> Result<()> {
        let mut words = std::mem::take(&mut self.words);
        let Some(first) = words.first() else { return Ok(()) };
        let is_url = |word: &str| word.starts_with("http://") || word.starts_with("https://");
        if let Some(url) = first.to_str().filter(|first| is_url(first)) {
            if let Some(word) = words.get(1).or(options.command.first()) {
                return Err(format!("unexpected argument {word:?} after a URL"));
            }
            if self.port.is_some() || self.host.is_some() {
                return Err(
                    "--port and --host require COMMAND; to serve a URL, use --http HOST:PORT".to_owned()
                );
            }
            if let Some(token) = std::env::var("API_ACCESS_TOKEN").ok().filter(|token| !token.is_empty()) {
                options.to_url.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
                self.settings.notes.push("API_ACCESS_TOKEN is sent as the bearer token".to_owned());
            }
            return once("url", &mut options.url, url.to_owned());
        }
        let first = first.to_string_lossy().into_owned();
        if options.http.is_none() && self.port.is_none() && self.host.is_none() {
            return Err(format!(
                "unexpected argument {first:?}; put the program of a server after --, or add --port"
            ));
        }
        words.append(&mut options.command);
        options.command = words;
        self.settings.inherit_env = self.settings.inherit_env.or(Some(false));
        Ok(())
    }

    /// Sets the address.
    fn serve(&mut self, options: &mut Options) -> Result<()> {
        if options.http.is_some() {
            // `--stdio` has its address already.
            if self.port.is_some() || self.host.is_some() {
                return Err("--http and --port or --host exclude each other; --http has both".to_owned());
            }
            return Ok(());
        }
        if options.url.is_some() && self.output.is_none() {
            return Err("--port and --host require COMMAND; to serve a URL, use --http HOST:PORT".to_owned());
        }
        // The default values of supergateway and of mcp-proxy.
        let (host, port) = match self.stdio.is_some() || self.output.is_some() {
            true => ("0.0.0.0", PORT),
            false => ("127.0.0.1", 0),
        };
        let host = self.host.as_deref().unwrap_or(host);
        let port = self.port.unwrap_or(port);
        options.http = Some(match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        if self.output.is_none() {
            self.settings.notes.push(format!("note: {NO_SSE}"));
        }
        Ok(())
    }
}

/// Clients of both programs may use the URL of HTTP+SSE.
const NO_SSE: &str = "HTTP+SSE is not served; clients require the URL that ends with /mcp in place of /sse";

/// Reads the values up to the next option.
fn values(parser: &mut lexopt::Parser) -> Vec<OsString> {
    let mut values: Vec<OsString> = parser.optional_value().into_iter().collect();
    if let Some(mut rest) = parser.try_raw_args() {
        while let Some(value) = rest.next_if(|word| !word.as_encoded_bytes().starts_with(b"-")) {
            values.push(value);
        }
    }
    values
}

fn health(options: &mut Options, parser: &mut lexopt::Parser) -> Result<()> {
    options.pages.health.push(text(parser)?);
    let more = values(parser).into_iter().map(|path| path.to_string_lossy().into_owned());
    options.pages.health.extend(more);
    Ok(())
}

fn cors(options: &mut Options, parser: &mut lexopt::Parser) -> Result<()> {
    let origins = values(parser);
    if origins.is_empty() {
        return Err("--cors without a value allows pages of every origin, which is not available; name the \
                    origins: --allow-origin URL"
            .to_owned());
    }
    for origin in origins {
        let origin = origin.to_string_lossy().into_owned();
        if !origin.contains("://") || origin.starts_with('/') || origin.contains('*') {
            return Err(format!(
                "--cors {origin}: patterns are not available; name the origins: --allow-origin URL"
            ));
        }
        options.settings.allow_origin.push(origin);
    }
    Ok(())
}

fn port(name: &str, number: &str) -> Result<u16> {
    number.parse().map_err(|_| format!("--{name} requires a number up to 65535, got {number:?}"))
}

fn milliseconds(number: &str) -> Result<Duration> {
    match number.parse() {
        Ok(time @ 100..=2_000_000_000) => Ok(Duration::from_millis(time)),
        _ => Err(format!("--sessionTimeout requires 100 to 2000000000 milliseconds, got {number:?}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(args.iter().map(OsString::from).collect(), || None)
    }

    #[test]
    fn commands_of_supergateway_keep_their_meaning() {
        let options =
            parse(&["--stdio", "npx -y 'a b'", "--outputTransport", "streamableHttp", "--port=9000"])
                .unwrap();
        assert_eq!(options.command, ["npx", "-y", "a b"]);
        assert_eq!(options.http.as_deref(), Some("0.0.0.0:9000"));
        assert!(options.from_aliases.inherit_env.is_none() && options.from_aliases.notes.is_empty());
        let options = parse(&[
            "--stdio",
            "x",
            "--stateful",
            "--sessionTimeout",
            "60000",
            "--streamableHttpPath",
            "/a",
            "--logLevel",
            "none",
            "--healthEndpoint",
            "/healthz",
            "--healthEndpoint=/ready",
            "/live",
            "--cors",
            "https://a.example",
            "http://b:1",
        ])
        .unwrap();
        assert_eq!(options.http.as_deref(), Some("0.0.0.0:8000"));
        assert!(options.per_client);
        assert_eq!(options.from_aliases.session_timeout, Some(Duration::from_secs(60)));
        assert_eq!(options.from_aliases.path.as_deref(), Some("/a"));
        assert_eq!(options.pages.health, ["/healthz", "/ready", "/live"]);
        assert_eq!(options.settings.allow_origin, ["https://a.example", "http://b:1"]);
        let notes = options.from_aliases.notes.join("\n");
        for part in ["--logLevel has no effect: ", "note: HTTP+SSE"] {
            assert!(notes.contains(part), "{notes}");
        }
        for url in ["--sse", "--streamableHttp"] {
            let options =
                parse(&[url, "http://h/", "--oauth2Bearer", "secret", "--header", "X-A: b: c"]).unwrap();
            assert_eq!((options.url.as_deref(), &options.http), (Some("http://h/"), &None));
            let expected = [("X-A", "b: c"), ("Authorization", "Bearer secret")];
            assert_eq!(
                options.to_url.headers,
                expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
            );
        }
    }

    #[test]
    fn commands_of_mcp_proxy_keep_their_meaning() {
        let options = parse(&["--port=8080", "--host", "::1", "uvx", "server", "-e", "A", "-b", "--", "--c"]);
        let options = options.unwrap();
        assert_eq!(options.command, ["uvx", "server", "--c"]);
        assert_eq!(options.http.as_deref(), Some("[::1]:8080"));
        assert_eq!(options.from_aliases.env, [("A".into(), "-b".into())]);
        assert_eq!(options.from_aliases.inherit_env, Some(false));
        let options = parse(&["--pass-environment", "--sse-port", "0", "--cwd", "/tmp", "--", "x"]).unwrap();
        assert_eq!(options.http.as_deref(), Some("127.0.0.1:0"));
        assert_eq!(options.from_aliases.inherit_env, Some(true));
        assert_eq!(options.from_aliases.cwd.as_deref(), Some(std::path::Path::new("/tmp")));
        let options = parse(&["--sse-host", "localhost", "x"]).unwrap();
        assert_eq!(options.http.as_deref(), Some("localhost:0"));
        let url = ["-H", "A", "b", "--headers", "C", "d", "--transport", "streamablehttp", "http://h/mcp"];
        let options = parse(&url).unwrap();
        assert_eq!(options.url.as_deref(), Some("http://h/mcp"));
        assert!(
            options
                .to_url
                .headers
                .starts_with(&[("A".to_owned(), "b".to_owned()), ("C".to_owned(), "d".to_owned())])
        );
        let options =
            parse(&["--named-server", "a", "x '$y'", "--named-server", "b", "z", "--port", "1"]).unwrap();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let named = [("a".to_owned(), words(&["x", "$y"])), ("b".to_owned(), words(&["z"]))];
        assert_eq!(options.from_aliases.named, named);
        let options = parse(&["--named-server-config", "f.json", "--port", "1", "--debug"]).unwrap();
        assert_eq!(options.config, Some("f.json".into()));
    }

    #[test]
    fn a_meaning_that_cannot_be_kept_is_an_error() {
        for (args, part) in [
            (&["--stdio", "a $B"][..], "--stdio: '$' has a meaning for a shell only"),
            (&["--stdio", "a", "--outputTransport", "sse"], "--outputTransport sse: HTTP+SSE"),
            (&["--stdio", "a", "--outputTransport", "ws"], "--outputTransport ws: expected streamableHttp"),
            (&["--stdio", "a", "--ssePath", "/sse"], "--ssePath: HTTP+SSE is not served; clients"),
            (&["--stdio", "a", "--baseUrl", "http://h"], "--baseUrl: HTTP+SSE"),
            (&["--stdio", "a", "--cors"], "--cors without a value allows pages of every origin"),
            (&["--stdio", "a", "--cors", "*"], "--cors *: patterns are not available"),
            (&["--stdio", "a", "--cors", "/x:\\/\\/y/"], "patterns are not available"),
            (&["--stdio", "a", "--cors", "https://*.example"], "--cors https://*.example: patterns are not"),
            (
                &["--port", "1", "--allow-origin", "http://a", "http://b"],
                "--allow-origin http://a: unexpected \"http://b\" after it; repeat --allow-origin for each",
            ),
            (
                &["--named-server", "a", "b", "--named-server", "a", "c", "--port", "1"],
                "--named-server a must be given at most once",
            ),
            (&["--stdio", "a", "--oauth2Bearer", "t"], "--oauth2Bearer requires a URL; to require a token"),
            (&["--stdio", "a", "--header", "A: b"], "--header and --bearer-file require --url"),
            (&["--stdio", "a", "--sse", "http://h"], "exclude each other"),
            (
                &["--stdio", "a", "b", "--port", "1"],
                "--stdio, COMMAND, a URL and --config exclude each other",
            ),
            (&["--stdio", "a", "--http", "h:1", "--port", "1"], "--http and --port or --host exclude"),
            (&["--stdio", "a", "--sessionTimeout", "0"], "--sessionTimeout requires 100 to"),
            (&["--stdio", "a", "--port", "70000"], "--port requires a number up to 65535, got \"70000\""),
            (&["--stdio", "a", "--outputTransport", "stdio", "--port", "1"], "require --outputTransport"),
            (&["--sse", "http://h", "--port", "1"], "--port and --host require COMMAND"),
            (&["--sse", "http://h", "--sessionTimeout", "500"], "--sessionTimeout requires --port or --http"),
            (&["http://h/", "--port", "1"], "--port and --host require COMMAND"),
            (&["http://h/", "x"], "unexpected argument \"x\" after a URL"),
            (&["npx", "server"], "unexpected argument \"npx\""),
            (&["--verify-ssl", "x.pem", "http://h"], "--verify-ssl: certificates are always verified"),
            (
                &["--username", "x", "--password", "y", "http://h"],
                "--username: use --header 'Authorization: Basic",
            ),
            (&["--digest", "http://h"], "--digest: digest authentication is not available"),
            (&["--version"], "--version: use `tinymcp --version`"),
            (&["--port", "1", "--allow-origin", "*", "a"], "--allow-origin *: name each origin"),
            (&["--client-id", "x"], "--client-id: sign in once by `tinymcp login"),
            (&["--port", "1", "--expose-header", "X", "a"], "--expose-header: pages of --allow-origin"),
            (&["-e", "A", "b", "--url", "http://h"], "--env and --cwd require COMMAND"),
            (&["--named-server", "a", "b"], "--named-server requires --port or --http"),
            (&["--named-server", "a", "'b", "--port", "1"], "--named-server a: a single quote is not closed"),
            (&["--named-server", "a", "b", "--port", "1", "c"], "--named-server excludes other servers"),
            (&["--named-server", "a", "b", "--port", "1", "--prefix", "c"], "--prefix must be `none`"),
            (&["-x"], "unknown option -x"),
            (&["--stdout", "a"], "unknown option --stdout"),
        ] {
            let error = parse(args).unwrap_err();
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }

    #[test]
    fn the_manual_maps_every_option() {
        const MANUAL: &str = include_str!("../../../manual/proxy_command.md");
        const OWN: &str = "stdio sse streamableHttp outputTransport port streamableHttpPath sessionTimeout \
                           header oauth2Bearer cors healthEndpoint host sse-host sse-port headers env cwd \
                           pass-environment no-pass-environment named-server named-server-config allow-origin \
                           stateful";
        let lists = [&FLAGS_WITHOUT_EFFECT[..], &VALUES_WITHOUT_EFFECT, &REJECTED];
        let listed = lists.iter().flat_map(|list| list.iter().map(|(name, _)| *name));
        for name in OWN.split_whitespace().chain(listed).chain(SSE_ONLY) {
            assert!(MANUAL.contains(&format!("`--{name}")), "{name}");
        }
    }
}
