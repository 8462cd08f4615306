//! The request and response headers that only sessions have.
//!
//! Source: MCP 2025-11-25 basic/transports. Names are compared without regard to case.

/// Names a session; minted by the answer that opens it, sent with everything after.
pub(crate) const SESSION: &str = "Mcp-Session-Id";
/// The id of the last event a client has, when it resumes a stream.
pub(crate) const LAST_EVENT: &str = "Last-Event-ID";

/// Returns `true` for a valid session id: visible ASCII, not empty (2025-11-25 basic/transports).
#[cfg(feature = "http-client")]
pub(crate) fn is_session_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(|b| (0x21..=0x7E).contains(b))
}
