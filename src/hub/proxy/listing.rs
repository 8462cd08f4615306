//! Lists of one server of a hub, and their transfer to the lists of the exporting server.
//!
//! Entries are in the order of the servers, not of their responses. Unchanged entries keep their
//! place or are moved behind new entries that precede them. Clients are only notified of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::{Client, CompletionTarget};
use crate::error::{Error, ErrorKind};
use crate::json::{Json, Value};
use crate::limits::Limits;
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::uri_template::{UriTemplate, Variables};
use crate::model::{Change, CompletionKind};
use crate::server::{Arguments, Checks, CompletionRequest, Context, Registry, ToolHandler};
use crate::server::{PromptEntry, ResourceEntry, TemplateEntry, ToolEntry};

use super::super::member::Member;
use super::super::merge::{Offers, gather};
use super::super::names::UpstreamNames;
use super::lazy::LazyTool;
use super::{Export, Skipped};

/// Maximum length of a tool name that common hosts accept, in characters.
const MAX_NAME: usize = 64;

/// Selection of lists.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl Kinds {
    pub(super) const ALL: Kinds = Kinds { tools: true, prompts: true, resources: true };

    pub(super) fn of(change: &Change) -> Kinds {
        Kinds {
            tools: *change == Change::Tools,
            prompts: *change == Change::Prompts,
            resources: *change == Change::Resources,
        }
    }

    pub(super) fn add(&mut self, more: Kinds) {
        self.tools |= more.tools;
        self.prompts |= more.prompts;
        self.resources |= more.resources;
    }
}

/// The lists of one server.
#[derive(Default)]
pub(super) struct Listing {
    tools: Part<Tool>,
    prompts: Part<Prompt>,
    resources: Part<Resource>,
    templates: Part<Template>,
    completes: bool,
}

/// One list, and the error if it is incomplete.
struct Part<T> {
    entries: Vec<T>,
    error: Option<Error>,
}

impl<T> Default for Part<T> {
    fn default() -> Part<T> {
        Part { entries: Vec::new(), error: None }
    }
}

impl Listing {
    /// Requests lists of a server.
    pub(super) fn fill(&mut self, wanted: Kinds, member: &Arc<Member>, limits: &Limits) {
        let members = std::slice::from_ref(member);
        if wanted.tools {
            self.tools = part(gather(members, limits, |o| o.tools, Client::request_tools, unchanged));
        }
        if wanted.prompts {
            self.prompts = part(gather(members, limits, |o| o.prompts, Client::request_prompts, unchanged));
        }
        if wanted.resources {
            let offers: Offers = |o| o.resources;
            self.resources = part(gather(members, limits, offers, Client::request_resources, unchanged));
            self.templates = part(gather(members, limits, offers, Client::request_templates, unchanged));
        }
        let client = member.client(std::time::Instant::now());
        self.completes = client.is_ok_and(|client| client.server().capabilities.completions);
    }

    /// Returns the names of the tools, if the list is complete.
    pub(super) fn tools(&self) -> Option<Vec<&str>> {
        let names = self.tools.entries.iter().map(|tool| tool.name.as_str());
        self.tools.error.is_none().then(|| names.collect())
    }

    /// Takes over the lists that were requested.
    pub(super) fn take(&mut self, wanted: Kinds, fresh: Listing) {
        if wanted.tools {
            self.tools = fresh.tools;
        }
        if wanted.prompts {
            self.prompts = fresh.prompts;
        }
        if wanted.resources {
            self.resources = fresh.resources;
            self.templates = fresh.templates;
        }
        self.completes = fresh.completes;
    }
}

/// Keeps the name at the server.
fn unchanged<T>(_: &UpstreamNames, _: &str, item: T) -> Option<T> {
    Some(item)
}

fn part<T>(merged: super::super::Merged<T>) -> Part<T> {
    let entries = merged.entries.into_iter().map(|entry| entry.item).collect();
    Part { entries, error: merged.missing.into_iter().next().map(|missing| missing.error) }
}

/// A server with its lists.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub member: &'a Member,
    pub listing: &'a Listing,
    /// Its entries are offered. Those of a server that is down only keep their names.
    pub is_up: bool,
    /// No server that precedes it will connect for the first time, so its names stay with it.
    pub keeps_names: bool,
}

/// The owners of the names of one list, also of those of servers that are down: the owner's key,
/// and whether the name stays with it.
type Owners = BTreeMap<String, (String, bool)>;

/// Entries on the exporting server's lists: by name, the owner's key and the description as
/// received.
#[derive(Default)]
pub(super) struct ExportedEntries {
    tools: Table,
    prompts: Table,
    resources: Table,
    templates: Table,
    /// The tools of [`crate::HubBuilder::lazy_tools`], which replace `tools`.
    pub(super) lazy: Arc<Vec<LazyTool>>,
    /// Servers whose list of lazy tools is incomplete, each with the reason.
    pub(super) failed: Vec<(String, String)>,
    /// Parsed templates and the keys of their owners, in the order of the list, also of those that
    /// are down.
    matchers: Vec<(UriTemplate, String)>,
    owners: AllOwners,
}

/// The owners of the names of all lists.
#[derive(Default)]
struct AllOwners {
    tools: Owners,
    prompts: Owners,
    resources: Owners,
    templates: Owners,
}

type Table = BTreeMap<String, (String, Option<Json>)>;

impl ExportedEntries {
    /// Returns the key of the server that owns the tool of this name. It may be down.
    pub(super) fn owner_of_tool(&self, name: &str) -> Option<&str> {
        self.owners.tools.get(name).map(|(key, _)| &**key)
    }

    /// Returns the key of the server that owns the prompt of this name. It may be down.
    pub(super) fn owner_of_prompt(&self, name: &str) -> Option<&str> {
        self.owners.prompts.get(name).map(|(key, _)| &**key)
    }

    /// Returns the key of the server that owns a resource, which may be down: the one that lists
    /// it, otherwise the first one with a matching template. Servers are in the order they were
    /// added, the templates of a server in its order. For ambiguous templates see
    /// [`UriTemplate::matches`].
    pub(super) fn owner(&self, uri: &str) -> Option<&str> {
        let listed = self.owners.resources.get(uri).map(|(key, _)| key);
        let matching = || self.matchers.iter().find(|(template, _)| template.matches(uri).is_some());
        listed.or_else(|| matching().map(|(_, key)| key)).map(|key| &**key)
    }
}

/// A kind of list.
#[derive(Clone, Copy)]
enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    fn change(self) -> Change {
        match self {
            List::Tools => Change::Tools,
            List::Prompts => Change::Prompts,
            List::Resources | List::Templates => Change::Resources,
        }
    }

    fn remove(self, registry: &mut Registry, name: &str) {
        match self {
            List::Tools => registry.remove_tool(name),
            List::Prompts => registry.remove_prompt(name),
            List::Resources => registry.remove_resource(name),
            List::Templates => registry.remove_template(name),
        };
    }
}

/// An entry of any list. One type for all, so that lists are compared and changed by the same code.
#[derive(Clone, Copy)]
enum Item<'a> {
    Tool(&'a Tool),
    Prompt(&'a Prompt),
    Resource(&'a Resource),
    Template(&'a Template),
}

/// Change of one list.
struct ListChange<'a> {
    list: List,
    removed: Vec<String>,
    /// The whole new list, in order.
    wanted: Vec<NewEntry<'a>>,
}

struct NewEntry<'a> {
    name: String,
    /// The owner's key.
    key: &'a str,
    item: Item<'a>,
    completes: bool,
    /// The list already has this entry, with the same description.
    unchanged: bool,
    is_up: bool,
}

/// Makes the server's lists equal to the listings; returns the entries that cannot be offered.
pub(super) fn show(
    export: &Arc<Export>,
    servers: &[Source<'_>],
    shown: &mut ExportedEntries,
) -> Vec<Skipped> {
    let mut skipped = Vec::new();
    let plan = |list, owners: &mut Owners, shown: &Table, skipped: &mut Vec<Skipped>| {
        ListChange::of(list, export, servers, (owners, shown), skipped)
    };
    let owners = &mut shown.owners;
    if export.all.hub.shared.handlers.has_lazy_tools() {
        let wanted = plan(List::Tools, &mut owners.tools, &Table::new(), &mut skipped).wanted;
        shown.lazy = Arc::new(wanted.iter().filter(|wanted| wanted.is_up).filter_map(lazy_tool).collect());
        let failed = skipped.iter().filter(|skipped| skipped.name.is_none());
        shown.failed = failed.map(|s| (s.server.clone(), s.error.to_string())).collect();
    } else {
        let change = plan(List::Tools, &mut owners.tools, &shown.tools, &mut skipped);
        change.apply(export, &mut shown.tools, &mut skipped);
    }
    let change = plan(List::Prompts, &mut owners.prompts, &shown.prompts, &mut skipped);
    change.apply(export, &mut shown.prompts, &mut skipped);
    let change = plan(List::Resources, &mut owners.resources, &shown.resources, &mut skipped);
    change.apply(export, &mut shown.resources, &mut skipped);
    let templates = plan(List::Templates, &mut owners.templates, &shown.templates, &mut skipped);
    let matcher = |listed: &NewEntry<'_>| match listed.item {
        Item::Template(template) => Some((template.uri_template().clone(), listed.key.to_owned())),
        _ => None,
    };
    shown.matchers = templates.wanted.iter().filter_map(matcher).collect();
    let down: Vec<String> = templates.wanted.iter().filter(|w| !w.is_up).map(|w| w.name.clone()).collect();
    templates.apply(export, &mut shown.templates, &mut skipped);
    // Templates that the server rejected are not included.
    let ExportedEntries { templates, matchers, .. } = shown;
    matchers.retain(|(template, _)| {
        let template = template.as_str();
        templates.contains_key(template) || down.iter().any(|down| down == template)
    });
    skipped
}

fn lazy_tool(wanted: &NewEntry<'_>) -> Option<LazyTool> {
    match wanted.item {
        Item::Tool(tool) => Some(LazyTool::new(&wanted.name, wanted.key, tool)),
        _ => None,
    }
}

/// Returns a tool name that common hosts accept. Other characters become `_`, and a long name is
/// cut. A changed name ends with a hash of the whole name, which makes it unique and stable.
fn accepted_name(full: String) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if full.len() <= MAX_NAME && full.chars().all(allowed) {
        return full;
    }
    // FNV-1a, because the name must not depend on the version of this library.
    let hash =
        full.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let kept = full.chars().take(MAX_NAME - 9).map(|c| if allowed(c) { c } else { '_' });
    format!("{}_{hash:08x}", kept.collect::<String>())
}

/// Adds the tools that are not offered because another tool was renamed to their name.
fn skip_taken(servers: &[Source<'_>], skipped: &mut Vec<Skipped>) {
    for Source { member, listing, .. } in servers {
        for tool in &listing.tools.entries {
            if let Some(other) = member.upstream.names.taken_by(&tool.name) {
                let error = Error::new(ErrorKind::Invalid, format!("{other:?} was renamed to it"));
                let (server, name) = (member.key.clone(), Some(tool.name.clone()));
                skipped.push(Skipped { server, name, owner: None, error });
            }
        }
    }
}

impl Listing {
    /// Returns the entries of a list, and the error if it is incomplete.
    fn part(&self, list: List) -> (Vec<Item<'_>>, Option<&Error>) {
        match list {
            List::Tools => self.tools.items(Item::Tool),
            List::Prompts => self.prompts.items(Item::Prompt),
            List::Resources => self.resources.items(Item::Resource),
            List::Templates => self.templates.items(Item::Template),
        }
    }
}

impl<T> Part<T> {
    fn items<'a>(&'a self, item: fn(&'a T) -> Item<'a>) -> (Vec<Item<'a>>, Option<&'a Error>) {
        (self.entries.iter().map(item).collect(), self.error.as_ref())
    }
}

impl<'a> Item<'a> {
    /// Returns the description of the entry as its server sent it.
    fn source(self) -> &'a Option<Json> {
        match self {
            Item::Tool(tool) => &tool.source,
            Item::Prompt(prompt) => &prompt.source,
            Item::Resource(resource) => &resource.source,
            Item::Template(template) => &template.source,
        }
    }

    /// Returns the name under which the entry is offered; `None` if it is not offered.
    fn name(self, export: &Export, member: &Member) -> Option<String> {
        let names = &member.upstream.names;
        match (self, &export.only) {
            (Item::Tool(tool), None) => names.tool(&member.key, &tool.name).map(accepted_name),
            (Item::Tool(tool), Some(_)) => {
                names.own_tool(&tool.name).map(|name| accepted_name(name.to_owned()))
            }
            (Item::Prompt(prompt), None) => Some(names.prompt(&member.key, &prompt.name)),
            (Item::Prompt(prompt), Some(_)) => Some(prompt.name.clone()),
            (Item::Resource(resource), _) => Some(resource.uri.clone()),
            (Item::Template(template), _) => Some(template.uri_template().as_str().to_owned()),
        }
    }
}

impl NewEntry<'_> {
    /// Adds the entry to the server's list.
    fn add(&self, export: &Arc<Export>, registry: &mut Registry) -> Result<(), Error> {
        match self.item {
            Item::Tool(tool) => self.add_tool(export, registry, tool),
            Item::Prompt(prompt) => self.add_prompt(export, registry, prompt),
            Item::Resource(resource) => {
                registry.add_resource(ResourceEntry::new(resource.clone(), reader(export, self.key))?)
            }
            Item::Template(template) => self.add_template(export, registry, template),
        }
    }

    fn add_tool(&self, export: &Arc<Export>, registry: &mut Registry, tool: &Tool) -> Result<(), Error> {
        let (export, key, there) = (Arc::clone(export), self.key.to_owned(), tool.name.clone());
        let run = move |ctx: &mut Context<'_>, arguments: Value<'_>| {
            export.call_tool(ctx, (&key, &there), arguments)
        };
        let tool = Tool { name: self.name.clone(), ..tool.clone() };
        // The upstream server checks arguments and results.
        let checks = Checks { input: None, output: None };
        registry.add_tool(ToolEntry::new(tool, ToolHandler::Pooled(Arc::new(run)), checks)?)
    }

    fn add_prompt(
        &self,
        export: &Arc<Export>,
        registry: &mut Registry,
        prompt: &Prompt,
    ) -> Result<(), Error> {
        let (to, server, there) = (Arc::clone(export), self.key.to_owned(), prompt.name.clone());
        let fill = move |ctx: &mut Context<'_>, arguments: &Arguments<'_>| {
            to.prompt(ctx, (&server, &there), arguments)
        };
        let offered = Prompt { name: self.name.clone(), ..prompt.clone() };
        registry.add_prompt(PromptEntry::new(offered, Arc::new(fill))?)?;
        for argument in prompt.arguments.iter().filter(|_| self.completes) {
            let (to, server, there) = (Arc::clone(export), self.key.to_owned(), prompt.name.clone());
            let complete = move |ctx: &mut Context<'_>, asked: &CompletionRequest<'_>| {
                to.complete(ctx, &server, CompletionTarget::Prompt(&there), asked)
            };
            registry.add_completion(
                CompletionKind::Prompt,
                &self.name,
                &argument.name,
                Arc::new(complete),
            )?;
        }
        Ok(())
    }

    fn add_template(
        &self,
        export: &Arc<Export>,
        registry: &mut Registry,
        template: &Template,
    ) -> Result<(), Error> {
        registry.add_template(TemplateEntry::new(template.clone(), reader(export, self.key)))?;
        for variable in template.uri_template().variables().filter(|_| self.completes) {
            let (to, server, there) = (Arc::clone(export), self.key.to_owned(), self.name.clone());
            let complete = move |ctx: &mut Context<'_>, asked: &CompletionRequest<'_>| {
                to.complete(ctx, &server, CompletionTarget::Template(&there), asked)
            };
            registry.add_completion(CompletionKind::Template, &self.name, variable, Arc::new(complete))?;
        }
        Ok(())
    }
}

/// Handler of the URIs of a server. A URI that matches its templates may belong to a server that is
/// down.
pub(super) fn reader(export: &Arc<Export>, key: &str) -> Arc<crate::server::ReadFn> {
    let (export, key) = (Arc::clone(export), key.to_owned());
    Arc::new(move |ctx: &mut Context<'_>, uri: &str, _: &Variables| {
        let owner = export.owner(uri);
        export.read(ctx, owner.as_deref().unwrap_or(&key), uri)
    })
}

/// An entry of a server, with the name that it has in the hub.
struct NamedItem<'a> {
    source: Source<'a>,
    name: String,
    item: Item<'a>,
    /// The server whose longer prefix the name begins with.
    prefix_of: Option<String>,
}

impl<'a> NamedItem<'a> {
    /// Returns the entry under its name; `None` if it is not offered. `members` are all servers.
    fn of(
        item: Item<'a>,
        source: Source<'a>,
        export: &Export,
        members: &[Arc<Member>],
    ) -> Option<NamedItem<'a>> {
        let name = item.name(export, source.member)?;
        let names = &source.member.upstream.names;
        let own = names.prefix_length(&source.member.key);
        let has_longer = |other: &&Arc<Member>| {
            let (key, names) = (&*other.key, &other.upstream.names);
            let at_server = match item {
                Item::Tool(_) => names.tool_at_server(key, &name),
                Item::Prompt(_) => names.prompt_at_server(key, &name),
                Item::Resource(_) | Item::Template(_) => None,
            };
            names.prefix_length(key) > own && at_server.is_some()
        };
        let prefix_of = match export.only {
            None => members.iter().find(has_longer).map(|other| other.key.clone()),
            Some(_) => None,
        };
        Some(NamedItem { source, name, item, prefix_of })
    }

    /// Returns the server that has the name instead, and the error.
    fn clash(&self, owner: Option<&str>) -> Option<(String, String)> {
        if let Some(other) = &self.prefix_of {
            let why =
                format!("it begins with the prefix of the server {other:?}; give one of them another prefix");
            return Some((other.clone(), why));
        }
        let owner = owner.filter(|owner| *owner != self.source.member.key)?;
        Some((owner.to_owned(), format!("the server {owner:?} has this name; give one of them a prefix")))
    }
}

/// Determines the owner of each name: the present one if the name stays with it, otherwise the
/// first server that lists the name.
fn owners_of(named: &[NamedItem<'_>], before: &Owners) -> Owners {
    let mut owners = Owners::new();
    for named in named.iter().filter(|named| named.prefix_of.is_none()) {
        let key = &named.source.member.key;
        let stays = matches!(before.get(&named.name), Some((owner, true)) if owner == key);
        if stays || !owners.contains_key(&named.name) {
            owners.insert(named.name.clone(), (key.clone(), stays || named.source.keeps_names));
        }
    }
    owners
}

impl<'a> ListChange<'a> {
    /// Compares the listings with the server's list.
    fn of(
        list: List,
        export: &Export,
        servers: &[Source<'a>],
        (owners, shown): (&mut Owners, &Table),
        skipped: &mut Vec<Skipped>,
    ) -> ListChange<'a> {
        if matches!(list, List::Tools) {
            skip_taken(servers, skipped);
        }
        let (members, mut named) = (export.all.hub.members(), Vec::new());
        for &source in servers {
            let (items, error) = source.listing.part(list);
            if let Some(error) = error.filter(|_| source.is_up) {
                let error = Error::new(error.kind(), error.to_string());
                skipped.push(Skipped { server: source.member.key.clone(), name: None, owner: None, error });
            }
            let items = items.into_iter().filter_map(|item| NamedItem::of(item, source, export, &members));
            named.extend(items);
        }
        *owners = owners_of(&named, owners);
        let mut seen = BTreeSet::new();
        let mut wanted = Vec::new();
        for named in named {
            let Source { member, listing, is_up, .. } = named.source;
            let (key, owner) = (&*member.key, owners.get(&named.name).map(|(owner, _)| &**owner));
            let clash = named.clash(owner).or_else(|| {
                let is_new = seen.insert(named.name.clone());
                (!is_new).then(|| (key.to_owned(), "the server has this name twice".to_owned()))
            });
            let NamedItem { name, item, .. } = named;
            if let Some((owner, why)) = clash {
                let error = Error::new(ErrorKind::Invalid, why);
                let (server, owner) = (key.to_owned(), Some(owner));
                skipped.push(Skipped { server, name: Some(name), owner, error });
                continue;
            }
            let unchanged =
                matches!(shown.get(&name), Some((owner, was)) if owner == key && was == item.source());
            wanted.push(NewEntry { name, key, item, completes: listing.completes, unchanged, is_up });
        }
        let offered = || wanted.iter().filter(|w: &&NewEntry<'_>| w.is_up);
        let mut names = BTreeSet::new();
        names.extend(offered().map(|w| &w.name));
        let gone = shown.keys().filter(|name| !names.contains(name));
        let changed = offered().filter(|w| !w.unchanged && shown.contains_key(&w.name)).map(|w| &w.name);
        let removed = gone.chain(changed).cloned().collect();
        ListChange { list, removed, wanted }
    }

    fn apply(self, export: &Arc<Export>, shown: &mut Table, skipped: &mut Vec<Skipped>) {
        if self.removed.is_empty() && self.wanted.iter().all(|wanted| wanted.unchanged || !wanted.is_up) {
            return;
        }
        let edited = export.handle.edit(&self.list.change(), |registry| {
            let mut changed = !self.removed.is_empty();
            for name in &self.removed {
                self.list.remove(registry, name);
                shown.remove(name);
            }
            let mut added = false;
            for wanted in self.wanted.into_iter().filter(|wanted| wanted.is_up) {
                match wanted.unchanged {
                    true if !added => continue,
                    // Moved after a new entry.
                    true => self.list.remove(registry, &wanted.name),
                    false => {}
                }
                match wanted.add(export, registry) {
                    Ok(()) => {
                        shown.insert(wanted.name, (wanted.key.to_owned(), wanted.item.source().clone()));
                        (added, changed) = (true, true);
                    }
                    Err(error) => {
                        changed |= shown.remove(&wanted.name).is_some();
                        let (server, name) = (wanted.key.to_owned(), Some(wanted.name));
                        skipped.push(Skipped { server, name, owner: None, error });
                    }
                }
            }
            changed
        });
        // OK to drop: the server was dropped.
        let _ = edited;
    }
}
