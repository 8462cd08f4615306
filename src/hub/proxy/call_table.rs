//! The calls that are on their way through a served hub: which there are, whose question or log entry it
//! is that a server comes with, and the end of those that take too long.
//!
//! A question of which it is not certain whose it is goes to nobody: that is so while a server works for
//! several clients. Calls to servers that still connect take at most half of the room there is.
//!
//! # Invariants
//! - A call is in the table until it is answered, given up, or held for longer than
//!   [`Limits::ask_timeout`]; those that are held are at most [`Limits::parked`].
//! - The lock of the table is never held together with that of a call.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::client::{LogEntry, Question};
use crate::server::{Caller, Context, Failure};

#[cfg(doc)]
use crate::limits::Limits;

use super::super::lock;
use super::super::member::STACK;
use super::Export;
use super::proxied_call::ProxiedCall;

/// How often who waits for room looks whether it is still wanted.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// The calls that are passed on.
#[derive(Default)]
pub(super) struct CallTable {
    table: Mutex<Table>,
    changed: Condvar,
    /// How many of the calls wait for their server to connect.
    pub waiting: AtomicUsize,
}

#[derive(Default)]
struct Table {
    calls: Vec<Arc<ProxiedCall>>,
    last: u64,
    /// A thread looks for those that were held, or waited, for too long.
    watched: bool,
    /// Counts calls that have begun to be held or to wait.
    news: u64,
    closed: bool,
}

impl CallTable {
    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    pub(super) fn all(&self) -> Vec<Arc<ProxiedCall>> {
        self.lock().calls.clone()
    }

    /// Puts a call into the table under the next number.
    pub(super) fn enter(&self, call: impl FnOnce(u64) -> ProxiedCall) -> Arc<ProxiedCall> {
        let mut table = self.lock();
        table.last += 1;
        let call = Arc::new(call(table.last));
        table.calls.push(Arc::clone(&call));
        call
    }

    /// The call of this number.
    pub(super) fn find(&self, number: u64) -> Option<Arc<ProxiedCall>> {
        self.lock().calls.iter().find(|call| call.number == number).cloned()
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

    pub(super) fn remove(&self, passed: &Arc<ProxiedCall>) {
        let mut table = self.lock();
        table.calls.retain(|call| !Arc::ptr_eq(call, passed));
        drop(table);
        self.changed.notify_all();
    }

    /// The calls that a server works on, if they are certain to be of one client.
    fn of_one(&self, key: &str) -> Vec<Arc<ProxiedCall>> {
        let calls: Vec<_> = self.lock().calls.iter().filter(|call| call.key == key).cloned().collect();
        let callers: Vec<Option<Caller>> = calls.iter().map(|call| call.caller()).collect();
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
        let calls = self.calls.of_one(key);
        let held = self.calls.all().iter().filter(|call| call.until().is_some()).count();
        // The newest is the likeliest, and of one client it does not matter.
        match calls.iter().rev().find(|call| call.client_can(&question.request)) {
            Some(call) if held < self.hub.shared.limits.parked => {
                call.ask(question);
                Ok(())
            }
            _ if self.calls.lock().calls.iter().any(|call| call.key == key) => Err(question),
            _ => self.ask_only(question),
        }
    }

    /// A server asks outside of a call: the only client, if there is but one.
    #[expect(clippy::result_large_err, reason = "what is given back is what came")]
    fn ask_only(&self, question: Question) -> Result<(), Question> {
        let request = question.request.clone();
        // The question comes back when nobody takes it.
        let shared = Arc::new(Mutex::new(Some(question)));
        let held = Arc::clone(&shared);
        let asked = self.handle.ask_only(
            request,
            Box::new(move |answer| {
                if let Some(question) = lock(&held).take() {
                    let answer = answer.map(|doc| doc.root().to_json());
                    question.answer(answer.as_ref());
                }
            }),
        );
        match asked {
            Ok(()) => Ok(()),
            Err(then) => {
                drop(then);
                lock(&shared).take().map_or(Ok(()), Err)
            }
        }
    }

    /// A server logs.
    pub(in super::super) fn logged(&self, key: &str, entry: &LogEntry) {
        let logger = match &entry.logger {
            Some(logger) => format!("{key}/{logger}"),
            None => key.to_owned(),
        };
        let busy = self.calls.lock().calls.iter().any(|call| call.key == key);
        match self.calls.of_one(key).last() {
            Some(call) => call.log(&logger, entry),
            // Whose it is cannot be told: nobody hears what another client has the server do.
            None if busy => {}
            None => self.handle.log_to_only(entry.level, &logger, &entry.data),
        }
    }

    /// Sees to it that somebody looks for calls that were held, or waited, for too long.
    pub(super) fn look_after(self: &Arc<Self>) {
        {
            let mut table = self.calls.lock();
            table.news += 1;
            if std::mem::replace(&mut table.watched, true) {
                drop(table);
                return self.calls.changed.notify_all();
            }
        }
        let export = Arc::clone(self);
        let watching = std::thread::Builder::new()
            .name("mcp-hub-held".to_owned())
            .stack_size(STACK)
            .spawn(move || export.watch_calls());
        if watching.is_err() {
            // OK without: the next one tries again, and those that are held are few.
            self.calls.lock().watched = false;
        }
    }

    fn watch_calls(&self) {
        loop {
            let news = self.calls.lock().news;
            let now = Instant::now();
            let mut next = None;
            for call in self.calls.all() {
                call.expire(now);
                next = next.into_iter().chain(call.due()).min();
            }
            let mut table = self.calls.lock();
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
            table = self.calls.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
            drop(table);
        }
    }
}
