//! Served hub: one MCP server that offers the entries of all servers of a hub, in every revision.
//!
//! Keeps the lists of a [`Server`] equal to those of the hub's servers, through its handle. Calls
//! are forwarded by `forward.rs`, subscriptions by `resource_updates.rs`. Calls are not run as
//! tasks.
//!
//! # Several exports
//!
//! A hub may be exported to several servers: as a whole, and each of its servers alone with the
//! server's own names. All exports share one [`Exports`]: the lists of each server, the table of
//! calls and the table of subscriptions. An [`Export`] has the handle of its server and the entries
//! that this server offers.
//!
//! # Names
//!
//! A tool or prompt is offered under the name that its server's [`Upstream`](crate::Upstream)
//! gives it (`server__name` by default), a resource or template by its URI. A name that begins with
//! the prefixes of several servers belongs to the one with the longest prefix, whether it is
//! running or not. On other clashes the server added first wins until all servers before it have
//! connected or failed. From then on, a name or URI stays with its server while that is configured
//! and lists it, also while it is down. [`Hub::skipped`] lists the other entries. A tool name that
//! is longer than 64 characters or has other characters than `A-Z a-z 0-9 _ - .` is shortened, with
//! a stable suffix.
//!
//! # Invariants
//! - Each server is listed by one thread at a time, so a slow server does not delay the entries of
//!   others. A listing is dropped when the server was connected again meanwhile.
//! - Lists change only under the lock of `listings`, in the order of the events. No callback runs
//!   and no thread blocks under that lock. The lock of an export's `state` is taken after it.
//! - A server owns its [`Export`], an export owns the [`Exports`], and these own the hub.
//!   References in the other direction are weak.

mod call_table;
mod delegate;
mod forward;
mod lazy;
mod listing;
mod nearest;
mod proxied_call;
mod repeats;
mod resource_updates;
mod trace;

use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};
use crate::json::sort::sort;
use crate::model::Change;
use crate::server::{Handle, Server};
use crate::sync::{lock, wait_for};

use super::member::{Member, Removal};
use super::{Hub, check_key};
use call_table::CallTable;
use delegate::ExportDelegate;
use listing::{ExportedEntries, Kinds, Listing, Source};
use repeats::Repeats;
use resource_updates::Updates;

/// A pattern or a renamed tool of an [`Upstream`](crate::Upstream) that matches no tool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnusedPattern {
    /// The server's key.
    pub server: String,
    /// The pattern, or the name of the tool that was to be renamed.
    pub pattern: String,
}

/// An entry of a server that a served hub does not offer.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Hub, Server, Upstream};
///
/// let hub = Hub::builder("proxy", "1.0.0").build()?;
/// let mut server = Server::new("proxy", "1.0.0");
/// hub.export(&mut server)?;
/// hub.add("board", Upstream::command(|| Command::new("board_server")))?;
/// for skipped in hub.skipped() {
///     let name = skipped.name.unwrap_or_default();
///     eprintln!("{}: {name} is not offered: {}", skipped.server, skipped.error);
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The server's key.
    pub server: String,
    /// The name or URI of the entry; `None` when a whole list failed.
    pub name: Option<String>,
    /// The key of the server that already has the name.
    pub owner: Option<String>,
    /// The reason.
    pub error: Error,
}

impl Hub {
    /// Offers the entries of this hub's servers through a server: tools and prompts as
    /// `server__name` or with another prefix, resources and templates by URI. The hub is closed
    /// when the server stops.
    ///
    /// The server declares completions, because a client may connect before the servers. Entries
    /// are added and removed with their servers, and clients are notified. A tool whose
    /// name common hosts reject is offered under a shortened name with a stable suffix. A call to a
    /// tool or prompt of a server that is still connecting waits for the server. So does the read
    /// of an unknown URI, if only one server is connecting.
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
    /// Outside of calls, the request is sent to the only client with a session, if no other client
    /// has called the server and all calls had one principal. `roots/list` without a client and
    /// without own roots gets an empty list. In a call, a server waits at most
    /// [`crate::Limits::client_input_timeout`]. The request is withdrawn from the client when the
    /// server cancels it, sends the result of the call or ends.
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
    /// are rejected as busy after 200 ms, after 5 s if it is the only server.
    ///
    /// At most [`crate::ClientLimits::calls`] calls are in flight at all servers together; the next
    /// one blocks one of [`crate::Limits::workers`]. Beside others, a server with more calls than
    /// there are free places gets no further one: it is rejected as busy. At most half as many
    /// calls wait for servers that are connecting; the next one is rejected as busy.
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
    /// already has a tool named `tool_list`, `tool_schema` or `tool_invoke`.
    pub fn export(&self, server: &mut Server) -> Result<(), Error> {
        if !self.members().is_empty() {
            return Err(exported_late());
        }
        let export = self.add_export(None, server)?;
        server.on_shutdown(move || {
            export.all.close();
            export.all.hub.close();
        });
        Ok(())
    }

    /// Offers the entries of one of this hub's servers through a server of its own, in addition to
    /// [`Hub::export`] or without it: tools and prompts under their own names without a prefix.
    /// Filters and new names of the [`crate::Upstream`] apply.
    ///
    /// All else is as with [`Hub::export`], except that the hub stays open when the server stops.
    /// All exports share one connection to the server, one listing and the limits: its requests and
    /// log entries are sent to the client whose calls it processes, whatever export that client
    /// uses. The server with this key may be added later, removed and added again.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`] when the hub has servers and was never exported, or as with
    /// [`Hub::export`]; [`ErrorKind::Invalid`] when the key is not valid, see [`Hub::add`].
    pub fn export_server(&self, key: &str, server: &mut Server) -> Result<(), Error> {
        check_key(key)?;
        if !self.members().is_empty() && !self.shared.handlers.is_exported() {
            return Err(exported_late());
        }
        let export = self.add_export(Some(key.to_owned()), server)?;
        export.all.show(&mut lock(&export.all.listings));
        server.on_shutdown(move || export.all.remove(&export));
        Ok(())
    }

    fn add_export(&self, only: Option<String>, server: &mut Server) -> Result<Arc<Export>, Error> {
        server.tools_may_change().prompts_may_change().resources_may_change();
        server.completions_may_change().resource_updates().logging();
        let all = self.shared.handlers.exports_or(|| Exports {
            hub: self.clone(),
            exports: Mutex::default(),
            listings: Mutex::default(),
            listed: Condvar::new(),
            calls: CallTable::default(),
            repeats: Arc::default(),
            updates: Updates::default(),
        });
        let export = Arc::new(Export { all, only, handle: server.handle(), state: Mutex::default() });
        if self.shared.handlers.has_lazy_tools() {
            lazy::add_tools(&export)?;
        }
        let mut exports = lock(&export.all.exports);
        exports.retain(|other| other.strong_count() > 0);
        exports.push(Arc::downgrade(&export));
        drop(exports);
        export.handle.delegate_to(ExportDelegate(Arc::downgrade(&export)));
        Ok(export)
    }

    /// Returns the entries that the exporting servers do not offer, with the reasons. If the whole
    /// hub was exported, the entries of [`Hub::export_server`] are not included.
    pub fn skipped(&self) -> Vec<Skipped> {
        let mut exports = self.shared.handlers.exports().map(|all| all.exports()).unwrap_or_default();
        if exports.iter().any(|export| export.only.is_none()) {
            exports.retain(|export| export.only.is_none());
        }
        exports.iter().flat_map(|export| export.skipped()).collect()
    }

    /// Returns the patterns and renamed tools of each [`crate::Upstream`] that match none of its
    /// server's tools: probably a mistake in a filter. Servers that are not connected are not
    /// included.
    pub fn unused_patterns(&self) -> Vec<UnusedPattern> {
        let Some(all) = self.shared.handlers.exports() else { return Vec::new() };
        let listings = lock(&all.listings);
        let unused = |member: Arc<Member>| {
            let listed = listings.servers.iter().find(|s| s.key == member.key && listings.is_listed(&s.key));
            let tools = listed.and_then(|s| s.listing.tools());
            let patterns = tools.map(|tools| member.upstream.names.unused(&tools)).unwrap_or_default();
            patterns.into_iter().map(move |pattern| UnusedPattern { server: member.key.clone(), pattern })
        };
        self.members().into_iter().flat_map(unused).collect()
    }

    /// Returns the key of the server whose tool [`Hub::export`] offers under this name or, with
    /// [`crate::HubBuilder::lazy_tools`], `tool_invoke` can call. A server that is not running is
    /// found by the prefix of its names.
    pub fn server_of_tool(&self, name: &str) -> Option<String> {
        let whole = self.whole_exports();
        let listed = owner(&whole, |shown| shown.owner_of_tool(name));
        listed.or_else(|| whole.iter().find_map(|export| export.unlisted(name)).map(|(key, _)| key))
    }

    /// As [`Hub::server_of_tool`], for a prompt.
    pub fn server_of_prompt(&self, name: &str) -> Option<String> {
        owner(&self.whole_exports(), |shown| shown.owner_of_prompt(name))
    }

    /// As [`Hub::server_of_tool`], for the URI of a resource.
    pub fn server_of_resource(&self, uri: &str) -> Option<String> {
        owner(&self.whole_exports(), |shown| shown.owner(uri))
    }

    /// Returns the exports that offer the entries of all servers.
    fn whole_exports(&self) -> Vec<Arc<Export>> {
        let mut exports = self.shared.handlers.exports().map(|all| all.exports()).unwrap_or_default();
        exports.retain(|export| export.only.is_none());
        exports
    }
}

/// Returns the first key that `find` returns.
fn owner(exports: &[Arc<Export>], find: impl Fn(&ExportedEntries) -> Option<&str>) -> Option<String> {
    exports.iter().find_map(|export| find(&lock(&export.state).shown).map(str::to_owned))
}

fn exported_late() -> Error {
    Error::new(ErrorKind::Misuse, "export the hub before the first server is added")
}

/// Minimum time between two requests for the lists of a server. A server that reports a change
/// after each request would otherwise cause a busy loop.
const INTERVAL: Duration = Duration::from_millis(100);

/// State that all exports of a hub share.
pub(super) struct Exports {
    hub: Hub,
    exports: Mutex<Vec<Weak<Export>>>,
    listings: Mutex<Listings>,
    listed: Condvar,
    calls: CallTable,
    repeats: Arc<Repeats>,
    updates: Updates,
}

/// Registration of a hub at one server, with the hub's entries on its lists.
pub(super) struct Export {
    all: Arc<Exports>,
    /// Key of the only server whose entries are offered, under their own names; `None` for all.
    only: Option<String>,
    handle: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shown: ExportedEntries,
    skipped: Vec<Skipped>,
}

/// Lists of the servers that have run, in the order they were added.
#[derive(Default)]
struct Listings {
    servers: Vec<Listed>,
    /// Number of connections so far.
    connections: u64,
}

impl Listings {
    /// Returns whether the lists of this server are complete.
    fn is_listed(&self, key: &str) -> bool {
        let listed = |s: &Listed| s.key == key && s.is_up && !s.busy && s.wanted == Kinds::default();
        self.servers.iter().any(listed)
    }
}

/// A server and its lists.
struct Listed {
    key: String,
    /// Number of the connection, which a listing must match.
    connection: u64,
    is_up: bool,
    /// The lists of an earlier connection stay until the new ones have arrived. Those of a server
    /// that is down reserve its names and URIs.
    listing: Listing,
    /// The lists were received at least once, or the server has failed.
    is_settled: bool,
    /// Lists to request again, not before `next`.
    wanted: Kinds,
    next: Instant,
    /// A thread is requesting lists of this server.
    busy: bool,
}

impl Export {
    /// Returns whether the entries of this server are offered.
    fn offers(&self, key: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == key)
    }

    /// Returns the key of the server that owns a resource.
    fn owner(&self, uri: &str) -> Option<String> {
        lock(&self.state).shown.owner(uri).map(str::to_owned)
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

impl Exports {
    /// Returns the server with this key, which was on the lists.
    fn member(&self, key: &str) -> Result<Arc<Member>, Error> {
        self.hub.member(key).map_err(|error| match error.kind() {
            ErrorKind::Invalid => Removal::Removed.error(key),
            _ => error,
        })
    }

    fn exports(&self) -> Vec<Arc<Export>> {
        lock(&self.exports).iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the exports that offer the entries of this server.
    fn exports_of(&self, key: &str) -> Vec<Arc<Export>> {
        let mut exports = self.exports();
        exports.retain(|export| export.offers(key));
        exports
    }

    /// Ends the threads.
    fn close(&self) {
        self.calls.close();
        self.repeats.close();
        self.close_updates();
    }

    /// Removes an export whose server has stopped.
    fn remove(self: &Arc<Self>, export: &Arc<Export>) {
        lock(&self.exports).retain(|other| !Weak::ptr_eq(other, &Arc::downgrade(export)));
        if let Some(key) = &export.only {
            self.forget_own_level(key);
        }
        self.subscribe();
    }

    /// Handles a change of a server's state: it is running, is down or was removed.
    pub(super) fn server_state_changed(self: &Arc<Self>, key: &str) {
        // Reads the state: events may arrive out of order.
        let member = self.hub.member(key);
        let client = member.as_ref().map_err(drop).and_then(|m| m.client(Instant::now()).map_err(drop));
        {
            let mut listings = lock(&self.listings);
            listings.connections += 1;
            let connection = listings.connections;
            let place = listings.servers.iter().position(|s| s.key == key);
            match (place, place.and_then(|place| listings.servers.get_mut(place))) {
                (Some(place), _) if member.is_err() => _ = listings.servers.remove(place),
                (_, Some(server)) => {
                    (server.connection, server.is_up, server.busy) = (connection, client.is_ok(), false);
                    (server.wanted, server.next) = (Kinds::ALL, Instant::now());
                    server.is_settled |= client.is_err();
                }
                _ if member.is_ok() => listings.servers.push(Listed {
                    key: key.to_owned(),
                    connection,
                    is_up: client.is_ok(),
                    listing: Listing::default(),
                    is_settled: client.is_err(),
                    wanted: Kinds::ALL,
                    next: Instant::now(),
                    busy: false,
                }),
                _ => {}
            }
            // Entries of an earlier connection stay until the new list has arrived.
            if client.is_err() {
                self.show(&mut listings);
            }
        }
        if client.is_ok() {
            self.forget_level(key);
            self.calls.forget_callers(key);
        }
        drop(client);
        self.subscribe();
        self.list(key, Kinds::default());
    }

    /// Requests the lists of a new server before `exchange` puts it in the place of the one with
    /// its key. Returns the result of `exchange`.
    pub(super) fn publish(&self, new: &Arc<Member>, exchange: impl FnOnce() -> bool) -> bool {
        let mut fresh = Listing::default();
        fresh.fill(Kinds::ALL, new, &self.hub.shared.limits);
        let mut listings = lock(&self.listings);
        let exchanged = exchange();
        if exchanged {
            if let Some(server) = listings.servers.iter_mut().find(|s| s.key == new.key) {
                (server.listing, server.is_up, server.is_settled) = (fresh, true, true);
            }
            self.show(&mut listings);
        }
        exchanged
    }

    /// Handles a change of a server's list or resource.
    pub(super) fn changed(self: &Arc<Self>, key: &str, change: &Change) {
        match change {
            Change::ResourceUpdated(uri) => self.updated(key, uri),
            _ => self.list(key, Kinds::of(change)),
        }
    }

    /// Requests lists of a server. If a thread is already listing the server, that thread requests
    /// them.
    fn list(self: &Arc<Self>, key: &str, kinds: Kinds) {
        let mut listings = lock(&self.listings);
        let Some(server) = listings.servers.iter_mut().find(|s| s.key == key && s.is_up) else {
            return self.listed.notify_all();
        };
        server.wanted.add(kinds);
        let connection = server.connection;
        if std::mem::replace(&mut server.busy, true) {
            return;
        }
        let is_current = |s: &&mut Listed| s.key == key && s.connection == connection;
        while let Some(server) = listings.servers.iter_mut().find(is_current) {
            if server.wanted == Kinds::default() {
                server.busy = false;
                break;
            }
            let now = Instant::now();
            let pause = server.next.saturating_duration_since(now);
            if !pause.is_zero() {
                listings = wait_for(&self.listed, listings, pause);
                continue;
            }
            server.next = now + INTERVAL;
            let wanted = std::mem::take(&mut server.wanted);
            drop(listings);
            let mut fresh = Listing::default();
            if let Ok(member) = self.hub.member(key) {
                fresh.fill(wanted, &member, &self.hub.shared.limits);
            }
            listings = lock(&self.listings);
            if let Some(server) = listings.servers.iter_mut().find(is_current) {
                server.listing.take(wanted, fresh);
                server.is_settled = true;
                self.show(&mut listings);
                drop(listings);
                // A resource with a subscription may belong to another server now.
                self.subscribe();
                listings = lock(&self.listings);
            }
        }
        drop(listings);
        self.listed.notify_all();
    }

    /// Makes the lists of all exports equal to the listings.
    fn show(&self, listings: &mut Listings) {
        let members = self.hub.members();
        let place = |key: &str| members.iter().position(|member| member.key == key);
        sort(&mut listings.servers, |a, b| place(&a.key).cmp(&place(&b.key)));
        let mut settled = true;
        let mut servers = Vec::new();
        for member in &members {
            let listed = listings.servers.iter().find(|s| s.key == member.key);
            if let Some(Listed { is_up, listing, .. }) = listed {
                servers.push(Source { member, listing, is_up: *is_up, keeps_names: settled });
            }
            settled &= listed.is_some_and(|s| s.is_settled);
        }
        for export in self.exports() {
            let listed: Vec<Source<'_>> =
                servers.iter().filter(|s| export.offers(&s.member.key)).copied().collect();
            let mut state = lock(&export.state);
            state.skipped = listing::show(&export, &listed, &mut state.shown);
        }
    }

    /// Waits until the entries of all running servers are on the lists, at most until `deadline`.
    pub(super) fn wait(&self, deadline: Instant) {
        let running: Vec<String> = {
            let members = self.hub.members();
            let running = members.iter().filter(|m| m.client(Instant::now()).is_ok());
            running.map(|m| m.key.clone()).collect()
        };
        let mut listings = lock(&self.listings);
        while !running.iter().all(|key| listings.is_listed(key)) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            listings = wait_for(&self.listed, listings, left);
        }
    }
}
