//! The legacy era, 2024-11-05 to 2025-11-25: a handshake opens a session.

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "http-server")]
mod http;
mod server;

#[cfg(feature = "client")]
pub(crate) use client::CLIENT;
pub(crate) use server::SERVER;

// The headers that only sessions have (MCP 2025-11-25 basic/transports).

/// Id of a session. The response that opens the session contains it, and so do all later messages.
#[cfg(any(feature = "http-server", feature = "http-client"))]
pub(crate) const SESSION: &str = "Mcp-Session-Id";
/// Id of the last event that a client received, for resuming a stream.
#[cfg(any(feature = "http-server", feature = "http-client"))]
pub(crate) const LAST_EVENT: &str = "Last-Event-ID";

/// Returns `true` for a valid session id: visible ASCII, not empty (2025-11-25 basic/transports).
#[cfg(feature = "http-client")]
pub(crate) fn is_session_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(|b| (0x21..=0x7E).contains(b))
}
