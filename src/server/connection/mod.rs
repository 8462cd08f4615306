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

use crate::era::{Reply, ReplyTarget, ServerEra};
use crate::error::Error;
use crate::json::{Json, Value, Writer};
use crate::model::client_request::{ClientResponse, KeyedRequest};
use crate::model::content::ToolOutput;
use crate::model::{Change, Fault, Filter, Operation, Revision, Session};
use crate::rpc::{Id, RpcError, code};
use crate::stderr;
use crate::sync::lock;
use crate::transport::ReplySink;

use self::outbox::Outbox;
use crate::server::call::Job;
use crate::server::call::in_flight::{Call, EnterError, InFlight, Running};
use crate::server::callers::{CallerRules, observation};
use crate::server::context::CallHost;
use crate::server::provided::Provided;
use crate::server::serve::state::{Core, ParkPermit};

/// The shared state of one connection.
pub(crate) struct Connection {
    pub core: Arc<Core>,
    pub sink: Arc<dyn ReplySink>,
    /// The connection carries the requests of many clients without sessions, so equal ids are
    /// unrelated.
    pub shared: bool,
    session: Mutex<Option<Session>>,
    calls: InFlight,
    pub(super) parked: Mutex<Parked>,
    pub(super) listens: Mutex<Vec<Listen>>,
    /// Set with the first subscription. Until then calls need not compare their ids with those of
    /// subscriptions. Only the reader thread accesses it.
    listening: AtomicBool,
    /// Changes whose notifications wait until the client reads again; each is sent once.
    missed: Mutex<Vec<Change>>,
    /// Number of settled calls whose workers have not sent the response yet.
    answering: AtomicUsize,
    /// Set while the reader thread handles a frame, or holds responses that are not sent yet.
    reading: AtomicBool,
    /// Messages that are sent without waiting for the client.
    pub outbox: Outbox,
}

/// Error for a call or request whose client has not responded before the deadline.
const NO_RESPONSE: &str = "The client did not respond in time";

/// Calls that wait for the client's responses.
#[derive(Default)]
pub(super) struct Parked {
    /// Id of the last request to the client.
    pub(super) last_id: u64,
    pub(super) calls: Vec<ParkedCall>,
    /// Requests to the client that belong to no call.
    pub(super) requests: Vec<ClientRequest>,
}

/// Callback for the client's response.
pub(crate) type OnResponse = Box<dyn FnOnce(ClientResponse) + Send>;

/// A request to the client that belongs to no call.
pub(super) struct ClientRequest {
    pub(super) id: u64,
    pub(super) on_response: OnResponse,
    /// Time at which it fails without a response.
    pub(super) deadline: Instant,
    /// The message if it waits until the session is ready; empty once it is sent.
    pub(super) unsent: Vec<u8>,
}

pub(super) struct ParkedCall {
    pub(super) job: Job,
    /// Ids and keys of the open requests to the client.
    pub(super) open: Vec<(u64, String)>,
    _permit: ParkPermit,
}

/// A subscription of the modern era.
pub(super) struct Listen {
    /// Set when the acknowledgment was sent, so notifications may follow.
    open: bool,
    id: Id,
    raw: String,
    pub(super) filter: Filter,
    era: &'static dyn ServerEra,
    revision: Revision,
    sink: Arc<dyn ReplySink>,
    /// Tasks whose states wait until the client reads again.
    #[cfg(feature = "tasks")]
    late: Vec<String>,
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

    #[cfg(feature = "extensions")]
    fn client_extension(&self, id: &str, meta: Option<Value<'_>>) -> Option<Json> {
        let session = || self.session().as_ref().map(|session| session.extensions.clone());
        self.core.extensions.as_ref()?.of_client(id, meta, &session)
    }

    fn provided(&self) -> &Provided {
        &self.core.provided
    }

    fn callers(&self) -> &CallerRules {
        &self.core.callers
    }

    fn ensure_sealer(&self) -> Result<(), Fault> {
        self.core.ensure_sealer()
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

    /// Connection for the requests of many clients, each with its own sink.
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

    /// Returns the session, if one is open.
    pub(crate) fn session(&self) -> MutexGuard<'_, Option<Session>> {
        lock(&self.session)
    }

    /// Admits a call if the calls in flight weigh at most `max` bytes then. The call stays in the
    /// table until it is settled.
    pub(crate) fn begin(&self, job: &Job, max: usize) -> Result<(), EnterError> {
        let Some(id) = Id::read(job.doc.at(job.query.id)) else { return Ok(()) };
        if !self.shared && self.listening.load(Ordering::Relaxed) && self.has_subscription(&id) {
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
        self.calls.enter(running, max, !self.shared)?;
        self.core.watchdog.arm();
        Ok(())
    }

    /// Blocks until a job that did not fit can be admitted, or serving ends.
    pub(crate) fn wait_for_room(&self, job: &Job) {
        self.calls.wait_for_room(job.weight(), self.core.limits.in_flight_bytes);
    }

    /// Returns whether a call or subscription with this id is open.
    pub(crate) fn is_open(&self, id: &Id) -> bool {
        !self.shared && (self.calls.is_open(id) || self.has_subscription(id))
    }

    fn has_subscription(&self, id: &Id) -> bool {
        lock(&self.listens).iter().any(|l| l.id == *id)
    }

    /// As [`Connection::is_open`], for the id of a message. For the reader thread only.
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
            if matches!(&reply, Reply::Tool(output) if output.is_error) {
                observation::tool_failed(&*job.sink);
            }
            self.core.with_writer(|w| {
                let encoded = job.era.reply(w, &job.reply_target(), reply);
                w.newline();
                if job.must_not_block {
                    return self.outbox.respond(&job.sink, w.as_bytes().to_vec(), encoded);
                }
                job.sink.respond(w.as_bytes(), encoded);
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
            // Sends the withdrawals first, because nothing may follow the end of the call on its
            // stream.
            self.drop_settled();
            if mine {
                running.sink.cancel_response();
            }
        } else {
            let mut listens = lock(&self.listens);
            let found = listens.iter().position(|listen| listen.id == *id);
            let ended = found.map(|at| listens.swap_remove(at));
            drop(listens);
            // Dropped after unlocking, because the drop may report the end of the request.
            drop(ended);
        }
    }

    /// Cancels the calls whose peer has disconnected.
    #[cfg(feature = "http-server")]
    pub(crate) fn drop_closed(&self) {
        let gone = self.calls.take_closed();
        for running in &gone {
            running.call.cancel();
            observation::cancelled(&*running.sink);
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
            observation::cancelled(&*running.sink);
            self.drop_settled();
            return;
        }
        let mut listens = lock(&self.listens);
        if let Some(at) = listens.iter().position(|listen| listen.sink.exchange() == Some(exchange)) {
            let ended = listens.swap_remove(at);
            drop(listens);
            // Dropped after unlocking, because the drop may report the end of the request.
            drop(ended);
        }
    }

    /// Returns whether calls are in flight.
    pub(crate) fn busy(&self) -> bool {
        self.calls.len() > 0
    }

    /// Returns whether calls are in flight and all of them are parked.
    #[cfg(feature = "http-server")]
    pub(crate) fn all_parked(&self) -> bool {
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
                call.job.era.cancel_request(&mut w, *id);
                w.newline();
            }
            self.outbox.send(&call.job.sink, w.into_bytes());
        }
    }

    /// Parks a call and sends its requests to the client.
    pub(crate) fn park(&self, job: Job, input_requests: &[KeyedRequest]) {
        let (era, revision) = (job.era, job.query.peer.revision);
        let (call, sink) = (Arc::clone(&job.call), Arc::clone(&job.sink));
        let weight = job.weight();
        // Done before the client can respond, because the response sets another deadline.
        self.reschedule(&call, self.core.limits.client_input_timeout, 0);
        let mut w = Writer::new();
        {
            let mut parked = lock(&self.parked);
            let weight = parked.calls.iter().map(|p| p.job.weight()).sum::<usize>() + weight;
            let full = parked.calls.len() >= self.core.limits.parked
                || (weight > self.core.limits.in_flight_bytes && !parked.calls.is_empty())
                || self.outbox.is_full(self.core.limits.in_flight_bytes);
            let permit = if full { None } else { ParkPermit::take(&self.core) };
            let Some(permit) = permit else {
                drop(parked);
                let fault = Fault::Internal("Too many calls wait for responses of clients");
                return self.finish(&job, Reply::Fault(&fault));
            };
            let mut open = Vec::with_capacity(input_requests.len());
            for input in input_requests {
                parked.last_id += 1;
                era.write_request(&mut w, revision, parked.last_id, input);
                w.newline();
                open.push((parked.last_id, input.key.clone()));
            }
            parked.calls.push(ParkedCall { job, open, _permit: permit });
            // Under the lock, so that a withdrawal follows its request.
            self.outbox.send(&sink, w.into_bytes());
        }
        if call.is_settled() {
            self.drop_settled();
        }
    }

    /// Sends the requests that waited until the session was ready.
    pub(crate) fn ready(&self) {
        for request in lock(&self.parked).requests.iter_mut().filter(|request| !request.unsent.is_empty()) {
            self.outbox.send(&self.sink, std::mem::take(&mut request.unsent));
        }
    }

    /// Sets the deadline of a call to `time` from now, and its weight. A zero `time` means no
    /// deadline.
    #[cold]
    pub(crate) fn reschedule(&self, call: &Arc<Call>, time: Duration, weight: usize) {
        let deadline = (!time.is_zero()).then(|| Instant::now() + time);
        self.calls.reschedule(call, deadline, weight);
        self.core.watchdog.arm();
    }

    /// Handles the client's response to a request of the server. Returns the parked job if this was
    /// its last open request.
    pub(crate) fn handle_response(&self, id: u64, mut response: ClientResponse) -> Option<Job> {
        let mut parked = lock(&self.parked);
        if let Some(at) = parked.requests.iter().position(|request| request.id == id) {
            let request = parked.requests.swap_remove(at);
            drop(parked);
            (request.on_response)(response);
            return None;
        }
        let kept = parked.calls.iter().map(|p| p.job.weight()).sum::<usize>();
        if response.as_ref().is_ok_and(|doc| kept + doc.memory() > self.core.limits.in_flight_bytes) {
            response = Err(RpcError::new(code::INTERNAL, "the response is too large to be stored"));
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
        call.job.responses.push((key, response));
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
        #[cfg(feature = "tasks")]
        let missed = self.send_late_states() || missed;
        self.outbox.start() || more || missed
    }

    #[cold]
    #[inline(never)]
    fn time_out(&self, late: Vec<Running>) {
        let parked = |late: &Running| {
            lock(&self.parked).calls.iter().any(|parked| Arc::ptr_eq(&parked.job.call, &late.call))
        };
        let (parked, late): (Vec<_>, Vec<_>) = late.into_iter().partition(parked);
        for running in parked.iter().chain(&late) {
            observation::timed_out(&*running.sink);
        }
        let (started, queued): (Vec<_>, Vec<_>) =
            late.into_iter().partition(|running| running.call.has_started());
        self.fail_calls(parked, NO_RESPONSE);
        if !started.is_empty() {
            let line = "tinymcp: a call reached its deadline (TINYMCP_DEADLINE_MS; in a hub TINYMCP_CALL_MS or the \
                        server's timeout)\n";
            stderr::write(line.to_owned());
        }
        self.fail_calls(started, "The call did not finish before its deadline");
        self.fail_calls(queued, "The call did not start before its deadline: all workers were busy");
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
                era.cancel_request(&mut w, request.id);
                w.newline();
                self.outbox.send(&self.sink, w.into_bytes());
            }
            (request.on_response)(Err(RpcError::new(code::INTERNAL, NO_RESPONSE)));
        }
        more
    }

    /// Cancels calls and sends an error instead of the results of their handlers.
    #[cold]
    fn fail_calls(&self, mut calls: Vec<Running>, why: &'static str) {
        calls.retain(|running| running.call.cancel());
        // Sends the withdrawals first, because nothing may follow the response of a call on its
        // stream.
        self.drop_settled();
        for running in &calls {
            let raw = running.id.to_raw();
            let to = ReplyTarget { id: &raw, revision: running.revision, server: &self.core.info };
            let mut w = Writer::new();
            let encoded = if matches!(running.operation, Operation::CallTool { .. }) {
                // A tool's failure is a result, so that the model sees it.
                running.era.reply(&mut w, &to, Reply::Tool(&ToolOutput::failed(why)))
            } else {
                running.era.reply(&mut w, &to, Reply::Fault(&Fault::Internal(why)))
            };
            w.newline();
            self.outbox.respond(&running.sink, w.into_bytes(), encoded);
        }
    }

    /// Ends the parked calls, because no more input will arrive.
    pub(crate) fn input_ended(&self) {
        self.calls.end();
        let requests = std::mem::take(&mut lock(&self.parked).requests);
        drop(requests);
        let parked: Vec<Arc<Call>> =
            lock(&self.parked).calls.iter().map(|p| Arc::clone(&p.job.call)).collect();
        let parked = parked.iter().filter_map(|call| self.calls.take(call)).collect();
        self.fail_calls(parked, "The input ended, or the server stopped, before the client responded");
    }

    /// Removes a call that the caller of this function will end. Returns `false` if another party
    /// ends it.
    #[cfg(feature = "http-server")]
    pub(crate) fn take_call(&self, call: &Arc<Call>) -> bool {
        self.calls.take(call).is_some_and(|running| running.call.settle())
    }

    /// Rejects a call that will not run, unless it is settled.
    #[cold]
    pub(crate) fn refuse(&self, call: &Arc<Call>, why: &'static str) {
        if let Some(running) = self.calls.take(call) {
            self.fail_calls(vec![running], why);
        }
    }

    /// Ends all calls in flight and all subscriptions, and closes the sink. Earlier messages
    /// may leave until `deadline`.
    pub(crate) fn close(&self, deadline: Instant) {
        self.fail_all_calls("The server is shutting down");
        self.end_listens();
        self.outbox.close(deadline);
        let left = || self.answering.load(Ordering::SeqCst) > 0 && !self.sink.closed();
        while left() && Instant::now() < deadline {
            self.core.watchdog.pause();
        }
        self.sink.close(deadline);
    }

    /// Ends all calls in flight with an error.
    pub(crate) fn fail_all_calls(&self, why: &'static str) {
        self.fail_calls(self.calls.take_all(), why);
    }
}
