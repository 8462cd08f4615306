//! Skills of a server, from a folder.
//!
//! The methods of the extension and the resources share one [`Catalog`]. The first page of the list
//! and each request of one skill read the folder again; other requests use the last catalog.
//! Contents are never kept: each read opens the file.
//!
//! # Invariants
//! - A request finds a file by comparing its URI with those of the catalog. No path is derived from
//!   a request without that comparison.
//! - No lock is held while the registry changes or a message is sent.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::era::skills as codec;
use crate::error::{Error, ErrorKind};
use crate::json::Json;
use crate::model::CacheHint;
use crate::model::catalog::{Resource, Template};
use crate::model::content::{ReadOutput, ResourceContents};
use crate::model::skill::{Skill, path_below, uri_below};
use crate::server::{Changes, Context, Handle, Server, ToolError};
use crate::stderr;
use crate::sync::lock;

use super::catalog::{Catalog, SCHEME};
use super::files::{self, Folder};

/// Largest number of skills, or of children of a folder, on one page.
const PAGE_SIZE: usize = 200;
/// Size of a page in bytes at which no further skill is added.
const PAGE_BYTES: usize = 256 << 10;

/// A folder of skills, for [`Server::skills`].
///
/// Each folder in it with a `SKILL.md`, at any depth, is a skill. Its URI is `skill://`, its path
/// and `/SKILL.md`. Its name in the frontmatter must be the name of its folder.
#[derive(Clone, Debug)]
#[must_use]
pub struct SkillFolder {
    path: PathBuf,
    cache: CacheHint,
}

impl SkillFolder {
    /// The skills below this path.
    pub fn new(path: impl Into<PathBuf>) -> SkillFolder {
        SkillFolder { path: path.into(), cache: CacheHint::default() }
    }

    /// Sets the time for which clients may cache the entries.
    pub fn cache(mut self, hint: CacheHint) -> SkillFolder {
        self.cache = hint;
        self
    }

    /// Checks the folder. Returns the skills that would be offered, and the reason for each skill
    /// that would be left out. A folder without a skill in it or around it also has a reason.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the folder cannot be read, or has too many entries.
    pub fn check(&self) -> Result<(Vec<Skill>, Vec<String>), Error> {
        let catalog = self.read()?;
        Ok((catalog.skills, catalog.problems))
    }

    fn read(&self) -> Result<Catalog, Error> {
        let failed = |error: io::Error| {
            let message = format!("cannot read the folder of skills {}", self.path.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        };
        Catalog::read(&Folder::new(self.path.clone()), &Catalog::default()).map_err(failed)
    }
}

/// Skills (SEP-2640).
impl Server {
    /// Offers the skills of a folder: declares the extension `io.modelcontextprotocol/skills`,
    /// lists each `SKILL.md` as a resource, and serves all files of the skills.
    ///
    /// The folder is read again when a client requests the list of skills or one skill, so changes
    /// need no restart. A skill that breaks a rule is left out and reported on standard error; see
    /// [`SkillFolder::check`].
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the folder cannot be read, or has too many entries.
    /// [`ErrorKind::Misuse`]: the server offers skills already, or a resource with the same URI.
    pub fn skills(&mut self, folder: SkillFolder) -> Result<&mut Server, Error> {
        let catalog = folder.read()?;
        report(&[], &catalog.problems);
        self.extension(codec::ID, codec::settings())?.resources_may_change();
        let skills = Arc::new(Skills {
            folder: Folder::new(folder.path),
            cache: folder.cache,
            handle: self.handle(),
            catalog: Mutex::default(),
            reading: Mutex::default(),
        });
        for skill in &catalog.skills {
            let reader = Arc::clone(&skills);
            self.resource(resource(skill), move |_, uri| reader.read(uri))?;
        }
        *lock(&skills.catalog) = Arc::new(catalog);
        let reader = Arc::clone(&skills);
        let template = Template::new(&format!("{SCHEME}{{+path}}"), "Files of skills")?;
        self.template(template, move |_, uri, _| reader.read(uri))?;
        let (lists, gets, folders) = (Arc::clone(&skills), Arc::clone(&skills), skills);
        self.method(codec::LIST, move |ctx, page: Page| lists.list(ctx, page.cursor.as_deref()))?
            .method(codec::GET, move |ctx, params: SkillUri| gets.get(ctx, &params.uri))?
            .method(codec::READ_DIRECTORY, move |ctx, page: FolderPage| {
                folders.directory(ctx, &page.uri, page.cursor.as_deref())
            })
    }
}

crate::record! {
    struct Page {
        cursor: Option<String>,
    }
}

crate::record! {
    struct SkillUri {
        uri: String,
    }
}

crate::record! {
    struct FolderPage {
        uri: String,
        cursor: Option<String>,
    }
}

struct Skills {
    folder: Folder,
    cache: CacheHint,
    handle: Handle,
    catalog: Mutex<Arc<Catalog>>,
    /// Held while the folder is read, so that an older catalog never replaces a newer one.
    reading: Mutex<()>,
}

impl Skills {
    fn current(&self) -> Arc<Catalog> {
        Arc::clone(&lock(&self.catalog))
    }

    /// Reads the folder again. Keeps the catalog if the folder cannot be read.
    fn refresh(self: &Arc<Skills>) -> Arc<Catalog> {
        let reading = lock(&self.reading);
        let before = self.current();
        let catalog = match Catalog::read(&self.folder, &before) {
            Ok(catalog) => Arc::new(catalog),
            Err(error) => {
                stderr::write(format!("tinymcp: {}: {error}\n", self.folder.path().display()));
                return before;
            }
        };
        *lock(&self.catalog) = Arc::clone(&catalog);
        drop(reading);
        report(&before.problems, &catalog.problems);
        // OK to ignore: the server has ended, or another thread has made these changes.
        let _ = self.list_resources(&before.skills, &catalog.skills);
        catalog
    }

    /// Changes the list of resources.
    fn list_resources(self: &Arc<Skills>, before: &[Skill], now: &[Skill]) -> Result<(), Error> {
        let same = |a: &Skill, b: &Skill| {
            let size = |skill: &Skill| skill.file(crate::model::skill::SKILL_MD).map(|file| file.size);
            a.uri == b.uri && a.description == b.description && size(a) == size(b)
        };
        let lacks = |skills: &[Skill], skill: &Skill| !skills.iter().any(|other| same(skill, other));
        let mut changes: Changes = self.handle.changes();
        let mut changed = false;
        for gone in before.iter().filter(|skill| lacks(now, skill)) {
            changes.remove_resource(&gone.uri)?;
            changed = true;
        }
        for new in now.iter().filter(|skill| lacks(before, skill)) {
            let reader = Arc::clone(self);
            changes.add_resource(resource(new), move |_, uri| reader.read(uri))?;
            changed = true;
        }
        if changed { changes.apply() } else { Ok(()) }
    }

    fn list(self: &Arc<Skills>, ctx: &mut Context<'_>, cursor: Option<&str>) -> Result<Json, ToolError> {
        let catalog = if cursor.is_none() { self.refresh() } else { self.current() };
        let path = |uri: &str| path_below(SCHEME, uri);
        let start = match cursor {
            None => 0,
            // Also valid if that skill no longer exists.
            Some(last) => {
                let last = path(last).ok_or_else(|| unknown(format!("Unknown cursor: {last}")))?;
                catalog.skills.partition_point(|skill| path(&skill.uri).is_some_and(|path| path <= last))
            }
        };
        let rest = catalog.skills.get(start..).unwrap_or_default();
        let mut bytes = 0;
        let page = rest.iter().take(PAGE_SIZE).take_while(|skill| {
            let fits = bytes < PAGE_BYTES;
            bytes += skill.frontmatter.as_str().len();
            bytes += skill.files.iter().flatten().map(|file| file.uri.len() + 110).sum::<usize>();
            fits
        });
        let count = page.count();
        let (page, more) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        let next = page.last().filter(|_| !more.is_empty()).map(|skill| skill.uri.as_str());
        Ok(codec::list_result(ctx.era.request_mode(), self.cache, &mut page.iter(), next))
    }

    fn get(self: &Arc<Skills>, ctx: &mut Context<'_>, uri: &str) -> Result<Json, ToolError> {
        let catalog = self.refresh();
        let skill = catalog.skills.iter().find(|skill| skill.uri == uri);
        let skill = skill.ok_or_else(|| unknown(format!("No skill is served at {uri}")))?;
        Ok(codec::get_result(ctx.era.request_mode(), self.cache, skill))
    }

    fn directory(&self, ctx: &mut Context<'_>, uri: &str, cursor: Option<&str>) -> Result<Json, ToolError> {
        let catalog = self.current();
        let path = path_below(SCHEME, uri).filter(|path| uri_below(SCHEME, path) == uri);
        let children = path.as_deref().and_then(|path| catalog.children(path));
        let children = children.ok_or_else(|| unknown(format!("{uri} is not a directory resource")))?;
        let mut rest = children.into_iter().filter(|(name, _)| cursor.is_none_or(|last| *name > last));
        let page: Vec<_> = rest.by_ref().take(PAGE_SIZE).collect();
        let next = page.last().map(|(name, _)| *name).filter(|_| rest.next().is_some());
        let mut children = page.iter().map(|(name, (path, size))| {
            let child = Resource::new(uri_below(SCHEME, path), *name);
            match size {
                None => child.mime_type(codec::DIRECTORY),
                Some(size) => typed(child.size(*size), path),
            }
        });
        Ok(codec::directory_result(ctx.query.peer.revision, &mut children, next))
    }

    /// Reads a file. A file that was changed since the catalog was read is sent as it is: the
    /// client sees that the digest differs, and requests the entry again.
    fn read(&self, uri: &str) -> Result<ReadOutput, ToolError> {
        let catalog = self.current();
        let path = path_below(SCHEME, uri).filter(|path| uri_below(SCHEME, path) == uri);
        let path = path.filter(|path| catalog.files.contains_key(path));
        let path = path.ok_or_else(|| ToolError::not_found(uri))?;
        let bytes = self.folder.open(&path).and_then(|file: File| files::read_all(file, Skill::MAX_BYTES));
        let bytes = bytes.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => ToolError::new(format!("{uri}: {error}")),
            io::ErrorKind::PermissionDenied => ToolError::new(format!("{uri}: permission denied")),
            // Also if it is no longer a regular file.
            _ => ToolError::not_found(uri),
        })?;
        let media = media_type(&path);
        let contents = match String::from_utf8(bytes) {
            Ok(text) if media.is_none_or(|(_, is_text)| is_text) => ResourceContents::text(uri, text),
            Ok(text) => ResourceContents::bytes(uri, text),
            Err(not_text) => ResourceContents::bytes(uri, not_text.into_bytes()),
        };
        Ok(match media {
            Some((media, _)) => contents.mime_type(media),
            None => contents,
        }
        .into())
    }
}

fn unknown(message: String) -> ToolError {
    ToolError::fault(codec::unknown(message))
}

/// Reports problems that are new.
fn report(before: &[String], now: &[String]) {
    for problem in now.iter().filter(|problem| !before.contains(problem)) {
        stderr::write(format!("tinymcp: {problem}\n"));
    }
}

/// The resource of a `SKILL.md`.
fn resource(skill: &Skill) -> Resource {
    let resource = Resource::new(&skill.uri, &skill.name).description(&skill.description);
    let resource = resource.mime_type("text/markdown");
    match skill.file(crate::model::skill::SKILL_MD) {
        Some(file) => resource.size(file.size),
        None => resource,
    }
}

fn typed(resource: Resource, path: &str) -> Resource {
    match media_type(path) {
        Some((media, _)) => resource.mime_type(media),
        None => resource,
    }
}

/// Media type by the ending of a name, and whether it is sent as text.
fn media_type(path: &str) -> Option<(&'static str, bool)> {
    const TYPES: [(&str, &str, bool); 22] = [
        ("css", "text/css", true),
        ("csv", "text/csv", true),
        ("gif", "image/gif", false),
        ("html", "text/html", true),
        ("jpeg", "image/jpeg", false),
        ("jpg", "image/jpeg", false),
        ("js", "text/javascript", true),
        ("json", "application/json", true),
        ("md", "text/markdown", true),
        ("pdf", "application/pdf", false),
        ("png", "image/png", false),
        ("py", "text/x-python", true),
        ("rs", "text/x-rust", true),
        ("sh", "application/x-sh", true),
        ("svg", "image/svg+xml", true),
        ("toml", "application/toml", true),
        ("ts", "text/x-typescript", true),
        ("txt", "text/plain", true),
        ("webp", "image/webp", false),
        ("xml", "application/xml", true),
        ("yaml", "application/yaml", true),
        ("yml", "application/yaml", true),
    ];
    let ending = Path::new(path).extension()?.to_str()?.to_ascii_lowercase();
    TYPES.iter().find(|(known, ..)| *known == ending).map(|(_, media, is_text)| (*media, *is_text))
}
