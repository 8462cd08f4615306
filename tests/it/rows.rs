//! Which requirements the transcripts show: `tests/transcripts/rows.txt` against the files.
//!
//! Each line of that list is an id and either what shows it or why nothing of a server can; what only
//! HTTP has is shown by the tests of `tests/http`, which name their rows in comments of the same form.
//! The two sides are held to each other: a row that is claimed to be shown is named by a
//! transcript, and a transcript names only rows of the list.

use std::collections::{BTreeMap, BTreeSet};

use crate::{FOLDERS, root, script, transcripts};

/// The rows of the list, and whether a transcript shows them.
fn rows() -> BTreeMap<String, bool> {
    let text = std::fs::read_to_string(root().join("rows.txt")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (id, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} says nothing of its row"));
        let shown = match rest.split_once(": ") {
            None if rest == "shown by transcript" => true,
            None if rest == "shown by tests/http" => continue,
            Some(("not for a server", reason)) if reason.len() > 10 => false,
            _ => panic!("{line:?} says neither that the row is shown nor why it cannot be"),
        };
        assert!(rows.insert(id.to_owned(), shown).is_none(), "{id} is there twice");
    }
    rows
}

#[test]
fn every_row_of_http_is_named_by_a_test_and_every_row_named_is_listed() {
    let list = std::fs::read_to_string(root().join("rows.txt")).unwrap();
    let listed: BTreeSet<&str> =
        list.lines().filter_map(|line| line.strip_suffix(" shown by tests/http")).collect();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/http");
    let mut named = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("// shows: "));
        named.extend(lines.flat_map(str::split_whitespace).map(str::to_owned));
    }
    assert_eq!(listed, named.iter().map(String::as_str).collect());
}

#[test]
fn every_row_claimed_as_shown_is_shown_and_every_row_shown_is_listed() {
    let rows = rows();
    let mut shown = BTreeSet::new();
    for path in FOLDERS.iter().flat_map(|folder| transcripts(folder)) {
        for id in script::load(&root(), &path).unwrap().shows {
            assert!(rows.contains_key(&id), "{path} names the unknown row {id}");
            assert!(rows[&id], "{path} shows {id}, which the list says nothing can");
            shown.insert(id);
        }
    }
    let missing: Vec<&String> =
        rows.iter().filter(|(id, claimed)| **claimed && !shown.contains(*id)).map(|(id, _)| id).collect();
    assert!(missing.is_empty(), "claimed as shown, but no transcript names them: {missing:?}");
}
