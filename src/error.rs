//! Public error type: a kind, a message, and an optional source.
//!
//! An [`Error`] is for the program: an invalid registration, a failed transport. Failures of a
//! peer's request are error responses instead (`model::Fault`, mapped to codes by `era`).

#[cfg(feature = "oauth")]
pub(crate) mod challenge;
#[cfg(all(feature = "client", not(feature = "oauth")))]
#[path = "error/without_challenge.rs"]
pub(crate) mod challenge;

use std::fmt;

use crate::json::{Json, ParseError};

/// Error of the library. It is one pointer wide.
///
/// ```
/// use tinymcp::{ErrorKind, Server, Tool};
///
/// let mut server = Server::new("board", "1.0.0");
/// let error = server.tool(Tool::new("no spaces"), |_, ()| Ok("")).err().expect("the name is not valid");
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// println!("{error}");
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    code: Option<i32>,
    data: Option<Json>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    #[cfg(feature = "oauth")]
    challenge: Option<challenge::Challenge>,
}

/// Kind of an [`Error`], by the reaction it allows.
///
/// ```
/// use tinymcp::{Error, ErrorKind};
///
/// /// Returns whether the same call may succeed later.
/// fn is_temporary(error: &Error) -> bool {
///     matches!(error.kind(), ErrorKind::Busy | ErrorKind::Timeout | ErrorKind::Closed)
/// }
/// assert!(!is_temporary(&Error::new(ErrorKind::Invalid, "no such file")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Reading or writing failed; the source is the error of the operating system.
    Io,
    /// The connection is closed.
    Closed,
    /// A timeout expired.
    Timeout,
    /// Too many calls in flight; retry later.
    Busy,
    /// A limit was exceeded; the message names it.
    Limit,
    /// The peer broke the protocol.
    PeerMisbehaved,
    /// The peer lacks a required revision or capability.
    PeerIncompatible,
    /// The peer responded with an error; see [`Error::code`] and [`Error::data`].
    Remote,
    /// The server rejected the message before reading it: not authorised, not found, overloaded.
    Refused,
    /// The program cancelled the call.
    Cancelled,
    /// The session was lost. The call may or may not have run.
    SessionLost,
    /// A value given to the library is invalid, such as a schema that is not JSON.
    Invalid,
    /// Wrong use of the library, such as two tools with one name.
    Misuse,
}

impl Error {
    /// An error of this kind; the message is a sentence without a final period.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            code: None,
            data: None,
            source: None,
            #[cfg(feature = "oauth")]
            challenge: None,
        }))
    }

    /// Returns the code of the peer's JSON-RPC error for [`ErrorKind::Remote`], and the HTTP status
    /// for [`ErrorKind::Refused`].
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// The `data` of the peer's error.
    pub fn data(&self) -> Option<&Json> {
        self.0.data.as_ref()
    }

    #[cfg(feature = "client")]
    pub(crate) fn with_code(mut self, code: i32, data: Option<Json>) -> Error {
        (self.0.code, self.0.data) = (Some(code), data);
        self
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Sets the cause, which [`std::error::Error::source`] returns.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        self.0.source = Some(Box::new(source));
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(source: std::io::Error) -> Error {
        Error::new(ErrorKind::Io, "input or output failed").with_source(source)
    }
}

impl From<ParseError> for Error {
    fn from(source: ParseError) -> Error {
        Error::new(ErrorKind::Invalid, "invalid JSON").with_source(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_json_reports_reason_and_place() {
        let read = || -> Result<Json, Error> { Ok(Json::parse("{\"a\":01}")?) };
        let error = read().err().map(|error| (error.kind(), error.to_string()));
        let words = "invalid JSON: malformed number at byte 6".to_owned();
        assert_eq!(error, Some((ErrorKind::Invalid, words)));
    }

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    }
}
