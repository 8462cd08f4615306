//! Landlock rules, network namespace and capabilities.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::root::{self, Access, Granted};
use super::{Entry, FAILED, Level, SYSTEM_WORD, Support, variables};
use crate::Result;
use crate::serve::SANDBOX_COMMAND;
use crate::serve::definition::Grants;

/// Programs, libraries and the public configuration that most of them read. Paths that do not
/// exist are skipped.
const SYSTEM: &str = "/usr /bin /sbin /lib /lib32 /lib64 /nix/store /gnu/store \
     /etc/alternatives /etc/ld.so.cache /etc/ld.so.preload \
     /etc/ld-musl-armhf.path /etc/ld-musl-aarch64.path /etc/ld-musl-x86_64.path \
     /etc/localtime /etc/locale.alias /etc/nsswitch.conf /etc/passwd /etc/group \
     /etc/hosts /etc/host.conf /etc/resolv.conf /etc/services /etc/protocols \
     /etc/ssl/certs /etc/ssl/openssl.cnf /etc/ca-certificates";

/// Devices that every program may read and write.
const DEVICES: &str = "/dev/null /dev/zero /dev/full /dev/random /dev/urandom";

/// Exit status if the program does not exist.
const NOT_FOUND: u8 = 127;

/// Newest rules that are requested; the kernel applies those it has.
const RULES: ABI = ABI::V10;

/// Exit status of `--probe` without network namespaces.
const NO_NAMESPACE: u8 = 1;
/// Exit status of `--probe` with network namespaces, without a root folder of its own.
const NO_ROOT: u8 = 2;

/// Capabilities that a program of root keeps. The others could undo the restrictions: loading
/// modules, mounting, raw access to devices, entering namespaces, tracing.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_NICE);

/// Applies the sandbox and executes the program. Returns only for `--probe` or an error, with its
/// exit status.
///
/// No thread has been started: `exec` keeps the restrictions of the calling thread, and a user
/// namespace cannot be made with more than one.
pub(super) fn enter(entry: Entry) -> Result<u8, (u8, String)> {
    if entry.probe {
        return Ok(probe_namespaces());
    }
    super::descriptors::close_all();
    restrict(&entry).map_err(|error| (FAILED, error))?;
    let (program, rest) = entry.argv.split_first().ok_or((FAILED, String::new()))?;
    let mut command = Command::new(program);
    let error = command.args(rest).env_clear().envs(variables(std::env::vars_os())).exec();
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            "; \"read\" must cover the program, its interpreter and its libraries: add \"system\" or their folders"
        }
        _ if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
            "; a script needs a first line such as #!/bin/sh"
        }
        _ => "",
    };
    let status = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { FAILED };
    Err((status, format!("cannot execute {program:?}: {error}{hint}")))
}

fn restrict(entry: &Entry) -> Result<()> {
    let Entry { grants, .. } = entry;
    if !grants.net && !entry.no_namespace {
        isolate(CloneFlags::CLONE_NEWNET).map_err(|e| format!("cannot make a network namespace: {e}"))?;
    }
    let root = !entry.no_namespace && !entry.no_root;
    if root {
        isolate(CloneFlags::CLONE_NEWNS).map_err(|e| format!("cannot make a mount namespace: {e}"))?;
    }
    let granted = open_paths(grants)?;
    if root {
        root::enter(&granted).map_err(|e| format!("cannot change the root folder: {e}"))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(|e| format!("cannot set no_new_privs: {e}"))?;
    if !entry.no_files && !apply_rules(granted, grants.net).unwrap_or(false) {
        return Err("Landlock failed: access to files cannot be restricted".to_owned());
    }
    drop_capabilities().map_err(|e| format!("cannot drop capabilities: {e}"))
}

/// Moves this process into a new namespace. Without privileges that needs a user namespace, in
/// which the ids stay the same.
fn isolate(namespace: CloneFlags) -> io::Result<()> {
    if unshare(namespace).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | namespace)?;
    // Required before `gid_map`, since otherwise a group that denies access could be dropped.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Opens the paths of the grants.
fn open_paths(grants: &Grants) -> Result<Vec<Granted>> {
    let mut granted = Vec::new();
    let optional = |path: &str| {
        let path = PathBuf::from(path);
        Some(Granted { file: open(&path).ok()?, path, access: Access::Read })
    };
    for path in &grants.read {
        if path == Path::new(SYSTEM_WORD) {
            granted.extend(SYSTEM.split(' ').filter_map(optional));
        } else {
            granted.extend(grant(Access::Read, path, grants)?);
        }
    }
    for path in &grants.write {
        granted.extend(grant(Access::Write, path, grants)?);
    }
    let devices = DEVICES.split(' ').filter_map(optional);
    granted.extend(devices.map(|device| Granted { access: Access::Device, ..device }));
    Ok(granted)
}

/// Opens a path, unless a `write` grant already covers it: a program with that grant could have
/// replaced it by a link to another file. A path that does not exist is not granted.
fn grant(access: Access, path: &Path, grants: &Grants) -> Result<Option<Granted>> {
    if grants.write.iter().any(|above| path != above && path.starts_with(above)) {
        return Ok(None);
    }
    let member = if access == Access::Read { "read" } else { "write" };
    match open(path) {
        Ok(file) => Ok(Some(Granted { path: path.to_owned(), file, access })),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(format!("cannot open {path:?} of \"{member}\": {e}")),
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Applies the Landlock rules. Returns whether the kernel enforces any.
fn apply_rules(granted: Vec<Granted>, net: bool) -> Option<bool> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(RULES)).ok()?;
    rules = if net {
        rules.scope(Scope::Signal).ok()?
    } else {
        rules.handle_access(AccessNet::from_all(RULES)).ok()?.scope(Scope::from_all(RULES)).ok()?
    };
    let mut rules: RulesetCreated = rules.create().ok()?;
    for Granted { file, access, .. } in granted {
        let access = match access {
            Access::Read => AccessFs::from_read(RULES),
            // Device files would give access to disks and memory.
            Access::Write => AccessFs::from_all(RULES) & !(AccessFs::MakeBlock | AccessFs::MakeChar),
            Access::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
        };
        rules = rules.add_rule(PathBeneath::new(file, access)).ok()?;
    }
    Some(rules.restrict_self().ok()?.ruleset != RulesetStatus::NotEnforced)
}

/// Removes the capabilities that could undo the restrictions. A program of another user than root
/// gains none by `exec`, once the ambient set is empty.
fn drop_capabilities() -> rustix::io::Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let own = rustix::thread::capabilities(None)?;
    if !is_root && own.permitted.is_empty() {
        return Ok(());
    }
    rustix::thread::clear_ambient_capability_set()?;
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if KEPT.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Beyond the last capability of this kernel.
            Err(Errno::INVAL) => break,
            Err(error) if is_root => return Err(error),
            _ => {}
        }
    }
    let kept = own.permitted & KEPT;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}

/// Returns the exit status of `--probe`.
fn probe_namespaces() -> u8 {
    if isolate(CloneFlags::CLONE_NEWNET).is_err() {
        return NO_NAMESPACE;
    }
    let probe_root = || {
        unshare(CloneFlags::CLONE_NEWNS).ok()?;
        root::enter(&open_paths(&Grants::default()).ok()?).ok()
    };
    if probe_root().is_some() { 0 } else { NO_ROOT }
}

/// Finds the restrictions of this kernel.
pub(super) fn probe() -> Support {
    let status = Command::new("/proc/self/exe")
        .args([SANDBOX_COMMAND, "--probe"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let code = status.ok().and_then(|status| status.code());
    let (namespace, root) = (code == Some(0) || code == Some(NO_ROOT.into()), code == Some(0));
    let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let files = if strict().handle_access(AccessFs::from_all(ABI::V3)).is_ok() {
        Level::Full
    } else if strict().handle_access(AccessFs::from_all(ABI::V1)).is_ok() {
        Level::Partial
    } else {
        Level::None
    };
    let named_sockets = root || strict().handle_access(AccessFs::ResolveUnix).is_ok();
    let net = if namespace && named_sockets {
        Level::Full
    } else if namespace || strict().handle_access(AccessNet::from_all(ABI::V4)).is_ok() {
        Level::Partial
    } else {
        Level::None
    };
    Support { files, net, namespace, root }
}
