//! Hub: many servers as one.
//!
//! A [`Hub`] holds a [`Client`](crate::Client) for each server under a key of the host's own
//! choosing: what a server says of itself is neither unique nor to be trusted. Servers are added,
//! removed and started again while the others work. Lists are fanned out and merged, calls are
//! routed by name; what one server cannot give is data beside what the others gave, so a slow or
//! dead server stalls nobody.
//!
//! # Names
//!
//! A tool or prompt of a hub is called `server:name`. The part before the first colon is the key,
//! in which no colon can stand; what follows goes to that server unchanged. Resources are named by
//! key and URI, because URIs of two servers may be equal.
//!
//! # Isolation
//!
//! Each server has a connection, an era, a table of calls and a cache of its own
//! (2026-07-28 architecture: one client, one server). A [`Call`](crate::Call) belongs to the
//! connection that made it, so it cannot be waited for at another; cursors and the state of a call
//! that needs input never leave that connection.
//!
//! # Threads
//!
//! Each server has those of its client. One more per server connects, and one more watches over a
//! server that is to be started again; both end when that is done. Lists and calls need none.

mod builder;
mod config;
mod member;
mod merge;
mod serve;
mod upstream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::client::{Client, CompletionTarget, Request};
use crate::error::{Error, ErrorKind};
use crate::json::ToJson;
use crate::limits::Limits;
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::content::{Completion, PromptOutput, ReadOutput, ToolOutput};

pub use builder::HubBuilder;
pub use config::Config;
pub use member::{Standing, Status};
pub use merge::{Entry, Merged, Missing};
pub use serve::LeftOut;
pub use upstream::Upstream;

use builder::Handlers;
use member::Member;
use merge::gather;

/// What parts a server's key from the name of what it offers.
pub(crate) const SEPARATOR: char = ':';

/// Many servers as one. Clones lead to the same hub, from any thread.
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
/// println!("{}", hub.call_tool("board:led_set", json!({"on": true}))?.texts());
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

struct Shared {
    members: Mutex<Vec<Arc<Member>>>,
    /// Set with `members` locked.
    closed: AtomicBool,
    handlers: Arc<Handlers>,
    limits: Limits,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.handlers.stop_waiting();
        close_all(&std::mem::take(self.members.get_mut().unwrap_or_else(PoisonError::into_inner)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends all connections at the same time: each may take its while.
fn close_all(members: &[Arc<Member>]) {
    std::thread::scope(|scope| {
        for member in members {
            let ending = std::thread::Builder::new()
                .name("mcp-hub-close".to_owned())
                .stack_size(member::STACK)
                .spawn_scoped(scope, || member.close());
            if ending.is_err() {
                member.close();
            }
        }
    });
}

impl Hub {
    /// A hub that tells its servers it is the host of this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> HubBuilder {
        HubBuilder::new(name, version)
    }

    /// Adds a server and begins to connect to it, without waiting for it: see [`Hub::servers`].
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`] when the key is taken; [`ErrorKind::Invalid`] when it is empty, longer
    /// than 32 characters, or holds others than letters, digits, `-`, `_` and `.`;
    /// [`ErrorKind::Limit`] when there are [`Limits::servers`] already; [`ErrorKind::Closed`] after
    /// [`Hub::close`].
    pub fn add(&self, key: impl Into<String>, upstream: Upstream) -> Result<(), Error> {
        let key = key.into();
        check_key(&key)?;
        let member = {
            let mut members = lock(&self.shared.members);
            if self.shared.closed.load(Ordering::Relaxed) {
                return Err(closed());
            }
            if members.iter().any(|m| m.key == key) {
                return Err(Error::new(ErrorKind::Misuse, format!("there is a server {key:?} already")));
            }
            if members.len() >= self.shared.limits.servers {
                let most = self.shared.limits.servers;
                return Err(Error::new(ErrorKind::Limit, format!("there are {most} servers already")));
            }
            let member = Member::new(key, upstream, Arc::clone(&self.shared.handlers), &self.shared.limits);
            members.push(Arc::clone(&member));
            member
        };
        member.start();
        Ok(())
    }

    /// Takes a server out and ends its connection; calls under way fail as [`ErrorKind::Closed`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when there is no such server.
    pub fn remove(&self, key: &str) -> Result<(), Error> {
        let member = self.member(key)?;
        lock(&self.shared.members).retain(|m| !Arc::ptr_eq(m, &member));
        member.close();
        self.shared.handlers.told(&member.status());
        Ok(())
    }

    /// Ends the connection to a server, if there is one, and makes a new one, without waiting for it.
    ///
    /// # Errors
    /// As [`Hub::remove`].
    pub fn restart(&self, key: &str) -> Result<(), Error> {
        self.member(key)?.restart();
        Ok(())
    }

    /// All servers in the order they were added, and how each is.
    pub fn servers(&self) -> Vec<Status> {
        self.members().iter().map(|m| m.status()).collect()
    }

    /// Waits until no server is connecting any more, at most until `deadline`; then how each is.
    /// Where the hub is served, what the servers offer is on its lists then as well.
    pub fn wait_settled(&self, deadline: Instant) -> Vec<Status> {
        for member in self.members() {
            // OK to drop: the status tells it.
            let _ = member.client(deadline);
        }
        for export in self.shared.handlers.exports() {
            export.wait(deadline);
        }
        self.servers()
    }

    /// The connection to a server, for whatever the hub has no word for. Waits for a server that is
    /// connecting, at most for [`Limits::call_timeout`].
    ///
    /// # Errors
    /// As [`Hub::remove`]; [`ErrorKind::Timeout`] when it is still connecting; why there is no
    /// connection, otherwise.
    pub fn client(&self, key: &str) -> Result<Client, Error> {
        self.member(key)?.client(Instant::now() + self.shared.limits.call_timeout)
    }

    /// The tools of all servers, by the names of [`Hub::call_tool`]: servers in the order they were
    /// added, each list in its own order. Every list waits for each server at most for
    /// [`Limits::list_timeout`]; for one that connects that counts from when it began, so it delays no
    /// later list, and one that has just kept a list waiting in vain is given a tenth.
    pub fn tools(&self) -> Merged<Tool> {
        self.gathered(|o| o.tools, Client::request_tools, |key, tool| tool.name = full(key, &tool.name))
    }

    /// The prompts of all servers, by the names of [`Hub::prompt`].
    pub fn prompts(&self) -> Merged<Prompt> {
        self.gathered(
            |o| o.prompts,
            Client::request_prompts,
            |key, prompt| {
                prompt.name = full(key, &prompt.name);
            },
        )
    }

    /// The resources of all servers, each with its server's key.
    pub fn resources(&self) -> Merged<Resource> {
        self.gathered(|o| o.resources, Client::request_resources, |_, _| {})
    }

    /// The resource templates of all servers, each with its server's key.
    pub fn templates(&self) -> Merged<Template> {
        self.gathered(|o| o.resources, Client::request_templates, |_, _| {})
    }

    fn gathered<T>(
        &self,
        offers: fn(&crate::model::ServerCapabilities) -> bool,
        prepare: fn(&Client, Option<&str>) -> Request<crate::client::Page<T>>,
        rename: fn(&str, &mut T),
    ) -> Merged<T> {
        gather(&self.members(), &self.shared.limits, offers, prepare, rename)
    }

    /// Runs a tool, named `server:tool`.
    ///
    /// # Errors
    /// As [`Hub::client`] and [`Request::wait`].
    pub fn call_tool(&self, name: &str, arguments: impl ToJson) -> Result<ToolOutput, Error> {
        self.routed(name, |client, name| client.request_tool(name, arguments).wait())
    }

    /// A tool to be run: the request, and the call it becomes, belong to its server.
    ///
    /// # Errors
    /// As [`Hub::client`].
    pub fn request_tool(&self, name: &str, arguments: impl ToJson) -> Result<Request<ToolOutput>, Error> {
        let (key, name) = split(name)?;
        Ok(self.client(key)?.request_tool(name, arguments))
    }

    /// Fills in a prompt, named `server:prompt`.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn prompt(&self, name: &str, arguments: &[(&str, &str)]) -> Result<PromptOutput, Error> {
        self.routed(name, |client, name| client.prompt(name, arguments))
    }

    /// Reads a resource of a server.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn read_resource(&self, server: &str, uri: &str) -> Result<ReadOutput, Error> {
        self.asked(server, |client| client.read_resource(uri))
    }

    /// Values for an argument of a prompt or template of a server, which are named as there, without
    /// the key; as [`Client::complete`].
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
        self.asked(server, |client| client.complete(about, argument, typed, settled))
    }

    /// Wants to hear of updates of a server's resource; [`HubBuilder::on_change`] does. A server
    /// that is started again is asked again.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn subscribe(&self, server: &str, uri: &str) -> Result<(), Error> {
        let member = self.member(server)?;
        self.asked(server, |client| client.subscribe(uri))?;
        member.keep_subscription(uri, true);
        Ok(())
    }

    /// No longer wants to hear of updates of a server's resource.
    ///
    /// # Errors
    /// As [`Hub::call_tool`].
    pub fn unsubscribe(&self, server: &str, uri: &str) -> Result<(), Error> {
        self.member(server)?.keep_subscription(uri, false);
        self.asked(server, |client| client.unsubscribe(uri))
    }

    /// Ends all connections, for good: what is asked of the hub then fails as [`ErrorKind::Closed`].
    /// Does nothing the second time.
    pub fn close(&self) {
        let members = {
            let mut members = lock(&self.shared.members);
            self.shared.closed.store(true, Ordering::Relaxed);
            std::mem::take(&mut *members)
        };
        self.shared.handlers.stop_waiting();
        close_all(&members);
    }

    fn routed<R>(&self, name: &str, ask: impl FnOnce(&Client, &str) -> Result<R, Error>) -> Result<R, Error> {
        let (key, name) = split(name)?;
        self.asked(key, |client| ask(client, name))
    }

    fn asked<R>(&self, key: &str, ask: impl FnOnce(&Client) -> Result<R, Error>) -> Result<R, Error> {
        let member = self.member(key)?;
        let client = member.client(Instant::now() + self.shared.limits.call_timeout)?;
        ask(&client)
    }

    fn members(&self) -> Vec<Arc<Member>> {
        lock(&self.shared.members).clone()
    }

    fn member(&self, key: &str) -> Result<Arc<Member>, Error> {
        let members = lock(&self.shared.members);
        let found = members.iter().find(|m| m.key == key).map(Arc::clone);
        found.ok_or_else(|| match self.shared.closed.load(Ordering::Relaxed) {
            true => closed(),
            false => Error::new(ErrorKind::Invalid, format!("there is no server {key:?}")),
        })
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the hub is closed")
}

fn full(key: &str, name: &str) -> String {
    let mut full = String::with_capacity(key.len() + 1 + name.len());
    full.push_str(key);
    full.push(SEPARATOR);
    full.push_str(name);
    full
}

/// The server and the name there.
fn split(name: &str) -> Result<(&str, &str), Error> {
    name.split_once(SEPARATOR).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, format!("{name:?} names no server: expected server:name"))
    })
}

fn check_key(key: &str) -> Result<(), Error> {
    let fits = (1..=32).contains(&key.len())
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if !fits {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("invalid server key {key:?}: allowed are 1 to 32 characters of A-Z a-z 0-9 - _ ."),
        ));
    }
    Ok(())
}
