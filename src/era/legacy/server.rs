//! Server side of the legacy era.
//!
//! Source: MCP 2025-11-25 basic/lifecycle, basic/utilities, server/*. The revision table lists the
//! features that older revisions lack.
//!
//! # Invariants
//! - The response to `initialize` never has a modern date: a request with an unknown or newer date
//!   gets 2025-11-25.
//! - Members of `_meta` of the modern era have no effect.

use crate::json::{Json, Kind, Value, Writer};
use crate::model::client_request::KeyedRequest;
use crate::model::{
    ClientCapabilities, ClientNotification, Fault, Filter, Level, Operation, Peer, Query, Revision, Session,
};
use crate::rpc::Request;

#[cfg(feature = "http-server")]
use super::super::http::HttpEra;
use super::super::version::{self, V2025_11_25, V2026_07_28, features};
use super::super::{
    Encoded, Params, Reply, ReplyTarget, RequestMode, ServerEra, ServerNotification, encode, params,
    wire_error, write_error,
};

/// The legacy era for servers.
pub(crate) static SERVER: LegacyServer = LegacyServer;

pub(crate) struct LegacyServer;

/// Maximum number of characters of a client's name or version that a session stores.
const MAX_NAME_CHARS: usize = 200;

/// Returns name and version of a client. The rest of its description may contain images of any
/// size.
fn name_of(client: Value<'_>) -> Json {
    encode::object(|w| {
        for member in ["name", "version"] {
            if let Some(text) = client.get(member).and_then(Value::as_str) {
                let end = text.char_indices().nth(MAX_NAME_CHARS).map_or(text.len(), |(at, _)| at);
                w.key(member).string(text.get(..end).unwrap_or_default());
            }
        }
    })
}

impl ServerEra for LegacyServer {
    fn request(
        &self,
        request: &Request<'_>,
        params: &Params<'_>,
        session: Option<Peer>,
    ) -> Result<Query, Fault> {
        let operation = match request.method {
            "initialize" if session.is_some() => {
                return Err(Fault::InvalidRequest("The session is already open".into()));
            }
            "initialize" => Operation::Initialize,
            "ping" => Operation::Ping,
            "logging/setLevel" => Operation::SetLevel(params::level(params.get("level"), "level")?),
            "resources/subscribe" => Operation::Subscribe { uri: params::string(params.uri, "uri")?.id() },
            "resources/unsubscribe" => {
                Operation::Unsubscribe { uri: params::string(params.uri, "uri")?.id() }
            }
            method => params::operation(method, params)?,
        };
        let peer = match (session, operation) {
            (Some(peer), _) => peer,
            (None, Operation::Initialize) => opening_peer(params)?,
            (None, _) => {
                Peer { revision: V2025_11_25, capabilities: ClientCapabilities::default(), log_level: None }
            }
        };
        Ok(Query {
            operation,
            peer,
            id: request.id.id(),
            progress: params.progress_token()?,
            responses: None,
            state: None,
            client: None,
            params: params.object.map(Value::id),
            meta: None,
        })
    }

    fn is_sessionless(&self, method: &str) -> bool {
        matches!(method, "initialize" | "ping")
    }

    fn notification(&self, method: &str, params: &Params<'_>) -> ClientNotification {
        match method {
            "notifications/initialized" => ClientNotification::Initialized,
            "notifications/cancelled" => params
                .get("requestId")
                .map_or(ClientNotification::Ignored, |id| ClientNotification::Cancelled(id.id())),
            "notifications/roots/list_changed" => ClientNotification::RootsListChanged,
            _ => ClientNotification::Ignored,
        }
    }

    fn open(&self, params: &Params<'_>, query: &Query) -> Option<Session> {
        (query.operation == Operation::Initialize).then(|| Session {
            peer: query.peer,
            client: params.get("clientInfo").map(name_of).unwrap_or_default(),
            #[cfg(feature = "extensions")]
            extensions: Json::default(),
            subscriptions: Vec::new(),
            ready: false,
        })
    }

    fn reply(&self, w: &mut Writer, to: &ReplyTarget<'_>, reply: Reply<'_>) -> Encoded {
        if let Reply::Fault(fault) = reply {
            return write_error(w, Some(to.id), false, &wire_error(fault, false));
        }
        encode::begin_result(w, to.id);
        match reply {
            Reply::ServerDescription { capabilities, instructions, .. } => {
                let features = features(to.revision);
                w.key("protocolVersion").string(version::name(to.revision));
                w.key("capabilities");
                encode::server_capabilities(w, features, capabilities, to.server.extensions.of(to.revision));
                w.key("serverInfo");
                encode::implementation(w, features, &to.server.identity);
                if let Some(instructions) = instructions.or(to.server.identity.instructions.as_deref()) {
                    w.key("instructions").string(instructions);
                }
            }
            reply => {
                let meta = encode::reply_members(w, to.revision, reply);
                if !meta.is_empty() {
                    w.key("_meta").begin_object().raw_members(meta).end_object();
                }
            }
        }
        encode::end(w);
        Encoded::RESULT
    }

    fn notify(&self, w: &mut Writer, revision: Revision, notification: ServerNotification<'_>) {
        encode::notification_members(w, revision, &notification);
        encode::end(w);
    }

    fn request_mode(&self) -> RequestMode {
        RequestMode::Requests
    }

    fn write_request(&self, w: &mut Writer, revision: Revision, id: u64, input: &KeyedRequest) {
        w.begin_object().solid("\"jsonrpc\":\"2.0\"");
        w.key("id").u64(id);
        #[cfg(feature = "tasks")]
        if let Some(task) = &input.task {
            super::super::task::write_request(w, revision, id, input, task);
            w.end_object();
            return;
        }
        (input.write)(w, revision, &input.request, Some(id));
        w.end_object();
    }

    fn cancel_request(&self, w: &mut Writer, id: u64) {
        encode::begin_notification(w, "notifications/cancelled");
        w.key("requestId").u64(id);
        encode::end(w);
    }

    /// Only the modern era has listen requests.
    fn filter(&self, _filter: Value<'_>, _most: usize) -> Result<Filter, Fault> {
        Ok(Filter::default())
    }

    fn batches(&self, session: &Session) -> bool {
        features(session.peer.revision).batch
    }

    #[cfg(feature = "http-server")]
    fn http(&self) -> &dyn HttpEra {
        self
    }
}

/// Returns the peer that an `initialize` request describes.
fn opening_peer(params: &Params<'_>) -> Result<Peer, Fault> {
    let asked =
        params::string(params.get("protocolVersion"), "protocolVersion")?.as_str().unwrap_or_default();
    let revision = match version::parse(asked) {
        Some(revision) if revision != V2026_07_28 => revision,
        _ => V2025_11_25,
    };
    let declared = params.get("capabilities").filter(|d| !d.is_null());
    if declared.is_some_and(|d| d.kind() != Kind::Object) {
        return Err(params::invalid("capabilities must be an object"));
    }
    let mut capabilities = declared.map(params::capabilities).unwrap_or_default();
    // A declared capability that the revision lacks is ignored.
    let features = features(revision);
    capabilities.form &= features.elicitation;
    capabilities.url &= features.rich_forms;
    capabilities.sampling_tools &= features.sampling_tools;
    Ok(Peer { revision, capabilities, log_level: Some(Level::Info) })
}
