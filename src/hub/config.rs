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
//! | `timeout` | of each call: seconds, or a text such as `"2s"` or `"500ms"`; from 1000 on milliseconds |
//! | `prefix` | begins the names of tools and prompts, see [`Upstream::prefix`] |
//! | `tools` | `{"allow": [PATTERN], "deny": [PATTERN], "rename": {NAME: NEW}}`, see [`Upstream`] |
//! | `tools`, `includeTools` | `[PATTERN]`: only these tools |
//! | `disabledTools`, `excludeTools` | `[PATTERN]`: all tools but these |
//! | `toolFilter` | `{"mode": "allow" or "block", "list": [PATTERN]}`, also within `options` |
//!
//! An invalid value of a member in this table is an error of its server: a filter that cannot be
//! read must not offer all tools. [`Config::warnings`] lists all other members, also those beside
//! `mcpServers`.
//! The file may have comments and trailing commas. `null` is as if the member were absent, and the
//! values of `env` and `headers` may also be numbers and booleans. A key may have any characters:
//! see [`Config::key_of`].
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
//! Other expansions of a shell, such as `${NAME%/}` or `${1:-x}`, stay as they are, and `$${NAME}`
//! is the text `${NAME}`. A default must not contain a variable.
//!
//! An error in one server's entry fails that server only.

mod address;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Kind, Value, without_comments};

use super::names::UpstreamNames;
use super::{Hub, Upstream, check_key};
use address::{Address, Endpoint};
use variables::expand;

/// Members of a server that are used.
const USED_MEMBERS: &str = "command args cwd env envFile inheritEnv url headers type transport transportType disabled \
                    enabled timeout prefix tools includeTools excludeTools toolFilter disabledTools options \
                    serverUrl httpUrl";
/// Members of a server that only describe it, or concern the user interface of another host.
const DESCRIPTIVE_MEMBERS: &str =
    "name title description version icon gallery autoApprove alwaysAllow trust dev";
/// Members that select tools and servers. They have no meaning within `options`.
const FILTER_MEMBERS: [&str; 6] =
    ["tools", "includeTools", "excludeTools", "disabledTools", "disabled", "enabled"];
/// Least number of a `timeout` that is in milliseconds, as Claude Code and Gemini write it.
const LEAST_MILLISECONDS: f64 = 1000.0;
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
    entries: Vec<Entry>,
    warnings: Vec<String>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The key in the file.
    written: String,
    /// The key for a hub; the key in the file if there is an error about keys.
    key: String,
    /// The server or the error in its entry.
    spec: Result<Spec, String>,
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
struct Spec {
    address: Address,
    names: UpstreamNames,
    timeout: Option<Duration>,
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
        let named = ["mcpServers", "servers"].into_iter().find(|name| root.get(name).is_some());
        if let Some(name) = named.filter(|name| root.members().filter(|(other, _)| other == name).count() > 1)
        {
            return Err(invalid(format!("the configuration has `{name}` twice")));
        }
        let servers = named.and_then(|name| root.get(name)).unwrap_or(root);
        if named.is_none() {
            misplaced(root).map_or(Ok(()), |why| Err(invalid(why)))?;
        }
        // `"mcpServers": {}` means no servers. A file without it must have at least one server.
        let like_servers = || servers.members().any(|(_, server)| server.kind() == Kind::Object);
        if servers.kind() != Kind::Object || (named.is_none() && !like_servers()) {
            return Err(invalid("the configuration has no object `mcpServers`"));
        }
        let mut config =
            Config { entries: Vec::new(), warnings: Vec::from_iter(named.and_then(|_| unused_beside(root))) };
        let mut keys = Keys::new(servers);
        for (written, value) in servers.members() {
            let is_twice = match keys.occurrences.remove(written) {
                Some(occurrences) => occurrences > 1,
                None => continue, // The error is at its first place.
            };
            if is_disabled(value) && !is_twice {
                continue;
            }
            config.warn_of_unknown(written, value);
            let (key, read) = match is_twice {
                true => (written.to_owned(), Err("the key appears twice".to_owned())),
                false => config.read_server(written, value, &mut keys, look_up),
            };
            let spec = read.map_err(|why| format!("server {written:?}: {why}"));
            config.entries.push(Entry { written: written.to_owned(), key, spec });
        }
        Ok(config)
    }

    /// Reads a server, and returns its key for a hub.
    fn read_server(
        &mut self,
        written: &str,
        value: Value<'_>,
        keys: &mut Keys<'_>,
        look_up: &dyn Fn(&str) -> Option<String>,
    ) -> (String, Result<Spec, String>) {
        let key = match keys.key(written) {
            Ok(key) => key,
            Err(why) => return (written.to_owned(), Err(why)),
        };
        let mut warn = |why: String| self.warnings.push(format!("server {written:?}: {why}"));
        if key != written {
            warn(format!("is used as {key:?}, because the names of its tools begin with its key"));
        }
        (key, Spec::read(value, look_up, &mut warn))
    }

    /// Warns of the members of a server that are ignored.
    fn warn_of_unknown(&mut self, key: &str, server: Value<'_>) {
        let known = USED_MEMBERS.split(' ').chain(DESCRIPTIVE_MEMBERS.split(' '));
        let mut unknown = |name: &str| {
            self.warnings.push(format!("server {key:?}: the member {name:?} is unknown and ignored"));
        };
        for (name, member) in server.members() {
            if !known.clone().any(|known| known == name) {
                unknown(name);
            }
            if name == "options" {
                let others = member.members().map(|(name, _)| name).filter(|name| *name != "toolFilter");
                others.for_each(|name| unknown(&format!("options.{name}")));
            }
        }
    }

    /// Members that are unknown and ignored: one line for each of a server, and one for those
    /// beside the servers. Also keys that a hub does not accept, each with the key that replaces
    /// it, and timeouts that are taken as milliseconds.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the keys of the servers, also of those that cannot be used, in the order of the
    /// file. They are keys for a hub, see [`Config::key_of`].
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| &*entry.key)
    }

    /// Returns the key for a hub of the server that has this key in the file. It is another one if
    /// [`Hub::add`] does not accept the key, see [`Hub::key_for`]. If another server has that key
    /// already, the server has an error. Keys for a hub are found, too.
    ///
    /// ```
    /// let file = r#"{"servers": {"microsoft/playwright-mcp": {"command": "npx"}}}"#;
    /// let config = tinymcp::Config::parse(file)?;
    /// assert_eq!(config.key_of("microsoft/playwright-mcp"), Some("microsoft_playwright-mcp"));
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn key_of(&self, key: &str) -> Option<&str> {
        let written = self.entries.iter().find(|entry| entry.written == key);
        let found = written.or_else(|| self.entries.iter().find(|entry| entry.key == key));
        found.map(|entry| &*entry.key)
    }

    /// Returns whether both configurations have a valid entry for this key, with the same values
    /// after variables and `envFile` are replaced. Then a server that was added for one of them
    /// need not be replaced for the other.
    pub fn has_same_server(&self, key: &str, other: &Config) -> bool {
        self.valid(key).is_some_and(|spec| other.valid(key) == Some(spec))
    }

    fn valid(&self, key: &str) -> Option<&Spec> {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        entry.and_then(|entry| entry.spec.as_ref().ok())
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
        let servers = self.entries.into_iter().map(|Entry { key, spec, .. }| {
            let upstream = spec.map_err(invalid).and_then(|spec| spec.into_upstream(&|e| change(&key, e)));
            (key, upstream)
        });
        servers.collect()
    }
}

/// Keys for a hub.
struct Keys<'d> {
    /// How often each key is in the file.
    occurrences: BTreeMap<&'d str, usize>,
    taken: BTreeSet<String>,
}

impl<'d> Keys<'d> {
    /// Keys that a hub accepts are taken first, so that no other key replaces one of them.
    fn new(servers: Value<'d>) -> Keys<'d> {
        let mut occurrences = BTreeMap::new();
        servers.members().for_each(|(key, _)| *occurrences.entry(key).or_default() += 1);
        let used = servers.members().filter(|(key, server)| check_key(key).is_ok() && !is_disabled(*server));
        Keys { occurrences, taken: used.map(|(key, _)| key.to_owned()).collect() }
    }

    /// Returns the key for a hub.
    fn key(&mut self, written: &str) -> Result<String, String> {
        if check_key(written).is_ok() {
            return Ok(written.to_owned());
        }
        let key = Hub::key_for(written);
        match self.taken.insert(key.clone()) {
            true => Ok(key),
            false => {
                Err(format!("another server has the key {key:?}, which would replace this one: rename it"))
            }
        }
    }
}

fn is_disabled(server: Value<'_>) -> bool {
    let is = |name, on| server.get(name).and_then(Value::as_bool) == Some(on);
    is("disabled", true) || is("enabled", false)
}

/// Returns a member that is neither absent nor `null`.
fn member<'d>(value: Value<'d>, name: &str) -> Option<Value<'d>> {
    value.get(name).filter(|member| !member.is_null())
}

/// Returns the members that are not `null`.
fn members<'d>(value: Value<'d>) -> impl Iterator<Item = (&'d str, Value<'d>)> {
    value.members().filter(|(_, member)| !member.is_null())
}

/// Returns the error for a file without `mcpServers` that has its servers elsewhere, or that is a
/// file of `tinymcp serve`.
fn misplaced(root: Value<'_>) -> Option<String> {
    let is_server = |value: Value<'_>| {
        ["command", "url", "serverUrl", "httpUrl"].iter().any(|name| value.get(name).is_some())
    };
    let has_servers = |value: Value<'_>| value.members().any(|(_, server)| is_server(server));
    let objects = || root.members().filter(|(_, value)| value.kind() == Kind::Object && !is_server(*value));
    let of_serve = ["tools", "prompts", "resources", "resourceTemplates"];
    if !has_servers(root) && objects().any(|(name, _)| of_serve.contains(&name)) {
        return Some(
            "this is a file of `tinymcp serve`, not a configuration: give the server as \
             `-- tinymcp serve FILE`"
                .to_owned(),
        );
    }
    let (name, _) = objects().find(|(name, value)| {
        // `{"mcp": {"servers": {…}}}` is in settings of VS Code.
        let is_nested = || value.get("servers").is_some_and(has_servers);
        let is_similar = name.to_ascii_lowercase().trim_end_matches('s') == "mcpserver";
        is_similar || has_servers(*value) || is_nested()
    })?;
    Some(format!(
        "the configuration has no object `mcpServers`: did you mean `mcpServers` instead of `{name}`?"
    ))
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
    fn read(
        value: Value<'_>,
        look_up: &dyn Fn(&str) -> Option<String>,
        warn: &mut dyn FnMut(String),
    ) -> Result<Spec, String> {
        if value.kind() != Kind::Object {
            return Err("must be an object".to_owned());
        }
        if let Some(name) = repeated(value) {
            return Err(format!("the member `{name}` appears twice"));
        }
        if let Some(name) = ["disabled", "enabled"]
            .into_iter()
            .find(|name| member(value, name).is_some_and(|on| on.as_bool().is_none()))
        {
            return Err(format!("`{name}` must be true or false"));
        }
        let address = Address::read(value, look_up)?;
        let timeout = member(value, "timeout").map(|timeout| read_timeout(timeout, warn)).transpose()?;
        Ok(Spec { address, names: read_names(value, look_up)?, timeout })
    }

    fn into_upstream(self, change: &dyn Fn(Endpoint) -> Endpoint) -> Result<Upstream, Error> {
        let mut upstream = self.address.into_upstream(change)?;
        upstream.names = self.names;
        upstream.call_timeout = self.timeout;
        Ok(upstream)
    }
}

/// Returns the name of a member that an object has twice. Readers of JSON do not agree which
/// counts.
fn repeated(object: Value<'_>) -> Option<&str> {
    let mut seen = BTreeSet::new();
    object.members().map(|(name, _)| name).find(|name| !seen.insert(*name))
}

/// Reads `timeout`.
fn read_timeout(timeout: Value<'_>, warn: &mut dyn FnMut(String)) -> Result<Duration, String> {
    let text = timeout.as_str().unwrap_or_default();
    let in_milliseconds = text.strip_suffix("ms").map(|number| (number, 1000.0));
    let with_unit = in_milliseconds.or_else(|| Some((text.strip_suffix('s')?, 1.0)));
    let (number, mut per_second) = match with_unit {
        Some((number, per_second)) => (number.trim().parse().ok(), per_second),
        None => (timeout.as_f64(), 1.0),
    };
    if let Some(number) = number.filter(|number| with_unit.is_none() && *number >= LEAST_MILLISECONDS) {
        per_second = 1000.0;
        warn(format!("`timeout` is taken as {number} milliseconds: write \"{number}s\" for seconds"));
    }
    let seconds = number.filter(|number| *number > 0.0).map(|number| number / per_second);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| {
        "`timeout` must be a positive number of seconds, or a text such as \"2s\" or \"500ms\"".to_owned()
    })
}

/// Reads the members about names and tools, and replaces the variables in them. A filter with an
/// error must fail its server: without the filter, it would offer more tools.
fn read_names(value: Value<'_>, look_up: &dyn Fn(&str) -> Option<String>) -> Result<UpstreamNames, String> {
    let mut names = UpstreamNames::default();
    if let Some(prefix) = member(value, "prefix") {
        names.prefix = Some(prefix.as_str().ok_or("`prefix` must be a string")?.to_owned());
    }
    for (name, member) in members(value) {
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
            return Err(format!("invalid pattern or name {text:?}: `${{` must begin the name of a variable"));
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
    for (name, member) in members(tools) {
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
    match (member(options, "toolFilter"), member(server, "toolFilter")) {
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

fn invalid(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, why)
}

#[cfg(test)]
mod tests;
