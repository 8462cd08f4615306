//! The two eras of the protocol as codecs between wire messages and the types of `model`.
//!
//! *Legacy* (2024-11-05 to 2025-11-25) opens a session with a handshake and has state. *Modern*
//! (2026-07-28) is stateless: every request carries its metadata. The terms are those of the
//! specification (basic/versioning). Each era is a static that implements [`ServerEra`]. A program
//! that names only one of them links only that one.
//!
//! Decodes requests and notifications, encodes responses, notifications and requests to the client,
//! maps a [`Fault`] to a code, and detects the era of a message. No I/O, no clock, no state: the
//! server stores the state of a legacy session ([`Session`]).
//!
//! # Invariants
//! - Dates, method names and wire names of one era appear nowhere outside this folder.
//! - A message is classified by its `_meta` first and its method second: `initialize` with modern
//!   `_meta` is an unknown method (basic/versioning; requirement NEG-03).

#[cfg(feature = "extensions")]
pub(crate) mod apps;
#[cfg(feature = "http-server")]
pub(crate) mod card;
#[cfg(feature = "client")]
pub(crate) mod client;
#[cfg(feature = "client")]
pub(crate) mod decode;
mod encode;
#[cfg(feature = "extensions")]
pub(crate) mod extension;
#[cfg(not(feature = "extensions"))]
#[path = "extension/without.rs"]
pub(crate) mod extension;
#[cfg(feature = "http-server")]
pub(crate) mod http;
pub(crate) mod legacy; // legacy
pub(crate) mod meta;
pub(crate) mod modern;
#[cfg(feature = "client")]
pub(crate) mod outgoing;
mod params;
#[cfg(feature = "hub")]
pub(crate) mod proxied;
#[cfg(feature = "skills")]
#[cfg_attr(not(unix), allow(dead_code))] // Servers offer skills on Unix only.
pub(crate) mod skills;
#[cfg(feature = "tasks")]
pub(crate) mod task;
mod version;

use crate::json::{Json, Value, Writer};
use crate::model::catalog::{Prompt, Resource, Template, Tool};
use crate::model::client_request::KeyedRequest;
use crate::model::content::{Completion, PromptOutput, ReadOutput, ToolOutput};
use crate::model::{
    CacheHint, Change, ClientCapabilities, ClientNotification, Fault, Filter, Identity, Level, Peer, Query,
    Revision, ServerCapabilities, Session,
};
use crate::rpc::{Request, RpcError, code};

use self::extension::ServerMembers;

pub(crate) use encode::write_request;
pub(crate) use params::Params;

/// The server side of one era.
pub(crate) trait ServerEra: Sync {
    /// Reads a request of this era. A legacy request belongs to a session unless it opens one.
    ///
    /// # Errors
    /// The [`Fault`] for the response.
    fn request(
        &self,
        request: &Request<'_>,
        params: &Params<'_>,
        session: Option<Peer>,
    ) -> Result<Query, Fault>;

    /// Returns `true` for methods that need neither a session nor a version.
    fn is_sessionless(&self, method: &str) -> bool;

    /// Reads a notification of this era.
    fn notification(&self, method: &str, params: &Params<'_>) -> ClientNotification;

    /// Creates the session of a request that opens one. `None` for other requests, and in an era
    /// without sessions.
    fn open(&self, params: &Params<'_>, query: &Query) -> Option<Session>;

    /// Writes one response.
    fn reply(&self, w: &mut Writer, to: &ReplyTarget<'_>, reply: Reply<'_>) -> Encoded;

    /// Writes one notification.
    fn notify(&self, w: &mut Writer, revision: Revision, notification: ServerNotification<'_>);

    /// Transport of requests to the client in this era.
    fn request_mode(&self) -> RequestMode;

    /// Writes a request to the client with this id, for [`RequestMode::Requests`].
    fn write_request(&self, w: &mut Writer, revision: Revision, id: u64, input: &KeyedRequest);

    /// Writes the cancellation of such a request.
    fn cancel_request(&self, w: &mut Writer, id: u64);

    /// Reads the filter of a listen request.
    ///
    /// # Errors
    /// A member of the wrong type, or more URIs than `max`.
    fn filter(&self, filter: Value<'_>, max: usize) -> Result<Filter, Fault>;

    /// Returns `true` if an array is a batch in this session. Otherwise it is an invalid request.
    fn batches(&self, session: &Session) -> bool;

    /// Returns the HTTP rules of this era.
    #[cfg(feature = "http-server")]
    fn http(&self) -> &dyn http::HttpEra;
}

/// Transport of a handler's requests to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestMode {
    /// As requests of the server, while the call is parked.
    Requests,
    /// In the result of the call, which the client then sends again.
    InResult,
}

/// Parameters that differ when a client repeats a request with the requested input
/// (basic/patterns/mrtr).
pub(crate) const CHANGES_BETWEEN_ROUNDS: [&str; 3] = ["_meta", "inputResponses", "requestState"];

/// Request that a response belongs to.
pub(crate) struct ReplyTarget<'a> {
    /// The request's id, as JSON text.
    pub id: &'a str,
    /// The revision of the response.
    pub revision: Revision,
    /// Description of this server.
    pub server: &'a ServerIdentity,
}

/// Identity of the server, encoded once.
#[derive(Debug)]
pub(crate) struct ServerIdentity {
    identity: Identity,
    /// The modern `_meta` member that names the server in every result.
    server_info: String,
    /// Members of the capabilities that extensions add.
    extensions: ServerMembers,
}

impl ServerIdentity {
    /// Encodes the parts that every response contains.
    pub(crate) fn new(identity: Identity, extensions: ServerMembers) -> ServerIdentity {
        ServerIdentity { server_info: modern::server_info(&identity), identity, extensions }
    }
}

/// Facts about a written response, for transports that must not read it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// The code of its error; `None` for a result.
    pub error: Option<i32>,
}

impl Encoded {
    /// A result.
    pub(crate) const RESULT: Encoded = Encoded { error: None };
}

/// A response, before encoding.
pub(crate) enum Reply<'a> {
    /// An empty result.
    Empty,
    /// Identity and capabilities of the server. `instructions` replaces the server's own.
    ServerDescription { capabilities: ServerCapabilities, cache: CacheHint, instructions: Option<&'a str> },
    /// A page of descriptors, encoded for this revision.
    Page {
        list: List,
        entries: &'a mut dyn Iterator<Item = &'a str>,
        next: Option<&'a str>,
        cache: CacheHint,
    },
    /// A tool's result.
    Tool(&'a ToolOutput),
    /// A resource's contents.
    Read(&'a ReadOutput, CacheHint),
    /// A filled-in prompt.
    Prompt(&'a PromptOutput),
    /// Completion values.
    Completion(&'a Completion),
    /// Result that is already JSON, and the cache hint to use if the result has none.
    Raw(&'a dyn RawResult, CacheHint),
    /// Requests to the client, and the `requestState` to return.
    InputRequired { requests: &'a [KeyedRequest], state: &'a str },
    /// A listen request ended.
    ListenEnded,
    /// A failure.
    Fault(&'a Fault),
}

/// A result that is already JSON: of another server, or of a method of an extension. Behind a
/// trait, so that only a program with such results links their encoders.
pub(crate) trait RawResult: Send + Sync {
    /// Writes its members. Returns the members of its `_meta`, as text without braces.
    fn write(&self, w: &mut Writer, revision: Revision) -> &str;

    /// Returns the cache hint, for a kind of result that has one. It is `own` if another server
    /// sent no hint.
    fn cache(&self, own: CacheHint) -> Option<CacheHint>;

    /// Forbids that other users receive the result from a cache.
    #[cfg(feature = "visibility")]
    fn make_private(&mut self) {}

    /// Returns the type of the result, in the era whose results name it.
    #[cfg(feature = "tasks")]
    fn kind(&self) -> &'static str {
        "complete"
    }
}

/// A notification of the server. Tokens and ids are JSON text, echoed as received.
pub(crate) enum ServerNotification<'a> {
    /// Progress of a running call.
    Progress { token: &'a str, done: f64, total: Option<f64>, message: Option<&'a str> },
    /// A log entry.
    Log { level: Level, logger: Option<&'a str>, data: &'a Json },
    /// A change, with the id of the listen request if there is one.
    Change { change: &'a Change, listen: Option<&'a str> },
    /// Notifications that a listen request will receive.
    Acknowledged { filter: &'a Filter, listen: &'a str },
    /// A listen request ends.
    ListenCancelled { listen: &'a str },
}

/// List that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

/// A descriptor to encode.
#[derive(Clone, Copy)]
pub(crate) enum Descriptor<'a> {
    Tool(&'a Tool),
    Resource(&'a Resource),
    Template(&'a Template),
    Prompt(&'a Prompt),
}

impl Descriptor<'_> {
    /// Encodes the descriptor for a revision.
    #[cold]
    pub(crate) fn render(self, w: &mut Writer, revision: Revision) {
        let features = version::features(revision);
        match self {
            Descriptor::Tool(tool) => encode::tool(w, features, tool),
            Descriptor::Resource(resource) => encode::resource(w, features, resource),
            Descriptor::Template(template) => encode::template(w, features, template),
            Descriptor::Prompt(prompt) => encode::prompt(w, features, prompt),
        }
    }
}

/// The eras that a server supports.
#[derive(Clone, Copy)]
pub(crate) struct Eras {
    pub legacy: Option<&'static dyn ServerEra>,
    pub modern: Option<&'static dyn ServerEra>,
}

impl Eras {
    /// Both eras.
    pub(crate) const ALL: Eras = Eras {
        legacy: Some(&legacy::SERVER), // legacy
        ..Eras::MODERN
    };
    // legacy {
    /// Sessions only.
    pub(crate) const LEGACY: Eras = Eras { legacy: Some(&legacy::SERVER), modern: None };
    // legacy }
    /// Stateless requests only.
    pub(crate) const MODERN: Eras = Eras { legacy: None, modern: Some(&modern::SERVER) };

    /// Returns the era of a request (basic/versioning; requirement NEG-04).
    ///
    /// # Errors
    /// The request needs a session that is not open.
    pub(crate) fn of_request(
        &self,
        request: &Request<'_>,
        params: &Params<'_>,
        session_open: bool,
    ) -> Result<&'static dyn ServerEra, Fault> {
        match (self.modern, self.legacy) {
            (Some(modern), _) if params.names_version() => Ok(modern),
            (_, Some(legacy)) if session_open || legacy.is_sessionless(request.method) => Ok(legacy),
            (Some(_), legacy) => Err(modern::unversioned(legacy.is_some())),
            // Without the modern era, its `_meta` members have no meaning (2025-11-25 basic/index).
            (None, _) => Err(Fault::InvalidRequest("No session is open: send initialize first".into())),
        }
    }

    /// Returns the era of a notification, if any.
    pub(crate) fn of_notification(
        &self,
        params: &Params<'_>,
        session_open: bool,
    ) -> Option<&'static dyn ServerEra> {
        if params.names_version() && self.modern.is_some() {
            return self.modern;
        }
        // A modern client's cancellation carries no version: notifications have no required _meta.
        if session_open { self.legacy } else { self.modern }
    }
}

/// Writes the error for bytes that are not a message, whose era is unknown.
///
/// Without a readable id, the error has no id (schema from 2025-11-25 on). Sessions of older
/// revisions get `"id":null`, because their schema requires an id.
#[cold]
#[inline(never)]
pub(crate) fn fault_without_query(
    w: &mut Writer,
    id: Option<&str>,
    session: Option<&Session>,
    fault: &Fault,
) -> Encoded {
    let null_id = session.is_some_and(|s| version::features(s.peer.revision).null_error_id);
    let error = wire_error(fault, session.is_none());
    write_error(w, id, null_id, &error)
}

/// Resource not found, until 2025-11-25 (server/resources, error handling).
const LEGACY_RESOURCE_NOT_FOUND: i32 = -32002;

/// Maps a failure to its error on the wire. All errors of the server are created here.
#[cold]
pub(crate) fn wire_error(fault: &Fault, modern: bool) -> RpcError {
    match fault {
        Fault::Parse(message) => RpcError::new(code::PARSE, message.clone()),
        Fault::InvalidRequest(message) => RpcError::new(code::INVALID_REQUEST, message.clone()),
        Fault::UnknownMethod(method) => {
            RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
        }
        Fault::InvalidParams(message) => RpcError::new(code::INVALID_PARAMS, message.clone()),
        Fault::ResourceNotFound(uri) => RpcError {
            code: if modern { code::INVALID_PARAMS } else { LEGACY_RESOURCE_NOT_FOUND },
            message: "Resource not found".into(),
            data: Some(encode::object(|w| {
                w.key("uri").string(uri);
            })),
        },
        Fault::MissingCapability(needed) => RpcError {
            code: if modern { modern::MISSING_CAPABILITY } else { code::INVALID_PARAMS },
            message: format!("The client did not declare the capability {}", capability(*needed)).into(),
            data: Some(missing(*needed)),
        },
        Fault::UnsupportedVersion(requested) => RpcError {
            code: modern::UNSUPPORTED_VERSION,
            message: "Unsupported protocol version".into(),
            data: Some(modern::supported(Some(requested))),
        },
        Fault::ForeignState => {
            RpcError::new(code::INVALID_PARAMS, "requestState is not valid for this request")
        }
        Fault::Internal(message) => RpcError::new(code::INTERNAL, *message),
        Fault::Custom { code, message, data } => {
            RpcError { code: *code, message: message.clone().into(), data: data.clone() }
        }
    }
}

/// Returns the name of one of these capabilities, as clients declare it.
pub(crate) fn capability(needed: ClientCapabilities) -> &'static str {
    match needed {
        ClientCapabilities { url: true, .. } => "elicitation.url",
        ClientCapabilities { form: true, .. } => "elicitation",
        ClientCapabilities { sampling_tools: true, .. } => "sampling.tools",
        ClientCapabilities { sampling: true, .. } => "sampling",
        _ => "roots",
    }
}

/// `{"requiredCapabilities": …}` (2026-07-28 basic/index, error codes).
fn missing(needed: ClientCapabilities) -> Json {
    encode::object(|w| {
        w.key("requiredCapabilities").begin_object();
        if needed.form || needed.url {
            w.key("elicitation").begin_object();
            if needed.url {
                w.key("url").begin_object().end_object();
            }
            w.end_object();
        }
        if needed.sampling {
            w.key("sampling").begin_object();
            if needed.sampling_tools {
                w.key("tools").begin_object().end_object();
            }
            w.end_object();
        }
        if needed.roots {
            w.key("roots").begin_object().end_object();
        }
        w.end_object();
    })
}

#[cold]
fn write_error(w: &mut Writer, id: Option<&str>, null_id: bool, error: &RpcError) -> Encoded {
    w.begin_object().key("jsonrpc").string("2.0");
    match id {
        Some(id) => {
            w.key("id").raw(id);
        }
        None if null_id => {
            w.key("id").null();
        }
        None => {}
    }
    w.key("error").begin_object();
    w.key("code").i64(i64::from(error.code));
    w.key("message").string(&error.message);
    if let Some(data) = &error.data {
        w.key("data").json(data);
    }
    w.end_object().end_object();
    Encoded { error: Some(error.code) }
}
