//! Table of the in-flight requests that one side of a connection has sent.
//!
//! Assigns the ids, stores one entry per request and limits their number. The table neither locks
//! nor waits.
//!
//! # Invariants
//! - Ids start at 1 and rise by one: no id is used twice on a connection (basic/index, request
//!   ids).
//! - `entries` is sorted by id, because ids rise and removal keeps the order.
//! - A removed entry is never found again, so a late response has no effect.

/// In-flight requests, each with its entry.
pub(crate) struct Pending<T> {
    entries: Vec<(u64, T)>,
    last: u64,
    max: usize,
}

impl<T> Pending<T> {
    /// Creates an empty table for at most this many requests.
    pub(crate) fn new(max: usize) -> Pending<T> {
        Pending { entries: Vec::new(), last: 0, max }
    }

    /// Inserts an entry under the next id. Returns the entry if the table is full.
    pub(crate) fn insert(&mut self, entry: T) -> Result<u64, T> {
        if self.entries.len() >= self.max {
            return Err(entry);
        }
        self.last += 1;
        self.entries.push((self.last, entry));
        Ok(self.last)
    }

    /// Removes and returns the entry of this id.
    pub(crate) fn take(&mut self, id: u64) -> Option<T> {
        let at = self.position(id)?;
        Some(self.entries.remove(at).1)
    }

    /// Returns the entry of this id.
    pub(crate) fn find(&self, id: u64) -> Option<&T> {
        self.entries.get(self.position(id)?).map(|(_, entry)| entry)
    }

    /// Returns the ids of all requests, oldest first.
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.entries.iter().map(|(id, _)| *id).collect()
    }

    /// Removes and returns all entries, oldest first.
    pub(crate) fn take_all(&mut self) -> Vec<(u64, T)> {
        std::mem::take(&mut self.entries)
    }

    /// Returns the id of the request, if there is exactly one.
    pub(crate) fn only(&self) -> Option<u64> {
        match self.entries.as_slice() {
            [(id, _)] => Some(*id),
            _ => None,
        }
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |(id, _)| *id).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_and_are_taken_once() {
        let mut pending = Pending::new(3);
        let ids: Vec<_> = ["a", "b", "c"].map(|name| pending.insert(name)).into_iter().collect();
        assert_eq!(ids, [Ok(1), Ok(2), Ok(3)]);
        assert_eq!(pending.insert("d"), Err("d"), "the table is full");
        assert_eq!(pending.take(2), Some("b"));
        assert_eq!(pending.take(2), None, "taken twice");
        assert_eq!(pending.find(3), Some(&"c"));
        assert_eq!(pending.insert("d"), Ok(4), "an id is never used again");
        assert_eq!(pending.ids(), [1, 3, 4]);
        assert_eq!((pending.take(1), pending.only()), (Some("a"), None));
        assert_eq!(pending.take_all(), [(3, "c"), (4, "d")]);
        assert_eq!((pending.len(), pending.take(4)), (0, None));
        assert_eq!(pending.only(), None);
        assert_eq!(pending.insert("e"), Ok(5));
        assert_eq!(pending.only(), Some(5));
        assert_eq!(pending.take(0), None);
        assert_eq!(pending.take(u64::MAX), None);
    }
}
