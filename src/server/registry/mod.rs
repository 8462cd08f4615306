//! Registry: tools, resources, templates and prompts with their handlers and completions.
//!
//! A registry is an immutable snapshot behind an `Arc`. Each message uses one snapshot. A change
//! creates a new one. Lists keep the order of registration. Descriptors are rendered once for each
//! revision.
//!
//! # Invariants
//! - `order` of each table is sorted by name.
//! - No method of [`Registry`] calls code of the program or drops a handler: an owner that locks a
//!   registry takes [`Registry::dropped`] and drops it after unlocking.
//! - Sequence numbers of entries increase; cursors refer to them.

pub(crate) mod catalog;
pub(crate) mod cursor;
mod lookup;
pub(crate) mod tool_views;
#[cfg(feature = "schema")]
pub(crate) mod validation;

use std::sync::{Arc, OnceLock};

use crate::era::Descriptor;
#[cfg(feature = "http-server")]
use crate::era::modern::header::{self, MirroredArgument};
use crate::error::{Error, ErrorKind};
use crate::json::{Doc, Json, Kind, Value, Writer};
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::uri_template::{UriTemplate, Variables, has_scheme};
use crate::model::{CompletionKind, Fault, Revision, ServerCapabilities};
use crate::tool_name::{TOOL_NAMES, is_tool_name};

use self::catalog::Dropped;
use self::tool_views::Form;
use crate::server::call::Output;
use crate::server::context::Context;
use crate::server::tool_error::ToolError;

/// Compiled check of values against one schema. A [`SchemaCompiler`] creates it.
pub trait SchemaCheck: Send + Sync {
    /// Checks a value.
    ///
    /// # Errors
    /// The place and the reason of the violation, for a model.
    fn check(&self, value: Value<'_>) -> Result<(), crate::record::Violation>;
}

/// Compiler of a schema to a check, called when a tool is registered.
///
/// The feature `schema` has a compiler, which servers use by default.
/// [`Server::schema_compiler`](crate::Server::schema_compiler) sets another one:
///
#[doc = include_str!("schema_compiler.md")]
pub trait SchemaCompiler: Send + Sync {
    /// Returns the check for this schema.
    ///
    /// # Errors
    /// The reason why the schema is invalid, for the programmer.
    fn compile(&self, schema: Value<'_>) -> Result<Arc<dyn SchemaCheck>, String>;
}

/// Compilers for the checks of a tool's arguments and results; `None` if no check is needed.
#[derive(Clone, Copy)]
pub(crate) struct Checks<'c> {
    pub input: Option<&'c dyn SchemaCompiler>,
    pub output: Option<&'c dyn SchemaCompiler>,
}

/// Runs a tool on its arguments.
pub(crate) type ToolFn = dyn Fn(&mut Context<'_>, Value<'_>) -> Result<Output, ToolError> + Send + Sync;
/// Reads a resource: its URI, and the variables of the template that matched.
pub(crate) type ReadFn =
    dyn Fn(&mut Context<'_>, &str, &Variables) -> Result<Output, ToolError> + Send + Sync;
/// Fills in a prompt.
pub(crate) type PromptFn =
    dyn Fn(&mut Context<'_>, &Arguments<'_>) -> Result<Output, ToolError> + Send + Sync;
/// Completes an argument.
pub(crate) type CompleteFn =
    dyn Fn(&mut Context<'_>, &CompletionRequest<'_>) -> Result<Output, ToolError> + Send + Sync;

/// Arguments of a [`Prompt`], or the context of a completion: strings by name.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'d>(Option<Value<'d>>);

impl<'d> Arguments<'d> {
    pub(crate) fn new(object: Option<Value<'d>>) -> Arguments<'d> {
        Arguments(object)
    }

    /// Returns an argument's value.
    pub fn get(&self, name: &str) -> Option<&'d str> {
        self.0?.get(name)?.as_str()
    }

    /// Returns a required argument.
    ///
    /// # Errors
    /// It is missing. The error is sent to the client.
    pub fn required(&self, name: &str) -> Result<&'d str, ToolError> {
        self.get(name).ok_or_else(|| {
            ToolError::fault(Fault::InvalidParams(format!("Missing required argument: {name}").into()))
        })
    }

    /// Returns every argument with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'d str, &'d str)> {
        let members = self.0.map(Value::members);
        members.into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_str()?)))
    }
}

/// Request for a [`Completion`](crate::Completion) of one argument.
#[derive(Clone, Copy, Debug)]
pub struct CompletionRequest<'d> {
    /// The argument's or variable's name.
    pub argument: &'d str,
    /// The text so far.
    pub value: &'d str,
    /// Arguments with known values.
    pub context: Arguments<'d>,
}

/// Handler of a tool.
#[derive(Clone)]
pub(crate) enum ToolHandler {
    /// On a worker.
    Pooled(Arc<ToolFn>),
    /// On the reader thread; the index of the inline handler.
    Inline(usize),
}

pub(crate) struct ToolEntry {
    pub tool: Tool,
    pub handler: ToolHandler,
    pub input: Option<Arc<dyn SchemaCheck>>,
    pub output: Option<Arc<dyn SchemaCheck>>,
    /// Arguments that HTTP clients repeat in header fields.
    #[cfg(feature = "http-server")]
    pub mirrors: Box<[MirroredArgument]>,
}

pub(crate) struct ResourceEntry {
    pub resource: Resource,
    pub read: Arc<ReadFn>,
}

pub(crate) struct TemplateEntry {
    pub template: Template,
    /// [`UriTemplate::matches`]. A pointer, so that a program without templates links no matcher.
    matches: fn(&UriTemplate, &str) -> Option<Variables>,
    pub read: Arc<ReadFn>,
}

impl TemplateEntry {
    pub(crate) fn new(template: Template, read: Arc<ReadFn>) -> TemplateEntry {
        TemplateEntry { template, matches: UriTemplate::matches, read }
    }

    fn matches(&self, uri: &str) -> Option<Variables> {
        (self.matches)(&self.template.uri, uri)
    }
}

pub(crate) struct PromptEntry {
    pub prompt: Prompt,
    pub fill: Arc<PromptFn>,
}

/// Completion of one argument of one prompt or template.
#[derive(Clone)]
struct CompleteEntry {
    kind: CompletionKind,
    subject: String,
    argument: String,
    complete: Arc<CompleteFn>,
}

/// Rendered description for each revision.
pub(crate) type Renderings = [OnceLock<Box<str>>; Revision::COUNT];

/// Entry of a table, with its rendered descriptions.
pub(crate) struct Row<T> {
    pub entry: T,
    pub sequence: u64,
    rendered: Renderings,
    /// Rendered descriptions for each profile, in the order of [`crate::lint::PROFILES`].
    #[cfg(feature = "lint")]
    simplified: OnceLock<Box<[Renderings]>>,
}

impl<T> Row<T> {
    /// Creates an entry that is in no list.
    fn alone(entry: T) -> Arc<Row<T>> {
        Arc::new(Row {
            entry,
            sequence: 0,
            rendered: Default::default(),
            #[cfg(feature = "lint")]
            simplified: OnceLock::new(),
        })
    }
}

/// Entry that lists can show.
pub(crate) trait Describe: Send + Sync + 'static {
    /// Returns the key of the entry.
    fn name(&self) -> &str;
    /// Returns the description.
    fn descriptor(&self) -> Descriptor<'_>;
    /// Returns the entry for a function of the program.
    #[cfg(feature = "visibility")]
    fn as_entry(&self) -> crate::server::CatalogEntry<'_>;
    /// Writes the description in a form.
    fn render(&self, w: &mut Writer, revision: Revision, _form: Form) {
        self.descriptor().render(w, revision);
    }
}

impl<T: Describe> Row<T> {
    /// Returns the descriptor for `revision`, without a line end.
    pub(crate) fn rendered(&self, revision: Revision, form: Form) -> &str {
        let cells = &self.rendered;
        #[cfg(feature = "lint")]
        let cells = form.and_then(|profile| tool_views::cells(&self.simplified, profile)).unwrap_or(cells);
        match cells.get(revision.slot()) {
            Some(cell) => cell.get_or_init(|| {
                let mut w = Writer::new();
                self.entry.render(&mut w, revision, form);
                // `newline` replaces raw line ends once here, instead of in every list.
                w.newline();
                w.as_str().strip_suffix('\n').unwrap_or_default().into()
            }),
            None => "",
        }
    }
}

/// Entries in order of registration, with an index by name.
pub(crate) struct Table<T> {
    entries: Vec<Arc<Row<T>>>,
    order: Vec<u32>,
    next: u64,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Table<T> {
        Table { entries: self.entries.clone(), order: self.order.clone(), next: self.next }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { entries: Vec::new(), order: Vec::new(), next: 0 }
    }
}

impl<T: Describe> Table<T> {
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.order
            .binary_search_by(|at| self.entries.get(*at as usize).map_or("", |e| e.entry.name()).cmp(name))
    }

    fn add(&mut self, entry: T, dropped: &mut Dropped) -> Result<(), Error> {
        match self.position(entry.name()) {
            Ok(_) => {
                let error = misuse(format!("{:?} is already registered", entry.name()));
                dropped.add(entry);
                Err(error)
            }
            Err(at) => {
                self.order.insert(at, self.entries.len() as u32);
                self.next += 1;
                self.entries.push(Arc::new(Row {
                    entry,
                    sequence: self.next,
                    rendered: Default::default(),
                    #[cfg(feature = "lint")]
                    simplified: OnceLock::new(),
                }));
                Ok(())
            }
        }
    }

    fn remove(&mut self, name: &str, dropped: &mut Dropped) -> bool {
        let Ok(at) = self.position(name) else { return false };
        let gone = self.order.remove(at);
        dropped.add(self.entries.remove(gone as usize));
        for place in &mut self.order {
            if *place > gone {
                *place -= 1;
            }
        }
        true
    }

    /// Returns the entry with this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Row<T>>> {
        let at = self.position(name).ok()?;
        self.entries.get(*self.order.get(at)? as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Row<T>>> {
        self.entries.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

macro_rules! describe {
    ($($entry:ident, $field:ident, $name:expr, $descriptor:ident $(, $render:item)?;)*) => {$(
        impl Describe for $entry {
            fn name(&self) -> &str {
                let name: fn(&$entry) -> &str = $name;
                name(self)
            }
            fn descriptor(&self) -> Descriptor<'_> {
                Descriptor::$descriptor(&self.$field)
            }
            #[cfg(feature = "visibility")]
            fn as_entry(&self) -> crate::server::CatalogEntry<'_> {
                crate::server::CatalogEntry::$descriptor(&self.$field)
            }
            $($render)?
        }
    )*};
}
describe! {
    ToolEntry, tool, |e| &e.tool.name, Tool,
        #[cfg(feature = "lint")]
        fn render(&self, w: &mut Writer, revision: Revision, form: Form) {
            match form {
                Some(profile) => Descriptor::Tool(&tool_views::simplified(&self.tool, profile)).render(w, revision),
                None => self.descriptor().render(w, revision),
            }
        };
    ResourceEntry, resource, |e| &e.resource.uri, Resource;
    TemplateEntry, template, |e| e.template.uri.as_str(), Template;
    PromptEntry, prompt, |e| &e.prompt.name, Prompt;
}

/// Snapshot of all registrations.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub tools: Table<ToolEntry>,
    pub resources: Table<ResourceEntry>,
    pub templates: Table<TemplateEntry>,
    pub prompts: Table<PromptEntry>,
    completions: Vec<CompleteEntry>,
    #[cfg(feature = "lint")]
    pub(crate) profiles: self::tool_views::Profiles,
    pub(crate) dropped: Dropped,
}

impl ToolEntry {
    /// Compiles the schemas, which may call code of the program.
    ///
    /// # Errors
    /// The name or a schema is invalid.
    pub(crate) fn new(tool: Tool, handler: ToolHandler, checks: Checks<'_>) -> Result<ToolEntry, Error> {
        if !is_tool_name(&tool.name) {
            return Err(invalid(format!("invalid tool name {:?}: {TOOL_NAMES}", tool.name)));
        }
        let input = compile(&tool.name, "input", tool.input_schema.as_ref(), checks.input, true)?;
        let output = compile(&tool.name, "output", tool.output_schema.as_ref(), checks.output, false)?;
        Ok(ToolEntry {
            #[cfg(feature = "http-server")]
            mirrors: mirrors(&tool)?,
            tool,
            handler,
            input,
            output,
        })
    }
}

impl ResourceEntry {
    /// # Errors
    /// The URI has no scheme.
    pub(crate) fn new(resource: Resource, read: Arc<ReadFn>) -> Result<ResourceEntry, Error> {
        if !has_scheme(&resource.uri) {
            return Err(invalid(format!("invalid URI {:?}: missing scheme (RFC 3986 §3)", resource.uri)));
        }
        Ok(ResourceEntry { resource, read })
    }
}

impl PromptEntry {
    /// # Errors
    /// The prompt has no name, or two arguments with one name.
    pub(crate) fn new(prompt: Prompt, fill: Arc<PromptFn>) -> Result<PromptEntry, Error> {
        if prompt.name.is_empty() {
            return Err(invalid("the name of a prompt must not be empty".to_owned()));
        }
        for (at, argument) in prompt.arguments.iter().enumerate() {
            if prompt.arguments.iter().take(at).any(|other| other.name == argument.name) {
                return Err(misuse(format!(
                    "prompt {:?} has the argument {:?} twice",
                    prompt.name, argument.name
                )));
            }
        }
        Ok(PromptEntry { prompt, fill })
    }
}

impl Registry {
    pub(crate) fn add_tool(&mut self, entry: ToolEntry) -> Result<(), Error> {
        self.tools.add(entry, &mut self.dropped)
    }

    pub(crate) fn remove_tool(&mut self, name: &str) -> bool {
        self.tools.remove(name, &mut self.dropped)
    }

    pub(crate) fn add_resource(&mut self, entry: ResourceEntry) -> Result<(), Error> {
        self.resources.add(entry, &mut self.dropped)
    }

    pub(crate) fn remove_resource(&mut self, uri: &str) -> bool {
        self.resources.remove(uri, &mut self.dropped)
    }

    pub(crate) fn add_template(&mut self, entry: TemplateEntry) -> Result<(), Error> {
        self.templates.add(entry, &mut self.dropped)
    }

    pub(crate) fn remove_template(&mut self, uri_template: &str) -> bool {
        self.forget_completions(CompletionKind::Template, uri_template);
        self.templates.remove(uri_template, &mut self.dropped)
    }

    pub(crate) fn add_prompt(&mut self, entry: PromptEntry) -> Result<(), Error> {
        self.prompts.add(entry, &mut self.dropped)
    }

    pub(crate) fn remove_prompt(&mut self, name: &str) -> bool {
        self.forget_completions(CompletionKind::Prompt, name);
        self.prompts.remove(name, &mut self.dropped)
    }

    pub(crate) fn add_completion(
        &mut self,
        kind: CompletionKind,
        subject: &str,
        argument: &str,
        complete: Arc<CompleteFn>,
    ) -> Result<(), Error> {
        let known = match kind {
            CompletionKind::Prompt => {
                let prompt = self.prompts.find(subject);
                prompt.map(|p| p.entry.prompt.arguments.iter().any(|a| a.name == argument))
            }
            CompletionKind::Template => {
                let template = self.templates.find(subject);
                template.map(|t| t.entry.template.uri.variables().any(|v| v == argument))
            }
        };
        let refusal = match known {
            None => format!("{subject:?} is not registered, so it has nothing to complete"),
            Some(false) => format!("{subject:?} has no argument {argument:?}"),
            Some(true) => {
                self.remove_completions(|c| c.kind == kind && c.subject == subject && c.argument == argument);
                self.completions.push(CompleteEntry {
                    kind,
                    subject: subject.to_owned(),
                    argument: argument.to_owned(),
                    complete,
                });
                return Ok(());
            }
        };
        self.dropped.add(complete);
        Err(misuse(refusal))
    }

    /// Removes the completions of a prompt or template.
    fn forget_completions(&mut self, kind: CompletionKind, subject: &str) {
        self.remove_completions(|c| c.kind == kind && c.subject == subject);
    }

    fn remove_completions(&mut self, which: impl Fn(&CompleteEntry) -> bool) {
        let all = std::mem::take(&mut self.completions);
        let (removed, kept): (Vec<CompleteEntry>, _) = all.into_iter().partition(which);
        self.completions = kept;
        self.dropped.add(removed);
    }

    /// Returns the capabilities of these registrations together with the announced ones.
    pub(crate) fn capabilities(&self, announced: ServerCapabilities) -> ServerCapabilities {
        ServerCapabilities {
            tools: announced.tools_changed || !self.tools.is_empty(),
            resources: announced.resources_changed
                || announced.subscribe
                || !self.resources.is_empty()
                || !self.templates.is_empty(),
            prompts: announced.prompts_changed || !self.prompts.is_empty(),
            completions: announced.completions || !self.completions.is_empty(),
            ..announced
        }
    }
}

fn compile(
    tool: &str,
    which: &str,
    schema: Option<&Json>,
    compiler: Option<&dyn SchemaCompiler>,
    object_root: bool,
) -> Result<Option<Arc<dyn SchemaCheck>>, Error> {
    let Some(schema) = schema else { return Ok(None) };
    let doc: Doc = schema.to_doc();
    let root = doc.root();
    if root.kind() != Kind::Object {
        return Err(invalid(format!("the {which} schema of tool {tool:?} is not an object")));
    }
    if object_root && root.get("type").and_then(Value::as_str) != Some("object") {
        return Err(invalid(format!(
            "the {which} schema of tool {tool:?} must have \"type\":\"object\" at its root"
        )));
    }
    match compiler.map(|c| c.compile(root)) {
        None => Ok(None),
        Some(Ok(check)) => Ok(Some(check)),
        Some(Err(why)) => Err(invalid(format!("the {which} schema of tool {tool:?}: {why}"))),
    }
}

/// Reads the header annotations of a tool. Invalid ones are an error here, because HTTP clients
/// ignore such a tool (MCP 2026-07-28 server/tools, x-mcp-header).
#[cfg(feature = "http-server")]
fn mirrors(tool: &Tool) -> Result<Box<[MirroredArgument]>, Error> {
    let Some(schema) = &tool.input_schema else { return Ok(Box::default()) };
    match header::mirrors(schema.to_doc().root()) {
        Ok(mirrors) => Ok(mirrors.into()),
        Err(why) => Err(invalid(format!("the input schema of tool {:?}: {why}", tool.name))),
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

fn misuse(message: String) -> Error {
    Error::new(ErrorKind::Misuse, message)
}
