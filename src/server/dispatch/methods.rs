//! Handling of each method: responses to lists, first requests and subscriptions, and planning of
//! calls.

use std::sync::Arc;

#[cfg(feature = "tasks")]
use crate::era::task;
use crate::era::{Encoded, List, Params, Reply, ReplyTarget, RequestMode, ServerEra};
use crate::json::{Doc, NodeId, Value};
use crate::model::content::Completion;
use crate::model::uri_template::Variables;
use crate::model::{ClientCapabilities, Fault, Filter, Level, Operation, Query};
use crate::record::nearest;
use crate::rpc::{Id, Request};
use crate::transport::ReplySink;

use super::{Dispatcher, Effect, Incoming, InlineTools, PlannedCall};
use crate::server::call::request_state::Responses;
use crate::server::call::{Target, check_prompt};
use crate::server::callers::View;
use crate::server::registry::cursor;
use crate::server::registry::tool_views::{Form, PLAIN};
use crate::server::registry::{Describe, PromptEntry, ReadFn, Registry, Row, Table, ToolEntry};

/// Bytes of the entries of a page, unless a single entry is longer: well below the message limits
/// of clients, which would reject the whole list.
const PAGE_BYTES: usize = 1 << 20;

static NO_COMPLETIONS: Completion = Completion::none();

pub(crate) fn duplicate() -> Fault {
    Fault::InvalidRequest("Another request with this id is in flight".into())
}

/// Rejects a method whose capability the server does not have.
fn require(supported: bool, request: &Request<'_>) -> Result<(), Fault> {
    if supported { Ok(()) } else { Err(Fault::UnknownMethod(request.method.to_owned())) }
}

/// Returns the string at a node.
fn text(doc: &Doc, node: NodeId) -> &str {
    doc.at(node).as_str().unwrap_or_default()
}

impl Dispatcher<dyn InlineTools> {
    /// Responds to a request, or plans its call.
    pub(crate) fn operation(
        &mut self,
        incoming: Incoming<'_>,
        era: &'static dyn ServerEra,
        query: &Query,
    ) -> Result<Effect, Fault> {
        let Incoming { doc, request, params, sink } = incoming;
        let has_instructions = self.core.shared.delegate().is_some() && self.prepare_delegate(era, query);
        let capabilities = self.capabilities;
        let reply = match query.operation {
            Operation::CallTool { .. }
            | Operation::ReadResource { .. }
            | Operation::GetPrompt { .. }
            | Operation::Complete { .. }
            | Operation::Extension => match self.find_target(doc, request, query, sink)? {
                Some((target, responses)) => {
                    let call = PlannedCall::new(era, query, target, responses);
                    return self.planned(call, request.method, sink);
                }
                None => Reply::Completion(&NO_COMPLETIONS),
            },
            // The calls above are excluded: admission checks their ids.
            _ if self.conn.is_taken(request.id) => return Err(duplicate()),
            Operation::ListTools { .. }
            | Operation::ListResources { .. }
            | Operation::ListTemplates { .. }
            | Operation::ListPrompts { .. } => {
                return self.list(doc, request, era, query, sink).map(Effect::Reply);
            }
            Operation::Listen { filter } => {
                self.listen(doc, doc.at(filter), request, era, query, sink)?;
                return Ok(Effect::Ignore);
            }
            Operation::Initialize | Operation::Discover => {
                if matches!(query.operation, Operation::Initialize) {
                    self.open(params, era, query, !has_instructions);
                }
                if has_instructions {
                    let (target, responses) = (Target::ServerDescription, Responses::new());
                    return Ok(Effect::Call(PlannedCall::new(era, query, target, responses)));
                }
                Reply::ServerDescription { capabilities, cache: self.core.list_cache, instructions: None }
            }
            Operation::Ping => Reply::Empty,
            Operation::SetLevel(level) => {
                require(capabilities.logging, request)?;
                self.set_level(level);
                Reply::Empty
            }
            Operation::Subscribe { uri } => {
                require(capabilities.subscribe, request)?;
                self.subscribe(text(doc, uri), View::of(&self.core, &**sink))?;
                if self.core.shared.delegate().is_some() {
                    let (target, responses) = (Target::Subscribe, Responses::new());
                    return Ok(Effect::Call(PlannedCall::new(era, query, target, responses)));
                }
                Reply::Empty
            }
            Operation::Unsubscribe { uri } => {
                require(capabilities.subscribe, request)?;
                self.unsubscribe(text(doc, uri));
                Reply::Empty
            }
        };
        let to = ReplyTarget { id: request.id.raw(), revision: query.peer.revision, server: &self.core.info };
        let encoded = era.reply(&mut self.out, &to, reply);
        self.out.newline();
        Ok(Effect::Reply(encoded))
    }

    /// Admits a call by the limits of its caller.
    #[inline]
    fn planned(
        &mut self,
        mut call: PlannedCall,
        method: &str,
        sink: &Arc<dyn ReplySink>,
    ) -> Result<Effect, Fault> {
        call.permit = self.permit(&call.target, method, &**sink)?;
        Ok(Effect::Call(call))
    }

    #[cold]
    #[inline(never)]
    fn unknown_tool(&self, name: &str, view: View<'_>) -> Fault {
        let shown = self.registry.tools.iter().filter(|listed| view.shows(&listed.entry));
        unknown("tool", name, &mut shown.map(|listed| &*listed.entry.tool.name))
    }

    #[cold]
    #[inline(never)]
    fn unknown_prompt(&self, name: &str, view: View<'_>) -> Fault {
        let shown = self.registry.prompts.iter().filter(|listed| view.shows(&listed.entry));
        unknown("prompt", name, &mut shown.map(|listed| &*listed.entry.prompt.name))
    }

    /// Finds the handler of a call. `None` for an argument without a completion.
    fn find_target(
        &mut self,
        doc: &Doc,
        request: &Request<'_>,
        query: &Query,
        sink: &Arc<dyn ReplySink>,
    ) -> Result<Option<(Target, Responses)>, Fault> {
        let capabilities = self.capabilities;
        let view = View::of(&self.core, &**sink);
        let target = match query.operation {
            Operation::CallTool { name, .. } => {
                require(capabilities.tools, request)?;
                let name = text(doc, name);
                let found = self.registry.tools.find(name).cloned().or_else(|| self.unlisted(name));
                let Some(entry) = found.filter(|found| view.shows(&found.entry)) else {
                    return Err(self.unknown_tool(name, view));
                };
                self.core.shared.tasks.check_call(&entry.entry.tool, query, doc)?;
                let responses = self.core.input_responses(sink.principal(), query, doc)?;
                return Ok(Some((Target::Tool(entry), responses)));
            }
            Operation::ReadResource { uri } => {
                require(capabilities.resources, request)?;
                let uri = text(doc, uri);
                let Some((read, variables)) =
                    self.registry.reader(uri, view).or_else(|| self.unlisted_reader(uri, view))
                else {
                    return Err(Fault::ResourceNotFound(uri.to_owned()));
                };
                Target::Read(read, Arc::new(variables))
            }
            Operation::GetPrompt { name, arguments } => {
                require(capabilities.prompts, request)?;
                let name = text(doc, name);
                let found = self.registry.prompts.find(name).cloned().or_else(|| self.unlisted_prompt(name));
                let Some(entry) = found.filter(|found| view.shows(&found.entry)) else {
                    return Err(self.unknown_prompt(name, view));
                };
                check_prompt(&entry.entry, arguments.map(|node| doc.at(node)))?;
                Target::Prompt(entry)
            }
            Operation::Complete { subject, kind, argument, .. } => {
                require(capabilities.completions, request)?;
                let subject = text(doc, subject);
                // A completion handler cannot send requests to the client.
                let complete = self.registry.completion(kind, subject, text(doc, argument), view)?;
                return Ok(complete.map(|run| (Target::Complete(Arc::clone(run)), Responses::new())));
            }
            _ => {
                let method = self.core.extensions.as_ref().and_then(|all| all.method(request.method));
                let tasks = &self.core.shared.tasks;
                let method = method.or_else(|| tasks.method(request.method, query.peer.revision));
                Target::Method(method.ok_or_else(|| Fault::UnknownMethod(request.method.to_owned()))?)
            }
        };
        let responses = self.core.input_responses(sink.principal(), query, doc)?;
        Ok(Some((target, responses)))
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
        sink: &Arc<dyn ReplySink>,
    ) -> Result<Encoded, Fault> {
        let capabilities = self.capabilities;
        #[cfg(feature = "visibility")]
        let core = &*Arc::clone(&self.core);
        #[cfg(not(feature = "visibility"))]
        let core = &*self.core;
        let view = View::of(core, &**sink);
        let at = |cursor: Option<NodeId>| cursor.map(|node| text(doc, node));
        match query.operation {
            Operation::ListTools { cursor } => {
                require(capabilities.tools, request)?;
                let form = self.form(doc, query);
                self.page(era, query, List::Tools, at(cursor), request, form, view, |r| &r.tools)
            }
            Operation::ListResources { cursor } => {
                require(capabilities.resources, request)?;
                self.page(era, query, List::Resources, at(cursor), request, PLAIN, view, |r| &r.resources)
            }
            Operation::ListTemplates { cursor } => {
                require(capabilities.resources, request)?;
                self.page(era, query, List::Templates, at(cursor), request, PLAIN, view, |r| &r.templates)
            }
            Operation::ListPrompts { cursor } => {
                require(capabilities.prompts, request)?;
                self.page(era, query, List::Prompts, at(cursor), request, PLAIN, view, |r| &r.prompts)
            }
            _ => Err(Fault::Internal("The operation is not a list")),
        }
    }

    /// Opens a session, if the era has sessions.
    fn open(&mut self, params: &Params<'_>, era: &'static dyn ServerEra, query: &Query, waits: bool) {
        let mut session = era.open(params, query);
        if let (Some(session), Some(extensions)) = (&mut session, &self.core.extensions) {
            extensions.open_session(session, params);
        }
        self.peer = session.as_ref().map(|s| s.peer);
        *self.conn.session() = session;
        if let Some(peer) = self.peer {
            self.client_arrived(peer.capabilities, waits);
        }
    }

    /// Prepares the delegate for a request. Reports the client of a stateless request to it. In a
    /// session, waits for its entries if the request needs them, because a client may send the
    /// request before it has the response to its first one. Returns whether the response to a
    /// client's first request has instructions of the delegate. That response waits for the
    /// delegate, so this is true only on a thread that serves one client.
    #[inline(never)]
    fn prepare_delegate(&mut self, era: &'static dyn ServerEra, query: &Query) -> bool {
        let Some(delegate) = self.core.shared.delegate() else { return false };
        let has_instructions = self.waits && delegate.has_instructions();
        match query.operation {
            // Methods of extensions do not involve the delegate, so an unknown method does not wait
            // for it.
            Operation::Extension => {}
            operation if era.request_mode() == RequestMode::InResult => {
                let describes_server = matches!(operation, Operation::Initialize | Operation::Discover);
                self.client_arrived(query.peer.capabilities, !(describes_server && has_instructions));
            }
            Operation::Initialize | Operation::Ping | Operation::SetLevel(_) => {}
            _ if has_instructions => {
                delegate.wait();
                self.refresh();
            }
            _ => {}
        }
        has_instructions
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
    #[cfg_attr(not(feature = "tasks"), allow(unused_variables))]
    #[allow(clippy::too_many_arguments)] // OK because they are what a subscription depends on.
    fn listen(
        &mut self,
        doc: &Doc,
        filter: Value<'_>,
        request: &Request<'_>,
        era: &'static dyn ServerEra,
        query: &Query,
        sink: &Arc<dyn ReplySink>,
    ) -> Result<(), Fault> {
        let capabilities = self.capabilities;
        let any =
            capabilities.tools_changed || capabilities.prompts_changed || capabilities.resources_changed;
        #[cfg(feature = "tasks")]
        let any = any || self.core.shared.tasks.get().is_some();
        require(any || capabilities.subscribe, request)?;
        let wanted = era.filter(filter, self.core.limits.subscriptions)?;
        let honoured = Filter {
            tools: wanted.tools && capabilities.tools_changed,
            prompts: wanted.prompts && capabilities.prompts_changed,
            resources: wanted.resources && capabilities.resources_changed,
            uris: if capabilities.subscribe { wanted.uris } else { Vec::new() },
            #[cfg(feature = "tasks")]
            tasks: self.followed(wanted.tasks, doc, query, sink)?,
            #[cfg(feature = "visibility")]
            silent: Vec::new(),
        };
        #[cfg(feature = "visibility")]
        let honoured = self.without_hidden(honoured, &**sink);
        #[cfg(feature = "tasks")]
        let followed = honoured.tasks.clone();
        let bytes = honoured.uris.iter().map(String::len).sum::<usize>() + request.id.raw().len();
        self.check_bytes(bytes)?;
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
        // The state may have changed since the client got it.
        #[cfg(feature = "tasks")]
        for task in &followed {
            self.core.shared.tasks.get().into_iter().for_each(|tasks| tasks.repeat(task, &self.conn));
        }
        Ok(())
    }

    /// Removes hidden resources from a filter. They are treated as unknown resources: with a
    /// delegate they are not watched; without one the acknowledgment names them, but no update
    /// follows.
    #[cfg(feature = "visibility")]
    fn without_hidden(&self, mut filter: Filter, sink: &dyn ReplySink) -> Filter {
        let view = View::of(&self.core, sink);
        let hidden: Vec<String> = filter.uris.iter().filter(|uri| self.hides(uri, view)).cloned().collect();
        if self.core.shared.delegate().is_some() {
            let known = |uri: &str| self.registry.reader(uri, view).is_some();
            filter.uris.retain(|uri| known(uri) || (!hidden.contains(uri) && view.shows_uri(uri)));
        } else {
            filter.silent = hidden;
        }
        filter
    }

    /// Returns those of the tasks that the client may follow, which are its own.
    #[cfg(feature = "tasks")]
    fn followed(
        &self,
        mut ids: Vec<String>,
        doc: &Doc,
        query: &Query,
        sink: &Arc<dyn ReplySink>,
    ) -> Result<Vec<String>, Fault> {
        let Some(tasks) = self.core.shared.tasks.get() else { return Ok(Vec::new()) };
        if !ids.is_empty() {
            task::check_declared(query, doc)?;
        }
        ids.retain(|id| tasks.is_visible(id, sink.principal(), query));
        Ok(ids)
    }

    /// Returns the form in which tools are described for this client.
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
        view: View<'_>,
        table: impl Fn(&Registry) -> &Table<T>,
    ) -> Result<Encoded, Fault> {
        let revision = query.peer.revision;
        let registry = Arc::clone(&self.registry);
        let (table, max) = (table(&registry), self.core.limits.page);
        let after = cursor::sequence(list, cursor)?;
        let shown;
        let (entries, more) = if view.is_partial() {
            shown = table.shown_page(after, max, view);
            (&*shown.0, shown.1)
        } else {
            table.page(after, max)
        };
        let fitting = within_page(entries, |entry| entry.rendered(revision, form).len());
        let (entries, more) = (fitting, more || fitting.len() < entries.len());
        let next = entries.last().filter(|_| more).map(|last| cursor::cursor(list, last.sequence));
        let mut rendered = entries.iter().map(|entry| entry.rendered(revision, form));
        let to = ReplyTarget { id: request.id.raw(), revision, server: &self.core.info };
        let cache = self.core.list_cache;
        let page = Reply::Page { list, entries: &mut rendered, next: next.as_deref(), cache };
        let encoded = era.reply(&mut self.out, &to, page);
        self.out.newline();
        Ok(encoded)
    }

    /// Subscribes a session to a resource.
    #[cold]
    #[inline(never)]
    fn subscribe(&self, uri: &str, view: View<'_>) -> Result<(), Fault> {
        if self.registry.reader(uri, view).is_none() {
            return Err(Fault::ResourceNotFound(uri.to_owned()));
        }
        let max = self.core.limits.subscriptions;
        if let Some(session) = self.conn.session().as_mut() {
            if session.subscriptions.iter().any(|s| s == uri) {
                return Ok(());
            }
            if session.subscriptions.len() >= max {
                return Err(Fault::InvalidParams(
                    format!("At most {max} resources may be subscribed").into(),
                ));
            }
            self.check_bytes(session.subscriptions.iter().map(String::len).sum::<usize>() + uri.len())?;
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

    /// Creates an entry for a tool of the delegate that is not in the registry.
    #[cold]
    #[inline(never)]
    fn unlisted(&self, name: &str) -> Option<Arc<Row<ToolEntry>>> {
        let run = self.core.shared.delegate()?.tool(name)?;
        Some(Registry::unlisted_tool(name, run))
    }

    /// Creates an entry for a prompt of the delegate that is not in the registry.
    #[cold]
    #[inline(never)]
    fn unlisted_prompt(&self, name: &str) -> Option<Arc<Row<PromptEntry>>> {
        let fill = self.core.shared.delegate()?.prompt(name)?;
        Some(Registry::unlisted_prompt(name, fill))
    }

    /// Returns the delegate's reader of a URI that is not in the registry.
    #[cold]
    #[inline(never)]
    fn unlisted_reader(&self, uri: &str, view: View<'_>) -> Option<(Arc<ReadFn>, Variables)> {
        if self.hides(uri, view) || !view.shows_uri(uri) {
            return None;
        }
        Some((self.core.shared.delegate()?.reader(uri)?, Variables::default()))
    }

    /// Returns whether a URI belongs to entries that are all hidden from the caller.
    fn hides(&self, uri: &str, view: View<'_>) -> bool {
        let has_reader = |view| self.registry.reader(uri, view).is_some();
        view.is_partial() && !has_reader(view) && has_reader(View::ALL)
    }

    /// Checks the size of one client's subscriptions.
    fn check_bytes(&self, bytes: usize) -> Result<(), Fault> {
        match self.core.limits.subscription_bytes {
            max if bytes > max => {
                Err(Fault::InvalidParams(format!("The subscribed URIs have more than {max} bytes").into()))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the first entries that fit a page, at least one.
fn within_page<T>(entries: &[T], length: impl Fn(&T) -> usize) -> &[T] {
    let mut bytes = 0;
    let fits = |entry: &&T| {
        bytes += length(entry);
        bytes <= PAGE_BYTES
    };
    let count = entries.iter().take_while(fits).count().max(1);
    entries.get(..count).unwrap_or(entries)
}

/// Fault of a name that is not registered, with the most similar one that the caller sees.
#[cold]
fn unknown(kind: &str, name: &str, shown: &mut dyn Iterator<Item = &str>) -> Fault {
    let mut message = format!("Unknown {kind}: {name}");
    if let Some(near) = nearest(name, shown) {
        message.push_str("; did you mean \"");
        message.push_str(near);
        message.push_str("\"?");
    }
    Fault::InvalidParams(message.into())
}
