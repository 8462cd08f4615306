//! Program or URL of a server in a configuration.

use std::path::{Path, is_separator};
use std::process::Command;

use super::variables::{env_file, expand};
use super::{member, members, repeated};
use crate::Upstream;
use crate::error::Error;
use crate::json::{Kind, Value};

#[cfg(feature = "http-client")]
pub(super) use crate::Endpoint;

/// Types of a server over HTTP.
const HTTP: [&str; 5] = ["http", "streamable-http", "streamable_http", "streamableHttp", "sse"];

/// The way to reach a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Address {
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

impl Address {
    pub(super) fn read(
        value: Value<'_>,
        look_up: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Address, String> {
        let text = |name: &str| match member(value, name) {
            None => Ok(None),
            Some(v) => match v.as_str() {
                Some(text) => expand(text, look_up).map(Some),
                None if name == "command" => {
                    Err("`command` must be a string: put its arguments into `args`".to_owned())
                }
                None => Err(format!("`{name}` must be a string")),
            },
        };
        let args = || -> Result<Vec<String>, String> {
            let Some(array) = member(value, "args") else { return Ok(Vec::new()) };
            if array.kind() != Kind::Array {
                return Err("`args` must be an array".to_owned());
            }
            array
                .items()
                .map(|v| expand(v.as_str().ok_or("every element of `args` must be a string")?, look_up))
                .collect()
        };
        let inherit_env = match member(value, "inheritEnv").map(Value::as_bool) {
            None => false,
            Some(Some(inherit)) => inherit,
            Some(None) => return Err("`inheritEnv` must be true or false".to_owned()),
        };
        let kind = text("type")?.or(text("transport")?).or(text("transportType")?);
        let http = kind.as_deref().is_none_or(|kind| HTTP.contains(&kind));
        match (text("command")?, text("url")?, kind.as_deref()) {
            (Some(command), None, None | Some("stdio")) if has_arguments(&command) => {
                Err(format!("no program {command:?}: put the arguments into `args`"))
            }
            (Some(command), None, None | Some("stdio")) => {
                let (args, dir) = (args()?, text("cwd")?);
                // Later variables override earlier ones.
                let mut env = text("envFile")?.map_or(Ok(Vec::new()), |path| env_file(&path))?;
                env.extend(pairs(value, "env", look_up)?);
                Ok(Address::Program { command, args, env, dir, inherit_env })
            }
            (None, Some(url), _) if http => {
                Ok(Address::Url { url, headers: pairs(value, "headers", look_up)? })
            }
            (Some(_), Some(_), _) => Err("has both `command` and `url`".to_owned()),
            (None, None, _) => {
                let other = ["serverUrl", "httpUrl"].into_iter().find(|name| member(value, name).is_some());
                Err(other.map_or("needs `command` or `url`".to_owned(), |other| {
                    format!("unknown member `{other}`: use `url`")
                }))
            }
            (Some(_), None, Some(kind)) => Err(format!("`command` requires the type stdio, got {kind:?}")),
            (None, Some(_), kind) => {
                let kind = kind.unwrap_or_default();
                Err(format!("`url` requires the type http, streamable-http or sse, got {kind:?}"))
            }
        }
    }

    pub(super) fn into_upstream(
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
                Err(super::invalid(format!("cannot connect to {url}: built without the feature http-client")))
            }
        }
    }
}

/// Reads variables or headers.
fn pairs(
    server: Value<'_>,
    name: &str,
    look_up: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String)>, String> {
    let Some(object) = member(server, name) else { return Ok(Vec::new()) };
    if object.kind() != Kind::Object {
        return Err(format!("`{name}` must be an object"));
    }
    if let Some(key) = repeated(object) {
        return Err(format!("`{name}.{key}` appears twice"));
    }
    let pairs = members(object).map(|(key, v)| {
        let as_text = matches!(v.kind(), Kind::Number | Kind::Bool).then(|| v.raw());
        let text = v.as_str().or(as_text);
        let text = text.ok_or_else(|| format!("`{name}.{key}` must be a string"))?;
        Ok((key.to_owned(), expand(text, look_up)?))
    });
    pairs.collect()
}

/// Returns whether a command is not a program, but a program with arguments.
fn has_arguments(command: &str) -> bool {
    let Some((first, _)) = command.split_once(char::is_whitespace) else { return false };
    let in_path = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    };
    // Windows adds `.exe`.
    let exists = |name: &str| {
        [name.to_owned(), format!("{name}.exe")].iter().any(|name| match name.contains(is_separator) {
            true => Path::new(name).is_file(),
            false => in_path(name),
        })
    };
    !exists(command) && (!first.contains(is_separator) || exists(first))
}

/// Placeholder for the URL of a server in a build without clients of URLs.
#[cfg(not(feature = "http-client"))]
pub(super) struct Endpoint;
