//! Servers: register tools, resources and prompts, then serve a connection.
//!
//! # Threads
//! One thread reads, answers whatever needs no handler and runs inline tools. Up to
//! [`Limits::workers`] workers, started on demand and ended when idle, run all other handlers,
//! encode their answers and write them. One thread sleeps until a deadline or a signal needs it.
//!
//! # Shutdown
//! At the end of input, on [`Handle::stop`] and on SIGTERM or SIGINT, no further request is read;
//! running calls finish within [`Limits::grace`] and are answered; what still runs then is flagged
//! as cancelled and answered with an error; subscriptions end; the output is closed.

mod call;
mod connection;
mod context;
mod dispatch;
mod handle;
mod handler;
#[cfg(feature = "http-server")]
mod http;
#[cfg(feature = "hub")]
mod proxy;
mod redact;
mod registry;
mod serve;
mod testing;
mod tool_error;

use std::sync::Arc;

use crate::era::Eras;
use crate::error::{Error, ErrorKind};
use crate::limits::Limits;
use crate::model::catalog::{Icon, Prompt, Resource, Template, Tool};
use crate::model::content::{Completion, PromptOutput, ReadOutput};
use crate::model::uri_template::{TemplateError, Variables};
use crate::model::{CacheHint, CompletionKind, Identity};
use crate::transport::Link;

pub(crate) use self::call::Handled;
use self::call::InlineFn;
#[cfg(any(test, fuzzing))]
pub(crate) use self::call::request_state::Sealer;
#[cfg(not(any(test, fuzzing)))]
use self::call::request_state::Sealer;
use self::handle::{
    add_tool, insert_completion, insert_prompt, insert_resource, insert_template, insert_tool,
};
pub(crate) use self::registry::ToolHandler;
#[cfg(feature = "schema")]
use self::registry::validation;
use self::serve::state::Shared;

pub use self::context::Context;
pub use self::handle::Handle;
pub use self::handler::{ToolArguments, ToolResult};
#[cfg(feature = "http-server")]
pub use self::http::{BoundServer, HttpServer, ResourceMetadata, TokenRefusal};
pub use self::registry::{Arguments, CompletionRequest, SchemaCheck, SchemaCompiler};
pub use self::tool_error::ToolError;
#[cfg(feature = "hub")]
pub(crate) use self::{
    call::deferred::{Caller, Deferred},
    proxy::questions,
    registry::catalog::{Delegate, Watched},
    registry::{Checks, ReadFn, Registry, ToolFn},
};

/// A server: what it offers, and how it is served.
///
/// Registration methods fail when something cannot be right (a name twice, a schema that is no
/// object), so mistakes show when the program starts, not when a client calls.
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
    on_shutdown: Vec<Box<dyn FnOnce() + Send>>,
}

/// An inline handler that may move to the thread that serves.
type InlineSend = dyn FnMut(&mut Context<'_>, crate::json::Value<'_>) -> Result<Handled, ToolError> + Send;

impl Server {
    /// A server of this name and version that supports the session protocol and the stateless
    /// protocol.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Server {
        Server::with_eras(name, version, Eras::ALL)
    }

    // legacy {
    /// A server for the session protocol only (2024-11-05 to 2025-11-25). The code of the
    /// stateless protocol is not linked.
    pub fn session_only(name: impl Into<String>, version: impl Into<String>) -> Server {
        Server::with_eras(name, version, Eras::LEGACY)
    }
    // legacy }

    /// A server for the stateless protocol only (2026-07-28). The code of the session protocol
    /// is not linked.
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
            on_shutdown: Vec::new(),
        }
    }

    /// A name for people.
    pub fn title(&mut self, title: impl Into<String>) -> &mut Server {
        self.identity.title = Some(title.into());
        self
    }

    /// Purpose of the server.
    pub fn description(&mut self, text: impl Into<String>) -> &mut Server {
        self.identity.description = Some(text.into());
        self
    }

    /// URL of a page about the server.
    pub fn website(&mut self, url: impl Into<String>) -> &mut Server {
        self.identity.website = Some(url.into());
        self
    }

    /// A picture.
    pub fn icon(&mut self, icon: Icon) -> &mut Server {
        self.identity.icons.push(icon);
        self
    }

    /// Instructions for models that use the server.
    pub fn instructions(&mut self, text: impl Into<String>) -> &mut Server {
        self.identity.instructions = Some(text.into());
        self
    }

    /// Caps and timeouts; without this they come from [`Limits::from_env`], with it the environment
    /// is not asked. A variable that is called like a limit and is none is told on standard error
    /// when serving starts. Those on schemas hold for tools registered afterwards.
    pub fn limits(&mut self, limits: Limits) -> &mut Server {
        #[cfg(feature = "schema")]
        if !self.own_compiler {
            self.shared.catalog.set_compiler(validation::standard(&limits));
        }
        self.limits = Some(limits);
        self
    }

    /// Announces log entries, which [`Context::log`] needs. A session gets those from `info` up
    /// until its client sets another level; without a session a request gets those that its
    /// `_meta` asks for.
    pub fn logging(&mut self) -> &mut Server {
        self.shared.catalog.announce(|offer| offer.logging = true);
        self
    }

    /// Announces that tools may come and go while the server runs.
    pub fn tools_may_change(&mut self) -> &mut Server {
        self.shared.catalog.announce(|offer| offer.tools_changed = true);
        self
    }

    /// Announces that prompts may come and go while the server runs.
    pub fn prompts_may_change(&mut self) -> &mut Server {
        self.shared.catalog.announce(|offer| offer.prompts_changed = true);
        self
    }

    /// Announces that resources and templates may come and go while the server runs.
    pub fn resources_may_change(&mut self) -> &mut Server {
        self.shared.catalog.announce(|offer| offer.resources_changed = true);
        self
    }

    /// Announces that clients can subscribe to updates of single resources, which
    /// [`Handle::resource_updated`] sends.
    pub fn resource_updates(&mut self) -> &mut Server {
        self.shared.catalog.announce(|offer| offer.subscribe = true);
        self
    }

    /// Announces that completions may come and go while the server runs. What completes something
    /// from the start, [`Server::complete_prompt`] or [`Server::complete_template`], announces it
    /// too.
    pub fn completions_may_change(&mut self) -> &mut Server {
        self.shared.catalog.announce(|offer| offer.completions = true);
        self
    }

    /// Time for which clients may cache lists and the greeting (2026-07-28
    /// server/utilities/caching).
    pub fn list_cache(&mut self, hint: CacheHint) -> &mut Server {
        self.list_cache = hint;
        self
    }

    /// Time for which clients may cache the contents of resources.
    pub fn read_cache(&mut self, hint: CacheHint) -> &mut Server {
        self.read_cache = hint;
        self
    }

    /// The key that seals `requestState`. Without it each process makes its own; several
    /// instances behind one address need a common one.
    pub fn seal_key(&mut self, key: [u8; 32]) -> &mut Server {
        self.sealer = Some(Sealer::new(key));
        self
    }

    /// Checks arguments and structured results against their schemas with this compiler's checks.
    /// Holds for tools registered afterwards.
    pub fn schema_compiler(&mut self, compiler: Arc<dyn SchemaCompiler>) -> &mut Server {
        self.own_compiler = true;
        self.shared.catalog.set_compiler(compiler);
        self
    }

    /// Describes tools as a host takes them that refuses more than it should: their input schemas
    /// are simplified copies for all clients that have no profile of their own. Calls are checked
    /// against the schemas that were registered. Profiles that require every member let a model
    /// send `null` for those it leaves out, which types made by [`record!`](crate::record!) take.
    #[cfg(feature = "lint")]
    pub fn schema_profile(&mut self, profile: &'static crate::lint::Profile) -> &mut Server {
        self.shared.catalog.change(|r| r.profiles.set(None, profile));
        self
    }

    /// The same for clients that call themselves so (`clientInfo.name`).
    #[cfg(feature = "lint")]
    pub fn client_schema_profile(
        &mut self,
        client: &str,
        profile: &'static crate::lint::Profile,
    ) -> &mut Server {
        self.shared.catalog.change(|r| r.profiles.set(Some(client), profile));
        self
    }

    /// Runs when serving ends, before the process does; SIGTERM included. Several run in the order
    /// in which they were registered, each also when one before it panicked; handlers that did not
    /// end in their grace period may still be running. Not run when serving cannot start, or when
    /// a later signal ends the process at once.
    pub fn on_shutdown(&mut self, run: impl FnOnce() + Send + 'static) -> &mut Server {
        self.on_shutdown.push(Box::new(run));
        self
    }

    /// Registers a tool whose handler runs on a worker.
    ///
    /// The handler takes its arguments as a [`record!`](crate::record!) type, whose schema the
    /// tool gets unless it has one, as [`Json`](crate::json::Json), or as `()` for none. It gives
    /// text, a record or JSON as structured result, `()`, or a [`ToolOutput`](crate::ToolOutput).
    ///
    /// # Errors
    /// [`crate::ErrorKind::Misuse`]: the name is taken. [`crate::ErrorKind::Invalid`]: the name or
    /// a schema cannot be right.
    pub fn tool<A, R>(
        &mut self,
        tool: Tool,
        handler: impl Fn(&mut Context<'_>, A) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error>
    where
        A: ToolArguments,
        R: ToolResult,
    {
        insert_tool(&self.shared.catalog, tool, handler)?;
        Ok(self)
    }

    /// Registers a tool whose handler runs on the thread that reads: no hand-over, so the fastest
    /// way to do something short. While it runs nothing else is read, also no cancellation.
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
        add_tool::<A, R>(&self.shared.catalog, tool, ToolHandler::Inline(place))?;
        self.inline.push(Box::new(handler::inline::<A, R>(handler)));
        Ok(self)
    }

    /// Registers a resource.
    ///
    /// # Errors
    /// As with [`Server::tool`]; also a URI without a scheme, or with characters that have to be
    /// percent-encoded.
    pub fn resource<R: Into<ReadOutput>>(
        &mut self,
        resource: Resource,
        read: impl Fn(&mut Context<'_>, &str) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        insert_resource(&self.shared.catalog, resource, read)?;
        Ok(self)
    }

    /// Registers a family of resources. The handler gets the URI and the template's variables,
    /// percent-decoded: a variable may contain `..` and `/`, so a handler that opens files must
    /// confine them. Matching is leftmost-greedy, as in
    /// [`UriTemplate::matches`](crate::UriTemplate::matches).
    ///
    /// # Errors
    /// As with [`Server::tool`]; [`crate::ErrorKind::Invalid`] if two variables touch, as in
    /// `{a}{b}` or `{name}{.ext}`: put a literal between them.
    pub fn template<R: Into<ReadOutput>>(
        &mut self,
        template: Template,
        read: impl Fn(&mut Context<'_>, &str, &Variables) -> Result<R, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        insert_template(&self.shared.catalog, template, read)?;
        Ok(self)
    }

    /// Registers a prompt. Missing required arguments are refused before the handler runs.
    ///
    /// # Errors
    /// As with [`Server::tool`].
    pub fn prompt(
        &mut self,
        prompt: Prompt,
        fill: impl Fn(&mut Context<'_>, &Arguments<'_>) -> Result<PromptOutput, ToolError> + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        insert_prompt(&self.shared.catalog, prompt, fill)?;
        Ok(self)
    }

    /// Completes an argument of a registered prompt.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Misuse`]: no such prompt or argument is registered.
    pub fn complete_prompt(
        &mut self,
        prompt: &str,
        argument: &str,
        complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        insert_completion(&self.shared.catalog, CompletionKind::Prompt, prompt, argument, complete)?;
        Ok(self.completions_may_change())
    }

    /// Completes a variable of a registered resource template.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Misuse`]: no such template or variable is registered.
    pub fn complete_template(
        &mut self,
        uri_template: &str,
        variable: &str,
        complete: impl Fn(&CompletionRequest<'_>) -> Completion + Send + Sync + 'static,
    ) -> Result<&mut Server, Error> {
        insert_completion(&self.shared.catalog, CompletionKind::Template, uri_template, variable, complete)?;
        Ok(self.completions_may_change())
    }

    /// A handle for other threads: to change what is offered, to tell of changes, to stop.
    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::downgrade(&self.shared) }
    }

    /// Lets inline handlers keep values that cannot move between threads.
    pub fn into_local(self) -> LocalServer {
        LocalServer { server: self, inline: Vec::new() }
    }

    /// Serves standard input and output until the input ends, SIGTERM or SIGINT comes, or
    /// [`Handle::stop`] is called.
    ///
    /// Takes both descriptors for itself: standard input then reads nothing, and what the program
    /// prints goes to standard error.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Io`]: the descriptors cannot be taken, reading failed, or writing failed
    /// for another reason than that the client is gone, as on a full disk; or the input ended and
    /// the client did not read all responses within the grace period.
    /// [`crate::ErrorKind::Invalid`]: a `TINYMCP_…` variable is wrong.
    pub fn serve_stdio(self) -> Result<(), Error> {
        serve::stdio(self)
    }

    /// Serves Streamable HTTP at this address until SIGTERM or SIGINT comes, or [`Handle::stop`] is
    /// called: `127.0.0.1:8080`. The endpoint is `/mcp`; clients of every revision use the same
    /// one.
    ///
    /// Only requests to this machine's own names are served; [`Server::http`] sets that, and
    /// tokens.
    ///
    /// # Errors
    /// As with [`HttpServer::bind`].
    #[cfg(feature = "http-server")]
    pub fn serve_http(self, address: &str) -> Result<(), Error> {
        self.http().serve(address)
    }

    /// Options for serving over HTTP.
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

    /// Serves one connection until its input ends or [`Handle::stop`] is called. Signals are left
    /// to the program.
    ///
    /// # Errors
    /// As with [`Server::serve_stdio`].
    pub fn serve(self, link: Link) -> Result<(), Error> {
        serve::connection(self, link)
    }
}

/// A server whose inline tools need not be [`Send`]: it serves on the thread that made it, and one
/// connection. Over HTTP many clients share the tools, and the thread that holds their connections
/// is the library's own, so handlers there are `Send`: what cannot be moved lives on a thread of
/// its own behind a channel, or is made in the first call by a `thread_local!`.
pub struct LocalServer {
    server: Server,
    /// Inline handlers after those of `server`.
    inline: Vec<Box<InlineFn>>,
}

impl LocalServer {
    /// Registers an inline tool that may keep `Rc`, `RefCell` and the like.
    ///
    /// # Errors
    /// As with [`Server::tool`].
    pub fn inline_tool<A, R>(
        &mut self,
        tool: Tool,
        handler: impl FnMut(&mut Context<'_>, A) -> Result<R, ToolError> + 'static,
    ) -> Result<&mut LocalServer, Error>
    where
        A: ToolArguments,
        R: ToolResult,
    {
        let place = self.server.inline.len() + self.inline.len();
        add_tool::<A, R>(&self.server.shared.catalog, tool, ToolHandler::Inline(place))?;
        self.inline.push(Box::new(handler::inline::<A, R>(handler)));
        Ok(self)
    }

    /// As [`Server::serve_stdio`], on the calling thread. Since a blocked read cannot be
    /// interrupted, SIGTERM ends the process itself, with status 0, after the answers are written
    /// and [`Server::on_shutdown`] has run.
    ///
    /// # Errors
    /// As with [`Server::serve_stdio`].
    pub fn serve_stdio(self) -> Result<(), Error> {
        serve::local_stdio(self)
    }

    /// As [`Server::serve`], on the calling thread. [`Handle::stop`] ends what the client sees at
    /// once, and this where the link is in memory. Over byte streams it returns only when the next
    /// message or the end of input comes: what blocks there is a `read` of the program's, which
    /// nothing else can interrupt. A program that holds the other half of a socket shuts it down.
    ///
    /// # Errors
    /// As with [`Server::serve_stdio`].
    pub fn serve(self, link: Link) -> Result<(), Error> {
        serve::local(self, link)
    }
}

impl From<TemplateError> for Error {
    fn from(source: TemplateError) -> Error {
        Error::new(ErrorKind::Invalid, "the URI template cannot be read").with_source(source)
    }
}
