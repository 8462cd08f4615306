//! Child process as a server: start, environment, stderr.
//!
//! Starts a program, exchanges messages over its stdin and stdout, keeps the end of its stderr, and
//! ends it with all processes that it has started. The client decides whether to start it again.
//!
//! Source: MCP basic/transports/stdio (shutdown: close the input, then SIGTERM, then SIGKILL).
//!
//! | module | subject |
//! |---|---|
//! | `settings` | what users choose |
//! | `stderr` | the end of the child's stderr, or its lines |
//! | `unix` | process groups, signals, one thread that polls all pipes |
//! | `stdin` | on Unix: the input, with a deadline for each sender |
//! | `windows` | job objects, one thread for each pipe |
//!
//! # Environment
//! A child gets the variables of [`inherited`] and those that its `Command` sets. Other variables
//! of this process may hold secrets. `ClientBuilder::inherit_env` passes all of them on.

mod settings;
mod stderr;
#[cfg(unix)]
mod stdin;
#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::limits::Limits;

use super::{Connector, Transport};
pub use settings::Stderr;
pub(crate) use settings::{ChildSettings, tagged};
use stderr::{StderrReader, StderrUse};

/// Variables of this process that a child gets, beside those that begin with `LC_`.
#[cfg(unix)]
const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR", "SHELL"];
/// Variables of this process that a child gets: programs do not start, or find no folder of the
/// user, without them. Names ignore case.
#[cfg(windows)]
const INHERITED: [&str; 19] = [
    "PATH",
    "PATHEXT",
    "COMSPEC",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "WINDIR",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "HOMEDRIVE",
    "HOMEPATH",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROCESSOR_ARCHITECTURE",
    "NUMBER_OF_PROCESSORS",
    "LANG",
];

/// Returns whether a child gets this variable of this process by default.
fn inherited(name: &OsStr) -> bool {
    if cfg!(windows) {
        return INHERITED.iter().any(|known| name.eq_ignore_ascii_case(known));
    }
    INHERITED.iter().any(|known| name == *known) || name.as_encoded_bytes().starts_with(b"LC_")
}

/// Starts the program, any number of times.
pub(crate) struct ChildConnector {
    command: Command,
    /// Variables that the command sets or removes itself. `None`: the child gets the whole
    /// environment.
    own: Option<HashSet<OsString>>,
    stderr: StderrUse,
    limits: Limits,
}

impl ChildConnector {
    pub(crate) fn new(mut command: Command, settings: ChildSettings, limits: Limits) -> ChildConnector {
        let ChildSettings { stderr, on_stderr, inherit_env } = settings;
        let own = (!inherit_env).then(|| command.get_envs().map(|(name, _)| name.to_owned()).collect());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let stderr = match (stderr, on_stderr) {
            (Stderr::Inherit, None) => {
                command.stderr(Stdio::inherit());
                StderrUse::None
            }
            (Stderr::Null, _) => {
                command.stderr(Stdio::null());
                StderrUse::None
            }
            (Stderr::Inherit, Some(lines)) => {
                command.stderr(Stdio::piped());
                StderrUse::Lines(lines)
            }
            (Stderr::Piped, _) => {
                command.stderr(Stdio::piped());
                StderrUse::Tail(limits.client.stderr_bytes)
            }
        };
        system::prepare(&mut command);
        ChildConnector { command, own, stderr, limits }
    }

    /// Removes the variables of this process that the child must not get. Runs before each start,
    /// because the environment may have changed.
    fn limit_environment(&mut self) {
        let Some(own) = &self.own else { return };
        for (name, _) in std::env::vars_os().filter(|(name, _)| !inherited(name) && !own.contains(name)) {
            // Removing variables keeps an `env_clear` of the caller and the fast start of std.
            self.command.env_remove(name);
        }
    }
}

impl Connector for ChildConnector {
    fn dial(&mut self) -> Result<Arc<dyn Transport>, Error> {
        self.limit_environment();
        let child = self.command.spawn().map_err(|error| {
            let program = self.command.get_program().to_string_lossy();
            let mut message = format!("cannot start the program {program:?}");
            if cfg!(windows) && error.kind() == std::io::ErrorKind::NotFound {
                message.push_str("; a script needs its extension, such as \"npx.cmd\"");
            }
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        let stderr = Arc::new(StderrReader::new(self.stderr.clone()));
        Ok(Arc::new(system::connect(child, stderr, &self.limits)?))
    }

    fn can_reconnect(&self) -> bool {
        true
    }
}
