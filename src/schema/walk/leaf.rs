//! Operations that look at one value alone: lengths, bounds, words, formats.
//!
//! The common ones are kept small enough to run without a call.
//!
//! Invariant: an operation on one type lets every other type pass.

use crate::json::{Kind, Value};

use super::super::canon;
use super::super::explain::Why;
use super::super::number::{self, Decimal};
use super::super::program::{Bounds, Enum, Op, SCANNED, Span};
use super::Run;

impl<'p, 'd> Run<'p, 'd> {
    #[inline(always)]
    pub(super) fn leaf_op(&mut self, op: Op, value: Value<'d>) -> bool {
        match op {
            Op::Length { min, max } => {
                value.kind() != Kind::String
                    || has_length(value, min, max)
                    || self.fail(value, Why::Length { min, max })
            }
            Op::Words(run) => {
                value.kind() == Kind::String && self.has_word(run, value.string_bytes())
                    || self.fail(value, Why::Words(run))
            }
            Op::Bounds(index) => value.kind() != Kind::Number || self.bounds(index, value),
            _ => self.rare_op(op, value),
        }
    }

    /// The same where there are subschemas as well.
    #[inline(never)]
    pub(super) fn other_op(&mut self, op: Op, value: Value<'d>) -> bool {
        self.leaf_op(op, value)
    }

    #[inline(never)]
    fn rare_op(&mut self, op: Op, value: Value<'d>) -> bool {
        let len = value.len();
        match op {
            Op::Items { min, max } => {
                value.kind() != Kind::Array
                    || (len >= min as usize && len <= max as usize)
                    || self.fail(value, Why::Items { min, max })
            }
            Op::Members { min, max } => {
                value.kind() != Kind::Object
                    || (len >= min as usize && len <= max as usize)
                    || self.fail(value, Why::Members { min, max })
            }
            Op::Pattern(index) => match value.as_str() {
                Some(text) => self.matches(index, text) || self.fail(value, Why::Pattern(index)),
                None => true,
            },
            Op::Format(format) => match value.as_str() {
                Some(text) => {
                    self.charge(text.len() / 8);
                    format.accepts(text) || self.fail(value, Why::Format(format))
                }
                None => true,
            },
            Op::Enum(index) => self.member(index, value),
            Op::Multiple(divisor) => match value.as_number() {
                Some(text) => self.is_multiple(text, divisor) || self.fail(value, Why::Multiple(divisor)),
                None => true,
            },
            Op::Unique => self.unique(value),
            // Operations with subschemas do not come here; one that did fails closed.
            _ => false,
        }
    }

    pub(super) fn matches(&mut self, index: u32, text: &str) -> bool {
        // OK because the program is consistent; a hole in it fails closed.
        let Some(pattern) = self.program.patterns.get(index as usize) else { return false };
        self.charge(pattern.steps(text.len()));
        if self.steps == 0 {
            self.over = true;
            return false;
        }
        pattern.is_match(text)
    }

    #[inline]
    fn bounds(&mut self, index: u32, value: Value<'d>) -> bool {
        let Some(bounds) = self.program.bounds.get(index as usize) else { return false };
        match number::short_integer(value.number_bytes()) {
            Some(n) if bounds.low <= n && n <= bounds.high => true,
            _ => self.exact_bounds(bounds, value),
        }
    }

    #[inline(never)]
    fn exact_bounds(&mut self, bounds: &'p Bounds, value: Value<'d>) -> bool {
        let text = value.raw();
        self.charge(text.len() / 8);
        match self.broken_bound(bounds, text) {
            Some(which) => self.fail(value, Why::Bound(bounds, which)),
            None => true,
        }
    }

    /// The first of the four bounds that a number breaks.
    fn broken_bound(&self, bounds: &Bounds, text: &str) -> Option<usize> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let number = Decimal::new(text);
        (0..4).find(|which| {
            let bound = bounds.texts.get(*which).map_or("", |span| self.program.text(*span));
            let order = || number.compare(Decimal::new(bound));
            !bound.is_empty()
                && match which {
                    0 => order() == Less,
                    1 => matches!(order(), Less | Equal),
                    2 => order() == Greater,
                    _ => matches!(order(), Greater | Equal),
                }
        })
    }

    fn is_multiple(&mut self, text: &str, divisor: Span) -> bool {
        let divisor = self.program.text(divisor);
        if let (Ok(n), Ok(by)) = (text.parse::<i64>(), divisor.parse::<i64>()) {
            return n.checked_rem(by) == Some(0);
        }
        self.charge(text.len());
        Decimal::new(text).is_multiple_of(Decimal::new(divisor)) == Some(true)
    }

    fn has_word(&self, run: Span, text: &[u8]) -> bool {
        let pool = self.program.pool.as_bytes();
        let words = run.of(&self.program.words);
        if words.len() <= SCANNED {
            return words.iter().any(|w| w.len as usize == text.len() && canon::same(w.bytes(pool), text));
        }
        words.binary_search_by(|w| canon::compare_names(w.bytes(pool), text)).is_ok()
    }

    fn member(&mut self, index: u32, value: Value<'d>) -> bool {
        let Some(list) = self.program.enums.get(index as usize) else { return false };
        self.is_member(list, value) || self.fail(value, Why::Enum(list))
    }

    fn is_member(&mut self, list: &Enum, value: Value<'d>) -> bool {
        match value.kind() {
            Kind::Null => list.null,
            Kind::Bool => list.booleans[usize::from(value.as_bool() == Some(true))],
            Kind::String => self.has_word(list.words, value.string_bytes()),
            Kind::Number => {
                self.charge(value.raw().len() / 8);
                let number = Decimal::new(value.raw());
                let pool = &self.program.pool;
                let numbers = list.numbers.of(&self.program.words);
                numbers.binary_search_by(|n| Decimal::new(n.text(pool)).compare(number)).is_ok()
            }
            Kind::Array | Kind::Object => {
                if list.forms.is_empty() {
                    return false;
                }
                self.charge(value.raw().len() / 8);
                let mut form = Vec::new();
                canon::append(value, &mut form);
                list.forms.binary_search_by(|known| (**known).cmp(&form)).is_ok()
            }
        }
    }
}

/// Whether a string has so many characters; counts no further than it must.
#[inline]
fn has_length(value: Value<'_>, min: u32, max: u32) -> bool {
    let (bytes, min, max) = (value.string_bytes().len(), min as usize, max as usize);
    // A character takes one to four bytes.
    if bytes <= max && bytes.div_ceil(4) >= min {
        return true;
    }
    if bytes < min || bytes.div_ceil(4) > max {
        return false;
    }
    let count = value.as_str().unwrap_or_default().chars().count();
    count >= min && count <= max
}
