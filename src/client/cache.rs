//! Cache of results, with the time to live that the server sends.
//!
//! Stores the text of lists and resources by method and parameters until they expire or the server
//! reports a change.
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
    result: Json,
    until: Instant,
}

impl Entry {
    fn size(&self) -> usize {
        OVERHEAD + self.method.len() + self.params.len() + self.result.as_str().len()
    }
}

impl Cache {
    pub(super) fn new(max_bytes: usize) -> Cache {
        Cache { max_bytes, state: Mutex::default() }
    }

    /// Returns a mark for [`Cache::store`], which drops a result if a change was reported since.
    pub(super) fn mark(&self) -> u64 {
        lock(&self.state).changes
    }

    /// Returns the cached result of this request, if it has not expired.
    pub(super) fn find(&self, request: &OutgoingRequest) -> Option<Json> {
        request.cache_key.as_ref()?;
        let now = Instant::now();
        let mut state = lock(&self.state);
        state.drop_where(|entry| entry.until <= now);
        let same = |e: &&Entry| e.method == request.method && e.params == request.params;
        state.entries.iter().find(same).map(|e| e.result.clone())
    }

    /// Stores a result for the time that the server sends. Replaces an older one.
    pub(super) fn store(&self, request: &OutgoingRequest, result: &str, hint: CacheHint, mark: u64) {
        let Some(cache_key) = &request.cache_key else { return };
        // The result may depend on the caller's `_meta`, which is not a part of the key.
        if !request.meta.is_empty() {
            return;
        }
        if hint.ttl_ms == 0 || result.len() > self.max_bytes {
            lock(&self.state).drop_where(|e| e.method == request.method && e.params == request.params);
            return;
        }
        let Ok(result) = Json::parse(result.to_owned()) else { return };
        let entry = Entry {
            cache_key: cache_key.clone(),
            method: request.method.clone().into_owned(),
            params: request.params.clone(),
            result,
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
            let removed = state.entries.swap_remove(at);
            state.bytes -= removed.size();
        }
        state.bytes += entry.size();
        state.entries.push(entry);
    }

    /// Drops the entries that a change makes stale. A change of resources includes templates.
    pub(super) fn forget(&self, change: &Change) {
        let mut state = lock(&self.state);
        state.changes += 1;
        state.drop_where(|entry| match (change, &entry.cache_key) {
            (Change::Tools, CacheKey::Tools)
            | (Change::Prompts, CacheKey::Prompts)
            | (Change::Resources, CacheKey::Resources) => true,
            (Change::ResourceUpdated(uri), CacheKey::Contents(read)) => read == uri,
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
        let mut removed = 0;
        self.entries.retain(|entry| {
            let stale = stale(entry);
            removed += if stale { entry.size() } else { 0 };
            !stale
        });
        self.bytes -= removed;
    }
}
