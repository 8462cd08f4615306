//! The seam between a client and its transports: a [`Carrier`] takes messages to one server, a
//! [`Sink`] takes what comes back.
//!
//! What it does: names the facts that cross. What it does not: encode, decode, count, wait for
//! answers or decide about eras; `client` does, and a carrier never reads a message's content.
//!
//! # Who drives
//!
//! A carrier over streams (a child, a link) has one thread that reads and calls the sink;
//! [`Carrier::send`] only writes. Over a child that thread lends its place to a caller that waits
//! alone ([`Carrier::read_here`]). A carrier over HTTP has no such thread: with [`Drive::Here`] the
//! thread that will wait for the answer anyway makes the exchange inside `send`, and with
//! [`Drive::Away`] a bounded set of threads of the carrier's own does.
//!
//! # Order of calls
//!
//! [`Carrier::start`] once; then `send`, `abandon` and `settled` from any thread, at any time;
//! [`Carrier::close`] once, after which every `send` fails with [`Failure::Closed`]. A sink may be
//! called from any thread. It never blocks for longer than a short lock, never calls user code and
//! never calls back into the carrier with anything that may wait.
//!
//! # Invariants
//! - A request that was sent ends in exactly one way, whichever comes first: a frame that answers
//!   it, [`Sink::fail`] with its id, [`Sink::end`], or a `send` that returned an error. A carrier
//!   may report more than one; the sink counts the first.
//! - No `send` takes longer than [`Outgoing::deadline`], plus, with [`Drive::Here`], what
//!   [`Sink::deadline`] grants.

#![cfg_attr(
    not(feature = "http-client"),
    allow(dead_code, reason = "statuses, sessions and headers are what only carriers over HTTP have")
)]

use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, ErrorKind};

/// Takes messages to one server.
pub(crate) trait Carrier: Send + Sync {
    /// What the client has to know of this transport.
    fn traits(&self) -> Traits;

    /// Begins to deliver. A carrier keeps the sink until it is closed.
    ///
    /// # Errors
    /// No thread can be started.
    fn start(&self, sink: Arc<dyn Sink>) -> Result<(), Error>;

    /// Sends one message.
    ///
    /// # Errors
    /// The message did not leave, or (with [`Drive::Here`]) its exchange failed. The request is
    /// over then.
    fn send(&self, message: &Outgoing<'_>, drive: Drive<'_>) -> Result<(), Failure>;

    /// Nobody waits for the answer to this request any longer. A carrier whose
    /// [`Traits::closing_cancels`] closes the request's stream; others need do nothing.
    fn abandon(&self, id: u64);

    /// The era is agreed on. A carrier that keeps a stream open for a session opens it now.
    fn settled(&self, settled: &Settled);

    /// Reads on this thread and hands what comes to the sink, while `turn` says until when it waits for
    /// something; `turn` is asked again after every message, at that time, and after
    /// [`Carrier::look`]. Does nothing where this is another thread's business, or its turn just now.
    fn read_here(&self, _sink: &dyn Sink, _turn: &mut dyn FnMut() -> Option<Instant>) {}

    /// Something is waited for that no thread in [`Carrier::read_here`] waits for: it has to be read
    /// without one.
    fn attend(&self) {}

    /// What a thread in [`Carrier::read_here`] waits for may have come in another way.
    fn look(&self) {}

    /// What the peer last said beside the protocol, such as the end of a child's stderr, for error
    /// messages and for people.
    fn aside(&self) -> Option<String> {
        None
    }

    /// Whether the peer read anything of what it was sent, once the connection is over; yes where
    /// nobody can tell.
    fn heard(&self) -> bool {
        true
    }

    /// Lets what was sent leave, ends the connection and everything that belongs to it (threads,
    /// processes, sockets) by about `deadline`, then calls [`Sink::end`] if that was not done.
    fn close(&self, deadline: Instant);
}

/// What a client has to know of a transport.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traits {
    /// Messages travel with headers: [`Outgoing::headers`] is wanted.
    pub headers: bool,
    /// Where the era has no message for it: closing a request's stream cancels it, so the peer is
    /// told by [`Carrier::abandon`] (2026-07-28 basic/patterns/cancellation).
    pub closing_cancels: bool,
    /// No answer to the first probe means a server of the older era and not a slow network
    /// (2026-07-28 basic/transports/stdio).
    pub silence_is_legacy: bool,
    /// [`Carrier::send`] with [`Drive::Here`] comes back only when the request is over.
    pub drives_here: bool,
}

/// One message on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    /// The message with its newline, which contains no other.
    pub frame: &'a [u8],
    /// What it is.
    pub kind: Kind,
    /// How it belongs to a session of the transport.
    pub session: Session,
    /// Names and values, ready for the wire; empty unless [`Traits::headers`].
    pub headers: &'a [(String, String)],
    /// When the sender gives up. For a request the sink may later grant more, see
    /// [`Sink::deadline`]; a message that has left is not called back.
    pub deadline: Instant,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One answer is expected.
    Request(u64),
    /// A request that stays open and is told many things before its answer: it has no deadline
    /// beyond the sending.
    Stream(u64),
    /// No answer is expected.
    Notification,
    /// Answers a request of the server.
    Answer,
}

/// How a message belongs to a session of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// Not at all: no session id is sent, none is kept from the answer.
    None,
    /// It opens one: no id is sent, the one in the answer is kept from now on.
    Opens,
    /// It belongs to the one that is open, if the server gave an id.
    Within,
}

/// Whose thread makes the exchange.
pub(crate) enum Drive<'a> {
    /// The calling thread has nothing else to do until the request is over. The carrier may do the
    /// whole exchange on it. It calls the closure on this thread after each delivery to the sink,
    /// and about every second while nothing comes; once that says `false`, nobody waits any longer.
    Here(&'a mut dyn FnMut() -> bool),
    /// The calling thread goes on as soon as the message is under way. With a deadline in the past
    /// it never waits: the message is queued, or refused as [`Failure::Busy`].
    Away,
}

/// What client and server agreed on.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    /// Whether there is a session: then the server may speak unasked, and a session is ended
    /// politely.
    pub session: bool,
    /// What every message of that session carries, as in [`Outgoing::headers`].
    pub headers: Vec<(String, String)>,
}

/// Takes what comes back. Implemented by the client.
pub(crate) trait Sink: Send + Sync {
    /// One message of the server. Gives what it answers: a stream that was opened for that request
    /// has nothing more to say.
    fn frame(&self, frame: &[u8]) -> Option<Answered>;

    /// One large message, in a buffer that may be taken: whatever is left in exchange is read into.
    fn large(&self, frame: &mut Vec<u8>) -> Option<Answered> {
        self.frame(frame)
    }

    /// Whether a thread waits for something that is not there. Takes no lock.
    fn waiting(&self) -> bool;

    /// A message beyond the frame limit, with as much of its beginning and its end as is known. If it
    /// is a response, its call ends. Text that is not JSON goes through [`Sink::frame`].
    fn oversized(&self, head: &[u8], tail: &[u8]);

    /// One request is over without an answer.
    fn fail(&self, id: u64, failure: Failure);

    /// The connection is over, and with it every request.
    fn end(&self, failure: Failure);

    /// Until when somebody waits for this request's answer; `None` once nobody does. Ask again:
    /// it moves while the user is asked something and when progress is reported.
    fn deadline(&self, id: u64) -> Option<Instant>;
}

/// A request that a message has answered, waited for or not.
pub(crate) struct Answered {
    /// Its id.
    pub id: u64,
    /// Who has to be told: nobody, where whoever waits for it looks by itself.
    pub waking: Option<Waking>,
}

/// Who is to be told of an answer that is there: when this is dropped, for who reads may do something before
/// they go on.
pub(crate) struct Waking {
    pub who: Arc<dyn Wake>,
}

/// Can be woken.
pub(crate) trait Wake {
    /// Wakes every thread that sleeps here, and tells whoever wants to be told.
    fn wake(&self);

    /// Whether a thread sleeps here, that may soon wait for something else.
    fn sleeps(&self) -> bool;
}

impl Drop for Waking {
    fn drop(&mut self) {
        self.who.wake();
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The connection is closed; by whom, and the last words.
    Closed(String),
    /// Not sent, or not answered, in time.
    Timeout,
    /// Too much is under way.
    Busy(String),
    /// Reading, writing or connecting failed.
    Io(String),
    /// Refused with an HTTP status and without a protocol answer; what the body or the
    /// `WWW-Authenticate` header says, shortened.
    Refused {
        /// The status.
        status: u16,
        /// A sentence for people.
        message: String,
    },
    /// The server does not know the session (any more) and has not acted on the message.
    SessionLost,
    /// The stream ended before the answer and cannot be resumed: whether the server acted on the
    /// request is not known.
    Interrupted(String),
    /// The server broke the transport's rules.
    Misbehaved(String),
    /// The answer exceeds a limit of this client; names it.
    TooLarge(String),
    /// Cancelled by the program itself; no carrier reports this.
    Cancelled,
}

impl Failure {
    /// A message of more than so many bytes.
    pub(crate) fn too_long(limit: usize) -> Failure {
        Failure::TooLarge(format!("the answer is longer than {limit} bytes, see `Limits::frame_bytes`"))
    }

    /// The failure as the program that uses the library sees it.
    pub(crate) fn to_error(&self) -> Error {
        let (kind, message) = match self {
            Failure::Closed(why) => (ErrorKind::Closed, why.as_str()),
            Failure::Timeout => (ErrorKind::Timeout, "no answer in time"),
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

/// Makes carriers to one server; a second one when the first ended on the probe.
pub(crate) trait Dial: Send {
    /// A new connection, not started.
    ///
    /// # Errors
    /// It cannot be made: no such program, a URL that is none.
    fn dial(&mut self) -> Result<Arc<dyn Carrier>, Error>;

    /// Whether [`Dial::dial`] can be called again.
    fn again(&self) -> bool;
}
