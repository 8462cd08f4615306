//! Resources and prompts from files.
//!
//! # Access
//! - The path of a `file`, and the folder of a `folder` or a template, come from the definition.
//!   Symbolic links in them are followed.
//! - Below a folder no symbolic link is followed, not even one whose target is inside: each
//!   component is opened by its own `openat` with `O_NOFOLLOW`. So a link that is created at any
//!   time cannot lead out of the folder.
//! - A value of a template must not contain `/` or NUL, and no component of the resulting path may
//!   be `.` or `..`.
//! - Only regular files are read. Their type is checked before opening, since opening a device can
//!   have effects, and again afterwards. `O_NONBLOCK` keeps a FIFO that appears in between from
//!   blocking the worker.
//! - At most [`MAX_FILE`] bytes are read.
//!
//! # Folders
//! The files of a folder and its subfolders are listed in order of their paths. Names that begin
//! with a dot, symbolic links and special files are skipped. [`MAX_LISTED`] and [`MAX_DEPTH`]
//! bound the list.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use tinymcp::json::Writer;
use tinymcp::{Arguments, Prompt, PromptOutput, ReadOutput, ResourceContents, ToolError, Variables};

use super::definition::TemplateDefinition;
use super::watch::Stamps;
use super::words;

/// Maximum size of a file that is read, in bytes. As base64 it fits into a message of 4 MiB, the
/// default limit of this library's clients.
pub(crate) const MAX_FILE: u64 = 3_000_000;
/// Maximum number of files of one folder that are listed.
pub(crate) const MAX_LISTED: usize = 1000;
/// Maximum depth of subfolders that are listed.
const MAX_DEPTH: usize = 16;
/// Maximum number of directory entries that one listing examines.
const MAX_EXAMINED: usize = 20_000;

/// Reads a file at a path of the definition.
///
/// # Errors
/// The file does not exist, is not a regular file, is too large or cannot be read.
pub(crate) fn read_resource(path: &Path, uri: &str, media: Option<&str>) -> Result<ReadOutput, ToolError> {
    contents(open(path), path, uri, media)
}

/// Reads a file below a folder.
///
/// # Errors
/// As with [`read_resource`]; the path leads out of the folder or through a symbolic link.
pub(crate) fn read_below(
    folder: &Path,
    path: &Path,
    uri: &str,
    media: Option<&str>,
) -> Result<ReadOutput, ToolError> {
    contents(open_below(folder, path), path, uri, media)
}

/// Reads the file that these values of the template's variables name.
///
/// # Errors
/// As with [`read_below`].
pub(crate) fn read_template(
    definition: &TemplateDefinition,
    uri: &str,
    variables: &Variables,
) -> Result<ReadOutput, ToolError> {
    let Some((folder, path)) = template_path(definition, variables) else {
        return Err(ToolError::not_found(uri));
    };
    read_below(&folder, &path, uri, definition.template.mime_type.as_deref())
}

/// Returns the folder before the first placeholder, and the path below it. `None` if a value is not
/// a single path component.
fn template_path(definition: &TemplateDefinition, variables: &Variables) -> Option<(PathBuf, PathBuf)> {
    let mut values = Writer::new();
    values.begin_object();
    for (name, value) in variables.iter() {
        if value.contains(['/', '\0']) {
            return None;
        }
        values.key(name).string(value);
    }
    values.end_object();
    let path = definition.file.expand(values.into_json().to_doc().root())?;
    let prefix = definition.file.leading_literal();
    let (folder, _) = prefix.split_at(prefix.rfind('/')? + 1);
    let below = path.strip_prefix(folder)?;
    // `Path::components` would skip `.` and empty components.
    if below.split('/').any(|component| matches!(component, "" | "." | "..")) {
        return None;
    }
    Some((folder.into(), below.into()))
}

/// Opens a regular file for reading. Never waits for the other end of a FIFO.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    regular(rustix::fs::stat(path)?.st_mode)?;
    opened(rustix::fs::open(path, FLAGS, Mode::empty())?)
}

/// Opens a regular file below a folder without following symbolic links.
fn open_below(folder: &Path, path: &Path) -> io::Result<File> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let parent = open_folder(folder, parent)?;
    regular(rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)?;
    opened(rustix::fs::openat(&parent, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Opens a folder, or a subfolder without following symbolic links.
fn open_folder(folder: &Path, below: &Path) -> io::Result<OwnedFd> {
    let mut open = rustix::fs::open(folder, FOLDER_FLAGS, Mode::empty())?;
    for component in below.components() {
        let Component::Normal(name) = component else { return Err(io::ErrorKind::NotFound.into()) };
        open = rustix::fs::openat(&open, name, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(open)
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Checks an open file again: its name may refer to another file since the first check.
fn opened(file: OwnedFd) -> io::Result<File> {
    regular(rustix::fs::fstat(&file)?.st_mode)?;
    Ok(file.into())
}

fn regular(mode: rustix::fs::RawMode) -> io::Result<()> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Reads an open file.
fn bytes(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the file is larger than {MAX_FILE} bytes"),
        ));
    }
    Ok(bytes)
}

fn contents(
    file: io::Result<File>,
    path: &Path,
    uri: &str,
    media: Option<&str>,
) -> Result<ReadOutput, ToolError> {
    let bytes = file.and_then(bytes).map_err(|error| refusal(&error, uri))?;
    let media = media.or_else(|| media_type(path));
    let is_text = media.is_none_or(is_text);
    Ok(match String::from_utf8(bytes) {
        Ok(text) if is_text => {
            ResourceContents::text(uri, text).mime_type(media.unwrap_or("text/plain")).into()
        }
        Ok(text) => blob(uri, text.into_bytes(), media),
        Err(not_text) => blob(uri, not_text.into_bytes(), media),
    })
}

fn blob(uri: &str, bytes: Vec<u8>, media: Option<&str>) -> ReadOutput {
    ResourceContents::bytes(uri, bytes).mime_type(media.unwrap_or("application/octet-stream")).into()
}

/// Converts an error without the path of the file, which clients must not see. A path that leads
/// out of a folder gives the same error as a missing file.
fn refusal(error: &io::Error, uri: &str) -> ToolError {
    match error.kind() {
        io::ErrorKind::InvalidInput => ToolError::new(format!("{uri}: {error}")),
        io::ErrorKind::PermissionDenied => ToolError::new(format!("{uri}: permission denied")),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ToolError::not_found(uri),
        _ if rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP) => {
            ToolError::not_found(uri)
        }
        _ => ToolError::new(format!("{uri}: the file cannot be read")),
    }
}

/// Returns whether contents of this media type are sent as text if they are UTF-8.
fn is_text(media: &str) -> bool {
    let essence = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    const TEXTS: &str = "json xml javascript ecmascript yaml toml sql x-sh x-ndjson";
    kind == "text"
        || words::has(TEXTS, subtype)
        || ["+json", "+xml", "+yaml"].iter().any(|suffix| subtype.ends_with(suffix))
}

/// Returns the media type for the ending of a name.
pub(crate) fn media_type(path: &Path) -> Option<&'static str> {
    const TYPES: [(&str, &str); 22] = [
        ("conf", "text/plain"),
        ("css", "text/css"),
        ("csv", "text/csv"),
        ("gif", "image/gif"),
        ("gz", "application/gzip"),
        ("htm", "text/html"),
        ("html", "text/html"),
        ("jpeg", "image/jpeg"),
        ("jpg", "image/jpeg"),
        ("js", "text/javascript"),
        ("json", "application/json"),
        ("log", "text/plain"),
        ("md", "text/markdown"),
        ("pdf", "application/pdf"),
        ("png", "image/png"),
        ("svg", "image/svg+xml"),
        ("toml", "application/toml"),
        ("txt", "text/plain"),
        ("wav", "audio/wav"),
        ("xml", "application/xml"),
        ("yaml", "application/yaml"),
        ("yml", "application/yaml"),
    ];
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    TYPES.iter().find(|(known, _)| *known == ending).map(|(_, media)| *media)
}

/// Files below a folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Paths below the folder, sorted.
    pub(crate) files: Vec<PathBuf>,
    /// The folder and its subfolders, with their stamps before reading. A new or removed file
    /// changes one of them.
    pub(crate) folders: Stamps,
    /// A bound was reached, so files are missing.
    pub(crate) truncated: bool,
}

/// Lists the files of a folder; see the module documentation.
///
/// # Errors
/// The folder cannot be opened. Subfolders that cannot be opened are skipped.
pub(crate) fn list_folder(folder: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut examined = 0;
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((path, depth)) = open.pop() {
        listing.folders.push(folder.join(&path));
        let inner = match open_folder(folder, &path) {
            Ok(inner) => inner,
            Err(error) if path.as_os_str().is_empty() => return Err(error),
            Err(_) => continue,
        };
        for (name, kind) in entries(&inner, &mut examined)? {
            match kind {
                FileType::RegularFile => listing.files.push(path.join(name)),
                FileType::Directory if depth < MAX_DEPTH => open.push((path.join(name), depth + 1)),
                FileType::Directory => listing.truncated = true,
                _ => {}
            }
        }
        if listing.files.len() > MAX_LISTED || examined >= MAX_EXAMINED {
            listing.truncated = true;
            break;
        }
    }
    listing.files.sort();
    listing.files.truncate(MAX_LISTED);
    Ok(listing)
}

/// Returns the names in an open folder, with their types, except names that begin with a dot.
fn entries(folder: &OwnedFd, examined: &mut usize) -> io::Result<Vec<(OsString, FileType)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        *examined += 1;
        if *examined >= MAX_EXAMINED {
            break;
        }
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        // Some file systems do not store the type in the directory.
        let kind = match entry.file_type() {
            FileType::Unknown => rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            known => known,
        };
        entries.push((name.to_owned(), kind));
    }
    Ok(entries)
}

/// Returns the URI of a file below a folder: the path with every byte percent-encoded that is not
/// an unreserved character (RFC 3986 §2.3) or `/`.
pub(crate) fn uri_below(folder: &str, path: &Path) -> String {
    let mut uri = folder.to_owned();
    if !uri.ends_with('/') {
        uri.push('/');
    }
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(*byte));
            }
            _ => {
                const DIGITS: [char; 16] =
                    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
                let digit = |n: u8| DIGITS.get(usize::from(n)).copied().unwrap_or('0');
                uri.extend(['%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    uri
}

/// Reads the file of a prompt and fills in its arguments.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or has a placeholder that is not an argument.
pub(crate) fn read_prompt(
    file: &Path,
    prompt: &Prompt,
    arguments: &Arguments<'_>,
) -> Result<PromptOutput, ToolError> {
    let refusal = |why: &dyn std::fmt::Display| ToolError::new(format!("prompt {:?}: {why}", prompt.name));
    let text = prompt_text(file).map_err(|error| refusal(&error))?;
    let known = |name: &str| prompt.arguments.iter().any(|argument| argument.name == name);
    let text = fill(&text, |name| known(name).then(|| arguments.get(name).unwrap_or_default()))
        .map_err(|error| refusal(&error))?;
    let mut output = PromptOutput::new().user(text);
    output.description = prompt.description.clone();
    Ok(output)
}

/// Returns the problems of the file of a prompt, for `--check`: the error of [`read_prompt`], or
/// the arguments that it does not use.
pub(crate) fn check_prompt(file: &Path, prompt: &Prompt) -> Vec<String> {
    let used = RefCell::new(BTreeSet::new());
    let use_argument = |name: &str| {
        let argument = prompt.arguments.iter().find(|argument| argument.name == name)?;
        used.borrow_mut().insert(argument.name.as_str());
        Some("")
    };
    if let Err(error) = prompt_text(file).and_then(|text| fill(&text, use_argument)) {
        return vec![error];
    }
    let used = used.into_inner();
    let unused = prompt.arguments.iter().map(|argument| &argument.name);
    let unused = unused.filter(|name| !used.contains(name.as_str()));
    unused.map(|name| format!("the argument `{name}` is not used: write {{{name}}}, or remove it")).collect()
}

fn prompt_text(file: &Path) -> Result<String, String> {
    let bytes = open(file).and_then(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "its file does not exist".to_owned(),
        _ => format!("its file cannot be read: {error}"),
    })?;
    String::from_utf8(bytes).map_err(|_| "its file is not UTF-8".to_owned())
}

/// Replaces `{name}` and `{?name}` by the value of the argument, `{{` and `}}` by a brace. Values
/// are not searched for placeholders.
fn fill<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (literal, from) = rest.split_at(at);
        filled.push_str(literal);
        let brace = from.get(..1).unwrap_or_default();
        let after = from.get(1..).unwrap_or_default();
        if let Some(next) = after.strip_prefix(brace) {
            filled.push_str(brace);
            rest = next;
            continue;
        }
        let placeholder = after.split_once('}').filter(|_| brace == "{");
        let found = placeholder.and_then(|(name, next)| {
            let name = name.strip_prefix('?').unwrap_or(name);
            Some((value(name)?, next))
        });
        let Some((value, next)) = found else {
            let line = text.len() - from.len();
            let line = text.get(..line).unwrap_or_default().matches('\n').count() + 1;
            return Err(format!(
                "line {line} of its file has a brace that is not part of an argument's {{name}}; write \
                 {brace}{brace} for a literal {brace}"
            ));
        };
        filled.push_str(value);
        rest = next;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Temporary folder that is removed on drop.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("tinymcp-files-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn placeholders_are_replaced_once() {
        let value =
            |name: &str| [("a", "{b}"), ("b", ""), ("c-d", "x")].iter().find(|v| v.0 == name).map(|v| v.1);
        for (text, filled) in
            [("", ""), ("{a}{b}{c-d}", "{b}x"), ("é {{a}} {{{a}}}", "é {a} {{b}}"), ("{?a}}}", "{b}}")]
        {
            assert_eq!(fill(text, value).unwrap(), filled);
        }
        for (text, line, brace) in
            [("{", 1, "{{"), ("a\n}", 2, "}}"), ("{x}", 1, "{{"), ("\n\n{a", 3, "{{"), ("{ a }", 1, "{{")]
        {
            let error = fill(text, value).unwrap_err();
            assert!(error.starts_with(&format!("line {line} ")), "{error}");
            assert!(error.contains(&format!("write {brace} for")), "{error}");
        }
    }

    #[test]
    fn uris_of_files_are_percent_encoded() {
        for (folder, path, uri) in [
            ("docs://m", "a b/é%.md", "docs://m/a%20b/%C3%A9%25.md"),
            ("docs://m/", "x?#[1]", "docs://m/x%3F%23%5B1%5D"),
        ] {
            assert_eq!(uri_below(folder, Path::new(path)), uri);
        }
        let latin1 = Path::new(OsStr::from_bytes(b"\xe9"));
        assert_eq!(uri_below("a://", latin1), "a://%E9");
    }

    #[test]
    fn media_types_decide_between_text_and_bytes() {
        for (media, text) in [
            ("text/plain; charset=utf-8", true),
            ("Application/JSON", true),
            ("image/svg+xml", true),
            ("application/octet-stream", false),
            ("image/png", false),
            ("json", false),
        ] {
            assert_eq!(is_text(media), text, "{media}");
        }
        assert_eq!(media_type(Path::new("a/B.JPG")), Some("image/jpeg"));
        assert_eq!(media_type(Path::new("png")), None);
    }

    #[test]
    fn no_path_leads_out_of_a_folder() {
        let scratch = Scratch::new("out");
        let (inside, outside) = (scratch.0.join("in"), scratch.0.join("out"));
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(inside.join("sub/a"), "a").unwrap();
        fs::write(outside.join("b"), "b").unwrap();
        symlink(&outside, inside.join("dir")).unwrap();
        symlink(outside.join("b"), inside.join("file")).unwrap();
        symlink("sub/a", inside.join("near")).unwrap();
        assert_eq!(bytes(open_below(&inside, Path::new("sub/a")).unwrap()).unwrap(), b"a");
        for path in ["../out/b", "sub/../sub/a", "dir/b", "file", "near", "", ".", "sub", "sub/a/b"] {
            assert!(open_below(&inside, Path::new(path)).is_err(), "{path}");
        }
        assert!(open_below(&inside, &outside.join("b")).is_err());
        // The folder itself may be a link.
        assert!(open_below(&inside.join("dir"), Path::new("b")).is_ok());
    }

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let scratch = Scratch::new("kind");
        let fifo = scratch.0.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for path in [&fifo, Path::new("/dev/zero"), scratch.0.as_path()] {
            let error = open(path).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
        let large = scratch.0.join("large");
        File::create(&large).unwrap().set_len(MAX_FILE).unwrap();
        assert!(open(&large).and_then(bytes).is_ok());
        File::create(&large).unwrap().set_len(MAX_FILE + 1).unwrap();
        let error = open(&large).and_then(bytes).unwrap_err();
        assert_eq!(error.to_string(), "the file is larger than 3000000 bytes");
    }

    #[test]
    fn a_listing_has_regular_files_in_order_and_is_bounded() {
        let scratch = Scratch::new("list");
        for name in ["b", "a/2", "a/1", "a.x", ".git/config", "c/.hidden"] {
            let path = scratch.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        symlink("b", scratch.0.join("link")).unwrap();
        let listing = list_folder(&scratch.0).unwrap();
        let files: Vec<_> = listing.files.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!((files, listing.truncated), (vec!["a/1", "a/2", "a.x", "b"], false));
        for number in 0..MAX_LISTED {
            fs::write(scratch.0.join(format!("c/{number}")), "").unwrap();
        }
        let listing = list_folder(&scratch.0).unwrap();
        assert_eq!((listing.files.len(), listing.truncated), (MAX_LISTED, true));
        assert!(list_folder(&scratch.0.join("missing")).is_err());
    }
}
