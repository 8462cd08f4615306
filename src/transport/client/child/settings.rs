//! Settings of child processes.

use std::sync::Arc;

use crate::stderr;

/// Destination of the stderr of a child.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, Stderr};
///
/// let builder = Client::builder("host", "1.0.0").stderr(Stderr::Piped);
/// let client = builder.spawn(Command::new("board_server"))?;
/// if client.ping().is_err() {
///     eprintln!("the last lines of the server: {}", client.stderr().unwrap_or_default());
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stderr {
    /// Inherit stderr of this process. A hub prefixes each line with the server's key.
    #[default]
    Inherit,
    /// Capture it, and keep the last
    /// [`ClientLimits::stderr_bytes`](crate::ClientLimits::stderr_bytes).
    Piped,
    /// Discard it.
    Null,
}

/// Function of the program for lines of a child's stderr.
pub(crate) type OnStderr = Arc<dyn Fn(&str) + Send + Sync>;

/// Returns a function that writes lines to the stderr of this process, after `tag` and `: `.
pub(crate) fn tagged(tag: String) -> OnStderr {
    Arc::new(move |line| stderr::write(format!("{tag}: {line}\n")))
}

/// Settings of a child process.
#[derive(Clone, Default)]
pub(crate) struct ChildSettings {
    pub stderr: Stderr,
    /// Gets each line of a stderr that would be inherited.
    pub on_stderr: Option<OnStderr>,
    /// Pass the whole environment instead of the default variables.
    pub inherit_env: bool,
}
