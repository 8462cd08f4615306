//! Connection: its session, the calls in flight, the parked calls, and the subscriptions.
//!
//! # Locks
//! - `session`, `parked`, `listens` and the lock of [`InFlight`] are taken one at a time and never
//!   held while a handler runs.
//! - No lock is held across a send that may wait for the client. Messages that are sent under a
//!   lock, by the watchdog or by a thread of the program go through [`Outbox`].
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
use crate::server::call::in_flight::{Call, EnterError, InFlight, Running};
use crate::server::context::CallHost;
use crate::server::serve::state::{Core, ParkPermit};

/// The shared state of one connection.
pub(crate) struct Connection {
    pub core: Arc<Core>,
    pub sink: Arc<dyn ReplySink>,
    /// Many clients without sessions share the connection, so equal ids of theirs are unrelated.
    pub shared: bool,
    session: Mutex<Option<Session>>,
    calls: InFlight,
    parked: Mutex<Parked>,
    listens: Mutex<Vec<Listen>>,
    /// Set with the first subscription. Until then calls need not compare their ids with those of
    /// subscriptions. Only the reader thread accesses it.
    listening: AtomicBool,
    /// Changes whose notifications wait until the client reads again; each is sent once.
    missed: Mutex<Vec<Change>>,
    /// Number of settled calls whose workers have not sent the response yet.
    answering: AtomicUsize,
    /// The reader thread handles a frame, or has collected responses that are not sent yet.
    reading: AtomicBool,
    /// Messages that are sent without waiting for the client.
    pub outbox: Outbox,
}

/// Error of a call or request whose client has not responded before the deadline.
const NO_RESPONSE: &str = "The client did not respond in time";

/// Calls that wait for the client's responses.
#[derive(Default)]
struct Parked {
    /// Id of the last request to the client.
    last_id: u64,
    calls: Vec<ParkedCall>,
    /// Requests to the client that belong to no call.
    requests: Vec<ClientRequest>,
}

/// Callback for the client's response.
pub(crate) type OnAnswer = Box<dyn FnOnce(Answer) + Send>;

/// A request to the client that belongs to no call.
struct ClientRequest {
    id: u64,
    on_answer: OnAnswer,
    /// Time at which it fails without a response.
    deadline: Instant,
    /// The message while the session is not ready for requests.
    unsent: Vec<u8>,
}

struct ParkedCall {
    job: Job,
    /// Ids and keys of the open requests to the client.
    open: Vec<(u64, String)>,
    _permit: ParkPermit,
}

/// A subscription of the modern era.
struct Listen {
    /// Its acknowledgment was sent, so notifications may follow.
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
        let outbox = Outbox::new(&core.watchdog);
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
            outbox,
        }
    }

    /// Connection for the requests of many clients, each with a sink of its own.
    #[cfg(feature = "http-server")]
    pub(crate) fn shared(core: Arc<Core>, sink: Arc<dyn ReplySink>) -> Connection {
        Connection { shared: true, ..Connection::new(core, sink) }
    }

    /// Records whether the reader thread is busy, which is the opposite of waiting for input.
    ///
    /// The store of `true` is sequentially consistent with the request to stop. The reader stores
    /// it before it checks for that request; shutdown loads it after it made the request. So either
    /// the reader ignores the frame, or shutdown waits for its response. The store of `false` only
    /// has to follow the work.
    pub(crate) fn set_reading(&self, reading: bool) {
        let order = if reading { Ordering::SeqCst } else { Ordering::Release };
        self.reading.store(reading, order);
    }

    pub(crate) fn is_reading(&self) -> bool {
        self.reading.load(Ordering::SeqCst)
    }

    /// The session, if one is open.
    pub(crate) fn session(&self) -> MutexGuard<'_, Option<Session>> {
        lock(&self.session)
    }

    /// Admits a call if the calls in flight weigh at most `most` bytes then. The call stays in the
    /// table until it is settled.
    pub(crate) fn begin(&self, job: &Job, most: usize) -> Result<(), EnterError> {
        let Some(id) = Id::read(job.doc.at(job.query.id)) else { return Ok(()) };
        if !self.shared && self.listening.load(Ordering::Relaxed) && self.listens_as(&id) {
            return Err(EnterError::Duplicate);
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

    /// Blocks until a job that did not fit can be admitted, or serving ends.
    pub(crate) fn wait_for_room(&self, job: &Job) {
        self.calls.wait_for_room(job.weight(), self.core.limits.in_flight_bytes);
    }

    /// Returns whether a call or subscription with this id is open.
    pub(crate) fn is_open(&self, id: &Id) -> bool {
        !self.shared && (self.calls.is_open(id) || self.listens_as(id))
    }

    fn listens_as(&self, id: &Id) -> bool {
        lock(&self.listens).iter().any(|l| l.id == *id)
    }

    /// The same for an id of a message; for the reader thread only.
    pub(crate) fn is_taken(&self, id: Value<'_>) -> bool {
        let any = self.calls.any() || self.listening.load(Ordering::Relaxed);
        any && Id::read(id).is_some_and(|id| self.is_open(&id))
    }

    /// Settles a call with a response, unless it is settled.
    pub(crate) fn finish(&self, job: &Job, reply: Reply<'_>) {
        // Counted before it is settled, so that `close` waits for the response of a settled call.
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
            // The reader thread may wait for input, so only this wakes shutdown.
            self.core.watchdog.wake();
        }
    }

    /// Handles the client's cancellation of the call or subscription with this id.
    #[cold]
    #[inline(never)]
    pub(crate) fn cancel(&self, id: &Id) {
        if let Some(running) = self.calls.take_id(id) {
            let mine = running.call.cancel();
            // Withdrawals first: nothing may follow the end of the call on its stream.
            self.drop_settled();
            if mine {
                running.sink.abandon();
            }
        } else {
            lock(&self.listens).retain(|listen| listen.id != *id);
        }
    }

    /// Cancels the calls whose peer has disconnected.
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

    /// Cancels the call, or ends the subscription, of this HTTP exchange, whose peer has
    /// disconnected.
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

    /// Returns whether calls are in flight.
    pub(crate) fn busy(&self) -> bool {
        self.calls.len() > 0
    }

    /// Returns whether calls are in flight and all of them are parked.
    #[cfg(feature = "http-server")]
    pub(crate) fn only_asks(&self) -> bool {
        // The locks are taken one after the other. A call that starts in between counts as running.
        let parked = lock(&self.parked).calls.len();
        parked > 0 && parked >= self.calls.len()
    }

    /// Drops queued and parked jobs of settled calls, and withdraws their requests to the client.
    #[cold]
    pub(crate) fn drop_settled(&self) {
        drop(self.core.pool.withdraw(&mut |job: &Job| job.call.is_settled()));
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

    /// Parks a call and sends its requests to the client.
    pub(crate) fn park(&self, job: Job, asks: &[Ask]) {
        let (era, revision) = (job.era, job.query.peer.revision);
        let (call, sink) = (Arc::clone(&job.call), Arc::clone(&job.sink));
        let weight = job.weight();
        // Before the client can respond, which sets another deadline.
        self.reschedule(&call, self.core.limits.ask_timeout, 0);
        let mut w = Writer::new();
        {
            let mut parked = lock(&self.parked);
            let weight = parked.calls.iter().map(|p| p.job.weight()).sum::<usize>() + weight;
            let full = parked.calls.len() >= self.core.limits.parked
                || (weight > self.core.limits.in_flight_bytes && !parked.calls.is_empty());
            let permit = if full { None } else { ParkPermit::take(&self.core) };
            let Some(permit) = permit else {
                drop(parked);
                let fault = Fault::Internal("Too many calls wait for responses of clients");
                return self.finish(&job, Reply::Fault(&fault));
            };
            let mut open = Vec::with_capacity(asks.len());
            for ask in asks {
                parked.last_id += 1;
                era.question(&mut w, revision, parked.last_id, ask);
                w.newline();
                open.push((parked.last_id, ask.key.clone()));
            }
            parked.calls.push(ParkedCall { job, open, _permit: permit });
            // Under the lock, so that a withdrawal follows its request.
            self.outbox.send(&sink, w.into_bytes());
        }
        if call.is_settled() {
            self.drop_settled();
        }
    }

    /// Sends a request to the session's client outside of a call, as soon as the session is ready.
    /// It fails after the limit `ask_timeout`. Returns `on_answer` if no request can be sent.
    #[allow(dead_code)] // Used by the hub.
    pub(crate) fn ask(&self, request: AskRequest, on_answer: OnAnswer) -> Result<(), OnAnswer> {
        let (Some(era), Some((peer, ready))) =
            (self.core.eras.legacy, self.session().as_ref().map(|session| (session.peer, session.ready)))
        else {
            return Err(on_answer);
        };
        let mut parked = lock(&self.parked);
        if !peer.capabilities.cover(request.needs()) || parked.requests.len() >= self.core.limits.parked {
            return Err(on_answer);
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
        let deadline = Instant::now() + self.core.limits.ask_timeout;
        parked.requests.push(ClientRequest { id, on_answer, deadline, unsent });
        drop(parked);
        self.core.watchdog.arm();
        // The session may have become ready since, and the reader has then seen no request.
        if !ready && self.session().as_ref().is_some_and(|session| session.ready) {
            self.ready();
        }
        Ok(())
    }

    /// Sends the requests that waited until the session was ready.
    pub(crate) fn ready(&self) {
        for request in lock(&self.parked).requests.iter_mut().filter(|request| !request.unsent.is_empty()) {
            self.outbox.send(&self.sink, std::mem::take(&mut request.unsent));
        }
    }

    /// Sets the deadline of a call to `time` from now, and its weight. A zero `time` is no
    /// deadline.
    #[cold]
    pub(crate) fn reschedule(&self, call: &Arc<Call>, time: Duration, weight: usize) {
        let deadline = (!time.is_zero()).then(|| Instant::now() + time);
        self.calls.reschedule(call, deadline, weight);
        self.core.watchdog.arm();
    }

    /// Handles the client's response to a request of the server. Returns the parked job if this was
    /// its last open request.
    pub(crate) fn answered(&self, id: u64, mut answer: Answer) -> Option<Job> {
        let mut parked = lock(&self.parked);
        if let Some(at) = parked.requests.iter().position(|request| request.id == id) {
            let request = parked.requests.swap_remove(at);
            drop(parked);
            (request.on_answer)(answer);
            return None;
        }
        let kept = parked.calls.iter().map(|p| p.job.weight()).sum::<usize>();
        if answer.as_ref().is_ok_and(|doc| kept + doc.memory() > self.core.limits.in_flight_bytes) {
            answer = Err(RpcError::new(code::INTERNAL, "the response is too large to be stored"));
        }
        let mut at = None;
        for (place, call) in parked.calls.iter().enumerate() {
            if let Some(which) = call.open.iter().position(|(open, _)| *open == id) {
                at = Some((place, which));
            }
        }
        // A response without a request, perhaps a late one, is dropped.
        let (place, which) = at?;
        let call = parked.calls.get_mut(place)?;
        let (_, key) = call.open.swap_remove(which);
        call.job.answers.push((key, answer));
        if !call.open.is_empty() {
            return None;
        }
        let job = parked.calls.swap_remove(place).job;
        drop(parked);
        self.reschedule(&job.call, self.core.limits.handler_deadline, job.weight());
        Some(job)
    }

    /// Ends overdue calls and requests to the client with an error. Sends notifications that waited
    /// for a slow client and messages that waited for a thread. Returns whether there are deadlines
    /// or messages left.
    pub(crate) fn check(&self, now: Instant) -> bool {
        let (late, more) = self.calls.take_late(now);
        if !late.is_empty() {
            self.time_out(late);
        }
        let more = self.time_out_requests(now) || more;
        if !self.congested() {
            let missed = std::mem::take(&mut *lock(&self.missed));
            for change in &missed {
                self.notify(change);
            }
        }
        let missed = !lock(&self.missed).is_empty();
        self.outbox.start() || more || missed
    }

    #[cold]
    #[inline(never)]
    fn time_out(&self, late: Vec<Running>) {
        let parked = |late: &Running| {
            lock(&self.parked).calls.iter().any(|parked| Arc::ptr_eq(&parked.job.call, &late.call))
        };
        let (parked, late): (Vec<_>, Vec<_>) = late.into_iter().partition(parked);
        let (started, queued) = late.into_iter().partition(|running| running.call.has_started());
        self.give_up(parked, NO_RESPONSE);
        self.give_up(started, "The call did not finish before its deadline");
        self.give_up(queued, "The call did not start before its deadline: all workers were busy");
    }

    /// Ends the overdue requests that belong to no call. Returns whether there are others.
    fn time_out_requests(&self, now: Instant) -> bool {
        let mut parked = lock(&self.parked);
        let requests = std::mem::take(&mut parked.requests);
        let late: Vec<ClientRequest>;
        (late, parked.requests) = requests.into_iter().partition(|request| request.deadline <= now);
        let more = !parked.requests.is_empty();
        drop(parked);
        for request in late {
            if let Some(era) = self.core.eras.legacy.filter(|_| request.unsent.is_empty()) {
                let mut w = Writer::new();
                era.withdraw(&mut w, request.id);
                w.newline();
                self.outbox.send(&self.sink, w.into_bytes());
            }
            (request.on_answer)(Err(RpcError::new(code::INTERNAL, NO_RESPONSE)));
        }
        more
    }

    /// Cancels calls and sends an error instead of the results of their handlers.
    #[cold]
    fn give_up(&self, mut calls: Vec<Running>, why: &'static str) {
        calls.retain(|running| running.call.cancel());
        // Withdrawals first: nothing may follow the response of a call on its stream.
        self.drop_settled();
        for running in &calls {
            let raw = running.id.to_raw();
            let to = ReplyTarget { id: &raw, revision: running.revision, card: &self.core.card };
            let mut w = Writer::new();
            let encoded = if matches!(running.operation, Operation::CallTool { .. }) {
                // A tool's failure is a result, so that the model sees it.
                running.era.reply(&mut w, &to, Reply::Tool(&ToolOutput::failed(why)))
            } else {
                running.era.reply(&mut w, &to, Reply::Fault(&Fault::Internal(why)))
            };
            w.newline();
            self.outbox.answer(&running.sink, w.into_bytes(), encoded);
        }
    }

    /// Ends the parked calls, because no more input will arrive.
    pub(crate) fn input_ended(&self) {
        self.calls.end();
        let requests = std::mem::take(&mut lock(&self.parked).requests);
        drop(requests);
        let stuck: Vec<Arc<Call>> =
            lock(&self.parked).calls.iter().map(|p| Arc::clone(&p.job.call)).collect();
        let stuck = stuck.iter().filter_map(|call| self.calls.take(call)).collect();
        self.give_up(stuck, "The input ended, or the server stopped, before the client responded");
    }

    /// Removes a call that the caller of this function will end. Returns `false` if another party
    /// ends it.
    #[cfg(feature = "http-server")]
    pub(crate) fn forget(&self, call: &Arc<Call>) -> bool {
        self.calls.take(call).is_some_and(|running| running.call.settle())
    }

    /// Rejects a call that will not run, unless it is settled.
    #[cold]
    pub(crate) fn refuse(&self, call: &Arc<Call>, why: &'static str) {
        if let Some(running) = self.calls.take(call) {
            self.give_up(vec![running], why);
        }
    }

    /// Ends all calls in flight and all subscriptions, and closes the sink. Earlier messages
    /// may leave until `deadline`.
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

    /// Ends all calls in flight with an error.
    pub(crate) fn give_all_up(&self, why: &'static str) {
        self.give_up(self.calls.take_all(), why);
    }
}
