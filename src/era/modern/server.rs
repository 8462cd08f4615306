//! Server side of the modern era.
//!
//! Source: MCP 2026-07-28 basic/index (`_meta`, result types, error codes), basic/versioning,
//! basic/patterns (mrtr, subscriptions), server/*.
//!
//! # Invariants
//! - Every result carries `resultType` and names the server in its `_meta`.
//! - A complete result has a cache hint exactly if it must have one (server/utilities/caching).
//! - No response depends on earlier requests.

use crate::json::{Json, Kind, Value, Writer};
use crate::model::client_request::KeyedRequest;
use crate::model::{
    CacheHint, ClientNotification, Fault, Filter, Identity, Operation, Peer, Query, Revision, Session,
};
use crate::rpc::Request;

#[cfg(feature = "http-server")]
use super::super::http::HttpEra;
use super::super::version::{self, V2026_07_28, features};
use super::super::{
    Encoded, Params, Reply, ReplyTarget, RequestMode, ServerEra, ServerNotification, encode, params,
    wire_error, write_error,
};

/// The client lacks a capability (basic/index, error codes).
pub(in crate::era) const MISSING_CAPABILITY: i32 = -32021;
/// The server does not support the version of the request (basic/versioning).
pub(in crate::era) const UNSUPPORTED_VERSION: i32 = -32022;

pub(in crate::era) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub(in crate::era) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The modern era for servers.
pub(crate) static SERVER: ModernServer = ModernServer;

pub(crate) struct ModernServer;

/// Error for a request that names no version and belongs to no session.
pub(in crate::era) fn unversioned(legacy_too: bool) -> Fault {
    // Clients show this text to the user (basic/versioning: a server without sessions lists its
    // versions in its response to initialize).
    let otherwise = if legacy_too { "; or open a session with initialize first" } else { "" };
    let version = version::name(V2026_07_28);
    Fault::Custom {
        code: crate::rpc::code::INVALID_PARAMS,
        message: format!(
            "Missing _meta field: io.modelcontextprotocol/protocolVersion (supported: {version}{otherwise})"
        ),
        data: Some(supported(None)),
    }
}

/// `{"supported": […], "requested": …}`.
pub(in crate::era) fn supported(requested: Option<&str>) -> Json {
    encode::object(|w| {
        w.key("supported").begin_array().string(version::name(V2026_07_28)).end_array();
        if let Some(requested) = requested {
            w.key("requested").string(requested);
        }
    })
}

/// Returns the `_meta` member that names the server.
pub(in crate::era) fn server_info(identity: &Identity) -> String {
    let info = encode::object(|w| {
        w.key(SERVER_INFO);
        encode::implementation(w, features(V2026_07_28), identity);
    });
    info.as_str().trim_start_matches('{').strip_suffix('}').unwrap_or_default().to_owned()
}

/// Returns the version and the client's capabilities, which every request's `_meta` must have.
pub(super) fn declared<'d>(params: &Params<'d>) -> Result<(&'d str, Value<'d>), Fault> {
    let meta = &params.meta;
    let Some(version) = meta.version else {
        return Err(params::invalid("Missing _meta field: io.modelcontextprotocol/protocolVersion"));
    };
    let Some(version) = version.as_str() else {
        return Err(params::invalid("_meta field io.modelcontextprotocol/protocolVersion must be a string"));
    };
    let Some(capabilities) = meta.capabilities else {
        return Err(params::invalid("Missing _meta field: io.modelcontextprotocol/clientCapabilities"));
    };
    if capabilities.kind() != Kind::Object {
        return Err(params::invalid(
            "_meta field io.modelcontextprotocol/clientCapabilities must be an object",
        ));
    }
    Ok((version, capabilities))
}

/// Returns the peer that a request's `_meta` describes.
fn peer(params: &Params<'_>) -> Result<Peer, Fault> {
    let meta = &params.meta;
    let (version, capabilities) = declared(params)?;
    if version != version::name(V2026_07_28) {
        return Err(Fault::UnsupportedVersion(version.to_owned()));
    }
    let log_level = match meta.log_level {
        None => None,
        level => Some(params::level(level, "_meta field io.modelcontextprotocol/logLevel")?),
    };
    Ok(Peer { revision: V2026_07_28, capabilities: params::capabilities(capabilities), log_level })
}

impl ServerEra for ModernServer {
    fn request(
        &self,
        request: &Request<'_>,
        params: &Params<'_>,
        _session: Option<Peer>,
    ) -> Result<Query, Fault> {
        let peer = peer(params)?;
        let operation = match request.method {
            "server/discover" => Operation::Discover,
            "subscriptions/listen" => Operation::Listen {
                filter: params::object(params.get("notifications"), "notifications")?.id(),
            },
            method => params::operation(method, params)?,
        };
        let mut query = Query {
            operation,
            peer,
            id: request.id.id(),
            progress: params.progress_token()?,
            responses: None,
            state: None,
            client: params.meta.client.map(Value::id),
            params: params.object.map(Value::id),
            meta: params.meta.whole.map(Value::id),
        };
        if matches!(
            operation,
            Operation::CallTool { .. }
                | Operation::ReadResource { .. }
                | Operation::GetPrompt { .. }
                | Operation::Extension
        ) {
            // A malformed response is an error, not a missing one (basic/patterns/mrtr).
            query.responses = match params.input_responses {
                Some(responses) if responses.kind() != Kind::Object => {
                    return Err(params::invalid("inputResponses must be an object"));
                }
                responses => responses.map(Value::id),
            };
            query.state = match params.request_state {
                Some(state) if state.kind() != Kind::String => {
                    return Err(params::invalid("requestState must be a string"));
                }
                state => state.map(Value::id),
            };
        }
        Ok(query)
    }

    /// Every request of this era names its version.
    fn is_sessionless(&self, _method: &str) -> bool {
        false
    }

    fn notification(&self, method: &str, params: &Params<'_>) -> ClientNotification {
        match method {
            "notifications/cancelled" => params
                .get("requestId")
                .map_or(ClientNotification::Ignored, |id| ClientNotification::Cancelled(id.id())),
            _ => ClientNotification::Ignored,
        }
    }

    fn open(&self, _params: &Params<'_>, _query: &Query) -> Option<Session> {
        None
    }

    fn reply(&self, w: &mut Writer, to: &ReplyTarget<'_>, reply: Reply<'_>) -> Encoded {
        if let Reply::Fault(fault) = reply {
            return write_error(w, Some(to.id), false, &wire_error(fault, true));
        }
        encode::begin_result(w, to.id);
        match &reply {
            Reply::InputRequired { .. } => w.solid("\"resultType\":\"input_required\""),
            #[cfg(feature = "tasks")]
            Reply::Raw(result, _) => w.key("resultType").string(result.kind()),
            _ => w.solid("\"resultType\":\"complete\""),
        };
        let mut meta = "";
        let mut listen = None;
        match reply {
            Reply::ServerDescription { capabilities, cache, instructions } => {
                w.key("supportedVersions").begin_array();
                w.string(version::name(V2026_07_28));
                w.end_array();
                w.key("capabilities");
                encode::server_capabilities(
                    w,
                    features(to.revision),
                    capabilities,
                    to.server.extensions.of(to.revision),
                );
                if let Some(instructions) = instructions.or(to.server.identity.instructions.as_deref()) {
                    w.key("instructions").string(instructions);
                }
                hint(w, cache);
            }
            Reply::InputRequired { requests, state } => {
                w.key("inputRequests").begin_object();
                for input in requests {
                    w.key(&input.key).begin_object();
                    (input.write)(w, to.revision, &input.request, None);
                    w.end_object();
                }
                w.end_object();
                w.key("requestState").string(state);
            }
            Reply::ListenEnded => listen = Some(to.id),
            reply => {
                let cache = match &reply {
                    Reply::Page { cache, .. } | Reply::Read(_, cache) => Some(*cache),
                    Reply::Raw(result, cache) => result.cache(*cache),
                    _ => None,
                };
                meta = encode::reply_members(w, to.revision, reply);
                if let Some(cache) = cache {
                    hint(w, cache);
                }
            }
        }
        w.solid_open("\"_meta\":{").raw_members(meta).solid(&to.server.server_info);
        if let Some(id) = listen {
            w.key(SUBSCRIPTION).solid(id);
        }
        w.end_object();
        encode::end(w);
        Encoded::RESULT
    }

    fn notify(&self, w: &mut Writer, revision: Revision, notification: ServerNotification<'_>) {
        let listen = match &notification {
            ServerNotification::Change { listen, .. } => *listen,
            ServerNotification::Acknowledged { listen, .. }
            | ServerNotification::ListenCancelled { listen } => Some(*listen),
            ServerNotification::Progress { .. } | ServerNotification::Log { .. } => None,
        };
        match &notification {
            ServerNotification::Acknowledged { filter, .. } => {
                encode::begin_notification(w, "notifications/subscriptions/acknowledged");
                w.key("notifications");
                self::filter(w, filter);
            }
            ServerNotification::ListenCancelled { listen } => {
                encode::begin_notification(w, "notifications/cancelled");
                w.key("requestId").raw(listen);
            }
            notification => encode::notification_members(w, revision, notification),
        }
        if let Some(id) = listen {
            w.key("_meta").begin_object().key(SUBSCRIPTION).raw(id).end_object();
        }
        encode::end(w);
    }

    fn request_mode(&self) -> RequestMode {
        RequestMode::InResult
    }

    /// Writes nothing: requests are in the result ([`Reply::InputRequired`], basic/patterns).
    fn write_request(&self, _w: &mut Writer, _revision: Revision, _id: u64, _input: &KeyedRequest) {}

    fn cancel_request(&self, _w: &mut Writer, _id: u64) {}

    fn filter(&self, filter: Value<'_>, max: usize) -> Result<Filter, Fault> {
        read_filter(filter, max)
    }

    fn batches(&self, _session: &Session) -> bool {
        false
    }

    #[cfg(feature = "http-server")]
    fn http(&self) -> &dyn HttpEra {
        self
    }
}

pub(in crate::era) fn hint(w: &mut Writer, cache: CacheHint) {
    w.key("ttlMs").u64(u64::from(cache.ttl_ms));
    w.key("cacheScope").string(if cache.public { "public" } else { "private" });
}

pub(in crate::era) fn filter(w: &mut Writer, filter: &Filter) {
    w.begin_object();
    for (name, on) in [
        ("toolsListChanged", filter.tools),
        ("promptsListChanged", filter.prompts),
        ("resourcesListChanged", filter.resources),
    ] {
        if on {
            w.key(name).bool(true);
        }
    }
    let strings = |w: &mut Writer, name: &str, strings: &[String]| {
        if !strings.is_empty() {
            w.key(name).begin_array();
            for string in strings {
                w.string(string);
            }
            w.end_array();
        }
    };
    strings(w, "resourceSubscriptions", &filter.uris);
    #[cfg(feature = "tasks")]
    strings(w, "taskIds", &filter.tasks);
    w.end_object();
}

/// Reads the filter of a listen request (basic/patterns/subscriptions).
///
/// # Errors
/// A member of the wrong type, or more URIs than `max`.
#[cold]
#[inline(never)]
pub(in crate::era) fn read_filter(value: Value<'_>, max: usize) -> Result<Filter, Fault> {
    // A null member counts as absent.
    let member = |name: &str| value.get(name).filter(|v| !v.is_null());
    let flag = |name: &'static str| match member(name) {
        None => Ok(false),
        Some(v) => {
            v.as_bool().ok_or_else(|| Fault::InvalidParams(format!("{name} must be true or false").into()))
        }
    };
    let mut filter = Filter {
        tools: flag("toolsListChanged")?,
        prompts: flag("promptsListChanged")?,
        resources: flag("resourcesListChanged")?,
        uris: Vec::new(),
        #[cfg(feature = "tasks")]
        tasks: Vec::new(),
        #[cfg(feature = "visibility")]
        silent: Vec::new(),
    };
    if let Some(uris) = member("resourceSubscriptions") {
        if uris.kind() != Kind::Array {
            return Err(params::invalid("resourceSubscriptions must be an array"));
        }
        if uris.len() > max {
            return Err(Fault::InvalidParams(
                format!("resourceSubscriptions has {} URIs; at most {max} are allowed", uris.len()).into(),
            ));
        }
        for uri in uris.items() {
            let uri = uri.as_str().ok_or_else(|| params::invalid("resourceSubscriptions must be strings"))?;
            filter.uris.push(uri.to_owned());
        }
    }
    #[cfg(feature = "tasks")]
    if let Some(ids) = member("taskIds") {
        filter.tasks = super::super::task::ids(ids, max)?;
    }
    Ok(filter)
}
