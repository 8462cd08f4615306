//! Lists of all servers, asked for at once and merged in a stable order.
//!
//! Each server has a deadline of its own, [`Limits::list_timeout`] at most: the slowest decides how
//! long the whole takes, and no server what another one gives. One that has not connected in that time
//! is missing at once from then on, and one that let a list wait in vain is waited for a tenth of it
//! until it answers again. The pages of one server are asked for one
//! after another, those of different servers at the same time: none waits for another server's.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::client::{Call, Client, Page, Request};
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::model::ServerCapabilities;
use crate::rpc::code::METHOD_NOT_FOUND;

use super::lock;
use super::member::{ConnectWaiter, Member};

/// Lists of all servers, as far as they came.
#[derive(Debug)]
#[non_exhaustive]
pub struct Merged<T> {
    /// What came: servers in the order they were added, each list in its own order.
    pub entries: Vec<Entry<T>>,
    /// What is missing. A server whose later pages failed has its earlier ones in `entries`.
    pub missing: Vec<Missing>,
}

/// One entry of a merged list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry<T> {
    /// The key of its server.
    pub server: String,
    /// What the server lists; its name is the one the hub routes by.
    pub item: T,
}

/// A server whose list is missing, or is not whole.
#[derive(Debug)]
#[non_exhaustive]
pub struct Missing {
    /// Its key.
    pub server: String,
    /// Why.
    pub error: Error,
}

impl<T> std::ops::Deref for Entry<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

/// How far the list of one server is.
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
    /// Its server may still be connecting, and then tells the waker.
    Connecting { told: bool },
    /// A page is under way.
    Asked(Client, Box<Call<Page<T>>>),
    /// Nothing more comes.
    Over,
}

/// Asks all members for a list.
pub(super) fn gather<T>(
    members: &[Arc<Member>],
    limits: &Limits,
    offers: fn(&ServerCapabilities) -> bool,
    prepare: fn(&Client, Option<&str>) -> Request<Page<T>>,
    rename: fn(&str, &mut T),
) -> Merged<T> {
    let now = Instant::now();
    let waker = Arc::new(Waker::default());
    let mut parts: Vec<Part<T>> = members
        .iter()
        .map(|member| Part {
            member: Arc::clone(member),
            deadline: member.list_deadline(now, limits.list_timeout),
            stage: Stage::Connecting { told: false },
            cursor: None,
            pages: 0,
            bytes: 0,
            items: Vec::new(),
            error: None,
        })
        .collect();
    loop {
        // Before anything is looked at: what comes from here on is looked at once more.
        waker.still();
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
        for mut item in part.items {
            rename(server, &mut item);
            merged.entries.push(Entry { server: server.clone(), item });
        }
        if let Some(error) = part.error {
            merged.missing.push(Missing { server: server.clone(), error });
        }
    }
    merged
}

/// Rung when a list may go on.
#[derive(Default)]
struct Waker {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Waker {
    fn ring(&self) {
        *lock(&self.rung) = true;
        self.changed.notify_all();
    }

    fn still(&self) {
        *lock(&self.rung) = false;
    }

    fn wait(&self, deadline: Instant) {
        let mut rung = lock(&self.rung);
        while !*rung {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            rung = self.changed.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl ConnectWaiter for Waker {
    fn settled(self: Arc<Self>, _: Result<Client, Error>) {
        self.ring();
    }
}

impl<T> Part<T> {
    /// Goes on as far as it can without waiting; whether it got any further.
    fn advance(
        &mut self,
        limits: &Limits,
        offers: fn(&ServerCapabilities) -> bool,
        prepare: fn(&Client, Option<&str>) -> Request<Page<T>>,
        waker: &Arc<Waker>,
    ) -> bool {
        let next = match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Over => return false,
            Stage::Connecting { told } => {
                let waiters: Arc<dyn ConnectWaiter> = Arc::<Waker>::clone(waker);
                let connection = match told && self.member.is_connecting() {
                    true => None,
                    false => self.member.connected(&waiters),
                };
                match connection {
                    None if Instant::now() < self.deadline => {
                        self.stage = Stage::Connecting { told: true };
                        return false;
                    }
                    // It says that it is still connecting.
                    None => self.member.client(self.deadline),
                    Some(connected) => connected,
                }
                .map(|client| offers(&client.server().offer).then_some(client))
            }
            Stage::Asked(client, mut call) => {
                // Looked at first: what has come counts, however late this is.
                let late = Instant::now() >= self.deadline;
                match call.wait_until(Instant::now()) {
                    None if !late => {
                        self.stage = Stage::Asked(client, call);
                        return false;
                    }
                    None => Err(Error::new(ErrorKind::Timeout, "no answer in time")),
                    // A server may declare `resources` and have no templates.
                    Some(Err(error)) if error.code() == Some(METHOD_NOT_FOUND) && self.pages == 0 => Ok(None),
                    Some(page) => {
                        page.and_then(|page| self.take(page, limits)).map(|more| more.then_some(client))
                    }
                }
                .inspect_err(|error| self.member.note_list(error.kind() != ErrorKind::Timeout))
            }
        };
        let asked = next.and_then(|client| client.map(|client| self.ask(client, prepare, waker)).transpose());
        match asked {
            Ok(Some(asked)) => self.stage = asked,
            Ok(None) => {}
            Err(error) => self.error = Some(error),
        }
        true
    }

    /// Asks for the next page.
    fn ask(
        &self,
        client: Client,
        prepare: fn(&Client, Option<&str>) -> Request<Page<T>>,
        waker: &Arc<Waker>,
    ) -> Result<Stage<T>, Error> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let waker = Arc::clone(waker);
        let request = prepare(&client, self.cursor.as_deref()).timeout(left);
        let call = request.start_watched(Arc::new(move || waker.ring()))?;
        Ok(Stage::Asked(client, Box::new(call)))
    }

    /// Takes a page; whether there is another.
    fn take(&mut self, page: Page<T>, limits: &Limits) -> Result<bool, Error> {
        self.member.note_list(true);
        self.pages += 1;
        self.bytes += page.bytes;
        let entries = self.items.len() + page.entries.len();
        if entries > limits.list_entries || self.pages >= limits.list_pages || self.bytes > limits.list_bytes
        {
            return Err(Error::new(ErrorKind::Limit, "the list is longer than allowed"));
        }
        self.items.extend(page.entries);
        if page.next.is_some() && page.next == self.cursor {
            return Err(Error::new(ErrorKind::PeerMisbehaved, "the server's list goes in circles"));
        }
        self.cursor = page.next;
        Ok(self.cursor.is_some())
    }
}
