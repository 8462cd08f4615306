//! HTTP+SSE of revision 2024-11-05: one stream for all messages of the server, another URL for POST
//! requests.
//!
//! Opens the stream, reads the URL from its first event, and passes messages to the handler. A
//! response ends the wait of the exchange that posted its request. These servers cannot resume a
//! stream, so the end of the stream ends the connection.
//!
//! Source: MCP 2024-11-05 basic/transports (HTTP with SSE); 2025-11-25 basic/transports and
//! 2026-07-28 basic/transports/streamable-http (backward compatibility).

use std::io::Read;
use std::sync::Arc;

use ureq::Body;
use ureq::http::Uri;

use super::Shared;
use super::deadline::Exchange;
use super::post::{EventReader, ReadEnd};
use super::sse_listener::{GetResult, get};
use crate::transport::client::{Completed, Failure, MessageHandler};
use crate::transport::sse::{Parser, Step};

/// Opens the stream and stores the URL for POST requests. Returns `false` if the server does not
/// support HTTP+SSE.
pub(super) fn open(shared: &Arc<Shared>, exchange: &Exchange) -> bool {
    let GetResult::Stream(mut body) = get(shared, exchange, &[], None, b"") else { return false };
    let mut parser = Parser::new(shared.frame_bytes);
    let Some(uri) = first(shared, &mut body, &mut parser) else { return false };
    if shared.post_to.set(uri).is_err() {
        return false;
    }
    shared.listener.adopt(shared, body, parser);
    true
}

/// Reads the URL for POST requests from the first event. It must have the same origin, because the
/// program's headers are sent there.
fn first(shared: &Shared, body: &mut Body, parser: &mut Parser) -> Option<Uri> {
    let mut reader = body.as_reader();
    // Reads byte by byte, so that no byte of the next event is consumed.
    let mut byte = [0];
    loop {
        if reader.read(&mut byte).ok()? == 0 {
            return None;
        }
        match parser.next(&mut byte.as_slice()) {
            Step::More => {}
            Step::Event { kind: b"endpoint", data } => {
                return shared.target.redirected(std::str::from_utf8(data).ok()?);
            }
            Step::Event { .. } | Step::TooLong { .. } => return None,
        }
    }
}

/// Reads the stream until its end.
pub(super) fn listen(shared: &Shared, exchange: &Arc<Exchange>, body: Body, mut parser: Parser) {
    let Some(sink) = shared.sink() else { return };
    let handler = NotifyingHandler { shared, sink: &*sink };
    let ended = shared.run_exchange(exchange, || {
        Ok(EventReader { exchange, sink: &handler, waiting: &mut || true }.run(body, &mut parser))
    });
    if matches!(ended, Ok(ReadEnd::Ended(_) | ReadEnd::NotWaiting)) && exchange.stop_reason().is_none() {
        sink.end(Failure::Closed("the server ended the stream of its responses".into()));
    }
}

/// Handler that also notifies the exchange which waits for a response.
struct NotifyingHandler<'a> {
    shared: &'a Shared,
    sink: &'a dyn MessageHandler,
}

impl MessageHandler for NotifyingHandler<'_> {
    fn frame(&self, frame: &[u8]) -> Option<Completed> {
        let answered = self.sink.frame(frame);
        if let Some(answered) = &answered {
            self.shared.answered(answered.id);
        }
        answered
    }

    fn waiting(&self) -> bool {
        self.sink.waiting()
    }

    fn oversized(&self, head: &[u8], tail: &[u8]) {
        self.sink.oversized(head, tail);
    }

    fn fail(&self, id: u64, failure: Failure) {
        self.sink.fail(id, failure);
    }

    fn end(&self, failure: Failure) {
        self.sink.end(failure);
    }

    fn deadline(&self, id: u64) -> Option<std::time::Instant> {
        self.sink.deadline(id)
    }
}
