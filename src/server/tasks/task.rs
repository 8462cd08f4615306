//! One task: its creator, its call, its state.

use std::fmt::Display;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::era::task::{Payload, TaskForm, TaskView};
use crate::json::{Doc, Json, Value};
use crate::limits::Limits;
use crate::model::ClientCapabilities;
use crate::model::client_request::KeyedRequest;
use crate::model::task::TaskStatus;
use crate::server::call::deferred::Deferred;
use crate::server::call::in_flight::Call;
use crate::server::call::request_state::Responses;
use crate::server::callers::call_limits::CallPermit;
use crate::server::connection::Connection;
use crate::server::registry::{Row, ToolEntry};
use crate::stderr;

/// Bytes that a task counts in addition to its request, responses and result.
pub(super) const OVERHEAD: usize = 512;

/// A task. Times are milliseconds; points in time count from 1970.
pub(crate) struct Task {
    pub id: Arc<str>,
    /// The principal that created the task.
    pub owner: Option<Arc<str>>,
    pub scopes: Vec<String>,
    pub form: TaskForm,
    /// Capabilities of the client that created the task.
    pub capabilities: ClientCapabilities,
    /// Name and version of the client, in a session.
    pub client: Json,
    /// The session of the call.
    pub session: Weak<Connection>,
    pub created: u64,
    pub updated: u64,
    pub ttl: u64,
    /// Number of times that the task was started again after a restart of the server.
    pub run: u64,
    pub message: Option<String>,
    pub state: State,
    /// Requests that wait for the result.
    pub waiters: Vec<Deferred>,
    /// Time at which a task that is over is removed.
    pub expires: Option<Instant>,
    pub weight: usize,
}

/// State of a task.
pub(crate) enum State {
    Active(Active),
    Over(Outcome),
}

/// A task that is queued, runs or is parked.
#[derive(Default)]
pub(crate) struct Active {
    /// The message of the call.
    pub request: Arc<str>,
    pub entry: Option<Arc<Row<ToolEntry>>>,
    /// Responses of the client, while no thread runs the task.
    pub responses: Responses,
    /// Requests to the client without a response. A task with such requests is parked.
    pub requests: Vec<KeyedRequest>,
    pub call: Arc<Call>,
    pub deadline: Option<Instant>,
    /// Counts the task in the limits of its caller, until the task has ended and its handler has
    /// returned.
    pub permit: Option<Arc<CallPermit>>,
}

/// Outcome of a task.
pub(crate) enum Outcome {
    /// A result; `failed` if the tool reported a failure in it.
    Completed {
        result: Json,
        failed: bool,
    },
    /// A JSON-RPC error.
    Failed(Json),
    Cancelled,
}

impl Default for Task {
    fn default() -> Task {
        Task {
            id: "".into(),
            owner: None,
            scopes: Vec::new(),
            form: TaskForm::Stateless,
            capabilities: ClientCapabilities::default(),
            client: Json::default(),
            session: Weak::new(),
            created: 0,
            updated: 0,
            ttl: 0,
            run: 0,
            message: None,
            state: State::Over(Outcome::Cancelled),
            waiters: Vec::new(),
            expires: None,
            weight: 0,
        }
    }
}

impl Task {
    /// Returns the state as clients see it.
    pub(super) fn view(&self, limits: &Limits) -> TaskView {
        let (status, payload) = match &self.state {
            State::Active(active) if active.requests.is_empty() => (TaskStatus::Working, Payload::None),
            State::Active(active) => (TaskStatus::InputRequired, Payload::Requests(active.requests.clone())),
            State::Over(outcome) => {
                let payload = match outcome {
                    Outcome::Completed { result, failed } => {
                        Payload::Result { result: result.clone(), failed: *failed }
                    }
                    Outcome::Failed(error) => Payload::Error(error.clone()),
                    Outcome::Cancelled => Payload::None,
                };
                (outcome.status(), payload)
            }
        };
        TaskView {
            id: (*self.id).to_owned(),
            status,
            message: self.message.clone(),
            created: self.created,
            updated: self.updated,
            ttl: self.ttl,
            poll: milliseconds(limits.tasks.poll),
            payload,
        }
    }

    /// Returns the size in memory, in bytes.
    pub(super) fn measure(&self) -> usize {
        let content = match &self.state {
            State::Active(active) => {
                let responses = active
                    .responses
                    .iter()
                    .map(|(key, response)| key.len() + response.as_ref().map_or(0, Doc::memory));
                active.request.len() + responses.sum::<usize>()
            }
            State::Over(outcome) => outcome.weight(),
        };
        OVERHEAD + content + self.message.as_ref().map_or(0, String::len)
    }

    pub(super) fn active(&mut self) -> Option<&mut Active> {
        match &mut self.state {
            State::Active(active) => Some(active),
            State::Over(_) => None,
        }
    }
}

impl Outcome {
    /// Returns the status of a task with this outcome.
    pub(super) fn status(&self) -> TaskStatus {
        match self {
            Outcome::Completed { .. } => TaskStatus::Completed,
            Outcome::Failed(_) => TaskStatus::Failed,
            Outcome::Cancelled => TaskStatus::Cancelled,
        }
    }

    /// Returns the description of an error, for the user.
    pub(super) fn message(&self) -> Option<String> {
        let Outcome::Failed(error) = self else { return None };
        error.to_doc().root().get("message").and_then(Value::as_str).map(str::to_owned)
    }

    /// Returns the size in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Outcome::Completed { result: text, .. } | Outcome::Failed(text) => text.as_str().len(),
            Outcome::Cancelled => 0,
        }
    }
}

/// Reports a fault of a task on standard error. The id is shortened, because an id gives access to
/// the task.
#[cold]
pub(super) fn report(id: &str, what: &str, detail: &dyn Display) {
    let start = id.get(..8).unwrap_or(id);
    stderr::write(format!("tinymcp: task {start}…: {what}: {detail}\n"));
}

/// Returns the time. A clock before 1970 reads as 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, milliseconds)
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
