//! JSON texts: recycled documents accept, reject and read exactly the same texts as serde_json.

use std::cell::RefCell;
use std::collections::HashSet;

use tinymcp::json::{Doc, ErrorKind, Kind, ParseLimits, Value, Writer};

/// The depth limit of serde_json is disabled; ours is low enough for its recursion.
const LIMITS: ParseLimits = ParseLimits { depth: 200, ..ParseLimits::UNBOUNDED };

thread_local! {
    /// Documents that parse all texts of the run: a text must not affect the next one.
    static RECYCLED: RefCell<(Doc, Doc)> = RefCell::default();
}

pub fn run(text: &[u8]) {
    RECYCLED.with_borrow_mut(|(doc, other)| check(text, doc, other));
}

fn check(text: &[u8], doc: &mut Doc, other: &mut Doc) {
    let ours = doc.parse_again(text, &LIMITS).map_err(|e| (e.kind(), e.offset()));
    let fresh = Doc::default().parse_again(text, &LIMITS).map_err(|e| (e.kind(), e.offset()));
    assert_eq!(ours, fresh, "a document that is used again parses differently");
    let mut taken = text.to_vec();
    let swapped = other.parse_taking(&mut taken, &LIMITS).map_err(|e| (e.kind(), e.offset()));
    assert_eq!(ours, swapped, "parse_taking differs from parse_again");
    assert!(taken.is_empty());

    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.disable_recursion_limit();
    let theirs = serde::Deserialize::deserialize(&mut reader)
        .and_then(|value: serde_json::Value| reader.end().map(|()| value));
    match (ours, theirs) {
        (Ok(()), Ok(theirs)) => accepted(doc, other, text, &theirs),
        (Ok(()), Err(e)) => panic!("only tinymcp accepts the text: {e}"),
        (Err((ErrorKind::Depth, _)), _) => {}
        (Err((kind, _)), Ok(_)) => panic!("only serde_json accepts the text: {kind:?}"),
        (Err((_, offset)), Err(_)) => assert!(offset <= text.len()),
    }
}

fn accepted(doc: &Doc, other: &mut Doc, text: &[u8], theirs: &serde_json::Value) {
    let root = doc.root();
    same(root, theirs);
    same(other.root(), theirs);
    assert_eq!(doc.text().as_bytes(), text);
    let mut writer = Writer::new();
    writer.value(root);
    let mut written = writer.into_bytes();
    other.parse_taking(&mut written, &LIMITS).expect("the writer writes JSON");
    same(other.root(), theirs);
    let unique = ParseLimits { unique_names: true, ..LIMITS };
    let strict = other.parse_again(text, &unique).map_err(|e| e.kind());
    assert_eq!(strict, if repeats(root) { Err(ErrorKind::DuplicateName) } else { Ok(()) });
}

fn same(ours: Value<'_>, theirs: &serde_json::Value) {
    use serde_json::Value as Theirs;
    match theirs {
        Theirs::Null => assert!(ours.is_null()),
        Theirs::Bool(value) => assert_eq!(ours.as_bool(), Some(*value)),
        Theirs::Number(number) => {
            assert_eq!(ours.as_i64(), number.as_i64());
            assert_eq!(ours.as_u64(), number.as_u64());
            assert_eq!(ours.as_f64().map(f64::to_bits), number.as_f64().map(f64::to_bits));
        }
        Theirs::String(text) => assert_eq!(ours.as_str(), Some(text.as_str())),
        Theirs::Array(items) => {
            assert_eq!((ours.kind(), ours.len()), (Kind::Array, items.len()));
            ours.items().zip(items).for_each(|(ours, theirs)| same(ours, theirs));
        }
        Theirs::Object(members) => {
            assert_eq!(ours.kind(), Kind::Object);
            let names: HashSet<&str> = ours.members().map(|(name, _)| name).collect();
            assert_eq!(names.len(), members.len());
            for (name, theirs) in members {
                same(ours.get(name).expect("a member of this name"), theirs);
            }
        }
    }
}

/// True if an object anywhere in the value has duplicate names.
fn repeats(value: Value<'_>) -> bool {
    let mut names = HashSet::new();
    value.members().any(|(name, _)| !names.insert(name))
        || value.members().any(|(_, member)| repeats(member))
        || value.items().any(repeats)
}
