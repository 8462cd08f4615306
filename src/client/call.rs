//! One call from its first request to its result.
//!
//! Drives the rounds of a call on the thread that waits for it: sends the request, waits for the
//! response, calls the handlers for input that the server requires, and repeats the request once
//! after the session was lost.
//!
//! # Types
//! | type | holds | lives |
//! |---|---|---|
//! | [`OutgoingRequest`] | method and parameters | as long as the call |
//! | [`CallRun`] | one call: options, rounds, and its [`CallState`] | until the result |
//! | [`PendingCall`] | one request in flight: outcome, progress, deadline | one round |
//! | [`Envelope`] | metadata of one request: id, input, log level | while it is written |
//! | [`Outcome`] | result of a round: complete, input required or task | – |
//!
//! # Invariants
//! - A call ends exactly once, with a result or a typed error. Each round that carries input has a
//!   deadline of its own; while the handlers wait for the user, only
//!   [`Limits::client_input_timeout`] applies. A repeated request shares the first one's time.
//! - Every round has a new id and carries exactly the state of the round before.
//! - A cancelled call sends no further request: the canceller and the sender use the same lock.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::era::client::{self as codec, Envelope};
use crate::era::outgoing::OutgoingRequest;
use crate::error::{Error, ErrorKind};
use crate::json::{Json, NodeId, Value, Writer};
use crate::model::CacheHint;
use crate::model::client_request::InputRequest;
use crate::rpc::RpcError;
use crate::sync::{lock, wait_for};
use crate::transport::client::Failure;

use super::connection::{Core, misbehaved, remote};
use super::handlers::Declined;
use super::pending_call::{CallTimeout, OnReady, PendingCall, Progress, RawReply};
use super::request::{CacheUse, CallOptions, Input, InputRequired, Outcome};

#[cfg(doc)]
use crate::limits::Limits;

/// Base of the pause before a round without input: round n waits `PAUSE * 2^n`, n at most 6.
const PAUSE: Duration = Duration::from_millis(10);

/// One call.
pub(super) struct CallRun {
    pub(super) core: Arc<Core>,
    request: Arc<OutgoingRequest>,
    options: CallOptions,
    pub(super) control: Arc<CallControl>,
    on_ready: Option<OnReady>,
    rounds: u32,
    input: Input,
    /// The request was sent again after its session was lost or its headers did not match.
    repeated: bool,
    /// Deadline of the previous request, which the next one inherits.
    inherited: Option<Instant>,
    /// Id of the task that the server created for the call.
    pub(super) task: Option<String>,
    /// Session epoch and cache mark when the request was sent.
    epoch: u64,
    mark: u64,
}

/// State of a call. Shared by the waiting thread, the handlers and the cancellers.
#[derive(Default)]
pub(super) struct CallControl {
    state: Mutex<Shared>,
    changed: Condvar,
}

#[derive(Default)]
struct Shared {
    cancelled: bool,
    state: CallState,
}

#[derive(Default)]
enum CallState {
    /// The next request is to be sent.
    #[default]
    Ready,
    /// A request is in flight.
    Sent(Arc<PendingCall>),
    /// The handlers of a round are running.
    AwaitingInput(AwaitingInput),
    /// The cache has the result.
    Cached(Json),
    Over,
}

struct AwaitingInput {
    /// Number of the round. Responses of an earlier round are dropped.
    round: u32,
    missing: usize,
    responses: Vec<(String, Result<Json, Error>)>,
    deadline: Instant,
}

impl CallControl {
    fn set(&self, state: CallState) {
        lock(&self.state).state = state;
    }

    /// Enters the state [`CallState::Sent`]. Returns `false` if the call was cancelled.
    fn set_sent(&self, pending: &Arc<PendingCall>) -> bool {
        let mut shared = lock(&self.state);
        if !shared.cancelled {
            shared.state = CallState::Sent(Arc::clone(pending));
        }
        !shared.cancelled
    }

    /// Cancels the call.
    pub(super) fn cancel(&self, core: &Core) {
        let mut shared = lock(&self.state);
        shared.cancelled = true;
        let sent = match &shared.state {
            CallState::Sent(pending) => Some(Arc::clone(pending)),
            _ => None,
        };
        drop(shared);
        self.changed.notify_all();
        if let Some(pending) = sent {
            core.give_up(&pending, Failure::Cancelled);
        }
    }
}

impl CallRun {
    pub(super) fn new(core: Arc<Core>, request: OutgoingRequest, mut options: CallOptions) -> CallRun {
        let input = options.resume.take().unwrap_or_default();
        CallRun {
            mark: core.cache.mark(),
            epoch: core.epoch(),
            core,
            request: Arc::new(request),
            options,
            control: Arc::default(),
            on_ready: None,
            rounds: 0,
            input,
            repeated: false,
            inherited: None,
            task: None,
        }
    }

    /// Registers a callback for outcome and progress of this request and of later ones.
    #[allow(dead_code, reason = "called by the hub")]
    pub(super) fn on_ready(&mut self, callback: OnReady) {
        let sent = match &lock(&self.control.state).state {
            CallState::Sent(pending) => Some(Arc::clone(pending)),
            _ => None,
        };
        if let Some(pending) = sent {
            pending.on_ready(&callback);
            self.core.transport.resume_reader();
        }
        self.on_ready = Some(callback);
    }

    /// Sends the next request. If `here` is set, the calling thread waits for the response next, so
    /// the transport may perform the exchange on this thread.
    pub(super) fn begin(&mut self, here: bool) -> Result<(), Error> {
        let core = Arc::clone(&self.core);
        if self.options.cache == CacheUse::ReadAndStore && !self.has_input() {
            if let Some(result) = core.cache.find(&self.request) {
                self.control.set(CallState::Cached(result));
                return Ok(());
            }
        }
        let timeout = self.timeout();
        self.inherited = None;
        let wants_progress = self.options.on_progress.is_some();
        let pending = PendingCall::new(Some(timeout), wants_progress, &core.waiters);
        (self.epoch, self.mark) = (core.epoch(), core.cache.mark());
        core.register(&pending).map_err(|failure| core.error_of(&failure))?;
        if !self.control.set_sent(&pending) {
            core.take(pending.id());
            return Err(Failure::Cancelled.to_error());
        }
        let properties = core.transport.properties();
        let blocks = here && properties.exchange_in_send;
        let envelope = Envelope {
            progress: wants_progress || self.options.timeout.extend,
            log: self.options.log_level.or_else(|| *lock(&core.session.log_level)),
            responses: self.input.responses.as_deref(),
            state: self.input.state.as_deref(),
            capabilities: self.options.capabilities,
            ..Envelope::new(pending.id(), &core.identity)
        };
        #[cfg(feature = "http-client")]
        if !blocks && properties.headers && core.era().sessions() && !self.repeated {
            pending.set_resend(super::pending_call::Resend {
                request: Arc::clone(&self.request),
                epoch: self.epoch,
                progress: envelope.progress,
                log_level: envelope.log,
            });
        }
        let listener = &mut self.options.on_progress;
        let mut turn = || {
            if let Some(listener) = listener {
                pending.drain_progress(listener);
            }
            !pending.is_finished()
        };
        let turn: Option<&mut dyn FnMut() -> bool> = if blocks { Some(&mut turn) } else { None };
        let sent = core.send(&self.request, &envelope, Instant::now() + timeout.timeout, turn);
        core.after_sending(&pending, sent, blocks);
        if let Some(callback) = &self.on_ready {
            pending.on_ready(callback);
            core.transport.resume_reader();
        }
        Ok(())
    }

    fn has_input(&self) -> bool {
        self.input.responses.is_some() || self.input.state.is_some()
    }

    /// Returns the timeout of the next request. A repeated request inherits the deadline.
    fn timeout(&self) -> CallTimeout {
        let timeout = self.options.timeout;
        let left = self.inherited.map_or(timeout.timeout, |by| by.saturating_duration_since(Instant::now()));
        CallTimeout { timeout: left.min(timeout.timeout), ..timeout }
    }

    /// Waits for the outcome of a round. Returns `None` at `until`. `listener` replaces the call's
    /// own progress listener.
    pub(super) fn step(
        &mut self,
        until: Option<Instant>,
        mut listener: Option<&mut dyn FnMut(Progress)>,
    ) -> Option<Result<Outcome<RawReply>, Error>> {
        loop {
            let sent = {
                let shared = &mut lock(&self.control.state).state;
                match shared {
                    CallState::Ready => None,
                    // The state stays `Sent`, so that the call is cancelled if a listener panics.
                    CallState::Sent(pending) => Some(Arc::clone(pending)),
                    CallState::Cached(result) => {
                        let doc = result.to_doc();
                        *shared = CallState::Over;
                        let reply = RawReply { doc, node: NodeId::ROOT, ok: true };
                        return Some(Ok(Outcome::Complete(reply)));
                    }
                    CallState::AwaitingInput(_) | CallState::Over => {
                        return Some(Err(Error::new(ErrorKind::Misuse, "the call is over")));
                    }
                }
            };
            let Some(pending) = sent else {
                if let Err(error) = self.begin(until.is_none()) {
                    self.control.set(CallState::Over);
                    return Some(Err(error));
                }
                continue;
            };
            let own = self.options.on_progress.as_mut().map(|own| own as &mut dyn FnMut(Progress));
            let given = listener.as_mut().map(|given| &mut **given as &mut dyn FnMut(Progress));
            let mut outcome = self.core.wait(&pending, until, given.or(own))?;
            if matches!(outcome, Err(Failure::Timeout)) {
                // A request whose deadline has passed is still in the table.
                self.core.give_up(&pending, Failure::Timeout);
                outcome = pending.take().unwrap_or(outcome);
            }
            self.control.set(CallState::Over);
            self.repeated |= pending.was_resent();
            if !matches!(&outcome, Ok(reply) if reply.ok) {
                self.inherited = pending.deadline();
            }
            match self.interpret(outcome) {
                Ok(Some(outcome)) => {
                    // A round without input requests shares the deadline with the next one.
                    let continues = matches!(&outcome, Outcome::InputRequired(input) if input.is_empty());
                    self.inherited = if continues { pending.deadline() } else { None };
                    return Some(Ok(outcome));
                }
                Ok(None) => self.control.set(CallState::Ready),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Interprets the outcome of a request. Returns `None` if the request must be sent again.
    fn interpret(&mut self, outcome: Result<RawReply, Failure>) -> Result<Option<Outcome<RawReply>>, Error> {
        if self.core.is_unproven() && self.needs_other_protocol(&outcome)? {
            return Ok(None);
        }
        let reply = match outcome {
            Ok(reply) => reply,
            // The server has not acted on the request.
            Err(Failure::SessionLost) if !self.repeated && self.core.era().sessions() => {
                self.repeated = true;
                self.core.renew(self.epoch, Instant::now() + self.timeout().timeout)?;
                return Ok(None);
            }
            // The server may have acted on the request, but repeating it is safe.
            Err(Failure::Interrupted(_))
                if !self.repeated && self.input.state.is_none() && self.request.may_be_repeated() =>
            {
                self.repeated = true;
                return Ok(None);
            }
            Err(failure) => return Err(self.error_of(&failure)),
        };
        if !reply.ok {
            return self.interpret_error(reply);
        }
        let core = &self.core;
        let input = match core.era().outcome(reply.value(), &self.request).map_err(misbehaved)? {
            codec::Decoded::Complete(hint) => {
                self.accept(&reply, hint)?;
                return Ok(Some(Outcome::Complete(reply)));
            }
            codec::Decoded::Task(task) => Outcome::Task(task),
            codec::Decoded::InputRequired { .. } if !self.request.may_ask => {
                return Err(misbehaved("the server requires input for a method that does not allow it"));
            }
            codec::Decoded::InputRequired { requests, state } => Outcome::InputRequired(InputRequired {
                requests: requests.map(Value::to_json).unwrap_or_default(),
                state: state.map(|state| state.raw().to_owned()),
            }),
        };
        core.recycle(reply.doc);
        Ok(Some(input))
    }

    /// Checks the first outcome of a connection that was opened with a remembered description.
    /// Returns `true` if the server requires the session protocol. The client then uses it, and the
    /// request must be sent again, because the server has rejected it without acting on it.
    #[cold]
    fn needs_other_protocol(&mut self, outcome: &Result<RawReply, Failure>) -> Result<bool, Error> {
        match outcome {
            Ok(reply) if reply.ok => {
                self.core.mark_proven();
                Ok(false)
            }
            Ok(_) | Err(Failure::Refused { .. }) if !self.repeated && self.core.mark_proven() => {
                self.repeated = self.core.verify(Instant::now() + self.timeout().timeout)?;
                Ok(self.repeated)
            }
            _ => Ok(false),
        }
    }

    /// Interprets an error response. Reads the list of tools again if the server rejected header
    /// parameters, which depend on the list.
    fn interpret_error(&mut self, reply: RawReply) -> Result<Option<Outcome<RawReply>>, Error> {
        let error = RpcError::read(reply.value());
        self.core.recycle(reply.doc);
        let error = error.ok_or_else(|| misbehaved("malformed error object in a response"))?;
        if codec::is_header_mismatch(&error) && self.request.is_tool_call() && !self.repeated {
            self.repeated = true;
            if self.core.refresh_tools(self.timeout()).is_ok() {
                return Ok(None);
            }
        }
        Err(remote(error))
    }

    /// Checks a result, stores schemas and header parameters of a list of tools, and caches it.
    fn accept(&self, reply: &RawReply, hint: CacheHint) -> Result<(), Error> {
        let core = &self.core;
        #[cfg(any(feature = "http-client", feature = "schema"))]
        let lists_tools = self.request.method == "tools/list";
        #[cfg(feature = "http-client")]
        if lists_tools && core.sends_header_params() {
            let report = |left_out| core.handlers.report_stray_output(left_out);
            core.header_params.update(reply.value(), &core.limits, report);
        }
        #[cfg(feature = "schema")]
        {
            if lists_tools {
                core.output_schemas.update(reply.value(), &core.limits);
            }
            core.output_schemas.check(&self.request, reply.value(), &core.limits).map_err(misbehaved)?;
        }
        // A result that depends on input must not be cached (server/utilities/caching).
        if self.options.cache != CacheUse::Bypass && !self.has_input() {
            core.cache.store(&self.request, reply.value().raw(), hint, self.mark);
        }
        Ok(())
    }

    /// Converts a failure to an error. A timeout names the method and the limit.
    fn error_of(&self, failure: &Failure) -> Error {
        if !matches!(failure, Failure::Timeout) {
            return self.core.error_of(failure);
        }
        let CallTimeout { timeout, max_total, extend } = self.options.timeout;
        let mut what = format!("no response to {}", self.request.method);
        if let Some(subject) = &self.request.subject {
            what += &format!(" of {subject:?}");
        }
        what += &match extend {
            true => format!(" within {timeout:?} of the last progress, or {max_total:?} in total"),
            false => format!(" within {:?}", timeout.min(max_total)),
        };
        Error::new(ErrorKind::Timeout, what)
    }

    /// Runs the rounds of the call until its result. Handlers respond to input requests.
    pub(super) fn finish(&mut self, until: Option<Instant>) -> Option<Result<RawReply, Error>> {
        loop {
            if matches!(lock(&self.control.state).state, CallState::AwaitingInput(_)) {
                let responses = self.collect(until)?;
                self.control.set(CallState::Over);
                match responses {
                    Ok(responses) => self.input.responses = Some(responses),
                    Err(error) => return Some(Err(error)),
                }
                self.control.set(CallState::Ready);
            }
            match self.step(until, None)? {
                Ok(Outcome::Complete(reply)) => return Some(Ok(reply)),
                Ok(Outcome::InputRequired(input)) => {
                    if let Err(error) = self.ask(input) {
                        self.control.set(CallState::Over);
                        return Some(Err(error));
                    }
                }
                Ok(Outcome::Task(task)) => {
                    let what = format!("the server created the task {:?}; use `Call::wait`", task.id);
                    self.task = Some(task.id);
                    return Some(Err(Error::new(ErrorKind::Misuse, what)));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Passes the input requests of one round to the handlers.
    fn ask(&mut self, input: InputRequired) -> Result<(), Error> {
        let core = &self.core;
        self.rounds += 1;
        let (round, limit) = (self.rounds, core.limits.client.rounds);
        if round > limit {
            let what =
                format!("the server requires input in more than {limit} rounds, see `ClientLimits::rounds`");
            return Err(misbehaved(what));
        }
        let empty = input.is_empty();
        self.input = Input { responses: None, state: input.state };
        if empty {
            // The server requires the call again with its state, after a pause.
            self.control.set(CallState::Ready);
            let left = self.timeout().timeout;
            core.sleep(left.min(PAUSE * (1 << round.min(6))));
            return if left.is_zero() { Err(self.error_of(&Failure::Timeout)) } else { Ok(()) };
        }
        let requests = core.input_requests(&input.requests, input_error)?;
        self.control.set(CallState::AwaitingInput(AwaitingInput {
            round,
            missing: requests.len(),
            responses: Vec::new(),
            deadline: Instant::now() + core.limits.client_input_timeout,
        }));
        let revision = core.server().revision;
        for (key, request) in requests {
            let (run, control) = (Arc::clone(core), Arc::clone(&self.control));
            let queued = core.handlers.run(Box::new(move || {
                if lock(&control.state).awaiting(round).is_none() {
                    return;
                }
                let response = match run.handlers.answer(&request) {
                    Ok(reply) => Ok(codec::encode_input_response(revision, &reply)),
                    Err(why) => Err(input_error(why)),
                };
                if let Some(awaited) = lock(&control.state).awaiting(round) {
                    awaited.missing -= 1;
                    awaited.responses.push((key, response));
                }
                control.changed.notify_all();
            }));
            if !queued {
                return Err(Error::new(ErrorKind::Busy, "too many requests of servers are open"));
            }
        }
        Ok(())
    }

    /// Waits for the handlers. Returns the responses of the round as members of an object.
    fn collect(&self, until: Option<Instant>) -> Option<Result<String, Error>> {
        let mut shared = lock(&self.control.state);
        let responses = loop {
            if shared.cancelled {
                return Some(Err(Failure::Cancelled.to_error()));
            }
            let CallState::AwaitingInput(awaited) = &mut shared.state else {
                return Some(Err(Error::new(ErrorKind::Misuse, "the call is over")));
            };
            if awaited.missing == 0 || awaited.responses.iter().any(|(_, response)| response.is_err()) {
                break std::mem::take(&mut awaited.responses);
            }
            let now = Instant::now();
            if now >= awaited.deadline {
                let what =
                    "no response to the server's input request in time, see `Limits::client_input_timeout`";
                return Some(Err(Error::new(ErrorKind::Timeout, what)));
            }
            if until.is_some_and(|until| until <= now) {
                return None;
            }
            let left = until.map_or(awaited.deadline, |until| until.min(awaited.deadline)) - now;
            shared = wait_for(&self.control.changed, shared, left);
        };
        drop(shared);
        let mut w = Writer::new();
        w.begin_object();
        for (key, response) in responses {
            match response {
                Ok(response) => _ = w.key(&key).json(&response),
                // No response encodes a refusal, so the call ends (client/sampling, error
                // handling).
                Err(error) => return Some(Err(error)),
            }
        }
        w.end_object();
        let text = w.into_json();
        let members = text.as_str().strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        debug_assert!(members.is_some(), "an object was written");
        Some(Ok(members.unwrap_or_default().to_owned()))
    }

    /// Cancels the call.
    pub(super) fn cancel(&mut self) {
        self.control.cancel(&self.core);
        self.control.set(CallState::Over);
    }
}

impl Drop for CallRun {
    /// Cancels a call that is not over.
    fn drop(&mut self) {
        let over = matches!(lock(&self.control.state).state, CallState::Over);
        if !over {
            self.cancel();
        }
    }
}

impl Shared {
    /// Returns the input requests of this round, unless the round is over or the call cancelled.
    fn awaiting(&mut self, round: u32) -> Option<&mut AwaitingInput> {
        match &mut self.state {
            CallState::AwaitingInput(awaited) if awaited.round == round && !self.cancelled => Some(awaited),
            _ => None,
        }
    }
}

impl Core {
    /// Reads input requests and checks that the client declares the required capabilities.
    /// `undeclared` converts the error of a missing capability.
    pub(super) fn input_requests(
        &self,
        requests: &Json,
        undeclared: fn(Declined) -> Error,
    ) -> Result<Vec<(String, InputRequest)>, Error> {
        let doc = requests.to_doc();
        let mut requests = Vec::new();
        for (key, question) in doc.root().members() {
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            let request = codec::read_request(method, question.get("params"))
                .map_err(|error| misbehaved(format!("invalid input request {key:?}: {}", error.message)))?;
            self.handlers.check_declared(&request).map_err(undeclared)?;
            requests.push((key.to_owned(), request));
        }
        Ok(requests)
    }
}

/// Returns the error of a call whose input request has no response.
pub(super) fn input_error(why: Declined) -> Error {
    match why {
        Declined::Undeclared(capability) => misbehaved(format!(
            "the server requires the capability `{capability}`, which this client does not declare"
        )),
        Declined::Refused(refusal) => {
            let what = format!("the input request of the server was rejected: {}", refusal.message);
            Error::new(ErrorKind::Cancelled, what)
        }
        Declined::Invalid(what) => {
            Error::new(ErrorKind::Invalid, format!("invalid result of the handler: {what}"))
        }
    }
}

/// Decodes the result of a reply and recycles its document.
pub(super) fn read<T>(core: &Core, reply: RawReply, decode: fn(Value<'_>) -> Option<T>) -> Result<T, Error> {
    let value = decode(reply.value());
    core.recycle(reply.doc);
    value.ok_or_else(|| misbehaved("the result does not have the form that the method requires"))
}
