//! Hub: many servers as one.
//!
//! A [`Hub`] holds a [`Client`](crate::Client) for each server, under a key that the host chooses:
//! the name that a server gives itself is neither unique nor trusted. Servers can be added, removed
//! and restarted while the others work. Lists are requested from all servers at once and merged,
//! calls are routed by name. A list contains an error for each server that failed, so a slow or
//! dead server does not delay the others.
//!
//! # Names
//!
//! A tool or prompt of a hub is named `server__name`, or begins with another prefix
//! ([`Upstream::prefix`]). A call is routed to the server with the longest matching prefix; the
//! text after the prefix is the name at that server. If several servers have that prefix, the first
//! one that lists the name gets the call; a server that is down keeps the names of its last list.
//! Calls accept `server:name` as well, whatever the prefix
//! is. Resources are named by key and URI, because two servers may have the same URI.
//!
//! # Isolation
//!
//! Each server has its own connection, protocol, call table and cache (2026-07-28 architecture: one
//! client, one server). A [`Call`](crate::Call) belongs to its connection; cursors and the state of
//! a call that needs input never leave that connection.
//!
//! # Threads
//!
//! Each server has the threads of its client, and one more while it connects or waits for its
//! restart. Lists and calls start no threads.

mod builder;
mod config;
mod member;
mod merge;
mod names;
mod proxy;
mod upstream;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::client::{Client, CompletionTarget, Request};
use crate::error::{Error, ErrorKind};
use crate::json::ToJson;
use crate::limits::Limits;
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::content::{Completion, PromptOutput, ReadOutput, ToolOutput};
use crate::sync::lock;

pub use builder::HubBuilder;
pub use config::Config;
pub use member::{ServerState, ServerStatus};
pub use merge::{Entry, Merged, Missing};
pub use proxy::{Skipped, UnusedPattern};
pub use upstream::Upstream;

use builder::Handlers;
use member::{Member, Removal};
use merge::{Offers, gather};
use names::{ListedNames, UpstreamNames};

/// Separator between a server's key and a name. Many hosts accept only letters, digits, `_` and `-`
/// in the names of tools.
const SEPARATOR: &str = "__";

/// Maximum length of a key in bytes.
const MAX_KEY: usize = 32;

/// Checks the names of a server's tools.
fn check_names(key: &str, upstream: &Upstream) -> Result<(), Error> {
    let named = upstream.names.check();
    named.map_err(|error| Error::new(error.kind(), format!("server {key:?}: {error}")))
}

/// Function that returns the name at the server with this key for a name of the hub.
type AtServer = for<'n> fn(&'n UpstreamNames, &str, &'n str) -> Option<&'n str>;

/// Many servers as one. Clones share the hub; every thread may use it.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Hub, Upstream, json};
///
/// let hub = Hub::builder("host", "1.0.0").build()?;
/// hub.add("board", Upstream::command(|| Command::new("board_server")))?;
/// hub.add("notes", Upstream::command(|| Command::new("notes_server")))?;
/// let tools = hub.tools();
/// for tool in &tools.entries {
///     println!("{}", tool.name);
/// }
/// for missing in &tools.missing {
///     eprintln!("{}: {}", missing.server, missing.error);
/// }
/// println!("{}", hub.call_tool("board__led_set", json!({"on": true}))?.texts());
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

struct Shared {
    members: Mutex<Vec<Arc<Member>>>,
    /// Servers that were removed or replaced and are not closed yet. Changed with `members` locked.
    retiring: Mutex<Vec<Arc<Member>>>,
    /// Set with `members` locked.
    closed: AtomicBool,
    handlers: Arc<Handlers>,
    limits: Limits,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.handlers.stop_waiting();
        close_all(&std::mem::take(&mut *lock(&self.members)));
    }
}

/// Starts a thread that makes or closes connections, or waits.
fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).stack_size(member::STACK).spawn(run).map(drop)
}

/// Closes all connections at the same time, because each may take some time.
fn close_all(members: &[Arc<Member>]) {
    std::thread::scope(|scope| {
        for member in members {
            let ending = std::thread::Builder::new()
                .name("mcp-hub-close".to_owned())
                .stack_size(member::STACK)
                .spawn_scoped(scope, || member.close(Removal::HubClosed));
            if ending.is_err() {
                member.close(Removal::HubClosed);
            }
        }
    });
}

impl Hub {
    /// Builds a hub whose clients have this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> HubBuilder {
        HubBuilder::new(name, version)
    }

    /// Returns a key that [`Hub::add`] accepts for a name with any characters: `_` replaces those
    /// that a key cannot have, and the key ends after 32 characters. Two names may have the same
    /// key.
    ///
    /// ```
    /// assert_eq!(tinymcp::Hub::key_for("microsoft/playwright-mcp"), "microsoft_playwright-mcp");
    /// ```
    pub fn key_for(name: &str) -> String {
        if matches!(name, "" | "." | "..") {
            return "server".to_owned();
        }
        name.chars().map(|c| if is_key_character(c) { c } else { '_' }).take(MAX_KEY).collect()
    }

    /// Adds a server and starts to connect to it, without waiting: see [`Hub::servers`].
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`] if another server has this key; [`ErrorKind::Invalid`] unless it has 1
    /// to 32 characters of `A-Z a-z 0-9 - _ .` and is neither `.` nor `..`, and when the prefix, a
    /// pattern or a new name of the upstream is not valid; [`ErrorKind::Limit`] beyond
    /// [`HubLimits::servers`](crate::HubLimits::servers); [`ErrorKind::Closed`] after
    /// [`Hub::close`].
    pub fn add(&self, key: impl Into<String>, upstream: Upstream) -> Result<(), Error> {
        let key = key.into();
        check_key(&key)?;
        check_names(&key, &upstream)?;
        let member = {
            let mut members = lock(&self.shared.members);
            if self.shared.closed.load(Ordering::Relaxed) {
                return Err(closed());
            }
            if members.iter().any(|m| m.key == key) {
                return Err(Error::new(ErrorKind::Misuse, format!("duplicate server key {key:?}")));
            }
            if members.len() >= self.shared.limits.hub.servers {
                let most = self.shared.limits.hub.servers;
                let why = format!("server {key:?}: there are {most} servers, see `HubLimits::servers`");
                return Err(Error::new(ErrorKind::Limit, why));
            }
            let member = Member::new(key, upstream, Arc::clone(&self.shared.handlers), &self.shared.limits);
            members.push(Arc::clone(&member));
            member
        };
        member.start();
        Ok(())
    }

    /// Removes a server. Its entries are removed at once. Its connection closes when its calls in
    /// flight have ended, at most after [`Limits::grace`]; the remaining calls fail with
    /// [`ErrorKind::Closed`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when no server has this key.
    pub fn remove(&self, key: &str) -> Result<(), Error> {
        let member = self.member(key)?;
        {
            let mut members = lock(&self.shared.members);
            members.retain(|m| !Arc::ptr_eq(m, &member));
            lock(&self.shared.retiring).push(Arc::clone(&member));
        }
        self.shared.handlers.server_changed(key);
        self.retire(&member, Removal::Removed);
        self.shared.handlers.notify_status(&member.status());
        Ok(())
    }

    /// Replaces a server. Connects to the new one first, waits for it until `deadline`, and with
    /// [`Hub::export`] requests its lists, so that the entries stay available. Further calls get
    /// the new one. The connection to the old one
    /// closes when its calls in flight have ended, at most after [`Limits::grace`]; the calls that
    /// are left fail with [`ErrorKind::Closed`]. The key keeps its place.
    ///
    /// A new server that fails beside the old one, because both need the same file or port, is
    /// started again after the old one has ended. Calls wait for it.
    ///
    /// # Errors
    /// As [`Hub::remove`]; [`ErrorKind::Invalid`] when the prefix, a pattern or a new name of the
    /// upstream is not valid.
    pub fn replace(&self, key: &str, upstream: Upstream, deadline: Instant) -> Result<(), Error> {
        let old = self.member(key)?;
        check_names(key, &upstream)?;
        let handlers = &self.shared.handlers;
        let new = Member::new(key.to_owned(), upstream, Arc::clone(handlers), &self.shared.limits);
        new.start();
        // OK to drop: the status has the error.
        let connected = new.client(deadline).is_ok();
        let failed = !connected && !new.is_connecting();
        if failed {
            new.hold_calls();
        }
        let exchange = || {
            let mut members = lock(&self.shared.members);
            let place = members.iter_mut().find(|member| Arc::ptr_eq(member, &old));
            let replaced = place.map(|place| *place = Arc::clone(&new)).is_some();
            if replaced {
                lock(&self.shared.retiring).push(Arc::clone(&old));
            }
            replaced
        };
        let replaced = match handlers.exports() {
            Some(exports) if connected => exports.publish(&new, exchange),
            _ => exchange(),
        };
        if !replaced {
            // Removed or replaced meanwhile, or the hub was closed.
            new.close(Removal::Removed);
            return Err(unlisted(key));
        }
        handlers.notify_status(&new.status());
        self.retire(&old, Removal::Replaced);
        if failed {
            new.restart();
        }
        Ok(())
    }

    /// Ends a server that is not a member any more.
    fn retire(&self, member: &Arc<Member>, why: Removal) {
        member.retire(self.shared.limits.grace, why);
        lock(&self.shared.retiring).retain(|other| !Arc::ptr_eq(other, member));
    }

    /// Closes the connection to a server, if it has one, and starts to connect again, without
    /// waiting.
    ///
    /// # Errors
    /// As [`Hub::remove`].
    pub fn restart(&self, key: &str) -> Result<(), Error> {
        self.member(key)?.restart();
        Ok(())
    }

    /// The state of all servers, in the order they were added.
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.members().iter().map(|m| m.status()).collect()
    }

    /// Waits until no server is connecting, at most until `deadline`, and returns the state of
    /// each. With an exported hub ([`Hub::export`]) also waits until the servers' entries are on
    /// its lists.
    pub fn wait_settled(&self, deadline: Instant) -> Vec<ServerStatus> {
        for member in self.members() {
            // OK to drop: the status has the error.
            let _ = member.client(deadline);
        }
        if let Some(exports) = self.shared.handlers.exports() {
            exports.wait(deadline);
        }
        self.servers()
    }

    /// The client of a server, for operations that the hub has no method for. Waits for a server
    /// that is connecting, at most
    /// [`ClientLimits::call_timeout`](crate::ClientLimits::call_timeout).
    ///
    /// # Errors
    /// As [`Hub::remove`]; [`ErrorKind::Timeout`] when the server is still connecting; otherwise
    /// the reason why it has no connection.
    pub fn client(&self, key: &str) -> Result<Client, Error> {
        let member = self.member(key)?;
        self.connected(&member)
    }

    /// The tools of all servers, named for [`Hub::call_tool`]: servers in the order they were
    /// added, each list in the server's order.
    ///
    /// A list waits for each server at most
    /// [`HubLimits::list_timeout`](crate::HubLimits::list_timeout). For a server that is
    /// connecting, the time counts from the start of the connection, so it delays one list only. A
    /// server whose last list was late gets a tenth of the time.
    pub fn tools(&self) -> Merged<Tool> {
        self.tools_of(&self.members())
    }

    fn tools_of(&self, members: &[Arc<Member>]) -> Merged<Tool> {
        let offers: Offers = |o| o.tools;
        let limits = &self.shared.limits;
        let tools = gather(members, limits, offers, Client::request_tools, |names, key, mut tool| {
            tool.name = names.tool(key, &tool.name)?;
            Some(tool)
        });
        remember(members, &tools, limits, |tool| &tool.name, |listed| &mut listed.tools);
        tools
    }

    /// The prompts of all servers, named for [`Hub::prompt`].
    pub fn prompts(&self) -> Merged<Prompt> {
        self.prompts_of(&self.members())
    }

    fn prompts_of(&self, members: &[Arc<Member>]) -> Merged<Prompt> {
        let offers: Offers = |o| o.prompts;
        let limits = &self.shared.limits;
        let prompts = gather(members, limits, offers, Client::request_prompts, |names, key, mut prompt| {
            prompt.name = names.prompt(key, &prompt.name);
            Some(prompt)
        });
        remember(members, &prompts, limits, |prompt| &prompt.name, |listed| &mut listed.prompts);
        prompts
    }

    /// The resources of all servers, each with its server's key.
    pub fn resources(&self) -> Merged<Resource> {
        let (members, limits) = (self.members(), &self.shared.limits);
        gather(&members, limits, |o| o.resources, Client::request_resources, |_, _, item| Some(item))
    }

    /// The resource templates of all servers, each with its server's key.
    pub fn templates(&self) -> Merged<Template> {
        let (members, limits) = (self.members(), &self.shared.limits);
        gather(&members, limits, |o| o.resources, Client::request_templates, |_, _, item| Some(item))
    }

    /// Calls a tool, named as in [`Hub::tools`], or as `key:name` with the key of its server and
    /// its name without a prefix.
    ///
    /// # Errors
    /// As [`Hub::client`] and [`Request::wait`].
    pub fn call_tool(&self, name: &str, arguments: impl ToJson) -> Result<ToolOutput, Error> {
        self.request_tool(name, arguments)?.wait()
    }

    /// Prepares a tool call. The request belongs to its server's connection.
    ///
    /// # Errors
    /// As [`Hub::client`].
    pub fn request_tool(&self, name: &str, arguments: impl ToJson) -> Result<Request<ToolOutput>, Error> {
        let mut owners = self.owners_for_host(name, UpstreamNames::tool_at_server)?;
        if owners.len() > 1 {
            self.tools_of(&members_of(&owners));
            keep_owner(&mut owners, |listed| listed.tools.contains(name));
        }
        let (member, name) = owners.into_iter().next().ok_or_else(|| unlisted(name))?;
        Ok(self.connected(&member)?.request_tool(&name, arguments))
    }

    /// Gets a prompt, named as in [`Hub::prompts`] or as `key:name`.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn prompt(&self, name: &str, arguments: &[(&str, &str)]) -> Result<PromptOutput, Error> {
        let mut owners = self.owners_for_host(name, UpstreamNames::prompt_at_server)?;
        if owners.len() > 1 {
            self.prompts_of(&members_of(&owners));
            keep_owner(&mut owners, |listed| listed.prompts.contains(name));
        }
        let (member, name) = owners.into_iter().next().ok_or_else(|| unlisted(name))?;
        self.connected(&member)?.prompt(&name, arguments)
    }

    /// Reads a resource of a server.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn read_resource(&self, server: &str, uri: &str) -> Result<ReadOutput, Error> {
        self.with_client(server, |client| client.read_resource(uri))
    }

    /// Completes an argument of a server's prompt or template, as [`Client::complete`]. The prompt
    /// is named as at the server, without the key.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn complete(
        &self,
        server: &str,
        about: CompletionTarget<'_>,
        argument: &str,
        typed: &str,
        settled: &[(&str, &str)],
    ) -> Result<Completion, Error> {
        self.with_client(server, |client| client.complete(about, argument, typed, settled))
    }

    /// Subscribes to updates of a server's resource, which [`HubBuilder::on_change`] gets. The hub
    /// subscribes again after a restart of the server.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn subscribe(&self, server: &str, uri: &str) -> Result<(), Error> {
        let member = self.member(server)?;
        self.with_client(server, |client| client.subscribe(uri))?;
        member.keep_subscription(uri, true);
        Ok(())
    }

    /// Ends a subscription to a server's resource.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn unsubscribe(&self, server: &str, uri: &str) -> Result<(), Error> {
        self.member(server)?.keep_subscription(uri, false);
        self.with_client(server, |client| client.unsubscribe(uri))
    }

    /// Closes all connections; later operations fail with [`ErrorKind::Closed`]. A second
    /// call does nothing.
    pub fn close(&self) {
        let members = {
            let mut members = lock(&self.shared.members);
            self.shared.closed.store(true, Ordering::Relaxed);
            let mut members = std::mem::take(&mut *members);
            members.extend(lock(&self.shared.retiring).iter().cloned());
            members
        };
        self.shared.handlers.stop_waiting();
        close_all(&members);
    }

    fn with_client<R>(&self, key: &str, ask: impl FnOnce(&Client) -> Result<R, Error>) -> Result<R, Error> {
        ask(&self.client(key)?)
    }

    /// The client of a server; waits while the server is connecting.
    fn connected(&self, member: &Member) -> Result<Client, Error> {
        member.client(Instant::now() + self.shared.limits.client.call_timeout)
    }

    /// The servers with the longest prefix that matches a name, in the order they were added, each
    /// with the name at that server. The longest one, because a prefix may begin with another
    /// prefix.
    fn owners(&self, name: &str, at_server: AtServer) -> Result<Vec<(Arc<Member>, String)>, Error> {
        let mut owners = Vec::new();
        let mut longest = 0;
        for member in self.members() {
            let names = &member.upstream.names;
            let Some(there) = at_server(names, &member.key, name).map(str::to_owned) else { continue };
            let length = names.prefix_length(&member.key);
            if length > longest {
                owners.clear();
                longest = length;
            }
            if length == longest {
                owners.push((member, there));
            }
        }
        match owners.is_empty() {
            false => Ok(owners),
            true if self.shared.closed.load(Ordering::Relaxed) => Err(closed()),
            true => Err(unlisted(name)),
        }
    }

    /// The server of `key:name`, otherwise the servers of [`Hub::owners`]. There, an empty prefix
    /// matches every name.
    fn owners_for_host(&self, name: &str, at_server: AtServer) -> Result<Vec<(Arc<Member>, String)>, Error> {
        let with_key = || {
            let (key, own) = name.split_once(':')?;
            let member = self.member(key).ok()?;
            let listed = member.upstream.names.prompt(key, own);
            let there = at_server(&member.upstream.names, key, &listed)?.to_owned();
            Some((member, there))
        };
        match with_key() {
            Some(owner) => Ok(vec![owner]),
            None => self.owners(name, at_server),
        }
    }

    fn members(&self) -> Vec<Arc<Member>> {
        lock(&self.shared.members).clone()
    }

    fn member(&self, key: &str) -> Result<Arc<Member>, Error> {
        let members = lock(&self.shared.members);
        let found = members.iter().find(|m| m.key == key).map(Arc::clone);
        found.ok_or_else(|| match self.shared.closed.load(Ordering::Relaxed) {
            true => closed(),
            false => Error::new(ErrorKind::Invalid, format!("unknown server {key:?}")),
        })
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the hub is closed")
}

fn unlisted(name: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("no server offers {name:?}: expected a name from the hub's lists"))
}

fn members_of(owners: &[(Arc<Member>, String)]) -> Vec<Arc<Member>> {
    owners.iter().map(|(member, _)| Arc::clone(member)).collect()
}

/// Removes all servers except the first one whose last list has the name.
fn keep_owner(owners: &mut Vec<(Arc<Member>, String)>, has: impl Fn(&ListedNames) -> bool) {
    let owner = owners.iter().position(|(member, _)| has(&lock(&member.listed)));
    *owners = owner.map(|place| owners.swap_remove(place)).into_iter().collect();
}

/// Stores the names on a list with each server. A server that is down keeps its names, so that no
/// other server gets its calls.
fn remember<T>(
    members: &[Arc<Member>],
    merged: &Merged<T>,
    limits: &Limits,
    name: fn(&T) -> &str,
    list: fn(&mut ListedNames) -> &mut BTreeSet<String>,
) {
    for member in members {
        let mut listed = lock(&member.listed);
        let names = list(&mut listed);
        let is_complete = !merged.missing.iter().any(|missing| missing.server == member.key);
        if is_complete || names.len() > limits.client.list_entries {
            names.clear();
        }
        let own = merged.entries.iter().filter(|entry| entry.server == member.key);
        names.extend(own.map(|entry| name(&entry.item).to_owned()));
    }
}

fn is_key_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn check_key(key: &str) -> Result<(), Error> {
    let fits = (1..=MAX_KEY).contains(&key.len()) && key.chars().all(is_key_character);
    // `.` and `..` cannot be a segment of a URL's path.
    if !fits || matches!(key, "." | "..") {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "invalid server key {key:?}: allowed are 1 to 32 characters of A-Z a-z 0-9 - _ . except `.` \
                 and `..`"
            ),
        ));
    }
    Ok(())
}
