//! What runs a pattern, or a part of one: a count, a table, or the lazy automaton.
//!
//! Counts serve patterns like `^[a-z]{1,63}$` without any automaton, also where the counts are
//! large. Everything else becomes a [`Dfa`] if one of moderate size exists. What explodes when
//! made deterministic ahead of time is left to regex-automata's lazy automaton, which needs some
//! memory for each run and, at worst, a step over all states of the graph for each character.
//!
//! Invariant: all three are linear in the text.

use regex_automata::hybrid::dfa::DFA;
use regex_automata::util::start;

use super::char_classes::{CharClasses, Kinds, has};
use super::dfa::{Dfa, lazy, nfa};
use super::error::PatternError;
use super::nfa::graph;
use super::syntax::Node;

/// Cells of one table, of one byte each up to 256 states, else of two.
const CELLS: usize = 32 << 10;
/// States of the graph that the lazy automaton runs.
const LAZY_STATES: usize = 4000;

/// A pattern, or a part of one, made ready to run.
#[derive(Debug)]
pub(super) enum Program {
    Count(Count),
    Dfa(Dfa),
    Lazy(Box<DFA>),
}

/// At least `min` and at most `max` characters of these kinds at the start of the text, and with
/// `whole` nothing behind them.
#[derive(Debug)]
pub(super) struct Count {
    kinds: Kinds,
    min: usize,
    max: usize,
    whole: bool,
}

impl Program {
    /// The program of a tree; `sets` are the tree's sets by kinds. What it takes to make is added to
    /// `cost`, in cells of a table.
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
            *cost += table.made();
            return Ok(Program::Dfa(table));
        }
        *cost += CELLS;
        Some(&graph)
            .filter(|graph| graph.states.len() <= LAZY_STATES)
            .and_then(|graph| lazy(&nfa(graph, alphabet.bytes(), false)?))
            .map(|dfa| Program::Lazy(Box::new(dfa)))
            .ok_or_else(|| {
                let what = "is too large to be run; use minLength and maxLength instead of large counts, and \
                            put lookaheads right behind the `^` that it starts with";
                PatternError::limit(0, what)
            })
    }

    /// Whether the text matches.
    pub(super) fn is_match(&self, alphabet: &CharClasses, text: &str) -> bool {
        match self {
            Program::Count(count) => count.is_match(alphabet, text),
            Program::Dfa(table) => table.is_match(alphabet, text),
            // OK because the cache has no limit on how often it may be cleared, so the search is
            // never given up.
            Program::Lazy(dfa) => search(dfa, alphabet, text).unwrap_or(false),
        }
    }

    /// How many states one character may have to step through.
    pub(super) fn width(&self) -> usize {
        match self {
            Program::Count(_) | Program::Dfa(_) => 1,
            Program::Lazy(dfa) => dfa.get_nfa().states().len(),
        }
    }
}

impl Count {
    fn is_match(&self, alphabet: &CharClasses, text: &str) -> bool {
        // One more than `max` decides; without `whole`, `min` does.
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

/// The count that a tree amounts to, if it is `^`, one set with or without a quantifier, and
/// perhaps `$`.
fn count(node: &Node, sets: &[Kinds]) -> Option<Count> {
    let Node::Concat(nodes) = node else { return None };
    let [Node::Start, inner @ ..] = nodes.as_slice() else { return None };
    // What a lookahead looks for is a sequence in the sequence.
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
