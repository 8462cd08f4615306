//! References and combinators: subschemas for the same value.
//!
//! Branches of anyOf, oneOf, not and if run quietly, because a failing branch is not a violation by
//! itself.
//!
//! Invariant: members that a branch evaluates count only if the branch matches.

use crate::json::Value;

use super::super::messages::Reason;
use super::super::program::{Child, FORWARDS, MEMBERS, Op, Span, is_of, mark, types};
use super::{Evaluated, Inner, Run, Token};

impl<'d> Run<'_, 'd> {
    /// Checks without describing violations.
    #[inline(never)]
    pub(super) fn is_valid_quiet(
        &mut self,
        child: Child,
        value: Value<'d>,
        seen: Option<&mut Evaluated>,
    ) -> bool {
        let before = std::mem::replace(&mut self.quiet, true);
        let fits = self.child(child, value, seen);
        self.quiet = before;
        fits
    }

    #[inline(never)]
    pub(super) fn reference(
        &mut self,
        child: Child,
        reference: u32,
        value: Value<'d>,
        seen: Option<&mut Evaluated>,
    ) -> bool {
        let fits = self.apply_cold(child, value, seen);
        if !fits && self.trails && !self.quiet {
            self.add_steps(child, &[Some(Token::Reference(reference))]);
        }
        fits
    }

    #[inline(never)]
    pub(super) fn all_of(&mut self, run: Span, value: Value<'d>, mut seen: Option<&mut Evaluated>) -> bool {
        if !self.charge_branches(run) {
            return false;
        }
        let mut fits = true;
        let program = self.program;
        for (i, child) in run.of(&program.children).iter().enumerate() {
            if !self.apply_cold(*child, value, seen.as_deref_mut()) {
                self.outwards(*child, "allOf", Inner::Index(i));
                fits = false;
                if self.stops_at_violation() {
                    break;
                }
            }
        }
        fits
    }

    #[inline(never)]
    pub(super) fn any_of(&mut self, run: Span, value: Value<'d>, mut seen: Option<&mut Evaluated>) -> bool {
        if !self.charge_branches(run) {
            return false;
        }
        let mut fits = false;
        let program = self.program;
        let marks = self.marks(value);
        let before = std::mem::replace(&mut self.quiet, true);
        for child in run.of(&program.children) {
            if self.refuses(*child, marks) {
                continue;
            }
            fits |= match &mut seen {
                None => self.apply_cold(*child, value, None),
                // Every matching branch adds its evaluated members.
                Some(seen) => self.branch(*child, value, seen),
            };
            if fits && seen.is_none() {
                break;
            }
        }
        self.quiet = before;
        fits || self.fail(value, Reason::AnyOf(run))
    }

    #[inline(never)]
    pub(super) fn one_of(&mut self, run: Span, value: Value<'d>, mut seen: Option<&mut Evaluated>) -> bool {
        if !self.charge_branches(run) {
            return false;
        }
        let (mut first, mut second) = (None, None);
        let program = self.program;
        let marks = self.marks(value);
        let before = std::mem::replace(&mut self.quiet, true);
        for (i, child) in run.of(&program.children).iter().enumerate() {
            if self.refuses(*child, marks) {
                continue;
            }
            let fits = match &mut seen {
                None => self.apply_cold(*child, value, None),
                Some(seen) => self.branch(*child, value, seen),
            };
            match (fits, first) {
                (true, Some(_)) => {
                    second = Some(i);
                    break;
                }
                (true, None) => first = Some(i),
                (false, _) => {}
            }
        }
        self.quiet = before;
        match (first, second) {
            (Some(first), Some(second)) => self.fail(value, Reason::Several(first, second)),
            (Some(_), None) => true,
            (None, _) => self.fail(value, Reason::OneOf(run)),
        }
    }

    /// The marks of an object's names; `None` for other values.
    fn marks(&mut self, value: Value<'d>) -> Option<u64> {
        let node_ref = value.node_ref();
        if !is_of(node_ref, types::OBJECT) {
            return None;
        }
        self.charge(node_ref.len());
        let mut marks = 0;
        let mut inside = node_ref.inside();
        while let Some((name, _)) = inside.next_member() {
            marks |= mark(name.brief());
        }
        Some(marks)
    }

    /// Returns `true` if the names alone exclude a branch. Alternatives for objects mostly differ
    /// in their names.
    #[inline]
    fn refuses(&self, child: Child, marks: Option<u64>) -> bool {
        let (Some(marks), None) = (marks, child.as_types()) else { return false };
        let nodes = &self.program.nodes;
        let Some(mut node) = nodes.get(child.index() as usize) else { return false };
        if node.flags & FORWARDS != 0 {
            let Some(target) = nodes.get(node.ops as usize) else { return false };
            node = target;
        }
        let object = match self.program.ops.get(node.ops as usize) {
            _ if node.flags & MEMBERS != 0 => node.ops,
            Some(Op::Object(index)) => *index,
            _ => return false,
        };
        self.program.objects.get(object as usize).is_some_and(|object| object.refuses(marks))
    }

    /// Checks a branch quietly. Its evaluated members count if it matches.
    fn branch(&mut self, child: Child, value: Value<'d>, seen: &mut Evaluated) -> bool {
        let mut own = Evaluated::default();
        let fits = self.is_valid_quiet(child, value, Some(&mut own));
        if fits {
            seen.merge(&own);
            self.charge(own.words());
        }
        fits
    }

    #[inline(never)]
    pub(super) fn conditional(
        &mut self,
        run: Span,
        value: Value<'d>,
        mut seen: Option<&mut Evaluated>,
    ) -> bool {
        let program = self.program;
        let [condition, then, otherwise] = run.of(&program.children) else { return false };
        let holds = match &mut seen {
            None => self.is_valid_quiet(*condition, value, None),
            Some(seen) => self.branch(*condition, value, seen),
        };
        let (child, keyword) = if holds { (*then, "then") } else { (*otherwise, "else") };
        let fits = self.apply_cold(child, value, seen);
        if !fits {
            self.outwards(child, keyword, Inner::Nothing);
        }
        fits
    }
}
