//! Metrics of requests in the text format of Prometheus (version 0.0.4).
//!
//! # Invariants
//! - There are at most [`SERIES`] combinations of labels, and one more per side and outcome for the
//!   rest. A client cannot add a combination by a method or name that does not exist.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use crate::sync::lock;

use super::{RequestOutcome, RequestSide, RequestSummary};

/// Largest number of combinations of labels.
const SERIES: usize = 1000;

/// Upper bounds of the buckets, in seconds, as in the OpenTelemetry conventions for MCP
/// (`mcp.server.operation.duration`).
const BUCKETS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Counters and durations of requests, as text for Prometheus. Clones share the counters.
///
/// | metric | type | labels |
/// |---|---|---|
/// | `mcp_server_operation_duration_seconds`, `mcp_client_…` | histogram | `method`, `name`, `outcome` |
/// | `mcp_server_queue_seconds_total`, `mcp_client_…` | counter | the same |
/// | `mcp_server_received_bytes_total`, `mcp_server_sent_bytes_total`, `mcp_client_…` | counter | the same |
///
/// `name` is the name of a tool or prompt. URIs of resources are left out, because there may be
/// many. `outcome` is [`RequestOutcome::as_str`]. A label is `other` for a method or name without a
/// result so far, and the method is `other` beyond 1000 combinations of labels.
///
/// ```no_run
/// use tinymcp::{RequestMetrics, Server};
/// # #[cfg(feature = "http-server")]
/// # fn main() -> Result<(), tinymcp::Error> {
/// use tinymcp::StatusPage;
///
/// let metrics = RequestMetrics::new();
/// let mut server = Server::new("board", "1.0.0");
/// server.observe(metrics.observer());
/// let page = StatusPage::new("/metrics", RequestMetrics::MEDIA_TYPE, move || metrics.text());
/// server.http().page(page).serve("127.0.0.1:8080")
/// # }
/// # #[cfg(not(feature = "http-server"))]
/// # fn main() {}
/// ```
#[derive(Clone, Default)]
pub struct RequestMetrics {
    series: Arc<Mutex<BTreeMap<Labels, Series>>>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    is_client: bool,
    method: String,
    name: String,
    outcome: &'static str,
}

#[derive(Default)]
struct Series {
    /// Requests by bucket. The last bucket is for longer requests.
    buckets: [u64; BUCKETS.len() + 1],
    seconds: f64,
    queue_seconds: f64,
    received: u64,
    sent: u64,
}

/// A counter beside the histogram: name, help, value.
type CounterColumn = (&'static str, &'static str, fn(&Series) -> f64);

const COUNTERS: [CounterColumn; 3] = [
    ("queue_seconds_total", "Time spent waiting for a worker.", |s| s.queue_seconds),
    ("received_bytes_total", "Bytes of received messages.", |s| s.received as f64),
    ("sent_bytes_total", "Bytes of sent messages.", |s| s.sent as f64),
];

impl RequestMetrics {
    /// The media type of the text.
    pub const MEDIA_TYPE: &'static str = "text/plain; version=0.0.4";

    /// Metrics without requests.
    pub fn new() -> RequestMetrics {
        RequestMetrics::default()
    }

    /// A function for `Server::observe` or `ClientBuilder::observe`.
    pub fn observer(&self) -> impl Fn(&RequestSummary<'_>) + Send + Sync + 'static {
        let metrics = self.clone();
        move |request| metrics.add(request)
    }

    fn add(&self, request: &RequestSummary<'_>) {
        let mut all = lock(&self.series);
        let is_client = request.side == RequestSide::Client;
        let works = matches!(request.outcome, RequestOutcome::Ok | RequestOutcome::ToolError);
        let known = |fits: &dyn Fn(&Labels) -> bool| {
            is_client || works || all.keys().any(|labels| labels.is_client == is_client && fits(labels))
        };
        let name = match request.name {
            Some(name) if !request.method.starts_with("resources/") => name,
            _ => "",
        };
        let method = if known(&|labels| labels.method == request.method) { request.method } else { "other" };
        let named = name.is_empty() || known(&|labels| labels.method == method && labels.name == name);
        let mut labels = Labels {
            is_client,
            method: method.to_owned(),
            name: if named { name } else { "other" }.to_owned(),
            outcome: request.outcome.as_str(),
        };
        if all.len() >= SERIES && !all.contains_key(&labels) {
            (labels.method, labels.name) = ("other".to_owned(), String::new());
        }
        let series = all.entry(labels).or_default();
        let seconds = request.duration.as_secs_f64();
        let at = BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
        if let Some(count) = series.buckets.get_mut(at) {
            *count += 1;
        }
        series.seconds += seconds;
        series.queue_seconds += request.queued.as_secs_f64();
        series.received += request.bytes_in as u64;
        series.sent += request.bytes_out as u64;
    }

    /// Returns the metrics as text. The text is empty before the first request.
    pub fn text(&self) -> String {
        let all = lock(&self.series);
        let mut text = String::new();
        for (is_client, side) in [(false, "server"), (true, "client")] {
            let own = || all.iter().filter(move |(labels, _)| labels.is_client == is_client);
            if own().next().is_none() {
                continue;
            }
            let name = format!("mcp_{side}_operation_duration_seconds");
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name} Duration of requests.\n# TYPE {name} histogram");
            for (labels, series) in own() {
                histogram(&mut text, &name, &labels.text(), series);
            }
            for (part, help, value) in COUNTERS {
                let name = format!("mcp_{side}_{part}");
                let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
                for (labels, series) in own() {
                    let _ = writeln!(text, "{name}{{{}}} {}", labels.text(), value(series));
                }
            }
        }
        text
    }
}

fn histogram(text: &mut String, name: &str, labels: &str, series: &Series) {
    let mut count = 0;
    for (bound, requests) in BUCKETS.iter().zip(&series.buckets) {
        count += requests;
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    count += series.buckets.last().unwrap_or(&0);
    let _ = writeln!(
        text,
        "{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {count}",
        series.seconds
    );
}

impl Labels {
    /// The labels without braces. Values are escaped as the format requires.
    fn text(&self) -> String {
        let escaped = |text: &str| text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        let (method, name, outcome) = (escaped(&self.method), escaped(&self.name), self.outcome);
        format!("method=\"{method}\",name=\"{name}\",outcome=\"{outcome}\"")
    }
}
