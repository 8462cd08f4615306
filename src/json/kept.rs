//! An array or object that the text before had, and that the next one likely has again.
//!
//! A peer that says with each message who it is says it in the same words. Where a text is not alike
//! the one before (see `alike.rs`), that part of it mostly is, wherever it stands by then; its nodes
//! are moved there, which costs a tenth of parsing it.
//!
//! What it does: keep the nodes of one small container, find out whether a text has the same at some
//! place, and move them there. What it does not: containers of texts that have strings with escapes,
//! or with more than a few nodes.
//!
//! Invariant: the nodes are those the parser would make, and it makes them within the same limits:
//! what the old text was held to is what the new one is held to.

use super::NodeId;
use super::parse::Node;
use super::scan;

/// Containers with more nodes are parsed.
const MOST: usize = 24;

pub(super) struct Kept<'t> {
    /// The text of the container.
    text: &'t [u8],
    /// Its first bytes.
    head: u64,
    nodes: &'t [Node],
    /// The number that its first node had.
    at: u32,
}

/// Memory for the nodes of one.
pub(super) type Room = [Node; MOST];

/// Such memory, empty.
pub(super) const ROOM: Room = [Node::ZERO; MOST];

impl<'t> Kept<'t> {
    /// The container at `id` of the text `old`, whose table is `nodes`, and which has no string with
    /// escapes.
    pub(super) fn new(nodes: &[Node], old: &'t str, id: NodeId, room: &'t mut Room) -> Option<Kept<'t>> {
        let at = id.index();
        let from = nodes.get(at as usize..)?;
        let top = from.first().filter(|top| top.is_container())?;
        let inside = from.get(..top.link.checked_sub(at)? as usize)?;
        let text = old.as_bytes().get(top.start as usize..top.end as usize)?;
        let room = room.get_mut(..inside.len())?;
        room.copy_from_slice(inside);
        Some(Kept { text, head: scan::word(text, 0)?, nodes: room, at })
    }

    /// How many bytes of `text` from `i` on it is, if it stands there.
    #[inline(always)]
    pub(super) fn stands(&self, text: &[u8], i: usize) -> Option<usize> {
        let len = self.text.len();
        let there = scan::word(text, i) == Some(self.head) && text.get(i..i + len) == Some(self.text);
        there.then_some(len)
    }

    /// Adds its nodes to the table of a text in which it stands at `start`. There is none when they do
    /// not fit in, or might be deeper than `depth`: the parser finds out then.
    #[inline(always)]
    pub(super) fn add_to(&self, table: &mut Vec<Node>, start: usize, depth: u32) -> Option<()> {
        if self.nodes.len() > table.capacity() - table.len() || self.nodes.len() > depth as usize {
            return None;
        }
        let at = table.len();
        let by = (start as u32).wrapping_sub(self.nodes.first()?.start);
        let on = (at as u32).wrapping_sub(self.at);
        table.extend_from_slice(self.nodes);
        for node in table.get_mut(at..)? {
            node.shift(by, on);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Doc, ErrorKind, Free, ParseLimits};
    use super::{Kept, MOST, ROOM};

    const LIMITS: ParseLimits = ParseLimits { bytes: 400, depth: 7, nodes: 40, unique_names: true };

    /// Parses `new` where the document before was `old`, of which `/m` is kept; tells whether that
    /// stands at the place of the first `{"k"` in the new text.
    fn next(old: &str, new: &str) -> bool {
        let (mut doc, mut fresh) = (Doc::default(), Doc::default());
        doc.parse_again(old.as_bytes(), &LIMITS).unwrap();
        let same = doc.root().get("m").map(|value| value.id());
        let mut room = ROOM;
        // As in `parse_next`.
        let plain = same.filter(|_| doc.decoded.is_empty());
        let kept = plain.and_then(|id| Kept::new(&doc.nodes, &doc.text, id, &mut room));
        let place = new.find("{\"k\"").unwrap_or(0);
        let stands = kept.is_some_and(|kept| kept.stands(new.as_bytes(), place).is_some());
        let result = doc.parse_next(new.as_bytes(), &LIMITS, &Free { same, ..Free::default() });
        assert_eq!(result.map(drop), fresh.parse_again(new.as_bytes(), &LIMITS), "{old} then {new}");
        assert_eq!(doc.nodes, fresh.nodes, "{old} then {new}");
        assert_eq!((doc.text, doc.decoded), (fresh.text, fresh.decoded));
        stands
    }

    #[test]
    fn it_is_found_wherever_it_stands() {
        let old = r#"{"a":1,"m":{"k":[1,-2.5e3,{"x":"y"}],"l":true}}"#;
        for new in [
            r#"{"a":1,"m":{"k":[1,-2.5e3,{"x":"y"}],"l":true},"b":[]}"#,
            r#"{"m":{"k":[1,-2.5e3,{"x":"y"}],"l":true},"a":1}"#,
            r#" {"longer name":"\n", "m" : {"k":[1,-2.5e3,{"x":"y"}],"l":true} } "#,
            r#"[[{"k":[1,-2.5e3,{"x":"y"}],"l":true},{"k":[1,-2.5e3,{"x":"y"}],"l":true}]]"#,
            r#"{"k":[1,-2.5e3,{"x":"y"}],"l":true}"#,
            // The text is refused all the same.
            r#"{"m":{"k":[1,-2.5e3,{"x":"y"}],"l":true}"#,
            r#"{"m":{"k":[1,-2.5e3,{"x":"y"}],"l":true}x}"#,
            r#"{"m":1,"m":{"k":[1,-2.5e3,{"x":"y"}],"l":true}}"#,
        ] {
            assert!(next(old, new), "{new}");
        }
        for new in [
            r#"{"m":{"k":[1,-2.5e3,{"x":"z"}],"l":true},"a":1}"#,
            r#"{"m":{"k":[1,-2.5e3,{"x":"y"}],"l":trua},"a":1}"#,
            r#"{"m":{"k":[1,-2.5e3,{"x":"y"}],"l":tru"#,
        ] {
            assert!(!next(old, new), "{new}");
        }
        assert!(!next(r#"{"m":{"k":"with \n escape"}}"#, r#"{"mm":{"k":"with \n escape"}}"#));
        assert!(!next(r#"{"m":"{\"k\":1}"}"#, r#"{"mm":{"k":1}}"#));
    }

    #[test]
    fn limits_hold_for_what_is_kept() {
        // Five deep, and two more.
        let deep = r#"{"k":[[[[1]]]]}"#;
        for (before, behind) in [("[", "]"), ("[[", "]]"), ("[[[", "]]]")] {
            assert!(next(&format!("{{\"m\":{deep}}}"), &format!("{before}{deep}{behind}")));
        }
        let mut doc = Doc::default();
        let many = format!("[{}]", r#"{"k":[1,2,3,4,5,6,7,8,9]},"#.repeat(4).trim_end_matches(','));
        doc.parse_again(br#"{"m":{"k":[1,2,3,4,5,6,7,8,9]}}"#, &LIMITS).unwrap();
        let same = doc.root().get("m").map(|value| value.id());
        let refused = doc.parse_next(many.as_bytes(), &LIMITS, &Free { same, ..Free::default() });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Nodes);
        // More than is kept.
        let large = format!("{{\"k\":[{}0]}}", "1,".repeat(MOST - 3));
        assert!(!next(&format!("{{\"m\":{large}}}"), &format!("[{large}]")));
        let large = large.replacen("1,", "", 1);
        assert!(next(&format!("{{\"m\":{large}}}"), &format!("[{large}]")));
    }
}
