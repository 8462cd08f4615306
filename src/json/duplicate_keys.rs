//! Check for duplicate member names.
//!
//! Compares decoded names, so `"a"` and `"\u0061"` are equal. Checks one object at a time, when the
//! parser closes it, without the objects inside.
//!
//! Invariants: the result is exact; the cost for a few dozen names is little more than reading
//! them, and for any names at most that of sorting them.

use super::parse::Node;

/// Key of a name while its object is checked.
#[derive(Clone, Copy)]
pub(super) struct Name {
    /// Equal for equal names, and rarely for different ones.
    key: u64,
    node: u32,
}

/// With more names, they are sorted at once; with fewer, a filter mostly shows that all differ.
const FEW: u32 = 64;

/// The node of the first name in the object at `object` that repeats an earlier one.
pub(super) fn repeated(
    text: &str,
    decoded: &str,
    nodes: &[Node],
    object: u32,
    names: &mut Vec<Name>,
) -> Option<u32> {
    let count = nodes.get(object as usize).map_or(0, |n| n.count());
    names.clear();
    // One bit for each key, at a position that depends on the whole key.
    let mut filter = [0u64; 16];
    let mut suspicious = count > FEW;
    let mut at = object + 1;
    for _ in 0..count {
        let name = nodes.get(at as usize)?;
        let key = key(text, decoded, name);
        let place = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        let bit = 1 << (place % 64);
        if let Some(word) = filter.get_mut(place as usize / 64) {
            if *word & bit != 0 {
                suspicious = suspicious || names.iter().any(|n| n.key == key);
            }
            *word |= bit;
        }
        names.push(Name { key, node: at });
        let value = nodes.get(at as usize + 1)?;
        at = value.behind(at + 1);
    }
    if suspicious { sorted(text, decoded, nodes, names) } else { None }
}

/// Exact check for any number of names.
#[cold]
fn sorted(text: &str, decoded: &str, nodes: &[Node], names: &mut [Name]) -> Option<u32> {
    let spelled = |n: &Name| match nodes.get(n.node as usize) {
        Some(node) => node.string(text, decoded),
        None => "",
    };
    super::sort::sort(names, |a, b| (a.key, a.node).cmp(&(b.key, b.node)));
    let mut first: Option<u32> = None;
    for run in names.chunk_by_mut(|a, b| a.key == b.key) {
        if run.len() > 1 {
            super::sort::sort(run, |a, b| spelled(a).cmp(spelled(b)).then(a.node.cmp(&b.node)));
            let later = run
                .windows(2)
                .filter(|pair| spelled(&pair[0]) == spelled(&pair[1]))
                .map(|pair| pair[1].node)
                .min();
            first = match (first, later) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
    first
}

/// Mixes the first and last eight bytes of a name and its length.
#[inline(always)]
fn key(text: &str, decoded: &str, name: &Node) -> u64 {
    let (arena, start, len) = name.spelling(text, decoded);
    let arena = arena.as_bytes();
    let head = word(arena, start);
    if len < 8 {
        return head & !(u64::MAX << (8 * len));
    }
    head ^ word(arena, start + len - 8).rotate_left(23) ^ ((len as u64) << 56)
}

/// Eight bytes from `i` on; zero after the end of the arena.
#[inline(always)]
fn word(arena: &[u8], i: usize) -> u64 {
    let rest = arena.get(i..).unwrap_or_default();
    match rest.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => rest.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b)),
    }
}
