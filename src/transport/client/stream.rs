//! Transport over streams: one thread reads frames and calls the handler, callers write.
//!
//! Combines a [`FrameSource`], a [`FrameWriter`] and a [`ProcessGuard`] into a [`Transport`], for
//! links and child processes.
//!
//! # Threads
//! [`Transport::start`] starts the reader. It ends with the input, or when [`ProcessGuard::end`]
//! ends the input. Callers may read in its place (`handoff.rs`). A link over blocking streams has a
//! second thread, which writes.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::Error;

use super::handoff::Handoff;
use super::{Failure, MessageHandler, NegotiatedEra, Outgoing, Properties, SendMode, Transport};
use crate::sync::{Condition, lock, wait_for};
use crate::transport::framing::{FrameSource, Input, Link, ReplySink};

/// Stack size of the reader thread. Parsing does not recurse, and no user code runs on this thread.
const READER_STACK: usize = 128 << 10;

/// Time that a failed sender waits until the reader thread reports the reason.
const REASON_TIMEOUT: Duration = Duration::from_millis(1500);

/// Writer for the frames of any thread, with a deadline for each frame.
pub(crate) trait FrameWriter: Send + Sync {
    /// Sends one whole frame, or queues it after earlier ones. Blocks until `deadline` at most.
    fn send(&self, frame: &[u8], deadline: Instant) -> Result<(), Failure>;

    /// Writes the queued frames until `deadline`, then closes the stream.
    fn close(&self, deadline: Instant);
}

/// Process at the other end of the streams. [`LinkGuard`] implements it for links, which have none.
pub(super) trait ProcessGuard: Send + Sync {
    /// Returns why the input has ended. Called once, on the reader thread; may block for a short
    /// time.
    fn end_reason(&self) -> String;

    /// See [`Transport::stderr_tail`].
    fn stderr_tail(&self) -> Option<String>;

    /// See [`Transport::peer_has_read`].
    fn peer_has_read(&self) -> bool {
        true
    }

    /// See [`Transport::interrupt_caller`].
    fn interrupt_caller(&self) {}

    /// See [`Transport::kill`].
    fn kill(&self) {}

    /// Ends the process. Returns whether the reader thread ends as well and can be joined.
    fn end(&self) -> bool;

    /// Runs after the reader thread has ended.
    fn reader_ended(&self) {}
}

/// Transport over streams.
pub(crate) struct StreamTransport {
    source: Mutex<Option<Box<dyn FrameSource>>>,
    writer: Arc<dyn FrameWriter>,
    guard: Arc<dyn ProcessGuard>,
    running: Mutex<Option<Running>>,
    end: Arc<EndReason>,
    handoff: Arc<Handoff>,
}

/// Reason why the connection has ended.
#[derive(Default)]
struct EndReason {
    /// `None` while the connection is open.
    reason: Mutex<Option<Failure>>,
    is_set: Condvar,
}

impl EndReason {
    /// Stores the reason, unless there is one already. Returns the stored reason.
    fn set(&self, reason: Failure) -> Failure {
        let reason = lock(&self.reason).get_or_insert(reason).clone();
        self.is_set.notify_all();
        reason
    }

    /// Waits for the reason of the end. A write fails before the reader thread finds the reason, so
    /// a short wait gives a better error message. Returns `otherwise` if no reason is found.
    fn wait(&self, otherwise: Failure, deadline: Instant) -> Failure {
        let deadline = deadline.min(Instant::now() + REASON_TIMEOUT);
        let mut reason = lock(&self.reason);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match &*reason {
                Some(reason) => return reason.clone(),
                None if left.is_zero() => return otherwise,
                None => reason = wait_for(&self.is_set, reason, left),
            }
        }
    }
}

/// State of a started transport.
struct Running {
    handler: Arc<dyn MessageHandler>,
    reader: JoinHandle<()>,
}

impl StreamTransport {
    pub(super) fn new(
        source: Box<dyn FrameSource>,
        writer: Arc<dyn FrameWriter>,
        guard: Arc<dyn ProcessGuard>,
    ) -> StreamTransport {
        StreamTransport {
            source: Mutex::new(Some(source)),
            writer,
            guard,
            running: Mutex::new(None),
            end: Arc::default(),
            handoff: Arc::default(),
        }
    }

    /// Creates a transport over a link.
    pub(crate) fn over(link: Link) -> StreamTransport {
        let writer = Arc::clone(&link.sink).frame_writer();
        let writer = writer.unwrap_or_else(|| Arc::new(ThreadWriter::new(link.sink)));
        StreamTransport::new(link.source, writer, Arc::new(LinkGuard))
    }
}

impl Transport for StreamTransport {
    fn properties(&self) -> Properties {
        Properties { timeout_is_legacy: true, ..Properties::default() }
    }

    fn start(&self, handler: Arc<dyn MessageHandler>) -> Result<(), Error> {
        let Some(mut source) = lock(&self.source).take() else { return Ok(()) };
        let guard = Arc::clone(&self.guard);
        let (running, end, handoff) =
            (Arc::clone(&handler), Arc::clone(&self.end), Arc::clone(&self.handoff));
        let reader = std::thread::Builder::new().name("mcp-client".into()).stack_size(READER_STACK).spawn(
            move || {
                loop {
                    let answered = match source.next() {
                        Input::Frame(frame) => handler.frame(frame),
                        Input::Large(frame) => handler.large(frame),
                        Input::TooLong { head, tail } => {
                            handler.oversized(head, tail);
                            None
                        }
                        Input::End => return handler.end(end.set(Failure::Closed(guard.end_reason()))),
                        Input::Failed(error) => return handler.end(end.set(Failure::Io(error.to_string()))),
                    };
                    // The thread that waits for this response may read the next one itself.
                    if let Some(waking) = answered.and_then(|answered| answered.waking) {
                        if source.interruptible() && waking.waiter.is_blocked() && !handler.waiting() {
                            source = handoff.lend(source, &*handler, waking);
                        }
                    }
                }
            },
        )?;
        *lock(&self.running) = Some(Running { handler: running, reader });
        Ok(())
    }

    fn send(&self, message: &Outgoing<'_>, _mode: SendMode<'_>) -> Result<(), Failure> {
        self.writer.send(message.frame, message.deadline).map_err(|failure| match failure {
            Failure::Closed(_) => self.end.wait(failure, message.deadline),
            other => other,
        })
    }

    fn abandon(&self, _id: u64) {}

    fn on_negotiated(&self, _era: &NegotiatedEra) {}

    fn read_on_caller(&self, handler: &dyn MessageHandler, next: &mut dyn FnMut() -> Option<Instant>) {
        self.handoff.read(handler, next);
    }

    fn resume_reader(&self) {
        self.handoff.resume_reader();
    }

    fn interrupt_caller(&self) {
        if self.handoff.caller().is_some() {
            self.guard.interrupt_caller();
        }
    }

    fn stderr_tail(&self) -> Option<String> {
        self.guard.stderr_tail()
    }

    fn peer_has_read(&self) -> bool {
        self.guard.peer_has_read()
    }

    fn kill(&self) {
        self.guard.kill();
    }

    fn close(&self, deadline: Instant) {
        let running = lock(&self.running).take();
        let closed = self.end.set(Failure::Closed("the connection was closed by this side".to_owned()));
        // The reader thread reads the remaining output while pending frames are written.
        self.handoff.end();
        self.writer.close(deadline);
        let ends = self.guard.end();
        let Some(running) = running else { return };
        running.handler.end(closed);
        // The reader thread may drop the last handle of a client and must not join itself.
        let this = std::thread::current().id();
        if ends && running.reader.thread().id() != this && self.handoff.caller() != Some(this) {
            // OK to drop: the reader does not panic.
            let _ = running.reader.join();
            self.guard.reader_ended();
        }
    }
}

/// Writer for a stream whose writes cannot be interrupted. A separate thread writes, so that a peer
/// that does not read blocks no sender beyond its deadline.
pub(super) struct ThreadWriter {
    shared: Arc<Shared>,
    sink: Arc<dyn ReplySink>,
}

struct Shared {
    state: Mutex<Queue>,
    /// Wakes the writer thread (frames were queued), senders (there is room) and `close` (the last
    /// write has ended).
    changed: Condition,
}

#[derive(Default)]
struct Queue {
    frames: Vec<u8>,
    /// The writer thread was started.
    started: bool,
    /// The writer thread is writing a batch.
    writing: bool,
    closed: bool,
}

/// Number of queued bytes beyond which senders wait: the capacity of a Linux pipe.
const QUEUE_BYTES: usize = 64 << 10;

impl ThreadWriter {
    pub(super) fn new(sink: Arc<dyn ReplySink>) -> ThreadWriter {
        ThreadWriter {
            shared: Arc::new(Shared { state: Mutex::default(), changed: Condition::default() }),
            sink,
        }
    }

    fn start(&self) -> Result<(), Failure> {
        let (shared, sink) = (Arc::clone(&self.shared), Arc::clone(&self.sink));
        let thread = std::thread::Builder::new().name("mcp-client-write".into()).stack_size(READER_STACK);
        match thread.spawn(move || shared.write_to(&*sink)) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::Io(error.to_string())),
        }
    }
}

impl Shared {
    fn write_to(&self, sink: &dyn ReplySink) {
        let mut batch = Vec::new();
        let mut state = lock(&self.state);
        loop {
            while state.frames.is_empty() && !state.closed {
                state = self.changed.wait(state);
            }
            if state.frames.is_empty() {
                return;
            }
            state.writing = true;
            batch.clear();
            std::mem::swap(&mut batch, &mut state.frames);
            self.changed.release(state);
            sink.send(&batch);
            state = lock(&self.state);
            state.closed |= sink.closed();
            state.writing = false;
            // `close` waits for this.
            self.changed.release(state);
            state = lock(&self.state);
        }
    }
}

impl FrameWriter for ThreadWriter {
    fn send(&self, frame: &[u8], deadline: Instant) -> Result<(), Failure> {
        let mut state = lock(&self.shared.state);
        loop {
            if state.closed || self.sink.closed() {
                return Err(Failure::Closed("the peer has closed the connection".to_owned()));
            }
            if state.frames.is_empty() || state.frames.len() + frame.len() <= QUEUE_BYTES {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Timeout);
            }
            state = self.shared.changed.wait_for(state, left);
        }
        state.frames.extend_from_slice(frame);
        if !std::mem::replace(&mut state.started, true) {
            self.start()?;
        }
        self.shared.changed.release(state);
        Ok(())
    }

    fn close(&self, deadline: Instant) {
        let mut state = lock(&self.shared.state);
        while state.writing || !state.frames.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.sink.closed() {
                break;
            }
            state = self.shared.changed.wait_for(state, left);
        }
        state.closed = true;
        state.frames.clear();
        self.shared.changed.release(state);
        self.sink.close(deadline);
    }
}

/// Guard of a link, which has no process. Its reader thread ends only with its input, because reads
/// cannot be interrupted.
struct LinkGuard;

impl ProcessGuard for LinkGuard {
    fn end_reason(&self) -> String {
        "the server closed the connection".to_owned()
    }

    fn stderr_tail(&self) -> Option<String> {
        None
    }

    fn end(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::sync::mpsc;

    use super::*;
    use crate::transport::framing::FrameSink;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Sink whose sends block until the test permits them.
    struct SlowSink {
        begun: mpsc::SyncSender<()>,
        permits: Mutex<mpsc::Receiver<()>>,
    }

    impl FrameSink for SlowSink {
        fn send(&self, _: &[u8]) {
            self.begun.send(()).unwrap();
            lock(&self.permits).recv_timeout(TIMEOUT).unwrap();
        }

        fn closed(&self) -> bool {
            false
        }

        fn congested(&self) -> bool {
            false
        }

        fn close(&self, _: Instant) {}
    }

    impl ReplySink for SlowSink {}

    #[test]
    fn close_returns_after_the_last_write() {
        let ((begun, begins), (permit, permits)) = (mpsc::sync_channel(0), mpsc::channel());
        let writer = Arc::new(ThreadWriter::new(Arc::new(SlowSink { begun, permits: Mutex::new(permits) })));
        writer.send(b"frame\n", Instant::now() + TIMEOUT).unwrap();
        begins.recv_timeout(TIMEOUT).unwrap();
        let (closing, closed) = (Arc::clone(&writer), mpsc::channel());
        let sender = closed.0;
        std::thread::spawn(move || {
            // If the writer does not wake it, `close` takes ten times as long as this test waits.
            closing.close(Instant::now() + 10 * TIMEOUT);
            sender.send(())
        });
        while !writer.shared.changed.has_waiters(&lock(&writer.shared.state)) {
            std::thread::yield_now();
        }
        permit.send(()).unwrap();
        closed.1.recv_timeout(TIMEOUT).expect("closing ends");
    }
}
