//! Observation of requests: one summary for each request of a server or a client, and ready-made
//! observers.
//!
//! | module | feature | observer |
//! |---|---|---|
//! | `access_log` | `access-log` | one line of text for each request |
//! | `prometheus` | `prometheus` | counters and durations as text of Prometheus |
//! | `otlp` | `otlp` | spans over OTLP/HTTP in JSON |
//! | `bridges` | `log`, `tracing` | events for these crates |
//!
//! Servers and clients create an [`Observation`] for each request if the program set an observer,
//! and none otherwise.
//!
//! # Invariants
//! - A request is reported once: at its response, at its cancellation, or when the last holder of
//!   its observation drops it.
//! - No lock of a connection is held while an observer runs.

#[cfg(feature = "access-log")]
mod access_log;
#[cfg(any(feature = "log", feature = "tracing"))]
mod bridges;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "prometheus")]
mod prometheus;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::model::trace::TraceParent;
use crate::pool::guard;
use crate::sync::lock;
#[cfg(any(feature = "access-log", feature = "otlp"))]
use crate::terminal::is_control;
#[cfg(feature = "http-server")]
use crate::transport::http_server::Peer;

#[cfg(feature = "access-log")]
pub use access_log::{access_log, access_log_line};
#[cfg(feature = "log")]
pub use bridges::log_requests;
#[cfg(feature = "tracing")]
pub use bridges::trace_requests;
#[cfg(feature = "otlp")]
pub use otlp::OtlpSpans;
#[cfg(feature = "prometheus")]
pub use prometheus::RequestMetrics;

/// End of a request; a field of [`RequestSummary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// A result.
    Ok,
    /// A tool result with `isError`.
    ToolError,
    /// A JSON-RPC error with this code.
    Error(i32),
    /// The client cancelled the request or disconnected.
    Cancelled,
    /// The deadline passed: that of the handler on a server, that of the call on a client.
    TimedOut,
    /// No response to the message: the server rejected the HTTP request that carried it for lack of
    /// room (status 503), or the connection of the client failed.
    NoResponse,
}

impl RequestOutcome {
    /// A short name: `ok`, `tool_error`, `error`, `cancelled`, `timeout` or `no_response`.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestOutcome::Ok => "ok",
            RequestOutcome::ToolError => "tool_error",
            RequestOutcome::Error(_) => "error",
            RequestOutcome::Cancelled => "cancelled",
            RequestOutcome::TimedOut => "timeout",
            RequestOutcome::NoResponse => "no_response",
        }
    }
}

/// Role of this process in a request; a field of [`RequestSummary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestSide {
    /// The process received the request.
    Server,
    /// The process sent the request.
    Client,
}

/// A request that has ended, as `Server::observe` and `ClientBuilder::observe` report it.
///
/// Strings come from the peer: an observer that prints them must escape control characters.
/// Arguments, results and header fields are not part of a summary.
///
/// ```
/// use tinymcp::{RequestOutcome, Server, stderr};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.observe(|request| {
///     if request.outcome != RequestOutcome::Ok {
///         let name = request.name.unwrap_or_default();
///         stderr::write(format!("{} {name:?}: {}\n", request.method, request.outcome.as_str()));
///     }
/// });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestSummary<'r> {
    /// Whether the process received or sent the request.
    pub side: RequestSide,
    /// The method, such as `tools/call`.
    pub method: &'r str,
    /// The name of the tool or prompt, or the URI of the resource.
    pub name: Option<&'r str>,
    /// The id of the request, as JSON.
    pub id: &'r str,
    /// The end of the request.
    pub outcome: RequestOutcome,
    /// Time from the arrival of the request, or from its sending on a client, to its end.
    pub duration: Duration,
    /// The part of `duration` in which the request waited for a worker of the server.
    pub queued: Duration,
    /// Bytes of received messages: the request on a server, the response on a client.
    pub bytes_in: usize,
    /// Bytes of sent messages: on a server the response, progress and log entries of the request.
    pub bytes_out: usize,
    /// The revision of the protocol, if it is known.
    pub protocol: Option<&'r str>,
    /// The authenticated principal.
    pub principal: Option<&'r str>,
    /// The name of the HTTP session, as [`Frame::connection`](crate::Frame::connection).
    pub session: Option<&'r str>,
    /// The request was sent over HTTP.
    pub over_http: bool,
    /// The process at the other end of the HTTP connection of a server.
    #[cfg(feature = "http-server")]
    pub peer: Option<Peer>,
    /// The trace that the caller recorded in `_meta`.
    pub trace: Option<TraceParent>,
}

/// Function of the program that gets each summary.
pub(crate) type ObserveFn = dyn Fn(&RequestSummary<'_>) + Send + Sync;

/// The observers of a server or a client. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<Vec<Box<ObserveFn>>>);

impl Observers {
    /// Adds an observer. Call this before the observers are shared.
    pub(crate) fn add(&mut self, observe: Box<ObserveFn>) {
        if let Some(all) = Arc::get_mut(&mut self.0) {
            all.push(observe);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Facts about a request that are known when it arrives or is sent.
pub(crate) struct RequestFacts {
    pub side: RequestSide,
    pub method: String,
    pub name: Option<String>,
    pub id: String,
    pub protocol: Option<&'static str>,
    pub principal: Option<String>,
    pub session: Option<String>,
    pub over_http: bool,
    #[cfg(feature = "http-server")]
    pub peer: Option<Peer>,
    pub trace: Option<TraceParent>,
    pub bytes_in: usize,
    pub bytes_out: usize,
}

/// A text of a peer is cut to this many characters in the output of an observer.
#[cfg(any(feature = "access-log", feature = "otlp"))]
const TEXT: usize = 256;

/// Cuts a text of a peer for an output, and replaces characters that control a terminal. ASCII
/// control characters stay, because both outputs escape them.
#[cfg(any(feature = "access-log", feature = "otlp"))]
fn sanitized(text: &str) -> String {
    let plain = |c: char| match is_control(c) && c >= '\u{7f}' {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    let mut short: String = text.chars().take(TEXT).map(plain).collect();
    if short.len() < text.len() && text.chars().nth(TEXT).is_some() {
        short.push('…');
    }
    short
}

/// A request that has not ended.
pub(crate) struct Observation {
    observers: Observers,
    request: RequestFacts,
    since: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Time at which the request was queued for a worker.
    queued: Option<Instant>,
    /// Time at which a handler was called.
    started: Option<Instant>,
    bytes_in: usize,
    bytes_out: usize,
    /// Outcome that replaces the outcome of the response.
    outcome: Option<RequestOutcome>,
    reported: bool,
}

impl Observation {
    pub(crate) fn new(observers: &Observers, request: RequestFacts) -> Observation {
        let state = State { bytes_in: request.bytes_in, bytes_out: request.bytes_out, ..State::default() };
        Observation { observers: observers.clone(), request, since: Instant::now(), state: Mutex::new(state) }
    }

    /// Records that the request waits for a worker.
    pub(crate) fn queue(&self) {
        lock(&self.state).queued.get_or_insert_with(Instant::now);
    }

    /// Records that a handler runs.
    pub(crate) fn start(&self) {
        lock(&self.state).started.get_or_insert_with(Instant::now);
    }

    /// Counts sent bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        lock(&self.state).bytes_out += bytes;
    }

    /// Counts received bytes.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    fn received(&self, bytes: usize) {
        lock(&self.state).bytes_in += bytes;
    }

    /// Sets the outcome to report for the next response.
    pub(crate) fn becomes(&self, outcome: RequestOutcome) {
        lock(&self.state).outcome = Some(outcome);
    }

    /// Reports the request, unless it was reported.
    pub(crate) fn end(&self, outcome: RequestOutcome) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.reported, true) {
            return;
        }
        let request = &self.request;
        let waited = |since: Instant| state.started.unwrap_or(now).saturating_duration_since(since);
        let summary = RequestSummary {
            side: request.side,
            method: &request.method,
            name: request.name.as_deref(),
            id: &request.id,
            outcome: state.outcome.unwrap_or(outcome),
            duration: now.saturating_duration_since(self.since),
            queued: state.queued.map_or(Duration::ZERO, waited),
            bytes_in: state.bytes_in,
            bytes_out: state.bytes_out,
            protocol: request.protocol,
            principal: request.principal.as_deref(),
            session: request.session.as_deref(),
            over_http: request.over_http,
            #[cfg(feature = "http-server")]
            peer: request.peer,
            trace: request.trace,
        };
        drop(state);
        for observe in self.observers.0.iter() {
            // A panic of an observer must not end the thread of a connection.
            let _ = guard(|| observe(&summary));
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let started = {
            let state = lock(&self.state);
            state.started.is_some()
        };
        self.end(if started { RequestOutcome::Cancelled } else { RequestOutcome::NoResponse });
    }
}

#[cfg(all(test, feature = "access-log"))]
mod tests {
    use super::*;

    #[test]
    fn texts_of_peers_are_cut_and_control_no_terminal() {
        assert_eq!(
            sanitized("a\u{9b}2J\u{2028}\u{202e}\u{7f}b\u{e9}"),
            "a\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}b\u{e9}"
        );
        let longest = "\u{e9}".repeat(TEXT);
        assert_eq!(sanitized(&longest), longest);
        assert_eq!(sanitized(&(longest.clone() + "x")), longest + "…");
    }
}
