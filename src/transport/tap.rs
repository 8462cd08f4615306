//! Observation of frames: wrappers that pass each frame to a function of the program.
//!
//! Without an observer no wrapper exists. Only the setters of an observer make an [`Observer`], so
//! that a program that calls none of them links no wrapper.
//!
//! # Invariants
//! - A sent frame is observed before it is written, so a response is never observed before its
//!   request.
//! - No lock of a connection is held while the observer runs.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "client")]
pub(super) use self::clients::current;
use super::framing::{FrameSink, FrameSource, Input, Link, ReplySink};
use crate::era::Encoded;

/// Direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer to this process.
    Received,
    /// From this process to the peer.
    Sent,
}

/// A message that passes a connection, as [`Server::on_frame`](crate::Server::on_frame) and
/// `HubBuilder::on_frame` report it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Frame<'f> {
    /// The connection. For a server `stdio`, `link`, `session-N`, or `request-N` for an HTTP
    /// request without a session; the session that this request opens has the same number. For a
    /// hub the key of the server.
    pub connection: &'f str,
    /// The authenticated principal of a client.
    pub principal: Option<&'f str>,
    /// The direction.
    pub direction: Direction,
    /// The bytes, without a newline at the end. They need not be a valid message.
    pub bytes: &'f [u8],
    /// False if the frame is longer than [`Limits::frame_bytes`](crate::Limits::frame_bytes):
    /// `bytes` is its beginning.
    pub is_whole: bool,
}

/// Function of the program that gets each frame, and the wrappers that call it.
pub(crate) trait Observer: Send + Sync {
    fn observe(&self, frame: &Frame<'_>);

    fn source(&self, tap: Tap, source: Box<dyn FrameSource>) -> Box<dyn FrameSource>;

    fn sink(&self, tap: Tap, sink: Arc<dyn ReplySink>) -> Arc<dyn ReplySink>;

    #[cfg(feature = "client")]
    fn clients(&self) -> &dyn clients::ClientObserver;
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
    fn clients(&self) -> &dyn clients::ClientObserver {
        &clients::Wrappers
    }
}

/// The observer of one connection.
#[derive(Clone)]
pub(crate) struct Tap {
    observer: Arc<dyn Observer>,
    connection: Arc<str>,
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

    /// Observes frames of this side, each with a newline or the only one.
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

    #[cfg(feature = "client")]
    fn next_by(&mut self, by: Instant) -> Option<Input<'_>> {
        let input = self.source.next_by(by)?;
        self.tap.input(&input);
        Some(input)
    }

    #[cfg(feature = "client")]
    fn patient(&self) -> bool {
        self.source.patient()
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
    fn expect(&self) {
        self.sink.expect();
    }

    fn answer(&self, frame: &[u8], encoded: Encoded) {
        self.tap.sent(frame);
        self.sink.answer(frame, encoded);
    }

    fn abandon(&self) {
        self.sink.abandon();
    }

    fn post(&self, frames: &[u8], answer: Option<Encoded>) -> bool {
        // A sink that cannot post gets the same frames again.
        let posted = self.sink.post(frames, answer);
        if posted {
            self.tap.sent(frames);
        }
        posted
    }

    fn principal(&self) -> Option<&str> {
        self.sink.principal()
    }

    fn pause(&self, time: Duration) {
        self.sink.pause(time);
    }

    #[cfg(feature = "http-server")]
    fn exchange(&self) -> Option<u64> {
        self.sink.exchange()
    }
}

/// Observation of client connections.
#[cfg(feature = "client")]
#[allow(dead_code)] // Some of it is used by the hub and over HTTP only.
pub(crate) mod clients {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Instant;

    use super::{Direction, Tap};
    use crate::transport::client::stream::FrameWriter;
    use crate::transport::client::{Answered, Failure, MessageHandler};

    /// Wrappers of the parts of client connections.
    pub(crate) trait ClientObserver {
        fn writer(&self, tap: Tap, writer: Arc<dyn FrameWriter>) -> Arc<dyn FrameWriter>;

        fn handler(&self, tap: Tap, handler: Arc<dyn MessageHandler>) -> Arc<dyn MessageHandler>;
    }

    pub(super) struct Wrappers;

    impl ClientObserver for Wrappers {
        fn writer(&self, tap: Tap, writer: Arc<dyn FrameWriter>) -> Arc<dyn FrameWriter> {
            Arc::new(TappedWriter { writer, tap })
        }

        fn handler(&self, tap: Tap, handler: Arc<dyn MessageHandler>) -> Arc<dyn MessageHandler> {
            Arc::new(TappedHandler { handler, tap })
        }
    }

    impl Tap {
        pub(in crate::transport) fn writer(&self, writer: Arc<dyn FrameWriter>) -> Arc<dyn FrameWriter> {
            self.observer.clients().writer(self.clone(), writer)
        }

        pub(in crate::transport) fn handler(
            &self,
            handler: Arc<dyn MessageHandler>,
        ) -> Arc<dyn MessageHandler> {
            self.observer.clients().handler(self.clone(), handler)
        }
    }

    thread_local! {
        /// Observer of the client connections that this thread makes.
        static CONNECTING: RefCell<Option<Tap>> = const { RefCell::new(None) };
    }

    /// Observes the client connections that `connect` makes. A connection is made on the thread
    /// that asks for it.
    pub(crate) fn observing<R>(tap: Option<Tap>, connect: impl FnOnce() -> R) -> R {
        /// Restores the observer also after a panic.
        struct Restore(Option<Tap>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CONNECTING.replace(self.0.take());
            }
        }
        let _restore = Restore(CONNECTING.replace(tap));
        connect()
    }

    /// The observer of a client connection that is being made.
    pub(in crate::transport) fn current() -> Option<Tap> {
        CONNECTING.with_borrow(Clone::clone)
    }

    struct TappedWriter {
        writer: Arc<dyn FrameWriter>,
        tap: Tap,
    }

    impl FrameWriter for TappedWriter {
        fn send(&self, frame: &[u8], deadline: Instant) -> Result<(), Failure> {
            self.tap.sent(frame);
            self.writer.send(frame, deadline)
        }

        fn close(&self, deadline: Instant) {
            self.writer.close(deadline);
        }
    }

    struct TappedHandler {
        handler: Arc<dyn MessageHandler>,
        tap: Tap,
    }

    impl MessageHandler for TappedHandler {
        fn frame(&self, frame: &[u8]) -> Option<Answered> {
            self.tap.received(frame);
            self.handler.frame(frame)
        }

        fn large(&self, frame: &mut Vec<u8>) -> Option<Answered> {
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
    }
}
