//! Access log: one line of text for each request.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::json::Writer;
use crate::model::timestamp::timestamp;
use crate::stderr;
#[cfg(feature = "http-server")]
use crate::transport::http_server::Peer;

use super::{RequestOutcome, RequestSide, RequestSummary, sanitized};

/// Writes one line for each request to standard error, without blocking:
/// `server.observe(tinymcp::access_log)`.
///
/// ```
/// # use tinymcp::Server;
/// let mut server = Server::new("board", "1.0.0");
/// server.observe(tinymcp::access_log);
/// ```
pub fn access_log(request: &RequestSummary<'_>) {
    stderr::write(access_log_line(request) + "\n");
}

/// Formats the line of [`access_log`], without a line end: the time at the end of the request in
/// UTC, then `key=value` pairs. Text of the peer is in quotes, escaped as in JSON, without
/// characters that control a terminal, and at most 256 characters long. Times are in milliseconds.
///
/// ```text
/// 2026-11-25T19:40:00.123Z method="tools/call" name="reset" outcome=ok ms=1.204 …
/// ```
///
/// | key | value |
/// |---|---|
/// | `side` | `client`, for a request that this process sent |
/// | `method`, `name` | method; name of the tool or prompt, or URI, if the method has one |
/// | `outcome`, `code` | [`RequestOutcome::as_str`]; code of the JSON-RPC error |
/// | `ms`, `queued_ms` | duration; the part of it spent waiting for a worker |
/// | `in`, `out` | received and sent bytes |
/// | `principal`, `session`, `peer` | the caller, as far as it is known |
/// | `trace` | id of the trace (W3C Trace Context), if the caller sent one |
pub fn access_log_line(request: &RequestSummary<'_>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = timestamp(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let mut pair = |key: &str, value: &str| {
        for part in [" ", key, "=", value] {
            line.push_str(part);
        }
    };
    if request.side == RequestSide::Client {
        pair("side", "client");
    }
    pair("method", &quoted(request.method));
    if let Some(name) = request.name {
        pair("name", &quoted(name));
    }
    pair("outcome", request.outcome.as_str());
    if let RequestOutcome::Error(code) = request.outcome {
        pair("code", &code.to_string());
    }
    pair("ms", &format!("{:.3}", request.duration.as_secs_f64() * 1e3));
    pair("queued_ms", &format!("{:.3}", request.queued.as_secs_f64() * 1e3));
    pair("in", &request.bytes_in.to_string());
    pair("out", &request.bytes_out.to_string());
    if let Some(principal) = request.principal {
        pair("principal", &quoted(principal));
    }
    if let Some(session) = request.session {
        pair("session", session);
    }
    #[cfg(feature = "http-server")]
    match request.peer {
        Some(Peer::Tcp(address)) => pair("peer", &address.to_string()),
        Some(Peer::Unix(Some(process))) => pair("peer", &format!("uid:{}", process.uid)),
        _ => {}
    }
    if let Some(trace) = request.trace {
        pair("trace", &format!("{:032x}", trace.trace_id));
    }
    line
}

/// A text in quotes, on one line.
fn quoted(text: &str) -> String {
    let mut w = Writer::new();
    w.string(&sanitized(text));
    // OK to default: only UTF-8 was written.
    String::from_utf8(w.into_bytes()).unwrap_or_default()
}
