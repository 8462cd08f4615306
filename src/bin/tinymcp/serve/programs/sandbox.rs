//! Sandbox of a program: files by Landlock, the network by a namespace.
//!
//! The server starts `/proc/self/exe __sandbox OPTIONS -- PROGRAM ARGUMENTS`. That process
//! restricts itself and then executes the program, so the restrictions cover everything that the
//! program starts. No privileges are needed.
//!
//! | option | meaning |
//! |---|---|
//! | `--read PATH`, `--write PATH` | grants; `system` stands for the paths in `SYSTEM` |
//! | `--net` | the network is granted |
//! | `--no-files`, `--no-namespace`, `--no-root` | a restriction that is not available is skipped |
//! | `--probe` | the exit status shows which namespaces are available |
//!
//! Without its `--no-` option, a restriction that fails is an error.
//!
//! The dynamic loader runs in that process before the restrictions are applied. Variables such as
//! `LD_PRELOAD` would let it execute code of the program, so each variable gets a prefix, which is
//! removed when the program is executed.
//!
//! # Restrictions
//! - Files: opening, creating, renaming and removing need a grant. `read` covers reading, listing
//!   and executing; `write` covers everything but making device files. The devices in `DEVICES`
//!   are always granted. Paths that do not exist when the program starts are skipped.
//!   A root folder that consists of the granted paths hides other files and named sockets. Mounts
//!   that are only granted to read are read-only.
//! - Network: a namespace without interfaces, not even loopback. Landlock also refuses TCP, UDP and
//!   abstract Unix sockets, as far as the kernel can.
//! - Signals and ptrace reach processes of the same sandbox only (signals since Linux 6.12).
//! - Privileges: set-user-ID programs gain none, and a program of root keeps only capabilities
//!   that concern file owners and modes, see `linux::KEPT`.
//!
//! # Limits
//! - Without mount namespaces, a program may connect to every named Unix socket that file
//!   permissions allow (before Linux 7.1), and `stat` and change mode, owner and times of files
//!   outside its grants.
//! - With `net`, abstract Unix sockets and the sockets below granted paths can be used.
//! - Without privileges a user namespace is needed, in which files of other users seem to belong to
//!   `nobody`.
//! - Pipes and files that the server passes stay usable: standard input, output and error. The
//!   helper closes all other descriptors.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(target_os = "linux")]
use super::group::MARK;
use crate::Result;
use crate::escape::plain;
use crate::serve::SANDBOX_COMMAND;
use crate::serve::definition::Grants;

#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod root;

/// Entry of `read` that stands for the system's programs and libraries.
pub(crate) const SYSTEM_WORD: &str = "system";

/// Prefix of the variables of a program in the environment of the hidden command. Arguments would
/// be visible to all users.
const VARIABLE: &str = "TINYMCP_ENV_";

/// Exit status if the program cannot be executed or its sandbox fails.
const FAILED: u8 = 126;

/// Part of a restriction that this kernel can enforce.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "other systems have no restrictions"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Full,
    Partial,
    None,
}

/// Restrictions that this kernel can enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Support {
    /// `Partial` before Linux 6.2: files can be truncated without a grant.
    pub(crate) files: Level,
    /// `Partial`: named Unix sockets, or everything but TCP, can be used without a grant.
    pub(crate) net: Level,
    namespace: bool,
    root: bool,
}

impl Support {
    /// Describes the restrictions that a program with these grants would run without.
    pub(crate) fn missing(&self, grants: &Grants) -> Option<String> {
        let files = match self.files {
            Level::Full => None,
            Level::Partial => Some("truncating a file is not restricted (requires Linux 6.2)"),
            Level::None => {
                Some("access to files is not restricted (requires Landlock: Linux 5.13, enabled at boot)")
            }
        };
        let net = match self.net {
            _ if grants.net => None,
            Level::Full => None,
            Level::Partial => {
                Some("of the network only TCP is restricted (network namespaces are not available)")
            }
            Level::None => Some("the network is not restricted (network namespaces are not available)"),
        };
        match (files, net) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => Some(one.to_owned()),
            (Some(files), Some(net)) => Some(format!("{files}; {net}")),
        }
    }
}

/// Returns the restrictions that this kernel can enforce. Probed at the first call.
#[cfg(target_os = "linux")]
pub(crate) fn support() -> Support {
    static SUPPORT: std::sync::OnceLock<Support> = std::sync::OnceLock::new();
    *SUPPORT.get_or_init(linux::probe)
}

/// Only Linux has the restrictions.
#[cfg(not(target_os = "linux"))]
pub(crate) fn support() -> Support {
    Support { files: Level::None, net: Level::None, namespace: false, root: false }
}

/// Returns the command that runs a program with these variables, inside a sandbox if there are
/// grants.
///
/// Restrictions that [`support`] lacks are omitted. The caller refuses to start where the
/// definition requires them.
///
/// # Errors
/// `argv` is empty.
pub(crate) fn command(
    argv: &[OsString],
    env: &[(OsString, OsString)],
    grants: Option<&Grants>,
) -> io::Result<Command> {
    let Some((program, rest)) = argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "empty command line"));
    };
    let support = match grants {
        Some(_) if cfg!(target_os = "linux") => support(),
        _ => {
            let mut command = Command::new(program);
            command.args(rest).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
            return Ok(command);
        }
    };
    // Runs this program even if its file has been replaced since it started.
    let mut command = Command::new("/proc/self/exe");
    command.arg(SANDBOX_COMMAND).env_clear().envs(env.iter().map(|(name, value)| (prefixed(name), value)));
    if let Some(grants) = grants {
        command.args(options(grants, support));
    }
    command.arg("--").args(argv);
    Ok(command)
}

fn prefixed(name: &OsStr) -> OsString {
    let mut prefixed = OsString::from(VARIABLE);
    prefixed.push(name);
    prefixed
}

/// Returns the variables of the program from those of the hidden command: those with the prefix,
/// and the mark.
#[cfg(target_os = "linux")]
fn variables(own: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    use std::os::unix::ffi::OsStrExt;

    let mut mark = None;
    let mut variables = Vec::new();
    for (name, value) in own {
        match name.as_bytes().strip_prefix(VARIABLE.as_bytes()) {
            Some(name) if !name.is_empty() => variables.push((OsStr::from_bytes(name).to_owned(), value)),
            _ if name == MARK => mark = Some((name, value)),
            _ => {}
        }
    }
    // Overrides a variable of the definition with the same name.
    variables.extend(mark);
    variables
}

/// Returns the options of the hidden command.
fn options(grants: &Grants, support: Support) -> Vec<OsString> {
    let mut options: Vec<OsString> = Vec::new();
    for (option, paths) in [("--read", &grants.read), ("--write", &grants.write)] {
        for path in paths {
            options.push(option.into());
            options.push(path.into());
        }
    }
    let flags = [
        (grants.net, "--net"),
        (support.files == Level::None, "--no-files"),
        (!support.namespace, "--no-namespace"),
        (!support.root, "--no-root"),
    ];
    options.extend(flags.iter().filter(|(given, _)| *given).map(|(_, flag)| flag.into()));
    options
}

/// Arguments of the hidden command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entry {
    grants: Grants,
    no_files: bool,
    no_namespace: bool,
    no_root: bool,
    probe: bool,
    argv: Vec<OsString>,
}

/// Parses the arguments of the hidden command.
fn parse(args: Vec<OsString>) -> Result<Entry> {
    let mut entry = Entry::default();
    let mut args = args.into_iter();
    while let Some(option) = args.next() {
        match option.to_str() {
            Some("--read") => entry.grants.read.push(path(&option, args.next())?),
            Some("--write") => entry.grants.write.push(path(&option, args.next())?),
            Some("--net") => entry.grants.net = true,
            Some("--no-files") => entry.no_files = true,
            Some("--no-namespace") => entry.no_namespace = true,
            Some("--no-root") => entry.no_root = true,
            Some("--probe") => entry.probe = true,
            Some("--") => entry.argv = args.by_ref().collect(),
            _ => return Err(format!("unexpected argument {option:?}")),
        }
    }
    if entry.argv.is_empty() && !entry.probe {
        return Err("missing program after `--`".to_owned());
    }
    Ok(entry)
}

fn path(option: &OsStr, value: Option<OsString>) -> Result<PathBuf> {
    let path = PathBuf::from(value.ok_or_else(|| format!("missing path after {option:?}"))?);
    if path.is_absolute() || (option == "--read" && path == Path::new(SYSTEM_WORD)) {
        return Ok(path);
    }
    Err(format!("{option:?} {path:?}: must be an absolute path"))
}

/// Prevents all programs that this process starts, with and without a sandbox, from inheriting the
/// descriptors that this process inherited. Called before any descriptor is opened.
pub(crate) fn close_inherited_at_exec() {
    #[cfg(target_os = "linux")]
    descriptors::close_at_exec();
}

/// Applies the sandbox of the arguments to this process and executes the program. Returns only if
/// that fails, after one line on standard error.
pub(crate) fn enter(args: Vec<OsString>) -> u8 {
    #[cfg(target_os = "linux")]
    let result = parse(args).map_err(|e| (FAILED, e)).and_then(linux::enter);
    #[cfg(not(target_os = "linux"))]
    let result: Result<u8, _> =
        parse(args).and_then(|_| Err("requires Linux".to_owned())).map_err(|e| (FAILED, e));
    result.unwrap_or_else(|(status, error)| {
        eprintln!("tinymcp: sandbox: {}", plain(&error));
        status
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use super::*;

    const ALL: Support = Support { files: Level::Full, net: Level::Full, namespace: true, root: true };
    const NOTHING: Support = Support { files: Level::None, net: Level::None, namespace: false, root: false };

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn grants() -> Grants {
        Grants { read: vec!["/a b".into(), "system".into()], write: vec!["/--".into()], net: true }
    }

    #[test]
    fn the_hidden_command_reads_what_the_server_writes() {
        let argv = words(&["prog", "--", "--read", "", "-x"]);
        for (support, missing) in [(ALL, false), (NOTHING, true)] {
            let mut args = options(&grants(), support);
            args.push("--".into());
            args.extend(argv.iter().cloned());
            let entry = parse(args).unwrap();
            let expected = Entry {
                grants: grants(),
                no_files: missing,
                no_namespace: missing,
                no_root: missing,
                probe: false,
                argv: argv.clone(),
            };
            assert_eq!(entry, expected);
        }
    }

    #[test]
    fn wrong_arguments_are_errors() {
        for (args, error) in [
            (&["--read"] as &[&str], "missing path after \"--read\""),
            (&["--read", "a", "--", "b"], "\"--read\" \"a\": must be an absolute path"),
            (&["--write", "system", "--", "b"], "\"--write\" \"system\": must be an absolute path"),
            (&["--more", "--", "b"], "unexpected argument \"--more\""),
            (&["b"], "unexpected argument \"b\""),
            (&["--net", "--"], "missing program after `--`"),
            (&[], "missing program after `--`"),
        ] {
            assert_eq!(parse(words(args)).unwrap_err(), error);
        }
    }

    #[test]
    fn a_program_without_grants_is_started_directly() {
        let env = [("A".into(), "b".into())];
        let command = command(&words(&["prog", "-x"]), &env, None).unwrap();
        assert_eq!(command.get_program(), "prog");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["-x"]);
        assert_eq!(command.get_envs().collect::<Vec<_>>(), [("A".as_ref(), Some("b".as_ref()))]);
        assert!(super::command(&[], &[], None).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn variables_reach_the_program_only() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let env = pairs(&[("LD_PRELOAD", "/x.so"), ("TINYMCP_ENV_A", "a=b"), (MARK, "own")]);
        let command = command(&words(&["prog"]), &env, Some(&grants())).unwrap();
        let mut given: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())).collect();
        assert!(given.iter().all(|(name, _)| name.to_str().unwrap().starts_with(VARIABLE)), "{given:?}");
        assert!(command.get_args().all(|argument| argument != "/x.so"));
        given.extend(pairs(&[(MARK, "1.2"), ("LD_PRELOAD", "other")]));
        let last = |name: &str| {
            let found = variables(given.iter().cloned()).into_iter().rfind(|(known, _)| known == name);
            found.unwrap().1
        };
        assert_eq!(variables(given.iter().cloned()).len(), 4);
        assert_eq!(last("LD_PRELOAD"), "/x.so");
        assert_eq!(last("TINYMCP_ENV_A"), "a=b");
        assert_eq!(last(MARK), "1.2");
    }

    #[test]
    fn missing_restrictions_are_described() {
        let partial = Support { files: Level::Partial, net: Level::Partial, namespace: false, root: false };
        let no_net = Grants { net: false, ..grants() };
        assert_eq!(ALL.missing(&no_net), None);
        assert!(
            NOTHING.missing(&grants()).unwrap().contains("files")
                && !NOTHING.missing(&grants()).unwrap().contains("network")
        );
        assert!(NOTHING.missing(&no_net).unwrap().contains("; the network is not restricted"));
        assert!(partial.missing(&no_net).unwrap().contains("only TCP"));
    }
}
