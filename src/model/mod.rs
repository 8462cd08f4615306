//! Protocol types that do not depend on an era: requests, results, descriptors, errors.
//!
//! Registry, dispatch and handlers use only these types. Each era decodes its messages to a
//! [`Query`] and encodes the outcome. No item here depends on a protocol date or a wire name of one
//! era.
//!
//! # Invariants
//! - A [`Query`] refers to its document by [`NodeId`], so that both can be moved to a worker
//!   without a copy.
//! - [`Fault`] lists all failures of a request; `era` maps them to codes.

#[cfg(feature = "extensions")]
pub(crate) mod app;
pub(crate) mod catalog;
pub(crate) mod client_request;
pub(crate) mod content;
mod elicitation;
#[cfg(feature = "hub")]
pub(crate) mod proxied_result;
mod sampling;
#[cfg(feature = "skills")]
#[cfg_attr(not(unix), allow(dead_code))] // Servers offer skills on Unix only.
pub(crate) mod skill;
#[cfg(any(feature = "client", feature = "tasks"))]
pub(crate) mod task;
#[cfg(any(feature = "tasks", feature = "access-log"))]
pub(crate) mod timestamp;
mod tool_hints;
#[cfg(any(feature = "client", feature = "observe"))]
#[cfg_attr(not(feature = "observe"), allow(dead_code, unreachable_pub))] // The hub checks the form.
pub(crate) mod trace;
pub(crate) mod uri_template;

use std::borrow::Cow;

use crate::json::{Json, NodeId};

/// A revision of the protocol, as a slot number that only `era` interprets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revision(pub(crate) u8);

impl Revision {
    /// Number of revisions: the size of a table with one entry per revision.
    pub(crate) const COUNT: usize = 5;

    /// Returns the index of this revision in such a table.
    pub(crate) fn slot(self) -> usize {
        usize::from(self.0) % Revision::COUNT
    }
}

/// Capabilities that a client declared.
///
/// ```
/// use tinymcp::{Server, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.tool(Tool::new("reset"), |ctx, ()| {
///     // Some hosts cannot show forms.
///     if ctx.client_capabilities().form {
///         // ctx.elicit(…)?
///     }
///     Ok("the board restarts")
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Supports form elicitation.
    pub form: bool,
    /// Supports URL elicitation.
    pub url: bool,
    /// Supports sampling.
    pub sampling: bool,
    /// Supports sampling with tools.
    pub sampling_tools: bool,
    /// Supports roots.
    pub roots: bool,
}

/// Severity of a log entry (RFC 5424 names, as in MCP server/utilities/logging).
///
/// ```
/// use tinymcp::{Level, Server, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// server.logging();
/// server.tool(Tool::new("flash"), |ctx, ()| {
///     ctx.log(Level::Warning, Some("flash"), "block 17 is worn")?;
///     Ok("written")
/// })?;
/// assert!(Level::Warning > Level::Info);
/// # Ok::<(), tinymcp::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details for debugging.
    Debug,
    /// Ordinary progress.
    Info,
    /// Normal but significant.
    Notice,
    /// A possible problem.
    Warning,
    /// An operation failed.
    Error,
    /// A component failed.
    Critical,
    /// Action is needed at once.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl Level {
    const NAMES: [(&'static str, Level); 8] = [
        ("debug", Level::Debug),
        ("info", Level::Info),
        ("notice", Level::Notice),
        ("warning", Level::Warning),
        ("error", Level::Error),
        ("critical", Level::Critical),
        ("alert", Level::Alert),
        ("emergency", Level::Emergency),
    ];

    /// Returns the wire name.
    pub fn as_str(self) -> &'static str {
        Level::NAMES[self as usize].0
    }

    /// Returns the level with this wire name.
    pub fn parse(name: &str) -> Option<Level> {
        Level::NAMES.iter().find(|(n, _)| *n == name).map(|(_, level)| *level)
    }
}

/// Known properties of the sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The revision of the response.
    pub revision: Revision,
    /// Declared capabilities.
    pub capabilities: ClientCapabilities,
    /// Lowest level of log entries to send. With `None` no log entries are sent.
    pub log_level: Option<Level>,
}

/// State of a session: the peer and its subscriptions.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Negotiated revision, declared capabilities, log floor.
    pub peer: Peer,
    /// The `name` and `version` that the client has sent, as an object.
    pub client: Json,
    /// Settings of the client for extensions that the server has, an object by id.
    #[cfg(feature = "extensions")]
    pub extensions: Json,
    /// URIs of the resources that the client has subscribed to.
    pub subscriptions: Vec<String>,
    /// The client has sent `notifications/initialized`.
    pub ready: bool,
}

/// Decoded request. Its [`NodeId`]s belong to the document that it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// The operation.
    pub operation: Operation,
    /// The sender.
    pub peer: Peer,
    /// The request's id.
    pub id: NodeId,
    /// The progress token.
    pub progress: Option<NodeId>,
    /// Responses of the client to the requests of an earlier round, an object by key.
    pub responses: Option<NodeId>,
    /// The `requestState` of an earlier round, a string.
    pub state: Option<NodeId>,
    /// Description of the client, if the request contains one.
    pub client: Option<NodeId>,
    /// The request's parameters, an object.
    pub params: Option<NodeId>,
    /// The `_meta` of the request, in the era that reads it.
    pub meta: Option<NodeId>,
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Opens a session; the response describes the server.
    Initialize,
    /// Describes the server, without a session.
    Discover,
    /// Pings the server. The result is empty.
    Ping,
    /// Lists a page of tools.
    ListTools {
        /// Cursor of the page.
        cursor: Option<NodeId>,
    },
    /// Lists a page of resources.
    ListResources {
        /// Cursor of the page.
        cursor: Option<NodeId>,
    },
    /// Lists a page of resource templates.
    ListTemplates {
        /// Cursor of the page.
        cursor: Option<NodeId>,
    },
    /// Lists a page of prompts.
    ListPrompts {
        /// Cursor of the page.
        cursor: Option<NodeId>,
    },
    /// Calls a tool.
    CallTool {
        /// Its name, a string.
        name: NodeId,
        /// An object, when present.
        arguments: Option<NodeId>,
    },
    /// Reads a resource.
    ReadResource {
        /// Its URI, a string.
        uri: NodeId,
    },
    /// Gets a prompt.
    GetPrompt {
        /// Its name, a string.
        name: NodeId,
        /// An object of strings, when present.
        arguments: Option<NodeId>,
    },
    /// Completes an argument.
    Complete {
        /// Prompt name or URI template, a string.
        subject: NodeId,
        /// Prompt or template.
        kind: CompletionKind,
        /// The argument's name, a string.
        argument: NodeId,
        /// Text typed so far, a string.
        value: NodeId,
        /// Values of other arguments, an object of strings.
        context: Option<NodeId>,
    },
    /// Subscribes to updates of a resource for the rest of the session.
    Subscribe {
        /// Its URI, a string.
        uri: NodeId,
    },
    /// Ends the subscription to a resource.
    Unsubscribe {
        /// Its URI, a string.
        uri: NodeId,
    },
    /// Sets the log level for the rest of the session.
    SetLevel(Level),
    /// Subscribes to changes until the request is cancelled.
    Listen {
        /// The filter, an object.
        filter: NodeId,
    },
    /// A method that only an extension can define.
    Extension,
}

/// Subject of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionKind {
    /// An argument of a prompt.
    Prompt,
    /// A variable of a resource template.
    Template,
}

/// Decoded notification of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientNotification {
    /// The session is ready.
    Initialized,
    /// Cancels a request; the node of its id.
    Cancelled(NodeId),
    /// The roots of the client changed.
    RootsListChanged,
    /// A notification without effect on this server.
    Ignored,
}

/// Change of a catalog at run time.
///
/// `ClientBuilder::on_change` reports it, for example to read a list again. A server announces
/// changes with [`Server::tools_may_change`](crate::Server::tools_may_change) and makes them with a
/// [`Handle`](crate::Handle).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources or of templates.
    Resources,
    /// The contents of one resource, by URI.
    ResourceUpdated(String),
}

/// Filter of a listen request; in the acknowledgement, the accepted filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Changes of the list of tools.
    pub tools: bool,
    /// Changes of the list of prompts.
    pub prompts: bool,
    /// Changes of the list of resources.
    pub resources: bool,
    /// Updates of these URIs.
    pub uris: Vec<String>,
    /// States of the tasks with these ids.
    #[cfg(feature = "tasks")]
    pub tasks: Vec<String>,
    /// The URIs in `uris` whose updates are not sent.
    #[cfg(feature = "visibility")]
    pub silent: Vec<String>,
}

impl Filter {
    /// Returns `true` if this change passes the filter.
    pub(crate) fn wants(&self, change: &Change) -> bool {
        #[cfg(feature = "visibility")]
        if matches!(change, Change::ResourceUpdated(uri) if self.silent.contains(uri)) {
            return false;
        }
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::ResourceUpdated(uri) => self.uris.iter().any(|u| u == uri),
        }
    }
}

/// Capabilities of a server, derived from the registered items.
///
/// `ServerInfo::capabilities` has those of a connected server. A server does not set them:
/// registered entries and methods such as
/// [`Server::tools_may_change`](crate::Server::tools_may_change) do.
/// See [`Server`](crate::Server).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// It has tools, or may have tools later.
    pub tools: bool,
    /// It sends notifications about changes of the list of tools.
    pub tools_changed: bool,
    /// It has resources or templates.
    pub resources: bool,
    /// It sends notifications about changes of the list of resources.
    pub resources_changed: bool,
    /// Updates of single resources can be subscribed to.
    pub subscribe: bool,
    /// It has prompts.
    pub prompts: bool,
    /// It sends notifications about changes of the list of prompts.
    pub prompts_changed: bool,
    /// It completes arguments.
    pub completions: bool,
    /// Its handlers log.
    pub logging: bool,
}

/// Scope and duration for which a response may be cached (MCP 2026-07-28 server/utilities/caching).
///
/// ```
/// use tinymcp::{CacheHint, Server};
///
/// let mut server = Server::new("weather", "1.0.0");
/// // The lists are the same for all users and change once a day at most.
/// server.list_cache(CacheHint { ttl_ms: 3_600_000, public: true });
/// server.read_cache(CacheHint { ttl_ms: 60_000, public: false });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    /// Milliseconds for which the response may be cached; 0 means not at all.
    pub ttl_ms: u32,
    /// The cached response may be sent to other users. Set this only for data that is the same for
    /// all users.
    pub public: bool,
}

/// Failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Fault {
    /// The bytes are not JSON; describes the error and its position.
    Parse(String),
    /// The JSON is not a valid request.
    InvalidRequest(Cow<'static, str>),
    /// The method is unknown, or the server has no entry that it applies to.
    UnknownMethod(String),
    /// A parameter is missing or invalid.
    InvalidParams(Cow<'static, str>),
    /// No resource has this URI.
    ResourceNotFound(String),
    /// The client did not declare a capability that the request requires.
    MissingCapability(ClientCapabilities),
    /// The request names a revision that is not served.
    UnsupportedVersion(String),
    /// The `requestState` was not issued for this request, or has expired.
    ForeignState,
    /// Internal error. The message is a constant of the library, never a text of a handler or a
    /// panic.
    Internal(&'static str),
    /// A handler's own protocol error.
    Custom {
        /// Code outside -32768..=-32000, or one of the codes of JSON-RPC.
        code: i32,
        /// Message, one sentence.
        message: String,
        /// Additional data for programs.
        data: Option<Json>,
    },
}

/// Name, version and description of a server or client (`Implementation`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Name for programs.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Name for people.
    pub title: Option<String>,
    /// Description of the server.
    pub description: Option<String>,
    /// URL of its website.
    pub website: Option<String>,
    /// Icons.
    pub icons: Vec<catalog::Icon>,
    /// Instructions for the model.
    pub instructions: Option<String>,
}
