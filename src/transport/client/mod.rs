//! Transports of a client: the [`Transport`] trait, links and child processes.
//!
//! A [`Transport`] sends messages to one server; a [`MessageHandler`] receives what comes back. The
//! client implements the handler. A transport never reads the content of a message.
//!
//! # Threads
//!
//! A transport over streams (a child, a link) has one thread that reads and calls the handler;
//! [`Transport::send`] only writes. Over a child, a caller that waits alone reads instead of the
//! reader thread ([`Transport::read_on_caller`]). A transport over HTTP has no reader thread: with
//! [`SendMode::Blocking`] the calling thread performs the exchange inside `send`, with
//! [`SendMode::Queued`] a thread of a bounded pool does.
//!
//! # Order of calls
//!
//! 1. [`Transport::start`], once.
//! 2. `send`, `abandon` and `on_negotiated`, from any thread.
//! 3. [`Transport::close`], once. Every later `send` fails with [`Failure::Closed`].
//!
//! A handler may be called from any thread. It never blocks for longer than a short lock, never
//! calls user code, and never calls a method of the transport that may block.
//!
//! # Invariants
//! - A request that was sent ends exactly once: with a response, [`MessageHandler::fail`],
//!   [`MessageHandler::end`], or an error from `send`. A transport may report more than one; the
//!   handler uses the first.
//! - `send` returns by [`Outgoing::deadline`]; with [`SendMode::Blocking`], by the later deadline
//!   that [`MessageHandler::deadline`] returns.

#![cfg_attr(
    not(feature = "http-client"),
    allow(dead_code, reason = "only HTTP has statuses, sessions and headers")
)]

mod child;
mod handoff;
pub(super) mod stream;

use std::sync::Arc;
use std::time::Instant;

use crate::error::challenge::{Challenge, Unauthorized};
use crate::error::{Error, ErrorKind};

pub use child::Stderr;
pub(crate) use child::{ChildConnector, ChildSettings, tagged};
pub(crate) use stream::StreamTransport;

/// Sends messages to one server.
pub(crate) trait Transport: Send + Sync {
    /// Returns the properties of this transport.
    fn properties(&self) -> Properties;

    /// Starts the delivery of messages to the handler. The transport owns the handler until it is
    /// closed.
    ///
    /// # Errors
    /// A thread cannot start.
    fn start(&self, handler: Arc<dyn MessageHandler>) -> Result<(), Error>;

    /// Sends one message.
    ///
    /// # Errors
    /// The message was not sent or, with [`SendMode::Blocking`], its exchange failed. The error
    /// ends the request.
    fn send(&self, message: &Outgoing<'_>, mode: SendMode<'_>) -> Result<(), Failure>;

    /// Reports that the response to this request is no longer needed. A transport with
    /// [`Properties::closing_cancels`] closes the stream of the request; others do nothing.
    fn abandon(&self, id: u64);

    /// Reports the result of the negotiation. A transport that keeps a stream open for a session
    /// opens it now.
    fn on_negotiated(&self, era: &NegotiatedEra);

    /// Reads on the calling thread and calls the handler, until `next` returns `None` instead of
    /// the deadline of the next read. `next` is called before the first read, after each message,
    /// at the deadline, and after [`Transport::interrupt_caller`]. Does nothing if another thread
    /// reads.
    fn read_on_caller(&self, _handler: &dyn MessageHandler, _next: &mut dyn FnMut() -> Option<Instant>) {}

    /// Makes the reader thread read again instead of callers. Required when a thread waits for a
    /// message without reading.
    fn resume_reader(&self) {}

    /// Interrupts the read of the thread in [`Transport::read_on_caller`], so that it calls `next`
    /// again.
    fn interrupt_caller(&self) {}

    /// Returns the end of the stderr of a child process, if it is captured.
    fn stderr_tail(&self) -> Option<String> {
        None
    }

    /// Returns whether the peer has read at least one byte; `true` if unknown. Call it only after
    /// the connection has ended.
    fn peer_has_read(&self) -> bool {
        true
    }

    /// Kills the process of the peer, if this transport started one, and does not wait. May be
    /// called while [`Transport::close`] waits.
    fn kill(&self) {}

    /// Flushes and ends the connection with all its threads, processes and sockets by about
    /// `deadline`. Calls [`MessageHandler::end`] unless it was called.
    fn close(&self, deadline: Instant);
}

/// Properties of a transport.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Properties {
    /// The transport sends [`Outgoing::headers`].
    pub headers: bool,
    /// [`Transport::abandon`] closes the stream of the request. In the modern era this cancels the
    /// request without a message (2026-07-28 basic/patterns/cancellation).
    pub closing_cancels: bool,
    /// A timeout of the first probe means a server of the older era, not a slow network
    /// (2026-07-28 basic/transports/stdio).
    pub timeout_is_legacy: bool,
    /// [`Transport::send`] with [`SendMode::Blocking`] returns only after the request has ended.
    pub exchange_in_send: bool,
}

/// One message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    /// The message, with a newline at its end only.
    pub frame: &'a [u8],
    /// Kind of the message.
    pub kind: Kind,
    /// Relation to the session of the transport.
    pub session: Session,
    /// Names and encoded values; empty unless [`Properties::headers`].
    pub headers: &'a [(String, String)],
    /// Deadline of the sender. [`MessageHandler::deadline`] may extend it for a request. A message
    /// that was sent is not withdrawn at the deadline.
    pub deadline: Instant,
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Expects one response.
    Request(u64),
    /// A request that stays open for notifications. It has no deadline after it was sent.
    Stream(u64),
    /// Expects no response.
    Notification,
    /// Response to a request of the server.
    Response,
}

/// Relation of a message to a session of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// The message contains no session id, and a session id in the response is ignored.
    None,
    /// The message opens a session. It contains no session id; the transport stores the id of the
    /// response.
    Opens,
    /// The message contains the id of the open session, if the server sent one.
    Within,
}

/// Thread that performs the exchange of a message.
pub(crate) enum SendMode<'a> {
    /// The calling thread, which waits for the end of the request. The transport calls the closure
    /// on this thread after each delivery to the handler, and about every second while no message
    /// arrives. If the closure returns `false`, the exchange ends.
    Blocking(&'a mut dyn FnMut() -> bool),
    /// Another thread. `send` returns after the message is queued or sent. With a deadline in the
    /// past `send` never blocks: it queues the message or fails with [`Failure::Busy`].
    Queued,
}

/// Result of the negotiation.
#[derive(Clone, Debug)]
pub(crate) struct NegotiatedEra {
    /// The era has sessions: the server may send requests and notifications at any time, and the
    /// client ends the session explicitly.
    pub session: bool,
    /// Headers of every message of the session, as in [`Outgoing::headers`].
    pub headers: Vec<(String, String)>,
}

/// Handler of the messages of a server. The client implements it.
pub(crate) trait MessageHandler: Send + Sync {
    /// Handles one message. Returns the request that the message completes; the transport ends the
    /// stream of that request.
    fn frame(&self, frame: &[u8]) -> Option<Completed>;

    /// Handles one large message. The handler may take the buffer and replace it by another one,
    /// which the transport reuses.
    fn large(&self, frame: &mut Vec<u8>) -> Option<Completed> {
        self.frame(frame)
    }

    /// Returns whether any thread waits for a response. Takes no lock.
    fn waiting(&self) -> bool;

    /// Handles a message beyond the frame limit. `head` and `tail` are its first and last bytes. If
    /// it is a response, its call fails.
    fn oversized(&self, head: &[u8], tail: &[u8]);

    /// Ends one request without a response.
    fn fail(&self, id: u64, failure: Failure);

    /// Ends all requests, because the connection has ended.
    fn end(&self, failure: Failure);

    /// Returns the deadline of this request; `None` after the request has ended. The deadline moves
    /// while the user is asked and when progress is reported: call this before each wait.
    fn deadline(&self, id: u64) -> Option<Instant>;

    /// Reports that asking the user begins or ends. The time in between does not count against
    /// deadlines.
    #[cfg(feature = "oauth")]
    fn ask_user(&self, _begins: bool) {}
}

/// A request that a response has completed.
pub(crate) struct Completed {
    /// Id of the request.
    pub id: u64,
    /// Wake-up of the waiter, if it is blocked or has a callback.
    pub waking: Option<WakeUp>,
}

/// Wakes a waiter when dropped, so that the reader can act before the waiter runs.
pub(crate) struct WakeUp {
    pub waiter: Arc<dyn Wake>,
}

/// A waiter that can be woken.
pub(crate) trait Wake {
    /// Wakes all waiting threads and calls the registered callback.
    fn wake(&self);

    /// Returns whether a thread is blocked on this waiter.
    fn is_blocked(&self) -> bool;
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        self.waiter.wake();
    }
}

/// Reason why a request has no response.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The connection is closed. The message names the side that closed it.
    Closed(String),
    /// The request was not sent, or no response arrived, before the deadline.
    Timeout,
    /// Too many calls in flight.
    Busy(String),
    /// Reading, writing or connecting failed.
    Io(String),
    /// The server rejected the request with an HTTP status and without a JSON-RPC response. The
    /// message quotes the start of the body or of the `WWW-Authenticate` header.
    Refused {
        /// HTTP status.
        status: u16,
        /// Message of the error.
        message: String,
        /// Challenge in the `WWW-Authenticate` header.
        challenge: Option<Challenge>,
    },
    /// The request was not sent, because its credentials could not be obtained.
    Unauthorized(Unauthorized),
    /// The server has no such session and has not acted on the message.
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
    /// Failure of a response that exceeds `limit` bytes.
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
            Failure::SessionLost => (ErrorKind::SessionLost, "the session has ended at the server"),
            Failure::Interrupted(why) => (ErrorKind::Io, why.as_str()),
            Failure::Misbehaved(why) => (ErrorKind::PeerMisbehaved, why.as_str()),
            Failure::TooLarge(why) => (ErrorKind::Limit, why.as_str()),
            Failure::Cancelled => (ErrorKind::Cancelled, "the call was cancelled"),
            Failure::Unauthorized(error) => return error.to_error(),
        };
        let error = Error::new(kind, message);
        match self {
            Failure::Refused { status, challenge, .. } => {
                error.with_code(i32::from(*status), None).with_challenge(challenge.clone())
            }
            _ => error,
        }
    }
}

/// Connects to one server. The client connects again if the server exits on the probe.
pub(crate) trait Connector: Send {
    /// Returns a new transport that is not started.
    ///
    /// # Errors
    /// The connection cannot be established, for example because the program does not exist or the
    /// URL is invalid.
    fn dial(&mut self) -> Result<Arc<dyn Transport>, Error>;

    /// Returns whether [`Connector::dial`] can be called again.
    fn can_reconnect(&self) -> bool;
}
