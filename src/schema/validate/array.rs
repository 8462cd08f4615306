//! Array elements, and the set of evaluated elements or members.
//!
//! One method for each keyword; `prefixItems` and `items` share one.
//!
//! Invariant: `uniqueItems` compares pairs only of a few scalars.

use crate::json::{NodeRef, Value};

use super::super::messages::Reason;
use super::super::program::{Array, Child, types};
use super::{Inner, Run};

/// The tag of arrays in [`NodeRef::tag`].
const ARRAY: u32 = 6;

impl<'p, 'd> Run<'p, 'd> {
    #[inline(never)]
    pub(super) fn array(&mut self, index: u32, value: Value<'d>, seen: Option<&mut Evaluated>) -> bool {
        let program = self.program;
        let Some(array) = program.arrays.get(index as usize) else { return false };
        let node_ref = value.node_ref();
        if node_ref.tag() != ARRAY {
            return !self.quiet && self.wrong_type(value, types::ARRAY);
        }
        if !self.enter(node_ref.len()) {
            return false;
        }
        let fits = self.elements(array, value, node_ref);
        if let Some(seen) = seen {
            match array.rest {
                Some(_) => seen.set_all(),
                None => (0..(array.prefix.len as usize).min(value.len())).for_each(|i| seen.set(i)),
            }
        }
        self.depth -= 1;
        fits
    }

    #[inline(always)]
    fn elements(&mut self, array: &'p Array, value: Value<'d>, node_ref: NodeRef<'d>) -> bool {
        let mut fits = node_ref.len() >= array.min as usize && node_ref.len() <= array.max as usize;
        if !fits {
            self.fail(value, Reason::Items { min: array.min, max: array.max });
            if self.stops_at_violation() {
                return false;
            }
        }
        let mut items = node_ref.inside();
        if array.prefix.len > 0 {
            let prefix = array.prefix.of(&self.program.children);
            // The list runs first; the elements after it belong to `items`.
            for (i, child) in prefix.iter().enumerate() {
                let Some(item) = items.next() else { break };
                if !self.apply_cold(*child, item.value(), None) {
                    self.outwards(*child, array.prefix_keyword(), Inner::Index(i));
                    fits = false;
                    if self.stops_at_violation() {
                        return false;
                    }
                }
            }
        }
        if let Some(rest) = array.rest {
            for item in items {
                if !self.inner(rest, item) {
                    self.outwards(rest, array.rest_keyword(), Inner::Nothing);
                    fits = false;
                    if self.stops_at_violation() {
                        return false;
                    }
                }
            }
        }
        fits
    }

    #[inline(never)]
    pub(super) fn contains(
        &mut self,
        index: u32,
        value: Value<'d>,
        mut seen: Option<&mut Evaluated>,
    ) -> bool {
        let Some(contains) = self.program.contains.get(index as usize) else { return false };
        let node_ref = value.node_ref();
        self.charge(node_ref.len());
        let mut count = 0u32;
        for (i, item) in node_ref.inside().enumerate() {
            if !self.is_valid_quiet(contains.child, item.value(), None) {
                continue;
            }
            count += 1;
            match &mut seen {
                Some(seen) if contains.evaluates => seen.set(i),
                _ if count > contains.max => break,
                _ if count >= contains.min && contains.max == u32::MAX => break,
                _ => {}
            }
        }
        if count < contains.min {
            return self.fail(value, Reason::TooFew(contains, count));
        }
        count <= contains.max || self.fail(value, Reason::TooMany(contains))
    }

    #[inline(never)]
    pub(super) fn unevaluated_items(
        &mut self,
        child: Child,
        value: Value<'d>,
        seen: Option<&mut Evaluated>,
    ) -> bool {
        let Some(seen) = seen else { return true };
        let node_ref = value.node_ref();
        self.charge(node_ref.len());
        let mut fits = true;
        for (position, item) in node_ref.inside().enumerate() {
            if seen.has(position) {
                continue;
            }
            if child == Child::NONE {
                fits = self.fail(value, Reason::UnevaluatedItem(position));
            } else if !self.apply_cold(child, item.value(), None) {
                self.outwards(child, "unevaluatedItems", Inner::Nothing);
                fits = false;
            }
            if !fits && self.stops_at_violation() {
                return false;
            }
        }
        seen.set_all();
        fits
    }
}

/// Evaluated positions of one array or object. Up to 64 need no allocation.
#[derive(Clone, Default)]
pub(super) struct Evaluated {
    /// Every position, whatever the bits.
    all: bool,
    first: u64,
    more: Vec<u64>,
}

impl Evaluated {
    pub(super) fn set(&mut self, position: usize) {
        if position < 64 {
            self.first |= 1 << position;
            return;
        }
        let word = position / 64 - 1;
        if self.more.len() <= word {
            self.more.resize(word + 1, 0);
        }
        if let Some(bits) = self.more.get_mut(word) {
            *bits |= 1 << (position % 64);
        }
    }

    pub(super) fn set_all(&mut self) {
        self.all = true;
    }

    pub(super) fn has(&self, position: usize) -> bool {
        if self.all {
            return true;
        }
        let bits = match position.checked_sub(64) {
            None => self.first,
            Some(behind) => self.more.get(behind / 64).copied().unwrap_or(0),
        };
        bits >> (position % 64) & 1 == 1
    }

    pub(super) fn merge(&mut self, other: &Evaluated) {
        self.all |= other.all;
        if self.all {
            return;
        }
        self.first |= other.first;
        if self.more.len() < other.more.len() {
            self.more.resize(other.more.len(), 0);
        }
        for (mine, theirs) in self.more.iter_mut().zip(&other.more) {
            *mine |= theirs;
        }
    }

    /// Number of words a merge reads.
    pub(super) fn words(&self) -> usize {
        self.more.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_kept_across_words_and_merges() {
        let mut a = Evaluated::default();
        let mut b = Evaluated::default();
        for position in [0, 63, 64, 127, 128, 1000] {
            a.set(position);
        }
        b.set(5);
        b.merge(&a);
        let held: Vec<_> = (0..1100).filter(|i| b.has(*i)).collect();
        assert_eq!(held, [0, 5, 63, 64, 127, 128, 1000]);
        b.set_all();
        a.merge(&b);
        assert!(a.has(99_999));
    }
}
