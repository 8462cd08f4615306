//! Definition files of `tinymcp serve`: every file is read or rejected. Each problem and warning has
//! the file, a line and a pointer that exist, and a message. A file without problems can be served.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use definition_files::{Problem, read};
use tinymcp::json::{Doc, without_comments};

/// The file that each run writes, in memory where the system has such a folder.
fn file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = folder.join(format!("tinymcp-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the file");
        folder.join("tools.json")
    })
}

pub fn run(bytes: &[u8]) {
    let file = file();
    fs::write(file, bytes).expect("the file is written");
    let doc = Doc::parse(without_comments(bytes)).ok();
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    // A pointer to one of two members with the same name may resolve to the other one.
    let check = |problem: &Problem, is_unique: bool| {
        let Problem { file: named, line, pointer, message } = problem;
        assert_eq!(named, file, "{message}");
        // Without a line, the whole file is meant.
        let is_whole = *line == 0 && pointer.is_empty();
        assert!(is_whole || (1..=lines).contains(line), "line {line}: {message}");
        assert!(!message.trim().is_empty(), "{pointer}: no message");
        match &doc {
            Some(doc) => {
                let exists = !is_unique || doc.root().pointer(pointer).is_some();
                assert!(exists, "{pointer}: nothing there: {message}");
            }
            None => assert_eq!(pointer, "", "{message}"),
        }
    };
    match read(file) {
        Ok(definition) => {
            assert!(doc.is_some(), "a text that is not JSON is accepted");
            if !definition.has_sandbox() {
                definition.warnings().iter().for_each(|warning| check(warning, true));
            }
            if !definition.has_folders() {
                if let Err(error) = definition.register() {
                    panic!("a file without problems is not served: {error}");
                }
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "rejected without a problem");
            assert!(doc.is_some() || problems.len() == 1, "problems of a text that is not JSON");
            let is_unique = !problems.iter().any(|problem| problem.message.contains("has this member twice"));
            problems.iter().for_each(|problem| check(problem, is_unique));
        }
    }
}
