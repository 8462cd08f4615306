//! The walk through an object's members.
//!
//! One pass over the members serves `properties`, `required`, `patternProperties` and
//! `additionalProperties` together.
//!
//! Invariant: a member is looked up in time logarithmic in the number of declared names.

use crate::json::Value;

use super::super::canon;
use super::super::explain::Why;
use super::super::program::{Child, OPTIONAL, Object, Property, SCANNED, Span};
use super::seen::Seen;
use super::{Inner, Run};

/// How many dependents are looked up one by one; for more the names are sorted first.
const FEW_DEPENDENTS: usize = 8;

impl<'p, 'd> Run<'p, 'd> {
    #[inline(never)]
    pub(super) fn object(&mut self, index: u32, value: Value<'d>, mut seen: Option<&mut Seen>) -> bool {
        let program = self.program;
        let Some(object) = program.objects.get(index as usize) else { return false };
        if value.len() < object.required as usize && self.quiet {
            return false;
        }
        let properties = object.properties.of(&program.properties);
        // A bit for each of the first 64 required names.
        let mut found = 0u64;
        let mut expected = 0;
        let mut fits = true;
        for (position, (name, member)) in value.member_values().enumerate() {
            let mut evaluated = object.has_additional;
            let mut declared = false;
            if let Some(at) = self.find(properties, name, expected) {
                expected = at + 1;
                if let Some(property) = properties.get(at) {
                    if property.required < 64 {
                        found |= 1 << property.required;
                    }
                    if let Some(child) = property.child {
                        declared = true;
                        evaluated = true;
                        if !self.child(child, member, None) {
                            self.outwards("properties", Inner::Name(name.as_str().unwrap_or_default()));
                            fits = false;
                        }
                    }
                }
            }
            if object.patterned.len > 0 {
                let name = name.as_str().unwrap_or_default();
                let matched = self.patterned(object, name, member, &mut fits);
                declared |= matched;
                evaluated |= matched;
            }
            if !declared && object.additional != Child::ANY {
                if object.additional == Child::NONE {
                    fits = self.fail(value, Why::Unknown(object, name.as_str().unwrap_or_default()));
                } else if !self.child(object.additional, member, None) {
                    self.outwards("additionalProperties", Inner::Nothing);
                    fits = false;
                }
            }
            if !fits && self.halts() {
                return false;
            }
            if evaluated {
                if let Some(seen) = &mut seen {
                    seen.set(position);
                }
            }
        }
        let wanted = u64::MAX.checked_shr(64 - object.required.min(64)).unwrap_or(0);
        if found != wanted || object.required > 64 && !self.has_required(properties, value) {
            return self.fail(value, Why::Missing(object));
        }
        fits
    }

    /// Whether all required names are there, for tables that require more than 64.
    #[inline(never)]
    fn has_required(&mut self, properties: &[Property], value: Value<'d>) -> bool {
        self.charge(value.len());
        let mut there: Vec<_> = value.member_values().map(|(name, _)| name.string_bytes()).collect();
        there.sort_unstable_by(|a, b| canon::compare_names(a, b));
        let pool = self.program.pool.as_bytes();
        let mut required = properties.iter().filter(|p| p.required != OPTIONAL);
        required
            .all(|p| there.binary_search_by(|name| canon::compare_names(name, p.name.bytes(pool))).is_ok())
    }

    /// Where a name is in an object's table. `expected` is where it is when members come in the
    /// table's order.
    #[inline]
    fn find(&self, properties: &[Property], name: Value<'_>, expected: usize) -> Option<usize> {
        let pool = self.program.pool.as_bytes();
        let name = name.string_bytes();
        let is = |property: &Property| {
            property.name.len as usize == name.len() && canon::same(property.name.bytes(pool), name)
        };
        if properties.len() <= SCANNED {
            let (before, from) = properties.split_at_checked(expected).unwrap_or((properties, &[]));
            let found = from.iter().position(is).map(|at| at + expected);
            return found.or_else(|| before.iter().position(is));
        }
        if properties.get(expected).is_some_and(is) {
            return Some(expected);
        }
        properties.binary_search_by(|p| canon::compare_names(p.name.bytes(pool), name)).ok()
    }

    /// Checks a member against the schemas of all patterns that its name matches; whether there
    /// was one.
    #[inline(never)]
    fn patterned(&mut self, object: &Object, name: &'d str, member: Value<'d>, fits: &mut bool) -> bool {
        let program = self.program;
        let mut matched = false;
        for (index, child) in (object.first_pattern..).zip(object.patterned.of(&program.children)) {
            if !self.matches(index, name) {
                continue;
            }
            matched = true;
            if !self.child(*child, member, None) {
                let source = program.pattern_texts.get(index as usize).map_or("", |span| program.text(*span));
                self.outwards("patternProperties", Inner::Name(source));
                *fits = false;
                if self.halts() {
                    break;
                }
            }
        }
        matched
    }

    #[inline(never)]
    pub(super) fn names(&mut self, child: Child, value: Value<'d>) -> bool {
        let mut fits = true;
        for (name, _) in value.member_values() {
            if !self.quietly(child, name, None) {
                fits = self.fail(value, Why::Name(child, name));
                if self.halts() {
                    break;
                }
            }
        }
        fits
    }

    #[inline(never)]
    pub(super) fn dependents(&mut self, run: Span, value: Value<'d>, mut seen: Option<&mut Seen>) -> bool {
        let program = self.program;
        let dependents = run.of(&program.dependents);
        let mut sorted = Vec::new();
        let words: usize = dependents.iter().map(|d| d.required.len as usize + 1).sum();
        if words > FEW_DEPENDENTS && value.len() > FEW_DEPENDENTS {
            self.charge(value.len());
            sorted.extend(value.members().map(|(name, _)| name));
            sorted.sort_unstable();
        }
        self.charge(words);
        let has = |name: &str| match sorted.is_empty() {
            true => value.members().any(|(n, _)| n == name),
            false => sorted.binary_search(&name).is_ok(),
        };
        let mut fits = true;
        for dependent in dependents {
            let name = program.text(dependent.name);
            if !has(name) {
                continue;
            }
            for wanted in dependent.required.of(&program.words) {
                if !has(program.text(*wanted)) {
                    fits = self.fail(value, Why::Dependent(dependent, *wanted));
                }
            }
            if let Some(child) = dependent.schema {
                if !self.child(child, value, seen.as_deref_mut()) {
                    self.outwards(dependent.keyword, Inner::Name(name));
                    fits = false;
                }
            }
            if !fits && self.halts() {
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
        seen: Option<&mut Seen>,
    ) -> bool {
        let Some(seen) = seen else { return true };
        let mut fits = true;
        for (position, (name, member)) in value.members().enumerate() {
            if seen.has(position) {
                continue;
            }
            if child == Child::NONE {
                fits = self.fail(value, Why::Unevaluated(name));
            } else if !self.child(child, member, None) {
                self.outwards("unevaluatedProperties", Inner::Nothing);
                fits = false;
            }
            if !fits && self.halts() {
                return false;
            }
        }
        if value.kind() == crate::json::Kind::Object {
            seen.set_all();
        }
        fits
    }
}
