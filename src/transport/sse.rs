//! Event streams (`text/event-stream`), written and parsed by pushing bytes.
//!
//! What it does: renders events and retry times into a buffer; takes a stream in pieces
//! of any size and gives its events one after another. What it does not: read or write anything,
//! wait, or look into an event's data.
//!
//! Source: WHATWG HTML §9.2 (server-sent events); MCP basic/transports (streams of both eras).
//!
//! # Invariants
//! - The parser keeps no byte twice, and no more than its limit of data plus a few short fields.
//! - What an unfinished event said, its id included, never counts: a reader that resumes loses
//!   nothing.

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
