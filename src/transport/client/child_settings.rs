//! Settings of child processes. They exist on every system, so that code that uses them is
//! portable; [`ClientBuilder::spawn`](crate::ClientBuilder::spawn) fails where child processes are
//! not supported.

use std::sync::Arc;

/// Destination of the stderr of a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stderr {
    /// It goes to the stderr of this process. A hub puts the server's key in front of each line.
    #[default]
    Inherit,
    /// Its end is kept: [`Limits::stderr_bytes`](crate::Limits::stderr_bytes).
    Piped,
    /// It is discarded.
    Null,
}

/// Settings of a child process.
#[derive(Clone, Default)]
#[cfg_attr(not(unix), allow(dead_code, reason = "child processes are supported on Unix only"))]
pub(crate) struct ChildSettings {
    pub stderr: Stderr,
    /// Put in front of each line of an inherited stderr.
    pub tag: Option<Arc<str>>,
    /// The whole environment instead of the variables that every child gets.
    pub inherit_env: bool,
}
