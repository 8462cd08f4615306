//! The walk through an array's elements.
//!
//! Each method is one keyword, `prefixItems` and `items` going together.
//!
//! Invariant: `uniqueItems` never compares pairwise beyond a handful of scalars.

use crate::json::Value;

use super::super::explain::Why;
use super::super::program::Child;
use super::seen::Seen;
use super::{Inner, Run};

impl<'d> Run<'_, 'd> {
    #[inline(never)]
    pub(super) fn array(&mut self, index: u32, value: Value<'d>, seen: Option<&mut Seen>) -> bool {
        let program = self.program;
        let Some(array) = program.arrays.get(index as usize) else { return false };
        let prefix = array.prefix.of(&program.children);
        let spot = value.spot();
        self.charge(spot.len());
        let mut fits = true;
        let mut items = spot.inside();
        // The list goes first: what it has no more entries for stays among the items.
        for (i, child) in prefix.iter().enumerate() {
            let Some(item) = items.next() else { break };
            if !self.inner(*child, item) {
                self.outwards(array.prefix_keyword, Inner::Index(i));
                fits = false;
                if self.halts() {
                    return false;
                }
            }
        }
        if let Some(rest) = array.rest {
            for item in items {
                if !self.inner(rest, item) {
                    self.outwards(array.rest_keyword, Inner::Nothing);
                    fits = false;
                    if self.halts() {
                        return false;
                    }
                }
            }
        }
        if let Some(seen) = seen {
            match array.rest {
                Some(_) => seen.set_all(),
                None => (0..prefix.len().min(value.len())).for_each(|i| seen.set(i)),
            }
        }
        fits
    }

    #[inline(never)]
    pub(super) fn contains(&mut self, index: u32, value: Value<'d>, mut seen: Option<&mut Seen>) -> bool {
        let Some(contains) = self.program.contains.get(index as usize) else { return false };
        let spot = value.spot();
        self.charge(spot.len());
        let mut count = 0u32;
        for (i, item) in spot.inside().enumerate() {
            if !self.quietly(contains.child, item.value(), None) {
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
            return self.fail(value, Why::TooFew(contains, count));
        }
        count <= contains.max || self.fail(value, Why::TooMany(contains))
    }

    #[inline(never)]
    pub(super) fn unevaluated_items(
        &mut self,
        child: Child,
        value: Value<'d>,
        seen: Option<&mut Seen>,
    ) -> bool {
        let Some(seen) = seen else { return true };
        let spot = value.spot();
        self.charge(spot.len());
        let mut fits = true;
        for (position, item) in spot.inside().enumerate() {
            if seen.has(position) {
                continue;
            }
            if child == Child::NONE {
                fits = self.fail(value, Why::UnevaluatedItem(position));
            } else if !self.inner(child, item) {
                self.outwards("unevaluatedItems", Inner::Nothing);
                fits = false;
            }
            if !fits && self.halts() {
                return false;
            }
        }
        seen.set_all();
        fits
    }
}
