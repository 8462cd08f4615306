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
#[allow(dead_code)] // Some of it is used by the hub only.
pub(crate) mod deferred;
pub(crate) mod in_flight;
pub(crate) mod request_state;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::era::{self, Proxied, Questions, Reply, ReplyTarget, ServerEra, meta};
use crate::json::{Doc, Kind, Value};
use crate::model::client_request::Ask;
use crate::model::content::{Completion, PromptOutput, ReadOutput, ToolOutput};
use crate::model::uri_template::Variables;
use crate::model::{Fault, Operation, Query};
use crate::pool;
use crate::transport::ReplySink;

use self::deferred::{Begin, Deferred};
use self::in_flight::Call;
use self::request_state::Answers;
use crate::server::connection::Connection;
use crate::server::context::Context;
use crate::server::registry::{
    Arguments, CompleteFn, CompletionRequest, Listed, PromptEntry, ReadFn, ToolEntry, ToolHandler,
};
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
    pub answers: Answers,
    pub call: Arc<Call>,
    /// Time of admission.
    pub accepted: Option<Instant>,
    /// Its response must be sent without waiting for the client.
    pub posts: bool,
}

/// Handler of a call.
#[derive(Clone)]
pub(crate) enum Target {
    Tool(Arc<Listed<ToolEntry>>),
    Read(Arc<ReadFn>, Arc<Variables>),
    Prompt(Arc<Listed<PromptEntry>>),
    Complete(Arc<CompleteFn>),
    /// A subscription through the owner of the catalog's entries.
    Subscribe,
    /// The response to a client's first message, with the instructions of that owner.
    Greeting,
}

impl Target {
    /// The index of its inline handler, if it has one.
    pub(crate) fn inline(&self) -> Option<usize> {
        match self {
            Target::Tool(entry) => match entry.entry.handler {
                ToolHandler::Inline(place) => Some(place),
                ToolHandler::Pooled(_) => None,
            },
            _ => None,
        }
    }
}

/// Outcome of a handler.
pub(crate) enum Handled {
    Tool(ToolOutput),
    Read(ReadOutput),
    Prompt(PromptOutput),
    Completion(Completion),
    /// The result of an upstream.
    #[allow(dead_code)] // Made by the hub.
    Proxied(Box<dyn Proxied>),
    /// Identity and capabilities of the server, with these instructions.
    Greeting(Option<String>),
    /// Success without a result.
    Empty,
    /// The call ends later, through a [`Deferred`].
    Deferred(Begin),
}

/// Result of a call.
pub(crate) enum CallResult {
    Done(Handled),
    Fault(Fault),
    /// The handler needs responses of the client.
    Asked(Vec<Ask>),
    /// The call ends later.
    Deferred(Begin),
}

/// Handler of a tool that runs on the reader thread.
pub(crate) type InlineFn = dyn FnMut(&mut Context<'_>, Value<'_>) -> Result<Handled, ToolError>;

impl Job {
    /// Runs the handler on this thread and settles the call.
    pub(crate) fn run(mut self) {
        if self.call.is_settled() {
            return self.conn.core.recycle(self.doc);
        }
        self.call.start();
        let mut answers = std::mem::take(&mut self.answers);
        let result = conclude(&self.scope(), &self.target, &mut answers, None);
        self.answers = answers;
        self.settle(result);
    }

    /// Target of its response.
    pub(crate) fn to(&self) -> ReplyTarget<'_> {
        ReplyTarget {
            id: self.doc.at(self.query.id).raw(),
            revision: self.query.peer.revision,
            card: &self.conn.core.card,
        }
    }

    /// Bytes of memory of its message and of the client's responses.
    pub(crate) fn weight(&self) -> usize {
        let answers = self.answers.iter().map(|(_, answer)| answer.as_ref().map_or(0, Doc::memory));
        self.doc.memory() + answers.sum::<usize>()
    }

    /// The call as its handler's context sees it.
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
    pub(crate) fn settle(self, result: CallResult) {
        let conn = &self.conn;
        match result {
            CallResult::Done(outcome) => conn.finish(&self, outcome.reply(conn)),
            CallResult::Fault(fault) => {
                if let Operation::Subscribe { uri } = self.query.operation {
                    conn.unsubscribe(self.doc.at(uri).as_str().unwrap_or_default());
                }
                conn.finish(&self, Reply::Fault(&fault));
            }
            CallResult::Deferred(begin) => return begin(Deferred::of(self)),
            CallResult::Asked(asks) => return self.ask(&asks),
        }
        self.conn.core.recycle(self.doc);
    }

    /// Sends the handler's requests to the client.
    #[cold]
    #[inline(never)]
    fn ask(self, asks: &[Ask]) {
        let conn = &self.conn;
        match self.era.questions() {
            Questions::Requests => return Arc::clone(conn).park(self, asks),
            Questions::InResult => {
                match conn.core.seal(self.sink.principal(), &self.query, &self.doc, &self.answers) {
                    Ok(state) => conn.finish(&self, Reply::Asked { asks, state: &state }),
                    Err(fault) => conn.finish(&self, Reply::Fault(&fault)),
                }
            }
        }
        self.conn.core.recycle(self.doc);
    }
}

impl Handled {
    /// The outcome as a reply.
    pub(crate) fn reply(&self, conn: &Connection) -> Reply<'_> {
        match self {
            Handled::Tool(output) => Reply::Tool(output),
            Handled::Read(output) => Reply::Read(output, conn.core.read_cache),
            Handled::Prompt(output) => Reply::Prompt(output),
            Handled::Completion(output) => Reply::Completion(output),
            Handled::Greeting(instructions) => Reply::Greeting {
                offer: conn.core.offer(),
                cache: conn.core.list_cache,
                instructions: instructions.as_deref(),
            },
            Handled::Proxied(result) => Reply::Proxied(&**result, conn.core.read_cache),
            // `check` turns a deferred outcome into `CallResult::Deferred`.
            Handled::Empty | Handled::Deferred(_) => Reply::Empty,
        }
    }
}

/// A call as its handler's context sees it.
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
pub(crate) fn conclude(
    scope: &CallScope<'_>,
    target: &Target,
    answers: &mut Answers,
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
        answers,
        asks: Vec::new(),
        keys: Vec::new(),
        last_progress: f64::NEG_INFINITY,
    };
    let result = pool::guard(|| run(&mut ctx, target, inline).map(|outcome| check(target, outcome)));
    match result {
        Ok(Ok(result)) => result,
        Ok(Err(failure)) => failed(scope, failure, std::mem::take(&mut ctx.asks)),
        Err(_panicked) => CallResult::Fault(Fault::Internal("The handler panicked")),
    }
}

fn run<'c>(
    ctx: &mut Context<'c>,
    target: &Target,
    inline: Option<&mut InlineFn>,
) -> Result<Handled, ToolError> {
    let doc: &'c Doc = ctx.doc;
    match (target, ctx.query.operation) {
        (Target::Tool(entry), Operation::CallTool { arguments, .. }) => {
            let arguments = match arguments {
                Some(node) => doc.at(node),
                None => no_arguments(),
            };
            if let Some(check) = &entry.entry.input {
                check.check(arguments).map_err(|v| ctx.bad_arguments(&v))?;
            }
            match (&entry.entry.handler, inline) {
                (ToolHandler::Pooled(handler), _) => handler(ctx, arguments),
                (ToolHandler::Inline(_), Some(handler)) => handler(ctx, arguments),
                (ToolHandler::Inline(_), None) => {
                    Err(ToolError::fault(Fault::Internal("The tool can run only on the thread that serves")))
                }
            }
        }
        (Target::Read(read, variables), Operation::ReadResource { uri }) => {
            let uri = doc.at(uri).as_str().unwrap_or_default();
            match read(ctx, uri, variables)? {
                // No contents is "not found", never an empty list (server/resources, 2026-07-28).
                Handled::Read(output) if output.contents.is_empty() => Err(ToolError::not_found(uri)),
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
        (Target::Subscribe, Operation::Subscribe { uri }) => {
            let uri = doc.at(uri).as_str().unwrap_or_default().to_owned();
            Ok(Handled::Deferred(Box::new(move |deferred| deferred.subscribe(uri))))
        }
        (Target::Greeting, _) => Ok(Handled::Deferred(Box::new(Deferred::greet))),
        _ => Err(ToolError::fault(Fault::Internal("The handler does not match the request"))),
    }
}

/// An empty object, for calls without arguments.
fn no_arguments() -> Value<'static> {
    static EMPTY: OnceLock<Doc> = OnceLock::new();
    EMPTY.get_or_init(|| Doc::parse(b"{}").unwrap_or_default()).root()
}

/// Checks a result against the tool's output schema, and its `_meta` against the protocol's rules.
fn check(target: &Target, mut outcome: Handled) -> CallResult {
    let flaw = match &mut outcome {
        Handled::Tool(output) => meta::settle(output),
        Handled::Read(output) => output.contents.iter().find_map(meta::of_contents),
        Handled::Prompt(output) => output.messages.iter().find_map(|(_, block)| meta::of_block(block)),
        _ => None,
    };
    if let Some(flaw) = flaw {
        let message = format!("The result's _meta {flaw}");
        return CallResult::Fault(Fault::Custom { code: crate::rpc::code::INTERNAL, message, data: None });
    }
    if let (Target::Tool(entry), Handled::Tool(output)) = (target, &outcome) {
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
        Handled::Deferred(begin) => CallResult::Deferred(begin),
        outcome => CallResult::Done(outcome),
    }
}

#[cold]
#[inline(never)]
pub(crate) fn failed(scope: &CallScope<'_>, failure: ToolError, asks: Vec<Ask>) -> CallResult {
    let tool = matches!(scope.query.operation, Operation::CallTool { .. });
    match failure.into_reason() {
        Reason::Asked if asks.is_empty() => {
            CallResult::Fault(Fault::Internal("The handler returned early without a request to the client"))
        }
        Reason::Asked => CallResult::Asked(asks),
        Reason::Text(text) if tool => CallResult::Done(Handled::Tool(ToolOutput::failed(text))),
        Reason::Text(text) => {
            CallResult::Fault(Fault::Custom { code: crate::rpc::code::INTERNAL, message: text, data: None })
        }
        // The capabilities of a session do not change, so the client cannot call in another way.
        Reason::Fault(Fault::MissingCapability(needed))
            if tool && scope.era.questions() == Questions::Requests =>
        {
            let mut text = "This tool sends a request to the client, which lacks the capability ".to_owned();
            text.push_str(era::capability(needed));
            CallResult::Done(Handled::Tool(ToolOutput::failed(text)))
        }
        Reason::Fault(fault) => CallResult::Fault(fault),
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
