//! One connection: the table of requests in flight, and everything that comes in.
//!
//! What it does: registers requests, gives each its one outcome, sorts incoming messages into
//! answers, questions and news. What it does not: decide what to ask, repeat anything, or run
//! handlers.
//!
//! # Threads and locks
//! [`Sink::frame`] runs on the transport's reading thread, or on a waiting thread where the
//! transport has none. It takes one short lock at a time and waits for nothing: what has to be
//! written leaves without waiting or not at all, and handlers run at the [`Desk`]. Order of locks:
//! the table, then nothing.
//!
//! # Invariants
//! - Whoever takes a request out of the table, and nobody else, gives it its outcome: the answer,
//!   the end of the connection, the deadline and the canceller race for the entry.
//! - A cancelled request leaves the table before the peer is told.
//! - What cannot be read is counted and never answered.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::era::client::{ClientCard, ClientEra, Greeting, Notice, Told};
use crate::era::legacy; // legacy
use crate::era::modern;
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Kind as JsonKind, Value, Writer};
use crate::limits::Limits;
use crate::model::Level;
use crate::rpc::pending::Pending;
use crate::rpc::{Id, Message, RpcError, ShapeError};
use crate::transport::carrier::{
    Answered, Carrier, Drive, Failure, Kind, Outgoing, Session, Settled, Sink, Traits, Waking,
};

use super::cache::Cache;
use super::connect::Renewal;
use super::desk::{Desk, LogEntry};
use super::listen::Listening;
use super::slot::{Clock, Progress, Reply, Slot, Waited, Waiters};

/// Documents that are kept for the next answers.
const SPARE: usize = 8;
/// Bytes that a kept document may hold on to.
const SPARE_BYTES: usize = 64 << 10;
/// How much of a stray line is shown.
const NOISE_SHOWN: usize = 200;

/// How often something came that was not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Lines that are no messages: stray output, garbage, lines that are too long.
    pub noise: u64,
    /// Answers to nothing that waits: late, duplicate, or with an id that was never given out.
    pub late: u64,
    /// Notifications that were dropped because the handlers are too slow.
    pub dropped: u64,
}

pub(super) struct Core {
    pub(super) carrier: Arc<dyn Carrier>,
    pub(super) traits: Traits,
    pub(super) limits: Limits,
    pub(super) card: ClientCard,
    pub(super) desk: Arc<Desk>,
    pub(super) clock: Clock,
    pub(super) waiters: Arc<Waiters>,
    pub(super) cache: Cache,
    pub(super) listening: Listening,
    /// Log entries are wanted from here on, in the era that says so with every request.
    pub(super) log_level: Mutex<Option<Level>>,
    flight: Mutex<Flight>,
    spare: Mutex<Vec<Doc>>,
    /// 0: the modern era, also while that is only assumed; 1: a session.
    era: AtomicU8,
    settled: AtomicBool,
    greeting: Mutex<Arc<Greeting>>,
    /// Questions of the server that are being answered: their ids, and whether they were called off.
    pub(super) asked: Mutex<Vec<Id>>,
    noise: AtomicU64,
    late: AtomicU64,
    closing: Mutex<bool>,
    closed: Condvar,
    pub(super) renewal: Renewal,
    #[cfg(feature = "http-client")]
    pub(super) mirrors: super::mirror::Mirrors,
    #[cfg(feature = "schema")]
    pub(super) outputs: super::output::Outputs,
}

struct Flight {
    pending: Pending<Arc<Slot>>,
    /// Why nothing more can be sent.
    ended: Option<Failure>,
}

impl Core {
    pub(super) fn new(
        carrier: Arc<dyn Carrier>,
        limits: Limits,
        card: ClientCard,
        desk: Arc<Desk>,
        #[cfg(feature = "schema")] checks: bool,
    ) -> Arc<Core> {
        Arc::new(Core {
            traits: carrier.traits(),
            carrier,
            card,
            desk,
            clock: Clock::new(limits.ask_timeout),
            waiters: Arc::default(),
            cache: Cache::new(limits.cache_bytes),
            listening: Listening::default(),
            log_level: Mutex::new(None),
            flight: Mutex::new(Flight { pending: Pending::new(limits.calls), ended: None }),
            spare: Mutex::default(),
            era: AtomicU8::new(0),
            settled: AtomicBool::new(false),
            greeting: Mutex::default(),
            asked: Mutex::default(),
            noise: AtomicU64::new(0),
            late: AtomicU64::new(0),
            closing: Mutex::new(false),
            closed: Condvar::new(),
            renewal: Renewal::default(),
            #[cfg(feature = "http-client")]
            mirrors: super::mirror::Mirrors::default(),
            #[cfg(feature = "schema")]
            outputs: super::output::Outputs::new(checks),
            limits,
        })
    }

    pub(super) fn era(&self) -> &'static dyn ClientEra {
        match self.era.load(Ordering::Acquire) {
            1 => &legacy::CLIENT, // legacy
            _ => &modern::CLIENT,
        }
    }

    /// From now on a session is spoken in, or about to be opened.
    pub(super) fn speak_sessions(&self, sessions: bool) {
        self.era.store(u8::from(sessions), Ordering::Release);
    }

    pub(super) fn greeting(&self) -> Arc<Greeting> {
        Arc::clone(&lock(&self.greeting))
    }

    /// Era and server are known: the session, if there is one, begins.
    pub(super) fn settle(&self, greeting: Greeting) {
        let (era, revision) = (self.era(), greeting.revision);
        *lock(&self.greeting) = Arc::new(greeting);
        self.settled.store(true, Ordering::Release);
        let headers = if self.traits.headers { era.headers(revision, None) } else { Vec::new() };
        if era.sessions() {
            let mut w = Writer::new();
            era.notice(&mut w, Notice::Ready);
            let ready = Outgoing {
                frame: w.as_bytes(),
                kind: Kind::Notification,
                session: Session::Within,
                headers: &headers,
                deadline: Instant::now() + self.limits.call_timeout,
            };
            // OK to drop: if this did not leave, the next request tells why.
            let _ = self.carrier.send(&ready, Drive::Here(&mut || true));
        }
        self.carrier.settled(&Settled { session: era.sessions(), headers });
    }

    fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            noise: self.noise.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            dropped: self.desk.dropped.load(Ordering::Relaxed),
        }
    }

    /// How many calls wait for their answers. The requests that listen stay open: nobody waits.
    pub(super) fn in_flight(&self) -> usize {
        let listening = self.listening.open();
        lock(&self.flight).pending.len().saturating_sub(listening)
    }

    /// Takes a request into the table.
    pub(super) fn register(&self, slot: Arc<Slot>) -> Result<u64, Failure> {
        let mut flight = lock(&self.flight);
        if let Some(ended) = &flight.ended {
            return Err(ended.clone());
        }
        flight
            .pending
            .insert(slot)
            .map_err(|_| Failure::Busy(format!("{} calls wait for their answers already", self.limits.calls)))
    }

    /// Takes a request out of the table, so that no answer finds it any more.
    pub(super) fn take(&self, id: u64) -> Option<Arc<Slot>> {
        lock(&self.flight).pending.take(id)
    }

    /// Ends a request from this side, if it is not over: it leaves the table, then the server is
    /// told (basic/utilities/cancellation). Not for the opening of a session, which cannot be
    /// cancelled.
    pub(super) fn give_up(&self, id: u64, why: Failure) {
        let Some(slot) = self.take(id) else { return };
        slot.fill(Err(why));
        self.carrier.look();
        let era = self.era();
        let closing_says_it = self.traits.closing_cancels && !era.sessions();
        if !closing_says_it {
            let mut w = Writer::new();
            era.notice(&mut w, Notice::Cancelled(id));
            self.tell(w.as_bytes(), Kind::Notification);
        }
        self.carrier.abandon(id);
    }

    /// Sends something that is not waited for: now or not at all.
    pub(super) fn tell(&self, frame: &[u8], kind: Kind) {
        if frame.is_empty() {
            return;
        }
        let era = self.era();
        let headers =
            if self.traits.headers { era.headers(self.greeting().revision, None) } else { Vec::new() };
        let session = if era.sessions() { Session::Within } else { Session::None };
        let message = Outgoing { frame, kind, session, headers: &headers, deadline: Instant::now() };
        // OK to drop: whoever does not read what it asked for does not get it.
        let _ = self.carrier.send(&message, Drive::Away);
    }

    /// Sends a notification of this client.
    pub(super) fn notice(&self, notice: Notice) {
        let mut w = Writer::new();
        self.era().notice(&mut w, notice);
        self.tell(w.as_bytes(), Kind::Notification);
    }

    /// Ends the connection. Comes back when everything that belongs to it is gone, by the times of
    /// [`Limits`].
    pub(super) fn close(&self) {
        if std::mem::replace(&mut *lock(&self.closing), true) {
            return;
        }
        self.closed.notify_all();
        self.desk.close();
        self.close_carrier();
    }

    /// Ends the connection and nothing else: the handlers may be needed for another.
    pub(super) fn close_carrier(&self) {
        self.end(Failure::Closed("this side closed the connection".to_owned()));
        self.carrier.close(Instant::now() + self.limits.child_exit);
    }

    /// A failure for the program, with the server's last words where the connection broke.
    pub(super) fn explained(&self, failure: &Failure) -> Error {
        let aside = match failure {
            Failure::Closed(_) | Failure::Io(_) | Failure::Interrupted(_) => self.carrier.aside(),
            _ => None,
        };
        match (aside, failure) {
            (Some(aside), Failure::Closed(why)) if !aside.is_empty() => {
                Failure::Closed(format!("{why}; it last said: {aside}")).to_error()
            }
            _ => failure.to_error(),
        }
    }

    /// Why the connection is over, if it is.
    pub(super) fn ended(&self) -> Option<Error> {
        let ended = lock(&self.flight).ended.clone();
        ended.map(|failure| self.explained(&failure))
    }

    /// Nothing more comes: everything that waits has failed, and so will what follows. Whether that
    /// is new.
    fn end(&self, failure: Failure) -> bool {
        let mut flight = lock(&self.flight);
        if flight.ended.is_some() {
            return false;
        }
        flight.ended = Some(failure.clone());
        let waiting = flight.pending.take_all();
        drop(flight);
        for (_, slot) in waiting {
            slot.fill(Err(failure.clone()));
        }
        self.carrier.look();
        true
    }

    /// Waits, unless the connection is closed first; whether it still is open.
    pub(super) fn rest(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut closing = lock(&self.closing);
        while !*closing {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            closing = self.closed.wait_timeout(closing, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Takes back a document for a later answer.
    pub(super) fn recycle(&self, mut doc: Doc) {
        doc.shrink_to(SPARE_BYTES);
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE {
            spare.push(doc);
        }
    }

    /// Whether arguments of tools travel in headers too.
    #[cfg(feature = "http-client")]
    pub(super) fn mirrors_arguments(&self) -> bool {
        self.traits.headers && !self.era().sessions()
    }

    pub(super) fn count_noise(&self, line: &[u8]) {
        self.noise.fetch_add(1, Ordering::Relaxed);
        let shown = line.get(..NOISE_SHOWN).unwrap_or(line);
        self.desk.tell_noise(String::from_utf8_lossy(shown).into_owned());
    }

    /// A frame that is copied.
    fn incoming(self: &Arc<Self>, frame: &[u8]) -> Option<Answered> {
        let mut doc = lock(&self.spare).pop().unwrap_or_default();
        match doc.parse_again(frame, &self.limits.parse()) {
            Ok(()) => self.message(doc),
            Err(_) => self.garbage(frame, doc),
        }
    }

    /// A frame that is taken with its buffer.
    fn incoming_large(self: &Arc<Self>, text: &mut Vec<u8>) -> Option<Answered> {
        let mut doc = lock(&self.spare).pop().unwrap_or_default();
        let begins = text.get(..NOISE_SHOWN).unwrap_or(text).to_vec();
        match doc.parse_taking(text, &self.limits.parse()) {
            Ok(()) => self.message(doc),
            Err(_) => self.garbage(&begins, doc),
        }
    }

    fn garbage(&self, begins: &[u8], doc: Doc) -> Option<Answered> {
        self.count_noise(begins);
        self.recycle(doc);
        None
    }

    /// One message, or in the one revision that has them a batch of them.
    fn message(self: &Arc<Self>, doc: Doc) -> Option<Answered> {
        if doc.root().kind() == JsonKind::Array && self.era().sessions() {
            let objects = doc.root().items().filter(|item| item.kind() == JsonKind::Object);
            let answered = objects.filter_map(|item| self.incoming(item.raw().as_bytes())).last();
            self.recycle(doc);
            return answered;
        }
        let reply = match Message::read(doc.root()) {
            Ok(Message::Response(response)) => {
                // Every id of ours is a number; the same digits in a string are somebody else's.
                let node = response.outcome.map_or_else(Value::id, Value::id);
                Some((response.id.as_u64(), node, response.outcome.is_ok()))
            }
            Ok(Message::Notification(notification)) => {
                self.notification(self.era().told(&notification));
                None
            }
            Ok(Message::Request(request)) => {
                self.question(&request);
                None
            }
            Err(shape) => {
                self.malformed(doc.root(), &shape);
                None
            }
        };
        let Some((id, node, ok)) = reply else {
            self.recycle(doc);
            return None;
        };
        let waking = self.answer_to(id.unwrap_or_default(), Reply { doc, node, ok });
        Some(Answered { id: id?, waking })
    }

    /// Gives a request its answer; who waits for it is woken when what this gives is dropped.
    fn answer_to(self: &Arc<Self>, id: u64, reply: Reply) -> Option<Waking> {
        let Some(slot) = self.take(id) else {
            self.late.fetch_add(1, Ordering::Relaxed);
            self.recycle(reply.doc);
            return None;
        };
        self.over(id, slot, Ok(reply))
    }

    /// Gives a request a failure in the place of an answer.
    pub(super) fn fail(self: &Arc<Self>, id: u64, failure: Failure) {
        if let Some(slot) = self.take(id) {
            self.over(id, slot, Err(failure));
        }
    }

    fn over(self: &Arc<Self>, id: u64, slot: Arc<Slot>, outcome: Result<Reply, Failure>) -> Option<Waking> {
        let waking = slot.fill(outcome);
        if self.listening.ended(id) {
            let core = Arc::clone(self);
            self.desk.chore(Box::new(move || core.listen_again()));
        }
        waking
    }

    /// Waits for the outcome of a request, and reads for itself where that is nobody else's turn. Who hears of
    /// progress leaves the reading to others: what it does with it takes its own time.
    pub(super) fn wait(
        self: &Arc<Self>,
        slot: &Slot,
        until: Option<Instant>,
        hear: Option<&mut dyn FnMut(Progress)>,
    ) -> Waited {
        let _awaited = slot.awaited();
        match hear {
            Some(hear) => {
                self.carrier.attend();
                slot.wait(&self.clock, until, hear)
            }
            None => {
                let ear = Ear(Arc::clone(self));
                self.carrier.read_here(&ear, &mut || slot.idle_until(&self.clock, until));
                slot.wait(&self.clock, until, &mut |_| {})
            }
        }
    }

    /// What has no form ends the call it seems to answer; nothing is told to the server.
    fn malformed(self: &Arc<Self>, root: Value<'_>, shape: &ShapeError<'_>) {
        let answers = root.get("method").is_none();
        let waits = |id: &u64| answers && lock(&self.flight).pending.find(*id).is_some();
        if let Some(id) = shape.id.and_then(Value::as_u64).filter(waits) {
            let what = format!("a malformed answer: {}", shape.message);
            self.fail(id, Failure::Misbehaved(what));
            return;
        }
        // Older servers that could not make sense of a request name no id; before anything is
        // agreed on, one request at most is in flight, and this can only be about that.
        let error = root.get("error").filter(|_| answers).and_then(RpcError::read);
        let only = lock(&self.flight).pending.only();
        if let (Some(_), Some(id), false) = (error, only, self.is_settled()) {
            let mut doc = Doc::default();
            if doc.parse_again(root.raw().as_bytes(), &self.limits.parse()).is_ok() {
                if let Some(node) = doc.root().get("error").map(Value::id) {
                    self.answer_to(id, Reply { doc, node, ok: false });
                    return;
                }
            }
        }
        self.count_noise(root.raw().as_bytes());
    }

    fn notification(self: &Arc<Self>, told: Told<'_>) {
        match told {
            Told::Progress { id, done, total, message } => {
                let slot = lock(&self.flight).pending.find(id).cloned();
                match slot {
                    Some(slot) => {
                        slot.step(Progress { done, total, message: message.map(str::to_owned) });
                    }
                    None => {
                        self.late.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            Told::Log { level, logger, data } => {
                if self.desk.hears_log() {
                    self.desk.tell_log(LogEntry {
                        level,
                        logger: logger.map(str::to_owned),
                        data: data.to_json(),
                    });
                }
            }
            Told::Change { change, listen } => {
                if listen.is_some_and(|id| !self.listening.listens(id)) {
                    self.late.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                self.listening.heard();
                self.changed(change);
            }
            Told::Acknowledged { listen, filter } => self.listening.acknowledged(listen, filter),
            Told::Cancelled(id) => self.called_off(id),
            Told::Ignored => {}
        }
    }
}

/// What a carrier hands messages to.
pub(super) struct Ear(pub(super) Arc<Core>);

impl Sink for Ear {
    fn frame(&self, frame: &[u8]) -> Option<Answered> {
        self.0.incoming(frame)
    }

    fn large(&self, frame: &mut Vec<u8>) -> Option<Answered> {
        self.0.incoming_large(frame)
    }

    fn waiting(&self) -> bool {
        self.0.waiters.any()
    }

    fn oversized(&self) {
        self.0.count_noise(b"a message that is too long");
    }

    fn fail(&self, id: u64, failure: Failure) {
        #[cfg(feature = "http-client")]
        if matches!(failure, Failure::SessionLost) {
            let lost = lock(&self.0.flight).pending.find(id).cloned();
            self.0.fail(id, failure);
            return lost.into_iter().for_each(|slot| self.0.resend(slot));
        }
        self.0.fail(id, failure);
    }

    fn end(&self, failure: Failure) {
        let why = self.0.explained(&failure);
        if self.0.end(failure) && self.0.is_settled() {
            self.0.desk.tell_end(why);
        }
    }

    fn deadline(&self, id: u64) -> Option<Instant> {
        let slot = lock(&self.0.flight).pending.find(id).cloned()?;
        // A request that listens waits for as long as anybody can tell.
        Some(slot.deadline(&self.0.clock).unwrap_or_else(|| Instant::now() + self.0.limits.call_longest))
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request of ours that the server answered with an error.
pub(super) fn remote(error: RpcError) -> Error {
    Error::new(ErrorKind::Remote, error.message.into_owned()).with_code(error.code, error.data)
}
