//! Tasks: calls of tools whose result the client fetches later.
//!
//! A call of a tool with [`Tool::task`] becomes a task if its client supports tasks. The worker of
//! the call stores the task and responds with its id. Separate threads run tasks, so that ordinary
//! calls never wait for a task.
//!
//! | module | contents |
//! |---|---|
//! | [`task`] | one task: its call, its state |
//! | [`table`] | all tasks: owners, lifetimes, notifications |
//! | [`end`] | ends of tasks: results, cancellation, deadlines, shutdown |
//! | [`call`] | conversion of a call into a task |
//! | [`run`] | the handler of a task |
//! | [`methods`] | requests of clients about tasks |
//! | [`record`] | documents of stored tasks; start after a restart |
//! | [`store`], [`file_store`] | stores |
//!
//! # States
//! A task is queued, runs, or is parked until the client has responded to its requests. Then it
//! is completed, failed or cancelled, and its result is entries for its lifetime. Queued and parked
//! tasks hold no thread. When the client has responded, the handler runs again from the start, as
//! in an ordinary call ([`Context::elicit`](crate::Context::elicit)).
//!
//! # Invariants
//! - A task is stored before its id is sent. Its outcome is stored before the outcome is sent.
//! - One party ends a task: the thread that runs it, a cancellation or the watchdog. It claims this
//!   by [`Call`](super::call::in_flight::Call), like the end of a call.
//! - An id has 128 random bits. A request finds only tasks of its own principal.
//! - The number of tasks and their bytes are bounded
//!   ([`TaskLimits::entries`](crate::TaskLimits::entries),
//!   [`TaskLimits::bytes`](crate::TaskLimits::bytes)).
//! - The lock of the table is never held while a handler runs or the store is used. Notifications
//!   are queued while it is held, so that each client gets the states of a task in order.

mod call;
mod end;
mod file_store;
mod methods;
mod record;
mod run;
mod store;
mod table;
mod task;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::era::extension::{ServerMembers, TASKS};
use crate::era::task as wire;
use crate::error::{Error, ErrorKind};
use crate::json;
use crate::json::Doc;
use crate::model::catalog::Tool;
use crate::model::task::TaskSupport;
use crate::model::{Fault, Query, Revision};
use crate::server::Server;
use crate::server::extension::Method;
use crate::server::registry::ToolHandler;
use crate::server::serve::state::Core;

use self::table::Tasks;

pub(super) use self::call::run;
pub use self::file_store::FileTaskStore;
pub(super) use self::run::ContextTask;
pub use self::store::{MemoryTaskStore, StoredTask, TaskStore};

impl Server {
    /// Supports tasks: tools with [`Tool::task`](crate::Tool::task) can run in the background, and
    /// the client fetches the result later. See the page [tasks](crate::manual::tasks).
    ///
    /// ```
    /// # use tinymcp::{MemoryTaskStore, Server, TaskSupport, Tool};
    /// # fn main() -> Result<(), tinymcp::Error> {
    /// let mut server = Server::new("board", "1.0.0");
    /// server.tasks(MemoryTaskStore)?;
    /// server.tool(Tool::new("flash").task(TaskSupport::Optional), |ctx, ()| {
    ///     for block in 0..100 {
    ///         // … writes the block …
    ///         ctx.progress(f64::from(block), Some(100.0), Some("writing"));
    ///     }
    ///     Ok("flashed")
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse): tasks are already supported. Also the
    /// errors of [`TaskStore::load`].
    pub fn tasks(&mut self, store: impl TaskStore + 'static) -> Result<&mut Server, Error> {
        self.extension(TASKS, json!({}))?;
        let tasks = Tasks::new(Box::new(store), &self.shared)?;
        self.shared.tasks.0.get_or_init(|| tasks);
        Ok(self)
    }
}

/// Tasks.
impl Tool {
    /// Lets the tool run as a task; see the page [tasks](crate::manual::tasks). The task is created
    /// before the handler starts. The server must have called
    /// [`Server::tasks`](crate::Server::tasks).
    #[must_use]
    pub fn task(mut self, support: TaskSupport) -> Tool {
        self.task = support;
        self
    }

    /// As [`Tool::task`], but the handler creates the task by
    /// [`Context::start_task`](crate::Context::start_task). Until then the call is an ordinary one,
    /// which can ask the user first or return a quick result at once.
    #[must_use]
    pub fn task_on_demand(mut self, support: TaskSupport) -> Tool {
        self.task_on_demand = true;
        self.task(support)
    }
}

/// The tasks of a server, if it supports them. Without the feature `tasks`, `without.rs` takes the
/// place of this module.
#[derive(Default)]
pub(crate) struct ServerTasks(OnceLock<Arc<Tasks>>);

impl ServerTasks {
    pub(super) fn get(&self) -> Option<&Arc<Tasks>> {
        self.0.get()
    }

    /// Lets clients of sessions list their tasks.
    pub(super) fn allow_lists(&self) {
        self.get().inspect(|tasks| tasks.allow_lists());
    }

    /// Adds the capability of sessions.
    pub(super) fn announce(&self, members: &mut ServerMembers) {
        if let Some(tasks) = self.get() {
            wire::add_capability(members, tasks.lists());
        }
    }

    /// Prepares the threads, and continues or ends the stored tasks.
    pub(super) fn start(&self, core: &Arc<Core>) {
        self.get().inspect(|tasks| tasks.start(core));
    }

    /// Returns the handler of a method in a revision.
    pub(super) fn method(&self, name: &str, revision: Revision) -> Option<Method> {
        self.get()?.method(name, revision)
    }

    /// Checks that a tool runs as a task if its client requests one.
    ///
    /// # Errors
    /// The tool cannot run as a task.
    pub(super) fn check_call(&self, tool: &Tool, query: &Query, doc: &Doc) -> Result<(), Fault> {
        let forbidden = self.get().is_some() && tool.task == TaskSupport::Forbidden;
        if forbidden && wire::requested(query, doc).is_some() {
            return Err(wire::forbidden(&tool.name));
        }
        Ok(())
    }

    /// Ends overdue tasks. Returns whether there are deadlines left.
    pub(super) fn check(&self, now: Instant) -> bool {
        self.get().is_some_and(|tasks| tasks.check(now))
    }

    /// Accepts no further tasks.
    pub(super) fn close(&self) {
        self.get().inspect(|tasks| tasks.close());
    }

    /// Returns whether no task runs.
    pub(super) fn is_idle(&self) -> bool {
        self.get().is_none_or(|tasks| tasks.is_idle())
    }

    /// Flags the tasks that still run as cancelled.
    pub(super) fn interrupt(&self) {
        self.get().inspect(|tasks| tasks.interrupt());
    }
}

/// Checks the handler of a tool.
///
/// # Errors
/// An inline tool cannot run as a task.
pub(super) fn check_handler(tool: &Tool, handler: &ToolHandler) -> Result<(), Error> {
    if tool.task == TaskSupport::Forbidden || matches!(handler, ToolHandler::Pooled(_)) {
        return Ok(());
    }
    let what = format!("the inline tool {:?} cannot run as a task: use Server::tool", tool.name);
    Err(Error::new(ErrorKind::Misuse, what))
}

/// Checks a server before it serves. `one_client`: the server has one connection, whose client may
/// list the tasks.
///
/// # Errors
/// A tool runs as a task, but the server does not support tasks.
pub(super) fn prepare(server: &Server, one_client: bool) -> Result<(), Error> {
    let registry = server.shared.catalog.registry();
    match server.shared.tasks.get() {
        Some(_) if one_client => server.shared.tasks.allow_lists(),
        Some(_) => {}
        None => {
            let tool = registry.tools.iter().find(|tool| tool.entry.tool.task != TaskSupport::Forbidden);
            if let Some(tool) = tool {
                let name = &tool.entry.tool.name;
                let what = format!("the tool {name:?} runs as a task: call Server::tasks first");
                return Err(Error::new(ErrorKind::Misuse, what));
            }
        }
    }
    Ok(())
}
