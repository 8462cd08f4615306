//! Settings of child processes. They exist on all systems, so that code with them is portable.
//! [`ClientBuilder::spawn`](crate::ClientBuilder::spawn) fails on systems other than Unix.

use std::sync::Arc;

/// Destination of the stderr of a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stderr {
    /// Inherit stderr of this process. A hub prefixes each line with the server's key.
    #[default]
    Inherit,
    /// Capture it, and keep the last [`Limits::stderr_bytes`](crate::Limits::stderr_bytes).
    Piped,
    /// Discard it.
    Null,
}

/// Settings of a child process.
#[derive(Clone, Default)]
#[cfg_attr(not(unix), allow(dead_code, reason = "child processes are supported on Unix only"))]
pub(crate) struct ChildSettings {
    pub stderr: Stderr,
    /// Prefix of each line of an inherited stderr.
    pub tag: Option<Arc<str>>,
    /// Pass the whole environment instead of the default variables.
    pub inherit_env: bool,
}
