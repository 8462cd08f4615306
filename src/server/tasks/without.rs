//! Stubs of tasks, for a build without the feature `tasks`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use crate::era::extension::ServerMembers;
use crate::error::Error;
use crate::json::Doc;
use crate::model::catalog::Tool;
use crate::model::{Fault, Query, Revision};

use super::Server;
use super::call::Output;
use super::context::Context;
use super::extension::Method;
use super::registry::ToolHandler;
use super::serve::state::Core;
use super::tool_error::ToolError;

/// The tasks of a server: always empty.
#[derive(Default)]
pub(crate) struct ServerTasks;

impl ServerTasks {
    #[allow(dead_code)] // Clients over HTTP list their tasks.
    pub(super) fn allow_lists(&self) {}

    pub(super) fn announce(&self, _: &mut ServerMembers) {}

    pub(super) fn start(&self, _: &Arc<Core>) {}

    pub(super) fn method(&self, _: &str, _: Revision) -> Option<Method> {
        None
    }

    pub(super) fn check_call(&self, _: &Tool, _: &Query, _: &Doc) -> Result<(), Fault> {
        Ok(())
    }

    pub(super) fn check(&self, _: Instant) -> bool {
        false
    }

    pub(super) fn close(&self) {}

    pub(super) fn is_idle(&self) -> bool {
        true
    }

    pub(super) fn interrupt(&self) {}
}

/// The task of a call: never present.
pub(crate) struct ContextTask<'c>(PhantomData<&'c ()>);

impl ContextTask<'_> {
    pub(super) fn of(_: &ServerTasks) -> Self {
        ContextTask(PhantomData)
    }

    pub(super) fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) -> bool {
        false
    }
}

pub(super) fn prepare(_: &Server, _one_client: bool) -> Result<(), Error> {
    Ok(())
}

pub(super) fn check_handler(_: &Tool, _: &ToolHandler) -> Result<(), Error> {
    Ok(())
}

/// Runs the handler of a tool.
pub(super) fn run(
    ctx: &mut Context<'_>,
    _: &Tool,
    handler: impl FnOnce(&mut Context<'_>) -> Result<Output, ToolError>,
) -> Result<Output, ToolError> {
    handler(ctx)
}
