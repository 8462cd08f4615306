//! A hub that is served: what its servers offer, offered by one server of ours, in every revision.
//!
//! What it does: keeps the lists of a [`Server`] equal to those of the hub's servers, through its
//! handle, and hands its calls to `forward.rs`, subscriptions to `resource_updates.rs`. What it does not: run
//! calls as tasks, or ask a client anything while it calls nothing.
//!
//! # Names
//!
//! A tool or prompt is offered as `server__name`, a resource or template by its URI. Of two with one
//! name that of the server that was added first is offered; a tool whose name is longer than 64
//! characters or has others than letters, digits, `_`, `-` and `.` is not. [`Hub::skipped`] says
//! what is missing for that.
//!
//! # Invariants
//! - A server is listed by one thread at a time: one of its own, so that a slow one keeps nobody
//!   else's entries back. What a listing brings that was overtaken by another connection is dropped.
//! - Lists are changed while `state` is locked, so that they are changed in the order of the events.
//!   Nobody else's code runs under that lock, and nothing is waited for.
//! - An export is kept by the server it belongs to and keeps the hub; the hub does not keep it.

mod call_table;
mod delegate;
mod forward;
mod listing;
mod proxied_call;
mod resource_updates;
mod trace;

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::model::Change;
use crate::server::{Handle, Server};

use super::{Hub, lock};
use call_table::CallTable;
use delegate::Delegated;
use listing::{Kinds, Listing, Shown};
use resource_updates::Updates;

/// Something that a served hub does not offer although one of its servers has it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The key of the server.
    pub server: String,
    /// The name by which it would be offered, or its URI; nothing where a list could not be had.
    pub name: Option<String>,
    /// Why.
    pub error: Error,
}

impl Hub {
    /// Lets a server offer what this hub's servers offer: their tools and prompts as `server__name`,
    /// their resources and templates by URI. Entries come and go with their servers, and clients are
    /// told. Calls are passed on with their progress and cancellation. Results, descriptions, schemas
    /// and `_meta` come as they are, members that no revision knows included; only what the client's
    /// revision cannot carry is said in an older form. Answers that are to be kept are kept by the
    /// client and not here. Serving ends the hub.
    ///
    /// What a server asks is asked of the client that called, whichever revisions the two speak. A
    /// server that asks in the middle of a call, in a session, is kept waiting for
    /// [`crate::Limits::ask_timeout`] at most. Nobody can tell which of the calls it works on it asks
    /// about: while those are of several clients, while there are none, and where the client cannot be
    /// asked, the hub's own handlers answer, and without any the question is refused. Each server
    /// with sessions is told that everything can be asked; each other one, with each call, what the
    /// client that calls can be asked.
    ///
    /// Log entries go to the client whose calls the server works on, or to the only one there is, with
    /// the server's key before the logger's name (`board/io`); whose it cannot be told nobody hears.
    /// A server with sessions is asked for entries from `info` on. Updates of resources go to those
    /// who subscribed. What a request says of the trace it belongs to goes to the server after
    /// [`crate::HubBuilder::pass_trace`] only.
    ///
    /// A call holds no thread while its server works, or connects: it has
    /// [`crate::Limits::call_timeout`], anew with each step of progress. At most
    /// [`crate::Limits::calls`] are under way at all servers together; the next one waits for room and
    /// holds one of [`crate::Limits::workers`] meanwhile. Those to servers that still connect are at
    /// most half as many; the next one of them is refused as busy.
    ///
    /// ```no_run
    /// use std::process::Command;
    /// use tinymcp::{Hub, Server, Upstream};
    ///
    /// let hub = Hub::builder("proxy", "1.0.0").build()?;
    /// let mut server = Server::new("proxy", "1.0.0");
    /// hub.export(&mut server)?;
    /// hub.add("board", Upstream::command(|| Command::new("board_server")))?;
    /// server.serve_stdio()?;
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`] when the hub has servers already: each is told with the first message
    /// what it may ask and that changes are to be told.
    pub fn export(&self, server: &mut Server) -> Result<(), Error> {
        if !self.members().is_empty() {
            return Err(Error::new(ErrorKind::Misuse, "export the hub before the first server is added"));
        }
        server.tools_may_change().prompts_may_change().resources_may_change();
        server.resource_updates().logging();
        let export = Arc::new(Export {
            hub: self.clone(),
            handle: server.handle(),
            state: Mutex::default(),
            listed: Condvar::new(),
            calls: CallTable::default(),
            updates: Updates::default(),
        });
        self.shared.handlers.add_export(&export);
        export.handle.delegate_to(Delegated(Arc::downgrade(&export)));
        server.on_shutdown(move || {
            export.calls.close();
            export.hub.close();
        });
        Ok(())
    }

    /// What is not offered by the server that this hub was exported to, and why.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.shared.handlers.exports().iter().flat_map(|export| export.skipped()).collect()
    }
}

/// A hub's servers on the lists of one server.
pub(super) struct Export {
    hub: Hub,
    handle: Handle,
    state: Mutex<State>,
    listed: Condvar,
    calls: CallTable,
    updates: Updates,
}

#[derive(Default)]
struct State {
    servers: Vec<Listed>,
    shown: Shown,
    left: Vec<Skipped>,
    /// Counts connections.
    rounds: u64,
}

/// A server that runs, and what it listed.
struct Listed {
    key: String,
    round: u64,
    listing: Listing,
    /// What has to be listed again.
    wanted: Kinds,
    /// A thread is at it.
    busy: bool,
}

impl Listed {
    /// Its lists are there.
    fn is_listed(&self) -> bool {
        !self.busy && self.wanted == Kinds::default()
    }
}

impl Export {
    /// A server runs, is down, or was taken out.
    pub(super) fn settled(self: &Arc<Self>, key: &str) {
        // News may come in another order than what they tell of.
        let client = self.hub.member(key).and_then(|m| m.client(Instant::now()));
        {
            let mut state = lock(&self.state);
            state.servers.retain(|s| s.key != key);
            if client.is_ok() {
                state.rounds += 1;
                let round = state.rounds;
                let (listing, wanted) = (Listing::default(), Kinds::ALL);
                state.servers.push(Listed { key: key.to_owned(), round, listing, wanted, busy: false });
            }
            // What ran before is taken off when the new list is there, if there is to be one.
            if client.is_err() {
                self.show(&mut state);
            }
        }
        if client.is_ok() {
            self.forget_level(key);
        }
        drop(client);
        self.subscribe();
        self.list(key, Kinds::default());
    }

    /// A server says that a list of its own has changed.
    pub(super) fn changed(self: &Arc<Self>, key: &str, change: &Change) {
        match change {
            Change::Updated(uri) => self.updated(key, uri),
            _ => self.list(key, Kinds::of(change)),
        }
    }

    /// Lists what is wanted of a server, unless another thread is at it, which then does.
    fn list(self: &Arc<Self>, key: &str, kinds: Kinds) {
        let mut state = lock(&self.state);
        let Some(server) = state.servers.iter_mut().find(|s| s.key == key) else {
            return self.listed.notify_all();
        };
        server.wanted.add(kinds);
        let round = server.round;
        if std::mem::replace(&mut server.busy, true) {
            return;
        }
        while let Some(server) = state.servers.iter_mut().find(|s| s.key == key && s.round == round) {
            let wanted = std::mem::take(&mut server.wanted);
            if wanted == Kinds::default() {
                server.busy = false;
                break;
            }
            drop(state);
            let mut fresh = Listing::default();
            if let Ok(member) = self.hub.member(key) {
                fresh.fill(wanted, &member, &self.hub.shared.limits);
            }
            state = lock(&self.state);
            if let Some(server) = state.servers.iter_mut().find(|s| s.key == key && s.round == round) {
                server.listing.take(wanted, fresh);
                self.show(&mut state);
                drop(state);
                // A resource that somebody listens to may be another server's now.
                self.subscribe();
                state = lock(&self.state);
            }
        }
        drop(state);
        self.listed.notify_all();
    }

    /// Makes the server's lists what the listings say.
    fn show(self: &Arc<Self>, state: &mut State) {
        let order: Vec<String> = self.hub.members().iter().map(|m| m.key.clone()).collect();
        state.servers.sort_by_key(|s| order.iter().position(|key| *key == s.key));
        let listings: Vec<(&str, &Listing)> = state.servers.iter().map(|s| (&*s.key, &s.listing)).collect();
        state.left = listing::show(self, &listings, &mut state.shown);
    }

    /// Waits until what the servers that run offer is on the lists, at most until `deadline`.
    pub(super) fn wait(&self, deadline: Instant) {
        let running: Vec<String> = {
            let members = self.hub.members();
            let running = members.iter().filter(|m| m.client(Instant::now()).is_ok());
            running.map(|m| m.key.clone()).collect()
        };
        let mut state = lock(&self.state);
        let done = |state: &State| {
            running.iter().all(|key| state.servers.iter().any(|s| s.key == *key && s.is_listed()))
        };
        while !done(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.listed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn skipped(&self) -> Vec<Skipped> {
        let state = lock(&self.state);
        let copy = |l: &Skipped| Skipped {
            server: l.server.clone(),
            name: l.name.clone(),
            error: Error::new(l.error.kind(), l.error.to_string()),
        };
        state.left.iter().map(copy).collect()
    }
}
