//! Served hub: one MCP server that offers the entries of all servers of a hub, in every revision.
//!
//! Keeps the lists of a [`Server`] equal to those of the hub's servers, through its handle. Calls
//! are forwarded by `forward.rs`, subscriptions by `resource_updates.rs`. Calls are not run as
//! tasks.
//!
//! # Names
//!
//! A tool or prompt is offered under the name that its server's [`Upstream`](crate::Upstream)
//! gives it (`server__name` by default), a resource or template by its URI. On name
//! clashes the server added first wins, and [`Hub::skipped`] lists the others. A tool name that is
//! longer than 64 characters or has other characters than `A-Z a-z 0-9 _ - .` is shortened, with a
//! stable suffix.
//!
//! # Invariants
//! - Each server is listed by one thread at a time, so a slow server does not delay the entries of
//!   others. A listing is dropped when the server was connected again meanwhile.
//! - Lists change only under the lock of `state`, in the order of the events. No callback runs and
//!   no thread blocks under that lock.
//! - The server owns the export, and the export owns the hub. The hub has weak references only.

mod call_table;
mod delegate;
mod forward;
mod lazy;
mod listing;
mod nearest;
mod proxied_call;
mod resource_updates;
mod trace;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::error::{Error, ErrorKind};
use crate::model::Change;
use crate::server::{Handle, Server};
use crate::sync::{lock, wait_for};

use super::Hub;
use super::member::Member;
use call_table::CallTable;
use delegate::Delegated;
use listing::{Kinds, Listing, Shown};
use resource_updates::Updates;

/// An entry of a server that a served hub does not offer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The server's key.
    pub server: String,
    /// The name or URI of the entry; `None` when a whole list failed.
    pub name: Option<String>,
    /// The key of the server that has the name already.
    pub owner: Option<String>,
    /// The reason.
    pub error: Error,
}

impl Hub {
    /// Offers the entries of this hub's servers through a server: tools and prompts as
    /// `server__name` or with another prefix, resources and templates by URI. The hub is closed
    /// when the server stops.
    ///
    /// Entries are added and removed with their servers, and clients are notified. A tool whose
    /// name common hosts reject is offered under a shortened name with a stable suffix. A call to a
    /// tool of a server that is still connecting waits for the server.
    ///
    /// Calls are forwarded with progress and cancellation. Results, descriptions, schemas and
    /// `_meta` are forwarded byte for byte, including unknown members; content that the client's
    /// revision does not have is converted to an older form. The hub does not cache results.
    ///
    /// # Requests of servers
    ///
    /// A server's elicitation, sampling or roots request is forwarded to the client of the current
    /// call, also between different revisions. In the session protocol the request does not name
    /// its call. If the server processes calls of several clients, or the client lacks the
    /// capability, the hub's own handlers respond; without a handler the request is rejected.
    /// Outside of calls, the request is sent to the only client with a session. `roots/list`
    /// without a client and without own roots gets an empty list. In a call, a server waits at most
    /// [`crate::Limits::ask_timeout`].
    ///
    /// In the stateless protocol a server gets the capabilities of the calling client with each
    /// call. In the session protocol it gets the capabilities of the first clients after
    /// [`crate::HubBuilder::wait_for_client`], and all capabilities when it connects before any
    /// client.
    ///
    /// # Notifications
    ///
    /// Log entries are sent to the client whose calls the server processes, or to the only client.
    /// The server's key precedes the logger's name (`board/io`). Entries that may belong to another
    /// client are dropped. In the session protocol the log level of a server is the lowest that a
    /// client set. A subscribe request gets the server's result or error.
    ///
    /// # Limits
    ///
    /// A forwarded call occupies no thread while its server processes it or connects. A server that
    /// does not read its input holds at most half of [`crate::Limits::workers`]; other calls to it
    /// are rejected as busy. The timeout of a call
    /// is [`crate::Limits::call_timeout`] and restarts with each progress notification. At most
    /// [`crate::Limits::calls`] calls are in flight at all servers together; the next one blocks
    /// one of [`crate::Limits::workers`]. At most half of them wait for servers that are
    /// connecting; the next one is rejected as busy.
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
    /// [`ErrorKind::Misuse`] when the hub has servers already, because capabilities are declared in
    /// the first message to a server. With [`crate::HubBuilder::lazy_tools`] also when the server
    /// has a tool with the name of one of the three.
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
        if self.shared.handlers.has_lazy_tools() {
            lazy::add_tools(&export)?;
        }
        self.shared.handlers.add_export(&export);
        export.handle.delegate_to(Delegated(Arc::downgrade(&export)));
        server.on_shutdown(move || {
            export.calls.close();
            export.close_updates();
            export.hub.close();
        });
        Ok(())
    }

    /// Entries that are not offered by the servers that this hub was exported to, with the reasons.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.shared.handlers.exports().iter().flat_map(|export| export.skipped()).collect()
    }
}

/// Registration of a hub at one server, with the hub's entries on its lists.
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
    skipped: Vec<Skipped>,
    /// Number of connections so far.
    connections: u64,
}

/// A running server and its lists.
struct Listed {
    key: String,
    /// Number of the connection, which a listing must match.
    connection: u64,
    listing: Listing,
    /// Lists to request again.
    wanted: Kinds,
    /// A thread is listing this server.
    busy: bool,
}

impl Listed {
    /// Returns true if the lists are complete.
    fn is_listed(&self) -> bool {
        !self.busy && self.wanted == Kinds::default()
    }
}

impl Export {
    /// Handles a change of a server's state: it is running, is down or was removed.
    pub(super) fn server_state_changed(self: &Arc<Self>, key: &str) {
        // Reads the state: events may arrive out of order.
        let client = self.hub.member(key).and_then(|m| m.client(Instant::now()));
        {
            let mut state = lock(&self.state);
            state.servers.retain(|s| s.key != key);
            if client.is_ok() {
                state.connections += 1;
                let connection = state.connections;
                let (listing, wanted) = (Listing::default(), Kinds::ALL);
                state.servers.push(Listed { key: key.to_owned(), connection, listing, wanted, busy: false });
            }
            // Entries of an earlier connection stay until the new list has arrived.
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

    /// Handles a change of a server's list or resource.
    pub(super) fn changed(self: &Arc<Self>, key: &str, change: &Change) {
        match change {
            Change::Updated(uri) => self.updated(key, uri),
            _ => self.list(key, Kinds::of(change)),
        }
    }

    /// Requests lists of a server, or has the thread do it that is listing the server already.
    fn list(self: &Arc<Self>, key: &str, kinds: Kinds) {
        let mut state = lock(&self.state);
        let Some(server) = state.servers.iter_mut().find(|s| s.key == key) else {
            return self.listed.notify_all();
        };
        server.wanted.add(kinds);
        let connection = server.connection;
        if std::mem::replace(&mut server.busy, true) {
            return;
        }
        let is_current = |s: &&mut Listed| s.key == key && s.connection == connection;
        while let Some(server) = state.servers.iter_mut().find(is_current) {
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
            if let Some(server) = state.servers.iter_mut().find(is_current) {
                server.listing.take(wanted, fresh);
                self.show(&mut state);
                drop(state);
                // A resource with a subscription may belong to another server now.
                self.subscribe();
                state = lock(&self.state);
            }
        }
        drop(state);
        self.listed.notify_all();
    }

    /// Makes the server's lists equal to the listings.
    fn show(self: &Arc<Self>, state: &mut State) {
        let members = self.hub.members();
        state.servers.sort_by_key(|s| members.iter().position(|member| member.key == s.key));
        let member = |key: &str| members.iter().find(|member| member.key == key);
        let listed = state.servers.iter().filter_map(|s| Some((&**member(&s.key)?, &s.listing)));
        let listings: Vec<(&Member, &Listing)> = listed.collect();
        state.skipped = listing::show(self, &listings, &mut state.shown);
    }

    /// Waits until the entries of all running servers are on the lists, at most until `deadline`.
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
            state = wait_for(&self.listed, state, left);
        }
    }

    fn skipped(&self) -> Vec<Skipped> {
        let state = lock(&self.state);
        let copy = |skipped: &Skipped| Skipped {
            server: skipped.server.clone(),
            name: skipped.name.clone(),
            owner: skipped.owner.clone(),
            error: Error::new(skipped.error.kind(), skipped.error.to_string()),
        };
        state.skipped.iter().map(copy).collect()
    }
}
