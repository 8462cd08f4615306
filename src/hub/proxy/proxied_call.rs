//! A call on its way through a served hub: from its sending until its answer, or its questions, are
//! with the client. No thread waits for it: whoever brings something looks what is to be done.
//!
//! A server with sessions asks in the middle of a call. Its question is asked about one of the calls
//! that it works on, which stays under way there until the client has answered: held where the client
//! comes back with a new call, parked in its session where not. A call to a server that still connects
//! waits until that is settled or its time is over. `call_table.rs` has the table of them all.
//!
//! # Invariants
//! - [`ProxiedCall::visit`] runs on one thread at a time; a visit during a visit makes that one look again.
//! - Of the locks here and of the table at most one is held at a time, and none while anybody else's
//!   code runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use crate::client::{self, Call, Canceller, Client, InputRequired, LogEntry, Progress, Question, Watch};
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::limits::Limits;
use crate::model::ask::AskRequest;
use crate::model::relayed::Relayed;
use crate::rpc::{RpcError, code};
use crate::server::{Caller, Context, Deferred, Failure, Outcome};

use super::super::lock;
use super::super::member::{ConnectWaiter, Member};
use super::call_table::LOOK;
use super::forward::Sending;
use super::{Export, forward};

/// One call.
pub(super) struct ProxiedCall {
    /// Its server's.
    pub key: String,
    /// The resource that is read.
    uri: Option<String>,
    pub number: u64,
    export: Arc<Export>,
    round: u32,
    since: Instant,
    visits: AtomicUsize,
    canceller: OnceLock<Canceller>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is to be sent as soon as the server is there, and until when that has to be.
    waiting: Option<(Sending, Instant)>,
    cancelled: bool,
    /// The call at its server.
    under: Option<Call<Relayed>>,
    /// The call of the client, while that waits for something from here.
    deferred: Option<Deferred>,
    /// Who called.
    caller: Option<Caller>,
    came: Option<Came>,
    open: Vec<Open>,
    asked: usize,
    /// Log entries that came before `deferred`.
    early: Vec<(String, LogEntry)>,
    /// Until when the client may take to come back.
    until: Option<Instant>,
}

/// A question of the server in the middle of the call.
struct Open {
    key: String,
    question: Question,
    /// The client has it.
    sent: bool,
}

/// What the server said at the end.
enum Came {
    Answer(Result<Outcome, Failure>),
    Asked(InputRequired),
}

impl ProxiedCall {
    /// A call to the server with this key, in the table.
    pub(super) fn new(
        export: &Arc<Export>,
        key: &str,
        uri: Option<&str>,
        round: u32,
        since: Instant,
    ) -> Arc<ProxiedCall> {
        export.calls.enter(|number| ProxiedCall {
            key: key.to_owned(),
            uri: uri.map(str::to_owned),
            number,
            export: Arc::clone(export),
            round,
            since,
            visits: AtomicUsize::new(0),
            canceller: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    /// Sends it, at once or as soon as its server is connected.
    pub(super) fn go(self: &Arc<Self>, member: &Member, sending: Sending) {
        let limits = self.limits();
        let calls = &self.export.calls;
        if calls.waiting.fetch_add(1, Ordering::AcqRel) >= limits.calls.div_ceil(2) && member.is_connecting()
        {
            calls.waiting.fetch_sub(1, Ordering::AcqRel);
            let why = format!("too many calls wait for the server {:?} to connect", self.key);
            return self.fail(&Error::new(ErrorKind::Busy, why));
        }
        lock(&self.state).waiting = Some((sending, self.since + limits.call_timeout));
        let waiting: Arc<dyn ConnectWaiter> = Arc::<ProxiedCall>::clone(self);
        match member.connected(&waiting) {
            Some(connection) => waiting.settled(connection),
            None => self.export.look_after(),
        }
    }

    /// What waits to be sent; only one gets it.
    fn take_waiting(&self) -> Option<(Sending, Instant)> {
        let waiting = lock(&self.state).waiting.take();
        if waiting.is_some() {
            self.export.calls.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        waiting
    }

    fn send(self: &Arc<Self>, client: &Client, sending: &Sending, until: Instant) -> Result<(), Error> {
        let left = until.saturating_duration_since(Instant::now());
        let request = sending.request(client, self.limits(), left)?;
        let told = Arc::downgrade(self);
        let watch: Watch = Arc::new(move || {
            if let Some(passed) = told.upgrade() {
                passed.visit();
            }
        });
        let call = request.start_watched(watch)?;
        let canceller = self.canceller.get_or_init(|| call.canceller());
        let cancelled = {
            let mut state = lock(&self.state);
            state.under = Some(call);
            if let Some(deferred) = &state.deferred {
                deferred.allow(left.max(LOOK));
            }
            state.cancelled
        };
        if cancelled {
            canceller.cancel();
        }
        self.visit();
        Ok(())
    }

    /// It cannot be sent.
    fn fail(self: &Arc<Self>, error: &Error) {
        let failure = Failure::relayed(error, self.uri.as_deref());
        lock(&self.state).came = Some(Came::Answer(Err(failure)));
        self.visit();
    }

    /// The client's call waits for it from now on.
    pub(super) fn attach(self: &Arc<Self>, deferred: Deferred) {
        let time = self.limits().call_timeout;
        // Weak, because this call keeps the client's, which keeps the hook. The table keeps this call.
        let cancelled = Arc::downgrade(self);
        deferred.on_cancel(move || {
            if let Some(passed) = cancelled.upgrade() {
                passed.cancel();
            }
        });
        {
            let mut state = lock(&self.state);
            // Whoever looks after those that wait knows better why they waited in vain.
            deferred.allow(if state.waiting.is_some() { time * 2 } else { time });
            state.caller = deferred.caller();
            state.until = None;
            for (logger, entry) in std::mem::take(&mut state.early) {
                deferred.log(entry.level, &logger, &entry.data);
            }
            state.deferred = Some(deferred);
        }
        self.visit();
    }

    fn limits(&self) -> &Limits {
        &self.export.hub.shared.limits
    }

    /// Nobody wants it any more.
    fn cancel(self: &Arc<Self>) {
        self.export.calls.remove(self);
        lock(&self.state).cancelled = true;
        if let Some(canceller) = self.canceller.get() {
            canceller.cancel();
        }
        if self.take_waiting().is_some() {
            self.fail(&Error::new(ErrorKind::Cancelled, "the call was cancelled"));
        }
    }

    /// What has not come to its end by now comes to it, if its time is over.
    pub(super) fn expire(self: &Arc<Self>, now: Instant) {
        if self.until().is_some_and(|until| until <= now) {
            self.cancel();
            // The questions are refused.
            let open = std::mem::take(&mut lock(&self.state).open);
            drop(open);
        }
        let late = |(_, until): &(Sending, Instant)| *until <= now;
        if lock(&self.state).waiting.as_ref().is_some_and(late) && self.take_waiting().is_some() {
            let why = format!("the server {:?} is still connecting", self.key);
            self.fail(&Error::new(ErrorKind::Timeout, why));
        }
    }

    /// When [`ProxiedCall::expire`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let state = lock(&self.state);
        state.until.into_iter().chain(state.waiting.as_ref().map(|(_, until)| *until)).min()
    }

    /// Does what there is to do. Never waits for the client.
    pub(super) fn visit(self: &Arc<Self>) {
        if self.visits.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            self.look();
            match self.visits.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(more) => seen = more,
            }
        }
    }

    fn look(self: &Arc<Self>) {
        let mut under = {
            let mut state = lock(&self.state);
            if state.deferred.is_none() {
                // What came is kept where it is until there is somebody to have it.
                return;
            }
            // Only a visit takes it.
            state.under.take()
        };
        let came = under.as_mut().and_then(|under| self.poll(under));
        let mut state = lock(&self.state);
        match came {
            Some(came) => state.came = Some(came),
            None => state.under = state.under.take().or(under),
        }
        let Some(deferred) = state.deferred.take() else { return };
        if let Some(came) = state.came.take() {
            // Questions that are still open are refused: they are dropped, without the lock.
            let open = std::mem::take(&mut state.open);
            drop(state);
            drop(open);
            self.export.calls.remove(self);
            return self.end(deferred, came);
        }
        let mut fresh = Vec::new();
        for open in state.open.iter_mut().filter(|open| !open.sent) {
            open.sent = true;
            fresh.push((open.key.clone(), open.question.request.clone()));
        }
        if fresh.is_empty() {
            state.deferred = Some(deferred);
            return;
        }
        state.until = Some(Instant::now() + self.limits().ask_timeout);
        drop(state);
        self.export.look_after();
        deferred.ask(&fresh, &forward::held(self.number));
    }

    fn poll(&self, under: &mut Call<Relayed>) -> Option<Came> {
        Some(match under.outcome_until(Instant::now(), &mut |step| self.step(&step))? {
            Ok(client::Outcome::Complete(answer)) => Came::Answer(Ok(Outcome::Proxied(Box::new(answer)))),
            Ok(client::Outcome::InputRequired(asked)) => Came::Asked(asked),
            // Nobody let a task be made of the call.
            Ok(client::Outcome::Task(_)) => {
                Came::Answer(Err(Failure::new("The server made a task of the call")))
            }
            Err(error) => Came::Answer(Err(Failure::relayed(&error, self.uri.as_deref()))),
        })
    }

    /// The server has come further: so has this call, and it has time again.
    fn step(&self, step: &Progress) {
        let mut state = lock(&self.state);
        if let Some(deferred) = &mut state.deferred {
            deferred.progress(step.done, step.total, step.message.as_deref());
            let limits = self.limits();
            let left = limits.call_longest.saturating_sub(self.since.elapsed());
            deferred.allow(limits.call_timeout.min(left.max(LOOK)));
        }
    }

    /// Gives the client what the server said at the end.
    fn end(&self, deferred: Deferred, came: Came) {
        let asked = match came {
            Came::Answer(answer) => return deferred.finish(answer),
            Came::Asked(asked) => asked,
        };
        let round = self.round + 1;
        if round >= self.limits().rounds {
            return deferred.finish(Err(Failure::new("The server asks back without end")));
        }
        let note = forward::again(round, &asked);
        match crate::server::questions(&asked.questions) {
            Ok(questions) if questions.is_empty() => deferred.again(&note),
            Ok(questions) => deferred.ask(&questions, &note),
            Err(failure) => deferred.finish(Err(failure)),
        }
    }

    /// Takes over a question of the server about this call.
    pub(super) fn ask(self: &Arc<Self>, question: Question) {
        {
            let mut state = lock(&self.state);
            state.asked += 1;
            let key = format!("ask-{}", state.asked);
            state.open.push(Open { key, question, sent: false });
        }
        self.visit();
    }

    /// Whether the client of this call can be asked this, as far as is known, and there is room.
    pub(super) fn client_can(&self, request: &AskRequest) -> bool {
        let state = lock(&self.state);
        state.open.len() < self.limits().parked
            && state.deferred.as_ref().is_none_or(|deferred| deferred.client_can().cover(request.needs()))
    }

    /// Who called, once that is known.
    pub(super) fn caller(&self) -> Option<Caller> {
        lock(&self.state).caller.clone()
    }

    /// Until when the client may take to come back, while the call is held.
    pub(super) fn until(&self) -> Option<Instant> {
        lock(&self.state).until
    }

    /// Tells the client what the server logs.
    pub(super) fn log(&self, logger: &str, entry: &LogEntry) {
        let mut state = lock(&self.state);
        match (&state.deferred, &state.caller) {
            (Some(deferred), _) => deferred.log(entry.level, logger, &entry.data),
            (None, Some(caller)) => caller.log(entry.level, logger, &entry.data),
            (None, None) if state.early.len() < self.limits().events => {
                state.early.push((logger.to_owned(), entry.clone()));
            }
            (None, None) => {}
        }
    }
}

impl Export {
    /// Goes on with a call whose server asked in the middle of it.
    pub(super) fn go_on(&self, ctx: &mut Context<'_>, number: u64) -> Result<Arc<ProxiedCall>, Failure> {
        let gone = || Failure::new("The answers came too late: the server's call is over. Call again");
        let passed = self.calls.find(number).ok_or_else(gone)?;
        let sent: Vec<(String, AskRequest)> = {
            let state = lock(&passed.state);
            if state.deferred.is_some() || state.until.is_none() {
                return Err(gone());
            }
            let sent = state.open.iter().filter(|open| open.sent);
            sent.map(|open| (open.key.clone(), open.question.request.clone())).collect()
        };
        let mut answers: Vec<(String, Result<Json, RpcError>)> = Vec::new();
        let mut missing = None;
        for (key, request) in sent {
            let answer = match ctx.ask(&key, request) {
                Ok(doc) => Ok(doc.root().to_json()),
                Err(failure) if failure.is_question() => {
                    missing = Some(failure);
                    continue;
                }
                Err(_) => Err(match ctx.answered(&key) {
                    Some(Err(refusal)) => refusal.clone(),
                    _ => RpcError::new(code::INTERNAL, "The client's answer does not fit the question"),
                }),
            };
            answers.push((key, answer));
        }
        if let Some(failure) = missing {
            return Err(failure);
        }
        let answered: Vec<Open> = {
            let mut state = lock(&passed.state);
            if state.until.take().is_none() {
                return Err(gone());
            }
            let (answered, open) = std::mem::take(&mut state.open).into_iter().partition(|open| open.sent);
            state.open = open;
            answered
        };
        for open in answered {
            let answer = answers.iter().find(|(key, _)| *key == open.key).map(|(_, answer)| answer);
            if let Some(answer) = answer {
                open.question.answer(answer.as_ref());
            }
        }
        Ok(passed)
    }
}

impl ConnectWaiter for ProxiedCall {
    fn settled(self: Arc<Self>, connection: Result<Client, Error>) {
        let Some((sending, until)) = self.take_waiting() else { return };
        let sent = connection.and_then(|client| self.send(&client, &sending, until));
        if let Err(error) = sent {
            self.fail(&error);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::{Client, Era, Hub, Server, Tool, Upstream, json, memory_links};

    crate::record! {
        struct Nothing {}
    }

    const SOON: Duration = Duration::from_secs(20);

    /// Makes a call that the hub passes on, ends it, and checks that nothing of it stays in memory.
    fn frees(above: Era, cancelled: bool) {
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
            client.era(above).over(ours)
        };
        hub.add("x", Upstream::with(connect)).unwrap();
        hub.wait_settled(Instant::now() + SOON);
        let export = hub.shared.handlers.exports().pop().unwrap();
        let (theirs, ours) = memory_links();
        std::thread::spawn(move || server.serve(theirs));
        let client = Client::builder("test", "1.0.0").over(ours).unwrap();

        let call = client.request_tool("x__waits", json!({})).start().unwrap();
        let until = Instant::now() + SOON;
        let passed = loop {
            // Attached: from then on the call of the client and that of the hub know each other.
            let under_way = |call: &&Arc<ProxiedCall>| call.caller().is_some();
            if let Some(passed) = export.calls.all().iter().find(under_way) {
                break Arc::downgrade(passed);
            }
            assert!(Instant::now() < until, "never passed on");
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
    fn a_call_is_freed_when_it_is_answered_or_cancelled() {
        for above in [Era::Legacy, Era::Modern] {
            for cancelled in [false, true] {
                frees(above, cancelled);
            }
        }
    }
}
