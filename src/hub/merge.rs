//! Lists of all servers, requested at once and merged in a stable order.
//!
//! Each server has its own deadline ([`HubLimits::list_timeout`](crate::HubLimits::list_timeout) at
//! most), and a late server costs only its own entries. A server that has not connected by its
//! deadline is missing from later lists at once; one whose last list was late gets a tenth of the
//! time until it responds again. Pages of one server are requested one after another, those of
//! different servers at the same time.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use crate::client::{Call, Client, Page, Request};
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::model::ServerCapabilities;
use crate::rpc::code::METHOD_NOT_FOUND;
use crate::sync::{lock, wait_for};

use super::member::{ConnectWaiter, Member};
use super::names::UpstreamNames;

/// Lists of all servers, with the errors of those that failed.
///
/// See [`Hub`](crate::Hub) for a loop over both.
#[derive(Debug)]
#[non_exhaustive]
pub struct Merged<T> {
    /// Entries: servers in the order they were added, each list in the server's order.
    pub entries: Vec<Entry<T>>,
    /// Failed servers. A server whose later pages failed has its earlier ones in `entries`.
    pub missing: Vec<Missing>,
}

/// One entry of a merged list. It dereferences to the item. See [`Hub`](crate::Hub).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry<T> {
    /// The server's key.
    pub server: String,
    /// The item, under the name by which the hub routes.
    pub item: T,
}

/// A server whose list is missing or incomplete. See [`Hub`](crate::Hub).
#[derive(Debug)]
#[non_exhaustive]
pub struct Missing {
    /// The server's key.
    pub server: String,
    /// The reason.
    pub error: Error,
}

impl<T> std::ops::Deref for Entry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

/// Progress of one server's list.
struct Part<T> {
    member: Arc<Member>,
    deadline: Instant,
    stage: Stage<T>,
    cursor: Option<String>,
    pages: usize,
    bytes: usize,
    items: Vec<T>,
    error: Option<Error>,
}

enum Stage<T> {
    /// The server may still be connecting; `waits` when the waker is stored there.
    Connecting { waits: bool },
    /// A page was requested.
    Requested(Client, Box<Call<Page<T>>>),
    /// Complete or failed.
    Over,
}

/// Returns whether a server has the list.
pub(super) type Offers = fn(&ServerCapabilities) -> bool;

/// Requests a list from all members. `name` gives an item its name in the hub, or drops it.
pub(super) fn gather<T>(
    members: &[Arc<Member>],
    limits: &Limits,
    offers: Offers,
    prepare: fn(&Client, Option<&str>) -> Request<Page<T>>,
    name: impl Fn(&UpstreamNames, &str, T) -> Option<T>,
) -> Merged<T> {
    let now = Instant::now();
    let waker = Arc::new(Waker::default());
    let mut parts: Vec<Part<T>> = members
        .iter()
        .map(|member| Part {
            member: Arc::clone(member),
            deadline: member.list_deadline(now, limits.hub.list_timeout),
            stage: Stage::Connecting { waits: false },
            cursor: None,
            pages: 0,
            bytes: 0,
            items: Vec::new(),
            error: None,
        })
        .collect();
    loop {
        // Cleared before the parts are checked: a wake-up from here on causes another round.
        waker.clear();
        let mut moved = false;
        for part in &mut parts {
            moved |= part.advance(limits, offers, prepare, &waker);
        }
        let waits = |part: &&Part<T>| !matches!(part.stage, Stage::Over);
        match parts.iter().filter(waits).map(|part| part.deadline).min() {
            None => break,
            Some(_) if moved => {}
            Some(deadline) => waker.wait(deadline),
        }
    }
    let mut merged = Merged { entries: Vec::new(), missing: Vec::new() };
    for part in parts {
        let server = &part.member.key;
        let items = part.items.into_iter().filter_map(|item| name(&part.member.upstream.names, server, item));
        merged.entries.extend(items.map(|item| Entry { server: server.clone(), item }));
        if let Some(error) = part.error {
            merged.missing.push(Missing { server: server.clone(), error });
        }
    }
    merged
}

/// Wake-up of the merging thread when a part may have changed.
#[derive(Default)]
struct Waker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Waker {
    fn wake(&self) {
        *lock(&self.woken) = true;
        self.changed.notify_all();
    }

    fn clear(&self) {
        *lock(&self.woken) = false;
    }

    fn wait(&self, deadline: Instant) {
        let mut woken = lock(&self.woken);
        while !*woken {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            woken = wait_for(&self.changed, woken, left);
        }
    }
}

impl ConnectWaiter for Waker {
    fn on_connected(self: Arc<Self>, _: Result<Client, Error>) {
        self.wake();
    }
}

impl<T> Part<T> {
    /// Proceeds as far as possible without waiting. Returns whether anything changed.
    fn advance(
        &mut self,
        limits: &Limits,
        offers: fn(&ServerCapabilities) -> bool,
        prepare: fn(&Client, Option<&str>) -> Request<Page<T>>,
        waker: &Arc<Waker>,
    ) -> bool {
        let next = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Over => return false,
            Stage::Connecting { waits } => {
                let waiters: Arc<dyn ConnectWaiter> = Arc::<Waker>::clone(waker);
                let connection = match waits && self.member.is_connecting() {
                    true => None,
                    false => self.member.connected(&waiters),
                };
                match connection {
                    None if Instant::now() < self.deadline => {
                        self.stage = Stage::Connecting { waits: true };
                        return false;
                    }
                    // The request returns the error for a missing capability.
                    None => self.member.client(self.deadline),
                    Some(connected) => connected,
                }
                .map(|client| offers(&client.server().capabilities).then_some(client))
            }
            Stage::Requested(client, mut call) => {
                // The outcome is read before the deadline is checked: a page that has arrived
                // counts.
                let late = Instant::now() >= self.deadline;
                match call.wait_until(Instant::now()) {
                    None if !late => {
                        self.stage = Stage::Requested(client, call);
                        return false;
                    }
                    None => Err(Error::new(ErrorKind::Timeout, "no response in time")),
                    // A server may declare `resources` and have no templates.
                    Some(Err(error)) if error.code() == Some(METHOD_NOT_FOUND) && self.pages == 0 => Ok(None),
                    Some(page) => {
                        page.and_then(|page| self.take(page, limits)).map(|more| more.then_some(client))
                    }
                }
                .inspect_err(|error| self.member.note_list(error.kind() != ErrorKind::Timeout))
            }
        };
        let requested =
            next.and_then(|client| client.map(|client| self.request(client, prepare, waker)).transpose());
        match requested {
            Ok(Some(stage)) => self.stage = stage,
            Ok(None) => {}
            Err(error) => self.error = Some(error),
        }
        true
    }

    /// Requests the next page.
    fn request(
        &self,
        client: Client,
        prepare: fn(&Client, Option<&str>) -> Request<Page<T>>,
        waker: &Arc<Waker>,
    ) -> Result<Stage<T>, Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let waker = Arc::clone(waker);
        let request = prepare(&client, self.cursor.as_deref()).timeout(left);
        let mut call = request.start()?;
        call.on_ready(Arc::new(move || waker.wake()));
        Ok(Stage::Requested(client, Box::new(call)))
    }

    /// Stores a page. Returns whether another page follows.
    fn take(&mut self, page: Page<T>, limits: &Limits) -> Result<bool, Error> {
        self.member.note_list(true);
        self.pages += 1;
        self.bytes += page.bytes;
        let entries = self.items.len() + page.entries.len();
        if entries > limits.client.list_entries
            || self.pages >= limits.client.list_pages
            || self.bytes > limits.client.list_bytes
        {
            return Err(Error::new(ErrorKind::Limit, "the list is longer than the limits allow"));
        }
        self.items.extend(page.entries);
        if page.next.is_some() && page.next == self.cursor {
            return Err(Error::new(ErrorKind::PeerMisbehaved, "the server repeated a cursor of its list"));
        }
        self.cursor = page.next;
        Ok(self.cursor.is_some())
    }
}
