//! Client side of tasks: polling, results and responses to their input requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::era::client as codec;
use crate::era::decode::{self, TaskContents};
use crate::era::outgoing::{RequestKind, task_params};
use crate::error::{Error, ErrorKind};
use crate::json::{Json, Value, Writer};
use crate::model::content::ToolOutput;
use crate::model::task::{Task, TaskStatus};
use crate::rpc::RpcError;

use super::Request;
use crate::client::Client;
use crate::client::call::input_error;
use crate::client::connection::{Core, misbehaved, remote};
use crate::client::handlers::Declined;

/// Pause between two polls if the server sends no interval.
const POLL: Duration = Duration::from_secs(1);
/// Minimum and maximum of the interval that a server may set.
const POLL_RANGE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(60));

/// A task of the server, which this client follows: see [`Client::follow_task`].
#[must_use = "a task is followed when it is waited for"]
pub struct FollowedTask {
    core: Arc<Core>,
    id: String,
    max_total: Duration,
    on_state: Option<Box<OnState>>,
}

/// Listener for the states of a task.
type OnState = dyn FnMut(&Task) + Send;

impl Client {
    /// Follows a task by its id. A call with [`Request::as_task`] created the task, possibly in an
    /// earlier process. Store the id ([`Task::id`]) to find the task again after a restart.
    ///
    /// ```no_run
    /// # fn f(client: &tinymcp::Client, stored: &str) -> Result<(), tinymcp::Error> {
    /// let output = client
    ///     .follow_task(stored)
    ///     .on_state(|task| println!("{:?} {}", task.status, task.message.as_deref().unwrap_or_default()))
    ///     .wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow_task(&self, id: impl Into<String>) -> FollowedTask {
        FollowedTask::new(self.core(), id.into())
    }

    /// Cancels a task. The server decides whether and when it stops the task.
    ///
    /// # Errors
    /// As [`Request::wait`]; an error of the server if it has no such task or, in a session, if the
    /// task has ended.
    pub fn cancel_task(&self, id: &str) -> Result<(), Error> {
        task_request(self.core(), "tasks/cancel", id, None, |_| Some(()))
    }
}

impl FollowedTask {
    pub(super) fn new(core: &Arc<Core>, id: String) -> FollowedTask {
        FollowedTask {
            core: Arc::clone(core),
            id,
            max_total: core.limits.client.call_total_timeout,
            on_state: None,
        }
    }

    /// Sets a listener for each state that the server reports. It runs on the waiting thread.
    pub fn on_state(mut self, listener: impl FnMut(&Task) + Send + 'static) -> FollowedTask {
        self.on_state = Some(Box::new(listener));
        self
    }

    /// Sets the maximum time to wait; the default is [`crate::ClientLimits::call_total_timeout`].
    /// The task continues after a timeout.
    pub fn timeout(mut self, max_total: Duration) -> FollowedTask {
        self.max_total = max_total.min(crate::limits::MAX_DURATION);
        self
    }

    /// Waits for the result. Polls the state at the interval that the server sends. The handlers
    /// respond to requests of the task, on this thread in the stateless protocol.
    ///
    /// # Errors
    /// - [`ErrorKind::Remote`]: the task failed with this error, or the server has no such task.
    /// - [`ErrorKind::Cancelled`]: the task was cancelled. This client cancels it if a handler
    ///   refuses to respond.
    /// - [`ErrorKind::Misuse`]: the client has no handler for a request of the task. The task
    ///   continues to wait for a response.
    /// - [`ErrorKind::Timeout`]: the timeout has passed. The time in which handlers respond does
    ///   not count.
    /// - The errors of [`Request::wait`].
    pub fn wait(self) -> Result<ToolOutput, Error> {
        let result = self.wait_json()?;
        let output = decode::tool_output(result.to_doc().root());
        output.ok_or_else(|| misbehaved("the result of the task is not that of a tool"))
    }

    /// Waits for the result as the JSON object that the server sent: see [`FollowedTask::wait`].
    ///
    /// # Errors
    /// As [`FollowedTask::wait`].
    pub fn wait_json(mut self) -> Result<Json, Error> {
        let mut deadline = Instant::now() + self.max_total;
        let mut answered = BTreeSet::new();
        loop {
            let state = self.state()?;
            let in_session = self.core.era().sessions();
            match state.status {
                TaskStatus::Cancelled => return Err(cancelled()),
                TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired if in_session => {
                    return self.session_result(state, deadline);
                }
                TaskStatus::Completed | TaskStatus::Failed => return outcome(&state),
                TaskStatus::InputRequired => {
                    let began = Instant::now();
                    self.respond(&state, &mut answered)?;
                    deadline += began.elapsed();
                }
                TaskStatus::Working => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.timed_out());
            }
            if !self.core.sleep(pause(&state).min(left)) {
                return Err(Error::new(ErrorKind::Closed, "the client was closed"));
            }
        }
    }

    /// Requests the state and passes it to the listener.
    fn state(&mut self) -> Result<Task, Error> {
        let state = task_request(&self.core, "tasks/get", &self.id, None, decode::task)?;
        if let Some(listener) = &mut self.on_state {
            listener(&state);
        }
        Ok(state)
    }

    /// Waits for the result in a session. While `tasks/result` is in flight, the server sends the
    /// requests of the task (2025-11-25 basic/utilities/tasks, input required status). Polls the
    /// state meanwhile.
    fn session_result(mut self, mut state: Task, deadline: Instant) -> Result<Json, Error> {
        let params = task_params(&self.id, None);
        let request = RequestKind::Other("tasks/result", &params);
        let request = Request::new(&self.core, &request, |result| Some(result.to_json()));
        let mut call = request.timeout(deadline.saturating_duration_since(Instant::now())).start()?;
        loop {
            let result = match call.wait_until(Instant::now() + pause(&state)) {
                Some(Err(error)) if error.kind() == ErrorKind::Timeout => return Err(self.timed_out()),
                Some(result) if state.status.is_terminal() => return result,
                result => result,
            };
            match (result, self.state()) {
                (_, Ok(task)) if task.status == TaskStatus::Cancelled => return Err(cancelled()),
                (Some(result), _) => return result,
                (None, polled) => state = polled?,
            }
        }
    }

    fn timed_out(&self) -> Error {
        let what = format!("the task {:?} did not end within {:?}; it continues", self.id, self.max_total);
        Error::new(ErrorKind::Timeout, what)
    }

    /// Responds to the requests of a task that have no response yet (requirement T26-09).
    fn respond(&self, state: &Task, answered: &mut BTreeSet<String>) -> Result<(), Error> {
        let TaskContents::Requests(questions) = decode::task_contents(&state.source) else {
            return Err(misbehaved("a task that requires input has no requests"));
        };
        let mut requests = self.core.input_requests(&questions, task_input_error)?;
        requests.retain(|(key, _)| !answered.contains(key));
        if requests.is_empty() {
            return Ok(());
        }
        let revision = self.core.server().revision;
        let mut w = Writer::new();
        w.begin_object();
        for (key, request) in requests {
            match self.core.handlers.answer(&request) {
                Ok(reply) => _ = w.key(&key).json(&codec::encode_input_response(revision, &reply)),
                Err(why) => {
                    // No response encodes a refusal, so the task would wait forever.
                    let _ = task_request(&self.core, "tasks/cancel", &self.id, None, |_| Some(()));
                    return Err(input_error(why));
                }
            }
            answered.insert(key);
        }
        w.end_object();
        task_request(&self.core, "tasks/update", &self.id, Some(&w.into_json()), |_| Some(()))
    }
}

/// Returns the pause before the next poll.
fn pause(state: &Task) -> Duration {
    state.poll_interval.unwrap_or(POLL).clamp(POLL_RANGE.0, POLL_RANGE.1)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the task was cancelled")
}

/// Returns the error for a request of a task that this client does not support. Another client may
/// have created the task.
fn task_input_error(why: Declined) -> Error {
    match why {
        Declined::Undeclared(capability) => {
            let what = format!(
                "the task requires the capability `{capability}`, which this client does not declare"
            );
            Error::new(ErrorKind::Misuse, what)
        }
        why => input_error(why),
    }
}

/// Returns the result of a task that has ended.
fn outcome(state: &Task) -> Result<Json, Error> {
    match decode::task_contents(&state.source) {
        TaskContents::Result(result) => Ok(result),
        TaskContents::Error(error) => {
            let error = RpcError::read(error.to_doc().root());
            Err(error.map_or_else(|| misbehaved("the error of a task is malformed"), remote))
        }
        _ => Err(misbehaved("a task that is over has neither a result nor an error")),
    }
}

/// Sends a request about a task.
fn task_request<T>(
    core: &Arc<Core>,
    method: &str,
    id: &str,
    responses: Option<&Json>,
    decode: fn(Value<'_>) -> Option<T>,
) -> Result<T, Error> {
    Request::new(core, &RequestKind::Other(method, &task_params(id, responses)), decode).wait()
}
