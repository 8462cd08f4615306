//! How a handler ends without a result.

use std::fmt;

use crate::json::Json;
use crate::model::Fault;

/// Why a handler gives no result: `?` makes one from any error, and from a question that the
/// client has yet to answer.
///
/// A tool's failure in words becomes a result with `isError` that the model can read and react
/// to; elsewhere, and for a protocol error, it becomes a JSON-RPC error. One word in size.
pub struct ToolError(Box<Reason>);

pub(crate) enum Reason {
    /// A question was asked; the handler runs again when it is answered.
    Asked,
    /// In words, for the model.
    Text(String),
    /// As a protocol error.
    Fault(Fault),
}

impl ToolError {
    /// In words, for the model: what could not be done, and what to try instead.
    pub fn new(text: impl Into<String>) -> ToolError {
        ToolError(Box::new(Reason::Text(text.into())))
    }

    /// In the words of anything that has some: `.map_err(ToolError::from_display)?` for errors that
    /// are no `std::error::Error`, such as `String`, `Box<dyn Error>` and `anyhow::Error`.
    pub fn from_display(error: impl fmt::Display) -> ToolError {
        ToolError::new(error.to_string())
    }

    /// A protocol error with an application's own code.
    ///
    /// Codes from -32768 to -32000 belong to the protocol (MCP basic/index, error codes); one of
    /// those other than JSON-RPC's own becomes an internal error.
    pub fn protocol(code: i32, message: impl Into<String>, data: Option<Json>) -> ToolError {
        let own = matches!(code, -32700 | -32603..=-32600) || !(-32768..=-32000).contains(&code);
        ToolError::fault(if own {
            Fault::Custom { code, message: message.into(), data }
        } else {
            Fault::Internal("The handler used an error code that belongs to the protocol")
        })
    }

    /// No resource has this URI.
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

    /// Whether this only says that the client has yet to answer; such a failure must be passed on.
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

/// Every error can end a handler; its words go to the model. (So this type itself is no
/// `std::error::Error`.)
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> ToolError {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let words = error.to_string();
            // Many errors repeat their cause in their own words.
            if !text.contains(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            cause = error.source();
        }
        ToolError::new(text)
    }
}
