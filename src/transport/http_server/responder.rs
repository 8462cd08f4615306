//! Responder of one HTTP exchange, usable from any thread.
//!
//! An exchange gets one response: a whole one, or an event stream of any length. After the end of
//! the exchange all calls have no effect. Messages and events are bytes here.
//!
//! # Invariants
//! - A responder that is dropped without a response sends status 500, or aborts its stream.
//! - Only [`Responder::send_event`] waits for the peer, for `HttpLimits::stall_timeout` at most.

use std::sync::Arc;

use super::Response;
use super::peer::Peer;
use super::response_head::Field;

/// Destination of responses: a connection of the engine, or the mailbox of a request that another
/// HTTP server received. A call has no effect if its exchange is not open.
pub(crate) trait ResponseWriter: Send + Sync {
    fn peer(&self) -> Option<Peer>;

    fn is_open(&self, id: u64) -> bool;

    /// As [`Responder::respond`].
    fn respond(&self, id: u64, status: u16, fields: &mut dyn Iterator<Item = Field<'_>>, body: &[u8])
    -> bool;

    /// As [`Responder::start_events`].
    fn start_events(&self, id: u64, fields: &mut dyn Iterator<Item = Field<'_>>, first: &[u8]) -> bool;

    /// As [`Responder::send_event`] or, unless `waits`, as [`Responder::try_send_event`].
    fn send_event(&self, id: u64, bytes: &[u8], waits: bool) -> bool;

    /// As [`Responder::finish`].
    fn finish(&self, id: u64, last: &[u8]) -> bool;

    /// As [`Responder::abort`].
    fn abort(&self, id: u64);

    /// As [`Responder::is_closed`].
    fn is_closed(&self, id: u64) -> bool;

    /// As [`Responder::is_congested`].
    fn is_congested(&self, id: u64) -> bool;
}

/// Responder of one exchange.
pub(crate) struct Responder {
    pub(super) writer: Arc<dyn ResponseWriter>,
    pub(super) id: u64,
    /// Header fields of the response.
    pub(super) common_fields: Vec<(&'static str, String)>,
}

impl Responder {
    /// Adds these header fields to the response.
    pub(crate) fn add_fields(&mut self, fields: Vec<(&'static str, String)>) {
        self.common_fields = fields;
    }

    /// Returns the id of the exchange, unique in its server.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the process at the other end. `None` if the connection is closed.
    pub(crate) fn peer(&self) -> Option<Peer> {
        self.writer.peer()
    }

    /// Sends a whole response.
    pub(crate) fn send(&self, response: &Response) -> bool {
        let fields: Vec<Field<'_>> = response.fields().collect();
        self.respond(response.status, &fields, &response.body)
    }

    /// Sends a whole response without waiting. Returns `false` if the peer has disconnected or
    /// the exchange is over.
    ///
    /// Length, date and connection fields are added.
    pub(crate) fn respond(&self, status: u16, fields: &[Field<'_>], body: &[u8]) -> bool {
        self.writer.respond(self.id, status, &mut self.all_fields(fields), body)
    }

    /// Sends status 200 and an event stream that begins with `first`, which may be empty, in one
    /// write. Returns `false` if the peer has disconnected, the exchange is over or has a response,
    /// or too many streams are open. In the last case another response can be sent.
    pub(crate) fn start_events(&self, fields: &[Field<'_>], first: &[u8]) -> bool {
        self.writer.start_events(self.id, &mut self.all_fields(fields), first)
    }

    /// Sends an event. Waits while the peer's backlog is full, for `HttpLimits::stall_timeout` at
    /// most; then aborts the stream. Aborts it without waiting in two cases: half of the workers
    /// already wait for peers, or the thread of the service calls and the peer does not accept
    /// enough bytes at once. Returns `false` if the stream has ended.
    ///
    /// For the thread of a handler; others use [`try_send_event`](Self::try_send_event).
    pub(crate) fn send_event(&self, bytes: &[u8]) -> bool {
        self.writer.send_event(self.id, bytes, true)
    }

    /// Sends an event without waiting. A full backlog aborts the stream.
    pub(crate) fn try_send_event(&self, bytes: &[u8]) -> bool {
        self.writer.send_event(self.id, bytes, false)
    }

    /// Ends the event stream with a last event, which may be empty, without waiting. Returns
    /// `false` if it could not be sent.
    pub(crate) fn finish(&self, last: &[u8]) -> bool {
        self.writer.finish(self.id, last)
    }

    /// Aborts the connection. [`Service::disconnected`](super::Service) is not called.
    pub(crate) fn abort(&self) {
        self.writer.abort(self.id);
    }

    /// Returns whether the peer closed its side or the exchange is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.writer.is_closed(self.id)
    }

    /// Returns whether the backlog is more than half full.
    pub(crate) fn is_congested(&self) -> bool {
        self.writer.is_congested(self.id)
    }

    fn all_fields<'f>(&'f self, fields: &'f [Field<'f>]) -> impl Iterator<Item = Field<'f>> {
        let common = self.common_fields.iter().map(|(name, value)| (*name, value.as_str()));
        fields.iter().copied().chain(common)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.writer.is_open(self.id) && !self.respond(500, &[], &[]) {
            self.abort();
        }
    }
}
