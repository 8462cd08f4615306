//! HTTP/1.1 on one thread: many connections, few bytes each, no runtime.
//!
//! An [`Engine`] holds listeners and connections and waits for all of them at once. It reads heads
//! and bodies within limits, hands whole requests to a [`Service`], and keeps time. An answer is
//! written by whichever thread has it, through the request's [`Exchange`], straight into the
//! socket: a short one costs one system call and wakes nobody. What the socket does not take waits
//! in a bounded buffer that the engine's thread flushes.
//!
//! It knows HTTP and nothing of what is served: paths, hosts, tokens, sessions and messages are the
//! service's. It neither compresses nor encrypts; a proxy in front does.
//!
//! | file | theme |
//! |---|---|
//! | `head.rs` | a request's head: what is refused, how long its body is |
//! | `chunked.rs` | bodies without a length |
//! | `answer.rs` | status lines, header fields, the date |
//! | `exchange.rs` | one request's way back, for any thread |
//! | `wire.rs` | the sending half of a connection, shared with those threads |
//! | `inbox.rs` | the receiving half: bytes in, requests out |
//! | `pieces.rs` | bytes that wait, in either half |
//! | `conn.rs` | both halves as the engine sees them: what is next, until when |
//! | `engine.rs` | the loop: readiness, time, who has to go when there is no room |
//! | `listen.rs` | addresses: TCP, Unix sockets, sockets of the service manager |
//!
//! Source: RFC 9110 and RFC 9112.
//!
//! # Invariants
//! - One connection has at most one exchange; the next request is looked at when it is over.
//! - Every exchange ends: answered, cut, or dropped, which answers 500.
//! - No lock is held across anything that blocks: sockets are non-blocking.
//! - Every wait of a peer has an end, every buffer a bound, both from [`HttpLimits`].
//!
//! [`HttpLimits`]: crate::limits::HttpLimits

mod answer;
mod chunked;
mod conn;
mod engine;
mod exchange;
#[cfg(all(any(test, fuzzing), feature = "http-client"))]
pub(crate) mod fuzzing;
mod head;
mod inbox;
mod listen;
mod pieces;
mod wire;

use std::time::Instant;

pub(crate) use answer::Field;
pub(crate) use engine::Engine;
pub(crate) use exchange::Exchange;
pub(crate) use head::Head;
pub(crate) use listen::Listener;
pub(crate) use wire::Remote;

/// What is served. Every function is called on the engine's thread and must not block.
pub(crate) trait Service: Send {
    /// A request's head is complete; its body has not been looked at. Refusing here costs the peer
    /// its upload and us nothing.
    fn head(&mut self, head: &Head<'_>) -> Admission;

    /// A request is complete. `exchange` may be answered here, or kept and answered from any
    /// thread.
    fn request(&mut self, head: &Head<'_>, body: &[u8], exchange: Exchange);

    /// What the engine says when it refuses with this status, on its own account, and closes: what
    /// came was no request, or too much. The status of the answer is ignored.
    fn unread(&mut self, status: u16) -> Refusal;

    /// The peer of this exchange closed its side, or was cut off, before the exchange was over. Its
    /// answer may still be tried: a peer that only stopped sending reads it.
    fn gone(&mut self, exchange: u64);

    /// Called when the time it asked for has come, and after [`Remote::wake`](wire::Remote::wake).
    /// Tells when it wants to be called again.
    fn tick(&mut self, now: Instant) -> Option<Instant>;

    /// The engine stops: nothing new is taken in from now on. Streams without an end should be
    /// ended here; exchanges still open at the deadline are cut.
    fn stop(&mut self);
}

/// Whether a request's body is wanted.
pub(crate) enum Admission {
    /// Read it, then call [`Service::request`].
    Read,
    /// Answer this at once.
    Refuse(Refusal),
}

/// A whole answer, given before the body was read; or at all.
pub(crate) struct Refusal {
    pub status: u16,
    pub fields: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

#[cfg(test)]
mod tests;
