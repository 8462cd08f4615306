//! The configuration file of agent hosts: `{"mcpServers": {"key": {"command": …}, …}}`.
//!
//! No specification has it, yet every host reads it. What is read: `command`, `args`, `env` and `cwd`
//! of a program; `url` and `headers` of a server that is reached over HTTP; `type` (or `transport`),
//! which must fit; `disabled`. Other members belong to one host or another and are ignored.
//! `${NAME}` and `${NAME:-default}` in these texts stand for the environment of this process.

use std::process::Command;

use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Kind, Value};

use super::{Upstream, check_key};

/// The servers of a configuration file, in its order.
#[derive(Debug)]
pub struct Config {
    servers: Vec<(String, Spec)>,
}

#[derive(Clone, Debug)]
enum Spec {
    Program {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        dir: Option<String>,
    },
    Url {
        url: String,
        #[cfg_attr(not(feature = "http-client"), allow(dead_code))] // It is refused then.
        headers: Vec<(String, String)>,
    },
}

impl Config {
    /// Reads the text of a configuration file; also one whose servers stand under `servers`, or at
    /// the top.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] says what cannot be right, and at which server.
    pub fn parse(text: &str) -> Result<Config, Error> {
        Config::with_environment(text, &|name| std::env::var(name).ok())
    }

    /// The same, with an environment of the caller's.
    fn with_environment(text: &str, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Config, Error> {
        let doc = Doc::parse(text.trim_start_matches('\u{feff}'))
            .map_err(|e| bad(format!("the configuration is not JSON: {e}")))?;
        let root = doc.root();
        let named = root.get("mcpServers").or_else(|| root.get("servers"));
        let servers = named.unwrap_or(root);
        // An empty object there says that there are none; an empty file says nothing.
        if servers.kind() != Kind::Object || (named.is_none() && servers.is_empty()) {
            return Err(bad("the configuration has no object `mcpServers`"));
        }
        let mut read = Vec::new();
        for (key, value) in servers.members() {
            check_key(key)?;
            if read.iter().any(|(other, _)| other == key) {
                return Err(bad(format!("server {key:?} stands there twice")));
            }
            if value.get("disabled").and_then(Value::as_bool) == Some(true) {
                continue;
            }
            let spec = Spec::read(value, look_up).map_err(|why| bad(format!("server {key:?}: {why}")))?;
            read.push((key.to_owned(), spec));
        }
        Ok(Config { servers: read })
    }

    /// The keys of the servers, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(key, _)| &**key)
    }

    /// Each server with how it is reached.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when a server has a URL and this program was built without the feature
    /// `http-client`.
    pub fn into_upstreams(self) -> Result<Vec<(String, Upstream)>, Error> {
        self.servers.into_iter().map(|(key, spec)| Ok((key, spec.into_upstream()?))).collect()
    }
}

impl Spec {
    fn read(value: Value<'_>, look_up: &dyn Fn(&str) -> Option<String>) -> Result<Spec, String> {
        if value.kind() != Kind::Object {
            return Err("expected an object".to_owned());
        }
        let text = |name: &str| match value.get(name) {
            None => Ok(None),
            Some(v) => match v.as_str() {
                Some(text) => expand(text, look_up).map(Some),
                None => Err(format!("`{name}` is not a string")),
            },
        };
        let pairs = |name: &str| -> Result<Vec<(String, String)>, String> {
            let Some(object) = value.get(name) else { return Ok(Vec::new()) };
            if object.kind() != Kind::Object {
                return Err(format!("`{name}` is not an object"));
            }
            object
                .members()
                .map(|(key, v)| {
                    let text = v.as_str().ok_or_else(|| format!("`{name}.{key}` is not a string"))?;
                    Ok((key.to_owned(), expand(text, look_up)?))
                })
                .collect()
        };
        let args = || -> Result<Vec<String>, String> {
            let Some(array) = value.get("args") else { return Ok(Vec::new()) };
            if array.kind() != Kind::Array {
                return Err("`args` is not an array".to_owned());
            }
            array
                .items()
                .map(|v| expand(v.as_str().ok_or("an element of `args` is not a string")?, look_up))
                .collect()
        };
        let kind = text("type")?.or(text("transport")?);
        match (text("command")?, text("url")?, kind.as_deref()) {
            (Some(command), None, None | Some("stdio")) => {
                Ok(Spec::Program { command, args: args()?, env: pairs("env")?, dir: text("cwd")? })
            }
            (None, Some(url), None | Some("http" | "streamable-http" | "streamableHttp" | "sse")) => {
                Ok(Spec::Url { url, headers: pairs("headers")? })
            }
            (Some(_), Some(_), _) => Err("`command` and `url` exclude each other".to_owned()),
            (None, None, _) => Err("neither `command` nor `url` is there".to_owned()),
            (_, _, Some(kind)) => Err(format!("type {kind:?} does not fit")),
        }
    }

    fn into_upstream(self) -> Result<Upstream, Error> {
        match self {
            Spec::Program { command, args, env, dir } => Ok(Upstream::command(move || {
                let mut program = Command::new(&command);
                program.args(&args).envs(env.iter().map(|(k, v)| (k, v)));
                if let Some(dir) = &dir {
                    program.current_dir(dir);
                }
                program
            })),
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
                Err(bad(format!("{url} cannot be reached: this program was built without HTTP")))
            }
        }
    }
}

fn bad(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, why)
}

/// Puts the environment's values in their places.
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
        match (look_up(name), default) {
            (Some(value), _) if !value.is_empty() || default.is_none() => expanded.push_str(&value),
            (_, Some(default)) => expanded.push_str(default),
            (_, None) => return Err(format!("the environment has no {name}")),
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}
