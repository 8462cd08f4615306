//! Updates of resources: a served hub subscribes at a server to what its own clients listen to, as long
//! as they do, and passes on what it is told.
//!
//! # Invariants
//! - A thread at a time brings the servers' side in line with the clients'; it ends when nothing is left
//!   to be done. A client that leaves without a word is noticed with the next update it would be told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::super::{lock, member};
use super::Export;

/// What is subscribed to: by URI, at whose server.
#[derive(Default)]
pub(super) struct Updates {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    subscribed: BTreeMap<String, String>,
    /// Something changed since the thread looked.
    wanted: bool,
    busy: bool,
}

impl Export {
    /// A server says that a resource of its own has changed.
    pub(super) fn updated(self: &Arc<Self>, key: &str, uri: &str) {
        let ours = lock(&self.updates.state).subscribed.get(uri).is_some_and(|owner| owner == key);
        if ours && self.handle.listened().contains(uri) {
            // OK to drop: without a server nobody listens.
            let _ = self.handle.resource_updated(uri);
        } else if ours {
            self.subscribe();
        }
    }

    /// Clients listen to others than before, or a resource belongs to another server now.
    pub(super) fn subscribe(self: &Arc<Self>) {
        {
            let listened = !self.handle.listened().is_empty();
            let mut state = lock(&self.updates.state);
            if !listened && state.subscribed.is_empty() {
                return;
            }
            state.wanted = true;
            if std::mem::replace(&mut state.busy, true) {
                return;
            }
        }
        let export = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name("mcp-hub-updates".to_owned())
            .stack_size(member::STACK)
            .spawn(move || export.bring_in_line());
        if started.is_err() {
            // OK without: the next change tries again.
            lock(&self.updates.state).busy = false;
        }
    }

    fn bring_in_line(&self) {
        loop {
            let subscribed = {
                let mut state = lock(&self.updates.state);
                if !std::mem::take(&mut state.wanted) {
                    state.busy = false;
                    return;
                }
                state.subscribed.clone()
            };
            let mut wanted: BTreeMap<String, String> = BTreeMap::new();
            let listened = self.handle.listened();
            {
                let state = lock(&self.state);
                for uri in listened {
                    if let Some(owner) = state.shown.owner(&uri).map(str::to_owned) {
                        wanted.insert(uri, owner);
                    }
                }
            }
            for (uri, key) in &subscribed {
                if wanted.get(uri) != Some(key) {
                    lock(&self.updates.state).subscribed.remove(uri);
                    // OK to drop: a server that is gone tells nothing.
                    let _ = self.hub.unsubscribe(key, uri);
                }
            }
            for (uri, key) in wanted {
                if subscribed.get(&uri) == Some(&key) {
                    continue;
                }
                // Before it is asked for: the first update may come before the answer.
                lock(&self.updates.state).subscribed.insert(uri.clone(), key.clone());
                if self.hub.subscribe(&key, &uri).is_err() {
                    // A server that tells of no updates: its clients hear nothing.
                    lock(&self.updates.state).subscribed.remove(&uri);
                }
            }
        }
    }
}
