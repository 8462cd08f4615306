//! Table that matches a URI against a template.
//!
//! Each piece of the template is a row, each position in the URI a column. A cell scores the best
//! reading of the rest of the URI from there. The table is filled from the end; then the best path
//! is read from the start.
//!
//! # Invariants
//!
//! - A cell looks only at cells further down or further right, so filling needs one pass.
//! - [`Table::best`] and [`Table::best_block`] both fill cells and read the path, so the path read
//!   is the path counted.
//! - A cell is 0 if the rest cannot be read. Otherwise it is one more than the number of variables
//!   that the best reading of the rest defines; [`UriTemplate::MAX_VARIABLES`] keeps that within a
//!   byte.
//! - Values are consumed by whole characters ([`character`]), so decoding a value cannot fail.

use super::percent::{character, decode, literal_at};
use super::{Op, Part, UriTemplate};

/// One row of the table.
#[derive(Clone, Copy)]
enum Row<'t> {
    Literal(&'t [u8]),
    /// Before an expression without names; its values follow, `end` is the row after them.
    Open {
        op: Op,
        end: usize,
    },
    /// Inside the value of one variable of such an expression.
    Value {
        op: Op,
        var: u8,
        end: usize,
    },
    /// An expression with names, as a whole: its parameters come in any order.
    Named {
        op: Op,
        vars: &'t [u8],
    },
}

/// Step of the path from a cell, and the score of the rest.
#[derive(Clone, Copy)]
struct Move {
    score: u8,
    row: usize,
    at: usize,
}

const DEAD: Move = Move { score: 0, row: 0, at: 0 };

/// A parameter as it stands in the URI, from its mark (`;`, `?` or `&`) on.
struct Parameter {
    at: usize,
    var: Option<u8>,
    /// Start of the value if it is not empty.
    value: usize,
    /// The best place to leave the expression within this parameter, and what the rest is then
    /// worth.
    end: usize,
    score: u8,
    /// The value reaches to the mark of the next parameter.
    linked: bool,
}

/// Value of a variable according to its occurrences.
#[derive(Clone, PartialEq)]
enum Said {
    /// No occurrence was read yet.
    Nothing,
    /// Undefined or empty: `{x}` leaves no trace of which.
    Blank,
    Undefined,
    Text(String),
}

/// The filled table for one URI.
pub(super) struct Table<'t> {
    names: &'t [Box<str>],
    uri: &'t [u8],
    rows: Vec<Row<'t>>,
    scores: Vec<u8>,
    /// Number of cells, bytes and parameters visited, which the tests bound.
    #[cfg(test)]
    pub(super) steps: std::cell::Cell<usize>,
}

impl<'t> Table<'t> {
    pub(super) fn fill(parts: &'t [Part], names: &'t [Box<str>], uri: &'t [u8]) -> Table<'t> {
        let mut rows = Vec::with_capacity(2 * parts.len() + UriTemplate::MAX_VARIABLES);
        for part in parts {
            match part {
                Part::Literal(text) => rows.push(Row::Literal(text.as_bytes())),
                Part::Expression { op, vars } if op.named() => {
                    rows.push(Row::Named { op: *op, vars });
                }
                Part::Expression { op, vars } => {
                    let op = *op;
                    let end = rows.len() + 1 + vars.len();
                    rows.push(Row::Open { op, end });
                    rows.extend(vars.iter().map(|&var| Row::Value { op, var, end }));
                }
            }
        }
        let mut table = Table {
            names,
            uri,
            scores: vec![0; (rows.len() + 1) * (uri.len() + 1)],
            rows,
            #[cfg(test)]
            steps: std::cell::Cell::new(0),
        };
        table.set(table.rows.len(), uri.len(), 1);
        for row in (0..table.rows.len()).rev() {
            if let Row::Named { op, vars } = table.rows[row] {
                let found = table.parameters(row, op, vars);
                let mut next = found.len();
                for at in 0..=uri.len() {
                    // Parameters are listed from the right; this keeps pace from the left.
                    while next > 0 && found[next - 1].at < at {
                        next -= 1;
                    }
                    let here = next.checked_sub(1).filter(|&i| found[i].at == at);
                    let (best, _) = table.best_block(row, at, op, vars, &found, here);
                    table.set(row, at, best.score);
                }
            } else {
                for at in (0..=uri.len()).rev() {
                    let score = table.best(row, at).score;
                    table.set(row, at, score);
                }
            }
        }
        table
    }

    /// The values by index of name, read along the best path; `None` when there is none, or when
    /// the occurrences of one variable disagree.
    pub(super) fn read(&self) -> Option<Vec<Option<String>>> {
        if self.score(0, 0) == 0 {
            return None;
        }
        let mut said = vec![Said::Nothing; self.names.len()];
        let (mut row, mut at, mut start) = (0, 0, 0);
        while row < self.rows.len() {
            let step = self.best(row, at);
            match self.rows[row] {
                Row::Literal(_) => {}
                Row::Named { op, vars } => {
                    at = self.read_block(row, at, op, vars, &mut said)?;
                    row += 1;
                    continue;
                }
                Row::Open { op, end } if step.row == end => {
                    if op.prefix().is_none() && end == row + 2 {
                        self.say(row + 1, Said::Blank, &mut said)?;
                    } else {
                        self.undefined(row + 1, end, &mut said)?;
                    }
                }
                Row::Open { op, .. } => {
                    start = if op.prefix().is_some() { step.at } else { at };
                    if step.row == row + 2 {
                        self.say(row + 1, Said::Text(String::new()), &mut said)?;
                        start = step.at;
                    }
                }
                Row::Value { .. } if step.row == row => {}
                Row::Value { end, .. } => {
                    let value = Said::Text(decode(&self.uri[start..at])?);
                    self.say(row, value, &mut said)?;
                    start = step.at;
                    if step.row == end {
                        self.undefined(row + 1, end, &mut said)?;
                    }
                }
            }
            (row, at) = (step.row, step.at);
        }
        let text = |said| match said {
            Said::Text(text) => Some(text),
            Said::Nothing | Said::Blank | Said::Undefined => None,
        };
        Some(said.into_iter().map(text).collect())
    }

    fn score(&self, row: usize, at: usize) -> u8 {
        self.scores[row * (self.uri.len() + 1) + at]
    }

    fn set(&mut self, row: usize, at: usize, score: u8) {
        self.scores[row * (self.uri.len() + 1) + at] = score;
    }

    fn spend(&self, _steps: usize) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + _steps);
    }

    /// A move that defines `defined` variables on the way to a cell.
    fn to(&self, row: usize, at: usize, defined: u8) -> Move {
        match self.score(row, at) {
            0 => DEAD,
            score => Move { score: score + defined, row, at },
        }
    }

    /// The best move from a cell of any row but [`Row::Named`]. Of equals the first wins, and the
    /// longer text comes first.
    fn best(&self, row: usize, at: usize) -> Move {
        self.spend(1);
        let here = self.uri.get(at).copied();
        let mut best = DEAD;
        let mut offer = |candidate: Move| {
            if candidate.score > best.score {
                best = candidate;
            }
        };
        match self.rows[row] {
            Row::Literal(text) => {
                self.spend(text.len());
                if let Some(length) = literal_at(text, &self.uri[at..]) {
                    offer(self.to(row + 1, at + length, 0));
                }
            }
            Row::Open { op, end } => {
                match op.prefix() {
                    Some(prefix) if here == Some(prefix) => offer(self.to(row + 1, at + 1, 1)),
                    Some(_) => {}
                    None => {
                        if let Some(length) = character(self.uri, at, op.reserved()) {
                            offer(self.to(row + 1, at + length, 1));
                        }
                        if here == Some(op.separator()) && row + 2 < end {
                            offer(self.to(row + 2, at + 1, 2));
                        }
                    }
                }
                offer(self.to(end, at, 0));
            }
            Row::Value { op, end, .. } => {
                if let Some(length) = character(self.uri, at, op.reserved()) {
                    offer(self.to(row, at + length, 0));
                }
                if here == Some(op.separator()) && row + 1 < end {
                    offer(self.to(row + 1, at + 1, 1));
                }
                offer(self.to(end, at, 0));
            }
            Row::Named { .. } => {}
        }
        best
    }

    /// Everything in the URI that starts like a parameter of this expression, from the right.
    fn parameters(&self, row: usize, op: Op, vars: &[u8]) -> Vec<Parameter> {
        let marks = [op.prefix(), Some(op.separator())];
        let mut found: Vec<Parameter> = Vec::new();
        for at in (0..self.uri.len()).rev() {
            self.spend(1);
            if !marks.contains(&Some(self.uri[at])) {
                continue;
            }
            let (var, name_end) = match self.name_at(at + 1, op, vars) {
                Some((var, end)) => (Some(var), end),
                None => (None, at + 1),
            };
            let mut parameter =
                Parameter { at, var, value: name_end + 1, end: name_end, score: 0, linked: false };
            let mut reach = name_end;
            if var.is_some() {
                let equals = self.uri.get(name_end) == Some(&b'=');
                // `;x` has no `=` when the value is empty, `?x=` has.
                if op == Op::Parameter {
                    parameter.score = self.score(row + 1, name_end);
                } else {
                    reach = parameter.value;
                    parameter.end = reach;
                    parameter.score = self.score(row + 1, reach);
                }
                let mut next = parameter.value;
                while let Some(length) = character(self.uri, next, false).filter(|_| equals) {
                    self.spend(1);
                    next += length;
                    reach = next;
                    if self.score(row + 1, next) >= parameter.score {
                        parameter.end = next;
                        parameter.score = self.score(row + 1, next);
                    }
                }
                parameter.linked = self.uri.get(reach) == Some(&op.separator());
            }
            found.push(parameter);
        }
        found
    }

    /// The longest name of the expression that stands here, with its `=` where one must follow.
    fn name_at(&self, at: usize, op: Op, vars: &[u8]) -> Option<(u8, usize)> {
        let mut best: Option<(u8, usize)> = None;
        for &var in vars {
            let name = self.names[usize::from(var)].as_bytes();
            self.spend(name.len());
            let Some(length) = literal_at(name, &self.uri[at..]) else {
                continue;
            };
            let end = at + length;
            let complete = op == Op::Parameter || self.uri.get(end) == Some(&b'=');
            if complete && best.is_none_or(|(_, longest)| end > longest) {
                best = Some((var, end));
            }
        }
        best
    }

    /// The best move past an expression with names, and the last parameter it takes. `here` is
    /// the index of the parameter that starts at this place.
    fn best_block(
        &self,
        row: usize,
        at: usize,
        op: Op,
        vars: &[u8],
        found: &[Parameter],
        here: Option<usize>,
    ) -> (Move, Option<usize>) {
        self.spend(1);
        let mut best = (self.to(row + 1, at, 0), None);
        if self.uri.get(at).copied() != op.prefix() {
            return best;
        }
        let mut left = [0u8; UriTemplate::MAX_VARIABLES];
        for &var in vars {
            left[usize::from(var)] += 1;
        }
        // Parameters are listed from the right, so the next one in the URI is the one before.
        let chain = found[..here.map_or(0, |i| i + 1)].iter().enumerate().rev();
        for (defined, (index, parameter)) in (1u8..).zip(chain) {
            self.spend(1);
            let Some(var) = parameter.var.map(usize::from) else {
                break;
            };
            // A name that comes once too often belongs to whatever follows the expression.
            if left[var] == 0 {
                break;
            }
            left[var] -= 1;
            let step = self.to(row + 1, parameter.end, defined);
            if step.score > 0 && step.score >= best.0.score {
                best = (step, Some(index));
            }
            if !parameter.linked {
                break;
            }
        }
        best
    }

    /// Records the parameters of an expression with names. Returns the position after it.
    fn read_block(&self, row: usize, at: usize, op: Op, vars: &[u8], said: &mut [Said]) -> Option<usize> {
        let found = self.parameters(row, op, vars);
        let here = found.iter().position(|p| p.at == at);
        let (step, last) = self.best_block(row, at, op, vars, &found, here);
        let mut left: Vec<u8> = vars.to_vec();
        if let (Some(first), Some(last)) = (here, last) {
            for index in (last..=first).rev() {
                let parameter = &found[index];
                let end = if index == last { parameter.end } else { found[index - 1].at };
                let var = parameter.var?;
                left.swap_remove(left.iter().position(|&v| v == var)?);
                let value = parameter.value.min(end)..end;
                let value = Said::Text(decode(&self.uri[value])?);
                agree(&mut said[usize::from(var)], value)?;
            }
        }
        for var in left {
            agree(&mut said[usize::from(var)], Said::Undefined)?;
        }
        Some(step.at)
    }

    /// Records the value of the variable of one row.
    fn say(&self, row: usize, now: Said, said: &mut [Said]) -> Option<()> {
        match self.rows[row] {
            Row::Value { var, .. } => agree(&mut said[usize::from(var)], now),
            _ => Some(()),
        }
    }

    /// Records that the variables of these rows are undefined.
    fn undefined(&self, from: usize, to: usize, said: &mut [Said]) -> Option<()> {
        (from..to).try_for_each(|row| self.say(row, Said::Undefined, said))
    }
}

/// Adds the value of one occurrence; `None` if it contradicts an earlier one.
fn agree(before: &mut Said, now: Said) -> Option<()> {
    let may_be_blank = |said: &Said| match said {
        Said::Text(text) => text.is_empty(),
        _ => true,
    };
    match (&*before, &now) {
        (Said::Nothing, _) => *before = now,
        (Said::Blank, _) if may_be_blank(&now) => *before = now,
        (_, Said::Blank) if may_be_blank(before) => {}
        _ if *before == now => {}
        _ => return None,
    }
    Some(())
}
