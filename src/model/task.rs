//! Tasks: a call whose answer is fetched later, in the words that both eras share.
//!
//! What it does: names what a server says of a task. What it does not: run or keep any; a server of
//! this library makes none.

use std::time::Duration;

use crate::json::Json;

/// Description of a call that the server continues by itself: id, state and poll interval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Task {
    /// Its name, the server's alone to understand.
    pub id: String,
    /// Its state.
    pub status: TaskStatus,
    /// The same for people.
    pub message: Option<String>,
    /// How long to wait between two questions about it, where the server says so.
    pub poll_interval: Option<Duration>,
    /// How long the server keeps it from its creation on; `None`: for ever, or it does not say.
    pub ttl: Option<Duration>,
    /// All of it as it came: also when it was created, and in a revision without sessions the
    /// `result`, the `error` or the `inputRequests` of [`crate::Client::task`].
    pub source: Json,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskStatus {
    /// It runs.
    Working,
    /// It waits for what the server asks.
    InputRequired,
    /// Done; there is a result.
    Completed,
    /// Not done; there is an error.
    Failed,
    /// Called off.
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
