//! Result of an upstream server that a hub forwards.

use crate::json::Json;

use super::CacheHint;

/// Kind of a proxied result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxiedKind {
    /// Result of a tool.
    Tool,
    /// The contents of a resource.
    Contents,
    /// Messages of a prompt.
    Prompt,
    /// Completion values.
    Completion,
}

/// Result of an upstream server that a hub forwards. The members are unchanged, except those about
/// the upstream connection, which `era` removes.
#[derive(Clone, Debug)]
pub(crate) struct ProxiedResult {
    /// Kind of the result.
    pub kind: ProxiedKind,
    /// Its members, an object.
    pub members: Json,
    /// The members of its `_meta`, as text without braces.
    pub meta: String,
    /// Cache hint of the upstream, if it sent one.
    pub cache: Option<CacheHint>,
}
