//! Observation of requests on a server: each observed request has its own sink, which counts its
//! bytes and receives its response.

use std::sync::Arc;
use std::time::Instant;

use crate::era::Encoded;
use crate::json::Value;
use crate::model::trace::TraceParent;
use crate::observe::{Observation, RequestFacts, RequestOutcome, RequestSide, RequestSummary};
use crate::transport::{FrameSink, ReplySink, RequestEvent};

pub(crate) use super::middleware::around;
use crate::server::Server;
use crate::server::dispatch::{Dispatcher, Effect, Incoming, InlineTools};
#[cfg(feature = "http-server")]
use crate::server::http::session_name;

impl Server {
    /// Adds a function that gets a summary of each request after its end: method, name, outcome,
    /// duration, bytes, caller, trace. The manual page *Observing a server* lists ready-made
    /// observers.
    ///
    /// The function runs before the response is sent, on the thread that sends it, so it must not
    /// block. Requests that the HTTP server rejects before it has read their method are reported by
    /// [`HttpServer::on_rejection`](crate::HttpServer::on_rejection) instead. A call that becomes a
    /// task ends with the creation of the task.
    ///
    /// ```
    /// # use tinymcp::Server;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// static CALLS: AtomicU64 = AtomicU64::new(0);
    ///
    /// let mut server = Server::new("board", "1.0.0");
    /// server.observe(|request| {
    ///     if request.method == "tools/call" {
    ///         CALLS.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// });
    /// ```
    pub fn observe(&mut self, observe: impl Fn(&RequestSummary<'_>) + Send + Sync + 'static) -> &mut Server {
        self.callers.observers.add(Box::new(observe));
        self
    }
}

/// Sink of one observed request.
struct ObservedSink {
    sink: Arc<dyn ReplySink>,
    observation: Observation,
}

impl ObservedSink {
    fn response_sent(&self, encoded: Encoded, bytes: usize) {
        self.observation.sent(bytes);
        self.observation.end(encoded.error.map_or(RequestOutcome::Ok, RequestOutcome::Error));
    }
}

impl FrameSink for ObservedSink {
    fn send(&self, frames: &[u8]) {
        self.observation.sent(frames.len());
        self.sink.send(frames);
    }

    fn closed(&self) -> bool {
        self.sink.closed()
    }

    fn congested(&self) -> bool {
        self.sink.congested()
    }

    fn drain(&self, until: Instant) -> bool {
        self.sink.drain(until)
    }

    fn close(&self, deadline: Instant) {
        self.sink.close(deadline);
    }
}

impl ReplySink for ObservedSink {
    fn wrapped(&self) -> Option<&dyn ReplySink> {
        Some(&*self.sink)
    }

    fn expect_response(&self) {
        self.observation.queue();
        self.sink.expect_response();
    }

    fn respond(&self, frame: &[u8], encoded: Encoded) {
        self.response_sent(encoded, frame.len());
        self.sink.respond(frame, encoded);
    }

    fn cancel_response(&self) {
        self.observation.end(RequestOutcome::Cancelled);
        self.sink.cancel_response();
    }

    fn try_send(&self, frames: &[u8], response: Option<Encoded>) -> bool {
        if let Some(encoded) = response {
            self.response_sent(encoded, frames.len());
            return self.sink.try_send(frames, response);
        }
        let sent = self.sink.try_send(frames, None);
        // If the sink cannot do so, the caller sends the same frames again.
        if sent {
            self.observation.sent(frames.len());
        }
        sent
    }

    fn record_event(&self, event: RequestEvent) {
        match event {
            RequestEvent::Started => self.observation.start(),
            RequestEvent::ToolError => self.observation.becomes(RequestOutcome::ToolError),
            RequestEvent::TimedOut => self.observation.becomes(RequestOutcome::TimedOut),
            RequestEvent::Cancelled => self.observation.end(RequestOutcome::Cancelled),
            RequestEvent::ResponseSent { encoded, bytes } => self.response_sent(encoded, bytes),
        }
    }
}

/// The sink of a call, if the call is observed.
#[derive(Default)]
pub(crate) struct Observed(Option<Arc<dyn ReplySink>>);

impl Observed {
    /// Returns the sink, or that of the connection.
    pub(crate) fn sink_or<'s>(&'s self, plain: &'s Arc<dyn ReplySink>) -> &'s Arc<dyn ReplySink> {
        self.0.as_ref().unwrap_or(plain)
    }
}

/// Records that the handler of a request runs.
pub(crate) fn started(sink: &dyn ReplySink) {
    sink.record_event(RequestEvent::Started);
}

/// Records that the next response is a tool result with an error.
pub(crate) fn tool_failed(sink: &dyn ReplySink) {
    sink.record_event(RequestEvent::ToolError);
}

/// Records that the next response is sent because the deadline has passed.
pub(crate) fn timed_out(sink: &dyn ReplySink) {
    sink.record_event(RequestEvent::TimedOut);
}

/// Records that the client cancelled the request or disconnected.
#[allow(dead_code)] // Only HTTP connections end without their server.
pub(crate) fn cancelled(sink: &dyn ReplySink) {
    sink.record_event(RequestEvent::Cancelled);
}

/// Records that a response of this size was written to the output of the connection.
pub(crate) fn response_sent(sink: &dyn ReplySink, encoded: Encoded, bytes: usize) {
    sink.record_event(RequestEvent::ResponseSent { encoded, bytes });
}

impl Dispatcher<dyn InlineTools> {
    /// Dispatches a request. Observes it if the program has observers.
    #[inline]
    pub(in crate::server) fn request(&mut self, incoming: Incoming<'_>) -> Effect {
        if self.core.callers.observers.is_empty() {
            return self.plain_request(incoming);
        }
        self.observed_request(incoming)
    }

    /// Dispatches a request and observes it until its end.
    #[cold]
    #[inline(never)]
    fn observed_request(&mut self, incoming: Incoming<'_>) -> Effect {
        let described = self.describe(incoming);
        let observation = Observation::new(&self.core.callers.observers, described);
        let observed: Arc<dyn ReplySink> =
            Arc::new(ObservedSink { sink: Arc::clone(incoming.sink), observation });
        let before = self.out.len();
        let effect = self.plain_request(Incoming { sink: &observed, ..incoming });
        match effect {
            Effect::Reply(encoded) => {
                response_sent(&*observed, encoded, self.out.len() - before);
                effect
            }
            Effect::Call(mut call) => {
                call.observed = Observed(Some(observed));
                Effect::Call(call)
            }
            effect => {
                // A subscription keeps the sink: its end is reported as cancelled.
                started(&*observed);
                effect
            }
        }
    }

    fn describe(&self, incoming: Incoming<'_>) -> RequestFacts {
        let Incoming { doc, request, params, sink } = incoming;
        let member = |name: &str| request.params?.get(name).and_then(Value::as_str).map(str::to_owned);
        let name = match request.method {
            "tools/call" | "prompts/get" => member("name"),
            method if method.starts_with("resources/") => member("uri"),
            _ => None,
        };
        let meta = request.params.and_then(|params| params.get("_meta"));
        let trace = meta.and_then(|meta| meta.get("traceparent")).and_then(Value::as_str);
        #[cfg(feature = "http-server")]
        let (session, peer) = (sink.session().map(session_name), sink.peer());
        #[cfg(feature = "http-server")]
        let over_http = peer.is_some() || session.is_some() || sink.exchange().is_some();
        RequestFacts {
            side: RequestSide::Server,
            method: request.method.to_owned(),
            name,
            id: request.id.raw().to_owned(),
            protocol: params.protocol(self.peer),
            principal: sink.principal().map(str::to_owned),
            #[cfg(feature = "http-server")]
            session,
            #[cfg(not(feature = "http-server"))]
            session: None,
            #[cfg(feature = "http-server")]
            over_http,
            #[cfg(not(feature = "http-server"))]
            over_http: false,
            #[cfg(feature = "http-server")]
            peer,
            trace: trace.and_then(TraceParent::parse),
            bytes_in: doc.root().raw().len(),
            bytes_out: 0,
        }
    }
}
