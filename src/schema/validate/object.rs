//! Object members.
//!
//! One pass over the members serves `properties`, `required`, `patternProperties` and
//! `additionalProperties`.
//!
//! Invariant: a member is looked up in time logarithmic in the number of declared names.

use crate::json::{NodeRef, Value};

use super::super::canon;
use super::super::messages::Reason;
use super::super::program::{BEYOND, Child, MAX_LINEAR_TABLE, OPTIONAL, Object, Property, Span, mark, types};
use super::super::resources::KeyMap;
use super::{Evaluated, Inner, Run};

/// Largest number of dependents that are searched one by one; for more the names are sorted.
const MAX_LINEAR: usize = 8;

/// The tag of objects in [`NodeRef::tag`].
const OBJECT: u32 = 7;

impl<'p, 'd> Run<'p, 'd> {
    #[inline(never)]
    pub(super) fn object(&mut self, index: u32, value: Value<'d>, seen: Option<&mut Evaluated>) -> bool {
        let program = self.program;
        let Some(object) = program.objects.get(index as usize) else { return false };
        let node_ref = value.node_ref();
        if node_ref.tag() != OBJECT {
            return !self.quiet && self.wrong_type(value, types::OBJECT);
        }
        if node_ref.len() < object.required as usize && self.quiet || !self.enter(node_ref.len()) {
            return false;
        }
        let (fits, found) = match seen {
            None if object.patterned.len == 0 => self.members(object, value, node_ref),
            seen => self.members_evaluated(object, value, seen),
        };
        let wanted = object.wanted;
        let missing = found & wanted != wanted
            || object.required > BEYOND.into()
                && (fits || !self.stops_at_violation())
                && !self.has_required(object, value);
        let fits = fits && !missing || missing && self.fail(value, Reason::Missing(object));
        self.depth -= 1;
        fits
    }

    /// Checks the members of an object without name patterns. Returns whether they match, and the
    /// bits of the required names found.
    #[inline(always)]
    fn members(&mut self, object: &'p Object, value: Value<'d>, node_ref: NodeRef<'d>) -> (bool, u64) {
        let program = self.program;
        // The next entry, if the members have the order of the table.
        let mut expected = object.properties.of(&program.properties);
        let mut found = 0;
        let mut fits = true;
        let mut inside = node_ref.inside();
        while let Some((name, member)) = inside.next_member() {
            let from = self.entry(object, expected, name);
            let mut child = Child::UNDECLARED;
            if let [property, rest @ ..] = from {
                expected = rest;
                found |= property.bit();
                child = property.child;
            }
            // Nodes have a separate bit, so an absent child is only compared with types.
            let held = match child.as_types() {
                Some(_) if child == Child::UNDECLARED => {
                    object.additional == Child::ANY
                        || self.undeclared(object, value, name.value(), member.value())
                }
                _ => self.inner(child, member) || self.within(child, "properties", Some(name.value())),
            };
            if !held {
                fits = false;
                if self.stops_at_violation() {
                    return (false, u64::MAX);
                }
            }
        }
        (fits, found)
    }

    /// The general form, which records evaluated members.
    #[inline(never)]
    fn members_evaluated(
        &mut self,
        object: &'p Object,
        value: Value<'d>,
        mut seen: Option<&mut Evaluated>,
    ) -> (bool, u64) {
        let mut expected = object.properties.of(&self.program.properties);
        let mut found = 0;
        let mut fits = true;
        for (position, (name, member)) in value.member_values().enumerate() {
            let mut declared = false;
            let mut held = true;
            if let [property, rest @ ..] = self.entry(object, expected, name.node_ref()) {
                expected = rest;
                found |= property.bit();
                declared = property.is_declared();
                held = !declared
                    || self.apply_cold(property.child, member, None)
                    || self.within(property.child, "properties", Some(name));
            }
            if object.patterned.len > 0 {
                declared |= self.patterned(object, name.as_str().unwrap_or_default(), member, &mut held);
            }
            held &= declared || self.undeclared(object, value, name, member);
            if !held {
                fits = false;
                if self.stops_at_violation() {
                    return (false, u64::MAX);
                }
            }
            if let Some(seen) = seen.as_mut().filter(|_| declared || object.has_additional) {
                seen.set(position);
            }
        }
        (fits, found)
    }

    /// Checks a member against `additionalProperties`.
    #[inline(never)]
    fn undeclared(&mut self, object: &Object, value: Value<'d>, name: Value<'d>, member: Value<'d>) -> bool {
        match object.additional {
            Child::ANY => true,
            Child::NONE => {
                !self.quiet && self.fail(value, Reason::Unknown(object, name.as_str().unwrap_or_default()))
            }
            child => self.apply_cold(child, member, None) || self.within(child, "additionalProperties", None),
        }
    }

    /// Adds a keyword and a member's name to the trail of the violation; returns `false`.
    #[cold]
    #[inline(never)]
    fn within(&mut self, child: Child, keyword: &'static str, name: Option<Value<'d>>) -> bool {
        let name = name.and_then(Value::as_str);
        self.outwards(child, keyword, name.map_or(Inner::Nothing, Inner::Name));
        false
    }

    /// Returns `true` if all required names are present, for tables with more required names than
    /// bits.
    #[inline(never)]
    fn has_required(&mut self, object: &Object, value: Value<'d>) -> bool {
        self.charge(value.len());
        let there = KeyMap::of_members(value);
        let pool = self.program.pool.as_bytes();
        let properties = object.properties.of(&self.program.properties);
        let mut required = properties.iter().filter(|p| p.required != OPTIONAL);
        required.all(|p| there.get(p.name.bytes(pool)).is_some())
    }

    /// Searches a name from this entry on, given the text after the previous member. `None` if the
    /// table does not have it.
    #[inline(always)]
    fn entry(&self, object: &Object, expected: &'p [Property], name: NodeRef<'d>) -> &'p [Property] {
        match (expected, name.ahead()) {
            ([next, ..], Some(ahead)) if next.is_ahead(self.program, name, ahead) => expected,
            _ if object.known & mark(name.brief()) == 0 => &[],
            _ => self.find(object, expected, name.value()),
        }
    }

    /// Searches a name that is not at the expected entry.
    #[inline(never)]
    fn find(&self, object: &Object, expected: &'p [Property], name: Value<'d>) -> &'p [Property] {
        let program = self.program;
        let node_ref = name.node_ref();
        if object.properties.len as usize > MAX_LINEAR_TABLE {
            let properties = object.properties.of(&program.properties);
            let pool = program.pool.as_bytes();
            let name = node_ref.string().unwrap_or_default();
            let at = properties.binary_search_by(|p| canon::compare_names(p.name.bytes(pool), name));
            return properties.get(at.unwrap_or(usize::MAX)..).unwrap_or_default();
        }
        // Absent names are more likely than another order.
        if let Some(ahead) = node_ref.ahead() {
            let mut left = expected;
            while let [property, rest @ ..] = left {
                if property.is_ahead(program, node_ref, ahead) {
                    return left;
                }
                left = rest;
            }
        }
        let properties = object.properties.of(&program.properties);
        let at = properties.iter().position(|property| property.name.is(program, name));
        properties.get(at.unwrap_or(usize::MAX)..).unwrap_or_default()
    }

    /// Checks a member against the schemas of all patterns that match its name. Returns whether
    /// there is one.
    #[inline(never)]
    fn patterned(&mut self, object: &Object, name: &'d str, member: Value<'d>, fits: &mut bool) -> bool {
        let program = self.program;
        let mut matched = false;
        for (index, child) in (object.first_pattern..).zip(object.patterned.of(&program.children)) {
            if !self.matches(index, name) {
                continue;
            }
            matched = true;
            if !self.apply_cold(*child, member, None) {
                self.outwards(*child, "patternProperties", Inner::Name(program.pattern_text(index)));
                *fits = false;
                if self.stops_at_violation() {
                    break;
                }
            }
        }
        matched
    }

    #[inline(never)]
    pub(super) fn names(&mut self, child: Child, value: Value<'d>) -> bool {
        self.charge(value.len());
        let mut fits = true;
        for (name, _) in value.member_values() {
            if !self.is_valid_quiet(child, name, None) {
                fits = self.fail(value, Reason::Name(child, name));
                if self.stops_at_violation() {
                    break;
                }
            }
        }
        fits
    }

    #[inline(never)]
    pub(super) fn dependents(
        &mut self,
        run: Span,
        value: Value<'d>,
        mut seen: Option<&mut Evaluated>,
    ) -> bool {
        let program = self.program;
        let dependents = run.of(&program.dependents);
        let mut many = None;
        let words: usize = dependents.iter().map(|d| d.required.len as usize + 1).sum();
        if words > MAX_LINEAR && value.len() > MAX_LINEAR {
            self.charge(value.len());
            many = Some(KeyMap::of_members(value));
        }
        self.charge(words);
        let has = |name: &str| match &many {
            Some(names) => names.get(name.as_bytes()).is_some(),
            None => value.get(name).is_some(),
        };
        let mut fits = true;
        for dependent in dependents {
            let name = program.text(dependent.name);
            if !has(name) {
                continue;
            }
            for wanted in dependent.required.of(&program.words) {
                if !has(program.text(*wanted)) {
                    fits = self.fail(value, Reason::Dependent(dependent, *wanted));
                }
            }
            if let Some(child) = dependent.schema {
                if !self.apply_cold(child, value, seen.as_deref_mut()) {
                    self.outwards(child, dependent.keyword, Inner::Name(name));
                    fits = false;
                }
            }
            if !fits && self.stops_at_violation() {
                break;
            }
        }
        fits
    }

    #[inline(never)]
    pub(super) fn unevaluated_properties(
        &mut self,
        child: Child,
        value: Value<'d>,
        seen: Option<&mut Evaluated>,
    ) -> bool {
        let Some(seen) = seen else { return true };
        self.charge(value.len());
        let mut fits = true;
        for (position, (name, member)) in value.members().enumerate() {
            if seen.has(position) {
                continue;
            }
            if child == Child::NONE {
                fits = self.fail(value, Reason::Unevaluated(name));
            } else if !self.apply_cold(child, member, None) {
                self.outwards(child, "unevaluatedProperties", Inner::Nothing);
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
