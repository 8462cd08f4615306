//! Thread of a service whose requests another HTTP server receives.
//!
//! Threads of that server pass heads and bodies to a [`Relay`] and wait for the responses. The
//! thread of the service calls the [`Service`], as the thread of the event loop does.
//!
//! # Invariants
//! - Every request gets a response: from the service, or 503 after the relay has ended.
//!
//! A thread of the other server waits for the reply to each command that needs one, so the queue
//! holds at most one such command per thread, and the ends of responses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::event_budget::EventBudget;
use super::head::{Head, StatusError};
use super::mailbox::Mailbox;
use super::peer::Peer;
use super::responder::Responder;
use super::socket_writer::earliest;
use super::{Admission, EngineHandle, Response, Service};
use crate::limits::Limits;

/// Head of a request, without its framing.
pub(crate) struct RelayedRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) peer: Option<Peer>,
}

/// Message to the thread of the service.
enum Command {
    /// Checks a head.
    Check(Arc<RelayedRequest>, SyncSender<Option<Response>>),
    /// Handles a request whose head was admitted.
    Handle(Arc<RelayedRequest>, Vec<u8>, Arc<Mailbox>),
    /// Returns the response for an error status.
    Reject(u16, SyncSender<Option<Response>>),
    /// Reports that the other server does not read the rest of this response.
    Disconnected(u64),
    Tick,
    Stop(Instant),
}

/// Reply to a request.
pub(crate) enum Reply {
    /// The request was rejected by its head.
    Rejected(Response),
    /// The head was admitted. The body must be sent.
    NeedsBody,
}

/// Handle to the thread of a service.
pub(crate) struct Relay {
    commands: Sender<Command>,
    budget: Arc<EventBudget>,
    last_exchange: AtomicU64,
    stopping: Arc<AtomicBool>,
    /// Size limit of a body in bytes.
    pub(crate) body_bytes: usize,
    pub(crate) comment_interval: Duration,
}

impl EngineHandle for Relay {
    fn wake(&self) {
        self.send(Command::Tick);
    }

    fn stop(&self, deadline: Instant) {
        self.stopping.store(true, Ordering::Release);
        self.send(Command::Stop(deadline));
    }
}

impl Relay {
    /// Creates a relay, and the part for its thread, which calls [`RelayThread::run`].
    pub(crate) fn new(limits: &Limits) -> (Arc<Relay>, RelayThread) {
        let (commands, receiver) = channel();
        let relay = Relay {
            commands,
            budget: Arc::new(EventBudget::new(limits, usize::MAX)),
            last_exchange: AtomicU64::new(0),
            stopping: Arc::default(),
            body_bytes: limits.frame_bytes,
            comment_interval: limits.http.comment_interval,
        };
        let thread = RelayThread {
            commands: receiver,
            budget: Arc::clone(&relay.budget),
            patience: limits.http.body_timeout,
        };
        (Arc::new(relay), thread)
    }

    /// Sends a message to the thread. Returns `false` if the thread has ended.
    fn send(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    fn ask(&self, command: impl FnOnce(SyncSender<Option<Response>>) -> Command) -> Reply {
        let (reply, replies) = sync_channel(1);
        self.send(command(reply));
        match replies.recv() {
            Ok(None) => Reply::NeedsBody,
            Ok(Some(response)) => Reply::Rejected(response),
            Err(_) => Reply::Rejected(busy()),
        }
    }

    /// Checks a head.
    pub(crate) fn check(&self, request: &Arc<RelayedRequest>) -> Reply {
        self.ask(|reply| Command::Check(Arc::clone(request), reply))
    }

    /// Returns the response to a request that cannot be passed to the service.
    pub(crate) fn reject(&self, status: u16) -> Response {
        match self.ask(|reply| Command::Reject(status, reply)) {
            Reply::Rejected(response) => response,
            Reply::NeedsBody => Response::new(status),
        }
    }

    /// Handles a request whose head was admitted. The mailbox receives the response.
    pub(crate) fn handle(&self, request: &Arc<RelayedRequest>, body: Vec<u8>) -> Arc<Mailbox> {
        let id = self.last_exchange.fetch_add(1, Ordering::Relaxed) + 1;
        let (stopping, commands) = (Arc::clone(&self.stopping), self.commands.clone());
        let on_end = move || {
            if stopping.load(Ordering::Acquire) {
                // During a shutdown, the thread may end now, so wake it. OK to drop the error: the
                // thread may have ended already.
                let _ = commands.send(Command::Tick);
            }
        };
        let mailbox = Arc::new(Mailbox::new(id, request.peer, &self.budget, Box::new(on_end)));
        if !self.send(Command::Handle(Arc::clone(request), body, Arc::clone(&mailbox))) {
            mailbox.end();
        }
        mailbox
    }

    /// Reports that the other server does not read the rest of a response.
    pub(crate) fn abandon(&self, mailbox: &Mailbox) {
        if mailbox.abandon() {
            self.send(Command::Disconnected(mailbox.id));
        }
    }
}

fn busy() -> Response {
    Response { fields: vec![("retry-after", "1".to_owned())], ..Response::new(503) }
}

/// Receiving half of a relay.
pub(crate) struct RelayThread {
    commands: Receiver<Command>,
    budget: Arc<EventBudget>,
    /// Maximum time that a request waits for the service's decision.
    patience: Duration,
}

/// Open responses. Dropping this ends them.
#[derive(Default)]
struct OpenResponses(Vec<Weak<Mailbox>>);

impl OpenResponses {
    fn add(&mut self, mailbox: &Arc<Mailbox>) {
        if self.0.len() == self.0.capacity() {
            self.0.retain(|open| open.upgrade().is_some_and(|open| !open.is_over()));
        }
        self.0.push(Arc::downgrade(mailbox));
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|open| open.upgrade().is_none_or(|open| open.is_over()))
    }
}

impl Drop for OpenResponses {
    fn drop(&mut self) {
        self.0.iter().filter_map(Weak::upgrade).for_each(|open| open.end());
    }
}

/// A request whose head the service checks again later, with the sender of the reply and the
/// deadline of the decision.
type Waiting = (Arc<RelayedRequest>, SyncSender<Option<Response>>, Instant);

impl RelayThread {
    /// Serves until the relay is stopped.
    pub(crate) fn run(self, service: &mut dyn Service) {
        self.budget.serve_here();
        let (mut open, mut waiting) = (OpenResponses::default(), VecDeque::<Waiting>::new());
        let (mut tick_at, mut stop_at) = (Some(Instant::now()), None);
        loop {
            let now = Instant::now();
            if tick_at.is_some_and(|at| at <= now) {
                tick_at = service.tick(now);
                for (request, reply, until) in std::mem::take(&mut waiting) {
                    self.check(service, (request, reply, until), &mut waiting);
                }
            }
            if stop_at.is_some_and(|at| at <= now || open.is_empty()) {
                return;
            }
            let next = [tick_at, stop_at, waiting.front().map(|(.., until)| *until)];
            let command = match next.into_iter().flatten().min() {
                Some(at) => self.commands.recv_timeout(at.saturating_duration_since(now)),
                None => self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match command {
                Err(RecvTimeoutError::Timeout) if waiting.is_empty() => {}
                Err(RecvTimeoutError::Timeout) | Ok(Command::Tick) => tick_at = Some(now),
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(Command::Check(_, reply)) if stop_at.is_some() => _ = reply.send(Some(busy())),
                Ok(Command::Check(request, reply)) => {
                    self.check(service, (request, reply, now + self.patience), &mut waiting);
                }
                Ok(Command::Reject(status, reply)) => {
                    _ = reply.send(Some(Response { status, ..service.error_response(status) }));
                }
                Ok(Command::Handle(request, body, mailbox)) => {
                    open.add(&mailbox);
                    let id = mailbox.id;
                    let responder = Responder { writer: mailbox, id, common_fields: Vec::new() };
                    if stop_at.is_some() {
                        responder.send(&busy());
                    } else {
                        // OK to ignore: the head was accepted when it was checked.
                        let _ = with_head(&request, |head| service.handle(head, &body, responder));
                    }
                }
                Ok(Command::Disconnected(exchange)) => service.disconnected(exchange),
                Ok(Command::Stop(deadline)) => {
                    if stop_at.is_none() {
                        service.stop();
                    }
                    stop_at = earliest(stop_at, deadline);
                }
            }
        }
    }

    fn check(&self, service: &mut dyn Service, waits: Waiting, waiting: &mut VecDeque<Waiting>) {
        let (request, reply, until) = waits;
        let response = match with_head(&request, |head| service.check(head)) {
            Err(StatusError(status)) => Some(Response { status, ..service.error_response(status) }),
            Ok(Admission::ReadBody) => None,
            Ok(Admission::Respond(response)) => Some(response),
            Ok(Admission::Wait) if Instant::now() < until => {
                waiting.push_back((request, reply, until));
                return;
            }
            Ok(Admission::Wait) => Some(busy()),
        };
        // OK to ignore: the thread waits for the reply unless it panicked.
        let _ = reply.send(response);
    }
}

/// Calls `run` with the head of a request.
fn with_head<R>(request: &RelayedRequest, run: impl FnOnce(&Head<'_>) -> R) -> Result<R, StatusError> {
    let fields: Vec<_> =
        request.fields.iter().map(|(name, value)| httparse::Header { name, value }).collect();
    Head::of_parts(&request.method, &request.target, &fields).map(|head| run(&head))
}
