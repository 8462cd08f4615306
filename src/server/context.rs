//! What a handler can do besides computing: report, log, notice that it is no longer wanted, and
//! ask the user, the model or for the roots.
//!
//! A question is answered in one of two ways. Where the answer came with the call, it is returned.
//! Where it is not there yet, the method returns a [`ToolError`] that the handler passes on with
//! `?`; the client is asked, and **the handler runs again from the start** when the answers are
//! there. So side effects come after the answers. Questions asked before the first `?` travel
//! together:
//!
//! ```
//! # use tinymcp::{Context, ToolError, Form};
//! # fn form() -> Form { Form::new("Who?") }
//! # fn handler(ctx: &mut Context<'_>) -> Result<(), ToolError> {
//! let name = ctx.elicit("name", form());       // not answered yet: an Err that is kept for now
//! let roots = ctx.roots("roots");
//! let (name, roots) = (name?, roots?);         // both are asked at once
//! # Ok(())
//! # }
//! ```
//!
//! No thread waits for the client, in either era.

use std::time::{Duration, Instant};

use crate::era::{self, Questions, ServerEra, Signal, meta};
use crate::error::Error;
use crate::json::{Doc, Json, NodeId, Value, Writer};
use crate::limits::FOR_EVER;
use crate::model::client_request::{Action, Ask, AskRequest, Form, FormResult, Root, SampleResult, Sampling};
use crate::model::uri_template::has_scheme;
use crate::model::{Change, ClientCapabilities, Fault, Level, Operation, Query};
use crate::record::Violation;
use crate::rpc::RpcError;
use crate::transport::ReplySink;

use super::call::in_flight::Call;
use super::call::request_state::Answers;
use super::redact;
use super::tool_error::ToolError;

/// Environment of a running call: its server and its connection.
pub(crate) trait CallHost {
    /// Returns whether the server shuts down.
    fn stopping(&self) -> bool;

    /// Notifies the server's clients of a change.
    ///
    /// # Errors
    /// The change was not announced.
    fn notify(&self, change: &Change) -> Result<(), Error>;

    /// The `clientInfo` of the session, if one is open.
    fn client_info(&self) -> Option<Json>;

    /// Creates the key for `requestState` if there is none yet.
    ///
    /// # Errors
    /// The system gave no random numbers.
    fn need_sealer(&self) -> Result<(), Fault>;

    /// Returns whether the client does not read, so that messages for it are queued.
    #[allow(dead_code)] // Used by the hub.
    fn busy(&self) -> bool;
}

/// A running call, as its handler sees it.
pub struct Context<'c> {
    pub(crate) doc: &'c Doc,
    pub(crate) query: &'c Query,
    pub(crate) era: &'static dyn ServerEra,
    pub(crate) sink: &'c dyn ReplySink,
    /// Knows when the client cancelled, the watchdog bit or the server stops.
    pub(crate) call: Option<&'c Call>,
    /// The same, decided by the clock: a handler that runs inline has nobody to set its flag.
    pub(crate) deadline: Option<Instant>,
    pub(crate) logging: bool,
    pub(crate) host: &'c dyn CallHost,
    pub(crate) answers: &'c mut Answers,
    pub(crate) asks: Vec<Ask>,
    /// Keys that were asked for in this run, each once.
    pub(crate) keys: Vec<String>,
    pub(crate) last_progress: f64,
}

impl Context<'_> {
    /// Whether the result is no longer wanted: the client cancelled, the deadline passed, the
    /// client is gone, or the server stops and its grace period is over. A handler that works long
    /// looks at this now and then and returns; what it returns then is dropped.
    pub fn cancelled(&self) -> bool {
        self.stopped()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || self.sink.closed()
    }

    /// Returns whether the server shuts down: the client closed the connection, a signal arrived or
    /// [`Handle::stop`](crate::Handle::stop) was called. The result is still wanted. The handler
    /// has the rest of the grace period (`TINYMCP_GRACE_MS`) to return one, perhaps a smaller one.
    pub fn stopping(&self) -> bool {
        self.host.stopping()
    }

    /// Waits for this long, or until the result is no longer wanted, and says so with an error that
    /// ends the handler: `ctx.wait(pause)?`.
    ///
    /// # Errors
    /// The call was cancelled. Nobody reads what a handler gives after that.
    pub fn wait(&self, time: Duration) -> Result<(), ToolError> {
        let then = Instant::now() + time.min(FOR_EVER);
        let until = self.deadline.map_or(then, |deadline| deadline.min(then));
        match self.call {
            Some(call) => call.wait_until(until),
            None => std::thread::sleep(until.saturating_duration_since(Instant::now())),
        }
        if self.cancelled() { Err(ToolError::new("The call was cancelled")) } else { Ok(()) }
    }

    /// Tells those who subscribed to this resource that its contents changed.
    ///
    /// # Errors
    /// [`Server::resource_updates`](crate::Server::resource_updates) was not called.
    pub fn resource_updated(&self, uri: &str) -> Result<(), ToolError> {
        Ok(self.host.notify(&Change::Updated(uri.to_owned()))?)
    }

    /// Reports a step: `done` of `total`, in units of the handler's choice, and what is going on.
    ///
    /// Goes to the client if it asked for progress of this call; values that do not grow are
    /// dropped (MCP basic/utilities/progress: progress must increase).
    pub fn progress(&mut self, done: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = self.query.progress else { return };
        if !done.is_finite() || done <= self.last_progress || self.stopped() {
            return;
        }
        self.last_progress = done;
        let total = total.filter(|t| t.is_finite());
        self.signal(Signal::Progress { token: self.at(token).raw(), done, total, message });
    }

    /// Logs an entry to the client, if it wants entries of this level.
    ///
    /// Values under names such as `password` or `token` are masked at any depth.
    ///
    /// # Errors
    /// Logging was not switched on with [`Server::logging`](crate::Server::logging): a client
    /// that was not told of log entries must not be sent any.
    pub fn log(&self, level: Level, logger: Option<&str>, data: impl Into<Json>) -> Result<(), ToolError> {
        if !self.logging {
            return Err(ToolError::new(
                "The server did not announce log entries: call Server::logging first",
            ));
        }
        if self.query.peer.log_level.is_some_and(|floor| level >= floor) && !self.stopped() {
            let data = redact::masked(data.into());
            self.signal(Signal::Log { level, logger, data: &data });
        }
        Ok(())
    }

    /// What the client can be asked.
    pub fn client_can(&self) -> ClientCapabilities {
        self.query.peer.capabilities
    }

    /// The client's name and version, as it gave them; for diagnostics only, anybody can claim
    /// anything.
    pub fn client_info(&self) -> Option<(String, String)> {
        let read = |info: Value<'_>| {
            let text = |name: &str| info.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            (text("name"), text("version"))
        };
        match self.query.client {
            Some(node) => Some(read(self.at(node))),
            None => self.host.client_info().map(|client| read(client.to_doc().root())),
        }
    }

    /// Who sends the request, as `HttpServer::bearer` found out (feature `http-server`); `None`
    /// where nobody asked.
    pub fn principal(&self) -> Option<&str> {
        self.sink.principal()
    }

    /// Lets go of the client, which comes back after this time for what it missed: a call that
    /// takes long need not hold a connection meanwhile. Works over HTTP for sessions of 2025-11-25,
    /// and does nothing elsewhere: other clients keep waiting.
    pub fn detach(&self, time: Duration) {
        self.sink.pause(time);
    }

    /// The `_meta` object of the request, with whatever the client put there.
    pub fn meta(&self) -> Option<Value<'_>> {
        self.at(self.query.params?).get("_meta")
    }

    /// Asks the user to fill in a form. `key` names the question within the call: two questions
    /// have two keys (`&format!("sure-{bed}")` in a loop).
    ///
    /// An answer says what the client sent, not that a person saw the question; a client may send
    /// one unasked, and the same one again.
    ///
    /// # Errors
    /// Pass it on with `?`: the client was asked, cannot be asked, or refused; or the form cannot
    /// be right. Declining is no error but an answer.
    pub fn elicit(&mut self, key: &str, form: Form) -> Result<FormResult, ToolError> {
        if let Some(fault) = form.fault() {
            return Err(ToolError::new(format!("The form {key:?} cannot be right: {fault}")));
        }
        let doc = self.ask(key, AskRequest::Form(form))?;
        let action = Action::read(doc.root()).map_err(ToolError::new)?;
        Ok(FormResult::new(action, doc))
    }

    /// Asks the user to visit a page, for what must not pass through the client: passwords, keys,
    /// payments. The answer says whether the user agreed to go, not what happened there.
    ///
    /// # Errors
    /// As with [`Context::elicit`].
    pub fn elicit_url(
        &mut self,
        key: &str,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<Action, ToolError> {
        let url = url.into();
        if !has_scheme(&url) || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(ToolError::new(format!("The address of {key:?} cannot be right: {url:?} is no URL")));
        }
        let doc = self.ask(key, AskRequest::Url { message: message.into(), url })?;
        Action::read(doc.root()).map_err(ToolError::new)
    }

    /// Asks the client's model for a message.
    ///
    /// # Errors
    /// As with [`Context::elicit`]; also when tool uses and results do not pair up, the `_meta` of
    /// a block or a tool is none that [`ToolOutput::meta`](crate::ToolOutput::meta) takes, or a
    /// number is none.
    pub fn sample(&mut self, key: &str, sampling: Sampling) -> Result<SampleResult, ToolError> {
        if let Some(why) = sampling.unpaired() {
            return Err(ToolError::new(why));
        }
        if let Some(flaw) = sampling.contents().find_map(meta::of_block) {
            return Err(ToolError::new(format!("The _meta of a block in {key:?} {flaw}")));
        }
        if let Some(flaw) = sampling.tools.iter().filter_map(|tool| tool.meta.as_ref()).find_map(meta::flaw) {
            return Err(ToolError::new(format!("The _meta of a tool in {key:?} {flaw}")));
        }
        let [a, b, c] = sampling.priorities;
        if [sampling.temperature, a, b, c].into_iter().flatten().any(|number| !number.is_finite()) {
            return Err(ToolError::new(format!("The temperature or a priority of {key:?} is no number")));
        }
        self.ask(key, AskRequest::Sample(Box::new(sampling))).map(SampleResult::new)
    }

    /// Asks for the folders the client lets the server work in.
    ///
    /// # Errors
    /// As with [`Context::elicit`].
    pub fn roots(&mut self, key: &str) -> Result<Vec<Root>, ToolError> {
        self.ask(key, AskRequest::Roots).map(|doc| Root::read_all(doc.root()))
    }

    /// The answer under this key, or the question on its way.
    pub(crate) fn ask(&mut self, key: &str, request: AskRequest) -> Result<Doc, ToolError> {
        if self.keys.iter().any(|known| known == key) {
            // One answer must never pass for two.
            return Err(ToolError::new(format!("The handler asks two questions under the key {key:?}")));
        }
        self.keys.push(key.to_owned());
        if let Some(at) = self.answers.iter().position(|(name, _)| name == key) {
            return match self.answers.get(at) {
                Some((_, Ok(doc))) => {
                    let doc = Doc::parse(doc.root().raw().as_bytes())?;
                    let fits = request.check(doc.root());
                    #[cfg(feature = "schema")]
                    let fits =
                        fits.and_then(|()| super::registry::validation::check_answer(&request, doc.root()));
                    fits.map_err(|why| {
                        ToolError::fault(Fault::InvalidParams(
                            format!("The answer to {key:?} does not fit: {why}").into(),
                        ))
                    })?;
                    Ok(doc)
                }
                Some((_, Err(RpcError { message, .. }))) => {
                    Err(ToolError::new(format!("The client refused {key:?}: {message}")))
                }
                None => Err(ToolError::asked()),
            };
        }
        let needed = request.needs();
        if !self.query.peer.capabilities.cover(needed) {
            return Err(ToolError::fault(Fault::MissingCapability(needed)));
        }
        if let Questions::InResult = self.era.questions() {
            self.host.need_sealer().map_err(ToolError::fault)?;
        }
        self.asks.push(Ask { key: key.to_owned(), request, write: era::question });
        Err(ToolError::asked())
    }

    /// In words for the model: what is wrong with a tool's arguments, where, and by which keyword.
    #[cold]
    #[inline(never)]
    pub(crate) fn bad_arguments(&self, violation: &Violation) -> ToolError {
        let tool = match self.query.operation {
            Operation::CallTool { name, .. } => self.at(name).as_str().unwrap_or_default(),
            _ => "",
        };
        ToolError::new(format!(
            "Invalid arguments for tool {tool}: {} (path: {:?}, keyword: {})",
            violation.message, violation.path, violation.keyword
        ))
    }

    /// Whether nothing more may be sent for this call.
    fn stopped(&self) -> bool {
        self.call.is_some_and(Call::is_cancelled)
    }

    fn at(&self, node: NodeId) -> Value<'_> {
        self.doc.at(node)
    }

    fn signal(&self, signal: Signal<'_>) {
        let mut w = Writer::new();
        self.era.signal(&mut w, self.query.peer.revision, signal);
        w.newline();
        self.sink.send(w.as_bytes());
    }
}
