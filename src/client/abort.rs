//! Ends connections from another thread, also while they are being established.
//!
//! While a program connects it has no client yet to close. Dropping an [`Abort`] ends nothing.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};
use crate::sync::{lock, wait_for};

use super::connection::Core;

/// Time to wait for a child process that is being started.
const STARTING: Duration = Duration::from_secs(5);

/// Ends connections from any thread, open ones and those that are being opened: see
/// [`ClientBuilder::abort`](crate::ClientBuilder::abort).
///
/// Clones end the same connections. An aborted handle stays aborted: later connections fail.
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
        let until = Instant::now() + STARTING;
        let cores = {
            let mut state = lock(&self.0.state);
            state.aborted = true;
            // A thread that is starting a program checks the flag next, and ends it.
            while state.opening > 0 {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = wait_for(&self.0.opened, state, left);
            }
            std::mem::take(&mut state.cores)
        };
        for core in cores.iter().filter_map(Weak::upgrade) {
            core.close();
        }
    }

    /// Begins to connect. `abort` waits until the guard is dropped.
    ///
    /// # Errors
    /// It was aborted.
    pub(super) fn opening(&self) -> Result<Opening<'_>, Error> {
        let mut state = lock(&self.0.state);
        if state.aborted {
            return Err(aborted());
        }
        state.opening += 1;
        Ok(Opening(&self.0))
    }

    /// Adds a connection to those that `abort` ends.
    ///
    /// # Errors
    /// It was aborted.
    pub(super) fn covers(&self, core: &Arc<Core>) -> Result<(), Error> {
        let mut state = lock(&self.0.state);
        if state.aborted {
            return Err(aborted());
        }
        state.cores.retain(|core| core.strong_count() > 0);
        state.cores.push(Arc::downgrade(core));
        Ok(())
    }
}

/// A connection that `abort` does not know yet.
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
