//! Lists of one server of a hub, and their transfer to the lists of the exporting server.
//!
//! Entries are in the order of the servers, not of their responses. Unchanged entries stay or are
//! moved after new entries that precede them. Clients are notified of changes only.

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
use super::lazy::{self, LazyTool};
use super::{Export, Skipped};

/// Longest tool name that all hosts accept, in characters.
const LONGEST: usize = 64;

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
        self.completes = client.is_ok_and(|client| client.server().offer.completions);
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

/// Entries on the server's lists: by name, the owner's key and the description as received.
#[derive(Default)]
pub(super) struct Shown {
    tools: Table,
    prompts: Table,
    resources: Table,
    templates: Table,
    /// The tools of [`crate::HubBuilder::lazy_tools`], which replace `tools`.
    pub(super) lazy: Arc<Vec<LazyTool>>,
    /// Servers whose list of lazy tools is incomplete, each with the reason.
    pub(super) failed: Vec<(String, String)>,
    /// Parsed templates and the keys of their owners, in the order of the list.
    matchers: Vec<(UriTemplate, String)>,
}

type Table = BTreeMap<String, (String, Option<Json>)>;

impl Shown {
    /// Key of the server that owns the tool of this name.
    pub(super) fn owner_of_tool(&self, name: &str) -> Option<&str> {
        let listed = self.tools.get(name).map(|(key, _)| &**key);
        listed.or_else(|| lazy::owner(&self.lazy, name))
    }

    /// Key of the server that owns the prompt of this name.
    pub(super) fn owner_of_prompt(&self, name: &str) -> Option<&str> {
        self.prompts.get(name).map(|(key, _)| &**key)
    }

    /// Key of the server that owns a resource: the first server that lists it, else the first one
    /// with a template that matches. Servers are in the order they were added, the templates of a
    /// server in its order. A template of a server may be ambiguous; a match is leftmost-greedy,
    /// see [`UriTemplate::matches`].
    pub(super) fn owner(&self, uri: &str) -> Option<&str> {
        let listed = self.resources.get(uri).map(|(key, _)| key);
        let matching = || self.matchers.iter().find(|(template, _)| template.matches(uri).is_some());
        listed.or_else(|| matching().map(|(_, key)| key)).map(|key| &**key)
    }
}

/// Change of one list.
struct Plan<'a, T> {
    removed: Vec<String>,
    /// The whole new list, in order.
    wanted: Vec<Wanted<'a, T>>,
}

struct Wanted<'a, T> {
    name: String,
    /// The owner's key.
    key: &'a str,
    entry: &'a T,
    completes: bool,
    /// On the list already.
    unchanged: bool,
}

/// Makes the server's lists equal to the listings; returns the entries that cannot be offered.
pub(super) fn show(export: &Arc<Export>, servers: &[(&Member, &Listing)], shown: &mut Shown) -> Vec<Skipped> {
    let mut skipped = Vec::new();
    match export.all.hub.shared.handlers.has_lazy_tools() {
        true => {
            shown.lazy = Arc::new(lazy_tools(export, servers, &mut skipped));
            let failed = skipped.iter().filter(|skipped| skipped.name.is_none());
            shown.failed = failed.map(|s| (s.server.clone(), s.error.to_string())).collect();
        }
        false => show_tools(export, servers, &mut shown.tools, &mut skipped),
    }
    show_prompts(export, servers, &mut shown.prompts, &mut skipped);
    show_resources(export, servers, &mut shown.resources, &mut skipped);
    show_templates(export, servers, shown, &mut skipped);
    skipped
}

/// Tool name that all hosts accept: other characters become `_`, a long name is cut, and a changed
/// name ends with a hash of the whole name, which makes it unique and stable.
fn accepted_name(full: String) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if full.len() <= LONGEST && full.chars().all(allowed) {
        return full;
    }
    // FNV-1a, because the name must not depend on the version of this library.
    let hash =
        full.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let kept = full.chars().take(LONGEST - 9).map(|c| if allowed(c) { c } else { '_' });
    format!("{}_{hash:08x}", kept.collect::<String>())
}

fn plan_tools<'a>(
    export: &Export,
    servers: &[(&'a Member, &'a Listing)],
    shown: &Table,
    skipped: &mut Vec<Skipped>,
) -> Plan<'a, Tool> {
    let name = |member: &Member, tool: &Tool| {
        let names = &member.upstream.names;
        let name = match export.only {
            None => names.tool(&member.key, &tool.name),
            Some(_) => names.own_tool(&tool.name).map(str::to_owned),
        };
        name.map(accepted_name)
    };
    Plan::of(servers, |l| &l.tools, |t| &t.source, name, shown, skipped)
}

fn lazy_tools(export: &Export, servers: &[(&Member, &Listing)], skipped: &mut Vec<Skipped>) -> Vec<LazyTool> {
    let plan = plan_tools(export, servers, &Table::new(), skipped);
    plan.wanted.iter().map(|wanted| LazyTool::new(&wanted.name, wanted.key, wanted.entry)).collect()
}

fn show_tools(
    export: &Arc<Export>,
    servers: &[(&Member, &Listing)],
    shown: &mut Table,
    skipped: &mut Vec<Skipped>,
) {
    let plan = plan_tools(export, servers, shown, skipped);
    plan.carry_out(
        export,
        &Change::Tools,
        shown,
        skipped,
        |tool| tool.source.clone(),
        |r, name| _ = r.remove_tool(name),
        |r, name, key, tool: &Tool, _| {
            let (export, key, there) = (Arc::clone(export), key.to_owned(), tool.name.clone());
            let run = move |ctx: &mut Context<'_>, arguments: Value<'_>| {
                export.call_tool(ctx, (&key, &there), arguments)
            };
            let tool = Tool { name: name.to_owned(), ..tool.clone() };
            // The server checks arguments and results.
            let checks = Checks { input: None, output: None };
            r.add_tool(ToolEntry::new(tool, ToolHandler::Pooled(Arc::new(run)), checks)?)
        },
    );
}

fn show_prompts(
    export: &Arc<Export>,
    servers: &[(&Member, &Listing)],
    shown: &mut Table,
    skipped: &mut Vec<Skipped>,
) {
    let name = |member: &Member, prompt: &Prompt| match export.only {
        None => Some(member.upstream.names.prompt(&member.key, &prompt.name)),
        Some(_) => Some(prompt.name.clone()),
    };
    let plan = Plan::of(servers, |l| &l.prompts, |p| &p.source, name, shown, skipped);
    plan.carry_out(
        export,
        &Change::Prompts,
        shown,
        skipped,
        |prompt| prompt.source.clone(),
        |r, name| _ = r.remove_prompt(name),
        |r, name, key, prompt: &Prompt, completes| {
            let (to, server, there) = (Arc::clone(export), key.to_owned(), prompt.name.clone());
            let fill = move |ctx: &mut Context<'_>, arguments: &Arguments<'_>| {
                to.prompt(ctx, (&server, &there), arguments)
            };
            let offered = Prompt { name: name.to_owned(), ..prompt.clone() };
            r.add_prompt(PromptEntry::new(offered, Arc::new(fill))?)?;
            for argument in prompt.arguments.iter().filter(|_| completes) {
                let (to, server, there) = (Arc::clone(export), key.to_owned(), prompt.name.clone());
                let complete = move |ctx: &mut Context<'_>, asked: &CompletionRequest<'_>| {
                    to.complete(ctx, &server, CompletionTarget::Prompt(&there), asked)
                };
                r.add_completion(CompletionKind::Prompt, name, &argument.name, Arc::new(complete))?;
            }
            Ok(())
        },
    );
}

fn show_resources(
    export: &Arc<Export>,
    servers: &[(&Member, &Listing)],
    shown: &mut Table,
    skipped: &mut Vec<Skipped>,
) {
    let plan = Plan::of(servers, |l| &l.resources, |r| &r.source, |_, r| Some(r.uri.clone()), shown, skipped);
    plan.carry_out(
        export,
        &Change::Resources,
        shown,
        skipped,
        |resource| resource.source.clone(),
        |r, uri| _ = r.remove_resource(uri),
        |r, _, key, resource: &Resource, _| {
            r.add_resource(ResourceEntry::new(resource.clone(), reader(export, key))?)
        },
    );
}

fn show_templates(
    export: &Arc<Export>,
    servers: &[(&Member, &Listing)],
    shown: &mut Shown,
    skipped: &mut Vec<Skipped>,
) {
    let uri = |_: &Member, t: &Template| Some(t.uri_template().as_str().to_owned());
    let plan = Plan::of(servers, |l| &l.templates, |t| &t.source, uri, &shown.templates, skipped);
    let listed = plan.wanted.iter();
    let matchers = listed.map(|listed| (listed.entry.uri_template().clone(), listed.key.to_owned()));
    shown.matchers = matchers.collect();
    plan.carry_out(
        export,
        &Change::Resources,
        &mut shown.templates,
        skipped,
        |template| template.source.clone(),
        |r, uri| _ = r.remove_template(uri),
        |r, uri, key, template: &Template, completes| {
            r.add_template(TemplateEntry::new(template.clone(), reader(export, key)))?;
            for variable in template.uri_template().variables().filter(|_| completes) {
                let (to, server, there) = (Arc::clone(export), key.to_owned(), uri.to_owned());
                let complete = move |ctx: &mut Context<'_>, asked: &CompletionRequest<'_>| {
                    to.complete(ctx, &server, CompletionTarget::Template(&there), asked)
                };
                r.add_completion(CompletionKind::Template, uri, variable, Arc::new(complete))?;
            }
            Ok(())
        },
    );
    // Without the templates that the server rejected.
    let Shown { templates, matchers, .. } = shown;
    matchers.retain(|(template, _)| templates.contains_key(template.as_str()));
}

/// Handler of the URIs of a server.
pub(super) fn reader(export: &Arc<Export>, key: &str) -> Arc<crate::server::ReadFn> {
    let (export, key) = (Arc::clone(export), key.to_owned());
    Arc::new(move |ctx: &mut Context<'_>, uri: &str, _: &Variables| export.read(ctx, &key, uri))
}

impl<'a, T> Plan<'a, T> {
    /// Compares the listings with the server's list.
    fn of(
        servers: &[(&'a Member, &'a Listing)],
        part: fn(&'a Listing) -> &'a Part<T>,
        source: fn(&T) -> &Option<Json>,
        name: impl Fn(&Member, &T) -> Option<String>,
        shown: &Table,
        skipped: &mut Vec<Skipped>,
    ) -> Plan<'a, T> {
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        let mut wanted: Vec<Wanted<'a, T>> = Vec::new();
        for &(member, listing) in servers {
            let key = &*member.key;
            let part = part(listing);
            if let Some(error) = &part.error {
                let error = Error::new(error.kind(), error.to_string());
                skipped.push(Skipped { server: key.to_owned(), name: None, owner: None, error });
            }
            for entry in &part.entries {
                let Some(name) = name(member, entry) else { continue };
                if let Some(owner) = owners.get(&name) {
                    let why = match *owner == key {
                        true => "the server has this name twice".to_owned(),
                        false => format!("the server {owner:?} has this name; give one of them a prefix"),
                    };
                    let error = Error::new(ErrorKind::Invalid, why);
                    let owner = Some((*owner).to_owned());
                    skipped.push(Skipped { server: key.to_owned(), name: Some(name), owner, error });
                    continue;
                }
                let unchanged =
                    matches!(shown.get(&name), Some((owner, was)) if owner == key && was == source(entry));
                owners.insert(name.clone(), key);
                wanted.push(Wanted { name, key, entry, completes: listing.completes, unchanged });
            }
        }
        let stays: BTreeSet<&str> = wanted.iter().filter(|w| w.unchanged).map(|w| &*w.name).collect();
        let removed = shown.keys().filter(|name| !stays.contains(&***name)).cloned().collect();
        Plan { removed, wanted }
    }

    #[expect(clippy::too_many_arguments, reason = "what differs between the four lists")]
    fn carry_out(
        self,
        export: &Export,
        change: &Change,
        shown: &mut Table,
        skipped: &mut Vec<Skipped>,
        source: fn(&T) -> Option<Json>,
        remove: impl Fn(&mut Registry, &str),
        add: impl Fn(&mut Registry, &str, &str, &T, bool) -> Result<(), Error>,
    ) {
        if self.removed.is_empty() && self.wanted.iter().all(|wanted| wanted.unchanged) {
            return;
        }
        let edited = export.handle.edit(change, |registry| {
            let mut changed = false;
            for name in &self.removed {
                remove(registry, name);
                shown.remove(name);
                changed = true;
            }
            let mut added = false;
            for Wanted { name, key, entry, completes, unchanged } in self.wanted {
                match unchanged {
                    true if !added => continue,
                    // Moved behind a new entry.
                    true => remove(registry, &name),
                    false => {}
                }
                match add(registry, &name, key, entry, completes) {
                    Ok(()) => {
                        shown.insert(name, (key.to_owned(), source(entry)));
                        (added, changed) = (true, true);
                    }
                    Err(error) => {
                        changed |= shown.remove(&name).is_some();
                        let server = key.to_owned();
                        skipped.push(Skipped { server, name: Some(name), owner: None, error });
                    }
                }
            }
            changed
        });
        // OK to drop: the server was dropped.
        let _ = edited;
    }
}
