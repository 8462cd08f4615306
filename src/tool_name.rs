//! Valid tool names, shared by registration and lint.

/// The names that [`is_tool_name`] accepts, for error messages.
pub(crate) const TOOL_NAMES: &str = "allowed are 1 to 128 characters of A-Z a-z 0-9 _ . -";

/// Returns whether a tool may have this name (MCP 2026-07-28 server/tools, tool names; requirement
/// TOOL-06).
pub(crate) fn is_tool_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=128).contains(&name.len()) && name.bytes().all(allowed)
}
