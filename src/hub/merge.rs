//! Lists of all servers, asked for at once and merged in a stable order.
//!
//! Each server has a deadline of its own, [`Limits::list_timeout`] at most: the slowest decides how
//! long the whole takes, and no server what another one gives. One that has not connected in that time
//! is missing at once from then on, and one that let a list wait in vain is waited for a tenth of it
//! until it answers again. The pages of one server are asked for one
//! after another, those of different servers at the same time.

use std::sync::Arc;
use std::time::Instant;

use crate::client::{Call, Client, Page, Request};
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::model::Offer;

use super::member::Member;

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
    client: Option<Client>,
    call: Option<Call<Page<T>>>,
    cursor: Option<String>,
    pages: usize,
    items: Vec<T>,
    error: Option<Error>,
}

/// Asks all members for a list.
pub(super) fn gather<T>(
    members: &[Arc<Member>],
    limits: &Limits,
    offers: fn(&Offer) -> bool,
    prepare: fn(&Client, Option<&str>) -> Request<Page<T>>,
    rename: fn(&str, &mut T),
) -> Merged<T> {
    let now = Instant::now();
    let mut parts: Vec<Part<T>> = members
        .iter()
        .map(|member| Part {
            member: Arc::clone(member),
            deadline: member.list_deadline(now, limits.list_timeout),
            client: None,
            call: None,
            cursor: None,
            pages: 0,
            items: Vec::new(),
            error: None,
        })
        .collect();
    // Those that are there first, so that nobody waits for one that is still connecting.
    for part in &mut parts {
        if !part.member.is_connecting() {
            part.open(offers, prepare);
        }
    }
    for part in &mut parts {
        if part.client.is_none() && part.error.is_none() {
            part.open(offers, prepare);
        }
    }
    while parts.iter().any(|part| part.call.is_some()) {
        for part in &mut parts {
            part.advance(limits, prepare);
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

impl<T> Part<T> {
    /// Asks for the first page, if the server has such a list.
    fn open(&mut self, offers: fn(&Offer) -> bool, prepare: fn(&Client, Option<&str>) -> Request<Page<T>>) {
        match self.member.client(self.deadline) {
            Ok(client) => {
                let offered = offers(&client.server().offer);
                self.client = Some(client);
                if offered {
                    self.ask(prepare);
                }
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn ask(&mut self, prepare: fn(&Client, Option<&str>) -> Request<Page<T>>) {
        let Some(client) = &self.client else { return };
        let left = self.deadline.saturating_duration_since(Instant::now());
        match prepare(client, self.cursor.as_deref()).timeout(left).start() {
            Ok(call) => self.call = Some(call),
            Err(error) => self.error = Some(error),
        }
    }

    /// Waits for the page that is under way and asks for the next one.
    fn advance(&mut self, limits: &Limits, prepare: fn(&Client, Option<&str>) -> Request<Page<T>>) {
        let Some(call) = self.call.take() else { return };
        let page = match call.wait() {
            Ok(page) => page,
            Err(error) => {
                self.member.note_list(error.kind() != ErrorKind::Timeout);
                return self.error = Some(error);
            }
        };
        self.member.note_list(true);
        self.pages += 1;
        if self.items.len() + page.entries.len() > limits.list_entries || self.pages >= limits.list_pages {
            return self.error = Some(Error::new(ErrorKind::Limit, "the list is longer than allowed"));
        }
        self.items.extend(page.entries);
        match page.next {
            None => {}
            next if next == self.cursor => {
                self.error = Some(Error::new(ErrorKind::PeerMisbehaved, "the server's list goes in circles"));
            }
            next => {
                self.cursor = next;
                self.ask(prepare);
            }
        }
    }
}
