//! Executable form of a pattern or a part of one: a count, a table, or the lazy automaton.
//!
//! Counts run patterns like `^[a-z]{1,63}$` without an automaton, also for large counts. All other
//! patterns become a [`Dfa`] if it has a moderate size. Otherwise regex-automata's lazy automaton
//! runs them; it allocates for each run and takes, in the worst case, a step over all states for
//! each character.
//!
//! Invariant: all three are linear in the text.

use regex_automata::hybrid::dfa::DFA;
use regex_automata::util::start;

use super::PatternError;
use super::char_classes::{CharClasses, Kinds, has};
use super::dfa::{Dfa, lazy, nfa};
use super::nfa::graph;
use super::syntax::Node;

/// Largest number of cells of one table. A cell has one byte up to 256 states, otherwise two.
const CELLS: usize = 32 << 10;
/// Largest number of states for the lazy automaton.
const LAZY_STATES: usize = 4000;

/// An executable pattern, or a part of one.
#[derive(Debug)]
pub(super) enum Program {
    Count(Count),
    Dfa(Dfa),
    Lazy(Box<DFA>),
}

/// At least `min` and at most `max` characters of these kinds at the start of the text; with
/// `whole`, nothing after them.
#[derive(Debug)]
pub(super) struct Count {
    kinds: Kinds,
    min: usize,
    max: usize,
    whole: bool,
}

impl Program {
    /// Compiles a tree; `sets` are its sets as kinds. Adds the cost of building to `cost`, in cells
    /// of a table.
    pub(super) fn of(
        node: &Node,
        sets: &[Kinds],
        alphabet: &CharClasses,
        cost: &mut usize,
    ) -> Result<Program, PatternError> {
        if let Some(count) = count(node, sets) {
            return Ok(Program::Count(count));
        }
        let graph = graph(node, sets, alphabet.bytes())?;
        *cost += graph.cost();
        if let Some(table) = Dfa::of(&graph, alphabet.bytes(), false, CELLS) {
            *cost += table.state_count();
            return Ok(Program::Dfa(table));
        }
        *cost += CELLS;
        Some(&graph)
            .filter(|graph| graph.states.len() <= LAZY_STATES)
            .and_then(|graph| lazy(&nfa(graph, alphabet.bytes(), false)?))
            .map(|dfa| Program::Lazy(Box::new(dfa)))
            .ok_or_else(|| {
                let what = "is too large to be run; use minLength and maxLength instead of large counts, and \
                            put lookaheads right after the `^` that it starts with";
                PatternError::limit(0, what)
            })
    }

    /// Returns `true` if the text matches.
    pub(super) fn is_match(&self, alphabet: &CharClasses, text: &str) -> bool {
        match self {
            Program::Count(count) => count.is_match(alphabet, text),
            Program::Dfa(table) => table.is_match(alphabet, text),
            // OK because the cache may be cleared without limit, so the search never gives up.
            Program::Lazy(dfa) => search(dfa, alphabet, text).unwrap_or(false),
        }
    }

    /// Upper bound of the states per character.
    pub(super) fn width(&self) -> usize {
        match self {
            Program::Count(_) | Program::Dfa(_) => 1,
            Program::Lazy(dfa) => dfa.get_nfa().states().len(),
        }
    }
}

impl Count {
    fn is_match(&self, alphabet: &CharClasses, text: &str) -> bool {
        // One more than `max` decides; without `whole`, `min` decides.
        let enough = if self.whole { self.max.saturating_add(1) } else { self.min };
        let mut found = 0;
        let mut characters = text.chars();
        while found < enough {
            match characters.next() {
                Some(c) if has(&self.kinds, alphabet.kind(c)) => found += 1,
                Some(_) if self.whole => return false,
                Some(_) | None => break,
            }
        }
        (self.min..=self.max).contains(&found)
    }
}

/// The count equal to a tree of `^`, one set with or without a quantifier, and optionally `$`.
fn count(node: &Node, sets: &[Kinds]) -> Option<Count> {
    let Node::Concat(nodes) = node else { return None };
    let [Node::Start, inner @ ..] = nodes.as_slice() else { return None };
    // The content of a lookahead is a sequence within the sequence.
    let inner = match inner {
        [Node::Concat(nodes)] => nodes.as_slice(),
        inner => inner,
    };
    let (node, whole) = match inner {
        [node, Node::End] => (node, true),
        [node] => (node, false),
        _ => return None,
    };
    let (set, min, max) = match node {
        Node::CharSet(set) => (set, 1, Some(1)),
        Node::Repeat { node, min, max } => match &**node {
            Node::CharSet(set) => (set, *min, *max),
            _ => return None,
        },
        _ => return None,
    };
    let max = max.map_or(usize::MAX, |max| max as usize);
    Some(Count { kinds: *sets.get(*set as usize)?, min: min as usize, max, whole })
}

/// Runs the lazy automaton; `None` if it gave up.
fn search(dfa: &DFA, alphabet: &CharClasses, text: &str) -> Option<bool> {
    let mut cache = dfa.create_cache();
    let mut state = dfa.start_state(&mut cache, &start::Config::new()).ok()?;
    for c in text.chars() {
        let byte = *alphabet.bytes().get(alphabet.kind(c))?;
        state = dfa.next_state(&mut cache, state, byte).ok()?;
        if state.is_match() || state.is_dead() {
            return Some(state.is_match());
        }
    }
    Some(dfa.next_eoi_state(&mut cache, state).ok()?.is_match())
}
