//! Client side of both eras: encodes requests, decodes responses and notifications, detects the era
//! of a server.
//!
//! A codec without I/O, clock or state.
//!
//! # Invariants
//! - A legacy server never receives a modern member: each era writes its own frames from the same
//!   [`OutgoingRequest`] (requirement NEG-19).
//! - Every round and every retry writes the request again, with a new id (basic/patterns mrtr).

use std::borrow::Cow;

use crate::json::{Json, Kind, Value, Writer};
use crate::model::task::Task;
use crate::model::{
    CacheHint, Change, ClientCapabilities, Filter, Identity, Level, Revision, ServerCapabilities,
};
use crate::rpc::{Notification, RpcError};

use super::extension::ClientMembers;
use super::outgoing::OutgoingRequest;
use super::version::{self, V2025_11_25, V2026_07_28};
use super::{decode, encode, modern};

/// The client side of one era.
pub(crate) trait ClientEra: Sync {
    /// Returns `true` if a session is open for the length of the connection. The server may then
    /// send requests and notifications at any time, and stores log level and subscriptions.
    fn sessions(&self) -> bool;

    /// Writes one request as a whole frame.
    fn request(&self, w: &mut Writer, to: &Envelope<'_>, request: &OutgoingRequest);

    /// Writes a notification. Writes nothing if the era does not have it.
    fn notification(&self, w: &mut Writer, notification: OutgoingNotification);

    /// Reads a notification.
    fn decode_notification<'d>(&self, notification: &Notification<'d>) -> ServerEvent<'d>;

    /// Classifies the result of a request.
    ///
    /// # Errors
    /// The result is invalid; the text gives the reason.
    fn outcome<'d>(
        &self,
        result: Value<'d>,
        request: &OutgoingRequest,
    ) -> Result<Decoded<'d>, Cow<'static, str>>;

    /// Header names and values of a request, for transports that have headers.
    fn headers(&self, revision: Revision, request: Option<&OutgoingRequest>) -> Vec<(String, String)>;
}

/// Per-request metadata of an outgoing request.
pub(crate) struct Envelope<'a> {
    /// The request's id.
    pub id: u64,
    /// Identity of the client.
    pub client: &'a ClientIdentity,
    /// Requests progress notifications; the token is the id.
    pub progress: bool,
    /// Lowest level of log entries to send, in the era whose requests contain it.
    pub log: Option<Level>,
    /// Responses to the requests of an earlier round: members of an object, as text.
    pub responses: Option<&'a str>,
    /// The `requestState` of an earlier round, as JSON text, echoed byte for byte.
    pub state: Option<&'a str>,
    /// Capabilities for this request, if they differ from those of the client.
    pub capabilities: Option<ClientCapabilities>,
}

impl<'a> Envelope<'a> {
    /// Metadata of a request without options.
    pub(crate) fn new(id: u64, client: &'a ClientIdentity) -> Envelope<'a> {
        Envelope { id, client, progress: false, log: None, responses: None, state: None, capabilities: None }
    }
}

/// Identity and capabilities of the client, encoded once.
pub(crate) struct ClientIdentity {
    pub(super) identity: Identity,
    pub(super) capabilities: ClientCapabilities,
    pub(super) extensions: ClientMembers,
    /// The modern `_meta` members that every request carries.
    pub(super) meta: String,
    /// As `meta`, for requests whose result may be a task.
    pub(super) meta_of_tasks: String,
}

impl ClientIdentity {
    /// Encodes the members that every request carries.
    pub(crate) fn new(
        identity: Identity,
        capabilities: ClientCapabilities,
        extensions: ClientMembers,
    ) -> ClientIdentity {
        let meta = |members: &str| modern::client_meta(&identity, capabilities, members);
        let (meta, meta_of_tasks) = (meta(extensions.own()), meta(extensions.with_tasks()));
        ClientIdentity { meta, meta_of_tasks, identity, capabilities, extensions }
    }
}

/// A notification of the client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutgoingNotification {
    /// The session is ready.
    Initialized,
    /// Cancels the request with this id.
    Cancelled(u64),
    /// The roots have changed.
    RootsListChanged,
}

/// Notification from a server, decoded.
#[derive(Clone, Debug)]
pub(crate) enum ServerEvent<'d> {
    /// Progress of the request with this id.
    Progress { id: u64, done: f64, total: Option<f64>, message: Option<&'d str> },
    /// A log entry.
    Log { level: Level, logger: Option<&'d str>, data: Value<'d> },
    /// A change, with the id of the listen request if the notification names one.
    Change { change: Change, listen: Option<u64> },
    /// Notifications that a listen request will receive.
    Acknowledged { listen: u64, filter: Filter },
    /// Cancels a request of the server, or a listen request of this client.
    Cancelled(Value<'d>),
    /// A notification that only an extension can define.
    Extension { method: &'d str, params: Option<Value<'d>> },
    /// A notification without effect on this client.
    Ignored,
}

/// Kind of a decoded result.
#[derive(Clone, Debug)]
pub(crate) enum Decoded<'d> {
    /// The final result, and its cache hint.
    Complete(CacheHint),
    /// The server requests input: requests by key, and the `requestState` to return.
    InputRequired { requests: Option<Value<'d>>, state: Option<Value<'d>> },
    /// The server continues in the background.
    Task(Task),
}

/// Description of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerDescription {
    /// The revision of the connection from now on.
    pub revision: Revision,
    /// Its name, version and instructions, unverified.
    pub identity: Identity,
    /// Its capabilities.
    pub capabilities: ServerCapabilities,
    /// Its capabilities as received; `null` if it did not describe itself.
    pub capabilities_json: Json,
    /// The whole description as received, in the era without sessions.
    pub description: Option<Json>,
}

impl ServerDescription {
    /// Returns the capability that a method needs and the server did not declare, as its wire name
    /// and its description (2025-11-25 basic/lifecycle, operation; requirement VER-07). A server
    /// that did not describe itself may have any capability.
    pub(crate) fn lacks(&self, method: &str) -> Option<(&'static str, &'static str)> {
        let server = &self.capabilities;
        let (declared, name, description) = match method {
            "tools/list" | "tools/call" => (server.tools, "tools", "tools"),
            "resources/list" | "resources/templates/list" | "resources/read" => {
                (server.resources, "resources", "resources")
            }
            "resources/subscribe" | "resources/unsubscribe" => {
                (server.subscribe, "resources.subscribe", "subscriptions of resources")
            }
            "prompts/list" | "prompts/get" => (server.prompts, "prompts", "prompts"),
            "completion/complete" => (server.completions, "completions", "completions"),
            "logging/setLevel" => (server.logging, "logging", "log levels"),
            _ => return None,
        };
        (!declared && self.capabilities_json != Json::default()).then_some((name, description))
    }
}

/// Era of a server, from its response to the probe.
#[derive(Debug)]
pub(crate) enum DetectedEra {
    /// The modern era; with the description, unless the server refused to give one.
    Modern(Option<Box<ServerDescription>>),
    /// The legacy era: open a session with this revision.
    Legacy(Revision),
    /// There is no common revision. Lists the revisions of the server.
    Unsupported(String),
}

/// The revision that a session is opened with.
pub(crate) const NEWEST_SESSION: Revision = V2025_11_25;
/// The revision of the era without sessions.
pub(crate) const MODERN: Revision = V2026_07_28;

/// Returns the revision's date.
pub(crate) fn revision_name(revision: Revision) -> &'static str {
    version::name(revision)
}

/// Detects the era from the response to the probe (basic/versioning; requirements NEG-08, NEG-09,
/// VER-15). Only error codes of the modern era prove the modern era, because older servers may
/// respond to an unknown method with any error.
pub(crate) fn detect_era(response: Result<Value<'_>, &RpcError>) -> DetectedEra {
    match response {
        Ok(result) => match result.get("supportedVersions").filter(|v| v.kind() == Kind::Array) {
            Some(versions) => match pick(versions) {
                Some(V2026_07_28) => {
                    let description = Some(result.to_json());
                    DetectedEra::Modern(Some(Box::new(ServerDescription {
                        description,
                        ..decode::discover_result(result)
                    })))
                }
                other => other.map_or_else(|| DetectedEra::Unsupported(list(versions)), DetectedEra::Legacy),
            },
            None => DetectedEra::Legacy(NEWEST_SESSION),
        },
        Err(error) if error.code == modern::UNSUPPORTED_VERSION => {
            let data = error.data.as_ref().map(Json::to_doc).unwrap_or_default();
            let Some(supported) = data.root().get("supported") else {
                return DetectedEra::Unsupported(error.message.clone().into_owned());
            };
            match pick(supported) {
                Some(V2026_07_28) => DetectedEra::Modern(None),
                other => other.map_or_else(|| DetectedEra::Unsupported(list(supported)), DetectedEra::Legacy),
            }
        }
        Err(error) if [modern::header::MISMATCH, modern::MISSING_CAPABILITY].contains(&error.code) => {
            DetectedEra::Modern(None)
        }
        Err(_) => DetectedEra::Legacy(NEWEST_SESSION),
    }
}

/// Returns `true` for the error that headers do not match the message. Reading the list of tools
/// again resolves it (basic/transports/streamable-http, client behaviour).
pub(crate) fn is_header_mismatch(error: &RpcError) -> bool {
    error.code == modern::header::MISMATCH
}

/// Returns the newest revision of a server that this library supports.
fn pick(versions: Value<'_>) -> Option<Revision> {
    versions.items().filter_map(|v| version::parse(v.as_str()?)).max_by_key(|r| r.0)
}

fn list(versions: Value<'_>) -> String {
    let names: Vec<&str> = versions.items().filter_map(Value::as_str).take(8).collect();
    names.join(", ")
}

/// Reads the response to `initialize`.
///
/// # Errors
/// The revision has no sessions (basic/lifecycle, version negotiation).
pub(crate) fn initialize_result(result: Value<'_>) -> Result<ServerDescription, String> {
    decode::initialize_result(result)
}

/// Writes the response to a request of the server. `id` is JSON text, echoed as received.
pub(crate) fn write_response(w: &mut Writer, id: &str, response: Result<&Json, &RpcError>) {
    match response {
        Ok(result) => {
            w.begin_object().raw_members("\"jsonrpc\":\"2.0\"");
            w.key("id").raw(id);
            w.key("result").json(result);
            w.end_object();
        }
        Err(error) => _ = super::write_error(w, Some(id), false, error),
    }
    w.newline();
}

/// Writes the members of a request before its parameters, which both eras share.
pub(super) fn begin_request(w: &mut Writer, id: u64, method: &str) {
    w.begin_object().raw_members("\"jsonrpc\":\"2.0\"");
    w.key("id").u64(id);
    w.key("method").string(method);
}

/// Writes one notification without parameters beyond `fill`.
pub(super) fn notification(w: &mut Writer, method: &str, fill: impl FnOnce(&mut Writer)) {
    w.begin_object().raw_members("\"jsonrpc\":\"2.0\"");
    w.key("method").string(method);
    fill(w);
    w.end_object();
    w.newline();
}

/// Writes the cancellation of a request.
pub(super) fn cancelled(w: &mut Writer, id: u64) {
    notification(w, "notifications/cancelled", |w| {
        w.key("params").begin_object();
        w.key("requestId").u64(id);
        w.end_object();
    });
}

/// Encodes the client's response to a request of the server.
pub(crate) fn encode_input_response(
    revision: Revision,
    reply: &crate::model::client_request::InputResponse,
) -> Json {
    encode::input_response(version::features(revision), reply)
}

/// Reads a request of the server: a message in a session, otherwise a member of a result.
///
/// # Errors
/// The error response to a request in a session: unknown method, or invalid parameters.
pub(crate) fn read_request(
    method: &str,
    params: Option<Value<'_>>,
) -> Result<crate::model::client_request::InputRequest, RpcError> {
    decode::read_request(method, params)
}
