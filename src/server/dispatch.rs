//! The reading side of a connection: one frame in, an answer, a job or nothing out.
//!
//! Everything that needs no handler is answered here, on the thread that reads; so are inline
//! tools. Answers collect in one buffer and leave when no further frame is ready, jobs are handed
//! over in the same rhythm: one write and one hand-over for as many messages as came at once.
//!
//! # Invariants
//! - A request is answered exactly once, or becomes a job that will be, or is cancelled.
//! - Nothing here waits for a handler; handing over to a full pool waits for room, which stops
//!   the reading of input.

use std::sync::Arc;

use crate::era::{self, Params, Reply, ServerEra, To};
use crate::json::{Doc, Kind, ParseError, Value, Writer};
use crate::model::ask::Answer;
use crate::model::{Fault, Note, Peer, Query, Revision, ServerCapabilities};
use crate::pool::{self, Refused};
use crate::rpc::{Id, Message, Notification, Request, RpcError};
use crate::transport::Outlet;

use super::InlineSend;
use super::batch::Batch;
use super::connection::Connection;
use super::context::answer_of;
use super::core::Core;
use super::job::{self, Exchange, InlineFn, Job, Work};
use super::operation::{parse_fault, shape_fault};
use super::registry::{Registry, ToolHandler};
use super::seal::Answers;

/// Answers that collect before they are sent although more input is ready.
const BATCH_BYTES: usize = 64 << 10;
/// Jobs that collect before they are handed over although more input is ready.
const BATCH_JOBS: usize = 64;
/// Messages of one batch: its answers are kept until all are there.
const BATCH_MESSAGES: usize = 100;

/// Reads one connection's frames: a `Reader<dyn InlineTools>`, so that there is one whatever its
/// inline tools are.
pub(crate) struct Reader<I: ?Sized> {
    pub(super) conn: Arc<Connection>,
    pub(super) core: Arc<Core>,
    pub(super) registry: Arc<Registry>,
    version: usize,
    /// A document for the next frame.
    pub(super) doc: Option<Box<Doc>>,
    pub(super) out: Writer,
    pub(super) jobs: Vec<Job>,
    /// Whether this thread may wait for the pool; otherwise jobs stay in `jobs` for the caller.
    pub(super) waits: bool,
    /// The connection's outlet, except while a message is being handled.
    pub(super) outlet: Option<Arc<dyn Outlet>>,
    /// The peer of the session, if one is open: what `Connection::session` holds, without its lock.
    pub(super) peer: Option<Peer>,
    pub(super) offer: ServerCapabilities,
    /// Length of the frame before this one.
    last_size: usize,
    /// `out` held a large answer.
    large_out: bool,
    pub(super) inline: I,
}

/// Inline handlers, whether or not they may move between threads.
pub(crate) trait InlineTools {
    /// The handler at a place.
    fn tool(&mut self, place: usize) -> Option<&mut InlineFn>;
}

impl InlineTools for Vec<Box<InlineFn>> {
    fn tool(&mut self, place: usize) -> Option<&mut InlineFn> {
        self.get_mut(place).map(|tool| &mut **tool)
    }
}

impl InlineTools for Vec<Box<InlineSend>> {
    fn tool(&mut self, place: usize) -> Option<&mut InlineFn> {
        self.get_mut(place).map(|tool| &mut **tool as &mut InlineFn)
    }
}

/// What is to be done with a request after it was looked at.
enum Step {
    /// It is answered, or needs no answer.
    Done,
    /// A handler has to run.
    Run { era: &'static dyn ServerEra, query: Query, work: Work, answers: Answers },
}

/// The outcome of handling one message.
pub(super) enum Handled {
    /// Its response, if it has one, is in [`Reader::out`]. The document can be reused.
    Done(Box<Doc>),
    /// A call was admitted and keeps the document.
    Accepted,
    /// A call does not fit into the memory for calls in flight, and this thread must not wait for
    /// room. Nothing was written.
    NoRoom(Box<Job>),
}

/// The error for a call that does not fit into the memory for calls in flight.
pub(super) const BUSY: Fault = Fault::Internal("The server is busy: too many calls are in flight");

impl<I: InlineTools + 'static> Reader<I> {
    pub(crate) fn new(conn: Arc<Connection>, inline: I) -> Reader<I> {
        let core = Arc::clone(&conn.core);
        // In this order: a change in between is noticed with the first frame.
        let version = core.catalog.version();
        let registry = core.catalog.registry();
        let offer = registry.offer(core.catalog.promised());
        let outlet = Some(Arc::clone(&conn.outlet));
        Reader {
            conn,
            core,
            registry,
            version,
            doc: None,
            out: Writer::new(),
            jobs: Vec::new(),
            waits: true,
            outlet,
            peer: None,
            offer,
            last_size: 0,
            large_out: false,
            inline,
        }
    }

    /// The reader as all its methods know it.
    pub(crate) fn whole(&mut self) -> &mut Reader<dyn InlineTools> {
        self
    }
}

/// The bytes of one message.
pub(super) enum Text<'a> {
    /// In a buffer that is read into again.
    Read(&'a [u8]),
    /// With a buffer of its own.
    Whole(&'a mut Vec<u8>),
}

impl Reader<dyn InlineTools> {
    /// Handles one frame.
    pub(crate) fn frame(&mut self, bytes: &[u8]) {
        self.take(Text::Read(bytes));
    }

    /// Handles one large frame. Takes its buffer and leaves another one.
    pub(crate) fn large(&mut self, text: &mut Vec<u8>) {
        self.take(Text::Whole(text));
    }

    fn take(&mut self, text: Text<'_>) {
        self.refresh();
        let (doc, parsed) = self.parse(text);
        self.doc = match parsed {
            Ok(()) => self.document(doc),
            Err(error) => {
                self.stray(None, &parse_fault(error));
                Some(doc)
            }
        };
        if self.out.len() > BATCH_BYTES || self.jobs.len() >= BATCH_JOBS {
            self.flush();
        }
    }

    /// Parses a message into a recycled document.
    pub(super) fn parse(&mut self, text: Text<'_>) -> (Box<Doc>, Result<(), ParseError>) {
        let mut doc = self.doc.take().unwrap_or_else(|| self.core.spare_doc());
        let limits = self.core.limits.parse();
        let (size, parsed) = match text {
            Text::Read(bytes) => (bytes.len(), doc.parse_again(bytes, &limits)),
            Text::Whole(text) => (text.len(), doc.parse_taking(text, &limits)),
        };
        // The first small message after a large one frees the large buffers, before a call can
        // keep them. A series of large messages reuses them.
        if size <= BATCH_BYTES && self.last_size > BATCH_BYTES {
            doc.shrink_to(BATCH_BYTES);
        }
        self.last_size = size;
        (doc, parsed)
    }

    /// Takes note of changes to what is registered.
    pub(super) fn refresh(&mut self) {
        let version = self.core.catalog.version();
        if version != self.version {
            self.version = version;
            self.registry = self.core.catalog.registry();
            self.offer = self.registry.offer(self.core.catalog.promised());
        }
    }

    /// Reads for this connection from now on.
    #[cfg(feature = "http-server")]
    pub(super) fn turn_to(&mut self, conn: &Arc<Connection>, peer: Option<Peer>) {
        if !Arc::ptr_eq(&self.conn, conn) {
            self.conn = Arc::clone(conn);
        }
        self.peer = peer;
    }

    /// Whether there is no point in reading on.
    pub(crate) fn over(&self) -> bool {
        self.conn.outlet.closed() || self.core.catalog.stopping()
    }

    /// Takes note of a frame that was too long to be read.
    #[cold]
    pub(crate) fn too_long(&mut self) {
        let most = self.core.limits.frame_bytes;
        self.stray(None, &Fault::InvalidRequest(format!("The message is longer than {most} bytes").into()));
    }

    /// Hands jobs over. Answers that are ready leave first if that has to wait for handlers.
    pub(crate) fn submit(&mut self) {
        if self.jobs.is_empty() || !self.waits {
            return;
        }
        if self.jobs.len() > 1 {
            self.send();
            if self.core.pool.submit_all(&mut self.jobs, |job| !job.call.is_settled()).is_err() {
                for job in std::mem::take(&mut self.jobs) {
                    self.refuse(&job);
                }
            }
        } else if let Some(job) = self.jobs.pop() {
            match self.core.pool.try_submit(job) {
                Ok(()) => {}
                Err(Refused { job, why: pool::Refusal::Full }) => self.submit_to_full(job),
                Err(Refused { job, .. }) => self.refuse(&job),
            }
        }
    }

    /// Hands a job over as soon as the pool has room for it.
    #[cold]
    #[inline(never)]
    fn submit_to_full(&mut self, job: Job) {
        self.send();
        let call = Arc::clone(&job.call);
        let result = self.core.pool.submit(job);
        if call.is_settled() {
            // Meanwhile; in the queue it would take the room of others.
            self.conn.drop_settled();
        }
        if let Err(Refused { job, .. }) = result {
            self.refuse(&job);
        }
    }

    /// Answers a job that cannot be handed over: the server stops, or the system has no thread
    /// left for it.
    #[cold]
    fn refuse(&self, job: &Job) {
        self.conn.refuse(&job.call, "The server takes no more calls");
    }

    /// Sends what collected and hands jobs over. In this order, because whoever opens a session
    /// wants that answer first.
    pub(crate) fn flush(&mut self) {
        self.send();
        self.submit();
    }

    pub(super) fn send(&mut self) {
        if !self.out.is_empty() {
            self.conn.outlet.send(self.out.as_bytes());
            let large = self.out.len() > 4 * BATCH_BYTES;
            self.out.clear();
            if !large && std::mem::take(&mut self.large_out) {
                self.out = Writer::new();
            }
            self.large_out |= large;
        }
    }

    /// Handles a parsed document; gives it back unless a job keeps it.
    pub(super) fn document(&mut self, doc: Box<Doc>) -> Option<Box<Doc>> {
        if doc.root().kind() == Kind::Array {
            let outlet = Arc::clone(&self.conn.outlet);
            self.array(doc.root(), &outlet);
            return Some(doc);
        }
        // Lent, not cloned: counting references costs as much as reading a short message.
        let Some(outlet) = self.outlet.take() else { return Some(doc) };
        let handled = self.message(doc, &outlet);
        self.outlet = Some(outlet);
        self.settled(handled)
    }

    /// Answers a call that was refused for want of memory. Returns the document unless a call
    /// keeps it.
    pub(super) fn settled(&mut self, handled: Handled) -> Option<Box<Doc>> {
        match handled {
            Handled::Done(doc) => Some(doc),
            Handled::Accepted => None,
            Handled::NoRoom(job) => Some(self.reject(*job, &BUSY)),
        }
    }

    /// Handles one message, whose answer goes to `outlet` or, if at once, into `out`.
    pub(super) fn message(&mut self, doc: Box<Doc>, outlet: &Arc<dyn Outlet>) -> Handled {
        let step = match Message::read(doc.root()) {
            Ok(Message::Request(request)) => self.request(&doc, &request, outlet),
            Ok(Message::Notification(notification)) => {
                self.note(&doc, &notification);
                Step::Done
            }
            Ok(Message::Response(response)) => {
                self.response(response.id, answer_of(response.outcome));
                Step::Done
            }
            Err(shape) => {
                match shape.id {
                    id if shape.answer => self.stray(id, &shape_fault(&shape)),
                    // Whoever answers so will not answer again: the question is over.
                    Some(id) => self.response(id, Err(RpcError::new(shape.code, shape.message))),
                    None => {}
                }
                Step::Done
            }
        };
        match step {
            Step::Done => Handled::Done(doc),
            Step::Run { era, query, work, answers } => self.start(doc, outlet, era, query, work, answers),
        }
    }

    /// Handles an array of messages. Gives back whether there is anything to answer.
    #[cold]
    #[inline(never)]
    pub(super) fn array(&mut self, messages: Value<'_>, outlet: &Arc<dyn Outlet>) -> bool {
        let batches = {
            let session = self.conn.session();
            session.as_ref().is_some_and(|s| self.core.eras.legacy.is_some_and(|era| era.batches(s)))
        };
        match messages.len() {
            1..=BATCH_MESSAGES if batches => return self.batch(messages, outlet),
            len if batches && len > 0 => {
                self.stray(None, &Fault::InvalidRequest("The batch holds too many messages".into()))
            }
            _ if batches => self.stray(None, &Fault::InvalidRequest("The batch holds no message".into())),
            _ => self.stray(None, &Fault::InvalidRequest("Batches of messages are not accepted".into())),
        }
        true
    }

    /// Answers what no era could be told of.
    #[cold]
    fn stray(&mut self, id: Option<Value<'_>>, fault: &Fault) {
        let session = self.conn.session();
        era::fault_without_query(&mut self.out, id.map(Value::raw), session.as_ref(), fault);
        self.out.newline();
    }

    fn request(&mut self, doc: &Doc, request: &Request<'_>, outlet: &Arc<dyn Outlet>) -> Step {
        let params = Params::read(request.params);
        let era = match self.core.eras.of_request(request, &params, self.peer.is_some()) {
            Ok(era) => era,
            Err(fault) => {
                let session = self.conn.session();
                era::fault_without_query(&mut self.out, Some(request.id.raw()), session.as_ref(), &fault);
                self.out.newline();
                return Step::Done;
            }
        };
        let (revision, fault) = match era.request(request, &params, self.peer) {
            Ok(query) => match self.operation(doc, request, &params, era, &query, outlet) {
                Ok(Some((work, answers))) => return Step::Run { era, query, work, answers },
                Ok(None) => return Step::Done,
                Err(fault) => (query.peer.revision, fault),
            },
            // A failure looks alike in every revision of an era.
            Err(fault) => (Revision::default(), fault),
        };
        let to = To { id: request.id.raw(), revision, card: &self.core.card };
        era.reply(&mut self.out, &to, Reply::Fault(&fault));
        self.out.newline();
        Step::Done
    }

    fn note(&mut self, doc: &Doc, notification: &Notification<'_>) {
        let open = self.peer.is_some();
        let params = Params::read(notification.params);
        let Some(era) = self.core.eras.of_notification(&params, open) else { return };
        match era.note(notification.method, &params) {
            Note::Ready => {
                if let Some(session) = self.conn.session().as_mut() {
                    session.ready = true;
                }
                self.conn.ready();
            }
            Note::Cancelled(node) => {
                if let Some(id) = Id::read(doc.at(node)) {
                    // A call that still collects here is not yet where cancel() looks for work.
                    self.jobs.retain(|job| Id::read(job.doc.at(job.query.id)).as_ref() != Some(&id));
                    self.conn.cancel(&id);
                }
            }
            Note::Ignored => {}
        }
    }

    /// Takes the client's answer to the question with this id; the call goes on when it was the last one.
    #[cold]
    #[inline(never)]
    fn response(&mut self, id: Value<'_>, answer: Answer) {
        let Some(mut job) = id.as_u64().and_then(|id| self.conn.answered(id, answer)) else { return };
        let place = match &job.work {
            Work::Tool(entry) => match entry.entry.handler {
                ToolHandler::Inline(place) => Some(place),
                ToolHandler::Pooled(_) => None,
            },
            _ => None,
        };
        match place.and_then(|place| self.inline.tool(place)) {
            None => self.jobs.push(job),
            Some(handler) => {
                let mut answers = std::mem::take(&mut job.answers);
                let exchange = Exchange { deadline: self.core.deadline(), ..job.exchange() };
                let conclusion = job::conclude(&exchange, &job.work, &mut answers, Some(handler));
                job.answers = answers;
                job.settle(conclusion);
            }
        }
    }

    /// Handles each message of a batch; their answers leave together (JSON-RPC 2.0 §6).
    /// Gives back whether there is anything to answer.
    #[cold]
    #[inline(never)]
    fn batch(&mut self, messages: Value<'_>, to: &Arc<dyn Outlet>) -> bool {
        // What `out` holds from here on are the answers of one message.
        self.send();
        let batch = Batch::new(Arc::clone(to));
        let outlet: Arc<dyn Outlet> = batch.clone();
        for message in messages.items() {
            let mut doc = self.core.spare_doc();
            let doc = match doc.parse_again(message.raw().as_bytes(), &self.core.limits.parse()) {
                Ok(()) => {
                    let handled = self.message(doc, &outlet);
                    self.settled(handled)
                }
                Err(error) => {
                    self.stray(None, &parse_fault(error));
                    Some(doc)
                }
            };
            if let Some(doc) = doc {
                self.core.recycle(doc);
            }
            if !self.out.is_empty() {
                batch.collect(self.out.as_bytes());
                self.out.clear();
            }
        }
        let answers = batch.complete();
        self.flush();
        answers
    }
}
