//! The public error: one boxed word, a kind named by what the caller can do, and a message.
//!
//! Failures of a peer's request never become an [`Error`]: they are answered on the wire
//! (`model::Fault`, mapped to codes by `era`). An [`Error`] is what the program that uses the
//! library gets back: a registration that cannot be right, a transport that failed.

use std::fmt;

use crate::json::{Json, ParseError};

/// What went wrong, for the program that uses the library.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    code: Option<i32>,
    data: Option<Json>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What the caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Reading or writing failed; the message carries the operating system's words.
    Io,
    /// The other side is gone, or this side was closed.
    Closed,
    /// Not done in time.
    Timeout,
    /// Too much at once; try again later.
    Busy,
    /// A named limit was reached.
    Limit,
    /// The peer broke the protocol.
    PeerMisbehaved,
    /// The peer speaks no revision, or lacks a capability, that is needed.
    PeerIncompatible,
    /// The peer answered with an error; [`Error::code`] and [`Error::data`] say more.
    Remote,
    /// The server refused the message before it read it: not authorised, not found, overloaded.
    Refused,
    /// The program itself cancelled the call.
    Cancelled,
    /// The session was lost. The call has not run, or nobody can know whether it has.
    SessionLost,
    /// A value given to the library is wrong: a schema that is no JSON, a bad template.
    Invalid,
    /// The library was used in a way that cannot work: two tools with one name.
    Misuse,
}

impl Error {
    /// An error of this kind; the message is one sentence without a final period.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into(), code: None, data: None, source: None }))
    }

    /// The number the peer gave: of its JSON-RPC error when [`Error::kind`] is
    /// [`ErrorKind::Remote`], its HTTP status when it is [`ErrorKind::Refused`].
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// What the peer's error says for programs.
    pub fn data(&self) -> Option<&Json> {
        self.0.data.as_ref()
    }

    #[cfg(feature = "client")]
    pub(crate) fn with_code(mut self, code: i32, data: Option<Json>) -> Error {
        (self.0.code, self.0.data) = (Some(code), data);
        self
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Adds the cause, which [`std::error::Error::source`] gives back.
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
        Error::new(ErrorKind::Invalid, "the JSON text was refused").with_source(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_json_tells_why_and_where() {
        let read = || -> Result<Json, Error> { Ok(Json::parse("{\"a\":01}")?) };
        let error = read().err().map(|error| (error.kind(), error.to_string()));
        let words = "the JSON text was refused: malformed number at byte 6".to_owned();
        assert_eq!(error, Some((ErrorKind::Invalid, words)));
    }

    #[test]
    fn an_error_is_one_word() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<(), Error>>(), size_of::<usize>());
    }
}
