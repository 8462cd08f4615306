//! Middleware: functions of the program around the handlers of tools.

use crate::json::Value;
use crate::model::catalog::Tool;
use crate::model::content::ToolOutput;

use crate::server::Server;
use crate::server::call::Output;
use crate::server::context::Context;
use crate::server::tool_error::ToolError;

/// A tool call, for a function of [`Server::around_tools`].
///
/// See [`Server::around_tools`] for an example.
#[derive(Clone, Copy)]
pub struct ToolCall<'c> {
    tool: &'c Tool,
    arguments: Value<'c>,
}

impl<'c> ToolCall<'c> {
    /// Returns the tool.
    pub fn tool(&self) -> &'c Tool {
        self.tool
    }

    /// Returns the arguments, which are valid for the input schema of the tool.
    pub fn arguments(&self) -> Value<'c> {
        self.arguments
    }
}

/// Result of a tool's handler, for a function of [`Server::around_tools`].
///
/// See [`Server::around_tools`] for an example. A [`ToolOutput`] converts to it.
pub struct ToolReply(Output);

impl ToolReply {
    /// Returns the output. `None` if the result comes from another server, as in a served hub.
    pub fn output(&self) -> Option<&ToolOutput> {
        match &self.0 {
            Output::Tool(output) => Some(output),
            _ => None,
        }
    }

    /// Mutable access to the output. It is checked against the output schema of the tool
    /// afterwards.
    pub fn output_mut(&mut self) -> Option<&mut ToolOutput> {
        match &mut self.0 {
            Output::Tool(output) => Some(output),
            _ => None,
        }
    }
}

impl From<ToolOutput> for ToolReply {
    fn from(output: ToolOutput) -> ToolReply {
        ToolReply(Output::Tool(output))
    }
}

/// The rest of a call for a function of [`Server::around_tools`]: the functions that were added
/// later, then the handler.
///
/// See [`Server::around_tools`] for an example.
pub struct NextHandler<'n> {
    rest: &'n [Box<Middleware>],
    call: &'n ToolCall<'n>,
    handler: &'n mut Handler<'n>,
}

impl NextHandler<'_> {
    /// Runs the rest of the call.
    ///
    /// # Errors
    /// The errors of the handler. Return them unchanged: a handler also ends early with an error if
    /// it requests input from the client, and then runs again.
    pub fn run(self, ctx: &mut Context<'_>) -> Result<ToolReply, ToolError> {
        match self.rest.split_first() {
            Some((next, rest)) => next(ctx, self.call, NextHandler { rest, ..self }),
            None => (self.handler)(ctx).map(ToolReply),
        }
    }
}

/// Handler of a tool, bound to the arguments of a call.
type Handler<'h> = dyn FnMut(&mut Context<'_>) -> Result<Output, ToolError> + 'h;

pub(crate) type Middleware =
    dyn Fn(&mut Context<'_>, &ToolCall<'_>, NextHandler<'_>) -> Result<ToolReply, ToolError> + Send + Sync;

impl Server {
    /// Adds a function that runs around the handler of every tool, inline tools included: before
    /// it, after it, or instead of it. The function that is added first is the outermost. It runs
    /// on the thread of the handler, after the arguments were checked.
    ///
    /// A handler that requested input from the client runs again with the responses, and so do
    /// these functions. In a task, they run on the thread of the task.
    ///
    /// ```
    /// use tinymcp::{Server, Tool, ToolError};
    ///
    /// let mut server = Server::new("board", "1.0.0");
    /// server.around_tools(|ctx, call, next| {
    ///     // Before the handler, or instead of it.
    ///     if call.tool().name == "flash" && ctx.principal() != Some("operator") {
    ///         return Err(ToolError::new("only the operator may flash"));
    ///     }
    ///     let mut reply = next.run(ctx)?;
    ///     // After the handler.
    ///     if let Some(output) = reply.output_mut() {
    ///         output.content.push(tinymcp::Content::text("checked"));
    ///     }
    ///     Ok(reply)
    /// });
    /// server.tool(Tool::new("flash"), |_, ()| Ok("done"))?;
    /// # Ok::<(), tinymcp::Error>(())
    /// ```
    pub fn around_tools(
        &mut self,
        around: impl Fn(&mut Context<'_>, &ToolCall<'_>, NextHandler<'_>) -> Result<ToolReply, ToolError>
        + Send
        + Sync
        + 'static,
    ) -> &mut Server {
        self.callers.middleware.push(Box::new(around));
        self
    }
}

/// Runs the handler of a tool inside the middleware.
pub(crate) fn around(
    ctx: &mut Context<'_>,
    tool: &Tool,
    arguments: Value<'_>,
    handler: &mut Handler<'_>,
) -> Result<Output, ToolError> {
    let rest = &*ctx.host.callers().middleware;
    if rest.is_empty() {
        return handler(ctx);
    }
    let call = ToolCall { tool, arguments };
    NextHandler { rest, call: &call, handler }.run(ctx).map(|reply| reply.0)
}
