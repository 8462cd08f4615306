//! Operations on a value alone, without its parts: lengths, bounds, enums, formats.
//!
//! Every value runs the check; a value that fails also runs the description of its faults.
//!
//! Invariant: an operation for one type accepts every other type, except enums and consts.

use crate::json::{Kind, NodeRef, Value};

use super::super::canon;
use super::super::decimal::{self, Decimal};
use super::super::messages::Reason;
use super::super::program::{Bounds, Enum, MAX_LINEAR_TABLE, Node, Op, Span, is_of, types};
use super::Run;

impl<'p, 'd> Run<'p, 'd> {
    /// Checks an element or a member against a leaf. Most leaves have one operation, for which a
    /// quick test accepts most values; the others need a call.
    #[inline(always)]
    pub(super) fn leaf_fast(&mut self, node: &Node, node_ref: NodeRef<'d>) -> bool {
        if node.count == 1 {
            let program = self.program;
            let clear = match program.ops.get(node.ops as usize) {
                Some(Op::Length { min, max }) if node.types & types::STRING != 0 => {
                    node_ref.written().is_some_and(|bytes| clearly_has_length(bytes, *min, *max))
                }
                Some(Op::Word(word)) if node.types & types::STRING != 0 => {
                    let word = word.within().bytes(program.pool.as_bytes());
                    node_ref.string().is_some_and(|text| canon::same(word, text))
                }
                Some(Op::Words(run)) if node.types & types::STRING != 0 => {
                    node_ref.string().is_some_and(|text| self.has_word(*run, text))
                }
                // The text of an integer needs no other type check.
                Some(Op::Bounds(index)) if node.types & types::INTEGER != 0 => {
                    let around = node_ref.number().and_then(decimal::around);
                    matches!(around, Some((low, high))
                        if (low == high || node.types & types::NUMBER == types::NUMBER)
                            && self.clears(*index, low, high))
                }
                // Only the type is known to match.
                Some(op @ (Op::Pattern(_) | Op::Format(_)))
                    if node.types & types::STRING != 0 && node_ref.written().is_some() =>
                {
                    let value = node_ref.value();
                    return self.holds(op, value)
                        || !self.quiet && self.report_leaf(node, std::slice::from_ref(op), value);
                }
                _ => false,
            };
            if clear {
                return true;
            }
        }
        self.leaf(node, node_ref.value())
    }

    /// Runs a node whose operations read the value alone: no level and no list of evaluated
    /// members. Its steps count for the enclosing value.
    #[inline(never)]
    pub(super) fn leaf(&mut self, node: &Node, value: Value<'d>) -> bool {
        let ops = Span { start: node.ops, len: u32::from(node.count) }.of(&self.program.ops);
        // Not inlined: the loop would load the operands of every operation first.
        let fits = self.has_type(value.node_ref(), node.types) && ops.iter().all(|op| self.holds(op, value));
        fits || !self.quiet && self.report_leaf(node, ops, value)
    }

    /// Describes why a value does not match a leaf; returns `false`.
    #[cold]
    #[inline(never)]
    fn report_leaf(&mut self, node: &Node, ops: &[Op], value: Value<'d>) -> bool {
        let node_ref = value.node_ref();
        if !is_of(node_ref, node.types) {
            return self.wrong_type(value, node.types);
        }
        self.depth += 1;
        for op in ops {
            if !self.holds(op, value) {
                self.report(*op, value);
            }
        }
        self.depth -= 1;
        false
    }

    /// Describes why an operation fails; returns `false`.
    #[cold]
    #[inline(never)]
    pub(super) fn report(&mut self, op: Op, value: Value<'d>) -> bool {
        let program = self.program;
        let why = match op {
            Op::Length { min, max } => Reason::Length { min, max },
            Op::Items { min, max } => Reason::Items { min, max },
            Op::Members { min, max } => Reason::Members { min, max },
            Op::Words(run) => Reason::Words(run),
            Op::Word(text) => Reason::Word(text),
            Op::Pattern(index) => Reason::Pattern(index),
            Op::Format(format) => Reason::Format(format),
            Op::Multiple(divisor) => Reason::Multiple(divisor),
            Op::Bounds(index) => {
                let bounds = program.bounds.get(index as usize);
                let broken = bounds.and_then(|b| Some((b, self.broken_bound(b, value.raw())?)));
                let Some((bounds, which)) = broken else { return false };
                Reason::Bound(bounds, which)
            }
            Op::Enum(index) => match program.enums.get(index as usize) {
                Some(list) => Reason::Enum(list),
                None => return false,
            },
            Op::Unique => match canon::first_duplicate(value) {
                Some((i, j)) => Reason::Twins(i, j),
                None => return false,
            },
            // The other operations describe their violations themselves.
            _ => return false,
        };
        self.fail(value, why)
    }

    /// Returns `true` if an operation without subschemas accepts the value.
    #[inline(never)]
    pub(super) fn holds(&mut self, op: &Op, value: Value<'d>) -> bool {
        let node_ref = value.node_ref();
        let within = |min: u32, max: u32| node_ref.len() >= min as usize && node_ref.len() <= max as usize;
        match *op {
            Op::Length { min, max } => node_ref
                .string()
                .is_none_or(|text| clearly_has_length(text.len(), min, max) || self.counts(text, min, max)),
            Op::Words(run) => node_ref.string().is_some_and(|text| self.has_word(run, text)),
            Op::Bounds(index) => node_ref.number().is_none_or(|text| {
                decimal::around(text).is_some_and(|(low, high)| self.clears(index, low, high))
                    || self.exact_bounds(index, value)
            }),
            Op::Items { min, max } => !is_of(node_ref, types::ARRAY) || within(min, max),
            Op::Members { min, max } => !is_of(node_ref, types::OBJECT) || within(min, max),
            Op::Word(text) => {
                let word = text.within().bytes(self.program.pool.as_bytes());
                node_ref.string().is_some_and(|text| canon::same(word, text))
            }
            Op::Pattern(index) => value.as_str().is_none_or(|text| self.matches(index, text)),
            _ => self.holds_slow(*op, value),
        }
    }

    /// The slower operations.
    #[inline(never)]
    fn holds_slow(&mut self, op: Op, value: Value<'d>) -> bool {
        let holds = match op {
            Op::Format(format) => value.as_str().is_none_or(|text| {
                self.charge(text.len() / 8);
                format.accepts(text)
            }),
            Op::Enum(index) => {
                self.program.enums.get(index as usize).is_some_and(|l| self.is_member(l, value))
            }
            Op::Multiple(divisor) => value.as_number().is_none_or(|text| self.is_multiple(text, divisor)),
            Op::Unique => self.is_unique(value),
            // OK because operations with subschemas are handled elsewhere; one here fails.
            _ => false,
        };
        holds && !self.over
    }

    /// Returns `true` if the length of a string is in range. Counts characters if the number of
    /// bytes is not decisive.
    #[inline(never)]
    fn counts(&mut self, text: &[u8], min: u32, max: u32) -> bool {
        self.reads(text.len()) && has_counted_length(text, min as usize, max as usize)
    }

    pub(super) fn matches(&mut self, index: u32, text: &str) -> bool {
        // OK because the program is consistent; a missing entry fails.
        let Some((pattern, _)) = self.program.patterns.get(index as usize) else { return false };
        self.charge(pattern.steps(text.len()));
        if self.steps == 0 {
            self.over = true;
            return false;
        }
        pattern.is_match(text)
    }

    /// Returns `true` if the whole range between two integers is within the bounds.
    #[inline]
    fn clears(&self, index: u32, low: i64, high: i64) -> bool {
        self.program.bounds.get(index as usize).is_some_and(|b| b.low <= low && high <= b.high)
    }

    #[inline(never)]
    fn exact_bounds(&mut self, index: u32, value: Value<'d>) -> bool {
        let Some(bounds) = self.program.bounds.get(index as usize) else { return false };
        self.charge(value.raw().len() / 8);
        !self.over && self.broken_bound(bounds, value.raw()).is_none()
    }

    /// The first of the four bounds that a number violates.
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
        let small = |text: &str| decimal::around(text.as_bytes()).filter(|(low, high)| low == high);
        if let (Some((n, _)), Some((by, _))) = (small(text), small(divisor)) {
            return n.checked_rem(by) == Some(0);
        }
        self.charge(text.len());
        Decimal::new(text).is_multiple_of(Decimal::new(divisor)) == Some(true)
    }

    #[inline(never)]
    fn has_word(&self, run: Span, text: &[u8]) -> bool {
        let pool = self.program.pool.as_bytes();
        let words = run.of(&self.program.words);
        if words.len() <= MAX_LINEAR_TABLE {
            return words.iter().any(|w| {
                let (start, len) = (w.start as usize, w.len as usize);
                len == text.len() && pool.get(start..start + len).is_some_and(|w| canon::same(w, text))
            });
        }
        self.has_sorted_word(words, text)
    }

    /// Search in a long list: a separate function, so that short lists save no registers.
    #[inline(never)]
    fn has_sorted_word(&self, words: &[Span], text: &[u8]) -> bool {
        let pool = self.program.pool.as_bytes();
        words.binary_search_by(|w| canon::compare_names(w.bytes(pool), text)).is_ok()
    }

    fn is_member(&mut self, list: &Enum, value: Value<'d>) -> bool {
        match value.kind() {
            Kind::Null => list.null,
            Kind::Bool => list.booleans[usize::from(value.as_bool() == Some(true))],
            Kind::String => {
                let text = value.as_str().unwrap_or_default().as_bytes();
                self.reads(text.len()) && self.has_word(list.words, text)
            }
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

    fn is_unique(&mut self, value: Value<'d>) -> bool {
        let node_ref = value.node_ref();
        if value.kind() != Kind::Array || node_ref.len() < 2 {
            return true;
        }
        // Sorting the elements takes longer than reading them.
        self.charge(node_ref.width() / 8 + 8 * node_ref.len());
        !self.over && canon::first_duplicate(value).is_none()
    }
}

/// Returns `true` if the number of bytes alone shows that the length of a string is in range: a
/// character has one to four bytes.
#[inline]
fn clearly_has_length(bytes: usize, min: u32, max: u32) -> bool {
    bytes <= max as usize && bytes.div_ceil(4) >= min as usize
}

#[inline(never)]
fn has_counted_length(text: &[u8], min: usize, max: usize) -> bool {
    if text.len() < min || text.len().div_ceil(4) > max {
        return false;
    }
    // The first byte of a character is not in 0x80 to 0xBF.
    let count = text.iter().filter(|b| (**b as i8) >= -0x40).count();
    count >= min && count <= max
}
