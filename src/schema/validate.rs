//! Validation: runs a program on a value.
//!
//! A [`Run`] walks value and program together, from the types of a node to its operations. A valid
//! value needs no bookkeeping. A violation is described where it is found, and its path is computed
//! from its position in the text. The other operations are in `validate/`: objects, arrays,
//! combinators and references (`applicator.rs`), and everything else (`scalar.rs`).
//!
//! # Invariants
//! - Every node with subschemas costs a step and a level while it runs, and each of its elements or
//!   members a step. Without steps or levels left, the whole validation fails, whatever the schema
//!   states.
//! - `quiet` is set within combinators, where violations are not described.
//! - Verdicts of shared nodes are cached once the run has taken more steps than the size of the
//!   value explains.

mod applicator;
mod array;
mod object;
mod scalar;

use crate::json::{NodeRef, Value};
use crate::record::Violation;

use super::SchemaLimits;
use super::messages::{self, Reason};
use super::program::{
    Child, ELEMENTS, FORWARDS, LEAF, MEMBERS, Node, Op, Program, SHARED, Span, TRACKS, is_of, types, types_in,
};
use super::resources::{KeyMap, key};
use super::{decimal, subschemas};
use array::Evaluated;

/// Steps before verdicts are cached, in addition to one for each byte of the value.
const CACHE_AFTER: u64 = 2048;

/// Number of branches that cost a step each.
const MAX_CHARGED_BRANCHES: u32 = 8;

/// Steps for inspecting one alternative for a message.
const REASON_STEPS: u64 = 20_000;

/// One validation.
pub(super) struct Run<'p, 'd> {
    pub(super) program: &'p Program,
    limits: &'p SchemaLimits,
    root: Value<'d>,
    steps: u64,
    /// Verdicts are cached if fewer steps than this are left.
    keep_below: u64,
    depth: u32,
    most_depth: u32,
    over: bool,
    nested: bool,
    quiet: bool,
    /// Number of violations to collect; the run ends with the last one.
    most: usize,
    /// True if violations record their path through the schema.
    trails: bool,
    found: Vec<Found>,
    verdicts: Option<Box<Verdicts>>,
}

/// A violation.
pub(super) struct Found {
    pub(super) violation: Violation,
    /// From the violated keyword outwards.
    pub(super) trail: Vec<Token>,
    /// The depth up to which the trail is complete.
    level: u32,
}

/// One step of the path through a schema.
#[derive(Clone)]
pub(super) enum Token {
    Keyword(&'static str),
    Name(String),
    Index(usize),
    /// Index into the references of the program.
    Reference(u32),
}

/// The part of a step after the keyword.
enum Inner<'a> {
    Nothing,
    Name(&'a str),
    Index(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Fits,
    Fails,
    /// Failed, and the violation is recorded.
    Explained,
}

/// Verdicts by node, value and whether evaluated members are tracked.
#[derive(Default)]
struct Verdicts {
    index: KeyMap,
    list: Vec<(Verdict, Option<Box<Evaluated>>)>,
}

impl Verdicts {
    fn get(&self, key: &[u8]) -> Option<&(Verdict, Option<Box<Evaluated>>)> {
        self.list.get(self.index.get(key)? as usize)
    }

    /// Stores a verdict; a later one replaces it.
    fn put(&mut self, key: &[u8], verdict: (Verdict, Option<Box<Evaluated>>)) {
        let next = self.list.len() as u64;
        match self.list.get_mut(self.index.enter(key, next) as usize) {
            Some(known) => *known = verdict,
            None => self.list.push(verdict),
        }
    }
}

impl<'p, 'd> Run<'p, 'd> {
    pub(super) fn new(program: &'p Program, limits: &'p SchemaLimits, root: Value<'d>) -> Run<'p, 'd> {
        let bytes = root.node_ref().width() as u64;
        let steps = limits.steps.saturating_add(limits.steps_per_byte.saturating_mul(bytes));
        Run {
            program,
            limits,
            root,
            steps,
            keep_below: steps.saturating_sub(CACHE_AFTER + bytes),
            depth: 0,
            most_depth: limits.depth,
            over: false,
            nested: false,
            quiet: true,
            most: 0,
            trails: false,
            found: Vec::new(),
            verdicts: None,
        }
    }

    /// Returns `true` if the value is valid.
    pub(super) fn verdict(mut self) -> bool {
        let fits = self.start();
        // Most validations cache no verdicts; the test is cheaper than dropping an empty cache.
        if let Some(verdicts) = self.verdicts {
            drop(verdicts);
        }
        fits
    }

    /// The first violation.
    pub(super) fn first(mut self) -> Result<(), Box<Violation>> {
        (self.quiet, self.most) = (false, 1);
        if self.start() {
            return Ok(());
        }
        match self.found.pop() {
            Some(found) if !self.over => Err(Box::new(found.violation)),
            _ => Err(Box::new(self.limit_violation())),
        }
    }

    /// The violations, at most `most`.
    pub(super) fn all(mut self, most: usize) -> Vec<Violation> {
        self.collect(most, false).into_iter().map(|found| found.violation).collect()
    }

    /// The violations with their trails.
    pub(super) fn violations(&mut self, most: usize) -> Vec<Found> {
        self.collect(most, true)
    }

    fn collect(&mut self, most: usize, trails: bool) -> Vec<Found> {
        (self.quiet, self.most, self.trails) = (false, most.max(1), trails);
        let fits = self.start();
        let mut found = std::mem::take(&mut self.found);
        if !fits && (self.over || found.is_empty()) {
            found.truncate(most.max(1) - 1);
            let violation = self.limit_violation();
            found.push(Found { violation, trail: Vec::new(), level: 0 });
        }
        found
    }

    fn start(&mut self) -> bool {
        let root = self.root;
        // OK because a compiled program has a root; without one every value is invalid.
        let Some(child) = self.program.root else { return false };
        let fits = self.apply_cold(child, root, None);
        if !fits && self.trails {
            self.add_steps(child, &[]);
        }
        fits && !self.over
    }

    #[cold]
    #[inline(never)]
    fn limit_violation(&self) -> Violation {
        let message = if self.steps == 0 {
            "the value takes too many steps to check against this schema"
        } else {
            "the value is nested too deeply to be checked against this schema"
        };
        Violation { path: String::new(), keyword: "limit", message: message.to_owned() }
    }

    /// Returns `true` if a value has one of these types. Reading a long number costs steps.
    #[inline(always)]
    fn has_type(&mut self, node_ref: NodeRef<'d>, mask: u8) -> bool {
        match types_in(node_ref, mask) {
            0 => false,
            types::INTEGER => self.is_integer(node_ref.number().unwrap_or_default()),
            _ => true,
        }
    }

    #[inline(never)]
    fn is_integer(&mut self, text: &[u8]) -> bool {
        self.reads(text.len()) && decimal::is_integer(text)
    }

    /// Charges the steps for reading this many bytes. Returns whether enough steps were left.
    #[inline]
    fn reads(&mut self, bytes: usize) -> bool {
        bytes < 64 || {
            self.charge(bytes / 16);
            !self.over
        }
    }

    /// Charges the steps for subschemas that apply to one value, unless they are few. Returns
    /// whether enough steps were left. Not every subschema costs a step itself.
    #[inline]
    fn charge_branches(&mut self, run: Span) -> bool {
        run.len < MAX_CHARGED_BRANCHES || {
            self.charge(run.len as usize);
            !self.over
        }
    }

    /// Charges steps in addition to those of the nodes.
    #[inline]
    fn charge(&mut self, steps: usize) {
        self.over |= self.steps < steps as u64;
        self.steps = self.steps.saturating_sub(steps as u64);
    }

    /// Returns `true` if a violation ends the run here.
    #[inline]
    fn stops_at_violation(&self) -> bool {
        self.quiet || self.found.len() >= self.most || self.over
    }

    /// Records a violation of the current value. Returns `false`, for callers to pass on.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, value: Value<'d>, why: Reason<'_, 'd>) -> bool {
        if !self.quiet && !self.over && self.found.len() < self.most {
            self.note(value, why, self.depth);
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn note(&mut self, value: Value<'d>, why: Reason<'_, 'd>, level: u32) {
        let mut trail = Vec::new();
        let keyword = why.keyword(value);
        if self.trails && keyword != messages::FALSE {
            trail.push(Token::Keyword(keyword));
        }
        let message = messages::message(self, value, &why);
        let path = subschemas::pointer_to(self.root, value.id());
        self.found.push(Found { violation: Violation { path, keyword, message }, trail, level });
    }

    /// Adds a step to the trails of the violations in this subschema.
    #[cold]
    #[inline(never)]
    fn outwards(&mut self, child: Child, keyword: &'static str, inner: Inner<'_>) {
        if !self.trails || self.quiet {
            return;
        }
        let inner = match inner {
            Inner::Nothing => None,
            Inner::Name(name) => Some(Token::Name(name.to_owned())),
            Inner::Index(index) => Some(Token::Index(index)),
        };
        self.add_steps(child, &[inner, Some(Token::Keyword(keyword))]);
    }

    /// Adds the references that the subschema forwards, and these steps.
    #[cold]
    #[inline(never)]
    fn add_steps(&mut self, child: Child, steps: &[Option<Token>]) {
        let mut passed = Vec::new();
        let mut child = child;
        while let Some((next, reference)) = self.forward(child) {
            passed.push(Token::Reference(reference));
            child = next;
        }
        let depth = self.depth;
        for found in self.found.iter_mut().rev().take_while(|f| f.level > depth) {
            found.level = depth;
            found.trail.extend(passed.iter().rev().chain(steps.iter().flatten()).cloned());
        }
    }

    /// Target of a subschema that is only a reference, and the reference.
    fn forward(&self, child: Child) -> Option<(Child, u32)> {
        if child.as_types().is_some() {
            return None;
        }
        let forwards = &self.program.forwards;
        let at = forwards.binary_search_by_key(&child.index(), |forward| forward.node).ok()?;
        match self.program.ops.get(forwards.get(at)?.op as usize) {
            Some(Op::Ref(next, reference)) => Some((*next, *reference)),
            _ => None,
        }
    }

    /// Checks a value against a subschema.
    #[inline(always)]
    fn child(&mut self, child: Child, value: Value<'d>, seen: Option<&mut Evaluated>) -> bool {
        match child.as_types() {
            Some(mask) => {
                self.has_type(value.node_ref(), mask) || !self.quiet && self.wrong_type(value, mask)
            }
            None => self.node(child.index(), value, seen),
        }
    }

    /// Out-of-line form, for calls whose cost does not matter.
    #[inline(never)]
    fn apply_cold(&mut self, child: Child, value: Value<'d>, seen: Option<&mut Evaluated>) -> bool {
        self.child(child, value, seen)
    }

    /// Checks an element or a member.
    #[inline(always)]
    fn inner(&mut self, child: Child, node_ref: NodeRef<'d>) -> bool {
        match child.as_types() {
            Some(mask) => {
                self.has_type(node_ref, mask) || !self.quiet && self.wrong_type(node_ref.value(), mask)
            }
            None => match self.program.nodes.get(child.index() as usize) {
                Some(node) => match node.flags {
                    LEAF => self.leaf_fast(node, node_ref),
                    MEMBERS => self.object(node.ops, node_ref.value(), None),
                    ELEMENTS => self.array(node.ops, node_ref.value(), None),
                    _ => self.node(child.index(), node_ref.value(), None),
                },
                // OK because the program is consistent; a missing node fails.
                None => false,
            },
        }
    }

    #[cold]
    #[inline(never)]
    fn wrong_type(&mut self, value: Value<'d>, mask: u8) -> bool {
        if !self.quiet && !self.over && self.found.len() < self.most {
            self.note(value, Reason::Type(mask), self.depth + 1);
        }
        false
    }

    #[inline(never)]
    fn node(&mut self, index: u32, value: Value<'d>, seen: Option<&mut Evaluated>) -> bool {
        // OK because the program is consistent; a missing node fails.
        let Some(node) = self.program.nodes.get(index as usize) else { return false };
        match node.flags {
            LEAF => self.leaf(node, value),
            MEMBERS => self.object(node.ops, value, seen),
            ELEMENTS => self.array(node.ops, value, seen),
            0 => self.apply(node, value, seen),
            _ => self.flagged(index, value, seen),
        }
    }

    /// Runs a node that forwards, is shared, or tracks evaluated members.
    #[inline(never)]
    fn flagged(&mut self, index: u32, value: Value<'d>, seen: Option<&mut Evaluated>) -> bool {
        let nodes = &self.program.nodes;
        let Some(node) = nodes.get(index as usize) else { return false };
        let index = if node.flags & FORWARDS != 0 { node.ops } else { index };
        let Some(node) = nodes.get(index as usize) else { return false };
        if node.flags & SHARED != 0 && self.steps < self.keep_below {
            self.kept(index, node, value, seen)
        } else if node.flags & MEMBERS != 0 {
            self.object(node.ops, value, seen)
        } else if node.flags & TRACKS != 0 && is_of(value.node_ref(), types::ARRAY | types::OBJECT) {
            self.apply_isolated(node, value, seen)
        } else {
            self.apply(node, value, seen)
        }
    }

    /// Runs a node with its own list of evaluated members.
    #[inline(never)]
    fn apply_isolated(&mut self, node: &Node, value: Value<'d>, seen: Option<&mut Evaluated>) -> bool {
        let mut own = Evaluated::default();
        let fits = self.apply(node, value, Some(&mut own));
        if let (true, Some(seen)) = (fits, seen) {
            seen.merge(&own);
        }
        fits
    }

    /// Runs a shared node, unless its verdict on this value is cached.
    #[inline(never)]
    fn kept(&mut self, index: u32, node: &Node, value: Value<'d>, seen: Option<&mut Evaluated>) -> bool {
        let key = key(&[index, value.id().index()], if seen.is_some() { "seen" } else { "" });
        if let Some((verdict, known)) = self.verdicts.as_ref().and_then(|v| v.get(&key)) {
            match verdict {
                Verdict::Fits => {
                    if let (Some(seen), Some(known)) = (seen, known) {
                        seen.merge(known);
                    }
                    return true;
                }
                Verdict::Fails if !self.quiet => {}
                Verdict::Fails | Verdict::Explained => return false,
            }
        }
        let asked = seen.is_some();
        // A node that tracks evaluated members needs its own list, whatever the caller has.
        let mut own = (asked || node.flags & TRACKS != 0).then(Evaluated::default);
        let fits = self.apply(node, value, own.as_mut());
        if let (true, Some(seen), Some(own)) = (fits, seen, &own) {
            seen.merge(own);
            self.charge(own.words());
        }
        if self.over {
            return false;
        }
        let verdict = match (fits, self.quiet) {
            (true, _) => Verdict::Fits,
            (false, true) => Verdict::Fails,
            (false, false) => Verdict::Explained,
        };
        let verdicts = self.verdicts.get_or_insert_default();
        if verdicts.list.len() < self.limits.verdicts {
            verdicts.put(&key, (verdict, own.filter(|_| asked).map(Box::new)));
        }
        fits
    }

    /// Takes a level, and steps. Without any left, fails the validation and returns `false`.
    #[inline(always)]
    fn enter(&mut self, steps: usize) -> bool {
        match self.steps.checked_sub(steps as u64 + 1) {
            Some(left) if self.depth < self.most_depth => {
                self.steps = left;
                self.depth += 1;
                true
            }
            left => {
                self.steps = left.unwrap_or(0);
                self.over = true;
                false
            }
        }
    }

    /// Runs the types and operations of a node.
    #[inline(never)]
    fn apply(&mut self, node: &Node, value: Value<'d>, mut seen: Option<&mut Evaluated>) -> bool {
        if node.flags & MEMBERS != 0 {
            return self.object(node.ops, value, seen);
        }
        if node.flags & ELEMENTS != 0 {
            return self.array(node.ops, value, seen);
        }
        if !self.enter(0) {
            return false;
        }
        let node_ref = value.node_ref();
        if !self.has_type(node_ref, node.types) {
            self.depth -= 1;
            return !self.quiet && self.wrong_type(value, node.types);
        }
        let mut fits = true;
        let run = Span { start: node.ops, len: u32::from(node.count) };
        let program = self.program;
        for op in run.of(&program.ops) {
            if !self.op(op, value, node_ref, seen.as_deref_mut()) {
                fits = false;
                if self.stops_at_violation() {
                    break;
                }
            }
        }
        self.depth -= 1;
        fits
    }

    #[inline(always)]
    fn op(&mut self, op: &Op, value: Value<'d>, node_ref: NodeRef<'d>, seen: Option<&mut Evaluated>) -> bool {
        let is = |mask| types_in(node_ref, mask) != 0;
        match *op {
            Op::Object(index) => !is(types::OBJECT) || self.object(index, value, seen),
            Op::Array(index) => !is(types::ARRAY) || self.array(index, value, seen),
            Op::Ref(child, reference) => self.reference(child, reference, value, seen),
            Op::AllOf(run) => self.all_of(run, value, seen),
            Op::AnyOf(run) => self.any_of(run, value, seen),
            Op::OneOf(run) => self.one_of(run, value, seen),
            Op::Not(child) => !self.is_valid_quiet(child, value, None) || self.fail(value, Reason::Not),
            Op::If(run) => self.conditional(run, value, seen),
            Op::Contains(index) => !is(types::ARRAY) || self.contains(index, value, seen),
            Op::Names(child) => !is(types::OBJECT) || self.names(child, value),
            Op::Dependents(run) => !is(types::OBJECT) || self.dependents(run, value, seen),
            Op::UnevaluatedItems(child) => !is(types::ARRAY) || self.unevaluated_items(child, value, seen),
            Op::UnevaluatedProperties(child) => {
                !is(types::OBJECT) || self.unevaluated_properties(child, value, seen)
            }
            _ => self.holds(op, value) || !self.quiet && self.report(*op, value),
        }
    }

    /// Reason for a violation by a value, for messages about the value around it.
    #[cold]
    pub(super) fn reason(&self, child: Child, value: Value<'d>) -> Option<Violation> {
        let mut inner = Run::new(self.program, self.limits, self.root);
        (inner.quiet, inner.most, inner.nested) = (false, 1, true);
        (inner.depth, inner.steps) = (self.depth, self.steps.min(REASON_STEPS));
        inner.apply_cold(child, value, None);
        inner.found.pop().map(|found| found.violation)
    }

    /// Returns `true` if this run serves a message of another run.
    pub(super) fn is_nested(&self) -> bool {
        self.nested
    }

    /// The path of a value within the checked one.
    pub(super) fn path(&self, value: Value<'d>) -> String {
        subschemas::pointer_to(self.root, value.id())
    }
}
