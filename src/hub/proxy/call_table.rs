//! Table of the calls through all exports of a hub: finds the client for a server's requests and
//! log entries, and ends calls after their deadline.
//!
//! Calls to servers that are connecting take at most half of the table.
//!
//! # Requests of servers
//!
//! A request in a session does not name its call. It is sent to a client only if it cannot belong
//! to the call of another one:
//!
//! - During calls: if all calls that the server processes have one client. A cancelled call of
//!   another principal counts for [`CANCELLED`], because the server may not have stopped yet.
//!   Clients of one principal trust each other, and stateless ones cannot be told apart.
//! - Outside of calls: to the only session, if no other client has called the server over its
//!   present connection, and all calls through the exports so far had one principal.
//!
//! # Invariants
//! - A call is in the table until it receives a response, is cancelled, or is held for longer than
//!   [`Limits::client_input_timeout`]. At most [`Limits::parked`] calls are held.
//! - The lock of the table is never held together with that of a call.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::client::{Forwarded, LogEntry};
use crate::model::client_request::ClientResponse;
use crate::server::{self, CallSender, Callers, Context, Deferred, OnlySession, ToolError};

#[cfg(doc)]
use crate::limits::Limits;
use crate::sync::{Condition, lock};

use super::super::spawn;
use super::Exports;
use super::proxied_call::ProxiedCall;

/// Interval at which a thread that waits for room checks for cancellation.
pub(super) const POLL: Duration = Duration::from_millis(20);
/// Time that a server has to stop after a cancellation.
const CANCELLED: Duration = Duration::from_secs(10);

/// The calls.
#[derive(Default)]
pub(super) struct CallTable {
    table: Mutex<Table>,
    changed: Condition,
    /// Number of calls that wait for a connection.
    pub waiting: AtomicUsize,
}

#[derive(Default)]
struct Table {
    calls: Vec<Arc<ProxiedCall>>,
    last: u64,
    /// A thread watches the deadlines.
    watched: bool,
    /// Number of deadlines that were set.
    deadlines: u64,
    closed: bool,
    /// The clients that have called each server over its present connection.
    callers: BTreeMap<String, Callers>,
    principals: Principals,
    /// Cancelled calls: at most one entry for each server and principal.
    cancelled: Vec<CancelledCall>,
}

/// The principals of all calls so far.
#[derive(Default)]
enum Principals {
    #[default]
    Nobody,
    /// All calls had this principal, or none.
    One(Option<String>),
    Several,
}

impl Principals {
    fn add(&mut self, principal: Option<&str>) {
        match self {
            Principals::Nobody => *self = Principals::One(principal.map(str::to_owned)),
            Principals::One(first) if first.as_deref() != principal => *self = Principals::Several,
            Principals::One(_) | Principals::Several => {}
        }
    }
}

/// A call that its server may still process after the cancellation.
struct CancelledCall {
    /// The server's key.
    key: String,
    principal: Option<String>,
    until: Instant,
}

impl CallTable {
    pub(super) fn all(&self) -> Vec<Arc<ProxiedCall>> {
        lock(&self.table).calls.clone()
    }

    /// Adds a call with the next number.
    pub(super) fn enter(&self, call: impl FnOnce(u64) -> ProxiedCall) -> Arc<ProxiedCall> {
        let mut table = lock(&self.table);
        table.last += 1;
        let call = Arc::new(call(table.last));
        table.calls.push(Arc::clone(&call));
        call
    }

    /// Returns the call with this number.
    pub(super) fn find(&self, number: u64) -> Option<Arc<ProxiedCall>> {
        lock(&self.table).calls.iter().find(|call| call.number == number).cloned()
    }

    /// Waits until fewer than `most` calls are in flight. Beside others, a server with more calls
    /// than there are free places gets no further one, so that servers that do not respond leave
    /// places for others.
    ///
    /// # Errors
    /// The call was cancelled, or the server has its share.
    pub(super) fn wait_for_room(
        &self,
        ctx: &Context<'_>,
        (key, is_only): (&str, bool),
        most: usize,
    ) -> Result<(), ToolError> {
        let mut table = lock(&self.table);
        let own = || table.calls.iter().filter(|call| call.key == key).count();
        if !is_only && own() > most.saturating_sub(table.calls.len()) {
            let why = format!("the server {key:?} has too many calls in flight; call again later");
            return Err(ToolError::new(why));
        }
        while table.calls.len() >= most {
            if ctx.cancelled() {
                return Err(ToolError::new("the call was cancelled"));
            }
            table = self.changed.wait_for(table, POLL);
        }
        Ok(())
    }

    pub(super) fn remove(&self, removed: &Arc<ProxiedCall>) {
        let mut table = lock(&self.table);
        table.calls.retain(|call| !Arc::ptr_eq(call, removed));
        self.changed.release(table);
    }

    /// Records the client of a call.
    pub(super) fn attached(&self, key: &str, deferred: &Deferred) {
        let Some(caller) = deferred.caller() else { return };
        let mut table = lock(&self.table);
        table.principals.add(deferred.principal());
        match table.callers.get_mut(key) {
            Some(callers) => callers.add(&caller),
            None => table.callers.entry(key.to_owned()).or_default().add(&caller),
        }
    }

    /// Removes a call that is cancelled.
    pub(super) fn cancelled(&self, call: &Arc<ProxiedCall>) {
        self.remove(call);
        let Some(caller) = call.caller() else { return };
        let principal = caller.principal().map(str::to_owned);
        let now = Instant::now();
        let cancelled = &mut lock(&self.table).cancelled;
        cancelled
            .retain(|other| other.until > now && (other.key != call.key || other.principal != principal));
        cancelled.push(CancelledCall { key: call.key.clone(), principal, until: now + CANCELLED });
    }

    /// Forgets the clients of a server, whose connection has changed.
    pub(super) fn forget_callers(&self, key: &str) {
        let mut table = lock(&self.table);
        table.callers.remove(key);
        table.cancelled.retain(|cancelled| cancelled.key != key);
    }

    /// Returns whether the client of this session may get a request outside of calls.
    fn may_ask(&self, key: &str, session: &OnlySession) -> bool {
        let table = lock(&self.table);
        let known = table.callers.get(key).is_none_or(|callers| session.is_client_of(callers));
        known && !matches!(table.principals, Principals::Several)
    }

    /// Returns the calls that a server processes, if all of them certainly belong to one client.
    fn of_one(&self, key: &str) -> Vec<Arc<ProxiedCall>> {
        let calls: Vec<_> = lock(&self.table).calls.iter().filter(|call| call.key == key).cloned().collect();
        let callers: Vec<Option<CallSender>> = calls.iter().map(|call| call.caller()).collect();
        let same = match callers.split_first() {
            // While the client of the first call is unknown, that call must be the only one.
            Some((None, rest)) => rest.is_empty(),
            Some((Some(first), rest)) => rest.iter().flatten().all(|other| first.is_same_client(other)),
            None => true,
        };
        let same = same && callers.iter().skip(1).all(Option::is_some) && {
            let (table, now) = (lock(&self.table), Instant::now());
            let mut cancelled = table.cancelled.iter().filter(|call| call.key == key && call.until > now);
            cancelled.all(|cancelled| match callers.first() {
                Some(Some(caller)) => caller.principal() == cancelled.principal.as_deref(),
                _ => !matches!(table.principals, Principals::Several),
            })
        };
        if same { calls } else { Vec::new() }
    }

    /// Ends the thread that watches the deadlines.
    pub(super) fn close(&self) {
        let mut table = lock(&self.table);
        table.closed = true;
        self.changed.release(table);
    }
}

impl Exports {
    /// Handles a client request of a server.
    pub(in super::super) fn forward_request(&self, key: &str, request: Forwarded) -> Result<(), Forwarded> {
        let calls = self.calls.of_one(key);
        let held = self.calls.all().iter().filter(|call| call.until().is_some()).count();
        // All calls have the same client. The newest call is most likely the one of the request.
        match calls.iter().rev().find(|call| call.client_supports(&request.request)) {
            Some(call) if held < self.hub.shared.limits.parked => {
                call.ask(request);
                Ok(())
            }
            _ if lock(&self.calls.table).calls.iter().any(|call| call.key == key) => Err(request),
            _ => self.forward_to_only_client(key, request),
        }
    }

    /// Passes a request outside of calls to the only client with a session.
    fn forward_to_only_client(&self, key: &str, request: Forwarded) -> Result<(), Forwarded> {
        let Some(session) = self.only_session(key) else { return Err(request) };
        let (asked, cancellation) = (request.request.clone(), Arc::clone(&request.cancellation));
        // Shared, because the request is returned if the client does not support it.
        let shared = Arc::new(Mutex::new(Some(request)));
        let held = Arc::clone(&shared);
        let respond = move |answer: ClientResponse| {
            if let Some(request) = lock(&held).take() {
                let answer = answer.map(|doc| doc.root().to_json());
                request.answer(answer.as_ref());
            }
        };
        match session.request(asked, Box::new(respond)) {
            Ok(sent) => {
                cancellation.on_cancel(move || sent.withdraw());
                Ok(())
            }
            Err(respond) => {
                drop(respond);
                lock(&shared).take().map_or(Ok(()), Err)
            }
        }
    }

    /// Returns the only session of this server's exports, if requests outside of calls may be sent
    /// to it.
    fn only_session(&self, key: &str) -> Option<OnlySession> {
        let exports = self.exports_of(key);
        let session = OnlySession::of(exports.iter().map(|export| &export.handle));
        session.filter(|session| self.calls.may_ask(key, session))
    }

    /// Notifies the servers whose calls belong to one client, because they receive its roots. A
    /// server with several clients receives an empty list of roots, so it is not notified.
    pub(super) fn roots_changed(&self) {
        for member in self.hub.members() {
            if self.only_session(&member.key).is_some() {
                if let Ok(client) = member.client(Instant::now()) {
                    client.roots_changed();
                }
            }
        }
    }

    /// Handles a log entry of a server.
    pub(in super::super) fn logged(&self, key: &str, entry: &LogEntry) {
        let logger = match &entry.logger {
            Some(logger) => format!("{key}/{logger}"),
            None => key.to_owned(),
        };
        let busy = lock(&self.calls.table).calls.iter().any(|call| call.key == key);
        match self.calls.of_one(key).last() {
            Some(call) => call.log(&logger, entry),
            // The entry is dropped, because it may belong to another client.
            None if busy => {}
            None => {
                let exports = self.exports_of(key);
                let handles = exports.iter().map(|export| &export.handle);
                server::log_to_only_session(handles, entry.level, &logger, &entry.data);
            }
        }
    }

    /// Starts the thread that watches the deadlines, or wakes it.
    pub(super) fn watch_deadlines(self: &Arc<Self>) {
        {
            let mut table = lock(&self.calls.table);
            table.deadlines += 1;
            if std::mem::replace(&mut table.watched, true) {
                return self.calls.changed.release(table);
            }
        }
        let exports = Arc::clone(self);
        if spawn("mcp-hub-held", move || exports.run_watch()).is_err() {
            // OK to ignore: the next call starts the thread, and the number of held calls is
            // bounded.
            lock(&self.calls.table).watched = false;
        }
    }

    fn run_watch(&self) {
        loop {
            let deadlines = lock(&self.calls.table).deadlines;
            let now = Instant::now();
            let mut next = None;
            for call in self.calls.all() {
                call.expire(now);
                next = next.into_iter().chain(call.expires_at()).min();
            }
            let mut table = lock(&self.calls.table);
            if table.closed {
                return;
            }
            if table.deadlines != deadlines {
                continue;
            }
            let Some(next) = next else {
                table.watched = false;
                return;
            };
            let left = next.saturating_duration_since(Instant::now());
            table = self.calls.changed.wait_for(table, left);
            drop(table);
        }
    }
}
