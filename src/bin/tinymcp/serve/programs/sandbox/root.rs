//! Root folder that consists of the granted paths.
//!
//! Landlock does not control every use of a file: before Linux 7.1 it ignores named Unix sockets,
//! and it ignores `stat` and changes of mode, owner and times. In a mount namespace whose root has
//! nothing but the granted paths, other files do not exist.
//!
//! Each path keeps its name. Symbolic links on the way to it are created again.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, StatVfsMountFlags};
use rustix::io::{Errno, Result};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    mount_remount, move_mount, open_tree, unmount,
};

/// A granted path.
pub(super) struct Granted {
    pub(super) path: PathBuf,
    /// Opened with `O_PATH`.
    pub(super) file: OwnedFd,
    pub(super) access: Access,
}

/// Access to a granted path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    /// Reading and writing a device file.
    Device,
}

/// Folder where the new root is assembled. It exists, since the helper is started from it.
const BASE: &str = "/proc";

/// Symbolic links that a path may lead through, as in the kernel.
const MAX_LINKS: usize = 40;

/// A part of the new root.
struct Part {
    /// Without symbolic links.
    path: PathBuf,
    is_writable: bool,
    is_folder: bool,
    tree: OwnedFd,
}

/// Replaces the root of this process, which has a mount namespace of its own.
pub(super) fn enter(granted: &[Granted]) -> Result<()> {
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let folder = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let mut links = Vec::new();
    for granted in granted {
        find_links(&granted.path, &mut links);
    }
    let parts = parts(granted)?;
    let mounts =
        fs::read("/proc/self/mountinfo").map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    let mounts = mount_points(&mounts);

    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", BASE, "tmpfs", flags, Some(c"mode=755,size=1m"))?;
    create_folders(&folder)?;
    for (link, target) in links {
        create_folders(link.parent().unwrap_or(&link))?;
        // The link exists already if two paths lead through it.
        let _ = symlink(target, below_base(&link));
    }
    for part in parts {
        attach(&part, &mounts)?;
    }
    rustix::process::chdir(BASE)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    // The folder may be unreadable without privileges.
    rustix::process::chdir(&folder).or_else(|_| rustix::process::chdir("/"))
}

/// Clones the mounts of the granted paths, outer ones first.
fn parts(granted: &[Granted]) -> Result<Vec<Part>> {
    let is_writable = |granted: &Granted| granted.access == Access::Write;
    let mut parts: Vec<Part> = Vec::new();
    let mut sorted = Vec::new();
    for granted in granted {
        let path =
            fs::canonicalize(&granted.path).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::NOENT))?;
        sorted.push((path, granted));
    }
    // Of two grants for one path, the one for writing is attached first and covers the other.
    sorted.sort_by(|(a, first), (b, second)| a.cmp(b).then(is_writable(second).cmp(&is_writable(first))));
    for (path, granted) in sorted {
        let is_covered =
            |part: &Part| path.starts_with(&part.path) && (part.is_writable || !is_writable(granted));
        if parts.iter().any(is_covered) {
            continue;
        }
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_EMPTY_PATH;
        let tree = open_tree(&granted.file, "", flags)?;
        parts.push(Part { is_folder: path.is_dir(), path, is_writable: is_writable(granted), tree });
    }
    Ok(parts)
}

/// Attaches a part at its path, read-only with all mounts below it unless writing is granted.
fn attach(part: &Part, mounts: &[PathBuf]) -> Result<()> {
    let target = below_base(&part.path);
    if part.is_folder {
        create_folders(&part.path)?;
    } else {
        create_folders(part.path.parent().unwrap_or(&part.path))?;
        let _ = fs::File::create_new(&target);
    }
    move_mount(&part.tree, "", CWD, &target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    if part.is_writable {
        return Ok(());
    }
    make_read_only(&target)?;
    for mount in mounts.iter().filter(|mount| **mount != part.path && mount.starts_with(&part.path)) {
        match make_read_only(&below_base(mount)) {
            // Another mount covers it, or no user of this namespace can reach it.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::INVAL | Errno::ACCESS) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn make_read_only(target: &Path) -> Result<()> {
    // The flags of a mount cannot be removed in a user namespace.
    let own = rustix::fs::statvfs(target)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (present, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if own.contains(present) {
            flags |= flag;
        }
    }
    mount_remount(target, flags, "")
}

/// Returns the mount points of `/proc/self/mountinfo`: the fifth field, in which white space is
/// octal.
fn mount_points(list: &[u8]) -> Vec<PathBuf> {
    let fields = list.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    fields.map(|field| PathBuf::from(OsString::from_vec(unescaped(field)))).collect()
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Collects the symbolic links on the way to a path, with their targets.
fn find_links(path: &Path, links: &mut Vec<(PathBuf, PathBuf)>) {
    let mut rest = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Some((link, target, after)) = first_link(&rest) else { return };
        rest = link.parent().unwrap_or(Path::new("/")).join(&target).join(after);
        links.push((link, target));
    }
}

/// Returns the first symbolic link of a path, its target, and the rest of the path.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf, PathBuf)> {
    let mut before = PathBuf::new();
    let mut components = path.components();
    while let Some(component) = components.next() {
        match component {
            Component::ParentDir => {
                before.pop();
            }
            _ => before.push(component),
        }
        if let Ok(target) = fs::read_link(&before) {
            return Some((before, target, components.as_path().to_owned()));
        }
    }
    None
}

fn create_folders(path: &Path) -> Result<()> {
    let created = fs::DirBuilder::new().recursive(true).mode(0o755).create(below_base(path));
    created.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::NOENT))
}

fn below_base(path: &Path) -> PathBuf {
    Path::new(BASE).join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        let list = b"22 27 0:21 / /proc rw - proc proc rw\n23 27 0:22 / /a\\040b\\134 rw - x x rw\n";
        assert_eq!(mount_points(list), [PathBuf::from("/proc"), PathBuf::from("/a b\\")]);
    }
}
