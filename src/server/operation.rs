//! What is answered without a handler: lists, greetings, subscriptions, refusals; and what has to
//! run for the rest.

use std::sync::Arc;

use crate::era::{List, Params, Reply, ServerEra, To};
use crate::json::Doc;
#[cfg(feature = "lint")]
use crate::json::Value;
use crate::model::content::Completion;
use crate::model::{Fault, Filter, Operation, Query};
use crate::rpc::{Id, Request, ShapeError};
use crate::transport::Outlet;

use super::again::tool_work;
use super::dispatch::{InlineTools, Reader};
use super::job::{Work, check_prompt};
use super::page;
use super::profile::{Form, PLAIN};
use super::registry::{Describe, Registry, Table};
use super::seal::Answers;

static NOTHING: Completion = Completion::none();

/// What is wrong with a document that is no message.
pub(super) fn shape_fault(shape: &ShapeError<'_>) -> Fault {
    match shape.code {
        crate::rpc::code::INVALID_PARAMS => Fault::InvalidParams(shape.message.into()),
        _ => Fault::InvalidRequest(shape.message.into()),
    }
}

pub(super) fn duplicate() -> Fault {
    Fault::InvalidRequest("Another request with this id is still open".into())
}

impl Reader<dyn InlineTools> {
    /// Answers an operation, or says what has to run for it.
    pub(super) fn operation(
        &mut self,
        doc: &Doc,
        request: &Request<'_>,
        params: &Params<'_>,
        era: &'static dyn ServerEra,
        query: &Query,
        outlet: &Arc<dyn Outlet>,
    ) -> Result<Option<(Work, Answers)>, Fault> {
        let offer = self.offer;
        let text = |node| doc.at(node).as_str().unwrap_or_default();
        let gate =
            |open: bool| if open { Ok(()) } else { Err(Fault::UnknownMethod(request.method.to_owned())) };
        // The others are looked at when they are entered among the calls in flight.
        let at_once = !matches!(
            query.operation,
            Operation::CallTool { .. }
                | Operation::ReadResource { .. }
                | Operation::GetPrompt { .. }
                | Operation::Complete { .. }
        );
        if at_once && self.conn.is_taken(request.id) {
            return Err(duplicate());
        }
        let reply = match query.operation {
            Operation::CallTool { name, .. } => {
                gate(offer.tools)?;
                let Some(entry) = self.registry.tools.find(text(name)) else {
                    return Err(Fault::InvalidParams(format!("Unknown tool: {}", text(name)).into()));
                };
                let answers = self.core.answers(outlet.principal(), query, doc)?;
                let work = tool_work(entry, &mut self.last_inline);
                return Ok(Some((work, answers)));
            }
            Operation::ReadResource { uri } => {
                gate(offer.resources)?;
                let Some((read, variables)) = self.registry.reader(text(uri)) else {
                    return Err(Fault::ResourceNotFound(text(uri).to_owned()));
                };
                return Ok(Some((
                    Work::Read(read, Arc::new(variables)),
                    self.core.answers(outlet.principal(), query, doc)?,
                )));
            }
            Operation::GetPrompt { name, arguments } => {
                gate(offer.prompts)?;
                let Some(entry) = self.registry.prompts.find(text(name)) else {
                    return Err(Fault::InvalidParams(format!("Unknown prompt: {}", text(name)).into()));
                };
                check_prompt(&entry.entry, arguments.map(|node| doc.at(node)))?;
                return Ok(Some((
                    Work::Prompt(Arc::clone(entry)),
                    self.core.answers(outlet.principal(), query, doc)?,
                )));
            }
            Operation::Complete { subject, kind, argument, .. } => {
                gate(offer.completions)?;
                match self.registry.completion(kind, text(subject), text(argument)) {
                    None => {
                        return Err(Fault::InvalidParams(
                            format!("Nothing to complete: {}", text(subject)).into(),
                        ));
                    }
                    Some(Some(complete)) => {
                        return Ok(Some((Work::Complete(Arc::clone(complete)), Answers::new())));
                    }
                    Some(None) => Reply::Completion(&NOTHING),
                }
            }
            Operation::ListTools { cursor } => {
                gate(offer.tools)?;
                let form = self.form(doc, query);
                return self.page(era, query, List::Tools, cursor.map(text), request, form, |r| &r.tools);
            }
            Operation::ListResources { cursor } => {
                gate(offer.resources)?;
                return self
                    .page(era, query, List::Resources, cursor.map(text), request, PLAIN, |r| &r.resources);
            }
            Operation::ListTemplates { cursor } => {
                gate(offer.resources)?;
                return self
                    .page(era, query, List::Templates, cursor.map(text), request, PLAIN, |r| &r.templates);
            }
            Operation::ListPrompts { cursor } => {
                gate(offer.prompts)?;
                return self
                    .page(era, query, List::Prompts, cursor.map(text), request, PLAIN, |r| &r.prompts);
            }
            Operation::Open => {
                let session = era.open(params, query);
                self.peer = session.as_ref().map(|s| s.peer);
                self.again = None;
                *self.conn.session() = session;
                Reply::Greeting { offer, cache: self.core.list_cache }
            }
            Operation::Describe => Reply::Greeting { offer, cache: self.core.list_cache },
            Operation::Ping => Reply::Empty,
            Operation::SetLevel(level) => {
                gate(offer.logging)?;
                if let Some(peer) = &mut self.peer {
                    peer.log_level = Some(level);
                }
                self.again = None;
                if let Some(session) = self.conn.session().as_mut() {
                    session.peer.log_level = Some(level);
                }
                Reply::Empty
            }
            Operation::Subscribe { uri } => {
                gate(offer.subscribe)?;
                if self.registry.reader(text(uri)).is_none() {
                    return Err(Fault::ResourceNotFound(text(uri).to_owned()));
                }
                self.subscribe(text(uri))?;
                self.core.catalog.listeners_changed();
                Reply::Empty
            }
            Operation::Unsubscribe { uri } => {
                gate(offer.subscribe)?;
                if let Some(session) = self.conn.session().as_mut() {
                    session.subscriptions.retain(|s| s != text(uri));
                }
                self.core.catalog.listeners_changed();
                Reply::Empty
            }
            Operation::Listen { filter } => {
                gate(
                    offer.tools_changed
                        || offer.prompts_changed
                        || offer.resources_changed
                        || offer.subscribe,
                )?;
                let wanted = era.filter(doc.at(filter), self.core.limits.subscriptions)?;
                let honoured = Filter {
                    tools: wanted.tools && offer.tools_changed,
                    prompts: wanted.prompts && offer.prompts_changed,
                    resources: wanted.resources && offer.resources_changed,
                    uris: if offer.subscribe { wanted.uris } else { Vec::new() },
                };
                let bytes = honoured.uris.iter().map(String::len).sum::<usize>() + request.id.raw().len();
                self.subscribable(bytes)?;
                let id = Id::read(request.id).ok_or(Fault::InvalidRequest("id is missing".into()))?;
                if self.conn.is_open(&id) {
                    return Err(duplicate());
                }
                let revision = query.peer.revision;
                self.conn.listen(id, request.id.raw(), honoured, era, revision, outlet)?;
                self.core.catalog.listeners_changed();
                return Ok(None);
            }
        };
        let to = To { id: request.id.raw(), revision: query.peer.revision, card: &self.core.card };
        era.reply(&mut self.out, &to, reply);
        self.out.newline();
        Ok(None)
    }

    /// The form in which a client is shown tools.
    #[cfg(feature = "lint")]
    fn form(&self, doc: &Doc, query: &Query) -> Form {
        let name = |client: Value<'_>| client.get("name").and_then(Value::as_str).map(str::to_owned);
        self.registry.profiles.of(|| match query.client {
            Some(node) => name(doc.at(node)),
            None => self.conn.session().as_ref().and_then(|session| name(session.client.to_doc().root())),
        })
    }

    #[cfg(not(feature = "lint"))]
    fn form(&self, _: &Doc, _: &Query) -> Form {
        PLAIN
    }

    /// Answers with a page of a list.
    #[allow(clippy::too_many_arguments)] // OK because they are what a page depends on.
    fn page<T: Describe>(
        &mut self,
        era: &'static dyn ServerEra,
        query: &Query,
        list: List,
        cursor: Option<&str>,
        request: &Request<'_>,
        form: Form,
        table: impl Fn(&Registry) -> &Table<T>,
    ) -> Result<Option<(Work, Answers)>, Fault> {
        let revision = query.peer.revision;
        let registry = Arc::clone(&self.registry);
        let (entries, more) = table(&registry).page(page::place(list, cursor)?, self.core.limits.page);
        let next = entries.last().filter(|_| more).map(|last| page::cursor(list, last.sequence));
        let mut rendered = entries.iter().map(|entry| entry.rendered(revision, form));
        let to = To { id: request.id.raw(), revision, card: &self.core.card };
        let cache = self.core.list_cache;
        era.reply(
            &mut self.out,
            &to,
            Reply::Page { list, entries: &mut rendered, next: next.as_deref(), cache },
        );
        self.out.newline();
        Ok(None)
    }

    fn subscribe(&self, uri: &str) -> Result<(), Fault> {
        let most = self.core.limits.subscriptions;
        if let Some(session) = self.conn.session().as_mut() {
            if session.subscriptions.iter().any(|s| s == uri) {
                return Ok(());
            }
            if session.subscriptions.len() >= most {
                return Err(Fault::InvalidParams(
                    format!("At most {most} resources can be subscribed to").into(),
                ));
            }
            self.subscribable(session.subscriptions.iter().map(String::len).sum::<usize>() + uri.len())?;
            session.subscriptions.push(uri.to_owned());
        }
        Ok(())
    }

    /// Whether so much may be kept of what one client subscribes to.
    fn subscribable(&self, bytes: usize) -> Result<(), Fault> {
        match self.core.limits.subscription_bytes {
            most if bytes > most => Err(Fault::InvalidParams(
                format!("The URIs that are subscribed to have more than {most} bytes").into(),
            )),
            _ => Ok(()),
        }
    }
}
