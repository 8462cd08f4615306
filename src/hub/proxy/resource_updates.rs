//! Subscriptions and log levels of a served hub.
//!
//! The hub subscribes at a server to the resources that the clients of all exports listen to, and
//! forwards the updates. A client's subscription gets the server's result or error. The log level
//! at a server of the session protocol is the lowest that a client of an export with this server
//! set.
//!
//! # Invariants
//! - One job at a time synchronizes a server. Jobs run on threads that they share: a thread is
//!   started only if all others are busy, so there are never more threads than servers with a job,
//!   and a slow server delays only its own subscriptions.
//! - A job ends in the critical section in which its thread takes the next one or becomes idle.
//! - A client that disconnects silently is detected at the next update for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::client::Protocol;
use crate::error::Error;
use crate::model::Level;
use crate::server::{OnWatched, ToolError};
use crate::sync::{lock, wait_for};

use super::super::spawn;
use super::{Export, Exports};

/// Maximum time that a call waits until its server has received the log level.
const LOG_LEVEL_TIMEOUT: Duration = Duration::from_secs(1);
/// Idle time after which a thread ends.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Updates {
    state: Mutex<State>,
    /// Signals that a server has received its log level.
    levelled: Condvar,
    /// Signals that a job was queued or the hub was closed.
    queued: Condvar,
}

#[derive(Default)]
struct State {
    /// Subscriptions, also requested ones: the key of the server and the URI, sorted.
    subscribed: Vec<(String, String)>,
    /// Servers with a job, each with `true` if the job must read the state again.
    jobs: BTreeMap<String, bool>,
    /// Servers whose job has no thread yet.
    queue: VecDeque<String>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
    closed: bool,
    waiting: Vec<Waiting>,
    /// The lowest level that a client of all servers set; `None` before the first one.
    level: Option<Level>,
    /// The lowest level that a client of one server set, by the key of the server.
    own_levels: BTreeMap<String, Level>,
    /// The level that each server has received.
    levels: BTreeMap<String, Level>,
}

/// A client that waits for the result of a subscription.
struct Waiting {
    uri: String,
    key: String,
    answer: Arc<Answers>,
}

/// Results of one request for updates, complete when the last reference is dropped.
struct Answers {
    results: Mutex<Vec<(String, Result<(), ToolError>)>>,
    done: Mutex<Option<OnWatched>>,
}

impl Answers {
    fn add(&self, uri: &str, result: Result<(), ToolError>) {
        lock(&self.results).push((uri.to_owned(), result));
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let results = std::mem::take(&mut *lock(&self.results));
        if let Some(done) = lock(&self.done).take() {
            done(results);
        }
    }
}

impl Exports {
    /// Handles an update of a resource that a server reports.
    pub(super) fn updated(self: &Arc<Self>, key: &str, uri: &str) {
        if lock(&self.updates.state).subscription(key, uri).is_err() {
            return;
        }
        let mut listeners = self.exports_of(key);
        listeners.retain(|export| {
            export.handle.subscribed_uris().contains(uri) && export.owner(uri).as_deref() == Some(key)
        });
        for export in &listeners {
            // OK to drop: without a server there is no subscription.
            let _ = export.handle.resource_updated(uri);
        }
        if listeners.is_empty() {
            self.subscribe();
        }
    }

    /// Subscribes for a client of an export that already listens to these resources.
    pub(super) fn watch(self: &Arc<Self>, export: &Export, uris: Vec<String>, done: OnWatched) {
        let answer = Arc::new(Answers { results: Mutex::default(), done: Mutex::new(Some(done)) });
        let mut waiting = Vec::new();
        for uri in uris {
            match export.owner(&uri) {
                Some(key) => waiting.push(Waiting { uri, key, answer: Arc::clone(&answer) }),
                None => answer.add(&uri, Err(ToolError::not_found(&*uri))),
            }
        }
        // Without `collect`: its sort would add 2.5 kB of code for each type.
        let mut keys = BTreeSet::new();
        keys.extend(waiting.iter().map(|waiting| waiting.key.clone()));
        lock(&self.updates.state).waiting.extend(waiting);
        keys.into_iter().for_each(|key| self.align(key));
    }

    /// Handles a change of the subscribed resources or of the server that owns one.
    pub(super) fn subscribe(self: &Arc<Self>) {
        let mut keys = BTreeSet::new();
        self.wanted(&mut |key, _| _ = keys.insert(key));
        keys.extend(lock(&self.updates.state).subscribed.iter().map(|(key, _)| key.clone()));
        keys.into_iter().for_each(|key| self.align(key));
    }

    /// Passes the resources that clients of any export listen to, with the key of the server.
    fn wanted(&self, found: &mut dyn FnMut(String, String)) {
        for export in self.exports() {
            for uri in export.handle.subscribed_uris() {
                if let Some(key) = export.owner(&uri) {
                    found(key, uri);
                }
            }
        }
    }

    /// Queues a job that synchronizes a server, or makes its current job read the state again.
    fn align(self: &Arc<Self>, key: String) {
        let mut state = lock(&self.updates.state);
        if state.closed {
            return refuse(state, "the hub is closed");
        }
        if state.jobs.insert(key.clone(), true).is_some() {
            return;
        }
        state.queue.push_back(key);
        if state.queue.len() <= state.idle {
            drop(state);
            return self.updates.queued.notify_one();
        }
        let exports = Arc::clone(self);
        match spawn("mcp-hub-updates", move || exports.run_jobs()) {
            Ok(()) => state.threads += 1,
            // OK to ignore: another thread takes the job.
            Err(_) if state.threads > 0 => {}
            Err(error) => {
                state.queue.clear();
                state.jobs.clear();
                refuse(state, &error.to_string());
            }
        }
    }

    /// Ends the threads when they are idle.
    pub(super) fn close_updates(&self) {
        lock(&self.updates.state).closed = true;
        self.updates.queued.notify_all();
    }

    /// Runs jobs until none was queued for [`IDLE`].
    fn run_jobs(self: Arc<Self>) {
        let mut state = lock(&self.updates.state);
        let mut since = Instant::now();
        loop {
            if let Some(key) = state.queue.pop_front() {
                drop(state);
                state = self.align_now(&key);
                since = Instant::now();
                continue;
            }
            let left = IDLE.saturating_sub(since.elapsed());
            if state.closed || left.is_zero() {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            state = wait_for(&self.updates.queued, state, left);
            state.idle -= 1;
        }
    }

    /// Synchronizes a server until nothing changed meanwhile; removes the job and returns the lock.
    fn align_now(&self, key: &str) -> MutexGuard<'_, State> {
        loop {
            let (mine, waiting) = {
                let mut state = lock(&self.updates.state);
                match state.jobs.get_mut(key) {
                    Some(again) if *again => *again = false,
                    _ => {
                        state.jobs.remove(key);
                        self.updates.levelled.notify_all();
                        return state;
                    }
                }
                let mine = state.subscribed.iter().filter(|(owner, _)| *owner == key);
                let mine: Vec<String> = mine.map(|(_, uri)| uri.clone()).collect();
                (mine, state.take_waiting(key))
            };
            self.align_level(key);
            let mut wanted = BTreeSet::new();
            self.wanted(&mut |owner, uri| {
                if owner == key {
                    wanted.insert(uri);
                }
            });
            for uri in mine.iter().filter(|uri| !wanted.contains(*uri)) {
                lock(&self.updates.state).set_subscribed(key, uri, false);
                // OK to drop: a server without a connection sends no updates.
                let _ = self.hub.unsubscribe(key, uri);
            }
            // Sorted by URI.
            let mut failed: Vec<(&String, Error)> = Vec::new();
            for uri in wanted.iter().filter(|uri| mine.binary_search(uri).is_err()) {
                // Insert first: an update may arrive before the response.
                lock(&self.updates.state).set_subscribed(key, uri, true);
                if let Err(error) = self.hub.subscribe(key, uri) {
                    lock(&self.updates.state).set_subscribed(key, uri, false);
                    failed.push((uri, error));
                }
            }
            for waiting in waiting {
                let place = failed.binary_search_by(|(uri, _)| (*uri).cmp(&waiting.uri));
                let result = match place.ok().and_then(|place| failed.get(place)) {
                    Some((_, error)) => Err(ToolError::relayed(error, Some(&waiting.uri))),
                    None => Ok(()),
                };
                waiting.answer.add(&waiting.uri, result);
            }
        }
    }
}

impl Exports {
    /// Sets the lowest levels that the sessions requested.
    pub(super) fn follow_levels(self: &Arc<Self>) {
        let (mut all, mut own) = (None, BTreeMap::new());
        for export in self.exports() {
            let Some(level) = export.handle.log_level() else { continue };
            match &export.only {
                None => all = all.into_iter().chain([level]).min(),
                Some(key) => _ = own.insert(key.clone(), level),
            }
        }
        if all.is_some() || !own.is_empty() {
            self.set_levels(|state| (state.level, state.own_levels) = (all, own));
        }
    }

    /// Changes levels, and sends them to the servers if they differ.
    fn set_levels(self: &Arc<Self>, change: impl FnOnce(&mut State)) {
        {
            let mut state = lock(&self.updates.state);
            let before = (state.level, state.own_levels.clone());
            change(&mut state);
            // The level of the host's own handler is not changed.
            let host = self.hub.shared.handlers.log_level();
            let State { level, own_levels, .. } = &mut *state;
            let levels = own_levels.values_mut().chain(level);
            levels.for_each(|level| *level = host.unwrap_or(*level).min(*level));
            if before == (state.level, state.own_levels.clone()) {
                return;
            }
        }
        self.hub.members().iter().for_each(|member| self.align(member.key.clone()));
    }

    /// Removes the level of the clients of one server.
    pub(super) fn forget_own_level(self: &Arc<Self>, key: &str) {
        self.set_levels(|state| _ = state.own_levels.remove(key));
    }

    /// Removes the stored level of a server that was restarted.
    pub(super) fn forget_level(self: &Arc<Self>, key: &str) {
        let mut state = lock(&self.updates.state);
        state.levels.remove(key);
        if state.level_of(key).is_some() {
            drop(state);
            self.align(key.to_owned());
        }
    }

    /// Applies the log level of a request to an export. Waits up to [`LOG_LEVEL_TIMEOUT`] until the
    /// server has received the level, because a server logs at the level of its session.
    pub(super) fn level_of_request(self: &Arc<Self>, export: &Export, key: &str, level: Option<Level>) {
        let lowest = lock(&self.updates.state).level_of(key);
        if let Some(level) = level.filter(|level| *level < lowest.unwrap_or(Level::Info)) {
            self.set_levels(|state| match &export.only {
                None => state.level = Some(level),
                Some(key) => _ = state.own_levels.insert(key.clone(), level),
            });
        }
        let until = Instant::now() + LOG_LEVEL_TIMEOUT;
        let mut state = lock(&self.updates.state);
        while state.level_of(key).is_some_and(|level| state.levels.get(key) != Some(&level))
            && state.jobs.contains_key(key)
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = wait_for(&self.updates.levelled, state, left);
        }
    }

    /// Sends the level that the clients requested to a server of the session protocol.
    fn align_level(&self, key: &str) {
        let level = {
            let state = lock(&self.updates.state);
            state.level_of(key).filter(|level| state.levels.get(key) != Some(level))
        };
        let Some(level) = level else { return };
        let running = self.hub.member(key).and_then(|member| member.client(Instant::now()));
        if let Ok(client) = running.as_ref() {
            if client.protocol() == Protocol::Session {
                // OK to drop: a server that rejects the level logs at its own level.
                let _ = client.set_log_level(level);
            }
            lock(&self.updates.state).levels.insert(key.to_owned(), level);
        }
        self.updates.levelled.notify_all();
    }
}

/// Rejects all waiting subscriptions, after it has released the lock.
fn refuse(mut state: MutexGuard<'_, State>, why: &str) {
    let waiting = std::mem::take(&mut state.waiting);
    drop(state);
    for waiting in waiting {
        waiting.answer.add(&waiting.uri, Err(ToolError::new(why)));
    }
}

impl State {
    /// Returns the lowest level that a client of this server set.
    fn level_of(&self, key: &str) -> Option<Level> {
        self.level.into_iter().chain(self.own_levels.get(key).copied()).min()
    }

    /// Returns the index of a subscription, or the index at which to insert it.
    fn subscription(&self, key: &str, uri: &str) -> Result<usize, usize> {
        self.subscribed.binary_search_by(|(owner, other)| (&**owner, &**other).cmp(&(key, uri)))
    }

    fn set_subscribed(&mut self, key: &str, uri: &str, subscribed: bool) {
        match (self.subscription(key, uri), subscribed) {
            (Ok(place), false) => _ = self.subscribed.remove(place),
            (Err(place), true) => self.subscribed.insert(place, (key.to_owned(), uri.to_owned())),
            _ => {}
        }
    }

    fn take_waiting(&mut self, key: &str) -> Vec<Waiting> {
        let (taken, left) = std::mem::take(&mut self.waiting).into_iter().partition(|w| w.key == key);
        self.waiting = left;
        taken
    }
}
