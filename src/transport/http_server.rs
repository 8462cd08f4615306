//! HTTP/1.1 server engine: many connections on one thread, without an async runtime.
//!
//! An [`EventLoop`] holds listeners and connections and waits for all of them at once. It reads
//! requests within limits, passes them to a [`Service`] and enforces deadlines. Any thread may
//! respond through the request's [`Responder`], which writes to the socket directly: a short
//! response costs one system call and no wake-up. Bytes that the socket does not accept wait in a
//! bounded queue that the event loop writes.
//!
//! The service decides about paths, hosts, tokens and sessions. There is no compression and no
//! TLS; a reverse proxy adds them.
//!
//! | file | contents |
//! |---|---|
//! | `head.rs` | request heads: strict checks, framing |
//! | `chunked.rs` | chunked bodies |
//! | `request_reader.rs` | receiving half of a connection: bytes in, requests out |
//! | `response_head.rs` | status lines, header fields, the date |
//! | `responder.rs` | response to one request, from any thread |
//! | `socket_writer.rs` | sending half of a connection, shared by those threads |
//! | `chunk_buffer.rs` | byte queue of either half |
//! | `connection.rs` | next step of a connection, and its deadline |
//! | `event_loop.rs` | readiness, deadlines, eviction of connections |
//! | `event_budget.rs` | bounds of event streams |
//! | `mailbox.rs` | response to a request that another HTTP server received |
//! | `relay.rs` | thread of a service whose requests another HTTP server receives |
//! | `peer.rs` | the process at the other end |
//! | `listener.rs` | TCP, Unix sockets, sockets of the service manager |
//!
//! Source: RFC 9110 and RFC 9112.
//!
//! # Invariants
//! - A connection has at most one exchange. The next request is read after its end.
//! - Every exchange ends: with a response, by an abort, or with 500 when its responder is dropped.
//! - No lock is held across a blocking call: sockets are non-blocking.
//! - [`HttpLimits`] bounds every wait for a peer and every buffer.
//!
//! [`HttpLimits`]: crate::limits::HttpLimits

mod chunk_buffer;
mod chunked;
mod connection;
mod event_budget;
mod event_loop;
#[cfg(all(any(test, fuzzing), feature = "http-client"))]
pub(crate) mod fuzzing;
mod head;
mod listener;
mod mailbox;
mod peer;
mod relay;
mod request_reader;
mod responder;
mod response_head;
mod socket_writer;

use std::time::Instant;

pub(crate) use event_loop::EventLoop;
pub(crate) use head::{Accepts, Head};
pub(crate) use listener::Listener;
pub(crate) use mailbox::{Mailbox, MailboxHead};
pub use peer::{Peer, PeerCredentials};
pub(crate) use relay::{Relay, RelayedRequest, Reply};
pub(crate) use responder::Responder;
pub(crate) use response_head::Field;
#[cfg(test)]
pub(crate) use socket_writer::LoopHandle;

/// Application of the server. One thread calls all functions: the thread of the event loop or of
/// the [`Relay`]. Therefore no function may block.
pub(crate) trait Service {
    /// Decides from the head of a request whether its body is read. A rejection here avoids the
    /// upload.
    fn check(&mut self, head: &Head<'_>) -> Admission;

    /// Handles a complete request. Any thread may use `responder`, now or later.
    fn handle(&mut self, head: &Head<'_>, body: &[u8], responder: Responder);

    /// Returns fields and body of the response with which the engine itself rejects input that is
    /// not a request, or is too large or too slow. The connection closes after it.
    fn error_response(&mut self, status: u16) -> Response;

    /// Reports that the peer of an open exchange closed its side or was disconnected. A peer that
    /// only stopped sending still reads the response.
    fn disconnected(&mut self, exchange: u64);

    /// Runs timed work. Called at the time that the previous call returned, and after
    /// [`EngineHandle::wake`]. Returns the time of the next call.
    fn tick(&mut self, now: Instant) -> Option<Instant>;

    /// Begins the shutdown. No requests follow. The service should end its unbounded streams.
    /// Exchanges that are open at the deadline are aborted.
    fn stop(&mut self);
}

/// Handle to the thread of a service, for any thread.
pub(crate) trait EngineHandle: Send + Sync {
    /// Makes the thread call [`Service::tick`] soon.
    fn wake(&self);

    /// Accepts no more requests, and ends every open exchange at `deadline`. A second call can only
    /// make the deadline earlier.
    fn stop(&self, deadline: Instant);
}

/// Decision about a request whose head has been read.
pub(crate) enum Admission {
    /// The body is read, then [`Service::handle`] is called.
    ReadBody,
    /// This response is sent, and the body is not read.
    Respond(Response),
    /// The request is checked again after the next [`Service::tick`]. Nothing is read until then.
    Wait,
}

/// A whole response.
pub(crate) struct Response {
    pub status: u16,
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// Creates a response without fields and body.
    pub(crate) fn new(status: u16) -> Response {
        Response { status, fields: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        self.fields.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

#[cfg(test)]
mod tests;
