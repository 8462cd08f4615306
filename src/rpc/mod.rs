//! JSON-RPC 2.0 messages as views over a document.
//!
//! Classifies a document as request, notification or response, with strict shapes. Ids keep their
//! JSON type. Unknown members are ignored. The module `era` handles batches, methods and `_meta`.
//!
//! Source: JSON-RPC 2.0 §4–5; MCP basic/index of each revision (ids are strings or integers,
//! never null; `params` is an object).
//!
//! # Invariants
//! - An id is a string, or an integer that fits `i64` or `u64`. `1.0`, `1e3`, `true`, `null` and
//!   2^64 are rejected, never clamped.
//! - A message with `method` is a request or a notification; without it, one with `result` or
//!   `error` is a response; anything else is not a message.

pub(crate) mod excerpt;
#[cfg(feature = "client")]
pub(crate) mod pending;

use std::borrow::Cow;

use crate::json::{Json, Kind, Value, Writer};

/// Error codes of JSON-RPC 2.0 §5.1 that mean the same in every revision.
pub(crate) mod code {
    /// The bytes are not JSON.
    pub(crate) const PARSE: i32 = -32700;
    /// The JSON is not a request object.
    pub(crate) const INVALID_REQUEST: i32 = -32600;
    /// No such method, or its capability was not advertised.
    pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters are wrong.
    pub(crate) const INVALID_PARAMS: i32 = -32602;
    /// Internal error, without details.
    pub(crate) const INTERNAL: i32 = -32603;
}

/// One message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'d> {
    /// Needs a response.
    Request(Request<'d>),
    /// Has no response.
    Notification(Notification<'d>),
    /// Responds to a request of this side.
    Response(Response<'d>),
}

/// `{jsonrpc, id, method, params?}`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'d> {
    /// A string or an integer.
    pub id: Value<'d>,
    /// The method's name.
    pub method: &'d str,
    /// An object, when present and not null.
    pub params: Option<Value<'d>>,
}

/// `{jsonrpc, method, params?}`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification<'d> {
    /// The method's name.
    pub method: &'d str,
    /// An object, when present and not null.
    pub params: Option<Value<'d>>,
}

/// `{jsonrpc, id, result}` or `{jsonrpc, id, error}`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response<'d> {
    /// The id of the request.
    pub id: Value<'d>,
    /// The result object, or the error object.
    pub outcome: Result<Value<'d>, Value<'d>>,
}

/// Error of a document that is not a message, with the id if it could be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapeError<'d> {
    /// [`code::INVALID_REQUEST`], or [`code::INVALID_PARAMS`] when only `params` is wrong.
    pub code: i32,
    /// Description of the error, for the peer.
    pub message: &'static str,
    /// The id of the message. In a malformed response it is the id of a request of this side.
    pub id: Option<Value<'d>>,
    /// True if an error response must be sent. A malformed response or notification gets none
    /// (JSON-RPC 2.0 §4.1).
    pub needs_response: bool,
}

impl<'d> Message<'d> {
    /// Reads the root of a document as one message.
    ///
    /// # Errors
    /// [`ShapeError`] names the member that is missing or has the wrong type.
    pub(crate) fn read(root: Value<'d>) -> Result<Message<'d>, ShapeError<'d>> {
        if root.kind() != Kind::Object {
            return Err(refuse("a message is one JSON object", None));
        }
        let (mut version, mut id, mut method, mut params) = (None, None, None, None);
        let (mut result, mut error) = (None, None);
        for (name, value) in root.named() {
            // Matching by length first leaves few comparisons.
            match name.len() {
                2 if name == b"id" => id = Some(value),
                5 if name == b"error" => error = Some(value),
                6 if name == b"method" => method = Some(value),
                6 if name == b"params" => params = Some(value),
                6 if name == b"result" => result = Some(value),
                7 if name == b"jsonrpc" => version = Some(value),
                _ => {}
            }
        }
        let good_id = id.filter(|v| is_id(*v));
        if version.is_none_or(|v| v.string_bytes() != b"2.0") {
            return Err(wrong_version(method.is_some() || result.or(error).is_none(), good_id));
        }
        let Some(method) = method else {
            return read_response(id, good_id, result, error);
        };
        let Some(method) = method.as_str() else {
            return Err(refuse("method must be a string", good_id));
        };
        // Some clients write `null` for an absent member.
        let params = params.filter(|p| !p.is_null());
        let bad_params = params.is_some_and(|p| p.kind() != Kind::Object);
        match (id, good_id) {
            (Some(_), Some(id)) if bad_params => Err(ShapeError {
                code: code::INVALID_PARAMS,
                message: "params must be an object",
                id: Some(id),
                needs_response: true,
            }),
            (Some(_), Some(id)) => Ok(Message::Request(Request { id, method, params })),
            (Some(_), None) => Err(refuse("id must be a string or an integer of at most 64 bits", None)),
            (None, _) if bad_params => {
                Err(ShapeError { needs_response: false, ..refuse("params must be an object", None) })
            }
            (None, _) => Ok(Message::Notification(Notification { method, params })),
        }
    }
}

fn read_response<'d>(
    id: Option<Value<'d>>,
    good_id: Option<Value<'d>>,
    result: Option<Value<'d>>,
    error: Option<Value<'d>>,
) -> Result<Message<'d>, ShapeError<'d>> {
    let without_response = |message| Err(ShapeError { needs_response: false, ..refuse(message, good_id) });
    match (result, error) {
        (None, None) => Err(refuse("method is missing", good_id)),
        (Some(_), Some(_)) => without_response("a response has result or error, not both"),
        (result, error) => match (good_id, id) {
            (Some(id), _) => match (result, error) {
                (Some(result), _) if result.kind() != Kind::Object => {
                    without_response("result must be an object")
                }
                (Some(result), _) => Ok(Message::Response(Response { id, outcome: Ok(result) })),
                (None, Some(error)) if RpcError::read(error).is_none() => {
                    without_response("error must be an object with an integer code and a message")
                }
                (None, Some(error)) => Ok(Message::Response(Response { id, outcome: Err(error) })),
                (None, None) => without_response("a response has result or error"),
            },
            (None, _) => without_response("a response carries the id of its request"),
        },
    }
}

/// Error for a missing or wrong `jsonrpc`. `needs_response` is false for a response: ids are per
/// direction, so an error that echoes its id could match a request of the peer.
#[cold]
#[inline(never)]
fn wrong_version(needs_response: bool, id: Option<Value<'_>>) -> ShapeError<'_> {
    ShapeError { needs_response, ..refuse("jsonrpc must be \"2.0\"", id) }
}

#[cold]
fn refuse<'d>(message: &'static str, id: Option<Value<'d>>) -> ShapeError<'d> {
    ShapeError { code: code::INVALID_REQUEST, message, id, needs_response: true }
}

/// Returns `true` for a valid request id: a string, or an integer of at most 64 bits.
pub(crate) fn is_id(value: Value<'_>) -> bool {
    match value.kind() {
        Kind::String => true,
        Kind::Number => value.is_integer(),
        _ => false,
    }
}

/// A request id that outlives its document. Equal ids have equal JSON type and value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    /// An `i64` or a `u64`.
    Number(i128),
    /// A string, decoded.
    String(Box<str>),
}

impl Id {
    /// Reads an id; `None` if the value is not a valid id.
    pub(crate) fn read(value: Value<'_>) -> Option<Id> {
        match value.kind() {
            Kind::String => value.as_str().map(|s| Id::String(s.into())),
            Kind::Number if value.is_integer() => {
                value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from)).map(Id::Number)
            }
            _ => None,
        }
    }

    /// Returns the id as JSON text.
    pub(crate) fn to_raw(&self) -> String {
        match self {
            // Avoids the code for printing 128-bit numbers.
            Id::Number(n) => match u64::try_from(*n) {
                Ok(n) => n.to_string(),
                Err(_) => (*n as i64).to_string(),
            },
            Id::String(s) => {
                let mut w = Writer::new();
                w.string(s);
                w.as_str().to_owned()
            }
        }
    }
}

/// The error object of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RpcError {
    /// One of [`code`], a code of the era, or an application's own outside -32768..=-32000.
    pub code: i32,
    /// One sentence for the peer; never an internal path, never panic text.
    pub message: Cow<'static, str>,
    /// Details for programs.
    pub data: Option<Json>,
}

impl RpcError {
    /// Creates an error without data.
    pub(crate) fn new(code: i32, message: impl Into<Cow<'static, str>>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    /// Reads an error object; `None` if its shape is wrong.
    #[cold]
    pub(crate) fn read(error: Value<'_>) -> Option<RpcError> {
        let code = i32::try_from(error.get("code")?.as_i64()?).ok()?;
        let message = error.get("message")?.as_str()?.to_owned();
        Some(RpcError { code, message: message.into(), data: error.get("data").map(Value::to_json) })
    }
}
