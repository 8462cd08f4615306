//! Connection to a server: a program that is started, or a URL.
//!
//! The standard error of the program is passed through. The lint reads all pages of the list of
//! tools and closes the connection; it calls no tool.
//!
//! Invariant: the catalog holds the descriptions as the server sent them, byte for byte.

use tinymcp::json::Writer;
use tinymcp::{Client, ClientBuilder, Endpoint, Error, Limits};

use super::Fault;
use super::args::Asked;
#[cfg(unix)]
use super::signals;

/// The client builder with the options.
pub(crate) fn builder(asked: &Asked) -> Result<ClientBuilder, Fault> {
    let mut client = Client::builder("tinymcp", env!("CARGO_PKG_VERSION"));
    if let Some(era) = asked.era {
        client = client.era(era);
    }
    if let Some(timeout) = asked.timeout {
        let mut limits = Limits::from_env().map_err(|e| e.to_string())?;
        limits.call_timeout = timeout;
        limits.probe_timeout = limits.probe_timeout.min(timeout);
        limits.connect_timeout = limits.connect_timeout.min(timeout);
        client = client.limits(limits);
    }
    Ok(client)
}

/// Connects to the server. Errors begin with its label.
pub(crate) fn connect(client: ClientBuilder, asked: &Asked) -> Result<Client, Fault> {
    if asked.url.is_none() && !asked.headers.is_empty() {
        return Err("--header requires --url".to_owned());
    }
    #[cfg(unix)]
    let client = signals::end(client)?;
    let connected = match (&asked.command, &asked.url) {
        (Some(words), None) => spawn(client, words),
        (None, Some(url)) => {
            let mut endpoint = Endpoint::new(url);
            for (name, value) in &asked.headers {
                endpoint = endpoint.header(name, value);
            }
            client.connect(endpoint).map_err(|e| e.to_string())
        }
        _ => return Err("expected a server: either --url URL or -- COMMAND [ARG…]".to_owned()),
    };
    connected.map_err(|why| match name(asked) {
        name if name.is_empty() => why,
        name => format!("{name}: {why}"),
    })
}

fn spawn(client: ClientBuilder, words: &[std::ffi::OsString]) -> Result<Client, Fault> {
    let Some((program, args)) = words.split_first() else {
        return Err("expected a command after --".to_owned());
    };
    let mut command = std::process::Command::new(program);
    command.args(args);
    // The user typed this command: it gets what the shell would give it.
    client.inherit_env(true).spawn(command).map_err(|e| e.to_string())
}

/// Label of the server.
pub(crate) fn name(asked: &Asked) -> String {
    let program = asked.command.as_ref().and_then(|words| words.first());
    program.map_or_else(|| asked.url.clone().unwrap_or_default(), |p| p.to_string_lossy().into_owned())
}

/// The tools of the server as a catalog, and its label.
pub(crate) fn catalog(asked: &Asked) -> Result<(String, String), Fault> {
    let client = connect(builder(asked)?, asked)?;
    let catalog = tools(&client).map_err(|e| format!("{}: {e}", name(asked)))?;
    Ok((name(asked), catalog))
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
