//! A folder of files: tool `file_write`, resources `file:///{+path}`.
//!
//! Paths come from a model and are untrusted. No path may lead out of the folder: not by `..`, not
//! by a leading `/`, not by a symbolic link, and not by a link that is created between the check
//! and the use.
//!
//! # How the folder is confined
//! - A path is walked one component at a time. Each folder is first opened, then checked:
//!   `/proc/self/fd/N` gives the real location of an open folder. The next component is looked up in
//!   that open folder, which cannot be exchanged any more.
//! - A link as last component is resolved completely, and its target is walked like any other path.
//!   A dangling link is rejected.
//! - A file that is read is opened without blocking and without following a link. The open file is
//!   checked afterwards, so a FIFO or a link that replaces it in between is refused.
//! - A file is written under a temporary name and then renamed: renaming never follows a link, and
//!   readers see either the old or the new text.

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, openat};
use tinymcp::{
    ErrorContext, ReadOutput, Resource, ResourceContents, Server, Template, Tool, ToolError, ToolHints,
    UriTemplate,
};

/// Largest file that is read, in bytes. A response needs several times this memory.
const LARGEST: u64 = 1 << 20;

/// URI template of files.
const FILES: &str = "file:///{+path}";

tinymcp::record! {
    /// A text file to write.
    struct WriteFile {
        /// Path below the folder, such as notes/today.txt; missing folders are created
        path: String [len 1..=4096],
        /// New contents of the file
        text: String [len ..=1_000_000],
    }
}

/// A folder that paths cannot lead out of.
pub(crate) struct Folder {
    /// Its path, without links.
    root: PathBuf,
    open: File,
    /// Counter for unique names of temporary files.
    unfinished: AtomicU64,
}

/// Handling of missing folders in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Fail,
    Create,
}

/// A name in an open folder that has been checked.
struct Place {
    folder: File,
    name: OsString,
}

impl Place {
    fn path(&self) -> PathBuf {
        by_descriptor(&self.folder).join(&self.name)
    }
}

impl Folder {
    /// Opens the folder; creates it with a readme if it does not exist.
    pub(crate) fn open(root: &Path) -> io::Result<Folder> {
        fs::create_dir_all(root)?;
        let root = fs::canonicalize(root)?;
        let open = File::open(&root)?;
        let folder = Folder { root, open, unfinished: AtomicU64::new(0) };
        if folder.read("readme.txt").is_err() {
            folder.write("readme.txt", "tinymcp board\n")?;
        }
        Ok(folder)
    }

    /// The contents of a file.
    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let place = self.locate(path, Missing::Fail)?;
        // A name can be swapped at any time, so the open file is checked, not its name. Opening a FIFO
        // without O_NONBLOCK waits for a writer. O_NOFOLLOW rejects a symbolic link that replaced the
        // file after `locate` resolved the path.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&place.folder, &place.name, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        self.check(&file)?;
        let mut bytes = Vec::new();
        file.take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is larger than 1 MiB"));
        }
        Ok(bytes)
    }

    /// Writes a file atomically.
    pub(crate) fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let place = self.locate(path, Missing::Create)?;
        let (unfinished, mut file) = self.begin(&place.folder)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_data())
            .and_then(|()| fs::rename(&unfinished, place.path()));
        if written.is_err() {
            // The first error is returned; a temporary file that remains does no harm.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// Creates a temporary file in this folder; returns its path and the file.
    fn begin(&self, folder: &File) -> io::Result<(PathBuf, File)> {
        for _ in 0..100 {
            let n = self.unfinished.fetch_add(1, Ordering::Relaxed);
            let path = by_descriptor(folder).join(format!(".unfinished-{}-{n}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|file| (path, file)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Resolves a path to a place inside the folder.
    fn locate(&self, path: &str, missing: Missing) -> io::Result<Place> {
        let place = self.walk(Path::new(path), missing)?;
        if !fs::symlink_metadata(place.path()).is_ok_and(|found| found.is_symlink()) {
            return Ok(place);
        }
        let target = fs::canonicalize(place.path())?;
        self.walk(target.strip_prefix(&self.root).map_err(|_| outside())?, Missing::Fail)
    }

    fn walk(&self, path: &Path, missing: Missing) -> io::Result<Place> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                _ => return Err(outside()),
            }
        }
        let name = names.pop().ok_or_else(outside)?;
        let mut folder = self.open.try_clone()?;
        for next in names {
            folder = self.enter(&folder, next, missing)?;
        }
        Ok(Place { folder, name: name.into() })
    }

    fn enter(&self, folder: &File, name: &OsStr, missing: Missing) -> io::Result<File> {
        let path = by_descriptor(folder).join(name);
        if missing == Missing::Create {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        // With the dot, the system rejects anything but a folder before it opens it.
        let inner = File::open(path.join("."))?;
        self.check(&inner)?;
        Ok(inner)
    }

    /// Checks that an open file or folder is inside, by its location and not by its name.
    fn check(&self, file: &File) -> io::Result<()> {
        if fs::read_link(by_descriptor(file))?.starts_with(&self.root) { Ok(()) } else { Err(outside()) }
    }
}

/// Path of an open file, independent of its name.
fn by_descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn outside() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the path leads out of the folder")
}

pub(crate) fn register(server: &mut Server, folder: &Arc<Folder>) -> Result<(), Box<dyn std::error::Error>> {
    let (for_write, handle) = (Arc::clone(folder), server.handle());
    let uri_template = UriTemplate::parse(FILES)?;
    let hints = ToolHints { idempotent: Some(true), open_world: Some(false), ..ToolHints::default() };
    server.tool(
        Tool::new("file_write").description("Writes a text file below the board's folder").hints(hints),
        move |_, wanted: WriteFile| {
            let WriteFile { path, text } = wanted;
            for_write.write(&path, &text).context(format_args!("cannot write {path:?}"))?;
            handle.resource_updated(&uri_template.expand(|_| Some(&path)))?;
            Ok(format!("wrote {} bytes to {path}", text.len()))
        },
    )?;
    let readme = Resource::new("file:///readme.txt", "readme.txt").mime_type("text/plain");
    let for_readme = Arc::clone(folder);
    server.resource(readme, move |_, uri| contents(&for_readme, uri, "readme.txt"))?;
    let files = Template::new(FILES, "file")?.description("A file below the board's folder");
    let for_files = Arc::clone(folder);
    server.template(files, move |_, uri, variables| {
        contents(&for_files, uri, variables.get("path").unwrap_or_default())
    })?;
    Ok(())
}

/// Reads a file. A path that is not allowed gives the same error as a file that does not exist.
fn contents(folder: &Folder, uri: &str, path: &str) -> Result<ReadOutput, ToolError> {
    let bytes = folder.read(path).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => ToolError::from(error),
        _ => ToolError::not_found(uri),
    })?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(uri, text).mime_type("text/plain"),
        Err(not_text) => {
            ResourceContents::bytes(uri, not_text.into_bytes()).mime_type("application/octet-stream")
        }
    }
    .into())
}
