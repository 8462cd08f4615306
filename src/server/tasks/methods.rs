//! Requests of clients about tasks.
//!
//! A request finds only tasks of its own principal and form. For other requests they do not exist.

use std::sync::Arc;
use std::time::Duration;

use crate::era::task::{self, TaskForm, TaskMethod, TaskReply};
use crate::json::{Json, Value};
use crate::model::client_request::KeyedRequest;
use crate::model::{Fault, Revision};
use crate::server::call::Output;
use crate::server::call::deferred::Deferred;
use crate::server::call::request_state::NOTE;
use crate::server::context::Context;
use crate::server::extension::Method;
use crate::server::tool_error::ToolError;

use super::table::Tasks;

impl Tasks {
    /// Returns the handler of a method in a revision.
    pub(crate) fn method(self: &Arc<Self>, name: &str, revision: Revision) -> Option<Method> {
        let method = task::method(name, revision)?;
        if method == TaskMethod::List && !self.lists() {
            return None;
        }
        let tasks = Arc::clone(self);
        Some(Method::new(move |ctx: &mut Context<'_>, params: Option<Value<'_>>| {
            let reply = run(&tasks, method, ctx, params).map_err(ToolError::fault)?;
            Ok(match reply {
                Response::Now(reply) => Output::Raw(Box::new(reply)),
                Response::Result(id) => {
                    let tasks = Arc::clone(&tasks);
                    Output::Deferred(Box::new(move |waiter| {
                        // The request waits as long as the task takes.
                        waiter.allow(Duration::ZERO);
                        tasks.wait(&id, waiter);
                    }))
                }
            })
        }))
    }
}

/// Response to a request about tasks.
enum Response {
    Now(TaskReply),
    /// The result of this task, once there is one.
    Result(String),
}

fn run(
    tasks: &Arc<Tasks>,
    method: TaskMethod,
    ctx: &mut Context<'_>,
    params: Option<Value<'_>>,
) -> Result<Response, Fault> {
    task::check_declared(ctx.query, ctx.doc)?;
    let form = TaskForm::of(ctx.query.peer.revision).ok_or_else(task::unknown)?;
    let owner = ctx.principal().map(str::to_owned);
    let of = (owner.as_deref(), form);
    if method == TaskMethod::List {
        let after = task::cursor(params)?;
        let (page, last) = tasks.page(of, after);
        return Ok(Response::Now(TaskReply::Page { tasks: page, next: last.map(|last| last.to_string()) }));
    }
    let id = task::id(params)?;
    let view = tasks.view(id, of).ok_or_else(task::unknown)?;
    Ok(match method {
        TaskMethod::Cancel => {
            let mine = tasks.cancel(id);
            if !mine && form == TaskForm::Session {
                return Err(task::is_over(view.status));
            }
            Response::Now(TaskReply::Cancelled(tasks.view(id, of).unwrap_or(view)))
        }
        TaskMethod::Update => {
            task::check_responses(ctx.query)?;
            respond(tasks, id, ctx)?;
            Response::Now(TaskReply::Updated)
        }
        TaskMethod::Result => {
            respond(tasks, id, ctx)?;
            Response::Result(id.to_owned())
        }
        TaskMethod::Get | TaskMethod::List => Response::Now(TaskReply::State(view)),
    })
}

/// Passes the responses in a request to the task, which continues when it has all of them.
fn respond(tasks: &Arc<Tasks>, id: &str, ctx: &mut Context<'_>) -> Result<(), Fault> {
    let mut responses = std::mem::take(ctx.responses);
    responses.retain(|(key, _)| key != NOTE);
    if !responses.is_empty() && tasks.respond(id, responses)? {
        if let Some(core) = tasks.core() {
            tasks.submit(&core, &id.into());
        }
    }
    Ok(())
}

/// Passes the requests of a task to the client whose request waits for the result. That request
/// then runs again with the responses.
pub(super) fn forward_requests(id: &str, requests: &[KeyedRequest], waiter: Deferred) {
    let related = |input: &KeyedRequest| KeyedRequest { task: Some(id.to_owned()), ..input.clone() };
    waiter.send_input_requests(requests.iter().map(related).collect(), &Json::constant("{}"));
}

/// Responds to a request that waited for the result of a task.
pub(super) fn send_result(id: &str, outcome: Result<Json, Fault>, waiter: Deferred) {
    waiter.finish(match outcome {
        Ok(result) => Ok(Output::Raw(Box::new(TaskReply::result(id, &result)))),
        Err(fault) => Err(ToolError::fault(fault)),
    });
}
