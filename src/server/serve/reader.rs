//! Reader of a stream: reads frames, dispatches them, and executes the effects.
//!
//! Responses and jobs are collected while further frames are ready, so that one write and one
//! hand-off serve several messages. Both are flushed before an inline handler runs and before the
//! reader blocks.
//!
//! # Invariants
//! - Handing a job over to a full pool blocks until there is room, which stops the reading of input
//!   (back-pressure).
//! - A response never waits for the handler of another call.

use std::sync::Arc;

use crate::error::Error;
use crate::json::{Doc, Value, Writer};
use crate::pool::{self, RejectedJob};
use crate::transport::{FrameSource, Input, ReplySink, is_gone};

use crate::server::call::Job;
use crate::server::call::batch::Batch;
use crate::server::connection::Connection;
use crate::server::dispatch::admission::{BUSY, Started};
use crate::server::dispatch::classify::classify;
use crate::server::dispatch::{Dispatcher, Effect, InlineTools, MessageBytes, ParseFailure};

/// Bytes of collected responses from which they are sent although more input is ready.
const BATCH_BYTES: usize = 64 << 10;
/// Number of collected jobs from which they are handed over although more input is ready.
const BATCH_JOBS: usize = 64;

/// Reads until the input ends, the peer disconnects or the program stops serving.
pub(crate) fn read<I>(
    conn: &Arc<Connection>,
    mut source: Box<dyn FrameSource>,
    inline: I,
) -> Result<(), Error>
where
    I: InlineTools + 'static,
{
    let mut dispatcher = Dispatcher::new(Arc::clone(conn), inline, true);
    let jobs = Vec::new();
    Reader { conn, dispatcher: dispatcher.as_dyn(), jobs, large_out: false }.read(&mut *source)
}

struct Reader<'r> {
    conn: &'r Arc<Connection>,
    dispatcher: &'r mut Dispatcher<dyn InlineTools>,
    /// Calls in flight that are not yet handed over.
    jobs: Vec<Job>,
    /// The last output was large.
    large_out: bool,
}

impl Reader<'_> {
    fn read(&mut self, source: &mut dyn FrameSource) -> Result<(), Error> {
        let result = loop {
            let input = source.next();
            self.conn.set_reading(true);
            if self.must_end() {
                break Ok(());
            }
            match input {
                Input::Frame(bytes) => self.frame(MessageBytes::Borrowed(bytes)),
                Input::Large(text) => self.frame(MessageBytes::Owned(text)),
                Input::TooLong { head, tail } => self.too_long(head, tail),
                Input::End => break Ok(()),
                Input::Failed(error) => break read_error(error),
            }
            if self.must_end() {
                break Ok(());
            }
            if !source.ready() {
                self.flush();
                self.conn.set_reading(false);
            }
        };
        self.flush();
        result
    }

    /// Returns whether reading must end.
    fn must_end(&self) -> bool {
        self.conn.sink.closed() || self.conn.core.shared.stopping()
    }

    /// Handles one frame.
    fn frame(&mut self, text: MessageBytes<'_>) {
        self.dispatcher.refresh();
        let (doc, parsed) = self.dispatcher.parse(text);
        self.dispatcher.doc = match parsed {
            Ok(()) => {
                let conn = self.conn;
                let effect = self.dispatcher.dispatch(&doc, &classify(doc.root()), &conn.sink);
                self.execute(effect, doc, &conn.sink)
            }
            Err(failure) => {
                self.dispatcher.reject(failure.id.as_deref(), &failure.fault);
                Some(doc)
            }
        };
        if self.dispatcher.out.len() > BATCH_BYTES || self.jobs.len() >= BATCH_JOBS {
            self.flush();
        }
    }

    /// Responds to a frame that exceeds the size limit.
    #[cold]
    fn too_long(&mut self, head: &[u8], tail: &[u8]) {
        let failure = ParseFailure::too_long(self.conn.core.limits.frame_bytes, head, tail);
        self.dispatcher.reject(failure.id.as_deref(), &failure.fault);
    }

    /// Executes an effect. Returns the document unless a call keeps it.
    fn execute(&mut self, effect: Effect, doc: Box<Doc>, sink: &Arc<dyn ReplySink>) -> Option<Box<Doc>> {
        let call = match effect {
            Effect::Call(call) => call,
            Effect::Resume(job) => {
                self.jobs.push(*job);
                return Some(doc);
            }
            Effect::Batch => {
                self.batch(doc.root());
                return Some(doc);
            }
            Effect::Reply(_) | Effect::Ignore => return Some(doc),
        };
        if call.target.inline().is_some() {
            self.flush();
        }
        let mut started = self.dispatcher.start(call, doc, sink);
        if let Started::NoRoom(job) = started {
            self.flush();
            self.conn.wait_for_room(&job);
            started = self.dispatcher.admit(job);
        }
        match started {
            Started::Done((doc, _)) => Some(doc),
            Started::Parked => None,
            Started::Admitted(job) => {
                self.jobs.push(job);
                None
            }
            // No other thread admits calls here, so the room that was waited for is still there.
            Started::NoRoom(job) => Some(self.dispatcher.refuse(job, &BUSY).0),
        }
    }

    /// Handles each message of a batch; their responses are sent together (JSON-RPC 2.0 §6).
    #[cold]
    #[inline(never)]
    fn batch(&mut self, messages: Value<'_>) {
        // From here on `out` holds the response to one message.
        self.send();
        let batch = Batch::new(Arc::clone(&self.conn.sink));
        let sink: Arc<dyn ReplySink> = batch.clone();
        for message in messages.items() {
            let (doc, effect) = self.dispatcher.batch_item(message, &sink);
            if let Some(doc) = self.execute(effect, doc, &sink) {
                self.conn.core.recycle(doc);
            }
            batch.collect(&mut self.dispatcher.out);
        }
        batch.complete();
        self.flush();
    }

    /// Sends the collected responses, then hands the collected jobs over. A client that opens a
    /// session expects that response first.
    fn flush(&mut self) {
        self.send();
        self.submit();
    }

    fn send(&mut self) {
        let out = &mut self.dispatcher.out;
        if out.is_empty() {
            return;
        }
        self.conn.sink.send(out.as_bytes());
        let large = out.len() > 4 * BATCH_BYTES;
        out.clear();
        if !large && std::mem::take(&mut self.large_out) {
            *out = Writer::new();
        }
        self.large_out |= large;
    }

    /// Hands the collected jobs over. Sends the collected responses first if this may block.
    fn submit(&mut self) {
        match self.jobs.len() {
            0 => {}
            1 => {
                let Some(job) = self.jobs.pop() else { return };
                match self.conn.core.pool.try_submit(job) {
                    Ok(()) => {}
                    Err(RejectedJob { job, reason: pool::PoolError::Full }) => self.submit_to_full(job),
                    Err(RejectedJob { job, .. }) => self.refuse(&job),
                }
            }
            _ => {
                self.send();
                let pool = &self.conn.core.pool;
                if pool.submit_all(&mut self.jobs, |job| !job.call.is_settled()).is_err() {
                    for job in std::mem::take(&mut self.jobs) {
                        self.refuse(&job);
                    }
                }
            }
        }
    }

    /// Hands a job over as soon as the pool has room for it.
    #[cold]
    #[inline(never)]
    fn submit_to_full(&mut self, job: Job) {
        self.send();
        let call = Arc::clone(&job.call);
        let result = self.conn.core.pool.submit(job);
        if call.is_settled() {
            // The call was settled meanwhile. In the queue it would take the room of other calls.
            self.conn.drop_settled();
        }
        if let Err(RejectedJob { job, .. }) = result {
            self.refuse(&job);
        }
    }

    /// Rejects a job that cannot be handed over: the server stops, or the system has no thread
    /// left for it.
    #[cold]
    fn refuse(&self, job: &Job) {
        self.conn.refuse(&job.call, "The server is shutting down");
    }
}

/// Returns the result of serving after a read error. A disconnected peer is not an error.
#[cold]
fn read_error(error: std::io::Error) -> Result<(), Error> {
    if is_gone(&error) { Ok(()) } else { Err(Error::from(error)) }
}
