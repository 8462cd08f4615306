//! Patterns of JSON Schema: ECMA-262 with the flag `u`, searched in linear time.
//!
//! A [`Pattern`] says whether a text contains a match. Captures, and which of several matches is
//! found first, have no meaning here, so named groups are plain groups and lazy quantifiers are
//! like greedy ones. Everything of ECMA-262 is understood but backreferences and lookbehind (and
//! `\p{…}` without the feature `unicode-pattern`), which are refused with a word on what to do
//! instead. `^` and `$` are the start and end of the text only; `\d`, `\w`, `\s`, `\b` and `.`
//! mean what ECMA-262 says they mean; case counts.
//!
//! # How it works
//!
//! `syntax.rs` reads the text into a tree, `set.rs` and `property.rs` know what classes hold,
//! `alphabet.rs` sorts characters into kinds, `graph.rs` makes an automaton of the tree and
//! resolves lookaheads, `table.rs` makes it deterministic, and `program.rs` runs it.
//!
//! # Lookaheads at the start
//!
//! Lookaheads anywhere are resolved by `graph.rs`, whose size may be the product of what they
//! look for. Those that stand beside the `^` that begins a pattern are run by themselves instead:
//! `^(?=A)(?!B)R` matches if `^A` matches, `^B` does not, and `^R` does. That is exact. A match
//! of the whole begins at 0, since nothing but a lookahead stands before the `^`, and lookaheads
//! take no characters. So `A` and `B` are tried at 0 and nowhere else, which is what `^A` and `^B`
//! do. They see the whole text, so what `R` takes does not matter to them, and what they
//! take does not matter to `R`; captures, through which they could, cannot be referred to. If
//! there is no `^` at that level (`(?=A)R`, `^a|(?=A)R`), the places where `A` and `R` match must
//! be the same but may be any, so there nothing is taken apart.
//!
//! # Invariants
//!
//! - No pattern makes [`Pattern::is_match`] take longer than linear time; what would need more
//!   is refused when it is compiled.
//! - Compiling is bounded: 16 KiB of source, 20 open groups, 16,000 states.
//! - A compiled pattern does not change; threads share it without locks.

mod char_classes;
mod char_set;
mod dfa;
mod error;
mod nfa;
mod program;
mod property;
mod syntax;
#[cfg(test)]
mod tests;

pub(crate) use error::PatternError;

use char_classes::CharClasses;
use error::Kind;
use program::Program;
use syntax::Node;

/// Lookaheads at the start of a pattern.
const LOOKAHEADS: usize = 32;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    alphabet: CharClasses,
    /// All must hold.
    parts: Box<[Part]>,
    cost: usize,
}

/// Something that must, or with `negative` must not, match.
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
    /// If it is no pattern of ECMA-262, needs what cannot be run in linear time, or is too large;
    /// the error names the construct and its place, and what to do instead.
    pub(crate) fn compile(source: &str) -> Result<Pattern, PatternError> {
        let mut tree = syntax::read(source)?;
        let (alphabet, sets) = CharClasses::of(&tree.sets, tree.word).ok_or_else(|| {
            PatternError::limit(
                0,
                "tells more than 180 kinds of characters apart; use `enum` for lists of words",
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

    /// What it took to compile, each of it some hundred nanoseconds and at most two bytes: for a
    /// budget of schemas.
    pub(crate) fn cost(&self) -> usize {
        self.cost
    }

    /// Whether the text contains a match.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.parts.iter().all(|part| part.program.is_match(&self.alphabet, text) != part.negative)
    }

    /// Steps that [`Pattern::is_match`] may take on a text of so many bytes, each of them some ten
    /// nanoseconds: for a budget of validation.
    pub(crate) fn steps(&self, bytes: usize) -> usize {
        let each = |part: &Part| match part.program.width() {
            1 => bytes / 8,
            width => bytes.saturating_mul(width),
        };
        self.parts.iter().map(each).fold(1, usize::saturating_add)
    }
}

/// Whether the text is a pattern of ECMA-262, be it one that [`Pattern::compile`] refuses to run.
pub(crate) fn is_pattern(source: &str) -> bool {
    syntax::read(source).err().is_none_or(|e| e.kind() == Kind::Unsupported)
}

/// Takes away the lookaheads that stand beside a `^` at the start of a pattern: what each looks
/// for, and whether it must not be found.
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
