//! Command `proxy`: servers over another transport, in every revision, and many as one.
//!
//! ```text
//! clients ─ stdio | HTTP ─► Server ─ exported Hub ─► servers: program | URL | mcpServers file
//! ```
//!
//! One server keeps the names of its tools; those of a configuration file begin with its key. The
//! hub does the work: revisions, restarts, one process of each server for all clients.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tinymcp::{Endpoint, Error, Hub, HubBuilder, Limits, Server, ServerState, Status, Upstream, stderr};

mod aliases;
mod configured;
mod description;
mod monitor;
mod options;
mod own_endpoints;
mod per_client;
mod shell_words;
mod traffic;

use configured::{Configured, Reload};
use options::Options;
use own_endpoints::OwnEndpoints;
use per_client::PerClient;
use traffic::{FindServer, Traffic};

use crate::http;
use crate::serve::{lock, log, spawn};
use crate::{Result, out};

/// Help of the command.
pub(crate) const HELP: &str = include_str!("help.txt");

/// Time that the first client's lists wait for servers: many hosts request lists only once.
const START: Duration = Duration::from_secs(5);
/// Time that a start waits for servers whose names may clash.
const NAMES_KNOWN: Duration = Duration::from_secs(30);
/// Pause after which servers that are down are started again.
const AGAIN: Duration = Duration::from_secs(60);
/// Stack of the thread that does it.
const STACK: usize = 64 << 10;
/// Characters of the longest key.
const LONGEST_KEY: usize = 32;

/// Runs `tinymcp proxy` with these arguments.
pub(crate) fn run(args: Vec<OsString>) -> Result<u8> {
    let options = Arc::new(Options::parse(args, crate::discovery::find)?);
    if options.help {
        return out(HELP.as_bytes()).map(|()| 0);
    }
    for note in &options.from_aliases.notes {
        log(note);
    }
    let opened = traffic::open(&options)?;
    let traffic = opened.as_ref().map(|(traffic, _)| traffic.clone());
    let (hub, server) = export(&options, traffic.as_ref()).map_err(|error| error.to_string())?;
    if let Some((_, logs)) = opened {
        logs.start(find_server(&hub))?;
    }
    let served = serve(&options, &hub, server, traffic.as_ref());
    if let Some(traffic) = traffic {
        traffic.flush();
    }
    served.map(|()| 0)
}

/// Adds the servers and serves them until the input ends or a signal arrives.
fn serve(options: &Arc<Options>, hub: &Hub, server: Server, traffic: Option<&Traffic>) -> Result<()> {
    let mut reload = Reload::new(options, traffic)?;
    match &options.config {
        Some(file) => {
            let mut configured = Configured::new(hub, file.clone(), options, traffic);
            configured.load()?;
            reload.configured = Some(configured);
        }
        None => {
            for (key, upstream) in own_servers(options) {
                if let Some(traffic) = traffic {
                    traffic.hide(upstream.secrets());
                }
                if let Err(error) = hub.add(key, upstream) {
                    log(&error.to_string());
                }
            }
        }
    }
    if hub.servers().is_empty() {
        return Err("no server can be used".to_owned());
    }
    keep_trying(hub)?;
    let unprefixed = options.has_several() && options.prefix.is_some();
    monitor::serve(options, hub)?;
    match &options.http {
        None => {
            let (hub, traffic) = (hub.clone(), traffic.cloned());
            std::thread::spawn(move || match clash(&hub, unprefixed) {
                None => report_start(&hub),
                // The client sees the end of the server's output.
                Some(clash) => {
                    log(&clash);
                    if let Some(traffic) = traffic {
                        traffic.flush();
                    }
                    stderr::flush();
                    std::process::exit(2);
                }
            });
            reload.start()?;
            server.serve_stdio().map_err(|error| error.to_string())?;
        }
        Some(address) => {
            if let Some(clash) = clash(hub, unprefixed) {
                return Err(clash);
            }
            report_start(hub);
            serve_http(options, address, hub, server, traffic, reload)?;
        }
    }
    Ok(())
}

fn serve_http(
    options: &Arc<Options>,
    address: &str,
    hub: &Hub,
    mut server: Server,
    traffic: Option<&Traffic>,
    mut reload: Reload,
) -> Result<()> {
    description::describe(&mut server, &hub.servers());
    let (http, tokens) = http::configure(server, &options.settings)?;
    let mut http = match options.pages.address {
        None => monitor::add_pages(http, &options.pages, hub),
        Some(_) => http,
    };
    if let Some(traffic) = traffic.filter(|_| options.logs.access.is_some()) {
        http = http.on_rejection(traffic.of_rejections());
    }
    let in_use = reload.configured.as_ref().map(Configured::in_use);
    let per_client = options.per_client.then(|| Arc::new(PerClient::new(options, traffic, hub, in_use)));
    if let Some(per_client) = per_client.clone() {
        http = http.per_session(move || per_client.make(None));
    }
    if options.has_several() {
        let mut own = OwnEndpoints::new(hub, http.mounts(), traffic, per_client);
        own.add_new();
        log(&format!("each server alone: {}", own_endpoints::path("NAME")));
        if let Some(configured) = &mut reload.configured {
            configured.own_endpoints = Some(own);
        }
    }
    let has_tokens = tokens.is_some();
    reload.tokens = tokens;
    reload.start()?;
    http::serve(http, address, options.from_aliases.path.as_deref(), has_tokens)
}

fn export(options: &Options, traffic: Option<&Traffic>) -> std::result::Result<(Hub, Server), Error> {
    let again = format!("will retry every {} s", AGAIN.as_secs());
    let mut hub = builder(options, traffic).on_status(reporter(again));
    if options.http.is_none() {
        // There is one client, so the servers are offered that client's capabilities.
        hub = hub.wait_for_client(START).instructions(description::instructions);
    }
    let hub = hub.build()?;
    let mut server = Server::new("tinymcp", env!("CARGO_PKG_VERSION"));
    if let Some(traffic) = traffic {
        server.on_frame(traffic.of_clients(None));
    }
    hub.export(&mut server)?;
    if let Some(time) = options.from_aliases.session_timeout {
        let mut limits = Limits::from_env()?;
        limits.http.session_timeout = time;
        server.limits(limits);
    }
    Ok((hub, server))
}

fn builder(options: &Options, traffic: Option<&Traffic>) -> HubBuilder {
    let mut hub = Hub::builder("tinymcp", env!("CARGO_PKG_VERSION")).pass_trace();
    if options.tools.lazy {
        hub = hub.lazy_tools();
    }
    match traffic.and_then(Traffic::of_servers) {
        Some(observe) => hub.on_frame(observe),
        None => hub,
    }
}

/// Finds the server of a request for the access log.
fn find_server(hub: &Hub) -> FindServer {
    let hub = hub.clone();
    Box::new(move |method, name| match method {
        "tools/call" => hub.server_of_tool(name),
        "prompts/get" => hub.server_of_prompt(name),
        "completion/complete" => hub.server_of_prompt(name).or_else(|| hub.server_of_resource(name)),
        _ => hub.server_of_resource(name),
    })
}

/// The servers that the command line describes, each with its key.
fn own_servers(options: &Options) -> Vec<(String, Upstream)> {
    let settings = &options.from_aliases;
    if settings.named.is_empty() {
        return vec![only_server(options)];
    }
    let named = settings.named.iter().map(|(key, words)| {
        let upstream = program(words, &[], None).inherit_env(settings.inherit_env == Some(true));
        let upstream = if options.prefix.is_some() { upstream.prefix("") } else { upstream };
        (key.clone(), timeout(upstream, options))
    });
    named.collect()
}

/// The server of `--url` or of the program behind `--`, and its key.
fn only_server(options: &Options) -> (String, Upstream) {
    let (key, mut upstream) = match &options.url {
        Some(url) => {
            let mut endpoint = Endpoint::new(url);
            for (name, value) in &options.headers {
                endpoint = endpoint.header(name, value);
            }
            (key(host(url)), Upstream::url(endpoint))
        }
        None => {
            let command = &options.command;
            let name = command.first().map(|program| Path::new(program).file_name().unwrap_or(program));
            let key = key(&name.unwrap_or_default().to_string_lossy());
            let settings = &options.from_aliases;
            let upstream = program(command, &settings.env, settings.cwd.as_deref());
            // The user started this command, so it inherits the environment, as in a shell.
            (key, upstream.inherit_env(settings.inherit_env.unwrap_or(true)))
        }
    };
    let prefix = options.prefix.as_deref().filter(|prefix| *prefix != "none");
    upstream = upstream.prefix(prefix.unwrap_or_default());
    upstream = options.tools.allow.iter().fold(upstream, |upstream, pattern| upstream.allow_tools(pattern));
    upstream = options.tools.deny.iter().fold(upstream, |upstream, pattern| upstream.deny_tools(pattern));
    upstream =
        options.tools.rename.iter().fold(upstream, |upstream, (old, new)| upstream.rename_tool(old, new));
    (key, timeout(upstream, options))
}

/// A program with these words, variables and working directory.
fn program(words: &[OsString], env: &[(OsString, OsString)], cwd: Option<&Path>) -> Upstream {
    let (words, env, cwd) = (words.to_vec(), env.to_vec(), cwd.map(Path::to_owned));
    Upstream::command(move || {
        let mut words = words.iter();
        let mut program = Command::new(words.next().map_or("".as_ref(), OsString::as_os_str));
        program.args(words).envs(env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &cwd {
            program.current_dir(folder);
        }
        program
    })
}

fn timeout(upstream: Upstream, options: &Options) -> Upstream {
    match options.timeout {
        Some(time) => upstream.call_timeout(time),
        None => upstream,
    }
}

/// Host and port of a URL. The rest may contain secrets, and a key is public.
fn host(url: &str) -> &str {
    let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
    let authority = behind.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// A key with the characters that a hub allows.
fn key(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let key: String = name.chars().map(allowed).take(LONGEST_KEY).collect();
    if key.is_empty() { "server".to_owned() } else { key }
}

/// Waits for the servers; returns an error if two of them offer one name without a prefix.
fn clash(hub: &Hub, unprefixed: bool) -> Option<String> {
    if !unprefixed {
        return None;
    }
    hub.wait_settled(Instant::now() + NAMES_KNOWN);
    let clashes = hub.skipped().into_iter().find_map(|skipped| {
        let name = skipped.name.filter(|name| !name.contains("://"))?;
        Some(format!("{name:?} is offered by {:?} and by {:?}", skipped.owner?, skipped.server))
    });
    clashes.map(|clash| format!("{clash}; omit --prefix none, or rename or deny it in the file"))
}

/// Waits for the servers and reports those that are late, and tools that cannot be offered.
fn report_start(hub: &Hub) {
    for status in hub.wait_settled(Instant::now() + START) {
        if matches!(status.state, ServerState::Connecting) {
            log(&format!(
                "{}: still connecting after {} s; calls to it wait",
                status.server,
                START.as_secs()
            ));
        }
    }
    for left in hub.skipped() {
        let name = left.name.as_deref().unwrap_or("a list");
        log(&format!("{}: {name} is not offered: {}", left.server, left.error));
    }
}

/// Starts servers that are down again, from time to time, as long as the process runs.
fn keep_trying(hub: &Hub) -> Result<()> {
    let hub = hub.clone();
    let retry = move || loop {
        std::thread::sleep(AGAIN);
        restart_down(&hub);
    };
    let started = spawn("proxy-retry", STACK, Box::new(retry));
    started.map_err(|error| format!("the thread that starts servers again cannot be started: {error}"))
}

/// Starts servers again that could not be started or ended too often: what they need may be
/// available now.
fn restart_down(hub: &Hub) {
    for status in hub.servers() {
        if matches!(status.state, ServerState::Down { again: false, .. }) {
            // OK to drop: the server was removed meanwhile.
            let _ = hub.restart(&status.server);
        }
    }
}

/// Reports that a server connected, or why it did not. A reason that repeats is reported once.
/// `again` describes the next start of a server that is down.
fn reporter(again: impl Into<String>) -> impl Fn(&Status) {
    let again = again.into();
    let last = Mutex::new(BTreeMap::new());
    move |status| {
        let text = match &status.state {
            ServerState::Running(info) => format!("connected to {} {}", info.name, info.version),
            ServerState::Down { why, again: true, .. } => format!("down, will retry: {why}"),
            ServerState::Down { why, .. } => format!("down, {again}: {why}"),
            _ => return,
        };
        if lock(&last).insert(status.server.clone(), text.clone()).as_ref() != Some(&text) {
            log(&format!("{}: {text}", status.server));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicBool, Ordering};

    use tinymcp::memory_links;

    use super::*;

    #[test]
    fn a_key_has_only_the_host_of_a_url() {
        for (url, expected) in [
            ("http://user:secret@board.local:8080/mcp?key=secret", "board.local_8080"),
            ("https://h?secret", "h"),
            ("https://h#secret", "h"),
            ("board:1/secret", "board_1"),
            ("http:///secret", "server"),
        ] {
            assert_eq!(key(host(url)), expected, "{url}");
        }
    }

    #[test]
    fn a_server_that_could_not_be_started_is_started_again() {
        let hub = Hub::builder("x", "1").build().unwrap();
        let is_first = AtomicBool::new(true);
        let upstream = Upstream::with(move |client| {
            let (ours, theirs) = memory_links();
            match is_first.swap(false, Ordering::Relaxed) {
                true => drop(theirs),
                false => drop(std::thread::spawn(move || Server::new("a", "1").serve(theirs))),
            }
            client.over(ours)
        });
        hub.add("a", upstream).unwrap();
        let state = || hub.wait_settled(Instant::now() + START).remove(0).state;
        assert!(matches!(state(), ServerState::Down { again: false, .. }));
        restart_down(&hub);
        assert!(matches!(state(), ServerState::Running(_)));
        hub.close();
    }
}
