//! Files below a folder, opened without following symbolic links.
//!
//! # Invariants
//! - Each component of a path is opened by its own `openat` with `O_NOFOLLOW`, so a link that is
//!   created at any time cannot lead out of the folder. Links in the path of the folder itself are
//!   followed.
//! - Only regular files are opened. Their type is checked before opening, since opening a device
//!   can have effects, and again afterwards. `O_NONBLOCK` keeps a FIFO that appears in between from
//!   blocking the worker.
//! - At most [`MAX_EXAMINED`] entries and [`MAX_DEPTH`] levels are listed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

/// Largest number of directory entries that one listing examines.
const MAX_EXAMINED: usize = 20_000;
/// Largest depth of nested folders.
const MAX_DEPTH: usize = 16;
/// Size of one read, in bytes.
const CHUNK: usize = 16 << 10;

const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A folder of the operator.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

/// The entries below a folder, sorted by path. Paths use `/`.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub files: Vec<(String, Stamp)>,
    pub folders: Vec<String>,
    /// Entries that cannot be served, with the reason.
    pub others: Vec<(String, &'static str)>,
}

/// State of a file that changes with its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub size: u64,
    device: u64,
    inode: u64,
    modified: (i64, i64),
    /// Time of the last change of contents or state, which programs cannot set.
    pub changed: (i64, i64),
}

impl Stamp {
    #[allow(clippy::unnecessary_cast, clippy::cast_lossless)] // OK because the types differ by system.
    fn of(stat: &Stat) -> Stamp {
        Stamp {
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Folder {
        Folder(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Lists everything below the folder, except names that begin with a dot.
    ///
    /// # Errors
    /// The folder cannot be read, or has more than [`MAX_EXAMINED`] entries.
    pub(super) fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let mut examined = 0;
        let mut open = vec![(String::new(), 0)];
        while let Some((path, depth)) = open.pop() {
            let entries = self.folder(&path).and_then(|folder| entries(&folder, &mut examined));
            let entries = match entries {
                Ok(entries) => entries,
                Err(error) if path.is_empty() => return Err(error),
                Err(_) if examined > MAX_EXAMINED => return Err(too_many()),
                Err(_) => {
                    listing.others.push((path, "the folder cannot be read"));
                    continue;
                }
            };
            for (name, entry) in entries {
                let path = if path.is_empty() { name } else { format!("{path}/{name}") };
                match entry {
                    Entry::File(stamp) => listing.files.push((path, stamp)),
                    Entry::Folder if depth < MAX_DEPTH => {
                        listing.folders.push(path.clone());
                        open.push((path, depth + 1));
                    }
                    Entry::Folder => listing.others.push((path, "the folder is nested too deep")),
                    Entry::Other(why) => listing.others.push((path, why)),
                }
            }
        }
        listing.files.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        listing.folders.sort_unstable();
        listing.others.sort_unstable();
        Ok(listing)
    }

    /// Opens a file at a path of a listing.
    ///
    /// # Errors
    /// The file no longer exists, or is not a regular file any more.
    pub(super) fn open(&self, path: &str) -> io::Result<File> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.folder(parent)?;
        regular(&rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        let file = rustix::fs::openat(&parent, name, FILE, Mode::empty())?;
        regular(&rustix::fs::fstat(&file)?)?;
        Ok(file.into())
    }

    fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        let mut open = rustix::fs::open(&self.0, FOLDER, Mode::empty())?;
        for name in path.split('/').filter(|_| !path.is_empty()) {
            if matches!(name, "" | "." | "..") {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            open = rustix::fs::openat(&open, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(open)
    }
}

/// Reads at most `most` bytes of a file.
///
/// # Errors
/// Reading fails, or the file is longer.
pub(super) fn read_all(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the file has more than {most} bytes"),
        ));
    }
    Ok(bytes)
}

/// Hashes a file of `size` bytes. Returns its SHA-256 and its first `head` bytes.
///
/// # Errors
/// Reading fails, or the file has another size.
pub(super) fn hash(mut file: File, size: u64, head: usize) -> io::Result<([u8; 32], Vec<u8>)> {
    let mut hash = hmac_sha256::Hash::new();
    let (mut start, mut read) = (Vec::new(), 0);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = file.read(&mut chunk)?;
        let bytes = chunk.get(..count).unwrap_or_default();
        read += bytes.len() as u64;
        if read > size || (bytes.is_empty() && read < size) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file changes while it is read"));
        }
        if bytes.is_empty() {
            return Ok((hash.finalize(), start));
        }
        hash.update(bytes);
        let wanted = head.saturating_sub(start.len()).min(bytes.len());
        start.extend_from_slice(bytes.get(..wanted).unwrap_or_default());
    }
}

enum Entry {
    File(Stamp),
    Folder,
    Other(&'static str),
}

/// Names in an open folder, except those that begin with a dot.
fn entries(folder: &OwnedFd, examined: &mut usize) -> io::Result<Vec<(String, Entry)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        *examined += 1;
        if *examined > MAX_EXAMINED {
            return Err(too_many());
        }
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        let kind = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Entry::File(Stamp::of(&stat)),
                FileType::Directory => Entry::Folder,
                FileType::Symlink => Entry::Other("symbolic links are not followed"),
                _ => Entry::Other("it is neither a file nor a folder"),
            },
            Err(rustix::io::Errno::NOENT) => continue,
            Err(_) => Entry::Other("its type cannot be read"),
        };
        let name = OsStr::from_bytes(name.to_bytes());
        entries.push(match name.to_str() {
            Some(name) => (name.to_owned(), kind),
            None => (name.to_string_lossy().into_owned(), Entry::Other("its name is not UTF-8")),
        });
    }
    Ok(entries)
}

fn too_many() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the folder has more than {MAX_EXAMINED} entries"))
}

fn regular(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}
