//! Connection to a server: a program that is started, or a URL.
//!
//! The standard error of the program is passed through. The lint reads all pages of the list of
//! tools and closes the connection; it calls no tool.
//!
//! Invariant: the catalog holds the descriptions as the server sent them, byte for byte.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use tinymcp::json::Writer;
use tinymcp::{Client, ClientBuilder, Config, Endpoint, Error, Limits, stderr};

use super::args::Args;
#[cfg(unix)]
use super::signals;
use crate::Result;
use crate::escape::plain;

/// Returns a client builder with the options.
pub(crate) fn builder(args: &Args) -> Result<ClientBuilder> {
    let mut client = Client::builder("tinymcp", env!("CARGO_PKG_VERSION"));
    if let Some(protocol) = args.protocol {
        client = client.protocol(protocol);
    }
    if let Some(timeout) = args.timeout {
        let mut limits = Limits::from_env().map_err(|e| e.to_string())?;
        limits.call_timeout = timeout;
        limits.probe_timeout = limits.probe_timeout.min(timeout);
        limits.connect_timeout = limits.connect_timeout.min(timeout);
        client = client.limits(limits);
    }
    Ok(client)
}

/// Connects to the server. Errors begin with its label.
pub(crate) fn connect(client: ClientBuilder, args: &Args) -> Result<Client> {
    if args.server.is_none() && args.config.is_some() {
        return Err("--config requires --server KEY".to_owned());
    }
    if args.url.is_none() && !args.headers.is_empty() {
        return Err("--header requires --url".to_owned());
    }
    #[cfg(unix)]
    let client = signals::install(client)?;
    let connected = match (&args.command, &args.url, &args.server) {
        (Some(words), None, None) => spawn(client, words),
        (None, None, Some(key)) => return configured(client, key, args.config.clone()),
        (None, Some(url), None) => {
            let mut endpoint = Endpoint::new(url);
            for (name, value) in &args.headers {
                endpoint = endpoint.header(name, value);
            }
            client.connect(endpoint).map_err(|e| e.to_string())
        }
        _ => return Err("expected a server: either --url URL, --server KEY or -- COMMAND [ARG…]".to_owned()),
    };
    connected.map_err(|why| {
        let is_refused = why.contains("status 401");
        let cure = if is_refused { "; use --header \"Authorization: Bearer TOKEN\"" } else { "" };
        match name(args) {
            name if name.is_empty() => format!("{why}{cure}"),
            name => format!("{name}: {why}{cure}"),
        }
    })
}

/// Connects to the server with this key in the file, or in the first file that exists.
fn configured(client: ClientBuilder, key: &str, file: Option<PathBuf>) -> Result<Client> {
    let given = file.is_some();
    let file = file
        .or_else(crate::discovery::find)
        .ok_or_else(|| format!("--server {key} requires --config FILE: no configuration file was found"))?;
    let refusal = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let text = std::fs::read_to_string(&file).map_err(|error| refusal(&error))?;
    let config = Config::parse(&text).map_err(|error| refusal(&error))?;
    let keys = config.keys().collect::<Vec<_>>().join(", ");
    let found = config.into_upstreams().into_iter().find(|(known, _)| known == key);
    let Some((_, upstream)) = found else {
        return Err(refusal(&format_args!("no server {key:?}; expected one of: {keys}")));
    };
    let upstream = upstream.map_err(|error| refusal(&error))?;
    if !given {
        stderr::write(format!("tinymcp: using the server of {}\n", plain(&file.display().to_string())));
    }
    upstream.connect(client).map_err(|error| format!("{key}: {error}"))
}

fn spawn(client: ClientBuilder, words: &[OsString]) -> Result<Client> {
    let Some((program, rest)) = words.split_first() else {
        return Err("expected a command after --".to_owned());
    };
    let mut command = std::process::Command::new(program);
    command.args(rest);
    // The user started this command, so it inherits the environment, as in a shell.
    client.inherit_env(true).spawn(command).map_err(|e| e.to_string())
}

/// Label of the server: its URL or program; for an interpreter or a package runner, the script or
/// package directly after it, as in `tinymcp serve FILE`, `node server.js`, `npx -y NAME` or
/// `uv run NAME`.
pub(crate) fn name(args: &Args) -> String {
    let Some((program, rest)) = args.command.as_ref().and_then(|words| words.split_first()) else {
        return args.url.clone().or_else(|| args.server.clone()).unwrap_or_default();
    };
    // Other options may have values, which can be secrets or code.
    let skipped = |word: &&OsString| *word == "run" || *word == "serve" || *word == "-y" || *word == "--yes";
    let script = rest.iter().find(|word| !skipped(word));
    let script = script.filter(|word| is_runner(program) && !word.as_encoded_bytes().starts_with(b"-"));
    script.unwrap_or(program).to_string_lossy().into_owned()
}

/// Returns whether this program runs the script or package that the next word names.
fn is_runner(program: &OsStr) -> bool {
    const RUNNERS: [&str; 10] =
        ["tinymcp", "node", "npx", "bun", "deno", "uv", "uvx", "pipx", "ruby", "python"];
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    // `python3.11` is a runner, too.
    RUNNERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

/// Returns the label of the server and the catalog of its tools.
pub(crate) fn catalog(args: &Args) -> Result<(String, String)> {
    let client = connect(builder(args)?, args)?;
    let catalog = tools(&client).map_err(|e| format!("{}: {e}", name(args)))?;
    Ok((name(args), catalog))
}

fn tools(client: &Client) -> Result<String, Error> {
    let mut w = Writer::new();
    w.begin_object().key("tools").begin_array();
    for tool in &client.tools()? {
        if let Some(source) = &tool.source {
            w.json(source);
        }
    }
    w.end_array().end_object().newline();
    Ok(w.as_str().to_owned())
}
