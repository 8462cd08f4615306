//! Patterns where the feature `pattern` is off: none can be compiled.
//!
//! It stands in for the module `pattern`, so that a schema with a pattern is refused when it is
//! compiled and no pattern is ever silently dropped.
//!
//! Invariant: there is no value of [`Pattern`].

/// A compiled pattern, of which there is none.
pub(crate) enum Pattern {}

impl Pattern {
    /// Refuses the pattern.
    pub(crate) fn compile(_: &str) -> Result<Pattern, &'static str> {
        Err("patterns need the feature `pattern` of this library")
    }

    pub(crate) fn cost(&self) -> usize {
        match *self {}
    }

    pub(crate) fn is_match(&self, _: &str) -> bool {
        match *self {}
    }

    pub(crate) fn steps(&self, _: usize) -> usize {
        match *self {}
    }
}

/// Whether a text is a pattern, which cannot be told here: it is taken for one.
pub(crate) fn is_pattern(_: &str) -> bool {
    true
}
