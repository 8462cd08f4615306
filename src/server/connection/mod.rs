//! One connection: its session, the calls in flight, the calls that wait for the client, and who
//! listens for changes.
//!
//! # Locks
//! `session`, `parked`, `listens` and that of [`InFlight`] are taken one at a time and never across
//! a handler.
//! None is held across a send that may wait for the client: what is sent under a lock, by the
//! watching thread or by a thread of the program goes through [`Outbox`].
//!
//! # Invariants
//! - Exactly one party settles a call: its worker, a cancellation or the watchdog.

mod outbox;
mod subscriptions;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::era::{self, Reply, ReplyTarget, ServerEra};
use crate::error::Error;
use crate::json::{Json, Value, Writer};
use crate::model::client_request::{Answer, Ask, AskRequest};
use crate::model::content::ToolOutput;
use crate::model::{Change, Fault, Filter, Operation, Revision, Session};
use crate::rpc::{Id, RpcError, code};
use crate::sync::lock;
use crate::transport::ReplySink;

use self::outbox::Outbox;
use crate::server::call::Job;
use crate::server::call::in_flight::{Call, InFlight, Refusal, Running};
use crate::server::context::CallHost;
use crate::server::serve::state::{Core, ParkPermit};

/// The shared state of one connection.
pub(crate) struct Connection {
    pub core: Arc<Core>,
    pub sink: Arc<dyn ReplySink>,
    /// Many clients without sessions share it: their ids have nothing to do with each other.
    shared: bool,
    session: Mutex<Option<Session>>,
    calls: InFlight,
    parked: Mutex<Parked>,
    listens: Mutex<Vec<Listen>>,
    /// Whether there ever was one of them: calls need not look for their ids otherwise. Set by the
    /// thread that reads, which also reads it.
    listening: AtomicBool,
    /// Changes that could not be told while the client was not reading; told later, once each.
    missed: Mutex<Vec<Change>>,
    /// Calls that are settled by their handlers and not yet answered.
    answering: AtomicUsize,
    /// A frame is being handled, or answers to some wait to leave together.
    reading: AtomicBool,
    outbox: Outbox,
}

/// Calls whose questions are with the client.
#[derive(Default)]
struct Parked {
    /// The last id of a request of ours.
    last_id: u64,
    calls: Vec<ParkedCall>,
    /// Requests of ours that belong to no call.
    asked: Vec<Asked>,
}

/// Gets a client's answer.
pub(crate) type Then = Box<dyn FnOnce(Answer) + Send>;

struct Asked {
    id: u64,
    then: Then,
    /// The message, until the session is ready for requests.
    unsent: Vec<u8>,
}

struct ParkedCall {
    job: Job,
    /// Requests of ours and the keys of their questions; answered ones are gone.
    open: Vec<(u64, String)>,
    _seat: ParkPermit,
}

struct Listen {
    /// It was acknowledged: changes are told.
    open: bool,
    id: Id,
    raw: String,
    filter: Filter,
    era: &'static dyn ServerEra,
    revision: Revision,
    sink: Arc<dyn ReplySink>,
}

impl CallHost for Connection {
    fn stopping(&self) -> bool {
        self.core.shared.stopping()
    }

    fn notify(&self, change: &Change) -> Result<(), Error> {
        self.core.shared.notify(change)
    }

    fn client_info(&self) -> Option<Json> {
        self.session().as_ref().map(|session| session.client.clone())
    }

    fn need_sealer(&self) -> Result<(), Fault> {
        self.core.need_sealer()
    }

    fn busy(&self) -> bool {
        self.outbox.busy()
    }
}

impl Connection {
    pub(crate) fn new(core: Arc<Core>, sink: Arc<dyn ReplySink>) -> Connection {
        Connection {
            core,
            sink,
            shared: false,
            session: Mutex::default(),
            calls: InFlight::default(),
            parked: Mutex::default(),
            listens: Mutex::default(),
            listening: AtomicBool::new(false),
            missed: Mutex::default(),
            answering: AtomicUsize::new(0),
            reading: AtomicBool::new(false),
            outbox: Outbox::default(),
        }
    }

    /// For the requests of many clients, each of which is answered to an sink of its own.
    #[cfg(feature = "http-server")]
    pub(crate) fn shared(core: Arc<Core>, sink: Arc<dyn ReplySink>) -> Connection {
        Connection { shared: true, ..Connection::new(core, sink) }
    }

    /// Says whether the thread that reads does anything but wait for input.
    ///
    /// In one order with the request to stop, for all threads: who reads sets this before it looks
    /// whether to stop, who stops looks at this afterwards. So either the frame is not taken, or
    /// its answer is waited for. The end of reading has only to come after what was done.
    pub(crate) fn set_reading(&self, reading: bool) {
        let order = if reading { Ordering::SeqCst } else { Ordering::Release };
        self.reading.store(reading, order);
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.reading.load(Ordering::SeqCst)
    }

    /// What says things without waiting for the client.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Whether many clients may be at the other end.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// The session, if one is open.
    pub(crate) fn session(&self) -> MutexGuard<'_, Option<Session>> {
        lock(&self.session)
    }

    /// Admits a call if the calls in flight weigh at most `most` bytes then. The call stays in the
    /// table until it is settled.
    pub(crate) fn begin(&self, job: &Job, most: usize) -> Result<(), Refusal> {
        let Some(id) = Id::read(job.doc.at(job.query.id)) else { return Ok(()) };
        if !self.shared && self.listening.load(Ordering::Relaxed) && self.listens_as(&id) {
            return Err(Refusal::Duplicate);
        }
        let running = Running {
            id,
            call: Arc::clone(&job.call),
            deadline: self.core.deadline_from(job.accepted),
            era: job.era,
            revision: job.query.peer.revision,
            operation: job.query.operation,
            sink: Arc::clone(&job.sink),
            weight: job.weight(),
        };
        self.calls.enter(running, most, !self.shared)?;
        self.core.watchdog.arm();
        Ok(())
    }

    /// Waits until a job that was refused for want of room can be taken in, or serving ends.
    pub(crate) fn wait_for_room(&self, job: &Job) {
        self.calls.wait_for_room(job.weight(), self.core.limits.in_flight_bytes);
    }

    /// Whether a call or subscription with this id is open.
    pub(crate) fn is_open(&self, id: &Id) -> bool {
        !self.shared && (self.calls.is_open(id) || self.listens_as(id))
    }

    fn listens_as(&self, id: &Id) -> bool {
        lock(&self.listens).iter().any(|l| l.id == *id)
    }

    /// Whether this is the id of such a call; for the thread that reads.
    pub(crate) fn is_taken(&self, id: Value<'_>) -> bool {
        let any = self.calls.any() || self.listening.load(Ordering::Relaxed);
        any && Id::read(id).is_some_and(|id| self.is_open(&id))
    }

    /// Settles a call with an answer, unless somebody did before.
    pub(crate) fn finish(&self, job: &Job, reply: Reply<'_>) {
        // Counted before it is settled: who finds it settled, or gone, can wait for its answer.
        self.answering.fetch_add(1, Ordering::SeqCst);
        if job.call.settle() {
            self.calls.take(&job.call);
            self.core.with_writer(|w| {
                let encoded = job.era.reply(w, &job.to(), reply);
                w.newline();
                if job.posts {
                    return self.outbox.answer(&job.sink, w.as_bytes().to_vec(), encoded);
                }
                job.sink.answer(w.as_bytes(), encoded);
            });
        }
        self.answering.fetch_sub(1, Ordering::SeqCst);
        if self.sink.closed() || self.core.shared.stopping() {
            // Nobody else may notice: the thread that reads waits for input, the end for this.
            self.core.watchdog.wake();
        }
    }

    /// Takes back what was to be answered under this id: the client cancelled it.
    #[cold]
    #[inline(never)]
    pub(crate) fn cancel(&self, id: &Id) {
        if let Some(running) = self.calls.take_id(id) {
            let mine = running.call.cancel();
            // First what takes questions back: nothing follows the end of the call on its stream.
            self.drop_settled();
            if mine {
                running.sink.abandon();
            }
        } else {
            lock(&self.listens).retain(|listen| listen.id != *id);
        }
    }

    /// Cancels the calls that can no longer be answered.
    #[cfg(feature = "http-server")]
    pub(crate) fn drop_closed(&self) {
        let gone = self.calls.take_closed();
        for running in &gone {
            running.call.cancel();
        }
        if !gone.is_empty() {
            self.drop_settled();
        }
    }

    /// Cancels the one call, or ends the one subscription, that was answered to this HTTP exchange,
    /// whose peer is gone.
    #[cfg(feature = "http-server")]
    pub(crate) fn drop_exchange(&self, exchange: u64) {
        if let Some(running) = self.calls.take_exchange(exchange) {
            running.call.cancel();
            self.drop_settled();
            return;
        }
        let mut listens = lock(&self.listens);
        if let Some(at) = listens.iter().position(|listen| listen.sink.exchange() == Some(exchange)) {
            listens.swap_remove(at);
        }
    }

    /// Whether calls are in flight.
    #[cfg(feature = "http-server")]
    pub(crate) fn busy(&self) -> bool {
        self.calls.len() > 0
    }

    /// Whether calls are in flight and all of them wait for the client.
    #[cfg(feature = "http-server")]
    pub(crate) fn only_asks(&self) -> bool {
        // One lock after the other: a call that comes in between is seen to run.
        let parked = lock(&self.parked).calls.len();
        parked > 0 && parked >= self.calls.len()
    }

    /// Forgets queued and parked work of settled calls, and withdraws their questions.
    #[cold]
    pub(crate) fn drop_settled(&self) {
        let queued = self.core.pool.withdraw(&mut |job: &Job| job.call.is_settled());
        drop(queued);
        let settled: Vec<ParkedCall>;
        {
            let mut parked = lock(&self.parked);
            let calls = std::mem::take(&mut parked.calls);
            (settled, parked.calls) = calls.into_iter().partition(|call| call.job.call.is_settled());
        }
        for call in settled {
            let mut w = Writer::new();
            for (id, _) in &call.open {
                call.job.era.withdraw(&mut w, *id);
                w.newline();
            }
            self.outbox.send(&call.job.sink, w.into_bytes());
        }
    }

    /// Parks a call and sends its questions to the client.
    pub(crate) fn park(&self, job: Job, asks: &[Ask]) {
        let (era, revision) = (job.era, job.query.peer.revision);
        let (call, sink) = (Arc::clone(&job.call), Arc::clone(&job.sink));
        let weight = job.weight();
        // Before the client can answer, which gives the call another deadline.
        self.change(&call, self.core.limits.ask_timeout, 0);
        let mut w = Writer::new();
        {
            let mut parked = lock(&self.parked);
            let weight = parked.calls.iter().map(|p| p.job.weight()).sum::<usize>() + weight;
            let full = parked.calls.len() >= self.core.limits.parked
                || (weight > self.core.limits.in_flight_bytes && !parked.calls.is_empty());
            let seat = if full { None } else { ParkPermit::take(&self.core) };
            let Some(seat) = seat else {
                drop(parked);
                let fault = Fault::Internal("Too many calls wait for the answers of clients");
                return self.finish(&job, Reply::Fault(&fault));
            };
            let mut open = Vec::with_capacity(asks.len());
            for ask in asks {
                parked.last_id += 1;
                era.question(&mut w, revision, parked.last_id, ask);
                w.newline();
                open.push((parked.last_id, ask.key.clone()));
            }
            parked.calls.push(ParkedCall { job, open, _seat: seat });
            // Under the lock: whoever takes the questions back does so after they were asked.
            self.outbox.send(&sink, w.into_bytes());
        }
        if call.is_settled() {
            self.drop_settled();
        }
    }

    /// Asks the session's client outside of a call, as soon as the session is ready; gives `then`
    /// back where that cannot be.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn ask(&self, request: AskRequest, then: Then) -> Result<(), Then> {
        let (Some(era), Some((peer, ready))) =
            (self.core.eras.legacy, self.session().as_ref().map(|session| (session.peer, session.ready)))
        else {
            return Err(then);
        };
        let mut parked = lock(&self.parked);
        if !peer.capabilities.cover(request.needs()) || parked.asked.len() >= self.core.limits.parked {
            return Err(then);
        }
        parked.last_id += 1;
        let id = parked.last_id;
        let mut w = Writer::new();
        era.question(&mut w, peer.revision, id, &Ask { key: String::new(), request, write: era::question });
        w.newline();
        let mut unsent = w.into_bytes();
        if ready {
            self.outbox.send(&self.sink, std::mem::take(&mut unsent));
        }
        parked.asked.push(Asked { id, then, unsent });
        Ok(())
    }

    /// The session is ready for requests: sends those that waited for that.
    pub(crate) fn ready(&self) {
        for asked in lock(&self.parked).asked.iter_mut().filter(|asked| !asked.unsent.is_empty()) {
            self.outbox.send(&self.sink, std::mem::take(&mut asked.unsent));
        }
    }

    /// Gives a call this much time from now.
    #[cold]
    pub(crate) fn change(&self, call: &Arc<Call>, time: Duration, weight: usize) {
        let deadline = (!time.is_zero()).then(|| Instant::now() + time);
        self.calls.change(call, deadline, weight);
        self.core.watchdog.arm();
    }

    /// Takes the client's answer to a request of ours; gives the job back when it was the last one.
    pub(crate) fn answered(&self, id: u64, mut answer: Answer) -> Option<Job> {
        let mut parked = lock(&self.parked);
        if let Some(at) = parked.asked.iter().position(|asked| asked.id == id) {
            let asked = parked.asked.swap_remove(at);
            drop(parked);
            (asked.then)(answer);
            return None;
        }
        let kept = parked.calls.iter().map(|p| p.job.weight()).sum::<usize>();
        if answer.as_ref().is_ok_and(|doc| kept + doc.memory() > self.core.limits.in_flight_bytes) {
            answer = Err(RpcError::new(code::INTERNAL, "the answer is too large to be kept"));
        }
        let mut at = None;
        for (place, call) in parked.calls.iter().enumerate() {
            if let Some(which) = call.open.iter().position(|(open, _)| *open == id) {
                at = Some((place, which));
            }
        }
        // An answer to nothing: late, or never asked for. Dropped (JSON-RPC ids are unique).
        let (place, which) = at?;
        let call = parked.calls.get_mut(place)?;
        let (_, key) = call.open.swap_remove(which);
        call.job.answers.push((key, answer));
        if !call.open.is_empty() {
            return None;
        }
        let job = parked.calls.swap_remove(place).job;
        drop(parked);
        self.change(&job.call, self.core.limits.handler_deadline, job.weight());
        Some(job)
    }

    /// Flags and answers what is past its deadline; tells what was missed. Gives back whether
    /// there is still something to watch.
    pub(crate) fn check(&self, now: Instant) -> bool {
        let (late, more) = self.calls.take_late(now);
        if !late.is_empty() {
            self.give_late_up(late);
        }
        if !self.congested() {
            let missed = std::mem::take(&mut *lock(&self.missed));
            for change in &missed {
                self.notify(change);
            }
        }
        let missed = !lock(&self.missed).is_empty();
        more || missed
    }

    #[cold]
    #[inline(never)]
    fn give_late_up(&self, late: Vec<Running>) {
        let parked = |late: &Running| {
            lock(&self.parked).calls.iter().any(|parked| Arc::ptr_eq(&parked.job.call, &late.call))
        };
        let (asked, late): (Vec<_>, Vec<_>) = late.into_iter().partition(parked);
        let (begun, queued) = late.into_iter().partition(|running| running.call.has_started());
        self.give_up(asked, "The client's answer did not come in time");
        self.give_up(begun, "The call was not finished within the server's deadline");
        self.give_up(queued, "The call never started: until the server's deadline all workers were busy");
    }

    /// Cancels calls and answers them in the place of their handlers.
    #[cold]
    fn give_up(&self, mut calls: Vec<Running>, why: &'static str) {
        calls.retain(|running| running.call.cancel());
        // First what takes questions back: nothing follows the answer of a call on its stream.
        self.drop_settled();
        for running in &calls {
            let raw = running.id.to_raw();
            let to = ReplyTarget { id: &raw, revision: running.revision, card: &self.core.card };
            let mut w = Writer::new();
            let encoded = if matches!(running.operation, Operation::CallTool { .. }) {
                // A tool's failure is a result, so that the model learns of it.
                running.era.reply(&mut w, &to, Reply::Tool(&ToolOutput::failed(why)))
            } else {
                running.era.reply(&mut w, &to, Reply::Fault(&Fault::Internal(why)))
            };
            w.newline();
            self.outbox.answer(&running.sink, w.into_bytes(), encoded);
        }
    }

    /// The client will send no more: calls that wait for its answers cannot go on.
    pub(crate) fn input_ended(&self) {
        self.calls.end();
        let asked = std::mem::take(&mut lock(&self.parked).asked);
        drop(asked);
        let stuck: Vec<Arc<Call>> =
            lock(&self.parked).calls.iter().map(|p| Arc::clone(&p.job.call)).collect();
        let stuck = stuck.iter().filter_map(|call| self.calls.take(call)).collect();
        self.give_up(stuck, "The input ended, or the server stopped, before the client's answer came");
    }

    /// Forgets a call that its caller answers; false if somebody else has or will.
    #[cfg(feature = "http-server")]
    pub(crate) fn forget(&self, call: &Arc<Call>) -> bool {
        self.calls.take(call).is_some_and(|running| running.call.settle())
    }

    /// Answers a call that will not run, unless it is settled.
    #[cold]
    pub(crate) fn refuse(&self, call: &Arc<Call>, why: &'static str) {
        if let Some(running) = self.calls.take(call) {
            self.give_up(vec![running], why);
        }
    }

    /// Answers what still runs, ends every subscription and closes the sink; what was said before
    /// gets until `deadline` to leave.
    pub(crate) fn close(&self, deadline: Instant) {
        self.give_all_up("The server is shutting down");
        self.end_listens();
        self.outbox.close(deadline);
        let left = || self.answering.load(Ordering::SeqCst) > 0 && !self.sink.closed();
        while left() && Instant::now() < deadline {
            self.core.watchdog.pause();
        }
        self.sink.close(deadline);
    }

    /// Answers whatever still runs.
    pub(crate) fn give_all_up(&self, why: &'static str) {
        self.give_up(self.calls.take_all(), why);
    }
}
