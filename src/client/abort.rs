//! Handle that closes connections from another thread, also while they are being established.
//!
//! A program that is connecting has no client that it could close. Dropping an [`Abort`] does not
//! close connections.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};
use crate::sync::{lock, wait_for};

use super::connection::Core;

/// Maximum time to wait for threads that are starting a child process.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Ends connections from any thread, open ones and those that are being opened: see
/// [`ClientBuilder::abort`](crate::ClientBuilder::abort).
///
/// Clones end the same connections. An aborted handle stays aborted: later connections fail.
///
/// ```no_run
/// use std::process::Command;
/// use std::thread;
/// use std::time::Duration;
/// use tinymcp::{Abort, Client};
///
/// let abort = Abort::new();
/// let builder = Client::builder("host", "1.0.0").abort(&abort);
/// // The user may close the window while the server still starts.
/// thread::spawn(move || {
///     thread::sleep(Duration::from_secs(3));
///     abort.abort();
/// });
/// let client = builder.spawn(Command::new("slow_server"))?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Abort(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    aborted: bool,
    /// Number of [`Opening`] guards.
    opening: usize,
    cores: Vec<Weak<Core>>,
}

impl Abort {
    /// Creates a handle that ends no connection yet.
    pub fn new() -> Abort {
        Abort::default()
    }

    /// Ends the connections as [`Client::close`](crate::Client::close) does, and returns when child
    /// processes have ended. Connecting fails from then on with [`ErrorKind::Closed`].
    pub fn abort(&self) {
        let until = Instant::now() + START_TIMEOUT;
        let cores = {
            let mut state = lock(&self.0.state);
            state.aborted = true;
            // A thread that is starting a child process checks the flag next and ends the process.
            while state.opening > 0 {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = wait_for(&self.0.opened, state, left);
            }
            state.cores.clone()
        };
        for core in cores.iter().filter_map(Weak::upgrade) {
            core.close();
        }
    }

    /// Kills the child processes of the connections at once, also while [`Abort::abort`] waits for
    /// their end. Connecting fails from then on.
    pub fn kill(&self) {
        let cores = {
            let mut state = lock(&self.0.state);
            state.aborted = true;
            state.cores.clone()
        };
        for core in cores.iter().filter_map(Weak::upgrade) {
            core.kill();
        }
    }

    /// Marks the start of connecting. `abort` waits until the guard is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the handle was aborted.
    pub(super) fn opening(&self) -> Result<Opening<'_>, Error> {
        let mut state = lock(&self.0.state);
        if state.aborted {
            return Err(aborted());
        }
        state.opening += 1;
        Ok(Opening(&self.0))
    }

    /// Adds a connection to those that `abort` closes.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] if the handle was aborted.
    pub(super) fn register(&self, core: &Arc<Core>) -> Result<(), Error> {
        let mut state = lock(&self.0.state);
        if state.aborted {
            return Err(aborted());
        }
        state.cores.retain(|core| core.strong_count() > 0);
        state.cores.push(Arc::downgrade(core));
        Ok(())
    }
}

/// Guard of a connection that is being established and not registered yet.
pub(super) struct Opening<'a>(&'a Shared);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).opening -= 1;
        self.0.opened.notify_all();
    }
}

impl fmt::Debug for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abort").field("aborted", &lock(&self.0.state).aborted).finish()
    }
}

fn aborted() -> Error {
    Error::new(ErrorKind::Closed, "the connection was aborted while it was being opened")
}
