//! Event streams (`text/event-stream`): writer and push parser.
//!
//! Source: WHATWG HTML §9.2 (server-sent events); MCP basic/transports (event streams of both
//! protocols).
//!
//! # Invariants
//! - The parser stores at most its limit of data plus a few short fields, and each byte once.
//! - An incomplete event and its id are ignored, so a reader that resumes misses no event.

#[cfg(any(test, feature = "http-client"))]
mod parse;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "http-server"))]
mod write;

#[cfg(any(test, feature = "http-client"))]
pub(crate) use parse::{Parser, Step};
#[cfg(any(test, feature = "http-server"))]
pub(crate) use write::{event, retry};

/// The media type of an event stream.
pub(crate) const MEDIA_TYPE: &str = "text/event-stream";
