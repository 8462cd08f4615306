//! Patterns of JSON Schema: ECMA-262 with the flag `u`, matched in linear time.
//!
//! A [`Pattern`] tests whether a text contains a match. Captures and the choice between matches
//! have no meaning here, so named groups are plain groups and lazy quantifiers equal greedy ones.
//! All of ECMA-262 is supported except backreferences and lookbehind (and `\p{…}` without the
//! feature `unicode-pattern`); these are rejected with a message that names an alternative. `^` and
//! `$` match only at the start and end of the text. `\d`, `\w`, `\s`, `\b` and `.` follow ECMA-262.
//! Patterns are case-sensitive.
//!
//! # Modules
//!
//! `syntax.rs` parses the text to a tree. `char_set.rs` defines the character
//! classes, and `char_classes.rs` groups characters that the pattern does not distinguish. `nfa.rs`
//! compiles the tree to an automaton and resolves lookaheads, `dfa.rs` makes it deterministic, and
//! `program.rs` runs it.
//!
//! # Lookaheads at the start
//!
//! `nfa.rs` resolves lookaheads everywhere, but the size of its automaton may be the product of
//! their sizes. Lookaheads beside the `^` at the start of a pattern run separately instead:
//! `^(?=A)(?!B)R` matches if `^A` matches, `^B` does not, and `^R` does. This is exact. A match of
//! the whole starts at 0, because only lookaheads precede the `^`, and lookaheads consume no
//! characters. So `A` and `B` apply at 0 only, as in `^A` and `^B`. They see the whole text and are
//! independent of `R`, because nothing can refer to captures. Without a `^` at that level
//! (`(?=A)R`, `^a|(?=A)R`), `A` and `R` must match at the same unknown position, so the pattern
//! stays in one piece.
//!
//! # Invariants
//!
//! - [`Pattern::is_match`] takes linear time for every pattern; patterns that would need more are
//!   rejected at compile time.
//! - Compiling is limited to 16 KiB of source, 20 open groups and 16,000 states.
//! - A compiled pattern is immutable, and threads share it without locks.

mod char_classes;
mod char_set;
mod dfa;
mod nfa;
mod program;
mod syntax;
#[cfg(test)]
mod tests;

use std::fmt;

use char_classes::CharClasses;
use program::Program;
use syntax::Node;

/// Largest number of lookaheads at the start of a pattern.
const LOOKAHEADS: usize = 32;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    alphabet: CharClasses,
    /// All of them must hold.
    parts: Box<[Part]>,
    cost: usize,
}

/// A program that must match, or with `negative` must not.
#[derive(Debug)]
struct Part {
    program: Program,
    negative: bool,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    ///
    /// The text is not a pattern of ECMA-262, needs more than linear time, or is too large. The
    /// error names the construct, its position and an alternative.
    pub(crate) fn compile(source: &str) -> Result<Pattern, PatternError> {
        let mut tree = syntax::read(source)?;
        let (alphabet, sets) = CharClasses::of(&tree.sets, tree.word).ok_or_else(|| {
            PatternError::limit(
                0,
                "distinguishes more than 180 kinds of characters; use `enum` for lists of words",
            )
        })?;
        let mut parts = Vec::new();
        let mut cost = source.len();
        let mut add = |node: &Node, negative: bool| {
            parts.push(Part { program: Program::of(node, &sets, &alphabet, &mut cost)?, negative });
            Ok(())
        };
        let lookaheads = take_lookaheads(&mut tree.root);
        if lookaheads.len() > LOOKAHEADS {
            let what = format!("starts with more than {LOOKAHEADS} lookaheads; join them, or use `allOf`");
            return Err(PatternError::limit(0, what));
        }
        for (ahead, negative) in lookaheads {
            add(&Node::Concat(vec![Node::Start, ahead]), negative)?;
        }
        add(&tree.root, false)?;
        Ok(Pattern { alphabet, parts: parts.into(), cost })
    }

    /// Cost of compiling, for the budget of a schema. A unit is about a hundred nanoseconds and at
    /// most two bytes.
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// Returns `true` if the text contains a match.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.parts.iter().all(|part| part.program.is_match(&self.alphabet, text) != part.negative)
    }

    /// Upper bound of steps of [`Pattern::is_match`] for a text of this many bytes, for the budget
    /// of a validation. A step is about ten nanoseconds.
    pub(crate) fn steps(&self, bytes: usize) -> usize {
        let each = |part: &Part| match part.program.width() {
            1 => bytes / 8,
            width => bytes.saturating_mul(width),
        };
        self.parts.iter().map(each).fold(1, usize::saturating_add)
    }
}

/// Returns `true` if the text is a pattern of ECMA-262, supported by [`Pattern::compile`] or not.
pub(crate) fn is_pattern(source: &str) -> bool {
    syntax::read(source).err().is_none_or(|e| e.kind() == Kind::Unsupported)
}

/// Removes the lookaheads beside a `^` at the start of a pattern. Returns the content of each and
/// whether it is negative.
fn take_lookaheads(root: &mut Node) -> Vec<(Node, bool)> {
    let Node::Concat(nodes) = root else { return Vec::new() };
    let zero_width = |n: &&Node| matches!(n, Node::Start | Node::Ahead { .. });
    let length = nodes.iter().take_while(zero_width).count();
    if !nodes.iter().take(length).any(|n| matches!(n, Node::Start)) {
        return Vec::new();
    }
    let mut taken = Vec::new();
    for node in nodes.drain(..length) {
        if let Node::Ahead { node, negative, .. } = node {
            taken.push((*node, negative));
        }
    }
    nodes.insert(0, Node::Start);
    taken
}

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
