//! Extensions of the protocol: their declaration in capabilities, and the messages that only
//! extensions define.
//!
//! Source: SEP-2133 (identifiers, negotiation); MCP 2026-07-28 basic/index (error codes). Sessions
//! of every revision declare extensions in the same member as the stateless protocol.

use crate::json::{Doc, Json, Kind, Value, Writer};
use crate::model::{CacheHint, Fault, Revision};
use crate::rpc::code;

use super::modern::MISSING_CAPABILITY;
use super::version::V2026_07_28;
use super::{CHANGES_BETWEEN_ROUNDS, Params, RawResult, RequestMode, encode};

/// The extension for results that are tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Extensions with their settings, by id.
pub(crate) type Settings = [(String, Json)];

/// Checks the id and the settings of an extension that the program declares.
///
/// # Errors
/// Describes the first fault.
pub(crate) fn check(id: &str, settings: &Json) -> Result<(), String> {
    if !is_id(id) {
        return Err(format!(
            "invalid extension id {id:?}: must be vendor/name, with labels of A-Z a-z 0-9 - joined by dots, \
             and a name of A-Z a-z 0-9 - _ ."
        ));
    }
    match settings.to_doc().root().kind() {
        Kind::Object => Ok(()),
        _ => Err(format!("the settings of the extension {id:?} must be an object")),
    }
}

/// Returns `true` for a valid id. Ids follow the rules for keys of `_meta` (basic/index).
fn is_id(id: &str) -> bool {
    let label = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let name = |text: &str| {
        let edge = |c: char| c.is_ascii_alphanumeric();
        text.starts_with(edge)
            && text.ends_with(edge)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    id.split_once('/').is_some_and(|(vendor, rest)| vendor.split('.').all(label) && name(rest))
}

/// Methods and notifications that clients send in some revision.
const CLIENT_METHODS: [&str; 20] = [
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "logging/setLevel",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "notifications/elicitation/complete",
];

/// Returns `true` for a client's method or notification that the protocol itself defines.
pub(crate) fn is_core_method(method: &str) -> bool {
    CLIENT_METHODS.contains(&method)
}

/// The members that extensions add to the capabilities of a server, as text, by revision; see
/// [`Revision::slot`].
#[derive(Debug, Default)]
pub(crate) struct ServerMembers(Box<[String; Revision::COUNT]>);

impl ServerMembers {
    /// Returns the member `extensions` for each revision. Sessions do not enable tasks by the
    /// extension (requirement T26-20).
    pub(crate) fn new(declared: &Settings) -> ServerMembers {
        ServerMembers(Box::new(std::array::from_fn(|slot| {
            let has_tasks = Revision(slot as u8) == V2026_07_28;
            members(declared.iter().filter(|(id, _)| has_tasks || id != TASKS))
        })))
    }

    /// Returns the members in a revision.
    pub(super) fn of(&self, revision: Revision) -> &str {
        &self.0[revision.slot()]
    }

    /// Returns the members in a revision, to append to.
    #[cfg(feature = "tasks")]
    pub(super) fn of_mut(&mut self, revision: Revision) -> &mut String {
        &mut self.0[revision.slot()]
    }
}

/// The member `extensions` of a client's capabilities, as text.
#[cfg(feature = "client")]
pub(crate) struct ClientMembers {
    own: String,
    with_tasks: String,
}

#[cfg(feature = "client")]
impl ClientMembers {
    /// Writes the member for the extensions that the program declares.
    pub(crate) fn new(declared: &Settings) -> ClientMembers {
        let others = || declared.iter().filter(|(id, _)| id != TASKS);
        let tasks = (TASKS.to_owned(), Json::constant("{}"));
        ClientMembers { own: members(others()), with_tasks: members(others().chain([&tasks])) }
    }

    /// Returns the member for most requests.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    /// Returns the member for requests whose caller expects a task.
    pub(super) fn with_tasks(&self) -> &str {
        &self.with_tasks
    }
}

fn members<'a>(extensions: impl Iterator<Item = &'a (String, Json)>) -> String {
    let mut extensions = extensions.peekable();
    if extensions.peek().is_none() {
        return String::new();
    }
    let mut w = Writer::new();
    w.key("extensions").begin_object();
    for (id, settings) in extensions {
        w.key(id).json(settings);
    }
    w.end_object();
    // OK to default: only UTF-8 is ever written.
    String::from_utf8(w.into_bytes()).unwrap_or_default()
}

/// Returns the settings of an extension in the capabilities of a client. A value that is not an
/// object declares nothing.
pub(super) fn declared<'d>(capabilities: Value<'d>, id: &str) -> Option<Value<'d>> {
    capabilities.get("extensions")?.get(id).filter(|settings| settings.kind() == Kind::Object)
}

/// Returns the settings with which the `_meta` of a request declares an extension.
pub(crate) fn of_request(meta: Value<'_>, id: &str) -> Option<Json> {
    declared(meta.get("io.modelcontextprotocol/clientCapabilities")?, id).map(Value::to_json)
}

/// Returns the settings with which a client that opens a session declares these extensions, as an
/// object by id. Other extensions are dropped, so the server's own declarations bound the memory.
pub(crate) fn of_session(params: &Params<'_>, extensions: &Settings) -> Json {
    let capabilities = params.get("capabilities");
    encode::object(|w| {
        for (id, _) in extensions {
            if let Some(settings) = capabilities.and_then(|all| declared(all, id)) {
                w.key(id).value(settings);
            }
        }
    })
}

/// Returns the error for a client that did not declare an extension.
pub(crate) fn missing(id: &str, mode: RequestMode) -> Fault {
    Fault::Custom {
        code: if mode == RequestMode::InResult { MISSING_CAPABILITY } else { code::INVALID_PARAMS },
        message: format!("The client did not declare the extension {id}"),
        data: Some(encode::object(|w| {
            w.key("requiredCapabilities").begin_object();
            w.key("extensions").begin_object();
            w.key(id).begin_object().end_object();
            w.end_object().end_object();
        })),
    }
}

/// Returns the parameters of a method, without those that the protocol itself defines for every
/// request.
pub(crate) fn arguments(params: Option<Value<'_>>) -> Doc {
    let arguments = encode::object(|w| {
        let members = params.into_iter().flat_map(Value::members);
        for (name, value) in members.filter(|(name, _)| !CHANGES_BETWEEN_ROUNDS.contains(name)) {
            w.key(name).value(value);
        }
    });
    arguments.to_doc()
}

/// Writes a notification.
pub(crate) fn notification(w: &mut Writer, method: &str, params: &Json) {
    encode::begin_notification(w, method);
    w.raw_members(encode::members(params));
    encode::end(w);
    w.newline();
}

/// Result of a method of an extension.
pub(crate) struct MethodResult {
    members: String,
    meta: String,
}

impl MethodResult {
    /// Splits an object into its members and the members of its `_meta`.
    ///
    /// # Errors
    /// The result is not an object, or its `_meta` is invalid.
    pub(crate) fn new(result: &Json) -> Result<MethodResult, Fault> {
        let doc = result.to_doc();
        if doc.root().kind() != Kind::Object {
            return Err(Fault::Internal("The result of the method must be an object"));
        }
        if let Some(flaw) = doc.root().get("_meta").and_then(|meta| super::meta::first_error(&meta.to_json()))
        {
            let message = format!("The result's _meta {flaw}");
            return Err(Fault::Custom { code: code::INTERNAL, message, data: None });
        }
        let (mut members, mut meta) = (Writer::new(), Writer::new());
        for (name, value) in doc.root().members() {
            match name {
                "_meta" => value.members().for_each(|(name, value)| _ = meta.key(name).value(value)),
                // The response envelope writes this member.
                "resultType" => {}
                _ => _ = members.key(name).value(value),
            }
        }
        let text = |w: Writer| String::from_utf8(w.into_bytes()).unwrap_or_default();
        Ok(MethodResult { members: text(members), meta: text(meta) })
    }
}

impl RawResult for MethodResult {
    fn write(&self, w: &mut Writer, _: Revision) -> &str {
        w.raw_members(&self.members);
        &self.meta
    }

    fn cache(&self, _: CacheHint) -> Option<CacheHint> {
        None
    }
}

/// Returns the error for parameters that the method does not accept.
pub(crate) fn bad_arguments(message: &str, path: &str) -> Fault {
    let at = if path.is_empty() { String::new() } else { format!(" (path: {path:?})") };
    Fault::InvalidParams(format!("Invalid params: {message}{at}").into())
}
