//! Forwarding of calls: a handler sends the call to its server, under its name at the server, and
//! defers it. `proxied_call.rs` returns the result.
//!
//! In the stateless protocol a server returns its client requests in the result. The hub forwards
//! them to the client together with the sealed state for the next round, so it stores nothing
//! between the rounds.

use std::sync::Arc;
use std::time::Duration;

use crate::client::{Client, CompletionTarget, InputRequired, Request};
use crate::error::Error;
use crate::json::{Json, Value, Writer};
use crate::limits::Limits;
use crate::model::proxied_result::{ProxiedKind, ProxiedResult};
use crate::model::{ClientCapabilities, Level};
use crate::server::{Arguments, CompletionRequest, Context, Output, ToolError};
use crate::sync::lock;

use super::proxied_call::ProxiedCall;
use super::{Export, trace};

/// State of a call whose earlier rounds sent requests to the client.
enum Resumption {
    /// First run.
    Nothing,
    /// The call is in flight at its server, which has sent a client request.
    Held(u64),
    /// The server requires the call to be repeated.
    Again { round: u32, asked: InputRequired },
}

/// Returns the state to seal for a call that is in flight at its server.
pub(super) fn held(number: u64) -> Json {
    let mut w = Writer::new();
    w.begin_object().key("held").u64(number);
    w.end_object();
    w.into_json()
}

/// Returns the state to seal for a call that must be repeated.
pub(super) fn repeat_state(round: u32, asked: &InputRequired) -> Json {
    let mut w = Writer::new();
    w.begin_object().key("round").u64(u64::from(round));
    w.key("questions").json(&asked.requests);
    if let Some(state) = asked.state() {
        w.key("state").raw(state);
    }
    w.end_object();
    w.into_json()
}

fn resumption(ctx: &Context<'_>) -> Resumption {
    let Some(note) = ctx.note() else { return Resumption::Nothing };
    let root = note.root();
    let number = |name: &str| root.get(name).and_then(Value::as_u64);
    if let Some(number) = number("held") {
        return Resumption::Held(number);
    }
    let state = root.get("state").map(|state| state.raw().to_owned());
    match root.get("questions") {
        None => Resumption::Nothing,
        Some(questions) => Resumption::Again {
            round: number("round").and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
            asked: InputRequired::from_parts(questions.to_json(), state),
        },
    }
}

/// Target of a call, with the names at the server.
enum Target {
    Tool(String, Json),
    Read(String),
    Prompt(String, Vec<(String, String)>),
    PromptValues(String, CompletionInput),
    TemplateValues(String, CompletionInput),
}

/// An argument to complete.
struct CompletionInput {
    argument: String,
    value: String,
    context: Vec<(String, String)>,
}

impl Target {
    fn request(&self, client: &Client) -> Request<ProxiedResult> {
        let complete = |about, typed: &CompletionInput| {
            let context = borrowed(&typed.context);
            let request = client.request_completion(about, &typed.argument, &typed.value, &context);
            request.relayed(ProxiedKind::Completion)
        };
        match self {
            Target::Tool(name, arguments) => client.request_tool(name, arguments).relayed(ProxiedKind::Tool),
            Target::Read(uri) => client.request_read(uri).relayed(ProxiedKind::Contents),
            Target::Prompt(name, arguments) => {
                client.request_prompt(name, &borrowed(arguments)).relayed(ProxiedKind::Prompt)
            }
            Target::PromptValues(name, typed) => complete(CompletionTarget::Prompt(name), typed),
            Target::TemplateValues(text, typed) => complete(CompletionTarget::Template(text), typed),
        }
    }
}

fn owned(arguments: &Arguments<'_>) -> Vec<(String, String)> {
    arguments.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn borrowed(arguments: &[(String, String)]) -> Vec<(&str, &str)> {
    arguments.iter().map(|(name, value)| (&**name, &**value)).collect()
}

/// A call that can be sent as soon as its server is connected.
pub(super) struct PreparedCall {
    target: Target,
    able: ClientCapabilities,
    level: Option<Level>,
    progress: bool,
    /// Members for the request's `_meta`.
    trace: String,
    resumed: Option<(Json, InputRequired)>,
}

impl PreparedCall {
    /// Returns the request to this server, with a timeout of `time`.
    ///
    /// # Errors
    /// The client's responses are not an object.
    pub(super) fn request(
        &self,
        client: &Client,
        limits: &Limits,
        time: Duration,
    ) -> Result<Request<ProxiedResult>, Error> {
        let mut request = self.target.request(client).capabilities(self.able).meta(&self.trace).timeout(time);
        if let Some((answers, asked)) = &self.resumed {
            request = request.resume(answers, asked)?;
        }
        if let Some(level) = self.level {
            request = request.log_level(level);
        }
        if self.progress {
            // This listener only makes the client request progress. Each poll has its own listener.
            request = request.on_progress(|_| {}).reset_timeout_on_progress(limits.client.call_total_timeout);
        }
        Ok(request)
    }
}

impl Export {
    pub(super) fn call_tool(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        (key, name): (&str, &str),
        arguments: Value<'_>,
    ) -> Result<Output, ToolError> {
        self.forward(ctx, key, None, || Target::Tool(name.to_owned(), arguments.to_json()))
    }

    pub(super) fn read(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        key: &str,
        uri: &str,
    ) -> Result<Output, ToolError> {
        self.forward(ctx, key, Some(uri), || Target::Read(uri.to_owned()))
    }

    pub(super) fn prompt(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        (key, name): (&str, &str),
        arguments: &Arguments<'_>,
    ) -> Result<Output, ToolError> {
        self.forward(ctx, key, None, || Target::Prompt(name.to_owned(), owned(arguments)))
    }

    pub(super) fn complete(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        key: &str,
        about: CompletionTarget<'_>,
        asked: &CompletionRequest<'_>,
    ) -> Result<Output, ToolError> {
        let typed = || CompletionInput {
            argument: asked.argument.to_owned(),
            value: asked.value.to_owned(),
            context: owned(&asked.context),
        };
        self.forward(ctx, key, None, || match about {
            CompletionTarget::Prompt(name) => Target::PromptValues(name.to_owned(), typed()),
            CompletionTarget::Template(text) => Target::TemplateValues(text.to_owned(), typed()),
        })
    }

    /// Sends a call to its server and defers it.
    fn forward(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        key: &str,
        uri: Option<&str>,
        target: impl FnOnce() -> Target,
    ) -> Result<Output, ToolError> {
        let call = self.send(ctx, key, uri, target)?;
        Ok(Output::Deferred(Box::new(move |deferred| call.attach(deferred))))
    }

    fn send(
        self: &Arc<Self>,
        ctx: &mut Context<'_>,
        key: &str,
        uri: Option<&str>,
        target: impl FnOnce() -> Target,
    ) -> Result<Arc<ProxiedCall>, ToolError> {
        let (mut round, mut resumed) = (0, None);
        match resumption(ctx) {
            Resumption::Nothing => {}
            Resumption::Held(number) => return self.all.resume(ctx, number),
            Resumption::Again { round: last, asked } => {
                round = last;
                resumed = Some((ctx.relay(&asked.requests)?, asked));
            }
        }
        // Back-pressure: this thread waits while too many calls are in flight.
        ctx.wait_for_reader();
        let hub = &self.all.hub;
        let is_only = lock(&hub.shared.members).len() == 1;
        self.all.calls.wait_for_room(ctx, (key, is_only), hub.shared.limits.client.calls)?;
        let member = self.all.member(key).map_err(|error| ToolError::relayed(&error, uri))?;
        self.all.level_of_request(self, key, ctx.log_level());
        let trace = if hub.shared.handlers.traces() { ctx.meta().map(trace::members) } else { None };
        let sending = PreparedCall {
            target: target(),
            able: ctx.client_capabilities(),
            level: ctx.log_level(),
            progress: ctx.wants_progress(),
            trace: trace.unwrap_or_default(),
            resumed,
        };
        let call = ProxiedCall::new(&self.all, &member, uri, sending.able, round);
        call.start(&member, sending);
        Ok(call)
    }
}
