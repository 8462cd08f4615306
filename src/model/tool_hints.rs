//! Hints about the effects of a tool.

/// Hints about the effects of a tool, which clients may show (MCP server/tools, annotations).
///
/// ```
/// use tinymcp::{Tool, ToolHints};
///
/// let hints = ToolHints { destructive: Some(true), ..ToolHints::default() };
/// let erase = Tool::new("erase").hints(hints);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// The tool changes nothing. The default of clients is `false`.
    pub read_only: Option<bool>,
    /// The tool may delete or overwrite data. The default of clients is `true`.
    pub destructive: Option<bool>,
    /// A second call with the same arguments has no further effect. The default of clients is
    /// `false`.
    pub idempotent: Option<bool>,
    /// The tool interacts with systems outside this machine. The default of clients is `true`.
    pub open_world: Option<bool>,
}
