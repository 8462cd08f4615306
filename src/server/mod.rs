//! Servers: register tools, resources and prompts, then serve a connection.
//!
//! # Threads
//! - The reader thread reads messages, responds to requests without a handler, and runs inline
//!   tools.
//! - Up to [`Limits::workers`] workers run all other handlers, and encode and write their
//!   responses. They start on demand and end when idle.
//! - The watchdog thread blocks until a deadline or a signal.
//!
//! # Shutdown
//! Starts at the end of input, on [`Handle::stop`], and on SIGTERM or SIGINT:
//! 1. No further request is read.
//! 2. Running calls may finish within [`Limits::grace`].
//! 3. Calls that still run are flagged as cancelled and get an error.
//! 4. Subscriptions end, and the output is closed.

mod call;
mod callers;
mod changes;
mod connection;
mod context;
mod dispatch;
#[cfg(feature = "extensions")]
mod extension;
#[cfg(not(feature = "extensions"))]
#[path = "extension/without.rs"]
mod extension;
mod handle;
mod handler;
#[cfg(feature = "http-server")]
mod http;
mod local;
#[cfg(feature = "miniserde")]
mod miniserde_tool;
mod overflow;
mod provided;
#[cfg(feature = "hub")]
mod proxy;
mod redact;
mod registry;
#[cfg(feature = "schemars")]
mod serde_tool;
mod serve;
#[cfg(feature = "tasks")]
mod tasks;
#[cfg(not(feature = "tasks"))]
#[path = "tasks/without.rs"]
mod tasks;
mod testing;
mod tool_error;
#[cfg(not(feature = "http-server"))]
mod without_http;

use std::sync::Arc;

use crate::era::Eras;
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::model::catalog::{Icon, Prompt, Resource, Template, Tool};
use crate::model::content::{Completion, PromptOutput, ReadOutput};
use crate::model::uri_template::{TemplateError, Variables};
use crate::model::{CacheHint, CompletionKind, Identity};
use crate::transport::tap::Observer;
use crate::transport::{Frame, Link};

pub(crate) use self::call::Output;
#[cfg(any(test, fuzzing))]
pub(crate) use self::call::request_state::Sealer;
#[cfg(not(any(test, fuzzing)))]
use self::call::request_state::Sealer;
use self::provided::Provided;
pub(crate) use self::registry::ToolHandler;
use self::registry::catalog::Edit;
#[cfg(feature = "schema")]
use self::registry::validation;
use self::serve::state::Shared;

#[cfg(any(feature = "observe", feature = "visibility", feature = "rate-limits"))]
pub use self::callers::*;
pub use self::changes::Changes;
pub use self::context::Context;
#[cfg(feature = "extensions")]
pub use self::extension::Notification;
pub use self::handle::Handle;
pub use self::handler::{ToolArguments, ToolResult};
#[cfg(feature = "http-server")]
pub use self::http::*;
pub use self::local::LocalServer;
#[cfg(feature = "miniserde")]
pub use self::miniserde_tool::Miniserde;
pub use self::overflow::Overflow;
pub use self::registry::{Arguments, CompletionRequest, SchemaCheck, SchemaCompiler};
#[cfg(feature = "tasks")]
pub use self::tasks::{FileTaskStore, MemoryTaskStore, StoredTask, TaskStore};
pub use self::tool_error::{ErrorContext, IntoToolError, ToolError};
#[cfg(feature = "hub")]
pub(crate) use self::{
    call::deferred::Deferred,
    proxy::{CallSender, Callers, OnlySession, input_requests, log_to_only_session},
    registry::catalog::{Delegate, OnInstructions, OnWatched},
    registry::{Checks, PromptFn, ReadFn, Registry, ToolFn},
    registry::{PromptEntry, ResourceEntry, TemplateEntry, ToolEntry},
};

/// A server: its tools, resources and prompts, and its settings.
///
/// Registration methods reject invalid entries, such as a duplicate name or a schema that is not an
/// object. So errors appear when the program starts, not when a client calls.
///
/// ```no_run
/// use tinymcp::{Prompt, PromptOutput, Resource, Server, Tool};
///
/// fn main() -> Result<(), tinymcp::Error> {
///     let mut server = Server::new("board", "1.0.0");
///     server.instructions("Read the status before you switch a pin.");
///     server.tool(Tool::new("reset").description("Restarts the board"), |_, ()| Ok("the board restarts"))?;
///     server.resource(Resource::new("board://status", "status"), |_, _uri| Ok("temperature: 41 °C"))?;
///     server.prompt(Prompt::new("diagnose"), |_, _| Ok(PromptOutput::new().user("Find the fault.")))?;
///     server.serve_stdio()
/// }
/// ```
pub struct Server {
    identity: Identity,
    shared: Arc<Shared>,
    limits: Option<Limits>,
    /// Checks use a schema compiler that the program provided.
    own_compiler: bool,
    eras: Eras,
    list_cache: CacheHint,
    read_cache: CacheHint,
    sealer: Option<Sealer>,
    inline: Vec<Box<InlineSend>>,
    observer: Option<Arc<dyn Observer>>,
    extensions: Option<extension::Extensions>,
    on_shutdown: Vec<Box<dyn FnOnce() + Send>>,
    provided: Provided,
    callers: callers::CallerRules,
}

/// An inline handler that may move to the thread that serves.
type InlineSend = dyn FnMut(&mut Context<'_>, crate::json::Value<'_>) -> Result<Output, ToolError> + Send;

impl Server {
    /// Creates a server of this name and version that supports the session protocol and the
    /// stateless protocol.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Server {
        Server::with_eras(name, version, Eras::ALL)
    }

    // legacy {
    /// Creates a server for the session protocol only (2024-11-05 to 2025-11-25). The code of the
    /// stateless protocol is not linked.
    pub fn session_only(name: impl Into<String>, version: impl Into<String>) -> Server {
        Server::with_eras(name, version, Eras::LEGACY)
    }
    // legacy }

    /// Creates a server for the stateless protocol only (2026-07-28). The code of the session
    /// protocol is not linked.
    pub fn stateless_only(name: impl Into<String>, version: impl Into<String>) -> Server {
        Server::with_eras(name, version, Eras::MODERN)
    }

    fn with_eras(name: impl Into<String>, version: impl Into<String>, eras: Eras) -> Server {
        Server {
            identity: Identity { name: name.into(), version: version.into(), ..Identity::default() },
            shared: Arc::default(),
            limits: None,
            own_compiler: false,
            eras,
            list_cache: CacheHint::default(),
            read_cache: CacheHint::default(),
            sealer: None,
            inline: Vec::new(),
            observer: None,
            extensions: None,
            on_shutdown: Vec::new(),
            provided: Provided::default(),
            callers: callers::CallerRules::default(),
        }
    }

    /// Sets the display name.
    pub fn title(&mut self, title: impl Into<String>) -> &mut Server {
        self.identity.title = Some(title.into());
        self
    }

    /// Sets the description of the server.
    pub fn description(&mut self, text: impl Into<String>) -> &mut Server {
        self.identity.description = Some(text.into());
        self
    }

    /// Sets the URL of a page about the server.
    pub fn website(&mut self, url: impl Into<String>) -> &mut Server {
        self.identity.website = Some(url.into());
        self
    }

    /// Adds an icon.
    pub fn icon(&mut self, icon: Icon) -> &mut Server {
        self.identity.icons.push(icon);
        self
    }

    /// Sets instructions for models that use the server.
    pub fn instructions(&mut self, text: impl Into<String>) -> &mut Server {
        self.identity.instructions = Some(text.into());
        self
    }

    /// Sets the limits, instead of those of the environment ([`Limits::from_env`]). When serving
    /// starts, unknown `TINYMCP_` variables are reported on standard error. Limits of schemas apply
    /// to tools that are registered afterwards.
    pub fn limits(&mut self, limits: Limits) -> &mut Server {
        #[cfg(feature = "schema")]
        if !self.own_compiler {
            self.shared.catalog.set_compiler(validation::standard(&limits));
        }
        self.limits = Some(limits);
        self
    }

    /// Declares log entries; [`Context::log`] requires this. A session gets entries from `info` up
    /// until its client sets another level. In the stateless protocol each request sets its level.
    pub fn logging(&mut self) -> &mut Server {
        self.shared.catalog.announce(|capabilities| capabilities.logging = true);
        self
    }

    /// Declares that tools may be added and removed while the server runs.
    pub fn tools_may_change(&mut self) -> &mut Server {
        self.shared.catalog.announce(|capabilities| capabilities.tools_changed = true);
        self
    }

    /// Declares that prompts may be added and removed while the server runs.
    pub fn prompts_may_change(&mut self) -> &mut Server {
        self.shared.catalog.announce(|capabilities| capabilities.prompts_changed = true);
        self
    }

    /// Declares that resources and templates may be added and removed while the server runs.
    pub fn resources_may_change(&mut self) -> &mut Server {
        self.shared.catalog.announce(|capabilities| capabilities.resources_changed = true);
        self
    }

    /// Declares that clients can subscribe to updates of resources, which
    /// [`Handle::resource_updated`] sends.
    pub fn resource_updates(&mut self) -> &mut Server {
        self.shared.catalog.announce(|capabilities| capabilities.subscribe = true);
        self
    }

    /// Declares that completions may be added while the server runs. Completions that are
    /// registered before serving ([`Server::complete_prompt`], [`Server::complete_template`]) need
    /// no declaration.
    pub fn completions_may_change(&mut self) -> &mut Server {
        self.shared.catalog.announce(|capabilities| capabilities.completions = true);
        self
    }

    /// Sets the time for which clients may cache lists and the description of the server
    /// (2026-07-28 server/utilities/caching).
    pub fn list_cache(&mut self, hint: CacheHint) -> &mut Server {
        self.list_cache = hint;
        self
    }

    /// Sets the time for which clients may cache the contents of resources.
    pub fn read_cache(&mut self, hint: CacheHint) -> &mut Server {
        self.read_cache = hint;
        self
    }

    /// Sets the key that signs `requestState`. By default each process creates its own key. Several
    /// instances behind one address need the same key.
    pub fn request_state_key(&mut self, key: [u8; 32]) -> &mut Server {
        self.sealer = Some(Sealer::new(key));
        self
    }

    /// Sets the compiler of the checks of arguments and structured results, for tools that are
    /// registered afterwards.
    pub fn schema_compiler(&mut self, compiler: Arc<dyn SchemaCompiler>) -> &mut Server {
        self.own_compiler = true;
        self.shared.catalog.set_compiler(compiler);
        self
    }

    /// Sends simplified input schemas, for hosts that reject valid schemas. Applies to clients
    /// without a profile of their own ([`Server::client_schema_profile`]). Calls are checked
    /// against the registered schemas. Some profiles require every member, and the model sends
    /// `null` for an omitted one; types of [`record!`](crate::record!) accept this.
    #[cfg(feature = "lint")]
    pub fn schema_profile(&mut self, profile: &'static crate::lint::Profile) -> &mut Server {
        self.shared.catalog.change(|r| r.profiles.set(None, profile));
        self
    }

    /// Sets the profile for clients with this name (`clientInfo.name`).
    #[cfg(feature = "lint")]
    pub fn client_schema_profile(
        &mut self,
        client: &str,
        profile: &'static crate::lint::Profile,
    ) -> &mut Server {
        self.shared.catalog.change(|r| r.profiles.set(Some(client), profile));
        self
    }

    /// Sets a function that gets each frame of the clients' connections, in both directions, for a
    /// log of the traffic. Frames may contain credentials.
    ///
    /// The function runs on the threads of the connections, so it must not block: it can copy the
    /// frame into a bounded queue. Over HTTP it gets the JSON-RPC messages, not the requests that
    /// carry them, and not events that a client fetches again.
    pub fn on_frame(&mut self, observe: impl Fn(&Frame<'_>) + Send + Sync + 'static) -> &mut Server {
        self.observer = Some(Arc::new(observe));
        self
    }

    /// Provides a value of the program to handlers, which get it by its type from [`Context::get`]:
    /// a connection to a database, the settings. A second value of a type replaces the first.
    ///
    /// ```
    /// # use tinymcp::{Server, Tool, ToolError};
    /// struct Names(Vec<String>);
    ///
    /// # fn main() -> Result<(), tinymcp::Error> {
    /// let mut server = Server::new("names", "1.0.0");
    /// server.provide(Names(vec!["Ada".to_owned()]));
    /// server.tool(Tool::new("count"), |ctx, ()| {
    ///     let names: &Names = ctx.get().ok_or_else(|| ToolError::new("no names"))?;
    ///     Ok(names.0.len().to_string())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn provide<T: Send + Sync + 'static>(&mut self, value: T) -> &mut Server {
        self.provided.insert(value);
        self
    }

    /// Adds a function that runs when serving ends, also after SIGTERM. Functions run in the order
    /// of registration, also if an earlier one panics. Handlers that did not end in the grace
    /// period may still run. The functions do not run if serving cannot start, or if a second
    /// signal ends the process at once.
    pub fn on_shutdown(&mut self, run: impl FnOnce() + Send + 'static) -> &mut Server {
        self.on_shutdown.push(Box::new(run));
        self
    }

    /// Registers a tool whose handler runs on a worker.
    ///
    /// The argument type is a [`record!`](crate::record!) type, [`Json`](crate::json::Json), `()`
    /// for no arguments, or `Serde<T>` with a type of serde and schemars (feature `schemars`). Its
    /// schema is the input schema of the tool, unless the tool has one. The result is text, a
    /// record, JSON or `Serde<T>` as structured result, [`Structured`](crate::Structured) around a
    /// list or a number, `()`, or a [`ToolOutput`](crate::ToolOutput). The page
    /// [types](crate::manual::types) compares them.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Misuse`]: the name is already registered. [`crate::ErrorKind::Invalid`]:
    /// the name or a schema is invalid.
    pub fn tool<A, R>(
        &mut self,
        tool: Tool,
        handler: impl Fn(&mut Context<'_>, A) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error>
    where
        A: ToolArguments,
        R: ToolResult,
    {
        let edit = changes::tool(&self.shared.catalog, tool, handler);
        self.register(edit)
    }

    /// Registers a tool whose handler runs on the reader thread. This is the fastest way for short
    /// handlers, because no other thread is involved. While the handler runs, no message is read,
    /// not even a cancellation.
    ///
    /// Over HTTP this thread serves all clients, so it never waits for a client. If an inline tool
    /// sends more progress and log entries than its client reads, beyond [`Limits::backlog_bytes`],
    /// the connection of the call is closed. Register a tool with much output by [`Server::tool`].
    ///
    /// # Errors
    /// As with [`Server::tool`].
    pub fn inline_tool<A, R>(
        &mut self,
        tool: Tool,
        handler: impl FnMut(&mut Context<'_>, A) -> Result<R, ToolError> + Send + 'static,
    ) -> Result<&mut Server, Error>
    where
        A: ToolArguments,
        R: ToolResult,
    {
        let place = self.inline.len();
        let edit = changes::tool_of::<A, R>(&self.shared.catalog, tool, ToolHandler::Inline(place));
        self.register(edit)?;
        self.inline.push(Box::new(handler::inline::<A, R>(handler)));
        Ok(self)
    }

    /// Registers a resource.
    ///
    /// # Errors
    /// As with [`Server::tool`]; also a URI without a scheme, or with characters that must be
    /// percent-encoded.
    pub fn resource<R: Into<ReadOutput>>(
        &mut self,
        resource: Resource,
        read: impl Fn(&mut Context<'_>, &str) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        self.register(changes::resource(resource, read))
    }

    /// Registers a resource template. The handler gets the URI and the template's variables,
    /// percent-decoded: a variable may contain `..` and `/`, so a handler that opens files must
    /// confine them. Matching is leftmost-greedy, as in
    /// [`UriTemplate::matches`](crate::UriTemplate::matches).
    ///
    /// # Errors
    /// As with [`Server::tool`]; [`crate::ErrorKind::Invalid`] if two variables are adjacent, as in
    /// `{a}{b}` or `{name}{.ext}`: put a literal between them.
    pub fn template<R: Into<ReadOutput>>(
        &mut self,
        template: Template,
        read: impl Fn(&mut Context<'_>, &str, &Variables) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        self.register(changes::template(template, read))
    }

    /// Registers a prompt. Missing required arguments are rejected before the handler runs.
    ///
    /// # Errors
    /// As with [`Server::tool`].
    pub fn prompt(
        &mut self,
        prompt: Prompt,
        fill: impl Fn(&mut Context<'_>, &Arguments<'_>) -> Result<PromptOutput, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        self.register(changes::prompt(prompt, fill))
    }

    /// Sets the completion of an argument of a registered prompt.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Misuse`]: no such prompt or argument is registered.
    pub fn complete_prompt(
        &mut self,
        prompt: &str,
        argument: &str,
        complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        let edit = changes::completion(CompletionKind::Prompt, prompt, argument, complete);
        Ok(self.register(Ok(edit))?.completions_may_change())
    }

    /// Sets the completion of a variable of a registered resource template.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Misuse`]: no such template or variable is registered.
    pub fn complete_template(
        &mut self,
        uri_template: &str,
        variable: &str,
        complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        let edit = changes::completion(CompletionKind::Template, uri_template, variable, complete);
        Ok(self.register(Ok(edit))?.completions_may_change())
    }

    fn register(&mut self, edit: Result<Edit, Error>) -> Result<&mut Server, Error> {
        self.shared.catalog.change(edit?)?;
        Ok(self)
    }

    /// Ends a chain of registrations with the server itself.
    ///
    /// ```no_run
    /// # use tinymcp::{Server, Tool};
    /// # fn main() -> Result<(), tinymcp::Error> {
    /// let hello = Tool::new("hello");
    /// Server::new("clock", "1.0.0").tool(hello, |_, ()| Ok("Hello"))?.finish().serve_stdio()
    /// # }
    /// ```
    #[must_use]
    pub fn finish(&mut self) -> Server {
        std::mem::replace(self, Server::with_eras("", "", self.eras))
    }

    /// Returns a handle for other threads, which changes entries, notifies clients, and stops
    /// serving.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::downgrade(&self.shared) }
    }

    /// Converts to a server whose inline handlers may own values that are not `Send`.
    pub fn into_local(self) -> LocalServer {
        LocalServer { server: self, inline: Vec::new() }
    }

    /// Serves standard input and output until the input ends, SIGTERM or SIGINT arrives, or
    /// [`Handle::stop`] is called.
    ///
    /// Takes ownership of both descriptors: for the rest of the program, standard input is empty
    /// and standard output is redirected to standard error.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Io`]: the descriptors cannot be taken, or reading failed, or writing
    /// failed although the client is connected, for example on a full disk, or the input ended and
    /// the client did not read all responses within the grace period.
    /// [`crate::ErrorKind::Invalid`]: a `TINYMCP_…` variable is invalid.
    pub fn serve_stdio(self) -> Result<(), Error> {
        serve::stdio(self)
    }

    /// Serves Streamable HTTP at this address, such as `127.0.0.1:8080`, until SIGTERM or SIGINT
    /// arrives or [`Handle::stop`] is called. The endpoint is `/mcp` for clients of every revision.
    ///
    /// By default only requests whose `Host` is `localhost`, `127.0.0.1` or `[::1]` are served. Use
    /// [`Server::http`] for other hosts and for tokens.
    ///
    /// # Errors
    /// As with [`HttpServer::bind`].
    #[cfg(feature = "http-server")]
    pub fn serve_http(self, address: &str) -> Result<(), Error> {
        self.http().serve(address)
    }

    /// Returns the options for serving over HTTP.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), tinymcp::Error> {
    /// # let server = tinymcp::Server::new("a", "1");
    /// server.http().allow_host("board.example").tokens([("s3cret", "alice")]).serve("0.0.0.0:8080")
    /// # }
    /// ```
    #[cfg(feature = "http-server")]
    pub fn http(self) -> HttpServer {
        HttpServer::new(self)
    }

    /// Serves one connection until its input ends or [`Handle::stop`] is called. Signals are not
    /// handled.
    ///
    /// # Errors
    /// As with [`Server::serve_stdio`].
    pub fn serve(self, link: Link) -> Result<(), Error> {
        serve::connection(self, link)
    }
}

impl From<TemplateError> for Error {
    fn from(source: TemplateError) -> Error {
        Error::new(ErrorKind::Invalid, "the URI template cannot be read").with_source(source)
    }
}
