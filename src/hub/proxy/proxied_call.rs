//! One call through a served hub, until its result or its client requests were sent to the client.
//! No thread waits for the call: each event calls [`ProxiedCall::process_events`].
//!
//! A server of the session protocol sends client requests in the middle of a call. Such a request
//! is forwarded to the client of a call that the server processes. That call stays in flight at the
//! server until the client has responded. A client of the stateless protocol responds with a new
//! request; until then the call is held. A client with a session responds directly; until then the
//! call is parked. A call to a server that is connecting waits for the connection or its deadline.
//! `call_table.rs` has the table of all calls.
//!
//! # Invariants
//! - [`ProxiedCall::process_events`] runs on one thread at a time. A call on another thread makes
//!   the running one repeat.
//! - At most one lock of the calls and of the table is held at a time, and none while a callback
//!   runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::client::{self, Call, Canceller, Client, Forwarded, InputRequired, LogEntry, OnReady, Progress};
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::limits::Limits;
use crate::model::ClientCapabilities;
use crate::model::client_request::InputRequest;
use crate::model::proxied_result::ProxiedResult;
use crate::rpc::{RpcError, code};
use crate::server::{CallSender, Context, Deferred, Output, ToolError};
use crate::sync::lock;

use super::super::member::{ConnectWaiter, Member};
use super::call_table::POLL;
use super::forward::PreparedCall;
use super::{Exports, forward};

/// One call.
pub(super) struct ProxiedCall {
    /// The server's key.
    pub key: String,
    /// URI of a resource that is read.
    uri: Option<String>,
    pub number: u64,
    exports: Arc<Exports>,
    /// Capabilities of the client at the time of the call.
    able: ClientCapabilities,
    round: u32,
    since: Instant,
    /// Timeout of a response or of the next progress notification.
    timeout: Duration,
    pending_events: AtomicUsize,
    canceller: OnceLock<Canceller>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Option<Waiting>,
    cancelled: bool,
    /// The call at the server.
    upstream: Option<Call<ProxiedResult>>,
    /// The client's call, while it waits.
    deferred: Option<Deferred>,
    /// The client.
    caller: Option<CallSender>,
    outcome: Option<Final>,
    open: Vec<ClientRequest>,
    /// Number of client requests so far.
    requests: usize,
    /// Log entries that arrived before `deferred`.
    early: Vec<(String, LogEntry)>,
    /// Deadline of the client for its responses.
    until: Option<Instant>,
}

/// A request that is sent when the server is connected.
struct Waiting {
    sending: PreparedCall,
    member: Arc<Member>,
    until: Instant,
}

/// A client request of the server in the middle of the call.
struct ClientRequest {
    key: String,
    request: Forwarded,
    /// The request was sent to the client.
    sent: bool,
}

/// Final response of the server.
enum Final {
    Result(Result<Output, ToolError>),
    InputRequired(InputRequired),
}

impl ProxiedCall {
    /// Adds a call to the table.
    pub(super) fn new(
        exports: &Arc<Exports>,
        member: &Member,
        uri: Option<&str>,
        able: ClientCapabilities,
        round: u32,
    ) -> Arc<ProxiedCall> {
        member.calls.fetch_add(1, Ordering::Relaxed);
        exports.calls.enter(|number| ProxiedCall {
            key: member.key.clone(),
            uri: uri.map(str::to_owned),
            number,
            exports: Arc::clone(exports),
            able,
            round,
            since: Instant::now(),
            timeout: member.upstream.call_timeout.unwrap_or(exports.hub.shared.limits.client.call_timeout),
            pending_events: AtomicUsize::new(0),
            canceller: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    /// Sends the call, now or when the server is connected.
    pub(super) fn start(self: &Arc<Self>, member: &Arc<Member>, sending: PreparedCall) {
        let calls = &self.exports.calls;
        if calls.waiting.fetch_add(1, Ordering::AcqRel) >= self.limits().client.calls.div_ceil(2)
            && member.is_connecting()
        {
            calls.waiting.fetch_sub(1, Ordering::AcqRel);
            let why = format!("too many calls wait for the server {:?} to connect", self.key);
            return self.fail(&Error::new(ErrorKind::Busy, why));
        }
        let (member, until) = (Arc::clone(member), self.since + self.timeout);
        lock(&self.state).waiting = Some(Waiting { sending, member: Arc::clone(&member), until });
        let waiting: Arc<dyn ConnectWaiter> = Arc::<ProxiedCall>::clone(self);
        match member.connected(&waiting) {
            Some(connection) => waiting.on_connected(connection),
            None => self.exports.watch_deadlines(),
        }
    }

    /// Takes the waiting request; the first caller gets it.
    fn take_waiting(&self) -> Option<Waiting> {
        let waiting = lock(&self.state).waiting.take();
        if waiting.is_some() {
            self.exports.calls.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        waiting
    }

    fn send(self: &Arc<Self>, client: &Client, waiting: &Waiting) -> Result<(), Error> {
        let Waiting { sending, member, until } = waiting;
        let left = until.saturating_duration_since(Instant::now());
        let request = sending.request(client, self.limits(), left)?;
        let call = Arc::downgrade(self);
        let on_ready: OnReady = Arc::new(move || {
            if let Some(call) = call.upgrade() {
                call.process_events();
            }
        });
        let permit = member.write_permit(self.limits().workers.div_ceil(2), || {
            lock(&self.exports.hub.shared.members).len() == 1
        })?;
        let mut call = request.start()?;
        drop(permit);
        call.on_ready(on_ready);
        let canceller = self.canceller.get_or_init(|| call.canceller());
        let cancelled = {
            let mut state = lock(&self.state);
            state.upstream = Some(call);
            if let Some(deferred) = &state.deferred {
                deferred.allow(left.max(POLL));
            }
            state.cancelled
        };
        if cancelled {
            canceller.cancel();
        }
        self.process_events();
        Ok(())
    }

    /// Ends the call with an error before it was sent.
    fn fail(self: &Arc<Self>, error: &Error) {
        let failure = ToolError::relayed(error, self.uri.as_deref());
        lock(&self.state).outcome = Some(Final::Result(Err(failure)));
        self.process_events();
    }

    /// Attaches the client's call.
    pub(super) fn attach(self: &Arc<Self>, deferred: Deferred) {
        let time = self.timeout;
        // Weak: this call owns the client's call, which owns the hook. The table owns this call.
        let cancelled = Arc::downgrade(self);
        deferred.on_cancel(move || {
            if let Some(call) = cancelled.upgrade() {
                call.cancel();
            }
        });
        self.exports.calls.attached(&self.key, &deferred);
        {
            let mut state = lock(&self.state);
            // Longer than the deadline of `expire`, whose error is more specific.
            deferred.allow(if state.waiting.is_some() { time * 2 } else { time });
            state.caller = deferred.caller();
            state.until = None;
            for (logger, entry) in std::mem::take(&mut state.early) {
                deferred.log(entry.level, &logger, &entry.data);
            }
            state.deferred = Some(deferred);
        }
        self.process_events();
    }

    fn limits(&self) -> &Limits {
        &self.exports.hub.shared.limits
    }

    /// Cancels the call.
    fn cancel(self: &Arc<Self>) {
        self.exports.calls.cancelled(self);
        lock(&self.state).cancelled = true;
        if let Some(canceller) = self.canceller.get() {
            canceller.cancel();
        }
        if self.take_waiting().is_some() {
            self.fail(&Error::new(ErrorKind::Cancelled, "the call was cancelled"));
        }
    }

    /// Ends the call if its deadline has passed.
    pub(super) fn expire(self: &Arc<Self>, now: Instant) {
        if self.until().is_some_and(|until| until <= now) {
            self.cancel();
            // Dropping the requests rejects them.
            let open = std::mem::take(&mut lock(&self.state).open);
            drop(open);
        }
        let late = |waiting: &Waiting| waiting.until <= now;
        if lock(&self.state).waiting.as_ref().is_some_and(late) && self.take_waiting().is_some() {
            let why = format!("the server {:?} is still connecting", self.key);
            self.fail(&Error::new(ErrorKind::Timeout, why));
        }
    }

    /// Deadline for [`ProxiedCall::expire`].
    pub(super) fn expires_at(&self) -> Option<Instant> {
        let state = lock(&self.state);
        state.until.into_iter().chain(state.waiting.as_ref().map(|waiting| waiting.until)).min()
    }

    /// Handles all events. Never waits for the client.
    pub(super) fn process_events(self: &Arc<Self>) {
        if self.pending_events.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            self.process_once();
            match self.pending_events.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(more) => seen = more,
            }
        }
    }

    fn process_once(self: &Arc<Self>) {
        let mut upstream = {
            let mut state = lock(&self.state);
            if state.deferred.is_none() && state.until.is_none() {
                // Events stay queued until the client's call is attached.
                return;
            }
            // Only this function takes it, and it runs on one thread at a time.
            state.upstream.take()
        };
        let outcome = upstream.as_mut().and_then(|upstream| self.poll(upstream));
        let mut state = lock(&self.state);
        match outcome {
            Some(outcome) => state.outcome = Some(outcome),
            None => state.upstream = state.upstream.take().or(upstream),
        }
        let Some(deferred) = state.deferred.take() else {
            if state.outcome.is_some() {
                // The call that runs again takes the outcome.
                let open = std::mem::take(&mut state.open);
                drop(state);
                self.withdraw(open);
            }
            return;
        };
        if let Some(outcome) = state.outcome.take() {
            // Dropping open requests rejects them. They are dropped without the lock.
            let open = std::mem::take(&mut state.open);
            drop(state);
            drop(open);
            self.exports.calls.remove(self);
            return self.end(deferred, outcome);
        }
        let mut fresh = Vec::new();
        for open in state.open.iter_mut().filter(|open| !open.sent) {
            open.sent = true;
            fresh.push((open.key.clone(), open.request.request.clone()));
        }
        if fresh.is_empty() {
            state.deferred = Some(deferred);
            return;
        }
        state.until = Some(Instant::now() + self.limits().client_input_timeout);
        drop(state);
        self.exports.watch_deadlines();
        deferred.request_input(&fresh, &forward::held(self.number));
        // The server may have cancelled some before they were sent.
        let mut keys: Vec<String> = fresh.into_iter().map(|(key, _)| key).collect();
        keys.retain(|key| !lock(&self.state).open.iter().any(|open| open.key == *key));
        self.withdraw_keys(&keys);
    }

    /// Withdraws client requests. Dropping them rejects them at the server.
    fn withdraw(&self, requests: Vec<ClientRequest>) {
        let keys: Vec<String> = requests.into_iter().map(|request| request.key).collect();
        self.withdraw_keys(&keys);
    }

    fn withdraw_keys(&self, keys: &[String]) {
        if let Some(caller) = self.caller() {
            caller.withdraw_requests(keys);
        }
    }

    /// Handles the cancellation of a client request by the server.
    fn cancel_request(&self, key: &str) {
        let mut state = lock(&self.state);
        let (cancelled, open) = std::mem::take(&mut state.open).into_iter().partition(|open| open.key == key);
        state.open = open;
        drop(state);
        self.withdraw(cancelled);
    }

    fn poll(&self, upstream: &mut Call<ProxiedResult>) -> Option<Final> {
        Some(match upstream.outcome_until(Instant::now(), &mut |step| self.step(&step))? {
            Ok(client::Outcome::Complete(answer)) => Final::Result(Ok(Output::Raw(Box::new(answer)))),
            Ok(client::Outcome::InputRequired(asked)) => Final::InputRequired(asked),
            // The hub requests no tasks.
            Ok(client::Outcome::Task(_)) => {
                Final::Result(Err(ToolError::new("the server created a task, but none was requested")))
            }
            Err(error) => Final::Result(Err(ToolError::relayed(&error, self.uri.as_deref()))),
        })
    }

    /// Forwards progress and restarts the timeout.
    fn step(&self, step: &Progress) {
        let state = lock(&self.state);
        let message = step.message.as_deref();
        if let Some(deferred) = &state.deferred {
            deferred.progress(step.done, step.total, message);
            let left = self.limits().client.call_total_timeout.saturating_sub(self.since.elapsed());
            deferred.allow(self.timeout.min(left.max(POLL)));
        } else if let Some(caller) = &state.caller {
            caller.progress(step.done, step.total, message);
        }
    }

    /// Sends the final response to the client.
    fn end(&self, deferred: Deferred, outcome: Final) {
        let asked = match outcome {
            Final::Result(answer) => return deferred.finish(answer),
            Final::InputRequired(asked) => asked,
        };
        let round = self.round + 1;
        if round >= self.limits().client.rounds {
            return deferred.finish(Err(ToolError::new("the server requested input in too many rounds")));
        }
        let note = forward::repeat_state(round, &asked);
        match crate::server::input_requests(&asked.requests) {
            Ok(questions) if questions.is_empty() => self.exports.repeats.add(deferred, note, round),
            Ok(questions) => deferred.request_input(&questions, &note),
            Err(failure) => deferred.finish(Err(failure)),
        }
    }

    /// Adds a client request of the server to this call.
    pub(super) fn ask(self: &Arc<Self>, request: Forwarded) {
        let cancellation = Arc::clone(&request.cancellation);
        let key = {
            let mut state = lock(&self.state);
            state.requests += 1;
            let key = format!("ask-{}", state.requests);
            state.open.push(ClientRequest { key: key.clone(), request, sent: false });
            key
        };
        let call = Arc::downgrade(self);
        cancellation.on_cancel(move || {
            if let Some(call) = call.upgrade() {
                call.cancel_request(&key);
            }
        });
        self.process_events();
    }

    /// Returns whether the client supports this request and the limit allows it.
    pub(super) fn client_supports(&self, request: &InputRequest) -> bool {
        let state = lock(&self.state);
        // The server may ask before the client's call is attached.
        let able = state.deferred.as_ref().map_or(self.able, Deferred::client_capabilities);
        state.open.len() < self.limits().parked && able.contains(request.needs())
    }

    /// The client, once known.
    pub(super) fn caller(&self) -> Option<CallSender> {
        lock(&self.state).caller.clone()
    }

    /// Deadline for the client's responses, while the call is held.
    pub(super) fn until(&self) -> Option<Instant> {
        lock(&self.state).until
    }

    /// Forwards a log entry to the client.
    pub(super) fn log(&self, logger: &str, entry: &LogEntry) {
        let mut state = lock(&self.state);
        match (&state.deferred, &state.caller) {
            (Some(deferred), _) => deferred.log(entry.level, logger, &entry.data),
            (None, Some(caller)) => caller.log(entry.level, logger, &entry.data),
            (None, None) if state.early.len() < self.limits().client.events => {
                state.early.push((logger.to_owned(), entry.clone()));
            }
            (None, None) => {}
        }
    }
}

impl Exports {
    /// Continues a held call with the client's responses.
    pub(super) fn resume(&self, ctx: &mut Context<'_>, number: u64) -> Result<Arc<ProxiedCall>, ToolError> {
        let too_late =
            || ToolError::new("the responses arrived too late: the server's call has ended; call again");
        let call = self.calls.find(number).ok_or_else(too_late)?;
        let sent: Vec<(String, InputRequest)> = {
            let state = lock(&call.state);
            if state.deferred.is_some() || state.until.is_none() {
                return Err(too_late());
            }
            let sent = state.open.iter().filter(|open| open.sent);
            sent.map(|open| (open.key.clone(), open.request.request.clone())).collect()
        };
        let mut answers: Vec<(String, Result<Json, RpcError>)> = Vec::new();
        let mut missing = None;
        for (key, request) in sent {
            let answer = match ctx.request_input(&key, request) {
                Ok(doc) => Ok(doc.root().to_json()),
                Err(failure) if failure.is_input_required() => {
                    missing = Some(failure);
                    continue;
                }
                Err(_) => Err(match ctx.input_response(&key) {
                    Some(Err(refusal)) => refusal.clone(),
                    _ => RpcError::new(code::INTERNAL, "the client's response does not match the request"),
                }),
            };
            answers.push((key, answer));
        }
        if let Some(failure) = missing {
            return Err(failure);
        }
        let answered: Vec<ClientRequest> = {
            let mut state = lock(&call.state);
            if state.until.take().is_none() {
                return Err(too_late());
            }
            let (answered, open) = std::mem::take(&mut state.open).into_iter().partition(|open| open.sent);
            state.open = open;
            answered
        };
        for open in answered {
            let answer = answers.iter().find(|(key, _)| *key == open.key).map(|(_, answer)| answer);
            if let Some(answer) = answer {
                open.request.answer(answer.as_ref());
            }
        }
        Ok(call)
    }
}

impl ConnectWaiter for ProxiedCall {
    fn on_connected(self: Arc<Self>, connection: Result<Client, Error>) {
        let Some(waiting) = self.take_waiting() else { return };
        let Err(error) = connection.and_then(|client| self.send(&client, &waiting)) else { return };
        match self.exports.hub.member(&self.key) {
            // Replaced before the call was sent.
            Ok(member) if !Arc::ptr_eq(&member, &waiting.member) => self.start(&member, waiting.sending),
            _ => self.fail(&error),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::{Client, Form, Hub, Protocol, Server, Tool, Upstream, json, memory_links};

    crate::record! {
        struct Nothing {}
    }

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Forwards one call, ends it, and checks that it was freed.
    fn frees(above: Protocol, cancelled: bool) {
        let hub = Hub::builder("proxy", "1.0.0").build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        hub.export(&mut server).unwrap();
        let (go, gone) = mpsc::channel::<()>();
        let gone = Arc::new(Mutex::new(gone));
        let connect = move |client: crate::ClientBuilder| {
            let (theirs, ours) = memory_links();
            let mut server = Server::new("x", "1.0.0");
            let gone = Arc::clone(&gone);
            server.tool(Tool::new("waits"), move |ctx, _: Nothing| {
                while gone.lock().unwrap().try_recv().is_err() && !ctx.cancelled() {
                    std::thread::yield_now();
                }
                Ok("waited")
            })?;
            std::thread::spawn(move || server.serve(theirs));
            client.protocol(above).over(ours)
        };
        hub.add("x", Upstream::from_fn(connect)).unwrap();
        hub.wait_settled(Instant::now() + TIMEOUT);
        let exports = hub.shared.handlers.exports().unwrap();
        let (theirs, ours) = memory_links();
        std::thread::spawn(move || server.serve(theirs));
        let client = Client::builder("test", "1.0.0").over(ours).unwrap();

        let call = client.request_tool("x__waits", json!({})).start().unwrap();
        let until = Instant::now() + TIMEOUT;
        let passed = loop {
            // After `attach`, the two calls have references to each other.
            let under_way = |call: &&Arc<ProxiedCall>| call.caller().is_some();
            if let Some(passed) = exports.calls.all().iter().find(under_way) {
                break Arc::downgrade(passed);
            }
            assert!(Instant::now() < until, "never forwarded");
            std::thread::yield_now();
        };
        match cancelled {
            true => call.cancel(),
            false => {
                go.send(()).unwrap();
                assert_eq!(call.wait().unwrap().texts(), "waited");
            }
        }
        while passed.strong_count() > 0 {
            assert!(Instant::now() < until, "{above:?}: still in memory");
            std::thread::yield_now();
        }
    }

    #[test]
    fn requests_before_the_call_is_attached_need_the_clients_capability() {
        let hub = Hub::builder("proxy", "1.0.0").build().unwrap();
        let mut server = Server::new("proxy", "1.0.0");
        hub.export(&mut server).unwrap();
        hub.add("x", Upstream::from_fn(|client| client.over(memory_links().1))).unwrap();
        let exports = hub.shared.handlers.exports().unwrap();
        let member = exports.hub.member("x").unwrap();
        let form = InputRequest::Form(Form::new("Which?"));
        for able in [ClientCapabilities::default(), ClientCapabilities::ALL] {
            let call = ProxiedCall::new(&exports, &member, None, able, 0);
            assert_eq!(call.client_supports(&form), able.form);
        }
    }

    #[test]
    fn a_call_is_freed_when_it_is_completed_or_cancelled() {
        for above in [Protocol::Session, Protocol::Stateless] {
            for cancelled in [false, true] {
                frees(above, cancelled);
            }
        }
    }
}
