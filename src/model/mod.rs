//! Protocol types that do not depend on an era: requests, results, descriptors, errors.
//!
//! Registry, dispatch and handlers use only these types. Each era decodes its messages to a
//! [`Query`] and encodes the outcome. No item here depends on a protocol date or a wire name of one
//! era.
//!
//! # Invariants
//! - A [`Query`] points into its document by [`NodeId`], so that document and query travel
//!   together to a worker without a copy.
//! - [`Fault`] lists all failures of a request; `era` maps them to codes.

pub(crate) mod catalog;
pub(crate) mod client_request;
pub(crate) mod content;
mod elicitation;
#[cfg(feature = "hub")]
pub(crate) mod proxied_result;
mod sampling;
#[cfg(feature = "client")]
pub(crate) mod task;
pub(crate) mod uri_template;

use std::borrow::Cow;

use crate::json::{Json, NodeId};

/// A revision of the protocol, as a slot number that only `era` interprets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revision(pub(crate) u8);

impl Revision {
    /// Number of revisions: the size of a table with one entry per revision.
    pub(crate) const COUNT: usize = 5;

    /// This revision's place in such a table.
    pub(crate) fn slot(self) -> usize {
        usize::from(self.0) % Revision::COUNT
    }
}

/// Capabilities that a client declared.
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

    /// The wire name.
    pub fn as_str(self) -> &'static str {
        Level::NAMES[self as usize].0
    }

    /// The level with this wire name.
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
    /// Lowest level of log entries to send; `None`: send none.
    pub log_level: Option<Level>,
}

/// State of a session: the peer and its subscriptions.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// Negotiated revision, declared capabilities, log floor.
    pub peer: Peer,
    /// The `name` and `version` that the client gives itself, as an object.
    pub client: Json,
    /// Resource URIs it subscribed to.
    pub subscriptions: Vec<String>,
    /// The client has sent `notifications/initialized`.
    pub ready: bool,
}

/// One request, decoded. Ids point into the document the query came with.
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
    pub answers: Option<NodeId>,
    /// The `requestState` of an earlier round, a string.
    pub state: Option<NodeId>,
    /// The client's description, where the request carries one.
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
    Open,
    /// Describes the server, without a session.
    Describe,
    /// Has an empty result.
    Ping,
    /// A page of tools.
    ListTools {
        /// Cursor of the page.
        cursor: Option<NodeId>,
    },
    /// A page of resources.
    ListResources {
        /// Cursor of the page.
        cursor: Option<NodeId>,
    },
    /// A page of resource templates.
    ListTemplates {
        /// Cursor of the page.
        cursor: Option<NodeId>,
    },
    /// A page of prompts.
    ListPrompts {
        /// Cursor of the page.
        cursor: Option<NodeId>,
    },
    /// Run a tool.
    CallTool {
        /// Its name, a string.
        name: NodeId,
        /// An object, when present.
        arguments: Option<NodeId>,
    },
    /// Read a resource.
    ReadResource {
        /// Its URI, a string.
        uri: NodeId,
    },
    /// Fill in a prompt.
    GetPrompt {
        /// Its name, a string.
        name: NodeId,
        /// An object of strings, when present.
        arguments: Option<NodeId>,
    },
    /// Offer values for an argument.
    Complete {
        /// Prompt name or URI template, a string.
        subject: NodeId,
        /// Prompt or template.
        kind: CompletionKind,
        /// The argument's name, a string.
        argument: NodeId,
        /// Text typed so far, a string.
        value: NodeId,
        /// Arguments that are settled already, an object of strings.
        context: Option<NodeId>,
    },
    /// Subscribes to updates of a resource for the rest of the session.
    Subscribe {
        /// Its URI, a string.
        uri: NodeId,
    },
    /// Ends such a subscription.
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
pub(crate) enum Note {
    /// The session is ready.
    Ready,
    /// Cancels a request; the node of its id.
    Cancelled(NodeId),
    /// A notification without effect on this server.
    Ignored,
}

/// Change of a catalog at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources or of templates.
    Resources,
    /// The contents of one resource, by URI.
    Updated(String),
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
}

impl Filter {
    /// Returns `true` if this change passes the filter.
    pub(crate) fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools,
            Change::Prompts => self.prompts,
            Change::Resources => self.resources,
            Change::Updated(uri) => self.uris.iter().any(|u| u == uri),
        }
    }
}

/// Capabilities of a server, derived from the registered items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// It has tools, or may get some while it runs.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHint {
    /// Milliseconds for which the response stays fresh; 0: stale at once.
    pub ttl_ms: u32,
    /// Other users may receive it; only for data that is the same for everybody.
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
    /// Unknown method, or no entry for it is registered.
    UnknownMethod(String),
    /// A parameter is missing or invalid.
    InvalidParams(Cow<'static, str>),
    /// No resource has this URI.
    ResourceNotFound(String),
    /// The client did not declare what the request needs.
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
        /// Outside -32768..=-32000, or one of JSON-RPC's own codes.
        code: i32,
        /// One sentence.
        message: String,
        /// More for a program.
        data: Option<Json>,
    },
}

/// Name, version and description of a server or client (`Implementation`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// For programs.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// For people.
    pub title: Option<String>,
    /// Description of the server.
    pub description: Option<String>,
    /// URL of its website.
    pub website: Option<String>,
    /// Pictures for hosts that show them.
    pub icons: Vec<catalog::Icon>,
    /// Instructions for the model.
    pub instructions: Option<String>,
}
