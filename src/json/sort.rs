//! Heap sort with one implementation for all types.
//!
//! The sorts of the standard library take several kilobytes for each type and order. This one takes
//! a hundred bytes for each, where a few hundred nanoseconds do not matter. It is not stable, and
//! needs at most O(n log n) comparisons.

use std::cmp::Ordering;

/// The operations of the sort on a slice.
trait Sortable {
    fn before(&self, a: usize, b: usize) -> bool;
    fn swap(&mut self, a: usize, b: usize);
}

struct Slice<'s, T, C> {
    items: &'s mut [T],
    compare: C,
}

impl<T, C: Fn(&T, &T) -> Ordering> Sortable for Slice<'_, T, C> {
    fn before(&self, a: usize, b: usize) -> bool {
        match (self.items.get(a), self.items.get(b)) {
            (Some(a), Some(b)) => (self.compare)(a, b) == Ordering::Less,
            _ => false,
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        // In bounds, because `heap_sort` stays below the length.
        if a.max(b) < self.items.len() {
            self.items.swap(a, b);
        }
    }
}

/// Sorts a slice; equal elements end in any order.
pub(crate) fn sort<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let len = items.len();
    heap_sort(&mut Slice { items, compare }, len);
}

fn heap_sort(items: &mut dyn Sortable, len: usize) {
    // A sorted slice costs one pass.
    if (1..len).all(|i| !items.before(i, i - 1)) {
        return;
    }
    for start in (0..len / 2).rev() {
        sink(items, start, len);
    }
    for end in (1..len).rev() {
        items.swap(0, end);
        sink(items, 0, end);
    }
}

/// Restores the heap below `at`: no parent is before its children.
fn sink(items: &mut dyn Sortable, mut at: usize, end: usize) {
    loop {
        let mut child = 2 * at + 1;
        if child + 1 < end && items.before(child, child + 1) {
            child += 1;
        }
        if child >= end || !items.before(at, child) {
            return;
        }
        items.swap(at, child);
        at = child;
    }
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn sorted_like_the_standard_library_sorts() {
        let mut seed = 1_u32;
        for len in (0..70).chain([1000]) {
            for most in [1, 3, 1 << 20] {
                let mut ours: Vec<u32> = (0..len)
                    .map(|_| {
                        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        (seed >> 8) % most
                    })
                    .collect();
                let mut theirs = ours.clone();
                theirs.sort_unstable();
                sort(&mut ours, u32::cmp);
                assert_eq!(ours, theirs);
            }
        }
    }
}
