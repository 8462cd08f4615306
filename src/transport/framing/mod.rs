//! Frame sources and sinks: the seam between a server and its transports.
//!
//! A [`Link`] is a [`FrameSource`], which one thread reads, and a [`FrameSink`], which any thread
//! writes to.
//!
//! # Invariants
//! - A frame given to a [`FrameSink`] ends with a newline and contains no other.
//! - Frames of concurrent senders never interleave.
//! - Nothing is buffered without a bound: a source drops a frame beyond its limit, and a sink
//!   blocks its senders.

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
pub(crate) use stdio::own_stdio;

/// Result of [`FrameSource::next`].
pub(crate) enum Input<'a> {
    /// One message, without its delimiter.
    Frame(&'a [u8]),
    /// A large message. The receiver may take the buffer; the source reads into what is left here.
    Large(&'a mut Vec<u8>),
    /// A message beyond the limit. It was skipped up to its delimiter.
    TooLong {
        /// Its first bytes, up to the limit.
        head: &'a [u8],
        /// Its last bytes, a few hundred.
        tail: &'a [u8],
    },
    /// The peer sends nothing more.
    End,
    /// Reading failed.
    Failed(io::Error),
}

/// Source of frames, owned by the thread that reads.
pub(crate) trait FrameSource: Send {
    /// Waits for the next frame.
    fn next(&mut self) -> Input<'_>;

    /// Waits for the next frame until `by` at most, or until the source is interrupted. `None` if
    /// none arrived. Only where [`FrameSource::patient`] returns `true`.
    #[cfg(feature = "client")]
    fn next_by(&mut self, _by: Instant) -> Option<Input<'_>> {
        Some(self.next())
    }

    /// Returns whether a wait for a frame can be given up, so that any thread may read.
    #[cfg(feature = "client")]
    fn patient(&self) -> bool {
        false
    }

    /// Returns whether another frame is available without waiting. The server then collects its
    /// responses and sends them in one write.
    fn ready(&self) -> bool;
}

/// Sink of frames, shared by all threads.
pub(crate) trait FrameSink: Send + Sync {
    /// Sends one or more whole frames. Blocks while the peer reads too slowly; does nothing after
    /// the peer is gone.
    fn send(&self, frames: &[u8]);

    /// Returns this sink for senders with a deadline, if it supports them.
    #[cfg(feature = "client")]
    fn feed(self: Arc<Self>) -> Option<Arc<dyn FrameWriter>> {
        None
    }

    /// Returns whether the peer is gone.
    fn closed(&self) -> bool;

    /// Returns why sending failed, once, unless the peer is just gone. Frames that were not sent
    /// are lost.
    fn failure(&self) -> Option<io::Error> {
        None
    }

    /// Returns whether a send would block now.
    fn congested(&self) -> bool;

    /// Waits until all frames have left, until `until` at most. Returns whether they have.
    fn drain(&self, _until: Instant) -> bool {
        true
    }

    /// Lets frames leave until `deadline`. After that every send does nothing, and blocked senders
    /// return.
    fn close(&self, deadline: Instant);
}

/// Sink for the responses to requests. The defaults are those of a byte stream, which sends a
/// response like any other frame.
pub(crate) trait ReplySink: FrameSink {
    /// Announces one more response.
    fn expect(&self) {}

    /// Sends an announced response, one whole frame.
    fn answer(&self, frame: &[u8], _encoded: Encoded) {
        self.send(frame);
    }

    /// Withdraws an announced response: its request was cancelled.
    fn abandon(&self) {}

    /// Sends without waiting for the peer; `answer` is that of an announced response. Returns
    /// `false` if this sink cannot, and then nothing was sent.
    fn post(&self, _frames: &[u8], _answer: Option<Encoded>) -> bool {
        false
    }

    /// Returns the authenticated principal of the requests that are answered here.
    fn principal(&self) -> Option<&str> {
        None
    }

    /// Disconnects the peer, who reconnects after this time for what was sent meanwhile. Does
    /// nothing where peers cannot reconnect.
    fn pause(&self, _time: Duration) {}

    /// Returns the number of the HTTP exchange without which nothing sent here arrives.
    #[cfg(feature = "http-server")]
    fn exchange(&self) -> Option<u64> {
        None
    }
}

/// Both directions of one connection.
pub struct Link {
    pub(crate) source: Box<dyn FrameSource>,
    pub(crate) sink: Arc<dyn ReplySink>,
}

impl Link {
    /// Newline-delimited messages over any byte streams: a Unix socket, a serial line, a pipe.
    ///
    /// `limits` gives the longest accepted line and the bytes that may wait for a peer that does
    /// not read. Give the server the same limits.
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
