//! Frame sources and sinks: the interface between servers, clients and their transports.
//!
//! A [`Link`] is a [`FrameSource`], which one thread reads, and a [`FrameSink`], which any thread
//! writes to.
//!
//! # Invariants
//! - A frame given to a [`FrameSink`] ends with a newline and contains no other.
//! - Frames of concurrent senders never interleave.
//! - All buffers are bounded: a source drops a frame beyond its limit, and a sink blocks its
//!   senders.

mod lines;
mod memory;
mod stdio;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "client")]
use super::client::stream::FrameWriter;
use crate::era::Encoded;
#[cfg(all(feature = "client", unix))]
pub(super) use lines::LineReader;
#[cfg(not(all(feature = "client", unix)))]
use lines::LineReader;
use lines::LineSink;
pub(crate) use lines::is_gone;
pub use memory::{MemoryEnd, memory, memory_links};
pub(crate) use stdio::{StdinProbe, own_stdio};

/// Result of [`FrameSource::next`].
pub(crate) enum Input<'a> {
    /// One message, without its delimiter.
    Frame(&'a [u8]),
    /// A large message. The receiver may take the buffer and replace it by another one, which the
    /// source reuses.
    Large(&'a mut Vec<u8>),
    /// A message beyond the limit. It was skipped up to its delimiter.
    TooLong {
        /// The first bytes, up to the limit.
        head: &'a [u8],
        /// The last few hundred bytes.
        tail: &'a [u8],
    },
    /// The peer has closed its side.
    End,
    /// Reading failed.
    Failed(io::Error),
}

/// Source of frames, owned by the reader thread.
pub(crate) trait FrameSource: Send {
    /// Waits for the next frame.
    fn next(&mut self) -> Input<'_>;

    /// Waits for the next frame until `by`, or until the source is interrupted. Returns `None` if
    /// no frame arrived. Call it only if [`FrameSource::interruptible`] returns `true`.
    #[cfg(feature = "client")]
    fn next_by(&mut self, _by: Instant) -> Option<Input<'_>> {
        Some(self.next())
    }

    /// Returns whether a wait for a frame can be interrupted, so that any thread may read.
    #[cfg(feature = "client")]
    fn interruptible(&self) -> bool {
        false
    }

    /// Returns whether another frame is available without waiting. The server then collects its
    /// responses and sends them in one write.
    fn ready(&self) -> bool;
}

/// Sink of frames, shared by all threads.
pub(crate) trait FrameSink: Send + Sync {
    /// Sends one or more whole frames. Blocks while the peer reads too slowly; does nothing after
    /// the peer has disconnected.
    fn send(&self, frames: &[u8]);

    /// Returns this sink for senders with a deadline, if it supports them.
    #[cfg(feature = "client")]
    fn frame_writer(self: Arc<Self>) -> Option<Arc<dyn FrameWriter>> {
        None
    }

    /// Returns whether the peer has disconnected.
    fn closed(&self) -> bool;

    /// Takes the error of a failed send; `None` if the peer has disconnected. Frames that were not
    /// sent are lost.
    fn failure(&self) -> Option<io::Error> {
        None
    }

    /// Returns whether a send would block now.
    fn congested(&self) -> bool;

    /// Blocks until all frames are written, or until `until`. Returns whether they are written.
    fn drain(&self, _until: Instant) -> bool {
        true
    }

    /// Writes pending frames until `deadline`, then closes the sink: blocked senders return, and
    /// later sends do nothing.
    fn close(&self, deadline: Instant);
}

/// Event in the life of a request, for its observers.
#[cfg(feature = "observe")]
#[derive(Clone, Copy)]
pub(crate) enum RequestEvent {
    /// A handler runs.
    Started,
    /// The next response is a tool result with an error.
    ToolError,
    /// The next response is sent because the deadline has passed.
    TimedOut,
    /// The client cancelled the request or disconnected.
    #[allow(dead_code)] // Only HTTP connections end without their server.
    Cancelled,
    /// A response of this size was written to the output of the connection.
    ResponseSent { encoded: Encoded, bytes: usize },
}

/// Sink for the responses to requests. The defaults are those of a byte stream, which sends a
/// response like any other frame.
pub(crate) trait ReplySink: FrameSink {
    /// Returns the sink that this one wraps. The defaults below take the properties of the sender
    /// from it.
    fn wrapped(&self) -> Option<&dyn ReplySink> {
        None
    }

    /// Announces one more response, which [`ReplySink::respond`] sends or
    /// [`ReplySink::cancel_response`] withdraws.
    fn expect_response(&self) {}

    /// Sends an announced response, one whole frame.
    fn respond(&self, frame: &[u8], _encoded: Encoded) {
        self.send(frame);
    }

    /// Withdraws an announced response: its request was cancelled.
    fn cancel_response(&self) {}

    /// Sends without blocking; `response` is set for an announced response. Returns `false` if this
    /// sink cannot do so; nothing was sent then.
    fn try_send(&self, _frames: &[u8], _response: Option<Encoded>) -> bool {
        false
    }

    /// Returns the authenticated principal of the requests whose responses are sent here.
    fn principal(&self) -> Option<&str> {
        self.wrapped()?.principal()
    }

    /// Returns the scopes of that principal.
    #[cfg(feature = "http-server")]
    fn scopes(&self) -> &[String] {
        self.wrapped().map_or(&[], |sink| sink.scopes())
    }

    /// Returns the process at the other end of the HTTP connection.
    #[cfg(feature = "http-server")]
    fn peer(&self) -> Option<crate::transport::http_server::Peer> {
        self.wrapped()?.peer()
    }

    /// Returns a field of the HTTP request's head that the server passes to handlers.
    #[cfg(feature = "http-server")]
    fn header(&self, name: &str) -> Option<&str> {
        self.wrapped()?.header(name)
    }

    /// Returns the number of the HTTP session.
    fn session(&self) -> Option<u64> {
        self.wrapped()?.session()
    }

    /// Disconnects the peer, which reconnects after this time and then receives the messages sent
    /// meanwhile. Does nothing if peers cannot reconnect.
    fn pause(&self, time: Duration) {
        self.wrapped().into_iter().for_each(|sink| sink.pause(time));
    }

    /// Records an event of the request, if it is observed.
    #[cfg(feature = "observe")]
    fn record_event(&self, _event: RequestEvent) {}

    /// Returns the number of the HTTP exchange that carries all frames of this sink.
    #[cfg(feature = "http-server")]
    fn exchange(&self) -> Option<u64> {
        self.wrapped()?.exchange()
    }
}

/// Both directions of one connection.
///
/// ```no_run
/// use std::os::unix::net::UnixListener;
/// use tinymcp::{Limits, Link, Server};
///
/// let listener = UnixListener::bind("/run/board.sock")?;
/// let (stream, _) = listener.accept()?;
/// let link = Link::lines(stream.try_clone()?, stream, &Limits::default());
/// Server::new("board", "1.0.0").serve(link)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`memory`] and [`memory_links`] create links within a process.
pub struct Link {
    pub(crate) source: Box<dyn FrameSource>,
    pub(crate) sink: Arc<dyn ReplySink>,
}

impl Link {
    /// Newline-delimited messages over any byte streams: a Unix socket, a serial line, a pipe.
    ///
    /// `limits` gives the longest accepted line and the bytes that are buffered for a slow peer.
    /// Use the same limits as for the server.
    pub fn lines(
        read: impl io::Read + Send + 'static,
        write: impl io::Write + Send + 'static,
        limits: &crate::Limits,
    ) -> Link {
        Link {
            source: Box::new(LineReader::new(read, limits.frame_bytes)),
            sink: Arc::new(LineSink::new(write, limits.backlog_bytes)),
        }
    }
}
