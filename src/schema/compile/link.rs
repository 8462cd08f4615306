//! Last pass over a program: removes empty nodes, marks shared ones, rejects cycles.
//!
//! Reads only nodes and operations.
//!
//! Invariants: no recursion; afterwards every chain of subschemas on one value ends, within the
//! depth limit.

use super::super::SchemaLimits;
use super::super::program::{
    Child, ELEMENTS, FORWARDS, Forward, LEAF, MEMBERS, Node, Op, Program, SHARED, Span, types,
};
use super::super::resources::Invalid;
use super::Tables;

pub(super) fn link(
    t: &mut Tables,
    root: Child,
    base: Span,
    limits: &SchemaLimits,
) -> Result<Program, Box<Invalid>> {
    let mut root = root;
    let moved = move_nodes(t);
    each_child(t, &mut |child| follow(child, &moved));
    follow(&mut root, &moved);
    mark_shared(t, root);
    check_depth(t, limits)?;
    mark_containers(t);
    let forwards = resolve_forwards(t);
    Ok(Program {
        root: Some(root),
        base,
        nodes: exact(&mut t.nodes),
        ops: exact(&mut t.ops),
        children: exact(&mut t.children),
        properties: exact(&mut t.properties),
        objects: exact(&mut t.objects),
        arrays: exact(&mut t.arrays),
        contains: exact(&mut t.contains),
        bounds: exact(&mut t.bounds),
        dependents: exact(&mut t.dependents),
        enums: exact(&mut t.enums),
        words: exact(&mut t.words),
        references: exact(&mut t.references),
        forwards,
        patterns: exact(&mut t.patterns),
        pool: std::mem::take(&mut t.pool).into(),
    })
}

/// Shrinks a table to its length.
#[inline(never)]
fn exact<T>(table: &mut Vec<T>) -> Box<[T]> {
    std::mem::take(table).into()
}

/// Removes nodes without operations; returns the replacement of each node.
fn move_nodes(t: &mut Tables) -> Vec<Child> {
    let mut kept = 0;
    let mut moved = Vec::with_capacity(t.nodes.len());
    for i in 0..t.nodes.len() {
        let (Some(node), Some(place)) = (t.nodes.get(i).copied(), t.places.get(i).copied()) else { continue };
        if node.count == 0 {
            moved.push(Child::types(node.types));
            continue;
        }
        moved.push(Child::node(kept));
        let to = kept as usize;
        if let (Some(slot), Some(at)) = (t.nodes.get_mut(to), t.places.get_mut(to)) {
            *slot = node;
            *at = place;
        }
        kept += 1;
    }
    t.nodes.truncate(kept as usize);
    t.places.truncate(kept as usize);
    moved
}

fn follow(child: &mut Child, moved: &[Child]) {
    if child.as_types().is_none() {
        if let Some(to) = moved.get(child.index() as usize) {
            *child = *to;
        }
    }
}

fn each_child(t: &mut Tables, visit: &mut dyn FnMut(&mut Child)) {
    t.children.iter_mut().for_each(&mut *visit);
    t.properties.iter_mut().filter(|p| p.is_declared()).map(|p| &mut p.child).for_each(&mut *visit);
    t.objects.iter_mut().map(|o| &mut o.additional).for_each(&mut *visit);
    t.arrays.iter_mut().filter_map(|a| a.rest.as_mut()).for_each(&mut *visit);
    t.contains.iter_mut().map(|c| &mut c.child).for_each(&mut *visit);
    t.dependents.iter_mut().filter_map(|d| d.schema.as_mut()).for_each(&mut *visit);
    for op in &mut t.ops {
        match op {
            Op::Names(child)
            | Op::Ref(child, _)
            | Op::Not(child)
            | Op::UnevaluatedItems(child)
            | Op::UnevaluatedProperties(child) => visit(child),
            _ => {}
        }
    }
}

fn mark_shared(t: &mut Tables, root: Child) {
    let mut uses = vec![0u8; t.nodes.len()];
    let mut count = |child: &mut Child| {
        if let (None, Some(n)) = (child.as_types(), uses.get_mut(child.index() as usize)) {
            *n = n.saturating_add(1);
        }
    };
    count(&mut root.clone());
    each_child(t, &mut count);
    for (node, uses) in t.nodes.iter_mut().zip(uses) {
        if uses > 1 {
            node.flags |= SHARED;
        }
        let run = Span { start: node.ops, len: u32::from(node.count) };
        if node.types == types::ALL && matches!(run.of(&t.ops), [Op::Ref(..)]) {
            node.flags |= FORWARDS;
        }
        if run.of(&t.ops).iter().all(is_leaf) {
            // Running it again is cheaper than caching.
            node.flags = LEAF;
        }
    }
}

/// Lets nodes with one operation on members or elements refer to its table directly.
fn mark_containers(t: &mut Tables) {
    for node in &mut t.nodes {
        let run = Span { start: node.ops, len: u32::from(node.count) };
        let (flag, index) = match (run.of(&t.ops), node.types) {
            ([Op::Object(index)], types::OBJECT) => (MEMBERS, *index),
            ([Op::Array(index)], types::ARRAY) => (ELEMENTS, *index),
            _ => continue,
        };
        node.flags |= flag;
        node.ops = index;
    }
}

/// Replaces each node that is only a reference by its target. A node for a shared target stays and
/// refers to it, because verdicts are cached by node.
fn resolve_forwards(t: &mut Tables) -> Box<[Forward]> {
    let mut forwards = Vec::new();
    let mut chain = Vec::new();
    let mut done = vec![false; t.nodes.len()];
    for (start, node) in (0..).zip(&t.nodes) {
        if node.flags & FORWARDS != 0 {
            forwards.push(Forward { node: start, op: node.ops });
        }
    }
    for forward in &forwards {
        let mut end = Child::node(forward.node);
        while end.as_types().is_none() {
            let at = end.index() as usize;
            let Some((node, done)) = t.nodes.get(at).zip(done.get_mut(at)) else { break };
            let Some(Op::Ref(child, _)) = t.ops.get(node.ops as usize) else { break };
            if node.flags & FORWARDS == 0 || std::mem::replace(done, true) {
                break;
            }
            chain.push(at);
            end = *child;
        }
        // From the end of each chain, so that every node finds its target in the final form.
        while let Some(at) = chain.pop() {
            let target = t.nodes.get(end.index() as usize).copied();
            let Some(node) = t.nodes.get_mut(at) else { break };
            *node = match (end.as_types(), target) {
                (Some(types), _) => Node { ops: u32::MAX, count: 0, types, flags: LEAF },
                (None, Some(target)) if target.flags == LEAF || target.flags & FORWARDS != 0 => target,
                (None, Some(target)) if target.flags & SHARED == 0 => {
                    Node { flags: target.flags | node.flags & SHARED, ..target }
                }
                _ => Node { ops: end.index(), count: 0, types: types::ALL, flags: FORWARDS },
            };
            end = Child::node(at as u32);
        }
    }
    forwards.into()
}

/// Returns `true` if an operation reads the value alone.
fn is_leaf(op: &Op) -> bool {
    matches!(
        op,
        Op::Length { .. }
            | Op::Items { .. }
            | Op::Members { .. }
            | Op::Bounds(_)
            | Op::Multiple(_)
            | Op::Pattern(_)
            | Op::Format(_)
            | Op::Words(_)
            | Op::Word(_)
            | Op::Enum(_)
            | Op::Unique
    )
}

/// The subschemas that a node applies to its own value.
fn in_place(t: &Tables, node: Node, found: &mut Vec<u32>) {
    let run = Span { start: node.ops, len: u32::from(node.count) };
    let mut add = |child: Child| {
        if child.as_types().is_none() {
            found.push(child.index());
        }
    };
    for op in run.of(&t.ops) {
        match op {
            Op::Ref(child, _) | Op::Not(child) => add(*child),
            Op::AllOf(run) | Op::AnyOf(run) | Op::OneOf(run) | Op::If(run) => {
                run.of(&t.children).iter().copied().for_each(&mut add);
            }
            Op::Dependents(run) => run.of(&t.dependents).iter().filter_map(|d| d.schema).for_each(&mut add),
            _ => {}
        }
    }
}

/// Not visited; on the current path; or the number of nodes on one value from here on.
const NEW: u32 = u32::MAX;
const BUSY: u32 = u32::MAX - 1;

fn check_depth(t: &Tables, limits: &SchemaLimits) -> Result<(), Box<Invalid>> {
    let mut depths = vec![NEW; t.nodes.len()];
    // The path from the start: the remaining subschemas of each node, and the depth so far.
    let mut path: Vec<(usize, Vec<u32>, u32)> = Vec::new();
    for start in 0..t.nodes.len() {
        let mut next = Some(start);
        loop {
            if let Some(at) = next.take() {
                match (depths.get_mut(at), t.nodes.get(at), t.places.get(at)) {
                    (Some(depth), Some(node), _) if *depth == NEW => {
                        *depth = BUSY;
                        let mut inner = Vec::new();
                        in_place(t, *node, &mut inner);
                        path.push((at, inner, 0));
                    }
                    (Some(depth), _, Some(place)) if *depth == BUSY => {
                        let message = "a cycle of references that never descends into the value";
                        return Err(Invalid::new(*place, message));
                    }
                    (Some(depth), _, _) => {
                        if let Some(top) = path.last_mut() {
                            top.2 = top.2.max(*depth);
                        }
                    }
                    _ => {}
                }
            }
            let Some((at, inner, depth)) = path.last_mut() else { break };
            if let Some(child) = inner.pop() {
                next = Some(child as usize);
                continue;
            }
            // Forwarding a reference takes no level.
            let forwards = t.nodes.get(*at).is_some_and(|n| n.flags & FORWARDS != 0);
            let (at, depth) = (*at, *depth + u32::from(!forwards));
            path.pop();
            if depth > limits.depth {
                let message = format!("more than {} nested subschemas that apply to one value", limits.depth);
                // OK because nodes and places have the same length.
                let place = t.places.get(at).or(t.places.first()).copied();
                return Err(Invalid::from_message(place.unwrap_or(super::ROOT), message));
            }
            if let Some(slot) = depths.get_mut(at) {
                *slot = depth;
            }
            if let Some(top) = path.last_mut() {
                top.2 = top.2.max(depth);
            }
        }
    }
    Ok(())
}
