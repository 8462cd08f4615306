//! Connection to a server: a program that is started, or a URL.
//!
//! The standard error of the program is passed through, to a terminal without control characters.
//! The lint reads all pages of the list of tools and closes the connection; it calls no tool.
//!
//! Invariant: the catalog holds the descriptions as the server sent them, byte for byte.

#[cfg(unix)]
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::{Path, is_separator};
use std::process::Command;

use tinymcp::json::Writer;
use tinymcp::{Client, ClientBuilder, Config, Endpoint, Error, Limits, Root, Upstream, stderr};

use super::args::Args;
use super::failure::{Failure, Result, SIGN_IN};
#[cfg(unix)]
use super::signals;
use super::{ask, frames, print};
use crate::credentials;
use crate::escape::{one_line, plain};
use crate::shell_words::quoted;

/// Returns a client builder with the options.
pub(crate) fn builder(args: &Args) -> Result<ClientBuilder> {
    let mut client = Client::builder("tinymcp", env!("CARGO_PKG_VERSION"));
    if let Some(protocol) = args.protocol {
        client = client.protocol(protocol);
    }
    if let Some(timeout) = args.timeout {
        let mut limits = Limits::from_env().map_err(|e| e.to_string())?;
        limits.client.call_timeout = timeout;
        limits.client.probe_timeout = limits.client.probe_timeout.min(timeout);
        limits.http_client.connect_timeout = limits.http_client.connect_timeout.min(timeout);
        // A server that does not respond may not exit by itself either.
        limits.client.child_exit = limits.client.child_exit.min(timeout / 4);
        client = client.limits(limits);
    }
    Ok(client)
}

/// Connects to the server. Errors begin with its label.
pub(crate) fn connect(client: ClientBuilder, args: &Args) -> Result<Client> {
    if args.server.key.is_none() && args.server.config.is_some() {
        return Err("--config requires --server KEY".into());
    }
    let given = [args.server.command.is_some(), args.server.url.is_some(), args.server.key.is_some()];
    if given.iter().filter(|is_given| **is_given).count() > 1 {
        return Err(
            "more than one server is given: --url URL, --server KEY and -- COMMAND exclude each other".into(),
        );
    }
    let is_authorization = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("authorization");
    if args.server.headers.iter().filter(is_authorization).count() > 1 {
        return Err("more than one Authorization header is given, by --bearer or --header".into());
    }
    if args.server.url.is_none() && !args.server.headers.is_empty() {
        return Err("--header, --bearer and --bearer-file require --url".into());
    }
    if args.server.command.is_none() && !(args.server.env.is_empty() && args.server.cwd.is_none()) {
        return Err("--env and --cwd require -- COMMAND".into());
    }
    #[cfg(unix)]
    let client = signals::install(client)?;
    let client = ask::install(client, args);
    let client = if args.questions.roots.is_empty() { client } else { client.roots(roots(args)?) };
    let client = if io::stderr().is_terminal() { client.on_stderr(tagged(args)) } else { client };
    let connected = match (&args.server.command, &args.server.url, &args.server.key) {
        (Some(words), None, None) => spawn(frames::show(client, args, &[]), args, words)?,
        (None, None, Some(key)) => configured(client, args, key)?,
        (None, Some(url), None) => {
            let mut endpoint = Endpoint::new(url);
            for (name, value) in &args.server.headers {
                endpoint = endpoint.header(name, value);
            }
            if !args.server.headers.iter().any(|header| is_authorization(&header)) {
                endpoint = credentials::add(credentials::host(url), endpoint);
            }
            let endpoint = args.server.network.clone().with_variables()?.apply(endpoint);
            frames::show(client, args, &[]).connect(endpoint)
        }
        _ => return Err("expected a server: either URL, --server KEY or -- COMMAND [ARG...]".into()),
    };
    connected.map_err(|why| failure(args, &why))
}

/// Returns the failure to connect, with the cure for credentials that were rejected.
fn failure(args: &Args, why: &Error) -> Failure {
    let (label, key) = (name(args), args.server.key.as_deref());
    let mut failure = match (key, &args.server.config) {
        (Some(key), Some(file)) => {
            let server = format!("--server {} --config {}", quoted(key), quoted(&file.to_string_lossy()));
            Failure::of_start(&label, &server, why)
        }
        _ => Failure::of_connection(&label, why),
    };
    let url = args.server.url.as_deref();
    if let Some(server) = key.or_else(|| url.map(credentials::host)) {
        let is_used = args.server.headers.is_empty() && credentials::token(server).is_some();
        if failure.status == SIGN_IN && is_used {
            let variable = credentials::variable(server);
            failure.message.push_str(&format!("; the token of {variable} was rejected, unset it for others"));
        }
    }
    failure
}

/// Returns a function that prints lines of the server's standard error at a terminal.
fn tagged(args: &Args) -> impl Fn(&str) + Send + Sync + 'static {
    let tag = one_line(&name(args));
    move |line| print::note(&one_line(&format!("{tag}: {line}")))
}

/// Returns the folders of `--root`.
fn roots(args: &Args) -> Result<Vec<Root>> {
    let folders = args.questions.roots.iter().map(|folder| {
        let found = folder.canonicalize().map_err(|e| format!("--root: {}: {e}", folder.display()))?;
        Ok(Root::new(file_uri(&found)))
    });
    folders.collect()
}

/// Returns the URI of a canonical path (RFC 8089). On Windows such a path begins with `\\?\C:\` or
/// with `\\?\UNC\HOST\`.
fn file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    let mut path = path.as_os_str().as_encoded_bytes();
    if let Some(on_host) = path.strip_prefix(br"\\?\UNC\") {
        path = on_host;
    } else if let Some(on_drive) = path.strip_prefix(br"\\?\") {
        uri.push('/');
        path = on_drive;
    }
    for byte in path {
        match byte {
            byte if is_separator(char::from(*byte)) => uri.push('/'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                uri.push(char::from(*byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Connects to the server with this key in the given file, or in the first file that exists.
fn configured(client: ClientBuilder, args: &Args, key: &str) -> Result<Result<Client, Error>> {
    let network = args.server.network.clone().with_variables()?;
    let add = |server: &str, endpoint| network.apply(credentials::add(server, endpoint));
    let upstream = upstream(args, key, &add)?;
    Ok(upstream.connect(frames::show(client, args, &upstream.secrets())))
}

/// Returns the URL of the server with this key.
#[cfg(unix)]
pub(crate) fn configured_url(args: &Args, key: &str) -> Result<Endpoint> {
    let found = RefCell::new(None);
    upstream(args, key, &|_, endpoint| {
        *found.borrow_mut() = Some(endpoint.clone());
        endpoint
    })?;
    found
        .into_inner()
        .ok_or_else(|| format!("the server {key:?} is a program; only URLs have a sign-in").into())
}

/// Returns the server with this key, in the file or for a hub. Its URL passes through a function.
fn upstream(args: &Args, key: &str, change: &dyn Fn(&str, Endpoint) -> Endpoint) -> Result<Upstream> {
    let file = args.server.config.clone();
    let given = file.is_some();
    let file = file.or_else(crate::discovery::find).ok_or_else(|| {
        format!(
            "no configuration file has the server {key:?}: write --config FILE, or give the server by \
                 --url URL or -- COMMAND"
        )
    })?;
    let refusal = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let text = read_configuration(&file).map_err(|error| refusal(&error))?;
    let config = Config::parse(&text).map_err(|error| refusal(&error))?;
    let keys = config.keys().collect::<Vec<_>>().join(", ");
    let wanted = config.key_of(key).map(str::to_owned);
    let is_wanted = |server: &str| wanted.as_deref() == Some(server);
    let change = |server: &str, endpoint| if is_wanted(server) { change(server, endpoint) } else { endpoint };
    let found = config.into_upstreams_with_endpoints(change).into_iter().find(|(key, _)| is_wanted(key));
    let Some((_, upstream)) = found else {
        return Err(refusal(&format_args!("no server {key:?}; expected one of: {keys}")).into());
    };
    let upstream = upstream.map_err(|error| refusal(&error))?;
    if !given && !args.has("quiet") {
        stderr::write(format!("tinymcp: using the server of {}\n", plain(&file.display().to_string())));
    }
    Ok(upstream)
}

/// Reads a configuration file. Only a regular file: a pipe or a device could block forever.
pub(crate) fn read_configuration(file: &Path) -> io::Result<String> {
    #[cfg(unix)]
    let opened = crate::serve::open(file);
    #[cfg(not(unix))]
    let opened = std::fs::File::open(file);
    opened.and_then(io::read_to_string)
}

fn spawn(client: ClientBuilder, args: &Args, words: &[OsString]) -> Result<Result<Client, Error>> {
    // The user started this command, so it inherits the environment, as in a shell.
    Ok(client.inherit_env(true).spawn(command(args, words)?))
}

/// Returns the command with its variables and its folder.
pub(crate) fn command(args: &Args, words: &[OsString]) -> Result<Command> {
    let Some((program, rest)) = words.split_first() else {
        return Err("expected a command after --".into());
    };
    let mut command = Command::new(program);
    command.args(rest).envs(args.server.env.iter().map(|(name, value)| (name, value)));
    if let Some(folder) = &args.server.cwd {
        if !folder.is_dir() {
            return Err(format!("--cwd: {} is not a folder", folder.display()).into());
        }
        command.current_dir(folder);
    }
    Ok(command)
}

/// Label of the server: its URL or program; for an interpreter or a package runner, the script or
/// package directly after it, as in `tinymcp serve FILE`, `node server.js`, `npx -y NAME` or
/// `uv run NAME`.
pub(crate) fn name(args: &Args) -> String {
    let Some((program, rest)) = args.server.command.as_ref().and_then(|words| words.split_first()) else {
        let url = args.server.url.as_deref().map(credentials::shown);
        return url.or_else(|| args.server.key.clone()).unwrap_or_default();
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
    let name = Path::new(program).file_stem().unwrap_or_default().to_string_lossy();
    // `python3.11` and `npx.cmd` are runners, too.
    RUNNERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

/// Returns the label of the server and the catalog of its tools.
pub(crate) fn catalog(args: &Args) -> Result<(String, String)> {
    let client = connect(builder(args)?, args)?;
    let catalog = tools(&client).map_err(|error| Failure::of_request(&name(args), &error))?;
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
