//! Stores of tasks: the interface, and the store in memory.

use crate::error::Error;
use crate::json::Json;

/// Store of a server's tasks, for [`Server::tasks`](crate::Server::tasks).
///
/// The server also keeps all tasks in memory; the store makes them survive the process. The
/// documents are opaque to the store, which returns them unchanged.
///
/// Methods are called from several threads and may block. [`TaskStore::accept`] is called before
/// the client gets the id of the task, and again when a restarted server runs the task again.
/// [`TaskStore::finish`] is called before the client gets the result.
pub trait TaskStore: Send + Sync {
    /// Returns all stored tasks, in the order in which they were accepted.
    ///
    /// # Errors
    /// The tasks cannot be read. [`Server::tasks`](crate::Server::tasks) fails with this error.
    fn load(&self) -> Result<Vec<StoredTask>, Error>;

    /// Stores a task before its handler runs. Replaces a task with this id, which then has no
    /// outcome. On return the task must survive a power cut.
    ///
    /// # Errors
    /// The task cannot be stored. This is reported on standard error, and the call is rejected.
    fn accept(&self, id: &str, task: &Json) -> Result<(), Error>;

    /// Stores the outcome of a task. On return it must survive a power cut.
    ///
    /// # Errors
    /// The outcome cannot be stored. This is reported on standard error, and clients get the
    /// outcome while the process runs.
    fn finish(&self, id: &str, outcome: &Json) -> Result<(), Error>;

    /// Removes a task whose lifetime has ended. The removal need not survive a power cut.
    fn remove(&self, id: &str);

    /// Returns whether tasks survive the process. If so, tasks that run when the server ends may
    /// finish within the grace period ([`Limits::grace`](crate::Limits::grace)); otherwise they are
    /// cancelled at once.
    fn is_durable(&self) -> bool {
        true
    }
}

/// A task in a [`TaskStore`], such as [`FileTaskStore`](super::FileTaskStore).
#[derive(Clone, Debug)]
pub struct StoredTask {
    /// Its id.
    pub id: String,
    /// The document of [`TaskStore::accept`].
    pub task: Json,
    /// The document of [`TaskStore::finish`], if the task is over.
    pub outcome: Option<Json>,
}

/// Store that saves nothing: tasks end with the process. See
/// [`Server::tasks`](crate::Server::tasks).
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryTaskStore;

impl TaskStore for MemoryTaskStore {
    fn load(&self) -> Result<Vec<StoredTask>, Error> {
        Ok(Vec::new())
    }

    fn accept(&self, _: &str, _: &Json) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&self, _: &str, _: &Json) -> Result<(), Error> {
        Ok(())
    }

    fn remove(&self, _: &str) {}

    fn is_durable(&self) -> bool {
        false
    }
}
