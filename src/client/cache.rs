//! Cache of results for the time that the server gives.
//!
//! Keeps the text of lists and resources by method and parameters until they expire or a change is
//! reported.
//!
//! Source: MCP 2026-07-28 server/utilities/caching. One client is one authorization context, so
//! private results may be cached here as well.
//!
//! # Invariants
//! - `bytes` is the sum of the sizes of `entries` and never more than `max_bytes`.
//! - A result that was requested before a change was reported is not cached after it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::era::List;
use crate::era::outgoing::{CacheKey, OutgoingRequest};
use crate::json::Json;
use crate::model::{CacheHint, Change};
use crate::sync::lock;

/// Bytes of an entry besides its texts.
const OVERHEAD: usize = 128;

pub(super) struct Cache {
    max_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: Vec<Entry>,
    bytes: usize,
    changes: u64,
}

struct Entry {
    cache_key: CacheKey,
    method: String,
    params: String,
    answer: Json,
    until: Instant,
}

impl Entry {
    fn size(&self) -> usize {
        OVERHEAD + self.method.len() + self.params.len() + self.answer.as_str().len()
    }
}

impl Cache {
    pub(super) fn new(max_bytes: usize) -> Cache {
        Cache { max_bytes, state: Mutex::default() }
    }

    /// Returns a mark for [`Cache::keep`], which drops a result if a change was reported since.
    pub(super) fn mark(&self) -> u64 {
        lock(&self.state).changes
    }

    /// Returns the cached result of this request, if it has not expired.
    pub(super) fn find(&self, order: &OutgoingRequest) -> Option<Json> {
        order.cache_key.as_ref()?;
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.drop_where(|entry| entry.until <= now);
        let same = |e: &&Entry| e.method == order.method && e.params == order.params;
        state.entries.iter().find(same).map(|e| e.answer.clone())
    }

    /// Stores a result for the time that the server gives. Replaces an older one.
    pub(super) fn keep(&self, order: &OutgoingRequest, answer: &str, hint: CacheHint, mark: u64) {
        let Some(cache_key) = &order.cache_key else { return };
        // Other parameters of the caller may change the result.
        if !order.meta.is_empty() {
            return;
        }
        if hint.ttl_ms == 0 || answer.len() > self.max_bytes {
            lock(&self.state).drop_where(|e| e.method == order.method && e.params == order.params);
            return;
        }
        let Ok(answer) = Json::parse(answer.to_owned()) else { return };
        let entry = Entry {
            cache_key: cache_key.clone(),
            method: order.method.clone().into_owned(),
            params: order.params.clone(),
            answer,
            until: Instant::now() + Duration::from_millis(u64::from(hint.ttl_ms)),
        };
        let mut state = lock(&self.state);
        if state.changes != mark || entry.size() > self.max_bytes {
            return;
        }
        state.drop_where(|e| e.method == entry.method && e.params == entry.params);
        while state.bytes + entry.size() > self.max_bytes {
            // Evict the entry that expires first.
            let Some(at) = (0..state.entries.len()).min_by_key(|at| state.entries[*at].until) else { break };
            let gone = state.entries.swap_remove(at);
            state.bytes -= gone.size();
        }
        state.bytes += entry.size();
        state.entries.push(entry);
    }

    /// Drops the entries that a change makes stale; a change of resources includes templates.
    pub(super) fn forget(&self, change: &Change) {
        let mut state = lock(&self.state);
        state.changes += 1;
        state.drop_where(|entry| match (change, &entry.cache_key) {
            (Change::Tools, CacheKey::Tools)
            | (Change::Prompts, CacheKey::Prompts)
            | (Change::Resources, CacheKey::Resources) => true,
            (Change::Updated(uri), CacheKey::Contents(read)) => read == uri,
            _ => false,
        });
    }

    /// Drops one list after the server rejected a cursor of it.
    pub(super) fn forget_list(&self, list: List) {
        self.forget(&match list {
            List::Tools => Change::Tools,
            List::Prompts => Change::Prompts,
            List::Resources | List::Templates => Change::Resources,
        });
    }
}

impl State {
    fn drop_where(&mut self, mut stale: impl FnMut(&Entry) -> bool) {
        let mut gone = 0;
        self.entries.retain(|entry| {
            let stale = stale(entry);
            gone += if stale { entry.size() } else { 0 };
            !stale
        });
        self.bytes -= gone;
    }
}
