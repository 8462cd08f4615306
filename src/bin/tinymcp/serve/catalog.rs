//! Registration of a definition, and the changes of a reload.
//!
//! Everything is registered through the [`Handle`], at the start as well as later, so that there is
//! one path. A reload removes the entries that the new definition lacks, replaces changed entries
//! one after the other, and adds new ones. Replaced and new entries move to the end of their lists;
//! entries with the same text stay, with their processes and subscribers.
//!
//! A connection holds the previous entries until its next message, so an idle co-process of a
//! removed tool ends with that message at the latest.
//!
//! # Invariants
//! - An entry that cannot be added changes nothing: the previous entries are registered again.
//! - A folder lists only files that are registered as resources of their own, so a URI that is not
//!   listed is not read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tinymcp::{Error, ErrorKind, Handle, Resource, Template, ToolError};

use super::definition::{
    Definition, PromptDefinition, ResourceDefinition, Source, TemplateDefinition, ToolDefinition,
};
use super::files;
use super::run::log;
use super::tool;
use super::watch::Stamps;

/// The entries of a running server.
pub(crate) struct Catalog {
    handle: Handle,
    shared: Arc<tool::Shared>,
    definition: Arc<Definition>,
    folders: Vec<Folder>,
    watched: Vec<String>,
    /// Stamps of the files of `watched`.
    stamps: Stamps,
}

/// A folder whose files are listed.
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
        // A file that is also below a folder has its own entry, so it is registered first.
        let (folders, files): (Vec<_>, Vec<_>) = definition.resources.iter().partition(|r| r.is_folder);
        entries.extend(files.into_iter().chain(folders).map(Entry::Resource));
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
            watched: Vec::new(),
            stamps: Stamps::default(),
        };
        for entry in Entry::all(&definition) {
            catalog.add(entry).map_err(|error| format!("{}: {error}", entry.source().place))?;
        }
        catalog.add_rests().map_err(|error| error.to_string())?;
        catalog.watch();
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
        let (old, new) = (Arc::clone(&self.definition), Arc::new(new));
        let (before, after) = (Entry::all(&old), Entry::all(&new));
        let gone: Vec<Entry<'_>> = before.iter().copied().filter(|entry| !entry.is_in(&after)).collect();
        let fresh: Vec<Entry<'_>> = after.iter().copied().filter(|entry| !entry.is_in(&before)).collect();
        for entry in gone.iter().filter(|old| !fresh.iter().any(|new| new.key() == old.key())) {
            self.remove(*entry);
        }
        for (at, entry) in fresh.iter().enumerate() {
            // An entry is removed directly before its replacement, so clients miss no more than
            // one.
            for old in gone.iter().filter(|old| old.key() == entry.key()) {
                self.remove(*old);
            }
            if let Err(error) = self.add(*entry) {
                for entry in fresh.iter().take(at) {
                    self.remove(*entry);
                }
                for entry in &gone {
                    // Entries that were not replaced yet are still registered.
                    self.remove(*entry);
                    // OK to ignore: it was registered before.
                    let _ = self.add(*entry);
                }
                return Err(format!("{}: {error}", entry.source().place));
            }
        }
        self.definition = Arc::clone(&new);
        if !old.tools.iter().any(|tool| tool.link_rest) {
            self.add_rests().map_err(|error| error.to_string())?;
        }
        for folder in &mut self.folders {
            folder.list(&self.handle).map_err(|error| error.to_string())?;
        }
        self.watch();
        Ok(())
    }

    /// Adds the resources of cut outputs if a tool links to them. They stay when it is removed.
    fn add_rests(&self) -> Result<(), Error> {
        if !self.definition.tools.iter().any(|tool| tool.link_rest) {
            return Ok(());
        }
        let template = Template::new("output://{tool}/{number}", "output")?
            .description("The rest of a tool's output, if it was cut");
        let shared = Arc::clone(&self.shared);
        let added = self.handle.add_template(template, move |_, uri, _| {
            shared.read_rest(uri).ok_or_else(|| ToolError::not_found(uri))
        });
        match added {
            Err(error) if error.kind() != ErrorKind::Misuse => Err(error),
            _ => Ok(()),
        }
    }

    fn add(&mut self, entry: Entry<'_>) -> Result<(), Error> {
        match entry {
            Entry::Tool(definition) => {
                let run = tool::handler(Arc::clone(definition), Arc::clone(&self.shared));
                self.handle.add_tool(definition.tool.clone(), run)
            }
            Entry::Resource(definition) if definition.is_folder => {
                let mut folder = Folder {
                    definition: Arc::clone(definition),
                    files: Vec::new(),
                    file_stamps: Stamps::default(),
                    folder_stamps: Stamps::default(),
                };
                let listed = folder.list(&self.handle);
                match &listed {
                    Ok(()) => self.folders.push(folder),
                    Err(_) => folder.remove(&self.handle),
                }
                listed
            }
            Entry::Resource(definition) => {
                for folder in &mut self.folders {
                    folder.release(&self.handle, &definition.resource.uri);
                }
                let (path, mut resource) = (definition.path.clone(), definition.resource.clone());
                resource.mime_type = resource.mime_type.or(files::media_type(&path).map(str::to_owned));
                let media = resource.mime_type.clone();
                self.handle
                    .add_resource(resource, move |_, uri| files::read_resource(&path, uri, media.as_deref()))
            }
            Entry::Template(definition) => {
                let definition = Arc::clone(definition);
                self.handle.add_template(definition.template.clone(), move |_, uri, variables| {
                    files::read_template(&definition, uri, variables)
                })
            }
            Entry::Prompt(definition) => {
                let definition = Arc::clone(definition);
                self.handle.add_prompt(definition.prompt.clone(), move |_, arguments| {
                    files::read_prompt(&definition.file, &definition.prompt, arguments)
                })
            }
        }
    }

    fn remove(&mut self, entry: Entry<'_>) {
        // OK to ignore: changes are announced, and serving may be over.
        let _ = match entry {
            Entry::Tool(tool) => self.handle.remove_tool(&tool.tool.name),
            Entry::Resource(resource) if resource.is_folder => {
                let uri = &resource.resource.uri;
                if let Some(at) = self.folders.iter().position(|f| f.definition.resource.uri == *uri) {
                    self.folders.swap_remove(at).remove(&self.handle);
                }
                Ok(true)
            }
            Entry::Resource(resource) => self.handle.remove_resource(&resource.resource.uri),
            Entry::Template(template) => {
                self.handle.remove_template(template.template.uri_template().as_str())
            }
            Entry::Prompt(prompt) => self.handle.remove_prompt(&prompt.prompt.name),
        };
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
    /// [`ErrorKind::Closed`]: serving is over. [`ErrorKind::Misuse`]: updates were not announced.
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        for at in self.stamps.changed() {
            if let Some(uri) = self.watched.get(at) {
                self.handle.resource_updated(uri)?;
            }
        }
        for folder in self.folders.iter_mut().filter(|folder| folder.definition.watch) {
            for at in folder.file_stamps.changed() {
                if let Some((_, uri)) = folder.files.get(at) {
                    self.handle.resource_updated(uri)?;
                }
            }
            if !folder.folder_stamps.changed().is_empty() {
                folder.list(&self.handle)?;
            }
        }
        Ok(())
    }
}

impl Folder {
    /// Reads the folder, and registers and removes files so that exactly its files are registered.
    fn list(&mut self, handle: &Handle) -> Result<(), Error> {
        let (uri, root) = (&self.definition.resource.uri, &self.definition.path);
        let listing = files::list_folder(root).unwrap_or_else(|error| {
            log(&format!("{uri}: {}: {error}", root.display()));
            let mut empty = files::Listing::default();
            empty.folders.push(root.clone());
            empty
        });
        if listing.truncated {
            log(&format!("{uri}: {}: too many files; {} are listed", root.display(), listing.files.len()));
        }
        let (kept, gone) = std::mem::take(&mut self.files)
            .into_iter()
            .partition(|(path, _)| listing.files.binary_search(path).is_ok());
        self.files = kept;
        for (_, uri) in &gone {
            handle.remove_resource(uri)?;
        }
        let known = self.files.len();
        for path in &listing.files {
            let old = self.files.get(..known).unwrap_or_default();
            if old.binary_search_by(|(other, _)| other.cmp(path)).is_err() {
                self.add(handle, path)?;
            }
        }
        self.files.sort_unstable();
        self.folder_stamps = listing.folders;
        self.stamp();
        Ok(())
    }

    fn stamp(&mut self) {
        self.file_stamps.replace(&mut self.files.iter().map(|(path, _)| self.definition.path.join(path)));
    }

    /// Removes the file with this URI, which gets an entry of its own.
    fn release(&mut self, handle: &Handle, uri: &str) {
        if let Some(at) = self.files.iter().position(|(_, other)| other == uri) {
            self.files.remove(at);
            // OK to ignore: changes are announced, and serving may be over.
            let _ = handle.remove_resource(uri);
            self.stamp();
        }
    }

    fn remove(self, handle: &Handle) {
        for (_, uri) in self.files {
            // OK to ignore: as above.
            let _ = handle.remove_resource(&uri);
        }
    }

    fn add(&mut self, handle: &Handle, path: &Path) -> Result<(), Error> {
        let (root, below) = (self.definition.path.clone(), path.to_owned());
        let folder = &self.definition.resource;
        let uri = files::uri_below(&folder.uri, path);
        let mut resource = Resource::new(&uri, path.to_string_lossy());
        resource.mime_type = folder.mime_type.clone().or(files::media_type(path).map(str::to_owned));
        resource.annotations = folder.annotations.clone();
        let media = resource.mime_type.clone();
        let added = handle
            .add_resource(resource, move |_, uri| files::read_below(&root, &below, uri, media.as_deref()));
        match added {
            // The file has an entry of its own in the definition.
            Err(error) if error.kind() == ErrorKind::Misuse => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.files.push((path.to_owned(), uri));
                Ok(())
            }
        }
    }
}
