//! Registration of a definition, and the changes of a reload.
//!
//! Everything is registered as a set of [`Changes`], at the start and at each reload, so both use
//! the same code. Clients see the entries before a reload or those after it. Replaced and new
//! entries move to the end of their lists; entries with the same text stay, with their processes
//! and subscribers.
//!
//! A connection holds the previous entries until its next message, so an idle co-process of a
//! removed tool ends with that message at the latest.
//!
//! # Invariants
//! - An entry that cannot be added changes nothing, except that idle workers of changed tools end.
//! - A folder lists only files that are registered as resources of their own, so a URI that is not
//!   listed is not read.
//! - A URI belongs to one entry: to a resource with this URI, otherwise to the first folder with
//!   such a file.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tinymcp::{Changes, Error, Handle, Resource, Template, ToolError};

use super::definition::{
    Definition, PromptDefinition, ResourceDefinition, Source, TemplateDefinition, ToolDefinition,
};
use super::files;
use super::run::log;
use super::tool;
use super::watch::Stamps;

/// URI template of the resources of cut outputs.
const RESTS: &str = "output://{tool}/{number}";

/// The entries of a running server.
pub(crate) struct Catalog {
    handle: Handle,
    shared: Arc<tool::Shared>,
    definition: Arc<Definition>,
    folders: Vec<Folder>,
    /// The resources of cut outputs are registered.
    has_rests: bool,
    watched: Vec<String>,
    /// Stamps of the files of `watched`.
    stamps: Stamps,
}

/// A folder whose files are listed.
#[derive(Clone)]
struct Folder {
    definition: Arc<ResourceDefinition>,
    /// Paths below the folder that are registered, and their URIs, sorted.
    files: Vec<(PathBuf, String)>,
    /// Stamps of `files`.
    file_stamps: Stamps,
    folder_stamps: Stamps,
}

/// An entry of a definition.
#[derive(Clone, Copy)]
enum Entry<'d> {
    Tool(&'d Arc<ToolDefinition>),
    Resource(&'d Arc<ResourceDefinition>),
    Template(&'d Arc<TemplateDefinition>),
    Prompt(&'d Arc<PromptDefinition>),
}

impl<'d> Entry<'d> {
    fn all(definition: &'d Definition) -> Vec<Entry<'d>> {
        let mut entries: Vec<Entry<'d>> = definition.tools.iter().map(Entry::Tool).collect();
        entries.extend(definition.resources.iter().filter(|r| !r.is_folder).map(Entry::Resource));
        entries.extend(definition.templates.iter().map(Entry::Template));
        entries.extend(definition.prompts.iter().map(Entry::Prompt));
        entries
    }

    fn key(self) -> (u8, &'d str) {
        match self {
            Entry::Tool(tool) => (0, &tool.tool.name),
            Entry::Resource(resource) => (1, &resource.resource.uri),
            Entry::Template(template) => (2, template.template.uri_template().as_str()),
            Entry::Prompt(prompt) => (3, &prompt.prompt.name),
        }
    }

    fn source(self) -> &'d Source {
        match self {
            Entry::Tool(tool) => &tool.source,
            Entry::Resource(resource) => &resource.source,
            Entry::Template(template) => &template.source,
            Entry::Prompt(prompt) => &prompt.source,
        }
    }

    fn add(self, shared: &Arc<tool::Shared>, changes: &mut Changes) -> Result<(), Error> {
        match self {
            Entry::Tool(definition) => {
                let run = tool::handler(Arc::clone(definition), Arc::clone(shared));
                changes.add_tool(definition.tool.clone(), run)
            }
            Entry::Resource(definition) => {
                let (path, mut resource) = (definition.path.clone(), definition.resource.clone());
                resource.mime_type = resource.mime_type.or(files::media_type(&path).map(str::to_owned));
                let media = resource.mime_type.clone();
                changes
                    .add_resource(resource, move |_, uri| files::read_resource(&path, uri, media.as_deref()))
            }
            Entry::Template(definition) => {
                let definition = Arc::clone(definition);
                changes.add_template(definition.template.clone(), move |_, uri, variables| {
                    files::read_template(&definition, uri, variables)
                })
            }
            Entry::Prompt(definition) => {
                let definition = Arc::clone(definition);
                changes.add_prompt(definition.prompt.clone(), move |_, arguments| {
                    files::read_prompt(&definition.file, &definition.prompt, arguments)
                })
            }
        }
    }

    fn remove(self, changes: &mut Changes) -> Result<(), Error> {
        match self {
            Entry::Tool(tool) => changes.remove_tool(&tool.tool.name),
            Entry::Resource(resource) => changes.remove_resource(&resource.resource.uri),
            Entry::Template(template) => changes.remove_template(template.template.uri_template().as_str()),
            Entry::Prompt(prompt) => changes.remove_prompt(&prompt.prompt.name),
        }
    }

    /// Returns whether `others` has an entry with the same key and source.
    fn is_in(self, others: &[Entry<'_>]) -> bool {
        others.iter().any(|other| self.key() == other.key() && self.source().same(other.source()))
    }
}

impl Catalog {
    /// Registers a definition.
    ///
    /// # Errors
    /// An entry is invalid; the message has its place.
    pub(crate) fn new(
        handle: Handle,
        definition: Definition,
        shared: Arc<tool::Shared>,
    ) -> Result<Catalog, String> {
        let definition = Arc::new(definition);
        let mut catalog = Catalog {
            handle,
            shared,
            definition: Arc::clone(&definition),
            folders: Vec::new(),
            has_rests: false,
            watched: Vec::new(),
            stamps: Stamps::default(),
        };
        catalog.replace(&[], definition)?;
        Ok(catalog)
    }

    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Replaces the definition, and lists folders again. Clients are notified of the lists that
    /// change.
    ///
    /// # Errors
    /// An entry is invalid; the message has its place. The previous entries stay.
    pub(crate) fn update(&mut self, new: Definition) -> Result<(), String> {
        let old = Arc::clone(&self.definition);
        self.replace(&Entry::all(&old), Arc::new(new))
    }

    fn replace(&mut self, before: &[Entry<'_>], new: Arc<Definition>) -> Result<(), String> {
        let after = Entry::all(&new);
        let folders = new.resources.iter().filter(|resource| resource.is_folder).map(Folder::read).collect();
        let folders = Folder::distinct(&new, folders);
        let mut changes = self.handle.changes();
        let text = |error: Error| error.to_string();
        for entry in before.iter().filter(|entry| !entry.is_in(&after)) {
            entry.remove(&mut changes).map_err(text)?;
        }
        self.remove_files(&folders, &mut changes).map_err(text)?;
        for entry in after.iter().filter(|entry| !entry.is_in(before)) {
            let added = entry.add(&self.shared, &mut changes);
            added.map_err(|error| format!("{}: {error}", entry.source().place))?;
        }
        self.add_files(&folders, &mut changes).map_err(text)?;
        let adds_rests = !self.has_rests
            && new.tools.iter().any(|tool| tool.link_rest)
            && new.templates.iter().all(|other| other.template.uri_template().as_str() != RESTS);
        if adds_rests {
            self.add_rests(&mut changes).map_err(text)?;
        }
        changes.apply().map_err(text)?;
        self.has_rests |= adds_rests;
        self.definition = Arc::clone(&new);
        self.set_folders(folders);
        self.watch();
        Ok(())
    }

    /// Replaces the processes of workers.
    pub(crate) fn renew_workers(&self) {
        self.shared.renew();
    }

    /// Adds the resources of cut outputs. They stay when no tool links to them any longer.
    fn add_rests(&self, changes: &mut Changes) -> Result<(), Error> {
        let template =
            Template::new(RESTS, "output")?.description("The rest of a tool's output, if it was cut");
        let shared = Arc::clone(&self.shared);
        changes.add_template(template, move |_, uri, _| {
            shared.read_rest(uri).ok_or_else(|| ToolError::not_found(uri))
        })
    }

    /// Removes the files of folders that are not among those of `new`.
    fn remove_files(&self, new: &[Folder], changes: &mut Changes) -> Result<(), Error> {
        let new = Folder::owners(new);
        for folder in &self.folders {
            for (_, uri) in folder.files.iter().filter(|(_, uri)| !folder.owns(uri, &new)) {
                changes.remove_resource(uri)?;
            }
        }
        Ok(())
    }

    /// Adds the files of `new` that are not registered.
    fn add_files(&self, new: &[Folder], changes: &mut Changes) -> Result<(), Error> {
        let old = Folder::owners(&self.folders);
        for folder in new {
            for (path, uri) in folder.files.iter().filter(|(_, uri)| !folder.owns(uri, &old)) {
                folder.add(path, uri, changes)?;
            }
        }
        Ok(())
    }

    /// Sets the folders whose files are registered. Files that were there keep their stamps.
    fn set_folders(&mut self, folders: Vec<Folder>) {
        let mut old = std::mem::replace(&mut self.folders, folders);
        for folder in &mut self.folders {
            let uri = &folder.definition.resource.uri;
            let same = old.iter_mut().find(|old| old.definition.resource.uri == *uri);
            folder.file_stamps = same.map(|old| std::mem::take(&mut old.file_stamps)).unwrap_or_default();
            let root = &folder.definition.path;
            folder.file_stamps.replace(&mut folder.files.iter().map(|(path, _)| root.join(path)));
        }
    }

    /// Watches the files of the definition. Those that were watched before keep their stamps.
    fn watch(&mut self) {
        let watched = || self.definition.resources.iter().filter(|r| r.watch && !r.is_folder);
        self.watched = watched().map(|r| r.resource.uri.clone()).collect();
        self.stamps.replace(&mut watched().map(|r| r.path.clone()));
    }

    /// Returns whether a resource is watched.
    pub(crate) fn watches(&self) -> bool {
        !self.watched.is_empty() || self.folders.iter().any(|folder| folder.definition.watch)
    }

    /// Notifies clients of watched files that changed, and lists changed folders again.
    ///
    /// # Errors
    /// Serving is over, or updates were not announced.
    pub(crate) fn reload(&mut self) -> Result<(), Error> {
        for at in self.stamps.changed() {
            if let Some(uri) = self.watched.get(at) {
                self.handle.resource_updated(uri)?;
            }
        }
        let mut changed = Vec::with_capacity(self.folders.len());
        for folder in &mut self.folders {
            let watch = folder.definition.watch;
            for at in if watch { folder.file_stamps.changed() } else { Vec::new() } {
                if let Some((_, uri)) = folder.files.get(at) {
                    self.handle.resource_updated(uri)?;
                }
            }
            changed.push(watch && !folder.folder_stamps.changed().is_empty());
        }
        if changed.contains(&true) {
            let again = |(folder, changed): (&Folder, &bool)| match changed {
                true => Folder::read(&folder.definition),
                false => folder.clone(),
            };
            let folders = self.folders.iter().zip(&changed).map(again).collect();
            let folders = Folder::distinct(&self.definition, folders);
            let mut changes = self.handle.changes();
            self.remove_files(&folders, &mut changes)?;
            self.add_files(&folders, &mut changes)?;
            changes.apply()?;
            self.set_folders(folders);
        }
        Ok(())
    }
}

impl Folder {
    /// Lists the files of a folder.
    fn read(definition: &Arc<ResourceDefinition>) -> Folder {
        let (uri, root) = (&definition.resource.uri, &definition.path);
        let listing = files::list_folder(root).unwrap_or_else(|error| {
            log(&format!("{uri}: {}: {error}", root.display()));
            let mut empty = files::Listing::default();
            empty.folders.push(root.clone());
            empty
        });
        if listing.truncated {
            log(&format!("{uri}: {}: too many files; {} are listed", root.display(), listing.files.len()));
        }
        let files = listing.files.into_iter().map(|path| {
            let uri = files::uri_below(uri, &path);
            (path, uri)
        });
        Folder {
            definition: Arc::clone(definition),
            files: files.collect(),
            file_stamps: Stamps::default(),
            folder_stamps: listing.folders,
        }
    }

    /// Drops files whose URI belongs to a resource of the definition or to an earlier folder.
    fn distinct(definition: &Definition, mut folders: Vec<Folder>) -> Vec<Folder> {
        let resources = definition.resources.iter().filter(|resource| !resource.is_folder);
        let mut taken: HashSet<String> = resources.map(|resource| resource.resource.uri.clone()).collect();
        for folder in &mut folders {
            folder.files.retain(|(_, uri)| taken.insert(uri.clone()));
        }
        folders
    }

    /// Returns the folder of each URI.
    fn owners(folders: &[Folder]) -> HashMap<&str, &Folder> {
        let uris = folders.iter().flat_map(|f| f.files.iter().map(move |(_, uri)| (uri.as_str(), f)));
        uris.collect()
    }

    /// Returns whether the owner of the URI is this folder, with the same definition.
    fn owns(&self, uri: &str, owners: &HashMap<&str, &Folder>) -> bool {
        let (definition, owner) = (&self.definition, owners.get(uri));
        owner.is_some_and(|owner| {
            owner.definition.resource.uri == definition.resource.uri
                && owner.definition.source.same(&definition.source)
        })
    }

    fn add(&self, path: &Path, uri: &str, changes: &mut Changes) -> Result<(), Error> {
        let (root, below) = (self.definition.path.clone(), path.to_owned());
        let folder = &self.definition.resource;
        let mut resource = Resource::new(uri, path.to_string_lossy());
        resource.mime_type = folder.mime_type.clone().or(files::media_type(path).map(str::to_owned));
        resource.annotations = folder.annotations.clone();
        let media = resource.mime_type.clone();
        changes.add_resource(resource, move |_, uri| files::read_below(&root, &below, uri, media.as_deref()))
    }
}
