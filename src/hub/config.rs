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
//! | `tools`, `includeTools` | `[PATTERN]`: only these tools |
//! | `disabledTools`, `excludeTools` | `[PATTERN]`: all tools but these |
//! | `toolFilter` | `{"mode": "allow" or "block", "list": [PATTERN]}`, also within `options` |
//!
//! An invalid value of a member in this table is an error of its server: a filter that cannot be
//! read must not offer all tools. [`Config::warnings`] lists all other members, also those beside
//! `mcpServers`.
//! The file may have comments and trailing commas.
//!
//! `${NAME}`, `${env:NAME}` and `${NAME:-default}` in a text are replaced by the environment
//! variable `NAME` of this process, and `${input:some-id}` by `TINYMCP_INPUT_SOME_ID`, because the
//! library does not ask the user while it reads a file. If the variable is not set, the names that
//! VS Code and Cursor define have these values:
//!
//! | name | value |
//! |---|---|
//! | `${workspaceFolder}`, `${workspaceRoot}`, `${cwd}` | the current folder of this process |
//! | `${workspaceFolderBasename}` | its last component |
//! | `${userHome}` | `HOME` |
//! | `${pathSeparator}`, `${/}` | `/`, on Windows `\` |
//!
//! An error in one server's entry fails that server only.

mod variables;

use std::process::Command;
use std::time::Duration;

#[cfg(feature = "http-client")]
use crate::Endpoint;
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Kind, Value, without_comments};

use super::names::UpstreamNames;
use super::{Upstream, check_key};
use variables::{env_file, expand};

/// Types of a server over HTTP.
const HTTP: [&str; 5] = ["http", "streamable-http", "streamable_http", "streamableHttp", "sse"];

/// Members of a server that are used.
const USED_MEMBERS: &str = "command args cwd env envFile inheritEnv url headers type transport transportType disabled \
                    enabled timeout prefix tools includeTools excludeTools toolFilter disabledTools options \
                    serverUrl";
/// Members of a server that only describe it, or concern the user interface of another host.
const DESCRIPTIVE_MEMBERS: &str =
    "name title description version icon gallery autoApprove alwaysAllow trust dev";
/// Members that select tools and servers. They have no meaning within `options`.
const FILTER_MEMBERS: [&str; 6] =
    ["tools", "includeTools", "excludeTools", "disabledTools", "disabled", "enabled"];
/// Maximum number of names in one warning: the file may also contain other settings of a host.
const MAX_NAMED: usize = 8;

/// The servers of a configuration file, in the order of the file.
///
/// ```
/// use tinymcp::{Config, Hub};
///
/// let file = r#"{"mcpServers": {
///     "board": {"command": "board_server", "args": ["--quiet"]}, // Comments are accepted.
///     "broken": {"cmd": "board_server"},
/// }}"#;
/// let hub = Hub::builder("host", "1.0.0").build()?;
/// for (key, upstream) in Config::parse(file)?.into_upstreams() {
///     match upstream {
///         Ok(upstream) => hub.add(key, upstream)?,
///         Err(error) => eprintln!("{key}: {error}"),
///     }
/// }
/// assert_eq!(hub.servers().len(), 1);
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Keys, each with its server or the error in its entry.
    servers: Vec<(String, Result<Spec, String>)>,
    warnings: Vec<String>,
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
struct Spec {
    address: Address,
    names: UpstreamNames,
    timeout: Option<Duration>,
}

/// The way to reach a server.
#[derive(Clone, Debug, PartialEq)]
enum Address {
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
    /// Reads the text of a configuration file: JSON that may have comments and trailing commas. The
    /// servers may also be under `servers`, or at the top level.
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
            .map_err(|e| invalid(format!("the configuration is not JSON: {e}")))?;
        let root = doc.root();
        let named = root.get("mcpServers").or_else(|| root.get("servers"));
        let servers = named.unwrap_or(root);
        // `"mcpServers": {}` means no servers. A file without it must have at least one server.
        let like_servers = || servers.members().any(|(_, server)| server.kind() == Kind::Object);
        if servers.kind() != Kind::Object || (named.is_none() && !like_servers()) {
            return Err(invalid("the configuration has no object `mcpServers`"));
        }
        let mut read: Vec<(String, Result<Spec, String>)> = Vec::new();
        let mut warnings = Vec::from_iter(named.and_then(|_| unused_beside(root)));
        for (key, value) in servers.members() {
            let is = |name, on| value.get(name).and_then(Value::as_bool) == Some(on);
            if is("disabled", true) || is("enabled", false) {
                continue;
            }
            let known = USED_MEMBERS.split(' ').chain(DESCRIPTIVE_MEMBERS.split(' '));
            let mut unknown = |name: &str| {
                warnings.push(format!("server {key:?}: the member {name:?} is unknown and ignored"));
            };
            for (name, member) in value.members() {
                if !known.clone().any(|known| known == name) {
                    unknown(name);
                }
                if name == "options" {
                    let others = member.members().map(|(name, _)| name).filter(|name| *name != "toolFilter");
                    others.for_each(|name| unknown(&format!("options.{name}")));
                }
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

    /// Members that are unknown and ignored: one line for each of a server, and one for those
    /// beside the servers.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the keys of the servers, also of those that cannot be used, in the order of the
    /// file.
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

    /// Returns each server with its [`Upstream`], or with the error in its entry.
    ///
    /// The error is [`ErrorKind::Invalid`] and names the server. It is also returned for a URL when
    /// this program was built without the feature `http-client`.
    pub fn into_upstreams(self) -> Vec<(String, Result<Upstream, Error>)> {
        self.upstreams(&|_, endpoint| endpoint)
    }

    /// As [`Config::into_upstreams`], with each URL as this function returns it. It also gets the
    /// key of the server, and may add credentials or other headers.
    #[cfg(feature = "http-client")]
    pub fn into_upstreams_with_endpoints(
        self,
        change: impl Fn(&str, Endpoint) -> Endpoint,
    ) -> Vec<(String, Result<Upstream, Error>)> {
        self.upstreams(&change)
    }

    fn upstreams(
        self,
        change: &dyn Fn(&str, Endpoint) -> Endpoint,
    ) -> Vec<(String, Result<Upstream, Error>)> {
        let servers = self.servers.into_iter().map(|(key, spec)| {
            let upstream = spec.map_err(invalid).and_then(|spec| spec.into_upstream(&|e| change(&key, e)));
            (key, upstream)
        });
        servers.collect()
    }
}

/// Returns a warning that names the members beside the servers that have no effect, such as
/// `mcpProxy` of TBXark/mcp-proxy.
fn unused_beside(root: Value<'_>) -> Option<String> {
    let used = if root.get("mcpServers").is_some() { "mcpServers" } else { "servers" };
    let names =
        root.members().map(|(name, _)| name).filter(|name| ![used, "inputs", "$schema"].contains(name));
    let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    let more = if names.len() > MAX_NAMED { ", and others" } else { "" };
    let first = names.get(..MAX_NAMED).unwrap_or(&names).join(", ");
    (!names.is_empty()).then(|| format!("beside the servers, unknown and ignored: {first}{more}"))
}

impl Spec {
    fn read(value: Value<'_>, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Spec, String> {
        if value.kind() != Kind::Object {
            return Err("must be an object".to_owned());
        }
        if let Some(name) = ["disabled", "enabled"]
            .into_iter()
            .find(|name| value.get(name).is_some_and(|on| on.as_bool().is_none()))
        {
            return Err(format!("`{name}` must be true or false"));
        }
        let address = Address::read(value, look_up)?;
        let timeout = match value.get("timeout") {
            None => None,
            Some(seconds) => {
                let seconds = seconds.as_f64().filter(|seconds| *seconds > 0.0);
                let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                Some(time.ok_or("`timeout` must be a positive number of seconds")?)
            }
        };
        Ok(Spec { address, names: read_names(value, look_up)?, timeout })
    }

    fn into_upstream(self, change: &dyn Fn(Endpoint) -> Endpoint) -> Result<Upstream, Error> {
        let mut upstream = self.address.into_upstream(change)?;
        upstream.names = self.names;
        upstream.call_timeout = self.timeout;
        Ok(upstream)
    }
}

/// Reads the members about names and tools, and replaces the variables in them. A filter with an
/// error must fail its server: without the filter, it would offer more tools.
fn read_names(value: Value<'_>, look_up: &dyn Fn(&str) -> Option<String>) -> Result<UpstreamNames, String> {
    let mut names = UpstreamNames::default();
    if let Some(prefix) = value.get("prefix") {
        names.prefix = Some(prefix.as_str().ok_or("`prefix` must be a string")?.to_owned());
    }
    for (name, member) in value.members() {
        match name {
            "tools" => read_tools(&mut names, member)?,
            "includeTools" => allow(&mut names, member, name)?,
            "excludeTools" | "disabledTools" => names.denied.extend(list(member, name)?),
            "toolFilter" => read_filter(&mut names, member)?,
            "options" => read_options(&mut names, value, member)?,
            _ => {}
        }
    }
    let UpstreamNames { prefix, allowed, denied, renamed } = &mut names;
    let renamed = renamed.iter_mut().flat_map(|(from, to)| [from, to]);
    for text in prefix.iter_mut().chain(allowed).chain(denied).chain(renamed) {
        *text = expand(text, look_up)?;
        if text.contains("${") {
            return Err(format!("invalid pattern or name {text:?}: expected `}}` after `${{`"));
        }
    }
    names.check().map_err(|error| error.to_string())?;
    Ok(names)
}

/// Reads `tools`.
fn read_tools(names: &mut UpstreamNames, tools: Value<'_>) -> Result<(), String> {
    match tools.kind() {
        Kind::Array => return allow(names, tools, "tools"),
        Kind::Object => {}
        _ => {
            return Err("`tools` must be an array of names, or an object with `allow`, `deny` and `rename`"
                .to_owned());
        }
    }
    for (name, member) in tools.members() {
        match name {
            "allow" => allow(names, member, "tools.allow")?,
            "deny" => names.denied.extend(list(member, "tools.deny")?),
            "rename" if member.kind() == Kind::Object => {
                for (from, to) in member.members() {
                    let to = to.as_str().ok_or_else(|| format!("`tools.rename.{from}` must be a string"))?;
                    names.renamed.push((from.to_owned(), to.to_owned()));
                }
            }
            "rename" => return Err("`tools.rename` must be an object with strings".to_owned()),
            other => {
                return Err(format!("unknown member `tools.{other}`: expected `allow`, `deny` or `rename`"));
            }
        }
    }
    Ok(())
}

/// Reads `toolFilter`.
fn read_filter(names: &mut UpstreamNames, filter: Value<'_>) -> Result<(), String> {
    if filter.kind() != Kind::Object {
        return Err("`toolFilter` must be an object with `mode` and `list`".to_owned());
    }
    if let Some((other, _)) = filter.members().find(|(name, _)| !["mode", "list"].contains(name)) {
        return Err(format!("unknown member `toolFilter.{other}`: expected `mode` and `list`"));
    }
    let listed = filter.get("list").ok_or("`toolFilter.list` must be an array of strings")?;
    match filter.get("mode").and_then(Value::as_str) {
        Some("allow") => allow(names, listed, "toolFilter.list"),
        Some("block") => {
            names.denied.extend(list(listed, "toolFilter.list")?);
            Ok(())
        }
        _ => Err("`toolFilter.mode` must be `allow` or `block`".to_owned()),
    }
}

/// Reads `options` of TBXark/mcp-proxy.
fn read_options(names: &mut UpstreamNames, server: Value<'_>, options: Value<'_>) -> Result<(), String> {
    if options.kind() != Kind::Object {
        return Err("`options` must be an object".to_owned());
    }
    if let Some(name) = FILTER_MEMBERS.into_iter().find(|name| options.get(name).is_some()) {
        return Err(format!("`options.{name}`: move `{name}` out of `options`"));
    }
    match (options.get("toolFilter"), server.get("toolFilter")) {
        (Some(_), Some(_)) => Err("`toolFilter` and `options.toolFilter` exclude each other".to_owned()),
        (Some(filter), None) => read_filter(names, filter),
        (None, _) => Ok(()),
    }
}

/// Reads patterns of tools that are offered. Two such lists would offer more than each of them.
fn allow(names: &mut UpstreamNames, patterns: Value<'_>, name: &str) -> Result<(), String> {
    let patterns = list(patterns, name)?;
    if patterns.is_empty() {
        return Err(format!("`{name}` must not be empty: use [\"*\"] for all tools, or `disabled`"));
    }
    if !names.allowed.is_empty() {
        return Err(format!("`{name}`: the tools are selected already; keep one list of allowed tools"));
    }
    names.allowed = patterns;
    Ok(())
}

fn list(list: Value<'_>, name: &str) -> Result<Vec<String>, String> {
    let names: Option<Vec<String>> = list.items().map(|v| v.as_str().map(str::to_owned)).collect();
    let names = names.filter(|_| list.kind() == Kind::Array);
    names.ok_or_else(|| format!("`{name}` must be an array of strings"))
}

impl Address {
    fn read(value: Value<'_>, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Address, String> {
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
                Ok(Address::Program { command, args, env, dir, inherit_env })
            }
            (None, Some(url), _) if http => Ok(Address::Url { url, headers: pairs("headers")? }),
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

    fn into_upstream(
        self,
        #[cfg_attr(not(feature = "http-client"), allow(unused_variables))] change: &dyn Fn(
            Endpoint,
        )
            -> Endpoint,
    ) -> Result<Upstream, Error> {
        match self {
            Address::Program { command, args, env, dir, inherit_env } => {
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
            Address::Url { url, headers } => {
                let mut endpoint = Endpoint::new(url);
                for (name, value) in headers {
                    endpoint = endpoint.header(name, value);
                }
                Ok(Upstream::url(change(endpoint)))
            }
            #[cfg(not(feature = "http-client"))]
            Address::Url { url, headers: _ } => {
                Err(invalid(format!("cannot connect to {url}: built without the feature http-client")))
            }
        }
    }
}

/// Placeholder for the URL of a server in a build without clients of URLs.
#[cfg(not(feature = "http-client"))]
struct Endpoint;

fn invalid(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, why)
}

#[cfg(test)]
mod tests;
