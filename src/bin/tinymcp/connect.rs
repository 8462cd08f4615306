//! Connection to a server: a program that is started, or a URL.
//!
//! The standard error of the program is passed through. The lint reads all pages of the list of
//! tools and closes the connection; it calls no tool.
//!
//! Invariant: the catalog holds the descriptions as the server sent them, byte for byte.

use tinymcp::json::Writer;
use tinymcp::{Client, ClientBuilder, Endpoint, Error, Limits};

use super::Result;
use super::args::Args;
#[cfg(unix)]
use super::signals;

/// Returns a client builder with the options.
pub(crate) fn builder(args: &Args) -> Result<ClientBuilder> {
    let mut client = Client::builder("tinymcp", env!("CARGO_PKG_VERSION"));
    if let Some(era) = args.era {
        client = client.era(era);
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
    if args.url.is_none() && !args.headers.is_empty() {
        return Err("--header requires --url".to_owned());
    }
    #[cfg(unix)]
    let client = signals::install(client)?;
    let connected = match (&args.command, &args.url) {
        (Some(words), None) => spawn(client, words),
        (None, Some(url)) => {
            let mut endpoint = Endpoint::new(url);
            for (name, value) in &args.headers {
                endpoint = endpoint.header(name, value);
            }
            client.connect(endpoint).map_err(|e| e.to_string())
        }
        _ => return Err("expected a server: either --url URL or -- COMMAND [ARG…]".to_owned()),
    };
    connected.map_err(|why| match name(args) {
        name if name.is_empty() => why,
        name => format!("{name}: {why}"),
    })
}

fn spawn(client: ClientBuilder, words: &[std::ffi::OsString]) -> Result<Client> {
    let Some((program, rest)) = words.split_first() else {
        return Err("expected a command after --".to_owned());
    };
    let mut command = std::process::Command::new(program);
    command.args(rest);
    // The user started this command, so it inherits the environment, as in a shell.
    client.inherit_env(true).spawn(command).map_err(|e| e.to_string())
}

/// Label of the server: its program or URL.
pub(crate) fn name(args: &Args) -> String {
    let program = args.command.as_ref().and_then(|words| words.first());
    program.map_or_else(|| args.url.clone().unwrap_or_default(), |p| p.to_string_lossy().into_owned())
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
