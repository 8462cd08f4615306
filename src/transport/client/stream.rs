//! Transport over streams: one thread reads frames and calls the handler, callers write.
//!
//! Combines a [`FrameSource`], a [`FrameWriter`] and a [`ProcessGuard`] into a [`Transport`], for
//! links and child processes.
//!
//! # Threads
//! [`Transport::start`] starts the reader. It ends with the input, or when [`ProcessGuard::end`]
//! ends the input. Callers may read in its place (`handoff.rs`). A link over blocking streams has a
//! second thread, which writes.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::Error;

use super::handoff::Handoff;
use super::{Failure, MessageHandler, Outgoing, Settled, Traits, Transport, Wait};
use crate::sync::{Condition, lock};
use crate::transport::framing::{FrameSource, Input, Link, ReplySink};
use crate::transport::tap;

/// Stack of the reader thread: parsing does not recurse, and no user code runs on it.
const READER_STACK: usize = 128 << 10;

/// Time that a failed sender waits for the reason from the reader thread.
const REASON: Duration = Duration::from_millis(1500);

/// Writes frames of any thread, each until its own deadline.
pub(crate) trait FrameWriter: Send + Sync {
    /// Sends one whole frame, or queues it after earlier ones. Blocks until `deadline` at most.
    fn send(&self, frame: &[u8], deadline: Instant) -> Result<(), Failure>;

    /// Writes the queued frames until `deadline`, then closes the stream.
    fn close(&self, deadline: Instant);
}

/// Owner of the streams: a process, or nothing.
pub(super) trait ProcessGuard: Send + Sync {
    /// Returns the reason of the end of the input. Called once, on the reader thread; may block for
    /// a short time.
    fn last_words(&self) -> String;

    /// Returns output outside the protocol.
    fn aside(&self) -> Option<String>;

    /// Returns whether the peer has read any byte, after it ended; `true` if unknown.
    fn heard(&self) -> bool {
        true
    }

    /// Interrupts a caller that reads.
    fn look(&self) {}

    /// Ends the owner. Returns whether the reader thread will end, so that it can be joined.
    fn end(&self) -> bool;

    /// Called after the reader thread has ended.
    fn reader_ended(&self) {}
}

/// Transport over streams.
pub(crate) struct StreamTransport {
    source: Mutex<Option<Box<dyn FrameSource>>>,
    writer: Arc<dyn FrameWriter>,
    guard: Arc<dyn ProcessGuard>,
    running: Mutex<Option<Running>>,
    over: Arc<Over>,
    handoff: Arc<Handoff>,
}

/// Reason of the end, once it is known.
#[derive(Default)]
struct Over {
    why: Mutex<Option<Failure>>,
    known: Condvar,
}

impl Over {
    fn set(&self, why: Failure) -> Failure {
        let why = lock(&self.why).get_or_insert(why).clone();
        self.known.notify_all();
        why
    }

    /// Returns the reason of the end. A write fails before the reader thread finds the reason, so a
    /// short wait gives a better error message.
    fn reason(&self, otherwise: Failure, deadline: Instant) -> Failure {
        let deadline = deadline.min(Instant::now() + REASON);
        let mut why = lock(&self.why);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match &*why {
                Some(why) => return why.clone(),
                None if left.is_zero() => return otherwise,
                None => why = self.known.wait_timeout(why, left).unwrap_or_else(PoisonError::into_inner).0,
            }
        }
    }
}

struct Running {
    sink: Arc<dyn MessageHandler>,
    reader: JoinHandle<()>,
}

impl StreamTransport {
    pub(super) fn new(
        source: Box<dyn FrameSource>,
        writer: Arc<dyn FrameWriter>,
        guard: Arc<dyn ProcessGuard>,
    ) -> StreamTransport {
        let (source, writer) = match tap::current() {
            Some(tap) => (tap.source(source), tap.writer(writer)),
            None => (source, writer),
        };
        StreamTransport {
            source: Mutex::new(Some(source)),
            writer,
            guard,
            running: Mutex::new(None),
            over: Arc::default(),
            handoff: Arc::default(),
        }
    }

    /// Transport over a link.
    pub(crate) fn over(link: Link) -> StreamTransport {
        let writer = Arc::clone(&link.sink).feed();
        let writer = writer.unwrap_or_else(|| Arc::new(ThreadWriter::new(link.sink)));
        StreamTransport::new(link.source, writer, Arc::new(LinkGuard))
    }
}

impl Transport for StreamTransport {
    fn traits(&self) -> Traits {
        Traits { silence_is_legacy: true, ..Traits::default() }
    }

    fn start(&self, sink: Arc<dyn MessageHandler>) -> Result<(), Error> {
        let Some(mut source) = lock(&self.source).take() else { return Ok(()) };
        let guard = Arc::clone(&self.guard);
        let (handler, over, handoff) = (Arc::clone(&sink), Arc::clone(&self.over), Arc::clone(&self.handoff));
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
                        Input::End => return handler.end(over.set(Failure::Closed(guard.last_words()))),
                        Input::Failed(error) => return handler.end(over.set(Failure::Io(error.to_string()))),
                    };
                    // The thread that gets this response may read its next one itself.
                    let waking = answered.and_then(|answered| answered.waking);
                    if let Some(waking) = waking {
                        if source.patient() && waking.who.sleeps() && !handler.waiting() {
                            source = handoff.lend(source, &*handler, waking);
                        }
                    }
                }
            },
        )?;
        *lock(&self.running) = Some(Running { sink, reader });
        Ok(())
    }

    fn send(&self, message: &Outgoing<'_>, _drive: Wait<'_>) -> Result<(), Failure> {
        self.writer.send(message.frame, message.deadline).map_err(|failure| match failure {
            Failure::Closed(_) => self.over.reason(failure, message.deadline),
            other => other,
        })
    }

    fn abandon(&self, _id: u64) {}

    fn settled(&self, _settled: &Settled) {}

    fn read_here(&self, sink: &dyn MessageHandler, turn: &mut dyn FnMut() -> Option<Instant>) {
        self.handoff.read(sink, turn);
    }

    fn attend(&self) {
        self.handoff.attend();
    }

    fn look(&self) {
        if self.handoff.caller().is_some() {
            self.guard.look();
        }
    }

    fn aside(&self) -> Option<String> {
        self.guard.aside()
    }

    fn heard(&self) -> bool {
        self.guard.heard()
    }

    fn close(&self, deadline: Instant) {
        let running = lock(&self.running).take();
        let closed = self.over.set(Failure::Closed("the connection was closed by this side".to_owned()));
        // The remaining output of the peer is read, and pending frames are written.
        self.handoff.end();
        self.writer.close(deadline);
        let ends = self.guard.end();
        let Some(running) = running else { return };
        running.sink.end(closed);
        // The reader thread may drop the last handle of a client and must not join itself.
        let this = std::thread::current().id();
        if ends && running.reader.thread().id() != this && self.handoff.caller() != Some(this) {
            // OK to drop: the reader does not panic.
            let _ = running.reader.join();
            self.guard.reader_ended();
        }
    }
}

/// Writer for a stream whose writes cannot be interrupted: its own thread writes, so that senders
/// do not block longer than their deadline on a peer that does not read.
pub(super) struct ThreadWriter {
    shared: Arc<Shared>,
    sink: Arc<dyn ReplySink>,
}

struct Shared {
    state: Mutex<Waiting>,
    /// The writer waits here for frames, senders for room, `close` for the last write.
    moved: Condition,
}

#[derive(Default)]
struct Waiting {
    frames: Vec<u8>,
    started: bool,
    writing: bool,
    closed: bool,
}

/// Queued bytes beyond which senders wait: the capacity of a Linux pipe.
const WAITING: usize = 64 << 10;

impl ThreadWriter {
    pub(super) fn new(sink: Arc<dyn ReplySink>) -> ThreadWriter {
        ThreadWriter {
            shared: Arc::new(Shared { state: Mutex::default(), moved: Condition::default() }),
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
                state = self.moved.wait(state);
            }
            if state.frames.is_empty() {
                return;
            }
            state.writing = true;
            batch.clear();
            std::mem::swap(&mut batch, &mut state.frames);
            self.moved.release(state);
            sink.send(&batch);
            state = lock(&self.state);
            state.closed |= sink.closed();
            state.writing = false;
            // `close` waits for this.
            self.moved.release(state);
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
            if state.frames.is_empty() || state.frames.len() + frame.len() <= WAITING {
                break;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::Timeout);
            }
            state = self.shared.moved.wait_for(state, left);
        }
        state.frames.extend_from_slice(frame);
        if !std::mem::replace(&mut state.started, true) {
            self.start()?;
        }
        self.shared.moved.release(state);
        Ok(())
    }

    fn close(&self, deadline: Instant) {
        let mut state = lock(&self.shared.state);
        while state.writing || !state.frames.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.sink.closed() {
                break;
            }
            state = self.shared.moved.wait_for(state, left);
        }
        state.closed = true;
        state.frames.clear();
        self.shared.moved.release(state);
        self.sink.close(deadline);
    }
}

/// A link ends when its input ends: its reads cannot be interrupted.
struct LinkGuard;

impl ProcessGuard for LinkGuard {
    fn last_words(&self) -> String {
        "the server closed the connection".to_owned()
    }

    fn aside(&self) -> Option<String> {
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

    const SOON: Duration = Duration::from_secs(20);

    /// A sink whose sends end when the test permits it.
    struct Slow {
        begun: mpsc::SyncSender<()>,
        permits: Mutex<mpsc::Receiver<()>>,
    }

    impl FrameSink for Slow {
        fn send(&self, _: &[u8]) {
            self.begun.send(()).unwrap();
            lock(&self.permits).recv_timeout(SOON).unwrap();
        }

        fn closed(&self) -> bool {
            false
        }

        fn congested(&self) -> bool {
            false
        }

        fn close(&self, _: Instant) {}
    }

    impl ReplySink for Slow {}

    #[test]
    fn closing_ends_with_the_last_write() {
        let ((begun, begins), (permit, permits)) = (mpsc::sync_channel(0), mpsc::channel());
        let writer = Arc::new(ThreadWriter::new(Arc::new(Slow { begun, permits: Mutex::new(permits) })));
        writer.send(b"frame\n", Instant::now() + SOON).unwrap();
        begins.recv_timeout(SOON).unwrap();
        let (closing, closed) = (Arc::clone(&writer), mpsc::channel());
        let sender = closed.0;
        std::thread::spawn(move || {
            // Without a wake-up it would take ten times as long as this test waits.
            closing.close(Instant::now() + 10 * SOON);
            sender.send(())
        });
        while !writer.shared.moved.has_waiters(&lock(&writer.shared.state)) {
            std::thread::yield_now();
        }
        permit.send(()).unwrap();
        closed.1.recv_timeout(SOON).expect("closing ends");
    }
}
