//! Handlers of the program, and the threads that run them.
//!
//! Holds the handlers, runs them on a small bounded pool, validates their results, and delivers log
//! entries and changes in order. Handlers never run on the thread that reads.
//!
//! # Invariants
//! - A request without a registered handler is refused.
//! - Events are delivered in order, by one thread at a time. Beyond [`Limits::events`] events, or
//!   [`Limits::in_flight_bytes`] bytes of them, new ones are dropped and counted. A change that is
//!   already queued is not queued again.
//! - Requests of the server that are queued or being handled hold at most as many bytes again.
//! - A handler that panics counts as a refusal.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::era::meta;
use crate::error::Error;
use crate::json::Json;
use crate::limits::Limits;
use crate::model::client_request::Action;
use crate::model::client_request::{
    AskReply, AskRequest, Form, FormResponse, Refusal, Root, SampleResponse, Sampling, UrlRequest,
};
use crate::model::{Change, ClientCapabilities, Level};
use crate::pool::{Pool, PoolSize, Refused, guard};

/// A log entry of a server. Its content is untrusted.
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

pub(super) type OnForm = Box<dyn Fn(&Form) -> Result<FormResponse, Refusal> + Send + Sync>;
pub(super) type OnUrl = Box<dyn Fn(&UrlRequest) -> Result<Action, Refusal> + Send + Sync>;
pub(super) type OnSample = Box<dyn Fn(&Sampling) -> Result<SampleResponse, Refusal> + Send + Sync>;
pub(super) type OnLog = Box<dyn Fn(&LogEntry) + Send + Sync>;
pub(super) type OnChange = Box<dyn Fn(&Change) + Send + Sync>;
pub(super) type OnEnd = Box<dyn Fn(&Error) + Send + Sync>;
pub(super) type OnNoise = Box<dyn Fn(&str) + Send + Sync>;

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
    pub noise: Option<OnNoise>,
    pub end: Option<OnEnd>,
    /// Is told first.
    pub relay: Option<Arc<dyn super::server_requests::Relay>>,
}

/// Work for the pool.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Reason why a request of the server has no result.
#[derive(Debug)]
pub(super) enum Declined {
    /// The client did not declare this capability.
    Undeclared(&'static str),
    /// The program, or the person before it, refused.
    Refused(Refusal),
    /// The program's answer does not fit the question.
    Unfit(String),
}

impl Event {
    /// Returns the bytes of the server's content.
    fn size(&self) -> usize {
        match self {
            Event::Log(entry) => entry.data.as_str().len() + entry.logger.as_ref().map_or(0, String::len),
            Event::Change(Change::Updated(uri)) => uri.len(),
            Event::Noise(noise) => noise.len(),
            Event::Change(_) | Event::End(_) | Event::Task(_) => 0,
        }
    }
}

enum Event {
    Log(LogEntry),
    Change(Change),
    Noise(String),
    End(Error),
    /// Work of the client that may wait for the server.
    Task(Job),
}

#[derive(Default)]
struct EventQueue {
    news: VecDeque<Event>,
    /// The sum of their sizes.
    bytes: usize,
    /// A job that empties it is queued.
    called: bool,
    /// A thread empties it.
    attended: bool,
    /// Nothing is taken any more.
    closed: bool,
}

/// Handlers, and the threads that run them.
pub(super) struct HandlerPool {
    handlers: Handlers,
    roots: Mutex<Option<Vec<Root>>>,
    capabilities: ClientCapabilities,
    pool: Pool<Job>,
    letterbox: Mutex<EventQueue>,
    most: usize,
    most_bytes: usize,
    /// Bytes of questions that wait or are being answered.
    held: AtomicUsize,
    /// Event that nobody was told.
    pub(super) dropped: AtomicU64,
}

/// Bytes of a question that waits or is being answered.
pub(super) struct Held {
    desk: Arc<HandlerPool>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.desk.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A thread of the pool that found nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(5);

impl HandlerPool {
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
            workers: limits.handlers,
            queue: limits.events,
            stack: limits.worker_stack,
            idle: IDLE,
        };
        HandlerPool {
            handlers,
            roots: Mutex::new(roots),
            capabilities,
            pool: Pool::new(size, |job: Job| job()),
            letterbox: Mutex::default(),
            most: limits.events,
            most_bytes: limits.in_flight_bytes,
            held: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    /// Returns the capabilities that the handlers provide.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    /// Returns the relay of a hub.
    pub(super) fn relay(&self) -> Option<&dyn super::server_requests::Relay> {
        self.handlers.relay.as_deref()
    }

    pub(super) fn hears_changes(&self) -> bool {
        self.handlers.change.is_some()
    }

    pub(super) fn hears_log(&self) -> bool {
        if self.handlers.relay.is_some() {
            return true;
        }
        self.handlers.log.is_some()
    }

    /// Other roots from now on; `false` when none were offered at first.
    pub(super) fn change_roots(&self, roots: Vec<Root>) -> bool {
        if !self.capabilities.roots {
            return false;
        }
        *lock(&self.roots) = Some(roots);
        true
    }

    /// Runs a job on the pool; `false` when there is no room.
    pub(super) fn run(self: &Arc<Self>, job: Job) -> bool {
        self.submit(job).is_ok()
    }

    /// Queues a job. Its thread delivers queued events afterwards: there may have been no room for
    /// a job of their own.
    fn submit(self: &Arc<Self>, job: Job) -> Result<(), Refused<Job>> {
        let desk = Arc::clone(self);
        self.pool.try_submit(Box::new(move || {
            job();
            desk.attend();
        }))
    }

    /// Takes no more jobs; those that run come to their end by themselves.
    pub(super) fn close(&self) {
        self.pool.close();
        let mut letterbox = lock(&self.letterbox);
        let dropped = std::mem::take(&mut letterbox.news);
        letterbox.bytes = 0;
        letterbox.closed = true;
        drop(letterbox);
        // A task may own values whose drop takes locks.
        drop(dropped);
    }

    /// Room for a question of so many bytes, until the guard is dropped.
    pub(super) fn hold(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let held = Held { desk: Arc::clone(self), bytes };
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        // The first may be of any size: a message has a limit of its own.
        (before == 0 || before + bytes <= self.most_bytes).then_some(held)
    }

    /// Checks that the client declares what the request needs (requirements ROOT-03, ELI-07,
    /// SAMP-04).
    pub(super) fn may_ask(&self, request: &AskRequest) -> Result<(), Declined> {
        match self.capabilities.missing(request.needs()) {
            Some(capability) => Err(Declined::Undeclared(capability)),
            None => Ok(()),
        }
    }

    /// Answers a question with the handler for it. Called on the pool.
    pub(super) fn answer(&self, request: &AskRequest) -> Result<AskReply, Declined> {
        self.may_ask(request)?;
        guard(|| self.handled(request))
            .unwrap_or_else(|_| Err(Declined::Refused(Refusal::from("the handler panicked"))))
    }

    fn handled(&self, request: &AskRequest) -> Result<AskReply, Declined> {
        match request {
            AskRequest::Form(form) => {
                let reply =
                    self.handlers.form.as_ref().ok_or(Declined::Undeclared("elicitation.form"))?(form);
                let reply = reply.map_err(Declined::Refused)?;
                form.completed(reply).map(AskReply::Form).map_err(Declined::Unfit)
            }
            AskRequest::Url { message, url } => {
                let request = UrlRequest { message: message.clone(), url: url.clone() };
                let action =
                    self.handlers.url.as_ref().ok_or(Declined::Undeclared("elicitation.url"))?(&request);
                action.map(AskReply::Url).map_err(Declined::Refused)
            }
            AskRequest::Sample(sampling) => {
                let reply = self.handlers.sample.as_ref().ok_or(Declined::Undeclared("sampling"))?(sampling);
                let reply = reply.map_err(Declined::Refused)?;
                let flaw = reply.contents().find_map(meta::of_block);
                match flaw {
                    Some(flaw) => Err(Declined::Unfit(format!("the _meta of a block {flaw}"))),
                    None => Ok(AskReply::Sample(reply)),
                }
            }
            AskRequest::Roots => {
                let roots = lock(&self.roots).clone();
                Ok(AskReply::Roots(roots.ok_or(Declined::Undeclared("roots"))?))
            }
        }
    }

    pub(super) fn tell_log(self: &Arc<Self>, entry: LogEntry) {
        // At once: what belongs to a call must be said before its answer is.
        if let Some(relay) = &self.handlers.relay {
            relay.log(&entry);
        }
        if self.handlers.log.is_some() {
            self.post(Event::Log(entry));
        }
    }

    pub(super) fn tell_change(self: &Arc<Self>, change: Change) {
        if self.handlers.change.is_some() {
            self.post(Event::Change(change));
        }
    }

    pub(super) fn tell_noise(self: &Arc<Self>, noise: String) {
        if self.handlers.noise.is_some() {
            self.post(Event::Noise(noise));
        }
    }

    /// The last news there is: told whatever else waits.
    pub(super) fn tell_end(self: &Arc<Self>, why: Error) {
        if self.handlers.end.is_some() {
            self.post(Event::End(why));
        }
    }

    /// Has something of the client's own done, beside the news if there is room, else after them.
    pub(super) fn chore(self: &Arc<Self>, job: Job) {
        if let Err(refused) = self.submit(job) {
            self.post(Event::Task(refused.job));
        }
    }

    fn post(self: &Arc<Self>, news: Event) {
        let mut letterbox = lock(&self.letterbox);
        let known =
            |change: &Change| letterbox.news.iter().any(|n| matches!(n, Event::Change(c) if c == change));
        if letterbox.closed || matches!(&news, Event::Change(change) if known(change)) {
            return;
        }
        let size = news.size();
        let full = letterbox.news.len() >= self.most
            || (size > 0 && letterbox.bytes > 0 && letterbox.bytes + size > self.most_bytes);
        if full && !matches!(news, Event::End(_)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        letterbox.bytes += size;
        letterbox.news.push_back(news);
        if letterbox.called || letterbox.attended {
            return;
        }
        letterbox.called = true;
        drop(letterbox);
        let desk = Arc::clone(self);
        let called = self.run(Box::new(move || lock(&desk.letterbox).called = false));
        if !called {
            // The queue is full: a job of it that ends looks here.
            lock(&self.letterbox).called = false;
        }
    }

    /// Delivers queued events, unless another thread does.
    fn attend(&self) {
        if std::mem::replace(&mut lock(&self.letterbox).attended, true) {
            return;
        }
        loop {
            let mut letterbox = lock(&self.letterbox);
            let Some(news) = letterbox.news.pop_front() else {
                letterbox.attended = false;
                return;
            };
            letterbox.bytes -= news.size();
            drop(letterbox);
            // OK to drop: a handler that panics has heard the news, and the next is told as well.
            let _ = guard(|| match news {
                Event::Log(entry) => self.handlers.log.iter().for_each(|hear| hear(&entry)),
                Event::Change(change) => self.handlers.change.iter().for_each(|hear| hear(&change)),
                Event::Noise(noise) => self.handlers.noise.iter().for_each(|hear| hear(&noise)),
                Event::End(why) => self.handlers.end.iter().for_each(|hear| hear(&why)),
                Event::Task(job) => job(),
            });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
