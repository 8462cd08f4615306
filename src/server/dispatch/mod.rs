//! Dispatch of one classified message: a response, a call to run, or nothing.
//!
//! [`Dispatcher`] decides and never waits. Its callers, the reader of a stream and the HTTP
//! endpoint, execute each [`Effect`]: they send the content of `out` and queue calls.
//!
//! # Invariants
//! - A request gets exactly one response, or becomes a job that gets one or is cancelled.
//! - Nothing here waits for a handler of the pool or for room. Only a hub may wait for the lists of
//!   its servers, and only where `waits` is set.

pub(crate) mod admission;
pub(crate) mod classify;
mod methods;

use std::sync::Arc;

use crate::era::{self, Encoded, Params, Reply, ReplyTarget, ServerEra};
use crate::json::{Doc, ParseError, Value, Writer};
use crate::model::client_request::ClientResponse;
use crate::model::{ClientNotification, Fault, Peer, Query, Revision, ServerCapabilities};
use crate::rpc::excerpt::{Excerpt, Shape};
use crate::rpc::{Id, Notification, Request, RpcError};
use crate::transport::ReplySink;

use self::classify::{Classified, MessageKind, classify_single, parse_fault, shape_fault};
use crate::server::InlineSend;
use crate::server::call::{self, CallScope, InlineFn, Job, Target};
use crate::server::callers::call_limits::{CallPermit, RetryAfter};
use crate::server::callers::observation::Observed;
use crate::server::connection::Connection;

use crate::server::call::request_state::{Responses, client_response};
use crate::server::registry::Registry;
use crate::server::serve::state::Core;

/// Size of a message above which the buffers of its document are freed before a small message.
const LARGE: usize = 64 << 10;
/// Bytes kept of the beginning and the end of a large message, in case it cannot be parsed.
const EXCERPT: usize = 512;
/// Messages of one batch: its responses are held until all are complete.
const BATCH_MESSAGES: usize = 100;

/// Decides about the messages of one connection at a time. Its methods are those of `Dispatcher<dyn
/// InlineTools>`, so that their code exists once for all kinds of inline handlers.
pub(crate) struct Dispatcher<I: ?Sized> {
    pub(crate) conn: Arc<Connection>,
    pub(crate) core: Arc<Core>,
    pub(crate) registry: Arc<Registry>,
    version: usize,
    pub(crate) capabilities: ServerCapabilities,
    /// The peer of the open session: a copy of what [`Connection::session`] holds, without its
    /// lock.
    pub(crate) peer: Option<Peer>,
    /// A document for the next message.
    pub(crate) doc: Option<Box<Doc>>,
    /// Length of the message before this one.
    last_size: usize,
    /// Responses written and not yet sent.
    pub(crate) out: Writer,
    /// Set if the calling thread serves one client and may block.
    pub(crate) waits: bool,
    /// Seconds after which the call whose error was just written may be repeated.
    #[allow(dead_code)] // Responses of the HTTP server have a field for it.
    pub(crate) retry_after: Option<RetryAfter>,
    pub(crate) inline: I,
}

/// Inline handlers, `Send` or not.
pub(crate) trait InlineTools {
    /// Returns the handler at a place.
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

/// Effect of a message, which the caller executes.
pub(crate) enum Effect {
    /// Send the response that is in [`Dispatcher::out`].
    #[cfg_attr(not(feature = "http-server"), allow(dead_code))] // Only HTTP needs the error code.
    Reply(Encoded),
    /// Run a handler: [`Dispatcher::start`].
    Call(PlannedCall),
    /// Queue a parked call that now has the client's responses.
    Resume(Box<Job>),
    /// Dispatch each message of an array by [`Dispatcher::batch_item`].
    Batch,
    /// Nothing: the message needs no response now.
    Ignore,
}

/// A request on its way through the dispatcher.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'m> {
    pub doc: &'m Doc,
    pub request: &'m Request<'m>,
    pub params: &'m Params<'m>,
    /// Sink for its response.
    pub sink: &'m Arc<dyn ReplySink>,
}

/// A call whose request is valid, before admission.
pub(crate) struct PlannedCall {
    pub era: &'static dyn ServerEra,
    pub query: Query,
    pub target: Target,
    pub responses: Responses,
    /// The sink of the request, if it is observed.
    pub observed: Observed,
    /// Counts the call in the limits of its caller.
    pub permit: Option<CallPermit>,
}

/// A message that could not be parsed.
pub(crate) struct ParseFailure {
    /// The error of the response.
    pub fault: Fault,
    /// The id of the request, as JSON text, if it can be read although the message cannot.
    pub id: Option<Box<str>>,
}

impl ParseFailure {
    /// `head` and `tail` are the first and the last bytes of the message.
    #[cold]
    fn new(error: ParseError, head: &[u8], tail: &[u8]) -> ParseFailure {
        use crate::json::ErrorKind::{Bytes, Depth, LoneSurrogate, Nodes};
        // The text around any other error cannot be trusted to be JSON.
        let readable = matches!(error.kind(), LoneSurrogate | Depth | Nodes | Bytes);
        let id = if readable { request_id(head, tail) } else { None };
        ParseFailure { fault: parse_fault(error), id }
    }

    /// Creates the failure for a message of more than `max` bytes. `head` and `tail` are its first
    /// and last bytes.
    #[cold]
    pub(crate) fn too_long(max: usize, head: &[u8], tail: &[u8]) -> ParseFailure {
        let fault = Fault::InvalidRequest(format!("The message is longer than {max} bytes").into());
        ParseFailure { fault, id: request_id(head, tail) }
    }
}

/// Returns the id of a request. `None` for a response, whose id belongs to a request of this side.
fn request_id(head: &[u8], tail: &[u8]) -> Option<Box<str>> {
    let excerpt = Excerpt::read(head, tail);
    excerpt.id.filter(|_| excerpt.shape == Shape::Call).map(Box::from)
}

/// The bytes of one message.
pub(crate) enum MessageBytes<'a> {
    /// In a read buffer that the caller reuses.
    Borrowed(&'a [u8]),
    /// In a buffer of its own, which the document takes and replaces by another one.
    Owned(&'a mut Vec<u8>),
}

impl PlannedCall {
    pub(super) fn new(
        era: &'static dyn ServerEra,
        query: &Query,
        target: Target,
        responses: Responses,
    ) -> PlannedCall {
        PlannedCall { era, query: *query, target, responses, observed: Observed::default(), permit: None }
    }
}

impl<I: InlineTools + 'static> Dispatcher<I> {
    pub(crate) fn new(conn: Arc<Connection>, inline: I, waits: bool) -> Dispatcher<I> {
        let core = Arc::clone(&conn.core);
        // Load the version first, so that a change between the two loads is detected at the next
        // frame.
        let version = core.shared.catalog.version();
        let registry = core.shared.catalog.registry();
        let capabilities = registry.capabilities(core.shared.catalog.capabilities());
        Dispatcher {
            conn,
            core,
            registry,
            version,
            capabilities,
            peer: None,
            doc: None,
            last_size: 0,
            out: Writer::new(),
            waits,
            retry_after: None,
            inline,
        }
    }

    /// Returns the dispatcher without its type parameter, so that its code is compiled once.
    pub(crate) fn as_dyn(&mut self) -> &mut Dispatcher<dyn InlineTools> {
        self
    }
}

impl Dispatcher<dyn InlineTools> {
    /// Parses a message into a recycled document.
    pub(crate) fn parse(&mut self, text: MessageBytes<'_>) -> (Box<Doc>, Result<(), ParseFailure>) {
        let mut doc = self.doc.take().unwrap_or_else(|| self.core.spare_doc());
        let limits = self.core.limits.parse();
        let (size, parsed) = match text {
            MessageBytes::Borrowed(bytes) => {
                let parsed = doc.parse_again(bytes, &limits);
                (bytes.len(), parsed.map_err(|error| ParseFailure::new(error, bytes, bytes)))
            }
            MessageBytes::Owned(text) => {
                let head = text.get(..EXCERPT).unwrap_or(text).to_vec();
                let tail = text.get(text.len().saturating_sub(EXCERPT)..).unwrap_or_default().to_vec();
                let size = text.len();
                let parsed = doc.parse_taking(text, &limits);
                (size, parsed.map_err(|error| ParseFailure::new(error, &head, &tail)))
            }
        };
        // The first small message after a large one frees the large buffers, before a call can
        // keep them. A series of large messages reuses them.
        if size <= LARGE && self.last_size > LARGE {
            doc.shrink_to(LARGE);
        }
        self.last_size = size;
        (doc, parsed)
    }

    /// Loads the current registry if it has changed.
    pub(crate) fn refresh(&mut self) {
        let version = self.core.shared.catalog.version();
        if version != self.version {
            self.load(version);
        }
    }

    #[cold]
    #[inline(never)]
    fn load(&mut self, version: usize) {
        self.version = version;
        self.registry = self.core.shared.catalog.registry();
        self.capabilities = self.registry.capabilities(self.core.shared.catalog.capabilities());
    }

    /// Switches to another connection, which may be of another server.
    #[cfg(feature = "http-server")]
    pub(crate) fn set_connection(&mut self, conn: &Arc<Connection>, peer: Option<Peer>) {
        if !Arc::ptr_eq(&self.conn, conn) {
            self.conn = Arc::clone(conn);
            if !Arc::ptr_eq(&self.core, &conn.core) {
                self.core = Arc::clone(&conn.core);
                self.load(self.core.shared.catalog.version());
            }
        }
        self.peer = peer;
    }

    /// Decides about one message. Responses of calls go to `sink`; a response that is complete at
    /// once is written to `out`.
    pub(crate) fn dispatch(
        &mut self,
        doc: &Doc,
        message: &Classified<'_>,
        sink: &Arc<dyn ReplySink>,
    ) -> Effect {
        let params = &message.params;
        match message.kind {
            MessageKind::Request(request) => self.request(Incoming { doc, request: &request, params, sink }),
            MessageKind::Notification(notification) => {
                self.notification(doc, &notification, params, sink);
                Effect::Ignore
            }
            MessageKind::Response(response) => self.response(response.id, client_response(response.outcome)),
            MessageKind::Batch(messages) => self.check_batch(messages),
            MessageKind::Malformed(shape) => match shape.id {
                id if shape.needs_response => {
                    Effect::Reply(self.reject(id.map(Value::raw), &shape_fault(&shape)))
                }
                // The peer will not send another response, so this side's request ends with an
                // error.
                Some(id) => self.response(id, Err(RpcError::new(shape.code, shape.message))),
                None => Effect::Ignore,
            },
        }
    }

    /// Decides whether an array is a batch that the session accepts.
    #[cold]
    #[inline(never)]
    fn check_batch(&mut self, messages: Value<'_>) -> Effect {
        let accepted = {
            let session = self.conn.session();
            session.as_ref().is_some_and(|s| self.core.eras.legacy.is_some_and(|era| era.batches(s)))
        };
        let fault = match messages.len() {
            _ if !accepted => "Batches are not supported in this revision",
            0 => "The batch is empty",
            1..=BATCH_MESSAGES => return Effect::Batch,
            _ => "The batch has too many messages",
        };
        Effect::Reply(self.reject(None, &Fault::InvalidRequest(fault.into())))
    }

    /// Parses and dispatches one message of a batch.
    #[cold]
    #[inline(never)]
    pub(crate) fn batch_item(&mut self, message: Value<'_>, sink: &Arc<dyn ReplySink>) -> (Box<Doc>, Effect) {
        let mut doc = self.core.spare_doc();
        let effect = match doc.parse_again(message.raw().as_bytes(), &self.core.limits.parse()) {
            Ok(()) => self.dispatch(&doc, &classify_single(doc.root()), sink),
            Err(error) => Effect::Reply(self.reject(None, &parse_fault(error))),
        };
        (doc, effect)
    }

    /// Writes the error for a message whose era is unknown. `id` is JSON text.
    #[cold]
    pub(crate) fn reject(&mut self, id: Option<&str>, fault: &Fault) -> Encoded {
        let session = self.conn.session();
        let encoded = era::fault_without_query(&mut self.out, id, session.as_ref(), fault);
        self.out.newline();
        encoded
    }

    pub(in crate::server) fn plain_request(&mut self, incoming: Incoming<'_>) -> Effect {
        let Incoming { request, params, .. } = incoming;
        let era = match self.core.eras.of_request(request, params, self.peer.is_some()) {
            Ok(era) => era,
            Err(fault) => return Effect::Reply(self.reject(Some(request.id.raw()), &fault)),
        };
        let (revision, fault) = match era.request(request, params, self.peer) {
            Ok(query) => match self.operation(incoming, era, &query) {
                Ok(effect) => return effect,
                Err(fault) => (query.peer.revision, fault),
            },
            // The encoding of errors is the same in every revision of an era.
            Err(fault) => (Revision::default(), fault),
        };
        let to = ReplyTarget { id: request.id.raw(), revision, server: &self.core.info };
        let encoded = era.reply(&mut self.out, &to, Reply::Fault(&fault));
        self.out.newline();
        Effect::Reply(encoded)
    }

    fn notification(
        &mut self,
        doc: &Doc,
        notification: &Notification<'_>,
        params: &Params<'_>,
        sink: &Arc<dyn ReplySink>,
    ) {
        let Some(era) = self.core.eras.of_notification(params, self.peer.is_some()) else { return };
        match era.notification(notification.method, params) {
            ClientNotification::Initialized => {
                if let Some(session) = self.conn.session().as_mut() {
                    session.ready = true;
                }
                self.conn.ready();
            }
            ClientNotification::Cancelled(node) => {
                if let Some(id) = Id::read(doc.at(node)) {
                    self.conn.cancel(&id);
                }
            }
            ClientNotification::RootsListChanged => {
                if let Some(delegate) = self.core.shared.delegate() {
                    delegate.roots_changed();
                }
            }
            ClientNotification::Ignored => {
                if let Some(extensions) = &self.core.extensions {
                    extensions.notified(notification, sink.principal());
                }
            }
        }
    }

    /// Passes the client's response to the parked call that waits for it.
    #[cold]
    #[inline(never)]
    fn response(&mut self, id: Value<'_>, response: ClientResponse) -> Effect {
        let job = id.as_u64().and_then(|id| self.conn.handle_response(id, response));
        let Some(mut job) = job else { return Effect::Ignore };
        let Some(handler) = job.target.inline().and_then(|place| self.inline.tool(place)) else {
            return Effect::Resume(Box::new(job));
        };
        let mut responses = std::mem::take(&mut job.responses);
        let scope = CallScope { deadline: self.core.deadline(), ..job.scope() };
        let result = call::run_handler(&scope, &job.target, &mut responses, Some(handler));
        job.responses = responses;
        job.settle(result);
        Effect::Ignore
    }
}
