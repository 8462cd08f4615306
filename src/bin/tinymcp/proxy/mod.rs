//! Command `proxy`: serves servers over another transport, in every revision, or several as one.
//!
//! ```text
//! clients ─ stdio | HTTP ─► Server ─ exported Hub ─► servers: program | URL | mcpServers file
//! ```
//!
//! A single server keeps the names of its tools; with a configuration file, they begin with the key
//! of their server. The hub handles revisions, restarts, and one process of each server for all
//! clients.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tinymcp::{
    Endpoint, Error, ErrorKind, Hub, HubBuilder, Limits, Server, ServerState, ServerStatus, Upstream, stderr,
};

mod aliases;
mod configured;
mod description;
mod monitor;
mod options;
mod over_http;
mod own_endpoints;
mod per_client;
#[cfg(feature = "cli")]
pub(crate) mod recorded;
mod traffic;

use configured::{Configured, Reload};
use options::Options;
use over_http::OverHttp;
use traffic::{FindServer, Traffic};

use crate::credentials;
use crate::mutex::lock;
use crate::serve::{log, spawn};
use crate::shell_words::quoted;
use crate::{Result, out};

/// Help of the command.
pub(crate) const HELP: &str = include_str!("help.txt");

/// Time that the first client's lists wait for servers, because many hosts request lists only once.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a late server before the report about its entries.
const LATE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for servers whose names may clash, at the start.
const NAMES_KNOWN: Duration = Duration::from_secs(30);
/// Interval at which servers that are down are started again.
const RESTART_INTERVAL: Duration = Duration::from_secs(60);
/// Exit status if the server of `--url` requires a sign-in.
const SIGN_IN: i32 = 3;
/// Stack of the threads that report and retry, in bytes.
const STACK: usize = 64 << 10;

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

/// Adds the servers and serves them until the input ends or a signal arrives. All options are
/// checked before the first server starts.
fn serve(options: &Arc<Options>, hub: &Hub, server: Server, traffic: Option<&Traffic>) -> Result<()> {
    let mut reload = Reload::new(options, traffic)?;
    let configured = |file: &PathBuf| Configured::new(hub, file.clone(), options, traffic);
    reload.configured = options.config.as_ref().map(configured);
    match &options.http {
        None => {
            add_servers(options, hub, traffic, &mut reload)?;
            serve_stdio(options, hub, server, traffic, reload)
        }
        Some(address) => {
            let http = OverHttp::open(options, address, hub, server, traffic, &mut reload)?;
            let started = add_servers(options, hub, traffic, &mut reload);
            started
                .and_then(|()| name_conflict(hub, is_unprefixed(options)).map_or(Ok(()), Err))
                .inspect_err(|_| {
                    // A signal closes the hub, which is not an error of a server.
                    http.wait_for_signal();
                })?;
            report_start(hub, START_TIMEOUT);
            http.serve(options, address, hub, traffic, reload)
        }
    }
}

/// Opens the address of the monitoring pages, starts the servers, then serves the pages.
fn add_servers(options: &Options, hub: &Hub, traffic: Option<&Traffic>, reload: &mut Reload) -> Result<()> {
    let pages = monitor::open(options, hub)?;
    match &mut reload.configured {
        Some(configured) => _ = configured.load()?,
        None => {
            for (key, upstream) in own_servers(options) {
                if let Some(traffic) = traffic {
                    traffic.hide(upstream.secrets().iter().map(String::as_str));
                    traffic.hide(options.url.iter().flat_map(|url| credentials::query_values(url)));
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
    pages.map_or(Ok(()), monitor::serve)?;
    restart_periodically(hub)
}

fn serve_stdio(
    options: &Options,
    hub: &Hub,
    server: Server,
    traffic: Option<&Traffic>,
    reload: Reload,
) -> Result<()> {
    let (hub, traffic, unprefixed) = (hub.clone(), traffic.cloned(), is_unprefixed(options));
    std::thread::spawn(move || match name_conflict(&hub, unprefixed) {
        // The servers start after the client has connected, or after `START_TIMEOUT`.
        None => report_start(&hub, 2 * START_TIMEOUT),
        // Exiting closes standard output, so the client reads its end.
        Some(clash) => {
            log(&clash);
            exit(2, traffic.as_ref());
        }
    });
    reload.start()?;
    server.serve_stdio().map_err(|error| error.to_string())
}

/// Ends the program on any thread.
fn exit(status: i32, traffic: Option<&Traffic>) -> ! {
    if let Some(traffic) = traffic {
        traffic.flush();
    }
    stderr::flush();
    std::process::exit(status)
}

/// Returns whether two servers may offer the same name.
fn is_unprefixed(options: &Options) -> bool {
    options.has_multiple_servers() && options.prefix.is_some()
}

fn export(options: &Options, traffic: Option<&Traffic>) -> std::result::Result<(Hub, Server), Error> {
    let report = reporter(options, format!("will retry every {} s", RESTART_INTERVAL.as_secs()));
    let (is_remote, log) = (options.url.is_some(), traffic.cloned());
    let mut hub = builder(options, traffic).on_status(move |status| {
        report(status);
        if is_remote && status.restarts == 0 && needs_sign_in(status) {
            exit(SIGN_IN, log.as_ref());
        }
    });
    if options.http.is_none() {
        // There is one client, so the servers are offered that client's capabilities.
        hub = hub.wait_for_client(START_TIMEOUT).instructions(description::instructions);
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
    let mut hub = Hub::builder("tinymcp", env!("CARGO_PKG_VERSION")).forward_trace();
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

/// Returns the servers that the command line describes, each with its key.
fn own_servers(options: &Options) -> Vec<(String, Upstream)> {
    let settings = &options.from_aliases;
    if settings.named.is_empty() {
        return vec![single_server(options)];
    }
    let named = settings.named.iter().map(|(key, words)| {
        let upstream = program(words, &[], None).inherit_env(settings.inherit_env == Some(true));
        let upstream = if options.prefix.is_some() { upstream.prefix("") } else { upstream };
        (key.clone(), timeout(upstream, options))
    });
    named.collect()
}

/// Returns the server of `--url` or of the program after `--`, and its key.
fn single_server(options: &Options) -> (String, Upstream) {
    let (key, mut upstream) = match &options.url {
        Some(url) => {
            let mut endpoint = Endpoint::new(url);
            for (name, value) in &options.to_url.headers {
                endpoint = endpoint.header(name, value);
            }
            if !options.to_url.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
                endpoint = credentials::add(credentials::host(url), endpoint);
            }
            (Hub::key_for(host(url)), Upstream::url(options.to_url.network.apply(endpoint)))
        }
        None => {
            let command = &options.command;
            let name = command.first().map(|program| Path::new(program).file_name().unwrap_or(program));
            let key = Hub::key_for(&name.unwrap_or_default().to_string_lossy());
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

/// Returns a program with these words, variables and working directory.
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

/// Returns host and port of a URL. The rest may contain secrets, but clients see the key.
fn host(url: &str) -> &str {
    let behind = url.split_once("://").map_or(url, |(_, behind)| behind);
    let authority = behind.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// Waits for the servers. Returns an error if two of them offer the same name without a prefix.
fn name_conflict(hub: &Hub, unprefixed: bool) -> Option<String> {
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

/// Waits this long for the servers, then reports late servers and entries that are not offered. A
/// thread reports such entries of the late servers when they are connected.
fn report_start(hub: &Hub, time: Duration) {
    let mut late = BTreeSet::new();
    for status in hub.wait_settled(Instant::now() + time) {
        if matches!(status.state, ServerState::Connecting) {
            let seconds = time.as_secs();
            log(&format!("{}: still connecting after {seconds} s; calls to it wait", status.server));
            late.insert(status.server);
        }
    }
    report_left_out(hub, |server| !late.contains(server));
    if late.is_empty() {
        return;
    }
    let hub = hub.clone();
    let report = move || {
        hub.wait_settled(Instant::now() + LATE_TIMEOUT);
        report_left_out(&hub, |server| late.contains(server));
    };
    if let Err(error) = spawn("proxy-report", STACK, Box::new(report)) {
        log(&format!("the thread that waits for late servers cannot be started: {error}"));
    }
}

/// Reports the entries of these servers that are not offered, and filters without effect.
fn report_left_out(hub: &Hub, is_reported: impl Fn(&str) -> bool) {
    for left in hub.skipped().iter().filter(|left| is_reported(&left.server)) {
        let name = left.name.as_deref().unwrap_or("a list");
        log(&format!("{}: {name} is not offered: {}", left.server, left.error));
    }
    for unused in hub.unused_patterns().iter().filter(|unused| is_reported(&unused.server)) {
        log(&format!("{}: no tool fits {:?}", unused.server, unused.pattern));
    }
}

/// Starts servers that are down again, from time to time, as long as the process runs.
fn restart_periodically(hub: &Hub) -> Result<()> {
    let hub = hub.clone();
    let retry = move || loop {
        std::thread::sleep(RESTART_INTERVAL);
        restart_down(&hub);
    };
    let started = spawn("proxy-retry", STACK, Box::new(retry));
    started.map_err(|error| format!("the thread that starts servers again cannot be started: {error}"))
}

/// Starts servers again that could not be started or ended too often: the cause may no longer
/// exist.
fn restart_down(hub: &Hub) {
    for status in hub.servers() {
        if matches!(status.state, ServerState::Down { again: false, .. }) {
            // OK to drop: the server was removed meanwhile.
            let _ = hub.restart(&status.server);
        }
    }
}

/// Returns whether the server rejected the proxy's token or requires a token.
fn needs_sign_in(status: &ServerStatus) -> bool {
    let rejected = ErrorKind::Refused;
    matches!(status.state, ServerState::Down { kind, code: Some(401), .. } if kind == rejected)
}

/// Reports that a server connected, or why it did not. A repeated reason is reported once. `again`
/// describes the next start of a server that is down.
fn reporter(options: &Options, again: String) -> impl Fn(&ServerStatus) + use<> {
    let url = options.url.as_deref().map(credentials::shown);
    let config =
        options.config.as_deref().map(|file| format!(" --config {}", quoted(&file.to_string_lossy())));
    let last = Mutex::new(BTreeMap::new());
    move |status| {
        let text = match &status.state {
            ServerState::Running(info) => format!("connected to {} {}", info.name, info.version),
            ServerState::Down { why, .. } if needs_sign_in(status) => match &url {
                Some(url) => format!("{why}; sign in by `tinymcp login {url}`"),
                None => {
                    let config = config.as_deref().unwrap_or_default();
                    format!("{why}; sign in by `tinymcp login --server {}{config}`; {again}", status.server)
                }
            },
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
            assert_eq!(Hub::key_for(host(url)), expected, "{url}");
        }
    }

    #[test]
    fn a_server_that_could_not_be_started_is_started_again() {
        let hub = Hub::builder("x", "1").build().unwrap();
        let is_first = AtomicBool::new(true);
        let upstream = Upstream::from_fn(move |client| {
            let (ours, theirs) = memory_links();
            match is_first.swap(false, Ordering::Relaxed) {
                true => drop(theirs),
                false => drop(std::thread::spawn(move || Server::new("a", "1").serve(theirs))),
            }
            client.over(ours)
        });
        hub.add("a", upstream).unwrap();
        let state = || hub.wait_settled(Instant::now() + START_TIMEOUT).remove(0).state;
        assert!(matches!(state(), ServerState::Down { again: false, .. }));
        restart_down(&hub);
        assert!(matches!(state(), ServerState::Running(_)));
        hub.close();
    }
}
