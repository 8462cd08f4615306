//! Leftmost-greedy match of a URI template against a URI.
//!
//! Depth-first search without recursion: each variable first takes the longest text, and then one
//! character less at a time while the rest of the template does not match.
//!
//! # Invariants
//! - A row is entered at most once at each position: a second entry would fail as the first did.
//!   So the time is bounded by rows times length of the URI, except for expressions with names,
//!   which read each parameter at most [`UriTemplate::MAX_VARIABLES`] times.
//! - `path` has at most one choice for each row.
//! - Values consist of whole characters ([`character`]), so decoding a value cannot fail.

use super::percent::{before, character, decode, literal_at};
use super::{Op, Part, UriTemplate};

/// Row of a template: the smallest piece that the search decides on.
#[derive(Clone, Copy)]
enum Row<'t> {
    Literal(&'t [u8]),
    /// Start of an expression without names. Its values follow; `end` is the row after them.
    Open {
        op: Op,
        end: usize,
    },
    /// Value of one variable of such an expression.
    Value {
        op: Op,
        var: u8,
        end: usize,
    },
    /// Whole expression with names: its parameters come in any order.
    Named {
        op: Op,
        vars: &'t [u8],
    },
}

/// A row on the current path, and the part of the URI that it takes.
struct Choice {
    row: usize,
    start: usize,
    end: usize,
    /// Number of ways to continue at `end` that were tried.
    tried: u8,
    /// Parameters of a [`Row::Named`] up to `end`.
    parameters: Vec<Parameter>,
}

/// A parameter in the URI.
struct Parameter {
    var: u8,
    /// Start of the value.
    value: usize,
    /// Shortest and longest end.
    least: usize,
    most: usize,
}

/// Value of a variable according to its occurrences.
#[derive(Clone, PartialEq)]
enum Occurrence {
    Unread,
    /// Undefined or empty: an empty `{x}` does not show which.
    Blank,
    Undefined,
    Text(String),
}

/// The search in one URI.
pub(super) struct Search<'t> {
    names: &'t [Box<str>],
    uri: &'t [u8],
    rows: Vec<Row<'t>>,
    path: Vec<Choice>,
    /// One bit for each row and position that was entered.
    entered: Vec<u64>,
    /// Number of characters, names and choices visited, which the tests bound.
    #[cfg(test)]
    pub(super) steps: std::cell::Cell<usize>,
}

impl<'t> Search<'t> {
    pub(super) fn new(parts: &'t [Part], names: &'t [Box<str>], uri: &'t [u8]) -> Search<'t> {
        let mut rows = Vec::with_capacity(parts.len() + UriTemplate::MAX_VARIABLES);
        for part in parts {
            match part {
                Part::Literal(text) => rows.push(Row::Literal(text.as_bytes())),
                Part::Expression { op, vars } if op.named() => rows.push(Row::Named { op: *op, vars }),
                Part::Expression { op, vars } => {
                    let (op, end) = (*op, rows.len() + 1 + vars.len());
                    rows.push(Row::Open { op, end });
                    rows.extend(vars.iter().map(|&var| Row::Value { op, var, end }));
                }
            }
        }
        Search {
            names,
            uri,
            path: Vec::with_capacity(rows.len()),
            entered: vec![0; (rows.len() * (uri.len() + 1)).div_ceil(64)],
            rows,
            #[cfg(test)]
            steps: std::cell::Cell::new(0),
        }
    }

    /// Returns the values by index of name, or `None` if the URI does not match or the occurrences
    /// of a variable differ.
    pub(super) fn run(mut self) -> Option<Vec<Option<String>>> {
        self.find().then(|| self.read())?
    }

    /// Finds the first path to the end of the URI, the longest values first.
    pub(super) fn find(&mut self) -> bool {
        let mut next = Some((0, 0));
        loop {
            match next {
                Some((row, at)) if row == self.rows.len() => {
                    if at == self.uri.len() {
                        return true;
                    }
                }
                Some((row, at)) => self.enter(row, at),
                None => _ = self.path.pop(),
            }
            let Some(mut choice) = self.path.pop() else { return false };
            next = self.advance(&mut choice);
            self.path.push(choice);
        }
    }

    /// Returns `true` the first time for each row and position.
    fn visit(&mut self, row: usize, at: usize) -> bool {
        self.spend(1);
        let bit = row * (self.uri.len() + 1) + at;
        let (word, mask) = (&mut self.entered[bit / 64], 1 << (bit % 64));
        let first = *word & mask == 0;
        *word |= mask;
        first
    }

    /// Puts a row on the path with the longest text that it can take.
    fn enter(&mut self, row: usize, start: usize) {
        if !self.visit(row, start) {
            return;
        }
        let mut choice = Choice { row, start, end: start, tried: 0, parameters: Vec::new() };
        match self.rows[row] {
            Row::Literal(_) | Row::Open { .. } => {}
            Row::Value { op, .. } => {
                while let Some(length) = character(self.uri, choice.end, op.reserved()) {
                    if !self.visit(row, choice.end + length) {
                        break;
                    }
                    choice.end += length;
                }
            }
            Row::Named { op, vars } => {
                choice.parameters = self.parameters(start, op, vars);
                choice.end = choice.parameters.last().map_or(start, |last| last.most);
            }
        }
        self.path.push(choice);
    }

    /// Returns the next row and position to try after this choice, which gets shorter meanwhile.
    fn advance(&self, choice: &mut Choice) -> Option<(usize, usize)> {
        let Choice { row, start, .. } = *choice;
        loop {
            self.spend(1);
            let here = self.uri.get(choice.end).copied();
            choice.tried += 1;
            let next = match (self.rows[row], choice.tried) {
                (Row::Literal(text), 1) => {
                    self.spend(text.len());
                    literal_at(text, &self.uri[start..]).map(|length| (row + 1, start + length))
                }
                (Row::Open { op, .. }, 1) => match op.prefix() {
                    None => Some((row + 1, start)),
                    prefix => (here == prefix).then_some((row + 1, start + 1)),
                },
                (Row::Open { op, end }, 2) => op.prefix().map(|_| (end, start)),
                (Row::Value { op, end, .. }, 1) => {
                    let listed = here == Some(op.separator()) && row + 1 < end;
                    listed.then_some((row + 1, choice.end + 1))
                }
                (Row::Value { end, .. }, 2) => Some((end, choice.end)),
                (Row::Named { .. }, 1) => Some((row + 1, choice.end)),
                (Row::Literal(_) | Row::Open { .. }, _) => return None,
                (Row::Value { .. } | Row::Named { .. }, _) if !self.shorten(choice) => return None,
                (Row::Value { .. } | Row::Named { .. }, _) => None,
            };
            if next.is_some() {
                return next;
            }
        }
    }

    /// Takes one character less; returns `false` if the text is empty already.
    fn shorten(&self, choice: &mut Choice) -> bool {
        choice.tried = 0;
        let Row::Named { .. } = self.rows[choice.row] else {
            let shorter = choice.end > choice.start;
            if shorter {
                choice.end = before(self.uri, choice.end);
            }
            return shorter;
        };
        let Some(last) = choice.parameters.last() else { return false };
        if choice.end > last.least {
            choice.end = before(self.uri, choice.end);
            if choice.end == last.value {
                // `;x` has no `=` if the value is empty, `?x=` has.
                choice.end = last.least;
            }
        } else {
            choice.parameters.pop();
            choice.end = choice.parameters.last().map_or(choice.start, |last| last.most);
        }
        true
    }

    /// Reads the parameters of an expression with names, each variable once.
    fn parameters(&self, start: usize, op: Op, vars: &[u8]) -> Vec<Parameter> {
        let (mut left, mut found) = (vars.to_vec(), Vec::new());
        let (mut at, mut mark) = (start, op.prefix());
        while self.uri.get(at).copied() == mark {
            let Some((index, name_end)) = self.name_at(at + 1, op, &left) else { break };
            let var = left.swap_remove(index);
            let value = name_end + 1;
            let least = if op == Op::Parameter { name_end } else { value };
            let mut most = least;
            if self.uri.get(name_end) == Some(&b'=') {
                let mut end = value;
                while let Some(length) = character(self.uri, end, false) {
                    self.spend(1);
                    end += length;
                    most = end;
                }
            }
            found.push(Parameter { var, value, least, most });
            (at, mark) = (most, Some(op.separator()));
        }
        found
    }

    /// Finds the longest of these names at a position, with its `=` where one must follow. Returns
    /// its index and its end.
    fn name_at(&self, at: usize, op: Op, vars: &[u8]) -> Option<(usize, usize)> {
        let ends = vars.iter().enumerate().filter_map(|(index, &var)| {
            let name = self.names[usize::from(var)].as_bytes();
            self.spend(name.len());
            let end = at + literal_at(name, self.uri.get(at..)?)?;
            let complete = op == Op::Parameter || self.uri.get(end) == Some(&b'=');
            complete.then_some((index, end))
        });
        ends.max_by_key(|&(_, end)| end)
    }

    /// Reads the values along the path.
    fn read(&self) -> Option<Vec<Option<String>>> {
        let mut values = vec![Occurrence::Unread; self.names.len()];
        let undefined = |values: &mut [Occurrence], from: usize, to: usize| {
            let rows = self.rows[from..to].iter();
            let mut vars =
                rows.filter_map(|row| if let Row::Value { var, .. } = row { Some(*var) } else { None });
            vars.try_for_each(|var| merge_occurrence(&mut values[usize::from(var)], Occurrence::Undefined))
        };
        for (index, choice) in self.path.iter().enumerate() {
            let next = self.path.get(index + 1).map_or(self.rows.len(), |next| next.row);
            match self.rows[choice.row] {
                Row::Open { end, .. } if next == end => undefined(&mut values, choice.row + 1, end)?,
                Row::Literal(_) | Row::Open { .. } => {}
                Row::Value { op, var, end } => {
                    let first = matches!(self.rows[choice.row - 1], Row::Open { .. });
                    let value = match first && next == end && choice.start == choice.end {
                        true if op.prefix().is_none() && end == choice.row + 1 => Occurrence::Blank,
                        true if op.prefix().is_none() => Occurrence::Undefined,
                        _ => Occurrence::Text(decode(&self.uri[choice.start..choice.end])?),
                    };
                    merge_occurrence(&mut values[usize::from(var)], value)?;
                    if next == end {
                        undefined(&mut values, choice.row + 1, end)?;
                    }
                }
                Row::Named { vars, .. } => self.read_parameters(choice, vars, &mut values)?,
            }
        }
        let text = |value| if let Occurrence::Text(text) = value { Some(text) } else { None };
        Some(values.into_iter().map(text).collect())
    }

    fn read_parameters(&self, choice: &Choice, vars: &[u8], values: &mut [Occurrence]) -> Option<()> {
        let mut left = vars.to_vec();
        for (index, parameter) in choice.parameters.iter().enumerate() {
            let last = index + 1 == choice.parameters.len();
            let end = if last { choice.end } else { parameter.most };
            let value = decode(&self.uri[parameter.value.min(end)..end])?;
            left.swap_remove(left.iter().position(|&var| var == parameter.var)?);
            merge_occurrence(&mut values[usize::from(parameter.var)], Occurrence::Text(value))?;
        }
        left.iter()
            .try_for_each(|&var| merge_occurrence(&mut values[usize::from(var)], Occurrence::Undefined))
    }

    fn spend(&self, _steps: usize) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + _steps);
    }
}

/// Adds an occurrence of a variable; returns `None` if it contradicts an earlier one.
fn merge_occurrence(before: &mut Occurrence, now: Occurrence) -> Option<()> {
    let may_be_blank = |value: &Occurrence| match value {
        Occurrence::Text(text) => text.is_empty(),
        _ => true,
    };
    match (&*before, &now) {
        (Occurrence::Unread, _) => *before = now,
        (Occurrence::Blank, _) if may_be_blank(&now) => *before = now,
        (_, Occurrence::Blank) if may_be_blank(before) => {}
        _ if *before == now => {}
        _ => return None,
    }
    Some(())
}
