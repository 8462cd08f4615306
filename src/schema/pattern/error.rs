//! Error of a pattern that is rejected.

use std::fmt;

/// A rejected pattern: the reason, its byte position, and an alternative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PatternError {
    kind: Kind,
    at: usize,
    what: String,
}

/// Kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The text is not a pattern of ECMA-262.
    Syntax,
    /// The pattern is valid but not supported.
    Unsupported,
    /// The pattern is too large.
    Limit,
}

impl PatternError {
    pub(super) fn new(kind: Kind, at: usize, what: impl Into<String>) -> PatternError {
        PatternError { kind, at, what: what.into() }
    }

    pub(super) fn syntax(at: usize, what: impl Into<String>) -> PatternError {
        PatternError::new(Kind::Syntax, at, what)
    }

    pub(super) fn limit(at: usize, what: impl Into<String>) -> PatternError {
        PatternError::new(Kind::Limit, at, what)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Syntax | Kind::Unsupported => write!(f, "at byte {}: {}", self.at, self.what),
            Kind::Limit => write!(f, "at byte {}: the pattern {}", self.at, self.what),
        }
    }
}
