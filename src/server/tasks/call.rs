//! Conversion of a call into a task.

use std::sync::Arc;

use crate::era::task::{self, TaskForm, TaskReply};
use crate::limits::MAX_DURATION;
use crate::model::Fault;
use crate::model::catalog::Tool;
use crate::model::task::TaskSupport;
use crate::server::call::{CallResult, Job, Output, Target};
use crate::server::context::{CallHost as _, Context};
use crate::server::tool_error::ToolError;

use crate::server::call::deferred::Deferred;

use super::task::{Active, Task, milliseconds, now};

/// Runs a tool with task support. If the client wants a task, the call becomes one, at once or when
/// the handler requests it.
pub(in crate::server) fn run(
    ctx: &mut Context<'_>,
    tool: &Tool,
    handler: impl FnOnce(&mut Context<'_>) -> Result<Output, ToolError>,
) -> Result<Output, ToolError> {
    if tool.task == TaskSupport::Forbidden || ctx.task.host.is_some() {
        return handler(ctx);
    }
    let tasks = ctx.task.tasks;
    let wanted = tasks.is_some() && task::is_wanted(ctx.query, ctx.doc);
    if tool.task == TaskSupport::Required && !wanted {
        return Err(ToolError::fault(task::required(ctx.query, &tool.name)));
    }
    let has_room = || tasks.is_some_and(|tasks| tasks.has_room(ctx.doc.root().raw().len()));
    let becomes_task = wanted && (tool.task == TaskSupport::Required || has_room());
    if becomes_task && !tool.task_on_demand {
        return Ok(Output::Deferred(Box::new(Deferred::into_task)));
    }
    ctx.task.starts = becomes_task;
    handler(ctx)
}

impl Deferred {
    /// Turns the call into a task and responds with its id.
    pub(crate) fn into_task(mut self) {
        let Some(mut job) = self.job.take() else { return };
        let result = create(&mut job);
        job.settle(result);
    }

    /// Returns whether the call is over.
    pub(crate) fn is_settled(&self) -> bool {
        self.job.as_ref().is_none_or(|job| job.call.is_settled())
    }
}

/// Creates the task of a call. The result is the response to the call.
fn create(job: &mut Job) -> CallResult {
    const NONE: Fault = Fault::Internal("The call cannot become a task");
    let conn = &job.conn;
    let (Some(tasks), Target::Tool(entry)) = (conn.core.shared.tasks.get(), &job.target) else {
        return CallResult::Fault(NONE);
    };
    let Some(form) = TaskForm::of(job.query.peer.revision) else { return CallResult::Fault(NONE) };
    let max = conn.core.limits.tasks.ttl.min(MAX_DURATION);
    let ttl = task::requested_ttl(&job.query, &job.doc).map_or(max, |ttl| ttl.min(max));
    let created = now();
    let task = Task {
        owner: job.sink.principal().map(Into::into),
        #[cfg(feature = "http-server")]
        scopes: job.sink.scopes().to_vec(),
        form,
        capabilities: job.query.peer.capabilities,
        client: conn.client_info().unwrap_or_default(),
        session: Arc::downgrade(conn),
        created,
        updated: created,
        ttl: milliseconds(ttl),
        ..Task::default()
    };
    let active = Active {
        request: job.doc.root().raw().into(),
        entry: Some(Arc::clone(entry)),
        responses: std::mem::take(&mut job.responses),
        permit: job.permit.take().map(Arc::new),
        ..Active::default()
    };
    match tasks.create(task, active) {
        Ok(view) => CallResult::Done(Output::Raw(Box::new(TaskReply::Created(view)))),
        Err(fault) => CallResult::Fault(fault),
    }
}

/// Tasks.
impl Context<'_> {
    /// Continues the call as a task, in a tool with
    /// [`Tool::task_on_demand`](crate::Tool::task_on_demand). Code before this method may ask the
    /// user and return a result, as in an ordinary call. The client then gets the id of the task,
    /// and **the handler runs again from the start** on a thread for tasks, where this method
    /// returns `Ok`.
    ///
    /// Returns `Ok` at once if the call cannot become a task, for example because the client does
    /// not support tasks. The handler then continues as an ordinary call.
    ///
    /// # Errors
    /// The call becomes a task: return the error with `?`.
    pub fn start_task(&mut self) -> Result<(), ToolError> {
        if self.task.starts { Err(ToolError::task()) } else { Ok(()) }
    }

    /// Returns the id of the task that this handler runs in; `None` in an ordinary call.
    pub fn task_id(&self) -> Option<&str> {
        self.task.host.map(|task| task.id())
    }
}
