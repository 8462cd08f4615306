//! Stamps of files, to detect changes.
//!
//! A stamp holds the times of the last modification and of the last change of the inode, so a file
//! that is replaced by one of the same size and time is detected. Files in `/proc` and `/sys` have
//! no such times: their changes are not detected.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identity and version of a file's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of the file or folder at this path; `None` if the path does not exist.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let found = std::fs::metadata(path).ok()?;
        Some(Stamp {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Paths with the stamps that they had at the last check.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

impl Stamps {
    /// Adds a path with its present stamp.
    pub(crate) fn push(&mut self, path: PathBuf) {
        let stamp = Stamp::of(&path);
        self.0.push((path, stamp));
    }

    /// Returns the indices of the paths that changed since the last check.
    pub(crate) fn changed(&mut self) -> Vec<usize> {
        let mut changed = Vec::new();
        for (at, (path, last)) in self.0.iter_mut().enumerate() {
            let now = Stamp::of(path);
            if *last != now {
                *last = now;
                changed.push(at);
            }
        }
        changed
    }

    /// Adds the paths that are not included yet.
    pub(crate) fn extend(&mut self, paths: &mut dyn Iterator<Item = PathBuf>) {
        for path in paths {
            if !self.0.iter().any(|(known, _)| *known == path) {
                self.push(path);
            }
        }
    }

    /// Replaces the paths. Known paths keep their stamps.
    pub(crate) fn replace(&mut self, paths: &mut dyn Iterator<Item = PathBuf>) {
        let mut old = std::mem::take(&mut self.0);
        old.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for path in paths {
            match old.binary_search_by(|(known, _)| known.cmp(&path)) {
                Ok(at) => self.0.extend(old.get(at).cloned()),
                Err(_) => self.push(path),
            }
        }
    }
}
