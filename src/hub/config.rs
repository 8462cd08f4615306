//! Configuration file of agent hosts: `{"mcpServers": {"key": {"command": …}, …}}`.
//!
//! | member of a server | meaning |
//! |---|---|
//! | `command`, `args`, `cwd` | a program |
//! | `env`, `envFile` | its variables; lines `NAME=VALUE` of a file, which `env` overrides |
//! | `inheritEnv` | `true` passes the whole environment of this process to the program |
//! | `url`, `headers` | a server over HTTP |
//! | `type`, `transport`, `transportType` | must match `command` or `url` |
//! | `disabled`, `enabled` | `true`, `false`: the server is not used |
//! | `timeout` | of each call, in seconds |
//! | `prefix` | begins the names of tools and prompts, see [`Upstream::prefix`] |
//! | `tools` | `{"allow": [PATTERN], "deny": [PATTERN], "rename": {NAME: NEW}}`, see [`Upstream`] |
//! | `toolFilter` | `{"mode": "allow" or "block", "list": [NAME]}`, also within `options` |
//! | `disabledTools` | names of tools that are not offered |
//!
//! [`Config::warnings`] names all other members. The file may have comments and trailing commas.
//!
//! `${NAME}`, `${env:NAME}` and `${NAME:-default}` in a text are replaced by the environment
//! variable `NAME` of this process, and `${input:some-id}` by `TINYMCP_INPUT_SOME_ID`: this library
//! asks nobody while it reads a file.
//!
//! An error in one server's entry fails that server only.

use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Kind, Value, without_comments};

use super::names::UpstreamNames;
use super::{Upstream, check_key};

/// Types of a server over HTTP.
const HTTP: [&str; 5] = ["http", "streamable-http", "streamable_http", "streamableHttp", "sse"];

/// Members of a server that are used.
const USED: &str = "command args cwd env envFile inheritEnv url headers type transport transportType disabled \
                    enabled timeout prefix tools toolFilter disabledTools options serverUrl";
/// Members of a server that only describe it, or concern the user interface of another host.
const DESCRIBING: &str = "name title description version icon gallery autoApprove alwaysAllow trust dev";
/// Bytes of the longest file of variables.
const LONGEST_ENV_FILE: u64 = 1 << 20;

/// The servers of a configuration file, in the order of the file.
#[derive(Clone, Debug)]
pub struct Config {
    /// Keys, each with its server or the error in its entry.
    servers: Vec<(String, Result<Spec, String>)>,
    warnings: Vec<String>,
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
struct Spec {
    way: Way,
    names: UpstreamNames,
    timeout: Option<Duration>,
}

/// The way to reach a server.
#[derive(Clone, Debug, PartialEq)]
enum Way {
    Program {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        dir: Option<String>,
        inherit_env: bool,
    },
    Url {
        url: String,
        #[cfg_attr(not(feature = "http-client"), allow(dead_code))] // Rejected without that feature.
        headers: Vec<(String, String)>,
    },
}

impl Config {
    /// Reads the text of a configuration file: JSON, with comments and trailing commas if any. The
    /// servers may also be under `servers`, or at the top.
    ///
    /// An entry that cannot be used does not fail the file: [`Config::into_upstreams`] returns its
    /// error.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when the text is not JSON or has no object `mcpServers`.
    pub fn parse(text: &str) -> Result<Config, Error> {
        Config::with_environment(text, &|name| std::env::var(name).ok())
    }

    /// As [`Config::parse`], with the caller's environment.
    fn with_environment(text: &str, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Config, Error> {
        let text = text.trim_start_matches('\u{feff}').as_bytes();
        let doc = Doc::parse(without_comments(text))
            .map_err(|e| bad(format!("the configuration is not JSON: {e}")))?;
        let root = doc.root();
        let named = root.get("mcpServers").or_else(|| root.get("servers"));
        let servers = named.unwrap_or(root);
        // `"mcpServers": {}` means no servers. A file without it must have at least one server.
        let like_servers = || servers.members().any(|(_, server)| server.kind() == Kind::Object);
        if servers.kind() != Kind::Object || (named.is_none() && !like_servers()) {
            return Err(bad("the configuration has no object `mcpServers`"));
        }
        let mut read: Vec<(String, Result<Spec, String>)> = Vec::new();
        let mut warnings = Vec::new();
        for (key, value) in servers.members() {
            let is = |name, on| value.get(name).and_then(Value::as_bool) == Some(on);
            if is("disabled", true) || is("enabled", false) {
                continue;
            }
            let known = USED.split(' ').chain(DESCRIBING.split(' '));
            for (name, _) in value.members().filter(|(name, _)| !known.clone().any(|k| k == *name)) {
                warnings.push(format!("server {key:?}: the member {name:?} is unknown and ignored"));
            }
            let spec = match read.iter().any(|(other, _)| other == key) {
                true => Err(format!("server {key:?}: the key appears twice")),
                false => check_key(key).map_err(|error| error.to_string()).and_then(|()| {
                    Spec::read(value, look_up).map_err(|why| format!("server {key:?}: {why}"))
                }),
            };
            read.push((key.to_owned(), spec));
        }
        Ok(Config { servers: read, warnings })
    }

    /// Members of the servers that are unknown and ignored, one line for each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The keys of the servers, also of those that cannot be used, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(key, _)| &**key)
    }

    /// Returns whether both configurations have a valid entry for this key, with the same values
    /// after variables and `envFile` are replaced. Then a server that was added for one of them
    /// need not be replaced for the other.
    pub fn has_same_server(&self, key: &str, other: &Config) -> bool {
        self.valid(key).is_some_and(|spec| other.valid(key) == Some(spec))
    }

    fn valid(&self, key: &str) -> Option<&Spec> {
        let entry = self.servers.iter().find(|(known, _)| known == key);
        entry.and_then(|(_, spec)| spec.as_ref().ok())
    }

    /// Each server with the way to reach it, or the error in its entry.
    ///
    /// The error is [`ErrorKind::Invalid`] and names the server. It is also returned for a URL when
    /// this program was built without the feature `http-client`.
    pub fn into_upstreams(self) -> Vec<(String, Result<Upstream, Error>)> {
        let upstream = |spec: Result<Spec, String>| spec.map_err(bad).and_then(Spec::into_upstream);
        self.servers.into_iter().map(|(key, spec)| (key, upstream(spec))).collect()
    }
}

impl Spec {
    fn read(value: Value<'_>, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Spec, String> {
        if value.kind() != Kind::Object {
            return Err("must be an object".to_owned());
        }
        let way = Way::read(value, look_up)?;
        let timeout = match value.get("timeout") {
            None => None,
            Some(seconds) => {
                let seconds = seconds.as_f64().filter(|seconds| *seconds > 0.0);
                let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                Some(time.ok_or("`timeout` must be a positive number of seconds")?)
            }
        };
        Ok(Spec { way, names: read_names(value)?, timeout })
    }

    fn into_upstream(self) -> Result<Upstream, Error> {
        let mut upstream = self.way.into_upstream()?;
        upstream.names = self.names;
        upstream.call_timeout = self.timeout;
        Ok(upstream)
    }
}

/// Reads the members about names and tools.
fn read_names(value: Value<'_>) -> Result<UpstreamNames, String> {
    let mut names = UpstreamNames::default();
    if let Some(prefix) = value.get("prefix") {
        names.prefix = Some(prefix.as_str().ok_or("`prefix` must be a string")?.to_owned());
    }
    let list = |list: Option<Value<'_>>, name: &str| -> Result<Vec<String>, String> {
        let Some(list) = list else { return Ok(Vec::new()) };
        let names: Option<Vec<String>> = list.items().map(|v| v.as_str().map(str::to_owned)).collect();
        let names = names.filter(|_| list.kind() == Kind::Array);
        names.ok_or_else(|| format!("`{name}` must be an array of strings"))
    };
    if let Some(tools) = value.get("tools") {
        names.allowed = list(tools.get("allow"), "tools.allow")?;
        names.denied = list(tools.get("deny"), "tools.deny")?;
        for (name, new) in tools.get("rename").iter().flat_map(|rename| rename.members()) {
            let new = new.as_str().ok_or("`tools.rename` must have strings")?;
            names.renamed.push((name.to_owned(), new.to_owned()));
        }
    }
    let options = value.get("options").and_then(|options| options.get("toolFilter"));
    if let Some(filter) = value.get("toolFilter").or(options) {
        let listed = list(filter.get("list"), "toolFilter.list")?;
        match filter.get("mode").and_then(Value::as_str) {
            Some("allow") => names.allowed.extend(listed),
            Some("block") => names.denied.extend(listed),
            _ => return Err("`toolFilter.mode` must be `allow` or `block`".to_owned()),
        }
    }
    names.denied.extend(list(value.get("disabledTools"), "disabledTools")?);
    names.check().map_err(|error| error.to_string())?;
    Ok(names)
}

impl Way {
    fn read(value: Value<'_>, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Way, String> {
        let text = |name: &str| match value.get(name) {
            None => Ok(None),
            Some(v) => match v.as_str() {
                Some(text) => expand(text, look_up).map(Some),
                None => Err(format!("`{name}` must be a string")),
            },
        };
        let pairs = |name: &str| -> Result<Vec<(String, String)>, String> {
            let Some(object) = value.get(name) else { return Ok(Vec::new()) };
            if object.kind() != Kind::Object {
                return Err(format!("`{name}` must be an object"));
            }
            object
                .members()
                .map(|(key, v)| {
                    let text = v.as_str().ok_or_else(|| format!("`{name}.{key}` must be a string"))?;
                    Ok((key.to_owned(), expand(text, look_up)?))
                })
                .collect()
        };
        let args = || -> Result<Vec<String>, String> {
            let Some(array) = value.get("args") else { return Ok(Vec::new()) };
            if array.kind() != Kind::Array {
                return Err("`args` must be an array".to_owned());
            }
            array
                .items()
                .map(|v| expand(v.as_str().ok_or("every element of `args` must be a string")?, look_up))
                .collect()
        };
        let inherit_env = match value.get("inheritEnv").map(Value::as_bool) {
            None => false,
            Some(Some(inherit)) => inherit,
            Some(None) => return Err("`inheritEnv` must be true or false".to_owned()),
        };
        let kind = text("type")?.or(text("transport")?).or(text("transportType")?);
        let http = kind.as_deref().is_none_or(|kind| HTTP.contains(&kind));
        match (text("command")?, text("url")?, kind.as_deref()) {
            (Some(command), None, None | Some("stdio")) => {
                let (args, dir) = (args()?, text("cwd")?);
                // Later variables override earlier ones.
                let mut env = text("envFile")?.map_or(Ok(Vec::new()), |path| env_file(&path))?;
                env.extend(pairs("env")?);
                Ok(Way::Program { command, args, env, dir, inherit_env })
            }
            (None, Some(url), _) if http => Ok(Way::Url { url, headers: pairs("headers")? }),
            (Some(_), Some(_), _) => Err("has both `command` and `url`".to_owned()),
            (None, None, _) if value.get("serverUrl").is_some() => {
                Err("unknown member `serverUrl`: use `url`".to_owned())
            }
            (None, None, _) => Err("needs `command` or `url`".to_owned()),
            (Some(_), None, Some(kind)) => Err(format!("`command` requires the type stdio, got {kind:?}")),
            (None, Some(_), kind) => {
                let kind = kind.unwrap_or_default();
                Err(format!("`url` requires the type http, streamable-http or sse, got {kind:?}"))
            }
        }
    }

    fn into_upstream(self) -> Result<Upstream, Error> {
        match self {
            Way::Program { command, args, env, dir, inherit_env } => {
                let start = move || {
                    let mut program = Command::new(&command);
                    program.args(&args).envs(env.iter().map(|(k, v)| (k, v)));
                    if let Some(dir) = &dir {
                        program.current_dir(dir);
                    }
                    program
                };
                Ok(Upstream::command(start).inherit_env(inherit_env))
            }
            #[cfg(feature = "http-client")]
            Way::Url { url, headers } => {
                let mut endpoint = crate::Endpoint::new(url);
                for (name, value) in headers {
                    endpoint = endpoint.header(name, value);
                }
                Ok(Upstream::url(endpoint))
            }
            #[cfg(not(feature = "http-client"))]
            Way::Url { url, headers: _ } => {
                Err(bad(format!("cannot connect to {url}: built without the feature http-client")))
            }
        }
    }
}

fn bad(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, why)
}

/// Reads lines `NAME=VALUE`, with `export` before the name and quotes around the value if any.
/// Empty lines and lines that begin with `#` are skipped.
fn env_file(path: &str) -> Result<Vec<(String, String)>, String> {
    let refusal = |why: &dyn std::fmt::Display| format!("`envFile` {path}: {why}");
    let mut text = String::new();
    let file = File::open(path).map_err(|error| refusal(&error))?;
    file.take(LONGEST_ENV_FILE + 1).read_to_string(&mut text).map_err(|error| refusal(&error))?;
    if text.len() as u64 > LONGEST_ENV_FILE {
        return Err(refusal(&"longer than 1 MiB"));
    }
    let mut variables = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.strip_prefix("export ").unwrap_or(line).split_once('=');
        let Some((name, value)) = pair.filter(|(name, _)| !name.trim().is_empty()) else {
            return Err(refusal(&format_args!("line {}: expected NAME=VALUE", at + 1)));
        };
        let value = value.trim();
        let unquoted = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let value = unquoted('"').or_else(|| unquoted('\'')).unwrap_or(value);
        variables.push((name.trim().to_owned(), value.to_owned()));
    }
    Ok(variables)
}

/// The variable that holds an input which VS Code would ask the user for.
fn input_variable(id: &str) -> String {
    let upper = id.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("TINYMCP_INPUT_{}", upper.collect::<String>())
}

/// Replaces `${NAME}`, `${env:NAME}`, `${NAME:-default}` and `${input:id}`.
fn expand(text: &str, look_up: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = (rest.get(..at).unwrap_or_default(), rest.get(at + 2..).unwrap_or_default());
        let Some((name, behind)) = from.split_once('}') else { break };
        expanded.push_str(before);
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        let name = match name.strip_prefix("input:") {
            Some(id) => &*input_variable(id),
            None => name.strip_prefix("env:").unwrap_or(name),
        };
        match (look_up(name), default) {
            (Some(value), _) if !value.is_empty() || default.is_none() => expanded.push_str(&value),
            (_, Some(default)) => expanded.push_str(default),
            (_, None) => return Err(format!("environment variable {name} is not set")),
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}
