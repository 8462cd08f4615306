//! Tasks: calls whose result the client fetches later.

#[cfg(feature = "client")]
use std::time::Duration;

#[cfg(feature = "client")]
use crate::json::Json;

/// Description of a call that the server continues in the background: id, state and poll interval.
///
/// ```no_run
/// use std::process::Command;
/// use tinymcp::{Client, Outcome, json};
///
/// let client = Client::spawn(Command::new("render_server"))?;
/// let call = client.request_tool("render", json!({"scene": 7})).as_task().start()?;
/// if let Outcome::Task(task) = call.wait_outcome()? {
///     println!("{}", client.follow_task(&task.id).wait()?.texts());
/// }
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[cfg(feature = "client")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// Its id, opaque to the client.
    pub id: String,
    /// Its state.
    pub status: TaskStatus,
    /// Description of the state for people.
    pub message: Option<String>,
    /// Pause between two polls, if the server sends it.
    pub poll_interval: Option<Duration>,
    /// Time from the creation for which the server stores the task. `None` means unlimited or
    /// unknown.
    pub ttl: Option<Duration>,
    /// The whole description as received. In the stateless protocol it also has the `result`, the
    /// `error` or the `inputRequests` of [`crate::Client::task`].
    pub source: Json,
}

/// State of a task. It is a field of [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskStatus {
    /// Running.
    Working,
    /// Waiting for input that the server requested.
    InputRequired,
    /// Finished with a result.
    Completed,
    /// Finished with an error.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl TaskStatus {
    const NAMES: [(&'static str, TaskStatus); 5] = [
        ("working", TaskStatus::Working),
        ("input_required", TaskStatus::InputRequired),
        ("completed", TaskStatus::Completed),
        ("failed", TaskStatus::Failed),
        ("cancelled", TaskStatus::Cancelled),
    ];

    /// Returns `true` if the state is final.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled)
    }

    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        TaskStatus::NAMES[self as usize].0
    }

    /// Returns the status with this wire name.
    #[cfg(feature = "client")]
    pub(crate) fn parse(name: &str) -> Option<TaskStatus> {
        TaskStatus::NAMES.iter().find(|(known, _)| *known == name).map(|(_, status)| *status)
    }
}

/// Support of tasks by a tool: see [`Server::tasks`](crate::Server::tasks).
#[cfg(feature = "tasks")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// Calls never run as tasks.
    #[default]
    Forbidden,
    /// Calls of clients that support tasks run as tasks. Calls of other clients do not.
    Optional,
    /// Calls always run as tasks. Clients without tasks receive an error.
    Required,
}
