//! Server side of the legacy era.
//!
//! Source: MCP 2025-11-25 basic/lifecycle, basic/utilities, server/*. The revision table lists the
//! features that older revisions lack.
//!
//! # Invariants
//! - The response to `initialize` never has a modern date: an unknown or newer one gets 2025-11-25.
//! - Members of `_meta` of the modern era have no effect.

use crate::json::{Json, Kind, Value, Writer};
use crate::model::client_request::Ask;
use crate::model::{
    ClientCapabilities, Fault, Filter, Level, Note, Operation, Peer, Query, Revision, Session,
};
use crate::rpc::Request;

#[cfg(feature = "http-server")]
use super::super::http::HttpEra;
use super::super::version::{self, V2025_11_25, V2026_07_28, features};
use super::super::{
    Encoded, Params, Questions, Reply, ReplyTarget, ServerEra, Signal, encode, params, wire_error,
    write_error,
};

/// The legacy era for servers.
pub(crate) static SERVER: LegacyServer = LegacyServer;

pub(crate) struct LegacyServer;

/// Characters of a client's name and version that a session stores, for display.
const SHOWN: usize = 200;

/// Name and version of a client. The rest of its description may contain images of any size.
fn name_of(client: Value<'_>) -> Json {
    encode::object(|w| {
        for member in ["name", "version"] {
            if let Some(text) = client.get(member).and_then(Value::as_str) {
                let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
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
            "initialize" => Operation::Open,
            "ping" => Operation::Ping,
            "logging/setLevel" => Operation::SetLevel(params::level(params.get("level"), "level")?),
            "resources/subscribe" => Operation::Subscribe { uri: params::string(params.uri, "uri")?.id() },
            "resources/unsubscribe" => {
                Operation::Unsubscribe { uri: params::string(params.uri, "uri")?.id() }
            }
            method => match params::operation(method, params)? {
                Some(operation) => operation,
                None => return Err(Fault::UnknownMethod(method.to_owned())),
            },
        };
        let peer = match (session, operation) {
            (Some(peer), _) => peer,
            (None, Operation::Open) => opening_peer(params)?,
            (None, _) => {
                Peer { revision: V2025_11_25, capabilities: ClientCapabilities::default(), log_level: None }
            }
        };
        Ok(Query {
            operation,
            peer,
            id: request.id.id(),
            progress: params.progress_token()?,
            answers: None,
            state: None,
            client: None,
            params: params.object.map(Value::id),
            meta: None,
        })
    }

    fn stands_alone(&self, method: &str) -> bool {
        matches!(method, "initialize" | "ping")
    }

    fn note(&self, method: &str, params: &Params<'_>) -> Note {
        match method {
            "notifications/initialized" => Note::Ready,
            "notifications/cancelled" => {
                params.get("requestId").map_or(Note::Ignored, |id| Note::Cancelled(id.id()))
            }
            _ => Note::Ignored,
        }
    }

    fn open(&self, params: &Params<'_>, query: &Query) -> Option<Session> {
        (query.operation == Operation::Open).then(|| Session {
            peer: query.peer,
            client: params.get("clientInfo").map(name_of).unwrap_or_default(),
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
            Reply::Greeting { offer, instructions, .. } => {
                let features = features(to.revision);
                w.key("protocolVersion").string(version::name(to.revision));
                w.key("capabilities");
                encode::offer(w, features, offer);
                w.key("serverInfo");
                encode::implementation(w, features, &to.card.identity);
                if let Some(instructions) = instructions.or(to.card.identity.instructions.as_deref()) {
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

    fn signal(&self, w: &mut Writer, revision: Revision, signal: Signal<'_>) {
        encode::signal_members(w, revision, &signal);
        encode::end(w);
    }

    fn questions(&self) -> Questions {
        Questions::Requests
    }

    fn question(&self, w: &mut Writer, revision: Revision, id: u64, ask: &Ask) {
        w.begin_object().solid("\"jsonrpc\":\"2.0\"");
        w.key("id").u64(id);
        (ask.write)(w, revision, &ask.request, Some(id));
        w.end_object();
    }

    fn withdraw(&self, w: &mut Writer, id: u64) {
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

/// The peer that an `initialize` describes.
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
    // A capability that the revision lacks does not count, even if declared.
    let features = features(revision);
    capabilities.form &= features.elicitation;
    capabilities.url &= features.rich_forms;
    capabilities.sampling_tools &= features.sampling_tools;
    Ok(Peer { revision, capabilities, log_level: Some(Level::Info) })
}
