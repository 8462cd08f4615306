//! Handlers of the program, and the threads that run them.
//!
//! Owns the handlers, runs them on a small bounded pool, validates their results, and delivers log
//! entries and changes in order. Handlers never run on the reader thread.
//!
//! # Invariants
//! - A request without a registered handler is rejected.
//! - Events are delivered in order, by one thread at a time. Beyond
//!   [`ClientLimits::events`](crate::ClientLimits::events) events, or [`Limits::in_flight_bytes`]
//!   bytes of them, new ones are dropped and counted. A change that is already queued is not queued
//!   again.
//! - Requests of the server that are queued or being handled take at most
//!   [`Limits::in_flight_bytes`] bytes as well.
//! - A handler that panics rejects its request.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::era::meta;
use crate::error::Error;
use crate::json::{Json, Value};
use crate::limits::Limits;
use crate::model::client_request::{
    ElicitAction, ElicitResponse, Form, InputRequest, InputResponse, Refusal, Root, SampleResponse, Sampling,
    UrlElicitation,
};
use crate::model::{Change, ClientCapabilities, Level};
#[cfg(feature = "observe")]
use crate::observe::Observers;
use crate::pool::{Pool, PoolSize, RejectedJob, guard};
use crate::rpc::{RpcError, code};
use crate::sync::lock;

use super::extension::{Extensions, Received};
use super::server_requests::Cancellation;

/// A log entry of a server. Its content is untrusted.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, Level, stderr};
///
/// let client = Client::builder("host", "1.0.0")
///     .on_log(Level::Warning, |entry| {
///         let logger = entry.logger.as_deref().unwrap_or("server");
///         stderr::write(format!("{} {logger}: {}\n", entry.level.as_str(), entry.data));
///     })
///     .spawn(Command::new("board_server"))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// Severity.
    pub level: Level,
    /// Name of the logger.
    pub logger: Option<String>,
    /// Content, often a string.
    pub data: Json,
}

pub(super) type OnForm = Box<dyn Fn(&Form) -> Result<ElicitResponse, Refusal> + Send + Sync>;
pub(super) type OnUrl = Box<dyn Fn(&UrlElicitation) -> Result<ElicitAction, Refusal> + Send + Sync>;
pub(super) type OnSample = Box<dyn Fn(&Sampling) -> Result<SampleResponse, Refusal> + Send + Sync>;
pub(super) type OnLog = Box<dyn Fn(&LogEntry) + Send + Sync>;
pub(super) type OnChange = Box<dyn Fn(&Change) + Send + Sync>;
pub(super) type OnEnd = Box<dyn Fn(&Error) + Send + Sync>;
pub(super) type OnStrayOutput = Box<dyn Fn(&str) + Send + Sync>;

/// Callbacks that the program registered.
#[derive(Default)]
pub(super) struct Handlers {
    pub form: Option<OnForm>,
    pub url: Option<OnUrl>,
    pub sample: Option<OnSample>,
    pub sample_tools: bool,
    pub roots: Option<Vec<Root>>,
    pub log: Option<OnLog>,
    pub change: Option<OnChange>,
    pub stray_output: Option<OnStrayOutput>,
    pub end: Option<OnEnd>,
    pub extensions: Extensions,
    #[cfg(feature = "observe")]
    pub observers: Observers,
    /// Receives requests and log entries before the handlers.
    pub relay: Option<Arc<dyn Relay>>,
}

/// Work for the pool.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Reason why a request of the server has no result.
#[derive(Debug)]
pub(super) enum Declined {
    /// The client did not declare this capability.
    Undeclared(&'static str),
    /// The program or its user rejected the request.
    Refused(Refusal),
    /// The result of the handler does not match the request.
    Invalid(String),
}

/// A request of an upstream server that the hub forwards to one of its clients. Dropping it without
/// a response rejects it.
pub(crate) struct Forwarded {
    /// The request.
    pub(crate) request: InputRequest,
    /// Cancellation by the server, or by the end of its connection.
    #[allow(dead_code, reason = "read by the hub")]
    pub(crate) cancellation: Arc<Cancellation>,
    respond: Option<Respond>,
}

/// Sends the response to a request of the server.
pub(super) type Respond = Box<dyn FnOnce(Result<&Json, &RpcError>) + Send>;

impl Forwarded {
    pub(super) fn new(request: InputRequest, respond: Respond, cancellation: Arc<Cancellation>) -> Forwarded {
        Forwarded { request, cancellation, respond: Some(respond) }
    }

    /// Sends the response, unless the server has cancelled the request.
    #[allow(dead_code, reason = "called by the hub")]
    pub(crate) fn answer(mut self, answer: Result<&Json, &RpcError>) {
        if let Some(respond) = self.respond.take() {
            respond(answer);
        }
    }

    /// Returns the request for the client's own handlers.
    pub(super) fn into_request(mut self) -> InputRequest {
        self.respond = None;
        std::mem::replace(&mut self.request, InputRequest::Roots)
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        if let Some(respond) = self.respond.take() {
            respond(Err(&RpcError::new(code::INTERNAL, "The client dropped the request without a response")));
        }
    }
}

/// Forwards requests and log entries of the server. Called on the reader thread, so it must not
/// block.
pub(crate) trait Relay: Send + Sync {
    /// Takes ownership of a request.
    ///
    /// # Errors
    /// Returns the request if the client's own handlers must respond to it.
    fn forward(&self, request: Forwarded) -> Result<(), Forwarded>;

    /// Forwards a log entry.
    fn log(&self, entry: &LogEntry);

    /// Returns the capabilities to declare to the server.
    fn capabilities(&self) -> ClientCapabilities;
}

impl Event {
    /// Returns the bytes of the server's content.
    fn size(&self) -> usize {
        match self {
            Event::Log(entry) => entry.data.as_str().len() + entry.logger.as_ref().map_or(0, String::len),
            Event::Change(Change::ResourceUpdated(uri)) => uri.len(),
            Event::StrayOutput(text) => text.len(),
            Event::Notification(received) => received.size(),
            Event::Change(_) | Event::End(_) | Event::Task(_) => 0,
        }
    }
}

enum Event {
    Log(LogEntry),
    Change(Change),
    StrayOutput(String),
    /// A notification of an extension.
    Notification(Received),
    End(Error),
    /// Work of the client that may wait for the server.
    Task(Job),
}

#[derive(Default)]
struct EventQueue {
    events: VecDeque<Event>,
    /// Sum of the sizes of `events`.
    bytes: usize,
    /// A job that delivers the events is queued in the pool.
    scheduled: bool,
    /// A thread is delivering events.
    delivering: bool,
    /// The connection is closed: new events are dropped.
    closed: bool,
}

/// Handlers, and the threads that run them.
pub(super) struct HandlerPool {
    handlers: Handlers,
    roots: Mutex<Option<Vec<Root>>>,
    capabilities: ClientCapabilities,
    pool: Pool<Job>,
    queue: Mutex<EventQueue>,
    max_events: usize,
    max_bytes: usize,
    /// Bytes of requests of the server that are queued or being handled.
    held: AtomicUsize,
    /// Number of events that were dropped.
    pub(super) dropped: AtomicU64,
}

/// Guard of the bytes that a request takes while it is queued or being handled.
pub(super) struct Reservation {
    pool: Arc<HandlerPool>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.pool.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Time after which an idle thread of the pool ends.
const IDLE: Duration = Duration::from_secs(5);

impl HandlerPool {
    /// Returns the program's observers of requests.
    #[cfg(feature = "observe")]
    pub(super) fn observers(&self) -> &Observers {
        &self.handlers.observers
    }

    pub(super) fn new(mut handlers: Handlers, limits: &Limits) -> HandlerPool {
        let roots = handlers.roots.take();
        let capabilities = ClientCapabilities {
            form: handlers.form.is_some(),
            url: handlers.url.is_some(),
            sampling: handlers.sample.is_some(),
            sampling_tools: handlers.sample.is_some() && handlers.sample_tools,
            roots: roots.is_some(),
        };
        let size = PoolSize {
            workers: limits.client.handlers,
            queue: limits.client.events,
            stack: limits.worker_stack,
            idle: IDLE,
        };
        HandlerPool {
            handlers,
            roots: Mutex::new(roots),
            capabilities,
            pool: Pool::new(size, |job: Job| job()),
            queue: Mutex::default(),
            max_events: limits.client.events,
            max_bytes: limits.in_flight_bytes,
            held: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Returns the capabilities that the handlers provide.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    /// Returns the extensions that the program declared.
    pub(super) fn extensions(&self) -> &Extensions {
        &self.handlers.extensions
    }

    /// Returns the relay of a hub.
    pub(super) fn relay(&self) -> Option<&dyn Relay> {
        self.handlers.relay.as_deref()
    }

    /// Returns whether changes are delivered.
    pub(super) fn wants_changes(&self) -> bool {
        self.handlers.change.is_some()
    }

    /// Returns whether log entries are delivered.
    pub(super) fn wants_log(&self) -> bool {
        self.handlers.relay.is_some() || self.handlers.log.is_some()
    }

    /// Replaces the roots. Returns `false` if none were declared.
    pub(super) fn change_roots(&self, roots: Vec<Root>) -> bool {
        if !self.capabilities.roots {
            return false;
        }
        *lock(&self.roots) = Some(roots);
        true
    }

    /// Runs a job on the pool. Returns `false` if the queue is full.
    pub(super) fn run(self: &Arc<Self>, job: Job) -> bool {
        self.submit(job).is_ok()
    }

    /// Queues a job. After it, its thread delivers queued events, because the pool may have been
    /// too full for a job that delivers them.
    fn submit(self: &Arc<Self>, job: Job) -> Result<(), RejectedJob<Job>> {
        let this = Arc::clone(self);
        self.pool.try_submit(Box::new(move || {
            job();
            this.deliver();
        }))
    }

    /// Rejects new jobs and drops queued events. Running jobs continue.
    pub(super) fn close(&self) {
        self.pool.close();
        let mut queue = lock(&self.queue);
        let dropped = std::mem::take(&mut queue.events);
        queue.bytes = 0;
        queue.closed = true;
        drop(queue);
        // Dropped without the lock: a task may own values whose drop takes locks.
        drop(dropped);
    }

    /// Reserves bytes for a request until the guard is dropped. Returns `None` if too many bytes
    /// are reserved.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let held = Reservation { pool: Arc::clone(self), bytes };
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        // The first request may have any size: the frame limit bounds it.
        (before == 0 || before + bytes <= self.max_bytes).then_some(held)
    }

    /// Checks that the client declares the capability that the request requires (requirements
    /// ROOT-03, ELI-07, SAMP-04).
    pub(super) fn check_declared(&self, request: &InputRequest) -> Result<(), Declined> {
        match self.capabilities.missing(request.needs()) {
            Some(capability) => Err(Declined::Undeclared(capability)),
            None => Ok(()),
        }
    }

    /// Runs the handler for a request. Called on the pool.
    pub(super) fn answer(&self, request: &InputRequest) -> Result<InputResponse, Declined> {
        self.check_declared(request)?;
        guard(|| self.run_handler(request))
            .unwrap_or_else(|_| Err(Declined::Refused(Refusal::from("the handler panicked"))))
    }

    fn run_handler(&self, request: &InputRequest) -> Result<InputResponse, Declined> {
        match request {
            InputRequest::Form(form) => {
                let reply =
                    self.handlers.form.as_ref().ok_or(Declined::Undeclared("elicitation.form"))?(form);
                let reply = reply.map_err(Declined::Refused)?;
                form.completed(reply).map(InputResponse::Form).map_err(Declined::Invalid)
            }
            InputRequest::Url { message, url } => {
                let request = UrlElicitation { message: message.clone(), url: url.clone() };
                let action =
                    self.handlers.url.as_ref().ok_or(Declined::Undeclared("elicitation.url"))?(&request);
                action.map(InputResponse::Url).map_err(Declined::Refused)
            }
            InputRequest::Sample(sampling) => {
                let reply = self.handlers.sample.as_ref().ok_or(Declined::Undeclared("sampling"))?(sampling);
                let reply = reply.map_err(Declined::Refused)?;
                let flaw = reply.contents().find_map(meta::block_error);
                match flaw {
                    Some(flaw) => Err(Declined::Invalid(format!("the _meta of a block {flaw}"))),
                    None => Ok(InputResponse::Sample(reply)),
                }
            }
            InputRequest::Roots => {
                let roots = lock(&self.roots).clone();
                Ok(InputResponse::Roots(roots.ok_or(Declined::Undeclared("roots"))?))
            }
        }
    }

    pub(super) fn report_log(self: &Arc<Self>, entry: LogEntry) {
        // Not queued: entries of a call must be forwarded before its result.
        if let Some(relay) = &self.handlers.relay {
            relay.log(&entry);
        }
        if self.handlers.log.is_some() {
            self.queue(Event::Log(entry));
        }
    }

    pub(super) fn report_change(self: &Arc<Self>, change: Change) {
        if self.handlers.change.is_some() {
            self.queue(Event::Change(change));
        }
    }

    pub(super) fn report_stray_output(self: &Arc<Self>, text: String) {
        if self.handlers.stray_output.is_some() {
            self.queue(Event::StrayOutput(text));
        }
    }

    /// Reports a notification of an extension, if it has a handler.
    pub(super) fn report_notification(self: &Arc<Self>, method: &str, params: Option<Value<'_>>) {
        if let Some(received) = self.handlers.extensions.receive(method, params) {
            self.queue(Event::Notification(received));
        }
    }

    /// Reports the end of the connection, even if the queue is full.
    pub(super) fn report_end(self: &Arc<Self>, why: Error) {
        if self.handlers.end.is_some() {
            self.queue(Event::End(why));
        }
    }

    /// Runs a job of the client on the pool. If the pool is full the job runs after the queued
    /// events.
    pub(super) fn run_later(self: &Arc<Self>, job: Job) {
        if let Err(refused) = self.submit(job) {
            self.queue(Event::Task(refused.job));
        }
    }

    fn queue(self: &Arc<Self>, event: Event) {
        let mut queue = lock(&self.queue);
        let known =
            |change: &Change| queue.events.iter().any(|e| matches!(e, Event::Change(c) if c == change));
        if queue.closed || matches!(&event, Event::Change(change) if known(change)) {
            return;
        }
        let size = event.size();
        let full = queue.events.len() >= self.max_events
            || (size > 0 && queue.bytes > 0 && queue.bytes + size > self.max_bytes);
        if full && !matches!(event, Event::End(_)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes += size;
        queue.events.push_back(event);
        if queue.scheduled || queue.delivering {
            return;
        }
        queue.scheduled = true;
        drop(queue);
        let this = Arc::clone(self);
        let scheduled = self.run(Box::new(move || lock(&this.queue).scheduled = false));
        if !scheduled {
            // The pool is full: one of its jobs delivers the events after it.
            lock(&self.queue).scheduled = false;
        }
    }

    /// Delivers queued events, unless another thread does.
    fn deliver(&self) {
        if std::mem::replace(&mut lock(&self.queue).delivering, true) {
            return;
        }
        loop {
            let mut queue = lock(&self.queue);
            let Some(event) = queue.events.pop_front() else {
                queue.delivering = false;
                return;
            };
            queue.bytes -= event.size();
            drop(queue);
            // OK to drop: after a panic of a handler the next event is delivered.
            let _ = guard(|| match event {
                Event::Log(entry) => self.handlers.log.iter().for_each(|handler| handler(&entry)),
                Event::Change(change) => self.handlers.change.iter().for_each(|handler| handler(&change)),
                Event::StrayOutput(text) => {
                    self.handlers.stray_output.iter().for_each(|handler| handler(&text))
                }
                Event::Notification(received) => self.handlers.extensions.deliver(&received),
                Event::End(why) => self.handlers.end.iter().for_each(|handler| handler(&why)),
                Event::Task(job) => job(),
            });
        }
    }
}
