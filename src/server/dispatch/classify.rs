//! Classification of a message: its JSON-RPC kind and its parameters, read once for every
//! transport.
//!
//! stdio and HTTP both call [`classify`] on a parsed document. HTTP then checks header fields
//! against the result, and [`Dispatcher::dispatch`](super::Dispatcher::dispatch) uses the same
//! result, so that each member is looked up once.

use crate::era::Params;
use crate::json::{ErrorKind, Kind, ParseError, Value};
use crate::model::Fault;
use crate::rpc::{Message, Notification, Request, Response, ShapeError};

/// A classified message. It borrows the document.
pub(crate) struct Classified<'d> {
    pub kind: MessageKind<'d>,
    /// The parameters of a request or notification; empty for other kinds.
    pub params: Params<'d>,
}

/// The JSON-RPC kind of a document.
#[derive(Clone, Copy)]
pub(crate) enum MessageKind<'d> {
    Request(Request<'d>),
    Notification(Notification<'d>),
    Response(Response<'d>),
    /// An array. Only sessions of one revision accept batches.
    Batch(Value<'d>),
    /// Not a valid message.
    Malformed(ShapeError<'d>),
}

impl<'d> Classified<'d> {
    /// Returns the method of a request or notification.
    #[cfg(feature = "http-server")]
    pub(crate) fn method(&self) -> Option<&'d str> {
        match self.kind {
            MessageKind::Request(request) => Some(request.method),
            MessageKind::Notification(notification) => Some(notification.method),
            _ => None,
        }
    }

    /// Returns the id that a response to this message carries.
    #[cfg(feature = "http-server")]
    pub(crate) fn id(&self) -> Option<Value<'d>> {
        match self.kind {
            MessageKind::Request(request) => Some(request.id),
            MessageKind::Malformed(shape) if shape.needs_response => shape.id,
            _ => None,
        }
    }
}

/// Classifies the root of a document.
#[inline]
pub(crate) fn classify(root: Value<'_>) -> Classified<'_> {
    match root.kind() {
        Kind::Array => Classified { kind: MessageKind::Batch(root), params: Params::default() },
        _ => classify_single(root),
    }
}

/// Classifies one message of a batch: an array is malformed here.
pub(crate) fn classify_single(root: Value<'_>) -> Classified<'_> {
    let (kind, params) = match Message::read(root) {
        Ok(Message::Request(request)) => (MessageKind::Request(request), request.params),
        Ok(Message::Notification(notification)) => {
            (MessageKind::Notification(notification), notification.params)
        }
        Ok(Message::Response(response)) => (MessageKind::Response(response), None),
        Err(shape) => (MessageKind::Malformed(shape), None),
    };
    Classified { kind, params: Params::read(params) }
}

/// Returns the fault for bytes that cannot be parsed. A text that a limit rejects may be valid
/// JSON.
pub(crate) fn parse_fault(error: ParseError) -> Fault {
    let what = match error.kind() {
        ErrorKind::Depth | ErrorKind::Nodes | ErrorKind::Bytes => "larger than allowed",
        _ => "not JSON",
    };
    Fault::Parse(format!("The message is {what}: {error}"))
}

/// Returns the fault for a document that is not a valid message.
pub(crate) fn shape_fault(shape: &ShapeError<'_>) -> Fault {
    match shape.code {
        crate::rpc::code::INVALID_PARAMS => Fault::InvalidParams(shape.message.into()),
        _ => Fault::InvalidRequest(shape.message.into()),
    }
}
