//! The walk through an array's elements.
//!
//! Each method is one keyword, `prefixItems` and `items` going together.
//!
//! Invariant: `uniqueItems` never compares pairwise beyond a handful of scalars.

use crate::json::{Kind, Value};

use super::super::canon;
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
        let mut fits = true;
        for (i, (child, item)) in prefix.iter().zip(value.items()).enumerate() {
            if !self.child(*child, item, None) {
                self.outwards(array.prefix_keyword, Inner::Index(i));
                fits = false;
                if self.halts() {
                    return false;
                }
            }
        }
        if let Some(rest) = array.rest {
            for item in value.items().skip(prefix.len()) {
                if !self.child(rest, item, None) {
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
        let mut count = 0u32;
        for (i, item) in value.items().enumerate() {
            if !self.quietly(contains.child, item, None) {
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
    pub(super) fn unique(&mut self, value: Value<'d>) -> bool {
        if value.kind() != Kind::Array || value.len() < 2 {
            return true;
        }
        self.charge(value.raw().len() / 8);
        match canon::twins(value) {
            Some((i, j)) => self.fail(value, Why::Twins(i, j)),
            None => true,
        }
    }

    #[inline(never)]
    pub(super) fn unevaluated_items(
        &mut self,
        child: Child,
        value: Value<'d>,
        seen: Option<&mut Seen>,
    ) -> bool {
        let Some(seen) = seen.filter(|_| value.kind() == Kind::Array) else { return true };
        let mut fits = true;
        for (position, item) in value.items().enumerate() {
            if seen.has(position) {
                continue;
            }
            if child == Child::NONE {
                fits = self.fail(value, Why::UnevaluatedItem(position));
            } else if !self.child(child, item, None) {
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
