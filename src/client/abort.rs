//! Ends connections from another thread, also while they are being made.
//!
//! A program that connects has no client yet that it could close. Dropping an [`Abort`] ends
//! nothing.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

use super::connection::{Core, lock};

/// Time to wait for a program that is just being started.
const STARTING: Duration = Duration::from_secs(5);

/// Ends connections from any thread, made ones and those that are being made: see
/// [`ClientBuilder::abort`](crate::ClientBuilder::abort).
///
/// Clones end the same connections. Once aborted, it stays so: no connection is made under it
/// again.
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
    /// Connections that are between the question whether to begin and being covered.
    opening: usize,
    cores: Vec<Weak<Core>>,
}

impl Abort {
    /// Creates a handle that ends no connection yet.
    pub fn new() -> Abort {
        Abort::default()
    }

    /// Ends the connections as [`Client::close`](crate::Client::close) does, and returns when child
    /// processes have ended. Making a connection fails then with [`ErrorKind::Closed`].
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
                state = self.0.opened.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            std::mem::take(&mut state.cores)
        };
        for core in cores.iter().filter_map(Weak::upgrade) {
            core.close();
        }
    }

    /// Begins a connection. From now on `abort` waits until the guard is dropped.
    ///
    /// # Errors
    /// It was aborted.
    pub(super) fn opening(&self) -> Result<Opening<'_>, Error> {
        let mut state = lock(&self.0.state);
        if state.aborted {
            return Err(called_off());
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
            return Err(called_off());
        }
        state.cores.retain(|core| core.strong_count() > 0);
        state.cores.push(Arc::downgrade(core));
        Ok(())
    }
}

/// A connection that was begun and is not covered yet.
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

fn called_off() -> Error {
    Error::new(ErrorKind::Closed, "the connection was called off while it was being made")
}
