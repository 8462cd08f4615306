//! Tasks: calls whose result the client fetches later.
//!
//! Only the description of a task; a server of this library creates none.

use std::time::Duration;

use crate::json::Json;

/// Description of a call that the server continues by itself: id, state and poll interval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// Its id, opaque to the client.
    pub id: String,
    /// Its state.
    pub status: TaskStatus,
    /// Description of the state for people.
    pub message: Option<String>,
    /// Pause between two polls, if the server states it.
    pub poll_interval: Option<Duration>,
    /// Time from its creation for which the server keeps it. `None`: unlimited or not stated.
    pub ttl: Option<Duration>,
    /// The whole description as received. In the stateless protocol it also has the `result`, the
    /// `error` or the `inputRequests` of [`crate::Client::task`].
    pub source: Json,
}

/// State of a task.
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
    /// Returns `true` if the state is final.
    pub fn is_over(self) -> bool {
        matches!(self, TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled)
    }

    /// The status with this wire name.
    pub(crate) fn parse(name: &str) -> Option<TaskStatus> {
        Some(match name {
            "working" => TaskStatus::Working,
            "input_required" => TaskStatus::InputRequired,
            "completed" => TaskStatus::Completed,
            "failed" => TaskStatus::Failed,
            "cancelled" => TaskStatus::Cancelled,
            _ => return None,
        })
    }
}
