//! Observation of frames: wrappers that pass each frame to a function of the program.
//!
//! Without an observer no wrapper exists. Only the setters of an observer create an [`Observer`],
//! so a program that calls none of them links no wrapper.
//!
//! # Invariants
//! - A sent frame is observed before it is written, so a response is never observed before its
//!   request.
//! - No lock of a connection is held while the observer runs.

use std::io;
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "client")]
use super::client::Transport;
use super::framing::{FrameSink, FrameSource, Input, Link, ReplySink};
use crate::era::Encoded;

/// Direction of a frame. It is a field of [`Frame`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer to this process.
    Received,
    /// From this process to the peer.
    Sent,
}

/// A message of a connection, as [`Server::on_frame`](crate::Server::on_frame),
/// `ClientBuilder::on_frame` and `HubBuilder::on_frame` report it.
///
/// ```
/// use std::sync::mpsc;
/// use tinymcp::{Direction, Server};
///
/// // The function must not block; another thread writes the log.
/// let (frames, log) = mpsc::sync_channel(256);
/// let mut server = Server::new("board", "1.0.0");
/// server.on_frame(move |frame| {
///     let sign = if frame.direction == Direction::Received { '<' } else { '>' };
///     let text = String::from_utf8_lossy(frame.bytes);
///     // Drops the frame if the log is too slow.
///     let _ = frames.try_send(format!("{} {sign} {text}", frame.connection));
/// });
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Frame<'f> {
    /// The connection. For a server `stdio`, `link`, `session-N`, or `request-N` for an HTTP
    /// request without a session; the session that this request opens has the same number. For a
    /// client `server`, for a hub the key of the server.
    pub connection: &'f str,
    /// The authenticated principal of a client.
    pub principal: Option<&'f str>,
    /// The direction.
    pub direction: Direction,
    /// The bytes, without a newline at the end. They need not be a valid message.
    pub bytes: &'f [u8],
    /// `false` if the frame is longer than [`Limits::frame_bytes`](crate::Limits::frame_bytes).
    /// Then `bytes` is its beginning.
    pub is_whole: bool,
}

/// Function of the program that receives each frame, and constructors of the wrappers that call it.
pub(crate) trait Observer: Send + Sync {
    fn observe(&self, frame: &Frame<'_>);

    fn source(&self, tap: Tap, source: Box<dyn FrameSource>) -> Box<dyn FrameSource>;

    fn sink(&self, tap: Tap, sink: Arc<dyn ReplySink>) -> Arc<dyn ReplySink>;

    #[cfg(feature = "client")]
    fn transport(&self, tap: Tap, transport: Arc<dyn Transport>) -> Arc<dyn Transport>;
}

impl<F: Fn(&Frame<'_>) + Send + Sync> Observer for F {
    fn observe(&self, frame: &Frame<'_>) {
        self(frame);
    }

    fn source(&self, tap: Tap, source: Box<dyn FrameSource>) -> Box<dyn FrameSource> {
        Box::new(TappedSource { source, tap })
    }

    fn sink(&self, tap: Tap, sink: Arc<dyn ReplySink>) -> Arc<dyn ReplySink> {
        Arc::new(TappedSink { sink, tap })
    }

    #[cfg(feature = "client")]
    fn transport(&self, tap: Tap, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(clients::TappedTransport { transport, tap })
    }
}

/// The observer of one connection.
#[derive(Clone)]
pub(crate) struct Tap {
    observer: Arc<dyn Observer>,
    pub(crate) connection: Arc<str>,
    principal: Option<Arc<str>>,
}

impl Tap {
    pub(crate) fn new(observer: &Arc<dyn Observer>, connection: &str, principal: Option<Arc<str>>) -> Tap {
        Tap { observer: Arc::clone(observer), connection: connection.into(), principal }
    }

    fn observe(&self, direction: Direction, bytes: &[u8], is_whole: bool) {
        let (connection, principal) = (&*self.connection, self.principal.as_deref());
        self.observer.observe(&Frame { connection, principal, direction, bytes, is_whole });
    }

    /// Observes a frame of the peer.
    pub(crate) fn received(&self, frame: &[u8]) {
        self.observe(Direction::Received, frame.strip_suffix(b"\n").unwrap_or(frame), true);
    }

    /// Observes frames of this side. Frames are separated by newlines.
    pub(crate) fn sent(&self, frames: &[u8]) {
        for frame in frames.split(|byte| *byte == b'\n').filter(|frame| !frame.is_empty()) {
            self.observe(Direction::Sent, frame, true);
        }
    }

    fn input(&self, input: &Input<'_>) {
        match input {
            Input::Frame(frame) => self.received(frame),
            Input::Large(frame) => self.received(frame),
            Input::TooLong { head, .. } => self.observe(Direction::Received, head, false),
            Input::End | Input::Failed(_) => {}
        }
    }

    pub(crate) fn link(self, link: Link) -> Link {
        Link { source: self.source(link.source), sink: self.sink(link.sink) }
    }

    pub(crate) fn source(&self, source: Box<dyn FrameSource>) -> Box<dyn FrameSource> {
        self.observer.source(self.clone(), source)
    }

    pub(crate) fn sink(&self, sink: Arc<dyn ReplySink>) -> Arc<dyn ReplySink> {
        self.observer.sink(self.clone(), sink)
    }
}

struct TappedSource {
    source: Box<dyn FrameSource>,
    tap: Tap,
}

impl FrameSource for TappedSource {
    fn next(&mut self) -> Input<'_> {
        let input = self.source.next();
        self.tap.input(&input);
        input
    }

    fn ready(&self) -> bool {
        self.source.ready()
    }
}

struct TappedSink {
    sink: Arc<dyn ReplySink>,
    tap: Tap,
}

impl FrameSink for TappedSink {
    fn send(&self, frames: &[u8]) {
        self.tap.sent(frames);
        self.sink.send(frames);
    }

    fn closed(&self) -> bool {
        self.sink.closed()
    }

    fn failure(&self) -> Option<io::Error> {
        self.sink.failure()
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

impl ReplySink for TappedSink {
    fn wrapped(&self) -> Option<&dyn ReplySink> {
        Some(&*self.sink)
    }

    fn expect_response(&self) {
        self.sink.expect_response();
    }

    fn respond(&self, frame: &[u8], encoded: Encoded) {
        self.tap.sent(frame);
        self.sink.respond(frame, encoded);
    }

    fn cancel_response(&self) {
        self.sink.cancel_response();
    }

    fn try_send(&self, frames: &[u8], response: Option<Encoded>) -> bool {
        // If the sink cannot do so, the caller sends the same frames with `respond` or `send`.
        let sent = self.sink.try_send(frames, response);
        if sent {
            self.tap.sent(frames);
        }
        sent
    }
}

/// Observation of client connections.
#[cfg(feature = "client")]
mod clients {
    use std::ops::Deref;
    use std::sync::Arc;
    use std::time::Instant;

    use super::{Direction, Tap};
    use crate::error::Error;
    use crate::transport::client::{
        Completed, Failure, MessageHandler, NegotiatedEra, Outgoing, Properties, SendMode, Transport,
    };

    impl Tap {
        pub(crate) fn transport(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
            self.observer.transport(self.clone(), transport)
        }
    }

    pub(super) struct TappedTransport {
        pub(super) transport: Arc<dyn Transport>,
        pub(super) tap: Tap,
    }

    impl Transport for TappedTransport {
        fn properties(&self) -> Properties {
            self.transport.properties()
        }

        fn start(&self, sink: Arc<dyn MessageHandler>) -> Result<(), Error> {
            self.transport.start(Arc::new(TappedHandler { handler: sink, tap: self.tap.clone() }))
        }

        fn send(&self, message: &Outgoing<'_>, mode: SendMode<'_>) -> Result<(), Failure> {
            self.tap.sent(message.frame);
            self.transport.send(message, mode)
        }

        fn abandon(&self, id: u64) {
            self.transport.abandon(id);
        }

        fn on_negotiated(&self, era: &NegotiatedEra) {
            self.transport.on_negotiated(era);
        }

        fn read_on_caller(&self, sink: &dyn MessageHandler, turn: &mut dyn FnMut() -> Option<Instant>) {
            self.transport.read_on_caller(&TappedHandler { handler: sink, tap: self.tap.clone() }, turn);
        }

        fn resume_reader(&self) {
            self.transport.resume_reader();
        }

        fn interrupt_caller(&self) {
            self.transport.interrupt_caller();
        }

        fn stderr_tail(&self) -> Option<String> {
            self.transport.stderr_tail()
        }

        fn peer_has_read(&self) -> bool {
            self.transport.peer_has_read()
        }

        fn kill(&self) {
            self.transport.kill();
        }

        fn close(&self, deadline: Instant) {
            self.transport.close(deadline);
        }
    }

    struct TappedHandler<H> {
        handler: H,
        tap: Tap,
    }

    impl<'h, H: Deref<Target = dyn MessageHandler + 'h> + Send + Sync> MessageHandler for TappedHandler<H> {
        fn frame(&self, frame: &[u8]) -> Option<Completed> {
            self.tap.received(frame);
            self.handler.frame(frame)
        }

        fn large(&self, frame: &mut Vec<u8>) -> Option<Completed> {
            self.tap.received(frame);
            self.handler.large(frame)
        }

        fn waiting(&self) -> bool {
            self.handler.waiting()
        }

        fn oversized(&self, head: &[u8], tail: &[u8]) {
            self.tap.observe(Direction::Received, head, false);
            self.handler.oversized(head, tail);
        }

        fn fail(&self, id: u64, failure: Failure) {
            self.handler.fail(id, failure);
        }

        fn end(&self, failure: Failure) {
            self.handler.end(failure);
        }

        fn deadline(&self, id: u64) -> Option<Instant> {
            self.handler.deadline(id)
        }

        #[cfg(feature = "oauth")]
        fn ask_user(&self, begins: bool) {
            self.handler.ask_user(begins);
        }
    }
}
