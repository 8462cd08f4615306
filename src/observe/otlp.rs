//! Spans of requests, sent in batches over OTLP/HTTP with JSON.
//!
//! Sources: OTLP 1.x (OTLP/HTTP, JSON Protobuf encoding), OpenTelemetry semantic conventions for
//! MCP (status: development), W3C Trace Context.
//!
//! # Invariants
//! - An observer never waits: a span for which the queue has no room is dropped and counted.
//! - A span has a bounded size, because its values are cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind};
use crate::json::Writer;
use crate::limits::MAX_DURATION;
use crate::stderr;
use crate::transport::http_client::{DocumentClient, Endpoint};
#[cfg(feature = "http-server")]
use crate::transport::http_server::Peer;

use super::{RequestOutcome, RequestSide, RequestSummary, sanitized};

/// Largest number of spans in the queue of the sending thread.
const QUEUE: usize = 2048;
/// Largest number of spans in one request to the collector.
const BATCH: usize = 256;
/// Longest time that a span waits for a full batch.
const DELAY: Duration = Duration::from_secs(1);
/// Time for one request to the collector.
const TIME: Duration = Duration::from_secs(10);
/// Stack of the thread in bytes. A TLS handshake needs most of it.
const STACK: usize = 256 << 10;

/// Exporter of a span for each request, to a collector of OpenTelemetry over OTLP/HTTP in JSON.
/// Names and attributes follow the semantic conventions for MCP. The span is a child of the
/// caller's span if the request has a `traceparent`. The span is left out if the caller does not
/// record the trace.
///
/// One thread sends the spans in batches of at most 256, at the latest one second after the first
/// span of a batch. While the collector does not respond, up to 2048 spans are queued and further
/// ones are dropped. A line on standard error reports the first failure. Values are cut after 256
/// characters, so the queue takes at most 16 MiB.
///
/// ```no_run
/// use std::time::Duration;
/// use tinymcp::{OtlpSpans, Server};
///
/// let spans = OtlpSpans::start("http://127.0.0.1:4318/v1/traces", "board")?;
/// let mut server = Server::new("board", "1.0.0");
/// server.observe(spans.observer());
/// server.on_shutdown(move || _ = spans.flush(Duration::from_secs(2)));
/// server.serve_stdio()?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct OtlpSpans {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

enum Message {
    /// A span, as JSON text.
    Span(String),
    /// Send the spans before this, then drop the sender.
    Flush(SyncSender<()>),
}

impl OtlpSpans {
    /// Starts the thread that sends spans to this URL, for example
    /// `http://127.0.0.1:4318/v1/traces`. An [`Endpoint`] may have a token and headers; `https:`
    /// needs the feature `tls`. `service` is the attribute `service.name`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the URL or a header is invalid. [`ErrorKind::Limit`]: the thread
    /// cannot be started.
    pub fn start(endpoint: impl Into<Endpoint>, service: &str) -> Result<OtlpSpans, Error> {
        let client = DocumentClient::of_any_host(endpoint.into())?;
        let (queue, messages) = sync_channel(QUEUE);
        let exporter = Exporter { client, opening: opening(service), has_failed: false };
        thread::Builder::new()
            .name("mcp-otlp".to_owned())
            .stack_size(STACK)
            .spawn(move || exporter.run(&messages))
            .map_err(|e| {
                Error::new(ErrorKind::Limit, "the thread for spans cannot be started").with_source(e)
            })?;
        Ok(OtlpSpans { queue, dropped: Arc::default() })
    }

    /// A function for `Server::observe` or `ClientBuilder::observe`.
    pub fn observer(&self) -> impl Fn(&RequestSummary<'_>) + Send + Sync + 'static {
        let spans = self.clone();
        move |request| {
            if request.trace.is_none_or(|trace| trace.is_sampled())
                && spans.queue.try_send(Message::Span(span(request))).is_err()
            {
                spans.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Number of spans that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits at most this long until the spans so far were sent or failed. Returns whether they
    /// were.
    pub fn flush(&self, time: Duration) -> bool {
        let (done, flushed) = sync_channel(1);
        let deadline = Instant::now() + time.min(MAX_DURATION);
        let mut message = Message::Flush(done);
        while let Err(TrySendError::Full(back)) = self.queue.try_send(message) {
            if Instant::now() >= deadline {
                return false;
            }
            message = back;
            thread::sleep(Duration::from_millis(5));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // The sender is dropped after all earlier spans were sent or failed.
        matches!(flushed.recv_timeout(left), Err(RecvTimeoutError::Disconnected))
    }
}

struct Exporter {
    client: DocumentClient,
    /// The message up to its first span.
    opening: String,
    has_failed: bool,
}

impl Exporter {
    /// Sends spans until all senders are dropped.
    fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let deadline = Instant::now() + DELAY;
            let (mut spans, mut next) = (Vec::new(), Some(first));
            let mut flushed = None;
            while let Some(message) = next.take() {
                match message {
                    Message::Span(span) => spans.push(span),
                    Message::Flush(done) => {
                        flushed = Some(done);
                        break;
                    }
                }
                if spans.len() < BATCH {
                    next = messages.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
                }
            }
            if !spans.is_empty() {
                self.send(&spans);
            }
            drop(flushed);
        }
    }

    fn send(&mut self, spans: &[String]) {
        let body = format!("{}{}]}}]}}]}}", self.opening, spans.join(","));
        let failure = match self.client.fetch(Some(("application/json", &body)), None, TIME) {
            Ok(response) if (200..=299).contains(&response.status) => return,
            Ok(response) => format!("status {}", response.status),
            Err(error) => error.to_string(),
        };
        if !std::mem::replace(&mut self.has_failed, true) {
            stderr::write(format!("tinymcp: spans cannot be sent: {failure:?}\n"));
        }
    }
}

fn opening(service: &str) -> String {
    let mut w = Writer::new();
    w.begin_object();
    w.key("resourceSpans").begin_array().begin_object();
    w.key("resource").begin_object().key("attributes").begin_array();
    attribute(&mut w, "service.name", service);
    w.end_array().end_object();
    w.key("scopeSpans").begin_array().begin_object();
    w.key("scope").begin_object();
    w.key("name").string(env!("CARGO_PKG_NAME"));
    w.key("version").string(env!("CARGO_PKG_VERSION")).end_object();
    w.key("spans").begin_array();
    text(w)
}

fn text(w: Writer) -> String {
    // OK to default: only UTF-8 was written.
    String::from_utf8(w.into_bytes()).unwrap_or_default()
}

fn attribute(w: &mut Writer, key: &str, value: &str) {
    w.begin_object().key("key").string(key);
    w.key("value").begin_object().key("stringValue").string(&sanitized(value)).end_object();
    w.end_object();
}

/// The span of a request that ends now.
fn span(request: &RequestSummary<'_>) -> String {
    let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begin = end.saturating_sub(request.duration);
    let mut random = [0; 24];
    // OK to continue: ids of zeros are invalid, so the collector drops the span.
    let _ = getrandom::fill(&mut random);
    let (own, trace) = random.split_at(8);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // Only names of tools and prompts have few values (semantic conventions for MCP, span name).
    let subject = request.name.filter(|_| !request.method.starts_with("resources/"));
    let mut w = Writer::new();
    w.begin_object();
    w.key("traceId").string(&request.trace.map_or_else(|| hex(trace), |t| format!("{:032x}", t.trace_id)));
    w.key("spanId").string(&hex(own));
    if let Some(trace) = request.trace {
        w.key("parentSpanId").string(&format!("{:016x}", trace.parent_id));
    }
    let name =
        subject.map_or_else(|| request.method.to_owned(), |subject| format!("{} {subject}", request.method));
    w.key("name").string(&sanitized(&name));
    w.key("kind").u64(if request.side == RequestSide::Server { 2 } else { 3 });
    w.key("startTimeUnixNano").string(&begin.as_nanos().to_string());
    w.key("endTimeUnixNano").string(&end.as_nanos().to_string());
    w.key("attributes").begin_array();
    attributes(&mut w, request);
    w.end_array();
    w.key("status").begin_object();
    if error_type(request.outcome).is_some() {
        w.key("code").u64(2);
    }
    w.end_object().end_object();
    text(w)
}

/// The attribute `error.type` of a failed request.
fn error_type(outcome: RequestOutcome) -> Option<String> {
    match outcome {
        RequestOutcome::Ok => None,
        RequestOutcome::Error(code) => Some(code.to_string()),
        outcome => Some(outcome.as_str().to_owned()),
    }
}

fn attributes(w: &mut Writer, request: &RequestSummary<'_>) {
    attribute(w, "mcp.method.name", request.method);
    if let Some(name) = request.name {
        match request.method {
            "tools/call" => {
                attribute(w, "gen_ai.tool.name", name);
                attribute(w, "gen_ai.operation.name", "execute_tool");
            }
            "prompts/get" => attribute(w, "gen_ai.prompt.name", name),
            _ => attribute(w, "mcp.resource.uri", name),
        }
    }
    attribute(w, "jsonrpc.request.id", request.id.trim_matches('"'));
    if let Some(protocol) = request.protocol {
        attribute(w, "mcp.protocol.version", protocol);
    }
    if let Some(session) = request.session {
        attribute(w, "mcp.session.id", session);
    }
    if let Some(kind) = error_type(request.outcome) {
        attribute(w, "error.type", &kind);
    }
    if let RequestOutcome::Error(code) = request.outcome {
        attribute(w, "rpc.response.status_code", &code.to_string());
    }
    if request.over_http {
        attribute(w, "network.protocol.name", "http");
    }
    let transport = if request.over_http { "tcp" } else { "pipe" };
    #[cfg(feature = "http-server")]
    let transport = match request.peer {
        Some(Peer::Tcp(address)) => {
            attribute(w, "client.address", &address.ip().to_string());
            transport
        }
        Some(Peer::Unix(_)) => "unix",
        _ => transport,
    };
    attribute(w, "network.transport", transport);
}
