//! Canonical forms: byte strings that are the same for equal JSON values and differ for others.
//!
//! Equality is that of JSON Schema: numbers by value (`1` equals `1.0`), objects without regard to
//! the order of members. Code that compares many values sorts their forms instead of comparing
//! pairs.
//!
//! Invariants:
//! - A list of open containers replaces recursion.
//! - The length of a form is at most a small multiple of the length of the text.
//! - Of members with the same name, the last one counts.

use std::cmp::Ordering;

use crate::json::sort::sort;
use crate::json::{Kind, NodeRef, Value};

use super::decimal::{self, Decimal};

/// A container that is partly written.
enum PartialContainer<'d> {
    Items(crate::json::Items<'d>),
    Members(std::vec::IntoIter<(&'d str, Value<'d>)>),
}

/// Appends the canonical form of `value`.
pub(super) fn append(value: Value<'_>, out: &mut Vec<u8>) {
    let mut open = Vec::new();
    let mut next = Some(value);
    loop {
        if let Some(value) = next.take() {
            match value.kind() {
                Kind::Null => out.push(b'n'),
                Kind::Bool => out.push(if value.as_bool() == Some(true) { b't' } else { b'f' }),
                Kind::Number => Decimal::new(value.as_number().unwrap_or_default()).canonical(out),
                Kind::String => append_text(value.as_str().unwrap_or_default(), out),
                Kind::Array => {
                    out.push(b'[');
                    open.push(PartialContainer::Items(value.items()));
                }
                Kind::Object => {
                    out.push(b'{');
                    open.push(PartialContainer::Members(sorted(value).into_iter()));
                }
            }
        }
        match open.last_mut() {
            None => return,
            Some(PartialContainer::Items(items)) => next = items.next(),
            Some(PartialContainer::Members(members)) => {
                next = members.next().map(|(name, value)| {
                    append_text(name, out);
                    value
                });
            }
        }
        if next.is_none() {
            out.push(b';');
            open.pop();
        }
    }
}

fn append_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn sorted(object: Value<'_>) -> Vec<(&str, Value<'_>)> {
    let mut members: Vec<_> = object.members().collect();
    // Of members with the same name, only the last one is kept.
    sort(&mut members, |a, b| {
        compare_names(b.0.as_bytes(), a.0.as_bytes()).then(b.1.offset().cmp(&a.1.offset()))
    });
    members.dedup_by(|a, b| a.0 == b.0);
    members
}

/// Order of names in tables. Comparing lengths first is cheaper than comparing bytes.
#[inline]
pub(super) fn compare_names(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Returns `true` if two texts are equal. Most names and words are short, and a call costs more
/// than the comparison.
#[inline]
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match a.len() {
        8..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        4..=7 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        2..=3 => a.first_chunk::<2>() == b.first_chunk() && a.last() == b.last(),
        0..=1 => a.first() == b.first(),
        _ => a == b,
    }
}

/// Largest number of values that are compared in pairs; more are sorted.
const MAX_PAIRWISE: usize = 8;

/// The positions of two equal elements, if any.
pub(super) fn first_duplicate(array: Value<'_>) -> Option<(usize, usize)> {
    let len = array.len();
    if len <= MAX_PAIRWISE {
        if let Some(twins) = first_duplicate_scalar(array) {
            return twins;
        }
    }
    let mut forms = Vec::with_capacity(array.raw().len() + len);
    let mut places = Vec::with_capacity(len);
    for (i, value) in array.items().enumerate() {
        let start = forms.len();
        append(value, &mut forms);
        places.push((start, forms.len(), i));
    }
    let form = |place: &(usize, usize, usize)| forms.get(place.0..place.1).unwrap_or_default();
    sort(&mut places, |a, b| form(a).cmp(form(b)).then(a.2.cmp(&b.2)));
    let twice = places.windows(2).filter(|w| form(&w[0]) == form(&w[1])).min_by_key(|w| w[1].2);
    twice.map(|w| (w[0].2, w[1].2))
}

/// Like `first_duplicate`, for a few values that are equal only if their texts are: no containers,
/// and no numbers with several notations. `None` for other values.
fn first_duplicate_scalar(array: Value<'_>) -> Option<Option<(usize, usize)>> {
    // The texts so far, and whether each is a string.
    let mut known = [(&[][..], false); MAX_PAIRWISE];
    for (i, node_ref) in array.node_ref().inside().enumerate() {
        let (text, quoted) = (plain(node_ref)?, node_ref.string().is_some());
        let twin = known.iter().take(i).position(|known| known.1 == quoted && same(known.0, text));
        if let Some(j) = twin {
            return Some(Some((j, i)));
        }
        if let Some(slot) = known.get_mut(i) {
            *slot = (text, quoted);
        }
    }
    Some(None)
}

/// Returns the text of a value that has no other notation.
fn plain(node_ref: NodeRef<'_>) -> Option<&[u8]> {
    match (node_ref.string(), node_ref.number()) {
        (Some(text), _) => Some(text),
        (_, Some(number)) => decimal::is_plain(number).then_some(number),
        _ => (node_ref.tag() < 3).then(|| node_ref.value().raw().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::json::Doc;

    fn form(text: &str) -> Vec<u8> {
        let doc = Doc::parse(text).unwrap();
        let mut out = Vec::new();
        append(doc.root(), &mut out);
        out
    }

    #[test]
    fn equal_values_share_a_form_and_others_do_not() {
        let groups: [&[&str]; 12] = [
            &["1", "1.0", "10e-1"],
            &["-0", "0", "0.0e9"],
            &["\"1\"", "\"\\u0031\""],
            &["[]"],
            &["{}"],
            &["[1,[2]]", "[ 1.0, [20e-1] ]"],
            &["[[1],2]"],
            &["{\"a\":1,\"b\":[null]}", "{\"b\":[null],\"a\":1.0}"],
            &["{\"a\":[null],\"b\":1}"],
            &["{\"a\":2}", "{\"a\":1,\"a\":2}"],
            &["true"],
            &["\"true\""],
        ];
        for (i, group) in groups.iter().enumerate() {
            for a in *group {
                for (j, other) in groups.iter().enumerate() {
                    for b in *other {
                        assert_eq!(form(a) == form(b), i == j, "{a} {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_repetition_is_found_in_short_and_long_arrays() {
        for (text, expected) in [
            ("[]", None),
            ("[1,1.0]", Some((0, 1))),
            ("[1,true]", None),
            ("[\"a\",\"b\",\"a\",\"b\"]", Some((0, 2))),
            ("[null,\"null\",null]", Some((0, 2))),
            ("[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]", Some((0, 1))),
            ("[1,2,3,4,5,6,7,8,9,10,11,12,13,4,5]", Some((3, 13))),
        ] {
            assert_eq!(first_duplicate(Doc::parse(text).unwrap().root()), expected, "{text}");
        }
    }

    #[test]
    fn deep_values_need_no_stack() {
        let text = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let mut doc = Doc::default();
        doc.parse_again(text.as_bytes(), &crate::json::ParseLimits::UNBOUNDED).unwrap();
        let mut out = Vec::new();
        append(doc.root(), &mut out);
        assert_eq!(out.len(), 400_000);
    }
}
