//! MCP proxy: offers the servers of a configuration file as one server, over stdio or HTTP.
//!
//! ```text
//! cargo run --features hub --example hub_proxy -- servers.json
//! cargo run --features hub,http-server --example hub_proxy -- servers.json --http 127.0.0.1:8080
//! ```
//!
//! The file is `{"mcpServers": {"board": {"command": "board_server"}}}`. Standard error receives the stderr
//! lines of the servers, each after its server's key, and reports: bad entries, servers that are down or
//! connect late, tools that cannot be offered. A call to a server that is still connecting waits for it. The
//! exit status is 2 when the arguments or the file are invalid, no server of the file can be used, or the
//! address cannot be bound.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tinymcp::{Config, Error, ErrorKind, Hub, Server, ServerState, ServerStatus, stderr};

/// Time that the first list requests wait for servers: many hosts request lists only once, at the start.
const START: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let code = match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(format!("hub_proxy: {error}"));
            ExitCode::from(2)
        }
    };
    stderr::flush();
    code
}

/// Writes a line to standard error. `eprintln!` would block if the host does not read it.
fn log(line: String) {
    stderr::write(line + "\n");
}

fn run() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (file, address) = match &*arguments {
        [file] => (file, None),
        [file, option, address] if option == "--http" => (file, Some(address)),
        _ => return Err(Error::new(ErrorKind::Invalid, "usage: hub_proxy FILE [--http ADDRESS]")),
    };
    let text = std::fs::read_to_string(file)
        .map_err(|e| Error::new(ErrorKind::Io, format!("{file} cannot be read")).with_source(e))?;
    let config = Config::parse(&text)?;

    let mut hub = Hub::builder("hub_proxy", env!("CARGO_PKG_VERSION")).on_status(report);
    if address.is_none() {
        // There is one client, so upstreams are offered that client's capabilities.
        hub = hub.wait_for_client(START);
    }
    let hub = hub.build()?;
    let mut server = Server::new("hub_proxy", env!("CARGO_PKG_VERSION"));
    hub.export(&mut server)?;
    let mut failed = None;
    for (key, upstream) in config.into_upstreams() {
        if let Err(error) = upstream.and_then(|upstream| hub.add(key, upstream)) {
            log(format!("hub_proxy: {error}"));
            failed = Some(error);
        }
    }
    if let Some(error) = failed.filter(|_| hub.servers().is_empty()) {
        return Err(Error::new(error.kind(), format!("no server of {file} can be used")));
    }
    match address {
        None => {
            std::thread::spawn(move || report_start(&hub));
            server.serve_stdio()
        }
        #[cfg(feature = "http-server")]
        Some(address) => {
            report_start(&hub);
            server.serve_http(address)
        }
        #[cfg(not(feature = "http-server"))]
        Some(_) => Err(Error::new(ErrorKind::Invalid, "built without the feature http-server")),
    }
}

/// Waits for the servers and reports those that are late, and tools that cannot be offered.
fn report_start(hub: &Hub) {
    for status in hub.wait_settled(Instant::now() + START) {
        if matches!(status.state, ServerState::Connecting) {
            log(format!("{}: still connecting after {} s; calls to it wait", status.server, START.as_secs()));
        }
    }
    for left in hub.skipped() {
        let name = left.name.as_deref().unwrap_or("a list");
        log(format!("{}: {name} is not offered: {}", left.server, left.error));
    }
}

/// Reports on stderr that a server connected, or why it did not.
fn report(status: &ServerStatus) {
    match &status.state {
        ServerState::Running(info) => {
            log(format!("{}: connected to {} {}", status.server, info.name, info.version))
        }
        ServerState::Down { why, again: true, .. } => {
            log(format!("{}: down, will retry: {why}", status.server))
        }
        ServerState::Down { why, .. } => log(format!("{}: down: {why}", status.server)),
        _ => {}
    }
}
