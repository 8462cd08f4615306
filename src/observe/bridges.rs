//! Observers for the crates `log` and `tracing`.

#[cfg(feature = "tracing")]
use super::RequestSide;
use super::{RequestOutcome, RequestSummary};

/// Returns whether a request is reported as a warning.
fn is_warning(request: &RequestSummary<'_>) -> bool {
    !matches!(request.outcome, RequestOutcome::Ok | RequestOutcome::Cancelled)
}

/// Passes each request to the logger of the crate `log`, with the target `tinymcp::request`. The
/// level is `Warn` for a request that failed, otherwise `Info`, also for a cancelled request:
/// `server.observe(tinymcp::log_requests)`.
#[cfg(feature = "log")]
pub fn log_requests(request: &RequestSummary<'_>) {
    let level = if is_warning(request) { log::Level::Warn } else { log::Level::Info };
    // Text of the client is escaped by `{:?}`.
    log::log!(
        target: "tinymcp::request",
        level,
        "{:?} {:?} {} in {:?}",
        request.method,
        request.name.unwrap_or_default(),
        request.outcome.as_str(),
        request.duration
    );
}

/// Passes each request to the subscriber of the crate `tracing` as an event with the target
/// `tinymcp::request` and members of the summary as fields. The level is `WARN` for a request that
/// failed, otherwise `INFO`, also if it was cancelled: `server.observe(tinymcp::trace_requests)`.
#[cfg(feature = "tracing")]
pub fn trace_requests(request: &RequestSummary<'_>) {
    macro_rules! event {
        ($level:expr) => {
            tracing::event!(
                target: "tinymcp::request",
                $level,
                side = if request.side == RequestSide::Server { "server" } else { "client" },
                method = request.method,
                name = request.name,
                outcome = request.outcome.as_str(),
                code = match request.outcome {
                    RequestOutcome::Error(code) => Some(code),
                    _ => None,
                },
                duration_ms = request.duration.as_secs_f64() * 1e3,
                queued_ms = request.queued.as_secs_f64() * 1e3,
                bytes_in = request.bytes_in,
                bytes_out = request.bytes_out,
                principal = request.principal,
                session = request.session,
                trace_id = request.trace.map(|trace| tracing::field::display(format!("{:032x}", trace.trace_id))),
                "request"
            )
        };
    }
    if is_warning(request) {
        event!(tracing::Level::WARN);
    } else {
        event!(tracing::Level::INFO);
    }
}
