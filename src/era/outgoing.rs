//! Outgoing requests of a client: method and parameters, the part that both eras share.

use std::borrow::Cow;

use crate::json::{Json, Value, Writer};
use crate::model::{Filter, Level, Revision};

use super::List;
use super::version::{self, features};

/// Kind of an outgoing request, with its arguments.
pub(crate) enum RequestKind<'a> {
    /// Opens a session with this revision.
    Open(Revision, &'a super::client::ClientIdentity),
    /// Requests the description of the server.
    Describe,
    /// Ping.
    Ping,
    /// A page of descriptors.
    List(List, Option<&'a str>),
    /// Calls a tool; the arguments are an object or null.
    CallTool(&'a str, &'a Json),
    /// Reads a resource.
    Read(&'a str),
    /// Gets a prompt.
    Prompt(&'a str, &'a [(&'a str, &'a str)]),
    /// Completes an argument.
    Complete(&'a CompleteParams<'a>),
    /// Subscribes to updates of this resource.
    Subscribe(&'a str),
    /// Ends such a subscription.
    Unsubscribe(&'a str),
    /// Sets the log level.
    SetLevel(Level),
    /// Subscribes to changes until this is cancelled.
    Listen(&'a Filter),
    /// Any method; the parameters are an object or null.
    Other(&'a str, &'a Json),
}

/// Subject of a completion request.
pub(crate) struct CompleteParams<'a> {
    /// A prompt's name or a template.
    pub subject: Subject<'a>,
    /// The argument's name and the text typed so far.
    pub argument: (&'a str, &'a str),
    /// Arguments with known values.
    pub settled: &'a [(&'a str, &'a str)],
    /// Revision of the connection.
    pub revision: Revision,
}

/// Prompt or template that an argument belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    Prompt(&'a str),
    Template(&'a str),
}

/// A request without its envelope, which is written for each attempt.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingRequest {
    /// The method.
    pub method: Cow<'static, str>,
    /// The members of its parameters, as text, without `_meta`.
    pub params: String,
    /// The members of `_meta` that the caller gave, as text.
    pub meta: String,
    /// Name of a tool or prompt, or URI of a resource; transports may route by it.
    pub subject: Option<String>,
    /// Cache key of the response, if it may be cached.
    pub cache_key: Option<CacheKey>,
    /// The server may request input before it responds (basic/patterns/mrtr).
    pub may_ask: bool,
    /// The server may, or in a session must, respond with a task.
    pub task: bool,
}

/// Subject of a cached response; a change of it makes the response stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CacheKey {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The lists of resources and of templates.
    Resources,
    /// The contents of one resource.
    Contents(String),
}

impl RequestKind<'_> {
    fn method(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            RequestKind::Open(..) => "initialize",
            RequestKind::Describe => "server/discover",
            RequestKind::Ping => "ping",
            RequestKind::List(List::Tools, _) => "tools/list",
            RequestKind::List(List::Resources, _) => "resources/list",
            RequestKind::List(List::Templates, _) => "resources/templates/list",
            RequestKind::List(List::Prompts, _) => "prompts/list",
            RequestKind::CallTool(..) => "tools/call",
            RequestKind::Read(_) => "resources/read",
            RequestKind::Prompt(..) => "prompts/get",
            RequestKind::Complete(_) => "completion/complete",
            RequestKind::Subscribe(_) => "resources/subscribe",
            RequestKind::Unsubscribe(_) => "resources/unsubscribe",
            RequestKind::SetLevel(_) => "logging/setLevel",
            RequestKind::Listen(_) => "subscriptions/listen",
            RequestKind::Other(method, _) => return Cow::Owned((*method).to_owned()),
        })
    }

    fn subject(&self) -> Option<&str> {
        match self {
            RequestKind::CallTool(name, _) | RequestKind::Prompt(name, _) => Some(name),
            RequestKind::Read(uri) => Some(uri),
            _ => None,
        }
    }

    fn cache_key(&self) -> Option<CacheKey> {
        Some(match self {
            RequestKind::List(List::Tools, _) => CacheKey::Tools,
            RequestKind::List(List::Resources | List::Templates, _) => CacheKey::Resources,
            RequestKind::List(List::Prompts, _) => CacheKey::Prompts,
            RequestKind::Read(uri) => CacheKey::Contents((*uri).to_owned()),
            _ => return None,
        })
    }

    /// Writes the parameters. Moves `_meta` and the subject of the caller's parameters to
    /// `request`.
    fn write(&self, w: &mut Writer, request: &mut OutgoingRequest) -> Result<(), Cow<'static, str>> {
        match self {
            RequestKind::Open(revision, client) => open(w, *revision, client),
            RequestKind::Describe | RequestKind::Ping | RequestKind::List(_, None) => {}
            // An empty cursor is valid and is sent (server/utilities/pagination).
            RequestKind::List(_, Some(cursor)) => _ = w.key("cursor").string(cursor),
            RequestKind::CallTool(name, arguments) => {
                w.key("name").string(name);
                match first_byte(arguments) {
                    b'{' => _ = w.key("arguments").json(arguments),
                    b'n' => {}
                    _ => return Err("arguments must be an object".into()),
                }
            }
            RequestKind::Read(uri) | RequestKind::Subscribe(uri) | RequestKind::Unsubscribe(uri) => {
                w.key("uri").string(uri);
            }
            RequestKind::Prompt(name, arguments) => {
                w.key("name").string(name);
                strings(w, "arguments", arguments);
            }
            RequestKind::Complete(completing) => complete(w, completing),
            RequestKind::SetLevel(level) => _ = w.key("level").string(level.as_str()),
            RequestKind::Listen(filter) => super::modern::write_filter(w.key("notifications"), filter),
            RequestKind::Other(_, params) => match first_byte(params) {
                b'{' => other(w, params, request)?,
                b'n' => {}
                _ => return Err("params must be an object".into()),
            },
        }
        Ok(())
    }
}

/// Returns the parameters of a request about a task, with responses to its requests.
pub(crate) fn task_params(id: &str, responses: Option<&Json>) -> Json {
    let mut w = Writer::new();
    w.begin_object().key("taskId").string(id);
    if let Some(responses) = responses {
        w.key("inputResponses").json(responses);
    }
    w.end_object();
    w.into_json()
}

impl OutgoingRequest {
    /// Encodes a request.
    ///
    /// # Errors
    /// The parameters are not an object, or have a duplicate name or an invalid `_meta`.
    pub(crate) fn new(kind: &RequestKind<'_>) -> Result<OutgoingRequest, Cow<'static, str>> {
        let method = kind.method();
        let mut request = OutgoingRequest {
            params: String::new(),
            meta: String::new(),
            subject: kind.subject().map(str::to_owned),
            cache_key: kind.cache_key(),
            may_ask: matches!(&*method, "tools/call" | "resources/read" | "prompts/get"),
            // A client that sends these methods must declare the extension (2026-07-28, tasks).
            task: method.starts_with("tasks/"),
            method,
        };
        // Writes only members; the envelope writes the braces.
        let mut w = Writer::with_capacity(128);
        kind.write(&mut w, &mut request)?;
        request.params = text(w);
        Ok(request)
    }

    /// Returns `true` if a repetition has no further effect on any server. True for the methods of
    /// the protocol that run no handler with effects (2026-07-28 basic/transports/streamable-http:
    /// a request whose stream broke is sent again).
    pub(crate) fn may_be_repeated(&self) -> bool {
        const METHODS: [&str; 12] = [
            "server/discover",
            "ping",
            "tools/list",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "resources/subscribe",
            "resources/unsubscribe",
            "logging/setLevel",
        ];
        METHODS.contains(&&*self.method)
    }

    /// Returns `true` for the handshake of a session.
    pub(crate) fn opens_session(&self) -> bool {
        self.method == "initialize"
    }

    /// Returns `true` for a listen request, which stays open for notifications.
    pub(crate) fn is_listen(&self) -> bool {
        self.method == "subscriptions/listen"
    }

    /// Returns `true` for a tool call.
    pub(crate) fn is_tool_call(&self) -> bool {
        self.method == "tools/call"
    }
}

/// Converts the written bytes to a string.
fn text(w: Writer) -> String {
    // OK to default: only UTF-8 is ever written.
    String::from_utf8(w.into_bytes()).unwrap_or_default()
}

/// Returns the first byte of a value, which determines its kind.
fn first_byte(json: &Json) -> u8 {
    json.as_str().trim_start().bytes().next().unwrap_or_default()
}

/// Writes the parameters of the caller. `_meta` is split off, because the envelope adds to it.
fn other(w: &mut Writer, params: &Json, request: &mut OutgoingRequest) -> Result<(), String> {
    let doc = super::meta::params(params)?;
    for (name, value) in doc.root().members() {
        if name == "_meta" {
            let mut inner = Writer::new();
            for (name, value) in value.members() {
                inner.key(name).value(value);
            }
            request.meta = text(inner);
            continue;
        }
        if request.subject.is_none() && matches!(name, "name" | "uri" | "taskId") {
            request.subject = value.as_str().map(str::to_owned);
        }
        w.key(name).value(value);
    }
    Ok(())
}

fn open(w: &mut Writer, revision: Revision, client: &super::client::ClientIdentity) {
    w.key("protocolVersion").string(version::name(revision));
    w.key("capabilities");
    super::encode::client_capabilities(w, features(revision), client.capabilities, client.extensions.own());
    w.key("clientInfo");
    super::encode::implementation(w, features(revision), &client.identity);
}

fn strings(w: &mut Writer, name: &str, pairs: &[(&str, &str)]) {
    if pairs.is_empty() {
        return;
    }
    w.key(name).begin_object();
    for (name, value) in pairs {
        w.key(name).string(value);
    }
    w.end_object();
}

fn complete(w: &mut Writer, completing: &CompleteParams<'_>) {
    w.key("ref").begin_object();
    match completing.subject {
        Subject::Prompt(name) => {
            w.key("type").string("ref/prompt");
            w.key("name").string(name);
        }
        Subject::Template(uri) => {
            w.key("type").string("ref/resource");
            w.key("uri").string(uri);
        }
    }
    w.end_object();
    let (name, value) = completing.argument;
    w.key("argument").begin_object();
    w.key("name").string(name);
    w.key("value").string(value);
    w.end_object();
    if !completing.settled.is_empty() && features(completing.revision).titles {
        w.key("context").begin_object();
        strings(w, "arguments", completing.settled);
        w.end_object();
    }
}

/// Reads the cursor of the next page; an empty one is valid.
pub(crate) fn next_cursor(result: Value<'_>) -> Option<String> {
    result.get("nextCursor").and_then(Value::as_str).map(str::to_owned)
}
