//! The client side of both eras as codecs: neutral orders in, frames out; answers and
//! notifications back into neutral words; and what the first answer says about the server's era.
//!
//! What it does: everything that names a method or a wire member on the client's side. What it
//! does not: send, wait, count, look at the clock, keep state.
//!
//! # Invariants
//! - Nothing modern is ever said to a server that was told apart as legacy: each era writes its
//!   own frames from the same [`OutgoingRequest`] (requirement NEG-19).
//! - An order is written anew, with a new id, for every round and every repetition (basic/patterns
//!   mrtr).

use std::borrow::Cow;

use crate::json::{Json, Kind, Value, Writer};
use crate::model::task::Task;
use crate::model::{
    CacheHint, Change, ClientCapabilities, Filter, Identity, Level, Revision, ServerCapabilities,
};
use crate::rpc::{Notification, RpcError};

use super::outgoing::OutgoingRequest;
use super::version::{self, V2025_11_25, V2026_07_28};
use super::{decode, encode, modern};

/// The client side of one era.
pub(crate) trait ClientEra: Sync {
    /// Whether a session is open for the length of the connection: then the server may ask and
    /// tell unasked, and levels and subscriptions are kept by it.
    fn sessions(&self) -> bool;

    /// Writes one request as a whole frame.
    fn request(&self, w: &mut Writer, to: &Envelope<'_>, order: &OutgoingRequest);

    /// Writes a message that wants no answer; writes nothing where the era has none for it.
    fn notice(&self, w: &mut Writer, notice: Notice);

    /// Reads a notification.
    fn told<'d>(&self, notification: &Notification<'d>) -> ServerEvent<'d>;

    /// Classifies the result of a request.
    ///
    /// # Errors
    /// It is none; says why.
    fn outcome<'d>(
        &self,
        result: Value<'d>,
        order: &OutgoingRequest,
    ) -> Result<Outcome<'d>, Cow<'static, str>>;

    /// Header names and values of an order, for transports that have headers.
    fn headers(&self, revision: Revision, order: Option<&OutgoingRequest>) -> Vec<(String, String)>;
}

/// Per-request metadata of an outgoing request.
pub(crate) struct Envelope<'a> {
    /// The request's id.
    pub id: u64,
    /// Identity of the client.
    pub card: &'a ClientCard,
    /// Requests progress notifications; the token is the id.
    pub progress: bool,
    /// Log entries are wanted from this level on, where the era says that with each request.
    pub log: Option<Level>,
    /// Answers to what an earlier round asked: members of an object, as text.
    pub answers: Option<&'a str>,
    /// The state an earlier round handed out, as JSON text, echoed byte for byte.
    pub state: Option<&'a str>,
    /// What can be asked about this request, where that is not what the card says.
    pub able: Option<ClientCapabilities>,
}

/// Description of the client, rendered once.
pub(crate) struct ClientCard {
    pub(super) identity: Identity,
    pub(super) capabilities: ClientCapabilities,
    /// The modern `_meta` members that every request carries.
    pub(super) meta: String,
    /// The same of requests whose answer may be a task.
    pub(super) meta_of_tasks: String,
}

impl ClientCard {
    /// Renders what every request says.
    pub(crate) fn new(identity: Identity, capabilities: ClientCapabilities) -> ClientCard {
        let meta = |extensions: &[&str]| modern::client_meta(&identity, capabilities, extensions);
        let (meta, meta_of_tasks) = (meta(&[]), meta(&[modern::TASKS]));
        ClientCard { meta, meta_of_tasks, identity, capabilities }
    }
}

/// A message of the client that wants no answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// The session may begin.
    Ready,
    /// The answer to this request is not wanted any more.
    Cancelled(u64),
    /// The roots are not what they were.
    Roots,
}

/// Notification from a server, decoded.
#[derive(Clone, Debug)]
pub(crate) enum ServerEvent<'d> {
    /// A step of the request of this id.
    Progress { id: u64, done: f64, total: Option<f64>, message: Option<&'d str> },
    /// A log entry.
    Log { level: Level, logger: Option<&'d str>, data: Value<'d> },
    /// Something changed; with the listen request it is told to, where it names one.
    Change { change: Change, listen: Option<u64> },
    /// Notifications that a listen request will receive.
    Acknowledged { listen: u64, filter: Filter },
    /// A request is called off: one of the server's own, or one of ours that listens.
    Cancelled(Value<'d>),
    /// Nothing that this client acts on.
    Ignored,
}

/// Decoded kind of a result.
#[derive(Clone, Debug)]
pub(crate) enum Outcome<'d> {
    /// The answer, and how long it stays fresh.
    Complete(CacheHint),
    /// The server asks back: questions by key, and the state to come back with.
    InputRequired { questions: Option<Value<'d>>, state: Option<Value<'d>> },
    /// The server goes on by itself.
    Task(Task),
}

/// Description of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Greeting {
    /// The revision of the connection from now on.
    pub revision: Revision,
    /// Its name, version and instructions; unverified words of a stranger.
    pub identity: Identity,
    /// Its capabilities.
    pub offer: ServerCapabilities,
    /// Its capabilities as they came; `null` where it did not describe itself.
    pub capabilities: Json,
}

impl Greeting {
    /// The capability that a method needs and that the server did not declare, by its name on the
    /// wire and in words (2025-11-25 basic/lifecycle, operation; requirement VER-07). A server that
    /// did not describe itself may have any.
    pub(crate) fn lacks(&self, method: &str) -> Option<(&'static str, &'static str)> {
        let offer = &self.offer;
        let (declared, name, words) = match method {
            "tools/list" | "tools/call" => (offer.tools, "tools", "tools"),
            "resources/list" | "resources/templates/list" | "resources/read" => {
                (offer.resources, "resources", "resources")
            }
            "resources/subscribe" | "resources/unsubscribe" => {
                (offer.subscribe, "resources.subscribe", "subscriptions of resources")
            }
            "prompts/list" | "prompts/get" => (offer.prompts, "prompts", "prompts"),
            "completion/complete" => (offer.completions, "completions", "completions"),
            "logging/setLevel" => (offer.logging, "logging", "log levels"),
            _ => return None,
        };
        (!declared && self.capabilities != Json::default()).then_some((name, words))
    }
}

/// What the answer to the first question says about the server.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It speaks the modern era; its description is missing where it refused to give one.
    Modern(Option<Box<Greeting>>),
    /// It speaks the older one: open a session, offering this revision.
    Legacy(Revision),
    /// It speaks nothing that this client speaks; names what it does.
    Neither(String),
}

/// The revision that a session is opened with.
pub(crate) const NEWEST_SESSION: Revision = V2025_11_25;
/// The revision of the era without sessions.
pub(crate) const MODERN: Revision = V2026_07_28;

/// The revision's date.
pub(crate) fn revision_name(revision: Revision) -> &'static str {
    version::name(revision)
}

/// What an answer to the probe says (basic/versioning; requirements NEG-08, NEG-09, VER-15). Only
/// the codes that the modern era defined prove it: older servers answer an unknown method with
/// whatever they like.
pub(crate) fn verdict(answer: Result<Value<'_>, &RpcError>) -> Verdict {
    match answer {
        Ok(result) => match result.get("supportedVersions").filter(|v| v.kind() == Kind::Array) {
            Some(versions) => match pick(versions) {
                Some(V2026_07_28) => Verdict::Modern(Some(Box::new(decode::discovered(result)))),
                other => other.map_or_else(|| Verdict::Neither(list(versions)), Verdict::Legacy),
            },
            None => Verdict::Legacy(NEWEST_SESSION),
        },
        Err(error) if error.code == modern::UNSUPPORTED_VERSION => {
            let data = error.data.as_ref().map(Json::to_doc).unwrap_or_default();
            let Some(supported) = data.root().get("supported") else {
                return Verdict::Neither(error.message.clone().into_owned());
            };
            match pick(supported) {
                Some(V2026_07_28) => Verdict::Modern(None),
                other => other.map_or_else(|| Verdict::Neither(list(supported)), Verdict::Legacy),
            }
        }
        Err(error) if [modern::header::MISMATCH, modern::MISSING_CAPABILITY].contains(&error.code) => {
            Verdict::Modern(None)
        }
        Err(_) => Verdict::Legacy(NEWEST_SESSION),
    }
}

/// Whether an error says that the headers did not match the message: the one that goes away when
/// the list of tools is read again (basic/transports/streamable-http, client behaviour).
pub(crate) fn is_header_mismatch(error: &RpcError) -> bool {
    error.code == modern::header::MISMATCH
}

/// The revision to speak out of those a server names: the modern one first, else the newest older
/// one.
fn pick(versions: Value<'_>) -> Option<Revision> {
    versions.items().filter_map(|v| version::parse(v.as_str()?)).max_by_key(|r| r.0)
}

fn list(versions: Value<'_>) -> String {
    let names: Vec<&str> = versions.items().filter_map(Value::as_str).take(8).collect();
    names.join(", ")
}

/// The session that an answer to the opening request begins.
///
/// # Errors
/// The revision is none that is spoken in sessions (basic/lifecycle, version negotiation).
pub(crate) fn opened(result: Value<'_>) -> Result<Greeting, String> {
    decode::opened(result)
}

/// Writes the answer to a request of the server. `id` is JSON text, echoed as it came.
pub(crate) fn write_answer(w: &mut Writer, id: &str, answer: Result<&Json, &RpcError>) {
    match answer {
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

/// Writes what both eras say alike, without `_meta`: the parameters as they were ordered, and what
/// a round of questions adds.
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

/// Writes the cancellation of a request of ours.
pub(super) fn cancelled(w: &mut Writer, id: u64) {
    notification(w, "notifications/cancelled", |w| {
        w.key("params").begin_object();
        w.key("requestId").u64(id);
        w.end_object();
    });
}

/// The text of a client's answer to a question, as `revision` has it.
pub(crate) fn reply_text(revision: Revision, reply: &crate::model::client_request::AskReply) -> Json {
    encode::ask_reply(version::features(revision), reply)
}

/// Reads a question of the server: a request in a session, a member of a result otherwise.
///
/// # Errors
/// Error for a server's request in a session: unknown method, or invalid parameters.
pub(crate) fn inquiry(
    method: &str,
    params: Option<Value<'_>>,
) -> Result<crate::model::client_request::AskRequest, RpcError> {
    decode::inquiry(method, params)
}
