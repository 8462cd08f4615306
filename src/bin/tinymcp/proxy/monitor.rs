//! Pages for monitoring.
//!
//! | option | page |
//! |---|---|
//! | `--health` | `ok`, for every host and without a token |
//! | `--status` | the servers and their states as JSON |
//! | `--metrics` | the same numbers in the text format of Prometheus |
//!
//! They are served beside the endpoint, or with `--monitor` at an address of their own.

use std::fmt::Write as _;

use tinymcp::json::Json;
use tinymcp::{BoundServer, HttpServer, Hub, Server, ServerState, ServerStatus, StatusPage, json};

use super::options::{Options, Pages};
use crate::Result;
use crate::http::with_options;
use crate::serve::{log, spawn};

/// Stack of the thread that serves the pages at their own address.
const STACK: usize = 256 << 10;

/// A metric: name, type, help, and its value for a server.
type Metric = (&'static str, &'static str, &'static str, fn(&ServerStatus) -> u64);

const METRICS: [Metric; 3] = [
    ("tinymcp_server_up", "gauge", "1 if the server is connected, else 0.", |s| u64::from(is_up(s))),
    ("tinymcp_server_restarts_total", "counter", "Connections after the first one.", |s| s.restarts),
    ("tinymcp_server_calls_total", "counter", "Calls that were sent to the server.", |s| s.calls),
];

/// Opens the address of the pages, if they have one. Requests wait until [`serve`].
///
/// # Errors
/// The address is not available.
pub(super) fn open(options: &Options, hub: &Hub) -> Result<Option<BoundServer>> {
    let Some(address) = &options.pages.address else { return Ok(None) };
    let mut http = Server::new("tinymcp-monitor", env!("CARGO_PKG_VERSION")).http().no_signal_handlers();
    for host in &options.settings.allow_host {
        http = http.allow_host(host);
    }
    let bound = add_pages(http, &options.pages, hub).bind(address);
    bound.map(Some).map_err(|error| format!("--monitor: {}", with_options(&error.to_string())))
}

/// Serves the pages on a thread that ends with the process.
pub(super) fn serve(bound: BoundServer) -> Result<()> {
    log(&format!("monitoring at {}", bound.address()));
    spawn(
        "monitor",
        STACK,
        Box::new(move || {
            if let Err(error) = bound.serve() {
                log(&format!("the pages for monitoring are not served any more: {error}"));
            }
        }),
    )
    .map_err(|error| format!("the thread of the pages cannot be started: {error}"))
}

/// Adds the pages of the options.
pub(super) fn add_pages(mut http: HttpServer, pages: &Pages, hub: &Hub) -> HttpServer {
    for path in &pages.health {
        http = http.page(StatusPage::new(path, "text/plain", || "ok\n".to_owned()).public());
    }
    if let Some(path) = &pages.status {
        let hub = hub.clone();
        http = http.page(StatusPage::new(path, "application/json", move || status(&hub.servers())));
    }
    if let Some(path) = &pages.metrics {
        let hub = hub.clone();
        let metrics = move || metrics(&hub.servers());
        http = http.page(StatusPage::new(path, "text/plain; version=0.0.4", metrics));
    }
    http
}

fn is_up(status: &ServerStatus) -> bool {
    matches!(status.state, ServerState::Running(_))
}

fn status(servers: &[ServerStatus]) -> String {
    let servers: Vec<Json> = servers
        .iter()
        .map(|server| {
            let (state, offered) = match &server.state {
                ServerState::Running(info) => ("running", Some(format!("{} {}", info.name, info.version))),
                ServerState::Down { .. } => ("down", None),
                _ => ("connecting", None),
            };
            json!({
                "name": server.server,
                "state": state,
                "seconds": server.since.elapsed().as_secs(),
                "server": offered,
                "restarts": server.restarts,
                "calls": server.calls,
                "lastError": server.last_error,
            })
        })
        .collect();
    json!({"servers": servers}).to_string()
}

fn metrics(servers: &[ServerStatus]) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in METRICS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for server in servers {
            // A key has no character that must be escaped.
            let _ = writeln!(text, "{name}{{server=\"{}\"}} {}", server.server, value(server));
        }
    }
    text
}
