//! Transports of a client: the [`Transport`] trait, links and child processes.
//!
//! A [`Transport`] sends messages to one server; a [`MessageHandler`] receives what comes back. The
//! client implements the handler. A transport never reads the content of a message.
//!
//! # Threads
//!
//! A transport over streams (a child, a link) has one thread that reads and calls the handler;
//! [`Transport::send`] only writes. Over a child that thread lends its place to a caller that waits
//! alone ([`Transport::read_here`]). A transport over HTTP has no such thread: with
//! [`Wait::Blocking`] the calling thread performs the exchange inside `send`, with [`Wait::Queued`]
//! a thread of a bounded pool does.
//!
//! # Order of calls
//!
//! [`Transport::start`] once; then `send`, `abandon` and `settled` from any thread;
//! [`Transport::close`] once, after which every `send` fails with [`Failure::Closed`].
//!
//! A handler may be called from any thread. It never blocks for longer than a short lock, never
//! calls user code, and never calls a method of the transport that may block.
//!
//! # Invariants
//! - A request that was sent ends exactly once: with a response, [`MessageHandler::fail`],
//!   [`MessageHandler::end`], or an error from `send`. A transport may report more than one; the
//!   handler uses the first.
//! - No `send` takes longer than [`Outgoing::deadline`] plus, with [`Wait::Blocking`], the time
//!   that [`MessageHandler::deadline`] grants.

#![cfg_attr(
    not(feature = "http-client"),
    allow(dead_code, reason = "only HTTP has statuses, sessions and headers")
)]

#[cfg(unix)]
mod child;
mod child_settings;
#[cfg(unix)]
mod child_stdin;
mod handoff;
pub(super) mod stream;

use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, ErrorKind};

#[cfg(unix)]
pub(crate) use child::ChildConnector;
pub(crate) use child_settings::ChildSettings;
pub use child_settings::Stderr;
pub(crate) use stream::StreamTransport;

/// Sends messages to one server.
pub(crate) trait Transport: Send + Sync {
    /// Returns the properties of this transport.
    fn traits(&self) -> Traits;

    /// Starts delivery to the handler, which the transport holds until it is closed.
    ///
    /// # Errors
    /// A thread cannot start.
    fn start(&self, sink: Arc<dyn MessageHandler>) -> Result<(), Error>;

    /// Sends one message.
    ///
    /// # Errors
    /// The message was not sent, or its exchange failed (with [`Wait::Blocking`]). This ends the
    /// request.
    fn send(&self, message: &Outgoing<'_>, drive: Wait<'_>) -> Result<(), Failure>;

    /// The response to this request is no longer wanted. A transport with
    /// [`Traits::closing_cancels`] closes the stream of the request; others do nothing.
    fn abandon(&self, id: u64);

    /// The era is known. A transport that keeps a stream open for a session opens it now.
    fn settled(&self, settled: &Settled);

    /// Reads on this thread and calls the handler, as long as `turn` returns a deadline of the next
    /// read. Calls `turn` again after each message, at that deadline, and after
    /// [`Transport::look`]. Does nothing if another thread reads.
    fn read_here(&self, _sink: &dyn MessageHandler, _turn: &mut dyn FnMut() -> Option<Instant>) {}

    /// A thread waits without reading: the reader thread must take over from callers.
    fn attend(&self) {}

    /// Interrupts the thread in [`Transport::read_here`], so that it checks its condition again.
    fn look(&self) {}

    /// Returns the last output of the peer outside the protocol, such as the end of a child's
    /// stderr.
    fn aside(&self) -> Option<String> {
        None
    }

    /// Returns whether the peer has read any byte, after the connection has ended; `true` if
    /// unknown.
    fn heard(&self) -> bool {
        true
    }

    /// Flushes and ends the connection with all its threads, processes and sockets by about
    /// `deadline`. Calls [`MessageHandler::end`] unless it was called.
    fn close(&self, deadline: Instant);
}

/// Properties of a transport.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// Messages have headers: [`Outgoing::headers`] is used.
    pub headers: bool,
    /// Closing the stream of a request cancels it, in an era without a message for that: the peer
    /// notices [`Transport::abandon`] (2026-07-28 basic/patterns/cancellation).
    pub closing_cancels: bool,
    /// No response to the first probe means a server of the older era, not a slow network
    /// (2026-07-28 basic/transports/stdio).
    pub silence_is_legacy: bool,
    /// [`Transport::send`] with [`Wait::Blocking`] returns only after the request has ended.
    pub drives_here: bool,
}

/// One message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    /// The message with its newline, which contains no other.
    pub frame: &'a [u8],
    /// Its kind.
    pub kind: Kind,
    /// Its relation to a session of the transport.
    pub session: Session,
    /// Names and encoded values; empty unless [`Traits::headers`].
    pub headers: &'a [(String, String)],
    /// Deadline of the sender. For a request the handler may grant more time later, see
    /// [`MessageHandler::deadline`]. A message that was sent is not withdrawn.
    pub deadline: Instant,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Expects one response.
    Request(u64),
    /// A request that stays open for notifications: it has no deadline after it was sent.
    Stream(u64),
    /// Expects no response.
    Notification,
    /// Responds to a request of the server.
    Answer,
}

/// Relation of a message to a session of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// None: no session id is sent, and none is kept from the response.
    None,
    /// The message opens a session: no id is sent, and the id in the response is kept.
    Opens,
    /// The message belongs to the open session, if the server gave an id.
    Within,
}

/// Thread that performs the exchange.
pub(crate) enum Wait<'a> {
    /// The calling thread, which waits for the end of the request anyway. The transport calls the
    /// closure on this thread after each delivery to the handler, and about every second while no
    /// message arrives. `false` ends the exchange.
    Blocking(&'a mut dyn FnMut() -> bool),
    /// Another thread: `send` returns after the message is queued or sent. With a deadline in the
    /// past it never blocks: the message is queued or fails with [`Failure::Busy`].
    Queued,
}

/// Result of the negotiation.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    /// The era has sessions: the server may send requests and notifications at any time, and the
    /// session is ended explicitly.
    pub session: bool,
    /// Headers of every message of the session, as in [`Outgoing::headers`].
    pub headers: Vec<(String, String)>,
}

/// Receives messages of the server. The client implements it.
pub(crate) trait MessageHandler: Send + Sync {
    /// Handles one message. Returns the request it responds to: the stream of that request ends.
    fn frame(&self, frame: &[u8]) -> Option<Answered>;

    /// Handles one large message. The handler may take the buffer and leave another, which the
    /// transport reuses.
    fn large(&self, frame: &mut Vec<u8>) -> Option<Answered> {
        self.frame(frame)
    }

    /// Returns whether any thread waits for a response. Takes no lock.
    fn waiting(&self) -> bool;

    /// Handles a message beyond the frame limit by its beginning and its end. A response ends its
    /// call.
    fn oversized(&self, head: &[u8], tail: &[u8]);

    /// One request has ended without a response.
    fn fail(&self, id: u64, failure: Failure);

    /// The connection has ended, and every request with it.
    fn end(&self, failure: Failure);

    /// Returns the deadline of this request; `None` after it has ended. The deadline moves while
    /// the user is asked and when progress is reported, so call this again.
    fn deadline(&self, id: u64) -> Option<Instant>;
}

/// A request that a message responds to.
pub(crate) struct Answered {
    /// Its id.
    pub id: u64,
    /// The waiter to wake, unless it is not blocked.
    pub waking: Option<WakeUp>,
}

/// Wakes a waiter when dropped, so that the reader can act before the waiter runs.
pub(crate) struct WakeUp {
    pub who: Arc<dyn Wake>,
}

/// A waiter that can be woken.
pub(crate) trait Wake {
    /// Wakes all waiting threads and calls the registered callback.
    fn wake(&self);

    /// Returns whether a thread is blocked here.
    fn sleeps(&self) -> bool;
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        self.who.wake();
    }
}

/// Reason why a request has no response.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The connection is closed. The message names the side, and may quote the last output.
    Closed(String),
    /// Not sent, or no response, before the deadline.
    Timeout,
    /// Too many calls in flight.
    Busy(String),
    /// Reading, writing or connecting failed.
    Io(String),
    /// Rejected with an HTTP status and without a JSON-RPC response. The message quotes the body or
    /// the `WWW-Authenticate` header, shortened.
    Refused {
        /// The status.
        status: u16,
        /// A sentence for the user.
        message: String,
    },
    /// The server does not know the session and has not acted on the message.
    SessionLost,
    /// The stream ended before the response and cannot be resumed. The server may have acted on the
    /// request.
    Interrupted(String),
    /// The server violated the rules of the transport.
    Misbehaved(String),
    /// The response exceeds a limit of this client; the message names it.
    TooLarge(String),
    /// Cancelled by the program. Transports never report it.
    Cancelled,
}

impl Failure {
    /// A response of more than `limit` bytes.
    pub(crate) fn too_long(limit: usize) -> Failure {
        Failure::TooLarge(format!("the response is longer than {limit} bytes, see `Limits::frame_bytes`"))
    }

    /// Converts to the public error.
    pub(crate) fn to_error(&self) -> Error {
        let (kind, message) = match self {
            Failure::Closed(why) => (ErrorKind::Closed, why.as_str()),
            Failure::Timeout => (ErrorKind::Timeout, "no response in time"),
            Failure::Busy(why) => (ErrorKind::Busy, why.as_str()),
            Failure::Io(why) => (ErrorKind::Io, why.as_str()),
            Failure::Refused { message, .. } => (ErrorKind::Refused, message.as_str()),
            Failure::SessionLost => (ErrorKind::SessionLost, "the server no longer knows the session"),
            Failure::Interrupted(why) => (ErrorKind::Io, why.as_str()),
            Failure::Misbehaved(why) => (ErrorKind::PeerMisbehaved, why.as_str()),
            Failure::TooLarge(why) => (ErrorKind::Limit, why.as_str()),
            Failure::Cancelled => (ErrorKind::Cancelled, "the call was cancelled"),
        };
        let error = Error::new(kind, message);
        match self {
            Failure::Refused { status, .. } => error.with_code(i32::from(*status), None),
            _ => error,
        }
    }
}

/// Connects to one server, and again if the server exits on the probe.
pub(crate) trait Connector: Send {
    /// A new connection, not started.
    ///
    /// # Errors
    /// The connection cannot be established: no such program, an invalid URL.
    fn dial(&mut self) -> Result<Arc<dyn Transport>, Error>;

    /// Returns whether [`Connector::dial`] can be called again.
    fn again(&self) -> bool;
}
