//! Tasks: their declaration and the messages about them, in both forms.
//!
//! | | session protocol (2025-11-25) | stateless protocol |
//! |---|---|---|
//! | declared | capability `tasks` | extension `io.modelcontextprotocol/tasks` |
//! | created | if the call has the parameter `task` | if the client declares the extension |
//! | result | `tasks/result`, which waits | part of the state, `tasks/get` |
//! | input of the client | requests while `tasks/result` waits | `tasks/update` |
//!
//! Source: MCP 2025-11-25 basic/utilities/tasks; SEP-2663 (extension tasks).

use std::time::Duration;

use crate::json::{Doc, Json, Kind, Value, Writer};
use crate::model::client_request::KeyedRequest;
use crate::model::content::ToolOutput;
use crate::model::task::{TaskStatus, TaskSupport};
use crate::model::timestamp::timestamp;
use crate::model::{CacheHint, Fault, Query, Revision};
use crate::rpc::code;

use super::extension::{ServerMembers, TASKS};
use super::modern::SUBSCRIPTION;
use super::version::{V2025_11_25, V2026_07_28, features};
use super::{RawResult, RequestMode, encode, extension, params, wire_error};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Form of tasks in a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskForm {
    /// The client requests each task, and fetches its result by a separate method.
    Session,
    /// The server decides, and the state contains the result.
    Stateless,
}

impl TaskForm {
    /// Returns the form in a revision; `None` in revisions without tasks.
    pub(crate) fn of(revision: Revision) -> Option<TaskForm> {
        match revision {
            V2025_11_25 => Some(TaskForm::Session),
            V2026_07_28 => Some(TaskForm::Stateless),
            _ => None,
        }
    }

    /// Returns the name in stored tasks.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            TaskForm::Session => "session",
            TaskForm::Stateless => "stateless",
        }
    }

    /// Returns the form with this name.
    pub(crate) fn parse(name: &str) -> Option<TaskForm> {
        [TaskForm::Session, TaskForm::Stateless].into_iter().find(|form| form.as_str() == name)
    }

    /// Returns the revision that has this form.
    pub(crate) fn revision(self) -> Revision {
        match self {
            TaskForm::Session => V2025_11_25,
            TaskForm::Stateless => V2026_07_28,
        }
    }
}

/// Method about tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskMethod {
    /// The state.
    Get,
    /// The result, once there is one.
    Result,
    /// A page of tasks.
    List,
    /// Responses of the client to requests of the task.
    Update,
    /// Cancels the task.
    Cancel,
}

/// Returns the method with this name in a revision (requirement T26-16).
pub(crate) fn method(name: &str, revision: Revision) -> Option<TaskMethod> {
    Some(match (name, TaskForm::of(revision)?) {
        ("tasks/get", _) => TaskMethod::Get,
        ("tasks/cancel", _) => TaskMethod::Cancel,
        ("tasks/result", TaskForm::Session) => TaskMethod::Result,
        ("tasks/list", TaskForm::Session) => TaskMethod::List,
        ("tasks/update", TaskForm::Stateless) => TaskMethod::Update,
        _ => return None,
    })
}

/// Adds the capability of sessions. `list`: the server can distinguish its clients, so it lists the
/// tasks of each (2025-11-25 basic/utilities/tasks, security).
pub(crate) fn add_capability(members: &mut ServerMembers, list: bool) {
    let mut w = Writer::new();
    let text = members.of_mut(V2025_11_25);
    w.raw_members(text);
    w.key("tasks").begin_object();
    if list {
        w.key("list").begin_object().end_object();
    }
    w.key("cancel").begin_object().end_object();
    w.key("requests").begin_object().key("tools").begin_object().key("call").begin_object();
    w.end_object().end_object().end_object().end_object();
    *text = w.as_str().to_owned();
}

/// Writes whether a tool runs as a task (requirement TOOL-32). Without this member, it cannot.
pub(super) fn support(w: &mut Writer, support: TaskSupport) {
    let name = match support {
        TaskSupport::Forbidden => return,
        TaskSupport::Optional => "optional",
        TaskSupport::Required => "required",
    };
    w.key("execution").begin_object().key("taskSupport").string(name).end_object();
}

/// Returns `true` if the response to a call may be a task: the client requests one in a session, or
/// declares the extension in a stateless request.
pub(crate) fn is_wanted(query: &Query, doc: &Doc) -> bool {
    match TaskForm::of(query.peer.revision) {
        Some(TaskForm::Session) => requested(query, doc).is_some(),
        Some(TaskForm::Stateless) => declared(query, doc),
        None => false,
    }
}

/// Returns the parameter `task` of a session's call. Only the session protocol reads it.
pub(crate) fn requested<'d>(query: &Query, doc: &'d Doc) -> Option<Value<'d>> {
    if TaskForm::of(query.peer.revision) != Some(TaskForm::Session) {
        return None;
    }
    doc.at(query.params?).get("task").filter(|task| task.kind() == Kind::Object)
}

/// Returns the lifetime that the client of a session requests.
pub(crate) fn requested_ttl(query: &Query, doc: &Doc) -> Option<Duration> {
    requested(query, doc)?.get("ttl")?.as_u64().map(Duration::from_millis)
}

/// Returns `true` if the client of a stateless request declares the extension.
fn declared(query: &Query, doc: &Doc) -> bool {
    query.meta.is_some_and(|meta| extension::of_request(doc.at(meta), TASKS).is_some())
}

/// Checks that the client of a request about tasks supports them.
///
/// # Errors
/// The stateless client did not declare the extension (requirement T26-13).
pub(crate) fn check_declared(query: &Query, doc: &Doc) -> Result<(), Fault> {
    match TaskForm::of(query.peer.revision) {
        Some(TaskForm::Stateless) if !declared(query, doc) => {
            Err(extension::missing(TASKS, RequestMode::InResult))
        }
        _ => Ok(()),
    }
}

/// Returns the error for a call without a task of a tool that requires one (requirements T26-03,
/// T11-05).
pub(crate) fn required(query: &Query, tool: &str) -> Fault {
    match TaskForm::of(query.peer.revision) {
        Some(TaskForm::Stateless) => extension::missing(TASKS, RequestMode::InResult),
        _ => unsuitable(format!("The tool {tool} runs only as a task")),
    }
}

/// Returns the error for a task of a tool that cannot run as one (requirement T11-05).
pub(crate) fn forbidden(tool: &str) -> Fault {
    unsuitable(format!("The tool {tool} cannot run as a task"))
}

fn unsuitable(message: String) -> Fault {
    Fault::Custom { code: code::METHOD_NOT_FOUND, message, data: None }
}

/// Returns the error for an id that is not one of the client's tasks.
pub(crate) fn unknown() -> Fault {
    params::invalid("Unknown task: taskId names no task of this client, or the task has expired")
}

/// Returns the parameter `taskId`.
///
/// # Errors
/// It is missing or not a string.
pub(crate) fn id(params: Option<Value<'_>>) -> Result<&str, Fault> {
    let id = params::string(params.and_then(|params| params.get("taskId")), "taskId")?;
    Ok(id.as_str().unwrap_or_default())
}

/// Returns the ids in the filter of a listen request.
///
/// # Errors
/// Not an array of strings, or more than `max`.
pub(super) fn ids(value: Value<'_>, max: usize) -> Result<Vec<String>, Fault> {
    if value.kind() != Kind::Array {
        return Err(params::invalid("taskIds must be an array"));
    }
    if value.len() > max {
        let text = format!("taskIds has {} ids; at most {max} are allowed", value.len());
        return Err(Fault::InvalidParams(text.into()));
    }
    let id = |id: Value<'_>| id.as_str().map(str::to_owned);
    value.items().map(|item| id(item).ok_or_else(|| params::invalid("taskIds must be strings"))).collect()
}

/// Returns the sequence number in the parameter `cursor`.
///
/// # Errors
/// The server has not issued the cursor (requirement T11-15).
pub(crate) fn cursor(params: Option<Value<'_>>) -> Result<Option<u64>, Fault> {
    match params.and_then(|params| params.get("cursor")).filter(|cursor| !cursor.is_null()) {
        None => Ok(None),
        Some(cursor) => match cursor.as_str().and_then(|cursor| cursor.parse().ok()) {
            Some(place) => Ok(Some(place)),
            None => Err(params::invalid("cursor was not issued by this server")),
        },
    }
}

/// Checks that an update has responses.
///
/// # Errors
/// The parameter is missing.
pub(crate) fn check_responses(query: &Query) -> Result<(), Fault> {
    query.responses.map(|_| ()).ok_or_else(|| params::invalid("inputResponses is missing"))
}

/// Returns the error for the cancellation of a session's task that is over (requirement T11-10).
pub(crate) fn is_over(status: TaskStatus) -> Fault {
    Fault::InvalidParams(format!("The task is over: its status is {}", status.as_str()).into())
}

/// The state of a task, as clients see it. Times are milliseconds; points in time count from 1970.
#[derive(Clone, Debug)]
pub(crate) struct TaskView {
    pub id: String,
    pub status: TaskStatus,
    pub message: Option<String>,
    pub created: u64,
    pub updated: u64,
    pub ttl: u64,
    pub poll: u64,
    pub payload: Payload,
}

/// Contents of a state.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    None,
    /// Requests to the client that have no response yet.
    Requests(Vec<KeyedRequest>),
    /// The result of the call, an object.
    Result {
        result: Json,
        /// The tool reported a failure.
        failed: bool,
    },
    /// The JSON-RPC error of the call.
    Error(Json),
}

impl TaskView {
    /// Writes the members of the state. Only the stateless form contains the payload.
    fn write(&self, w: &mut Writer, form: TaskForm, with_payload: bool) {
        // In a session, a tool's failure also has the status `failed` (requirement T11-16).
        let failed = matches!(self.payload, Payload::Result { failed: true, .. });
        let status = if failed && form == TaskForm::Session { TaskStatus::Failed } else { self.status };
        w.key("taskId").string(&self.id);
        w.key("status").string(status.as_str());
        if let Some(message) = &self.message {
            w.key("statusMessage").string(message);
        }
        w.key("createdAt").string(&timestamp(self.created));
        w.key("lastUpdatedAt").string(&timestamp(self.updated));
        let (ttl, poll) = match form {
            TaskForm::Session => ("ttl", "pollInterval"),
            TaskForm::Stateless => ("ttlMs", "pollIntervalMs"),
        };
        w.key(ttl).u64(self.ttl);
        w.key(poll).u64(self.poll);
        if with_payload && form == TaskForm::Stateless {
            self.write_payload(w, form.revision());
        }
    }

    fn write_payload(&self, w: &mut Writer, revision: Revision) {
        match &self.payload {
            Payload::None => {}
            Payload::Requests(requests) => {
                w.key("inputRequests").begin_object();
                for input in requests {
                    w.key(&input.key).begin_object();
                    (input.write)(w, revision, &input.request, None);
                    w.end_object();
                }
                w.end_object();
            }
            Payload::Result { result, .. } => _ = w.key("result").json(result),
            Payload::Error(error) => _ = w.key("error").json(error),
        }
    }

    /// Writes the notification of this state. `listen` is the id of the subscription, as JSON text.
    pub(crate) fn notification(&self, w: &mut Writer, listen: Option<&str>) {
        match listen {
            Some(listen) => {
                encode::begin_notification(w, "notifications/tasks");
                self.write(w, TaskForm::Stateless, true);
                w.key("_meta").begin_object().key(SUBSCRIPTION).raw(listen).end_object();
            }
            None => {
                encode::begin_notification(w, "notifications/tasks/status");
                self.write(w, TaskForm::Session, false);
            }
        }
        encode::end(w);
        w.newline();
    }
}

/// Result of a request that created a task or concerns one.
pub(crate) enum TaskReply {
    /// The task that was created for a call.
    Created(TaskView),
    /// The state.
    State(TaskView),
    /// The state after a cancellation.
    Cancelled(TaskView),
    /// Acknowledges an update.
    Updated,
    /// A page of states.
    Page { tasks: Vec<TaskView>, next: Option<String> },
    /// The result of the call: members, and those of its `_meta`.
    Result { members: String, meta: String },
}

impl TaskReply {
    /// Returns the result of a session's call, which names its task (requirement T11-08).
    pub(crate) fn result(id: &str, result: &Json) -> TaskReply {
        let doc = result.to_doc();
        let (mut members, mut meta) = (Writer::new(), Writer::new());
        for (name, value) in doc.root().members() {
            match name {
                "_meta" => meta.raw_members(encode::members(&value.to_json())),
                _ => members.key(name).value(value),
            };
        }
        meta.key(RELATED).begin_object().key("taskId").string(id);
        meta.end_object();
        TaskReply::Result { members: members.as_str().to_owned(), meta: meta.as_str().to_owned() }
    }
}

impl RawResult for TaskReply {
    fn write(&self, w: &mut Writer, revision: Revision) -> &str {
        let form = TaskForm::of(revision).unwrap_or(TaskForm::Stateless);
        match self {
            TaskReply::Created(task) if form == TaskForm::Session => {
                w.key("task").begin_object();
                task.write(w, form, false);
                w.end_object();
            }
            TaskReply::Created(task) => task.write(w, form, false),
            TaskReply::State(task) => task.write(w, form, true),
            TaskReply::Cancelled(task) if form == TaskForm::Session => task.write(w, form, false),
            TaskReply::Cancelled(_) | TaskReply::Updated => {}
            TaskReply::Page { tasks, next } => {
                w.key("tasks").begin_array();
                for task in tasks {
                    w.begin_object();
                    task.write(w, form, false);
                    w.end_object();
                }
                w.end_array();
                if let Some(next) = next {
                    w.key("nextCursor").string(next);
                }
            }
            TaskReply::Result { members, meta } => {
                w.raw_members(members);
                return meta;
            }
        }
        ""
    }

    fn cache(&self, _: CacheHint) -> Option<CacheHint> {
        None
    }

    fn kind(&self) -> &'static str {
        match self {
            TaskReply::Created(_) => "task",
            _ => "complete",
        }
    }
}

/// Encodes the result of a tool as in the response to an ordinary call.
pub(crate) fn result_text(form: TaskForm, output: &ToolOutput) -> Json {
    encode::object(|w| {
        if form == TaskForm::Stateless {
            w.key("resultType").string("complete");
        }
        encode::content::tool_result(w, features(form.revision()), output);
        if let Some(meta) = &output.meta {
            w.key("_meta").json(meta);
        }
    })
}

/// Encodes an error as in the response to an ordinary call.
pub(crate) fn error_text(form: TaskForm, fault: &Fault) -> Json {
    let error = wire_error(fault, form == TaskForm::Stateless);
    encode::object(|w| {
        w.key("code").i64(i64::from(error.code));
        w.key("message").string(&error.message);
        if let Some(data) = &error.data {
            w.key("data").json(data);
        }
    })
}

/// Decodes an error of [`error_text`].
pub(crate) fn error_of(text: &Json) -> Fault {
    let doc = text.to_doc();
    let member = |name| doc.root().get(name);
    let code = member("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    Fault::Custom {
        code: code.unwrap_or(code::INTERNAL),
        message: member("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
        data: member("data").map(Value::to_json),
    }
}

/// Writes a request to the client of a session for its task.
pub(super) fn write_request(w: &mut Writer, revision: Revision, id: u64, input: &KeyedRequest, task: &str) {
    let message = encode::object(|w| (input.write)(w, revision, &input.request, Some(id)));
    w.raw_members(encode::members(&relate(&message, task)));
}

/// Names the task in the parameters of a request to the client (requirement T11-12).
fn relate(message: &Json, task: &str) -> Json {
    let doc = message.to_doc();
    encode::object(|w| {
        let mut related = false;
        for (name, value) in doc.root().members() {
            match name {
                "params" => {
                    related = true;
                    w.key(name).begin_object().raw_members(encode::members(&value.to_json()));
                    relation(w, task);
                    w.end_object();
                }
                _ => _ = w.key(name).value(value),
            }
        }
        if !related {
            w.key("params").begin_object();
            relation(w, task);
            w.end_object();
        }
    })
}

fn relation(w: &mut Writer, task: &str) {
    w.key("_meta").begin_object().key(RELATED).begin_object();
    w.key("taskId").string(task);
    w.end_object().end_object();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_the_client_name_their_task() {
        let with = Json::constant(r#"{"method":"elicitation/create","params":{"message":"m"}}"#);
        assert_eq!(
            relate(&with, "t").as_str(),
            r#"{"method":"elicitation/create","params":{"message":"m","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}"#
        );
        let without = Json::constant(r#"{"method":"roots/list"}"#);
        assert_eq!(
            relate(&without, "t").as_str(),
            r#"{"method":"roots/list","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}"#
        );
    }
}
