//! Requirement ids that code, tests and transcripts cite are in the manual's list.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words of the same form that are not requirement ids.
const OTHER: &[&str] = &["UTF-16"];

/// Words such as `NEG-04`: capitals and digits, a hyphen, two digits.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.split(move |c: char| !part_of_word(c)).filter(|word| {
        word.split_once('-').is_some_and(|(family, number)| {
            (2..=6).contains(&family.len())
                && family.starts_with(|c: char| c.is_ascii_uppercase())
                && family.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
                && number.len() == 2
                && number.bytes().all(|b| b.is_ascii_digit())
        })
    })
}

/// Text files of a folder and its subfolders, without output of scripts and builds.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !["node_modules", "target", "out", "venv", "corpus"].contains(&name) && !name.starts_with('.')
            {
                texts(&path, found);
            }
        } else if [".rs", ".txt", ".md", ".sh"].iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
}

#[test]
fn every_cited_requirement_is_in_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = root.join("src/manual/requirements.md");
    let list = fs::read_to_string(&page).unwrap();
    let mut listed = BTreeSet::new();
    for row in list.lines().filter_map(|line| line.strip_prefix("| ")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        if ids(cells[0]).next() == Some(cells[0]) {
            assert!(
                cells.len() == 4 && cells[1].ends_with('.'),
                "an id, a sentence, revisions, a page: {row}"
            );
            assert!(listed.insert(cells[0]), "{} is listed twice", cells[0]);
        }
    }
    assert!(listed.len() > 300, "{} requirements", listed.len());
    let (mut files, mut cited, mut faults) = (Vec::new(), BTreeSet::new(), Vec::new());
    for folder in ["src", "tests", "examples", "conformance"] {
        texts(&root.join(folder), &mut files);
    }
    for path in files.iter().filter(|path| **path != page && !path.ends_with("tests/tidy/requirements.rs")) {
        let Ok(text) = fs::read_to_string(path) else { continue };
        for id in ids(&text).filter(|id| !OTHER.contains(id)) {
            if !listed.contains(id) {
                faults.push(format!("{}: {id} is not in {}", path.display(), page.display()));
            }
            cited.insert(id.to_owned());
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    assert!(cited.len() > 300, "only {} ids are cited", cited.len());
}
