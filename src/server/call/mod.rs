//! Calls: `tools/call`, `prompts/get`, `resources/read` and completions. Runs the handler and turns
//! its outcome into a response or into requests to the client.
//!
//! | module | contents |
//! |---|---|
//! | [`in_flight`] | table of the calls in flight of one connection |
//! | [`deferred`] | calls that end after their handler returned |
//! | [`batch`] | responses to a batch of messages |
//! | [`request_state`] | sealed `requestState` of calls with several rounds |

pub(crate) mod batch;
pub(crate) mod deferred;
pub(crate) mod in_flight;
pub(crate) mod request_state;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::era::{RawResult, Reply, ReplyTarget, RequestMode, ServerEra, capability, meta};
use crate::json::{Doc, Kind, Value};
use crate::model::client_request::KeyedRequest;
use crate::model::content::{Completion, PromptOutput, ReadOutput, ToolOutput};
use crate::model::uri_template::Variables;
use crate::model::{Fault, Operation, Query};
use crate::pool;
use crate::transport::ReplySink;

use self::deferred::{DeferFn, Deferred};
use self::in_flight::Call;
use self::request_state::Responses;
use crate::server::callers::call_limits::CallPermit;
use crate::server::callers::observation::{self, around};
use crate::server::callers::visibility;
use crate::server::connection::Connection;
use crate::server::context::Context;
use crate::server::extension::Method;
use crate::server::registry::{
    Arguments, CompleteFn, CompletionRequest, PromptEntry, ReadFn, Row, ToolEntry, ToolHandler,
};
use crate::server::tasks::{self, ContextTask};
use crate::server::tool_error::{Reason, ToolError};

/// A call on its way to a worker.
pub(crate) struct Job {
    pub conn: Arc<Connection>,
    /// Sink for its response.
    pub sink: Arc<dyn ReplySink>,
    pub era: &'static dyn ServerEra,
    pub doc: Box<Doc>,
    pub query: Query,
    pub target: Target,
    pub responses: Responses,
    pub call: Arc<Call>,
    /// Time of admission.
    pub accepted: Option<Instant>,
    /// The thread that sends the response must not wait for the client.
    pub must_not_block: bool,
    /// Counts the call in the limits of its caller.
    #[allow(dead_code)] // It acts when it is dropped.
    pub permit: Option<CallPermit>,
}

/// Handler of a call.
#[derive(Clone)]
pub(crate) enum Target {
    Tool(Arc<Row<ToolEntry>>),
    Read(Arc<ReadFn>, Arc<Variables>),
    Prompt(Arc<Row<PromptEntry>>),
    Complete(Arc<CompleteFn>),
    /// A method of an extension.
    Method(Method),
    /// A subscription that the server's [`Delegate`](crate::server::registry::catalog::Delegate)
    /// makes.
    Subscribe,
    /// The response to a client's first request, with the instructions of the delegate.
    ServerDescription,
}

impl Target {
    /// Returns the index of the inline handler, if the target has one.
    pub(crate) fn inline(&self) -> Option<usize> {
        match self {
            Target::Tool(entry) => match entry.entry.handler {
                ToolHandler::Inline(place) => Some(place),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Outcome of a handler.
pub(crate) enum Output {
    Tool(ToolOutput),
    Read(ReadOutput),
    Prompt(PromptOutput),
    Completion(Completion),
    /// A result of another server, or of a method of an extension.
    #[allow(dead_code)] // Made with the features `extensions` and `hub`.
    Raw(Box<dyn RawResult>),
    /// Identity and capabilities of the server, with these instructions.
    ServerDescription(Option<String>),
    /// Success without a result.
    Empty,
    /// The call ends later, through a [`Deferred`].
    Deferred(DeferFn),
}

/// Result of a call.
pub(crate) enum CallResult {
    Done(Output),
    Fault(Fault),
    /// The handler needs responses of the client.
    InputRequired(Vec<KeyedRequest>),
    /// The call ends later.
    Deferred(DeferFn),
}

/// Handler of a tool that runs on the reader thread.
pub(crate) type InlineFn = dyn FnMut(&mut Context<'_>, Value<'_>) -> Result<Output, ToolError>;

impl Job {
    /// Runs the handler on this thread and settles the call.
    pub(crate) fn run(mut self) {
        if self.call.is_settled() {
            return self.conn.core.recycle(self.doc);
        }
        self.call.start();
        observation::started(&*self.sink);
        let mut responses = std::mem::take(&mut self.responses);
        let result = run_handler(&self.scope(), &self.target, &mut responses, None);
        self.responses = responses;
        self.settle(result);
    }

    /// Returns the target of the response.
    pub(crate) fn reply_target(&self) -> ReplyTarget<'_> {
        ReplyTarget {
            id: self.doc.at(self.query.id).raw(),
            revision: self.query.peer.revision,
            server: &self.conn.core.info,
        }
    }

    /// Returns the bytes of memory of the message and of the client's responses.
    pub(crate) fn weight(&self) -> usize {
        let responses = self.responses.iter().map(|(_, response)| response.as_ref().map_or(0, Doc::memory));
        self.doc.memory() + responses.sum::<usize>()
    }

    /// Returns the parts of the call that its handler's context uses.
    pub(crate) fn scope(&self) -> CallScope<'_> {
        CallScope {
            conn: &self.conn,
            sink: &*self.sink,
            era: self.era,
            doc: &self.doc,
            query: &self.query,
            call: Some(&self.call),
            deadline: None,
        }
    }

    /// Sends the response or requests to the client, or passes the call to its deferred owner.
    pub(crate) fn settle(mut self, mut result: CallResult) {
        // A client may call again as soon as it has the response, so the call must not count then.
        match result {
            CallResult::Deferred(_) => {}
            CallResult::InputRequired(_) if self.era.request_mode() == RequestMode::Requests => {}
            _ => self.permit = None,
        }
        let conn = &self.conn;
        visibility::make_result_private(&conn.core, &mut result);
        match result {
            CallResult::Done(outcome) => conn.finish(&self, outcome.reply(conn)),
            CallResult::Fault(fault) => {
                if let Operation::Subscribe { uri } = self.query.operation {
                    conn.unsubscribe(self.doc.at(uri).as_str().unwrap_or_default());
                }
                conn.finish(&self, Reply::Fault(&fault));
            }
            CallResult::Deferred(begin) => return begin(Deferred::of(self)),
            CallResult::InputRequired(requests) => return self.request_input(&requests),
        }
        self.conn.core.recycle(self.doc);
    }

    /// Sends the handler's requests to the client.
    #[cold]
    #[inline(never)]
    fn request_input(self, requests: &[KeyedRequest]) {
        let conn = &self.conn;
        match self.era.request_mode() {
            RequestMode::Requests => return Arc::clone(conn).park(self, requests),
            RequestMode::InResult => {
                match conn.core.seal(self.sink.principal(), &self.query, &self.doc, &self.responses) {
                    Ok(state) => conn.finish(&self, Reply::InputRequired { requests, state: &state }),
                    Err(fault) => conn.finish(&self, Reply::Fault(&fault)),
                }
            }
        }
        self.conn.core.recycle(self.doc);
    }
}

impl Output {
    /// Converts the outcome to a reply.
    #[inline]
    pub(crate) fn reply(&self, conn: &Connection) -> Reply<'_> {
        match self {
            Output::Tool(output) => Reply::Tool(output),
            Output::Read(output) => Reply::Read(output, conn.core.read_cache),
            Output::Prompt(output) => Reply::Prompt(output),
            Output::Completion(output) => Reply::Completion(output),
            Output::ServerDescription(instructions) => Reply::ServerDescription {
                capabilities: conn.core.capabilities(),
                cache: conn.core.list_cache,
                instructions: instructions.as_deref(),
            },
            Output::Raw(result) => Reply::Raw(&**result, conn.core.read_cache),
            // `check` turns a deferred outcome into `CallResult::Deferred`.
            Output::Empty | Output::Deferred(_) => Reply::Empty,
        }
    }
}

/// The parts of a call that its handler's context uses.
pub(crate) struct CallScope<'c> {
    pub conn: &'c Connection,
    pub sink: &'c dyn ReplySink,
    pub era: &'static dyn ServerEra,
    pub doc: &'c Doc,
    pub query: &'c Query,
    pub call: Option<&'c Call>,
    /// Deadline of a call that the watchdog does not watch.
    pub deadline: Option<Instant>,
}

/// Runs the handler. Checks its arguments and its result, and catches its panics.
pub(crate) fn run_handler(
    scope: &CallScope<'_>,
    target: &Target,
    responses: &mut Responses,
    inline: Option<&mut InlineFn>,
) -> CallResult {
    let core = &scope.conn.core;
    let mut ctx = Context {
        doc: scope.doc,
        query: scope.query,
        era: scope.era,
        sink: scope.sink,
        call: scope.call,
        deadline: scope.deadline,
        logging: core.logging,
        host: scope.conn,
        responses,
        requests: Vec::new(),
        keys: Vec::new(),
        last_progress: f64::NEG_INFINITY,
        task: ContextTask::of(&core.shared.tasks),
    };
    run_handler_in(&mut ctx, target, inline)
}

/// Runs the handler in this context.
#[inline]
pub(crate) fn run_handler_in(
    ctx: &mut Context<'_>,
    target: &Target,
    inline: Option<&mut InlineFn>,
) -> CallResult {
    let result = pool::guard(|| run(ctx, target, inline).map(|outcome| check(target, outcome)));
    match result {
        Ok(Ok(result)) => result,
        Ok(Err(failure)) => failed(ctx.query, ctx.era, failure, std::mem::take(&mut ctx.requests)),
        Err(_panicked) => CallResult::Fault(Fault::Internal("The handler panicked")),
    }
}

fn run<'c>(
    ctx: &mut Context<'c>,
    target: &Target,
    inline: Option<&mut InlineFn>,
) -> Result<Output, ToolError> {
    let doc: &'c Doc = ctx.doc;
    match (target, ctx.query.operation) {
        (Target::Tool(entry), Operation::CallTool { arguments, .. }) => {
            let arguments = arguments.map(|node| doc.at(node)).unwrap_or(no_arguments());
            run_tool(ctx, entry, arguments, inline)
        }
        (Target::Read(read, variables), Operation::ReadResource { uri }) => {
            let uri = doc.at(uri).as_str().unwrap_or_default();
            match read(ctx, uri, variables)? {
                // Without contents the resource is "not found"; an empty list is never sent
                // (server/resources, 2026-07-28).
                Output::Read(output) if output.contents.is_empty() => Err(ToolError::not_found(uri)),
                outcome => Ok(outcome),
            }
        }
        (Target::Prompt(entry), Operation::GetPrompt { arguments, .. }) => {
            let arguments = Arguments::new(arguments.map(|node| doc.at(node)));
            (entry.entry.fill)(ctx, &arguments)
        }
        (Target::Complete(complete), Operation::Complete { argument, value, context, .. }) => {
            let request = CompletionRequest {
                argument: doc.at(argument).as_str().unwrap_or_default(),
                value: doc.at(value).as_str().unwrap_or_default(),
                context: Arguments::new(context.map(|node| doc.at(node))),
            };
            complete(ctx, &request)
        }
        (Target::Method(method), _) => method.run(ctx, ctx.query.params.map(|node| doc.at(node))),
        (Target::Subscribe, Operation::Subscribe { uri }) => {
            let uri = doc.at(uri).as_str().unwrap_or_default().to_owned();
            Ok(Output::Deferred(Box::new(move |deferred| deferred.subscribe(uri))))
        }
        (Target::ServerDescription, _) => Ok(Output::Deferred(Box::new(Deferred::describe_server))),
        _ => Err(ToolError::fault(Fault::Internal("The handler does not match the request"))),
    }
}

/// Checks the arguments of a tool and runs its handler.
fn run_tool(
    ctx: &mut Context<'_>,
    entry: &Row<ToolEntry>,
    arguments: Value<'_>,
    inline: Option<&mut InlineFn>,
) -> Result<Output, ToolError> {
    if let Some(check) = &entry.entry.input {
        check.check(arguments).map_err(|v| ctx.bad_arguments(&v))?;
    }
    let tool = &entry.entry.tool;
    match (&entry.entry.handler, inline) {
        (ToolHandler::Pooled(handler), _) => {
            tasks::run(ctx, tool, |ctx| around(ctx, tool, arguments, &mut |ctx| handler(ctx, arguments)))
        }
        (ToolHandler::Inline(_), Some(handler)) => {
            around(ctx, tool, arguments, &mut |ctx| handler(ctx, arguments))
        }
        (ToolHandler::Inline(_), None) => {
            Err(ToolError::fault(Fault::Internal("Inline tools run only on the reader thread")))
        }
    }
}

/// Returns an empty object, for calls without arguments.
pub(crate) fn no_arguments() -> Value<'static> {
    static EMPTY: OnceLock<Doc> = OnceLock::new();
    EMPTY.get_or_init(|| Doc::parse(b"{}").unwrap_or_default()).root()
}

/// Checks a result against the tool's output schema, and its `_meta` against the protocol's rules.
fn check(target: &Target, mut outcome: Output) -> CallResult {
    let flaw = match &mut outcome {
        Output::Tool(output) => meta::clean_and_check(output),
        Output::Read(output) => output.contents.iter().find_map(meta::contents_error),
        Output::Prompt(output) => output.messages.iter().find_map(|(_, block)| meta::block_error(block)),
        _ => None,
    };
    if let Some(flaw) = flaw {
        let message = format!("The result's _meta {flaw}");
        return CallResult::Fault(Fault::Custom { code: crate::rpc::code::INTERNAL, message, data: None });
    }
    if let (Target::Tool(entry), Output::Tool(output)) = (target, &outcome) {
        if entry.entry.tool.output_schema.is_some() && !output.is_error {
            let Some(structured) = &output.structured else {
                return CallResult::Fault(Fault::Internal("The tool returned no structured result"));
            };
            if let Some(check) = &entry.entry.output {
                if check.check(structured.to_doc().root()).is_err() {
                    return CallResult::Fault(Fault::Internal(
                        "The tool's result does not match its output schema",
                    ));
                }
            }
        }
    }
    match outcome {
        Output::Deferred(begin) => CallResult::Deferred(begin),
        outcome => CallResult::Done(outcome),
    }
}

#[cold]
#[inline(never)]
pub(crate) fn failed(
    query: &Query,
    era: &dyn ServerEra,
    failure: ToolError,
    requests: Vec<KeyedRequest>,
) -> CallResult {
    let tool = matches!(query.operation, Operation::CallTool { .. });
    match failure.into_reason() {
        Reason::InputRequired if requests.is_empty() => {
            CallResult::Fault(Fault::Internal("The handler returned early without a request to the client"))
        }
        Reason::InputRequired => CallResult::InputRequired(requests),
        Reason::Text(text) if tool => CallResult::Done(Output::Tool(ToolOutput::failed(text))),
        Reason::Text(text) => {
            CallResult::Fault(Fault::Custom { code: crate::rpc::code::INTERNAL, message: text, data: None })
        }
        // The capabilities of a session do not change, so repeating the call cannot succeed: the
        // model gets the error.
        Reason::Fault(Fault::MissingCapability(need))
            if tool && era.request_mode() == RequestMode::Requests =>
        {
            let mut text = "This tool sends a request to the client, which lacks the capability ".to_owned();
            text.push_str(capability(need));
            CallResult::Done(Output::Tool(ToolOutput::failed(text)))
        }
        Reason::Fault(fault) => CallResult::Fault(fault),
        #[cfg(feature = "tasks")]
        Reason::Task => CallResult::Deferred(Box::new(Deferred::into_task)),
    }
}

/// Checks that the required arguments of a prompt are present.
///
/// # Errors
/// A required argument is missing (server/prompts, error handling).
pub(crate) fn check_prompt(entry: &PromptEntry, arguments: Option<Value<'_>>) -> Result<(), Fault> {
    for argument in entry.prompt.arguments.iter().filter(|a| a.required) {
        let given = arguments.and_then(|a| a.get(&argument.name)).is_some_and(|v| v.kind() == Kind::String);
        if !given {
            return Err(Fault::InvalidParams(format!("Missing required argument: {}", argument.name).into()));
        }
    }
    Ok(())
}
