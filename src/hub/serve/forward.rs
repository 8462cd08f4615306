//! One call that is passed on: sent to the server it is for, under its name there, and its progress,
//! questions, end and cancellation taken from one side to the other.
//!
//! # Invariants
//! - The state of a server's question goes back to that server only, within the call it came for:
//!   the client never sees it. When the client has answered, the handler runs again from its start,
//!   and so does the server's: its answers to the same request are the same questions, which are
//!   answered at once then.
//! - A client that cancelled is noticed within [`LOOK`]; an answer is passed on at once.

use std::time::{Duration, Instant};

use crate::client::{About, Client, Outcome, Progress, Request};
use crate::error::Error;
use crate::json::Value;
use crate::model::content::{Completion, PromptOutput, ReadOutput, ToolOutput};
use crate::server::{Arguments, CompletionRequest, Context, Failure, relayed};

use super::Export;

/// How often a call that waits looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);
/// The first pause before a call is repeated whose server asked for nothing but that.
const PAUSE: Duration = Duration::from_millis(10);

impl Export {
    pub(super) fn call_tool(
        &self,
        ctx: &mut Context<'_>,
        (key, name): (&str, &str),
        arguments: Value<'_>,
    ) -> Result<ToolOutput, Failure> {
        let output = self.forward(ctx, key, None, |client| client.prepare_tool(name, arguments))?;
        Ok(relayed(output))
    }

    pub(super) fn read(&self, ctx: &mut Context<'_>, key: &str, uri: &str) -> Result<ReadOutput, Failure> {
        self.forward(ctx, key, Some(uri), |client| client.prepare_read(uri))
    }

    pub(super) fn prompt(
        &self,
        ctx: &mut Context<'_>,
        (key, name): (&str, &str),
        arguments: &Arguments<'_>,
    ) -> Result<PromptOutput, Failure> {
        let arguments: Vec<(&str, &str)> = arguments.iter().collect();
        self.forward(ctx, key, None, |client| client.prepare_prompt(name, &arguments))
    }

    /// Values for an argument; none where the server gives none in time.
    pub(super) fn complete(&self, key: &str, about: About<'_>, asked: &CompletionRequest<'_>) -> Completion {
        let settled: Vec<(&str, &str)> = asked.settled.iter().collect();
        self.hub
            .complete(key, about, asked.argument, asked.value, &settled)
            .unwrap_or_else(|_| Completion::none())
    }

    fn forward<T>(
        &self,
        ctx: &mut Context<'_>,
        key: &str,
        uri: Option<&str>,
        prepare: impl Fn(&Client) -> Request<T>,
    ) -> Result<T, Failure> {
        let failed = |error: Error| Failure::relayed(&error, uri);
        let limits = &self.hub.shared.limits;
        let client = self.hub.client(key).map_err(failed)?;
        let mut request = prepare(&client);
        for round in 0..limits.rounds {
            if ctx.wants_progress() {
                // Who listens is given to each wait; this one only asks for it.
                request = request.on_progress(|_| {}).extended_by_progress(limits.call_longest);
            }
            let mut call = request.start().map_err(failed)?;
            let outcome = loop {
                if ctx.cancelled() {
                    call.cancel();
                    return Err(Failure::new("The call was cancelled"));
                }
                let mut hear = |step: Progress| ctx.progress(step.done, step.total, step.message.as_deref());
                if let Some(outcome) = call.outcome_until(Instant::now() + LOOK, &mut hear) {
                    break outcome.map_err(failed)?;
                }
            };
            let asked = match outcome {
                Outcome::Complete(answer) => return Ok(answer),
                Outcome::InputRequired(asked) => asked,
                // Nobody let a task be made of the call.
                Outcome::Task(_) => return Err(Failure::new("The server made a task of the call")),
            };
            if asked.questions.to_doc().root().members().next().is_none() {
                ctx.wait(PAUSE * (1 << round.min(6)))?;
            }
            let answers = ctx.relay(&asked.questions)?;
            request = prepare(&client).resume(&answers, &asked).map_err(failed)?;
        }
        Err(Failure::new("The server asks back without end"))
    }
}
