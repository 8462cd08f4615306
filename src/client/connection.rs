//! One connection: the table of requests in flight.
//!
//! Registers requests and gives each exactly one outcome: a response, a failure, the end of the
//! connection or a cancellation.
//!
//! # Locks
//! Each lock is held for a few instructions and none is taken inside another. Frames that must not
//! wait leave at once or are dropped; handlers run on the threads of the [`HandlerPool`].
//!
//! # Invariants
//! - Whoever takes a request out of the table, and nobody else, gives it its outcome: the answer,
//!   the end of the connection, the deadline and the canceller race for the entry.
//! - A cancelled request leaves the table before the peer is told.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::era::client::{ClientEra, ClientIdentity, Greeting, Notice};
use crate::era::legacy; // legacy
use crate::era::modern;
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Writer};
use crate::limits::Limits;
use crate::model::Level;
use crate::rpc::pending::Pending;
use crate::rpc::{Id, RpcError};
use crate::transport::client::{Failure, Kind, Outgoing, Session, Settled, Traits, Transport, Wait};

use super::cache::Cache;
use super::connect::Renewal;
use super::handlers::HandlerPool;
use super::incoming::Incoming;
use super::pending_call::{Clock, PendingCall, Progress, WaitOutcome, Waiters};
use super::subscriptions::Subscriptions;

/// Documents that are kept for the next answers.
const SPARE: usize = 8;
/// Bytes that a kept document may hold on to.
const SPARE_BYTES: usize = 64 << 10;
/// Bytes of a stray line that are passed to the noise handler.
const NOISE_SHOWN: usize = 200;

/// Counters of messages that belong to no call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStats {
    /// Lines that are not valid messages: stray output, lines beyond the limit.
    pub noise: u64,
    /// Responses and notifications that match no request: late, duplicate, or with an unknown id.
    pub late: u64,
    /// Notifications dropped because the handlers are too slow.
    pub dropped: u64,
}

pub(super) struct Core {
    pub(super) carrier: Arc<dyn Transport>,
    pub(super) traits: Traits,
    pub(super) limits: Limits,
    pub(super) card: ClientIdentity,
    pub(super) desk: Arc<HandlerPool>,
    pub(super) clock: Clock,
    pub(super) waiters: Arc<Waiters>,
    pub(super) cache: Cache,
    pub(super) listening: Subscriptions,
    /// Log entries are wanted from here on, in the era that says so with every request.
    pub(super) log_level: Mutex<Option<Level>>,
    pub(super) flight: Mutex<Flight>,
    pub(super) spare: Mutex<Vec<Doc>>,
    /// 0: the modern era, also while that is only assumed; 1: a session.
    era: AtomicU8,
    settled: AtomicBool,
    greeting: Mutex<Arc<Greeting>>,
    /// Questions of the server that are being answered: their ids, and whether they were called
    /// off.
    pub(super) asked: Mutex<Vec<Id>>,
    pub(super) noise: AtomicU64,
    pub(super) late: AtomicU64,
    closing: Mutex<bool>,
    closed: Condvar,
    pub(super) renewal: Renewal,
    #[cfg(feature = "http-client")]
    pub(super) mirrors: super::header_params::HeaderParams,
    #[cfg(feature = "schema")]
    pub(super) outputs: super::output_schema::OutputSchemas,
}

pub(super) struct Flight {
    pub(super) pending: Pending<Arc<PendingCall>>,
    /// Why nothing more can be sent.
    ended: Option<Failure>,
}

impl Core {
    pub(super) fn new(
        carrier: Arc<dyn Transport>,
        limits: Limits,
        card: ClientIdentity,
        desk: Arc<HandlerPool>,
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
            listening: Subscriptions::default(),
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
            mirrors: super::header_params::HeaderParams::default(),
            #[cfg(feature = "schema")]
            outputs: super::output_schema::OutputSchemas::new(checks),
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
            let _ = self.carrier.send(&ready, Wait::Blocking(&mut || true));
        }
        self.carrier.settled(&Settled { session: era.sessions(), headers });
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    pub(super) fn stats(&self) -> ClientStats {
        ClientStats {
            noise: self.noise.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            dropped: self.desk.dropped.load(Ordering::Relaxed),
        }
    }

    /// Checks that the server declares the capability of a method.
    ///
    /// # Errors
    /// [`ErrorKind::PeerIncompatible`] names the capability.
    pub(super) fn declared(&self, method: &str) -> Result<(), Error> {
        match lock(&self.greeting).lacks(method) {
            None => Ok(()),
            Some((capability, what)) => {
                let why =
                    format!("the server has no {what}: it does not declare the capability `{capability}`");
                Err(Error::new(ErrorKind::PeerIncompatible, why))
            }
        }
    }

    /// Returns the number of calls in flight, without listen requests.
    pub(super) fn in_flight(&self) -> usize {
        let listening = self.listening.open();
        lock(&self.flight).pending.len().saturating_sub(listening)
    }

    /// Registers a request.
    pub(super) fn register(&self, slot: Arc<PendingCall>) -> Result<u64, Failure> {
        let mut flight = lock(&self.flight);
        if let Some(ended) = &flight.ended {
            return Err(ended.clone());
        }
        flight.pending.insert(slot).map_err(|_| {
            Failure::Busy(format!("{} calls are in flight, see `Limits::calls`", self.limits.calls))
        })
    }

    /// Removes a request from the table, so that no response finds it.
    pub(super) fn take(&self, id: u64) -> Option<Arc<PendingCall>> {
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

    /// Sends a message without waiting: it is sent at once or dropped.
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
        let _ = self.carrier.send(&message, Wait::Queued);
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
        self.end(Failure::Closed("the connection was closed by this client".to_owned()));
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
                Failure::Closed(format!("{why}; its last output: {aside}")).to_error()
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
    pub(super) fn end(&self, failure: Failure) -> bool {
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

    /// Recycles a document.
    pub(super) fn recycle(&self, mut doc: Doc) {
        doc.shrink_to(SPARE_BYTES);
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE {
            spare.push(doc);
        }
    }

    /// Returns whether tool arguments are also sent as headers.
    #[cfg(feature = "http-client")]
    pub(super) fn mirrors_arguments(&self) -> bool {
        self.traits.headers && !self.era().sessions()
    }

    pub(super) fn count_noise(&self, line: &[u8]) {
        self.noise.fetch_add(1, Ordering::Relaxed);
        let shown = line.get(..NOISE_SHOWN).unwrap_or(line);
        self.desk.tell_noise(String::from_utf8_lossy(shown).into_owned());
    }

    /// Waits for the outcome of a request, and reads for itself where that is nobody else's turn.
    /// Who hears of progress leaves the reading to others: what it does with it takes its own time.
    pub(super) fn wait(
        self: &Arc<Self>,
        slot: &PendingCall,
        until: Option<Instant>,
        hear: Option<&mut dyn FnMut(Progress)>,
    ) -> WaitOutcome {
        let _awaited = slot.awaited();
        match hear {
            Some(hear) => {
                self.carrier.attend();
                slot.wait(&self.clock, until, hear)
            }
            None => {
                let ear = Incoming(Arc::clone(self));
                self.carrier.read_here(&ear, &mut || slot.idle_until(&self.clock, until));
                slot.wait(&self.clock, until, &mut |_| {})
            }
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request of ours that the server answered with an error.
pub(super) fn remote(error: RpcError) -> Error {
    Error::new(ErrorKind::Remote, error.message.into_owned()).with_code(error.code, error.data)
}
