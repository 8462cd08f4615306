//! Calls that are passed on: sent to the server they are for, under its name there, by a handler that
//! does not wait for the answer. `passed.rs` brings it back.
//!
//! What a server without sessions asks in its answer is asked of the client; what has to go back with
//! the answers travels with them, sealed, so that nothing is kept here meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::client::{About, Client, InputRequired, Request, Watch};
use crate::error::Error;
use crate::json::{Json, Value, Writer};
use crate::model::content::{Completion, PromptOutput, ReadOutput, ToolOutput};
use crate::server::{Arguments, CompletionRequest, Context, Failure, Outcome, relayed};

use super::Export;
use super::passed::{Passed, Under};

/// The first pause before a call is repeated whose server asked for nothing but that.
const PAUSE: Duration = Duration::from_millis(10);

/// What a call brings along that was answered with questions.
enum Noted {
    /// It runs for the first time.
    Nothing,
    /// The call is still under way at its server, which asked in between.
    Held(u64),
    /// The server wants to be called again.
    Again { round: u32, asked: InputRequired },
}

/// What a call notes whose server is in the middle of it.
pub(super) fn held(number: u64) -> Json {
    let mut w = Writer::new();
    w.begin_object().key("held").u64(number);
    w.end_object();
    w.into_json()
}

/// What a call notes whose server wants it again.
pub(super) fn again(round: u32, asked: &InputRequired) -> Json {
    let mut w = Writer::new();
    w.begin_object().key("round").u64(u64::from(round));
    w.key("questions").json(&asked.questions);
    if let Some(state) = asked.state() {
        w.key("state").raw(state);
    }
    w.end_object();
    w.into_json()
}

fn noted(ctx: &Context<'_>) -> Noted {
    let Some(note) = ctx.note() else { return Noted::Nothing };
    let root = note.root();
    let number = |name: &str| root.get(name).and_then(Value::as_u64);
    if let Some(number) = number("held") {
        return Noted::Held(number);
    }
    let state = root.get("state").map(|state| state.raw().to_owned());
    match root.get("questions") {
        None => Noted::Nothing,
        Some(questions) => Noted::Again {
            round: number("round").and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
            asked: InputRequired::again(questions.to_json(), state),
        },
    }
}

impl Export {
    pub(super) fn call_tool(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        (key, name): (&str, &str),
        arguments: Value<'_>,
    ) -> Failure {
        let wrap = |output: ToolOutput| Outcome::Tool(relayed(output));
        self.forward(ctx, key, None, wrap, |client| client.prepare_tool(name, arguments))
    }

    pub(super) fn read(self: &Arc<Self>, ctx: &mut Context<'_>, key: &str, uri: &str) -> Failure {
        let wrap: fn(ReadOutput) -> Outcome = Outcome::Read;
        self.forward(ctx, key, Some(uri), wrap, |client| client.prepare_read(uri))
    }

    pub(super) fn prompt(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        (key, name): (&str, &str),
        arguments: &Arguments<'_>,
    ) -> Failure {
        let arguments: Vec<(&str, &str)> = arguments.iter().collect();
        let wrap: fn(PromptOutput) -> Outcome = Outcome::Prompt;
        self.forward(ctx, key, None, wrap, |client| client.prepare_prompt(name, &arguments))
    }

    pub(super) fn complete(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        key: &str,
        about: About<'_>,
        asked: &CompletionRequest<'_>,
    ) -> Failure {
        let settled: Vec<(&str, &str)> = asked.settled.iter().collect();
        let wrap: fn(Completion) -> Outcome = Outcome::Completion;
        self.forward(ctx, key, None, wrap, |client| {
            client.prepare_completion(about, asked.argument, asked.value, &settled)
        })
    }

    /// Sends a call on its way. What comes back is how the handler ends: mostly by leaving the call
    /// to whoever brings the answer.
    fn forward<T: 'static>(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        key: &str,
        uri: Option<&str>,
        wrap: fn(T) -> Outcome,
        prepare: impl FnOnce(&Client) -> Request<T>,
    ) -> Failure {
        match self.send(ctx, key, uri, wrap, prepare) {
            Ok(passed) => Failure::later(move |later| passed.attach(later)),
            Err(failure) => failure,
        }
    }

    fn send<T: 'static>(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        key: &str,
        uri: Option<&str>,
        wrap: fn(T) -> Outcome,
        prepare: impl FnOnce(&Client) -> Request<T>,
    ) -> Result<Arc<Passed>, Failure> {
        let failed = |error: Error| Failure::relayed(&error, uri);
        let limits = &self.hub.shared.limits;
        let (mut round, mut resumed) = (0, None);
        match noted(ctx) {
            Noted::Nothing => {}
            Noted::Held(number) => return self.go_on(ctx, number),
            Noted::Again { round: last, asked } => {
                round = last;
                if asked.questions.to_doc().root().members().next().is_none() {
                    ctx.wait(PAUSE * (1 << round.min(6)))?;
                }
                resumed = Some((ctx.relay(&asked.questions)?, asked));
            }
        }
        // Whoever calls and does not read is not sent more, and many calls wait for a few others.
        ctx.wait_for_reader();
        self.passing.wait_for_room(ctx, limits.calls)?;
        let client = self.hub.client(key).map_err(failed)?;
        let mut request = prepare(&client).able(ctx.client_can());
        if let Some((answers, asked)) = resumed {
            request = request.resume(&answers, &asked).map_err(failed)?;
        }
        if let Some(level) = ctx.log_level() {
            request = request.log_level(level);
        }
        if ctx.wants_progress() {
            // Who listens is given to each look; this one only asks for it.
            request = request.on_progress(|_| {}).extended_by_progress(limits.call_longest);
        }
        let passed = Passed::new(self, key, round, Instant::now());
        let told = Arc::downgrade(&passed);
        let watch: Watch = Arc::new(move || {
            if let Some(passed) = told.upgrade() {
                passed.visit();
            }
        });
        match request.start_watched(watch) {
            Ok(call) => passed.begin(call.canceller(), Under::of(call, wrap, uri)),
            Err(error) => {
                self.passing.remove(&passed);
                return Err(failed(error));
            }
        }
        Ok(passed)
    }
}
