//! Error of a handler.

use std::fmt;

use crate::json::Json;
use crate::model::Fault;

/// Error of a handler, or a pending request to the client. `?` converts any `std::error::Error`.
/// Convert a text and other types as follows:
///
/// ```
/// # use tinymcp::ToolError;
/// # fn handler(names: &[&str], pin: Result<u8, String>) -> Result<(), ToolError> {
/// let first = names.first().ok_or_else(|| ToolError::new("there are no names"))?;
/// let pin = pin.map_err(ToolError::from_display)?;
/// # Ok(())
/// # }
/// ```
///
/// In a tool, a text error becomes a result with `isError`, which the model reads. In other
/// handlers, and for a protocol error, it becomes a JSON-RPC error. The type is one pointer wide.
///
/// ```
/// use tinymcp::{Server, Tool, ToolError};
///
/// tinymcp::record! {
///     struct Lookup { name: String }
/// }
///
/// let mut server = Server::new("notes", "1.0.0");
/// server.tool(Tool::new("read"), |_, lookup: Lookup| {
///     if lookup.name.contains('/') {
///         return Err(ToolError::new("`name` must not contain a slash; `list` returns the names"));
///     }
///     // `?` converts errors; the model reads their text and that of their causes.
///     Ok(std::fs::read_to_string(format!("/srv/notes/{}", lookup.name))?)
/// })?;
/// # Ok::<(), tinymcp::Error>(())
/// ```
pub struct ToolError(Box<Reason>);

pub(crate) enum Reason {
    /// A request was sent to the client. The handler runs again after the response.
    InputRequired,
    /// Text for the model.
    Text(String),
    /// A protocol error.
    Fault(Fault),
    /// The call continues as a task.
    #[cfg(feature = "tasks")]
    Task,
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

    /// Puts a text before the message: what was attempted, for the model. A protocol error or a
    /// pending request to the client is not changed. [`ErrorContext`] does it for a `Result`.
    ///
    /// ```
    /// use tinymcp::ToolError;
    ///
    /// let error = ToolError::new("no such sensor").context("cannot read the temperature");
    /// # assert!(format!("{error:?}").contains("cannot read the temperature: no such sensor"));
    /// ```
    #[must_use]
    pub fn context(mut self, text: impl fmt::Display) -> ToolError {
        if let Reason::Text(message) = &mut *self.0 {
            *message = format!("{text}: {message}");
        }
        self
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

    pub(crate) fn input_required() -> ToolError {
        ToolError(Box::new(Reason::InputRequired))
    }

    #[cfg(feature = "tasks")]
    pub(crate) fn task() -> ToolError {
        ToolError(Box::new(Reason::Task))
    }

    pub(crate) fn into_reason(self) -> Reason {
        *self.0
    }

    /// Returns `true` if the handler waits for input of the client. Return such an error unchanged.
    pub fn is_input_required(&self) -> bool {
        matches!(*self.0, Reason::InputRequired)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Reason::InputRequired => f.write_str("ToolError(waiting for the client's response)"),
            Reason::Text(text) => write!(f, "ToolError({text:?})"),
            Reason::Fault(fault) => write!(f, "ToolError({fault:?})"),
            #[cfg(feature = "tasks")]
            Reason::Task => f.write_str("ToolError(the call continues as a task)"),
        }
    }
}

/// The method `context` of a `Result` in a handler. It converts the error to a [`ToolError`] and
/// puts a text before its message, as [`ToolError::context`] does.
///
/// ```
/// use std::fs;
/// use tinymcp::{ErrorContext, ToolError};
///
/// fn temperature(sensor: &str) -> Result<f64, ToolError> {
///     let text = fs::read_to_string(format!("/run/sensors/{sensor}"))
///         .context(format_args!("cannot read the sensor {sensor}"))?;
///     text.trim().parse().context(format_args!("the sensor {sensor} has no number"))
/// }
///
/// let error = temperature("t9").unwrap_err();
/// assert!(format!("{error:?}").contains("cannot read the sensor t9: "));
/// ```
///
/// For a text as error, such as `Result<T, String>`, convert it first:
/// `.map_err(ToolError::from_display)`.
pub trait ErrorContext<T, E> {
    /// Puts a text before the message of the error: what was attempted, for the model. The text is
    /// formatted only if there is an error.
    ///
    /// # Errors
    /// The error of this `Result`, with the text.
    fn context(self, text: impl fmt::Display) -> Result<T, ToolError>
    where
        // The bound is on the method, so that the compiler explains how to convert other types.
        ToolError: From<E>;
}

impl<T, E> ErrorContext<T, E> for Result<T, E> {
    fn context(self, text: impl fmt::Display) -> Result<T, ToolError>
    where
        ToolError: From<E>,
    {
        self.map_err(|error| ToolError::from(error).context(text))
    }
}

/// Types that `?` converts to a [`ToolError`]: every `std::error::Error`. The trait only exists for
/// the compiler's message about other types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be converted to a `ToolError`",
    label = "not a `std::error::Error`: use `.map_err(ToolError::from_display)?`, or `.ok_or_else(|| ToolError::new(…))?`"
)]
pub trait IntoToolError {
    #[doc(hidden)]
    fn into_tool_error(self) -> ToolError;
}

/// Converts any error. Its message and those of its causes are sent to the model. Because of this
/// conversion `ToolError` cannot implement `std::error::Error`.
impl<E: IntoToolError> From<E> for ToolError {
    fn from(error: E) -> ToolError {
        error.into_tool_error()
    }
}

#[diagnostic::do_not_recommend]
impl<E: std::error::Error> IntoToolError for E {
    fn into_tool_error(self) -> ToolError {
        let error = self;
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
