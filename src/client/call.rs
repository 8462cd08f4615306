//! One call from its first request to its result.
//!
//! Drives the rounds of a call on the thread that waits for it: sends the request, waits for the
//! response, asks the handlers for input that the server requires, and repeats the request once
//! after the session was lost.
//!
//! # Invariants
//! - A call ends exactly once, with a result or a typed error. Each round that carries input has a
//!   deadline of its own; while the user is asked, only [`Limits::ask_timeout`] applies. A repeated
//!   request shares the time of the request it repeats.
//! - Every round has a new id and carries exactly the state of the round before.
//! - A cancelled call sends nothing more: the canceller and the sender check the same lock.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::era::client::{self as codec, Outcome};
use crate::era::outgoing::OutgoingRequest;
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, NodeId, Value, Writer};
use crate::model::task::Task;
use crate::model::{CacheHint, Level};
use crate::rpc::RpcError;
use crate::transport::client::Failure;

use super::connection::{Core, lock, remote};
use super::handlers::Declined;
use super::pending_call::{CallTimeout, PendingCall, Progress, Reply, WaitOutcome};
#[cfg(feature = "http-client")]
use super::retry::Resend;
use super::send::{Sending, send};

#[cfg(doc)]
use crate::limits::Limits;

/// The first pause before a call is repeated that the server neither answered nor asked about.
const PAUSE: Duration = Duration::from_millis(10);

/// Options of a call.
pub(super) struct Options {
    pub patience: CallTimeout,
    pub hear: Option<Box<dyn FnMut(Progress) + Send>>,
    pub log: Option<Level>,
    /// Take no kept answer; the new one takes its place.
    pub fresh: bool,
    /// Keep no answer: whoever it is passed on to may.
    pub passed_on: bool,
    /// Answers to questions of an earlier call, and its state, which this one goes on with.
    pub resume: Option<(String, Option<String>)>,
    /// Called instead of waiting.
    pub watch: Option<super::pending_call::Watch>,
    /// Client capabilities of this call, if they differ from those of the client.
    pub able: Option<crate::model::ClientCapabilities>,
}

/// One call.
pub(super) struct CallRun {
    pub(super) core: Arc<Core>,
    order: Arc<OutgoingRequest>,
    options: Options,
    flag: Arc<CallControl>,
    stage: CallState,
    rounds: u32,
    /// Members of the next round's answers, and the state to go on with, as JSON text.
    answers: Option<String>,
    state: Option<String>,
    /// It was sent again once after its session was lost, or its headers did not fit.
    repeated: bool,
    /// Until when what is sent again may take: the deadline of what it repeats.
    by: Option<Instant>,
    epoch: u64,
    mark: u64,
}

enum CallState {
    /// Nothing is under way.
    Ready,
    /// A request is.
    Sent(u64, Arc<PendingCall>),
    /// Handlers are asked.
    Asking(Instant),
    /// The answer was kept from an earlier call.
    Kept(Json),
    Over,
}

/// State shared by the waiting thread, the handlers and the canceller of a call.
#[derive(Default)]
pub(super) struct CallControl {
    state: Mutex<Shared>,
    changed: Condvar,
}

#[derive(Default)]
struct Shared {
    cancelled: bool,
    /// The request in flight.
    id: Option<u64>,
    /// Results of handlers so far, by key.
    replies: Vec<(String, Result<Json, Error>)>,
    missing: usize,
    /// Tells the replies of one round from those of an earlier one that came too late.
    round: u32,
}

impl CallControl {
    /// The request of this id is about to be sent; `false` when the call was cancelled.
    pub(super) fn sends(&self, id: u64) -> bool {
        let mut state = lock(&self.state);
        if !state.cancelled {
            state.id = Some(id);
        }
        !state.cancelled
    }

    pub(super) fn cancel(&self, core: &Core) {
        let mut state = lock(&self.state);
        state.cancelled = true;
        let id = state.id.take();
        drop(state);
        self.changed.notify_all();
        if let Some(id) = id {
            core.give_up(id, Failure::Cancelled);
        }
    }
}

/// Outcome of one round of a call.
pub(super) enum RoundOutcome {
    /// The answer.
    Complete(Reply),
    /// The server asks back: the questions, an object by key, and the state to come back with, as
    /// JSON text.
    Asked(Option<Json>, Option<String>),
    /// The server goes on by itself.
    Task(Task),
}

impl CallRun {
    pub(super) fn new(core: Arc<Core>, order: OutgoingRequest, mut options: Options) -> CallRun {
        let (mut answers, mut state) = (None, None);
        if let Some((a, s)) = options.resume.take() {
            (answers, state, options.fresh) = (Some(a), s, true);
        }
        CallRun {
            mark: core.cache.mark(),
            epoch: core.renewal.epoch(),
            core,
            order: Arc::new(order),
            options,
            flag: Arc::default(),
            stage: CallState::Ready,
            rounds: 0,
            answers,
            state,
            repeated: false,
            by: None,
        }
    }

    pub(super) fn flag(&self) -> Arc<CallControl> {
        Arc::clone(&self.flag)
    }

    /// Sends the next request. With `here` the calling thread will wait for the answer at once, so
    /// a transport that has no thread for it may use this one.
    pub(super) fn begin(&mut self, here: bool) -> Result<(), Error> {
        let kept = if self.options.fresh { None } else { self.core.cache.find(&self.order) };
        if let Some(kept) = kept {
            self.stage = CallState::Kept(kept);
            return Ok(());
        }
        let core = Arc::clone(&self.core);
        let wants = self.options.hear.is_some();
        let patience = self.patience();
        self.by = None;
        let slot = PendingCall::new(Some(patience), wants, &core.clock, &core.waiters);
        let slot = slot.watched(self.options.watch.clone());
        let slot = Arc::new(slot);
        self.epoch = core.renewal.epoch();
        self.mark = core.cache.mark();
        let id = core.register(Arc::clone(&slot)).map_err(|f| self.core.explained(&f))?;
        if !self.flag.sends(id) {
            core.take(id);
            return Err(Failure::Cancelled.to_error());
        }
        let progress = wants || self.options.patience.extend;
        let log = self.options.log.or_else(|| *lock(&core.log_level));
        let drives = here && core.traits.drives_here;
        #[cfg(feature = "http-client")]
        if !drives && core.traits.headers && core.era().sessions() && !self.repeated {
            let (order, flag) = (Arc::clone(&self.order), self.flag());
            slot.again(Resend { order, flag, epoch: self.epoch, progress, log });
        }
        let sending = Sending {
            progress,
            log,
            answers: self.answers.as_deref(),
            state: self.state.as_deref(),
            able: self.options.able,
            ..Sending::new(id, &self.order, Instant::now() + patience.timeout)
        };
        let hear = &mut self.options.hear;
        let mut turn = || {
            if let Some(hear) = hear {
                slot.tell(hear);
            }
            !slot.over()
        };
        let sent = send(&core, &sending, if drives { Some(&mut turn) } else { None });
        if let Err(failure) = sent {
            // A request that may have left is called back; one that is over already is let be.
            match failure {
                Failure::Timeout => core.give_up(id, failure),
                failure => {
                    if let Some(slot) = core.take(id) {
                        slot.fill(Err(failure));
                    }
                }
            }
        } else if drives && !slot.over() {
            core.give_up(id, Failure::Timeout);
        }
        if self.options.watch.is_some() {
            slot.expect();
            core.carrier.attend();
        }
        self.stage = CallState::Sent(id, slot);
        Ok(())
    }

    /// Returns the timeout of the next request. A repeated request shares the time of the one it
    /// repeats.
    fn patience(&self) -> CallTimeout {
        let patience = self.options.patience;
        let left = self.by.map(|by| by.saturating_duration_since(Instant::now()));
        CallTimeout { timeout: left.map_or(patience.timeout, |left| left.min(patience.timeout)), ..patience }
    }

    /// Waits for the answer to what was sent last, until `until` at most.
    pub(super) fn step(&mut self, until: Option<Instant>) -> Option<Result<RoundOutcome, Error>> {
        self.step_hearing(until, None)
    }

    /// The same, with a listener for progress in the place of the call's own.
    pub(super) fn step_hearing(
        &mut self,
        until: Option<Instant>,
        mut instead: Option<&mut dyn FnMut(Progress)>,
    ) -> Option<Result<RoundOutcome, Error>> {
        loop {
            if matches!(self.stage, CallState::Ready) {
                if let Err(error) = self.begin(until.is_none()) {
                    self.stage = CallState::Over;
                    return Some(Err(error));
                }
            }
            let (id, slot) = match &self.stage {
                // It stays there: a listener may panic, and then the call is to be cancelled.
                CallState::Sent(id, slot) => (*id, Arc::clone(slot)),
                CallState::Kept(kept) => {
                    let doc = kept.to_doc();
                    self.stage = CallState::Over;
                    return Some(Ok(RoundOutcome::Complete(Reply { doc, node: NodeId::ROOT, ok: true })));
                }
                _ => return Some(Err(Error::new(ErrorKind::Misuse, "the call is over"))),
            };
            let hear: Option<&mut dyn FnMut(Progress)> = match (&mut instead, &mut self.options.hear) {
                (Some(hear), _) => Some(&mut **hear),
                (None, Some(hear)) => Some(&mut **hear),
                (None, None) => None,
            };
            let outcome = match self.core.wait(&slot, until, hear) {
                WaitOutcome::Over(outcome) => outcome,
                WaitOutcome::NotYet => return None,
                WaitOutcome::Expired => {
                    // Whoever took the entry first brings the outcome, unless this was about to be sent
                    // again, under another id.
                    let last = lock(&self.flag.state).id.unwrap_or(id);
                    self.core.give_up(last, Failure::Timeout);
                    if slot.was_reopened() {
                        slot.fill(Err(Failure::Timeout));
                    }
                    continue;
                }
            };
            self.stage = CallState::Over;
            lock(&self.flag.state).id = None;
            self.repeated |= slot.was_resent();
            if !matches!(&outcome, Ok(reply) if reply.ok) {
                self.by = slot.deadline(&self.core.clock);
            }
            match self.judged(outcome) {
                Ok(Some(step)) => {
                    // Without questions nobody is asked: the next round has the same deadline.
                    let asks = !matches!(step, RoundOutcome::Asked(None, _));
                    self.by = if asks { None } else { slot.deadline(&self.core.clock) };
                    return Some(Ok(step));
                }
                // To be sent again.
                Ok(None) => self.stage = CallState::Ready,
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Interprets an outcome. `None` means that the request must be sent again.
    fn judged(&mut self, outcome: Result<Reply, Failure>) -> Result<Option<RoundOutcome>, Error> {
        let reply = match outcome {
            Ok(reply) => reply,
            // The server has not acted on it: with a new session it can be asked again.
            Err(Failure::SessionLost) if !self.repeated && self.core.era().sessions() => {
                self.repeated = true;
                self.core.renew(self.epoch, Instant::now() + self.patience().timeout)?;
                return Ok(None);
            }
            // The server may have acted on it, which does no harm.
            Err(Failure::Interrupted(_))
                if !self.repeated && self.state.is_none() && self.order.may_be_repeated() =>
            {
                self.repeated = true;
                return Ok(None);
            }
            Err(failure) => return Err(self.explained(&failure)),
        };
        if !reply.ok {
            let error = RpcError::read(reply.value());
            self.core.recycle(reply.doc);
            let error = error.ok_or_else(|| misbehaved("malformed error object"))?;
            if codec::is_header_mismatch(&error) && self.order.is_tool_call() && !self.repeated {
                self.repeated = true;
                if self.core.refresh_tools(self.patience()).is_ok() {
                    return Ok(None);
                }
            }
            return Err(remote(error));
        }
        match self.core.era().outcome(reply.value(), &self.order).map_err(misbehaved)? {
            Outcome::Complete(hint) => {
                #[cfg(feature = "http-client")]
                if self.core.mirrors_arguments() && self.order.method == "tools/list" {
                    self.core.learn_tools(reply.value());
                }
                #[cfg(feature = "schema")]
                self.check(&reply).map_err(misbehaved)?;
                self.keep(&reply, hint);
                Ok(Some(RoundOutcome::Complete(reply)))
            }
            Outcome::Task(task) => {
                self.core.recycle(reply.doc);
                Ok(Some(RoundOutcome::Task(task)))
            }
            Outcome::InputRequired { .. } if !self.order.may_ask => {
                Err(misbehaved("the server requires input for a method that does not allow it"))
            }
            Outcome::InputRequired { questions, state } => {
                let questions = questions.map(Value::to_json);
                let state = state.map(|s| s.raw().to_owned());
                self.core.recycle(reply.doc);
                Ok(Some(RoundOutcome::Asked(questions, state)))
            }
        }
    }

    /// A failure for the program. Of what took too long it says what that was, and how long it
    /// might have taken.
    fn explained(&self, failure: &Failure) -> Error {
        if !matches!(failure, Failure::Timeout) {
            return self.core.explained(failure);
        }
        let CallTimeout { timeout, longest, extend } = self.options.patience;
        let mut what = format!("no answer to {}", self.order.method);
        if let Some(subject) = &self.order.subject {
            what += &format!(" of {subject:?}");
        }
        what += &match extend {
            true => format!(" within {timeout:?} of the last progress, or {longest:?} in all"),
            false => format!(" within {:?}", timeout.min(longest)),
        };
        Error::new(ErrorKind::Timeout, what)
    }

    /// Validates the result of a tool against its output schema.
    #[cfg(feature = "schema")]
    fn check(&self, reply: &Reply) -> Result<(), String> {
        let core = &self.core;
        if self.order.method == "tools/list" {
            core.outputs.learn(reply.value(), &core.limits);
        }
        core.outputs.check(&self.order, reply.value(), &core.limits)
    }

    fn keep(&self, reply: &Reply, hint: CacheHint) {
        if self.options.passed_on {
            return;
        }
        // A result that depends on input must not be cached (server/utilities/caching).
        if self.answers.is_none() && self.state.is_none() {
            self.core.cache.keep(&self.order, reply.value().raw(), hint, self.mark);
        }
    }

    /// Drives the call to its end and lets the handlers answer input requests.
    pub(super) fn finish(&mut self, until: Option<Instant>) -> Option<Result<Reply, Error>> {
        loop {
            if let CallState::Asking(deadline) = self.stage {
                match self.collect(deadline, until)? {
                    Ok(answers) => {
                        self.answers = Some(answers);
                        self.stage = CallState::Ready;
                    }
                    Err(error) => {
                        self.stage = CallState::Over;
                        return Some(Err(error));
                    }
                }
            }
            match self.step(until)? {
                Ok(RoundOutcome::Complete(reply)) => return Some(Ok(reply)),
                Ok(RoundOutcome::Asked(questions, state)) => {
                    if let Err(error) = self.ask(questions, state) {
                        self.stage = CallState::Over;
                        return Some(Err(error));
                    }
                }
                Ok(RoundOutcome::Task(task)) => {
                    let what = format!("the server created the task {:?}; use `Call::wait_outcome`", task.id);
                    return Some(Err(Error::new(ErrorKind::Misuse, what)));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Gives the input requests of one round to the handlers.
    fn ask(&mut self, questions: Option<Json>, state: Option<String>) -> Result<(), Error> {
        self.rounds += 1;
        if self.rounds > self.core.limits.rounds {
            return Err(misbehaved("the server requires input in too many rounds"));
        }
        self.state = state;
        let Some(questions) = questions else {
            // Nothing is asked: the server wants to be called again, but not at once and for ever.
            self.answers = None;
            self.stage = CallState::Ready;
            let left = self.patience().timeout;
            self.core.rest(left.min(PAUSE * (1 << self.rounds.min(6))));
            return if left.is_zero() { Err(self.explained(&Failure::Timeout)) } else { Ok(()) };
        };
        let doc = questions.to_doc();
        let mut asked = Vec::new();
        for (key, question) in doc.root().members() {
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            let request = codec::inquiry(method, question.get("params"))
                .map_err(|e| misbehaved(format!("invalid input request: {}", e.message)))?;
            self.core.desk.may_ask(&request).map_err(unanswered)?;
            asked.push((key.to_owned(), request));
        }
        {
            let mut shared = lock(&self.flag.state);
            shared.replies.clear();
            shared.missing = asked.len();
            shared.round = self.rounds;
        }
        let revision = self.core.greeting().revision;
        let round = self.rounds;
        for (key, request) in asked {
            let (core, flag) = (Arc::clone(&self.core), Arc::clone(&self.flag));
            let queued = self.core.desk.run(Box::new(move || {
                let wanted = |shared: &Shared| shared.round == round && !shared.cancelled;
                if !wanted(&lock(&flag.state)) {
                    return;
                }
                let reply = match core.desk.answer(&request) {
                    Ok(reply) => Ok(codec::reply_text(revision, &reply)),
                    Err(why) => Err(unanswered(why)),
                };
                let mut shared = lock(&flag.state);
                if wanted(&shared) {
                    shared.missing -= 1;
                    shared.replies.push((key, reply));
                }
                drop(shared);
                flag.changed.notify_all();
            }));
            if !queued {
                return Err(Error::new(ErrorKind::Busy, "too many requests of servers are open"));
            }
        }
        self.stage = CallState::Asking(Instant::now() + self.core.limits.ask_timeout);
        Ok(())
    }

    /// Waits for the handlers. Returns the responses of the round as members of an object.
    fn collect(&self, deadline: Instant, until: Option<Instant>) -> Option<Result<String, Error>> {
        let mut shared = lock(&self.flag.state);
        while shared.missing > 0 && !shared.cancelled && shared.replies.iter().all(|(_, r)| r.is_ok()) {
            let now = Instant::now();
            if now >= deadline {
                shared.round = 0;
                return Some(Err(Error::new(
                    ErrorKind::Timeout,
                    "no answer to the server's input request in time",
                )));
            }
            if until.is_some_and(|u| u <= now) {
                return None;
            }
            let left = until.map_or(deadline, |u| u.min(deadline)) - now;
            shared = self.flag.changed.wait_timeout(shared, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if shared.cancelled {
            return Some(Err(Failure::Cancelled.to_error()));
        }
        let mut w = Writer::new();
        w.begin_object();
        for (key, reply) in std::mem::take(&mut shared.replies) {
            match reply {
                Ok(reply) => {
                    w.key(&key).json(&reply);
                }
                // Refusals have no form on the wire: the call ends here (client/sampling, error
                // handling).
                Err(error) => {
                    shared.round = 0;
                    return Some(Err(error));
                }
            }
        }
        w.end_object();
        let text = w.into_json();
        Some(Ok(text
            .as_str()
            .strip_prefix('{')
            .and_then(|t| t.strip_suffix('}'))
            .unwrap_or_default()
            .to_owned()))
    }

    /// Cancels the call.
    pub(super) fn cancel(&mut self) {
        self.flag.cancel(&self.core);
        self.stage = CallState::Over;
    }
}

impl Drop for CallRun {
    /// Cancels a call that is no longer waited for.
    fn drop(&mut self) {
        if !matches!(self.stage, CallState::Over) {
            self.cancel();
        }
    }
}

fn unanswered(why: Declined) -> Error {
    match why {
        Declined::Undeclared(capability) => {
            misbehaved(format!("the server asks for `{capability}`, which this client does not declare"))
        }
        Declined::Refused(refusal) => Error::new(
            ErrorKind::Cancelled,
            format!("the input request of the server was refused: {}", refusal.message),
        ),
        Declined::Unfit(what) => {
            Error::new(ErrorKind::Invalid, format!("invalid result of the handler: {what}"))
        }
    }
}

pub(super) fn misbehaved(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::PeerMisbehaved, what.into())
}

/// The result of a reply that is not needed any further than `read`.
pub(super) fn read<T>(core: &Core, reply: Reply, decode: fn(Value<'_>) -> Option<T>) -> Result<T, Error> {
    let value = decode(reply.value());
    let doc: Doc = reply.doc;
    core.recycle(doc);
    value.ok_or_else(|| misbehaved("the result does not have the form that the method requires"))
}
