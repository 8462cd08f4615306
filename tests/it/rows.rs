//! Requirement rows of `tests/transcripts/rows.txt` checked against the transcripts.
//!
//! Each line of the list is an id and either its proof or the reason why no server can show it.
//! Rows that only HTTP has are shown by the tests of `tests/http`, which name them in comments of
//! the same form. The transcripts together name every row that the list calls shown, and only
//! rows of the list. `-` marks a transcript of behaviour outside the specification.

use std::collections::{BTreeMap, BTreeSet};

use crate::{FOLDERS, root, script, transcripts};

/// Rows of the list; true for a row that a transcript must show.
fn rows() -> BTreeMap<String, bool> {
    let text = std::fs::read_to_string(root().join("rows.txt")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (id, rest) =
            line.split_once(' ').unwrap_or_else(|| panic!("{line:?} has no proof and no reason"));
        let shown = match rest.split_once(": ") {
            None if rest == "shown by transcript" => true,
            None if rest == "shown by tests/http" => continue,
            Some(("not for a server", reason)) if reason.len() > 10 => false,
            _ => panic!("{line:?} has no valid proof or reason"),
        };
        assert!(rows.insert(id.to_owned(), shown).is_none(), "{id} is listed twice");
    }
    rows
}

#[test]
fn http_tests_name_exactly_the_rows_of_the_list() {
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
fn transcripts_name_exactly_the_rows_of_the_list() {
    let rows = rows();
    let mut shown = BTreeSet::new();
    for path in FOLDERS.iter().flat_map(|folder| transcripts(folder)) {
        for id in script::load(&root(), &path).unwrap().shows {
            // Behaviour outside the specification.
            if id == "-" {
                continue;
            }
            assert!(rows.contains_key(&id), "{path} names an unknown row {id}");
            assert!(rows[&id], "{path} shows {id}, which the list calls not testable");
            shown.insert(id);
        }
    }
    let missing: Vec<&String> =
        rows.iter().filter(|(id, claimed)| **claimed && !shown.contains(*id)).map(|(id, _)| id).collect();
    assert!(missing.is_empty(), "shown by no transcript: {missing:?}");
}
