//! Deterministic automaton: a table with a row for each state and a column for each kind of
//! character and the end of the text.
//!
//! regex-automata's lazy automaton makes an automaton deterministic while it searches a text. Here
//! all of its states are requested at compile time and stored. Running the table allocates nothing
//! and takes one or two nanoseconds for each character.
//! Invariants: a table is complete. [`MATCH`] and [`NEVER`] have no rows: the result is known
//! regardless of the rest of the text. No other state has this property.
//! follows.

use std::collections::HashMap;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::DFA;
use regex_automata::nfa::thompson::{Builder, NFA, Transition};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;

use super::char_classes::CharClasses;
use super::nfa::{Nfa, Place, State, byte_ranges};

/// State after which no match is possible.
pub(super) const NEVER: usize = 0;
/// State after a match.
pub(super) const MATCH: usize = 1;

/// Cache limit of the lazy automaton, in bytes, while a table is built or a text is searched.
const CACHE: usize = 256 << 10;

/// Converts an automaton to the engine's form. With `anchored` it matches only at the start of the
/// text.
pub(super) fn nfa(graph: &Nfa, bytes: &[u8], anchored: bool) -> Option<NFA> {
    // Only reachable states, numbered in the order of discovery, like the engine's.
    let mut numbers: HashMap<u32, usize> = HashMap::from([(graph.start, 0)]);
    let mut order = vec![graph.start];
    let mut builder = Builder::new();
    builder.start_pattern().ok()?;
    let mut done = 0;
    while let Some(&state) = order.get(done) {
        let mut number = |state: u32| {
            let next = order.len();
            let number = *numbers.entry(state).or_insert(next);
            if number == next {
                order.push(state);
            }
            StateID::new(number).ok()
        };
        let added = match graph.states.get(state as usize)? {
            State::Match => builder.add_match(),
            State::Never | State::All(_) => builder.add_fail(),
            State::Either(a, b) => builder.add_union(vec![number(*a)?, number(*b)?]),
            State::If(place, next) => {
                let look = match place {
                    Place::Start => Look::Start,
                    Place::End => Look::End,
                    Place::Boundary => Look::WordAscii,
                    Place::NoBoundary => Look::WordAsciiNegate,
                };
                builder.add_look(number(*next)?, look)
            }
            State::Take(kinds, next) => {
                let next = number(*next)?;
                let transition = |(start, end)| Transition { start, end, next };
                builder.add_sparse(byte_ranges(kinds, bytes).into_iter().map(transition).collect())
            }
        };
        added.ok()?;
        done += 1;
    }
    let first = StateID::ZERO;
    let mut search = first;
    if !anchored {
        // Any characters may precede a match.
        search = StateID::new(done).ok()?;
        let skip = StateID::new(done + 1).ok()?;
        builder.add_union(vec![first, skip]).ok()?;
        builder.add_range(Transition { start: 0, end: 255, next: search }).ok()?;
    }
    builder.finish_pattern(first).ok()?;
    builder.build(first, search).ok()
}

/// The lazy automaton for an automaton in the engine's form.
pub(super) fn lazy(nfa: &NFA) -> Option<DFA> {
    let config = DFA::config().cache_capacity(CACHE).skip_cache_capacity_check(true);
    DFA::builder().configure(config).build_from_nfa(nfa.clone()).ok()
}

/// A complete deterministic automaton.
#[derive(Debug)]
pub(super) struct Dfa {
    /// Rows of the states from 2 on.
    cells: Cells,
    /// Number of columns: one for each kind, and one for the end.
    columns: usize,
    start: usize,
    /// Number of cells before useless states were removed: the cost of building.
    made: usize,
}

#[derive(Debug)]
enum Cells {
    Narrow(Box<[u8]>),
    Wide(Box<[u16]>),
}

impl Dfa {
    /// The table of an automaton. `None` if it needs more than this number of cells. With
    /// `anchored` it matches only at the start of the text.
    pub(super) fn of(graph: &Nfa, bytes: &[u8], anchored: bool, cells: usize) -> Option<Dfa> {
        let (rows, start) = explore(&lazy(&nfa(graph, bytes, anchored)?)?, bytes, cells)?;
        Some(Dfa::reduced(rows, bytes.len() + 1, start))
    }

    /// A table of these rows, without the states that always or never match.
    fn reduced(mut rows: Vec<usize>, columns: usize, start: usize) -> Dfa {
        let made = rows.len();
        let states = made / columns + 2;
        // The replacement of each state. States that may match are found from the end.
        let mut instead = vec![NEVER; states];
        instead[MATCH] = MATCH;
        let mut changed = true;
        while changed {
            changed = false;
            for state in (2..states).rev() {
                let row = &rows[(state - 2) * columns..(state - 1) * columns];
                if instead[state] == NEVER && row.iter().any(|next| instead[*next] != NEVER) {
                    instead[state] = state;
                    changed = true;
                }
                if instead[state] == state && row.iter().all(|next| instead[*next] == MATCH) {
                    instead[state] = MATCH;
                    changed = true;
                }
            }
        }
        // The remaining states are renumbered.
        let mut left = 2;
        for (state, place) in instead.iter_mut().enumerate().skip(2) {
            if *place == state {
                rows.copy_within((state - 2) * columns..(state - 1) * columns, (left - 2) * columns);
                *place = left;
                left += 1;
            }
        }
        rows.truncate((left - 2) * columns);
        let cells = rows.iter().map(|next| instead[*next]);
        let cells = if left <= 256 {
            Cells::Narrow(cells.map(|next| next as u8).collect())
        } else {
            Cells::Wide(cells.map(|next| next as u16).collect())
        };
        Dfa { cells, columns, start: instead[start], made }
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn state_count(&self) -> usize {
        self.made
    }

    /// Number of states, with the two without rows.
    pub(super) fn len(&self) -> usize {
        2 + match &self.cells {
            Cells::Narrow(cells) => cells.len() / self.columns,
            Cells::Wide(cells) => cells.len() / self.columns,
        }
    }

    /// The next state from a state with a row, for a character of this kind.
    pub(super) fn next(&self, state: usize, kind: usize) -> usize {
        let cell = (state - 2) * self.columns + kind;
        match &self.cells {
            Cells::Narrow(cells) => cells[cell].into(),
            Cells::Wide(cells) => cells[cell].into(),
        }
    }

    /// Returns `true` if a state with a row matches at the end of the text.
    pub(super) fn matches_at_end(&self, state: usize) -> bool {
        self.next(state, self.columns - 1) == MATCH
    }

    /// Returns `true` if the text matches.
    pub(super) fn is_match(&self, alphabet: &CharClasses, text: &str) -> bool {
        match &self.cells {
            Cells::Narrow(cells) => run(cells, self.columns, self.start, alphabet, text),
            Cells::Wide(cells) => run(cells, self.columns, self.start, alphabet, text),
        }
    }
}

/// Runs a text through the cells of a table.
fn run<T: Copy + Into<usize>>(
    cells: &[T],
    columns: usize,
    start: usize,
    alphabet: &CharClasses,
    text: &str,
) -> bool {
    let mut state = start;
    let mut at = 0;
    while let (Some(b), true) = (text.as_bytes().get(at), state > MATCH) {
        let kind = match alphabet.kind_of_ascii(*b) {
            Some(kind) => {
                at += 1;
                kind
            }
            None => {
                let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) else { break };
                at += c.len_utf8();
                alphabet.kind(c)
            }
        };
        state = cells[(state - 2) * columns + kind].into();
    }
    if state > MATCH {
        state = cells[(state - 1) * columns - 1].into();
    }
    state == MATCH
}

/// Requests all states of the lazy automaton: their rows and the first state. `None` if that takes
/// more than this number of cells.
fn explore(dfa: &DFA, bytes: &[u8], limit: usize) -> Option<(Vec<usize>, usize)> {
    let mut cache = dfa.create_cache();
    let mut found = Found { numbers: HashMap::new(), order: Vec::new() };
    let first = dfa.start_state(&mut cache, &start::Config::new()).ok()?;
    let start = found.number(first);
    let mut rows = Vec::new();
    let mut done = 0;
    while let Some(&state) = found.order.get(done) {
        for byte in bytes {
            let next = dfa.next_state(&mut cache, state, *byte).ok()?;
            // Clearing the cache invalidates all known states.
            if cache.clear_count() > 0 {
                return None;
            }
            rows.push(found.number(next));
        }
        let end = dfa.next_eoi_state(&mut cache, state).ok()?;
        if cache.clear_count() > 0 || found.order.len() * (bytes.len() + 1) > limit {
            return None;
        }
        rows.push(if end.is_match() { MATCH } else { NEVER });
        done += 1;
    }
    Some((rows, start))
}

/// States of the lazy automaton with rows, in order of discovery.
struct Found {
    numbers: HashMap<LazyStateID, usize>,
    order: Vec<LazyStateID>,
}

impl Found {
    fn number(&mut self, state: LazyStateID) -> usize {
        if state.is_dead() {
            return NEVER;
        }
        if state.is_match() {
            return MATCH;
        }
        let next = self.order.len() + 2;
        let number = *self.numbers.entry(state).or_insert(next);
        if number == next {
            self.order.push(state);
        }
        number
    }
}
