//! Where frames come from and where they go: one seam for every transport.
//!
//! A [`Link`] is an [`Inlet`] that gives one message after another and an [`Outlet`] that any
//! thread may send through. A transport frames; it never reads a message's content.
//!
//! # Invariants
//! - A frame handed to an [`Outlet`] ends with a newline and contains no other.
//! - Frames of concurrent senders never interleave.
//! - Nothing is buffered without a bound: an inlet gives up a frame that is too long, an outlet
//!   makes its senders wait.

#[cfg(feature = "client")]
pub(crate) mod carrier;
#[cfg(all(feature = "client", unix))]
mod child;
#[cfg(feature = "client")]
mod child_settings;
pub(crate) mod condition;
#[cfg(feature = "http-client")]
pub(crate) mod http_client;
#[cfg(feature = "http-server")]
pub(crate) mod http_server;
mod line;
mod memory;
#[cfg(all(feature = "client", unix))]
mod pipe;
#[cfg(any(feature = "http-server", feature = "http-client"))]
pub(crate) mod sse;
mod stdio;
#[cfg(feature = "client")]
mod stream;
#[cfg(feature = "client")]
mod turn;

#[cfg(all(feature = "client", unix))]
pub(crate) use child::ChildDial;
#[cfg(feature = "client")]
pub(crate) use child_settings::ChildSettings;
#[cfg(feature = "client")]
pub use child_settings::Stderr;
pub(crate) use line::is_gone;
use line::{LineOutlet, LineReader};
pub use memory::{MemoryEnd, memory, memory_links};
pub(crate) use stdio::own_stdio;
#[cfg(feature = "client")]
pub(crate) use stream::StreamCarrier;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::Encoded;

/// What an [`Inlet`] gives.
pub(crate) enum Input<'a> {
    /// One message, without its delimiter.
    Frame(&'a [u8]),
    /// A message so large that it is better taken than copied. Whatever is left here in exchange
    /// is read into later.
    Large(&'a mut Vec<u8>),
    /// A message beyond the limit; it was skipped up to its delimiter.
    TooLong {
        /// Its first bytes, up to the limit.
        head: &'a [u8],
        /// Its last bytes, a few hundred.
        tail: &'a [u8],
    },
    /// The peer will send no more.
    End,
    /// Reading failed.
    Failed(io::Error),
}

/// Gives one frame after another; owned by the thread that reads.
pub(crate) trait Inlet: Send {
    /// Waits for the next frame.
    fn next(&mut self) -> Input<'_>;

    /// Waits for the next frame until `by` at most, or until it is told to look up; nothing when none
    /// has come by then. Only where [`Inlet::patient`] says so.
    #[cfg(feature = "client")]
    fn next_by(&mut self, _by: Instant) -> Option<Input<'_>> {
        Some(self.next())
    }

    /// Whether waiting for a frame can be given up, so that any thread may do it.
    #[cfg(feature = "client")]
    fn patient(&self) -> bool {
        false
    }

    /// Whether another frame can be had without waiting: while it can, answers are collected and
    /// leave in one write.
    fn ready(&self) -> bool;
}

/// Takes frames from any thread.
pub(crate) trait Outlet: Send + Sync {
    /// Sends one or more whole frames. Waits while the peer reads too slowly; does nothing once
    /// the peer is gone.
    fn send(&self, frames: &[u8]);

    /// This outlet for senders that do not wait for ever, where it can do that by itself.
    #[cfg(feature = "client")]
    fn feed(self: Arc<Self>) -> Option<Arc<dyn stream::Feed>> {
        None
    }

    /// One more answer will come here.
    fn expect(&self) {}

    /// Sends an expected answer, one whole frame.
    fn answer(&self, frame: &[u8], _encoded: Encoded) {
        self.send(frame);
    }

    /// An expected answer will not come: its request was cancelled.
    fn abandon(&self) {}

    /// Sends, or answers, without waiting for the peer, whatever that means for a peer that does
    /// not read. False: this outlet cannot, and nothing was sent.
    fn post(&self, _frames: &[u8], _answer: Option<Encoded>) -> bool {
        false
    }

    /// Who sends the requests that are answered here, where that was proven.
    fn principal(&self) -> Option<&str> {
        None
    }

    /// Lets go of the peer, who comes back after this time for what was sent meanwhile. Does
    /// nothing where peers cannot come back.
    fn pause(&self, _time: Duration) {}

    /// Whether this is the way back of that HTTP exchange, whose peer nothing else is for.
    #[cfg(feature = "http-server")]
    fn ends_with(&self, _exchange: u64) -> bool {
        false
    }

    /// Whether the peer is gone.
    fn closed(&self) -> bool;

    /// Why sending failed, where that is not that the peer is gone: what was not sent is lost. Told once.
    fn failure(&self) -> Option<io::Error> {
        None
    }

    /// Whether a send would have to wait now.
    fn congested(&self) -> bool;

    /// Waits until what was sent has left, at most until then. Whether it has, or never will.
    fn drain(&self, _until: Instant) -> bool {
        true
    }

    /// Lets what was sent before leave until `deadline`; from then on every send does nothing, and
    /// those that wait come back.
    fn close(&self, deadline: Instant);
}

/// Both directions of one connection.
pub struct Link {
    pub(crate) inlet: Box<dyn Inlet>,
    pub(crate) outlet: Arc<dyn Outlet>,
}

impl Link {
    /// Newline-delimited messages over any byte streams: a Unix socket, a serial line, a pipe.
    ///
    /// `limits` gives the longest accepted line and how much may wait for a peer that does not
    /// read; give the server the same.
    pub fn lines(
        read: impl io::Read + Send + 'static,
        write: impl io::Write + Send + 'static,
        limits: &crate::Limits,
    ) -> Link {
        Link {
            inlet: Box::new(LineReader::new(read, limits.frame_bytes)),
            outlet: Arc::new(LineOutlet::new(write, limits.backlog_bytes)),
        }
    }
}
