//! Error of a handler.

use std::fmt;

use crate::json::Json;
use crate::model::Fault;

/// Error of a handler, or a pending request to the client. `?` converts any `std::error::Error`.
///
/// In a tool, a text error becomes a result with `isError`, which the model reads. In other
/// handlers, and for a protocol error, it becomes a JSON-RPC error. The type is one pointer wide.
pub struct ToolError(Box<Reason>);

pub(crate) enum Reason {
    /// A request was sent to the client. The handler runs again after the response.
    Asked,
    /// Text for the model.
    Text(String),
    /// A protocol error.
    Fault(Fault),
}

impl ToolError {
    /// Creates an error with a text for the model. State the failure and an alternative.
    pub fn new(text: impl Into<String>) -> ToolError {
        ToolError(Box::new(Reason::Text(text.into())))
    }

    /// Creates an error from any `Display` value, for types that do not implement
    /// `std::error::Error`, such as `String`, `Box<dyn Error>` and `anyhow::Error`:
    /// `.map_err(ToolError::from_display)?`.
    pub fn from_display(error: impl fmt::Display) -> ToolError {
        ToolError::new(error.to_string())
    }

    /// Creates a protocol error with a code of the application.
    ///
    /// Codes from -32768 to -32000 are reserved (MCP basic/index, error codes). Of these only
    /// -32700 and -32603 to -32600 are allowed; the others are replaced by an internal error.
    pub fn protocol(code: i32, message: impl Into<String>, data: Option<Json>) -> ToolError {
        let allowed = matches!(code, -32700 | -32603..=-32600) || !(-32768..=-32000).contains(&code);
        ToolError::fault(if allowed {
            Fault::Custom { code, message: message.into(), data }
        } else {
            Fault::Internal("The handler returned a reserved error code; use one outside -32768 to -32000")
        })
    }

    /// Creates the error "resource not found".
    pub fn not_found(uri: impl Into<String>) -> ToolError {
        ToolError::fault(Fault::ResourceNotFound(uri.into()))
    }

    pub(crate) fn fault(fault: Fault) -> ToolError {
        ToolError(Box::new(Reason::Fault(fault)))
    }

    pub(crate) fn asked() -> ToolError {
        ToolError(Box::new(Reason::Asked))
    }

    pub(crate) fn into_reason(self) -> Reason {
        *self.0
    }

    /// Returns `true` if the handler waits for input of the client. Return such an error unchanged.
    pub fn is_question(&self) -> bool {
        matches!(*self.0, Reason::Asked)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Reason::Asked => f.write_str("ToolError(waiting for the client's answer)"),
            Reason::Text(text) => write!(f, "ToolError({text:?})"),
            Reason::Fault(fault) => write!(f, "ToolError({fault:?})"),
        }
    }
}

/// Converts any error. Its message and those of its causes are sent to the model. Because of this
/// conversion `ToolError` cannot implement `std::error::Error`.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> ToolError {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let message = error.to_string();
            // Many errors repeat the message of their cause.
            if !text.contains(&message) {
                text.push_str(": ");
                text.push_str(&message);
            }
            cause = error.source();
        }
        ToolError::new(text)
    }
}
