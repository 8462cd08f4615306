//! Compiles the tree of a pattern to an automaton without lookaheads.
//!
//! The automaton is built from the end: each part receives the start state of everything after it.
//! So a lookahead `(?=A)` before `next` is the conjunction of two states, the start of `A` and
//! `next`: the rest of the text must match both. Conjunctions are then resolved step by step. A
//! conjunction with a choice becomes a choice of conjunctions. A conjunction whose members all
//! consume a character consumes their common characters and continues as the conjunction of their
//! targets. A member that has matched is removed: only the existence of a match counts, so `A` and
//! `next` may end at different positions. The result has no conjunctions and accepts exactly what
//! the lookaheads allow.
//!
//! `(?!A)` is `(?=B)`, where `B` accepts all texts without a prefix that matches `A`. `A` is made
//! deterministic ([`Dfa`]), and `B` is `A` with the states "matched" and "cannot match" exchanged.
//! `A` must not depend on its position, so `^` and `\b` are rejected inside unless the lookahead is
//! at the start of the text (see [`super::Pattern`]).
//!
//! Each conjunction is a set of states and is built once. Repetitions are expanded.
//!
//! Invariants: at most [`STATES`] states, and as many steps to build them. Only the tree is walked
//! recursively, and its depth is limited.

use std::collections::HashMap;

use super::char_classes::{Kinds, has};
use super::dfa::{Dfa, MATCH as TABLE_MATCH, NEVER as TABLE_NEVER};
use super::syntax::Node;
use super::{Kind, PatternError};

/// Largest number of states, with repetitions and lookaheads expanded.
pub(super) const STATES: usize = 16_000;
/// Largest number of cells for the table of a negative lookahead.
const NEGATED: usize = 4000;
/// Steps charged for building such a table.
const TABLE_STEPS: usize = 200;

/// Number of steps that take as long as a cell of a table.
const STEPS_PER_CELL: usize = 2;

/// The state after a match.
pub(super) const MATCH: u32 = 0;
/// The state without a match.
pub(super) const NEVER: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Match,
    Never,
    /// Consumes one character of these kinds.
    Take(Kinds, u32),
    /// Continues as either state.
    Either(u32, u32),
    /// Continues if the condition holds.
    If(Place, u32),
    /// The conjunction with this number. Finished automata have none.
    All(u32),
}

/// A condition on a position in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    Start,
    End,
    Boundary,
    NoBoundary,
}

/// The states of a pattern or a part of one, and the start state.
#[derive(Debug)]
pub(super) struct Nfa {
    pub(super) states: Vec<State>,
    pub(super) start: u32,
    /// Number of steps it took to build.
    steps: usize,
    /// Number of cells of its tables.
    cells: usize,
}

impl Nfa {
    /// The cost of building, in cells of a table.
    pub(super) fn cost(&self) -> usize {
        self.cells + self.steps / STEPS_PER_CELL
    }
}

struct Builder<'t> {
    /// The sets of the tree, as kinds.
    sets: &'t [Kinds],
    /// The bytes of the kinds, for tables of negative lookaheads.
    bytes: &'t [u8],
    states: Vec<State>,
    steps: usize,
    cells: usize,
    /// Members of each conjunction, sorted; none of them is a conjunction.
    members: Vec<Vec<u32>>,
    /// State of each conjunction.
    states_of: HashMap<Vec<u32>, u32>,
    /// The conjunction that a state is or was.
    conjunction_of: HashMap<u32, u32>,
    /// Start state of each negative lookahead, by the address of its node: repetitions share it.
    negated: HashMap<*const Node, u32>,
}

/// Builds the automaton of a tree. `sets` are the sets of the tree as kinds, `bytes` the bytes of
/// the kinds.
pub(super) fn graph(node: &Node, sets: &[Kinds], bytes: &[u8]) -> Result<Nfa, PatternError> {
    let mut builder = Builder {
        sets,
        bytes,
        states: vec![State::Match, State::Never],
        steps: 0,
        cells: 0,
        members: Vec::new(),
        states_of: HashMap::new(),
        conjunction_of: HashMap::new(),
        negated: HashMap::new(),
    };
    let start = builder.part(node, MATCH)?;
    builder.resolve_conjunctions()?;
    Ok(Nfa { states: builder.states, start, steps: builder.steps, cells: builder.cells })
}

impl Builder<'_> {
    fn push(&mut self, state: State) -> Result<u32, PatternError> {
        if self.states.len() == STATES {
            return Err(too_large());
        }
        self.states.push(state);
        Ok(self.states.len() as u32 - 1)
    }

    fn charge(&mut self, steps: usize) -> Result<(), PatternError> {
        self.steps += steps;
        if self.steps > 2 * STATES { Err(too_large()) } else { Ok(()) }
    }

    /// The start state of `node`, if everything after it starts with `next`.
    fn part(&mut self, node: &Node, next: u32) -> Result<u32, PatternError> {
        self.charge(1)?;
        match node {
            Node::CharSet(number) => {
                let kinds = self.sets.get(*number as usize).copied().unwrap_or_default();
                self.push(State::Take(kinds, next))
            }
            Node::Concat(nodes) => nodes.iter().rev().try_fold(next, |next, node| self.part(node, next)),
            Node::Alt(nodes) => {
                let mut entry = None;
                for node in nodes.iter().rev() {
                    let branch = self.part(node, next)?;
                    entry = Some(match entry {
                        Some(others) => self.push(State::Either(branch, others))?,
                        None => branch,
                    });
                }
                Ok(entry.unwrap_or(next))
            }
            Node::Repeat { node, min, max: Some(max) } => {
                let mut entry = next;
                for _ in *min..*max {
                    let once_more = self.part(node, entry)?;
                    entry = self.push(State::Either(once_more, next))?;
                }
                (0..*min).try_fold(entry, |entry, _| self.part(node, entry))
            }
            Node::Repeat { node, min, max: None } => {
                let again = self.push(State::Never)?;
                let body = self.part(node, again)?;
                self.states[again as usize] = State::Either(body, next);
                if *min == 0 {
                    return Ok(again);
                }
                (1..*min).try_fold(body, |entry, _| self.part(node, entry))
            }
            Node::Start => self.push(State::If(Place::Start, next)),
            Node::End => self.push(State::If(Place::End, next)),
            Node::Word(true) => self.push(State::If(Place::Boundary, next)),
            Node::Word(false) => self.push(State::If(Place::NoBoundary, next)),
            Node::Ahead { node, negative: false, .. } => {
                let ahead = self.part(node, MATCH)?;
                self.all(&[ahead, next])
            }
            Node::Ahead { node, negative: true, at } => {
                let key: *const Node = &**node;
                let ahead = match self.negated.get(&key) {
                    Some(start) => *start,
                    None => self.without(node, *at)?,
                };
                self.negated.insert(key, ahead);
                self.all(&[ahead, next])
            }
        }
    }

    /// The start state for all texts without a prefix that matches `node`.
    // Not inlined into `part`, whose frame is on the stack once for each level.
    #[inline(never)]
    fn without(&mut self, node: &Node, at: usize) -> Result<u32, PatternError> {
        if depends_on_prefix(node) {
            let what = "^, \\b and \\B are not allowed inside a negative lookahead unless it follows the `^` \
                        that the pattern starts with; move it there";
            return Err(PatternError::new(Kind::Unsupported, at, what));
        }
        let inner = graph(node, self.sets, self.bytes)?;
        self.charge(inner.steps + TABLE_STEPS)?;
        let table = Dfa::of(&inner, self.bytes, true, NEGATED).ok_or_else(|| {
            let what = "is too large inside this negative lookahead; move it after the `^` that the pattern \
                        starts with, or write what is allowed instead";
            PatternError::limit(at, what)
        })?;
        self.cells += inner.cells + table.state_count();
        // The states of the table become states of the automaton, in order from here on.
        let base = self.states.len() as u32;
        let place = |state: usize| match state {
            // `node` can no longer match, so every text is accepted.
            TABLE_NEVER => MATCH,
            TABLE_MATCH => NEVER,
            state => base + state as u32 - 2,
        };
        for _ in 2..table.len() {
            self.push(State::Never)?;
        }
        for state in 2..table.len() {
            let mut targets: Vec<(usize, Kinds)> = Vec::new();
            for kind in 0..self.bytes.len() {
                let target = table.next(state, kind);
                let index = targets.iter().position(|(t, _)| *t == target).unwrap_or_else(|| {
                    targets.push((target, Kinds::default()));
                    targets.len() - 1
                });
                targets[index].1[kind / 64] |= 1 << (kind % 64);
            }
            let mut entry = NEVER;
            if !table.matches_at_end(state) {
                entry = self.push(State::If(Place::End, MATCH))?;
            }
            for (target, kinds) in targets {
                if target != TABLE_MATCH {
                    let take = self.push(State::Take(kinds, place(target)))?;
                    entry = self.push(State::Either(take, entry))?;
                }
            }
            self.states[place(state) as usize] = State::Either(entry, NEVER);
        }
        Ok(place(table.start()))
    }

    /// The conjunction of these states.
    fn all(&mut self, states: &[u32]) -> Result<u32, PatternError> {
        let mut members = Vec::with_capacity(states.len());
        for &state in states {
            match self.conjunction_of.get(&state) {
                Some(number) => members.extend(&self.members[*number as usize]),
                None => members.push(state),
            }
        }
        members.sort_unstable();
        members.dedup();
        if members.contains(&NEVER) {
            return Ok(NEVER);
        }
        // A matched member has no more conditions.
        members.retain(|m| *m != MATCH);
        self.steps += members.len();
        if self.steps > 8 * STATES {
            return Err(conflicting_assertions());
        }
        match members.as_slice() {
            [] => return Ok(MATCH),
            [only] => return Ok(*only),
            _ => {}
        }
        if let Some(state) = self.states_of.get(&members) {
            return Ok(*state);
        }
        if self.states.len() == STATES {
            return Err(conflicting_assertions());
        }
        let number = self.members.len() as u32;
        let state = self.push(State::All(number))?;
        self.members.push(members.clone());
        self.states_of.insert(members, state);
        self.conjunction_of.insert(state, number);
        Ok(state)
    }

    /// Replaces every conjunction by other states.
    fn resolve_conjunctions(&mut self) -> Result<(), PatternError> {
        let mut next = 0;
        while next < self.members.len() {
            let members = self.members[next].clone();
            let state = self.states_of.get(&members).copied().unwrap_or(NEVER);
            self.states[state as usize] = self.step(&members)?;
            next += 1;
        }
        Ok(())
    }

    /// The next step of a conjunction.
    fn step(&mut self, members: &[u32]) -> Result<State, PatternError> {
        let mut common: Kinds = [u64::MAX; 4];
        let mut targets = Vec::with_capacity(members.len());
        for (index, member) in members.iter().enumerate() {
            let instead = |builder: &mut Self, state: u32| {
                let mut members = members.to_vec();
                members[index] = state;
                builder.all(&members)
            };
            match self.states[*member as usize] {
                State::Take(kinds, target) => {
                    common.iter_mut().zip(kinds).for_each(|(c, k)| *c &= k);
                    targets.push(target);
                }
                State::Either(a, b) => {
                    let a = instead(self, a)?;
                    return Ok(State::Either(a, instead(self, b)?));
                }
                State::If(place, target) => return Ok(State::If(place, instead(self, target)?)),
                // OK because members are neither; a conjunction with one could not match.
                State::Match | State::Never | State::All(_) => return Ok(State::Never),
            }
        }
        if common == Kinds::default() {
            return Ok(State::Never);
        }
        Ok(State::Take(common, self.all(&targets)?))
    }
}

/// Returns `true` if the match of a part depends on the text before it.
fn depends_on_prefix(node: &Node) -> bool {
    match node {
        Node::Start | Node::Word(_) => true,
        Node::CharSet(_) | Node::End => false,
        Node::Concat(nodes) | Node::Alt(nodes) => nodes.iter().any(depends_on_prefix),
        Node::Repeat { node, .. } | Node::Ahead { node, .. } => depends_on_prefix(node),
    }
}

/// The bytes of some kinds, as sorted ranges.
pub(super) fn byte_ranges(kinds: &Kinds, bytes: &[u8]) -> Vec<(u8, u8)> {
    let mut taken: Vec<u8> = (0..bytes.len()).filter(|k| has(kinds, *k)).map(|k| bytes[k]).collect();
    taken.sort_unstable();
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    for byte in taken {
        match ranges.last_mut() {
            Some(last) if last.1 + 1 == byte => last.1 = byte,
            _ => ranges.push((byte, byte)),
        }
    }
    ranges
}

fn too_large() -> PatternError {
    PatternError::limit(
        0,
        format!(
            "needs more than {STATES} states with its repetitions expanded; use minLength and maxLength instead of large counts"
        ),
    )
}

fn conflicting_assertions() -> PatternError {
    PatternError::limit(
        0,
        format!(
            "needs more than {STATES} states because of its lookaheads; put them directly after the leading `^`"
        ),
    )
}
