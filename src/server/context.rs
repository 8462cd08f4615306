//! Context of a running handler: progress, log entries, cancellation, and requests to the client.
//!
//! A method that sends a request to the client returns the response if the call already has it.
//! Otherwise it returns a [`ToolError`], which the handler must return with `?`. The request is
//! then sent. When the responses have arrived, **the handler runs again from the start**, so put
//! side effects after these calls. Requests before the first `?` are sent together:
//!
//! ```
//! # use tinymcp::{Context, ToolError, Form};
//! # fn form() -> Form { Form::new("Who?") }
//! # fn handler(ctx: &mut Context<'_>) -> Result<(), ToolError> {
//! let name = ctx.elicit("name", form()); // returns `Err` until the client has responded
//! let roots = ctx.roots("roots");
//! let (name, roots) = (name?, roots?); // sends both requests
//! # Ok(())
//! # }
//! ```
//!
//! No thread blocks while the server waits for the client.

use std::time::{Duration, Instant};

use crate::era::{self, RequestMode, ServerEra, ServerNotification, meta};
use crate::error::Error;
use crate::json::{Doc, Json, NodeId, Value, Writer};
use crate::limits::MAX_DURATION;
use crate::model::client_request::{
    ElicitAction, ElicitResult, Form, InputRequest, KeyedRequest, Root, SampleResult, Sampling,
};
use crate::model::uri_template::has_scheme;
use crate::model::{Change, ClientCapabilities, Fault, Level, Operation, Query};
use crate::record::Violation;
use crate::rpc::RpcError;
use crate::transport::ReplySink;

use super::call::in_flight::Call;
use super::call::request_state::Responses;
use super::callers::CallerRules;
use super::provided::Provided;
use super::redact;
use super::tasks::ContextTask;
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

    /// Returns the `clientInfo` of the session, if one is open.
    fn client_info(&self) -> Option<Json>;

    /// Returns the settings with which the client declares an extension. `meta` is the `_meta` of
    /// the request, in the era whose requests declare extensions.
    #[cfg(feature = "extensions")]
    fn client_extension(&self, id: &str, meta: Option<Value<'_>>) -> Option<Json>;

    /// Returns the values that the server provides to its handlers.
    fn provided(&self) -> &Provided;

    /// Creates the key for `requestState` if it does not exist.
    ///
    /// # Errors
    /// The system provided no random numbers.
    fn ensure_sealer(&self) -> Result<(), Fault>;

    /// Returns whether the client does not read, so that messages for it are queued.
    #[allow(dead_code)] // Used by the hub.
    fn busy(&self) -> bool;

    /// Returns the functions and limits of the program for each caller.
    #[allow(dead_code)] // For the feature `observe`.
    fn callers(&self) -> &CallerRules;
}

/// A running call, as its handler sees it.
///
/// ```
/// use std::time::Duration;
/// use tinymcp::{Context, Server, Tool, ToolError};
///
/// tinymcp::record! {
///     struct Blink { times: u32 [1..=100] }
/// }
///
/// fn blink(ctx: &mut Context<'_>, input: Blink) -> Result<String, ToolError> {
///     for n in 1..=input.times {
///         ctx.progress(f64::from(n), Some(f64::from(input.times)), None);
///         // Ends the handler when the client cancels the call.
///         ctx.wait(Duration::from_millis(1))?;
///     }
///     Ok(format!("blinked {} times", input.times))
/// }
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tool(Tool::new("blink").description("Lets the lamp blink"), blink)?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
pub struct Context<'c> {
    pub(crate) doc: &'c Doc,
    pub(crate) query: &'c Query,
    pub(crate) era: &'static dyn ServerEra,
    pub(crate) sink: &'c dyn ReplySink,
    /// State of the call: set when the client, the watchdog or shutdown cancels it.
    pub(crate) call: Option<&'c Call>,
    /// Deadline of an inline handler, which the watchdog does not watch.
    pub(crate) deadline: Option<Instant>,
    pub(crate) logging: bool,
    pub(crate) host: &'c dyn CallHost,
    pub(crate) responses: &'c mut Responses,
    pub(crate) requests: Vec<KeyedRequest>,
    /// Keys of the requests to the client in this run.
    pub(crate) keys: Vec<String>,
    pub(crate) last_progress: f64,
    pub(crate) task: ContextTask<'c>,
}

impl Context<'_> {
    /// Returns whether the call is cancelled: the client cancelled it or disconnected, the deadline
    /// passed, or the grace period of shutdown is over. A handler that runs for a long time should
    /// check this regularly and return; its result is then dropped.
    pub fn cancelled(&self) -> bool {
        self.stopped()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || self.sink.closed()
    }

    /// Returns whether the server shuts down: the client closed the connection, a signal arrived or
    /// [`Handle::stop`](crate::Handle::stop) was called. The client still waits for the
    /// result. The handler has the rest of the grace period (`TINYMCP_GRACE_MS`) to return one.
    pub fn stopping(&self) -> bool {
        self.host.stopping()
    }

    /// Blocks for this long. Fails at once when the call is cancelled, so that `ctx.wait(pause)?`
    /// ends the handler.
    ///
    /// # Errors
    /// The call was cancelled. The handler's result is then dropped.
    pub fn wait(&self, time: Duration) -> Result<(), ToolError> {
        let then = Instant::now() + time.min(MAX_DURATION);
        let until = self.deadline.map_or(then, |deadline| deadline.min(then));
        match self.call {
            Some(call) => call.wait_until(until),
            None => std::thread::sleep(until.saturating_duration_since(Instant::now())),
        }
        if self.cancelled() { Err(ToolError::new("The call was cancelled")) } else { Ok(()) }
    }

    /// Notifies the subscribers of this resource that its contents changed.
    ///
    /// # Errors
    /// Resource updates were not announced with
    /// [`Server::resource_updates`](crate::Server::resource_updates).
    pub fn resource_updated(&self, uri: &str) -> Result<(), ToolError> {
        Ok(self.host.notify(&Change::ResourceUpdated(uri.to_owned()))?)
    }

    /// Reports progress: `done` of `total`, in units of the handler's choice, with a message.
    ///
    /// The notification is sent if the client requested progress of this call. Values that do not
    /// increase are dropped (MCP basic/utilities/progress). The progress of a task is part of its
    /// state instead.
    pub fn progress(&mut self, done: f64, total: Option<f64>, message: Option<&str>) {
        if self.task.progress(done, total, message) {
            return;
        }
        let Some(token) = self.query.progress else { return };
        if !done.is_finite() || done <= self.last_progress || self.stopped() {
            return;
        }
        self.last_progress = done;
        let total = total.filter(|t| t.is_finite());
        self.send_notification(ServerNotification::Progress {
            token: self.at(token).raw(),
            done,
            total,
            message,
        });
    }

    /// Sends a log entry to the client, if the client requested entries of this level.
    ///
    /// Values under names such as `password` or `token` are masked at any depth. In a task the
    /// entry is sent to the session of the call. Without a session, as in the stateless protocol,
    /// it is written to standard error.
    ///
    /// # Errors
    /// Log entries were not announced with [`Server::logging`](crate::Server::logging).
    pub fn log(&self, level: Level, logger: Option<&str>, data: impl Into<Json>) -> Result<(), ToolError> {
        if !self.logging {
            return Err(ToolError::new(
                "The server did not announce log entries: call Server::logging first",
            ));
        }
        if self.query.peer.log_level.is_some_and(|floor| level >= floor) && !self.stopped() {
            let data = redact::masked(data.into());
            self.send_notification(ServerNotification::Log { level, logger, data: &data });
        }
        Ok(())
    }

    /// Returns the client's capabilities.
    pub fn client_capabilities(&self) -> ClientCapabilities {
        self.query.peer.capabilities
    }

    /// Returns the client's name and version, as the client states them. They are not verified, so
    /// use them only for diagnostics.
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

    /// Returns the authenticated principal of the request, from `HttpServer::bearer` (feature
    /// `http-server`). `None` without authentication.
    pub fn principal(&self) -> Option<&str> {
        self.sink.principal()
    }

    /// Returns the owner of values that the server keeps for this caller: its principal, and its
    /// session over HTTP.
    pub(super) fn owner(&self) -> (Option<Box<str>>, Option<u64>) {
        (self.principal().map(Box::from), self.sink.session())
    }

    /// Returns a value of the program that the server provides to its handlers: see
    /// [`Server::provide`](crate::Server::provide). `None` if the server provides no value of this
    /// type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.host.provided().get()
    }

    /// Disconnects the client, which reconnects after this time and receives the events it missed.
    /// A long call then occupies no connection. Only sessions of 2025-11-25 over HTTP support this;
    /// otherwise this has no effect.
    pub fn detach(&self, time: Duration) {
        self.sink.pause(time);
    }

    /// Returns the `_meta` object of the request.
    pub fn meta(&self) -> Option<Value<'_>> {
        self.at(self.query.params?).get("_meta")
    }

    /// Asks the user to fill in a form. `key` identifies the request within the call; every request
    /// needs its own key (`&format!("sure-{bed}")` in a loop).
    ///
    /// The response is data from the client. It does not prove that a person saw the form: a client
    /// may send a response without a request, or repeat an earlier one.
    ///
    /// # Errors
    /// Return the error with `?`. It means that the request must first be sent, that the client
    /// lacks the capability or rejected the request, or that the form is invalid. A response that
    /// declines is not an error.
    pub fn elicit(&mut self, key: &str, form: Form) -> Result<ElicitResult, ToolError> {
        if let Some(fault) = form.fault() {
            return Err(ToolError::new(format!("Invalid form {key:?}: {fault}")));
        }
        let doc = self.request_input(key, InputRequest::Form(form))?;
        let action = ElicitAction::read(doc.root()).map_err(ToolError::new)?;
        Ok(ElicitResult::new(action, doc))
    }

    /// Asks the user to visit a page, for data that must not pass through the client: passwords,
    /// keys, payments. The response is the user's consent to open the page. It does not report what
    /// the user did there.
    ///
    /// # Errors
    /// As with [`Context::elicit`].
    pub fn elicit_url(
        &mut self,
        key: &str,
        message: impl Into<String>,
        url: impl Into<String>,
    ) -> Result<ElicitAction, ToolError> {
        let url = url.into();
        if !has_scheme(&url) || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(ToolError::new(format!("Invalid URL of {key:?}: {url:?}")));
        }
        let doc = self.request_input(key, InputRequest::Url { message: message.into(), url })?;
        ElicitAction::read(doc.root()).map_err(ToolError::new)
    }

    /// Asks the client's model for a message.
    ///
    /// # Errors
    /// As with [`Context::elicit`]; also if a tool use has no tool result or vice versa, if the
    /// `_meta` of a block or a tool is invalid (see [`ToolOutput::meta`](crate::ToolOutput::meta)),
    /// or if a number is not finite.
    pub fn sample(&mut self, key: &str, sampling: Sampling) -> Result<SampleResult, ToolError> {
        if let Some(why) = sampling.unpaired() {
            return Err(ToolError::new(why));
        }
        if let Some(flaw) = sampling.contents().find_map(meta::block_error) {
            return Err(ToolError::new(format!("Invalid request {key:?}: the _meta of a block {flaw}")));
        }
        if let Some(flaw) =
            sampling.tools.iter().filter_map(|tool| tool.meta.as_ref()).find_map(meta::first_error)
        {
            return Err(ToolError::new(format!("Invalid request {key:?}: the _meta of a tool {flaw}")));
        }
        let [a, b, c] = sampling.priorities;
        if [sampling.temperature, a, b, c].into_iter().flatten().any(|number| !number.is_finite()) {
            return Err(ToolError::new(format!("Invalid request {key:?}: a number is not finite")));
        }
        self.request_input(key, InputRequest::Sample(Box::new(sampling))).map(SampleResult::new)
    }

    /// Asks the client for its roots: the folders in which the server may work.
    ///
    /// # Errors
    /// As with [`Context::elicit`].
    pub fn roots(&mut self, key: &str) -> Result<Vec<Root>, ToolError> {
        self.request_input(key, InputRequest::Roots).map(|doc| Root::read_all(doc.root()))
    }

    /// Returns the response with this key, or records the request.
    pub(crate) fn request_input(&mut self, key: &str, request: InputRequest) -> Result<Doc, ToolError> {
        if self.keys.iter().any(|known| known == key) {
            // One response must not serve two requests.
            return Err(ToolError::new(format!("The handler sends two requests with the key {key:?}")));
        }
        self.keys.push(key.to_owned());
        if let Some(at) = self.responses.iter().position(|(name, _)| name == key) {
            return match self.responses.get(at) {
                Some((_, Ok(doc))) => {
                    let doc = Doc::parse(doc.root().raw().as_bytes())?;
                    let fits = request.check(doc.root());
                    #[cfg(feature = "schema")]
                    let fits = fits.and_then(|()| {
                        super::registry::validation::check_input_response(&request, doc.root())
                    });
                    fits.map_err(|why| {
                        ToolError::fault(Fault::InvalidParams(
                            format!("Invalid response to {key:?}: {why}").into(),
                        ))
                    })?;
                    Ok(doc)
                }
                Some((_, Err(RpcError { message, .. }))) => {
                    Err(ToolError::new(format!("The client rejected {key:?}: {message}")))
                }
                None => Err(ToolError::input_required()),
            };
        }
        let needed = request.needs();
        if !self.query.peer.capabilities.contains(needed) {
            return Err(ToolError::fault(Fault::MissingCapability(needed)));
        }
        if let RequestMode::InResult = self.era.request_mode() {
            self.host.ensure_sealer().map_err(ToolError::fault)?;
        }
        self.requests.push(KeyedRequest::new(key.to_owned(), request, era::write_request));
        Err(ToolError::input_required())
    }

    /// Error for invalid arguments: the violation, its path and its keyword, for the model.
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

    /// Returns whether the call is cancelled. Then no message may be sent for it.
    pub(super) fn stopped(&self) -> bool {
        self.call.is_some_and(Call::is_cancelled)
    }

    fn at(&self, node: NodeId) -> Value<'_> {
        self.doc.at(node)
    }

    fn send_notification(&self, notification: ServerNotification<'_>) {
        let mut w = Writer::new();
        self.era.notify(&mut w, self.query.peer.revision, notification);
        w.newline();
        self.sink.send(w.as_bytes());
    }
}
