//! Running one call's handler and turning what it did into an answer, a question or nothing.

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

/// One accepted call on its way to a worker.
pub(crate) struct Job {
    pub conn: Arc<Connection>,
    /// Where its answer goes; a batch collects them.
    pub sink: Arc<dyn ReplySink>,
    pub era: &'static dyn ServerEra,
    pub doc: Box<Doc>,
    pub query: Query,
    pub target: Target,
    pub answers: Answers,
    pub call: Arc<Call>,
    /// When it was entered among the calls in flight.
    pub accepted: Option<Instant>,
    /// Whoever answers it must not wait for the client.
    pub posts: bool,
}

/// What is to be run.
#[derive(Clone)]
pub(crate) enum Target {
    Tool(Arc<Listed<ToolEntry>>),
    Read(Arc<ReadFn>, Arc<Variables>),
    Prompt(Arc<Listed<PromptEntry>>),
    Complete(Arc<CompleteFn>),
    /// A subscription that the server's delegate makes.
    Subscribe,
}

impl Target {
    /// The place of its inline handler, if it has one.
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

/// What came out.
pub(crate) enum Outcome {
    Tool(ToolOutput),
    Read(ReadOutput),
    Prompt(PromptOutput),
    Completion(Completion),
    /// Another server's result.
    #[allow(dead_code)] // Made by the hub.
    Proxied(Box<dyn Proxied>),
    /// Nothing but success.
    Empty,
    /// Somebody else answers.
    Deferred(Begin),
}

/// How a handler ended.
pub(crate) enum CallResult {
    Done(Outcome),
    Fault(Fault),
    Asked(Vec<Ask>),
    /// Somebody else answers.
    Deferred(Begin),
}

/// Runs a tool that lives on the reading thread.
pub(crate) type InlineFn = dyn FnMut(&mut Context<'_>, Value<'_>) -> Result<Outcome, ToolError>;

impl Job {
    /// Runs the handler on this thread and settles the call.
    pub(crate) fn run(mut self) {
        if self.call.is_settled() {
            return self.conn.core.recycle(self.doc);
        }
        self.call.start();
        let mut answers = std::mem::take(&mut self.answers);
        let conclusion = conclude(&self.exchange(), &self.target, &mut answers, None);
        self.answers = answers;
        self.settle(conclusion);
    }

    /// Whom its answer goes to.
    pub(crate) fn to(&self) -> ReplyTarget<'_> {
        ReplyTarget {
            id: self.doc.at(self.query.id).raw(),
            revision: self.query.peer.revision,
            card: &self.conn.core.card,
        }
    }

    /// Bytes of memory that it keeps while it waits.
    pub(crate) fn weight(&self) -> usize {
        let answers = self.answers.iter().map(|(_, answer)| answer.as_ref().map_or(0, Doc::memory));
        self.doc.memory() + answers.sum::<usize>()
    }

    /// What the handler needs to see of this job.
    pub(crate) fn exchange(&self) -> Exchange<'_> {
        Exchange {
            conn: &self.conn,
            sink: &*self.sink,
            era: self.era,
            doc: &self.doc,
            query: &self.query,
            call: Some(&self.call),
            deadline: None,
        }
    }

    /// Answers, asks, or drops what nobody waits for any more.
    pub(crate) fn settle(self, conclusion: CallResult) {
        let conn = &self.conn;
        match conclusion {
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

    /// Puts what the handler wants to know to the client.
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

impl Outcome {
    /// The outcome as an answer.
    pub(crate) fn reply(&self, conn: &Connection) -> Reply<'_> {
        match self {
            Outcome::Tool(output) => Reply::Tool(output),
            Outcome::Read(output) => Reply::Read(output, conn.core.read_cache),
            Outcome::Prompt(output) => Reply::Prompt(output),
            Outcome::Completion(output) => Reply::Completion(output),
            Outcome::Proxied(result) => Reply::Proxied(&**result, conn.core.read_cache),
            // A deferred call is given away before it is answered.
            Outcome::Empty | Outcome::Deferred(_) => Reply::Empty,
        }
    }
}

/// A call as its handler's surroundings see it, owned by whoever runs it.
pub(crate) struct Exchange<'c> {
    pub conn: &'c Connection,
    pub sink: &'c dyn ReplySink,
    pub era: &'static dyn ServerEra,
    pub doc: &'c Doc,
    pub query: &'c Query,
    pub call: Option<&'c Call>,
    /// Where nobody watches the call: when its handler sees it as cancelled.
    pub deadline: Option<Instant>,
}

/// Runs the handler: checks what it is given and what it gives, and survives its panics.
pub(crate) fn conclude(
    exchange: &Exchange<'_>,
    target: &Target,
    answers: &mut Answers,
    inline: Option<&mut InlineFn>,
) -> CallResult {
    let core = &exchange.conn.core;
    let mut ctx = Context {
        doc: exchange.doc,
        query: exchange.query,
        era: exchange.era,
        sink: exchange.sink,
        call: exchange.call,
        deadline: exchange.deadline,
        logging: core.logging,
        host: exchange.conn,
        answers,
        asks: Vec::new(),
        keys: Vec::new(),
        last_progress: f64::NEG_INFINITY,
    };
    let result = pool::guard(|| run(&mut ctx, target, inline).map(|outcome| check(target, outcome)));
    match result {
        Ok(Ok(conclusion)) => conclusion,
        Ok(Err(failure)) => failed(exchange, failure, std::mem::take(&mut ctx.asks)),
        Err(_panicked) => CallResult::Fault(Fault::Internal("The handler panicked")),
    }
}

fn run<'c>(
    ctx: &mut Context<'c>,
    target: &Target,
    inline: Option<&mut InlineFn>,
) -> Result<Outcome, ToolError> {
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
                    Err(ToolError::fault(Fault::Internal("This tool runs only on the thread that serves")))
                }
            }
        }
        (Target::Read(read, variables), Operation::ReadResource { uri }) => {
            let uri = doc.at(uri).as_str().unwrap_or_default();
            match read(ctx, uri, variables)? {
                // No contents is "not found", never an empty list (server/resources, 2026-07-28).
                Outcome::Read(output) if output.contents.is_empty() => Err(ToolError::not_found(uri)),
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
            Ok(Outcome::Deferred(Box::new(move |deferred| deferred.subscribe(uri))))
        }
        _ => Err(ToolError::fault(Fault::Internal("The request and its handler do not belong together"))),
    }
}

/// A tool called without arguments gets an empty object.
fn no_arguments() -> Value<'static> {
    static EMPTY: OnceLock<Doc> = OnceLock::new();
    EMPTY.get_or_init(|| Doc::parse(b"{}").unwrap_or_default()).root()
}

/// A result must be what the tool promised, and its `_meta` what the protocol allows.
fn check(target: &Target, mut outcome: Outcome) -> CallResult {
    let flaw = match &mut outcome {
        Outcome::Tool(output) => meta::settle(output),
        Outcome::Read(output) => output.contents.iter().find_map(meta::of_contents),
        Outcome::Prompt(output) => output.messages.iter().find_map(|(_, block)| meta::of_block(block)),
        _ => None,
    };
    if let Some(flaw) = flaw {
        let message = format!("The result's _meta {flaw}");
        return CallResult::Fault(Fault::Custom { code: crate::rpc::code::INTERNAL, message, data: None });
    }
    if let (Target::Tool(entry), Outcome::Tool(output)) = (target, &outcome) {
        if entry.entry.tool.output_schema.is_some() && !output.is_error {
            let Some(structured) = &output.structured else {
                return CallResult::Fault(Fault::Internal("The tool gave no structured result"));
            };
            if let Some(check) = &entry.entry.output {
                if check.check(structured.to_doc().root()).is_err() {
                    return CallResult::Fault(Fault::Internal(
                        "The tool's result does not fit its output schema",
                    ));
                }
            }
        }
    }
    match outcome {
        Outcome::Deferred(begin) => CallResult::Deferred(begin),
        outcome => CallResult::Done(outcome),
    }
}

#[cold]
#[inline(never)]
pub(crate) fn failed(exchange: &Exchange<'_>, failure: ToolError, asks: Vec<Ask>) -> CallResult {
    let tool = matches!(exchange.query.operation, Operation::CallTool { .. });
    match failure.into_reason() {
        Reason::Asked if asks.is_empty() => {
            CallResult::Fault(Fault::Internal("The handler waits for nothing"))
        }
        Reason::Asked => CallResult::Asked(asks),
        Reason::Text(text) if tool => CallResult::Done(Outcome::Tool(ToolOutput::failed(text))),
        Reason::Text(text) => {
            CallResult::Fault(Fault::Custom { code: crate::rpc::code::INTERNAL, message: text, data: None })
        }
        // A session's capabilities are settled: there is no other way for this client to call.
        Reason::Fault(Fault::MissingCapability(needed))
            if tool && exchange.era.questions() == Questions::Requests =>
        {
            let mut text = "This client cannot be asked what the tool needs to know: it lacks ".to_owned();
            text.push_str(era::capability(needed));
            CallResult::Done(Outcome::Tool(ToolOutput::failed(text)))
        }
        Reason::Fault(fault) => CallResult::Fault(fault),
    }
}

/// Whether prompt arguments satisfy the prompt's description.
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
