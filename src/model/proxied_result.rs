//! A result of another server on its way through: what a hub that is served passes on.
//!
//! What it does: keeps the members of a result as they came, apart from those that belong to the
//! connection it came over. Which those are `era` knows.

use crate::json::Json;

use super::CacheHint;

/// Kind of a proxied result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// Of a tool.
    Tool,
    /// The contents of a resource.
    Contents,
    /// A filled-in prompt.
    Prompt,
    /// Offered values.
    Completion,
}

/// A result as it came.
#[derive(Clone, Debug)]
pub(crate) struct Relayed {
    /// Kind of the result.
    pub passage: Passage,
    /// Its members, an object.
    pub members: Json,
    /// Those of its `_meta`, as text without braces.
    pub meta: String,
    /// Freshness of the result, if the server states it.
    pub cache: Option<CacheHint>,
}
