//! A call on its way through a served hub: from its sending until its answer, or its questions, are
//! with the client. No thread waits for it: whoever brings something looks what is to be done.
//!
//! A server with sessions asks in the middle of a call. Its question is asked about one of the calls
//! that it works on, which stays under way there until the client has answered: held in this table
//! where the client comes back with a new call, parked in its session where not. A question of which
//! it is not certain whose it is goes to nobody: that is so while a server works for several clients.
//!
//! A call to a server that still connects waits in this table, too, until that is settled or its time
//! is over; such calls take at most half of the room there is.
//!
//! # Invariants
//! - [`Passed::visit`] runs on one thread at a time; a visit during a visit makes that one look again.
//! - Of the locks here at most one is held at a time, and none while anybody else's code runs.
//! - A call is in the table until it is answered, given up, or held for longer than
//!   [`Limits::ask_timeout`]; those that are held are at most [`Limits::parked`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::client::{self, Call, Canceller, Client, InputRequired, LogEntry, Progress, Question, Watch};
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::limits::Limits;
use crate::model::ask::AskRequest;
use crate::model::relayed::Relayed;
use crate::rpc::{RpcError, code};
use crate::server::{Caller, Context, Failure, Later, Outcome};

use super::super::lock;
use super::super::member::{Awaiting, Member, STACK};
use super::forward::Sending;
use super::{Export, forward};

/// How often who waits for room looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// The calls that are passed on.
#[derive(Default)]
pub(super) struct Passing {
    table: Mutex<Table>,
    changed: Condvar,
    /// How many of the calls wait for their server to connect.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Table {
    calls: Vec<Arc<Passed>>,
    last: u64,
    /// A thread looks for those that were held, or waited, for too long.
    watched: bool,
    /// Counts calls that have begun to be held or to wait.
    news: u64,
    closed: bool,
}

/// One call.
pub(super) struct Passed {
    key: String,
    /// The resource that is read.
    uri: Option<String>,
    number: u64,
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
    later: Option<Later>,
    /// Who called.
    caller: Option<Caller>,
    came: Option<Came>,
    open: Vec<Open>,
    asked: usize,
    /// Log entries that came before `later`.
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

impl Passed {
    /// A call to the server with this key, in the table.
    pub(super) fn new(
        export: &Arc<Export>,
        key: &str,
        uri: Option<&str>,
        round: u32,
        since: Instant,
    ) -> Arc<Passed> {
        let mut table = lock(&export.passing.table);
        table.last += 1;
        let passed = Arc::new(Passed {
            key: key.to_owned(),
            uri: uri.map(str::to_owned),
            number: table.last,
            export: Arc::clone(export),
            round,
            since,
            visits: AtomicUsize::new(0),
            canceller: OnceLock::new(),
            state: Mutex::default(),
        });
        table.calls.push(Arc::clone(&passed));
        passed
    }

    /// Sends it, at once or as soon as its server is connected.
    pub(super) fn go(self: &Arc<Self>, member: &Member, sending: Sending) {
        let limits = self.limits();
        let passing = &self.export.passing;
        if passing.waiting.fetch_add(1, Ordering::AcqRel) >= limits.calls.div_ceil(2)
            && member.is_connecting()
        {
            passing.waiting.fetch_sub(1, Ordering::AcqRel);
            let why = format!("too many calls wait for the server {:?} to connect", self.key);
            return self.fail(&Error::new(ErrorKind::Busy, why));
        }
        lock(&self.state).waiting = Some((sending, self.since + limits.call_timeout));
        let waiting: Arc<dyn Awaiting> = Arc::<Passed>::clone(self);
        match member.connected(&waiting) {
            Some(connection) => waiting.settled(connection),
            None => self.export.look_after(),
        }
    }

    /// What waits to be sent; only one gets it.
    fn take_waiting(&self) -> Option<(Sending, Instant)> {
        let waiting = lock(&self.state).waiting.take();
        if waiting.is_some() {
            self.export.passing.waiting.fetch_sub(1, Ordering::AcqRel);
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
            if let Some(later) = &state.later {
                later.allow(left.max(LOOK));
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
    pub(super) fn attach(self: &Arc<Self>, later: Later) {
        let time = self.limits().call_timeout;
        let given_up = Arc::clone(self);
        later.on_cancel(move || given_up.cancel());
        {
            let mut state = lock(&self.state);
            // Whoever looks after those that wait knows better why they waited in vain.
            later.allow(if state.waiting.is_some() { time * 2 } else { time });
            state.caller = later.caller();
            state.until = None;
            for (logger, entry) in std::mem::take(&mut state.early) {
                later.log(entry.level, &logger, &entry.data);
            }
            state.later = Some(later);
        }
        self.visit();
    }

    fn limits(&self) -> &Limits {
        &self.export.hub.shared.limits
    }

    /// Nobody wants it any more.
    fn cancel(self: &Arc<Self>) {
        self.export.passing.remove(self);
        lock(&self.state).cancelled = true;
        if let Some(canceller) = self.canceller.get() {
            canceller.cancel();
        }
        if self.take_waiting().is_some() {
            self.fail(&Error::new(ErrorKind::Cancelled, "the call was cancelled"));
        }
    }

    /// What has not come to its end by now comes to it, if its time is over.
    fn expire(self: &Arc<Self>, now: Instant) {
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

    /// When [`Passed::expire`] has something to do.
    fn due(&self) -> Option<Instant> {
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
            if state.later.is_none() {
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
        let Some(later) = state.later.take() else { return };
        if let Some(came) = state.came.take() {
            // Questions that are still open are refused: they are dropped, without the lock.
            let open = std::mem::take(&mut state.open);
            drop(state);
            drop(open);
            self.export.passing.remove(self);
            return self.end(later, came);
        }
        let mut fresh = Vec::new();
        for open in state.open.iter_mut().filter(|open| !open.sent) {
            open.sent = true;
            fresh.push((open.key.clone(), open.question.request.clone()));
        }
        if fresh.is_empty() {
            state.later = Some(later);
            return;
        }
        state.until = Some(Instant::now() + self.limits().ask_timeout);
        drop(state);
        self.export.look_after();
        later.ask(&fresh, &forward::held(self.number));
    }

    fn poll(&self, under: &mut Call<Relayed>) -> Option<Came> {
        Some(match under.outcome_until(Instant::now(), &mut |step| self.step(&step))? {
            Ok(client::Outcome::Complete(answer)) => Came::Answer(Ok(Outcome::Relayed(answer))),
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
        if let Some(later) = &mut state.later {
            later.progress(step.done, step.total, step.message.as_deref());
            let limits = self.limits();
            let left = limits.call_longest.saturating_sub(self.since.elapsed());
            later.allow(limits.call_timeout.min(left.max(LOOK)));
        }
    }

    /// Gives the client what the server said at the end.
    fn end(&self, later: Later, came: Came) {
        let asked = match came {
            Came::Answer(answer) => return later.finish(answer),
            Came::Asked(asked) => asked,
        };
        let round = self.round + 1;
        if round >= self.limits().rounds {
            return later.finish(Err(Failure::new("The server asks back without end")));
        }
        let note = forward::again(round, &asked);
        match crate::server::questions(&asked.questions) {
            Ok(questions) if questions.is_empty() => later.again(&note),
            Ok(questions) => later.ask(&questions, &note),
            Err(failure) => later.finish(Err(failure)),
        }
    }

    /// Takes over a question of the server about this call.
    fn ask(self: &Arc<Self>, question: Question) {
        {
            let mut state = lock(&self.state);
            state.asked += 1;
            let key = format!("ask-{}", state.asked);
            state.open.push(Open { key, question, sent: false });
        }
        self.visit();
    }

    /// Whether the client of this call can be asked this, as far as is known, and there is room.
    fn client_can(&self, request: &AskRequest) -> bool {
        let state = lock(&self.state);
        state.open.len() < self.limits().parked
            && state.later.as_ref().is_none_or(|later| later.client_can().cover(request.needs()))
    }

    fn until(&self) -> Option<Instant> {
        lock(&self.state).until
    }

    fn log(&self, logger: &str, entry: &LogEntry) {
        let mut state = lock(&self.state);
        match (&state.later, &state.caller) {
            (Some(later), _) => later.log(entry.level, logger, &entry.data),
            (None, Some(caller)) => caller.log(entry.level, logger, &entry.data),
            (None, None) if state.early.len() < self.limits().events => {
                state.early.push((logger.to_owned(), entry.clone()));
            }
            (None, None) => {}
        }
    }
}

impl Passing {
    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    fn all(&self) -> Vec<Arc<Passed>> {
        self.lock().calls.clone()
    }

    /// Waits until fewer than `most` calls are under way.
    pub(super) fn wait_for_room(&self, ctx: &Context<'_>, most: usize) -> Result<(), Failure> {
        let mut table = self.lock();
        while table.calls.len() >= most {
            if ctx.cancelled() {
                return Err(Failure::new("The call was cancelled"));
            }
            table = self.changed.wait_timeout(table, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    pub(super) fn remove(&self, passed: &Arc<Passed>) {
        let mut table = self.lock();
        table.calls.retain(|call| !Arc::ptr_eq(call, passed));
        drop(table);
        self.changed.notify_all();
    }

    /// The calls that a server works on, if they are certain to be of one client.
    fn of_one(&self, key: &str) -> Vec<Arc<Passed>> {
        let calls: Vec<_> = self.lock().calls.iter().filter(|call| call.key == key).cloned().collect();
        let callers: Vec<Option<Caller>> =
            calls.iter().map(|call| lock(&call.state).caller.clone()).collect();
        let same = match callers.split_first() {
            // The first may not be known yet: then it must be the only one.
            Some((None, rest)) => rest.is_empty(),
            Some((Some(first), rest)) => rest.iter().flatten().all(|other| first.is(other)),
            None => true,
        };
        if same && callers.iter().skip(1).all(Option::is_some) { calls } else { Vec::new() }
    }

    /// Ends the thread that watches.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl Export {
    /// A server asks in the middle of a call.
    #[expect(clippy::result_large_err, reason = "what is given back is what came")]
    pub(in super::super) fn question(&self, key: &str, question: Question) -> Result<(), Question> {
        let calls = self.passing.of_one(key);
        let held = self.passing.all().iter().filter(|call| call.until().is_some()).count();
        // The newest is the likeliest, and of one client it does not matter.
        match calls.iter().rev().find(|call| call.client_can(&question.request)) {
            Some(call) if held < self.hub.shared.limits.parked => {
                call.ask(question);
                Ok(())
            }
            _ => Err(question),
        }
    }

    /// A server logs.
    pub(in super::super) fn logged(&self, key: &str, entry: &LogEntry) {
        let logger = match &entry.logger {
            Some(logger) => format!("{key}/{logger}"),
            None => key.to_owned(),
        };
        let busy = lock(&self.passing.table).calls.iter().any(|call| call.key == key);
        match self.passing.of_one(key).last() {
            Some(call) => call.log(&logger, entry),
            // Whose it is cannot be told: nobody hears what another client has the server do.
            None if busy => {}
            None => self.handle.log_to_only(entry.level, &logger, &entry.data),
        }
    }

    /// Goes on with a call whose server asked in the middle of it.
    pub(super) fn go_on(&self, ctx: &mut Context<'_>, number: u64) -> Result<Arc<Passed>, Failure> {
        let found = lock(&self.passing.table).calls.iter().find(|call| call.number == number).cloned();
        let gone = || Failure::new("The answers came too late: the server's call is over. Call again");
        let passed = found.ok_or_else(gone)?;
        let sent: Vec<(String, AskRequest)> = {
            let state = lock(&passed.state);
            if state.later.is_some() || state.until.is_none() {
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

    /// Sees to it that somebody looks for calls that were held, or waited, for too long.
    fn look_after(self: &Arc<Self>) {
        {
            let mut table = lock(&self.passing.table);
            table.news += 1;
            if std::mem::replace(&mut table.watched, true) {
                drop(table);
                return self.passing.changed.notify_all();
            }
        }
        let export = Arc::clone(self);
        let watching = std::thread::Builder::new()
            .name("mcp-hub-held".to_owned())
            .stack_size(STACK)
            .spawn(move || export.watch());
        if watching.is_err() {
            // OK without: the next one tries again, and those that are held are few.
            lock(&self.passing.table).watched = false;
        }
    }

    fn watch(&self) {
        loop {
            let news = self.passing.lock().news;
            let now = Instant::now();
            let mut next = None;
            for call in self.passing.all() {
                call.expire(now);
                next = next.into_iter().chain(call.due()).min();
            }
            let mut table = self.passing.lock();
            if table.closed {
                return;
            }
            if table.news != news {
                continue;
            }
            let Some(next) = next else {
                table.watched = false;
                return;
            };
            let left = next.saturating_duration_since(Instant::now());
            table = self.passing.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
            drop(table);
        }
    }
}

impl Awaiting for Passed {
    fn settled(self: Arc<Self>, connection: Result<Client, Error>) {
        let Some((sending, until)) = self.take_waiting() else { return };
        let sent = connection.and_then(|client| self.send(&client, &sending, until));
        if let Err(error) = sent {
            self.fail(&error);
        }
    }
}
