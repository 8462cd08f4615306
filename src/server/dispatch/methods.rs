//! Methods: responds to lists, greetings and subscriptions, and plans calls.

use std::sync::Arc;

use crate::era::{Encoded, List, Params, Questions, Reply, ReplyTarget, ServerEra};
use crate::json::{Doc, NodeId, Value};
use crate::model::content::Completion;
use crate::model::uri_template::Variables;
use crate::model::{ClientCapabilities, Fault, Filter, Level, Operation, Query};
use crate::rpc::{Id, Request};
use crate::transport::ReplySink;

use super::{Dispatcher, Effect, InlineTools, PlannedCall};
use crate::server::call::request_state::Answers;
use crate::server::call::{Target, check_prompt};
use crate::server::registry::catalog::Delegate;
use crate::server::registry::cursor;
use crate::server::registry::tool_views::{Form, PLAIN};
use crate::server::registry::{Describe, Listed, PromptEntry, ReadFn, Registry, Table, ToolEntry};

static NOTHING: Completion = Completion::none();

pub(crate) fn duplicate() -> Fault {
    Fault::InvalidRequest("Another request with this id is in flight".into())
}

/// Rejects a method whose capability the server does not have.
fn gate(open: bool, request: &Request<'_>) -> Result<(), Fault> {
    if open { Ok(()) } else { Err(Fault::UnknownMethod(request.method.to_owned())) }
}

/// The string at a node.
fn text(doc: &Doc, node: NodeId) -> &str {
    doc.at(node).as_str().unwrap_or_default()
}

impl Dispatcher<dyn InlineTools> {
    /// Responds to a request, or plans its call.
    pub(crate) fn operation(
        &mut self,
        doc: &Doc,
        request: &Request<'_>,
        params: &Params<'_>,
        era: &'static dyn ServerEra,
        query: &Query,
        sink: &Arc<dyn ReplySink>,
    ) -> Result<Effect, Fault> {
        let greeting = matches!(query.operation, Operation::Open | Operation::Describe);
        let greets = self.greets();
        if era.questions() == Questions::InResult {
            self.client_arrived(query.peer.capabilities, !(greeting && greets));
        } else if greets {
            self.wait_for_entries(query.operation);
        }
        let offer = self.offer;
        let reply = match query.operation {
            Operation::CallTool { .. }
            | Operation::ReadResource { .. }
            | Operation::GetPrompt { .. }
            | Operation::Complete { .. } => match self.work(doc, request, query, sink)? {
                Some((target, answers)) => {
                    return Ok(Effect::Call(PlannedCall { era, query: *query, target, answers }));
                }
                None => Reply::Completion(&NOTHING),
            },
            // Admission checks the ids of the calls above.
            _ if self.conn.is_taken(request.id) => return Err(duplicate()),
            Operation::ListTools { .. }
            | Operation::ListResources { .. }
            | Operation::ListTemplates { .. }
            | Operation::ListPrompts { .. } => {
                return self.list(doc, request, era, query).map(Effect::Reply);
            }
            Operation::Listen { filter } => {
                self.listen(doc.at(filter), request, era, query, sink)?;
                return Ok(Effect::Ignore);
            }
            Operation::Open | Operation::Describe => {
                if query.operation == Operation::Open {
                    self.open(params, era, query, !greets);
                }
                if greets {
                    let (target, answers) = (Target::Greeting, Answers::new());
                    return Ok(Effect::Call(PlannedCall { era, query: *query, target, answers }));
                }
                Reply::Greeting { offer, cache: self.core.list_cache, instructions: None }
            }
            Operation::Ping => Reply::Empty,
            Operation::SetLevel(level) => {
                gate(offer.logging, request)?;
                self.set_level(level);
                Reply::Empty
            }
            Operation::Subscribe { uri } => {
                gate(offer.subscribe, request)?;
                self.subscribe(text(doc, uri))?;
                if self.core.shared.delegate().is_some() {
                    let (target, answers) = (Target::Subscribe, Answers::new());
                    return Ok(Effect::Call(PlannedCall { era, query: *query, target, answers }));
                }
                Reply::Empty
            }
            Operation::Unsubscribe { uri } => {
                gate(offer.subscribe, request)?;
                self.unsubscribe(text(doc, uri));
                Reply::Empty
            }
        };
        let to = ReplyTarget { id: request.id.raw(), revision: query.peer.revision, card: &self.core.card };
        let encoded = era.reply(&mut self.out, &to, reply);
        self.out.newline();
        Ok(Effect::Reply(encoded))
    }

    /// Finds the handler of a call. `None` for an argument without a completion.
    fn work(
        &mut self,
        doc: &Doc,
        request: &Request<'_>,
        query: &Query,
        sink: &Arc<dyn ReplySink>,
    ) -> Result<Option<(Target, Answers)>, Fault> {
        let offer = self.offer;
        let work = match query.operation {
            Operation::CallTool { name, .. } => {
                gate(offer.tools, request)?;
                let name = text(doc, name);
                let Some(entry) = self.registry.tools.find(name).cloned().or_else(|| self.unlisted(name))
                else {
                    return Err(Fault::InvalidParams(format!("Unknown tool: {name}").into()));
                };
                let answers = self.core.answers(sink.principal(), query, doc)?;
                return Ok(Some((Target::Tool(entry), answers)));
            }
            Operation::ReadResource { uri } => {
                gate(offer.resources, request)?;
                let uri = text(doc, uri);
                let Some((read, variables)) = self.registry.reader(uri).or_else(|| self.unlisted_reader())
                else {
                    return Err(Fault::ResourceNotFound(uri.to_owned()));
                };
                Target::Read(read, Arc::new(variables))
            }
            Operation::GetPrompt { name, arguments } => {
                gate(offer.prompts, request)?;
                let name = text(doc, name);
                let Some(entry) =
                    self.registry.prompts.find(name).cloned().or_else(|| self.unlisted_prompt(name))
                else {
                    return Err(Fault::InvalidParams(format!("Unknown prompt: {name}").into()));
                };
                check_prompt(&entry.entry, arguments.map(|node| doc.at(node)))?;
                Target::Prompt(entry)
            }
            Operation::Complete { subject, kind, argument, .. } => {
                gate(offer.completions, request)?;
                let subject = text(doc, subject);
                // A completion handler cannot send requests to the client.
                let complete = self.registry.completion(kind, subject, text(doc, argument))?;
                return Ok(complete.map(|run| (Target::Complete(Arc::clone(run)), Answers::new())));
            }
            _ => return Ok(None),
        };
        let answers = self.core.answers(sink.principal(), query, doc)?;
        Ok(Some((work, answers)))
    }

    /// Responds to a list request.
    #[cold]
    #[inline(never)]
    fn list(
        &mut self,
        doc: &Doc,
        request: &Request<'_>,
        era: &'static dyn ServerEra,
        query: &Query,
    ) -> Result<Encoded, Fault> {
        let offer = self.offer;
        let at = |cursor: Option<NodeId>| cursor.map(|node| text(doc, node));
        match query.operation {
            Operation::ListTools { cursor } => {
                gate(offer.tools, request)?;
                let form = self.form(doc, query);
                self.page(era, query, List::Tools, at(cursor), request, form, |r| &r.tools)
            }
            Operation::ListResources { cursor } => {
                gate(offer.resources, request)?;
                self.page(era, query, List::Resources, at(cursor), request, PLAIN, |r| &r.resources)
            }
            Operation::ListTemplates { cursor } => {
                gate(offer.resources, request)?;
                self.page(era, query, List::Templates, at(cursor), request, PLAIN, |r| &r.templates)
            }
            Operation::ListPrompts { cursor } => {
                gate(offer.prompts, request)?;
                self.page(era, query, List::Prompts, at(cursor), request, PLAIN, |r| &r.prompts)
            }
            _ => Err(Fault::Internal("The operation is not a list")),
        }
    }

    /// Opens a session, if the era has sessions.
    fn open(&mut self, params: &Params<'_>, era: &'static dyn ServerEra, query: &Query, waits: bool) {
        let session = era.open(params, query);
        self.peer = session.as_ref().map(|s| s.peer);
        *self.conn.session() = session;
        if let Some(peer) = self.peer {
            self.client_arrived(peer.capabilities, waits);
        }
    }

    /// Returns whether the delegate has instructions for this client. Their response waits for the
    /// delegate, so only a thread that serves one client uses them.
    fn greets(&self) -> bool {
        self.waits && self.core.shared.delegate().is_some_and(Delegate::greets)
    }

    /// Waits for the delegate's entries before a request of a session that needs them. A client may
    /// send it before it has the response to its first message.
    fn wait_for_entries(&mut self, operation: Operation) {
        if matches!(operation, Operation::Open | Operation::Ping | Operation::SetLevel(_)) {
            return;
        }
        if let Some(delegate) = self.core.shared.delegate() {
            delegate.wait();
            self.refresh();
        }
    }

    /// Reports a client's capabilities to the delegate.
    fn client_arrived(&mut self, capabilities: ClientCapabilities, waits: bool) {
        if let Some(delegate) = self.core.shared.delegate() {
            delegate.client_arrived(capabilities, self.waits && waits);
            // The delegate may have changed the registry.
            self.refresh();
        }
    }

    #[cold]
    #[inline(never)]
    fn set_level(&mut self, level: Level) {
        if let Some(peer) = &mut self.peer {
            peer.log_level = Some(level);
        }
        if let Some(session) = self.conn.session().as_mut() {
            session.peer.log_level = Some(level);
        }
        if let Some(delegate) = self.core.shared.delegate() {
            delegate.level_changed();
        }
    }

    /// Opens a subscription for the requested changes that the server announces.
    #[cold]
    #[inline(never)]
    fn listen(
        &mut self,
        filter: Value<'_>,
        request: &Request<'_>,
        era: &'static dyn ServerEra,
        query: &Query,
        sink: &Arc<dyn ReplySink>,
    ) -> Result<(), Fault> {
        let offer = self.offer;
        let any = offer.tools_changed || offer.prompts_changed || offer.resources_changed;
        gate(any || offer.subscribe, request)?;
        let wanted = era.filter(filter, self.core.limits.subscriptions)?;
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
        let delegate = self.core.shared.delegate().filter(|_| !honoured.uris.is_empty());
        let uris = if delegate.is_some() { honoured.uris.clone() } else { Vec::new() };
        self.conn.listen(id.clone(), request.id.raw(), honoured, era, revision, sink, delegate.is_none())?;
        if let Some(delegate) = delegate {
            let (conn, sink) = (Arc::clone(&self.conn), Arc::clone(sink));
            delegate.watch(uris, Box::new(move |watched| conn.acknowledge(&id, &sink, &watched)));
        }
        Ok(())
    }

    /// The form of tool descriptions for a client.
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

    /// Responds with a page of a list.
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
    ) -> Result<Encoded, Fault> {
        let revision = query.peer.revision;
        let registry = Arc::clone(&self.registry);
        let (entries, more) = table(&registry).page(cursor::place(list, cursor)?, self.core.limits.page);
        let next = entries.last().filter(|_| more).map(|last| cursor::cursor(list, last.sequence));
        let mut rendered = entries.iter().map(|entry| entry.rendered(revision, form));
        let to = ReplyTarget { id: request.id.raw(), revision, card: &self.core.card };
        let cache = self.core.list_cache;
        let page = Reply::Page { list, entries: &mut rendered, next: next.as_deref(), cache };
        let encoded = era.reply(&mut self.out, &to, page);
        self.out.newline();
        Ok(encoded)
    }

    /// Subscribes a session to a resource.
    #[cold]
    #[inline(never)]
    fn subscribe(&self, uri: &str) -> Result<(), Fault> {
        if self.registry.reader(uri).is_none() {
            return Err(Fault::ResourceNotFound(uri.to_owned()));
        }
        let most = self.core.limits.subscriptions;
        if let Some(session) = self.conn.session().as_mut() {
            if session.subscriptions.iter().any(|s| s == uri) {
                return Ok(());
            }
            if session.subscriptions.len() >= most {
                return Err(Fault::InvalidParams(
                    format!("At most {most} resources may be subscribed").into(),
                ));
            }
            self.subscribable(session.subscriptions.iter().map(String::len).sum::<usize>() + uri.len())?;
            session.subscriptions.push(uri.to_owned());
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn unsubscribe(&self, uri: &str) {
        self.conn.unsubscribe(uri);
        if let Some(delegate) = self.core.shared.delegate() {
            delegate.listeners_changed();
        }
    }

    /// A tool of the delegate that is not in the registry.
    #[cold]
    #[inline(never)]
    fn unlisted(&self, name: &str) -> Option<Arc<Listed<ToolEntry>>> {
        let run = self.core.shared.delegate()?.tool(name)?;
        Some(Registry::unlisted_tool(name, run))
    }

    /// A prompt of the delegate that is not in the registry.
    #[cold]
    #[inline(never)]
    fn unlisted_prompt(&self, name: &str) -> Option<Arc<Listed<PromptEntry>>> {
        let fill = self.core.shared.delegate()?.prompt(name)?;
        Some(Registry::unlisted_prompt(name, fill))
    }

    /// The delegate's reader of a URI that is not in the registry.
    #[cold]
    #[inline(never)]
    fn unlisted_reader(&self) -> Option<(Arc<ReadFn>, Variables)> {
        Some((self.core.shared.delegate()?.reader()?, Variables::default()))
    }

    /// Checks the size of one client's subscriptions.
    fn subscribable(&self, bytes: usize) -> Result<(), Fault> {
        match self.core.limits.subscription_bytes {
            most if bytes > most => {
                Err(Fault::InvalidParams(format!("The subscribed URIs have more than {most} bytes").into()))
            }
            _ => Ok(()),
        }
    }
}
