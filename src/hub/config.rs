//! Configuration file of agent hosts: `{"mcpServers": {"key": {"command": …}, …}}`.
//!
//! Members of a server: `command`, `args`, `env` and `cwd` of a program, and `inheritEnv` for the
//! whole environment of this process; `url` and `headers` of a server over HTTP; `type` (or
//! `transport`, `transportType`), which must match; `"disabled": true` or `"enabled": false`. Other
//! members are ignored. `${NAME}`, `${env:NAME}` and `${NAME:-default}` in a text are replaced by
//! the environment variable `NAME` of this process. The file may have comments and trailing commas.
//!
//! An error in one server's entry fails that server only.

use std::process::Command;

use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Kind, Value, without_comments};

use super::{Upstream, check_key};

/// Types of a server over HTTP.
const HTTP: [&str; 5] = ["http", "streamable-http", "streamable_http", "streamableHttp", "sse"];

/// The servers of a configuration file, in the order of the file.
#[derive(Debug)]
pub struct Config {
    servers: Vec<(String, Result<Spec, Error>)>,
}

#[derive(Clone, Debug)]
enum Spec {
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
        let mut read: Vec<(String, Result<Spec, Error>)> = Vec::new();
        for (key, value) in servers.members() {
            let is = |name, on| value.get(name).and_then(Value::as_bool) == Some(on);
            if is("disabled", true) || is("enabled", false) {
                continue;
            }
            let spec = match read.iter().any(|(other, _)| other == key) {
                true => Err(bad(format!("server {key:?}: the key appears twice"))),
                false => check_key(key).and_then(|()| {
                    Spec::read(value, look_up).map_err(|why| bad(format!("server {key:?}: {why}")))
                }),
            };
            read.push((key.to_owned(), spec));
        }
        Ok(Config { servers: read })
    }

    /// The keys of the servers, also of those that cannot be used, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(key, _)| &**key)
    }

    /// Each server with the way to reach it, or the error in its entry.
    ///
    /// The error is [`ErrorKind::Invalid`] and names the server. It is also returned for a URL when
    /// this program was built without the feature `http-client`.
    pub fn into_upstreams(self) -> Vec<(String, Result<Upstream, Error>)> {
        let upstream = |spec: Result<Spec, Error>| spec.and_then(Spec::into_upstream);
        self.servers.into_iter().map(|(key, spec)| (key, upstream(spec))).collect()
    }
}

impl Spec {
    fn read(value: Value<'_>, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Spec, String> {
        if value.kind() != Kind::Object {
            return Err("must be an object".to_owned());
        }
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
                let (args, env, dir) = (args()?, pairs("env")?, text("cwd")?);
                Ok(Spec::Program { command, args, env, dir, inherit_env })
            }
            (None, Some(url), _) if http => Ok(Spec::Url { url, headers: pairs("headers")? }),
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
            Spec::Program { command, args, env, dir, inherit_env } => {
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
            Spec::Url { url, headers } => {
                let mut endpoint = crate::Endpoint::new(url);
                for (name, value) in headers {
                    endpoint = endpoint.header(name, value);
                }
                Ok(Upstream::url(endpoint))
            }
            #[cfg(not(feature = "http-client"))]
            Spec::Url { url, headers: _ } => {
                Err(bad(format!("cannot connect to {url}: built without the feature http-client")))
            }
        }
    }
}

fn bad(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, why)
}

/// Replaces `${NAME}`, `${env:NAME}` and `${NAME:-default}`.
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
        let name = name.strip_prefix("env:").unwrap_or(name);
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
